//! Runs the examples of `docs/diagnostics.md`: each program and each command must report its code.
//!
//! All commands are run by one test, because each needs a current folder of its own and a process has only one.

use optc_cli::explain::{AREAS, Language};
use optc_cli::filetest::words;
use optc_cli::{Main, Streams};
use optc_ir::{Code, Diagnostic, Example, text, verify};

use std::path::{Path, PathBuf};

fn codes() -> impl Iterator<Item = &'static Code> {
    AREAS.iter().flat_map(|area| (area.codes)())
}

#[test]
fn lists_are_sorted_and_worded_alike() {
    for area in AREAS {
        let names: Vec<&str> = (area.codes)().iter().map(|c| c.name).collect();
        assert!(names.is_sorted(), "{} is not sorted", area.list);
        assert!(names.windows(2).all(|w| w[0] != w[1]), "{}", area.list);
    }
    for code in codes() {
        let what = match code.example {
            Example::Input(what) => what,
            Example::Program(_) | Example::Command { .. } => "one that is run",
        };
        for words in [code.says, code.help, what] {
            let lower = !words.starts_with(char::is_uppercase);
            let sentence = !words.ends_with('.') && words.contains(' ');
            assert!(lower && sentence, "{}: {words}", code.name);
        }
        let only_name = code.name.replace('-', " ");
        assert!(code.says != only_name, "{} says only its name", code.name);
    }
}

/// The codes reported by reading a program of this language.
fn read(language: Language, program: &str) -> Vec<&'static str> {
    let diags: Vec<Diagnostic> = match language {
        Language::Ir => text::parse(program)
            .and_then(|module| verify::verify(&module, &optc_ops::registry()))
            .err()
            .unwrap_or_default(),
        Language::Hlo => optc_hlo::import(program).map_or_else(|diags| diags, |i| i.diags),
        Language::Linalg => optc_linalg::import(program).map_or_else(|diags| diags, |i| i.diags),
        Language::StableHlo => {
            optc_stablehlo::import(program).map_or_else(|diags| diags, |i| i.diags)
        }
    };
    diags.iter().map(|d| d.code.as_str()).collect()
}

#[test]
fn programs_are_refused_with_their_code_alone() {
    let mut wrong = String::new();
    for area in AREAS {
        for code in (area.codes)() {
            let Example::Program(program) = code.example else {
                continue;
            };
            let found = read(area.language, program);
            if found != [code.name] {
                wrong += &format!("{}: {found:?} for\n{program}\n", code.name);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The codes in a text of diagnostics, each with the word before it: `error`, `warning`, `remark`.
fn reported(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for line in text.lines() {
        for severity in ["error", "warning", "remark"] {
            let Some((before, rest)) = line.split_once(&format!("{severity}[")) else {
                continue;
            };
            let starts = before.is_empty() || before.ends_with(": ");
            if let (true, Some((code, _))) = (starts, rest.split_once("]:")) {
                found.push((severity, code));
            }
        }
    }
    found
}

fn run(command: &str) -> (u8, String) {
    let args = words(command).unwrap_or_else(|e| panic!("{command}: {e}"));
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let mut streams = Streams {
        input: &mut std::io::empty(),
        output: &mut output,
        errors: &mut errors,
    };
    let status = Main::default().call(args, &mut streams);
    (status, String::from_utf8_lossy(&errors).into_owned())
}

/// Runs the commands of an example in the current folder. All but the last must succeed; the last must report the code.
///
/// # Errors
/// The command that does not, and what it printed.
fn follow(name: &str, commands: &str) -> Result<(), String> {
    let mut lines = commands.lines().peekable();
    while let Some(command) = lines.next() {
        let (status, errors) = run(command);
        if lines.peek().is_some() {
            if status != 0 {
                return Err(format!("{command} ends with {status}:\n{errors}"));
            }
            continue;
        }
        let found = reported(&errors);
        // A remark or warning may come with others; an error must be the only one.
        let says = ["remark", "warning"]
            .iter()
            .any(|said| found.contains(&(said, name)));
        let is_remark = says && status == 0;
        let alone = found.iter().all(|(_, code)| *code == name) && status != 0;
        if !(is_remark || (alone && !found.is_empty())) {
            return Err(format!(
                "{command} ends with {status} and reports {found:?}:\n{errors}"
            ));
        }
    }
    Ok(())
}

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("diagnostics")
        .join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("the folder for tests can be written");
    path
}

#[test]
fn commands_report_their_code() {
    let mut wrong = String::new();
    let mut count = 0;
    for code in codes() {
        let Example::Command { files, run } = code.example else {
            continue;
        };
        let folder = folder(code.name);
        for (name, content) in files {
            std::fs::write(folder.join(name), format!("{content}\n")).expect("it can be written");
        }
        std::env::set_current_dir(&folder).expect("the folder is there");
        if let Err(what) = follow(code.name, run) {
            wrong += &format!("{}: {what}\n", code.name);
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(30 < count, "{count}");
}

#[test]
fn the_finder_of_codes_finds() {
    let text = "a.ir:1:2: error[a-b]: x\nerror[c-d]: y\n  note: an error[e-f] is no start\nf: remark[g]: z\n";
    assert_eq!(
        reported(text),
        [("error", "a-b"), ("error", "c-d"), ("remark", "g")]
    );
}
