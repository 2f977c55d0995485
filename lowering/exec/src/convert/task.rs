//! Which kernel moves a box, in which order, and how the work is cut into units.

use super::nest::{Loop, Nest};
use crate::cache::Caches;
use crate::isa::Isa;
use crate::kernels::{self, Direction, How, Matrix, Offsets, Runs, Streams};
use std::fmt;
use std::ops::Range;

/// Units of work are at least this long where there is a choice, in bytes of the target.
const UNIT_BYTES: usize = 1 << 14;

/// Units below which the work of a kernel is cut further, so that threads have something to share.
const FEW_UNITS: usize = 16;

/// Bytes of a row of the source that a matrix kernel moves before it goes on to other rows.
const COLUMN_BYTES: usize = 128;

/// Bytes of the target that dimensions are joined into before the kernel has its rows.
const ROW_BYTES: usize = 256;

/// The most rows or columns that are listed one by one.
const MAX_LISTED: usize = 1 << 12;

/// A kernel and the loops around it.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// Where the source and the target begin, in bytes.
    from: isize,
    to: isize,
    /// Outermost first.
    outer: Vec<Loop>,
    kernel: Kernel,
    /// How many units one run of the kernel is cut into.
    parts: usize,
    units: usize,
}

#[derive(Clone, Debug)]
enum Kernel {
    Runs {
        runs: Runs,
        chunk: usize,
    },
    Matrix {
        matrix: Matrix,
        row_chunk: usize,
        col_chunk: usize,
        /// The longest vectors that pay.
        most: Isa,
    },
    Streams {
        streams: Streams,
        chunk: usize,
    },
    /// Writes zeros into as many bytes.
    Zero(usize),
}

/// The pieces of `chunk` that `total` is cut into; the last one has the rest as well.
fn pieces(total: usize, chunk: usize) -> usize {
    (total / chunk.max(1)).max(1)
}

fn piece(total: usize, chunk: usize, i: usize) -> Range<usize> {
    let end = if i + 1 == pieces(total, chunk) {
        total
    } else {
        (i + 1) * chunk
    };
    i * chunk..end
}

impl Task {
    /// Zeros in runs of `len` bytes from `to` on.
    pub(crate) fn zero(to: usize, len: usize, loops: &[(usize, usize)]) -> Task {
        let outer = loops.iter().map(|&(count, stride)| Loop {
            count,
            from: 0,
            to: stride as isize,
        });
        Task::new(0, to as isize, outer.collect(), Kernel::Zero(len))
    }

    /// What moves a nest of bytes.
    pub(crate) fn of(mut nest: Nest, order: Order) -> Vec<Task> {
        let mut tasks = Vec::new();
        if nest.units() < FEW_UNITS && 8 * UNIT_BYTES < nest.unit {
            let whole = nest.unit / UNIT_BYTES;
            let rest = nest.unit % UNIT_BYTES;
            let skip = (whole * UNIT_BYTES) as isize;
            if 0 < rest {
                tasks.push(Task::runs(
                    Nest {
                        from: nest.from + skip,
                        to: nest.to + skip,
                        unit: rest,
                        loops: nest.loops.clone(),
                    },
                    order,
                ));
            }
            nest.unit = UNIT_BYTES;
            nest.loops.push(Loop {
                count: whole,
                from: UNIT_BYTES as isize,
                to: UNIT_BYTES as isize,
            });
        }
        tasks.push(Task::choose(nest, order));
        tasks
    }

    fn choose(nest: Nest, order: Order) -> Task {
        if !matches!(nest.unit, 1 | 2 | 4 | 8 | 16) {
            return Task::runs(nest, order);
        }
        let unit = nest.unit as isize;
        let along_target = nest.loops.iter().position(|l| l.to == unit);
        let along_source = nest.loops.iter().position(|l| l.from == unit);
        match (along_target, along_source) {
            (Some(rows), Some(cols)) if rows != cols => Task::transpose(nest, rows, cols, order),
            _ => Task::runs(nest, order),
        }
    }

    /// Copies of runs, those that are near each other on either side after one another.
    fn runs(mut nest: Nest, order: Order) -> Task {
        order.sort(&mut nest.loops);
        let inner = nest.loops.pop().unwrap_or(Loop {
            count: 1,
            from: 0,
            to: 0,
        });
        let runs = Runs {
            len: nest.unit,
            count: inner.count,
            from: inner.from,
            to: inner.to,
        };
        let few = nest.units() < FEW_UNITS;
        let chunk = if few {
            UNIT_BYTES.div_ceil(runs.len)
        } else {
            runs.count
        };
        Task::new(nest.from, nest.to, nest.loops, Kernel::Runs { runs, chunk })
    }

