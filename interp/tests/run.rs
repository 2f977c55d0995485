//! The interpreters on small programs, with operations of the tests, made without the parser.

use indexmap::IndexMap;
use optc_compare::{
    EquivalenceOptions, Fill, NotEquivalent, RandomSource, compare, compare_exact, equivalent,
    random_inputs,
};
use optc_interp::{
    DataSource, FallbackSource, FolderSource, MemorySource, NoData, RunError, run_naive,
    run_reference,
};
use optc_ir::{
    Attr, AttrDict, Bindings, Call, Code, DType, Dense, Dim, EvalError, Func, Inferred, Loc,
    Module, OpError, OpRef, Operation, Registry, Tensor, TensorType, Type, Value, attributes,
};
use std::sync::Arc;

attributes! {
    /// Multiplies every element by a number.
    pub struct Scale {
        /// The number.
        by: f64,
    }
}

impl Operation for Scale {
    const NAME: &'static str = "test.scale";
    const SUMMARY: &'static str = "multiplies by `by`";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (1, 1);

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        Ok(vec![Inferred {
            dims: x.dims.clone(),
            dtype: x.dtype,
        }])
    }
    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        Ok(call.floats((0..x.len()).map(|i| x.f64_at(i) * self.by)))
    }
}

attributes! {
    /// Adds two tensors of one shape.
    pub struct Add {}
}

const ADD_C1: Code = Code::input("add-c1", "ranks differ", "two ranks", "reshape one");

impl Operation for Add {
    const NAME: &'static str = "test.add";
    const SUMMARY: &'static str = "adds";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (2, 2);

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let (x, y) = (op.operand(0)?, op.operand(1)?);
        if x.rank() != y.rank() {
            return Err(OpError::new(ADD_C1, "the ranks differ"));
        }
        Ok(vec![Inferred {
            dims: x.dims.clone(),
            dtype: x.dtype,
        }])
    }
    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let (x, y) = (call.input(0), call.input(1));
        if x.shape != y.shape {
            return Err(EvalError::new("the shapes differ"));
        }
        Ok(call.floats((0..x.len()).map(|i| x.f64_at(i) + y.f64_at(i))))
    }
}

/// The dialect, for constants and calls, and the tests' own operations.
fn registry() -> Registry {
    let mut registry = optc_ops::registry();
    registry.add::<Scale>();
    registry.add::<Add>();
    registry
}

fn f32s(shape: &[u64]) -> Type {
    Type::tensor(shape, DType::F32)
}

fn push(func: &mut Func, name: &str, operands: &[Value], props: AttrDict, ty: &Type) -> Value {
    let op = func.push_op(
        name,
        operands.to_vec(),
        props,
        vec![ty.clone()],
        Loc::name("here"),
    );
    func.ops[op].results[0]
}

fn by(x: f64) -> AttrDict {
    AttrDict::new().with("by", Attr::float(x))
}

fn module(funcs: Vec<Func>) -> Module {
    Module {
        funcs,
        ..Module::default()
    }
}

fn inputs(pairs: &[(&str, Tensor)]) -> IndexMap<String, Tensor> {
    pairs
        .iter()
        .map(|(k, t)| ((*k).to_owned(), t.clone()))
        .collect()
}

fn row(values: &[f64]) -> Tensor {
    Tensor::from_f64(DType::F32, vec![values.len()], values.iter().copied())
}

type Outputs = IndexMap<String, Tensor>;

/// Runs `@main` in both interpreters, which must agree.
fn run(
    module: &Module,
    given: &IndexMap<String, Tensor>,
    data: &dyn DataSource,
) -> Result<Outputs, RunError> {
    let (registry, none) = (registry(), Bindings::default());
    let reference = run_reference(module, &registry, "main", given, data, &none);
    let naive = run_naive(module, &registry, "main", given, data, &none);
    match (&reference, &naive) {
        (Ok(a), Ok(b)) => assert_eq!(a, b),
        (a, b) => assert_eq!(
            a.as_ref().map_err(ToString::to_string).err(),
            b.as_ref().map_err(ToString::to_string).err()
        ),
    }
    reference
}

