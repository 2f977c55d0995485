//! The lines of a tensor along one axis.

/// The lines of a tensor along one axis.
pub(crate) struct Lanes {
    outer: usize,
    /// Elements of a line.
    pub(crate) n: usize,
    inner: usize,
}

impl Lanes {
    pub(crate) fn new(shape: &[usize], axis: usize) -> Lanes {
        let outer = shape[..axis].iter().product();
        let inner = shape[axis + 1..].iter().product();
        Lanes {
            outer,
            n: shape[axis],
            inner,
        }
    }
    /// The first element of every line and the step to the next, in row-major order of the other
    /// dimensions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (n, inner) = (self.n, self.inner);
        (0..self.outer).flat_map(move |o| (0..inner).map(move |i| (o * n * inner + i, inner)))
    }
}
