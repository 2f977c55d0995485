//! Sizes of symbols, and checks of tensors against types.

use crate::error::{InputError, RunError};
use crate::limit::{MAX_ELEMENTS, elements_within_limit, shape_text};
use crate::ports::argument_keys;
use crate::uninterpreted::held_type;
use indexmap::{IndexMap, IndexSet};
use optc_ir::size::NAMELESS;
use optc_ir::{Bindings, DType, Data, Dim, Func, Tensor, TensorType, Type};
use std::sync::Arc;
use thiserror::Error;

/// The sizes that symbols have during one call.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The sizes as operations see them.
    pub(crate) bindings: Bindings,
    /// The origin of each symbol's size.
    origin: IndexMap<Arc<str>, String>,
}

/// A dimension whose size disagrees with its type.
pub(crate) enum Clash {
    /// Another rank or another extent.
    Shape,
    /// The symbol has another size.
    Symbol {
        dim: usize,
        symbol: Arc<str>,
        found: u64,
        bound: u64,
        by: String,
    },
}

impl Scope {
    /// The sizes that the caller gives.
    #[must_use]
    pub fn given(bindings: &Bindings) -> Scope {
        let origin = bindings
            .0
            .keys()
            .map(|s| (s.clone(), "as bound".to_owned()))
            .collect();
        Scope {
            bindings: bindings.clone(),
            origin,
        }
    }

    /// The extents of a type, if all are known by now.
    pub(crate) fn shape(&self, ty: &TensorType) -> Option<Vec<usize>> {
        ty.dims
            .iter()
            .map(|d| usize::try_from(self.size(d)?).ok())
            .collect()
    }

    /// The extents of a type. `open` replaces each unknown size, and each unknown name in an expression.
    pub(crate) fn shape_or(&self, ty: &TensorType, open: usize) -> Vec<usize> {
        let name = |name: &str| Some(self.bindings.0.get(name).copied().unwrap_or(open as u64));
        let size = |dim: &Dim| match dim {
            Dim::Fixed(n) => Some(*n),
            Dim::Symbol(_) => u64::try_from(dim.size()?.eval(&name)?).ok(),
            Dim::Unknown => None,
        };
        let extent = |dim: &Dim| size(dim).and_then(|n| usize::try_from(n).ok());
        ty.dims
            .iter()
            .map(|dim| extent(dim).unwrap_or(open))
            .collect()
    }

    fn size(&self, dim: &Dim) -> Option<u64> {
        self.bindings.size(dim)
    }

    /// Checks a shape against a type; symbols without a size take it from the shape.
    pub(crate) fn bind(
        &mut self,
        dims: &[Dim],
        shape: &[usize],
        by: impl Fn() -> String,
    ) -> Result<(), Clash> {
        if dims.len() != shape.len() {
            return Err(Clash::Shape);
        }
        for (dim, (wanted, &found)) in dims.iter().zip(shape).enumerate() {
            let found = found as u64;
            match (wanted, self.size(wanted)) {
                (Dim::Fixed(n), _) if *n != found => return Err(Clash::Shape),
                (Dim::Symbol(symbol), Some(bound)) if bound != found => {
                    let by = self.origin.get(symbol).cloned().unwrap_or_default();
                    let symbol = symbol.clone();
                    return Err(Clash::Symbol {
                        dim,
                        symbol,
                        found,
                        bound,
                        by,
                    });
                }
                (Dim::Symbol(_), None) => self.learn(wanted, found, &by),
                (Dim::Fixed(_) | Dim::Symbol(_) | Dim::Unknown, _) => {}
            }
        }
        Ok(())
    }

    /// Derives the size of the only unknown name in a dimension from the extent found there.
    fn learn(&mut self, dim: &Dim, found: u64, by: &impl Fn() -> String) {
        let Some(size) = dim.size() else { return };
        let known = |name: &str| self.bindings.0.get(name).copied();
        if let Some((name, n)) = size.solve(found, &known) {
            self.origin.insert(name.clone(), by());
            self.bindings.0.insert(name, n);
        }
    }

