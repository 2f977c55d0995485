//! Import of HLO text into programs, and emission of programs as HLO text.

use indexmap::IndexMap;
use optc_compare::{Fill, random_inputs};
use optc_emit::hlo;
use optc_hlo::{Strictness, import, parse};
use optc_interp::{NoData, run_reference};
use optc_ir::text::print;
use optc_ir::verify::verify;
use optc_ir::{Bindings, Diagnostic, Module, Severity};

const TILED: &str = include_str!("modules/tiled.hlo");
const CONTROL: &str = include_str!("modules/control.hlo");
const CONTRACTIONS: &str = include_str!("modules/contractions.hlo");

/// Imports a text. The module must verify, and its printed text must read back.
#[track_caller]
fn imported(text: &str) -> Module {
    let import = import(text).unwrap_or_else(|d| panic!("{d:?}"));
    verify(&import.module, &optc_ops::registry()).unwrap_or_else(|d| panic!("{d:?}"));
    let printed = print(&import.module);
    let again = optc_ir::text::parse(&printed).unwrap_or_else(|d| panic!("{d:?}\n{printed}"));
    assert_eq!(print(&again), printed);
    import.module
}

/// The program as HLO text; there are no files with constants.
fn emit(module: &Module) -> Result<String, Box<Diagnostic>> {
    let none = |_: &str, _, _, _| Err("no files".to_owned());
    let made = hlo::emit(module, &optc_ops::registry(), None, &none)?;
    Ok(made.text)
}

/// Emits the program as HLO text, which must import as the same operations.
#[track_caller]
fn emitted(module: &Module) -> String {
    let text = emit(module).unwrap_or_else(|d| panic!("{d:?}"));
    let (_, diags) = parse(&text, Strictness::Exact);
    assert!(diags.is_empty(), "{diags:?}\n{text}");
    imported(&text);
    text
}

/// A module whose entry has these instructions.
fn entry(instructions: &str) -> String {
    format!("HloModule m\nENTRY e {{\n{instructions}\n}}\n")
}

#[test]
fn bitcasts_are_views_and_copies_conversions() {
    let module = imported(TILED);
    let text = print(&module);
    assert!(
        text.contains("\"hbir.view\"(%x.1) <{perm = [1, 0, 2], shape = [197, 12, 64]}>"),
        "{text}"
    );
    assert_eq!(text.matches("\"hbir.layout_convert\"").count(), 3, "{text}");
    assert!(
        text.contains("xla = \"2,3,1,0:T(8,128)(2,1)S(1)\""),
        "{text}"
    );
    let back = emitted(&module);
    assert!(back.contains(" copy-start("), "{back}");
    assert!(
        back.contains("entry_computation_layout={(bf16[1,197,12,64]{1,3,2,0:T(8,128)(2,1)})->")
    );
    assert!(back.contains("is_scheduled=true"), "{back}");
    assert!(back.contains("sharding={replicated}"), "{back}");
    assert!(back.contains("backend_config={\"window_config\""), "{back}");
}

#[test]
fn a_copy_of_the_same_function_is_a_view() {
    let text =
        entry("a = f32[1,3,1,4]{3,2,1,0} parameter(0)\nROOT b = f32[1,3,1,4]{3,1,0,2} copy(a)");
    let module = imported(&text);
    assert!(
        print(&module).contains("\"hbir.view\"(%a)"),
        "{}",
        print(&module)
    );
    emitted(&module);
}

#[test]
fn a_window_partition_across_tiles_is_a_view() {
    let text = entry(
        "a = f32[8,128]{1,0:T(8,128)} parameter(0)\n\
         ROOT b = f32[2,4,128]{2,1,0:T(4,128)} bitcast(a)",
    );
    assert!(print(&imported(&text)).contains("\"hbir.view\"(%a)"));
}

