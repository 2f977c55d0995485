//! The grammar of attributes.
//!
//! Example: `{axis = 1, shape = ["S", 4], u}` is an integer, an array, and an attribute without a value.
//!
//! An attribute that the IR has no form for is kept as its text, so that attributes of other dialects survive.

use super::lexer::hex_value;
use super::number::{self, NumberText, all_equal};
use super::parser::{Fail, PResult, Parser};
use crate::attr::{Attr, AttrDict, Dense};
use crate::codes;
use crate::span::Span;
use crate::tensor::wrap_int;
use crate::types::{DType, Sign, Type};
use std::borrow::Cow;
use std::sync::Arc;

/// The words that start an attribute which is kept as text, even without a bracket after the word.
const RAW_WORDS: [&str; 9] = [
    "affine_map",
    "affine_set",
    "dense_resource",
    "distinct",
    "loc",
    "opaque",
    "sparse",
    "strided",
    "vhlo",
];

impl<'s> Parser<'s> {
    /// Reads `{a = 1, b}` at the cursor.
    pub(super) fn attr_dict(&mut self) -> PResult<AttrDict> {
        self.expect("{", "to open the attributes")?;
        let mut dict = AttrDict::new();
        if self.eat("}") {
            return Ok(dict);
        }
        loop {
            self.skip();
            let start = self.pos;
            let name = self.attr_name()?;
            let span = self.span(start, self.pos);
            let value = if self.eat("=") {
                self.attr()?
            } else {
                Attr::Unit
            };
            if dict.get(&name).is_some() {
                let message = format!("the attribute `{name}` is given twice");
                return Err(Fail::at(
                    codes::ATTRIBUTE_DUPLICATE,
                    message,
                    span,
                    "the second one",
                ));
            }
            dict.set(&name, value);
            if self.eat("}") {
                return Ok(dict);
            }
            if !self.eat(",") {
                return Err(self.wanted("`,` or `}`", "after an attribute"));
            }
        }
    }

