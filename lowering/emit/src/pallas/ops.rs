//! What each operation is in `jnp`, on whole values and on tiles of them.

use super::words::{dtype, element, float, tuple, wide};
use optc_ir::{DType, OpRef, Operation, TensorType};
use optc_ops::{
    Abs, Acos, Acosh, Add, And, Approximate, ArgMax, ArgMin, Asin, Asinh, Atan, Atan2, Atanh,
    AvgPool, BatchNorm, BitAnd, BitOr, BitXor, BitcastConvert, Broadcast, Cast, Cbrt, Ceil, Celu,
    Clamp, Compare, Concat, Conv, Cos, Cosh, Cumprod, Cumsum, DepthToSpace, Dequantize, Direction,
    Div, DotGeneral, DynamicUpdateSlice, Einsum, Elu, Erf, Exp, Expm1, Flatten, Floor, Gather,
    GatherElements, GatherNd, Gelu, GroupNorm, HardSigmoid, HardSwish, Identity, InstanceNorm,
    Interpolation, Iota, IsInf, IsNan, LayerNorm, LayoutConvert, LeakyRelu, Linear, Log, Log1p,
    LogSoftmax, Matmul, Max, MaxPool, Min, Mish, Mod, Mul, Neg, Not, OneHot, Or, Pad, PadAmounts,
    PadMode, PadValue, Pow, Prelu, Quantize, Reciprocal, Reduce, ReduceKind, Relu, Reshape, Resize,
    RmsNorm, RotaryEmbedding, Round, Rsqrt, ScatterElements, ScatterNd, ScatterReduction, Select,
    Selu, ShiftLeft, ShiftRight, Sigmoid, Sign, Silu, Sin, Sinh, Slice, SlicePart, Slide, Softmax,
    Softplus, Softsign, SpaceToDepth, Split, Sqrt, Squeeze, Sub, Tan, Tanh, ThresholdedRelu, Tile,
    TopK, Transpose, Trilu, Unsqueeze, Xor,
};
use std::collections::BTreeSet;

/// An operation on values of these extents.
pub(super) struct Site<'a> {
    /// The operation with the types of its whole operands and results.
    pub(super) op: &'a OpRef<'a>,
    /// The extents of each operand as it is here.
    pub(super) operands: Vec<Vec<u64>>,
    /// The extents of each result as it is here.
    pub(super) results: Vec<Vec<u64>>,
    /// Whether these are tiles.
    pub(super) tile: bool,
    /// The padding of windows that is not in the operands yet, begin and end a spatial dimension;
    /// that of the attributes when absent.
    pub(super) pads: Option<Vec<(i64, i64)>>,
}

/// The expressions of the results, and the helpers that they use.
pub(super) struct Written {
    pub(super) results: Vec<String>,
    pub(super) helpers: BTreeSet<&'static str>,
}

/// Operations of one operand, as a text with `{}` for it.
const UNARY: &[(&str, &str)] = &[
    (Abs::NAME, "jnp.abs({})"),
    (Acos::NAME, "jnp.arccos({})"),
    (Acosh::NAME, "jnp.arccosh({})"),
    (Asin::NAME, "jnp.arcsin({})"),
    (Asinh::NAME, "jnp.arcsinh({})"),
    (Atan::NAME, "jnp.arctan({})"),
    (Atanh::NAME, "jnp.arctanh({})"),
    (Cbrt::NAME, "jnp.cbrt({})"),
    (Ceil::NAME, "jnp.ceil({})"),
    (Cos::NAME, "jnp.cos({})"),
    (Cosh::NAME, "jnp.cosh({})"),
    (Erf::NAME, "lax.erf({})"),
    (Exp::NAME, "jnp.exp({})"),
    (Expm1::NAME, "jnp.expm1({})"),
    (Floor::NAME, "jnp.floor({})"),
    (HardSwish::NAME, "{} * jnp.clip({} / 6.0 + 0.5, 0.0, 1.0)"),
    (Identity::NAME, "{}"),
    (IsInf::NAME, "jnp.isinf({})"),
    (IsNan::NAME, "jnp.isnan({})"),
    (LayoutConvert::NAME, "{}"),
    (Log::NAME, "jnp.log({})"),
    (Log1p::NAME, "jnp.log1p({})"),
    (Mish::NAME, "{} * jnp.tanh(jnp.logaddexp({}, 0.0))"),
    (Neg::NAME, "-{}"),
    (Not::NAME, "~{}"),
    (Reciprocal::NAME, "1.0 / {}"),
    (Relu::NAME, "jnp.maximum({}, 0)"),
    (Round::NAME, "jnp.round({})"),
    (Rsqrt::NAME, "lax.rsqrt({})"),
    (Sigmoid::NAME, "jax.nn.sigmoid({})"),
    (Sign::NAME, "jnp.sign({})"),
    (Silu::NAME, "{} * jax.nn.sigmoid({})"),
    (Sin::NAME, "jnp.sin({})"),
    (Sinh::NAME, "jnp.sinh({})"),
    (Softplus::NAME, "jnp.logaddexp({}, 0.0)"),
    (Softsign::NAME, "{} / (1.0 + jnp.abs({}))"),
    (Sqrt::NAME, "jnp.sqrt({})"),
    (Tan::NAME, "jnp.tan({})"),
    (Tanh::NAME, "jnp.tanh({})"),
];

