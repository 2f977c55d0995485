//! A layout: where each element lies in a linear buffer, and how that is written.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::build::{Builder, element_count};
use crate::chain::{self, Chain, Cut, eval, normalize, split, split_off, steps};
use crate::error::LayoutError;
use crate::program::Program;
use crate::respell;
use crate::spelling::{BlockSpelling, Notation, Spelling, StridedSpelling, default_axes};
use crate::xla::{SplitConfig, XlaSpelling};

/// A function from the logical indices of a shape to offsets in a linear buffer, the buffer's
/// size, element width and memory space, and the spelling that the function was given in.
///
/// Comparison ([`Layout::same_function`]) and hashing ([`Layout::function_hash`]) look at the
/// function alone; a layout has no `Eq`, because the spelling is part of the value.
/// Offsets and sizes count elements unless a name says bytes. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Layout {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shape: Vec<u64>,
    elements: u64,
    function: Function,
    positions: u64,
    /// Width of the element type.
    type_bits: u32,
    /// Width of an element in the buffer.
    bits: u32,
    space: u32,
    spelling: Spelling,
}

/// The positions of a tensor's elements, without the tensor's shape.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    /// The dimensions longer than 1 in the order in which the chain counts them, major to minor;
    /// `None` is the logical order. Given only where no chain over the logical order exists.
    pub(crate) order: Option<Vec<usize>>,
    /// Positions over the row-major number in that order, less the offset.
    pub(crate) chain: Chain,
    /// Position of element 0.
    pub(crate) offset: u64,
    /// The steps of a layout that is no chain; the chain and the order are empty then.
    pub(crate) program: Option<Arc<Program>>,
}

/// One physical digit of a layout: a run of positions that counts `index[dim] / div`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The logical dimension.
    pub dim: usize,
    /// How many indices share a value of the digit.
    pub div: u64,
    /// How many values the digit takes; 1 for positions that no element uses.
    pub count: u64,
    /// Physical positions, padding included, at least `count`.
    pub extent: u64,
}

/// What a layout is besides its positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Storage {
    pub(crate) positions: u64,
    pub(crate) type_bits: u32,
    pub(crate) bits: u32,
    pub(crate) space: u32,
}

impl Function {
    /// The function of a tensor without elements.
    fn empty() -> Self {
        Self::logical(Chain::new(), 0)
    }

    /// A chain over the logical order.
    pub(crate) fn logical(chain: Chain, offset: u64) -> Self {
        Self {
            order: None,
            chain,
            offset,
            program: None,
        }
    }

    /// The steps of a layout that is no chain.
    pub(crate) fn program(program: Program) -> Self {
        Self {
            program: Some(Arc::new(program)),
            ..Self::empty()
        }
    }

    /// Puts a chain that counts `order` into its one form: over the logical order if it can be.
    pub(crate) fn new(order: &[usize], chain: Chain, shape: &[u64], offset: u64) -> Self {
        let order: Vec<usize> = order
            .iter()
            .copied()
            .filter(|&dim| 1 < shape[dim])
            .collect();
        if order.is_sorted() {
            return Self::logical(chain, offset);
        }
        let sizes: Vec<u64> = order.iter().map(|&dim| shape[dim]).collect();
        let mut groups: Vec<(Vec<usize>, u64, Chain)> = Vec::new();
        for (range, size, part) in independent_groups(&chain, &sizes) {
            groups.push((order[range].to_vec(), size, part));
        }
        groups.sort_by_key(|(dims, ..)| dims.iter().min().copied());
        let chain = concat(groups.iter().map(|(_, size, part)| (*size, &**part)));
        let order: Vec<usize> = groups.into_iter().flat_map(|(dims, ..)| dims).collect();
        Self {
            order: (!order.is_sorted()).then_some(order),
            ..Self::logical(chain, offset)
        }
    }

    /// The dimensions longer than 1 in the chain's order.
    pub(crate) fn dims(&self, shape: &[u64]) -> Vec<usize> {
        let long = || (0..shape.len()).filter(|&dim| 1 < shape[dim]).collect();
        self.order.clone().unwrap_or_else(long)
    }
}

/// Neighbouring dimensions over which a chain is a sum with the others.
#[derive(Clone, Copy, Default)]
pub(crate) struct Group {
    start: usize,
    end: usize,
    /// How many indices they have.
    pub(crate) size: u64,
    /// Where its chain stands among the cuts of all groups.
    cuts: (usize, usize),
}

