//! Models as input and output: the default target of a format, the model's bytes, a summary of the changes, and a test
//! of the model's numbers before anything is written.

use crate::args::{Emit, RewriteArgs};
use crate::codes;
use crate::failure::Failure;
use crate::inputs::{self, weights};
use crate::part::Part;
use crate::stats;
use crate::terminal;
use crate::{verify, whole};
use optc::check::{Item, Source, items};
use optc::interp::{
    EquivalenceOptions, FallbackSource, FolderSource, MemorySource, NotEquivalent, equivalent,
};
use optc::passes::stats::CostClass;
use optc::{
    Attr, Compiler, DType, Diagnostic, Dim, Error, FoldReport, Format, Func, Op, Program, Registry,
    SizeTable, Stage, Stats, Structure, Target, Type, bound_sizes, copy_aside, output_place,
};
use serde_json::{Value as Json, json};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// The contents of an output.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) bytes: Vec<u8>,
    /// Files that it refers to, relative to its folder.
    pub(crate) files: Vec<String>,
    /// The warnings of the writer, as text.
    pub(crate) warnings: String,
    /// The program that was read back from it, if it was.
    pub(crate) again: Option<Program>,
    /// The figures of the original, counted as for the result, if operators that stay whole would hide them.
    pub(crate) before: Option<Stats>,
}

/// The model format of an output; `None` for other outputs.
pub(crate) fn format_of(emit: Emit) -> Option<Format> {
    match emit {
        Emit::Onnx => Some(Format::Onnx),
        Emit::StableHlo => Some(Format::StableHlo),
        Emit::Hlo => Some(Format::Hlo),
        Emit::Ir
        | Emit::Json
        | Emit::Linalg
        | Emit::Pallas
        | Emit::Jax
        | Emit::Triton
        | Emit::Dot
        | Emit::Svg
        | Emit::Layouts
        | Emit::Arena
        | Emit::ModelExplorer => None,
    }
}

/// The pipeline of a command that names no pass: the default one if input and output are models of the same format,
/// else none.
pub(crate) fn pipeline(args: &RewriteArgs, emit: Emit) -> &'static str {
    let Some(own) = format_of(emit).filter(|_| args.compile.pass.is_none()) else {
        return "";
    };
    let from = inputs::format_of(args.input.as_deref(), &args.compile);
    if from == Some(own) { "default" } else { "" }
}

/// The pass that makes a program one without layouts.
const LAST: &str = "normalize-layouts";

/// The pass that chooses splits over a mesh, and the pass that states them as operations, while values still have the
/// dimensions that they were chosen for.
const SHARD: [&str; 2] = ["shard", "state-shards"];

/// The pass that makes the program of one device of a mesh, and the pass that plans kernels, also of that program.
const PART: &str = "per-device";
const PLAN: &str = "tile-propagate";

/// Appends the pass that removes layouts to a pipeline whose output is written without layouts, and before it the pass
/// that states splits, if they are chosen and the format can say them. JAX gets the program of one device too. Both come
/// before kernels are planned, as they add operations.
pub(crate) fn finish(
    compiler: &Compiler,
    emit: Emit,
    stages: &mut Vec<Stage>,
) -> Result<(), Failure> {
    let at = |stages: &[Stage], name| stages.iter().position(|s| s.pass.info().name == name);
    let [chooses, states] = SHARD.map(|name| at(stages, name).is_some());
    let has_part = at(stages, PART).is_some();
    let mut before_plan = |name: &str| -> Result<(), Failure> {
        let last = stages.len() - usize::from(ends_without_layouts(stages));
        let end = at(stages, PLAN).unwrap_or(last);
        stages.splice(end..end, compiler.pipeline(name)?);
        Ok(())
    };
    if matches!(emit, Emit::Jax | Emit::StableHlo) && chooses && !states {
        before_plan(SHARD[1])?;
    }
    if emit == Emit::Jax && !has_part {
        before_plan(PART)?;
    }
    let without_layouts = matches!(emit, Emit::Onnx | Emit::StableHlo);
    if without_layouts && !ends_without_layouts(stages) {
        stages.extend(compiler.pipeline(LAST)?);
    }
    Ok(())
}

