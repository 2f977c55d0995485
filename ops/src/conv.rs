//! `hbir.conv`: convolution (ONNX `Conv` and, with `transposed`, `ConvTranspose`).
//!
//! The dimensions are N C spatial… for the operand and the result, and O C/g spatial… for the weights (transposed: C
//! O/g spatial…), with one to three spatial dimensions:
//! `y[n, o, p] = bias[o] + sum over c, k of w[o, c, k] * x[n, g*C/G + c, p * stride + k * dilation - pad]`.
//!
//! A transposed convolution goes the other way: each input element times the weights is added to the window that a
//! convolution would have read to compute that element. An attribute `to` names another element type for the result.

use crate::contract::{Extents, Number, Sums, add_product, permuted, read_all};
use crate::prelude::*;
use crate::window::{Slide, Stated, sizes, slides, spatial_dims, three};
use std::borrow::Cow;
use std::ops::Range;

attributes! {
    /// Convolution of N C spatial by O C/g spatial weights, plus a bias `[O]`.
    pub struct Conv {
        /// The distance in elements from one window to the next along each spatial dimension; 1 when absent.
        strides: Option<Vec<i64>>,
        /// The padding before each spatial dimension, then the padding after each; 0 when absent.
        pads: Option<Vec<i64>>,
        /// The distance in elements between adjacent positions of the kernel along each spatial dimension; 1 when
        /// absent.
        dilations: Option<Vec<i64>>,
        /// The number of groups of channels, at least 1; each group is convolved separately.
        group: i64 = 1,
        /// True for a transposed convolution: each input element times the weights is added to a window of the result.
        transposed: bool = false,
        /// The number of extra elements at the end of each spatial dimension of a transposed convolution's result; 0
        /// when absent.
        output_padding: Option<Vec<i64>>,
        /// The element type of the result; that of the operands when absent.
        to: Option<DType>,
    }
}

/// The values of all attributes.
struct Config {
    group: u64,
    transposed: bool,
    slides: Vec<Slide>,
    output_padding: Vec<usize>,
}

impl Conv {
    /// The window along each spatial dimension. It slides over the operand, or over the result of a transposed
    /// convolution.
    ///
    /// # Errors
    /// One of the constraints `conv-c1` to `conv-c5` does not hold.
    pub fn slides(&self, op: &OpRef<'_>) -> Result<Vec<Slide>, OpError> {
        Ok(self.config(op)?.slides)
    }

    /// The number of extra elements at the end of each spatial dimension of a transposed convolution's result.
    ///
    /// # Errors
    /// One of the constraints `conv-c1` to `conv-c5` does not hold.
    pub fn output_paddings(&self, op: &OpRef<'_>) -> Result<Vec<usize>, OpError> {
        Ok(self.config(op)?.output_padding)
    }

    /// The number of groups of channels.
    ///
    /// # Errors
    /// The attribute is less than 1 (`conv-c5`).
    pub fn groups(&self) -> Result<u64, OpError> {
        let group = self.group;
        u64::try_from(group).ok().filter(|&g| 0 < g).ok_or_else(|| {
            let message = format!("hbir.conv has group = {group}, wanted 1 or more");
            OpError::new(CONV_C5, message)
        })
    }

    /// C1: one element type. C2: equal ranks of 3 to 5. C3: kernel extents are known and positive. C4: strides,
    /// dilations, pads and output_padding have one size for each spatial dimension.
    fn config(&self, op: &OpRef<'_>) -> Result<Config, OpError> {
        common_dtype(op, CONV_C1, 0..2)?;
        let (x, w) = (op.operand(0)?, op.operand(1)?);
        if !(3..=5).contains(&x.rank()) || x.rank() != w.rank() {
            let message = format!(
                "hbir.conv of {} by weights {}, wanted both of one rank from 3 to 5",
                show(&x.dims),
                show(&w.dims)
            );
            return Err(OpError::new(CONV_C2, message));
        }
        let kernel: Option<Vec<u64>> = w.dims[2..]
            .iter()
            .map(|d| d.fixed().filter(|&n| 0 < n))
            .collect();
        let kernel = kernel.ok_or_else(|| {
            let message = format!(
                "hbir.conv by weights {}, wanted a known kernel",
                show(&w.dims)
            );
            OpError::new(CONV_C3, message)
        })?;
        let stated = Stated {
            strides: self.strides.as_deref(),
            dilations: self.dilations.as_deref(),
            pads: self.pads.as_deref(),
        };
        let output_padding = ("output_padding", self.output_padding.as_deref());
        Ok(Config {
            group: self.groups()?,
            transposed: self.transposed,
            slides: slides(op, CONV_C4, &kernel, stated)?,
            output_padding: sizes(op, CONV_C4, output_padding, kernel.len(), 0)?,
        })
    }
}