/// `(x * 2) + x`.
fn tripled(ty: &Type) -> Module {
    let mut func = Func::new("main");
    let x = func.add_arg(ty.clone(), Some("x"));
    let double = push(&mut func, "test.scale", &[x], by(2.0), ty);
    let sum = push(&mut func, "test.add", &[double, x], AttrDict::new(), ty);
    func.add_result(sum, Some("y"));
    module(vec![func])
}

#[test]
fn operations_run_in_order() {
    let out = run(
        &tripled(&f32s(&[3])),
        &inputs(&[("x", row(&[1.0, -2.0, 0.5]))]),
        &NoData,
    )
    .unwrap();
    assert_eq!(out["y"], row(&[3.0, -6.0, 1.5]));
}

#[test]
fn inputs_are_checked() {
    let module = tripled(&f32s(&[3]));
    let ints = Tensor::from_i64(DType::SI32, vec![3], [1, 2, 3]);
    let mut liar = row(&[1.0, 2.0]);
    liar.shape = vec![3];
    let cases = [
        (
            inputs(&[]),
            "input-missing",
            "no input for argument `x` of type tensor<3xf32>",
        ),
        (
            inputs(&[("x", row(&[1.0])), ("z", row(&[1.0]))]),
            "input-extra",
            "input `z` is no argument of @main; its arguments are `x`",
        ),
        (
            inputs(&[("x", row(&[1.0]))]),
            "input-shape",
            "input `x` has shape 1, wanted 3",
        ),
        (
            inputs(&[("x", ints)]),
            "input-dtype",
            "input `x` has elements of type si32, wanted f32",
        ),
        (
            inputs(&[("x", liar)]),
            "input-malformed",
            "input `x` is not well formed: it holds 2 elements, its shape needs 3",
        ),
    ];
    for (given, code, message) in cases {
        let error = run(&module, &given, &NoData).unwrap_err();
        assert_eq!(
            (error.code().as_str(), error.to_string().as_str()),
            (code, message)
        );
    }
}

fn symbolic(names: &[&str]) -> Type {
    let dims = names.iter().map(|&n| match n {
        "?" => Dim::Unknown,
        _ => Dim::Symbol(Arc::from(n)),
    });
    TensorType::new(dims.collect(), DType::F32).into()
}

fn filled(shape: &[usize], x: f64) -> Tensor {
    let count = shape.iter().product();
    Tensor::from_f64(DType::F32, shape.to_vec(), std::iter::repeat_n(x, count))
}

#[test]
fn symbols_take_their_sizes_from_the_inputs() {
    let mut func = Func::new("main");
    let x = func.add_arg(symbolic(&["B", "?"]), Some("x"));
    let y = func.add_arg(symbolic(&["B", "?"]), Some("y"));
    let sum = push(
        &mut func,
        "test.add",
        &[x, y],
        AttrDict::new(),
        &symbolic(&["B", "?"]),
    );
    func.add_result(sum, None);
    let module = module(vec![func]);
    let given = inputs(&[("x", filled(&[2, 3], 1.0)), ("y", filled(&[2, 3], 2.0))]);
    assert_eq!(
        run(&module, &given, &NoData).unwrap()["result0"],
        filled(&[2, 3], 3.0)
    );
    let given = inputs(&[("x", filled(&[2, 3], 1.0)), ("y", filled(&[4, 3], 2.0))]);
    let error = run(&module, &given, &NoData).unwrap_err();
    let wanted = "input `y` has size 4 in dimension 0, but `B` is already 2 (from input `x`)";
    assert_eq!(error.to_string(), wanted);
    let given = inputs(&[("x", filled(&[2, 3], 1.0)), ("y", filled(&[2, 5], 2.0))]);
    let error = run(&module, &given, &NoData).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`test.add` in @main (from \"here\"): the shapes differ"
    );
    let bound = Bindings(IndexMap::from([(Arc::from("B"), 7)]));
    let given = random_inputs(&module, "main", Fill::Normal, 0, &bound, &registry()).unwrap();
    assert_eq!(given["y"].shape, [7, 128]);
    let clash = Bindings(IndexMap::from([(Arc::from("B"), 8)]));
    let error = run_reference(&module, &registry(), "main", &given, &NoData, &clash).unwrap_err();
    assert_eq!(error.code(), "input-symbol");
}

