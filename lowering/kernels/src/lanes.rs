//! Softmax, norms and reductions of one row, or of rows that are adjacent in memory. Sums are computed in `f64`, in an
//! order that is the same on every machine.
//!
//! For a softmax of the row `1 2 3`, the greatest element is 3, the exponentials of `-2 -1 0` are divided by their sum, and
//! the result is `0.09 0.245 0.665`. Adjacent rows (the reduced dimension is not innermost) are computed in lanes, one row
//! in each.

use crate::element::{Element, same};
use crate::epilogue::Epilogue;
use crate::links::Part;
use crate::math::{greater, lesser, power};
use crate::product::Requantize;
use crate::softmax;
use crate::vectorized::prefetch_run;
use bytemuck::{cast_slice, cast_slice_mut, try_cast_slice_mut};

/// Adjacent rows that are computed together: a cache line.
pub const LANES: usize = 16;

/// Numbers that are summed in lanes.
pub(crate) const SUMS: usize = 8;

/// A reduction of a row to one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The mean.
    Mean,
    /// The greatest element.
    Max,
    /// The least element.
    Min,
    /// The sum of absolute values.
    L1,
    /// The root of the sum of squares.
    L2,
    /// The sum of squares.
    SumSquare,
}

/// The operation along the reduced dimensions.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Softmax.
    Softmax,
    /// Subtracts the mean if `centred`, and divides by the root of the mean of the squares.
    Norm {
        /// Added to the mean of the squares.
        epsilon: f64,
        /// True if the mean is subtracted.
        centred: bool,
    },
    /// A reduction.
    Reduce(Reduction),
}

impl Work {
    /// Returns whether the operation is softmax.
    pub fn is_softmax(self) -> bool {
        matches!(self, Work::Softmax)
    }
}

/// The operation, with the scale and the bias of each element of a row.
#[derive(Clone, Copy, Debug)]
pub struct Along<'a> {
    /// The operation.
    pub work: Work,
    /// The scale of each element of a row.
    pub scale: Option<&'a [f32]>,
    /// The bias of each element of a row.
    pub bias: Option<&'a [f32]>,
}

/// Epilogue of a row.
pub trait RowEpilogue<T> {
    /// True if there is no operation, only the conversion to elements.
    const PLAIN: bool;

    /// The epilogue as a requantization in registers, if it is one.
    fn requantize(&self) -> Option<Requantize>;

    /// Applies the operations to numbers. Results are numbers of the result's type, as bits in the same slice.
    fn make(&mut self, numbers: &mut [f32]);

    /// Converts the results to elements and stores them.
    fn write(&self, made: &[f32], to: &mut [T]);
}

/// No epilogue: numbers are rounded to elements.
#[derive(Debug)]
pub struct NoEpilogue;

impl<E: Element<Number = f32>> RowEpilogue<E> for NoEpilogue {
    const PLAIN: bool = true;

    fn requantize(&self) -> Option<Requantize> {
        None
    }

    #[inline(always)]
    fn make(&mut self, _: &mut [f32]) {}

    #[inline(always)]
    fn write(&self, made: &[f32], to: &mut [E]) {
        to.iter_mut().zip(made).for_each(|(to, &x)| *to = E::of(x));
    }
}

/// An epilogue of operations, whose results are the numbers of elements.
#[derive(Debug)]
pub struct OpsEpilogue<'a> {
    /// The operations.
    pub epilogue: &'a Epilogue,
    /// Scratch memory of the operations.
    pub parts: Vec<Part>,
}

impl<T: Element> RowEpilogue<T> for OpsEpilogue<'_> {
    const PLAIN: bool = false;

    fn requantize(&self) -> Option<Requantize> {
        self.epilogue.requantize_floats()
    }

    #[inline(always)]
    fn make(&mut self, numbers: &mut [f32]) {
        self.epilogue.each(&mut self.parts, cast_slice_mut(numbers));
    }

    #[inline(always)]
    fn write(&self, made: &[f32], to: &mut [T]) {
        let made: &[T::Number] = cast_slice(made);
        to.iter_mut().zip(made).for_each(|(to, &x)| *to = T::of(x));
    }
}