    fn attr_name(&mut self) -> PResult<Cow<'s, str>> {
        if self.peek() == Some(b'"') {
            return self.string("as the name of an attribute");
        }
        match self.word() {
            Some(word) => Ok(Cow::Borrowed(word)),
            None => Err(self.wanted("the name of an attribute", "")),
        }
    }

    /// Reads one attribute.
    pub(super) fn attr(&mut self) -> PResult<Attr> {
        self.deeper(Self::attr_inside)
    }

    fn attr_inside(&mut self) -> PResult<Attr> {
        let first = self.peek();
        self.nodes += 1;
        match first {
            Some(b'"') => self.string_attr(),
            Some(b'[') => self.array_attr(),
            Some(b'{') => self.attr_dict().map(Attr::Dict),
            Some(b'@') => self.symbol_attr(),
            Some(b'#') => self.hash_attr(),
            Some(b'!' | b'(') => self.ty().map(Attr::Type),
            Some(b'-' | b'0'..=b'9') => self.number_attr(),
            Some(_) => self.word_attr(),
            None => Err(self.wanted("an attribute", "")),
        }
    }

    fn string_attr(&mut self) -> PResult<Attr> {
        let start = self.pos;
        let bytes = self.string_bytes()?;
        let text = std::str::from_utf8(&bytes).ok().map(Arc::<str>::from);
        if self.at(":") {
            self.pos += 1;
            self.ty()?;
            return self.raw_since(start).map(|t| Attr::Raw(Arc::from(t)));
        }
        match text {
            Some(text) => Ok(Attr::Str(text)),
            None => self.raw_since(start).map(|t| Attr::Raw(Arc::from(t))),
        }
    }

    fn array_attr(&mut self) -> PResult<Attr> {
        self.pos += 1;
        let mut items = Vec::new();
        if self.eat("]") {
            return Ok(Attr::Array(items));
        }
        loop {
            items.push(self.attr()?);
            if self.eat("]") {
                return Ok(Attr::Array(items));
            }
            if !self.eat(",") {
                return Err(self.wanted("`,` or `]`", "in a list"));
            }
        }
    }

    fn symbol_attr(&mut self) -> PResult<Attr> {
        let start = self.pos;
        self.pos += 1;
        let name = self.symbol_name()?;
        if !self.rest().starts_with(b"::") {
            return Ok(Attr::Symbol(Arc::from(&*name)));
        }
        while self.rest().starts_with(b"::@") {
            self.pos += 3;
            self.symbol_name()?;
        }
        self.raw_since(start).map(|t| Attr::Raw(Arc::from(t)))
    }

    fn hash_attr(&mut self) -> PResult<Attr> {
        let start = self.pos;
        self.pos += 1;
        let Some(word) = self.word_here() else {
            return Err(self.wanted("a name", "after `#`"));
        };
        if word == "hbir.external" {
            return self.external_attr(start);
        }
        if word == "hbir.dense" {
            return self.dense_attr(start);
        }
        let name = self.src.get(start..self.pos).unwrap_or_default();
        if let Some(attr) = self.alias_attr(name)? {
            return Ok(attr);
        }
        if !word.contains('.') && self.byte() != Some(b'<') {
            let span = self.span(start, self.pos);
            let message = format!("the attribute alias `{name}` is not defined");
            return Err(Fail::at(codes::ALIAS_UNDEFINED, message, span, "used here"));
        }
        self.raw_rest(start)
    }

    /// Reads the brackets and the type that follow an opaque attribute.
    fn raw_rest(&mut self, start: usize) -> PResult<Attr> {
        while matches!(self.byte(), Some(b'<' | b'(' | b'[')) {
            self.group()?;
        }
        let end = self.pos;
        if self.eat(":") {
            self.ty()?;
        } else {
            self.pos = end;
        }
        self.raw_since(start).map(|t| Attr::Raw(Arc::from(t)))
    }

    fn external_attr(&mut self, start: usize) -> PResult<Attr> {
        self.expect("<", "after `#hbir.external`")?;
        let file = self.string("as the file of `#hbir.external`")?;
        self.expect(",", "after the file")?;
        let offset = self.unsigned("the offset")?;
        self.expect(",", "after the offset")?;
        let length = self.unsigned("the length")?;
        self.expect(">", "to close `#hbir.external<`")?;
        if offset.checked_add(length).is_none() {
            let span = self.span(start, self.pos);
            let message = "the last byte of the external data lies beyond 2^64";
            return Err(Fail::at(
                codes::NUMBER_OUT_OF_RANGE,
                message,
                span,
                "offset plus length overflows",
            ));
        }
        Ok(Attr::External {
            file: Arc::from(&*file),
            offset,
            length,
        })
    }

    /// Reads a number from 0 to 2^64 - 1.
    pub(super) fn unsigned(&mut self, what: &str) -> PResult<u64> {
        self.skip();
        let start = self.pos;
        let digits = self.digits();
        if digits.is_empty() {
            return Err(self.wanted("a number", &format!("as {what}")));
        }
        digits.parse().map_err(|_| {
            let span = self.span(start, self.pos);
            Fail::at(
                codes::NUMBER_OUT_OF_RANGE,
                format!("{what} is not below 2^64"),
                span,
                "too large",
            )
        })
    }

    fn number_attr(&mut self) -> PResult<Attr> {
        self.skip();
        let start = self.pos;
        let Some(number) = self.number() else {
            return Err(self.wanted("a number", "after `-`"));
        };
        let end = self.pos;
        let span = self.span(start, end);
        let ty = if self.eat(":") {
            Some(self.ty()?)
        } else {
            self.pos = end;
            None
        };
        match ty {
            None if number.float => float_attr(number, DType::F64, span),
            None => int_attr(number, None, span),
            Some(Type::Scalar(dtype)) if dtype.is_float() => float_attr(number, dtype, span),
            Some(Type::Scalar(dtype)) if !dtype.computes() => {
                self.raw_since(start).map(|t| Attr::Raw(Arc::from(t)))
            }
            Some(Type::Scalar(dtype)) => match int_attr(number, Some(dtype), span) {
                Err(_) if dtype == UI64 && number::unsigned(number).is_some() => {
                    self.raw_since(start).map(|t| Attr::Raw(Arc::from(t)))
                }
                other => other,
            },
            Some(Type::Tensor(_) | Type::Other(_)) => {
                self.raw_since(start).map(|t| Attr::Raw(Arc::from(t)))
            }
        }
    }

    fn word_attr(&mut self) -> PResult<Attr> {
        let start = self.pos;
        let Some(word) = self.word() else {
            return Err(self.wanted("an attribute", ""));
        };
        match word {
            "true" => Ok(Attr::Bool(true)),
            "false" => Ok(Attr::Bool(false)),
            "unit" => Ok(Attr::Unit),
            "dense" => self.dense_attr(start),
            "array" => self.packed_array(start),
            _ if RAW_WORDS.contains(&word) => self.raw_rest(start),
            _ => {
                self.pos = start;
                if self.type_follows() {
                    return self.ty().map(Attr::Type);
                }
                let span = self.span(start, start + word.len());
                let message = format!("found `{word}`, wanted an attribute");
                let fail = Fail::at(
                    codes::ATTRIBUTE_VALUE,
                    message,
                    span,
                    "no attribute starts with this word",
                );
                Err(fail.hint(format!("write a string as \"{word}\"")))
            }
        }
    }

    /// `array<i64: 1, 2>`: a list for an operation of the `hbir` dialect, else kept as text.
    fn packed_array(&mut self, start: usize) -> PResult<Attr> {
        self.expect("<", "after `array`")?;
        self.skip();
        let at = self.pos;
        let dtype = match self.ty()? {
            Type::Scalar(dtype) if dtype.computes() && 8 <= dtype.bits() => dtype,
            Type::Scalar(_) | Type::Tensor(_) | Type::Other(_) => {
                self.pos = at;
                return Err(self.wanted("an element type of whole bytes", "after `array<`"));
            }
        };
        let mut items = Vec::new();
        if !self.eat(">") {
            self.expect(":", "after the element type of `array<`")?;
            loop {
                items.push(self.packed_item(dtype)?);
                if self.eat(">") {
                    break;
                }
                if !self.eat(",") {
                    return Err(self.wanted("`,` or `>`", "in `array<`"));
                }
            }
        }
        if self.foreign {
            return self.raw_since(start).map(|t| Attr::Raw(Arc::from(t)));
        }
        Ok(Attr::Array(items))
    }

    fn packed_item(&mut self, dtype: DType) -> PResult<Attr> {
        for (word, value) in [("true", true), ("false", false)] {
            if dtype.is_bool() && self.eat_word(word) {
                return Ok(Attr::Bool(value));
            }
        }
        self.skip();
        let start = self.pos;
        let Some(number) = self.number() else {
            return Err(self.wanted("a number", "in `array<`"));
        };
        let span = self.span(start, self.pos);
        if dtype.is_float() {
            float_attr(number, dtype, span)
        } else {
            int_attr(number, Some(dtype), span)
        }
    }

    /// `dense<…> : type` after the word `dense`, or `#hbir.dense<"0x…"> : type`.
    fn dense_attr(&mut self, start: usize) -> PResult<Attr> {
        if self.byte() != Some(b'<') {
            return Err(self.wanted("`<`", "after `dense`"));
        }
        let open = self.pos;
        self.group()?;
        let close = self.pos - 1;
        self.expect(":", "and a type after `dense<…>`")?;
        self.skip();
        let type_start = self.pos;
        let ty = self.ty()?;
        let end = self.pos;
        let tensor = match &ty {
            Type::Tensor(tensor) => tensor.clone(),
            Type::Other(text) if text.starts_with("vector<") || text.starts_with("tensor<") => {
                return self.raw_since(start).map(|t| Attr::Raw(Arc::from(t)));
            }
            Type::Other(_) | Type::Scalar(_) => {
                let span = self.span(type_start, end);
                let message = "the type of `dense<…>` is no tensor type";
                return Err(Fail::at(
                    codes::DENSE_SHAPE,
                    message,
                    span,
                    "wanted a tensor type",
                ));
            }
        };
        let (Some(shape), dtype) = (tensor.shape(), tensor.dtype) else {
            let span = self.span(type_start, end);
            let message = "the type of `dense<…>` has an unknown dimension";
            return Err(Fail::at(
                codes::DENSE_SHAPE,
                message,
                span,
                "wanted known dimensions",
            ));
        };
        let Some(len) = tensor.elements() else {
            let span = self.span(type_start, end);
            let message = "the type of `dense<…>` has more than 2^64 elements";
            return Err(Fail::at(codes::DENSE_SHAPE, message, span, "too large"));
        };
        self.pos = open + 1;
        let elements = self.dense_elements(&shape, len, dtype, close);
        let (bytes, splat) = elements?;
        self.pos = end;
        Ok(Attr::Dense(Arc::new(Dense { ty, bytes, splat })))
    }

    /// The elements between the angle brackets, up to `close`.
    fn dense_elements(
        &mut self,
        shape: &[u64],
        len: u64,
        dtype: DType,
        close: usize,
    ) -> PResult<(Vec<u8>, bool)> {
        self.skip();
        let start = self.pos;
        let width = crate::tensor::storage_bytes(dtype);
        let mut bytes = Vec::new();
        if start >= close {
            if len == 0 {
                return Ok((bytes, false));
            }
            let span = self.span(close - 1, close + 1);
            let message = format!("found no element, wanted {len}");
            return Err(Fail::at(codes::DENSE_SHAPE, message, span, "empty"));
        }
        let mut splat = false;
        match self.byte() {
            Some(b'"') => splat = self.dense_hex(len, dtype, &mut bytes)?,
            Some(b'[') => self.dense_list(shape, dtype, &mut bytes)?,
            _ => {
                self.dense_element(dtype, &mut bytes)?;
                splat = true;
            }
        }
        if self.peek().is_some() && self.pos != close {
            return Err(self.wanted("`>`", "after the elements of `dense<`"));
        }
        if splat && len == 0 {
            let span = self.span(start, close);
            let message = "found an element, wanted none: the type has no elements";
            return Err(Fail::at(codes::DENSE_SHAPE, message, span, "one too many"));
        }
        if !splat && all_equal(&bytes, width) {
            bytes.truncate(width);
            splat = true;
        }
        Ok((bytes, splat))
    }

    fn dense_list(&mut self, shape: &[u64], dtype: DType, bytes: &mut Vec<u8>) -> PResult<()> {
        let Some((&want, inner)) = shape.split_first() else {
            return Err(self.wanted("one element", "for a tensor of rank 0"));
        };
        self.deeper(|p| {
            p.skip();
            let start = p.pos;
            p.expect("[", "to open a list of elements")?;
            let mut found = 0u64;
            if !p.eat("]") {
                loop {
                    if inner.is_empty() {
                        p.dense_element(dtype, bytes)?;
                    } else {
                        p.dense_list(inner, dtype, bytes)?;
                    }
                    found += 1;
                    if p.eat("]") {
                        break;
                    }
                    if !p.eat(",") {
                        return Err(p.wanted("`,` or `]`", "in `dense<`"));
                    }
                }
            }
            if found == want {
                return Ok(());
            }
            let span = p.span(start, p.pos);
            let message = format!("found {found} elements in a list, wanted {want} by the type");
            Err(Fail::at(codes::DENSE_SHAPE, message, span, "this list"))
        })
    }

    fn dense_element(&mut self, dtype: DType, bytes: &mut Vec<u8>) -> PResult<()> {
        for (word, bit) in [("true", 1), ("false", 0)] {
            if dtype.is_bool() && self.eat_word(word) {
                bytes.push(bit);
                return Ok(());
            }
        }
        if let Some(part) = dtype.complex_part() {
            self.expect("(", "to open a complex number")?;
            self.dense_element(part, bytes)?;
            self.expect(",", "after the real part")?;
            self.dense_element(part, bytes)?;
            return self.expect(")", "after the imaginary part");
        }
        self.skip();
        let start = self.pos;
        let Some(number) = self.number() else {
            return Err(self.wanted("an element", &format!("of type {dtype}")));
        };
        let value = if dtype.is_int() {
            number::integer(number, dtype).map(i64::cast_unsigned)
        } else {
            number::float_bits(number, dtype)
        };
        let Some(bits) = value else {
            let span = self.span(start, self.pos);
            let message = format!("`{}` is no value of type {dtype}", number.text);
            return Err(Fail::at(
                codes::NUMBER_OUT_OF_RANGE,
                message,
                span,
                "out of range",
            ));
        };
        bytes.extend(
            bits.to_le_bytes()
                .into_iter()
                .take(crate::tensor::storage_bytes(dtype)),
        );
        Ok(())
    }

    /// `"0x…"`: the bytes of all elements, or of one element that is repeated. Bool is packed into bits.
    fn dense_hex(&mut self, len: u64, dtype: DType, bytes: &mut Vec<u8>) -> PResult<bool> {
        let start = self.pos;
        let text = self.string_bytes()?;
        let span = self.span(start, self.pos);
        let fail = |message: String| Fail::at(codes::DENSE_HEX, message, span, "here");
        let digits = text.strip_prefix(b"0x").filter(|d| d.len() % 2 == 0);
        let data = digits.and_then(|d| {
            let pair = |p: &[u8]| Some(hex(p.first()?)? * 16 + hex(p.get(1)?)?);
            d.chunks_exact(2).map(pair).collect::<Option<Vec<u8>>>()
        });
        let Some(data) = data else {
            return Err(fail(
                "wanted \"0x\" and an even number of hex digits".to_owned(),
            ));
        };
        if dtype.is_bool() {
            return number::unpack_bits(&data, len, bytes).ok_or_else(|| {
                fail(format!(
                    "found {} bytes of bits, wanted {len} bits",
                    data.len()
                ))
            });
        }
        let width = crate::tensor::storage_bytes(dtype);
        let found = data.len() as u64;
        let splat = data.len() == width && len != 0;
        if !splat && len.checked_mul(width as u64) != Some(found) {
            return Err(fail(format!(
                "found {found} bytes, wanted {len} elements of {width} bytes"
            )));
        }
        for chunk in data.chunks_exact(width) {
            number::push_wrapped(chunk, dtype, bytes);
        }
        Ok(splat)
    }
}

