//! Diagnostic codes of the executor.

use optc_ir::codes;

codes! {
    /// The codes of the executor, sorted.
    pub const CODES;

    EXECUTION_FAILED = input(
        "an operation refuses its operands while the program runs, such as an index that is out of bounds",
        "a `hbir.gather` of an index that no row has",
        "give inputs that the operation takes; the reference interpreter refuses the same",
    );
    EXECUTION_ISA = input(
        "the instruction set that was asked for does not exist, or this machine lacks it",
        "`optc bench --isa=avx512` on a machine without AVX-512",
        "name a set that the machine has, or leave out `--isa` and `OPTC_ISA`: the greatest one is then taken",
    );
    EXECUTION_MEMORY = input(
        "a program needs more memory than there is, or than it may take; nothing is run",
        "`optc run --exec=physical --memory-limit=64` of a program whose values take more",
        "raise the limit, or plan less memory: a smaller batch, fewer results",
    );
    EXECUTION_UNPLANNED = input(
        "a program is run whose memory is not decided",
        "a call of the library with a module that has no attribute `hbir.memory`",
        "run `bufferize,plan-memory` before; `optc run --exec=physical` does so itself",
    );
    EXECUTION_UNSUPPORTED = input(
        "a program has an operation that nobody can run, or a value that is no tensor or of a size that is known only as it runs",
        "`optc run --exec=physical` of a program with `hbir.opaque` that runs no functions",
        "take what is opaque out of the program; give sizes by `--bind` or by the inputs",
    );
}
