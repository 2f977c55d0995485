//! The digits notation: `32:d0 4:d0/32`, which can write any layout that is a chain. `*:d0` and `*:d0/16` have one
//! position per value, whatever the size of the dimension.
//!
//! For example, `32:d0 4:d0/32` for a tensor of 128 elements places element `i` at position `(i % 32) * 4 + i / 32`.

use crate::build::element_count;
use crate::chain::{self, Chain, CountedCut, Cut, ceil_div, normalize, split, steps};
use crate::dims::product;
use crate::error::LayoutError;
use crate::function::{Function, independent_groups};
use crate::map::Renaming;
use crate::notation::fields::{Field, Fields, syntax};
use crate::notation::scan::Scan;
use crate::notation::written::{Hints, Notate, Rules, Written};
use crate::placement::{Placement, Storage};

/// The digits notation, checked against a rank but not against a shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DigitsNotation {
    /// Digits, major to minor.
    pub(crate) digits: Vec<DigitText>,
    /// The buffer is padded to a multiple of this many elements.
    pub(crate) tail: u64,
    /// Memory space.
    pub(crate) space: u32,
    /// Bits of an element, if they differ from the type's own.
    pub(crate) element_bits: Option<u32>,
    /// Offset of element 0 in elements.
    pub(crate) offset: u64,
    /// Positions of the buffer, if they do not follow from the digits and the tail.
    pub(crate) size: Option<u64>,
}

/// One digit: `extent` positions of `(dims)` through `ops`, or unused positions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DigitText {
    /// The number of positions; 0 for `*`.
    pub(crate) extent: u64,
    /// True for `*`: the number of positions is the number of values.
    pub(crate) whole: bool,
    /// The dimension or the merged dimensions, major to minor; empty for unused positions.
    pub(crate) dims: Vec<usize>,
    /// Divisions and remainders, in the order of application.
    pub(crate) ops: Vec<DigitOp>,
}

/// One operation of a digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DigitOp {
    /// `/n`
    Div(u64),
    /// `%n`
    Rem(u64),
}

impl std::fmt::Display for DigitText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<String> = self.dims.iter().map(|dim| format!("d{dim}")).collect();
        match self.whole {
            true => write!(f, "*:")?,
            false => write!(f, "{}:", self.extent)?,
        }
        match names.as_slice() {
            [] => write!(f, "_")?,
            [name] => write!(f, "{name}")?,
            names => write!(f, "({})", names.join("*"))?,
        }
        for op in &self.ops {
            match op {
                DigitOp::Div(by) => write!(f, "/{by}")?,
                DigitOp::Rem(by) => write!(f, "%{by}")?,
            }
        }
        Ok(())
    }
}

impl DigitsNotation {
    pub(crate) fn new(digits: Vec<DigitText>) -> Self {
        Self {
            digits,
            tail: 1,
            space: 0,
            element_bits: None,
            offset: 0,
            size: None,
        }
    }

