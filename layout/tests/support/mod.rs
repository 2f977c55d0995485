//! Random tensors in every notation, each with a table of its offsets by definition.

/// A small generator with the same cases on every machine.
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator for a seed; different seeds give different cases.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678)
    }

    /// A number below `n`, which must not be zero.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// True with probability 1 in `n`.
    pub(crate) fn chance(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A permutation of `n` entries.
    pub(crate) fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut list: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            list.swap(i, self.below(i as u64 + 1) as usize);
        }
        list
    }
}

/// The text of a tensor and its meaning.
#[allow(dead_code, reason = "no test uses all of it")]
pub(crate) struct Case {
    /// `tensor<...>`
    pub(crate) text: String,
    /// Offset of every element in row-major order.
    pub(crate) table: Vec<u64>,
    /// Buffer size in elements.
    pub(crate) positions: u64,
    /// True if the notation is strided.
    pub(crate) strided: bool,
    /// Bits of an element.
    pub(crate) bits: u64,
    /// Memory space.
    pub(crate) space: u32,
}

/// A shape with at most `rank` dimensions up to `size` and at most `elements` elements.
pub(crate) fn random_shape(rng: &mut Rng, rank: u64, size: u64, elements: u64) -> Vec<u64> {
    loop {
        let n = rng.below(rank + 1);
        let shape: Vec<u64> = (0..n)
            .map(|_| match rng.below(12) {
                0 | 1 => 1,
                2 if rng.chance(6) => 0,
                _ => 1 + rng.below(size),
            })
            .collect();
        if shape.iter().product::<u64>() <= elements {
            return shape;
        }
    }
}

/// A random layout of a shape in any notation.
pub(crate) fn random_case(rng: &mut Rng, shape: &[u64]) -> Case {
    loop {
        let (encoding, layout, strided) = match rng.below(9) {
            0..=2 => block(rng, shape),
            3 | 4 => digits(rng, shape),
            5 | 6 => xla(rng, shape),
            7 => strided(rng, shape),
            _ => {
                let order = rng.permutation(shape.len());
                let axes = order
                    .iter()
                    .map(|&dim| (shape[dim], Part::dim(dim)))
                    .collect();
                (format!("order = {order:?}"), Physical::dense(axes), false)
            }
        };
        let Some(case) = finish(shape, &encoding, &layout, strided) else {
            continue;
        };
        return case;
    }
}

/// A value computed from the index: a dimension, or a step from other values.
#[derive(Clone)]
enum Part {
    Zero,
    Dim(usize),
    Div(Box<Part>, u64),
    Rem(Box<Part>, u64),
    /// `major * size + minor`
    Merge(Box<Part>, u64, Box<Part>),
    /// `stride * dim`, for strided layouts.
    Sum(Vec<i64>, i64),
}

impl Part {
    fn dim(dim: usize) -> Self {
        Part::Dim(dim)
    }

    fn at(&self, e: &[u64]) -> u64 {
        match self {
            Part::Zero => 0,
            Part::Dim(dim) => e[*dim],
            Part::Div(part, by) => part.at(e) / by,
            Part::Rem(part, by) => part.at(e) % by,
            Part::Merge(major, size, minor) => major.at(e) * size + minor.at(e),
            Part::Sum(strides, offset) => {
                let sum: i64 = strides.iter().zip(e).map(|(s, i)| s * *i as i64).sum();
                (sum + offset) as u64
            }
        }
    }
}

/// Extents and values of the physical array, major to minor.
struct Physical {
    axes: Vec<(u64, Part)>,
    tail: u64,
    bits: u64,
    space: u32,
}

impl Physical {
    /// A physical array without tail, in the main memory, with 8-bit elements.
    fn dense(axes: Vec<(u64, Part)>) -> Self {
        Self {
            axes,
            tail: 1,
            bits: 8,
            space: 0,
        }
    }

