//! The text of one tensor type with its layout, as the command line takes it.
//!
//! Two ways of writing are read: MLIR's `tensor<4x8xsi8, {block = "2W2H", order = [1, 0]}>`, with the shorter forms
//! that papers use, and XLA's `f32[3,5]{1,0:T(2,2)}`. CuTe's `f32 (4,(2,4)):(2,(1,8))` is read, too; its elements have
//! 8 bits if no type is in front.

use crate::error::{LayoutError, TextError};
use crate::layout::Layout;
use crate::notation::Notation;
use crate::notation::cute::CuteLayout;
use crate::notation::fields::Field;
use crate::notation::scan::Scan;
use crate::notation::xla_shape::{XlaShape, XlaType};

/// A single tensor type.
#[derive(Clone, Debug)]
pub struct TensorText {
    /// Elements along each dimension.
    pub shape: Vec<u64>,
    /// The element type's name as written.
    pub dtype: String,
    /// Bits of an element of that type in memory, before the layout changes it.
    pub elem_bits: u32,
    /// The layout; row-major if none is written.
    pub layout: Layout,
}

/// Reads a tensor type in either way of writing; the whole text must be one.
///
/// # Errors
/// The place of the first mistake. A dimension of unknown size is a mistake, since a layout needs sizes.
pub fn parse_tensor(text: &str) -> Result<TensorText, TextError> {
    let mut reader = Reader {
        scan: Scan::new(text),
        values: Vec::new(),
    };
    let tensor = if reader.eat_word("tensor") {
        reader.mlir()?
    } else if let Some(start) = cute_modes(text) {
        reader.cute(start)?
    } else {
        reader.xla()?
    };
    match reader.peek_token() {
        None => Ok(tensor),
        Some(_) => Err(reader.error("the end of the type")),
    }
}

/// The byte at which the modes of a CuTe layout begin, after an element type or at the start. `None` for a text in
/// another notation.
#[must_use]
pub fn cute_modes(text: &str) -> Option<usize> {
    let blank = |text: &str| text.len() - text.trim_start().len();
    let start = blank(text);
    let word = |c: char| !c.is_ascii_alphanumeric();
    let rest = &text[start..];
    let begins = |c: char| c.is_ascii_digit() || c == '_' || c == '(';
    let modes = match rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
        false => start,
        true => {
            let end = start + rest.find(word).unwrap_or(rest.len());
            end + blank(&text[end..])
        }
    };
    let tail = &text[modes..];
    // A tuple of XLA's shapes contains names; CuTe's contains only numbers.
    let numbers = |c: char| c.is_ascii_digit() || c.is_whitespace() || "_(),:-".contains(c);
    (tail.starts_with(begins) && tail.contains(':') && tail.chars().all(numbers)).then_some(modes)
}

/// Bits in memory of an element type by its MLIR name: `i1` and `index` take whole bytes, the other types the width in
/// the name.
#[must_use]
pub fn mlir_bits(name: &str) -> Option<u32> {
    if let Some(part) = name
        .strip_prefix("complex<")
        .and_then(|rest| rest.strip_suffix('>'))
    {
        return mlir_bits(part).map(|bits| bits * 2);
    }
    if name == "index" {
        return Some(64);
    }
    let number = name.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let prefix = &name[..name.len() - number.len()];
    match prefix {
        "i" | "si" | "ui" => match plain_number(number)? {
            0 => None,
            1 => Some(8),
            bits => Some(bits),
        },
        "bf" => (number == "16").then_some(16),
        "tf" => (number == "32").then_some(32),
        "f" => match number {
            "16" | "32" | "64" | "80" | "128" => plain_number(number),
            _ => {
                let (bits, rest) = number.split_once('E')?;
                let small = matches!(bits, "4" | "6" | "8") && !rest.is_empty();
                small.then(|| plain_number(bits)).flatten()
            }
        },
        _ => None,
    }
}

fn plain_number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits && !text.starts_with('0') {
        text.parse().ok()
    } else {
        None
    }
}

/// Bits of an element type by its XLA name: whole bytes, unless the layout says `E(n)`.
#[must_use]
pub fn xla_bits(name: &str) -> Option<u32> {
    XlaType::from_name(name).map(XlaType::memory_bits)
}

struct Reader<'a> {
    scan: Scan<'a>,
    /// Keys of the encoding, and the start of the content of their values.
    values: Vec<(String, usize)>,
}

impl<'a> Reader<'a> {
    /// Reads the rest after the word `tensor`.
    fn mlir(&mut self) -> Result<TensorText, TextError> {
        self.expect('<')?;
        let mut shape = Vec::new();
        while self
            .scan
            .peek()
            .is_some_and(|c| c.is_ascii_digit() || c == '?')
        {
            if self.scan.peek() == Some('?') {
                return Err(self.error("a known size: a layout needs the sizes"));
            }
            shape.push(self.number()?);
            if self.scan.rest().starts_with('x') {
                self.scan.at += 1;
            } else {
                return Err(self.error("`x` and the next dimension or the element type"));
            }
        }
        let (dtype, elem_bits) = self.mlir_dtype()?;
        let start = self.scan.at;
        let fields = if self.eat(',') {
            self.encoding()?
        } else {
            Vec::new()
        };
        self.expect('>')?;
        let notation = Notation::from_fields(&fields, shape.len());
        let layout = notation.and_then(|notation| Layout::new(notation, &shape, elem_bits));
        let layout = layout.map_err(|error| self.refused(start, error))?;
        Ok(TensorText {
            shape,
            dtype,
            elem_bits,
            layout,
        })
    }

