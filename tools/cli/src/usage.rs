//! Suggestions for command lines with wrong usage.

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use optc::Format;
use optc::text::nearest;
use std::ffi::OsString;
use std::path::Path;

/// Adds a tip to the error, if a superfluous word was likely meant as the value of an option or as a command.
pub(crate) fn with_tip(mut error: clap::Error, args: &[OsString], root: &Command) -> clap::Error {
    if let Some(tip) = near_value(&error) {
        let near = ContextValue::String(tip);
        error.insert(ContextKind::SuggestedValue, near);
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    if error.kind() != ErrorKind::UnknownArgument || word.starts_with('-') {
        return error;
    }
    if let Some(tip) = loose_value(args, root, |_| true).or_else(|| mistyped_command(args, root)) {
        let tips = vec![StyledStr::from(tip)];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// The possible value nearest to a wrong one, if the parser has not found one.
fn near_value(error: &clap::Error) -> Option<String> {
    if error.get(ContextKind::SuggestedValue).is_some() {
        return None;
    }
    let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidValue) else {
        return None;
    };
    let Some(ContextValue::Strings(known)) = error.get(ContextKind::ValidValue) else {
        return None;
    };
    nearest(found, known.iter().map(String::as_str)).map(str::to_owned)
}

/// The message for a program file that does not exist, if its name was likely meant as something else.
pub(crate) fn absent_input(input: &Path, args: &[OsString], root: &Command) -> Option<String> {
    if input == Path::new("-") || input.exists() {
        return None;
    }
    let name = input.to_str()?;
    let tip = loose_value(args, root, |word| word == name);
    let tip = tip.or_else(|| mistyped_command(args, root))?;
    Some(format!("found no file `{name}`: {tip}"))
}

/// An option that takes its value only after `=`, in front of a word that fits.
fn loose_value(args: &[OsString], root: &Command, fits: impl Fn(&str) -> bool) -> Option<String> {
    let words: Vec<&str> = args.iter().filter_map(|a| a.to_str()).collect();
    let command = subcommand_of(root, &words);
    let takes = |word: &str| {
        let name = word.strip_prefix("--")?;
        let arg = command.get_arguments().find(|a| a.get_long() == Some(name));
        arg.filter(|a| a.is_require_equals_set())
    };
    let mut pairs = words.windows(2).map(|pair| (pair[0], pair[1]));
    let is_value = |word: &str| !word.starts_with('-') && !is_file(word) && fits(word);
    let (option, word) = pairs.find(|(option, word)| takes(option).is_some() && is_value(word))?;
    Some(format!("the value stands after `=`: {option}={word}"))
}

/// Returns whether a word has the extension of a program.
fn is_file(word: &str) -> bool {
    let extension = Path::new(word).extension().and_then(|e| e.to_str());
    extension.is_some_and(|e| Format::NAMES.contains(&e))
}

/// The command of these arguments.
fn subcommand_of<'c>(root: &'c Command, words: &[&str]) -> &'c Command {
    let found = words.iter().skip(1).find_map(|w| root.find_subcommand(w));
    found.unwrap_or(root)
}

/// The command that the first word likely means.
fn mistyped_command(args: &[OsString], root: &Command) -> Option<String> {
    let word = args.get(1)?.to_str().filter(|w| !w.starts_with('-'))?;
    if Path::new(word).exists() {
        return None;
    }
    let mut root = root.clone();
    root.build();
    let near = nearest(word, root.get_subcommands().map(Command::get_name))?;
    Some(format!("did you mean the command `{near}`?"))
}
