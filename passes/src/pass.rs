//! The interface of a pass, and the list of all passes.
//!
//! Example: the text `canonicalize,view-fold{max-layouts=8}` is a pipeline of two [`Stage`]s, the second with an
//! option.

use crate::boundary::Boundary;
use crate::codes;
use crate::report::{Report, Reports};
use crate::shard::Wishes;
use indexmap::IndexMap;
use optc_ir::{Diagnostic, Module, Registry, memory};
use optc_target::Target;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The progress of a module; a pass declares the phases in which it may run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// As a front end or the parser made it.
    Imported,
    /// After `canonicalize`.
    Canonical,
    /// Layouts are chosen: `hbir.target` is set.
    Laid,
    /// Shared memory of values is decided: `hbir.memory` is set, and operations stay as they are.
    Bufferized,
}

impl Phase {
    /// The phase a module is in.
    #[must_use]
    pub fn of(module: &Module) -> Phase {
        if module.attrs.get(memory::STATE).is_some() {
            Phase::Bufferized
        } else if module.attrs.get("hbir.target").is_some() {
            Phase::Laid
        } else if module.attrs.flag("hbir.canonical") {
            Phase::Canonical
        } else {
            Phase::Imported
        }
    }
}

/// One option of a pass.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// Its name, as in `--pass='view-fold{max-layouts=8}'`.
    pub name: &'static str,
    /// Its value when it is not given.
    pub default: &'static str,
    /// A summary in one line.
    pub summary: &'static str,
}

/// The description of a pass for the manager, `--list-passes` and the documentation.
#[derive(Clone, Copy, Debug)]
pub struct PassInfo {
    /// The command-line name.
    pub name: &'static str,
    /// A summary in one line.
    pub summary: &'static str,
    /// The first and the last phase it may run in.
    pub phases: (Phase, Phase),
    /// True if the program is wrong without the pass.
    pub required: bool,
    /// Its options.
    pub options: &'static [OptionInfo],
}

/// The description of a rule for `--list-rules` and the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleInfo<'a> {
    /// Its kebab-case name.
    pub name: &'a str,
    /// The equation it stands for.
    pub equation: &'a str,
    /// A summary in one line; empty if a user's rule has none.
    pub summary: &'a str,
}

/// Says whether a pass changed the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changed {
    /// The module prints the same bytes as before.
    No,
    /// Something changed.
    Yes,
}

impl From<bool> for Changed {
    fn from(changed: bool) -> Changed {
        match changed {
            true => Changed::Yes,
            false => Changed::No,
        }
    }
}

/// The values of a pass's options.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options(pub IndexMap<String, String>);

impl Options {
    /// The value of an option, or its default.
    #[must_use]
    pub fn get<'a>(&'a self, info: &PassInfo, name: &str) -> &'a str {
        let default = info
            .options
            .iter()
            .find(|o| o.name == name)
            .map_or("", |o| o.default);
        self.0.get(name).map_or(default, String::as_str)
    }

    /// Returns whether an option is `true`.
    ///
    /// # Errors
    /// It is neither `true` nor `false`.
    pub fn flag(&self, info: &PassInfo, name: &str) -> Result<bool, Box<Diagnostic>> {
        let text = self.get(info, name);
        text.parse()
            .map_err(|_| refused(info, name, text, "true or false"))
    }

    /// The value of an option as a positive number.
    ///
    /// # Errors
    /// It is not a positive number.
    pub fn number(&self, info: &PassInfo, name: &str) -> Result<u64, Box<Diagnostic>> {
        let text = self.get(info, name);
        match text.parse::<u64>() {
            Ok(n) if n > 0 => Ok(n),
            Ok(_) | Err(_) => Err(refused(info, name, text, "a positive number")),
        }
    }
}

fn refused(info: &PassInfo, name: &str, text: &str, wanted: &str) -> Box<Diagnostic> {
    let message = format!(
        "option `{name}` of `{}` is `{text}`, wanted {wanted}",
        info.name
    );
    Box::new(Diagnostic::error(codes::OPTION_VALUE, message))
}