impl Operation for Conv {
    const NAME: &'static str = "hbir.conv";
    const SUMMARY: &'static str =
        "convolution of N C spatial by O C/g spatial weights, plus a bias [O]";
    const FAMILY: &'static str = "conv";
    const OPERANDS: (usize, usize) = (2, 3);
    const CODES: &'static [Code] = CODES;

    /// C5: the channels agree with the weights and `group`. C6: the windows fit. C7: the bias is `[O]`.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let config = self.config(op)?;
        let (x, w) = (op.operand(0)?, op.operand(1)?);
        let channels = output_channels(x, w, &config)?;
        let to = self.to.unwrap_or(x.dtype);
        if 2 < op.operands.len() {
            check_bias(op, &channels, to)?;
        }
        let spatial = if config.transposed {
            transposed_dims(&x.dims[2..], &config)?
        } else {
            spatial_dims(op, CONV_C6, &x.dims[2..], &config.slides, false)?
        };
        one([vec![x.dims[0].clone(), channels], spatial].concat(), to)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let plan = Plan::new(self.config(call.op)?, call);
        let mut sums = match call.input(0).dtype.is_int() {
            true => plan.sums::<i64>(call),
            false => plan.sums::<f64>(call),
        };
        if let Some(bias) = call.inputs.get(2) {
            sums.add_bias(bias, plan.y.iter().product());
        }
        Ok(vec![sums.into_tensor(call.dtype(), call.shape())])
    }

    /// The parallel loops are the batch, the group, the output channel in the group, and the spatial positions. The
    /// input channels of the group and the kernel are summed over. A transposed convolution needs the spatial positions
    /// whole.
    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let config = self.config(op)?;
        let (x, w, y) = (op.operand(0)?, op.operand(1)?, op.result(0)?);
        let extent = |dim: &Dim| dim.fixed().unwrap_or(0);
        let groups = config.group;
        let mut domain = IterationDomain::new(op, FreedomClass::Window);
        let each = LoopKind::Parallel;
        let batch = domain.add_as(extent(&x.dims[0]), each, Role::Batch);
        let group = domain.add_as(groups, each, Role::Channel);
        let outputs = domain.add_as(extent(&y.dims[1]) / groups, each, Role::Channel);
        let sum = LoopKind::Reduce(Combine::Add);
        let inputs = domain.add_as(extent(&x.dims[1]) / groups, sum, Role::Channel);
        // In a depthwise convolution one loop addresses the channels of all ports. Any other grouping pairs channels in
        // a way that no cut preserves.
        let depthwise = x.dims[1] == Dim::Fixed(groups) && y.dims[1] == x.dims[1];
        if groups != 1 && !depthwise {
            for id in [group, outputs, inputs] {
                domain.uncut(id);
            }
        }
        let digits = |a: &IterationDomain, low: usize| IndexExpr::merged(&[group, low], &a.loops);
        let (output, input) = (digits(&domain, outputs), digits(&domain, inputs));
        domain.operands[0][..2].clone_from_slice(&[IndexExpr::of(batch), input.clone()]);
        domain.results[0][..2].clone_from_slice(&[IndexExpr::of(batch), output.clone()]);
        let (first, second) = match config.transposed {
            true => (input, outputs),
            false => (output.clone(), inputs),
        };
        let second = match groups != 1 && depthwise {
            true => IndexExpr::zero(),
            false => IndexExpr::of(second),
        };
        let weights = [first, second];
        domain.operands[1][..2].clone_from_slice(&weights);
        if 2 < op.operands.len() {
            domain.operands[2][0] = output;
            domain.epilogue.push(2);
        }
        for (s, slide) in config.slides.iter().enumerate() {
            let d = 2 + s;
            let (x_index, w_index, at) = match config.transposed {
                true => slide.whole(&mut domain, &y.dims[d]),
                false => slide.index(&mut domain, &y.dims[d]),
            };
            domain.operands[0][d] = x_index;
            domain.operands[1][d] = w_index;
            domain.results[0][d] = at;
        }
        debug_assert_eq!(w.rank(), x.rank(), "checked by `config`");
        Ok(domain)
    }

    fn permutes(&self, op: &OpRef<'_>, known: &Known<'_>) -> Option<usize> {
        if self.transposed {
            return None;
        }
        permuted(op, known)
    }
}

