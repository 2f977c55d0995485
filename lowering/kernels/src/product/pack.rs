//! Packing of operands into panels, term by term.
//!
//! Columns at offsets 0, 10, 20 with terms at 0, 1 and panels of width 4 are packed as elements `0 10 20 _ 1 11 21 _`,
//! where `_` is 0.

use super::{Byte, Quad};
use crate::element::Element;
use crate::isa::Isa;
use crate::vectorized::prefetch_run;
use half::{bf16, f16};

/// Elements that are packed.
pub trait PackElement: Element {
    /// Transposes eight rows as `transpose8` with vector instructions; returns false if there are none.
    ///
    /// # Safety
    /// Each row has `whole` elements, a multiple of 8; there are 8 places at each of `whole` multiples of `width`.
    unsafe fn transpose_vectors(
        rows: &[&[Self]; 8],
        whole: usize,
        to: &mut [Self],
        width: usize,
    ) -> bool {
        let _ = (rows, whole, to, width);
        false
    }

    /// Transposes `count` rows, `step` apart, of one element for each place: element `i` of row `j` goes to
    /// `out[places[i] + j]`.
    ///
    /// # Panics
    /// There are less than eight rows or more than eight places, or a place is out of bounds.
    #[inline(always)]
    fn transpose_out(from: &[Self], step: usize, count: usize, out: &mut [Self], places: &[usize]) {
        for first in eights(count) {
            let mut square = [Self::zeroed(); 64];
            let rows: [&[Self]; 8] =
                std::array::from_fn(|j| &from[(first + j) * step..(first + j) * step + 8]);
            transpose8(&rows, 8, &mut square, 8);
            let (lines, _) = square.as_chunks::<8>();
            for (line, &place) in lines.iter().zip(places) {
                out[place + first..place + first + 8].copy_from_slice(line);
            }
        }
    }
}

/// First indices of groups of eight that cover `count` elements, at least eight; the last group may overlap the one before.
fn eights(count: usize) -> impl Iterator<Item = usize> {
    (0..count).step_by(8).map(move |at| at.min(count - 8))
}

impl PackElement for i32 {}

macro_rules! vectors {
    ($($element:ty, $transpose:ident, $fits:expr $(, $transpose_out:ident)?;)*) => {$(
        impl PackElement for $element {
            /// # Safety
            /// That of the trait.
            #[inline(always)]
            unsafe fn transpose_vectors(
                rows: &[&[$element]; 8],
                whole: usize,
                to: &mut [$element],
                width: usize,
            ) -> bool {
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                if $fits {
                    let rows = rows.map(|row| row.as_ptr().cast());
                    // SAFETY: the caller's promises; the machine has the instructions.
                    unsafe { super::vectors::$transpose(rows, whole, to.as_mut_ptr().cast(), width) };
                    return true;
                }
                let _ = (rows, whole, to, width);
                false
            }

            $(
                #[inline(always)]
                fn transpose_out(
                    from: &[$element],
                    step: usize,
                    count: usize,
                    out: &mut [$element],
                    places: &[usize],
                ) {
                    $transpose_out(from, step, count, out, places);
                }
            )?
        }
    )*};
}

vectors! {
    f32, transpose, Isa::Avx2 <= Isa::current(), transpose_out;
    f16, transpose_16, true;
    bf16, transpose_16, true;
    i8, transpose_8, true;
    u8, transpose_8, true;
}

/// Packs element `(term, column)` from `columns[column] + terms[term]` to `term * width + column`. Columns up to `width`
/// are filled with 0.
///
/// # Panics
/// There are more columns than `width`, an element lies outside of `from`, or `to` is too short.
pub(crate) fn pack<E: PackElement>(
    from: &[E],
    columns: &[i64],
    terms: &[i64],
    to: &mut [E],
    width: usize,
) {
    assert!(columns.len() <= width, "columns fit a panel");
    let to = &mut to[..terms.len() * width];
    let Some(&first) = columns.first() else {
        return to.fill(E::zeroed());
    };
    if consecutive(columns) {
        let n = columns.len();
        return match (n, width) {
            (32, 32) => runs::<E, 32>(from, first, terms, to),
            (16, 16) => runs::<E, 16>(from, first, terms, to),
            (12, 12) => runs::<E, 12>(from, first, terms, to),
            (8, 8) => runs::<E, 8>(from, first, terms, to),
            (6, 6) => runs::<E, 6>(from, first, terms, to),
            _ => {
                if n < width {
                    to.fill(E::zeroed());
                }
                for (t, (to, term)) in to.chunks_exact_mut(width).zip(terms).enumerate() {
                    prefetch_term::<E>(from, first, terms, t, n);
                    let at = (first + term) as usize;
                    copy_line(&from[at..at + n], &mut to[..n]);
                }
            }
        };
    }
    if columns.len() < width {
        to.fill(E::zeroed());
    }
    if let Some(&start) = terms.first().filter(|_| consecutive(terms)) {
        return transposed(from, columns, start, to, width);
    }
    let pieces = pieces(columns, width, 0);
    if pieces.len() * 3 <= columns.len() {
        for (to, term) in to.chunks_exact_mut(width).zip(terms) {
            pieces
                .iter()
                .for_each(|piece| piece.copy(from, *term, to, 0));
        }
        return;
    }
    for (to, term) in to.chunks_exact_mut(width).zip(terms) {
        for (to, column) in to.iter_mut().zip(columns) {
            *to = from[(column + term) as usize];
        }
    }
}

