//! Grid sampling (`grid_sample`): the taps of each place are computed once for all channels.

use crate::access::Access;
use crate::error::StepError;
use crate::memory::In;
use crate::ops::kernel::{Call, Kernel, Site, numbers};
use half::{bf16, f16};
use optc_ir::Operation;
use optc_kernels::element::{Element, Kind, elements, elements_mut};
use optc_kernels::gemm::{Scratch, within};
use optc_kernels::vectorized::vectorized;
use optc_ops::{GridSample, SampleMode};

/// Sampling of planes.
#[derive(Debug)]
pub(crate) struct Sample {
    of: GridSample,
    kinds: [Kind; 2],
    /// The first offset of each batch, in the operand, the result and the grid.
    batches: Vec<[i64; 3]>,
    /// The first offset of each channel, in the operand and in the result.
    channels: Vec<[i64; 2]>,
    /// The offsets along the dimensions of a plane.
    plane: Vec<Vec<i32>>,
    /// The offsets of the places, in the result and in the grid.
    places: Vec<[i64; 2]>,
    /// The offsets of the coordinates of a place.
    coordinates: Vec<i64>,
    reach: [(i64, i64); 3],
}

/// The taps of places.
#[derive(Debug, Default)]
struct Reads {
    /// Places with the full number of taps, and their taps.
    whole: Vec<i64>,
    taps: Vec<Tap>,
    /// Places with fewer taps (at the border), each with the end of its taps in `some`.
    parts: Vec<(i64, usize)>,
    some: Vec<Tap>,
}

/// An offset in a plane, and a weight.
type Tap = (i32, f32);

impl Sample {
    pub(crate) fn of(site: &Site<'_>) -> Option<Sample> {
        if &*site.data().name != GridSample::NAME {
            return None;
        }
        let of = GridSample::of(&site.func.op_ref(site.op)).ok()?;
        let all = site.all()?;
        let [x, grid, y] = all[..] else {
            return None;
        };
        let kinds = [x.kind()?, grid.kind()?];
        let floats = kinds.iter().all(|kind| kind.is_float());
        if !floats || y.kind() != Some(kinds[0]) {
            return None;
        }
        let reach = [y, x, grid].map(|slot| slot.access.reach());
        let [Some(a), Some(b), Some(c)] = reach else {
            return None;
        };
        let (xb, mut xt) = (*x.access).clone().into_sum()?;
        let (yb, mut yt) = (*y.access).clone().into_sum()?;
        let (gb, mut gt) = (*grid.access).clone().into_sum()?;
        let coordinates = gt.pop()?;
        let rank = coordinates.len();
        let whole = xt.len() == rank + 2 && yt.len() == rank + 2 && gt.len() == rank + 1;
        if !whole || xt[0].len() != yt[0].len() || xt[1].len() != yt[1].len() {
            return None;
        }
        let batches = xt[0].iter().zip(&yt[0]).zip(&gt[0]);
        let batches = batches.map(|((x, y), g)| [xb + x, yb + y, gb + g]);
        let channels = xt[1].iter().zip(&yt[1]).map(|(&x, &y)| [x, y]);
        let (batches, channels) = (batches.collect(), channels.collect());
        let mut places = Vec::new();
        let list = |tables: Vec<Vec<i64>>, call: &mut dyn FnMut(i64)| {
            Access::Sum { base: 0, tables }.each(call);
        };
        list(yt.split_off(2), &mut |at| places.push([at, 0]));
        let mut next = 0;
        list(gt.split_off(1), &mut |at| {
            if let Some(place) = places.get_mut(next) {
                place[1] = at;
            }
            next += 1;
        });
        let narrow = |table: Vec<i64>| -> Option<Vec<i32>> {
            table.into_iter().map(|at| i32::try_from(at).ok()).collect()
        };
        let plane: Option<Vec<Vec<i32>>> = xt.split_off(2).into_iter().map(narrow).collect();
        let plane = plane?;
        // Sums of offsets in a plane must fit in an `i32`.
        let far = |table: &Vec<i32>| table.iter().map(|at| at.unsigned_abs()).max();
        let mut far = plane.iter().map(|table| far(table).unwrap_or(0));
        let far = far.try_fold(0u32, u32::checked_add)?;
        i32::try_from(far).ok()?;
        (next == places.len()).then_some(Sample {
            of,
            kinds,
            batches,
            channels,
            plane,
            places,
            coordinates,
            reach: [a, b, c],
        })
    }

