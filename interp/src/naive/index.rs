//! Index formulas of layouts, derived from the text of the encoding: the position of each element in the buffer.
//!
//! Every notation is worked off literally, element by element: pad each dimension, cut it into a pair (outer, inner),
//! move the pieces into their physical order, and number the result row-major. Nothing here is shared with the layout
//! algebra, so that an error there is not repeated here.
//!
//! For example, XLA's `{1,0:T(2,2)}` for a tensor of 3x5 pads it to 4x6, cuts it into (2, 2, 3, 2) and orders the
//! pieces as (2, 3, 2, 2). Element (2, 3) has the pieces (1, 1, 0, 1), and so position 17.

use super::error::IndexError;
use super::text::{Item, pairs};

/// The index formula of one layout and shape.
#[derive(Clone, Debug)]
pub struct Formula {
    layout: String,
    shape: Vec<u64>,
    rule: Rule,
    positions: u64,
    space: i64,
    element_bits: Option<i64>,
}

#[derive(Clone, Debug)]
enum Rule {
    RowMajor,
    Block {
        order: Vec<usize>,
        levels: Vec<Level>,
    },
    Strided {
        strides: Vec<i64>,
        offset: i64,
    },
    Digits(Vec<Digit>),
    Xla {
        minor_to_major: Vec<usize>,
        tiles: Vec<Vec<TileDim>>,
    },
}

/// One level of a block: factors, major to minor.
#[derive(Clone, Debug)]
struct Level {
    factors: Vec<(usize, u64)>,
    /// The order in which the sub-blocks of the next level follow one another, if written.
    order: Option<Vec<usize>>,
}

impl Level {
    /// The number of elements of a dimension that one block of this level holds.
    fn extent(&self, dim: usize) -> u64 {
        self.factors
            .iter()
            .filter(|f| f.0 == dim)
            .map(|f| f.1)
            .product()
    }

    fn names(&self, dim: usize) -> bool {
        self.factors.iter().any(|f| f.0 == dim)
    }
}

/// One physical digit, `n:G/a%b`.
#[derive(Clone, Debug)]
struct Digit {
    count: u64,
    /// The dimensions that are merged, outermost first; empty for unused positions.
    dims: Vec<usize>,
    /// `/a` and `%b`, from left to right.
    steps: Vec<(char, u64)>,
}

/// One entry of a tile.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TileDim {
    Size(u64),
    /// `*`: merged into the next more minor entry.
    Merge,
}

/// The pieces of one element in physical order, major to minor: (extent, coordinate).
type Pieces = Vec<(u64, u64)>;

type Problem = String;

impl Formula {
    /// The formula of an encoding's text for a tensor of this shape. An empty text is row-major.
    ///
    /// # Errors
    /// The text cannot be read or does not fit the shape.
    pub fn parse(layout: &str, shape: &[u64]) -> Result<Formula, IndexError> {
        let fail = |problem| IndexError::Meaning {
            layout: layout.to_owned(),
            problem,
        };
        let mut fields = pairs(layout)?;
        let space = number(&mut fields, "space").map_err(fail)?.unwrap_or(0);
        let element_bits = number(&mut fields, "ebits").map_err(fail)?;
        let tail = number(&mut fields, "tail").map_err(fail)?.unwrap_or(1);
        let mut formula = Formula {
            layout: layout.to_owned(),
            shape: shape.to_vec(),
            rule: Rule::RowMajor,
            positions: 0,
            space,
            element_bits,
        };
        let tail = u64::try_from(tail).ok().filter(|&t| t > 0);
        let mut tail = tail.ok_or_else(|| fail("`tail` wants a positive number".to_owned()))?;
        let mut size = None;
        formula.rule = formula
            .rule_of(fields, &mut tail, &mut size)
            .map_err(fail)?;
        formula.positions = formula.count(tail, size).map_err(fail)?;
        Ok(formula)
    }

    /// The number of positions of the buffer, in elements, padding included.
    #[must_use]
    pub fn positions(&self) -> u64 {
        self.positions
    }

    /// The memory space; 0 when none is written.
    #[must_use]
    pub fn space(&self) -> i64 {
        self.space
    }

