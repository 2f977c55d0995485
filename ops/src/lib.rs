//! The operations of the `hbir` dialect, one file an operation.
//!
//! For example, `softmax.rs` has the struct `Softmax` with its attribute `axis` (-1 when absent), the constraints
//! `softmax-c1` (floats) and `softmax-c2` (an axis of the operand), the computation in `f64`, and its loops: the one
//! along the axis may be computed online.
//!
//! A file has the struct of the operation's attributes with their defaults, and everything that the compiler needs to
//! know about it: the shape rule with its numbered constraints (`operation-cN`), the reference semantics, effects,
//! loops (the layout freedom follows from them) and the bytes moved. Most element-wise operations are lines of
//! two tables, `unary` and `binary`; running sums, positions of extremes and norms of rows are tables too. Shared code has its own files: `shape` and `lists` check extents and lists,
//! `window` computes sliding windows.

mod arg;
mod avg_pool;
mod batch_norm;
mod binary;
mod bitcast_convert;
mod blocks;
mod broadcast;
mod call;
mod cast;
mod compare;
mod concat;
mod constant;
mod contract;
mod conv;
mod depth_to_space;
mod dequantize;
mod dequantize_blocks;
mod dot_general;
mod dynamic_update_slice;
mod einsum;
mod flatten;
mod func_call;
mod gather;
mod gather_elements;
mod gather_nd;
mod grid_sample;
mod group_norm;
mod instance_norm;
mod iota;
mod lanes;
mod layout_convert;
mod linear;
mod lists;
mod log_softmax;
mod matmul;
mod max_pool;
mod max_pool_indices;
mod norm;
mod one_hot;
mod opaque;
mod operator_control;
mod operator_loops;
mod operator_rows;
mod over_axes;
mod pad;
mod pool;
mod prelu;
mod prelude;
mod quantization;
mod quantize;
mod rearrange;
mod recurrent;
mod reduce;
mod reshape;
mod resize;
mod rotary_embedding;
mod running;
mod scatter;
mod scatter_elements;
mod scatter_nd;
mod select;
mod shape;
mod slice;
mod softmax;
mod space_to_depth;
mod split;
mod squeeze;
mod subview;
mod tile;
mod top_k;
mod transpose;
mod trilu;
mod unary;
mod unsqueeze;
mod view;
mod window;

pub use arg::{ArgMax, ArgMin};
pub use avg_pool::AvgPool;
pub use batch_norm::BatchNorm;
pub use binary::{
    Add, And, Atan2, BitAnd, BitOr, BitXor, Div, Max, Min, Mod, Mul, Or, Pow, ShiftLeft,
    ShiftRight, Sub, Xor,
};
pub use bitcast_convert::BitcastConvert;
pub use blocks::BlockMap;
pub use broadcast::Broadcast;
pub use call::{CallOp, Symbol};
pub use cast::Cast;
pub use compare::{Compare, Direction};
pub use concat::Concat;
pub use constant::{Constant, dense_tensor, tensor_dense};
pub use contract::Pairing;
pub use conv::Conv;
pub use depth_to_space::{DepthMode, DepthToSpace};
pub use dequantize::Dequantize;
pub use dequantize_blocks::DequantizeBlocks;
pub use dot_general::DotGeneral;
pub use dynamic_update_slice::DynamicUpdateSlice;
pub use einsum::{Einsum, Equation, Index};
pub use flatten::Flatten;
pub use func_call::MlirCall;
pub use gather::Gather;
pub use gather_elements::GatherElements;
pub use gather_nd::GatherNd;
pub use grid_sample::{GridSample, SampleMode, SamplePadding};
pub use group_norm::GroupNorm;
pub use instance_norm::InstanceNorm;
pub use iota::Iota;
pub use layout_convert::LayoutConvert;
pub use linear::Linear;
pub use lists::{ints, sizes};
pub use log_softmax::LogSoftmax;
pub use matmul::Matmul;
pub use max_pool::MaxPool;
pub use max_pool_indices::MaxPoolIndices;
pub use norm::{LayerNorm, RmsNorm};
pub use one_hot::OneHot;
pub use opaque::{Opaque, StatedEffect};
pub use operator_control::{body_attributes, with_slices};
pub use pad::{Pad, PadAmounts, PadMode, PadValue};
pub use prelu::Prelu;
pub use quantize::Quantize;
pub use rearrange::may_reshape;
pub use recurrent::{Cell, Reading, Recurrent};
pub use reduce::{Reduce, ReduceKind};
pub use reshape::Reshape;
pub use resize::{Coordinates, Interpolation, NearestMode, Resize, ResizeMode};
pub use rotary_embedding::RotaryEmbedding;
pub use running::{Cumprod, Cumsum};
pub use scatter::ScatterReduction;
pub use scatter_elements::ScatterElements;
pub use scatter_nd::ScatterNd;
pub use select::Select;
pub use slice::{Bound, Bounds, Slice, SlicePart};
pub use softmax::Softmax;
pub use space_to_depth::SpaceToDepth;
pub use split::Split;
pub use squeeze::Squeeze;
pub use subview::Subview;
pub use tile::Tile;
pub use top_k::TopK;
pub use transpose::Transpose;
pub use trilu::Trilu;
pub use unary::{
    Abs, Acos, Acosh, Approximate, Asin, Asinh, Atan, Atanh, Cbrt, Ceil, Celu, Clamp, Cos, Cosh,
    Elu, Erf, Erfc, Exp, Expm1, Floor, Gelu, HardSigmoid, HardSwish, Identity, IsInf, IsNan,
    LeakyRelu, Log, Log1p, Mish, Neg, Not, Reciprocal, Relu, Round, Rsqrt, Selu, Sigmoid, Sign,
    Silu, Sin, Sinh, Softplus, Softsign, Sqrt, Tan, Tanh, ThresholdedRelu,
};
pub use unsqueeze::Unsqueeze;
pub use view::View;
pub use window::Slide;

