//! A group by itself: its operations in order, the sources of their operands, and its live-outs.

use crate::tile_propagate::stored::{Stored, bytes_of};
use optc_check::roofline::Arithmetic;
use optc_ir::analysis::{self, Order};
use optc_ir::entity::SideTable;
use optc_ir::op::iteration_domain::{IndexExpr, IterationDomain};
use optc_ir::op::iteration_domain_of;
use optc_ir::{Func, Op, OpRef, Registry, Structure, TensorType, Traffic, Type, Value};
use optc_target::Target;
use rustc_hash::FxBuildHasher;
use std::rc::Rc;

type FastMap<K, V> = indexmap::IndexMap<K, V, FxBuildHasher>;

/// The planner's knowledge of an operation: everything that operations of one spelling share.
#[derive(Debug)]
pub(crate) struct Kind {
    /// A number for each spelling.
    pub(crate) id: u32,
    pub(crate) domain: IterationDomain,
    pub(crate) operands: Vec<Shape>,
    pub(crate) results: Vec<Shape>,
    /// True if it moves nothing by itself: its result is the operand under another name.
    pub(crate) free: bool,
    /// True if each element of its result is one element of its operand, at another index.
    pub(crate) rearranges: bool,
    /// For each operand, whether the results are proportional to it.
    pub(crate) proportional: Vec<bool>,
    /// True if it changes a layout and nothing else.
    pub(crate) converts: bool,
    /// True if it computes: it is neither a source of data nor a call, whose callee is counted by itself.
    pub(crate) computes: bool,
    /// True if its results are in memory before the program starts.
    pub(crate) stored_data: bool,
    /// True if it may be in a group.
    pub(crate) fits: bool,
    /// Its arithmetic; `None` if it only moves elements.
    pub(crate) arithmetic: Option<Arithmetic>,
    /// The number of its arithmetic operations, without those that the unit's blocks add.
    pub(crate) operations: u64,
    /// The number of the unit that does it, in the order of the target's units.
    pub(crate) unit: Option<usize>,
}

impl Kind {
    /// Returns whether a group may be cut before it: a product, or an operation that needs all of a row.
    pub(crate) fn is_heavy(&self) -> bool {
        let mut operands = self.domain.operands.iter().flatten();
        let whole = operands.any(|index| *index == IndexExpr::Whole);
        self.arithmetic.is_some() && (whole || self.domain.reductions().next().is_some())
    }
}

/// The extents and the element width of a value, and its order in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) dims: Vec<u64>,
    pub(crate) bits: u32,
    /// The width of an element of an incomplete sum.
    pub(crate) wide: u32,
    pub(crate) stored: Stored,
}

/// The element width of sums of narrower floating-point numbers, and of the state of each row of an online softmax.
pub(crate) const WIDE: u32 = 32;

impl Shape {
    pub(crate) fn of(ty: &Type) -> Option<Shape> {
        let tensor: &TensorType = ty.as_tensor()?;
        let dims = tensor.shape()?;
        if dims.contains(&0) {
            return None;
        }
        let bits = tensor.dtype.bits();
        Some(Shape {
            dims,
            bits,
            wide: match tensor.dtype.is_float() {
                true => bits.max(WIDE),
                false => bits,
            },
            stored: Stored::of(tensor),
        })
    }

    /// Returns whether it is row-major, dimensions of one element aside.
    fn is_plain(&self) -> bool {
        self.stored.is_plain_in(&self.dims)
    }

    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(&self.dims, self.bits)
    }
}

/// The kinds of a function's operations, one entry an operation of the body.
pub(crate) struct Kinds {
    pub(crate) of: Vec<Rc<Kind>>,
}

impl Kinds {
    pub(crate) fn of(func: &Func, registry: &Registry, target: &Target) -> Kinds {
        let mut known: FastMap<String, Rc<Kind>> = FastMap::default();
        let mut of = Vec::with_capacity(func.body.len());
        let mut origins = SideTable::new(Origin::Given);
        for &op in &func.body {
            let data = &func.ops[op];
            let own = Origin::of(func, op, registry, &origins);
            for &result in &data.results {
                origins[result] = own;
            }
            let types =
                |values: &[Value]| -> Vec<&Type> { values.iter().map(|&v| func.ty(v)).collect() };
            let (operands, results) = (types(&data.operands), types(&data.results));
            let moved = own == Origin::Made && is_transposition(&func.op_ref(op), registry);
            let key = format!(
                "{}{:?}{operands:?}{results:?}{moved}",
                data.name, data.props
            );
            let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
            let kind = known.entry(key).or_insert_with(|| {
                let kind = kind_of(func, op, registry, target, next);
                let fits = kind.fits && !moved;
                Rc::new(Kind { fits, ..kind })
            });
            of.push(kind.clone());
        }
        Kinds { of }
    }
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    /// A constant, or another name for one.
    Stored,
    /// Computed from constants alone. It is made once, and kernels read it in the order that they need.
    Made,
    /// Computed from what the program is given.
    Given,
}

