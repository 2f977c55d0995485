//! Checks by a target's rows that the target accepts the layouts of every operation.
//!
//! For example, a row with `share = "all"` for element-wise operations refuses an `add` of a row-major and a
//! column-major matrix, since its ports do not have one common order.

use crate::amount::Amount;
use crate::codes;
use crate::digits::digits;
use crate::ends;
use crate::labels::{is_of, labels_of, pointwise_groups};
use crate::parts::check_parts;
use crate::ports::{Run, joined};
pub(crate) use crate::ports::{all_row_major, encoding, layout_of, ports};
use crate::ports::{some_layout, some_size};
use crate::runs;
use crate::slower;
use crate::tiles;
use indexmap::IndexMap;
use optc_ir::size::{Size, SizeTable};
use optc_ir::stand_in::LEAST_PRIMES;
use optc_ir::{
    Diagnostic, Freedom, FreedomClass, Func, LaidPort, Module, Op, OpDecl, Registry, Role,
    StandIns, Structure, Type, Value, is_over_axes, laid_port,
};
use optc_layout::{Layout, Mode};
use optc_ops::Dequantized;
use optc_target::{Alternative, PortRole, Row, Target, When};
use std::sync::Arc;

/// Checks that the target accepts the layouts of every operation of a module.
///
/// Each diagnostic names the port and its layout, the row of the target and what it wants, and a remedy.
#[must_use]
pub fn check_target(module: &Module, registry: &Registry, target: &Target) -> Vec<Diagnostic> {
    let mut diags = Vec::new();
    let mut verdicts = Verdicts::new(registry, target);
    let mut functions: IndexMap<&str, &Func> = IndexMap::new();
    for func in &module.funcs {
        functions.entry(&func.name).or_insert(func);
    }
    for func in &module.funcs {
        let tiled = lies_in_tiles(func, target);
        let dequantized = Dequantized::of(func, registry);
        for &op in &func.body {
            let callee = func
                .callee(op)
                .and_then(|name| functions.get(name).copied());
            let checked = match callee {
                Some(callee) => check_call(func, op, callee),
                None => verdicts.check((func, &dequantized), op, tiled),
            };
            if let Err(reason) = checked {
                let data = &func.ops[op];
                let wanted = match callee {
                    Some(callee) => format!("wanted: the layouts that @{} declares", callee.name),
                    None => wanted(func, op, registry, target, tiled),
                };
                let message = format!(
                    "target `{}` does not accept these layouts of `{}`",
                    target.name, data.name
                );
                let hint = format!(
                    "--pass=view-fold --target={} chooses layouts that it accepts",
                    target.name
                );
                diags.push(
                    Diagnostic::error(codes::TARGET_LAYOUT, message)
                        .at(data.span, "here")
                        .note(format!("found: {reason}"))
                        .note(wanted)
                        .note(hint),
                );
            }
        }
    }
    diags.extend(check_parts(module, registry, target));
    diags
}

/// Returns whether an operation runs functions of the module, by a call or in its own way.
pub(crate) fn runs_functions(func: &Func, op: Op) -> bool {
    func.ops[op].props.symbols().next().is_some()
}

pub(crate) fn same_layout(a: &Func, u: Value, b: &Func, v: Value) -> bool {
    match (layout_of(a, u), layout_of(b, v)) {
        (Some(x), Some(y)) => x.same_function(&y),
        _ => true,
    }
}

/// Checks that a call takes and returns the layouts that the function declares, on every target.
fn check_call(func: &Func, op: Op, callee: &Func) -> Result<(), String> {
    let declared = callee.args.iter().chain(&callee.results);
    for (i, (v, &port)) in ports(func, op).into_iter().zip(declared).enumerate() {
        if !same_layout(func, v, callee, port) {
            return Err(format!(
                "port {i} is {}, wanted {}",
                encoding(func, v),
                encoding(callee, port)
            ));
        }
    }
    Ok(())
}

