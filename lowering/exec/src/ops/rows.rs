//! Softmax, norms and reductions along some dimensions, for values in any layout.
//!
//! A row whose elements are contiguous is computed by itself. Adjacent rows are computed together, a cache line of them at
//! a time, one row in each lane, so that a strided row costs no more than a contiguous one.
//!
//! A softmax along dimension 1 of a row-major `[4, 100]` has 4 contiguous rows; along dimension 0 it has 100 adjacent rows
//! of 4 elements.

use crate::access::Access;
use crate::error::StepError;
use crate::memory::{In, Slot};
use crate::ops::kernel::{Call, Kernel, Site, numbers, same_float};
use half::{bf16, f16};
use optc_ir::{Operation, Value};
use optc_kernels::element::{Element, Kind, elements, elements_mut, same};
use optc_kernels::epilogue::Epilogue;
use optc_kernels::error::KernelError;
use optc_kernels::gemm::{Scratch, within};
use optc_kernels::lanes::{
    self, Adjacent, Along, LANES, NoEpilogue, OpsEpilogue, Places, Reduction, RowEpilogue, Work,
};
use optc_kernels::softmax;
use optc_kernels::team::{self, Team};
use optc_kernels::vectorized::{CACHE_LINE, vectorized};
use optc_ops::{LayerNorm, Reduce, ReduceKind, RmsNorm, Softmax};
use std::ops::Range;

/// Rows that are computed together.
#[derive(Clone, Copy, Debug)]
enum Group {
    /// A number of rows that are adjacent both in the operand and in the result.
    Run(usize),
    /// [`LANES`] rows that are adjacent in the operand.
    Neighbours,
    /// [`LANES`] short rows.
    Short,
    One,
}

/// Ranges of a list in which offsets are consecutive.
fn runs(list: &[i64]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (i, at) in list.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if list[run.start] + run.len() as i64 == *at => run.end = i + 1,
            _ => runs.push(i..i + 1),
        }
    }
    runs
}

/// Rows of elements that are reduced, normalized or turned into a softmax.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    work: Work,
    kind: Kind,
    /// The type of the result's elements.
    target: Kind,
    /// Epilogue.
    epilogue: Option<Epilogue>,
    /// Offset of each row, in the result and in the operand.
    begins: Vec<[i64; 2]>,
    /// Offsets of a row's elements, in the operand and in the result; a reduction has a single result.
    reads: Vec<i64>,
    writes: Vec<i64>,
    /// Ranges of a row's elements that are contiguous in the operand.
    runs: Vec<Range<usize>>,
    /// For a norm, the offsets of scale and bias along a row.
    scale: Option<Vec<i64>>,
    bias: Option<Vec<i64>>,
    reach: [(i64, i64); 2],
}

impl Rows {
    pub(crate) fn of(site: &Site<'_>) -> Option<Rows> {
        let data = site.data();
        let all = site.all()?;
        if data.results.len() != 1 || !same_float(&all) {
            return None;
        }
        let of = site.func.op_ref(site.op);
        let source = &*all[0].access;
        let rank = source.shape().len();
        let (work, axes) = match &*data.name {
            Softmax::NAME => (Work::Softmax, vec![Softmax::of(&of).ok()?.along(&of).ok()?]),
            LayerNorm::NAME => {
                let norm = LayerNorm::of(&of).ok()?;
                let work = Work::Norm {
                    epsilon: norm.epsilon,
                    centred: true,
                };
                (work, (norm.first_axis(&of).ok()?..rank).collect())
            }
            RmsNorm::NAME => {
                let norm = RmsNorm::of(&of).ok()?;
                let work = Work::Norm {
                    epsilon: norm.epsilon,
                    centred: false,
                };
                (work, (norm.first_axis(&of).ok()?..rank).collect())
            }
            Reduce::NAME => {
                let reduce = Reduce::of(&of).ok()?;
                let reduction = match reduce.kind {
                    ReduceKind::Sum => Reduction::Sum,
                    ReduceKind::Mean => Reduction::Mean,
                    ReduceKind::Max => Reduction::Max,
                    ReduceKind::Min => Reduction::Min,
                    ReduceKind::L1 => Reduction::L1,
                    ReduceKind::L2 => Reduction::L2,
                    ReduceKind::SumSquare => Reduction::SumSquare,
                    _ => return None,
                };
                (Work::Reduce(reduction), reduce.reduced(&of).ok()?)
            }
            _ => return None,
        };
        let target = &*all[all.len() - 1].access;
        let mut rows = Rows::along(work, all[0].kind()?, source, target, &axes)?;
        let along = |i: usize| -> Option<Vec<i64>> {
            // Scale and bias may have further dimensions only if they do not vary along them.
            let Access::Sum { base, tables } = all[i].access.broadcast(&source.shape()) else {
                return None;
            };
            let kept = tables.iter().enumerate().filter(|(d, _)| !axes.contains(d));
            if kept
                .into_iter()
                .any(|(_, table)| table.iter().any(|&at| at != 0))
            {
                return None;
            }
            let access = Access::Sum {
                base,
                tables: axes.iter().map(|&d| tables[d].clone()).collect(),
            };
            let offsets = access.offsets();
            (offsets.len() == rows.reads.len()).then_some(offsets)
        };
        let norm = matches!(rows.work, Work::Norm { .. });
        let scale = match norm && 1 < data.operands.len() {
            true => Some(along(1)?),
            false => None,
        };
        let bias = match norm && 2 < data.operands.len() {
            true => Some(along(2)?),
            false => None,
        };
        (rows.scale, rows.bias) = (scale, bias);
        Some(rows)
    }