#[test]
fn a_bitcast_between_memory_spaces_moves_nothing() {
    let text = entry(
        "a = f32[8,128]{1,0:T(8,128)S(1)} parameter(0)\n\
         ROOT b = f32[8,128]{1,0:T(8,128)} bitcast(a)",
    );
    let module = imported(&text);
    let printed = print(&module);
    assert!(printed.contains("\"hbir.identity\""), "{printed}");
    assert!(!printed.contains("layout_convert"), "{printed}");
    let back = emitted(&module);
    assert!(!back.contains(" copy("), "{back}");
}

#[test]
fn control_flow_keeps_its_computations() {
    let module = imported(CONTROL);
    let text = print(&module);
    assert!(
        text.contains("condition = @cond") || text.contains("hlo.condition = @cond"),
        "{text}"
    );
    assert!(text.contains("hlo.fusion = \"kLoop\""), "{text}");
    assert!(text.contains("kind = \"min\""), "{text}");
    assert!(text.contains("hlo.to_apply = @odd"), "{text}");
    let back = emitted(&module);
    for part in [
        " while(",
        "condition=%cond",
        "body=%body",
        "backend_config={\"known_trip_count\":{\"n\":\"10\"}}",
        "kind=kLoop, calls=%square",
        "to_apply=%odd",
        "c64[2]{0} negate(",
    ] {
        assert!(back.contains(part), "no {part} in\n{back}");
    }
}

#[test]
fn opaque_instructions_are_counted_in_remarks() {
    let import = import(CONTROL).unwrap();
    let remarks: Vec<&str> = import
        .diags
        .iter()
        .filter(|d| d.severity == Severity::Remark && d.code == "hlo-opaque")
        .map(|d| d.message.as_str())
        .collect();
    assert_eq!(remarks.len(), 3, "{remarks:?}");
    assert!(
        remarks[0].starts_with("`while` has no equivalent"),
        "{remarks:?}"
    );
}

#[test]
fn a_fusion_of_other_operands_is_refused() {
    let text = "f { p = f32[4] parameter(0)\n ROOT q = f32[4] negate(p) }\n\
        ENTRY e { a = f32[5] parameter(0)\n ROOT r = f32[4] fusion(a), kind=kLoop, calls=f }";
    let diags = import(text).unwrap_err();
    assert_eq!(diags[0].code, "hlo-import");
}

/// A convolution that is a contraction computes the same as the dot beside it, and so does the emitted program.
#[test]
fn convolutions_that_are_contractions_are_computed_as_such() {
    let module = imported(CONTRACTIONS);
    let text = print(&module);
    assert_eq!(text.matches("\"hbir.conv\"").count(), 2, "{text}");
    assert_eq!(text.matches("\"hbir.dot_general\"").count(), 7, "{text}");
    let again = imported(&emitted(&module));
    for module in [&module, &again] {
        let results = run(module);
        assert_eq!(results.len(), 10);
        for pair in 0..5 {
            let (a, b) = (&results[2 * pair], &results[2 * pair + 1]);
            assert_eq!(a.shape, b.shape, "pair {pair}");
            for i in 0..a.len() {
                let (x, y) = (a.f64_at(i), b.f64_at(i));
                assert!(
                    (x - y).abs() <= 1e-4 * y.abs().max(1.0),
                    "pair {pair}: {x} and {y}"
                );
            }
        }
    }
}

fn run(module: &Module) -> Vec<optc_ir::Tensor> {
    let registry = optc_ops::registry();
    let func = &module.funcs[0];
    let inputs = random_inputs(
        module,
        &func.name,
        Fill::Normal,
        7,
        &Bindings::default(),
        &optc_ops::registry(),
    );
    let inputs: IndexMap<String, optc_ir::Tensor> = inputs.expect("known sizes");
    let results = run_reference(
        module,
        &registry,
        &func.name,
        &inputs,
        &NoData,
        &Bindings::default(),
    );
    results.expect("it runs").into_values().collect()
}