    /// The number of bits of one element of a type of this width. The layout may state it; the default is whole bytes
    /// in XLA's notation, and the width in the others.
    #[must_use]
    pub fn element_bits(&self, type_bits: u32) -> i64 {
        let whole_bytes = matches!(self.rule, Rule::Xla { .. });
        let natural = match whole_bytes {
            true => type_bits.next_multiple_of(8),
            false => type_bits,
        };
        self.element_bits.unwrap_or(i64::from(natural))
    }

    /// Returns whether the layout is row-major by its text, without padding.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        matches!(self.rule, Rule::RowMajor) && self.elements() == self.positions
    }

    /// The position of the element with this logical index; `None` if there is no such element.
    #[must_use]
    pub fn index(&self, element: &[u64]) -> Option<u64> {
        if element.len() != self.shape.len() || element.iter().zip(&self.shape).any(|(e, n)| e >= n)
        {
            return None;
        }
        self.position(element, &mut Vec::new()).ok()
    }

    /// Calls `visit` with the row-major number and the position of every element, in order.
    ///
    /// # Errors
    /// An element lies outside the buffer.
    pub fn each(&self, mut visit: impl FnMut(u64, u64)) -> Result<(), IndexError> {
        let mut element = vec![0; self.shape.len()];
        let mut pieces = Vec::new();
        for number in 0..self.elements() {
            let position = self.position(&element, &mut pieces);
            let problem = match position {
                Ok(p) if p < self.positions => {
                    visit(number, p);
                    advance(&mut element, &self.shape);
                    continue;
                }
                Ok(p) => format!(
                    "element {element:?} lies at {p}, past the end {}",
                    self.positions
                ),
                Err(problem) => problem,
            };
            return Err(IndexError::Meaning {
                layout: self.layout.clone(),
                problem,
            });
        }
        Ok(())
    }

    fn elements(&self) -> u64 {
        self.shape.iter().fold(1u64, |a, &n| a.saturating_mul(n))
    }

    fn rule_of(
        &mut self,
        mut fields: Vec<(String, Item)>,
        tail: &mut u64,
        size: &mut Option<i64>,
    ) -> Result<Rule, Problem> {
        let has = |key: &str| fields.iter().any(|(k, _)| k == key);
        let rule = if has("digits") {
            digits_rule(
                &text(&mut fields, "digits")?.unwrap_or_default(),
                &self.shape,
            )?
        } else if has("xla") {
            let xla = text(&mut fields, "xla")?.unwrap_or_default();
            let parsed = Xla::parse(&xla, self.shape.len())?;
            *tail = parsed.tail;
            self.space = parsed.space.unwrap_or(self.space);
            self.element_bits = parsed.element_bits.or(self.element_bits);
            Rule::Xla {
                minor_to_major: parsed.minor_to_major,
                tiles: parsed.tiles,
            }
        } else if has("strides") || has("offset") || has("size") {
            *size = number(&mut fields, "size")?;
            strided_rule(&mut fields, self.shape.len())?
        } else if has("block") || has("order") || has("axes") {
            block_rule(&mut fields, self.shape.len())?
        } else {
            Rule::RowMajor
        };
        match fields.first() {
            Some((key, _)) => Err(format!("the key `{key}` is not known here")),
            None => Ok(rule),
        }
    }

    /// The size of the buffer.
    fn count(&self, tail: u64, size: Option<i64>) -> Result<u64, Problem> {
        if self.elements() == 0 {
            return Ok(0);
        }
        let overflow = || "the buffer has more than 2^63 positions".to_owned();
        if let Rule::Strided { strides, offset } = &self.rule {
            if let Some(size) = size {
                return u64::try_from(size).map_err(|_| "`size` is negative".to_owned());
            }
            let mut last = i128::from(*offset);
            for (&n, &s) in self.shape.iter().zip(strides) {
                let reach = i128::from(n - 1).saturating_mul(i128::from(s.max(0)));
                last = last.saturating_add(reach);
            }
            return u64::try_from(last.saturating_add(1)).map_err(|_| overflow());
        }
        let mut pieces = Vec::new();
        self.pieces(&vec![0; self.shape.len()], &mut pieces)?;
        let count = pieces.iter().try_fold(1u64, |a, p| a.checked_mul(p.0));
        let count = count.filter(|&n| n < 1 << 63).ok_or_else(overflow)?;
        if count < self.elements() {
            return Err(format!(
                "{} elements have only {count} positions",
                self.elements()
            ));
        }
        count.checked_next_multiple_of(tail).ok_or_else(overflow)
    }

    /// The position of an element; `pieces` is scratch.
    fn position(&self, element: &[u64], pieces: &mut Pieces) -> Result<u64, Problem> {
        if let Rule::Strided { strides, offset } = &self.rule {
            let mut at = i128::from(*offset);
            for (&e, &s) in element.iter().zip(strides) {
                at = at.saturating_add(i128::from(e).saturating_mul(i128::from(s)));
            }
            return u64::try_from(at).map_err(|_| format!("element {element:?} lies at {at}"));
        }
        pieces.clear();
        self.pieces(element, pieces)?;
        Ok(pieces
            .iter()
            .fold(0, |at, &(extent, coordinate)| at * extent + coordinate))
    }

    /// The pieces of an element in physical order, major to minor.
    fn pieces(&self, element: &[u64], out: &mut Pieces) -> Result<(), Problem> {
        match &self.rule {
            Rule::RowMajor => out.extend(self.shape.iter().copied().zip(element.iter().copied())),
            Rule::Block { order, levels } => block_pieces(&self.shape, order, levels, element, out),
            Rule::Digits(digits) => {
                for digit in digits {
                    out.push((digit.count, digit.coordinate(&self.shape, element)));
                }
            }
            Rule::Xla {
                minor_to_major,
                tiles,
            } => {
                out.extend(
                    minor_to_major
                        .iter()
                        .rev()
                        .map(|&d| (self.shape[d], element[d])),
                );
                for tile in tiles {
                    apply_tile(tile, out)?;
                }
            }
            Rule::Strided { .. } => {}
        }
        Ok(())
    }
}

