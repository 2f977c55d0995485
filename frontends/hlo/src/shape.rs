//! Shapes as HLO text writes them: element type, extents, layout; tuples; tokens.

use crate::cursor::{Cursor, MAX_DEPTH, Step};
use crate::error::HloError;
use optc_layout::XlaSpelling;
use std::fmt;

/// Element types of HLO text with the bits of an element.
const DTYPES: &[(&str, u32)] = &[
    ("pred", 1),
    ("s1", 1),
    ("s2", 2),
    ("s4", 4),
    ("s8", 8),
    ("s16", 16),
    ("s32", 32),
    ("s64", 64),
    ("u1", 1),
    ("u2", 2),
    ("u4", 4),
    ("u8", 8),
    ("u16", 16),
    ("u32", 32),
    ("u64", 64),
    ("f16", 16),
    ("bf16", 16),
    ("f32", 32),
    ("f64", 64),
    ("f4e2m1fn", 4),
    ("f6e2m3fn", 6),
    ("f6e3m2fn", 6),
    ("f8e3m4", 8),
    ("f8e4m3", 8),
    ("f8e4m3fn", 8),
    ("f8e4m3fnuz", 8),
    ("f8e4m3b11fnuz", 8),
    ("f8e5m2", 8),
    ("f8e5m2fnuz", 8),
    ("f8e8m0fnu", 8),
    ("c64", 64),
    ("c128", 128),
];

/// The bits of an element of this type, or nothing for other words.
pub(crate) fn dtype_bits(name: &str) -> Option<u32> {
    DTYPES.iter().find(|(n, _)| *n == name).map(|(_, b)| *b)
}

/// The known spelling of an element type.
fn dtype(name: &str) -> Option<&'static str> {
    DTYPES.iter().find(|(n, _)| *n == name).map(|(n, _)| *n)
}

/// One extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Extent {
    /// Known.
    Fixed(u64),
    /// `<=n`: known at run time, at most `n`.
    Bounded(u64),
    /// `?`.
    Unknown,
}

/// An array's shape.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct ArrayShape {
    /// The element type as XLA writes it.
    pub dtype: &'static str,
    /// The extents, dimension 0 first.
    pub dims: Vec<Extent>,
    /// The text between the braces of the layout in canonical form, where one is written.
    pub layout: Option<String>,
}

/// A shape.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Shape {
    /// An array.
    Array(ArrayShape),
    /// A tuple, which may be empty.
    Tuple(Vec<Shape>),
    /// `token[]`.
    Token,
    /// `opaque[]`.
    Opaque,
    /// `b(…)`: a reference to a buffer.
    Buffer(Box<Shape>),
}

impl ArrayShape {
    /// An array in the default layout.
    pub(crate) fn new(dtype: &'static str, dims: Vec<Extent>) -> ArrayShape {
        ArrayShape {
            dtype,
            dims,
            layout: None,
        }
    }

    /// The extents, if all are known.
    #[must_use]
    pub fn fixed(&self) -> Option<Vec<u64>> {
        let fixed = |e: &Extent| match e {
            Extent::Fixed(n) => Some(*n),
            Extent::Bounded(_) | Extent::Unknown => None,
        };
        self.dims.iter().map(fixed).collect()
    }

    /// The text between the layout's braces; without one the last dimension is the most minor.
    #[must_use]
    pub fn layout_text(&self) -> String {
        self.layout
            .clone()
            .unwrap_or_else(|| descending(self.dims.len()))
    }
}

/// `2,1,0`: the last dimension is the most minor.
fn descending(rank: usize) -> String {
    let dims: Vec<String> = (0..rank).rev().map(|d| d.to_string()).collect();
    dims.join(",")
}

impl Shape {
    /// The array, if it is one.
    #[must_use]
    pub fn array(&self) -> Option<&ArrayShape> {
        match self {
            Shape::Array(array) => Some(array),
            Shape::Tuple(_) | Shape::Token | Shape::Opaque | Shape::Buffer(_) => None,
        }
    }

