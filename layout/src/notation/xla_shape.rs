//! XLA's shapes as HLO text writes them: arrays with layouts, tuples, tokens, opaque values.
//!
//! [`XlaShape::parse`] reads one shape, [`XlaShape::parse_prefix`] the shape at a position of a longer text, and
//! `Display` prints exactly what XLA prints. XLA's own text parser is lax in some cases: it takes a `minor_to_major`
//! that is not a permutation, or `T` without a list. This one refuses them with a reason.
//!
//! ```
//! use optc_layout::XlaShape;
//!
//! let shape = XlaShape::parse("bf16[8,1,1280,16384]{3,2,0,1:T(8,128)(2,1)S(1)}")?;
//! let array = shape.as_array().ok_or("an array")?;
//! assert_eq!(array.layout()?.bytes(), 335_544_320);
//! assert_eq!(shape.to_string(), "bf16[8,1,1280,16384]{3,2,0,1:T(8,128)(2,1)S(1)}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::sync::Arc;

use crate::error::{LayoutError, TextError, TextPart};
use crate::layout::Layout;
use crate::notation::Notation;
use crate::notation::cursor::{Cursor, Mistake, Parsed, wanted_at};
use crate::notation::xla::XlaNotation;

/// The deepest nesting of tuples and buffers in text.
const MAX_DEPTH: usize = 128;

const AN_ARRAY: &str = "an XLA shape such as f32[8,128]{1,0}";

macro_rules! element_types {
    ($($variant:ident $name:literal $bits:literal,)*) => {
        /// An element type of XLA's arrays.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum XlaType {
            $(
                #[doc = concat!("`", $name, "`")]
                $variant,
            )*
        }

        impl XlaType {
            /// All element types.
            pub const ALL: &'static [XlaType] = &[$(XlaType::$variant,)*];

            /// The name in text; lower case is the only spelling.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(XlaType::$variant => $name,)* }
            }

            /// The type of this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(XlaType::$variant),)* _ => None }
            }

            /// Bits of information in one element: 1 for `pred`, 4 for `s4`.
            #[must_use]
            pub fn bits(self) -> u32 {
                match self { $(XlaType::$variant => $bits,)* }
            }
        }
    };
}

element_types! {
    Pred "pred" 1,
    S1 "s1" 1,
    S2 "s2" 2,
    S4 "s4" 4,
    S8 "s8" 8,
    S16 "s16" 16,
    S32 "s32" 32,
    S64 "s64" 64,
    U1 "u1" 1,
    U2 "u2" 2,
    U4 "u4" 4,
    U8 "u8" 8,
    U16 "u16" 16,
    U32 "u32" 32,
    U64 "u64" 64,
    F16 "f16" 16,
    Bf16 "bf16" 16,
    F32 "f32" 32,
    F64 "f64" 64,
    F4e2m1fn "f4e2m1fn" 4,
    F6e2m3fn "f6e2m3fn" 6,
    F6e3m2fn "f6e3m2fn" 6,
    F8e3m4 "f8e3m4" 8,
    F8e4m3 "f8e4m3" 8,
    F8e4m3fn "f8e4m3fn" 8,
    F8e4m3fnuz "f8e4m3fnuz" 8,
    F8e4m3b11fnuz "f8e4m3b11fnuz" 8,
    F8e5m2 "f8e5m2" 8,
    F8e5m2fnuz "f8e5m2fnuz" 8,
    F8e8m0fnu "f8e8m0fnu" 8,
    C64 "c64" 64,
    C128 "c128" 128,
}

impl XlaType {
    /// The element type's name in MLIR: `si8` for `s8`, `i1` for `pred`, `f8E4M3FN` for `f8e4m3fn`.
    #[must_use]
    pub fn mlir_name(self) -> String {
        match self.name() {
            "pred" => "i1".to_owned(),
            "c64" => "complex<f32>".to_owned(),
            "c128" => "complex<f64>".to_owned(),
            name if name.starts_with('s') || name.starts_with('u') => {
                format!("{}i{}", &name[..1], &name[1..])
            }
            "bf16" => "bf16".to_owned(),
            name => format!("f{}", name[1..].to_uppercase()),
        }
    }

