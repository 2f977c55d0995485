//! Copies that need not be made: a part of a live value is read where it lies, and who computes an operand of a concat or
//! pad writes it where the result wants it.
//!
//! ```ir before
//! func.func @main(%x: tensor<4x6xf32>, %y: tensor<4x2xf32>) -> tensor<4x5xf32> {
//!   %0 = "hbir.exp"(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
//!   %1 = "hbir.slice"(%0) <{limits = [4, 3], starts = [0, 0]}> : (tensor<4x6xf32>) -> tensor<4x3xf32>
//!   %2 = "hbir.neg"(%1) : (tensor<4x3xf32>) -> tensor<4x3xf32>
//!   %3 = "hbir.concat"(%2, %y) <{axis = 1}> : (tensor<4x3xf32>, tensor<4x2xf32>) -> tensor<4x5xf32>
//!   return %3 : tensor<4x5xf32>
//! }
//! ```
//! ```ir after
//! module attributes {hbir.target = "cpu"} {
//!   func.func @main(%x: tensor<4x6xf32>, %y: tensor<4x2xf32>) -> tensor<4x5xf32> {
//!     %0 = "hbir.exp"(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
//!     %1 = "hbir.subview"(%0) <{limits = [4, 3], starts = [0, 0]}> : (tensor<4x6xf32>) -> tensor<4x3xf32>
//!     %2 = "hbir.neg"(%1) : (tensor<4x3xf32>) -> tensor<4x3xf32>
//!     %3 = "hbir.concat"(%2, %y) <{axis = 1}> {in_place = [0]} : (tensor<4x3xf32>, tensor<4x2xf32>) -> tensor<4x5xf32>
//!     return %3 : tensor<4x5xf32>
//!   }
//! }
//! ```
//!
//! 1. From the last operation to the first, an operand of a concat or pad is written in place where the operation that
//!    computes it writes parts, nobody wants its buffer whole, and all other readers take the strides that it then has.
//! 2. What is cut into parts that are read alone, without an element in common, may be written in pieces: a roll, a
//!    concat of slices, moves nothing.
//! 3. From the first to the last, a slice, a split, a gather of one index or of evenly spaced ones, and a broadcast are
//!    parts of their operand where all readers take the strides.
//!
//! 4. Where copies are left, a value that is joined may have no bytes: it is `in_pieces`, and its readers, through views,
//!    slices and other concats, read its operands where they lie. That is tried for all concats that are joined
//!    of, or to, one that copies; the checker of parts says whether it holds, and it stays where fewer bytes are copied.
//!
//! Rows say with `parts` what operations take, and with `pieces` along which dimensions. What stays a copy stays one operation that reads and writes what it did.
//!
//! With `max-live=N` parts are copied all the same, so that at most N bytes are alive at once as `bufferize` shares memory: a
//! part keeps its parent alive, and what is written in place makes the whole be there before. A remark says which
//! (`copied-for-memory`); a program of which more are alive whatever is copied, as far as the greedy search sees, is refused
//! (`max-live`).
//!
//! # Not done
//! A value that several concats want, and that not all readers take in pieces, lies in the last of them. Where a limit asks for copies nothing is in pieces. An operation that may write its result over an operand does
//! not do so in a part. `scatter` and `dynamic_update_slice` copy.
//!
//! # Cost
//! Linear in operations and operands, beside pairs of the parts of one value that is written in pieces.
//!
//! # Neighbours
//! The last step of `view-fold`; by itself it runs on any program, and before `bufferize`.
//!
//! # Source
//! XLA's in-place concatenation and `HloDataflowAnalysis`; MLIR's empty tensor elimination and destination passing style.

mod decide;
mod gather;
mod within;

pub(crate) use decide::Repeats;
use decide::{Elided, elide};
use within::keep_within;

use crate::bufferize::{MAX_LIVE, limit};
use crate::pass::{Changed, Outcome, Pass, PassContext, PassInfo, Phase};
use optc_ir::effects::Effects;
use optc_ir::op::in_place;
use optc_ir::{Attr, Diagnostic, Module, Op, Operation};
use optc_ops::Subview;
use optc_target::Target;

