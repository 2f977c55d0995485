//! What each operation is in `jnp`, on whole values and on tiles of them.

use super::words::{dtype, float, tuple, wide};
use optc_ir::{Attr, DType, OpRef, Operation, TensorType};
use optc_ops::{DepthToSpace, Interpolation, Resize, SpaceToDepth};
use std::collections::BTreeSet;

/// An operation on values of these extents.
pub(super) struct Site<'a> {
    /// The operation with the types of its whole operands and results.
    pub(super) op: &'a OpRef<'a>,
    /// The extents of each operand as it is here.
    pub(super) operands: Vec<Vec<u64>>,
    /// The extents of each result as it is here.
    pub(super) results: Vec<Vec<u64>>,
    /// Whether these are tiles.
    pub(super) tile: bool,
    /// The padding of windows that is not in the operands yet, begin and end a spatial dimension;
    /// that of the attributes when absent.
    pub(super) pads: Option<Vec<(i64, i64)>>,
}

/// The expressions of the results, and the helpers that they use.
pub(super) struct Written {
    pub(super) results: Vec<String>,
    pub(super) helpers: BTreeSet<&'static str>,
}

/// Operations of one operand, as a text with `{}` for it.
const UNARY: &[(&str, &str)] = &[
    ("hbir.abs", "jnp.abs({})"),
    ("hbir.acos", "jnp.arccos({})"),
    ("hbir.acosh", "jnp.arccosh({})"),
    ("hbir.asin", "jnp.arcsin({})"),
    ("hbir.asinh", "jnp.arcsinh({})"),
    ("hbir.atan", "jnp.arctan({})"),
    ("hbir.atanh", "jnp.arctanh({})"),
    ("hbir.cbrt", "jnp.cbrt({})"),
    ("hbir.ceil", "jnp.ceil({})"),
    ("hbir.cos", "jnp.cos({})"),
    ("hbir.cosh", "jnp.cosh({})"),
    ("hbir.erf", "lax.erf({})"),
    ("hbir.exp", "jnp.exp({})"),
    ("hbir.expm1", "jnp.expm1({})"),
    ("hbir.floor", "jnp.floor({})"),
    ("hbir.hard_swish", "{} * jnp.clip({} / 6.0 + 0.5, 0.0, 1.0)"),
    ("hbir.identity", "{}"),
    ("hbir.is_inf", "jnp.isinf({})"),
    ("hbir.is_nan", "jnp.isnan({})"),
    ("hbir.layout_convert", "{}"),
    ("hbir.log", "jnp.log({})"),
    ("hbir.log1p", "jnp.log1p({})"),
    ("hbir.mish", "{} * jnp.tanh(jnp.logaddexp({}, 0.0))"),
    ("hbir.neg", "-{}"),
    ("hbir.not", "~{}"),
    ("hbir.reciprocal", "1.0 / {}"),
    ("hbir.relu", "jnp.maximum({}, 0)"),
    ("hbir.round", "jnp.round({})"),
    ("hbir.rsqrt", "lax.rsqrt({})"),
    ("hbir.sigmoid", "jax.nn.sigmoid({})"),
    ("hbir.sign", "jnp.sign({})"),
    ("hbir.silu", "{} * jax.nn.sigmoid({})"),
    ("hbir.sin", "jnp.sin({})"),
    ("hbir.sinh", "jnp.sinh({})"),
    ("hbir.softplus", "jnp.logaddexp({}, 0.0)"),
    ("hbir.softsign", "{} / (1.0 + jnp.abs({}))"),
    ("hbir.sqrt", "jnp.sqrt({})"),
    ("hbir.tan", "jnp.tan({})"),
    ("hbir.tanh", "jnp.tanh({})"),
];

/// Operations of two operands.
const BINARY: &[(&str, &str)] = &[
    ("hbir.add", "+"),
    ("hbir.sub", "-"),
    ("hbir.mul", "*"),
    ("hbir.and", "&"),
    ("hbir.or", "|"),
    ("hbir.xor", "^"),
    ("hbir.bit_and", "&"),
    ("hbir.bit_or", "|"),
    ("hbir.bit_xor", "^"),
];

/// Directions of a comparison.
const DIRECTIONS: &[(&str, &str)] = &[
    ("eq", "=="),
    ("ne", "!="),
    ("lt", "<"),
    ("le", "<="),
    ("gt", ">"),
    ("ge", ">="),
];

/// The operation on `args`; `None` if it has no form here.
pub(super) fn write(site: &Site<'_>, args: &[String]) -> Option<Written> {
    let mut writer = Writer {
        site,
        args,
        helpers: BTreeSet::new(),
    };
    let results = writer.results()?;
    Some(Written {
        results,
        helpers: writer.helpers,
    })
}

struct Writer<'a> {
    site: &'a Site<'a>,
    args: &'a [String],
    helpers: BTreeSet<&'static str>,
}

