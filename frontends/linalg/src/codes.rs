//! The codes of the linalg front end.

use optc_ir::codes;

codes! {
    /// Every code of this crate, sorted.
    pub const CODES;

    LINALG_CONSTANT = program(
        "the elements of a constant of linalg text are not those that its type wants, or are not in the text",
        r#""func.func"() <{function_type = () -> tensor<3xf32>, sym_name = "main"}> ({
  %0 = "arith.constant"() <{value = dense<[1.0, 2.0]> : tensor<3xf32>}> : () -> tensor<3xf32>
  "func.return"(%0) : (tensor<3xf32>) -> ()
}) : () -> ()"#,
        "write as many elements as the type has, or one for all of them",
    );
    LINALG_FUNCTION = program(
        "a module of linalg text has no function with a body",
        r#""builtin.module"() ({
  "func.func"() <{function_type = () -> (), sym_name = "f", sym_visibility = "private"}> ({
  }) : () -> ()
}) : () -> ()"#,
        "give the module a function to fold",
    );
    LINALG_OPAQUE = input(
        "an operation of linalg text is not understood, and stays as it is between row-major values",
        "a `linalg.generic` that reads elements by computed indices",
        "no action is needed: the rest of the program is folded around it",
    );
    LINALG_SYNTAX = program(
        "a text is not in the form in which MLIR prints linalg",
        r#""func.func"() <{function_type = () -> (), sym_name = "main"}> ({
  "func.return"( : () -> ()
}) : () -> ()"#,
        "print the module by `mlir-opt --mlir-print-op-generic`",
    );
    LINALG_TOO_DEEP = input(
        "brackets or regions of linalg text nest more deeply than is read",
        "a list of a thousand lists in one another",
        "write the program flatter: 96 levels are read",
    );
    LINALG_TYPE = program(
        "an argument, a result or an operation that must stay has a type other than a tensor of known sizes",
        r#""func.func"() <{function_type = (tensor<?xf32>) -> tensor<?xf32>, sym_name = "main"}> ({
^bb0(%arg0: tensor<?xf32>):
  "func.return"(%arg0) : (tensor<?xf32>) -> ()
}) : () -> ()"#,
        "fold the function before bufferization, and give its tensors sizes",
    );
    LINALG_VALUE = program(
        "an operation of linalg text reads a value that nothing defines before it",
        r#""func.func"() <{function_type = () -> tensor<4xf32>, sym_name = "main"}> ({
  "func.return"(%0) : (tensor<4xf32>) -> ()
}) : () -> ()"#,
        "define the value first",
    );
}
