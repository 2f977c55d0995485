//! The forms in which StableHLO and CHLO print their operations.
//!
//! Most forms are a list of operands, words, `key = value` and a dictionary before the types; forms that differ have a
//! function of their own. Values of attributes keep their text; their names here are those of the printed form.

use optc_mlir_syntax::{Cursor, Op, Parsed, Parser, Region};
use std::ops::{Deref, DerefMut};

/// Dialects whose printed operations have the common form.
const DIALECTS: [&str; 3] = ["stablehlo.", "chlo.", "sdy."];

/// Reads the text after the name of an operation.
pub(crate) fn read<'a>(parser: &mut Parser<'a>, op: &mut Op<'a>) -> Parsed<()> {
    Pretty(parser).pretty(op)
}

/// A parser of the printed forms.
struct Pretty<'p, 'a>(&'p mut Parser<'a>);

impl<'a> Deref for Pretty<'_, 'a> {
    type Target = Parser<'a>;
    fn deref(&self) -> &Parser<'a> {
        self.0
    }
}

impl<'a> DerefMut for Pretty<'_, 'a> {
    fn deref_mut(&mut self) -> &mut Parser<'a> {
        self.0
    }
}

impl<'a> Pretty<'_, 'a> {
    fn pretty(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        match op.name {
            "return" | "func.return" | "stablehlo.return" => self.end(op),
            "call" | "func.call" => self.call(op),
            "stablehlo.constant" => self.constant(op),
            "stablehlo.while" => self.while_loop(op),
            "stablehlo.reduce" => self.reduce(op),
            name if DIALECTS.iter().any(|d| name.starts_with(d)) => self.common(op),
            name => {
                let message = format!("StableHLO or the generic form, `\"{name}\"(…) : (…) -> …`");
                self.cursor.at = op.span.start as usize;
                Err(self.cursor.wanted(&message))
            }
        }
    }

    fn end(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        if self.cursor.peek() == b'%' {
            self.operands(op)?;
            self.cursor.expect(":")?;
            self.type_list(&mut op.operand_types)?;
        }
        Ok(())
    }

    /// `%a, %b`.
    fn operands(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        loop {
            op.operands.push(self.used()?);
            if !self.cursor.eat(",") {
                return Ok(());
            }
        }
    }

    /// `T, T`.
    fn type_list(&mut self, out: &mut Vec<&'a str>) -> Parsed<()> {
        loop {
            self.types(out)?;
            if !self.cursor.eat(",") {
                return Ok(());
            }
        }
    }

    fn call(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        self.cursor.skip();
        let start = self.cursor.at;
        self.cursor.symbol()?;
        let callee = self.cursor.text.get(start..self.cursor.at).unwrap_or("");
        op.attrs.push(("callee", callee));
        self.cursor.expect("(")?;
        if !self.cursor.eat(")") {
            self.operands(op)?;
            self.cursor.expect(")")?;
        }
        if self.cursor.eat("{") {
            op.attrs.extend(self.dictionary("}")?);
        }
        self.types_after_colon(op)
    }

    /// `: (T, T) -> T`, or `: T` for both operands and results.
    fn types_after_colon(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        self.cursor.expect(":")?;
        self.type_list(&mut op.operand_types)?;
        if self.cursor.eat("->") {
            return self.types(&mut op.result_types);
        }
        let types = std::mem::take(&mut op.operand_types);
        if types.len() == op.count() {
            op.result_types = types;
        } else if let Some(&last) = types.last() {
            op.result_types = vec![last; op.count()];
        }
        Ok(())
    }

    /// `{…} dense<…> : T`.
    fn constant(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        if self.cursor.eat("{") {
            op.attrs.extend(self.dictionary("}")?);
        }
        self.cursor.skip();
        let start = self.cursor.at;
        if self.cursor.word().is_none() {
            return Err(self.cursor.wanted("the elements of a constant, `dense<…>`"));
        }
        if self.cursor.rest().first() == Some(&b'<') {
            self.cursor.balanced()?;
        }
        self.cursor.expect(":")?;
        let ty = self.ty()?;
        let value = self.cursor.text.get(start..self.cursor.at).unwrap_or("");
        op.attrs.push(("value", value));
        op.result_types.push(ty);
        Ok(())
    }

    /// `(%arg = %a, …) : T, … attributes {…} cond {…} do {…}`.
    fn while_loop(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        let mut names = Vec::new();
        self.cursor.expect("(")?;
        while !self.cursor.eat(")") {
            names.push(self.cursor.value()?);
            self.cursor.expect("=")?;
            op.operands.push(self.used()?);
            self.cursor.eat(",");
        }
        if self.cursor.eat(":") {
            self.type_list(&mut op.result_types)?;
        }
        if self.cursor.eat_word("attributes") {
            self.cursor.expect("{")?;
            op.attrs.extend(self.dictionary("}")?);
        }
        if names.len() != op.result_types.len() {
            return Err(self.cursor.wanted("as many types as values"));
        }
        let types = op.result_types.iter().copied();
        let args: Vec<(&str, &str)> = names.into_iter().zip(types).collect();
        for word in ["cond", "do"] {
            if !self.cursor.eat_word(word) {
                return Err(self.cursor.wanted(&format!("`{word}`")));
            }
            self.cursor.expect("{")?;
            let body = self.block(args.clone())?;
            op.regions.push(body);
        }
        Ok(())
    }

    /// `(%a init: %b), … applies OP across dimensions = […] {…} : (T, T) -> T`, or with `reducer(%x: T, %y: T) … {…}`
    /// after the types.
    fn reduce(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        let mut starts = Vec::new();
        while self.cursor.eat("(") {
            op.operands.push(self.used()?);
            if !self.cursor.eat_word("init") {
                return Err(self.cursor.wanted("`init:`"));
            }
            self.cursor.expect(":")?;
            starts.push(self.used()?);
            self.cursor.expect(")")?;
            self.cursor.eat(",");
        }
        op.operands.extend(starts);
        if self.cursor.eat_word("applies") {
            match self.cursor.word() {
                Some(name) => op.attrs.push(("applies", name)),
                None => return Err(self.cursor.wanted("the name of an operation")),
            }
        }
        if !self.cursor.eat_word("across") {
            return Err(self.cursor.wanted("`across`"));
        }
        self.items(op)?;
        self.types_after_colon(op)?;
        if self.cursor.eat_word("reducer") {
            let (mut left, mut right) = (Vec::new(), Vec::new());
            while self.cursor.eat("(") {
                let pair = self.arguments()?;
                let [a, b] = pair[..] else {
                    return Err(self.cursor.wanted("two arguments of a reducer"));
                };
                left.push(a);
                right.push(b);
            }
            left.extend(right);
            self.cursor.expect("{")?;
            let body: Region<'a> = self.block(left)?;
            op.regions.push(body);
        }
        Ok(())
    }

    fn common(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        self.items(op)?;
        self.types_after_colon(op)
    }

    /// Operands, words, brackets, `key = value` and dictionaries, in any order, up to the colon before the types.
    fn items(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        loop {
            let next = self.cursor.peek();
            let start = self.cursor.at;
            let mut since = |cursor: &Cursor<'a>, key: &'a str| {
                let text = cursor.text.get(start..cursor.at).unwrap_or("");
                op.attrs.push((key, text));
            };
            match next {
                b':' => return Ok(()),
                // Two operands must have a comma, or another item, between them.
                b'%' => {
                    op.operands.push(self.used()?);
                    if self.cursor.peek() == b'%' {
                        return Err(self.cursor.wanted("`,`"));
                    }
                }
                b',' | b'(' | b')' => self.cursor.at += 1,
                b'{' => {
                    self.cursor.at += 1;
                    op.attrs.extend(self.dictionary("}")?);
                }
                b'[' => {
                    self.cursor.balanced()?;
                    since(&self.cursor, "[]");
                }
                b'<' => {
                    self.cursor.balanced()?;
                    since(&self.cursor, "<>");
                }
                b'"' => {
                    self.cursor.string()?;
                    since(&self.cursor, "\"\"");
                }
                b'@' => {
                    self.cursor.symbol()?;
                    since(&self.cursor, "@");
                }
                b'#' => {
                    self.cursor.at += 1;
                    self.cursor.word();
                    since(&self.cursor, "#");
                }
                _ => {
                    let Some(word) = self.cursor.word() else {
                        return Err(self.cursor.wanted("an operand, an attribute or `:`"));
                    };
                    if self.cursor.eat("=") {
                        let value = self.value()?;
                        op.attrs.push((word, value));
                    } else {
                        op.attrs.push(("word", word));
                    }
                }
            }
        }
    }

    /// The value after `key =`: words and brackets up to a comma, a colon or a dictionary.
    fn value(&mut self) -> Parsed<&'a str> {
        self.cursor.skip();
        let start = self.cursor.at;
        loop {
            let some = start < self.cursor.at;
            match self.cursor.peek() {
                0 | b',' | b':' | b')' | b'}' | b']' => break,
                b'{' if some => break,
                b'{' | b'[' | b'(' | b'<' => drop(self.cursor.balanced()?),
                b'"' => drop(self.cursor.string()?),
                b'-' if self.cursor.sees("->") => self.cursor.at += 2,
                _ => {
                    if self.cursor.word().is_none() {
                        let rest = self.cursor.text.get(self.cursor.at..).unwrap_or("");
                        self.cursor.at += rest.chars().next().map_or(1, char::len_utf8);
                    }
                }
            }
        }
        let text = self.cursor.text.get(start..self.cursor.at).unwrap_or("");
        match text.trim_end() {
            "" => Err(self.cursor.wanted("the value of an attribute")),
            text => Ok(text),
        }
    }
}