fn output_channels(x: &TensorType, w: &TensorType, config: &Config) -> Result<Dim, OpError> {
    let times = |d: &Dim| {
        let product = d
            .fixed()
            .and_then(|n| n.checked_mul(config.group))
            .map(Dim::Fixed);
        product.unwrap_or_else(|| computed(d, |n| n.times(&Size::from(config.group))))
    };
    let (input, output) = if config.transposed {
        (w.dims[0].clone(), times(&w.dims[1]))
    } else {
        (times(&w.dims[1]), w.dims[0].clone())
    };
    let grouped = if config.transposed { &input } else { &output };
    let divided = grouped.fixed().is_none_or(|n| n % config.group == 0);
    if unify(&x.dims[1], &input).is_some() && divided {
        return Ok(output);
    }
    let message = format!(
        "hbir.conv of {} by weights {} in {} groups: found {} channels, wanted {input} and a \
         multiple of the groups",
        show(&x.dims),
        show(&w.dims),
        config.group,
        x.dims[1]
    );
    Err(OpError::new(CONV_C5, message).hint("weights are [O, C/g, ..], transposed [C, O/g, ..]"))
}

fn check_bias(op: &OpRef<'_>, channels: &Dim, to: DType) -> Result<(), OpError> {
    let bias = op.operand(2)?;
    let fits = bias.rank() == 1 && unify(&bias.dims[0], channels).is_some() && bias.dtype == to;
    if fits {
        return Ok(());
    }
    let found = show(&bias.dims);
    let message = format!(
        "hbir.conv has a bias of {found} {}, wanted [{channels}] {to}",
        bias.dtype
    );
    Err(OpError::new(CONV_C7, message))
}

/// `(n - 1) * stride + span + output padding - padding`: the extent of a transposed convolution's result.
fn transposed_count(n: &Size, config: &Config, d: usize) -> Option<Size> {
    let (slide, extra) = (config.slides[d], config.output_padding[d]);
    let number = |n: usize| Size::from(n as u64);
    let stepped = n.minus(&number(1))?.times(&number(slide.stride))?;
    let full = stepped.plus(&number(slide.span()))?.plus(&number(extra))?;
    full.minus(&number(slide.low))?.minus(&number(slide.high))
}

fn transposed_dims(spatial: &[Dim], config: &Config) -> Result<Vec<Dim>, OpError> {
    let extent = |(d, dim): (usize, &Dim)| {
        let Some(n) = dim.fixed() else {
            return Ok(computed(dim, |n| transposed_count(n, config, d)));
        };
        let slide = config.slides[d];
        let stepped = n.saturating_sub(1).checked_mul(slide.stride as u64);
        let full = stepped
            .and_then(|s| s.checked_add(slide.span() as u64 + config.output_padding[d] as u64));
        let cut = full.and_then(|f| f.checked_sub(slide.low as u64 + slide.high as u64));
        cut.filter(|_| 0 < n).map(Dim::Fixed).ok_or_else(|| {
            let message =
                format!("hbir.conv is padded by more than its result over {n} elements has");
            OpError::new(CONV_C6, message)
        })
    };
    spatial.iter().enumerate().map(extent).collect()
}

/// The parameters of one convolution, padded to three spatial dimensions.
struct Plan {
    /// Spatial extents of the operand; `y` has those of the result.
    x: [usize; 3],
    y: [usize; 3],
    kernel: [usize; 3],
    slides: [Slide; 3],
    batch: usize,
    group: usize,
    /// Input channels of a group; `outs` has the output channels.
    ins: usize,
    outs: usize,
    transposed: bool,
}