#[test]
fn programs_of_other_sources_are_emitted() {
    let text = r#"
        func.func @main(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<4xf32>, %i: tensor<5xsi32>) -> (tensor<2x4x4x4xf32>, tensor<2x5x8x8xf32>, tensor<2x3x8x8xf32>) {
          %0 = "hbir.conv"(%x, %w, %b) <{pads = [1, 1, 1, 1], strides = [2, 2]}> : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<2x4x4x4xf32>
          %1 = "hbir.gelu"(%0) : (tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
          %2 = "hbir.gather"(%x, %i) <{axis = 1}> : (tensor<2x3x8x8xf32>, tensor<5xsi32>) -> tensor<2x5x8x8xf32>
          %3 = "hbir.softmax"(%x) <{axis = 1}> : (tensor<2x3x8x8xf32>) -> tensor<2x3x8x8xf32>
          return %1, %2, %3 : tensor<2x4x4x4xf32>, tensor<2x5x8x8xf32>, tensor<2x3x8x8xf32>
        }"#;
    let module = optc_ir::text::parse(text).unwrap();
    let back = imported(&emit(&module).unwrap());
    let (registry, seed) = (optc_ops::registry(), 3);
    let mut inputs = random_inputs(
        &module,
        "main",
        Fill::Normal,
        seed,
        &Bindings::default(),
        &optc_ops::registry(),
    )
    .unwrap();
    let indices = optc_ir::Tensor::from_i64(optc_ir::DType::SI32, vec![5], [0, -1, 2, -3, 1]);
    inputs.insert("i".to_owned(), indices);
    let runs = [&module, &back].map(|m| {
        let name = &m.funcs[0].name;
        run_reference(m, &registry, name, &inputs, &NoData, &Bindings::default()).expect("it runs")
    });
    let [a, b] = runs.map(|r| r.into_values().collect::<Vec<_>>());
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(&b) {
        assert_eq!(a.shape, b.shape);
        for i in 0..a.len() {
            let (x, y) = (a.f64_at(i), b.f64_at(i));
            assert!((x - y).abs() <= 1e-4 * y.abs().max(1.0), "{x} and {y}");
        }
    }
}

#[test]
fn a_layout_that_hlo_cannot_write_is_refused() {
    let text = "func.func @main(%x: tensor<4x6xf32, {strides = [13, 2]}>) -> tensor<4x6xf32, {strides = [13, 2]}> {\n\
        %0 = \"hbir.relu\"(%x) : (tensor<4x6xf32, {strides = [13, 2]}>) -> tensor<4x6xf32, {strides = [13, 2]}>\n\
        return %0 : tensor<4x6xf32, {strides = [13, 2]}>\n}\n";
    let module = optc_ir::text::parse(text).unwrap();
    let error = emit(&module).unwrap_err();
    assert_eq!(error.code, "hlo-layout-inexpressible");
}

#[test]
fn windows_of_integers_and_computed_places_are_operations() {
    let computation = |name: &str, opcode: &str| {
        format!(
            "{name} {{\n a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT r = s32[] {opcode}(a, b)\n}}\n"
        )
    };
    let computations: String = [
        ("sum", "add"),
        ("least", "minimum"),
        ("times", "multiply"),
        ("either", "or"),
        ("both", "and"),
    ]
    .iter()
    .map(|(name, opcode)| computation(name, opcode))
    .collect();
    let windows = "window={size=3 stride=2 pad=1_1}";
    let cases = [
        (
            format!("s32[3]{{0}} reduce-window(n, zero), {windows}, to_apply=sum"),
            vec![3, 9, 9],
        ),
        (
            format!("s32[3]{{0}} reduce-window(n, most), {windows}, to_apply=least"),
            vec![1, 2, 4],
        ),
        (
            format!("s32[3]{{0}} reduce-window(n, one), {windows}, to_apply=times"),
            vec![2, 24, 20],
        ),
        (
            format!("s32[3]{{0}} reduce-window(n, zero), {windows}, to_apply=either"),
            vec![3, 7, 5],
        ),
        (
            "s32[5]{0} reduce-window(n, zero), window={size=5 pad=4_0}, to_apply=sum".to_owned(),
            vec![1, 3, 6, 10, 15],
        ),
        (
            "s32[5]{0} reduce-window(n, zero), window={size=5 pad=0_4}, to_apply=sum".to_owned(),
            vec![15, 14, 12, 9, 5],
        ),
        (
            "s32[] reduce(n, zero), dimensions={0}, to_apply=either".to_owned(),
            vec![7],
        ),
        (
            "s32[] reduce(n, minus), dimensions={0}, to_apply=both".to_owned(),
            vec![0],
        ),
        (
            "s32[] reduce(part, minus), dimensions={0}, to_apply=both".to_owned(),
            vec![0],
        ),
        (
            "s32[5]{0} dynamic-update-slice(n, part, one)".to_owned(),
            vec![1, 8, 7, 4, 5],
        ),
        (
            "s32[5]{0} dynamic-update-slice(n, part, most)".to_owned(),
            vec![1, 2, 3, 8, 7],
        ),
        (
            "s32[5]{0} dynamic-update-slice(n, part, minus)".to_owned(),
            vec![8, 7, 3, 4, 5],
        ),
        (
            "s32[4]{0:T(2)} custom-call(part, part), custom_call_target=\"ConcatBitcast\""
                .to_owned(),
            vec![8, 7, 8, 7],
        ),
    ];
    for (instruction, wanted) in cases {
        let text = format!(
            "HloModule m\n{computations}ENTRY e {{\n n = s32[5]{{0}} constant({{1, 2, 3, 4, 5}})\n \
             part = s32[2]{{0}} constant({{8, 7}})\n zero = s32[] constant(0)\n one = s32[] constant(1)\n \
             minus = s32[] constant(-1)\n most = s32[] constant(2147483647)\n ROOT r = {instruction}\n}}\n"
        );
        let module = imported(&text);
        assert!(!print(&module).contains("opaque"), "{instruction}");
        for module in [imported(&emitted(&module)), module] {
            let results = run(&module);
            let found: Vec<i64> = (0..results[0].len())
                .map(|i| results[0].i64_at(i))
                .collect();
            assert_eq!(found, wanted, "{instruction}");
        }
    }
}

/// XLA passes the initial value of a reduction into its fusion. A value that every caller passes is known inside.
#[test]
fn a_start_that_every_caller_passes_is_known() {
    let module = |second: &str| {
        format!(
            "max {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }}\n\
             pool {{ x = f32[4,8] parameter(0) s = f32[] parameter(1) \
             ROOT w = f32[4,6] reduce-window(x, s), window={{size=1x3}}, to_apply=max }}\n\
             ENTRY e {{ x = f32[4,8] parameter(0) low = f32[] constant(-inf) other = f32[] constant({second}) \
             f = f32[4,6] fusion(x, low), kind=kLoop, calls=pool \
             g = f32[4,6] fusion(x, other), kind=kLoop, calls=pool \
             ROOT t = (f32[4,6], f32[4,6]) tuple(f, g) }}"
        )
    };
    let opaque = |text: &str| print(&imported(text)).contains("hbir.opaque");
    assert!(!opaque(&module("-inf")));
    assert!(opaque(&module("0")));
}

/// Elements of types that nothing computes with keep their types, layouts and values in both directions.
#[test]
fn small_floats_and_complex_numbers_are_values() {
    let names = [
        "f8e4m3fn",
        "f8e5m2",
        "f8e4m3b11fnuz",
        "f8e4m3fnuz",
        "f8e5m2fnuz",
        "f8e3m4",
        "f8e4m3",
        "f8e8m0fnu",
        "f4e2m1fn",
        "c64",
        "c128",
    ];
    for name in names {
        let layout = if name == "f4e2m1fn" { ":E(4)" } else { "" };
        let text = entry(&format!(
            "  x = {name}[3,4]{{1,0{layout}}} parameter(0)\n  \
             ROOT t = {name}[4,3]{{1,0{layout}}} transpose(x), dimensions={{1,0}}"
        ));
        let module = imported(&text);
        let printed = print(&module);
        assert!(!printed.contains("opaque"), "{printed}");
        assert!(printed.contains("hbir.layout_convert"), "{printed}");
        let shape = format!("{name}[4,3]{{1,0{layout}}}");
        assert!(emitted(&module).contains(&shape), "{shape}");
    }
    let constants = entry(
        "  c = c64[2]{0} constant({(1, -2), (nan, 3.5)})\n  \
         d = f8e5m2[3]{0} constant({1.5, inf, -nan})\n  \
         e = f4e2m1fn[2]{0:E(4)} constant({6, -0.5})\n  \
         ROOT t = (c64[2]{0}, f8e5m2[3]{0}, f4e2m1fn[2]{0:E(4)}) tuple(c, d, e)",
    );
    let module = imported(&constants);
    let text = emitted(&module);
    for literal in ["{(1, -2), (nan, 3.5)}", "{1.5, inf, -nan}", "{6, -5e-1}"] {
        assert!(text.contains(literal), "{literal}: {text}");
    }
    let far = entry("  ROOT c = f8e4m3fn[1]{0} constant({1000})");
    assert!(import(&far).is_err(), "beyond the greatest number");
}

/// Constants of every element type keep their bits through emission and import.
#[test]
fn constants_go_out_whole() {
    let constants = [
        "pred[2] constant({true, false})",
        "s4[3]{0:E(4)} constant({-8, 0, 7})",
        "u4[2] constant({15, 1})",
        "s8[2] constant({-128, 127})",
        "u16[2] constant({65535, 0})",
        "s64[2] constant({-9223372036854775808, 9223372036854775807})",
        "u64[1] constant({18446744073709551615})",
        "f16[2] constant({0.1, -inf})",
        "bf16[2] constant({1e-20, 3.25})",
        "f32[2,2]{0,1} constant({{1e-45, 0.1}, {-0, nan}})",
        "f64[1] constant({0.1})",
        "f32[0,3] constant({})",
    ];
    for constant in constants {
        let module = imported(&entry(&format!("ROOT c = {constant}")));
        let back = imported(&emitted(&module));
        let bytes = |module: &Module| run(module).iter().map(|t| t.to_bytes()).collect::<Vec<_>>();
        assert_eq!(bytes(&module), bytes(&back), "{constant}");
        assert!(!print(&back).contains("opaque"), "{constant}");
    }
}

/// The effect of every opaque instruction.
#[test]
fn opaque_instructions_have_effects() {
    let cases = [
        ("f32[3] rng(s, s), distribution=rng_uniform", "random"),
        ("u64[1] rng-get-and-update-state(), delta=1", "write"),
        (
            "(u64[2], u32[3]) rng-bit-generator(k), algorithm=rng_default",
            "pure",
        ),
        ("f32[3] custom-call(x), custom_call_target=\"f\"", "read"),
        (
            "f32[3] custom-call(x), custom_call_target=\"f\", custom_call_has_side_effect=true",
            "write",
        ),
        ("u32[] partition-id()", "read"),
        (
            "f32[3] all-reduce(x), replica_groups={}, to_apply=sum",
            "write",
        ),
        ("token[] after-all()", "token"),
        ("(f32[3], token[]) infeed(t)", "token"),
        ("token[] outfeed(x, t), outfeed_shape=f32[3]{0}", "token"),
        ("f32[3] cholesky(q), lower=true", "pure"),
        ("f32[3] map(x, x), dimensions={0}, to_apply=draw", "random"),
        (
            "f32[3] conditional(p, x, x), true_computation=pass, false_computation=tell",
            "write",
        ),
        ("f32[3] while(x), condition=yes, body=look", "read"),
        (
            "((f32[3]), f32[3], s32[]) async-start(x), calls=tell",
            "write",
        ),
    ];
    let computations = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n\
         draw { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] rng(a, b), distribution=rng_normal }\n\
         pass { ROOT a = f32[3] parameter(0) }\n\
         tell { a = f32[3] parameter(0) z = token[] after-all() o = token[] outfeed(a, z), outfeed_shape=f32[3]{0} \
         ROOT n = f32[3] negate(a) }\n\
         yes { a = f32[3] parameter(0) ROOT p = pred[] constant(true) }\n\
         look { a = f32[3] parameter(0) i = u32[] partition-id() f = f32[] convert(i) \
         b = f32[3] broadcast(f), dimensions={} ROOT s = f32[3] add(a, b) }\n";
    for (instruction, wanted) in cases {
        let text = format!(
            "HloModule m\n{computations}ENTRY e {{\n x = f32[3] parameter(0)\n s = f32[] parameter(1)\n \
             k = u64[2] parameter(2)\n q = f32[3,3] parameter(3)\n p = pred[] parameter(4)\n \
             t = token[] parameter(5)\n i = {instruction}\n ROOT r = f32[3] negate(x)\n}}\n"
        )
        .replace("f32[3] cholesky", "f32[3,3] cholesky");
        let module = imported(&text);
        let main = &module.funcs[0];
        let effect = main
            .body
            .iter()
            .find_map(|&op| main.ops[op].props.str("effect"));
        assert_eq!(effect, Some(wanted), "{instruction}");
        // `effect` is a word of the IR, not of HLO.
        assert!(!emitted(&module).contains(", effect="), "{instruction}");
    }
}

