//! A Python module: one `pl.pallas_call` a group of the plan, plain `jnp` for the rest.
//!
//! - A kernel has one line an operation, on the tile that the plan gives it; values keep their names.
//! - Each value that a group reads, and each that it writes, has a `pl.BlockSpec` for the part that
//!   a program needs. A tile that is no block in some dimension names elements in all of them.
//! - A reduction that is cut adds up in scratch memory: cleared at the first step, and what needs
//!   the sum stands under the last step.
//! - A group that has no kernel is written operation by operation, under a comment that says why.
//! - Constants stand in the module, or are read from the files that hold them, beside the module.

mod group;
mod helpers;
mod index;
mod ops;
mod words;

use crate::emit::entry;
use group::{Cx, Kernel, kernel};
use helpers::HELPERS;
use ops::{Site, write};
use optc_ir::entity::EntityId;
use optc_ir::tile::{Cycle, Plan, Unit, units};
use optc_ir::{Attr, DType, Data, Diagnostic, Func, Module, Op, Registry, Tensor, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;
use words::{Names, dtype, float, quoted, tuple};

/// The module as Python; `main`, or the first function, becomes `main`.
///
/// # Errors
/// No function, or an operation that has no form in `jnp`.
pub fn emit(module: &Module, registry: &Registry) -> Result<String, Box<Diagnostic>> {
    let entry = entry(module)?;
    let mut names = Names::default();
    names.fresh("main");
    let functions: BTreeMap<&str, String> = module
        .funcs
        .iter()
        .enumerate()
        .map(|(i, f)| {
            let name = if i == entry {
                "main".to_owned()
            } else {
                names.fresh(&format!("{}_", f.name))
            };
            (&*f.name, name)
        })
        .collect();
    let mut parts = Parts {
        functions: Rc::new(names.clone()),
        names,
        ..Parts::default()
    };
    let mut texts = Vec::with_capacity(module.funcs.len());
    for func in &module.funcs {
        texts.push(function(func, registry, &functions, &mut parts)?);
    }
    Ok(parts.text(&module.funcs[entry], &texts))
}

/// What the functions share.
#[derive(Default)]
struct Parts {
    /// The names of functions, which no value has.
    functions: Rc<Names>,
    /// All names of the module: its functions and kernels.
    names: Names,
    helpers: BTreeSet<&'static str>,
    kernels: Vec<String>,
    wide: bool,
    weights: bool,
}

impl Parts {
    fn text(&self, entry: &Func, functions: &[String]) -> String {
        let mut out = String::from(
            "\"\"\"Written by optc: a kernel for each group of operations, and a function that calls them.\"\"\"\n\n",
        );
        if self.weights {
            out.push_str("import os\n\n");
        }
        out.push_str(
            "import jax\nimport jax.numpy as jnp\nimport numpy as np\nfrom jax import lax\n",
        );
        out.push_str("from jax.experimental import pallas as pl\nfrom jax.experimental.pallas import tpu as pltpu\n");
        if self.wide {
            out.push_str("\njax.config.update(\"jax_enable_x64\", True)\n");
        }
        let keys = |keys: Vec<String>| {
            let keys: Vec<String> = keys.iter().map(|k| quoted(k)).collect();
            format!("[{}]", keys.join(", "))
        };
        let arguments = (0..entry.args.len()).map(|i| entry.arg_key(i)).collect();
        let results = (0..entry.results.len())
            .map(|i| entry.result_key(i))
            .collect();
        let _ = write!(
            out,
            "\nARGUMENTS = {}\nRESULTS = {}\n",
            keys(arguments),
            keys(results)
        );
        if self.weights {
            out.push_str(WEIGHTS);
        }
        for (name, text) in HELPERS {
            if self.helpers.contains(name) {
                let _ = write!(out, "\n\n{text}");
            }
        }
        for text in self.kernels.iter().chain(functions) {
            let _ = write!(out, "\n\n{}\n", text.trim_end());
        }
        out
    }
}

/// Reads a constant from its file.
const WEIGHTS: &str = r#"

def _weights(name, offset, length, dtype, shape):
    """Elements of a file beside this module."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, "rb") as file:
        file.seek(offset)
        data = file.read(length)
    return jnp.asarray(np.frombuffer(data, dtype=np.dtype(dtype)).reshape(shape))
"#;

/// The most elements of a constant that stand in the module as a list.
const MAX_LISTED: usize = 1 << 16;

/// A function while it is written.
struct Function<'a> {
    func: &'a Func,
    registry: &'a Registry,
    functions: &'a BTreeMap<&'a str, String>,
    names: Vec<String>,
    lines: Vec<String>,
}

fn function(
    func: &Func,
    registry: &Registry,
    functions: &BTreeMap<&str, String>,
    parts: &mut Parts,
) -> Result<String, Box<Diagnostic>> {
    for value in func.values.ids() {
        let wide = |d: DType| d.complex_part().unwrap_or(d).bits() == 64;
        parts.wide |= func.ty(value).as_tensor().is_some_and(|t| wide(t.dtype));
    }
    let plan = Plan::read(func).map_err(|mut diags| {
        let first = (!diags.is_empty()).then(|| diags.swap_remove(0));
        Box::new(first.unwrap_or_else(|| Diagnostic::error("tile-syntax", "the plan is not read")))
    })?;
    let mut taken = Names::within(&parts.functions);
    let names = func.values.ids().map(|value| {
        let given = func.values[value].name.as_deref();
        let number = format!("v{}", value.index());
        taken.fresh(given.unwrap_or(&number))
    });
    let mut writer = Function {
        func,
        registry,
        functions,
        names: names.collect(),
        lines: Vec::new(),
    };
    writer.body(plan.as_ref(), parts)?;
    let name = &functions[&*func.name];
    let args: Vec<&str> = func.args.iter().map(|&v| writer.name(v)).collect();
    let mut params = args.join(", ");
    if !params.is_empty() {
        params.push_str(", ");
    }
    let mut out = format!("def {name}({params}*, interpret=jax.default_backend() == \"cpu\"):\n");
    for line in &writer.lines {
        let _ = writeln!(out, "    {line}");
    }
    let results: Vec<&str> = func.results.iter().map(|&v| writer.name(v)).collect();
    let _ = match results.as_slice() {
        [one] => writeln!(out, "    return {one}"),
        all => writeln!(out, "    return {}", tuple(all)),
    };
    Ok(out)
}

impl Function<'_> {
    fn name(&self, value: Value) -> &str {
        &self.names[value.index()]
    }

    /// Operations and groups so that each comes after what it needs.
    fn body(&mut self, plan: Option<&Plan>, parts: &mut Parts) -> Result<(), Box<Diagnostic>> {
        let func = self.func;
        let escapes = Plan::escapes(plan, func);
        let mut kernels: BTreeMap<usize, Result<Kernel, String>> = BTreeMap::new();
        if let Some(plan) = plan {
            for number in (0..plan.groups.len()).filter(|&g| !plan.groups[g].ops.is_empty()) {
                let name = parts.names.fresh(&format!("group_{number}"));
                let found = {
                    let cx = Cx {
                        func,
                        registry: self.registry,
                        escapes: &|v| escapes[v.index()],
                        name: &|v| self.names[v.index()].clone(),
                    };
                    kernel(&cx, plan, number, &name)
                };
                kernels.insert(number, found);
            }
        }
        let units = units(func, plan, self.registry).map_err(|Cycle { op, .. }| {
            let message = format!("{} waits for a group that waits for it", func.ops[op].name);
            let diag = Diagnostic::error("tile-cycle", message);
            Box::new(diag.at(func.ops[op].span, "this operation"))
        })?;
        for unit in units {
            let (group, plan) = match (unit, plan) {
                (Unit::Op(op), _) => {
                    self.operation(op, parts)?;
                    continue;
                }
                (Unit::Group(group), Some(plan)) => (group, plan),
                (Unit::Group(_), None) => continue,
            };
            match kernels.get(&group) {
                Some(Ok(kernel)) => self.call_kernel(kernel),
                Some(Err(why)) => {
                    let line = format!("# group {group} has no kernel: {why}");
                    self.lines.push(line);
                    let constant = |op: &Op| &*func.ops[*op].name == "hbir.constant";
                    for &op in plan.groups[group].ops.iter().filter(|op| !constant(op)) {
                        self.operation(op, parts)?;
                    }
                }
                None => {}
            }
        }
        for kernel in kernels.into_values().flatten() {
            parts.helpers.extend(&kernel.helpers);
            parts.kernels.push(kernel.text);
        }
        Ok(())
    }

    fn call_kernel(&mut self, kernel: &Kernel) {
        let results = tuple(kernel.outputs.iter().map(|&v| self.name(v)));
        let scalar = |v: Value| {
            let shape = self.func.ty(v).as_tensor().and_then(|t| t.shape());
            shape.is_some_and(|s| s.is_empty())
        };
        let arg = |&v: &Value| match scalar(v) {
            true => format!("{}.reshape(1, 1)", self.name(v)),
            false => self.name(v).to_owned(),
        };
        let args: Vec<String> = kernel.inputs.iter().map(arg).collect();
        let line = format!("{results} = {}({})", kernel.call, args.join(", "));
        self.lines.push(line);
        for &v in kernel.outputs.iter().filter(|&&v| scalar(v)) {
            let name = &self.names[v.index()];
            self.lines.push(format!("{name} = {name}.reshape(())"));
        }
    }

    /// One operation on whole values.
    fn operation(&mut self, op: Op, parts: &mut Parts) -> Result<(), Box<Diagnostic>> {
        let func = self.func;
        let data = &func.ops[op];
        let refuse = |why: &str| {
            let message = format!("{} has no form in jnp: {why}", data.name);
            let diag = Diagnostic::error("pallas-op", message).at(data.span, "this operation");
            Box::new(diag.hint("docs/pallas.md lists the operations that are written"))
        };
        let args: Vec<String> = data
            .operands
            .iter()
            .map(|&v| self.name(v).to_owned())
            .collect();
        let results: Vec<String> = data
            .results
            .iter()
            .map(|&v| self.name(v).to_owned())
            .collect();
        if &*data.name == "hbir.constant" {
            let text = constant(func, op, parts).ok_or_else(|| refuse("its data is not read"))?;
            self.lines.push(format!("{} = {text}", results[0]));
            return Ok(());
        }
        if &*data.name == "hbir.call" {
            let callee = match data.props.get("callee") {
                Some(Attr::Symbol(name)) => self.functions.get(&**name),
                _ => None,
            };
            let callee = callee.ok_or_else(|| refuse("the function is not there"))?;
            let comma = if args.is_empty() { "" } else { ", " };
            let call = format!("{callee}({}{comma}interpret=interpret)", args.join(", "));
            let left = match results.as_slice() {
                [one] => one.clone(),
                all => tuple(all),
            };
            self.lines.push(format!("{left} = {call}"));
            return Ok(());
        }
        let extents = |values: &[Value]| -> Option<Vec<Vec<u64>>> {
            values
                .iter()
                .map(|&v| func.ty(v).as_tensor()?.shape())
                .collect()
        };
        let known = extents(&data.operands).zip(extents(&data.results));
        let (operands, ends) = known.ok_or_else(|| refuse("a size is not a number"))?;
        let op_ref = func.op_ref(op);
        if &*data.name == "hbir.view" {
            let text = view(self.registry, &op_ref, &args[0])
                .ok_or_else(|| refuse("a size is not a number"))?;
            self.lines.push(format!("{} = {text}", results[0]));
            return Ok(());
        }
        let site = Site {
            op: &op_ref,
            operands,
            results: ends,
            tile: false,
            pads: None,
        };
        let written = write(&site, &args).ok_or_else(|| refuse("it is not written yet"))?;
        parts.helpers.extend(&written.helpers);
        for (name, text) in results.iter().zip(written.results) {
            self.lines.push(format!("{name} = {text}"));
        }
        Ok(())
    }
}

/// A view of a whole value.
fn view(registry: &Registry, op: &optc_ir::OpRef<'_>, x: &str) -> Option<String> {
    let view = registry.rearrangement(op).ok()?;
    let shape: Option<Vec<u64>> = view.shape.iter().map(optc_ir::Dim::fixed).collect();
    let (from, to) = (op.operand(0).ok()?.shape()?, op.result(0).ok()?.shape()?);
    Some(group::rearrangement(x, &from, &shape?, &view.perm, &to))
}

/// A number that nothing computes with; none for one of several NaN.
#[expect(clippy::cast_possible_truncation, reason = "the parts of the bits")]
fn stored(bits: u128, dtype: DType) -> Option<String> {
    let plain = |x: f64| (!x.is_nan()).then(|| float(x));
    let complex = |re: f64, im: f64| Some(format!("complex({}, {})", plain(re)?, plain(im)?));
    match dtype {
        DType::Mini(small) => plain(small.decode(bits as u8)),
        DType::Complex64 => {
            let part = |bits: u128| f64::from(f32::from_bits(bits as u32));
            complex(part(bits), part(bits >> 32))
        }
        DType::Complex128 => {
            let part = |bits: u128| f64::from_bits(bits as u64);
            complex(part(bits), part(bits >> 64))
        }
        DType::F64 | DType::F32 | DType::F16 | DType::BF16 | DType::Int { .. } => None,
    }
}

/// A constant: in the module, or read from its file.
fn constant(func: &Func, op: Op, parts: &mut Parts) -> Option<String> {
    let data = &func.ops[op];
    let ty = func.ty(*data.results.first()?).as_tensor()?;
    let shape = tuple(ty.shape()?);
    if let Some(Attr::External {
        file,
        offset,
        length,
    }) = data.props.get("data")
    {
        let (file, name) = (quoted(file), dtype(ty.dtype));
        parts.weights = true;
        return Some(format!(
            "_weights({file}, {offset}, {length}, {name}, {shape})"
        ));
    }
    let Some(Attr::Dense(dense)) = data.props.get("value") else {
        return None;
    };
    let name = dtype(ty.dtype);
    let number = |tensor: &Tensor, i: usize| match &tensor.data {
        Data::F32(_) | Data::F64(_) => float(tensor.f64_at(i)),
        Data::I64(_) => tensor.i128_at(i).to_string(),
        Data::Bits(bits) => stored(bits[i], tensor.dtype).unwrap_or_default(),
    };
    let is_written = |tensor: &Tensor| match &tensor.data {
        Data::Bits(bits) => bits
            .iter()
            .all(|&b| stored(b, tensor.dtype).is_some())
            .then_some(()),
        Data::F32(_) | Data::F64(_) | Data::I64(_) => Some(()),
    };
    // One number for all elements, however many they are.
    if dense.splat {
        let one = Tensor::from_bytes(ty.dtype, vec![1], &dense.bytes).ok()?;
        is_written(&one)?;
        return Some(format!("jnp.full({shape}, {}, {name})", number(&one, 0)));
    }
    let tensor = optc_ops::dense_tensor(dense).ok()?;
    is_written(&tensor)?;
    let number = |i: usize| number(&tensor, i);
    let first = (!tensor.is_empty()).then(|| number(0));
    let same = first.filter(|f| (1..tensor.len()).all(|i| number(i) == *f));
    if let Some(same) = same {
        return Some(format!("jnp.full({shape}, {same}, {name})"));
    }
    if MAX_LISTED < tensor.len() {
        return None;
    }
    let all: Vec<String> = (0..tensor.len()).map(number).collect();
    Some(format!(
        "jnp.array([{}], {name}).reshape{shape}",
        all.join(", ")
    ))
}
