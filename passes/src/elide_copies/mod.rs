//! Elides copies: a part of a live value is read in place, and an operand of a concat or pad is written directly into
//! the result.
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
//! 1. From the last operation to the first: an operand of a concat or pad is written in place. The operation that
//!    computes it must write parts. No reader may need its buffer whole. All other readers must take the strides that
//!    it then has.
//! 2. A value that is cut into disjoint parts, each with one reader, may be written in pieces. Thus a roll, a concat of
//!    slices, moves nothing.
//! 3. From the first operation to the last: a slice, a split, a broadcast, and a gather of one index or of evenly
//!    spaced ones are parts of their operand if all readers take the strides.
//! 4. The operand that an update copies (a dynamic update slice, a scatter) lies in the result like an operand of a
//!    concat, if every other reader comes before the update. An argument lies in the result if both share their memory
//!    (`hbir.alias`) and it is the first bytes of the result.
//! 5. If copies are left, the result of a concat may have no bytes. It is `in_pieces`, and its readers read its
//!    operands in place, through views, slices and other concats. This is tried for all concats that are connected with
//!    a concat that copies. The checker of parts says whether it holds. It is kept if fewer bytes are copied.
//!
//! Rows state with `parts` which parts operations take, and with `pieces` along which dimensions. Where values lie in
//! tiles, a part lies evenly if it is cut between tiles, or lies within one along the dimension that is cut. A remaining
//! copy is one operation that reads and writes what it did.
//!
//! With `max-live=N` some parts are copied nevertheless, so that at most N bytes are alive at once, with memory shared
//! as by `bufferize`. A part keeps its parent alive. An operand that is written in place makes the whole result exist
//! earlier. A remark names each such copy (`copied-for-memory`). A program is refused (`max-live`) if, as far as the
//! greedy search sees, more bytes are alive whatever is copied.
//!
//! # Not done
//! If several concats need a value and not all readers take it in pieces, it is placed in the last of them. With a
//! limit that needs copies, nothing is in pieces. An operation that may write its result over an operand does not do so
//! in a part. An update of a part of a joined value copies.
//!
//! # Cost
//! Linear in operations and operands, and quadratic in the parts of one value that is written in pieces.
//!
//! # Neighbours
//! The last step of `view-fold`; by itself it runs on any program, and before `bufferize`.
//!
//! # Source
//! XLA's in-place concatenation and `HloDataflowAnalysis`; MLIR's empty tensor elimination and destination passing style.

mod access;
mod decide;
mod gather;
mod in_tiles;
mod within;

pub use access::{takes, takes_pieces, writes_pieces};
pub(crate) use decide::Repeats;
use decide::{Elided, elide};
use within::keep_within;

use crate::aliases;
use crate::bufferize::{MAX_LIVE, limit};
use crate::pass::{Changed, Outcome, Pass, PassContext, PassInfo, Phase};
use optc_ir::effects::Effects;
use optc_ir::op::in_place;
use optc_ir::{Attr, Diagnostic, Module, Op, Operation};
use optc_ops::Subview;

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
        aliases::request(module, cx)?;
        let said = as_copies(module);
        let left = run_on(module, limit, cx)?;
        aliases::check(module, &|func, op| left.why(func, op), cx)?;
        let changed = left.changed || said;
        if changed {
            module.attrs.set("hbir.target", Attr::str(&cx.target.name));
        }
        Ok(Changed::from(changed).into())
    }
}

/// Turns a program into one that copies every part, ignoring stated placements. Returns whether any placement was stated.
pub(crate) fn as_copies(module: &mut Module) -> bool {
    let mut said = false;
    for func in &mut module.funcs {
        for &op in &func.body {
            let data = &mut func.ops[op];
            said |= data.attrs.get(in_place::IN_PLACE).is_some() || in_place::is_in_pieces(data);
            in_place::set(data, &[]);
            in_place::set_in_pieces(data, false);
            if &*data.name != Subview::NAME {
                continue;
            }
            said = true;
            Subview::copy(data);
        }
    }
    said
}

/// The remaining copies of a module.
#[derive(Clone, Default)]
pub(crate) struct Left {
    /// True if some copies were elided.
    pub(crate) changed: bool,
    /// Bytes of copies that another choice might save.
    pub(crate) by_choice: u64,
    /// Bytes of copies of operands that are not computed. A conversion of such an operand could be written in place.
    pub(crate) given: u64,
    /// The remaining repetitions of elements.
    pub(crate) repeats: Repeats,
    /// The decisions, in the order of functions.
    all: Vec<Elided>,
}

impl Left {
    /// The reason why an operation of a function copies, in words, if it might have read or written a part.
    pub(crate) fn why(&self, func: usize, op: Op) -> Option<String> {
        self.all.get(func)?.why(op)
    }
}

/// Elides copies of a module. With a limit, at most `limit` bytes are alive at once.
///
/// # Errors
/// More bytes are alive than the limit, whatever is copied.
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

/// Elides copies without a limit. Returns the decisions for each function.
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

/// [`run_on`] without a limit. Also returns the operations that copy or repeat by choice, in the order of functions.
pub(crate) fn without_limit(module: &mut Module, cx: &PassContext) -> (Left, Vec<Op>) {
    let elided = free(module, cx);
    let ops = elided.iter().flat_map(Elided::by_choice).collect();
    (left_of(elided), ops)
}

/// The remaining copies, over all functions.
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
