//! Layouts of values that operations share with the functions that they run: loops, branches and scans, of HLO text and
//! of ONNX.
//!
//! Example: a loop carries `x`, and its body needs `x` transposed in every round. The operand, the argument, the result
//! of a round and the result of the loop become transposed together. One conversion before the loop replaces one in
//! each round.
//!
//! Several ports hold one value and have one layout: an operand, the argument that it becomes, the value that a round
//! hands to the next one, and the result. A value that is taken apart or stacked round by round has the order of its
//! parts. The dimension of the rounds is anywhere in that order, or outermost where the operation stacks so.
//!
//! These layouts are tried: those that the program declares; those of operands before they are converted; those that
//! each function chooses when its boundary is free; and those that the code around the operation would choose. For
//! loops the cost of the functions decides first, since they run many times, and the code around them second. For
//! branches the sum decides.

mod shares;
mod together;

use super::function::fold;
use super::groups::{Functions, Laid};
use super::maps::FastMap;
use super::shared::Shared;
use crate::pass::PassContext;
use optc_check::amount::bytes_of;
use optc_check::stats::Stats;
use optc_ir::entity::SideTable;
use optc_ir::size::SizeTable;
use optc_ir::{
    ControlPort, Diagnostic, Func, Module, Op, Port, Site, Structure, TensorType, Value, ValueDef,
};
use optc_layout::{Layout, Notation};
use petgraph::algo::toposort;
use petgraph::graphmap::DiGraphMap;
use shares::{Choice, Shares, is_outer};
use std::cmp::Ordering;
use together::Sites;

/// The most functions of one operation whose free choice is tried.
const MOST_ASKED: usize = 4;

/// The most values of one operation whose layouts are tried one by one.
const MOST_CLASSES: usize = 16;

/// Chooses layouts for values that operations share with functions that nothing else names. Inner functions come first.
///
/// # Errors
/// A function cannot be folded with any choice.
pub(crate) fn lay_out(
    module: &Module,
    cx: &PassContext,
    shared: &Shared,
) -> Result<Laid, Box<Diagnostic>> {
    let mut sites = Sites {
        all: module.funcs.iter().map(|_| Vec::new()).collect(),
        at: FastMap::default(),
        numbers: FastMap::default(),
    };
    for (number, func) in module.funcs.iter().enumerate() {
        sites.numbers.entry(&func.name).or_insert(number);
    }
    let mut holds: DiGraphMap<usize, ()> = DiGraphMap::new();
    for site in Site::alone(module, &cx.registry) {
        let shares = Shares::of(site);
        if shares.classes.is_empty() {
            continue;
        }
        let number = sites.numbers[&*shares.site.func.name];
        for inner in &shares.site.functions {
            holds.add_edge(sites.numbers[&*inner.name], number, ());
        }
        let own = &mut sites.all[number];
        sites.at.insert((number, shares.site.op), own.len());
        own.push(shares);
    }
    // Recursion has no innermost function.
    let Ok(order) = toposort(&holds, None) else {
        return Ok(Laid::default());
    };
    let mut functions = Functions::new(module);
    for number in order {
        let own = &sites.all[number];
        if own.is_empty() {
            continue;
        }
        let mut around = Around {
            cx,
            shared,
            func: &module.funcs[number],
            functions: &mut functions,
        };
        around.choose(own)?;
        let is_run = holds.neighbors(number).next().is_some();
        if !is_run {
            around.lay_out_together(number, &sites)?;
        }
    }
    Ok(functions.laid)
}

/// A function with operations that run others.
struct Around<'a, 'm> {
    cx: &'a PassContext,
    shared: &'a Shared,
    func: &'m Func,
    /// The choices so far, and the one being tried.
    functions: &'a mut Functions<'m>,
}

/// The layouts at the boundary of a function when it is free: notations of arguments and results.
struct Freed {
    args: Vec<Option<Notation>>,
    results: Vec<Option<Notation>>,
}

/// The best choice for an operation so far, and all that were tried.
struct Best {
    choice: Choice,
    cost: Cost,
    tried: Vec<Choice>,
}

/// Bytes of a choice for one operation.
#[derive(Clone, Copy, Default)]
struct Cost {
    /// Bytes of the functions that are run.
    inner: u64,
    /// Bytes of conversions around the operation, estimated from the values whose layouts differ.
    around: u64,
}

