//! The answer of a compilation, for each value and operation that went in.
//!
//! ```
//! use optc::ops::{Relu, Transpose};
//! use optc::{Compiler, DType, Fate, FuncBuilder, TensorType, ViewDecision};
//!
//! let compiler = Compiler::new();
//! let mut b = FuncBuilder::new(compiler.registry());
//! let x = b.arg("x", TensorType::fixed(&[2, 3], DType::F32));
//! let turned = b.one(&Transpose { perm: vec![1, 0] }, &[x])?;
//! let y = b.one(&Relu {}, &[turned])?;
//! let back = b.one(&Transpose { perm: vec![1, 0] }, &[y])?;
//! let program = compiler.program("example", b.finish(&[back]))?;
//!
//! let answer = compiler.fold(&program)?;
//! let Fate::Held(holders) = answer.fate(turned)? else { panic!("it is read") };
//! let layout = holders[0].layout.as_ref().expect("it is a tensor");
//! assert_eq!(layout.strides(), Some(vec![1.into(), 3.into()]));
//! let op = program.module.funcs[0].body[0];
//! assert!(matches!(answer.is_view(op)?, ViewDecision::View { .. }));
//! # Ok::<(), optc::Error>(())
//! ```

use crate::codes;
use crate::compiler::{Compiler, Report};
use crate::error::Error;
use crate::program::Program;
use crate::stored::Stored;
use indexmap::IndexMap;
use optc_check::parts::Site;
use optc_check::stats::{CostClass, Stats};
use optc_check::{Source, items};
use optc_ir::analysis::{Uses, live_ops};
use optc_ir::effects::Effects;
use optc_ir::entity::SideTable;
use optc_ir::memory::{self, Place};
use optc_ir::op::in_place;
use optc_ir::op::part::{Part, Port};
use optc_ir::size::SizeTable;
use optc_ir::trace::{self, Step};
use optc_ir::{
    Diagnostic, Func, Module, Op, Registry, StandIns, Structure, Value, ValueDef, ViewDims,
};
use optc_layout::{Layout, Spread, ViewMap, propagate};
use optc_passes::manager::Hooks;
use optc_passes::view_fold::{FoldReport, Reason};
use optc_passes::{PassContext, Stage, bufferize, pipeline};
use optc_tile::{Plan, Tile};
use std::fmt;
use std::sync::Arc;

/// The fate of a value in a compilation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fate {
    /// These values of the result have its elements; never empty. The copies in other layouts are among them.
    Held(Vec<Holder>),
    /// No value of the result has its elements.
    Absent(Absence),
}

/// The reason why no value of the result has the elements of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Absence {
    /// In the program that went in, no result and no effect depended on it.
    Dead,
    /// Its readers compute it inside of these operations of the result.
    Inside(Vec<OpOf>),
    /// This pass removed it, and recorded nothing in its place.
    Removed(&'static str),
}

/// An operation of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpOf {
    /// The number of its function in the result.
    pub func: usize,
    /// The operation.
    pub op: Op,
}

/// A value of the result that has the elements of a value that went in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Holder {
    /// The number of the function in the result.
    pub func: usize,
    /// The value of the result.
    pub value: Value,
    /// The rearrangements from `value` to the value that went in, by their sizes as in `layout`; empty if both have the
    /// same elements at the same indices. `None` if sizes of a rearrangement are not known: they have no name, or a
    /// name that must be 1 in the run.
    pub map: Option<Vec<ViewMap>>,
    /// The layout of the value that went in, in the compact buffer of `value`. `None` if it is no tensor, has a size
    /// without a name, or if no layout describes it there.
    pub layout: Option<Stored>,
    /// The place of `value` in memory.
    pub place: Located,
}

/// The place of a value of the result in memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Located {
    /// The layout of the value in its compact buffer. `None` if it is no tensor, or has a size without a name.
    pub layout: Option<Stored>,
    /// The value of the result whose buffer this is: the value itself, the value that it is a view of, or the value
    /// that it is a part of.
    pub buffer: Value,
    /// The place of the compact buffer in that of `buffer`, where it is evenly spaced.
    pub spread: Option<Spread>,
    /// True if the elements are in pieces, in the buffers of the operands of the operation that has the value as result.
    pub in_pieces: bool,
    /// True if the value is known when the program is compiled.
    pub is_constant: bool,
    /// After `bufferize`: the place of `buffer`. `None` for an argument.
    pub memory: Option<Place>,
    /// The update that replaces elements of the value in its buffer. Operations behind it find other elements there.
    /// `None` if the elements stay.
    pub until: Option<OpOf>,
    /// After `tile-propagate`: the parts of the value that a program of its group computes.
    pub tiles: Option<Tiles>,
}

