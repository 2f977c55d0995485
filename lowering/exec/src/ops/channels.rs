//! Norms with a factor and a term for each channel: by given means and variances, or by those of channels or groups of them.

use crate::access::Access;
use crate::element::Kind;
use crate::memory::{In, Slot};
use crate::ops::chain::Chain;
use crate::ops::kernel::{Kernel, Scratch, Site, numbers, same_float};
use crate::ops::lanes::Work;
use crate::ops::links::{Code, From, Link};
use crate::ops::rows::Rows;
use crate::team::Context;
use optc_ir::Operation;
use optc_ops::{BatchNorm, GroupNorm, InstanceNorm};

/// The dimension of channels.
const CHANNEL: usize = 1;

/// A norm whose scale and bias have a number a channel.
#[derive(Debug)]
pub(crate) enum Channels {
    /// Mean and variance are operands: one factor and one term a channel.
    Given {
        epsilon: f64,
        kind: Kind,
        /// Where scale, bias, mean and variance of each channel lie.
        operands: [Vec<i64>; 4],
        chain: Chain,
    },
    /// The norm, and then scale and bias over it.
    Own { rows: Rows, chain: Chain },
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
        let chain = scaled(y, [y.clone(), scale, bias], [kind; 2])?;
        Some(Channels::Own { rows, chain })
    }

    fn given(all: &[&Slot], epsilon: f64) -> Option<Channels> {
        let [x, scale, bias, mean, variance, y] = all else {
            return None;
        };
        let shape = x.access.shape();
        let places = [scale, bias, mean, variance].map(|slot| {
            let mut places = Vec::new();
            slot.access.each(|offset| places.push(offset));
            places
        });
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
        let chain = scaled(&y.access, operands, [x.kind()?, Kind::F32])?;
        Some(Channels::Given {
            epsilon,
            kind: x.kind()?,
            operands: places,
            chain,
        })
    }
}

/// A number a channel, for each element.
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
        Link {
            code: Code::Mul,
            kind: Kind::F32,
            from: [From::Operand(0), From::Operand(1)],
        },
        Link {
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

    fn run(
        &self,
        result: usize,
        ins: &[In<'_>],
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Result<(), String> {
        match (self, ins) {
            (Channels::Own { rows, chain }, [x, scale, bias]) => {
                rows.run(result, &[*x], out, cx)?;
                chain.run(result, &[In::Same, *scale, *bias], out, cx)
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
                        return Err("an operand is written over".to_owned());
                    };
                    let values = numbers(*kind, bytes)?;
                    let at = |&place: &i64| values.get(usize::try_from(place).ok()?).copied();
                    let values: Option<Vec<f32>> = places.iter().map(at).collect();
                    read.push(values.ok_or("an element lies outside of its buffer")?);
                }
                let [scale, bias, mean, variance] = &read[..] else {
                    return Err("it has another number of operands".to_owned());
                };
                let (mut factors, mut terms) = (Vec::new(), Vec::new());
                for c in 0..scale.len() {
                    let root = (f64::from(variance[c]) + epsilon).sqrt();
                    let factor = f64::from(scale[c]) / root;
                    factors.push(factor as f32);
                    terms.push((f64::from(bias[c]) - f64::from(mean[c]) * factor) as f32);
                }
                let [factors, terms] =
                    [&factors, &terms].map(|v| In::Bytes(bytemuck::cast_slice(v)));
                chain.run(result, &[*x, factors, terms], out, cx)
            }
            _ => Err("it has another number of operands".to_owned()),
        }
    }
}
