//! Import of JAX's StableHLO, emission, and import of the same program again; refusal of harmful input.

use optc_ir::Module;
use optc_ir::text::print;
use std::path::PathBuf;

fn modules() -> Vec<(PathBuf, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/modules");
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read_to_string(&path).unwrap()))
        .collect();
    found.sort();
    found
}

#[track_caller]
fn import(text: &str) -> Module {
    match optc_stablehlo::import(text) {
        Ok(import) => import.module,
        Err(diags) => panic!("{}", words(&diags)),
    }
}

fn words(diags: &[optc_ir::Diagnostic]) -> String {
    let each = diags.iter().map(|d| format!("{}: {}\n", d.code, d.message));
    each.collect()
}

/// Emits the program, after the pass that makes every value row-major.
fn emit(module: &Module) -> String {
    let compiler = optc::Compiler::new();
    let mut program = compiler.program("test", module.clone()).unwrap();
    compiler.compile(&mut program, "normalize-layouts").unwrap();
    written(&program.module)
}

fn written(module: &Module) -> String {
    let none = |_: &str, _: u64, _: u64, _: optc_ir::DType| Err("there are no files".to_owned());
    match optc_emit::stablehlo::emit(module, &optc_ops::registry(), None, &none) {
        Ok(emitted) => emitted.text,
        Err(diag) => panic!("{}", diag.message),
    }
}

/// The number of occurrences of an operation in a text, in pretty or generic form.
fn count(text: &str, name: &str) -> usize {
    let whole = |at: usize| {
        let after = text[at + name.len()..].chars().next();
        !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
    };
    text.match_indices(name)
        .filter(|(at, _)| whole(*at))
        .count()
}

/// The numbers of occurrences of those operations that import never expands. Clamps of indices are not counted: import
/// adds clamps to those of the text.
fn operations(text: &str) -> Vec<usize> {
    const NAMES: [&str; 14] = [
        "stablehlo.case",
        "stablehlo.convolution",
        "stablehlo.custom_call",
        "stablehlo.dot_general",
        "stablehlo.fft",
        "stablehlo.gather",
        "stablehlo.if",
        "stablehlo.reduce",
        "stablehlo.reduce_window",
        "stablehlo.scatter",
        "stablehlo.sort",
        "stablehlo.transpose",
        "stablehlo.while",
        "chlo.top_k",
    ];
    NAMES.iter().map(|name| count(text, name)).collect()
}

#[test]
fn modules_come_out_as_they_went_in() {
    let all = modules();
    assert!(10 <= all.len());
    for (path, text) in all {
        let first = import(&text);
        optc_ir::verify::verify(&first, &optc_ops::registry())
            .unwrap_or_else(|diags| panic!("{}: {}", path.display(), words(&diags)));
        let out = emit(&first);
        let again = emit(&import(&out));
        let third = emit(&import(&again));
        assert_eq!(operations(&again), operations(&third), "{}", path.display());
        for name in [
            "stablehlo.while",
            "stablehlo.custom_call",
            "stablehlo.dot_general",
            "stablehlo.convolution",
            "chlo.erfc",
            "chlo.top_k",
            "stablehlo.sort",
            "stablehlo.scatter",
            "stablehlo.fft",
        ] {
            assert!(
                count(&out, name) <= count(&text, name),
                "{name} of {}",
                path.display()
            );
        }
        let kept = [
            "stablehlo.custom_call",
            "stablehlo.while",
            "chlo.top_k",
            "stablehlo.sort",
            "jax.result_info",
            "tf.aliasing_output",
        ];
        for name in kept {
            assert_eq!(
                count(&out, name),
                count(&text, name),
                "{name} of {}",
                path.display()
            );
        }
    }
}

