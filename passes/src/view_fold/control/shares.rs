//! Values that an operation shares with the functions that it runs, and a choice of layouts for them.

use super::super::groups::Laid;
use optc_ir::{Control, ControlPort, Dim, Func, Joint, Site, TensorType};
use optc_layout::Notation;

/// An operation, and the classes of ports that share a value with more than one possible order.
pub(super) struct Shares<'m> {
    pub(super) site: Site<'m>,
    pub(super) classes: Vec<Vec<Joint>>,
}

/// The notations of every class of an operation, port by port.
pub(super) type Choice = Vec<Vec<Notation>>;

impl<'m> Shares<'m> {
    pub(super) fn of(site: Site<'m>) -> Shares<'m> {
        let classes = site.joined.iter().filter(|class| fits(&site, class));
        Shares {
            classes: classes.cloned().collect(),
            site,
        }
    }

    pub(super) fn is_loop(&self) -> bool {
        !matches!(self.site.control, Control::Branch(_))
    }

    pub(super) fn ty(&self, place: ControlPort) -> &'m TensorType {
        let ty = self.site.tensor(place);
        ty.expect("`fits` has found tensors at all ports of a class")
    }

    /// The notations of a class that follow from the notation at one of its ports; `None` where they do not follow.
    pub(super) fn spread(
        &self,
        class: &[Joint],
        from: &Joint,
        notation: &Notation,
    ) -> Option<Vec<Notation>> {
        if class.iter().all(|joint| joint.axis.is_none()) {
            return Some(vec![notation.clone(); class.len()]);
        }
        let order = notation.order(self.ty(from.place).rank())?;
        let outermost = from.axis.is_none_or(|axis| order.first() == Some(&axis));
        if !outermost && matches!(self.site.control, Control::Rounds { .. }) {
            return None;
        }
        let parts = from.of_one_round(&order);
        let notation = |joint: &Joint| match (joint.axis, from.axis) {
            (None, _) => Notation::of_order(parts.clone()),
            (Some(_), Some(_)) => Notation::of_order(order.clone()),
            (Some(axis), None) => {
                let rest = parts.iter().map(|&dim| dim + usize::from(axis <= dim));
                Notation::of_order([axis].into_iter().chain(rest).collect())
            }
        };
        Some(class.iter().map(notation).collect())
    }

    /// The notations of all classes. In each class they follow from the first port with a wanted notation (the last one
    /// if `last`). A class without such a port has the notations of `otherwise`.
    pub(super) fn by(
        &self,
        otherwise: &Choice,
        last: bool,
        wanted: impl Fn(ControlPort) -> Option<Notation>,
    ) -> Choice {
        let class = |(class, otherwise): (&Vec<Joint>, &Vec<Notation>)| {
            let of_port = |joint: &Joint| self.spread(class, joint, &wanted(joint.place)?);
            let found = match last {
                false => class.iter().find_map(of_port),
                true => class.iter().rev().find_map(of_port),
            };
            found.unwrap_or_else(|| otherwise.clone())
        };
        self.classes.iter().zip(otherwise).map(class).collect()
    }

    /// The notations that the program declares at the ports of the operation.
    pub(super) fn declared(&self) -> Choice {
        let own = |joint: &Joint| self.ty(joint.place).notation.clone();
        let class = |class: &Vec<Joint>| {
            let outer = class.iter().find(|joint| is_outer(joint.place));
            let spread = outer.and_then(|joint| self.spread(class, joint, &own(joint)));
            spread.unwrap_or_else(|| class.iter().map(own).collect())
        };
        self.classes.iter().map(class).collect()
    }

    /// Records a choice as the layouts at the ports of the operation and its functions.
    pub(super) fn note(&self, choice: &Choice, laid: &mut Laid) {
        let data = &self.site.func.ops[self.site.op];
        let mut own = vec![None; data.operands.len() + data.results.len()];
        let ports = |f: &&Func| vec![None; f.args.len() + f.results.len()];
        let mut inner: Vec<Vec<Option<Notation>>> = self.site.functions.iter().map(ports).collect();
        for (joint, notation) in self.classes.iter().flatten().zip(choice.iter().flatten()) {
            let (function, at) = self.port(joint.place);
            let ports = function.map_or(&mut own, |function| &mut inner[function]);
            ports[at] = Some(notation.clone());
        }
        for (func, ports) in self.site.functions.iter().zip(inner) {
            laid.boundaries.insert(func.name.to_string(), ports);
        }
        if let Some(first) = self.site.functions.first() {
            laid.ports.insert(first.name.to_string(), own);
        }
    }

    /// The recorded notations, and the declared ones where nothing is recorded.
    pub(super) fn noted(&self, laid: &Laid) -> Choice {
        let first = self.site.functions.first();
        let own = first.and_then(|first| laid.ports.get(&*first.name));
        let at = |joint: &Joint| {
            let (function, at) = self.port(joint.place);
            let ports = match function {
                None => own,
                Some(function) => laid.boundaries.get(&*self.site.functions[function].name),
            };
            let noted = ports.and_then(|ports| ports.get(at)?.clone());
            noted.unwrap_or_else(|| self.ty(joint.place).notation.clone())
        };
        let class = |class: &Vec<Joint>| class.iter().map(at).collect();
        self.classes.iter().map(class).collect()
    }

    /// The function whose port this is, if it is not the operation's own, and the port's number there.
    fn port(&self, place: ControlPort) -> (Option<usize>, usize) {
        match place {
            ControlPort::Operand(at) => (None, at),
            ControlPort::Result(at) => (None, self.site.func.ops[self.site.op].operands.len() + at),
            ControlPort::Argument(function, at) => (Some(function), at),
            ControlPort::Given(function, at) => {
                let arguments = self.site.functions[function].args.len();
                (Some(function), arguments + at)
            }
        }
    }
}

/// Returns whether a port is the operation's own.
pub(super) fn is_outer(place: ControlPort) -> bool {
    matches!(place, ControlPort::Operand(_) | ControlPort::Result(_))
}

/// Returns whether the ports of a class have one type with more than one element, and every size except that of the
/// rounds is known or has a name.
fn fits(site: &Site<'_>, class: &[Joint]) -> bool {
    let parts = |joint: &Joint| -> Option<(Vec<Dim>, String)> {
        let ty = site.tensor(joint.place)?;
        let mut dims = ty.dims.clone();
        if let Some(axis) = joint.axis {
            (axis < dims.len()).then(|| dims.remove(axis))?;
        }
        Some((dims, ty.dtype.to_string()))
    };
    let orders = |joint: &Joint| {
        let ty = site.tensor(joint.place);
        ty.is_some_and(|ty| !ty.dims.iter().all(Dim::is_one))
    };
    let first = class.first().and_then(parts);
    let known = first
        .as_ref()
        .is_some_and(|(dims, _)| !dims.contains(&Dim::Unknown));
    known && class.iter().all(|joint| parts(joint) == first) && class.iter().any(orders)
}
