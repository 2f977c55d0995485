//! A Python module: Triton kernels for the groups of a plan with a launcher for each group, torch for all other
//! operations.
//!
//! Example: a group of an `hbir.linear` and an `hbir.gelu` is one `@triton.jit` function. A program computes a block of
//! the result: it sums `tl.dot` over blocks of the operands in a loop, and stores the GELU of the sum.
//!
//! - The plan of tiles says what is in a group. The axes, blocks and loops of a kernel follow from its last value
//!   (`group.rs`), for the plan counts shared memory, and a kernel lives from registers.
//! - Kernels take the strides of their operands, so a layout is no reason for a copy.
//! - An operation of no group, and a group without a kernel, are written in torch. `OUTSIDE` lists them with the reason,
//!   the arithmetic operations and the bytes.

mod axis;
mod cx;
mod eval;
mod group;
mod helpers;
mod kernel;
mod number;
mod product;
mod reduce;
mod torch;
mod words;

use crate::codes;
use crate::entry;
use crate::python::{
    Names, call, definition, function_names, plan_of, quoted, signature, tuple, value_names,
};
use cx::Cx;
use eval::is_product;
use group::{Written, kernels};
use helpers::HELPERS;
use optc_ir::entity::EntityId;
use optc_ir::op::iteration_domain_of;
use optc_ir::{
    Attr, DType, Data, Diagnostic, Func, Module, Op, OpRef, Operation, Registry, Structure,
    TensorType, Type, Value,
};
use optc_ops::{Constant, DequantizeBlocks, GridSample, MaxPoolIndices, Opaque, Recurrent};
use optc_target::{Precision, Target};
use optc_tile::{GroupSchedule, Schedule, Unit};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;

/// The operations that neither a kernel nor torch can have, sorted by name; each refuses the program.
pub const WITHOUT_FORM: &[&str] = &[
    DequantizeBlocks::NAME,
    GridSample::NAME,
    MaxPoolIndices::NAME,
    Opaque::NAME,
    Recurrent::NAME,
];

/// The module as Python; `main`, or the first function, becomes `main`. Products of f32 have the precision of the target.
///
/// # Errors
/// No function, or an operation without a form in torch.
pub fn emit(
    module: &Module,
    registry: &Registry,
    target: &Target,
) -> Result<String, Box<Diagnostic>> {
    let entry = entry(module)?;
    let mut names = Names::default();
    let functions = function_names(module, entry, &mut names);
    let mut parts = Parts {
        functions: Rc::new(names.clone()),
        names,
        precision: target.precision,
        ..Parts::default()
    };
    let mut texts = Vec::with_capacity(module.funcs.len());
    for func in &module.funcs {
        texts.push(function(func, registry, &functions, &mut parts)?);
    }
    Ok(parts.text(&module.funcs[entry], &texts))
}

/// State shared by the functions.
#[derive(Default)]
struct Parts {
    /// The names of functions; no value gets one of these.
    functions: Rc<Names>,
    /// All names of the module: functions, kernels and constants.
    names: Names,
    helpers: BTreeSet<&'static str>,
    /// The precision of products of f32 that state none of their own.
    precision: Option<Precision>,
    /// The texts of constants, kernels and launchers.
    texts: Vec<String>,
    /// The entries of `KERNELS`.
    kernels: Vec<String>,
    /// The entries of `GROUPS`.
    groups: Vec<String>,
    /// The entries of `OUTSIDE`.
    outside: Vec<String>,
    weights: bool,
}

/// A helper that reads a constant from its file.
const WEIGHTS: &str = r#"