    /// The shapes that are no tuples, in order.
    #[must_use]
    pub fn leaves(&self) -> Vec<&Shape> {
        let mut out = Vec::new();
        self.add_leaves(&mut out);
        out
    }

    fn add_leaves<'a>(&'a self, out: &mut Vec<&'a Shape>) {
        match self {
            Shape::Tuple(parts) => parts.iter().for_each(|p| p.add_leaves(out)),
            leaf => out.push(leaf),
        }
    }

    /// Whether two shapes have the same tuples, element types and extents; a bound and a number
    /// that is not above it agree.
    pub(crate) fn compatible(&self, other: &Shape) -> bool {
        match (self, other) {
            (Shape::Array(a), Shape::Array(b)) => {
                let extent = |(a, b): (&Extent, &Extent)| match (a, b) {
                    (Extent::Fixed(m), Extent::Fixed(n)) => m == n,
                    _ => true,
                };
                a.dtype == b.dtype
                    && a.dims.len() == b.dims.len()
                    && a.dims.iter().zip(&b.dims).all(extent)
            }
            (Shape::Tuple(a), Shape::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.compatible(b))
            }
            (Shape::Buffer(a), Shape::Buffer(b)) => a.compatible(b),
            (Shape::Token, Shape::Token) | (Shape::Opaque, Shape::Opaque) => true,
            _ => false,
        }
    }

    /// Every array without a layout gets the default one.
    pub(crate) fn complete(&mut self) {
        match self {
            Shape::Array(array) => {
                if array.layout.is_none() {
                    array.layout = Some(descending(array.dims.len()));
                }
            }
            Shape::Tuple(parts) => parts.iter_mut().for_each(Shape::complete),
            Shape::Buffer(inner) => inner.complete(),
            Shape::Token | Shape::Opaque => {}
        }
    }

    /// The same without layouts, as signatures print it.
    #[must_use]
    pub fn without_layouts(&self) -> Shape {
        match self {
            Shape::Array(array) => Shape::Array(ArrayShape {
                layout: None,
                ..array.clone()
            }),
            Shape::Tuple(parts) => Shape::Tuple(parts.iter().map(Shape::without_layouts).collect()),
            Shape::Buffer(inner) => Shape::Buffer(Box::new(inner.without_layouts())),
            Shape::Token => Shape::Token,
            Shape::Opaque => Shape::Opaque,
        }
    }
}

/// XLA's own text, with a comment before every fifth element of a tuple.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Array(array) => write!(f, "{array}"),
            Shape::Tuple(parts) => {
                f.write_str("(")?;
                for (i, part) in parts.iter().enumerate() {
                    if 0 < i {
                        f.write_str(", ")?;
                        if i % 5 == 0 {
                            write!(f, "/*index={i}*/")?;
                        }
                    }
                    write!(f, "{part}")?;
                }
                f.write_str(")")
            }
            Shape::Token => f.write_str("token[]"),
            Shape::Opaque => f.write_str("opaque[]"),
            Shape::Buffer(inner) => write!(f, "b({inner})"),
        }
    }
}

impl fmt::Display for ArrayShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (i, extent) in self.dims.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "," })?;
            match extent {
                Extent::Fixed(n) => write!(f, "{n}")?,
                Extent::Bounded(n) => write!(f, "<={n}")?,
                Extent::Unknown => f.write_str("?")?,
            }
        }
        f.write_str("]")?;
        match &self.layout {
            Some(layout) if !layout.is_empty() => write!(f, "{{{layout}}}"),
            _ => Ok(()),
        }
    }
}

/// Whether a shape starts here: a type's name alone may be a name.
pub(crate) fn starts_shape(cursor: &mut Cursor<'_>) -> Step<bool> {
    if cursor.peek()? == Some(b'(') {
        return Ok(true);
    }
    let mut look = cursor.clone();
    let Some(word) = look.word() else {
        return Ok(false);
    };
    let opening = if word == "b" { b'(' } else { b'[' };
    let known = dtype(word).is_some() || matches!(word, "token" | "opaque" | "b");
    Ok(known && look.peek()? == Some(opening))
}

