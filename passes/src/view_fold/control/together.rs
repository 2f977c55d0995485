//! Builds one function out of a function and the functions that its operations run, so that one search lays out all of
//! them.
//!
//! The built program is for the search alone; nothing runs it. One value at several ports (an argument, the value that
//! a round hands to the next one, the result) goes through sums, whose operands and results have one layout. A part of
//! a value that has all rounds is gathered from it.
//!
//! Example: a loop with the body `f(x)` becomes `a = x + x; b = f(a); result = a + a + b`.

use super::super::folded::Folded;
use super::super::function::fold;
use super::super::groups::Functions;
use super::super::maps::FastMap;
use super::super::shared::Shared;
use super::shares::{Choice, Shares};
use crate::pass::PassContext;
use optc_ir::{
    Attr, AttrDict, ControlPort, DType, Func, Joint, Loc, Op, Operation, Site, TensorType, Type,
    Value,
};
use optc_ops::{Add, Gather};

/// The deepest nesting of functions that is put together.
const MOST_NESTED: usize = 64;

/// The operations of a module that share values with functions, by the number of the function that contains them.
/// Values of arguments of functions, by the number of the function and of the argument.
type Arguments = FastMap<(usize, usize), Value>;

pub(super) struct Sites<'m> {
    pub(super) all: Vec<Vec<Shares<'m>>>,
    /// The position of each of them in its list.
    pub(super) at: FastMap<(usize, Op), usize>,
    pub(super) numbers: FastMap<&'m str, usize>,
}

/// The choices at the ports of all operations in a function, and in the functions that they run, if all are laid out
/// together. An entry is the number of the function that contains the operation, the operation's own number there, and
/// the choice.
pub(super) fn choices(
    func: &Func,
    sites: &Sites<'_>,
    cx: &mut PassContext,
    shared: &mut Shared,
    functions: &mut Functions<'_>,
) -> Option<Vec<(usize, usize, Choice)>> {
    let mut merge = Merge {
        sites,
        func: Func {
            attrs: func.attrs.clone(),
            bare: func.bare,
            span: func.span,
            ..Func::new(&func.name)
        },
        marks: Vec::new(),
        depth: 0,
    };
    let args = func.args.iter().zip(&func.arg_ports).map(|(&arg, port)| {
        let new = merge.func.add_arg(func.ty(arg).clone(), None);
        if let Some(last) = merge.func.arg_ports.last_mut() {
            last.clone_from(port);
        }
        new
    });
    let args: Vec<Value> = args.collect();
    let own = args.len();
    let results = merge.copy(func, &args)?;
    for (value, port) in results.into_iter().zip(&func.result_ports) {
        merge.func.results.push(value);
        merge.func.result_ports.push(port.clone());
    }
    let free = (own..merge.func.args.len()).map(|i| merge.func.arg_key(i));
    cx.boundary.free.extend(free);
    let folded = fold(&merge.func, functions, cx, shared).ok()?;
    Some(merge.read(&folded))
}

/// A place in the built program that shows the notation of a value held by several ports.
struct Mark {
    function: usize,
    site: usize,
    class: usize,
    joint: Joint,
    /// The index of an operation in the body. It produces the value, or gathers a part of it.
    body: usize,
}

struct Merge<'a, 'm> {
    sites: &'a Sites<'m>,
    func: Func,
    marks: Vec<Mark>,
    depth: usize,
}

