//! Compares two placements as functions, and decides whether a chain leaves a buffer unchanged.

use crate::boxes;
use crate::chain::{self, equal};
use crate::dims::unravel;
use crate::function::Function;
use crate::map::ViewMap;
use crate::not_view::NotViewReason;
use crate::placement::{Placement, Split, Storage};
use crate::propagation::propagated_function;

impl Placement {
    /// Returns whether both place every element at the same position in buffers of the same size, element width and
    /// memory space. Exact; layouts of different shapes differ.
    ///
    /// Functions that count merged dimensions in different orders, and tiles that cut across the padding of a merge,
    /// are compared box by box. A pair with too many boxes counts as different.
    #[must_use]
    pub fn same_function(&self, other: &Placement) -> bool {
        if std::ptr::eq(self, other) {
            return true;
        }
        let same = |a: Storage, b: Storage| {
            a.positions == b.positions && a.bits == b.bits && a.space == b.space
        };
        self.shape() == other.shape()
            && same_splits(self, other)
            && same(self.storage(), other.storage())
            && same_positions(self, other)
    }

    /// Returns whether the function is the dense row-major one in memory space 0, with elements of the type's own bits.
    #[must_use]
    pub fn is_row_major(&self) -> bool {
        self.storage().is_plain() && self.is_row_major_order()
    }

    /// Returns whether the elements lie row-major and dense, in any memory space and element width.
    #[must_use]
    pub fn is_row_major_order(&self) -> bool {
        let (function, elements) = (self.function(), self.elements());
        let dense = function.offset == 0 && self.positions() == elements;
        if function.program.is_some() {
            let plain = Placement::row_major(self.shape(), self.elem_bits());
            return dense && same_positions(self, &plain);
        }
        dense && function.order.is_none() && function.chain == chain::linear(1, elements)
    }
}

/// Checks that `output` places every element at the position at which `input` has the element that the map reads.
///
/// # Errors
/// The difference.
pub(crate) fn decide(
    input: &Placement,
    map: &ViewMap,
    output: &Placement,
) -> Result<(), NotViewReason> {
    map.check(input.shape())?;
    if map.result != output.shape() {
        let (wanted, found) = (map.result.clone(), output.shape().to_vec());
        return Err(NotViewReason::Shape { wanted, found });
    }
    compare_storage(input, output)?;
    compare_splits(input, map, output)?;
    if input.elements() == 0 {
        return Ok(());
    }
    let refusal = match propagated_function(input, map) {
        Ok(propagated) => match same_functions(&propagated, output.function(), input.elements()) {
            Some(true) => return Ok(()),
            Some(false) => return Err(difference(input, map, output, NotViewReason::Positions)),
            None => NotViewReason::Positions,
        },
        Err(refusal) => refusal,
    };
    match different_element(input, map, output) {
        Some(reason) => Err(reason),
        None => match boxes::agree(input, map, output) {
            Some(true) => Ok(()),
            Some(false) => Err(refusal),
            None => Err(NotViewReason::Undecided),
        },
    }
}

/// Checks that the buffers agree in element width, memory space and size.
pub(crate) fn compare_storage(input: &Placement, output: &Placement) -> Result<(), NotViewReason> {
    let (a, b) = (input.storage(), output.storage());
    if a.bits != b.bits {
        return Err(NotViewReason::Bits {
            input: a.bits,
            output: b.bits,
        });
    }
    if a.space != b.space {
        return Err(NotViewReason::Space {
            input: a.space,
            output: b.space,
        });
    }
    if input.bytes() != output.bytes() {
        return Err(NotViewReason::Bytes {
            input: input.bytes(),
            output: output.bytes(),
        });
    }
    Ok(())
}

/// Checks that both are split over memories (`SC`) at the same elements.
fn compare_splits(
    input: &Placement,
    map: &ViewMap,
    output: &Placement,
) -> Result<(), NotViewReason> {
    let wanted = || Split::marks(output.splits(), output.shape());
    let same = match (input.splits().is_empty(), output.splits().is_empty()) {
        (true, true) => return Ok(()),
        (false, false) if map.is_reshape(input.shape()) => {
            Split::marks(input.splits(), input.shape()) == wanted()
        }
        (false, false) => map.renaming(input.shape()).is_some_and(|renaming| {
            let moved = |split: &Split| Split {
                dim: renaming.new[split.dim],
                points: split.points.clone(),
            };
            let splits: Vec<Split> = input.splits().iter().map(moved).collect();
            Split::marks(&splits, output.shape()) == wanted()
        }),
        _ => false,
    };
    if same {
        Ok(())
    } else {
        Err(NotViewReason::Split)
    }
}

/// Returns whether two layouts of one shape are split over memories at the same elements.
fn same_splits(a: &Placement, b: &Placement) -> bool {
    a.splits().is_empty() && b.splits().is_empty()
        || Split::marks(a.splits(), a.shape()) == Split::marks(b.splits(), b.shape())
}

/// Returns whether two functions agree; `None` if they count the elements in different orders.
fn same_functions(a: &Function, b: &Function, elements: u64) -> Option<bool> {
    if elements == 0 {
        return Some(true);
    }
    if a.offset != b.offset {
        return Some(false);
    }
    if a.program.is_some() || b.program.is_some() {
        return (a.program.is_some() && a.program == b.program).then_some(true);
    }
    (a.order == b.order).then(|| equal(&a.chain, &b.chain, elements))
}

/// Returns whether two layouts of one shape place every element at the same offset.
fn same_positions(a: &Placement, b: &Placement) -> bool {
    let identity = ViewMap::reshape(b.shape());
    let boxes = || {
        let differ = different_element(a, &identity, b).is_some();
        !differ && boxes::agree(a, &identity, b) == Some(true)
    };
    same_functions(a.function(), b.function(), a.elements()).unwrap_or_else(boxes)
}

/// An element whose offsets differ, or the given reason.
fn difference(
    input: &Placement,
    map: &ViewMap,
    output: &Placement,
    otherwise: NotViewReason,
) -> NotViewReason {
    different_element(input, map, output).unwrap_or(otherwise)
}

/// An element whose offsets differ, among a few chosen ones.
fn different_element(
    input: &Placement,
    map: &ViewMap,
    output: &Placement,
) -> Option<NotViewReason> {
    let n = input.elements();
    let differs = |k: u64| {
        let found = input.position_of_number(map.operand_number(input.shape(), k))?;
        let wanted = output.position_of_number(k)?;
        let element = || unravel(k, output.shape());
        (found != wanted).then(|| NotViewReason::Position {
            element: element(),
            found,
            wanted,
        })
    };
    let doublings = (0..63).map(|bit| 1u64 << bit).take_while(|&k| k < n);
    let mut spread = [3, 5, 7]
        .map(|part| n / part)
        .into_iter()
        .filter(|&k| k < n);
    let found = (0..1.min(n)).chain(doublings).find_map(differs);
    found
        .or_else(|| spread.find_map(differs))
        .or_else(|| differs(n.checked_sub(1)?))
}