#[inline(always)]
fn sum(row: &[f32], f: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0f64; SUMS];
    let (parts, rest) = row.as_chunks::<SUMS>();
    for part in parts {
        for (sum, &x) in sums.iter_mut().zip(part) {
            *sum += f(f64::from(x));
        }
    }
    for (sum, &x) in sums.iter_mut().zip(rest) {
        *sum += f(f64::from(x));
    }
    let [a, b, c, d, e, g, h, i] = sums;
    ((a + e) + (b + g)) + ((c + h) + (d + i))
}

#[inline(always)]
fn most(row: &[f32], start: f32, f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut all = [start; LANES];
    let (parts, rest) = row.as_chunks::<LANES>();
    for part in parts {
        for (most, &x) in all.iter_mut().zip(part) {
            *most = f(*most, x);
        }
    }
    for (most, &x) in all.iter_mut().zip(rest) {
        *most = f(*most, x);
    }
    let mut n = LANES / 2;
    while 0 < n {
        let (low, high) = all.split_at_mut(n);
        for (most, &x) in low.iter_mut().zip(&*high) {
            *most = f(*most, x);
        }
        n /= 2;
    }
    all[0]
}

/// Sets numbers to the exponentials of their differences to the greatest. The last ones are computed as a full vector,
/// which takes as long as one number.
#[inline(always)]
fn exps(row: &mut [f32], most: f32) {
    let (lines, rest) = row.as_chunks_mut::<LANES>();
    for x in lines.as_flattened_mut() {
        *x = power(*x - most);
    }
    if !rest.is_empty() {
        let mut line = [most; LANES];
        line[..rest.len()].copy_from_slice(rest);
        for x in &mut line {
            *x = power(*x - most);
        }
        rest.copy_from_slice(&line[..rest.len()]);
    }
}

/// Softmax of `R` rows of `n` contiguous elements. `begins` has the index of each row in `out` and in `source`; `lines` is
/// scratch memory with room for each row in whole vectors.
///
/// # Panics
/// A row is out of bounds, or `lines` is too short.
#[inline(always)]
pub fn softmaxes<E: Element<Number = f32>, T: Element, P: RowEpilogue<T>, const R: usize>(
    source: &[E],
    out: &mut [T],
    begins: [[usize; 2]; R],
    n: usize,
    lines: &mut [f32],
    epilogue: &mut P,
) {
    if let Some(source) = same::<E, f32>(source)
        && let Some(mut to) = rows(out, epilogue)
        && softmax::softmaxes(source, &mut to, begins, n, lines)
    {
        return;
    }
    in_eights(source, out, begins, n, lines, epilogue);
}

/// The destination as elements that the AVX-512 softmax can write, if it is.
#[inline(always)]
fn rows<'a, T: Element, P: RowEpilogue<T>>(
    out: &'a mut [T],
    epilogue: &P,
) -> Option<softmax::Rows<'a>> {
    if P::PLAIN {
        return try_cast_slice_mut(out).ok().map(softmax::Rows::Floats);
    }
    let bytes = try_cast_slice_mut(out).ok().filter(|_| size_of::<T>() == 1);
    Some(softmax::Rows::Bytes(bytes?, epilogue.requantize()?))
}

