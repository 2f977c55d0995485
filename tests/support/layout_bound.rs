//! Blocks of networks that move more than they compute: windows, shuffled channels, pixels and heads around small
//! products, in 32-bit and 16-bit floats and in quantized integers.
//!
//! Integer products accumulate in `si32`. Sums are scaled and rounded to `si8`, and softmax is computed on floats.

use std::fmt::Write;

/// The element type of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// `f32`.
    F32,
    /// `bf16`.
    BF16,
    /// `si8`.
    SI8,
}

impl Numbers {
    /// All types.
    pub const ALL: [Numbers; 3] = [Numbers::F32, Numbers::BF16, Numbers::SI8];

    /// The name of the element type.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Numbers::F32 => "f32",
            Numbers::BF16 => "bf16",
            Numbers::SI8 => "si8",
        }
    }

    /// The bytes of an element.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Numbers::F32 => 4,
            Numbers::BF16 => 2,
            Numbers::SI8 => 1,
        }
    }
}

/// A program with its name.
#[derive(Clone, Debug)]
pub struct Block {
    /// The block and its element type.
    pub name: String,
    /// The element type.
    pub numbers: Numbers,
    /// The program.
    pub text: String,
}

/// All blocks, in the sizes of their networks, or `small` ones for the interpreters.
#[must_use]
pub fn blocks(numbers: Numbers, small: bool) -> Vec<Block> {
    let sized = |whole: usize, small_one: usize| if small { small_one } else { whole };
    let all = [
        (
            "swin_window",
            windows(numbers, sized(56, 14), sized(96, 64)),
        ),
        (
            "shufflenet_unit",
            shuffle(numbers, sized(116, 20), sized(28, 6)),
        ),
        (
            "shufflenet_units",
            shuffles(numbers, sized(116, 20), sized(28, 6)),
        ),
        ("pixel_shuffle", pixels(numbers, sized(16, 8), sized(64, 9))),
        ("heads_197", heads(numbers, sized(197, 19), sized(12, 3))),
        ("heads_512", heads(numbers, sized(512, 32), sized(12, 2))),
    ];
    let named = |(name, text): (&str, String)| Block {
        name: format!("{name}_{}", numbers.name()),
        numbers,
        text,
    };
    all.into_iter().map(named).collect()
}

/// A value: its name and its type.
#[derive(Clone, Debug)]
struct Val {
    name: String,
    shape: Vec<usize>,
    dtype: &'static str,
}

impl Val {
    fn ty(&self) -> String {
        let sizes: String = self.shape.iter().map(|n| format!("{n}x")).collect();
        format!("tensor<{sizes}{}>", self.dtype)
    }
}

/// A program that is written line by line.
struct Lines {
    numbers: Numbers,
    text: String,
    count: usize,
    offset: usize,
}

impl Lines {
    fn new(numbers: Numbers) -> Lines {
        Lines {
            numbers,
            text: String::new(),
            count: 0,
            offset: 0,
        }
    }

    fn op(
        &mut self,
        name: &str,
        attrs: &str,
        operands: &[&Val],
        shape: &[usize],
        dtype: &'static str,
    ) -> Val {
        let made = Val {
            name: format!("%{}", self.count),
            shape: shape.to_vec(),
            dtype,
        };
        self.count += 1;
        let names: Vec<&str> = operands.iter().map(|v| v.name.as_str()).collect();
        let types: Vec<String> = operands.iter().map(|v| v.ty()).collect();
        let attrs = if attrs.is_empty() {
            String::new()
        } else {
            format!(" <{{{attrs}}}>")
        };
        let (names, types) = (names.join(", "), types.join(", "));
        let (result, ty) = (&made.name, made.ty());
        let line = writeln!(
            self.text,
            "  {result} = \"hbir.{name}\"({names}){attrs} : ({types}) -> {ty}"
        );
        line.expect("a string can be written to");
        made
    }

    fn weights(&mut self, shape: &[usize], dtype: &'static str) -> Val {
        let size = match dtype {
            "si32" => 4,
            _ => self.numbers.bytes(),
        };
        let bytes = size * shape.iter().product::<usize>();
        let attrs = format!(
            "data = #hbir.external<\"block.weights\", {}, {bytes}>",
            self.offset
        );
        self.offset += bytes.next_multiple_of(64);
        self.op("constant", &attrs, &[], shape, dtype)
    }

    fn scalar(&mut self, value: &str, dtype: &'static str) -> Val {
        let attrs = format!("value = dense<{value}> : tensor<{dtype}>");
        self.op("constant", &attrs, &[], &[], dtype)
    }

    fn reshape(&mut self, x: &Val, shape: &[usize]) -> Val {
        self.op(
            "reshape",
            &format!("shape = {shape:?}"),
            &[x],
            shape,
            x.dtype,
        )
    }

