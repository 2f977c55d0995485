//! Dots and convolutions. A convolution that is equivalent to a contraction becomes one: on some targets XLA writes
//! matrix products, batched ones too, as convolutions.
//!
//! For example, a convolution `bf01_oi01->bf01` of `f32[8,64,1,1]` and `f32[32,64,1,1]` is the contraction of 8x64 and
//! 32x64 over 64.

use super::elementwise::{fixed, retyped};
use super::func::FuncCx;
use crate::module::Instruction;
use optc_ir::{Attr, AttrDict, Dim, Size, TensorType, Type, Value};

/// One spatial dimension of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowDim {
    pub(crate) size: i64,
    pub(crate) stride: i64,
    pub(crate) low: i64,
    pub(crate) high: i64,
    pub(crate) base_dilation: i64,
    pub(crate) dilation: i64,
    pub(crate) reversed: bool,
}

/// Reads `{size=2x2 stride=1x1 pad=0_0x1_1}`; without a window there are no dimensions.
pub(crate) fn window(text: Option<&str>) -> Option<Vec<WindowDim>> {
    let inner = text
        .unwrap_or("{}")
        .trim()
        .strip_prefix('{')?
        .strip_suffix('}')?;
    let mut fields: Vec<(&str, &str)> = Vec::new();
    for field in inner.split_whitespace() {
        fields.push(field.split_once('=')?);
    }
    let get = |name: &str| fields.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
    let numbers = |name: &str| -> Option<Option<Vec<i64>>> {
        match get(name) {
            None => Some(None),
            Some(text) => text
                .split('x')
                .map(|n| n.parse().ok())
                .collect::<Option<_>>()
                .map(Some),
        }
    };
    let sizes = numbers("size")?.unwrap_or_default();
    let rank = sizes.len();
    let list = |name: &str, default: i64| {
        let given = numbers(name)?.unwrap_or_else(|| vec![default; rank]);
        (given.len() == rank).then_some(given)
    };
    let (strides, bases) = (list("stride", 1)?, list("lhs_dilate", 1)?);
    let (dilations, reversals) = (list("rhs_dilate", 1)?, list("rhs_reversal", 0)?);
    let pads = match get("pad") {
        None => vec![[0, 0, 0]; rank],
        Some(text) => crate::infer::padding(text)?,
    };
    let dim = |d: usize| {
        let [low, high, _] = *pads.get(d)?;
        Some(WindowDim {
            size: sizes[d],
            stride: strides[d],
            low,
            high,
            base_dilation: bases[d],
            dilation: dilations[d],
            reversed: reversals[d] != 0,
        })
    };
    (pads.len() == rank).then(|| (0..rank).map(dim).collect())?
}

/// The places of batch, feature and spatial dimensions.
struct Labels {
    /// Batch (or output feature), feature, then the spatial ones.
    lhs: Vec<usize>,
    rhs: Vec<usize>,
    out: Vec<usize>,
}

impl Labels {
    /// Reads `b01f_01io->b01f`.
    fn parse(text: &str) -> Option<Labels> {
        let (lhs, rest) = text.split_once('_')?;
        let (rhs, out) = rest.split_once("->")?;
        let places = |text: &str, first: char, second: char| {
            let spatial = text.len().checked_sub(2)?;
            let wanted = [first, second].into_iter().chain((0..spatial).map(digit));
            wanted.map(|c| text.find(c)).collect::<Option<Vec<usize>>>()
        };
        Some(Labels {
            lhs: places(lhs.trim(), 'b', 'f')?,
            rhs: places(rhs.trim(), 'o', 'i')?,
            out: places(out.trim(), 'b', 'f')?,
        })
    }
}

fn digit(n: usize) -> char {
    u32::try_from(n)
        .ok()
        .and_then(|n| char::from_digit(n, 10))
        .unwrap_or('?')
}

/// The greatest extent of a dimension that is checked index by index for use as a batch.
const MOST_BATCHES: i64 = 1 << 20;

