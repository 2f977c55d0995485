//! The grammar of operations and of the values in them.
//!
//! Example: `%0:2 = "hbir.split"(%x) <{axis = 0, sizes = [3, 1]}> : (tensor<4xf32>) -> (tensor<3xf32>, tensor<1xf32>)`
//! has two results, `%0#0` and `%0#1`.

use super::parser::{Fail, PResult, Parser};
use super::print::print_type;
use super::scope::{Scope, Slot};
use super::types::same_type;
use crate::attr::{Attr, AttrDict};
use crate::codes;
use crate::entity::EntityId;
use crate::module::{Loc, Op, Value};
use crate::span::Span;
use crate::types::Type;
use std::sync::Arc;

/// `%x` or `%x#1` in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use<'s> {
    pub(super) name: &'s str,
    pub(super) number: u32,
    pub(super) span: Span,
}

/// A parsed operation that is not yet in its function.
pub(super) struct Built {
    pub(super) name: Arc<str>,
    pub(super) operands: Vec<Value>,
    pub(super) props: AttrDict,
    pub(super) attrs: AttrDict,
    pub(super) result_types: Vec<Type>,
    pub(super) loc: Loc,
    pub(super) span: Span,
}

impl<'s> Parser<'s> {
    pub(super) fn body(&mut self, scope: &mut Scope<'s>) -> PResult<()> {
        while !matches!(self.peek(), Some(b'}') | None) {
            let start = self.pos;
            if self.byte() == Some(b'^') {
                let mut fail = self.wanted("an operation", "");
                fail.recode(codes::BLOCK_UNSUPPORTED);
                return Err(fail.hint("a function is one block; control flow is not supported"));
            }
            if let Err(fail) = self.op(scope) {
                self.report_and_recover(fail, start)?;
            }
        }
        Ok(())
    }

