//! The options of `FileCheck`.

use clap::Parser;

/// Prefixes of comments in which no directive counts.
pub(super) const COMMENTS: [&str; 2] = ["COM", "RUN"];

/// The options of a call.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "FileCheck",
    disable_help_flag = true,
    disable_version_flag = true
)]
pub(crate) struct Options {
    /// The file with the directives
    pub(crate) file: String,
    /// The prefixes of directives
    #[arg(long = "check-prefix", alias = "check-prefixes", value_delimiter = ',')]
    prefixes: Vec<String>,
    /// The text, instead of standard input
    #[arg(long)]
    pub(crate) input_file: Option<String>,
    /// Patterns that are nowhere between matches
    #[arg(long)]
    pub(super) implicit_check_not: Vec<String>,
    /// Values of variables
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub(super) define: Vec<String>,
    /// Take an empty text
    #[arg(long)]
    pub(super) allow_empty: bool,
    /// Take prefixes without a directive
    #[arg(long)]
    pub(super) allow_unused_prefixes: bool,
    /// Forget variables without `$` at a label
    #[arg(long)]
    pub(super) enable_var_scope: bool,
    /// Compare upper and lower case as the same
    #[arg(long)]
    pub(super) ignore_case: bool,
    /// Match whole lines
    #[arg(long)]
    pub(super) match_full_lines: bool,
    /// Compare blanks as they are
    #[arg(long)]
    pub(super) strict_whitespace: bool,
}

impl Options {
    /// Reads the words of a command. LLVM's options may have one dash.
    pub(crate) fn read(words: &[String]) -> Result<Options, clap::Error> {
        let long = |word: &String| {
            let one = word.strip_prefix('-').filter(|rest| {
                let mut chars = rest.chars();
                chars.next().is_some_and(|c| c.is_ascii_lowercase()) && chars.next().is_some()
            });
            one.map_or_else(|| word.clone(), |rest| format!("--{rest}"))
        };
        Options::try_parse_from(words.iter().map(long))
    }

    /// The prefixes that cannot be used, with the reason.
    pub(super) fn refused_prefix(&self) -> Option<String> {
        let prefixes = self.prefixes();
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let bad = prefixes.iter().enumerate().find(|(i, prefix)| {
            let taken = COMMENTS.contains(prefix) || prefixes[..*i].contains(prefix);
            prefix.is_empty() || !prefix.chars().all(fits) || taken
        });
        let (_, prefix) = bad?;
        Some(format!(
            "found the prefix `{prefix}`, wanted letters, digits, `-` and `_`, each prefix once, and none of {}",
            COMMENTS.join(", ")
        ))
    }

    /// The options of a file whose directives are compared with what its commands print.
    pub(crate) fn of(file: &str) -> Options {
        Options {
            file: file.to_owned(),
            prefixes: Vec::new(),
            input_file: None,
            implicit_check_not: Vec::new(),
            define: Vec::new(),
            allow_empty: false,
            allow_unused_prefixes: false,
            enable_var_scope: false,
            ignore_case: false,
            match_full_lines: false,
            strict_whitespace: false,
        }
    }

    pub(crate) fn prefixes(&self) -> Vec<&str> {
        match self.prefixes.is_empty() {
            true => vec!["CHECK"],
            false => self.prefixes.iter().map(String::as_str).collect(),
        }
    }
}

/// A text in which runs of blanks are one blank, unless they are compared as they are.
pub(crate) fn blanks(text: &str, strict: bool) -> String {
    let text = text.replace("\r\n", "\n");
    if strict {
        return text;
    }
    let mut one = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            ' ' | '\t' if one.ends_with(' ') => {}
            ' ' | '\t' => one.push(' '),
            c => one.push(c),
        }
    }
    one
}
