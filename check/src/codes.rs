//! Codes of the checker's refusals.

use optc_ir::codes;

codes! {
    /// The codes of the checker, sorted.
    pub const CODES;

    CERTIFICATE_BYTES = input(
        "a certificate states other movement bytes than the folded program has",
        "a certificate file whose `movement_bytes` was changed",
        "make the certificate again with `--certificate`; do not edit it",
    );
    CERTIFICATE_DIGEST = input(
        "a certificate is about another program than the one it is checked with: the digests differ",
        "a certificate file and a folded program that was edited afterwards",
        "give the programs that the certificate was written for, or make it again with `--certificate`",
    );
    CERTIFICATE_MISMATCH = input(
        "the folded program does not compute what the original does: an operation differs, is missing, or reads another value",
        "a certificate whose folded program has `hbir.sub` where the original has `hbir.add`",
        "if optc wrote the file itself, this is a defect of optc: report it",
    );
    CERTIFICATE_SYNTAX = command(
        "a file is no certificate",
        &[
            ("c.txt", "nonsense"),
            (
                "in.ir",
                r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
            ),
        ],
        "optc verify --certificate c.txt in.ir",
        "make the certificate with `optc --pass=… --certificate OUT`",
    );
    CERTIFICATE_TARGET = input(
        "a certificate is for another target than the one it is checked for",
        "a certificate made for `cpu`, checked with `--target=journey6`",
        "check it for the target that it names",
    );
    CERTIFICATE_WITNESS = input(
        "a certificate says that a value is in a place, a layout or a view in which it is not",
        "a certificate file in which a layout was changed",
        "make the certificate again with `--certificate`; do not edit it",
    );
    MEMORY_ALIAS = command(
        "a value lies in the bytes of another of which it is no view, or is written over one that it may not replace",
        &[(
            "in.ir",
            r#"module attributes {hbir.memory = "bufferized"} {
  func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = "hbir.exp"(%x) {memory = ["over 0"]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}"#,
        )],
        "optc in.ir",
        "run `bufferize` again instead of editing its attributes",
    );
    MEMORY_OVERLAP = command(
        "two values that are needed at one time have bytes in common",
        &[(
            "in.ir",
            r#"module attributes {hbir.memory = "planned"} {
  func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> attributes {hbir.arena = 64} {
    %0 = "hbir.softmax"(%x) <{axis = 1}> {memory = ["arena 0"]} : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %1 = "hbir.softmax"(%0) <{axis = 0}> {memory = ["arena 0"]} : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %2 = "hbir.softmax"(%1) <{axis = 1}> {memory = ["result 0"]} : (tensor<2x8xf32>) -> tensor<2x8xf32>
    return %2 : tensor<2x8xf32>
  }
}"#,
        )],
        "optc in.ir",
        "run `bufferize,plan-memory` again instead of editing their attributes",
    );
    MEMORY_PLACE = command(
        "a value has a place that there is not, or that it cannot have",
        &[(
            "in.ir",
            r#"module attributes {hbir.memory = "planned"} {
  func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> attributes {hbir.arena = 64} {
    %0 = "hbir.softmax"(%x) <{axis = 1}> {memory = ["arena 8"]} : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %1 = "hbir.softmax"(%0) <{axis = 0}> {memory = ["result 0"]} : (tensor<2x8xf32>) -> tensor<2x8xf32>
    return %1 : tensor<2x8xf32>
  }
}"#,
        )],
        "optc in.ir",
        "run `bufferize,plan-memory` again instead of editing their attributes",
    );
    MEMORY_SYNTAX = command(
        "an attribute about memory is missing or malformed",
        &[(
            "in.ir",
            r#"module attributes {hbir.memory = "bufferized"} {
  func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = "hbir.exp"(%x) {memory = ["beside 0"]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}"#,
        )],
        "optc in.ir",
        "run `bufferize,plan-memory` again, or remove the module's attribute `hbir.memory`",
    );
    MESH_LINK = command(
        "an axis of the mesh is over a link that the target does not have",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>"#,
        )],
        "optc --pass=shard --mesh=data:2@road in.ir",
        "name one of the `[[links]]` of the target, or add it to a copy of the target's file",
    );
    PART_IN_PLACE = input(
        "an operation lists a value in `in_place` or `in_pieces` that is not there, or may not be there",
        "an `hbir.concat {in_place = [0]}` on `cpu` whose first operand is an argument, which has a buffer of its own",
        "remove the attribute `in_place`, or run `view-fold`, which writes it",
    );
    TARGET_LAYOUT = input(
        "the target does not accept the layouts of an operation",
        "a folded program in which an `hbir.add` on `cpu` reads one operand row-major and one column-major",
        "convert one operand with `hbir.layout_convert`, or run `view-fold`",
    );
}
