//! Helper functions that an emitted module contains if it uses them.

/// The helper functions: name and text.
pub(super) const HELPERS: &[(&str, &str)] = &[
    (
        "_cosh",
        r#"@triton.jit
def _cosh(x):
    """The hyperbolic cosine."""
    return (tl.exp(x) + tl.exp(-x)) * 0.5
"#,
    ),
    (
        "_cumprod",
        r#"def _cumprod(x, axis, exclusive, reverse):
    """Running products along an axis."""
    y = torch.flip(x, (axis,)) if reverse else x
    if exclusive:
        first = torch.ones_like(torch.narrow(y, axis, 0, 1))
        y = torch.cat([first, torch.narrow(y, axis, 0, y.shape[axis] - 1)], axis)
    y = torch.cumprod(y, axis).to(x.dtype)
    return torch.flip(y, (axis,)) if reverse else y
"#,
    ),
    (
        "_div",
        r#"def _div(a, b):
    """Quotients of integers towards 0; 0 where b is 0."""
    return torch.where(b == 0, 0, torch.div(a, torch.where(b == 0, 1, b), rounding_mode="trunc"))
"#,
    ),
    (
        "_empty",
        r#"def _empty(shape, dtype, device, order=None):
    """A tensor whose dimensions lie in memory in this order, outermost first."""
    if order is None:
        return torch.empty(shape, dtype=dtype, device=device)
    turned = torch.empty([shape[d] for d in order], dtype=dtype, device=device)
    return turned.permute([order.index(d) for d in range(len(shape))])
"#,
    ),
    (
        "_fmod",
        r#"@triton.jit
def _fmod(x, y):
    """The remainder with the sign of x."""
    q = x / y
    return x - tl.where(q < 0, tl.ceil(q), tl.floor(q)) * y
"#,
    ),
    (
        "_int_div",
        r#"@triton.jit
def _int_div(a, b):
    """Quotients towards 0; 0 where b is 0."""
    return tl.where(b == 0, 0, a // tl.where(b == 0, 1, b))
"#,
    ),
    (
        "_int_rem",
        r#"@triton.jit
def _int_rem(a, b):
    """Remainders with the sign of a; 0 where b is 0."""
    return tl.where(b == 0, 0, a % tl.where(b == 0, 1, b))
"#,
    ),
    (
        "_norm",
        r#"def _norm(x, dims, epsilon, center):
    """x without its mean if it is centered, over the root of the mean of squares."""
    x = x.to(torch.float32)
    if center:
        x = x - torch.mean(x, dims, True)
    return x * torch.rsqrt(torch.mean(x * x, dims, True) + epsilon)
"#,
    ),
    (
        "_pad",
        r#"def _pad(x, amounts, mode):
    """Elements of x around x: its ends (edge), its mirror image (reflect), or x again (wrap)."""
    for axis, (low, high) in enumerate(amounts):
        n = x.shape[axis]
        place = {
            "edge": lambda i: min(max(i, 0), n - 1),
            "reflect": lambda i: n - 1 - abs(n - 1 - abs(i) % max(2 * n - 2, 1)),
            "wrap": lambda i: i % n,
        }[mode]
        if low or high:
            places = [place(i) for i in range(-low, n + high)]
            x = torch.index_select(x, axis, torch.tensor(places, device=x.device))
    return x
"#,
    ),
    (
        "_pow",
        r#"@triton.jit
def _pow(x, y):
    """Powers; a number below 0 has those of whole exponents."""
    size = tl.exp(y * tl.log(tl.abs(x)))
    whole = tl.floor(y) == y
    odd = tl.floor(y * 0.5) * 2.0 != y
    below = tl.where(whole, tl.where(odd, -size, size), float("nan"))
    return tl.where(y == 0.0, 1.0, tl.where(x < 0.0, below, size))
"#,
    ),
    (
        "_rem",
        r#"def _rem(a, b):
    """Remainders of integers with the sign of a; 0 where b is 0."""
    return torch.where(b == 0, 0, torch.fmod(a, torch.where(b == 0, 1, b)))
"#,
    ),
    (
        "_resize",
        r#"def _resize(x, axis, columns):
    """Weighted sums of elements along an axis: for each tap its places and weights."""
    shape = [1] * x.dim()
    shape[axis] = -1
    total = None
    for places, weights in columns:
        part = torch.index_select(x, axis, torch.tensor(places, device=x.device))
        part = part * torch.tensor(weights, dtype=x.dtype, device=x.device).reshape(shape)
        total = part if total is None else total + part
    return total
"#,
    ),
    (
        "_rotary",
        r#"def _rotary(x, cos, sin, positions, axis, size, interleaved):
    """Pairs of elements turned by angles: x is [B, _, _, D], with the sequence along the axis."""
    if positions is not None:
        cos, sin = cos[positions], sin[positions]
    cos, sin = cos.unsqueeze(3 - axis), sin.unsqueeze(3 - axis)
    turned = x[..., :size]
    if interleaved:
        a, b = turned[..., ::2], turned[..., 1::2]
        both = torch.stack([cos * a - sin * b, sin * a + cos * b], -1).reshape(turned.shape)
    else:
        a, b = turned[..., :size // 2], turned[..., size // 2:]
        both = torch.cat([cos * a - sin * b, sin * a + cos * b], -1)
    return torch.cat([both, x[..., size:]], -1).to(x.dtype)
"#,
    ),
    (
        "_round",
        r#"@triton.jit
def _round(x):
    """The nearest integer, ties to even."""
    x = x.to(tl.float32)
    near = (x + 12582912.0) - 12582912.0
    return tl.where(tl.abs(x) < 4194304.0, near, x)
"#,
    ),
    (
        "_shift_left",
        r#"def _shift_left(x, y, bits):
    """x times two to the power of y; 0 if y is no position of a bit."""
    return torch.where((0 <= y) & (y < bits), torch.bitwise_left_shift(x, torch.clamp(y, 0, bits - 1)), 0)
"#,
    ),
    (
        "_shift_right",
        r#"def _shift_right(x, y, bits):
    """x divided by two to the power of y, rounded down; the sign alone if y is no position of a bit."""
    return torch.bitwise_right_shift(x, torch.where((y < 0) | (bits <= y), bits - 1, y))
"#,
    ),
    (
        "_sinh",
        r#"@triton.jit
def _sinh(x):
    """The hyperbolic sine."""
    return (tl.exp(x) - tl.exp(-x)) * 0.5
"#,
    ),
    (
        "_tanh",
        r#"@triton.jit
def _tanh(x):
    """The hyperbolic tangent."""
    small = tl.exp(-2.0 * tl.abs(x))
    size = (1.0 - small) / (1.0 + small)
    return tl.where(x < 0.0, -size, size)
"#,
    ),
    (
        "_times",
        r#"@triton.jit
def _times(a, b):
    """The product of two elements of a reduction."""
    return a * b
"#,
    ),
    (
        "_update",
        r#"def _update(x, update, starts):
    """A copy of x with an update at a place, which is moved so that the update fits."""
    y = x.clone()
    places = [min(max(int(s), 0), n - m) for s, n, m in zip(starts, x.shape, update.shape)]
    y[tuple(slice(p, p + m) for p, m in zip(places, update.shape))] = update
    return y
"#,
    ),
];
