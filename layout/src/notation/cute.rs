//! CuTe's layouts: `shape:stride`, both nested alike, as in `(4,(2,4)):(2,(1,8))`.
//!
//! A mode is a size with a stride, or a tuple of modes. Inside a tuple the leftmost mode counts fastest. A layout maps
//! a number below its size to a number, so layouts compose. In the layout of a tensor the top-level modes are the
//! dimensions, in logical order.
//!
//! The algebra follows NVIDIA's CUTLASS documentation (`cute/02_layout_algebra`): coalesce,
//! composition, complement, right and left inverse, division.

use std::fmt;

use crate::build::element_count;
use crate::chain::{Chain, Cut, gcd, normalize, steps};
use crate::error::{LayoutError, TextError};
use crate::function::{Function, concat, independent_groups};
use crate::layout::Layout;
use crate::notation::scan::Scan;
use crate::placement::{Placement, Storage};

/// The deepest nesting of modes in text.
const MAX_DEPTH: usize = 64;

/// One mode: a size with a stride, or several modes of which the leftmost counts fastest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CuteMode {
    /// `size` steps of `stride`.
    Leaf {
        /// The number of values.
        size: u64,
        /// The distance between them.
        stride: i64,
    },
    /// Several modes.
    Tuple(Vec<CuteMode>),
}

/// A CuTe layout. One mode without parentheses, as in `8:1`, is a layout of rank 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CuteLayout {
    /// The top-level modes.
    pub modes: Vec<CuteMode>,
}

/// The reason why an operation of the algebra has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CuteError {
    /// The right layout does not cut the left one at its modes.
    #[error("{size}:{stride} does not divide the modes of {layout}")]
    Divisibility {
        /// Size of the mode of the right layout.
        size: u64,
        /// Its stride.
        stride: i64,
        /// The left layout, coalesced.
        layout: String,
    },
    /// Modes of the right layout carry across a mode of the left one.
    #[error("the modes of {inner} add up across the first {below} values of {layout}")]
    Carry {
        /// The right layout.
        inner: String,
        /// The values of the left layout's modes that are crossed.
        below: u64,
        /// The left layout.
        layout: String,
    },
    /// A layout that repeats a value, or whose order leaves no complement.
    #[error("{layout} has no complement: stride {stride} does not continue after {below} values")]
    NoComplement {
        /// The layout.
        layout: String,
        /// The stride that does not fit.
        stride: i64,
        /// The number of values below.
        below: u64,
    },
    /// Numbers of 2^63 and more.
    #[error("the result has sizes or strides of 2^63 and more")]
    Overflow,
}

/// A size with a stride.
type Pair = (u64, i64);

impl CuteMode {
    fn flatten(&self) -> Vec<Pair> {
        match self {
            CuteMode::Leaf { size, stride } => vec![(*size, *stride)],
            CuteMode::Tuple(modes) => modes.iter().flat_map(CuteMode::flatten).collect(),
        }
    }

    /// The number of values, saturated.
    #[must_use]
    pub fn size(&self) -> u64 {
        let sizes = self.flatten().into_iter().map(|(size, _)| size);
        sizes.fold(1, u64::saturating_mul)
    }

    fn of(pairs: &[Pair]) -> Self {
        let leaf = |&(size, stride): &Pair| CuteMode::Leaf { size, stride };
        match pairs {
            [pair] => leaf(pair),
            pairs => CuteMode::Tuple(pairs.iter().map(leaf).collect()),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, strides: bool) -> fmt::Result {
        match self {
            CuteMode::Leaf { stride, .. } if strides => write!(f, "{stride}"),
            CuteMode::Leaf { size, .. } => write!(f, "{size}"),
            CuteMode::Tuple(modes) => write_tuple(f, modes, strides),
        }
    }
}

fn write_tuple(f: &mut fmt::Formatter<'_>, modes: &[CuteMode], strides: bool) -> fmt::Result {
    f.write_str("(")?;
    for (i, mode) in modes.iter().enumerate() {
        f.write_str(if i == 0 { "" } else { "," })?;
        mode.write(f, strides)?;
    }
    f.write_str(")")
}

/// Prints `(4,(2,4)):(2,(1,8))`; a single size with its stride has no parentheses.
impl fmt::Display for CuteLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [CuteMode::Leaf { size, stride }] = self.modes[..] {
            return write!(f, "{size}:{stride}");
        }
        write_tuple(f, &self.modes, false)?;
        f.write_str(":")?;
        write_tuple(f, &self.modes, true)
    }
}

