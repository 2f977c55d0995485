//! Constants: every element that the program has, in its own text or in a file, is written.

use super::func::{Outcome, Writer};
use super::shape::tensor_text;
use indexmap::IndexMap;
use optc_ir::analysis::Uses;
use optc_ir::op::{OpRef, Operation};
use optc_ir::{Attr, DType, Data, Diagnostic, Func, Module, OpData, Tensor, TensorType};
use optc_ops::{Constant, dense_tensor};

/// Reads `length` bytes of a file from `offset` on, elements of a type: those that
/// `#hbir.external<"file", offset, length>` refers to. What it says of a failure names the file.
pub type ReadData<'a> = dyn Fn(&str, u64, u64, DType) -> Result<Vec<u8>, String> + 'a;

/// A file, an offset and a length.
type Place = (String, u64, u64);

/// The bytes of the files that constants refer to, by place.
#[derive(Default)]
pub(super) struct Files(IndexMap<Place, Vec<u8>>);

impl Files {
    /// What the constants of these functions refer to, if anything reads them.
    pub(super) fn read(
        module: &Module,
        funcs: &[usize],
        data: &ReadData<'_>,
    ) -> Result<Files, Box<Diagnostic>> {
        let mut files = Files::default();
        for &index in funcs {
            files.read_func(&module.funcs[index], data)?;
        }
        Ok(files)
    }

    fn read_func(&mut self, func: &Func, data: &ReadData<'_>) -> Result<(), Box<Diagnostic>> {
        let uses = Uses::of(func);
        for &op in &func.body {
            let made = &func.ops[op];
            let place = elements(made).as_ref().and_then(place);
            let Some((place, &[result])) = place.zip(made.results.first_chunk::<1>()) else {
                continue;
            };
            let Some(ty) = func.ty(result).as_tensor().filter(|_| uses.is_used(result)) else {
                continue;
            };
            if self.0.contains_key(&place) {
                continue;
            }
            let read = data(&place.0, place.1, place.2, ty.dtype);
            let bytes = read.map_err(|problem| {
                let message = format!("the data of a constant cannot be read: {problem}");
                let diag = Diagnostic::error("hlo-constant-data", message);
                let hint = format!("put `{}` where the program looks for it: HLO text holds the numbers themselves", place.0);
                Box::new(diag.at(made.span, "this constant").hint(hint))
            })?;
            self.0.insert(place, bytes);
        }
        Ok(())
    }
}

/// The elements of an operation, or where they lie.
fn elements(made: &OpData) -> Option<Constant> {
    let op = OpRef {
        name: &made.name,
        operands: Vec::new(),
        results: Vec::new(),
        props: &made.props,
    };
    Constant::of(&op).ok()
}

/// Where the elements of a constant lie, if that is a file.
fn place(made: &Constant) -> Option<Place> {
    match &made.data {
        Some(Attr::External {
            file,
            offset,
            length,
        }) => Some((file.to_string(), *offset, *length)),
        _ => None,
    }
}

/// A constant with all its elements; one number in all of them is a broadcast.
pub(super) fn constant(w: &mut Writer<'_>, made: &OpData, ty: &TensorType) -> Outcome<String> {
    let refuse = |problem: &str| {
        let message = format!("a constant cannot be written in HLO text: {problem}");
        let diag = Diagnostic::error("hlo-constant-data", message);
        Box::new(diag.at(made.span, "this constant"))
    };
    let elements = elements(made).ok_or_else(|| refuse("it has no elements"))?;
    let tensor = match (&elements.value, place(&elements)) {
        (Some(Attr::Dense(dense)), _) if dense.splat && !ty.dims.is_empty() => {
            let element = Tensor::from_bytes(ty.dtype, Vec::new(), &dense.bytes);
            let element = element.map_err(|e| refuse(&e.0))?;
            return w.filled(&element_text(&element, 0), ty);
        }
        (Some(Attr::Dense(dense)), _) => dense_tensor(dense).map_err(|e| refuse(&e.0))?,
        (_, Some(place)) => {
            let bytes = w.shared.files.0.get(&place);
            let bytes = bytes.ok_or_else(|| refuse("its file has not been read"))?;
            let sizes = ty.shape().unwrap_or_default();
            let shape = sizes
                .iter()
                .map(|&n| usize::try_from(n).unwrap_or(usize::MAX));
            Tensor::from_bytes(ty.dtype, shape.collect(), bytes).map_err(|e| refuse(&e.0))?
        }
        _ => return Err(refuse("it has neither a value nor data")),
    };
    let shape = tensor_text(ty)?;
    let mut text = String::new();
    literal(&tensor, &tensor.shape, &mut 0, &mut text);
    Ok(w.payload(&shape, "constant", &text, ""))
}

fn literal(tensor: &Tensor, shape: &[usize], at: &mut usize, out: &mut String) {
    let Some((&n, rest)) = shape.split_first() else {
        out.push_str(&element_text(tensor, *at));
        *at += 1;
        return;
    };
    if tensor.is_empty() && rest.is_empty() {
        out.push_str("{}");
        return;
    }
    out.push_str(if rest.is_empty() { "{" } else { "{ " });
    for i in 0..n {
        out.push_str(if i == 0 { "" } else { ", " });
        literal(tensor, rest, at, out);
    }
    out.push_str(if rest.is_empty() { "}" } else { " }" });
}

/// One element as HLO text writes it, exactly.
pub(super) fn element_text(tensor: &Tensor, i: usize) -> String {
    match (tensor.dtype, &tensor.data) {
        (d, _) if d.is_bool() => (tensor.i64_at(i) != 0).to_string(),
        (DType::Int { .. }, _) => tensor.i128_at(i).to_string(),
        (dtype @ (DType::Complex64 | DType::Complex128), Data::Bits(bits)) => {
            complex_text(bits[i], dtype)
        }
        (dtype, _) => float_text(tensor.f64_at(i), dtype),
    }
}

/// A complex number as HLO text writes it.
#[expect(clippy::cast_possible_truncation, reason = "the parts of the bits")]
fn complex_text(bits: u128, dtype: DType) -> String {
    let (real, imaginary, part) = if dtype == DType::Complex64 {
        let part = |bits: u128| f64::from(f32::from_bits(bits as u32));
        (part(bits), part(bits >> 32), DType::F32)
    } else {
        let part = |bits: u128| f64::from_bits(bits as u64);
        (part(bits), part(bits >> 64), DType::F64)
    };
    format!(
        "({}, {})",
        float_text(real, part),
        float_text(imaginary, part)
    )
}

/// A number as HLO text writes it in this element type.
pub(super) fn number_text(x: f64, dtype: DType) -> String {
    match dtype {
        d if d.is_bool() => (x != 0.0).to_string(),
        DType::Int { .. } => format!("{x:.0}"),
        DType::Complex64 | DType::Complex128 => {
            let part = dtype.complex_part().unwrap_or(dtype);
            format!("({}, 0)", float_text(x, part))
        }
        DType::F64 | DType::F32 | DType::F16 | DType::BF16 | DType::Mini(_) => float_text(x, dtype),
    }
}

/// A number that reads back as the same number.
pub(super) fn float_text(x: f64, dtype: DType) -> String {
    if x.is_nan() {
        return if x.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if x.is_infinite() {
        return if x < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the number is one of this type"
    )]
    let text = if dtype == DType::F64 {
        format!("{x:e}")
    } else {
        format!("{:e}", x as f32)
    };
    text.strip_suffix("e0").map_or(text.clone(), str::to_owned)
}
