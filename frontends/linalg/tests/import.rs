//! The operations that linalg text becomes.

use optc_ir::text::print;

/// A function of one argument `%x` and one result `%r`, in generic form.
fn function(takes: &str, gives: &str, body: &str) -> String {
    format!(
        "\"func.func\"() <{{function_type = ({takes}) -> {gives}, sym_name = \"main\"}}> ({{\n\
         ^bb0(%x: {takes}):\n{body}\n\"func.return\"(%r) : ({gives}) -> ()\n}}) : () -> ()\n"
    )
}

/// Reads a text, and compares the operations with those wanted, each by a part of its line.
#[track_caller]
fn check(text: &str, wanted: &[&str]) {
    let import = optc_linalg::import(text).expect("the text is read");
    let printed = print(&import.module);
    let ops: Vec<&str> = printed
        .lines()
        .filter(|line| line.contains("= \"hbir."))
        .collect();
    let fit =
        ops.len() == wanted.len() && ops.iter().zip(wanted).all(|(op, part)| op.contains(part));
    assert!(fit, "{printed}");
}

/// The codes of a text that is refused, or of its remarks.
#[track_caller]
fn codes(text: &str, wanted: &[&str]) {
    let found = optc_linalg::import(text).map_or_else(|diags| diags, |import| import.diags);
    let found: Vec<&str> = found.iter().map(|diag| diag.code.as_str()).collect();
    assert_eq!(found, wanted, "{text}");
}

/// A `linalg.generic` of one operand and one result.
fn generic(maps: [&str; 2], kinds: &str, types: [&str; 2], begin: &str, body: &str) -> String {
    let [from, to] = types;
    let kinds: Vec<String> = kinds
        .split(' ')
        .map(|k| format!("#linalg.iterator_type<{k}>"))
        .collect();
    format!(
        "{begin}\n%r = \"linalg.generic\"(%x, %b) <{{indexing_maps = [affine_map<{}>, affine_map<{}>], \
         iterator_types = [{}], operandSegmentSizes = array<i32: 1, 1>}}> ({{\n\
         ^bb0(%i: f32, %o: f32):\n{body}\n\"linalg.yield\"(%v) : (f32) -> ()\n}}) : ({from}, {to}) -> {to}",
        maps[0],
        maps[1],
        kinds.join(", ")
    )
}

const EMPTY: &str = "%b = \"tensor.empty\"() : () -> tensor<3x2xf32>";

#[test]
fn a_generic_becomes_an_operation_in_the_order_of_its_loops() {
    let maps = ["(d0, d1) -> (d1, d0)", "(d0, d1) -> (d0, d1)"];
    let body = "%v = \"math.tanh\"(%i) : (f32) -> f32";
    let types = ["tensor<2x3xf32>", "tensor<3x2xf32>"];
    let text = function(
        types[0],
        types[1],
        &generic(maps, "parallel parallel", types, EMPTY, body),
    );
    check(
        &text,
        &["hbir.transpose\"(%x) <{perm = [1, 0]}>", "hbir.tanh\"(%0)"],
    );
}

#[test]
fn a_sum_begins_with_what_is_in_its_result() {
    let maps = ["(d0, d1) -> (d0, d1)", "(d0, d1) -> (d1)"];
    let body = "%v = \"arith.addf\"(%o, %i) : (f32, f32) -> f32";
    let types = ["tensor<2x3xf32>", "tensor<3xf32>"];
    let filled = |number: &str| {
        let begin = format!(
            "%n = \"arith.constant\"() <{{value = {number} : f32}}> : () -> f32\n\
             %e = \"tensor.empty\"() : () -> tensor<3xf32>\n\
             %b = \"linalg.fill\"(%n, %e) <{{operandSegmentSizes = array<i32: 1, 1>}}> ({{\n\
             ^bb0(%c: f32, %d: f32):\n\"linalg.yield\"(%c) : (f32) -> ()\n}}) : (f32, tensor<3xf32>) -> tensor<3xf32>"
        );
        function(
            types[0],
            types[1],
            &generic(maps, "reduction parallel", types, &begin, body),
        )
    };
    check(&filled("0.0"), &["hbir.reduce"]);
    check(
        &filled("1.5"),
        &["hbir.reduce", "hbir.constant", "hbir.add"],
    );
}

