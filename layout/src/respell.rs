//! Finds spellings for a function: the same layout in another notation, or why not.

use crate::chain::{Step, steps};
use crate::digits::{DigitOp, DigitText, DigitsSpelling};
use crate::error::LayoutError;
use crate::layout::{Function, Layout, Piece, Storage, independent_groups, product};
use crate::spelling::{BlockSpelling, Factor, Notation, Spelling, StridedSpelling};
use crate::view::ViewMap;
use crate::xla::{TileDim, XlaSpelling};

/// A layout with this function, spelled like `hint` where that can be, else as simply as it can.
///
/// # Errors
/// No notation writes the function.
pub(crate) fn spelled(
    shape: &[u64],
    elements: u64,
    function: Function,
    storage: Storage,
    hint: Option<&Spelling>,
) -> Result<Layout, LayoutError> {
    let unspelled = Layout::from_parts(shape, elements, function, storage, Spelling::RowMajor);
    let spelling = best(&unspelled, hint)?;
    Ok(unspelled.with_spelling(spelling))
}

fn best(layout: &Layout, hint: Option<&Spelling>) -> Result<Spelling, LayoutError> {
    let plain = is_plain(layout);
    if plain
        && let Some(Spelling::Block(block)) = hint
        && let Some(block) = same_block(layout, block)
    {
        return Ok(block);
    }
    if let Some(notation @ (Notation::Xla | Notation::Strided)) = hint.and_then(Spelling::notation)
        && let Ok(spelling) = simply(layout, notation)
    {
        return Ok(spelling);
    }
    if plain && layout.is_row_major() {
        return Ok(Spelling::RowMajor);
    }
    for notation in [Notation::Block, Notation::Digits, Notation::Strided] {
        if let Ok(spelling) = in_notation(layout, notation) {
            return Ok(spelling);
        }
    }
    in_notation(layout, Notation::Xla).or_else(|_| in_notation(layout, Notation::Digits))
}

/// A notation where it is as short as another: tiles that sort digits are not.
fn simply(layout: &Layout, notation: Notation) -> Result<Spelling, LayoutError> {
    let sorts = notation == Notation::Xla
        && layout.spelling().notation() != Some(notation)
        && layout.splits().is_empty()
        && layout.function().program.is_none();
    match sorts {
        true => tiles_of_blocks(layout).map(Spelling::Xla),
        false => in_notation(layout, notation),
    }
}

/// Why only XLA's notation writes some tiles.
pub(crate) const ACROSS_PADDING: &str =
    "a tile with combined dimensions cuts across the padding of an earlier one";

/// Whether notations without element width and memory space can write the layout.
pub(crate) fn is_plain(layout: &Layout) -> bool {
    let storage = layout.storage();
    storage.bits == storage.type_bits && storage.space == 0
}

fn refuse(notation: Notation, reason: impl Into<String>) -> LayoutError {
    LayoutError::Inexpressible {
        notation,
        reason: reason.into(),
    }
}

/// The layout's function in one notation.
///
/// # Errors
/// [`LayoutError::Inexpressible`] with the reason.
pub(crate) fn in_notation(layout: &Layout, notation: Notation) -> Result<Spelling, LayoutError> {
    let own = layout.spelling();
    if own.notation() == Some(notation) {
        return Ok(own.clone());
    }
    if !layout.splits().is_empty() {
        return Err(refuse(notation, "it is split over several memories (SC)"));
    }
    if matches!(notation, Notation::Block | Notation::Strided) && !is_plain(layout) {
        let what = "the element width or the memory space is not the type's own";
        return Err(refuse(notation, what));
    }
    if layout.function().program.is_some() {
        return Err(refuse(notation, ACROSS_PADDING));
    }
    match notation {
        Notation::Block => block(layout).map(|block| as_tiled(layout, block)),
        Notation::Strided => strided(layout).map(Spelling::Strided),
        Notation::Digits => digits(layout).and_then(|digits| confirmed(layout, digits)),
        Notation::Xla => xla(layout).map(Spelling::Xla),
    }
}

/// Digits that mean the layout; merges of dimensions that other merges claim may not.
fn confirmed(layout: &Layout, digits: DigitsSpelling) -> Result<Spelling, LayoutError> {
    let merges = digits.digits.iter().any(|digit| 1 < digit.dims.len());
    let spelling = Spelling::Digits(digits);
    if merges {
        let again = Layout::new(spelling.clone(), layout.shape(), layout.storage().type_bits);
        let reason = "it cuts across merges of dimensions that overlap";
        if !again.is_ok_and(|again| again.same_function(layout)) {
            return Err(refuse(Notation::Digits, reason));
        }
    }
    Ok(spelling)
}

