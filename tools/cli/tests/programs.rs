//! `optc run` and `optc verify`.

use crate::support;

use optc::interp::npz::{self, Packing};
use optc::{DType, Tensor};
use std::fs;
use std::io::Cursor;
use support::{CANCEL, Folder, TRANSPOSE, optc};

fn write_npz(folder: &Folder, name: &str, tensors: &[(&str, Tensor)]) -> String {
    let map = tensors
        .iter()
        .map(|(k, t)| ((*k).to_owned(), t.clone()))
        .collect();
    let mut bytes = Cursor::new(Vec::new());
    npz::write(&mut bytes, &map, Packing::Stored).unwrap();
    fs::write(folder.path(name), bytes.into_inner()).unwrap();
    folder.path(name)
}

fn read_npz(folder: &Folder, name: &str, key: &str, dtype: DType) -> Tensor {
    let bytes = fs::read(folder.path(name)).unwrap();
    npz::read(Cursor::new(bytes)).unwrap()[key]
        .to_tensor(dtype)
        .unwrap()
}

fn counting(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    Tensor::from_f64(DType::F32, shape.to_vec(), (0..count).map(|i| i as f64))
}

/// The transposed input: element (j, i, k) is number (i * 3 + j) * 5 + k of the input.
fn turned() -> Tensor {
    let mut values = Vec::new();
    for j in 0..3 {
        for i in 0..2 {
            values.extend((0..5).map(|k| f64::from((i * 3 + j) * 5 + k)));
        }
    }
    Tensor::from_f64(DType::F32, vec![3, 2, 5], values)
}

#[test]
fn run_computes_by_both_oracles_before_and_after_passes() {
    let folder = Folder::new("run");
    let program = folder.write("t.ir", TRANSPOSE);
    let inputs = write_npz(&folder, "in.npz", &[("x", counting(&[2, 3, 5]))]);
    for pass in ["--pass=", "--pass=canonicalize,view-fold"] {
        for exec in ["--exec=reference", "--exec=naive"] {
            let output = folder.path("out.npz");
            optc(&[
                "run", pass, exec, &program, "--inputs", &inputs, "--output", &output,
            ])
            .ok();
            assert_eq!(
                read_npz(&folder, "out.npz", "y", DType::F32),
                turned(),
                "{pass} {exec}"
            );
            fs::remove_file(output).unwrap();
        }
    }
}

#[test]
fn run_refuses_inputs_that_do_not_fit_and_writes_nothing() {
    let folder = Folder::new("run_refused");
    let program = folder.write("t.ir", TRANSPOSE);
    let output = folder.path("out.npz");
    let run = |inputs: &str| optc(&["run", &program, "--inputs", inputs, "--output", &output]);
    let shape = write_npz(&folder, "shape.npz", &[("x", counting(&[2, 3]))]);
    run(&shape).fails(1, "`x`");
    let name = write_npz(&folder, "name.npz", &[("z", counting(&[2, 3, 5]))]);
    run(&name).fails(1, "error[npz-input]");
    let ints = Tensor::from_i64(DType::SI32, vec![2, 3, 5], 0..30);
    let dtype = write_npz(&folder, "dtype.npz", &[("x", ints)]);
    run(&dtype).fails(1, "error[npz-input]");
    let broken = folder.write("broken.npz", "no archive");
    run(&broken).fails(1, "error[npz-input]");
    run(&folder.path("absent.npz")).fails(1, "error[io-read]");
    optc(&["run", &program, "--output", &output]).fails(1, "no input for argument `x`");
    optc(&["run", &program, "--func=f", "--output", &output])
        .fails(2, "--func: error[function-missing]: found no function `f`");
    optc(&["run", &program]).fails(2, "--output");
    let empty = folder.write("empty.ir", "");
    optc(&["run", &empty, "--output", &output]).fails(1, "error[function-missing]");
    optc(&["run", &program, "--exec=fast", "--output", &output]).fails(2, "possible values");
    assert!(
        !folder.files().contains(&"out.npz".to_owned()),
        "{:?}",
        folder.files()
    );
}

