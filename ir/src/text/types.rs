//! The grammar of types, and of the layout in a tensor type's encoding.
//!
//! Example: `tensor<?x3xf32, {dims = ["B", 3], order = [1, 0]}>` has a named size and a column-major layout.

use super::lexer::is_word;
use super::parser::{Fail, PResult, Parser};
use super::print::{is_function, print_type};
use crate::codes;
use crate::span::Span;
use crate::types::{DType, Dim, TensorType, Type};
use optc_layout::{Field, Layout, LayoutError, Notation};
use std::borrow::Cow;
use std::sync::Arc;

/// One `key = value` of an encoding, with the span of the value.
#[derive(Debug)]
pub(super) struct Entry {
    key: String,
    value: Value,
    span: Span,
}

/// A value in an encoding.
#[derive(Debug)]
pub(super) enum Value {
    Field(Field),
    /// A list that contains names of dimensions.
    Names(Vec<DimName>),
}

/// One entry of `dims = […]`.
#[derive(Debug)]
pub(super) enum DimName {
    Size(u64),
    Name(String),
}

impl<'s> Parser<'s> {
    /// Reads a type.
    pub(super) fn ty(&mut self) -> PResult<Type> {
        self.deeper(Self::ty_inside)
    }

    fn ty_inside(&mut self) -> PResult<Type> {
        self.skip();
        let start = self.pos;
        if let Some(dtype) = self.element_type() {
            return Ok(Type::Scalar(dtype));
        }
        match self.byte() {
            Some(b'!') => return self.bang_type(start),
            Some(b'(') => return self.function_type(),
            _ => {}
        }
        let Some(word) = self.word() else {
            return Err(self.wanted("a type", ""));
        };
        if word == "tensor" && self.byte() == Some(b'<') {
            return self.tensor_cached(start);
        }
        if is_plain_type(word) {
            return Ok(Type::Other(Arc::from(word)));
        }
        if is_bracket_type(word) && self.byte() == Some(b'<') {
            self.group()?;
            return self.other_since(start);
        }
        self.pos = start;
        Err(self.wanted("a type", ""))
    }

    /// Consumes the name of an element type if it is at the cursor: a word, `complex<…>` of one, or a type of the
    /// dialect.
    fn element_type(&mut self) -> Option<DType> {
        self.skip();
        let start = self.pos;
        let dialect = self.byte() == Some(b'!');
        self.pos += usize::from(dialect);
        let word = self.word_here().unwrap_or_default();
        let found = if word == "complex" && !dialect && self.eat("<") {
            let part = self.word().and_then(DType::parse);
            let closed = self.eat(">");
            let of = |dtype: &DType| closed && dtype.complex_part() == part && part.is_some();
            [DType::Complex64, DType::Complex128].into_iter().find(of)
        } else {
            DType::parse(self.src.get(start..self.pos).unwrap_or_default())
        };
        if found.is_none() {
            self.pos = start;
        }
        found
    }

    /// Returns whether a type starts at the cursor.
    pub(super) fn type_follows(&mut self) -> bool {
        let start = self.pos;
        let Some(word) = self.word() else {
            return matches!(self.byte(), Some(b'!' | b'('));
        };
        let bracket = self.byte() == Some(b'<');
        self.pos = start;
        let named = DType::parse(word).is_some() || is_plain_type(word);
        named || (bracket && (word == "tensor" || is_bracket_type(word)))
    }

    fn other_since(&mut self, start: usize) -> PResult<Type> {
        let text = self.raw_since(start)?;
        Ok(Type::Other(Arc::from(text)))
    }

