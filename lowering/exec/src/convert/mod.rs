//! Conversions of a tensor between layouts.

mod bits;
mod cache;
mod gaps;
mod nest;
mod plan;
mod task;

pub use cache::PlanCache;
pub use plan::{ConversionError, ConversionOptions, ConversionPlan, Padding};