/// The spelling of a mere transpose of a spelled layout: the dimensions are renamed.
pub(crate) fn transposed(input: &Layout, map: &ViewMap) -> Option<Spelling> {
    let operand = input.shape();
    let perm = map.perm.as_deref()?;
    let untouched = map.shape.as_deref().is_none_or(|shape| shape == operand);
    let permuted = perm.len() == map.result.len()
        && perm
            .iter()
            .zip(&map.result)
            .all(|(&axis, size)| operand.get(axis) == Some(size));
    if !untouched || !permuted {
        return None;
    }
    let mut renamed = vec![0; perm.len()];
    for (new, &old) in perm.iter().enumerate() {
        renamed[old] = new;
    }
    let list = |dims: &[usize]| dims.iter().map(|&dim| renamed[dim]).collect::<Vec<_>>();
    Some(match input.spelling() {
        Spelling::RowMajor => return None,
        Spelling::Block(block) => {
            let letter =
                |&old: &usize| block.axes.as_deref().and_then(|axes| axes.chars().nth(old));
            let factors = |level: &Vec<Factor>| {
                level
                    .iter()
                    .map(|f| Factor {
                        dim: renamed[f.dim],
                        ..*f
                    })
                    .collect()
            };
            let order = list(&block.order);
            if block.levels.is_empty() && order.is_sorted() && block.axes.is_none() {
                return Some(Spelling::RowMajor);
            }
            Spelling::Block(BlockSpelling {
                axes: block
                    .axes
                    .as_ref()
                    .map(|_| perm.iter().filter_map(letter).collect()),
                numbered: block.numbered,
                levels: block.levels.iter().map(factors).collect(),
                order,
                inner_orders: inner_orders(block, &renamed),
            })
        }
        Spelling::Strided(strided) => Spelling::Strided(StridedSpelling {
            strides: perm.iter().map(|&old| strided.strides[old]).collect(),
            ..strided.clone()
        }),
        Spelling::Digits(digits) => {
            let mut digits = digits.clone();
            for digit in &mut digits.digits {
                digit.dims = list(&digit.dims);
            }
            Spelling::Digits(digits)
        }
        Spelling::Xla(xla) => Spelling::Xla(XlaSpelling {
            minor_to_major: list(&xla.minor_to_major),
            ..xla.clone()
        }),
    })
}

/// The inner orders with renamed dimensions.
fn inner_orders(block: &BlockSpelling, renamed: &[usize]) -> Vec<Vec<usize>> {
    let one = |order: &Vec<usize>| order.iter().map(|&dim| renamed[dim]).collect();
    block.inner_orders.iter().map(one).collect()
}

/// The block of the operand's spelling on some dimension of the result, if the function has it.
fn same_block(layout: &Layout, block: &BlockSpelling) -> Option<Spelling> {
    let [level] = block.levels.as_slice() else {
        return None;
    };
    let &[Factor { extent, .. }] = level.as_slice() else {
        return None;
    };
    let order = whole_order(layout.shape(), &layout.pieces()?)?;
    let dim = order
        .iter()
        .rev()
        .copied()
        .find(|&dim| 1 < layout.shape()[dim])?;
    // The innermost dimension in one block, or in several with nothing in between.
    let same = layout.shape()[dim].is_multiple_of(extent);
    same.then(|| Spelling::Block(BlockSpelling::simple(order, vec![Factor { extent, dim }])))
}

/// The order of the dimensions, if each is one dense piece. Dimensions of size 1 stand before the
/// first larger-numbered one.
fn whole_order(shape: &[u64], pieces: &[Piece]) -> Option<Vec<usize>> {
    let whole = |piece: &Piece| {
        piece.div == 1 && piece.count == piece.extent && piece.count == shape[piece.dim]
    };
    if !pieces.iter().all(whole) {
        return None;
    }
    Some(with_units(
        shape,
        pieces.iter().map(|piece| piece.dim).collect(),
    ))
}