    fn bang_type(&mut self, start: usize) -> PResult<Type> {
        self.pos += 1;
        let Some(word) = self.word_here() else {
            return Err(self.wanted("a name", "after `!`"));
        };
        let name = self.src.get(start..self.pos).unwrap_or_default();
        if let Some(ty) = self.alias_type(name)? {
            return Ok(ty);
        }
        if self.byte() == Some(b'<') {
            if word == "tensor" || is_bracket_type(word) {
                self.pos = start;
                let fail = self.wanted("a type", "");
                return Err(fail.hint(format!("`{word}<…>` has no `!` before it")));
            }
            self.group()?;
        } else if !word.contains('.') {
            let span = self.span(start, self.pos);
            let message = format!("the type alias `{name}` is not defined");
            return Err(Fail::at(codes::ALIAS_UNDEFINED, message, span, "used here"));
        }
        self.other_since(start)
    }

    /// `(a, b) -> c`, kept as text in one spelling.
    fn function_type(&mut self) -> PResult<Type> {
        let operands = self.type_list()?;
        self.expect("->", "in a function type")?;
        let results = if self.at("(") {
            self.type_list()?
        } else {
            vec![self.ty()?]
        };
        let list = |types: &[Type]| types.iter().map(print_type).collect::<Vec<_>>().join(", ");
        let text = match results.as_slice() {
            [only] if !is_function(only) => format!("({}) -> {}", list(&operands), list(&results)),
            _ => format!("({}) -> ({})", list(&operands), list(&results)),
        };
        self.spend(text.len() as u64)?;
        Ok(Type::Other(Arc::from(text)))
    }

    /// `(a, b)`.
    pub(super) fn type_list(&mut self) -> PResult<Vec<Type>> {
        self.expect("(", "to open a list of types")?;
        let mut types = Vec::new();
        if self.eat(")") {
            return Ok(types);
        }
        loop {
            types.push(self.ty()?);
            if self.eat(")") {
                return Ok(types);
            }
            if !self.eat(",") {
                return Err(self.wanted("`,` or `)`", "in a list of types"));
            }
        }
    }

    /// A tensor type after the word `tensor`; equal texts share one type.
    fn tensor_cached(&mut self, start: usize) -> PResult<Type> {
        let Some(end) = closing(self.src.as_bytes(), self.pos) else {
            return self.tensor(start);
        };
        let key = self.src.get(start..end).unwrap_or_default();
        if let Some(ty) = self.types.get(key) {
            self.pos = end;
            return Ok(ty.clone());
        }
        let ty = self.tensor(start)?;
        if self.pos == end {
            self.types.insert(key, ty.clone());
        }
        Ok(ty)
    }

    fn tensor(&mut self, start: usize) -> PResult<Type> {
        self.pos += 1;
        if self.eat("*") {
            self.expect("x", "after `tensor<*`")?;
            return self.foreign_tensor(start);
        }
        let dims = self.dims()?;
        self.skip();
        let elem_start = self.pos;
        let Some(dtype) = self.element_type() else {
            self.pos = elem_start;
            return self.foreign_tensor(start);
        };
        let mut ty = TensorType::new(dims, dtype);
        if self.eat(",") {
            self.encoding(&mut ty)?;
        }
        if self.eat(">") {
            return Ok(Type::from(ty));
        }
        let open = self.span(start, start + "tensor<".len());
        let what = if ty.notation == Notation::RowMajor {
            "`>` or `,`"
        } else {
            "`>`"
        };
        let so_far = self.src.get(start..self.pos).unwrap_or_default().trim_end();
        let hint = format!("close the type: `{so_far}>`");
        Err(self
            .wanted(what, "in a tensor type")
            .label(open, "opened here")
            .hint(hint))
    }

    /// A tensor of unknown rank, or of elements that have no [`DType`], from its element type on. It is kept as text.
    fn foreign_tensor(&mut self, start: usize) -> PResult<Type> {
        if !self.type_follows() {
            return Err(self.wanted("a dimension or an element type", "in a tensor type"));
        }
        self.ty()?;
        if self.eat(",") {
            self.attr()?;
        }
        self.expect(">", "to close the tensor type")?;
        self.other_since(start)
    }