impl CuteLayout {
    /// Reads `shape:stride`; sizes and strides may have CuTe's `_` in front.
    ///
    /// # Errors
    /// The place of the first mistake. Sizes and strides that nest differently are a mistake.
    pub fn parse(text: &str) -> Result<CuteLayout, TextError> {
        let mut reader = Reader(Scan::new(text));
        let shape = reader.tree(0)?;
        reader.expect(':')?;
        let start = reader.0.at;
        let stride = reader.tree(0)?;
        if reader.peek().is_some() {
            return Err(reader.error("the end of the layout"));
        }
        let wanted = "strides that nest as the sizes do";
        let joined = join(&shape, &stride).ok_or_else(|| TextError::at(text, start, wanted))?;
        Ok(match joined {
            CuteMode::Tuple(modes) => CuteLayout { modes },
            leaf => CuteLayout { modes: vec![leaf] },
        })
    }

    /// The number of arguments of the layout, saturated.
    #[must_use]
    pub fn size(&self) -> u64 {
        let sizes = self.modes.iter().map(CuteMode::size);
        sizes.fold(1, u64::saturating_mul)
    }

    /// One more than the largest value; 0 for an empty layout. Saturates.
    #[must_use]
    pub fn cosize(&self) -> u64 {
        if self.size() == 0 {
            return 0;
        }
        let last =
            |(size, stride): Pair| i128::from(stride.max(0)).saturating_mul(i128::from(size) - 1);
        let highest = self.flatten().into_iter().map(last);
        let highest = highest.fold(0, i128::saturating_add);
        u64::try_from(highest.saturating_add(1)).unwrap_or(u64::MAX)
    }

    /// The value at `number`. The leftmost mode takes the remainder; the result wraps on overflow.
    #[must_use]
    pub fn value(&self, number: u64) -> i64 {
        let (mut rest, mut value) = (number, 0i64);
        let pairs = self.flatten();
        for (i, &(size, stride)) in pairs.iter().enumerate() {
            let last = i + 1 == pairs.len();
            let index = if last { rest } else { rest % size.max(1) };
            value = value.wrapping_add(stride.wrapping_mul(index as i64));
            rest /= size.max(1);
        }
        value
    }

    fn flatten(&self) -> Vec<Pair> {
        self.modes.iter().flat_map(CuteMode::flatten).collect()
    }

    fn flat(pairs: &[Pair]) -> Self {
        match CuteMode::of(pairs) {
            CuteMode::Tuple(modes) if modes.is_empty() => Self::flat(&[(1, 0)]),
            CuteMode::Tuple(modes) => Self { modes },
            leaf => Self { modes: vec![leaf] },
        }
    }

    /// The same function in the fewest modes, without nesting.
    #[must_use]
    pub fn coalesce(&self) -> CuteLayout {
        Self::flat(&coalesced(&self.flatten()))
    }

    /// The composition of `self` after `inner`: it maps `k` to `self.value(inner.value(k))` and is nested like `inner`.
    ///
    /// # Errors
    /// A mode of `inner` does not cut the modes of `self`.
    pub fn compose(&self, inner: &CuteLayout) -> Result<CuteLayout, CuteError> {
        let outer = coalesced(&self.flatten());
        self.check_carries(&outer, inner)?;
        let modes = inner.modes.iter().map(|mode| compose_mode(&outer, mode));
        Ok(CuteLayout {
            modes: modes.collect::<Result<_, _>>()?,
        })
    }

    /// Checks that modes of `inner` do not carry across a mode of `outer`; the composition would not be a sum.
    fn check_carries(&self, outer: &[Pair], inner: &CuteLayout) -> Result<(), CuteError> {
        let mut below = 1u64;
        for &(size, _) in outer.iter().take(outer.len().saturating_sub(1)) {
            below = below.checked_mul(size).ok_or(CuteError::Overflow)?;
            let rests = inner
                .flatten()
                .into_iter()
                .map(|pair| largest_rest(pair, below));
            let sum = rests.fold(0, u128::saturating_add);
            if u128::from(below) <= sum {
                return Err(CuteError::Carry {
                    inner: inner.to_string(),
                    below,
                    layout: self.to_string(),
                });
            }
        }
        Ok(())
    }

