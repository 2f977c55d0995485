//! Matrix products over strided operands: a packed GEMM whose M, N and K are lists of offsets, with batch loops around it.
//!
//! For `C[i, j] = sum of A[i, k] * B[k, j]` with `A` of 2x3 and `B` of 3x4, all row-major, rows have the offsets `(C, A)` =
//! (0, 0), (4, 3), columns `(C, B)` = (0, 0), (1, 1), (2, 2), (3, 3) and terms `(A, B)` = (0, 0), (1, 4), (2, 8). `C[i, j]`
//! is at `rows[i] + columns[j]`, and sums the products of `A` at `rows[i] + terms[t]` by `B` at `columns[j] + terms[t]`.
//!
//! Loops that the result shares with one operand alone are flattened into rows (M) or columns (N). Loops that the result
//! does not have are flattened into terms (K). Loops of all three are batch loops. As offsets are listed, no order of
//! dimensions needs a transposed copy. The operand that is contiguous in the result gives the columns.
//!
//! Columns are packed into panels, either when a panel is used or, for a constant, when the program is prepared. Rows are
//! read in place if their terms are contiguous. A factor is what the micro-kernel multiplies: an `f32`, an `i32` or a quad
//! of four bytes along K. Elements of other types (floats of 16 bits, integers of 8) are converted to factors by packing.
//! Accumulators are converted to elements of the result when they are stored.
#![expect(unsafe_code, reason = "kernels take pointers to rows")]

use crate::dequantize::{Dequantize, Dequantizes, scaled};
use crate::element::{Element, Kind, Number, elements, elements_mut, same, same_mut};
use crate::epilogue::Epilogue;
use crate::error::KernelError;
use crate::image::Image;
use crate::isa::Isa;
use crate::links::Part;
use crate::loops::{Loop, dimension, ordered, walk};
use crate::product::{
    self, Byte, FLIPPED_ZERO, Factor, Initial, MOST_COLUMNS, MicroKernel, PackElement, Panel, Quad,
    Requantize, RequantizedRows, Scales, Taps,
};
use crate::team::{self, Share, Team};
use crate::vectorized::{CACHE_LINE, prefetch, prefetch_run, vectorized};
use crate::window::Window;
use bytemuck::{Zeroable, cast_slice, cast_slice_mut};
use half::{bf16, f16};
use indexmap::IndexMap;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::Range;

/// Offsets of the result, the left operand, the right operand and the initial value at each step of one loop.
pub type Along = [Vec<i64>; 4];

/// Indices into arrays of offsets: the result, the operands, and the initial value of the accumulators.
pub(crate) const RESULT: usize = 0;
/// The left operand.
pub const LEFT: usize = 1;
/// The right operand.
pub const RIGHT: usize = 2;
pub(crate) const INITIAL: usize = 3;

/// Most factors along K that are accumulated in registers before sums are stored (`KC` of BLIS).
const TERMS: usize = 256;
/// Factors of a packed panel, with room for the vectors that are copied beyond its last term.
const PANEL: usize = TERMS * MOST_COLUMNS + Image::ROOM;
/// Bytes of packed rows that are multiplied by all columns before the next block of rows (`MC` of BLIS times `KC`).
const ROWS_BYTES: usize = 256 << 10;
/// Most rows of a block.
const MOST_ROWS: usize = 1024;
/// Most accumulators that are kept outside of the result when K is cut into several blocks.
const MOST_ACCUMULATORS: usize = 1 << 18;
/// Most rows for which columns are read in place instead of packed.
const FEW_ROWS: usize = 48;
/// An operand is small if one product reads at most `SMALL` elements of it. Small operands of the next product are
/// prefetched if there are at least `MANY` products.
const SMALL: usize = 8192;
const MANY: u64 = 8;
/// Most rows whose sums are initialized, accumulated and stored before the next rows, so that the sums of a panel stay in
/// the L1 cache.
const SOME_ROWS: usize = 96;

/// Bytes of scratch memory of a thread, by purpose.
pub type Scratch = [usize; 4];

/// Checks that the least and the greatest offset of each value are inside of its buffer.
///
/// # Errors
/// An offset is not.
pub fn within<const N: usize>(
    reach: [(i64, i64); N],
    elements: [usize; N],
) -> Result<(), KernelError> {
    let mut all = reach.into_iter().zip(elements);
    match all.all(|((low, high), n)| 0 <= low && high < n as i64) {
        true => Ok(()),
        false => Err(KernelError::OutOfBounds),
    }
}

/// Buffers that a product reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operands<'a, E, T: Element> {
    pub(crate) left: &'a [E],
    pub(crate) right: &'a [E],
    pub(crate) start: InitialValues<'a, T>,
    /// Zero points of the left and of the right operand, as stored in the buffer.
    pub(crate) zeros: [u8; 2],
}