    /// `4x?x`.
    fn dims(&mut self) -> PResult<Vec<Dim>> {
        let mut dims = Vec::new();
        loop {
            let start = self.peek().map_or(self.pos, |_| self.pos);
            let dim = match self.byte() {
                Some(b'?') => {
                    self.pos += 1;
                    Dim::Unknown
                }
                Some(b'0'..=b'9') => self.size(start)?,
                _ => return Ok(dims),
            };
            if self.byte() != Some(b'x') {
                return Err(self.wanted("`x`", "after a dimension"));
            }
            self.pos += 1;
            dims.push(dim);
        }
    }

    fn size(&mut self, start: usize) -> PResult<Dim> {
        let digits = self.digits();
        match digits.parse::<u64>() {
            Ok(n) if i64::try_from(n).is_ok() => Ok(Dim::Fixed(n)),
            Ok(_) | Err(_) => {
                let span = self.span(start, self.pos);
                let message = format!("the dimension `{digits}` is not below 2^63");
                Err(Fail::at(
                    codes::NUMBER_OUT_OF_RANGE,
                    message,
                    span,
                    "too large",
                ))
            }
        }
    }

    /// The encoding after the comma of a tensor type: `{…}`, an alias of it, or fields without braces.
    fn encoding(&mut self, ty: &mut TensorType) -> PResult<()> {
        self.skip();
        let start = self.pos;
        let entries = self.deeper(Self::encoding_entries)?;
        let span = self.span(start, self.pos);
        self.apply_encoding(ty, entries, span)
    }

    pub(super) fn encoding_entries(&mut self) -> PResult<Vec<Entry>> {
        let mut entries = Vec::new();
        match self.peek() {
            Some(b'{') => {
                self.pos += 1;
                self.fields(&mut entries, b'}')?;
                self.expect("}", "to close the layout")?;
            }
            Some(b'#') => return self.encoding_alias(),
            Some(b) if b.is_ascii_alphabetic() => self.fields(&mut entries, b'>')?,
            _ => return Err(self.not_a_dictionary()),
        }
        Ok(entries)
    }

    fn not_a_dictionary(&mut self) -> Fail {
        let mut fail = self.wanted("a layout", "as the encoding of a tensor type");
        fail.recode(codes::ENCODING_KIND);
        fail.hint("a layout is a dictionary such as {block = \"2W2H\", order = [1, 0]}")
    }

    fn encoding_alias(&mut self) -> PResult<Vec<Entry>> {
        let start = self.pos;
        let n = 1 + self
            .rest()
            .iter()
            .skip(1)
            .take_while(|&&b| is_word(b))
            .count();
        let name = self.take(n);
        let Some(at) = self.aliases.get(name).map(|a| a.at) else {
            self.pos = start;
            return Err(self.not_a_dictionary());
        };
        self.spend(16)?;
        let end = self.pos;
        self.pos = at;
        let entries = self.deeper(|p| {
            if matches!(p.peek(), Some(b'{' | b'#')) {
                p.encoding_entries()
            } else {
                Err(p.not_a_dictionary())
            }
        });
        self.pos = end;
        entries
    }

    /// Fields up to the closing byte, which is not consumed; the fields of `layout = {…}` are added too.
    fn fields(&mut self, entries: &mut Vec<Entry>, close: u8) -> PResult<()> {
        if self.peek() == Some(close) {
            return Ok(());
        }
        loop {
            self.skip();
            let start = self.pos;
            let Some(key) = self.field_key()? else {
                return Err(self.wanted("a field of the layout", "such as `block` or `order`"));
            };
            self.expect("=", &format!("after `{key}`"))?;
            if key == "layout" && matches!(self.peek(), Some(b'{' | b'#')) {
                entries.extend(self.deeper(Self::encoding_entries)?);
            } else {
                self.skip();
                let from = self.pos;
                let value = self.field_value()?;
                let span = self.span(from, self.pos);
                if entries.iter().any(|e| e.key == *key) {
                    let whole = self.span(start, self.pos);
                    let message = format!("the field `{key}` is given twice");
                    return Err(Fail::at(
                        codes::ATTRIBUTE_DUPLICATE,
                        message,
                        whole,
                        "the second one",
                    ));
                }
                entries.push(Entry {
                    key: key.into_owned(),
                    value,
                    span,
                });
            }
            if self.eat(",") {
                continue;
            }
            return Ok(());
        }
    }