    /// A physical array that sometimes has another element width or memory space.
    fn placed(axes: Vec<(u64, Part)>, tail: u64, rng: &mut Rng) -> Self {
        let bits = if rng.chance(8) {
            [4, 16][rng.below(2) as usize]
        } else {
            8
        };
        let space = u32::from(rng.chance(8));
        Self {
            axes,
            tail,
            bits,
            space,
        }
    }
}

fn finish(shape: &[u64], encoding: &str, layout: &Physical, strided: bool) -> Option<Case> {
    let n: u64 = shape.iter().product();
    let product: u64 = layout.axes.iter().map(|(extent, _)| extent).product();
    let positions = if n == 0 {
        0
    } else {
        product.next_multiple_of(layout.tail)
    };
    if 60_000 < positions {
        return None;
    }
    let mut table = Vec::with_capacity(n as usize);
    for k in 0..n {
        let (mut e, mut rest) = (vec![0; shape.len()], k);
        for (index, size) in e.iter_mut().zip(shape).rev() {
            *index = rest % size;
            rest /= size;
        }
        table.push(
            layout
                .axes
                .iter()
                .fold(0, |p, (extent, part)| p * extent + part.at(&e)),
        );
    }
    let dims: String = shape.iter().map(|size| format!("{size}x")).collect();
    let text = format!("tensor<{dims}si8, {{{encoding}}}>");
    Some(Case {
        text,
        table,
        positions,
        strided,
        bits: layout.bits,
        space: layout.space,
    })
}

fn block(rng: &mut Rng, shape: &[u64]) -> (String, Physical, bool) {
    let rank = shape.len();
    let order = rng.permutation(rank);
    if rank == 0 {
        return ("order = []".to_owned(), Physical::dense(Vec::new()), false);
    }
    let levels = 1 + rng.below(3) as usize;
    let mut blocks: Vec<Vec<(u64, usize)>> = Vec::new();
    let mut may: Vec<usize> = (0..rank).collect();
    for level in 0..levels {
        let last = level + 1 == levels;
        let mut factors = Vec::new();
        let places = rng.permutation(may.len());
        let count = 1 + rng.below(may.len().min(3) as u64) as usize;
        for &place in places.iter().take(count) {
            let most = if rng.chance(3) { 9 } else { 4 };
            factors.push((1 + rng.below(most), may[place]));
        }
        if last && rng.chance(2) {
            let place = rng.below(factors.len() as u64 + 1) as usize;
            let dim = may[rng.below(may.len() as u64) as usize];
            factors.insert(place, (1 + rng.below(4), dim));
        }
        may = factors.iter().map(|&(_, dim)| dim).collect();
        may.sort_unstable();
        may.dedup();
        blocks.push(factors);
    }
    let inner: Option<Vec<Vec<usize>>> = rng
        .chance(3)
        .then(|| (1..levels).map(|_| rng.permutation(rank)).collect());
    let mut value: Vec<Part> = (0..rank).map(Part::dim).collect();
    let mut extent = shape.to_vec();
    let mut axes = Vec::new();
    for (level, factors) in blocks.iter().enumerate() {
        let size = |dim: usize| {
            factors
                .iter()
                .filter(|f| f.1 == dim)
                .map(|f| f.0)
                .product::<u64>()
        };
        let outer: Vec<usize> = match (level, &inner) {
            (0, _) => order.clone(),
            (_, Some(orders)) => orders[level - 1].clone(),
            (_, None) => blocks[level - 1].iter().map(|f| f.1).collect(),
        };
        for dim in outer {
            let part = Part::Div(Box::new(value[dim].clone()), size(dim));
            axes.push((extent[dim].div_ceil(size(dim)), part));
        }
        for dim in 0..rank {
            value[dim] = Part::Rem(Box::new(value[dim].clone()), size(dim));
            extent[dim] = size(dim);
        }
    }
    let last = blocks.last().expect("at least one level");
    for (i, &(extent, dim)) in last.iter().enumerate() {
        let below: u64 = last[i + 1..]
            .iter()
            .filter(|f| f.1 == dim)
            .map(|f| f.0)
            .product();
        let part = Part::Div(Box::new(value[dim].clone()), below);
        axes.push((extent, Part::Rem(Box::new(part), extent)));
    }
    (
        block_text(rng, rank, &blocks, &order, inner.as_deref()),
        Physical::dense(axes),
        false,
    )
}

