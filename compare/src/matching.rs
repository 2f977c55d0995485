//! Matches the arguments, results and size names of two programs.

use indexmap::{IndexMap, IndexSet};
use optc_interp::{argument_keys, result_keys, type_text};
use optc_ir::{Bindings, Dim, Func, Size, Tensor, Type};
use std::sync::Arc;
use thiserror::Error;

/// Arguments or results by which two functions do not match. `names` are the names of the two programs.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BoundaryError {
    /// The numbers of arguments or of results differ.
    #[error("{} has {} {what}s, {} has {}", .names[0], .counts[0], .names[1], .counts[1])]
    Number {
        /// `argument` or `result`.
        what: &'static str,
        /// The two numbers.
        counts: [usize; 2],
        /// The programs.
        names: [String; 2],
    },
    /// An argument or a result has two types.
    #[error("{port} is {} in {} and {} in {}", .types[0], .names[0], .types[1], .names[1])]
    Type {
        /// The argument or the result.
        port: String,
        /// The two types.
        types: [String; 2],
        /// The programs.
        names: [String; 2],
    },
}

/// Checks that two functions have matching arguments and results: equal numbers of them, equal element types, and equal
/// sizes up to the names of sizes. Layouts may differ. `names` are the names of the two programs in the message.
///
/// # Errors
/// The first mismatch.
pub fn check_boundary(a: &Func, b: &Func, names: &[String; 2]) -> Result<(), BoundaryError> {
    let matching = Matching::new(a, b, names)?;
    let keys = result_keys(b);
    for ((key, other), &value) in matching.results.iter().zip(&a.results) {
        let Some(at) = keys.iter().position(|k| k == other) else {
            continue;
        };
        let (left, right) = (a.ty(value), b.ty(b.results[at]));
        if !may_agree(left, right) {
            let (left, right) = (type_text(left), type_text(right));
            return Err(BoundaryError::Type {
                port: format!("result `{key}`"),
                types: [left, right],
                names: names.clone(),
            });
        }
    }
    Ok(())
}

/// Returns whether two types have one element type and rank, and no dimension in which both sizes are numbers and
/// differ.
fn may_agree(a: &Type, b: &Type) -> bool {
    let (Some(a), Some(b)) = (a.as_tensor(), b.as_tensor()) else {
        return type_text(a) == type_text(b);
    };
    let mut dims = a.dims.iter().zip(&b.dims);
    let same = |(l, r): (&Dim, &Dim)| match (l.fixed(), r.fixed()) {
        (Some(l), Some(r)) => l == r,
        _ => true,
    };
    a.dtype == b.dtype && a.rank() == b.rank() && dims.all(same)
}

/// The keys of the second program for those of the first.
pub(crate) struct Matching {
    args: IndexMap<String, String>,
    pub(crate) results: IndexMap<String, String>,
    names: Renaming,
}

impl Matching {
    /// # Errors
    /// The mismatch.
    pub(crate) fn new(a: &Func, b: &Func, names: &[String; 2]) -> Result<Matching, BoundaryError> {
        let args = pair_keys("argument", argument_keys(a), argument_keys(b), names)?;
        let results = pair_keys("result", result_keys(a), result_keys(b), names)?;
        let mut matching = Matching {
            args,
            results,
            names: Renaming::default(),
        };
        matching.check_types(a, b, names)?;
        Ok(matching)
    }

    /// Checks that the types of the arguments agree, except for their layouts and the names of their sizes. If the
    /// first type has a `?`, the second may have a name that no other size of its arguments has.
    fn check_types(
        &mut self,
        a: &Func,
        b: &Func,
        names: &[String; 2],
    ) -> Result<(), BoundaryError> {
        let keys_b = argument_keys(b);
        let mut ports = Vec::with_capacity(a.args.len());
        for ((key_a, key_b), &value) in self.args.iter().zip(&a.args) {
            if let Some(at) = keys_b.iter().position(|k| k == key_b) {
                ports.push((key_a, a.ty(value), b.ty(b.args[at])));
            }
        }
        self.names = Renaming::of(ports.iter().map(|(_, own, other)| (*own, *other)));
        let mut named: IndexMap<Arc<str>, usize> = IndexMap::new();
        for name in ports
            .iter()
            .flat_map(|(.., ty)| sizes(ty))
            .flat_map(|size| size.names())
        {
            *named.entry(name).or_default() += 1;
        }
        let once = |dim: &Dim| {
            let size = dim.size();
            let name = size.as_ref().and_then(|size| size.as_name());
            name.is_some_and(|name| named.get(name) == Some(&1))
        };
        let agree = |left: &Type, right: &Type| {
            let (Some(left), Some(right)) = (left.as_tensor(), right.as_tensor()) else {
                return type_text(left) == type_text(right);
            };
            let mut dims = left.dims.iter().zip(&right.dims);
            let same = |l: &Dim, r: &Dim| match (l.size(), r.size()) {
                (Some(l), Some(r)) => self.names.renamed(&r).as_ref() == Some(&l),
                (None, None) => true,
                (None, Some(_)) => once(r),
                (Some(_), None) => false,
            };
            left.dtype == right.dtype
                && left.rank() == right.rank()
                && dims.all(|(l, r)| same(l, r))
        };
        for (key, own, other) in &ports {
            if !agree(own, other) {
                let (left, right) = (type_text(own), type_text(other));
                return Err(BoundaryError::Type {
                    port: format!("argument `{key}`"),
                    types: [left, right],
                    names: names.clone(),
                });
            }
        }
        Ok(())
    }