#[test]
fn a_result_must_have_its_declared_shape() {
    let mut func = Func::new("main");
    let x = func.add_arg(symbolic(&["B"]), Some("x"));
    let y = push(&mut func, "test.scale", &[x], by(2.0), &f32s(&[4]));
    func.add_result(y, None);
    let error = run(&module(vec![func]), &inputs(&[("x", row(&[1.0]))]), &NoData).unwrap_err();
    assert_eq!(error.code(), "run-result-type");
    let wanted = "`test.scale` in @main (from \"here\"): result 0 has shape 1, but its type says 4";
    assert_eq!(error.to_string(), wanted);
}

#[test]
fn operations_without_semantics_are_named() {
    let mut func = Func::new("main");
    let x = func.add_arg(f32s(&[1]), Some("x"));
    let y = push(&mut func, "other.thing", &[x], AttrDict::new(), &f32s(&[1]));
    func.add_result(y, None);
    let error = run(&module(vec![func]), &inputs(&[("x", row(&[1.0]))]), &NoData).unwrap_err();
    let wanted = "`other.thing` in @main (from \"here\"): \
                  the operation is not known, so it has no semantics to run";
    assert_eq!(
        (error.code().as_str(), error.to_string().as_str()),
        ("run-unknown-op", wanted)
    );
}

#[test]
fn a_missing_function_is_named() {
    let error = run_reference(
        &tripled(&f32s(&[1])),
        &registry(),
        "f",
        &inputs(&[]),
        &NoData,
        &Bindings::default(),
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "there is no function @f; the module has @main"
    );
}

fn constant(func: &mut Func, key: &str, value: Attr, ty: &Type) -> Value {
    push(
        func,
        "hbir.constant",
        &[],
        AttrDict::new().with(key, value),
        ty,
    )
}

fn external(length: u64) -> Attr {
    Attr::External {
        file: Arc::from("w.bin"),
        offset: 4,
        length,
    }
}

fn with_constant(key: &str, value: Attr) -> Module {
    let ty = f32s(&[2]);
    let mut func = Func::new("main");
    let c = constant(&mut func, key, value, &ty);
    let y = push(&mut func, "test.scale", &[c], by(3.0), &ty);
    func.add_result(y, Some("y"));
    func.add_result(c, Some("c"));
    module(vec![func])
}

#[test]
fn constants_come_from_the_text_or_from_files() {
    let none = inputs(&[]);
    let two = |splat: bool| {
        let bytes = if splat {
            2f32.to_le_bytes().to_vec()
        } else {
            row(&[2.0, 5.0]).to_bytes()
        };
        Attr::Dense(Arc::new(Dense {
            ty: f32s(&[2]),
            bytes,
            splat,
        }))
    };
    let out = run(&with_constant("value", two(true)), &none, &NoData).unwrap();
    assert_eq!(
        (&out["y"], &out["c"]),
        (&row(&[6.0, 6.0]), &row(&[2.0, 2.0]))
    );
    let out = run(&with_constant("value", two(false)), &none, &NoData).unwrap();
    assert_eq!(out["y"], row(&[6.0, 15.0]));

    let mut files = MemorySource::default();
    files
        .files
        .insert("w.bin".to_owned(), row(&[9.0, 1.0, 2.0]).to_bytes());
    let out = run(&with_constant("data", external(8)), &none, &files).unwrap();
    assert_eq!(out["y"], row(&[3.0, 6.0]));
    let error = run(&with_constant("data", external(8)), &none, &NoData).unwrap_err();
    assert!(
        error.to_string().contains("`w.bin` does not exist"),
        "{error}"
    );
    let error = run(&with_constant("data", external(12)), &none, &files).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("has 12 bytes, but 2 elements of f32 take 8"),
        "{error}"
    );
    files.files.insert("w.bin".to_owned(), vec![0; 7]);
    let error = run(&with_constant("data", external(8)), &none, &files).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("has 7 bytes, wanted 8 from byte 4 on"),
        "{error}"
    );
}

