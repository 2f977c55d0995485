//! Help, completions, wrong usage, and the generated reference.

mod support;

use std::path::Path;
use support::{optc, optc_with};

#[test]
fn the_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let kept = std::fs::read_to_string(path).unwrap();
    let command = "cargo run -p optc-xtask -- docs";
    assert!(
        kept == optc_cli::manual(),
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
    ] {
        let help = optc(&[command, "--help"]).ok();
        assert!(help.contains("Examples:\n  optc "), "{command}: {help}");
    }
    let help = optc(&["--help"]).ok();
    assert!(help.contains("Examples:") && help.contains("`optc bench` is not in this version"));
}

#[test]
fn bench_says_that_it_is_not_there() {
    optc(&["bench", "a.ir", "--vs", "before"]).fails(2, "not in this version");
    assert!(
        optc(&["bench", "--help"])
            .ok()
            .contains("Not in this version")
    );
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
