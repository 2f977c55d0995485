//! Reads the command line of a driver.

use crate::args::Cli;
use crate::driver::{Main, OPTC};
use crate::usage;
use clap::builder::StyledStr;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use std::ffi::OsString;

/// Reads the arguments of a command, the program's name first.
pub(crate) fn read<I, T>(driver: &Main, args: I) -> Result<Cli, clap::Error>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let mut root = definition(driver);
    let matches = root
        .clone()
        .try_get_matches_from(&args)
        .map_err(|error| usage::with_tip(error, &args, &root))?;
    if let Some(name) = matches.subcommand_name()
        && given_before(&matches)
    {
        let message = format!("write the arguments of `{name}` after it");
        return Err(root.error(ErrorKind::ArgumentConflict, message));
    }
    let mut cli = Cli::from_arg_matches(&matches)?;
    cli.rewrite.program = driver.name;
    let input = cli.rewrite.input.as_deref();
    let input = input.filter(|_| cli.command.is_none());
    match input.and_then(|input| usage::absent_input(input, &args, &root)) {
        Some(message) => Err(root.error(ErrorKind::UnknownArgument, message)),
        None => Ok(cli),
    }
}

/// Returns whether arguments of the default command are given; only the verbosity belongs to all commands.
fn given_before(matches: &ArgMatches) -> bool {
    let shared = ["verbose", "quiet", "Cli"];
    let mut ids = matches.ids().filter(|id| !shared.contains(&id.as_str()));
    ids.any(|id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine))
}

/// The definition of the command line, with the name, version and description of this command.
pub(crate) fn definition(driver: &Main) -> clap::Command {
    let mut root = Cli::command();
    if driver.name != OPTC {
        root = renamed(driver, root).name(driver.name);
    }
    if let Some(version) = driver.version {
        root = root.version(version);
    }
    if let Some(about) = driver.about {
        root = root.about(about);
    }
    root
}

/// Puts the name of the program into the texts of a definition.
fn renamed(driver: &Main, command: clap::Command) -> clap::Command {
    let styled = |text: &StyledStr| StyledStr::from(driver.with_name(&text.to_string()));
    let after = command.get_after_help().map(styled);
    let mut command = match command.get_name() {
        OPTC => command.override_usage(driver.with_name(Cli::USAGE)),
        _ => command,
    };
    if let Some(after) = after {
        command = command.after_help(after);
    }
    let command = command.mut_args(|arg| match arg.get_help().map(styled) {
        Some(help) => arg.help(help),
        None => arg,
    });
    command.mut_subcommands(|sub| renamed(driver, sub))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, RemarkStyle};
    use std::path::PathBuf;

    #[test]
    fn the_definition_is_consistent() {
        definition(&Main::default()).debug_assert();
        definition(&Main::default().name("acme-opt")).debug_assert();
    }

    #[test]
    fn optional_values_need_an_equals_sign() {
        let parse = |args: &[&str]| read(&Main::default(), args).unwrap().rewrite;
        let args = parse(&["optc", "--free-boundary", "a.ir"]);
        assert_eq!(args.compile.free_boundary, Some(vec![String::new()]));
        assert_eq!(args.input, Some(PathBuf::from("a.ir")));
        let args = parse(&["optc", "--free-boundary=x,y", "--remarks", "a.ir"]);
        assert_eq!(
            args.compile.free_boundary,
            Some(vec!["x".to_owned(), "y".to_owned()])
        );
        assert_eq!(args.remarks, Some(RemarkStyle::Text));
        let args = parse(&["optc", "--pass=", "--remarks=json", "-"]);
        assert_eq!(args.compile.pass.as_deref(), Some(""));
        assert_eq!(args.remarks, Some(RemarkStyle::Json));
    }

    #[test]
    fn only_the_verbosity_stands_before_a_command() {
        for args in [
            &["optc", "-v", "stats", "a.ir"][..],
            &["optc", "stats", "-v", "a.ir"],
        ] {
            assert!(matches!(
                read(&Main::default(), args).unwrap().command,
                Some(Command::Stats(_))
            ));
        }
        let wrong: [&[&str]; 3] = [
            &["optc", "--target=cpu", "stats", "a.ir"],
            &["optc", "a.ir", "stats", "a.ir"],
            &["optc", "--timing", "targets"],
        ];
        for args in wrong {
            assert_eq!(
                read(&Main::default(), args).unwrap_err().kind(),
                ErrorKind::ArgumentConflict,
                "{args:?}"
            );
        }
    }
}