/// Adds the dimensions that `order` lacks, each before the first larger-numbered one.
fn with_units(shape: &[u64], mut order: Vec<usize>) -> Vec<usize> {
    for dim in 0..shape.len() {
        if !order.contains(&dim) {
            let place = order
                .iter()
                .position(|&other| dim < other)
                .unwrap_or(order.len());
            order.insert(place, dim);
        }
    }
    order
}

fn block(layout: &Layout) -> Result<BlockSpelling, LayoutError> {
    let shape = layout.shape();
    if layout.elements() == 0 {
        return Ok(BlockSpelling::simple(
            (0..shape.len()).collect(),
            Vec::new(),
        ));
    }
    let pieces = layout
        .pieces()
        .ok_or_else(|| refuse(Notation::Block, no_pieces(layout)))?;
    if let Some(order) = whole_order(shape, &pieces) {
        return Ok(BlockSpelling::simple(order, Vec::new()));
    }
    let found = (0..=pieces.len())
        .rev()
        .find_map(|grid| block_at(shape, &pieces, grid));
    found.ok_or_else(|| {
        refuse(
            Notation::Block,
            "its digits are not a grid of dimensions around one block each",
        )
    })
}

/// The block of a layout that is written as tiles in tiles, as a block in a block where it is one.
fn as_tiled(layout: &Layout, block: BlockSpelling) -> Spelling {
    let tiles = match layout.spelling() {
        Spelling::Xla(xla) => xla.tiles.len(),
        _ => 0,
    };
    let nested = (1 < tiles).then(|| nested(&block)).flatten();
    let means_it = |spelling: &Spelling| {
        let again = Layout::new(spelling.clone(), layout.shape(), layout.storage().type_bits);
        again.is_ok_and(|again| again.same_function(layout))
    };
    match nested.map(Spelling::Block).filter(means_it) {
        Some(nested) => nested,
        None => Spelling::Block(block),
    }
}

/// `4H128W2H` as `8H128W|2H1W`: each dimension once a level, and in both.
fn nested(block: &BlockSpelling) -> Option<BlockSpelling> {
    let [factors] = &block.levels[..] else {
        return None;
    };
    let repeats = |(i, factor): (usize, &Factor)| factors[..i].iter().any(|f| f.dim == factor.dim);
    let cut = factors.iter().enumerate().position(repeats)?;
    let (outer, inner) = factors.split_at(cut);
    let named = |factor: &Factor| outer.iter().any(|f| f.dim == factor.dim);
    if !inner.iter().all(named) {
        return None;
    }
    let inside = |dim: usize| inner.iter().find(|f| f.dim == dim).map_or(1, |f| f.extent);
    let whole = |factor: &Factor| {
        let extent = factor.extent.checked_mul(inside(factor.dim))?;
        Some(Factor { extent, ..*factor })
    };
    let units = outer
        .iter()
        .filter(|f| inner.iter().all(|g| g.dim != f.dim));
    let units = units.map(|f| Factor { extent: 1, ..*f });
    let levels = vec![
        outer.iter().map(whole).collect::<Option<_>>()?,
        inner.iter().copied().chain(units).collect(),
    ];
    Some(BlockSpelling {
        levels,
        ..block.clone()
    })
}

/// Why a layout has no pieces.
fn no_pieces(layout: &Layout) -> &'static str {
    if layout.function().order.is_some() {
        "it cuts across merged dimensions"
    } else if layout.function().offset != 0 {
        "element 0 does not lie at offset 0"
    } else {
        "its dimensions are not cut into digits that fill the buffer"
    }
}

/// A block spelling whose grid is the first `grid` pieces.
fn block_at(shape: &[u64], pieces: &[Piece], grid: usize) -> Option<BlockSpelling> {
    let (outer, inner) = pieces.split_at(grid);
    let mut size = vec![1u64; shape.len()];
    for piece in inner.iter().rev() {
        // Inside the block a dimension's digits follow one another, leftmost most significant.
        if piece.div != size[piece.dim] {
            return None;
        }
        size[piece.dim] = piece.div.checked_mul(piece.extent)?;
    }
    let mut order = Vec::with_capacity(shape.len());
    for piece in outer {
        let blocks = shape[piece.dim].div_ceil(size[piece.dim]);
        if order.contains(&piece.dim) || piece.div != size[piece.dim] || piece.extent != blocks {
            return None;
        }
        order.push(piece.dim);
    }
    let covered = |dim: usize| order.contains(&dim) || shape[dim] <= size[dim];
    if !(0..shape.len()).all(covered) {
        return None;
    }
    let factor = |piece: &Piece| Factor {
        extent: piece.extent,
        dim: piece.dim,
    };
    let factors = inner.iter().map(factor).collect();
    Some(BlockSpelling::simple(with_units(shape, order), factors))
}