impl Origin {
    fn of(func: &Func, op: Op, registry: &Registry, known: &SideTable<Value, Origin>) -> Origin {
        let (data, op_ref) = (&func.ops[op], func.op_ref(op));
        if !registry.effect(&op_ref).is_pure() {
            return Origin::Given;
        }
        let operands = data.operands.iter().map(|&v| known[v]).max();
        match operands {
            None => Origin::Stored,
            Some(Origin::Stored) if registry.rearrangement(&op_ref).is_err() => Origin::Made,
            Some(origin) => origin,
        }
    }
}

/// Returns whether an operation transposes its operand.
fn is_transposition(op: &OpRef<'_>, registry: &Registry) -> bool {
    let dims = registry.rearrangement(op);
    dims.is_ok_and(|dims| !dims.perm.is_sorted())
}

/// Returns whether kernels have the element types of all operands and results.
fn has_types(op: &OpRef<'_>, target: &Target) -> bool {
    let mut types = op.operands.iter().chain(&op.results);
    let name = |ty: &&Type| ty.as_tensor().map(|ty| ty.dtype.to_string());
    target.without.is_empty()
        || types.all(|ty| name(ty).is_none_or(|name| !target.without.contains(&name)))
}

fn kind_of(func: &Func, op: Op, registry: &Registry, target: &Target, id: u32) -> Kind {
    let data = &func.ops[op];
    let op_ref = func.op_ref(op);
    let decl = registry.get(&data.name);
    let shapes =
        |types: &[&Type]| -> Option<Vec<Shape>> { types.iter().map(|t| Shape::of(t)).collect() };
    let (operands, results) = (shapes(&op_ref.operands), shapes(&op_ref.results));
    let family = decl.map_or("barrier", |d| d.family_of(&op_ref));
    let structure = registry.structure(&data.name);
    let computes = family != "source" && structure != Structure::Call;
    let known = computes
        && family != "barrier"
        && operands.is_some()
        && results.is_some()
        && !data.operands.is_empty();
    let has_kernel = target.row(family).is_none_or(|row| row.outside.is_empty());
    let fits = known && has_kernel && has_types(&op_ref, target);
    let rearranges = registry.rearrangement(&op_ref).is_ok();
    let renames = family == "slice" || rearranges;
    let traffic = decl.map(|d| d.traffic(&op_ref));
    let view = renames && traffic == Some(Traffic::None);
    let element = |ty: Option<&&Type>| ty.and_then(|ty| ty.as_tensor()).map(|ty| ty.dtype);
    let elements = [
        element(op_ref.operands.first()),
        element(op_ref.results.first()),
    ];
    let arithmetic = decl.filter(|_| known && traffic == Some(Traffic::None));
    let arithmetic =
        arithmetic.map(|decl| Arithmetic::of(decl, (&op_ref, &data.attrs), elements, target));
    let arithmetic = arithmetic.filter(|of| 0 < of.operations());
    let unit = arithmetic.as_ref().and_then(|of| {
        let name = of.unit.as_ref()?;
        target.units.keys().position(|unit| unit == name)
    });
    Kind {
        id,
        domain: iteration_domain_of(decl, &op_ref),
        operands: operands.unwrap_or_default(),
        results: results.unwrap_or_default(),
        free: view,
        rearranges,
        proportional: (0..data.operands.len())
            .map(|i| registry.is_proportional(&op_ref, i))
            .collect(),
        converts: structure == Structure::Convert,
        computes,
        stored_data: structure == Structure::Constant,
        fits,
        operations: arithmetic.as_ref().map_or(0, Arithmetic::least_operations),
        arithmetic,
        unit,
    }
}

/// The source of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocalSource {
    /// The result of an operation of the group: the operation's index in the group, and the result's number.
    Inside(usize, usize),
    /// A value in memory, by number.
    Outside(usize),
}

/// A group as a graph of its own.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) ops: Vec<LocalOp>,
    /// The shapes of the values that come from memory.
    pub(crate) inputs: Vec<Shape>,
}