    /// The rows along dimensions `axes` of an operand. The result of a reduction has these dimensions with extent 1, or not
    /// at all.
    pub(crate) fn along(
        work: Work,
        kind: Kind,
        source: &Access,
        target: &Access,
        axes: &[usize],
    ) -> Option<Rows> {
        let shape = source.shape();
        let kept: Vec<usize> = (0..shape.len()).filter(|d| !axes.contains(d)).collect();
        let Access::Sum { base, tables } = source else {
            return None;
        };
        let sum = |base: i64, tables: Vec<Vec<i64>>| Access::Sum { base, tables }.offsets();
        let pick = |tables: &[Vec<i64>], dims: &[usize]| -> Vec<Vec<i64>> {
            dims.iter().map(|&d| tables[d].clone()).collect()
        };
        let reads = sum(0, pick(tables, axes));
        let from = sum(*base, pick(tables, &kept));
        let (to, writes) = match work {
            Work::Reduce(_) => {
                let shape: Vec<usize> = kept.iter().map(|&d| shape[d]).collect();
                (target.reshaped(&shape).offsets(), vec![0])
            }
            Work::Softmax | Work::Norm { .. } => {
                let Access::Sum { base, tables } = target else {
                    return None;
                };
                (sum(*base, pick(tables, &kept)), sum(0, pick(tables, axes)))
            }
        };
        if to.len() != from.len() || reads.is_empty() {
            return None;
        }
        let span = |begins: &[i64], along: &[i64]| {
            let low = begins.iter().min().copied().unwrap_or(0)
                + along.iter().min().copied().unwrap_or(0);
            let high = begins.iter().max().copied().unwrap_or(-1)
                + along.iter().max().copied().unwrap_or(0);
            (low, high)
        };
        let reach = [span(&to, &writes), span(&from, &reads)];
        let mut begins: Vec<[i64; 2]> = to.into_iter().zip(from).map(|(a, b)| [a, b]).collect();
        let runs = runs(&reads);
        if runs.len() != 1 {
            // Adjacent rows are computed together, so they are sorted by offset.
            begins.sort_by_key(|&[_, from]| from);
        } else if SHORT < reads.len() {
            // Rows that are computed one by one follow their order in memory, if the result has the same order.
            let mut sorted = begins.clone();
            sorted.sort_by_key(|&[_, from]| from);
            if sorted.is_sorted_by_key(|&[to, _]| to) {
                begins = sorted;
            }
        }
        Some(Rows {
            work,
            kind,
            target: kind,
            epilogue: None,
            begins,
            runs,
            reads,
            writes,
            scale: None,
            bias: None,
            reach,
        })
    }
}

