//! The form of each operation in torch, for operations that no kernel computes.

use super::number::Number;
use super::words::{float, torch_type, wide};
use crate::python::tuple;
use optc_ir::{DType, Dim, OpRef, Operation, Registry, TensorType};
use optc_ops::{
    ArgMax, ArgMin, AvgPool, BatchNorm, BitcastConvert, Broadcast, Concat, Conv, Cumprod, Cumsum,
    Dequantize, DotGeneral, DynamicUpdateSlice, Einsum, Gather, GatherElements, GatherNd,
    GroupNorm, Identity, InstanceNorm, Iota, IsInf, IsNan, LayerNorm, LayoutConvert, Linear,
    LogSoftmax, Matmul, MaxPool, OneHot, Pad, PadMode, PadValue, Quantize, Reduce, ReduceKind,
    Relu, Resize, RmsNorm, RotaryEmbedding, ScatterElements, ScatterNd, ScatterReduction, Slice,
    SlicePart, Slide, Softmax, Split, Subview, Tile, TopK, Trilu,
};
use std::collections::BTreeSet;

/// An operation on whole tensors, and its arguments.
pub(super) struct Form<'a> {
    pub(super) op: &'a OpRef<'a>,
    pub(super) registry: &'a Registry,
    pub(super) args: &'a [String],
    pub(super) helpers: BTreeSet<&'static str>,
}

