//! Modules, functions, operations and values: tables with ids.

use crate::attr::{Attr, AttrDict};
use crate::entity::Table;
use crate::op::OpRef;
use crate::span::Span;
use crate::trace::Trace;
use crate::types::Type;
use indexmap::IndexSet;
use std::sync::Arc;

pub use crate::ids::{Op, Value};

/// The source location of an operation; a known one is printed as `loc(…)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Loc {
    /// Nothing is known; not printed.
    #[default]
    Unknown,
    /// `loc("file":line:col)`.
    File(Arc<str>, u32, u32),
    /// `loc("name")`: the name of an ONNX node or the metadata of an HLO instruction.
    Name(Arc<str>),
    /// `loc(fused[…])`.
    Fused(Arc<[Loc]>),
}

impl Loc {
    /// A named location.
    #[must_use]
    pub fn name(name: &str) -> Loc {
        if name.is_empty() {
            Loc::Unknown
        } else {
            Loc::Name(Arc::from(name))
        }
    }

    /// The names in it, in order.
    #[must_use]
    pub fn names(&self) -> Vec<&Arc<str>> {
        match self {
            Loc::Unknown | Loc::File(..) => Vec::new(),
            Loc::Name(name) => vec![name],
            Loc::Fused(parts) => parts.iter().flat_map(Loc::names).collect(),
        }
    }

    /// The location of an operation that replaces several: unknown ones and repetitions drop out.
    #[must_use]
    pub fn fuse<'a>(locs: impl IntoIterator<Item = &'a Loc>) -> Loc {
        let mut out: IndexSet<&Loc> = IndexSet::new();
        let mut add = |loc: &'a Loc| {
            if *loc != Loc::Unknown {
                out.insert(loc);
            }
        };
        for loc in locs {
            match loc {
                Loc::Fused(parts) => parts.iter().for_each(&mut add),
                Loc::Unknown | Loc::File(..) | Loc::Name(_) => add(loc),
            }
        }
        match out.len() {
            0 => Loc::Unknown,
            1 => out[0].clone(),
            _ => Loc::Fused(out.into_iter().cloned().collect()),
        }
    }
}

/// A program.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// `@name` of the module, if it has one.
    pub name: Option<Arc<str>>,
    /// Attributes of the module; `hbir.target` names the target that chose the layouts.
    pub attrs: AttrDict,
    /// The functions, in the order of the text.
    pub funcs: Vec<Func>,
    /// Explicit location.
    pub loc: Loc,
    /// True if the text wrapped the functions in `module { … }`. The wrapper is printed if this is set, or if the
    /// module has attributes or a name.
    pub explicit: bool,
}

/// The name and attributes of an argument or result of a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Port {
    /// The key of an `.npz` file: `hbir.name` if given, else the SSA name.
    pub name: Option<Arc<str>>,
    /// Attributes of the port, `hbir.name` included.
    pub attrs: AttrDict,
}

/// A function: arguments, one block of operations in order, results.
#[derive(Clone, Debug, Default)]
pub struct Func {
    /// `@name`.
    pub name: Arc<str>,
    /// The arguments; each is a value defined by [`ValueDef::Arg`].
    pub args: Vec<Value>,
    /// One port an argument.
    pub arg_ports: Vec<Port>,
    /// The operations, in execution order: each operand is defined before its use.
    pub body: Vec<Op>,
    /// The values returned.
    pub results: Vec<Value>,
    /// One port a result.
    pub result_ports: Vec<Port>,
    /// Attributes of the function.
    pub attrs: AttrDict,
    /// Explicit location.
    pub loc: Loc,
    /// True if the text was a file of bare operations: the layouts at its boundary are free.
    pub bare: bool,
    /// The span of `func.func @name` in the source.
    pub span: Span,
    /// All operations ever made, including those no longer in `body`.
    pub ops: Table<Op, OpData>,
    /// All values ever made.
    pub values: Table<Value, ValueData>,
    /// The record of where the values that went into a pipeline are now; `None` if nothing is recorded.
    pub trace: Option<Box<Trace>>,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct OpData {
    /// The full name, `hbir.reshape`.
    pub name: Arc<str>,
    /// The operands.
    pub operands: Vec<Value>,
    /// The results.
    pub results: Vec<Value>,
    /// Inherent attributes, `<{…}>`.
    pub props: AttrDict,
    /// Discardable attributes, `{…}`.
    pub attrs: AttrDict,
    /// The source location.
    pub loc: Loc,
    /// The span of the name in the source text.
    pub span: Span,
}

/// The definition of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueDef {
    /// The argument with this number.
    Arg(usize),
    /// The operation and the number of its result.
    Result(Op, usize),
}

/// One value.
#[derive(Clone, Debug)]
pub struct ValueData {
    /// Its type.
    pub ty: Type,
    /// The definition.
    pub def: ValueDef,
    /// The SSA name in the source text, without `%`; kept for arguments, and printed if valid.
    pub name: Option<Arc<str>>,
}

