//! Products, convolutions, gathers and windows: instructions with attributes that have fields.

use crate::attrs::{Attributes as _, braces, field, field_ints, times};
use crate::translate::{Body, Texts, Translator};
use optc_mlir_syntax::Op;
use optc_mlir_syntax::Parsed;
use optc_mlir_syntax::{int, ints, last_word};
use std::borrow::Cow;

type Plain<'a> = Option<(&'static str, Texts<'a>)>;

impl<'a> Translator<'a> {
    /// An instruction on the same operands with attributes that have fields.
    pub(crate) fn products(
        &mut self,
        body: &Body<'a>,
        op: &Op<'a>,
        operands: &[usize],
    ) -> Parsed<Plain<'a>> {
        match (op.name, operands) {
            ("stablehlo.dot_general", &[_, _]) => self.dot_general(op),
            ("stablehlo.dot", &[a, b]) => {
                let rank = |at: usize| body.array(at).map_or(0, |array| array.dims.len());
                if rank(a) == 0 || rank(b) == 0 || 2 < rank(a) || 2 < rank(b) {
                    return Ok(None);
                }
                let left = i64::from(rank(a) == 2);
                let mut attrs = contracted(&[left], &[0]);
                attrs.extend(precision(op));
                Ok(Some(("dot", attrs)))
            }
            ("stablehlo.convolution", &[_, w]) => self.convolution(body, op, w, None),
            ("stablehlo.gather", &[_, _]) => {
                let sizes = op.needs_ints(&["slice_sizes"])?;
                Ok(Some(("gather", self.gather(op, braces(&sizes))?)))
            }
            _ => Ok(None),
        }
    }

    fn dot_general(&mut self, op: &Op<'a>) -> Parsed<Plain<'a>> {
        let mut lists = [vec![], vec![], vec![], vec![]];
        if let Some(text) = op.attr("dot_dimension_numbers") {
            let text = self.aliases.resolve(text);
            let names = [
                "lhs_batching_dimensions",
                "rhs_batching_dimensions",
                "lhs_contracting_dimensions",
                "rhs_contracting_dimensions",
            ];
            for (list, name) in lists.iter_mut().zip(names) {
                *list = field_ints(text, name).ok_or_else(|| op.bad(&[name], text))?;
            }
        } else {
            for (at, name) in [(0, "batching_dims"), (2, "contracting_dims")] {
                let Some(text) = op.attr(name) else { continue };
                let pair = text.split_once('x');
                let pair = pair.and_then(|(l, r)| Some((ints(l)?, ints(r)?)));
                (lists[at], lists[at + 1]) = pair.ok_or_else(|| op.bad(&[name], text))?;
            }
        }
        let [left_batch, right_batch, left, right] = lists;
        let mut attrs = Vec::new();
        if !left_batch.is_empty() || !right_batch.is_empty() {
            attrs.push(("lhs_batch_dims", Cow::Owned(braces(&left_batch))));
            attrs.push(("rhs_batch_dims", Cow::Owned(braces(&right_batch))));
        }
        attrs.extend(contracted(&left, &right));
        attrs.extend(precision(op));
        if let Some(algorithm) = op.attr("algorithm") {
            let inner = algorithm.trim_start_matches("#stablehlo.dot_algorithm");
            attrs.push(("algorithm", Cow::Borrowed(inner)));
        }
        Ok(Some(("dot", attrs)))
    }

    /// A convolution; `pads` are the pads from an operand, otherwise they are attributes.
    pub(crate) fn convolution(
        &mut self,
        body: &Body<'a>,
        op: &Op<'a>,
        w: usize,
        pads: Option<Vec<i64>>,
    ) -> Parsed<Plain<'a>> {
        let text = op.needs(&["dim_numbers", "dimension_numbers"])?;
        let text = self.aliases.resolve(text);
        let inner = text
            .trim_start_matches("#stablehlo.conv<")
            .trim_end_matches('>');
        let Some(places) = Places::parse(inner) else {
            return Err(op.bad(&["dim_numbers"], text));
        };
        let sizes = body.array(w).and_then(|array| array.sizes());
        let kernel = sizes.and_then(|sizes| places.kernel(&sizes));
        let Some(kernel) = kernel else {
            return Ok(None);
        };
        let rank = kernel.len();
        let window = op.attr("window").unwrap_or("");
        let list = |name: &str, generic: &str, usual: i64| -> Parsed<Vec<i64>> {
            let text = op.attr(generic).or_else(|| field(window, name));
            let Some(text) = text else {
                return Ok(vec![usual; rank]);
            };
            let found = ints(self.aliases.resolve(text)).filter(|list| list.len() == rank);
            found.ok_or_else(|| op.bad(&[generic], text))
        };
        let pads = match (pads, op.attr("padding")) {
            (Some(pads), _) => Some(pads),
            (None, Some(text)) => ints(self.aliases.resolve(text)),
            (None, None) => nested(window, "pad").map_or(Some(vec![0; 2 * rank]), ints),
        };
        let Some(pads) = pads.filter(|pads| pads.len() == 2 * rank) else {
            return Err(op.bad(&["padding"], window));
        };
        let mut attrs = vec![("dim_labels", Cow::Owned(places.labels()))];
        if 0 < rank {
            let pads: Vec<String> = pads
                .chunks(2)
                .map(|p| format!("{}_{}", p[0], p[1]))
                .collect();
            let text = format!(
                "{{size={} stride={} pad={} lhs_dilate={} rhs_dilate={} rhs_reversal={}}}",
                times(&kernel),
                times(&list("stride", "window_strides", 1)?),
                pads.join("x"),
                times(&list("lhs_dilate", "lhs_dilation", 1)?),
                times(&list("rhs_dilate", "rhs_dilation", 1)?),
                times(&list("reverse", "window_reversal", 0)?),
            );
            attrs.push(("window", Cow::Owned(text)));
        }
        for name in ["feature_group_count", "batch_group_count"] {
            let count = op.attr(name).and_then(int).unwrap_or(1);
            if count != 1 {
                attrs.push((name, Cow::Owned(count.to_string())));
            }
        }
        attrs.extend(precision(op));
        Ok(Some(("convolution", attrs)))
    }

    /// The lists of an attribute with dimension numbers, and `index_vector_dim`. Batching dimensions may be absent.
    pub(crate) fn dimension_numbers(
        &self,
        op: &Op<'a>,
        key: &'static str,
        lists: [&'static str; 5],
    ) -> Parsed<Texts<'a>> {
        let text = self.aliases.resolve(op.needs(&[key])?);
        let mut attrs = Vec::new();
        for name in lists {
            let list = field_ints(text, name).ok_or_else(|| op.bad(&[name], text))?;
            if !list.is_empty() || !name.contains("batching") {
                attrs.push((name, Cow::Owned(braces(&list))));
            }
        }
        let vector = field(text, "index_vector_dim").and_then(int).unwrap_or(0);
        attrs.push(("index_vector_dim", Cow::Owned(vector.to_string())));
        Ok(attrs)
    }

    /// The attributes of a gather of slices of these sizes.
    pub(crate) fn gather(&mut self, op: &Op<'a>, sizes: String) -> Parsed<Texts<'a>> {
        let mut attrs = self.dimension_numbers(
            op,
            "dimension_numbers",
            [
                "offset_dims",
                "collapsed_slice_dims",
                "operand_batching_dims",
                "start_indices_batching_dims",
                "start_index_map",
            ],
        )?;
        attrs.push(("slice_sizes", Cow::Owned(sizes)));
        if op.attr("indices_are_sorted") == Some("true") {
            attrs.push(("indices_are_sorted", Cow::Borrowed("true")));
        }
        Ok(attrs)
    }
}