    /// The complement of this layout in the numbers below `bound`: a layout that repeats this one into the gaps. With
    /// it as a further mode every number below `bound` is a value once.
    ///
    /// # Errors
    /// Values are repeated, or strides leave no whole gap.
    pub fn complement(&self, bound: u64) -> Result<CuteLayout, CuteError> {
        let mut pairs = self.flatten();
        pairs.retain(|&(size, stride)| size != 1 && stride != 0);
        pairs.sort_by_key(|&(size, stride)| (stride, size));
        let mut below = 1u64;
        let mut gaps = Vec::new();
        for (size, stride) in pairs {
            let error = || CuteError::NoComplement {
                layout: self.to_string(),
                stride,
                below,
            };
            let step = u64::try_from(stride).map_err(|_| error())?;
            if !step.is_multiple_of(below) || step < below {
                return Err(error());
            }
            gaps.push((step / below, below as i64));
            below = step.checked_mul(size).ok_or(CuteError::Overflow)?;
            i64::try_from(below).map_err(|_| CuteError::Overflow)?;
        }
        gaps.push((bound.div_ceil(below.max(1)), below as i64));
        Ok(Self::flat(&coalesced(&gaps)))
    }

    /// The longest layout `r` with `self.value(r.value(k)) == k`.
    #[must_use]
    pub fn right_inverse(&self) -> CuteLayout {
        let mut prefix = 1u64;
        let mut pairs: Vec<(i64, u64, u64)> = Vec::new();
        for (size, stride) in self.flatten() {
            pairs.push((stride, size, prefix));
            prefix = prefix.saturating_mul(size);
        }
        pairs.sort_unstable();
        let mut inverse = Vec::new();
        let mut next = 1i64;
        for (stride, size, place) in pairs.into_iter().filter(|pair| pair.1 != 1) {
            let after = i64::try_from(size).ok().and_then(|n| n.checked_mul(stride));
            let (Some(after), Ok(place)) = (after, i64::try_from(place)) else {
                break;
            };
            if stride != next {
                break;
            }
            inverse.push((size, place));
            next = after;
        }
        Self::flat(&coalesced(&inverse))
    }

    /// A layout `l` with `l.value(self.value(k)) == k`.
    ///
    /// # Errors
    /// As [`CuteLayout::complement`].
    pub fn left_inverse(&self) -> Result<CuteLayout, CuteError> {
        let gaps = self.complement(1)?;
        let modes = [self.modes.clone(), gaps.modes].concat();
        Ok(CuteLayout { modes }.right_inverse())
    }

    /// `self` cut into tiles: a mode of the elements of a tile and a mode of the tiles.
    ///
    /// # Errors
    /// As [`CuteLayout::complement`] and [`CuteLayout::compose`].
    pub fn divide(&self, tile: &CuteLayout) -> Result<CuteLayout, CuteError> {
        let rest = tile.complement(self.size())?;
        let tuple = |layout: &CuteLayout| match layout.modes.as_slice() {
            [mode] => mode.clone(),
            modes => CuteMode::Tuple(modes.to_vec()),
        };
        let modes = vec![tuple(tile), tuple(&rest)];
        self.compose(&CuteLayout { modes })
    }

    /// The layout of a tensor in CuTe's notation, one top-level mode per dimension.
    ///
    /// # Errors
    /// CuTe's modes cannot express padding, merged dimensions, an offset, a memory space or an element width.
    pub fn from_layout(layout: &Layout) -> Result<CuteLayout, LayoutError> {
        let refuse = |reason: String| LayoutError::Inexpressible {
            notation: "CuTe's",
            reason,
        };
        let plain = |reason: &str| refuse(reason.to_owned());
        let function = layout.function();
        if !layout.storage().is_plain() {
            return Err(plain(
                "the element width or the memory space is not the type's own",
            ));
        }
        if function.program.is_some() || function.order.is_some() {
            return Err(plain("it cuts across merged dimensions"));
        }
        if function.offset != 0 {
            return Err(plain("element 0 does not lie at offset 0"));
        }
        if layout.elements() == 0 {
            let leaf = |&size: &u64| CuteMode::Leaf { size, stride: 1 };
            let modes = layout.shape().iter().map(leaf).collect();
            return Ok(CuteLayout { modes });
        }
        let shape = layout.shape();
        let mut modes = vec![CuteMode::Leaf { size: 1, stride: 0 }; shape.len()];
        for (dims, size, part) in independent_groups(&function.chain, shape) {
            let long: Vec<usize> = dims.clone().filter(|&dim| 1 < shape[dim]).collect();
            match long.as_slice() {
                [] => {}
                &[dim] => {
                    let pairs = dimension(size, &part).map_err(|Uneven { size, domain }| {
                        refuse(format!(
                            "dimension {dim} is cut at {size} inside {domain}, which it does not divide"
                        ))
                    })?;
                    modes[dim] = CuteMode::of(&pairs);
                }
                &[dim, ..] => {
                    let reason = format!("dimension {dim} and the next are cut across each other");
                    return Err(refuse(reason));
                }
            }
        }
        let cute = CuteLayout { modes };
        if cute.cosize() != layout.positions() {
            let (found, wanted) = (layout.positions(), cute.cosize());
            let reason = format!(
                "its buffer of {found} positions is padded behind the last element at {}",
                wanted - 1
            );
            return Err(refuse(reason));
        }
        Ok(cute)
    }