use optc_ir::{Code, OpDecl, Registry};
use std::sync::LazyLock;

/// Adds operations to a registry, one line an operation.
macro_rules! operations {
    ($($op:ident),* $(,)?) => {
        fn add_all(registry: &mut Registry) {
            $(registry.add::<$op>();)*
        }
    };
}

operations! {
    ArgMax,
    ArgMin,
    AvgPool,
    BatchNorm,
    BitcastConvert,
    Broadcast,
    CallOp,
    Cast,
    Compare,
    Concat,
    Constant,
    Conv,
    Cumprod,
    Cumsum,
    DepthToSpace,
    Dequantize,
    DequantizeBlocks,
    DotGeneral,
    DynamicUpdateSlice,
    Einsum,
    Flatten,
    Gather,
    GatherElements,
    GatherNd,
    GridSample,
    GroupNorm,
    InstanceNorm,
    Iota,
    LayerNorm,
    LayoutConvert,
    Linear,
    LogSoftmax,
    Matmul,
    MaxPool,
    MaxPoolIndices,
    MlirCall,
    OneHot,
    Opaque,
    Pad,
    Prelu,
    Quantize,
    Recurrent,
    Reduce,
    Reshape,
    Resize,
    RmsNorm,
    RotaryEmbedding,
    ScatterElements,
    ScatterNd,
    Select,
    Slice,
    Softmax,
    SpaceToDepth,
    Split,
    Squeeze,
    Subview,
    Tile,
    TopK,
    Transpose,
    Trilu,
    Unsqueeze,
    View,
}

/// The dialect: every operation, and the check of plans of tiles, which are attributes of functions.
#[must_use]
pub fn registry() -> Registry {
    let mut registry = Registry::empty();
    binary::register(&mut registry);
    unary::register(&mut registry);
    add_all(&mut registry);
    registry.add_check(optc_tile::check);
    registry
}

/// The numbered constraints of all operations, sorted by code, each once.
#[must_use]
pub fn codes() -> &'static [Code] {
    static ALL: LazyLock<Vec<Code>> = LazyLock::new(|| {
        let registry = registry();
        let lists = registry.all().into_iter().map(OpDecl::codes);
        let mut codes: Vec<Code> = lists.flatten().copied().collect();
        codes.sort_by_key(|code| code.name);
        codes.dedup_by_key(|code| code.name);
        codes
    });
    &ALL
}