/// The row of the target for an operation, in words.
fn wanted(func: &Func, op: Op, registry: &Registry, target: &Target, tiled: bool) -> String {
    let data = &func.ops[op];
    let decl = registry.get(&data.name);
    let barrier =
        |d: &dyn optc_ir::OpDecl| d.freedom(&func.op_ref(op)).class == FreedomClass::Barrier;
    let Some(decl) = decl.filter(|d| !barrier(*d)) else {
        return "wanted: row-major everywhere, as nothing is known of the operation".to_owned();
    };
    let family = decl.family_of(&func.op_ref(op));
    let row = target.row(family);
    if let Some(row) = row.filter(|_| tiled) {
        let evidence = match row.evidence.is_empty() {
            true => String::new(),
            false => format!("; evidence: {}", row.evidence),
        };
        return format!(
            "wanted by row `{family}` (unit {}): {}{evidence}",
            row.unit,
            row.describe()
        );
    }
    let rule = match row.and_then(|row| by_order(row).next()) {
        None => "row-major everywhere".to_owned(),
        Some(a) => wanted_by(a, row),
    };
    match row {
        Some(row) => format!("wanted by row `{family}` (unit {}): {rule}", row.unit),
        None => format!("wanted where there is no row for `{family}`: {rule}"),
    }
}

/// An alternative that is read where nothing lies in tiles, in words.
fn wanted_by(a: &Alternative, row: Option<&Row>) -> String {
    let in_full = || row.map_or_else(String::new, Row::describe);
    if a.order.is_some() {
        "row-major everywhere".to_owned()
    } else if let Some(block) = a.block {
        format!("blocks of {block} along the last dimension, the others whole")
    } else if let Some(run) = a.run {
        format!(
            "one order of digits for all operands and results, {run} elements or more of one \
             dimension innermost"
        )
    } else if a.shares_all() {
        "one order of digits for all operands and results, nothing padded".to_owned()
    } else if a.ends_by_port() || row.is_some_and(|row| row.take.iter().any(Alternative::has_runs))
    {
        in_full()
    } else if a.shares(PortRole::K) {
        "the contracted digits in one run and alike in both operands, batch not innermost, \
         nothing padded"
            .to_owned()
    } else if a.sequence.is_empty() {
        "any layout".to_owned()
    } else {
        "channels first or channels last everywhere".to_owned()
    }
}

/// The alternatives of a row that are read where nothing lies in tiles.
fn by_order(row: &Row) -> impl Iterator<Item = &Alternative> {
    let untiled = |a: &Alternative| a.when == Some(When::Untiled);
    let some = row.taken().any(untiled);
    row.taken().filter(move |a| !some || untiled(a))
}

/// Returns whether the values of a function lie in the tiles of a target: all of its sizes must be known.
pub(crate) fn lies_in_tiles(func: &Func, target: &Target) -> bool {
    target.is_tiled() && tiles::is_known(func)
}

/// The name of an operation, its layout freedom, and the types of its operands and results.
type Alike = (Arc<str>, Freedom, Vec<Type>);

/// Verdicts of a target's rows on operations, memoized by [`Alike`].
pub(crate) struct Verdicts<'a> {
    registry: &'a Registry,
    target: &'a Target,
    in_tiles: IndexMap<Alike, Result<u64, String>>,
}