/// The grid, then the sub-blocks of each level, then the inside of the innermost block.
fn block_pieces(
    shape: &[u64],
    order: &[usize],
    levels: &[Level],
    element: &[u64],
    out: &mut Pieces,
) {
    let mut rest = element.to_vec();
    for &d in order {
        let block = levels.first().map_or(1, |level| level.extent(d));
        out.push((shape[d].div_ceil(block), rest[d] / block));
        rest[d] %= block;
    }
    for (i, level) in levels.iter().enumerate() {
        let Some(next) = levels.get(i + 1) else {
            inner_pieces(level, &rest, out);
            return;
        };
        let listed: Vec<usize> = level.factors.iter().map(|f| f.0).collect();
        for &d in level.order.as_ref().unwrap_or(&listed) {
            let block = next.extent(d);
            out.push((level.extent(d).div_ceil(block), rest[d] / block));
            rest[d] %= block;
        }
    }
}

/// The factors of the innermost block; those of one letter are cut leftmost most significant.
fn inner_pieces(level: &Level, rest: &[u64], out: &mut Pieces) {
    for (i, &(d, count)) in level.factors.iter().enumerate() {
        let later = &level.factors[i + 1..];
        let step: u64 = later.iter().filter(|f| f.0 == d).map(|f| f.1).product();
        out.push((count, rest[d] / step % count));
    }
}

impl Digit {
    fn coordinate(&self, shape: &[u64], element: &[u64]) -> u64 {
        if self.dims.is_empty() {
            return 0;
        }
        let mut x = self.dims.iter().fold(0, |x, &d| x * shape[d] + element[d]);
        for &(step, by) in &self.steps {
            x = if step == '/' { x / by } else { x % by };
        }
        x % self.count
    }
}