/// Initial values of the accumulators.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InitialValues<'a, T: Element> {
    Zero,
    /// Elements at the offsets of [`INITIAL`].
    Values(&'a [T]),
    /// Accumulators at the offsets of [`INITIAL`], where elements of the result have another type.
    Sums(&'a [T::Number]),
    /// The previous contents of the result.
    Result,
}

/// The loops of a contraction.
#[derive(Debug)]
pub struct Products {
    pub(crate) base: [i64; 4],
    /// Loops around the matrix product.
    pub batch: Vec<Loop<4>>,
    /// Offsets of the rows (M).
    pub rows: Vec<[i64; 4]>,
    /// Offsets of the columns (N).
    pub columns: Vec<[i64; 4]>,
    /// Offsets of the terms (K).
    pub terms: Vec<[i64; 4]>,
    /// True if the left operand gives the columns.
    pub swapped: bool,
    /// The least and the greatest offset of each value.
    pub offset_range: [(i64, i64); 4],
    /// Bounds of the operand that a convolution's window slides over; `None` if there is no window.
    pub window: Option<Window>,
    /// Scales that elements of the left and of the right operand are multiplied by before the product, for `f32` operands
    /// that are no constants.
    pub scales: [Option<f32>; 2],
    /// Signs and zero points of quantized operands.
    pub quantization: Option<Quantization>,
    /// True if elements are factors as stored in the buffer.
    direct: bool,
    /// Terms that one factor holds: 4 for bytes, otherwise 1.
    terms_per_factor: usize,
    pub(crate) micro: MicroKernel,
    /// For batches of many small products: offsets of the left and of the right operand, one in each cache line that a
    /// product reads. They are prefetched for the next product while the current one is computed.
    prefetched: [Vec<i64>; 2],
}

/// Signs and zero points of two byte operands. Unsigned bytes are read as signed ones with the sign bit flipped, which
/// subtracts 128 from the bytes and from their zero point.
#[derive(Clone, Copy, Debug)]
pub struct Quantization {
    /// True for an operand of unsigned bytes.
    pub unsigned: [bool; 2],
    /// Zero points as stored in the buffer, where they are known when the program is prepared.
    pub zeros: [Option<u8>; 2],
}

/// Types of elements that have a kernel, and how they are converted to factors.
pub(crate) trait Source: PackElement {
    type Factor: Factor<Sum = Self::Number>;

    /// Terms that one factor holds.
    const TERMS_PER_FACTOR: usize;
    /// True if an element is a factor as stored.
    const DIRECT: bool = false;

    /// Returns the elements as factors, if they are factors as stored.
    fn factors(list: &[Self]) -> Option<&[Self::Factor]> {
        let _ = list;
        None
    }

    /// Returns the element whose bits are those of the byte; zero for other types.
    fn of_byte(byte: u8) -> Self {
        let _ = byte;
        Self::zeroed()
    }

    /// Sums the bytes of some factors of a row, each minus the zero point `zero_point`.
    fn row_sum(factors: impl Iterator<Item = Self::Factor>, zero_point: u8) -> Self::Number {
        let _ = (factors, zero_point);
        Self::Number::zeroed()
    }

    /// Converts packed elements, `width` of each term, to factors. Missing terms of the last factor are `rest`.
    fn to_factors(list: &[Self], width: usize, rest: Self, to: &mut [Self::Factor]);

    /// Packs columns that are contiguous in memory; `columns` is the first offset and the number of columns. Returns false
    /// if the type has no such packing.
    fn pack_contiguous(
        list: &[Self],
        columns: (i64, usize),
        terms: &[i64],
        (to, rest): (&mut [Self::Factor], Self),
        width: usize,
    ) -> bool {
        let _ = (list, columns, terms, to, rest, width);
        false
    }

    /// Makes the padded image of an operand that a window slides over. `i32` has none.
    fn imaged(
        image: &Image,
        from: &[Self],
        base: i64,
        rest: Self,
        lines: &mut [Self],
        to: &mut [Self::Factor],
    ) {
        let _ = (image, from, base, rest, lines, to);
    }

    /// Multiplies factors by a scale; `f32` only.
    fn scale(factors: &mut [Self::Factor], by: f32) {
        let _ = (factors, by);
    }

    /// Turns factors of columns into factors of rows: flips the sign bit of bytes.
    #[inline(always)]
    fn rows(factors: &mut [Self::Factor]) {
        let _ = factors;
    }

    /// Packs columns whose terms are contiguous in memory, a transposition; `start` is the offset of the first term and
    /// `terms` the number of terms. Returns false if the type has no such packing.
    fn pack_transposed(
        list: &[Self],
        columns: &[i64],
        (start, terms): (i64, usize),
        to: &mut [Self::Factor],
        width: usize,
    ) -> bool {
        let _ = (list, columns, start, terms, to, width);
        false
    }
}

macro_rules! direct {
    ($($element:ty, [$($own:item)*];)*) => {$(
        impl Source for $element {
            type Factor = $element;
            const TERMS_PER_FACTOR: usize = 1;
            const DIRECT: bool = true;

            fn factors(list: &[$element]) -> Option<&[$element]> {
                Some(list)
            }

            fn to_factors(list: &[$element], _: usize, _: $element, to: &mut [$element]) {
                to.copy_from_slice(list);
            }

            $($own)*
        }
    )*};
}

direct! {
    f32, [
        fn imaged(
            image: &Image,
            from: &[f32],
            base: i64,
            rest: f32,
            _: &mut [f32],
            to: &mut [f32],
        ) {
            image.of_elements(
                base,
                to,
                #[inline(always)]
                |at, to| image.places(from, at, rest, to),
            );
        }
        fn scale(factors: &mut [f32], by: f32) {
            vectorized(
                #[inline(always)]
                || factors.iter_mut().for_each(|x| *x *= by),
            );
        }
    ];
    i32, [];
}

macro_rules! floats {
    ($($element:ty),*) => {$(
        impl Source for $element {
            type Factor = f32;
            const TERMS_PER_FACTOR: usize = 1;

            #[inline(always)]
            fn to_factors(list: &[$element], _: usize, _: $element, to: &mut [f32]) {
                to.iter_mut().zip(list).for_each(|(to, x)| *to = x.read());
            }

            fn imaged(
                image: &Image,
                from: &[$element],
                base: i64,
                rest: $element,
                line: &mut [$element],
                to: &mut [f32],
            ) {
                image.of_elements(
                    base,
                    to,
                    #[inline(always)]
                    |at, to| {
                        image.places(from, at, rest, line);
                        Self::to_factors(line, 1, rest, to);
                    },
                );
            }
        }
    )*};
}

floats!(bf16, f16);

macro_rules! bytes {
    ($($element:ty),*) => {$(
        impl Source for $element {
            type Factor = Quad<$element>;
            const TERMS_PER_FACTOR: usize = 4;

            fn of_byte(byte: u8) -> $element {
                byte as $element
            }

            #[inline(always)]
            fn row_sum(factors: impl Iterator<Item = Quad<$element>>, zero_point: u8) -> i32 {
                let zero_point = 4 * i32::from(zero_point);
                let bytes = |quad: Quad<$element>| quad.map(|byte| i32::from(byte as u8));
                factors.fold(0, |sum, quad| {
                    let [a, b, c, d] = bytes(quad);
                    sum + (a + b + c + d - zero_point)
                })
            }

            #[inline(always)]
            fn to_factors(
                list: &[$element],
                width: usize,
                last: $element,
                to: &mut [Quad<$element>],
            ) {
                if width == 1 {
                    let (quads, rest) = list.as_chunks::<4>();
                    product::copy_line(quads, &mut to[..quads.len()]);
                    if !rest.is_empty() {
                        to[quads.len()] =
                            std::array::from_fn(|k| rest.get(k).copied().unwrap_or(last));
                    }
                    return;
                }
                let zeros = [last; MOST_COLUMNS];
                for (to, four) in to.chunks_exact_mut(width).zip(list.chunks(4 * width)) {
                    let mut lines = four.chunks_exact(width);
                    let lines = std::array::from_fn(|_| lines.next().unwrap_or(&zeros[..width]));
                    product::interleave(lines, to);
                }
            }

            fn pack_contiguous(
                list: &[$element],
                columns: (i64, usize),
                terms: &[i64],
                (to, rest): (&mut [Quad<$element>], $element),
                width: usize,
            ) -> bool {
                product::interleave_quads(list, columns, terms, rest, to, width);
                true
            }

            fn imaged(
                image: &Image,
                from: &[$element],
                base: i64,
                rest: $element,
                lines: &mut [$element],
                to: &mut [Quad<$element>],
            ) {
                image.make(from, base, rest, lines, to);
            }

            #[inline(always)]
            fn rows(factors: &mut [Quad<$element>]) {
                factors.iter_mut().for_each(|quad| *quad = quad.map(Byte::sign_flipped));
            }

            fn pack_transposed(
                list: &[$element],
                columns: &[i64],
                (start, terms): (i64, usize),
                to: &mut [Quad<$element>],
                width: usize,
            ) -> bool {
                product::transpose_quads(list, columns, start, terms, to, width);
                true
            }
        }
    )*};
}

bytes!(i8, u8);

/// Products of elements of type `E`, stored as elements of type `T`, with the packed factors of constant operands.
#[derive(Debug)]
pub(crate) struct Typed<E: Source, T> {
    of: Products,
    /// Packed panels of a constant that gives columns, by the offset that the batch loops add.
    packed: IndexMap<i64, Vec<E::Factor>>,
    /// Packed rows of a constant, in groups of [`MicroKernel::rows`], by the offset that the batch loops add.
    packed_rows: IndexMap<i64, Vec<E::Factor>>,
    /// Sums of each constant row minus its known zero point, block by block: the compensation for the columns' zero point.
    row_sums: IndexMap<i64, Vec<E::Number>>,
    /// Epilogue: operations on sums before they are stored.
    epilogue: Option<Epilogue>,
    /// Scales and biases of sums before the epilogue.
    dequantize: Option<Dequantizes>,
    target: PhantomData<T>,
}

/// Initial values of the accumulators, in bytes.
#[derive(Clone, Copy, Debug)]
pub enum InitialBytes<'a> {
    /// Sums begin with zero.
    Zero,
    /// Sums begin with the elements at the offsets of `INITIAL`.
    Values(&'a [u8]),
    /// Sums begin with the previous contents of the result.
    Result,
}

/// Products whose types are erased.
pub trait Multiply: Debug + Send + Sync {
    /// Positions of the terms in the order in which they are summed, sorted by their offset in the right operand.
    fn order(&self) -> Vec<u32>;

    /// Bytes of packed constants.
    fn packed_bytes(&self) -> usize;

    /// Bytes of scratch memory that each thread needs: for packed rows and the image, for a panel, for sums, and for
    /// elements that are not yet factors.
    fn scratch(&self) -> Scratch;

    /// Writes the products, added to the initial values.
    fn run(
        &self,
        out: &mut [u8],
        operands: [&[u8]; 2],
        zeros: [u8; 2],
        start: InitialBytes<'_>,
        team: &Team,
    ) -> Result<(), KernelError>;
}

impl<E: Source, T: PackElement<Number = E::Number>> Multiply for Typed<E, T> {
    fn order(&self) -> Vec<u32> {
        let terms = &self.of.terms;
        let mut order: Vec<u32> = (0..terms.len() as u32).collect();
        order.sort_by_key(|&term| terms[term as usize][RIGHT]);
        order
    }

    fn packed_bytes(&self) -> usize {
        let all = self.packed.values().chain(self.packed_rows.values());
        let row_sums = self.row_sums.values().map(|list| size_of_val(&list[..]));
        all.map(|panels| size_of_val(&panels[..])).sum::<usize>() + row_sums.sum::<usize>()
    }

    fn scratch(&self) -> Scratch {
        let (of, blocks) = (&self.of, self.of.blocks());
        let rows = self.most_rows(&blocks).min(of.rows.len());
        let rows = rows.next_multiple_of(of.micro.rows);
        let terms = blocks.iter().map(Range::len).max().unwrap_or(0);
        let factors = terms.div_ceil(E::TERMS_PER_FACTOR);
        let (panels, panel_rows) = match blocks.len() < 2 {
            true => (1, rows.min(SOME_ROWS.next_multiple_of(of.micro.rows))),
            false => (of.columns.len().div_ceil(of.micro.columns), rows),
        };
        let cells = match E::DIRECT {
            true => 0,
            false => terms * rows.max(MOST_COLUMNS) * size_of::<E>(),
        };
        let cells = cells + self.epilogue.as_ref().map_or(0, Epilogue::scratch);
        let image = of.image().map_or(0, |image| {
            image.cells() * size_of::<E::Factor>() + image.line() * size_of::<E>()
        });
        [
            rows * factors * size_of::<E::Factor>() + image,
            PANEL * size_of::<u32>(),
            panels * panel_rows * MOST_COLUMNS * size_of::<u32>(),
            cells + panel_rows * MOST_COLUMNS * size_of::<T>(),
        ]
    }

    fn run(
        &self,
        out: &mut [u8],
        [left, right]: [&[u8]; 2],
        zeros: [u8; 2],
        start: InitialBytes<'_>,
        team: &Team,
    ) -> Result<(), KernelError> {
        let start = match start {
            InitialBytes::Zero => InitialValues::Zero,
            InitialBytes::Values(bytes) => match self.epilogue {
                Some(_) => InitialValues::Sums(elements::<T::Number>(bytes)?),
                None => InitialValues::Values(elements::<T>(bytes)?),
            },
            InitialBytes::Result => InitialValues::Result,
        };
        let given = Operands {
            left: elements::<E>(left)?,
            right: elements::<E>(right)?,
            start,
            zeros,
        };
        self.multiply(elements_mut(out)?, given, team)
    }
}

/// Returns whether elements of a type are factors as stored in the buffer.
pub(crate) fn direct(kind: Kind) -> bool {
    matches!(kind, Kind::F32 | Kind::I32)
}

/// Products of elements of type `from`, stored as elements of type `to`; `None` if there is no kernel for the pair.
/// Constant operands (left, right) are packed.
pub fn typed(
    of: Products,
    [from, to]: [Kind; 2],
    constants: [Option<&[u8]>; 2],
    epilogue: Option<(Epilogue, Option<Dequantizes>)>,
) -> Option<Box<dyn Multiply>> {
    fn made<E: Source, T: PackElement<Number = E::Number>>(
        of: Products,
        constants: [Option<&[u8]>; 2],
        epilogue: Option<(Epilogue, Option<Dequantizes>)>,
    ) -> Option<Box<dyn Multiply>> {
        let (epilogue, dequantize) = match epilogue {
            Some((epilogue, dequantize)) => (Some(epilogue), dequantize),
            None => (None, None),
        };
        let mut typed = Typed::<E, T> {
            of,
            packed: IndexMap::new(),
            packed_rows: IndexMap::new(),
            row_sums: IndexMap::new(),
            epilogue,
            dequantize,
            target: PhantomData,
        };
        for (side, constant) in [LEFT, RIGHT].into_iter().zip(constants) {
            if let Some(constant) = constant {
                typed.pack(side, elements(constant).ok()?);
            }
        }
        for (k, side) in [LEFT, RIGHT].into_iter().enumerate() {
            if constants[k].is_none() {
                typed.of.prefetched[k] = typed.of.lines_of(side, size_of::<E>());
            }
        }
        Some(Box::new(typed))
    }
    match (from, to) {
        (Kind::F32, Kind::F32) => made::<f32, f32>(of, constants, epilogue),
        (Kind::BF16, Kind::BF16) => made::<bf16, bf16>(of, constants, epilogue),
        (Kind::BF16, Kind::F32) => made::<bf16, f32>(of, constants, epilogue),
        (Kind::F16, Kind::F16) => made::<f16, f16>(of, constants, epilogue),
        (Kind::F16, Kind::F32) => made::<f16, f32>(of, constants, epilogue),
        (Kind::I8, Kind::U8) if epilogue.is_some() => made::<i8, u8>(of, constants, epilogue),
        (Kind::U8, Kind::I8) if epilogue.is_some() => made::<u8, i8>(of, constants, epilogue),
        // The epilogue gives `f32`, whose bits are stored as `i32`.
        (Kind::I8, Kind::F32) if epilogue.is_some() => made::<i8, i32>(of, constants, epilogue),
        (Kind::U8, Kind::F32) if epilogue.is_some() => made::<u8, i32>(of, constants, epilogue),
        (Kind::I32, Kind::F32) if epilogue.is_some() => made::<i32, i32>(of, constants, epilogue),
        (Kind::I8, Kind::I8) => made::<i8, i8>(of, constants, epilogue),
        (Kind::I8, Kind::I32) => made::<i8, i32>(of, constants, epilogue),
        (Kind::U8, Kind::U8) => made::<u8, u8>(of, constants, epilogue),
        (Kind::U8, Kind::I32) => made::<u8, i32>(of, constants, epilogue),
        (Kind::I32, Kind::I32) => made::<i32, i32>(of, constants, epilogue),
        _ => None,
    }
}

impl Products {
    /// Products over loops with these offsets. `known` says which operands are constants. A loop along which the offset in
    /// the result does not change is summed over.
    pub fn of(base: [i64; 4], loops: &[Along], known: [bool; 2], kind: Kind) -> Option<Products> {
        let (mut batch, mut rows, mut columns, mut terms) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut offset_range = base.map(|b| (b, b));
        for along in loops {
            let n = along[0].len();
            if along.iter().any(|t| t.len() != n) || n == 0 {
                return None;
            }
            for (offset_range, table) in offset_range.iter_mut().zip(along) {
                let (low, high) = (table.iter().min()?, table.iter().max()?);
                *offset_range = (offset_range.0 + low, offset_range.1 + high);
            }
            let moves = |k: usize| along[k].iter().any(|&offset| offset != 0);
            let list = match (moves(RESULT), moves(LEFT), moves(RIGHT)) {
                (true, true, false) => &mut rows,
                (true, false, true) => &mut columns,
                (false, _, _) => &mut terms,
                (true, _, _) => &mut batch,
            };
            list.extend(dimension(std::array::from_fn(|k| &along[k][..])));
        }
        let lists = |loops: &[Loop<4>]| flat(&ordered(loops.to_vec(), RESULT));
        let (row_list, column_list) = (lists(&rows), lists(&columns));
        let micro = MicroKernel::of(Isa::current());
        let direct = direct(kind);
        let terms_per_factor = if kind.size() == 1 { 4 } else { 1 };
        let costs = Costs {
            terms: &terms,
            known,
            direct,
            terms_per_factor: terms_per_factor as f64,
            micro,
        };
        let straight = costs.of(&row_list, &column_list, LEFT);
        let swapped = costs.of(&column_list, &row_list, RIGHT) < straight;
        let (side, loops, mut rows, columns) = match swapped {
            true => (RIGHT, columns, column_list, row_list),
            false => (LEFT, rows, row_list, column_list),
        };
        // Packed rows follow the order of their operand in memory, if the result is stored in contiguous lines either way.
        let by_side = flat(&ordered(loops, side));
        if neighbours(&columns, RESULT) && lines(&by_side, side).len() < lines(&rows, side).len() {
            rows = by_side;
        }
        let mut terms = flat(&ordered(terms, side));
        // Constant rows are packed once, so any order of terms will do; the order of the other operand in memory makes
        // packing its columns faster.
        let other = LEFT + RIGHT - side;
        if known[side - LEFT] && !terms.is_sorted_by_key(|t| t[other]) {
            terms.sort_by_key(|t| t[other]);
        }
        Some(Products {
            base,
            batch: ordered(batch, RESULT),
            rows,
            columns,
            terms,
            swapped,
            offset_range,
            window: None,
            scales: [None; 2],
            quantization: None,
            direct,
            terms_per_factor,
            micro,
            prefetched: [Vec::new(), Vec::new()],
        })
    }

    /// Offsets of an operand, one in each cache line that a small product reads; `size` is the bytes of an element. Empty
    /// unless there are many small products.
    fn lines_of(&self, side: usize, size: usize) -> Vec<i64> {
        let lanes = if side == self.sides().0 {
            &self.rows
        } else {
            &self.columns
        };
        let count: u64 = self.batch.iter().map(|l| l.extent as u64).product();
        let few = lanes.len().saturating_mul(self.terms.len()) <= SMALL;
        // Lines that all products read are in the cache since the first product.
        let moves = self.batch.iter().any(|l| l.moves(side));
        if count < MANY || !few || !moves || self.window.is_some() {
            return Vec::new();
        }
        let offsets = lanes
            .iter()
            .flat_map(|lane| self.terms.iter().map(|t| lane[side] + t[side]));
        let mut offsets: Vec<i64> = offsets.collect();
        offsets.sort_unstable();
        let step = (CACHE_LINE / size) as i64;
        let mut last = None;
        offsets.retain(|&at| {
            let new = last.is_none_or(|last: i64| last + step <= at);
            last = if new { Some(at) } else { last };
            new
        });
        offsets
    }

    /// Returns whether bytes of an operand are unsigned, so that their sign bit is flipped.
    fn flips_signs(&self, side: usize) -> bool {
        self.quantization.is_some_and(|c| c.unsigned[side - LEFT])
    }

    /// Zero points as the micro-kernel sees the bytes: unsigned for rows, signed for columns. `zeros` are the zero points
    /// as stored in the buffer.
    fn zeros(&self, zeros: [u8; 2]) -> (u8, i32) {
        if self.quantization.is_none() {
            return (FLIPPED_ZERO, 0);
        }
        let flipped = |side: usize| match self.flips_signs(side) {
            true => zeros[side - LEFT],
            false => zeros[side - LEFT] ^ FLIPPED_ZERO,
        };
        let (rows, columns) = self.sides();
        (
            flipped(rows),
            i32::from(flipped(columns)) - i32::from(FLIPPED_ZERO),
        )
    }

    /// The operand that gives rows and the one that gives columns.
    pub(crate) fn sides(&self) -> (usize, usize) {
        if self.swapped {
            (RIGHT, LEFT)
        } else {
            (LEFT, RIGHT)
        }
    }

    /// Blocks of terms that are accumulated in registers at once.
    fn blocks(&self) -> Vec<Range<usize>> {
        let whole = self.terms.len();
        let (_, right) = self.sides();
        let inner = match &self.window {
            // One position of the convolution's kernel after another, if rows are read in place.
            Some(window) if window.side != right && self.reads_rows() => window.channels,
            // Whole runs of contiguous terms.
            None => match self.run() {
                Some(run @ 1..=TERMS) if run < whole => {
                    let some = TERMS / run * run;
                    let blocks = (0..whole).step_by(some);
                    return blocks.map(|from| from..(from + some).min(whole)).collect();
                }
                run => run.unwrap_or(whole),
            },
            _ => whole,
        };
        let pieces = inner.div_ceil(TERMS * self.terms_per_factor).max(1);
        // Cuts are at whole factors.
        let cut = |piece: usize| match piece == pieces {
            true => inner,
            false => inner * piece / pieces / self.terms_per_factor * self.terms_per_factor,
        };
        let mut blocks = Vec::new();
        for from in (0..whole).step_by(inner.max(1)) {
            for piece in 0..pieces {
                blocks.push(from + cut(piece)..from + cut(piece + 1));
            }
        }
        blocks
    }

    /// Returns whether rows are read in place.
    fn reads_rows(&self) -> bool {
        let (side, _) = self.sides();
        match &self.window {
            Some(_) if !self.direct || self.scales[side - LEFT].is_some() => false,
            Some(window) if window.side == side => window.direct(),
            Some(_) => even(self.terms.iter().map(|t| t[side]), 1),
            None => self.run().is_some(),
        }
    }

    /// The padded image that panels of columns are packed from, if there is one.
    fn image(&self) -> Option<&Image> {
        self.window.as_ref()?.image.as_ref()
    }

    /// Length of the contiguous runs that the terms of each row consist of, if rows are read in place and there is no
    /// window.
    fn run(&self) -> Option<usize> {
        let (side, _) = self.sides();
        if !self.direct || self.scales[side - LEFT].is_some() || self.window.is_some() {
            return None;
        }
        let run = run(self.terms.iter().map(|t| t[side]));
        (LEAST_RUN.min(self.terms.len()) <= run).then_some(run)
    }

    /// Factors in each contiguous run of a block's terms in rows that are read in place, and the offset of each run. Packed
    /// rows have a single run.
    fn runs_of<E: Source>(&self, block: &Range<usize>, direct: bool) -> (usize, Vec<isize>) {
        let (side, _) = self.sides();
        let terms = self.terms[block.clone()].iter().map(|t| t[side]);
        let apart = self.window.is_none() && direct;
        let run = if apart { run(terms.clone()) } else { 0 };
        if run == 0 || run == block.len() {
            return (block.len().div_ceil(E::TERMS_PER_FACTOR), vec![0]);
        }
        let first = terms.clone().next().unwrap_or(0);
        let starts = terms.step_by(run).map(|at| (at - first) as isize);
        (run, starts.collect())
    }
}

/// The greatest length of contiguous runs such that all offsets consist of runs of that length.
fn run(offsets: impl Iterator<Item = i64> + Clone) -> usize {
    let follows = offsets.clone().zip(offsets.clone().skip(1));
    let breaks = follows.enumerate().filter(|(_, (a, b))| a + 1 != *b);
    let ends = breaks.map(|(at, _)| at + 1).chain([offsets.count()]);
    ends.fold(0, |run, end| gcd(run, end as u64)) as usize
}

/// The greatest common divisor.
fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}