impl Kernel for Rows {
    fn name(&self) -> &'static str {
        "rows"
    }

    fn order(&self) -> Vec<u32> {
        let mut firsts = self.firsts();
        firsts.pop();
        let adjacent = |first: &usize| u32::from(!matches!(self.group(*first), Group::One));
        let all: Vec<u32> = firsts.iter().map(adjacent).collect();
        match all.windows(2).all(|w| w[0] == w[1]) {
            true => all.into_iter().take(1).collect(),
            // The rows that are summed in lanes depend on the number of rows.
            false => firsts
                .iter()
                .zip(all)
                .flat_map(|(&first, b)| [first as u32, b])
                .collect(),
        }
    }

    fn scratch(&self) -> Scratch {
        // A row, a tile of a cache line of rows, offsets in the result, and the adjacent rows that are computed at once.
        let [row, tile, lines] = self.room();
        let numbers = row + tile * LANES + lines + self.writes.len() * 2;
        let adjacent = match self.together() {
            true => 0,
            false => Adjacent::bytes(&self.reads, self.begins.len()),
        };
        let parts = self.epilogue.as_ref().map_or(0, Epilogue::scratch);
        [0, 0, 0, numbers * size_of::<f32>() + adjacent + parts]
    }

    fn with_epilogue(
        &self,
        _: &Site<'_>,
        _: &[Value],
        result: &Slot,
        epilogue: Epilogue,
    ) -> Option<Box<dyn Kernel>> {
        // Results are stored where the floats would have been.
        let target = result.kind()?;
        let fits = self.kind == Kind::F32 && matches!(target, Kind::I8 | Kind::U8);
        let rows = Rows {
            target,
            epilogue: Some(epilogue),
            ..self.clone()
        };
        fits.then(|| -> Box<dyn Kernel> { Box::new(rows) })
    }

    fn run(&self, Call { ins, out, cx, .. }: Call<'_>) -> Result<(), StepError> {
        let Some(In::Bytes(source)) = ins.first() else {
            return Err(StepError::OperandWrittenOver);
        };
        let more = |i: usize| match ins.get(i) {
            Some(In::Bytes(bytes)) => numbers(self.kind, bytes).map(Some),
            Some(In::Inplace) | None => Ok(None),
            Some(In::Aliased) => Err(StepError::OperandAmongResult),
        };
        let (scale, bias) = (more(1)?, more(2)?);
        let lengths = [
            out.len() / self.target.size(),
            source.len() / self.kind.size(),
        ];
        within(self.reach, lengths)?;
        let along = |table: &Option<Vec<i64>>, values: Option<Vec<f32>>| -> Result<_, StepError> {
            let (Some(table), Some(values)) = (table, values) else {
                return Ok(None);
            };
            let at = |&offset: &i64| values.get(usize::try_from(offset).ok()?).copied();
            let found: Option<Vec<f32>> = table.iter().map(at).collect();
            found.map(Some).ok_or(KernelError::OutOfBounds.into())
        };
        let (scale, bias) = (along(&self.scale, scale)?, along(&self.bias, bias)?);
        let with = Along {
            work: self.work,
            scale: scale.as_deref(),
            bias: bias.as_deref(),
        };
        let team = cx.team;
        if let Some(epilogue) = &self.epilogue {
            let made = || OpsEpilogue {
                epilogue,
                parts: epilogue.parts(),
            };
            return match self.target {
                Kind::I8 => self.typed::<f32, i8, _>(out, source, &with, team, made),
                _ => self.typed::<f32, u8, _>(out, source, &with, team, made),
            };
        }
        match self.kind {
            Kind::BF16 => self.typed::<bf16, bf16, _>(out, source, &with, team, || NoEpilogue),
            Kind::F16 => self.typed::<f16, f16, _>(out, source, &with, team, || NoEpilogue),
            _ => self.typed::<f32, f32, _>(out, source, &with, team, || NoEpilogue),
        }
    }
}

/// Longest rows of which several are gathered into lanes: alone they fill no vectors.
const SHORT: usize = 24;
/// Longest rows of which several are converted for softmax at once, unless vectors have 64 bytes: the work that is done
/// once a row is a notable part of the whole.
const SOME: usize = 256;
/// Least average length of contiguous runs that are copied run by run.
const FEW: usize = 4;
/// Rows of a softmax that are computed at once.
const AT_ONCE: usize = 4;

