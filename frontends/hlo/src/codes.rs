//! The codes of the HLO text front end.

use optc_ir::codes;

codes! {
    /// Every code of this crate, sorted.
    pub const CODES;

    HLO_ATTRIBUTE_DUPLICATE = program(
        "an instruction has an attribute twice",
        r#"HloModule m
ENTRY e {
a = f32[4,5] parameter(0)
r = f32[5,4] transpose(a), dimensions={1,0}, dimensions={1,0}
}"#,
        "remove one of the two",
    );
    HLO_ATTRIBUTE_MISSING = program(
        "an instruction lacks an attribute that its opcode needs",
        r#"HloModule m
ENTRY e {
a = f32[4,5] parameter(0)
r = f32[5,4] transpose(a)
}"#,
        "write the attribute, as XLA prints it",
    );
    HLO_ATTRIBUTE_UNKNOWN = input(
        "an instruction or the module has an attribute that it does not know; import keeps it with a warning, a strict reader refuses it",
        "`r = f32[4,5] negate(a), foo=1` read with `Strictness::Exact`",
        "correct the name, or read with `Strictness::KeepUnknown`",
    );
    HLO_ATTRIBUTE_VALUE = program(
        "an attribute has a value that it does not take",
        r#"HloModule m
ENTRY e {
a = f32[4,5] parameter(0)
r = pred[4,5] compare(a, a), direction=XX
}"#,
        "use a value that the message names, as XLA prints it",
    );
    HLO_COMPUTATION_DUPLICATE = program(
        "two computations have one name",
        "c { ROOT p = f32[] parameter(0) } c { ROOT p = f32[] parameter(0) }",
        "rename one of them",
    );
    HLO_COMPUTATION_EMPTY = program(
        "a computation has no instructions",
        "e { }",
        "write at least a parameter or a constant",
    );
    HLO_COMPUTATION_UNKNOWN = program(
        "an instruction names a computation that does not stand before it",
        r#"HloModule m
ENTRY e {
a = f32[4,5] parameter(0)
r = f32[4,5] fusion(a), kind=kLoop, calls=%nope
}"#,
        "define the computation above its use",
    );
    HLO_ENTRY_DUPLICATE = program(
        "two computations are marked `ENTRY`",
        "ENTRY e { a = f32[] parameter(0) } ENTRY f { a = f32[] parameter(0) }",
        "mark one of them",
    );
    HLO_IMPORT = input(
        "the operands of a fusion or call do not agree with its computation, or the context of an asynchronous copy is used as a value",
        "a fusion of one operand whose computation has two parameters",
        "print the module with XLA again; text made by hand must repeat the shapes of the parameters",
    );
    HLO_INSTRUCTION_DUPLICATE = program(
        "two instructions of a computation have one name",
        r#"HloModule m
ENTRY e {
a = f32[4,5] parameter(0)
a = f32[4,5] negate(a)
}"#,
        "rename one of them",
    );
    HLO_LAYOUT = program(
        "a layout is malformed or does not fit its shape",
        r#"HloModule m
ENTRY e {
a = f32[4,5]{1,1} parameter(0)
}"#,
        "write the dimensions from minor to major, each once, then `:` and tiles, element size and memory space in this order",
    );
    HLO_LITERAL = program(
        "a literal does not fit its shape, or a number in it does not fit the element type",
        r#"HloModule m
ENTRY e {
a = f32[3] constant({1, 2})
}"#,
        "write one element for each position, nested as the dimensions are",
    );
    HLO_NAME = program(
        "a name is a word of the language: an element type, or a word that HLO reserves",
        r#"HloModule m
ENTRY e {
s1 = f32[4] parameter(0)
}"#,
        "choose another name",
    );
    HLO_NUMBER = program(
        "a number does not fit 64 bits",
        r#"HloModule m
ENTRY e {
a = f32[] parameter(99999999999999999999)
}"#,
        "use a smaller number",
    );
    HLO_OPAQUE = input(
        "remark: an opcode has no equivalent and its instructions stay `hbir.opaque`",
        "a `custom-call`",
        "nothing, if its bytes do not matter; it is a barrier to views",
    );
    HLO_OPCODE_UNKNOWN = program(
        "an opcode does not exist",
        r#"HloModule m
ENTRY e {
a = f32[4,5] parameter(0)
r = f32[4,5] negatee(a)
}"#,
        "correct the opcode; the message suggests a near one",
    );
    HLO_OPERAND_COUNT = program(
        "an instruction has another number of operands than its opcode",
        r#"HloModule m
ENTRY e {
a = f32[4,5] parameter(0)
r = f32[4,5] add(a)
}"#,
        "give as many operands as the message says",
    );
    HLO_OPERAND_SHAPE = program(
        "an operand is written with another shape than it has",
        r#"HloModule m
ENTRY e {
a = f32[4,5] parameter(0)
r = f32[4,5] negate(f32[5] a)
}"#,
        "repeat the shape of the operand, or leave it out",
    );
    HLO_OPERAND_UNKNOWN = program(
        "an operand is not defined before its use",
        r#"HloModule m
ENTRY e {
a = f32[4,5] parameter(0)
r = f32[4,5] negate(b)
}"#,
        "correct the name, or move the definition up",
    );
    HLO_PARAMETER_NUMBER = program(
        "the parameters of a computation are not numbered 0, 1 and so on",
        r#"HloModule m
ENTRY e {
a = f32[4] parameter(1)
}"#,
        "number them from 0, each number once",
    );
    HLO_ROOT_DUPLICATE = program(
        "two instructions of a computation are marked `ROOT`",
        r#"HloModule m
ENTRY e {
ROOT a = f32[4] parameter(0)
ROOT b = f32[4] negate(a)
}"#,
        "mark one of them",
    );
    HLO_SHAPE = program(
        "a shape is malformed",
        r#"HloModule m
ENTRY e {
a = f32[-1] parameter(0)
}"#,
        "write `f32[4,5]`; a bounded dynamic extent is `<=5`",
    );
    HLO_SHAPE_MISSING = program(
        "a shape is left out that does not follow from the operands",
        r#"HloModule m
ENTRY e {
a = parameter(0)
}"#,
        "write the shape of the result",
    );
    HLO_SIGNATURE = program(
        "a computation's root is not of the shape that its signature says",
        "ENTRY e (a: f32[4]) -> f32[5] { ROOT a = f32[4] parameter(0) }",
        "correct the shape after `->`, or leave the signature out",
    );
    HLO_SYNTAX = program(
        "something else was found than the grammar of HLO text wants",
        "HloModule m /* abc",
        "read what was found and wanted at the caret",
    );
    HLO_TOO_DEEP = input(
        "tuples, operands or computations nest deeper than is read",
        "`e { a = ` and 100000 opening parentheses",
        "no module of XLA nests this deep; look for an unbalanced bracket",
    );
}