fn strided(layout: &Layout) -> Result<StridedSpelling, LayoutError> {
    let shape = layout.shape();
    let refuse = |reason| refuse(Notation::Strided, reason);
    let function = layout.function();
    if function.order.is_some() {
        return Err(refuse("it cuts across merged dimensions".to_owned()));
    }
    if layout.elements() == 0 {
        return Ok(StridedSpelling {
            strides: vec![1; shape.len()],
            offset: 0,
            size: None,
        });
    }
    let groups = independent_groups(&function.chain, shape);
    let mut strides = Vec::with_capacity(shape.len());
    let (mut inner, mut highest) = (1i64, i128::from(function.offset));
    for (dims, size, part) in groups.iter().rev() {
        let stride = match &**part {
            [] => inner,
            [cut] if dims.len() == 1 => cut.stride,
            _ => {
                let names: Vec<String> = dims.clone().map(|dim| format!("d{dim}")).collect();
                let names = names.join(" and ");
                return Err(refuse(format!(
                    "{names} is not one run with a constant stride"
                )));
            }
        };
        strides.extend(dims.clone().map(|_| stride));
        let last = i128::from(stride) * i128::from(size.saturating_sub(1));
        highest = highest.saturating_add(last.max(0));
        inner = stride.saturating_mul(i64::try_from(*size).unwrap_or(i64::MAX));
    }
    strides.reverse();
    strides.truncate(shape.len());
    let size = layout.positions();
    let dense = i128::from(size) == highest.saturating_add(1);
    let size = (!dense).then_some(size);
    Ok(StridedSpelling {
        strides,
        offset: function.offset,
        size,
    })
}

/// A digit of some group of dimensions, before it has its extent.
struct Loose {
    stride: u64,
    count: u64,
    dims: Vec<usize>,
    /// Sizes of the cuts outside this digit, outermost first.
    outside: Vec<u64>,
    div: u64,
}

impl Loose {
    /// The digit of the merged dimensions that is this one and then `minor`, if it is one run.
    fn merged(&self, minor: &Loose, shape: &[u64]) -> Option<Loose> {
        let sizes: Vec<u64> = minor.dims.iter().map(|&dim| shape[dim]).collect();
        let size = product(&sizes);
        let runs = self.div == 1
            && minor.outside.is_empty()
            && minor.count.checked_mul(minor.div) == Some(size)
            && minor.stride.checked_mul(minor.count) == Some(self.stride)
            && self.dims.iter().all(|dim| !minor.dims.contains(dim));
        let outside = self.outside.iter().map(|outside| outside.checked_mul(size));
        Some(Loose {
            stride: minor.stride,
            count: runs.then(|| self.count.checked_mul(minor.count))??,
            dims: [self.dims.as_slice(), &minor.dims].concat(),
            outside: outside.collect::<Option<_>>()?,
            div: minor.div,
        })
    }
}

fn digits(layout: &Layout) -> Result<DigitsSpelling, LayoutError> {
    let storage = layout.storage();
    let mut spelling = DigitsSpelling::new(Vec::new());
    spelling.space = storage.space;
    spelling.element_bits = (storage.bits != storage.type_bits).then_some(storage.bits);
    spelling.offset = layout.function().offset;
    if layout.elements() == 0 {
        let zero = |dim| DigitText {
            extent: layout.shape()[dim],
            dims: vec![dim],
            ops: vec![],
        };
        spelling.digits = (0..layout.rank()).map(zero).collect();
        spelling.offset = 0;
        return Ok(spelling);
    }
    let mut loose = loose_digits(layout)?;
    loose.sort_by_key(|digit| std::cmp::Reverse(digit.stride));
    let Some(top) = loose.first() else {
        unused(layout.positions(), &mut spelling.digits);
        return Ok(with_size(layout, spelling));
    };
    let fills = layout.positions().is_multiple_of(top.stride)
        && top.count <= layout.positions() / top.stride
        && spelling.offset == 0;
    let extent = if fills {
        layout.positions() / top.stride
    } else {
        top.count
    };
    let mut above = top.stride.saturating_mul(extent);
    let mut loose = loose.into_iter();
    while let Some(mut digit) = loose.next() {
        while !above.is_multiple_of(digit.stride) || above / digit.stride < digit.count {
            // Neighbours that count on without a gap may be padded together.
            let merged = loose
                .next()
                .and_then(|minor| digit.merged(&minor, layout.shape()));
            digit = merged
                .ok_or_else(|| refuse(Notation::Digits, "its strides do not divide one another"))?;
        }
        spelling
            .digits
            .push(digit_text(&digit, above / digit.stride));
        above = digit.stride;
    }
    if 1 < above {
        unused(above, &mut spelling.digits);
    }
    Ok(with_size(layout, spelling))
}

