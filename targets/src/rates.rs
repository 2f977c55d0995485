//! Rates of units.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// Operations a second by element type; a product and a sum are two operations.
///
/// ```toml
/// rates = { f16 = 197.0e12, i8 = 394.0e12, 32 = 6.1e12 }
/// ```
///
/// A key is a class with a width in bits (`f` for floats, `i` for integers), or a width alone for both classes. A type
/// without a rate has that of the next wider type of its class.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(transparent)]
pub struct Rates(BTreeMap<RateOf, Rate>);

/// The element types to which one rate applies.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
enum RateOf {
    F64,
    F32,
    F16,
    F8,
    I64,
    I32,
    I16,
    I8,
    I4,
    #[serde(rename = "64")]
    W64,
    #[serde(rename = "32")]
    W32,
    #[serde(rename = "16")]
    W16,
    #[serde(rename = "8")]
    W8,
    #[serde(rename = "4")]
    W4,
}

impl RateOf {
    /// The key in the file.
    fn name(self) -> &'static str {
        match self {
            RateOf::F64 => "f64",
            RateOf::F32 => "f32",
            RateOf::F16 => "f16",
            RateOf::F8 => "f8",
            RateOf::I64 => "i64",
            RateOf::I32 => "i32",
            RateOf::I16 => "i16",
            RateOf::I8 => "i8",
            RateOf::I4 => "i4",
            RateOf::W64 => "64",
            RateOf::W32 => "32",
            RateOf::W16 => "16",
            RateOf::W8 => "8",
            RateOf::W4 => "4",
        }
    }
}

/// The keys of each width in bits, narrow widths first: for floats, for integers, for both.
const WIDTHS: [(u32, Option<RateOf>, Option<RateOf>, RateOf); 5] = [
    (4, None, Some(RateOf::I4), RateOf::W4),
    (8, Some(RateOf::F8), Some(RateOf::I8), RateOf::W8),
    (16, Some(RateOf::F16), Some(RateOf::I16), RateOf::W16),
    (32, Some(RateOf::F32), Some(RateOf::I32), RateOf::W32),
    (64, Some(RateOf::F64), Some(RateOf::I64), RateOf::W64),
];

/// Operations a second: finite, above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate(pub(crate) f64);

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Rate, D::Error> {
        let found = f64::deserialize(reader)?;
        if found.is_finite() && 0.0 < found {
            return Ok(Rate(found));
        }
        Err(D::Error::custom(format!(
            "a unit has a rate of {found}, wanted a number above 0 of operations a second"
        )))
    }
}

impl Rates {
    /// Operations a second on elements of this class and width in bits; `None` if neither this width nor a wider one
    /// has a rate.
    #[must_use]
    pub fn of(&self, float: bool, bits: u32) -> Option<f64> {
        let wide = WIDTHS.iter().filter(|(width, ..)| bits <= *width);
        wide.flat_map(|&(_, floats, integers, both)| {
            let own = if float { floats } else { integers };
            [own, Some(both)]
        })
        .flatten()
        .find_map(|key| self.0.get(&key))
        .map(|rate| rate.0)
    }

    /// The keys of the file and their operations a second.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        self.0.iter().map(|(key, rate)| (key.name(), rate.0))
    }
}

#[cfg(test)]
mod tests {
    use crate::Target;

    /// The target of this line about a unit.
    fn with(line: &str) -> Result<Target, crate::TargetError> {
        let head = "name='t'\nsummary=''\nspelling='order'\n";
        Target::parse(&format!("{head}[units.x]\nsummary=''\n{line}\n"))
    }

    #[test]
    fn a_type_has_its_own_rate_or_that_of_a_wider_one() {
        let target = with("rates = { f32 = 1, 16 = 2.0, i8 = 4.0e0 }").unwrap();
        let rates = &target.units["x"].rates;
        let cases = [
            (true, 64, None),
            (true, 32, Some(1.0)),
            (true, 16, Some(2.0)),
            (true, 8, Some(2.0)),
            (false, 32, None),
            (false, 16, Some(2.0)),
            (false, 8, Some(4.0)),
            (false, 4, Some(4.0)),
        ];
        for (float, bits, wanted) in cases {
            assert_eq!(rates.of(float, bits), wanted, "{float} {bits}");
        }
        let all: Vec<_> = rates.iter().collect();
        assert_eq!(all, [("f32", 1.0), ("i8", 4.0), ("16", 2.0)]);
        assert_eq!(with("").unwrap().units["x"].rates.iter().count(), 0);
    }

    #[test]
    fn wrong_rates_are_refused_at_their_place() {
        let head = "name='t'\nsummary=''\nspelling='order'\n[units.x]\nsummary=''\n";
        let cases = [
            ("rates={f32=-1.0}", "-1.0", "wanted a number above 0"),
            ("rates={f32=0}", "0", "wanted a number above 0"),
            ("rates={f32=nan}", "nan", "wanted a number above 0"),
            ("rates={f32=inf}", "inf", "wanted a number above 0"),
            ("rates={f32='1'}", "'1'", "expected f64"),
            ("rates={f33=1.0}", "f33", "unknown variant `f33`, expected"),
            ("rate={f32=1.0}", "rate", "unknown field `rate`, expected"),
            ("block=[8,0,128]", "0", "expected a nonzero u64"),
            ("block=[8,128]", "[8,128]", "expected an array of length 3"),
        ];
        for (line, place, wanted) in cases {
            let text = format!("{head}{line}\n");
            let error = Target::parse(&text).unwrap_err();
            assert!(error.to_string().contains(wanted), "{line}: {error}");
            let span = error.span().unwrap();
            assert_eq!(&text[span], place, "{line}");
        }
    }

    #[test]
    fn units_of_built_in_rows_that_compute_have_rates() {
        for name in Target::names() {
            let target = Target::builtin(name).unwrap();
            for family in [
                "matmul",
                "conv",
                "elementwise",
                "softmax",
                "norm",
                "reduce",
                "pool",
            ] {
                let row = target.row(family).unwrap();
                let rates = &target.units[&row.unit].rates;
                for (float, bits) in [(true, 32), (true, 16), (false, 8)] {
                    assert!(rates.of(float, bits).is_some(), "{name} {family} {bits}");
                }
            }
        }
    }
}
