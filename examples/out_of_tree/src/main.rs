//! The command `acme-opt`: that of optc with the operations, rules, passes, targets and codes of this crate.

use optc_example_out_of_tree::driver;
use std::process::ExitCode;

fn main() -> ExitCode {
    driver().run()
}