    fn transpose(&mut self, x: &Val, perm: &[usize]) -> Val {
        let shape: Vec<usize> = perm.iter().map(|&p| x.shape[p]).collect();
        self.op(
            "transpose",
            &format!("perm = {perm:?}"),
            &[x],
            &shape,
            x.dtype,
        )
    }

    /// The convolutions of the half of the channels that is not passed through.
    fn branch(&mut self, taken: &Val, half: usize) -> Val {
        let wide = self.conv(taken, half, 1, 1, true);
        let each = self.conv(&wide, half, 3, half, false);
        self.conv(&each, half, 1, 1, true)
    }

    /// The channels of two values, interleaved.
    fn shuffled(&mut self, kept: &Val, branch: &Val) -> Val {
        let [n, half, height, width] = kept.shape[..] else {
            unreachable!("images have four dimensions")
        };
        let shape = [n, 2 * half, height, width];
        let joined = self.op("concat", "axis = 1", &[kept, branch], &shape, kept.dtype);
        let pairs = self.reshape(&joined, &[n, 2, half, height, width]);
        let pairs = self.transpose(&pairs, &[0, 2, 1, 3, 4]);
        self.reshape(&pairs, &shape)
    }

    /// `count` elements from `start` on along a dimension.
    fn slice(&mut self, x: &Val, dim: usize, start: usize, count: usize) -> Val {
        let mut starts = vec![0; x.shape.len()];
        let (mut limits, mut shape) = (x.shape.clone(), x.shape.clone());
        (starts[dim], limits[dim], shape[dim]) = (start, start + count, count);
        let strides = vec![1; shape.len()];
        let attrs = format!("limits = {limits:?}, starts = {starts:?}, strides = {strides:?}");
        self.op("slice", &attrs, &[x], &shape, x.dtype)
    }

    /// The accumulator type, and the attribute that states it.
    fn sums(&self) -> (&'static str, &'static str) {
        match self.numbers {
            Numbers::SI8 => ("si32", "to = si32"),
            other => (other.name(), ""),
        }
    }

    fn matmul(&mut self, a: &Val, b: &Val) -> Val {
        let mut shape = a.shape.clone();
        let last = shape.len() - 1;
        shape[last] = b.shape[last];
        let (dtype, attrs) = self.sums();
        self.op("matmul", attrs, &[a, b], &shape, dtype)
    }

    /// Sums converted to floats, if they are integers.
    fn scaled(&mut self, x: &Val, scale: &str) -> Val {
        if self.numbers != Numbers::SI8 {
            return x.clone();
        }
        let scale = self.scalar(scale, "f32");
        self.op("dequantize", "", &[x, &scale], &x.shape, "f32")
    }

    /// Floats rounded to 8-bit integers, if the block computes with these.
    fn rounded(&mut self, x: &Val, scale: &str) -> Val {
        if self.numbers != Numbers::SI8 {
            return x.clone();
        }
        let scale = self.scalar(scale, "f32");
        self.op("quantize", "to = si8", &[x, &scale], &x.shape, "si8")
    }

    /// A convolution with a bias, and optionally a relu.
    fn conv(&mut self, x: &Val, channels: usize, kernel: usize, group: usize, relu: bool) -> Val {
        let own = x.shape[1] / group;
        let (dtype, to) = self.sums();
        let weights = self.weights(&[channels, own, kernel, kernel], x.dtype);
        let bias = self.weights(&[channels], dtype);
        let pad = kernel / 2;
        let to = if to.is_empty() {
            String::new()
        } else {
            format!(", {to}")
        };
        let attrs = format!("group = {group}, pads = {:?}{to}", [pad; 4]);
        let mut shape = x.shape.clone();
        shape[1] = channels;
        let sums = self.op("conv", &attrs, &[x, &weights, &bias], &shape, dtype);
        let mut found = self.scaled(&sums, "0.015625");
        if relu {
            found = self.op("relu", "", &[&found], &shape, found.dtype);
        }
        self.rounded(&found, "0.5")
    }

    /// Attention of heads `[.., tokens, size]`.
    fn attention(&mut self, [q, k, v]: [&Val; 3]) -> Val {
        let mut perm: Vec<usize> = (0..k.shape.len()).collect();
        let n = perm.len();
        perm.swap(n - 1, n - 2);
        let k = self.transpose(k, &perm);
        let scores = self.matmul(q, &k);
        let scores = self.scaled(&scores, "0.0009765625");
        let attrs = format!("axis = {}", n - 1);
        let shares = self.op("softmax", &attrs, &[&scores], &scores.shape, scores.dtype);
        let shares = self.rounded(&shares, "0.0078125");
        let found = self.matmul(&shares, v);
        let found = self.scaled(&found, "0.0078125");
        self.rounded(&found, "0.5")
    }