/// Returns whether the last pass makes a program one without layouts.
pub(crate) fn ends_without_layouts(stages: &[Stage]) -> bool {
    let last = stages.last().map(|stage| stage.pass.info().name);
    last == Some(LAST)
}

/// The last pass of a command that names no pass, for HLO text without tiles. XLA assigns the layouts of such text
/// itself, so layouts are folded into dimension numbers; only the entry keeps layouts.
pub(crate) fn unlaid(
    compiler: &Compiler,
    args: &RewriteArgs,
    emit: Emit,
    target: &Target,
) -> Result<Vec<Stage>, Failure> {
    let own = emit == Emit::Hlo && !pipeline(args, emit).is_empty();
    match own && target.dimension_numbers {
        true => Ok(compiler.pipeline(&format!("{LAST}{{keep-boundary=true}}"))?),
        false => Ok(Vec::new()),
    }
}

/// Checks that data in files to which the output may refer is not overwritten by it.
pub(crate) fn keeps_data(part: &Part, output: &Path, emit: Emit) -> Result<(), Failure> {
    let Some(place) = output_place(output) else {
        return Ok(());
    };
    let program = &part.after;
    // Data inside a model is written into the new one.
    let refers = |file: &String| emit != Emit::Onnx || !is_model(file);
    let found = files_of(program)
        .into_iter()
        .filter(refers)
        .find(|file| output_place(&program.folder.join(file)).as_ref() == Some(&place));
    let Some(file) = found else {
        return Ok(());
    };
    let message = format!("`{file}` holds the data of constants that the output refers to");
    let diag = Diagnostic::error(codes::OUTPUT_IS_DATA, message)
        .note("write the program to another file, in the same folder");
    Err(Failure::about(&output.display().to_string(), diag))
}

/// The files that hold elements of a program's constants, sorted.
pub(crate) fn files_of(program: &Program) -> Vec<String> {
    let funcs = program.module.funcs.iter();
    let attrs = funcs.flat_map(|f| f.body.iter().flat_map(|&op| f.ops[op].props.iter()));
    let files: BTreeSet<&Arc<str>> = attrs
        .filter_map(|(_, attr)| match attr {
            Attr::External { file, .. } => Some(file),
            _ => None,
        })
        .collect();
    files.into_iter().map(|file| file.to_string()).collect()
}

fn is_model(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|e| e == "onnx")
}

/// Puts files to which the output refers into its folder: links to those of the program if it is written elsewhere, or
/// copies if links are impossible. An absent file is left out.
pub(crate) fn beside(part: &Part, output: &Path, files: &[String]) -> Result<(), Failure> {
    let folder = output.parent().unwrap_or_else(|| Path::new(""));
    let source = weights(&part.after, false);
    for file in files {
        let (from, to) = (part.after.folder.join(file), folder.join(file));
        if !from.exists() || output_place(&from) == output_place(&to) || to.exists() {
            continue;
        }
        // A path that leaves the folder, or is not a file, is refused here.
        if let Err(error) = source.read(file, 0, 0, DType::UI8) {
            let diag = optc::onnx::unread(file, &error.to_string());
            return Err(Failure::about(&part.before.name, diag));
        }
        let place = |step: std::io::Result<()>| {
            step.map_err(|e| Failure::from(Error::io("write", &to, &e)))
        };
        if let Some(parent) = to.parent() {
            place(std::fs::create_dir_all(parent))?;
        }
        if std::fs::hard_link(&from, &to).is_err() {
            copy_aside(&from, &to)?;
        }
    }
    Ok(())
}

