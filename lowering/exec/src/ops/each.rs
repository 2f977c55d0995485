//! Element-wise operations on any types by their declared semantics: some thousand elements at a time are gathered into a
//! row, evaluated, and scattered.

use crate::error::StepError;
use crate::memory::In;
use crate::nest::Nest;
use crate::ops::kernel::{Call, Kernel, Site};
use optc_ir::attr::AttrDict;
use optc_ir::{
    Bindings, DType, Dim, EvalContext, OpRef, Operation, Registry, Role, Tensor, TensorType, Type,
};
use optc_ops::{Dequantize, Quantize};
use std::sync::Arc;

/// Most operands.
const MOST: usize = 4;
/// Elements that are computed at once.
const PART: usize = 4096;

/// An element-wise operation.
#[derive(Debug)]
pub(crate) struct Declared {
    name: Arc<str>,
    props: AttrDict,
    registry: Registry,
    /// The types of the operands, then of the result.
    dtypes: Vec<DType>,
    nest: Nest<{ MOST + 1 }>,
}

impl Declared {
    pub(crate) fn of(site: &Site<'_>) -> Option<Declared> {
        let data = site.data();
        let all = site.all()?;
        let (target, operands) = all.split_last()?;
        let bytes = |slot: &&crate::memory::Slot| matches!(slot.width, 8 | 16 | 32 | 64 | 128);
        if data.results.len() != 1 || operands.is_empty() || MOST < operands.len() {
            return None;
        }
        // A scale for each channel does not broadcast as other operands do.
        let scaled = matches!(&*data.name, Quantize::NAME | Dequantize::NAME);
        let freedom = site
            .registry
            .get(&data.name)?
            .freedom(&site.func.op_ref(site.op));
        let parallel = freedom.labels.iter().all(|l| l.role == Role::Parallel);
        if scaled || !parallel || !all.iter().all(bytes) {
            return None;
        }
        let result = freedom.results.first()?;
        for (labels, slot) in freedom.operands.iter().zip(operands) {
            let lead = result.len().checked_sub(labels.len())?;
            let own = slot.access.shape();
            let mut dims = labels.iter().zip(&result[lead..]).zip(own);
            if !dims.all(|((a, b), n)| a == b || n == 1) {
                return None;
            }
        }
        let shape = target.access.shape();
        let broadcast: Vec<_> = operands
            .iter()
            .map(|slot| slot.access.broadcast(&shape))
            .collect();
        let none = crate::access::Access::constant_zero(&shape);
        let accesses = std::array::from_fn(|k| match k {
            0 => &*target.access,
            _ => broadcast.get(k - 1).unwrap_or(&none),
        });
        let dtypes = operands.iter().map(|slot| slot.dtype);
        Some(Declared {
            name: Arc::from(&*data.name),
            props: data.props.clone(),
            registry: site.registry.clone(),
            dtypes: dtypes.chain([target.dtype]).collect(),
            nest: Nest::of(accesses)?,
        })
    }

    /// Computes the elements of some runs of the innermost loop.
    fn part(
        &self,
        runs: &[[i64; MOST + 1]],
        ins: &[In<'_>],
        out: &mut [u8],
    ) -> Result<(), StepError> {
        let (n, steps) = self.nest.inner;
        let count = runs.len() * n;
        let types: Vec<Type> = self
            .dtypes
            .iter()
            .map(|&dtype| {
                Type::Tensor(Arc::new(TensorType::new(
                    vec![Dim::Fixed(count as u64)],
                    dtype,
                )))
            })
            .collect();
        let mut inputs = Vec::with_capacity(ins.len());
        for (k, operand) in ins.iter().enumerate() {
            let (source, k) = operand.source(k, out);
            let size = self.size(inputs.len());
            let mut row = Vec::with_capacity(count * size);
            for run in runs {
                for i in 0..n as i64 {
                    let at = (run[k] + steps[k] * i) as usize * size;
                    row.extend_from_slice(&source[at..at + size]);
                }
            }
            let dtype = self.dtypes[inputs.len()];
            inputs.push(Tensor::from_bytes(dtype, vec![count], &row)?);
        }
        let refs: Vec<&Tensor> = inputs.iter().collect();
        let (result, operands) = types.split_last().ok_or(StepError::NoTypes)?;
        let of = OpRef {
            name: &self.name,
            operands: operands.iter().collect(),
            results: vec![result],
            props: &self.props,
        };
        let bindings = Bindings::default();
        let cx = EvalContext {
            bindings: &bindings,
        };
        let decl = self.registry.get(&self.name).ok_or(StepError::Undeclared)?;
        let made = decl.eval(&of, &refs, &cx)?;
        let [made] = &made[..] else {
            return Err(StepError::ResultCount);
        };
        let (row, size) = (made.to_bytes(), self.size(self.dtypes.len() - 1));
        let mut elements = row.chunks_exact(size);
        for run in runs {
            for i in 0..n as i64 {
                let at = (run[0] + steps[0] * i) as usize * size;
                let element = elements.next().ok_or(StepError::FewElements)?;
                out[at..at + size].copy_from_slice(element);
            }
        }
        Ok(())
    }

    /// Bytes of an element of operand `port`, or of the result, whose number follows the operands.
    fn size(&self, port: usize) -> usize {
        self.dtypes
            .get(port)
            .map_or(1, |t| t.bits().div_ceil(8) as usize)
    }
}

impl Kernel for Declared {
    fn name(&self) -> &'static str {
        "each"
    }

    fn run(&self, Call { ins, out, .. }: Call<'_>) -> Result<(), StepError> {
        if ins.len() + 1 != self.dtypes.len() {
            return Err(StepError::OperandCount);
        }
        let size = |k: usize| self.size(k.checked_sub(1).unwrap_or(ins.len()));
        self.nest.check(ins, out, size)?;
        let most = (PART / self.nest.inner.0.max(1)).max(1);
        let (mut runs, mut failed) = (Vec::with_capacity(most), Ok(()));
        self.nest.each(|at| {
            runs.push(at);
            if most <= runs.len() && failed.is_ok() {
                failed = self.part(&runs, ins, out);
                runs.clear();
            }
        });
        failed?;
        match runs.is_empty() {
            true => Ok(()),
            false => self.part(&runs, ins, out),
        }
    }
}
