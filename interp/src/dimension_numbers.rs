//! Brings opaque products and convolutions of HLO, whose attributes name their dimensions, into one canonical order of
//! dimensions. Two operations that differ only in the order of their operands' dimensions then become the same.

use optc_ir::{Attr, AttrDict, OpRef, Tensor};

/// An operation that names its dimensions, with its dimensions in canonical order.
pub(crate) struct Canonical {
    pub(crate) props: AttrDict,
    pub(crate) inputs: Vec<Tensor>,
    /// The shapes of the results.
    pub(crate) shapes: Vec<Vec<usize>>,
    /// For each dimension of the wanted result, the dimension of the canonical result.
    back: Vec<usize>,
}

impl Canonical {
    /// The canonical operation; `None` for an operation that names no dimensions.
    pub(crate) fn of(
        op: &OpRef<'_>,
        inputs: &[&Tensor],
        shapes: &[Vec<usize>],
    ) -> Option<Canonical> {
        if op.props.str("domain") != Some("hlo") || inputs.len() != 2 || shapes.len() != 1 {
            return None;
        }
        match op.props.str("kind")? {
            "convolution" => Canonical::convolution(op, inputs, shapes),
            "dot" => Canonical::product(op, inputs, shapes),
            _ => None,
        }
    }

    /// A convolution, `bf01_oi01->bf01`, with the letters of each side sorted.
    fn convolution(op: &OpRef<'_>, inputs: &[&Tensor], shapes: &[Vec<usize>]) -> Option<Canonical> {
        let (read, written) = op.props.str(LABELS)?.split_once("->")?;
        let (left, right) = read.split_once('_')?;
        let sides = [left, right, written].map(|side| {
            let letters: Vec<char> = side.chars().collect();
            let mut order: Vec<usize> = (0..letters.len()).collect();
            order.sort_by_key(|&d| letters[d]);
            let sorted: String = order.iter().map(|&d| letters[d]).collect();
            (order, sorted)
        });
        let [(left, _), (right, _), (written, _)] = &sides;
        let shape = permuted(&shapes[0], written)?;
        let mut back = vec![0; written.len()];
        written
            .iter()
            .enumerate()
            .for_each(|(to, &from)| back[from] = to);
        let [left_text, right_text, text] = [&sides[0].1, &sides[1].1, &sides[2].1];
        let mut props = op.props.clone();
        props.set(
            LABELS,
            Attr::str(&format!("{left_text}_{right_text}->{text}")),
        );
        Some(Canonical {
            props,
            inputs: vec![transposed(inputs[0], left)?, transposed(inputs[1], right)?],
            shapes: vec![shape],
            back,
        })
    }

    /// A product, with the dimensions of each operand in this order: batch, contracted, the rest.
    fn product(op: &OpRef<'_>, inputs: &[&Tensor], shapes: &[Vec<usize>]) -> Option<Canonical> {
        let mut props = op.props.clone();
        let mut made = Vec::new();
        for (side, input) in ["lhs", "rhs"].into_iter().zip(inputs) {
            let mut order: Vec<usize> = Vec::new();
            for list in ["batch_dims", "contracting_dims"] {
                let name = format!("hlo.{side}_{list}");
                let Some(text) = op.props.str(&name) else {
                    continue;
                };
                let start = order.len();
                for dim in text
                    .trim_matches(['{', '}'])
                    .split(',')
                    .filter(|d| !d.is_empty())
                {
                    order.push(dim.trim().parse().ok()?);
                }
                let numbers = (start..order.len()).map(|d| d.to_string());
                let numbers: Vec<String> = numbers.collect();
                props.set(&name, Attr::str(&format!("{{{}}}", numbers.join(","))));
            }
            let rest = (0..input.shape.len()).filter(|d| !order.contains(d));
            let rest: Vec<usize> = rest.collect();
            made.push(transposed(input, &[order, rest].concat())?);
        }
        Some(Canonical {
            props,
            inputs: made,
            shapes: shapes.to_vec(),
            back: (0..shapes[0].len()).collect(),
        })
    }

    /// The results with their dimensions in the wanted order.
    pub(crate) fn back(&self, results: Vec<Tensor>) -> Vec<Tensor> {
        results.iter().map(|t| t.transposed(&self.back)).collect()
    }
}

const LABELS: &str = "hlo.dim_labels";

fn transposed(tensor: &Tensor, order: &[usize]) -> Option<Tensor> {
    permuted(&tensor.shape, order).map(|_| tensor.transposed(order))
}

/// The extents in this order; `None` unless it names each dimension once.
fn permuted(shape: &[usize], order: &[usize]) -> Option<Vec<usize>> {
    let mut seen = vec![false; shape.len()];
    let once = |&d: &usize| d < shape.len() && !std::mem::replace(&mut seen[d], true);
    let fits = order.len() == shape.len() && order.iter().all(once);
    fits.then(|| order.iter().map(|&d| shape[d]).collect())
}