#[test]
fn absent_weights_are_made_up_the_same_way_every_time() {
    let source = FallbackSource {
        first: NoData,
        second: RandomSource,
    };
    let out = run(&with_constant("data", external(8)), &inputs(&[]), &source).unwrap();
    let again = run(&with_constant("data", external(8)), &inputs(&[]), &source).unwrap();
    assert_eq!(out, again);
    assert!(out["c"].f64_at(0) != out["c"].f64_at(1));
    let all = RandomSource.read("w.bin", 0, 40_000, DType::F32).unwrap();
    let part = RandomSource.read("w.bin", 400, 36_000, DType::F32).unwrap();
    assert_eq!(
        all[400..36_400],
        part,
        "a part of a piece has the same bytes"
    );
    let other = RandomSource.read("v.bin", 0, 40_000, DType::F32).unwrap();
    assert_ne!(all, other);
    let weights = Tensor::from_bytes(DType::F32, vec![10_000], &all).unwrap();
    let sum: f64 = (0..10_000).map(|i| weights.f64_at(i)).sum();
    let squares: f64 = (0..10_000).map(|i| weights.f64_at(i).powi(2)).sum();
    assert!(sum.abs() < 6.0, "the mean is not 0");
    assert!(
        (squares / 10_000.0 / 0.0004 - 1.0).abs() < 0.06,
        "the deviation is not 0.02"
    );
    assert!(RandomSource.read("w.bin", 0, 7, DType::F32).is_err());
}

#[test]
fn a_folder_is_never_left() {
    let root = std::env::temp_dir().join(format!("optc-folder-{}", std::process::id()));
    let inner = root.join("model");
    std::fs::create_dir_all(inner.join("sub")).unwrap();
    std::fs::write(root.join("secret"), [1, 2, 3]).unwrap();
    std::fs::write(inner.join("w.bin"), [1, 2, 3, 4]).unwrap();
    std::fs::write(inner.join("sub/v.bin"), [5, 6]).unwrap();
    let source = FolderSource::new(&inner);
    let read = |file: &str, offset, length| source.read(file, offset, length, DType::UI8);
    assert_eq!(read("w.bin", 1, 2).unwrap(), [2, 3]);
    assert_eq!(read("./sub/v.bin", 0, 2).unwrap(), [5, 6]);
    let absolute = root.join("secret").display().to_string();
    for path in [
        "../secret",
        "sub/../../secret",
        &absolute,
        "C:\\secret",
        "sub\\v.bin",
        "",
    ] {
        let error = read(path, 0, 1).unwrap_err().to_string();
        assert!(
            error.contains("leaves the program's folder"),
            "{path}: {error}"
        );
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(root.join("secret"), inner.join("link")).unwrap();
        let error = read("link", 0, 1).unwrap_err().to_string();
        assert!(error.contains("leaves the program's folder"), "{error}");
    }
    let error = read("gone.bin", 0, 1).unwrap_err().to_string();
    assert!(error.contains("`gone.bin` does not exist in"), "{error}");
    let error = read("w.bin", 3, u64::MAX).unwrap_err().to_string();
    assert!(error.contains("`w.bin` has 4 bytes"), "{error}");
    assert!(read("sub", 0, 1).is_err());
    std::fs::remove_dir_all(root).unwrap();
}

