//! Conversions between layouts on one thread with warm caches, as ratios to a copy of the same number of bytes in the
//! same rounds.
//!
//! `cargo bench -p optc-bench --bench conversion -- [--rounds=N] [--large] [--no-peers] [--isa=portable|avx2|avx512] [--ratios=FILE] [CASE…]`
//!
//! Each round runs every contender once, each after a copy. The result of a contender is its least processor time of
//! all rounds. The outputs of all contenders are compared first.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use cpu_time::ThreadTime;
use optc_exec::{ConversionOptions, ConversionPlan, Isa, Moved, Padding};
use optc_layout::notation::parse_tensor;
use optc_layout::{AffineBox, Layout, affine_boxes};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::time::Duration;
use strided_view::StridedView;

/// The least duration of a sample.
const SAMPLE: Duration = Duration::from_micros(400);

struct Case {
    name: &'static str,
    shape: Vec<u64>,
    target: Target,
    /// Ratios of a plain C prototype, a baseline for the kernels: for elements of 4, 2 and 1 bytes. Measured on a
    /// machine with 1 MB of L2 and 32 MB of L3 cache (Zen 5).
    prototype: [f64; 3],
}

enum Target {
    /// The dimensions of the source, major to minor in the target.
    Order(Vec<usize>),
    /// Tiles in XLA's notation.
    Tiles(&'static str),
}

fn order(name: &'static str, shape: &[u64], perm: &[usize], prototype: [f64; 3]) -> Case {
    Case {
        name,
        shape: shape.to_vec(),
        target: Target::Order(perm.to_vec()),
        prototype,
    }
}

fn tiles(name: &'static str, shape: &[u64], tiles: &'static str, prototype: [f64; 3]) -> Case {
    Case {
        name,
        shape: shape.to_vec(),
        target: Target::Tiles(tiles),
        prototype,
    }
}

#[rustfmt::skip]
fn cases(large: bool) -> Vec<Case> {
    let mut cases = vec![
        order("2d_4096", &[4096, 4096], &[1, 0], [0.39, 0.30, 0.19]),
        order("2d_1024", &[1024, 1024], &[1, 0], [0.16, 0.20, 0.41]),
        order("2d_1000x777", &[1000, 777], &[1, 0], [0.75, 0.66, 0.42]),
        order("small_64", &[64, 64], &[1, 0], [0.64, 0.54, 0.53]),
        order("bert_heads", &[384, 12, 64], &[1, 0, 2], [0.84, 0.60, 0.34]),
        order("attn_kT", &[384, 12, 64], &[1, 2, 0], [0.75, 0.56, 0.45]),
        order("vit_heads_b8", &[8, 197, 12, 64], &[0, 2, 1, 3], [0.93, 0.86, 0.87]),
        order("vit_kT_b8", &[8, 197, 12, 64], &[0, 2, 3, 1], [0.82, 0.71, 0.58]),
        order("swin_win", &[1, 8, 7, 8, 7, 96], &[0, 1, 3, 2, 4, 5], [0.93, 0.61, 0.51]),
        order("nchw_nhwc", &[32, 64, 56, 56], &[0, 2, 3, 1], [0.53, 0.52, 0.68]),
        order("nhwc_nchw", &[32, 56, 56, 64], &[0, 3, 1, 2], [0.59, 0.52, 0.58]),
        order("nhwc_nchw_c3", &[8, 224, 224, 3], &[0, 3, 1, 2], [0.40, 0.29, 0.20]),
        order("nchw_nhwc_c3", &[8, 3, 224, 224], &[0, 2, 3, 1], [0.21, 0.12, 0.05]),
        order("chan_shuffle", &[8, 2, 116, 28, 28], &[0, 2, 1, 3, 4], [0.87, 0.90, 0.88]),
        order("pixel_shuffle", &[3, 4, 4, 270, 480], &[0, 3, 1, 4, 2], [0.71, 0.59, 0.70]),
        order("p6_520413", &[20, 16, 14, 12, 10, 18], &[5, 2, 0, 4, 1, 3], [0.36, 0.27, 0.10]),
        order("p6_204135", &[20, 16, 14, 12, 10, 18], &[2, 0, 4, 1, 3, 5], [0.38, 0.21, 0.20]),
        order("p6_351042", &[20, 16, 14, 12, 10, 18], &[3, 5, 1, 0, 4, 2], [0.26, 0.17, 0.13]),
        order("p3_210", &[180, 200, 222], &[2, 1, 0], [0.45, 0.37, 0.55]),
        order("nChw16c", &[32, 4, 16, 56, 56], &[0, 1, 3, 4, 2], [0.66, 0.40, 0.24]),
        tiles("tile_8x128", &[1000, 1000], "(8,128)", [0.82, 0.78, 0.63]),
        tiles("tile_8x128_2x1", &[1000, 1000], "(8,128)(2,1)", [0.80, 0.73, 0.48]),
    ];
    if large {
        cases.push(order("2d_16384", &[16384, 16384], &[1, 0], [0.39, 0.30, 0.19]));
        cases.push(order("nchw_nhwc_b512", &[512, 64, 56, 56], &[0, 2, 3, 1], [0.53, 0.52, 0.68]));
        cases.push(order("heads_b1024", &[1024, 197, 12, 64], &[0, 2, 1, 3], [0.93, 0.86, 0.87]));
    }
    cases
}

/// An element type of the benchmark.
trait Element: bytemuck::Pod + Send + Sync + PartialEq {
    const NAME: &'static str;
    fn of(number: u32) -> Self;
}

impl Element for f32 {
    const NAME: &'static str = "f32";
    fn of(number: u32) -> Self {
        (number % 65_521) as f32
    }
}

impl Element for u16 {
    const NAME: &'static str = "u16";
    fn of(number: u32) -> Self {
        number as u16
    }
}

impl Element for u8 {
    const NAME: &'static str = "u8";
    fn of(number: u32) -> Self {
        (number.wrapping_mul(2_654_435_761) >> 24) as u8
    }
}

/// Elements that start at a multiple of 64 bytes.
struct Buffer<T> {
    elements: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Copy> Buffer<T> {
    fn new(len: usize, value: T) -> Self {
        let elements = vec![value; len + 64];
        let start = elements.as_ptr().align_offset(64);
        Self {
            elements,
            start,
            len,
        }
    }

    fn all(&self) -> &[T] {
        &self.elements[self.start..][..self.len]
    }

    fn all_mut(&mut self) -> &mut [T] {
        &mut self.elements[self.start..][..self.len]
    }
}

/// A conversion from a source to a target.
type Convert<'a, T> = dyn FnMut(&[T], &mut [T]) + 'a;

/// An implementation of the conversion, and its least time.
struct Contender<'a, T> {
    name: &'static str,
    convert: Box<Convert<'a, T>>,
    least: Duration,
    calls: u32,
}

fn contender<'a, T>(
    name: &'static str,
    convert: impl FnMut(&[T], &mut [T]) + 'a,
) -> Contender<'a, T> {
    Contender {
        name,
        convert: Box::new(convert),
        least: Duration::MAX,
        calls: 1,
    }
}

