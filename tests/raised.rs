//! Operations that are written in parts, in random spellings, shapes and axes: `canonicalize` raises them, and the
//! numbers stay.

use optc_compare::SplitMix64;
use optc_ir::text;
use optc_passes::Boundary;
use optc_tests::check::{cases, parse, run_passes, same_meaning};
use std::sync::Arc;

/// A program in text, operation by operation.
struct Spelling {
    random: SplitMix64,
    body: Vec<String>,
    dtype: &'static str,
    shape: Vec<u64>,
}

impl Spelling {
    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    fn ty(&self, shape: &[u64]) -> String {
        let dims: Vec<String> = shape.iter().map(|n| format!("{n}x")).collect();
        format!("tensor<{}{}>", dims.concat(), self.dtype)
    }

    fn op(&mut self, name: &str, args: &[(&str, &[u64])], attrs: &str, shape: &[u64]) -> String {
        let value = format!("%v{}", self.body.len());
        let names: Vec<&str> = args.iter().map(|(name, _)| *name).collect();
        let types: Vec<String> = args.iter().map(|(_, shape)| self.ty(shape)).collect();
        let line = format!(
            "  {value} = \"hbir.{name}\"({}) <{{{attrs}}}> : ({}) -> {}",
            names.join(", "),
            types.join(", "),
            self.ty(shape)
        );
        self.body.push(line);
        value
    }

    fn constant(&mut self, x: f64) -> String {
        let attrs = format!("value = dense<{x:e}> : {}", self.ty(&[]));
        self.op("constant", &[], &attrs, &[])
    }

    /// A full-size value of one or two others; a number for each row is repeated or not.
    fn full(&mut self, name: &str, args: &[(&str, &[u64])]) -> String {
        let shape = self.shape.clone();
        self.op(name, args, "", &shape)
    }

    /// Two operands in a random order.
    fn swapped(&mut self, name: &str, a: (&str, &[u64]), b: (&str, &[u64])) -> String {
        match self.below(2) {
            0 => self.full(name, &[a, b]),
            _ => self.full(name, &[b, a]),
        }
    }

    /// A reduction along the axes from `first` to `last`, with extents of 1 in their place.
    fn reduced(&mut self, kind: &str, x: &str, axes: std::ops::Range<usize>) -> (String, Vec<u64>) {
        let shape = self.shape.clone();
        let all: Vec<usize> = axes.clone().collect();
        let mut kept = shape.clone();
        kept[axes.clone()].fill(1);
        let keep = self.below(2) == 0;
        let attrs = format!("kind = \"{kind}\", axes = {all:?}, keepdims = {keep}");
        if keep {
            return (self.op("reduce", &[(x, &shape)], &attrs, &kept), kept);
        }
        let mut short = shape.clone();
        short.drain(axes);
        let y = self.op("reduce", &[(x, &shape)], &attrs, &short);
        let y = self.op(
            "reshape",
            &[(&y, &short)],
            &format!("shape = {kept:?}"),
            &kept,
        );
        (y, kept)
    }

    /// The mean along axes, as such or as a sum that is divided or multiplied.
    fn mean(&mut self, x: &str, axes: std::ops::Range<usize>) -> (String, Vec<u64>) {
        let count: u64 = self.shape[axes.clone()].iter().product();
        #[expect(clippy::cast_precision_loss, reason = "a small count")]
        let count = count as f64;
        let form = self.below(3);
        let kind = if form == 0 { "mean" } else { "sum" };
        let (sum, rows) = self.reduced(kind, x, axes);
        let mean = match form {
            0 => sum,
            1 => {
                let n = self.constant(count);
                self.op("div", &[(&sum, &rows), (&n, &[])], "", &rows)
            }
            _ => {
                let n = self.constant(1.0 / count);
                self.op("mul", &[(&n, &[]), (&sum, &rows)], "", &rows)
            }
        };
        (mean, rows)
    }

    /// A number for each row, repeated or as it is.
    fn spread(&mut self, rows: (String, Vec<u64>)) -> (String, Vec<u64>) {
        if self.below(2) == 0 {
            return rows;
        }
        let shape = self.shape.clone();
        let attrs = format!("shape = {shape:?}");
        (
            self.op("broadcast", &[(&rows.0, &rows.1)], &attrs, &shape),
            shape,
        )
    }

    /// A quotient, also as a product with a reciprocal.
    fn quotient(&mut self, x: &str, by: (String, Vec<u64>)) -> String {
        let shape = self.shape.clone();
        if self.below(2) == 0 {
            let by = self.spread(by);
            return self.full("div", &[(x, &shape), (&by.0, &by.1)]);
        }
        let inverse = self.op("reciprocal", &[(&by.0, &by.1)], "", &by.1);
        let inverse = self.spread((inverse, by.1));
        self.swapped("mul", (x, &shape), (&inverse.0, &inverse.1))
    }

