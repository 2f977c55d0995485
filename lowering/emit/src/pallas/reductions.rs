//! Operations in `jnp` along dimensions: reductions and norms.

use super::form::{Form, along_channels, keeping, python_bool};
use super::words::{dtype, float, tuple, wide};
use optc_ir::DType;
use optc_ops::{
    ArgMax, ArgMin, BatchNorm, Cumprod, Cumsum, GroupNorm, InstanceNorm, LayerNorm, LogSoftmax,
    Reduce, ReduceKind, RmsNorm, Softmax,
};

impl Form<'_> {
    pub(super) fn reduce(&mut self) -> Option<String> {
        let reduce = self.typed::<Reduce>()?;
        let x = self.arg(0)?.to_owned();
        let truths = self.ty()?.dtype.is_bool();
        if self.site.tile && truths && matches!(reduce.kind, ReduceKind::Max | ReduceKind::Min) {
            // A compiler of kernels reduces numbers alone.
            let all = self.reduction(&format!("{x}.astype(jnp.int32)"), &reduce)?;
            return Some(format!("({all} != 0)"));
        }
        self.reduction(&x, &reduce)
    }

    fn reduction(&mut self, x: &str, reduce: &Reduce) -> Option<String> {
        let to = self.ty()?.dtype;
        let axes = reduce.reduced(self.op()).ok()?;
        let product = reduce.kind == ReduceKind::Prod && !axes.is_empty();
        if self.site.tile && (1 < axes.len() || product) {
            return self.reduce_in_turn(x, reduce, &axes);
        }
        let axes = tuple(axes);
        let keep = keeping(reduce.keepdims);
        let sum = |x: &str| {
            let (wide, narrow) = (wide(to), dtype(to));
            if wide == to {
                format!("jnp.sum({x}, axis={axes}{keep}, dtype={narrow})")
            } else {
                format!(
                    "jnp.sum({x}, axis={axes}{keep}, dtype={}).astype({narrow})",
                    dtype(wide)
                )
            }
        };
        let plain = |f: &str| format!("jnp.{f}({x}, axis={axes}{keep})");
        let bits = |function: &str, start: i64| {
            let start = format!("jnp.array({start}).astype({})", dtype(to));
            format!("lax.reduce({x}, {start}, {function}, {axes})")
        };
        Some(match reduce.kind {
            ReduceKind::Sum => sum(x),
            ReduceKind::Mean if to.is_float() => plain("mean"),
            ReduceKind::Max => plain("max"),
            ReduceKind::Min => plain("min"),
            ReduceKind::Prod => plain("prod"),
            ReduceKind::L1 => sum(&format!("jnp.abs({x})")),
            ReduceKind::SumSquare => sum(&format!("{x} * {x}")),
            ReduceKind::L2 if to.is_float() => format!("jnp.sqrt({})", sum(&format!("{x} * {x}"))),
            ReduceKind::LogSum => format!("jnp.log({})", sum(x)),
            ReduceKind::And if !reduce.keepdims => bits("lax.bitwise_and", -1),
            ReduceKind::Or if !reduce.keepdims => bits("lax.bitwise_or", 0),
            ReduceKind::LogSumExp => format!("jax.nn.logsumexp({x}, axis={axes}{keep})"),
            ReduceKind::Mean | ReduceKind::L2 | ReduceKind::And | ReduceKind::Or => return None,
        })
    }

    /// A reduction of a tile along one axis after the other, as a compiler of kernels takes it.
    fn reduce_in_turn(&mut self, x: &str, reduce: &Reduce, axes: &[usize]) -> Option<String> {
        let to = self.ty()?.dtype;
        let function = match reduce.kind {
            ReduceKind::Mean if !to.is_float() => return None,
            ReduceKind::Mean => "jnp.mean",
            ReduceKind::Max => "jnp.max",
            ReduceKind::Min => "jnp.min",
            ReduceKind::Prod => self.helper("_product"),
            ReduceKind::LogSumExp | ReduceKind::And | ReduceKind::Or => return None,
            _ => "jnp.sum",
        };
        let wide = match reduce.kind {
            ReduceKind::Max | ReduceKind::Min => to,
            _ => wide(to),
        };
        let x = if wide == to {
            x.to_owned()
        } else {
            format!("{x}.astype({})", dtype(wide))
        };
        let of = match reduce.kind {
            ReduceKind::L1 => format!("jnp.abs({x})"),
            ReduceKind::SumSquare | ReduceKind::L2 => format!("lax.square({x})"),
            _ => x,
        };
        let along = self.helper("_along");
        let (axes, keep) = (tuple(axes), python_bool(reduce.keepdims));
        let all = format!("{along}({function}, {of}, {axes}, {keep})");
        let all = match reduce.kind {
            ReduceKind::L2 if to.is_float() => format!("jnp.sqrt({all})"),
            ReduceKind::L2 => return None,
            ReduceKind::LogSum => format!("jnp.log({all})"),
            _ => all,
        };
        Some(match wide == to {
            true => all,
            false => format!("{all}.astype({})", dtype(to)),
        })
    }

    pub(super) fn arg_max(&self) -> Option<String> {
        let arg = self.typed::<ArgMax>()?;
        let axis = arg.along(self.op()).ok()?;
        self.arg_extreme("argmax", axis, arg.keepdims, arg.select_last_index)
    }

    pub(super) fn arg_min(&self) -> Option<String> {
        let arg = self.typed::<ArgMin>()?;
        let axis = arg.along(self.op()).ok()?;
        self.arg_extreme("argmin", axis, arg.keepdims, arg.select_last_index)
    }

    /// The first position of the extreme element; `jnp` cannot find the last one.
    pub(super) fn arg_extreme(
        &self,
        function: &str,
        axis: usize,
        keep: bool,
        last: bool,
    ) -> Option<String> {
        let (x, keep) = (self.arg(0)?, keeping(keep));
        let to = dtype(self.ty()?.dtype);
        (!last).then(|| format!("jnp.{function}({x}, axis={axis}{keep}).astype({to})"))
    }

    pub(super) fn cumprod(&mut self) -> Option<String> {
        let products = self.typed::<Cumprod>()?;
        let axis = products.along(self.op()).ok()?;
        self.running(
            ["_cumprod", "jnp.multiply, 1"],
            axis,
            products.exclusive,
            products.reverse,
        )
    }

    pub(super) fn cumsum(&mut self) -> Option<String> {
        let sums = self.typed::<Cumsum>()?;
        let axis = sums.along(self.op()).ok()?;
        self.running(
            ["_cumsum", "jnp.add, 0"],
            axis,
            sums.exclusive,
            sums.reverse,
        )
    }

    /// Running numbers by a helper on whole values; on tiles by their combination and its neutral element.
    fn running(
        &mut self,
        [whole, tile]: [&'static str; 2],
        axis: usize,
        exclusive: bool,
        reverse: bool,
    ) -> Option<String> {
        let (exclusive, reverse) = (python_bool(exclusive), python_bool(reverse));
        let how = match self.site.tile {
            true => format!("{}({tile}, ", self.helper("_running")),
            false => format!("{}(", self.helper(whole)),
        };
        let x = self.arg(0)?;
        Some(format!("{how}{x}, {axis}, {exclusive}, {reverse})"))
    }

    pub(super) fn softmax(&mut self) -> Option<String> {
        let axis = self.typed::<Softmax>()?.along(self.op()).ok()?;
        let softmax = self.helper("_softmax");
        Some(format!("{softmax}({}, {axis})", self.arg(0)?))
    }

    pub(super) fn log_softmax(&self) -> Option<String> {
        let axis = self.typed::<LogSoftmax>()?.along(self.op()).ok()?;
        Some(format!("jax.nn.log_softmax({}, axis={axis})", self.arg(0)?))
    }

    pub(super) fn layer_norm(&mut self) -> Option<String> {
        let norm = self.typed::<LayerNorm>()?;
        let axis = norm.first_axis(self.op()).ok()?;
        self.last_norm(axis, norm.epsilon, true)
    }

    pub(super) fn rms_norm(&mut self) -> Option<String> {
        let norm = self.typed::<RmsNorm>()?;
        let axis = norm.first_axis(self.op()).ok()?;
        self.last_norm(axis, norm.epsilon, false)
    }

    /// A normalization over the dimensions from `axis` on.
    pub(super) fn last_norm(&mut self, axis: usize, epsilon: f64, center: bool) -> Option<String> {
        let axes = tuple(axis..self.ty()?.rank());
        let (epsilon, center) = (float(epsilon), python_bool(center));
        let to = self.ty()?.dtype;
        let norm = self.helper("_norm");
        let mut text = format!("{norm}({}, {axes}, {epsilon}, {center})", self.arg(0)?);
        if let Some(scale) = self.arg(1) {
            text = format!("{text} * {scale}");
        }
        if let Some(bias) = self.arg(2) {
            text = format!("{text} + {bias}");
        }
        Some(if to == DType::F32 {
            text
        } else {
            format!("({text}).astype({})", dtype(to))
        })
    }

    /// Operand `i`, with one element for each channel, reshaped to broadcast.
    pub(super) fn channel(&mut self, i: usize) -> Option<String> {
        let spatial = self.spatial()?;
        if self.site.tile {
            let column = self.helper("_column");
            return Some(format!("{column}({}, {spatial})", self.arg(i)?));
        }
        Some(along_channels(self.arg(i)?, spatial))
    }

    pub(super) fn batch_norm(&mut self) -> Option<String> {
        let epsilon = float(self.typed::<BatchNorm>()?.epsilon);
        let mut of = |i: usize| self.channel(i);
        let (scale, bias, mean, variance) = (of(1)?, of(2)?, of(3)?, of(4)?);
        let x = self.arg(0)?;
        let to = self.ty()?.dtype;
        let text = format!("({x} - {mean}) * lax.rsqrt({variance} + {epsilon}) * {scale} + {bias}");
        Some(if to == DType::F32 {
            text
        } else {
            format!("({text}).astype({})", dtype(to))
        })
    }

    pub(super) fn instance_norm(&mut self) -> Option<String> {
        let epsilon = float(self.typed::<InstanceNorm>()?.epsilon);
        let axes = tuple(2..self.ty()?.rank());
        let norm = self.helper("_norm");
        let normal = format!("{norm}({}, {axes}, {epsilon}, True)", self.arg(0)?);
        self.of_channels(&normal)
    }

    pub(super) fn group_norm(&mut self) -> Option<String> {
        let group_norm = self.typed::<GroupNorm>()?;
        let (groups, epsilon) = (group_norm.groups().ok()?, float(group_norm.epsilon));
        let shape = self.site.operands.first()?;
        let [batch, channels, spatial @ ..] = shape.as_slice() else {
            return None;
        };
        if !channels.is_multiple_of(groups) {
            return None;
        }
        let inner = tuple([&[*batch, groups, channels / groups], spatial].concat());
        let (axes, shape) = (tuple(2..=shape.len()), tuple(shape));
        let norm = self.helper("_norm");
        let x = self.arg(0)?;
        self.of_channels(&format!(
            "{norm}({x}.reshape{inner}, {axes}, {epsilon}, True).reshape{shape}"
        ))
    }

    /// A normalized value, multiplied by the scale and shifted by the bias of each channel.
    pub(super) fn of_channels(&mut self, normal: &str) -> Option<String> {
        let (scale, bias) = (self.channel(1)?, self.channel(2)?);
        let to = dtype(self.ty()?.dtype);
        Some(format!("({normal} * {scale} + {bias}).astype({to})"))
    }
}