impl<'a> Verdicts<'a> {
    pub(crate) fn new(registry: &'a Registry, target: &'a Target) -> Verdicts<'a> {
        Verdicts {
            registry,
            target,
            in_tiles: IndexMap::new(),
        }
    }

    fn in_tiles(&mut self, func: &Func, op: Op, freedom: Freedom) -> Result<u64, String> {
        let values = ports(func, op);
        let types = values.into_iter().map(|v| func.ty(v).clone()).collect();
        let name = func.ops[op].name.clone();
        let row = self.registry.get(&name);
        let row = row.and_then(|decl| self.target.row(decl.family_of(&func.op_ref(op))));
        let key = (name, freedom, types);
        if let Some(known) = self.in_tiles.get(&key) {
            return known.clone();
        }
        let found = tiles::check(func, op, &key.1, row, self.target).map_err(|e| e.to_string());
        self.in_tiles.insert(key, found.clone());
        found
    }

    /// The cost of an operation by itself, at these sizes: the least price of an alternative that takes its layouts; 0
    /// if none does.
    pub(crate) fn price(
        &mut self,
        (func, dequantized): (&Func, &Dequantized),
        op: Op,
        sizes: &SizeTable,
    ) -> Amount {
        let decl = self.registry.get(&func.ops[op].name);
        let Some(decl) = decl.filter(|_| !runs_functions(func, op)) else {
            return Amount::default();
        };
        let row = self.target.row(decl.family_of(&func.op_ref(op)));
        let Some(row) = row.filter(|row| row.has_prices()) else {
            return Amount::default();
        };
        let freedom = decl.freedom(&func.op_ref(op));
        let converts = self.registry.structure(&func.ops[op].name) == Structure::Convert;
        if converts || freedom.class == FreedomClass::Rearrange {
            return Amount::default();
        }
        match self.target.is_tiled() {
            true if lies_in_tiles(func, self.target) => {
                let price = self.in_tiles(func, op, freedom).unwrap_or(0);
                Amount::from(Size::from(price))
            }
            true => Amount::default(),
            false => {
                let mut price = slower::price((func, dequantized), op, &freedom, row, sizes);
                if freedom.class == FreedomClass::Ordered {
                    price.add(&ends::price(func, op, &freedom, row, sizes), sizes);
                }
                price
            }
        }
    }

    fn check(
        &mut self,
        (func, dequantized): (&Func, &Dequantized),
        op: Op,
        tiled: bool,
    ) -> Result<(), String> {
        let data = &func.ops[op];
        let op_ref = func.op_ref(op);
        // No target decides about the values that an operation hands to its functions.
        if runs_functions(func, op) {
            return Ok(());
        }
        let Some(decl) = self.registry.get(&data.name) else {
            return match tiled {
                true => self.in_tiles(func, op, Freedom::barrier(&op_ref)).map(drop),
                false => all_row_major(func, op),
            };
        };
        let freedom = decl.freedom(&op_ref);
        let converts = self.registry.structure(&data.name) == Structure::Convert;
        if converts || freedom.class == FreedomClass::Rearrange {
            return Ok(());
        }
        if tiled {
            return match freedom.class {
                FreedomClass::Source => Ok(()),
                _ => self.in_tiles(func, op, freedom).map(drop),
            };
        }
        if freedom.class == FreedomClass::Source {
            return Ok(());
        }
        let row = self.target.row(decl.family_of(&op_ref));
        let row = row.filter(|_| freedom.class != FreedomClass::Barrier);
        let alternatives = row.into_iter().flat_map(by_order);
        let mut refused = None;
        for a in alternatives.filter(|a| is_for((func, dequantized), op, &freedom, a)) {
            match self.takes(func, op, (decl, &freedom), a) {
                Ok(()) => return Ok(()),
                Err(why) => refused = refused.or(Some(why)),
            }
        }
        refused.map_or_else(|| all_row_major(func, op), Err)
    }

    /// Checks that an alternative takes the layouts of an operation.
    fn takes(
        &self,
        func: &Func,
        op: Op,
        (decl, freedom): (&dyn OpDecl, &Freedom),
        a: &Alternative,
    ) -> Result<(), String> {
        if a.order.is_some() {
            all_row_major(func, op)
        } else if let Some(block) = a.block {
            last_block(func, op, block)
        } else if a.shares_all() {
            common_order(func, op, freedom, a.run)?;
            ends::common(func, op, freedom, a)?;
            match self.target.row_major {
                true => over_axes(func, op, decl, freedom),
                false => Ok(()),
            }
        } else if a.ends_by_port() {
            ends::matrices(func, op, freedom, a)
        } else if a.shares(PortRole::K) {
            contract_runs(func, op, freedom, a)?;
            runs::check(func, op, freedom, a)
        } else if a.when == Some(When::Patches) {
            patches(func, op, freedom)
        } else if a.sequence.is_empty() {
            Ok(())
        } else {
            channels(func, op, freedom, a)
        }
    }
}