#[test]
fn pretty_generic_and_located_text_are_one_program() {
    let all = modules();
    let of = |name: &str| {
        let (_, text) = all.iter().find(|(path, _)| path.ends_with(name)).unwrap();
        let mut module = import(text);
        for func in &mut module.funcs {
            let ops: Vec<_> = func.body.clone();
            for op in ops {
                func.ops[op].loc = optc_ir::Loc::Unknown;
            }
        }
        module.attrs = optc_ir::AttrDict::new();
        // The comparison ignores value names.
        module.funcs.iter().map(|f| f.body.len()).sum::<usize>()
            + print(&module).matches("hbir.").count()
    };
    let pretty = of("attention.mlir");
    assert_eq!(pretty, of("attention_generic.mlir"));
    assert_eq!(pretty, of("attention_locations.mlir"));
}

#[test]
fn a_value_that_is_not_row_major_is_refused() {
    let text = "%0 = \"hbir.relu\"(%x) : (tensor<2x3xf32, {order = [1, 0]}>) -> tensor<2x3xf32, {order = [1, 0]}>\n";
    let module = optc_ir::text::parse(text).unwrap();
    let none = |_: &str, _: u64, _: u64, _: optc_ir::DType| Err("there are no files".to_owned());
    let diag = optc_emit::stablehlo::emit(&module, &optc_ops::registry(), None, &none).unwrap_err();
    assert_eq!(diag.code.as_str(), "stablehlo-layout");
}

#[test]
fn names_of_places_are_kept() {
    let all = modules();
    let (_, text) = all
        .iter()
        .find(|(path, _)| path.ends_with("attention_locations.mlir"))
        .unwrap();
    let out = emit(&import(text));
    assert!(out.contains("loc(\"jit(attention)/"), "{out}");
}

#[track_caller]
fn refused(text: &str, code: &str) {
    match optc_stablehlo::import(text) {
        Ok(_) => panic!("taken: {}", &text[..text.len().min(200)]),
        Err(diags) => assert_eq!(diags[0].code.as_str(), code, "{}", words(&diags)),
    }
}

fn body(inside: &str) -> String {
    format!(
        "func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {{\n{inside}\n  return %arg0 : tensor<4xf32>\n}}\n"
    )
}

#[test]
fn returns_that_contradict_the_function_are_refused() {
    let text = |to: &str, said: &str| {
        format!("func.func @main(%arg0: tensor<2x3xf32>) -> {to} {{\n  return %arg0 : {said}\n}}\n")
    };
    let own = "tensor<2x3xf32>";
    assert!(optc_stablehlo::import(&text(own, own)).is_ok());
    for to in [
        "tensor<3x2xf32>",
        "tensor<2x3xi32>",
        "tensor<2x3x1xf32>",
        "(tensor<2x3xf32>, tensor<2x3xf32>)",
    ] {
        refused(&text(to, own), "stablehlo-type");
    }
    refused(&text(own, "tensor<3x2xf32>"), "stablehlo-type");
    refused(
        &text("tensor<3x2xf32>", "tensor<3x2xf32>"),
        "stablehlo-type",
    );
}

#[test]
fn what_harms_is_refused() {
    let deep = |open: &str, close: &str| open.repeat(100_000) + &close.repeat(100_000);
    let lists = format!(
        "%0 = stablehlo.constant dense<{}> : tensor<4xf32>",
        deep("[", "]")
    );
    refused(&body(&lists), "stablehlo-too-deep");
    let regions = format!(
        "\"test.op\"() ({}) : () -> ()",
        "{ \"test.op\"() (".repeat(50_000)
    );
    refused(&body(&regions), "stablehlo-too-deep");
    refused(
        &body("%0 = stablehlo.constant dense<\"0xFF> : tensor<4xf32>"),
        "stablehlo-syntax",
    );
    refused(
        &body("%0 = stablehlo.constant dense<\"0xZZ\"> : tensor<4xf32>"),
        "stablehlo-constant",
    );
    refused(
        &body("%0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<1000000000xf32>"),
        "stablehlo-constant",
    );
    refused(
        &body("%0 = stablehlo.constant dense<1.0> : tensor<99999999999999999999999xf32>"),
        "stablehlo-type",
    );
    refused(
        &body("%0:4000000000 = \"test.op\"() : () -> ()"),
        "stablehlo-syntax",
    );
    refused(
        "func.func @main() { call @main() : () -> ()\n return }",
        "stablehlo-function",
    );
    refused("module {", "stablehlo-syntax");
    refused("", "stablehlo-function");
}

