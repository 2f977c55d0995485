//! Passes: `canonicalize`, `view-fold`, `tile-propagate`, and their manager.

pub mod canonicalize;
mod codes;
pub mod manager;
pub mod pass;
pub mod pipeline;
mod plans;
pub mod rules;
pub mod tile_propagate;
pub mod view_fold;

use std::sync::Arc;

pub use codes::CODES;
pub use pass::{
    Boundary, Changed, OptionInfo, Options, Pass, PassContext, PassInfo, PassList, Phase, Stage,
};

/// The built-in passes, alphabetically.
#[must_use]
pub fn registry() -> Vec<Arc<dyn Pass>> {
    vec![
        Arc::new(canonicalize::Canonicalize),
        Arc::new(tile_propagate::TilePropagate),
        Arc::new(view_fold::ViewFold),
    ]
}
