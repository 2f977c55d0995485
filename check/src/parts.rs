//! Values that lie in the bytes of others: parts of a live value, and what is written where a concat or pad wants it.
//!
//! What an operation lists in `in_place`, and the result of a `subview`, has no buffer of its own. Where it lies follows
//! from its whole ([`Spread`]), and whoever reads or writes it has strides instead of a compact buffer. [`Site`] finds
//! who that is; [`takes`] says whether the row of a target lets it.

use crate::codes;
use crate::known::known_values;
use crate::labels;
use indexmap::{IndexMap, IndexSet};
use optc_ir::analysis::live_ops;
use optc_ir::effects::Effects;
use optc_ir::entity::{EntityId, SideTable};
use optc_ir::op::in_place;
use optc_ir::op::part::Port;
use optc_ir::{
    Diagnostic, Dim, FreedomClass, Func, Module, Op, Operation, Part, Registry, Role, StandIns,
    Structure, Value, ValueDef,
};
use optc_layout::{Layout, Pick, Spread, Stride};
use optc_ops::Subview;
use optc_target::{Parts, Target};
use std::rc::Rc;

/// A reader of a value: the operation, the number of its operand, and the view that it reads.
pub type Use = (Op, usize, Value);

/// Who reads and writes the buffers of one function, and in which layouts.
pub struct Site<'a> {
    /// The function.
    pub func: &'a Func,
    /// What its operations are.
    pub registry: &'a Registry,
    /// The value whose buffer a view looks at; other values are their own.
    roots: SideTable<Value, Value>,
    /// The readers of each buffer that are no views.
    uses: SideTable<Value, Vec<Use>>,
    /// Whether something wants the buffer of a value for itself.
    whole: SideTable<Value, bool>,
    known: SideTable<Value, bool>,
    layouts: SideTable<Value, Option<Rc<Layout>>>,
    parts: SideTable<Op, Rc<[Part]>>,
    /// The root that a result is a part of, by a split or its like.
    parents: SideTable<Value, Option<Value>>,
    numbers: Option<StandIns>,
}