    fn field_key(&mut self) -> PResult<Option<Cow<'s, str>>> {
        if self.byte() == Some(b'"') {
            return self.string("as the name of a field").map(Some);
        }
        Ok(self.word().map(Cow::Borrowed))
    }

    fn field_value(&mut self) -> PResult<Value> {
        match self.peek() {
            Some(b'"') => {
                let text = self.string("as a value of the layout")?;
                Ok(Value::Field(Field::Str(text.into_owned())))
            }
            Some(b'[') => self.field_list(),
            Some(b'#') => self.field_alias(),
            Some(b'-') => self.field_int().map(|n| Value::Field(Field::Int(n))),
            Some(b) if b.is_ascii_alphanumeric() || b == b'_' => self.bare_value(),
            _ => Err(self.wanted("a string, a number or a list", "in a layout")),
        }
    }

    fn field_alias(&mut self) -> PResult<Value> {
        let start = self.pos;
        let n = 1 + self
            .rest()
            .iter()
            .skip(1)
            .take_while(|&&b| is_word(b))
            .count();
        let name = self.take(n);
        let Some(at) = self.aliases.get(name).map(|a| a.at) else {
            let span = self.span(start, self.pos);
            let message = format!("the attribute alias `{name}` is not defined");
            return Err(Fail::at(codes::ALIAS_UNDEFINED, message, span, "used here"));
        };
        let end = self.pos;
        self.pos = at;
        let value = self.deeper(Self::field_value);
        self.pos = end;
        value
    }

    /// An integer, or text without quotes such as `128W` or `8d2 128d3`.
    fn bare_value(&mut self) -> PResult<Value> {
        let start = self.pos;
        let mut end = start;
        loop {
            let word = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'|' | b'_');
            let n = self.rest().iter().take_while(word).count();
            if n == 0 {
                break;
            }
            self.pos += n;
            end = self.pos;
            let gap = self.rest().iter().take_while(|&&b| b == b' ').count();
            self.pos += gap;
        }
        self.pos = end;
        let text = self.src.get(start..end).unwrap_or_default();
        if text.bytes().all(|b| b.is_ascii_digit()) {
            self.pos = start;
            return self.field_int().map(|n| Value::Field(Field::Int(n)));
        }
        Ok(Value::Field(Field::Str(text.to_owned())))
    }

    /// An integer, optionally followed by `: i64`, as `mlir-opt` writes it.
    fn field_int(&mut self) -> PResult<i64> {
        self.skip();
        let start = self.pos;
        let Some(number) = self.number().filter(|n| !n.float) else {
            return Err(self.wanted("an integer", "in a layout"));
        };
        let span = self.span(start, self.pos);
        let dtype = DType::Int {
            bits: 64,
            sign: crate::types::Sign::Signless,
        };
        let Some(value) = super::number::integer(number, dtype) else {
            let message = format!("`{}` does not fit into 64 bits", number.text);
            return Err(Fail::at(
                codes::NUMBER_OUT_OF_RANGE,
                message,
                span,
                "out of range",
            ));
        };
        if self.eat(":") {
            self.ty()?;
        }
        Ok(value)
    }

    fn field_list(&mut self) -> PResult<Value> {
        self.pos += 1;
        let mut names = Vec::new();
        let mut ints = Vec::new();
        let mut lists = Vec::new();
        let mut count = 0usize;
        if !self.eat("]") {
            loop {
                count += 1;
                match self.peek() {
                    Some(b'[') => lists.push(self.int_list()?),
                    Some(b'"') => names.push(DimName::Name(self.string("in `dims`")?.into_owned())),
                    Some(b) if b.is_ascii_alphabetic() || b == b'?' => names.push(self.bare_dim()),
                    _ => {
                        let n = self.field_int()?;
                        ints.push(n);
                        if let Ok(n) = u64::try_from(n) {
                            names.push(DimName::Size(n));
                        }
                    }
                }
                if self.eat("]") {
                    break;
                }
                if !self.eat(",") {
                    return Err(self.wanted("`,` or `]`", "in a list"));
                }
            }
        }
        if ints.len() == count {
            Ok(Value::Field(Field::Ints(ints)))
        } else if lists.len() == count {
            Ok(Value::Field(Field::IntLists(lists)))
        } else if names.len() == count {
            Ok(Value::Names(names))
        } else {
            Err(self.wanted("a list of one kind", "in a layout"))
        }
    }

    fn bare_dim(&mut self) -> DimName {
        if self.eat("?") {
            return DimName::Name("?".to_owned());
        }
        DimName::Name(self.word().unwrap_or("?").to_owned())
    }

    fn int_list(&mut self) -> PResult<Vec<i64>> {
        self.pos += 1;
        let mut ints = Vec::new();
        if self.eat("]") {
            return Ok(ints);
        }
        loop {
            ints.push(self.field_int()?);
            if self.eat("]") {
                return Ok(ints);
            }
            if !self.eat(",") {
                return Err(self.wanted("`,` or `]`", "in a list"));
            }
        }
    }

    fn apply_encoding(
        &mut self,
        ty: &mut TensorType,
        entries: Vec<Entry>,
        span: Span,
    ) -> PResult<()> {
        let mut fields = Vec::with_capacity(entries.len());
        let mut places = Vec::with_capacity(entries.len());
        for entry in entries {
            match (entry.key.as_str(), entry.value) {
                ("dims", value) => name_dims(ty, value, entry.span)?,
                (_, Value::Field(field)) => {
                    places.push((entry.key.clone(), entry.span));
                    fields.push((entry.key, field));
                }
                (key, Value::Names(_)) => {
                    let message = format!("found names in `{key}`, wanted integers");
                    return Err(Fail::at(
                        codes::LAYOUT_FIELD,
                        message,
                        entry.span,
                        "this list",
                    ));
                }
            }
        }
        if fields.is_empty() {
            return Ok(());
        }
        let refuse = |error: LayoutError| layout_refused(&error, &places, span);
        ty.notation = Notation::from_fields(&fields, ty.rank()).map_err(refuse)?;
        if let Some(shape) = ty.shape() {
            Layout::new(ty.notation.clone(), &shape, ty.dtype.bits()).map_err(refuse)?;
        }
        Ok(())
    }
}

