//! The attributes that hold meshes and shardings, and their check.

use super::error::ShardError;
use super::mesh::Mesh;
use super::sharding::Sharding;
use crate::attr::{Attr, AttrDict};
use crate::codes;
use crate::diag::Diagnostic;
use crate::module::{Func, Module, Op, Value, ValueDef};
use crate::span::Span;
use crate::types::Type;

/// The attribute of a module with its mesh: a list of axes, most major first.
pub const MESH: &str = "hbir.mesh";
/// The attribute of an operation with the sharding of its results as they are stored.
pub const SHARD: &str = "shard";
/// The attribute of an operation with the sharding of each operand as the operation reads it.
pub const TAKE: &str = "take";
/// The attribute of an argument or a result of a function with its sharding.
pub const PORT_SHARD: &str = "hbir.shard";
/// The attribute of a function with the name of the one of which it is the program of one device.
pub const PART_OF: &str = "hbir.part_of";
/// The attribute of a function that has no program of one device: the reason.
pub const NO_PART: &str = "hbir.no_part";

/// The program of one device of a function of the module.
#[must_use]
pub fn part<'m>(module: &'m Module, of: &Func) -> Option<&'m Func> {
    let whole = |func: &&Func| func.attrs.str(PART_OF) == Some(&*of.name);
    module.funcs.iter().find(whole)
}

/// The mesh of a module; `None` if it states none.
///
/// # Errors
/// The attribute is no list of axes (`shard-mesh`).
pub fn mesh(module: &Module) -> Result<Option<Mesh>, ShardError> {
    let Some(attr) = module.attrs.get(MESH) else {
        return Ok(None);
    };
    let texts = strings(attr).ok_or_else(|| {
        let message = format!("found `{MESH}` of another kind, wanted a list of texts");
        ShardError::new(codes::SHARD_MESH, message)
            .hint("write `hbir.mesh = [\"data:4\", \"model:2\"]`")
    })?;
    Mesh::of(texts).map(Some)
}

impl Mesh {
    /// The attribute of a module with this mesh.
    #[must_use]
    pub fn attr(&self) -> Attr {
        Attr::Array(
            self.axes
                .iter()
                .map(|axis| Attr::str(&axis.to_string()))
                .collect(),
        )
    }
}

fn strings(attr: &Attr) -> Option<Vec<&str>> {
    attr.as_array()?.iter().map(Attr::as_str).collect()
}

/// The attribute of a sharding.
#[must_use]
pub fn attr(sharding: &Sharding, mesh: &Mesh) -> Attr {
    Attr::Array(sharding.texts(mesh).iter().map(|t| Attr::str(t)).collect())
}

fn syntax(name: &str, wanted: &str) -> ShardError {
    let message = format!("found `{name}` of another kind, wanted {wanted}");
    ShardError::new(codes::SHARD_SYNTAX, message).hint(format!("write `{name} = [\"data@d0\"]`"))
}

/// The sharding that an attribute of this name holds.
///
/// # Errors
/// It is no list of splits.
pub fn read(attr: &Attr, name: &str, mesh: &Mesh) -> Result<Sharding, ShardError> {
    let texts = strings(attr).ok_or_else(|| syntax(name, "a list of texts, one a split"))?;
    Sharding::parse(texts, mesh)
}

fn port(attrs: &AttrDict, mesh: &Mesh) -> Result<Option<Sharding>, ShardError> {
    let attr = attrs.get(PORT_SHARD);
    attr.map(|a| read(a, PORT_SHARD, mesh)).transpose()
}

/// The sharding of an argument of a function; `None` if it states none.
///
/// # Errors
/// The attribute is no sharding.
pub fn argument(func: &Func, index: usize, mesh: &Mesh) -> Result<Option<Sharding>, ShardError> {
    func.arg_ports
        .get(index)
        .map_or(Ok(None), |p| port(&p.attrs, mesh))
}

/// The sharding of a result of a function; `None` if it states none.
///
/// # Errors
/// The attribute is no sharding.
pub fn result(func: &Func, index: usize, mesh: &Mesh) -> Result<Option<Sharding>, ShardError> {
    func.result_ports
        .get(index)
        .map_or(Ok(None), |p| port(&p.attrs, mesh))
}

/// The sharding of a value as it is stored; `None` if nothing states it.
///
/// # Errors
/// The attribute is no sharding.
pub fn stored(func: &Func, value: Value, mesh: &Mesh) -> Result<Option<Sharding>, ShardError> {
    match func.values[value].def {
        ValueDef::Arg(index) => argument(func, index, mesh),
        ValueDef::Result(op, index) => {
            let data = &func.ops[op];
            let Some(attr) = data.attrs.get(SHARD) else {
                return Ok(None);
            };
            if data.results.len() == 1 {
                return read(attr, SHARD, mesh).map(Some);
            }
            let wanted = "a list of shardings, one a result";
            let lists = attr.as_array().filter(|a| a.len() == data.results.len());
            let list = lists.ok_or_else(|| syntax(SHARD, wanted))?;
            read(&list[index], SHARD, mesh).map(Some)
        }
    }
}

/// The shardings in which an operation reads its operands; `None` if it reads them as they are stored.
///
/// # Errors
/// The attribute has not one sharding an operand.
pub fn take(func: &Func, op: Op, mesh: &Mesh) -> Result<Option<Vec<Sharding>>, ShardError> {
    let data = &func.ops[op];
    let Some(attr) = data.attrs.get(TAKE) else {
        return Ok(None);
    };
    let lists = attr.as_array().filter(|a| a.len() == data.operands.len());
    let lists = lists.ok_or_else(|| syntax(TAKE, "a list of shardings, one an operand"))?;
    let each = lists.iter().map(|list| read(list, TAKE, mesh));
    each.collect::<Result<_, _>>().map(Some)
}

