//! Operations on whole values as expressions of Python, and the state of a module that is being written.

use super::form::Site;
use super::ops::write;
use super::rearrange::rearrangement;
use super::shards::Shards;
use super::words::{Names, dtype, element, quoted, tuple};
use crate::codes;
use crate::python::call;
use optc_check::mesh::Links;
use optc_ir::entity::EntityId;
use optc_ir::{
    Attr, Diagnostic, Func, Op, OpRef, Operation, Registry, Structure, Tensor, Type, Value,
};
use optc_ops::Constant;
use optc_target::{Blocks, Precision, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The form of a module.
#[derive(Default)]
pub(crate) struct Style {
    /// The bytes of the memory that blocks are in, which a kernel states to its compiler.
    pub(super) memory: Option<u64>,
    /// True if functions have the option `interpret` for kernels.
    pub(super) kernels: bool,
    /// The precision of products of f32 that state none of their own.
    pub(crate) precision: Option<Precision>,
    /// True if functions take what is read from files as the option `weights`.
    pub(crate) weights: bool,
    /// True if splits over a mesh are written.
    pub(crate) shards: bool,
}

impl Style {
    /// The form of a module with kernels for this target.
    pub(crate) fn of_kernels(target: &Target) -> Result<Style, Box<Diagnostic>> {
        if let Some(backend @ (Blocks::Triton | Blocks::MosaicGpu)) = target.blocks {
            let backend = match backend {
                Blocks::Triton => "Triton",
                Blocks::MosaicGpu | Blocks::Tpu => "Mosaic GPU",
            };
            let message = format!(
                "kernels for `{}` are compiled by {backend}, found kernels with parameters of a TPU (scratch memory, the order of a grid), which it does not take",
                target.name
            );
            let diag = Diagnostic::error(codes::PALLAS_TARGET, message);
            return Err(Box::new(diag.note(
                "write them for `--target=tpu` or `--target=cpu`, where they run in interpret mode",
            )));
        }
        let memory = target.memory.iter().rev().find_map(|level| level.bytes);
        Ok(Style {
            memory: memory.filter(|_| target.blocks == Some(Blocks::Tpu)),
            kernels: true,
            precision: target.precision,
            ..Style::default()
        })
    }

    /// The precision of an operation, if it is a product of f32.
    pub(super) fn precision(&self, func: &Func, op: Op) -> Precision {
        let stated = func.ops[op].attrs.str(Precision::STATED);
        Precision::of_product(stated, self.precision)
    }

    /// The options of each function that are handed on to the functions that it calls.
    pub(super) fn options(&self) -> Vec<&'static str> {
        let all = [(self.weights, "weights"), (self.kernels, "interpret")];
        let on = all.into_iter().filter(|(on, _)| *on);
        on.map(|(_, name)| name).collect()
    }
}

/// State shared by the functions.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) style: Style,
    /// The names of functions; no value gets one of these.
    pub(super) functions: Rc<Names>,
    /// All names of the module: functions and kernels.
    pub(super) names: Names,
    pub(super) helpers: BTreeSet<&'static str>,
    pub(super) kernels: Vec<String>,
    pub(super) wide: bool,
    /// The constants that are read from files and the texts that read them, by their keys among `weights`.
    pub(super) weights: Vec<(String, String)>,
    /// The keys of `weights`.
    pub(super) keys: Names,
    /// The mesh, if splits over one are written.
    pub(super) shards: Option<Rc<Shards>>,
    /// The links of its axes.
    pub(super) links: Option<Links>,
    /// The splits of weights by their keys.
    pub(super) splits: Vec<(String, String)>,
    /// The key of each text that reads a weight, and the split of the weight.
    pub(super) read: BTreeMap<(String, Option<String>), String>,
    /// The program of one device, or the reason why there is none.
    pub(super) part: Option<Result<String, String>>,
}

/// The largest number of elements of a constant that is written as a list.
const MAX_LISTED: usize = 1 << 16;

/// The state of a function that is being written.
pub(super) struct Function<'a> {
    pub(super) func: &'a Func,
    pub(super) registry: &'a Registry,
    pub(super) functions: &'a BTreeMap<&'a str, String>,
    pub(super) names: Vec<String>,
    pub(super) lines: Vec<String>,
}