def _weights(name, offset, length, dtype, shape, device):
    """Elements of a file beside this module."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, "rb") as file:
        file.seek(offset)
        data = bytearray(file.read(length))
    return torch.frombuffer(data, dtype=dtype).reshape(shape).to(device)
"#;

impl Parts {
    fn text(&self, entry: &Func, functions: &[String]) -> String {
        let mut out = String::from(
            "\"\"\"Written by optc: Triton kernels for each group of operations, and a function that calls them.\"\"\"\n\nimport functools\n",
        );
        if self.weights {
            out.push_str("import os\n");
        }
        out.push_str("\nimport torch\nimport triton\nimport triton.language as tl\n");
        out.push_str(&signature(entry));
        if self.weights {
            out.push_str(WEIGHTS);
        }
        for (name, text) in HELPERS {
            if self.helpers.contains(name) {
                let _ = write!(out, "\n\n{text}");
            }
        }
        for text in self.texts.iter().chain(functions) {
            let _ = write!(out, "\n\n{}\n", text.trim_end());
        }
        let lists = [
            (
                "A kernel: its function, the type of each pointer and the usual strides, options, and its programs.",
                "KERNELS",
                &self.kernels,
            ),
            (
                "A group of the plan: its kernels, its arithmetic operations, and why it has no kernel.",
                "GROUPS",
                &self.groups,
            ),
            (
                "An operation that runs in torch: its name, its arithmetic operations, and its bytes.",
                "OUTSIDE",
                &self.outside,
            ),
        ];
        for (comment, name, entries) in lists {
            let _ = write!(out, "\n# {comment}\n{name} = [\n");
            for entry in entries {
                let _ = writeln!(out, "    {entry},");
            }
            out.push_str("]\n");
        }
        out
    }
}

/// The largest number of elements of a constant that is written as a list.
const MAX_LISTED: usize = 1 << 16;

/// The state of a function that is being written.
struct Function<'a> {
    func: &'a Func,
    registry: &'a Registry,
    functions: &'a BTreeMap<&'a str, String>,
    names: Vec<String>,
    splats: BTreeMap<Value, f64>,
    lines: Vec<String>,
    /// The constants that the function has already.
    ready: BTreeSet<Value>,
}

fn function(
    func: &Func,
    registry: &Registry,
    functions: &BTreeMap<&str, String>,
    parts: &mut Parts,
) -> Result<String, Box<Diagnostic>> {
    let schedule = plan_of(func, registry)?;
    let names = value_names(func, &parts.functions);
    let mut splats = BTreeMap::new();
    for &op in &func.body {
        let op_ref = func.op_ref(op);
        if let (Some(x), Some(&value)) = (splat(&op_ref), func.ops[op].results.first()) {
            splats.insert(value, x);
        }
    }
    let mut writer = Function {
        func,
        registry,
        functions,
        names,
        splats,
        lines: Vec::new(),
        ready: BTreeSet::new(),
    };
    writer.body(schedule.as_ref(), parts)?;
    for &value in &func.results {
        writer.need(value, parts)?;
    }
    let name = &functions[&*func.name];
    let args: Vec<&str> = func.args.iter().map(|&v| writer.name(v)).collect();
    let device = match args.first() {
        Some(first) => format!("device = device or {first}.device"),
        None => "device = device or torch.device(\"cuda\")".to_owned(),
    };
    let lines = [&[device], &writer.lines[..]].concat();
    let results: Vec<&str> = func.results.iter().map(|&v| writer.name(v)).collect();
    Ok(definition(name, &args, &["device=None"], &lines, &results))
}

impl Function<'_> {
    fn name(&self, value: Value) -> &str {
        &self.names[value.index()]
    }

    /// Writes operations and groups in topological order.
    fn body(
        &mut self,
        schedule: Option<&Schedule>,
        parts: &mut Parts,
    ) -> Result<(), Box<Diagnostic>> {
        let func = self.func;
        let Some(schedule) = schedule else {
            return func
                .body
                .iter()
                .try_for_each(|&op| self.operation(op, parts));
        };
        for &unit in &schedule.units {
            let number = match unit {
                Unit::Op(op) => {
                    self.operation(op, parts)?;
                    continue;
                }
                Unit::Group(number) => number,
            };
            self.group(schedule, number, parts)?;
        }
        Ok(())
    }

    /// Writes the kernels of a group and calls them, or its operations if it has none.
    fn group(
        &mut self,
        schedule: &Schedule,
        number: usize,
        parts: &mut Parts,
    ) -> Result<(), Box<Diagnostic>> {
        let group = &schedule.groups[number];
        if group.ops.is_empty() {
            return Ok(());
        }
        let live: Vec<Value> = group
            .ops
            .iter()
            .flat_map(|op| &self.func.ops[op.op].results)
            .copied()
            .filter(|&v| schedule.is_live_out(v))
            .collect();
        let name = parts.names.fresh(&format!("group_{number}"));
        let made = {
            let cx = Cx {
                func: self.func,
                registry: self.registry,
                name: &|v| self.names[v.index()].clone(),
                precision: parts.precision,
                splat: &|v| self.splats.get(&v).copied(),
            };
            let mut fresh = |value: Value| {
                let value = &self.names[value.index()];
                parts.names.fresh(&format!("{name}_{value}"))
            };
            kernels(&cx, group, &live, &mut fresh)
        };
        let operations: u64 = group.ops.iter().map(|op| self.operations(op.op)).sum();
        match made {
            Ok(written) => {
                let kernels = written.iter().filter(|k| k.torch.is_none());
                let names: Vec<String> = kernels.map(|k| quoted(&k.name)).collect();
                let outside = written.iter().filter_map(|k| k.torch.as_ref());
                let outside: u64 = outside.map(|(op, _)| self.operations(*op)).sum();
                parts.groups.push(format!(
                    "({}, [{}], {}, \"\")",
                    quoted(&name),
                    names.join(", "),
                    operations.saturating_sub(outside)
                ));
                self.launch(&name, group, &live, written, parts)
            }
            Err(why) => {
                parts.groups.push(format!(
                    "({}, [], {operations}, {})",
                    quoted(&name),
                    quoted(&why)
                ));
                self.lines.push(format!(
                    "# {name} has no kernel: {}",
                    why.replace('\n', " ")
                ));
                for op in &group.ops {
                    self.operation(op.op, parts)?;
                }
                Ok(())
            }
        }
    }

    /// Writes kernels, their launcher and its call.
    fn launch(
        &mut self,
        name: &str,
        group: &GroupSchedule,
        live: &[Value],
        written: Vec<Written>,
        parts: &mut Parts,
    ) -> Result<(), Box<Diagnostic>> {
        let made: BTreeSet<Value> = group
            .ops
            .iter()
            .flat_map(|op| self.func.ops[op.op].results.iter().copied())
            .collect();
        let mut inputs: Vec<Value> = Vec::new();
        let mut body = String::new();
        parts.helpers.insert("_empty");
        for kernel in &written {
            for &value in &kernel.inputs {
                if !made.contains(&value) && !inputs.contains(&value) {
                    inputs.push(value);
                }
            }
            if let Some((op, why)) = &kernel.torch {
                let _ = writeln!(body, "    # in torch: {}", why.replace('\n', " "));
                for line in self.in_torch(*op, parts)? {
                    let _ = writeln!(body, "    {line}");
                }
                continue;
            }
            self.call_kernel(kernel, &mut body, parts);
        }
        for &value in &inputs {
            self.need(value, parts)?;
        }
        let results: Vec<&str> = live.iter().map(|&v| self.name(v)).collect();
        let given: Vec<&str> = inputs.iter().map(|&v| self.name(v)).collect();
        let params = [&given[..], &["device"]].concat().join(", ");
        let text = format!(
            "def {name}({params}):\n{body}    return {}\n",
            tuple(&results)
        );
        let line = format!("{} = {name}({params})", tuple(&results));
        parts.texts.push(text);
        self.lines.push(line);
        Ok(())
    }

    /// Allocates the results of a kernel, and calls it.
    fn call_kernel(&self, kernel: &Written, body: &mut String, parts: &mut Parts) {
        for &value in &kernel.outputs {
            let Some(ty) = self.func.ty(value).as_tensor() else {
                continue;
            };
            let (shape, kind) = (
                tuple(ty.shape().unwrap_or_default()),
                words::torch_type(ty.dtype),
            );
            let order = order_of(ty).map_or(String::new(), |o| format!(", {o:?}"));
            let _ = writeln!(
                body,
                "    {} = _empty({shape}, {}, device{order})",
                self.name(value),
                kind.unwrap_or_default()
            );
        }
        let mut args = Vec::new();
        let mut signature = Vec::new();
        for (value, param, rank) in &kernel.params {
            let ty = self.func.ty(*value).as_tensor();
            let kind = ty.and_then(|ty| words::pointer_type(ty.dtype));
            let strides = ty.map_or_else(Vec::new, strides_of);
            signature.push(format!(
                "{}: {}",
                quoted(param),
                quoted(&kind.unwrap_or_default())
            ));
            for (d, stride) in strides.iter().enumerate().take(*rank) {
                signature.push(format!("\"{param}_s{d}\": {stride}"));
            }
            args.push(self.name(*value).to_owned());
            if *rank != 0 {
                args.push(format!("*{}.stride()", self.name(*value)));
            }
        }
        let options = format!("num_warps={}, num_stages={}", kernel.warps, kernel.stages);
        let _ = writeln!(
            body,
            "    {}[({},)]({}, {options})",
            kernel.name,
            kernel.programs,
            args.join(", ")
        );
        parts.kernels.push(format!(
            "({}, {{{}}}, {{\"num_warps\": {}, \"num_stages\": {}}}, {})",
            kernel.name,
            signature.join(", "),
            kernel.warps,
            kernel.stages,
            kernel.programs
        ));
        parts.texts.push(kernel.text.clone());
        parts.helpers.extend(&kernel.helpers);
    }

    /// The arithmetic operations of an operation: two for each step of a product, one for each element of others.
    fn operations(&self, op: Op) -> u64 {
        let op_ref = self.func.op_ref(op);
        if is_product(op_ref.name) {
            let domain = iteration_domain_of(self.registry.get(op_ref.name), &op_ref);
            let steps = domain.loops.iter().map(|l| l.extent);
            return steps.fold(2, u64::saturating_mul);
        }
        if self.registry.rearrangement(&op_ref).is_ok() {
            return 0;
        }
        let size = |ty: &&Type| ty.as_tensor().and_then(TensorType::elements);
        let all = op_ref
            .operands
            .iter()
            .chain(&op_ref.results)
            .filter_map(size);
        all.max().unwrap_or(0)
    }

    /// The bytes of the operands and results of an operation.
    fn bytes(&self, op: Op) -> u64 {
        let op_ref = self.func.op_ref(op);
        let size = |ty: &&Type| {
            let ty = ty.as_tensor()?;
            Some(ty.elements()? * u64::from(ty.dtype.bits().div_ceil(8)))
        };
        let all = op_ref.operands.iter().chain(&op_ref.results);
        all.filter_map(size).fold(0, u64::saturating_add)
    }

    /// Writes the line that gets a constant, if the value is one.
    fn need(&mut self, value: Value, parts: &mut Parts) -> Result<(), Box<Diagnostic>> {
        let Some(op) = self.func.def_op(value) else {
            return Ok(());
        };
        let data = &self.func.ops[op];
        if self.structure(op) != Structure::Constant || !self.ready.insert(value) {
            return Ok(());
        }
        let text = constant(&self.func.op_ref(op), parts).ok_or_else(|| {
            let message = format!("{} has no form in torch: its data is not read", data.name);
            let diag = Diagnostic::error(codes::TRITON_OP, message).at(data.span, "this operation");
            Box::new(diag.hint("docs/triton.md lists the operations that are written"))
        })?;
        let name = parts.names.fresh(&format!("{}_data", self.name(value)));
        parts.texts.push(format!(
            "@functools.lru_cache(None)\ndef {name}(device):\n    return {text}\n"
        ));
        let line = format!("{} = {name}(device)", self.name(value));
        self.lines.push(line);
        Ok(())
    }

    fn structure(&self, op: Op) -> Structure {
        self.registry.structure(&self.func.ops[op].name)
    }

    /// Writes one operation on whole tensors.
    fn operation(&mut self, op: Op, parts: &mut Parts) -> Result<(), Box<Diagnostic>> {
        if self.structure(op) == Structure::Constant {
            return Ok(());
        }
        for &value in &self.func.ops[op].operands {
            self.need(value, parts)?;
        }
        let lines = self.in_torch(op, parts)?;
        self.lines.extend(lines);
        Ok(())
    }

    /// The lines of one operation in torch.
    fn in_torch(&self, op: Op, parts: &mut Parts) -> Result<Vec<String>, Box<Diagnostic>> {
        let data = &self.func.ops[op];
        let refuse = |why: &str| {
            let message = format!("{} has no form in torch: {why}", data.name);
            let diag = Diagnostic::error(codes::TRITON_OP, message).at(data.span, "this operation");
            Box::new(diag.hint("docs/triton.md lists the operations that are written"))
        };
        let name = |&v: &Value| self.name(v).to_owned();
        let args: Vec<String> = data.operands.iter().map(name).collect();
        let results: Vec<String> = data.results.iter().map(name).collect();
        let op_ref = self.func.op_ref(op);
        if self.structure(op) == Structure::Call {
            let call = call(self.functions, &op_ref, &args, &["device"]);
            let call = call.ok_or_else(|| refuse("the function is not there"))?;
            let targets = match results.as_slice() {
                [one] => one.clone(),
                all => tuple(all),
            };
            return Ok(vec![format!("{targets} = {call}")]);
        }
        let known = |ty: &&Type| ty.as_tensor().is_some_and(|t| t.shape().is_some());
        if !op_ref.operands.iter().chain(&op_ref.results).all(known) {
            return Err(refuse("a size is not a number"));
        }
        let mut form = torch::Form {
            op: &op_ref,
            registry: self.registry,
            args: &args,
            helpers: BTreeSet::new(),
        };
        let texts = form
            .results()
            .ok_or_else(|| refuse("it is not written yet"))?;
        parts.helpers.extend(&form.helpers);
        let operations = self.operations(op);
        if 0 < operations {
            let entry = format!("({}, {operations}, {})", quoted(&data.name), self.bytes(op));
            parts.outside.push(entry);
        }
        let lines = results.iter().zip(texts);
        Ok(lines
            .map(|(name, text)| format!("{name} = {text}"))
            .collect())
    }
}

/// The order of a type's dimensions in memory, outermost first; `None` if it is row-major.
fn order_of(ty: &TensorType) -> Option<Vec<usize>> {
    let order = ty.notation.order(ty.rank())?;
    (!order.is_sorted()).then_some(order)
}

/// The strides in elements of a tensor in the order of its type.
fn strides_of(ty: &TensorType) -> Vec<u64> {
    let shape = ty.shape().unwrap_or_default();
    let order = order_of(ty).unwrap_or_else(|| (0..shape.len()).collect());
    let mut strides = vec![1; shape.len()];
    let mut stride = 1u64;
    for &d in order.iter().rev() {
        strides[d] = stride;
        stride = stride.saturating_mul(shape[d].max(1));
    }
    strides
}

/// The number that all elements of a constant are.
fn splat(op: &OpRef<'_>) -> Option<f64> {
    let ty = op.result(0).ok()?;
    let Constant { value, data: None } = Constant::of(op).ok()? else {
        return None;
    };
    let Some(Attr::Dense(dense)) = value else {
        return None;
    };
    if matches!(ty.dtype, DType::Mini(_)) || ty.dtype.complex_part().is_some() {
        return None;
    }
    let tensor = match dense.splat {
        true => optc_ir::Tensor::from_bytes(ty.dtype, vec![1], &dense.bytes).ok()?,
        false => optc_ops::dense_tensor(&dense)
            .ok()
            .filter(|t| t.len() <= MAX_LISTED)?,
    };
    // Integers beyond the exact ones of f64 are loaded.
    let number = |i: usize| match &tensor.data {
        Data::I64(_) => {
            let n = tensor.i128_at(i);
            #[expect(clippy::cast_precision_loss, reason = "the bound is below 2^53")]
            let exact = (n.unsigned_abs() < 1 << 53).then_some(n as f64);
            exact
        }
        _ => Some(tensor.f64_at(i)),
    };
    let first = (!tensor.is_empty()).then(|| number(0)).flatten()?;
    let same = |i: usize| number(i).is_some_and(|x| x.to_bits() == first.to_bits());
    (1..tensor.len()).all(same).then_some(first)
}

/// A constant, either in the module or read from its file.
fn constant(op: &OpRef<'_>, parts: &mut Parts) -> Option<String> {
    let ty = op.result(0).ok()?;
    let (shape, name) = (tuple(ty.shape()?), words::torch_type(ty.dtype)?);
    if let Some(x) = splat(op) {
        let x = words::literal(x, ty.dtype);
        return Some(format!(
            "torch.full({shape}, {x}, dtype={name}, device=device)"
        ));
    }
    let Constant { value, data } = Constant::of(op).ok()?;
    if let Some(Attr::External {
        file,
        offset,
        length,
    }) = data
    {
        let file = quoted(&file);
        parts.weights = true;
        return Some(format!(
            "_weights({file}, {offset}, {length}, {name}, {shape}, device)"
        ));
    }
    let Some(Attr::Dense(dense)) = value else {
        return None;
    };
    let tensor = optc_ops::dense_tensor(&dense).ok()?;
    let n = tensor.len();
    if MAX_LISTED < n || matches!(tensor.data, Data::Bits(_)) {
        return None;
    }
    let element = |i: usize| match &tensor.data {
        Data::I64(_) => tensor.i128_at(i).to_string(),
        _ => words::float(tensor.f64_at(i)),
    };
    let all: Vec<String> = (0..n).map(element).collect();
    Some(format!(
        "torch.tensor([{}], dtype={name}, device=device).reshape({shape})",
        all.join(", ")
    ))
}
