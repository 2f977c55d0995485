//! The header of a `.npy` array: magic, version, and a Python dictionary as text.

use super::Kind as ArrayKind;
use super::error::ArrayError;
use optc_interp::{elements_within_limit, shape_text};
use optc_ir::Tensor;
use std::cmp::Ordering;
use std::fmt;
use std::io::Read;

/// The kind of an array's elements; widths are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `bool`, one byte.
    Bool,
    /// A signed integer.
    Int(usize),
    /// An unsigned integer.
    Uint(usize),
    /// An IEEE float.
    Float(usize),
    /// A complex number, the real part first.
    Complex(usize),
}

impl Kind {
    /// Bytes of an element.
    #[must_use]
    pub fn width(self) -> usize {
        match self {
            Kind::Bool => 1,
            Kind::Int(n) | Kind::Uint(n) | Kind::Float(n) | Kind::Complex(n) => n,
        }
    }

    /// The kind with this `descr`, such as `<f4`.
    fn parse(descr: &str) -> Result<Kind, ArrayError> {
        let unread = || ArrayError::Unread(descr.to_owned());
        let mut chars = descr.chars();
        let (order, letter) = (chars.next(), chars.next());
        let width: usize = chars.as_str().parse().map_err(|_| unread())?;
        let kind = match (letter, width) {
            (Some('b'), 1) => Kind::Bool,
            (Some('i'), 1 | 2 | 4 | 8) => Kind::Int(width),
            (Some('u'), 1 | 2 | 4 | 8) => Kind::Uint(width),
            (Some('f'), 2 | 4 | 8) => Kind::Float(width),
            (Some('c'), 8 | 16) => Kind::Complex(width),
            _ => return Err(unread()),
        };
        match order {
            Some('<' | '|' | '=') => Ok(kind),
            Some('>') if width == 1 => Ok(kind),
            Some('>') => Err(ArrayError::BigEndian(descr.to_owned())),
            _ => Err(unread()),
        }
    }

    fn descr(self) -> String {
        let order = if self.width() == 1 { '|' } else { '<' };
        match self {
            Kind::Bool => "|b1".to_owned(),
            Kind::Int(n) => format!("{order}i{n}"),
            Kind::Uint(n) => format!("{order}u{n}"),
            Kind::Float(n) => format!("{order}f{n}"),
            Kind::Complex(n) => format!("{order}c{n}"),
        }
    }
}

impl fmt::Display for Kind {
    /// NumPy's name: `bool`, `int8`, `uint16`, `float32`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Bool => f.write_str("bool"),
            Kind::Int(n) => write!(f, "int{}", n * 8),
            Kind::Uint(n) => write!(f, "uint{}", n * 8),
            Kind::Float(n) => write!(f, "float{}", n * 8),
            Kind::Complex(n) => write!(f, "complex{}", n * 8),
        }
    }
}

/// The header in front of the elements.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Header {
    pub(super) kind: ArrayKind,
    pub(super) fortran: bool,
    pub(super) shape: Vec<usize>,
    /// Bytes of the header as it was read; 0 for a header that was made.
    length: u64,
}

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// The longest header that is read; NumPy itself refuses above 10,000 by default.
const MAX_HEADER: usize = 1 << 16;

/// The most dimensions an array may have; NumPy's own limit is 64.
const MAX_RANK: usize = 64;

/// The elements start at a multiple of this many bytes.
const ALIGNMENT: usize = 64;

impl Header {
    pub(super) fn of(tensor: &Tensor) -> Header {
        let kind = ArrayKind::of(tensor.dtype);
        Header {
            kind,
            fortran: false,
            shape: tensor.shape.clone(),
            length: 0,
        }
    }

    /// Bytes of the elements.
    pub(super) fn body_bytes(&self) -> Result<u64, ArrayError> {
        let elements =
            elements_within_limit(&self.shape).map_err(|e| ArrayError::TooLarge(e.to_string()))?;
        Ok(elements * self.kind.width() as u64)
    }

    /// Checks that this number of bytes after the header is that of the elements.
    pub(super) fn check_body(&self, found: u64) -> Result<(), ArrayError> {
        let wanted = self.body_bytes()?;
        let shape = shape_text(&self.shape);
        match found.cmp(&wanted) {
            Ordering::Equal => Ok(()),
            Ordering::Greater => Err(ArrayError::Long { wanted, shape }),
            Ordering::Less => Err(ArrayError::Short {
                found,
                wanted,
                shape,
            }),
        }
    }