    /// Most taps of a place.
    fn most(&self) -> usize {
        let along: usize = match self.of.mode {
            SampleMode::Nearest => 1,
            SampleMode::Linear => 2,
            SampleMode::Cubic => 4,
        };
        (0..self.plane.len()).fold(1, |most: usize, _| most.saturating_mul(along))
    }

    /// Computes the taps of all places of a batch.
    #[inline(always)]
    fn find(&self, grid: &[f32], begin: i64, reads: &mut Reads) {
        let most = self.most();
        reads.whole.clear();
        reads.taps.clear();
        reads.parts.clear();
        reads.some.clear();
        let (mut found, mut next) = (Vec::new(), Vec::new());
        for &[to, place] in &self.places {
            found.clear();
            found.push((0, 1.0));
            for (d, table) in self.plane.iter().enumerate() {
                let coordinate = self.coordinates[self.coordinates.len() - 1 - d];
                let coordinate = f64::from(grid[(begin + place + coordinate) as usize]);
                let (along, count) = self.of.taps(coordinate, table.len());
                next.clear();
                for &(at, weight) in &found {
                    let along = along[..count].iter();
                    next.extend(along.map(|&(i, more)| (at + table[i], weight * more as f32)));
                }
                std::mem::swap(&mut found, &mut next);
            }
            if found.len() == most {
                reads.whole.push(to);
                reads.taps.extend_from_slice(&found);
            } else {
                reads.some.extend_from_slice(&found);
                reads.parts.push((to, reads.some.len()));
            }
        }
    }

    /// Computes one batch; `N` is the number of taps of full places, 0 for any number.
    #[inline(always)]
    fn sums<E: Element<Number = f32>, const N: usize>(
        &self,
        [x, y, _]: [i64; 3],
        source: &[E],
        out: &mut [E],
        reads: &Reads,
    ) {
        for [from, to] in &self.channels {
            let (from, to) = (x + from, y + to);
            let read = |&(at, weight): &Tap| {
                let at = (from + i64::from(at)) as usize;
                weight * source[at].read()
            };
            let sum = |taps: &[Tap]| taps.iter().fold(0.0, |sum, tap| sum + read(tap));
            if N == 0 {
                let whole = reads.taps.chunks_exact(self.most());
                for (place, taps) in reads.whole.iter().zip(whole) {
                    out[(to + place) as usize] = E::of(sum(taps));
                }
            } else {
                let whole = reads.taps.as_chunks::<N>().0;
                for (place, taps) in reads.whole.iter().zip(whole) {
                    out[(to + place) as usize] = E::of(sum(taps));
                }
            }
            let mut begin = 0;
            for &(place, end) in &reads.parts {
                out[(to + place) as usize] = E::of(sum(&reads.some[begin..end]));
                begin = end;
            }
        }
    }

    fn typed<E: Element<Number = f32>>(
        &self,
        x: &[u8],
        grid: &[u8],
        out: &mut [u8],
    ) -> Result<(), StepError> {
        let (x, out) = (elements::<E>(x)?, elements_mut::<E>(out)?);
        let grid = numbers(self.kinds[1], grid)?;
        within(self.reach, [out.len(), x.len(), grid.len()])?;
        let mut reads = Reads::default();
        vectorized(
            #[inline(always)]
            || {
                for batch in &self.batches {
                    self.find(&grid, batch[2], &mut reads);
                    match self.most() {
                        1 => self.sums::<E, 1>(*batch, x, out, &reads),
                        4 => self.sums::<E, 4>(*batch, x, out, &reads),
                        8 => self.sums::<E, 8>(*batch, x, out, &reads),
                        _ => self.sums::<E, 0>(*batch, x, out, &reads),
                    }
                }
            },
        );
        Ok(())
    }
}

impl Kernel for Sample {
    fn name(&self) -> &'static str {
        "sample"
    }

    fn packed_bytes(&self) -> usize {
        size_of_val(&self.places[..])
    }

    fn scratch(&self) -> Scratch {
        let taps = self.most().saturating_mul(size_of::<Tap>());
        let each = taps.saturating_add(size_of::<(i64, usize)>());
        [0, 0, 0, self.places.len().saturating_mul(each)]
    }

    fn run(&self, Call { ins, out, .. }: Call<'_>) -> Result<(), StepError> {
        let [In::Bytes(x), In::Bytes(grid)] = ins else {
            return Err(StepError::OperandWrittenOver);
        };
        match self.kinds[0] {
            Kind::F16 => self.typed::<f16>(x, grid, out),
            Kind::BF16 => self.typed::<bf16>(x, grid, out),
            _ => self.typed::<f32>(x, grid, out),
        }
    }
}