    /// Takes over the sizes of symbols that have none here.
    pub(crate) fn inherit(&mut self, outer: &Scope) {
        for (symbol, &size) in &outer.bindings.0 {
            if !self.bindings.0.contains_key(symbol) {
                self.bindings.0.insert(symbol.clone(), size);
                let by = outer.origin.get(symbol).cloned().unwrap_or_default();
                self.origin.insert(symbol.clone(), by);
            }
        }
    }

    /// Checks one tensor against the argument it is given for.
    pub(crate) fn bind_input(
        &mut self,
        name: &str,
        ty: &Type,
        tensor: &Tensor,
    ) -> Result<(), InputError> {
        let name = || name.to_owned();
        let found = ty;
        let ty = &*held_type(ty);
        let stands_in = tensor.dtype == ty.dtype && self.shape(ty).as_ref() == Some(&tensor.shape);
        if found.as_tensor().is_none() && !stands_in {
            return Err(InputError::NotTensor {
                name: name(),
                found: type_text(found),
            });
        }
        if let Err(problem) = well_formed(tensor) {
            return Err(InputError::Malformed {
                name: name(),
                problem: problem.to_string(),
            });
        }
        if tensor.dtype != ty.dtype {
            let (found, wanted) = (tensor.dtype.to_string(), ty.dtype.to_string());
            return Err(InputError::DType {
                name: name(),
                found,
                wanted,
            });
        }
        self.bind_shape(&name(), ty, &tensor.shape)
    }

    /// Checks the shape of an input against its argument.
    ///
    /// # Errors
    /// It has another one.
    pub fn bind_shape(
        &mut self,
        name: &str,
        ty: &TensorType,
        shape: &[usize],
    ) -> Result<(), InputError> {
        let by = || format!("from input `{name}`");
        self.bind(&ty.dims, shape, by).map_err(|clash| match clash {
            Clash::Shape => InputError::Shape {
                name: name.to_owned(),
                found: shape_text(shape),
                wanted: dims_text(&ty.dims),
            },
            Clash::Symbol {
                dim,
                symbol,
                found,
                bound,
                by,
            } => InputError::Symbol {
                name: name.to_owned(),
                dim,
                symbol: symbol.to_string(),
                found,
                bound,
                by,
            },
        })
    }
}

/// Checks inputs against the arguments of a function: none is missing, none is too many, element types and shapes are
/// as declared, and every symbol has one size.
///
/// Returns the sizes of all symbols: those of `bindings` and those that the inputs give.
///
/// # Errors
/// The first input that does not fit.
pub fn check_inputs(
    func: &Func,
    inputs: &IndexMap<String, Tensor>,
    bindings: &Bindings,
) -> Result<Bindings, InputError> {
    Ok(bind_inputs(func, inputs, bindings)?.bindings)
}

pub(crate) fn bind_inputs(
    func: &Func,
    inputs: &IndexMap<String, Tensor>,
    bindings: &Bindings,
) -> Result<Scope, InputError> {
    let keys = argument_keys(func);
    let known: IndexSet<&String> = keys.iter().collect();
    if let Some(name) = inputs.keys().find(|k| !known.contains(k)) {
        let known = name_list(&keys);
        let func = func.name.to_string();
        return Err(InputError::Extra {
            name: name.clone(),
            func,
            known,
        });
    }
    let mut scope = Scope::given(bindings);
    // Names that stand alone come first, since expressions consist of them.
    for (key, &value) in keys.iter().zip(&func.args) {
        let dims = func.ty(value).as_tensor().map_or(&[][..], |t| &t.dims);
        let shape = inputs.get(key).map_or(&[][..], |t| &t.shape);
        let by = || format!("from input `{key}`");
        let plain = |d: &Dim| d.size().is_some_and(|size| size.as_name().is_some());
        for (dim, &found) in dims.iter().zip(shape).filter(|(d, _)| plain(d)) {
            if scope.size(dim).is_none() {
                scope.learn(dim, found as u64, &by);
            }
        }
    }
    for (key, &value) in keys.iter().zip(&func.args) {
        let ty = func.ty(value);
        let Some(tensor) = inputs.get(key) else {
            let (name, wanted) = (key.clone(), type_text(ty));
            return Err(InputError::Missing { name, wanted });
        };
        scope.bind_input(key, ty, tensor)?;
    }
    Ok(scope)
}

