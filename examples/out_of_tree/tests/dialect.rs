//! The operation, the rule and the pass of this example, used like optc's own.

use optc::exec::{ExecOptions, Executable};
use optc::interp::{EquivalenceOptions, NoData, equivalent, run_tiled};
use optc::passes::canonicalize::Canonicalize;
use optc::{Bindings, Compiler, DType, FoldReport, Format, Program, Tensor};
use optc_example_out_of_tree::{GateReport, compiler};
use std::sync::Arc;

const GATE: &str = "acme.gate";

const SPELLED_OUT: &str = r#"func.func @main(%x: tensor<2x3xf32>, %g: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "hbir.sigmoid"(%g) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "hbir.mul"(%x, %0) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
"#;

const BETWEEN_TRANSPOSES: &str = r#"func.func @main(%x: tensor<2x3xf32>, %g: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "hbir.transpose"(%g) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %2 = "acme.gate"(%0, %1) : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %3 = "hbir.transpose"(%2) <{perm = [1, 0]}> : (tensor<3x2xf32>) -> tensor<2x3xf32>
  return %3 : tensor<2x3xf32>
}
"#;

fn count(program: &Program, name: &str) -> usize {
    let func = &program.module.funcs[0];
    func.body
        .iter()
        .filter(|&&op| &*func.ops[op].name == name)
        .count()
}

/// Runs a pipeline and checks that the result computes the same.
#[track_caller]
fn compiled(compiler: &Compiler, text: &str, pipeline: &str) -> Program {
    let original = compiler.parse("test.ir", text).unwrap();
    let mut program = original.clone();
    compiler.compile(&mut program, pipeline).unwrap();
    let (a, b, options) = (
        &original.module,
        &program.module,
        EquivalenceOptions::default(),
    );
    equivalent(a, b, compiler.registry(), &NoData, &NoData, &options).unwrap();
    program
}