    /// The text of the `digits` key.
    #[must_use]
    pub fn text(&self) -> String {
        self.digits
            .iter()
            .map(DigitText::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The digits of a placement's chain. If several digits merge the same dimensions, the text may denote another
    /// function.
    ///
    /// # Errors
    /// [`LayoutError::Inexpressible`] with the reason.
    pub(crate) fn of_chain(placement: &Placement) -> Result<Self, LayoutError> {
        let storage = placement.storage();
        let mut notation = Self::new(Vec::new());
        notation.space = storage.space;
        notation.element_bits = (storage.bits != storage.type_bits).then_some(storage.bits);
        notation.offset = placement.function().offset;
        if placement.elements() == 0 {
            let zero = |dim| DigitText {
                extent: placement.shape()[dim],
                whole: false,
                dims: vec![dim],
                ops: vec![],
            };
            notation.digits = (0..placement.rank()).map(zero).collect();
            notation.offset = 0;
            return Ok(notation);
        }
        let mut loose = loose_digits(placement)?;
        loose.sort_by_key(|digit| std::cmp::Reverse(digit.stride));
        let Some(top) = loose.first() else {
            unused(placement.positions(), &mut notation.digits);
            return Ok(with_size(placement, notation));
        };
        let fills = placement.positions().is_multiple_of(top.stride)
            && top.count <= placement.positions() / top.stride
            && notation.offset == 0;
        let extent = if fills {
            placement.positions() / top.stride
        } else {
            top.count
        };
        let mut above = top.stride.saturating_mul(extent);
        let mut loose = loose.into_iter();
        while let Some(mut digit) = loose.next() {
            while !above.is_multiple_of(digit.stride) || above / digit.stride < digit.count {
                // Adjacent digits that form one linear run may be padded together.
                let merged = loose
                    .next()
                    .and_then(|minor| digit.merged(&minor, placement.shape()));
                digit =
                    merged.ok_or_else(|| Self::refuse("its strides do not divide one another"))?;
            }
            notation
                .digits
                .push(digit_text(&digit, above / digit.stride));
            above = digit.stride;
        }
        if 1 < above {
            unused(above, &mut notation.digits);
        }
        Ok(with_size(placement, notation))
    }

    /// Writes `*` for the positions of each digit with the whole rest of its dimensions, if `replaced` accepts their
    /// number.
    pub(crate) fn with_whole(mut self, shape: &[u64], replaced: &dyn Fn(u64) -> bool) -> Self {
        for digit in &mut self.digits {
            let all = digit.whole_extent(shape) == Some(digit.extent);
            if all && !digit.dims.is_empty() && replaced(digit.extent) {
                (digit.extent, digit.whole) = (0, true);
            }
        }
        self
    }

    /// Replaces each `*` by its number of positions.
    fn sized(&self, shape: &[u64]) -> Result<Self, LayoutError> {
        let mut sized = self.clone();
        for digit in sized.digits.iter_mut().filter(|digit| digit.whole) {
            let overflow = || LayoutError::overflow(shape);
            let extent = digit.whole_extent(shape).ok_or_else(overflow)?;
            (digit.extent, digit.whole) = (extent, false);
        }
        Ok(sized)
    }

    /// The order of dimensions that the merges follow, major to minor.
    fn chain_order(&self, rank: usize) -> Result<Vec<usize>, LayoutError> {
        let mut groups: Vec<Vec<usize>> = (0..rank).map(|dim| vec![dim]).collect();
        for digit in &self.digits {
            for pair in digit.dims.windows(2) {
                join(&mut groups, pair[0], pair[1]).ok_or_else(|| LayoutError::MergeConflict {
                    merge: digit.to_string(),
                })?;
            }
        }
        groups.sort_by_key(|group| group.iter().min().copied());
        Ok(groups.concat())
    }

    /// Positions over [`Self::chain_order`], and the buffer's size.
    fn build(&self, shape: &[u64]) -> Result<(Chain, u64), LayoutError> {
        let overflow = || LayoutError::overflow(shape);
        let order = self.chain_order(shape.len())?;
        let elements = element_count(shape).ok_or_else(overflow)?;
        let mut positions = 1u64;
        let mut parts = Vec::with_capacity(self.digits.len());
        for (text, digit) in self.digits.iter().enumerate().rev() {
            if digit.extent == 0 && elements != 0 {
                let (key, wanted) = ("digits".to_owned(), "1 or more positions a digit");
                return Err(LayoutError::FieldRange {
                    key,
                    found: 0,
                    wanted,
                });
            }
            if !digit.dims.is_empty() {
                let chain = digit.chain(shape, &order, elements).ok_or_else(overflow)?;
                parts.push(DigitChain {
                    text,
                    stride: positions as i64,
                    chain,
                });
            }
            positions = positions.checked_mul(digit.extent).ok_or_else(overflow)?;
            i64::try_from(positions).map_err(|_| overflow())?;
        }
        let chain = self.cover(parts, shape, &order, elements)?;
        let padded = positions
            .checked_next_multiple_of(self.tail)
            .ok_or_else(overflow)?;
        i64::try_from(padded).map_err(|_| overflow())?;
        Ok((chain, padded))
    }

    /// Removes the most significant digit repeatedly until nothing is left.
    fn cover(
        &self,
        mut parts: Vec<DigitChain>,
        shape: &[u64],
        order: &[usize],
        elements: u64,
    ) -> Result<Chain, LayoutError> {
        let mut chain = Chain::new();
        let mut domain = elements;
        while 1 < domain {
            let top = parts.iter().position(|part| part.is_top());
            let Some(top) = top else {
                let part = missing_part(shape, order, domain);
                return Err(LayoutError::MissingDigit { part });
            };
            let top = parts.swap_remove(top);
            let size = top.chain[0].size;
            chain.push(Cut {
                size,
                stride: top.stride,
            });
            for part in &mut parts {
                let rest = split(&part.chain, domain, size).filter(|(outer, _)| is_zero(outer));
                let (_, inner) = rest.ok_or_else(|| self.overlap(part.text, top.text))?;
                part.chain = inner;
            }
            domain = size;
        }
        Ok(normalize(chain.iter().copied(), elements))
    }

    fn overlap(&self, digit: usize, other: usize) -> LayoutError {
        let (digit, other) = (
            self.digits[digit].to_string(),
            self.digits[other].to_string(),
        );
        LayoutError::OverlappingDigits { digit, other }
    }
}

impl Written for DigitsNotation {
    fn fields(&self) -> Vec<(&'static str, Field)> {
        let mut fields = vec![("digits", Field::Str(self.text()))];
        let mut put = |key, value: u64, default: u64| {
            if value != default {
                fields.push((key, Field::Int(value as i64)));
            }
        };
        put("ebits", self.element_bits.map_or(0, u64::from), 0);
        put("offset", self.offset, 0);
        put("size", self.size.unwrap_or(u64::MAX), u64::MAX);
        put("space", u64::from(self.space), 0);
        put("tail", self.tail, 1);
        fields
    }

    fn function(&self, shape: &[u64], storage: &mut Storage) -> Result<Function, LayoutError> {
        let rank = shape.len();
        let mut dims = self.digits.iter().flat_map(|digit| &digit.dims);
        if let Some(&dim) = dims.find(|&&dim| rank <= dim) {
            let (key, found) = ("digits", dim + 1);
            return Err(LayoutError::RankMismatch { key, found, rank });
        }
        let elements = product(shape);
        let (chain, padded) = match self.digits.iter().any(|digit| digit.whole) {
            true => self.sized(shape)?.build(shape)?,
            false => self.build(shape)?,
        };
        let order = self.chain_order(shape.len())?;
        let highest = self.offset.saturating_add(chain::highest(&chain, elements));
        let needed = if self.offset == 0 {
            padded
        } else {
            highest.saturating_add(1)
        };
        storage.positions = self.size.unwrap_or(needed);
        if elements != 0 && storage.positions <= highest || i64::try_from(needed).is_err() {
            let (low, high) = (i128::from(self.offset), i128::from(highest));
            return Err(LayoutError::OutOfBuffer {
                low,
                high,
                size: storage.positions,
            });
        }
        Ok(Function::new(&order, chain, shape, self.offset))
    }

    fn space(&self) -> u32 {
        self.space
    }

    fn element_bits(&self, type_bits: u32) -> u32 {
        self.element_bits.unwrap_or(type_bits)
    }
}

impl Notate for DigitsNotation {
    const RULES: Rules = Rules {
        name: "digits",
        summary: "Physical digits, the notation that writes every layout",
        own: &["digits"],
        others: &["ebits", "offset", "size", "space", "tail"],
        wanted: "beside `digits` only ebits, offset, size, space, tail",
        choice: 1,
        says_storage: true,
    };

    fn from_fields(fields: &Fields<'_>, rank: usize) -> Result<Self, LayoutError> {
        let text = fields.text("digits")?.unwrap_or_default();
        let small = |key: &str, least| -> Result<Option<u32>, LayoutError> {
            let Some(value) = fields.natural(key, least)? else {
                return Ok(None);
            };
            let wanted = "a number below 2^32";
            let found = value as i64;
            let range = |_| LayoutError::FieldRange {
                key: key.to_owned(),
                found,
                wanted,
            };
            u32::try_from(value).map(Some).map_err(range)
        };
        Ok(Self {
            digits: Reader {
                scan: Scan::new(text),
                rank,
            }
            .digits()?,
            tail: fields.natural("tail", 1)?.unwrap_or(1),
            space: small("space", 0)?.unwrap_or(0),
            element_bits: small("ebits", 1)?,
            offset: fields.natural("offset", 0)?.unwrap_or(0),
            size: fields.natural("size", 0)?,
        })
    }

    /// The digits of a function. Fails if other merges claim the merged dimensions.
    fn of(placement: &Placement, _hints: &Hints<'_>) -> Result<Self, LayoutError> {
        let digits = Self::of_chain(placement)?;
        if digits.digits.iter().any(|digit| 1 < digit.dims.len()) {
            let again = digits.place(placement.shape(), placement.storage().type_bits);
            if !again.is_ok_and(|again| again.same_function(placement)) {
                let reason = "it cuts across merges of dimensions that overlap";
                return Err(Self::refuse(reason));
            }
        }
        Ok(digits)
    }

    fn transposed(&self, renaming: &Renaming<'_>) -> Option<Self> {
        let mut digits = self.clone();
        for digit in &mut digits.digits {
            digit.dims = renaming.all(&digit.dims);
        }
        Some(digits)
    }
}

/// A digit as a function of the element's number, with the stride of its steps.
struct DigitChain {
    text: usize,
    stride: i64,
    chain: Chain,
}

impl DigitChain {
    /// Returns whether the digit is `k / a`, the most significant part of the domain.
    fn is_top(&self) -> bool {
        matches!(
            self.chain[..],
            [Cut { size: 1, stride: 1 }] | [Cut { stride: 1, .. }, Cut { size: 1, stride: 0 }]
        )
    }
}

fn is_zero(chain: &[Cut]) -> bool {
    chain.iter().all(|cut| cut.stride == 0)
}

/// Makes `b` follow `a` in one group.
fn join(groups: &mut Vec<Vec<usize>>, a: usize, b: usize) -> Option<()> {
    let find = |groups: &[Vec<usize>], dim| groups.iter().position(|group| group.contains(&dim));
    let (i, j) = (find(groups, a)?, find(groups, b)?);
    if i == j {
        let place = groups[i].iter().position(|&dim| dim == a)?;
        return (groups[i].get(place + 1) == Some(&b)).then_some(());
    }
    if groups[i].last() != Some(&a) || groups[j].first() != Some(&b) {
        return None;
    }
    let tail = std::mem::take(&mut groups[j]);
    groups[i].extend(tail);
    groups.remove(j);
    Some(())
}

/// The dimensions whose indices below `domain` no digit holds, in words for the error.
fn missing_part(shape: &[u64], order: &[usize], domain: u64) -> String {
    let mut size = 1u64;
    for &dim in order.iter().rev() {
        let inner = size;
        size = size.saturating_mul(shape[dim]);
        if inner < domain && domain <= size {
            let values = ceil_div(domain, inner);
            return format!("values 0 to {} of d{dim}", values - 1);
        }
    }
    "the whole index".to_owned()
}

impl DigitText {
    /// The number of values if no higher part is left out: the size of the digit's dimensions after its divisions and
    /// remainders. `None` above 2^64.
    fn whole_extent(&self, shape: &[u64]) -> Option<u64> {
        let mut sizes = self.dims.iter().map(|&dim| shape.get(dim).copied());
        let size = sizes.try_fold(1u64, |product, size| product.checked_mul(size?))?;
        Some(self.ops.iter().fold(size, |left, op| match op {
            DigitOp::Div(by) => left.div_ceil(*by),
            DigitOp::Rem(by) => left.min(*by),
        }))
    }

    /// The digit's value as a chain over the row-major number in this order.
    fn chain(&self, shape: &[u64], order: &[usize], elements: u64) -> Option<Chain> {
        if elements == 0 {
            return Some(Chain::new());
        }
        let last = order.iter().position(|dim| Some(dim) == self.dims.last())?;
        let first = order
            .iter()
            .position(|dim| Some(dim) == self.dims.first())?;
        let product = |dims: &[usize]| dims.iter().map(|&dim| shape[dim]).product::<u64>();
        // The value so far is `(k % modulus) / size`, on the domain that `zeros` leave.
        let mut size = product(&order[last + 1..]);
        let mut zeros = vec![size * product(&order[first..=last])];
        for &op in self.ops.iter().chain([&DigitOp::Rem(self.extent)]) {
            match op {
                DigitOp::Div(by) => size = size.saturating_mul(by),
                DigitOp::Rem(by) => zeros.push(size.saturating_mul(by)),
            }
        }
        let cuts = zeros.into_iter().map(|size| Cut { size, stride: 0 });
        let value = [Cut { size, stride: 1 }, Cut { size: 1, stride: 0 }];
        Some(normalize(cuts.chain(value), elements))
    }
}

struct Reader<'a> {
    scan: Scan<'a>,
    rank: usize,
}

impl Reader<'_> {
    fn digits(mut self) -> Result<Vec<DigitText>, LayoutError> {
        let mut digits = Vec::new();
        self.scan.skip_spaces();
        while self.scan.peek().is_some() {
            digits.push(self.digit()?);
            match self.scan.peek() {
                None => {}
                Some(' ') => self.scan.skip_spaces(),
                Some(_) => return Err(self.error("a space, `/`, `%` or the end")),
            }
        }
        Ok(digits)
    }