    fn mlir_dtype(&mut self) -> Result<(String, u32), TextError> {
        self.scan.skip_blank();
        let start = self.scan.at;
        // The dialect's names of types that MLIR 19 lacks.
        let dialect = self.eat('!');
        if dialect && self.word() == "hbir" {
            self.expect('.')?;
        }
        let mut name = self.word().to_owned();
        if dialect && !(name.starts_with('f') && name.contains('E')) {
            return Err(self.error_at(start, "an element type such as f32 or si8"));
        }
        if name == "complex" && self.eat('<') {
            let inner = self.word();
            name = format!("complex<{inner}>");
            self.expect('>')?;
        }
        let bits = mlir_bits(&name);
        let bits =
            bits.ok_or_else(|| self.error_at(start, "an element type such as f32 or si8"))?;
        Ok((name, bits))
    }

    /// Reads the encoding after the comma: a dictionary, or its keys without braces, or `layout = {...}`.
    fn encoding(&mut self) -> Result<Vec<(String, Field)>, TextError> {
        if self.eat('{') {
            let fields = self.fields('}')?;
            self.expect('}')?;
            return Ok(fields);
        }
        let start = self.scan.at;
        self.scan.skip_blank();
        if self.eat_word("layout") {
            if self.eat('=') {
                self.expect('{')?;
                let fields = self.fields('}')?;
                self.expect('}')?;
                return Ok(fields);
            }
            self.scan.at = start;
        }
        self.fields('>')
    }

    fn fields(&mut self, end: char) -> Result<Vec<(String, Field)>, TextError> {
        let mut fields = Vec::new();
        if self.peek_token() == Some(end) {
            return Ok(fields);
        }
        loop {
            self.scan.skip_blank();
            let key = self.word().to_owned();
            if key.is_empty() {
                return Err(self.error("a layout key such as block or order"));
            }
            self.expect('=')?;
            self.scan.skip_blank();
            let quoted = self.scan.peek() == Some('"');
            self.values
                .push((key.clone(), self.scan.at + usize::from(quoted)));
            let value = self.value()?;
            fields.push((key, value));
            if !self.eat(',') {
                return Ok(fields);
            }
        }
    }

    fn value(&mut self) -> Result<Field, TextError> {
        match self.peek_token() {
            Some('"') => self.string().map(Field::Str),
            Some('[') => self.list(),
            Some('-') => self.int().map(Field::Int),
            Some(c) if c.is_ascii_digit() => {
                let start = self.scan.at;
                if let Ok(value) = self.int()
                    && matches!(self.peek_token(), None | Some(',' | '}' | '>'))
                {
                    return Ok(Field::Int(value));
                }
                self.scan.at = start;
                Ok(Field::Str(self.bare_text()))
            }
            Some(c) if c.is_ascii_alphabetic() => {
                if self.eat_word("array") {
                    return self.array();
                }
                Ok(Field::Str(self.bare_text()))
            }
            _ => Err(self.error("a string, a number or a list")),
        }
    }

    /// `[1, 0]` or `[[0, 1], [1, 0]]`.
    fn list(&mut self) -> Result<Field, TextError> {
        self.expect('[')?;
        if self.peek_token() != Some('[') {
            return Ok(Field::Ints(self.ints(']')?));
        }
        let mut lists = Vec::new();
        loop {
            self.expect('[')?;
            lists.push(self.ints(']')?);
            if !self.eat(',') {
                self.expect(']')?;
                return Ok(Field::IntLists(lists));
            }
        }
    }

    /// Reads MLIR's `array<i64: 1, 0>` after the word.
    fn array(&mut self) -> Result<Field, TextError> {
        self.expect('<')?;
        self.scan.skip_blank();
        let _ = self.word();
        if self.eat(':') {
            return Ok(Field::Ints(self.ints('>')?));
        }
        self.expect('>')?;
        Ok(Field::Ints(Vec::new()))
    }

    fn ints(&mut self, end: char) -> Result<Vec<i64>, TextError> {
        let mut list = Vec::new();
        if self.eat(end) {
            return Ok(list);
        }
        loop {
            list.push(self.int()?);
            if !self.eat(',') {
                self.expect(end)?;
                return Ok(list);
            }
        }
    }

    /// A number with an optional type: `3 : i64`.
    fn int(&mut self) -> Result<i64, TextError> {
        self.scan.skip_blank();
        let start = self.scan.at;
        if self.scan.rest().starts_with('-') {
            self.scan.at += 1;
        }
        let rest = self.scan.rest();
        self.scan.at += rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let value = self.scan.text[start..self.scan.at].parse::<i64>();
        let value = value.map_err(|_| self.error_at(start, "a number below 2^63"))?;
        if self.peek_token() == Some(':') {
            self.expect(':')?;
            self.scan.skip_blank();
            let kind = self.scan.at;
            if mlir_bits(self.word()).is_none() {
                return Err(self.error_at(kind, "an integer type such as i64"));
            }
        }
        Ok(value)
    }