/// The elements of a program's constants.
pub(crate) fn elements(
    part: &Part,
) -> impl Fn(&str, u64, u64, DType) -> Result<Vec<u8>, String> + use<> {
    let source = weights(&part.after, false);
    move |file, offset, length, dtype| {
        let bytes = source.read(file, offset, length, dtype);
        bytes.map_err(|error| error.to_string())
    }
}

/// A program in a format of models.
pub(crate) fn emitted(part: &Part, emit: Emit, pass: Option<&str>) -> Result<Written, Error> {
    let write = match emit {
        Emit::Hlo => optc::hlo::emit,
        Emit::StableHlo => optc::stablehlo::emit,
        _ => return onnx(part, pass),
    };
    let target = Some(&*part.cx.target);
    let made = write(
        &part.after.module,
        &part.cx.registry,
        target,
        &elements(part),
    );
    let made = made.map_err(|diag| part.after.error(vec![*diag]))?;
    Ok(Written {
        bytes: made.text.into_bytes(),
        warnings: part.after.render(&made.warnings),
        ..Written::default()
    })
}

/// A program as an ONNX model.
fn onnx(part: &Part, pass: Option<&str>) -> Result<Written, Error> {
    let options = optc::onnx::Options {
        fused: part.cx.target.name == "onnxruntime",
        // Without passes the operators are those of the input.
        pixel_shuffles: pass != Some(""),
    };
    let emitted = optc::onnx::emit(
        &part.after.module,
        &part.cx.registry,
        options,
        &elements(part),
    );
    let emitted = emitted.map_err(|diag| part.after.error(vec![*diag]))?;
    Ok(Written {
        bytes: emitted.bytes,
        files: emitted.files,
        ..Written::default()
    })
}

/// The program that is read back from a written model.
///
/// # Errors
/// The reader refuses the model, or the model contradicts its own declarations or has another interface than the
/// original (`written-invalid`).
pub(crate) fn read_back(
    compiler: &Compiler,
    part: &Part,
    emit: Emit,
    (pass, written): (Option<&str>, &Written),
) -> Result<Program, Error> {
    let format = format_of(emit);
    let name = format!("{}, as written", part.before.name);
    let mut read = whole::reader(compiler, pass).read(&name, &written.bytes, format, false);
    let invalid = |found: &Diagnostic| {
        let message = format!("the result cannot be read back: {}", found.message);
        let mut diag = Diagnostic::error(codes::WRITTEN_INVALID, message);
        diag.origin.clone_from(&found.origin);
        part.after.error(vec![diag])
    };
    let again = read
        .remove(0)
        .map_err(|error| match error.diagnostics.first() {
            Some(first) => invalid(first),
            None => error,
        })?;
    let contradicts = |program: &Program| -> Vec<Diagnostic> {
        let said = program.diagnostics.iter();
        let said = said.filter(|d| d.code.as_str() == "declared-type-differs");
        said.cloned().collect()
    };
    let (before, after) = (contradicts(&part.before), contradicts(&again));
    if let Some(first) = after.first().filter(|_| before.len() < after.len()) {
        return Err(invalid(first));
    }
    match other_interface(&part.before, &again) {
        None => Ok(again),
        Some(message) => {
            let diag = Diagnostic::error(codes::WRITTEN_INVALID, message);
            Err(part.after.error(vec![diag]))
        }
    }
}

