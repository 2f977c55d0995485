//! Local rules that are equations between terms of operations.
//!
//! Example: `(mul ?x (sigmoid ?g)) => (acme.gate ?x ?g) if (same-type ?x ?g)`. The left side is matched against an
//! operation and the operations that produce its operands. The right side is made of new operations; their types come
//! from shape rules, and the last one has the type of what it replaces.

use crate::canonicalize::NAMED;
use crate::names_of_rules::{Arg, Condition, Named};
use crate::pass::RuleInfo;
use crate::rules::{LocalRule, Patch, Plan, Refusal, Site, ensure};
use crate::terms::{Call, Equation, EquationError, Tree, tree};
use egg::Var;
use optc_ir::{AttrDict, Value};
use optc_layout::Notation;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A local rule that is an equation.
#[derive(Clone)]
pub struct Rewrite {
    name: String,
    summary: String,
    text: String,
    left: Call,
    right: Tree,
    conditions: Vec<(Condition, Vec<Tree>)>,
    own: Vec<Named>,
}

/// Operations to make, with their attributes.
enum Made {
    Value(Value),
    Op(Arc<str>, AttrDict, Vec<Made>),
}

/// The variables that are bound.
type Bound<'a> = SmallVec<[(Var, Arg<'a>); 4]>;

impl Rewrite {
    /// A rule with a kebab-case name, an equation, a summary in one line, and names of its own.
    ///
    /// # Errors
    /// The text is no equation between operations, or it uses an unknown name.
    pub fn new(
        name: &str,
        equation: &str,
        summary: &str,
        own: &[Named],
    ) -> Result<Rewrite, EquationError> {
        let equation = Equation::parse(equation)?;
        let mut right = tree(&equation.right);
        if let Tree::Call(right) = &mut right {
            name_fully(right);
        }
        let Tree::Call(mut left) = tree(&equation.left) else {
            return Err(EquationError::Form {
                found: equation.left.to_string(),
                wanted: "an operation on the left side",
            });
        };
        name_fully(&mut left);
        let mut rule = Rewrite {
            name: name.to_owned(),
            summary: summary.to_owned(),
            text: equation.text,
            left,
            right,
            conditions: Vec::new(),
            own: own.to_vec(),
        };
        rule.check_attrs(&rule.right)?;
        for condition in equation.conditions {
            let holds = rule.named(&condition.name, Named::condition)?;
            for arg in &condition.args {
                rule.check_functions(arg)?;
            }
            rule.conditions.push((holds, condition.args));
        }
        Ok(rule)
    }

    /// A built-in rule. A test reads all of them.
    pub(crate) fn builtin(rule: &RuleInfo<'_>) -> Rewrite {
        Rewrite::new(rule.name, rule.equation, rule.summary, &[])
            .expect("a built-in equation is read by a test")
    }

    /// The meaning of a name.
    fn named<T>(&self, name: &str, of: fn(&Named, &str) -> Option<T>) -> Result<T, EquationError> {
        let mut all = NAMED.iter().chain(&self.own);
        let found = all.find_map(|named| of(named, name));
        found.ok_or_else(|| EquationError::UnknownName(name.to_owned()))
    }

    /// Checks that the attributes of operations are made by known functions.
    fn check_attrs(&self, tree: &Tree) -> Result<(), EquationError> {
        let Tree::Call(op) = tree else { return Ok(()) };
        op.attrs
            .iter()
            .try_for_each(|(_, attr)| self.check_functions(attr))?;
        op.args.iter().try_for_each(|arg| self.check_attrs(arg))
    }

    fn check_functions(&self, tree: &Tree) -> Result<(), EquationError> {
        let Tree::Call(call) = tree else {
            return Ok(());
        };
        self.named(&call.name, Named::attribute)?;
        call.args
            .iter()
            .try_for_each(|arg| self.check_functions(arg))
    }

    /// The meaning of a term in the place of an attribute.
    fn arg<'a>(&self, tree: &Tree, site: &Site<'_>, bound: &Bound<'a>) -> Result<Arg<'a>, Refusal> {
        let call = match tree {
            Tree::Var(var) => return of(*var, bound),
            Tree::Call(call) => call,
        };
        let function = self.named(&call.name, Named::attribute);
        let function = function.map_err(|_| Refusal("a function is unknown"))?;
        let attr = function(site, &self.args(&call.args, site, bound)?)?;
        Ok(Arg::Attr(Cow::Owned(attr)))
    }

