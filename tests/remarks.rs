//! Suggestions in remarks help: each suggested option is applied, and its promise is checked.

use optc::{Compiler, FoldReport};
use optc_cli::{Main, Streams};
use optc_tests::paths::{files, relative, root};
use std::path::Path;

/// A remaining conversion, as `--remarks=json` reports it.
#[derive(Debug)]
struct Stays {
    /// The converted value.
    of: String,
    bytes: u64,
    notes: Vec<String>,
}

/// The remarks of a run: remaining conversions, and all other remarks with their notes.
struct Said {
    stays: Vec<Stays>,
    others: Vec<String>,
}

impl Said {
    fn bytes(&self) -> u64 {
        self.stays.iter().map(|c| c.bytes).sum()
    }
}

/// Runs the command; the error is its message if it refuses the options or the program.
fn run(pass: &str, options: &[String], path: &Path) -> Result<Said, String> {
    let mut args = vec![
        "optc".to_owned(),
        format!("--pass={pass}"),
        "--remarks=json".to_owned(),
    ];
    args.extend_from_slice(options);
    args.push(path.display().to_string());
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let status = Main::default().call(
        &args,
        &mut Streams {
            input: &mut std::io::empty(),
            output: &mut output,
            errors: &mut errors,
        },
    );
    let errors = String::from_utf8_lossy(&errors).into_owned();
    if status != 0 {
        return Err(errors);
    }
    let mut said = Said {
        stays: Vec::new(),
        others: Vec::new(),
    };
    for line in errors.lines() {
        let json: serde_json::Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        let message = json["message"].as_str().unwrap_or_default().to_owned();
        let notes = json["notes"].as_array().into_iter().flatten();
        let notes = notes
            .filter_map(|n| n.as_str().map(str::to_owned))
            .collect();
        match json["code"].as_str() {
            Some("conversion-stays") => said.stays.push(stays(&message, notes)?),
            _ => said.others.push(message),
        }
    }
    Ok(said)
}

fn stays(message: &str, notes: Vec<String>) -> Result<Stays, String> {
    let parts = || {
        let (of, rest) = message
            .strip_prefix("conversion of ")?
            .split_once(" from ")?;
        let (_, rest) = rest.split_once(" stays: ")?;
        let (amount, _) = rest.split_once(", read by ")?;
        // The amount is `8*B bytes, 1024 at B=128`, or `1024 bytes`.
        let number = amount.split_once(" bytes, ").map_or(amount, |(_, at)| at);
        let number = number.split_whitespace().next()?.replace("bytes", "");
        Some((of.to_owned(), number.parse().ok()?))
    };
    let (of, bytes) = parts().ok_or_else(|| format!("not understood: {message}"))?;
    Ok(Stays { of, bytes, notes })
}

/// The options that a note names in backticks, in the form of the command line.
fn named(note: &str) -> Vec<String> {
    let words = note.split('`').skip(1).step_by(2);
    let options =
        words.filter(|w| w.starts_with("--free-boundary") || w.starts_with("max-layouts="));
    options.map(|w| w.replace('\'', "")).collect()
}

/// The pipeline and the options with one more option.
fn with(pass: &str, options: &[String], option: &str) -> (String, Vec<String>) {
    let mut options: Vec<String> = options.to_vec();
    if !option.starts_with("--") {
        let name = pass.split('{').next().unwrap_or(pass);
        return (format!("{name}{{{option}}}"), options);
    }
    options.retain(|o| !o.starts_with("--free-boundary"));
    options.push(option.to_owned());
    (pass.to_owned(), options)
}