/// Shortest run of contiguous terms that is copied as a line, so that a packed row stays contiguous.
const FEW_TOGETHER: usize = 8;
/// Shortest run of contiguous terms that is read in place.
const LEAST_RUN: usize = 16;

/// Factors along K of each block.
fn steps<E: Source>(blocks: &[Range<usize>]) -> impl Iterator<Item = usize> {
    blocks
        .iter()
        .map(|block| block.len().div_ceil(E::TERMS_PER_FACTOR))
}

impl<E: Source, T: PackElement<Number = E::Number>> Typed<E, T> {
    /// Packs a constant operand: columns into panels, rows into groups unless they are read in place.
    fn pack(&mut self, side: usize, constant: &[E]) {
        let as_rows = side == self.of.sides().0;
        let (low, high) = self.of.offset_range[side];
        let read = as_rows && self.of.reads_rows();
        let slides = self.of.window.as_ref().is_some_and(|w| w.side == side);
        if slides || low < 0 || constant.len() as i64 <= high || read {
            return;
        }
        let mut offsets = Vec::new();
        walk(&self.of.batch, self.of.base, &mut |at| {
            offsets.push(at[side])
        });
        offsets.sort_unstable();
        offsets.dedup();
        let (lanes, width) = match as_rows {
            true => (&self.of.rows, self.of.micro.rows),
            false => (&self.of.columns, self.of.micro.columns),
        };
        let whole =
            lanes.len().next_multiple_of(width) * steps::<E>(&self.of.blocks()).sum::<usize>();
        if 2 * constant.len().max(1 << 12) < whole * E::TERMS_PER_FACTOR * offsets.len() {
            return;
        }
        let known = self.of.quantization.and_then(|c| c.zeros[side - LEFT]);
        let rest = E::of_byte(known.unwrap_or(0));
        let flips_signs = as_rows != self.of.flips_signs(side);
        let (zero, _) = self.of.zeros([known.unwrap_or(0); 2]);
        let mut made = IndexMap::new();
        for offset in offsets {
            let mut all = vec![E::Factor::zeroed(); whole];
            let (mut at, mut cells) = (0, Vec::new());
            for block in self.of.blocks() {
                let terms: Vec<i64> = self.of.terms[block].iter().map(|t| t[side]).collect();
                for lanes in lanes.chunks(width) {
                    let lanes: Vec<i64> = lanes.iter().map(|c| c[side] + offset).collect();
                    cells.resize(terms.len() * width, E::zeroed());
                    product::pack(constant, &lanes, &terms, &mut cells, width);
                    let size = terms.len().div_ceil(E::TERMS_PER_FACTOR) * width;
                    E::to_factors(&cells, width, rest, &mut all[at..at + size]);
                    at += size;
                }
            }
            if flips_signs {
                E::rows(&mut all);
            }
            if as_rows && self.of.quantization.is_some() {
                let mut row_sums = Vec::new();
                let mut at = 0;
                for factors in steps::<E>(&self.of.blocks()) {
                    for row in 0..lanes.len() {
                        let from = at + row / width * factors * width + row % width;
                        let own = all[from..].iter().step_by(width).take(factors);
                        row_sums.push(E::row_sum(own.copied(), zero));
                    }
                    at += lanes.len().div_ceil(width) * factors * width;
                }
                self.row_sums.insert(offset, row_sums);
            }
            made.insert(offset, all);
        }
        match as_rows {
            true => self.packed_rows = made,
            false => self.packed = made,
        }
    }

