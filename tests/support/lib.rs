//! Program generators and checkers shared by properties, file tests, fuzz targets and benches.

pub mod answers;
pub mod chains;
pub mod check;
pub mod door;
pub mod generate;
pub mod images;
pub mod layout_bound;
mod lines;
pub mod must;
pub mod mutate;
pub mod paths;
pub mod scale;
mod tally;
pub mod tamper;
pub mod tokens;
pub mod transformer;

pub use generate::{Profile, program, program_of};
pub use must::Must;
pub use scale::Scale;
pub use tally::Tally;
pub use transformer::Transformer;