/// The number of suggestions of a program that were applied; the error is one that does not help.
fn follow(pass: &str, options: &[String], path: &Path) -> Result<usize, String> {
    let said = run(pass, options, path)?;
    let mut followed = 0;
    let complain = |what: String| format!("{pass} {options:?}: {what}");
    for conversion in &said.stays {
        for note in &conversion.notes {
            for option in named(note) {
                let (pass, options) = with(pass, options, &option);
                let then =
                    run(&pass, &options, path).map_err(|e| complain(format!("{option}: {e}")))?;
                let gone = then.stays.iter().all(|c| c.of != conversion.of);
                if !gone || said.bytes() <= then.bytes() {
                    let (before, after) = (said.bytes(), then.bytes());
                    return Err(complain(format!("{note}: {before} bytes, then {after}")));
                }
                followed += 1;
            }
            if let Some(rest) =
                note.strip_prefix("with a free boundary the function would convert ")
            {
                let promised: Option<u64> = rest.split(' ').next().and_then(|n| n.parse().ok());
                let (pass, options) = with(pass, options, "--free-boundary");
                let then = run(&pass, &options, path).map_err(&complain)?;
                if promised != Some(then.bytes()) || said.bytes() <= then.bytes() {
                    return Err(complain(format!("{note}: {} bytes", then.bytes())));
                }
                followed += 1;
            }
        }
    }
    for message in &said.others {
        if let Some((_, rest)) = message.split_once("; max-layouts=") {
            let cap = rest.split(' ').next().unwrap_or_default();
            let (pass, options) = with(pass, options, &format!("max-layouts={cap}"));
            let then = run(&pass, &options, path).map_err(&complain)?;
            if said.bytes() <= then.bytes() {
                return Err(complain(format!("{message}: {} bytes", then.bytes())));
            }
            followed += 1;
        }
    }
    Ok(followed)
}

/// The programs of a folder with one function, so that the bytes in remarks are those of one function.
fn programs(folder: &str) -> Vec<std::path::PathBuf> {
    let mut all = files(&root().join(folder), "ir");
    all.retain(|path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        !text.contains("// -----") && text.matches("func.func").count() <= 1
    });
    all
}

