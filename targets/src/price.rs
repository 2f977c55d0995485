//! Prices of layouts, as factors of the bytes of a port.

use serde::Deserialize;

/// A port in a price.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum PricedPort {
    /// The first operand.
    Left,
    /// The second operand.
    Right,
    /// The result.
    Result,
}

impl PricedPort {
    /// The word in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PricedPort::Left => "left",
            PricedPort::Right => "right",
            PricedPort::Result => "result",
        }
    }

    /// Its number among the operands and then the results.
    #[must_use]
    pub fn index(self, n_operands: usize) -> usize {
        match self {
            PricedPort::Left => 0,
            PricedPort::Right => 1,
            PricedPort::Result => n_operands,
        }
    }
}

/// A factor in thousandths.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash)]
#[serde(try_from = "f64")]
pub struct Factor(u64);

impl Factor {
    /// The number of thousandths.
    #[must_use]
    pub fn thousandths(self) -> u64 {
        self.0
    }
}

/// A number that is no factor of a price.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "found a factor of {0}, wanted one from 0.001 to 1000; layouts that cost nothing have no price"
)]
pub struct FactorError(f64);

impl TryFrom<f64> for Factor {
    type Error = FactorError;

    fn try_from(factor: f64) -> Result<Factor, FactorError> {
        let thousandths = (factor * 1000.0).round();
        // Whole numbers of this size are exact in both types. The cast of a number that is out of range saturates.
        match thousandths as u32 {
            whole @ 1..=1_000_000 if factor <= 1000.0 => Ok(Factor(u64::from(whole))),
            _ => Err(FactorError(factor)),
        }
    }
}

/// The price of an alternative: a factor of the physical bytes of one port.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The port.
    pub port: PricedPort,
    /// The factor of its bytes.
    pub factor: Factor,
}

impl Price {
    /// The price for a port with this many bytes, fractions of a byte dropped.
    #[must_use]
    pub fn of(self, bytes: u64) -> u64 {
        let all = u128::from(bytes) * u128::from(self.factor.0) / 1000;
        u64::try_from(all).unwrap_or(u64::MAX)
    }

    /// In words.
    #[must_use]
    pub fn describe(self) -> String {
        let (whole, rest) = (self.factor.0 / 1000, self.factor.0 % 1000);
        let rest = format!("{rest:03}");
        let rest = rest.trim_end_matches('0');
        let point = if rest.is_empty() { "" } else { "." };
        let port = self.port.name();
        format!("at a price of {whole}{point}{rest} times the bytes of {port}")
    }
}
