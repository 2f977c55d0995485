//! `hbir.conv`: convolution (ONNX `Conv` and, with `transposed`, `ConvTranspose`).
//!
//! Logical dimensions are N C spatial… for the operand and the result, O C/g spatial… for the weights
//! (transposed: C O/g spatial…), with one to three spatial dimensions:
//! `y[n, o, p] = bias[o] + sum over c, k of w[o, c, k] * x[n, g*C/G + c, p * stride + k * dilation - pad]`;
//! transposed, each input element adds itself times the weights to the window it would have been
//! read from. An attribute `to` names another element type for the result.

use crate::contract::permuted;
use crate::labels::{Labels, marks, or_barrier};
use crate::shape::{common_dtype, computed, one, show};
use crate::window::{Slide, Stated, sizes, slides, spatial_dims, three};
use optc_ir::op::iteration_domain::{Combine, IndexExpr, IterationDomain, LoopKind};
use optc_ir::op::{
    Call, Effect, Freedom, FreedomClass, Inferred, Known, OpError, OpRef, Operation, Partial, Role,
    unify,
};
use optc_ir::size::Size;
use optc_ir::tensor::{EvalError, Tensor};
use optc_ir::types::{DType, Dim, TensorType};
use optc_ir::{Code, attributes, codes};

attributes! {
    /// Convolution of N C spatial by O C/g spatial weights, plus a bias `[O]`.
    pub struct Conv {
        /// The elements from one window to the next, one a spatial dimension; 1 when absent.
        strides: Option<Vec<i64>>,
        /// The padding before the elements of each spatial dimension, then the padding after; 0 when
        /// absent.
        pads: Option<Vec<i64>>,
        /// The elements from one position of the kernel to the next, one a spatial dimension; 1 when
        /// absent.
        dilations: Option<Vec<i64>>,
        /// The groups of channels, at least 1; the channels of each are convolved by themselves.
        group: i64 = 1,
        /// Whether each input element adds itself times the weights to the window it would have been read
        /// from.
        transposed: bool = false,
        /// The elements that the result of a transposed convolution has more at its end, one number a spatial
        /// dimension; 0 when absent.
        output_padding: Option<Vec<i64>>,
        /// The element type of the result; the operands' when absent.
        to: Option<DType>,
    }
}

/// Everything the attributes say.
struct Config {
    group: u64,
    transposed: bool,
    slides: Vec<Slide>,
    output_padding: Vec<usize>,
}

impl Conv {
    /// The window along each spatial dimension: over the operand, transposed over the result.
    ///
    /// # Errors
    /// One of the constraints `conv-c1` to `conv-c5` does not hold.
    pub fn slides(&self, op: &OpRef<'_>) -> Result<Vec<Slide>, OpError> {
        Ok(self.config(op)?.slides)
    }

    /// The elements that a transposed convolution's result has more, one number a spatial dimension.
    ///
    /// # Errors
    /// One of the constraints `conv-c1` to `conv-c5` does not hold.
    pub fn output_paddings(&self, op: &OpRef<'_>) -> Result<Vec<usize>, OpError> {
        Ok(self.config(op)?.output_padding)
    }

    /// The number of groups of channels.
    ///
    /// # Errors
    /// It is less than 1 (`conv-c5`).
    pub fn groups(&self) -> Result<u64, OpError> {
        let group = self.group;
        u64::try_from(group).ok().filter(|&g| 0 < g).ok_or_else(|| {
            let message = format!("hbir.conv has group = {group}, wanted 1 or more");
            OpError::new(CONV_C5, message)
        })
    }

