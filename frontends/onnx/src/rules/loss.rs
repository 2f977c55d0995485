//! Losses: negative log-likelihood, alone and after a softmax.

use super::{Rule, decomposed};
use crate::builder::{Stop, Val};
use crate::node::{Done, NodeCx};
use optc_ops::{
    Direction, Div, Gather, GatherElements, LogSoftmax, Mul, Neg, ReduceKind, Select, Squeeze, ints,
};

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    decomposed("NegativeLogLikelihoodLoss", |cx| {
        let x = cx.need(0)?;
        loss(cx, x)
    }),
    decomposed("SoftmaxCrossEntropyLoss", cross_entropy),
];

fn cross_entropy(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let x = cx.emit(&LogSoftmax { axis: 1 }, &[x])?;
    loss(cx, x)?;
    cx.set(1, x);
    Ok(())
}

/// Minus the log-probability of the target class, times the weight of the class.
fn loss(cx: &mut NodeCx<'_, '_>, x: Val) -> Done {
    let target = cx.need(1)?;
    let axes: Vec<usize> = (0..cx.rank(target)?).collect();
    let ignored = match cx.int("ignore_index") {
        Some(index) => {
            let index = cx.scalar_like(index as f64, target)?;
            Some(cx.compare(Direction::Eq, target, index)?)
        }
        None => None,
    };
    let classes = match ignored {
        Some(ignored) => {
            let first = cx.scalar_like(0.0, target)?;
            cx.emit(&Select {}, &[ignored, first, target])?
        }
        None => target,
    };
    let places = cx.unsqueeze(classes, &[1])?;
    let found = cx.emit(&GatherElements { axis: 1 }, &[x, places])?;
    let found = cx.emit(
        &Squeeze {
            axes: Some(ints(&[1i64])),
        },
        &[found],
    )?;
    let mut losses = cx.emit(&Neg {}, &[found])?;
    let weights = weights(cx, x, classes, ignored)?;
    if let Some(weights) = weights {
        losses = cx.emit(&Mul {}, &[losses, weights])?;
    }
    let reduction = cx.string("reduction").unwrap_or_else(|| "mean".into());
    let result = match (reduction.as_str(), weights) {
        ("none", _) => losses,
        ("sum", _) => cx.reduce(ReduceKind::Sum, losses, &axes, false)?,
        ("mean", None) => cx.reduce(ReduceKind::Mean, losses, &axes, false)?,
        ("mean", Some(weights)) => {
            let sum = cx.reduce(ReduceKind::Sum, losses, &axes, false)?;
            let total = cx.reduce(ReduceKind::Sum, weights, &axes, false)?;
            cx.emit(&Div {}, &[sum, total])?
        }
        (found, _) => {
            return Err(Stop::opaque(format!("its `reduction` is `{found}`")));
        }
    };
    cx.set(0, result);
    Ok(())
}

/// The weight of every target, 0 for an ignored one; `None` if all are 1.
fn weights(
    cx: &mut NodeCx<'_, '_>,
    x: Val,
    classes: Val,
    ignored: Option<Val>,
) -> Result<Option<Val>, Stop> {
    let given = match cx.input(2) {
        Some(weights) => Some(cx.emit(&Gather { axis: 0 }, &[weights, classes])?),
        None => None,
    };
    let Some(ignored) = ignored else {
        return Ok(given);
    };
    let zero = cx.scalar_like(0.0, x)?;
    let weight = match given {
        Some(given) => given,
        None => cx.scalar_like(1.0, x)?,
    };
    cx.emit(&Select {}, &[ignored, zero, weight]).map(Some)
}