const UI64: DType = DType::Int {
    bits: 64,
    sign: Sign::Unsigned,
};

fn hex(b: &u8) -> Option<u8> {
    hex_value(*b)
}

fn out_of_range(number: NumberText<'_>, what: &str, span: Span) -> Fail {
    let message = format!("`{}` is no value of type {what}", number.text);
    Fail::at(codes::NUMBER_OUT_OF_RANGE, message, span, "out of range")
}

fn float_attr(number: NumberText<'_>, dtype: DType, span: Span) -> PResult<Attr> {
    let written = (dtype != DType::F64).then_some(dtype);
    match number::float_bits(number, dtype) {
        Some(bits) => Ok(Attr::Float(number::float_from_bits(bits, dtype), written)),
        None => Err(out_of_range(number, &dtype.to_string(), span)),
    }
}

fn int_attr(number: NumberText<'_>, dtype: Option<DType>, span: Span) -> PResult<Attr> {
    let i64_type = DType::Int {
        bits: 64,
        sign: Sign::Signless,
    };
    let ty = dtype.unwrap_or(i64_type);
    let Some(value) = number::integer(number, ty).filter(|&n| n >= 0 || ty != UI64) else {
        return Err(out_of_range(number, &ty.to_string(), span));
    };
    if ty.is_bool() {
        return Ok(Attr::Bool(value != 0));
    }
    Ok(Attr::Int(
        wrap_int(value, ty),
        dtype.filter(|&t| t != i64_type),
    ))
}