/// The softmax in vectors of 8 numbers. The greatest element and the sum, whose latency is that of a whole row, are
/// computed for several rows at once.
#[inline(always)]
fn in_eights<E: Element<Number = f32>, T: Element, P: RowEpilogue<T>, const R: usize>(
    source: &[E],
    out: &mut [T],
    begins: [[usize; 2]; R],
    n: usize,
    lines: &mut [f32],
    epilogue: &mut P,
) {
    let width = n.next_multiple_of(SUMS);
    let lines = &mut lines[..R * width];
    let most = |a: f32, b: f32| if a < b { b } else { a };
    let mut greatest = [0f32; R];
    for (r, line) in lines.chunks_exact_mut(width).enumerate() {
        greatest[r] = load_padded(source, begins[r][1], n, line, most);
    }
    let mut wholes = [0f64; R];
    for (r, line) in lines.chunks_exact_mut(width).enumerate() {
        let greatest = greatest[r];
        line.iter_mut().for_each(|x| *x = power(*x - greatest));
        wholes[r] = sum(line, |x| x);
    }
    let wholes = wholes.map(|sum| (1.0 / sum) as f32);
    if !P::PLAIN {
        for (line, whole) in lines.chunks_exact_mut(width).zip(wholes) {
            line.iter_mut().for_each(|x| *x *= whole);
        }
        epilogue.make(lines);
    }
    for (r, line) in lines.chunks_exact(width).enumerate() {
        let (to, line, whole) = (&mut out[begins[r][0]..][..n], &line[..n], wholes[r]);
        // After the epilogue the bits may be those of integers.
        let part = |line: &[f32; SUMS]| match P::PLAIN {
            true => line.map(|x| x * whole),
            false => *line,
        };
        let (places, rest) = to.as_chunks_mut::<SUMS>();
        for (to, line) in places.iter_mut().zip(line.as_chunks::<SUMS>().0) {
            epilogue.write(&part(line), to);
        }
        if rest.is_empty() {
            continue;
        }
        // The last ones as a full vector that overlaps the previous one, if the row has one.
        match (to.last_chunk_mut::<SUMS>(), line.last_chunk::<SUMS>()) {
            (Some(to), Some(line)) => epilogue.write(&part(line), to),
            _ => {
                let mut full = [0.0; SUMS];
                full[..n].copy_from_slice(line);
                epilogue.write(&part(&full)[..n], to);
            }
        }
    }
}

/// Converts a row to `f32` in `line`, padded with numbers whose exponential is 0, and returns the greatest. NaN is skipped
/// there, but makes the sum of the row, and so the whole row, NaN.
#[inline(always)]
fn load_padded<E: Element<Number = f32>>(
    source: &[E],
    from: usize,
    n: usize,
    line: &mut [f32],
    most: impl Fn(f32, f32) -> f32,
) -> f32 {
    let (parts, rest) = source[from..from + n].as_chunks::<SUMS>();
    let (lines, _) = line.as_chunks_mut::<SUMS>();
    let mut mosts = [f32::NEG_INFINITY; SUMS];
    for (line, part) in lines.iter_mut().zip(parts) {
        let numbers = part.map(|x| x.read());
        for i in 0..SUMS {
            mosts[i] = most(mosts[i], numbers[i]);
        }
        *line = numbers;
    }
    if let Some(line) = lines.get_mut(parts.len()) {
        let at = from + parts.len() * SUMS;
        match source.get(at..at + SUMS) {
            // Elements beyond the row are read and discarded.
            Some(part) => {
                let numbers: [f32; SUMS] = std::array::from_fn(|i| part[i].read());
                let there = |i: usize| i < rest.len();
                *line = std::array::from_fn(|i| match there(i) {
                    true => numbers[i],
                    false => f32::NEG_INFINITY,
                });
            }
            None => {
                *line = [f32::NEG_INFINITY; SUMS];
                line.iter_mut().zip(rest).for_each(|(to, x)| *to = x.read());
            }
        }
        for i in 0..SUMS {
            mosts[i] = most(mosts[i], line[i]);
        }
    }
    let fours: [f32; SUMS / 2] = std::array::from_fn(|i| most(mosts[i], mosts[i + SUMS / 2]));
    let [a, b, c, d] = fours;
    most(most(a, c), most(b, d))
}

