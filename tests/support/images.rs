//! Random programs on images whose channels are joined, shuffled and cut between convolutions, as in ShuffleNet and
//! DenseNet.

use crate::lines::line;
use optc_compare::SplitMix64;

/// The program for a seed: a batch of images with some channels of 4x3 pixels, through full and depthwise convolutions,
/// element-wise operations, concats, shuffles and parts, including strided parts.
#[must_use]
pub fn images(seed: u64) -> String {
    let mut rng = SplitMix64::new(seed);
    let mut below = |n: usize| usize::try_from(rng.below(n as u64)).unwrap_or(0);
    let batch = 1 + below(2);
    let ty = |channels: usize| format!("tensor<{batch}x{channels}x4x3xf32>");
    let mut lines = Lines {
        batch,
        args: vec![format!("%x: {}", ty(3))],
        text: String::new(),
        all: vec![("%x".to_owned(), 3)],
        count: 0,
    };
    // Half of the programs have values of one size, whose batches are joined too.
    let one = (below(2) == 0).then_some(3 + below(4));
    for _ in 0..2 {
        let channels = one.unwrap_or(2 + below(6));
        lines.mixed(0, channels, 1);
    }
    for _ in 0..5 + below(8) {
        // Recent values are used first.
        let n = lines.all.len();
        let recent = n - 1 - below(n.min(4) - 1);
        let channels = lines.all[recent].1;
        match below(8) {
            0 => lines.mixed(recent, one.unwrap_or(1 + below(6)), 1 + 2 * below(2)),
            1 => lines.each(recent),
            2 => lines.plain(["neg", "relu", "tanh"][below(3)], recent, channels),
            3 | 4 => {
                let others = (0..1 + below(2)).map(|_| 1 + below(n - 1));
                let others: Vec<usize> = std::iter::once(recent).chain(others).collect();
                lines.joined(&others);
            }
            5 => {
                let groups: Vec<usize> = (2..channels)
                    .filter(|g| channels.is_multiple_of(*g))
                    .collect();
                if let Some(&groups) = groups.get(below(groups.len().max(1))) {
                    lines.shuffled(recent, groups);
                }
            }
            6 if one.is_some_and(|half| channels == 2 * half) => {
                lines.cut(recent, (0, 1, channels / 2));
                lines.cut(recent, (channels / 2, 1, channels / 2));
            }
            _ => {
                let start = below(channels);
                // A reversed slice stops at the second channel, since no limit means before the first one.
                let (step, most) = match below(3) {
                    0 if 0 < start => (-1, start),
                    1 => (2, (channels - start).div_ceil(2)),
                    _ => (1, channels - start),
                };
                lines.cut(recent, (start, step, 1 + below(most)));
            }
        }
    }
    let last = lines.all.len() - 1;
    let others: Vec<usize> = (0..2).map(|_| 1 + below(last)).chain([last]).collect();
    lines.joined(&others);
    let joined = lines.all.len() - 1;
    lines.mixed(joined, 2, 1);
    lines.each(joined);
    let results = [lines.all.len() - 2, lines.all.len() - 1];
    let named = |f: &dyn Fn(&(String, usize)) -> String| {
        let all = results.map(|i| f(&lines.all[i]));
        all.join(", ")
    };
    let (names, types) = (named(&|v| v.0.clone()), named(&|v| ty(v.1)));
    format!(
        "func.func @main({}) -> ({types}) {{\n{}  return {names} : {types}\n}}\n",
        lines.args.join(", "),
        lines.text
    )
}

/// A program that is written line by line.
struct Lines {
    batch: usize,
    args: Vec<String>,
    text: String,
    /// The images, each with its number of channels.
    all: Vec<(String, usize)>,
    count: usize,
}

impl Lines {
    fn ty(&self, channels: usize) -> String {
        format!("tensor<{}x{channels}x4x3xf32>", self.batch)
    }

    /// Adds a line; returns the name of its result.
    fn line(&mut self, operation: &str, operands: &[&str], types: &[&str], result: &str) -> String {
        let ports = (operands, types);
        line(&mut self.text, &mut self.count, operation, ports, result)
    }

    fn plain(&mut self, operation: &str, of: usize, channels: usize) {
        let (name, own) = self.all[of].clone();
        let (from, to) = (self.ty(own), self.ty(channels));
        let made = self.line(operation, &[&name], &[&from], &to);
        self.all.push((made, channels));
    }

    fn convolved(&mut self, of: usize, (channels, kernel, group): (usize, usize, usize)) {
        let (name, own) = self.all[of].clone();
        let weights = format!("%w{}", self.args.len());
        let shape = format!("tensor<{channels}x{}x{kernel}x{kernel}xf32>", own / group);
        self.args.push(format!("{weights}: {shape}"));
        let pad = kernel / 2;
        let conv = format!("conv group = {group}, pads = [{pad}, {pad}, {pad}, {pad}]");
        let (from, to) = (self.ty(own), self.ty(channels));
        let made = self.line(&conv, &[&name, &weights], &[&from, &shape], &to);
        self.all.push((made, channels));
    }

    /// A convolution over all channels.
    fn mixed(&mut self, of: usize, channels: usize, kernel: usize) {
        self.convolved(of, (channels, kernel, 1));
    }

    /// A depthwise convolution.
    fn each(&mut self, of: usize) {
        let channels = self.all[of].1;
        self.convolved(of, (channels, 3, channels));
    }

    fn joined(&mut self, of: &[usize]) {
        let all: Vec<(String, usize)> = of.iter().map(|&i| self.all[i].clone()).collect();
        let channels = all.iter().map(|(_, n)| n).sum();
        let types: Vec<String> = all.iter().map(|(_, n)| self.ty(*n)).collect();
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        let types: Vec<&str> = types.iter().map(String::as_str).collect();
        let to = self.ty(channels);
        let made = self.line("concat axis = 1", &names, &types, &to);
        self.all.push((made, channels));
    }

    fn shuffled(&mut self, of: usize, groups: usize) {
        let (name, channels) = self.all[of].clone();
        let each = channels / groups;
        let batch = self.batch;
        let pairs = |a: usize, b: usize| {
            (
                format!("[{batch}, {a}, {b}, 4, 3]"),
                format!("tensor<{batch}x{a}x{b}x4x3xf32>"),
            )
        };
        let ((shape, cut), (_, turned)) = (pairs(groups, each), pairs(each, groups));
        let whole = self.ty(channels);
        let a = self.line(
            &format!("reshape shape = {shape}"),
            &[&name],
            &[&whole],
            &cut,
        );
        let b = self.line("transpose perm = [0, 2, 1, 3, 4]", &[&a], &[&cut], &turned);
        let shape = format!("reshape shape = [{batch}, {channels}, 4, 3]");
        let made = self.line(&shape, &[&b], &[&turned], &whole);
        self.all.push((made, channels));
    }

    /// `count` channels from `start` on, with a step.
    fn cut(&mut self, of: usize, (start, step, count): (usize, i64, usize)) {
        let [start, last] = [start, count - 1].map(|n| i64::try_from(n).unwrap_or(0));
        let end = start + step * last + step.signum();
        let batch = self.batch;
        let slice = format!(
            "slice limits = [{batch}, {end}, 4, 3], starts = [0, {start}, 0, 0], strides = [1, {step}, 1, 1]"
        );
        self.plain(&slice, of, count);
    }
}