impl<'a> Site<'a> {
    /// Of a function whose operations have these effects.
    #[must_use]
    pub fn new(func: &'a Func, registry: &'a Registry, effects: &Effects<'_>) -> Site<'a> {
        let open = |v: Value| func.ty(v).as_tensor().is_some_and(|t| t.shape().is_none());
        let numbers = match func.values.ids().any(open) {
            true => StandIns::for_func(func, registry),
            false => Some(StandIns::new(2)),
        };
        let mut site = Site {
            func,
            registry,
            roots: SideTable::new(Value::from_index(0)),
            uses: SideTable::new(Vec::new()),
            whole: SideTable::new(false),
            known: known_values(func, registry, effects),
            layouts: SideTable::new(None),
            parts: SideTable::new(Rc::from([])),
            parents: SideTable::new(None),
            numbers,
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

    /// Whether an operation wants its operands in buffers of their own: nothing is known of it, or it runs functions.
    fn wants_whole(&self, op: Op) -> bool {
        let data = &self.func.ops[op];
        let decl = self.registry.get(&data.name);
        let class = decl.map(|decl| decl.freedom(&self.func.op_ref(op)).class);
        let converts = self.registry.structure(&data.name) == Structure::Convert;
        data.props.symbols().next().is_some()
            || (!converts && matches!(class, None | Some(FreedomClass::Barrier)))
    }

    /// The value whose buffer this one looks at.
    #[must_use]
    pub fn root(&self, value: Value) -> Value {
        self.roots[value]
    }

    /// The readers of the buffer of a root.
    #[must_use]
    pub fn uses(&self, root: Value) -> &[Use] {
        &self.uses[root]
    }

    /// Whether the caller, a function that is run or an operation of which nothing is known wants the buffer of a root.
    #[must_use]
    pub fn is_wanted_whole(&self, root: Value) -> bool {
        self.whole[root]
    }

    /// Whether a value is a constant, or computed of these alone.
    #[must_use]
    pub fn is_known(&self, value: Value) -> bool {
        self.known[value]
    }

    /// The layout of a value; a number stands for each of its sizes that has only a name.
    #[must_use]
    pub fn layout(&self, value: Value) -> Option<&Layout> {
        self.layouts[value].as_deref()
    }

    /// The buffer of a root where it has one of its own.
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

    /// Whether the row of an operation takes parts at all.
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

    /// The root that a value is a part of, by a split or its like.
    #[must_use]
    pub fn parent(&self, value: Value) -> Option<Value> {
        self.parents[value]
    }

    /// Where the compact buffer of the part at a port lies, given where the whole's does.
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

    fn picks(&mut self, part: &Part) -> Option<Vec<Pick>> {
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

    /// Whether two parts of one whole have no element in common: along some dimension they are apart.
    pub fn apart(&mut self, a: (Op, &Part), b: (Op, &Part)) -> bool {
        let (Some(p), Some(q)) = (self.box_of(a.0, a.1), self.box_of(b.0, b.1)) else {
            return false;
        };
        let beside =
            |((low, high), (from, to)): (&(u64, u64), &(u64, u64))| high < from || to < low;
        p.len() == q.len() && p.iter().zip(&q).any(beside)
    }

    /// The first and last index in each dimension of the whole.
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

/// Whether the row of a target lets an operation read or write a buffer that is spread out in another one.
///
/// # Errors
/// It does not; the text says why.
pub fn takes(
    site: &Site<'_>,
    target: &Target,
    op: Op,
    port: Port,
    spread: &Spread,
) -> Result<(), String> {
    let data = &site.func.ops[op];
    let value = port.value(data).ok_or("there is no such port")?;
    let layout = site.layout(value).ok_or("its layout is not known")?;
    let strides = spread
        .strides(layout)
        .ok_or("its elements do not lie evenly there")?;
    let decl = site
        .registry
        .get(&data.name)
        .ok_or("nothing is known of it")?;
    if site.registry.structure(&data.name) == Structure::Convert {
        return Ok(());
    }
    let row = target.row(decl.family_of(&site.func.op_ref(op)));
    let parts = row.and_then(|row| row.parts);
    let (Some(row), Some(parts)) = (row, parts) else {
        return Err("its row takes no parts of larger values".to_owned());
    };
    let freedom = decl.freedom(&site.func.op_ref(op));
    let n_operands = freedom.operands.len();
    let at = match port {
        Port::Operand(n) => n,
        Port::Result(n) => n_operands + n,
    };
    let of_port = labels::labels_of(&freedom, at);
    let label = |stride: &Stride| of_port.get(stride.dim).copied().flatten();
    match parts {
        Parts::Leading => {
            let batch =
                |s: &&Stride| label(s).is_some_and(|l| freedom.labels[l].role == Role::Batch);
            let torn = |s: &&Stride| i64::try_from(s.compact) != Ok(s.stride);
            match strides.iter().filter(|s| !batch(s)).any(|s| torn(&s)) {
                true => Err("it is not in one piece beside the batch".to_owned()),
                false => Ok(()),
            }
        }
        Parts::Any => {
            let whole = row.take.iter().flat_map(|a| &a.one_run);
            for &role in whole {
                let of_role = strides.iter().filter(|s| {
                    label(s).is_some_and(|l| labels::role(&freedom, l, n_operands) == role)
                });
                if !one_run(of_role) {
                    return Err(format!("{} is in no one run there", role.name()));
                }
            }
            Ok(())
        }
    }
}

/// Whether digits, major to minor, are one stretch of even steps.
fn one_run<'s>(digits: impl Iterator<Item = &'s Stride>) -> bool {
    let digits: Vec<&Stride> = digits.collect();
    digits.windows(2).all(|pair| {
        let below = i64::try_from(pair[1].count).ok();
        below.and_then(|n| n.checked_mul(pair[1].stride)) == Some(pair[0].stride)
    })
}

/// Where the buffers of a function lie that says of its parts where they are, and whether all may.
struct Judge<'a> {
    site: Site<'a>,
    /// Whose rows decide who takes what; `None` where only the places are asked for.
    target: Option<&'a Target>,
    /// Where each root's buffer lies; `None` in pieces.
    spread: SideTable<Value, Option<Spread>>,
    /// The operation in whose result the root lies.
    home: SideTable<Value, Option<Op>>,
    /// Whether a root lies in another one's buffer.
    inside: SideTable<Value, bool>,
    /// Whether a root lies in several pieces.
    pieces: SideTable<Value, bool>,
    /// The operations and the numbers of their operands that lie in the result.
    placed: IndexSet<(Op, usize)>,
}

/// Checks that what lies in the bytes of others may, on a target: one writer a byte, and readers and writers that take
/// the strides.
#[must_use]
pub fn check_parts(module: &Module, registry: &Registry, target: &Target) -> Vec<Diagnostic> {
    let effects = Effects::of_module(module, registry);
    let mut diags = Vec::new();
    for func in &module.funcs {
        let says = |op: &Op| {
            let data = &func.ops[*op];
            data.attrs.get(in_place::IN_PLACE).is_some()
                || (&*data.name == Subview::NAME && !target.is_tiled())
        };
        if !func.body.iter().any(says) {
            continue;
        }
        let mut judge = Judge::new(Site::new(func, registry, &effects), Some(target));
        if let Err((op, reason)) = judge.run() {
            let data = &func.ops[op];
            let message = format!("what `{}` says lies in place does not", data.name);
            let diag = Diagnostic::error(codes::PART_IN_PLACE, message);
            diags.push(diag.at(data.span, "here").note(format!("found: {reason}")).note(
                "wanted: one writer for each byte, and readers and writers whose rows take the strides",
            ));
        }
    }
    diags
}

type Refused = (Op, String);

/// The values that lie where another one wants them, as a function says, each with the operation that wants it there;
/// what lies in several pieces too. Views of them are not among them. Nothing where what the function says of its parts
/// cannot be, whatever machine it is.
#[must_use]
pub fn homes(func: &Func, registry: &Registry, effects: &Effects<'_>) -> IndexMap<Value, Op> {
    let mut homes = IndexMap::new();
    let says = |op: &Op| func.ops[*op].attrs.get(in_place::IN_PLACE).is_some();
    if !func.body.iter().any(says) {
        return homes;
    }
    let mut judge = Judge::new(Site::new(func, registry, effects), None);
    if judge.run().is_err() {
        return homes;
    }
    for value in func.values.ids() {
        if let Some(op) = judge.home[value] {
            homes.insert(judge.site.parent(value).unwrap_or(value), op);
        }
    }
    homes
}

impl<'a> Judge<'a> {
    fn new(site: Site<'a>, target: Option<&'a Target>) -> Self {
        let mut judge = Judge {
            spread: SideTable::new(None),
            home: SideTable::new(None),
            inside: SideTable::new(false),
            pieces: SideTable::new(false),
            placed: IndexSet::new(),
            site,
            target,
        };
        for value in judge.site.func.values.ids() {
            judge.spread[value] = judge.site.own(value);
        }
        judge
    }
}

impl Judge<'_> {
    fn run(&mut self) -> Result<(), Refused> {
        let func = self.site.func;
        for &op in func.body.iter().rev() {
            self.operands(op)?;
        }
        for &op in &func.body {
            self.results(op)?;
        }
        for &op in &func.body {
            for &result in &func.ops[op].results {
                let root = self.site.root(result);
                if root == result && (self.inside[root] || self.pieces[root]) {
                    self.readers(op, root)?;
                }
            }
        }
        Ok(())
    }

    fn listed(&self, op: Op) -> Result<Vec<Part>, Refused> {
        let data = &self.site.func.ops[op];
        let numbers = in_place::listed(data).map_err(|e| (op, e))?;
        let all = self.site.parts(op);
        if &*data.name == Subview::NAME {
            return Ok(all.to_vec());
        }
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let has_parts = |target| self.site.has_parts(target, op);
        if !self.target.is_none_or(has_parts) {
            return Err((op, "its row has no `parts`".to_owned()));
        }
        let by_number: IndexMap<usize, &Part> = all.iter().map(|p| (p.part.number(), p)).collect();
        let of_number = |n: &usize| {
            let found = by_number.get(n).map(|&part| part.clone());
            found.ok_or_else(|| (op, format!("port {n} is no part of another one")))
        };
        numbers.iter().map(of_number).collect()
    }

    /// The operands that lie in the result.
    fn operands(&mut self, op: Op) -> Result<(), Refused> {
        for part in self.listed(op)? {
            let data = &self.site.func.ops[op];
            let (Port::Operand(n), Some(value)) = (part.part, part.part.value(data)) else {
                continue;
            };
            let root = self.site.root(value);
            let refuse = |why: &str| Err((op, format!("operand {n} {why}")));
            if self.site.is_known(root) || self.site.is_wanted_whole(root) {
                return refuse("has a buffer of its own");
            }
            if self.home[root].is_some() {
                return refuse("lies in another place too");
            }
            let Some((writer, number)) = self.site.writer(root) else {
                return refuse("is an argument");
            };
            let whole = part.whole.value(data).map(|v| self.site.root(v));
            let whole = whole.filter(|w| !self.pieces[*w]);
            let base = whole.and_then(|w| self.spread[w].clone());
            let spread = base.and_then(|base| self.site.spread(op, &part, &base));
            if let Some(parent) = self.site.parent(root) {
                // The whole of the part that lies here lies in pieces.
                self.pieces[parent] = true;
            } else {
                self.writes(writer, number, spread.as_ref())
                    .map_err(|e| (op, format!("operand {n}: {e}")))?;
            }
            self.home[root] = Some(op);
            self.placed.insert((op, n));
            self.inside[root] = true;
            self.spread[root] = spread;
        }
        Ok(())
    }

    /// Whether an operation writes its result where it lies.
    fn writes(&self, op: Op, number: usize, spread: Option<&Spread>) -> Result<(), String> {
        let data = &self.site.func.ops[op];
        if self.site.wants_whole(op) {
            return Err(format!("`{}` writes a buffer of its own", data.name));
        }
        match (self.target, spread) {
            (None, _) => Ok(()),
            (Some(target), Some(spread)) => {
                takes(&self.site, target, op, Port::Result(number), spread)
            }
            (Some(target), None) => writes_pieces(&self.site, target, op),
        }
    }

    /// The results that are parts of the operand.
    fn results(&mut self, op: Op) -> Result<(), Refused> {
        for part in self.listed(op)? {
            let data = &self.site.func.ops[op];
            let (Port::Result(n), Some(result)) = (part.part, part.part.value(data)) else {
                continue;
            };
            let parent = part.whole.value(data).map(|v| self.site.root(v));
            let Some(parent) = parent else { continue };
            if self.site.is_wanted_whole(result) {
                return Err((op, format!("result {n} is wanted in a buffer of its own")));
            }
            if self.home[result].is_some() {
                continue;
            }
            let base = self.spread[parent].clone();
            self.spread[result] = base.and_then(|base| self.site.spread(op, &part, &base));
            self.inside[result] = true;
        }
        Ok(())
    }

    /// Whether all readers of a root take it where it lies.
    fn readers(&mut self, op: Op, root: Value) -> Result<(), Refused> {
        let uses = self.site.uses(root).to_vec();
        if self.pieces[root] {
            let (writer, _) = self
                .site
                .writer(root)
                .ok_or((op, "an argument is written in pieces".to_owned()))?;
            if let Some(target) = self.target {
                writes_pieces(&self.site, target, writer).map_err(|e| (op, e))?;
            }
            if self.site.is_wanted_whole(root)
                || self.site.is_known(root)
                || self.site.parent(root).is_some()
            {
                return Err((op, "is written in pieces, and wanted whole".to_owned()));
            }
            return self.all_apart(op, root, &uses);
        }
        for (reader, port, _) in uses {
            if self.home[root] == Some(reader) && self.placed.contains(&(reader, port)) {
                continue;
            }
            let Some(spread) = &self.spread[root] else {
                return Err((
                    op,
                    "its elements do not lie evenly, and it has other readers".to_owned(),
                ));
            };
            let Some(target) = self.target else { continue };
            takes(&self.site, target, reader, Port::Operand(port), spread).map_err(|e| {
                (
                    op,
                    format!("for `{}`, {e}", self.site.func.ops[reader].name),
                )
            })?;
        }
        Ok(())
    }

    /// Whether all readers take parts that lie in one place, have no elements in common, and are all there is.
    fn all_apart(&mut self, op: Op, root: Value, uses: &[Use]) -> Result<(), Refused> {
        let mut all: Vec<(Op, Part)> = Vec::new();
        let one_view = uses.iter().all(|&(.., v)| v == uses[0].2);
        for &(reader, ..) in uses {
            let parts = self.listed(reader)?;
            let results = self.site.func.ops[reader].results.len();
            let in_place = parts.iter().filter(|p| matches!(p.part, Port::Result(_)));
            if !one_view || in_place.count() != results {
                return Err((op, "is written in pieces, and read as a whole".to_owned()));
            }
            all.extend(parts.into_iter().map(|part| (reader, part)));
        }
        let elements = |v: Value| self.site.layout(v).map(|l| l.elements());
        let mut left = elements(root);
        let mut homes = Vec::with_capacity(all.len());
        for (cutter, part) in &all {
            let value = part.part.value(&self.site.func.ops[*cutter]);
            let size = value.and_then(elements);
            left = left.zip(size).and_then(|(n, k)| n.checked_sub(k));
            homes.push(value.and_then(|v| self.home[v]));
        }
        if left != Some(0) || homes.iter().any(|home| home.is_none() || *home != homes[0]) {
            return Err((
                op,
                "is written in pieces that do not all lie in one value".to_owned(),
            ));
        }
        for i in 0..all.len() {
            for j in 0..i {
                let (a, b) = (&all[i], &all[j]);
                if !self.site.apart((a.0, &a.1), (b.0, &b.1)) {
                    return Err((
                        op,
                        "is written in pieces that have elements in common".to_owned(),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Whether an operation writes a result that lies in several pieces.
///
/// # Errors
/// It does not.
pub fn writes_pieces(site: &Site<'_>, target: &Target, op: Op) -> Result<(), String> {
    let data = &site.func.ops[op];
    if site.registry.structure(&data.name) == Structure::Convert {
        return Ok(());
    }
    let row = site
        .registry
        .get(&data.name)
        .and_then(|d| target.row(d.family()));
    match row.and_then(|row| row.parts) {
        Some(Parts::Any) => Ok(()),
        Some(Parts::Leading) | None => {
            Err(format!("`{}` writes its result in one piece", data.name))
        }
    }
}