fn call(func: &mut Func, callee: &str, operands: &[Value], ty: &Type) -> Value {
    let props = AttrDict::new().with("callee", Attr::Symbol(Arc::from(callee)));
    push(func, "hbir.call", operands, props, ty)
}

#[test]
fn calls_run_the_called_function() {
    let any = symbolic(&["N"]);
    let mut callee = tripled(&any).funcs.remove(0);
    callee.name = Arc::from("triple");
    let mut func = Func::new("main");
    let x = func.add_arg(symbolic(&["M"]), Some("x"));
    let y = call(&mut func, "triple", &[x], &symbolic(&["M"]));
    let z = call(&mut func, "triple", &[y], &symbolic(&["M"]));
    func.add_result(z, None);
    let module = module(vec![func, callee]);
    let out = run(&module, &inputs(&[("x", row(&[1.0, 2.0]))]), &NoData).unwrap();
    assert_eq!(out["result0"], row(&[9.0, 18.0]));
}

#[test]
fn endless_calls_end() {
    let mut func = Func::new("main");
    let x = func.add_arg(f32s(&[1]), Some("x"));
    let y = call(&mut func, "main", &[x], &f32s(&[1]));
    func.add_result(y, None);
    let error = run(&module(vec![func]), &inputs(&[("x", row(&[1.0]))]), &NoData).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("calls are nested more than 64 deep"),
        "{error}"
    );
    let mut func = Func::new("main");
    let y = call(&mut func, "gone", &[], &f32s(&[1]));
    func.add_result(y, None);
    let error = run(&module(vec![func]), &inputs(&[]), &NoData).unwrap_err();
    assert!(
        error.to_string().contains("@gone does not exist"),
        "{error}"
    );
}

/// A program that returns one repeated element.
fn splat(ty: &Type) -> Module {
    let mut func = Func::new("main");
    let one = Dense {
        ty: ty.clone(),
        bytes: vec![0; 4],
        splat: true,
    };
    let c = constant(&mut func, "value", Attr::Dense(Arc::new(one)), ty);
    func.add_result(c, None);
    module(vec![func])
}

#[test]
fn shapes_beyond_memory_are_refused() {
    let huge = f32s(&[1 << 40, 1 << 40]);
    let error = run(&splat(&huge), &inputs(&[]), &NoData).unwrap_err();
    assert_eq!(error.code(), "tensor-too-large");
    let error = random_inputs(
        &tripled(&huge),
        "main",
        Fill::Normal,
        0,
        &Bindings::default(),
        &registry(),
    )
    .unwrap_err();
    assert_eq!(error.code(), "tensor-too-large");
}

#[test]
fn what_one_run_holds_has_a_limit() {
    let ty = f32s(&[(1 << 29) + 1]);
    let error = run(&splat(&ty), &inputs(&[]), &NoData).unwrap_err();
    assert_eq!(error.code(), "tensor-too-large");
    assert!(
        error
            .to_string()
            .contains("wanted at most 2147483648 in all"),
        "{error}"
    );
    let error = random_inputs(
        &tripled(&ty),
        "main",
        Fill::Normal,
        0,
        &Bindings::default(),
        &registry(),
    )
    .unwrap_err();
    assert_eq!(error.code(), "tensor-too-large");
}

