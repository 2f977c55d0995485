//! The codes of the parser and the verifier.

crate::codes! {
    /// Every code of the parser and the verifier, sorted; those of single operations are in
    /// the files of the operations.
    pub const CODES;

    ALIAS_REDEFINED = program(
        "an attribute, type or location alias is defined twice",
        r#"#a = 1
#a = 2"#,
        "rename or remove the second definition",
    );
    ALIAS_TOO_LARGE = input(
        "aliases of aliases would expand to more text than is read",
        "sixty lines `#a1 = [#a0, #a0]`, `#a2 = [#a1, #a1]` and so on, and an operation that uses the last one",
        "write the attribute out, or keep it in fewer levels",
    );
    ALIAS_UNDEFINED = program(
        "an attribute, type or location alias is used and defined nowhere in the file",
        r#""a.b"() <{x = #a}> : () -> ()"#,
        "define it (`#a = …`, `!t = …`, `#loc = loc(…)`), or write the attribute in its place",
    );
    ATTRIBUTE_DIALECT = program(
        "an attribute of the module, of an argument or of a result has no dialect and point before its name",
        r#"func.func @main(%x: f32 {a = 1}) {
  return
}"#,
        "write `my.a` instead of `a`, as MLIR wants",
    );
    ATTRIBUTE_DUPLICATE = program(
        "an attribute of an operation or a field of a layout is given twice",
        r#""a.b"() <{x = 1, x = 2}> : () -> ()"#,
        "remove one of the two",
    );
    ATTRIBUTE_KIND = program(
        "an attribute of an operation is of another kind than the operation wants: a string for a list, a list for a number",
        r#"%0 = "hbir.transpose"(%x) <{perm = "x"}> : (tensor<2x3xf32>) -> tensor<3x2xf32>"#,
        "write the attribute as the message says",
    );
    ATTRIBUTE_MISSING = program(
        "an operation lacks an attribute that it needs; attributes in `{…}` are not read, only those in `<{…}>`",
        r#"%0 = "hbir.transpose"(%x) {perm = [1, 0]} : (tensor<2x3xf32>) -> tensor<3x2xf32>"#,
        "add the attribute inside `<{…}>`",
    );
    ATTRIBUTE_UNKNOWN = program(
        "an operation has an attribute in `<{…}>` that means nothing to it: what it says would be lost",
        r#"%0 = "hbir.softmax"(%x) <{axes = 0}> : (tensor<2x3xf32>) -> tensor<2x3xf32>"#,
        "write the name as the message says, or put the attribute into `{…}`, where notes stand",
    );
    ATTRIBUTE_VALUE = program(
        "a word stands where an attribute should and starts none",
        r#""a.b"() <{x = words}> : () -> ()"#,
        "put texts in quotation marks; other values are numbers, lists, dictionaries, types, `true`, `false`, `unit`, `@symbol`, `dense<…>` and `#alias`",
    );
    BLOCK_UNSUPPORTED = program(
        "a function has a second block, or an operation has successors; only straight-line code is read",
        r#"func.func @main() {
  return
^bb1:
  return
}"#,
        "remove control flow before optc reads the program, or keep it in an `hbir.opaque`",
    );
    CALL_ARGUMENT_MISMATCH = program(
        "a call passes another number of operands, or operands of other types, than the function takes",
        r#"func.func @f(%x: tensor<4xf32>) {
  return
}
func.func @main(%x: tensor<5xf32>) {
  "hbir.call"(%x) <{callee = @f}> : (tensor<5xf32>) -> ()
  return
}"#,
        "make the operands those that the function declares, layouts included",
    );
    CALL_RESULT_MISMATCH = program(
        "a call declares another number of results, or results of other types, than the function gives",
        r#"func.func @f() {
  return
}
func.func @main() {
  %0 = "hbir.call"() <{callee = @f}> : () -> tensor<4xf32>
  return
}"#,
        "make the results those that the function declares, layouts included",
    );
    CALL_TARGET_MISSING = program(
        "a call names a function that the module does not have",
        r#"func.func @main() {
  "hbir.call"() <{callee = @kernel}> : () -> ()
  return
}"#,
        "define the function, or correct the name; the message suggests a near one",
    );
    CALL_TARGET_RECURSIVE = program(
        "functions call each other in a circle",
        r#"func.func @f() {
  "hbir.call"() <{callee = @g}> : () -> ()
  return
}
func.func @g() {
  "hbir.call"() <{callee = @f}> : () -> ()
  return
}"#,
        "write the repetition out; recursion has no meaning here",
    );
    DENSE_HEX = program(
        "the hexadecimal string of a `dense` attribute has a character that is no hex digit, or other bytes than its type needs",
        r#""a.b"() <{x = dense<"0x0102"> : tensor<4xi8>}> : () -> ()"#,
        "write `0x` and two digits for each byte of the tensor, little-endian",
    );
    DENSE_SHAPE = program(
        "the elements of a `dense` attribute are not as many, or not nested as deep, as its type says",
        r#""a.b"() <{x = dense<[[1, 2], [3]]> : tensor<2x2xi8>}> : () -> ()"#,
        "write one list for each dimension, or one element for all of them",
    );
    DIMS_FIELD = program(
        "`dims` in a layout does not agree with the shape: one entry a dimension, its number or a name for a `?`",
        r#""a.b"(%x) : (tensor<4x?xf32, {dims = [5, "B"]}>) -> ()"#,
        "repeat the numbers of the shape and name the unknown ones",
    );
    ELEMENT_TYPE_STORED = program(
        "an operation computes with elements of a type that is only stored and moved: floats of 8 bits or less and complex numbers",
        r#"%0 = "hbir.reduce"(%x) <{axes = [1], kind = "sum"}> : (tensor<2x3xf8E4M3FN>) -> tensor<2x1xf8E4M3FN>"#,
        "convert small floats with `hbir.cast` before and after; operations on complex numbers stay `hbir.opaque`",
    );
    ENCODING_KIND = program(
        "the encoding of a tensor type is no dictionary",
        r#""a.b"(%x) : (tensor<4xf32, "packed">) -> ()"#,
        r#"write a layout: `{block = "2W", order = [0]}`"#,
    );
    FUNCTION_DUPLICATE = program(
        "two functions of the module have one name",
        r#"func.func @f() {
  return
}
func.func @f() {
  return
}"#,
        "rename one, or put the modules apart with `// -----`",
    );
    FUNCTION_NAME = program(
        "a function in the generic form has no `sym_name`",
        r#""func.func"() <{function_type = () -> ()}> ({ "func.return"() : () -> () }) : () -> ()"#,
        r#"add `sym_name = "main"`"#,
    );
    FUNCTION_WITHOUT_BODY = program(
        "a function is declared and has no body",
        "func.func @f()",
        "write the body, or leave the declaration out; an unknown callee can be an `hbir.opaque`",
    );
    HBIR_OP_UNKNOWN = program(
        "an operation of the dialect `hbir` does not exist",
        r#"%0 = "hbir.tranpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>"#,
        "correct the name (the message suggests a near one), or use a dialect of your own, which stays opaque",
    );
    LAYOUT_FIELD = program(
        "a field of a layout is of another kind than it should be",
        r#""a.b"(%x) : (tensor<4xf32, {order = ["W"]}>) -> ()"#,
        "`order` and `strides` are lists of numbers, `block`, `axes`, `digits` and `xla` are texts",
    );
    LAYOUT_INVALID = program(
        "a layout is malformed or does not fit its shape, or a tensor has 2^63 positions or more",
        r#""a.b"(%x) : (tensor<4xf32, {block = "2W&H"}>) -> ()"#,
        "correct the layout as the message says; letters name the dimensions from the last: W, HW, HWC, NHWC",
    );
    MIXED_FUNCTIONS = program(
        "bare operations stand beside functions",
        r#"func.func @f() {
  return
}
"a.b"() : () -> ()"#,
        "put the operations into a function, or the modules apart with `// -----`",
    );
    MODULE_DUPLICATE = program(
        "text follows after the end of the module",
        r#"module {
}
module {
}"#,
        "put `// -----` between modules and read the file with `--split-input-file`",
    );
    NESTING_TOO_DEEP = input(
        "brackets or aliases nest deeper than is read",
        "an attribute of 5000 opening brackets, or `#a = [#b]` and `#b = [#a]`",
        "flatten the attribute; no program needs this depth",
    );
    NOT_A_REARRANGEMENT = input(
        "an operation was taken for a reshape, transpose or view and is none",
        "a pass or a user of the library asks `Registry::rearrangement` about an operation such as `hbir.add`",
        "ask only about operations whose freedom is of the class `Rearrange`",
    );
    NUMBER_OUT_OF_RANGE = program(
        "a number does not fit its type",
        r#""a.b"() <{x = 300 : si8}> : () -> ()"#,
        "use a wider type, or a number in its range",
    );
    OP_CUSTOM_SYNTAX = program(
        "an operation is written in its dialect's own syntax; only the generic form is read",
        "%0 = stablehlo.negate %x : tensor<4xf32>",
        "print the program with `mlir-opt --mlir-print-op-generic`",
    );
    OP_NAME = program(
        "an operation has no name, or a NUL character in it",
        r#""" () : () -> ()"#,
        "write a dialect, a point and a name in quotation marks",
    );
    OPERAND_COUNT = program(
        "an operation has more or fewer operands than wanted, or than its type lists",
        r#"%0 = "hbir.neg"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"#,
        "give as many operands as the message says, with one type each",
    );
    OPERAND_KIND = program(
        "an operand is no tensor where one is wanted",
        r#"%0 = "hbir.neg"(%x) : (f32) -> tensor<4xf32>"#,
        "use a tensor; a scalar is `tensor<f32>`",
    );
    OPERAND_TYPE_MISMATCH = program(
        "a value is used as another type than it has",
        r#"%0 = "hbir.neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
"a.b"(%0) : (tensor<5xf32>) -> ()"#,
        "repeat the type with which the value is defined, layout included",
    );
    OPERATION_KIND = input(
        "an operation was taken for another one",
        "a pass or a user of the library reads the attributes of an `hbir.add` as those of `hbir.conv`",
        "look at the name first, or take the error for a no",
    );
    PART_SPACE = program(
        "a part of a live value is said to lie in another memory space than the value",
        r#"%1 = "hbir.subview"(%0) <{limits = [4], starts = [0]}> : (tensor<8xf32, {xla = "0:S(1)"}>) -> tensor<4xf32>"#,
        "give the part the memory space of its operand and move it with `hbir.layout_convert`, or copy it with `hbir.slice`",
    );
    PORT_COUNT = input(
        "a function has another number of port descriptions than of arguments or results",
        "a module built by code in which `arg_ports` and `args` of a function differ in length; no text gives one",
        "add arguments with `Func::add_arg` and results with `Func::add_result`, which keep both in step",
    );
    PORT_NAME_DUPLICATE = program(
        "two arguments, or two results, of a function have one name",
        r#"func.func @main(%x: f32 {hbir.name = "a"}, %y: f32 {hbir.name = "a"}) {
  return
}"#,
        "give each its own `hbir.name`; it is the key in `.npz` files",
    );
    REGION_UNSUPPORTED = program(
        "an operation other than a function or module has a region",
        r#""a.b"() ({ }) : () -> ()"#,
        "flatten the region before optc reads the program, or keep it in an `hbir.opaque`",
    );
    RESULT_COUNT = program(
        "an operation has more or fewer results than wanted, or than its type lists",
        r#"%0, %1 = "hbir.neg"(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)"#,
        "name as many results as there are types; `%a:2 = …` names two",
    );
    RESULT_KIND = program(
        "a result is no tensor where one is wanted",
        r#"%0 = "hbir.neg"(%x) : (tensor<4xf32>) -> f32"#,
        "declare a tensor; a scalar is `tensor<f32>`",
    );
    RESULT_SHAPE_MISMATCH = program(
        "a result is declared with another shape than the operation gives",
        r#"%0 = "hbir.layout_convert"(%x) : (tensor<2x3xf32>) -> tensor<3x2xf32>"#,
        "declare the shape that the message says, or `?` where it is not known",
    );
    RESULT_TYPE_MISMATCH = program(
        "a result is declared with another element type than the operation gives",
        r#"%0 = "hbir.neg"(%x) : (tensor<4xf32>) -> tensor<4xf16>"#,
        "declare the element type that the message says, or convert with `hbir.cast`",
    );
    RETURN_COUNT = program(
        "`return` gives more or fewer values than the function declares",
        r#"func.func @main(%x: f32) -> f32 {
  return
}"#,
        "return as many values as there are results",
    );
    RETURN_MISSING = program(
        "a function ends without `return`",
        r#"func.func @main() {
}"#,
        "end the body with `return`",
    );
    RETURN_NOT_LAST = program(
        "an operation follows `return`",
        r#"func.func @main() {
  return
  "a.b"() : () -> ()
}"#,
        "move `return` to the end of the body",
    );
    RETURN_TYPE_MISMATCH = program(
        "a returned value has another type than the function declares",
        r#"func.func @main(%x: f32) -> f16 {
  return %x : f32
}"#,
        "declare the type of the value, layout included, or convert it",
    );
    SHARD_AXIS = program(
        "a sharding names an axis that the mesh of the module does not have, or the module states no mesh",
        r#"module attributes {hbir.mesh = ["data:2"]} {
  func.func @main(%x: tensor<4x6xf32> {hbir.shard = ["model@d0/2"]}) {
    return
  }
}"#,
        "name an axis of `hbir.mesh`, or add the axis to it",
    );
    SHARD_MESH = program(
        "a mesh is no list of axes with different names and positive extents",
        r#"module attributes {hbir.mesh = ["data:0"]} {
  func.func @main() {
    return
  }
}"#,
        "write `hbir.mesh = [\"data:4\", \"model:2\"]`, `--mesh=data:4,model:2`; a link of the target follows an @",
    );
    SHARD_SPLIT = program(
        "a value cannot be split as stated: a dimension is missing, an extent does not divide, or digits overlap",
        r#"module attributes {hbir.mesh = ["data:4"]} {
  func.func @main(%x: tensor<5x6xf32> {hbir.shard = ["data@d0/2"]}) {
    return
  }
}"#,
        "choose digits that divide the dimension, or state the padding as in `data@d0/2 padded`",
    );
    SHARD_SYNTAX = program(
        "a sharding is no list of texts, one a split",
        r#"module attributes {hbir.mesh = ["data:2"]} {
  func.func @main(%x: tensor<4x6xf32> {hbir.shard = ["data"]}) {
    return
  }
}"#,
        "write `[\"data@d0\", \"model@d1/32\"]`: an axis, the dimension, and the number of neighbours that stay together",
    );
    STRING_ESCAPE = program(
        "a string has an escape that does not exist",
        r#""a.b"() <{x = "\q"}> : () -> ()"#,
        r#"escapes are `\\`, `\"`, `\n`, `\t` and two hex digits for a byte"#,
    );
    STRING_NOT_UTF8 = program(
        "the bytes of a string are not UTF-8",
        r#""a\FF"() : () -> ()"#,
        "write the character itself, or the bytes of its UTF-8 form",
    );
    STRING_UNTERMINATED = program(
        "a string is not closed on its line",
        r#""a.b"() <{x = "y}> : () -> ()"#,
        r#"add the closing quotation mark; a line break is `\n`"#,
    );
    SYNTAX = program(
        "something else was found than the grammar wants",
        r#"%1 = "hbir.reshape"(%0) <{shape = [4, 2]}> : (tensor<8xsi8) -> tensor<4x2xsi8>"#,
        "read what was found and wanted at the caret; a bracket or comma before it may be missing",
    );
    VALUE_FOREIGN = input(
        "an operation or a value in a function is not of the function's own tables, or stands in it twice",
        "a module built by code that moves an operation from one function into another; no text gives one",
        "make operations with the methods of the function they stand in",
    );
    VALUE_NUMBER = program(
        "`%x#n` is beyond the number of results",
        r#"%a:2 = "a.b"() : () -> (f32, f32)
"a.c"(%a#2) : (f32) -> ()"#,
        "count results from 0",
    );
    VALUE_REDEFINED = program(
        "a value is defined twice",
        r#"%a = "a.b"() : () -> f32
%a = "a.b"() : () -> f32"#,
        "give the second one another name",
    );
    VALUE_UNDEFINED = program(
        "a value is used and not defined before",
        r#"func.func @main(%input: f32) {
  "a.b"(%inptu) : (f32) -> ()
  return
}"#,
        "correct the name (the message suggests a near one), or move the definition up",
    );
    VIEW_ILLEGAL = program(
        "the layouts of a view do not agree with its index map: some element would have to move, or the buffers differ in size or memory space",
        r#"%1 = "hbir.view"(%0) <{perm = [1, 0]}> : (tensor<4x8xsi8>) -> tensor<8x4xsi8>"#,
        "give the result the layout that the map makes of the operand's (`optc layout view … --deduce` or `optc --pass=view-fold` find it), or use `hbir.layout_convert`",
    );
    VIEW_SHAPE = program(
        "a view has more different unknown sizes than can be told apart",
        r#"%1 = "hbir.view"(%0) <{perm = [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]}> : (tensor<?x?x?x?x?x?x?x?x?x?x?x?x?xsi8>) -> tensor<?x?x?x?x?x?x?x?x?x?x?x?x?xsi8>"#,
        "write the sizes that are known, or split the view",
    );
}

/// The codes of this list that other crates report as well.
pub mod shared {
    use crate::diag::Code;

    /// Functions call each other in a cycle.
    pub const CALL_TARGET_RECURSIVE: Code = super::CALL_TARGET_RECURSIVE;
    /// An operation has a wrong number of operands.
    pub const OPERAND_COUNT: Code = super::OPERAND_COUNT;
    /// An operand is no tensor, although the operation needs one.
    pub const OPERAND_KIND: Code = super::OPERAND_KIND;
}