    fn digit(&mut self) -> Result<DigitText, LayoutError> {
        let whole = self.scan.eat('*');
        let extent = if whole { 0 } else { self.number()? };
        self.expect(':')?;
        if !whole && self.scan.eat('_') {
            return Ok(DigitText {
                extent,
                whole,
                dims: Vec::new(),
                ops: Vec::new(),
            });
        }
        let dims = if self.scan.eat('(') {
            self.merge()?
        } else {
            vec![self.dim()?]
        };
        let mut ops = Vec::new();
        loop {
            if self.scan.eat('/') {
                ops.push(DigitOp::Div(self.positive()?));
            } else if self.scan.eat('%') {
                ops.push(DigitOp::Rem(self.positive()?));
            } else {
                return Ok(DigitText {
                    extent,
                    whole,
                    dims,
                    ops,
                });
            }
        }
    }

    fn merge(&mut self) -> Result<Vec<usize>, LayoutError> {
        let mut dims = vec![self.dim()?];
        while self.scan.eat('*') {
            let start = self.scan.at;
            let dim = self.dim()?;
            if dims.contains(&dim) {
                self.scan.at = start;
                return Err(self.error("a dimension that the merge does not have yet"));
            }
            dims.push(dim);
        }
        self.expect(')')?;
        Ok(dims)
    }