/// The first difference between the arguments and results of a written model and those of the original. An argument
/// must be as open as it was; more may be known of a result.
fn other_interface(before: &Program, after: &Program) -> Option<String> {
    let (a, b) = (before.entry()?, after.entry()?);
    let named = before.format == Format::Onnx;
    type Key = fn(&Func, usize) -> String;
    let sides: [(_, _, Key, _, _); 2] = [
        ("argument", true, Func::arg_key, &a.args, &b.args),
        ("result", false, Func::result_key, &a.results, &b.results),
    ];
    for (what, given, key, wanted, found) in sides {
        if wanted.len() != found.len() {
            let (found, wanted) = (found.len(), wanted.len());
            return Some(format!("the result has {found} {what}s, wanted {wanted}"));
        }
        for (i, (&x, &y)) in wanted.iter().zip(found).enumerate() {
            let (wanted, found) = (key(a, i), key(b, i));
            if named && wanted != found {
                return Some(format!(
                    "the result has an {what} `{found}`, wanted `{wanted}`"
                ));
            }
            let (x, y) = (a.ty(x), b.ty(y));
            if !fits(x, y, given) {
                let shown = |ty: &Type| optc::text::print_type(ty);
                let (x, y) = (shown(x), shown(y));
                return Some(format!("the {what} `{wanted}` became {y}, wanted {x}"));
            }
        }
    }
    None
}

/// True if a value of the original may have become one of this type. For a `given` value, an argument, no more may be
/// known than before.
fn fits(wanted: &Type, found: &Type, given: bool) -> bool {
    let (Some(wanted), Some(found)) = (wanted.as_tensor(), found.as_tensor()) else {
        return wanted.as_tensor().is_some() == found.as_tensor().is_some();
    };
    let fit = |(wanted, found): (&Dim, &Dim)| match (wanted.fixed(), found.fixed()) {
        (Some(wanted), Some(found)) => wanted == found,
        (None, None) => true,
        (_, None) | (None, _) => !given,
    };
    let dims = wanted.dims.iter().zip(&found.dims);
    wanted.dtype == found.dtype
        && wanted.dims.len() == found.dims.len()
        && dims.into_iter().all(fit)
}

/// Runs the original and the written model on seeded inputs and edge values; they must return the same numbers.
pub(crate) fn check(
    compiler: &Compiler,
    part: &Part,
    output: &Path,
    emit: Emit,
    written: &Written,
) -> Result<(), Failure> {
    let Some(format) = format_of(emit) else {
        return Err(Failure::usage(
            "--check wants a model that is written: -o x.onnx, x.hlo, or x.mlir of StableHLO",
        ));
    };
    let name = output.display().to_string();
    let mut reader = compiler.clone();
    // An operator that stays whole could only be compared with itself.
    if !has_opaque(&part.before, compiler.registry()) {
        reader.whole_operators = optc::onnx::Whole::None;
    }
    let mut read = reader.read(&name, &written.bytes, Some(format), false);
    let again = read.remove(0)?;
    let file = output.file_name().map(|f| f.to_string_lossy().into_owned());
    let mut here = MemorySource::default();
    here.files
        .insert(file.unwrap_or_default(), written.bytes.clone());
    let data = FallbackSource {
        first: here,
        second: FolderSource::new(part.before.folder.clone()),
    };
    let options = EquivalenceOptions {
        func: inputs::function(&part.before, None)?,
        naive: false,
        uninterpreted: true,
        names: Arc::new([part.before.name.clone(), name.clone()]),
        bindings: compiler.bindings.clone(),
        ..EquivalenceOptions::default()
    };
    terminal::doing(|| format!("{}, {name}: running both", part.before.name));
    let original = weights(&part.before, false);
    let registry = compiler.registry();
    let kept = reader.whole_operators != optc::onnx::Whole::None || !reader.held_nodes.is_empty();
    if kept && let Some((before, after)) = in_operations(compiler, part, (&name, format), written) {
        let modules = (&before.module, &after.module);
        let done = equivalent(modules.0, modules.1, registry, &*original, &data, &options);
        // A program that cannot be run on random inputs is compared as it is.
        if !matches!(done, Err(NotEquivalent::Run { .. })) {
            return done.map_err(|error| verify::refusal(&error, &before, &after, &options.names));
        }
    }
    let modules = (&part.before.module, &again.module);
    let done = equivalent(modules.0, modules.1, registry, &*original, &data, &options);
    done.map_err(|error| verify::refusal(&error, &part.before, &again, &options.names))
}