/// Packs lanes in groups of `width`, each group with all terms as [`pack`] packs it.
///
/// # Panics
/// As [`pack`].
pub(crate) fn pack_groups<E: PackElement>(
    from: &[E],
    lanes: &[i64],
    terms: &[i64],
    to: &mut [E],
    width: usize,
) {
    let size = terms.len() * width;
    if size == 0 {
        return;
    }
    // Several groups at once use whole cache lines of the source.
    for (lanes, to) in lanes
        .chunks(GROUPS * width)
        .zip(to.chunks_mut(GROUPS * size))
    {
        if consecutive(lanes) && lanes.len() == GROUPS * width && width == 12 {
            for (t, term) in terms.iter().enumerate() {
                prefetch_term::<E>(from, lanes[0], terms, t, GROUPS * 12);
                let from = &from[(lanes[0] + term) as usize..][..GROUPS * 12];
                let (from, _) = from.as_chunks::<12>();
                for (group, from) in from.iter().enumerate() {
                    let at = group * size + t * 12;
                    to[at..at + 12].copy_from_slice(from);
                }
            }
            continue;
        }
        let pieces = pieces(lanes, width, size);
        if pieces.len() * 3 <= lanes.len() && lanes.len() % width == 0 && !consecutive(terms) {
            for (t, term) in terms.iter().enumerate() {
                let pieces = pieces.iter();
                pieces.for_each(|piece| piece.copy(from, *term, to, t * width));
            }
            continue;
        }
        for (lanes, to) in lanes.chunks(width).zip(to.chunks_mut(size)) {
            pack(from, lanes, terms, to, width);
        }
    }
}

/// Returns whether each offset is one more than the previous one.
pub(crate) fn consecutive(list: &[i64]) -> bool {
    list.windows(2).all(|w| w[1] == w[0] + 1)
}

/// Lanes of one group that are contiguous in the source.
struct Piece {
    from: i64,
    to: usize,
    count: usize,
}

impl Piece {
    /// Copies the elements of one term; `at` is the place of the term's first lane.
    #[inline(always)]
    fn copy<E: Copy>(&self, from: &[E], term: i64, to: &mut [E], at: usize) {
        let first = (self.from + term) as usize;
        let to = &mut to[at + self.to..at + self.to + self.count];
        copy_line(&from[first..first + self.count], to);
    }
}

/// Contiguous pieces of lanes in groups of `width`; groups are `size` places apart.
fn pieces(lanes: &[i64], width: usize, size: usize) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (i, &from) in lanes.iter().enumerate() {
        match pieces.last_mut() {
            Some(piece) if i % width != 0 && piece.from + piece.count as i64 == from => {
                piece.count += 1;
            }
            _ => pieces.push(Piece {
                from,
                to: i / width * size + i % width,
                count: 1,
            }),
        }
    }
    pieces
}