/// The finest groups of neighbouring dimensions over which a chain is a sum.
pub(crate) struct Groups {
    /// Minor to major.
    list: SmallVec<[Group; 8]>,
    cuts: SmallVec<[Cut; 12]>,
}

impl Groups {
    /// The groups of a chain that counts dimensions of these sizes, none of them zero.
    pub(crate) fn of(chain: &[Cut], sizes: &[u64]) -> Groups {
        let mut groups = Groups {
            list: SmallVec::new(),
            cuts: SmallVec::new(),
        };
        let mut rest = Chain::from_slice(chain);
        let mut n = product(sizes);
        let (mut end, mut size) = (sizes.len(), 1u64);
        for start in (1..sizes.len()).rev() {
            size = size.saturating_mul(sizes[start]);
            let from = groups.cuts.len();
            if split_off(&mut rest, n, size, &mut groups.cuts) {
                let cuts = (from, groups.cuts.len());
                groups.list.push(Group {
                    start,
                    end,
                    size,
                    cuts,
                });
                n /= size;
                (end, size) = (start, 1);
            }
        }
        let from = groups.cuts.len();
        groups.cuts.extend_from_slice(&rest);
        groups.list.push(Group {
            start: 0,
            end,
            size: n,
            cuts: (from, groups.cuts.len()),
        });
        groups
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The groups major to minor: dimensions, number of indices, chain.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (std::ops::Range<usize>, u64, &[Cut])> {
        let whole = |group: &Group| {
            let (from, to) = group.cuts;
            (group.start..group.end, group.size, &self.cuts[from..to])
        };
        self.list.iter().rev().map(whole)
    }

    /// The chain that counts the groups in another order, given as places major to minor.
    pub(crate) fn in_order(&self, order: &[usize]) -> Chain {
        concat(order.iter().map(|&place| {
            let Group { size, cuts, .. } = self.list[self.list.len() - 1 - place];
            (size, &self.cuts[cuts.0..cuts.1])
        }))
    }
}

/// The same as a list of dimensions, number of indices and chain, major to minor.
pub(crate) fn independent_groups(
    chain: &[Cut],
    sizes: &[u64],
) -> Vec<(std::ops::Range<usize>, u64, Chain)> {
    let groups = Groups::of(chain, sizes);
    let owned = groups
        .iter()
        .map(|(dims, size, chain)| (dims, size, Chain::from_slice(chain)));
    owned.collect()
}

/// The chain that counts independent parts major to minor, each with its number of indices.
pub(crate) fn concat<'a>(
    parts: impl DoubleEndedIterator<Item = (u64, &'a [Cut])> + Clone,
) -> Chain {
    let mut whole = 1u64;
    let below = parts.clone().rev().map(|(size, _)| {
        let below = whole;
        whole = whole.saturating_mul(size);
        below
    });
    let below: SmallVec<[u64; 8]> = below.collect();
    let mut chain = Chain::new();
    if whole != 0 {
        let parts = parts.zip(below.iter().rev());
        let long = parts.filter(|((size, _), _)| 1 < *size);
        long.for_each(|((_, part), &below)| chain::append(&mut chain, part, below));
    }
    chain
}

impl Layout {
    /// The layout that `spelling` means for a tensor of `shape` (elements along each dimension)
    /// whose element type has `elem_bits` bits.
    ///
    /// A spelling with its own element width (`E(n)`, `ebits`) overrides `elem_bits`; an XLA
    /// spelling without one stores whole bytes.
    ///
    /// # Errors
    /// A spelling of another rank, digits that are no bijection, strides that leave their buffer,
    /// sizes of 2^63 and more, padding to 2^63 - 1 bytes and more.
    pub fn new(spelling: Spelling, shape: &[u64], elem_bits: u32) -> Result<Layout, LayoutError> {
        let overflow = || LayoutError::Overflow {
            shape: shape.to_vec(),
        };
        let elements = element_count(shape).ok_or_else(overflow)?;
        let mut storage = Storage {
            positions: 0,
            type_bits: elem_bits,
            bits: elem_bits,
            space: 0,
        };
        let function = match &spelling {
            Spelling::RowMajor => {
                storage.positions = elements;
                Function::logical(chain::linear(1, elements), 0)
            }
            Spelling::Block(block) => build_block(block, shape, &mut storage)?,
            Spelling::Strided(strided) => build_strided(strided, shape, &mut storage)?,
            Spelling::Digits(digits) => {
                check_rank(
                    "digits",
                    digits.digits.iter().flat_map(|d| &d.dims),
                    shape.len(),
                )?;
                storage.space = digits.space;
                storage.bits = digits.element_bits.unwrap_or(elem_bits);
                build_digits(digits, shape, elements, &mut storage)?
            }
            Spelling::Xla(xla) => {
                expect_rank("xla", xla.minor_to_major.len(), shape.len())?;
                storage.space = xla.space;
                storage.bits = match xla.element_bits {
                    0 => elem_bits.checked_next_multiple_of(8).unwrap_or(elem_bits),
                    bits => bits,
                };
                build_xla(xla, shape, &mut storage)?
            }
        };
        let function = if elements == 0 {
            storage.positions = 0;
            Function::empty()
        } else {
            function
        };
        let bits = u128::from(storage.positions) * u128::from(storage.bits);
        if elements < storage.positions && i64::MAX as u128 <= bits / 8 {
            return Err(overflow());
        }
        Ok(Self::from_parts(
            shape, elements, function, storage, spelling,
        ))
    }