const WEIGHTED: &str = r#"func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32> {hbir.name = "y"}) {
  %0 = "hbir.constant"() <{data = #hbir.external<"w.bin", 4, 24>}> : () -> tensor<2x3xf32>
  %1 = "hbir.add"(%x, %0) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
"#;

#[test]
fn external_weights_are_read_from_the_programs_folder() {
    let folder = Folder::new("weights");
    let program = folder.write("w.ir", WEIGHTED);
    let inputs = write_npz(&folder, "in.npz", &[("x", counting(&[2, 3]))]);
    let output = folder.path("out.npz");
    let run = || optc(&["run", &program, "--inputs", &inputs, "--output", &output]);
    run().fails(1, "`w.bin` does not exist");
    optc(&["verify", &program, &program]).fails(1, "`w.bin` does not exist");
    optc(&["verify", &program, &program, "--random-weights"]).ok();
    optc(&["stats", &program]).ok();
    optc(&["--pass=canonicalize,view-fold", &program]).ok();
    let bytes: Vec<u8> = (0..7).flat_map(|i| (i as f32).to_le_bytes()).collect();
    fs::write(folder.path("w.bin"), bytes).unwrap();
    run().ok();
    let wanted = Tensor::from_f64(DType::F32, vec![2, 3], (0..6).map(|i| f64::from(2 * i + 1)));
    assert_eq!(read_npz(&folder, "out.npz", "y", DType::F32), wanted);
}

#[test]
fn the_folder_of_weights_may_be_another() {
    let (folder, data) = (Folder::new("weights_here"), Folder::new("weights_there"));
    let program = folder.write("w.ir", WEIGHTED);
    let bytes: Vec<u8> = (0..7).flat_map(|i| (i as f32).to_le_bytes()).collect();
    fs::write(data.path("w.bin"), bytes).unwrap();
    let option = format!("--data={}", data.path(""));
    let inputs = write_npz(&folder, "in.npz", &[("x", counting(&[2, 3]))]);
    let output = folder.path("out.npz");
    let run = ["run", &program, "--inputs", &inputs, "--output", &output];
    optc(&run).fails(1, "`w.bin` does not exist");
    optc(&[&run[..], &[&option]].concat()).ok();
    optc(&["verify", &program, &program]).fails(1, "`w.bin` does not exist");
    optc(&["verify", &option, &program, &program]).ok();
    optc(&["--emit=hlo", &option, &program]).ok();
    optc(&["verify", "--data=nowhere", &program, &program]).fails(2, "--data wants a folder");
}

/// A program with an opaque operation of this kind, with attributes and an operand.
fn opaque(kind: &str, attrs: &str, operand: &str) -> String {
    format!(
        "func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {{\n\
         %0 = \"hbir.opaque\"({operand}) <{{kind = \"{kind}\"{attrs}}}> : (tensor<2x3xf32>) -> tensor<2x3xf32>\n\
         %1 = \"hbir.relu\"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n\
         return %1 : tensor<2x3xf32>\n}}\n"
    )
}

#[test]
fn opaque_operations_without_effects_are_functions_of_their_operands() {
    let folder = Folder::new("opaque");
    let write = |name: &str, text: String| folder.write(name, &text);
    let pure = ", effect = \"pure\"";
    let a = write("a.ir", opaque("Foo", pure, "%x"));
    let ran = optc(&["verify", &a, &a]);
    assert_eq!(
        ran.errors,
        "note: treated as unknown functions of their operands: Foo\n"
    );
    assert_eq!(ran.ok(), "equivalent\n");
    let others = [
        opaque("Bar", pure, "%x"),
        opaque("Foo", ", effect = \"pure\", a = 1", "%x"),
        opaque("Foo", pure, "%y"),
    ];
    for (i, text) in others.into_iter().enumerate() {
        let other = write(&format!("other{i}.ir"), text);
        optc(&["verify", &a, &other]).fails(1, "error[not-equivalent]");
    }
    for (name, effect) in [("w.ir", ""), ("r.ir", ", effect = \"random\"")] {
        let path = write(name, opaque("Foo", effect, "%x"));
        let place = format!("{name}:2:6: error[run-opaque]");
        let errors = optc(&["verify", &path, &path]).fails(1, &place);
        assert!(
            errors.contains("the operator `Foo` is opaque: its effect is"),
            "{errors}"
        );
    }
    let out = folder.path("out.npz");
    let inputs = [("x", counting(&[2, 3])), ("y", counting(&[2, 3]))];
    let inputs = write_npz(&folder, "in.npz", &inputs);
    let run = ["run", &a, "--inputs", &inputs, "--output", &out];
    optc(&run).fails(
        1,
        "a.ir:2:6: error[run-opaque]: `hbir.opaque` in @main: the operator `Foo` is opaque",
    );
}

#[test]
fn what_passes_do_around_an_opaque_operation_is_verified() {
    let folder = Folder::new("opaque_folded");
    let text = r#"func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "hbir.relu"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %2 = "hbir.opaque"(%1) <{kind = "Foo", effect = "pure"}> : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %3 = "hbir.transpose"(%2) <{perm = [1, 0]}> : (tensor<3x2xf32>) -> tensor<2x3xf32>
  return %3 : tensor<2x3xf32>
}
"#;
    let (program, folded) = (folder.write("a.ir", text), folder.path("b.ir"));
    optc(&["--pass=default", &program, "-o", &folded]).ok();
    assert_ne!(folder.read("b.ir"), text);
    assert_eq!(optc(&["verify", &program, &folded]).ok(), "equivalent\n");
}

