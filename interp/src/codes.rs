//! Codes of errors in running and comparing programs.

use optc_ir::codes;

codes! {
    /// Every code of this crate, sorted.
    pub const CODES;

    CONSTANT_DATA = command(
        "the elements of a constant cannot be read: its file is missing, too short, no file, or outside of the program's folder",
        &[(
            "in.ir",
            r#"func.func @main() -> tensor<3xf32> {
  %0 = "hbir.constant"() <{data = #hbir.external<"absent.weights", 0, 12>}> : () -> tensor<3xf32>
  return %0 : tensor<3xf32>
}"#,
        )],
        "optc run in.ir --output out.npz",
        "put the file beside the program; `optc verify --random-weights` invents what is absent",
    );
    FUNCTION_MISSING = input(
        "there is no function of the name that was asked for",
        "a call of the library that asks for a function which the module does not have; the command blames `--func` itself",
        "ask for a function of the module; `main` is the default",
    );
    INPUT_DTYPE = input(
        "an input has another element type than its argument",
        "an `.npz` with float64 numbers for an argument of f32",
        "convert the array; bf16 travels as uint16, types below 8 bits as int8",
    );
    INPUT_EXTRA = input(
        "an input has the name of no argument",
        "an `.npz` with the key `z` for a function of `x`",
        "the keys are the arguments' `hbir.name`, else their names in the text",
    );
    INPUT_KIND = input(
        "an argument is no tensor, so no input can be given for it",
        "a function with an argument of type `none`",
        "take the argument out of the function before running it",
    );
    INPUT_MALFORMED = input(
        "an input holds more or fewer elements than its own shape says",
        "a `Tensor` built by code whose data and shape differ",
        "build tensors with `Tensor::from_f64` and the like, which check",
    );
    INPUT_MISSING = command(
        "an argument has no input",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}"#,
        )],
        "optc run in.ir --output out.npz",
        "give an `.npz` with one array an argument: `--inputs in.npz`",
    );
    INPUT_SHAPE = input(
        "an input has another shape than its argument",
        "an `.npz` with 4 numbers for an argument of 3",
        "give an array of the argument's shape",
    );
    INPUT_SYMBOL = input(
        "an input gives a symbol another size than a previous input or `--bind` did",
        "an `.npz` with arrays of 2 and 3 rows for two arguments whose rows are `B`",
        "one name is one size in the whole program",
    );
    RUN_CALL = input(
        "a call cannot be executed: the callee does not exist, does not fit, or calls are nested too deep",
        "a module built by code, past the verifier, in which a call names no function",
        "verify the module before running it",
    );
    RUN_FAILED = input(
        "the semantics of an operation refuse the values of its operands",
        "an `hbir.gather` with an index beyond the extent of its operand",
        "correct the values; the message names the operation",
    );
    RUN_ILLEGAL_VIEW = input(
        "on buffers, a view reads a position that was never written, or two elements share one; found by `--exec=naive`",
        "a view past the verifier whose layouts do not agree with its map",
        "this is a defect of the pass that made the view: report it with the program",
    );
    RUN_LAYOUT = input(
        "a layout cannot be addressed on buffers",
        "a module built by code, past the verifier, with a layout of another rank than its shape",
        "verify the module before running it",
    );
    RUN_NOT_TENSOR = input(
        "an operand or result is no tensor, and only tensors can be computed",
        "a module built by code, past the verifier, with an `hbir.neg` of type `none`",
        "take such values out of the function before running it",
    );
    RUN_OPAQUE = command(
        "an operation that is kept as it is has no semantics to run; `optc verify` takes it for a function of its operands where it has no effect",
        &[(
            "in.ir",
            r#"func.func @main() -> tensor<2xf32> {
  %0 = "hbir.opaque"() <{kind = "Foo", effect = "pure"}> : () -> tensor<2xf32>
  return %0 : tensor<2xf32>
}"#,
        )],
        "optc run in.ir --output out.npz",
        r#"leave the operation out of what is run; where it is known to have no effect, say so: `effect = "pure"`"#,
    );
    RUN_RESULT_TYPE = input(
        "a result has another shape or element type, or the operation another number of results, than declared",
        "an operation of a user's dialect whose semantics and shape rule disagree",
        "correct the declaration of the operation",
    );
    RUN_STEPS = input(
        "a run would execute more operations than the interpreters do, calls of calls and turns of loops counted every time, or calls itself without end",
        "a chain of forty functions of which each calls the next one twice",
        "run a function further down the chain (`--func`), or call less often",
    );
    RUN_TILE = command(
        "a plan of tiles is incomplete or illegal: a tile lacks elements that are needed, or no program writes some that are used",
        &[(
            "in.ir",
            r#"func.func @main() -> tensor<4xf32> attributes {hbir.groups = [{grid = [1]}]} {
  %0 = "hbir.iota"() <{axis = 0}> : () -> tensor<4xf32>
  %1 = "hbir.relu"(%0) {tile = {group = 0, result = ["2"]}} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}"#,
        )],
        "optc run in.ir --exec=tiled --output out.npz",
        "correct the tile that the message names, or let `tile-propagate` find it",
    );
    RUN_UNDEFINED = input(
        "an operand is not defined before its operation",
        "a module built by code, past the verifier, whose operations stand in the wrong order",
        "verify the module before running it",
    );
    RUN_UNKNOWN_OP = command(
        "an operation is not known, so it has no semantics to run",
        &[(
            "in.ir",
            r#"func.func @main() -> tensor<3xf32> {
  %0 = "my.source"() : () -> tensor<3xf32>
  return %0 : tensor<3xf32>
}"#,
        )],
        "optc run in.ir --output out.npz",
        "declare the operation with `OpDecl`, or run the part of the program before it",
    );
    TENSOR_TOO_LARGE = command(
        "a tensor has more elements than the interpreters hold, or a run needs more memory for its values than they take",
        &[(
            "in.ir",
            r#"func.func @main() -> tensor<4294967296xf32> {
  %0 = "hbir.iota"() <{axis = 0}> : () -> tensor<4294967296xf32>
  return %0 : tensor<4294967296xf32>
}"#,
        )],
        "optc run in.ir --output out.npz",
        "run the program with smaller sizes; the interpreters are for tests",
    );
}
