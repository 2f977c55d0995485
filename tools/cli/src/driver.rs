//! A driver: the command around a compiler.

use optc::{Code, Compiler};

/// The name of the command around the compiler without additions, which the help is written with.
pub(crate) const OPTC: &str = "optc";

/// The command around a compiler: options, subcommands, help, lists, file tests and completions over the operations,
/// passes, rules, targets and codes of this compiler.
///
/// ```no_run
/// use optc::{Compiler, codes};
/// use std::process::ExitCode;
///
/// codes! {
///     /// The codes that the team's operations and passes report, sorted.
///     pub const CODES;
///
///     ACME_ODD = input("a size is odd", "tensor<3xf32>", "pad it to an even one");
/// }
///
/// fn main() -> ExitCode {
///     // Operations, rules, passes and targets are added here.
///     let compiler = Compiler::new();
///     optc_cli::Main::new(compiler)
///         .name("acme-opt")
///         .version(env!("CARGO_PKG_VERSION"))
///         .about("Compiles the tensor programs of Acme")
///         .codes(CODES)
///         .run()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Main {
    pub(crate) compiler: Compiler,
    pub(crate) codes: &'static [Code],
    pub(crate) name: &'static str,
    pub(crate) version: Option<&'static str>,
    pub(crate) about: Option<&'static str>,
}

impl Default for Main {
    /// The command `optc`.
    fn default() -> Main {
        Main::new(Compiler::new())
    }
}

impl Main {
    /// The command around this compiler. Its target, boundary and sizes of symbols hold where no option says otherwise. The name, version
    /// and description are those of `optc`.
    #[must_use]
    pub fn new(compiler: Compiler) -> Main {
        Main {
            compiler,
            codes: &[],
            name: OPTC,
            version: None,
            about: None,
        }
    }

    /// Sets the name of the program, which help, messages and `RUN:` lines use.
    #[must_use]
    pub fn name(mut self, name: &'static str) -> Main {
        self.name = name;
        self
    }

    /// Sets the text of `--version`.
    #[must_use]
    pub fn version(mut self, version: &'static str) -> Main {
        self.version = Some(version);
        self
    }

    /// Sets the sentence at the head of the help.
    #[must_use]
    pub fn about(mut self, about: &'static str) -> Main {
        self.about = Some(about);
        self
    }

    /// Adds the codes that the team's operations, passes and rules report. `explain` knows them beside those of optc.
    #[must_use]
    pub fn codes(mut self, codes: &'static [Code]) -> Main {
        self.codes = codes;
        self
    }

    /// A text about the command `optc` as one about this command.
    pub(crate) fn with_name(&self, text: &str) -> String {
        let mut renamed = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(OPTC) {
            let (before, after) = (&rest[..at], &rest[at + OPTC.len()..]);
            let starts = !before.ends_with(|c: char| c.is_alphanumeric() || c == '-' || c == '.');
            let ends = !after.starts_with(|c: char| c.is_alphanumeric() || "-_.'’".contains(c));
            renamed.push_str(before);
            renamed.push_str(if starts && ends { self.name } else { OPTC });
            rest = after;
        }
        renamed + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_get_the_name_of_the_program() {
        let main = Main::default().name("acme-opt");
        let text = "`optc stats` of optc's text; optc a.ir > ~/optc\n_optc optc.toml my-optc";
        assert_eq!(
            main.with_name(text),
            "`acme-opt stats` of optc's text; acme-opt a.ir > ~/acme-opt\n_acme-opt optc.toml my-optc"
        );
        assert_eq!(Main::default().with_name(text), text);
    }
}