/// Computes a row in place; returns the result of a reduction.
#[inline(always)]
pub fn row(row: &mut [f32], with: &Along<'_>) -> f32 {
    let n = row.len() as f64;
    match with.work {
        Work::Softmax => {
            let most = most(row, f32::NEG_INFINITY, greater);
            exps(row, most);
            let whole = (1.0 / sum(row, |x| x)) as f32;
            row.iter_mut().for_each(|x| *x *= whole);
            0.0
        }
        Work::Norm { epsilon, centred } => {
            let mean = if centred { sum(row, |x| x) / n } else { 0.0 };
            let squares = sum(row, |x| (x - mean) * (x - mean));
            let factor = 1.0 / (squares / n + epsilon).sqrt();
            let normal = |x: f32| ((f64::from(x) - mean) * factor) as f32;
            match (with.scale, with.bias) {
                (Some(scale), Some(bias)) => {
                    let with = scale.iter().zip(bias);
                    let all = row.iter_mut().zip(with);
                    all.for_each(|(x, (scale, bias))| *x = normal(*x) * scale + bias);
                }
                (Some(scale), None) => {
                    let all = row.iter_mut().zip(scale);
                    all.for_each(|(x, scale)| *x = normal(*x) * scale);
                }
                _ => row.iter_mut().for_each(|x| *x = normal(*x)),
            }
            0.0
        }
        Work::Reduce(kind) => reduced(row, kind),
    }
}

/// The result of reducing a row.
#[inline(always)]
pub fn reduced(row: &[f32], kind: Reduction) -> f32 {
    match kind {
        Reduction::Max => most(row, f32::NEG_INFINITY, greater),
        Reduction::Min => most(row, f32::INFINITY, lesser),
        Reduction::Mean => (sum(row, |x| x) / row.len() as f64) as f32,
        Reduction::L1 => sum(row, f64::abs) as f32,
        Reduction::L2 => sum(row, |x| x * x).sqrt() as f32,
        Reduction::SumSquare => sum(row, |x| x * x) as f32,
        Reduction::Sum => sum(row, |x| x) as f32,
    }
}

/// Adjacent rows: offsets of the first row, the number of rows, and the offsets of each element relative to a row's first
/// one, in the operand and in the result.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// Offset of the first row in the source.
    pub from: i64,
    /// Offset of the first row in the result.
    pub to: i64,
    /// The number of rows.
    pub rows: usize,
    /// Offsets of the elements of a row in the source.
    pub reads: &'a [i64],
    /// Offsets of the elements of a row in the result.
    pub writes: &'a [i64],
}

impl Places<'_> {
    /// One element of each row; prefetches a later element.
    #[inline(always)]
    fn line<'a, E>(&self, source: &'a [E], element: usize) -> &'a [E] {
        if let Some(later) = self.reads.get(element + AHEAD) {
            self.prefetch_rows(source, self.from + later);
        }
        let at = (self.from + self.reads[element]) as usize;
        &source[at..at + self.rows]
    }

    /// Destination of one element of each row.
    #[inline(always)]
    fn place<'a, E>(&self, out: &'a mut [E], element: usize) -> &'a mut [E] {
        if let Some(later) = self.writes.get(element + AHEAD) {
            self.prefetch_rows(out, self.to + later);
        }
        let at = (self.to + self.writes[element]) as usize;
        &mut out[at..at + self.rows]
    }

    #[inline(always)]
    fn prefetch_rows<E>(&self, list: &[E], first: i64) {
        prefetch_run(list, first as usize, self.rows);
    }
}

/// Prefetch distance in elements: a hardware prefetcher does not detect the stride.
const AHEAD: usize = 12;

/// Numbers of rows that fit in the L2 cache.
const ROOM: usize = 192 << 10;
/// Most rows that are computed at once.
const MOST: usize = 1024;
/// Most rows at once if consecutive elements of a row are more than a page apart.
const FAR: usize = 128;
/// Elements of a page.
const PAGE: u64 = 1024;

/// Intermediate values of some adjacent rows.
#[derive(Debug, Default)]
pub struct Adjacent {
    mosts: Vec<f32>,
    sums: Vec<f64>,
    squares: Vec<f64>,
    /// Exponentials, which are divided before they are rounded to elements.
    exps: Vec<f32>,
}

