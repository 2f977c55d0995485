//! One call in progress. A [`Memory`] decides how values are held.

use crate::constant::constant;
use crate::contents::contents;
use crate::data::DataSource;
use crate::error::{OpFailure, RunError};
use crate::limit::{Budget, shape_text};
use crate::memo::Memo;
use crate::scope::{Clash, Scope, dims_text, type_text, well_formed};
use crate::sharing::Sharing;
use crate::uninterpreted::{self, OPEN_SIZE, Opaque, held_type};
use indexmap::IndexMap;
use optc_ir::entity::EntityId;
use optc_ir::{
    DType, EvalContext, Func, Module, Op, OpData, OpDecl, OpRef, Registry, Structure, Tensor,
    TensorType, Type, Value, ValueDef,
};
use optc_tile::Schedule;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The schedules of functions, by their names.
pub type Schedules = BTreeMap<String, Schedule>;

/// The schedules of a run in which no function runs tile by tile.
pub(crate) static UNSCHEDULED: Schedules = BTreeMap::new();

/// The way in which an interpreter holds values.
pub(crate) trait Memory {
    /// The representation of a value.
    type Held: Clone;

    /// Stores a logical tensor in the layout of its type.
    fn store(&mut self, tensor: Arc<Tensor>, ty: &TensorType) -> Result<Self::Held, OpFailure>;

    /// Reads a value as a logical tensor.
    fn load(&mut self, held: &Self::Held, ty: &TensorType) -> Result<Arc<Tensor>, OpFailure>;

    /// Returns whether this memory executes operations of this structure itself, without the declared semantics.
    fn handles(&self, structure: Structure) -> bool;

    /// Executes an operation that this memory handles.
    fn direct(&mut self, step: &Direct<'_, Self::Held>) -> Result<Self::Held, OpFailure>;

    /// The interface to values that share bytes; `None` if every value has its own.
    fn sharing(&mut self) -> Option<&mut dyn Shares<Held = Self::Held>> {
        None
    }
}

/// A memory in which values may lie in the bytes of others.
pub(crate) trait Shares {
    /// The representation of a value.
    type Held: Clone;

    /// A new buffer that nothing has written yet.
    fn reserve(&mut self, value: &Site) -> Result<Self::Held, OpFailure>;

    /// The part of `whole` whose elements have these row-major numbers in it, held as a value of this shape.
    fn within(
        &mut self,
        whole: (&Self::Held, &Site),
        part: &Site,
        numbers: &[usize],
        shape: &[usize],
    ) -> Result<Self::Held, OpFailure>;

    /// A value that lies elsewhere at these parts, and in a buffer of its own at the rest.
    fn in_pieces(
        &mut self,
        value: &Site,
        parts: &[Piece<Self::Held>],
    ) -> Result<Self::Held, OpFailure>;

    /// Writes a tensor to a value. The elements with these numbers were written before and stay; no other element may
    /// have been written.
    fn write(
        &mut self,
        held: &Self::Held,
        tensor: &Tensor,
        value: &Site,
        written: &[usize],
    ) -> Result<(), OpFailure>;

    /// Writes a tensor to a value all of whose elements were written before.
    fn overwrite(
        &mut self,
        held: &Self::Held,
        tensor: &Tensor,
        value: &Site,
    ) -> Result<(), OpFailure>;
}

/// A part that lies elsewhere, and the view in which its elements have these row-major numbers.
pub(crate) type Piece<H> = ((H, Site), (Site, Vec<usize>));

/// The type of a value and its extents.
pub(crate) struct Site {
    pub(crate) ty: TensorType,
    pub(crate) shape: Vec<usize>,
}

/// The operation with one operand and one result that [`Memory::direct`] executes.
pub(crate) struct Direct<'a, H> {
    pub(crate) structure: Structure,
    pub(crate) operand: &'a H,
    pub(crate) from: &'a TensorType,
    pub(crate) to: &'a TensorType,
    /// The result's extents.
    pub(crate) shape: Vec<usize>,
}

/// The constant data of a run.
#[derive(Clone, Copy)]
pub(crate) struct Program<'a> {
    pub(crate) module: &'a Module,
    pub(crate) registry: &'a Registry,
    pub(crate) data: &'a dyn DataSource,
    /// The schedules of the functions whose groups run tile by tile. Functions without a schedule run operation by
    /// operation.
    pub(crate) schedules: &'a Schedules,
    pub(crate) opaque: Opaque<'a>,
    /// Memoized results of costly operations.
    pub(crate) memo: Option<&'a Memo>,
}

/// One call in progress.
pub(crate) struct Frame<'a, M: Memory> {
    pub(crate) program: Program<'a>,
    pub(crate) func: &'a Func,
    pub(crate) memory: &'a mut M,
    pub(crate) values: Vec<Option<M::Held>>,
    /// The bytes that each value occupies in the budget.
    pub(crate) counted: Vec<u64>,
    pub(crate) scope: Scope,
    pub(crate) sharing: Sharing,
    /// Roots that were never written as a whole, but of which parts may have been written.
    pub(crate) reserved: IndexMap<Value, M::Held>,
    pub(crate) budget: &'a Budget,
    /// The number of calls, loops and branches around this one.
    pub(crate) depth: usize,
}

