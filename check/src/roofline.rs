//! The arithmetic of operations and the rates of units: what both `optc stats --estimate` and plans of tiles model
//! times with.
//!
//! For example, a product of 100 rows, 128 columns and 64 summed elements is `2 * 104 * 128 * 128` operations on a unit
//! whose blocks are `[8, 128, 128]`.

use optc_ir::op::iteration_domain::{IndexExpr, IterationDomain};
use optc_ir::op::iteration_domain_of;
use optc_ir::{AttrDict, DType, OpDecl, OpRef};
use optc_target::{Precision, Target, Unit};
use std::num::NonZeroU64;

/// The arithmetic of one operation, and the unit that does it.
#[derive(Clone, Debug, PartialEq)]
pub struct Arithmetic {
    /// The unit that the row of the operation's family names; `None` if its family has no row.
    pub unit: Option<String>,
    /// Operations a second of this unit on the operation's element type, if the target's file states it.
    pub rate: Option<f64>,
    amount: Amount,
}

#[derive(Clone, Debug, PartialEq)]
enum Amount {
    /// The same number in any blocks.
    Fixed(u64),
    Contraction(Contraction),
}

/// The loops of a product or a convolution.
#[derive(Clone, Debug, PartialEq)]
struct Contraction {
    /// The class of each loop: batch, rows, columns or sum.
    class: Vec<usize>,
    extents: Vec<u64>,
    /// For each class, the extent of dimensions that no loop addresses.
    whole: [u64; 4],
    /// The blocks that rows, columns and sums are rounded up to.
    block: Option<[NonZeroU64; 3]>,
}

