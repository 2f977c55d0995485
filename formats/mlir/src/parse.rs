//! The parser of MLIR's text: modules, functions, regions, and operations in generic form. The module `pretty` parses the
//! custom forms in which StableHLO prints its operations.

use crate::aliases::Aliases;
use crate::cursor::{Codes, Cursor, MAX_DEPTH, Parsed, wrong};
use crate::tree::{Func, Op, Region, Tree, Use};
use indexmap::IndexSet;

/// The most results of one operation.
const MOST_RESULTS: usize = 1 << 16;

/// The parser of a text.
pub struct Parser<'a> {
    /// The place in the text.
    pub cursor: Cursor<'a>,
    custom: Custom,
    depth: usize,
}

/// Reads the rest of an operation in custom form, after its name.
pub type Custom = for<'p, 'a> fn(&'p mut Parser<'a>, &mut Op<'a>) -> Parsed<()>;

/// Reads a module; `custom` reads operations in custom form.
///
/// # Errors
/// The text has another form, or nests too deeply. The code is one of `codes`, and the place is in the text.
pub fn parse<'a>(
    text: &'a str,
    codes: &'static Codes,
    custom: Custom,
) -> Parsed<(Tree<'a>, Aliases<'a>)> {
    let aliases = Aliases::find(text, codes)?;
    let mut parser = Parser {
        cursor: Cursor::new(text, codes),
        custom,
        depth: 0,
    };
    let mut tree = Tree::default();
    parser.module(&mut tree)?;
    Ok((tree, aliases))
}

impl<'a> Parser<'a> {
    fn module(&mut self, tree: &mut Tree<'a>) -> Parsed<()> {
        self.definitions()?;
        if self.cursor.eat_word("module") {
            if self.cursor.peek() == b'@' {
                tree.name = Some(self.cursor.symbol()?);
            }
            if self.cursor.eat_word("attributes") {
                tree.attrs = self.cursor.balanced()?;
            }
            self.cursor.expect("{")?;
            self.beside(tree, b'}')?;
            self.cursor.expect("}")?;
        } else if self.cursor.eat("\"builtin.module\"") {
            self.generic_module(tree)?;
        } else {
            self.beside(tree, 0)?;
        }
        self.location()?;
        self.definitions()?;
        if self.cursor.eat("{-#") {
            self.past_resources()?;
        }
        match self.cursor.peek() {
            0 => Ok(()),
            _ => Err(self.cursor.wanted("the end of the module")),
        }
    }

    fn generic_module(&mut self, tree: &mut Tree<'a>) -> Parsed<()> {
        self.cursor.expect("()")?;
        let mut attrs = Vec::new();
        if self.cursor.eat("<{") {
            attrs = self.dictionary("}")?;
            self.cursor.expect(">")?;
        }
        self.cursor.expect("(")?;
        self.cursor.expect("{")?;
        self.label()?;
        self.beside(tree, b'}')?;
        self.cursor.expect("}")?;
        self.cursor.expect(")")?;
        if self.cursor.peek() == b'{' {
            tree.attrs = self.cursor.balanced()?;
        }
        self.cursor.expect(":")?;
        self.cursor.expect("()")?;
        self.cursor.expect("->")?;
        self.cursor.expect("()")?;
        let name = attrs.iter().find(|(key, _)| *key == "sym_name");
        tree.name = name.map(|(_, text)| text.trim_matches('"'));
        Ok(())
    }

    /// Skips the label of a block without arguments, if there is one: `^bb0:`.
    fn label(&mut self) -> Parsed<()> {
        if self.cursor.eat("^") {
            self.cursor.word();
            self.cursor.eat("()");
            self.cursor.expect(":")?;
        }
        Ok(())
    }

    /// Reads the functions and other operations of a module, up to the byte `end`.
    fn beside(&mut self, tree: &mut Tree<'a>, end: u8) -> Parsed<()> {
        loop {
            self.definitions()?;
            let next = self.cursor.peek();
            if next == end || next == 0 {
                return Ok(());
            }
            if self.cursor.sees("{-#") {
                return Ok(());
            }
            let mut look = self.cursor;
            if look.eat_word("func.func") {
                self.cursor = look;
                tree.funcs.push(self.function()?);
            } else if look.eat("\"func.func\"") {
                self.cursor = look;
                tree.funcs.push(self.generic_function()?);
            } else {
                tree.others.push(self.other()?);
            }
        }
    }

