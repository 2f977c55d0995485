//! Broken inputs: a file of the repository and the edits of its bytes, one case per line.
//!
//! ```text
//! WANTED BASE EDIT; EDIT; …
//! ```
//!
//! `WANTED` is the code with which the input is refused, `read` if it is read, or `any`. `BASE` is a file, or `-.ir`
//! and `-.onnx` for an empty one. Numbers are bytes counted from 0, `A..B` is a range without its end. Texts are in
//! quotation marks and may contain `\n`, `\t`, `\"`, `\\` and `\xHH`.
//!
//! | edit | what it does |
//! |---|---|
//! | `cut N` | keeps the first N bytes |
//! | `flip N.B` | turns bit B of byte N |
//! | `set N TEXT` | writes over the bytes from N on |
//! | `drop A..B` | removes a range |
//! | `copy A..B N` | inserts a copy of a range before byte N |
//! | `swap A..B C..D` | exchanges two ranges, the first one first |
//! | `insert N TEXT` | inserts a text before byte N |
//! | `append TEXT` | adds a text |
//! | `repeat N TEXT` | adds a text N times |
//! | `replace TEXT TEXT` | replaces every occurrence |
//! | `pb PATH int N`, `bytes TEXT`, `drop`, `twice`, `tag F`, `append TEXT` | changes a field of a protobuf message; the lengths around it follow |
//!
//! A path of protobuf fields is `7.11.2:1`: field 7, in it field 11, in it the second field 2.

use crate::paths::{relative, root};
use std::ops::Range;
use std::path::Path;

/// The wanted outcome of a case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The input is read, or refused with any code.
    Anything,
    /// The input is read.
    Read,
    /// The input is refused with this code first.
    Refused(String),
}

/// A broken input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// The file of cases and the line in it.
    pub place: String,
    /// The wanted outcome.
    pub wanted: Wanted,
    /// The name of the input, which determines its format.
    pub name: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The cases of a file; a `#` at the start of a line starts a comment.
///
/// # Panics
/// The file cannot be read, or a line is no case.
#[must_use]
pub fn cases(file: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).expect("the cases can be read");
    let lines = text.lines().enumerate();
    let cases = lines.filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
    let read = |(i, line): (usize, &str)| {
        let place = format!("{}:{}", relative(file), i + 1);
        case(&place, line).unwrap_or_else(|e| panic!("{place}: {e}\n{line}"))
    };
    cases.map(read).collect()
}

fn case(place: &str, line: &str) -> Result<Case, String> {
    let parts = edits(line)?;
    let Some(([wanted, base, first @ ..], rest)) = parts.split_first().map(|(a, b)| (&a[..], b))
    else {
        return Err("wanted at least `WANTED BASE`".to_owned());
    };
    let (wanted, base) = (wanted.word()?, base.word()?);
    let mut bytes = match base {
        "-.ir" | "-.onnx" => Vec::new(),
        file => std::fs::read(root().join(file)).map_err(|e| format!("{file}: {e}"))?,
    };
    let first = (!first.is_empty()).then_some(first);
    for words in first.into_iter().chain(rest.iter().map(Vec::as_slice)) {
        bytes = edit(bytes, words)?;
    }
    Ok(Case {
        place: place.to_owned(),
        wanted: match wanted {
            "any" => Wanted::Anything,
            "read" => Wanted::Read,
            code => Wanted::Refused(code.to_owned()),
        },
        name: Path::new(base)
            .file_name()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned()),
        bytes,
    })
}

/// A word of a line, or the bytes of a quoted text.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Token {
    Word(String),
    Text(Vec<u8>),
}

impl Token {
    fn word(&self) -> Result<&str, String> {
        match self {
            Token::Word(word) => Ok(word),
            Token::Text(_) => Err("found a text, wanted a word".to_owned()),
        }
    }