/// The parts of a value that a program of a group computes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tiles {
    /// The number of the group in the [`Plan`] of the function, which has its grid.
    pub group: usize,
    /// The parts.
    pub parts: Vec<Tile>,
}

impl fmt::Display for Holder {
    /// The function, the value and the layout of the value that went in: `@0 %3 in row-major`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{} {}", self.func, self.value)?;
        match &self.layout {
            Some(layout) => write!(f, " in {layout}"),
            None => Ok(()),
        }
    }
}

impl Holder {
    /// The place of an element of the value that went in, in elements from the start of the buffer. `None` if the index
    /// is outside, the sizes are unknown, or the place is not known.
    #[must_use]
    pub fn offset(&self, index: &[u64]) -> Option<i64> {
        self.place.offset_by(self.layout.as_ref()?, index)
    }
}

impl Located {
    /// The place of an element, in elements from the start of the buffer. `None` as for [`Holder::offset`].
    #[must_use]
    pub fn offset(&self, index: &[u64]) -> Option<i64> {
        self.offset_by(self.layout.as_ref()?, index)
    }

    fn offset_by(&self, layout: &Stored, index: &[u64]) -> Option<i64> {
        Some(self.spread.as_ref()?.place(layout.offset(index)?))
    }
}

/// The fate of a reshape, a transpose or another rearrangement.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ViewDecision {
    /// Its result is its operand at other indices, in one buffer.
    View {
        /// The rearrangement. `None` if the sizes are not known.
        map: Option<ViewMap>,
        /// The holder of the operand.
        operand: Box<Holder>,
        /// The holder of the result in the same buffer.
        result: Box<Holder>,
    },
    /// These operations of the result write the elements again, the one nearest to the operand first.
    Moved(Vec<OpOf>),
    /// Operand and result are computed apart, each in the layout in which it is read.
    Computed,
    /// The operand or the result is in no value.
    Absent(Absence),
}

/// A conversion between layouts that the result runs.
///
/// ```
/// use optc::{Absence, Conversion, Fate, FoldReport, Freed, Holder, Keeper, Located, NamedEnd, OpOf, Proof, Reason, Stored};
///
/// let compiler = optc::Compiler::new();
/// let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
///     %1 = \"hbir.exp\"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>";
/// let program = compiler.parse("example.ir", &format!("func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {{ {text}
///     return %0 : tensor<3x2xf32> }}"))?;
/// let answer = compiler.fold(&program)?;
/// let Conversion { op: OpOf { func, op }, from, to, bytes, reason, .. } = &answer.conversions()[0];
/// assert!(answer.program().module.funcs[*func].body.contains(op));
/// let [from, to]: [&Stored; 2] = [from, to].map(|layout| layout.as_ref().expect("a known size"));
/// assert_eq!((from.to_string(), to.to_string(), *bytes), ("row-major".into(), "order = [1, 0]".into(), 48));
/// match reason {
///     Some(Reason::Pinned { ports, options }) => {
///         let names = ports.iter().map(|NamedEnd { name, .. }| name.clone());
///         let all = options.iter().any(|option: &Freed| matches!(option, Freed::All));
///         println!("{:?} are pinned, all must be free: {all}", names.collect::<Vec<_>>());
///     }
///     Some(Reason::Kept { keeper: Keeper::Declared, .. }) => println!("a port declares it"),
///     other => panic!("{other:?}"),
/// }
/// let fold: &FoldReport = answer.folded().expect("it ran");
/// assert_eq!((fold.proof, fold.lower_bound_bytes), (Proof::Optimal, 48));
///
/// let func = &program.module.funcs[0];
/// let dead = func.ops[func.body[1]].results[0];
/// assert!(matches!(answer.fate(dead)?, Fate::Absent(Absence::Dead)));
/// let holder: &Holder = &answer.holders(func.args[0])?[0];
/// assert_eq!(holder.offset(&[1, 0]), Some(3));
/// let place: &Located = &holder.place;
/// assert_eq!(place.buffer, holder.value);
/// # Ok::<(), optc::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Conversion {
    /// The operation.
    pub op: OpOf,
    /// The values that went in whose elements it writes.
    pub of: Vec<Value>,
    /// The layout that it reads.
    pub from: Option<Stored>,
    /// The layout that it writes.
    pub to: Option<Stored>,
    /// Bytes read plus written, at the sizes that costs are compared at.
    pub bytes: u64,
    /// True if it runs when the program is compiled.
    pub is_constant: bool,
    /// The operations of the result that read it, through views.
    pub readers: Vec<OpOf>,
    /// The numbers of the function's results that it is, through views.
    pub results: Vec<usize>,
    /// The reason why it stays. `None` for a constant, and for a conversion that the program stated before the fold.
    pub reason: Option<Reason>,
}