    fn args<'a>(
        &self,
        trees: &[Tree],
        site: &Site<'_>,
        bound: &Bound<'a>,
    ) -> Result<Vec<Arg<'a>>, Refusal> {
        trees
            .iter()
            .map(|tree| self.arg(tree, site, bound))
            .collect()
    }

    /// The operations that a term of the right side stands for.
    fn made(&self, tree: &Tree, site: &Site<'_>, bound: &Bound<'_>) -> Result<Made, Refusal> {
        let op = match tree {
            Tree::Var(var) => return Ok(Made::Value(of(*var, bound)?.value()?)),
            Tree::Call(op) => op,
        };
        let mut props = AttrDict::new();
        for (name, attr) in &op.attrs {
            props.set(name, self.arg(attr, site, bound)?.attr()?.clone());
        }
        let operands = op.args.iter().map(|arg| self.made(arg, site, bound));
        let operands: Result<Vec<Made>, Refusal> = operands.collect();
        Ok(Made::Op(Arc::from(&*op.name), props, operands?))
    }
}

impl fmt::Debug for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.text)
    }
}

impl LocalRule for Rewrite {
    fn name(&self) -> &str {
        &self.name
    }
    fn equation(&self) -> &str {
        &self.text
    }
    fn summary(&self) -> &str {
        &self.summary
    }
    fn root(&self) -> &str {
        &self.left.name
    }

    fn plan(&self, site: Site<'_>) -> Result<Plan, Refusal> {
        let mut bound = Bound::new();
        matches(&self.left, site, &mut bound)?;
        for (holds, args) in &self.conditions {
            holds(&site, &self.args(args, &site, &bound)?)?;
        }
        let result = site.result(0)?;
        let made = self.made(&self.right, &site, &bound)?;
        if let Made::Value(value) = made {
            let ty = site.func.ty(value);
            ensure(ty.as_tensor().is_some(), "no tensor")?;
            ensure(ty == site.func.ty(result), "the types differ")?;
        }
        Ok(Box::new(move |patch| {
            let value = match made {
                Made::Value(value) => value,
                Made::Op(name, props, operands) => {
                    let operands = make_all(operands, patch)?;
                    let types = vec![patch.ty(result)];
                    patch.checked(name, &operands, props, types)?[0]
                }
            };
            patch.replace(&[value]);
            Ok(())
        }))
    }
}

fn make_all(all: Vec<Made>, patch: &mut Patch<'_>) -> Result<Vec<Value>, Refusal> {
    let make = |made| match made {
        Made::Value(value) => Ok(value),
        Made::Op(name, props, operands) => {
            let operands = make_all(operands, patch)?;
            patch.inferred(name, &operands, props)
        }
    };
    all.into_iter().map(make).collect()
}

/// Binds variables so that the operation at the site is this one.
fn matches<'a>(op: &Call, site: Site<'a>, bound: &mut Bound<'a>) -> Result<(), Refusal> {
    let data = &site.func.ops[site.op];
    ensure(*data.name == *op.name, "another operation")?;
    ensure(data.results.len() == 1, "there are several results")?;
    let count = data.operands.len() == op.args.len();
    ensure(count, "another number of operands")?;
    for (name, attr) in &op.attrs {
        let found = data.props.get(name);
        let found = found.ok_or(Refusal("an attribute is absent"))?;
        bind(bound, attr, Arg::Attr(Cow::Borrowed(found)))?;
    }
    for (arg, &value) in op.args.iter().zip(&data.operands) {
        let Tree::Call(inner) = arg else {
            bind(bound, arg, Arg::Value(value))?;
            continue;
        };
        let op = site.func.def_op(value);
        let op = op.ok_or(Refusal("the operand is an argument"))?;
        matches(inner, Site { op, ..site }, bound)?;
        let ty = site.func.ty(value).as_tensor();
        let plain = ty.is_some_and(|ty| ty.notation == Notation::RowMajor);
        ensure(plain, "the value between has a layout")?;
    }
    Ok(())
}

