//! The command of the example: its file tests, and what it knows.

use optc_cli::Streams;
use optc_example_out_of_tree::{compiler, driver};

/// The status of the command `acme-opt` with these arguments, and its output, errors last.
fn acme(args: &[&str]) -> (u8, String) {
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let mut streams = Streams {
        input: &mut std::io::empty(),
        output: &mut output,
        errors: &mut errors,
    };
    let status = driver().call([&["acme-opt"], args].concat(), &mut streams);
    output.extend(errors);
    (status, String::from_utf8(output).expect("text"))
}

#[track_caller]
fn says(args: &[&str], texts: &[&str]) {
    let (status, output) = acme(args);
    assert_eq!(status, 0, "{output}");
    for text in texts {
        assert!(output.contains(text), "no `{text}` in\n{output}");
    }
}

/// `acme-opt test --bless cases` accepts the results.
#[test]
fn file_tests_pass() {
    let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/cases");
    let (status, output) = acme(&["test", cases]);
    assert_eq!(status, 0, "{output}");
    assert_eq!(output, "5 passed, 0 failed\n");
}

#[test]
fn lists_and_explanations_know_the_additions() {
    says(&["--list-ops"], &["acme.gate ", "hbir.add "]);
    says(&["--list-passes"], &["lower-gates", "view-fold"]);
    says(&["--list-rules"], &["make-gates"]);
    says(&["targets"], &["acme ", "cpu "]);
    says(&["targets", "acme"], &["64 by 64 multipliers"]);
    says(&["targets", "acme", "--toml"], &["# A made-up processor"]);
    says(&["explain", "gate-c1"], &["the operands of a gate differ"]);
    says(&["explain", "fail-if"], &["    acme-opt stats --fail-if"]);
    let names = [
        "lower-gates",
        "make-gates",
        "acme",
        "gate-c1",
        "default acme-opt",
    ];
    says(&["completions", "bash"], &names);
}

/// The writers of the operations are those of `--emit`.
#[test]
fn formats_have_the_operations() {
    let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/cases/lower_gates.ir");
    says(
        &["--pass=", "--emit=hlo", cases],
        &["custom_call_target=\"acme_gate\""],
    );
    let output = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("gate.onnx");
    let output = output.display().to_string();
    says(&["--pass=", cases, "-o", &output], &[]);
    says(
        &["--pass=", "--emit=ir", &output],
        &["kind = \"Gate\"", "domain = \"com.acme\""],
    );
}

/// Sizes that the compiler has bound hold where `--bind` says nothing.
#[test]
fn sizes_of_the_compiler_hold() {
    let text = r#"func.func @main(%x: tensor<?x3xf32, {dims = ["S", 3]}>) -> tensor<3x?xf32, {dims = [3, "S"]}> {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<?x3xf32, {dims = ["S", 3]}>) -> tensor<3x?xf32, {dims = [3, "S"]}>
  return %0 : tensor<3x?xf32, {dims = [3, "S"]}>
}
"#;
    let bytes = |args: &[&str]| {
        let mut compiler = compiler();
        // The second name is that of another program.
        let sizes = [("S".into(), 10), ("T".into(), 7)];
        compiler.bindings.0.extend(sizes);
        let driver = optc_cli::Main::new(compiler).name("acme-opt");
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let mut streams = Streams {
            input: &mut text.as_bytes(),
            output: &mut output,
            errors: &mut errors,
        };
        let status = driver.call(
            [&["acme-opt", "stats", "--json", "-"], args].concat(),
            &mut streams,
        );
        let errors = String::from_utf8(errors).expect("text");
        (status, String::from_utf8(output).expect("text") + &errors)
    };
    let (status, output) = bytes(&[]);
    assert!(
        status == 0 && output.contains("\"movement_bytes\": 240"),
        "{output}"
    );
    let (status, output) = bytes(&["--bind=S=20"]);
    assert!(
        status == 0 && output.contains("\"movement_bytes\": 480"),
        "{output}"
    );
    let (status, output) = bytes(&["--bind=U=20"]);
    assert!(
        status == 2 && output.contains("wanted one of S"),
        "{output}"
    );
}

#[test]
fn help_and_messages_have_the_name_of_the_command() {
    says(
        &["--version"],
        &[concat!("acme-opt ", env!("CARGO_PKG_VERSION"))],
    );
    let usage = "Usage: acme-opt [OPTIONS] <IN>\n       acme-opt <COMMAND> …";
    let examples = "  acme-opt --pass=view-fold --emit=svg model.onnx";
    says(
        &["--help"],
        &["Compiles the tensor programs of Acme", usage, examples],
    );
    says(
        &["stats", "--help"],
        &["Usage: acme-opt stats", "  acme-opt stats model.onnx"],
    );
    let (_, all) = acme(&["help"]);
    assert!(!all.contains(" optc "), "{all}");
    let (status, error) = acme(&["--target=acne", "--pass=view-fold", "-"]);
    assert_eq!(status, 2, "{error}");
    assert!(error.contains("did you mean acme?"), "{error}");
}