/// A program, what passes made of it, and what became of each value that went in.
#[derive(Clone, Debug)]
pub struct Answer {
    before: Module,
    program: Program,
    report: Report,
    registry: Arc<Registry>,
    sizes: SizeTable,
    stats: Stats,
    funcs: Vec<FuncOf>,
    /// For each value that went in, the function and the number of each record.
    held: IndexMap<Value, Vec<(usize, usize)>>,
    lost: IndexMap<Value, &'static str>,
    /// By function that went in, the operations that something depends on.
    live: Vec<SideTable<Op, bool>>,
    /// By function that went in, the readers of its values.
    uses: Vec<Uses>,
}

/// A value of the result: the values that went in that it is, and its readers.
#[derive(Clone, Debug, Default)]
struct Read {
    of: Vec<Value>,
    ops: Vec<OpOf>,
    results: Vec<usize>,
}

/// The buffers of a function of the result.
#[derive(Clone, Debug)]
struct FuncOf {
    numbers: Option<Arc<StandIns>>,
    layouts: SideTable<Value, Option<Layout>>,
    /// The value that a view is of; the value itself for others.
    roots: SideTable<Value, Option<Value>>,
    /// The buffer that a root lies in, and its place there.
    within: SideTable<Value, Option<(Value, Option<Spread>)>>,
    known: SideTable<Value, bool>,
    /// The update that replaces elements of a root.
    replaced: IndexMap<Value, Op>,
    plan: Option<Plan>,
}

impl Compiler {
    /// Runs the pipeline `default` on a program and keeps what becomes of each of its values. The program stays as it
    /// is.
    ///
    /// # Errors
    /// As for [`Compiler::compile`].
    pub fn fold(&self, program: &Program) -> Result<Answer, Error> {
        self.answer(program, &pipeline::DEFAULT.join(","))
    }

    /// Runs a pipeline on a program and keeps what becomes of each of its values. The program stays as it is.
    ///
    /// # Errors
    /// As for [`Compiler::compile`].
    pub fn answer(&self, program: &Program, pipeline: &str) -> Result<Answer, Error> {
        let (stages, mut cx) = (self.pipeline(pipeline)?, self.context(program)?);
        self.answer_in(program, &stages, &mut cx, &mut Hooks::default())
    }

    /// Runs passes in a context of its own, with hooks around each pass, and keeps what becomes of each of the program's
    /// values. The program stays as it is. The remarks and reports of the context move into the answer.
    ///
    /// # Errors
    /// As for [`Compiler::run_passes`].
    pub fn answer_in(
        &self,
        program: &Program,
        stages: &[Stage],
        cx: &mut PassContext,
        hooks: &mut Hooks<'_>,
    ) -> Result<Answer, Error> {
        let before = program.module.clone();
        let mut program = program.clone();
        trace::start(&mut program.module);
        let timings = self.run_passes(&mut program, stages, cx, hooks)?;
        let report = Report {
            timings,
            remarks: std::mem::take(&mut cx.remarks),
            reports: std::mem::take(&mut cx.reports),
        };
        Ok(Answer::new(self, before, program, report))
    }
}