/// The function of this name.
///
/// # Errors
/// The module has none.
pub fn find_func<'m>(module: &'m optc_ir::Module, name: &str) -> Result<&'m Func, RunError> {
    let plain = name.strip_prefix('@').unwrap_or(name);
    module
        .funcs
        .iter()
        .find(|f| &*f.name == plain)
        .ok_or_else(|| {
            let names: Vec<String> = module
                .funcs
                .iter()
                .map(|f| format!("@{}", f.name))
                .collect();
            let known = if names.is_empty() {
                "no functions".to_owned()
            } else {
                names.join(", ")
            };
            RunError::NoFunction {
                name: plain.to_owned(),
                known,
            }
        })
}

/// A tensor whose elements do not match its shape and its element type.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Malformed {
    /// The shape has too many elements.
    #[error("{0}")]
    Shape(String),
    /// The number of elements is not that of the shape.
    #[error("it holds {found} elements, its shape needs {wanted}")]
    Elements {
        /// The number of elements that it holds.
        found: usize,
        /// The number of elements of the shape.
        wanted: u64,
    },
    /// The elements are held as those of another type.
    #[error("its elements are not held as those of {0}")]
    Held(DType),
}

/// Checks that the number of elements is that of the shape and within the limits, and that they are of the right kind.
pub fn well_formed(tensor: &Tensor) -> Result<(), Malformed> {
    let shape = &tensor.shape;
    let wanted = elements_within_limit(shape).map_err(|e| Malformed::Shape(e.to_string()))?;
    let (found, fits) = match &tensor.data {
        Data::F32(v) => (
            v.len(),
            matches!(tensor.dtype, DType::F32 | DType::F16 | DType::BF16),
        ),
        Data::F64(v) => (v.len(), tensor.dtype == DType::F64),
        Data::I64(v) => (v.len(), tensor.dtype.is_int()),
        Data::Bits(v) => {
            let width = tensor.dtype.bits();
            let narrow = v.iter().all(|&x| width == 128 || x >> width == 0);
            (v.len(), !tensor.dtype.computes() && narrow)
        }
    };
    if found as u64 != wanted {
        return Err(Malformed::Elements { found, wanted });
    }
    if !fits {
        return Err(Malformed::Held(tensor.dtype));
    }
    Ok(())
}

/// The sizes of a type for a program without inputs: unbound symbols and unknown dimensions get `default`.
///
/// # Errors
/// It has too many elements.
pub fn shape_or_default(
    name: &str,
    ty: &TensorType,
    bindings: &Bindings,
    default: u64,
) -> Result<Vec<usize>, InputError> {
    let size = |name: &str| Some(bindings.0.get(name).copied().unwrap_or(default));
    let named = |d: &Dim| u64::try_from(d.size()?.eval(&size)?).ok();
    let bind = |d: &Dim| match d {
        Dim::Unknown => size(NAMELESS).unwrap_or(default),
        Dim::Fixed(_) | Dim::Symbol(_) => named(d).unwrap_or(default),
    };
    let shape = ty.shape_with(&bind);
    let shape: Option<Vec<usize>> = shape.into_iter().map(|n| usize::try_from(n).ok()).collect();
    let too_large = || InputError::TooLarge {
        name: name.to_owned(),
        shape: dims_text(&ty.dims),
        limit: MAX_ELEMENTS,
    };
    let shape = shape.ok_or_else(too_large)?;
    elements_within_limit(&shape).map_err(|_| too_large())?;
    Ok(shape)
}

/// `Bx3x?`; `scalar` for rank 0.
pub(crate) fn dims_text(dims: &[Dim]) -> String {
    let parts: Vec<String> = dims.iter().map(Dim::to_string).collect();
    if parts.is_empty() {
        "scalar".to_owned()
    } else {
        parts.join("x")
    }
}

/// A type in words, without its layout.
#[must_use]
pub fn type_text(ty: &Type) -> String {
    match ty {
        Type::Tensor(t) if t.dims.is_empty() => format!("tensor<{}>", t.dtype),
        Type::Tensor(t) => format!("tensor<{}x{}>", dims_text(&t.dims), t.dtype),
        Type::Scalar(d) => d.to_string(),
        Type::Other(text) => text.to_string(),
    }
}

fn name_list(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    if quoted.is_empty() {
        "none".to_owned()
    } else {
        quoted.join(", ")
    }
}