#[test]
fn the_operation_computes_what_it_says() {
    let compiler = compiler();
    let program = compiled(&compiler, SPELLED_OUT, "canonicalize");
    assert_eq!((count(&program, GATE), count(&program, "hbir.mul")), (1, 0));
    let tensor = |values: [f64; 6]| Tensor::from_f64(DType::F32, vec![2, 3], values);
    let inputs = [
        ("x".to_owned(), tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
        (
            "g".to_owned(),
            tensor([0.0, 0.0, 0.0, 1000.0, -1000.0, 0.0]),
        ),
    ];
    let outputs = compiler
        .run(&program, &inputs.into_iter().collect(), &NoData)
        .unwrap();
    assert_eq!(outputs[0], tensor([0.5, 1.0, 1.5, 4.0, 0.0, 3.0]));
}

/// One file and one registration: the operation runs and is written everywhere by its expression.
#[test]
fn the_operation_is_in_every_executor_and_format() {
    let text = r#"func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = "acme.hard_tanh"(%x) <{slope = 2.0}> : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
"#;
    let compiler = compiler();
    let registry = compiler.registry();
    let program = compiler.parse("test.ir", text).unwrap();
    let x = [
        -0.0,
        0.5,
        7.0,
        f64::INFINITY,
        -1.0,
        -30.0,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let y = [-0.0, 0.5, 1.0, 1.0, -1.523_188_4, -2.0, -2.0, f64::NAN];
    let tensor = |values: [f64; 8]| Tensor::from_f64(DType::F32, vec![2, 4], values);
    let inputs = [("x".to_owned(), tensor(x))].into_iter().collect();
    let wanted = tensor(y).to_f64();
    let same = |found: &Tensor| {
        let pairs = found.to_f64().into_iter().zip(&wanted);
        pairs
            .into_iter()
            .all(|(a, b)| (a - b).abs() < 1e-6 || a == *b || a.is_nan() && b.is_nan())
    };
    assert!(same(&compiler.run(&program, &inputs, &NoData).unwrap()[0]));

    let mut planned = program.clone();
    compiler
        .compile(&mut planned, "canonicalize,view-fold,bufferize,plan-memory")
        .unwrap();
    let (none, options) = (Bindings::default(), ExecOptions::default());
    let module = &planned.module;
    let made = Executable::new(module, registry, "main", &inputs, &NoData, &none, &options);
    assert!(same(&made.unwrap().run(&inputs).unwrap()[0]));

    // A compiler that does not know the operation reads the formats that have a front end.
    let (module, plain) = (&program.module, Compiler::new());
    let data = |_: &str, _, _, _| Err("there are no files".to_owned());
    let hlo = optc::hlo::emit(module, registry, None, &data).unwrap().text;
    let stablehlo = optc::stablehlo::emit(module, registry, None, &data)
        .unwrap()
        .text;
    let onnx = optc::onnx::emit(module, registry, optc::onnx::Options::default(), &data)
        .unwrap()
        .bytes;
    let formats = [
        (Format::Hlo, hlo.as_bytes()),
        (Format::StableHlo, stablehlo.as_bytes()),
        (Format::Onnx, onnx.as_slice()),
    ];
    for (format, bytes) in formats {
        let read = plain
            .read("test", bytes, Some(format), false)
            .remove(0)
            .unwrap();
        let argument = read.module.funcs[0].arg_key(0);
        let inputs = [(argument, tensor(x))].into_iter().collect();
        let found = plain.run(&read, &inputs, &NoData).unwrap();
        assert!(same(&found[0]), "{format}");
    }
    let linalg = optc::linalg::emit(module, registry, &data).unwrap();
    for word in ["math.tanh", "arith.select", "arith.minimumf"] {
        assert!(linalg.contains(word), "{linalg}");
    }
    let target = optc::Target::builtin("tpu").unwrap();
    let pallas = optc::pallas::emit(module, registry, &target).unwrap();
    let line = "jnp.minimum(jnp.where(x < 0.0, 2.0 * jnp.tanh(x), x), 1.0)";
    assert!(pallas.contains(line), "{pallas}");
}

#[test]
fn a_normalization_is_written_by_its_composition() {
    let text = r#"func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "acme.unit"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"#;
    let (compiler, plain) = (compiler(), Compiler::new());
    let registry = compiler.registry();
    let program = compiler.parse("test.ir", text).unwrap();
    let tensor = |values: [f64; 6]| Tensor::from_f64(DType::F32, vec![2, 3], values);
    let x = tensor([2.0, 3.0, 6.0, 0.0, -4.0, 3.0]);
    let wanted = [2.0 / 7.0, 3.0 / 7.0, 6.0 / 7.0, 0.0, -0.8, 0.6];
    let check = |compiler: &Compiler, program: &Program| {
        let argument = program.module.funcs[0].arg_key(0);
        let inputs = [(argument, x.clone())].into_iter().collect();
        let found = compiler.run(program, &inputs, &NoData).unwrap()[0].to_f64();
        let near = found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(near, "{found:?}");
    };
    check(&compiler, &program);
    let (module, data) = (&program.module, |_: &str, _, _, _| {
        Err("there are no files".to_owned())
    });
    let hlo = optc::hlo::emit(module, registry, None, &data);
    let stablehlo = optc::stablehlo::emit(module, registry, None, &data);
    for (format, text) in [
        (Format::Hlo, hlo.unwrap().text),
        (Format::StableHlo, stablehlo.unwrap().text),
    ] {
        let read = plain.read("test", text.as_bytes(), Some(format), false);
        check(&plain, &read.into_iter().next().unwrap().unwrap());
    }
    let linalg = optc::linalg::emit(module, registry, &data).unwrap();
    for word in ["\"reduction\"", "arith.mulf", "math.sqrt"] {
        assert!(linalg.contains(word), "{linalg}");
    }
}

#[test]
fn its_constraints_are_checked() {
    let text =
        "%0 = \"acme.gate\"(%x, %g) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x3xf32>\n";
    let error = compiler().parse("test.ir", text).unwrap_err();
    assert_eq!(error.code(), "gate-c1");
    let text = "%0 = \"acme.gate\"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n";
    assert_eq!(
        compiler().parse("test.ir", text).unwrap_err().code(),
        "operand-count"
    );
}

#[test]
fn the_rule_refuses_what_is_broadcast() {
    let text = r#"func.func @main(%x: tensor<2x3xf32>, %g: tensor<3xf32>) -> tensor<2x3xf32> {
  %0 = "hbir.sigmoid"(%g) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "hbir.mul"(%x, %0) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
"#;
    let program = compiled(&compiler(), text, "canonicalize");
    assert_eq!((count(&program, GATE), count(&program, "hbir.mul")), (0, 1));
}

#[test]
fn layouts_pass_through_the_operation() {
    let compiler = compiler();
    let program = compiled(&compiler, BETWEEN_TRANSPOSES, "canonicalize,view-fold");
    let stats = compiler.stats(&program);
    assert_eq!(
        (stats.transpose, stats.layout_convert, stats.movement_bytes),
        (0, 0, 0)
    );
    assert_eq!(count(&program, GATE), 1);
}

#[test]
fn equal_operations_are_one_and_unused_ones_go() {
    let text = r#"func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = "acme.gate"(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "acme.gate"(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "acme.gate"(%0, %1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
}
"#;
    let program = compiled(&compiler(), text, "canonicalize");
    assert_eq!(count(&program, GATE), 1);
    // An undeclared operation may have any effect, so equal ones are not merged.
    let undeclared = Compiler::new();
    let mut program = undeclared.parse("test.ir", text).unwrap();
    undeclared.compile(&mut program, "canonicalize").unwrap();
    assert_eq!(count(&program, GATE), 3);
}

#[test]
fn a_rearrangement_folds_away() {
    let text = r#"func.func @main(%x: tensor<1x6x4x4xf32>, %w: tensor<8x6x1x1xf32>) -> tensor<1x8x4x4xf32> {
  %0 = "acme.shuffle"(%x) <{groups = 2}> : (tensor<1x6x4x4xf32>) -> tensor<1x6x4x4xf32>
  %1 = "hbir.relu"(%0) : (tensor<1x6x4x4xf32>) -> tensor<1x6x4x4xf32>
  %2 = "acme.shuffle"(%1) <{groups = 3}> : (tensor<1x6x4x4xf32>) -> tensor<1x6x4x4xf32>
  %3 = "hbir.conv"(%2, %w) : (tensor<1x6x4x4xf32>, tensor<8x6x1x1xf32>) -> tensor<1x8x4x4xf32>
  return %3 : tensor<1x8x4x4xf32>
}
"#;
    let compiler = compiler();
    let program = compiled(&compiler, text, "canonicalize,view-fold");
    let stats = compiler.stats(&program);
    assert_eq!((stats.layout_convert, stats.movement_bytes), (0, 0));
    assert_eq!(count(&program, "acme.shuffle"), 0);
    assert_eq!(stats.view, 2);
}

