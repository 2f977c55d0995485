//! The command as a process on broken inputs: exit status 1, a diagnostic, no output, and a bounded amount of memory.

use crate::support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::{CANCEL, Folder};

/// The limit of a command's address space, in kilobytes; a program text of megabytes needs far less.
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

/// Runs the command with its standard output redirected.
#[cfg(unix)]
fn spawn_into(folder: &Folder, args: &[&str], output: impl Into<Stdio>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_optc"));
    command.args(args).current_dir(folder.path("."));
    command.stdout(output).stderr(Stdio::piped());
    command.output().unwrap()
}

/// A program whose text is longer than any buffer.
fn long_program() -> String {
    let line = |i: usize| {
        let of = if i == 0 {
            "%x".to_owned()
        } else {
            format!("%{}", i - 1)
        };
        format!("  %{i} = \"hbir.relu\"({of}) : (tensor<4xf32>) -> tensor<4xf32>\n")
    };
    let lines: String = (0..400).map(line).collect();
    format!(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{lines}  return %399 : tensor<4xf32>\n}}\n"
    )
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_output_is_a_failure() {
    let folder = Folder::new("door-full");
    folder.write("in.ir", CANCEL);
    folder.write("long.ir", &long_program());
    folder.write("v.json", r#"{"kind": "tensor_index", "vectors": []}"#);
    let commands: &[&[&str]] = &[
        &["in.ir"],
        &["long.ir"],
        &["--emit=json", "long.ir"],
        &["--emit=svg", "long.ir"],
        &["--help"],
        &["--list-passes"],
        &["--pass=view-fold", "--explain=%0", "in.ir"],
        &["stats", "in.ir"],
        &["stats", "--json", "long.ir"],
        &["stats", "--compare", "in.ir", "in.ir"],
        &["verify", "in.ir", "in.ir"],
        &["layout", "size", "f32[3]"],
        &["layout", "index", "f32[3]", "1"],
        &["layout", "convert", "--to=digits", "f32[3]"],
        &["layout", "view", "f32[3]", "f32[3]"],
        &["layout", "explain", "f32[3,5]{1,0:T(2,2)}"],
        &["layout", "draw", "f32[3]"],
        &["layout", "draw", "-o", "-", "f32[60,60]"],
        &["layout", "draw", "-o", "/dev/stdout", "f32[60,60]"],
        &["-o", "/dev/stdout", "long.ir"],
        &["spec", "v.json"],
        &["targets"],
        &["targets", "cpu"],
        &["completions", "bash"],
    ];
    for args in commands {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let done = spawn_into(&folder, args, full);
        let said = errors(&done);
        assert_eq!(done.status.code(), Some(1), "{args:?}: {said}");
        assert_eq!(
            said.matches("error[io-write]").count(),
            1,
            "{args:?}: {said}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_reader_that_went_away_is_no_failure() {
    let folder = Folder::new("door-closed");
    folder.write("long.ir", &long_program());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let done = spawn_into(&folder, &["long.ir"], writer);
    assert_eq!(
        (done.status.code(), errors(&done)),
        (Some(0), String::new())
    );
}

#[cfg(unix)]
#[test]
fn links_pipes_and_open_files_are_written_through() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new("door-through");
    folder.write("in.ir", CANCEL);
    fs::create_dir(folder.path("sub")).unwrap();
    symlink("sub/second", folder.path("first")).unwrap();
    symlink("../new.ir", folder.path("sub/second")).unwrap();
    symlink("loop", folder.path("loop")).unwrap();
    let run = |output: &str| spawn(&folder, &["-o", output, "in.ir"]);
    assert_eq!(run("first").status.code(), Some(0));
    assert_eq!(folder.read("new.ir"), CANCEL);
    for link in ["first", "sub/second"] {
        let meta = fs::symlink_metadata(folder.path(link)).unwrap();
        assert!(meta.is_symlink(), "{link}");
    }
    refused(&run("loop"), "io-write");
    // Standard output redirected to a file: its previous contents stay.
    folder.write("log", "before\n");
    let log = fs::File::options().append(true).open(folder.path("log"));
    let done = spawn_into(&folder, &["-o", "/dev/stdout", "in.ir"], log.unwrap());
    assert_eq!(done.status.code(), Some(0), "{}", errors(&done));
    assert_eq!(folder.read("log"), format!("before\n{CANCEL}"));
    let made = Command::new("mkfifo").arg(folder.path("pipe")).status();
    assert!(made.unwrap().success());
    let pipe = folder.path("pipe");
    let reader = std::thread::spawn(move || fs::read_to_string(pipe).unwrap());
    assert_eq!(run("pipe").status.code(), Some(0));
    assert_eq!(reader.join().unwrap(), CANCEL);
    let found = ["first", "in.ir", "log", "loop", "new.ir", "pipe", "sub"];
    assert_eq!(folder.files(), found);
}

#[cfg(unix)]
#[test]
fn a_link_that_was_put_there_is_not_followed_by_a_draft() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("door-planted");
    folder.write("in.ir", CANCEL);
    folder.write("victim", "mine");
    // A name that contains the process number could be predicted.
    let mut command = Command::new("sh");
    let script = "ln -s victim .optc-$$-0.tmp; exec \"$@\"";
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_optc")]);
    let private = folder.write("private.ir", "old");
    fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
    command.args(["-o", "private.ir", "in.ir"]);
    let done = command.current_dir(folder.path(".")).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", errors(&done));
    assert_eq!(folder.read("victim"), "mine");
    let mode = fs::metadata(&private).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn two_outputs_are_two_files() {
    let folder = Folder::new("door-twice");
    folder.write("in.ir", CANCEL);
    fs::create_dir(folder.path("sub")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("out.ir", folder.path("link.ir")).unwrap();
    let absolute = folder.path("out.ir");
    for other in ["out.ir", "./out.ir", "sub/../out.ir", "link.ir", &absolute] {
        for option in ["--certificate", "--reproducer"] {
            let args = ["--pass=view-fold", "-o", "out.ir", option, other, "in.ir"];
            let done = spawn(&folder, &args);
            let said = errors(&done);
            assert_eq!(done.status.code(), Some(2), "{other}: {said}");
            assert!(said.contains("error[output-twice]"), "{other}: {said}");
        }
    }
    assert!(!Path::new(&absolute).exists());
    let args = [
        "--pass=view-fold",
        "-o",
        "in.ir",
        "--certificate",
        "c.txt",
        "in.ir",
    ];
    let done = spawn(&folder, &args);
    assert_eq!(done.status.code(), Some(0), "{}", errors(&done));
    assert!(folder.read("in.ir").contains("hbir.view"));
}

#[test]
fn a_program_is_not_written_over_its_data() {
    let folder = Folder::new("door-data");
    folder.write("in.ir", &external("w", 0, 4));
    folder.write("w", "0123");
    for output in ["w", "./w"] {
        refused(&spawn(&folder, &["-o", output, "in.ir"]), "output-is-data");
    }
    assert_eq!(folder.read("w"), "0123");
}

#[cfg(target_os = "linux")]
#[test]
fn inputs_without_an_end_are_refused() {
    let folder = Folder::new("door-endless");
    folder.write("in.ir", CANCEL);
    let zero = "/dev/zero";
    let commands: &[&[&str]] = &[
        &["--from=ir", zero],
        &["--target=/dev/zero", "--pass=view-fold", "in.ir"],
        &["run", "in.ir", "--inputs", zero, "--output", "o.npz"],
    ];
    for args in commands {
        let limited = "ulimit -v 1000000; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", limited, "sh", env!("CARGO_BIN_EXE_optc")]);
        let done = command.args(*args).current_dir(folder.path(".")).output();
        refused(&done.unwrap(), "input-too-large");
    }
    // A sparse file larger than the limit takes no disk space.
    let sparse = fs::File::create(folder.path("large.ir")).unwrap();
    sparse.set_len((1 << 31) + 1).unwrap();
    refused(&spawn(&folder, &["large.ir"]), "input-too-large");
    fs::remove_file(folder.path("large.ir")).unwrap();
}

#[test]
fn one_number_for_many_elements_stays_one() {
    let folder = Folder::new("door-splat");
    let ty = "tensor<1000000000xf32>";
    let program = format!(
        "func.func @main() -> {ty} {{\n  %0 = \"hbir.constant\"() <{{value = dense<1.5> : {ty}}}> \
         : () -> {ty}\n  return %0 : {ty}\n}}\n"
    );
    folder.write("in.ir", &program);
    for emit in ["ir", "json", "hlo", "pallas", "jax", "triton", "dot", "svg"] {
        let done = spawn(&folder, &[&format!("--emit={emit}"), "in.ir"]);
        assert_eq!(done.status.code(), Some(0), "{emit}: {}", errors(&done));
        assert!(done.stdout.len() < 10_000, "{emit}");
    }
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
        // Nothing writes to the pipe, so opening it blocks.
        let made = Command::new("mkfifo")
            .arg(folder.path("model/pipe"))
            .status();
        assert!(made.unwrap().success());
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
        #[cfg(unix)]
        ("pipe", 0, 4),
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

/// The names of drafts in a folder.
fn drafts(folder: &Folder) -> Vec<String> {
    let mut files = folder.files();
    files.retain(|name| name.starts_with(".optc-"));
    files
}

#[test]
fn what_killed_writers_left_is_removed_and_what_is_being_written_stays() {
    let folder = Folder::new("door-left");
    folder.write("in.ir", RELU);
    let (left, open) = (".optc-0123456789abcdef.tmp", ".optc-fedcba9876543210.tmp");
    let other = ".optc-notes.tmp";
    for name in [left, open, other] {
        folder.write(name, "some bytes");
    }
    let held = fs::File::open(folder.path(open)).unwrap();
    held.lock().unwrap();
    let done = spawn(&folder, &["in.ir", "-o", "out.ir"]);
    assert!(done.status.success(), "{}", errors(&done));
    assert_eq!(drafts(&folder), [open, other]);
    drop(held);
    let done = spawn(&folder, &["in.ir", "-o", "out.ir"]);
    assert!(done.status.success(), "{}", errors(&done));
    assert_eq!(drafts(&folder), [other]);
}

/// The certificate is written to a pipe that nothing reads, so the writer blocks while the other output is a draft.
#[cfg(target_os = "linux")]
#[test]
fn writers_that_are_told_to_end_leave_nothing() {
    use std::os::unix::process::ExitStatusExt;
    let folder = Folder::new("door-signals");
    folder.write("in.ir", CANCEL);
    let made = Command::new("mkfifo").arg(folder.path("pipe")).status();
    assert!(made.unwrap().success());
    let run = |signal: &str| {
        // The tests may run under `nohup`, whose ignored signals a process inherits.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,TERM,HUP");
        command.arg(env!("CARGO_BIN_EXE_optc"));
        command.args(["--pass=view-fold", "--certificate=pipe", "in.ir", "-o"]);
        command.arg("out.ir").current_dir(folder.path("."));
        let mut child = command.spawn().unwrap();
        while drafts(&folder).is_empty() {
            assert_eq!(child.try_wait().unwrap(), None, "it ended before it wrote");
            std::thread::yield_now();
        }
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.unwrap().success());
        child.wait().unwrap().signal()
    };
    for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        assert_eq!(run(signal), Some(number));
        assert_eq!(folder.files(), ["in.ir", "pipe"]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn paths_need_not_be_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new("door-bytes");
    let name = |bytes: &'static [u8]| OsStr::from_bytes(bytes);
    let place = Path::new(&folder.path(".")).join(name(b"f\xfflder"));
    fs::create_dir(&place).unwrap();
    let constant = external("we\u{e9}ights", 0, 8);
    fs::write(place.join(name(b"\xe9.ir")), constant).unwrap();
    fs::write(place.join("we\u{e9}ights"), [0, 0, 128, 63, 0, 0, 0, 64]).unwrap();
    let run = |args: &[&OsStr]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_optc"));
        let done = command.args(args).current_dir(folder.path(".")).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{}", errors(&done));
    };
    let (input, output) = (name(b"f\xfflder/\xe9.ir"), name(b"f\xfflder/\xe9.onnx"));
    run(&[input, name(b"-o"), output]);
    assert!(place.join(name(b"\xe9.onnx")).is_file());
    run(&[name(b"stats"), output]);
    run(&[name(b"verify"), input, output]);
}
