//! The public items of the crate `optc`: each occurs in a compiled example, or has a reason to be in none.

use super::circles::{Source, path, tokens};
use super::{read, sources};
use optc_tests::paths::{relative, root};
use std::collections::BTreeSet;

/// The items without an example, by reason. `module::*` stands for the rest of another crate's items.
const WITHOUT: &[(&str, &[&str])] = &[
    (
        "errors and their parts: a caller prints them, and each variant documents what was found",
        &[
            "layout::Cause",
            "layout::DrawError",
            "layout::ExplainError",
            "layout::NotViewReason",
            "layout::Side",
            "layout::ViewMapError",
            "exec::ConversionError",
            "exec::IsaError",
            "exec::Untiled",
            "interp::BoundaryError",
            "interp::DataError",
            "interp::Execution",
            "interp::InputError",
            "interp::MismatchKind",
            "interp::OpFailure",
        ],
    ),
    (
        "operations and their attributes: all are used like those of the examples, and `docs/ops.md` describes each",
        &["ops::*"],
    ),
    (
        "parts of a plan, which the example of `tile` walks: `docs/tiling.md` describes them",
        &["tile::*"],
    ),
    (
        "parts of the notations of layouts, which a text states: `docs/layouts.md` describes them",
        &[
            "layout::BlockNotation",
            "layout::DigitOp",
            "layout::DigitText",
            "layout::DigitsNotation",
            "layout::Factor",
            "layout::Field",
            "layout::Mode",
            "layout::SplitConfig",
            "layout::StridedNotation",
            "layout::TileDim",
            "layout::XlaDim",
            "layout::XlaNotation",
            "layout::XlaType",
            "layout::cute",
            "layout::true_rank",
            "layout::xla_letters",
        ],
    ),
    (
        "nodes of the tree of HLO text, reached from the `HloModule` of an example",
        &[
            "hlo::Attrs",
            "hlo::Computation",
            "hlo::PrintedComputation",
            "hlo::PrintedInstruction",
        ],
    ),
    (
        "parts of a certificate, which is written and read as a text: `docs/certificates.md` describes it",
        &[
            "check::Digest",
            "check::Holder",
            "check::ValuePosition",
            "check::Witness",
        ],
    ),
    (
        "parts of the rows of a target, which its file states: `docs/targets.md` describes them",
        &[
            "PortRole",
            "PortRule",
            "PricedPort",
            "Rates",
            "Slower",
            "Style",
            "When",
        ],
    ),
    (
        "declarations that few operations make, and the types that the macros `attributes!`, `words!` and `codes!` use: the trait `Operation` describes them",
        &[
            "Attributes",
            "Code",
            "Data",
            "Dense",
            "EvalContext",
            "Example",
            "Freedom",
            "Label",
            "Partial",
            "Role",
            "Sign",
            "Traffic",
            "expression::Stage",
            "tile::Loop",
            "tile::iteration_domain_of",
        ],
    ),
    (
        "fields of arguments, results and operations: the name and the place of a port",
        &["Port", "Span"],
    ),
    (
        "limits and parts of the command `optc`, which its own tests run",
        &[
            "MAX_FILE_BYTES",
            "MAX_STREAM_BYTES",
            "remove_drafts",
            "estimate::has_floats",
            "exec::ISA_VARIABLE",
            "interp::DEFAULT_SIZE",
            "interp::check_boundary",
            "interp::check_inputs",
            "onnx::Whole",
            "onnx::unread",
        ],
    ),
    (
        "second names of items that occur, or whole modules of which items occur",
        &[
            "linalg::ReadData",
            "stablehlo::ReadData",
            "onnx::ReadData",
            "passes::Report",
            "passes::Reports",
            "passes::run",
            "passes::stats",
            "passes::tile_propagate",
            "passes::view_fold",
        ],
    ),
    (
        "the options of a pass in a pipeline: a pass of one's own reads them as the built-in ones do",
        &["passes::Options"],
    ),
];

/// A public name of the crate `optc`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Item {
    /// The name of its module; empty for the root.
    module: String,
    name: String,
    /// The crate that defines it.
    of: String,
    /// True if all items of that crate are re-exported.
    is_rest: bool,
}

impl Item {
    fn text(&self) -> String {
        match self.module.as_str() {
            "" => self.name.clone(),
            module => format!("{module}::{}", self.name),
        }
    }

    /// The entry of [`WITHOUT`] that excuses this item.
    fn entry(&self) -> Option<&'static str> {
        let rest = format!("{}::*", self.module);
        let mut listed = WITHOUT.iter().flat_map(|(_, names)| names.iter().copied());
        listed.find(|name| *name == self.text() || self.is_rest && *name == rest)
    }

    /// Returns whether a path of an example names this item, by its place here or by the crate that defines it.
    fn is_named(&self, path: &[String]) -> bool {
        let module = if self.module.is_empty() {
            "optc"
        } else {
            &self.module
        };
        let here = path.windows(2).any(|two| two == [module, &self.name]);
        let there = path.first() == Some(&self.of) && path.contains(&self.name);
        here || there
    }
}

