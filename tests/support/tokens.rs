//! Programs on tokens that are rotated by halves, rolled, cut into windows, concatenated, normalized and multiplied;
//! each value has several readers.

use crate::lines::line;
use optc_compare::SplitMix64;

/// The program for a seed: batches of tokens with some channels.
#[must_use]
pub fn tokens(seed: u64) -> String {
    let mut lines = Lines {
        rng: SplitMix64::new(seed),
        args: Vec::new(),
        text: String::new(),
        all: Vec::new(),
        count: 0,
    };
    let batch = 1 + lines.below(2);
    let own = [batch, 4 + 2 * lines.below(2), 8 + 8 * lines.below(2)];
    for name in ["%x", "%y"] {
        lines.args.push(format!("{name}: {}", ty(own)));
        let made = lines.line("tanh", &[(name.to_owned(), own)], own);
        lines.all.push((made, own));
    }
    for _ in 0..6 + lines.below(8) {
        // Recent values are used first.
        let n = lines.all.len();
        let at = n - 1 - lines.below(n.min(4));
        let value = lines.all[at].clone();
        match lines.below(10) {
            0 | 1 => lines.turned(&value),
            2 | 3 => lines.rolled(&value),
            4 => lines.windows(&value),
            5 => lines.joined(&value),
            6 => lines.along(&value),
            7 => lines.multiplied(&value),
            8 => lines.product(&value),
            _ => {
                let operation = ["neg", "tanh", "sigmoid"][lines.below(3)];
                lines.made(operation, std::slice::from_ref(&value), value.1);
            }
        }
    }
    let n = lines.all.len();
    let results: Vec<Tokens> = (0..3)
        .map(|i| lines.all[n - 1 - i.min(n - 1)].clone())
        .collect();
    let mut named = Vec::new();
    for value in results {
        named.push((
            lines.line("abs", std::slice::from_ref(&value), value.1),
            value.1,
        ));
    }
    let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
    let types: Vec<String> = named.iter().map(|(_, shape)| ty(*shape)).collect();
    let (names, types) = (names.join(", "), types.join(", "));
    format!(
        "func.func @main({}) -> ({types}) {{\n{}  return {names} : {types}\n}}\n",
        lines.args.join(", "),
        lines.text
    )
}

/// A value and its shape: batch, tokens, channels.
type Tokens = (String, [usize; 3]);

/// A program that is written line by line.
struct Lines {
    rng: SplitMix64,
    args: Vec<String>,
    text: String,
    all: Vec<Tokens>,
    count: usize,
}

fn ty(shape: [usize; 3]) -> String {
    wide(&shape)
}

fn wide(shape: &[usize]) -> String {
    let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("tensor<{}xf32>", dims.join("x"))
}

fn list(shape: &[usize]) -> String {
    format!("{shape:?}")
}

