//! Small ONNX models: they fold completely, and all executors agree with onnxruntime.

use indexmap::IndexMap;
use optc_check::Stats;
use optc_compare::{compare, compare_exact, npz};
use optc_interp::{DataError, DataSource, run_naive, run_reference};
use optc_ir::{Bindings, DType, Module, Registry, Tensor, TensorType, verify};
use optc_passes::Boundary;
use optc_passes::view_fold::Proof;
use optc_tests::check::{run_passes, words};
use optc_tests::paths::{files, root};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The formula of `models/make_expected.py`: numbers from -2 to 2 in steps of 1/64.
fn pattern(position: u64) -> f64 {
    let bits = position.wrapping_mul(2_654_435_761) % (1 << 32);
    f64::from(u32::try_from(bits >> 24).expect("8 bits")) / 64.0 - 2.0
}

/// Weights: those in the model's own file are read, all others are computed by the formula.
struct Weights {
    model: PathBuf,
}

impl DataSource for Weights {
    fn read(
        &self,
        file: &str,
        offset: u64,
        length: u64,
        dtype: DType,
    ) -> Result<Vec<u8>, DataError> {
        let folder = self.model.parent().expect("a model lies in a folder");
        if folder.join(file) == self.model {
            return optc_interp::FolderSource::new(folder).read(file, offset, length, dtype);
        }
        assert_eq!(dtype, DType::F32, "the formula gives f32");
        let number = |i: u64| (pattern(offset / 4 + i) as f32 * 0.05f32).to_le_bytes();
        Ok((0..length / 4).flat_map(number).collect())
    }
}

struct Model {
    name: String,
    module: Module,
    weights: Weights,
}

fn models() -> Vec<Model> {
    let paths = files(&root().join("tests/models"), "onnx");
    assert!(10 <= paths.len(), "the models are there");
    paths.into_iter().map(load).collect()
}

fn load(path: PathBuf) -> Model {
    let bytes = std::fs::read(&path).expect("a model can be read");
    let name = path
        .file_name()
        .expect("a file has a name")
        .to_string_lossy()
        .into_owned();
    let options = optc_onnx::Options {
        name: Some(name.clone()),
        ..optc_onnx::Options::default()
    };
    let import = optc_onnx::import(&bytes, &options);
    let import = import.unwrap_or_else(|d| panic!("{name}: {}", words(&d)));
    assert!(import.diags.is_empty(), "{name}: {}", words(&import.diags));
    let registry = optc_ops::registry();
    verify::verify(&import.module, &registry).unwrap_or_else(|d| panic!("{name}: {}", words(&d)));
    Model {
        name,
        module: import.module,
        weights: Weights { model: path },
    }
}

fn inputs(module: &Module) -> IndexMap<String, Tensor> {
    let func = &module.funcs[0];
    let mut inputs = IndexMap::new();
    for (k, (key, &arg)) in optc_interp::argument_keys(func)
        .into_iter()
        .zip(&func.args)
        .enumerate()
    {
        let ty: &TensorType = func.ty(arg).as_tensor().expect("arguments are tensors");
        let shape = ty.shape().expect("the models have known sizes");
        let shape: Vec<usize> = shape
            .iter()
            .map(|&n| usize::try_from(n).expect("small"))
            .collect();
        let n = shape.iter().product::<usize>() as u64;
        let values = (0..n).map(|i| pattern(1000 * k as u64 + i));
        inputs.insert(key, Tensor::from_f64(ty.dtype, shape, values));
    }
    inputs
}

type Outputs = IndexMap<String, Tensor>;

fn reference(module: &Module, model: &Model, registry: &Registry) -> Outputs {
    let (inputs, bindings) = (inputs(&model.module), Bindings::default());
    let run = run_reference(module, registry, "main", &inputs, &model.weights, &bindings);
    run.unwrap_or_else(|e| panic!("{}: {e}", model.name))
}

fn naive(module: &Module, model: &Model, registry: &Registry) -> Outputs {
    let (inputs, bindings) = (inputs(&model.module), Bindings::default());
    let run = run_naive(module, registry, "main", &inputs, &model.weights, &bindings);
    run.unwrap_or_else(|e| panic!("{}: {e}", model.name))
}