#[test]
fn tolerances_are_those_of_the_element_type() {
    let t =
        |dtype, values: &[f64]| Tensor::from_f64(dtype, vec![values.len()], values.iter().copied());
    for (dtype, near, far) in [
        (DType::F64, 0.9e-9, 1.2e-9),
        (DType::F32, 0.9e-4, 1.2e-4),
        (DType::F16, 0.9e-2, 1.2e-2),
        (DType::BF16, 3.1e-2, 5e-2),
    ] {
        assert_eq!(
            compare(&t(dtype, &[near, 1.0]), &t(dtype, &[0.0, 1.0])),
            Ok(())
        );
        assert!(compare(&t(dtype, &[far, 1.0]), &t(dtype, &[0.0, 1.0])).is_err());
        assert_eq!(
            compare(&t(dtype, &[far * 6.0, 8.0]), &t(dtype, &[0.0, 8.0])),
            Ok(())
        );
        assert!(compare_exact(&t(dtype, &[near]), &t(dtype, &[0.0])).is_err());
    }
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let odd = t(DType::F32, &[nan, inf, -inf]);
    assert_eq!(compare(&odd, &odd), Ok(()));
    for other in [[0.0, inf, -inf], [nan, -inf, -inf], [nan, inf, 3.0e38]] {
        assert!(compare(&odd, &t(DType::F32, &other)).is_err());
    }
    let (a, b) = (
        Tensor::from_i64(DType::SI8, vec![2, 2], [1, 2, 3, 4]),
        Tensor::from_i64(DType::SI8, vec![2, 2], [1, 2, 3, 5]),
    );
    let wanted = "1 of 4 elements differ; the first at [1, 1]: 4 and 5";
    assert_eq!(compare(&a, &b).unwrap_err().to_string(), wanted);
    let error = compare(&t(DType::F32, &[1.0, 2.0]), &t(DType::F32, &[1.5, 4.0])).unwrap_err();
    assert_eq!((error.element, error.count), (Some(1), 2));
    assert!(compare(&a, &t(DType::F32, &[1.0])).is_err());
    assert!(compare(&t(DType::F32, &[1.0, 2.0]), &t(DType::F32, &[1.0])).is_err());
}