/// Covers the last pieces with a tile: merge, pad, cut, and move the inside of the tile to the end.
fn apply_tile(tile: &[TileDim], pieces: &mut Pieces) -> Result<(), Problem> {
    while pieces.len() < tile.len() {
        pieces.insert(0, (1, 0));
    }
    let covered = pieces.split_off(pieces.len() - tile.len());
    let mut inside = Vec::with_capacity(tile.len());
    let mut merged = (1u64, 0u64);
    for (&(extent, coordinate), &t) in covered.iter().zip(tile) {
        let whole = merged
            .0
            .checked_mul(extent)
            .ok_or("a merged dimension overflows")?;
        merged = (whole, merged.1 * extent + coordinate);
        if let TileDim::Size(size) = t {
            pieces.push((merged.0.div_ceil(size), merged.1 / size));
            inside.push((size, merged.1 % size));
            merged = (1, 0);
        }
    }
    pieces.extend(inside);
    Ok(())
}

/// Steps to the next index in row-major order.
fn advance(element: &mut [u64], shape: &[u64]) {
    for d in (0..shape.len()).rev() {
        element[d] += 1;
        if element[d] < shape[d] {
            return;
        }
        element[d] = 0;
    }
}

fn take(fields: &mut Vec<(String, Item)>, key: &str) -> Option<Item> {
    let at = fields.iter().position(|(k, _)| k == key)?;
    Some(fields.remove(at).1)
}

fn number(fields: &mut Vec<(String, Item)>, key: &str) -> Result<Option<i64>, Problem> {
    match take(fields, key) {
        None => Ok(None),
        Some(Item::Int(n)) => Ok(Some(n)),
        Some(Item::Str(_) | Item::List(_)) => Err(format!("`{key}` wants a number")),
    }
}

fn text(fields: &mut Vec<(String, Item)>, key: &str) -> Result<Option<String>, Problem> {
    match take(fields, key) {
        None => Ok(None),
        Some(Item::Str(s)) => Ok(Some(s)),
        Some(Item::Int(_) | Item::List(_)) => Err(format!("`{key}` wants a string")),
    }
}

fn ints(item: &Item, key: &str) -> Result<Vec<i64>, Problem> {
    let Item::List(items) = item else {
        return Err(format!("`{key}` wants a list"));
    };
    let int = |item: &Item| match item {
        Item::Int(n) => Ok(*n),
        Item::Str(_) | Item::List(_) => Err(format!("`{key}` wants a list of numbers")),
    };
    items.iter().map(int).collect()
}

fn dims(item: &Item, key: &str, rank: usize) -> Result<Vec<usize>, Problem> {
    let mut out = Vec::new();
    for n in ints(item, key)? {
        let dim = usize::try_from(n)
            .ok()
            .filter(|&d| d < rank && !out.contains(&d));
        out.push(dim.ok_or_else(|| format!("`{key}` lists {n}, wanted each dimension once"))?);
    }
    Ok(out)
}

fn strided_rule(fields: &mut Vec<(String, Item)>, rank: usize) -> Result<Rule, Problem> {
    let strides = take(fields, "strides").ok_or("`strides` is missing")?;
    let strides = ints(&strides, "strides")?;
    if strides.len() != rank {
        return Err(format!("{} strides for {rank} dimensions", strides.len()));
    }
    let offset = number(fields, "offset")?.unwrap_or(0);
    Ok(Rule::Strided { strides, offset })
}

fn block_rule(fields: &mut Vec<(String, Item)>, rank: usize) -> Result<Rule, Problem> {
    let axes = text(fields, "axes")?;
    let block = text(fields, "block")?.unwrap_or_default();
    let mut levels = Vec::new();
    if !block.is_empty() {
        for part in block.split('|') {
            let factors = factors(part, axes.as_deref(), rank)?;
            levels.push(Level {
                factors,
                order: None,
            });
        }
    }
    let order = orders(take(fields, "order"), rank, &mut levels)?;
    check_levels(&levels)?;
    Ok(Rule::Block { order, levels })
}