/// The number of result positions that are computed at once.
const POSITIONS: usize = 128;

impl Plan {
    fn new(config: Config, call: &Call<'_>) -> Plan {
        let (x_shape, w, y_shape) = (&call.input(0).shape, &call.input(1).shape, call.shape());
        let (x, y, kernel) = (
            three(&x_shape[2..], 1),
            three(&y_shape[2..], 1),
            three(&w[2..], 1),
        );
        let group = usize::try_from(config.group).unwrap_or(usize::MAX);
        Plan {
            x,
            y,
            kernel,
            slides: three(&config.slides, Slide::POINT),
            group,
            batch: x_shape[0],
            ins: x_shape[1] / group,
            outs: y_shape[1] / group,
            transposed: config.transposed,
        }
    }

    /// The sums without the bias. For each sample and group they are a matrix product: the weights, [O/g, C/g kernel],
    /// times the elements that each weight meets at each position of the result, [C/g kernel, spatial].
    fn sums<T: Number>(&self, call: &Call<'_>) -> Sums {
        let (x, w) = (read_all::<T>(call.input(0)), read_all::<T>(call.input(1)));
        let [x_plane, y_plane, volume] =
            [self.x, self.y, self.kernel].map(|s| s.iter().product::<usize>());
        let depth = self.ins * volume;
        let mut out = vec![T::ZERO; self.batch * self.group * self.outs * y_plane];
        for (at, out) in out.chunks_mut((self.outs * y_plane).max(1)).enumerate() {
            let x = &x[at * self.ins * x_plane..][..self.ins * x_plane];
            let w = &w[at % self.group * self.outs * depth..][..self.outs * depth];
            let w = self.weights(w, volume);
            for first in (0..y_plane).step_by(POSITIONS) {
                let n = POSITIONS.min(y_plane - first);
                let sums = self.sums_of(x, &w, first..first + n);
                for (o, sums) in sums.chunks_exact(n).enumerate() {
                    out[o * y_plane + first..][..n].copy_from_slice(sums);
                }
            }
        }
        T::sums(out)
    }

    /// The weights of a group as [O/g, C/g kernel]; a transposed convolution stores them as [C/g, O/g, kernel].
    fn weights<'w, T: Number>(&self, w: &'w [T], volume: usize) -> Cow<'w, [T]> {
        if !self.transposed {
            return Cow::Borrowed(w);
        }
        let of = |o: usize, c: usize| w[(c * self.outs + o) * volume..][..volume].iter().copied();
        let all = (0..self.outs).flat_map(|o| (0..self.ins).flat_map(move |c| of(o, c)));
        Cow::Owned(all.collect())
    }

    /// The sums of one group at a range of result positions: [O/g, positions].
    fn sums_of<T: Number>(&self, x: &[T], w: &[T], positions: Range<usize>) -> Vec<T> {
        let (n, depth) = (positions.len(), w.len() / self.outs.max(1));
        let mut sums = vec![T::ZERO; self.outs * n];
        if w.iter().all(|w| w.is_finite()) {
            // Padding is a 0 in the matrix, which adds nothing if all weights are finite.
            let mut met = vec![T::ZERO; depth * n];
            for (i, met) in met.chunks_exact_mut(n).enumerate() {
                self.each_met(i, &positions, |at, from| met[at] = x[from]);
            }
            let run = |of: &[T], at: usize, into: &mut [T]| {
                into.copy_from_slice(&of[at..at + into.len()]);
            };
            let extents = Extents {
                m: self.outs,
                k: depth,
                n,
            };
            add_product(
                |at, into| run(w, at, into),
                |at, into| run(&met, at, into),
                extents,
                &mut sums,
            );
            return sums;
        }
        for (w, sums) in w.chunks_exact(depth).zip(sums.chunks_exact_mut(n)) {
            for (i, &w) in w.iter().enumerate() {
                let mut add = |at: usize, from: usize| sums[at] = sums[at].add_product(w, x[from]);
                self.each_met(i, &positions, &mut add);
            }
        }
        sums
    }

    /// The position in dimension `d` of the operand that element `k` of the kernel meets at position `at` of the
    /// result. `None` for padding, and for a position between the windows of a transposed convolution.
    fn met(&self, d: usize, k: usize, at: usize) -> Option<usize> {
        match self.transposed {
            true => self.slides[d].window(at, k, self.x[d]),
            false => self.slides[d].element(at, k, self.x[d]),
        }
    }

    /// Calls `f(position, element)` for each of these positions at which weight `i` of an output channel meets an
    /// element. Positions are counted from the first one of the range; elements are counted in the group's part of the
    /// operand.
    fn each_met(&self, i: usize, positions: &Range<usize>, mut f: impl FnMut(usize, usize)) {
        let ([k0, k1, k2], [x0, x1, x2], [_, y1, y2]) = (self.kernel, self.x, self.y);
        let channel = i / (k0 * k1 * k2);
        let k = [i / (k1 * k2) % k0, i / k2 % k1, i % k2];
        let mut at = positions.start;
        while at < positions.end {
            let (line, start) = (at / y2, at % y2);
            let end = y2.min(start + positions.end - at);
            let outer = self.met(0, k[0], line / y1);
            if let Some((j0, j1)) = outer.zip(self.met(1, k[1], line % y1)) {
                let row = ((channel * x0 + j0) * x1 + j1) * x2;
                for column in start..end {
                    if let Some(j2) = self.met(2, k[2], column) {
                        f(at - positions.start + column - start, row + j2);
                    }
                }
            }
            at += end - start;
        }
    }
}

