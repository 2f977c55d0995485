//! Models that are read, written and read again: the same function, with the same operators.

use optc::interp::{
    EquivalenceOptions, FallbackSource, Fill, FolderSource, MemorySource, NotEquivalent,
    RandomSource, equivalent,
};
use optc::onnx::{Options, Whole, emit};
use optc::{Attr, Compiler, Format, Program, Structure, find_target};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn models() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    let all = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path());
    let mut all: Vec<PathBuf> = all
        .filter(|p| p.extension().is_some_and(|e| e == "onnx"))
        .collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

/// Writes the model of a program, and reads it again.
pub(crate) fn written(compiler: &Compiler, program: &Program, fused: bool) -> (Vec<u8>, Program) {
    let source = FolderSource::new(program.folder.clone());
    let data = |file: &str, offset, length, dtype| {
        use optc::interp::DataSource as _;
        let bytes = source.read(file, offset, length, dtype);
        bytes.map_err(|e| e.to_string())
    };
    let options = Options {
        fused,
        ..Options::default()
    };
    let emitted = emit(&program.module, &optc_ops::registry(), options, &data).unwrap();
    let read = compiler
        .read("written.onnx", &emitted.bytes, Some(Format::Onnx), false)
        .remove(0);
    (emitted.bytes, read.unwrap())
}

/// The names of the operations that are no constants.
fn operations(compiler: &Compiler, program: &Program) -> Vec<String> {
    let func = program.entry().unwrap();
    let ops = func.body.iter().map(|&op| &func.ops[op].name);
    let constant = |name: &&Arc<str>| compiler.registry().structure(name) == Structure::Constant;
    ops.filter(|name| !constant(name))
        .map(|name| name.to_string())
        .collect()
}

/// The weights of a program; random ones if their file is absent.
fn weights(program: &Program) -> FallbackSource<FolderSource, RandomSource> {
    FallbackSource {
        first: FolderSource::new(program.folder.clone()),
        second: RandomSource,
    }
}

/// Compares a program with the one that was read from these bytes.
pub(crate) fn compared(
    compiler: &Compiler,
    original: &Program,
    bytes: Vec<u8>,
    again: &Program,
) -> Result<(), NotEquivalent> {
    let mut here = MemorySource::default();
    here.files.insert("written.onnx".to_owned(), bytes);
    let data = FallbackSource {
        first: here,
        second: weights(original),
    };
    let weights = weights(original);
    let options = EquivalenceOptions {
        seeds: vec![0],
        edges: vec![Fill::Unique(0)],
        naive: false,
        uninterpreted: true,
        ..EquivalenceOptions::default()
    };
    let modules = (&original.module, &again.module);
    equivalent(
        modules.0,
        modules.1,
        compiler.registry(),
        &weights,
        &data,
        &options,
    )
}

#[track_caller]
fn check_same(compiler: &Compiler, original: &Program, bytes: Vec<u8>, again: &Program) {
    let same = compared(compiler, original, bytes, again);
    assert!(same.is_ok(), "{}: {}", original.name, same.unwrap_err());
}

#[test]
fn a_model_without_passes_has_the_operators_that_it_had() {
    let mut compiler = Compiler::new();
    compiler.whole_operators = Whole::All;
    for path in models() {
        let original = compiler.load(&path, None).unwrap();
        let (bytes, again) = written(&compiler, &original, false);
        assert_eq!(
            operations(&compiler, &original),
            operations(&compiler, &again),
            "{}",
            path.display()
        );
        for key in ["hbir.onnx_model", "hbir.onnx_opset"] {
            let of = |program: &Program| program.module.attrs.get(key).cloned();
            assert!(
                of(&original).is_some() && of(&original) == of(&again),
                "{}: {key}",
                path.display()
            );
        }
        check_same(&compiler, &original, bytes, &again);
    }
}

#[test]
fn folded_models_compute_the_same() {
    for target in ["onnx", "onnxruntime"] {
        let mut compiler = Compiler::new();
        compiler.whole_operators = Whole::Large;
        compiler.target = Some(Arc::new(find_target(target).unwrap()));
        for path in models() {
            let original = compiler.load(&path, None).unwrap();
            let mut folded = original.clone();
            compiler
                .compile(&mut folded, "default,normalize-layouts")
                .unwrap();
            let (bytes, again) = written(&compiler, &folded, target == "onnxruntime");
            check_same(&compiler, &original, bytes, &again);
        }
    }
}

