//! Kernels that move bytes, generic in the length of vectors: copies of runs and the blocked transposition of a matrix.

use super::unroll::kept;

/// Least length in bytes of runs that are written by non-temporal stores.
pub(super) const STREAMED: usize = 256;

/// Offsets of rows or columns in one representation, so that a kernel is compiled for it. A kernel visits several groups of
/// rows in lockstep with a running offset that is common to all groups.
pub(super) trait Places: Copy {
    /// The running offset at row `first`, and the offsets of at most `count` rows from there on.
    fn part(self, first: usize, count: usize) -> (isize, Self);

    /// The offset to add for the group that begins with row `first`.
    fn group(self, first: usize) -> isize;

    /// The running offset at the next row of all groups.
    fn next(self, at: isize) -> isize;

    /// The offset of row `first + i`, without the group's part, given the running offset for it.
    fn place(self, at: isize, first: usize, i: usize) -> isize;
}

/// Offsets with a constant stride.
#[derive(Clone, Copy)]
pub(super) struct Even(pub(super) isize);

impl Places for Even {
    #[inline(always)]
    fn part(self, first: usize, _: usize) -> (isize, Self) {
        (self.group(first), self)
    }

    #[inline(always)]
    fn group(self, first: usize) -> isize {
        self.0 * first as isize
    }

    #[inline(always)]
    fn next(self, at: isize) -> isize {
        kept(at + self.0)
    }

    #[inline(always)]
    fn place(self, at: isize, _: usize, _: usize) -> isize {
        at
    }
}

/// Listed offsets.
impl Places for &[isize] {
    #[inline(always)]
    fn part(self, first: usize, count: usize) -> (isize, Self) {
        (0, &self[first..][..count])
    }

    #[inline(always)]
    fn group(self, _: usize) -> isize {
        0
    }

    #[inline(always)]
    fn next(self, at: isize) -> isize {
        at
    }

    #[inline(always)]
    fn place(self, at: isize, first: usize, i: usize) -> isize {
        at + self[first + i]
    }
}

/// Defines the kernels `runs` and `matrix`, and copies of runs in vectors. The caller's `runs_at` chooses a copy by the
/// length of runs.
macro_rules! kernels {
    ($features:literal, $vectors:ident) => {
        /// # Safety
        /// As for `kernels::runs`, on a machine that has these instructions.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn runs(part: &RunsPart<'_>, level: Level) {
            for (from, to) in part.places() {
                // SAFETY: the caller's promises.
                unsafe { runs_at(part.runs, part.range.clone(), from, to, level) };
            }
        }

        /// Copies runs as `K` vectors and a last one, which may overlap the one before it.
        ///
        /// # Safety
        /// As for [`runs`]; the length is in `K * V + 1 ..= (K + 1) * V`.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn vectors<const K: usize>(
            runs: &Runs,
            range: Range<usize>,
            from: *const u8,
            to: *mut u8,
        ) {
            use crate::simd::$vectors as simd;
            let tail = runs.len - V;
            for i in range {
                // SAFETY: all vectors are inside of the run.
                unsafe {
                    let (from, to) = place(runs, i, from, to);
                    let mut head = [simd::zero(); K];
                    each!(K, |j| head[j] = simd::load(from.add(j * V).cast()));
                    let last = simd::load(from.add(tail).cast());
                    each!(K, |j| simd::store(to.add(j * V).cast(), head[j]));
                    simd::store(to.add(tail).cast(), last);
                }
            }
        }

        /// Copies a run by non-temporal stores.
        ///
        /// # Safety
        /// As for [`runs`]; the run has at least a vector.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn streamed(from: *const u8, to: *mut u8, len: usize) {
            use crate::simd::$vectors as simd;
            // SAFETY: all vectors are inside of the run.
            unsafe {
                let last = len - V;
                simd::store(to.cast(), simd::load(from.cast()));
                let mut at = V - to.addr() % V;
                while at <= last {
                    simd::stream(to.add(at).cast(), simd::load(from.add(at).cast()));
                    at += V;
                }
                simd::store(to.add(last).cast(), simd::load(from.add(last).cast()));
            }
        }

        /// Moves a part of a matrix. Returns false if it is smaller than the smallest block.
        ///
        /// # Safety
        /// As for `kernels::matrix`, on a machine that has these instructions.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn matrix(part: &MatrixPart<'_>, streaming: bool) -> bool {
            // SAFETY: the caller's promises.
            unsafe {
                match part.matrix.unit {
                    1 => matrix_of::<1, 16>(part, streaming),
                    2 => matrix_of::<2, 8>(part, streaming),
                    4 => matrix_of::<4, 4>(part, streaming),
                    8 => matrix_of::<8, 2>(part, streaming),
                    _ => matrix_of::<16, 1>(part, streaming),
                }
            }
        }
    };
}

