//! Brings columns of an operand side by side, term by term.

/// Element `(term, column)` goes from `columns[column] + terms[term]` to `term * width + column`; columns up to `width` become 0.
///
/// # Panics
/// There are more columns than `width`, an element lies outside of `from`, or `to` is too short.
pub(crate) fn pack(from: &[f32], columns: &[i64], terms: &[i64], to: &mut [f32], width: usize) {
    assert!(columns.len() <= width, "columns fit a panel");
    let to = &mut to[..terms.len() * width];
    let even = |list: &[i64]| list.windows(2).all(|w| w[1] == w[0] + 1);
    let Some(&first) = columns.first() else {
        return to.fill(0.0);
    };
    if even(columns) {
        let n = columns.len();
        return match (n, width) {
            (32, 32) => runs::<32>(from, first, terms, to),
            (16, 16) => runs::<16>(from, first, terms, to),
            (8, 8) => runs::<8>(from, first, terms, to),
            (6, 6) => runs::<6>(from, first, terms, to),
            _ => {
                for (to, term) in to.chunks_exact_mut(width).zip(terms) {
                    let at = (first + term) as usize;
                    to[..n].copy_from_slice(&from[at..at + n]);
                    to[n..].fill(0.0);
                }
            }
        };
    }
    if columns.len() < width {
        to.fill(0.0);
    }
    if let Some(&start) = terms.first().filter(|_| even(terms)) {
        return turned(from, columns, start, to, width);
    }
    for (to, term) in to.chunks_exact_mut(width).zip(terms) {
        for (to, column) in to.iter_mut().zip(columns) {
            *to = from[(column + term) as usize];
        }
    }
}

/// Runs of `N` columns.
fn runs<const N: usize>(from: &[f32], first: i64, terms: &[i64], to: &mut [f32]) {
    let (to, _) = to.as_chunks_mut::<N>();
    for (to, term) in to.iter_mut().zip(terms) {
        let at = (first + term) as usize;
        to.copy_from_slice(&from[at..at + N]);
    }
}

/// Columns whose terms lie one after another: squares of 8 by 8 are turned.
fn turned(from: &[f32], columns: &[i64], start: i64, to: &mut [f32], width: usize) {
    let terms = to.len() / width;
    let whole = terms / 8 * 8;
    for (block, columns) in columns.chunks(8).enumerate() {
        let at = block * 8;
        let rows: [&[f32]; 8] = std::array::from_fn(|j| {
            let column = columns.get(j).copied().unwrap_or(columns[0]);
            let from_here = (column + start) as usize;
            &from[from_here..from_here + terms]
        });
        let done = match columns.len() {
            8 => {
                squares(&rows, whole, &mut to[at..], width);
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
}