    fn dim(&mut self) -> Result<usize, LayoutError> {
        let start = self.scan.at;
        self.expect('d')?;
        let dim = usize::try_from(self.number()?)
            .ok()
            .filter(|&dim| dim < self.rank);
        dim.ok_or_else(|| {
            self.scan.at = start;
            self.error(&format!("a dimension below d{}", self.rank))
        })
    }

    fn positive(&mut self) -> Result<u64, LayoutError> {
        let start = self.scan.at;
        match self.number()? {
            0 => {
                self.scan.at = start;
                Err(self.error("a number of 1 or more"))
            }
            value => Ok(value),
        }
    }

    fn number(&mut self) -> Result<u64, LayoutError> {
        let number = self.scan.number();
        number.ok_or_else(|| self.error("a number below 2^63"))
    }

    fn expect(&mut self, wanted: char) -> Result<(), LayoutError> {
        if self.scan.eat(wanted) {
            Ok(())
        } else {
            Err(self.error(&format!("`{wanted}`")))
        }
    }

    fn error(&self, wanted: &str) -> LayoutError {
        syntax("digits", self.scan.text, self.scan.at, wanted)
    }
}

/// A digit of a group of dimensions before its extent is known.
struct Loose {
    stride: u64,
    count: u64,
    dims: Vec<usize>,
    /// Sizes of the cuts outside this digit, outermost first.
    outside: Vec<u64>,
    div: u64,
}