/// The names that a source defines as modules or re-exports.
fn shown(module: &str, text: &str) -> Vec<Item> {
    let source = Source::new("api/src/lib.rs", text);
    let item = |name: &str, of: &str| Item {
        module: module.to_owned(),
        name: name.to_owned(),
        of: of.to_owned(),
        is_rest: false,
    };
    let mut found = Vec::new();
    for used in &source.uses {
        let (Some(name), Some(of)) = (used.shown.as_deref(), used.path.first()) else {
            continue;
        };
        if name != "*" {
            found.push(item(name, of));
            continue;
        }
        let folder = of.trim_start_matches("optc_");
        let library = read(&root().join(folder).join("src/lib.rs"));
        let rest = shown(module, &library).into_iter().map(|item| Item {
            of: of.clone(),
            is_rest: true,
            ..item
        });
        found.extend(rest);
    }
    let modules = text
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod "));
    let modules = modules.filter_map(|line| line.strip_suffix(';'));
    found.extend(modules.map(|name| item(name, "optc")));
    found
}

/// The public items of the crate `optc`.
fn items() -> Vec<Item> {
    let text = read(&root().join("api/rust/src/lib.rs"));
    let (mut own, mut inside, mut found) = (String::new(), None, Vec::new());
    for line in text.split_inclusive('\n') {
        let opened = line
            .strip_prefix("pub mod ")
            .and_then(|l| l.split_once(" {"));
        match (opened, &mut inside) {
            (Some((name, _)), _) => inside = Some((name.to_owned(), String::new())),
            (None, Some((name, body))) if line.starts_with('}') => {
                found.extend(shown(name, body));
                inside = None;
            }
            (None, Some((_, body))) => body.push_str(line),
            (None, None) => own.push_str(line),
        }
    }
    found.extend(shown("", &own));
    found
}

/// The code of the documentation tests of a source.
fn documented(text: &str) -> String {
    let (mut code, mut is_rust, mut fenced) = (String::new(), false, false);
    for line in text.lines().map(str::trim_start) {
        let line = line.strip_prefix("///").or(line.strip_prefix("//!"));
        let Some(line) = line.map(str::trim_start) else {
            fenced = false;
            continue;
        };
        match line.strip_prefix("```") {
            Some(kind) => {
                fenced = !fenced;
                is_rust = ["", "no_run"].contains(&kind);
            }
            None if fenced && is_rust => {
                code.push_str(line.strip_prefix("# ").unwrap_or(line));
                code.push('\n');
            }
            None => {}
        }
    }
    code
}

/// The paths that an example names, `use` included.
fn named(code: &str) -> Vec<Vec<String>> {
    let tokens = tokens(code);
    let uses = Source::new("example/src/lib.rs", code).uses.into_iter();
    let mut found: Vec<Vec<String>> = uses.map(|used| used.path).collect();
    let mut at = 0;
    while at < tokens.len() {
        let (path, end) = path(&tokens, at);
        at = end.max(at + 1);
        if 1 < path.len() {
            found.push(path);
        }
    }
    found
}

#[test]
fn each_public_item_has_an_example_or_a_reason() {
    let mut paths = BTreeSet::new();
    for source in sources("rs") {
        let (at, text) = (relative(&source), read(&source));
        if at.starts_with("examples/") {
            paths.extend(named(&text));
        } else if at.contains("/src/") {
            paths.extend(named(&documented(&text)));
        }
    }
    let items = items();
    assert!(250 < items.len(), "{} items", items.len());
    let (with, without): (Vec<&Item>, Vec<&Item>) = items
        .iter()
        .partition(|item| paths.iter().any(|path| item.is_named(path)));
    let open = without.iter().filter(|item| item.entry().is_none());
    let open: Vec<String> = open.map(|item| item.text()).collect();
    assert!(open.is_empty(), "no example has {}: {open:?}", open.len());
    let listed = WITHOUT.iter().flat_map(|(_, names)| names.iter().copied());
    let needed: BTreeSet<&str> = without.iter().filter_map(|item| item.entry()).collect();
    let idle: Vec<&str> = listed.filter(|name| !needed.contains(name)).collect();
    let with = with.len();
    assert!(
        idle.is_empty(),
        "{idle:?} are in examples ({with}), or are no items"
    );
}

#[test]
fn examples_and_items_are_found() {
    let text = "/// ```\n/// use optc::{A, b::{C as D}};\n/// # optc::b::e();\n/// ```\n/// ```text\n/// optc::F\n/// ```\n";
    let paths: BTreeSet<String> = named(&documented(text))
        .iter()
        .map(|p| p.join("::"))
        .collect();
    let wanted = ["optc::A", "optc::b::C", "optc::b::e"];
    assert!(wanted.iter().all(|path| paths.contains(*path)), "{paths:?}");
    assert!(!paths.contains("optc::F"));
    let items = shown("b", "pub mod x;\npub use optc_ir::{C, op::e as f};");
    let items: Vec<String> = items.iter().map(Item::text).collect();
    assert_eq!(items, ["b::C", "b::f", "b::x"]);
}