pub(super) use kernels;

/// Defines the loops over blocks for vectors of `$pieces` pieces of 16 bytes. `matrix_of` chooses the representation of
/// offsets, and the caller's `placed` the shape of blocks; `load`, `exchange`, `transpose` and `store` move one block.
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

        /// Moves blocks of `R * N` rows by `$pieces / R * N` columns; the last ones overlap those before them. With `S`,
        /// stores are non-temporal.
        ///
        /// # Safety
        /// As for [`placed`]; the part has at least one block. With `S`, all rows but those of an overlapping block begin
        /// at multiples of a vector.
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
            let squares = part.matrix.lines && $pieces * N <= cols.len();
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
                            squares,
                            from,
                            to,
                            cols.clone(),
                            at_row,
                            at_col,
                        );
                    } else {
                        row_of_blocks::<E, N, R, false, A, B>(
                            squares,
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

        /// Moves a row of blocks: with `squares`, blocks of whole vectors of columns as far as they go, and blocks of 16
        /// bytes of columns for the rest.
        ///
        /// # Safety
        /// As for [`blocks`]; `from` is the base of the rows' offsets, and `to` the first of the rows in the first column.
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
            squares: bool,
            from: *const u8,
            to: *mut u8,
            cols: Range<usize>,
            at_row: A,
            at_col: B,
        ) {
            let n_cols = $pieces / R * N;
            let mut groups = [from; $pieces];
            each!($pieces, |i| groups[i] =
                from.wrapping_offset(at_row.group(i * N)));
            let mut col = cols.start;
            if R == $pieces && squares {
                let side = $pieces * N;
                // A square that overlaps another one by at most half costs less than the blocks that it replaces.
                while col + side / 2 <= cols.end {
                    col = col.min(cols.end - side);
                    // SAFETY: the square's columns are columns of the part.
                    unsafe { square::<E, N, S, A, B>(groups, to, col, at_row, at_col) };
                    col += side;
                }
                if cols.end <= col {
                    return;
                }
                col = col.min(cols.end - n_cols);
            }
            loop {
                let mut block = [$zero(); N];
                let mut at = (col * E) as isize;
                each!(N, |i| {
                    if i != 0 {
                        at = at_row.next(at);
                    }
                    let row = |group: usize| {
                        groups[group].wrapping_offset(at_row.place(at, group * N, i))
                    };
                    // SAFETY: the block's columns are columns of the part, `col * E` bytes from the rows' starts.
                    block[i] = unsafe { load::<R>(row) };
                });
                let block = transpose::<E, N>(block);
                let (mut at, at_col) = at_col.part(col, n_cols);
                each!(N, |i| {
                    if i != 0 {
                        at = at_col.next(at);
                    }
                    each!($pieces / R, |place| {
                        let first = place * N;
                        let column = at_col.group(first) + at_col.place(at, first, i);
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

        /// Moves a square: as many rows as a vector has elements, a whole vector of each. Each cache line of the source is
        /// read once, and pieces of 16 bytes are exchanged in registers.
        ///
        /// # Safety
        /// As for [`row_of_blocks`]; `groups` are the bases of each group's rows.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn square<const E: usize, const N: usize, const S: bool, A: Places, B: Places>(
            groups: [*const u8; $pieces],
            to: *mut u8,
            col: usize,
            at_row: A,
            at_col: B,
        ) {
            let mut blocks = [[$zero(); N]; $pieces];
            let mut at = (col * E) as isize;
            each!(N, |i| {
                if i != 0 {
                    at = at_row.next(at);
                }
                let mut rows = [$zero(); $pieces];
                each!($pieces, |group| {
                    let row = groups[group].wrapping_offset(at_row.place(at, group * N, i));
                    // SAFETY: the square's columns are columns of the part, `col * E` bytes from the rows' starts.
                    rows[group] = unsafe { load::<1>(|_| row) };
                });
                let rows = exchange(rows);
                each!($pieces, |piece| blocks[piece][i] = rows[piece]);
            });
            let (start, at_col) = at_col.part(col, $pieces * N);
            each!($pieces, |piece| {
                let block = transpose::<E, N>(blocks[piece]);
                let mut at = start;
                each!(N, |i| {
                    if i != 0 {
                        at = at_col.next(at);
                    }
                    let first = piece * N;
                    let column = at_col.group(first) + at_col.place(at, first, i);
                    // SAFETY: the square's rows are rows of the part.
                    unsafe { store::<$pieces, S>(to.offset(column), block[i], 0) };
                });
            });
        }
    };
}

pub(super) use blocks;
