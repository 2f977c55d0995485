//! Norms with a scale and a bias for each channel: batch norm with given mean and variance, instance norm and group norm.

use crate::access::Access;
use crate::error::StepError;
use crate::memory::{In, Slot};
use crate::ops::chain::Chain;
use crate::ops::kernel::{Call, Kernel, Site, floats, numbers, same_float};
use crate::ops::rows::Rows;
use optc_ir::Operation;
use optc_kernels::element::Kind;
use optc_kernels::error::KernelError;
use optc_kernels::gemm::Scratch;
use optc_kernels::lanes::Work;
use optc_kernels::links::{ChainOp, Code, From};
use optc_ops::{BatchNorm, GroupNorm, InstanceNorm};

/// The dimension of channels.
const CHANNEL: usize = 1;

/// A norm whose scale and bias have one number for each channel.
#[derive(Debug)]
pub(crate) enum Channels {
    /// Mean and variance are operands, so each channel has one factor and one term.
    Given {
        epsilon: f64,
        kind: Kind,
        /// Offsets of scale, bias, mean and variance of each channel.
        operands: [Vec<i64>; 4],
        chain: Box<Chain>,
    },
    /// A norm of rows, then an element-wise step that applies scale and bias to its result.
    Own { rows: Box<Rows>, chain: Box<Chain> },
}

impl Channels {
    pub(crate) fn of(site: &Site<'_>) -> Option<Channels> {
        let data = site.data();
        let all = site.all()?;
        if data.results.len() != 1 || !same_float(&all) {
            return None;
        }
        let kind = all[0].kind()?;
        let of = site.func.op_ref(site.op);
        let (x, y) = (&*all[0].access, &*all[all.len() - 1].access);
        let shape = x.shape();
        let channels = *shape.get(CHANNEL)?;
        let (groups, epsilon) = match &*data.name {
            BatchNorm::NAME => return Channels::given(&all, BatchNorm::of(&of).ok()?.epsilon),
            InstanceNorm::NAME => (channels, InstanceNorm::of(&of).ok()?.epsilon),
            GroupNorm::NAME => {
                let norm = GroupNorm::of(&of).ok()?;
                (usize::try_from(norm.groups().ok()?).ok()?, norm.epsilon)
            }
            _ => return None,
        };
        let mut grouped = shape.clone();
        grouped.splice(CHANNEL..=CHANNEL, [groups, channels.checked_div(groups)?]);
        let axes: Vec<usize> = (CHANNEL + 1..grouped.len()).collect();
        let work = Work::Norm {
            epsilon,
            centred: true,
        };
        let rows = Rows::along(
            work,
            kind,
            &x.reshaped(&grouped),
            &y.reshaped(&grouped),
            &axes,
        )?;
        let [scale, bias] = [1, 2].map(|i| per_channel(&all[i].access, &shape));
        let chain = Box::new(scaled(y, [y.clone(), scale, bias], [kind; 2])?);
        let rows = Box::new(rows);
        Some(Channels::Own { rows, chain })
    }

    fn given(all: &[&Slot], epsilon: f64) -> Option<Channels> {
        let [x, scale, bias, mean, variance, y] = all else {
            return None;
        };
        let shape = x.access.shape();
        let places = [scale, bias, mean, variance].map(|slot| slot.access.offsets());
        let n = *shape.get(CHANNEL)?;
        if places.iter().any(|p| p.len() != n) {
            return None;
        }
        let plain = Access::Sum {
            base: 0,
            tables: vec![(0..n as i64).collect()],
        };
        let plain = per_channel(&plain, &shape);
        let operands = [(*x.access).clone(), plain.clone(), plain];
        let chain = Box::new(scaled(&y.access, operands, [x.kind()?, Kind::F32])?);
        Some(Channels::Given {
            epsilon,
            kind: x.kind()?,
            operands: places,
            chain,
        })
    }
}

/// The factor and the term of each channel.
#[derive(Clone, Debug)]
pub(crate) struct Factors {
    pub(crate) factors: Vec<f64>,
    pub(crate) terms: Vec<f64>,
}

impl Factors {
    /// Factors and terms of scales, biases, means and variances, one of each for every channel.
    fn of([scale, bias, mean, variance]: [&[f32]; 4], epsilon: f64) -> Factors {
        let root = |variance: &f32| (f64::from(*variance) + epsilon).sqrt();
        let factors = scale.iter().zip(variance);
        let factors: Vec<f64> = factors.map(|(s, v)| f64::from(*s) / root(v)).collect();
        let terms = bias.iter().zip(mean).zip(&factors);
        let terms = terms.map(|((b, m), factor)| f64::from(*b) - f64::from(*m) * factor);
        Factors {
            terms: terms.collect(),
            factors,
        }
    }
}