impl Adjacent {
    /// The number of adjacent rows that are computed at once, given the offsets of elements: many cache lines if a hardware
    /// prefetcher detects the stride, as consecutive elements are near one another, and few if not.
    pub fn rows(reads: &[i64], all: usize) -> usize {
        let near = reads
            .windows(2)
            .take(8)
            .all(|w| w[0].abs_diff(w[1]) <= PAGE);
        let most = match near {
            true => (ROOM / reads.len().max(1)).clamp(FAR, MOST),
            false => FAR,
        };
        let parts = all.div_ceil(LANES);
        (parts.div_ceil(parts.div_ceil(most / LANES)) * LANES).min(all)
    }

    /// Bytes of scratch memory for `all` rows with these offsets.
    pub fn bytes(reads: &[i64], all: usize) -> usize {
        let own = (reads.len() + 1) * size_of::<f32>() + 2 * size_of::<f64>();
        Adjacent::rows(reads, all) * own
    }

    /// Resets the values for `rows` rows, with this initial maximum or minimum.
    fn reset(&mut self, rows: usize, most: f32) {
        for sums in [&mut self.sums, &mut self.squares] {
            sums.clear();
            sums.resize(rows, 0.0);
        }
        self.mosts.clear();
        self.mosts.resize(rows, most);
    }
}

/// Computes adjacent rows in place, element by element, in the order in which [`rows_in_lanes`] sums.
#[inline(always)]
pub fn adjacent_rows<E: Element<Number = f32>, T: Element, P: RowEpilogue<T>>(
    source: &[E],
    out: &mut [T],
    at: &Places<'_>,
    adjacent: &mut Adjacent,
    with: &Along<'_>,
    epilogue: &mut P,
) {
    let start = match with.work {
        Work::Reduce(Reduction::Min) => f32::INFINITY,
        _ => f32::NEG_INFINITY,
    };
    adjacent.reset(at.rows, start);
    let rows = AdjacentRows {
        source,
        out,
        at,
        epilogue,
    };
    match with.work {
        Work::Softmax => rows.softmax(adjacent),
        Work::Norm { epsilon, centred } => rows.norm(adjacent, with, (epsilon, centred)),
        Work::Reduce(kind) => rows.reduce(adjacent, kind),
    }
}

/// Adjacent rows in the operand, and their results.
struct AdjacentRows<'a, E, T, P> {
    source: &'a [E],
    out: &'a mut [T],
    at: &'a Places<'a>,
    epilogue: &'a mut P,
}