    fn text(&self) -> Result<&[u8], String> {
        match self {
            Token::Text(text) => Ok(text),
            Token::Word(word) => Err(format!("found {word}, wanted a text in quotation marks")),
        }
    }

    fn number<T: std::str::FromStr>(&self) -> Result<T, String> {
        let word = self.word()?;
        word.parse()
            .map_err(|_| format!("found {word}, wanted a number"))
    }

    fn range(&self) -> Result<Range<usize>, String> {
        let bad = || format!("found {self:?}, wanted A..B");
        let (start, end) = self.word()?.split_once("..").ok_or_else(bad)?;
        match (start.parse(), end.parse()) {
            (Ok(start), Ok(end)) if start <= end => Ok(start..end),
            _ => Err(bad()),
        }
    }
}

/// The words of a line, split at semicolons.
fn edits(line: &str) -> Result<Vec<Vec<Token>>, String> {
    let mut all = vec![Vec::new()];
    let mut chars = line.chars().peekable();
    while let Some(&c) = chars.peek() {
        let last = all.len() - 1;
        match c {
            c if c.is_whitespace() => drop(chars.next()),
            ';' => {
                chars.next();
                all.push(Vec::new());
            }
            '"' => {
                chars.next();
                all[last].push(Token::Text(quoted(&mut chars)?));
            }
            _ => {
                let mut word = String::new();
                while let Some(c) = chars.next_if(|c| !c.is_whitespace() && *c != ';') {
                    word.push(c);
                }
                all[last].push(Token::Word(word));
            }
        }
    }
    Ok(all)
}

fn quoted(chars: &mut impl Iterator<Item = char>) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    let open = || "a text is not closed".to_owned();
    loop {
        match chars.next().ok_or_else(open)? {
            '"' => return Ok(text),
            '\\' => match chars.next().ok_or_else(open)? {
                'n' => text.push(b'\n'),
                't' => text.push(b'\t'),
                'x' => {
                    let digits: String = chars.by_ref().take(2).collect();
                    let byte = u8::from_str_radix(&digits, 16);
                    text.push(byte.map_err(|_| format!("found \\x{digits}, wanted two digits"))?);
                }
                c => text.extend(c.to_string().bytes()),
            },
            c => text.extend(c.to_string().bytes()),
        }
    }
}