    pub(crate) fn from_parts(
        shape: &[u64],
        elements: u64,
        function: Function,
        storage: Storage,
        spelling: Spelling,
    ) -> Self {
        let Storage {
            positions,
            type_bits,
            bits,
            space,
        } = storage;
        let shape = shape.to_vec();
        let inner = Inner {
            shape,
            elements,
            function,
            positions,
            type_bits,
            bits,
            space,
            spelling,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The dense row-major layout of a shape.
    ///
    /// A shape of 2^63 elements and more saturates: [`Layout::positions`] is `i64::MAX` and
    /// indices behind that are out of range.
    #[must_use]
    pub fn row_major(shape: &[u64], elem_bits: u32) -> Layout {
        let elements = element_count(shape).unwrap_or(i64::MAX.unsigned_abs());
        let function = Function::logical(chain::linear(1, elements), 0);
        let storage = Storage {
            positions: elements,
            type_bits: elem_bits,
            bits: elem_bits,
            space: 0,
        };
        Self::from_parts(shape, elements, function, storage, Spelling::RowMajor)
    }

    /// The dense layout whose dimensions follow `order`, major to minor.
    ///
    /// # Errors
    /// `order` is not a permutation of the dimensions, or the size overflows.
    pub fn from_order(
        shape: &[u64],
        elem_bits: u32,
        order: &[usize],
    ) -> Result<Layout, LayoutError> {
        let ints: Vec<i64> = order
            .iter()
            .map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX))
            .collect();
        let order = crate::spelling::permutation("order", &ints, shape.len())?;
        Layout::new(
            Spelling::Block(BlockSpelling::simple(order, Vec::new())),
            shape,
            elem_bits,
        )
    }

    /// The layout whose physical digits are `pieces`, major to minor: the inverse of
    /// [`Layout::pieces`].
    ///
    /// Spelled as an order where the pieces are whole dimensions, else as a block, else in digits.
    ///
    /// # Errors
    /// The pieces of a dimension are no mixed radix of its size, or the size overflows.
    pub fn from_pieces(
        shape: &[u64],
        elem_bits: u32,
        pieces: &[Piece],
    ) -> Result<Layout, LayoutError> {
        let overflow = || LayoutError::Overflow {
            shape: shape.to_vec(),
        };
        let elements = element_count(shape).ok_or_else(overflow)?;
        if elements == 0 {
            return Ok(Layout::row_major(shape, elem_bits));
        }
        let positions = pieces_size(pieces).ok_or_else(overflow)?;
        let mut chains = vec![Vec::new(); shape.len()];
        let mut stride = positions;
        for piece in pieces {
            if piece.extent < piece.count.max(1) || shape.len() <= piece.dim {
                return Err(LayoutError::Pieces {
                    dim: piece.dim,
                    size: 0,
                });
            }
            stride /= piece.extent.max(1);
            chains[piece.dim].push((*piece, stride as i64));
        }
        let mut parts = Vec::with_capacity(shape.len());
        for (dim, (&size, list)) in shape.iter().zip(&mut chains).enumerate() {
            parts.push((size, dimension_chain(dim, size, list)?));
        }
        let chain = concat(parts.iter().map(|(size, part)| (*size, &**part)));
        let chain = if elements <= 1 { Chain::new() } else { chain };
        let function = Function::logical(chain, 0);
        let storage = Storage {
            positions,
            type_bits: elem_bits,
            bits: elem_bits,
            space: 0,
        };
        respell::spelled(shape, elements, function, storage, None)
    }