/// Reads one shape.
pub(crate) fn shape(cursor: &mut Cursor<'_>, depth: usize) -> Step<Shape> {
    if MAX_DEPTH < depth {
        let mut error = cursor.wanted("a shape that nests less deeply");
        error.code = "hlo-too-deep";
        return Err(error);
    }
    if cursor.eat("(")? {
        let mut parts = Vec::new();
        if cursor.eat(")")? {
            return Ok(Shape::Tuple(parts));
        }
        loop {
            parts.push(shape(cursor, depth + 1)?);
            if cursor.eat(")")? {
                return Ok(Shape::Tuple(parts));
            }
            cursor.expect(",")?;
        }
    }
    cursor.skip()?;
    let start = cursor.position();
    let word = cursor.word().unwrap_or("");
    if word == "b" {
        cursor.expect("(")?;
        let inner = shape(cursor, depth + 1)?;
        cursor.expect(")")?;
        return Ok(Shape::Buffer(Box::new(inner)));
    }
    if matches!(word, "token" | "opaque") {
        cursor.expect("[")?;
        cursor.expect("]")?;
        let is_token = word == "token";
        // A scalar's braces may follow, and mean nothing here.
        layout(cursor, 0)?;
        return Ok(if is_token {
            Shape::Token
        } else {
            Shape::Opaque
        });
    }
    let Some(dtype) = dtype(word) else {
        cursor.rewind(start);
        let mut error = cursor.wanted("a shape, such as `f32[2,3]{1,0}`");
        error.code = "hlo-shape";
        return Err(error);
    };
    let dims = extents(cursor)?;
    let layout = layout(cursor, dims.len())?;
    Ok(Shape::Array(ArrayShape {
        dtype,
        dims,
        layout,
    }))
}

fn extents(cursor: &mut Cursor<'_>) -> Step<Vec<Extent>> {
    cursor.expect("[")?;
    let mut dims = Vec::new();
    if cursor.eat("]")? {
        return Ok(dims);
    }
    loop {
        dims.push(extent(cursor)?);
        if cursor.eat("]")? {
            return Ok(dims);
        }
        cursor.expect(",")?;
    }
}

fn extent(cursor: &mut Cursor<'_>) -> Step<Extent> {
    if cursor.eat("?")? {
        return Ok(Extent::Unknown);
    }
    let bounded = cursor.eat("<=")?;
    cursor.skip()?;
    let start = cursor.position();
    let n = cursor.integer()?;
    let n = u64::try_from(n).map_err(|_| {
        let message = format!("found the extent {n}, wanted 0 or more");
        HloError::new("hlo-shape", message, cursor.span_from(start))
    })?;
    Ok(if bounded {
        Extent::Bounded(n)
    } else {
        Extent::Fixed(n)
    })
}

/// `{1,0:T(8,128)}`: braces are a layout only if a number or a colon follows.
fn layout(cursor: &mut Cursor<'_>, rank: usize) -> Step<Option<String>> {
    if cursor.peek()? != Some(b'{') {
        return Ok(None);
    }
    let start = cursor.position();
    cursor.expect("{")?;
    if !cursor
        .peek()?
        .is_some_and(|c| c.is_ascii_digit() || c == b':')
    {
        cursor.rewind(start);
        return Ok(None);
    }
    cursor.rewind(start);
    let text = plain(cursor.piece()?);
    let inner = &text[1..text.len() - 1];
    match XlaSpelling::parse(inner, rank) {
        Ok(spelling) => Ok(Some(spelling.to_string())),
        Err(error) => {
            let message = format!("the layout `{text}` does not fit: {error}");
            Err(HloError::new(
                "hlo-layout",
                message,
                cursor.span_from(start),
            ))
        }
    }
}

/// A layout's text without comments and white space.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        out.push_str(&rest[..start]);
        rest = rest[start..]
            .find("*/")
            .map_or("", |end| &rest[start + end + 2..]);
    }
    out.push_str(rest);
    out.retain(|c| !c.is_whitespace());
    out
}