impl<E: Element<Number = f32>, T: Element, P: RowEpilogue<T>> AdjacentRows<'_, E, T, P> {
    #[inline(always)]
    fn softmax(self, values: &mut Adjacent) {
        let (elements, at) = (self.at.reads.len(), self.at);
        let Adjacent {
            mosts, sums, exps, ..
        } = values;
        self.fold(mosts, greater);
        let wholes = |sums: &[f64], to: &mut [f32]| {
            let all = to.iter_mut().zip(sums);
            all.for_each(|(whole, sum)| *whole = (1.0 / sum) as f32);
        };
        if P::PLAIN && same::<E, f32>(&self.source[..0]).is_some() {
            for j in 0..elements {
                let (line, to) = (at.line(self.source, j), at.place(self.out, j));
                if let (Some(line), Ok(to)) = (same::<E, f32>(line), try_cast_slice_mut(to)) {
                    raised(line, to, mosts, sums);
                }
            }
            wholes(sums, mosts);
            for j in 0..elements {
                if let Ok(to) = try_cast_slice_mut::<T, f32>(at.place(self.out, j)) {
                    to.iter_mut()
                        .zip(&*mosts)
                        .for_each(|(to, whole)| *to *= whole);
                }
            }
            return;
        }
        // Exponentials are not rounded before they are divided.
        exps.resize(elements * at.rows, 0.0);
        for (j, to) in exps.chunks_exact_mut(at.rows).enumerate() {
            raised(at.line(self.source, j), to, mosts, sums);
        }
        wholes(sums, mosts);
        for (j, line) in exps.chunks_exact_mut(at.rows).enumerate() {
            let all = line.iter_mut().zip(&*mosts);
            all.for_each(|(x, whole)| *x *= whole);
            self.epilogue.make(line);
            self.epilogue.write(line, at.place(self.out, j));
        }
    }

    #[inline(always)]
    fn norm(self, values: &mut Adjacent, with: &Along<'_>, (epsilon, centred): (f64, bool)) {
        let (elements, n) = (self.at.reads.len(), self.at.reads.len() as f64);
        let Adjacent {
            mosts,
            sums,
            squares,
            ..
        } = values;
        if centred {
            self.fold(sums, |sum, x| sum + f64::from(x));
        }
        sums.iter_mut().for_each(|mean| *mean /= n);
        for j in 0..elements {
            let found = sums.iter().zip(self.at.line(self.source, j));
            for (square, (mean, x)) in squares.iter_mut().zip(found) {
                let off = f64::from(x.read()) - mean;
                *square += off * off;
            }
        }
        let all = squares.iter_mut();
        all.for_each(|factor| *factor = 1.0 / (*factor / n + epsilon).sqrt());
        let of = |list: Option<&[f32]>, j: usize, other: f32| list.map_or(other, |l| l[j]);
        for j in 0..elements {
            let (scale, bias) = (of(with.scale, j, 1.0), of(with.bias, j, 0.0));
            let found = self.at.line(self.source, j).iter();
            let found = found.zip(sums.iter().zip(&*squares));
            for (to, (x, (mean, factor))) in mosts.iter_mut().zip(found) {
                let normal = ((f64::from(x.read()) - mean) * factor) as f32;
                *to = normal * scale + bias;
            }
            self.epilogue.make(mosts);
            self.epilogue.write(mosts, self.at.place(self.out, j));
        }
    }

    #[inline(always)]
    fn reduce(self, values: &mut Adjacent, kind: Reduction) {
        let Adjacent { mosts, sums, .. } = values;
        match kind {
            Reduction::Max => self.fold(mosts, greater),
            Reduction::Min => self.fold(mosts, lesser),
            Reduction::L1 => self.fold(sums, |sum, x| sum + f64::from(x).abs()),
            Reduction::L2 | Reduction::SumSquare => {
                self.fold(sums, |sum, x| sum + f64::from(x) * f64::from(x));
            }
            _ => self.fold(sums, |sum, x| sum + f64::from(x)),
        }
        let n = self.at.reads.len() as f64;
        for (most, sum) in mosts.iter_mut().zip(&*sums) {
            *most = match kind {
                Reduction::Max | Reduction::Min => *most,
                Reduction::Mean => (sum / n) as f32,
                Reduction::L2 => sum.sqrt() as f32,
                _ => *sum as f32,
            };
        }
        self.epilogue.make(mosts);
        self.epilogue.write(mosts, self.at.place(self.out, 0));
    }

    /// Folds each row into one value.
    #[inline(always)]
    fn fold<N: Copy>(&self, values: &mut [N], f: impl Fn(N, f32) -> N) {
        for j in 0..self.at.reads.len() {
            let all = values.iter_mut().zip(self.at.line(self.source, j));
            all.for_each(|(value, x)| *value = f(*value, x.read()));
        }
    }
}

/// Exponentials of one element of each row minus the row's greatest, added to the sums.
#[inline(always)]
fn raised<E: Element<Number = f32>>(line: &[E], to: &mut [f32], mosts: &[f32], sums: &mut [f64]) {
    let all = to.iter_mut().zip(line.iter().zip(mosts));
    all.for_each(|(to, (x, most))| *to = power(x.read() - most));
    let all = sums.iter_mut().zip(&*to);
    all.for_each(|(sum, &x)| *sum += f64::from(x));
}

#[inline(always)]
fn sums(tile: &[[f32; LANES]], f: impl Fn(usize, f64) -> f64) -> [f64; LANES] {
    let mut sums = [0f64; LANES];
    for lanes in tile {
        for (i, (sum, &x)) in sums.iter_mut().zip(lanes).enumerate() {
            *sum += f(i, f64::from(x));
        }
    }
    sums
}

