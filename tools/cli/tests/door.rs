//! The command as a process on broken inputs: exit status 1, a diagnostic, nothing written, and a
//! bounded amount of memory.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::{CANCEL, Folder};

/// Kilobytes of address space a command gets; a program text of megabytes is read with far less.
const MEMORY: &str = "2000000";

/// Runs the command in a process of its own with bounded memory.
fn spawn(folder: &Folder, args: &[&str]) -> Output {
    let limited = format!("ulimit -v {MEMORY}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_optc")]);
    command.args(args).current_dir(folder.path("."));
    command.output().expect("a shell can be started")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn refused(output: &Output, code: &str) {
    let said = errors(output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("error[{code}]")), "{said}");
    assert!(output.stdout.is_empty(), "{said}");
}

const RELU: &str = "%0 = \"hbir.relu\"(%x) : (tensor<4xf32>) -> tensor<4xf32>\n";

fn alias_bomb() -> String {
    let lines = (1..60).map(|i| format!("#a{i} = [#a{0}, #a{0}]\n", i - 1));
    let lines: String = lines.collect();
    format!("#a0 = \"x\"\n{lines}\"a.b\"() <{{x = #a59}}> : () -> ()\n")
}

#[test]
fn refused_inputs_leave_the_output_as_it_was() {
    let huge = "18446744073709551615x";
    let inputs: &[(&str, Vec<u8>, &str)] = &[
        ("nul.ir", vec![0; 100], "syntax"),
        ("latin.ir", b"// caf\xe9\n".to_vec(), "text-encoding"),
        ("zeros.onnx", vec![0; 100], "malformed-protobuf"),
        ("empty.onnx", Vec::new(), "onnx-no-graph"),
        ("text.onnx", RELU.into(), "malformed-protobuf"),
        ("groups.onnx", vec![0x0b; 1_000_000], "malformed-protobuf"),
        ("cut.ir", RELU.as_bytes()[..30].into(), "syntax"),
        (
            "deep.ir",
            format!("\"a.b\"() <{{x = {}", "[".repeat(1_000_000)).into(),
            "nesting-too-deep",
        ),
        ("bomb.ir", alias_bomb().into(), "alias-too-large"),
        (
            "dims.ir",
            RELU.replace("4x", huge).into(),
            "number-out-of-range",
        ),
        (
            "twice.ir",
            "func.func @f() {\n  return\n}\n".repeat(5000).into(),
            "function-duplicate",
        ),
        (
            "dialect.mlir",
            "%0 = tosa.abs %x\n".into(),
            "format-unsupported",
        ),
    ];
    for (name, bytes, code) in inputs {
        let folder = Folder::new(&format!("door-{name}"));
        fs::write(folder.path(name), bytes).unwrap();
        folder.write("out.ir", "old\n");
        refused(
            &spawn(&folder, &["--pass=default", "-o", "out.ir", name]),
            code,
        );
        assert_eq!(folder.read("out.ir"), "old\n", "{name}");
        assert_eq!(folder.files().len(), 2, "{name}: {:?}", folder.files());
        for command in ["stats", "run"] {
            let mut args = vec![command, name];
            args.extend(
                (command == "run")
                    .then_some(["--output", "out.npz"])
                    .iter()
                    .flatten(),
            );
            refused(&spawn(&folder, &args), code);
        }
        assert_eq!(folder.files().len(), 2, "{name}: {:?}", folder.files());
    }
}

#[test]
fn folders_and_absent_files_are_no_inputs() {
    let folder = Folder::new("door-paths");
    fs::create_dir(folder.path("folder.ir")).unwrap();
    for name in ["folder.ir", "absent.ir", "absent/x.onnx"] {
        refused(&spawn(&folder, &["--pass=default", name]), "io-read");
    }
    assert_eq!(folder.files(), ["folder.ir"]);
}

