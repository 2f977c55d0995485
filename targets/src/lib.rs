//! Targets: which operation runs on which unit with which operand and result layouts.
//!
//! A target is a TOML file. Operations are named by their family (see
//! `OpDecl::family`); a family without a row is a barrier: row-major in, row-major out.
//!
//! ```toml
//! name = "cpu"
//! summary = "one line"
//! spelling = "order"            # or "block": how chosen layouts are written
//! [[memory]]
//! name = "dram"
//! bandwidth = 20.0e9            # bytes a second
//! [units.core]
//! summary = "what it is"
//! [families]
//! elementwise = { unit = "core", accept = "common-order" }
//! ```

use serde::Deserialize;
use std::collections::BTreeMap;
use thiserror::Error;

/// One level of memory.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct MemoryLevel {
    /// Its name.
    pub name: String,
    /// Its size in bytes; absent for main memory.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Bytes a second.
    pub bandwidth: f64,
}

/// One functional unit.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// What it does.
    pub summary: String,
}

/// Which layouts the operands and results of a family may have.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum Accept {
    /// Row-major everywhere.
    RowMajor,
    /// One common digit order for all full-size operands and the result; broadcast operands have
    /// any restriction of it.
    CommonOrder,
    /// A contraction: M, N and batch are any digit lists, K is one run, batch is never innermost.
    ContractRuns,
    /// Batch, channels, spatial or batch, spatial, channels.
    ChannelOrders,
    /// A common block order whose innermost run has at least `run` elements of one dimension.
    MinRun,
    /// Blocks of `block` elements along the last dimension, grid in any order.
    LastBlock,
    /// Any layout.
    Any,
}

/// The row of one family.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct FamilyRow {
    /// The unit that runs it.
    pub unit: String,
    /// The layouts it accepts.
    pub accept: Accept,
    /// For `min-run`: elements.
    #[serde(default)]
    pub run: Option<u64>,
    /// For `last-block`: elements.
    #[serde(default)]
    pub block: Option<u64>,
    /// Whether the lowering has a kernel and a bench that shows its price.
    #[serde(default)]
    pub kernel: bool,
}

/// How the target writes the layouts it chooses.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// `order = […]` alone where possible; row-major is written as no encoding.
    Order,
    /// `block = "128C", order = […]` where the last dimension allows it.
    Block,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    summary: String,
    spelling: Style,
    #[serde(default)]
    block: Option<u64>,
    #[serde(default)]
    memory: Vec<MemoryLevel>,
    units: BTreeMap<String, Unit>,
    families: BTreeMap<String, FamilyRow>,
}

/// A target. Every unit that a family names exists; every parameter a rule needs is positive.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its name, as `--target` and `hbir.target` give it.
    pub name: String,
    /// One line.
    pub summary: String,
    /// How chosen layouts are written.
    pub style: Style,
    /// The block of [`Style::Block`], in elements.
    pub block: u64,
    /// Memory levels, outermost first.
    pub memory: Vec<MemoryLevel>,
    /// Units by name.
    pub units: BTreeMap<String, Unit>,
    /// Rows by family.
    pub families: BTreeMap<String, FamilyRow>,
}

/// Why a target file is refused.
#[derive(Debug, Error)]
pub enum TargetError {
    /// No built-in target has this name.
    #[error("unknown target `{name}`, wanted one of {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The file is not TOML of the right form.
    #[error("target file: {0}")]
    Syntax(#[from] toml::de::Error),
    /// A row names a unit that does not exist.
    #[error("family `{family}` runs on unit `{unit}`, which is not declared under [units]")]
    MissingUnit {
        /// The family.
        family: String,
        /// The unit.
        unit: String,
    },
    /// A rule lacks its parameter.
    #[error("family `{family}` accepts `{rule}`, which needs `{parameter}` of at least 1")]
    MissingParameter {
        /// The family.
        family: String,
        /// The rule.
        rule: &'static str,
        /// The missing key.
        parameter: &'static str,
    },
}

const BUILTIN: &[(&str, &str)] = &[
    ("cpu", include_str!("../builtin/cpu.toml")),
    ("journey6", include_str!("../builtin/journey6.toml")),
];

/// The rule of families that have no row.
pub const NO_ROW: Accept = Accept::RowMajor;

impl Target {
    /// The names of the built-in targets.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        BUILTIN.iter().map(|(name, _)| *name).collect()
    }

