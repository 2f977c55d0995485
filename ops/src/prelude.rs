//! The names that the file of an operation uses, and the checks that most shape rules share.

pub(crate) use crate::shape::{
    as_axis, common_dtype, computed, one, show, wants_float, wants_index, wants_rank,
};
pub(crate) use optc_ir::op::prelude::*;