#[test]
fn a_splat_takes_no_memory() {
    let text = "func.func @main() -> tensor<1000x1000x1000xf32> {\n\
                %0 = stablehlo.constant dense<1.5> : tensor<1000x1000x1000xf32>\n\
                return %0 : tensor<1000x1000x1000xf32>\n}\n";
    let out = emit(&import(text));
    assert!(
        out.contains("dense<1.5e+0> : tensor<1000x1000x1000xf32>"),
        "{out}"
    );
    assert!(out.len() < 1000);
}

#[test]
fn sizes_that_overflow_are_opaque() {
    let text = "func.func @main(%arg0: tensor<4294967296x4294967296x16xf32>) -> tensor<4294967296x4294967296x16xf32> {\n\
                %0 = stablehlo.add %arg0, %arg0 : tensor<4294967296x4294967296x16xf32>\n\
                return %0 : tensor<4294967296x4294967296x16xf32>\n}\n";
    let module = import(text);
    let func = &module.funcs[0];
    assert_eq!(&*func.ops[func.body[0]].name, "hbir.opaque");
}

#[test]
fn unknown_sizes_and_resources_go_through() {
    let text = "func.func @main(%arg0: tensor<?x3xf32>) -> tensor<?x3xf32> {\n\
                %0 = stablehlo.constant dense_resource<weights> : tensor<2xf32>\n\
                %1 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>\n\
                %2 = stablehlo.add %arg0, %arg0 : tensor<?x3xf32>\n\
                %3 = \"stablehlo.custom_call\"(%2, %0, %1) <{call_target_name = \"f\"}> : (tensor<?x3xf32>, tensor<2xf32>, tensor<i32>) -> tensor<?x3xf32>\n\
                return %3 : tensor<?x3xf32>\n}\n\
                {-#\n  dialect_resources: {\n    builtin: {\n      weights: \"0x040000000000803F00000040\"\n    }\n  }\n#-}\n";
    let out = emit(&import(text));
    assert!(
        out.contains("dense<[1.0e+0, 2.0e+0]> : tensor<2xf32>"),
        "{out}"
    );
    assert!(
        out.contains("tensor<?x3xf32>") && out.contains("call_target_name = \"f\""),
        "{out}"
    );
}

/// The types of the arguments and results of `@main`.
fn boundary(text: &str) -> String {
    let module = import(text);
    let func = module.funcs.iter().find(|f| &*f.name == "main").unwrap();
    let values = func.args.iter().chain(&func.results);
    let types = values.map(|&v| optc_ir::text::print_type(func.ty(v)));
    types.collect::<Vec<_>>().join(" ")
}

#[test]
fn integers_say_what_unknown_sizes_are() {
    // A reshape whose sizes are computed from the argument's: the product of two of them.
    let text = "func.func @main(%x: tensor<?x?x4xf32>) -> tensor<4x?xf32> {\n\
         %c = stablehlo.constant dense<4> : tensor<1xi32>\n\
         %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?x4xf32>) -> tensor<i32>\n\
         %1 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?x4xf32>) -> tensor<i32>\n\
         %2 = stablehlo.multiply %0, %1 : tensor<i32>\n\
         %3 = stablehlo.reshape %2 : (tensor<i32>) -> tensor<1xi32>\n\
         %4 = stablehlo.concatenate %c, %3, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n\
         %5 = stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<?x?x4xf32>) -> tensor<4x?x?xf32>\n\
         %6 = stablehlo.dynamic_reshape %5, %4 : (tensor<4x?x?xf32>, tensor<2xi32>) -> tensor<4x?xf32>\n\
         return %6 : tensor<4x?xf32>\n}\n";
    assert_eq!(
        boundary(text),
        "tensor<?x?x4xf32, {dims = [\"n0\", \"n1\", 4]}> tensor<4x?xf32, {dims = [4, \"n0*n1\"]}>"
    );
    let out = emit(&import(text));
    assert_eq!(count(&out, "stablehlo.dynamic_reshape"), 1, "{out}");
    assert_eq!(boundary(&out), boundary(text));
}

