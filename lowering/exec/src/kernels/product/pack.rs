//! Brings columns of an operand side by side, term by term.

use crate::element::Element;
use half::{bf16, f16};
use std::ops::Range;

/// What is brought side by side.
pub(crate) trait Cell: Element {
    /// Eight rows, turned, up to a multiple of 8 of their elements: element `i` of row `j` goes to `i * width + j`.
    ///
    /// # Panics
    /// The rows are shorter, or there are too few places.
    #[inline(always)]
    fn squares(rows: &[&[Self]; 8], whole: usize, to: &mut [Self], width: usize) {
        for term in 0..whole {
            for (to, row) in to[term * width..].iter_mut().zip(rows) {
                *to = row[term];
            }
        }
    }

    /// Eight rows, `step` apart, of one element for each place: the elements of a column go side by side, from its place on.
    ///
    /// # Panics
    /// There are less than eight rows, more than eight places, or a place is outside of what is written.
    #[inline(always)]
    fn turn_out(from: &[Self], step: usize, out: &mut [Self], places: &[usize]) {
        let mut square = [Self::zeroed(); 64];
        let rows: [&[Self]; 8] = std::array::from_fn(|j| &from[j * step..j * step + 8]);
        Self::squares(&rows, 8, &mut square, 8);
        let (lines, _) = square.as_chunks::<8>();
        for (line, &place) in lines.iter().zip(places) {
            out[place..place + 8].copy_from_slice(line);
        }
    }
}

impl Cell for i32 {}

impl Cell for f32 {
    #[inline(always)]
    fn squares(rows: &[&[f32]; 8], whole: usize, to: &mut [f32], width: usize) {
        squares(rows, whole, to, width);
    }

    #[inline(always)]
    fn turn_out(from: &[f32], step: usize, out: &mut [f32], places: &[usize]) {
        turn_out(from, step, out, places);
    }
}

macro_rules! narrow {
    ($($cell:ty, $turn:ident;)*) => {$(
        impl Cell for $cell {
            #[inline(always)]
            fn squares(rows: &[&[$cell]; 8], whole: usize, to: &mut [$cell], width: usize) {
                if whole == 0 {
                    return;
                }
                let long = rows.iter().all(|row| whole <= row.len());
                assert!(long && whole % 8 == 0, "rows are as long as that");
                assert!((whole - 1) * width + 8 <= to.len(), "all of them have a place");
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                {
                    let rows = rows.map(|row| row.as_ptr().cast());
                    // SAFETY: rows and places are as long as was compared just now.
                    unsafe { super::vectors::$turn(rows, whole, to.as_mut_ptr().cast(), width) };
                }
                #[cfg(any(not(target_arch = "x86_64"), miri))]
                for term in 0..whole {
                    for (to, row) in to[term * width..].iter_mut().zip(rows) {
                        *to = row[term];
                    }
                }
            }
        }
    )*};
}

narrow! {
    f16, turn_16;
    bf16, turn_16;
    i8, turn_8;
    u8, turn_8;
}

/// Element `(term, column)` goes from `columns[column] + terms[term]` to `term * width + column`; columns up to `width` become 0.
///
/// # Panics
/// There are more columns than `width`, an element lies outside of `from`, or `to` is too short.
pub(crate) fn pack<E: Cell>(
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
                for (to, term) in to.chunks_exact_mut(width).zip(terms) {
                    let at = (first + term) as usize;
                    to[..n].copy_from_slice(&from[at..at + n]);
                    to[n..].fill(E::zeroed());
                }
            }
        };
    }
    if columns.len() < width {
        to.fill(E::zeroed());
    }
    if let Some(&start) = terms.first().filter(|_| consecutive(terms)) {
        return turned(from, columns, start, to, width);
    }
    for (to, term) in to.chunks_exact_mut(width).zip(terms) {
        for (to, column) in to.iter_mut().zip(columns) {
            *to = from[(column + term) as usize];
        }
    }
}

/// Lanes in groups of `width`, each group as [`pack`] has it, of as many terms.
///
/// # Panics
/// As [`pack`].
pub(crate) fn pack_groups<E: Cell>(
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
    // Some groups at once use whole lines of what is read.
    for (lanes, to) in lanes
        .chunks(GROUPS * width)
        .zip(to.chunks_mut(GROUPS * size))
    {
        if consecutive(lanes) && lanes.len() == GROUPS * width && width == 12 {
            for (t, term) in terms.iter().enumerate() {
                let from = &from[(lanes[0] + term) as usize..][..GROUPS * 12];
                let (from, _) = from.as_chunks::<12>();
                for (group, from) in from.iter().enumerate() {
                    let at = group * size + t * 12;
                    to[at..at + 12].copy_from_slice(from);
                }
            }
            continue;
        }
        let pieces = pieces(lanes, width);
        if pieces.len() * 3 <= lanes.len() && lanes.len() % width == 0 && !consecutive(terms) {
            for (t, term) in terms.iter().enumerate() {
                for piece in &pieces {
                    let from = &from[(lanes[piece.start] + term) as usize..][..piece.len()];
                    let at = piece.start / width * size + t * width + piece.start % width;
                    copy_line(from, &mut to[at..at + piece.len()]);
                }
            }
            continue;
        }
        for (lanes, to) in lanes.chunks(width).zip(to.chunks_mut(size)) {
            pack(from, lanes, terms, to, width);
        }
    }
}