/// The use of a spatial dimension in a contraction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// It is in operand and result: the window has one element.
    Left,
    /// It is in window and result: the operand has one element, which meets every window element once.
    Right,
    /// It is in operand and window: the window covers the whole operand once.
    Contracted,
    /// It is in all three: window element `i` meets only operand element `i`.
    Batch,
    /// It has one element everywhere.
    Unit,
}

impl WindowDim {
    /// A window of one element that moves by one.
    pub(crate) const ONE: WindowDim = WindowDim {
        size: 1,
        stride: 1,
        low: 0,
        high: 0,
        base_dilation: 1,
        dilation: 1,
        reversed: false,
    };

    /// The use of a dimension of these extents, and whether the window's elements run backwards.
    fn role(&self, operand: i64, result: i64) -> Option<(Use, bool)> {
        let plain = self.base_dilation == 1 && self.low == 0 && self.high == 0;
        if self.size == 1 && operand == 1 && result == 1 && plain {
            return Some((Use::Unit, false));
        }
        if self.size == 1 && self.stride == 1 && plain && operand == result {
            return Some((Use::Left, false));
        }
        if plain && self.dilation == 1 && self.size == operand && result == 1 {
            return Some((Use::Contracted, self.reversed));
        }
        let n = self.size;
        let full = self.low == n - 1 && self.high == n - 1 && self.stride == 1;
        if operand == 1 && result == n && full && self.dilation == 1 {
            // Result i meets the element at offset n - 1 - i of the window.
            return Some((Use::Right, !self.reversed));
        }
        if operand != n || result != n || !(2..=MOST_BATCHES).contains(&n) || self.dilation != 1 {
            return None;
        }
        let window: Vec<i64> = (0..n).map(|i| self.only(i, n)).collect::<Option<_>>()?;
        let forward = window.iter().copied().eq(0..n);
        let backward = window.iter().copied().eq((0..n).rev());
        (forward || backward).then_some((Use::Batch, forward == self.reversed))
    }

    /// The place of the window that meets operand element `i` if the window begins at result `i`. `None` if it meets
    /// another one of the operand's `n` elements.
    fn only(&self, i: i64, n: i64) -> Option<i64> {
        let start = i.checked_mul(self.stride)?.checked_sub(self.low)?;
        let end = start.checked_add(self.size)?.checked_sub(1)?;
        if self.base_dilation < 1 {
            return None;
        }
        let ceil = start.div_euclid(self.base_dilation)
            + i64::from(start.rem_euclid(self.base_dilation) != 0);
        let first = ceil.max(0);
        let last = end.div_euclid(self.base_dilation).min(n - 1);
        if first != i || last != i {
            return None;
        }
        i.checked_mul(self.base_dilation)?.checked_sub(start)
    }
}

impl FuncCx<'_, '_> {
    pub(super) fn dot(
        &mut self,
        made: &Instruction,
        a: Value,
        b: Value,
        ty: &TensorType,
    ) -> Option<Value> {
        let list = |name: &str| made.attrs.ints(name).unwrap_or_default();
        let mut props = AttrDict::new();
        for (key, name) in [
            ("lhs_batch", "lhs_batch_dims"),
            ("lhs_contract", "lhs_contracting_dims"),
            ("rhs_batch", "rhs_batch_dims"),
            ("rhs_contract", "rhs_contracting_dims"),
        ] {
            props.set(key, Attr::ints(&list(name)));
        }
        self.contraction(a, b, props, ty)
    }

    fn contraction(
        &mut self,
        a: Value,
        b: Value,
        mut props: AttrDict,
        ty: &TensorType,
    ) -> Option<Value> {
        let [a, b] = self.of_wider_type(a, b)?;
        if self.tensor_of(a)?.dtype != ty.dtype {
            props.set("to", Attr::Type(Type::Scalar(ty.dtype)));
        }
        self.emit_named("hbir.dot_general", &[a, b], props, ty.clone())
    }

