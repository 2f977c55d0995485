//! The keys and values of an encoding, between the IR's text and the notations.

use crate::error::LayoutError;

/// A value of one key of the encoding dictionary, as the IR's parser passes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// `offset = 3`
    Int(i64),
    /// `block = "2W2H"`
    Str(String),
    /// `order = [1, 0]`
    Ints(Vec<i64>),
    /// `order = [[0, 1], [1, 0]]`
    IntLists(Vec<Vec<i64>>),
}

/// The fields of an encoding, looked up by key.
pub(crate) struct Fields<'a>(&'a [(String, Field)]);

impl<'a> Fields<'a> {
    pub(crate) fn new(fields: &'a [(String, Field)]) -> Result<Self, LayoutError> {
        for (i, (key, _)) in fields.iter().enumerate() {
            if fields[..i].iter().any(|(other, _)| other == key) {
                return Err(LayoutError::RepeatedKey { key: key.clone() });
            }
        }
        Ok(Self(fields))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a Field> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, field)| field)
    }

    pub(crate) fn only(
        &self,
        known: impl Fn(&str) -> bool,
        wanted: &str,
    ) -> Result<(), LayoutError> {
        match self.0.iter().find(|(key, _)| !known(key)) {
            Some((key, _)) => Err(LayoutError::UnknownKey {
                key: key.clone(),
                wanted: wanted.to_owned(),
            }),
            None => Ok(()),
        }
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&'a str>, LayoutError> {
        match self.get(key) {
            None => Ok(None),
            Some(Field::Str(text)) => Ok(Some(text)),
            Some(_) => Err(of_kind(key, "a string")),
        }
    }

    pub(crate) fn int(&self, key: &str) -> Result<Option<i64>, LayoutError> {
        match self.get(key) {
            None => Ok(None),
            Some(Field::Int(value)) => Ok(Some(*value)),
            Some(_) => Err(of_kind(key, "a number")),
        }
    }

    /// A number that is at least `least`.
    pub(crate) fn natural(&self, key: &str, least: i64) -> Result<Option<u64>, LayoutError> {
        let Some(found) = self.int(key)? else {
            return Ok(None);
        };
        if found < least {
            let wanted = if least <= 0 { "0 or more" } else { "1 or more" };
            return Err(LayoutError::FieldRange {
                key: key.to_owned(),
                found,
                wanted,
            });
        }
        Ok(Some(found.unsigned_abs()))
    }

    pub(crate) fn ints(&self, key: &str) -> Result<Option<&'a [i64]>, LayoutError> {
        match self.get(key) {
            None => Ok(None),
            Some(Field::Ints(list)) => Ok(Some(list)),
            Some(Field::IntLists(lists)) if lists.is_empty() => Ok(Some(&[])),
            Some(_) => Err(of_kind(key, "a list of numbers")),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Indices as the numbers of a field.
fn of_kind(key: &str, wanted: &'static str) -> LayoutError {
    let key = key.to_owned();
    LayoutError::FieldKind { key, wanted }
}

pub(crate) fn as_ints(list: &[usize]) -> Vec<i64> {
    list.iter()
        .map(|&i| i64::try_from(i).unwrap_or(i64::MAX))
        .collect()
}

/// Checks that `list` is a permutation of `0..rank`.
pub(crate) fn permutation(
    key: &'static str,
    list: &[i64],
    rank: usize,
) -> Result<Vec<usize>, LayoutError> {
    let error = || LayoutError::NotPermutation {
        key,
        found: list.to_vec(),
        rank,
    };
    let mut seen = vec![false; rank];
    let mut order = Vec::with_capacity(rank);
    for &entry in list {
        let dim = usize::try_from(entry)
            .ok()
            .filter(|&dim| dim < rank)
            .ok_or_else(error)?;
        if std::mem::replace(&mut seen[dim], true) {
            return Err(error());
        }
        order.push(dim);
    }
    if order.len() == rank {
        Ok(order)
    } else {
        Err(error())
    }
}

/// A mistake at byte `offset` of the value of `key`.
pub(crate) fn syntax(key: &'static str, text: &str, offset: usize, wanted: &str) -> LayoutError {
    let found = match text.get(offset..).and_then(|rest| rest.chars().next()) {
        Some(c) => format!("`{c}`"),
        None => "the end".to_owned(),
    };
    LayoutError::Syntax {
        key,
        text: text.to_owned(),
        offset,
        found,
        wanted: wanted.to_owned(),
    }
}