#[test]
fn programs_are_compared_on_the_same_inputs() {
    let ty = f32s(&[2, 3]);
    let a = tripled(&ty);
    let mut func = Func::new("main");
    let x = func.add_arg(ty.clone(), Some("renamed"));
    let y = push(&mut func, "test.scale", &[x], by(3.0), &ty);
    func.add_result(y, None);
    let b = module(vec![func]);
    let check = |a: &Module, b: &Module| {
        equivalent(
            a,
            b,
            &registry(),
            &NoData,
            &NoData,
            &EquivalenceOptions::default(),
        )
    };
    check(&a, &b).unwrap();
    let mut wrong = b.clone();
    let op = wrong.funcs[0].body[0];
    wrong.funcs[0].ops[op].props.set("by", Attr::float(3.001));
    let error = check(&a, &wrong).unwrap_err();
    let NotEquivalent::Differs {
        output, mismatch, ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((output.as_str(), mismatch.count > 0), ("y", true));
    assert!(
        error
            .to_string()
            .starts_with("output `y` of the second program differs"),
        "{error}"
    );
    assert!(matches!(
        check(&a, &tripled(&f32s(&[3, 2]))),
        Err(NotEquivalent::Boundary(_))
    ));
    assert!(matches!(
        check(&a, &Module::default()),
        Err(NotEquivalent::Boundary(_))
    ));
    wrong.funcs[0].ops[op].name = Arc::from("other.thing");
    assert!(matches!(check(&a, &wrong), Err(NotEquivalent::Run { .. })));
}

#[test]
fn a_name_may_stand_for_a_size_that_has_none() {
    let typed = |dims: [Dim; 2]| tripled(&TensorType::new(dims.to_vec(), DType::F32).into());
    let named = |text: &str| Dim::named(text);
    let open = typed([Dim::Unknown, Dim::Unknown]);
    let check = |b: &Module| {
        let options = EquivalenceOptions::default();
        equivalent(&open, b, &registry(), &NoData, &NoData, &options)
    };
    check(&typed([named("a"), named("b")])).expect("each name stands for one size");
    // Sizes must be equal here, while the first program accepts any.
    let equal = check(&typed([named("a"), named("a")]));
    assert!(matches!(equal, Err(NotEquivalent::Boundary(_))));
}

#[test]
fn the_same_seed_gives_the_same_inputs() {
    let module = tripled(&f32s(&[64]));
    let make = |fill, seed| {
        random_inputs(
            &module,
            "main",
            fill,
            seed,
            &Bindings::default(),
            &optc_ops::registry(),
        )
        .unwrap()
    };
    assert_eq!(make(Fill::Normal, 3), make(Fill::Normal, 3));
    assert_ne!(make(Fill::Normal, 3), make(Fill::Normal, 4));
    let first = make(Fill::Normal, 0)["x"].f64_at(0);
    assert_eq!(first.to_bits(), FIRST_OF_SEED_0.to_bits(), "{first}");
    let edge = make(Fill::Edge, 0);
    assert!((0..64).any(|i| edge["x"].f64_at(i) == 0.0));
    let odd = make(Fill::NonFinite, 0);
    assert!((0..64).any(|i| odd["x"].f64_at(i).is_nan()));
    let unique = make(Fill::Unique(0), 0);
    assert!((0..64).all(|i| unique["x"].i64_at(i) == i64::try_from(i).unwrap()));
}

/// A constant, so that a change of the generator is detected.
const FIRST_OF_SEED_0: f64 = 0.2080109864473343;

fn open_tensor(names: &[&str]) -> Type {
    let dims = names.iter().map(|n| Dim::named(n)).collect();
    TensorType::new(dims, DType::F32).into()
}

/// Compares two programs at chosen sizes.
fn compared(a: &Module, b: &Module) -> Result<(), String> {
    let options = EquivalenceOptions::default();
    let same = equivalent(a, b, &registry(), &NoData, &NoData, &options);
    same.map_err(|e| e.to_string())
}

#[test]
fn sizes_may_be_called_otherwise() {
    let program = |names: &[&str]| tripled(&open_tensor(names));
    let same = |a: &[&str], b: &[&str]| compared(&program(a), &program(b));
    same(&["B", "S"], &["n0", "n1"]).unwrap();
    same(&["n1", "n0"], &["n0", "n1"]).unwrap();
    same(&["2*B", "B+S", "S"], &["2*n1", "n0+n1", "n0"]).unwrap();
    same(&["A*B", "B"], &["B*n", "n"]).unwrap();
    let others: [[&[&str]; 2]; 6] = [
        [&["B", "S"], &["n", "n"]],
        [&["B", "B"], &["n", "m"]],
        [&["2*B", "B"], &["n", "m"]],
        [&["2*B", "S"], &["n", "m"]],
        [&["B+S", "S"], &["n+m", "n+1"]],
        [&["B", "S"], &["S", "B+S"]],
    ];
    for [a, b] in others {
        let error = same(a, b).unwrap_err();
        assert!(
            error.contains("argument `x` is tensor<"),
            "{a:?}, {b:?}: {error}"
        );
    }
}

#[test]
fn sizes_that_are_bound_go_by_the_names_of_the_first() {
    let (a, b) = (
        tripled(&open_tensor(&["n1", "n0"])),
        tripled(&open_tensor(&["n0", "n1"])),
    );
    let mut options = EquivalenceOptions::default();
    options.bindings.0.insert(Arc::from("n0"), 3);
    equivalent(&a, &b, &registry(), &NoData, &NoData, &options).unwrap();
}

#[test]
fn sizes_that_are_not_bound_differ_and_stay_small() {
    let a = tripled(&open_tensor(&["A", "B", "C", "D"]));
    compared(&a, &a).unwrap();
    let mut wrong = a.clone();
    let op = wrong.funcs[0].body[0];
    wrong.funcs[0].ops[op].props.set("by", Attr::float(5.0));
    let error = compared(&a, &wrong).unwrap_err();
    assert!(error.contains("A = 16, B = 18, C = 20, D = 22"), "{error}");
    let one = tripled(&open_tensor(&["N"]));
    let mut wrong = one.clone();
    let op = wrong.funcs[0].body[0];
    wrong.funcs[0].ops[op].props.set("by", Attr::float(5.0));
    let error = compared(&one, &wrong).unwrap_err();
    assert!(error.contains("N = 128"), "{error}");
}
