//! XLA's shapes as HLO text writes them: arrays with layouts, tuples, tokens, opaque values.
//!
//! [`XlaShape::parse`] reads one shape, [`XlaShape::parse_prefix`] the shape at a place of a longer
//! text, and `Display` prints exactly what XLA prints. Where XLA's own text parser is lax (it takes
//! a `minor_to_major` that is no permutation, or `T` without a list) this one refuses with a reason.
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

use crate::error::LayoutError;
use crate::layout::Layout;
use crate::notation::TextError;
use crate::spelling::Spelling;
use crate::xla::{XlaSpelling, blank_prefix};

/// How deep tuples and buffers may nest in text.
const MAX_DEPTH: usize = 256;

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

    /// Bits of an element by its MLIR name: what a layout packs where it says nothing else.
    /// Only `pred` differs from [`XlaType::bits`]: `i1` takes a byte.
    #[must_use]
    pub fn type_bits(self) -> u32 {
        match self {
            XlaType::Pred => 8,
            other => other.bits(),
        }
    }

    /// Bits that one element takes in memory where the layout has no `E(n)`: whole bytes.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XlaDim {
    /// `8`
    Size(u64),
    /// `<=8`: a size known when the program runs, with a bound.
    Bounded(u64),
    /// `?`: a size without a bound.
    Unbounded,
}

impl XlaDim {
    /// The size, or its bound; memory is laid out for the bound.
    #[must_use]
    pub fn bound(self) -> Option<u64> {
        match self {
            XlaDim::Size(size) | XlaDim::Bounded(size) => Some(size),
            XlaDim::Unbounded => None,
        }
    }
}

impl fmt::Display for XlaDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            XlaDim::Size(size) => write!(f, "{size}"),
            XlaDim::Bounded(size) => write!(f, "<={size}"),
            XlaDim::Unbounded => f.write_str("?"),
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
    /// The layout as written; without one the dimensions descend, `{rank-1,...,0}`.
    pub spelling: Option<XlaSpelling>,
}

impl XlaArray {
    /// An array of known sizes with the default layout.
    #[must_use]
    pub fn new(element: XlaType, sizes: &[u64]) -> Self {
        Self {
            element,
            dims: sizes.iter().map(|&size| XlaDim::Size(size)).collect(),
            spelling: None,
        }
    }

    /// The sizes, a bound in the place of a bounded size; `None` where one has no bound.
    #[must_use]
    pub fn bounds(&self) -> Option<Vec<u64>> {
        self.dims.iter().map(|dim| dim.bound()).collect()
    }

    /// The layout as written, or the default one: dimensions descend and nothing is tiled.
    #[must_use]
    pub fn spelling_or_default(&self) -> XlaSpelling {
        let default = || XlaSpelling::untiled((0..self.dims.len()).rev().collect());
        self.spelling.clone().unwrap_or_else(default)
    }

    /// Where the elements lie, bounded dimensions at their bounds.
    ///
    /// # Errors
    /// A dimension without a bound, a layout that does not fit the sizes, or 2^63 positions.
    pub fn layout(&self) -> Result<Layout, LayoutError> {
        let sizes = self.bounds().ok_or(LayoutError::Unbounded)?;
        let spelling = Spelling::Xla(self.spelling_or_default());
        Layout::new(spelling, &sizes, self.element.type_bits())
    }

    /// Bytes of memory that the array takes, padding included: of its largest part where `SC`
    /// splits it. The metadata of `M` is not counted.
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
        let text = self.spelling_or_default().to_string();
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
    /// The place of the first mistake, and what XLA would refuse when it checks the layout.
    pub fn parse(text: &str) -> Result<XlaShape, TextError> {
        let mut reader = Reader { text, at: 0 };
        let shape = reader.shape(0)?;
        reader.skip_blank()?;
        match reader.peek() {
            None => Ok(shape),
            Some(_) => Err(reader.error("the end of the shape")),
        }
    }

    /// Reads the shape that begins at byte `start` of a longer text: the shape, and the byte behind
    /// it. White space and comments before it are skipped, those behind it are not.
    ///
    /// A `{` after the sizes belongs to the shape only if a number or `:` follows it. Offsets of
    /// errors count from the start of `text`; a `start` that is no character boundary is an error.
    ///
    /// # Errors
    /// As [`XlaShape::parse`].
    pub fn parse_prefix(text: &str, start: usize) -> Result<(XlaShape, usize), TextError> {
        let mut reader = Reader { text, at: start };
        if text.get(start..).is_none() {
            reader.at = text.len();
            return Err(reader.error("a place in the text"));
        }
        let shape = reader.shape(0)?;
        Ok((shape, reader.at))
    }