    /// Elements along each logical dimension.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.inner.shape
    }

    /// The number of logical dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.inner.shape.len()
    }

    /// The number of elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.inner.elements
    }

    /// Bits of one element in the buffer.
    #[must_use]
    pub fn elem_bits(&self) -> u32 {
        self.inner.bits
    }

    /// Memory space: 0 main memory, 1 VMEM, 5 host.
    #[must_use]
    pub fn space(&self) -> u32 {
        self.inner.space
    }

    /// How the layout is written.
    #[must_use]
    pub fn spelling(&self) -> &Spelling {
        &self.inner.spelling
    }

    /// Buffer size in elements, padding included.
    #[must_use]
    pub fn positions(&self) -> u64 {
        self.inner.positions
    }

    /// Buffer size in bytes, padding included, rounded up to whole bytes; saturates.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bits = u128::from(self.inner.positions) * u128::from(self.inner.bits);
        u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX)
    }

    /// Buffer size in bytes of the largest part, where an XLA layout splits a dimension over several
    /// memories (`SC`); else [`Layout::bytes`].
    #[must_use]
    pub fn part_bytes(&self) -> u64 {
        let Spelling::Xla(xla) = self.spelling() else {
            return self.bytes();
        };
        if xla.split_configs().is_empty() || self.elements() == 0 {
            return self.bytes();
        }
        let part = xla.largest_part(self.shape());
        let whole = XlaSpelling {
            splits: Vec::new(),
            ..xla.clone()
        };
        let layout = Layout::new(Spelling::Xla(whole), &part, self.inner.type_bits);
        layout.map_or_else(|_| self.bytes(), |layout| layout.bytes())
    }

    /// Dimensions that are cut into parts in different memories.
    pub(crate) fn splits(&self) -> &[SplitConfig] {
        match self.spelling() {
            Spelling::Xla(xla) => xla.split_configs(),
            _ => &[],
        }
    }

    /// What the same spelling means for another shape of the same rank.
    ///
    /// # Errors
    /// The spelling does not fit the shape.
    pub fn with_shape(&self, shape: &[u64]) -> Result<Layout, LayoutError> {
        Layout::new(self.spelling().clone(), shape, self.inner.type_bits)
    }

    /// The same elements at the same offsets of a buffer in another memory space.
    ///
    /// # Errors
    /// A spelling in block or strided notation has no memory space other than 0, and no other
    /// notation writes the function.
    pub fn in_space(&self, space: u32) -> Result<Layout, LayoutError> {
        if space == self.space() {
            return Ok(self.clone());
        }
        let mut storage = self.storage();
        storage.space = space;
        if let Spelling::Xla(xla) = self.spelling() {
            let spelling = Spelling::Xla(xla.in_space(space));
            let function = self.function().clone();
            return Ok(Self::from_parts(
                self.shape(),
                self.elements(),
                function,
                storage,
                spelling,
            ));
        }
        respell::spelled(
            self.shape(),
            self.elements(),
            self.function().clone(),
            storage,
            Some(self.spelling()),
        )
    }

    /// The same elements at the same offsets for an element type of `type_bits` bits in a memory space,
    /// in a notation that says both where the type does not.
    ///
    /// # Errors
    /// Neither tiles nor digits write the function.
    pub fn stored_as(&self, type_bits: u32, space: u32) -> Result<Layout, LayoutError> {
        let mut storage = self.storage();
        (storage.type_bits, storage.space) = (type_bits, space);
        let (shape, function) = (self.shape(), self.function().clone());
        let spelling = match self.spelling() {
            Spelling::Xla(xla) => Spelling::Xla(respell::stored(storage, xla.clone())),
            Spelling::RowMajor
            | Spelling::Block(_)
            | Spelling::Strided(_)
            | Spelling::Digits(_) => {
                let bare = Self::from_parts(
                    shape,
                    self.elements(),
                    function.clone(),
                    storage,
                    Spelling::RowMajor,
                );
                let tiles = respell::in_notation(&bare, Notation::Xla);
                tiles.or_else(|_| respell::in_notation(&bare, Notation::Digits))?
            }
        };
        Ok(Self::from_parts(
            shape,
            self.elements(),
            function,
            storage,
            spelling,
        ))
    }

    pub(crate) fn function(&self) -> &Function {
        &self.inner.function
    }

    pub(crate) fn storage(&self) -> Storage {
        let Inner {
            positions,
            type_bits,
            bits,
            space,
            ..
        } = *self.inner;
        Storage {
            positions,
            type_bits,
            bits,
            space,
        }
    }

    /// Offset in elements of the element with logical index `e`; `None` out of bounds.
    #[must_use]
    pub fn index(&self, e: &[u64]) -> Option<u64> {
        let shape = self.shape();
        if e.len() != shape.len() || e.iter().zip(shape).any(|(i, size)| size <= i) {
            return None;
        }
        if let Some(program) = &self.inner.function.program {
            return Some(program.position(e));
        }
        let number = |k: u64, dim: usize| k.checked_mul(shape[dim])?.checked_add(e[dim]);
        let k = match &self.inner.function.order {
            None => (0..shape.len()).try_fold(0, number)?,
            Some(order) => order.iter().copied().try_fold(0, number)?,
        };
        self.position(k)
    }

    /// Position of the element whose number in the chain's order is `k`.
    fn position(&self, k: u64) -> Option<u64> {
        if self.inner.elements <= k {
            return None;
        }
        let function = &self.inner.function;
        function.offset.checked_add_signed(eval(&function.chain, k))
    }

    /// Position of the element with row-major number `k`.
    pub(crate) fn position_of_number(&self, k: u64) -> Option<u64> {
        let function = &self.inner.function;
        match (&function.order, &function.program) {
            (None, None) => self.position(k),
            _ => self.index(&unravel(k, self.shape())),
        }
    }

    /// Logical index of the element at offset `p`; `None` for padding and behind the buffer.
    ///
    /// Where strides make several elements share an offset, one of them.
    #[must_use]
    pub fn element_at(&self, p: u64) -> Option<Vec<u64>> {
        if self.inner.positions <= p {
            return None;
        }
        let function = &self.inner.function;
        if let Some(program) = &function.program {
            return program.element_at(p);
        }
        let value = i64::try_from(i128::from(p) - i128::from(function.offset)).ok()?;
        let k = chain::find(&function.chain, self.inner.elements, value)?;
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

    /// Whether both place every element at the same position in buffers of the same size, element
    /// width and memory space. Exact; layouts of different shapes differ.
    ///
    /// Functions that count merged dimensions in different orders, and tiles that cut across the
    /// padding of a merge, are compared box by box; a pair whose boxes are too many counts as different.
    #[must_use]
    pub fn same_function(&self, other: &Layout) -> bool {
        if Arc::ptr_eq(&self.inner, &other.inner) {
            return true;
        }
        let same = |a: Storage, b: Storage| {
            a.positions == b.positions && a.bits == b.bits && a.space == b.space
        };
        self.shape() == other.shape()
            && crate::view::same_splits(self, other)
            && same(self.storage(), other.storage())
            && crate::view::same_positions(self, other)
    }

    /// A hash of the function: layouts that are [`Layout::same_function`] have the same.
    #[must_use]
    pub fn function_hash(&self) -> u64 {
        let inner = &*self.inner;
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut add = |value: u64| {
            hash = (hash.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
        };
        inner.shape.iter().for_each(|&size| add(size));
        add(inner.positions);
        add(u64::from(inner.bits));
        add(u64::from(inner.space));
        // Positions at spread-out elements are a property of the function, its chain is not.
        let n = inner.elements;
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

    /// Whether the function is the dense row-major one in memory space 0, in elements of the type's
    /// own bits.
    #[must_use]
    pub fn is_row_major(&self) -> bool {
        let Inner {
            space,
            bits,
            type_bits,
            ..
        } = &*self.inner;
        *space == 0 && bits == type_bits && self.is_row_major_order()
    }

    /// Whether the elements lie row-major and dense, in whatever memory space and element width.
    #[must_use]
    pub fn is_row_major_order(&self) -> bool {
        let Inner {
            function,
            elements,
            positions,
            ..
        } = &*self.inner;
        let dense = function.offset == 0 && positions == elements;
        if function.program.is_some() {
            let plain = Layout::row_major(self.shape(), self.inner.bits);
            return dense && crate::view::same_positions(self, &plain);
        }
        dense && function.order.is_none() && function.chain == chain::linear(1, *elements)
    }

    /// The maximal linear digits of each dimension, sorted major to minor; `None` where the
    /// function is not a sum over dimensions of mixed-radix digits in one dense order.
    ///
    /// In each dimension the `div`s divide one another and the `count`s fill the range between
    /// them. A dimension of size 1 has no digit. Innermost positions that no element uses are a
    /// piece of count 1. An empty tensor has no pieces.
    #[must_use]
    pub fn pieces(&self) -> Option<Vec<Piece>> {
        let inner = &*self.inner;
        if inner.elements == 0 {
            return Some(Vec::new());
        }
        let function = &inner.function;
        if function.order.is_some() || function.program.is_some() || function.offset != 0 {
            return None;
        }
        let mut pieces = Vec::new();
        let (mut rest, mut n) = (inner.function.chain.clone(), inner.elements);
        for (dim, &size) in inner.shape.iter().enumerate().rev() {
            if size == 1 {
                continue;
            }
            let (outer, part) = split(&rest, n, size)?;
            (rest, n) = (outer, n / size);
            dimension_pieces(dim, size, &part, &mut pieces)?;
        }
        fill_extents(&inner.shape, inner.positions, pieces)
    }

    /// The same function written in another notation.
    ///
    /// # Errors
    /// [`LayoutError::Inexpressible`] says why the notation cannot write this function.
    pub fn respell(&self, notation: Notation) -> Result<Layout, LayoutError> {
        let spelling = respell::in_notation(self, notation)?;
        Ok(self.with_spelling(spelling))
    }

    /// The same function under a spelling that is known to mean it.
    pub(crate) fn with_spelling(&self, spelling: Spelling) -> Layout {
        let (function, storage) = (self.function().clone(), self.storage());
        Self::from_parts(self.shape(), self.elements(), function, storage, spelling)
    }

    /// A guess at what the writer of a block spelling meant, where a block is larger than the
    /// dimension it names and fits another one.
    #[must_use]
    pub fn spelling_hint(&self) -> Option<String> {
        let Spelling::Block(block) = self.spelling() else {
            return None;
        };
        if block.axes.is_some() || block.numbered {
            return None;
        }
        let letters = default_axes(self.rank())?;
        let factor = block
            .levels
            .first()?
            .iter()
            .find(|f| self.shape()[f.dim] < f.extent)?;
        let fits = |&dim: &usize| {
            let size = self.shape()[dim];
            dim != factor.dim && 0 < size && size.is_multiple_of(factor.extent)
        };
        let meant = (0..self.rank()).rev().find(fits)?;
        let (letter, size) = (block.axis_name(factor.dim), self.shape()[factor.dim]);
        let other = format!("{}{}", factor.extent, block.axis_name(meant));
        let axes = match (letter.as_str(), self.rank()) {
            ("W", 3) if meant == 2 => " or axes = \"NHW\"",
            ("W", 4) if meant == 3 => " or axes = \"NCHW\"",
            ("W", 5) if meant == 4 => " or axes = \"NCDHW\"",
            _ => "",
        };
        let dim = factor.dim;
        let what = format!("{letter} is dimension {dim} (size {size}) of {letters}");
        Some(format!("{what}; did you mean {other}{axes}?"))
    }
}

/// The product of sizes; saturates.
pub(crate) fn product(sizes: &[u64]) -> u64 {
    sizes
        .iter()
        .fold(1, |product: u64, &size| product.saturating_mul(size))
}

/// Row-major index of a number.
pub(crate) fn unravel(mut k: u64, shape: &[u64]) -> Vec<u64> {
    let mut e = vec![0; shape.len()];
    for (index, &size) in e.iter_mut().zip(shape).rev() {
        *index = k % size.max(1);
        k /= size.max(1);
    }
    e
}

/// The product of all extents.
fn pieces_size(pieces: &[Piece]) -> Option<u64> {
    let size = pieces
        .iter()
        .try_fold(1u64, |size, piece| size.checked_mul(piece.extent))?;
    i64::try_from(size).ok().map(|_| size)
}

/// One dimension's chain from its pieces and their strides.
fn dimension_chain(dim: usize, size: u64, list: &mut [(Piece, i64)]) -> Result<Chain, LayoutError> {
    list.sort_by_key(|(piece, _)| std::cmp::Reverse(piece.div));
    let mut domain = size;
    let mut cuts = Vec::with_capacity(list.len());
    for &(piece, stride) in list.iter() {
        let unused = domain <= piece.div && piece.count <= 1;
        if piece.div == 0 || !unused && piece.count != domain.div_ceil(piece.div) {
            return Err(LayoutError::Pieces { dim, size });
        }
        if !unused {
            cuts.push(Cut {
                size: piece.div,
                stride,
            });
            domain = piece.div;
        }
    }
    if 1 < domain {
        return Err(LayoutError::Pieces { dim, size });
    }
    Ok(normalize(cuts, size))
}

/// Appends one dimension's pieces, their strides in place of extents.
fn dimension_pieces(dim: usize, size: u64, part: &[Cut], pieces: &mut Vec<Piece>) -> Option<()> {
    let mut radix = None;
    for step in steps(part, size) {
        let div = step.cut.size;
        if radix.is_some_and(|radix: u64| !radix.is_multiple_of(div)) {
            return None;
        }
        radix = Some(div);
        let extent = u64::try_from(step.cut.stride)
            .ok()
            .filter(|&stride| 0 < stride)?;
        pieces.push(Piece {
            dim,
            div,
            count: step.count,
            extent,
        });
    }
    Some(())
}

/// Sorts pieces that carry strides and turns the strides into extents.
fn fill_extents(shape: &[u64], positions: u64, mut pieces: Vec<Piece>) -> Option<Vec<Piece>> {
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.extent));
    let mut above = positions;
    for piece in &mut pieces {
        let stride = piece.extent;
        if !above.is_multiple_of(stride) || above / stride < piece.count {
            return None;
        }
        piece.extent = above / stride;
        above = stride;
    }
    if 1 < above {
        // A dimension of size 1 takes the unused positions, so that a block can name it.
        let dim = shape
            .iter()
            .rposition(|&size| size == 1)
            .or(shape.len().checked_sub(1))?;
        pieces.push(Piece {
            dim,
            div: shape[dim],
            count: 1,
            extent: above,
        });
    }
    Some(pieces)
}

