//! Values that operations share with the functions that they run: both hand them on in memory order, in one shape.

use super::digits;
use optc_ir::{
    AttrDict, Control, ControlPort, Dim, Func, Joint, Module, Op, Registry, Site, StandIns,
    TensorType,
};
use optc_layout::Notation;
use optc_ops::with_slices;
use rustc_hash::FxHashMap;

/// The ports of a function, or of an operation, that hand on values in memory order.
#[derive(Clone, Default)]
pub(super) struct Ports {
    given: Vec<bool>,
    taken: Vec<bool>,
    /// New attributes of an operation whose rounds are along other dimensions of the memory.
    pub(super) props: Option<AttrDict>,
}

impl Ports {
    /// Returns whether an argument or operand is in memory order.
    pub(super) fn gives(&self, at: usize) -> bool {
        self.given.get(at).copied().unwrap_or(false)
    }

    /// Returns whether a result is in memory order.
    pub(super) fn takes(&self, at: usize) -> bool {
        self.taken.get(at).copied().unwrap_or(false)
    }
}

/// The functions and operations of a module that hand on values in memory order.
#[derive(Default)]
pub(super) struct Shared {
    functions: FxHashMap<String, Ports>,
    operations: FxHashMap<String, FxHashMap<Op, Ports>>,
}

impl Shared {
    pub(super) fn of(module: &Module, registry: &Registry) -> Shared {
        let mut shared = Shared::default();
        for site in Site::alone(module, registry) {
            shared.add(&site);
        }
        shared
    }

    /// The ports of a function.
    pub(super) fn function(&self, func: &Func) -> Ports {
        self.functions.get(&*func.name).cloned().unwrap_or_default()
    }

    /// The ports of an operation of a function.
    pub(super) fn operation(&self, func: &Func, op: Op) -> Ports {
        let ports = self.operations.get(&*func.name);
        ports
            .and_then(|ports| ports.get(&op))
            .cloned()
            .unwrap_or_default()
    }

    fn add(&mut self, site: &Site<'_>) {
        let mut own = Ports::default();
        let mut inner = vec![Ports::default(); site.functions.len()];
        let mut axes = Vec::new();
        for class in site.joined.iter().filter(|class| lies_as_one(site, class)) {
            for joint in class {
                let (ports, at) = match joint.place {
                    ControlPort::Operand(at) => (&mut own.given, at),
                    ControlPort::Result(at) => (&mut own.taken, at),
                    ControlPort::Argument(function, at) => (&mut inner[function].given, at),
                    ControlPort::Given(function, at) => (&mut inner[function].taken, at),
                };
                ports.resize(ports.len().max(at + 1), false);
                ports[at] = true;
                let place = joint.axis.and_then(|axis| {
                    let ty = site.tensor(joint.place)?;
                    ty.notation
                        .order(ty.rank())?
                        .iter()
                        .position(|&dim| dim == axis)
                });
                axes.extend(place.map(|axis| (joint.place, axis)));
            }
        }
        if own.given.is_empty() && own.taken.is_empty() {
            return;
        }
        if let Control::Scan {
            carried,
            apart,
            stacked,
            ..
        } = &site.control
        {
            let place = |place: ControlPort, before: usize| {
                let known = axes.iter().find(|(other, _)| *other == place);
                known.map_or(before, |&(_, axis)| axis)
            };
            let apart = apart.iter().enumerate();
            let apart = apart
                .map(|(i, s)| place(ControlPort::Operand(carried + i), s.axis))
                .collect();
            let stacked = stacked.iter().enumerate();
            let stacked = stacked
                .map(|(i, s)| place(ControlPort::Result(carried + i), s.axis))
                .collect();
            own.props = Some(with_slices(&site.func.ops[site.op].props, apart, stacked));
        }
        for (func, ports) in site.functions.iter().zip(inner) {
            self.functions.insert(func.name.to_string(), ports);
        }
        let operations = self.operations.entry(site.func.name.to_string());
        operations.or_default().insert(site.op, own);
    }
}

/// Returns whether ports that hold one value have one order other than row-major, so that all can have the shape of
/// that order.
fn lies_as_one(site: &Site<'_>, class: &[Joint]) -> bool {
    let types = class.iter().map(|joint| site.tensor(joint.place));
    let Some(types) = types.collect::<Option<Vec<&TensorType>>>() else {
        return false;
    };
    let known = |dims: &[Dim]| {
        let unknown = |d: &Dim| *d == Dim::Unknown || d.fixed() == Some(0);
        !dims.iter().any(unknown)
    };
    if types.iter().all(|ty| ty.notation == Notation::RowMajor) {
        return false;
    }
    if class.iter().all(|joint| joint.axis.is_none()) {
        let first = types[0];
        let alike = |ty: &&TensorType| ty.dims == first.dims && ty.notation == first.notation;
        return known(&first.dims) && types.iter().all(alike);
    }
    let parts = |(joint, ty): (&Joint, &&TensorType)| -> Option<(Vec<Dim>, Vec<usize>)> {
        let (mut dims, order) = (ty.dims.clone(), ty.notation.order(ty.rank())?);
        if let Some(axis) = joint.axis {
            // Only a scan can state a dimension for its rounds.
            let anywhere = !matches!(site.control, Control::Rounds { .. });
            let fits = axis < dims.len() && (anywhere || order.first() == Some(&axis));
            fits.then(|| dims.remove(axis))?;
        }
        Some((dims, joint.of_one_round(&order)))
    };
    let mut all = class.iter().zip(&types).map(parts);
    let Some(Some(first)) = all.next() else {
        return false;
    };
    known(&first.0) && all.all(|other| other.as_ref() == Some(&first))
}

/// A type in memory order: row-major, with its dimensions in the order of memory, or else in the shape of its digits.
/// `None` where the layout is no order of digits.
pub(super) fn as_it_lies(ty: &TensorType, numbers: &mut StandIns) -> Option<TensorType> {
    let dims = match ty.notation.order(ty.rank()) {
        Some(order) => order.iter().map(|&dim| ty.dims[dim].clone()).collect(),
        None => {
            let digits = digits::of_type(ty, numbers)?;
            digits::dims(digits.iter().map(|digit| digit.extent), numbers)
        }
    };
    Some(TensorType {
        dims,
        ..ty.without_layout()
    })
}