impl Lines {
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.rng.below(n as u64)).unwrap_or(0)
    }

    /// Adds a line; returns the name of its result.
    fn line(&mut self, operation: &str, operands: &[Tokens], result: [usize; 3]) -> String {
        let names: Vec<&str> = operands.iter().map(|(name, _)| name.as_str()).collect();
        let types: Vec<String> = operands.iter().map(|(_, shape)| ty(*shape)).collect();
        self.written(operation, &names, &types, &ty(result))
    }

    fn written(
        &mut self,
        operation: &str,
        names: &[&str],
        types: &[String],
        result: &str,
    ) -> String {
        let types: Vec<&str> = types.iter().map(String::as_str).collect();
        let ports = (names, &types[..]);
        line(&mut self.text, &mut self.count, operation, ports, result)
    }

    fn made(&mut self, operation: &str, operands: &[Tokens], shape: [usize; 3]) -> Tokens {
        let made = (self.line(operation, operands, shape), shape);
        self.all.push(made.clone());
        made
    }

    fn cut(&mut self, of: &Tokens, axis: usize, (from, to): (usize, usize)) -> Tokens {
        let (mut starts, mut limits, mut shape) = ([0; 3], of.1, of.1);
        (starts[axis], limits[axis], shape[axis]) = (from, to, to - from);
        let slice = format!(
            "slice limits = {}, starts = {}, strides = [1, 1, 1]",
            list(&limits),
            list(&starts)
        );
        (self.line(&slice, std::slice::from_ref(of), shape), shape)
    }

    /// The halves in reverse order, one of them negated, combined with the value itself.
    fn turned(&mut self, of: &Tokens) {
        let axis = 1 + self.below(2);
        let n = of.1[axis];
        let (low, high) = (
            self.cut(of, axis, (0, n / 2)),
            self.cut(of, axis, (n - n / 2, n)),
        );
        if n.is_multiple_of(2) {
            let high = (
                self.line("neg", std::slice::from_ref(&high), high.1),
                high.1,
            );
            let joined = self.made(&format!("concat axis = {axis}"), &[high, low], of.1);
            self.made("add", &[joined, of.clone()], of.1);
        }
    }

    /// Rolls a value along one dimension or along two.
    fn rolled(&mut self, of: &Tokens) {
        let mut last = of.clone();
        for axis in [1, 2].into_iter().take(1 + self.below(2)) {
            let n = last.1[axis];
            let by = 1 + self.below(n - 1);
            let ends = [
                self.cut(&last, axis, (by, n)),
                self.cut(&last, axis, (0, by)),
            ];
            let shape = last.1;
            last = self.made(&format!("concat axis = {axis}"), &ends, shape);
        }
    }

    /// Pairs of tokens, such that the first tokens of all windows are together.
    fn windows(&mut self, (name, shape): &Tokens) {
        let [b, t, c] = *shape;
        if !t.is_multiple_of(2) {
            return;
        }
        let cut = [b, t / 2, 2, c];
        let turned = [b, 2, t / 2, c];
        let reshape = format!("reshape shape = {}", list(&cut));
        let cut_name = self.written(&reshape, &[name], &[ty(*shape)], &wide(&cut));
        let transpose = "transpose perm = [0, 2, 1, 3]";
        let turned_name = self.written(transpose, &[&cut_name], &[wide(&cut)], &wide(&turned));
        let whole = [b * 2, t / 2, c];
        let reshape = format!("reshape shape = {}", list(&whole));
        let made = self.written(&reshape, &[&turned_name], &[wide(&turned)], &ty(whole));
        self.all.push((made, whole));
    }

    /// Concatenates a value with another one that has the same other sizes.
    fn joined(&mut self, of: &Tokens) {
        let axis = self.below(3);
        let fits = |other: &&Tokens| (0..3).all(|d| d == axis || other.1[d] == of.1[d]);
        let others: Vec<Tokens> = self.all.iter().filter(fits).cloned().collect();
        let at = self.below(others.len());
        let other = others[at].clone();
        let mut shape = of.1;
        shape[axis] += other.1[axis];
        if shape.iter().product::<usize>() < 1000 {
            self.made(
                &format!("concat axis = {axis}"),
                &[other, of.clone()],
                shape,
            );
        }
    }

    /// An operation along the channels.
    fn along(&mut self, of: &Tokens) {
        let [b, t, c] = of.1;
        let own = std::slice::from_ref(of);
        match self.below(3) {
            0 => {
                self.made("softmax axis = 2", own, of.1);
            }
            1 => {
                let scale = format!("%w{}", self.args.len());
                self.args.push(format!("{scale}: {}", wide(&[c])));
                let norm = "rms_norm axis = 2, epsilon = 0.001";
                let types = [ty(of.1), wide(&[c])];
                let made = self.written(norm, &[&of.0, &scale], &types, &ty(of.1));
                self.all.push((made, of.1));
            }
            _ => {
                let mean = "reduce axes = [2], keepdims = true, kind = \"mean\"";
                let mean = (self.line(mean, own, [b, t, 1]), [b, t, 1]);
                self.made("mul", &[of.clone(), mean], of.1);
            }
        }
    }

    /// A product with weights.
    fn multiplied(&mut self, (name, shape): &Tokens) {
        let [b, t, c] = *shape;
        let n = [c, 8][self.below(2)];
        let weights = format!("%w{}", self.args.len());
        self.args.push(format!("{weights}: {}", wide(&[c, n])));
        let types = [ty(*shape), wide(&[c, n])];
        let made = self.written("matmul", &[name, &weights], &types, &ty([b, t, n]));
        self.all.push((made, [b, t, n]));
    }

    /// A product of the tokens with those of another value.
    fn product(&mut self, of: &Tokens) {
        let [b, t, c] = of.1;
        let fits = |other: &&Tokens| other.1[0] == b && other.1[2] == c;
        let others: Vec<Tokens> = self.all.iter().filter(fits).cloned().collect();
        let at = self.below(others.len());
        let (name, [_, other, _]) = others[at].clone();
        let turned = [b, c, other];
        let turned_name = self.line(
            "transpose perm = [0, 2, 1]",
            &[(name, [b, other, c])],
            turned,
        );
        let made = self.line(
            "matmul",
            &[of.clone(), (turned_name, turned)],
            [b, t, other],
        );
        let made = (made, [b, t, other]);
        let squashed = self.line("tanh", &[made], [b, t, other]);
        self.all.push((squashed, [b, t, other]));
    }
}