impl Module {
    /// The number of the function that a user of the program calls: `@main`, else the first. `None` if there is none.
    #[must_use]
    pub fn entry(&self) -> Option<usize> {
        let main = self.funcs.iter().position(|f| &*f.name == "main");
        main.or((!self.funcs.is_empty()).then_some(0))
    }
}

impl Func {
    /// An empty function.
    #[must_use]
    pub fn new(name: &str) -> Func {
        Func {
            name: Arc::from(name),
            ..Func::default()
        }
    }

    /// Adds an argument.
    pub fn add_arg(&mut self, ty: Type, name: Option<&str>) -> Value {
        let name: Option<Arc<str>> = name.map(Arc::from);
        let def = ValueDef::Arg(self.args.len());
        let value = self.values.push(ValueData {
            ty,
            def,
            name: name.clone(),
        });
        self.args.push(value);
        self.arg_ports.push(Port {
            name,
            attrs: AttrDict::new(),
        });
        value
    }

    /// Removes the arguments for which `keep` is false; they must be unused.
    pub fn retain_args(&mut self, keep: impl Fn(usize) -> bool) {
        let args = std::mem::take(&mut self.args);
        let ports = std::mem::take(&mut self.arg_ports);
        for (i, (arg, port)) in args.into_iter().zip(ports).enumerate() {
            if keep(i) {
                self.values[arg].def = ValueDef::Arg(self.args.len());
                self.args.push(arg);
                self.arg_ports.push(port);
            }
        }
    }

    /// Makes an operation with results of these types, without adding it to the body.
    pub fn make_op(
        &mut self,
        name: Arc<str>,
        operands: Vec<Value>,
        props: AttrDict,
        result_types: Vec<Type>,
        loc: Loc,
    ) -> Op {
        let data = OpData {
            name,
            operands,
            results: Vec::new(),
            props,
            attrs: AttrDict::new(),
            loc,
            span: Span::default(),
        };
        let op = self.ops.push(data);
        let mut results = Vec::with_capacity(result_types.len());
        for (i, ty) in result_types.into_iter().enumerate() {
            let def = ValueDef::Result(op, i);
            results.push(self.values.push(ValueData {
                ty,
                def,
                name: None,
            }));
        }
        self.ops[op].results = results;
        op
    }

    /// Makes an operation and appends it to the body.
    pub fn push_op(
        &mut self,
        name: &str,
        operands: Vec<Value>,
        props: AttrDict,
        result_types: Vec<Type>,
        loc: Loc,
    ) -> Op {
        let op = self.make_op(Arc::from(name), operands, props, result_types, loc);
        self.body.push(op);
        op
    }

    /// Adds a returned value.
    pub fn add_result(&mut self, value: Value, name: Option<&str>) {
        self.results.push(value);
        self.result_ports.push(Port {
            name: name.map(Arc::from),
            attrs: AttrDict::new(),
        });
    }

    /// The external name of argument `i`: its key in an `.npz` file.
    #[must_use]
    pub fn arg_key(&self, i: usize) -> String {
        let name = self.arg_ports.get(i).and_then(|p| p.name.as_deref());
        name.map_or_else(|| format!("arg{i}"), str::to_owned)
    }

    /// The external name of result `i`: its key in an `.npz` file.
    #[must_use]
    pub fn result_key(&self, i: usize) -> String {
        let name = self.result_ports.get(i).and_then(|p| p.name.as_deref());
        name.map_or_else(|| format!("result{i}"), str::to_owned)
    }

    /// The type of a value.
    #[must_use]
    pub fn ty(&self, value: Value) -> &Type {
        &self.values[value].ty
    }

    /// The operation that defines a value; `None` for an argument.
    #[must_use]
    pub fn def_op(&self, value: Value) -> Option<Op> {
        match self.values[value].def {
            ValueDef::Arg(_) => None,
            ValueDef::Result(op, _) => Some(op),
        }
    }

    /// The name of the callee, if the operation is a call.
    #[must_use]
    pub fn callee(&self, op: Op) -> Option<&str> {
        let data = &self.ops[op];
        match data.props.get("callee") {
            Some(Attr::Symbol(name)) if data.name.ends_with(".call") => Some(name),
            _ => None,
        }
    }

    /// The operation as an [`OpRef`], for its declaration.
    #[must_use]
    pub fn op_ref(&self, op: Op) -> OpRef<'_> {
        self.op_ref_of(&self.ops[op])
    }

    /// As [`Func::op_ref`], from the data of an operation of the function.
    #[must_use]
    pub fn op_ref_of<'a>(&'a self, data: &'a OpData) -> OpRef<'a> {
        OpRef {
            name: &data.name,
            operands: data.operands.iter().map(|&v| self.ty(v)).collect(),
            results: data.results.iter().map(|&v| self.ty(v)).collect(),
            props: &data.props,
        }
    }
}
