//! Helper functions that an emitted module contains if it uses them.

/// The helper functions: name and text.
pub(super) const HELPERS: &[(&str, &str)] = &[
    (
        "_acos",
        r#"def _acos(x):
    """The arc cosine, of which Mosaic has none."""
    return _atan2(jnp.sqrt((1 - x) * (1 + x)), x)
"#,
    ),
    (
        "_acosh",
        r#"def _acosh(x):
    """The inverse hyperbolic cosine."""
    return jnp.log(x + jnp.sqrt((x - 1) * (x + 1)))
"#,
    ),
    (
        "_along",
        r#"def _along(combine, x, axes, keepdims):
    """A reduction along one axis after the other, the last one first."""
    for axis in sorted(axes, reverse=True):
        x = combine(x, axis=axis, keepdims=keepdims)
    return x
"#,
    ),
    (
        "_asin",
        r#"def _asin(x):
    """The arc sine."""
    return _atan2(x, jnp.sqrt((1 - x) * (1 + x)))
"#,
    ),
    (
        "_asinh",
        r#"def _asinh(x):
    """The inverse hyperbolic sine, by the logarithm of 1 and a small number."""
    a = jnp.abs(x)
    return jnp.sign(x) * jnp.log1p(a + a * a / (1 + jnp.sqrt(a * a + 1)))
"#,
    ),
    (
        "_atan",
        r#"def _atan(x):
    """The arc tangent by a polynomial on [0, 0.42], to which larger numbers are turned."""
    a = jnp.abs(x)
    far, near = a > 2.414213562373095, a > 0.4142135623730950
    t = jnp.where(far, -1 / jnp.where(a == 0, 1, a), jnp.where(near, (a - 1) / (a + 1), a))
    start = jnp.where(far, jnp.full_like(a, 1.5707963267948966), jnp.where(near, jnp.full_like(a, 0.7853981633974483), a * 0))
    z = t * t
    p = ((8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1) * z - 3.33329491539e-1
    return jnp.sign(x) * (start + t + t * z * p)
"#,
    ),
    (
        "_atan2",
        r#"def _atan2(y, x):
    """The angle of a point."""
    turned = jnp.abs(y) > jnp.abs(x)
    over, under = jnp.where(turned, x, y), jnp.where(turned, y, x)
    angle = _atan(over / jnp.where(under == 0, 1, under))
    half = jnp.full_like(x, 1.5707963267948966)
    side = jnp.where(y < 0, -half, half)
    return jnp.where(turned, side - angle, jnp.where(x < 0, angle + 2 * side, angle))
"#,
    ),
    (
        "_atanh",
        r#"def _atanh(x):
    """The inverse hyperbolic tangent."""
    return 0.5 * (jnp.log1p(x) - jnp.log1p(-x))
"#,
    ),
    (
        "_cbrt",
        r#"def _cbrt(x):
    """The cube root, with one step of Newton's method."""
    a = jnp.abs(x)
    y = jnp.exp(jnp.log(jnp.where(a == 0, 1, a)) / 3)
    y = y - (y * y * y - a) / (3 * y * y)
    return jnp.where(a == 0, x, jnp.sign(x) * y)
"#,
    ),
    (
        "_column",
        r#"def _column(x, units):
    """Numbers in lanes, turned to be matrices of their own: [.., n] becomes [.., n, 1], with as many units."""
    n = x.shape[-1]
    rows = x.reshape((x.size // n, n))
    turn = lambda row: lax.slice_in_dim(jnp.broadcast_to(row, (8, n)).T, 0, 1, axis=1).reshape((n,) + (1,) * units)
    columns = [turn(lax.slice_in_dim(rows, i, i + 1, axis=0)) for i in range(x.size // n)]
    return jnp.stack(columns).reshape(x.shape + (1,) * units)
"#,
    ),
    (
        "_conv",
        r#"def _conv(x, w, strides, pads, dilations, groups, precision, dtype):
    """A convolution of N C spatial by O C/groups spatial weights."""
    spatial = "DHW"[3 - len(strides):]
    dims = ("NC" + spatial, "OI" + spatial, "NC" + spatial)
    wide = jnp.promote_types(x.dtype, jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else dtype
    y = lax.conv_general_dilated(
        x.astype(wide), w.astype(wide), strides, pads, rhs_dilation=dilations,
        dimension_numbers=dims, feature_group_count=groups, precision=precision)
    return y.astype(dtype)
"#,
    ),
    (
        "_conv_transposed",
        r#"def _conv_transposed(x, w, strides, pads, dilations, groups, precision, dtype):
    """A transposed convolution of N C spatial by C O/groups spatial weights."""
    spatial = "DHW"[3 - len(strides):]
    dims = ("NC" + spatial, "OI" + spatial, "NC" + spatial)
    wide = jnp.promote_types(x.dtype, jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else dtype
    w = w.reshape((groups, -1) + w.shape[1:]).swapaxes(1, 2)
    w = jnp.flip(w.reshape((-1,) + w.shape[2:]), range(2, 2 + len(strides)))
    y = lax.conv_general_dilated(
        x.astype(wide), w.astype(wide), (1,) * len(strides), pads, lhs_dilation=strides, rhs_dilation=dilations,
        dimension_numbers=dims, feature_group_count=groups, precision=precision)
    return y.astype(dtype)
"#,
    ),
    (
        "_cosh",
        r#"def _cosh(x):
    """The hyperbolic cosine."""
    y = jnp.exp(0.5 * jnp.abs(x))
    return 0.5 * y * y + 0.5 / y / y
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
        "_dot",
        r#"def _dot(a, b, dims, **sums):
    """A product with at most one batch dimension, as a matrix unit takes it: batch dimensions are merged, matrices of
    several dimensions of columns lie side by side, and of several contracted dimensions all but the last are added up."""
    (lhs, rhs), (lhs_batch, rhs_batch) = dims
    used = ((a, lhs + lhs_batch), (b, rhs + rhs_batch))
    rows, columns = (tuple(d for d in range(x.ndim) if d not in others) for x, others in used)
    if not (rows and columns and lhs):
        return lax.dot_general(a, b, dims, **sums)

    def turned(x, *parts):
        perm = tuple(d for part in parts for d in part if x.shape[d] != 1)
        kept = tuple(sorted(perm))
        x = x.reshape(tuple(x.shape[d] for d in kept))
        return x if perm == kept else jnp.transpose(x, tuple(kept.index(d) for d in perm))

    batch, outer, rest = (tuple(a.shape[d] for d in part) for part in (lhs_batch, lhs[:-1], rows))
    side, terms, lanes = tuple(b.shape[d] for d in columns[:-1]), b.shape[rhs[-1]], b.shape[columns[-1]]
    count = math.prod(batch + outer)
    a = turned(a, lhs_batch, lhs[:-1], rows, lhs[-1:]).reshape(count, math.prod(rest), terms)
    if not side and rhs[-1] == b.ndim - 1:
        b = turned(b, rhs_batch, rhs[:-1], columns, rhs[-1:]).reshape(count, lanes, terms)
        y = lax.dot_general(a, b, (((2,), (2,)), ((0,), (0,))), **sums)
    else:
        b = turned(b, rhs_batch, rhs[:-1], columns[:-1], rhs[-1:], columns[-1:])
        b = _merge_lanes(b.reshape(count, math.prod(side), terms, lanes)) if side else b.reshape(count, terms, lanes)
        y = lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,))), **sums)
    if outer:
        y = jnp.sum(y.reshape(math.prod(batch), math.prod(outer), *y.shape[1:]), axis=1)
    if side:
        y = _split_lanes(y, lanes).reshape(math.prod(batch), math.prod(side), math.prod(rest), lanes)
        y = turned(y, (0, 2, 1, 3))
    return y.reshape(batch + rest + side + (lanes,))
"#,
    ),
    (
        "_edges",
        r#"def _edges(x, amounts, mode):
    """x with edges that repeat its last elements, mirror it or continue it from the other side."""
    for axis, (low, high) in enumerate(amounts):
        size, at = x.shape[axis], lambda i: lax.slice_in_dim(x, i, i + 1, axis=axis)
        places = {"edge": lambda i: min(max(i, 0), size - 1), "wrap": lambda i: i % size}
        mirror = lambda i: abs((i + size - 1) % (2 * size - 2) - size + 1) if size > 1 else 0
        place = places.get(mode, mirror)
        before, behind = [at(place(i)) for i in range(-low, 0)], [at(place(i)) for i in range(size, size + high)]
        x = jnp.concatenate(before + [x] + behind, axis=axis)
    return x
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
        "_erf",
        r#"def _erf(x):
    """The error function by a quotient of polynomials, to 1e-6."""
    end = jnp.float32(3.832506856900711)
    wide = lax.clamp(-end, x.astype(jnp.float32), end)
    y = wide * wide
    p = 0.00022905065861350646
    for c in (0.0034082910107109506, 0.050955695062380861, 0.18520832239976145, 1.128379143519084):
        p = p * y + c
    q = -1.1791602954361697e-7
    for c in (2.3547966471313185e-5, 0.0010179625278914885, 0.014070470171167667, 0.11098505178285362, 0.49746925110067538, 1.0):
        q = q * y + c
    return (wide * p / q).astype(x.dtype)
"#,
    ),
    (
        "_erfc",
        r#"def _erfc(x):
    """1 less the error function."""
    return 1 - _erf(x)
"#,
    ),
    (
        "_expm1",
        r#"def _expm1(x):
    """An exponential less 1, by the tangent where it is small."""
    t = jnp.tanh(0.5 * lax.clamp(jnp.float32(-1), x, jnp.float32(1)))
    return jnp.where(jnp.abs(x) < 1, 2 * t / (1 - t), jnp.exp(x) - 1)
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
        "_kept",
        r#"def _kept(memory, x, *index):
    """A part of x, which is written to memory for this."""
    memory[...] = x
    return memory[index]
"#,
    ),
    (
        "_matmul",
        r#"def _matmul(a, b, **sums):
    """Products of matrices with at most one batch dimension, as a matrix unit takes it."""
    lead = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    count = math.prod(lead)
    if count == math.prod(a.shape[:-2]) and math.prod(b.shape[:-2]) == 1:
        rows = a.reshape(((count,) if count != 1 else ()) + a.shape[-2:])
        y = lax.dot_general(rows, b.reshape(b.shape[-2:]), (((rows.ndim - 1,), (0,)), ((), ())), **sums)
    else:
        a, b = (jnp.broadcast_to(x, lead + x.shape[-2:]).reshape((count,) + x.shape[-2:]) for x in (a, b))
        y = lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,))), **sums)
    return y.reshape(lead + y.shape[-2:])
"#,
    ),
    (
        "_merge_lanes",
        r#"def _merge_lanes(x):
    """Matrices side by side: [.., n, rows, lanes] becomes [.., rows, n * lanes]."""
    axis = x.ndim - 3
    parts = [lax.index_in_dim(x, i, axis=axis, keepdims=False) for i in range(x.shape[axis])]
    return jnp.concatenate(parts, axis=-1)
"#,
    ),
    (
        "_norm",
        r#"def _norm(x, axes, epsilon, center):
    """x without its mean (with center) over the root of its mean square along axes."""
    shape, last = x.shape, axes == (x.ndim - 1,)
    x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    if last:
        # Mosaic does not repeat the mean of a single row in every layout that the row may have; eight rows are its tile.
        rows = tuple(n for n in shape[:-1] if n != 1) or (1,)
        x = x.reshape(rows + shape[-1:])
        x = jnp.broadcast_to(x, (8,) + shape[-1:]) if rows == (1,) else x
        axes = (x.ndim - 1,)

    def mean(x):
        for axis in reversed(axes):
            x = jnp.mean(x, axis=axis, keepdims=True)
        return x

    if center:
        x = x - mean(x)
    x = x * lax.rsqrt(mean(x * x) + epsilon)
    return (lax.slice_in_dim(x, 0, 1, axis=0) if last and rows == (1,) else x).reshape(shape)
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
        "_product",
        r#"def _product(x, axis, keepdims):
    """The product along an axis, of halves of it."""
    while x.shape[axis] > 1:
        half = x.shape[axis] // 2
        y = lax.slice_in_dim(x, 0, half, axis=axis) * lax.slice_in_dim(x, half, 2 * half, axis=axis)
        rest = [lax.slice_in_dim(x, i, i + 1, axis=axis) for i in range(2 * half, x.shape[axis])]
        x = jnp.concatenate([y] + rest, axis=axis)
    return x if keepdims else jnp.max(x, axis=axis)
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
        "_repeated",
        r#"def _repeated(x, repeats):
    """Copies of x behind one another, so many along each dimension."""
    for axis, count in enumerate(repeats):
        x = jnp.concatenate([x] * count, axis=axis) if count != 1 else x
    return x
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
        "_running",
        r#"def _running(combine, neutral, x, axis, exclusive, reverse):
    """Running sums or products along an axis, of which the distance of what is combined doubles."""
    def shifted(x, by):
        ends = lax.broadcast(jnp.asarray(neutral, x.dtype), x.shape[:axis] + (by,) + x.shape[axis + 1:])
        keep = lax.slice_in_dim(x, by, None, axis=axis) if reverse else lax.slice_in_dim(x, 0, -by, axis=axis)
        return jnp.concatenate([keep, ends] if reverse else [ends, keep], axis=axis)
    by = 1
    while by < x.shape[axis]:
        x, by = combine(x, shifted(x, by)), 2 * by
    return shifted(x, 1) if exclusive else x
"#,
    ),
    (
        "_sinh",
        r#"def _sinh(x):
    """The hyperbolic sine."""
    small = _expm1(lax.clamp(jnp.float32(-1), x, jnp.float32(1)))
    y = jnp.exp(0.5 * jnp.abs(x))
    return jnp.where(jnp.abs(x) < 1, 0.5 * (small + small / (small + 1)), jnp.sign(x) * (0.5 * y * y - 0.5 / y / y))
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
    (
        "_split_lanes",
        r#"def _split_lanes(x, lanes):
    """Parts of the last dimension behind one another: [.., rows, n * lanes] becomes [.., n, rows, lanes]."""
    shape = x.shape[:-2] + (1, x.shape[-2], lanes)
    parts = [lax.slice_in_dim(x, i, i + lanes, axis=-1) for i in range(0, x.shape[-1], lanes)]
    return jnp.concatenate([part.reshape(shape) for part in parts], axis=-3)
"#,
    ),
    (
        "_strided",
        r#"def _strided(x, axis, start, count, stride):
    """Every so many elements along an axis: the first ones of groups, or single ones backwards."""
    if stride == 1:
        return x if (start, count) == (0, x.shape[axis]) else lax.slice_in_dim(x, start, start + count, axis=axis)
    if stride < 0:
        parts = [lax.slice_in_dim(x, i, i + 1, axis=axis) for i in range(start, start + count * stride, stride)]
        return jnp.concatenate(parts, axis=axis)
    x = lax.slice_in_dim(x, start, min(start + count * stride, x.shape[axis]), axis=axis)
    short = count * stride - x.shape[axis]
    if short:
        x = _widened(x, [(0, short) if d == axis else (0, 0) for d in range(x.ndim)])
    groups = x.reshape(x.shape[:axis] + (count, stride) + x.shape[axis + 1:])
    return lax.index_in_dim(groups, 0, axis=axis + 1, keepdims=False)
"#,
    ),
    (
        "_where",
        r#"def _where(condition, a, b):
    """A selection; truth values are repeated as integers, as Mosaic repeats no others."""
    shape = jnp.broadcast_shapes(jnp.shape(condition), jnp.shape(a), jnp.shape(b))
    if jnp.shape(condition) != shape:
        condition = jnp.broadcast_to(condition.astype(jnp.int32), shape) != 0
    return jnp.where(condition, a, b)
"#,
    ),
    (
        "_widened",
        r#"def _widened(x, amounts):
    """x with zeros of its own type at the ends of dimensions."""
    return lax.pad(x, jnp.zeros((), x.dtype), [(low, high, 0) for low, high in amounts])
"#,
    ),
];
