//! Blocks of a matrix, for vectors of any length.

/// The loops over blocks, where vectors have `$pieces` pieces of 16 bytes: `matrix_of` chooses how places are found, which
/// `placed` chooses the form of blocks for; `load`, `transpose` and `store` move one.
macro_rules! blocks {
    ($features:literal, $pieces:literal, $zero:ident) => {
        /// # Safety
        /// As for [`matrix`], with elements of `E` bytes, `N` of which are 16 bytes.
        #[target_feature(enable = $features)]
        unsafe fn matrix_of<const E: usize, const N: usize>(
            part: &MatrixPart<'_>,
            streaming: bool,
        ) -> bool {
            // SAFETY: the caller's promises.
            unsafe {
                match (&part.matrix.rows, &part.matrix.cols) {
                    (&Offsets::Even { step: rows, .. }, &Offsets::Even { step: cols, .. }) => {
                        placed::<E, N, _, _>(part, Even(rows), Even(cols), streaming)
                    }
                    (Offsets::Listed(rows), &Offsets::Even { step: cols, .. }) => {
                        placed::<E, N, _, _>(part, &rows[..], Even(cols), streaming)
                    }
                    (&Offsets::Even { step: rows, .. }, Offsets::Listed(cols)) => {
                        placed::<E, N, _, _>(part, Even(rows), &cols[..], streaming)
                    }
                    (Offsets::Listed(rows), Offsets::Listed(cols)) => {
                        placed::<E, N, _, _>(part, &rows[..], &cols[..], streaming)
                    }
                }
            }
        }

        /// Moves blocks of `R * N` rows and as many columns as vectors have of them, the last ones overlapping those before them. `S` says whether
        /// lines of the target go past the cache.
        ///
        /// # Safety
        /// As for [`placed`]; the part has at least one block. If `S`, all rows but those of an overlapping block begin at
        /// multiples of a vector.
        #[target_feature(enable = $features)]
        unsafe fn blocks<
            const E: usize,
            const N: usize,
            const R: usize,
            const S: bool,
            A: Places,
            B: Places,
        >(
            part: &MatrixPart<'_>,
            at_row: A,
            at_col: B,
        ) {
            let n_rows = R * N;
            let (rows, cols) = (&part.rows, &part.cols);
            let mut row = rows.start;
            loop {
                let to = part.to.wrapping_add(row * E);
                let whole = (row - rows.start).is_multiple_of(n_rows);
                // SAFETY: the rows and columns are those of the part.
                unsafe {
                    let (first, at_row) = at_row.part(row, n_rows);
                    let from = part.from.offset(first);
                    if S && whole {
                        row_of_blocks::<E, N, R, true, A, B>(
                            from,
                            to,
                            cols.clone(),
                            at_row,
                            at_col,
                        );
                    } else {
                        row_of_blocks::<E, N, R, false, A, B>(
                            from,
                            to,
                            cols.clone(),
                            at_row,
                            at_col,
                        );
                    }
                }
                if row + n_rows == rows.end {
                    break;
                }
                row = (row + n_rows).min(rows.end - n_rows);
            }
        }

        /// # Safety
        /// As for [`blocks`]; `from` is where rows are counted from, `to` the first of them in the first column.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn row_of_blocks<
            const E: usize,
            const N: usize,
            const R: usize,
            const S: bool,
            A: Places,
            B: Places,
        >(
            from: *const u8,
            to: *mut u8,
            cols: Range<usize>,
            at_row: A,
            at_col: B,
        ) {
            let n_cols = $pieces / R * N;
            let mut groups = [from; R];
            each!(R, |i| groups[i] = from.wrapping_offset(at_row.group(i * N)));
            let mut col = cols.start;
            loop {
                let mut block = [$zero(); N];
                let mut even = (col * E) as isize;
                each!(N, |i| {
                    if i != 0 {
                        even = kept(even + at_row.step());
                    }
                    let row = |group: usize| match A::EVEN {
                        true => groups[group].wrapping_offset(even),
                        false => groups[group]
                            .wrapping_offset(at_row.within(group * N, i))
                            .wrapping_add(col * E),
                    };
                    // SAFETY: the block's columns are columns of the part, `col * E` bytes into its rows.
                    block[i] = unsafe { load::<R>(row) };
                });
                let block = transpose::<E, N>(block);
                let (first, at_col) = at_col.part(col, n_cols);
                let mut even = first;
                each!(N, |i| {
                    if i != 0 {
                        even = kept(even + at_col.step());
                    }
                    each!($pieces / R, |place| {
                        let column = match B::EVEN {
                            true => even + at_col.group(place * N),
                            false => at_col.within(place * N, i),
                        };
                        // SAFETY: the block's rows are rows of the part.
                        unsafe { store::<R, S>(to.offset(column), block[i], place) };
                    });
                });
                if col + n_cols == cols.end {
                    break;
                }
                col = (col + n_cols).min(cols.end - n_cols);
            }
        }
    };
}

pub(super) use blocks;