impl Answer {
    fn new(compiler: &Compiler, before: Module, program: Program, report: Report) -> Answer {
        let registry = compiler.registry().clone();
        let module = &program.module;
        let effects = Effects::of_module(module, &registry);
        let funcs = module.funcs.iter();
        let funcs = funcs
            .map(|func| FuncOf::new(func, &registry, &effects))
            .collect();
        let (mut held, mut lost) = (IndexMap::<Value, Vec<_>>::new(), IndexMap::new());
        for (number, func) in module.funcs.iter().enumerate() {
            let Some(trace) = &func.trace else { continue };
            for (at, one) in trace.held.iter().enumerate() {
                held.entry(one.origin).or_default().push((number, at));
            }
            lost.extend(trace.lost.iter().copied());
        }
        let sizes = compiler.sizes_of(&before);
        let effects = Effects::of_module(&before, &registry);
        let live = before.funcs.iter().map(|func| live_ops(func, &effects));
        Answer {
            live: live.collect(),
            uses: before.funcs.iter().map(Uses::of).collect(),
            stats: compiler.stats_at(&program, &sizes),
            sizes,
            before,
            program,
            report,
            registry,
            funcs,
            held,
            lost,
        }
    }

    /// The program that went in.
    #[cfg(feature = "draw")]
    pub(crate) fn before(&self) -> &Module {
        &self.before
    }

    /// The operations of the compiler.
    #[cfg(feature = "draw")]
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The sizes at which costs are compared.
    #[cfg(feature = "draw")]
    pub(crate) fn sizes(&self) -> &SizeTable {
        &self.sizes
    }

    /// The program that the passes made.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The program that the passes made, alone.
    #[must_use]
    pub fn into_program(self) -> Program {
        self.program
    }

    /// The remarks, times and reports of the passes.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The figures of the result: bytes by class, numbers of operations.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The report of `view-fold`, with bound and proof; `None` if the pass did not run.
    #[must_use]
    pub fn folded(&self) -> Option<&FoldReport> {
        self.report.reports.get()
    }

    /// The most bytes that are alive at once in a function.
    ///
    /// # Errors
    /// The memory of the result cannot be decided: a size is too large.
    pub fn peak_bytes(&self) -> Result<u64, Error> {
        bufferize::live_bytes(&self.program.module, &self.registry, &self.sizes)
            .map_err(|d| self.program.error(vec![*d]))
    }

    /// The plan of a function of the result, after `tile-propagate`: its groups with their grids.
    #[must_use]
    pub fn plan(&self, func: usize) -> Option<&Plan> {
        self.funcs.get(func)?.plan.as_ref()
    }

    /// The place of a value of the result in memory.
    ///
    /// # Errors
    /// The function does not exist, or the value is not one of it (`stale-handle`).
    pub fn place(&self, func: usize, value: Value) -> Result<Located, Error> {
        let known = self.program.module.funcs.get(func);
        match known.and_then(|func| func.values.get(value)) {
            Some(_) => Ok(self.located(func, value)),
            None => Err(stale("the result", &value.to_string())),
        }
    }

    /// The fate of a value that went in: its holders, or the reason why there is none.
    ///
    /// # Errors
    /// The value is none of the program that went in (`stale-handle`).
    pub fn fate(&self, value: Value) -> Result<Fate, Error> {
        let (number, func) = self.origin(value)?;
        let holders = self.holders_of(value);
        if !holders.is_empty() {
            return Ok(Fate::Held(holders));
        }
        Ok(Fate::Absent(self.absence(number, func, value)))
    }

    /// The values of the result that hold a value that went in; empty if there is none, see [`Answer::fate`].
    ///
    /// # Errors
    /// As for [`Answer::fate`].
    pub fn holders(&self, value: Value) -> Result<Vec<Holder>, Error> {
        self.origin(value)?;
        Ok(self.holders_of(value))
    }