/// A transpose that a product can read directly is not in the model.
#[test]
fn products_read_transposed_operands() {
    let mut compiler = Compiler::new();
    let text = r#"
        %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<5x3xf32>) -> tensor<3x5xf32>
        %1 = "hbir.matmul"(%y, %0) : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
    "#;
    let heads = r#"
        %0 = "hbir.transpose"(%x) <{perm = [1, 2, 0]}> : (tensor<5x2x3xf32>) -> tensor<2x3x5xf32>
        %1 = "hbir.matmul"(%y, %0) : (tensor<2x4x3xf32>, tensor<2x3x5xf32>) -> tensor<2x4x5xf32>
    "#;
    let named = r#"
        %0 = "hbir.transpose"(%x) <{perm = [1, 2, 3, 0]}> : (tensor<?x?x2x3xf32, {dims = ["S", "B", 2, 3]}>) -> tensor<?x2x3x?xf32, {dims = ["B", 2, 3, "S"]}>
        %1 = "hbir.transpose"(%y) <{perm = [1, 2, 0, 3]}> : (tensor<?x?x2x3xf32, {dims = ["S", "B", 2, 3]}>) -> tensor<?x2x?x3xf32, {dims = ["B", 2, "S", 3]}>
        %2 = "hbir.matmul"(%1, %0) : (tensor<?x2x?x3xf32, {dims = ["B", 2, "S", 3]}>, tensor<?x2x3x?xf32, {dims = ["B", 2, 3, "S"]}>) -> tensor<?x2x?x?xf32, {dims = ["B", 2, "S", "S"]}>
    "#;
    for (text, fused, wanted) in [
        (text, false, "Gemm"),
        (named, true, "FusedMatMul"),
        (heads, true, "FusedMatMul"),
        (heads, false, "Transpose"),
    ] {
        let mut program = compiler.parse("a.ir", text).unwrap();
        program.module.attrs.set("hbir.onnx_opset", Attr::int(17));
        compiler.whole_operators = Whole::All;
        let (bytes, again) = written(&compiler, &program, fused);
        let has = |name: &str| bytes.windows(name.len()).any(|w| w == name.as_bytes());
        assert!(has(wanted), "{wanted}");
        assert_eq!(has("Transpose"), wanted == "Transpose");
        if !fused {
            check_same(&compiler, &program, bytes, &again);
        }
    }
}

/// Rearrangements of dequantized weights are made of the integers, and a dequantized bias is that of a `Gemm`.
#[test]
fn dequantized_weights_stay_integers() {
    let compiler = Compiler::new();
    let weights = r#"
        %0 = "hbir.constant"() <{value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xsi8>}> : () -> tensor<2x3xsi8>
        %1 = "hbir.constant"() <{value = dense<0.5> : tensor<f32>}> : () -> tensor<f32>
        %2 = "hbir.dequantize"(%0, %1) : (tensor<2x3xsi8>, tensor<f32>) -> tensor<2x3xf32>
        %3 = "hbir.transpose"(%2) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
        %4 = "hbir.matmul"(%x, %3) : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32> loc("g")
    "#;
    let scales = [
        "dense<0.25> : tensor<f32>",
        "dense<[0.25, 0.5]> : tensor<2xf32>",
    ];
    for scale in scales {
        let ty = scale.rsplit(' ').next().unwrap();
        let bias = format!(
            r#"
        %5 = "hbir.constant"() <{{value = dense<[7, -8]> : tensor<2xsi32>}}> : () -> tensor<2xsi32>
        %6 = "hbir.constant"() <{{value = {scale}}}> : () -> {ty}
        %7 = "hbir.dequantize"(%5, %6) <{{axis = 0}}> : (tensor<2xsi32>, {ty}) -> tensor<2xf32>
        %8 = "hbir.add"(%4, %7) : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("g")
            "#
        );
        let text = format!("{weights}{bias}");
        let mut program = compiler.parse("a.ir", &text).unwrap();
        program.module.attrs.set("hbir.onnx_opset", Attr::int(17));
        let (bytes, again) = written(&compiler, &program, false);
        let has = |name: &str| bytes.windows(name.len()).any(|w| w == name.as_bytes());
        assert!(has("DequantizeLinear") && has("Gemm"), "{scale}");
        assert!(!has("Transpose") && !has("Add"), "{scale}");
        check_same(&compiler, &program, bytes, &again);
    }
}