    /// The built-in target of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn builtin(name: &str) -> Result<Target, TargetError> {
        let text = Self::source(name).ok_or_else(|| TargetError::Unknown {
            name: name.to_owned(),
            known: Self::names().join(", "),
        })?;
        Self::parse(text)
    }

    /// The TOML text of the built-in target of this name.
    #[must_use]
    pub fn source(name: &str) -> Option<&'static str> {
        BUILTIN
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, text)| *text)
    }

    /// Reads a target file.
    ///
    /// # Errors
    /// Its syntax, a unit that is missing, a rule without its parameter.
    pub fn parse(text: &str) -> Result<Target, TargetError> {
        let file: File = toml::from_str(text)?;
        for (family, row) in &file.families {
            check_row(family, row, &file.units)?;
        }
        Ok(Target {
            name: file.name,
            summary: file.summary,
            style: file.spelling,
            block: file.block.unwrap_or(128).max(1),
            memory: file.memory,
            units: file.units,
            families: file.families,
        })
    }

    /// The row of a family, if it has one.
    #[must_use]
    pub fn row(&self, family: &str) -> Option<&FamilyRow> {
        self.families.get(family)
    }

    /// The rule of a family.
    #[must_use]
    pub fn accept(&self, family: &str) -> Accept {
        self.row(family).map_or(NO_ROW, |row| row.accept)
    }
}

fn check_row(
    family: &str,
    row: &FamilyRow,
    units: &BTreeMap<String, Unit>,
) -> Result<(), TargetError> {
    if !units.contains_key(&row.unit) {
        let (family, unit) = (family.to_owned(), row.unit.clone());
        return Err(TargetError::MissingUnit { family, unit });
    }
    let missing = |rule, parameter| {
        Err(TargetError::MissingParameter {
            family: family.to_owned(),
            rule,
            parameter,
        })
    };
    match row.accept {
        Accept::MinRun if row.run.unwrap_or(0) == 0 => missing("min-run", "run"),
        Accept::LastBlock if row.block.unwrap_or(0) == 0 => missing("last-block", "block"),
        Accept::RowMajor
        | Accept::CommonOrder
        | Accept::ContractRuns
        | Accept::ChannelOrders
        | Accept::MinRun
        | Accept::LastBlock
        | Accept::Any => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_targets_parse() {
        for name in Target::names() {
            let target = Target::builtin(name).unwrap();
            assert_eq!(target.name, name);
            assert!(!target.families.is_empty());
        }
    }

    #[test]
    fn faults_are_named() {
        let text = "name='t'\nsummary=''\nspelling='order'\n[units]\n[families]\nconv={unit='x',accept='any'}";
        let error = Target::parse(text).unwrap_err().to_string();
        assert_eq!(
            error,
            "family `conv` runs on unit `x`, which is not declared under [units]"
        );
        let text = "name='t'\nsummary=''\nspelling='order'\n[units.x]\nsummary=''\n[families]\nconv={unit='x',accept='last-block'}";
        let error = Target::parse(text).unwrap_err().to_string();
        assert_eq!(
            error,
            "family `conv` accepts `last-block`, which needs `block` of at least 1"
        );
        assert!(Target::parse("name = 3").is_err());
        let error = Target::builtin("gpu").unwrap_err().to_string();
        assert_eq!(error, "unknown target `gpu`, wanted one of cpu, journey6");
    }
}