/// Returns whether an alternative is for an operation, where nothing lies in tiles.
fn is_for(
    (func, dequantized): (&Func, &Dequantized),
    op: Op,
    freedom: &Freedom,
    a: &Alternative,
) -> bool {
    let when = is_of((func, dequantized), op, freedom, a.when);
    let first = ports(func, op)
        .first()
        .and_then(|&v| func.ty(v).as_tensor());
    let width = a.bits.is_empty() || first.is_some_and(|ty| a.bits.contains(&ty.dtype.bits()));
    // A window operation that mixes channels alone is a contraction wherever its row lists the place of channels.
    let contracts = a.ends_by_port() || (a.shares(PortRole::K) && !a.shares_all());
    let contraction = !contracts || freedom.class == FreedomClass::Contract;
    when && width && contraction && a.is_for(freedom.operands.len(), freedom.results.len())
}

/// Checks that the operation itself works along the axes in which its ports lie, so that a format without layouts can
/// express it.
fn over_axes(func: &Func, op: Op, decl: &dyn OpDecl, freedom: &Freedom) -> Result<(), String> {
    if freedom.class != FreedomClass::Ordered || all_row_major(func, op).is_ok() {
        return Ok(());
    }
    let mut numbers = StandIns::new(LEAST_PRIMES[0]);
    let labels = freedom.operands.iter().chain(&freedom.results);
    let port = |(value, labels): (Value, &Vec<Option<usize>>)| {
        laid_port(func.ty(value).as_tensor()?, labels, &mut numbers)
    };
    let laid: Option<Vec<LaidPort>> = ports(func, op).into_iter().zip(labels).map(port).collect();
    let is_over = |laid: Vec<LaidPort>| is_over_axes(decl, &func.op_ref(op), freedom, &laid);
    match laid.is_some_and(is_over) {
        true => Ok(()),
        false => Err("the operation has no form with its dimensions in these orders".to_owned()),
    }
}

/// Checks that all ports have the labels that they share in one order, cut alike. With `run`, each port, except a
/// broadcast operand in its default, must end in a run of that many elements of one dimension.
fn common_order(func: &Func, op: Op, freedom: &Freedom, run: Option<u64>) -> Result<(), String> {
    let labels: Vec<&Vec<Option<usize>>> =
        freedom.operands.iter().chain(&freedom.results).collect();
    let labels_of = |l: &[Option<usize>]| l.iter().flatten().count();
    let full = labels.iter().map(|l| labels_of(l)).max().unwrap_or(0);
    let mut orders: IndexMap<PortOrder, usize> = IndexMap::new();
    let n_results = freedom.results.len();
    for (port, value) in ports(func, op).into_iter().enumerate() {
        let Some(layout) = layout_of(func, value) else {
            continue;
        };
        let is_default = layout.is_row_major_order();
        let modes = digits(&layout)?;
        if !is_default && labels.get(port).is_some_and(|l| labels_of(l) == 0) {
            return Err(format!(
                "port {port} shares no dimension, and is not row-major"
            ));
        }
        if let Some(run) = run {
            let long = modes.last().is_none_or(|p| p.div == 1 && run <= p.extent);
            let scalar = layout.shape().iter().all(|&n| n == 1);
            if !long && !scalar {
                return Err(format!(
                    "port {port} has no innermost run of {run} elements"
                ));
            }
        } else if modes.iter().any(|p| p.extent != p.count) {
            return Err(format!("port {port} is padded"));
        }
        let of = |p: &Mode| {
            let label = labels.get(port)?.get(p.dim).copied().flatten()?;
            Some(Run {
                label,
                div: p.div,
                count: p.count,
            })
        };
        let order: Vec<Run> = modes.iter().filter_map(of).collect();
        let operand = port + n_results < labels.len();
        let broadcast = labels.get(port).is_some_and(|l| labels_of(l) < full);
        let padded = modes.iter().any(|p| p.extent != p.count);
        if run.is_some() && operand && broadcast && (is_default || padded) {
            continue;
        }
        let of_port = labels.get(port).map_or(&[][..], |l| l.as_slice());
        let sizes = of_port.iter().zip(layout.shape());
        let extents = sizes.filter_map(|(l, &n)| Some(((*l)?, n))).collect();
        // Ports with the same order and extents agree with each other.
        orders.entry((order, extents)).or_insert(port);
    }
    for (i, ((a, in_a), p)) in orders.iter().enumerate() {
        for ((b, in_b), q) in orders.iter().skip(i + 1) {
            // A cut at or above the other port's extent does not exist in that port.
            let shared = |x: &[Run], other: &[(usize, u64)]| -> Vec<(usize, u64)> {
                let exists = |r: &&Run| {
                    1 < r.count && other.iter().any(|(l, n)| *l == r.label && r.div < *n)
                };
                joined(x.iter().filter(exists).copied())
                    .iter()
                    .map(|r| (r.label, r.div))
                    .collect()
            };
            if shared(a, in_b) != shared(b, in_a) {
                return Err(format!(
                    "ports {p} and {q} order their dimensions differently"
                ));
            }
        }
    }
    Ok(())
}

