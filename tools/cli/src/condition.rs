//! Conditions on figures: `movement_bytes>0`, `transpose=2`, `before.reshape!=0`.

use indexmap::IndexMap;
use optc::Stats;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The figures that a condition may use: those after the passes, those before under `before.`, and the bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    values: IndexMap<String, u64>,
}

impl Figures {
    /// Adds the figures of a program after passes, those before, and the bound. Figures of another module of the same
    /// file are summed up.
    pub(crate) fn add(&mut self, after: &Stats, before: Option<&Stats>, bound: Option<u64>) {
        for (name, n) in after.fields() {
            self.more(name.to_owned(), n);
        }
        for (name, n) in before.into_iter().flat_map(Stats::fields) {
            self.more(format!("before.{name}"), n);
        }
        if let Some(n) = bound {
            self.more("lower_bound_bytes".to_owned(), n);
        }
    }

    fn more(&mut self, name: String, n: u64) {
        let value = self.values.entry(name).or_insert(0);
        *value = value.saturating_add(n);
    }

    fn get(&self, name: &str) -> Result<u64, ConditionError> {
        self.values.get(name).copied().ok_or_else(|| {
            let known: Vec<&str> = self.values.keys().map(String::as_str).collect();
            ConditionError::Name {
                name: name.to_owned(),
                known: known.join(", "),
            }
        })
    }
}

/// The reason why a condition cannot be read or tested.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConditionError {
    /// The text is not `name op number`.
    #[error("found the condition `{0}`, wanted a figure, one of = == != < <= > >=, and a number")]
    Syntax(String),
    /// There is no such figure.
    #[error("found no figure `{name}`, wanted one of {known}")]
    Name {
        /// The name that was asked for.
        name: String,
        /// The existing figures.
        known: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Compare {
    Equal,
    NotEqual,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// A comparison of one figure with a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Condition {
    name: String,
    compare: Compare,
    number: u64,
}

/// The operators. Longer ones come before their own prefixes.
const OPERATORS: [(&str, Compare); 7] = [
    ("==", Compare::Equal),
    ("!=", Compare::NotEqual),
    ("<=", Compare::AtMost),
    (">=", Compare::AtLeast),
    ("=", Compare::Equal),
    ("<", Compare::Less),
    (">", Compare::More),
];

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Condition, ConditionError> {
        let syntax = || ConditionError::Syntax(text.to_owned());
        let at = text.find(['=', '!', '<', '>']).ok_or_else(syntax)?;
        let (name, rest) = (text[..at].trim(), &text[at..]);
        let (sign, compare) = OPERATORS
            .iter()
            .find(|(sign, _)| rest.starts_with(sign))
            .ok_or_else(syntax)?;
        let number = rest[sign.len()..].trim().replace('_', "");
        let number = number.parse().map_err(|_| syntax())?;
        if name.is_empty() {
            return Err(syntax());
        }
        Ok(Condition {
            name: name.to_owned(),
            compare: *compare,
            number,
        })
    }
}

impl Condition {
    /// Returns whether the condition holds, and the figure's value.
    pub(crate) fn test(&self, figures: &Figures) -> Result<(bool, u64), ConditionError> {
        let value = figures.get(&self.name)?;
        let holds = match self.compare {
            Compare::Equal => value == self.number,
            Compare::NotEqual => value != self.number,
            Compare::Less => value < self.number,
            Compare::AtMost => value <= self.number,
            Compare::More => value > self.number,
            Compare::AtLeast => value >= self.number,
        };
        Ok((holds, value))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.compare {
            Compare::Equal => "=",
            Compare::NotEqual => "!=",
            Compare::Less => "<",
            Compare::AtMost => "<=",
            Compare::More => ">",
            Compare::AtLeast => ">=",
        };
        write!(f, "{}{sign}{}", self.name, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let values = [("view".to_owned(), 2), ("before.view".to_owned(), 0)];
        Figures {
            values: values.into_iter().collect(),
        }
    }

    #[track_caller]
    fn check(text: &str, wanted: Result<bool, ConditionError>) {
        let found = text
            .parse::<Condition>()
            .and_then(|c| c.test(&figures()))
            .map(|(b, _)| b);
        assert_eq!(found, wanted, "{text}");
    }

    #[test]
    fn comparisons() {
        for (text, wanted) in [
            ("view=2", true),
            ("view == 2", true),
            ("view!=2", false),
            ("view<2", false),
            ("view<=2", true),
            ("view>1", true),
            ("view>=3", false),
            ("before.view=0", true),
            ("view<1_000", true),
        ] {
            check(text, Ok(wanted));
        }
    }

    #[test]
    fn faults_are_named() {
        for text in ["view", "=2", "view=x", "view!2", "view=-1", ""] {
            check(text, Err(ConditionError::Syntax(text.to_owned())));
        }
        let known = "view, before.view".to_owned();
        check(
            "viev=2",
            Err(ConditionError::Name {
                name: "viev".to_owned(),
                known,
            }),
        );
    }
}
