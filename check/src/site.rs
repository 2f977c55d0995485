//! Readers, writers and layouts of the buffers of a function.

use crate::known::known_values;
use optc_ir::analysis::live_ops;
use optc_ir::effects::Effects;
use optc_ir::entity::{EntityId, SideTable};
use optc_ir::op::in_place;
use optc_ir::op::part::Port;
use optc_ir::{Dim, FreedomClass, Func, Op, Part, Registry, StandIns, Structure, Value, ValueDef};
use optc_layout::{Layout, Pick, Spread, Stride};
use optc_ops::Dequantized;
use optc_target::Target;
use std::rc::Rc;

/// A reader of a value: the operation, the number of its operand, and the view that it reads.
pub type Use = (Op, usize, Value);

/// The readers, writers and layouts of the buffers of one function.
pub struct Site<'a> {
    /// The function.
    pub func: &'a Func,
    /// The declarations of its operations.
    pub registry: &'a Registry,
    /// The value whose buffer a view reads; the value itself if it is not a view.
    roots: SideTable<Value, Value>,
    /// The readers of each buffer, views excluded.
    uses: SideTable<Value, Vec<Use>>,
    /// True if some user wants the value's buffer to itself.
    whole: SideTable<Value, bool>,
    known: SideTable<Value, bool>,
    dequantized: Dequantized,
    layouts: SideTable<Value, Option<Rc<Layout>>>,
    parts: SideTable<Op, Rc<[Part]>>,
    /// The root that a result is a part of, by a split or a similar operation.
    parents: SideTable<Value, Option<Value>>,
    numbers: Option<StandIns>,
    /// True if all sizes of all values are known.
    is_sized: bool,
}

