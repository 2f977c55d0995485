//! optc inside another compiler: build a program, load a target, fold, walk the result.
//!
//! The program is one attention block as a front end would give it: the heads are split by a
//! reshape and a transpose, and merged by a transpose and a reshape.

use optc::{
    Attr, AttrDict, Compiler, DType, Error, Func, Loc, Module, Program, Stats, Type, Value,
};
use std::sync::Arc;

const BATCH: u64 = 2;
const LENGTH: u64 = 5;
const HEADS: u64 = 3;
const DEPTH: u64 = 4;

fn main() -> Result<(), Error> {
    let mut compiler = Compiler::new();
    compiler.target = Some(Arc::new(optc::find_target("cpu")?));
    let mut program = compiler.program("attention", attention())?;
    let before = compiler.stats(&program);
    let report = compiler.compile(&mut program, "canonicalize,view-fold")?;
    let after = compiler.stats(&program);
    print(&program, &before, &after);
    if let Some(fold) = report.fold {
        say(&format!(
            "proof: {}, at least {} bytes move",
            fold.proof.name(),
            fold.lower_bound_bytes
        ));
    }
    Ok(())
}

/// Writes functions operation by operation, with the types that follow from the shapes.
struct Builder {
    func: Func,
}

impl Builder {
    fn op(&mut self, name: &str, operands: &[Value], props: AttrDict, shape: &[u64]) -> Value {
        let ty = Type::tensor(shape, DType::F32);
        let loc = Loc::name(name);
        let op = self
            .func
            .push_op(name, operands.to_vec(), props, vec![ty], loc);
        self.func.ops[op].results[0]
    }

    fn reshape(&mut self, x: Value, shape: &[u64]) -> Value {
        let props = AttrDict::new().with("shape", Attr::ints(shape));
        self.op("hbir.reshape", &[x], props, shape)
    }

    fn transpose(&mut self, x: Value, perm: &[usize], shape: &[u64]) -> Value {
        let props = AttrDict::new().with("perm", Attr::ints(perm));
        self.op("hbir.transpose", &[x], props, shape)
    }

    fn matmul(&mut self, a: Value, b: Value, shape: &[u64]) -> Value {
        self.op("hbir.matmul", &[a, b], AttrDict::new(), shape)
    }

    /// `x · w`, with the heads as a dimension before the sequence.
    fn project(&mut self, x: Value, w: Value) -> Value {
        let flat = self.matmul(x, w, &[BATCH, LENGTH, HEADS * DEPTH]);
        let split = self.reshape(flat, &[BATCH, LENGTH, HEADS, DEPTH]);
        self.transpose(split, &[0, 2, 1, 3], &[BATCH, HEADS, LENGTH, DEPTH])
    }
}

/// Self-attention over `HEADS` heads; the weights of the projections are arguments.
fn attention() -> Module {
    let mut b = Builder {
        func: Func::new("main"),
    };
    let width = HEADS * DEPTH;
    let x = b
        .func
        .add_arg(Type::tensor(&[BATCH, LENGTH, width], DType::F32), Some("x"));
    let mut heads = Vec::new();
    for name in ["wq", "wk", "wv"] {
        let w = b
            .func
            .add_arg(Type::tensor(&[width, width], DType::F32), Some(name));
        heads.push(b.project(x, w));
    }
    let (q, k, v) = (heads[0], heads[1], heads[2]);
    let turned = b.transpose(k, &[0, 1, 3, 2], &[BATCH, HEADS, DEPTH, LENGTH]);
    let square = [BATCH, HEADS, LENGTH, LENGTH];
    let scores = b.matmul(q, turned, &square);
    let axis = AttrDict::new().with("axis", Attr::int(3));
    let weights = b.op("hbir.softmax", &[scores], axis, &square);
    let mixed = b.matmul(weights, v, &[BATCH, HEADS, LENGTH, DEPTH]);
    let rows = b.transpose(mixed, &[0, 2, 1, 3], &[BATCH, LENGTH, HEADS, DEPTH]);
    let y = b.reshape(rows, &[BATCH, LENGTH, width]);
    b.func.add_result(y, Some("y"));
    Module {
        funcs: vec![b.func],
        ..Module::default()
    }
}

/// Every operation of a program with the layout of its first result, in the order of execution.
fn walk(program: &Program) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for func in &program.module.funcs {
        for &op in &func.body {
            let data = &func.ops[op];
            let ty = data.results.first().and_then(|&v| func.ty(v).as_tensor());
            let layout = ty.map(|t| t.spelling.to_string()).filter(|s| !s.is_empty());
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
    use optc::interp::{EquivalenceOptions, NoData, equivalent};

    #[test]
    fn attention_folds_to_views_and_computes_the_same() {
        let compiler = Compiler::new();
        let original = compiler.program("attention", attention()).unwrap();
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
        let mut program = compiler.program("attention", attention()).unwrap();
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
        let mut module = attention();
        let func = &mut module.funcs[0];
        let op = func.body[1];
        func.ops[op]
            .props
            .set("shape", Attr::ints(&[BATCH, LENGTH, HEADS, DEPTH + 1]));
        let error = Compiler::new().program("attention", module).unwrap_err();
        assert!(error.to_string().contains("error["), "{error}");
    }
}