#[test]
fn a_reshape_to_other_sizes_stays_what_it_is() {
    // Nothing says that the two sizes are equal.
    let text = "func.func @main(%x: tensor<?xf32>, %n: tensor<1xi32>) -> tensor<?xf32> {\n\
                %0 = stablehlo.dynamic_reshape %x, %n : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>\n\
                return %0 : tensor<?xf32>\n}\n";
    assert_eq!(
        boundary(text),
        "tensor<?xf32, {dims = [\"n0\"]}> tensor<1xsi32> tensor<?xf32, {dims = [\"n2\"]}>"
    );
    let out = emit(&import(text));
    assert!(out.contains("stablehlo.dynamic_reshape %x, %n"), "{out}");
}

/// A program whose `@main` has `%x: tensor<?x8xf32>`; `%n` is the first size, and `%s` the same as a tensor of one
/// element.
fn sized(arguments: &str, result: &str, inside: &str) -> String {
    format!(
        "func.func @main(%x: tensor<?x8xf32>{arguments}) -> {result} {{\n\
         %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>\n\
         %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n\
         %zero = stablehlo.constant dense<0> : tensor<1xi32>\n\
         %one = stablehlo.constant dense<1> : tensor<1xi32>\n\
         %eight = stablehlo.constant dense<8> : tensor<1xi32>\n\
         %fill = stablehlo.constant dense<0.0> : tensor<f32>\n\
         %0 = stablehlo.concatenate %zero, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n\
         %1 = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n\
         %whole = stablehlo.concatenate %s, %eight, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n\
         {inside}\n  return %y : {result}\n}}\n\
         func.func @add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {{\n\
         %0 = stablehlo.add %a, %b : tensor<f32>\n  return %0 : tensor<f32>\n}}\n"
    )
}

const SLICE: &str = "%y = stablehlo.real_dynamic_slice %x, %from, %to, %1 : (tensor<?x8xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x8xf32>";

/// The names of the operations of `@main`, without the arithmetic of sizes.
fn kinds(module: &Module) -> Vec<String> {
    let func = module.funcs.iter().find(|f| &*f.name == "main").unwrap();
    let named = |op: &optc_ir::OpData| match op.props.str("kind") {
        Some(kind) => kind.to_owned(),
        None => op.name.to_string(),
    };
    let all = func.body.iter().map(|&op| named(&func.ops[op]));
    let sizes = [
        "hbir.constant",
        "hbir.view",
        "hbir.concat",
        "get-dimension-size",
    ];
    all.filter(|name| !sizes.contains(&name.as_str())).collect()
}