    /// The layout of a tensor whose dimensions are the top-level modes, with elements of `elem_bits` bits. It is
    /// written as an order, a block, digits or strides.
    ///
    /// # Errors
    /// No notation of tensors writes it, or a size is 2^63 and more.
    pub fn to_layout(&self, elem_bits: u32) -> Result<Layout, LayoutError> {
        let shape: Vec<u64> = self.modes.iter().map(CuteMode::size).collect();
        let overflow = || LayoutError::overflow(&shape);
        let elements = element_count(&shape).ok_or_else(overflow)?;
        if elements == 0 {
            return Ok(Layout::row_major(&shape, elem_bits));
        }
        let (mut low, mut high) = (0i128, 0i128);
        for (size, stride) in self.flatten() {
            let last = i128::from(stride).saturating_mul(i128::from(size) - 1);
            (low, high) = (
                low.saturating_add(last.min(0)),
                high.saturating_add(last.max(0)),
            );
        }
        if i64::try_from(high).is_err() || i64::try_from(low).is_err() {
            return Err(overflow());
        }
        if low < 0 {
            let size = self.cosize();
            return Err(LayoutError::OutOfBuffer { low, high, size });
        }
        let parts: Vec<(u64, Chain)> = self.modes.iter().map(mode_chain).collect();
        let chain = concat(parts.iter().map(|(size, part)| (*size, &**part)));
        let chain = if elements <= 1 { Chain::new() } else { chain };
        let storage = Storage::of_type(self.cosize(), elem_bits);
        let function = Function::logical(chain, 0);
        Layout::written(Placement::new(&shape, elements, function, storage), None)
    }
}

/// A cut of a dimension that does not divide the part that it cuts.
struct Uneven {
    size: u64,
    domain: u64,
}

/// The modes of one dimension, minor to major.
fn dimension(size: u64, part: &[Cut]) -> Result<Vec<Pair>, Uneven> {
    let mut pairs = Vec::new();
    let mut domain = size;
    for step in steps(part, size) {
        let cut = step.cut;
        if !domain.is_multiple_of(cut.size) {
            let size = cut.size;
            return Err(Uneven { size, domain });
        }
        pairs.push((step.count, cut.stride));
        domain = cut.size;
    }
    pairs.reverse();
    Ok(pairs)
}

/// The chain of a mode over its number.
fn mode_chain(mode: &CuteMode) -> (u64, Chain) {
    let mut size = 1u64;
    let mut cuts = Vec::new();
    for (count, stride) in mode.flatten() {
        cuts.push(Cut { size, stride });
        size = size.saturating_mul(count);
    }
    cuts.reverse();
    // Modes of size 1 repeat a cut; the outer one of such a pair has no steps.
    let mut falling: Vec<Cut> = Vec::new();
    let mut domain = size;
    for cut in cuts {
        if cut.size < domain {
            domain = cut.size;
            falling.push(cut);
        }
    }
    (size, normalize(falling, size))
}

/// The largest remainder by `modulus` that the steps of a mode can have.
fn largest_rest((size, stride): Pair, modulus: u64) -> u128 {
    let step = stride.unsigned_abs();
    let last = u128::from(step) * u128::from(size.saturating_sub(1));
    match step.is_multiple_of(modulus) {
        true => 0,
        false if last < u128::from(modulus) => last,
        false => u128::from(modulus - gcd(step, modulus)),
    }
}

fn coalesced(pairs: &[Pair]) -> Vec<Pair> {
    let mut list: Vec<Pair> = Vec::new();
    for &(size, stride) in pairs.iter().filter(|(size, _)| *size != 1) {
        match list.last_mut() {
            Some((count, step)) if i128::from(*step) * i128::from(*count) == i128::from(stride) => {
                *count = count.saturating_mul(size);
            }
            _ => list.push((size, stride)),
        }
    }
    if list.is_empty() {
        list.push((1, 0));
    }
    list
}

