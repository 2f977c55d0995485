//! The packages of the workspace as a registry takes them.

use super::{metadata, read};
use optc_tests::paths::root;
use serde_json::Value;
use std::path::Path;

/// The packages that are tests, measurements, examples and chores of this repository.
const UNPUBLISHED: &[&str] = &[
    "optc-bench",
    "optc-c",
    "optc-example-embed",
    "optc-example-out-of-tree",
    "optc-python",
    "optc-tests",
    "optc-xtask",
];

/// The sentence in the description and in the documentation of every published crate but the façade.
const INTERNAL: &str = "An internal part of `optc`; only the crate `optc` has a stable interface.";

fn text<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or("")
}

/// The packages that are published, and the names of the others.
fn packages() -> (Vec<Value>, Vec<String>) {
    let metadata = metadata();
    let all = metadata["packages"].as_array().expect("there are packages");
    // A list of no registries means that a package is not published.
    let (published, others): (Vec<Value>, Vec<Value>) =
        all.iter().cloned().partition(|p| p["publish"].is_null());
    let names = others.iter().map(|p| text(p, "name").to_owned());
    (published, names.collect())
}

#[test]
fn tests_and_chores_are_not_published() {
    let (_, mut others) = packages();
    others.sort();
    assert_eq!(others, UNPUBLISHED);
}

#[test]
fn published_packages_have_what_a_registry_shows() {
    for package in packages().0 {
        let name = text(&package, "name");
        let folder = Path::new(text(&package, "manifest_path")).parent();
        let folder = folder.expect("a manifest is in a folder");
        assert!(name == "optc" || name.starts_with("optc-"), "{name}");
        for key in ["version", "license", "repository", "rust_version"] {
            assert!(!text(&package, key).is_empty(), "{name} has no {key}");
        }
        let readme = folder.join(text(&package, "readme"));
        assert!(readme.is_file(), "{name} has no readme");
        for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let wanted = read(&root().join(file));
            assert_eq!(read(&folder.join(file)), wanted, "{file} of {name}");
        }
        let description = text(&package, "description");
        assert!(!description.is_empty(), "{name} has no description");
        if name == "optc" {
            continue;
        }
        assert!(description.ends_with(INTERNAL), "{name}: {description}");
        let library = read(&folder.join("src/lib.rs"));
        let head = library.lines().take_while(|line| line.starts_with("//!"));
        let says = head.map(|line| line.trim_start_matches("//! "));
        assert!(says.into_iter().any(|line| line == INTERNAL), "{name}");
    }
}

/// A dependency for tests on a crate of the workspace has a path only, which is left out of the package. With a version
/// it could close a circle of packages, none of which could be published first.
#[test]
fn dependencies_for_tests_close_no_circle() {
    for package in packages().0 {
        let name = text(&package, "name");
        for used in package["dependencies"].as_array().into_iter().flatten() {
            let (kind, req) = (text(used, "kind"), text(used, "req"));
            if used["path"].is_null() {
                continue;
            }
            assert_eq!(
                req == "*",
                kind == "dev",
                "{name} on {}",
                text(used, "name")
            );
        }
    }
}

/// By default every feature of the crate `optc` is on, and its documentation has them all.
#[test]
fn the_library_has_all_features_by_default() {
    let (published, _) = packages();
    let optc = published.iter().find(|p| text(p, "name") == "optc");
    let optc = optc.expect("the façade is published");
    let features = optc["features"].as_object().expect("it has features");
    let names = features.keys().filter(|name| *name != "default");
    let mut names: Vec<&str> = names.map(String::as_str).collect();
    let default = features["default"].as_array().into_iter().flatten();
    let mut default: Vec<&str> = default.filter_map(Value::as_str).collect();
    names.sort_unstable();
    default.sort_unstable();
    assert_eq!(default, names);
    assert_eq!(optc["metadata"]["docs"]["rs"]["all-features"], true);
    let page = read(&root().join("docs/embedding.md"));
    for name in names {
        assert!(
            page.contains(&format!("| `{name}` |")),
            "{name} is not described"
        );
    }
}
