//! The operations in formats, as their writers make them, and writers that are wrong.

use optc::interp::NoData;
use optc::ops::{Concat, Exp, Identity, Opaque, Reduce, ReduceKind, Split};
use optc::{
    Attr, Compiler, DType, Diagnostic, Effect, Format, FuncBuilder, Inferred, NewOp, OpError,
    OpRef, Operation, OutputFormat, Program, Tensor, Type, Value, WriteOp, attributes,
};
use optc_example_out_of_tree::{Energy, Gate, compiler};

const FORMATS: [OutputFormat; 3] = [
    OutputFormat::Onnx,
    OutputFormat::Hlo,
    OutputFormat::StableHlo,
];

const GATE: &str = r#"func.func @main(%x: tensor<2x3xf32>, %g: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "acme.gate"(%x, %g) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"#;

const ENERGY: &str = r#"func.func @main(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  %0 = "acme.energy"(%x) : (tensor<2x3xf32>) -> tensor<2xf32> loc("sum of squares")
  return %0 : tensor<2xf32>
}
"#;

/// The program in a format.
fn emitted(
    compiler: &Compiler,
    program: &Program,
    format: OutputFormat,
) -> Result<Vec<u8>, Box<Diagnostic>> {
    let (module, registry) = (&program.module, compiler.registry());
    let none = |_: &str, _, _, _| Err("there are no files".to_owned());
    Ok(match format {
        OutputFormat::Onnx => {
            optc::onnx::emit(module, registry, optc::onnx::Options::default(), &none)?.bytes
        }
        OutputFormat::Hlo => optc::hlo::emit(module, registry, None, &none)?.text.into(),
        _ => optc::stablehlo::emit(module, registry, None, &none)?
            .text
            .into(),
    })
}

fn read(bytes: &[u8], format: OutputFormat) -> Program {
    let format = match format {
        OutputFormat::Onnx => Format::Onnx,
        OutputFormat::Hlo => Format::Hlo,
        _ => Format::StableHlo,
    };
    let mut read = Compiler::new().read("written", bytes, Some(format), false);
    read.remove(0).unwrap_or_else(|e| panic!("{e}"))
}

/// A compiler whose operations of type `T` are written by `writer`.
fn with<T: Operation>(writer: impl WriteOp + Clone + 'static) -> Compiler {
    let mut compiler = compiler();
    for format in FORMATS {
        compiler.write_in::<T>(format, writer.clone());
    }
    compiler
}

/// Emission with this writer of energies is refused in every format.
#[track_caller]
fn refused(writer: impl WriteOp + Clone + 'static, code: &str, says: &str) {
    let compiler = with::<Energy>(writer);
    let program = compiler.parse("test.ir", ENERGY).unwrap();
    for format in FORMATS {
        let diag = emitted(&compiler, &program, format).unwrap_err();
        assert_eq!(diag.code, *code, "{diag:?}");
        let message = format!("acme.energy cannot be written in {format}: {says}");
        assert_eq!(diag.message, message);
        assert_eq!(diag.origin, ["sum of squares".into()]);
        let shown = program.render(&[*diag]);
        assert!(shown.starts_with("test.ir:2:"), "{shown}");
    }
}

#[test]
fn a_writer_of_other_operations_keeps_the_numbers() {
    let compiler = compiler();
    let program = compiler.parse("test.ir", ENERGY).unwrap();
    let x = Tensor::from_f64(DType::F32, vec![2, 3], [1.0, 2.0, 3.0, -4.0, 0.5, 0.0]);
    for format in FORMATS {
        let again = read(&emitted(&compiler, &program, format).unwrap(), format);
        let argument = again.module.funcs[0].arg_key(0);
        let inputs = [(argument, x.clone())].into_iter().collect();
        let found = Compiler::new().run(&again, &inputs, &NoData).unwrap();
        assert_eq!(found[0].to_f64(), [14.0, 16.25], "{format}");
    }
}