    /// Two operands as elements of the wider one of their types.
    fn of_wider_type(&mut self, a: Value, b: Value) -> Option<[Value; 2]> {
        let (x, y) = (self.tensor_of(a)?, self.tensor_of(b)?);
        if x.dtype == y.dtype {
            return Some([a, b]);
        }
        let wide = match x.dtype.bits() < y.dtype.bits() {
            true => y.dtype,
            false => x.dtype,
        };
        let a = self.cast(a, &retyped(&x, wide))?;
        let b = self.cast(b, &retyped(&y, wide))?;
        Some([a, b])
    }

    pub(super) fn convolution(
        &mut self,
        made: &Instruction,
        x: Value,
        w: Value,
        ty: &TensorType,
    ) -> Option<Value> {
        let labels = Labels::parse(made.attrs.get("dim_labels")?)?;
        let window = window(made.attrs.get("window"))?;
        let groups = made.attrs.int("feature_group_count").unwrap_or(1);
        let fits = |places: &[usize], ty: &TensorType| {
            places.len() == ty.rank() && places.len() == window.len() + 2
        };
        let (xt, wt) = (self.tensor_of(x)?, self.tensor_of(w)?);
        if made.attrs.int("batch_group_count").unwrap_or(1) != 1
            || !fits(&labels.lhs, &xt)
            || !fits(&labels.rhs, &wt)
            || !fits(&labels.out, ty)
        {
            return None;
        }
        let before = self.b.func.body.len();
        if groups == 1
            && let Some(value) = self.conv_as_dot(&labels, &window, [x, w], ty)
        {
            return Some(value);
        }
        self.b.func.body.truncate(before);
        self.sliding(&labels, &window, groups, [x, w], ty)
    }

    /// A convolution as a dot, if every window meets each element at most once.
    fn conv_as_dot(
        &mut self,
        labels: &Labels,
        window: &[WindowDim],
        [x, mut w]: [Value; 2],
        ty: &TensorType,
    ) -> Option<Value> {
        let (xs, ys) = (self.tensor_of(x)?.shape()?, ty.shape()?);
        let extent = |shape: &[u64], place: usize| i64::try_from(shape[place]).ok();
        let mut uses = Vec::with_capacity(window.len());
        let mut backward = Vec::new();
        for (d, dim) in window.iter().enumerate() {
            let operand = extent(&xs, labels.lhs[d + 2])?;
            let result = extent(&ys, labels.out[d + 2])?;
            let (role, reversed) = dim.role(operand, result)?;
            if reversed && 1 < dim.size {
                backward.push(labels.rhs[d + 2]);
            }
            uses.push(role);
        }
        if !backward.is_empty() {
            let wt = self.tensor_of(w)?;
            w = self.reversed(w, &backward, &wt)?;
        }
        // Dimensions of one element without a use are dropped.
        let of = |role: Use, places: &[usize]| -> Vec<usize> {
            let list = uses.iter().enumerate().filter(|(_, u)| **u == role);
            list.map(|(d, _)| places[d + 2]).collect()
        };
        let dropped = |places: &[usize], roles: &[Use]| -> Vec<usize> {
            let list = uses.iter().enumerate().filter(|(_, u)| roles.contains(u));
            list.map(|(d, _)| places[d + 2]).collect()
        };
        let x_gone = dropped(&labels.lhs, &[Use::Unit, Use::Right]);
        let w_gone = dropped(&labels.rhs, &[Use::Unit, Use::Left]);
        let x_new = self.without(x, &x_gone)?;
        let w_new = self.without(w, &w_gone)?;
        let kept =
            |place: usize, gone: &[usize]| place - gone.iter().filter(|g| **g < place).count();
        let map = |places: Vec<usize>, gone: &[usize]| -> Vec<usize> {
            places.into_iter().map(|p| kept(p, gone)).collect()
        };
        let batch = [
            map(of(Use::Batch, &labels.lhs), &x_gone),
            map(of(Use::Batch, &labels.rhs), &w_gone),
        ];
        let mut contract = [
            of(Use::Contracted, &labels.lhs),
            of(Use::Contracted, &labels.rhs),
        ];
        contract[0].push(labels.lhs[1]);
        contract[1].push(labels.rhs[1]);
        let [left, right] = contract;
        let contract = [map(left, &x_gone), map(right, &w_gone)];
        // The places in the result, in the order of the contraction's dimensions.
        let mut order: Vec<usize> = of(Use::Batch, &labels.out);
        let mut free: Vec<(usize, usize)> = vec![(kept(labels.lhs[0], &x_gone), labels.out[0])];
        for (d, _) in uses.iter().enumerate().filter(|(_, u)| **u == Use::Left) {
            free.push((kept(labels.lhs[d + 2], &x_gone), labels.out[d + 2]));
        }
        free.sort_unstable();
        order.extend(free.iter().map(|(_, out)| *out));
        let mut free: Vec<(usize, usize)> = vec![(kept(labels.rhs[0], &w_gone), labels.out[1])];
        for (d, _) in uses.iter().enumerate().filter(|(_, u)| **u == Use::Right) {
            free.push((kept(labels.rhs[d + 2], &w_gone), labels.out[d + 2]));
        }
        free.sort_unstable();
        order.extend(free.iter().map(|(_, out)| *out));
        let mut props = AttrDict::new();
        for (i, side) in ["lhs", "rhs"].into_iter().enumerate() {
            props.set(&format!("{side}_batch"), Attr::ints(&batch[i]));
            props.set(&format!("{side}_contract"), Attr::ints(&contract[i]));
        }
        self.reordered(props, [x_new, w_new], &order, ty)
    }