#[test]
fn operations_that_are_handed_sizes_are_ordinary_ones() {
    let from = "%from = stablehlo.concatenate %zero, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n\
                %less = stablehlo.subtract %s, %one : tensor<1xi32>\n\
                %to = stablehlo.concatenate %less, %eight, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n";
    let last = "%less = stablehlo.subtract %s, %one : tensor<1xi32>\n\
                %sizes = stablehlo.concatenate %one, %eight, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n\
                %y = \"stablehlo.dynamic_gather\"(%x, %less, %sizes) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0]>}> : (tensor<?x8xf32>, tensor<1xi32>, tensor<2xi32>) -> tensor<8xf32>";
    let columns = "%sizes = stablehlo.concatenate %s, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n\
                   %y = \"stablehlo.dynamic_gather\"(%x, %i, %sizes) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>}> : (tensor<?x8xf32>, tensor<3x1xi32>, tensor<2xi32>) -> tensor<?x3xf32>";
    let rows = columns
        .replace("%s, %one", "%one, %eight")
        .replace("offset_dims = [0]", "offset_dims = [1]")
        .replace("[1], start_index_map = [1]", "[0], start_index_map = [0]")
        .replace("tensor<?x3xf32>", "tensor<3x8xf32>");
    let pad = "%y = stablehlo.dynamic_pad %x, %fill, %1, %0, %0 : (tensor<?x8xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x9xf32>";
    let pad_by_size = "%high = stablehlo.concatenate %s, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n".to_owned()
        + &pad.replace("%1, %0, %0", "%0, %high, %0").replace("?x9", "?x8");
    let sums = "%less = stablehlo.subtract %s, %one : tensor<1xi32>\n\
                %w = stablehlo.concatenate %s, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n\
                %p = stablehlo.concatenate %less, %zero, %zero, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi32>\n\
                %q = stablehlo.reshape %p : (tensor<4xi32>) -> tensor<2x2xi32>\n\
                %y = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %fill, %w, %1, %1, %1, %q) {called_computations = [@add]} : (tensor<?x8xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<?x8xf32>";
    let placed = "%sizes = stablehlo.concatenate %s, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n\
                  %to = stablehlo.add %from, %sizes : tensor<2xi32>\n".to_owned()
        + &SLICE.replace("-> tensor<?x8", "-> tensor<?x1");
    let open = "tensor<?x8xf32>";
    let cases: [(&str, &str, &str, &[&str]); 8] = [
        (
            "",
            open,
            &(from.to_owned() + SLICE),
            &["hbir.sub", "hbir.slice"],
        ),
        ("", "tensor<8xf32>", last, &["hbir.sub", "hbir.slice"]),
        (
            ", %i: tensor<3x1xi32>",
            "tensor<?x3xf32>",
            columns,
            &["hbir.clamp", "hbir.gather"],
        ),
        (
            ", %i: tensor<3x1xi32>",
            "tensor<3x8xf32>",
            &rows,
            // The position of the last row, and the operations that clamp positions to it.
            &[
                "hbir.iota",
                "hbir.slice",
                "hbir.min",
                "hbir.max",
                "hbir.gather",
            ],
        ),
        ("", "tensor<?x9xf32>", pad, &["hbir.pad"]),
        ("", open, &pad_by_size, &["hbir.broadcast"]),
        ("", open, sums, &["hbir.sub", "hbir.cumsum"]),
        (
            ", %from: tensor<2xi32>",
            "tensor<?x1xf32>",
            &placed,
            &[
                "hbir.add",
                "hbir.slice",
                "hbir.slice",
                "hbir.clamp",
                "hbir.gather",
            ],
        ),
    ];
    for (arguments, result, inside, wanted) in cases {
        let text = sized(arguments, result, inside);
        let module = import(&text);
        assert_eq!(kinds(&module), wanted, "{}", print(&module));
        let out = emit(&module);
        // The written text has sizes as operands again, and is imported as the same program.
        assert_eq!(boundary(&out), boundary(&text), "{out}");
        assert!(!out.contains("hbir."), "{out}");
    }
}