fn unused(extent: u64, digits: &mut Vec<DigitText>) {
    if 1 < extent {
        digits.push(DigitText {
            extent,
            dims: Vec::new(),
            ops: Vec::new(),
        });
    }
}

/// Adds the buffer's size where the digits do not give it.
fn with_size(layout: &Layout, mut spelling: DigitsSpelling) -> DigitsSpelling {
    let positions = layout.positions();
    let extents = spelling.digits.iter().map(|digit| u128::from(digit.extent));
    let product = extents.fold(1, u128::saturating_mul);
    if spelling.offset != 0 || u128::from(positions) < product {
        spelling.size = Some(positions);
    } else if product != u128::from(positions) {
        spelling.tail = positions;
    }
    spelling
}

/// The digits of all groups, strides positive.
fn loose_digits(layout: &Layout) -> Result<Vec<Loose>, LayoutError> {
    let function = layout.function();
    let dims = function.dims(layout.shape());
    let sizes: Vec<u64> = dims.iter().map(|&dim| layout.shape()[dim]).collect();
    let mut loose = Vec::new();
    for (range, size, part) in independent_groups(&function.chain, &sizes) {
        let mut outside = Vec::new();
        for Step { cut, count } in steps(&part, size) {
            let stride = u64::try_from(cut.stride).ok().filter(|&stride| 0 < stride);
            let reason = "elements share positions or run backwards";
            let stride = stride.ok_or_else(|| refuse(Notation::Digits, reason))?;
            let (dims, div) = (dims[range.clone()].to_vec(), cut.size);
            loose.push(Loose {
                stride,
                count,
                dims,
                outside: outside.clone(),
                div,
            });
            outside.push(cut.size);
        }
    }
    Ok(loose)
}

/// The text of a digit: only the remainders that the extent does not imply.
fn digit_text(digit: &Loose, extent: u64) -> DigitText {
    let mut rems: Vec<u64> = Vec::new();
    for &size in &digit.outside {
        while rems.last().is_some_and(|last| last.is_multiple_of(size)) {
            rems.pop();
        }
        rems.push(size);
    }
    if rems
        .last()
        .is_some_and(|&last| digit.div.checked_mul(extent) == Some(last))
    {
        rems.pop();
    }
    let mut ops: Vec<DigitOp> = rems.into_iter().map(DigitOp::Rem).collect();
    if 1 < digit.div {
        ops.push(DigitOp::Div(digit.div));
    }
    DigitText {
        extent,
        dims: digit.dims.clone(),
        ops,
    }
}

fn xla(layout: &Layout) -> Result<XlaSpelling, LayoutError> {
    tiles_of_blocks(layout).or_else(|error| match (combined(layout), digits(layout)) {
        (Some(xla), _) => Ok(xla),
        (None, Err(LayoutError::Inexpressible { reason, .. })) => {
            Err(refuse(Notation::Xla, reason))
        }
        (None, _) => Err(error),
    })
}

