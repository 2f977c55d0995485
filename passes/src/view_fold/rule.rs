//! Rules of the search: equations between forms of an operation, with the functions and conditions that they name.
//!
//! Example: `(convert ?o (ordered ?xs)) => (ordered (convert ?o ?xs))` says that an operation on values in a common
//! order writes its result in that order: a transpose behind a softmax becomes one in front of it.
//!
//! `(convert ?o (ordered ?xs))` is an operation of which the layout `?o` is demanded at a port. `(convert ?o ?xs)` has
//! at each port the part of the order `?o` that the port has: its indexing map says which.

use super::builtin;
use super::label_order::label_order;
use super::layouts::{LayoutId, Layouts};
use super::maps::FastSet;
use super::rows::default_layout;
use super::signature::{LabelDigit, LabelOrder, Signature};
use super::tiled::Part;
use crate::terms::{Equation, EquationError, Term, Tree, tree};
use egg::{Pattern, Symbol, Var};
use optc_layout::Layout;
use std::fmt;

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

type OfOperation = fn(&Signature) -> bool;
type OfOrder = fn(&mut RuleContext<'_>) -> bool;
type Forms = fn(&mut RuleContext<'_>);

/// A name that equations of the search may use.
#[derive(Clone, Copy, Debug)]
pub enum Named {
    /// A function of a demanded order. It adds the forms of the operation that follow from the order.
    Order(&'static str, Forms),
    /// A condition on a demanded order.
    OrderIs(&'static str, OfOrder),
    /// A condition on an operation.
    OperationIs(&'static str, OfOperation),
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

/// A layout that is demanded at a port of an operation, and the forms that follow from it.
#[derive(Debug)]
pub struct RuleContext<'a> {
    pub(super) signature: &'a Signature,
    pub(super) layouts: &'a mut Layouts,
    pub(super) port: usize,
    pub(super) layout: LayoutId,
    /// Orders of all labels whose forms have been added, where the forms depend on nothing else.
    pub(super) followed: &'a mut FastSet<LabelOrder>,
    pub(super) forms: Vec<Form>,
}

/// A form that a rule adds.
#[derive(Clone, Debug)]
pub(super) enum Form {
    /// Exactly these layouts, one a port.
    Exact(Vec<LayoutId>),
    /// The layout at the port belongs to the form `key`.
    Member(Vec<LabelDigit>),
    /// The layout at the port has these digits in its tile.
    Tile(Part),
}

impl RuleContext<'_> {
    /// The signature of the operation.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        self.signature
    }
    /// The port at which the layout is demanded; operands come before results.
    #[must_use]
    pub fn port(&self) -> usize {
        self.port
    }
    /// The demanded layout.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        self.layouts.get(self.layout)
    }
    /// The order of labels that the demanded layout expresses.
    pub(super) fn order(&mut self) -> Option<LabelOrder> {
        label_order(self.signature, self.layouts, self.port, self.layout)
    }
    /// Adds the form that has these layouts at the ports; `None` is the default layout. Ignored if a
    /// layout does not fit its port's shape or the number of ports differs.
    pub fn add_form(&mut self, ports: &[Option<Layout>]) {
        if ports.len() != self.signature.n_ports() {
            return;
        }
        let mut ids = Vec::with_capacity(ports.len());
        for (port, layout) in ports.iter().enumerate() {
            ids.push(match layout {
                None => default_layout(self.signature, self.layouts, port),
                Some(l) if l.shape() == self.signature.shapes[port] => {
                    self.layouts.intern(l.clone())
                }
                Some(_) => return,
            });
        }
        self.forms.push(Form::Exact(ids));
    }
}