fn expect_rank(key: &'static str, found: usize, rank: usize) -> Result<(), LayoutError> {
    if found == rank {
        Ok(())
    } else {
        Err(LayoutError::RankMismatch { key, found, rank })
    }
}

fn check_rank<'a>(
    key: &'static str,
    mut dims: impl Iterator<Item = &'a usize>,
    rank: usize,
) -> Result<(), LayoutError> {
    match dims.find(|&&dim| rank <= dim) {
        Some(dim) => Err(LayoutError::RankMismatch {
            key,
            found: dim + 1,
            rank,
        }),
        None => Ok(()),
    }
}

/// The function of a block spelling.
fn build_block(
    block: &BlockSpelling,
    shape: &[u64],
    storage: &mut Storage,
) -> Result<Function, LayoutError> {
    let rank = shape.len();
    expect_rank("order", block.order.len(), rank)?;
    if shape.contains(&0) {
        return Ok(Function::empty());
    }
    let overflow = |_| LayoutError::Overflow {
        shape: shape.to_vec(),
    };
    let mut builder = Builder::new(shape).map_err(overflow)?;
    let mut inside: Vec<usize> = (0..rank).collect();
    let mut physical = Vec::new();
    let identity: Vec<usize> = (0..rank).collect();
    for (i, level) in block.levels.iter().enumerate() {
        let mut outside = Vec::with_capacity(rank);
        for (dim, axis) in inside.iter_mut().enumerate() {
            let own = level.iter().filter(|factor| factor.dim == dim);
            let size = own
                .map(|factor| factor.extent)
                .try_fold(1u64, u64::checked_mul);
            let size = size.ok_or_else(|| LayoutError::Overflow {
                shape: shape.to_vec(),
            })?;
            let (outer, inner) = builder.cut(*axis, size).map_err(overflow)?;
            outside.push(outer);
            *axis = inner;
        }
        let order: Vec<usize> = match i.checked_sub(1) {
            None => block.order.clone(),
            Some(j) => match block.inner_orders.get(j) {
                Some(order) => order.clone(),
                None => outer_dims(&block.levels[j], &identity),
            },
        };
        physical.extend(order.iter().map(|&dim| outside[dim]));
    }
    match block.levels.last() {
        None => physical.extend(block.order.iter().map(|&dim| inside[dim])),
        Some(level) => {
            for (i, factor) in level.iter().enumerate() {
                let later = level[i + 1..]
                    .iter()
                    .filter(|other| other.dim == factor.dim);
                let below = later.map(|other| other.extent).product::<u64>();
                let (outer, inner) = builder.cut(inside[factor.dim], below).map_err(overflow)?;
                physical.push(outer);
                inside[factor.dim] = inner;
            }
        }
    }
    let (chain, positions) = builder.finish(&physical).map_err(overflow)?;
    storage.positions = positions;
    Ok(Function::logical(chain, 0))
}