/// The factors and terms of a batch norm of `f32`, if all its parameters are constants and all results finite.
pub(crate) fn known_factors(site: &Site<'_>) -> Option<Factors> {
    let data = site.data();
    if &*data.name != BatchNorm::NAME || data.operands.len() != 5 {
        return None;
    }
    let epsilon = BatchNorm::of(&site.func.op_ref(site.op)).ok()?.epsilon;
    let mut read = Vec::with_capacity(4);
    for &operand in &data.operands[1..] {
        let slot = site.slot(operand).filter(|s| s.kind() == Some(Kind::F32))?;
        let bytes = site.constant_buffer(operand)?.get(slot.range())?;
        read.push(picked(floats(bytes).ok()?, &slot.access.offsets())?);
    }
    let [scale, bias, mean, variance] = &read[..] else {
        return None;
    };
    let same = read.iter().all(|list| list.len() == scale.len());
    let found = Factors::of([scale, bias, mean, variance], epsilon);
    let all = found.factors.iter().chain(&found.terms);
    (same && { all }.all(|x| x.is_finite())).then_some(found)
}

/// The elements at some offsets; `None` if one is out of bounds.
pub(crate) fn picked(values: &[f32], places: &[i64]) -> Option<Vec<f32>> {
    let at = |&place: &i64| values.get(usize::try_from(place).ok()?).copied();
    places.iter().map(at).collect()
}

/// Broadcasts one number for each channel to all elements.
fn per_channel(access: &Access, shape: &[usize]) -> Access {
    let mut own = vec![1; shape.len()];
    own[CHANNEL] = shape[CHANNEL];
    access.reshaped(&own).broadcast(shape)
}

/// `x * factor + term`.
fn scaled(target: &Access, operands: [Access; 3], kinds: [Kind; 2]) -> Option<Chain> {
    let [kind, other] = kinds;
    let [x, factor, term] = operands;
    let operands = [(x, kind), (factor, other), (term, other)];
    let links = vec![
        ChainOp {
            code: Code::Mul,
            kind: Kind::F32,
            from: [From::Operand(0), From::Operand(1)],
        },
        ChainOp {
            code: Code::Add,
            kind,
            from: [From::Code(0), From::Operand(2)],
        },
    ];
    Chain::of(target, &operands, links)
}

impl Kernel for Channels {
    fn name(&self) -> &'static str {
        "channels"
    }

    fn scratch(&self) -> Scratch {
        match self {
            Channels::Given { chain, .. } => chain.scratch(),
            Channels::Own { rows, chain } => {
                let (rows, chain) = (rows.scratch(), chain.scratch());
                std::array::from_fn(|i| rows[i].max(chain[i]))
            }
        }
    }

    fn run(&self, mut call: Call<'_>) -> Result<(), StepError> {
        match (self, call.ins) {
            (Channels::Own { rows, chain }, [x, scale, bias]) => {
                rows.run(call.of(&[*x]))?;
                chain.run(call.of(&[In::Inplace, *scale, *bias]))
            }
            (
                Channels::Given {
                    epsilon,
                    kind,
                    operands,
                    chain,
                },
                [x, rest @ ..],
            ) => {
                let mut read = Vec::with_capacity(operands.len());
                for (places, operand) in operands.iter().zip(rest) {
                    let In::Bytes(bytes) = operand else {
                        return Err(StepError::OperandWrittenOver);
                    };
                    let values = picked(&numbers(*kind, bytes)?, places);
                    read.push(values.ok_or(KernelError::OutOfBounds)?);
                }
                let [scale, bias, mean, variance] = &read[..] else {
                    return Err(StepError::OperandCount);
                };
                let found = Factors::of([scale, bias, mean, variance], *epsilon);
                let [factors, terms] = [found.factors, found.terms]
                    .map(|list| list.iter().map(|&x| x as f32).collect::<Vec<f32>>());
                let [factors, terms] =
                    [&factors, &terms].map(|v| In::Bytes(bytemuck::cast_slice(v)));
                chain.run(call.of(&[*x, factors, terms]))
            }
            _ => Err(StepError::OperandCount),
        }
    }
}