#[test]
fn what_a_remark_suggests_removes_the_conversion() {
    let variants = [
        ("view-fold", vec![]),
        ("view-fold", vec!["--pin-boundary".to_owned()]),
        ("view-fold", vec!["--free-boundary=x".to_owned()]),
        ("view-fold{max-layouts=1}", vec![]),
        (
            "view-fold{max-layouts=1}",
            vec!["--free-boundary".to_owned()],
        ),
    ];
    let mut followed = 0;
    let mut wrong = Vec::new();
    for path in programs("tests/cases/passes/view-fold") {
        for target in ["cpu", "journey6"] {
            for (pass, options) in &variants {
                let mut options = options.clone();
                options.push(format!("--target={target}"));
                // A program that the target refuses, or that has no such port, has no suggestions.
                if run(pass, &options, &path).is_err() {
                    continue;
                }
                match follow(pass, &options, &path) {
                    Ok(n) => followed += n,
                    Err(e) => wrong.push(format!("{}: {e}", relative(&path))),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(200 < followed, "{followed} suggestions were followed");
}

/// Writes a program to a file; returns the notes of its remaining conversions.
fn notes(name: &str, text: &str, pass: &str, options: &[&str]) -> Vec<String> {
    let path = std::env::temp_dir().join(format!("optc-remarks-{}-{name}.ir", std::process::id()));
    std::fs::write(&path, text).expect("a temporary file");
    let options: Vec<String> = options.iter().map(|o| (*o).to_owned()).collect();
    let said = run(pass, &options, &path).expect("it folds");
    std::fs::remove_file(&path).expect("it was written");
    let reasons = said.stays.into_iter().flat_map(|c| c.notes);
    reasons
        .filter(|note| {
            !["its present order", "the order that its readers"]
                .iter()
                .any(|own| note.starts_with(own))
        })
        .collect()
}

const CALLED: &str = r#"module {
func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = "hbir.call"(%x) <{callee = @f}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
func.func @f(%param_1: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = "hbir.transpose"(%param_1) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
}
"#;

#[test]
fn no_option_is_suggested_for_a_called_function() {
    for options in [&[][..], &["--free-boundary"]] {
        let notes = notes("called", CALLED, "view-fold", options);
        let reason = "argument %param_1 keeps its layout: @f is called, so its arguments and results keep the layouts that it declares; the pass `inline` removes the call";
        assert_eq!(notes, [reason], "{options:?}");
    }
}

const TRANSPOSED: &str = r#"func.func @main(%x: tensor<2x3xf32> {hbir.name = "in put"}) -> (tensor<3x2xf32> {hbir.name = "out"}) {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
"#;

#[test]
fn options_call_ports_by_their_keys() {
    let notes = notes("keys", TRANSPOSED, "view-fold", &[]);
    let options = "`--free-boundary='in put'` or `--free-boundary=out` removes it here";
    assert_eq!(
        notes,
        [
            format!("argument %x and result 0 are both pinned; {options}"),
            "with a free boundary the function would convert 0 bytes in all".to_owned(),
        ]
    );
}

#[test]
fn an_option_that_is_given_is_kept() {
    let text = r#"func.func @main(%x: tensor<2x3xf32>, %y: tensor<5x7xf32>) -> (tensor<3x2xf32>, tensor<7x5xf32>) {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "hbir.transpose"(%y) <{perm = [1, 0]}> : (tensor<5x7xf32>) -> tensor<7x5xf32>
  return %0, %1 : tensor<3x2xf32>, tensor<7x5xf32>
}
"#;
    let notes = notes("given", text, "view-fold", &["--free-boundary=x"]);
    let options = "`--free-boundary=x,arg1` or `--free-boundary=x,result1`";
    assert!(
        notes.contains(&format!(
            "argument %y and result 1 are both pinned; {} removes it here",
            options.replace("arg1", "y")
        )),
        "{notes:?}"
    );
}

#[test]
fn a_pin_is_named_as_what_keeps_the_layout() {
    let text = "%0 = \"hbir.relu\"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n\
                %1 = \"other.op\"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n";
    let notes = notes("pin", text, "view-fold", &["--pin=x={order = [1, 0]}"]);
    assert_eq!(notes, ["argument %x keeps its layout: `--pin` gives it"]);
}

#[test]
fn what_two_operations_take_is_named_where_no_boundary_decides() {
    let text = "%0 = \"other.op\"(%x) : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>\n\
                %1 = \"hbir.transpose\"(%0) <{perm = [1, 0, 2]}> : (tensor<2x3x5xf32>) -> tensor<3x2x5xf32>\n\
                %2 = \"other.op\"(%1) : (tensor<3x2x5xf32>) -> tensor<3x2x5xf32>\n";
    let notes = notes("both", text, "view-fold", &[]);
    assert_eq!(notes, ["`other.op` takes row-major order on any target"]);
}

/// The report of a run on [`TRANSPOSED`], and the notes of its remarks.
fn folded(explain_remarks: bool) -> (FoldReport, Vec<String>) {
    let mut compiler = Compiler::new();
    compiler.explain_remarks = explain_remarks;
    let mut program = compiler.parse("trials", TRANSPOSED).expect("well formed");
    let report = compiler
        .compile(&mut program, "view-fold")
        .expect("it folds");
    let notes = report.remarks.into_iter().flat_map(|d| d.notes);
    let notes = notes.filter(|note| {
        !["its present order", "the order that its readers"]
            .iter()
            .any(|own| note.starts_with(own))
    });
    let fold = report.reports.get::<FoldReport>().expect("it reports");
    (fold.clone(), notes.collect())
}

#[test]
fn nothing_is_tried_unless_remarks_are_asked_for() {
    let (plain, notes) = folded(false);
    assert_eq!(plain.trials, 0);
    assert_eq!(notes, ["argument %x and result 0 are both pinned"]);
    let (asked, _) = folded(true);
    // A free boundary, and each port alone.
    assert_eq!(asked.trials, 3);
    assert_eq!(asked.sizes, plain.sizes);
    assert_eq!(asked.rules_fired, plain.rules_fired);
}