/// Sizes that are no extent of an input are computed from extents of inputs.
#[test]
fn sizes_are_computed_from_inputs() {
    let joined = r#"
        func.func @main(%past: tensor<1x2x?x4xf32, {dims = [1, 2, "P", 4]}>, %q: tensor<1x2x?x4xf32, {dims = [1, 2, "S", 4]}>, %k: tensor<1x2x?x4xf32, {dims = [1, 2, "S", 4]}>) -> tensor<1x2x?x?xf32, {dims = [1, 2, "S", "P+S"]}> {
          %0 = "hbir.concat"(%past, %k) <{axis = 2}> : (tensor<1x2x?x4xf32, {dims = [1, 2, "P", 4]}>, tensor<1x2x?x4xf32, {dims = [1, 2, "S", 4]}>) -> tensor<1x2x?x4xf32, {dims = [1, 2, "P+S", 4]}>
          %1 = "hbir.transpose"(%0) <{perm = [0, 1, 3, 2]}> : (tensor<1x2x?x4xf32, {dims = [1, 2, "P+S", 4]}>) -> tensor<1x2x4x?xf32, {dims = [1, 2, 4, "P+S"]}>
          %2 = "hbir.matmul"(%q, %1) : (tensor<1x2x?x4xf32, {dims = [1, 2, "S", 4]}>, tensor<1x2x4x?xf32, {dims = [1, 2, 4, "P+S"]}>) -> tensor<1x2x?x?xf32, {dims = [1, 2, "S", "P+S"]}>
          return %2 : tensor<1x2x?x?xf32, {dims = [1, 2, "S", "P+S"]}>
        }"#;
    let expanded = r#"
        func.func @main(%x: tensor<?x1xf32, {dims = ["S", 1]}>, %y: tensor<?x1xf32, {dims = ["P", 1]}>) -> (tensor<?x?xf32, {dims = ["S", "3*S-1"]}>, tensor<?x?xf32, {dims = ["P", "max(P,S)"]}>, tensor<?x?xf32, {dims = ["P", "(P-S-1)//2+P*S+S"]}>) {
          %0 = "hbir.broadcast"(%x) <{shape = ["S", "3*S-1"]}> : (tensor<?x1xf32, {dims = ["S", 1]}>) -> tensor<?x?xf32, {dims = ["S", "3*S-1"]}>
          %1 = "hbir.broadcast"(%y) <{shape = ["P", "max(P,S)"]}> : (tensor<?x1xf32, {dims = ["P", 1]}>) -> tensor<?x?xf32, {dims = ["P", "max(P,S)"]}>
          %2 = "hbir.broadcast"(%y) <{shape = ["P", "(P-S-1)//2+P*S+S"]}> : (tensor<?x1xf32, {dims = ["P", 1]}>) -> tensor<?x?xf32, {dims = ["P", "(P-S-1)//2+P*S+S"]}>
          return %0, %1, %2 : tensor<?x?xf32, {dims = ["S", "3*S-1"]}>, tensor<?x?xf32, {dims = ["P", "max(P,S)"]}>, tensor<?x?xf32, {dims = ["P", "(P-S-1)//2+P*S+S"]}>
        }"#;
    let shape = r#"
        func.func @main(%x: tensor<?x?x8xf32, {dims = ["B", "S", 8]}>) -> tensor<2xsi64> {
          %0 = "hbir.iota"() <{axis = 0}> : () -> tensor<?xsi64, {dims = ["B+1"]}>
          %1 = "hbir.slice"(%0) <{limits = ["B+1"], starts = ["B"]}> : (tensor<?xsi64, {dims = ["B+1"]}>) -> tensor<1xsi64>
          %2 = "hbir.iota"() <{axis = 0}> : () -> tensor<?xsi64, {dims = ["S+1"]}>
          %3 = "hbir.slice"(%2) <{limits = ["S+1"], starts = ["S"]}> : (tensor<?xsi64, {dims = ["S+1"]}>) -> tensor<1xsi64>
          %4 = "hbir.concat"(%1, %3) <{axis = 0}> : (tensor<1xsi64>, tensor<1xsi64>) -> tensor<2xsi64>
          return %4 : tensor<2xsi64>
        }"#;
    let open = r#"
        func.func @main(%x: tensor<?x?xf32, {dims = ["?", "4*B"]}>, %y: tensor<?xf32, {dims = ["B"]}>) -> tensor<?x4x?xf32, {dims = ["?", 4, "B"]}> {
          %0 = "hbir.reshape"(%x) <{shape = [-1, 4, "B"]}> : (tensor<?x?xf32, {dims = ["?", "4*B"]}>) -> tensor<?x4x?xf32, {dims = ["?", 4, "B"]}>
          return %0 : tensor<?x4x?xf32, {dims = ["?", 4, "B"]}>
        }"#;
    for target in ["onnx", "onnxruntime"] {
        let mut compiler = Compiler::new();
        compiler.target = Some(Arc::new(find_target(target).unwrap()));
        for text in [joined, expanded, shape, open] {
            let original = compiler.parse("a.ir", text).unwrap();
            let mut folded = original.clone();
            compiler
                .compile(&mut folded, "default,normalize-layouts")
                .unwrap();
            for program in [&original, &folded] {
                let (bytes, again) = written(&compiler, program, target == "onnxruntime");
                check_same(&compiler, &original, bytes, &again);
            }
        }
    }
    // The name of an input's size must not become an expression when it is read again.
    let solved = r#"
        func.func @main(%x: tensor<?x1xf32, {dims = ["2*S+1", 1]}>) -> tensor<?x?xf32, {dims = ["2*S+1", "S"]}> {
          %0 = "hbir.broadcast"(%x) <{shape = ["2*S+1", "S"]}> : (tensor<?x1xf32, {dims = ["2*S+1", 1]}>) -> tensor<?x?xf32, {dims = ["2*S+1", "S"]}>
          return %0 : tensor<?x?xf32, {dims = ["2*S+1", "S"]}>
        }"#;
    let compiler = Compiler::new();
    let program = compiler.parse("a.ir", solved).unwrap();
    let (_, again) = written(&compiler, &program, false);
    assert!(
        again.text().contains("((`2*S+1`+1)//2)-1"),
        "{}",
        again.text()
    );
}

