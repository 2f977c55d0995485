//! Orders in which kernels take longer, port by port, on machines without tiles.

use crate::price::{Factor, Price, PricedPort};
use crate::roles::{PortRole, When, either};
use serde::Deserialize;

/// What the operations of a row take longer where a port has a dimension of one of these roles innermost, or dimensions of one
/// in several runs. What several ports and entries ask for adds up.
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
    #[serde(default)]
    pub innermost: Vec<PortRole>,
    /// In their place, roles that are in several runs.
    #[serde(default)]
    pub several_runs: Vec<PortRole>,
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

    /// Whether it is about a port that has dimensions of this role in several runs.
    #[must_use]
    pub fn is_of_runs(&self, role: PortRole) -> bool {
        self.several_runs.iter().any(|own| own.covers(role))
    }

    /// The roles that it is about, whichever way.
    fn roles(&self) -> &[PortRole] {
        match self.innermost.is_empty() {
            true => &self.several_runs,
            false => &self.innermost,
        }
    }

    /// In words.
    #[must_use]
    pub fn describe(&self) -> String {
        let (port, roles) = (self.port.name(), either(self.roles()));
        let place = match self.innermost.is_empty() {
            true => "in several runs",
            false => "innermost",
        };
        let of = match self.when {
            Some(When::Pointwise) => " where it is pointwise",
            Some(When::Depthwise) => " where each channel is for itself",
            Some(When::Mixing) => " where channels are mixed",
            Some(When::Patches) => " where each position is read once",
            Some(When::Floats) => " of floats",
            Some(When::Untiled) | None => "",
        };
        format!("{roles} {place} in {port}{of} {}", self.price().describe())
    }

    /// What contradicts itself in it.
    pub(crate) fn fault(&self, tiled: bool) -> Option<String> {
        let fault = match (self.innermost.first(), self.several_runs.first()) {
            _ if tiled || self.when == Some(When::Untiled) => {
                "which is read on machines without tiles"
            }
            (None, None) => "with `innermost` without a role",
            (Some(_), Some(_)) => "with `innermost` and `several_runs`, of which it has one",
            _ => return self.fault_of_roles(),
        };
        Some(format!("has `slower`, {fault}"))
    }

    fn fault_of_roles(&self) -> Option<String> {
        let lacks = match self.port {
            PricedPort::Left => PortRole::N,
            PricedPort::Right => PortRole::M,
            PricedPort::Result => PortRole::K,
        };
        let roles = self.roles();
        let mut all = roles.iter().enumerate();
        let twice = all.find(|(i, role)| roles[..*i].contains(role));
        let role = lacks.name();
        match twice {
            Some((_, role)) => Some(format!("has `slower` with `{}` twice", role.name())),
            None if roles.contains(&lacks) => Some(format!(
                "has `slower` with `{role}` in a port that has none"
            )),
            None => None,
        }
    }
}
