//! Reading and printing HLO text.

use optc_hlo::{Strictness, parse, print, printed};
use optc_ir::Severity;
use optc_layout::XlaShape;

/// The first error's code and the text under its caret.
#[track_caller]
fn refused(text: &str) -> (&'static str, String) {
    let (_, diags) = parse(text, Strictness::Exact);
    let error = diags.iter().find(|d| d.severity == Severity::Error);
    let error = error.unwrap_or_else(|| panic!("accepted: {text}"));
    let (span, _) = error.labels.first().expect("a caret");
    let under = text
        .get(span.start as usize..span.end as usize)
        .unwrap_or("");
    (error.code.as_str(), under.to_owned())
}

/// The printed form of the text, which must be a fixed point of printing.
#[track_caller]
fn canonical(text: &str) -> String {
    let (module, diags) = parse(text, Strictness::Exact);
    assert!(diags.is_empty(), "{diags:?}");
    let once = print(&module);
    let (again, diags) = parse(&once, Strictness::Exact);
    assert!(diags.is_empty(), "{diags:?}\n{once}");
    assert_eq!(printed(&again), printed(&module));
    assert_eq!(print(&again), once);
    once
}

/// A module whose entry has these instructions.
fn entry(instructions: &str) -> String {
    format!("HloModule m\nENTRY e {{\n{instructions}\n}}\n")
}

#[test]
fn every_refusal_has_its_code_and_place() {
    let body = |text: &str| entry(&format!("a = f32[4,5] parameter(0)\n{text}"));
    let cases = [
        (
            body("r = f32[5,4] transpose(a), dimensions={1,0}, dimensions={1,0}"),
            "hlo-attribute-duplicate",
        ),
        (body("r = f32[5,4] transpose(a)"), "hlo-attribute-missing"),
        (
            body("r = f32[4,5] negate(a), foo=1"),
            "hlo-attribute-unknown",
        ),
        (
            body("r = pred[4,5] compare(a, a), direction=XX"),
            "hlo-attribute-value",
        ),
        (
            body("r = f32[4,5] negate(a) sharding={replicated}"),
            "hlo-syntax",
        ),
        (
            "c { ROOT p = f32[] parameter(0) } c { ROOT p = f32[] parameter(0) }".into(),
            "hlo-computation-duplicate",
        ),
        ("e { }".into(), "hlo-computation-empty"),
        (
            body("r = f32[4,5] fusion(a), kind=kLoop, calls=%nope"),
            "hlo-computation-unknown",
        ),
        (
            "ENTRY e { a = f32[] parameter(0) } ENTRY f { a = f32[] parameter(0) }".into(),
            "hlo-entry-duplicate",
        ),
        (body("a = f32[4,5] negate(a)"), "hlo-instruction-duplicate"),
        (entry("a = f32[4,5]{1,1} parameter(0)"), "hlo-layout"),
        (
            entry("a = f32[4,5]{1,0:S(1)T(8,128)} parameter(0)"),
            "hlo-layout",
        ),
        (entry("a = f32[3] constant({1, 2})"), "hlo-literal"),
        (entry("a = f32[1] constant({1, 2})"), "hlo-literal"),
        (entry("a = s8[] constant(128)"), "hlo-literal"),
        (entry("a = u8[] constant(-1)"), "hlo-literal"),
        (entry("a = s32[] constant(1.5)"), "hlo-literal"),
        (entry("a = f16[] constant(1e6)"), "hlo-literal"),
        (entry("s1 = f32[4] parameter(0)"), "hlo-name"),
        (entry("%f32 = f32[4] parameter(0)"), "hlo-name"),
        (entry("manual = f32[4] parameter(0)"), "hlo-name"),
        (
            entry("a = f32[] parameter(99999999999999999999)"),
            "hlo-number",
        ),
        (body("r = f32[4,5] negatee(a)"), "hlo-opcode-unknown"),
        (body("r = f32[4,5] add(a)"), "hlo-operand-count"),
        (body("r = f32[4,5] negate(f32[5] a)"), "hlo-operand-shape"),
        (body("r = f32[4,5] negate(b)"), "hlo-operand-unknown"),
        (entry("a = f32[4] parameter(1)"), "hlo-parameter-number"),
        (entry("a = f32[4] parameter(-1)"), "hlo-parameter-number"),
        (
            entry("ROOT a = f32[4] parameter(0)\nROOT b = f32[4] negate(a)"),
            "hlo-root-duplicate",
        ),
        (entry("a = f32[-1] parameter(0)"), "hlo-shape"),
        (entry("a = parameter(0)"), "hlo-shape-missing"),
        ("HloModule m /* abc".into(), "hlo-syntax"),
        (
            "HloModule m, entry_computation_layout={f32}".into(),
            "hlo-attribute-value",
        ),
        ("".into(), "hlo-syntax"),
        (format!("e {{ a = {}", "(".repeat(100_000)), "hlo-too-deep"),
        (
            body(&format!("r = f32[4,5] {}", "negate(".repeat(100_000))),
            "hlo-too-deep",
        ),
    ];
    for (text, code) in cases {
        assert_eq!(refused(&text).0, code, "{}", &text[..text.len().min(200)]);
    }
}