impl Loose {
    /// The merge of this digit with the more minor one `minor`; `None` unless they are one run.
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

fn unused(extent: u64, digits: &mut Vec<DigitText>) {
    if 1 < extent {
        digits.push(DigitText {
            extent,
            whole: false,
            dims: Vec::new(),
            ops: Vec::new(),
        });
    }
}

/// Adds the buffer's size if it does not follow from the digits.
fn with_size(placement: &Placement, mut notation: DigitsNotation) -> DigitsNotation {
    let positions = placement.positions();
    let extents = notation.digits.iter().map(|digit| u128::from(digit.extent));
    let product = extents.fold(1, u128::saturating_mul);
    if notation.offset != 0 || u128::from(positions) < product {
        notation.size = Some(positions);
    } else if product != u128::from(positions) {
        notation.tail = positions;
    }
    notation
}

/// The digits of all groups, strides positive.
fn loose_digits(placement: &Placement) -> Result<Vec<Loose>, LayoutError> {
    let function = placement.function();
    let dims = function.dims(placement.shape());
    let sizes: Vec<u64> = dims.iter().map(|&dim| placement.shape()[dim]).collect();
    let mut loose = Vec::new();
    for (range, size, part) in independent_groups(&function.chain, &sizes) {
        let mut outside = Vec::new();
        for CountedCut { cut, count } in steps(&part, size) {
            let stride = u64::try_from(cut.stride).ok().filter(|&stride| 0 < stride);
            let reason = "elements share positions or run backwards";
            let stride = stride.ok_or_else(|| DigitsNotation::refuse(reason))?;
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

/// The text of a digit, with only the remainders that the extent does not imply.
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
        whole: false,
        dims: digit.dims.clone(),
        ops,
    }
}