/// ONNX's only integer convolutions are of bytes minus a zero point.
#[test]
fn convolutions_of_integers_are_of_bytes() {
    let compiler = Compiler::new();
    let bytes = r#"
        func.func @main(%x: tensor<2x5x6x4xsi8>, %z: tensor<1xsi8>) -> (tensor<2x3x6x5xsi32>, tensor<2x3x6x5xsi32>) {
          %0 = "hbir.transpose"(%x) <{perm = [0, 3, 2, 1]}> : (tensor<2x5x6x4xsi8>) -> tensor<2x4x6x5xsi8>
          %1 = "hbir.cast"(%0) <{to = si32}> : (tensor<2x4x6x5xsi8>) -> tensor<2x4x6x5xsi32>
          %2 = "hbir.cast"(%z) <{to = si32}> : (tensor<1xsi8>) -> tensor<1xsi32>
          %3 = "hbir.sub"(%1, %2) : (tensor<2x4x6x5xsi32>, tensor<1xsi32>) -> tensor<2x4x6x5xsi32>
          %4 = "hbir.constant"() <{value = dense<[[[[-100]], [[155]], [[7]], [[8]]], [[[3]], [[2]], [[7]], [[8]]], [[[1]], [[5]], [[7]], [[8]]]]> : tensor<3x4x1x1xsi32>}> : () -> tensor<3x4x1x1xsi32>
          %5 = "hbir.conv"(%3, %4) : (tensor<2x4x6x5xsi32>, tensor<3x4x1x1xsi32>) -> tensor<2x3x6x5xsi32>
          %6 = "hbir.cast"(%x) <{to = si32}> : (tensor<2x5x6x4xsi8>) -> tensor<2x5x6x4xsi32>
          %7 = "hbir.constant"() <{value = dense<-128> : tensor<1xsi32>}> : () -> tensor<1xsi32>
          %8 = "hbir.sub"(%6, %7) : (tensor<2x5x6x4xsi32>, tensor<1xsi32>) -> tensor<2x5x6x4xsi32>
          %9 = "hbir.transpose"(%8) <{perm = [0, 3, 2, 1]}> : (tensor<2x5x6x4xsi32>) -> tensor<2x4x6x5xsi32>
          %10 = "hbir.conv"(%9, %4) : (tensor<2x4x6x5xsi32>, tensor<3x4x1x1xsi32>) -> tensor<2x3x6x5xsi32>
          return %5, %10 : tensor<2x3x6x5xsi32>, tensor<2x3x6x5xsi32>
        }"#;
    let program = compiler.parse("a.ir", bytes).unwrap();
    let (model, again) = written(&compiler, &program, false);
    let count = |name: &[u8]| model.windows(name.len()).filter(|w| *w == name).count();
    // The operator's name with its length before it.
    assert_eq!((count(b"\x0bConvInteger"), count(b"\x04Conv")), (2, 0));
    check_same(&compiler, &program, model, &again);

    let refused = |text: &str| {
        let program = compiler.parse("a.ir", text).unwrap();
        let data = |_: &str, _, _, _| Err(String::new());
        let refused = emit(
            &program.module,
            &optc_ops::registry(),
            Options::default(),
            &data,
        );
        refused.expect_err("no model").message
    };
    let wide = refused(
        r#"%0 = "hbir.conv"(%x, %w) : (tensor<1x2x5xsi32>, tensor<3x2x1xsi32>) -> tensor<1x3x5xsi32>"#,
    );
    assert!(
        wide.contains("known to be bytes with a zero point"),
        "{wide}"
    );
    let narrow = refused(
        r#"%0 = "hbir.matmul"(%x, %w) : (tensor<2x5xsi16>, tensor<5x3xsi16>) -> tensor<2x3xsi16>"#,
    );
    assert!(narrow.contains("MatMul of si16 is no operator"), "{narrow}");
}