    /// A contraction whose result dimension `i` is dimension `order[i]` of `ty`, in the layout of `ty`. The contraction
    /// writes the layout, and a view reorders the dimensions.
    fn reordered(
        &mut self,
        props: AttrDict,
        [a, b]: [Value; 2],
        order: &[usize],
        ty: &TensorType,
    ) -> Option<Value> {
        use optc_layout::{Notation, ViewMap, propagate};
        let shape = ty.shape()?;
        let own: Vec<u64> = order.iter().map(|&d| shape[d]).collect();
        let rank = shape.len();
        // From `ty` to the contraction's dimensions: units dropped, the rest in the contraction's order.
        let full: Vec<usize> = order
            .iter()
            .copied()
            .chain((0..rank).filter(|d| !order.contains(d)))
            .collect();
        let back = ViewMap {
            shape: None,
            perm: Some(full),
            result: own.clone(),
        };
        let notation = match propagate(&ty.layout()?.ok()?, &back) {
            Ok(layout) if layout.is_row_major() => Notation::RowMajor,
            Ok(layout) => layout.notation().clone(),
            Err(_) => Notation::RowMajor,
        };
        let inner = TensorType {
            dims: fixed(&own),
            dtype: ty.dtype,
            notation,
        };
        let value = self.contraction(a, b, props, &inner)?;
        let map = back.inverse(&shape).ok()?;
        if order.iter().copied().eq(0..rank) {
            return self.relaid(value, ty);
        }
        self.rearranged(value, &map, ty)
    }

    /// A value without these dimensions of one element.
    fn without(&mut self, x: Value, gone: &[usize]) -> Option<Value> {
        let shape = self.tensor_of(x)?.shape()?;
        let kept = shape.iter().enumerate().filter(|(d, _)| !gone.contains(d));
        let kept: Vec<u64> = kept.map(|(_, &n)| n).collect();
        self.reshaped(x, &kept)
    }

