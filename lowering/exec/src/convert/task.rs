//! Choice of the kernel that moves a box, of its loop order, and of the units of work.
//!
//! A nest with one loop that is contiguous in the target and another one that is contiguous in the source is a transpose:
//! it becomes a matrix kernel, or a stream kernel (interleave) if one side is at most 8 elements. Any other nest becomes
//! copies of runs.

use super::nest::Nest;
use optc_kernels::cache::{Caches, Level};
use optc_kernels::moves::{self, Direction, How, Loop, Matrix, Offsets, Repeats, Runs, Streams};
use optc_kernels::vectorized::CACHE_LINE;
use std::fmt;
use std::ops::Range;

/// Least size of a unit of work in bytes of the target, where there is a choice.
const UNIT_BYTES: usize = 1 << 14;

/// With fewer units than this, the work of a kernel is cut further, so that threads can share it.
const FEW_UNITS: usize = 16;

/// Bytes of a row of the source that a matrix kernel moves before it goes on to other rows.
///
/// Chosen by the benchmark `conversion`, cases `vit_kT_b8`, `nchw_nhwc` and `2d_4096`: whole cache lines, and many of them
/// if the data is in main memory.
fn column_bytes(level: Level, cols: &Offsets, unit: usize) -> usize {
    match level {
        Level::Memory => 512,
        // Lines of all columns map to the same cache set.
        _ if cols.all(|step| step % PAGE == 0) => CACHE_LINE,
        _ => 512.min(128 * unit),
    }
}

/// Returns whether whole cache lines of the source are read at once.
///
/// They are if the data is in a private cache, or if the lines of a block's rows map to the same sets of the L1 cache and
/// would be evicted before their next piece is read. Otherwise fewer columns at a time are faster. Chosen by the benchmark
/// `conversion`, cases `small_64`, `2d_4096`, `p3_210` and `nchw_nhwc`.
fn whole_lines(level: Level, rows: &Offsets, unit: usize) -> bool {
    let apart = |step: isize| 1 << step.trailing_zeros().min(PAGE.trailing_zeros());
    let compete = match *rows {
        Offsets::Even { step, .. } => {
            Caches::get().first < (CACHE_LINE / unit * apart(step)) as u64
        }
        Offsets::Listed(_) => false,
    };
    level == Level::Own || compete
}

/// Bytes of a page; lines that are a multiple of it apart map to the same set in most caches.
const PAGE: isize = 1 << 12;

/// Bytes of the source up to which dimensions are merged into the columns of a matrix kernel.
const COLUMN_BYTES: usize = 128;

/// Bytes of the target up to which dimensions are merged into the rows of a matrix kernel.
const ROW_BYTES: usize = 256;

/// Most rows or columns whose offsets are listed.
const MAX_LISTED: usize = 1 << 12;

/// A kernel and the loops around it.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// Start in the source and in the target, in bytes.
    from: isize,
    to: isize,
    /// Loops around the kernel, outermost first.
    outer: Vec<Loop>,
    kernel: Kernel,
    /// Units that one run of the kernel is cut into.
    parts: usize,
    units: usize,
}

#[derive(Clone, Debug)]
enum Kernel {
    Runs {
        runs: Runs,
        cut: Cut,
    },
    Matrix {
        matrix: Matrix,
        rows: Cut,
        cols: Cut,
    },
    Streams {
        streams: Streams,
        cut: Cut,
    },
    /// Zeros runs of `len` bytes.
    Zero {
        len: usize,
        repeats: Repeats,
        cut: Cut,
    },
}

/// Runs, rows or columns, cut into pieces.
#[derive(Clone, Copy, Debug)]
struct Cut {
    total: usize,
    chunk: usize,
    pieces: usize,
}

impl Cut {
    /// Pieces of `chunk`; the last one also has the remainder.
    fn new(total: usize, chunk: usize) -> Cut {
        let chunk = chunk.max(1);
        Cut {
            total,
            chunk,
            pieces: (total / chunk).max(1),
        }
    }