impl Around<'_, '_> {
    /// Records the best choice for each operation, or the declared layouts for all of them where those are no worse for
    /// the whole.
    fn choose(&mut self, sites: &[Shares<'_>]) -> Result<(), Box<Diagnostic>> {
        let outer = self.outer(sites);
        let (mut declared, mut chosen) = (Vec::new(), Vec::new());
        let (mut before, mut after) = (Sum::default(), Sum::default());
        for (number, shares) in sites.iter().enumerate() {
            let outer = outer.as_ref().map(|outer| &outer[number]);
            let natural = shares.declared();
            let stays = self.weigh(shares, &natural, outer)?;
            let mut best = Best {
                choice: natural.clone(),
                cost: stays,
                tried: vec![natural.clone()],
            };
            for choice in self.wishes(shares, &natural, outer) {
                self.attempt(shares, choice, outer, &mut best);
            }
            // Tries the classes one after the other: as declared, and as the code around would choose.
            let around = outer.map(|outer| shares.by(&natural, false, |place| outer.at(place)));
            for class in 0..shares.classes.len().min(MOST_CLASSES) {
                for from in [&natural].into_iter().chain(&around) {
                    let mut choice = best.choice.clone();
                    choice[class].clone_from(&from[class]);
                    self.attempt(shares, choice, outer, &mut best);
                }
            }
            before.add(shares, stays);
            after.add(shares, best.cost);
            declared.push(natural);
            chosen.push(best.choice);
        }
        let note = |functions: &mut Functions<'_>, choices: &[Choice]| {
            for (shares, choice) in sites.iter().zip(choices) {
                shares.note(choice, &mut functions.laid);
            }
        };
        note(self.functions, &declared);
        let gains = match after.loops.cmp(&before.loops) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal if declared == chosen => false,
            Ordering::Equal => {
                let stays = self.cost(self.func)?.saturating_add(before.branches);
                note(self.functions, &chosen);
                self.cost(self.func)?.saturating_add(after.branches) < stays
            }
        };
        note(self.functions, if gains { &chosen } else { &declared });
        Ok(())
    }

    /// Takes the choices of one search over all operations here and in the functions that they run, if that is better.
    fn lay_out_together(
        &mut self,
        number: usize,
        sites: &Sites<'_>,
    ) -> Result<(), Box<Diagnostic>> {
        let mut cx = self.scratch();
        cx.boundary.clone_from(&self.cx.boundary);
        let shared = &mut self.shared.clone();
        let found = together::choices(self.func, sites, &mut cx, shared, self.functions);
        let mut found = found.unwrap_or_default();
        let of_site = |function: usize, site: usize| &sites.all[function][site];
        let mut own = Vec::with_capacity(found.len());
        found.retain(|(function, site, choice)| {
            let noted = of_site(*function, *site).noted(&self.functions.laid);
            let differs = noted != *choice;
            own.extend(differs.then_some(noted));
            differs
        });
        if found.is_empty() {
            return Ok(());
        }
        let before = self.whole(number, sites)?;
        for (function, site, choice) in &found {
            of_site(*function, *site).note(choice, &mut self.functions.laid);
        }
        // A choice that cannot be folded is no better.
        let better = self.whole(number, sites).is_ok_and(|after| after < before);
        if !better {
            for ((function, site, _), noted) in found.iter().zip(&own) {
                of_site(*function, *site).note(noted, &mut self.functions.laid);
            }
        }
        Ok(())
    }

    /// Bytes of the functions that loops run, and of everything that runs from this function.
    fn whole(&self, number: usize, sites: &Sites<'_>) -> Result<(u64, u64), Box<Diagnostic>> {
        let (mut loops, mut all) = (0u64, self.cost(self.func)?);
        let mut open = vec![(number, false)];
        while let Some((number, in_loop)) = open.pop() {
            for shares in &sites.all[number] {
                let in_loop = in_loop || shares.is_loop();
                for func in &shares.site.functions {
                    let cost = self.cost(func)?;
                    all = all.saturating_add(cost);
                    if in_loop {
                        loops = loops.saturating_add(cost);
                    }
                    open.push((sites.numbers[&*func.name], in_loop));
                }
            }
        }
        Ok((loops, all))
    }

    /// Keeps a choice that is better than the best one so far.
    fn attempt(
        &mut self,
        shares: &Shares<'_>,
        choice: Choice,
        outer: Option<&Freed>,
        best: &mut Best,
    ) {
        if best.tried.contains(&choice) {
            return;
        }
        if let Ok(cost) = self.weigh(shares, &choice, outer)
            && key(shares, cost) < key(shares, best.cost)
        {
            (best.choice, best.cost) = (choice.clone(), cost);
        }
        best.tried.push(choice);
    }

    /// Choices to try: those that the parties to the shared values would choose.
    fn wishes(
        &mut self,
        shares: &Shares<'_>,
        natural: &Choice,
        outer: Option<&Freed>,
    ) -> Vec<Choice> {
        let site = &shares.site;
        let given = |place: ControlPort| match place {
            ControlPort::Operand(at) => Some(self.given(site.func.ops[site.op].operands[at])),
            _ => None,
        };
        let mut wishes = vec![shares.by(natural, false, given)];
        let freed = site.functions.iter().enumerate().map(|(number, func)| {
            let asked = match shares.is_loop() {
                true => number + 1 == site.functions.len(),
                false => number < MOST_ASKED,
            };
            asked.then(|| self.freed(func)).flatten()
        });
        let freed: Vec<Option<Freed>> = freed.collect();
        for asked in (0..freed.len()).filter(|&number| freed[number].is_some()) {
            // In a branch, each function's arguments follow that function, whichever function's results decide.
            let wanted = |place: ControlPort| {
                let (function, is_own) = match place {
                    ControlPort::Argument(function, _) => {
                        (function, function == asked || !shares.is_loop())
                    }
                    ControlPort::Given(function, _) => (function, function == asked),
                    ControlPort::Operand(_) | ControlPort::Result(_) => return None,
                };
                freed.get(function)?.as_ref().filter(|_| is_own)?.at(place)
            };
            wishes.extend([false, true].map(|last| shares.by(natural, last, wanted)));
        }
        if let Some(outer) = outer {
            let wanted = |place| outer.at(place);
            wishes.extend([false, true].map(|last| shares.by(natural, last, wanted)));
        }
        wishes
    }

    /// The layout of a value before it is converted.
    fn given(&self, value: Value) -> Notation {
        let mut at = value;
        while let Some(op) = self.func.def_op(at) {
            let data = &self.func.ops[op];
            let converts = self.cx.registry.structure(&data.name) == Structure::Convert;
            match data.operands.first() {
                Some(&operand) if converts => at = operand,
                _ => break,
            }
        }
        notation(self.func, at).unwrap_or(Notation::RowMajor)
    }

    /// A context for trials: its remarks are dropped.
    fn scratch(&self) -> PassContext {
        let mut cx = PassContext::new(self.cx.registry.clone(), self.cx.target.clone());
        cx.bindings = self.cx.bindings.clone();
        cx
    }

    /// The boundary layouts that a function chooses when they are free.
    fn freed(&mut self, func: &Func) -> Option<Freed> {
        let mut cx = self.scratch();
        cx.boundary.free_all = true;
        let was_called = self.functions.uncall(&func.name);
        let folded = fold(func, self.functions, &mut cx, &mut self.shared.clone());
        self.functions.call(was_called);
        let folded = folded.ok()?;
        Some(Freed::of(
            &folded.func,
            &folded.func.args,
            &folded.func.results,
        ))
    }

    /// The layouts that the code around operations would choose for their operands and results if these were free: the
    /// program is cut at the operations.
    fn outer(&mut self, sites: &[Shares<'_>]) -> Option<Vec<Freed>> {
        let mut cut = self.func.clone();
        let (args, results) = (cut.args.len(), cut.results.len());
        let gone: Vec<Op> = sites.iter().map(|shares| shares.site.op).collect();
        let mut stays: SideTable<Op, bool> = SideTable::new(true);
        for &op in &gone {
            stays[op] = false;
        }
        cut.body.retain(|&op| stays[op]);
        for &op in &gone {
            for value in cut.ops[op].results.clone() {
                cut.values[value].def = ValueDef::Arg(cut.args.len());
                cut.args.push(value);
                cut.arg_ports.push(Port::default());
            }
            for value in cut.ops[op].operands.clone() {
                cut.results.push(value);
                cut.result_ports.push(Port::default());
            }
        }
        let mut cx = self.scratch();
        cx.boundary.clone_from(&self.cx.boundary);
        let free = (args..cut.args.len()).map(|i| cut.arg_key(i));
        cx.boundary.free.extend(free);
        let free = (results..cut.results.len()).map(|i| cut.result_key(i));
        cx.boundary.free.extend(free);
        let was_called = self.functions.uncall(&self.func.name);
        let folded = fold(&cut, self.functions, &mut cx, &mut self.shared.clone());
        self.functions.call(was_called);
        let folded = folded.ok()?.func;
        let (mut given, mut taken) = (&folded.args[args..], &folded.results[results..]);
        let site = |&op: &Op| {
            let (operands, results);
            (operands, taken) = taken.split_at(cut.ops[op].operands.len());
            (results, given) = given.split_at(cut.ops[op].results.len());
            Freed::of(&folded, operands, results)
        };
        Some(gone.iter().map(site).collect())
    }

    fn weigh(
        &mut self,
        shares: &Shares<'_>,
        choice: &Choice,
        outer: Option<&Freed>,
    ) -> Result<Cost, Box<Diagnostic>> {
        shares.note(choice, &mut self.functions.laid);
        let mut cost = Cost::default();
        for func in &shares.site.functions {
            cost.inner = cost.inner.saturating_add(self.cost(func)?);
        }
        let sizes = SizeTable::new(&self.cx.bindings);
        let ports = shares.classes.iter().flatten().zip(choice.iter().flatten());
        for (joint, notation) in ports.filter(|(joint, _)| is_outer(joint.place)) {
            let wanted = outer.and_then(|outer| outer.at(joint.place));
            let ty = shares.ty(joint.place);
            if wanted.is_some_and(|wanted| !is_same(ty, &wanted, notation)) {
                let bytes = bytes_of(ty, &sizes).at(&sizes);
                cost.around = cost.around.saturating_add(bytes.saturating_mul(2));
            }
        }
        Ok(cost)
    }

    /// Bytes that a function moves and copies.
    fn cost(&self, func: &Func) -> Result<u64, Box<Diagnostic>> {
        let mut cx = self.scratch();
        cx.boundary.clone_from(&self.cx.boundary);
        let folded = fold(func, self.functions, &mut cx, &mut self.shared.clone())?;
        let folded = Module {
            funcs: vec![folded.func],
            ..Module::default()
        };
        let sizes = SizeTable::new(&self.cx.bindings);
        let stats = Stats::on(&folded, &cx.registry, &sizes, &cx.target);
        Ok(stats.layout_bytes().saturating_add(stats.copy_bytes))
    }
}