    /// A convolution as `hbir.conv`, with its operands viewed as batch, channels, spatial.
    fn sliding(
        &mut self,
        labels: &Labels,
        window: &[WindowDim],
        groups: i64,
        [x, w]: [Value; 2],
        ty: &TensorType,
    ) -> Option<Value> {
        let (x, window) = self.filled(x, &labels.lhs[2..], window, 0.0, |_| false)?;
        let mut w = w;
        let backward = window
            .iter()
            .enumerate()
            .filter(|(_, d)| d.reversed && 1 < d.size);
        let backward: Vec<usize> = backward.map(|(d, _)| labels.rhs[d + 2]).collect();
        if !backward.is_empty() {
            let wt = self.tensor_of(w)?;
            w = self.reversed(w, &backward, &wt)?;
        }
        let [x, w] = self.of_wider_type(x, w)?;
        let x = self.permuted(x, &labels.lhs)?;
        let w = self.permuted(w, &labels.rhs)?;
        let list = |f: fn(&WindowDim) -> i64| window.iter().map(f).collect::<Vec<i64>>();
        let pads = [list(|d| d.low), list(|d| d.high)].concat();
        let mut props = AttrDict::new()
            .with("strides", Attr::ints(&list(|d| d.stride)))
            .with("dilations", Attr::ints(&list(|d| d.dilation)))
            .with("pads", Attr::ints(&pads));
        if groups != 1 {
            props.set("group", Attr::int(groups));
        }
        if self.tensor_of(x)?.dtype != ty.dtype {
            props.set("to", Attr::Type(Type::Scalar(ty.dtype)));
        }
        self.seen_as("hbir.conv", &[x, w], props, &labels.out, ty)
    }

    /// The operand extended by the elements that a window sees between and around its own: those inserted by dilation,
    /// and the padding of a dimension if it cuts elements off or `all` is true. The remaining window is then plain in
    /// these dimensions. `places[d]` is the operand's dimension of window dimension `d`.
    pub(super) fn filled(
        &mut self,
        x: Value,
        places: &[usize],
        window: &[WindowDim],
        fill: f64,
        all: impl Fn(&WindowDim) -> bool,
    ) -> Option<(Value, Vec<WindowDim>)> {
        let rank = self.tensor_of(x)?.rank();
        let (mut gaps, mut low, mut high) = (vec![0; rank], vec![0; rank], vec![0; rank]);
        let mut plain = window.to_vec();
        for (dim, &place) in plain.iter_mut().zip(places) {
            *gaps.get_mut(place)? = dim.base_dilation.checked_sub(1)?;
            dim.base_dilation = 1;
            if dim.low < 0 || dim.high < 0 || all(dim) {
                (low[place], high[place]) = (dim.low, dim.high);
                (dim.low, dim.high) = (0, 0);
            }
        }
        let mut x = self.spaced(x, &gaps, fill)?;
        if low.iter().chain(&high).any(|&n| n != 0) {
            let from = self.tensor_of(x)?;
            let mut dims = Vec::with_capacity(rank);
            for ((dim, &low), &high) in from.dims.iter().zip(&low).zip(&high) {
                let around = i128::from(low.checked_add(high)?);
                dims.push(Dim::of_size(&dim.size()?.plus(&Size::constant(around))?));
            }
            x = self.padded(x, &low, &high, fill, TensorType::new(dims, from.dtype))?;
        }
        Some((x, plain))
    }

    /// An operation whose result dimension `i` is dimension `places[i]` of `ty`. It writes the layout of `ty`, and a
    /// view reorders the dimensions.
    pub(super) fn seen_as(
        &mut self,
        name: &str,
        args: &[Value],
        props: AttrDict,
        places: &[usize],
        ty: &TensorType,
    ) -> Option<Value> {
        use optc_layout::{Notation, ViewMap, propagate};
        let Some(shape) = ty.shape() else {
            let dims = places.iter().map(|&d| ty.dims[d].clone()).collect();
            let value = self.emit_named(name, args, props, TensorType::new(dims, ty.dtype))?;
            let mut back = vec![0; places.len()];
            for (i, &d) in places.iter().enumerate() {
                back[d] = i;
            }
            return self.permuted(value, &back);
        };
        let own: Vec<u64> = places.iter().map(|&d| shape[d]).collect();
        let there = ViewMap::transpose(&shape, places).ok()?;
        let notation = match propagate(&ty.layout()?.ok()?, &there) {
            Ok(layout) if layout.is_row_major() => Notation::RowMajor,
            Ok(layout) => layout.notation().clone(),
            Err(_) => Notation::RowMajor,
        };
        let inner = TensorType {
            dims: fixed(&own),
            dtype: ty.dtype,
            notation,
        };
        let value = self.emit_named(name, args, props, inner)?;
        let map = there.inverse(&shape).ok()?;
        self.rearranged(value, &map, ty)
    }
}