    /// Bits of an element by its MLIR name. A layout packs elements to this width by default. Only `pred` differs from
    /// [`XlaType::bits`]: `i1` takes a byte.
    #[must_use]
    pub fn type_bits(self) -> u32 {
        match self {
            XlaType::Pred => 8,
            other => other.bits(),
        }
    }

    /// Bits of one element in memory if the layout has no `E(n)`: whole bytes.
    #[must_use]
    pub fn memory_bits(self) -> u32 {
        self.bits().next_multiple_of(8)
    }
}

impl fmt::Display for XlaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The size of one dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum XlaDim {
    /// `8`
    Size(u64),
    /// `<=8`: a size known when the program runs, with a bound.
    Bounded(u64),
    /// `?`: a size without a bound.
    Unbounded,
    /// A size without a bound for which the creator of the shape has an expression. XLA's text cannot express it and
    /// prints `?`.
    Named(Arc<str>),
}

impl XlaDim {
    /// The size, or its bound; memory is laid out for the bound.
    #[must_use]
    pub fn bound(&self) -> Option<u64> {
        match self {
            XlaDim::Size(size) | XlaDim::Bounded(size) => Some(*size),
            XlaDim::Unbounded | XlaDim::Named(_) => None,
        }
    }
}

impl fmt::Display for XlaDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            XlaDim::Size(size) => write!(f, "{size}"),
            XlaDim::Bounded(size) => write!(f, "<={size}"),
            XlaDim::Unbounded | XlaDim::Named(_) => f.write_str("?"),
        }
    }
}

/// A dense array: element type, sizes, layout.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct XlaArray {
    /// The element type.
    pub element: XlaType,
    /// The sizes in logical order.
    pub dims: Vec<XlaDim>,
    /// The layout as written; the default without one is `{rank-1,...,0}`.
    pub notation: Option<XlaNotation>,
}

impl XlaArray {
    /// An array of known sizes with the default layout.
    #[must_use]
    pub fn new(element: XlaType, sizes: &[u64]) -> Self {
        Self {
            element,
            dims: sizes.iter().map(|&size| XlaDim::Size(size)).collect(),
            notation: None,
        }
    }

    /// The sizes, with the bound of each bounded size; `None` if one has no bound.
    #[must_use]
    pub fn bounds(&self) -> Option<Vec<u64>> {
        self.dims.iter().map(XlaDim::bound).collect()
    }

    /// The sizes, if all are known before the program runs.
    #[must_use]
    pub fn sizes(&self) -> Option<Vec<u64>> {
        let known = |dim: &XlaDim| match dim {
            XlaDim::Size(size) => Some(*size),
            XlaDim::Bounded(_) | XlaDim::Unbounded | XlaDim::Named(_) => None,
        };
        self.dims.iter().map(known).collect()
    }

    /// The layout as written, or the default one: dimensions descend and nothing is tiled.
    #[must_use]
    pub fn notation_or_default(&self) -> XlaNotation {
        let default = || XlaNotation::row_major(self.dims.len());
        self.notation.clone().unwrap_or_else(default)
    }

    /// The layout of the array, bounded dimensions at their bounds.
    ///
    /// # Errors
    /// A dimension without a bound, a layout that does not fit the sizes, or 2^63 positions.
    pub fn layout(&self) -> Result<Layout, LayoutError> {
        let sizes = self.bounds().ok_or(LayoutError::Unbounded)?;
        let notation = Notation::Xla(self.notation_or_default());
        Layout::new(notation, &sizes, self.element.type_bits())
    }

