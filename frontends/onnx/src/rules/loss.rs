//! Losses: negative log-likelihood, alone and after a softmax.

use super::{Rule, decomposed};
use crate::builder::{Stop, Val};
use crate::node::{Done, NodeCx, props};
use optc_ir::Attr;

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
    let x = cx.emit("hbir.log_softmax", &[x], props([("axis", Attr::int(1))]))?;
    loss(cx, x)?;
    cx.set(1, x);
    Ok(())
}

/// Minus the logarithm at the target class, times the weight of the class.
fn loss(cx: &mut NodeCx<'_, '_>, x: Val) -> Done {
    let target = cx.need(1)?;
    let axes: Vec<usize> = (0..cx.rank(target)?).collect();
    let ignored = match cx.int("ignore_index") {
        Some(index) => {
            let index = cx.scalar_like(index as f64, target)?;
            Some(cx.compare("eq", target, index)?)
        }
        None => None,
    };
    let classes = match ignored {
        Some(ignored) => {
            let first = cx.scalar_like(0.0, target)?;
            cx.plain("hbir.select", &[ignored, first, target])?
        }
        None => target,
    };
    let places = cx.unsqueeze(classes, &[1])?;
    let along = || props([("axis", Attr::int(1))]);
    let found = cx.emit("hbir.gather_elements", &[x, places], along())?;
    let found = cx.emit(
        "hbir.squeeze",
        &[found],
        props([("axes", Attr::ints(&[1i64]))]),
    )?;
    let mut losses = cx.plain("hbir.neg", &[found])?;
    let weights = weights(cx, x, classes, ignored)?;
    if let Some(weights) = weights {
        losses = cx.plain("hbir.mul", &[losses, weights])?;
    }
    let reduction = cx.string("reduction").unwrap_or_else(|| "mean".into());
    let result = match (reduction.as_str(), weights) {
        ("none", _) => losses,
        ("sum", _) => cx.reduce("sum", losses, &axes, false)?,
        ("mean", None) => cx.reduce("mean", losses, &axes, false)?,
        ("mean", Some(weights)) => {
            let sum = cx.reduce("sum", losses, &axes, false)?;
            let total = cx.reduce("sum", weights, &axes, false)?;
            cx.plain("hbir.div", &[sum, total])?
        }
        (found, _) => {
            let message = format!("`reduction` is `{found}`");
            return Err(Stop::error("attribute-value", message));
        }
    };
    cx.set(0, result);
    Ok(())
}

/// The weight of every target, 0 for one that is ignored; `None` where all are 1.
fn weights(
    cx: &mut NodeCx<'_, '_>,
    x: Val,
    classes: Val,
    ignored: Option<Val>,
) -> Result<Option<Val>, Stop> {
    let given = match cx.input(2) {
        Some(weights) => {
            let dict = props([("axis", Attr::int(0))]);
            Some(cx.emit("hbir.gather", &[weights, classes], dict)?)
        }
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
    cx.plain("hbir.select", &[ignored, zero, weight]).map(Some)
}
