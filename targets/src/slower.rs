//! Orders in which kernels are slower, port by port, on machines without tiles.

use crate::price::{Factor, Price, PricedPort};
use crate::roles::{PortRole, When, either};
use serde::Deserialize;

/// The extra time of a row's operations if a port has a dimension of one of these roles innermost, or has the
/// dimensions of one in several runs. The times of several ports and entries add up.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Hash)]
#[serde(deny_unknown_fields)]
pub struct Slower {
    /// The generations that have it; the default is all of the target's.
    #[serde(default)]
    pub generations: Option<Vec<String>>,
    /// The operations to which it applies; the default is all.
    #[serde(default)]
    pub when: Option<When>,
    /// The port.
    pub port: PricedPort,
    /// The innermost roles.
    #[serde(default)]
    pub innermost: Vec<PortRole>,
    /// Instead of these, roles that are in several runs.
    #[serde(default)]
    pub several_runs: Vec<PortRole>,
    /// The extra time, as a factor of the port's physical bytes: a conversion takes 2.
    pub factor: Factor,
}

impl Slower {
    /// The extra time as a price.
    #[must_use]
    pub fn price(&self) -> Price {
        let (port, factor) = (self.port, self.factor);
        Price { port, factor }
    }

    /// Returns whether it applies to a port with a dimension of this role innermost.
    #[must_use]
    pub fn is_of(&self, innermost: PortRole) -> bool {
        self.innermost.iter().any(|role| role.covers(innermost))
    }

    /// Returns whether it applies to a port with dimensions of this role in several runs.
    #[must_use]
    pub fn is_of_runs(&self, role: PortRole) -> bool {
        self.several_runs.iter().any(|own| own.covers(role))
    }

    /// The roles to which it applies, in either way.
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
            Some(When::Unquantized) => " of floats that were not both dequantized",
            Some(When::Matrices) => " of two matrices",
            Some(When::Untiled) | None => "",
        };
        format!("{roles} {place} in {port}{of} {}", self.price().describe())
    }

    /// A contradiction in the entry.
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