/// The original and the written model with operations in place of operators that stay whole; `None` if the file of the
/// original cannot be read again.
fn in_operations(
    compiler: &Compiler,
    part: &Part,
    (name, format): (&str, Format),
    written: &Written,
) -> Option<(Program, Program)> {
    let mut reader = whole::reader(compiler, None);
    reader.whole_operators = optc::onnx::Whole::None;
    let path = Path::new(&part.before.name);
    let before = path.is_file().then(|| reader.load(path, Some(format)));
    let after = reader.read(name, &written.bytes, Some(format), false);
    Some((before?.ok()?, after.into_iter().next()?.ok()?))
}

pub(crate) fn has_opaque(program: &Program, registry: &Registry) -> bool {
    program.module.funcs.iter().any(|func| {
        let opaque = |op: &Op| registry.structure(&func.ops[*op].name) == Structure::Opaque;
        func.body.iter().any(opaque)
    })
}

/// The changes to a program, in figures.
struct Summary<'a> {
    part: &'a Part,
    output: String,
    before: Stats,
    after: Stats,
    /// The bytes of each operation of the result that rearranges, and its name.
    moves: Vec<(u64, String)>,
    fold: Option<&'a FoldReport>,
    checked: bool,
}

/// A rearrangement of the result.
struct Left<'a> {
    bytes: u64,
    message: Cow<'a, str>,
    notes: &'a [String],
}

/// The most conversions that a summary names.
const NAMED: usize = 5;

/// The summary of a program that was written as a model: lines, or JSON.
pub(crate) fn summary(part: &Part, output: &Path, written: &Written, args: &RewriteArgs) -> String {
    let (checked, as_json) = (args.check, args.json);
    let sizes = SizeTable::new(&part.cx.bindings);
    let of = |program: &Program| Stats::at(&program.module, &part.cx.registry, &sizes);
    // Further work of operators, such as reading an operand transposed, is only in the model.
    let result = written.again.as_ref().unwrap_or(&part.after);
    let after = of(result);
    let summary = Summary {
        part,
        output: output.display().to_string(),
        before: written.before.clone().unwrap_or_else(|| of(&part.before)),
        after,
        moves: moves(result, &part.cx.registry, &sizes),
        fold: part.cx.reports.get::<FoldReport>(),
        checked,
    };
    if as_json {
        return format!("{:#}\n", summary.json());
    }
    summary.text()
}

/// The bytes of each operation of a program that rearranges, and its name.
fn moves(program: &Program, registry: &Registry, sizes: &SizeTable) -> Vec<(u64, String)> {
    let items = items(&program.module, registry, sizes, None).into_iter();
    let movement = items.filter(|item| item.class == CostClass::Movement);
    let named = |item: Item| {
        let Source::Op(op) = item.of else { return None };
        let data = &program.module.funcs[item.func].ops[op];
        let names = data.loc.names();
        let name = names.first().map_or(&data.name, |&name| name);
        Some((item.bytes, name.to_string()))
    };
    movement.filter_map(named).collect()
}

fn megabytes(bytes: u64) -> String {
    let tenths = bytes.saturating_add(50_000) / 100_000;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}

