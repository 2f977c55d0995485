//! Reads modules, functions and operations.

use super::Parsed;
use crate::attr::{Attr, AttrDict};
use crate::diag::Diagnostic;
use crate::entity::EntityId;
use crate::module::{Func, Loc, Module, Op, Port, Span, Value};
use crate::types::Type;
use indexmap::IndexMap;
use std::sync::Arc;

/// How many errors one parse reports.
const MAX_ERRORS: usize = 50;

/// How much aliases may expand to in all, beside a multiple of the text: attributes, locations and
/// bytes of text.
const MAX_EXPANSION: u64 = 1 << 20;

/// How many bytes of an alias's text count as one attribute or location.
const BYTES_A_NODE: u64 = 8;

/// The name of the function that a file of bare operations stands for.
const IMPLICIT_FUNC: &str = "main";

/// Why reading stops here.
#[derive(Debug)]
pub(super) enum Fail {
    /// With an error.
    Diag(Box<Diagnostic>),
    /// Because of an error that is already told.
    Silent,
}

impl Fail {
    /// Adds a second place.
    pub(super) fn label(self, span: Span, text: &str) -> Fail {
        match self {
            Fail::Diag(d) => Fail::Diag(Box::new(d.at(span, text))),
            Fail::Silent => Fail::Silent,
        }
    }

    /// Gives the error another code.
    pub(super) fn recode(&mut self, code: &'static str) {
        if let Fail::Diag(d) = self {
            d.code = code;
        }
    }
}

pub(super) type PResult<T> = Result<T, Fail>;

/// An alias: where its value stands, and what it was when it was first used.
#[derive(Debug)]
pub(super) struct Alias {
    pub(super) at: usize,
    attr: Option<(Attr, u64)>,
    ty: Option<Type>,
    loc: Option<(Loc, u64)>,
    text: Option<Arc<str>>,
}

/// Reads one program.
#[derive(Debug)]
pub(super) struct Parser<'s> {
    pub(super) src: &'s str,
    pub(super) pos: usize,
    pub(super) depth: u32,
    /// Attributes and locations read so far, those of aliases counted at every use.
    pub(super) nodes: u64,
    /// Whether the operation being read is of another dialect.
    pub(super) foreign: bool,
    pub(super) types: IndexMap<&'s str, Type>,
    pub(super) aliases: IndexMap<&'s str, Alias>,
    names: IndexMap<&'s str, Arc<str>>,
    expanded: u64,
    diags: Vec<Diagnostic>,
    /// Whether the last error leaves no place to go on from.
    fatal: bool,
}

/// What a name of the text stands for.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// The values from this one on, `count` of them.
    Values { first: Value, count: u32 },
    /// Its definition or first use was refused.
    Refused,
}

/// `%x` or `%x#1` in the text.
#[derive(Clone, Copy, Debug)]
struct Use<'s> {
    name: &'s str,
    number: u32,
    span: Span,
}

/// The function being read.
#[derive(Debug)]
struct Scope<'s> {
    func: Func,
    slots: IndexMap<&'s str, Slot>,
    /// Per value: whether something uses it. Kept for bare files alone.
    used: Vec<bool>,
    /// The `return`, once it was read.
    returned: Option<Span>,
    /// Whether the `return` was refused.
    return_refused: bool,
    /// Uses of names that were not defined before: the error's number and the name.
    undefined: Vec<(usize, &'s str)>,
}

impl<'s> Scope<'s> {
    fn new(name: &str, bare: bool) -> Self {
        let mut func = Func::new(name);
        func.bare = bare;
        Scope {
            func,
            slots: IndexMap::new(),
            used: Vec::new(),
            returned: None,
            return_refused: false,
            undefined: Vec::new(),
        }
    }
}

impl<'s> Parser<'s> {
    pub(super) fn new(src: &'s str) -> Self {
        Parser {
            src,
            pos: 0,
            depth: 0,
            nodes: 0,
            foreign: false,
            types: IndexMap::new(),
            aliases: IndexMap::new(),
            names: IndexMap::new(),
            expanded: 0,
            diags: Vec::new(),
            fatal: false,
        }
    }

    /// Reads the whole text.
    pub(super) fn run(mut self) -> Parsed {
        let mut module = Module::default();
        self.find_aliases();
        if let Err(fail) = self.top_level(&mut module) {
            self.report(fail);
        }
        Parsed {
            module,
            diags: self.diags,
        }
    }

    fn report(&mut self, fail: Fail) {
        // An error in an alias comes again at every use.
        if let Fail::Diag(d) = fail
            && !self.diags.contains(&d)
        {
            self.diags.push(*d);
        }
    }

    /// Reports an error and goes on at the next operation, unless there were too many.
    fn report_and_recover(&mut self, fail: Fail, start: usize) -> PResult<()> {
        self.report(fail);
        if self.fatal || self.diags.len() >= MAX_ERRORS {
            return Err(Fail::Silent);
        }
        self.depth = 0;
        self.recover(start);
        Ok(())
    }

    /// Counts what an alias expands to.
    pub(super) fn spend(&mut self, amount: u64) -> PResult<()> {
        self.expanded = self.expanded.saturating_add(amount);
        if self.expanded <= MAX_EXPANSION.saturating_add(16 * self.src.len() as u64) {
            return Ok(());
        }
        let span = self.span(self.pos, self.pos);
        Err(Fail::at(
            "alias-too-large",
            "the aliases expand to too much text",
            span,
            "while reading this",
        ))
    }

    /// An interned copy of a name.
    fn intern(&mut self, text: &'s str) -> Arc<str> {
        self.names
            .entry(text)
            .or_insert_with(|| Arc::from(text))
            .clone()
    }

    // Aliases.