/// A field of a protobuf message: a text or another message.
fn field(number: u8, data: &[u8]) -> Vec<u8> {
    let key = u16::from(number) << 3 | 2;
    let low = |n: u16| u8::try_from(n & 127).unwrap();
    let mut made = vec![low(key)];
    if 127 < key {
        made = vec![low(key) | 0x80, low(key >> 7)];
    }
    // Lengths up to 2^14.
    made.push(u8::try_from(data.len() & 127).unwrap() | 0x80);
    made.push(u8::try_from(data.len() >> 7).unwrap());
    made.extend_from_slice(data);
    made
}

fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn node(op: &str, domain: &str, from: &str, to: &str) -> Vec<u8> {
    let parts = [(1, from), (2, to), (4, op), (7, domain)];
    parts.map(|(at, text)| field(at, text.as_bytes())).concat()
}

/// A model that calls `local.Outer` twice, which calls `local.Inner`; nothing calls `local.Other`.
fn with_functions() -> (Vec<u8>, Vec<Vec<u8>>) {
    let function = |name: &str, nodes: &[Vec<u8>]| {
        let ports = [field(1, name.as_bytes()), field(4, b"x"), field(5, b"y")];
        let body: Vec<Vec<u8>> = nodes.iter().map(|n| field(7, n)).collect();
        let doc = field(8, b"said of it");
        let opset = field(9, &number(2, 18));
        [
            ports.concat(),
            body.concat(),
            doc,
            opset,
            field(10, b"local"),
        ]
        .concat()
    };
    let outer = [node("Inner", "local", "x", "m"), node("Tanh", "", "m", "y")];
    let inner = [node("Neg", "", "x", "m"), node("Abs", "", "m", "y")];
    let kept = vec![function("Outer", &outer), function("Inner", &inner)];
    let other = function("Other", &[node("Neg", "", "x", "y")]);
    let value = |name: &str| {
        let dim = field(1, &number(1, 3));
        let tensor = [number(1, 1), field(2, &dim)].concat();
        [field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat()
    };
    let graph = [
        field(1, &node("Outer", "local", "x", "m")),
        field(1, &node("Relu", "", "m", "n")),
        field(1, &node("Outer", "local", "n", "y")),
        field(2, b"g"),
        field(11, &value("x")),
        field(12, &value("y")),
    ];
    let sets = [number(2, 18), [field(1, b"local"), number(2, 1)].concat()];
    let mut bytes = [number(1, 8), field(7, &graph.concat())].concat();
    sets.iter().for_each(|set| bytes.extend(field(8, set)));
    for function in kept.iter().chain([&other]) {
        bytes.extend(field(25, function));
    }
    (bytes, kept)
}

#[test]
fn functions_that_are_called_stay_functions_without_passes() {
    let (bytes, kept) = with_functions();
    let mut compiler = Compiler::new();
    compiler.whole_operators = Whole::All;
    let read = |compiler: &Compiler| {
        let mut read = compiler.read("in.onnx", &bytes, Some(Format::Onnx), false);
        read.remove(0).unwrap()
    };
    let program = read(&compiler);
    assert_eq!(
        operations(&compiler, &program),
        ["hbir.opaque", "hbir.relu", "hbir.opaque"]
    );
    let text = program.text();
    assert!(text.contains("effect = \"pure\""), "{text}");
    // The result of a call is known from the function.
    assert!(!text.contains("!hbir.unknown"), "{text}");
    let data = |_: &str, offset: u64, length: u64, _| {
        let (from, to) = (
            usize::try_from(offset).unwrap(),
            usize::try_from(offset + length).unwrap(),
        );
        Ok(bytes[from..to].to_vec())
    };
    let written = emit(
        &program.module,
        &optc_ops::registry(),
        Options::default(),
        &data,
    )
    .unwrap()
    .bytes;
    let holds = |part: &[u8]| written.windows(part.len()).any(|w| w == part);
    assert!(kept.iter().all(|function| holds(function)));
    assert!(!holds(b"Other"));
    compiler.whole_operators = Whole::None;
    let (before, after) = (read(&compiler), {
        let mut read = compiler.read("out.onnx", &written, Some(Format::Onnx), false);
        read.remove(0).unwrap()
    });
    assert_eq!(
        operations(&compiler, &before),
        operations(&compiler, &after)
    );
    check_same(&compiler, &before, written.clone(), &after);
}

/// Functions that operators run are written as graphs again, which refer to captured values by their names.
#[test]
fn functions_that_operators_run_are_written_as_graphs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Compiler::new();
    compiler.target = Some(Arc::new(find_target("onnx").unwrap()));
    for case in ["operator_bodies.ir", "operator_scan.ir"] {
        let case = folder.join("cases/passes/view-fold").join(case);
        let text = std::fs::read_to_string(case).unwrap();
        let mut original = compiler.parse("a.ir", &text).unwrap();
        let opset = Attr::int(18);
        original.module.attrs.set("hbir.onnx_opset", opset);
        let mut folded = original.clone();
        compiler
            .compile(&mut folded, "default,normalize-layouts")
            .unwrap();
        for program in [&original, &folded] {
            let (bytes, again) = written(&compiler, program, false);
            let count = |program: &Program| program.module.funcs.len();
            assert_eq!(count(program), count(&again));
            assert_eq!(
                operations(&compiler, program),
                operations(&compiler, &again)
            );
            check_same(&compiler, &original, bytes, &again);
        }
    }
}