    /// The fate of a rearrangement that went in: a reshape, a transpose, or another operation whose result is its
    /// operand at other indices.
    ///
    /// # Errors
    /// The operation is none of the program that went in (`stale-handle`), or it is no rearrangement.
    pub fn is_view(&self, op: Op) -> Result<ViewDecision, Error> {
        let funcs = self.before.funcs.iter();
        let func = funcs.into_iter().find(|func| func.ops.get(op).is_some());
        let func = func.ok_or_else(|| stale("the program that went in", &op.to_string()))?;
        let view = self.registry.rearrangement(&func.op_ref(op));
        let view = view.map_err(|e| Error::about(&self.program.name, e.into()))?;
        let (operand, result) = (func.ops[op].operands[0], func.ops[op].results[0]);
        let (before, after) = match (self.fate(operand)?, self.fate(result)?) {
            (Fate::Held(before), Fate::Held(after)) => (before, after),
            (Fate::Absent(why), _) | (_, Fate::Absent(why)) => {
                return Ok(ViewDecision::Absent(why));
            }
        };
        let pairs = after.iter().flat_map(|result| {
            let operands = before.iter().filter(|operand| operand.func == result.func);
            operands.map(move |operand| (operand, result))
        });
        let ways = pairs.filter_map(|(operand, result)| {
            let ops = self.moves(result.func, operand.value, result.value)?;
            Some((ops, operand, result))
        });
        let Some((ops, operand, result)) = ways.min_by_key(|(ops, ..)| ops.len()) else {
            return Ok(ViewDecision::Computed);
        };
        if !ops.is_empty() {
            return Ok(ViewDecision::Moved(ops));
        }
        Ok(ViewDecision::View {
            map: self.funcs[result.func].map(func, op, &view),
            operand: Box::new(operand.clone()),
            result: Box::new(result.clone()),
        })
    }

    /// The operation that went in that has a value as result; `None` for an argument.
    ///
    /// # Errors
    /// As for [`Answer::fate`].
    pub fn definition(&self, value: Value) -> Result<Option<Op>, Error> {
        let (_, func) = self.origin(value)?;
        Ok(func.def_op(value))
    }

    /// The conversions between layouts that the result runs, in the order of functions and operations.
    #[must_use]
    pub fn conversions(&self) -> Vec<Conversion> {
        let module = &self.program.module;
        let reasons = self.folded().into_iter().flat_map(|fold| &fold.conversions);
        let reasons: IndexMap<(usize, Op), &Option<Reason>> = reasons
            .map(|(func, c)| ((*func, c.op), &c.reason))
            .collect();
        let read: Vec<_> = (0..module.funcs.len())
            .map(|number| self.readers(number))
            .collect();
        let mut all = Vec::new();
        for item in items(module, &self.registry, &self.sizes, None) {
            let (number, Source::Op(op)) = (item.func, item.of) else {
                continue;
            };
            let data = &module.funcs[number].ops[op];
            if self.registry.structure(&data.name) != Structure::Convert {
                continue;
            }
            let (from, to) = (data.operands[0], data.results[0]);
            let Read { of, ops, results } = read[number][to].clone();
            all.push(Conversion {
                op: OpOf { func: number, op },
                of,
                from: self.funcs[number].layout(from),
                to: self.funcs[number].layout(to),
                bytes: item.bytes,
                is_constant: item.class == CostClass::Constant,
                readers: ops,
                results,
                reason: reasons.get(&(number, op)).copied().cloned().flatten(),
            });
        }
        all
    }

    /// The readers of each value of a function of the result, through views.
    fn readers(&self, number: usize) -> SideTable<Value, Read> {
        let (func, of) = (&self.program.module.funcs[number], &self.funcs[number]);
        let mut read: SideTable<Value, Read> = SideTable::new(Read::default());
        for &op in &func.body {
            let data = &func.ops[op];
            if self.registry.structure(&data.name) == Structure::View {
                continue;
            }
            for &operand in &data.operands {
                read[of.root(operand)].ops.push(OpOf { func: number, op });
            }
        }
        for (i, &value) in func.results.iter().enumerate() {
            read[of.root(value)].results.push(i);
        }
        let held = func.trace.iter().flat_map(|trace| &trace.held);
        for one in held.filter(|one| one.steps.is_empty()) {
            read[one.value].of.push(one.origin);
        }
        read
    }

    /// The function that went in that has a value.
    fn origin(&self, value: Value) -> Result<(usize, &Func), Error> {
        let mut funcs = self.before.funcs.iter().enumerate();
        let found = funcs.find(|(_, func)| func.values.get(value).is_some());
        found.ok_or_else(|| stale("the program that went in", &value.to_string()))
    }

    fn holders_of(&self, value: Value) -> Vec<Holder> {
        let places = self.held.get(&value).into_iter().flatten();
        places.map(|&(func, at)| self.holder(func, at)).collect()
    }