#[test]
fn import_refuses_fusions_that_lack_operands_and_remarks_what_stays_opaque() {
    let text = "HloModule m\nf { p = f32[4] parameter(0)\nq = f32[4] parameter(1)\n\
        ROOT r = f32[4] add(p, q) }\nENTRY e { a = f32[4] parameter(0)\n\
        ROOT r = f32[4] fusion(a), kind=kLoop, calls=f }\n";
    let codes = |diags: &[optc_ir::Diagnostic]| diags.iter().map(|d| d.code).collect::<Vec<_>>();
    let refused = optc_hlo::import(text).expect_err("an operand is missing");
    assert_eq!(codes(&refused), ["hlo-import"]);
    let text =
        entry("a = f32[4] parameter(0)\nr = f32[4] custom-call(a), custom_call_target=\"t\"");
    let import = optc_hlo::import(&text).expect("it stays opaque");
    assert_eq!(codes(&import.diags), ["hlo-opaque"]);
}

#[test]
fn recursion_is_named_for_what_it_is() {
    let calls = |name: &str, callee: &str| {
        format!(
            "{name} {{\np = f32[2] parameter(0)\nROOT c = f32[2] call(p), to_apply=%{callee}\n}}\n"
        )
    };
    let said = |text: String| {
        let (_, diags) = parse(&text, Strictness::Exact);
        assert_eq!(refused(&text).0, "hlo-computation-unknown");
        diags[0].message.clone()
    };
    let message = said(calls("loop", "loop"));
    assert!(
        message.contains("the computation `loop` calls itself"),
        "{message}"
    );
    let message = said(calls("there", "back") + &calls("back", "there"));
    assert!(
        message.contains("the computation `back` is defined below its use"),
        "{message}"
    );
    let message = said(calls("there", "nowhere"));
    assert!(
        message.contains("`nowhere` is not defined before it is used"),
        "{message}"
    );
}

#[test]
fn carets_stand_under_what_is_wrong() {
    let text = entry("a = f32[4] parameter(0)\nr = f32[4] negate(%bb)");
    assert_eq!(refused(&text).1, "%bb");
    let text = entry("a = f32[4] parameter(0)\nr = f32[4] negatee(a)");
    assert_eq!(refused(&text).1, "negatee");
}

#[test]
fn unknown_attributes_are_kept_with_a_warning() {
    let text = entry("a = f32[4] parameter(0), brand_new={x=[1,\"}\"]}");
    let (module, diags) = parse(&text, Strictness::KeepUnknown);
    assert_eq!(diags.len(), 1);
    assert_eq!(diags[0].severity, Severity::Warning);
    assert!(print(&module).contains("parameter(0), brand_new={x=[1,\"}\"]}\n"));
}

#[test]
fn tables_comments_and_header_stay() {
    let text = "// first\nHloModule jit_f, is_scheduled=true, \
        entry_computation_layout={(f32[2,3]{0,1:T(8,128)})->f32[2,3]{1,0}}, \
        frontend_attributes={xla.sdy.meshes={empty_mesh = #sdy.mesh<[]>}}\n\n\
        FileNames\n1 \"/src/a.py\"\n\nStackFrames\n1 {file_location_id=1 parent_frame_id=1}\n\n\
        ENTRY %main.3 (x.1: f32[2,3]) -> f32[2,3] {\n  \
        %x.1 = f32[2,3]{0,1:T(8,128)} parameter(0), metadata={op_name=\"x['w'] /* no comment */\"}\n  \
        ROOT %copy = f32[2,3]{1,0} /* here */ copy(%x.1), backend_config={\"a\":[\"}\"]}\n}\n";
    let out = canonical(text);
    assert!(
        out.contains("FileNames\n1 \"/src/a.py\"\n\nStackFrames\n1 {file"),
        "{out}"
    );
    assert!(out.contains("op_name=\"x['w'] /* no comment */\""), "{out}");
    assert!(out.contains("backend_config={\"a\":[\"}\"]}"), "{out}");
    assert!(!out.contains("here"), "{out}");
}