impl<M: Memory> Frame<'_, M> {
    pub(crate) fn boundary(&self, what: &str, failure: OpFailure) -> RunError {
        let func = self.func.name.to_string();
        RunError::Boundary {
            func,
            what: what.to_owned(),
            source: Box::new(failure),
        }
    }

    /// The structure of an operation.
    pub(crate) fn structure(&self, op: Op) -> Structure {
        self.program.registry.structure(&self.func.ops[op].name)
    }

    pub(crate) fn inputs(&mut self, data: &OpData) -> Result<Vec<Arc<Tensor>>, OpFailure> {
        data.operands
            .iter()
            .enumerate()
            .map(|(i, &v)| self.load(i, v))
            .collect()
    }

    /// Executes an operation of one operand and one result if the memory handles it.
    pub(crate) fn direct(&mut self, op: Op) -> Result<Option<M::Held>, OpFailure> {
        let func = self.func;
        let data = &func.ops[op];
        let ([operand], [result]) = (&data.operands[..], &data.results[..]) else {
            return Ok(None);
        };
        let (Some(from), Some(to)) = (func.ty(*operand).as_tensor(), func.ty(*result).as_tensor())
        else {
            return Ok(None);
        };
        let structure = self.structure(op);
        if !self.memory.handles(structure) {
            return Ok(None);
        }
        self.declaration(&func.op_ref(op))?;
        if structure == Structure::Convert && self.has_a_place(*result) {
            return Ok(None);
        }
        let held = self.held(0, *operand)?;
        let shape = match self.scope.shape(to) {
            Some(shape) => shape,
            None => self.computed_shape(op, *operand, to)?,
        };
        self.budget.room(to.dtype, &shape)?;
        self.memory
            .direct(&Direct {
                structure,
                operand: &held,
                from,
                to,
                shape,
            })
            .map(Some)
    }

    /// The shape of a result that its type leaves open, as the declared semantics compute it.
    fn computed_shape(
        &mut self,
        op: Op,
        operand: Value,
        ty: &TensorType,
    ) -> Result<Vec<usize>, OpFailure> {
        let input = self.load(0, operand)?;
        let results = self.eval(op, &[input])?;
        let result = results.first().ok_or(OpFailure::ResultCount {
            found: 0,
            wanted: 1,
        })?;
        self.bind_result(0, self.func.ops[op].results[0], ty, &result.shape)?;
        Ok(result.shape.clone())
    }

    /// The declaration of an operation, after a check that the operation is well formed.
    pub(crate) fn declaration(&self, op: &OpRef<'_>) -> Result<&dyn OpDecl, OpFailure> {
        let decl = self
            .program
            .registry
            .get(op.name)
            .ok_or(OpFailure::Unknown)?;
        // Opaque operations may return values that are not tensors.
        let tensors = op.results.iter().all(|ty| ty.as_tensor().is_some());
        if tensors || decl.structure() != Structure::Opaque {
            decl.infer(op)?;
        }
        Ok(decl)
    }

    /// Evaluates the declared semantics on operands that have the declared shapes.
    pub(crate) fn eval(
        &self,
        op: Op,
        inputs: &[Arc<Tensor>],
    ) -> Result<Vec<Arc<Tensor>>, OpFailure> {
        let op = self.func.op_ref(op);
        let decl = self.declaration(&op)?;
        for ty in &op.results {
            let Some(ty) = ty.as_tensor() else { continue };
            if let Some(shape) = self.scope.shape(ty) {
                self.budget.room(ty.dtype, &shape)?;
            }
        }
        let memo = self.program.memo;
        let memo = memo.and_then(|memo| Some((memo, Memo::key(&op, decl, inputs)?)));
        if let Some(known) = memo.and_then(|(memo, key)| memo.get(key)) {
            return Ok(known);
        }
        let inputs: Vec<&Tensor> = inputs.iter().map(|t| &**t).collect();
        let cx = EvalContext {
            bindings: &self.scope.bindings,
        };
        let outputs = match decl.eval(&op, &inputs, &cx) {
            Err(error) if !error.stops() && decl.structure() == Structure::Opaque => {
                let shape = |ty: &&Type| self.scope.shape_or(&held_type(ty), OPEN_SIZE);
                let shapes: Vec<_> = op.results.iter().map(shape).collect();
                let opaque = self.program.opaque;
                let props = contents(op.props, self.program.registry, self.program.data);
                let op = OpRef {
                    props: &props,
                    ..op
                };
                let done = uninterpreted::apply(
                    opaque,
                    &op,
                    decl.effect(&op),
                    &inputs,
                    &shapes,
                    &self.scope.bindings,
                );
                done.map_err(|problem| OpFailure::Opaque {
                    kind: op.props.str("kind").unwrap_or(op.name).to_owned(),
                    problem,
                })?
            }
            done => done?,
        };
        let outputs: Vec<Arc<Tensor>> = outputs.into_iter().map(Arc::new).collect();
        if let Some((memo, key)) = memo {
            memo.keep(key, &outputs);
        }
        Ok(outputs)
    }

    pub(crate) fn tensor_type(&self, value: Value) -> Result<&TensorType, OpFailure> {
        match self.func.ty(value) {
            Type::Tensor(ty) => Ok(ty),
            other @ (Type::Scalar(_) | Type::Other(_)) => Err(OpFailure::NotTensor {
                found: type_text(other),
            }),
        }
    }

    /// Checks a tensor against the type of the value it is for, and stores it.
    pub(crate) fn store_result(
        &mut self,
        index: usize,
        value: Value,
        tensor: Arc<Tensor>,
    ) -> Result<(), OpFailure> {
        let func = self.func;
        let ty = &*held_type(func.ty(value));
        let own = self
            .scope
            .shape(ty)
            .is_some_and(|shape| shape == tensor.shape);
        if func.ty(value).as_tensor().is_none() && !(own && tensor.dtype == ty.dtype) {
            return Err(OpFailure::NotTensor {
                found: type_text(func.ty(value)),
            });
        }
        well_formed(&tensor).map_err(|fault| OpFailure::Malformed {
            index,
            problem: fault.to_string(),
        })?;
        if tensor.dtype != ty.dtype {
            let (found, wanted) = (tensor.dtype.to_string(), ty.dtype.to_string());
            return Err(OpFailure::ResultDType {
                index,
                found,
                wanted,
            });
        }
        self.bind_result(index, value, ty, &tensor.shape)?;
        let held = match self.place(value)? {
            Some(held) => {
                self.write_in_place(&held, value, &tensor)?;
                held
            }
            None => self.memory.store(tensor, ty)?,
        };
        self.values[value.index()] = Some(held);
        Ok(())
    }

    /// Stores a value that is made in this function.
    pub(crate) fn store_made(
        &mut self,
        index: usize,
        value: Value,
        tensor: Arc<Tensor>,
    ) -> Result<(), OpFailure> {
        self.count(value, tensor.dtype, &tensor.shape)?;
        self.store_result(index, value, tensor)
    }

    /// Counts a value in the budget until it is freed.
    pub(crate) fn count(
        &mut self,
        value: Value,
        dtype: DType,
        shape: &[usize],
    ) -> Result<(), OpFailure> {
        let bytes = self.budget.hold(dtype, shape)?;
        self.counted[value.index()] += bytes;
        Ok(())
    }

    /// Frees a value.
    pub(crate) fn free(&mut self, value: Value) {
        self.values[value.index()] = None;
        let bytes = std::mem::take(&mut self.counted[value.index()]);
        self.budget.release(bytes);
    }

    /// Checks the shape of a result against its type.
    fn bind_result(
        &mut self,
        index: usize,
        value: Value,
        ty: &TensorType,
        shape: &[usize],
    ) -> Result<(), OpFailure> {
        let by = || format!("from {value}");
        self.scope.bind(&ty.dims, shape, by).map_err(|clash| {
            let wanted = match clash {
                Clash::Shape => dims_text(&ty.dims),
                Clash::Symbol {
                    symbol, bound, by, ..
                } => {
                    format!("{} with {symbol} = {bound} ({by})", dims_text(&ty.dims))
                }
            };
            OpFailure::ResultShape {
                index,
                found: shape_text(shape),
                wanted,
            }
        })
    }

    /// Sets the representation of a value.
    pub(crate) fn set(&mut self, value: Value, held: M::Held) {
        self.values[value.index()] = Some(held);
    }

    /// The representation of a value. A constant is read at its first use.
    pub(crate) fn held(&mut self, operand: usize, value: Value) -> Result<M::Held, OpFailure> {
        if let Some(held) = &self.values[value.index()] {
            return Ok(held.clone());
        }
        let ValueDef::Result(op, 0) = self.func.values[value].def else {
            return Err(OpFailure::Undefined(operand));
        };
        let data = &self.func.ops[op];
        if self.structure(op) != Structure::Constant {
            return Err(OpFailure::Undefined(operand));
        }
        let ty = self.tensor_type(value)?;
        let shape = self.scope.shape(ty);
        if let Some(shape) = &shape {
            self.budget.room(ty.dtype, shape)?;
        }
        let tensor = constant(&data.props, ty, shape, self.program.data)?;
        self.store_made(0, value, Arc::new(tensor))?;
        self.values[value.index()]
            .clone()
            .ok_or(OpFailure::Undefined(operand))
    }

    pub(crate) fn load(&mut self, operand: usize, value: Value) -> Result<Arc<Tensor>, OpFailure> {
        let held = self.held(operand, value)?;
        self.memory.load(&held, &held_type(self.func.ty(value)))
    }
}
