//! Builds the [`Freedom`] of an operation from labels given to its dimensions.

use optc_ir::op::{Freedom, FreedomClass, Label, OpError, OpRef, Role};
use optc_ir::types::{Dim, TensorType};

/// One label under construction.
#[derive(Clone, Debug)]
struct Draft {
    role: Role,
    /// Offsets that the granule must divide; a 1 forbids every cut.
    cuts: Vec<u64>,
}

/// Gives labels to dimensions; the granules follow from the extents at the end.
#[derive(Debug)]
pub(crate) struct Labels {
    drafts: Vec<Draft>,
    operands: Vec<Vec<Option<usize>>>,
    results: Vec<Vec<Option<usize>>>,
}

impl Labels {
    pub(crate) fn new() -> Labels {
        Labels {
            drafts: Vec::new(),
            operands: Vec::new(),
            results: Vec::new(),
        }
    }

    /// A new label.
    pub(crate) fn fresh(&mut self, role: Role) -> usize {
        self.drafts.push(Draft {
            role,
            cuts: Vec::new(),
        });
        self.drafts.len() - 1
    }

    /// The number of labels made.
    pub(crate) fn len(&self) -> usize {
        self.drafts.len()
    }

    /// One new parallel label a dimension.
    pub(crate) fn fresh_for(&mut self, rank: usize) -> Vec<usize> {
        (0..rank).map(|_| self.fresh(Role::Parallel)).collect()
    }

    /// The operation works along this label.
    pub(crate) fn role(&mut self, label: usize, role: Role) {
        self.drafts[label].role = role;
    }

    /// The granule of the label must divide `offset`.
    pub(crate) fn cut(&mut self, label: usize, offset: u64) {
        self.drafts[label].cuts.push(offset);
    }

    /// No cut of this label commutes with the operation.
    pub(crate) fn uncut(&mut self, label: usize) {
        self.cut(label, 1);
    }

    /// The labels of the next operand.
    pub(crate) fn operand(&mut self, labels: Vec<Option<usize>>) {
        self.operands.push(labels);
    }

    /// The labels of the next result.
    pub(crate) fn result(&mut self, labels: Vec<Option<usize>>) {
        self.results.push(labels);
    }

    /// The next operand broadcasts to a result with these labels: aligned at the last dimension,
    /// extent 1 where the result is longer carries none.
    pub(crate) fn broadcast(&mut self, operand: &[Dim], result: &[Dim], labels: &[usize]) {
        let lead = result.len().saturating_sub(operand.len());
        let one = |d: usize, dim: &Dim| dim.is_one() && !result[lead + d].is_one();
        let label = |(d, dim)| (!one(d, dim)).then(|| labels[lead + d]);
        self.operands
            .push(operand.iter().enumerate().map(label).collect());
    }

    /// The declaration; a barrier when the labels do not fit the types.
    pub(crate) fn finish(self, op: &OpRef<'_>, class: FreedomClass) -> Freedom {
        let mut labels = Vec::with_capacity(self.drafts.len());
        for (id, draft) in self.drafts.iter().enumerate() {
            let mut extent = Granule::of(&draft.cuts);
            let sides = [(&op.operands, &self.operands), (&op.results, &self.results)];
            for (types, marks) in sides {
                if types.len() != marks.len() {
                    return Freedom::barrier(op);
                }
                for (ty, marks) in types.iter().zip(marks) {
                    let dims = ty.as_tensor().map_or(&[][..], |t| t.dims.as_slice());
                    if dims.len() != marks.len() {
                        return Freedom::barrier(op);
                    }
                    let tied = dims.iter().zip(marks).filter(|(_, m)| **m == Some(id));
                    tied.for_each(|(dim, _)| extent.tie(dim));
                }
            }
            labels.push(Label {
                role: draft.role,
                granule: extent.granule(),
            });
        }
        Freedom {
            class,
            labels,
            operands: self.operands,
            results: self.results,
        }
    }
}

/// What is known of the extents that share a label.
struct Granule {
    first: Option<Dim>,
    differ: bool,
    gcd: u64,
}

impl Granule {
    fn of(cuts: &[u64]) -> Granule {
        let gcd = cuts.iter().fold(0, |a, &b| gcd(a, b));
        Granule {
            first: None,
            differ: gcd != 0,
            gcd,
        }
    }
    fn tie(&mut self, dim: &Dim) {
        self.gcd = gcd(self.gcd, dim.fixed().unwrap_or(1));
        match &self.first {
            None => self.first = Some(dim.clone()),
            Some(first) => self.differ |= !first.same(dim),
        }
    }
    fn granule(&self) -> u64 {
        if self.differ { self.gcd.max(1) } else { 0 }
    }
}

/// The greatest common divisor; `gcd(0, n)` is `n`.
pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A freedom whose construction may fail on malformed types: then it is a barrier.
pub(crate) fn or_barrier(
    op: &OpRef<'_>,
    class: FreedomClass,
    build: impl FnOnce(&mut Labels) -> Result<(), OpError>,
) -> Freedom {
    let mut labels = Labels::new();
    match build(&mut labels) {
        Ok(()) => labels.finish(op, class),
        Err(_) => Freedom::barrier(op),
    }
}

/// All labels as marks.
pub(crate) fn marks(labels: &[usize]) -> Vec<Option<usize>> {
    labels.iter().copied().map(Some).collect()
}

/// Every operand broadcasts to the only result; one label a result dimension.
pub(crate) fn broadcasting(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |b| {
        let result = op.result(0)?;
        let labels = b.fresh_for(result.rank());
        for i in 0..op.operands.len() {
            let operand = op.operand(i)?;
            fits(operand, result)?;
            b.broadcast(&operand.dims, &result.dims, &labels);
        }
        b.result(marks(&labels));
        Ok(())
    })
}

/// As [`broadcasting`], and the operation works along these axes of the result.
pub(crate) fn broadcasting_along(op: &OpRef<'_>, axes: &[usize]) -> Freedom {
    let mut freedom = broadcasting(op);
    for &a in axes {
        if let Some(label) = freedom.labels.get_mut(a) {
            label.role = Role::Axis;
        }
    }
    freedom
}

fn fits(operand: &TensorType, result: &TensorType) -> Result<(), OpError> {
    if operand.rank() <= result.rank() {
        return Ok(());
    }
    Err(OpError::new(
        optc_ir::shared_codes::OPERAND_KIND,
        "the operand has a higher rank than the result",
    ))
}