    /// Writes the products, added to the initial values.
    fn multiply(
        &self,
        out: &mut [T],
        given: Operands<'_, E, T>,
        team: &Team,
    ) -> Result<(), KernelError> {
        let starts = match given.start {
            InitialValues::Values(values) => values.len(),
            InitialValues::Sums(values) => values.len(),
            InitialValues::Zero | InitialValues::Result => usize::MAX >> 1,
        };
        let lengths = [out.len(), given.left.len(), given.right.len(), starts];
        within(self.of.offset_range, lengths)?;
        let all = 0..self.of.rows.len();
        match self.shares(team) {
            None => {
                let mut work = Work::new(self, given);
                let mut before: Option<[i64; 4]> = None;
                walk(&self.of.batch, self.of.base, &mut |at| {
                    if let Some(before) = before.replace(at) {
                        work.prefetch_operands(at);
                        work.product(out, before, all.clone());
                    }
                });
                if let Some(last) = before {
                    work.product(out, last, all.clone());
                }
                Ok(())
            }
            Some(Shares::Batch(begins, shares)) => team.share(out, &shares, |share, out| {
                let mut work = Work::new(self, given);
                let own = &begins[share.units.clone()];
                for (i, begin) in own.iter().enumerate() {
                    if let Some(next) = own.get(i + 1) {
                        work.prefetch_operands(*next);
                    }
                    work.product(out, relative_to(*begin, share), all.clone());
                }
                Ok(())
            }),
            Some(Shares::Rows(shares)) => team.share(out, &shares, |share, out| {
                let mut work = Work::new(self, given);
                let group = self.of.micro.rows;
                let rows = share.units.start * group..(share.units.end * group).min(all.end);
                walk(&self.of.batch, self.of.base, &mut |at| {
                    work.product(out, relative_to(at, share), rows.clone());
                });
                Ok(())
            }),
        }
    }

    /// Shares of the threads, if the work is worth several: whole products, or groups of rows of every product.
    fn shares(&self, team: &Team) -> Option<Shares> {
        let of = &self.of;
        let count: u64 = of.batch.iter().map(|l| l.extent as u64).product();
        let lists = [&of.rows, &of.columns, &of.terms];
        let work = lists.into_iter().map(|list| list.len() as u64);
        let threads = team.worth(work.fold(count, u64::saturating_mul), team::PRODUCTS);
        if threads < 2 {
            return None;
        }
        let mut begins = Vec::new();
        walk(&of.batch, of.base, &mut |at| begins.push(at));
        let ends = |list: &[[i64; 4]]| {
            let all = list.iter().map(|at| at[RESULT]);
            Some((all.clone().min()?, all.max()?))
        };
        let (rows, columns) = (ends(&of.rows)?, ends(&of.columns)?);
        let spans: Vec<(i64, i64)> = begins
            .iter()
            .map(|at| {
                (
                    at[RESULT] + rows.0 + columns.0,
                    at[RESULT] + rows.1 + columns.1,
                )
            })
            .collect();
        let batch = team::shares(&spans, threads);
        let whole = ends(&begins)?;
        let groups = of.rows.chunks(of.micro.rows).map(|rows| {
            let rows = ends(rows).unwrap_or_default();
            (whole.0 + rows.0 + columns.0, whole.1 + rows.1 + columns.1)
        });
        let rows = team::shares(&groups.collect::<Vec<_>>(), threads);
        match (batch.is_empty(), rows.is_empty()) {
            (true, true) => None,
            _ if team::longest(&rows) < team::longest(&batch) => Some(Shares::Rows(rows)),
            _ => Some(Shares::Batch(begins, batch)),
        }
    }

    /// Requantization that the micro-kernel does in registers before the store, if there is one.
    fn requantize(&self) -> Option<Requantize> {
        let whole = self.of.micro.requantizes() && E::TERMS_PER_FACTOR == 4;
        let requantize = self.epilogue.as_ref().filter(|_| whole)?.requantize()?;
        (requantize.size() == size_of::<T>()).then_some(requantize)
    }

    /// Returns whether accumulators and elements of the result have one type.
    fn sums(&self) -> bool {
        same::<T, E::Number>(&[]).is_some()
    }

    /// Rows of a block, which is multiplied by all columns before the next one.
    fn most_rows(&self, blocks: &[Range<usize>]) -> usize {
        let of = &self.of;
        let terms = blocks.iter().map(Range::len).max().unwrap_or(0).max(1);
        let most = (ROWS_BYTES / size_of::<E::Factor>() / terms.div_ceil(E::TERMS_PER_FACTOR))
            .clamp(of.micro.rows, MOST_ROWS);
        let lines = even(of.columns.iter().map(|c| c[RESULT]), 1);
        let most = match blocks.len() < 2 || self.sums() && lines {
            true => most,
            // Accumulators of all columns are kept in scratch memory.
            false => {
                most.min(MOST_ACCUMULATORS / of.columns.len().next_multiple_of(MOST_COLUMNS).max(1))
            }
        };
        (most / of.micro.rows).max(1) * of.micro.rows
    }
}

/// The parts of products that threads compute.
enum Shares {
    /// Offsets at which each product begins, and the products of each thread.
    Batch(Vec<[i64; 4]>, Vec<Share>),
    /// Groups of rows of every product.
    Rows(Vec<Share>),
}

/// Offsets relative to the share's part of the result.
fn relative_to(mut at: [i64; 4], share: &Share) -> [i64; 4] {
    at[RESULT] -= share.places.start as i64;
    at
}

/// Cost model for the choice of the operand that gives rows.
struct Costs<'a> {
    terms: &'a [Loop<4>],
    /// True if the left or the right operand is a constant, which is packed once.
    known: [bool; 2],
    /// True if elements are factors as stored in the buffer.
    direct: bool,
    /// Terms that one multiplication takes at once.
    terms_per_factor: f64,
    micro: MicroKernel,
}

/// Cost of packing or storing one element, in vector multiplications: as contiguous lines, as transposed squares, or one by
/// one. They apply to panels of the right operand and of the result.
const LINES: f64 = 0.35;
const TRANSPOSED: f64 = 0.6;
const SINGLE: f64 = 2.0;
/// Cost of storing an element of a result whose rows are interleaved.
const INTERLEAVED: f64 = 0.4;

impl Costs<'_> {
    /// Cost in vector multiplications; `side` is the operand that gives rows.
    fn of(&self, rows: &[[i64; 4]], columns: &[[i64; 4]], side: usize) -> f64 {
        let other = LEFT + RIGHT - side;
        let k: usize = self.terms.iter().map(|l| l.extent).product();
        let [m, n, k] = [rows.len(), columns.len(), k].map(|count| count as f64);
        let lanes = self.micro.columns as f64 / 2.0;
        let at_once = self.micro.rows as f64;
        // Idle multiply-add slots when there are few rows: each sum waits for the previous one, so the last, partial group
        // costs at least five rows.
        let rest = m % at_once;
        let busy = m - rest + if rest == 0.0 { 0.0 } else { rest.max(5.0) };
        let multiplied = busy * (n / lanes).ceil() * (k / self.terms_per_factor).ceil();
        let terms = ordered(self.terms.to_vec(), side);
        let run = |l: &Loop<4>| l.at(1)[side] == 1 && (terms.len() < 2 || LEAST_RUN <= l.extent);
        let even = terms.last().is_none_or(run);
        let brought = |lanes: &[[i64; 4]], k: usize| {
            let own = || flat(&ordered(self.terms.to_vec(), k));
            match (neighbours(lanes, k), neighbours(&own(), k)) {
                (true, _) => LINES,
                (_, true) => TRANSPOSED,
                _ => SINGLE,
            }
        };
        let left = match self.known[side - LEFT] {
            true => 0.0,
            false if even && self.direct => 0.0,
            false if even => m * k * LINES,
            false => m * k * brought(rows, side),
        };
        let most = (TERMS as f64 * self.terms_per_factor).min(k);
        let blocks = (m * most * 4.0 / self.terms_per_factor / ROWS_BYTES as f64).ceil();
        let right = match self.known[other - LEFT] {
            true => 0.0,
            false => n * k * blocks * brought(columns, other),
        };
        let first = &columns[..columns.len().min(self.micro.columns)];
        let written = match (neighbours(columns, RESULT), neighbours(rows, RESULT)) {
            (true, _) => 0.0,
            (_, true) => m * n * TRANSPOSED,
            _ if interleaved(rows, first).is_some() => m * n * INTERLEAVED,
            _ => m * n * SINGLE,
        };
        multiplied + left + right + written
    }
}

/// Returns whether offsets consist of contiguous runs of at least six elements on average.
fn neighbours(list: &[[i64; 4]], side: usize) -> bool {
    6 * lines(list, side).len() <= list.len()
}

/// Most rows that are interleaved.
const MOST_INTERLEAVED: usize = 7;

/// Number of rows that interleave in the result: the stride between columns equals this number, and each group of that many
/// rows has consecutive offsets, so a group fills a contiguous run. `None` if any group does not.
fn interleaved(rows: &[[i64; 4]], columns: &[[i64; 4]]) -> Option<usize> {
    let step = columns.get(1)?[RESULT] - columns[0][RESULT];
    let few = usize::try_from(step)
        .ok()
        .filter(|n| (2..=MOST_INTERLEAVED).contains(n))?;
    let groups = rows.chunks(few);
    let contiguous =
        |rows: &[[i64; 4]]| rows.len() == few && even(rows.iter().map(|r| r[RESULT]), 1);
    let all = even(columns.iter().map(|c| c[RESULT]), step) && { groups }.all(contiguous);
    all.then_some(few)
}

/// Interleaves lines into one contiguous run: one element of each line, then the next elements.
#[inline(always)]
fn interleave<T: PackElement, S: Element<Number = T::Number>>(
    lines: &[S],
    out: &mut [T],
    few: usize,
) {
    #[inline(always)]
    fn some<T: PackElement, S: Element<Number = T::Number>, const N: usize>(
        lines: &[S],
        out: &mut [T],
    ) {
        let lines: [&[S]; N] = std::array::from_fn(|i| &lines[i * MOST_COLUMNS..][..out.len() / N]);
        for (i, to) in out.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            *to = std::array::from_fn(|k| T::of(lines[k][i].read()));
        }
    }
    match few {
        2 => some::<T, S, 2>(lines, out),
        3 => some::<T, S, 3>(lines, out),
        4 => some::<T, S, 4>(lines, out),
        _ => {
            for (i, to) in out.chunks_exact_mut(few).enumerate() {
                for (k, to) in to.iter_mut().enumerate() {
                    *to = T::of(lines[k * MOST_COLUMNS + i].read());
                }
            }
        }
    }
}

/// Offsets at every step of nested loops, outermost first.
pub fn flat<const K: usize>(loops: &[Loop<K>]) -> Vec<[i64; K]> {
    let mut all = Vec::new();
    walk(loops, [0; K], &mut |at| all.push(at));
    all
}

/// Returns whether each offset is `step` more than the previous one.
fn even(offsets: impl Iterator<Item = i64>, step: i64) -> bool {
    let mut last = None;
    offsets.into_iter().all(|offset| {
        let goes_on = last.is_none_or(|last: i64| last + step == offset);
        last = Some(offset);
        goes_on
    })
}

