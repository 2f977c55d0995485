//! Kernels, by the family of the operation.

mod contract;
mod conv;
mod copy;
mod elementwise;
mod kernel;
mod rows;

pub(crate) use kernel::{Kernel, Slots, part, part_in_place, renamed};

use contract::Contract;
use conv::Convolution;
use copy::Copy;
use optc_ir::{Func, Op, Registry};
use rows::Rows;

/// The kernel of an operation, if it has one of its own.
pub(crate) fn kernel<'a>(
    func: &Func,
    op: Op,
    registry: &Registry,
    slots: &Slots<'a>,
) -> Option<Box<dyn Kernel>> {
    fn boxed(kernel: impl Kernel + 'static) -> Box<dyn Kernel> {
        Box::new(kernel)
    }
    match registry.get(&func.ops[op].name)?.family() {
        "elementwise" => elementwise::kernel(func, op, slots),
        "matmul" => Contract::of(func, op, registry, slots).map(boxed),
        "conv" => Convolution::of(func, op, slots).map(boxed),
        "softmax" | "norm" | "reduce" => Rows::of(func, op, slots).map(boxed),
        _ => Copy::of(func, op, registry, slots).map(boxed),
    }
}