    #[inline]
    fn piece(&self, i: usize) -> Range<usize> {
        let end = match i + 1 == self.pieces {
            true => self.total,
            false => (i + 1) * self.chunk,
        };
        i * self.chunk..end
    }
}

impl Task {
    /// A task that zeros runs of `len` bytes from `to` on.
    pub(crate) fn zero(to: usize, len: usize, loops: &[(usize, usize)]) -> Task {
        let outer = loops.iter().map(|&(count, stride)| Loop {
            count,
            from: 0,
            to: stride as isize,
        });
        let mut outer = outer.collect::<Vec<_>>();
        let units = outer.iter().map(|l| l.count).product();
        let repeats = repeated(&mut outer, units).unwrap_or(Repeats::ONCE);
        let cut = Cut::new(repeats.count(), UNIT_BYTES.div_ceil(len.max(1)));
        Task::new(0, to as isize, outer, Kernel::Zero { len, repeats, cut })
    }

    /// The tasks that move a nest of bytes.
    pub(crate) fn of(mut nest: Nest, level: Level) -> Vec<Task> {
        let mut tasks = Vec::new();
        if nest.units() < FEW_UNITS && 8 * UNIT_BYTES < nest.unit {
            let whole = nest.unit / UNIT_BYTES;
            let rest = nest.unit % UNIT_BYTES;
            let skip = (whole * UNIT_BYTES) as isize;
            if 0 < rest {
                tasks.push(Task::runs(Nest {
                    from: nest.from + skip,
                    to: nest.to + skip,
                    unit: rest,
                    loops: nest.loops.clone(),
                }));
            }
            nest.unit = UNIT_BYTES;
            nest.loops.push(Loop {
                count: whole,
                from: UNIT_BYTES as isize,
                to: UNIT_BYTES as isize,
            });
        }
        tasks.push(Task::choose(nest, level));
        tasks
    }

    fn choose(nest: Nest, level: Level) -> Task {
        if !matches!(nest.unit, 1 | 2 | 4 | 8 | 16) {
            return Task::runs(nest);
        }
        let unit = nest.unit as isize;
        let along_target = nest.loops.iter().position(|l| l.to == unit);
        let along_source = nest.loops.iter().position(|l| l.from == unit);
        match (along_target, along_source) {
            (Some(rows), Some(cols)) if rows != cols => Task::transpose(nest, rows, cols, level),
            _ => Task::runs(nest),
        }
    }

    /// Copies of runs; runs that are near each other on either side are copied one after another.
    fn runs(mut nest: Nest) -> Task {
        sort(&mut nest.loops);
        let inner = nest.loops.pop().unwrap_or(Loop::ONCE);
        let mut runs = Runs {
            len: nest.unit,
            count: inner.count,
            from: inner.from,
            to: inner.to,
            repeats: Repeats::ONCE,
        };
        let outer = nest.units();
        let cut = match repeated(&mut nest.loops, outer) {
            Some(repeats) => {
                runs.repeats = repeats;
                Cut::new(
                    repeats.count(),
                    UNIT_BYTES.div_ceil((runs.len * runs.count).max(1)),
                )
            }
            None if outer < FEW_UNITS => Cut::new(runs.count, UNIT_BYTES.div_ceil(runs.len)),
            None => Cut::new(runs.count, runs.count),
        };
        Task::new(nest.from, nest.to, nest.loops, Kernel::Runs { runs, cut })
    }