    /// An operation of the module that is not a function, kept as text: one in generic form, or a line that begins with
    /// `sdy.`.
    fn other(&mut self) -> Parsed<&'a str> {
        let start = self.cursor.at;
        if self.cursor.peek() == b'"' {
            self.operation()?;
        } else if self.cursor.sees("sdy.") {
            while !matches!(self.cursor.rest().first(), None | Some(b'\n')) {
                match self.cursor.rest()[0] {
                    b'(' | b'[' | b'{' | b'<' => drop(self.cursor.balanced()?),
                    b'"' => drop(self.cursor.string()?),
                    b'/' if self.cursor.rest().starts_with(b"//") => self.cursor.skip(),
                    _ => self.cursor.at += 1,
                }
            }
        } else {
            return Err(self.cursor.wanted("a function"));
        }
        let text = self.cursor.text.get(start..self.cursor.at);
        Ok(text.unwrap_or("").trim())
    }

    /// Skips definitions of aliases: [`Aliases::find`] has read them.
    fn definitions(&mut self) -> Parsed<()> {
        while matches!(self.cursor.peek(), b'#' | b'!') {
            self.cursor.at += 1;
            if self.cursor.word().is_none() {
                return Err(self.cursor.wanted("the name of an alias"));
            }
            self.cursor.expect("=")?;
            Aliases::definition(&mut self.cursor)?;
        }
        Ok(())
    }

    fn past_resources(&mut self) -> Parsed<()> {
        let Some(end) = self.cursor.text[self.cursor.at..].find("#-}") else {
            return Err(self.cursor.wanted("`#-}` after the resources"));
        };
        self.cursor.at += end + 3;
        Ok(())
    }

    fn function(&mut self) -> Parsed<Func<'a>> {
        let mut func = Func::default();
        if self.cursor.eat_word("private") {
            func.private = true;
        } else {
            let _ = self.cursor.eat_word("public") || self.cursor.eat_word("nested");
        }
        let start = self.cursor.at;
        func.name = self.cursor.symbol()?;
        func.span = self.cursor.since(start);
        self.cursor.expect("(")?;
        if !self.cursor.eat(")") {
            loop {
                let name = self.cursor.value()?;
                self.cursor.expect(":")?;
                let ty = self.ty()?;
                func.body.args.push((name, ty));
                func.arg_attrs.push(self.port()?);
                self.location()?;
                if self.cursor.eat(")") {
                    break;
                }
                self.cursor.expect(",")?;
            }
        }
        if self.cursor.eat("->") {
            self.function_results(&mut func)?;
        }
        if self.cursor.eat_word("attributes") {
            func.attrs = self.cursor.balanced()?;
        }
        let args = std::mem::take(&mut func.body.args);
        self.cursor.expect("{")?;
        func.body = self.block(args)?;
        self.location()?;
        Ok(func)
    }

    fn function_results(&mut self, func: &mut Func<'a>) -> Parsed<()> {
        if !self.cursor.eat("(") {
            func.result_types.push(self.ty()?);
            func.result_attrs.push("");
            return Ok(());
        }
        if self.cursor.eat(")") {
            return Ok(());
        }
        loop {
            func.result_types.push(self.ty()?);
            func.result_attrs.push(self.port()?);
            if self.cursor.eat(")") {
                return Ok(());
            }
            self.cursor.expect(",")?;
        }
    }

    /// The attributes of an argument or result as text, empty if there are none.
    fn port(&mut self) -> Parsed<&'a str> {
        match self.cursor.peek() {
            b'{' => self.cursor.balanced(),
            _ => Ok(""),
        }
    }

    fn generic_function(&mut self) -> Parsed<Func<'a>> {
        let mut func = Func::default();
        let start = self.cursor.at;
        self.cursor.expect("()")?;
        let mut attrs = Vec::new();
        if self.cursor.eat("<{") {
            attrs = self.dictionary("}")?;
            self.cursor.expect(">")?;
        }
        self.cursor.expect("(")?;
        func.body = self.region()?;
        self.cursor.expect(")")?;
        if self.cursor.eat("{") {
            attrs.extend(self.dictionary("}")?);
        }
        self.cursor.expect(":")?;
        self.cursor.expect("()")?;
        self.cursor.expect("->")?;
        self.cursor.expect("()")?;
        self.location()?;
        func.span = self.cursor.since(start);
        for (key, text) in attrs {
            match key {
                "sym_name" => func.name = text.trim_matches('"'),
                "sym_visibility" => func.private = text == "\"private\"",
                "arg_attrs" => func.arg_attrs = items_of(text, self.cursor.codes)?,
                "res_attrs" => func.result_attrs = items_of(text, self.cursor.codes)?,
                "function_type" => {
                    let mut inner = Parser {
                        cursor: Cursor::new(text, self.cursor.codes),
                        custom: self.custom,
                        depth: 0,
                    };
                    inner.types(&mut Vec::new())?;
                    inner.cursor.expect("->")?;
                    inner.types(&mut func.result_types)?;
                }
                _ => {}
            }
        }
        func.arg_attrs.resize(func.body.args.len(), "");
        func.result_attrs.resize(func.result_types.len(), "");
        Ok(func)
    }

    /// Reads `(T, T)` or `T`.
    pub fn types(&mut self, out: &mut Vec<&'a str>) -> Parsed<()> {
        if !self.cursor.eat("(") {
            out.push(self.ty()?);
            return Ok(());
        }
        if self.cursor.eat(")") {
            return Ok(());
        }
        loop {
            out.push(self.ty()?);
            if self.cursor.eat(")") {
                return Ok(());
            }
            self.cursor.expect(",")?;
        }
    }

    /// A type as text: a word, then optionally text in angle brackets.
    pub fn ty(&mut self) -> Parsed<&'a str> {
        self.cursor.skip();
        let start = self.cursor.at;
        self.cursor.eat("!");
        if self.cursor.word().is_none() {
            return Err(self.cursor.wanted("a type"));
        }
        if self.cursor.rest().first() == Some(&b'<') {
            self.cursor.balanced()?;
        }
        Ok(self.cursor.text.get(start..self.cursor.at).unwrap_or(""))
    }

    /// The text of `loc(…)`, if it follows.
    pub fn location(&mut self) -> Parsed<Option<&'a str>> {
        let mut look = self.cursor;
        if look.word() == Some("loc") && look.rest().first() == Some(&b'(') {
            self.cursor = look;
            return self.cursor.balanced().map(Some);
        }
        Ok(None)
    }

    /// A region in braces: `{ ^bb0(%a: T): … }`.
    pub fn region(&mut self) -> Parsed<Region<'a>> {
        self.cursor.expect("{")?;
        let mut args = Vec::new();
        if self.cursor.eat("^") {
            self.cursor.word();
            if self.cursor.eat("(") && !self.cursor.eat(")") {
                args = self.arguments()?;
            }
            self.cursor.expect(":")?;
        }
        self.block(args)
    }

    /// Reads arguments `%a: T, %b: T)`.
    pub fn arguments(&mut self) -> Parsed<Vec<(&'a str, &'a str)>> {
        let mut args = Vec::new();
        loop {
            let name = self.cursor.value()?;
            self.cursor.expect(":")?;
            args.push((name, self.ty()?));
            self.location()?;
            if self.cursor.eat(")") {
                return Ok(args);
            }
            self.cursor.expect(",")?;
        }
    }

    /// Operations up to the closing brace, which is consumed.
    pub fn block(&mut self, args: Vec<(&'a str, &'a str)>) -> Parsed<Region<'a>> {
        self.depth += 1;
        if MAX_DEPTH < self.depth {
            let place = self.cursor.since(self.cursor.at);
            let message = "regions nest too deeply";
            return Err(wrong(self.cursor.codes.too_deep, message, place));
        }
        let mut known: IndexSet<&str> = args.iter().map(|(name, _)| *name).collect();
        let mut free: IndexSet<(&str, usize)> = IndexSet::new();
        let mut uses = Vec::new();
        let mut ops = Vec::new();
        while !self.cursor.eat("}") {
            if self.cursor.peek() == b'^' {
                return Err(self
                    .cursor
                    .wanted("one block: control flow between blocks is not read"));
            }
            let op = self.operation()?;
            let inner = op.regions.iter().flat_map(|region| &region.free);
            for used in op.operands.iter().chain(inner) {
                if !known.contains(used.name) && free.insert((used.name, used.part)) {
                    uses.push(*used);
                }
            }
            known.extend(op.results.iter().map(|(name, _)| *name));
            ops.push(op);
        }
        self.depth -= 1;
        Ok(Region {
            args,
            ops,
            free: uses,
        })
    }

    /// One operation, in generic or in custom form.
    pub fn operation(&mut self) -> Parsed<Op<'a>> {
        let mut results = Vec::new();
        if self.cursor.peek() == b'%' {
            results = self.results()?;
        }
        self.cursor.skip();
        let start = self.cursor.at;
        let mut op = Op {
            results,
            ..Op::default()
        };
        if self.cursor.peek() == b'"' {
            let name = self.cursor.string()?;
            op.name = &name[1..name.len() - 1];
            op.span = self.cursor.since(start);
            self.generic(&mut op)?;
        } else {
            let Some(name) = self.cursor.word() else {
                return Err(self.cursor.wanted("an operation"));
            };
            op.name = name;
            op.span = self.cursor.since(start);
            (self.custom)(self, &mut op)?;
        }
        op.text = self.cursor.text.get(start..self.cursor.at).unwrap_or("");
        op.loc = self.location()?;
        if op.count() != op.result_types.len() && !op.results.is_empty() {
            let message = format!(
                "found {} names for {} results",
                op.count(),
                op.result_types.len()
            );
            return Err(wrong(self.cursor.codes.syntax, message, op.span));
        }
        Ok(op)
    }

    /// Reads the results `%0:2, %a =` of an operation: names, and the number of results that each name stands for.
    fn results(&mut self) -> Parsed<Vec<(&'a str, usize)>> {
        let mut results = Vec::new();
        let mut all = 0usize;
        loop {
            let name = self.cursor.value()?;
            let mut count = 1;
            if self.cursor.eat(":") {
                let number = self.cursor.word().and_then(|n| n.parse::<usize>().ok());
                count = match number.filter(|n| (1..=MOST_RESULTS).contains(n)) {
                    Some(count) => count,
                    None => return Err(self.cursor.wanted("how many results there are")),
                };
            }
            all += count;
            if MOST_RESULTS < all {
                return Err(self.cursor.wanted("fewer results"));
            }
            results.push((name, count));
            if !self.cursor.eat(",") {
                self.cursor.expect("=")?;
                return Ok(results);
            }
        }
    }

    /// Reads an operand, `%a` or `%a#1`.
    pub fn used(&mut self) -> Parsed<Use<'a>> {
        self.cursor.skip();
        let start = self.cursor.at;
        let name = self.cursor.value()?;
        let mut part = 0;
        if self.cursor.rest().first() == Some(&b'#') {
            self.cursor.at += 1;
            let number = self.cursor.word().and_then(|n| n.parse().ok());
            match number {
                Some(number) => part = number,
                None => return Err(self.cursor.wanted("the number of a result")),
            }
        }
        let span = self.cursor.since(start);
        Ok(Use { name, part, span })
    }

    /// Reads the rest of an operation in generic form after its name: `(%a, %b) <{…}> ({…}) {…} : (T) -> T`.
    fn generic(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        self.cursor.expect("(")?;
        if !self.cursor.eat(")") {
            loop {
                op.operands.push(self.used()?);
                if self.cursor.eat(")") {
                    break;
                }
                self.cursor.expect(",")?;
            }
        }
        if self.cursor.eat("<{") {
            op.attrs = self.dictionary("}")?;
            self.cursor.expect(">")?;
        }
        if self.cursor.eat("(") {
            loop {
                op.regions.push(self.region()?);
                if self.cursor.eat(")") {
                    break;
                }
                self.cursor.expect(",")?;
            }
        }
        if self.cursor.eat("{") {
            op.attrs.extend(self.dictionary("}")?);
        }
        self.cursor.expect(":")?;
        self.types(&mut op.operand_types)?;
        self.cursor.expect("->")?;
        self.types(&mut op.result_types)
    }

    /// Reads attributes `key = value, flag` up to the closing bracket, which is consumed. A flag gets the value `unit`.
    pub fn dictionary(&mut self, close: &str) -> Parsed<Vec<(&'a str, &'a str)>> {
        let mut attrs = Vec::new();
        if self.cursor.eat(close) {
            return Ok(attrs);
        }
        loop {
            let key = if self.cursor.peek() == b'"' {
                self.cursor.string()?.trim_matches('"')
            } else {
                match self.cursor.word() {
                    Some(key) => key,
                    None => return Err(self.cursor.wanted("the name of an attribute")),
                }
            };
            let text = if self.cursor.eat("=") {
                self.attribute()?
            } else {
                "unit"
            };
            attrs.push((key, text));
            if self.cursor.eat(close) {
                return Ok(attrs);
            }
            self.cursor.expect(",")?;
        }
    }

    /// The value of an attribute: the text up to a comma or a closing bracket.
    fn attribute(&mut self) -> Parsed<&'a str> {
        self.cursor.skip();
        let start = self.cursor.at;
        loop {
            match self.cursor.peek() {
                0 => return Err(self.cursor.wanted("the value of an attribute")),
                b',' | b')' | b']' | b'}' => break,
                b'>' => break,
                b'(' | b'[' | b'{' | b'<' => drop(self.cursor.balanced()?),
                b'"' => drop(self.cursor.string()?),
                b'-' if self.cursor.sees("->") => self.cursor.at += 2,
                _ => {
                    let rest = &self.cursor.text[self.cursor.at..];
                    self.cursor.at += rest.chars().next().map_or(1, char::len_utf8);
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

/// The parts of `[{…}, {…}]`.
fn items_of<'a>(text: &'a str, codes: &'static Codes) -> Parsed<Vec<&'a str>> {
    let mut cursor = Cursor::new(text, codes);
    let mut items = Vec::new();
    cursor.expect("[")?;
    while !cursor.eat("]") {
        items.push(match cursor.balanced()? {
            "{}" => "",
            item => item,
        });
        cursor.eat(",");
    }
    Ok(items)
}
