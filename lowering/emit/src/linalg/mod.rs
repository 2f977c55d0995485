//! MLIR text in upstream's dialects: `linalg`, `tensor`, `arith`, `math`, `scf`, `func`.
//!
//! - A value is a tensor of its digits in the order of its memory: the dimensions of one element are left out, one that
//!   its layout cuts in two is two. A row-major argument or result of a function has its declared type.
//! - Memory with padding is a tensor of all its positions (`stored.rs`). Elements that fill the first positions of each of its
//!   dimensions are read by `tensor.extract_slice` and written by `tensor.insert_slice`, which are strided memory once they
//!   are buffers. A dimension that is cut in two and ends within a part is *ragged*: element-wise operations, sums and
//!   products run over its padding too, and combine only what lies at an index of the value; what else reads it by an index
//!   addresses it, and all others unpack it. What padding holds is never said.
//! - A `view` is nothing: the same tensor, or `expand_shape` and `collapse_shape`. A `layout_convert` is one
//!   `linalg.transpose` of the digits, one `tensor.pack` or `tensor.unpack` where tiles are made of whole dimensions or these
//!   of tiles, or one slice where only padding comes or goes. Layouts that are no order of digits are made in the steps of
//!   [`optc_layout::explain`].
//! - An operation is a `linalg.generic` whose indexing maps address the digits where they lie, or an operation of that
//!   name where the digits lie as it wants them (`linalg.matmul`, `linalg.conv_2d_nchw_fchw`, …). Digits that are cut in
//!   ways which do not divide one another are read element by element.
//! - Narrow floats are computed in `f32` and rounded where they are stored.
//! - Constants of more than 64 bytes stand behind the program, as `dense_resource`, in the order of their memory.
//! - What is written for an operation has its location.
//! - Integers lose their sign, which is in the operations.
//! - A size that is not known is `?` in types, and an index that the head of the function computes from dimensions of
//!   its arguments. Inside, a number of its own stands for it (`StandIns`), so that shapes are cut and joined as known
//!   ones are.

mod body;
mod constant;
mod digits;
mod forms;
mod mem;
mod nest;
mod ops;
mod packing;
mod parts;
mod places;
mod ports;
mod products;
mod reduce;
mod resources;
mod scalars;
mod sizes;
mod stored;
mod types;
mod windows;
mod writer;

use crate::hlo::ReadData;
pub use forms::FORMS;
use mem::{Mem, Outcome};
use optc_ir::analysis::Uses;
use optc_ir::op::{OpRef, Structure};
use optc_ir::text::print_loc;
use optc_ir::{Diagnostic, Func, Module, Registry};
use resources::Resources;
use writer::Writer;

/// The module as MLIR text; `data` reads the files of constants.
///
/// # Errors
/// A size that no argument gives, a layout whose elements share offsets, run backwards or interleave, or that cuts a size
/// that is not known, an operation without a form, a constant whose file
/// cannot be read, or no function.
pub fn emit(module: &Module, data: &ReadData<'_>) -> Result<String, Box<Diagnostic>> {
    crate::entry(module)?;
    let registry = optc_ops::registry();
    let mut resources = Resources::default();
    let mut out = "module".to_owned();
    if let Some(name) = &module.name {
        out.push_str(&format!(" @{}", symbol(name)));
    }
    out.push_str(" {\n");
    for func in &module.funcs {
        function(func, &registry, &mut resources, &mut out)?;
    }
    out.push_str("}\n");
    resources.write(&mut out, data)?;
    Ok(out)
}

/// A name as a symbol is written.
fn symbol(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.');
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match first && name.chars().all(plain) {
        true => name.to_owned(),
        false => format!("{name:?}"),
    }
}

/// The dimension of the first operand that an attribute names.
fn axis(op: &OpRef<'_>, axis: i64) -> Option<usize> {
    let rank = i64::try_from(op.operand(0).ok()?.rank()).ok()?;
    let at = if axis < 0 { axis + rank } else { axis };
    usize::try_from(at).ok().filter(|_| at < rank)
}

/// Statements with a location behind each; what stands in their regions has none of its own.
fn located(statements: &str, loc: &str) -> String {
    if loc.is_empty() {
        return statements.to_owned();
    }
    let mut text = String::with_capacity(statements.len() + 64);
    for line in statements.lines() {
        let starts = ["    %", "    }", "    func.call "];
        let ends_here = starts.iter().any(|s| line.starts_with(s)) && !line.ends_with('{');
        text.push_str(line);
        if ends_here {
            text.push(' ');
            text.push_str(loc);
        }
        text.push('\n');
    }
    text
}

fn function(
    func: &Func,
    registry: &Registry,
    resources: &mut Resources,
    out: &mut String,
) -> Outcome<()> {
    let mut w = Writer::new(func, registry, resources);
    let mut args = Vec::with_capacity(func.args.len());
    let mut mems = Vec::with_capacity(func.args.len());
    for (i, &arg) in func.args.iter().enumerate() {
        let shape = ops::boundary(&w, arg)?;
        let dtype = w.tensor(arg)?.dtype;
        let name = w.sizes.name(&func.arg_key(i));
        let mem = Mem { name, shape, dtype };
        args.push(format!("{}: {}", mem.name, w.sizes.ty(&mem)));
        w.set(arg, mem.clone());
        mems.push(mem);
    }
    w.sizes.give(&mems);
    for &arg in &func.args {
        w.tensor(arg)?;
    }
    let uses = Uses::of(func);
    for &op in &func.body {
        let data = &func.ops[op];
        let constant = registry.structure(&data.name) == Structure::Constant;
        if constant && !data.results.iter().any(|&v| uses.is_used(v)) {
            continue;
        }
        let start = w.text.len();
        ops::write(&mut w, op)?;
        let written = w.text.split_off(start);
        w.text.push_str(&located(&written, &print_loc(&data.loc)));
    }
    w.now = None;
    let mut names = Vec::with_capacity(func.results.len());
    let mut types = Vec::with_capacity(func.results.len());
    for &value in &func.results {
        let shape = ops::boundary(&w, value)?;
        let mem = w.storage(value)?;
        let mem = w.reshape(&mem, &shape);
        types.push(w.sizes.ty(&mem));
        names.push(mem.name);
    }
    let last = match names.is_empty() {
        true => "return".to_owned(),
        false => format!("return {} : {}", names.join(", "), types.join(", ")),
    };
    w.line(&last);
    out.push_str(&format!(
        "  func.func @{}({}) -> ({}) {{\n{}{}  }}\n",
        symbol(&func.name),
        args.join(", "),
        types.join(", "),
        w.sizes.head(),
        w.text
    ));
    Ok(())
}