/// The context of a pass besides the module.
#[derive(Clone, Debug)]
pub struct PassContext {
    /// The known operations.
    pub registry: Arc<Registry>,
    /// The target.
    pub target: Arc<Target>,
    /// The boundary.
    pub boundary: Boundary,
    /// The mesh and the shardings that are wished.
    pub shard: Wishes,
    /// The options of the pass that runs.
    pub options: Options,
    /// Sizes of symbols at which costs are compared; 128 where none is given. The manager adds those of
    /// [`compared_sizes`](optc_ir::compared_sizes) before the first pass.
    pub bindings: IndexMap<Arc<str>, u64>,
    /// True if the remarks will be read. Then changes that would remove a conversion are tried, which takes several
    /// searches.
    pub explain_remarks: bool,
    /// Remarks, in the order in which they were made.
    pub remarks: Vec<Diagnostic>,
    /// The reports of the passes that ran in this context; the manager adds them.
    pub reports: Reports,
}

impl PassContext {
    /// A context with the dialect's operations and default settings.
    #[must_use]
    pub fn new(registry: Arc<Registry>, target: Arc<Target>) -> Self {
        Self {
            registry,
            target,
            boundary: Boundary::default(),
            shard: Wishes::default(),
            options: Options::default(),
            bindings: IndexMap::new(),
            explain_remarks: false,
            remarks: Vec::new(),
            reports: Reports::default(),
        }
    }
}

/// The result of a run of a pass.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// True if the module changed.
    pub changed: Changed,
    /// The report of the pass on the run, in a type of its own.
    pub report: Option<Arc<dyn Report>>,
}

impl Outcome {
    /// An outcome with a report.
    pub fn with(changed: Changed, report: impl Report) -> Outcome {
        Outcome {
            changed,
            report: Some(Arc::new(report)),
        }
    }
}

impl From<Changed> for Outcome {
    /// An outcome without a report.
    fn from(changed: Changed) -> Outcome {
        Outcome {
            changed,
            report: None,
        }
    }
}

/// A pass.
pub trait Pass: Any + Send + Sync {
    /// The description of the pass.
    fn info(&self) -> &'static PassInfo;

    /// The rules that the pass applies, in the order in which they are tried.
    fn list_rules(&self) -> Vec<RuleInfo<'_>> {
        Vec::new()
    }

    /// Changes the module.
    ///
    /// # Errors
    /// The module cannot be handled. It may then be half changed and must be dropped.
    fn run(&self, module: &mut Module, cx: &mut PassContext) -> Result<Outcome, Box<Diagnostic>>;
}

/// One entry of a pipeline: a pass and its options.
#[derive(Clone)]
pub struct Stage {
    /// The pass.
    pub pass: Arc<dyn Pass>,
    /// Its options.
    pub options: Options,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.pass.info().name, self.options.0)
    }
}

/// The passes that the text of a pipeline may name: the built-in ones and those that a user added.
#[derive(Clone, Default)]
pub struct PassList(Vec<Arc<dyn Pass>>);

impl fmt::Debug for PassList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|p| p.info().name))
            .finish()
    }
}