#[test]
fn a_reduction_runs_tile_by_tile() {
    let text = r#"module attributes {hbir.target = "cpu"} {
func.func @main(%x: tensor<4x64xf32>) -> tensor<4xf32> attributes {hbir.groups = [{grid = [2, 8], order = ["parallel", "arbitrary"]}]} {
  %0 = "acme.energy"(%x) {tile = {group = 0, reduce = ["8 @ g1 * 8"], result = ["2 @ g0 * 2"]}} : (tensor<4x64xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
}
"#;
    let compiler = compiler();
    let program = compiler.parse("test.ir", text).unwrap();
    let x = Tensor::from_f64(DType::F32, vec![4, 64], (0..256).map(|i| f64::from(i % 7)));
    let inputs = [("x".to_owned(), x)].into_iter().collect();
    let whole = compiler.run(&program, &inputs, &NoData).unwrap();
    let module = &program.module;
    let tiled = run_tiled(
        module,
        compiler.registry(),
        "main",
        &inputs,
        &NoData,
        &Bindings::default(),
    )
    .unwrap();
    assert_eq!(whole, tiled);
}

/// A format without layouts gets the operation over the axes in which its operand is stored, without a transpose.
#[test]
fn a_reduction_is_itself_over_other_axes() {
    let text = r#"func.func @main(%x: tensor<2x3x5x4xf32>) -> tensor<5x2xf32> {
  %0 = "hbir.transpose"(%x) <{perm = [2, 0, 1, 3]}> : (tensor<2x3x5x4xf32>) -> tensor<5x2x3x4xf32>
  %1 = "hbir.reshape"(%0) <{shape = [5, 2, 12]}> : (tensor<5x2x3x4xf32>) -> tensor<5x2x12xf32>
  %2 = "acme.energy"(%1) : (tensor<5x2x12xf32>) -> tensor<5x2xf32>
  return %2 : tensor<5x2xf32>
}
"#;
    let mut compiler = compiler();
    compiler.target = Some(std::sync::Arc::new(optc::Target::builtin("onnx").unwrap()));
    let program = compiled(&compiler, text, "default,normalize-layouts");
    assert_eq!(compiler.stats(&program).movement_bytes, 960);
}

#[test]
fn without_its_declaration_the_operation_is_a_barrier() {
    let compiler = Compiler::new();
    let mut program = compiler.parse("test.ir", BETWEEN_TRANSPOSES).unwrap();
    compiler
        .compile(&mut program, "canonicalize,view-fold")
        .unwrap();
    assert_eq!(compiler.stats(&program).layout_convert, 3);
}

#[test]
fn the_pass_lowers_before_and_after_layouts_are_chosen() {
    for pipeline in [
        "lower-gates,canonicalize",
        "canonicalize,view-fold,lower-gates",
    ] {
        let mut compiler = compiler();
        // The rule would create the gate again.
        compiler.passes_mut().add(Arc::new(Canonicalize::default()));
        let program = compiled(&compiler, BETWEEN_TRANSPOSES, pipeline);
        assert_eq!(count(&program, GATE), 0, "{pipeline}");
        assert_eq!(
            (count(&program, "hbir.mul"), count(&program, "hbir.sigmoid")),
            (1, 1)
        );
    }
}

#[test]
fn the_report_of_the_pass_is_kept_beside_those_of_optc() {
    let compiler = compiler();
    let mut program = compiler.parse("test.ir", BETWEEN_TRANSPOSES).unwrap();
    let pipeline = "canonicalize,view-fold,lower-gates,lower-gates";
    let reports = compiler.compile(&mut program, pipeline).unwrap().reports;
    // The second run finds no gates. `get` returns its report, which is the last of its type.
    assert_eq!(reports.get::<GateReport>(), Some(&GateReport { gates: 0 }));
    let passes: Vec<&str> = reports.iter().map(|(pass, _)| pass).collect();
    assert_eq!(passes, ["view-fold", "lower-gates", "lower-gates"]);
    let gates = reports.all::<GateReport>().map(|report| report.gates);
    assert_eq!(gates.collect::<Vec<_>>(), [1, 0]);
    let fold = reports.get::<FoldReport>();
    assert_eq!(fold.map(|fold| fold.bytes_after), Some(0));
}
