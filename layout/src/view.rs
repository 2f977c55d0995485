//! When a chain of reshapes and transposes costs nothing, and which layout makes it so.

use smallvec::SmallVec;

use crate::boxes;
use crate::cause::{Cause, cause, pull_cause};
use crate::error::LayoutError;
use crate::layout::{Function, Groups, Layout, product, unravel};
use crate::respell;
use crate::spelling::{Notation, Spelling};
use crate::xla::SplitConfig;

/// Sizes of factors, which are few.
pub(crate) type Sizes = SmallVec<[u64; 8]>;

/// Numbers of dimensions or factors, which are few.
pub(crate) type Dims = SmallVec<[usize; 8]>;

/// A logical map: reshape, transpose, reshape.
///
/// It means: reshape the operand to `shape` (default: its own), transpose by `perm` (output axis
/// `i` reads axis `perm[i]`; default: identity), reshape row-major to `result`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ViewMap {
    /// Elements along each dimension before the transpose.
    pub shape: Option<Vec<u64>>,
    /// Input axis of each output axis.
    pub perm: Option<Vec<usize>>,
    /// Elements along each dimension of the result.
    pub result: Vec<u64>,
}

/// Why a [`ViewMap`] does not fit its operand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewMapError {
    /// A reshape to another number of elements.
    #[error("reshape of {from:?} to {to:?} changes the number of elements")]
    Elements {
        /// The shape before.
        from: Vec<u64>,
        /// The shape after.
        to: Vec<u64>,
    },
    /// A `perm` that is not a permutation of the axes.
    #[error("perm {perm:?} is not a permutation of the {rank} axes of {shape:?}", rank = .shape.len())]
    Perm {
        /// The permutation as given.
        perm: Vec<usize>,
        /// The shape that it should permute.
        shape: Vec<u64>,
    },
}

/// Why a chain is not a view, or no layout makes it one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotView {
    /// What differs.
    pub reason: Box<NotViewReason>,
    /// Which dimension it comes from.
    pub cause: Option<Cause>,
    /// What the writer may have meant.
    pub hint: Option<String>,
}

/// What keeps a chain from being a view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotViewReason {
    /// The map does not fit the operand.
    #[error(transparent)]
    Map(#[from] ViewMapError),
    /// The result's shape is not the map's.
    #[error("the map gives shape {wanted:?}, the result has {found:?}")]
    Shape {
        /// The map's result.
        wanted: Vec<u64>,
        /// The output layout's shape.
        found: Vec<u64>,
    },
    /// Elements of different widths.
    #[error("elements of {input} bits are read as {output} bits")]
    Bits {
        /// Width in the operand.
        input: u32,
        /// Width in the result.
        output: u32,
    },
    /// Buffers in different memory spaces.
    #[error("the operand is in memory space {input}, the result in {output}")]
    Space {
        /// The operand's.
        input: u32,
        /// The result's.
        output: u32,
    },
    /// Buffers of different sizes.
    #[error("the operand's buffer has {input} bytes, the result's {output}")]
    Bytes {
        /// The operand's, padding included.
        input: u64,
        /// The result's, padding included.
        output: u64,
    },
    /// An element that would have to move.
    #[error("element {element:?} of the result lies at offset {found}, its layout wants {wanted}")]
    Position {
        /// Logical index in the result.
        element: Vec<u64>,
        /// Offset in the operand's buffer, in elements.
        found: u64,
        /// Offset that the result's layout gives it, in elements.
        wanted: u64,
    },
    /// Buffers that begin at different offsets.
    #[error("element 0 lies at offset {input} in the operand and {output} in the result")]
    Offset {
        /// The operand's, in elements.
        input: u64,
        /// The result's, in elements.
        output: u64,
    },
    /// No part of the result steps as the innermost part of the operand does.
    #[error(
        "the innermost remaining parts step by {input} elements in the operand and by {output} in the result"
    )]
    Steps {
        /// The operand's, in elements.
        input: i64,
        /// The result's, in elements.
        output: i64,
    },
    /// Runs of neighbours that have no common cut and do not go on.
    #[error(
        "a run of {input} elements in the operand meets a run of {output} in the result, and neither is cut there"
    )]
    Runs {
        /// The operand's, in elements.
        input: u64,
        /// The result's, in elements.
        output: u64,
    },
    /// Parts of the tensors that lie in different memories.
    #[error("the tensors are split over memories at different elements")]
    Split,
    /// Functions that fall into too many pieces to be compared.
    #[error("the layouts fall into too many pieces to be compared")]
    Undecided,
    /// The functions differ; no single element was looked for.
    #[error("the layouts put elements at different offsets")]
    Positions,
    /// The transpose takes apart what the layout keeps in one run or tile.
    #[error("the transpose takes apart dimensions {sizes:?}, which the layout cuts across")]
    CutAcross {
        /// Sizes of the dimensions before the transpose, 1s dropped, neighbours merged.
        sizes: Vec<u64>,
    },
    /// The layout exists but no notation writes it.
    #[error("the result's layout cannot be written: {0}")]
    Unwritable(#[source] LayoutError),
}