    fn holder(&self, number: usize, at: usize) -> Holder {
        let func = &self.program.module.funcs[number];
        let trace = func.trace.as_ref().expect("a record is in a trace");
        let (value, steps) = (trace.held[at].value, &trace.held[at].steps);
        let of = &self.funcs[number];
        let (map, layout) = of.seen(value, steps);
        Holder {
            func: number,
            value,
            map,
            layout,
            place: self.located(number, value),
        }
    }

    fn located(&self, number: usize, value: Value) -> Located {
        let (func, of) = (&self.program.module.funcs[number], &self.funcs[number]);
        let (buffer, spread) = of.buffer(of.root(value));
        let memory = match func.values[buffer].def {
            ValueDef::Result(op, result) => {
                let places = memory::places(&func.ops[op]).ok().flatten();
                places.and_then(|places| places.get(result).copied())
            }
            ValueDef::Arg(_) => None,
        };
        let update = of.replaced.get(&of.root(value)).copied();
        let (in_pieces, tiles) = match func.values[value].def {
            ValueDef::Result(op, result) => {
                let tile = of.plan.as_ref().and_then(|plan| plan.tiles.get(&op));
                let tiles = tile.map(|tile| Tiles {
                    group: tile.group,
                    parts: tile.tiles_of(result).cloned().collect(),
                });
                (in_place::is_in_pieces(&func.ops[op]), tiles)
            }
            ValueDef::Arg(_) => (false, None),
        };
        Located {
            layout: of.layout(value),
            buffer,
            spread,
            in_pieces,
            is_constant: of.known[value],
            memory,
            until: update.map(|op| OpOf { func: number, op }),
            tiles,
        }
    }

    /// The operations that write elements again on the way from one value of a function to another. `None` if there is
    /// no way through views, conversions and rearrangements.
    fn moves(&self, number: usize, from: Value, to: Value) -> Option<Vec<OpOf>> {
        let func = &self.program.module.funcs[number];
        let root = self.funcs[number].root(from);
        let mut at = self.funcs[number].root(to);
        let mut ops = Vec::new();
        while at != root {
            let op = func.def_op(at)?;
            let data = &func.ops[op];
            let converts = self.registry.structure(&data.name) == Structure::Convert;
            let moves = converts || self.registry.rearrangement(&func.op_ref(op)).is_ok();
            let operand = data.operands.first().filter(|_| moves)?;
            ops.push(OpOf { func: number, op });
            at = self.funcs[number].root(*operand);
        }
        ops.reverse();
        Some(ops)
    }

    /// The reason why no value holds a value.
    fn absence(&self, number: usize, func: &Func, value: Value) -> Absence {
        let live = match func.def_op(value) {
            Some(op) => self.live[number][op],
            None => true,
        };
        let pass = self.lost.get(&value).copied();
        if !live {
            return Absence::Dead;
        }
        let inside = self.inside(number, func, value);
        match (inside.is_empty(), pass) {
            (false, _) => Absence::Inside(inside),
            (true, Some(pass)) => Absence::Removed(pass),
            // The function itself is gone, which something would otherwise depend on.
            (true, None) => Absence::Dead,
        }
    }

    /// The operations of the result that hold what is computed of a value, past operations that are gone as well.
    fn inside(&self, number: usize, func: &Func, value: Value) -> Vec<OpOf> {
        let (mut found, mut open) = (Vec::new(), vec![value]);
        let mut seen: SideTable<Value, bool> = SideTable::new(false);
        while let Some(value) = open.pop() {
            let readers = self.uses[number].readers(value).iter();
            for &reader in readers.filter(|&&op| self.live[number][op]) {
                for &result in &func.ops[reader].results {
                    if std::mem::replace(&mut seen[result], true) {
                        continue;
                    }
                    let held = self.held.get(&result);
                    let held = held.into_iter().flatten().filter_map(|&(func, at)| {
                        let of = &self.program.module.funcs[func];
                        let trace = of.trace.as_ref()?;
                        let op = of.def_op(trace.held[at].value)?;
                        Some(OpOf { func, op })
                    });
                    let before = found.len();
                    for op in held {
                        if !found.contains(&op) {
                            found.push(op);
                        }
                    }
                    if found.len() == before {
                        open.push(result);
                    }
                }
            }
        }
        found
    }
}

