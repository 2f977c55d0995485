//! The operations of the `hbir` dialect, one family a file.
//!
//! Each file declares its operations in one place: the shape rule with its numbered constraints, the
//! reference semantics, the layout freedom and the bytes moved. The codes of the constraints are
//! `family-cN`; the comments of the shape rules list them.

mod broadcast;
mod call;
mod cast;
mod codes;
mod compare_select;
mod concat;
mod constant;
mod contract;
mod conv;
mod cumsum;
mod decl;
pub mod depth_to_space;
mod dot_general;
pub mod einsum;
mod elementwise;
mod gather;
mod grid_sample;
mod iota;
mod labels;
mod matmul;
mod norm;
mod opaque;
mod pad;
mod pool;
mod quantize;
pub mod rearrange;
mod reduce;
pub mod resize;
mod rotary;
mod scatter;
mod shape;
mod slice;
mod softmax;
mod split;
mod top_k;
mod update_slice;
mod window;

pub use codes::CODES;

pub use constant::{dense_tensor, tensor_dense};
pub use elementwise::erf;

use crate::op::Registry;

/// Adds every operation of the dialect.
pub fn register(registry: &mut Registry) {
    let families = [
        broadcast::register,
        call::register,
        cast::register,
        compare_select::register,
        concat::register,
        constant::register,
        conv::register,
        cumsum::register,
        depth_to_space::register,
        dot_general::register,
        einsum::register,
        elementwise::register,
        gather::register,
        grid_sample::register,
        iota::register,
        matmul::register,
        norm::register,
        opaque::register,
        pad::register,
        pool::register,
        quantize::register,
        rearrange::register,
        reduce::register,
        resize::register,
        rotary::register,
        scatter::register,
        slice::register,
        softmax::register,
        split::register,
        top_k::register,
        update_slice::register,
    ];
    for family in families {
        family(registry);
    }
}