impl<T> Contender<'_, T> {
    /// Makes one call that is not timed first, so that the caches hold the contender's own data.
    fn sample(&mut self, source: &[T], target: &mut [T]) {
        (self.convert)(black_box(source), black_box(target));
        let start = ThreadTime::now();
        for _ in 0..self.calls {
            (self.convert)(black_box(source), black_box(target));
        }
        let time = start.elapsed();
        self.least = self.least.min(time / self.calls);
        if time < SAMPLE {
            self.calls *= 2;
        }
    }

    /// Determines the number of calls in a sample.
    fn warm_up(&mut self, source: &[T], target: &mut [T]) {
        loop {
            let calls = self.calls;
            self.sample(source, target);
            if calls == self.calls {
                break;
            }
        }
        self.least = Duration::MAX;
    }
}

fn signed(list: &[i64]) -> Vec<isize> {
    list.iter().map(|&n| n as isize).collect()
}

/// Ranges of padding positions.
fn padding(to: &Layout) -> Vec<std::ops::Range<usize>> {
    if to.positions() == to.elements() {
        return Vec::new();
    }
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for place in (0..to.positions()).filter(|&p| to.element_at(p).is_none()) {
        let place = place as usize;
        match runs.last_mut() {
            Some(run) if run.end == place => run.end += 1,
            _ => runs.push(place..place + 1),
        }
    }
    runs
}