#[test]
fn a_gather_of_evenly_spaced_places_is_a_slice() {
    // `x[:, 1:, ::2]` in JAX's form for an unknown first size: columns 0, 2, 4 and 6, each from element 1 on; columns
    // come last.
    let text = "func.func @main(%x: tensor<?x7x8xf32>) -> tensor<?x6x4xf32> {\n\
        %c = stablehlo.constant dense<6> : tensor<1xi32>\n\
        %one = stablehlo.constant dense<1> : tensor<1xi32>\n\
        %two = stablehlo.constant dense<2> : tensor<4xi32>\n\
        %first = stablehlo.constant dense<1> : tensor<4x1xi32>\n\
        %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x7x8xf32>) -> tensor<i32>\n\
        %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n\
        %0 = stablehlo.iota dim = 0 : tensor<4xi32>\n\
        %1 = stablehlo.multiply %two, %0 : tensor<4xi32>\n\
        %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>\n\
        %3 = stablehlo.concatenate %first, %2, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>\n\
        %4 = stablehlo.concatenate %s, %c, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3xi32>\n\
        %y = \"stablehlo.dynamic_gather\"(%x, %3, %4) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], collapsed_slice_dims = [2], start_index_map = [1, 2], index_vector_dim = 1>}> : (tensor<?x7x8xf32>, tensor<4x2xi32>, tensor<3xi32>) -> tensor<?x6x4xf32>\n\
        return %y : tensor<?x6x4xf32>\n}\n";
    let module = import(text);
    let slice =
        "\"hbir.slice\"(%x) <{limits = [\"n0\", 7, 8], starts = [0, 1, 0], strides = [1, 1, 2]}>";
    assert!(print(&module).contains(slice), "{}", print(&module));
    let out = emit(&module);
    assert_eq!(count(&out, "stablehlo.dynamic_gather"), 0, "{out}");
    assert_eq!(boundary(&out), boundary(text), "{out}");
    // Consecutive row positions are a transpose; positions outside of the operand and diagonal positions are no slice.
    let first = text
        .replace("offset_dims = [0, 1]", "offset_dims = [1, 2]")
        .replace("tensor<?x6x4xf32>", "tensor<4x?x6xf32>");
    let module = import(&first);
    assert!(
        print(&module).contains("hbir.transpose"),
        "{}",
        print(&module)
    );
    let beyond = text
        .replace("tensor<4xi32>", "tensor<5xi32>")
        .replace("4x1xi32", "5x1xi32");
    let beyond = beyond
        .replace("4x2xi32", "5x2xi32")
        .replace("?x6x4", "?x6x5");
    let diagonal = text
        .replace("%first, %2, dim", "%2, %2, dim")
        .replace("%s, %c, %one", "%s, %one, %one")
        .replace(
            "offset_dims = [0, 1], collapsed_slice_dims = [2]",
            "offset_dims = [0], collapsed_slice_dims = [1, 2]",
        )
        .replace("?x6x4", "?x4");
    for text in [beyond, diagonal] {
        let out = emit(&import(&text));
        assert_eq!(count(&out, "stablehlo.dynamic_gather"), 1, "{out}");
    }
}

#[test]
fn operations_that_are_handed_other_values_stay_what_they_are() {
    let arguments = ", %from: tensor<2xi32>, %to: tensor<2xi32>";
    let out = emit(&import(&sized(arguments, "tensor<?x8xf32>", SLICE)));
    assert!(
        out.contains("stablehlo.real_dynamic_slice %x, %from, %to,"),
        "{out}"
    );
    // Lists that are too short, and a start after the end.
    for (from, to) in [("%zero", "%s"), ("%whole", "%1")] {
        let of = if from == "%zero" { 1 } else { 2 };
        let slice = SLICE.replace("%from", from).replace("%to", to).replacen(
            "tensor<2xi32>, tensor<2xi32>",
            &format!("tensor<{of}xi32>, tensor<{of}xi32>"),
            1,
        );
        let out = emit(&import(&sized("", "tensor<?x8xf32>", &slice)));
        assert_eq!(count(&out, "stablehlo.real_dynamic_slice"), 1, "{out}");
    }
    // Interleaved rows are not the list of the padding: it is 0, 1, 0, 1 instead of 0, 0, 1, 1.
    let text = "func.func @main(%x: tensor<?x8x8x3xf32>, %w: tensor<3x3x3x4xf32>) -> tensor<?x7x7x4xf32> {\n\
        %0 = stablehlo.constant dense<0> : tensor<2x1xi32>\n\
        %1 = stablehlo.constant dense<1> : tensor<2x1xi32>\n\
        %p = stablehlo.concatenate %0, %1, dim = 1 : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x2xi32>\n\
        %y = \"stablehlo.dynamic_conv\"(%x, %w, %p) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64}> : (tensor<?x8x8x3xf32>, tensor<3x3x3x4xf32>, tensor<2x2xi32>) -> tensor<?x7x7x4xf32>\n\
        return %y : tensor<?x7x7x4xf32>\n}\n";
    assert_eq!(count(&emit(&import(text)), "stablehlo.dynamic_conv"), 1);
    // With rows in order the padding is known, and the convolution is translated.
    let rows = text
        .replace("2x1xi32", "1x2xi32")
        .replace(
            "dense<1> : tensor<1x2xi32>",
            "dense<[[0, 1]]> : tensor<1x2xi32>",
        )
        .replace(
            "dense<0> : tensor<1x2xi32>",
            "dense<[[0, 1]]> : tensor<1x2xi32>",
        )
        .replace("dim = 1 :", "dim = 0 :");
    let out = emit(&import(&rows));
    assert_eq!(count(&out, "stablehlo.convolution"), 1, "{out}");
    assert!(out.contains("padding = dense<[[0, 1], [0, 1]]>"), "{out}");
}