/// States the sharding of an argument.
pub fn set_argument(func: &mut Func, index: usize, sharding: &Sharding, mesh: &Mesh) {
    func.arg_ports[index]
        .attrs
        .set(PORT_SHARD, attr(sharding, mesh));
}

/// States the sharding of a result of the function.
pub fn set_result(func: &mut Func, index: usize, sharding: &Sharding, mesh: &Mesh) {
    func.result_ports[index]
        .attrs
        .set(PORT_SHARD, attr(sharding, mesh));
}

/// States the sharding of a value as it is stored.
pub fn set_value(func: &mut Func, value: Value, sharding: &Sharding, mesh: &Mesh) {
    match func.values[value].def {
        ValueDef::Arg(index) => set_argument(func, index, sharding, mesh),
        ValueDef::Result(op, index) => {
            let results = func.ops[op].results.len();
            let attrs = &mut func.ops[op].attrs;
            let one = attr(sharding, mesh);
            if results == 1 {
                return attrs.set(SHARD, one);
            }
            let known = attrs.get(SHARD).and_then(Attr::as_array);
            let known = known.filter(|list| list.len() == results);
            let mut list =
                known.map_or_else(|| vec![Attr::Array(Vec::new()); results], <[_]>::to_vec);
            list[index] = one;
            attrs.set(SHARD, Attr::Array(list));
        }
    }
}

/// States the shardings in which an operation reads its operands.
pub fn set_take(func: &mut Func, op: Op, take: &[Sharding], mesh: &Mesh) {
    let list = take.iter().map(|s| attr(s, mesh)).collect();
    func.ops[op].attrs.set(TAKE, Attr::Array(list));
}

/// Checks the mesh of a module and the shardings in it: the axes exist, and each value can be split as stated.
///
/// # Errors
/// All violations, in the order of the text, the first one of each operation and port.
pub fn check(module: &Module) -> Result<(), Vec<Diagnostic>> {
    let says = |attrs: &AttrDict| attrs.get(PORT_SHARD).is_some();
    let mut diags = Vec::new();
    let found = match mesh(module) {
        Ok(found) => found,
        Err(error) => {
            let span = module.funcs.first().map_or(Span::default(), |f| f.span);
            return Err(vec![reported(error, span, "the module of this function")]);
        }
    };
    for func in &module.funcs {
        let ports = func.arg_ports.iter().chain(&func.result_ports);
        let on_ports = ports.map(|p| &p.attrs).any(says);
        let on_ops = |op: &&Op| {
            func.ops[**op]
                .attrs
                .get(SHARD)
                .or(func.ops[**op].attrs.get(TAKE))
                .is_some()
        };
        let Some(mesh) = &found else {
            // The attributes `shard` and `take` of an operation mean nothing in a program without a mesh.
            if on_ports {
                let message = format!(
                    "found `{PORT_SHARD}` in @{}, wanted `{MESH}` on the module",
                    func.name
                );
                let error = ShardError::new(codes::SHARD_AXIS, message)
                    .hint("state the mesh: `module attributes {hbir.mesh = [\"data:4\"]}`");
                diags.push(reported(error, func.span, "this function"));
            }
            continue;
        };
        if on_ports {
            diags.extend(check_ports(func, mesh));
        }
        for &op in func.body.iter().filter(on_ops) {
            if let Err(error) = check_op(func, op, mesh) {
                diags.push(reported(error, func.ops[op].span, "this operation"));
            }
        }
    }
    match diags.is_empty() {
        true => Ok(()),
        false => Err(diags),
    }
}

fn reported(error: ShardError, span: Span, label: &str) -> Diagnostic {
    let diag = Diagnostic::from(error);
    match span == Span::default() {
        true => diag,
        false => diag.at(span, label),
    }
}

fn fits(sharding: &Sharding, ty: &Type, mesh: &Mesh) -> Result<(), ShardError> {
    match ty.as_tensor() {
        Some(ty) => sharding.fits(ty, mesh),
        None if sharding.splits().is_empty() => Ok(()),
        None => {
            let message = "found the split of a value that is no tensor, wanted a tensor";
            Err(ShardError::new(codes::SHARD_SPLIT, message))
        }
    }
}

fn check_ports(func: &Func, mesh: &Mesh) -> Vec<Diagnostic> {
    let arguments = (0..func.args.len()).map(|i| (argument(func, i, mesh), func.args.get(i)));
    let results = (0..func.results.len()).map(|i| (result(func, i, mesh), func.results.get(i)));
    let mut diags = Vec::new();
    for (sharding, value) in arguments.chain(results) {
        let checked = sharding.and_then(|s| match (s, value.and_then(|&v| func.values.get(v))) {
            (Some(sharding), Some(data)) => fits(&sharding, &data.ty, mesh),
            _ => Ok(()),
        });
        diags.extend(
            checked
                .err()
                .map(|e| reported(e, func.span, "this function")),
        );
    }
    diags
}

fn check_op(func: &Func, op: Op, mesh: &Mesh) -> Result<(), ShardError> {
    for &value in &func.ops[op].results {
        if let Some(sharding) = stored(func, value, mesh)? {
            fits(&sharding, func.ty(value), mesh)?;
        }
    }
    let takes = take(func, op, mesh)?.unwrap_or_default();
    let mut operands = takes.iter().zip(&func.ops[op].operands);
    operands.try_for_each(|(sharding, &value)| fits(sharding, func.ty(value), mesh))
}
