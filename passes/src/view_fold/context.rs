//! The context in which a rule of the search is applied, the forms that it adds, and the names that its equation may use.
//!
//! Example: the rule `any-order` is applied where a softmax's result is demanded in the order `[1, 0]`. It adds the form in
//! which the operand has this order too.

use super::label_order::label_order;
use super::layouts::{LayoutId, Layouts};
use super::maps::FastSet;
use super::rows::default_layout;
use super::signature::{LabelDigit, LabelOrder, Signature};
use super::tiled::Part;
use optc_layout::Layout;

pub(super) type OfOperation = fn(&Signature) -> bool;
pub(super) type OfOrder = fn(&mut RuleContext<'_>) -> bool;
pub(super) type Forms = fn(&mut RuleContext<'_>);

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
