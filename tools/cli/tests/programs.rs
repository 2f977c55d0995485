//! `optc run` and `optc verify`.

mod support;

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

/// Element (j, i, k) is number (i * 3 + j) * 5 + k of the input.
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
    optc(&["run", &program, "--func=f", "--output", &output]).fails(1, "there is no function @f");
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
    optc(&["verify", &program, &other]).fails(1, "error[not-equivalent]: output `y`");
    let fewer = folder.write("d.ir", TRANSPOSE);
    optc(&["verify", &program, &fewer]).fails(1, "error[boundary-differs]");
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
