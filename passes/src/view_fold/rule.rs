//! Rules of the search: the view that a rule has of an operation, and the forms that it adds.

use super::accepts::default_layout;
use super::layouts::{LayoutId, Layouts};
use super::maps::FastSet;
use super::signature::{LabelDigit, LabelOrder, Signature};
use super::tiled::Part;
use optc_layout::Layout;

/// A rule of the search, built in or added by a user of the library.
///
/// A rule looks at one layout that is demanded at one port of an operation. It adds forms of the operation that fit
/// this layout.
pub trait SearchRule: Send + Sync {
    /// Its kebab-case name.
    fn name(&self) -> &str;
    /// The equation that the rule stands for, as documentation prints it.
    fn equation(&self) -> &str;
    /// A summary of the rule, in a line.
    fn summary(&self) -> &str {
        ""
    }
    /// Returns whether the rule may add a form for some layout at this port. Where it returns `false`, the rule is not
    /// applied and no memory is held for it: an operation may have some hundred thousand ports.
    fn concerns(&self, signature: &Signature, port: usize) -> bool {
        let _ = (signature, port);
        true
    }
    /// Adds forms for the layout at the port.
    fn apply(&self, cx: &mut RuleContext<'_>);
}

/// The input and output of a rule.
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
