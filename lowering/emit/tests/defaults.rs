//! Defaults of attributes: an emitter writes the same text for an absent attribute as for its stated default.

use optc_emit::{hlo, pallas, triton};
use optc_ir::{Code, Diagnostic, Module, Op, OpDecl, Registry, text};
use optc_target::Target;

const CUSTOM_CALL: Code = Code::input(
    "hlo-custom-call",
    "a custom call",
    "an operation",
    "add a form",
);

struct Emitter {
    name: &'static str,
    emit: fn(&Module, &Registry) -> Result<String, Box<Diagnostic>>,
    /// Operations for which the format has no form.
    refused: &'static [&'static str],
}

fn kernels(module: &Module, registry: &Registry) -> Result<String, Box<Diagnostic>> {
    let target = Target::builtin("tpu").expect("a built-in target");
    pallas::emit(module, registry, &target)
}

fn triton_kernels(module: &Module, registry: &Registry) -> Result<String, Box<Diagnostic>> {
    let target = Target::builtin("triton").expect("a built-in target");
    triton::emit(module, registry, &target)
}

const EMITTERS: &[Emitter] = &[
    Emitter {
        name: "pallas",
        emit: kernels,
        refused: &[
            "hbir.dequantize_blocks",
            "hbir.grid_sample",
            "hbir.max_pool_indices",
            "hbir.opaque",
            "hbir.recurrent",
        ],
    },
    Emitter {
        name: "triton",
        emit: triton_kernels,
        refused: &[
            "hbir.dequantize_blocks",
            "hbir.grid_sample",
            "hbir.max_pool_indices",
            "hbir.opaque",
            "hbir.recurrent",
        ],
    },
    Emitter {
        name: "hlo",
        emit: instructions,
        refused: &[
            "hbir.dequantize_blocks",
            "hbir.grid_sample",
            "hbir.max_pool_indices",
            "hbir.opaque",
            "hbir.recurrent",
        ],
    },
];

/// The program as HLO text. An operation emitted as a custom call is refused, since a custom call repeats the stated
/// attributes.
fn instructions(module: &Module, registry: &Registry) -> Result<String, Box<Diagnostic>> {
    let none = |_: &str, _, _, _| Err("no files".to_owned());
    let text = hlo::emit(module, registry, None, &none)?.text;
    if text.contains(" custom-call(") {
        return Err(Box::new(Diagnostic::error(CUSTOM_CALL, text)));
    }
    Ok(text)
}