fn edit(mut bytes: Vec<u8>, words: &[Token]) -> Result<Vec<u8>, String> {
    let (name, args) = words.split_first().ok_or("an edit is empty")?;
    let within = |range: &Range<usize>| match bytes.get(range.clone()) {
        Some(part) => Ok(part.to_vec()),
        None => Err(format!("{range:?} lies beyond the {} bytes", bytes.len())),
    };
    match (name.word()?, args) {
        ("cut", [at]) => bytes.truncate(at.number()?),
        ("flip", [at]) => {
            let (byte, bit) = at.word()?.split_once('.').ok_or("wanted BYTE.BIT")?;
            let (byte, bit) = (byte.parse::<usize>(), bit.parse::<u8>());
            let place = byte.ok().and_then(|at| bytes.get_mut(at)).zip(bit.ok());
            let (byte, bit) = place.ok_or("found no such byte")?;
            *byte ^= 1 << (bit % 8);
        }
        ("set", [at, text]) => {
            let (at, text) = (at.number::<usize>()?, text.text()?);
            within(&(at..at + text.len()))?;
            bytes[at..at + text.len()].copy_from_slice(text);
        }
        ("drop", [range]) => {
            let range = range.range()?;
            within(&range)?;
            bytes.drain(range);
        }
        ("copy", [range, at]) => {
            let (part, at) = (within(&range.range()?)?, at.number::<usize>()?);
            within(&(at..at))?;
            bytes.splice(at..at, part);
        }
        ("swap", [a, b]) => {
            let (a, b) = (a.range()?, b.range()?);
            if b.start < a.end {
                return Err("the ranges overlap".to_owned());
            }
            let (first, second) = (within(&a)?, within(&b)?);
            bytes.splice(b, first);
            bytes.splice(a, second);
        }
        ("insert", [at, text]) => {
            let at = at.number::<usize>()?;
            within(&(at..at))?;
            bytes.splice(at..at, text.text()?.iter().copied());
        }
        ("append", [text]) => bytes.extend(text.text()?),
        ("repeat", [times, text]) => {
            let (times, text) = (times.number::<usize>()?, text.text()?);
            (0..times).for_each(|_| bytes.extend(text));
        }
        ("replace", [from, to]) => bytes = replace(&bytes, from.text()?, to.text()?)?,
        ("pb", [path, rest @ ..]) => {
            let path = steps(path.word()?)?;
            bytes = change_field(&bytes, &path, rest)?;
        }
        (name, args) => return Err(format!("found {name} with {} arguments", args.len())),
    }
    Ok(bytes)
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let (mut at, mut found) = (0, false);
    while at < bytes.len() {
        if !from.is_empty() && bytes[at..].starts_with(from) {
            out.extend(to);
            at += from.len();
            found = true;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    if found {
        Ok(out)
    } else {
        Err(format!(
            "{:?} does not occur",
            String::from_utf8_lossy(from)
        ))
    }
}

/// The fields on a path: the number of each, and its index among the fields of this number.
fn steps(path: &str) -> Result<Vec<(u64, usize)>, String> {
    let step = |part: &str| {
        let (field, nth) = part.split_once(':').unwrap_or((part, "0"));
        Some((field.parse().ok()?, nth.parse().ok()?))
    };
    let all: Option<Vec<_>> = path.split('.').map(step).collect();
    all.ok_or_else(|| format!("found {path}, wanted a path of fields"))
}

/// One field of a message.
struct Field {
    number: u64,
    wire: u64,
    /// The field with its tag.
    whole: Range<usize>,
    /// The contents without a length.
    value: Range<usize>,
}

fn varint(bytes: &[u8], at: &mut usize) -> Result<u64, String> {
    let mut n = 0u64;
    for shift in (0..70).step_by(7) {
        let byte = *bytes.get(*at).ok_or("a message ends early")?;
        *at += 1;
        n |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            return Ok(n);
        }
    }
    Err("a number of more than ten bytes".to_owned())
}

fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while 0x7f < n {
        out.push(n.to_le_bytes()[0] | 0x80);
        n >>= 7;
    }
    out.push(n.to_le_bytes()[0]);
}

fn field_at(bytes: &[u8], start: usize) -> Result<Field, String> {
    let mut at = start;
    let tag = varint(bytes, &mut at)?;
    let (number, wire) = (tag >> 3, tag & 7);
    let length = match wire {
        0 => {
            let before = at;
            varint(bytes, &mut at)?;
            let length = at - before;
            at = before;
            length
        }
        1 => 8,
        2 => usize::try_from(varint(bytes, &mut at)?).map_err(|e| e.to_string())?,
        5 => 4,
        _ => return Err(format!("wire type {wire}")),
    };
    let end = at.checked_add(length).filter(|&end| end <= bytes.len());
    let value = at..end.ok_or("a field is longer than its message")?;
    Ok(Field {
        number,
        wire,
        whole: start..value.end,
        value,
    })
}

fn put_field(out: &mut Vec<u8>, number: u64, wire: u64, value: &[u8]) {
    put_varint(out, number << 3 | wire);
    if wire == 2 {
        put_varint(out, value.len() as u64);
    }
    out.extend(value);
}

