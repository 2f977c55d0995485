//! Codes that the command adds.

use optc::codes;

codes! {
    /// Every code of the command, sorted.
    pub const CODES;

    BOUNDARY_DIFFERS = command(
        "two programs to compare have other arguments or results",
        &[
            (
                "a.ir",
                r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
            ),
            (
                "b.ir",
                r#"%0 = "hbir.relu"(%x) : (tensor<6x5xf32>) -> tensor<6x5xf32>"#,
            ),
        ],
        "optc verify a.ir b.ir",
        "compare programs of one signature; `--func` chooses the function",
    );
    CERTIFICATE_PROGRAM = command(
        "a certificate is about another program than the one given",
        &[
            (
                "in.ir",
                r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
            ),
            (
                "other.ir",
                r#"%0 = "hbir.tanh"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
            ),
        ],
        r#"optc --pass=view-fold --certificate c.txt -o out.ir in.ir
optc verify --certificate c.txt other.ir"#,
        "check it with the program that was compiled, or the one that came out",
    );
    CERTIFICATE_SYNTAX = input(
        "a file is no certificate, or lacks one of its parts",
        "a certificate file that was cut off after its pipeline",
        "make the certificate with `optc --pass=… --certificate OUT`",
    );
    FAIL_IF = command(
        "a condition of `--fail-if` holds",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<5x6xf32>, %y: tensor<6x5xf32>) -> tensor<6x5xf32> {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<5x6xf32>) -> tensor<6x5xf32>
  %1 = "hbir.add"(%0, %y) : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
  return %1 : tensor<6x5xf32>
}"#,
        )],
        "optc stats --fail-if='transpose>0' in.ir",
        "this is the check that was asked for; `optc stats` shows the figures",
    );
    FUNCTION_MISSING = command(
        "a program has no function to run",
        &[(
            "in.ir",
            r#"module {
}"#,
        )],
        "optc run in.ir --output out.npz",
        "give a program with a function or operations",
    );
    KEPT_AS_READ = input(
        "an operator of a model, or all of it, is written unchanged: its folded form cannot be written, or moves more",
        "an ONNX model of version 11 with an operation that is an `Einsum` when it is folded, which came with version 12",
        "nothing has to be done; a newer operator set may have the form",
    );
    LAYOUT_ALGEBRA = command(
        "layouts have no composition, inverse or complement",
        &[],
        "optc layout inverse '(4,2):(1,2)'",
        "an inverse and a complement need every value taken once and strides that continue one another; \
         a composition needs modes that divide one another",
    );
    NO_TESTS = command(
        "no file with a `// RUN:` header was found",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
        )],
        "optc test .",
        "give files or folders of file tests; docs/testing.md describes their headers",
    );
    NOT_EQUIVALENT = command(
        "two programs compute different numbers",
        &[
            (
                "a.ir",
                r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
            ),
            (
                "b.ir",
                r#"%0 = "hbir.tanh"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
            ),
        ],
        "optc verify a.ir b.ir",
        "the message names the input and the first element that differs",
    );
    NPZ_INPUT = command(
        "an archive of inputs is broken, or an array in it does not fit its argument",
        &[
            (
                "in.ir",
                r#"func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}"#,
            ),
            ("in.npz", "no archive"),
        ],
        "optc run in.ir --inputs in.npz --output out.npz",
        "write the file with `numpy.savez`",
    );
    OUTPUT_IS_DATA = command(
        "the program would be written over the file with the data of its own constants",
        &[
            (
                "in.ir",
                r#"func.func @main() -> tensor<4xsi8> {
  %0 = "hbir.constant"() <{data = #hbir.external<"weights", 0, 4>}> : () -> tensor<4xsi8>
  return %0 : tensor<4xsi8>
}"#,
            ),
            ("weights", "0123"),
        ],
        "optc -o weights in.ir",
        "write the program to another file in the same folder",
    );
    TEST_PASSES = command(
        "the test of `optc reduce` does not fail on the program itself",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
        )],
        "optc reduce --test=true in.ir -o small.ir",
        "the command fails with an exit status other than 0; `%s` in it is the file",
    );
    UNKNOWN_VALUE = command(
        "`--explain` names neither a value nor a `loc` of the result",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
        )],
        "optc --pass=view-fold --explain=%9 in.ir",
        "values are called as the result prints them, nodes by the name in `loc(\"…\")`",
    );
    VECTORS_KIND = command(
        "conformance vectors are of a kind that is not known",
        &[("v.json", r#"{"kind": "colours", "vectors": []}"#)],
        "optc spec v.json",
        "the message lists the kinds",
    );
    VECTORS_SYNTAX = command(
        "a file holds no conformance vectors",
        &[("v.json", "no vectors")],
        "optc spec v.json",
        "write an object with `kind` and a list `vectors`; spec/vectors/README.md describes them",
    );
    WRITTEN_INVALID = input(
        "a written model cannot be read back, contradicts itself, has other arguments and results than the original, or moves more",
        "a defect of the writer; it shows as the reason in a remark `kept-as-read`",
        "report it; the original goes out in its place",
    );
}