#[test]
fn names_are_unique_over_the_module() {
    let text = "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) }\n\
        ENTRY e { x = f32[4,5] parameter(0)\n z = f32[] constant(0)\n \
        r = reduce(x, z), dimensions={0}, to_apply=add\n \
        ROOT r2 = f32[5] reduce(x, z), dimensions={0}, to_apply={ a.7 = f32[] parameter(0)\n \
        b = f32[] parameter(1)\n ROOT c = f32[] maximum(a.7, b) } }";
    let out = canonical(text);
    assert!(out.contains("%x.1 = f32[4,5]{1,0} parameter(0)"), "{out}");
    assert!(
        out.contains("%r = f32[5]{0} reduce(%x.1, %z), dimensions={0}, to_apply=%add"),
        "{out}"
    );
    assert!(out.contains("to_apply=%_\n"), "{out}");
}

#[test]
fn literals_of_all_kinds() {
    let text = entry(
        "a = f32[] constant(nan)\nb = f32[2,2] constant({ { 1, -2.5 }, { inf, -inf } })\n\
         c = pred[3] constant({1, 0, true})\nd = c64[2] constant({(1, 2), (-0.5, inf)})\n\
         f = f32[0] constant({})\ng = bf16[2] constant({1.5, 1e+30})\nh = f32[100000] constant({...})\n\
         i = s32[2,1,2] constant({ { {1, 2} }, { {3, 4} } })\nj = f8e4m3fn[2] constant({1, 2})\n\
         k = f32[] constant(-nan(0x7fffff))\nl = f32[2,0] constant({ {}, {} })\n\
         t = (f32[], s32[]) constant((1, 2))",
    );
    canonical(&text);
}

#[test]
fn shapes_of_all_kinds() {
    let text = "e { a = (f32[<=8,?]{1,0}, (), token[], opaque[], b(f32[2]{0}), f32[]{:T(128)}) parameter(0) }";
    let (module, diags) = parse(text, Strictness::Exact);
    assert!(diags.is_empty(), "{diags:?}");
    let XlaShape::Tuple(parts) = &*module.computations[0].root().shape else {
        panic!("no tuple");
    };
    assert_eq!(parts.len(), 6);
    let text = module.computations[0].root().shape.to_string();
    assert_eq!(
        text,
        "(f32[<=8,?]{1,0}, (), token[], opaque[], b(f32[2]{0}), /*index=5*/f32[]{:T(128)})"
    );
}

#[test]
fn an_asynchronous_call_of_one_instruction_prints_as_that() {
    let text = "HloModule m\nw { p = f32[8] parameter(0)\n ROOT s = f32[4] slice(p), slice={[0:4]} }\n\
        ENTRY e { x = f32[8] parameter(0)\n y = ((f32[8]), f32[4], s32[]) async-start(x), calls=w\n \
        ROOT z = f32[4] async-done(y) }";
    let out = canonical(text);
    assert!(out.contains("slice-start(%x), slice={[0:4]}\n"), "{out}");
    assert!(out.contains("slice-done(%y)\n"), "{out}");
    assert!(!out.contains("%w "), "{out}");
}

#[test]
fn long_texts_take_linear_time() {
    let mut text = "HloModule m\nENTRY e {\n  %v0 = f32[] parameter(0)\n".to_owned();
    for i in 1..50_000 {
        text.push_str(&format!(
            "  %v{i} = f32[] add(%v{}, %v0), metadata={{op_name=\"x\"}}\n",
            i - 1
        ));
    }
    text.push_str("}\n");
    let (module, diags) = parse(&text, Strictness::Exact);
    assert!(diags.is_empty());
    assert_eq!(module.computations[0].instructions.len(), 50_000);
    let digits = vec!["1"; 200_000].join(", ");
    canonical(&entry(&format!("c = s8[200000] constant({{{digits}}})")));
}