    /// A kernel for a nest with one loop along the target and another one along the source.
    fn transpose(mut nest: Nest, rows: usize, cols: usize, order: Order) -> Task {
        let unit = nest.unit;
        let (row, col) = (nest.loops[rows], nest.loops[cols]);
        let follows = |len: usize, stride: isize| stride == (len * unit) as isize;
        let few = |count: usize| count <= 4 || count <= Streams::MOST && count * unit < 16;
        let streams = if few(row.count) && follows(row.count, col.to) {
            let offsets = (0..row.count as isize).map(|i| i * row.from).collect();
            Some(Streams::new(Direction::Weave, unit, col.count, offsets))
        } else if few(col.count) && follows(col.count, row.from) {
            let offsets = (0..col.count as isize).map(|i| i * col.to).collect();
            Some(Streams::new(Direction::Part, unit, row.count, offsets))
        } else {
            None
        };
        let mut grown = [vec![rows], vec![cols]];
        if streams.is_none() {
            grow(&nest, &mut grown);
        }
        let [rows, cols] = &grown;
        let loops = |list: &[usize]| list.iter().map(|&i| nest.loops[i]).collect::<Vec<_>>();
        let matrix = Matrix {
            unit,
            rows: listed(&loops(rows), |l| l.from),
            cols: listed(&loops(cols), |l| l.to),
        };
        let mut at = 0;
        nest.loops.retain(|_| {
            at += 1;
            !rows.contains(&(at - 1)) && !cols.contains(&(at - 1))
        });
        order.sort(&mut nest.loops);
        let outer = nest.units();
        let kernel = match streams {
            Some(streams) => {
                let bytes = unit * streams.offsets.len();
                let chunk = if outer < FEW_UNITS {
                    UNIT_BYTES.div_ceil(bytes).next_multiple_of(64)
                } else {
                    streams.count
                };
                Kernel::Streams { streams, chunk }
            }
            None => {
                let (n_rows, n_cols) = (matrix.rows.count(), matrix.cols.count());
                let col_chunk = COLUMN_BYTES / unit;
                let few = outer * pieces(n_cols, col_chunk) < FEW_UNITS;
                let bytes = unit * col_chunk.min(n_cols);
                let row_chunk = if few {
                    UNIT_BYTES.div_ceil(bytes).next_multiple_of(64)
                } else {
                    n_rows
                };
                // Lines that are cut by vectors of 64 bytes cost more than twice as many vectors.
                let outer = nest.loops.iter().map(|l| l.to);
                let is_whole = |to: isize| to % 64 == 0;
                let whole = outer.chain([nest.to]).all(is_whole) && matrix.cols.all(is_whole);
                let most = match unit {
                    2 | 4 if !whole => Isa::Avx2,
                    _ => Isa::Avx512,
                };
                Kernel::Matrix {
                    matrix,
                    row_chunk,
                    col_chunk,
                    most,
                }
            }
        };
        Task::new(nest.from, nest.to, nest.loops, kernel)
    }

    fn new(from: isize, to: isize, outer: Vec<Loop>, kernel: Kernel) -> Task {
        let parts = match &kernel {
            Kernel::Runs { runs, chunk } => pieces(runs.count, *chunk),
            Kernel::Matrix {
                matrix,
                row_chunk,
                col_chunk,
                ..
            } => pieces(matrix.rows.count(), *row_chunk) * pieces(matrix.cols.count(), *col_chunk),
            Kernel::Streams { streams, chunk } => pieces(streams.count, *chunk),
            Kernel::Zero(_) => 1,
        };
        let units = parts * outer.iter().map(|l| l.count).product::<usize>();
        Task {
            from,
            to,
            outer,
            kernel,
            parts,
            units,
        }
    }

    /// Units that may be run in any order and by any thread.
    pub(crate) fn units(&self) -> usize {
        self.units
    }

    /// Runs some units.
    ///
    /// # Safety
    /// The buffers are those that the nest was made for: all its places lie inside of them. Nobody else writes
    /// the places of these units or reads the target, and the buffers do not overlap.
    #[expect(unsafe_code, reason = "the places of a nest are inside of its buffers")]
    pub(crate) unsafe fn run(&self, how: How, units: Range<usize>, from: *const u8, to: *mut u8) {
        if units.is_empty() {
            return;
        }
        let mut part = units.start % self.parts;
        let mut rest = units.start / self.parts;
        let mut steps = vec![0usize; self.outer.len()];
        let (mut at_from, mut at_to) = (self.from, self.to);
        for (step, l) in steps.iter_mut().zip(&self.outer).rev() {
            *step = rest % l.count;
            rest /= l.count;
            at_from += l.from * *step as isize;
            at_to += l.to * *step as isize;
        }
        let mut left = units.len();
        loop {
            while part < self.parts {
                // SAFETY: the offsets are sums of steps of the nest, which it knows to be inside of the buffers.
                unsafe { self.part(how, part, from.offset(at_from), to.offset(at_to)) };
                part += 1;
                left -= 1;
                if left == 0 {
                    return;
                }
            }
            part = 0;
            for (step, l) in steps.iter_mut().zip(&self.outer).rev() {
                *step += 1;
                at_from += l.from;
                at_to += l.to;
                if *step < l.count {
                    break;
                }
                at_from -= l.from * l.count as isize;
                at_to -= l.to * l.count as isize;
                *step = 0;
            }
        }
    }