    /// One operation with the names of its results.
    pub(super) fn op(&mut self, scope: &mut Scope<'s>) -> PResult<()> {
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

    pub(super) fn op_inside(
        &mut self,
        scope: &mut Scope<'s>,
        start: usize,
        names: &mut Vec<(Use<'s>, u32)>,
    ) -> PResult<()> {
        if let Some(place) = scope.returned {
            let mut fail = self.wanted("the end of the function", "after `return`");
            fail.recode(codes::RETURN_NOT_LAST);
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
                let fail = Fail::at(codes::OP_CUSTOM_SYNTAX, message, span, "not in quotes");
                Err(fail.hint(format!(
                    "write \"{word}\"(%operands) : (types) -> type, or print the file with `mlir-opt --mlir-print-op-generic`"
                )))
            }
        }
    }

    /// `%a, %b:2 =`.
    pub(super) fn result_names(&mut self, names: &mut Vec<(Use<'s>, u32)>) -> PResult<()> {
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
                        codes::RESULT_COUNT,
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
    pub(super) fn value_use(&mut self) -> PResult<Use<'s>> {
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

    pub(super) fn value_uses(&mut self, uses: &mut Vec<Use<'s>>) -> PResult<()> {
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

    pub(super) fn generic_op(
        &mut self,
        scope: &mut Scope<'s>,
        names: &[(Use<'s>, u32)],
    ) -> PResult<()> {
        let name_start = self.pos;
        let text = self.string("as the name of an operation")?;
        let name_span = self.span(name_start, self.pos);
        if text.is_empty() || text.contains('\0') {
            let message = "an operation has a name without NUL characters";
            return Err(Fail::at(codes::OP_NAME, message, name_span, "no name"));
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
            scope.finish_return(&operands, span);
            return Ok(());
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

    /// `<{…}>`, then regions and successors (which are refused), then `{…}`.
    pub(super) fn op_attrs(&mut self) -> PResult<(AttrDict, AttrDict)> {
        let mut props = AttrDict::new();
        if self.at("[") {
            let mut fail = self.wanted("`:`", "after the operands");
            fail.recode(codes::BLOCK_UNSUPPORTED);
            return Err(fail.hint("a function is one block; control flow is not supported"));
        }
        if self.eat("<") {
            props = self.attr_dict()?;
            self.expect(">", "after the properties")?;
        }
        if self.at("(") {
            let mut fail = self.wanted("`:`", "before the type of the operation");
            fail.recode(codes::REGION_UNSUPPORTED);
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
    pub(super) fn op_type(&mut self) -> PResult<(Vec<Type>, Vec<Type>)> {
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

    /// The values of the operands; their types must equal the written ones.
    pub(super) fn operands(
        &mut self,
        scope: &mut Scope<'s>,
        uses: &[Use<'s>],
        types: &[Type],
        types_span: Span,
    ) -> PResult<Vec<Value>> {
        if uses.len() != types.len() {
            let message = format!("found {} operand types, wanted {}", types.len(), uses.len());
            let span = uses.first().zip(uses.last());
            let fail = Fail::at(
                codes::OPERAND_COUNT,
                message,
                types_span,
                "one type an operand",
            );
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

    /// The value of a use. A text may use a value before its definition, and a bare list of operations has undeclared
    /// arguments. So an unknown name is only recorded here, and reported at the end of the function. A name whose
    /// definition was refused gives no further error.
    pub(super) fn resolve(
        &mut self,
        scope: &mut Scope<'s>,
        used: &Use<'s>,
        ty: &Type,
    ) -> PResult<Value> {
        let value = match scope.slots.get(used.name) {
            Some(Slot::Refused) => return Err(Fail::Silent),
            Some(&Slot::Values { first, count }) => {
                if used.number >= count {
                    let message = format!(
                        "found %{}#{}, wanted a number below {count}",
                        used.name, used.number
                    );
                    return Err(Fail::at(
                        codes::VALUE_NUMBER,
                        message,
                        used.span,
                        "no such result",
                    ));
                }
                Value::of_table(first.index() + used.number as usize, first.table())
            }
            None if scope.func.bare => self.implicit_arg(scope, used, ty)?,
            None => {
                scope.undefined.push((self.diags.len(), used.name));
                let message = format!("%{} is used and not defined before", used.name);
                return Err(Fail::at(
                    codes::VALUE_UNDEFINED,
                    message,
                    used.span,
                    "used here",
                ));
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
        let (found, want) = (print_type(ty), print_type(known));
        let message = format!(
            "%{} is used as {found}, wanted {want}, which is its type",
            used.name
        );
        let fail = Fail::at(
            codes::OPERAND_TYPE_MISMATCH,
            message,
            used.span,
            "used here",
        );
        Err(match scope.func.def_op(value) {
            Some(op) => fail.label(scope.func.ops[op].span, "defined here"),
            None => fail,
        })
    }

    pub(super) fn implicit_arg(
        &mut self,
        scope: &mut Scope<'s>,
        used: &Use<'s>,
        ty: &Type,
    ) -> PResult<Value> {
        if used.number > 0 {
            let message = format!("%{}#{} is used and not defined", used.name, used.number);
            return Err(Fail::at(
                codes::VALUE_UNDEFINED,
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

    pub(super) fn define(
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
                        Fail::at(codes::VALUE_UNDEFINED, message, span, "defined only here")
                    }
                    None => {
                        let message = format!("%{name} is defined twice");
                        Fail::at(
                            codes::VALUE_REDEFINED,
                            message,
                            span,
                            "also the name of an argument",
                        )
                    }
                    Some(op) => {
                        let message = format!("%{name} is defined twice");
                        let fail = Fail::at(
                            codes::VALUE_REDEFINED,
                            message,
                            span,
                            "the second definition",
                        );
                        fail.label(scope.func.ops[op].span, "the first definition")
                    }
                };
                Err(fail)
            }
        }
    }

    pub(super) fn push_op(
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
            return Err(Fail::at(codes::RESULT_COUNT, message, span, "named here"));
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

    pub(super) fn name_op(
        &mut self,
        scope: &mut Scope<'s>,
        op: Op,
        names: &[(Use<'s>, u32)],
    ) -> PResult<()> {
        let mut at = 0;
        for &(def, count) in names {
            let Some(&first) = scope.func.ops[op].results.get(at) else {
                break;
            };
            at += count as usize;
            self.define(scope, def.name, def.span, Slot::Values { first, count })?;
            for i in 0..count {
                let value = Value::of_table(first.index() + i as usize, first.table());
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
    pub(super) fn return_op(&mut self, scope: &mut Scope<'s>, start: usize) -> PResult<()> {
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
        scope.finish_return(&values, span);
        Ok(())
    }

    /// `call @f(%0) : (a) -> b` after the word, as `mlir-opt` prints `func.call`.
    pub(super) fn call_op(
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