#[test]
fn broken_texts_never_panic() {
    let text = "HloModule m, replica_count=1\n\nFileNames\n1 \"x\"\n\n%f (p: f32[2]) -> f32[2] {\n  \
        ROOT %p = f32[2]{0:T(8)(2,1)S(1)} parameter(0), sharding={devices=[2]<=[2]}\n}\n\
        ENTRY %e (a: f32[2], b: (f32[], s4[3])) -> f32[2] {\n  %a = f32[2]{0} parameter(0)\n  \
        %b = (f32[], s4[3]{0:E(4)}) parameter(1)\n  %c = f32[2]{0} constant({1, nan})\n  \
        %d = s4[3] get-tuple-element(%b), index=1\n  ROOT %r = f32[2]{0} fusion(%a), kind=kLoop, calls=%f\n}\n";
    canonical(text);
    for end in 0..text.len() {
        let _ = parse(&text[..end], Strictness::Exact);
    }
    for at in 0..text.len() {
        for bad in [
            "", "{", "}", "(", ")", "\"", ",", "-", "9", "é", "\u{0}", "<=", "#",
        ] {
            let broken = format!("{}{bad}{}", &text[..at], &text[at + 1..]);
            let _ = parse(&broken, Strictness::KeepUnknown);
        }
    }
}

