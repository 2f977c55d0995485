//! Precisions of products of f32.

use crate::{Target, TargetError};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// How exactly a machine multiplies numbers of f32 in products and convolutions. The sums have f32 at each of them.
///
/// ```
/// use optc_target::{Precision, Target};
///
/// let tpu = Target::builtin("tpu")?;
/// assert_eq!(tpu.precision, None);
/// assert_eq!(tpu.with_precision(Precision::Bf16)?.precision, Some(Precision::Bf16));
/// assert_eq!("bf16".parse::<Precision>()?, Precision::Bf16);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// All 24 bits of a factor, as IEEE 754 defines the product.
    #[default]
    Ieee,
    /// Three products of bfloat16 for one of f32: about 16 bits of a factor.
    Bf16x3,
    /// Factors rounded to bfloat16: 8 bits.
    Bf16,
    /// Three products of TF32 for one of f32: about 22 bits of a factor.
    Tf32x3,
    /// Factors rounded to TF32: 11 bits.
    Tf32,
}

impl Precision {
    /// The words of the command line, the most exact one first.
    pub const NAMES: [&'static str; 5] = {
        let mut names = [""; 5];
        let mut at = 0;
        while at < names.len() {
            names[at] = Precision::ALL[at].name();
            at += 1;
        }
        names
    };

    /// The attribute of a product that keeps what an HLO or StableHLO program states, in HLO's form `{highest,highest}`.
    pub const STATED: &'static str = "hlo.operand_precision";

    const ALL: [Precision; 5] = [
        Precision::Ieee,
        Precision::Tf32x3,
        Precision::Bf16x3,
        Precision::Tf32,
        Precision::Bf16,
    ];

    /// The word of the command line and of a target's file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Precision::Ieee => "ieee",
            Precision::Bf16x3 => "bf16x3",
            Precision::Bf16 => "bf16",
            Precision::Tf32x3 => "tf32x3",
            Precision::Tf32 => "tf32",
        }
    }

    /// The word of XLA (`operand_precision`) and, in capitals, of StableHLO and JAX: `highest`, `high` or `default`.
    #[must_use]
    pub fn xla(self) -> &'static str {
        match self {
            Precision::Ieee => "highest",
            Precision::Bf16x3 | Precision::Tf32x3 => "high",
            Precision::Bf16 | Precision::Tf32 => "default",
        }
    }

    /// The precision of a product whose own text of XLA is `stated` (`{default,highest}`), where `asked` is that of the
    /// program's other products. A product that states more than XLA's default keeps every bit; the default itself is
    /// no statement, as JAX writes it everywhere.
    #[must_use]
    pub fn of_product(stated: Option<&str>, asked: Option<Precision>) -> Precision {
        let exact = stated.is_some_and(|text| text.contains("high"));
        asked.filter(|_| !exact).unwrap_or_default()
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Precision {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Precision, TargetError> {
        let found = Precision::ALL.into_iter().find(|p| p.name() == text);
        found.ok_or_else(|| TargetError::UnknownPrecision {
            name: text.to_owned(),
            known: Precision::NAMES.join(", "),
        })
    }
}

/// Rates of products of f32 below IEEE's precision, in operations a second.
///
/// ```toml
/// f32 = { bf16 = 197.0e12 }
/// ```
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(transparent)]
pub struct Precisions(BTreeMap<Precision, crate::rates::Rate>);

impl Precisions {
    /// Operations a second at a precision; `None` if the file states none.
    #[must_use]
    pub fn of(&self, precision: Precision) -> Option<f64> {
        self.0.get(&precision).map(|rate| rate.0)
    }

    /// The precisions of the file and their operations a second.
    pub fn iter(&self) -> impl Iterator<Item = (Precision, f64)> + '_ {
        self.0.iter().map(|(&precision, rate)| (precision, rate.0))
    }
}

impl Target {
    /// The target with products of f32 at this precision.
    ///
    /// # Errors
    /// No unit has a rate for it. Every target has [`Precision::Ieee`].
    pub fn with_precision(mut self, precision: Precision) -> Result<Target, TargetError> {
        let units = self.units.values();
        let known = units.flat_map(|unit| unit.f32.iter().map(|(precision, _)| precision));
        let known: Vec<Precision> = [Precision::Ieee].into_iter().chain(known).collect();
        if !known.contains(&precision) {
            let words: Vec<String> = known.iter().map(|p| format!("`{p}`")).collect();
            return Err(TargetError::Precision {
                name: self.name,
                precision,
                known: words.join(" or "),
            });
        }
        self.precision = Some(precision);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for (precision, name) in Precision::ALL.into_iter().zip(Precision::NAMES) {
            assert_eq!(name.parse::<Precision>().unwrap(), precision);
        }
        let error = "fp32".parse::<Precision>().unwrap_err().to_string();
        let wanted = "unknown precision `fp32`, wanted one of ieee, tf32x3, bf16x3, tf32, bf16";
        assert_eq!(error, wanted);
    }

    #[test]
    fn a_product_that_states_a_high_precision_keeps_every_bit() {
        let asked = Some(Precision::Bf16);
        for (stated, wanted) in [
            (None, Precision::Bf16),
            (Some("{default,default}"), Precision::Bf16),
            (Some("{highest,highest}"), Precision::Ieee),
            (Some("{default,high}"), Precision::Ieee),
        ] {
            assert_eq!(Precision::of_product(stated, asked), wanted, "{stated:?}");
        }
        assert_eq!(Precision::of_product(None, None), Precision::Ieee);
    }

    #[test]
    fn a_target_refuses_a_precision_that_it_has_no_rate_for() {
        for name in Target::names() {
            let target = Target::builtin(name).unwrap();
            assert!(
                target.clone().with_precision(Precision::Ieee).is_ok(),
                "{name}"
            );
            let rates = target.units.values().flat_map(|unit| unit.f32.iter());
            for (precision, rate) in rates {
                let ieee = target
                    .units
                    .values()
                    .find_map(|unit| unit.rates.of(true, 32));
                assert!(ieee < Some(rate), "{name} {precision}");
            }
        }
        let cpu = Target::builtin("cpu").unwrap();
        let error = cpu.with_precision(Precision::Tf32).unwrap_err().to_string();
        assert_eq!(
            error,
            "target `cpu` has no products of f32 at `tf32`, wanted `ieee`"
        );
        let tpu = Target::builtin("tpu").unwrap();
        let error = tpu.with_precision(Precision::Tf32).unwrap_err().to_string();
        assert_eq!(
            error,
            "target `tpu` has no products of f32 at `tf32`, wanted `ieee` or `bf16`"
        );
    }
}
