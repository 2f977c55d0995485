//! Decides when a chain of reshapes and transposes is free, and finds the layout for which it is.

use crate::cause::{cause, propagation_cause};
use crate::compare::decide;
use crate::layout::Layout;
use crate::map::ViewMap;
use crate::not_view::{NotView, NotViewReason};
use crate::notation::{NotationKind, across_padding};
use crate::placement::Placement;
use crate::propagation::propagated_function;

/// Checks that the chain described by `map` leaves every byte of the buffer in place.
///
/// Exact: the condition is `output.index(e) == input.index(g(e))` for every element `e` of the result, where `g` is the
/// map, with the same bytes and memory space. Elements are not enumerated: chains of cuts are compared cut by cut.
/// Functions that are not a chain over one order (dimensions merged in different orders, tiles that cut across the
/// padding of a merge) are compared on the boxes of indices on which both are affine.
///
/// # Errors
/// The difference in words, and a hint if a notation looks mistaken. [`NotViewReason::Undecided`] if there are too many
/// boxes.
pub fn is_view(input: &Layout, map: &ViewMap, output: &Layout) -> Result<(), NotView> {
    decide(input, map, output).map_err(|reason| {
        let hint = input.notation_hint().or_else(|| output.notation_hint());
        let moves = matches!(
            reason,
            NotViewReason::Bytes { .. }
                | NotViewReason::Position { .. }
                | NotViewReason::Positions
                | NotViewReason::CutAcross { .. }
        );
        NotView {
            cause: moves.then(|| cause(input, map, output)).flatten(),
            reason: Box::new(reason),
            hint,
        }
    })
}

/// The layout of the result for which the chain is a view of `input`.
///
/// The notation follows that of the operand if possible: a transposed block keeps its block.
///
/// # Errors
/// There is no such layout: the transpose separates dimensions across which the layout cuts.
pub fn propagate(input: &Layout, map: &ViewMap) -> Result<Layout, NotView> {
    propagate_layout(input, map).map_err(|reason| NotView {
        cause: matches!(reason, NotViewReason::CutAcross { .. })
            .then(|| propagation_cause(input, map))
            .flatten(),
        reason: Box::new(reason),
        hint: input.notation_hint(),
    })
}

fn propagate_layout(input: &Layout, map: &ViewMap) -> Result<Layout, NotViewReason> {
    map.check(input.shape())?;
    let same = map.result == input.shape() && map.is_reshape(input.shape());
    let renaming = map.renaming(input.shape());
    let renamed = renaming.and_then(|renaming| input.notation().transposed(&renaming));
    if input.function().program.is_some() {
        return match renamed {
            _ if same => Ok(input.clone()),
            Some(notation) => Layout::new(notation, &map.result, input.storage().type_bits),
            None => Err(across_padding(NotationKind::Xla)),
        }
        .map_err(NotViewReason::Unwritable);
    }
    let function = propagated_function(input, map)?;
    let propagated = Placement::new(&map.result, input.elements(), function, input.storage());
    if let Some(notation) = renamed {
        return Ok(Layout::from_parts(propagated, notation));
    }
    if same {
        return Ok(input.clone());
    }
    if !input.splits().is_empty() {
        return Err(NotViewReason::Split);
    }
    Layout::written(propagated, Some(input.notation())).map_err(NotViewReason::Unwritable)
}