impl std::fmt::Display for NotView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.reason)?;
        if let Some(cause) = &self.cause {
            write!(f, "; {cause}")?;
        }
        match &self.hint {
            None => Ok(()),
            Some(hint) => write!(f, "; {hint}"),
        }
    }
}

impl std::error::Error for NotView {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.reason)
    }
}

impl From<NotViewReason> for NotView {
    fn from(reason: NotViewReason) -> Self {
        Self {
            reason: Box::new(reason),
            cause: None,
            hint: None,
        }
    }
}

/// Whether two shapes have the same number of elements, without overflow.
fn same_elements(a: &[u64], b: &[u64]) -> bool {
    let plain = |shape: &[u64]| {
        let mut sizes = shape.iter();
        sizes.try_fold(1u64, |product, &size| product.checked_mul(size))
    };
    if let (Some(a), Some(b)) = (plain(a), plain(b)) {
        return a == b;
    }
    let count = |shape: &[u64]| {
        if shape.contains(&0) {
            return Some(0);
        }
        shape.iter().try_fold(1u128, |product, &size| {
            product.checked_mul(u128::from(size))
        })
    };
    match (count(a), count(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

impl ViewMap {
    /// A row-major reshape to `result`.
    #[must_use]
    pub fn reshape(result: &[u64]) -> Self {
        Self {
            shape: None,
            perm: None,
            result: result.to_vec(),
        }
    }

    /// A transpose of a tensor of shape `operand`; `perm[i]` is the input axis of output axis `i`.
    ///
    /// # Errors
    /// `perm` is not a permutation of the axes.
    pub fn transpose(operand: &[u64], perm: &[usize]) -> Result<Self, ViewMapError> {
        check_perm(perm, operand)?;
        let result = perm.iter().map(|&axis| operand[axis]).collect();
        Ok(Self {
            shape: None,
            perm: Some(perm.to_vec()),
            result,
        })
    }

    /// The shape that is transposed.
    fn middle<'a>(&'a self, operand: &'a [u64]) -> &'a [u64] {
        self.shape.as_deref().unwrap_or(operand)
    }

    /// The permutation of `rank` axes, written out.
    fn axes(&self, rank: usize) -> Dims {
        match &self.perm {
            Some(perm) => Dims::from_slice(perm),
            None => (0..rank).collect(),
        }
    }

    /// Checks the map against its operand's shape.
    ///
    /// # Errors
    /// A reshape that changes the number of elements, or a `perm` that is none.
    pub fn check(&self, operand: &[u64]) -> Result<(), ViewMapError> {
        let middle = self.middle(operand);
        let elements = |from: &[u64], to: &[u64]| {
            if same_elements(from, to) {
                return Ok(());
            }
            Err(ViewMapError::Elements {
                from: from.to_vec(),
                to: to.to_vec(),
            })
        };
        elements(operand, middle)?;
        if let Some(perm) = &self.perm {
            check_perm(perm, middle)?;
        }
        elements(middle, &self.result)
    }

    /// The operand's row-major number of the element with row-major number `k` of the result.
    ///
    /// The map must fit the operand.
    fn operand_number(&self, operand: &[u64], k: u64) -> u64 {
        let middle = self.middle(operand);
        let Some(perm) = &self.perm else { return k };
        let permuted: Vec<u64> = perm.iter().map(|&axis| middle[axis]).collect();
        let mut e = vec![0; middle.len()];
        for (&axis, index) in perm.iter().zip(unravel(k, &permuted)) {
            e[axis] = index;
        }
        number(&e, middle)
    }

    /// Logical index in the operand of the element `e` of the result.
    ///
    /// `None` where the map does not fit the operand or `e` is out of bounds.
    #[must_use]
    pub fn operand_index(&self, operand: &[u64], e: &[u64]) -> Option<Vec<u64>> {
        self.check(operand).ok()?;
        crate::build::element_count(operand)?;
        if e.len() != self.result.len() || e.iter().zip(&self.result).any(|(i, n)| n <= i) {
            return None;
        }
        let k = number(e, &self.result);
        Some(unravel(self.operand_number(operand, k), operand))
    }

    /// Whether the map keeps every element's row-major number: a mere reshape.
    #[must_use]
    pub fn is_reshape(&self, operand: &[u64]) -> bool {
        let middle = self.middle(operand);
        let Some(perm) = &self.perm else { return true };
        middle.contains(&0)
            || perm
                .iter()
                .filter(|&&axis| middle.get(axis).is_none_or(|&n| 1 < n))
                .is_sorted()
    }

    /// The map equal to applying `self` to `operand` first and `next` second.
    ///
    /// `None` where a map does not fit, and where no single reshape, transpose and reshape does
    /// the work of both: the shapes where they meet have no common refinement.
    #[must_use]
    pub fn then(&self, operand: &[u64], next: &ViewMap) -> Option<ViewMap> {
        self.check(operand).ok()?;
        next.check(&self.result).ok()?;
        let result = next.result.clone();
        if operand.contains(&0) {
            return Some(ViewMap {
                shape: None,
                perm: None,
                result,
            });
        }
        if next.is_reshape(&self.result) {
            return Some(ViewMap {
                result,
                ..self.clone()
            });
        }
        let second = next.middle(&self.result);
        if self.is_reshape(operand) {
            return Some(ViewMap {
                shape: Some(second.to_vec()),
                ..next.clone()
            });
        }
        let first = self.middle(operand);
        let axes = self.axes(first.len());
        let permuted: Vec<u64> = axes.iter().map(|&axis| first[axis]).collect();
        let meet = Refinement::of(&permuted, second)?;
        // Factors in the order of `first`, by their number in the order of `permuted`.
        let mut source = Vec::with_capacity(meet.sizes.len());
        for axis in 0..first.len() {
            let place = axes.iter().position(|&other| other == axis)?;
            source.extend(meet.left[place].clone());
        }
        let shape = source.iter().map(|&factor| meet.sizes[factor]).collect();
        let axes = next.axes(second.len());
        let target = axes.iter().flat_map(|&axis| meet.right[axis].clone());
        let perm: Option<Vec<usize>> = target
            .map(|factor| source.iter().position(|&other| other == factor))
            .collect();
        Some(ViewMap {
            shape: Some(shape),
            perm: Some(perm?),
            result,
        })
    }

    /// The map back from the result to a tensor of shape `operand`.
    ///
    /// # Errors
    /// The map does not fit the operand.
    pub fn inverse(&self, operand: &[u64]) -> Result<ViewMap, ViewMapError> {
        self.check(operand)?;
        let middle = self.middle(operand);
        let axes = self.axes(middle.len());
        let mut perm = vec![0; axes.len()];
        for (i, &axis) in axes.iter().enumerate() {
            perm[axis] = i;
        }
        let shape = axes.iter().map(|&axis| middle[axis]).collect();
        Ok(ViewMap {
            shape: Some(shape),
            perm: Some(perm),
            result: operand.to_vec(),
        })
    }
}

/// Row-major number of an index; saturates.
fn number(e: &[u64], shape: &[u64]) -> u64 {
    let step = |number: u64, (index, size): (&u64, &u64)| {
        number.saturating_mul(*size).saturating_add(*index)
    };
    e.iter().zip(shape).fold(0, step)
}

fn check_perm(perm: &[usize], shape: &[u64]) -> Result<(), ViewMapError> {
    let error = || ViewMapError::Perm {
        perm: perm.to_vec(),
        shape: shape.to_vec(),
    };
    let mut seen: SmallVec<[bool; 16]> = shape.iter().map(|_| false).collect();
    if perm.len() != shape.len() {
        return Err(error());
    }
    for &axis in perm {
        let slot = seen.get_mut(axis).ok_or_else(error)?;
        if std::mem::replace(slot, true) {
            return Err(error());
        }
    }
    Ok(())
}

/// Factors into which the dimensions of two shapes both fall, major to minor, none of size 1.
struct Refinement {
    sizes: Vec<u64>,
    /// The factors of each dimension of the first shape.
    left: Vec<std::ops::Range<usize>>,
    /// The factors of each dimension of the second shape.
    right: Vec<std::ops::Range<usize>>,
}

impl Refinement {
    /// `None` where the shapes have no common refinement. No dimension is zero.
    fn of(left: &[u64], right: &[u64]) -> Option<Self> {
        let (mut minor_first, mut ends) = (Vec::new(), [Vec::new(), Vec::new()]);
        let shapes = [left, right];
        let mut rest = [1u64, 1];
        let mut todo = [left.len(), right.len()];
        loop {
            for side in 0..2 {
                while rest[side] == 1 && 0 < todo[side] {
                    todo[side] -= 1;
                    rest[side] = shapes[side][todo[side]];
                    ends[side].push(minor_first.len());
                }
            }
            if rest == [1, 1] {
                break;
            }
            let factor = rest[0].min(rest[1]);
            if factor <= 1 || rest.iter().any(|size| !size.is_multiple_of(factor)) {
                return None;
            }
            minor_first.push(factor);
            rest = [rest[0] / factor, rest[1] / factor];
        }
        let total = minor_first.len();
        let ranges = |starts: &[usize]| {
            let stops = starts.iter().skip(1).copied().chain([total]);
            let range = |(&start, stop): (&usize, usize)| total - stop..total - start;
            let mut ranges: Vec<_> = starts.iter().zip(stops).map(range).collect();
            ranges.reverse();
            ranges
        };
        let (left, right) = (ranges(&ends[0]), ranges(&ends[1]));
        minor_first.reverse();
        Some(Self {
            sizes: minor_first,
            left,
            right,
        })
    }
}

/// Whether the chain described by `map` leaves every byte of the buffer where it is.
///
/// Exact: the answer is `output.index(e) == input.index(g(e))` for every element `e` of the result,
/// where `g` is the map, with the same bytes and memory space. Elements are not enumerated: chains
/// of cuts are compared cut by cut. Functions that are no chain over one order (dimensions merged in
/// different orders, tiles that cut across the padding of a merge) are compared on the boxes of
/// indices on which both are affine.
///
/// # Errors
/// What differs, in words, and a hint where a spelling looks mistaken. [`NotViewReason::Undecided`]
/// where the boxes are too many.
pub fn is_view(input: &Layout, map: &ViewMap, output: &Layout) -> Result<(), NotView> {
    decide(input, map, output).map_err(|reason| {
        let hint = input.spelling_hint().or_else(|| output.spelling_hint());
        let moves = matches!(
            reason,
            NotViewReason::Bytes { .. }
                | NotViewReason::Position { .. }
                | NotViewReason::Positions
                | NotViewReason::CutAcross { .. }
        );
        NotView {
            cause: moves.then(|| cause(input, map, output)).flatten(),
            reason: Box::new(reason),
            hint,
        }
    })
}

fn decide(input: &Layout, map: &ViewMap, output: &Layout) -> Result<(), NotViewReason> {
    map.check(input.shape())?;
    if map.result != output.shape() {
        let (wanted, found) = (map.result.clone(), output.shape().to_vec());
        return Err(NotViewReason::Shape { wanted, found });
    }
    compare_storage(input, output)?;
    compare_splits(input, map, output)?;
    if input.elements() == 0 {
        return Ok(());
    }
    let refusal = match pull_function(input, map) {
        Ok(pulled) => match same_functions(&pulled, output.function(), input.elements()) {
            Some(true) => return Ok(()),
            Some(false) => return Err(difference(input, map, output, NotViewReason::Positions)),
            None => NotViewReason::Positions,
        },
        Err(refusal) => refusal,
    };
    match different_element(input, map, output) {
        Some(reason) => Err(reason),
        None => match boxes::agree(input, map, output) {
            Some(true) => Ok(()),
            Some(false) => Err(refusal),
            None => Err(NotViewReason::Undecided),
        },
    }
}

/// Whether the buffers agree in element width, memory space and size.
pub(crate) fn compare_storage(input: &Layout, output: &Layout) -> Result<(), NotViewReason> {
    let (a, b) = (input.storage(), output.storage());
    if a.bits != b.bits {
        return Err(NotViewReason::Bits {
            input: a.bits,
            output: b.bits,
        });
    }
    if a.space != b.space {
        return Err(NotViewReason::Space {
            input: a.space,
            output: b.space,
        });
    }
    if input.bytes() != output.bytes() {
        return Err(NotViewReason::Bytes {
            input: input.bytes(),
            output: output.bytes(),
        });
    }
    Ok(())
}

/// Whether both are split over memories (`SC`) at the same elements.
fn compare_splits(input: &Layout, map: &ViewMap, output: &Layout) -> Result<(), NotViewReason> {
    let same = match (input.splits().is_empty(), output.splits().is_empty()) {
        (true, true) => return Ok(()),
        (false, false) if map.is_reshape(input.shape()) => {
            split_marks(input, input.shape()) == split_marks(output, output.shape())
        }
        (false, false) => match respell::transposed(input, map) {
            Some(Spelling::Xla(xla)) => {
                let (order, sizes) = (xla.minor_to_major(), output.shape());
                marks(xla.split_configs(), order, sizes) == split_marks(output, sizes)
            }
            _ => false,
        },
        _ => false,
    };
    if same {
        Ok(())
    } else {
        Err(NotViewReason::Split)
    }
}

/// Whether two layouts of one shape are split over memories at the same elements.
pub(crate) fn same_splits(a: &Layout, b: &Layout) -> bool {
    a.splits().is_empty() && b.splits().is_empty()
        || split_marks(a, a.shape()) == split_marks(b, b.shape())
}

/// What the splits of a layout mean for the row-major numbers of its elements: a number lies behind
/// a mark `(period, start)` if its remainder by the period is `start` or more.
fn split_marks(layout: &Layout, shape: &[u64]) -> Vec<(u64, u64)> {
    match layout.spelling() {
        Spelling::Xla(xla) => marks(xla.split_configs(), xla.minor_to_major(), shape),
        _ => Vec::new(),
    }
}

fn marks(splits: &[SplitConfig], minor_to_major: &[usize], shape: &[u64]) -> Vec<(u64, u64)> {
    let mut marks = Vec::new();
    for split in splits {
        let place = minor_to_major.len().checked_sub(1 + split.physical_dim);
        let Some(&dim) = place.and_then(|place| minor_to_major.get(place)) else {
            continue;
        };
        let inner = product(&shape[dim + 1..]);
        let period = inner.saturating_mul(shape[dim]);
        let mark = |&point: &u64| (period, inner.saturating_mul(point));
        marks.extend(split.points.iter().map(mark));
    }
    marks.sort_unstable();
    marks
}

/// Whether two functions agree; `None` where they count the elements in different orders.
fn same_functions(a: &Function, b: &Function, elements: u64) -> Option<bool> {
    if elements == 0 {
        return Some(true);
    }
    if a.offset != b.offset {
        return Some(false);
    }
    if a.program.is_some() || b.program.is_some() {
        return (a.program.is_some() && a.program == b.program).then_some(true);
    }
    (a.order == b.order).then(|| crate::chain::equal(&a.chain, &b.chain, elements))
}

/// Whether two layouts of one shape put every element at the same offset.
pub(crate) fn same_positions(a: &Layout, b: &Layout) -> bool {
    let identity = ViewMap::reshape(b.shape());
    let boxes = || {
        let differ = different_element(a, &identity, b).is_some();
        !differ && boxes::agree(a, &identity, b) == Some(true)
    };
    same_functions(a.function(), b.function(), a.elements()).unwrap_or_else(boxes)
}

/// An element whose offsets differ, or the given reason.
fn difference(
    input: &Layout,
    map: &ViewMap,
    output: &Layout,
    otherwise: NotViewReason,
) -> NotViewReason {
    different_element(input, map, output).unwrap_or(otherwise)
}

/// An element whose offsets differ, among some telling ones.
fn different_element(input: &Layout, map: &ViewMap, output: &Layout) -> Option<NotViewReason> {
    let n = input.elements();
    let differs = |k: u64| {
        let found = input.position_of_number(map.operand_number(input.shape(), k))?;
        let wanted = output.position_of_number(k)?;
        let element = || unravel(k, output.shape());
        (found != wanted).then(|| NotViewReason::Position {
            element: element(),
            found,
            wanted,
        })
    };
    let doublings = (0..63).map(|bit| 1u64 << bit).take_while(|&k| k < n);
    let mut spread = [3, 5, 7]
        .map(|part| n / part)
        .into_iter()
        .filter(|&k| k < n);
    let found = (0..1.min(n)).chain(doublings).find_map(differs);
    found
        .or_else(|| spread.find_map(differs))
        .or_else(|| differs(n.checked_sub(1)?))
}

/// The layout of the result for which the chain is a view of `input`.
///
/// The spelling follows the operand's where it can: a transposed block keeps its block.
///
/// # Errors
/// There is no such layout: the transpose takes apart dimensions across which the layout cuts.
pub fn pull(input: &Layout, map: &ViewMap) -> Result<Layout, NotView> {
    pull_layout(input, map).map_err(|reason| NotView {
        cause: matches!(reason, NotViewReason::CutAcross { .. })
            .then(|| pull_cause(input, map))
            .flatten(),
        reason: Box::new(reason),
        hint: input.spelling_hint(),
    })
}

fn pull_layout(input: &Layout, map: &ViewMap) -> Result<Layout, NotViewReason> {
    map.check(input.shape())?;
    if input.function().program.is_some() {
        return pull_program(input, map);
    }
    let function = pull_function(input, map)?;
    let (elements, storage) = (input.elements(), input.storage());
    if let Some(spelling) = respell::transposed(input, map) {
        return Ok(Layout::from_parts(
            &map.result,
            elements,
            function,
            storage,
            spelling,
        ));
    }
    if map.result == input.shape() && map.is_reshape(input.shape()) {
        return Ok(input.clone());
    }
    if !input.splits().is_empty() {
        return Err(NotViewReason::Split);
    }
    respell::spelled(
        &map.result,
        elements,
        function,
        storage,
        Some(input.spelling()),
    )
    .map_err(NotViewReason::Unwritable)
}

/// [`pull`] of a layout that only XLA's notation writes: dimensions may change places.
fn pull_program(input: &Layout, map: &ViewMap) -> Result<Layout, NotViewReason> {
    if map.result == input.shape() && map.is_reshape(input.shape()) {
        return Ok(input.clone());
    }
    let unwritable = || {
        let (notation, reason) = (Notation::Xla, respell::ACROSS_PADDING.to_owned());
        NotViewReason::Unwritable(LayoutError::Inexpressible { notation, reason })
    };
    let spelling = respell::transposed(input, map).ok_or_else(unwritable)?;
    let layout = Layout::new(spelling, &map.result, input.storage().type_bits);
    layout.map_err(NotViewReason::Unwritable)
}

/// The positions of the result's elements when the buffer stays as it is.
fn pull_function(input: &Layout, map: &ViewMap) -> Result<Function, NotViewReason> {
    let function = input.function();
    let operand = input.shape();
    if function.program.is_some() {
        let same = map.result == operand && map.is_reshape(operand);
        let refused = NotViewReason::Positions;
        return same.then(|| function.clone()).ok_or(refused);
    }
    if function.order.is_none() && map.is_reshape(operand) || input.elements() <= 1 {
        return Ok(Function {
            order: None,
            ..function.clone()
        });
    }
    let middle = map.middle(operand);
    let axes = map.axes(middle.len());
    let (sizes, target) = match &function.order {
        None => plain_factors(middle, &axes),
        Some(order) => refined_factors(operand, order, middle, &axes).ok_or_else(|| {
            NotViewReason::CutAcross {
                sizes: operand.to_vec(),
            }
        })?,
    };
    let (sizes, target) = merge_neighbours(&sizes, &target);
    rearrange(function, &sizes, &target, &map.result)
}

/// The dimensions longer than 1 in their order, and where the transpose takes them.
fn plain_factors(middle: &[u64], axes: &[usize]) -> (Sizes, Dims) {
    let long: Dims = (0..middle.len()).filter(|&axis| 1 < middle[axis]).collect();
    let sizes = long.iter().map(|&axis| middle[axis]).collect();
    let target = axes
        .iter()
        .filter_map(|axis| long.binary_search(axis).ok())
        .collect();
    (sizes, target)
}

/// The same for a chain that counts the operand's dimensions in another order.
fn refined_factors(
    operand: &[u64],
    order: &[usize],
    middle: &[u64],
    axes: &[usize],
) -> Option<(Sizes, Dims)> {
    let meet = Refinement::of(operand, middle)?;
    let source: Vec<usize> = order
        .iter()
        .flat_map(|&dim| meet.left[dim].clone())
        .collect();
    let sizes = source.iter().map(|&factor| meet.sizes[factor]).collect();
    let target = axes.iter().flat_map(|&axis| meet.right[axis].clone());
    let place = |factor| source.iter().position(|&other| other == factor);
    Some((sizes, target.map(place).collect::<Option<_>>()?))
}

/// Merges factors that stay neighbours in their order. `target` lists factors in the new order.
pub(crate) fn merge_neighbours(sizes: &[u64], target: &[usize]) -> (Sizes, Dims) {
    let starts: Dims = target
        .iter()
        .enumerate()
        .filter(|&(i, &factor)| i == 0 || target[i - 1] + 1 != factor)
        .map(|(_, &factor)| factor)
        .collect();
    let mut sorted = starts.clone();
    sorted.sort_unstable();
    let merged = |i: usize| {
        let stop = sorted.get(i + 1).copied().unwrap_or(sizes.len());
        product(&sizes[sorted[i]..stop])
    };
    let target = starts
        .iter()
        .filter_map(|start| sorted.binary_search(start).ok())
        .collect();
    ((0..sorted.len()).map(merged).collect(), target)
}

/// The function over the row-major numbers of `result` of a chain that counts `sizes`, when the
/// result counts them in the order `target`.
fn rearrange(
    function: &Function,
    sizes: &[u64],
    target: &[usize],
    result: &[u64],
) -> Result<Function, NotViewReason> {
    let groups = Groups::of(&function.chain, sizes);
    if groups.len() == sizes.len() {
        return Ok(Function::logical(groups.in_order(target), function.offset));
    }
    let order = order_of_dims(sizes, target, result);
    let order = order.ok_or_else(|| NotViewReason::CutAcross {
        sizes: sizes.to_vec(),
    })?;
    Ok(Function::new(
        &order,
        function.chain.clone(),
        result,
        function.offset,
    ))
}

/// The dimensions of `result` in the order of `sizes`, if each factor is some whole dimensions.
fn order_of_dims(sizes: &[u64], target: &[usize], result: &[u64]) -> Option<Vec<usize>> {
    let mut dims_of = vec![Vec::new(); sizes.len()];
    let mut dims = (0..result.len()).filter(|&dim| 1 < result[dim]);
    for &factor in target {
        let mut left = sizes[factor];
        while 1 < left {
            let dim = dims.next()?;
            if !left.is_multiple_of(result[dim]) {
                return None;
            }
            left /= result[dim];
            dims_of[factor].push(dim);
        }
    }
    Some(dims_of.concat())
}
