//! The memory of values: row-major tensors of any shape with the same number of elements.

use super::digits::dims;
use optc_ir::entity::SideTable;
use optc_ir::{Dim, FuncBuilder, Op, OpError, StandIns, TensorType, Value};
use optc_layout::{Cuts, Digit, runs};
use optc_ops::{Reshape, Transpose};
use rustc_hash::FxHashMap;

/// A function under construction; every value in it is row-major.
pub(super) struct Memory<'r> {
    pub(super) b: FuncBuilder<'r>,
    /// Numbers in place of unknown sizes.
    pub(super) numbers: StandIns,
    /// True if products have dimension numbers, so that they take operands in any order.
    pub(super) dimension_numbers: bool,
    /// One view of each value of the old function that has views.
    pub(super) views: FxHashMap<Value, Op>,
    /// The memory of each value of the old function: its elements in memory order.
    values: SideTable<Value, Option<Value>>,
    /// The source of each reshape.
    sources: FxHashMap<Value, Value>,
    reshaped: FxHashMap<(Value, Vec<Dim>), Value>,
}

impl<'r> Memory<'r> {
    pub(super) fn new(b: FuncBuilder<'r>, numbers: StandIns) -> Memory<'r> {
        Memory {
            b,
            numbers,
            dimension_numbers: false,
            views: FxHashMap::default(),
            values: SideTable::new(None),
            sources: FxHashMap::default(),
            reshaped: FxHashMap::default(),
        }
    }

    pub(super) fn set(&mut self, old: Value, new: Value) {
        self.values[old] = Some(new);
    }

    /// The memory of a value of the old function.
    pub(super) fn get(&self, old: Value) -> Option<Value> {
        self.values[old]
    }

    pub(super) fn dims(&self, value: Value) -> Vec<Dim> {
        let ty = self.b.tensor(value);
        ty.map_or_else(Vec::new, |ty| ty.dims.clone())
    }

    /// Returns whether a value is computed from constants by rearrangements alone.
    pub(super) fn is_constant(&self, mut value: Value) -> bool {
        let func = &self.b.func;
        while let Some(op) = func.def_op(value) {
            match func.ops[op].operands.as_slice() {
                [] => return true,
                [one] if self.b.registry().rearrangement(&func.op_ref(op)).is_ok() => value = *one,
                _ => return false,
            }
        }
        false
    }

    /// The elements of a value in another shape.
    pub(super) fn reshape(&mut self, value: Value, wanted: &[Dim]) -> Result<Value, OpError> {
        if self.dims(value) == wanted {
            return Ok(value);
        }
        let source = self.sources.get(&value).copied().unwrap_or(value);
        if self.dims(source) == wanted {
            return Ok(source);
        }
        let key = (source, wanted.to_vec());
        if let Some(&known) = self.reshaped.get(&key) {
            return Ok(known);
        }
        let made = self.b.one(&Reshape::of_dims(wanted), &[source])?;
        self.sources.insert(made, source);
        self.reshaped.insert(key, made);
        Ok(made)
    }

    /// The elements of a value with the digits `from`, in the order `to`. Both are the same digits, possibly cut
    /// differently. The shape has a dimension for each run that stays together. `None` where the cuts do not nest.
    pub(super) fn arrange(
        &mut self,
        value: Value,
        from: &[Digit],
        to: &[Digit],
    ) -> Result<Option<Value>, OpError> {
        let mut cuts = Cuts::default();
        cuts.add(from);
        cuts.add(to);
        let (Some(from), Some(to)) = (cuts.refine(from), cuts.refine(to)) else {
            return Ok(None);
        };
        if from == to {
            return Ok(Some(value));
        }
        let place = |digit: &Digit| to.iter().position(|d| d == digit);
        let Some(places) = from.iter().map(place).collect::<Option<Vec<usize>>>() else {
            return Ok(None);
        };
        let runs = runs(&places);
        let extent = |run: &std::ops::Range<usize>| {
            from[run.clone()]
                .iter()
                .fold(1u64, |n, d| n.saturating_mul(d.extent))
        };
        let extents: Vec<u64> = runs.iter().map(extent).collect();
        let mut order: Vec<usize> = (0..runs.len()).collect();
        order.sort_by_key(|&i| places[runs[i].start]);
        // The value keeps its shape if no dimension of it is cut.
        let (split, parts) = match self.parts(value, &extents) {
            Some(parts) => (value, parts),
            None => {
                let shape = dims(extents, &self.numbers);
                let parts = (0..runs.len()).map(|i| i..i + 1).collect();
                (self.reshape(value, &shape)?, parts)
            }
        };
        let perm: Vec<usize> = order.into_iter().flat_map(|i| parts[i].clone()).collect();
        self.b.one(&Transpose::of_perm(&perm), &[split]).map(Some)
    }

    /// The ranges of a value's dimensions that have these numbers of elements, in order.
    fn parts(&mut self, value: Value, extents: &[u64]) -> Option<Vec<std::ops::Range<usize>>> {
        let dims = self.dims(value);
        let known = |d: &Dim| *d != Dim::Unknown;
        if !dims.iter().all(known) {
            return None;
        }
        let sizes: Option<Vec<u64>> = dims.iter().map(|d| self.numbers.number(d)).collect();
        let sizes = sizes?;
        let mut parts = Vec::with_capacity(extents.len());
        let mut at = 0;
        for &extent in extents {
            let (start, mut n) = (at, 1u64);
            while n < extent {
                n = n.checked_mul(*sizes.get(at)?)?;
                at += 1;
            }
            if n != extent {
                return None;
            }
            parts.push(start..at);
        }
        // The remaining dimensions have one element.
        let last = parts.last_mut()?;
        last.end = sizes.len();
        let rest = sizes.get(at..)?;
        rest.iter().all(|&n| n == 1).then_some(parts)
    }

    /// The memory of a value, from its elements in row-major order.
    pub(super) fn stored(
        &mut self,
        value: Value,
        digits: &[Digit],
    ) -> Result<Option<Value>, OpError> {
        let mut logical = digits.to_vec();
        logical.sort_by_key(|d| (d.of, std::cmp::Reverse(d.div)));
        self.arrange(value, &logical, digits)
    }

    /// The elements of a value in row-major order, in the shape of its type.
    pub(super) fn logical(
        &mut self,
        value: Value,
        ty: &TensorType,
        digits: &[Digit],
    ) -> Result<Option<Value>, OpError> {
        let mut logical = digits.to_vec();
        logical.sort_by_key(|d| (d.of, std::cmp::Reverse(d.div)));
        match self.arrange(value, digits, &logical)? {
            Some(made) => self.reshape(made, &ty.dims).map(Some),
            None => Ok(None),
        }
    }
}