/// The error of the layout crate, with the span of the field that it names.
fn layout_refused(error: &LayoutError, places: &[(String, Span)], span: Span) -> Fail {
    let text = error.to_string();
    let place = |key: &str| {
        places
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, place)| *place)
    };
    if let LayoutError::Syntax { key, offset, .. } = error
        && let Some(value) = place(key)
    {
        let at = value
            .start
            .saturating_add(u32::try_from(*offset).unwrap_or(u32::MAX));
        let at = at.saturating_add(1).min(value.end);
        let one = Span {
            start: at,
            end: at.saturating_add(1).min(value.end).max(at),
        };
        return Fail::at(codes::LAYOUT_INVALID, text, one, "in this layout");
    }
    let at = match places {
        [(_, only)] => *only,
        _ => {
            let named = places
                .iter()
                .find(|(key, _)| text.contains(&format!("`{key}`")));
            named.map_or(span, |(_, place)| *place)
        }
    };
    Fail::at(codes::LAYOUT_INVALID, text, at, "in this layout")
}

fn name_dims(ty: &mut TensorType, value: Value, span: Span) -> PResult<()> {
    let names = match value {
        Value::Names(names) => names,
        Value::Field(Field::Ints(ints)) => {
            let size = |n: i64| u64::try_from(n).map_or(DimName::Name("?".into()), DimName::Size);
            ints.into_iter().map(size).collect()
        }
        Value::Field(Field::IntLists(lists)) if lists.is_empty() => Vec::new(),
        Value::Field(_) => {
            let message = "`dims` wants a list of numbers and names";
            return Err(Fail::at(codes::DIMS_FIELD, message, span, "no such list"));
        }
    };
    if names.len() != ty.rank() {
        let message = format!(
            "`dims` has {} entries, wanted {}, one a dimension",
            names.len(),
            ty.rank()
        );
        return Err(Fail::at(codes::DIMS_FIELD, message, span, "this list"));
    }
    for (i, (dim, name)) in ty.dims.iter_mut().zip(names).enumerate() {
        *dim = match (&*dim, name) {
            (Dim::Unknown, DimName::Name(name)) if name == "?" => Dim::Unknown,
            (Dim::Unknown, DimName::Name(name)) if !name.is_empty() => Dim::named(&name),
            (Dim::Fixed(n), DimName::Size(m)) if *n == m => Dim::Fixed(m),
            (old, name) => {
                let found = match name {
                    DimName::Size(n) => n.to_string(),
                    DimName::Name(s) => format!("\"{s}\""),
                };
                let wanted = if *old == Dim::Unknown {
                    "a name".to_owned()
                } else {
                    old.to_string()
                };
                let message = format!(
                    "`dims` says {found} for dimension {i}, wanted {wanted} as in the shape"
                );
                return Err(Fail::at(
                    codes::DIMS_FIELD,
                    message,
                    span,
                    "does not agree with the shape",
                ));
            }
        };
    }
    Ok(())
}