#[test]
fn bits_tuples_and_scalars_are_not_opaque() {
    let text = entry(
        "a = f32[4] parameter(0)\n b = s32[4] bitcast-convert(a)\n t = (f32[4], s32[4]) tuple(a, b)\n \
         c = (f32[4], s32[4]) copy(t)\n s = f32[] constant(3)\n d = f32[4] broadcast(s)\n \
         g = f32[4] get-tuple-element(c), index=0\n e1 = f32[4] add(g, d)\n \
         h = s32[4] get-tuple-element(c), index=1\n w = f32[4] bitcast(h)\n \
         ROOT r = (f32[4], s32[4], f32[4]) tuple(e1, h, w)",
    );
    let module = imported(&text);
    assert!(!print(&module).contains("opaque"), "{}", print(&module));
    let back = emitted(&module);
    assert!(back.contains("s32[4]{0} bitcast-convert("), "{back}");
    let bytes = |module: &Module| run(module).iter().map(|t| t.to_bytes()).collect::<Vec<_>>();
    assert_eq!(bytes(&module), bytes(&imported(&back)));
    // A bitcast between other widths changes the shape.
    let wide = entry("a = s32[4] parameter(0)\n ROOT b = s8[4,4] bitcast-convert(a)");
    assert!(print(&imported(&wide)).contains("bitcast-convert"));
}