    fn string(&mut self) -> Result<String, TextError> {
        self.expect('"')?;
        let rest = self.scan.rest();
        let len = rest
            .find('"')
            .ok_or_else(|| self.error("a closing quote"))?;
        self.scan.at += len + 1;
        Ok(rest[..len].to_owned())
    }

    /// Unquoted text up to the end of the value.
    fn bare_text(&mut self) -> String {
        let rest = self.scan.rest();
        let mut depth = 0usize;
        let mut len = rest.len();
        for (i, c) in rest.char_indices() {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                ',' | '}' | '>' if depth == 0 => {
                    len = i;
                    break;
                }
                _ => {}
            }
        }
        self.scan.at += len;
        rest[..len].trim_end().to_owned()
    }

    /// `f32 (4,8):(8,1)`, whose modes begin at `start`.
    fn cute(&mut self, start: usize) -> Result<TensorText, TextError> {
        let (dtype, elem_bits) = match self.scan.text[..start].trim().is_empty() {
            true => ("si8".to_owned(), 8),
            false => self.mlir_dtype()?,
        };
        let shifted = |error: TextError| TextError {
            offset: start + error.offset,
            ..error
        };
        let cute = CuteLayout::parse(&self.scan.text[start..]).map_err(shifted)?;
        self.scan.at = self.scan.text.len();
        let layout = cute.to_layout(elem_bits);
        let layout = layout.map_err(|error| self.refused(start, error))?;
        Ok(TensorText {
            shape: layout.shape().to_vec(),
            dtype,
            elem_bits,
            layout,
        })
    }

    /// `f32[3,5]{1,0:T(2,2)}`.
    fn xla(&mut self) -> Result<TensorText, TextError> {
        self.scan.skip_blank();
        let start = self.scan.at;
        let shape = XlaShape::parse_prefix(self.scan.text, start);
        let (shape, end) = shape.map_err(|error| match error.offset == start {
            true => {
                let wanted = "tensor<...> or an XLA shape such as f32[8,128]{1,0}";
                let hint = error.hint;
                TextError {
                    hint,
                    ..self.error_at(start, wanted)
                }
            }
            false => error,
        })?;
        let XlaShape::Array(array) = shape else {
            return Err(self.error_at(start, "an array: a layout places the elements of one"));
        };
        self.scan.at = end;
        let Some(sizes) = array.bounds() else {
            return Err(self.error_at(start, "known sizes: a layout needs the sizes"));
        };
        // XLA packs elements only if the layout says so; row-major of a narrow type would pack them.
        let elem_bits = array.element.type_bits();
        let notation = match array.notation {
            None if elem_bits == array.element.memory_bits() => Notation::RowMajor,
            _ => Notation::Xla(array.notation_or_default()),
        };
        let layout = Layout::new(notation, &sizes, elem_bits);
        Ok(TensorText {
            layout: layout.map_err(|error| self.refused(start, error))?,
            shape: sizes,
            dtype: array.element.name().to_owned(),
            elem_bits,
        })
    }

    fn number(&mut self) -> Result<u64, TextError> {
        let number = self.scan.number();
        number.ok_or_else(|| self.error("a size below 2^63"))
    }

    fn word(&mut self) -> &'a str {
        let text = self.scan.text;
        let rest = &text[self.scan.at..];
        let len = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        self.scan.at += len;
        &rest[..len]
    }

    fn eat_word(&mut self, wanted: &str) -> bool {
        self.scan.skip_blank();
        let start = self.scan.at;
        let found = self.word() == wanted;
        if !found {
            self.scan.at = start;
        }
        found
    }

    fn peek_token(&mut self) -> Option<char> {
        self.scan.skip_blank();
        self.scan.peek()
    }

    fn eat(&mut self, wanted: char) -> bool {
        self.scan.skip_blank();
        self.scan.eat(wanted)
    }

    fn expect(&mut self, wanted: char) -> Result<(), TextError> {
        if self.eat(wanted) {
            Ok(())
        } else {
            Err(self.error(&format!("`{wanted}`")))
        }
    }

    fn error(&self, wanted: &str) -> TextError {
        self.error_at(self.scan.at, wanted)
    }

    fn error_at(&self, offset: usize, wanted: &str) -> TextError {
        TextError::at(self.scan.text, offset, wanted)
    }

    /// The error for a layout that its own rules refuse, placed at the wrong value if the error names its key.
    fn refused(&self, start: usize, error: LayoutError) -> TextError {
        let (key, inside) = error.place();
        let value = self
            .values
            .iter()
            .find(|(name, _)| Some(name.as_str()) == key);
        let offset = value.map_or(start, |(_, at)| at + inside);
        let mut refused = self.error_at(offset, "a layout that its notation allows");
        refused.layout = Some(Box::new(error));
        refused
    }
}