    /// Bytes of memory that the array takes, padding included; if `SC` splits it, those of its largest part. The
    /// metadata of `M` is not counted.
    ///
    /// # Errors
    /// As [`XlaArray::layout`].
    pub fn bytes(&self) -> Result<u64, LayoutError> {
        Ok(self.layout()?.part_bytes())
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, layouts: bool) -> fmt::Result {
        write!(f, "{}[", self.element)?;
        for (i, dim) in self.dims.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{dim}")?;
        }
        f.write_str("]")?;
        if !layouts {
            return Ok(());
        }
        let text = self.notation_or_default().to_string();
        if text.is_empty() {
            return Ok(());
        }
        write!(f, "{{{text}}}")
    }
}

/// A shape of HLO text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum XlaShape {
    /// `f32[8,128]{1,0}`
    Array(XlaArray),
    /// `(f32[8], s32[])`; may be empty.
    Tuple(Vec<XlaShape>),
    /// `token[]`
    Token,
    /// `opaque[]`
    Opaque,
    /// `b(f32[8])`: a reference to memory that may be written.
    Buffer(XlaArray),
}

impl XlaShape {
    /// Reads a text that is one shape.
    ///
    /// # Errors
    /// The place of the first mistake, or of a layout that XLA's own check would refuse.
    pub fn parse(text: &str) -> Result<XlaShape, TextError> {
        let mut cursor = Cursor::new(text, 0);
        let read = shape(&mut cursor, 0).and_then(|shape| match cursor.peek()? {
            None => Ok(shape),
            Some(_) => Err(cursor.wanted("the end of the shape")),
        });
        read.map_err(|mistake| refused(text, mistake))
    }

    /// Reads the shape that begins at byte `start` of a longer text; returns it and the byte after it. White space and
    /// comments before it are skipped, those after it are not.
    ///
    /// A `{` after the sizes belongs to the shape only if a number or `:` follows it. Offsets of errors count from the
    /// start of `text`. A `start` that is not a character boundary is an error.
    ///
    /// # Errors
    /// As [`XlaShape::parse`].
    pub fn parse_prefix(text: &str, start: usize) -> Result<(XlaShape, usize), TextError> {
        if text.get(start..).is_none() {
            return Err(TextError::at(text, text.len(), "a place in the text"));
        }
        let mut cursor = Cursor::new(text, start);
        let read = shape(&mut cursor, 0);
        match read {
            Ok(shape) => Ok((shape, cursor.position())),
            Err(mistake) => Err(refused(text, mistake)),
        }
    }

