//! The layout at a port that follows an order of the labels of an operation.

use super::layouts::{LayoutId, Layouts};
use super::physical::{Digit, Physical, Place, joined};
use super::signature::{LabelDigit, Signature};
use optc_layout::Mode;
use smallvec::{SmallVec, smallvec};

/// [`restrict`] at port after port, with shortcuts. A port that looks like the previous one has the same answer. A port
/// that looks like the source has the answer of any operation with such a port.
pub(crate) struct Restricted<'a> {
    order: &'a [LabelDigit],
    source: usize,
    /// The layout at the source, where the order is that layout's own and no label is added.
    own: Option<LayoutId>,
    last: Option<(usize, Option<LayoutId>)>,
}

impl<'a> Restricted<'a> {
    /// From an order that the layout at the source has, with labels that it lacks added.
    pub(crate) fn new(
        layouts: &mut Layouts,
        order: &'a [LabelDigit],
        source: usize,
        layout: LayoutId,
    ) -> Restricted<'a> {
        let long = |modes: &[Mode]| modes.iter().filter(|m| 1 < m.extent).count();
        let modes = layouts.modes(layout);
        let own = modes.is_some_and(|modes| long(&modes) == order.len());
        Restricted {
            order,
            source,
            own: own.then_some(layout),
            last: None,
        }
    }

    pub(crate) fn at(
        &mut self,
        sig: &Signature,
        layouts: &mut Layouts,
        port: usize,
    ) -> Option<LayoutId> {
        if let Some((other, known)) = self.last
            && alike(sig, other, port)
        {
            return known;
        }
        let (order, source) = (self.order, self.source);
        let own = self.own.filter(|_| alike(sig, source, port));
        let own = own.filter(|&layout| is_its_own(sig, layouts, port, layout));
        let found = match own {
            Some(layout) => layouts.of_own_digits(layout, |layouts| {
                restrict(sig, layouts, port, order, source)
            }),
            None => restrict(sig, layouts, port, order, source),
        };
        self.last = Some((port, found));
        found
    }
}

/// Returns whether two ports have the same extents, element width and labels.
pub(crate) fn alike(sig: &Signature, a: usize, b: usize) -> bool {
    sig.bits[a] == sig.bits[b] && sig.shapes[a] == sig.shapes[b] && sig.labels(a) == sig.labels(b)
}

/// Returns whether the layout that follows this one's order, at a port that looks like its own, is the same for all
/// operations. It then depends on digits alone, because each dimension has a label of its own.
pub(crate) fn is_its_own(
    sig: &Signature,
    layouts: &Layouts,
    port: usize,
    layout: LayoutId,
) -> bool {
    let labels = sig.labels(port);
    let mut each = labels.iter().enumerate();
    !sig.is_tiled()
        && layouts.get(layout).elem_bits() == sig.bits[port]
        && each.all(|(at, label)| label.is_some() && !labels[..at].contains(label))
}

/// The layout at a port that follows an order of labels. Labels that the port lacks drop out.
pub(crate) fn restrict(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    order: &[LabelDigit],
    source: usize,
) -> Option<LayoutId> {
    if sig.is_tiled() {
        return restrict_tiled(sig, layouts, port, order, source);
    }
    let (labels, shape) = (sig.labels(port), &sig.shapes[port]);
    // A port that shares no dimension has its default layout.
    if labels.iter().all(Option::is_none) {
        return Some(layouts.row_major(shape, sig.bits[port]));
    }
    let mut modes: SmallVec<[Mode; 8]> = SmallVec::new();
    let mut covered: SmallVec<[bool; 8]> = smallvec![false; shape.len()];
    for (at, digit) in order.iter().enumerate() {
        let Some(dim) = sig.dim_of(port, digit.label) else {
            continue;
        };
        let size = shape[dim];
        let granule = sig.freedom.labels[digit.label].granule;
        let from = match sig.is_even {
            true => size,
            false => sig.extent(source, digit.label).unwrap_or(size),
        };
        if from != size && digit.div != 1 && (granule == 0 || !granule.is_multiple_of(digit.div)) {
            return None;
        }
        covered[dim] = true;
        let whole = size.div_ceil(digit.div);
        let (count, extent) = match from == size {
            true => (whole.min(digit.extent), digit.extent),
            false if is_outermost(order, at) => (whole, whole),
            false => (digit.extent.min(size), digit.extent),
        };
        if 1 < extent {
            modes.push(Mode {
                dim,
                div: digit.div,
                count,
                extent,
            });
        }
    }
    let complete = (0..shape.len()).all(|d| covered[d] || shape[d] == 1);
    if !complete {
        return None;
    }
    if !sig.is_even && from_differs_with_inner_cut(sig, port, source, order) {
        return None;
    }
    layouts.of_modes(shape, sig.bits[port], &modes)
}

