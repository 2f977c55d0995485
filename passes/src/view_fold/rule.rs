//! Rules of the search: equations between forms of an operation, with the functions and conditions that they name.
//!
//! Example: `(convert ?o (ordered ?xs)) => (ordered (convert ?o ?xs))` says that an operation on values in a common
//! order writes its result in that order: a transpose behind a softmax becomes one in front of it.
//!
//! `(convert ?o (ordered ?xs))` is an operation of which the layout `?o` is demanded at a port. `(convert ?o ?xs)` has
//! at each port the part of the order `?o` that the port has: its indexing map says which.

use super::builtin;
use super::context::{Forms, Named, OfOperation, OfOrder, RuleContext};
use super::signature::Signature;
use crate::pass::RuleInfo;
use crate::terms::{Equation, EquationError, Term, Tree, tree};
use egg::{Pattern, Symbol, Var};
use std::fmt;
use std::sync::LazyLock;

/// A rule of the search, built in or added by a user of the library: an equation.
///
/// Its left side is `(convert ?o (HEAD ?xs))`: a layout `?o` is demanded at a port of the operation. The head says what
/// the operation is: `op` (any operation), the name of its family, `ordered` (all ports in one order), `contract` (a
/// contraction of runs), `matrices` (one of matrices), `window` (a convolution or a pool with channels), `patched` (a
/// convolution that reads each position once), `roles` (tiles by roles) or `blocks`.
///
/// Its right side is `(HEAD (convert ORDER ?xs))`, the operation with the layouts at its ports that follow from the
/// order: `?o` itself, or a function of it. A rule with `(HEAD ?xs)` on both sides says that an operation is also
/// another one.
#[derive(Clone)]
pub struct SearchRule {
    name: String,
    summary: String,
    pub(super) equation: Equation,
    pub(super) right: Right,
    of_operation: Vec<OfOperation>,
    of_order: Vec<OfOrder>,
}

/// The right side of a rule.
#[derive(Clone)]
pub(super) enum Right {
    /// The operation with this head has the forms that follow from the order in this variable.
    Forms {
        head: Symbol,
        order: Var,
        forms: Forms,
    },
    /// The operation is also this one.
    Operation(Pattern<Term>),
}

impl SearchRule {
    /// A rule with a kebab-case name, an equation, a summary in one line, and names of its own.
    ///
    /// # Errors
    /// The text is no equation of the search, or it uses an unknown name.
    pub fn new(
        name: &str,
        equation: &str,
        summary: &str,
        own: &[Named],
    ) -> Result<SearchRule, EquationError> {
        let equation = Equation::parse(equation)?;
        let named = || builtin::NAMED.iter().chain(own);
        let right = right_of(&equation, named())?;
        let (mut of_operation, mut of_order) = (Vec::new(), Vec::new());
        for condition in &equation.conditions {
            let name = &condition.name;
            let known = named().find(|known| match known {
                Named::OperationIs(other, _) | Named::OrderIs(other, _) => other == name,
                Named::Order(..) => false,
            });
            match known {
                Some(Named::OperationIs(_, holds)) => of_operation.push(*holds),
                Some(Named::OrderIs(_, holds)) => of_order.push(*holds),
                _ => return Err(EquationError::UnknownName(name.clone())),
            }
        }
        if matches!(right, Right::Operation(_)) && !of_order.is_empty() {
            return Err(EquationError::Form {
                found: equation.text,
                wanted: "conditions on the operation alone",
            });
        }
        Ok(SearchRule {
            name: name.to_owned(),
            summary: summary.to_owned(),
            equation,
            right,
            of_operation,
            of_order,
        })
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The text of the equation.
    #[must_use]
    pub fn equation(&self) -> &str {
        &self.equation.text
    }
    /// The summary.
    #[must_use]
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// Returns whether the conditions on the operation hold.
    pub(super) fn is_of(&self, signature: &Signature) -> bool {
        self.of_operation.iter().all(|holds| holds(signature))
    }

    /// Returns whether the conditions on the order hold.
    pub(super) fn takes(&self, cx: &mut RuleContext<'_>) -> bool {
        self.of_order.iter().all(|holds| holds(cx))
    }
}

/// The built-in rules, read from their equations.
pub(super) fn rules() -> &'static [SearchRule] {
    static READ: LazyLock<Vec<SearchRule>> = LazyLock::new(|| {
        let read = |rule: &RuleInfo<'_>| {
            SearchRule::new(rule.name, rule.equation, rule.summary, &[])
                .expect("a built-in equation is read by a test")
        };
        builtin::RULES.iter().map(read).collect()
    });
    &READ
}

impl fmt::Debug for SearchRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.equation.text)
    }
}

/// The right side of an equation of the search.
fn right_of<'a>(
    equation: &Equation,
    mut named: impl Iterator<Item = &'a Named>,
) -> Result<Right, EquationError> {
    let right = tree(&equation.right);
    let converted = right.call().and_then(|op| match &op.args[..] {
        [Tree::Call(of)] if of.name == "convert" => Some((&op.name, of.args.first()?)),
        _ => None,
    });
    let Some((head, order)) = converted else {
        return Ok(Right::Operation(Pattern::new(equation.right.clone())));
    };
    let left = tree(&equation.left);
    let left = left.call().filter(|of| of.name == "convert");
    let Some(Tree::Var(demanded)) = left.and_then(|of| of.args.first()) else {
        return Err(EquationError::Form {
            found: equation.left.to_string(),
            wanted: "an operation of which `(convert ?o …)` is demanded",
        });
    };
    let forms = match order {
        Tree::Var(var) if var == demanded => builtin::FOLLOW,
        Tree::Var(var) => return Err(EquationError::UnknownName(var.to_string())),
        Tree::Call(call) => {
            let known = named.find_map(|known| match known {
                Named::Order(other, forms) if *other == call.name => Some(*forms),
                _ => None,
            });
            known.ok_or_else(|| EquationError::UnknownName(call.name.clone()))?
        }
    };
    Ok(Right::Forms {
        head: head.as_str().into(),
        order: *demanded,
        forms,
    })
}
