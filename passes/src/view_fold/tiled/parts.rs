//! The part of a layout at a port, and the agreement of two ports.

use super::takes::{role_order, rules_at};
use super::{Part, PartRun, size_of};
use crate::view_fold::layouts::{LayoutId, Layouts};
use crate::view_fold::physical::Place;
use crate::view_fold::signature::{LabelDigit, Signature};

/// The part of a layout at a port; `None` where the row does not take it there.
pub(crate) fn parts(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Option<Part> {
    let order = role_order(sig, layouts, port, layout)?;
    let rules = rules_at(sig, port, &order);
    let mut tile = layouts.tile(layout);
    // Only whole tiles of the machine are numbered in the same way. In a tile with fewer rows the run cannot be cut.
    if tile[0] != layouts.most_rows(sig.bits[port]) {
        tile[0] = u64::MAX;
    }
    let runs = (rules != 0).then(|| runs_of(sig, port, &order, tile))?;
    Some(Part { runs, rules })
}

pub(super) fn runs_of(
    sig: &Signature,
    port: usize,
    order: &[LabelDigit],
    tile: [u64; 2],
) -> Vec<PartRun> {
    let run = |place, tile| {
        let of_place = order.iter().filter(|d| d.place == place);
        let mut digits: Vec<LabelDigit> = of_place.copied().collect();
        extend(&mut digits, order, tile);
        for digit in &mut digits {
            digit.place = Place::Lane;
            if digit.div == 1 && digit.extent == size_of(sig, port, digit.label) {
                digit.extent = 0;
            }
        }
        PartRun { digits, tile }
    };
    let mut runs = vec![run(Place::Row, tile[0]), run(Place::Lane, tile[1])];
    runs.retain(|run| !run.digits.is_empty());
    runs.sort_by_key(|run| run.digits.first().map(|d| (d.label, d.div)));
    runs
}

/// A run of whole tiles is extended by the digits of its outermost label that number tiles, wherever these stand in the
/// grid.
pub(super) fn extend(run: &mut [LabelDigit], order: &[LabelDigit], tile: u64) {
    let product = run.iter().fold(1u64, |n, d| n.saturating_mul(d.extent));
    let Some(outer) = run.first_mut().filter(|_| product.is_multiple_of(tile)) else {
        return;
    };
    let next = |outer: &LabelDigit| {
        let end = outer.div.checked_mul(outer.extent)?;
        let goes_on =
            |d: &&LabelDigit| d.place == Place::Grid && d.label == outer.label && d.div == end;
        order.iter().find(goes_on)
    };
    while let Some(digit) = next(outer) {
        outer.extent = outer.extent.saturating_mul(digit.extent);
    }
}

/// Returns whether a port is an operand after the second, such as a bias. Its tile does not concern other ports.
pub(super) fn is_aside(sig: &Signature, port: usize) -> bool {
    (2..sig.n_operands).contains(&port)
}

/// A digit of a run: label, divisor, extent, and whether it is the whole label.
pub(super) type RunDigit = (usize, u64, u64, bool);

/// Returns whether two ports have the same runs of the labels that both have. A run of whole tiles equals any of its
/// inner parts that fills whole tiles too.
pub(crate) fn agree(sig: &Signature, (p, a): (usize, &Part), (q, b): (usize, &Part)) -> bool {
    if is_aside(sig, p) || is_aside(sig, q) {
        return true;
    }
    let both = |d: &&LabelDigit| 1 < size_of(sig, p, d.label) && 1 < size_of(sig, q, d.label);
    let shared = |part: &Part, port: usize| -> Vec<(Vec<RunDigit>, u64)> {
        let digit = |d: &LabelDigit| match d.extent {
            0 => (d.label, d.div, size_of(sig, port, d.label), true),
            n => (d.label, d.div, n, false),
        };
        let run = |run: &PartRun| {
            let digits: Vec<_> = run.digits.iter().filter(both).map(digit).collect();
            (!digits.is_empty()).then_some((digits, run.tile))
        };
        part.runs.iter().filter_map(run).collect()
    };
    let (x, y) = (shared(a, p), shared(b, q));
    // With lines there is one place in a tile. A label there at one port may be in the grid at the other.
    if sig.lines.is_some() && (x.is_empty() || y.is_empty()) {
        return true;
    }
    let mut runs = x.iter();
    x.len() == y.len()
        && runs.all(|(digits, tile)| {
            let mut others = y.iter();
            others.any(|(other, there)| same_run((digits, *tile), (other, *there)))
        })
}

/// Returns whether two runs are equal. They are compared digit by digit from the minor end. The rest of the longer one
/// must number whole tiles.
pub(super) fn same_run((a, tile_a): (&[RunDigit], u64), (b, tile_b): (&[RunDigit], u64)) -> bool {
    let (mut i, mut j) = (a.len(), b.len());
    let mut product = 1u64;
    while 0 < i && 0 < j {
        let ((la, da, ea, wa), (lb, db, eb, wb)) = (a[i - 1], b[j - 1]);
        if (la, da) != (lb, db) {
            return false;
        }
        if ea == eb || (wa && wb) {
            product = product.saturating_mul(ea);
            (i, j) = (i - 1, j - 1);
            continue;
        }
        // One run has more elements of the label: the rest of it numbers tiles.
        let (long, short, tile, ends) = match ea < eb {
            true => (eb, ea, tile_b, i == 1),
            false => (ea, eb, tile_a, j == 1),
        };
        let inner = product.saturating_mul(short);
        return ends && long.is_multiple_of(short) && inner.is_multiple_of(tile);
    }
    match (i, j) {
        (0, 0) => true,
        (_, 0) => product.is_multiple_of(tile_a),
        (0, _) => product.is_multiple_of(tile_b),
        _ => false,
    }
}
