//! Logging of the process, which is off unless `OPTC_LOG` or `-v` turns it on.

use crate::terminal;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

/// Starts logging to the error stream for the whole process.
///
/// `OPTC_LOG` holds a filter such as `debug` or `optc_passes=trace`; `-v` among the arguments means
/// `info`, `-vv` `debug`, `-vvv` `trace`.
pub(crate) fn start(args: impl IntoIterator<Item = String>) {
    let filter = match std::env::var("OPTC_LOG") {
        Ok(filter) if !filter.is_empty() => filter,
        _ => level(args).to_owned(),
    };
    let filter: Targets = filter
        .parse()
        .unwrap_or_else(|_| Targets::new().with_default(Level::WARN));
    let layer = tracing_subscriber::fmt::layer()
        .with_ansi(terminal::takes_colours())
        .without_time()
        .with_writer(std::io::stderr)
        .with_filter(filter);
    // A second start in the same process keeps the subscriber of the first.
    let _ = tracing_subscriber::registry().with(layer).try_init();
}

fn level(args: impl IntoIterator<Item = String>) -> &'static str {
    let count = args.into_iter().map(|arg| match arg.as_str() {
        "--verbose" => 1,
        _ => arg
            .strip_prefix('-')
            .filter(|v| v.chars().all(|c| c == 'v'))
            .map_or(0, str::len),
    });
    match count.sum::<usize>() {
        0 => "off",
        1 => "info",
        2 => "debug",
        _ => "trace",
    }
}

#[cfg(test)]
mod tests {
    use super::level;

    #[test]
    fn verbosity_counts() {
        let of = |args: &[&str]| level(args.iter().map(ToString::to_string));
        assert_eq!(of(&["optc", "a.ir"]), "off");
        assert_eq!(of(&["optc", "-v"]), "info");
        assert_eq!(of(&["optc", "-v", "--verbose"]), "debug");
        assert_eq!(of(&["optc", "-vvv"]), "trace");
        assert_eq!(of(&["optc", "-o", "-"]), "off");
    }
}