/// Floating-point types of MLIR that have no [`DType`].
const OTHER_FLOATS: [&str; 5] = ["f128", "f6E2M3FN", "f6E3M2FN", "f80", "tf32"];

/// The widest integer type of MLIR.
const WIDEST_INT: u32 = (1 << 24) - 1;

/// Built-in types that are one word and have no [`DType`].
fn is_plain_type(word: &str) -> bool {
    let int = || {
        let digits = ["si", "ui", "i"]
            .iter()
            .find_map(|p| word.strip_prefix(p))?;
        let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
        digits
            .parse::<u32>()
            .ok()
            .filter(|&n| plain && n <= WIDEST_INT)
    };
    matches!(word, "index" | "none") || OTHER_FLOATS.contains(&word) || int().is_some()
}

fn is_bracket_type(word: &str) -> bool {
    matches!(word, "tensor" | "memref" | "vector" | "complex" | "tuple")
}

/// The position after the `>` that closes the `<` at `open`.
fn closing(bytes: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut i = open;
    loop {
        match bytes.get(i)? {
            b'<' => depth += 1,
            b'>' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(i + 1);
                }
            }
            b'"' => loop {
                i += 1;
                match bytes.get(i)? {
                    b'"' => break,
                    b'\\' => i += 1,
                    b'\n' => return None,
                    _ => {}
                }
            },
            b'-' | b'%' | b'\n' => return None,
            _ => {}
        }
        i += 1;
    }
}

/// Returns whether both are the same type: equal, or different only in the notation of one layout.
pub(crate) fn same_type(a: &Type, b: &Type) -> bool {
    if let (Type::Tensor(x), Type::Tensor(y)) = (a, b) {
        if Arc::ptr_eq(x, y) {
            return true;
        }
        if x.dims != y.dims || x.dtype != y.dtype {
            return false;
        }
        if x.notation == y.notation {
            return true;
        }
        return match (x.layout(), y.layout()) {
            (Some(Ok(x)), Some(Ok(y))) => x.same_function(&y),
            _ => false,
        };
    }
    a == b
}