/// A use of an operation: its name; the required attributes; the optional attributes that have no default, with the
/// value that absence means; and the types.
const PROGRAMS: &[[&str; 4]] = &[
    [
        "hbir.arg_max",
        "",
        "",
        "(tensor<2x3xf32>) -> tensor<3xsi64>",
    ],
    [
        "hbir.arg_min",
        "",
        "",
        "(tensor<2x3xf32>) -> tensor<3xsi64>",
    ],
    [
        "hbir.avg_pool",
        "kernel = [2, 2]",
        "strides = [1, 1], dilations = [1, 1], pads = [0, 0, 0, 0]",
        "(tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>",
    ],
    [
        "hbir.batch_norm",
        "",
        "",
        "(tensor<1x2x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x3xf32>",
    ],
    [
        "hbir.broadcast",
        "",
        "shape = [2, 3]",
        "(tensor<2x1xf32>) -> tensor<2x3xf32>",
    ],
    ["hbir.celu", "", "", "(tensor<2x3xf32>) -> tensor<2x3xf32>"],
    ["hbir.clamp", "", "", "(tensor<2x3xf32>) -> tensor<2x3xf32>"],
    [
        "hbir.constant",
        "value = dense<1.0> : tensor<2xf32>",
        "",
        "() -> tensor<2xf32>",
    ],
    [
        "hbir.conv",
        "",
        "strides = [1, 1], dilations = [1, 1], pads = [0, 0, 0, 0], output_padding = [0, 0], to = f32",
        "(tensor<1x2x5x5xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x3x3xf32>",
    ],
    [
        "hbir.cumprod",
        "axis = 1",
        "",
        "(tensor<2x3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.cumsum",
        "axis = 1",
        "",
        "(tensor<2x3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.depth_to_space",
        "blocksize = 2",
        "",
        "(tensor<1x8x2x2xf32>) -> tensor<1x2x4x4xf32>",
    ],
    [
        "hbir.dequantize",
        "",
        "",
        "(tensor<2x3xsi8>, tensor<3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.dequantize_blocks",
        "block = 2",
        "",
        "(tensor<2x4xsi8>, tensor<2x2xf32>) -> tensor<2x4xf32>",
    ],
    [
        "hbir.dot_general",
        "",
        "to = f32",
        "(tensor<2xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.einsum",
        "equation = \"ij,jk->ik\"",
        "to = f32",
        "(tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>",
    ],
    ["hbir.elu", "", "", "(tensor<2x3xf32>) -> tensor<2x3xf32>"],
    [
        "hbir.flatten",
        "",
        "",
        "(tensor<2x3x4xf32>) -> tensor<2x12xf32>",
    ],
    [
        "hbir.gather",
        "",
        "",
        "(tensor<3x2xf32>, tensor<4xsi64>) -> tensor<4x2xf32>",
    ],
    [
        "hbir.gather_elements",
        "",
        "",
        "(tensor<3x2xf32>, tensor<2x2xsi64>) -> tensor<2x2xf32>",
    ],
    [
        "hbir.gather_nd",
        "",
        "",
        "(tensor<3x2xf32>, tensor<4x1xsi64>) -> tensor<4x2xf32>",
    ],
    ["hbir.gelu", "", "", "(tensor<2x3xf32>) -> tensor<2x3xf32>"],
    [
        "hbir.grid_sample",
        "",
        "",
        "(tensor<1x1x4x4xf32>, tensor<1x2x3x2xf32>) -> tensor<1x1x2x3xf32>",
    ],
    [
        "hbir.group_norm",
        "num_groups = 2",
        "",
        "(tensor<1x4x3xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x3xf32>",
    ],
    [
        "hbir.hard_sigmoid",
        "",
        "",
        "(tensor<2x3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.instance_norm",
        "",
        "",
        "(tensor<1x2x3xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x3xf32>",
    ],
    ["hbir.iota", "", "", "() -> tensor<2x3xf32>"],
    [
        "hbir.layer_norm",
        "",
        "",
        "(tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.leaky_relu",
        "",
        "",
        "(tensor<2x3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.linear",
        "",
        "to = f32",
        "(tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>",
    ],
    [
        "hbir.log_softmax",
        "",
        "",
        "(tensor<2x3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.matmul",
        "",
        "to = f32",
        "(tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>",
    ],
    [
        "hbir.max_pool",
        "kernel = [2, 2]",
        "strides = [1, 1], dilations = [1, 1], pads = [0, 0, 0, 0]",
        "(tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>",
    ],
    [
        "hbir.max_pool_indices",
        "kernel = [2, 2]",
        "strides = [1, 1], dilations = [1, 1], pads = [0, 0, 0, 0]",
        "(tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xsi64>",
    ],
    [
        "hbir.mod",
        "",
        "",
        "(tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.one_hot",
        "depth = 3",
        "",
        "(tensor<2xsi64>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.opaque",
        "kind = \"a\"",
        "",
        "(tensor<2x3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.pad",
        "",
        "low = [0, 0], high = [0, 0]",
        "(tensor<2x3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.quantize",
        "",
        "to = ui8",
        "(tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xui8>",
    ],
    [
        "hbir.recurrent",
        "cell = \"gru\"",
        "",
        "(tensor<2x1x1xf32>, tensor<1x3x1xf32>, tensor<1x3x1xf32>, tensor<1x6xf32>) -> (tensor<2x1x1x1xf32>, tensor<1x1x1xf32>)",
    ],
    [
        "hbir.reduce",
        "kind = \"sum\"",
        "axes = [0, 1]",
        "(tensor<2x3xf32>) -> tensor<f32>",
    ],
    [
        "hbir.reshape",
        "",
        "shape = [3, 2]",
        "(tensor<2x3xf32>) -> tensor<3x2xf32>",
    ],
    [
        "hbir.resize",
        "sizes = [1, 1, 4, 4]",
        "",
        "(tensor<1x1x2x2xf32>) -> tensor<1x1x4x4xf32>",
    ],
    [
        "hbir.rms_norm",
        "",
        "",
        "(tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.rotary_embedding",
        "",
        "",
        "(tensor<1x2x3x4xf32>, tensor<1x3x2xf32>, tensor<1x3x2xf32>) -> tensor<1x2x3x4xf32>",
    ],
    [
        "hbir.scatter_elements",
        "",
        "",
        "(tensor<3x2xf32>, tensor<1x2xsi64>, tensor<1x2xf32>) -> tensor<3x2xf32>",
    ],
    [
        "hbir.scatter_nd",
        "",
        "",
        "(tensor<3x2xf32>, tensor<1x1xsi64>, tensor<1x2xf32>) -> tensor<3x2xf32>",
    ],
    ["hbir.selu", "", "", "(tensor<2x3xf32>) -> tensor<2x3xf32>"],
    [
        "hbir.slice",
        "starts = [0, 1], limits = [2, 3]",
        "strides = [1, 1]",
        "(tensor<2x3xf32>) -> tensor<2x2xf32>",
    ],
    [
        "hbir.softmax",
        "",
        "",
        "(tensor<2x3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.squeeze",
        "",
        "axes = [1]",
        "(tensor<2x1x3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.subview",
        "starts = [0, 1], limits = [2, 3]",
        "strides = [1, 1]",
        "(tensor<2x3xf32>) -> tensor<2x2xf32>",
    ],
    [
        "hbir.thresholded_relu",
        "",
        "",
        "(tensor<2x3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.top_k",
        "k = 2",
        "",
        "(tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xsi64>)",
    ],
    ["hbir.trilu", "", "", "(tensor<2x3xf32>) -> tensor<2x3xf32>"],
    [
        "hbir.view",
        "",
        "shape = [2, 3], perm = [0, 1]",
        "(tensor<2x3xf32>) -> tensor<2x3xf32>",
    ],
];