#[test]
fn a_pack_is_a_pad_a_reshape_and_a_transpose() {
    let pack = "%n = \"arith.constant\"() <{value = 0.0 : f32}> : () -> f32\n\
                %e = \"tensor.empty\"() : () -> tensor<3x2x4xf32>\n\
                %r = \"tensor.pack\"(%x, %e, %n) <{inner_dims_pos = array<i64: 0>, operandSegmentSizes = array<i32: 1, 1, 1, 0>, \
                outer_dims_perm = array<i64: 1, 0>, static_inner_tiles = array<i64: 4>}> : \
                (tensor<7x3xf32>, tensor<3x2x4xf32>, f32) -> tensor<3x2x4xf32>";
    let text = function("tensor<7x3xf32>", "tensor<3x2x4xf32>", pack);
    check(
        &text,
        &[
            "hbir.pad\"(%x) <{high = [1, 0]",
            "shape = [2, 4, 3]",
            "perm = [2, 0, 1]",
        ],
    );
}

#[test]
fn parts_that_fill_a_tensor_are_a_concatenation() {
    let insert = |name: &str, into: &str, at: u32| {
        format!(
            "%{name} = \"tensor.insert_slice\"(%x, %{into}) <{{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>, \
             static_offsets = array<i64: 0, {at}>, static_sizes = array<i64: 2, 3>, static_strides = array<i64: 1, 1>}}> : \
             (tensor<2x3xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>\n"
        )
    };
    let empty = "%b = \"tensor.empty\"() : () -> tensor<2x6xf32>\n";
    let both = |second| {
        function(
            "tensor<2x3xf32>",
            "tensor<2x6xf32>",
            &(empty.to_owned() + &insert("p", "b", 3) + &insert("r", "p", second)),
        )
    };
    check(&both(0), &["hbir.concat\"(%x, %x) <{axis = 1}>"]);
    // The parts overlap: they are written one after the other.
    let written = [
        "constant",
        "constant",
        "constant",
        "dynamic_update_slice",
        "constant",
        "constant",
        "dynamic_update_slice",
    ];
    check(&both(2), &written);
}

#[test]
fn what_is_not_understood_stays_with_the_numbers_that_it_reads() {
    let kept = "%c = \"arith.constant\"() <{value = 1 : index}> : () -> index\n\
                %e = \"tensor.extract\"(%x, %c, %c) : (tensor<2x3xf32>, index, index) -> f32\n\
                %r = \"tensor.generate\"() ({\n^bb0(%i: index, %j: index):\n\"tensor.yield\"(%e) : (f32) -> ()\n}) : () -> tensor<2x3xf32>";
    let text = function("tensor<2x3xf32>", "tensor<2x3xf32>", kept);
    check(
        &text,
        &[
            "mlir.before = [\"\\22arith.constant\\22() <{value = 1 : index}> : () -> index\", \
                    \"\\22tensor.extract\\22(%{0}, %{~0}, %{~0}) : (tensor<2x3xf32>, index, index) -> f32\"]",
        ],
    );
    codes(&text, &["linalg-opaque"]);
}

#[test]
fn texts_that_nest_too_deeply_are_refused() {
    let list = "[".repeat(1000) + &"]".repeat(1000);
    let deep = format!(
        "%r = \"arith.constant\"() <{{value = {list} : tensor<2xf32>}}> : () -> tensor<2xf32>"
    );
    codes(
        &function("tensor<2xf32>", "tensor<2xf32>", &deep),
        &["linalg-too-deep"],
    );
    // A chain of numbers that one operation reads.
    let mut chain = "%n0 = \"tensor.extract\"(%x) : (tensor<f32>) -> f32\n".to_owned();
    for i in 0..500 {
        chain += &format!("%n{} = \"math.exp\"(%n{i}) : (f32) -> f32\n", i + 1);
    }
    chain += "%r = \"tensor.from_elements\"(%n500) : (f32) -> tensor<f32>";
    codes(
        &function("tensor<f32>", "tensor<f32>", &chain),
        &["linalg-type"],
    );
}

