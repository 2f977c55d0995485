//! Placements: the positions of a tensor's elements in a linear buffer, independent of notation.

use crate::build::element_count;
use crate::chain::{self, eval};
use crate::dims::{product, unravel};
use crate::function::Function;

/// A function from the logical indices of a shape to offsets in a linear buffer, and the buffer's
/// size, element width and memory space.
///
/// Comparison ([`Placement::same_function`]) and hashing ([`Placement::function_hash`]) use all of it. Offsets and
/// sizes count elements unless a name says bytes.
#[derive(Clone, Debug)]
pub struct Placement {
    shape: Vec<u64>,
    elements: u64,
    function: Function,
    storage: Storage,
    splits: Vec<Split>,
}

/// The properties of a buffer beside the positions of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Storage {
    pub(crate) positions: u64,
    pub(crate) type_bits: u32,
    pub(crate) bits: u32,
    pub(crate) space: u32,
}

/// A dimension that is cut into parts in different memories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    /// The logical dimension.
    pub(crate) dim: usize,
    /// The indices at which parts begin, rising, above 0.
    pub(crate) points: Vec<u64>,
}

impl Split {
    /// The splits in terms of the row-major numbers of a shape: a number lies behind a mark `(period, start)` if its
    /// remainder by the period is `start` or more.
    pub(crate) fn marks(splits: &[Split], shape: &[u64]) -> Vec<(u64, u64)> {
        let mut marks = Vec::new();
        for split in splits {
            let inner = product(&shape[split.dim + 1..]);
            let period = inner.saturating_mul(shape[split.dim]);
            let mark = |&point: &u64| (period, inner.saturating_mul(point));
            marks.extend(split.points.iter().map(mark));
        }
        marks.sort_unstable();
        marks
    }
}

impl Storage {
    /// A buffer of memory space 0, in elements of the type's own bits.
    pub(crate) fn of_type(positions: u64, type_bits: u32) -> Self {
        Self {
            positions,
            type_bits,
            bits: type_bits,
            space: 0,
        }
    }

    /// Returns whether element width and memory space are the defaults.
    pub(crate) fn is_plain(&self) -> bool {
        self.bits == self.type_bits && self.space == 0
    }
}

impl Placement {
    /// The placement of a function on a shape of `elements` elements.
    pub(crate) fn new(shape: &[u64], elements: u64, function: Function, storage: Storage) -> Self {
        Self {
            shape: shape.to_vec(),
            elements,
            function,
            storage,
            splits: Vec::new(),
        }
    }

    /// The placement with splits into parts in different memories.
    pub(crate) fn with_splits(self, splits: Vec<Split>) -> Self {
        Self { splits, ..self }
    }

    /// The placement with the same offsets in a buffer with another storage.
    pub(crate) fn with_storage(&self, storage: Storage) -> Self {
        Self {
            storage,
            ..self.clone()
        }
    }

    /// The dense row-major order of a shape; saturates at 2^63 - 1 elements.
    pub(crate) fn row_major(shape: &[u64], elem_bits: u32) -> Self {
        let elements = element_count(shape).unwrap_or(i64::MAX.unsigned_abs());
        let function = Function::logical(chain::linear(1, elements), 0);
        Self::new(
            shape,
            elements,
            function,
            Storage::of_type(elements, elem_bits),
        )
    }

    /// Elements along each logical dimension.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The number of logical dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// Bits of one element in the buffer.
    #[must_use]
    pub fn elem_bits(&self) -> u32 {
        self.storage.bits
    }

    /// Memory space: 0 main memory, 1 VMEM, 5 host.
    #[must_use]
    pub fn space(&self) -> u32 {
        self.storage.space
    }

    /// Buffer size in elements, padding included.
    #[must_use]
    pub fn positions(&self) -> u64 {
        self.storage.positions
    }

    /// Buffer size in bytes, padding included, rounded up to whole bytes; saturates.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bits = u128::from(self.storage.positions) * u128::from(self.storage.bits);
        u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX)
    }

    pub(crate) fn function(&self) -> &Function {
        &self.function
    }

    pub(crate) fn storage(&self) -> Storage {
        self.storage
    }

    /// Dimensions that are cut into parts in different memories.
    pub(crate) fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// Offset in elements of the element with logical index `e`; `None` out of bounds.
    #[must_use]
    pub fn index(&self, e: &[u64]) -> Option<u64> {
        let shape = self.shape();
        if e.len() != shape.len() || e.iter().zip(shape).any(|(i, size)| size <= i) {
            return None;
        }
        if let Some(program) = &self.function.program {
            return Some(program.position(e));
        }
        let number = |k: u64, dim: usize| k.checked_mul(shape[dim])?.checked_add(e[dim]);
        let k = match &self.function.order {
            None => (0..shape.len()).try_fold(0, number)?,
            Some(order) => order.iter().copied().try_fold(0, number)?,
        };
        self.position(k)
    }

    /// Position of the element with number `k` in the chain's order.
    fn position(&self, k: u64) -> Option<u64> {
        if self.elements <= k {
            return None;
        }
        let function = &self.function;
        function.offset.checked_add_signed(eval(&function.chain, k))
    }

    /// Position of the element with row-major number `k`.
    pub(crate) fn position_of_number(&self, k: u64) -> Option<u64> {
        let function = &self.function;
        match (&function.order, &function.program) {
            (None, None) => self.position(k),
            _ => self.index(&unravel(k, self.shape())),
        }
    }

    /// Logical index of the element at offset `p`; `None` for padding and after the buffer.
    ///
    /// One of the elements if strides make several share the offset.
    #[must_use]
    pub fn element_at(&self, p: u64) -> Option<Vec<u64>> {
        if self.storage.positions <= p {
            return None;
        }
        let function = &self.function;
        if let Some(program) = &function.program {
            return program.element_at(p);
        }
        let value = i64::try_from(i128::from(p) - i128::from(function.offset)).ok()?;
        let k = chain::find(&function.chain, self.elements, value)?;
        let Some(order) = &function.order else {
            return Some(unravel(k, self.shape()));
        };
        let sizes: Vec<u64> = order.iter().map(|&dim| self.shape()[dim]).collect();
        let mut e = vec![0; self.rank()];
        for (&dim, digit) in order.iter().zip(unravel(k, &sizes)) {
            e[dim] = digit;
        }
        Some(e)
    }

    /// A hash of the function: layouts that are [`Placement::same_function`] have equal hashes.
    #[must_use]
    pub fn function_hash(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut add = |value: u64| {
            hash = (hash.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
        };
        self.shape.iter().for_each(|&size| add(size));
        add(self.storage.positions);
        add(u64::from(self.storage.bits));
        add(u64::from(self.storage.space));
        // Positions of a few spread-out elements depend only on the function; its chain need not be unique.
        let n = self.elements;
        let doublings = (0..63).map(|bit| 1u64 << bit).take_while(|&k| k < n);
        let spread = [3, 5, 7]
            .map(|part| n / part)
            .into_iter()
            .filter(|&k| k < n);
        for k in doublings.chain(spread).chain(n.checked_sub(1)) {
            add(self.position_of_number(k).unwrap_or(u64::MAX));
        }
        hash
    }
}