#[test]
fn assertions_say_which_sizes_are_one() {
    let compared = |direction: &str| {
        format!(
            "func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {{\n\
             %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>\n\
             %1 = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?xf32>) -> tensor<i32>\n\
             %2 = stablehlo.compare {direction}, %1, %0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n\
             stablehlo.custom_call @shape_assertion(%2) {{has_side_effect = true}} : (tensor<i1>) -> ()\n\
             return %y : tensor<?xf32>\n}}\n"
        )
    };
    assert_eq!(
        boundary(&compared("EQ")),
        ["tensor<?xf32, {dims = [\"n0\"]}>"; 3].join(" ")
    );
    assert!(boundary(&compared("GE")).contains("n1"));
}

/// The type of `dynamic_iota` for a size computed from `%n`, the size of the argument, with `%k` = 8.
fn computed(arithmetic: &str) -> String {
    let text = format!(
        "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {{\n\
         %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>\n\
         %zero = stablehlo.constant dense<0> : tensor<i32>\n  %one = stablehlo.constant dense<1> : tensor<i32>\n\
         %k = stablehlo.constant dense<8> : tensor<i32>\n{arithmetic}\
         %s = stablehlo.reshape %y : (tensor<i32>) -> tensor<1xi32>\n\
         %z = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>\n  return %z : tensor<?xf32>\n}}\n\
         func.func private @choice(%a: tensor<i1>, %b: tensor<i32>, %c: tensor<i32>) -> tensor<i32> {{\n\
         %0 = stablehlo.select %a, %b, %c : tensor<i1>, tensor<i32>\n  return %0 : tensor<i32>\n}}\n"
    );
    let types = boundary(&text);
    types.rsplit_once(" tensor").unwrap().1.to_owned()
}

#[test]
fn divisions_of_something_negative_round_down() {
    let less = "%a = stablehlo.subtract %n, %k : tensor<i32>\n";
    let down = "%q = stablehlo.divide %a, %k : tensor<i32>\n\
                %sa = stablehlo.sign %a : tensor<i32>\n  %sk = stablehlo.sign %k : tensor<i32>\n\
                %c = stablehlo.compare NE, %sa, %sk, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n\
                %r = stablehlo.remainder %a, %k : tensor<i32>\n\
                %d = stablehlo.compare NE, %r, %zero, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n\
                %e = stablehlo.and %c, %d : tensor<i1>\n  %p = stablehlo.subtract %q, %one : tensor<i32>\n\
                %y = call @choice(%e, %p, %q) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>\n";
    let rest = "%r = stablehlo.remainder %a, %k : tensor<i32>\n\
                %d = stablehlo.compare NE, %r, %zero, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n\
                %c = stablehlo.compare LT, %r, %zero, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n\
                %f = stablehlo.compare LT, %k, %zero, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n\
                %g = stablehlo.compare NE, %c, %f, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>\n\
                %e = stablehlo.and %g, %d : tensor<i1>\n  %p = stablehlo.add %r, %k : tensor<i32>\n\
                %y = stablehlo.select %e, %p, %r : tensor<i1>, tensor<i32>\n";
    let minus = "%a = stablehlo.subtract %zero, %n : tensor<i32>\n";
    assert_eq!(
        computed(&format!("{less}{down}")),
        "<?xf32, {dims = [\"(n0//8)-1\"]}>"
    );
    assert_eq!(
        computed(&format!("{minus}{rest}")),
        "<?xf32, {dims = [\"7*n0-8*((7*n0)//8)\"]}>"
    );
    // Any other correction of the division is not recognized.
    for (from, to) in [
        ("NE, %r", "EQ, %r"),
        ("%q, %one", "%q, %k"),
        ("%e, %p, %q", "%e, %q, %p"),
    ] {
        let other = down.replacen(from, to, 1);
        assert_ne!(other, down);
        let found = computed(&format!("{less}{other}"));
        assert!(!found.contains("n0"), "{found}");
    }
}