/// Tiles over merged dimensions, `*`, and a tail: what the blocks of a smaller layout leave out,
/// in which each merge is one dimension and the buffer ends with its last digit.
fn combined(layout: &Layout) -> Option<XlaSpelling> {
    let (shape, type_bits) = (layout.shape(), layout.storage().type_bits);
    let mut digits = digits(layout).ok()?;
    if digits.offset != 0 || digits.size.is_some() || layout.elements() == 0 {
        return None;
    }
    digits.tail = 1;
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for digit in digits.digits.iter().filter(|digit| !digit.dims.is_empty()) {
        if !groups.contains(&digit.dims) {
            groups.push(digit.dims.clone());
        }
    }
    let mut seen = vec![false; shape.len()];
    for &dim in groups.iter().flatten() {
        if std::mem::replace(seen.get_mut(dim)?, true) {
            return None;
        }
    }
    groups.extend(
        (0..shape.len())
            .filter(|&dim| !seen[dim])
            .map(|dim| vec![dim]),
    );
    groups.sort_unstable();
    for digit in &mut digits.digits {
        let group = groups.iter().position(|group| *group == digit.dims);
        digit.dims = group.into_iter().collect();
    }
    let merged: Option<Vec<u64>> = groups
        .iter()
        .map(|group| {
            group
                .iter()
                .try_fold(1u64, |n, &dim| n.checked_mul(shape[dim]))
        })
        .collect();
    let merged = merged?;
    let smaller = Layout::new(Spelling::Digits(digits.clone()), &merged, type_bits).ok()?;
    let mut xla = match tiles_of_blocks(&smaller) {
        Ok(xla) => xla,
        Err(_) => {
            let merges: Vec<bool> = groups.iter().map(|group| 1 < group.len()).collect();
            let (order, tiles) = sorting_tiles(&digits.digits, &merged, &merges)?;
            let untiled = XlaSpelling::untiled(order);
            stored(smaller.storage(), XlaSpelling { tiles, ..untiled })
        }
    };
    let order = std::mem::take(&mut xla.minor_to_major);
    if let Some(first) = xla.tiles.first_mut() {
        let ahead = first.len().saturating_sub(order.len());
        let mut entries = first[..ahead].to_vec();
        for (&entry, &group) in first[ahead..].iter().rev().zip(&order).rev() {
            entries.extend(vec![TileDim::Combined; groups[group].len() - 1]);
            entries.push(entry);
        }
        *first = entries;
    }
    let dims = order.iter().flat_map(|&group| groups[group].iter().rev());
    xla.minor_to_major = dims.copied().collect();
    xla.tail = tail_between(smaller.positions(), layout.positions())?;
    let found = Layout::new(Spelling::Xla(xla.clone()), shape, type_bits);
    found
        .is_ok_and(|found| found.same_function(layout))
        .then_some(xla)
}

/// The tiles with the element width and the memory space of a buffer.
pub(crate) fn stored(storage: Storage, mut xla: XlaSpelling) -> XlaSpelling {
    let whole = storage.type_bits.checked_next_multiple_of(8);
    let own = whole.unwrap_or(storage.type_bits) == storage.bits;
    xla.space = storage.space;
    xla.element_bits = if own { 0 } else { storage.bits };
    xla
}

/// Tiles longer than this are not written.
const LONGEST_TILE: usize = 64;

