//! The form of each operation in `jnp`, on whole values and on tiles.

use super::form::{Form, Site, Written};
use optc_ir::Operation;
use optc_ops::{
    Abs, Acos, Acosh, Add, And, ArgMax, ArgMin, Asin, Asinh, Atan, Atan2, Atanh, AvgPool,
    BatchNorm, BitAnd, BitOr, BitXor, BitcastConvert, Broadcast, Cast, Cbrt, Ceil, Celu, Clamp,
    Compare, Concat, Conv, Cos, Cosh, Cumprod, Cumsum, DepthToSpace, Dequantize, Div, DotGeneral,
    DynamicUpdateSlice, Einsum, Elu, Erf, Erfc, Exp, Expm1, Flatten, Floor, Gather, GatherElements,
    GatherNd, Gelu, GroupNorm, HardSigmoid, HardSwish, Identity, InstanceNorm, Iota, IsInf, IsNan,
    LayerNorm, LayoutConvert, LeakyRelu, Linear, Log, Log1p, LogSoftmax, Matmul, Max, MaxPool, Min,
    Mish, Mod, Mul, Neg, Not, OneHot, Or, Pad, Pow, Prelu, Quantize, Reciprocal, Reduce, Relu,
    Reshape, Resize, RmsNorm, RotaryEmbedding, Round, Rsqrt, ScatterElements, ScatterNd, Select,
    Selu, ShiftLeft, ShiftRight, Sigmoid, Sign, Silu, Sin, Sinh, Slice, Softmax, Softplus,
    Softsign, SpaceToDepth, Split, Sqrt, Squeeze, Sub, Subview, Tan, Tanh, ThresholdedRelu, Tile,
    TopK, Transpose, Trilu, Unsqueeze, Xor,
};
use std::collections::BTreeSet;

/// Operations with one operand; `{}` is the placeholder for it.
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
    (Erfc::NAME, "lax.erfc({})"),
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

/// Operations with two operands.
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

/// Writes the operation on `args`; `None` if it has no form here.
pub(super) fn write(site: &Site<'_>, args: &[String]) -> Option<Written> {
    let mut form = Form {
        site,
        args,
        helpers: BTreeSet::new(),
    };
    let results = form.results()?;
    Some(Written {
        results,
        helpers: form.helpers,
    })
}

impl Form<'_> {
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

    /// Element-wise operations that are in no table.
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

    /// Operations that combine several elements into one.
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

    /// Operations that move elements, and those that create values without operands.
    fn moved(&mut self) -> Option<String> {
        match self.op().name {
            Reshape::NAME | Squeeze::NAME | Unsqueeze::NAME | Flatten::NAME => self.reshape(),
            Transpose::NAME => self.transpose(),
            Broadcast::NAME => self.broadcast(),
            Tile::NAME => self.tile(),
            Concat::NAME => self.concat(),
            Slice::NAME => self.slice(),
            Subview::NAME => self.subview(),
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
}
