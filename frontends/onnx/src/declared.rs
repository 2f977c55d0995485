//! Types that a file declares.

use crate::codes;
use crate::entries::known_or;
use crate::opaque;
use crate::tensor::{self, Declared};
use indexmap::{IndexMap, IndexSet};
use optc_ir::types::Dim;
use optc_ir::{Attr, Diagnostic, Port, Size, TensorType, Type};
use optc_onnx_proto::{GraphProto, ValueInfoProto};
use prost::Message;
use std::sync::Arc;

/// A name for each output. An output that is listed again gets a name with a number that no other has.
pub(crate) fn result_names(graph: &GraphProto) -> Vec<String> {
    let mut taken: IndexSet<String> = graph.output.iter().map(|o| o.name.clone()).collect();
    let mut seen: IndexSet<&str> = IndexSet::new();
    let mut names = Vec::with_capacity(graph.output.len());
    for (i, output) in graph.output.iter().enumerate() {
        let mut name = output.name.clone();
        if !seen.insert(&output.name) {
            while !taken.insert(name.clone()) {
                name = format!("{name}_{i}");
            }
        }
        names.push(name);
    }
    names
}

/// The types that the file declares for names, if they are tensors of known rank.
pub(crate) fn declared_types(graph: &GraphProto) -> IndexMap<String, Type> {
    let all = graph.value_info.iter().chain(&graph.output);
    let entry = |info: &ValueInfoProto| match tensor::declared(info.ty.as_ref()) {
        Declared::Tensor(ty) => Some((info.name.clone(), Type::from(ty))),
        Declared::Unranked(_) | Declared::Dtype(_) | Declared::Other => None,
    };
    let mut types: IndexMap<String, Type> = IndexMap::new();
    for (name, ty) in all.filter_map(entry) {
        let both = types.get(&name).and_then(|before| said_twice(before, &ty));
        types.insert(name, both.unwrap_or(ty));
    }
    types
}

/// A type whose open extents are replaced by those of an earlier declaration.
fn said_twice(before: &Type, ty: &Type) -> Option<Type> {
    let (before, ty) = (before.as_tensor()?, ty.as_tensor()?);
    if before.rank() != ty.rank() {
        return None;
    }
    let pairs = ty.dims.iter().zip(&before.dims);
    let dims = pairs.map(|(own, said)| known_or(own.clone(), said));
    Some(TensorType::new(dims.collect(), ty.dtype).into())
}

/// A type in which names that are expressions of other names, and not names themselves, are parsed.
pub(crate) fn with_expressions(ty: &TensorType, sizes: &IndexSet<Arc<str>>) -> TensorType {
    let read = |dim: &Dim| {
        let size = dim.size()?;
        let size = Size::parse(size.as_name()?)?;
        let known = size.as_name().is_none() && size.names().iter().all(|n| sizes.contains(n));
        known.then(|| Dim::of_size(&size))
    };
    let dims = ty.dims.iter().map(|d| read(d).unwrap_or_else(|| d.clone()));
    TensorType {
        dims: dims.collect(),
        ..ty.clone()
    }
}

/// The type of an input; a type that the IR does not have becomes unknown, with a warning.
pub(crate) fn argument_type(
    input: &ValueInfoProto,
) -> Result<(Type, Option<Diagnostic>), Diagnostic> {
    let what = format!("the input `{}`", input.name);
    match tensor::declared(input.ty.as_ref()) {
        Declared::Tensor(ty) => Ok((Type::from(ty), None)),
        Declared::Dtype(found) => {
            let warning = tensor::unsupported_dtype(&what, &found);
            Ok((opaque::unknown(), Some(warning)))
        }
        Declared::Unranked(dtype) => {
            let message = format!("{what} of {dtype} has no rank");
            Err(Diagnostic::error(codes::SHAPE_UNKNOWN, message)
                .note("wanted a shape, its extents may be open"))
        }
        Declared::Other if input.ty.is_some() => Ok((opaque::unknown(), None)),
        Declared::Other => Err(Diagnostic::error(
            codes::SHAPE_UNKNOWN,
            format!("{what} has no type"),
        )),
    }
}

/// The type in the file, as its bytes in hexadecimal digits, if the IR has no such type.
pub(crate) fn foreign_type(ty: &Type, info: &ValueInfoProto) -> Option<Attr> {
    if ty.as_tensor().is_some() {
        return None;
    }
    let bytes = info.ty.as_ref()?.encode_to_vec();
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    Some(Attr::str(&digits))
}

/// Returns whether two types contradict each other.
pub(crate) fn contradicts(found: &TensorType, declared: &TensorType) -> bool {
    let differ = |(a, b): (&Dim, &Dim)| matches!((a, b), (Dim::Fixed(x), Dim::Fixed(y)) if x != y);
    found.dtype != declared.dtype
        || found.rank() != declared.rank()
        || found.dims.iter().zip(&declared.dims).any(differ)
}

pub(crate) fn show(ty: &TensorType) -> String {
    let dims: String = ty.dims.iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dims}{}>", ty.dtype)
}

/// The names of a function's ports.
#[derive(Default)]
pub(crate) struct Ports(IndexSet<String>);

impl Ports {
    /// A name that no port has.
    pub(crate) fn fresh(&mut self, name: &str) -> String {
        let numbered = (1..).map(|i| format!("{name}_{i}"));
        let mut all = std::iter::once(name.to_owned()).chain(numbered);
        let free = all.find(|name| !self.0.contains(name)).unwrap_or_default();
        self.0.insert(free.clone());
        free
    }
}

/// Sets the name of a port outside the program, and its type in the file if the IR has no such type.
pub(crate) fn set_port<'p>(
    port: Option<&'p mut Port>,
    name: &str,
    foreign: Option<Attr>,
) -> Option<&'p mut Port> {
    let port = port?;
    port.attrs.set("hbir.name", Attr::str(name));
    if let Some(ty) = foreign {
        port.attrs.set("hbir.onnx_type", ty);
    }
    Some(port)
}

/// A type whose open extents are replaced by those that the file declares.
pub(crate) fn refined(ty: Type, declared: Option<&Type>) -> Type {
    let both = ty.as_tensor().zip(declared.and_then(Type::as_tensor));
    let Some((own, said)) = both.filter(|(own, said)| own.rank() == said.rank()) else {
        return ty;
    };
    let pairs = own.dims.iter().zip(&said.dims);
    let dims = pairs
        .map(|(own, said)| known_or(own.clone(), said))
        .collect();
    TensorType::new(dims, own.dtype).into()
}
