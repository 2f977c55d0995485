//! Layout freedoms that follow from the loops of each operation, compared with the text in `freedoms.txt`. The
//! operations are the seeds, and operations drawn from them with other extents, with names in place of extents and with
//! other attributes.
//!
//! With `FREEDOMS=write` the test writes the text.

use crate::ops_support;

use ops_support::Random;
use ops_support::draw::{Drawn, drawn};
use optc_ir::text::print_attr;
use optc_ir::{Attr, Freedom, FreedomClass, Label, Role, Type};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The number of operations drawn from each seed.
const ROUNDS: usize = 3;

/// The largest number of element-wise operations of one name that are written, since all of them look alike.
const ELEMENTWISE: usize = 2;

#[test]
fn freedoms_are_as_committed() {
    let registry = optc_ops::registry();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = String::new();
    for drawn in drawn(&mut Random(39), ROUNDS) {
        let decl = registry.get(&drawn.name).unwrap();
        let count = seen.entry(drawn.name.clone()).or_default();
        *count += 1;
        if decl.family() == "elementwise" && ELEMENTWISE < *count {
            continue;
        }
        let freedom = decl.freedom(&drawn.op());
        writeln!(found, "{}\n  {}", spelled(&drawn), shown(&freedom)).unwrap();
    }
    for decl in registry.all() {
        let drawn = seen.contains_key(decl.name());
        assert_ne!(drawn, NOT_DRAWN.contains(&decl.name()), "{}", decl.name());
    }
    if std::env::var("FREEDOMS").is_ok_and(|word| word == "write") {
        std::fs::write("tests/freedoms.txt", &found).unwrap();
    }
    let wanted = include_str!("freedoms.txt");
    for (found, wanted) in found.lines().zip(wanted.lines()) {
        assert_eq!(found, wanted);
    }
    assert_eq!(found.lines().count(), wanted.lines().count());
}

/// Operations that are never drawn: a constant states its elements, and a call names a function.
const NOT_DRAWN: &[&str] = &["func.call", "hbir.call", "hbir.constant"];

fn spelled(drawn: &Drawn) -> String {
    let attr = |(name, attr): (&str, &Attr)| format!(" {name}={}", print_attr(attr));
    let attrs: Vec<String> = drawn.props.iter().map(attr).collect();
    let types = |types: &[Type]| {
        let dims = |ty: &Type| {
            let dims = ty.as_tensor().unwrap().dims.iter();
            format!(
                "[{}]",
                dims.map(ToString::to_string).collect::<Vec<_>>().join(" ")
            )
        };
        types.iter().map(dims).collect::<Vec<_>>().join(" ")
    };
    let (operands, results) = (types(&drawn.operands), types(&drawn.results));
    format!("{}{}: {operands} -> {results}", drawn.name, attrs.concat())
}

/// A freedom as text: the class, the labels (role and granule), and the label of each dimension. Only the class for an
/// operation that only renames elements.
fn shown(freedom: &Freedom) -> String {
    if freedom.class == FreedomClass::Rearrange {
        return "Rearrange".to_owned();
    }
    let label = |label: &Label| {
        let role = match label.role {
            Role::Parallel => "parallel",
            Role::Axis => "axis",
            Role::Batch => "batch",
            Role::Channel => "channel",
            Role::Spatial => "spatial",
        };
        match label.granule {
            0 => role.to_owned(),
            granule => format!("{role}/{granule}"),
        }
    };
    let marks = |ports: &[Vec<Option<usize>>]| {
        let mark = |mark: &Option<usize>| mark.map_or("-".to_owned(), |label| label.to_string());
        let port = |port: &Vec<Option<usize>>| port.iter().map(mark).collect::<Vec<_>>().join(" ");
        ports
            .iter()
            .map(|p| format!("[{}]", port(p)))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let labels: Vec<String> = freedom.labels.iter().map(label).collect();
    format!(
        "{:?} {}: {} -> {}",
        freedom.class,
        labels.join(" "),
        marks(&freedom.operands),
        marks(&freedom.results)
    )
}
