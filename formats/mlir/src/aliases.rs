//! Aliases of attributes and types, `#name = …` and `!name = …`, and the resources at the end of a file.

use crate::cursor::{Codes, Cursor, Parsed, span, wrong};
use indexmap::IndexMap;

/// The meaning of aliases.
#[derive(Debug, Default)]
pub struct Aliases<'a> {
    /// The definition of each name with its `#` or `!`.
    names: IndexMap<&'a str, &'a str>,
    /// The hexadecimal digits of resources by name.
    resources: IndexMap<&'a str, &'a str>,
}

impl<'a> Aliases<'a> {
    /// All definitions of a text. They are at the start of a line.
    pub fn find(text: &'a str, codes: &'static Codes) -> Parsed<Self> {
        let mut found = Aliases::default();
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let start = at;
            at += line.len();
            if line.starts_with(['#', '!']) {
                let mut cursor = Cursor {
                    text,
                    at: start + 1,
                    codes,
                };
                let Some(name) = cursor.word() else { continue };
                let name = text.get(start..start + 1 + name.len()).unwrap_or("");
                if cursor.eat("=") {
                    found.names.insert(name, Self::definition(&mut cursor)?);
                }
            } else if line.trim_start().starts_with("{-#") {
                let mut cursor = Cursor {
                    text,
                    at: start,
                    codes,
                };
                found.read_resources(&mut cursor)?;
                break;
            }
        }
        Ok(found)
    }

    /// The text after `=`: balanced pieces up to the end of a line.
    pub fn definition(cursor: &mut Cursor<'a>) -> Parsed<&'a str> {
        cursor.skip();
        let start = cursor.at;
        loop {
            match cursor.rest().first() {
                None | Some(b'\n') => break,
                Some(b'(' | b'[' | b'{' | b'<') => drop(cursor.balanced()?),
                Some(b'"') => drop(cursor.string()?),
                Some(_) => {
                    let rest = cursor.text.get(cursor.at..).unwrap_or("");
                    cursor.at += rest.chars().next().map_or(1, char::len_utf8);
                }
            }
        }
        Ok(cursor.text.get(start..cursor.at).unwrap_or("").trim())
    }

    /// `{-# dialect_resources: { builtin: { name: "0x…", … } } #-}`.
    fn read_resources(&mut self, cursor: &mut Cursor<'a>) -> Parsed<()> {
        let start = cursor.at;
        cursor.expect("{-#")?;
        loop {
            if cursor.eat("#-}") {
                return Ok(());
            }
            if cursor.peek() == 0 {
                let message = "found the end of the text, wanted `#-}` after the resources";
                return Err(wrong(cursor.codes.syntax, message, span(start, start + 3)));
            }
            if let Some(name) = cursor.word() {
                if cursor.eat(":") && cursor.peek() == b'"' {
                    let text = cursor.string()?;
                    self.resources.insert(name, text.trim_matches('"'));
                }
                continue;
            }
            match cursor.peek() {
                b'"' => drop(cursor.string()?),
                _ => {
                    let rest = cursor.text.get(cursor.at..).unwrap_or("");
                    cursor.at += rest.chars().next().map_or(1, char::len_utf8);
                }
            }
        }
    }

    /// Returns whether a type has an unknown size.
    pub fn is_open(&self, ty: &'a str) -> bool {
        let meant = if ty.starts_with('!') {
            self.resolve(ty)
        } else {
            ty
        };
        meant.contains('?')
    }

    /// The definition of an alias; aliases of aliases are followed.
    pub fn resolve(&self, name: &'a str) -> &'a str {
        let mut at = name;
        for _ in 0..16 {
            match self.names.get(at.trim()) {
                Some(text) => at = text,
                None => break,
            }
        }
        at
    }

    /// The digits of a resource.
    pub fn resource(&self, name: &str) -> Option<&'a str> {
        self.resources.get(name).copied()
    }

    /// The first name in a location, `"jit(f)/add"`.
    pub fn location_name(&self, loc: &'a str, codes: &'static Codes) -> Option<&'a str> {
        let mut stack = vec![loc];
        let mut steps = 0;
        while let Some(text) = stack.pop() {
            steps += 1;
            if 64 < steps {
                return None;
            }
            let mut cursor = Cursor::new(text, codes);
            let mut inner = Vec::new();
            while cursor.peek() != 0 {
                match cursor.peek() {
                    b'"' => {
                        let name = cursor.string().ok()?;
                        if cursor.peek() != b':' {
                            return Some(&name[1..name.len() - 1]);
                        }
                    }
                    b'#' => {
                        let start = cursor.at;
                        cursor.at += 1;
                        cursor.word();
                        let name = text.get(start..cursor.at)?;
                        inner.push(self.names.get(name).copied().unwrap_or(""));
                    }
                    _ => {
                        let rest = text.get(cursor.at..)?;
                        cursor.at += rest.chars().next()?.len_utf8();
                    }
                }
            }
            stack.extend(inner.into_iter().rev());
        }
        None
    }
}