/// The digits of a port by label, and the extents of its labels.
type PortOrder = (Vec<Run>, Vec<(usize, u64)>);

fn contract_runs(func: &Func, op: Op, freedom: &Freedom, a: &Alternative) -> Result<(), String> {
    if freedom.operands.len() < 2 || freedom.results.is_empty() {
        return all_row_major(func, op);
    }
    let labels: Vec<&Vec<Option<usize>>> =
        freedom.operands.iter().chain(&freedom.results).collect();
    let (left, right) = (labels[0], labels[1]);
    let result = &freedom.results[0];
    let mut k_orders: Vec<Vec<(usize, u64)>> = Vec::new();
    for (port, value) in ports(func, op).into_iter().enumerate() {
        let Some(layout) = layout_of(func, value) else {
            continue;
        };
        let modes = digits(&layout)?;
        let label = |p: &Mode| labels[port][p.dim];
        let has = |l: Option<usize>, of: &[Option<usize>]| l.is_some() && of.contains(&l);
        let is_k = |p: &Mode| has(label(p), left) && has(label(p), right) && !has(label(p), result);
        let is_batch =
            |p: &Mode| has(label(p), left) && has(label(p), right) && has(label(p), result);
        if modes.iter().any(|p| p.extent != p.count) {
            return Err(format!("port {port} is padded"));
        }
        let batch = a.not_innermost.contains(&PortRole::Batch);
        if batch && modes.last().is_some_and(is_batch) && !modes.iter().all(is_batch) {
            return Err(format!("port {port} has a batch dimension innermost"));
        }
        let at: Vec<usize> = (0..modes.len()).filter(|&i| is_k(&modes[i])).collect();
        let one_run = a.one_run.contains(&PortRole::K);
        if one_run && at.windows(2).any(|w| w[1] != w[0] + 1) {
            let least = a.several_runs.ok_or_else(|| {
                format!("port {port} has the contracted digits in more than one run")
            })?;
            // Three kinds of digits: those of K, those of the batch, and those of one operand alone.
            let kind = |p: &Mode| (is_k(p), is_batch(p));
            let last = modes.last().map(kind);
            let run = modes.iter().rev().take_while(|p| Some(kind(p)) == last);
            let bits = run.fold(u64::from(layout.elem_bits()), |n, p| {
                n.saturating_mul(p.count)
            });
            if bits < least.saturating_mul(8) {
                return Err(format!(
                    "port {port} has the contracted digits in more than one run, and {} bytes innermost, wanted {least}",
                    bits / 8
                ));
            }
        }
        if !at.is_empty() {
            let run = |&i: &usize| {
                let (div, count) = (modes[i].div, modes[i].count);
                Some(Run {
                    label: label(&modes[i])?,
                    div,
                    count,
                })
            };
            let runs = joined(at.iter().filter_map(run));
            k_orders.push(runs.iter().map(|r| (r.label, r.div)).collect());
        }
    }
    if k_orders.windows(2).any(|w| w[0] != w[1]) {
        return Err("the operands have the contracted digits in different orders".to_owned());
    }
    Ok(())
}