/// The most minor dimension first, and tiles that bring the digits of the dimensions of `shape` into
/// the order of `digits`; dimensions in `merges` are covered by the first tile.
///
/// A tile over all axes parts each in two: what it counts stays, in order, and its inside moves
/// behind everything that stays, in order. So a tile is one step of a radix sort: first each axis is
/// parted into digits, then the digits are sorted by the number of the rising run, read from left to
/// right again and again, in which they come next. A last tile pads those that have room.
fn sorting_tiles(
    digits: &[DigitText],
    shape: &[u64],
    merges: &[bool],
) -> Option<(Vec<usize>, Vec<Vec<TileDim>>)> {
    let div: Vec<u64> = digits
        .iter()
        .map(|digit| match digit.ops.last() {
            Some(DigitOp::Div(by)) => *by,
            _ => 1,
        })
        .collect();
    // What a digit and those below it in its dimension count: positions without elements count one.
    let mut domain = vec![1u64; digits.len()];
    let mut own: Vec<Vec<usize>> = vec![Vec::new(); shape.len()];
    let mut axes = Vec::new();
    for (place, digit) in digits.iter().enumerate() {
        match digit.dims.first() {
            Some(&dim) => own.get_mut(dim)?.push(place),
            None => axes.push(vec![place]),
        }
    }
    for (places, &size) in own.iter_mut().zip(shape) {
        places.sort_by_key(|&place| std::cmp::Reverse(div[place]));
        let mut rest = size;
        for &place in places.iter() {
            domain[place] = rest;
            rest = div[place];
        }
    }
    let mut major_to_minor: Vec<usize> = (0..own.len()).collect();
    major_to_minor.sort_by_key(|&dim| own[dim].last().copied());
    let order = major_to_minor.iter().rev().copied().collect();
    // A tile longer than the rank makes axes of one element.
    let mut must = vec![true; axes.len()];
    must.extend(major_to_minor.iter().map(|&dim| merges[dim]));
    axes.extend(major_to_minor.iter().map(|&dim| own[dim].clone()));

    let mut padded = false;
    let mut tiles: Vec<Vec<TileDim>> = Vec::new();
    loop {
        let mut moving: Vec<usize> = axes
            .iter()
            .map(|axis| axis.len().saturating_sub(1))
            .collect();
        if moving.iter().all(|&n| n == 0) {
            moving = next_run(&axes, tiles.len())?;
        }
        let mut room = false;
        if moving.iter().all(|&n| n == 0) {
            let has_room = |axis: &Vec<usize>| {
                let wider =
                    |&place: &usize| domain[place].div_ceil(div[place]) != digits[place].extent;
                axis.first().is_some_and(wider)
            };
            let Some(first) = axes.iter().position(has_room).filter(|_| !padded) else {
                return Some((order, tiles));
            };
            room = true;
            padded = true;
            for (axis, n) in axes.iter().zip(&mut moving).skip(first) {
                *n = axis.len();
            }
        }
        let first = (0..axes.len()).find(|&i| 0 < moving[i] || must.get(i) == Some(&true))?;
        must.clear();
        if LONGEST_TILE < axes.len() - first {
            return None;
        }
        let (mut tile, mut inside) = (Vec::new(), Vec::new());
        for (axis, &n) in axes[first..].iter_mut().zip(&moving[first..]) {
            let moved = axis.split_off(axis.len() - n);
            let size = match moved[..] {
                [] => 1,
                [place] if room => digits[place].extent,
                [top, .., bottom] => domain[top].div_ceil(div[bottom]),
                [place] => domain[place].div_ceil(div[place]),
            };
            tile.push(TileDim::Size(size));
            inside.push(moved);
        }
        tiles.push(tile);
        axes.extend(inside);
    }
}

/// How many digits of each axis, none or its only one, move in the next step of the sort: those
/// whose run has the lowest bit that still parts any.
fn next_run(axes: &[Vec<usize>], steps: usize) -> Option<Vec<usize>> {
    let now: Vec<usize> = axes.iter().flatten().copied().collect();
    let mut at = vec![0; now.len()];
    for (i, &place) in now.iter().enumerate() {
        *at.get_mut(place)? = i;
    }
    let mut run = vec![0usize; now.len()];
    for place in 1..at.len() {
        run[place] = run[place - 1] + usize::from(at[place] < at[place - 1]);
    }
    // Each step halves the runs, so that this ends; the count is a guard alone.
    let sorted = run.last().is_none_or(|&last| last == 0);
    if !sorted && LONGEST_TILE < steps {
        return None;
    }
    let moves = |axis: &Vec<usize>| axis.first().map_or(0, |&place| run[place] & 1);
    Some(axes.iter().map(moves).collect())
}

/// An alignment that pads a buffer of `least` positions to `whole`: the smallest, where it is near.
fn tail_between(least: u64, whole: u64) -> Option<u64> {
    let gap = whole.checked_sub(least)?;
    if gap == 0 {
        return Some(1);
    }
    let near = (gap + 1..=gap.saturating_add(MOST_TAILS)).find(|tail| whole.is_multiple_of(*tail));
    Some(near.unwrap_or(whole))
}

/// Alignments that are tried before the whole buffer is taken.
const MOST_TAILS: u64 = 1024;

