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

    /// The running combination of the elements of every line, from `first` on, in the layout of `x`. With `exclusive`
    /// each result leaves out its own element; with `reverse` the combination starts at the end.
    pub(crate) fn running<T: Copy>(
        &self,
        x: &[T],
        first: T,
        Direction { exclusive, reverse }: Direction,
        join: impl Fn(T, T) -> T,
    ) -> Vec<T> {
        let mut out = x.to_vec();
        for (start, step) in self.iter() {
            let mut so_far = first;
            for i in 0..self.n {
                let at = start + step * if reverse { self.n - 1 - i } else { i };
                let next = join(so_far, x[at]);
                out[at] = if exclusive { so_far } else { next };
                so_far = next;
            }
        }
        out
    }
}

/// The direction of a running combination along a line.
#[derive(Clone, Copy)]
pub(crate) struct Direction {
    /// True if each result leaves out its own element.
    pub(crate) exclusive: bool,
    /// True if the combination starts at the end.
    pub(crate) reverse: bool,
}