    /// The array, if it is one.
    #[must_use]
    pub fn as_array(&self) -> Option<&XlaArray> {
        match self {
            XlaShape::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The elements of a tuple; none of another shape.
    #[must_use]
    pub fn elements(&self) -> &[XlaShape] {
        match self {
            XlaShape::Tuple(shapes) => shapes,
            _ => &[],
        }
    }

    /// The arrays in it, outermost first and from left to right; those of buffers too.
    #[must_use]
    pub fn leaves(&self) -> Vec<&XlaArray> {
        match self {
            XlaShape::Array(array) | XlaShape::Buffer(array) => vec![array],
            XlaShape::Tuple(shapes) => shapes.iter().flat_map(XlaShape::leaves).collect(),
            XlaShape::Token | XlaShape::Opaque => Vec::new(),
        }
    }

    /// The text without layouts, as the signature of a computation has it.
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

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn shape(&mut self, depth: usize) -> Result<XlaShape, TextError> {
        if depth == MAX_DEPTH {
            return Err(self.error(&format!("at most {MAX_DEPTH} nested tuples")));
        }
        if self.eat('(')? {
            return self.tuple(depth).map(XlaShape::Tuple);
        }
        self.skip_blank()?;
        let start = self.at;
        match self.word() {
            "token" => self.no_dims().map(|()| XlaShape::Token),
            "opaque" => self.no_dims().map(|()| XlaShape::Opaque),
            "b" if self.eat('(')? => {
                self.skip_blank()?;
                let start = self.at;
                let name = self.word();
                let array = self.array(name, start)?;
                self.expect(')')?;
                Ok(XlaShape::Buffer(array))
            }
            name => self.array(name, start).map(XlaShape::Array),
        }
    }

    /// After the opening parenthesis.
    fn tuple(&mut self, depth: usize) -> Result<Vec<XlaShape>, TextError> {
        let mut shapes = Vec::new();
        if self.eat(')')? {
            return Ok(shapes);
        }
        loop {
            shapes.push(self.shape(depth + 1)?);
            if !self.eat(',')? {
                self.expect(')')?;
                return Ok(shapes);
            }
        }
    }

    fn no_dims(&mut self) -> Result<(), TextError> {
        self.expect('[')?;
        self.expect(']')
    }

    /// After the name of the element type, which begins at `start`.
    fn array(&mut self, name: &str, start: usize) -> Result<XlaArray, TextError> {
        let Some(element) = XlaType::from_name(name) else {
            let wanted = "an XLA shape such as f32[8,128]{1,0}";
            return Err(TextError::at(self.text, start, wanted));
        };
        self.expect('[')?;
        let sizes = self.at;
        let mut dims = Vec::new();
        if !self.eat(']')? {
            loop {
                dims.push(self.dim()?);
                if !self.eat(',')? {
                    self.expect(']')?;
                    break;
                }
            }
        }
        let mut array = XlaArray {
            element,
            dims,
            spelling: None,
        };
        if !array_fits(&array) {
            let wanted = "sizes whose product in bytes is below 2^63";
            return Err(TextError::at(self.text, sizes, wanted));
        }
        let end = self.at;
        if !self.layout_follows()? {
            self.at = end;
            return Ok(array);
        }
        let start = self.at;
        let read = XlaSpelling::parse_at(self.text, start, array.dims.len());
        let (spelling, end) = read.map_err(|error| self.layout_error(start, error))?;
        self.at = end;
        self.expect_after_layout()?;
        if let Some(sizes) = array.bounds() {
            let fits = spelling.check_shape(&sizes);
            fits.map_err(|error| self.layout_error(start, error))?;
        }
        array.spelling = Some(spelling);
        Ok(array)
    }

    fn dim(&mut self) -> Result<XlaDim, TextError> {
        if self.eat('?')? {
            return Ok(XlaDim::Unbounded);
        }
        if self.text[self.at..].starts_with("<=") {
            self.at += 2;
            return self.size().map(XlaDim::Bounded);
        }
        self.size().map(XlaDim::Size)
    }

    fn size(&mut self) -> Result<u64, TextError> {
        self.skip_blank()?;
        let rest = &self.text[self.at..];
        let digits = |c: char| !c.is_ascii_digit();
        let len = rest.find(digits).unwrap_or(rest.len());
        let value = rest[..len].parse::<i64>();
        let value = value.map_err(|_| self.error("a size below 2^63"))?;
        self.at += len;
        Ok(value.unsigned_abs())
    }

    /// Whether a layout comes next; its opening brace is eaten then.
    fn layout_follows(&mut self) -> Result<bool, TextError> {
        if !self.eat('{')? {
            return Ok(false);
        }
        self.skip_blank()?;
        let next = self.peek();
        Ok(next.is_some_and(|c| c.is_ascii_digit() || c == ':' || c == '-'))
    }

    fn expect_after_layout(&mut self) -> Result<(), TextError> {
        if self.eat('}')? {
            return Ok(());
        }
        Err(self.error("`}`, or attributes in the order T, L, E, S, SC, M after `:`"))
    }

    /// A mistake inside a layout that begins at `start`.
    fn layout_error(&self, start: usize, error: LayoutError) -> TextError {
        match error {
            LayoutError::Syntax { offset, wanted, .. } => TextError::at(self.text, offset, &wanted),
            error => {
                let mut refused = TextError::at(self.text, start, "a layout of these sizes");
                refused.layout = Some(Box::new(error));
                refused
            }
        }
    }

    fn word(&mut self) -> &'a str {
        let text = self.text;
        let rest = &text[self.at..];
        let end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let len = rest.find(end).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn skip_blank(&mut self) -> Result<(), TextError> {
        match blank_prefix(&self.text[self.at..]) {
            Ok(len) => {
                self.at += len;
                Ok(())
            }
            Err(offset) => {
                self.at += offset;
                Err(self.error("a comment that ends with `*/`"))
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn eat(&mut self, wanted: char) -> Result<bool, TextError> {
        self.skip_blank()?;
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        Ok(found)
    }

    fn expect(&mut self, wanted: char) -> Result<(), TextError> {
        if self.eat(wanted)? {
            Ok(())
        } else {
            Err(self.error(&format!("`{wanted}`")))
        }
    }

    fn error(&self, wanted: &str) -> TextError {
        TextError::at(self.text, self.at, wanted)
    }
}

/// Whether the array's bytes without padding are below 2^63; an unbounded size counts as 1.
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
