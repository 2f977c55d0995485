//! Functions that an emitted module brings along where it uses them.

/// One function: its name and its text.
pub(super) const HELPERS: &[(&str, &str)] = &[
    (
        "_conv",
        r#"def _conv(x, w, strides, pads, dilations, groups, dtype):
    """A convolution of N C spatial by O C/groups spatial weights."""
    spatial = "DHW"[3 - len(strides):]
    dims = ("NC" + spatial, "OI" + spatial, "NC" + spatial)
    wide = jnp.promote_types(x.dtype, jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else dtype
    y = lax.conv_general_dilated(
        x.astype(wide), w.astype(wide), strides, pads, rhs_dilation=dilations,
        dimension_numbers=dims, feature_group_count=groups, precision=lax.Precision.HIGHEST)
    return y.astype(dtype)
"#,
    ),
    (
        "_cumsum",
        r#"def _cumsum(x, axis, exclusive, reverse):
    """Running sums along an axis."""
    y = jnp.flip(x, axis) if reverse else x
    y = jnp.cumsum(y, axis=axis, dtype=x.dtype)
    if exclusive:
        ends = [(0, 0)] * x.ndim
        ends[axis] = (1, 0)
        y = lax.slice_in_dim(jnp.pad(y, ends), 0, x.shape[axis], axis=axis)
    return jnp.flip(y, axis) if reverse else y
"#,
    ),
    (
        "_element_places",
        r#"def _element_places(i, axis):
    """All coordinates of indices that name places along an axis."""
    places = list(jnp.indices(i.shape, sparse=True))
    places[axis] = i
    return tuple(places)
"#,
    ),
    (
        "_gather_nd",
        r#"def _gather_nd(x, i, batch):
    """The parts of x at coordinates in the last dimension of i, behind shared leading dimensions."""
    if batch:
        return jax.vmap(lambda x, i: _gather_nd(x, i, batch - 1))(x, i)
    return x[tuple(jnp.moveaxis(i, -1, 0))]
"#,
    ),
    (
        "_gelu",
        r#"def _gelu(x):
    """x times the normal distribution's Phi(x)."""
    return 0.5 * x * (1.0 + lax.erf(x * 0.7071067811865476))
"#,
    ),
    (
        "_inside",
        r#"def _inside(x, fill, *dims):
    """x, with fill where an index lies outside of its array: (dimension, first index, extent)."""
    for dim, start, size in dims:
        at = start + lax.broadcasted_iota(jnp.int32, x.shape, dim)
        x = jnp.where((0 <= at) & (at < size), x, jnp.asarray(fill, x.dtype))
    return x
"#,
    ),
    (
        "_int_div",
        r#"def _int_div(a, b):
    """Quotients towards 0; 0 where b is 0."""
    a, b = jnp.broadcast_arrays(a, b)
    return jnp.where(b == 0, 0, lax.div(a, jnp.where(b == 0, 1, b)))
"#,
    ),
    (
        "_joined",
        r#"def _joined(axis, start, *parts):
    """A part of arrays behind one another, from start on: (values, first index, end) of each array."""
    y = parts[0][0]
    at = start + lax.broadcasted_iota(jnp.int32, y.shape, axis)
    for x, low, high in parts[1:]:
        y = jnp.where((low <= at) & (at < high), x, y)
    return y
"#,
    ),
    (
        "_norm",
        r#"def _norm(x, axes, epsilon, center):
    """x without its mean (with center) over the root of its mean square along axes."""
    x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    if center:
        x = x - jnp.mean(x, axis=axes, keepdims=True)
    return x * lax.rsqrt(jnp.mean(x * x, axis=axes, keepdims=True) + epsilon)
"#,
    ),
    (
        "_parts",
        r#"def _parts(x, count, stride, size):
    """The first channels of each group of them."""
    return jnp.concatenate([x[:, i * stride:i * stride + size] for i in range(count)], axis=1)
"#,
    ),
    (
        "_pool",
        r#"def _pool(x, start, combine, kernel, strides, pads, dilations):
    """The elements of each window combined; pads has a pair a spatial dimension."""
    lead = (1, 1)
    return lax.reduce_window(
        x, jnp.asarray(start, x.dtype), combine, lead + kernel, lead + strides,
        ((0, 0), (0, 0)) + pads, window_dilation=lead + dilations)
"#,
    ),
    (
        "_quantize",
        r#"def _quantize(x, scale, zero, dtype):
    """Floats as scaled integers, ties to even, saturated."""
    low, high = jnp.iinfo(dtype).min, jnp.iinfo(dtype).max
    y = jnp.round(x.astype(jnp.float32) / scale.astype(jnp.float32)) + zero.astype(jnp.float32)
    return jnp.clip(y, low, high).astype(dtype)
"#,
    ),
    (
        "_softmax",
        r#"def _softmax(x, axis):
    """Exponentials that sum to 1 along an axis."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    e = jnp.exp(wide - jnp.max(wide, axis=axis, keepdims=True))
    return (e / jnp.sum(e, axis=axis, keepdims=True)).astype(x.dtype)
"#,
    ),
];