/// Values of attributes that XLA's reader accepts, and values that it refuses, with the position.
#[test]
fn values_are_read_as_xla_reads_them() {
    let negate = |attr: &str| {
        entry(&format!(
            "a = f32[4,4] parameter(0)\nROOT r = f32[4,4] negate(a), {attr}"
        ))
    };
    let op = |text: &str| {
        let add =
            "add {\nx = f32[] parameter(0)\ny = f32[] parameter(1)\nROOT s = f32[] add(x, y)\n}\n";
        let body = format!("a = f32[4,4] parameter(0)\nz = f32[] constant(0)\nROOT r = {text}");
        entry(&body).replacen("ENTRY", &format!("{add}ENTRY"), 1)
    };
    let header = |attr: &str| format!("HloModule m, {attr}\nENTRY e {{ a = f32[4] parameter(0) }}");
    let good = [
        negate("sharding={devices=[2,4]<=[4,2]T(1,0)}"),
        negate("sharding={devices=[4,1]0,1,2,3 last_tile_dims={manual}}"),
        negate("sharding={{replicated}, {maximal device=3}}"),
        negate("sharding={mesh['a'=2], [{'a'}, {}]}"),
        negate("metadata={op_type=\"a\", op_name=\"b\" source_line=3 profile_type={1}}"),
        negate("frontend_attributes={a=\"b\",c.d={\"x\":[1]}}"),
        negate("control-predecessors={a, %a}"),
        negate("backend_config={\"a\":{\"b\":\"}\"}}, statistics={visualizing_index=0,stat-1=33}"),
        op("f32[4,4] reduce-window(a, z), window={size=2x2 pad=0_1x-1_2}, to_apply=add"),
        op("f32[6,4] pad(a, z), padding=1_1_0x0_0"),
        op("f32[2,2] slice(a), slice={[0:4:2], [1:3]}"),
        op("f32[4,4] convolution(a, a), dim_labels=b?f_?io->bf?"),
        op("f32[4,4] all-reduce(a), replica_groups=[2,4]<=[2,4]T(1,0), to_apply=add"),
        op("f32[4,4] all-reduce(a), replica_groups={{0,1},{2}}, to_apply=add"),
        op("f32[4,4] collective-permute(a), source_target_pairs={{0,1},{1,0}}"),
        op(
            "f32[4,4] custom-call(a), custom_call_target=\"x\", api_version=API_VERSION_TYPED_FFI, operand_layout_constraints={f32[4,4]{0,1}}, output_to_operand_aliasing={{}: (0, {1})}",
        ),
        op("broadcast(z), dimensions={}"),
        header(
            "is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias), {1}: (1, {}) }, buffer_donor={ (0, {}) }",
        ),
        header("allow_spmd_sharding_propagation_to_output=true, replica_count=2"),
    ];
    for text in good {
        let (_, diags) = parse(&text, Strictness::Exact);
        assert!(diags.is_empty(), "{text}\n{diags:?}");
    }
    let value = "hlo-attribute-value";
    let bad = [
        (
            negate("sharding={devices=[2,4]<=[4,2]T(1,2)}"),
            value,
            "[2,4]<=[4,2]T(1,2)",
        ),
        (
            negate("sharding={devices=[2,2,4]<=[8]}"),
            value,
            "[2,2,4]<=[8]",
        ),
        (negate("sharding={devices=[2,4 4]<=[8]}"), "hlo-syntax", "4"),
        (
            negate("sharding={devices=[1,1]0}"),
            value,
            "{devices=[1,1]0}",
        ),
        (negate("sharding={maximal}"), value, "{maximal}"),
        (negate("sharding={elsewhere}"), "hlo-syntax", "elsewhere"),
        (negate("metadata={op_name=1}"), "hlo-syntax", "1"),
        (negate("metadata={source_line=\"a\"}"), "hlo-syntax", "\""),
        (
            negate("metadata={op_name=\"a\" op_name=\"b\"}"),
            "hlo-attribute-duplicate",
            "op_name",
        ),
        (
            negate("metadata={colour=1}"),
            "hlo-attribute-unknown",
            "colour",
        ),
        (negate("frontend_attributes={a=b}"), "hlo-syntax", "b"),
        (negate("frontend_attributes={a=\"b\",}"), "hlo-syntax", "}"),
        (negate("control-predecessors={}"), "hlo-syntax", "}"),
        (
            negate("control-predecessors={zz}"),
            "hlo-operand-unknown",
            "zz",
        ),
        (negate("backend_config=abc"), "hlo-syntax", "abc"),
        (
            op("f32[3,3] reduce-window(a, z), window={size=2x2 stride=1}, to_apply=add"),
            value,
            "{size=2x2 stride=1}",
        ),
        (
            op("f32[3,3] reduce-window(a, z), window={size=2x2 pad=0x0}, to_apply=add"),
            value,
            "pad=0x0",
        ),
        (
            op("f32[3,3] reduce-window(a, z), window={size=2x2 size=2x2}, to_apply=add"),
            "hlo-attribute-duplicate",
            "size=2x2",
        ),
        (
            op("f32[3,3] reduce-window(a, z), window={width=2x2}, to_apply=add"),
            "hlo-syntax",
            "width",
        ),
        (op("f32[6,4] pad(a, z), padding=1x0_0"), value, "1x0_0"),
        (
            op("f32[2,2] slice(a), slice={[0:4:2:1], [1:3]}"),
            value,
            "[0:4:2:1]",
        ),
        (
            op("f32[4,4] convolution(a, a), dim_labels=b0f_01io->b0f"),
            value,
            "b0f_01io->b0f",
        ),
        (
            op("f32[4,4] convolution(a, a), dim_labels=bb_io->bf"),
            value,
            "bb_io->bf",
        ),
        (
            op("f32[4,4] all-reduce(a), replica_groups=[4]<=[4], to_apply=add"),
            value,
            "",
        ),
        (
            op("f32[4,4] all-reduce(a), replica_groups=[2,2], to_apply=add"),
            "hlo-syntax",
            ",",
        ),
        (
            op("f32[4,4] collective-permute(a), source_target_pairs={{0,1},{1}}"),
            value,
            "{1}",
        ),
        (
            op("f32[4,4] custom-call(a), custom_call_target=\"x\", api_version=NEW"),
            value,
            "NEW",
        ),
        (
            op(
                "f32[4,4] custom-call(a), custom_call_target=\"x\", operand_layout_constraints={f32[4,5]{1,0}}",
            ),
            value,
            "custom-call",
        ),
        (
            op("f32[4,4] custom-call(a), custom_call_target=\"x\", operand_layout_constraints={}"),
            value,
            "custom-call",
        ),
        (op("f32[3,5] reshape(a)"), "hlo-operand-shape", "reshape"),
        (op("(f32[4,4]) tuple(a, a)"), "hlo-operand-count", "tuple"),
        (
            op("f32[8,4] concatenate(a, a), dimensions={0,1}"),
            value,
            "concatenate",
        ),
        (
            op("slice(a), slice={[0:2], [0:4]}"),
            "hlo-shape-missing",
            "slice",
        ),
        (header("replica_count=x"), "hlo-syntax", "x"),
        (header("colour=1"), "hlo-attribute-unknown", "colour"),
        (header("is_scheduled=1"), "hlo-syntax", "1"),
        (header("input_output_alias={ {}: (0, {}, x) }"), value, "x"),
        (
            "HloModule\nENTRY e { a = f32[4] parameter(0) }".into(),
            "hlo-name",
            "ENTRY",
        ),
        (
            "HloModule m\n\nFileNames\n1 {}\n\nENTRY e { a = f32[4] parameter(0) }".into(),
            "hlo-syntax",
            "{",
        ),
        (
            "HloModule m\n\nStackFrames\n1 {line=2}\n\nENTRY e { a = f32[4] parameter(0) }".into(),
            "hlo-syntax",
            "line",
        ),
        (
            "ENTRY e (a: f32[4]) -> f32[5] { ROOT a = f32[4] parameter(0) }".into(),
            "hlo-signature",
            "f32[5]",
        ),
    ];
    for (text, code, under) in bad {
        assert_eq!(refused(&text), (code, under.to_owned()), "{text}");
    }
}