/// Whether each is one more than the one before.
fn consecutive(list: &[i64]) -> bool {
    list.windows(2).all(|w| w[1] == w[0] + 1)
}

/// Lanes of one group that lie one after another.
fn pieces(lanes: &[i64], width: usize) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::new();
    for (i, lane) in lanes.iter().enumerate() {
        match pieces.last_mut() {
            Some(piece) if i % width != 0 && lanes[i - 1] + 1 == *lane => piece.end += 1,
            _ => pieces.push(i..i + 1),
        }
    }
    pieces
}

/// Copies a few elements, for which a call takes longer than the work.
///
/// # Panics
/// There is another number of places.
#[inline(always)]
fn copy_line<E: Copy>(from: &[E], to: &mut [E]) {
    assert_eq!(from.len(), to.len(), "every element has a place");
    if 16 < from.len() {
        return to.copy_from_slice(from);
    }
    let (fours, rest) = from.as_chunks::<4>();
    let (places, left) = to.as_chunks_mut::<4>();
    for (to, from) in places.iter_mut().zip(fours) {
        *to = *from;
    }
    for (to, from) in left.iter_mut().zip(rest) {
        *to = *from;
    }
}

/// Groups that are packed at once.
const GROUPS: usize = 4;

/// Eight rows, `step` apart, of one element for each place: the elements of a column go side by side, from its place on.
///
/// # Panics
/// There are less than eight rows, more than eight places, or a place is outside of what is written.
fn turn_out(from: &[f32], step: usize, out: &mut [f32], places: &[usize]) {
    assert!(
        places
            .iter()
            .all(|&place| place.checked_add(8).is_some_and(|end| end <= out.len())),
        "all columns have a place"
    );
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let (Ok(places), true) = (
        <&[usize; 8]>::try_from(places),
        is_x86_feature_detected!("avx2"),
    ) {
        assert!(7 * step + 8 <= from.len(), "there are eight rows");
        let places = places.map(|place| out.as_mut_ptr().wrapping_add(place));
        // SAFETY: rows and places were compared just now, and the machine has the vectors.
        unsafe { super::vectors::turn_out(from.as_ptr(), step, places) };
        return;
    }
    for (i, &place) in places.iter().enumerate() {
        for (j, to) in out[place..place + 8].iter_mut().enumerate() {
            *to = from[j * step + i];
        }
    }
}

/// Runs of `N` columns.
fn runs<E: Copy, const N: usize>(from: &[E], first: i64, terms: &[i64], to: &mut [E]) {
    let (to, _) = to.as_chunks_mut::<N>();
    for (to, term) in to.iter_mut().zip(terms) {
        let at = (first + term) as usize;
        to.copy_from_slice(&from[at..at + N]);
    }
}

/// Columns that begin at these places go side by side: element `i` of each to `i` times as many as there are columns.
///
/// # Panics
/// A column ends outside of `from`.
pub(crate) fn turn_in<E: Cell>(from: &[E], columns: &[i64], to: &mut [E]) {
    turned(from, columns, 0, to, columns.len());
}

/// Columns whose terms lie one after another: squares of 8 by 8 are turned.
fn turned<E: Cell>(from: &[E], columns: &[i64], start: i64, to: &mut [E], width: usize) {
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
                E::squares(&rows, whole, &mut to[at..], width);
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

/// Eight rows, turned, up to a multiple of 8 of their elements.
fn squares(rows: &[&[f32]; 8], whole: usize, to: &mut [f32], width: usize) {
    if whole == 0 {
        return;
    }
    assert!(
        rows.iter().all(|row| whole <= row.len()),
        "rows are as long as that"
    );
    assert!(
        (whole - 1) * width + 8 <= to.len(),
        "all of them have a place"
    );
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("avx2") {
        let rows = rows.map(<[f32]>::as_ptr);
        // SAFETY: rows and places are as long as was compared just now, and the machine has the vectors.
        unsafe { super::vectors::turn(rows, whole, to.as_mut_ptr(), width) };
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
        for (columns, terms) in [(&even, &steps), (&steps, &even), (&steps, &steps)] {
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
        for n in [1, 5, 8] {
            let places: Vec<usize> = (0..n).map(|i| i * 9 + i % 2).collect();
            let mut out = vec![-1.0; 80];
            turn_out(&from, 32, &mut out, &places);
            for (i, place) in places.iter().enumerate() {
                for j in 0..8 {
                    assert_eq!(out[place + j], from[j * 32 + i]);
                }
            }
        }
    }
}
