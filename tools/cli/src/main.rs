//! The `optc` command: the compiler without additions.

use std::process::ExitCode;

/// The allocator: a fold allocates and frees many short lists on two threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    optc_cli::Main::default().run()
}