    /// Checks that a file of this many bytes consists of this header and its elements.
    pub(super) fn check_size(&self, size: u64) -> Result<(), ArrayError> {
        self.check_body(size.saturating_sub(self.length))
    }

    /// Version 1.0, padded as NumPy does.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let order = if self.fortran { "True" } else { "False" };
        let dims: String = self.shape.iter().map(|n| format!("{n}, ")).collect();
        let dims = match self.shape.len() {
            1 => dims.trim_end(),
            _ => dims.trim_end_matches(", "),
        };
        let descr = self.kind.descr();
        let mut text =
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({dims}), }}");
        let before = MAGIC.len() + 4;
        let length = (before + text.len() + 1).next_multiple_of(ALIGNMENT) - before;
        while text.len() + 1 < length {
            text.push(' ');
        }
        text.push('\n');
        let mut out = MAGIC.to_vec();
        out.extend([1, 0]);
        let length = u16::try_from(length).expect("64 dimensions take less than 64 KiB");
        out.extend(length.to_le_bytes());
        out.extend(text.bytes());
        out
    }

    pub(super) fn read<R: Read>(source: &mut R) -> Result<Header, ArrayError> {
        let mut start = [0; 8];
        source
            .read_exact(&mut start)
            .map_err(|_| ArrayError::NoArray)?;
        if &start[..6] != MAGIC {
            return Err(ArrayError::NoArray);
        }
        let short = |_| ArrayError::ShortHeader;
        let length = match start[6] {
            1 => {
                let mut n = [0; 2];
                source.read_exact(&mut n).map_err(short)?;
                usize::from(u16::from_le_bytes(n))
            }
            2 | 3 => {
                let mut n = [0; 4];
                source.read_exact(&mut n).map_err(short)?;
                u32::from_le_bytes(n) as usize
            }
            version => return Err(ArrayError::Version(version)),
        };
        if length > MAX_HEADER {
            return Err(ArrayError::LongHeader(length));
        }
        let mut text = vec![0; length];
        source.read_exact(&mut text).map_err(short)?;
        let text = std::str::from_utf8(&text).map_err(|_| ArrayError::NoText)?;
        let header = parse(text).ok_or_else(|| ArrayError::Header(text.trim().to_owned()))??;
        let before = if start[6] == 1 { 10 } else { 12 };
        Ok(Header {
            length: before + length as u64,
            ..header
        })
    }
}

/// Parses a header. `None` if the text is not of the expected form; an inner error for a header that is refused.
fn parse(text: &str) -> Option<Result<Header, ArrayError>> {
    let mut rest = text.trim().strip_prefix('{')?.trim_start();
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    while !rest.starts_with('}') {
        let (key, after) = quoted(rest)?;
        rest = after.trim_start().strip_prefix(':')?.trim_start();
        match key {
            "descr" if rest.starts_with('[') => {
                return Some(Err(ArrayError::Records));
            }
            "descr" => {
                let (value, after) = quoted(rest)?;
                (descr, rest) = (Some(value), after);
            }
            "fortran_order" => {
                let (value, after) = match rest.strip_prefix("True") {
                    Some(after) => (true, after),
                    None => (false, rest.strip_prefix("False")?),
                };
                (fortran, rest) = (Some(value), after);
            }
            "shape" => {
                let (inside, after) = rest.strip_prefix('(')?.split_once(')')?;
                (shape, rest) = (Some(dims(inside)?), after);
            }
            _ => return None,
        }
        rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None if rest.starts_with('}') => {}
            None => return None,
        }
    }
    if rest != "}" {
        return None;
    }
    let (fortran, shape) = (fortran?, shape?);
    Some(Kind::parse(descr?).map(|kind| Header {
        kind,
        fortran,
        shape,
        length: 0,
    }))
}

/// Reads a string in single or double quotes without escapes; returns the string and the text after it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text[1..].split_once(quote)
}

/// `3, 4`, `3,` or nothing; Python 2 wrote `3L`.
fn dims(text: &str) -> Option<Vec<usize>> {
    let text = text.trim();
    let text = text.strip_suffix(',').unwrap_or(text);
    if text.trim().is_empty() {
        return Some(Vec::new());
    }
    let dim = |part: &str| {
        let part = part.trim();
        let part = part.strip_suffix('L').unwrap_or(part);
        part.bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| part.parse().ok())
            .flatten()
    };
    let dims: Vec<usize> = text.split(',').map(dim).collect::<Option<_>>()?;
    (dims.len() <= MAX_RANK).then_some(dims)
}