fn tiles_of_blocks(layout: &Layout) -> Result<XlaSpelling, LayoutError> {
    let refuse = |reason: &str| refuse(Notation::Xla, reason);
    let storage = layout.storage();
    let attributes = |xla: XlaSpelling| stored(layout.storage(), xla);
    let reversed = |order: &[usize]| order.iter().rev().copied().collect::<Vec<_>>();
    if layout.elements() == 0 {
        let order: Vec<usize> = (0..layout.rank()).collect();
        return Ok(attributes(XlaSpelling::untiled(reversed(&order))));
    }
    if layout.rank() == 0 && layout.function().offset == 0 {
        let mut xla = attributes(XlaSpelling::untiled(Vec::new()));
        if layout.positions() != 1 {
            xla.tiles.push(vec![TileDim::Size(layout.positions())]);
        }
        return Ok(xla);
    }
    let owned;
    let block = match layout.spelling() {
        Spelling::Block(block) => block,
        _ => {
            owned = block(layout).map_err(|error| match error {
                LayoutError::Inexpressible { reason, .. } => refuse(&reason),
                other => other,
            })?;
            &owned
        }
    };
    let tiled = |order: &[usize], levels: &[Vec<Factor>]| {
        let minor_to_major = reversed(order);
        attributes(XlaSpelling {
            tiles: tiles(order, levels),
            ..XlaSpelling::untiled(minor_to_major)
        })
    };
    let (shape, rank) = (layout.shape(), layout.rank());
    let candidates = [
        Some(tiled(&block.order, &block.levels)),
        levels_of_runs(block).map(|(order, levels)| tiled(&order, &levels)),
        grid_after_block(shape, block).map(|(order, levels)| tiled(&order, &levels)),
    ];
    let means_it = |xla: &XlaSpelling| {
        let found = Layout::new(Spelling::Xla(xla.clone()), shape, storage.type_bits);
        rank == xla.minor_to_major.len() && found.is_ok_and(|found| found.same_function(layout))
    };
    let found = candidates.into_iter().flatten().find(means_it);
    found.ok_or_else(|| refuse("the inside of its blocks does not follow the order of the grid"))
}

/// Tiles over the most minor dimensions of `order` that hold every factor of the levels.
fn tiles(order: &[usize], levels: &[Vec<Factor>]) -> Vec<Vec<TileDim>> {
    let named = |dim: &usize| levels.iter().flatten().any(|factor| factor.dim == *dim);
    let first = order.iter().position(named).unwrap_or(order.len());
    let tile = |level: &Vec<Factor>| {
        let size = |&dim: &usize| {
            let own = level.iter().filter(|factor| factor.dim == dim);
            TileDim::Size(own.map(|factor| factor.extent).fold(1, u64::saturating_mul))
        };
        order[first..].iter().map(size).collect::<Vec<_>>()
    };
    levels
        .iter()
        .map(tile)
        .filter(|tile| !tile.is_empty())
        .collect()
}

/// One level with repeated dimensions as several without: `4H128W2H` is `8H128W|2H`.
fn levels_of_runs(block: &BlockSpelling) -> Option<(Vec<usize>, Vec<Vec<Factor>>)> {
    let [level] = block.levels.as_slice() else {
        return None;
    };
    let place = |dim: usize| block.order.iter().position(|&other| other == dim);
    let mut runs: Vec<Vec<Factor>> = Vec::new();
    for &factor in level {
        match runs.last_mut() {
            Some(run)
                if run
                    .last()
                    .is_some_and(|last| place(last.dim) < place(factor.dim)) =>
            {
                run.push(factor);
            }
            _ => runs.push(vec![factor]),
        }
    }
    for i in (1..runs.len()).rev() {
        for j in 0..runs[i].len() {
            let Factor { extent, dim } = runs[i][j];
            match runs[i - 1].iter_mut().find(|factor| factor.dim == dim) {
                Some(outer) => outer.extent = outer.extent.checked_mul(extent)?,
                None => runs[i - 1].push(Factor { extent, dim }),
            }
        }
    }
    Some((block.order.clone(), runs))
}

/// Dimensions that lie whole in the block take their place in the order from the block.
fn grid_after_block(
    shape: &[u64],
    block: &BlockSpelling,
) -> Option<(Vec<usize>, Vec<Vec<Factor>>)> {
    let [level] = block.levels.as_slice() else {
        return None;
    };
    let whole = |dim: usize| {
        let own = level.iter().filter(|factor| factor.dim == dim);
        shape[dim] <= own.map(|factor| factor.extent).fold(1, u64::saturating_mul)
    };
    let mut order: Vec<usize> = block
        .order
        .iter()
        .copied()
        .filter(|&dim| !whole(dim))
        .collect();
    let mut from_block = Vec::new();
    for factor in level {
        if whole(factor.dim) && !from_block.contains(&factor.dim) {
            from_block.push(factor.dim);
        }
    }
    let others = |dim: &usize| !order.contains(dim) && !from_block.contains(dim);
    let mut head: Vec<usize> = (0..shape.len()).filter(others).collect();
    head.append(&mut order);
    head.extend(from_block);
    let renamed = BlockSpelling {
        order: head,
        ..block.clone()
    };
    levels_of_runs(&renamed)
}