/// Copies a few elements, for which a call would cost more than the copy.
///
/// # Panics
/// The slices have different lengths.
#[inline(always)]
pub fn copy_line<E: Copy>(from: &[E], to: &mut [E]) {
    assert_eq!(from.len(), to.len(), "every element has a place");
    match from.len() {
        0..4 => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
        4..8 => copy_ends::<E, 4>(from, to),
        8..=16 => copy_ends::<E, 8>(from, to),
        17..=32 => copy_ends::<E, 16>(from, to),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first and the last `N` elements, which overlap or together are all.
#[inline(always)]
fn copy_ends<E: Copy, const N: usize>(from: &[E], to: &mut [E]) {
    if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
        *to = *from;
    }
    if let (Some(from), Some(to)) = (from.last_chunk::<N>(), to.last_chunk_mut::<N>()) {
        *to = *from;
    }
}

/// Groups that are packed at once.
const GROUPS: usize = 4;

/// Implements [`PackElement::transpose_out`] for `f32`.
fn transpose_out(from: &[f32], step: usize, count: usize, out: &mut [f32], places: &[usize]) {
    assert!(
        8 <= count && places.len() <= 8 && (count - 1) * step + 8 <= from.len(),
        "there are eight rows, of eight elements each"
    );
    let inside = |&place: &usize| place.checked_add(count).is_some_and(|end| end <= out.len());
    assert!(places.iter().all(inside), "all columns have a place");
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if Isa::Avx2 <= Isa::current() {
        let (from, out) = (from.as_ptr(), out.as_mut_ptr());
        let mut starts = [out; 8];
        for (start, &place) in starts.iter_mut().zip(places) {
            *start = out.wrapping_add(place);
        }
        let starts = &starts[..places.len()];
        for first in eights(count) {
            // SAFETY: rows `first..first + 8` and as many elements from each place on were checked above, `starts` are
            // places of `out`, which is borrowed, and the machine has AVX2.
            unsafe { super::vectors::transpose_out(from.add(first * step), step, starts, first) };
        }
        return;
    }
    for (i, &place) in places.iter().enumerate() {
        for (j, to) in out[place..place + count].iter_mut().enumerate() {
            *to = from[j * step + i];
        }
    }
}

/// Prefetch distance in terms. Terms that are far apart are no stream that a hardware prefetcher detects.
const AHEAD: usize = 6;

/// Prefetches `count` elements of a term that is read soon.
#[inline(always)]
fn prefetch_term<E: PackElement>(from: &[E], first: i64, terms: &[i64], term: usize, count: usize) {
    if let Some(next) = terms.get(term + AHEAD) {
        prefetch_run(from, (first + next) as usize, count);
    }
}

/// Packs panels of `N` contiguous columns.
fn runs<E: PackElement, const N: usize>(from: &[E], first: i64, terms: &[i64], to: &mut [E]) {
    let (to, _) = to.as_chunks_mut::<N>();
    for (t, (to, term)) in to.iter_mut().zip(terms).enumerate() {
        prefetch_term::<E>(from, first, terms, t, N);
        let at = (first + term) as usize;
        to.copy_from_slice(&from[at..at + N]);
    }
}

/// Transposes columns that begin at these offsets: element `i` of column `j` goes to `i * columns.len() + j`.
///
/// # Panics
/// A column ends outside of `from`.
pub fn transpose_in<E: PackElement>(from: &[E], columns: &[i64], to: &mut [E]) {
    transposed(from, columns, 0, to, columns.len());
}

/// Interleaves four lines into quads of one element of each line.
///
/// # Panics
/// A line is shorter than the list of quads.
#[inline(always)]
pub(crate) fn interleave<B: Byte>(lines: [&[B]; 4], to: &mut [Quad<B>]) {
    let lines = lines.map(|line| &line[..to.len()]);
    let mut done = 0;
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    while done + 16 <= to.len() {
        let from = lines.map(|line| line[done..].as_ptr().cast());
        // SAFETY: each line has 16 elements and there are as many quads from here on, by the lengths that were compared.
        unsafe { super::vectors::interleave(from, to[done..].as_mut_ptr().cast()) };
        done += 16;
        if done < to.len() && 16 < to.len() {
            // The last 16, some of which are made twice.
            done = done.min(to.len() - 16);
        }
    }
    let [a, b, c, d] = lines.map(|line| &line[done..]);
    for (i, to) in to[done..].iter_mut().enumerate() {
        *to = [a[i], b[i], c[i], d[i]];
    }
}

/// Packs `count` contiguous columns from `start` on as quads of terms: quad `i` of column `j` goes to `i * width + j`.
/// Columns up to `width` are left as they are, and terms beyond the last one are `rest`.
///
/// # Panics
/// An element lies outside of `from`, or `to` is too short.
pub(crate) fn interleave_quads<B: Byte>(
    from: &[B],
    (start, count): (i64, usize),
    terms: &[i64],
    rest: B,
    to: &mut [Quad<B>],
    width: usize,
) {
    let line = |term: &i64| {
        let at = (start + term) as usize;
        &from[at..at + count]
    };
    let missing = [rest; super::MOST_COLUMNS];
    for (terms, to) in terms.chunks(4).zip(to.chunks_exact_mut(width)) {
        let lines = std::array::from_fn(|k| terms.get(k).map_or(&missing[..count], line));
        interleave(lines, &mut to[..count]);
    }
}

/// Packs columns whose terms are contiguous from `start` on as quads: quad `i` of column `j` goes to `i * width + j`.
/// Columns up to `width` and terms beyond the last one are filled with 0.
///
/// # Panics
/// A column ends outside of `from`, or `to` is too short.
pub(crate) fn transpose_quads<B: Byte>(
    from: &[B],
    columns: &[i64],
    start: i64,
    terms: usize,
    to: &mut [Quad<B>],
    width: usize,
) {
    let whole = terms / 4;
    if columns.len() < width {
        to.fill([B::zeroed(); 4]);
    }
    for (block, columns) in columns.chunks(8).enumerate() {
        let to = &mut to[block * 8..];
        let rows: [&[B]; 8] = std::array::from_fn(|j| {
            let at = (columns.get(j).unwrap_or(&columns[0]) + start) as usize;
            &from[at..at + terms]
        });
        let mut done = 0;
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if columns.len() == 8 && 8 <= whole && Isa::Avx2 <= Isa::current() {
            assert!((whole - 1) * width + 8 <= to.len(), "all have a place");
            let transpose = |at: usize, count: usize, to: &mut [Quad<B>]| {
                let rows = rows.map(|row| row[at * 4..].as_ptr().cast());
                let to = to[at * width..].as_mut_ptr().cast();
                // SAFETY: rows have all whole quads, and `to` has a place for each; the machine has AVX2.
                unsafe { super::vectors::transpose(rows, count, to, width) };
            };
            done = whole / 8 * 8;
            transpose(0, done, to);
            if done < whole {
                // The last eight, some of which are made twice.
                transpose(whole - 8, 8, to);
                done = whole;
            }
        }
        for (j, row) in rows.iter().enumerate().take(columns.len()) {
            let (quads, rest) = row.as_chunks::<4>();
            for (i, quad) in quads.iter().enumerate().skip(done) {
                to[i * width + j] = *quad;
            }
            if !rest.is_empty() {
                let quad = std::array::from_fn(|k| rest.get(k).copied().unwrap_or(B::zeroed()));
                to[whole * width + j] = quad;
            }
        }
    }
}

/// Packs columns whose terms are contiguous by transposing squares of 8x8.
fn transposed<E: PackElement>(from: &[E], columns: &[i64], start: i64, to: &mut [E], width: usize) {
    let terms = to.len() / width;
    let whole = terms / 8 * 8;
    for (block, columns) in columns.chunks(8).enumerate() {
        let at = block * 8;
        let rows: [&[E]; 8] = std::array::from_fn(|j| {
            let column = columns.get(j).copied().unwrap_or(columns[0]);
            let from_here = (column + start) as usize;
            &from[from_here..from_here + terms]
        });
        let done = match columns.len() {
            8 => {
                transpose8(&rows, whole, &mut to[at..], width);
                whole
            }
            _ => 0,
        };
        for term in done..terms {
            for (j, row) in rows.iter().enumerate().take(columns.len()) {
                to[term * width + at + j] = row[term];
            }
        }
    }
}

/// Transposes eight rows of `whole` elements, a multiple of 8: element `i` of row `j` goes to `i * width + j`.
///
/// # Panics
/// The rows are shorter, or there are too few places.
#[inline(always)]
pub(crate) fn transpose8<E: PackElement>(
    rows: &[&[E]; 8],
    whole: usize,
    to: &mut [E],
    width: usize,
) {
    if whole == 0 {
        return;
    }
    let long = rows.iter().all(|row| whole <= row.len());
    assert!(long && whole.is_multiple_of(8), "rows are as long as that");
    assert!(
        (whole - 1) * width + 8 <= to.len(),
        "all of them have a place"
    );
    // SAFETY: the lengths of rows and places were compared above.
    if unsafe { E::transpose_vectors(rows, whole, to, width) } {
        return;
    }
    for term in 0..whole {
        for (to, row) in to[term * width..].iter_mut().zip(rows) {
            *to = row[term];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_lie_side_by_side() {
        let from: Vec<f32> = (0..4096u16).map(f32::from).collect();
        let even: Vec<i64> = (3..40).collect();
        let steps: Vec<i64> = (0..40).map(|i| i * 64 + i % 3).collect();
        let runs: Vec<i64> = (0..40).map(|i| i / 7 * 90 + i % 7).collect();
        let cases = [
            (&even, &steps),
            (&steps, &even),
            (&steps, &steps),
            (&runs, &steps),
        ];
        for (columns, terms) in cases {
            for n in [0, 1, 5, 6, 8, 13, 16, 32] {
                for width in [6, 8, 16, 32] {
                    if width < n {
                        continue;
                    }
                    let mut to = vec![f32::NAN; terms.len() * width];
                    let columns = &columns[..n];
                    if columns.iter().chain(&terms[..]).max() < Some(&2048) || n < 30 {
                        pack(&from, columns, terms, &mut to, width);
                        for (term, row) in terms.iter().zip(to.chunks(width)) {
                            for (j, found) in row.iter().enumerate() {
                                let wanted = columns.get(j).map_or(0, |c| c + term);
                                assert_eq!(*found, from[wanted as usize]);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn few_elements_are_copied() {
        let from: Vec<u16> = (0..40).collect();
        for n in 0..40 {
            let mut to = [u16::MAX; 41];
            copy_line(&from[..n], &mut to[..n]);
            assert_eq!((&to[..n], to[n]), (&from[..n], u16::MAX));
        }
    }

    #[test]
    fn quads_are_woven_of_lines() {
        let from: Vec<u8> = (0..255).collect();
        for n in [0, 1, 7, 15, 16, 17, 32, 49] {
            let mut to = vec![[9; 4]; n];
            interleave(
                [&from[..60], &from[60..120], &from[120..180], &from[180..]],
                &mut to,
            );
            for (i, quad) in (0u8..).zip(to) {
                assert_eq!(quad, [i, i + 60, i + 120, i + 180]);
            }
        }
    }

    #[test]
    fn quads_are_terms_of_columns() {
        let from: Vec<i8> = (0..4000u32).map(|i| (i * 37 % 255) as i8).collect();
        for terms in [1usize, 3, 4, 7, 31, 32, 33, 49, 64, 71, 100] {
            for (n, width) in [(1, 8), (8, 8), (13, 16), (32, 32), (29, 32)] {
                let columns: Vec<i64> = (0..n).map(|i| i * 101 + i % 3).collect();
                let mut to = vec![[99; 4]; terms.div_ceil(4) * width];
                transpose_quads(&from, &columns, 5, terms, &mut to, width);
                for (i, quad) in to.iter().enumerate() {
                    let wanted = std::array::from_fn(|k| {
                        let (term, column) = (i / width * 4 + k, columns.get(i % width));
                        let column = column.filter(|_| term < terms);
                        column.map_or(0, |c| from[*c as usize + 5 + term])
                    });
                    assert_eq!(*quad, wanted, "{terms} {n} {i}");
                }
            }
        }
    }

    #[test]
    fn groups_are_what_each_is_alone() {
        let from: Vec<f32> = (0..40_000u16).map(f32::from).collect();
        let runs = |n: i64| -> Vec<i64> { (0..120).map(|i| i / n * 37 + i % n).collect() };
        let terms: Vec<i64> = (0..9).map(|t| t * 500 + t % 2).collect();
        for lanes in [runs(1), runs(3), runs(8), runs(120)] {
            for (n, width) in [(120, 12), (96, 12), (50, 12), (120, 6), (35, 6), (64, 4)] {
                let lanes = &lanes[..n];
                let mut to = vec![f32::NAN; n.next_multiple_of(width) * terms.len()];
                pack_groups(&from, lanes, &terms, &mut to, width);
                let size = width * terms.len();
                for (lanes, to) in lanes.chunks(width).zip(to.chunks(size)) {
                    let mut alone = vec![f32::NAN; size];
                    pack(&from, lanes, &terms, &mut alone, width);
                    assert_eq!(to, alone);
                }
            }
        }
    }

    #[test]
    fn columns_are_turned_out_of_rows() {
        let from: Vec<f32> = (0..400u16).map(f32::from).collect();
        for (n, count) in [(1, 8), (5, 9), (8, 8), (8, 12), (7, 11)] {
            let places: Vec<usize> = (0..n).map(|i| i * 13 + i % 2).collect();
            let mut out = vec![-1.0; 112];
            transpose_out(&from, 32, count, &mut out, &places);
            for (i, place) in places.iter().enumerate() {
                for j in 0..count {
                    assert_eq!(out[place + j], from[j * 32 + i]);
                }
            }
            let written = out.iter().filter(|x| **x != -1.0).count();
            assert_eq!(written, n * count, "nothing else is written");
        }
    }
}