/// The order of the grid; the orders of the levels are put into `levels`.
fn orders(item: Option<Item>, rank: usize, levels: &mut [Level]) -> Result<Vec<usize>, Problem> {
    let identity: Vec<usize> = (0..rank).collect();
    let Some(item) = item else {
        return Ok(identity);
    };
    let Item::List(items) = &item else {
        return Err("`order` wants a list".to_owned());
    };
    let nested = items.iter().any(|i| matches!(i, Item::List(_)));
    let lists = if nested { items.clone() } else { vec![item] };
    let mut grid = identity;
    for (i, list) in lists.iter().enumerate() {
        let list = dims(list, "order", rank)?;
        if i == 0 {
            if list.len() != rank {
                return Err(format!("`order` lists {} of {rank} dimensions", list.len()));
            }
            grid = list;
        } else if i < levels.len() {
            let missing = levels[i - 1].factors.iter().any(|f| !list.contains(&f.0));
            if missing {
                return Err(format!(
                    "list {i} of `order` misses a dimension of its level"
                ));
            }
            levels[i - 1].order = Some(list);
        } else {
            return Err(format!("`order` has {} lists", lists.len()));
        }
    }
    Ok(grid)
}

fn check_levels(levels: &[Level]) -> Result<(), Problem> {
    for pair in levels.windows(2) {
        let (outer, inner) = (&pair[0], &pair[1]);
        for (i, f) in outer.factors.iter().enumerate() {
            if outer.factors[..i].iter().any(|g| g.0 == f.0) {
                return Err("a level that another one cuts repeats a letter".to_owned());
            }
        }
        if inner.factors.iter().any(|f| !outer.names(f.0)) {
            return Err("a level names a letter that the level it cuts does not".to_owned());
        }
    }
    Ok(())
}

/// The factors of one level, in letters or in numbers.
fn factors(part: &str, axes: Option<&str>, rank: usize) -> Result<Vec<(usize, u64)>, Problem> {
    let named = match (axes, rank) {
        (Some(axes), _) => axes,
        (None, 1) => "W",
        (None, 2) => "HW",
        (None, 3) => "HWC",
        (None, 4) => "NHWC",
        (None, 5) => "NDHWC",
        (None, _) => "",
    };
    let letters: Vec<char> = named.chars().collect();
    if axes.is_some() && letters.len() != rank {
        return Err(format!(
            "`axes` names {} dimensions, the tensor has {rank}",
            letters.len()
        ));
    }
    let by_letter = |rest: &str| {
        let letter = rest.chars().next()?;
        let dim = letters.iter().position(|&l| l == letter)?;
        Some((dim, letter.len_utf8()))
    };
    let by_number = |rest: &str| {
        let digits = rest.strip_prefix('d')?;
        let end = digits
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(digits.len());
        let dim: usize = digits[..end].parse().ok().filter(|&d| d < rank)?;
        Some((dim, end + 1))
    };
    let found = read_factors(part, by_letter).or_else(|| read_factors(part, by_number));
    found.ok_or_else(|| format!("cannot read `{part}` as factors of {rank} dimensions"))
}

/// Reads pairs of a count and a dimension. `dim` reads the dimension and returns the length of its text, too.
fn read_factors(
    part: &str,
    dim: impl Fn(&str) -> Option<(usize, usize)>,
) -> Option<Vec<(usize, u64)>> {
    let mut out = Vec::new();
    let mut rest = part.trim();
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let count: u64 = rest[..end].parse().ok().filter(|&n| n > 0)?;
        let (d, length) = dim(&rest[end..])?;
        out.push((d, count));
        rest = rest[end + length..].trim_start();
    }
    let mut product = 1u64;
    for (_, count) in &out {
        product = product.checked_mul(*count)?;
    }
    (!out.is_empty()).then_some(out)
}

fn digits_rule(text: &str, shape: &[u64]) -> Result<Rule, Problem> {
    let digits: Option<Vec<Digit>> = text.split_whitespace().map(|d| digit(d, shape)).collect();
    digits
        .map(Rule::Digits)
        .ok_or_else(|| format!("cannot read the digits `{text}`"))
}