/// The elements of an output that are in the expected file.
fn kept(tensor: &Tensor, n_kept: usize) -> Tensor {
    let n = tensor.len();
    let step = n.div_ceil(4096).max(1);
    let picked: Vec<f64> = (0..n).step_by(step).map(|i| tensor.f64_at(i)).collect();
    assert_eq!(picked.len(), n_kept);
    Tensor::from_f64(tensor.dtype, vec![picked.len()], picked)
}

fn compare_with_expected(model: &Model, outputs: &Outputs) {
    let stem = Path::new(&model.name).with_extension("npz");
    let path = root().join("tests/models/expected").join(stem);
    let arrays = npz::read(File::open(&path).expect("expected outputs are committed"));
    let arrays = arrays.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(arrays.len(), 2 * outputs.len(), "{}", model.name);
    for (key, found) in outputs {
        let shape = arrays[&format!("{key}:shape")]
            .to_tensor(DType::SI64)
            .expect("integers");
        let shape: Vec<usize> = (0..shape.len()).map(|i| shape.f64_at(i) as usize).collect();
        assert_eq!(found.shape, shape, "{} {key}", model.name);
        let wanted = arrays[key].to_tensor(found.dtype).expect("numbers");
        let found = kept(found, wanted.len());
        compare(&found, &wanted).unwrap_or_else(|e| panic!("{} {key}: {e}", model.name));
    }
}

#[test]
fn reference_agrees_with_onnxruntime() {
    let registry = optc_ops::registry();
    for model in models() {
        compare_with_expected(&model, &reference(&model.module, &model, &registry));
    }
}

#[test]
fn folded_models_have_no_rearrangements_and_the_same_numbers() {
    let registry = Arc::new(optc_ops::registry());
    for target in ["cpu", "journey6"] {
        for model in models() {
            let name = &model.name;
            let ran = run_passes(
                &model.module,
                "default",
                target,
                &Boundary::default(),
                &registry,
            );
            let ran = ran.unwrap_or_else(|e| panic!("{name}: {e}"));
            let stats = Stats::of(&ran.module, &registry);
            assert_eq!(
                (stats.reshape, stats.transpose),
                (0, 0),
                "{name} on {target}"
            );
            let report = ran.fold().expect("view-fold reports");
            assert!(
                report.bytes_after <= report.bytes_before,
                "{name} on {target}"
            );
            let outputs = reference(&ran.module, &model, &registry);
            compare_with_expected(&model, &outputs);
            let physical = naive(&ran.module, &model, &registry);
            for (key, tensor) in &outputs {
                let same = compare_exact(&physical[key], tensor);
                same.unwrap_or_else(|e| panic!("{name} on {target}, {key}: {e}"));
            }
        }
    }
}

#[test]
fn printed_models_mean_the_same() {
    let registry = optc_ops::registry();
    for model in models() {
        let parsed = optc_tests::check::round_trip(&model.module, &registry);
        let parsed = parsed.unwrap_or_else(|e| panic!("{}: {e}", model.name));
        let (a, b) = (
            reference(&model.module, &model, &registry),
            reference(&parsed, &model, &registry),
        );
        assert_eq!(a, b, "{}", model.name);
    }
}

/// A product for which no alternative of its row takes the operand and the result together. The bound includes the
/// transpose after it, or the additional time of the product with exchanged operands.
#[test]
fn a_transpose_that_no_product_writes_is_proved() {
    let registry = Arc::new(optc_ops::registry());
    let model = load(root().join("tests/models/micro_layernorm_nchw.onnx"));
    for (target, moved, slower) in [("onnx", 25_088, 0), ("onnxruntime", 25_088, 2_508)] {
        let passes = "canonicalize,view-fold";
        let ran = run_passes(
            &model.module,
            passes,
            target,
            &Boundary::default(),
            &registry,
        );
        let ran = ran.expect("folds");
        let report = ran.fold().expect("a report");
        assert_eq!(report.proof, Proof::Optimal, "{target}");
        assert_eq!(report.lower_bound_bytes, moved + slower, "{target}");
        assert_eq!(
            Stats::of(&ran.module, &registry).movement_bytes,
            moved,
            "{target}"
        );
    }
}