    /// Finds `#a = …` and `!t = …` at the start of lines; they may stand after their uses.
    fn find_aliases(&mut self) {
        let bytes = self.src.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            self.pos = at;
            if matches!(bytes.get(at), Some(b'#' | b'!')) {
                self.pos += 1;
                if self.word().is_some() {
                    let name = self.src.get(at..self.pos).unwrap_or_default();
                    if self.eat("=") {
                        let at = self.pos;
                        let alias = Alias {
                            at,
                            attr: None,
                            ty: None,
                            loc: None,
                            text: None,
                        };
                        self.aliases.entry(name).or_insert(alias);
                    }
                }
            }
            at = super::lexer::line_end(bytes, at) + 1;
        }
        self.pos = 0;
    }

    /// Reads the value of an alias in its place and comes back.
    fn visit<T>(&mut self, at: usize, f: impl FnOnce(&mut Self) -> PResult<T>) -> PResult<T> {
        let back = self.pos;
        self.pos = at;
        let out = self.deeper(f);
        self.pos = back;
        out
    }

    /// The attribute that `#name` stands for.
    pub(super) fn alias_attr(&mut self, name: &str) -> PResult<Option<Attr>> {
        let Some((index, _, alias)) = self.aliases.get_full(name) else {
            return Ok(None);
        };
        if let Some((_, nodes)) = alias.attr {
            self.nodes = self.nodes.saturating_add(nodes);
            self.spend(nodes)?;
            return Ok(self.aliases[index]
                .attr
                .as_ref()
                .map(|(attr, _)| attr.clone()));
        }
        let before = self.nodes;
        let attr = self.visit(alias.at, Self::attr_counted)?;
        self.aliases[index].attr = Some((attr.clone(), self.nodes - before));
        Ok(Some(attr))
    }

    /// An attribute whose text counts too, since every use of its alias repeats it.
    fn attr_counted(&mut self) -> PResult<Attr> {
        let start = self.pos;
        let attr = self.attr()?;
        self.nodes += (self.pos - start) as u64 / BYTES_A_NODE;
        Ok(attr)
    }

    /// The type that `!name` stands for.
    pub(super) fn alias_type(&mut self, name: &str) -> PResult<Option<Type>> {
        let Some((index, _, alias)) = self.aliases.get_full(name) else {
            return Ok(None);
        };
        if let Some(ty) = &alias.ty {
            return Ok(Some(ty.clone()));
        }
        let ty = self.visit(alias.at, Self::ty)?;
        self.aliases[index].ty = Some(ty.clone());
        Ok(Some(ty))
    }

    /// The location that `#name` stands for.
    fn alias_loc(&mut self, name: &str) -> PResult<Option<Loc>> {
        let Some((index, _, alias)) = self.aliases.get_full(name) else {
            return Ok(None);
        };
        if let Some((_, nodes)) = alias.loc {
            self.nodes = self.nodes.saturating_add(nodes);
            self.spend(nodes)?;
            return Ok(self.aliases[index].loc.as_ref().map(|(loc, _)| loc.clone()));
        }
        let before = self.nodes;
        let loc = self.visit(alias.at, |p| {
            if p.at("#") {
                return p.loc_inside();
            }
            let start = p.pos;
            let loc = p.loc()?;
            p.nodes += (p.pos - start) as u64 / BYTES_A_NODE;
            Ok(loc)
        })?;
        self.aliases[index].loc = Some((loc.clone(), self.nodes - before));
        Ok(Some(loc))
    }

    /// The text that an alias stands for, its own aliases replaced.
    pub(super) fn alias_text(&mut self, name: &str) -> PResult<Option<Arc<str>>> {
        let Some((index, _, alias)) = self.aliases.get_full(name) else {
            return Ok(None);
        };
        if let Some(text) = &alias.text {
            return Ok(Some(text.clone()));
        }
        let text = self.visit(alias.at, |p| {
            p.skip();
            let start = p.pos;
            p.alias_value(name)?;
            p.raw_since(start)
        })?;
        let text: Arc<str> = Arc::from(text);
        self.aliases[index].text = Some(text.clone());
        Ok(Some(text))
    }

    fn alias_value(&mut self, name: &str) -> PResult<()> {
        if name.starts_with('!') {
            return self.ty().map(drop);
        }
        if self.at("loc(") {
            return self.loc().map(drop);
        }
        let start = self.pos;
        let fail = match self.attr() {
            Ok(_) => return Ok(()),
            Err(fail) => fail,
        };
        // A layout in the short form is no attribute.
        self.pos = start;
        if self.byte() == Some(b'{') && self.encoding_entries().is_ok() {
            return Ok(());
        }
        Err(fail)
    }

    /// `#name = …` or `!name = …` at the top of the file.
    fn alias_definition(&mut self) -> PResult<()> {
        let start = self.pos;
        self.pos += 1;
        self.word()
            .ok_or_else(|| self.wanted("the name of an alias", ""))?;
        let name = self.src.get(start..self.pos).unwrap_or_default();
        let span = self.span(start, self.pos);
        self.expect("=", "after the name of an alias")?;
        if self.aliases.get(name).is_some_and(|a| a.at != self.pos) {
            let message = format!("the alias `{name}` is defined twice");
            return Err(Fail::at("alias-redefined", message, span, "the second one"));
        }
        self.alias_value(name)
    }

    // Locations.

    /// `loc(…)` if it comes next.
    fn trailing_loc(&mut self) -> PResult<Loc> {
        if self.at_word("loc") {
            self.loc()
        } else {
            Ok(Loc::Unknown)
        }
    }

    fn loc(&mut self) -> PResult<Loc> {
        self.expect("loc", "")?;
        self.expect("(", "after `loc`")?;
        let loc = self.loc_inside()?;
        self.expect(")", "to close `loc(`")?;
        Ok(loc)
    }

    fn loc_inside(&mut self) -> PResult<Loc> {
        self.deeper(|p| {
            p.nodes += 1;
            match p.peek() {
                Some(b'"') => p.loc_string(),
                Some(b'#') => p.loc_alias(),
                _ => p.loc_word(),
            }
        })
    }

    fn loc_alias(&mut self) -> PResult<Loc> {
        let start = self.pos;
        self.pos += 1;
        self.word()
            .ok_or_else(|| self.wanted("the name of a location alias", ""))?;
        let name = self.src.get(start..self.pos).unwrap_or_default();
        let loc = self.alias_loc(name)?;
        loc.ok_or_else(|| {
            let span = self.span(start, self.pos);
            let message = format!("the location alias `{name}` is not defined");
            Fail::at("alias-undefined", message, span, "used here")
        })
    }

    /// `"file":1:2`, `"name"` or `"name"(child)`.
    fn loc_string(&mut self) -> PResult<Loc> {
        let text = self.string("as a location")?;
        if self.eat(":") {
            let line = self.loc_number("a line")?;
            self.expect(":", "between line and column")?;
            let col = self.loc_number("a column")?;
            return Ok(Loc::File(Arc::from(&*text), line, col));
        }
        let name = Loc::name(&text);
        if !self.eat("(") {
            return Ok(name);
        }
        let child = self.loc_inside()?;
        self.expect(")", "to close the location")?;
        Ok(fused(vec![name, child]))
    }

    fn loc_number(&mut self, what: &str) -> PResult<u32> {
        self.skip();
        let start = self.pos;
        let number = self.unsigned(what)?;
        u32::try_from(number).map_err(|_| {
            let span = self.span(start, self.pos);
            Fail::at(
                "number-out-of-range",
                format!("{what} is not below 2^32"),
                span,
                "too large",
            )
        })
    }

    fn loc_word(&mut self) -> PResult<Loc> {
        if self.eat_word("unknown") {
            return Ok(Loc::Unknown);
        }
        if self.eat_word("fused") {
            return self.loc_fused();
        }
        if self.eat_word("callsite") {
            self.expect("(", "after `callsite`")?;
            let callee = self.loc_inside()?;
            self.expect("at", "between callee and caller")?;
            let caller = self.loc_inside()?;
            self.expect(")", "to close `callsite(`")?;
            return Ok(fused(vec![callee, caller]));
        }
        Err(self.wanted("a location", "inside `loc(…)`"))
    }

    fn loc_fused(&mut self) -> PResult<Loc> {
        if self.byte() == Some(b'<') {
            self.pos += 1;
            self.attr()?;
            self.expect(">", "after the metadata of a fused location")?;
        }
        self.expect("[", "after `fused`")?;
        let mut parts = Vec::new();
        if self.eat("]") {
            return Ok(Loc::Unknown);
        }
        loop {
            parts.push(self.loc_inside()?);
            if self.eat("]") {
                return Ok(fused(parts));
            }
            if !self.eat(",") {
                return Err(self.wanted("`,` or `]`", "in a fused location"));
            }
        }
    }

    // Modules.

    fn top_level(&mut self, module: &mut Module) -> PResult<()> {
        let mut wrapped = false;
        let mut bare: Option<Scope<'s>> = None;
        while self.peek().is_some() {
            let start = self.pos;
            let is_module = self.at_word("module")
                || self.at_word("builtin.module")
                || self.at("\"builtin.module\"");
            let result = if matches!(self.byte(), Some(b'#' | b'!')) {
                self.alias_definition()
            } else if wrapped || (is_module && (bare.is_some() || !module.funcs.is_empty())) {
                return Err(self.second_module());
            } else if is_module {
                wrapped = true;
                self.module(module)
            } else {
                self.module_item(module, &mut bare)
            };
            if let Err(fail) = result {
                self.report_and_recover(fail, start)?;
                if self.byte() == Some(b'}') {
                    self.pos += 1;
                }
            }
        }
        self.finish_bare(bare, module);
        Ok(())
    }

    fn second_module(&mut self) -> Fail {
        let mut fail = self.wanted("the end of the text", "after the module");
        fail.recode("module-duplicate");
        fail.hint(
            "one text holds one module; put `// -----` between modules and split the file there",
        )
    }

    /// `module @name attributes {…} { … }`, or its generic form.
    fn module(&mut self, module: &mut Module) -> PResult<()> {
        module.explicit = true;
        if self.eat("\"builtin.module\"") {
            return self.generic_module(module);
        }
        self.word();
        if self.eat("@") {
            let name = self.symbol_name()?;
            module.name = Some(Arc::from(&*name));
        }
        if self.eat_word("attributes") {
            module.attrs = self.attr_dict()?;
        }
        self.expect("{", "to open the module")?;
        self.module_items(module)?;
        self.expect("}", "to close the module")?;
        module.loc = self.trailing_loc()?;
        Ok(())
    }

    fn generic_module(&mut self, module: &mut Module) -> PResult<()> {
        self.expect("(", "after \"builtin.module\"")?;
        self.expect(")", "after \"builtin.module\"(")?;
        if self.eat("<") {
            let mut props = self.attr_dict()?;
            self.expect(">", "after the properties")?;
            if let Some(Attr::Str(name)) = props.remove("sym_name") {
                module.name = Some(name);
            }
            props
                .iter()
                .for_each(|(name, attr)| module.attrs.set(name, attr.clone()));
        }
        self.expect("(", "to open the region of the module")?;
        self.expect("{", "to open the region of the module")?;
        self.module_items(module)?;
        self.expect("}", "to close the module")?;
        self.expect(")", "to close the region of the module")?;
        if self.at("{") {
            let attrs = self.attr_dict()?;
            attrs
                .iter()
                .for_each(|(name, attr)| module.attrs.set(name, attr.clone()));
        }
        self.expect(":", "before the type of the module")?;
        self.op_type()?;
        module.loc = self.trailing_loc()?;
        Ok(())
    }

    /// Functions or bare operations up to the `}` that closes the module.
    fn module_items(&mut self, module: &mut Module) -> PResult<()> {
        let mut bare = None;
        while !matches!(self.peek(), Some(b'}') | None) {
            let start = self.pos;
            if let Err(fail) = self.module_item(module, &mut bare) {
                self.report_and_recover(fail, start)?;
            }
        }
        self.finish_bare(bare, module);
        Ok(())
    }

    fn module_item(&mut self, module: &mut Module, bare: &mut Option<Scope<'s>>) -> PResult<()> {
        let generic = self.at("\"func.func\"");
        if generic || self.at_word("func.func") || self.at_word("func") {
            if bare.is_some() {
                let mut fail = self.wanted("an operation", "");
                fail.recode("mixed-functions");
                return Err(fail.hint("a file holds functions, or bare operations, but not both"));
            }
            let read = if generic {
                self.generic_func()
            } else {
                self.func()
            };
            self.fatal = read.is_err();
            module.funcs.extend(read?);
            return Ok(());
        }
        if !module.funcs.is_empty() {
            let mut fail = self.wanted("`func.func`", "or the end of the text");
            fail.recode("mixed-functions");
            return Err(fail.hint("a file holds functions, or bare operations, but not both"));
        }
        let scope = bare.get_or_insert_with(|| {
            let mut scope = Scope::new(IMPLICIT_FUNC, true);
            scope.func.span = Span::default();
            scope
        });
        self.op(scope)
    }

    /// Makes the function of a bare file: what nothing uses is its result.
    fn finish_bare(&mut self, bare: Option<Scope<'s>>, module: &mut Module) {
        let Some(mut scope) = bare else { return };
        if scope.returned.is_none() {
            let unused = |v: &Value| !scope.used.get(v.index()).copied().unwrap_or(false);
            let mut results = Vec::new();
            for &op in &scope.func.body {
                results.extend(scope.func.ops[op].results.iter().copied().filter(unused));
            }
            results
                .into_iter()
                .for_each(|v| scope.func.add_result(v, None));
        }
        name_results(&mut scope.func);
        module.funcs.push(scope.func);
    }

    // Functions.

    /// `func.func [visibility] @name(args) -> results attributes {…} { … }`.
    /// `None` if an error in it was reported that leaves the rest of the text readable.
    fn func(&mut self) -> PResult<Option<Func>> {
        let start = self.pos;
        self.word();
        let visibility = ["private", "public", "nested"]
            .into_iter()
            .find(|w| self.eat_word(w));
        self.expect("@", "before the name of a function")?;
        let name = self.symbol_name()?;
        let mut scope = Scope::new(&name, false);
        scope.func.span = self.span(start, self.pos);
        self.args(&mut scope)?;
        let declared = if self.eat("->") {
            self.func_results()?
        } else {
            Vec::new()
        };
        if self.eat_word("attributes") {
            scope.func.attrs = self.attr_dict()?;
        }
        if let Some(word) = visibility {
            scope.func.attrs.set("sym_visibility", Attr::str(word));
        }
        if !self.eat("{") {
            let mut fail = self.wanted("`{`", "to open the body of the function");
            fail.recode("function-without-body");
            return Err(fail.hint("a function without a body cannot be compiled; inline it or call an opaque operation"));
        }
        self.body(&mut scope)?;
        self.expect("}", "to close the function")?;
        scope.func.loc = self.trailing_loc()?;
        let ports = declared.iter().map(|(_, attrs)| attrs.clone()).collect();
        let types: Vec<(Type, Span)> = declared.iter().map(|(ty, _)| ty.clone()).collect();
        let func = self.finish_func(scope, Some(&types), ports);
        Ok(func.map_err(|fail| self.report(fail)).ok())
    }

    fn args(&mut self, scope: &mut Scope<'s>) -> PResult<()> {
        self.expect("(", "to open the arguments")?;
        if self.eat(")") {
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'%') {
                return Err(self.wanted("an argument such as `%x: tensor<4xf32>`", ""));
            }
            self.arg(scope)?;
            if self.eat(")") {
                return Ok(());
            }
            if !self.eat(",") {
                return Err(self.wanted("`,` or `)`", "in the arguments"));
            }
        }
    }

    /// `%x: type {attributes} loc(…)`.
    fn arg(&mut self, scope: &mut Scope<'s>) -> PResult<()> {
        let start = self.pos;
        self.pos += 1;
        let name = self.value_name("after `%`")?;
        let span = self.span(start, self.pos);
        self.expect(":", "after the name of an argument")?;
        let ty = self.ty()?;
        let attrs = if self.at("{") {
            self.attr_dict()?
        } else {
            AttrDict::new()
        };
        self.trailing_loc()?;
        let value = scope.func.add_arg(ty, Some(name));
        if let Some(port) = scope.func.arg_ports.last_mut() {
            set_port_attrs(port, attrs);
        }
        self.define(
            scope,
            name,
            span,
            Slot::Values {
                first: value,
                count: 1,
            },
        )
    }

    fn func_results(&mut self) -> PResult<Vec<((Type, Span), AttrDict)>> {
        let mut results = Vec::new();
        self.skip();
        if !self.eat("(") {
            let start = self.pos;
            let ty = self.ty()?;
            return Ok(vec![((ty, self.span(start, self.pos)), AttrDict::new())]);
        }
        if self.eat(")") {
            return Ok(results);
        }
        loop {
            self.skip();
            let start = self.pos;
            let ty = self.ty()?;
            let span = self.span(start, self.pos);
            let attrs = if self.at("{") {
                self.attr_dict()?
            } else {
                AttrDict::new()
            };
            results.push(((ty, span), attrs));
            if self.eat(")") {
                return Ok(results);
            }
            if !self.eat(",") {
                return Err(self.wanted("`,` or `)`", "in the results"));
            }
        }
    }

    /// `"func.func"() <{…}> ({ ^bb0(%arg0: …): … }) {…} : () -> ()`.
    fn generic_func(&mut self) -> PResult<Option<Func>> {
        let start = self.pos;
        self.eat("\"func.func\"");
        let head = self.span(start, self.pos);
        self.expect("(", "after \"func.func\"")?;
        self.expect(")", "after \"func.func\"(")?;
        let mut props = AttrDict::new();
        if self.eat("<") {
            props = self.attr_dict()?;
            self.expect(">", "after the properties")?;
        }
        let Some(Attr::Str(name)) = props.remove("sym_name") else {
            let message = "\"func.func\" has no `sym_name`";
            return Err(Fail::at(
                "function-name",
                message,
                head,
                "wanted `sym_name = \"…\"` in <{…}>",
            ));
        };
        let mut scope = Scope::new(&name, false);
        scope.func.span = head;
        self.expect("(", "to open the region of the function")?;
        self.expect("{", "to open the region of the function")?;
        if self.at("}") {
            let mut fail = self.wanted("a block", "in the function");
            fail.recode("function-without-body");
            return Err(fail.hint("a function without a body cannot be compiled; inline it or call an opaque operation"));
        }
        if self.at("^") {
            self.pos += 1;
            self.value_name("after `^`")?;
            if self.at("(") {
                self.args(&mut scope)?;
            }
            self.expect(":", "after the name of a block")?;
        }
        self.body(&mut scope)?;
        self.expect("}", "to close the function")?;
        self.expect(")", "to close the region of the function")?;
        if self.at("{") {
            scope.func.attrs = self.attr_dict()?;
        }
        self.expect(":", "before the type of \"func.func\"")?;
        self.op_type()?;
        scope.func.loc = self.trailing_loc()?;
        let mut dicts = |name: &str| -> Vec<AttrDict> {
            let Some(Attr::Array(items)) = props.remove(name) else {
                return Vec::new();
            };
            let dict = |a| {
                if let Attr::Dict(d) = a {
                    d
                } else {
                    AttrDict::new()
                }
            };
            items.into_iter().map(dict).collect()
        };
        let (arg_attrs, ports) = (dicts("arg_attrs"), dicts("res_attrs"));
        for (port, attrs) in scope.func.arg_ports.iter_mut().zip(arg_attrs) {
            set_port_attrs(port, attrs);
        }
        props.remove("function_type");
        props
            .iter()
            .for_each(|(name, attr)| scope.func.attrs.set(name, attr.clone()));
        let func = self.finish_func(scope, None, ports);
        Ok(func.map_err(|fail| self.report(fail)).ok())
    }

    /// Checks the returned values against the declared types and names the results.
    fn finish_func(
        &mut self,
        mut scope: Scope<'s>,
        declared: Option<&[(Type, Span)]>,
        ports: Vec<AttrDict>,
    ) -> PResult<Func> {
        self.explain_undefined(&scope);
        let Some(span) = scope.returned else {
            let span = scope.func.span;
            let name = scope.func.name.clone();
            let message = format!("the function @{name} ends without `return`");
            return Err(Fail::at("return-missing", message, span, "this function"));
        };
        if scope.return_refused {
            return Err(Fail::Silent);
        }
        let func = &mut scope.func;
        if let Some(declared) = declared {
            if declared.len() != func.results.len() {
                let message = format!(
                    "found {} returned values, wanted {}",
                    func.results.len(),
                    declared.len()
                );
                let fail = Fail::at("return-count", message, span, "this `return`");
                return Err(fail.label(func.span, "the function"));
            }
            for (i, ((want, place), &value)) in declared.iter().zip(&func.results).enumerate() {
                if !same_type(want, func.ty(value)) {
                    let found = super::print_type(func.ty(value));
                    let want = super::print_type(want);
                    let message = format!("returned value {i} is {found}, wanted {want}");
                    let fail = Fail::at("return-type-mismatch", message, span, "returned here");
                    return Err(fail.label(*place, "declared here"));
                }
            }
        }
        for (port, attrs) in func.result_ports.iter_mut().zip(ports) {
            set_port_attrs(port, attrs);
        }
        name_results(func);
        Ok(scope.func)
    }

    /// Says of undefined values whether they are defined later.
    fn explain_undefined(&mut self, scope: &Scope<'s>) {
        for &(index, name) in &scope.undefined {
            let Some(diag) = self.diags.get_mut(index) else {
                continue;
            };
            if let Some(Slot::Values { first, .. }) = scope.slots.get(name)
                && let Some(op) = scope.func.def_op(*first)
            {
                diag.labels
                    .push((scope.func.ops[op].span, "defined only here".to_owned()));
                continue;
            }
            let known = scope.slots.keys().copied();
            if let Some(near) = crate::diag::nearest(name, known.filter(|&k| k != name)) {
                diag.notes.push(format!("hint: did you mean %{near}?"));
            }
        }
    }

    // Bodies.

    fn body(&mut self, scope: &mut Scope<'s>) -> PResult<()> {
        while !matches!(self.peek(), Some(b'}') | None) {
            let start = self.pos;
            if self.byte() == Some(b'^') {
                let mut fail = self.wanted("an operation", "");
                fail.recode("block-unsupported");
                return Err(fail.hint("a function is one block; control flow is not supported"));
            }
            if let Err(fail) = self.op(scope) {
                self.report_and_recover(fail, start)?;
            }
        }
        Ok(())
    }

    /// One operation with the names of its results.
    fn op(&mut self, scope: &mut Scope<'s>) -> PResult<()> {
        self.skip();
        let start = self.pos;
        let mut names: Vec<(Use<'s>, u32)> = Vec::new();
        let result = self.op_inside(scope, start, &mut names);
        if result.is_err() {
            for (def, _) in &names {
                scope.slots.entry(def.name).or_insert(Slot::Refused);
            }
        }
        result
    }

    fn op_inside(
        &mut self,
        scope: &mut Scope<'s>,
        start: usize,
        names: &mut Vec<(Use<'s>, u32)>,
    ) -> PResult<()> {
        if let Some(place) = scope.returned {
            let mut fail = self.wanted("the end of the function", "after `return`");
            fail.recode("return-not-last");
            return Err(fail.label(place, "returned here"));
        }
        if self.byte() == Some(b'%') {
            self.result_names(names)?;
        }
        if self.peek() == Some(b'"') {
            return self.generic_op(scope, names);
        }
        let Some(word) = self.word() else {
            return Err(self.wanted("an operation", ""));
        };
        match word {
            "return" | "func.return" if names.is_empty() => self.return_op(scope, start),
            "call" | "func.call" => self.call_op(scope, start, names),
            _ => {
                let span = self.span(self.pos - word.len(), self.pos);
                let message = format!("found `{word}`, wanted an operation in the generic form");
                let fail = Fail::at("op-custom-syntax", message, span, "not in quotes");
                Err(fail.hint(format!(
                    "write \"{word}\"(%operands) : (types) -> type, or print the file with `mlir-opt --mlir-print-op-generic`"
                )))
            }
        }
    }

    /// `%a, %b:2 =`.
    fn result_names(&mut self, names: &mut Vec<(Use<'s>, u32)>) -> PResult<()> {
        loop {
            self.skip();
            let start = self.pos;
            self.expect("%", "before the name of a result")?;
            let name = self.value_name("after `%`")?;
            let span = self.span(start, self.pos);
            let mut count = 1;
            if self.byte() == Some(b':') {
                self.pos += 1;
                count = self.loc_number("the number of results")?;
                if count == 0 {
                    let span = self.span(start, self.pos);
                    return Err(Fail::at(
                        "result-count",
                        "a group of 0 results",
                        span,
                        "wanted at least 1",
                    ));
                }
            }
            names.push((
                Use {
                    name,
                    number: 0,
                    span,
                },
                count,
            ));
            if self.eat("=") {
                return Ok(());
            }
            if !self.eat(",") {
                return Err(self.wanted("`=` or `,`", "after the name of a result"));
            }
        }
    }

    /// `%x#1`.
    fn value_use(&mut self) -> PResult<Use<'s>> {
        if self.peek() != Some(b'%') {
            return Err(self.wanted("a value such as `%0`", ""));
        }
        let start = self.pos;
        self.pos += 1;
        let name = self.value_name("after `%`")?;
        let mut number = 0;
        if self.byte() == Some(b'#') {
            self.pos += 1;
            number = self.loc_number("the number of a result")?;
        }
        Ok(Use {
            name,
            number,
            span: self.span(start, self.pos),
        })
    }

    fn value_uses(&mut self, uses: &mut Vec<Use<'s>>) -> PResult<()> {
        self.expect("(", "to open the operands")?;
        if self.eat(")") {
            return Ok(());
        }
        loop {
            uses.push(self.value_use()?);
            if self.eat(")") {
                return Ok(());
            }
            if !self.eat(",") {
                return Err(self.wanted("`,` or `)`", "in the operands"));
            }
        }
    }

    fn generic_op(&mut self, scope: &mut Scope<'s>, names: &[(Use<'s>, u32)]) -> PResult<()> {
        let name_start = self.pos;
        let text = self.string("as the name of an operation")?;
        let name_span = self.span(name_start, self.pos);
        if text.is_empty() {
            return Err(Fail::at(
                "op-name",
                "the operation has no name",
                name_span,
                "empty",
            ));
        }
        let name = match text {
            std::borrow::Cow::Borrowed(text) => self.intern(text),
            std::borrow::Cow::Owned(text) => Arc::from(text),
        };
        let mut uses = Vec::new();
        self.value_uses(&mut uses)?;
        self.foreign = !name.starts_with("hbir.");
        let parts = self.op_attrs();
        self.foreign = false;
        let (props, attrs) = parts?;
        self.expect(":", "before the type of the operation")?;
        self.skip();
        let types_start = self.pos;
        let (operand_types, result_types) = self.op_type()?;
        let types_span = self.span(types_start, self.pos);
        let loc = self.trailing_loc()?;
        let span = name_span;
        let is_return = &*name == "func.return" && names.is_empty();
        if is_return {
            scope.returned = Some(span);
            scope.return_refused = true;
        }
        let operands = self.operands(scope, &uses, &operand_types, types_span)?;
        if is_return {
            return self.finish_return(scope, &operands, span);
        }
        let built = Built {
            name,
            operands,
            props,
            attrs,
            result_types,
            loc,
            span,
        };
        self.push_op(scope, built, names)
    }

    /// `<{…}>`, then regions and successors, which are refused, then `{…}`.
    fn op_attrs(&mut self) -> PResult<(AttrDict, AttrDict)> {
        let mut props = AttrDict::new();
        if self.at("[") {
            let mut fail = self.wanted("`:`", "after the operands");
            fail.recode("block-unsupported");
            return Err(fail.hint("a function is one block; control flow is not supported"));
        }
        if self.eat("<") {
            props = self.attr_dict()?;
            self.expect(">", "after the properties")?;
        }
        if self.at("(") {
            let mut fail = self.wanted("`:`", "before the type of the operation");
            fail.recode("region-unsupported");
            return Err(fail.hint(
                "operations with regions are not supported; outline the region into a function",
            ));
        }
        let attrs = if self.at("{") {
            self.attr_dict()?
        } else {
            AttrDict::new()
        };
        Ok((props, attrs))
    }

    /// `(a, b) -> (c, d)`; one type needs no parentheses.
    fn op_type(&mut self) -> PResult<(Vec<Type>, Vec<Type>)> {
        let operands = if self.at("(") {
            self.type_list()?
        } else {
            vec![self.ty()?]
        };
        self.expect("->", "between the types of operands and results")?;
        let results = if self.at("(") {
            self.type_list()?
        } else {
            vec![self.ty()?]
        };
        Ok((operands, results))
    }

    /// The values that the operands name; their types must be those written.
    fn operands(
        &mut self,
        scope: &mut Scope<'s>,
        uses: &[Use<'s>],
        types: &[Type],
        types_span: Span,
    ) -> PResult<Vec<Value>> {
        if uses.len() != types.len() {
            let message = format!("found {} operand types, wanted {}", types.len(), uses.len());
            let span = uses.first().zip(uses.last());
            let fail = Fail::at("operand-count", message, types_span, "one type an operand");
            return Err(match span {
                Some((a, b)) => fail.label(
                    Span {
                        start: a.span.start,
                        end: b.span.end,
                    },
                    "the operands",
                ),
                None => fail,
            });
        }
        uses.iter()
            .zip(types)
            .map(|(u, ty)| self.resolve(scope, u, ty))
            .collect()
    }

    fn resolve(&mut self, scope: &mut Scope<'s>, used: &Use<'s>, ty: &Type) -> PResult<Value> {
        let value = match scope.slots.get(used.name) {
            Some(Slot::Refused) => return Err(Fail::Silent),
            Some(&Slot::Values { first, count }) => {
                if used.number >= count {
                    let message = format!(
                        "found %{}#{}, wanted a number below {count}",
                        used.name, used.number
                    );
                    return Err(Fail::at(
                        "value-number",
                        message,
                        used.span,
                        "no such result",
                    ));
                }
                Value::from_index(first.index() + used.number as usize)
            }
            None if scope.func.bare => self.implicit_arg(scope, used, ty)?,
            None => {
                scope.undefined.push((self.diags.len(), used.name));
                let message = format!("%{} is used and not defined before", used.name);
                return Err(Fail::at("value-undefined", message, used.span, "used here"));
            }
        };
        if scope.func.bare {
            if scope.used.len() <= value.index() {
                scope.used.resize(value.index() + 1, false);
            }
            scope.used[value.index()] = true;
        }
        let known = scope.func.ty(value);
        if known == ty || same_type(known, ty) {
            return Ok(value);
        }
        let (found, want) = (super::print_type(ty), super::print_type(known));
        let message = format!(
            "%{} is used as {found}, wanted {want}, which is its type",
            used.name
        );
        let fail = Fail::at("operand-type-mismatch", message, used.span, "used here");
        Err(match scope.func.def_op(value) {
            Some(op) => fail.label(scope.func.ops[op].span, "defined here"),
            None => fail,
        })
    }

    fn implicit_arg(&mut self, scope: &mut Scope<'s>, used: &Use<'s>, ty: &Type) -> PResult<Value> {
        if used.number > 0 {
            let message = format!("%{}#{} is used and not defined", used.name, used.number);
            return Err(Fail::at(
                "value-undefined",
                message,
                used.span,
                "an argument is one value",
            ));
        }
        let value = scope.func.add_arg(ty.clone(), Some(used.name));
        scope.slots.insert(
            used.name,
            Slot::Values {
                first: value,
                count: 1,
            },
        );
        Ok(value)
    }

    fn define(
        &mut self,
        scope: &mut Scope<'s>,
        name: &'s str,
        span: Span,
        slot: Slot,
    ) -> PResult<()> {
        match scope.slots.insert(name, slot) {
            None | Some(Slot::Refused) => Ok(()),
            Some(old) => {
                scope.slots.insert(name, old);
                let Slot::Values { first, .. } = old else {
                    return Ok(());
                };
                let fail = match scope.func.def_op(first) {
                    None if scope.func.bare => {
                        let message = format!("%{name} is used before it is defined");
                        Fail::at("value-undefined", message, span, "defined only here")
                    }
                    None => {
                        let message = format!("%{name} is defined twice");
                        Fail::at(
                            "value-redefined",
                            message,
                            span,
                            "also the name of an argument",
                        )
                    }
                    Some(op) => {
                        let message = format!("%{name} is defined twice");
                        let fail =
                            Fail::at("value-redefined", message, span, "the second definition");
                        fail.label(scope.func.ops[op].span, "the first definition")
                    }
                };
                Err(fail)
            }
        }
    }

    fn push_op(
        &mut self,
        scope: &mut Scope<'s>,
        built: Built,
        names: &[(Use<'s>, u32)],
    ) -> PResult<()> {
        let found: u64 = names.iter().map(|(_, n)| u64::from(*n)).sum();
        let wanted = built.result_types.len() as u64;
        if !names.is_empty() && found != wanted {
            let message = format!("found {found} names of results, wanted {wanted} by the type");
            let span = names.first().map_or(built.span, |(u, _)| u.span);
            return Err(Fail::at("result-count", message, span, "named here"));
        }
        let func = &mut scope.func;
        let op = func.make_op(
            built.name,
            built.operands,
            built.props,
            built.result_types,
            built.loc,
        );
        func.ops[op].attrs = built.attrs;
        func.ops[op].span = built.span;
        func.body.push(op);
        self.name_op(scope, op, names)
    }

    fn name_op(&mut self, scope: &mut Scope<'s>, op: Op, names: &[(Use<'s>, u32)]) -> PResult<()> {
        let mut at = 0;
        for &(def, count) in names {
            let Some(&first) = scope.func.ops[op].results.get(at) else {
                break;
            };
            at += count as usize;
            self.define(scope, def.name, def.span, Slot::Values { first, count })?;
            for i in 0..count {
                let value = Value::from_index(first.index() + i as usize);
                let name = if count == 1 {
                    Arc::from(def.name)
                } else {
                    Arc::from(format!("{}#{i}", def.name))
                };
                scope.func.values[value].name = Some(name);
            }
        }
        Ok(())
    }

    /// `return %0, %1 : a, b` after the word.
    fn return_op(&mut self, scope: &mut Scope<'s>, start: usize) -> PResult<()> {
        let mut uses = Vec::new();
        let mut types = Vec::new();
        let mut types_span = self.span(start, self.pos);
        if self.at("{") {
            self.attr_dict()?;
        }
        if self.at("%") {
            loop {
                uses.push(self.value_use()?);
                if !self.eat(",") {
                    break;
                }
            }
            self.expect(":", "before the types of the returned values")?;
            self.skip();
            let from = self.pos;
            loop {
                types.push(self.ty()?);
                if !self.eat(",") {
                    break;
                }
            }
            types_span = self.span(from, self.pos);
        }
        let span = self.span(start, self.pos);
        self.trailing_loc()?;
        scope.returned = Some(span);
        scope.return_refused = true;
        let values = self.operands(scope, &uses, &types, types_span)?;
        self.finish_return(scope, &values, span)
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "ends the readers of both forms of return"
    )]
    #[expect(
        clippy::unused_self,
        reason = "ends the readers of both forms of return"
    )]
    fn finish_return(&self, scope: &mut Scope<'s>, values: &[Value], span: Span) -> PResult<()> {
        scope.returned = Some(span);
        scope.return_refused = false;
        values.iter().for_each(|&v| scope.func.add_result(v, None));
        Ok(())
    }

    /// `call @f(%0) : (a) -> b` after the word, as `mlir-opt` prints `func.call`.
    fn call_op(
        &mut self,
        scope: &mut Scope<'s>,
        start: usize,
        names: &[(Use<'s>, u32)],
    ) -> PResult<()> {
        self.expect("@", "before the name of the function to call")?;
        let callee = self.symbol_name()?;
        let span = self.span(start, self.pos);
        let props = AttrDict::new().with("callee", Attr::Symbol(Arc::from(&*callee)));
        let mut uses = Vec::new();
        self.value_uses(&mut uses)?;
        let attrs = if self.at("{") {
            self.attr_dict()?
        } else {
            AttrDict::new()
        };
        self.expect(":", "before the type of the call")?;
        self.skip();
        let from = self.pos;
        let (operand_types, result_types) = self.op_type()?;
        let types_span = self.span(from, self.pos);
        let loc = self.trailing_loc()?;
        let operands = self.operands(scope, &uses, &operand_types, types_span)?;
        let name = self.intern("func.call");
        let built = Built {
            name,
            operands,
            props,
            attrs,
            result_types,
            loc,
            span,
        };
        self.push_op(scope, built, names)
    }
}

/// An operation that was read and is not yet in its function.
struct Built {
    name: Arc<str>,
    operands: Vec<Value>,
    props: AttrDict,
    attrs: AttrDict,
    result_types: Vec<Type>,
    loc: Loc,
    span: Span,
}

/// A fused location of parts that are not all unknown.
fn fused(mut parts: Vec<Loc>) -> Loc {
    parts.retain(|l| *l != Loc::Unknown);
    match parts.len() {
        0 => Loc::Unknown,
        1 => parts.remove(0),
        _ => Loc::Fused(parts.into()),
    }
}

fn set_port_attrs(port: &mut Port, attrs: AttrDict) {
    if let Some(name) = attrs.str("hbir.name") {
        port.name = Some(Arc::from(name));
    }
    port.attrs = attrs;
}

/// Gives results that have no name the name of their value, if the text gave it one in words.
fn name_results(func: &mut Func) {
    let mut taken: indexmap::IndexSet<Arc<str>> = func
        .result_ports
        .iter()
        .filter_map(|p| p.name.clone())
        .collect();
    for (port, &value) in func.result_ports.iter_mut().zip(&func.results) {
        let data = &func.values[value];
        let (None, Some(name), crate::module::ValueDef::Result(..)) =
            (&port.name, &data.name, data.def)
        else {
            continue;
        };
        let in_words = !name.contains('#') && !name.bytes().all(|b| b.is_ascii_digit());
        if in_words && taken.insert(name.clone()) {
            port.name = Some(name.clone());
        }
    }
}

/// Whether both are the same type: equal, or equal but for two spellings of one layout.
pub(crate) fn same_type(a: &Type, b: &Type) -> bool {
    if let (Type::Tensor(x), Type::Tensor(y)) = (a, b) {
        if Arc::ptr_eq(x, y) {
            return true;
        }
        if x.dims != y.dims || x.dtype != y.dtype {
            return false;
        }
        if x.spelling == y.spelling {
            return true;
        }
        return match (x.layout(), y.layout()) {
            (Some(Ok(x)), Some(Ok(y))) => x.same_function(&y),
            _ => false,
        };
    }
    a == b
}
