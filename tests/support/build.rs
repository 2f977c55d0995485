//! Builds functions operation by operation; result types come from the shape rules.

use optc_ir::entity::SideTable;
use optc_ir::{
    Attr, AttrDict, DType, Dim, Func, Loc, Module, OpRef, Registry, TensorType, Type, Value,
};
use std::sync::Arc;

/// A function under construction.
pub struct Builder<'a> {
    func: Func,
    registry: &'a Registry,
}

impl<'a> Builder<'a> {
    /// An empty `@main`.
    #[must_use]
    pub fn new(registry: &'a Registry) -> Builder<'a> {
        Builder {
            func: Func::new("main"),
            registry,
        }
    }

    /// Adds a row-major argument.
    pub fn arg(&mut self, name: &str, dims: &[Dim], dtype: DType) -> Value {
        self.func
            .add_arg(TensorType::new(dims.to_vec(), dtype).into(), Some(name))
    }

    /// Adds a constant whose bytes are in a file.
    pub fn external(&mut self, file: &str, offset: u64, shape: &[u64], dtype: DType) -> Value {
        let elements: u64 = shape.iter().product();
        let length = elements * u64::from(dtype.bits() / 8);
        let data = Attr::External {
            file: Arc::from(file),
            offset,
            length,
        };
        self.source(
            AttrDict::new().with("data", data),
            Type::tensor(shape, dtype),
        )
    }

    /// Adds a constant of `f32` numbers.
    pub fn floats(&mut self, shape: &[u64], values: &[f32]) -> Value {
        let ty = Type::tensor(shape, DType::F32);
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let splat = values.len() == 1 && shape.iter().product::<u64>() != 1;
        let dense = optc_ir::Dense {
            ty: ty.clone(),
            bytes,
            splat,
        };
        self.source(
            AttrDict::new().with("value", Attr::Dense(Arc::new(dense))),
            ty,
        )
    }

    fn source(&mut self, props: AttrDict, ty: Type) -> Value {
        let op = self
            .func
            .push_op("hbir.constant", Vec::new(), props, vec![ty], Loc::Unknown);
        self.func.ops[op].results[0]
    }

    /// Adds an operation.
    ///
    /// # Errors
    /// The operation is unknown, or its shape rule refuses the operands; nothing is added then.
    pub fn try_op(
        &mut self,
        name: &str,
        operands: &[Value],
        props: AttrDict,
    ) -> Result<Vec<Value>, String> {
        let decl = self
            .registry
            .get(name)
            .ok_or_else(|| format!("no operation {name}"))?;
        let types: Vec<&Type> = operands.iter().map(|&v| self.func.ty(v)).collect();
        let op = OpRef {
            name,
            operands: types,
            results: Vec::new(),
            props: &props,
        };
        let inferred = decl.infer(&op).map_err(|e| format!("{name}: {e}"))?;
        let types = inferred
            .into_iter()
            .map(|i| TensorType::from(i).into())
            .collect();
        let op = self
            .func
            .push_op(name, operands.to_vec(), props, types, Loc::Unknown);
        Ok(self.func.ops[op].results.clone())
    }

    /// Adds an operation with one result.
    ///
    /// # Panics
    /// The operation is refused: the caller has made sure that it fits.
    pub fn op(&mut self, name: &str, operands: &[Value], props: AttrDict) -> Value {
        match self.try_op(name, operands, props) {
            Ok(results) => results[0],
            Err(problem) => panic!("{problem}"),
        }
    }

    /// The type of a value.
    ///
    /// # Panics
    /// The value is no tensor; a builder makes nothing else.
    #[must_use]
    pub fn ty(&self, value: Value) -> &TensorType {
        self.func
            .ty(value)
            .as_tensor()
            .expect("a builder makes only tensors")
    }

    /// The extents of a value; an unknown one counts as 1.
    #[must_use]
    pub fn shape(&self, value: Value) -> Vec<u64> {
        self.ty(value).shape_with(&|_| 1)
    }

    /// The number of operations so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.func.body.len()
    }

    /// Whether there is no operation yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.func.body.is_empty()
    }

    /// The values that nothing uses yet, in order.
    #[must_use]
    pub fn unused(&self) -> Vec<Value> {
        let mut used: SideTable<Value, bool> = SideTable::new(false);
        for &op in &self.func.body {
            for &operand in &self.func.ops[op].operands {
                used[operand] = true;
            }
        }
        let ops = self.func.body.iter().map(|&op| &self.func.ops[op]);
        ops.flat_map(|op| op.results.iter().copied())
            .filter(|&v| !used[v])
            .collect()
    }

    /// The module, with `results` returned.
    #[must_use]
    pub fn finish(mut self, results: &[Value]) -> Module {
        for &value in results {
            self.func.add_result(value, None);
        }
        Module {
            funcs: vec![self.func],
            ..Module::default()
        }
    }
}

/// Attributes by name.
#[must_use]
pub fn props<const N: usize>(items: [(&str, Attr); N]) -> AttrDict {
    items.into_iter().collect()
}
