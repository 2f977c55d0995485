//! The operations of the `hbir` dialect, one file an operation.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
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
mod dequantized;
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
mod reshard;
mod resize;
mod rotary_embedding;
mod running;
mod scatter;
mod scatter_elements;
mod scatter_nd;
mod select;
mod shape;
mod sharding_constraint;
mod slice;
mod softmax;
mod space_to_depth;
mod split;
mod squeeze;
mod stated_split;
mod subview;
mod tile;
mod top_k;
mod transpose;
mod trilu;
mod unary;
mod unsqueeze;
mod view;
mod window;

pub use binary::{
    Add, And, Atan2, BitAnd, BitOr, BitXor, Div, Max, Min, Mod, Mul, Or, Pow, ShiftLeft,
    ShiftRight, Sub, Xor,
};
pub use blocks::BlockMap;
pub use call::Symbol;
pub use compare::Direction;
pub use constant::{dense_tensor, tensor_dense};
pub use contract::Pairing;
pub use depth_to_space::DepthMode;
pub use dequantized::Dequantized;
pub use einsum::{Equation, Index};
pub use grid_sample::{SampleMode, SamplePadding};
pub use lists::{ints, sizes};
pub use opaque::StatedEffect;
pub use operator_control::{body_attributes, with_slices};
pub use pad::{PadAmounts, PadMode, PadValue};
pub use rearrange::may_reshape;
pub use recurrent::{Cell, Reading};
pub use reduce::ReduceKind;
pub use reshard::Reshard;
pub use resize::{Coordinates, Extent, Extents, Interpolation, NearestMode, ResizeMode};
pub use scatter::ScatterReduction;
pub use sharding_constraint::{AxisPart, DimSplit, DimSplits};
pub use slice::{Bound, Bounds, SlicePart};
pub use stated_split::{StatedSplit, stated_split};
pub use unary::{
    Abs, Acos, Acosh, Approximate, Asin, Asinh, Atan, Atanh, Cbrt, Ceil, Celu, Clamp, Cos, Cosh,
    Elu, Erf, Erfc, Exp, Expm1, Floor, Gelu, HardSigmoid, HardSwish, Identity, IsInf, IsNan,
    LeakyRelu, Log, Log1p, Mish, Neg, Not, Reciprocal, Relu, Round, Rsqrt, Selu, Sigmoid, Sign,
    Silu, Sin, Sinh, Softplus, Softsign, Sqrt, Tan, Tanh, ThresholdedRelu,
};
pub use window::{Slide, Stated};

use optc_ir::{Code, OpDecl, Registry};
use std::sync::LazyLock;

/// Exports operations and adds them to a registry: one line for each file.
macro_rules! operations {
    ($($file:ident: $($op:ident),+;)*) => {
        $(pub use $file::{$($op),+};)*

        fn add_all(registry: &mut Registry) {
            $($(registry.add::<$op>();)+)*
        }
    };
}

operations! {
    arg: ArgMax, ArgMin;
    avg_pool: AvgPool;
    batch_norm: BatchNorm;
    bitcast_convert: BitcastConvert;
    broadcast: Broadcast;
    call: CallOp;
    cast: Cast;
    compare: Compare;
    concat: Concat;
    constant: Constant;
    conv: Conv;
    depth_to_space: DepthToSpace;
    dequantize: Dequantize;
    dequantize_blocks: DequantizeBlocks;
    dot_general: DotGeneral;
    dynamic_update_slice: DynamicUpdateSlice;
    einsum: Einsum;
    flatten: Flatten;
    func_call: MlirCall;
    gather: Gather;
    gather_elements: GatherElements;
    gather_nd: GatherNd;
    grid_sample: GridSample;
    group_norm: GroupNorm;
    instance_norm: InstanceNorm;
    iota: Iota;
    layout_convert: LayoutConvert;
    linear: Linear;
    log_softmax: LogSoftmax;
    matmul: Matmul;
    max_pool: MaxPool;
    max_pool_indices: MaxPoolIndices;
    norm: LayerNorm, RmsNorm;
    one_hot: OneHot;
    opaque: Opaque;
    pad: Pad;
    prelu: Prelu;
    quantize: Quantize;
    recurrent: Recurrent;
    reduce: Reduce;
    reshape: Reshape;
    resize: Resize;
    rotary_embedding: RotaryEmbedding;
    running: Cumprod, Cumsum;
    scatter_elements: ScatterElements;
    scatter_nd: ScatterNd;
    select: Select;
    sharding_constraint: ShardingConstraint;
    slice: Slice;
    softmax: Softmax;
    space_to_depth: SpaceToDepth;
    split: Split;
    squeeze: Squeeze;
    subview: Subview;
    tile: Tile;
    top_k: TopK;
    transpose: Transpose;
    trilu: Trilu;
    unsqueeze: Unsqueeze;
    view: View;
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