/// [`restrict`] on a machine with tiles. Where the lanes or the rows are left empty, the digits before them move in.
fn restrict_tiled(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    order: &[LabelDigit],
    source: usize,
) -> Option<LayoutId> {
    let shape = &sig.shapes[port];
    let mut digits: Vec<Digit> = Vec::with_capacity(order.len());
    let mut filled = vec![1u64; shape.len()];
    for (at, digit) in order.iter().enumerate() {
        let Some(dim) = sig.dim_of(port, digit.label) else {
            continue;
        };
        let size = shape[dim];
        if size == 1 {
            continue;
        }
        let from = sig.extent(source, digit.label).unwrap_or(size);
        let granule = sig.freedom.labels[digit.label].granule;
        let cut = digit.div != 1 || !is_outermost(order, at);
        if from != size && cut && (granule == 0 || !granule.is_multiple_of(digit.div)) {
            return None;
        }
        let extent = match from != size && is_outermost(order, at) {
            true if !size.is_multiple_of(digit.div) => return None,
            true => size / digit.div,
            false => digit.extent,
        };
        filled[dim] = filled[dim].checked_mul(extent)?;
        if 1 < extent {
            let (div, place) = (digit.div, digit.place);
            digits.push(Digit {
                dim,
                div,
                extent,
                place,
            });
        }
    }
    if filled.iter().zip(shape).any(|(n, size)| n != size) {
        return None;
    }
    // If values may lie without tiles, a value without lanes lies without them.
    let plain = layouts.is_plain(sig.bits[port]);
    let has = |digits: &[Digit], place| digits.iter().any(|d| d.place == place);
    let tiled = |place| order.iter().any(|d| d.place == place);
    if !plain && !has(&digits, Place::Lane) && tiled(Place::Lane) {
        let from = if has(&digits, Place::Row) {
            Place::Row
        } else {
            Place::Grid
        };
        fill(&mut digits, from, Place::Lane);
    }
    if !plain && !has(&digits, Place::Row) && tiled(Place::Row) {
        fill(&mut digits, Place::Grid, Place::Row);
    }
    let form = Physical::new(joined(digits));
    layouts.formed(shape, sig.bits[port], &form)
}

/// Fills an empty place of a tile: with all of the rows, or with the last digit of the grid.
fn fill(digits: &mut [Digit], from: Place, to: Place) {
    let mut last = digits.iter_mut().filter(|d| d.place == from).rev();
    let many = from == Place::Row;
    for digit in last.by_ref() {
        digit.place = to;
        if !many {
            break;
        }
    }
}

fn is_outermost(order: &[LabelDigit], at: usize) -> bool {
    order
        .iter()
        .all(|d| d.label != order[at].label || d.div <= order[at].div)
}

/// Returns whether a cut label has different extents at the two ports, and one of them ends inside a cut.
fn from_differs_with_inner_cut(
    sig: &Signature,
    port: usize,
    source: usize,
    order: &[LabelDigit],
) -> bool {
    order.iter().any(|d| {
        let (a, b) = (sig.extent(port, d.label), sig.extent(source, d.label));
        match (a, b) {
            (Some(a), Some(b)) if a != b => !a.is_multiple_of(d.div) || !b.is_multiple_of(d.div),
            _ => false,
        }
    })
}