/// Converts elements to numbers.
#[inline(always)]
fn widened<E: Element>(from: &[E], to: &mut [E::Number]) {
    to.iter_mut().zip(from).for_each(|(to, x)| *to = x.read());
}

impl Rows {
    fn typed<E: Element<Number = f32>, T: Element, P: RowEpilogue<T>>(
        &self,
        out: &mut [u8],
        source: &[u8],
        with: &Along<'_>,
        team: &Team,
        epilogue: impl Fn() -> P + Sync,
    ) -> Result<(), StepError> {
        let (out, source) = (elements_mut::<T>(out)?, elements::<E>(source)?);
        let work = |rows: Range<usize>, writes: &[i64], out: &mut [T]| {
            let mut epilogue = epilogue();
            vectorized(
                #[inline(always)]
                || RowsRun::of(self, out, writes, source, with, &mut epilogue).rows(rows),
            );
        };
        let count = (self.begins.len() as u64).saturating_mul(self.reads.len() as u64);
        let firsts = match team.worth(count, team::OF_ROWS) {
            1 => Vec::new(),
            _ => self.firsts(),
        };
        let (low, high) = self.writes_reach();
        let spans = firsts.windows(2).map(|w| {
            let begins = self.begins[w[0]..w[1]].iter().map(|b| b[0]);
            let ends = (begins.clone().min(), begins.max());
            (ends.0.unwrap_or(0) + low, ends.1.unwrap_or(0) + high)
        });
        let spans: Vec<(i64, i64)> = spans.collect();
        let shares = team::shares(&spans, team.worth(count, team::OF_ROWS));
        if shares.is_empty() {
            work(0..self.begins.len(), &self.writes, out);
            return Ok(());
        }
        team.share(out, &shares, |share, out| {
            let from = share.places.start as i64;
            let writes: Vec<i64> = self.writes.iter().map(|write| write - from).collect();
            work(
                firsts[share.units.start]..firsts[share.units.end],
                &writes,
                out,
            );
            Ok(())
        })
    }

    /// Elements of scratch memory for a row that is converted, elements of each row of a tile of lanes, and numbers of the
    /// lines of a softmax.
    fn room(&self) -> [usize; 3] {
        let n = self.reads.len();
        let lines_alone = self.together() && runs(&self.writes).len() == 1;
        let read = self.reads_in_place() || self.work.is_softmax() && lines_alone;
        let tile = !self.together() || n <= SHORT;
        let lines = LANES + AT_ONCE * n.next_multiple_of(softmax::WIDE);
        [
            if read { 0 } else { n },
            if tile { n } else { 0 },
            if self.work.is_softmax() { lines } else { 0 },
        ]
    }

    /// Returns whether rows are reduced in place, without a copy.
    fn reads_in_place(&self) -> bool {
        self.together() && self.kind == Kind::F32 && matches!(self.work, Work::Reduce(_))
    }

    /// Returns whether the elements of a row are contiguous in the operand.
    fn together(&self) -> bool {
        self.runs.len() == 1
    }

    /// The least and the greatest offset along a row of the result.
    fn writes_reach(&self) -> (i64, i64) {
        let (low, high) = (self.writes.iter().min(), self.writes.iter().max());
        (low.copied().unwrap_or(0), high.copied().unwrap_or(0))
    }

    /// The first row of each group that is computed together, and the number of rows.
    fn firsts(&self) -> Vec<usize> {
        let (mut firsts, mut first) = (Vec::new(), 0);
        while first < self.begins.len() {
            firsts.push(first);
            first += match self.group(first) {
                Group::Run(run) => run,
                Group::Neighbours | Group::Short => LANES,
                Group::One => 1,
            };
        }
        firsts.push(first);
        firsts
    }

    /// The group of rows from this one on, which depends on offsets only.
    #[inline(always)]
    fn group(&self, first: usize) -> Group {
        let (together, n) = (self.together(), self.reads.len());
        let run = if together { 0 } else { self.run(first) };
        if LANES <= run {
            return Group::Run(run);
        }
        let from = self.begins[first][1];
        let block = self.begins.get(first..first + LANES);
        let follows = |(i, b): (usize, &[i64; 2])| b[1] == from + i as i64;
        match block {
            Some(block) if !together && block.iter().enumerate().all(follows) => Group::Neighbours,
            Some(_) if n <= SHORT => Group::Short,
            _ => Group::One,
        }
    }