#[test]
fn a_node_of_ones_own_domain_is_in_the_model() {
    let compiler = compiler();
    let program = compiler.parse("test.ir", GATE).unwrap();
    let bytes = emitted(&compiler, &program, OutputFormat::Onnx).unwrap();
    let again = read(&bytes, OutputFormat::Onnx);
    let op = &again.module.funcs[0].ops[again.module.funcs[0].body[0]];
    assert_eq!(&*op.name, Opaque::NAME);
    let text = |key| op.props.str(key);
    assert_eq!(
        [text("domain"), text("kind"), text("onnx.activation")],
        [Some("com.acme"), Some("Gate"), Some("sigmoid")]
    );
    let model = again.text();
    assert!(model.contains(r#"opsets = [["com.acme", 2]]"#), "{model}");
}

#[test]
fn a_call_of_a_kernel_is_as_pure_as_the_operation() {
    let compiler = compiler();
    let program = compiler.parse("test.ir", GATE).unwrap();
    let hlo = emitted(&compiler, &program, OutputFormat::Hlo).unwrap();
    let hlo = String::from_utf8(hlo).unwrap();
    let call = "custom-call(%x, %g), custom_call_target=\"acme_gate\", backend_config=\"activation=sigmoid\"";
    assert!(hlo.contains(call), "{hlo}");
    let text = emitted(&compiler, &program, OutputFormat::StableHlo).unwrap();
    let text = String::from_utf8(text).unwrap();
    let call = "<{call_target_name = \"acme_gate\", backend_config = \"activation=sigmoid\"}>";
    assert!(text.contains(call), "{text}");
}

attributes! {
    /// `acme.log(x) = x`, which is also written down.
    pub struct Log {}
}

impl Operation for Log {
    const NAME: &'static str = "acme.log";
    const SUMMARY: &'static str = "x, which is also written down";
    const FAMILY: &'static str = "barrier";
    const OPERANDS: (usize, usize) = (1, 1);

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        Ok(vec![Inferred {
            dims: x.dims.clone(),
            dtype: x.dtype,
        }])
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Write
    }
}

fn log(op: &OpRef<'_>, operands: &[Value], b: &mut FuncBuilder<'_>) -> Result<Vec<Value>, OpError> {
    let types = op.results.iter().map(|&ty| ty.clone()).collect();
    b.add(Opaque::foreign("", "acme_log", operands, types))
}

#[test]
fn a_side_effect_is_stated() {
    let text = "%0 = \"acme.log\"(%x) : (tensor<2xf32>) -> tensor<2xf32>\n";
    let mut compiler = compiler();
    compiler.registry_mut().add::<Log>();
    let call = |compiler: &Compiler, format| {
        let program = compiler.parse("test.ir", text).unwrap();
        String::from_utf8(emitted(compiler, &program, format).unwrap()).unwrap()
    };
    // Without a writer it is a call with its own name.
    for name in ["acme.log", "acme_log"] {
        let hlo = call(&compiler, OutputFormat::Hlo);
        let wanted = format!("custom_call_target=\"{name}\", custom_call_has_side_effect=true");
        assert!(hlo.contains(&wanted), "{hlo}");
        let text = call(&compiler, OutputFormat::StableHlo);
        let wanted = format!("call_target_name = \"{name}\", has_side_effect = true");
        assert!(text.contains(&wanted), "{text}");
        for format in FORMATS {
            compiler.write_in::<Log>(format, log);
        }
    }
}

/// Layouts reach a call as they are; an element-wise operation has that of its operand, and the result its own.
#[test]
fn layouts_of_hlo_stay() {
    let text = r#"func.func @main(%x: tensor<4x6xf32, {order = [1, 0]}>, %g: tensor<4x6xf32, {order = [1, 0]}>) -> tensor<4x6xf32, {order = [1, 0]}> {
  %0 = "acme.gate"(%x, %g) : (tensor<4x6xf32, {order = [1, 0]}>, tensor<4x6xf32, {order = [1, 0]}>) -> tensor<4x6xf32, {order = [1, 0]}>
  return %0 : tensor<4x6xf32, {order = [1, 0]}>
}
"#;
    let hlo = |compiler: &Compiler| {
        let program = compiler.parse("test.ir", text).unwrap();
        String::from_utf8(emitted(compiler, &program, OutputFormat::Hlo).unwrap()).unwrap()
    };
    let written = hlo(&compiler());
    assert!(written.contains("f32[4,6]{0,1} custom-call("), "{written}");
    fn exps(
        _: &OpRef<'_>,
        operands: &[Value],
        b: &mut FuncBuilder<'_>,
    ) -> Result<Vec<Value>, OpError> {
        let once = b.one(&Exp {}, &operands[..1])?;
        b.op(&Exp {}, &[once])
    }
    let written = hlo(&with::<Gate>(exps));
    let count = written.matches("f32[4,6]{0,1} exponential(").count();
    assert_eq!(count, 2, "{written}");
}