/// The message after a change of the field on the path.
fn change_field(bytes: &[u8], path: &[(u64, usize)], change: &[Token]) -> Result<Vec<u8>, String> {
    let ((number, nth), rest) = path.split_first().ok_or("an empty path")?;
    let mut seen = 0;
    let mut at = 0;
    while at < bytes.len() {
        let field = field_at(bytes, at)?;
        at = field.whole.end;
        if field.number != *number {
            continue;
        }
        if seen < *nth {
            seen += 1;
            continue;
        }
        let mut out = bytes[..field.whole.start].to_vec();
        let value = &bytes[field.value.clone()];
        if rest.is_empty() {
            changed(&mut out, &field, &bytes[field.whole.clone()], value, change)?;
        } else {
            put_field(
                &mut out,
                field.number,
                2,
                &change_field(value, rest, change)?,
            );
        }
        out.extend(&bytes[field.whole.end..]);
        return Ok(out);
    }
    Err(format!("found no field {number}:{nth}"))
}

fn changed(
    out: &mut Vec<u8>,
    field: &Field,
    whole: &[u8],
    value: &[u8],
    change: &[Token],
) -> Result<(), String> {
    let (name, args) = change.split_first().ok_or("wanted a change")?;
    match (name.word()?, args) {
        ("int", [n]) => {
            let mut number = Vec::new();
            put_varint(&mut number, n.number::<i64>()?.cast_unsigned());
            put_field(out, field.number, 0, &number);
        }
        ("bytes", [text]) => put_field(out, field.number, 2, text.text()?),
        ("append", [text]) => {
            put_field(out, field.number, 2, &[value, text.text()?].concat());
        }
        ("drop", []) => {}
        ("twice", []) => {
            out.extend(whole);
            out.extend(whole);
        }
        ("tag", [number]) => put_field(out, number.number()?, field.wire, value),
        (name, _) => return Err(format!("found the change {name}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, wanted: &[u8]) {
        let case = case("here", line).expect("a case");
        assert_eq!(case.bytes, wanted, "{line}");
    }

    #[test]
    fn edits_do_what_they_say() {
        let ten = "any -.ir append \"0123456789\"; ";
        let after = |edit: &str, wanted: &str| check(&format!("{ten}{edit}"), wanted.as_bytes());
        after("cut 3", "012");
        after("flip 1.0", "0023456789");
        after("set 8 \"ab\"", "01234567ab");
        after("drop 2..9", "019");
        after("copy 0..2 9", "012345678019");
        after("swap 0..2 5..6", "5234016789");
        after("insert 1 \"\\x41\\n\"", "0A\n123456789");
        after("cut 0; repeat 3 \"[;\"", "[;[;[;");
        after("replace \"345\" \"-\"", "012-6789");
        for bad in [
            "flip 99.0",
            "drop 5..99",
            "cut x",
            "replace \"z\" \"\"",
            "fold",
        ] {
            assert!(case("here", &format!("{ten}{bad}")).is_err(), "{bad}");
        }
    }

    #[test]
    fn fields_change_with_the_lengths_around_them() {
        // Field 1 contains field 2 (a number) twice; field 3 is a text.
        let base = "any -.onnx append \"\\x0a\\x04\\x10\\x01\\x10\\x02\\x1a\\x01x\"; ";
        let after = |edit: &str, wanted: &[u8]| check(&format!("{base}{edit}"), wanted);
        after("pb 1.2:1 int 300", b"\x0a\x05\x10\x01\x10\xac\x02\x1a\x01x");
        after("pb 3 bytes \"yz\"", b"\x0a\x04\x10\x01\x10\x02\x1a\x02yz");
        after("pb 1.2 drop", b"\x0a\x02\x10\x02\x1a\x01x");
        after("pb 3 twice", b"\x0a\x04\x10\x01\x10\x02\x1a\x01x\x1a\x01x");
        after("pb 3 tag 4", b"\x0a\x04\x10\x01\x10\x02\x22\x01x");
        after(
            "pb 1 append \"\\x08\\x07\"",
            b"\x0a\x06\x10\x01\x10\x02\x08\x07\x1a\x01x",
        );
        assert!(case("here", &format!("{base}pb 1.9 drop")).is_err());
    }
}