/// A recursive function that an operator runs cannot be written as a graph.
#[test]
fn functions_that_run_themselves_are_refused() {
    let compiler = Compiler::new();
    let text = r#"
        func.func @main(%c: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = "hbir.opaque"(%c, %c, %x, %c, %x) <{kind = "If", domain = "", captures = 4, onnx.then_branch = @f, onnx.else_branch = @f}> : (tensor<i1>, tensor<i1>, tensor<2xf32>, tensor<i1>, tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
        func.func private @f(%c: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = "hbir.opaque"(%c, %c, %x, %c, %x) <{kind = "If", domain = "", captures = 4, onnx.then_branch = @f, onnx.else_branch = @f}> : (tensor<i1>, tensor<i1>, tensor<2xf32>, tensor<i1>, tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    "#;
    let refused = |text: &str| {
        let program = compiler.parse("a.ir", text).unwrap();
        let data = |_: &str, _, _, _| Err(String::new());
        let refused = emit(
            &program.module,
            &optc_ops::registry(),
            Options::default(),
            &data,
        );
        refused.expect_err("no model").message
    };
    let deep = refused(text);
    assert!(deep.contains("more than 16 deep, at @f"), "{deep}");
    let missing = refused(&text.replacen("@f, onnx.else", "@g, onnx.else", 1));
    assert!(missing.contains("there is no function @g"), "{missing}");
    let unfit = refused(&text.replacen("captures = 4", "captures = 1", 1));
    assert!(unfit.contains("do not fit what it runs"), "{unfit}");
}