/// Scratch memory of a thread, kept for the next product: mapping pages anew costs more than the work in them.
#[derive(Debug, Default)]
struct ScratchBuffers {
    /// Packed rows of a block, in groups of [`MicroKernel::rows`].
    packed_rows: Vec<u32>,
    panel: Vec<u32>,
    /// The padded image of the operand that a window slides over.
    image: Vec<u32>,
    /// Accumulators of panels whose columns are not contiguous in the result, or whose type is not that of its elements.
    accumulators: Vec<u32>,
    /// Packed elements that are not yet factors.
    cells: Vec<u32>,
    /// Requantized elements of a panel whose columns are not contiguous in the result.
    requantized: Vec<u32>,
}

thread_local! {
    static SCRATCH: std::cell::Cell<ScratchBuffers> = const {
        std::cell::Cell::new(ScratchBuffers { packed_rows: Vec::new(), panel: Vec::new(), image: Vec::new(), accumulators: Vec::new(), cells: Vec::new(), requantized: Vec::new() })
    };
}

/// Lets `fill` write elements, `width` of each term, and converts them to the factors `to`. Elements that are factors as
/// stored are written to `to` directly.
#[inline(always)]
fn filled<E: Source>(
    to: &mut [E::Factor],
    cells: &mut Vec<u32>,
    (terms, width): (usize, usize),
    rest: E,
    fill: impl FnOnce(&mut [E]),
) {
    if E::DIRECT {
        return fill(cast_slice_mut(to));
    }
    let count = terms * width;
    let cells = room(cells, count);
    fill(cells);
    vectorized(
        #[inline(always)]
        || E::to_factors(cells, width, rest, to),
    );
}

/// Turns factors of columns into factors of rows.
fn to_row_factors<E: Source>(factors: &mut [E::Factor]) {
    vectorized(
        #[inline(always)]
        || E::rows(factors),
    );
}

/// Returns room for `count` elements.
fn room<E: Element>(cells: &mut Vec<u32>, count: usize) -> &mut [E] {
    let words = (count * size_of::<E>()).div_ceil(size_of::<u32>());
    if cells.len() < words {
        cells.resize(words, 0);
    }
    &mut cast_slice_mut(&mut cells[..words])[..count]
}

/// Converts accumulators, or copies elements, to elements of the result.
#[inline(always)]
fn stored<T: PackElement, S: Element<Number = T::Number>>(sums: &[S], to: &mut [T]) {
    if let Some(elements) = same::<S, T>(sums) {
        return product::copy_line(elements, to);
    }
    to.iter_mut()
        .zip(sums)
        .for_each(|(to, sum)| *to = T::of(sum.read()));
}

impl<E: Source, T: PackElement<Number = E::Number>> Drop for Work<'_, E, T> {
    fn drop(&mut self) {
        SCRATCH.set(std::mem::take(&mut self.scratch));
    }
}

/// One run of a thread, with its scratch memory.
struct Work<'a, E: Source, T: PackElement<Number = E::Number>> {
    typed: &'a Typed<E, T>,
    of: &'a Products,
    given: Operands<'a, E, T>,
    blocks: Vec<Range<usize>>,
    /// Factors along K before each block.
    before: Vec<usize>,
    /// True if accumulators and elements of the result have one type.
    sums: bool,
    /// True if rows are read in place.
    direct: bool,
    scratch: ScratchBuffers,
    /// Zeros that stand for the terms of a row that are padding.
    zeros: Vec<E::Factor>,
    /// Scratch memory of the epilogue.
    parts: Vec<Part>,
    /// Requantization in registers before the store, if there is one.
    requantize: Option<Requantize>,
    left: Vec<*const E::Factor>,
    /// For each block, the factors in each contiguous run of its terms and the offset of each run in a row.
    runs: Vec<(usize, Vec<isize>)>,
    out: Vec<*mut E::Number>,
    /// Pointers to the requantized rows of a panel.
    requantized: Vec<*mut u8>,
    /// Initial values that are one number for each row, or one for each column.
    row_starts: Vec<E::Number>,
    column_starts: [E::Number; MOST_COLUMNS],
    /// Zero points as the micro-kernel sees the bytes: unsigned for rows, signed for columns.
    zero_points: (u8, i32),
    /// Compensation of each row for the zero point of the columns, added to its sums.
    row_compensation: Vec<E::Number>,
    /// Offsets of the terms in the operand that gives columns.
    terms: Vec<i64>,
}