#[derive(Debug)]
pub(crate) struct LocalOp {
    pub(crate) kind: Rc<Kind>,
    pub(crate) operands: Vec<LocalSource>,
    /// For each result, whether it is used outside of the group.
    pub(crate) live_out: Vec<bool>,
    /// For each result, whether it is used in the group.
    pub(crate) used: Vec<bool>,
}

impl LocalOp {
    /// The results that are used outside of the group, by number.
    pub(crate) fn live_outs(&self) -> impl Iterator<Item = (usize, &Shape)> {
        let results = self.kind.results.iter().enumerate();
        results.filter(|(r, _)| self.live_out[*r])
    }

    /// Returns whether it is a view at the edge of the group that is row-major on the side of the group alone.
    pub(crate) fn is_edge(&self) -> bool {
        let is_plain = |shapes: &[Shape]| shapes.iter().all(Shape::is_plain);
        let plain = (is_plain(&self.kind.operands), is_plain(&self.kind.results));
        let outside = |source: &LocalSource| matches!(source, LocalSource::Outside(_));
        let leads = self.operands.iter().all(outside);
        let ends = !self.used.contains(&true);
        self.kind.free && ((leads && plain == (false, true)) || (ends && plain == (true, false)))
    }
}

/// Producers and readers of the values of a function, by their positions in the body.
pub(crate) struct Uses {
    order: Order,
    uses: analysis::Uses,
}

impl Uses {
    pub(crate) fn of(func: &Func) -> Uses {
        Uses {
            order: Order::of(func),
            uses: analysis::Uses::of(func),
        }
    }

    /// The position of the operation that makes a value, and the number of the result.
    pub(crate) fn maker(&self, func: &Func, value: Value) -> Option<(usize, usize)> {
        self.order.definition(func, value)
    }

    /// The positions of the operations that read the results of the operation at a position.
    pub(crate) fn readers<'a>(
        &'a self,
        func: &'a Func,
        place: usize,
    ) -> impl Iterator<Item = usize> + 'a {
        let results = func.ops[func.body[place]].results.iter();
        let readers = results.flat_map(|&value| self.uses.readers(value));
        readers.filter_map(|&op| self.order.place(op))
    }

    /// Returns whether an operation outside of these positions, or the caller, uses a value, and whether an operation
    /// at one of them does.
    fn outside_and_inside(&self, value: Value, places: &[usize]) -> (bool, bool) {
        let readers = self.uses.readers(value);
        let inside = |op: &&Op| {
            let place = self.order.place(**op);
            place.is_some_and(|place| places.binary_search(&place).is_ok())
        };
        let within = readers.iter().filter(inside).count();
        let outside = self.uses.is_returned(value) || within < readers.len();
        (outside, 0 < within)
    }
}

impl Local {
    /// The group of the operations at these ascending positions of the body, and a key that is equal for groups that
    /// look alike.
    pub(crate) fn new(
        func: &Func,
        kinds: &Kinds,
        uses: &Uses,
        places: &[usize],
    ) -> (Local, Vec<u32>) {
        let mut inputs: FastMap<Value, Shape> = FastMap::default();
        let mut ops = Vec::with_capacity(places.len());
        let mut key = Vec::with_capacity(places.len() * 5);
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        for &place in places {
            let kind = &kinds.of[place];
            let data = &func.ops[func.body[place]];
            key.push(kind.id);
            let mut operands = Vec::with_capacity(data.operands.len());
            for (value, shape) in data.operands.iter().zip(&kind.operands) {
                let inside = uses.maker(func, *value).and_then(|(from, r)| {
                    let at = places.binary_search(&from).ok()?;
                    Some((at, r))
                });
                operands.push(match inside {
                    Some((at, r)) => {
                        key.extend([number(at) * 2, number(r)]);
                        LocalSource::Inside(at, r)
                    }
                    None => {
                        let entry = inputs.entry(*value);
                        let id = entry.index();
                        entry.or_insert_with(|| shape.clone());
                        key.push(number(id) * 2 + 1);
                        LocalSource::Outside(id)
                    }
                });
            }
            let mut live_out = Vec::with_capacity(data.results.len());
            let mut used = Vec::with_capacity(data.results.len());
            for &result in &data.results {
                let (outside, inside) = uses.outside_and_inside(result, places);
                live_out.push(outside);
                used.push(inside);
            }
            key.extend(live_out.iter().map(|&l| u32::from(l)));
            ops.push(LocalOp {
                kind: kind.clone(),
                operands,
                live_out,
                used,
            });
        }
        let inputs = inputs.into_values().collect();
        (Local { ops, inputs }, key)
    }
}