    /// C1: one element type. C2: ranks 3 to 5, both the same. C3: kernel extents are known and
    /// positive. C4: strides, dilations, pads and output_padding are sizes, one a spatial dimension.
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
        let (x, w) = (call.input(0).to_f64(), call.input(1).to_f64());
        let bias = call.inputs.get(2);
        let (x_plane, y_plane) = (
            plan.x.iter().product::<usize>(),
            plan.y.iter().product::<usize>(),
        );
        let mut out = Vec::with_capacity(plan.batch * plan.channels_out * y_plane);
        let ins = plan.channels_in / plan.group;
        let outs = (plan.channels_out / plan.group).max(1);
        for n in 0..plan.batch {
            for o in 0..plan.channels_out {
                let mut plane = vec![bias.map_or(0.0, |b| b.f64_at(o)); y_plane];
                for c in 0..ins {
                    let at = (n * plan.channels_in + o / outs * ins + c) * x_plane;
                    add_channel(
                        &plan,
                        &x[at..at + x_plane],
                        &w[plan.weight(o, c, 0)..],
                        &mut plane,
                    );
                }
                out.extend(plane);
            }
        }
        Ok(call.floats(out))
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }

    fn freedom(&self, op: &OpRef<'_>) -> Freedom {
        or_barrier(op, FreedomClass::Window, |f| {
            let config = self.config(op)?;
            let (x, w, y) = (op.operand(0)?, op.operand(1)?, op.result(0)?);
            let batch = f.fresh(Role::Batch);
            let output = f.fresh(Role::Channel);
            let [input, w0, w1] = channel_labels(f, x, y, &config, output);
            let mut x_labels = vec![Some(batch), input];
            let mut w_labels = vec![w0, w1];
            let mut y_labels = vec![batch, output];
            for slide in &config.slides {
                let spatial = f.fresh(Role::Spatial);
                if *slide != Slide::POINT {
                    f.uncut(spatial);
                }
                x_labels.push(Some(spatial));
                w_labels.push(Some(f.fresh(Role::Axis)));
                y_labels.push(spatial);
            }
            if w.rank() != w_labels.len() {
                return Err(OpError::new(CONV_C2, "the weights have another rank"));
            }
            f.operand(x_labels);
            f.operand(w_labels);
            if 2 < op.operands.len() {
                f.operand(vec![Some(output)]);
            }
            f.result(marks(&y_labels));
            Ok(())
        })
    }

    /// Batch, group, output channel in the group, spatial positions; input channels in the group and the
    /// kernel are summed over. Transposed, only batch and group are loops.
    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let config = self.config(op)?;
        let (x, w, y) = (op.operand(0)?, op.operand(1)?, op.result(0)?);
        let extent = |dim: &Dim| dim.fixed().unwrap_or(0);
        let groups = config.group;
        let mut domain = IterationDomain::whole(op);
        let batch = domain.add(extent(&x.dims[0]), LoopKind::Parallel);
        let group = domain.add(groups, LoopKind::Parallel);
        let outputs = domain.add(extent(&y.dims[1]) / groups, LoopKind::Parallel);
        let sum = LoopKind::Reduce(Combine::Add);
        let inputs = domain.add(extent(&x.dims[1]) / groups, sum);
        let digits = |a: &IterationDomain, low: usize| IndexExpr::merged(&[group, low], &a.loops);
        let (output, input) = (digits(&domain, outputs), digits(&domain, inputs));
        domain.operands[0][..2].clone_from_slice(&[IndexExpr::of(batch), input.clone()]);
        domain.results[0][..2].clone_from_slice(&[IndexExpr::of(batch), output.clone()]);
        let weights = if config.transposed {
            [input, IndexExpr::of(outputs)]
        } else {
            [output.clone(), IndexExpr::of(inputs)]
        };
        domain.operands[1][..2].clone_from_slice(&weights);
        if 2 < op.operands.len() {
            domain.operands[2][0] = output;
            domain.epilogue.push(2);
        }
        if config.transposed {
            return Ok(domain);
        }
        for (s, slide) in config.slides.iter().enumerate() {
            let d = 2 + s;
            let at = domain.add(extent(&y.dims[d]), LoopKind::Parallel);
            let (x_index, w_index) = slide.index(&mut domain, at);
            domain.operands[0][d] = x_index;
            domain.operands[1][d] = w_index;
            domain.results[0][d] = IndexExpr::of(at);
        }
        debug_assert_eq!(w.rank(), x.rank(), "checked by `config`");
        Ok(domain)
    }

    fn partial(&self, _: &OpRef<'_>) -> Option<Partial> {
        Some(Partial::Add)
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

/// `(n - 1) * stride + span + output padding - padding`.
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

/// The numbers of one convolution, with three spatial dimensions.
struct Plan {
    /// Operand and result extents.
    x: [usize; 3],
    y: [usize; 3],
    kernel: [usize; 3],
    slides: [Slide; 3],
    batch: usize,
    channels_in: usize,
    channels_out: usize,
    group: usize,
    transposed: bool,
}

impl Plan {
    fn new(config: Config, call: &Call<'_>) -> Plan {
        let (x, w, y) = (&call.input(0).shape, &call.input(1).shape, call.shape());
        Plan {
            x: three(&x[2..], 1),
            y: three(&y[2..], 1),
            kernel: three(&w[2..], 1),
            slides: three(&config.slides, Slide::POINT),
            batch: x[0],
            channels_in: x[1],
            channels_out: y[1],
            group: usize::try_from(config.group).unwrap_or(usize::MAX),
            transposed: config.transposed,
        }
    }

    /// The weight of output channel `o`, input channel `c` of its group, kernel element `k`.
    fn weight(&self, o: usize, c: usize, k: usize) -> usize {
        let (ins, outs) = (
            self.channels_in / self.group,
            self.channels_out / self.group,
        );
        let volume: usize = self.kernel.iter().product();
        if self.transposed {
            ((o / outs * ins + c) * outs + o % outs) * volume + k
        } else {
            (o * ins + c) * volume + k
        }
    }
}

/// Adds one input channel times its kernel to one output channel.
fn add_channel(plan: &Plan, x: &[f64], w: &[f64], y: &mut [f64]) {
    let [kernel_0, kernel_1, kernel_2] = plan.kernel;
    for k0 in 0..kernel_0 {
        for k1 in 0..kernel_1 {
            for k2 in 0..kernel_2 {
                let weight = w[(k0 * kernel_1 + k1) * kernel_2 + k2];
                add_offset(plan, x, weight, [k0, k1, k2], y);
            }
        }
    }
}

/// Adds one input channel, shifted by kernel offset `k`, times one weight. The windows lie over the
/// operand, transposed over the result.
fn add_offset(plan: &Plan, x: &[f64], weight: f64, k: [usize; 3], y: &mut [f64]) {
    let (windows, under) = if plan.transposed {
        (plan.x, plan.y)
    } else {
        (plan.y, plan.x)
    };
    let place = |d: usize, at: usize| plan.slides[d].element(at, k[d], under[d]);
    let columns: Vec<Option<usize>> = (0..windows[2]).map(|i| place(2, i)).collect();
    for i0 in 0..windows[0] {
        let Some(j0) = place(0, i0) else { continue };
        for i1 in 0..windows[1] {
            let Some(j1) = place(1, i1) else { continue };
            let window_row = (i0 * windows[1] + i1) * windows[2];
            let row = (j0 * under[1] + j1) * under[2];
            for (i2, column) in columns.iter().enumerate() {
                let Some(j2) = column else { continue };
                if plan.transposed {
                    y[row + j2] += weight * x[window_row + i2];
                } else {
                    y[window_row + i2] += weight * x[row + j2];
                }
            }
        }
    }
}

/// The labels of the operand's channel and of the weights' first two dimensions. Of a depthwise
/// convolution one label runs through all; other groups pair channels in a way no cut keeps.
fn channel_labels(
    f: &mut Labels,
    x: &TensorType,
    y: &TensorType,
    config: &Config,
    output: usize,
) -> [LabelOf; 3] {
    let order = |outer: usize, inner: Option<usize>| -> [LabelOf; 2] {
        if config.transposed {
            [inner, Some(outer)]
        } else {
            [Some(outer), inner]
        }
    };
    let depthwise = x.dims[1] == Dim::Fixed(config.group) && y.dims[1] == x.dims[1];
    if config.group == 1 {
        let input = f.fresh(Role::Channel);
        let [a, b] = order(output, Some(input));
        return [Some(input), a, b];
    }
    if depthwise {
        return [Some(output), Some(output), None];
    }
    let (input, inner) = (f.fresh(Role::Channel), f.fresh(Role::Channel));
    [output, input, inner]
        .into_iter()
        .for_each(|label| f.uncut(label));
    if config.transposed {
        [Some(input), Some(input), Some(inner)]
    } else {
        [Some(input), Some(output), Some(inner)]
    }
}

type LabelOf = Option<usize>;

codes! {
    const CODES;

    CONV_C1 = Code::program(
        "conv-c1",
        "the operands of `hbir.conv` or `hbir.conv_transpose` have different element types",
        r#"%0 = "hbir.conv"(%x, %y) : (tensor<1x4x5x5xf32>, tensor<8x4x3x3xf16>) -> tensor<1x8x3x3xf32>"#,
        "cast input and weights to one element type",
    );
    CONV_C2 = Code::program(
        "conv-c2",
        "input and weights of a convolution do not have one rank from 3 to 5",
        r#"%0 = "hbir.conv"(%x, %y) : (tensor<1x4x5x5xf32>, tensor<8x4x3xf32>) -> tensor<1x8x3x3xf32>"#,
        "the input is [N, C, …], the weights [O, C / group, …] with one kernel size a spatial dimension",
    );
    CONV_C3 = Code::program(
        "conv-c3",
        "a kernel size of a convolution is unknown or 0",
        r#"%0 = "hbir.conv"(%x, %y) : (tensor<1x4x5x5xf32>, tensor<8x4x?x3xf32>) -> tensor<1x8x?x3xf32>"#,
        "the spatial sizes of the weights must be numbers above 0",
    );
    CONV_C4 = Code::program(
        "conv-c4",
        "`strides`, `dilations`, `pads` or `output_padding` of a convolution has another number of entries than wanted, or one that is too small",
        r#"%0 = "hbir.conv"(%x, %y) <{strides = [0, 1]}> : (tensor<1x4x5x5xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x3x3xf32>"#,
        "one entry a spatial dimension (`pads`: all begins, then all ends); strides and dilations from 1 on",
    );
    CONV_C5 = Code::program(
        "conv-c5",
        "the channels of the input, of the weights and `group` do not agree",
        r#"%0 = "hbir.conv"(%x, %y) <{group = 2}> : (tensor<1x4x5x5xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x3x3xf32>"#,
        "the weights hold the channels of the input divided by `group`, and `group` divides their first dimension",
    );
    CONV_C6 = Code::program(
        "conv-c6",
        "the kernel of a convolution is larger than the padded input",
        r#"%0 = "hbir.conv"(%x, %y) : (tensor<1x4x5x5xf32>, tensor<8x4x7x3xf32>) -> tensor<1x8x1x3xf32>"#,
        "enlarge `pads`, or reduce kernel or `dilations`",
    );
    CONV_C7 = Code::program(
        "conv-c7",
        "the bias of a convolution is not a vector of one element an output channel",
        r#"%0 = "hbir.conv"(%x, %y, %z) : (tensor<1x4x5x5xf32>, tensor<8x4x3x3xf32>, tensor<4xf32>) -> tensor<1x8x3x3xf32>"#,
        "give a bias of the first dimension of the weights, or leave it out",
    );
}