    /// Number of rows from this one on that are adjacent in the operand and in the result.
    fn run(&self, first: usize) -> usize {
        let rows = &self.begins[first..];
        let follows = |w: &&[[i64; 2]]| w[0].map(|at| at + 1) == w[1];
        1 + rows.windows(2).take_while(follows).count()
    }
}

/// The computation of some rows, with its scratch memory.
struct RowsRun<'a, E, T, P> {
    of: &'a Rows,
    source: &'a [E],
    /// The operand, if rows are reduced in place.
    in_place: Option<&'a [f32]>,
    out: &'a mut [T],
    /// Offsets of a row's elements in `out`, and the ranges of them that are contiguous.
    writes: &'a [i64],
    write_runs: Vec<Range<usize>>,
    with: &'a Along<'a>,
    epilogue: &'a mut P,
    row: Vec<f32>,
    tile: Vec<[f32; LANES]>,
    /// Lines of a softmax, and the first element that is aligned to cache lines.
    lines: Vec<f32>,
    first_line: usize,
    adjacent: Adjacent,
}

impl<'a, E: Element<Number = f32>, T: Element, P: RowEpilogue<T>> RowsRun<'a, E, T, P> {
    #[inline(always)]
    fn of(
        of: &'a Rows,
        out: &'a mut [T],
        writes: &'a [i64],
        source: &'a [E],
        with: &'a Along<'a>,
        epilogue: &'a mut P,
    ) -> RowsRun<'a, E, T, P> {
        let [row, tile, lines] = of.room();
        let lines = vec![0f32; lines];
        let first_line = lines.as_ptr().align_offset(CACHE_LINE);
        RowsRun {
            of,
            source,
            in_place: same::<_, f32>(source).filter(|_| of.reads_in_place()),
            out,
            write_runs: runs(writes),
            writes,
            with,
            epilogue,
            row: vec![0f32; row],
            tile: vec![[0f32; LANES]; tile],
            first_line: first_line.min(LANES).min(lines.len()),
            lines,
            adjacent: Adjacent::default(),
        }
    }

    /// Computes rows, group by group.
    #[inline(always)]
    fn rows(mut self, rows: Range<usize>) {
        let written = self.write_runs.len() == 1;
        let softmax = self.of.together() && written && self.of.work.is_softmax();
        let some = if softmax::is_wide() { usize::MAX } else { SOME };
        let four = self.of.reads.len() <= some;
        let mut first = rows.start;
        while first < rows.end {
            first += match self.of.group(first) {
                Group::Run(run) => self.run(first, run),
                Group::Neighbours => self.neighbours(first),
                Group::Short => self.short(first),
                // Rows after one that is computed by itself are so too.
                Group::One if softmax && four && AT_ONCE <= rows.end - first => {
                    self.softmaxes::<AT_ONCE>(first)
                }
                Group::One if softmax => self.softmaxes::<1>(first),
                Group::One => self.one(first),
            };
        }
    }

    /// Computes `run` rows that are adjacent in the operand and in the result.
    #[inline(always)]
    fn run(&mut self, first: usize, run: usize) -> usize {
        let some = Adjacent::rows(&self.of.reads, run);
        for at in (0..run).step_by(some) {
            let [to, from] = self.of.begins[first + at];
            let places = Places {
                from,
                to,
                rows: some.min(run - at),
                reads: &self.of.reads,
                writes: self.writes,
            };
            lanes::adjacent_rows(
                self.source,
                self.out,
                &places,
                &mut self.adjacent,
                self.with,
                self.epilogue,
            );
        }
        run
    }

    /// Computes rows that are adjacent in the operand.
    #[inline(always)]
    fn neighbours(&mut self, first: usize) -> usize {
        let [to, from] = self.of.begins[first];
        for (lanes, read) in self.tile.iter_mut().zip(&self.of.reads) {
            let at = (from + read) as usize;
            widened(&self.source[at..at + LANES], lanes);
        }
        let block = &self.of.begins[first..first + LANES];
        let follows = |(i, b): (usize, &[i64; 2])| b[0] == to + i as i64;
        self.lanes(first, block.iter().enumerate().all(follows))
    }

    /// Computes short rows.
    #[inline(always)]
    fn short(&mut self, first: usize) -> usize {
        for (lanes, read) in self.tile.iter_mut().zip(&self.of.reads) {
            for (x, [_, from]) in lanes.iter_mut().zip(&self.of.begins[first..]) {
                *x = self.source[(from + read) as usize].read();
            }
        }
        self.lanes(first, false)
    }

    /// Computes the rows in the lanes of the tile and writes their results, which are adjacent or not.
    #[inline(always)]
    fn lanes(&mut self, first: usize, adjacent: bool) -> usize {
        let mut one = lanes::rows_in_lanes(&mut self.tile, self.with);
        let begins = &self.of.begins[first..first + LANES];
        let results = match self.of.work {
            Work::Reduce(_) => std::slice::from_mut(&mut one),
            Work::Softmax | Work::Norm { .. } => &mut self.tile,
        };
        self.epilogue.make(results.as_flattened_mut());
        for (lanes, write) in results.iter().zip(self.writes) {
            if adjacent {
                let at = (begins[0][0] + write) as usize;
                self.epilogue.write(lanes, &mut self.out[at..at + LANES]);
                continue;
            }
            for ([to, _], x) in begins.iter().zip(lanes) {
                let to = &mut self.out[(to + write) as usize..][..1];
                self.epilogue.write(&[*x], to);
            }
        }
        LANES
    }

    /// Computes the softmax of `R` rows that are contiguous in the operand and in the result.
    #[inline(always)]
    fn softmaxes<const R: usize>(&mut self, first: usize) -> usize {
        let (read, write) = (self.of.reads[0], self.writes[0]);
        let begins = std::array::from_fn(|i| {
            let [to, from] = self.of.begins[first + i];
            [(to + write) as usize, (from + read) as usize]
        });
        let lines = &mut self.lines[self.first_line..];
        let n = self.of.reads.len();
        lanes::softmaxes::<_, _, _, R>(self.source, self.out, begins, n, lines, self.epilogue);
        R
    }

    /// Computes one row.
    #[inline(always)]
    fn one(&mut self, first: usize) -> usize {
        let [to, from] = self.of.begins[first];
        let at = (from + self.of.reads[0]) as usize;
        let mut one = [match (self.in_place, self.of.work) {
            (Some(source), Work::Reduce(kind)) => {
                lanes::reduced(&source[at..at + self.of.reads.len()], kind)
            }
            _ => {
                self.load(from);
                lanes::row(&mut self.row, self.with)
            }
        }];
        let made = match self.of.work {
            Work::Reduce(_) => &mut one[..],
            Work::Softmax | Work::Norm { .. } => &mut self.row[..],
        };
        self.epilogue.make(made);
        let (writes, runs) = (self.writes, &self.write_runs);
        if runs.len() == 1 {
            let at = (to + writes[0]) as usize;
            self.epilogue
                .write(made, &mut self.out[at..at + made.len()]);
        } else if made.len() == writes.len() && runs.len() * FEW <= writes.len() {
            for run in runs {
                let at = (to + writes[run.start]) as usize;
                let to = &mut self.out[at..at + run.len()];
                self.epilogue.write(&made[run.clone()], to);
            }
        } else {
            for (x, write) in made.iter().zip(writes) {
                let to = &mut self.out[(to + write) as usize..][..1];
                self.epilogue.write(&[*x], to);
            }
        }
        1
    }

    /// Converts the row at offset `from` of the operand.
    #[inline(always)]
    fn load(&mut self, from: i64) {
        let Rows { reads, runs, .. } = self.of;
        if runs.len() * FEW <= reads.len() || runs.len() == 1 {
            for run in runs {
                let at = (from + reads[run.start]) as usize;
                widened(&self.source[at..at + run.len()], &mut self.row[run.clone()]);
            }
        } else {
            for (x, read) in self.row.iter_mut().zip(reads) {
                *x = self.source[(from + read) as usize].read();
            }
        }
    }
}