/// Checks that the channels are where an alternative lists them in the data and in the result, or that the operation is
/// a contraction of the channels of each pixel.
fn channels(func: &Func, op: Op, freedom: &Freedom, a: &Alternative) -> Result<(), String> {
    let values = ports(func, op);
    let last = a.sequence.last() == Some(&PortRole::Channel);
    let mut styles: Vec<&str> = Vec::new();
    let mut placed = true;
    for port in [0, freedom.operands.len()] {
        let Some(layout) = values.get(port).and_then(|&v| layout_of(func, v)) else {
            continue;
        };
        let of_port = labels_of(freedom, port);
        let style = (
            layout.is_row_major_order(),
            is_channels_last(&layout, of_port, freedom),
        );
        placed &= if last { style.1 } else { style.0 };
        styles.push(match style {
            (true, true) => "either",
            (true, false) => "channels-first",
            (false, true) => "channels-last",
            (false, false) => "other",
        });
    }
    if placed || is_pointwise(func, op, freedom) {
        return Ok(());
    }
    let (data, result) = (styles[0], styles.last().unwrap_or(&"nothing"));
    Err(format!("data in {data} and result in {result}"))
}

/// Checks that a convolution of patches has its result in any order, and its data in one that ends in a run of a patch
/// or has its channels first or last.
fn patches(func: &Func, op: Op, freedom: &Freedom) -> Result<(), String> {
    let values = ports(func, op);
    let result = values.get(freedom.operands.len());
    if let Some(layout) = result.and_then(|&v| layout_of(func, v)) {
        let padded = digits(&layout)?.iter().any(|p| p.extent != p.count);
        if padded {
            let port = freedom.operands.len();
            return Err(format!("port {port} is padded"));
        }
    }
    let Some(layout) = values.first().and_then(|&v| layout_of(func, v)) else {
        return Ok(());
    };
    let labels = labels_of(freedom, 0);
    let placed = layout.is_row_major_order() || is_channels_last(&layout, labels, freedom);
    match placed || ends_in_patch(func, op, &layout) {
        true => Ok(()),
        false => Err("data in other".to_owned()),
    }
}

/// Returns whether the data of a convolution has its dimensions in some order, and the kernel has several elements
/// along the innermost one.
fn ends_in_patch(func: &Func, op: Op, layout: &Layout) -> bool {
    let data = &func.ops[op];
    let Some(kernel) = data.operands.get(1).and_then(|&w| some_size(func, w)) else {
        return false;
    };
    let (Ok(modes), Some(kernel)) = (digits(layout), kernel.shape()) else {
        return false;
    };
    let long: Vec<&Mode> = modes.iter().filter(|m| 1 < m.count).collect();
    let apart = (1..long.len()).all(|i| long[..i].iter().all(|m| m.dim != long[i].dim));
    let inside = |m: &&Mode| m.dim != 0 && kernel.get(m.dim).is_some_and(|&n| 1 < n);
    apart && long.iter().all(|m| m.extent == m.count) && long.last().is_none_or(inside)
}

fn is_channels_last(layout: &Layout, labels: &[Option<usize>], freedom: &Freedom) -> bool {
    let rank = |p: &Mode| match labels[p.dim].map(|l| freedom.labels[l].role) {
        Some(Role::Batch) => (0, p.dim),
        Some(Role::Channel) => (2, p.dim),
        Some(Role::Spatial | Role::Parallel | Role::Axis) | None => (1, p.dim),
    };
    let Ok(modes) = digits(layout) else {
        return false;
    };
    modes.iter().all(|p| p.div == 1 && p.extent == p.count)
        && modes.windows(2).all(|w| rank(&w[0]) < rank(&w[1]))
}

