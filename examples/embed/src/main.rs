//! optc inside another compiler: build a program, load a target, fold, walk the result.
//!
//! The program is one attention block as a front end would give it: the heads are split by a
//! reshape and a transpose, and merged by a transpose and a reshape.

use optc::ops::{Matmul, Reshape, Softmax, Transpose};
use optc::{
    Compiler, DType, Error, FoldReport, FuncBuilder, Module, OpError, Program, Registry, Stats,
    TensorType, Value,
};
use std::sync::Arc;

const BATCH: u64 = 2;
const LENGTH: u64 = 5;
const HEADS: u64 = 3;
const DEPTH: u64 = 4;

fn main() -> Result<(), Error> {
    let mut compiler = Compiler::new();
    compiler.target = Some(Arc::new(optc::find_target("cpu")?));
    let module = attention(compiler.registry()).expect("the shapes of attention fit");
    let mut program = compiler.program("attention", module)?;
    let before = compiler.stats(&program);
    let report = compiler.compile(&mut program, "canonicalize,view-fold")?;
    let after = compiler.stats(&program);
    print(&program, &before, &after);
    if let Some(fold) = report.reports.get::<FoldReport>() {
        say(&format!(
            "proof: {}, at least {} bytes move",
            fold.proof.name(),
            fold.lower_bound_bytes
        ));
    }
    Ok(())
}

/// `x · w`, with the heads as a dimension before the sequence.
fn project(b: &mut FuncBuilder<'_>, x: Value, w: Value) -> Result<Value, OpError> {
    let flat = b.one(&Matmul { to: None }, &[x, w])?;
    let split = b.one(&Reshape::to(&[BATCH, LENGTH, HEADS, DEPTH]), &[flat])?;
    turn(b, split, &[0, 2, 1, 3])
}

fn turn(b: &mut FuncBuilder<'_>, x: Value, perm: &[i64]) -> Result<Value, OpError> {
    let perm = perm.to_vec();
    b.one(&Transpose { perm }, &[x])
}

/// Self-attention over `HEADS` heads; the weights of the projections are arguments.
fn attention(registry: &Registry) -> Result<Module, OpError> {
    let mut b = FuncBuilder::new(registry);
    let width = HEADS * DEPTH;
    let x = b.arg("x", TensorType::fixed(&[BATCH, LENGTH, width], DType::F32));
    let mut heads = Vec::new();
    for name in ["wq", "wk", "wv"] {
        let w = b.arg(name, TensorType::fixed(&[width, width], DType::F32));
        heads.push(project(&mut b, x, w)?);
    }
    let (q, k, v) = (heads[0], heads[1], heads[2]);
    let turned = turn(&mut b, k, &[0, 1, 3, 2])?;
    let scores = b.one(&Matmul { to: None }, &[q, turned])?;
    let weights = b.one(&Softmax { axis: 3 }, &[scores])?;
    let mixed = b.one(&Matmul { to: None }, &[weights, v])?;
    let rows = turn(&mut b, mixed, &[0, 2, 1, 3])?;
    let y = b.one(&Reshape::to(&[BATCH, LENGTH, width]), &[rows])?;
    b.func.add_result(y, Some("y"));
    Ok(b.finish(&[]))
}

/// Every operation of a program with the layout of its first result, in the order of execution.
fn walk(program: &Program) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for func in &program.module.funcs {
        for &op in &func.body {
            let data = &func.ops[op];
            let ty = data.results.first().and_then(|&v| func.ty(v).as_tensor());
            let layout = ty.map(|t| t.notation.to_string()).filter(|s| !s.is_empty());
            found.push((
                data.name.to_string(),
                layout.unwrap_or_else(|| "row-major".to_owned()),
            ));
        }
    }
    found
}

fn print(program: &Program, before: &Stats, after: &Stats) {
    for (name, layout) in walk(program) {
        say(&format!("{name:<20} {layout}"));
    }
    say(&format!(
        "transposes {} -> {}, bytes moved {} -> {}",
        before.transpose, after.transpose, before.movement_bytes, after.movement_bytes
    ));
}

#[expect(clippy::print_stdout, reason = "this is a program")]
fn say(line: &str) {
    println!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use optc::Attr;
    use optc::interp::{EquivalenceOptions, NoData, equivalent};

    fn built(compiler: &Compiler) -> Module {
        attention(compiler.registry()).unwrap()
    }

    #[test]
    fn attention_folds_to_views_and_computes_the_same() {
        let compiler = Compiler::new();
        let original = compiler.program("attention", built(&compiler)).unwrap();
        let mut program = original.clone();
        compiler
            .compile(&mut program, "canonicalize,view-fold")
            .unwrap();
        assert_eq!(compiler.stats(&original).transpose, 5);
        let after = compiler.stats(&program);
        assert_eq!(
            (after.reshape, after.transpose, after.movement_bytes),
            (0, 0, 0)
        );
        let options = EquivalenceOptions::default();
        let registry = compiler.registry();
        equivalent(
            &original.module,
            &program.module,
            registry,
            &NoData,
            &NoData,
            &options,
        )
        .unwrap();
    }

    #[test]
    fn the_walk_sees_views_in_other_layouts() {
        let compiler = Compiler::new();
        let mut program = compiler.program("attention", built(&compiler)).unwrap();
        compiler
            .compile(&mut program, "canonicalize,view-fold")
            .unwrap();
        let found = walk(&program);
        assert!(
            found
                .iter()
                .any(|(name, layout)| name == "hbir.view" && layout != "row-major")
        );
        assert_eq!(
            found
                .iter()
                .filter(|(name, _)| name == "hbir.matmul")
                .count(),
            5
        );
    }

    #[test]
    fn a_program_that_is_wrong_is_refused() {
        let compiler = Compiler::new();
        let mut module = built(&compiler);
        let func = &mut module.funcs[0];
        let op = func.body[1];
        func.ops[op]
            .props
            .set("shape", Attr::ints(&[BATCH, LENGTH, HEADS, DEPTH + 1]));
        let error = compiler.program("attention", module).unwrap_err();
        assert!(error.to_string().contains("error["), "{error}");
    }
}