fn digit(text: &str, shape: &[u64]) -> Option<Digit> {
    let (stated, source) = text.split_once(':')?;
    let number = || stated.parse().ok().filter(|&n: &u64| n > 0);
    if source == "_" {
        let count = number()?;
        return Some(Digit {
            count,
            dims: Vec::new(),
            steps: Vec::new(),
        });
    }
    let end = source
        .rfind(')')
        .map(|i| i + 1)
        .or_else(|| source.find(['/', '%']));
    let (group, mut rest) = source.split_at(end.unwrap_or(source.len()));
    let inner = group
        .strip_prefix('(')
        .and_then(|g| g.strip_suffix(')'))
        .unwrap_or(group);
    let dim = |name: &str| {
        name.strip_prefix('d')?
            .parse()
            .ok()
            .filter(|&d: &usize| d < shape.len())
    };
    let dims: Vec<usize> = inner.split('*').map(dim).collect::<Option<_>>()?;
    let mut steps = Vec::new();
    while let Some(step) = rest.chars().next() {
        let after = rest.strip_prefix(['/', '%'])?;
        let end = after.find(['/', '%']).unwrap_or(after.len());
        steps.push((step, after[..end].parse().ok().filter(|&n| n > 0)?));
        rest = &after[end..];
    }
    // There are as many positions as values, so every index below the size is a position.
    let whole = || {
        let mut sizes = dims.iter().map(|&d| shape[d]);
        let size = sizes.try_fold(1u64, |all, n| all.checked_mul(n))?;
        Some(
            steps
                .iter()
                .fold(size, |left, &(step, by): &(char, u64)| match step {
                    '/' => left.div_ceil(by),
                    _ => left.min(by),
                }),
        )
    };
    let count = if stated == "*" { whole() } else { number() }?;
    Some(Digit { count, dims, steps })
}

/// The parsed text of an XLA layout.
#[derive(Debug)]
struct Xla {
    minor_to_major: Vec<usize>,
    tiles: Vec<Vec<TileDim>>,
    tail: u64,
    space: Option<i64>,
    element_bits: Option<i64>,
}

impl Xla {
    fn parse(text: &str, rank: usize) -> Result<Xla, Problem> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let inner = text
            .strip_prefix('{')
            .and_then(|t| t.strip_suffix('}'))
            .unwrap_or(&text);
        let (order, attrs) = inner.split_once(':').unwrap_or((inner, ""));
        let order: Option<Vec<i64>> = match order {
            "" => Some(Vec::new()),
            _ => order.split(',').map(|n| n.parse().ok()).collect(),
        };
        let order = order.ok_or_else(|| format!("cannot read the order of `{text}`"))?;
        let order = Item::List(order.into_iter().map(Item::Int).collect());
        let minor_to_major = dims(&order, "xla", rank)?;
        if minor_to_major.len() != rank {
            return Err(format!(
                "`xla` orders {} of {rank} dimensions",
                minor_to_major.len()
            ));
        }
        let none = Vec::new();
        let mut xla = Xla {
            minor_to_major,
            tiles: none,
            tail: 1,
            space: None,
            element_bits: None,
        };
        let mut rest = attrs;
        while !rest.is_empty() {
            rest = xla
                .attribute(rest)
                .ok_or_else(|| format!("cannot read `{rest}` of `{text}`"))?;
        }
        Ok(xla)
    }

    /// Reads one attribute such as `T(8,128)(2,1)` and returns the text after it.
    fn attribute<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let (key, mut rest) = text.split_at(text.find('(')?);
        let mut groups = Vec::new();
        while let Some(after) = rest.strip_prefix('(') {
            let (group, tail) = after.split_once(')')?;
            groups.push(group);
            rest = tail;
        }
        match (key, &groups[..]) {
            ("T", groups) => {
                self.tiles = groups.iter().map(|g| tile(g)).collect::<Option<_>>()?;
            }
            ("L", [n]) => self.tail = n.parse().ok().filter(|&n| n > 0)?,
            ("E", [n]) => self.element_bits = Some(n.parse().ok().filter(|&n: &i64| n > 0)?),
            ("S", [n]) => self.space = Some(n.parse().ok()?),
            ("M", [_]) | ("D", [_]) | ("SC", [..]) => {}
            _ => return None,
        }
        Some(rest)
    }
}

fn tile(text: &str) -> Option<Vec<TileDim>> {
    let entry = |part: &str| match part {
        "*" => Some(TileDim::Merge),
        _ => part.parse().ok().filter(|&n| n > 0).map(TileDim::Size),
    };
    let tile: Vec<TileDim> = text.split(',').map(entry).collect::<Option<_>>()?;
    (tile.last() != Some(&TileDim::Merge)).then_some(tile)
}
