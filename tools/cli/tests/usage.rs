//! Help, completions, wrong usage, and the generated reference.

use crate::support;

use std::path::Path;
use support::{optc, optc_with};

#[test]
fn the_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let kept = std::fs::read_to_string(path).unwrap();
    let command = "cargo run -p optc-xtask -- docs";
    assert!(
        kept == optc_cli::Main::default().manual(),
        "docs/cli.md is not up to date; run: {command}"
    );
}

#[test]
fn every_command_has_help_with_examples() {
    for command in [
        "stats",
        "layout",
        "run",
        "verify",
        "test",
        "spec",
        "targets",
        "completions",
        "explain",
        "bench",
    ] {
        let help = optc(&[command, "--help"]).ok();
        assert!(help.contains("Examples:\n  optc "), "{command}: {help}");
    }
    let help = optc(&["--help"]).ok();
    assert!(help.contains("Examples:"));
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = optc(&["completions", shell]).ok();
        assert!(
            script.contains("verify-each") && script.contains("stats"),
            "{shell}"
        );
    }
    optc(&["completions", "tcsh"]).fails(2, "possible values");
    optc(&["completions"]).fails(2, "required");
}

#[test]
fn quiet_changes_no_bytes() {
    let text = "%0 = \"hbir.relu\"(%x) : (tensor<2xf32>) -> tensor<2xf32>\n";
    let run = |args: &[&str]| optc_with(args, text);
    let (loud, quiet) = (
        run(&["--print-ir-diff", "-"]),
        run(&["-q", "--print-ir-diff", "-"]),
    );
    assert_eq!((loud.output, loud.errors), (quiet.output, quiet.errors));
    optc(&["stats", "-q", "/nowhere/a.ir"]).fails(1, "error[io-read]");
}

#[test]
fn a_diff_has_no_colours_in_a_file() {
    let text =
        "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>\n";
    let ran = optc_with(&["--pass=view-fold", "--print-ir-diff", "-"], text);
    assert!(
        ran.errors.contains("\n-") && !ran.errors.contains('\u{1b}'),
        "{}",
        ran.errors
    );
}

#[test]
fn help_is_a_command_too() {
    assert_eq!(optc(&["help"]).ok(), optc(&["--help"]).ok());
    let of = |args: &[&str]| optc(args).ok();
    assert_eq!(
        of(&["help", "layout", "view"]),
        of(&["layout", "view", "--help"])
    );
    optc(&["help", "statz"]).fails(2, "unrecognized subcommand 'statz'");
}

#[test]
fn what_is_nearly_right_is_named() {
    let near = |args: &[&str], hint: &str| {
        let text = "%0 = \"hbir.relu\"(%x) : (tensor<2xf32>) -> tensor<2xf32>\n";
        optc_with(args, text).fails(2, hint);
    };
    near(&["statz"], "did you mean the command `stats`?");
    near(&["helpp"], "did you mean the command `help`?");
    near(
        &["verfy", "a.ir", "b.ir"],
        "did you mean the command `verify`?",
    );
    near(&["layout", "sze", "x"], "'size'");
    near(&["--emit=hol", "-"], "a similar value exists: 'hlo'");
    near(&["--free-boundry", "-"], "'--free-boundary'");
    near(&["--pass=cannonicalize", "-"], "did you mean canonicalize?");
    near(&["--pass=defualt", "-"], "did you mean default?");
    near(
        &["--pass=view-fold{max-layout=3}", "-"],
        "did you mean max-layouts?",
    );
    near(&["--pass=view-fold", "--rules=al", "-"], "wanted all, none");
    near(
        &["--pass=view-fold", "--rules=matmul-transpose", "-"],
        "did you mean matmul-transposed?",
    );
    near(&["--target=tpp", "-"], "did you mean tpu?");
    near(
        &["--print-ir-after=view-fol", "-"],
        "did you mean view-fold?",
    );
    near(
        &["explain", "reshape-volume-mismach"],
        "did you mean reshape-volume-mismatch?",
    );
    optc(&["nowhere.ir"]).fails(1, "error[io-read]");
}

#[test]
fn a_value_after_a_blank_is_shown_after_the_sign() {
    let hint = "the value stands after `=`: --free-boundary=x";
    optc(&["--free-boundary", "x", "a.ir"]).fails(2, hint);
    optc(&["--pass=view-fold", "--free-boundary", "x"]).fails(2, hint);
    optc(&["stats", "--free-boundary", "x", "a.ir"]).fails(2, hint);
    optc(&["--remarks", "json", "a.ir"]).fails(2, "--remarks=json");
    optc(&["--free-boundary", "absent.ir"]).fails(1, "error[io-read]");
}

#[test]
fn a_code_is_explained() {
    let text = optc(&["explain", "fail-if"]).ok();
    assert!(
        text.starts_with("fail-if: a condition of `--fail-if` holds\n"),
        "{text}"
    );
    assert!(
        text.contains("\n    optc stats --fail-if='transpose>0' in.ir\n"),
        "{text}"
    );
    assert!(
        text.contains("\nto do: this is the check that was asked for"),
        "{text}"
    );
    for area in optc_cli::explain::AREAS {
        for code in (area.codes)() {
            let text = optc(&["explain", code.name]).ok();
            assert!(
                text.contains(code.says) && text.contains(code.help),
                "{text}"
            );
        }
    }
}

#[test]
fn the_file_of_a_target_reads_back() {
    let folder = support::Folder::new("targets_toml");
    let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<9x300xbf16>) -> tensor<300x9xbf16>\n";
    for name in ["cpu", "journey6", "mosaic_gpu", "tpu", "tpu:v6e", "triton"] {
        let file = optc(&["targets", name, "--toml"]).ok();
        let path = folder.write("mine.toml", &file);
        let fold = |target: &str| {
            let args = ["--pass=default", &format!("--target={target}"), "-"];
            optc_with(&args, text).ok()
        };
        assert_eq!(fold(&path), fold(name), "{name}");
        assert_eq!(optc(&["targets", &path, "--toml"]).ok(), file);
    }
    optc(&["targets", "--toml"]).fails(2, "required");
}