#[test]
fn cut_off_texts_do_not_panic() {
    let maps = ["(d0, d1) -> (d0 * 2 + d1)", "(d0, d1) -> (d0)"];
    let body = "%v = \"arith.maximumf\"(%o, %i) : (f32, f32) -> f32";
    let types = ["tensor<7xf32>", "tensor<3xf32>"];
    let begin = "%b = \"arith.constant\"() <{value = dense<0xFF800000> : tensor<3xf32>}> : () -> tensor<3xf32>";
    let text = function(
        types[0],
        types[1],
        &generic(maps, "parallel reduction", types, begin, body),
    );
    let mut refused = 0;
    for end in 0..text.len() {
        refused += usize::from(optc_linalg::import(&text[..end]).is_err());
        let mut bytes = text.clone().into_bytes();
        bytes[end] = b"(<[%0\"x"[end % 7];
        refused += usize::from(
            std::str::from_utf8(&bytes).is_ok_and(|text| optc_linalg::import(text).is_err()),
        );
    }
    assert!(text.len() < refused, "most of the texts are refused");
}

#[test]
fn the_right_operand_of_a_product_has_the_innermost_dimension_of_the_result() {
    let x = "tensor<2x8x25xf32>";
    let body = "%w = \"arith.constant\"() <{value = dense<0.5> : tensor<4x8xf32>}> : () -> tensor<4x8xf32>
        %zero = \"arith.constant\"() <{value = 0.0 : f32}> : () -> f32
        %b = \"tensor.splat\"(%zero) : (f32) -> tensor<2x4x25xf32>
        %r = \"linalg.generic\"(%x, %w, %b) <{indexing_maps = [affine_map<(b, n, a, c) -> (b, c, a)>,
          affine_map<(b, n, a, c) -> (n, c)>, affine_map<(b, n, a, c) -> (b, n, a)>],
          iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>,
          #linalg.iterator_type<reduction>], operandSegmentSizes = array<i32: 2, 1>}> ({
        ^bb0(%i: f32, %f: f32, %o: f32):
          %p = \"arith.mulf\"(%i, %f) : (f32, f32) -> f32
          %q = \"arith.addf\"(%o, %p) : (f32, f32) -> f32
          \"linalg.yield\"(%q) : (f32) -> ()
        }) : (tensor<2x8x25xf32>, tensor<4x8xf32>, tensor<2x4x25xf32>) -> tensor<2x4x25xf32>";
    let product = "hbir.dot_general\"(%0, %x) <{lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [1]}>";
    check(
        &function(x, "tensor<2x4x25xf32>", body),
        &["hbir.constant", product, "hbir.transpose"],
    );
}

#[test]
fn printed_forms_are_read_and_named_operations_have_their_bodies() {
    check(
        "func.func @main(%q: tensor<4x5x8xf16>, %k: tensor<4x6x8xf16>) -> tensor<4x5x6xf32> {
          %zero = arith.constant 0.0 : f32
          %e = tensor.empty() : tensor<4x5x6xf32>
          %b = linalg.fill ins(%zero : f32) outs(%e : tensor<4x5x6xf32>) -> tensor<4x5x6xf32>
          %r = linalg.batch_matmul_transpose_b ins(%q, %k : tensor<4x5x8xf16>, tensor<4x6x8xf16>) outs(%b : tensor<4x5x6xf32>) -> tensor<4x5x6xf32>
          return %r : tensor<4x5x6xf32>
        }",
        &["hbir.dot_general\"(%q, %k) <{lhs_batch = [0], lhs_contract = [2], rhs_batch = [0], rhs_contract = [2], to = f32}>"],
    );
    check(
        "func.func @main(%x: tensor<1x9x9x4xf32>) -> tensor<1x4x4x4xf32> {
          %low = arith.constant 0xFF800000 : f32
          %w = tensor.empty() : tensor<3x3xf32>
          %e = tensor.empty() : tensor<1x4x4x4xf32>
          %b = linalg.fill ins(%low : f32) outs(%e : tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
          %p = linalg.pooling_nhwc_max {strides = dense<2> : tensor<2xi64>} ins(%x, %w : tensor<1x9x9x4xf32>, tensor<3x3xf32>)
               outs(%b : tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
          %r = linalg.map { math.tanh } ins(%p : tensor<1x4x4x4xf32>) outs(%e : tensor<1x4x4x4xf32>)
          return %r : tensor<1x4x4x4xf32>
        }",
        &["hbir.transpose", "hbir.max_pool", "hbir.transpose", "hbir.tanh"],
    );
    codes(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n%r = stablehlo.tanh %x : tensor<2xf32>\nreturn %r : tensor<2xf32>\n}",
        &["linalg-syntax"],
    );
}