/// The key that choices are compared by. Loops run many times, so their functions count first.
fn key(shares: &Shares<'_>, cost: Cost) -> (u64, u64) {
    match shares.is_loop() {
        true => (cost.inner, cost.around),
        false => (0, cost.inner.saturating_add(cost.around)),
    }
}

/// Bytes of the functions of all loops, and of all branches.
#[derive(Default)]
struct Sum {
    loops: u64,
    branches: u64,
}

impl Sum {
    fn add(&mut self, shares: &Shares<'_>, cost: Cost) {
        let part = match shares.is_loop() {
            true => &mut self.loops,
            false => &mut self.branches,
        };
        *part = part.saturating_add(cost.inner);
    }
}

impl Freed {
    fn of(func: &Func, args: &[Value], results: &[Value]) -> Freed {
        let all = |values: &[Value]| values.iter().map(|&v| notation(func, v)).collect();
        Freed {
            args: all(args),
            results: all(results),
        }
    }

    fn at(&self, place: ControlPort) -> Option<Notation> {
        let (ports, at) = match place {
            ControlPort::Operand(at) | ControlPort::Argument(_, at) => (&self.args, at),
            ControlPort::Result(at) | ControlPort::Given(_, at) => (&self.results, at),
        };
        ports.get(at)?.clone()
    }
}

fn notation(func: &Func, value: Value) -> Option<Notation> {
    func.ty(value).as_tensor().map(|ty| ty.notation.clone())
}

/// Returns whether two notations are one layout of a type.
fn is_same(ty: &TensorType, a: &Notation, b: &Notation) -> bool {
    let layout = |notation: &Notation| {
        let layout = Layout::new(notation.clone(), &ty.shape()?, ty.dtype.bits());
        layout.ok()
    };
    match (layout(a), layout(b)) {
        (Some(a), Some(b)) => a.same_function(&b),
        _ => a == b,
    }
}
