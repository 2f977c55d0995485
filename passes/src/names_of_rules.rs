//! The functions and conditions that the equations of local rules name, and their arguments.
//!
//! Example: `same-type` in `… if (same-type ?x ?g)` is a [`Named::Condition`] with two values as arguments.

use crate::rules::{Refusal, Site};
use optc_ir::{Attr, Value};
use std::borrow::Cow;

/// The meaning of a term where a rule is applied.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg<'a> {
    /// A value.
    Value(Value),
    /// An attribute.
    Attr(Cow<'a, Attr>),
}

impl Arg<'_> {
    /// The value.
    ///
    /// # Errors
    /// It is an attribute.
    pub fn value(&self) -> Result<Value, Refusal> {
        match self {
            Arg::Value(value) => Ok(*value),
            Arg::Attr(_) => Err(Refusal("found an attribute, wanted a value")),
        }
    }

    /// The attribute.
    ///
    /// # Errors
    /// It is a value.
    pub fn attr(&self) -> Result<&Attr, Refusal> {
        match self {
            Arg::Attr(attr) => Ok(attr),
            Arg::Value(_) => Err(Refusal("found a value, wanted an attribute")),
        }
    }
}

pub(crate) type Function = fn(&Site<'_>, &[Arg<'_>]) -> Result<Attr, Refusal>;
pub(crate) type Condition = fn(&Site<'_>, &[Arg<'_>]) -> Result<(), Refusal>;

/// A name that equations of local rules may use. The site is the operation that the left side matched.
#[derive(Clone, Copy, Debug)]
pub enum Named {
    /// A function that gives an attribute.
    Attribute(&'static str, Function),
    /// A condition.
    Condition(&'static str, Condition),
}

impl Named {
    pub(crate) fn attribute(&self, name: &str) -> Option<Function> {
        match self {
            Named::Attribute(own, function) => (*own == name).then_some(*function),
            Named::Condition(..) => None,
        }
    }

    pub(crate) fn condition(&self, name: &str) -> Option<Condition> {
        match self {
            Named::Condition(own, holds) => (*own == name).then_some(*holds),
            Named::Attribute(..) => None,
        }
    }
}