impl<'a, E: Source, T: PackElement<Number = E::Number>> Work<'a, E, T> {
    fn new(typed: &'a Typed<E, T>, given: Operands<'a, E, T>) -> Work<'a, E, T> {
        let mut scratch = SCRATCH.take();
        scratch.panel.resize(PANEL, 0);
        let of = &typed.of;
        let (blocks, direct) = (of.blocks(), of.reads_rows());
        let before = steps::<E>(&blocks).scan(0, |sum, n| {
            *sum += n;
            Some(*sum - n)
        });
        Work {
            typed,
            of,
            given,
            before: before.collect(),
            sums: typed.sums(),
            direct,
            scratch,
            zeros: vec![E::Factor::zeroed(); of.window.as_ref().map_or(0, |w| w.channels)],
            parts: typed
                .epilogue
                .as_ref()
                .map_or_else(Vec::new, Epilogue::parts),
            requantize: typed.requantize(),
            left: Vec::new(),
            runs: blocks
                .iter()
                .map(|block| of.runs_of::<E>(block, direct))
                .collect(),
            out: Vec::new(),
            requantized: Vec::new(),
            row_starts: Vec::new(),
            column_starts: [E::Number::zeroed(); MOST_COLUMNS],
            zero_points: of.zeros(given.zeros),
            row_compensation: Vec::new(),
            terms: of.terms.iter().map(|t| t[of.sides().1]).collect(),
            blocks,
        }
    }

    /// The element of an operand that stands for 0: its zero point.
    fn zero_point(&self, side: usize) -> E {
        E::of_byte(self.given.zeros[side - LEFT])
    }

    /// Sets `row_compensation` to the compensation of each row of a block for the zero point of the columns; `step` is the
    /// stride between the factors of a row.
    fn compensate_rows(&mut self, base: i64, rows: &Range<usize>, number: usize, step: usize) {
        let (rows_zero, columns_zero) = self.zero_points;
        self.row_compensation.clear();
        if columns_zero == 0 {
            return;
        }
        let factors = self.blocks[number].len().div_ceil(E::TERMS_PER_FACTOR);
        let all = self.of.rows.len();
        let known = self.typed.row_sums.get(&base);
        let known = known.map(|list| &list[number * all..][rows.clone()]);
        let left = &self.left;
        let row_sum = |i: usize| match known {
            Some(list) => list[i],
            // SAFETY: `pack_rows` has made a pointer for each row to `factors` factors, `step` apart.
            None => E::row_sum(
                (0..factors).map(|at| unsafe { *left[i].add(at * step) }),
                rows_zero,
            ),
        };
        let row_compensation = &mut self.row_compensation;
        vectorized(
            #[inline(always)]
            || row_compensation.extend((0..rows.len()).map(|i| row_sum(i).times(-columns_zero))),
        );
    }

    /// Scales and biases of the sums of a product.
    fn dequantize(&self, at: [i64; 4]) -> Option<&'a Dequantize> {
        self.typed.dequantize.as_ref()?.of(at[RIGHT])
    }

    fn operand(&self, side: usize) -> &'a [E] {
        if side == LEFT {
            self.given.left
        } else {
            self.given.right
        }
    }

    /// Prefetches the operands of a product before it is computed.
    fn prefetch_operands(&self, at: [i64; 4]) {
        for (side, prefetched) in [LEFT, RIGHT].into_iter().zip(&self.of.prefetched) {
            let from = self.operand(side);
            prefetched
                .iter()
                .for_each(|offset| prefetch(from, (at[side] + offset) as usize));
        }
    }

    /// Computes some rows of one matrix product.
    fn product(&mut self, out: &mut [T], at: [i64; 4], rows: Range<usize>) {
        self.image(at);
        let most = self.typed.most_rows(&self.blocks);
        for first in rows.clone().step_by(most) {
            self.rows(out, at, first..(first + most).min(rows.end));
        }
    }

    /// Makes the padded image that columns are packed from, if there is one.
    fn image(&mut self, at: [i64; 4]) {
        let of = self.of;
        let Some(image) = of.image() else { return };
        let (_, side) = of.sides();
        let (source, rest) = (self.operand(side), self.zero_point(side));
        let ScratchBuffers {
            image: to, cells, ..
        } = &mut self.scratch;
        if to.len() < image.cells() {
            to.resize(image.cells(), 0);
        }
        let to: &mut [E::Factor] = &mut cast_slice_mut(to)[..image.cells()];
        let lines = room(cells, image.line());
        E::imaged(image, source, at[side], rest, lines, to);
        if of.flips_signs(side) {
            to_row_factors::<E>(to);
        }
    }

    /// Computes some rows of one matrix product: for each block of terms, panel by panel of columns.
    fn rows(&mut self, out: &mut [T], at: [i64; 4], rows: Range<usize>) {
        let of = self.of;
        let (side, other) = of.sides();
        let width = of.micro.columns;
        let constant = self.typed.packed.get(&at[other]);
        let mut packed = 0;
        let blocks = self.blocks.len();
        if blocks == 0 {
            self.store_initial_only(out, at, rows);
            return;
        }
        for number in 0..blocks {
            let left_step = self.pack_rows(at[side], rows.clone(), number);
            self.compensate_rows(at[side], &rows, number, left_step);
            let factors = self.blocks[number].len().div_ceil(E::TERMS_PER_FACTOR);
            for first in (0..of.columns.len()).step_by(width) {
                let columns = first..(first + width).min(of.columns.len());
                let right = match constant {
                    Some(all) => {
                        packed += factors * width;
                        let own = &all[packed - factors * width..packed];
                        Columns::contiguous(own.as_ptr(), width)
                    }
                    None => self.columns(at[other], &columns, rows.len(), number),
                };
                for some in some_rows(&rows, of.micro.rows) {
                    let from = some.start - rows.start;
                    // With several blocks of terms, each panel of accumulators has a place of its own.
                    let scratch_offset = match blocks {
                        1 => 0,
                        _ => (first / width * rows.len() + from) * MOST_COLUMNS,
                    };
                    let panel = Panels {
                        at,
                        left: from..from + some.len(),
                        left_step,
                        rows: some,
                        columns: columns.clone(),
                        block: number,
                        scratch_offset,
                    };
                    self.panel(out, &panel, &right);
                }
            }
        }
    }

    /// A panel of columns of the right operand: in place, in the image, or packed now.
    fn columns(
        &mut self,
        base: i64,
        columns: &Range<usize>,
        rows: usize,
        number: usize,
    ) -> Columns<'a, E::Factor> {
        let block = self.blocks[number].clone();
        if let Some((start, step)) = self.columns_in_place(rows, base, columns, &block) {
            return Columns::contiguous(start, step);
        }
        if let Some((start, taps)) = self.at_taps(columns, &block, number) {
            return Columns {
                start,
                step: 0,
                taps: Some(taps),
            };
        }
        self.pack_columns(base, columns.clone(), block);
        let start = cast_slice(&self.scratch.panel).as_ptr();
        Columns::contiguous(start, self.of.micro.columns)
    }

    /// Computes a panel for one block of terms: initial values, products, and after the last block the epilogue.
    fn panel(&mut self, out: &mut [T], panel: &Panels, right: &Columns<'_, E::Factor>) {
        let to = self.destination(out, panel);
        let initial = self.initial(out, panel, to);
        self.accumulate(panel, right, to, initial);
        if panel.block + 1 == self.blocks.len() {
            self.finish(out, panel, to);
        }
    }

    /// Returns whether only the first half of a panel's columns is computed.
    fn is_half(&self, panel: &Panels) -> bool {
        panel.columns.len() <= self.of.micro.columns / 2
    }

    /// Sets the pointers to the rows that a panel is written to.
    fn destination(&mut self, out: &mut [T], panel: &Panels) -> Destination {
        let width = self.of.micro.columns;
        let used = if self.is_half(panel) {
            width / 2
        } else {
            width
        };
        let requantizes = self.requantize.is_some() && panel.block + 1 == self.blocks.len();
        // Sums of a single block that are requantized in registers are never stored as accumulators.
        let stores = !requantizes || 1 < self.blocks.len();
        let in_scratch = stores && self.places(out, panel, used);
        let aside = requantizes && self.requantized(out, panel);
        Destination {
            in_scratch,
            requantizes,
            aside,
        }
    }

    /// Prepares the initial values of a panel; those that vary by row and by column are written to the places of the sums.
    fn initial(&mut self, out: &[T], panel: &Panels, to: Destination) -> InitialForm {
        if 0 < panel.block {
            return InitialForm::InPlace;
        }
        let shared = match self.given.start {
            InitialValues::Zero => return InitialForm::Zero,
            InitialValues::Values(start) => self.shared(start, panel),
            InitialValues::Sums(start) => self.shared(start, panel),
            InitialValues::Result => InitialForm::InPlace,
        };
        if !matches!(shared, InitialForm::InPlace) {
            return shared;
        }
        match self.given.start {
            InitialValues::Values(start) if to.in_scratch => self.gather(start, panel, INITIAL),
            InitialValues::Values(start) => self.store_initial(start, panel),
            InitialValues::Sums(start) => {
                if to.requantizes && self.blocks.len() == 1 {
                    self.own_places(panel);
                }
                self.store_initial(start, panel);
            }
            InitialValues::Result if to.in_scratch => self.gather(out, panel, RESULT),
            InitialValues::Result | InitialValues::Zero => {}
        }
        shared
    }

    /// Adds the products of a block of terms to a panel.
    fn accumulate(
        &self,
        panel: &Panels,
        right: &Columns<'_, E::Factor>,
        to: Destination,
        initial: InitialForm,
    ) {
        let of = self.of;
        let compensation = self.row_compensation.get(panel.left.clone());
        let requantize = self.requantize.filter(|_| to.requantizes);
        let dequantize = self.dequantize(panel.at);
        let scales = dequantize.map(|dequantize| match dequantize {
            Dequantize::Rows(list) => Scales::Rows(&list[panel.rows.clone()]),
            Dequantize::Columns(list) => {
                Scales::Columns(&list[panel.columns.start / of.micro.columns])
            }
        });
        let (run, runs) = &self.runs[panel.block];
        let panel = Panel {
            left: &self.left[panel.left.clone()],
            left_step: panel.left_step,
            runs,
            run: *run,
            zero: self.zero_points.0,
            compensation: compensation.filter(|list| !list.is_empty()),
            right: right.start,
            right_step: right.step,
            taps: right.taps,
            terms: self.blocks[panel.block].len().div_ceil(E::TERMS_PER_FACTOR),
            out: &self.out,
            initial: match initial {
                InitialForm::Zero => Initial::Zero,
                InitialForm::InPlace => Initial::InPlace,
                InitialForm::Rows => Initial::Rows(&self.row_starts),
                InitialForm::Columns => Initial::Columns(&self.column_starts),
            },
            requantize: requantize.as_ref().map(|by| RequantizedRows {
                by,
                scales,
                rows: &self.requantized,
                columns: panel.columns.len(),
            }),
            half: self.is_half(panel),
        };
        // SAFETY: `pack_rows` has made a pointer for each row to `terms` factors. They are inside of the left operand, as
        // `multiply` has compared, or of the packed rows, or of the zeros. The right panel has all columns of each term,
        // contiguous or in the image at its tap. The places of the result have the columns that are computed, inside of
        // the result or of scratch memory, and those of `requantized` have the columns of the panel. No two rows overlap,
        // as offsets in a result are all different. `initial` has made a start for each row.
        unsafe { E::Factor::panel(of.micro, &panel) };
    }

    /// Scales the sums of a panel, applies the epilogue and scatters what is in scratch memory.
    fn finish(&mut self, out: &mut [T], panel: &Panels, to: Destination) {
        let of = self.of;
        if to.requantizes {
            if to.aside {
                scatter::<T, T>(out, cast_slice(&self.scratch.requantized), panel, of);
            }
            return;
        }
        if let Some(dequantize) = self.dequantize(panel.at) {
            self.scale(dequantize, out, panel, to.in_scratch);
        }
        match &self.typed.epilogue {
            Some(epilogue) if to.in_scratch => {
                let size = panel.rows.len() * MOST_COLUMNS;
                let sums = &mut self.scratch.accumulators[panel.scratch_offset..][..size];
                epilogue.run(&mut self.parts, sums, MOST_COLUMNS, panel.columns.len());
            }
            Some(epilogue) => self.apply_epilogue(epilogue, out, panel),
            None => {}
        }
        if to.in_scratch {
            let sums = cast_slice(&self.scratch.accumulators[panel.scratch_offset..]);
            scatter::<T, E::Number>(out, sums, panel, of);
        }
    }

    /// Start of a panel of columns that is read in place, and the stride between its terms; `None` if it has to be packed.
    fn columns_in_place(
        &self,
        rows: usize,
        base: i64,
        columns: &Range<usize>,
        block: &Range<usize>,
    ) -> Option<(*const E::Factor, usize)> {
        let of = self.of;
        let (_, side) = of.sides();
        let factors =
            E::factors(self.operand(side)).filter(|_| of.scales[side - LEFT].is_none())?;
        let whole = columns.len() == of.micro.columns && rows <= FEW_ROWS && of.window.is_none();
        if !whole || !even(of.columns[columns.clone()].iter().map(|c| c[side]), 1) {
            return None;
        }
        let terms = &of.terms[block.clone()];
        let first = terms.first()?[side];
        let step = terms.get(1).map_or(1, |t| t[side] - first);
        let even = even(terms.iter().map(|t| t[side]), step);
        let from = usize::try_from(base + of.columns[columns.start][side] + first).ok()?;
        let step = usize::try_from(step).ok().filter(|_| even)?;
        Some((factors.get(from..)?.as_ptr(), step))
    }

    /// Start of a panel of columns in the image, and the offset of each term's vectors from it; `None` if some vector is
    /// not there.
    fn at_taps(
        &self,
        columns: &Range<usize>,
        block: &Range<usize>,
        number: usize,
    ) -> Option<(*const E::Factor, Taps<'a>)> {
        let of = self.of;
        let (window, image) = of.window.as_ref().zip(of.image())?;
        let lanes = E::Factor::taps(of.micro)?;
        let taps = image.taps()?.get(block.clone())?;
        if self.runs[number].1.len() != 1 || E::TERMS_PER_FACTOR != 1 {
            return None;
        }
        let runs = window.runs(columns, &of.columns);
        let [first, second] = image.vectors(&runs, lanes)?;
        let cells: &[E::Factor] = cast_slice(&self.scratch.image);
        let begin = cells.get(..image.cells())?.get(first..)?.as_ptr();
        Some((begin, (taps, second)))
    }

    /// Writes results that have no terms: the initial values, through the epilogue.
    fn store_initial_only(&mut self, out: &mut [T], at: [i64; 4], rows: Range<usize>) {
        let of = self.of;
        for (i, row) in rows.clone().zip(&of.rows[rows]) {
            for (j, column) in of.columns.iter().enumerate() {
                let from = at[INITIAL] + row[INITIAL] + column[INITIAL];
                let to = &mut out[(at[RESULT] + row[RESULT] + column[RESULT]) as usize];
                match self.given.start {
                    InitialValues::Zero => {
                        *to = self.with_epilogue(at, E::Number::zeroed(), (i, j))
                    }
                    InitialValues::Values(start) => *to = start[from as usize],
                    InitialValues::Sums(start) => {
                        *to = self.with_epilogue(at, start[from as usize], (i, j))
                    }
                    InitialValues::Result => {}
                }
            }
        }
    }

    /// Sets `left` to pointers to the rows of a block: in place, in the packed constant, or packed now. Returns the stride
    /// between the factors of a row.
    fn pack_rows(&mut self, base: i64, rows: Range<usize>, number: usize) -> usize {
        let of = self.of;
        let (side, _) = of.sides();
        let block = self.blocks[number].clone();
        self.left.clear();
        if let Some(factors) = E::factors(self.operand(side)).filter(|_| self.direct) {
            self.rows_in_place(factors, base, rows, block.start);
            return 1;
        }
        let (width, factors) = (of.micro.rows, block.len().div_ceil(E::TERMS_PER_FACTOR));
        let size = factors * width;
        let in_group = |i: usize| i / width * size + i % width;
        if let Some(packed) = self.typed.packed_rows.get(&base) {
            // A block of rows begins with a whole group.
            let all = of.rows.len().next_multiple_of(width);
            let from = &packed[all * self.before[number] + rows.start / width * size..];
            let own = (0..rows.len()).map(|i| from[in_group(i)..].as_ptr());
            self.left.extend(own);
            return width;
        }
        let terms: Vec<i64> = of.terms[block.clone()].iter().map(|t| t[side]).collect();
        let run = run(terms.iter().copied());
        // Contiguous terms stay contiguous: rows are copied one after another.
        let in_lines = match of.window.as_ref().filter(|w| w.side == side) {
            Some(window) => window.contiguous,
            None => {
                run == terms.len() || FEW_TOGETHER <= run && run.is_multiple_of(E::TERMS_PER_FACTOR)
            }
        };
        let words = match in_lines {
            true => rows.len() * factors,
            false => rows.len().div_ceil(width) * size,
        };
        let mut scratch = std::mem::take(&mut self.scratch.packed_rows);
        let mut cells = std::mem::take(&mut self.scratch.cells);
        scratch.resize(words.max(1), 0);
        let packed: &mut [E::Factor] = cast_slice_mut(&mut scratch);
        match in_lines {
            true => self.copy_lines(base, &rows, (&block, &terms, run), packed, &mut cells),
            false => self.copy_groups(base, &rows, (&block, &terms), packed, &mut cells),
        }
        if !of.flips_signs(side) {
            to_row_factors::<E>(packed);
        }
        if let Some(by) = of.scales[side - LEFT] {
            E::scale(packed, by);
        }
        let begin = |i: usize| if in_lines { i * factors } else { in_group(i) };
        let own = (0..rows.len()).map(|i| packed[begin(i)..].as_ptr());
        self.left.extend(own);
        (self.scratch.packed_rows, self.scratch.cells) = (scratch, cells);
        if in_lines { 1 } else { width }
    }

    /// Sets `left` to the rows of an operand whose elements are factors; `term` is the first term of a block.
    fn rows_in_place(&mut self, factors: &[E::Factor], base: i64, rows: Range<usize>, term: usize) {
        let of = self.of;
        let (side, _) = of.sides();
        let window = of.window.as_ref().filter(|w| w.side == side);
        for row in rows {
            let inside = window.is_none_or(|w| w.in_bounds(row, term));
            let at = base + of.rows[row][side] + of.terms[term][side];
            self.left.push(match inside {
                true => factors[at as usize..].as_ptr(),
                false => self.zeros.as_ptr(),
            });
        }
    }

    /// Packs rows one after another. Their terms are those of a window, or consist of runs of `run` contiguous ones.
    fn copy_lines(
        &self,
        base: i64,
        rows: &Range<usize>,
        (block, terms, run): (&Range<usize>, &[i64], usize),
        to: &mut [E::Factor],
        cells: &mut Vec<u32>,
    ) {
        let of = self.of;
        let (side, _) = of.sides();
        let (source, rest) = (self.operand(side), self.zero_point(side));
        let factors = block.len().div_ceil(E::TERMS_PER_FACTOR);
        let lines = rows.clone().zip(to.chunks_exact_mut(factors));
        if let Some(window) = of.window.as_ref().filter(|w| w.side == side) {
            let list = window.lines(block.clone(), &of.terms);
            for (row, to) in lines {
                let base = base + of.rows[row][side];
                filled(to, cells, (block.len(), 1), rest, |to| {
                    window.row(source, base, row, &list, rest, to);
                });
            }
            return;
        }
        let starts: Vec<i64> = terms.iter().copied().step_by(run.max(1)).collect();
        let step = run.div_ceil(E::TERMS_PER_FACTOR);
        vectorized(
            #[inline(always)]
            || {
                for (row, to) in lines {
                    let row = base + of.rows[row][side];
                    for (i, first) in starts.iter().enumerate() {
                        let at = (row + first) as usize;
                        let to = &mut to[i * step..][..step];
                        E::to_factors(&source[at..at + run], 1, rest, to);
                    }
                }
            },
        );
    }

    /// Packs rows in groups of [`MicroKernel::rows`], whose terms are interleaved.
    fn copy_groups(
        &self,
        base: i64,
        rows: &Range<usize>,
        (block, terms): (&Range<usize>, &[i64]),
        to: &mut [E::Factor],
        cells: &mut Vec<u32>,
    ) {
        let of = self.of;
        let (side, _) = of.sides();
        let (source, rest) = (self.operand(side), self.zero_point(side));
        let width = of.micro.rows;
        let size = block.len().div_ceil(E::TERMS_PER_FACTOR) * width;
        if let Some(window) = of.window.as_ref().filter(|w| w.side == side) {
            let groups = rows.clone().step_by(width);
            for (first, group) in groups.zip(to.chunks_exact_mut(size)) {
                let some = first..(first + width).min(rows.end);
                let offsets = [&of.rows[..], &of.terms[..]];
                filled(group, cells, (block.len(), width), rest, |to| {
                    let lists = (some, block.clone());
                    window.pack(source, base, lists, offsets, (to, rest), width);
                });
            }
            return;
        }
        let starts = of.rows[rows.clone()].iter();
        let starts: Vec<i64> = starts.map(|r| r[side] + base).collect();
        if E::DIRECT {
            return product::pack_groups(source, &starts, terms, cast_slice_mut(to), width);
        }
        let cells = room(cells, rows.len().div_ceil(width) * terms.len() * width);
        product::pack_groups(source, &starts, terms, cells, width);
        let all = cells.chunks_exact(terms.len() * width);
        vectorized(
            #[inline(always)]
            || {
                for (cells, to) in all.zip(to.chunks_exact_mut(size)) {
                    E::to_factors(cells, width, rest, to);
                }
            },
        );
    }

    /// Packs a panel of columns.
    fn pack_columns(&mut self, base: i64, columns: Range<usize>, block: Range<usize>) {
        let of = self.of;
        let (_, side) = of.sides();
        let (source, rest) = (self.operand(side), self.zero_point(side));
        let width = of.micro.columns;
        let ScratchBuffers {
            panel,
            cells,
            image,
            ..
        } = &mut self.scratch;
        let factors = block.len().div_ceil(E::TERMS_PER_FACTOR);
        if let Some((window, by)) = of.window.as_ref().zip(of.image()) {
            let runs = window.runs(&columns, &of.columns);
            let first = block.start / E::TERMS_PER_FACTOR;
            let panel: &mut [E::Factor] = cast_slice_mut(panel);
            return by.pack(
                cast_slice(image),
                &runs,
                first..first + factors,
                panel,
                width,
            );
        }
        let panel: &mut [E::Factor] = &mut cast_slice_mut(panel)[..factors * width];
        let size = (block.len(), width);
        match of.window.as_ref().filter(|w| w.side == side) {
            Some(window) => {
                filled(panel, cells, size, rest, |to| {
                    let offsets = [&of.columns[..], &of.terms[..]];
                    window.pack(source, base, (columns, block), offsets, (to, rest), width);
                });
            }
            None => {
                let mut starts = [0i64; MOST_COLUMNS];
                for (start, column) in starts.iter_mut().zip(&of.columns[columns.clone()]) {
                    *start = column[side] + base;
                }
                let (starts, terms) = (&starts[..columns.len()], &self.terms[block]);
                if let Some(&start) = terms.first().filter(|_| even(terms.iter().copied(), 1))
                    && E::pack_transposed(source, starts, (start, terms.len()), panel, width)
                {
                } else if product::consecutive(starts)
                    && let Some(&start) = starts.first()
                    && E::pack_contiguous(
                        source,
                        (start, starts.len()),
                        terms,
                        (panel, rest),
                        width,
                    )
                {
                } else {
                    filled(panel, cells, size, rest, |to| {
                        product::pack(source, starts, terms, to, width);
                    });
                    if let Some(by) = of.scales[side - LEFT] {
                        E::scale(panel, by);
                    }
                }
            }
        }
        if of.flips_signs(side) {
            to_row_factors::<E>(panel);
        }
    }

    /// Sets `out` to pointers to the rows of a panel: in the result, or in scratch memory. Returns whether it is scratch
    /// memory.
    fn places(&mut self, out: &mut [T], panel: &Panels, used: usize) -> bool {
        let of = self.of;
        let list = &of.columns[panel.columns.clone()];
        let in_scratch =
            !self.sums || list.len() != used || !even(list.iter().map(|c| c[RESULT]), 1);
        self.out.clear();
        if in_scratch {
            self.own_places(panel);
            return true;
        }
        let first = panel.at[RESULT] + list[0][RESULT];
        // Accumulators and elements of the result have one type.
        let (len, start) = (out.len(), out.as_mut_ptr().cast::<E::Number>());
        for row in &of.rows[panel.rows.clone()] {
            let place = (first + row[RESULT]) as usize;
            assert!(place + used <= len, "a row of the result lies inside of it");
            self.out.push(start.wrapping_add(place));
            prefetch_run(out, place, used);
        }
        false
    }

    /// Sets `out` to scratch memory for the accumulators of a panel.
    fn own_places(&mut self, panel: &Panels) {
        let needed = panel.scratch_offset + panel.rows.len() * MOST_COLUMNS;
        if self.scratch.accumulators.len() < needed {
            self.scratch.accumulators.resize(needed, 0);
        }
        let own: &mut [E::Number] =
            cast_slice_mut(&mut self.scratch.accumulators[panel.scratch_offset..needed]);
        self.out.clear();
        let rows = own.chunks_exact_mut(MOST_COLUMNS);
        self.out.extend(rows.map(<[E::Number]>::as_mut_ptr));
    }

    /// Sets `requantized` to pointers to the requantized rows of a panel: in the result, or in scratch memory. Returns
    /// whether it is scratch memory.
    fn requantized(&mut self, out: &mut [T], panel: &Panels) -> bool {
        let of = self.of;
        let list = &of.columns[panel.columns.clone()];
        self.requantized.clear();
        if !even(list.iter().map(|c| c[RESULT]), 1) {
            let words = panel.rows.len() * MOST_COLUMNS * size_of::<T>() / size_of::<u32>();
            if self.scratch.requantized.len() < words {
                self.scratch.requantized.resize(words, 0);
            }
            let own: &mut [T] = cast_slice_mut(&mut self.scratch.requantized[..words]);
            let rows = own.chunks_exact_mut(MOST_COLUMNS);
            self.requantized
                .extend(rows.map(|row| row.as_mut_ptr().cast()));
            return true;
        }
        let first = panel.at[RESULT] + list[0][RESULT];
        let (len, start) = (out.len(), out.as_mut_ptr());
        for row in &of.rows[panel.rows.clone()] {
            let place = (first + row[RESULT]) as usize;
            assert!(
                place + list.len() <= len,
                "a row of the result lies inside of it"
            );
            self.requantized.push(start.wrapping_add(place).cast());
        }
        false
    }

    /// Applies the epilogue to the sums of a panel that are in the result.
    fn apply_epilogue(&mut self, epilogue: &Epilogue, out: &mut [T], panel: &Panels) {
        let (rows, columns) = (&self.of.rows[panel.rows.clone()], panel.columns.clone());
        let first = panel.at[RESULT] + self.of.columns[columns.start][RESULT];
        let Some(sums) = same_mut::<T, E::Number>(out) else {
            return;
        };
        let sums: &mut [u32] = cast_slice_mut(sums);
        let places = rows.iter().map(|row| (first + row[RESULT]) as usize);
        epilogue.lines(&mut self.parts, sums, places, columns.len());
    }

    /// Scales the sums of a panel, in scratch memory if `in_scratch` is true, otherwise in the result.
    fn scale(&mut self, dequantize: &Dequantize, out: &mut [T], panel: &Panels, in_scratch: bool) {
        let (rows, columns) = (panel.rows.clone(), panel.columns.clone());
        let list = &self.of.rows[rows.clone()];
        let first = panel.at[RESULT] + self.of.columns[columns.start][RESULT];
        let own: &mut [i32] = match in_scratch {
            true => cast_slice_mut(&mut self.scratch.accumulators[panel.scratch_offset..]),
            false => match same_mut::<T, E::Number>(out) {
                Some(sums) => cast_slice_mut(sums),
                None => return,
            },
        };
        let ones = std::iter::zip(rows.clone(), list);
        vectorized(
            #[inline(always)]
            || {
                for (i, (row, at)) in ones.enumerate() {
                    let place = match in_scratch {
                        true => i * MOST_COLUMNS,
                        false => (first + at[RESULT]) as usize,
                    };
                    let sums = &mut own[place..place + columns.len()];
                    match dequantize {
                        Dequantize::Rows(list) => {
                            sums.iter_mut()
                                .for_each(|sum| *sum = scaled(*sum, list[row]));
                        }
                        Dequantize::Columns(list) => {
                            let [scales, plus] = &list[columns.start / self.of.micro.columns];
                            let all = sums.iter_mut().zip(scales.iter().zip(plus));
                            all.for_each(|(sum, (&by, &plus))| *sum = scaled(*sum, [by, plus]));
                        }
                    }
                }
            },
        );
    }

    /// Returns one sum, scaled and through the epilogue, as an element of the result.
    fn with_epilogue(&mut self, at: [i64; 4], sum: E::Number, (row, column): (usize, usize)) -> T {
        let Some(epilogue) = &self.typed.epilogue else {
            return T::of(sum);
        };
        let mut sum = [sum];
        let sums: &mut [u32] = cast_slice_mut(&mut sum);
        if let Some(dequantize) = self.dequantize(at) {
            let width = self.of.micro.columns;
            let by = match dequantize {
                Dequantize::Rows(list) => list[row],
                Dequantize::Columns(list) => list[column / width].map(|list| list[column % width]),
            };
            sums[0] = scaled(sums[0].cast_signed(), by).cast_unsigned();
        }
        epilogue.run(&mut self.parts, sums, 1, 1);
        T::of(sum[0])
    }

    /// Finds initial values that are one number for each row or for each column of a panel.
    fn shared<S: Element<Number = E::Number>>(
        &mut self,
        start: &[S],
        panel: &Panels,
    ) -> InitialForm {
        let of = self.of;
        let (columns, rows) = (
            &of.columns[panel.columns.clone()],
            &of.rows[panel.rows.clone()],
        );
        let at = |row: &[i64; 4], column: &[i64; 4]| {
            start[(panel.at[INITIAL] + row[INITIAL] + column[INITIAL]) as usize].read()
        };
        if columns
            .iter()
            .all(|column| column[INITIAL] == columns[0][INITIAL])
        {
            self.row_starts.clear();
            let starts = rows.iter().map(|row| at(row, &columns[0]));
            self.row_starts.extend(starts);
            return InitialForm::Rows;
        }
        if rows.iter().all(|row| row[INITIAL] == rows[0][INITIAL]) {
            let starts = self.column_starts.iter_mut().zip(columns);
            starts.for_each(|(to, column)| *to = at(&rows[0], column));
            return InitialForm::Columns;
        }
        InitialForm::InPlace
    }

    /// Writes the initial values to the places of a panel.
    fn store_initial<S: Element<Number = E::Number>>(&mut self, start: &[S], panel: &Panels) {
        let at = panel.at;
        let rows = &self.of.rows[panel.rows.clone()];
        let columns = &self.of.columns[panel.columns.clone()];
        let offsets = columns.iter().map(|c| c[INITIAL]);
        let (run, same) = (even(offsets.clone(), 1), even(offsets, 0));
        let first = at[INITIAL] + columns[0][INITIAL];
        for (row, &out) in rows.iter().zip(&self.out) {
            let from = (first + row[INITIAL]) as usize;
            // SAFETY: `places` has made room for all columns of each row, and nothing else refers to it now.
            let to = unsafe { std::slice::from_raw_parts_mut(out, columns.len()) };
            if run {
                let start = &start[from..from + columns.len()];
                to.iter_mut().zip(start).for_each(|(to, x)| *to = x.read());
            } else if same {
                to.fill(start[from].read());
            } else {
                for (to, column) in to.iter_mut().zip(columns) {
                    *to = start[(at[INITIAL] + row[INITIAL] + column[INITIAL]) as usize].read();
                }
            }
        }
    }

    /// Gathers the initial values of a panel into scratch memory, from the result or from the operand that has them.
    fn gather(&mut self, from: &[T], panel: &Panels, side: usize) {
        let rows = &self.of.rows[panel.rows.clone()];
        let columns = &self.of.columns[panel.columns.clone()];
        let range = panel.scratch_offset..panel.scratch_offset + rows.len() * MOST_COLUMNS;
        let scratch = cast_slice_mut(&mut self.scratch.accumulators[range]);
        vectorized(
            #[inline(always)]
            || gather_inline(from, scratch, panel.at[side], side, [rows, columns]),
        );
    }
}