/// One value may be in the place of several results, and an operand in that of a result.
#[test]
fn results_may_be_operands() {
    let text = r#"func.func @main(%x: tensor<2x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>, tensor<2x2xf32>) {
  %0:2 = "hbir.split"(%x) <{axis = 0, sizes = [1, 1]}> : (tensor<2x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>)
  %1 = "hbir.identity"(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0#0, %0#1, %1 : tensor<1x2xf32>, tensor<1x2xf32>, tensor<2x2xf32>
}
"#;
    fn greatest(
        _: &OpRef<'_>,
        operands: &[Value],
        b: &mut FuncBuilder<'_>,
    ) -> Result<Vec<Value>, OpError> {
        let greatest = Reduce {
            kind: ReduceKind::Max,
            axes: Some(vec![0]),
            keepdims: true,
        };
        let part = b.one(&greatest, operands)?;
        Ok(vec![part, part])
    }
    fn itself(
        _: &OpRef<'_>,
        operands: &[Value],
        _: &mut FuncBuilder<'_>,
    ) -> Result<Vec<Value>, OpError> {
        Ok(operands.to_vec())
    }
    let mut compiler = with::<Split>(greatest);
    for format in FORMATS {
        compiler.write_in::<Identity>(format, itself);
    }
    let program = compiler.parse("test.ir", text).unwrap();
    let x = Tensor::from_f64(DType::F32, vec![2, 2], [1.0, 2.0, 3.0, 4.0]);
    for format in FORMATS {
        let again = read(&emitted(&compiler, &program, format).unwrap(), format);
        let argument = again.module.funcs[0].arg_key(0);
        let inputs = [(argument, x.clone())].into_iter().collect();
        let found = Compiler::new().run(&again, &inputs, &NoData).unwrap();
        let found: Vec<_> = found.values().map(Tensor::to_f64).collect();
        let row = vec![3.0, 4.0];
        assert_eq!(found, [row.clone(), row, x.to_f64()], "{format}");
    }
}

#[test]
fn another_number_of_results_is_refused() {
    fn none(_: &OpRef<'_>, _: &[Value], _: &mut FuncBuilder<'_>) -> Result<Vec<Value>, OpError> {
        Ok(Vec::new())
    }
    refused(
        none,
        "writer-result",
        "its writer gives 0 results, wanted 1",
    );
}

#[test]
fn another_type_is_refused() {
    fn itself(_: &OpRef<'_>, x: &[Value], _: &mut FuncBuilder<'_>) -> Result<Vec<Value>, OpError> {
        Ok(x.to_vec())
    }
    let says = "its writer gives tensor<2x3xf32> as result 0, wanted tensor<2xf32>";
    refused(itself, "writer-result", says);
}

#[test]
fn a_value_of_another_function_is_refused() {
    fn foreign(
        op: &OpRef<'_>,
        _: &[Value],
        b: &mut FuncBuilder<'_>,
    ) -> Result<Vec<Value>, OpError> {
        let mut other = FuncBuilder::new(b.registry());
        Ok(vec![other.arg("y", op.results[0].clone())])
    }
    let says = "what its writer makes is not well formed: result 0 of @acme.energy is defined nowhere in it";
    refused(foreign, "value-undefined", says);
    fn read(op: &OpRef<'_>, _: &[Value], b: &mut FuncBuilder<'_>) -> Result<Vec<Value>, OpError> {
        let mut other = FuncBuilder::new(b.registry());
        let y = other.arg("y", op.results[0].clone());
        b.op(&Exp {}, &[y])
    }
    let says = "operand 0 is a value of another function";
    refused(read, "value-foreign", says);
}

#[test]
fn an_unknown_operation_is_refused() {
    fn unknown(
        op: &OpRef<'_>,
        x: &[Value],
        b: &mut FuncBuilder<'_>,
    ) -> Result<Vec<Value>, OpError> {
        let made = NewOp::new("hbir.energy", x, optc::AttrDict::new());
        b.add(made.typed(vec![op.results[0].clone()]))
    }
    let says = "what its writer makes is not well formed: found hbir.energy, wanted an operation of the dialect";
    refused(unknown, "hbir-op-unknown", says);
}

#[test]
fn the_error_of_a_writer_is_its_own() {
    fn concat(_: &OpRef<'_>, x: &[Value], b: &mut FuncBuilder<'_>) -> Result<Vec<Value>, OpError> {
        b.op(&Concat { axis: 7 }, x)
    }
    let says = "hbir.concat has axis 7, wanted -2 to 1 for rank 2";
    refused(concat, "concat-c2", says);
}

#[test]
fn a_writer_that_uses_itself_is_refused() {
    fn again(_: &OpRef<'_>, x: &[Value], b: &mut FuncBuilder<'_>) -> Result<Vec<Value>, OpError> {
        b.op(&Energy {}, x)
    }
    refused(again, "writer-result", "16 writers use one another");
}

/// A node of the standard operators is checked like those that the emitter makes.
#[test]
fn a_standard_node_that_does_not_exist_is_refused() {
    fn node(op: &OpRef<'_>, x: &[Value], b: &mut FuncBuilder<'_>) -> Result<Vec<Value>, OpError> {
        let types: Vec<Type> = op.results.iter().map(|&ty| ty.clone()).collect();
        let mut node = Opaque::foreign("", "ReduceSumSquare", x, types);
        node.props.set("onnx.axis", Attr::int(1));
        b.add(node)
    }
    let compiler = with::<Energy>(node);
    let program = compiler.parse("test.ir", ENERGY).unwrap();
    let diag = emitted(&compiler, &program, OutputFormat::Onnx).unwrap_err();
    assert_eq!(diag.code, *"onnx-op");
    let says = "ReduceSumSquare has no attribute `axis`";
    assert!(diag.message.contains(says), "{}", diag.message);
}