impl Summary<'_> {
    /// The rearrangements of the result of a fold, the largest first. One that is a conversion of the fold has the
    /// remark about it. A conversion that an operator does by itself is not in the result.
    fn left(&self) -> Vec<Left<'_>> {
        let Some(fold) = self.fold else {
            return Vec::new();
        };
        let stays = |d: &&Diagnostic| d.code.as_str() == "conversion-stays";
        let remarks = self.part.cx.remarks.iter().filter(stays);
        let conversions = fold.conversions.iter().filter(|(_, c)| !c.constant);
        let mut moves: Vec<&(u64, String)> = self.moves.iter().collect();
        let mut left = Vec::with_capacity(moves.len());
        for ((_, conversion), diag) in conversions.zip(remarks) {
            let bytes = conversion.bytes;
            if let Some(at) = moves.iter().position(|(moved, _)| *moved == bytes) {
                moves.remove(at);
                let message = Cow::Borrowed(&*diag.message);
                let notes = &diag.notes;
                left.push(Left {
                    bytes,
                    message,
                    notes,
                });
            }
        }
        left.extend(moves.into_iter().map(|(bytes, name)| Left {
            bytes: *bytes,
            message: Cow::Owned(format!("the result rearranges {bytes} bytes in `{name}`")),
            notes: &[],
        }));
        left.sort_by_key(|left| std::cmp::Reverse(left.bytes));
        left
    }

    /// The remarks about parts that are written as they were read.
    fn kept(&self) -> impl Iterator<Item = &Diagnostic> {
        let remarks = self.part.cx.remarks.iter();
        remarks.filter(|d| d.code == codes::KEPT_AS_READ)
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{} -> {}, for {}\n",
            self.part.before.name, self.output, self.part.cx.target.name
        );
        let rows = [
            (
                "rearrangements",
                [self.before.movement_ops, self.after.movement_ops],
                [self.before.movement_bytes, self.after.movement_bytes],
            ),
            (
                "copies",
                [self.before.copy_ops, self.after.copy_ops],
                [self.before.copy_bytes, self.after.copy_bytes],
            ),
            (
                "expansions",
                [self.before.expand_ops, self.after.expand_ops],
                [self.before.expand_bytes, self.after.expand_bytes],
            ),
        ];
        for (name, ops, bytes) in rows {
            let _ = writeln!(
                text,
                "  {name:<15} {:>5} -> {:<5} {:>12} -> {}",
                ops[0],
                ops[1],
                megabytes(bytes[0]),
                megabytes(bytes[1])
            );
        }
        if let Some(fold) = self.fold {
            let _ = writeln!(
                text,
                "  all three are {} at least on this target: {}",
                megabytes(fold.lower_bound_bytes),
                fold.proof.name()
            );
        }
        for diag in self.kept() {
            let _ = writeln!(text, "  {}", diag.message);
            for note in &diag.notes {
                let _ = writeln!(text, "    {note}");
            }
        }
        let left = self.left();
        for one in left.iter().take(NAMED) {
            let _ = writeln!(text, "  {}", one.message);
            for note in one.notes {
                let _ = writeln!(text, "    {note}");
            }
        }
        if NAMED < left.len() {
            let _ = writeln!(
                text,
                "  and {} conversions more; --remarks has them all",
                left.len() - NAMED
            );
        }
        if self.checked {
            text.push_str("  the same numbers on seeded inputs and edge values\n");
        }
        text
    }

    fn json(&self) -> Json {
        let bound = bound_sizes(
            &self.part.before.module,
            &SizeTable::new(&self.part.cx.bindings),
        );
        let left: Vec<Json> = self
            .left()
            .into_iter()
            .map(|one| json!({"bytes": one.bytes, "message": one.message, "notes": one.notes}))
            .collect();
        let kept = self.kept();
        let kept: Vec<Json> = kept
            .map(|diag| json!({"message": diag.message, "notes": diag.notes, "nodes": diag.origin.iter().map(|name| &**name).collect::<Vec<&str>>()}))
            .collect();
        json!({
            "schema": stats::SCHEMA,
            "input": self.part.before.name,
            "output": self.output,
            "target": self.part.cx.target.name,
            "before": Json::Object(stats::object(&self.before, &bound)),
            "after": Json::Object(stats::object(&self.after, &bound)),
            "lower_bound_bytes": self.fold.map(|f| f.lower_bound_bytes),
            "proof": self.fold.map(|f| f.proof.name()),
            "left": left,
            "kept": kept,
            "checked": self.checked,
        })
    }
}