impl<'a> Site<'a> {
    /// Collects the readers and layouts of a function whose operations have these effects.
    #[must_use]
    pub fn new(func: &'a Func, registry: &'a Registry, effects: &Effects<'_>) -> Site<'a> {
        let open = |v: Value| func.ty(v).as_tensor().is_some_and(|t| t.shape().is_none());
        let is_sized = !func.values.ids().any(open);
        let numbers = match is_sized {
            false => StandIns::for_func(func, registry),
            true => Some(StandIns::new(2)),
        };
        let mut site = Site {
            func,
            registry,
            roots: SideTable::new(Value::from_index(0)),
            uses: SideTable::new(Vec::new()),
            whole: SideTable::new(false),
            known: known_values(func, registry, effects),
            dequantized: Dequantized::of(func, registry),
            layouts: SideTable::new(None),
            parts: SideTable::new(Rc::from([])),
            parents: SideTable::new(None),
            numbers,
            is_sized,
        };
        site.read(effects);
        site
    }

    fn read(&mut self, effects: &Effects<'_>) {
        let func = self.func;
        let live = live_ops(func, effects);
        for &arg in &func.args {
            self.roots[arg] = arg;
            self.layout_of(arg);
        }
        for &op in &func.body {
            let data = &func.ops[op];
            let view = self.registry.structure(&data.name) == Structure::View;
            for &result in &data.results {
                self.layout_of(result);
                self.roots[result] = match (view, data.operands.first()) {
                    (true, Some(&operand)) => self.roots[operand],
                    _ => result,
                };
            }
            self.read_parts(op);
            if view || !live[op] {
                continue;
            }
            let wants = self.wants_whole(op);
            for (port, &operand) in data.operands.iter().enumerate() {
                let root = self.roots[operand];
                self.uses[root].push((op, port, operand));
                self.whole[root] |= wants;
            }
        }
        for &result in &func.results {
            let root = self.roots[result];
            self.whole[root] = true;
        }
    }

    fn read_parts(&mut self, op: Op) {
        let data = &self.func.ops[op];
        let Some(decl) = self.registry.get(&data.name) else {
            return;
        };
        let known = |i: usize| in_place::constant(self.func, *data.operands.get(i)?);
        let parts = decl.parts(&self.func.op_ref(op), &known);
        for part in &parts {
            let ends = (part.part, part.part.value(data), part.whole.value(data));
            if let (Port::Result(_), Some(result), Some(whole)) = ends {
                self.parents[result] = Some(self.roots[whole]);
            }
        }
        self.parts[op] = Rc::from(parts);
    }

    fn layout_of(&mut self, value: Value) {
        let Some(ty) = self.func.ty(value).as_tensor() else {
            return;
        };
        let shape = match ty.shape() {
            Some(shape) => Some(shape),
            None => self.numbers.as_mut().and_then(|numbers| {
                let named = |dim: &Dim| (*dim != Dim::Unknown).then(|| numbers.number(dim))?;
                ty.dims.iter().map(named).collect()
            }),
        };
        let layout =
            shape.and_then(|shape| Layout::new(ty.notation.clone(), &shape, ty.dtype.bits()).ok());
        self.layouts[value] = layout.map(Rc::new);
    }

    /// Returns whether an operation wants its operands in buffers of their own: it is a barrier, or runs functions.
    pub(crate) fn wants_whole(&self, op: Op) -> bool {
        let data = &self.func.ops[op];
        let class = self.registry.class(&self.func.op_ref(op));
        let converts = self.registry.structure(&data.name) == Structure::Convert;
        data.props.symbols().next().is_some()
            || (!converts && matches!(class, None | Some(FreedomClass::Barrier)))
    }

    /// The value whose buffer this one reads.
    #[must_use]
    pub fn root(&self, value: Value) -> Value {
        self.roots[value]
    }

    /// The readers of the buffer of a root.
    #[must_use]
    pub fn uses(&self, root: Value) -> &[Use] {
        &self.uses[root]
    }

    /// Returns whether the caller, a function that is run, or a barrier wants the buffer of a root.
    #[must_use]
    pub fn is_wanted_whole(&self, root: Value) -> bool {
        self.whole[root]
    }

    /// Returns whether a value is a constant or computed from constants alone.
    #[must_use]
    pub fn is_known(&self, value: Value) -> bool {
        self.known[value]
    }

    /// The values that are integers scaled to floats.
    #[must_use]
    pub fn dequantized(&self) -> &Dequantized {
        &self.dequantized
    }

    /// The layout of a value; a stand-in replaces each size that has only a name.
    #[must_use]
    pub fn layout(&self, value: Value) -> Option<&Layout> {
        self.layouts[value].as_deref()
    }

    /// The buffer of a root if it has one of its own.
    #[must_use]
    pub fn own(&self, root: Value) -> Option<Spread> {
        Some(Spread::of(self.layout(root)?.positions()))
    }

    /// The operation that computes the root's buffer.
    #[must_use]
    pub fn writer(&self, root: Value) -> Option<(Op, usize)> {
        match self.func.values[root].def {
            ValueDef::Arg(_) => None,
            ValueDef::Result(op, number) => Some((op, number)),
        }
    }

    /// Returns whether the row of an operation takes parts at all.
    #[must_use]
    pub fn has_parts(&self, target: &Target, op: Op) -> bool {
        let decl = self.registry.get(&self.func.ops[op].name);
        let row = decl.and_then(|decl| target.row(decl.family_of(&self.func.op_ref(op))));
        row.is_some_and(|row| row.parts.is_some())
    }

    /// The parts at the ports of an operation.
    #[must_use]
    pub fn parts(&self, op: Op) -> Rc<[Part]> {
        Rc::clone(&self.parts[op])
    }

    /// Returns whether a part is the operand that an update copies and changes.
    #[must_use]
    pub fn updates(&self, op: Op, part: &Part) -> bool {
        let decl = self.registry.get(&self.func.ops[op].name);
        let update = decl.and_then(|decl| decl.updates(&self.func.op_ref(op)));
        update.is_some_and(|update| part.part == Port::Operand(update.of))
    }

    /// Returns whether an argument may have the memory of the root `whole`, because it shares its memory with a result
    /// of the function that lies there. Of several results in one buffer the first counts.
    #[must_use]
    pub fn may_be_written(&self, arg: Value, whole: Value) -> bool {
        let mut results = self.func.results.iter();
        let first = results.position(|&result| self.roots[result] == whole);
        first.is_some_and(|first| in_place::aliased_results(self.func, arg).contains(&first))
    }

    /// The root that a value is a part of, by a split or a similar operation.
    #[must_use]
    pub fn parent(&self, value: Value) -> Option<Value> {
        self.parents[value]
    }

    /// The place of the compact buffer of the part at a port, given the place of the whole.
    pub fn spread(&mut self, op: Op, part: &Part, whole: &Spread) -> Option<Spread> {
        let data = &self.func.ops[op];
        let (small, large) = (part.part.value(data)?, part.whole.value(data)?);
        let picks = self.picks(part)?;
        let (large, small) = (self.layout(large)?, self.layout(small)?);
        // A part lies in the memory space of the whole.
        (large.space() == small.space())
            .then(|| whole.part(large, small, &picks))
            .flatten()
    }

    /// The stand-ins of sizes; `None` if a value is too large for them.
    #[must_use]
    pub fn numbers(&self) -> Option<&StandIns> {
        self.numbers.as_ref()
    }

    /// Returns whether the values of the function lie in tiles on a target: they do not if a size is unknown.
    #[must_use]
    pub fn is_tiled(&self, target: &Target) -> bool {
        target.is_tiled() && self.is_sized
    }

    /// A stand-in for a size.
    pub(crate) fn number(&mut self, dim: &Dim) -> Option<u64> {
        self.numbers.as_mut()?.number(dim)
    }

    pub(crate) fn picks(&mut self, part: &Part) -> Option<Vec<Pick>> {
        let numbers = self.numbers.as_mut()?;
        let pick = |along: &optc_ir::Along| {
            let start = match along.start.as_constant() {
                Some(n) => u64::try_from(n).ok()?,
                None => numbers.number(&Dim::of_size(&along.start))?,
            };
            Some(Pick {
                from: along.from,
                start,
                step: along.step,
            })
        };
        part.dims.iter().map(pick).collect()
    }

    /// Returns whether two parts of one whole have no element in common: their ranges are disjoint along some
    /// dimension.
    pub fn apart(&mut self, a: (Op, &Part), b: (Op, &Part)) -> bool {
        let (Some(p), Some(q)) = (self.box_of(a.0, a.1), self.box_of(b.0, b.1)) else {
            return false;
        };
        let beside =
            |((low, high), (from, to)): (&(u64, u64), &(u64, u64))| high < from || to < low;
        p.len() == q.len() && p.iter().zip(&q).any(beside)
    }

    /// The first and last index of a part in each dimension of the whole.
    fn box_of(&mut self, op: Op, part: &Part) -> Option<Vec<(u64, u64)>> {
        let small = part.part.value(&self.func.ops[op])?;
        let shape = self.layout(small)?.shape().to_vec();
        let picks = self.picks(part)?;
        let ends = |pick: &Pick| {
            let last = pick.from.map_or(Some(0), |d| shape[d].checked_sub(1))?;
            let far = i64::try_from(last).ok()?.checked_mul(pick.step)?;
            let end = pick.start.checked_add_signed(far)?;
            Some((pick.start.min(end), pick.start.max(end)))
        };
        picks.iter().map(ends).collect()
    }
}

/// Returns whether digits, major to minor, step evenly as one run.
pub(crate) fn one_run<'s>(digits: impl Iterator<Item = &'s Stride>) -> bool {
    let digits: Vec<&Stride> = digits.collect();
    digits.windows(2).all(|pair| {
        let below = i64::try_from(pair[1].count).ok();
        below.and_then(|n| n.checked_mul(pair[1].stride)) == Some(pair[0].stride)
    })
}
