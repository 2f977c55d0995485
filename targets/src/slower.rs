//! Orders in which kernels take longer, port by port, on machines without tiles.

use crate::price::{Factor, Price, PricedPort};
use crate::roles::{PortRole, When, either};
use serde::Deserialize;

/// What the operations of a row take longer where a port has a dimension of one of these roles innermost. What several
/// ports and entries ask for adds up.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Hash)]
#[serde(deny_unknown_fields)]
pub struct Slower {
    /// The generations that have it; all of the target's where left out.
    #[serde(default)]
    pub generations: Option<Vec<String>>,
    /// Of which operations; of all where left out.
    #[serde(default)]
    pub when: Option<When>,
    /// The port.
    pub port: PricedPort,
    /// The roles.
    pub innermost: Vec<PortRole>,
    /// How much longer, as a factor of the port's physical bytes: a conversion takes 2.
    pub factor: Factor,
}

impl Slower {
    /// What it costs.
    #[must_use]
    pub fn price(&self) -> Price {
        let (port, factor) = (self.port, self.factor);
        Price { port, factor }
    }

    /// Whether it is about a port that has a dimension of this role innermost.
    #[must_use]
    pub fn is_of(&self, innermost: PortRole) -> bool {
        self.innermost.iter().any(|role| role.covers(innermost))
    }

    /// In words.
    #[must_use]
    pub fn describe(&self) -> String {
        let (port, roles) = (self.port.name(), either(&self.innermost));
        let of = match self.when {
            Some(When::Pointwise) => " where it is pointwise",
            Some(When::Depthwise) => " where each channel is for itself",
            Some(When::Mixing) => " where channels are mixed",
            Some(When::Patches) => " where each position is read once",
            Some(When::Untiled) | None => "",
        };
        format!(
            "{roles} innermost in {port}{of} {}",
            self.price().describe()
        )
    }

    /// What contradicts itself in it.
    pub(crate) fn fault(&self, tiled: bool) -> Option<String> {
        let fault = match self.innermost.first() {
            _ if tiled || self.when == Some(When::Untiled) => {
                "which is read on machines without tiles"
            }
            None => "with `innermost` without a role",
            Some(_) => return self.fault_of_roles(),
        };
        Some(format!("has `slower`, {fault}"))
    }

    fn fault_of_roles(&self) -> Option<String> {
        let lacks = match self.port {
            PricedPort::Left => PortRole::N,
            PricedPort::Right => PortRole::M,
            PricedPort::Result => PortRole::K,
        };
        let mut all = self.innermost.iter().enumerate();
        let twice = all.find(|(i, role)| self.innermost[..*i].contains(role));
        let role = lacks.name();
        match twice {
            Some((_, role)) => Some(format!("has `slower` with `{}` twice", role.name())),
            None if self.innermost.contains(&lacks) => Some(format!(
                "has `slower` with `{role}` innermost in a port that has none"
            )),
            None => None,
        }
    }
}