    /// The array, if it is one.
    #[must_use]
    pub fn as_array(&self) -> Option<&XlaArray> {
        match self {
            XlaShape::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The elements of a tuple; empty for another shape.
    #[must_use]
    pub fn elements(&self) -> &[XlaShape] {
        match self {
            XlaShape::Tuple(shapes) => shapes,
            _ => &[],
        }
    }

    /// The arrays in the shape, including those of buffers, outermost first and from left to right.
    #[must_use]
    pub fn leaves(&self) -> Vec<&XlaArray> {
        match self {
            XlaShape::Array(array) | XlaShape::Buffer(array) => vec![array],
            XlaShape::Tuple(shapes) => shapes.iter().flat_map(XlaShape::leaves).collect(),
            XlaShape::Token | XlaShape::Opaque => Vec::new(),
        }
    }

    /// The shapes in it that are not tuples, from left to right; the shape itself if it is not a tuple.
    #[must_use]
    pub fn parts(&self) -> Vec<&XlaShape> {
        match self {
            XlaShape::Tuple(shapes) => shapes.iter().flat_map(XlaShape::parts).collect(),
            part => vec![part],
        }
    }

    /// Returns whether two shapes have the same tuples, element types and sizes, whatever their layouts. A bound agrees
    /// with every size.
    #[must_use]
    pub fn compatible(&self, other: &XlaShape) -> bool {
        let arrays = |a: &XlaArray, b: &XlaArray| {
            let dim = |(a, b): (&XlaDim, &XlaDim)| match (a, b) {
                (XlaDim::Size(a), XlaDim::Size(b)) => a == b,
                _ => true,
            };
            a.element == b.element
                && a.dims.len() == b.dims.len()
                && a.dims.iter().zip(&b.dims).all(dim)
        };
        match (self, other) {
            (XlaShape::Array(a), XlaShape::Array(b))
            | (XlaShape::Buffer(a), XlaShape::Buffer(b)) => arrays(a, b),
            (XlaShape::Tuple(a), XlaShape::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.compatible(b))
            }
            (XlaShape::Token, XlaShape::Token) | (XlaShape::Opaque, XlaShape::Opaque) => true,
            _ => false,
        }
    }

    /// Gives every array without a layout the default one.
    pub fn complete(&mut self) {
        match self {
            XlaShape::Array(array) | XlaShape::Buffer(array) => {
                if array.notation.is_none() {
                    array.notation = Some(array.notation_or_default());
                }
            }
            XlaShape::Tuple(shapes) => shapes.iter_mut().for_each(XlaShape::complete),
            XlaShape::Token | XlaShape::Opaque => {}
        }
    }

    /// The text without layouts, as in the signature of a computation.
    #[must_use]
    pub fn text_without_layouts(&self) -> String {
        Bare(self).to_string()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, layouts: bool) -> fmt::Result {
        match self {
            XlaShape::Array(array) => array.write(f, layouts),
            XlaShape::Token => f.write_str("token[]"),
            XlaShape::Opaque => f.write_str("opaque[]"),
            XlaShape::Buffer(array) => {
                f.write_str("b(")?;
                array.write(f, layouts)?;
                f.write_str(")")
            }
            XlaShape::Tuple(shapes) => {
                f.write_str("(")?;
                for (i, shape) in shapes.iter().enumerate() {
                    if 0 < i {
                        f.write_str(", ")?;
                    }
                    if 0 < i && i % 5 == 0 {
                        write!(f, "/*index={i}*/")?;
                    }
                    shape.write(f, layouts)?;
                }
                f.write_str(")")
            }
        }
    }
}

struct Bare<'a>(&'a XlaShape);

impl fmt::Display for Bare<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, false)
    }
}

/// The text that XLA prints, layouts included.
impl fmt::Display for XlaShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, true)
    }
}

/// The text that XLA prints, layout included.
impl fmt::Display for XlaArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, true)
    }
}

fn shape(cursor: &mut Cursor<'_>, depth: usize) -> Parsed<XlaShape> {
    if depth == MAX_DEPTH {
        return Err(Mistake::Depth {
            offset: cursor.position(),
            wanted: format!("at most {MAX_DEPTH} nested tuples"),
        });
    }
    if cursor.eat(b'(')? {
        return tuple(cursor, depth).map(XlaShape::Tuple);
    }
    let start = cursor.position();
    match cursor.word()? {
        "token" => no_dims(cursor).map(|()| XlaShape::Token),
        "opaque" => no_dims(cursor).map(|()| XlaShape::Opaque),
        "b" if cursor.eat(b'(')? => {
            cursor.skip()?;
            let start = cursor.position();
            let name = cursor.word()?;
            let array = array(cursor, name, start)?;
            cursor.expect(b')')?;
            Ok(XlaShape::Buffer(array))
        }
        name => array(cursor, name, start).map(XlaShape::Array),
    }
}

/// Reads a tuple after its opening parenthesis.
fn tuple(cursor: &mut Cursor<'_>, depth: usize) -> Parsed<Vec<XlaShape>> {
    cursor.list(b')', |cursor| shape(cursor, depth + 1))
}

fn no_dims(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.expect(b'[')?;
    cursor.expect(b']')
}