#[test]
fn arguments_name_the_results_that_they_share_memory_with() {
    let text = "HloModule m, input_output_alias={ {1,0}: (0, {1}, may-alias), {0}: (1, {}, must-alias), {7}: (0, {0}) }\n\
        ENTRY e { a = (f32[2], f32[3]) parameter(0) b = f32[4] parameter(1) \
        x = f32[3] get-tuple-element(a), index=1 u = (f32[3], f32[4]) tuple(x, b) \
        ROOT r = (f32[4], (f32[3], f32[4])) tuple(b, u) }\n";
    let module = imported(text);
    let ports = &module.funcs[0].arg_ports;
    let alias: Vec<_> = ports.iter().map(|p| p.attrs.ints("hbir.alias")).collect();
    assert_eq!(alias, [None, Some(vec![1]), Some(vec![0])]);
}

/// Products of all elements so far, from either end.
#[test]
fn running_products_are_one_operation() {
    for (pad, reverse) in [("2_0", false), ("0_2", true)] {
        let text = format!(
            "HloModule m\n\nmul {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT m = f32[] multiply(a, b)\n}}\n\n\
             ENTRY e {{\n  x = f32[3]{{0}} parameter(0)\n  one = f32[] constant(1)\n  \
             ROOT r = f32[3]{{0}} reduce-window(x, one), window={{size=3 pad={pad}}}, to_apply=mul\n}}\n"
        );
        let module = imported(&text);
        let printed = print(&module);
        assert!(printed.contains("hbir.cumprod"), "{printed}");
        assert_eq!(printed.contains("reverse = true"), reverse, "{printed}");
        assert_eq!(run(&module), run(&imported(&emitted(&module))));
    }
}