fn ndarray_view<'a, T>(
    data: &'a [T],
    sizes: &[usize],
    base: i64,
    strides: &[i64],
) -> ndarray::ArrayViewD<'a, T> {
    use ndarray::ShapeBuilder;
    let strides: Vec<usize> = strides.iter().map(|&n| n as usize).collect();
    let shape = ndarray::IxDyn(sizes).strides(ndarray::IxDyn(&strides));
    ndarray::ArrayViewD::from_shape(shape, &data[base as usize..]).expect("a view")
}

fn ndarray_view_mut<'a, T>(
    data: &'a mut [T],
    sizes: &[usize],
    base: i64,
    strides: &[i64],
) -> ndarray::ArrayViewMutD<'a, T> {
    use ndarray::ShapeBuilder;
    let strides: Vec<usize> = strides.iter().map(|&n| n as usize).collect();
    let shape = ndarray::IxDyn(sizes).strides(ndarray::IxDyn(&strides));
    ndarray::ArrayViewMutD::from_shape(shape, &mut data[base as usize..]).expect("a view")
}

fn sizes(boxed: &AffineBox) -> Vec<usize> {
    boxed.sizes.iter().map(|&n| n as usize).collect()
}

/// The matrices of a case that only transposes: batch, rows and columns.
fn matrices(boxed: &AffineBox) -> Option<(usize, usize, usize)> {
    let mut dims: Vec<(usize, i64, i64)> = Vec::new();
    let mut by_target: Vec<usize> = (0..boxed.sizes.len()).collect();
    by_target.retain(|&i| 1 < boxed.sizes[i]);
    by_target.sort_by_key(|&i| std::cmp::Reverse(boxed.to.strides[i]));
    for i in by_target {
        let (n, from, to) = (
            boxed.sizes[i] as usize,
            boxed.from.strides[i],
            boxed.to.strides[i],
        );
        match dims.last_mut() {
            Some(last) if last.1 == from * n as i64 && last.2 == to * n as i64 => {
                *last = (last.0 * n, from, to);
            }
            _ => dims.push((n, from, to)),
        }
    }
    match dims[..] {
        [(cols, 1, _), (rows, _, 1)] => Some((1, rows, cols)),
        [(batch, from, to), (cols, 1, _), (rows, _, 1)] if from == to => Some((batch, rows, cols)),
        _ => None,
    }
}

