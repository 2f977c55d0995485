//! Kernels of vectors: arithmetic on program ids, `10*program_id(1)+program_id(0)`.

use super::error::{VectorError, expected};
use optc::tile::block::Grid;

/// The deepest nesting of parentheses that is read.
const MAX_DEPTH: usize = 64;

/// The number that the kernel `text` computes for a program, in Python's arithmetic on `int32`.
pub(super) fn evaluate(text: &str, grid: &Grid, program: &[i64]) -> Result<i64, VectorError> {
    if text == "show_program_ids" {
        let digits = program
            .iter()
            .fold(0i64, |n, id| n.wrapping_mul(10).wrapping_add(*id));
        return Ok(digits);
    }
    let mut reader = Reader {
        rest: text,
        grid,
        program,
    };
    let value = reader.sum(0)?;
    if reader.peek().is_some() {
        return Err(reader.refuse("an operator"));
    }
    Ok(value)
}

struct Reader<'a> {
    rest: &'a str,
    grid: &'a Grid,
    program: &'a [i64],
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }
    fn take(&mut self, token: &str) -> bool {
        self.peek();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
    fn want(&mut self, token: &str) -> Result<(), VectorError> {
        if self.take(token) {
            return Ok(());
        }
        Err(self.refuse(&format!("`{token}`")))
    }
    fn refuse(&self, wanted: &str) -> VectorError {
        expected(
            format!("{wanted} in the kernel"),
            format!("`{}`", self.rest),
        )
    }

    fn sum(&mut self, depth: usize) -> Result<i64, VectorError> {
        let mut value = self.product(depth)?;
        loop {
            if self.take("+") {
                value = value.wrapping_add(self.product(depth)?);
            } else if self.take("-") {
                value = value.wrapping_sub(self.product(depth)?);
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self, depth: usize) -> Result<i64, VectorError> {
        let mut value = self.power(depth)?;
        loop {
            if self.take("*") {
                value = value.wrapping_mul(self.power(depth)?);
            } else if self.take("//") {
                value = value.div_euclid(self.divisor(depth)?);
            } else if self.take("%") {
                value = value.rem_euclid(self.divisor(depth)?);
            } else {
                return Ok(value);
            }
        }
    }

    fn divisor(&mut self, depth: usize) -> Result<i64, VectorError> {
        match self.power(depth)? {
            n if n > 0 => Ok(n),
            n => Err(expected("a positive divisor in the kernel", n)),
        }
    }

    fn power(&mut self, depth: usize) -> Result<i64, VectorError> {
        let base = self.atom(depth)?;
        if !self.take("**") {
            return Ok(base);
        }
        let exponent = self.atom(depth)?;
        let exponent =
            u32::try_from(exponent).map_err(|_| expected("an exponent from 0", exponent))?;
        Ok(base.wrapping_pow(exponent))
    }

    fn atom(&mut self, depth: usize) -> Result<i64, VectorError> {
        if depth > MAX_DEPTH {
            return Err(VectorError::Depth(MAX_DEPTH));
        }
        if self.take("-") {
            return Ok(self.atom(depth + 1)?.wrapping_neg());
        }
        if self.take("(") {
            let value = self.sum(depth + 1)?;
            self.want(")")?;
            return Ok(value);
        }
        self.take("pl.");
        if self.take("program_id") {
            let axis = self.axis()?;
            return Ok(self.grid.program_id(self.program, axis)?);
        }
        if self.take("num_programs") {
            let axis = self.axis()?;
            return Ok(self.grid.num_programs(axis)?);
        }
        self.number()
    }

    /// `(1)`, or `(axis=1)`.
    fn axis(&mut self) -> Result<usize, VectorError> {
        self.want("(")?;
        if self.take("axis") {
            self.want("=")?;
        }
        let axis = self.number()?;
        self.want(")")?;
        usize::try_from(axis).map_err(|_| expected("an axis", axis))
    }

    fn number(&mut self) -> Result<i64, VectorError> {
        self.peek();
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        let value = digits
            .parse()
            .map_err(|_| self.refuse("a number or `program_id(…)`"))?;
        self.rest = rest;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: i64) {
        let grid = Grid::new(vec![4, 7]).expect("a grid");
        let found = evaluate(text, &grid, &[3, 5]);
        assert_eq!(found.ok(), Some(expected), "{text}");
    }

    #[test]
    fn kernels_follow_the_rules_of_python() {
        check("show_program_ids", 35);
        check("10*program_id(1)+program_id(0)", 53);
        check("pl.program_id(axis=0) * (2 - -1) ** 2", 27);
        check("(0 - program_id(1)) // 2 + (0-1) % 4", 0);
        check("num_programs(1) - 1", 6);
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        let grid = Grid::new(vec![4, 7]).expect("a grid");
        let deep = "(".repeat(10_000);
        for text in [
            "",
            "1 +",
            "program_id(2)",
            "1 // 0",
            "f(1)",
            "1 2",
            deep.as_str(),
        ] {
            assert!(evaluate(text, &grid, &[3, 5]).is_err(), "{text}");
        }
    }
}