fn block_text(
    rng: &mut Rng,
    rank: usize,
    blocks: &[Vec<(u64, usize)>],
    order: &[usize],
    inner: Option<&[Vec<usize>]>,
) -> String {
    let default = ["", "W", "HW", "HWC", "NHWC", "NDHWC"].get(rank).copied();
    let own = rng.chance(3);
    let letters = if own {
        &"zyxdA"[..rank.min(5)]
    } else {
        default.unwrap_or("")
    };
    let numbered = letters.len() != rank || !own && rng.chance(4);
    let factor = |&(extent, dim): &(u64, usize)| match numbered {
        true => format!("{extent}d{dim}"),
        false => format!("{extent}{}", &letters[dim..=dim]),
    };
    let space = if numbered { " " } else { "" };
    let level = |f: &Vec<(u64, usize)>| f.iter().map(factor).collect::<Vec<_>>().join(space);
    let block = blocks.iter().map(level).collect::<Vec<_>>().join("|");
    let axes = if own && !numbered {
        format!("axes = \"{letters}\", ")
    } else {
        String::new()
    };
    match inner {
        None => format!("{axes}block = \"{block}\", order = {order:?}"),
        Some(inner) => {
            let mut lists = vec![order.to_vec()];
            lists.extend(inner.iter().cloned());
            format!("{axes}block = \"{block}\", order = {lists:?}")
        }
    }
}

fn digits(rng: &mut Rng, shape: &[u64]) -> (String, Physical, bool) {
    let mut list: Vec<(u64, Part, String)> = Vec::new();
    let mut dim = 0;
    while dim < shape.len() {
        let stop = (dim
            + 1
            + if rng.chance(3) {
                1 + rng.below(2) as usize
            } else {
                0
            })
        .min(shape.len());
        let name = match stop - dim {
            1 => format!("d{dim}"),
            _ => format!(
                "({})",
                (dim..stop)
                    .map(|d| format!("d{d}"))
                    .collect::<Vec<_>>()
                    .join("*")
            ),
        };
        let merged = (dim + 1..stop).fold(Part::dim(dim), |major, d| {
            Part::Merge(Box::new(major), shape[d], Box::new(Part::dim(d)))
        });
        let mut domain: u64 = shape[dim..stop].iter().product();
        let (mut value, mut text) = (merged, name);
        while 1 < domain {
            let div = if rng.chance(2) {
                1
            } else {
                1 + rng.below(domain.min(6))
            };
            let pad = if rng.chance(3) { rng.below(3) } else { 0 };
            let extent = domain.div_ceil(div) + pad;
            let part = Part::Rem(Box::new(Part::Div(Box::new(value.clone()), div)), extent);
            let over = if div == 1 {
                String::new()
            } else {
                format!("/{div}")
            };
            list.push((extent, part, format!("{extent}:{text}{over}")));
            domain = div;
            if 1 < domain {
                value = Part::Rem(Box::new(value), div);
                text = format!("{text}%{div}");
            }
        }
        dim = stop;
    }
    if rng.chance(3) {
        let extent = 1 + rng.below(3);
        list.push((extent, Part::Zero, format!("{extent}:_")));
    }
    let order = rng.permutation(list.len());
    let tail = if rng.chance(8) { 1 + rng.below(7) } else { 1 };
    let texts: Vec<String> = order.iter().map(|&i| list[i].2.clone()).collect();
    let axes = order
        .iter()
        .map(|&i| (list[i].0, list[i].1.clone()))
        .collect();
    let tailed = if tail == 1 {
        String::new()
    } else {
        format!(", tail = {tail}")
    };
    let layout = Physical::placed(axes, tail, rng);
    let mut more = String::new();
    if layout.bits != 8 {
        more += &format!(", ebits = {}", layout.bits);
    }
    if layout.space != 0 {
        more += &format!(", space = {}", layout.space);
    }
    (
        format!("digits = \"{}\"{tailed}{more}", texts.join(" ")),
        layout,
        false,
    )
}