impl PassList {
    /// The passes, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Pass> {
        let mut all: Vec<&dyn Pass> = self.0.iter().map(|p| &**p).collect();
        all.sort_by_key(|p| p.info().name);
        all.into_iter()
    }

    /// The pass of this type.
    #[must_use]
    pub fn get<P: Pass>(&self) -> Option<&P> {
        self.0.iter().find_map(|pass| as_any(pass).downcast_ref())
    }

    /// The pass of this type, for changes that apply to pipelines read from now on.
    pub fn get_mut<P: Pass + Clone>(&mut self) -> Option<&mut P> {
        self.0.iter_mut().find_map(|pass| {
            let own: P = as_any(pass).downcast_ref::<P>()?.clone();
            *pass = Arc::new(own);
            let pass: &mut dyn Any = Arc::get_mut(pass)?;
            pass.downcast_mut()
        })
    }

    /// Adds a pass; it replaces one of the same name.
    pub fn add(&mut self, pass: Arc<dyn Pass>) {
        self.0.retain(|p| p.info().name != pass.info().name);
        self.0.push(pass);
    }

    /// All passes, sorted by name.
    #[must_use]
    pub fn infos(&self) -> Vec<&'static PassInfo> {
        self.iter().map(Pass::info).collect()
    }

    /// Reads a pipeline such as `canonicalize,view-fold{max-layouts=8 rules=none}`. The name of a pipeline stands for
    /// its passes. An empty text is the empty pipeline.
    ///
    /// # Errors
    /// An unknown pass or option, or unbalanced braces.
    pub fn parse(&self, text: &str) -> Result<Vec<Stage>, Box<Diagnostic>> {
        let mut stages = Vec::new();
        for item in split_top(text) {
            let (name, options) = split_item(item)?;
            if let Some(pipeline) = crate::pipeline::named(name) {
                if !options.trim().is_empty() {
                    let message = format!("the pipeline `{name}` takes no options");
                    let diag = Diagnostic::error(codes::UNKNOWN_OPTION, message);
                    return Err(Box::new(
                        diag.note("write its passes out and give them theirs"),
                    ));
                }
                for pass in pipeline {
                    stages.push(self.stage(pass, "")?);
                }
            } else {
                stages.push(self.stage(name, options)?);
            }
        }
        Ok(stages)
    }

    fn stage(&self, name: &str, options: &str) -> Result<Stage, Box<Diagnostic>> {
        let pass = self
            .0
            .iter()
            .find(|p| p.info().name == name)
            .ok_or_else(|| {
                let known: Vec<_> = self.infos().iter().map(|i| i.name).collect();
                let diag =
                    Diagnostic::error(codes::UNKNOWN_PASS, format!("found no pass `{name}`"))
                        .note(format!("wanted one of {}", known.join(", ")));
                let pipelines = crate::pipeline::NAMED.iter().map(|(name, _)| *name);
                Box::new(diag.suggest("", name, known.into_iter().chain(pipelines)))
            })?;
        let mut values = IndexMap::new();
        for part in options.split([' ', ',']).filter(|p| !p.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, "true"));
            if !pass.info().options.iter().any(|o| o.name == key) {
                let known: Vec<_> = pass.info().options.iter().map(|o| o.name).collect();
                let message = format!("pass `{name}` has no option `{key}`");
                let wanted = match known.is_empty() {
                    true => "it takes no options".to_owned(),
                    false => format!("wanted one of {}", known.join(", ")),
                };
                let diag = Diagnostic::error(codes::UNKNOWN_OPTION, message).note(wanted);
                return Err(Box::new(diag.suggest("", key, known)));
            }
            values.insert(key.to_owned(), value.to_owned());
        }
        Ok(Stage {
            pass: pass.clone(),
            options: Options(values),
        })
    }
}

fn as_any(pass: &Arc<dyn Pass>) -> &dyn Any {
    &**pass
}

fn split_top(text: &str) -> Vec<&str> {
    let mut items = Vec::new();
    let (mut depth, mut start) = (0i32, 0usize);
    for (i, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    items.push(text[start..].trim());
    items.retain(|s| !s.is_empty());
    items
}

fn split_item(item: &str) -> Result<(&str, &str), Box<Diagnostic>> {
    match item.split_once('{') {
        None => Ok((item, "")),
        Some((name, rest)) => match rest.strip_suffix('}') {
            Some(options) => Ok((name.trim(), options)),
            None => Err(Box::new(Diagnostic::error(
                codes::PIPELINE_SYNTAX,
                format!("found `{item}`, wanted a closing brace after the options"),
            ))),
        },
    }
}