    fn softmax(&mut self, log: bool) -> String {
        let shape = self.shape.clone();
        let axis = usize::try_from(self.below(shape.len() as u64)).expect("a small number");
        let greatest = self.reduced("max", "%x", axis..axis + 1);
        let greatest = self.spread(greatest);
        let shifted = self.full("sub", &[("%x", &shape), (&greatest.0, &greatest.1)]);
        let powers = self.full("exp", &[(&shifted, &shape)]);
        let sum = self.reduced("sum", &powers, axis..axis + 1);
        if log {
            let log = self.op("log", &[(&sum.0, &sum.1)], "", &sum.1);
            let log = self.spread((log, sum.1));
            return self.full("sub", &[(&shifted, &shape), (&log.0, &log.1)]);
        }
        self.quotient(&powers, sum)
    }

    fn norm(&mut self, centred: bool) -> String {
        let shape = self.shape.clone();
        let first = usize::try_from(self.below(shape.len() as u64)).expect("a small number");
        let axes = first..shape.len();
        let mut x = "%x".to_owned();
        if centred {
            let mean = self.mean("%x", axes.clone());
            let mean = self.spread(mean);
            x = self.full("sub", &[("%x", &shape), (&mean.0, &mean.1)]);
        }
        let square = if self.below(2) == 0 {
            self.full("mul", &[(&x, &shape), (&x, &shape)])
        } else {
            let two = self.constant(2.0);
            self.full("pow", &[(&x, &shape), (&two, &[])])
        };
        let (mean, rows) = self.mean(&square, axes);
        let epsilon = self.constant(1e-3);
        let more = self.op("add", &[(&mean, &rows), (&epsilon, &[])], "", &rows);
        if self.below(2) == 0 {
            let root = self.op("sqrt", &[(&more, &rows)], "", &rows);
            return self.quotient(&x, (root, rows));
        }
        let root = self.op("rsqrt", &[(&more, &rows)], "", &rows);
        let root = self.spread((root, rows));
        self.swapped("mul", (&x, &shape), (&root.0, &root.1))
    }

    fn gelu(&mut self) -> String {
        let shape = self.shape.clone();
        let root = self.constant(std::f64::consts::SQRT_2);
        let scaled = self.full("div", &[("%x", &shape), (&root, &[])]);
        let gate = self.full("erf", &[(&scaled, &shape)]);
        let one = self.constant(1.0);
        let gate = self.swapped("add", (&gate, &shape), (&one, &[]));
        let half = self.constant(0.5);
        if self.below(2) == 0 {
            let gate = self.swapped("mul", (&gate, &shape), (&half, &[]));
            return self.swapped("mul", ("%x", &shape), (&gate, &shape));
        }
        let product = self.swapped("mul", (&gate, &shape), ("%x", &shape));
        self.swapped("mul", (&half, &[]), (&product, &shape))
    }
}

#[test]
fn parts_in_every_spelling_are_raised() {
    let registry = Arc::new(optc_ops::registry());
    for seed in 0..cases(120) {
        let mut random = SplitMix64::new(seed);
        let rank = 1 + random.below(3);
        let shape = (0..rank).map(|_| 2 + random.below(4)).collect();
        let dtype = ["f32", "bf16", "f16"][usize::try_from(random.below(3)).expect("small")];
        let mut spelling = Spelling {
            random,
            body: Vec::new(),
            dtype,
            shape,
        };
        let (result, wanted) = match seed % 5 {
            0 => (spelling.softmax(false), "hbir.softmax"),
            1 => (spelling.softmax(true), "hbir.log_softmax"),
            2 => (spelling.norm(true), "hbir.layer_norm"),
            3 => (spelling.norm(false), "hbir.rms_norm"),
            _ => (spelling.gelu(), "hbir.gelu"),
        };
        let ty = spelling.ty(&spelling.shape);
        let body = spelling.body.join("\n");
        let source =
            format!("func.func @main(%x: {ty}) -> {ty} {{\n{body}\n  return {result} : {ty}\n}}");
        let module = parse(&source);
        let ran = run_passes(
            &module,
            "canonicalize",
            "cpu",
            &Boundary::default(),
            &registry,
        );
        let ran = ran.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{source}"));
        let printed = text::print(&ran.module);
        assert!(printed.contains(wanted), "seed {seed}\n{source}\n{printed}");
        let left = ran.module.funcs[0].body.len();
        assert!(
            left <= 2,
            "seed {seed}: {left} operations\n{source}\n{printed}"
        );
        same_meaning(&module, &ran.module, &registry)
            .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{source}"));
    }
}