#[test]
fn functions_that_an_opaque_operation_names_must_be_the_same() {
    let folder = Folder::new("opaque_functions");
    let text = |inner: &str| {
        format!(
            r#"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %0 = "hbir.opaque"(%x) <{{kind = "sort", effect = "pure", "hlo.to_apply" = @f}}> : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}}
func.func private @f(%x: tensor<f32>) -> tensor<f32> {{
  %0 = "hbir.{inner}"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}}
"#
        )
    };
    let a = folder.write("a.ir", &text("relu"));
    let b = folder.write("b.ir", &text("tanh"));
    assert_eq!(optc(&["verify", &a, &a]).ok(), "equivalent\n");
    optc(&["verify", &a, &b]).fails(1, "it uses @f, which is not the same in both programs");
}

#[test]
fn calls_are_named_for_what_they_are() {
    let folder = Folder::new("calls");
    let chain = |count: usize, calls: usize| {
        let func = |i: usize| {
            let name = if i == count {
                "main".to_owned()
            } else {
                format!("f{i}")
            };
            let mut text = format!("func.func @{name}(%x: tensor<2xf32>) -> tensor<2xf32> {{\n");
            let mut last = "%x".to_owned();
            for j in 0..calls {
                let op = match i {
                    0 => format!("\"hbir.relu\"({last})"),
                    _ => format!("\"hbir.call\"({last}) <{{callee = @f{}}}>", i - 1),
                };
                text += &format!("  %{j} = {op} : (tensor<2xf32>) -> tensor<2xf32>\n");
                last = format!("%{j}");
            }
            text + &format!("  return {last} : tensor<2xf32>\n}}\n")
        };
        (0..=count).map(func).collect::<String>()
    };
    let bomb = folder.write("bomb.ir", &chain(40, 2));
    let errors = optc(&["verify", &bomb, &bomb]).fails(1, "error[run-steps]");
    assert!(
        errors.contains("double the work at every level"),
        "{errors}"
    );
    let deep = folder.write("deep.ir", &chain(100, 1));
    optc(&["verify", &deep, &deep]).fails(
        1,
        "deep.ir: error[run-call]: @main: calls are nested more than 64 deep",
    );
    let fits = folder.write("fits.ir", &chain(64, 1));
    optc(&["verify", &fits, &fits]).ok();
}