fn compose_mode(outer: &[Pair], mode: &CuteMode) -> Result<CuteMode, CuteError> {
    match mode {
        CuteMode::Tuple(modes) => {
            let modes = modes.iter().map(|mode| compose_mode(outer, mode));
            Ok(CuteMode::Tuple(modes.collect::<Result<_, _>>()?))
        }
        CuteMode::Leaf { size, stride } => {
            let pairs = compose_leaf(outer, *size, *stride)?;
            Ok(CuteMode::of(&pairs))
        }
    }
}

/// The modes of `outer` through which `size` steps of `stride` go.
fn compose_leaf(outer: &[Pair], size: u64, stride: i64) -> Result<Vec<Pair>, CuteError> {
    let error = || CuteError::Divisibility {
        size,
        stride,
        layout: CuteLayout::flat(outer).to_string(),
    };
    if stride == 0 || size <= 1 {
        return Ok(vec![(size, 0)]);
    }
    let (mut rest, mut step) = (size, u64::try_from(stride).map_err(|_| error())?);
    let mut pairs = Vec::new();
    let (&(_, last), before) = outer.split_last().ok_or_else(error)?;
    let scaled = |by: u64, stride: i64| {
        let by = i64::try_from(by).map_err(|_| CuteError::Overflow)?;
        by.checked_mul(stride).ok_or(CuteError::Overflow)
    };
    for &(count, outer_stride) in before {
        if rest == 1 {
            break;
        }
        if step.is_multiple_of(count) {
            step /= count;
            continue;
        }
        if !count.is_multiple_of(step) {
            return Err(error());
        }
        let steps = (count / step).min(rest);
        if !rest.is_multiple_of(steps) {
            return Err(error());
        }
        pairs.push((steps, scaled(step, outer_stride)?));
        rest /= steps;
        step = 1;
    }
    if 1 < rest {
        pairs.push((rest, scaled(step, last)?));
    }
    Ok(pairs)
}

/// A tree of numbers.
enum Tree {
    Leaf(i64),
    Tuple(Vec<Tree>),
}

fn join(shape: &Tree, stride: &Tree) -> Option<CuteMode> {
    match (shape, stride) {
        (&Tree::Leaf(size), &Tree::Leaf(stride)) => Some(CuteMode::Leaf {
            size: u64::try_from(size).ok()?,
            stride,
        }),
        (Tree::Tuple(shapes), Tree::Tuple(strides)) if shapes.len() == strides.len() => {
            let modes = shapes.iter().zip(strides).map(|(a, b)| join(a, b));
            Some(CuteMode::Tuple(modes.collect::<Option<_>>()?))
        }
        _ => None,
    }
}

struct Reader<'a>(Scan<'a>);

impl Reader<'_> {
    fn tree(&mut self, depth: usize) -> Result<Tree, TextError> {
        if depth == MAX_DEPTH {
            return Err(self.error(&format!("at most {MAX_DEPTH} nested modes")));
        }
        if !self.eat('(') {
            return self.number().map(Tree::Leaf);
        }
        let mut trees = Vec::new();
        if self.eat(')') {
            return Ok(Tree::Tuple(trees));
        }
        loop {
            trees.push(self.tree(depth + 1)?);
            if !self.eat(',') {
                self.expect(')')?;
                return Ok(Tree::Tuple(trees));
            }
        }
    }

    fn number(&mut self) -> Result<i64, TextError> {
        self.eat('_');
        let rest = self.0.rest();
        let sign = usize::from(rest.starts_with('-'));
        let digits = |c: char| !c.is_ascii_digit();
        let len = rest[sign..].find(digits).unwrap_or(rest.len() - sign);
        let value = rest[..sign + len].parse();
        let value = value.map_err(|_| self.error("a number below 2^63, or `(`"))?;
        self.0.at += sign + len;
        Ok(value)
    }

    fn peek(&mut self) -> Option<char> {
        self.0.skip_blank();
        self.0.peek()
    }

    fn eat(&mut self, wanted: char) -> bool {
        self.0.skip_blank();
        self.0.eat(wanted)
    }

    fn expect(&mut self, wanted: char) -> Result<(), TextError> {
        match self.eat(wanted) {
            true => Ok(()),
            false => Err(self.error(&format!("`{wanted}`"))),
        }
    }

    fn error(&self, wanted: &str) -> TextError {
        TextError::at(self.0.text, self.0.at, wanted)
    }
}
