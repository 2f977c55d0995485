//! The language of rules: operations, layouts and conversions as they nest, and equations between such terms.
//!
//! Example: `(transpose :perm ?q (transpose :perm ?p ?x)) => (transpose :perm (compose ?p ?q) ?x)` says that two
//! transposes are one.
//!
//! - `?x` is a variable: it stands for the same thing wherever it is written.
//! - `(relu ?x)` is an operation and its operands. A name without a dialect is of `hbir`.
//! - `:perm` names the attribute that follows it. An attribute that the left side does not name may be anything.
//! - `(compose ?p ?q)`, where an attribute or a layout is wanted, is a named function.
//! - `(convert ?o ?x)` is the value `?x` in the layout `?o`.
//! - Conditions follow the right side: `if (known-sizes ?x) and (identity ?p)`.

use egg::{ENodeOrVar, Id, PatternAst, Symbol, Var};
use thiserror::Error;

egg::define_language! {
    /// A node of a term. Layouts, ports and lists of values are in e-graphs alone, not in the text of a rule.
    pub(crate) enum Term {
        Num(u32),
        "convert" = Convert([Id; 2]),
        "at" = At([Id; 2]),
        "only" = Only([Id; 2]),
        "any" = Any([Id; 2]),
        "list" = List(Box<[Id]>),
        Symbol(Symbol),
        Call(Symbol, Vec<Id>),
    }
}

/// The reason why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EquationError {
    /// The text has no arrow between two terms.
    #[error("found no `=>` between two terms in `{0}`")]
    NoArrow(String),
    /// A part of the text is no term.
    #[error("found `{text}`, wanted a term: {reason}")]
    NoTerm {
        /// The part.
        text: String,
        /// The mistake in it.
        reason: String,
    },
    /// A variable has no meaning.
    #[error("the left side does not have the variable `{0}`")]
    Unbound(String),
    /// A name has no meaning.
    #[error("found no function and no condition `{0}`")]
    UnknownName(String),
    /// A side has a form that this kind of rule does not have.
    #[error("found `{found}`, wanted {wanted}")]
    Form {
        /// The side.
        found: String,
        /// The forms that it may have.
        wanted: &'static str,
    },
}

/// A term as a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tree {
    Var(Var),
    Call(Call),
}

/// A name with attributes and arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// Attributes with their names.
    pub(crate) attrs: Vec<(String, Tree)>,
    pub(crate) args: Vec<Tree>,
}

impl Tree {
    fn new(ast: &PatternAst<Term>, at: Id) -> Tree {
        let node = match &ast[at] {
            ENodeOrVar::Var(var) => return Tree::Var(*var),
            ENodeOrVar::ENode(node) => node,
        };
        let children = egg::Language::children(node).iter();
        let mut children = children.map(|&child| Tree::new(ast, child));
        let mut call = Call {
            name: node.to_string(),
            attrs: Vec::new(),
            args: Vec::new(),
        };
        while let Some(child) = children.next() {
            let key = child.call().and_then(|of| of.name.strip_prefix(':'));
            match key.map(|key| (key.to_owned(), children.next())) {
                Some((key, Some(attr))) => call.attrs.push((key, attr)),
                Some((_, None)) | None => call.args.push(child),
            }
        }
        Tree::Call(call)
    }

    /// The name with its arguments; `None` for a variable.
    pub(crate) fn call(&self) -> Option<&Call> {
        match self {
            Tree::Call(call) => Some(call),
            Tree::Var(_) => None,
        }
    }

    /// The variables, as often as they are written.
    fn vars(&self) -> Vec<Var> {
        match self {
            Tree::Var(var) => vec![*var],
            Tree::Call(call) => {
                let attrs = call.attrs.iter().map(|(_, attr)| attr);
                attrs.chain(&call.args).flat_map(Tree::vars).collect()
            }
        }
    }
}

/// The tree of a pattern.
pub(crate) fn tree(ast: &PatternAst<Term>) -> Tree {
    Tree::new(ast, ast.root())
}

/// An equation: from left to right, under conditions.
#[derive(Clone, Debug)]
pub(crate) struct Equation {
    /// The text that it was read from.
    pub(crate) text: String,
    pub(crate) left: PatternAst<Term>,
    pub(crate) right: PatternAst<Term>,
    pub(crate) conditions: Vec<Call>,
}

impl Equation {
    /// Reads an equation.
    ///
    /// # Errors
    /// The text is no equation, or a variable is on the right side or in a condition alone.
    pub(crate) fn parse(text: &str) -> Result<Equation, EquationError> {
        let (left, rest) = text
            .split_once(" => ")
            .ok_or_else(|| EquationError::NoArrow(text.to_owned()))?;
        let (right, conditions) = rest.split_once(" if ").unwrap_or((rest, ""));
        let conditions = conditions.split(" and ").filter(|text| !text.is_empty());
        let conditions: Result<Vec<Call>, EquationError> = conditions.map(condition).collect();
        let (left, right, conditions) = (term(left)?, term(right)?, conditions?);
        let bound = tree(&left).vars();
        let used = conditions.iter().flat_map(|c| &c.args).flat_map(Tree::vars);
        let unbound = used.chain(tree(&right).vars()).find(|v| !bound.contains(v));
        match unbound {
            Some(var) => Err(EquationError::Unbound(var.to_string())),
            None => Ok(Equation {
                text: text.to_owned(),
                left,
                right,
                conditions,
            }),
        }
    }
}

fn term(text: &str) -> Result<PatternAst<Term>, EquationError> {
    text.trim().parse().map_err(|error| EquationError::NoTerm {
        text: text.trim().to_owned(),
        reason: format!("{error}"),
    })
}

fn condition(text: &str) -> Result<Call, EquationError> {
    match tree(&term(text)?) {
        Tree::Call(call) => Ok(call),
        Tree::Var(var) => Err(EquationError::Form {
            found: var.to_string(),
            wanted: "a named condition",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_equation_is_read_as_it_is_written() {
        let text = "(transpose :perm ?p ?x) => ?x if (identity ?p) and (plain ?x)";
        let equation = Equation::parse(text).expect("an equation");
        assert_eq!(equation.left.to_string(), "(transpose :perm ?p ?x)");
        assert_eq!(equation.right.to_string(), "?x");
        let var = |name: &str| Tree::Var(name.parse().expect("a variable"));
        let left = tree(&equation.left);
        let left = left.call().expect("an operation");
        assert_eq!(left.attrs, [("perm".to_owned(), var("?p"))]);
        assert_eq!(left.args, [var("?x")]);
        let names = equation.conditions.iter().map(|c| c.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["identity", "plain"]);
    }

    #[test]
    fn what_is_no_equation_is_refused() {
        let error = |text| Equation::parse(text).expect_err(text);
        assert!(matches!(error("(f ?x)"), EquationError::NoArrow(_)));
        assert!(matches!(error("(f ?x => ?x"), EquationError::NoTerm { .. }));
        assert_eq!(
            error("(f ?x) => ?y"),
            EquationError::Unbound("?y".to_owned())
        );
        assert_eq!(
            error("(f ?x) => ?x if (g ?z)"),
            EquationError::Unbound("?z".to_owned())
        );
    }
}