fn xla(rng: &mut Rng, shape: &[u64]) -> (String, Physical, bool) {
    let minor_to_major = rng.permutation(shape.len());
    let mut axes: Vec<(u64, Part)> = minor_to_major
        .iter()
        .rev()
        .map(|&dim| (shape[dim], Part::dim(dim)))
        .collect();
    let mut tiles = String::new();
    for _ in 0..rng.below(4) {
        let len = 1 + rng.below(3) as usize;
        let merge = rng.chance(3);
        let entries: Vec<Option<u64>> = (0..len)
            .map(|i| {
                let combined = merge && i + 1 < len && rng.chance(2);
                (!combined).then(|| 1 + rng.below(5))
            })
            .collect();
        while axes.len() < len {
            axes.insert(0, (1, Part::Zero));
        }
        let covered = axes.split_off(axes.len() - len);
        let mut inside = Vec::new();
        let mut carried: Option<(u64, Part)> = None;
        for (entry, (extent, part)) in entries.iter().zip(covered) {
            let (extent, part) = match carried.take() {
                None => (extent, part),
                Some((size, major)) => (
                    size * extent,
                    Part::Merge(Box::new(major), extent, Box::new(part)),
                ),
            };
            match entry {
                None => carried = Some((extent, part)),
                Some(t) => {
                    axes.push((extent.div_ceil(*t), Part::Div(Box::new(part.clone()), *t)));
                    inside.push((*t, Part::Rem(Box::new(part), *t)));
                }
            }
        }
        axes.extend(inside);
        let text: Vec<String> = entries
            .iter()
            .map(|t| t.map_or("*".to_owned(), |t| t.to_string()))
            .collect();
        tiles += &format!(
            "{}({})",
            if tiles.is_empty() { ":T" } else { "" },
            text.join(",")
        );
    }
    let tail = if rng.chance(10) { 1 + rng.below(7) } else { 1 };
    let layout = Physical::placed(axes, tail, rng);
    let bits = if layout.bits == 8 { 0 } else { layout.bits };
    for (letter, value, default) in [
        ("L", tail, 1),
        ("E", bits, 0),
        ("S", u64::from(layout.space), 0),
    ] {
        if value != default {
            tiles += &format!(
                "{}{letter}({value})",
                if tiles.is_empty() { ":" } else { "" }
            );
        }
    }
    let dims: Vec<String> = minor_to_major.iter().map(usize::to_string).collect();
    (
        format!("xla = \"{}{tiles}\"", dims.join(",")),
        layout,
        false,
    )
}

/// Strides with enough room for one another, so that no two elements share an offset.
fn strided(rng: &mut Rng, shape: &[u64]) -> (String, Physical, bool) {
    let mut strides = vec![1i64; shape.len()];
    let mut stride = 1 + if rng.chance(4) {
        rng.below(2) as i64
    } else {
        0
    };
    let mut offset = 0i64;
    for dim in rng.permutation(shape.len()) {
        let backwards = rng.chance(8);
        let last = shape[dim] as i64 - 1;
        strides[dim] = if backwards { -stride } else { stride };
        offset += if backwards { stride * last.max(0) } else { 0 };
        stride = stride * shape[dim].max(1) as i64
            + if rng.chance(4) {
                rng.below(3) as i64
            } else {
                0
            };
    }
    offset += if rng.chance(4) {
        rng.below(3) as i64
    } else {
        0
    };
    let high: i64 = shape
        .iter()
        .zip(&strides)
        .map(|(n, s)| s.max(&0) * (*n as i64 - 1))
        .sum();
    let size = offset
        + high
        + 1
        + if rng.chance(4) {
            rng.below(3) as i64
        } else {
            0
        };
    let n: u64 = shape.iter().product();
    let size = if n == 0 { 100 } else { size };
    let text = format!("offset = {offset}, size = {size}, strides = {strides:?}");
    let axes = vec![(size as u64, Part::Sum(strides, offset))];
    (text, Physical::dense(axes), true)
}