#[test]
fn weights_outside_the_folder_are_refused() {
    let folder = Folder::new("weights_outside");
    let program = folder.write("w.ir", &WEIGHTED.replace("w.bin", "../w.bin"));
    let inputs = write_npz(&folder, "in.npz", &[("x", counting(&[2, 3]))]);
    let run = optc(&[
        "run",
        &program,
        "--inputs",
        &inputs,
        "--output",
        &folder.path("out.npz"),
    ]);
    run.fails(1, "leaves the program's folder");
}

#[test]
fn verify_tells_equal_programs_from_different_ones() {
    let folder = Folder::new("verify");
    let program = folder.write("a.ir", CANCEL);
    let folded = folder.path("b.ir");
    optc(&["--pass=canonicalize,view-fold", &program, "-o", &folded]).ok();
    assert_eq!(optc(&["verify", &program, &folded]).ok(), "equivalent\n");
    assert_eq!(
        optc(&["verify", &folded, &program, "--seeds=1", "--reference-only"]).ok(),
        "equivalent\n"
    );
    let other = folder.write("c.ir", &CANCEL.replace("hbir.relu", "hbir.abs"));
    let errors = optc(&["verify", &program, &other]).fails(1, "error[not-equivalent]: output `y`");
    assert!(errors.contains("c.ir differs from "), "{errors}");
    let fewer = folder.write("d.ir", TRANSPOSE);
    let errors = optc(&["verify", &program, &fewer]).fails(1, "error[boundary-differs]");
    assert!(
        errors.contains("a.ir and ") && errors.contains("d.ir"),
        "{errors}"
    );
    let absent = folder.write("e.ir", &CANCEL.replace("hbir.relu", "my.op"));
    optc(&["verify", &absent, &program]).fails(1, "e.ir:3:8: error[run-unknown-op]");
    optc(&["verify", &program, &absent]).fails(1, "e.ir:3:8: error[run-unknown-op]");
    optc(&["verify", &program]).fails(2, "wanted two");
    optc(&["verify"]).fails(2, "IN");
}

#[test]
fn a_certificate_is_checked_against_either_program() {
    let folder = Folder::new("certificate");
    let (program, folded) = (folder.write("a.ir", TRANSPOSE), folder.path("b.ir"));
    let certificate = folder.path("c.cert");
    let pass = "--pass=canonicalize,view-fold";
    optc(&[pass, &program, "-o", &folded, "--certificate", &certificate]).ok();
    for inputs in [&[&program][..], &[&folded], &[&program, &folded]] {
        let mut args = vec!["verify", "--certificate", &certificate];
        args.extend(inputs.iter().map(|s| s.as_str()));
        let said = optc(&args).ok();
        assert!(said.starts_with("certified\n"), "{said}");
        for input in inputs {
            assert!(said.contains(input.as_str()), "{said}");
        }
    }
    let other = folder.write("other.ir", CANCEL);
    optc(&["verify", "--certificate", &certificate, &other]).fails(1, "error[certificate-program]");
    optc(&["verify", "--certificate", &certificate, &program, &other])
        .fails(1, "error[certificate-");
    let target = [
        "verify",
        "--certificate",
        &certificate,
        &folded,
        "--target=journey6",
    ];
    optc(&target).fails(1, "error[certificate-target]");
    let text = folder.read("c.cert");
    let wrong = folder.write(
        "wrong.cert",
        &text.replacen("movement_bytes ", "movement_bytes 1", 1),
    );
    optc(&["verify", "--certificate", &wrong, &folded]).fails(1, "error[certificate-bytes]");
    let broken = folder.write("broken.cert", "hello");
    optc(&["verify", "--certificate", &broken, &folded]).fails(1, "error[certificate-syntax]");
}

#[test]
fn a_certificate_needs_view_fold_last() {
    let folder = Folder::new("certificate_usage");
    let program = folder.write("a.ir", TRANSPOSE);
    let certificate = folder.path("c.cert");
    optc(&[
        "--pass=canonicalize",
        &program,
        "--certificate",
        &certificate,
    ])
    .fails(2, "view-fold");
    assert_eq!(folder.files(), ["a.ir"]);
}