impl Form<'_> {
    /// The expressions of the results; `None` if there is no form.
    pub(super) fn results(&mut self) -> Option<Vec<String>> {
        match self.op.name {
            Split::NAME => self.split(),
            TopK::NAME => self.top_k(),
            _ => self.one().map(|text| vec![text]),
        }
    }

    fn typed<T: Operation>(&self) -> Option<T> {
        T::of(self.op).ok()
    }

    fn ty(&self) -> Option<&TensorType> {
        self.op.result(0).ok()
    }

    fn arg(&self, i: usize) -> Option<&str> {
        self.args.get(i).map(String::as_str)
    }

    fn shape(&self) -> Option<Vec<u64>> {
        self.ty()?.shape()
    }

    fn helper(&mut self, name: &'static str) -> &'static str {
        self.helpers.insert(name);
        name
    }

    fn to(&self) -> Option<String> {
        torch_type(self.ty()?.dtype)
    }

    fn one(&mut self) -> Option<String> {
        if let Ok(view) = self.op_view() {
            return view;
        }
        let form = self.combined();
        let form = form.or_else(|| self.normalized());
        let form = form.or_else(|| self.moved());
        form.or_else(|| self.elementwise())
    }

    /// Operations that combine several elements into one.
    fn combined(&mut self) -> Option<String> {
        match self.op.name {
            Matmul::NAME => self.summed(|a| format!("torch.matmul({}, {})", a[0], a[1])),
            Linear::NAME => self.linear(),
            DotGeneral::NAME => self.dot_general(),
            Einsum::NAME => {
                let equation = self.typed::<Einsum>()?.equation;
                self.summed(|a| format!("torch.einsum(\"{equation}\", {})", a.join(", ")))
            }
            Conv::NAME => self.conv(),
            Reduce::NAME => self.reduce(),
            ArgMax::NAME => {
                let arg = self.typed::<ArgMax>()?;
                let axis = arg.along(self.op).ok()?;
                self.extreme("argmax", axis, arg.keepdims, arg.select_last_index)
            }
            ArgMin::NAME => {
                let arg = self.typed::<ArgMin>()?;
                let axis = arg.along(self.op).ok()?;
                self.extreme("argmin", axis, arg.keepdims, arg.select_last_index)
            }
            MaxPool::NAME | AvgPool::NAME => self.pool(),
            Cumsum::NAME => self.cumsum(),
            Cumprod::NAME => {
                let products = self.typed::<Cumprod>()?;
                let axis = products.along(self.op).ok()?;
                let flag = |on: bool| if on { "True" } else { "False" };
                let (exclusive, reverse) = (flag(products.exclusive), flag(products.reverse));
                let helper = self.helper("_cumprod");
                Some(format!(
                    "{helper}({}, {axis}, {exclusive}, {reverse})",
                    self.arg(0)?
                ))
            }
            _ => None,
        }
    }

    /// Softmax and norms.
    fn normalized(&mut self) -> Option<String> {
        match self.op.name {
            Softmax::NAME => {
                let axis = self.typed::<Softmax>()?.along(self.op).ok()?;
                Some(format!("torch.softmax({}, {axis})", self.arg(0)?))
            }
            LogSoftmax::NAME => {
                let axis = self.typed::<LogSoftmax>()?.along(self.op).ok()?;
                Some(format!("torch.log_softmax({}, {axis})", self.arg(0)?))
            }
            LayerNorm::NAME => {
                let norm = self.typed::<LayerNorm>()?;
                let first = norm.first_axis(self.op).ok()?;
                self.last_norm(first, norm.epsilon, "True")
            }
            RmsNorm::NAME => {
                let norm = self.typed::<RmsNorm>()?;
                let first = norm.first_axis(self.op).ok()?;
                self.last_norm(first, norm.epsilon, "False")
            }
            BatchNorm::NAME => self.batch_norm(),
            InstanceNorm::NAME => {
                let norm = self.typed::<InstanceNorm>()?;
                let groups = self.shape()?.get(1).copied()?;
                self.group_norm(groups, norm.epsilon)
            }
            GroupNorm::NAME => {
                let norm = self.typed::<GroupNorm>()?;
                self.group_norm(norm.groups().ok()?, norm.epsilon)
            }
            _ => None,
        }
    }

    /// Operations that move elements, and those that create values without operands.
    fn moved(&mut self) -> Option<String> {
        match self.op.name {
            RotaryEmbedding::NAME => self.rotary(),
            DynamicUpdateSlice::NAME => {
                let starts = self.args.get(2..)?.join(", ");
                let helper = self.helper("_update");
                Some(format!(
                    "{helper}({}, {}, [{starts}])",
                    self.arg(0)?,
                    self.arg(1)?
                ))
            }
            Broadcast::NAME => {
                let shape = tuple(self.shape()?);
                Some(format!("{}.expand({shape})", self.arg(0)?))
            }
            Tile::NAME => {
                let repeats = tuple(self.typed::<Tile>()?.repeats);
                Some(format!("{}.repeat({repeats})", self.arg(0)?))
            }
            Concat::NAME => {
                let axis = self.typed::<Concat>()?.along(self.op).ok()?;
                Some(format!("torch.cat([{}], {axis})", self.args.join(", ")))
            }
            Slice::NAME => self.slice(&self.typed::<Slice>()?.parts(self.op).ok()?),
            Subview::NAME => {
                let subview = self.typed::<Subview>()?;
                match subview.broadcast {
                    true => Some(format!("{}.expand({})", self.arg(0)?, tuple(self.shape()?))),
                    false => self.slice(&subview.parts(self.op).ok()?),
                }
            }
            Pad::NAME => self.pad(),
            Gather::NAME => self.gather(),
            GatherElements::NAME => {
                let axis = self.typed::<GatherElements>()?.along(self.op).ok()?;
                let size = self.size(0, axis)?;
                let (x, i) = (self.arg(0)?, self.arg(1)?);
                Some(format!(
                    "torch.gather({x}, {axis}, torch.where({i} < 0, {i} + {size}, {i}).to(torch.int64))"
                ))
            }
            GatherNd::NAME => {
                let gather = self.typed::<GatherNd>()?;
                let (batch, depth) = gather.extents(self.op).ok()?;
                let (x, i) = (self.arg(0)?, self.arg(1)?);
                let places = (0..depth).map(|d| format!("{i}[..., {d}].to(torch.int64)"));
                let places: Vec<String> = places.collect();
                (batch == 0).then(|| format!("{x}[{}]", places.join(", ")))
            }
            ScatterNd::NAME => self.scatter_nd(),
            ScatterElements::NAME => self.scatter_elements(),
            Resize::NAME => self.resize(),
            OneHot::NAME => self.one_hot(),
            Iota::NAME => self.iota(),
            Trilu::NAME => {
                let Trilu { k, upper } = self.typed()?;
                let name = if upper { "triu" } else { "tril" };
                Some(format!("torch.{name}({}, {k})", self.arg(0)?))
            }
            BitcastConvert::NAME => {
                let to = self.to()?;
                Some(format!("{}.view({to})", self.arg(0)?))
            }
            Quantize::NAME => self.quantize(),
            Dequantize::NAME => self.dequantize(),
            _ => None,
        }
    }

    /// A view of a whole tensor; an error for other operations.
    fn op_view(&self) -> Result<Option<String>, ()> {
        let view = self.registry.rearrangement(self.op).map_err(|_| ())?;
        let shape: Option<Vec<u64>> = view.shape.iter().map(Dim::fixed).collect();
        let known = (shape, self.arg(0), self.shape());
        let (Some(shape), Some(x), Some(to)) = known else {
            return Ok(None);
        };
        let from = self.op.operand(0).ok().and_then(TensorType::shape);
        let mut text = x.to_owned();
        let turned: Vec<u64> = view.perm.iter().map(|&p| shape[p]).collect();
        if view.perm.is_sorted() {
            return Ok(Some(match from.as_ref() == Some(&to) {
                true => text,
                false => format!("{text}.reshape({})", tuple(&to)),
            }));
        }
        if from.as_ref() != Some(&shape) {
            text = format!("{text}.reshape({})", tuple(&shape));
        }
        text = format!("{text}.permute({})", tuple(&view.perm));
        if turned != to {
            text = format!("{text}.reshape({})", tuple(&to));
        }
        Ok(Some(text))
    }

    fn elementwise(&mut self) -> Option<String> {
        let x = self.arg(0)?.to_owned();
        match self.op.name {
            Identity::NAME | LayoutConvert::NAME => return Some(x),
            Relu::NAME => return Some(format!("torch.relu({x})")),
            IsNan::NAME => return Some(format!("torch.isnan({x})")),
            IsInf::NAME => return Some(format!("torch.isinf({x})")),
            _ => {}
        }
        let expr = self.registry.expression(self.op)?;
        let mut operands = Vec::with_capacity(self.args.len());
        for (i, arg) in self.args.iter().enumerate() {
            operands.push((arg.clone(), self.op.operand(i).ok()?.dtype));
        }
        let rank = self.ty()?.rank();
        let lower = (0..self.args.len()).all(|i| {
            let ty = self.op.operand(i);
            ty.is_ok_and(|t| t.rank() <= rank)
        });
        lower
            .then(|| Number::torch(&mut self.helpers).build(&expr, &operands))
            .flatten()
    }

    /// A product whose operands have the type of its sum.
    fn summed(&self, form: impl FnOnce(&[String]) -> String) -> Option<String> {
        let (to, from) = (self.ty()?.dtype, self.op.operand(0).ok()?.dtype);
        let kind = torch_type(to)?;
        if from == to && to.is_float() {
            return Some(form(self.args));
        }
        // Integers have no products on a graphics processor; sums of products are exact in f64.
        let args = self.args.iter().map(|a| format!("{a}.to(torch.float64)"));
        let args: Vec<String> = args.collect();
        Some(format!("{}.to({kind})", form(&args)))
    }

    fn linear(&self) -> Option<String> {
        let rank = self.op.operand(1).ok()?.rank();
        self.summed(|a| {
            let product = format!("torch.matmul({}, {}.mT)", a[0], a[1]);
            match a.get(2) {
                Some(bias) => format!("({product} + {bias})"),
                None => product,
            }
        })
        .filter(|_| rank == 2)
    }

    fn dot_general(&self) -> Option<String> {
        let pairing = self.typed::<DotGeneral>()?.pairing(self.op).ok()?;
        let ranks = [0, 1].map(|i| self.op.operand(i).map_or(0, TensorType::rank));
        let mut names: [Vec<Option<char>>; 2] = ranks.map(|n| vec![None; n]);
        let mut letters = ('a'..='z').chain('A'..='Z');
        let mut result = String::new();
        for (&i, &j) in pairing.lhs_batch.iter().zip(&pairing.rhs_batch) {
            let letter = letters.next()?;
            (names[0][i], names[1][j]) = (Some(letter), Some(letter));
            result.push(letter);
        }
        for (&i, &j) in pairing.lhs_contract.iter().zip(&pairing.rhs_contract) {
            let letter = letters.next()?;
            (names[0][i], names[1][j]) = (Some(letter), Some(letter));
        }
        for side in &mut names {
            for name in side.iter_mut().filter(|n| n.is_none()) {
                let letter = letters.next()?;
                *name = Some(letter);
                result.push(letter);
            }
        }
        let [left, right] = names.map(|side| side.into_iter().flatten().collect::<String>());
        self.summed(|a| {
            format!(
                "torch.einsum(\"{left},{right}->{result}\", {}, {})",
                a[0], a[1]
            )
        })
    }

    fn conv(&self) -> Option<String> {
        let conv = self.typed::<Conv>()?;
        let slides = conv.slides(self.op).ok()?;
        let n = slides.len();
        let groups = conv.groups().ok()?;
        let each = |of: fn(&Slide) -> usize| tuple(slides.iter().map(of));
        let (strides, dilations) = (each(|s| s.stride), each(|s| s.dilation));
        if !(1..=3).contains(&n) {
            return None;
        }
        let even = slides.iter().all(|s| s.low == s.high);
        if conv.transposed {
            let extra = tuple(conv.output_paddings(self.op).ok()?);
            let pads = each(|s| s.low);
            let args = self.args.join(", ");
            return even.then(|| {
                let bias = if self.args.len() < 3 { ", None" } else { "" };
                format!(
                    "torch.nn.functional.conv_transpose{n}d({args}{bias}, {strides}, {pads}, {extra}, {groups}, {dilations})"
                )
            });
        }
        let (pads, low) = (each(|s| s.low), even);
        let both: Vec<usize> = slides.iter().rev().flat_map(|s| [s.low, s.high]).collect();
        self.summed(|a| {
            let x = match low {
                true => a[0].clone(),
                false => format!("torch.nn.functional.pad({}, {})", a[0], tuple(&both)),
            };
            let bias = a.get(2).map_or("None", String::as_str);
            let pads = if low { pads } else { "0".to_owned() };
            format!(
                "torch.nn.functional.conv{n}d({x}, {}, {bias}, {strides}, {pads}, {dilations}, {groups})",
                a[1]
            )
        })
    }

    fn reduce(&self) -> Option<String> {
        let reduce = self.typed::<Reduce>()?;
        let (x, to) = (self.arg(0)?, self.ty()?.dtype);
        let axes = reduce.reduced(self.op).ok()?;
        if axes.is_empty() {
            return None;
        }
        let (dims, keep) = (tuple(&axes), if reduce.keepdims { "True" } else { "False" });
        let kind = torch_type(to)?;
        let sum = |x: &str| format!("torch.sum({x}, {dims}, {keep}).to({kind})");
        Some(match reduce.kind {
            ReduceKind::Sum => sum(x),
            ReduceKind::Mean if to.is_float() => format!("torch.mean({x}, {dims}, {keep})"),
            ReduceKind::Max => format!("torch.amax({x}, {dims}, {keep})"),
            ReduceKind::Min => format!("torch.amin({x}, {dims}, {keep})"),
            ReduceKind::L1 => sum(&format!("torch.abs({x})")),
            ReduceKind::SumSquare => sum(&format!("{x} * {x}")),
            ReduceKind::L2 if to.is_float() => {
                format!("torch.sqrt({})", sum(&format!("{x} * {x}")))
            }
            ReduceKind::LogSum => format!("torch.log({})", sum(x)),
            ReduceKind::LogSumExp => format!("torch.logsumexp({x}, {dims}, {keep})"),
            ReduceKind::Prod => {
                let mut text = x.to_owned();
                for &d in axes.iter().rev() {
                    text = format!("torch.prod({text}, {d}, {keep})");
                }
                format!("{text}.to({kind})")
            }
            ReduceKind::And if to.is_bool() => {
                format!("torch.amin({x}.to(torch.uint8), {dims}, {keep}).to(torch.bool)")
            }
            ReduceKind::Or if to.is_bool() => {
                format!("torch.amax({x}.to(torch.uint8), {dims}, {keep}).to(torch.bool)")
            }
            ReduceKind::Mean | ReduceKind::L2 | ReduceKind::And | ReduceKind::Or => return None,
        })
    }

    fn extreme(&self, name: &str, axis: usize, keep: bool, last: bool) -> Option<String> {
        let (x, to) = (self.arg(0)?, self.to()?);
        let keep = if keep { "True" } else { "False" };
        let size = self.size(0, axis)?;
        Some(match last {
            false => format!("torch.{name}({x}, {axis}, {keep}).to({to})"),
            true => {
                format!(
                    "({size} - 1 - torch.{name}(torch.flip({x}, ({axis},)), {axis}, {keep})).to({to})"
                )
            }
        })
    }

    fn size(&self, operand: usize, axis: usize) -> Option<u64> {
        self.op.operand(operand).ok()?.shape()?.get(axis).copied()
    }

    fn last_norm(&mut self, first: usize, epsilon: f64, center: &str) -> Option<String> {
        let rank = self.ty()?.rank();
        let dims = tuple(first..rank);
        let norm = self.helper("_norm");
        let (x, to, epsilon) = (self.arg(0)?, self.to()?, float(epsilon));
        let mut text = format!("{norm}({x}, {dims}, {epsilon}, {center})");
        for (arg, sign) in self.args[1..].iter().zip(["*", "+"]) {
            text = format!("{text} {sign} {arg}");
        }
        Some(format!("({text}).to({to})"))
    }

    fn along_channels(&self, text: &str) -> Option<String> {
        let spatial = self.ty()?.rank().checked_sub(2)?;
        let ones = std::iter::repeat_n("1".to_owned(), spatial);
        let shape = tuple(["-1".to_owned()].into_iter().chain(ones));
        Some(format!("{text}.reshape({shape})"))
    }

    fn batch_norm(&self) -> Option<String> {
        let epsilon = float(self.typed::<BatchNorm>()?.epsilon);
        let of = |i: usize| self.along_channels(self.arg(i)?);
        let (scale, bias, mean, variance) = (of(1)?, of(2)?, of(3)?, of(4)?);
        let (x, to) = (self.arg(0)?, self.to()?);
        Some(format!(
            "(({x} - {mean}) * torch.rsqrt({variance} + {epsilon}) * {scale} + {bias}).to({to})"
        ))
    }

    fn group_norm(&mut self, groups: u64, epsilon: f64) -> Option<String> {
        let shape = self.shape()?;
        let [batch, channels, spatial @ ..] = shape.as_slice() else {
            return None;
        };
        let inner = tuple([&[*batch, groups, channels / groups.max(1)], spatial].concat());
        let (dims, whole) = (tuple(2..=shape.len()), tuple(&shape));
        let norm = self.helper("_norm");
        let (scale, bias) = (
            self.along_channels(self.arg(1)?)?,
            self.along_channels(self.arg(2)?)?,
        );
        let (x, to, epsilon) = (self.arg(0)?, self.to()?, float(epsilon));
        Some(format!(
            "({norm}({x}.reshape({inner}), {dims}, {epsilon}, True).reshape({whole}) * {scale} + {bias}).to({to})"
        ))
    }

    fn pool(&self) -> Option<String> {
        let (slides, mean) = match (self.typed::<AvgPool>(), self.typed::<MaxPool>()) {
            (Some(pool), _) => (pool.slides(self.op).ok()?, Some(pool.count_include_pad)),
            (_, Some(pool)) => (pool.slides(self.op).ok()?, None),
            _ => return None,
        };
        let n = slides.len();
        let each = |of: fn(&Slide) -> usize| tuple(slides.iter().map(of));
        let even = slides
            .iter()
            .all(|s| s.low == s.high && 2 * s.low <= s.kernel);
        let exact = slides.iter().enumerate().all(|(d, s)| {
            let counted = self.size(0, d + 2).and_then(|size| s.count(size, false));
            counted == self.shape().and_then(|shape| shape.get(d + 2).copied())
        });
        if !even || !exact || !(1..=3).contains(&n) {
            return None;
        }
        let (kernel, strides, pads) = (each(|s| s.kernel), each(|s| s.stride), each(|s| s.low));
        let x = self.arg(0)?;
        Some(match mean {
            Some(include) => {
                let include = if include { "True" } else { "False" };
                if slides.iter().any(|s| s.dilation != 1) {
                    return None;
                }
                format!(
                    "torch.nn.functional.avg_pool{n}d({x}, {kernel}, {strides}, {pads}, False, {include})"
                )
            }
            None => format!(
                "torch.nn.functional.max_pool{n}d({x}, {kernel}, {strides}, {pads}, {})",
                each(|s| s.dilation)
            ),
        })
    }

    fn cumsum(&self) -> Option<String> {
        let sums = self.typed::<Cumsum>()?;
        let axis = sums.along(self.op).ok()?;
        let (x, to) = (self.arg(0)?, self.to()?);
        let mut text = x.to_owned();
        if sums.reverse {
            text = format!("torch.flip({text}, ({axis},))");
        }
        let turned = text.clone();
        text = format!("torch.cumsum({text}, {axis}).to({to})");
        if sums.exclusive {
            text = format!("({text} - {turned})");
        }
        if sums.reverse {
            text = format!("torch.flip({text}, ({axis},))");
        }
        Some(text)
    }

    fn rotary(&mut self) -> Option<String> {
        let embedding = self.typed::<RotaryEmbedding>()?;
        let axis = embedding.sequence().ok()?;
        let size = embedding.rotated(self.op).ok()??;
        let interleaved = if embedding.interleaved {
            "True"
        } else {
            "False"
        };
        let positions = self.arg(3).unwrap_or("None").to_owned();
        let rotary = self.helper("_rotary");
        let (x, cos, sin) = (self.arg(0)?, self.arg(1)?, self.arg(2)?);
        Some(format!(
            "{rotary}({x}, {cos}, {sin}, {positions}, {axis}, {size}, {interleaved})"
        ))
    }

    fn slice(&mut self, parts: &[SlicePart]) -> Option<String> {
        let mut text = self.arg(0)?.to_owned();
        let to = self.shape()?;
        let from = self.op.operand(0).ok()?.shape()?;
        let mut ranges = Vec::with_capacity(parts.len());
        let mut turned = Vec::new();
        for (d, part) in parts.iter().enumerate() {
            let start = i64::try_from(part.start.as_constant()?).ok()?;
            let count = to.get(d)?.cast_signed();
            let (low, step) = match part.stride < 0 {
                true => (start + (count - 1) * part.stride, -part.stride),
                false => (start, part.stride),
            };
            if part.stride < 0 {
                turned.push(d);
            }
            let end = low + (count - 1) * step + 1;
            let whole = low == 0 && step == 1 && end == from.get(d)?.cast_signed();
            ranges.push(match whole {
                true => ":".to_owned(),
                false if step == 1 => format!("{low}:{end}"),
                false => format!("{low}:{end}:{step}"),
            });
        }
        if ranges.iter().any(|r| r != ":") {
            text = format!("{text}[{}]", ranges.join(", "));
        }
        if !turned.is_empty() {
            text = format!("torch.flip({text}, {})", tuple(&turned));
        }
        Some(text)
    }

    fn split(&self) -> Option<Vec<String>> {
        let split = self.typed::<Split>()?;
        let axis = split.along(self.op).ok()?;
        let x = self.arg(0)?;
        let mut start = 0;
        let parts = split.sizes.iter().map(|size| {
            let text = format!("torch.narrow({x}, {axis}, {start}, {size})");
            start += size;
            text
        });
        Some(parts.collect())
    }

    fn top_k(&self) -> Option<Vec<String>> {
        let top_k = self.typed::<TopK>()?;
        let axis = top_k.along(self.op).ok()?;
        let k = self.shape()?.get(axis).copied()?;
        let largest = if top_k.largest { "True" } else { "False" };
        let x = self.arg(0)?;
        let to = torch_type(self.op.result(1).ok()?.dtype)?;
        let call = format!("torch.topk({x}, {k}, {axis}, {largest})");
        Some(vec![format!("{call}[0]"), format!("{call}[1].to({to})")])
    }

    fn pad(&mut self) -> Option<String> {
        let pad = self.typed::<Pad>()?;
        let amounts = pad.amounts(self.op).ok()?;
        let both = amounts.low.iter().zip(&amounts.high).rev();
        let both = tuple(both.flat_map(|(low, high)| [*low, *high]));
        let x = self.arg(0)?;
        let value = match pad.value {
            PadValue::Float(x) => float(x),
            PadValue::Int(n) => n.to_string(),
        };
        if pad.mode == PadMode::Constant {
            return Some(format!(
                "torch.nn.functional.pad({x}, {both}, value={value})"
            ));
        }
        let (x, mode) = (x.to_owned(), pad.mode.word());
        let amounts = amounts.low.iter().zip(&amounts.high);
        let amounts = tuple(amounts.map(|(low, high)| tuple([*low, *high])));
        let helper = self.helper("_pad");
        Some(format!("{helper}({x}, {amounts}, \"{mode}\")"))
    }

    fn gather(&self) -> Option<String> {
        let axis = self.typed::<Gather>()?.along(self.op).ok()?;
        let (size, shape) = (self.size(0, axis)?, tuple(self.shape()?));
        let (x, i) = (self.arg(0)?, self.arg(1)?);
        Some(format!(
            "torch.index_select({x}, {axis}, torch.where({i} < 0, {i} + {size}, {i}).reshape(-1).to(torch.int64)).reshape({shape})"
        ))
    }

    fn scatter_nd(&self) -> Option<String> {
        let scatter = self.typed::<ScatterNd>().filter(|op| !op.drop_outside)?;
        let rows = self.op.operand(1).ok()?.shape()?;
        let depth = *rows.last()?;
        let (x, i, updates) = (self.arg(0)?, self.arg(1)?, self.arg(2)?);
        let places = (0..depth).map(|d| format!("{i}[..., {d}].to(torch.int64)"));
        let places = tuple(places);
        match scatter.reduction {
            ScatterReduction::None => Some(format!("torch.index_put({x}, {places}, {updates})")),
            ScatterReduction::Add => Some(format!(
                "torch.index_put({x}, {places}, {updates}, accumulate=True)"
            )),
            ScatterReduction::Mul | ScatterReduction::Max | ScatterReduction::Min => None,
        }
    }

    fn scatter_elements(&self) -> Option<String> {
        let scatter = self.typed::<ScatterElements>()?;
        let axis = scatter.along(self.op).ok()?;
        let size = self.size(0, axis)?;
        let (x, i, updates) = (self.arg(0)?, self.arg(1)?, self.arg(2)?);
        let i = format!("torch.where({i} < 0, {i} + {size}, {i}).to(torch.int64)");
        Some(match scatter.reduction {
            ScatterReduction::None => format!("torch.scatter({x}, {axis}, {i}, {updates})"),
            ScatterReduction::Add => format!("torch.scatter_add({x}, {axis}, {i}, {updates})"),
            ScatterReduction::Mul | ScatterReduction::Max | ScatterReduction::Min => return None,
        })
    }

    fn resize(&mut self) -> Option<String> {
        let to = self.ty()?.dtype;
        let all = self.typed::<Resize>()?.interpolations(self.op)?;
        let mut text = self.arg(0)?.to_owned();
        let list = |items: Vec<String>| format!("[{}]", items.join(", "));
        for interpolation in all {
            let taps = &interpolation.taps;
            let most = taps.iter().map(Vec::len).max().unwrap_or(0);
            let column = |k: usize| {
                let of = |t: &Vec<(usize, f64)>| t.get(k).copied().unwrap_or((0, 0.0));
                let (places, weights): (Vec<String>, Vec<String>) = taps
                    .iter()
                    .map(of)
                    .map(|(i, w)| (i.to_string(), w.to_string()))
                    .unzip();
                format!("({}, {})", list(places), list(weights))
            };
            let columns = list((0..most).map(column).collect());
            let resize = self.helper("_resize");
            text = format!("{resize}({text}, {}, {columns})", interpolation.axis);
        }
        let kind = torch_type(to)?;
        to.is_float().then(|| format!("({text}).to({kind})"))
    }

    fn one_hot(&self) -> Option<String> {
        let one_hot = self.typed::<OneHot>()?;
        let axis = one_hot.along(self.op).ok()?;
        let (depth, to) = (one_hot.depth, self.to()?);
        let x = self.arg(0)?;
        let after = self.ty()?.rank().checked_sub(axis + 1)?;
        let ones = std::iter::repeat_n("1".to_owned(), after);
        let shape = tuple([depth.to_string()].into_iter().chain(ones));
        if 1 < self.args.len() {
            return None;
        }
        Some(format!(
            "(torch.where({x} < 0, {x} + {depth}, {x}).unsqueeze({axis}) == torch.arange({depth}, device=device).reshape({shape})).to({to})"
        ))
    }

    fn iota(&self) -> Option<String> {
        let axis = self.typed::<Iota>()?.along(self.op).ok()?;
        let shape = self.shape()?;
        let ones = (0..shape.len()).map(|d| if d == axis { "-1" } else { "1" });
        let (to, n) = (self.to()?, shape.get(axis)?);
        Some(format!(
            "torch.arange({n}, device=device).to({to}).reshape({}).expand({})",
            tuple(ones),
            tuple(&shape)
        ))
    }

    /// Scale and zero point as they broadcast.
    fn parameters(&self, axis: Option<usize>) -> Option<(String, String)> {
        let rank = self.op.operand(0).ok()?.rank();
        let one = |i: usize| -> Option<String> {
            let text = self.arg(i)?;
            if self.op.operand(i).ok()?.rank() == 0 {
                return Some(text.to_owned());
            }
            let shape = tuple((0..rank).map(|d| if Some(d) == axis { "-1" } else { "1" }));
            Some(format!("{text}.reshape({shape})"))
        };
        let zero = match self.arg(2) {
            Some(_) => one(2)?,
            None => "torch.tensor(0, dtype=torch.int32)".to_owned(),
        };
        Some((one(1)?, zero))
    }

    fn quantize(&self) -> Option<String> {
        let axis = self.typed::<Quantize>()?.along(self.op).ok()?;
        let (scale, zero) = self.parameters(axis)?;
        let (x, dtype, to) = (self.arg(0)?, self.ty()?.dtype, self.to()?);
        let (low, high) = (super::words::least(dtype), super::words::greatest(dtype));
        dtype.is_int().then(|| {
            format!("torch.clamp(torch.round({x} / {scale}) + {zero}.to(torch.float32), {low}, {high}).to({to})")
        })
    }

    fn dequantize(&self) -> Option<String> {
        let axis = self.typed::<Dequantize>()?.along(self.op).ok()?;
        let (scale, zero) = self.parameters(axis)?;
        let (x, to) = (self.arg(0)?, self.to()?);
        (wide(self.ty()?.dtype) == DType::F32).then(|| {
            format!("({x}.to(torch.float32) - {zero}.to(torch.float32)).to({to}) * {scale}")
        })
    }
}