    /// The kernel of a nest with one loop that is contiguous in the target and another one in the source.
    fn transpose(mut nest: Nest, rows: usize, cols: usize, level: Level) -> Task {
        let unit = nest.unit;
        let (row, col) = (nest.loops[rows], nest.loops[cols]);
        let follows = |len: usize, stride: isize| stride == (len * unit) as isize;
        let few = |count: usize| count <= 4 || count <= Streams::MOST && count * unit < 16;
        let streams = if few(row.count) && follows(row.count, col.to) {
            let offsets = (0..row.count as isize).map(|i| i * row.from).collect();
            Some(Streams::new(
                Direction::Interleave,
                unit,
                col.count,
                offsets,
            ))
        } else if few(col.count) && follows(col.count, row.from) {
            let offsets = (0..col.count as isize).map(|i| i * col.to).collect();
            Some(Streams::new(
                Direction::Deinterleave,
                unit,
                row.count,
                offsets,
            ))
        } else {
            None
        };
        let mut grown = [vec![rows], vec![cols]];
        if streams.is_none() {
            grow(&nest, &mut grown);
        }
        let [rows, cols] = &grown;
        let loops = |list: &[usize]| list.iter().map(|&i| nest.loops[i]).collect::<Vec<_>>();
        let rows_from = listed(&loops(rows), |l| l.from);
        let matrix = Matrix {
            unit,
            lines: whole_lines(level, &rows_from, unit),
            rows: rows_from,
            cols: listed(&loops(cols), |l| l.to),
        };
        let mut at = 0;
        nest.loops.retain(|_| {
            at += 1;
            !rows.contains(&(at - 1)) && !cols.contains(&(at - 1))
        });
        sort(&mut nest.loops);
        let outer = nest.units();
        let kernel = match streams {
            Some(mut streams) => {
                let bytes = unit * streams.offsets.len();
                let chunk = UNIT_BYTES.div_ceil(bytes).next_multiple_of(64);
                let cut = match repeated(&mut nest.loops, outer) {
                    Some(repeats) => {
                        streams.repeats = repeats;
                        Cut::new(repeats.count(), chunk.div_ceil(streams.count))
                    }
                    None => Cut::new(streams.count, chunk),
                };
                Kernel::Streams { streams, cut }
            }
            None => {
                let (n_rows, n_cols) = (matrix.rows.count(), matrix.cols.count());
                let col_chunk = column_bytes(level, &matrix.cols, unit) / unit;
                let cols = Cut::new(n_cols, col_chunk);
                let few = outer * cols.pieces < FEW_UNITS;
                let bytes = unit * col_chunk.min(n_cols);
                let row_chunk = if few {
                    UNIT_BYTES.div_ceil(bytes).next_multiple_of(64)
                } else {
                    n_rows
                };
                let rows = Cut::new(n_rows, row_chunk);
                Kernel::Matrix { matrix, rows, cols }
            }
        };
        Task::new(nest.from, nest.to, nest.loops, kernel)
    }