impl Function<'_> {
    pub(super) fn name(&self, value: Value) -> &str {
        &self.names[value.index()]
    }

    pub(super) fn structure(&self, op: Op) -> Structure {
        self.registry.structure(&self.func.ops[op].name)
    }

    /// The expressions of the results of an operation on whole values; a call is one.
    pub(super) fn texts(
        &self,
        op: Op,
        args: &[String],
        parts: &mut Parts,
    ) -> Result<Vec<String>, Box<Diagnostic>> {
        let data = &self.func.ops[op];
        let refuse = |why: &str| {
            let message = format!("{} has no form in jnp: {why}", data.name);
            let diag = Diagnostic::error(codes::PALLAS_OP, message).at(data.span, "this operation");
            Box::new(diag.hint("docs/pallas.md lists the operations that are written"))
        };
        let op_ref = self.func.op_ref(op);
        Ok(match self.structure(op) {
            Structure::Constant => {
                let &[result] = &data.results[..] else {
                    return Err(refuse("it has another number of results than 1"));
                };
                let shards = parts.shards.as_ref();
                let split = shards.and_then(|shards| shards.entry(self.func, result));
                let text = constant(&op_ref, self.name(result), split, parts);
                vec![text.ok_or_else(|| refuse("its data is not read"))?]
            }
            Structure::Call => {
                let call = call(self.functions, &op_ref, args, &parts.style.options());
                vec![call.ok_or_else(|| refuse("the function is not there"))?]
            }
            Structure::View => {
                let text = view(self.registry, &op_ref, &args[0]);
                vec![text.ok_or_else(|| refuse("a size is not a number"))?]
            }
            Structure::Plain | Structure::Convert | Structure::Opaque => {
                let precision = parts.style.precision(self.func, op);
                let site = site(&op_ref, self.registry, precision)
                    .ok_or_else(|| refuse("a size is not a number"))?;
                let written = write(&site, args).ok_or_else(|| refuse("it is not written yet"))?;
                parts.helpers.extend(&written.helpers);
                written.results
            }
        })
    }
}

/// The left side of an assignment.
pub(super) fn targets(results: &[String]) -> String {
    match results {
        [one] => one.clone(),
        all => tuple(all),
    }
}

/// An operation on whole values; `None` where a size is not a number.
pub(super) fn site<'a>(
    op: &'a OpRef<'a>,
    registry: &'a Registry,
    precision: Precision,
) -> Option<Site<'a>> {
    let extents = |types: &[&Type]| -> Option<Vec<Vec<u64>>> {
        types.iter().map(|ty| ty.as_tensor()?.shape()).collect()
    };
    Some(Site {
        op,
        registry,
        operands: extents(&op.operands)?,
        results: extents(&op.results)?,
        tile: false,
        precision,
        pads: None,
    })
}

/// A view of a whole value.
fn view(registry: &Registry, op: &OpRef<'_>, x: &str) -> Option<String> {
    let view = registry.rearrangement(op).ok()?;
    let shape: Option<Vec<u64>> = view.shape.iter().map(optc_ir::Dim::fixed).collect();
    let (from, to) = (op.operand(0).ok()?.shape()?, op.result(0).ok()?.shape()?);
    Some(rearrangement(x, &from, &shape?, &view.perm, &to))
}

/// A constant, either in the module or read from its file.
fn constant(
    op: &OpRef<'_>,
    result: &str,
    split: Option<String>,
    parts: &mut Parts,
) -> Option<String> {
    let ty = op.result(0).ok()?;
    let (shape, name) = (tuple(ty.shape()?), dtype(ty.dtype));
    let Constant { value, data } = Constant::of(op).ok()?;
    if let Some(Attr::External {
        file,
        offset,
        length,
    }) = data
    {
        let file = quoted(&file);
        let text = format!("_weights({file}, {offset}, {length}, {name}, {shape})");
        let known = parts.read.get(&(text.clone(), split.clone())).cloned();
        let key = known.unwrap_or_else(|| {
            let key = parts.keys.fresh(result);
            parts.weights.push((key.clone(), text.clone()));
            parts
                .splits
                .extend(split.clone().map(|split| (key.clone(), split)));
            parts.read.insert((text.clone(), split), key.clone());
            key
        });
        return Some(match parts.style.weights {
            true => format!("weights[{}]", quoted(&key)),
            false => text,
        });
    }
    let Some(Attr::Dense(dense)) = value else {
        return None;
    };
    // A splat constant is one number, whatever its shape.
    if dense.splat {
        let one = Tensor::from_bytes(ty.dtype, vec![1], &dense.bytes).ok()?;
        return Some(format!("jnp.full({shape}, {}, {name})", element(&one, 0)?));
    }
    let tensor = optc_ops::dense_tensor(&dense).ok()?;
    let n = tensor.len();
    let same = (0 < n).then(|| element(&tensor, 0)).flatten();
    let same = same.filter(|first| (1..n).all(|i| element(&tensor, i).as_ref() == Some(first)));
    if let Some(same) = same {
        return Some(format!("jnp.full({shape}, {same}, {name})"));
    }
    if MAX_LISTED < n {
        return None;
    }
    let all: Option<Vec<String>> = (0..n).map(|i| element(&tensor, i)).collect();
    let all = all?;
    Some(format!(
        "jnp.array([{}], {name}).reshape{shape}",
        all.join(", ")
    ))
}