impl Arithmetic {
    /// The arithmetic of an operation with its attributes. All sizes in the types of `op` are numbers; `element` gives
    /// the element types in which the first operand and the first result are computed.
    #[must_use]
    pub fn of(
        decl: &dyn OpDecl,
        (op, attrs): (&OpRef<'_>, &AttrDict),
        element: [Option<DType>; 2],
        target: &Target,
    ) -> Arithmetic {
        let family = decl.family();
        let row = target.row(family);
        let unit = row.and_then(|row| target.units.get(&row.unit));
        let [first, result] = element;
        let wider = [first, result].into_iter().flatten();
        let wider = wider.max_by_key(|dtype| dtype.bits());
        let (amount, dtype) = match family {
            "matmul" | "conv" => {
                let domain = iteration_domain_of(Some(decl), op);
                let block = unit.and_then(|unit| unit.block);
                let contraction = Contraction::of(&domain, op, block);
                (Amount::Contraction(contraction), first)
            }
            "pool" | "reduce" => {
                let domain = iteration_domain_of(Some(decl), op);
                let steps = domain.loops.iter().map(|l| l.extent);
                let steps = steps.fold(1, u64::saturating_mul);
                let count = steps.max(elements(op));
                (Amount::Fixed(count.saturating_mul(each(family))), first)
            }
            _ => {
                let count = elements(op).saturating_mul(each(family));
                (Amount::Fixed(count), wider)
            }
        };
        let stated = attrs.str(Precision::STATED);
        let precision = Precision::of_product(stated, target.precision);
        let rate = |(unit, of): (&Unit, DType)| {
            let product = matches!(family, "matmul" | "conv") && of == DType::F32;
            let reduced = product.then(|| unit.f32.of(precision)).flatten();
            reduced.or_else(|| unit.rates.of(of.is_float(), of.bits()))
        };
        Arithmetic {
            unit: row.map(|row| row.unit.clone()),
            rate: unit.zip(dtype).and_then(rate),
            amount,
        }
    }

    /// The number of arithmetic operations; a product and a sum are two.
    #[must_use]
    pub fn operations(&self) -> u64 {
        match &self.amount {
            Amount::Fixed(count) => *count,
            Amount::Contraction(contraction) => contraction.operations(&contraction.extents),
        }
    }

    /// The number of arithmetic operations, without those that rounding up to blocks adds.
    #[must_use]
    pub fn least_operations(&self) -> u64 {
        match &self.amount {
            Amount::Fixed(count) => *count,
            Amount::Contraction(contraction) => {
                let plain = Contraction {
                    block: None,
                    ..contraction.clone()
                };
                plain.operations(&plain.extents)
            }
        }
    }

    /// The number of arithmetic operations of a block with these extents of the loops; `None` where blocks change
    /// nothing, so that the number is in proportion to the steps.
    #[must_use]
    pub fn operations_of(&self, extents: &[u64]) -> Option<u64> {
        match &self.amount {
            Amount::Fixed(_) => None,
            Amount::Contraction(contraction) => Some(contraction.operations(extents)),
        }
    }
}

/// Arithmetic operations for each element of the larger of first operand and result.
fn each(family: &str) -> u64 {
    match family {
        "elementwise" | "reduce" | "pool" | "barrier" => 1,
        "resize" => 4,
        // Greatest, difference, exponential, sum, quotient.
        "softmax" => 5,
        // Sum, difference, square, sum, root, quotient, scale, offset.
        "norm" => 8,
        _ => 0,
    }
}

/// The elements of the larger of an operation's first operand and first result.
fn elements(op: &OpRef<'_>) -> u64 {
    let count = |ty: Option<&&optc_ir::Type>| {
        let tensor = ty.and_then(|ty| ty.as_tensor());
        tensor.and_then(optc_ir::TensorType::elements).unwrap_or(0)
    };
    count(op.operands.first()).max(count(op.results.first()))
}

impl Contraction {
    fn of(domain: &IterationDomain, op: &OpRef<'_>, block: Option<[NonZeroU64; 3]>) -> Contraction {
        let uses = |side: Option<&Vec<IndexExpr>>, id: usize| {
            let reads = |index: &IndexExpr| match index {
                IndexExpr::Sum { terms, .. } => terms.iter().any(|(loop_id, _)| *loop_id == id),
                IndexExpr::Digit { of, .. } => *of == id,
                IndexExpr::Whole => false,
            };
            side.is_some_and(|dims| dims.iter().any(reads))
        };
        let class = |id: usize| {
            let left = uses(domain.operands.first(), id);
            let right = uses(domain.operands.get(1), id);
            match uses(domain.results.first(), id) {
                true if left && right => 0,
                true if right => 2,
                true => 1,
                false => 3,
            }
        };
        // Dimensions that no loop addresses belong to a transposed convolution: those of the first operand are windows
        // that lie over the result, and those of the second are summed.
        let mut whole = [1u64; 4];
        for (side, kind) in [(0, 1), (1, 3)] {
            let tensor = op.operands.get(side).and_then(|ty| ty.as_tensor());
            let indices = domain.operands.get(side);
            for (dim, index) in tensor
                .into_iter()
                .flat_map(|t| &t.dims)
                .zip(indices.into_iter().flatten())
            {
                if *index == IndexExpr::Whole {
                    whole[kind] = whole[kind].saturating_mul(dim.fixed().unwrap_or(1));
                }
            }
        }
        Contraction {
            class: (0..domain.loops.len()).map(class).collect(),
            extents: domain.loops.iter().map(|l| l.extent).collect(),
            whole,
            block,
        }
    }

    /// Two operations for each step of all loops, the extents of rows, columns and sums rounded up to blocks.
    fn operations(&self, extents: &[u64]) -> u64 {
        let mut of = self.whole;
        for (&class, &extent) in self.class.iter().zip(extents) {
            of[class] = of[class].saturating_mul(extent);
        }
        for (extent, block) in of.iter_mut().skip(1).zip(self.block.into_iter().flatten()) {
            *extent = extent.div_ceil(block.get()).saturating_mul(block.get());
        }
        of.into_iter().fold(2, u64::saturating_mul)
    }
}

/// Seconds for a number of operations or bytes at a rate.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "a model needs no more digits than a float has"
)]
pub fn seconds(count: u64, rate: f64) -> f64 {
    count as f64 / rate
}