/// Attributes whose absence has no equivalent value.
const NOTHING: &[(&str, &str)] = &[
    ("hbir.clamp", "max"),
    ("hbir.clamp", "min"),
    ("hbir.constant", "data"),
    ("hbir.opaque", "domain"),
    ("hbir.opaque", "effect"),
    ("hbir.resize", "roi"),
    ("hbir.resize", "scales"),
    ("hbir.subview", "shape"),
];

/// The program of one operation with these attributes.
fn program([name, required, _, types]: [&str; 4], more: &str) -> Module {
    let (operands, results) = types.split_once(" -> ").expect("operands and results");
    let args = (0..operands.matches("tensor<").count()).map(|i| format!("%a{i}"));
    let args = args.collect::<Vec<_>>().join(", ");
    let left = match results.matches("tensor<").count() {
        1 => "%0".to_owned(),
        n => format!("%0:{n}"),
    };
    let attributes = [required, more].map(str::to_owned);
    let attributes = attributes.into_iter().filter(|text| !text.is_empty());
    let attributes = attributes.collect::<Vec<_>>().join(", ");
    let source = format!("{left} = \"{name}\"({args}) <{{{attributes}}}> : {types}\n");
    text::parse(&source).unwrap_or_else(|e| panic!("{source}: {e:?}"))
}

/// The only operation.
fn only(module: &Module) -> Op {
    module.funcs[0].body[0]
}

/// The text, or the code of the error.
fn emitted(emitter: &Emitter, module: &Module, registry: &Registry) -> Result<String, String> {
    (emitter.emit)(module, registry).map_err(|diag| diag.code.to_string())
}

#[test]
fn an_absent_attribute_means_what_the_struct_says() {
    let registry = optc_ops::registry();
    let optional = |decl: &&dyn OpDecl| decl.fields().iter().any(|f| !f.required);
    for decl in registry.all().into_iter().filter(optional) {
        let name = decl.name();
        let known = PROGRAMS.iter().find(|p| p[0] == name);
        let known = *known.unwrap_or_else(|| panic!("{name}: no program"));
        let absent = program(known, "");
        let op = only(&absent);
        let checked = decl.infer(&absent.funcs[0].op_ref(op));
        checked.unwrap_or_else(|e| panic!("{name}: {e}"));

        let defaults = decl.attributes(&absent.funcs[0].op_ref(op)).expect(name);
        let mut stated = program(known, known[2]);
        let op = only(&stated);
        let props = &mut stated.funcs[0].ops[op].props;
        for (field, attr) in defaults.iter() {
            props.set(field, attr.clone());
        }
        for field in decl.fields() {
            let there = props.get(field.name).is_some();
            let wanted = !NOTHING.contains(&(name, field.name));
            assert_eq!(there, wanted, "{name}: {}", field.name);
        }
        for emitter in EMITTERS {
            let found = emitted(emitter, &absent, &registry);
            let refused = emitter.refused.contains(&name);
            assert_eq!(
                found.is_err(),
                refused,
                "{} {name}: {found:?}",
                emitter.name
            );
            assert_eq!(
                found,
                emitted(emitter, &stated, &registry),
                "{} {name}",
                emitter.name
            );
        }
    }
}