impl Writer<'_> {
    fn op(&self) -> &OpRef<'_> {
        self.site.op
    }
    fn ty(&self) -> Option<&TensorType> {
        self.op().result(0).ok()
    }
    fn operand(&self, i: usize) -> Option<&TensorType> {
        self.op().operand(i).ok()
    }
    fn arg(&self, i: usize) -> Option<&str> {
        self.args.get(i).map(String::as_str)
    }
    fn int(&self, name: &str, default: i64) -> i64 {
        self.op().props.int(name).unwrap_or(default)
    }
    fn float(&self, name: &str, default: f64) -> f64 {
        let attr = self.op().props.get(name);
        let number = attr.and_then(|a| a.as_float().or_else(|| a.as_int().map(|n| n as f64)));
        number.unwrap_or(default)
    }
    fn flag(&self, name: &str) -> bool {
        self.op().props.flag(name)
    }
    fn helper(&mut self, name: &'static str) -> &'static str {
        self.helpers.insert(name);
        name
    }
    /// An axis, counted from the front.
    fn axis(&self, name: &str, default: i64, rank: usize) -> usize {
        let axis = self.int(name, default);
        let axis = if axis < 0 { axis + rank as i64 } else { axis };
        usize::try_from(axis).unwrap_or(0)
    }
    fn extents(&self) -> Option<String> {
        self.site.results.first().map(tuple)
    }

    fn results(&mut self) -> Option<Vec<String>> {
        match self.op().name {
            "hbir.split" => self.split(),
            "hbir.top_k" => self.top_k(),
            _ => self.one().map(|text| vec![text]),
        }
    }

    fn one(&mut self) -> Option<String> {
        let name = self.op().name;
        if let Some((_, form)) = UNARY.iter().find(|(n, _)| *n == name) {
            return Some(form.replace("{}", self.arg(0)?));
        }
        if let Some((_, sign)) = BINARY.iter().find(|(n, _)| *n == name) {
            return self.binary(sign);
        }
        match name {
            "hbir.gelu" if self.op().props.str("approximate") == Some("tanh") => {
                Some(format!("jax.nn.gelu({}, approximate=True)", self.arg(0)?))
            }
            "hbir.gelu" => Some(format!("{}({})", self.helper("_gelu"), self.arg(0)?)),
            "hbir.div" if self.ty()?.dtype.is_float() => self.binary("/"),
            "hbir.atan2" => self.call2("jnp.arctan2"),
            "hbir.pow" if self.ty()?.dtype.is_float() => self.call2("jnp.power"),
            "hbir.pow" => self.call2_of("_int_pow"),
            "hbir.max" if !self.ty()?.dtype.is_bool() => self.call2("jnp.maximum"),
            "hbir.min" if !self.ty()?.dtype.is_bool() => self.call2("jnp.minimum"),
            "hbir.max" => self.binary("|"),
            "hbir.min" => self.binary("&"),
            "hbir.mod" if self.flag("fmod") && self.ty()?.dtype.is_float() => {
                self.call2("jnp.fmod")
            }
            "hbir.mod" if self.flag("fmod") => self.call2_of("_int_rem"),
            "hbir.mod" if self.ty()?.dtype.is_float() => self.call2("jnp.mod"),
            "hbir.mod" => self.call2_of("_int_mod"),
            "hbir.prelu" => {
                let (x, slope) = (self.arg(0)?, self.arg(1)?);
                Some(format!("jnp.where({x} < 0, {slope} * {x}, {x})"))
            }
            "hbir.compare" => {
                let direction = self.op().props.str("direction")?;
                let (_, sign) = DIRECTIONS.iter().find(|(d, _)| *d == direction)?;
                self.binary(sign)
            }
            "hbir.select" => {
                let (c, a, b) = (self.arg(0)?, self.arg(1)?, self.arg(2)?);
                Some(format!("jnp.where({c}, {a}, {b})"))
            }
            "hbir.cast" => self.cast(),
            "hbir.clamp" => self.clamp(),
            "hbir.leaky_relu"
            | "hbir.elu"
            | "hbir.selu"
            | "hbir.celu"
            | "hbir.hard_sigmoid"
            | "hbir.thresholded_relu" => self.with_alpha(),
            "hbir.quantize" | "hbir.dequantize" => self.quantize(),
            "hbir.reshape" | "hbir.squeeze" | "hbir.unsqueeze" | "hbir.flatten" => {
                Some(format!("{}.reshape{}", self.arg(0)?, self.extents()?))
            }
            "hbir.transpose" => {
                let perm = self.op().props.ints("perm")?;
                Some(format!("jnp.transpose({}, {})", self.arg(0)?, tuple(perm)))
            }
            "hbir.broadcast" => Some(format!(
                "jnp.broadcast_to({}, {})",
                self.arg(0)?,
                self.extents()?
            )),
            "hbir.tile" => {
                let repeats = self.op().props.ints("repeats")?;
                Some(format!("jnp.tile({}, {})", self.arg(0)?, tuple(repeats)))
            }
            "hbir.matmul" => self.matmul(),
            "hbir.linear" => self.linear(),
            "hbir.dot_general" => self.dot_general(),
            "hbir.einsum" => self.einsum(),
            "hbir.conv" if self.flag("transposed") => self.transposed_conv(),
            "hbir.conv" => self.conv(),
            "hbir.resize" if !self.site.tile => self.resize(),
            "hbir.rotary_embedding" if !self.site.tile => self.rotary(),
            "hbir.max_pool" | "hbir.avg_pool" => self.pool(),
            "hbir.reduce" => self.reduce(),
            "hbir.arg_max" | "hbir.arg_min" => self.arg_extreme(),
            "hbir.softmax" => {
                let axis = self.axis("axis", -1, self.ty()?.rank());
                let softmax = self.helper("_softmax");
                Some(format!("{softmax}({}, {axis})", self.arg(0)?))
            }
            "hbir.log_softmax" => {
                let axis = self.axis("axis", -1, self.ty()?.rank());
                Some(format!("jax.nn.log_softmax({}, axis={axis})", self.arg(0)?))
            }
            "hbir.layer_norm" | "hbir.rms_norm" => self.last_norm(),
            "hbir.batch_norm" => self.batch_norm(),
            "hbir.instance_norm" => {
                let rank = self.ty()?.rank();
                self.channel_norm((2..rank).collect())
            }
            "hbir.group_norm" => self.group_norm(),
            "hbir.concat" => {
                let axis = self.axis("axis", 0, self.ty()?.rank());
                let all = self.args.join(", ");
                Some(format!("jnp.concatenate([{all}], axis={axis})"))
            }
            "hbir.slice" => self.slice(),
            "hbir.pad" => self.pad(),
            "hbir.gather" => {
                let axis = self.axis("axis", 0, self.operand(0)?.rank());
                let (x, i) = (self.arg(0)?, self.arg(1)?);
                Some(format!("jnp.take({x}, {i}, axis={axis})"))
            }
            "hbir.gather_elements" => {
                let axis = self.axis("axis", 0, self.operand(0)?.rank());
                let (x, i) = (self.arg(0)?, self.arg(1)?);
                Some(format!("jnp.take_along_axis({x}, {i}, axis={axis})"))
            }
            "hbir.dynamic_update_slice" => {
                let (x, update, starts) = (self.arg(0)?, self.arg(1)?, self.args.get(2..)?);
                let starts: Vec<String> = starts
                    .iter()
                    .map(|start| format!("jnp.maximum({start}, 0)"))
                    .collect();
                let starts = starts.join(", ");
                Some(format!(
                    "lax.dynamic_update_slice({x}, {update}, [{starts}])"
                ))
            }
            "hbir.gather_nd" => {
                let batch = self.int("batch_dims", 0);
                let (x, i) = (self.arg(0)?.to_owned(), self.arg(1)?.to_owned());
                let gather = self.helper("_gather_nd");
                Some(format!("{gather}({x}, {i}, {batch})"))
            }
            "hbir.scatter_nd" => {
                let i = self.arg(1)?;
                self.scatter(&format!("tuple(jnp.moveaxis({i}, -1, 0))"))
            }
            "hbir.scatter_elements" => {
                let axis = self.axis("axis", 0, self.operand(0)?.rank());
                let i = self.arg(1)?.to_owned();
                let places = self.helper("_element_places");
                self.scatter(&format!("{places}({i}, {axis})"))
            }
            "hbir.depth_to_space" | "hbir.space_to_depth" if !self.site.tile => {
                let op = self.op();
                let blocks = DepthToSpace::of(op).and_then(|d| d.rearrangement(op));
                let blocks = blocks.or_else(|_| SpaceToDepth::of(op)?.rearrangement(op));
                let map = blocks.ok()?;
                let shape: Option<Vec<u64>> = map.shape.iter().map(optc_ir::Dim::fixed).collect();
                Some(format!(
                    "jnp.transpose({}.reshape{}, {}).reshape{}",
                    self.arg(0)?,
                    tuple(shape?),
                    tuple(map.perm),
                    self.extents()?
                ))
            }
            "hbir.one_hot" => {
                let rank = self.ty()?.rank();
                let (axis, depth) = (self.axis("axis", -1, rank), self.op().props.int("depth")?);
                let x = self.arg(0)?;
                let marked = format!(
                    "jnp.expand_dims({x} % {depth}, {axis}) == lax.broadcasted_iota({x}.dtype, {}, {axis})",
                    self.extents()?
                );
                let inside =
                    format!("jnp.expand_dims((-{depth} <= {x}) & ({x} < {depth}), {axis})");
                let (off, on) = match self.arg(1) {
                    Some(values) => (format!("{values}[0]"), format!("{values}[1]")),
                    None => ("0".to_owned(), "1".to_owned()),
                };
                let to = dtype(self.ty()?.dtype);
                Some(format!(
                    "jnp.where(({marked}) & {inside}, {on}, {off}).astype({to})"
                ))
            }
            "hbir.div" => {
                let (a, b) = (self.arg(0)?.to_owned(), self.arg(1)?.to_owned());
                Some(format!("{}({a}, {b})", self.helper("_int_div")))
            }
            "hbir.shift_left" | "hbir.shift_right" => {
                let (a, b) = (self.arg(0)?, self.arg(1)?);
                let bits = self.ty()?.dtype.bits();
                Some(if name == "hbir.shift_left" {
                    format!(
                        "jnp.where((0 <= {b}) & ({b} < {bits}), jnp.left_shift({a}, jnp.clip({b}, 0, {})), 0)",
                        bits - 1
                    )
                } else {
                    format!(
                        "jnp.right_shift({a}, jnp.where(({b} < 0) | ({bits} <= {b}), {}, {b}))",
                        bits - 1
                    )
                })
            }
            "hbir.cumsum" => {
                let axis = self.axis("axis", 0, self.ty()?.rank());
                let python = |flag: bool| if flag { "True" } else { "False" };
                let (exclusive, reverse) = (self.flag("exclusive"), self.flag("reverse"));
                let (exclusive, reverse) = (python(exclusive), python(reverse));
                let cumsum = self.helper("_cumsum");
                Some(format!(
                    "{cumsum}({}, {axis}, {exclusive}, {reverse})",
                    self.arg(0)?
                ))
            }
            "hbir.iota" => {
                let axis = self.axis("axis", 0, self.ty()?.rank());
                let dtype = dtype(self.ty()?.dtype);
                Some(format!(
                    "lax.broadcasted_iota({dtype}, {}, {axis})",
                    self.extents()?
                ))
            }
            "hbir.trilu" => {
                let triangle =
                    if self.op().props.get("upper").and_then(Attr::as_bool) == Some(false) {
                        "jnp.tril"
                    } else {
                        "jnp.triu"
                    };
                Some(format!(
                    "{triangle}({}, {})",
                    self.arg(0)?,
                    self.int("k", 0)
                ))
            }
            _ => None,
        }
    }

    fn binary(&self, sign: &str) -> Option<String> {
        Some(format!("{} {sign} {}", self.arg(0)?, self.arg(1)?))
    }
    /// A copy of the first operand with the updates at these places.
    fn scatter(&self, places: &str) -> Option<String> {
        let method = match self.op().props.str("reduction").unwrap_or("none") {
            "none" => "set",
            "mul" => "multiply",
            kind @ ("add" | "max" | "min") => kind,
            _ => return None,
        };
        let (x, updates) = (self.arg(0)?, self.arg(2)?);
        Some(format!("{x}.at[{places}].{method}({updates})"))
    }
    fn call2(&self, function: &str) -> Option<String> {
        Some(format!("{function}({}, {})", self.arg(0)?, self.arg(1)?))
    }

    fn cast(&self) -> Option<String> {
        let (x, from, to) = (self.arg(0)?, self.operand(0)?.dtype, self.ty()?.dtype);
        if to.is_bool() {
            return Some(format!("{x} != 0"));
        }
        let name = dtype(to);
        if !from.is_int() && to.is_int() {
            // What lies outside of the integers saturates, NaN is 0.
            return Some(format!("jnp.nan_to_num({x}).astype({name})"));
        }
        Some(format!("{x}.astype({name})"))
    }

    fn clamp(&self) -> Option<String> {
        let bound = |name: &str| {
            let attr = self.op().props.get(name)?;
            let number = attr
                .as_float()
                .or_else(|| attr.as_int().map(|n| n as f64))?;
            Some(if self.ty()?.dtype.is_float() {
                float(number)
            } else {
                format!("{number:.0}")
            })
        };
        let mut text = self.arg(0)?.to_owned();
        if let Some(low) = bound("min") {
            text = format!("jnp.maximum({text}, {low})");
        }
        if let Some(high) = bound("max") {
            text = format!("jnp.minimum({text}, {high})");
        }
        Some(text)
    }

    fn with_alpha(&self) -> Option<String> {
        let x = self.arg(0)?;
        let number = |name, default| float(self.float(name, default));
        Some(match self.op().name {
            "hbir.leaky_relu" => {
                format!("jnp.where({x} < 0, {} * {x}, {x})", number("alpha", 0.01))
            }
            "hbir.elu" => format!("jax.nn.elu({x}, {})", number("alpha", 1.0)),
            "hbir.celu" => format!("jax.nn.celu({x}, {})", number("alpha", 1.0)),
            "hbir.selu" => format!(
                "{} * jax.nn.elu({x}, {})",
                number("gamma", 1.050_700_902_938_842_8),
                number("alpha", 1.673_263_192_176_818_8)
            ),
            "hbir.hard_sigmoid" => format!(
                "jnp.clip({} * {x} + {}, 0.0, 1.0)",
                number("alpha", 0.2),
                number("beta", 0.5)
            ),
            _ => format!("jnp.where({x} > {}, {x}, 0.0)", number("alpha", 1.0)),
        })
    }

    fn quantize(&mut self) -> Option<String> {
        let rank = self.operand(0)?.rank();
        let along = |text: &str, ty: &TensorType| -> Option<String> {
            if ty.rank() == 0 {
                return Some(text.to_owned());
            }
            let axis = self.axis("axis", 1, rank);
            let shape = (0..rank).map(|d| if d == axis { "-1" } else { "1" });
            Some(format!("{text}.reshape{}", tuple(shape)))
        };
        let scale = along(self.arg(1)?, self.operand(1)?)?;
        let zero = match self.arg(2) {
            Some(zero) => along(zero, self.operand(2)?)?,
            None => "jnp.int32(0)".to_owned(),
        };
        let to = dtype(self.ty()?.dtype);
        let x = self.arg(0)?.to_owned();
        if self.op().name == "hbir.dequantize" {
            return Some(format!(
                "({x}.astype(jnp.float32) - {zero}.astype(jnp.float32)).astype({to}) * {scale}"
            ));
        }
        let quantize = self.helper("_quantize");
        Some(format!("{quantize}({x}, {scale}, {zero}, {to})"))
    }

    /// The keyword for the type of sums, and what brings the sum to the result's type.
    fn sums(&self) -> Option<(String, String)> {
        let to = self.ty()?.dtype;
        let wide = wide(to);
        let exact = if wide.is_float() {
            ", precision=lax.Precision.HIGHEST"
        } else {
            ""
        };
        let keyword = format!("{exact}, preferred_element_type={}", dtype(wide));
        let back = if wide == to {
            String::new()
        } else {
            format!(".astype({})", dtype(to))
        };
        Some((keyword, back))
    }

    fn matmul(&self) -> Option<String> {
        let (sums, back) = self.sums()?;
        let (a, b) = (self.arg(0)?, self.arg(1)?);
        Some(format!("jnp.matmul({a}, {b}{sums}){back}"))
    }

    fn linear(&self) -> Option<String> {
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

    fn dot_general(&self) -> Option<String> {
        let (sums, back) = self.sums()?;
        let list = |name: &str| tuple(self.op().props.ints(name).unwrap_or_default());
        let dims = format!(
            "(({}, {}), ({}, {}))",
            list("lhs_contract"),
            list("rhs_contract"),
            list("lhs_batch"),
            list("rhs_batch")
        );
        let (a, b) = (self.arg(0)?, self.arg(1)?);
        Some(format!("lax.dot_general({a}, {b}, {dims}{sums}){back}"))
    }

    fn einsum(&self) -> Option<String> {
        let (sums, back) = self.sums()?;
        let equation = self.op().props.str("equation")?;
        let all = self.args.join(", ");
        Some(format!("jnp.einsum(\"{equation}\", {all}{sums}){back}"))
    }

    /// Begin and end of the padding of each spatial dimension.
    fn pads(&self, spatial: usize) -> Vec<(i64, i64)> {
        if let Some(pads) = &self.site.pads {
            return pads.clone();
        }
        self.pads_stated(spatial)
    }

    /// The padding that the attributes state.
    fn pads_stated(&self, spatial: usize) -> Vec<(i64, i64)> {
        let pads = self.op().props.ints("pads").unwrap_or_default();
        let at = |i: usize| pads.get(i).copied().unwrap_or(0);
        (0..spatial).map(|d| (at(d), at(spatial + d))).collect()
    }

    fn spatial(&self, name: &str, spatial: usize) -> Vec<i64> {
        let found = self.op().props.ints(name);
        found.unwrap_or_else(|| vec![1; spatial])
    }

    /// Of two operands, by a function of the module's own.
    fn call2_of(&mut self, helper: &'static str) -> Option<String> {
        let function = self.helper(helper);
        self.call2(function)
    }

    /// Element by element of one dimension after the other, from tables of what is read.
    fn resize(&mut self) -> Option<String> {
        let to = self.ty()?.dtype;
        let all = Resize::of(self.op()).ok()?.interpolations(self.op())?;
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

    fn rotary(&mut self) -> Option<String> {
        let x = self.operand(0)?;
        let last = i64::try_from(x.dims.last()?.fixed()?).ok()?;
        let size = match self.int("size", 0) {
            0 => last,
            size => size,
        };
        let interleaved = if self.flag("interleaved") {
            "True"
        } else {
            "False"
        };
        let axis = self.int("sequence_axis", 2);
        let positions = self.arg(3).unwrap_or("None").to_owned();
        let rotary = self.helper("_rotary");
        let (x, cos, sin) = (self.arg(0)?, self.arg(1)?, self.arg(2)?);
        Some(format!(
            "{rotary}({x}, {cos}, {sin}, {positions}, {axis}, {size}, {interleaved})"
        ))
    }

    fn transposed_conv(&mut self) -> Option<String> {
        if self.site.tile {
            return None;
        }
        let spatial = self.ty()?.rank().checked_sub(2)?;
        let kernel = self.operand(1)?.shape()?;
        let dilations = self.spatial("dilations", spatial);
        let extra = self.op().props.ints("output_padding");
        let extra = extra.unwrap_or_else(|| vec![0; spatial]);
        let mut pads = self.pads(spatial);
        for (d, (low, high)) in pads.iter_mut().enumerate() {
            let reach = (i64::try_from(kernel[d + 2]).ok()? - 1) * dilations[d];
            (*low, *high) = (reach - *low, reach - *high + extra[d]);
        }
        self.convolution("_conv_transposed", &pads)
    }

    fn conv(&mut self) -> Option<String> {
        let pads = self.pads(self.ty()?.rank().checked_sub(2)?);
        self.convolution("_conv", &pads)
    }

    /// A convolution by a function of the module's own, plus the bias, one number a channel, where there is
    /// one.
    fn convolution(&mut self, helper: &'static str, pads: &[(i64, i64)]) -> Option<String> {
        let spatial = pads.len();
        let pads = tuple(pads.iter().map(|(a, b)| tuple([*a, *b])));
        let strides = tuple(self.spatial("strides", spatial));
        let dilations = tuple(self.spatial("dilations", spatial));
        let groups = self.int("group", 1);
        let to = dtype(self.ty()?.dtype);
        let conv = self.helper(helper);
        let (x, w) = (self.arg(0)?, self.arg(1)?);
        let text = format!("{conv}({x}, {w}, {strides}, {pads}, {dilations}, {groups}, {to})");
        let Some(bias) = self.arg(2) else {
            return Some(text);
        };
        let ones = std::iter::repeat_n("1", spatial);
        let shape = tuple(["-1"].into_iter().chain(ones));
        Some(format!("{text} + {bias}.reshape{shape}"))
    }

    fn pool(&mut self) -> Option<String> {
        let spatial = self.ty()?.rank().checked_sub(2)?;
        let kernel = self.op().props.ints("kernel")?;
        let (strides, dilations) = (
            self.spatial("strides", spatial),
            self.spatial("dilations", spatial),
        );
        let mut pads = self.pads(spatial);
        // With `ceil_mode` the last window may reach beyond the padding.
        for (d, pad) in pads.iter_mut().enumerate() {
            let size = i64::try_from(*self.site.operands.first()?.get(d + 2)?).ok()?;
            let windows = i64::try_from(*self.site.results.first()?.get(d + 2)?).ok()?;
            let reach = (windows - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1;
            pad.1 = reach - size - pad.0;
        }
        if pads.iter().any(|(_, high)| *high < 0) && self.site.tile {
            return None;
        }
        let plain = self.pads(spatial);
        let counted = self.flag("count_include_pad");
        let x = self.arg(0)?.to_owned();
        let to = self.ty()?.dtype;
        let window = |pads: &[(i64, i64)]| {
            let pads = tuple(pads.iter().map(|(a, b)| tuple([*a, *b])));
            let (kernel, strides) = (tuple(kernel.clone()), tuple(strides.clone()));
            format!("{kernel}, {strides}, {pads}, {}", tuple(dilations.clone()))
        };
        let pool = self.helper("_pool");
        if self.op().name == "hbir.max_pool" {
            let least = if to.is_float() {
                "-jnp.inf".to_owned()
            } else {
                format!("jnp.iinfo({}).min", dtype(to))
            };
            return Some(format!("{pool}({x}, {least}, lax.max, {})", window(&pads)));
        }
        let none = self.pads_stated(spatial).iter().all(|p| *p == (0, 0));
        let whole = pads == plain && (counted || none);
        if self.site.tile && !whole {
            return None;
        }
        let sum = format!("{pool}({x}, 0, lax.add, {})", window(&pads));
        if whole {
            let count: i64 = kernel.iter().product();
            return Some(format!("{sum} / {count}"));
        }
        if counted {
            return None;
        }
        let ones = format!("jnp.ones_like({x})");
        Some(format!(
            "{sum} / {pool}({ones}, 0, lax.add, {})",
            window(&pads)
        ))
    }

    fn axes(&self) -> Option<Vec<usize>> {
        let rank = self.operand(0)?.rank();
        let Some(axes) = self.op().props.ints("axes") else {
            return Some((0..rank).collect());
        };
        let axis = |a: i64| usize::try_from(if a < 0 { a + rank as i64 } else { a }).ok();
        axes.into_iter().map(axis).collect()
    }

    fn reduce(&self) -> Option<String> {
        let (x, to) = (self.arg(0)?, self.ty()?.dtype);
        let axes = tuple(self.axes()?);
        let keep = if self.flag("keepdims") {
            ", keepdims=True"
        } else {
            ""
        };
        let sum = |x: &str| {
            let (wide, narrow) = (wide(to), dtype(to));
            if wide == to {
                format!("jnp.sum({x}, axis={axes}{keep}, dtype={narrow})")
            } else {
                format!(
                    "jnp.sum({x}, axis={axes}{keep}, dtype={}).astype({narrow})",
                    dtype(wide)
                )
            }
        };
        let plain = |f: &str| format!("jnp.{f}({x}, axis={axes}{keep})");
        Some(match self.op().props.str("kind")? {
            "sum" => sum(x),
            "mean" if to.is_float() => plain("mean"),
            "max" => plain("max"),
            "min" => plain("min"),
            "prod" => plain("prod"),
            "l1" => sum(&format!("jnp.abs({x})")),
            "sum_square" => sum(&format!("{x} * {x}")),
            "l2" if to.is_float() => format!("jnp.sqrt({})", sum(&format!("{x} * {x}"))),
            "log_sum" => format!("jnp.log({})", sum(x)),
            "and" | "or" if keep.is_empty() => {
                let (function, start) = match self.op().props.str("kind")? {
                    "and" => ("lax.bitwise_and", -1),
                    _ => ("lax.bitwise_or", 0),
                };
                let start = format!("jnp.array({start}).astype({})", dtype(to));
                format!("lax.reduce({x}, {start}, {function}, {axes})")
            }
            "log_sum_exp" => format!("jax.nn.logsumexp({x}, axis={axes}{keep})"),
            _ => return None,
        })
    }

    fn arg_extreme(&self) -> Option<String> {
        if self.flag("select_last_index") {
            return None;
        }
        let axis = self.axis("axis", 0, self.operand(0)?.rank());
        let function = if self.op().name == "hbir.arg_max" {
            "argmax"
        } else {
            "argmin"
        };
        let keep = if self.flag("keepdims") {
            ", keepdims=True"
        } else {
            ""
        };
        let to = dtype(self.ty()?.dtype);
        Some(format!(
            "jnp.{function}({}, axis={axis}{keep}).astype({to})",
            self.arg(0)?
        ))
    }

    fn last_norm(&mut self) -> Option<String> {
        let rank = self.ty()?.rank();
        let axis = self.axis("axis", -1, rank);
        let epsilon = float(self.float("epsilon", 1e-5));
        let center = if self.op().name == "hbir.layer_norm" {
            "True"
        } else {
            "False"
        };
        let to = dtype(self.ty()?.dtype);
        let norm = self.helper("_norm");
        let axes = tuple(axis..rank);
        let mut text = format!("{norm}({}, {axes}, {epsilon}, {center})", self.arg(0)?);
        if let Some(scale) = self.arg(1) {
            text = format!("{text} * {scale}");
        }
        if let Some(bias) = self.arg(2) {
            text = format!("{text} + {bias}");
        }
        Some(if self.ty()?.dtype == DType::F32 {
            text
        } else {
            format!("({text}).astype({to})")
        })
    }

    /// A value of one element a channel, as it broadcasts.
    fn channel(&self, text: &str) -> Option<String> {
        let spatial = self.ty()?.rank().checked_sub(2)?;
        let ones = std::iter::repeat_n("1", spatial);
        Some(format!(
            "{text}.reshape{}",
            tuple(["-1"].into_iter().chain(ones))
        ))
    }

    fn batch_norm(&self) -> Option<String> {
        let of = |i: usize| self.channel(self.arg(i)?);
        let epsilon = float(self.float("epsilon", 1e-5));
        let (x, scale, bias, mean, variance) = (self.arg(0)?, of(1)?, of(2)?, of(3)?, of(4)?);
        let to = dtype(self.ty()?.dtype);
        let text = format!("({x} - {mean}) * lax.rsqrt({variance} + {epsilon}) * {scale} + {bias}");
        Some(if self.ty()?.dtype == DType::F32 {
            text
        } else {
            format!("({text}).astype({to})")
        })
    }

    fn channel_norm(&mut self, axes: Vec<usize>) -> Option<String> {
        let epsilon = float(self.float("epsilon", 1e-5));
        let norm = self.helper("_norm");
        let (scale, bias) = (self.channel(self.arg(1)?)?, self.channel(self.arg(2)?)?);
        let to = dtype(self.ty()?.dtype);
        let text = format!(
            "{norm}({}, {}, {epsilon}, True) * {scale} + {bias}",
            self.arg(0)?,
            tuple(axes)
        );
        Some(format!("({text}).astype({to})"))
    }

    fn group_norm(&mut self) -> Option<String> {
        let groups = self.int("num_groups", 1);
        let shape = self.site.operands.first()?.clone();
        let rank = shape.len();
        let channels = i64::try_from(*shape.get(1)?).ok()?;
        if groups < 1 || channels % groups != 0 {
            return None;
        }
        let inner: Vec<i64> = [i64::try_from(shape[0]).ok()?, groups, channels / groups]
            .into_iter()
            .chain(shape[2..].iter().map(|&n| n.cast_signed()))
            .collect();
        let epsilon = float(self.float("epsilon", 1e-5));
        let norm = self.helper("_norm");
        let (scale, bias) = (self.channel(self.arg(1)?)?, self.channel(self.arg(2)?)?);
        let to = dtype(self.ty()?.dtype);
        let x = self.arg(0)?;
        let normal = format!(
            "{norm}({x}.reshape{}, {}, {epsilon}, True).reshape{}",
            tuple(inner),
            tuple(2..=rank),
            tuple(shape)
        );
        Some(format!("({normal} * {scale} + {bias}).astype({to})"))
    }

    /// The whole slice; `None` where a bound is not a number.
    fn slice(&self) -> Option<String> {
        let rank = self.ty()?.rank();
        let list = |name: &str, default: i64| {
            let found = self.op().props.get(name);
            found.map_or(Some(vec![default; rank]), Attr::as_ints)
        };
        let (starts, limits, strides) =
            (list("starts", 0)?, list("limits", 0)?, list("strides", 1)?);
        let mut parts = Vec::with_capacity(rank);
        for d in 0..rank {
            let size = i64::try_from(*self.site.operands.first()?.get(d)?).ok()?;
            let count = i64::try_from(*self.site.results.first()?.get(d)?).ok()?;
            let (start, stride) = (starts[d], strides[d]);
            // On a tile the operand has what the slice takes, from its first element to its last.
            let full = self.operand(0)?.shape()?.get(d).copied()?.cast_signed();
            let all = self.ty()?.shape()?.get(d).copied()?.cast_signed();
            let (start, limit) = if self.site.tile && (size != full || count != all) {
                let reach = (count - 1) * stride.abs() + 1;
                if reach != size {
                    return None;
                }
                (
                    if stride < 0 { size - 1 } else { 0 },
                    if stride < 0 { -1 } else { size },
                )
            } else {
                let last = if start == i64::MAX { size - 1 } else { start };
                (
                    last,
                    if limits[d] == i64::MAX {
                        size
                    } else {
                        limits[d]
                    },
                )
            };
            parts.push(match (start, limit, stride) {
                (0, n, 1) if n == size => ":".to_owned(),
                (0, n, s) if n == size => format!("::{s}"),
                (a, b, 1) => format!("{a}:{b}"),
                (a, -1, s) => format!("{a}::{s}"),
                (a, b, s) => format!("{a}:{b}:{s}"),
            });
        }
        if parts.iter().all(|part| part == ":") {
            return Some(self.arg(0)?.to_owned());
        }
        Some(format!("{}[{}]", self.arg(0)?, parts.join(", ")))
    }

    fn split(&self) -> Option<Vec<String>> {
        let axis = self.axis("axis", 0, self.operand(0)?.rank());
        let x = self.arg(0)?;
        let mut start = 0;
        let mut all = Vec::new();
        for size in self.op().props.ints("sizes")? {
            let stop = start + size;
            all.push(format!(
                "lax.slice_in_dim({x}, {start}, {stop}, axis={axis})"
            ));
            start = stop;
        }
        Some(all)
    }

    fn top_k(&self) -> Option<Vec<String>> {
        let rank = self.operand(0)?.rank();
        let axis = self.axis("axis", -1, rank);
        let largest = self.op().props.get("largest").and_then(Attr::as_bool) != Some(false);
        if axis + 1 != rank || !largest {
            return None;
        }
        let k = self.op().props.int("k")?;
        let x = self.arg(0)?;
        let to = dtype(self.op().result(1).ok()?.dtype);
        Some(vec![
            format!("lax.top_k({x}, {k})[0]"),
            format!("lax.top_k({x}, {k})[1].astype({to})"),
        ])
    }

    fn pad(&self) -> Option<String> {
        let rank = self.ty()?.rank();
        let list = |name: &str| self.op().props.ints(name).unwrap_or_else(|| vec![0; rank]);
        let (low, high) = (list("low"), list("high"));
        let mode = self.op().props.str("mode").unwrap_or("constant");
        let pairs: Vec<(i64, i64)> = low.into_iter().zip(high).collect();
        let x = self.arg(0)?;
        let text = tuple(pairs.iter().map(|(a, b)| tuple([*a, *b])));
        match mode {
            "constant" => {
                let value = float(self.float("value", 0.0));
                let zero = format!("jnp.asarray({value}, {})", dtype(self.ty()?.dtype));
                let config = tuple(pairs.iter().map(|(a, b)| tuple([*a, *b, 0])));
                Some(format!("lax.pad({x}, {zero}, {config})"))
            }
            "reflect" | "edge" | "wrap" if pairs.iter().all(|(a, b)| 0 <= *a && 0 <= *b) => {
                Some(format!("jnp.pad({x}, {text}, mode=\"{mode}\")"))
            }
            _ => None,
        }
    }
}