fn bind<'a>(bound: &mut Bound<'a>, tree: &Tree, arg: Arg<'a>) -> Result<(), Refusal> {
    let Tree::Var(var) = tree else {
        return Err(Refusal("an attribute of the left side is no variable"));
    };
    match bound.iter().find(|(known, _)| known == var) {
        Some((_, known)) => ensure(*known == arg, "a variable stands for two things"),
        None => {
            bound.push((*var, arg));
            Ok(())
        }
    }
}

/// The meaning of a variable.
fn of<'a>(var: Var, bound: &Bound<'a>) -> Result<Arg<'a>, Refusal> {
    let known = bound.iter().find(|(known, _)| *known == var);
    let (_, arg) = known.ok_or(Refusal("a variable is not bound"))?;
    Ok(arg.clone())
}

/// Gives an operation and its operands their full names. A name without a dialect is of `hbir`.
fn name_fully(op: &mut Call) {
    if !op.name.contains('.') {
        op.name.insert_str(0, "hbir.");
    }
    for arg in &mut op.args {
        if let Tree::Call(op) = arg {
            name_fully(op);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonicalize::{Canonicalize, builtin_rules};
    use crate::pass::{Pass, PassContext};
    use optc_ir::Attr;
    use optc_ir::text;

    /// The names of the operations that `canonicalize` with one more rule leaves of a body on `%x` and `%y`.
    fn canonical(rule: Rewrite, body: &str) -> Vec<String> {
        let ty = "tensor<2x3xf32>";
        let text = format!(
            "func.func @main(%x: {ty}, %y: {ty}) -> {ty} {{\n{body}\n  return %0 : {ty}\n}}"
        );
        let mut module = text::parse(&text).expect("well formed");
        let target = optc_target::Target::builtin("cpu").expect("built in");
        let registry = Arc::new(optc_ops::registry());
        let mut cx = PassContext::new(registry, Arc::new(target));
        let pass = Canonicalize {
            rules: vec![Arc::new(rule)],
        };
        pass.run(&mut module, &mut cx).expect("canonicalize runs");
        let func = &module.funcs[0];
        let names = func.body.iter().map(|&op| func.ops[op].name.to_string());
        names.collect()
    }

    fn sum(a: &str, b: &str) -> String {
        let ty = "tensor<2x3xf32>";
        format!("  %0 = \"hbir.add\"({a}, {b}) : ({ty}, {ty}) -> {ty}")
    }

    #[test]
    fn a_variable_stands_for_one_thing() {
        let rule = || Rewrite::new("r", "(add ?x ?x) => (neg ?x)", "", &[]).expect("a rule");
        assert_eq!(canonical(rule(), &sum("%x", "%x")), ["hbir.neg"]);
        assert_eq!(canonical(rule(), &sum("%x", "%y")), ["hbir.add"]);
    }

    #[test]
    fn a_right_side_of_another_type_is_left_out() {
        let turned = Named::Attribute("turned", |_, _| Ok(Attr::ints(&[1, 0])));
        let equation = "(add ?x ?y) => (transpose :perm (turned) ?x)";
        let rule = Rewrite::new("r", equation, "", &[turned]).expect("a rule");
        assert_eq!(canonical(rule, &sum("%x", "%y")), ["hbir.add"]);
    }

    #[test]
    fn every_built_in_rule_is_an_equation() {
        for rule in builtin_rules() {
            let read = Equation::parse(rule.equation);
            assert!(read.is_ok(), "{}: {read:?}", rule.name);
        }
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        let error = |text| Rewrite::new("r", text, "", &[]).expect_err(text);
        assert!(matches!(error("?x => ?x"), EquationError::Form { .. }));
        assert_eq!(
            error("(relu ?x) => ?x if (lucky ?x)"),
            EquationError::UnknownName("lucky".to_owned())
        );
        assert_eq!(
            error("(transpose :perm ?p ?x) => (transpose :perm (turned ?p) ?x)"),
            EquationError::UnknownName("turned".to_owned())
        );
    }
}