/// Returns whether an operation is a 1x1 convolution that keeps the image: a contraction over the channels of a group.
/// The channels must be one run in the data and in the weights, and the groups a batch that is not innermost.
fn is_pointwise(func: &Func, op: Op, freedom: &Freedom) -> bool {
    let Some(groups) = pointwise_groups(func, op, freedom) else {
        return false;
    };
    let data = &func.ops[op];
    let size = |value: Value, dim: usize| some_size(func, value)?.shape()?.get(dim).copied();
    let (Some(inside), Some(outside)) = (size(data.operands[1], 1), size(data.results[0], 1))
    else {
        return false;
    };
    let outside = outside / groups;
    let in_data = channel_cuts(func, data.operands[0], 1, inside);
    let in_result = channel_cuts(func, data.results[0], 1, outside);
    // The outputs lie in groups as in the result; the summed channels lie inside one group.
    let outputs = channel_cuts(func, data.operands[1], 0, outside);
    let summed = channel_cuts(func, data.operands[1], 1, inside);
    match (in_data, summed, outputs, in_result) {
        (Some(cuts), Some(weights), Some(_), Some(_)) => {
            cuts.one_run && weights.one_run && cuts.inside == weights.inside
        }
        _ => false,
    }
}

/// The digits of the channels of a group.
struct ChannelCuts {
    /// Divisor and extent of each digit inside a group, major to minor.
    inside: Vec<(u64, u64)>,
    one_run: bool,
}

/// The digits of a dimension inside groups of `inner` elements; `None` if a digit lies both inside and across groups,
/// the value is padded, or the groups are innermost.
fn channel_cuts(func: &Func, value: Value, dim: usize, inner: u64) -> Option<ChannelCuts> {
    let modes = digits(&some_layout(func, value)?).ok()?;
    if modes.iter().any(|p| p.extent != p.count) {
        return None;
    }
    // Per digit: is it of the dimension, is it across groups, its divisor and its extent.
    let mut all: Vec<(bool, bool, u64, u64)> = Vec::new();
    for p in &modes {
        let end = p.div.checked_mul(p.count)?;
        if p.dim != dim {
            all.push((false, false, p.div, p.count));
        } else if p.div.is_multiple_of(inner) {
            all.push((true, true, p.div, p.count));
        } else if inner.is_multiple_of(end) {
            all.push((true, false, p.div, p.count));
        } else if inner.is_multiple_of(p.div) && end.is_multiple_of(inner) {
            all.push((true, true, inner, end / inner));
            all.push((true, false, p.div, inner / p.div));
        } else {
            return None;
        }
    }
    let ends_in_groups = all.last().is_some_and(|d| d.1) && all.iter().any(|d| !d.1);
    if ends_in_groups {
        return None;
    }
    let at: Vec<usize> = (0..all.len()).filter(|&i| all[i].0 && !all[i].1).collect();
    Some(ChannelCuts {
        inside: at.iter().map(|&i| (all[i].2, all[i].3)).collect(),
        one_run: at.windows(2).all(|w| w[1] == w[0] + 1),
    })
}

fn last_block(func: &Func, op: Op, block: u64) -> Result<(), String> {
    for (port, value) in ports(func, op).into_iter().enumerate() {
        let Some(layout) = layout_of(func, value) else {
            continue;
        };
        let Some(last) = layout.shape().len().checked_sub(1) else {
            continue;
        };
        let modes = digits(&layout)?;
        let whole = |p: &Mode| p.dim == last || (p.div == 1 && p.extent == layout.shape()[p.dim]);
        let good = modes
            .last()
            .is_some_and(|p| p.dim == last && p.div == 1 && p.extent.is_multiple_of(block));
        if !good || !modes.iter().all(whole) {
            return Err(format!(
                "port {port} is {}, wanted blocks of {block} along its last dimension",
                encoding(func, value)
            ));
        }
    }
    Ok(())
}
