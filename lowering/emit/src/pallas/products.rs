//! Operations in `jnp`: products, convolutions, windows.

use super::form::{Form, each, int, pairs, python_bool, stated_pads};
use super::words::{dtype, tuple, wide};
use optc_ir::DType;
use optc_ops::{
    AvgPool, Conv, DotGeneral, Einsum, Interpolation, MaxPool, Resize, RotaryEmbedding, Slide,
};
use optc_target::Precision;

impl Form<'_> {
    /// The keyword argument for the accumulator type, and the conversion of the sum to the result's type.
    pub(super) fn sums(&self) -> Option<(String, String)> {
        let to = self.ty()?.dtype;
        let wide = wide(to);
        let exact = match wide.is_float() {
            true => format!(", precision={}", self.precision()?),
            false => String::new(),
        };
        let keyword = format!("{exact}, preferred_element_type={}", dtype(wide));
        let back = if wide == to {
            String::new()
        } else {
            format!(".astype({})", dtype(to))
        };
        Some((keyword, back))
    }

    /// The precision of a product or a convolution; only numbers of f32 have any but the highest.
    fn precision(&self) -> Option<String> {
        let precision = match self.operand(0)?.dtype {
            DType::F32 => self.site.precision,
            _ => Precision::Ieee,
        };
        Some(format!("lax.Precision.{}", precision.xla().to_uppercase()))
    }

    pub(super) fn matmul(&mut self) -> Option<String> {
        let (sums, back) = self.sums()?;
        let ranks = self.site.operands.iter().map(Vec::len);
        let function = match self.site.tile && ranks.min() >= Some(2) {
            true => self.helper("_matmul"),
            false => "jnp.matmul",
        };
        let (a, b) = (self.arg(0)?, self.arg(1)?);
        Some(format!("{function}({a}, {b}{sums}){back}"))
    }

    pub(super) fn linear(&self) -> Option<String> {
        let (sums, back) = self.sums()?;
        let (x, w) = (self.arg(0)?, self.arg(1)?);
        let last = self.operand(0)?.rank().checked_sub(1)?;
        let product = format!("lax.dot_general({x}, {w}, ((({last},), (1,)), ((), ())){sums})");
        Some(match self.arg(2) {
            None => format!("{product}{back}"),
            Some(bias) if back.is_empty() => format!("{product} + {bias}"),
            Some(bias) => format!("({product} + {bias}){back}"),
        })
    }

    pub(super) fn dot_general(&mut self) -> Option<String> {
        let (sums, back) = self.sums()?;
        let pairing = self.typed::<DotGeneral>()?.pairing(self.op()).ok()?;
        let batch = [&pairing.lhs_batch, &pairing.rhs_batch];
        let contracted = pairing.rhs_contract.len();
        let columns = self.operand(1)?.rank() - contracted - batch[1].len();
        let is_plain = batch.iter().all(|dims| matches!(&dims[..], [] | [0]));
        let function = match self.site.tile && !(is_plain && contracted == 1 && columns == 1) {
            true if columns < 2 => self.helper("_dot"),
            true => {
                self.helper("_merge_lanes");
                self.helper("_split_lanes");
                self.helper("_dot")
            }
            false => "lax.dot_general",
        };
        let dims = format!(
            "(({}, {}), ({}, {}))",
            tuple(pairing.lhs_contract),
            tuple(pairing.rhs_contract),
            tuple(pairing.lhs_batch),
            tuple(pairing.rhs_batch)
        );
        let (a, b) = (self.arg(0)?, self.arg(1)?);
        Some(format!("{function}({a}, {b}, {dims}{sums}){back}"))
    }

    pub(super) fn einsum(&self) -> Option<String> {
        let (sums, back) = self.sums()?;
        let equation = self.typed::<Einsum>()?.equation;
        let all = self.args.join(", ");
        Some(format!("jnp.einsum(\"{equation}\", {all}{sums}){back}"))
    }

    /// The padding that the operand does not contain yet.
    pub(super) fn pads(&self, slides: &[Slide]) -> Vec<(i64, i64)> {
        let left = self.site.pads.clone();
        left.unwrap_or_else(|| stated_pads(slides))
    }

    /// A resize of one dimension after the other, from tables of the elements that each position reads.
    pub(super) fn resize(&mut self) -> Option<String> {
        let to = self.ty()?.dtype;
        let all = self.typed::<Resize>()?.interpolations(self.op())?;
        let nearest = all.iter().flat_map(|i| &i.taps).all(|t| t.len() == 1);
        if !nearest && !to.is_float() {
            return None;
        }
        let mut text = self.arg(0)?.to_owned();
        let list = |items: Vec<String>| format!("[{}]", items.join(", "));
        for Interpolation { axis, taps } in all {
            if nearest {
                let places = taps.iter().map(|t| t[0].0.to_string()).collect();
                text = format!("jnp.take({text}, np.array({}), axis={axis})", list(places));
                continue;
            }
            let most = taps.iter().map(Vec::len).max().unwrap_or(0);
            let column = |k: usize| -> (Vec<String>, Vec<String>) {
                let of = |t: &Vec<(usize, f64)>| t.get(k).copied().unwrap_or((0, 0.0));
                let pairs = taps.iter().map(of);
                pairs.map(|(i, w)| (i.to_string(), w.to_string())).unzip()
            };
            let columns = (0..most).map(column);
            let columns = columns.map(|(i, w)| format!("({}, {})", list(i), list(w)));
            let resize = self.helper("_resize");
            text = format!("{resize}({text}, {axis}, {})", list(columns.collect()));
        }
        Some(match nearest {
            true => text,
            false => format!("({text}).astype({})", dtype(to)),
        })
    }

    pub(super) fn rotary(&mut self) -> Option<String> {
        let embedding = self.typed::<RotaryEmbedding>()?;
        let axis = embedding.sequence().ok()?;
        let size = embedding.rotated(self.op()).ok()??;
        let interleaved = python_bool(embedding.interleaved);
        let positions = self.arg(3).unwrap_or("None").to_owned();
        let rotary = self.helper("_rotary");
        let (x, cos, sin) = (self.arg(0)?, self.arg(1)?, self.arg(2)?);
        Some(format!(
            "{rotary}({x}, {cos}, {sin}, {positions}, {axis}, {size}, {interleaved})"
        ))
    }

    pub(super) fn conv(&mut self) -> Option<String> {
        let conv = self.typed::<Conv>()?;
        let slides = conv.slides(self.op()).ok()?;
        if !conv.transposed {
            return self.convolution("_conv", &conv, &slides, &self.pads(&slides));
        }
        if self.site.tile {
            return None;
        }
        let extra = conv.output_paddings(self.op()).ok()?;
        let padding = self.pads(&slides).into_iter().zip(&slides).zip(extra);
        let pads: Vec<(i64, i64)> = padding
            .map(|(((low, high), slide), extra)| {
                let reach = int(slide.span()) - 1;
                (reach - low, reach - high + int(extra))
            })
            .collect();
        self.convolution("_conv_transposed", &conv, &slides, &pads)
    }

    /// A convolution by a helper function, plus the bias, if there is one: one number for each channel.
    pub(super) fn convolution(
        &mut self,
        helper: &'static str,
        conv: &Conv,
        slides: &[Slide],
        pads: &[(i64, i64)],
    ) -> Option<String> {
        let (strides, dilations) = (each(slides, |s| s.stride), each(slides, |s| s.dilation));
        let groups = conv.groups().ok()?;
        let pads = pairs(pads);
        let (to, precision) = (dtype(self.ty()?.dtype), self.precision()?);
        let conv = self.helper(helper);
        let (x, w) = (self.arg(0)?, self.arg(1)?);
        let text = format!(
            "{conv}({x}, {w}, {strides}, {pads}, {dilations}, {groups}, {precision}, {to})"
        );
        if self.arg(2).is_none() {
            return Some(text);
        }
        Some(format!("{text} + {}", self.channel(2)?))
    }

    /// The padding with which a pooling has exactly the result's number of windows. With `ceil_mode` the last window
    /// may exceed the stated padding.
    pub(super) fn reached_pads(&self, slides: &[Slide]) -> Option<Vec<(i64, i64)>> {
        let mut pads = self.pads(slides);
        for (d, (pad, slide)) in pads.iter_mut().zip(slides).enumerate() {
            let size = i64::try_from(*self.site.operands.first()?.get(d + 2)?).ok()?;
            let windows = i64::try_from(*self.site.results.first()?.get(d + 2)?).ok()?;
            let reach = (windows - 1) * int(slide.stride) + int(slide.span());
            pad.1 = reach - size - pad.0;
        }
        let short = pads.iter().any(|(_, high)| *high < 0);
        (!short || !self.site.tile).then_some(pads)
    }

    /// Reduces all windows of `x` with `combine`, from `start` on.
    pub(super) fn windows(
        &mut self,
        [x, start, combine]: [&str; 3],
        slides: &[Slide],
        pads: &[(i64, i64)],
    ) -> String {
        let (kernel, strides) = (each(slides, |s| s.kernel), each(slides, |s| s.stride));
        let (pads, dilations) = (pairs(pads), each(slides, |s| s.dilation));
        let pool = self.helper("_pool");
        format!("{pool}({x}, {start}, {combine}, {kernel}, {strides}, {pads}, {dilations})")
    }

    pub(super) fn max_pool(&mut self) -> Option<String> {
        let slides = self.typed::<MaxPool>()?.slides(self.op()).ok()?;
        let pads = self.reached_pads(&slides)?;
        let least = if self.is_float() {
            "-jnp.inf".to_owned()
        } else {
            format!("jnp.iinfo({}).min", dtype(self.ty()?.dtype))
        };
        let x = self.arg(0)?.to_owned();
        Some(self.windows([&x, &least, "lax.max"], &slides, &pads))
    }

    pub(super) fn avg_pool(&mut self) -> Option<String> {
        let pool = self.typed::<AvgPool>()?;
        let slides = pool.slides(self.op()).ok()?;
        let pads = self.reached_pads(&slides)?;
        let none = stated_pads(&slides).iter().all(|p| *p == (0, 0));
        let whole = pads == self.pads(&slides) && (pool.count_include_pad || none);
        if self.site.tile && !whole {
            return None;
        }
        let x = self.arg(0)?.to_owned();
        let sum = self.windows([&x, "0", "lax.add"], &slides, &pads);
        if whole {
            let count: usize = slides.iter().map(|s| s.kernel).product();
            return Some(format!("{sum} / {count}"));
        }
        if pool.count_include_pad {
            return None;
        }
        let ones = format!("jnp.ones_like({x})");
        let counts = self.windows([&ones, "0", "lax.add"], &slides, &pads);
        Some(format!("{sum} / {counts}"))
    }
}
