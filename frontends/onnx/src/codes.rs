//! The codes of the ONNX front end.

use optc_ir::codes;

codes! {
    /// Every code of this crate, sorted.
    pub const CODES;

    ATTRIBUTE_MISSING = input(
        "a node lacks an attribute that its operator requires",
        "a Concat without `axis`, a Cast without `to`, a MaxPool without `kernel_shape`, a Constant without a value",
        "export the model again; `onnx.checker` names the same node",
    );
    AXIS_OUT_OF_RANGE = input(
        "an axis is not one of the dimensions of the input",
        "a Softmax with `axis = 5` of an input of rank 2",
        "correct the axis; negative ones count from the end",
    );
    AXIS_REPEATED = input(
        "a list of axes names one of them twice",
        "a ReduceSum with axes [0, -2] of an input of rank 2",
        "name each axis once",
    );
    BRANCH_DECIDED = input(
        "remark: the condition of an If depends on sizes, and the nodes after it are valid with only one of its branches; that branch is taken",
        "an If that squeezes a dimension where its size is 1 and passes it on otherwise, before an LSTM that wants what the squeeze gives",
        "nothing; inputs with which the model itself would fail are refused when it runs",
    );
    CONSTANT_SHAPE = input(
        "the shape of a ConstantOfShape has a negative extent",
        "a ConstantOfShape of the constant [-3]",
        "correct the arithmetic that makes the shape",
    );
    DECLARED_TYPE_DIFFERS = input(
        "warning: the file declares another element type or shape for a value than its node gives; the node's type is used",
        "a Relu of a 2x3 input whose output is declared 2x4",
        "run shape inference on the model again, or trust the node",
    );
    DUPLICATE_NAME = input(
        "two inputs, initializers or node results of a graph have one name",
        "two Relu nodes that both define `y`",
        "rename one; ONNX graphs are in SSA form",
    );
    EXTERNAL_PATH_ESCAPES = input(
        "the location of external data is empty, absolute, leaves the folder of the model, or has a backslash or control character",
        r#"an initializer with external `location = "../../etc/passwd"`"#,
        "keep external data beside the model and name it relative to the model's folder",
    );
    FUNCTION_EXPANSION = input(
        "model-local functions call each other without end, or expand to more nodes than are read",
        "a function `Loop` whose body calls `Loop`",
        "inline the functions before export, or remove the recursion",
    );
    GEMM_RANK = input(
        "an operand of Gemm is no matrix",
        "a Gemm of a 2x3x4 input",
        "reshape to two dimensions, or use MatMul",
    );
    GRAPH_CYCLE = input(
        "nodes of a graph need each other's results",
        "an Add of `x` and `b` that defines `a`, and a Relu of `a` that defines `b`",
        "remove the cycle; loops are Loop and Scan nodes",
    );
    GROUP_NORM_GROUPS = input(
        "`num_groups` of a GroupNormalization does not divide the channels",
        "a GroupNormalization with `num_groups = 3` of 4 channels",
        "choose a number of groups that divides the channels",
    );
    MALFORMED_PROTOBUF = input(
        "the bytes are no ONNX model: they do not decode as protobuf, or a part of the model does not",
        "a text file named `model.onnx`, or a model whose download broke off",
        "check the file with `onnx.checker`; a Git LFS pointer is a common cause",
    );
    MISSING_INPUT = input(
        "a node lacks an input that its operator requires",
        "a Relu without inputs, a Resize with neither scales nor sizes",
        "connect the input; an empty name counts as left out",
    );
    ONNX_NO_GRAPH = input(
        "the file decodes and holds no graph",
        "an empty file",
        "check that the file is a model and not a tensor or a training checkpoint",
    );
    ONNX_NODE = input(
        "a node names no operator, or its attributes cannot be kept in the program",
        "a node with an empty `op_type`",
        "export the model again",
    );
    OPAQUE_OP = input(
        "remark: an operator has no equivalent and stays an `hbir.opaque`, a barrier that wants every tensor row-major",
        "a NonZero node",
        "nothing, if its bytes do not matter; an operation of your own with a declaration removes the barrier",
    );
    OPSET_MISSING = input(
        "the model names no version of the standard operators",
        r#"a model without an entry for the domain `""` in `opset_import`"#,
        "export the model again with an opset",
    );
    OPSET_UNTESTED = input(
        "warning: the version of the standard operators lies outside those that import was written for",
        "a model of operator set 99",
        "check the result; a newer version of the command may know it",
    );
    PAD_COUNT = input(
        "the number of pads is not twice the number of axes",
        "a Pad with pads [1, 1] of an input of rank 2",
        "give a begin and an end for each axis: all begins, then all ends",
    );
    RANGE_BOUNDS = input(
        "a Range has no finite number of elements",
        "a Range from 0 to 5 with a step of 0",
        "correct the step; it may not be 0 or NaN",
    );
    RESHAPE_COPIES_MISSING_EXTENT = input(
        "a 0 in the shape of a Reshape copies an extent that the input does not have",
        "a Reshape of a 2x3 input to [1, 1, 6, 0]",
        "write the extent, or set `allowzero = 1` if 0 is meant",
    );
    RESHAPE_ZERO_AND_REST = input(
        "a Reshape with `allowzero = 1` asks for an extent of 0 and for a -1: every extent would do for the -1",
        "a Reshape of a 0x3 input to [0, -1] with `allowzero = 1`",
        "write the extent in place of the -1, or leave `allowzero` out if the 0 copies an extent",
    );
    RESIZE_COUNT = input(
        "the number of scales or sizes of a Resize is not that of its axes",
        "a Resize with two scales of an input of rank 3",
        "give one entry an axis",
    );
    SHAPE_UNKNOWN = input(
        "an input of the graph is no tensor, or a tensor without a rank",
        "an input without a `shape`, or of a sequence type",
        "set the shapes before export; extents may stay open, the rank may not",
    );
    SLICE_LISTS = input(
        "starts, ends, axes and steps of a Slice differ in number",
        "a Slice with starts [0, 0] and ends [1]",
        "give each list one entry an axis",
    );
    SLICE_STEP = input(
        "the step of a Slice is 0",
        "a Slice with steps [0]",
        "step by 1 or more, or backwards",
    );
    SPLIT_OUTPUTS = input(
        "the number of outputs of a Split is not that of its sizes",
        "a Split into sizes [1, 2] with three outputs",
        "give one output a size",
    );
    TENSOR_SIZE_MISMATCH = input(
        "a tensor has more or less data than its dimensions need, a negative extent, or more bytes than can be addressed",
        "an initializer of 2x3 floats with 20 bytes of data",
        "export the model again; the file is damaged or its dimensions lie",
    );
    UNDEFINED_VALUE = input(
        "a node or an output of the graph uses a name that nothing defines",
        "a Relu of `z` in a graph without `z`",
        "define the value, or correct the name",
    );
    UNSUPPORTED_DTYPE = input(
        "warning: an input or a constant has an element type that programs cannot hold; it is kept, what reads it stays opaque",
        "an initializer of strings, or of packed elements below 8 bits in an external file",
        "convert the tensor to numbers or bool; leave elements below 8 bits in the model's own file",
    );
    WINDOW_LIST = input(
        "`kernel_shape`, `strides`, `dilations` or `pads` of a window operator does not fit its dimensions",
        "a Conv of a 1x3x8x8 input with `strides = [1]`",
        "give one entry a spatial dimension (pads: all begins, then all ends), strides and dilations from 1 on",
    );
}
