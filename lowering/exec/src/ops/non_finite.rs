//! Fallback for convolutions with padding and weights that are infinite or NaN. It skips padding, while all other kernels
//! multiply zeros there, which would give NaN.

use crate::access::Access;
use crate::error::StepError;
use crate::nest::Nest;
use crate::ops::kernel::numbers;
use bytemuck::cast_slice;
use optc_kernels::element::{Element, Kind, elements_mut};
use optc_kernels::epilogue::Epilogue;
use optc_kernels::gemm::within;
use optc_kernels::geometry::{ConvDim, ConvOffsets, reach};
use optc_kernels::with_type;

/// A convolution of floats with padding.
#[derive(Debug)]
pub(crate) struct NonFinite {
    kinds: [Kind; 2],
    places: ConvOffsets,
    /// Loop over the offsets of the weights.
    weights: Nest<1>,
    epilogue: Option<Epilogue>,
}

impl NonFinite {
    /// The fallback of a convolution; `None` if there is no padding or the weights are known to be finite.
    pub(crate) fn of(
        places: &ConvOffsets,
        kinds: [Kind; 2],
        known: Option<&[u8]>,
        epilogue: Option<&Epilogue>,
    ) -> Option<NonFinite> {
        let pads = |s: &ConvDim| 0 < s.low || s.input <= s.last();
        if !kinds[0].is_float() || !places.dims.iter().any(pads) {
            return None;
        }
        let weights = Access::Sum {
            base: places.base[2],
            tables: places.tables[2].clone(),
        };
        let non_finite = NonFinite {
            kinds,
            places: places.clone(),
            weights: Nest::of([&weights])?,
            epilogue: epilogue.cloned(),
        };
        let finite = known.is_some_and(|known| matches!(non_finite.is_needed(known), Ok(false)));
        (!finite).then_some(non_finite)
    }

    /// Returns whether some weight is infinite or NaN.
    ///
    /// # Errors
    /// A weight lies outside of its buffer.
    pub(crate) fn is_needed(&self, weights: &[u8]) -> Result<bool, StepError> {
        let size = self.kinds[0].size();
        if !self.weights.fits(0, weights.len() / size) {
            return Err(StepError::WeightOutOfBounds);
        }
        let (n, [step]) = self.weights.inner;
        let mut finite = true;
        with_type!(self.kinds[0], E => {
            let list = optc_kernels::element::elements::<E>(weights)?;
            self.weights.each(|[at]| {
                let line = (0..n as i64).map(|i| f64::from(list[(at + step * i) as usize].read()));
                finite &= line.fold(true, |finite, x| finite & x.is_finite());
            });
        });
        Ok(!finite)
    }

    /// Writes the sums of products, without padding.
    ///
    /// # Errors
    /// A buffer is too small.
    pub(crate) fn run(
        &self,
        out: &mut [u8],
        [x, w]: [&[u8]; 2],
        bias: Option<&[u8]>,
    ) -> Result<(), StepError> {
        let [from, to] = self.kinds;
        let (x, w) = (numbers(from, x)?, numbers(from, w)?);
        let sums = self.epilogue.as_ref().map_or(to, Epilogue::sums);
        let bias = bias.map_or(Ok(vec![0.0]), |bias| numbers(sums, bias))?;
        let ConvOffsets { base, tables, .. } = &self.places;
        let [y, xt, wt, bt] = tables;
        let whole = std::array::from_fn(|k| reach(base[k], &tables[k]));
        within(whole, [out.len() / to.size(), x.len(), w.len(), bias.len()])?;
        let (mut places, mut found) = (Vec::new(), Vec::new());
        for (position, taps) in self.positions() {
            for (n, image) in y[0].iter().enumerate() {
                for (g, group) in y[1].iter().enumerate() {
                    for (o, channel) in y[2].iter().enumerate() {
                        let begin = base[3] + bt[0][n] + bt[1][g] + bt[2][o] + position[3];
                        let mut sum = f64::from(bias[begin as usize]);
                        for (c, of_x) in xt[2].iter().enumerate() {
                            let x_at = base[1] + xt[0][n] + xt[1][g] + of_x;
                            let w_at = base[2] + wt[0][g] + wt[1][o] + wt[2][c];
                            for [of_x, of_w] in &taps {
                                let x = x[(x_at + of_x) as usize];
                                sum += f64::from(x) * f64::from(w[(w_at + of_w) as usize]);
                            }
                        }
                        places.push(base[0] + image + group + channel + position[0]);
                        found.push((sum as f32).to_bits());
                    }
                }
            }
        }
        if let Some(epilogue) = &self.epilogue {
            epilogue.all(&mut epilogue.parts(), &mut found);
        }
        with_type!(to, E => {
            let (out, found) = (elements_mut::<E>(out)?, cast_slice(&found));
            for (place, sum) in places.iter().zip(found) {
                out[*place as usize] = E::of(*sum);
            }
        });
        Ok(())
    }

    /// For each position, its offsets in all values, and the offsets of the element and the weight of each tap that is not
    /// padding.
    fn positions(&self) -> Vec<([i64; 4], Vec<[i64; 2]>)> {
        let mut all = vec![([0; 4], vec![[0; 2]])];
        for (d, slide) in self.places.dims.iter().enumerate() {
            let [y, x, w, b] = [0, 1, 2, 3].map(|k| &self.places.tables[k][3 + d]);
            let mut longer = Vec::with_capacity(all.len() * slide.output);
            for (at, taps) in &all {
                for o in 0..slide.output {
                    let met = (0..slide.kernel).filter_map(|k| Some([x[slide.reads(o, k)?], w[k]]));
                    let met: Vec<[i64; 2]> = met.collect();
                    let pairs = taps.iter().flat_map(|tap| {
                        met.iter()
                            .map(move |more| [tap[0] + more[0], tap[1] + more[1]])
                    });
                    let own = [at[0] + y[o], 0, 0, at[3] + b[o]];
                    longer.push((own, pairs.collect()));
                }
            }
            all = longer;
        }
        all
    }
}