/// The dimensions in the order in which a level lists them, then the others.
fn outer_dims(level: &[crate::spelling::Factor], all: &[usize]) -> Vec<usize> {
    let named = level.iter().map(|factor| factor.dim);
    let others = all
        .iter()
        .copied()
        .filter(|dim| level.iter().all(|f| f.dim != *dim));
    named.chain(others).collect()
}

/// The function of a strided spelling.
fn build_strided(
    strided: &StridedSpelling,
    shape: &[u64],
    storage: &mut Storage,
) -> Result<Function, LayoutError> {
    expect_rank("strides", strided.strides.len(), shape.len())?;
    let overflow = || LayoutError::Overflow {
        shape: shape.to_vec(),
    };
    let elements = element_count(shape).ok_or_else(overflow)?;
    if elements == 0 {
        return Ok(Function::logical(Chain::new(), strided.offset));
    }
    let (mut low, mut high) = (i128::from(strided.offset), i128::from(strided.offset));
    let mut size = elements;
    let mut cuts = Vec::with_capacity(shape.len());
    for (&count, &stride) in shape.iter().zip(&strided.strides) {
        size /= count;
        let last = i128::from(stride) * i128::from(count - 1);
        (low, high) = (low + last.min(0), high + last.max(0));
        if 1 < count {
            cuts.push(Cut { size, stride });
        }
    }
    let needed = u64::try_from(high + 1)
        .ok()
        .filter(|&needed| i64::try_from(needed).is_ok());
    let needed = needed.ok_or_else(overflow)?;
    let size = strided.size.unwrap_or(needed);
    if low < 0 || size < needed {
        return Err(LayoutError::OutOfBuffer { low, high, size });
    }
    storage.positions = size;
    Ok(Function::logical(normalize(cuts, elements), strided.offset))
}