/// Operations of two operands.
const BINARY: &[(&str, &str)] = &[
    (Add::NAME, "+"),
    (Sub::NAME, "-"),
    (Mul::NAME, "*"),
    (And::NAME, "&"),
    (Or::NAME, "|"),
    (Xor::NAME, "^"),
    (BitAnd::NAME, "&"),
    (BitOr::NAME, "|"),
    (BitXor::NAME, "^"),
];

/// The operation on `args`; `None` if it has no form here.
pub(super) fn write(site: &Site<'_>, args: &[String]) -> Option<Written> {
    let mut writer = Writer {
        site,
        args,
        helpers: BTreeSet::new(),
    };
    let results = writer.results()?;
    Some(Written {
        results,
        helpers: writer.helpers,
    })
}

/// The padding that windows state, begin and end a spatial dimension.
pub(super) fn stated_pads(slides: &[Slide]) -> Vec<(i64, i64)> {
    slides.iter().map(|s| (int(s.low), int(s.high))).collect()
}

/// A value of one element a channel, as it broadcasts over spatial dimensions.
pub(super) fn along_channels(text: &str, spatial: usize) -> String {
    let ones = std::iter::repeat_n("1", spatial);
    format!("{text}.reshape{}", tuple(["-1"].into_iter().chain(ones)))
}

fn int(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn python_bool(flag: bool) -> &'static str {
    if flag { "True" } else { "False" }
}

/// Padding as a tuple of pairs.
fn pairs(pads: &[(i64, i64)]) -> String {
    tuple(pads.iter().map(|(a, b)| tuple([*a, *b])))
}

/// One number a window.
fn each(slides: &[Slide], of: impl Fn(&Slide) -> usize) -> String {
    tuple(slides.iter().map(of))
}

/// The keyword of a reduction that keeps its axes.
fn keeping(keepdims: bool) -> &'static str {
    if keepdims { ", keepdims=True" } else { "" }
}

struct Writer<'a> {
    site: &'a Site<'a>,
    args: &'a [String],
    helpers: BTreeSet<&'static str>,
}