    pub(crate) fn inputs(&self, inputs: IndexMap<String, Tensor>) -> IndexMap<String, Tensor> {
        inputs
            .into_iter()
            .map(|(key, tensor)| (self.args[&key].clone(), tensor))
            .collect()
    }

    /// The sizes of the first program's names, by the names of the second.
    pub(crate) fn renamed(&self, sizes: &Bindings) -> Bindings {
        let mut found = Bindings::default();
        for (name, &size) in &sizes.0 {
            if !self.names.first.contains(name) && !self.names.second.contains_key(name) {
                found.0.insert(name.clone(), size);
            }
        }
        for (name, own) in &self.names.second {
            if let Some(&size) = sizes.0.get(own) {
                found.0.insert(name.clone(), size);
            }
        }
        found
    }
}

/// The size names of the second program in terms of those of the first.
#[derive(Default)]
struct Renaming {
    /// The first program's name of each name of the second; the map is one-to-one.
    second: IndexMap<Arc<str>, Arc<str>>,
    /// Names of the first program that have a counterpart in the second.
    first: IndexSet<Arc<str>>,
}

impl Renaming {
    /// Derives the names from pairs of types of equal rank: first from names that stand alone, then from expressions
    /// with exactly one unknown name. A name about which nothing is known is the same in both.
    fn of<'t>(types: impl Iterator<Item = (&'t Type, &'t Type)>) -> Renaming {
        let mut pairs: Vec<[Size; 2]> = Vec::new();
        for (own, other) in types {
            let (Some(own), Some(other)) = (own.as_tensor(), other.as_tensor()) else {
                continue;
            };
            let both = own.dims.iter().zip(&other.dims);
            pairs.extend(both.filter_map(|(a, b)| Some([a.size()?, b.size()?])));
        }
        let mut names = Renaming::default();
        for [a, b] in &pairs {
            if let (Some(own), Some(other)) = (a.as_name(), b.as_name()) {
                names.add(Arc::from(other), Arc::from(own));
            }
        }
        while pairs.iter().any(|pair| names.learn(pair)) {}
        for [a, b] in &pairs {
            let same = |name: &Arc<str>| a.names().contains(name);
            for name in b.names().into_iter().filter(same) {
                names.add(name.clone(), name);
            }
        }
        names
    }

    fn add(&mut self, other: Arc<str>, own: Arc<str>) -> bool {
        let new = !self.second.contains_key(&other) && !self.first.contains(&own);
        if new {
            self.first.insert(own.clone());
            self.second.insert(other, own);
        }
        new
    }

    /// Learns the single unknown name of an expression. Returns whether there was one.
    fn learn(&mut self, [a, b]: &[Size; 2]) -> bool {
        let own: Vec<Arc<str>> = a
            .names()
            .into_iter()
            .filter(|n| !self.first.contains(n))
            .collect();
        let other = b.names().into_iter();
        let other: Vec<Arc<str>> = other.filter(|n| !self.second.contains_key(n)).collect();
        match (&own[..], &other[..]) {
            ([own], [other]) => self.add(other.clone(), own.clone()),
            _ => false,
        }
    }

    /// A size of the second program by the names of the first; `None` if one of its names has no counterpart.
    fn renamed(&self, size: &Size) -> Option<Size> {
        let known = size
            .names()
            .iter()
            .all(|name| self.second.contains_key(name));
        let own = |name: &str| Some(Size::name(self.second.get(name)?));
        size.substituted(&own).filter(|_| known)
    }
}

fn sizes(ty: &Type) -> impl Iterator<Item = Size> {
    let dims = ty.as_tensor().map_or(&[][..], |ty| &ty.dims);
    dims.iter().filter_map(Dim::size)
}

fn pair_keys(
    what: &'static str,
    a: Vec<String>,
    b: Vec<String>,
    names: &[String; 2],
) -> Result<IndexMap<String, String>, BoundaryError> {
    if a.len() != b.len() {
        return Err(BoundaryError::Number {
            what,
            counts: [a.len(), b.len()],
            names: names.clone(),
        });
    }
    let (set_a, set_b): (IndexSet<&String>, IndexSet<&String>) =
        (a.iter().collect(), b.iter().collect());
    if set_a == set_b {
        return Ok(a.iter().map(|k| (k.clone(), k.clone())).collect());
    }
    Ok(a.into_iter().zip(b).collect())
}