fn contenders<'a, T: Element>(
    from: &Layout,
    to: &Layout,
    boxes: &'a [AffineBox],
    free: &'a [std::ops::Range<usize>],
    isa: Option<Isa>,
) -> (Vec<Contender<'a, T>>, String) {
    let options = ConversionOptions {
        padding: Padding::Zero,
        isa,
        ..ConversionOptions::default()
    };
    let plan = ConversionPlan::new(from, to, options).expect("the layouts fit");
    let kernels = plan.to_string().lines().collect::<Vec<_>>().join("; ");
    let ours = move |source: &[T], target: &mut [T]| {
        let (source, target) = (
            bytemuck::cast_slice(source),
            bytemuck::cast_slice_mut(target),
        );
        let done = plan.execute(source, target, &mut Moved::default());
        done.expect("the sizes are right");
    };
    let zero = move |target: &mut [T]| {
        for run in free {
            target[run.clone()].fill(T::of(0));
        }
    };
    let strided = move |source: &[T], target: &mut [T]| {
        for boxed in boxes {
            let dims = sizes(boxed);
            let (from, to) = (signed(&boxed.from.strides), signed(&boxed.to.strides));
            let source = StridedView::new(source, &dims, &from, boxed.from.base as isize);
            let base = boxed.to.base as isize;
            let target = strided_view::StridedViewMut::new(target, &dims, &to, base);
            let (source, mut target) = (source.expect("a view"), target.expect("a view"));
            strided_perm::copy_into(&mut target, &source, threadteam::Exec::serial())
                .expect("the same shapes");
        }
        zero(target);
    };
    let array = move |source: &[T], target: &mut [T]| {
        for boxed in boxes {
            let dims = sizes(boxed);
            let source = ndarray_view(source, &dims, boxed.from.base, &boxed.from.strides);
            let mut target = ndarray_view_mut(target, &dims, boxed.to.base, &boxed.to.strides);
            target.assign(&source);
        }
        zero(target);
    };
    let mut all = vec![
        contender("optc", ours),
        contender("strided-perm", strided),
        contender("ndarray", array),
    ];
    if let ([boxed], []) = (boxes, free) {
        let mut by_target: Vec<usize> = (0..boxed.sizes.len()).collect();
        by_target.sort_by_key(|&i| std::cmp::Reverse(boxed.to.strides[i]));
        let dims: Vec<usize> = by_target.iter().map(|&i| boxed.sizes[i] as usize).collect();
        let strides: Vec<usize> = by_target
            .iter()
            .map(|&i| boxed.from.strides[i] as usize)
            .collect();
        let len = to.positions() as usize;
        let mut out = Buffer::new(len, MaybeUninit::new(T::of(0)));
        let mut compared = false;
        all.push(contender("rten", move |source: &[T], target: &mut [T]| {
            use rten_tensor::AsView;
            let view = rten_tensor::TensorView::from_slice_with_strides(&dims, source, &strides);
            let view = view.expect("a view");
            let out = view.copy_into_slice(out.all_mut());
            if !compared {
                target.copy_from_slice(out);
                compared = true;
            }
        }));
        if let Some((batch, rows, cols)) = matrices(boxed) {
            all.push(contender(
                "transpose",
                move |source: &[T], target: &mut [T]| {
                    let each = rows * cols;
                    for i in 0..batch {
                        let part = i * each..(i + 1) * each;
                        transpose::transpose(&source[part.clone()], &mut target[part], cols, rows);
                    }
                },
            ));
        }
    }
    (all, kernels)
}

struct Options {
    rounds: u32,
    peers: bool,
    isa: Option<Isa>,
    names: Vec<String>,
    /// Lines with case, type, library and ratio.
    others: String,
}

