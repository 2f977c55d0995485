//! Attributes: constant data attached to operations, functions and modules.

use crate::types::{DType, Type};
use std::sync::Arc;

/// A value known at compile time.
#[derive(Clone, PartialEq, Debug)]
pub enum Attr {
    /// `unit`: present, without a value.
    Unit,
    /// `true` or `false`.
    Bool(bool),
    /// An integer. `None` means type `i64`, which is not printed (`4`); any other type is printed (`4 : si32`).
    Int(i64, Option<DType>),
    /// A float. `None` means type `f64`, which is not printed; any other type is printed (`1.0 : f32`).
    Float(f64, Option<DType>),
    /// A string.
    Str(Arc<str>),
    /// A list.
    Array(Vec<Attr>),
    /// A nested dictionary.
    Dict(AttrDict),
    /// A type.
    Type(Type),
    /// `@name`.
    Symbol(Arc<str>),
    /// `dense<…> : tensor<…>`: the row-major elements of the tensor type, as little-endian bytes. A bool takes one
    /// byte, and so does an integer of fewer than 8 bits.
    Dense(Arc<Dense>),
    /// `#hbir.external<"file", offset, length>`: bytes in a file, little-endian, row-major.
    External {
        /// The file, relative to the program's folder.
        file: Arc<str>,
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        length: u64,
    },
    /// Any other attribute, kept as its text.
    Raw(Arc<str>),
}

/// Elements of a tensor constant.
#[derive(Clone, PartialEq, Debug)]
pub struct Dense {
    /// The tensor type the attribute is written with.
    pub ty: Type,
    /// Row-major little-endian bytes; those of one element if `splat`.
    pub bytes: Vec<u8>,
    /// True if `bytes` holds one element, which is the value at every position.
    pub splat: bool,
}

impl Attr {
    /// The integer, if it is one.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Attr::Int(n, _) => Some(*n),
            _ => None,
        }
    }
    /// The number as a float, if it is an integer or a float.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "attributes that stand for numbers are small"
    )]
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Attr::Float(x, _) => Some(*x),
            Attr::Int(n, _) => Some(*n as f64),
            _ => None,
        }
    }
    /// The truth value, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Attr::Bool(b) => Some(*b),
            _ => None,
        }
    }
    /// The string, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Attr::Str(s) => Some(s),
            _ => None,
        }
    }
    /// The list, if it is one.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Attr]> {
        match self {
            Attr::Array(a) => Some(a),
            _ => None,
        }
    }
    /// The list of integers, if it is one.
    #[must_use]
    pub fn as_ints(&self) -> Option<Vec<i64>> {
        self.as_array()?.iter().map(Attr::as_int).collect()
    }
    /// A list of integers.
    pub fn ints<T: Copy + TryInto<i64>>(items: &[T]) -> Attr {
        let int = |&n: &T| Attr::Int(n.try_into().unwrap_or(i64::MAX), None);
        Attr::Array(items.iter().map(int).collect())
    }
    /// A string.
    #[must_use]
    pub fn str(text: &str) -> Attr {
        Attr::Str(Arc::from(text))
    }
    /// An `i64` integer.
    #[must_use]
    pub fn int(n: i64) -> Attr {
        Attr::Int(n, None)
    }
    /// An `f64` float.
    #[must_use]
    pub fn float(x: f64) -> Attr {
        Attr::Float(x, None)
    }
}

/// Named attributes; printed in the order of their names.
///
/// The entries are sorted by name, each name once: dictionaries are small, and most are empty.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AttrDict(Vec<(Arc<str>, Attr)>);

impl AttrDict {
    /// No attributes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// The attribute of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.find(name).ok().map(|at| &self.0[at].1)
    }
    /// The index of the name (`Ok`), or the index at which to insert it (`Err`).
    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }
    /// Sets an attribute, keeping the dictionary sorted by name.
    pub fn set(&mut self, name: &str, attr: Attr) {
        match self.find(name) {
            Ok(at) => self.0[at].1 = attr,
            Err(at) => self.0.insert(at, (Arc::from(name), attr)),
        }
    }
    /// `self` with one more attribute.
    #[must_use]
    pub fn with(mut self, name: &str, attr: Attr) -> Self {
        self.set(name, attr);
        self
    }
    /// Removes an attribute.
    pub fn remove(&mut self, name: &str) -> Option<Attr> {
        self.find(name).ok().map(|at| self.0.remove(at).1)
    }
    /// The attributes, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attr)> {
        self.0.iter().map(|(k, v)| (&**k, v))
    }
    /// The symbols (names of functions) in attributes: symbol attributes and the entries of array attributes.
    pub fn symbols(&self) -> impl Iterator<Item = &str> {
        let listed = self.0.iter().flat_map(|(_, attr)| match attr {
            Attr::Array(all) => &all[..],
            other => std::slice::from_ref(other),
        });
        listed.filter_map(|attr| match attr {
            Attr::Symbol(name) => Some(&**name),
            _ => None,
        })
    }
    /// The number of attributes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Returns whether the dictionary has no attributes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The integer of this name.
    #[must_use]
    pub fn int(&self, name: &str) -> Option<i64> {
        self.get(name)?.as_int()
    }
    /// The integers of this name.
    #[must_use]
    pub fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.get(name)?.as_ints()
    }
    /// The string of this name.
    #[must_use]
    pub fn str(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }
    /// The number of this name.
    #[must_use]
    pub fn float(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_float()
    }
    /// The truth value of this name; `false` when absent, `true` for `unit`.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Attr::Bool(true) | Attr::Unit))
    }
}

impl<'a> FromIterator<(&'a str, Attr)> for AttrDict {
    fn from_iter<I: IntoIterator<Item = (&'a str, Attr)>>(iter: I) -> Self {
        let mut dict = AttrDict::new();
        for (name, attr) in iter {
            dict.set(name, attr);
        }
        dict
    }
}