    fn finish(self, x: &Val, y: &Val) -> String {
        let (arg, from, name, to) = (&x.name, x.ty(), &y.name, y.ty());
        format!(
            "func.func @main({arg}: {from}) -> {to} {{\n{}  return {name} : {to}\n}}\n",
            self.text
        )
    }
}

fn argument(numbers: Numbers, shape: &[usize]) -> Val {
    Val {
        name: "%x".to_owned(),
        shape: shape.to_vec(),
        dtype: numbers.name(),
    }
}

/// Windows of 7x7 pixels are cut out of an image of queries, keys and values, attend to themselves with heads of size
/// 32, and are put back: Swin's first stage without its products.
fn windows(numbers: Numbers, size: usize, channels: usize) -> String {
    let mut lines = Lines::new(numbers);
    let x = argument(numbers, &[1, size, size, 3 * channels]);
    let (w, heads) = (size / 7, channels / 32);
    let cut = lines.reshape(&x, &[1, w, 7, w, 7, 3 * channels]);
    let cut = lines.transpose(&cut, &[0, 1, 3, 2, 4, 5]);
    let packed = lines.reshape(&cut, &[w * w, 49, 3, heads, 32]);
    let found = split_heads(&mut lines, &packed);
    let merged = lines.transpose(&found, &[0, 2, 1, 3]);
    let merged = lines.reshape(&merged, &[1, w, w, 7, 7, channels]);
    let put = lines.transpose(&merged, &[0, 1, 3, 2, 4, 5]);
    let y = lines.reshape(&put, &[1, size, size, channels]);
    lines.finish(&x, &y)
}

/// Attention of packed heads `[batch, tokens, 3, heads, size]`, in the form `[batch, heads, tokens, size]`.
fn split_heads(lines: &mut Lines, packed: &Val) -> Val {
    let turned = lines.transpose(packed, &[2, 0, 3, 1, 4]);
    let own = turned.shape[1..].to_vec();
    let parts = [0, 1, 2].map(|i| {
        let part = lines.slice(&turned, 0, i, 1);
        lines.reshape(&part, &own)
    });
    lines.attention([&parts[0], &parts[1], &parts[2]])
}

/// Heads are split from tokens, attend, and are merged.
fn heads(numbers: Numbers, tokens: usize, heads: usize) -> String {
    let mut lines = Lines::new(numbers);
    let x = argument(numbers, &[1, tokens, 3 * heads * 64]);
    let packed = lines.reshape(&x, &[1, tokens, 3, heads, 64]);
    let found = split_heads(&mut lines, &packed);
    let merged = lines.transpose(&found, &[0, 2, 1, 3]);
    let y = lines.reshape(&merged, &[1, tokens, heads * 64]);
    lines.finish(&x, &y)
}

/// ShuffleNet V2's basic unit: one half of the channels is convolved, both halves are concatenated, and the channels
/// are shuffled.
fn shuffle(numbers: Numbers, channels: usize, size: usize) -> String {
    let mut lines = Lines::new(numbers);
    let half = channels / 2;
    let x = argument(numbers, &[1, channels, size, size]);
    let kept = lines.slice(&x, 1, 0, half);
    let taken = lines.slice(&x, 1, half, half);
    let branch = lines.branch(&taken, half);
    let y = lines.shuffled(&kept, &branch);
    lines.finish(&x, &y)
}

/// Three such units in sequence, between convolutions of all channels.
fn shuffles(numbers: Numbers, channels: usize, size: usize) -> String {
    let mut lines = Lines::new(numbers);
    let half = channels / 2;
    let x = argument(numbers, &[1, channels, size, size]);
    let mut kept = lines.conv(&x, half, 1, 1, true);
    let mut branch = lines.conv(&x, half, 1, 1, true);
    for _ in 0..3 {
        let whole = lines.shuffled(&kept, &branch);
        kept = lines.slice(&whole, 1, 0, half);
        let taken = lines.slice(&whole, 1, half, half);
        branch = lines.branch(&taken, half);
    }
    let whole = lines.shuffled(&kept, &branch);
    let y = lines.conv(&whole, channels, 1, 1, true);
    lines.finish(&x, &y)
}

/// Channels become pixels between a pointwise and a depthwise convolution.
fn pixels(numbers: Numbers, channels: usize, size: usize) -> String {
    let mut lines = Lines::new(numbers);
    let x = argument(numbers, &[1, 2 * channels, size, size]);
    let wide = lines.conv(&x, 4 * channels, 1, 1, true);
    let cut = lines.reshape(&wide, &[1, channels, 2, 2, size, size]);
    let turned = lines.transpose(&cut, &[0, 1, 4, 2, 5, 3]);
    let image = lines.reshape(&turned, &[1, channels, 2 * size, 2 * size]);
    let y = lines.conv(&image, channels, 3, channels, true);
    lines.finish(&x, &y)
}
