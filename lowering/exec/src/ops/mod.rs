//! Kernels, by the family of the operation.

mod bytes;
mod chain;
mod channels;
mod contract;
mod conv;
mod copy;
mod each;
mod elements;
mod elementwise;
mod gather;
mod kernel;
mod non_finite;
mod pool;
mod recurrent;
mod resize;
mod rows;
mod sample;
mod select;
mod top_k;
mod update;
mod wide;

pub(crate) use bytes::{ByteOperand, Bytes, Copied, Side};
pub(crate) use chain::Chain;
pub(crate) use channels::known_factors;
pub(crate) use contract::{Contract, Scaled};
pub(crate) use conv::Convolution;
pub(crate) use elementwise::{Piece, links, pieces};
pub(crate) use kernel::{
    Call, Context, Family, Kernel, Order, Orders, Site, aliased, operand_access, part, rearranged,
    shape,
};

use channels::Channels;
use copy::Copy;
use each::Declared;
use elements::Elements;
use gather::Gather;
use pool::Pool;
use recurrent::Network;
use resize::Resize;
use rows::Rows;
use sample::Sample;
use select::Select;
use top_k::TopK;
use update::Boxes;
use wide::Wide;

/// Returns whether operations of a family compute, rather than move elements.
pub(crate) fn computes(family: &str) -> bool {
    const FAMILIES: [&str; 8] = [
        "elementwise",
        "matmul",
        "conv",
        "softmax",
        "norm",
        "reduce",
        "pool",
        "resize",
    ];
    FAMILIES.contains(&family)
}

/// The kernel of an operation; `None` if it has to be evaluated by its declared semantics.
pub(crate) fn kernel(site: &Site<'_>) -> Option<Box<dyn Kernel>> {
    fn boxed(kernel: impl Kernel + 'static) -> Box<dyn Kernel> {
        Box::new(kernel)
    }
    match site.registry.get(&site.data().name)?.family() {
        "elementwise" => elementwise::kernel(site)
            .or_else(|| Select::of(site).map(boxed))
            .or_else(|| Wide::of(site).map(boxed))
            .or_else(|| Declared::of(site).map(boxed)),
        "matmul" => Contract::of(site).map(boxed),
        "conv" => Convolution::of(site).map(boxed),
        "softmax" | "norm" | "reduce" => {
            let rows = Rows::of(site).map(boxed);
            let rows = rows.or_else(|| Channels::of(site).map(boxed));
            rows.or_else(|| TopK::of(site).map(boxed))
        }
        "pool" => Pool::of(site).map(boxed),
        "resize" => {
            let resize = Resize::of(site).map(boxed);
            resize.or_else(|| Sample::of(site).map(boxed))
        }
        "gather" => {
            let gather = Gather::of(site).map(boxed);
            let gather = gather.or_else(|| Elements::of(site).map(boxed));
            gather.or_else(|| Boxes::of(site).map(boxed))
        }
        "operator" => Network::of(site).map(boxed),
        _ => Copy::of(site).map(boxed),
    }
}
