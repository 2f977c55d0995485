//! Operations that stay opaque: their text, in which the values and functions that they name are replaced by numbers.
//!
//! `%{0}` is an operand, `%{=0}` a value defined inside, `@{0}` a function. Aliases are expanded and locations dropped.

use crate::aliases::Aliases;
use crate::cursor::{Codes, Cursor};
use crate::tree::{Op, Region, Use};
use indexmap::{IndexMap, IndexSet};
use std::fmt::Write;

/// The values and functions that an operation names, in the order of the numbers in its text.
pub struct Verbatim<'a> {
    /// The text.
    pub text: String,
    /// The values, `%{0}` first.
    pub operands: Vec<Use<'a>>,
    /// The functions, `@{0}` first.
    pub functions: Vec<&'a str>,
}

/// The text of an operation; `is_function` returns true for symbols that are functions of the module.
pub fn verbatim<'a>(
    op: &Op<'a>,
    aliases: &Aliases<'a>,
    codes: &'static Codes,
    is_function: impl Fn(&str) -> bool,
) -> Verbatim<'a> {
    let mut operands: IndexMap<(&str, usize), Use<'a>> = IndexMap::new();
    let inner = op.regions.iter().flat_map(|region| &region.free);
    for used in op.operands.iter().chain(inner) {
        operands.entry((used.name, used.part)).or_insert(*used);
    }
    let mut locals = IndexSet::new();
    op.regions
        .iter()
        .for_each(|region| defined(region, &mut locals));
    let mut writer = Writer {
        aliases,
        codes,
        operands: &operands,
        locals,
        functions: IndexSet::new(),
        is_function,
        out: String::new(),
    };
    writer.copy(op.text, 0);
    Verbatim {
        text: std::mem::take(&mut writer.out),
        functions: writer.functions.into_iter().collect(),
        operands: operands.into_values().collect(),
    }
}

/// The names that a region and those inside it define.
fn defined<'a>(region: &Region<'a>, out: &mut IndexSet<&'a str>) {
    out.extend(region.args.iter().map(|(name, _)| *name));
    for op in &region.ops {
        out.extend(op.results.iter().map(|(name, _)| *name));
        op.regions.iter().for_each(|inner| defined(inner, out));
    }
}

struct Writer<'a, 'w, F> {
    aliases: &'w Aliases<'a>,
    codes: &'static Codes,
    operands: &'w IndexMap<(&'a str, usize), Use<'a>>,
    locals: IndexSet<&'a str>,
    functions: IndexSet<&'a str>,
    is_function: F,
    out: String,
}

impl<'a, F: Fn(&str) -> bool> Writer<'a, '_, F> {
    fn copy(&mut self, text: &'a str, depth: usize) {
        let mut cursor = Cursor::new(text, self.codes);
        while let Some(&b) = cursor.rest().first() {
            let start = cursor.at;
            let copied = match b {
                b'"' => cursor.string().is_err(),
                b'%' => self.value(&mut cursor),
                b'@' => self.symbol(&mut cursor),
                b'#' | b'!' => self.alias(&mut cursor, depth),
                b'l' if self.is_location(&cursor, text) => {
                    cursor.word();
                    cursor.balanced().is_ok()
                }
                b'/' if cursor.rest().starts_with(b"//") => {
                    cursor.skip();
                    self.out.push('\n');
                    true
                }
                _ => false,
            };
            if copied {
                continue;
            }
            if cursor.at == start {
                let rest = text.get(start..).unwrap_or("");
                cursor.at += rest.chars().next().map_or(1, char::len_utf8);
            }
            self.out.push_str(text.get(start..cursor.at).unwrap_or(""));
        }
    }

    /// Returns whether `loc(` starts here, and is not the end of a word.
    fn is_location(&self, cursor: &Cursor<'_>, text: &str) -> bool {
        let before = text.get(..cursor.at).and_then(|t| t.chars().next_back());
        let inside = before.is_some_and(|c| c.is_alphanumeric() || "_.%@#!$".contains(c));
        !inside && cursor.rest().starts_with(b"loc(")
    }

    fn value(&mut self, cursor: &mut Cursor<'a>) -> bool {
        let Ok(name) = cursor.value() else {
            return false;
        };
        if let Some(local) = self.locals.get_index_of(name) {
            let _ = write!(self.out, "%{{={local}}}");
            return true;
        }
        let mut look = *cursor;
        let mut part = 0;
        if look.rest().first() == Some(&b'#') {
            look.at += 1;
            part = look.word().and_then(|n| n.parse().ok()).unwrap_or(0);
        }
        let Some(number) = self.operands.get_index_of(&(name, part)) else {
            return false;
        };
        *cursor = look;
        let _ = write!(self.out, "%{{{number}}}");
        true
    }

    fn symbol(&mut self, cursor: &mut Cursor<'a>) -> bool {
        let start = cursor.at;
        match cursor.symbol() {
            Ok(name) if (self.is_function)(name) => {
                let (number, _) = self.functions.insert_full(name);
                let _ = write!(self.out, "@{{{number}}}");
                true
            }
            _ => {
                cursor.at = start;
                false
            }
        }
    }

    fn alias(&mut self, cursor: &mut Cursor<'a>, depth: usize) -> bool {
        let start = cursor.at;
        cursor.at += 1;
        cursor.word();
        let name = cursor.text.get(start..cursor.at).unwrap_or("");
        let meant = self.aliases.resolve(name);
        if meant == name || 16 < depth {
            cursor.at = start;
            return false;
        }
        self.copy(meant, depth + 1);
        true
    }
}