/// The function of a digits spelling.
fn build_digits(
    digits: &crate::digits::DigitsSpelling,
    shape: &[u64],
    elements: u64,
    storage: &mut Storage,
) -> Result<Function, LayoutError> {
    let (chain, padded) = digits.build(shape)?;
    let order = digits.chain_order(shape.len())?;
    let highest = digits
        .offset
        .saturating_add(chain::highest(&chain, elements));
    let needed = if digits.offset == 0 {
        padded
    } else {
        highest.saturating_add(1)
    };
    storage.positions = digits.size.unwrap_or(needed);
    if elements != 0 && storage.positions <= highest || i64::try_from(needed).is_err() {
        let (low, high) = (i128::from(digits.offset), i128::from(highest));
        return Err(LayoutError::OutOfBuffer {
            low,
            high,
            size: storage.positions,
        });
    }
    Ok(Function::new(&order, chain, shape, digits.offset))
}

/// The function of an XLA spelling.
fn build_xla(
    xla: &XlaSpelling,
    shape: &[u64],
    storage: &mut Storage,
) -> Result<Function, LayoutError> {
    if shape.contains(&0) {
        return Ok(Function::empty());
    }
    let (function, positions) = xla.build(shape)?;
    storage.positions = positions;
    Ok(function)
}
