//! Output for terminals: a progress line, and colours.
//!
//! It is off unless [`start`] found that the error stream of the process is a terminal. Commands that run inside
//! another program, as in file tests, write the same bytes everywhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;

/// The time after which a command shows a progress line.
const PATIENCE: Duration = Duration::from_millis(400);
/// The interval at which the line moves.
const TICK: Duration = Duration::from_millis(120);

static TERMINAL: OnceLock<Terminal> = OnceLock::new();

struct Terminal {
    progress: Option<ProgressBar>,
    colours: bool,
}

/// Examines the error stream of the process. On a terminal commands show their progress, unless `--quiet` or `-v` is
/// among the arguments, and colour differences, unless `NO_COLOR` is set.
pub(crate) fn start(args: impl IntoIterator<Item = String>) {
    let is_terminal = std::io::stderr().is_terminal();
    let progress = (is_terminal && !is_quiet(args)).then(line);
    // A second start in the same process keeps the result of the first.
    let _ = TERMINAL.set(Terminal {
        progress,
        colours: takes_colours(),
    });
}

/// Returns whether the error stream of the process is a terminal and `NO_COLOR` is not set.
pub(crate) fn takes_colours() -> bool {
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    std::io::stderr().is_terminal() && !no_colour
}

fn line() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
        .with_style(ProgressStyle::default_spinner());
    let shown = bar.clone();
    std::thread::spawn(move || {
        std::thread::sleep(PATIENCE);
        if !shown.is_finished() {
            shown.set_draw_target(ProgressDrawTarget::stderr());
            shown.enable_steady_tick(TICK);
        }
    });
    bar
}

/// Returns whether the arguments turn the progress line off. It would also break up a log.
fn is_quiet(args: impl IntoIterator<Item = String>) -> bool {
    let short = |arg: &str, letters: &str| {
        let rest = arg.strip_prefix('-').filter(|r| !r.is_empty());
        rest.is_some_and(|r| r.chars().all(|c| letters.contains(c)))
    };
    let log = std::env::var_os("OPTC_LOG").is_some_and(|v| !v.is_empty());
    let asks = |arg: String| arg == "--quiet" || arg == "--verbose" || short(&arg, "qv");
    log || args.into_iter().any(asks)
}

fn progress() -> Option<&'static ProgressBar> {
    TERMINAL.get()?.progress.as_ref()
}

/// Shows the current activity; `text` is only called on a terminal.
pub(crate) fn doing(text: impl FnOnce() -> String) {
    if let Some(bar) = progress() {
        bar.set_message(text());
    }
}

/// Writes while the progress line is hidden.
pub(crate) fn aside<T>(write: impl FnOnce() -> T) -> T {
    match progress() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Removes the progress line for good.
pub(crate) fn finish() {
    if let Some(bar) = progress() {
        bar.finish_and_clear();
    }
}

/// Returns whether the error stream takes colours.
pub(crate) fn colours() -> bool {
    TERMINAL.get().is_some_and(|t| t.colours)
}

/// A unified diff in colours: new lines green, removed lines red, places blue.
pub(crate) fn coloured(diff: &str) -> String {
    let paint = |line: &str| {
        let (text, end) = match line.strip_suffix('\n') {
            Some(text) => (text, "\n"),
            None => (line, ""),
        };
        let colour = match text.as_bytes().first() {
            _ if text.starts_with("+++") || text.starts_with("---") => "1",
            Some(b'+') => "32",
            Some(b'-') => "31",
            Some(b'@') => "34",
            _ => return line.to_owned(),
        };
        format!("\u{1b}[{colour}m{text}\u{1b}[0m{end}")
    };
    diff.split_inclusive('\n').map(paint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_coloured_line_by_line() {
        let diff = "--- before\n+++ after\n@@ -1 +1 @@\n x\n-a\n+b\n";
        let wanted = "\u{1b}[1m--- before\u{1b}[0m\n\u{1b}[1m+++ after\u{1b}[0m\n\
                      \u{1b}[34m@@ -1 +1 @@\u{1b}[0m\n x\n\
                      \u{1b}[31m-a\u{1b}[0m\n\u{1b}[32m+b\u{1b}[0m\n";
        assert_eq!(coloured(diff), wanted);
    }

    #[test]
    fn arguments_ask_for_quiet() {
        let of = |args: &[&str]| is_quiet(args.iter().map(ToString::to_string));
        assert!(of(&["optc", "-q", "a.ir"]));
        assert!(of(&["optc", "--quiet"]) && of(&["optc", "-vv"]) && of(&["optc", "--verbose"]));
        assert!(!of(&["optc", "-", "a.ir", "-o", "q"]));
    }

    #[test]
    fn nothing_is_shown_unless_it_was_started() {
        doing(|| unreachable!("there is no terminal"));
        assert_eq!(aside(|| 7), 7);
        assert!(!colours());
        finish();
    }
}