impl<'m> Merge<'_, 'm> {
    /// Appends the body of a function with these arguments. Returns its results.
    fn copy(&mut self, func: &Func, args: &[Value]) -> Option<Vec<Value>> {
        let number = *self.sites.numbers.get(&*func.name)?;
        self.depth += 1;
        if MOST_NESTED < self.depth {
            return None;
        }
        let mut values: FastMap<Value, Value> = FastMap::default();
        values.extend(func.args.iter().copied().zip(args.iter().copied()));
        for &op in &func.body {
            let data = &func.ops[op];
            let operands = data.operands.iter().map(|v| values.get(v).copied());
            let operands: Vec<Value> = operands.collect::<Option<_>>()?;
            let made = match self.sites.at.get(&(number, op)) {
                Some(&site) => self.run(number, site, &operands)?,
                None => {
                    let types = data.results.iter().map(|&v| func.ty(v).clone()).collect();
                    let name = data.name.clone();
                    let loc = data.loc.clone();
                    let made = self
                        .func
                        .make_op(name, operands, data.props.clone(), types, loc);
                    self.func.ops[made].attrs = data.attrs.clone();
                    self.func.body.push(made);
                    self.func.ops[made].results.clone()
                }
            };
            values.extend(data.results.iter().copied().zip(made));
        }
        self.depth -= 1;
        func.results
            .iter()
            .map(|v| values.get(v).copied())
            .collect()
    }

    /// Appends the functions that an operation runs. Returns the results of the operation.
    fn run(&mut self, function: usize, number: usize, operands: &[Value]) -> Option<Vec<Value>> {
        let sites = self.sites;
        let shares = &sites.all[function][number];
        let site = &shares.site;
        let arguments = self.arguments((function, number), site, operands)?;
        let mut given = Vec::with_capacity(site.functions.len());
        for (of, func) in site.functions.iter().enumerate() {
            let mut args = Vec::with_capacity(func.args.len());
            for (at, &arg) in func.args.iter().enumerate() {
                let shared = arguments.get(&(of, at)).copied();
                args.push(shared.unwrap_or_else(|| self.func.add_arg(func.ty(arg).clone(), None)));
            }
            given.push(self.copy(func, &args)?);
        }
        let data = &site.func.ops[site.op];
        let mut results = Vec::with_capacity(data.results.len());
        for (at, &result) in data.results.iter().enumerate() {
            let of_result = |joint: &&Joint| joint.place == ControlPort::Result(at);
            let class = site
                .joined
                .iter()
                .find(|class| class.iter().any(|j| of_result(&j)));
            let (Some(class), Some(ty)) = (class, site.func.ty(result).as_tensor()) else {
                let ty = site.func.ty(result).clone();
                results.push(self.func.add_arg(ty, None));
                continue;
            };
            results.push(self.joined((function, number), class, (at, ty), &arguments, &given)?);
        }
        Some(results)
    }

    /// Values that several functions of a site take, each once: its operand, or a part of it.
    fn arguments(
        &mut self,
        of_site: (usize, usize),
        site: &Site<'_>,
        operands: &[Value],
    ) -> Option<Arguments> {
        let mut arguments: Arguments = FastMap::default();
        for class in &site.joined {
            let taken = class.iter().find_map(|joint| match joint.place {
                ControlPort::Argument(of, at) => Some((of, at)),
                _ => None,
            });
            let operand = class.iter().find_map(|joint| match joint.place {
                ControlPort::Operand(at) => Some((joint, at)),
                _ => None,
            });
            let (Some(taken), Some((joint, at))) = (taken, operand) else {
                continue;
            };
            let ty = site
                .tensor(ControlPort::Argument(taken.0, taken.1))?
                .clone();
            let mut value = *operands.get(at)?;
            if let Some(axis) = joint.axis {
                value = self.part(value, axis, &ty)?;
                self.mark(of_site, class, joint);
            }
            value = self.sum(value, value, &ty);
            if joint.axis.is_none() {
                self.mark(of_site, class, joint);
            }
            for joint in class {
                if let ControlPort::Argument(of, at) = joint.place {
                    arguments.insert((of, at), value);
                }
            }
        }
        Some(arguments)
    }

    /// The result of a site that is the values of its functions: their sum, or their parts side by side.
    fn joined(
        &mut self,
        of_site: (usize, usize),
        class: &[Joint],
        (at, ty): (usize, &TensorType),
        arguments: &Arguments,
        given: &[Vec<Value>],
    ) -> Option<Value> {
        let of_result = |joint: &&Joint| joint.place == ControlPort::Result(at);
        let joint = class.iter().find(of_result)?;
        let values = class.iter().filter_map(|joint| match joint.place {
            ControlPort::Given(of, at) => given.get(of)?.get(at).copied(),
            ControlPort::Argument(of, at) => arguments.get(&(of, at)).copied(),
            ControlPort::Operand(_) | ControlPort::Result(_) => None,
        });
        let values: Vec<Value> = values.collect();
        match joint.axis {
            None => {
                let mut sum = *values.first()?;
                for &value in &values {
                    sum = self.sum(sum, value, ty);
                }
                self.mark(of_site, class, joint);
                Some(sum)
            }
            Some(axis) => {
                let whole = self.func.add_arg(ty.clone().into(), None);
                for &value in &values {
                    let of = self.func.ty(value).as_tensor()?.clone();
                    let part = self.part(whole, axis, &of)?;
                    self.mark(of_site, class, joint);
                    self.sum(part, value, &of);
                }
                Some(whole)
            }
        }
    }

    /// Marks the last operation as the one that shows the notation of a class, by one of the class's ports.
    fn mark(&mut self, (function, site): (usize, usize), class: &[Joint], joint: &Joint) {
        let classes = &self.sites.all[function][site].classes;
        if let Some(class) = classes.iter().position(|other| other == class) {
            self.marks.push(Mark {
                function,
                site,
                class,
                joint: *joint,
                body: self.func.body.len() - 1,
            });
        }
    }

    fn add(&mut self, name: &str, operands: Vec<Value>, props: AttrDict, ty: &TensorType) -> Value {
        let types = vec![Type::from(ty.without_layout())];
        let op = self
            .func
            .push_op(name, operands, props, types, Loc::Unknown);
        self.func.ops[op].results[0]
    }

    fn sum(&mut self, a: Value, b: Value, ty: &TensorType) -> Value {
        self.add(Add::NAME, vec![a, b], AttrDict::new(), ty)
    }

    /// A part of a value along a dimension.
    fn part(&mut self, whole: Value, axis: usize, ty: &TensorType) -> Option<Value> {
        let place = TensorType::fixed(&[], DType::SI64);
        let place = self.func.add_arg(place.into(), None);
        let axis = Attr::int(i64::try_from(axis).ok()?);
        let props = AttrDict::new().with("axis", axis);
        Some(self.add(Gather::NAME, vec![whole, place], props, ty))
    }

    /// The choices that a folded program stands for.
    fn read(&self, folded: &Folded) -> Vec<(usize, usize, Choice)> {
        let by: FastMap<Op, Op> = folded.operations.iter().copied().collect();
        let notation = |mark: &Mark| {
            let &op = by.get(self.func.body.get(mark.body)?)?;
            let data = &folded.func.ops[op];
            let values = match mark.joint.axis {
                Some(_) => &data.operands,
                None => &data.results,
            };
            let ty = folded.func.ty(*values.first()?).as_tensor()?;
            Some(ty.notation.clone())
        };
        let mut choices: FastMap<(usize, usize), Choice> = FastMap::default();
        for mark in &self.marks {
            let shares = &self.sites.all[mark.function][mark.site];
            let choice = choices.entry((mark.function, mark.site));
            let choice = choice.or_insert_with(|| shares.declared());
            let class = &shares.classes[mark.class];
            let found = notation(mark).and_then(|found| shares.spread(class, &mark.joint, &found));
            if let Some(found) = found {
                choice[mark.class] = found;
            }
        }
        let listed = choices.into_iter();
        listed
            .map(|((function, site), choice)| (function, site, choice))
            .collect()
    }
}