#[inline(always)]
fn mosts(tile: &[[f32; LANES]], start: f32, f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    let mut all = [start; LANES];
    for lanes in tile {
        for (most, &x) in all.iter_mut().zip(lanes) {
            *most = f(*most, x);
        }
    }
    all
}

/// Computes rows that are in the lanes of a tile; returns the results of a reduction.
#[inline(always)]
pub fn rows_in_lanes(tile: &mut [[f32; LANES]], with: &Along<'_>) -> [f32; LANES] {
    let n = tile.len() as f64;
    match with.work {
        Work::Softmax => {
            let most = mosts(tile, f32::NEG_INFINITY, greater);
            for lanes in tile.iter_mut() {
                for (x, most) in lanes.iter_mut().zip(most) {
                    *x = power(*x - most);
                }
            }
            let whole = sums(tile, |_, x| x).map(|sum| (1.0 / sum) as f32);
            for lanes in tile.iter_mut() {
                for (x, whole) in lanes.iter_mut().zip(whole) {
                    *x *= whole;
                }
            }
            [0.0; LANES]
        }
        Work::Norm { epsilon, centred } => {
            let mean = match centred {
                true => sums(tile, |_, x| x).map(|sum| sum / n),
                false => [0.0; LANES],
            };
            let squares = sums(tile, |i, x| (x - mean[i]) * (x - mean[i]));
            let factor = squares.map(|sum| 1.0 / (sum / n + epsilon).sqrt());
            let at = |list: Option<&[f32]>, j: usize, other: f32| list.map_or(other, |l| l[j]);
            for (j, lanes) in tile.iter_mut().enumerate() {
                let (scale, bias) = (at(with.scale, j, 1.0), at(with.bias, j, 0.0));
                for i in 0..LANES {
                    let normal = ((f64::from(lanes[i]) - mean[i]) * factor[i]) as f32;
                    lanes[i] = normal * scale + bias;
                }
            }
            [0.0; LANES]
        }
        Work::Reduce(kind) => match kind {
            Reduction::Max => mosts(tile, f32::NEG_INFINITY, greater),
            Reduction::Min => mosts(tile, f32::INFINITY, lesser),
            Reduction::Mean => sums(tile, |_, x| x).map(|sum| (sum / n) as f32),
            Reduction::L1 => sums(tile, |_, x| x.abs()).map(|sum| sum as f32),
            Reduction::L2 => sums(tile, |_, x| x * x).map(|sum| sum.sqrt() as f32),
            Reduction::SumSquare => sums(tile, |_, x| x * x).map(|sum| sum as f32),
            _ => sums(tile, |_, x| x).map(|sum| sum as f32),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Kind;
    use crate::links::{ChainOp, Code, From};

    /// Four rows of a length: small numbers, large numbers, a row with an infinity, and zeros.
    fn rows(n: usize) -> Vec<f32> {
        let mut bits = 1u32;
        let mut next = || {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (bits >> 8) as f32 / (1 << 24) as f32
        };
        let mut all: Vec<f32> = (0..4 * n).map(|_| next() * 12.0 - 6.0).collect();
        all[n..2 * n].iter_mut().for_each(|x| *x *= 40.0);
        all[2 * n] = f32::NEG_INFINITY;
        all[3 * n..][..n].fill(-0.0);
        all
    }

    /// Checks that all kernels give the same bits as loops over 8 numbers.
    fn check<T: Element, P: RowEpilogue<T>>(
        source: &[f32],
        n: usize,
        mut epilogue: impl FnMut() -> P,
    ) {
        let begins: [[usize; 2]; 4] = std::array::from_fn(|r| [(3 - r) * (n + 3), r * n]);
        let mut lines = vec![0f32; 4 * n.next_multiple_of(softmax::WIDE)];
        let mut made = [(); 3].map(|()| vec![T::zeroed(); 4 * n + 9]);
        let [wide, alone, eights] = &mut made;
        softmaxes(source, wide, begins, n, &mut lines, &mut epilogue());
        in_eights(source, eights, begins, n, &mut lines, &mut epilogue());
        for begin in begins {
            softmaxes(source, alone, [begin], n, &mut lines, &mut epilogue());
        }
        let bits = |list: &[T]| -> Vec<u8> { cast_slice(list).to_vec() };
        let none = |list: &[T]| -> Vec<bool> {
            match bytemuck::try_cast_slice::<T, f32>(list) {
                Ok(floats) if size_of::<T>() == 4 => floats.iter().map(|x| x.is_nan()).collect(),
                _ => vec![false; list.len()],
            }
        };
        for found in [&*wide, &*alone] {
            assert_eq!(none(found), none(eights), "{n}");
            let kept = found.iter().zip(&*eights).zip(none(eights));
            for ((a, b), none) in kept {
                assert!(none || bits(&[*a]) == bits(&[*b]), "{n}: {a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn all_vectors_give_the_same_softmax() {
        let link = |code, kind, from| ChainOp { code, kind, from };
        let operand = From::Operand;
        let rounds = |divisor: f32, plus: Option<u32>, relu: bool| {
            let mut links = Vec::new();
            let last = |links: &[ChainOp]| match links.len() {
                0 => operand(0),
                n => From::Code(n - 1),
            };
            if relu {
                links.push(link(Code::Relu, Kind::F32, [operand(0); 2]));
            }
            links.push(link(Code::Div, Kind::F32, [last(&links), operand(1)]));
            let mut numbers = vec![(Kind::F32, divisor.to_bits())];
            let kind = if plus.is_some() { Kind::U8 } else { Kind::I8 };
            links.push(match plus {
                None => link(Code::Round, kind, [last(&links); 2]),
                Some(plus) => {
                    numbers.push((kind, plus));
                    link(Code::RoundPlus, kind, [last(&links), operand(2)])
                }
            });
            Epilogue::of(Kind::F32, links, numbers).expect("they are few")
        };
        for n in (1..70).chain([127, 128, 197, 300]) {
            let mut source = rows(n);
            for special in [
                None,
                Some(f32::NAN),
                Some(f32::INFINITY),
                Some(f32::NEG_INFINITY),
            ] {
                if let Some(special) = special {
                    source[n / 2] = special;
                    source[n..2 * n].fill(special);
                }
                check::<f32, NoEpilogue>(&source, n, || NoEpilogue);
                for (divisor, plus, relu) in [
                    (1.0 / 128.0, None, false),
                    (1.0 / 127.0, None, true),
                    (1.0 / 255.0, Some(3), false),
                    (1e-6, Some(0), true),
                    (f32::INFINITY, None, false),
                    (-1.0 / 64.0, Some(200), false),
                ] {
                    let epilogue = rounds(divisor, plus, relu);
                    let made = || OpsEpilogue {
                        epilogue: &epilogue,
                        parts: epilogue.parts(),
                    };
                    match plus {
                        None => check::<i8, _>(&source, n, made),
                        Some(_) => check::<u8, _>(&source, n, made),
                    }
                }
            }
        }
    }

    #[test]
    fn rows_outside_of_their_buffers_are_refused() {
        let (source, mut lines) = (vec![0f32; 40], vec![0f32; 64]);
        let run = |begin: [usize; 2], n: usize, lines: usize, room: &mut [f32]| {
            let work = std::panic::AssertUnwindSafe(|| {
                let mut to = vec![0f32; 40];
                let mut to = softmax::Rows::Floats(&mut to);
                softmax::softmaxes(&source, &mut to, [begin], n, &mut room[..lines])
            });
            std::panic::catch_unwind(work).is_ok()
        };
        assert!(run([0, 0], 40, 48, &mut lines));
        assert!(run([7, 3], 33, 48, &mut lines));
        for (begin, n, room) in [
            ([0, 1], 40, 48),
            ([1, 0], 40, 48),
            ([0, 0], 41, 48),
            ([usize::MAX, 0], 2, 16),
            ([0, 0], 40, 47),
            ([0, 0], usize::MAX, 64),
        ] {
            assert!(!run(begin, n, room, &mut lines), "{begin:?} {n} {room}");
        }
    }
}