impl Writer<'_> {
    fn op(&self) -> &OpRef<'_> {
        self.site.op
    }
    /// Its attributes.
    fn typed<T: Operation>(&self) -> Option<T> {
        T::of(self.op()).ok()
    }
    fn ty(&self) -> Option<&TensorType> {
        self.op().result(0).ok()
    }
    fn operand(&self, i: usize) -> Option<&TensorType> {
        self.op().operand(i).ok()
    }
    fn arg(&self, i: usize) -> Option<&str> {
        self.args.get(i).map(String::as_str)
    }
    fn helper(&mut self, name: &'static str) -> &'static str {
        self.helpers.insert(name);
        name
    }
    fn extents(&self) -> Option<String> {
        self.site.results.first().map(tuple)
    }
    fn spatial(&self) -> Option<usize> {
        self.ty()?.rank().checked_sub(2)
    }
    fn is_float(&self) -> bool {
        self.ty().is_some_and(|ty| ty.dtype.is_float())
    }
    fn is_bool(&self) -> bool {
        self.ty().is_some_and(|ty| ty.dtype.is_bool())
    }

    fn results(&mut self) -> Option<Vec<String>> {
        match self.op().name {
            Split::NAME => self.split(),
            TopK::NAME => self.top_k(),
            _ => self.one().map(|text| vec![text]),
        }
    }

    fn one(&mut self) -> Option<String> {
        let name = self.op().name;
        if let Some((_, form)) = UNARY.iter().find(|(n, _)| *n == name) {
            return Some(form.replace("{}", self.arg(0)?));
        }
        if let Some((_, sign)) = BINARY.iter().find(|(n, _)| *n == name) {
            return self.binary(sign);
        }
        let form = self.elementwise();
        let form = form.or_else(|| self.combined());
        form.or_else(|| self.moved())
    }

    /// The element-wise operations that no table has.
    fn elementwise(&mut self) -> Option<String> {
        match self.op().name {
            Gelu::NAME => self.gelu(),
            Div::NAME if self.is_float() => self.binary("/"),
            Div::NAME => self.call2_of("_int_div"),
            Atan2::NAME => self.call2("jnp.arctan2"),
            Pow::NAME if self.is_float() => self.call2("jnp.power"),
            Pow::NAME => self.call2_of("_int_pow"),
            Max::NAME if self.is_bool() => self.binary("|"),
            Max::NAME => self.call2("jnp.maximum"),
            Min::NAME if self.is_bool() => self.binary("&"),
            Min::NAME => self.call2("jnp.minimum"),
            Mod::NAME => self.modulo(),
            ShiftLeft::NAME => self.shift_left(),
            ShiftRight::NAME => self.shift_right(),
            Prelu::NAME => self.prelu(),
            Compare::NAME => self.compare(),
            Select::NAME => self.select(),
            BitcastConvert::NAME => self.bitcast_convert(),
            Cast::NAME => self.cast(),
            Clamp::NAME => self.clamp(),
            LeakyRelu::NAME => self.leaky_relu(),
            Elu::NAME => self.elu(),
            Celu::NAME => self.celu(),
            Selu::NAME => self.selu(),
            HardSigmoid::NAME => self.hard_sigmoid(),
            ThresholdedRelu::NAME => self.thresholded_relu(),
            Quantize::NAME => self.quantize(),
            Dequantize::NAME => self.dequantize(),
            _ => None,
        }
    }

    fn bitcast_convert(&self) -> Option<String> {
        let (x, to) = (self.arg(0)?, dtype(self.ty()?.dtype));
        Some(format!("lax.bitcast_convert_type({x}, {to})"))
    }

    /// Operations that make one element of several.
    fn combined(&mut self) -> Option<String> {
        match self.op().name {
            Matmul::NAME => self.matmul(),
            Linear::NAME => self.linear(),
            DotGeneral::NAME => self.dot_general(),
            Einsum::NAME => self.einsum(),
            Conv::NAME => self.conv(),
            Resize::NAME if !self.site.tile => self.resize(),
            RotaryEmbedding::NAME if !self.site.tile => self.rotary(),
            MaxPool::NAME => self.max_pool(),
            AvgPool::NAME => self.avg_pool(),
            Reduce::NAME => self.reduce(),
            ArgMax::NAME => self.arg_max(),
            ArgMin::NAME => self.arg_min(),
            Cumprod::NAME => self.cumprod(),
            Cumsum::NAME => self.cumsum(),
            Softmax::NAME => self.softmax(),
            LogSoftmax::NAME => self.log_softmax(),
            LayerNorm::NAME => self.layer_norm(),
            RmsNorm::NAME => self.rms_norm(),
            BatchNorm::NAME => self.batch_norm(),
            InstanceNorm::NAME => self.instance_norm(),
            GroupNorm::NAME => self.group_norm(),
            _ => None,
        }
    }

    /// Operations that put elements elsewhere, and those that make them of nothing.
    fn moved(&mut self) -> Option<String> {
        match self.op().name {
            Reshape::NAME | Squeeze::NAME | Unsqueeze::NAME | Flatten::NAME => self.reshape(),
            Transpose::NAME => self.transpose(),
            Broadcast::NAME => self.broadcast(),
            Tile::NAME => self.tile(),
            Concat::NAME => self.concat(),
            Slice::NAME => self.slice(),
            Pad::NAME => self.pad(),
            Gather::NAME => self.gather(),
            GatherElements::NAME => self.gather_elements(),
            GatherNd::NAME => self.gather_nd(),
            DynamicUpdateSlice::NAME => self.dynamic_update_slice(),
            ScatterNd::NAME => self.scatter_nd(),
            ScatterElements::NAME => self.scatter_elements(),
            DepthToSpace::NAME if !self.site.tile => self.blocks(&self.typed::<DepthToSpace>()?),
            SpaceToDepth::NAME if !self.site.tile => self.blocks(&self.typed::<SpaceToDepth>()?),
            OneHot::NAME => self.one_hot(),
            Iota::NAME => self.iota(),
            Trilu::NAME => self.trilu(),
            _ => None,
        }
    }

    fn binary(&self, sign: &str) -> Option<String> {
        Some(format!("{} {sign} {}", self.arg(0)?, self.arg(1)?))
    }

    fn call2(&self, function: &str) -> Option<String> {
        Some(format!("{function}({}, {})", self.arg(0)?, self.arg(1)?))
    }

    /// Of two operands, by a function of the module's own.
    fn call2_of(&mut self, helper: &'static str) -> Option<String> {
        let function = self.helper(helper);
        self.call2(function)
    }

    fn gelu(&mut self) -> Option<String> {
        Some(match self.typed::<Gelu>()?.approximate {
            Approximate::Tanh => format!("jax.nn.gelu({}, approximate=True)", self.arg(0)?),
            Approximate::None => format!("{}({})", self.helper("_gelu"), self.arg(0)?),
        })
    }

    fn modulo(&mut self) -> Option<String> {
        match (self.typed::<Mod>()?.fmod, self.is_float()) {
            (true, true) => self.call2("jnp.fmod"),
            (true, false) => self.call2_of("_int_rem"),
            (false, true) => self.call2("jnp.mod"),
            (false, false) => self.call2_of("_int_mod"),
        }
    }

    fn shift_left(&self) -> Option<String> {
        let (a, b, bits) = (self.arg(0)?, self.arg(1)?, self.ty()?.dtype.bits());
        let last = bits - 1;
        Some(format!(
            "jnp.where((0 <= {b}) & ({b} < {bits}), jnp.left_shift({a}, jnp.clip({b}, 0, {last})), 0)"
        ))
    }

    fn shift_right(&self) -> Option<String> {
        let (a, b, bits) = (self.arg(0)?, self.arg(1)?, self.ty()?.dtype.bits());
        let last = bits - 1;
        Some(format!(
            "jnp.right_shift({a}, jnp.where(({b} < 0) | ({bits} <= {b}), {last}, {b}))"
        ))
    }

    fn prelu(&self) -> Option<String> {
        let (x, slope) = (self.arg(0)?, self.arg(1)?);
        Some(format!("jnp.where({x} < 0, {slope} * {x}, {x})"))
    }

    fn compare(&self) -> Option<String> {
        self.binary(match self.typed::<Compare>()?.direction {
            Direction::Eq => "==",
            Direction::Ne => "!=",
            Direction::Lt => "<",
            Direction::Le => "<=",
            Direction::Gt => ">",
            Direction::Ge => ">=",
        })
    }

    fn select(&self) -> Option<String> {
        let (c, a, b) = (self.arg(0)?, self.arg(1)?, self.arg(2)?);
        Some(format!("jnp.where({c}, {a}, {b})"))
    }

    fn cast(&self) -> Option<String> {
        let (x, from, to) = (self.arg(0)?, self.operand(0)?.dtype, self.ty()?.dtype);
        if to.is_bool() {
            return Some(format!("{x} != 0"));
        }
        let name = dtype(to);
        if !from.is_int() && to.is_int() {
            // What lies outside of the integers saturates, NaN is 0.
            return Some(format!("jnp.nan_to_num({x}).astype({name})"));
        }
        Some(format!("{x}.astype({name})"))
    }

    fn clamp(&self) -> Option<String> {
        let bounds = self.typed::<Clamp>()?;
        let number = |x: f64| match self.is_float() {
            true => float(x),
            false => format!("{x:.0}"),
        };
        let mut text = self.arg(0)?.to_owned();
        if let Some(low) = bounds.min {
            text = format!("jnp.maximum({text}, {})", number(low));
        }
        if let Some(high) = bounds.max {
            text = format!("jnp.minimum({text}, {})", number(high));
        }
        Some(text)
    }

    fn leaky_relu(&self) -> Option<String> {
        let (x, alpha) = (self.arg(0)?, float(self.typed::<LeakyRelu>()?.alpha));
        Some(format!("jnp.where({x} < 0, {alpha} * {x}, {x})"))
    }

    fn elu(&self) -> Option<String> {
        let (x, alpha) = (self.arg(0)?, float(self.typed::<Elu>()?.alpha));
        Some(format!("jax.nn.elu({x}, {alpha})"))
    }

    fn celu(&self) -> Option<String> {
        let (x, alpha) = (self.arg(0)?, float(self.typed::<Celu>()?.alpha));
        Some(format!("jax.nn.celu({x}, {alpha})"))
    }

    fn selu(&self) -> Option<String> {
        let (x, Selu { alpha, gamma }) = (self.arg(0)?, self.typed()?);
        let (alpha, gamma) = (float(alpha), float(gamma));
        Some(format!("{gamma} * jax.nn.elu({x}, {alpha})"))
    }

    fn hard_sigmoid(&self) -> Option<String> {
        let (x, HardSigmoid { alpha, beta }) = (self.arg(0)?, self.typed()?);
        let (alpha, beta) = (float(alpha), float(beta));
        Some(format!("jnp.clip({alpha} * {x} + {beta}, 0.0, 1.0)"))
    }

    fn thresholded_relu(&self) -> Option<String> {
        let (x, alpha) = (self.arg(0)?, float(self.typed::<ThresholdedRelu>()?.alpha));
        Some(format!("jnp.where({x} > {alpha}, {x}, 0.0)"))
    }

    fn quantize(&mut self) -> Option<String> {
        let axis = self.typed::<Quantize>()?.along(self.op()).ok()?;
        let (scale, zero) = self.scale_and_zero(axis)?;
        let (x, to) = (self.arg(0)?.to_owned(), dtype(self.ty()?.dtype));
        let quantize = self.helper("_quantize");
        Some(format!("{quantize}({x}, {scale}, {zero}, {to})"))
    }

    fn dequantize(&self) -> Option<String> {
        let axis = self.typed::<Dequantize>()?.along(self.op()).ok()?;
        let (scale, zero) = self.scale_and_zero(axis)?;
        let (x, to) = (self.arg(0)?, dtype(self.ty()?.dtype));
        Some(format!(
            "({x}.astype(jnp.float32) - {zero}.astype(jnp.float32)).astype({to}) * {scale}"
        ))
    }

    /// Scale and zero point as they broadcast.
    fn scale_and_zero(&self, axis: Option<usize>) -> Option<(String, String)> {
        let rank = self.operand(0)?.rank();
        let parameter = |i: usize| -> Option<String> {
            let text = self.arg(i)?;
            if self.operand(i)?.rank() == 0 {
                return Some(text.to_owned());
            }
            let shape = (0..rank).map(|d| if Some(d) == axis { "-1" } else { "1" });
            Some(format!("{text}.reshape{}", tuple(shape)))
        };
        let zero = match self.arg(2) {
            Some(_) => parameter(2)?,
            None => "jnp.int32(0)".to_owned(),
        };
        Some((parameter(1)?, zero))
    }

    /// The keyword for the type of sums, and what brings the sum to the result's type.
    fn sums(&self) -> Option<(String, String)> {
        let to = self.ty()?.dtype;
        let wide = wide(to);
        let exact = if wide.is_float() {
            ", precision=lax.Precision.HIGHEST"
        } else {
            ""
        };
        let keyword = format!("{exact}, preferred_element_type={}", dtype(wide));
        let back = if wide == to {
            String::new()
        } else {
            format!(".astype({})", dtype(to))
        };
        Some((keyword, back))
    }

    fn matmul(&self) -> Option<String> {
        let (sums, back) = self.sums()?;
        let (a, b) = (self.arg(0)?, self.arg(1)?);
        Some(format!("jnp.matmul({a}, {b}{sums}){back}"))
    }

    fn linear(&self) -> Option<String> {
        let (sums, back) = self.sums()?;
        let (x, w) = (self.arg(0)?, self.arg(1)?);
        let last = self.operand(0)?.rank().checked_sub(1)?;
        let product = format!("lax.dot_general({x}, {w}, ((({last},), (1,)), ((), ())){sums})");
        Some(match self.arg(2) {
            None => format!("{product}{back}"),
            Some(bias) if back.is_empty() => format!("{product} + {bias}"),
            Some(bias) => format!("({product} + {bias}){back}"),
        })
    }

    fn dot_general(&self) -> Option<String> {
        let (sums, back) = self.sums()?;
        let pairing = self.typed::<DotGeneral>()?.pairing(self.op()).ok()?;
        let dims = format!(
            "(({}, {}), ({}, {}))",
            tuple(pairing.lhs_contract),
            tuple(pairing.rhs_contract),
            tuple(pairing.lhs_batch),
            tuple(pairing.rhs_batch)
        );
        let (a, b) = (self.arg(0)?, self.arg(1)?);
        Some(format!("lax.dot_general({a}, {b}, {dims}{sums}){back}"))
    }

    fn einsum(&self) -> Option<String> {
        let (sums, back) = self.sums()?;
        let equation = self.typed::<Einsum>()?.equation;
        let all = self.args.join(", ");
        Some(format!("jnp.einsum(\"{equation}\", {all}{sums}){back}"))
    }

    /// The padding that is not in the operand yet.
    fn pads(&self, slides: &[Slide]) -> Vec<(i64, i64)> {
        let left = self.site.pads.clone();
        left.unwrap_or_else(|| stated_pads(slides))
    }

    /// Element by element of one dimension after the other, from tables of what is read.
    fn resize(&mut self) -> Option<String> {
        let to = self.ty()?.dtype;
        let all = self.typed::<Resize>()?.interpolations(self.op())?;
        let nearest = all.iter().flat_map(|i| &i.taps).all(|t| t.len() == 1);
        if !nearest && !to.is_float() {
            return None;
        }
        let mut text = self.arg(0)?.to_owned();
        let list = |items: Vec<String>| format!("[{}]", items.join(", "));
        for Interpolation { axis, taps } in all {
            if nearest {
                let places = taps.iter().map(|t| t[0].0.to_string()).collect();
                text = format!("jnp.take({text}, np.array({}), axis={axis})", list(places));
                continue;
            }
            let most = taps.iter().map(Vec::len).max().unwrap_or(0);
            let column = |k: usize| -> (Vec<String>, Vec<String>) {
                let of = |t: &Vec<(usize, f64)>| t.get(k).copied().unwrap_or((0, 0.0));
                let pairs = taps.iter().map(of);
                pairs.map(|(i, w)| (i.to_string(), w.to_string())).unzip()
            };
            let columns = (0..most).map(column);
            let columns = columns.map(|(i, w)| format!("({}, {})", list(i), list(w)));
            let resize = self.helper("_resize");
            text = format!("{resize}({text}, {axis}, {})", list(columns.collect()));
        }
        Some(match nearest {
            true => text,
            false => format!("({text}).astype({})", dtype(to)),
        })
    }

    fn rotary(&mut self) -> Option<String> {
        let embedding = self.typed::<RotaryEmbedding>()?;
        let axis = embedding.sequence().ok()?;
        let size = embedding.rotated(self.op()).ok()??;
        let interleaved = python_bool(embedding.interleaved);
        let positions = self.arg(3).unwrap_or("None").to_owned();
        let rotary = self.helper("_rotary");
        let (x, cos, sin) = (self.arg(0)?, self.arg(1)?, self.arg(2)?);
        Some(format!(
            "{rotary}({x}, {cos}, {sin}, {positions}, {axis}, {size}, {interleaved})"
        ))
    }

    fn conv(&mut self) -> Option<String> {
        let conv = self.typed::<Conv>()?;
        let slides = conv.slides(self.op()).ok()?;
        if !conv.transposed {
            return self.convolution("_conv", &conv, &slides, &self.pads(&slides));
        }
        if self.site.tile {
            return None;
        }
        let extra = conv.output_paddings(self.op()).ok()?;
        let padding = self.pads(&slides).into_iter().zip(&slides).zip(extra);
        let pads: Vec<(i64, i64)> = padding
            .map(|(((low, high), slide), extra)| {
                let reach = int(slide.span()) - 1;
                (reach - low, reach - high + int(extra))
            })
            .collect();
        self.convolution("_conv_transposed", &conv, &slides, &pads)
    }

    /// A convolution by a function of the module's own, plus the bias, one number a channel, where there is
    /// one.
    fn convolution(
        &mut self,
        helper: &'static str,
        conv: &Conv,
        slides: &[Slide],
        pads: &[(i64, i64)],
    ) -> Option<String> {
        let (strides, dilations) = (each(slides, |s| s.stride), each(slides, |s| s.dilation));
        let (pads, groups) = (pairs(pads), conv.groups().ok()?);
        let to = dtype(self.ty()?.dtype);
        let conv = self.helper(helper);
        let (x, w) = (self.arg(0)?, self.arg(1)?);
        let text = format!("{conv}({x}, {w}, {strides}, {pads}, {dilations}, {groups}, {to})");
        Some(match self.arg(2) {
            None => text,
            Some(bias) => format!("{text} + {}", along_channels(bias, slides.len())),
        })
    }

    /// The padding with which a pooling has exactly the result's windows: with `ceil_mode` the last one may
    /// reach beyond what is stated.
    fn reached_pads(&self, slides: &[Slide]) -> Option<Vec<(i64, i64)>> {
        let mut pads = self.pads(slides);
        for (d, (pad, slide)) in pads.iter_mut().zip(slides).enumerate() {
            let size = i64::try_from(*self.site.operands.first()?.get(d + 2)?).ok()?;
            let windows = i64::try_from(*self.site.results.first()?.get(d + 2)?).ok()?;
            let reach = (windows - 1) * int(slide.stride) + int(slide.span());
            pad.1 = reach - size - pad.0;
        }
        let short = pads.iter().any(|(_, high)| *high < 0);
        (!short || !self.site.tile).then_some(pads)
    }

    /// All windows of `x`, combined from `start` on.
    fn windows(
        &mut self,
        [x, start, combine]: [&str; 3],
        slides: &[Slide],
        pads: &[(i64, i64)],
    ) -> String {
        let (kernel, strides) = (each(slides, |s| s.kernel), each(slides, |s| s.stride));
        let (pads, dilations) = (pairs(pads), each(slides, |s| s.dilation));
        let pool = self.helper("_pool");
        format!("{pool}({x}, {start}, {combine}, {kernel}, {strides}, {pads}, {dilations})")
    }

    fn max_pool(&mut self) -> Option<String> {
        let slides = self.typed::<MaxPool>()?.slides(self.op()).ok()?;
        let pads = self.reached_pads(&slides)?;
        let least = if self.is_float() {
            "-jnp.inf".to_owned()
        } else {
            format!("jnp.iinfo({}).min", dtype(self.ty()?.dtype))
        };
        let x = self.arg(0)?.to_owned();
        Some(self.windows([&x, &least, "lax.max"], &slides, &pads))
    }

    fn avg_pool(&mut self) -> Option<String> {
        let pool = self.typed::<AvgPool>()?;
        let slides = pool.slides(self.op()).ok()?;
        let pads = self.reached_pads(&slides)?;
        let none = stated_pads(&slides).iter().all(|p| *p == (0, 0));
        let whole = pads == self.pads(&slides) && (pool.count_include_pad || none);
        if self.site.tile && !whole {
            return None;
        }
        let x = self.arg(0)?.to_owned();
        let sum = self.windows([&x, "0", "lax.add"], &slides, &pads);
        if whole {
            let count: usize = slides.iter().map(|s| s.kernel).product();
            return Some(format!("{sum} / {count}"));
        }
        if pool.count_include_pad {
            return None;
        }
        let ones = format!("jnp.ones_like({x})");
        let counts = self.windows([&ones, "0", "lax.add"], &slides, &pads);
        Some(format!("{sum} / {counts}"))
    }

    fn reduce(&self) -> Option<String> {
        let reduce = self.typed::<Reduce>()?;
        let (x, to) = (self.arg(0)?, self.ty()?.dtype);
        let axes = tuple(reduce.reduced(self.op()).ok()?);
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

    fn arg_max(&self) -> Option<String> {
        let arg = self.typed::<ArgMax>()?;
        let axis = arg.along(self.op()).ok()?;
        self.arg_extreme("argmax", axis, arg.keepdims, arg.select_last_index)
    }

    fn arg_min(&self) -> Option<String> {
        let arg = self.typed::<ArgMin>()?;
        let axis = arg.along(self.op()).ok()?;
        self.arg_extreme("argmin", axis, arg.keepdims, arg.select_last_index)
    }

    /// The first of the extremes; `jnp` does not find the last one.
    fn arg_extreme(&self, function: &str, axis: usize, keep: bool, last: bool) -> Option<String> {
        let (x, keep) = (self.arg(0)?, keeping(keep));
        let to = dtype(self.ty()?.dtype);
        (!last).then(|| format!("jnp.{function}({x}, axis={axis}{keep}).astype({to})"))
    }

    fn cumprod(&mut self) -> Option<String> {
        let products = self.typed::<Cumprod>()?;
        let axis = products.along(self.op()).ok()?;
        let (exclusive, reverse) = (
            python_bool(products.exclusive),
            python_bool(products.reverse),
        );
        let cumprod = self.helper("_cumprod");
        let x = self.arg(0)?;
        Some(format!("{cumprod}({x}, {axis}, {exclusive}, {reverse})"))
    }

    fn cumsum(&mut self) -> Option<String> {
        let sums = self.typed::<Cumsum>()?;
        let axis = sums.along(self.op()).ok()?;
        let (exclusive, reverse) = (python_bool(sums.exclusive), python_bool(sums.reverse));
        let cumsum = self.helper("_cumsum");
        let x = self.arg(0)?;
        Some(format!("{cumsum}({x}, {axis}, {exclusive}, {reverse})"))
    }

    fn softmax(&mut self) -> Option<String> {
        let axis = self.typed::<Softmax>()?.along(self.op()).ok()?;
        let softmax = self.helper("_softmax");
        Some(format!("{softmax}({}, {axis})", self.arg(0)?))
    }

    fn log_softmax(&self) -> Option<String> {
        let axis = self.typed::<LogSoftmax>()?.along(self.op()).ok()?;
        Some(format!("jax.nn.log_softmax({}, axis={axis})", self.arg(0)?))
    }

    fn layer_norm(&mut self) -> Option<String> {
        let norm = self.typed::<LayerNorm>()?;
        let axis = norm.first_axis(self.op()).ok()?;
        self.last_norm(axis, norm.epsilon, true)
    }

    fn rms_norm(&mut self) -> Option<String> {
        let norm = self.typed::<RmsNorm>()?;
        let axis = norm.first_axis(self.op()).ok()?;
        self.last_norm(axis, norm.epsilon, false)
    }

    /// Normalized over the dimensions from `axis` on.
    fn last_norm(&mut self, axis: usize, epsilon: f64, center: bool) -> Option<String> {
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

    /// Operand `i`, which has one element a channel, as it broadcasts.
    fn channel(&self, i: usize) -> Option<String> {
        Some(along_channels(self.arg(i)?, self.spatial()?))
    }

    fn batch_norm(&self) -> Option<String> {
        let epsilon = float(self.typed::<BatchNorm>()?.epsilon);
        let of = |i: usize| self.channel(i);
        let (x, scale, bias, mean, variance) = (self.arg(0)?, of(1)?, of(2)?, of(3)?, of(4)?);
        let to = self.ty()?.dtype;
        let text = format!("({x} - {mean}) * lax.rsqrt({variance} + {epsilon}) * {scale} + {bias}");
        Some(if to == DType::F32 {
            text
        } else {
            format!("({text}).astype({})", dtype(to))
        })
    }

    fn instance_norm(&mut self) -> Option<String> {
        let epsilon = float(self.typed::<InstanceNorm>()?.epsilon);
        let axes = tuple(2..self.ty()?.rank());
        let norm = self.helper("_norm");
        let normal = format!("{norm}({}, {axes}, {epsilon}, True)", self.arg(0)?);
        self.of_channels(&normal)
    }

    fn group_norm(&mut self) -> Option<String> {
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

    /// What is normalized, with the scale and the bias of its channels.
    fn of_channels(&self, normal: &str) -> Option<String> {
        let (scale, bias) = (self.channel(1)?, self.channel(2)?);
        let to = dtype(self.ty()?.dtype);
        Some(format!("({normal} * {scale} + {bias}).astype({to})"))
    }

    fn reshape(&self) -> Option<String> {
        Some(format!("{}.reshape{}", self.arg(0)?, self.extents()?))
    }

    fn transpose(&self) -> Option<String> {
        let perm = self.typed::<Transpose>()?.permutation(self.op()).ok()?;
        Some(format!("jnp.transpose({}, {})", self.arg(0)?, tuple(perm)))
    }

    fn broadcast(&self) -> Option<String> {
        let (x, extents) = (self.arg(0)?, self.extents()?);
        Some(format!("jnp.broadcast_to({x}, {extents})"))
    }

    fn tile(&self) -> Option<String> {
        let repeats = tuple(self.typed::<Tile>()?.repeats);
        Some(format!("jnp.tile({}, {repeats})", self.arg(0)?))
    }

    fn concat(&self) -> Option<String> {
        let axis = self.typed::<Concat>()?.along(self.op()).ok()?;
        let all = self.args.join(", ");
        Some(format!("jnp.concatenate([{all}], axis={axis})"))
    }

    fn slice(&self) -> Option<String> {
        let parts = self.typed::<Slice>()?.parts(self.op()).ok()?;
        let texts = parts.iter().enumerate();
        let texts = texts.map(|(d, part)| self.slice_part(d, part));
        let texts: Vec<String> = texts.collect::<Option<_>>()?;
        if texts.iter().all(|text| text == ":") {
            return Some(self.arg(0)?.to_owned());
        }
        Some(format!("{}[{}]", self.arg(0)?, texts.join(", ")))
    }

    /// The slice of one dimension; `None` where its start is not a number.
    fn slice_part(&self, d: usize, part: &SlicePart) -> Option<String> {
        let extent = |shape: &[u64]| shape.get(d).map(|n| n.cast_signed());
        let size = extent(self.site.operands.first()?)?;
        let count = extent(self.site.results.first()?)?;
        let full = extent(&self.operand(0)?.shape()?)?;
        let all = extent(&self.ty()?.shape()?)?;
        let stride = part.stride;
        let (start, limit) = if self.site.tile && (size != full || count != all) {
            // On a tile the operand has what the slice takes, from its first element to its last.
            if (count - 1) * stride.abs() + 1 != size {
                return None;
            }
            match stride < 0 {
                true => (size - 1, -1),
                false => (0, size),
            }
        } else {
            let start = i64::try_from(part.start.as_constant()?).ok()?;
            let end = start + count * stride;
            (start, end.clamp(-1, size))
        };
        Some(match (start, limit, stride) {
            (0, n, 1) if n == size => ":".to_owned(),
            (0, n, s) if n == size => format!("::{s}"),
            (a, b, 1) => format!("{a}:{b}"),
            (a, -1, s) => format!("{a}::{s}"),
            (a, b, s) => format!("{a}:{b}:{s}"),
        })
    }

    fn split(&self) -> Option<Vec<String>> {
        let split = self.typed::<Split>()?;
        let axis = split.along(self.op()).ok()?;
        let x = self.arg(0)?;
        let mut start = 0;
        let mut all = Vec::new();
        for size in split.sizes {
            let stop = start + size;
            all.push(format!(
                "lax.slice_in_dim({x}, {start}, {stop}, axis={axis})"
            ));
            start = stop;
        }
        Some(all)
    }

    /// The greatest along the last axis; `lax` has no other.
    fn top_k(&self) -> Option<Vec<String>> {
        let top_k = self.typed::<TopK>()?;
        let axis = top_k.along(self.op()).ok()?;
        if axis + 1 != self.operand(0)?.rank() || !top_k.largest {
            return None;
        }
        let (x, k) = (self.arg(0)?, top_k.k);
        let to = dtype(self.op().result(1).ok()?.dtype);
        Some(vec![
            format!("lax.top_k({x}, {k})[0]"),
            format!("lax.top_k({x}, {k})[1].astype({to})"),
        ])
    }

    fn pad(&self) -> Option<String> {
        let pad = self.typed::<Pad>()?;
        let PadAmounts { low, high } = pad.amounts(self.op()).ok()?;
        let (x, to) = (self.arg(0)?, self.ty()?.dtype);
        if pad.mode != PadMode::Constant {
            let amounts: Vec<(i64, i64)> = low.into_iter().zip(high).collect();
            let (amounts, mode) = (pairs(&amounts), pad.mode.word());
            return Some(format!("jnp.pad({x}, {amounts}, mode=\"{mode}\")"));
        }
        let value = match pad.value {
            PadValue::Float(value) if to.is_float() => float(value),
            value => element(&value.element(to), 0)?,
        };
        let config = low.iter().zip(&high).map(|(a, b)| tuple([*a, *b, 0]));
        let (config, to) = (tuple(config), dtype(to));
        Some(format!(
            "lax.pad({x}, jnp.asarray({value}, {to}), {config})"
        ))
    }

    fn gather(&self) -> Option<String> {
        let axis = self.typed::<Gather>()?.along(self.op()).ok()?;
        let (x, i) = (self.arg(0)?, self.arg(1)?);
        Some(format!("jnp.take({x}, {i}, axis={axis})"))
    }

    fn gather_elements(&self) -> Option<String> {
        let axis = self.typed::<GatherElements>()?.along(self.op()).ok()?;
        let (x, i) = (self.arg(0)?, self.arg(1)?);
        Some(format!("jnp.take_along_axis({x}, {i}, axis={axis})"))
    }

    fn gather_nd(&mut self) -> Option<String> {
        let (batch, _) = self.typed::<GatherNd>()?.extents(self.op()).ok()?;
        let gather = self.helper("_gather_nd");
        let (x, i) = (self.arg(0)?, self.arg(1)?);
        Some(format!("{gather}({x}, {i}, {batch})"))
    }

    fn dynamic_update_slice(&self) -> Option<String> {
        let (x, update, starts) = (self.arg(0)?, self.arg(1)?, self.args.get(2..)?);
        let starts = starts
            .iter()
            .map(|start| format!("jnp.maximum({start}, 0)"));
        let starts = starts.collect::<Vec<String>>().join(", ");
        Some(format!(
            "lax.dynamic_update_slice({x}, {update}, [{starts}])"
        ))
    }

    fn scatter_nd(&self) -> Option<String> {
        let places = format!("tuple(jnp.moveaxis({}, -1, 0))", self.arg(1)?);
        self.scatter(&places, self.typed::<ScatterNd>()?.reduction)
    }

    fn scatter_elements(&mut self) -> Option<String> {
        let scatter = self.typed::<ScatterElements>()?;
        let axis = scatter.along(self.op()).ok()?;
        let places = self.helper("_element_places");
        let places = format!("{places}({}, {axis})", self.arg(1)?);
        self.scatter(&places, scatter.reduction)
    }

    /// A copy of the first operand with the updates at these places.
    fn scatter(&self, places: &str, reduction: ScatterReduction) -> Option<String> {
        let method = match reduction {
            ScatterReduction::None => "set",
            ScatterReduction::Add => "add",
            ScatterReduction::Mul => "multiply",
            ScatterReduction::Max => "max",
            ScatterReduction::Min => "min",
        };
        let (x, updates) = (self.arg(0)?, self.arg(2)?);
        Some(format!("{x}.at[{places}].{method}({updates})"))
    }

    /// Blocks that change places, as a reshape, a transpose and a reshape.
    fn blocks(&self, typed: &impl Operation) -> Option<String> {
        let map = typed.rearrangement(self.op()).ok()?;
        let shape: Option<Vec<u64>> = map.shape.iter().map(optc_ir::Dim::fixed).collect();
        let (x, inner, perm) = (self.arg(0)?, tuple(shape?), tuple(map.perm));
        let extents = self.extents()?;
        Some(format!(
            "jnp.transpose({x}.reshape{inner}, {perm}).reshape{extents}"
        ))
    }

    fn one_hot(&self) -> Option<String> {
        let one_hot = self.typed::<OneHot>()?;
        let (axis, depth) = (one_hot.along(self.op()).ok()?, one_hot.depth);
        let (x, extents) = (self.arg(0)?, self.extents()?);
        let marked = format!(
            "jnp.expand_dims({x} % {depth}, {axis}) == lax.broadcasted_iota({x}.dtype, {extents}, {axis})"
        );
        let inside = format!("jnp.expand_dims((-{depth} <= {x}) & ({x} < {depth}), {axis})");
        let (off, on) = match self.arg(1) {
            Some(values) => (format!("{values}[0]"), format!("{values}[1]")),
            None => ("0".to_owned(), "1".to_owned()),
        };
        let to = dtype(self.ty()?.dtype);
        Some(format!(
            "jnp.where(({marked}) & {inside}, {on}, {off}).astype({to})"
        ))
    }

    fn iota(&self) -> Option<String> {
        let axis = self.typed::<Iota>()?.along(self.op()).ok()?;
        let (to, extents) = (dtype(self.ty()?.dtype), self.extents()?);
        Some(format!("lax.broadcasted_iota({to}, {extents}, {axis})"))
    }

    fn trilu(&self) -> Option<String> {
        let (x, Trilu { k, upper }) = (self.arg(0)?, self.typed()?);
        let triangle = if upper { "jnp.triu" } else { "jnp.tril" };
        Some(format!("{triangle}({x}, {k})"))
    }
}