#[test]
fn outputs_are_whole_or_absent() {
    let folder = Folder::new("door-outputs");
    folder.write("in.ir", CANCEL);
    fs::create_dir(folder.path("folder")).unwrap();
    for output in ["absent/out.ir", "folder", "in.ir/out.ir"] {
        let args = [
            "--pass=view-fold",
            "--certificate",
            "c.txt",
            "-o",
            output,
            "in.ir",
        ];
        refused(&spawn(&folder, &args), "io-write");
    }
    let run = ["run", "--output", "absent/out.npz", "in.ir"];
    refused(&spawn(&folder, &run), "input-missing");
    assert_eq!(folder.files(), ["folder", "in.ir"]);
    assert_eq!(folder.read("in.ir"), CANCEL);
}

#[test]
fn outputs_take_the_place_of_old_ones() {
    let folder = Folder::new("door-places");
    folder.write("in.ir", CANCEL);
    folder.write("out.ir", "old\n");
    let long = format!("{}.ir", "a".repeat(250));
    for output in ["out.ir", "new.ir", "in.ir", &long] {
        let done = spawn(&folder, &["--pass=view-fold", "-o", output, "in.ir"]);
        assert_eq!(done.status.code(), Some(0), "{output}: {}", errors(&done));
        assert!(folder.read(output).contains("hbir.view"), "{output}");
    }
    assert_eq!(folder.files(), [&long, "in.ir", "new.ir", "out.ir"]);
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_permissions_kept() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new("door-links");
    folder.write("in.ir", CANCEL);
    let real = folder.write("real.ir", "old\n");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real.ir", folder.path("link.ir")).unwrap();
    let done = spawn(&folder, &["--pass=view-fold", "-o", "link.ir", "in.ir"]);
    assert_eq!(done.status.code(), Some(0), "{}", errors(&done));
    assert!(
        fs::symlink_metadata(folder.path("link.ir"))
            .unwrap()
            .is_symlink()
    );
    assert!(folder.read("real.ir").contains("hbir.view"));
    let mode = fs::metadata(&real).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_output_is_a_failure() {
    let folder = Folder::new("door-full");
    folder.write("in.ir", CANCEL);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_optc"));
    command
        .arg(folder.path("in.ir"))
        .stdout(full)
        .stderr(Stdio::piped());
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert!(
        errors(&done).contains("error[io-write]"),
        "{}",
        errors(&done)
    );
}

/// A program that returns a constant from a file.
fn external(file: &str, offset: u64, length: u64) -> String {
    let ty = format!("tensor<{length}xsi8>");
    format!(
        "func.func @main() -> {ty} {{\n  %0 = \"hbir.constant\"() <{{data = \
         #hbir.external<\"{file}\", {offset}, {length}>}}> : () -> {ty}\n  return %0 : {ty}\n}}\n"
    )
}

#[test]
fn external_data_is_read_in_the_folder_alone() {
    let folder = Folder::new("door-external");
    folder.write("secret", "0123456789");
    fs::create_dir_all(folder.path("model/sub")).unwrap();
    folder.write("model/w", "0123456789");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../secret", folder.path("model/link")).unwrap();
        std::os::unix::fs::symlink("..", folder.path("model/up")).unwrap();
    }
    let absolute = folder.path("secret");
    let files = [
        ("../secret", 0, 4),
        (absolute.as_str(), 0, 4),
        ("sub/../../secret", 0, 4),
        ("link", 0, 4),
        ("up/secret", 0, 4),
        ("sub", 0, 4),
        ("absent", 0, 4),
        ("w", 8, 4),
        ("w", u64::MAX >> 1, 4),
        ("w", 0, 4_000_000_000),
    ];
    for (file, offset, length) in files {
        folder.write("model/in.ir", &external(file, offset, length));
        let args = ["run", "model/in.ir", "--output", "out.npz"];
        let done = spawn(&folder, &args);
        let said = errors(&done);
        assert_eq!(done.status.code(), Some(1), "{file}: {said}");
        let expected = said.contains("error[constant-data]") || said.contains("[tensor-too-large]");
        assert!(expected, "{file}: {said}");
        assert!(!Path::new(&folder.path("out.npz")).exists(), "{file}");
    }
    folder.write("model/in.ir", &external("w", 2, 4));
    let done = spawn(&folder, &["run", "model/in.ir", "--output", "out.npz"]);
    assert_eq!(done.status.code(), Some(0), "{}", errors(&done));
}