    /// Runs a part of the kernel at one place.
    ///
    /// # Safety
    /// As for [`Task::run`].
    #[expect(unsafe_code, reason = "the places of a nest are inside of its buffers")]
    #[inline]
    unsafe fn part(&self, how: How, part: usize, from: *const u8, to: *mut u8) {
        // SAFETY: a kernel's part is one of the nest.
        unsafe {
            match &self.kernel {
                Kernel::Runs { runs, chunk } => {
                    let range = piece(runs.count, *chunk, part);
                    kernels::runs(how, runs, range, from, to);
                }
                Kernel::Matrix {
                    matrix,
                    row_chunk,
                    col_chunk,
                    most,
                } => {
                    let how = How {
                        isa: how.isa.min(*most),
                        ..how
                    };
                    let n_rows = pieces(matrix.rows.count(), *row_chunk);
                    let rows = piece(matrix.rows.count(), *row_chunk, part % n_rows);
                    let cols = piece(matrix.cols.count(), *col_chunk, part / n_rows);
                    kernels::matrix(how, matrix, rows, cols, from, to);
                }
                Kernel::Streams { streams, chunk } => {
                    let range = piece(streams.count, *chunk, part);
                    kernels::streams(how, streams, range, from, to);
                }
                Kernel::Zero(len) => kernels::zero(to, *len),
            }
        }
    }
}

/// Which side is gone through in its own order where the strides leave a choice.
///
/// Chosen by the benchmark `conversion`, cases `bert_heads` and `vit_heads_b8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Beyond a processor's own cache it is reads that wait.
    Source,
    Target,
}

impl Order {
    /// For two buffers of so many bytes.
    pub(crate) fn of(bytes: u64) -> Order {
        match Caches::get().own < bytes {
            true => Order::Source,
            false => Order::Target,
        }
    }

    /// Sorts loops so that those whose smaller stride is large come first.
    fn sort(self, loops: &mut [Loop]) {
        loops.sort_by_key(|l| {
            let (from, to) = (l.from.unsigned_abs(), l.to.unsigned_abs());
            let tie = if self == Order::Source { from } else { to };
            std::cmp::Reverse((from.min(to), tie))
        });
    }
}

/// Adds to rows and columns the loops that continue them, until they have enough bytes.
fn grow(nest: &Nest, grown: &mut [Vec<usize>; 2]) {
    let wanted = [ROW_BYTES, COLUMN_BYTES];
    for side in 0..2 {
        loop {
            let count: usize = grown[side].iter().map(|&i| nest.loops[i].count).product();
            let next = (0..nest.loops.len()).find(|&i| {
                let l = nest.loops[i];
                let stride = if side == 0 { l.to } else { l.from };
                stride == (count * nest.unit) as isize
                    && !grown[0].contains(&i)
                    && !grown[1].contains(&i)
                    && count * l.count <= MAX_LISTED
            });
            match next {
                Some(i) if count * nest.unit < wanted[side] => grown[side].push(i),
                _ => break,
            }
        }
    }
}

/// The offsets of loops, innermost first.
fn listed(loops: &[Loop], stride: impl Fn(&Loop) -> isize) -> Offsets {
    if let [one] = loops {
        return Offsets::Even {
            count: one.count,
            step: stride(one),
        };
    }
    let mut list = vec![0];
    for l in loops {
        let step = stride(l);
        let steps = (0..l.count as isize).map(|i| i * step);
        list = steps
            .flat_map(|offset| list.iter().map(move |inner| inner + offset))
            .collect();
    }
    Offsets::Listed(list)
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for l in &self.outer {
            write!(f, "{} x ", l.count)?;
        }
        match &self.kernel {
            Kernel::Runs { runs, .. } => write!(f, "{} runs of {} bytes", runs.count, runs.len),
            Kernel::Matrix { matrix, .. } => {
                let (rows, cols) = (matrix.rows.count(), matrix.cols.count());
                write!(f, "matrix {rows}x{cols} of {} bytes", matrix.unit)
            }
            Kernel::Streams { streams, .. } => {
                let what = match streams.direction {
                    Direction::Weave => "into",
                    Direction::Part => "out of",
                };
                let (k, count, unit) = (streams.offsets.len(), streams.count, streams.unit);
                write!(f, "{k} streams {what} one, {count} of {unit} bytes")
            }
            Kernel::Zero(len) => write!(f, "{len} zeros"),
        }
    }
}
