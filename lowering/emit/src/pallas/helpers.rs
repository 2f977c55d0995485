//! Helper functions that an emitted module contains if it uses them.

/// The helper functions: name and text.
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
        "_conv_transposed",
        r#"def _conv_transposed(x, w, strides, pads, dilations, groups, dtype):
    """A transposed convolution of N C spatial by C O/groups spatial weights."""
    spatial = "DHW"[3 - len(strides):]
    dims = ("NC" + spatial, "OI" + spatial, "NC" + spatial)
    wide = jnp.promote_types(x.dtype, jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else dtype
    w = w.reshape((groups, -1) + w.shape[1:]).swapaxes(1, 2)
    w = jnp.flip(w.reshape((-1,) + w.shape[2:]), range(2, 2 + len(strides)))
    y = lax.conv_general_dilated(
        x.astype(wide), w.astype(wide), (1,) * len(strides), pads, lhs_dilation=strides, rhs_dilation=dilations,
        dimension_numbers=dims, feature_group_count=groups, precision=lax.Precision.HIGHEST)
    return y.astype(dtype)
"#,
    ),
    (
        "_cumprod",
        r#"def _cumprod(x, axis, exclusive, reverse):
    """Running products along an axis."""
    y = jnp.flip(x, axis) if reverse else x
    y = jnp.cumprod(y, axis=axis, dtype=x.dtype)
    if exclusive:
        ends = [(0, 0)] * x.ndim
        ends[axis] = (1, 0)
        y = jnp.pad(y, ends, constant_values=1)
        y = lax.slice_in_dim(y, 0, x.shape[axis], axis=axis)
    return jnp.flip(y, axis) if reverse else y
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
        "_int_mod",
        r#"def _int_mod(a, b):
    """Remainders with the sign of b; 0 where b is 0."""
    return jnp.where(b == 0, 0, jnp.mod(a, jnp.where(b == 0, 1, b)))
"#,
    ),
    (
        "_int_pow",
        r#"def _int_pow(a, b):
    """Powers; a negative exponent truncates towards 0."""
    below = jnp.where(a == 1, 1, jnp.where(a == -1, jnp.where(b % 2 == 0, 1, -1), 0))
    return jnp.where(b < 0, below, jnp.power(a, jnp.maximum(b, 0))).astype(a.dtype)
"#,
    ),
    (
        "_int_rem",
        r#"def _int_rem(a, b):
    """Remainders with the sign of a; 0 where b is 0."""
    a, b = jnp.broadcast_arrays(a, b)
    return jnp.where(b == 0, 0, lax.rem(a, jnp.where(b == 0, 1, b)))
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
        "_resize",
        r#"def _resize(x, axis, taps):
    """Interpolation along an axis: lists of places, and of the weights of what lies there."""
    y, shape = 0, [-1 if d == axis else 1 for d in range(x.ndim)]
    for places, weights in taps:
        weights = np.array(weights, np.float32).reshape(shape)
        y = y + jnp.take(x, np.array(places), axis=axis).astype(jnp.float32) * weights
    return y
"#,
    ),
    (
        "_rotary",
        r#"def _rotary(x, cos, sin, positions, axis, size, interleaved):
    """Pairs of elements turned by angles: x is [B, _, _, D], with the sequence along the axis."""
    if positions is not None:
        cos, sin = cos[positions], sin[positions]
    cos, sin = jnp.expand_dims(cos, 3 - axis), jnp.expand_dims(sin, 3 - axis)
    turned = x[..., :size]
    pairs = turned.reshape(x.shape[:3] + ((size // 2, 2) if interleaved else (2, size // 2)))
    a, b = (pairs[..., 0], pairs[..., 1]) if interleaved else (pairs[..., 0, :], pairs[..., 1, :])
    both = jnp.stack([cos * a - sin * b, sin * a + cos * b], axis=-1 if interleaved else -2)
    return jnp.concatenate([both.reshape(turned.shape), x[..., size:]], axis=-1).astype(x.dtype)
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