codes! {
    const CODES;

    CONV_C1 = program(
        "the operands of `hbir.conv` or `hbir.conv_transpose` have different element types",
        r#"%0 = "hbir.conv"(%x, %y) : (tensor<1x4x5x5xf32>, tensor<8x4x3x3xf16>) -> tensor<1x8x3x3xf32>"#,
        "cast input and weights to one element type",
    );
    CONV_C2 = program(
        "input and weights of a convolution do not have one rank from 3 to 5",
        r#"%0 = "hbir.conv"(%x, %y) : (tensor<1x4x5x5xf32>, tensor<8x4x3xf32>) -> tensor<1x8x3x3xf32>"#,
        "the input is [N, C, …], the weights [O, C / group, …] with one kernel size a spatial dimension",
    );
    CONV_C3 = program(
        "a kernel size of a convolution is unknown or 0",
        r#"%0 = "hbir.conv"(%x, %y) : (tensor<1x4x5x5xf32>, tensor<8x4x?x3xf32>) -> tensor<1x8x?x3xf32>"#,
        "the spatial sizes of the weights must be numbers above 0",
    );
    CONV_C4 = program(
        "`strides`, `dilations`, `pads` or `output_padding` of a convolution has another number of entries than wanted, or one that is too small",
        r#"%0 = "hbir.conv"(%x, %y) <{strides = [0, 1]}> : (tensor<1x4x5x5xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x3x3xf32>"#,
        "one entry a spatial dimension (`pads`: all begins, then all ends); strides and dilations from 1 on",
    );
    CONV_C5 = program(
        "the channels of the input, of the weights and `group` do not agree",
        r#"%0 = "hbir.conv"(%x, %y) <{group = 2}> : (tensor<1x4x5x5xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x3x3xf32>"#,
        "the weights hold the channels of the input divided by `group`, and `group` divides their first dimension",
    );
    CONV_C6 = program(
        "the kernel of a convolution is larger than the padded input",
        r#"%0 = "hbir.conv"(%x, %y) : (tensor<1x4x5x5xf32>, tensor<8x4x7x3xf32>) -> tensor<1x8x1x3xf32>"#,
        "enlarge `pads`, or reduce kernel or `dilations`",
    );
    CONV_C7 = program(
        "the bias of a convolution is not a vector of one element an output channel",
        r#"%0 = "hbir.conv"(%x, %y, %z) : (tensor<1x4x5x5xf32>, tensor<8x4x3x3xf32>, tensor<4xf32>) -> tensor<1x8x3x3xf32>"#,
        "give a bias of the first dimension of the weights, or leave it out",
    );
}
