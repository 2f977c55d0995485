//! Portable micro-kernel over arrays.

use super::{FLIPPED_ZERO, Factor, Initial, Panel};
use crate::element::Number;
use bytemuck::Zeroable;

/// Columns of a vector.
const LANES: usize = 4;

/// # Safety
/// As for `Factor::panel`.
pub(super) unsafe fn panel<F: Factor>(panel: &Panel<'_, F>) {
    // SAFETY: the caller's promises, handed on.
    unsafe {
        match panel.half {
            true => columns::<F, LANES>(panel),
            false => columns::<F, { 2 * LANES }>(panel),
        }
    }
}

/// Multiplies all rows by the first `N` columns.
///
/// # Safety
/// As for `Factor::panel`; the panel has `N` columns.
unsafe fn columns<F: Factor, const N: usize>(panel: &Panel<'_, F>) {
    let mut at = 0;
    // SAFETY: rows `at..at + M` are there, by the length that was compared.
    unsafe {
        while at + 4 <= panel.left.len() {
            tile::<F, 4, N>(panel, at);
            at += 4;
        }
        while at < panel.left.len() {
            tile::<F, 1, N>(panel, at);
            at += 1;
        }
    }
}

/// Multiplies `M` rows from `first` on by the first `N` columns.
///
/// # Safety
/// As for `columns`; there are `M` rows from `first` on.
unsafe fn tile<F: Factor, const M: usize, const N: usize>(panel: &Panel<'_, F>, first: usize) {
    let mut sums = [[F::Sum::zeroed(); N]; M];
    let zero = F::splat_byte(panel.zero).filter(|_| panel.zero != FLIPPED_ZERO);
    let mut less = [F::Sum::zeroed(); N];
    let terms = panel.runs.iter();
    let terms = terms.flat_map(|&run| (0..panel.run).map(move |at| (run, at)));
    for (term, (run, at)) in terms.enumerate() {
        // SAFETY: `right` has this term, `right_step` apart, with all columns.
        let columns: [F; N] = unsafe {
            panel
                .right
                .add(term * panel.right_step)
                .cast::<[F; N]>()
                .read_unaligned()
        };
        for (i, sums) in sums.iter_mut().enumerate() {
            // SAFETY: each row has this term, `left_step` apart from where its run begins.
            let factor = unsafe {
                *panel.left[first + i]
                    .wrapping_offset(run)
                    .add(at * panel.left_step)
            };
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = factor.multiplied(column, *sum);
            }
        }
        if let Some(zero) = zero {
            for (less, column) in less.iter_mut().zip(columns) {
                *less = zero.multiplied(column, *less);
            }
        }
    }
    for (i, sums) in sums.iter_mut().enumerate() {
        let compensation = panel
            .compensation
            .map_or(F::Sum::zeroed(), |compensation| compensation[first + i]);
        if zero.is_some() || panel.compensation.is_some() {
            let all = sums.iter_mut().zip(less);
            all.for_each(|(sum, less)| *sum = sum.less(less).plus(compensation));
        }
    }
    for (i, mut sums) in sums.into_iter().enumerate() {
        let out = panel.out[first + i].cast::<[F::Sum; N]>();
        // SAFETY: each row of the result has all columns, and nothing else refers to it.
        unsafe {
            let there = match panel.initial {
                Initial::Zero => None,
                Initial::InPlace => Some(out.read_unaligned()),
                Initial::Rows(starts) => Some([starts[first + i]; N]),
                Initial::Columns(starts) => starts.first_chunk::<N>().copied(),
            };
            let all = sums.iter_mut().zip(there.iter().flatten());
            all.for_each(|(sum, &there)| *sum = sum.plus(there));
            out.write_unaligned(sums);
        }
    }
}