/// Reads an array after the name of its element type, which begins at `start`.
fn array(cursor: &mut Cursor<'_>, name: &str, start: usize) -> Parsed<XlaArray> {
    let Some(element) = XlaType::from_name(name) else {
        return Err(wanted_at(start, AN_ARRAY));
    };
    cursor.expect(b'[')?;
    let sizes = cursor.position();
    let mut array = XlaArray {
        element,
        dims: dims(cursor)?,
        notation: None,
    };
    if !array_fits(&array) {
        return Err(wanted_at(
            sizes,
            "sizes whose product in bytes is below 2^63",
        ));
    }
    let end = cursor.position();
    if !layout_follows(cursor)? {
        cursor.rewind(end);
        return Ok(array);
    }
    let start = cursor.position();
    let read = XlaNotation::read(cursor, array.dims.len());
    let notation = read.map_err(Mistake::in_layout)?;
    if !cursor.eat(b'}')? {
        let wanted = "`}`, or attributes in the order T, L, E, S, SC, M after `:`";
        return Err(cursor.wanted(wanted).in_layout());
    }
    if let Some(sizes) = array
        .bounds()
        .filter(|_| !notation.split_configs().is_empty())
    {
        let refused = |error| Mistake::Layout {
            offset: start,
            error: Box::new(error),
        };
        notation.check_shape(&sizes).map_err(refused)?;
    }
    array.notation = Some(notation);
    Ok(array)
}

/// Reads sizes after the opening bracket.
fn dims(cursor: &mut Cursor<'_>) -> Parsed<Vec<XlaDim>> {
    cursor.list(b']', dim)
}

fn dim(cursor: &mut Cursor<'_>) -> Parsed<XlaDim> {
    if cursor.eat(b'?')? {
        return Ok(XlaDim::Unbounded);
    }
    let bounded = cursor.eat_text("<=")?;
    let size = cursor.number("a size below 2^63")?;
    Ok(match bounded {
        true => XlaDim::Bounded(size),
        false => XlaDim::Size(size),
    })
}

/// Returns whether a layout comes next; if so, its opening brace is consumed.
fn layout_follows(cursor: &mut Cursor<'_>) -> Parsed<bool> {
    if !cursor.eat(b'{')? {
        return Ok(false);
    }
    let next = cursor.peek()?;
    Ok(next.is_some_and(|c| c.is_ascii_digit() || c == b':' || c == b'-'))
}

/// A mistake as an error for the caller.
fn refused(text: &str, mistake: Mistake) -> TextError {
    match mistake {
        Mistake::Syntax {
            offset,
            wanted,
            in_layout,
        } => {
            let error = TextError::at(text, offset, &wanted);
            let known = |name: &str| wanted == AN_ARRAY && XlaType::from_name(name).is_some();
            let lower = error.found.trim_matches('`').to_lowercase();
            let hint = known(&lower).then(|| format!("did you mean {lower}?"));
            let part = if in_layout {
                TextPart::Layout
            } else {
                TextPart::Type
            };
            TextError {
                hint,
                part,
                ..error
            }
        }
        Mistake::Depth { offset, wanted } => TextError {
            part: TextPart::Depth,
            ..TextError::at(text, offset, &wanted)
        },
        Mistake::Layout { offset, error } => TextError {
            layout: Some(error),
            part: TextPart::Layout,
            ..TextError::at(text, offset, "a layout of these sizes")
        },
    }
}

/// Returns whether the array's bytes without padding are below 2^63; an unbounded size counts as 1.
fn array_fits(array: &XlaArray) -> bool {
    let sizes = array.dims.iter().filter_map(|dim| dim.bound());
    let bytes = u64::from(array.element.memory_bits() / 8);
    let mut product = Some(bytes);
    for size in sizes {
        if size == 0 {
            return true;
        }
        product = product.and_then(|product| product.checked_mul(size));
    }
    let whole_zero = array.dims.iter().any(|dim| dim.bound() == Some(0));
    whole_zero || product.is_some_and(|product| i64::try_from(product).is_ok())
}
