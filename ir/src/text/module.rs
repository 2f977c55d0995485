//! The grammar of modules: functions, or bare operations that form one function.

use super::Parsed;
use super::parser::{Fail, PResult, Parser};
use super::scope::{Scope, name_results};
use crate::attr::Attr;
use crate::codes;
use crate::entity::EntityId;
use crate::module::{Module, Value};
use crate::span::Span;
use std::sync::Arc;

/// The name of the function that a file of bare operations forms.
const IMPLICIT_FUNC: &str = "main";

impl<'s> Parser<'s> {
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
        fail.recode(codes::MODULE_DUPLICATE);
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

    /// Functions or bare operations, up to the `}` that closes the module.
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
                fail.recode(codes::MIXED_FUNCTIONS);
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
            fail.recode(codes::MIXED_FUNCTIONS);
            return Err(fail.hint("a file holds functions, or bare operations, but not both"));
        }
        let scope = bare.get_or_insert_with(|| {
            let mut scope = Scope::new(IMPLICIT_FUNC, true);
            scope.func.span = Span::default();
            scope
        });
        self.op(scope)
    }

    /// Makes the function of a bare file; unused values become its results.
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
