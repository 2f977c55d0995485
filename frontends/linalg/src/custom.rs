//! The forms in which MLIR prints the operations that are read; any other operation is read in generic form.
//!
//! A named operation of `linalg` has no body in its printed form; `bodies.rs` makes the one that it means.

use crate::bodies::{body, combining};
use optc_mlir_syntax::{Op, Parsed, Parser, Region};
use std::ops::{Deref, DerefMut};

/// Reads the text after the name of an operation.
pub(crate) fn read<'a>(parser: &mut Parser<'a>, op: &mut Op<'a>) -> Parsed<()> {
    let mut custom = Custom(parser);
    match op.name.split_once('.') {
        _ if matches!(
            op.name,
            "return" | "func.return" | "linalg.yield" | "tensor.yield"
        ) =>
        {
            custom.end(op)
        }
        _ if matches!(op.name, "call" | "func.call") => custom.call(op),
        Some(("arith", "constant")) => custom.constant(op),
        Some(("arith", "cmpf" | "cmpi")) => custom.compare(op),
        Some(("arith" | "math", _)) => custom.element(op),
        Some(("tensor", _)) => custom.tensor(op),
        Some(("linalg", "index")) => custom.index(op),
        Some(("linalg", _)) => custom.structured(op),
        _ => Err(custom.unknown(op)),
    }
}

/// A parser of the printed forms.
struct Custom<'p, 'a>(&'p mut Parser<'a>);

impl<'a> Deref for Custom<'_, 'a> {
    type Target = Parser<'a>;
    fn deref(&self) -> &Parser<'a> {
        self.0
    }
}

impl<'a> DerefMut for Custom<'_, 'a> {
    fn deref_mut(&mut self) -> &mut Parser<'a> {
        self.0
    }
}

