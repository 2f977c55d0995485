//! MLIR text in upstream's dialects: `linalg`, `tensor`, `arith`, `math`, `scf`, `func`.
//!
//! Example: a `tensor<2x3xf32>` in column-major order is a `tensor<3x2xf32>` in the text. Its transpose to row-major
//! order by `layout_convert` is a `linalg.transpose`, and a `view` that reinterprets the same bytes as a row-major
//! `tensor<3x2xf32>` emits nothing.
//!
//! - A value is a tensor of its digits in the order of its memory. Dimensions of extent 1 are left out; a dimension
//!   that the layout cuts in two becomes two. A row-major argument or result of a function has its declared type.
//! - Memory with padding is a tensor of all its positions (`stored.rs`). Elements that fill the first positions of each
//!   dimension are read by `tensor.extract_slice` and written by `tensor.insert_slice`. These become strided memory
//!   after bufferization.
//! - A dimension that is cut in two and ends within a part is *ragged*. Element-wise operations, sums and products run
//!   over its padding too, and combine only the elements at valid indices. Other operations that read by index address
//!   the elements in place, and all remaining operations unpack the value first. The contents of padding are
//!   unspecified.
//! - A `view` emits nothing, or `expand_shape` and `collapse_shape`. A `layout_convert` is one `linalg.transpose` of
//!   the digits; or one `tensor.pack` or `tensor.unpack`, if tiles consist of whole dimensions or the reverse; or one
//!   slice, if only padding changes. Layouts that are no order of digits are made in the steps of
//!   [`optc_layout::explain`].
//! - An operation is a `linalg.generic` whose indexing maps address the digits in place. It is a named operation if the
//!   digits are in the order that this requires (`linalg.matmul`, `linalg.conv_2d_nchw_fchw`, …). Digits whose cuts do
//!   not divide one another are read element by element.
//! - Narrow floats are computed in `f32` and rounded on each store.
//! - Constants of more than 64 bytes are `dense_resource` at the end of the module, in the order of their memory.
//! - Every emitted statement has the location of its operation.
//! - Integer types are signless; the sign is in the operations.
//! - An unknown size is `?` in types. Its value is an index, which the head of the function computes from dimensions of
//!   the arguments. In this crate a stand-in number represents it (`StandIns`), so that shapes are cut and joined like
//!   known ones.

mod body;
mod constant;
mod digits;
mod kept;
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

use crate::ReadData;
use mem::{Mem, Outcome};
use optc_ir::analysis::Uses;
use optc_ir::op::Structure;
use optc_ir::text::print_loc;
use optc_ir::{Diagnostic, Func, Module, Operation, Registry};
use optc_ops::{DequantizeBlocks, GridSample, MaxPoolIndices, Opaque, Recurrent};
use resources::Resources;
use writer::Writer;

/// The operations that have no form in upstream's dialects of MLIR, sorted by name; each refuses the program. So do some uses of
/// others: complex numbers, and floats of less than 16 bits where they are computed with.
pub const WITHOUT_FORM: &[&str] = &[
    DequantizeBlocks::NAME,
    GridSample::NAME,
    MaxPoolIndices::NAME,
    Opaque::NAME,
    Recurrent::NAME,
];

/// The module as MLIR text; `registry` has the operations, and `data` reads the files of constants.
///
/// # Errors
/// A size that no argument gives, a layout whose elements share offsets, run backwards or interleave, or that cuts a size
/// that is not known, an operation without a form, a constant whose file
/// cannot be read, or no function.
pub fn emit(
    module: &Module,
    registry: &Registry,
    data: &ReadData<'_>,
) -> Result<String, Box<Diagnostic>> {
    crate::entry(module)?;
    let mut resources = Resources::default();
    let mut out = "module".to_owned();
    if let Some(name) = &module.name {
        out.push_str(&format!(" @{}", symbol(name)));
    }
    out.push_str(" {\n");
    for func in &module.funcs {
        function(func, registry, &mut resources, &mut out)?;
    }
    out.push_str("}\n");
    resources.write(&mut out, data)?;
    Ok(out)
}

/// A name in the syntax of a symbol.
fn symbol(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.');
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match first && name.chars().all(plain) {
        true => name.to_owned(),
        false => format!("{name:?}"),
    }
}

/// Statements with a location after each; those in regions get no location.
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
