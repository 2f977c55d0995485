//! Passes: `inline`, `canonicalize`, `view-fold`, `tile-propagate`, `elide-copies`, `normalize-layouts`, `shard`, `state-shards`,
//! `per-device`, `bufferize`, `plan-memory`, and their manager.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! A pass knows an operation by its declaration, or by its struct if a rule is about it. No pass reads a clock; limits
//! count nodes and rounds. `pass.rs` and `manager.rs` name no pass: the options, rules and report of a pass are types
//! of its own.
//!
//! # Files
//! A pass is a file or folder of its name, with a page of documentation at its head. `pipeline.rs` has the pipelines,
//! `boundary.rs` the pins of arguments and results, `aliases.rs` the arguments that results are written over, `report.rs` the typed reports of passes.

mod aliases;
mod boundary;
pub mod bufferize;
pub mod canonicalize;
mod codes;
pub mod elide_copies;
pub mod inline;
pub mod manager;
mod names;
mod names_of_rules;
pub mod normalize_layouts;
pub mod pass;
pub mod per_device;
pub mod pipeline;
pub mod plan_memory;
mod plans;
mod report;
mod rewrite;
pub mod rules;
pub mod shard;
pub mod state_shards;
mod terms;
pub mod tile_propagate;
pub mod view_fold;

use std::sync::Arc;

pub use boundary::Boundary;
pub use codes::{CODES, shared as shared_codes};
pub use names::name_of;
pub use pass::{
    Changed, OptionInfo, Options, Outcome, Pass, PassContext, PassInfo, PassList, Phase, RuleInfo,
    Stage,
};
pub use report::{Report, Reports};

/// The built-in passes, alphabetically.
#[must_use]
pub fn registry() -> Vec<Arc<dyn Pass>> {
    vec![
        Arc::new(bufferize::Bufferize),
        Arc::new(canonicalize::Canonicalize::default()),
        Arc::new(elide_copies::ElideCopies),
        Arc::new(inline::Inline),
        Arc::new(normalize_layouts::NormalizeLayouts),
        Arc::new(per_device::PerDevice),
        Arc::new(plan_memory::PlanMemory),
        Arc::new(shard::Shard),
        Arc::new(state_shards::StateShards),
        Arc::new(tile_propagate::TilePropagate),
        Arc::new(view_fold::ViewFold::default()),
    ]
}

impl PassList {
    /// The built-in passes.
    #[must_use]
    pub fn builtin() -> PassList {
        let mut list = PassList::default();
        for pass in registry() {
            list.add(pass);
        }
        list
    }
}