#[test]
fn functions_are_read_for_the_sizes_that_they_are_called_with() {
    let text = "func.func @main(%x: tensor<?x2xf32>, %y: tensor<?x2xf32>) -> (tensor<2x?xf32>, tensor<2x?xf32>) {\n\
                %0 = call @turned(%x) : (tensor<?x2xf32>) -> tensor<2x?xf32>\n\
                %1 = call @turned(%y) : (tensor<?x2xf32>) -> tensor<2x?xf32>\n\
                return %0, %1 : tensor<2x?xf32>, tensor<2x?xf32>\n}\n\
                func.func private @turned(%x: tensor<?x2xf32>) -> tensor<2x?xf32> {\n\
                %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<?x2xf32>) -> tensor<2x?xf32>\n\
                return %0 : tensor<2x?xf32>\n}\n";
    let types = boundary(text);
    assert!(
        types.ends_with(
            "tensor<2x?xf32, {dims = [2, \"n0\"]}> tensor<2x?xf32, {dims = [2, \"n1\"]}>"
        ),
        "{types}"
    );
    let out = emit(&import(text));
    assert_eq!(count(&out, "stablehlo.transpose"), 2, "{out}");
    // Deeply nested calls are refused.
    let nested = |count: usize| {
        let mut text = String::new();
        for n in 0..count {
            let (name, next) = (format!("f{n}"), format!("f{}", n + 1));
            let name = if n == 0 { "main" } else { &name };
            text.push_str(&format!(
                "func.func @{name}(%x: tensor<?xf32>) -> tensor<?xf32> {{\n\
                 %0 = call @{next}(%x) : (tensor<?xf32>) -> tensor<?xf32>\n\
                 return %0 : tensor<?xf32>\n}}\n"
            ));
        }
        text + &format!(
            "func.func @f{count}(%x: tensor<?xf32>) -> tensor<?xf32> {{\nreturn %x : tensor<?xf32>\n}}\n"
        )
    };
    import(&nested(20));
    refused(&nested(100), "stablehlo-function");
    // A function that calls itself is refused too.
    let circle = text.replace("stablehlo.transpose %x, dims = [1, 0]", "call @turned(%x)");
    refused(&circle, "stablehlo-function");
}

#[test]
fn what_is_left_out_stays_out_with_a_warning() {
    let text = "func.func @main() -> tensor<2xf32> {\n\
                %0 = stablehlo.constant dense_resource<__elided__> : tensor<2xf32>\n\
                return %0 : tensor<2xf32>\n}\n";
    let none = |_: &str, _: u64, _: u64, _: optc_ir::DType| Err("there are no files".to_owned());
    let emitted =
        optc_emit::stablehlo::emit(&import(text), &optc_ops::registry(), None, &none).unwrap();
    assert!(emitted.text.contains("dense_resource<__elided__>"));
    assert_eq!(emitted.warnings.len(), 1);
}

#[test]
fn every_cut_of_a_text_is_refused_or_read() {
    for (_, text) in modules() {
        let step = text.len() / 150 + 1;
        for end in (0..text.len()).step_by(step) {
            if let Some(cut) = text.get(..end) {
                let _ = optc_stablehlo::import(cut);
            }
            let changed: String = text
                .char_indices()
                .filter(|(i, _)| *i != end)
                .map(|(_, c)| c)
                .collect();
            if let Ok(import) = optc_stablehlo::import(&changed) {
                let none = |_: &str, _: u64, _: u64, _: optc_ir::DType| {
                    Err("there are no files".to_owned())
                };
                let _ =
                    optc_emit::stablehlo::emit(&import.module, &optc_ops::registry(), None, &none);
            }
        }
    }
}