    fn new(from: isize, to: isize, outer: Vec<Loop>, kernel: Kernel) -> Task {
        let parts = match &kernel {
            Kernel::Runs { cut, .. } | Kernel::Streams { cut, .. } => cut.pieces,
            Kernel::Matrix { rows, cols, .. } => rows.pieces * cols.pieces,
            Kernel::Zero { cut, .. } => cut.pieces,
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

    /// Number of units, which may be run in any order and on any thread.
    pub(crate) fn units(&self) -> usize {
        self.units
    }

    /// Runs some units.
    ///
    /// # Safety
    /// The buffers have the sizes that the nest was made for, so that all its places are inside of them. Nothing else
    /// writes the places of these units or reads the target meanwhile, and the buffers do not overlap.
    #[expect(unsafe_code, reason = "the places of a nest are inside of its buffers")]
    pub(crate) unsafe fn run(&self, how: How, units: Range<usize>, from: *const u8, to: *mut u8) {
        if units.is_empty() {
            return;
        }
        let (mut part, mut rest) = match units.start {
            0 => (0, 0),
            start => (start % self.parts, start / self.parts),
        };
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
                // SAFETY: the offsets are sums of steps of the nest, which are known to be inside of the buffers.
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

    /// Runs one piece of the kernel. It is never inlined: the caller would compute at each call what all kernels need.
    ///
    /// # Safety
    /// As for [`Task::run`].
    #[expect(unsafe_code, reason = "the places of a nest are inside of its buffers")]
    #[inline(never)]
    unsafe fn part(&self, how: How, part: usize, from: *const u8, to: *mut u8) {
        // SAFETY: a piece of the kernel is a part of the nest.
        unsafe {
            match &self.kernel {
                Kernel::Runs { runs, cut } => {
                    let [range, repeats] = piece_of(runs.count, runs.repeats, cut.piece(part));
                    moves::runs(how, runs, range, repeats, from, to);
                }
                Kernel::Matrix { matrix, rows, cols } => {
                    let (row, col) = match rows.pieces {
                        1 => (0, part),
                        n => (part % n, part / n),
                    };
                    moves::matrix(how, matrix, rows.piece(row), cols.piece(col), from, to);
                }
                Kernel::Streams { streams, cut } => {
                    let [range, repeats] =
                        piece_of(streams.count, streams.repeats, cut.piece(part));
                    moves::streams(how, streams, range, repeats, from, to);
                }
                Kernel::Zero { len, repeats, cut } => {
                    moves::zero(*len, *repeats, cut.piece(part), to)
                }
            }
        }
    }
}

/// Moves the innermost one or two of the loops around a kernel into it, unless threads would have too few units to share.
fn repeated(loops: &mut Vec<Loop>, units: usize) -> Option<Repeats> {
    let inner = loops.pop_if(|l| FEW_UNITS <= units && 1 < l.count)?;
    let outer = loops.pop().unwrap_or(Loop::ONCE);
    Some(Repeats { outer, inner })
}

/// The range of a kernel's elements and the range of its repeats for a piece; only one of both is cut.
fn piece_of(count: usize, repeats: Repeats, piece: Range<usize>) -> [Range<usize>; 2] {
    match repeats.count() {
        1 => [piece, 0..1],
        _ => [0..count, piece],
    }
}

/// Sorts loops by decreasing smaller stride; ties are sorted by the stride in the target.
///
/// Chosen by the benchmark `conversion`, cases `bert_heads` and `vit_heads_b8`.
fn sort(loops: &mut [Loop]) {
    loops.sort_by_key(|l| {
        let (from, to) = (l.from.unsigned_abs(), l.to.unsigned_abs());
        std::cmp::Reverse((from.min(to), to))
    });
}

/// Merges contiguous loops into the rows and columns until these have enough bytes.
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

/// The offsets of loops, whose innermost loop comes first.
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
        let times = |f: &mut fmt::Formatter<'_>, repeats: Repeats| {
            let counts = [repeats.outer.count, repeats.inner.count];
            let mut counts = counts.into_iter().filter(|&count| 1 < count);
            counts.try_for_each(|count| write!(f, "{count} x "))
        };
        match &self.kernel {
            Kernel::Runs { runs, .. } => {
                times(f, runs.repeats)?;
                write!(f, "{} runs of {} bytes", runs.count, runs.len)
            }
            Kernel::Matrix { matrix, .. } => {
                let (rows, cols) = (matrix.rows.count(), matrix.cols.count());
                write!(f, "matrix {rows}x{cols} of {} bytes", matrix.unit)
            }
            Kernel::Streams { streams, .. } => {
                let what = match streams.direction {
                    Direction::Interleave => "into",
                    Direction::Deinterleave => "out of",
                };
                let (k, count, unit) = (streams.offsets.len(), streams.count, streams.unit);
                times(f, streams.repeats)?;
                write!(f, "{k} streams {what} one, {count} of {unit} bytes")
            }
            Kernel::Zero { len, repeats, .. } => {
                times(f, *repeats)?;
                write!(f, "{len} zeros")
            }
        }
    }
}