/// The value of a field that is a list of lists.
fn nested<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let at = text.find(&format!("{name} ="))?;
    let rest = text[at + name.len() + 2..].trim_start();
    if rest.starts_with("[]") {
        return Some("[]");
    }
    rest.find("]]").and_then(|end| rest.get(..end + 2))
}

fn contracted<'a>(left: &[i64], right: &[i64]) -> Texts<'a> {
    vec![
        ("lhs_contracting_dims", Cow::Owned(braces(left))),
        ("rhs_contracting_dims", Cow::Owned(braces(right))),
    ]
}

/// The precision of the operands, unless it is the default.
fn precision<'a>(op: &Op<'a>) -> Option<(&'a str, Cow<'a, str>)> {
    let text = op
        .attr("precision")
        .or_else(|| op.attr("precision_config"))?;
    let words: Vec<String> = text
        .trim_matches(['[', ']', ' '])
        .split(',')
        .map(|word| last_word(word).to_lowercase())
        .collect();
    let usual = words
        .iter()
        .all(|word| word == "default" || word.is_empty());
    (!usual).then(|| {
        (
            "operand_precision",
            Cow::Owned(format!("{{{}}}", words.join(","))),
        )
    })
}

/// The places of batch, feature and spatial dimensions: `[b, f, 0]x[o, i, 0]->[b, f, 0]`.
struct Places<'t> {
    sides: Vec<Vec<&'t str>>,
}

impl<'t> Places<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        let (inputs, out) = text.split_once("->")?;
        let (left, right) = inputs.split_once('x')?;
        let side = |text: &'t str| -> Option<Vec<&'t str>> {
            let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
            Some(inner.split(',').map(str::trim).collect())
        };
        let sides = vec![side(left)?, side(right)?, side(out)?];
        let one = |name: &&str| name.len() == 1 && name.is_ascii();
        sides.iter().flatten().all(one).then_some(Places { sides })
    }

    /// `bf0_oi0->bf0`.
    fn labels(&self) -> String {
        let text = |i: usize| self.sides[i].concat();
        format!("{}_{}->{}", text(0), text(1), text(2))
    }

    /// The extents of the window, in the order of the spatial dimensions.
    fn kernel(&self, sizes: &[u64]) -> Option<Vec<i64>> {
        let side = &self.sides[1];
        if sizes.len() != side.len() {
            return None;
        }
        let spatial = side.len().checked_sub(2)?;
        let size = |d: usize| {
            let at = side.iter().position(|name| *name == d.to_string())?;
            i64::try_from(sizes[at]).ok()
        };
        (0..spatial).map(size).collect()
    }
}
