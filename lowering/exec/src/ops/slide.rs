//! Where the operands of a convolution lie, and how its kernel slides.

/// Along one spatial dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slide {
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    pub(crate) low: usize,
    /// Elements of the operand and of the result.
    pub(crate) input: usize,
    pub(crate) output: usize,
}

/// Where everything lies, with the groups as a dimension of its own: operand N G C spatial, weights G O C kernel, result N G O
/// spatial, bias as the result.
pub(crate) struct Places {
    pub(crate) base: [i64; 4],
    pub(crate) tables: [Vec<Vec<i64>>; 4],
    pub(crate) slides: Vec<Slide>,
}

impl Slide {
    /// The element that a position of the kernel reads for a place of the result, if there is one.
    #[inline(always)]
    pub(crate) fn reads(&self, place: usize, kernel: usize) -> Option<usize> {
        let at = place * self.stride + kernel * self.dilation;
        at.checked_sub(self.low).filter(|&i| i < self.input)
    }
}

/// The step of offsets that go on evenly.
pub(crate) fn step(table: &[i64]) -> Option<i64> {
    let step = table.get(1).copied().unwrap_or(0);
    let even = table
        .iter()
        .enumerate()
        .all(|(i, &offset)| offset == step * i as i64);
    even.then_some(step)
}

/// The least and the greatest sum of a base and an offset of each table.
pub(crate) fn reach(base: i64, tables: &[Vec<i64>]) -> (i64, i64) {
    tables.iter().fold((base, base), |(low, high), table| {
        let (least, most) = (table.iter().min(), table.iter().max());
        (
            low + least.copied().unwrap_or(0),
            high + most.copied().unwrap_or(0),
        )
    })
}