impl FuncOf {
    fn new(func: &Func, registry: &Registry, effects: &Effects<'_>) -> FuncOf {
        let mut site = Site::new(func, registry, effects);
        let (mut layouts, mut roots) = (SideTable::new(None), SideTable::new(None));
        let mut known = SideTable::new(false);
        let results = func.body.iter().flat_map(|&op| &func.ops[op].results);
        for &value in func.args.iter().chain(results) {
            layouts[value] = site.layout(value).cloned();
            roots[value] = Some(site.root(value));
            known[value] = site.is_known(value);
        }
        let mut within = SideTable::new(None);
        let ops = func.body.iter().copied();
        let parts = ops.flat_map(|op| {
            in_place::settled(func, op, registry)
                .into_iter()
                .map(move |part| (op, part))
        });
        let is_result = |(_, part): &(Op, Part)| matches!(part.part, Port::Result(_));
        let (cut, joined): (Vec<_>, Vec<_>) = parts.partition(is_result);
        // A whole comes before its parts: operands lie in later results, and results in earlier operands.
        for (op, part) in joined.into_iter().rev().chain(cut) {
            let Some((small, whole)) = part.ends(&func.ops[op]) else {
                continue;
            };
            let root = site.root(whole);
            let (buffer, spread) = match &within[root] {
                Some((buffer, spread)) => (*buffer, Clone::clone(spread)),
                None => (root, site.own(root)),
            };
            let spread = spread.and_then(|spread| site.spread(op, &part, &spread));
            within[site.root(small)] = Some((buffer, spread));
        }
        FuncOf {
            numbers: site.numbers().cloned().map(Arc::new),
            layouts,
            roots,
            within,
            known,
            replaced: optc_check::parts::replaced(func, registry, effects),
            plan: Plan::read(func).ok().flatten(),
        }
    }

    fn root(&self, value: Value) -> Value {
        self.roots[value].unwrap_or(value)
    }

    fn layout(&self, value: Value) -> Option<Stored> {
        let layout = self.layouts[value].clone()?;
        Some(Stored::new(layout, self.numbers.clone()?))
    }

    /// The map of a rearrangement that went in. `None` if a size has no name.
    fn map(&self, func: &Func, op: Op, view: &ViewDims) -> Option<ViewMap> {
        let of = func.op_ref(op);
        let mut numbers = (**self.numbers.as_ref()?).clone();
        let (operand, result) = (of.operand(0).ok()?, of.result(0).ok()?);
        let from: Option<Vec<u64>> = operand.dims.iter().map(|dim| numbers.number(dim)).collect();
        numbers.view_map(&from?, view, &result.dims)
    }

    /// The buffer that a root lies in, and the place of its compact buffer there.
    fn buffer(&self, root: Value) -> (Value, Option<Spread>) {
        match &self.within[root] {
            Some((buffer, spread)) => (*buffer, spread.clone()),
            None => {
                let layout = self.layouts[root].as_ref();
                (root, layout.map(|l| Spread::of(l.positions())))
            }
        }
    }

    /// The maps of rearrangements of a value, and the layout behind them.
    fn seen(&self, value: Value, steps: &[Step]) -> (Option<Vec<ViewMap>>, Option<Stored>) {
        let (Some(layout), Some(numbers)) = (&self.layouts[value], &self.numbers) else {
            return (steps.is_empty().then(Vec::new), None);
        };
        let mut numbers = (**numbers).clone();
        let (mut maps, mut at) = (Vec::with_capacity(steps.len()), Some(layout.clone()));
        let mut shape = layout.shape().to_vec();
        for step in steps {
            let Some(map) = numbers.view_map(&shape, &step.view, &step.result) else {
                return (None, None);
            };
            at = at.and_then(|layout| propagate(&layout, &map).ok());
            shape.clone_from(&map.result);
            maps.push(map);
        }
        let numbers = Arc::new(numbers);
        (Some(maps), at.map(|layout| Stored::new(layout, numbers)))
    }
}

/// The error about an id of another program.
fn stale(of: &str, id: &str) -> Error {
    let message = format!("{id} is not of {of}");
    let hint = "ids are those of the module that was given to the compiler; `fate` leads from them to the result's";
    Error::about(
        "<api>",
        Diagnostic::error(codes::STALE_HANDLE, message).hint(hint),
    )
}