/// Measures one row; returns our time relative to the prototype and to the best peer.
fn row<T: Element>(case: &Case, options: &Options) -> [f64; 2] {
    let bits = 8 * size_of::<T>() as u32;
    let from = Layout::row_major(&case.shape, bits);
    let to = match &case.target {
        Target::Order(order) => Layout::from_order(&case.shape, bits, order),
        Target::Tiles(tiles) => {
            let dims: Vec<String> = case.shape.iter().map(u64::to_string).collect();
            let dtype = ["s8", "bf16", "f32"][bits.ilog2() as usize - 3];
            let text = format!("{dtype}[{}]{{1,0:T{tiles}}}", dims.join(","));
            Ok(parse_tensor(&text).expect("a shape").layout)
        }
    };
    let to = to.expect("a layout of the shape");
    let boxes = affine_boxes(&from, &to, 64).expect("few boxes");
    let free = padding(&to);
    let (elements, len) = (from.positions() as usize, to.positions() as usize);
    // If the target has padding, the source buffer is equally long, for a copy of the same size.
    let mut source = Buffer::new(len.max(elements), T::of(0));
    for (i, element) in source.all_mut().iter_mut().enumerate() {
        *element = T::of(i as u32);
    }
    let mut target = Buffer::new(len, T::of(7));
    let (mut all, kernels) = contenders::<T>(&from, &to, &boxes, &free, options.isa);
    if !options.peers {
        all.truncate(1);
    }
    let mut wanted: Vec<T> = vec![T::of(0); len];
    for boxed in &boxes {
        let dims = sizes(boxed);
        let source = ndarray_view(source.all(), &dims, boxed.from.base, &boxed.from.strides);
        let mut out = ndarray_view_mut(&mut wanted, &dims, boxed.to.base, &boxed.to.strides);
        out.assign(&source);
    }
    for one in &mut all {
        target.all_mut().fill(T::of(7));
        (one.convert)(&source.all()[..elements], target.all_mut());
        assert!(
            target.all() == wanted,
            "{} is wrong at {}",
            one.name,
            case.name
        );
        one.warm_up(&source.all()[..elements], target.all_mut());
    }
    drop(wanted);
    // The copy reads and writes the same number of bytes in the same buffers.
    let moved = usize::midpoint(elements, len);
    let mut copy = contender("copy", |source: &[T], target: &mut [T]| {
        target.copy_from_slice(source);
    });
    let copied = ..moved;
    copy.warm_up(&source.all()[copied], &mut target.all_mut()[copied]);
    for _ in 0..options.rounds {
        for one in &mut all {
            copy.sample(&source.all()[copied], &mut target.all_mut()[copied]);
            one.sample(&source.all()[..elements], target.all_mut());
        }
    }
    let ratio = |time: Duration| copy.least.as_secs_f64() / time.as_secs_f64();
    let ours = ratio(all[0].least);
    let peers = all[1..].iter().map(|one| (ratio(one.least), one.name));
    let others = options.others.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let same = words.next()? == case.name && words.next()? == T::NAME;
        let name = words.next()?;
        same.then_some((words.next()?.parse().ok()?, name))
    });
    let best = peers
        .chain(others)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap_or((0.0, "-"));
    let megabytes = 2.0 * (moved * size_of::<T>()) as f64 / 1e6;
    let prototype = case.prototype[5 - bits.ilog2() as usize];
    println!(
        "{:15} {:4} {megabytes:7.1} {:6.0} {ours:6.2} {prototype:6.2} {:6.2} {:13} {kernels}",
        case.name,
        T::NAME,
        megabytes / 1e3 / copy.least.as_secs_f64(),
        best.0,
        best.1,
    );
    [ours / prototype, ours / best.0.max(1e-9)]
}

fn main() {
    let mut options = Options {
        rounds: 9,
        peers: true,
        isa: None,
        names: Vec::new(),
        others: String::new(),
    };
    let mut large = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--bench" => {}
            "--large" => large = true,
            "--no-peers" => options.peers = false,
            text => match text.split_once('=') {
                Some(("--isa", isa)) => options.isa = Some(isa.parse().expect("a set")),
                Some(("--rounds", rounds)) => {
                    options.rounds = rounds.parse().expect("a number of rounds");
                }
                Some(("--ratios", file)) => {
                    options.others = std::fs::read_to_string(file).expect("a file of ratios");
                }
                _ => options.names.push(text.to_owned()),
            },
        }
    }
    println!(
        "{:15} {:4} {:>7} {:>6} {:>6} {:>6} {:>6} {:13} kernels",
        "case", "type", "MB", "GB/s", "optc", "proto", "peer", "best peer"
    );
    let mut found = Vec::new();
    for case in cases(large) {
        let named = |name: &String| case.name.contains(name.as_str());
        if options.names.is_empty() || options.names.iter().any(named) {
            found.push(row::<f32>(&case, &options));
            found.push(row::<u16>(&case, &options));
            found.push(row::<u8>(&case, &options));
        }
    }
    let share = |holds: &dyn Fn(&[f64; 2]) -> bool| {
        let n = found.iter().filter(|ratios| holds(ratios)).count();
        format!("{n} of {}", found.len())
    };
    println!(
        "at least 0.95 of the prototype: {}",
        share(&|r| 0.95 <= r[0])
    );
    println!("faster than the best peer: {}", share(&|r| 1.0 < r[1]));
}