impl<'a> Custom<'_, 'a> {
    fn unknown(&mut self, op: &Op<'a>) -> Box<optc_ir::Diagnostic> {
        let wanted = format!(
            "the generic form, `\"{}\"(…) : (…) -> …`, as by `mlir-opt --mlir-print-op-generic`",
            op.name
        );
        self.cursor.at = op.span.start as usize;
        self.cursor.wanted(&wanted)
    }

    /// `%a, %b`, if there are any.
    fn operands(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        while self.cursor.peek() == b'%' {
            op.operands.push(self.used()?);
            if !self.cursor.eat(",") {
                break;
            }
        }
        Ok(())
    }

    /// `T, T`.
    fn type_list(&mut self, out: &mut Vec<&'a str>) -> Parsed<()> {
        loop {
            out.push(self.ty()?);
            if !self.cursor.eat(",") {
                return Ok(());
            }
        }
    }

    fn end(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        self.operands(op)?;
        if self.cursor.eat(":") {
            self.type_list(&mut op.operand_types)?;
        }
        Ok(())
    }

    fn call(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        self.cursor.skip();
        let start = self.cursor.at;
        self.cursor.symbol()?;
        let callee = self.cursor.text.get(start..self.cursor.at).unwrap_or("");
        op.attrs.push(("callee", callee));
        self.cursor.expect("(")?;
        self.operands(op)?;
        self.cursor.expect(")")?;
        self.cursor.expect(":")?;
        self.types(&mut op.operand_types)?;
        self.cursor.expect("->")?;
        self.types(&mut op.result_types)
    }

    /// `dense<…> : T`, `1.0 : f32` or `true`.
    fn constant(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        if self.cursor.eat("{") {
            self.dictionary("}")?;
        }
        self.cursor.skip();
        let start = self.cursor.at;
        for truth in ["true", "false"] {
            if self.cursor.eat_word(truth) {
                op.attrs.push(("value", truth));
                op.result_types.push("i1");
                return Ok(());
            }
        }
        while !matches!(self.cursor.peek(), b':' | 0) {
            match self.cursor.peek() {
                b'<' | b'(' | b'[' => drop(self.cursor.balanced()?),
                _ if self.cursor.word().is_some() => {}
                b'-' | b'+' => self.cursor.at += 1,
                _ => return Err(self.cursor.wanted("the elements of a constant")),
            }
        }
        self.cursor.expect(":")?;
        op.result_types.push(self.ty()?);
        let value = self.cursor.text.get(start..self.cursor.at).unwrap_or("");
        op.attrs.push(("value", value));
        Ok(())
    }

    /// `ogt, %a, %b : T`; the predicate becomes its number.
    fn compare(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        const FLOATS: [&str; 16] = [
            "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult",
            "ule", "une", "uno", "true",
        ];
        const INTEGERS: [&str; 10] = [
            "eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge",
        ];
        const NUMBERS: [&str; 16] = [
            "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
        ];
        let names = if op.name == "arith.cmpf" {
            &FLOATS[..]
        } else {
            &INTEGERS
        };
        let word = self.cursor.word();
        let Some(number) = names.iter().position(|&name| Some(name) == word) else {
            return Err(self.cursor.wanted("a comparison"));
        };
        op.attrs.push(("predicate", NUMBERS[number]));
        self.cursor.expect(",")?;
        self.operands(op)?;
        self.past_flags()?;
        self.cursor.expect(":")?;
        let ty = self.ty()?;
        op.operand_types = vec![ty; 2];
        // The result has the shape of the operands.
        let result = match ty.strip_prefix("tensor<") {
            None => "i1",
            Some(_) => return Err(self.unknown(op)),
        };
        op.result_types.push(result);
        Ok(())
    }

    /// `fastmath<…>`, `overflow<…>` and a dictionary.
    fn past_flags(&mut self) -> Parsed<()> {
        loop {
            if self.cursor.eat_word("fastmath") || self.cursor.eat_word("overflow") {
                self.cursor.balanced()?;
            } else if self.cursor.eat("{") {
                self.dictionary("}")?;
            } else {
                return Ok(());
            }
        }
    }

    /// `%a, %b : T` or `%a : T to U`.
    fn element(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        self.operands(op)?;
        self.past_flags()?;
        self.cursor.expect(":")?;
        self.type_list(&mut op.operand_types)?;
        let last = *op.operand_types.last().unwrap_or(&"");
        let result = if self.cursor.eat_word("to") {
            self.ty()?
        } else {
            last
        };
        op.result_types.push(result);
        Ok(())
    }

    fn index(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        let Some(dim) = self.cursor.word() else {
            return Err(self.cursor.wanted("the number of a loop"));
        };
        op.attrs.push(("dim", dim));
        self.cursor.expect(":")?;
        op.result_types.push(self.ty()?);
        Ok(())
    }

    /// A list in brackets. One that names values is read in generic form only.
    fn list(&mut self, op: &Op<'a>) -> Parsed<&'a str> {
        let text = self.cursor.balanced()?;
        match text.starts_with('[') && !text.contains(['%', '?']) {
            true => Ok(text),
            false => Err(self.unknown(op)),
        }
    }

    /// An operation of the dialect `tensor`: an operand, words, lists, and the types.
    fn tensor(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        let lists: &[&str] = match op.name {
            "tensor.empty" => {
                self.cursor.expect("(")?;
                self.cursor.expect(")")?;
                &[]
            }
            "tensor.cast" => &[],
            "tensor.expand_shape" | "tensor.collapse_shape" => &["reassociation"],
            "tensor.extract_slice" | "tensor.insert_slice" => {
                &["static_offsets", "static_sizes", "static_strides"]
            }
            "tensor.pad" => return self.pad(op),
            "tensor.concat" => return self.concat(op),
            "tensor.pack" | "tensor.unpack" => return self.pack(op),
            _ => return Err(self.unknown(op)),
        };
        self.operands(op)?;
        if self.cursor.eat_word("into") {
            self.operands(op)?;
        }
        for &name in lists {
            let text = self.list(op)?;
            op.attrs.push((name, text));
        }
        if self.cursor.eat_word("output_shape") {
            self.list(op)?;
        }
        self.cursor.expect(":")?;
        let ty = self.ty()?;
        op.operand_types.push(ty);
        let to = ["to", "into"].iter().any(|word| self.cursor.eat_word(word));
        op.result_types.push(if to { self.ty()? } else { ty });
        Ok(())
    }

    fn pad(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        self.operands(op)?;
        self.cursor.eat_word("nofold");
        for (word, name) in [("low", "static_low"), ("high", "static_high")] {
            if !self.cursor.eat_word(word) {
                return Err(self.cursor.wanted(&format!("`{word}`")));
            }
            let text = self.list(op)?;
            op.attrs.push((name, text));
        }
        let region = self.region()?;
        op.regions.push(region);
        self.cursor.expect(":")?;
        op.operand_types.push(self.ty()?);
        self.cursor.eat_word("to");
        op.result_types.push(self.ty()?);
        Ok(())
    }

    fn concat(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        if !self.cursor.eat_word("dim") {
            return Err(self.cursor.wanted("`dim`"));
        }
        self.cursor.expect("(")?;
        let dim = self.cursor.word().unwrap_or("");
        op.attrs.push(("dim", dim));
        self.cursor.expect(")")?;
        self.operands(op)?;
        self.cursor.expect(":")?;
        self.types(&mut op.operand_types)?;
        self.cursor.expect("->")?;
        self.types(&mut op.result_types)
    }

    /// A pack or an unpack.
    fn pack(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        self.operands(op)?;
        let mut filler = None;
        if self.cursor.eat_word("padding_value") {
            self.cursor.expect("(")?;
            filler = Some(self.used()?);
            self.cursor.expect(":")?;
            self.ty()?;
            self.cursor.expect(")")?;
        }
        let lists = [
            ("outer_dims_perm", "outer_dims_perm"),
            ("inner_dims_pos", "inner_dims_pos"),
            ("inner_tiles", "static_inner_tiles"),
        ];
        for (word, name) in lists {
            if self.cursor.eat_word(word) {
                self.cursor.expect("=")?;
                let text = self.list(op)?;
                op.attrs.push((name, text));
            }
        }
        self.cursor.eat_word("into");
        self.operands(op)?;
        let sizes = match filler {
            Some(used) => {
                op.operands.push(used);
                "[1, 1, 1, 0]"
            }
            None => "[1, 1, 0, 0]",
        };
        op.attrs.push(("operandSegmentSizes", sizes));
        self.cursor.expect(":")?;
        op.operand_types.push(self.ty()?);
        self.cursor.expect("->")?;
        op.result_types.push(self.ty()?);
        Ok(())
    }

    /// `ins(%a, %b : T, T)` and `outs(%c : T)`; returns the number of operands in `outs`.
    fn ports(&mut self, op: &mut Op<'a>) -> Parsed<usize> {
        let mut last = 0;
        for word in ["ins", "outs"] {
            if !self.cursor.eat_word(word) {
                continue;
            }
            self.cursor.expect("(")?;
            let before = op.operands.len();
            self.operands(op)?;
            if self.cursor.eat(":") {
                self.type_list(&mut op.operand_types)?;
            }
            self.cursor.expect(")")?;
            last = op.operands.len() - before;
        }
        if op.operands.len() != op.operand_types.len() {
            return Err(self.cursor.wanted("as many types as operands"));
        }
        Ok(last)
    }

    /// An operation of `linalg` with its operands in `ins` and `outs`.
    fn structured(&mut self, op: &mut Op<'a>) -> Parsed<()> {
        let mut short = None;
        if self.cursor.peek() == b'{' {
            if matches!(op.name, "linalg.reduce" | "linalg.map") {
                self.cursor.expect("{")?;
                short = self.cursor.word();
                self.past_flags()?;
                self.cursor.expect("}")?;
            } else {
                self.cursor.expect("{")?;
                op.attrs = self.dictionary("}")?;
            }
        }
        if self.cursor.eat_word("dimension") {
            self.cursor.expect("(")?;
            let axis = self.cursor.word().unwrap_or("");
            op.attrs.push(("dimension", axis));
            self.cursor.expect(")")?;
        }
        let outs = self.ports(op)?;
        for name in ["permutation", "dimensions"] {
            if self.cursor.eat_word(name) {
                self.cursor.expect("=")?;
                let text = self.list(op)?;
                op.attrs.push((name, text));
            }
        }
        let region = self.own_region()?;
        let first = op.operand_types.len() - outs;
        let region = match (region, short) {
            (Some(region), _) => Some(region),
            (None, Some(name)) => combining(op, name),
            (None, None) => body(op),
        };
        op.regions.extend(region);
        if self.cursor.eat("->") {
            return self.types(&mut op.result_types);
        }
        op.result_types = op.operand_types[first..].to_vec();
        Ok(())
    }

    /// The body of an operation, if it is written: `{ ^bb0(…): … }` or `(%a: T) { … }`.
    fn own_region(&mut self) -> Parsed<Option<Region<'a>>> {
        match self.cursor.peek() {
            b'{' => self.region().map(Some),
            b'(' => {
                self.cursor.expect("(")?;
                let args = if self.cursor.eat(")") {
                    Vec::new()
                } else {
                    self.arguments()?
                };
                self.cursor.expect("{")?;
                self.block(args).map(Some)
            }
            _ => Ok(None),
        }
    }
}
