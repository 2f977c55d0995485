//! Reads modules, functions and operations.

use super::Parsed;
use super::alias::Alias;
use super::func::{Scope, name_results};
use crate::attr::Attr;
use crate::diag::Diagnostic;
use crate::entity::EntityId;
use crate::module::{Module, Span, Value};
use crate::types::Type;
use indexmap::IndexMap;
use std::sync::Arc;

/// How many errors one parse reports.
const MAX_ERRORS: usize = 50;

/// How much aliases may expand to in all, beside a multiple of the text: attributes, locations and
/// bytes of text.
const MAX_EXPANSION: u64 = 1 << 20;

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
    pub(super) diags: Vec<Diagnostic>,
    /// Whether the last error leaves no place to go on from.
    fatal: bool,
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

    pub(super) fn report(&mut self, fail: Fail) {
        // An error in an alias comes again at every use.
        if let Fail::Diag(d) = fail
            && !self.diags.contains(&d)
        {
            self.diags.push(*d);
        }
    }

    /// Reports an error and goes on at the next operation, unless there were too many.
    pub(super) fn report_and_recover(&mut self, fail: Fail, start: usize) -> PResult<()> {
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
    pub(super) fn intern(&mut self, text: &'s str) -> Arc<str> {
        self.names
            .entry(text)
            .or_insert_with(|| Arc::from(text))
            .clone()
    }

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
}