/// Form of the initial values of a panel.
#[derive(Clone, Copy, Debug)]
enum InitialForm {
    Zero,
    /// The values at the places of the sums, if any.
    InPlace,
    Rows,
    Columns,
}

/// Scatters a panel from scratch memory to the result.
fn scatter<T: PackElement, S: Element<Number = T::Number>>(
    out: &mut [T],
    scratch: &[S],
    panel: &Panels,
    of: &Products,
) {
    let rows = &of.rows[panel.rows.clone()];
    let columns = &of.columns[panel.columns.clone()];
    let scratch = &scratch[..rows.len() * MOST_COLUMNS];
    vectorized(
        #[inline(always)]
        || scatter_inline(out, scratch, panel.at[RESULT], [rows, columns]),
    );
}

/// Returns whether contiguous lines have at least four elements on average.
fn are_long(lines: &[Range<usize>], count: usize) -> bool {
    lines.len() * 4 <= count
}

/// Gathers the elements at rows and columns into rows of `MOST_COLUMNS`.
#[inline(always)]
fn gather_inline<S: PackElement>(
    from: &[S],
    scratch: &mut [S::Number],
    base: i64,
    side: usize,
    [rows, columns]: [&[[i64; 4]]; 2],
) {
    if even(columns.iter().map(|c| c[side]), 0) {
        for (row, scratch) in rows.iter().zip(scratch.chunks_exact_mut(MOST_COLUMNS)) {
            let x = from[(base + row[side] + columns[0][side]) as usize];
            scratch[..columns.len()].fill(x.read());
        }
        return;
    }
    let across = lines(columns, side);
    if are_long(&across, columns.len()) {
        for (row, scratch) in rows.iter().zip(scratch.chunks_exact_mut(MOST_COLUMNS)) {
            for line in &across {
                let first = (base + row[side] + columns[line.start][side]) as usize;
                let from = &from[first..first + line.len()];
                let to = scratch[line.clone()].iter_mut();
                to.zip(from).for_each(|(to, x)| *to = x.read());
            }
        }
        return;
    }
    let mut transposed = [S::zeroed(); 64];
    for run in lines(rows, side) {
        let whole = match run.len() {
            8.. => run.len() / 8 * 8,
            _ => 0,
        };
        for (first, columns) in columns.chunks(8).enumerate().map(|(i, c)| (i * 8, c)) {
            let start = |column: &[i64; 4]| (base + rows[run.start][side] + column[side]) as usize;
            let mut done = 0;
            if let Ok(columns) = <&[[i64; 4]; 8]>::try_from(columns) {
                let starts = columns.each_ref().map(start);
                while done < whole {
                    let from = starts.map(|start| &from[start + done..start + done + 8]);
                    product::transpose8(&from, 8, &mut transposed, 8);
                    for (j, line) in transposed.as_chunks::<8>().0.iter().enumerate() {
                        let to = (run.start + done + j) * MOST_COLUMNS + first;
                        let to = scratch[to..to + 8].iter_mut();
                        to.zip(line).for_each(|(to, x)| *to = x.read());
                    }
                    done += 8;
                }
            }
            for (j, column) in columns.iter().enumerate() {
                let start = start(column);
                let from = &from[start + done..start + run.len()];
                for (i, x) in from.iter().enumerate() {
                    scratch[(run.start + done + i) * MOST_COLUMNS + first + j] = x.read();
                }
            }
        }
    }
}

