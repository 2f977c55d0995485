//! The grammar of functions, in the custom form and in the generic one.

use super::parser::{Fail, PResult, Parser};
use super::print::print_type;
use super::scope::{Scope, Slot, name_results};
use super::types::same_type;
use crate::attr::{Attr, AttrDict};
use crate::codes;
use crate::module::{Func, Port};
use crate::span::Span;
use crate::types::Type;
use std::sync::Arc;

impl<'s> Parser<'s> {
    /// `func.func [visibility] @name(args) -> results attributes {…} { … }`.
    /// `None` if an error was reported after which the rest of the text can still be read.
    pub(super) fn func(&mut self) -> PResult<Option<Func>> {
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
            fail.recode(codes::FUNCTION_WITHOUT_BODY);
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

    pub(super) fn args(&mut self, scope: &mut Scope<'s>) -> PResult<()> {
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
    pub(super) fn arg(&mut self, scope: &mut Scope<'s>) -> PResult<()> {
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

    pub(super) fn func_results(&mut self) -> PResult<Vec<((Type, Span), AttrDict)>> {
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
    pub(super) fn generic_func(&mut self) -> PResult<Option<Func>> {
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
                codes::FUNCTION_NAME,
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
            fail.recode(codes::FUNCTION_WITHOUT_BODY);
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
    pub(super) fn finish_func(
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
            return Err(Fail::at(
                codes::RETURN_MISSING,
                message,
                span,
                "this function",
            ));
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
                let fail = Fail::at(codes::RETURN_COUNT, message, span, "this `return`");
                return Err(fail.label(func.span, "the function"));
            }
            for (i, ((want, place), &value)) in declared.iter().zip(&func.results).enumerate() {
                if !same_type(want, func.ty(value)) {
                    let found = print_type(func.ty(value));
                    let want = print_type(want);
                    let message = format!("returned value {i} is {found}, wanted {want}");
                    let fail =
                        Fail::at(codes::RETURN_TYPE_MISMATCH, message, span, "returned here");
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

    /// Adds to each error about an undefined value whether it is defined later.
    pub(super) fn explain_undefined(&mut self, scope: &Scope<'s>) {
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
}

pub(super) fn set_port_attrs(port: &mut Port, attrs: AttrDict) {
    if let Some(name) = attrs.str("hbir.name") {
        port.name = Some(Arc::from(name));
    }
    port.attrs = attrs;
}