static INFO: PassInfo = PassInfo {
    name: "elide-copies",
    summary: "read parts of values where they lie, and write operands of concats where these want them",
    phases: (Phase::Imported, Phase::Laid),
    required: false,
    options: &[MAX_LIVE],
};

/// The pass.
#[derive(Clone, Copy, Default, Debug)]
pub struct ElideCopies;

impl Pass for ElideCopies {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, cx: &mut PassContext) -> Result<Outcome, Box<Diagnostic>> {
        let limit = limit(&cx.options, &INFO)?;
        let said = as_copies(module, &cx.target);
        let changed = run_on(module, limit, cx)?.changed || said;
        if changed {
            module.attrs.set("hbir.target", Attr::str(&cx.target.name));
        }
        Ok(Changed::from(changed).into())
    }
}

/// Writes a program as one that copies every part, whatever it says of what lies where; on a machine with tiles, subviews stay.
/// Says whether it said something.
pub(crate) fn as_copies(module: &mut Module, target: &Target) -> bool {
    let mut said = false;
    for func in &mut module.funcs {
        for &op in &func.body {
            let data = &mut func.ops[op];
            said |= data.attrs.get(in_place::IN_PLACE).is_some() || in_place::is_in_pieces(data);
            in_place::set(data, &[]);
            in_place::set_in_pieces(data, false);
            if &*data.name != Subview::NAME || target.is_tiled() {
                continue;
            }
            said = true;
            Subview::copy(data);
        }
    }
    said
}

/// What is left of the copies of a module.
#[derive(Clone, Default)]
pub(crate) struct Left {
    /// Whether some went.
    pub(crate) changed: bool,
    /// Bytes of copies that another choice might save.
    pub(crate) by_choice: u64,
    /// Bytes of operands that nobody computes, and that a conversion might write in place.
    pub(crate) given: u64,
    /// What stays that repeats elements.
    pub(crate) repeats: Repeats,
    /// What was decided, in the order of functions.
    all: Vec<Elided>,
}

impl Left {
    /// Why an operation of a function copies, in words, where it might have read or written a part.
    pub(crate) fn why(&self, func: usize, op: Op) -> Option<String> {
        self.all.get(func)?.why(op)
    }
}

/// Lets copies of a module go that need not be made, so that at most `limit` bytes are alive at once where there is one.
///
/// # Errors
/// More are, whatever is copied.
pub(crate) fn run_on(
    module: &mut Module,
    limit: Option<u64>,
    cx: &mut PassContext,
) -> Result<Left, Box<Diagnostic>> {
    if let Some(limit) = limit {
        let kept = keep_within(module, limit, cx)?;
        module.funcs = kept.module.funcs;
        let mut left = left_of(kept.elided);
        left.changed |= kept.undone != 0;
        left.by_choice = left.by_choice.saturating_add(kept.undone);
        return Ok(left);
    }
    Ok(left_of(free(module, cx)))
}

/// The copies that went of each function.
fn free(module: &mut Module, cx: &PassContext) -> Vec<Elided> {
    let elided: Vec<Elided> = {
        let effects = Effects::of_module(module, &cx.registry);
        let known = (&*cx.registry, &effects);
        let funcs = module.funcs.iter();
        funcs.map(|func| elide(func, known, &cx.target)).collect()
    };
    for (func, elided) in module.funcs.iter_mut().zip(&elided) {
        elided.apply(func);
    }
    elided
}

/// The same without a limit, with the operations that copy or repeat by choice, in the order of functions.
pub(crate) fn without_limit(module: &mut Module, cx: &PassContext) -> (Left, Vec<Op>) {
    let elided = free(module, cx);
    let ops = elided.iter().flat_map(Elided::by_choice).collect();
    (left_of(elided), ops)
}

/// What is left, over all functions.
fn left_of(elided: Vec<Elided>) -> Left {
    let mut left = Left::default();
    for one in &elided {
        left.changed |= one.changes();
        left.by_choice = left.by_choice.saturating_add(one.left_by_choice);
        left.given = left.given.saturating_add(one.given);
        left.repeats = left.repeats.max(one.repeats);
    }
    left.all = elided;
    left
}