/// Scatters rows of `MOST_COLUMNS` accumulators, or elements, to elements of the result.
#[inline(always)]
fn scatter_inline<T: PackElement, S: Element<Number = T::Number>>(
    out: &mut [T],
    scratch: &[S],
    base: i64,
    [rows, columns]: [&[[i64; 4]]; 2],
) {
    let across = lines(columns, RESULT);
    if are_long(&across, columns.len()) {
        for (row, scratch) in rows.iter().zip(scratch.chunks_exact(MOST_COLUMNS)) {
            for line in &across {
                let first = (base + row[RESULT] + columns[line.start][RESULT]) as usize;
                stored(&scratch[line.clone()], &mut out[first..first + line.len()]);
            }
        }
        return;
    }
    if let Some(few) = interleaved(rows, columns) {
        let groups = scratch.chunks_exact(few * MOST_COLUMNS);
        for (rows, lines) in rows.chunks_exact(few).zip(groups) {
            let first = (base + rows[0][RESULT] + columns[0][RESULT]) as usize;
            interleave(lines, &mut out[first..first + few * columns.len()], few);
        }
        return;
    }
    for run in lines(rows, RESULT) {
        let start = base + rows[run.start][RESULT];
        let own = &scratch[run.start * MOST_COLUMNS..run.end * MOST_COLUMNS];
        if run.len() < 8 {
            for (row, sums) in own.chunks_exact(MOST_COLUMNS).enumerate() {
                for (sum, column) in sums.iter().zip(columns) {
                    out[(start + column[RESULT]) as usize + row] = T::of(sum.read());
                }
            }
            continue;
        }
        for (first, columns) in columns.chunks(8).enumerate().map(|(i, c)| (i * 8, c)) {
            let mut places = [0; 8];
            for (place, column) in places.iter_mut().zip(columns) {
                *place = (start + column[RESULT]) as usize;
            }
            let places = &places[..columns.len()];
            if let Some(sums) = same::<S, T>(&own[first..]) {
                T::transpose_out(sums, MOST_COLUMNS, run.len(), out, places);
                continue;
            }
            for row in (0..run.len()).step_by(8) {
                let row = row.min(run.len() - 8);
                let mut square = [T::zeroed(); 64];
                for (j, line) in square.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                    stored(&own[(row + j) * MOST_COLUMNS + first..][..8], line);
                }
                let mut at = [0; 8];
                at.iter_mut().zip(places).for_each(|(at, p)| *at = p + row);
                T::transpose_out(&square, 8, 8, out, &at[..places.len()]);
            }
        }
    }
}

/// Cuts rows into parts of about equal size, each a multiple of `at_once`, the rows of the micro-kernel.
fn some_rows(rows: &Range<usize>, at_once: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let rows = rows.clone();
    let parts = rows.len().div_ceil(SOME_ROWS).max(1);
    let most = rows.len().div_ceil(parts).next_multiple_of(at_once).max(1);
    let all = rows.clone().step_by(most);
    all.map(move |first| first..(first + most).min(rows.end))
}

/// A panel of columns of the right operand.
#[derive(Debug)]
struct Columns<'a, F> {
    /// The columns of the first term, and the stride between terms.
    start: *const F,
    step: usize,
    /// The places of the terms, if they are in an image.
    taps: Option<Taps<'a>>,
}

impl<F> Columns<'_, F> {
    fn contiguous(start: *const F, step: usize) -> Self {
        Columns {
            start,
            step,
            taps: None,
        }
    }
}

/// The places that a panel is written to.
#[derive(Clone, Copy, Debug)]
struct Destination {
    /// True if its sums are in scratch memory.
    in_scratch: bool,
    /// True if they are requantized in registers.
    requantizes: bool,
    /// True if requantized elements are in scratch memory.
    aside: bool,
}

/// A panel of the result, for one block of terms.
#[derive(Debug)]
struct Panels {
    at: [i64; 4],
    rows: Range<usize>,
    columns: Range<usize>,
    /// Indices of the pointers to its rows of the left operand, and the stride between their factors.
    left: Range<usize>,
    left_step: usize,
    /// The number of the block of terms.
    block: usize,
    /// Index of its first accumulator in scratch memory, if sums are not accumulated in the result.
    scratch_offset: usize,
}

/// Contiguous runs of rows or columns in the result or an operand.
fn lines(list: &[[i64; 4]], side: usize) -> Vec<Range<usize>> {
    let mut lines: Vec<Range<usize>> = Vec::new();
    for (i, at) in list.iter().enumerate() {
        match lines.last_mut() {
            Some(line) if list[i - 1][side] + 1 == at[side] => line.end += 1,
            _ => lines.push(i..i + 1),
        }
    }
    lines
}
