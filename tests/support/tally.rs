//! Counts of what a test compares and of what it leaves out.

use std::fmt::Display;

/// The programs that a test compared, and those that it left out because an oracle cannot run them.
///
/// For example, 79 of 80 random programs are compared, and one is left out because an index is out of bounds.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    compared: usize,
    left_out: Vec<String>,
}

impl Tally {
    /// Counts a program that is compared.
    pub fn compared(&mut self) {
        self.compared += 1;
    }

    /// Counts a program that is not compared, and keeps the reason.
    pub fn leave_out(&mut self, why: impl Display) {
        self.left_out.push(why.to_string());
    }

    /// Prints what was left out.
    ///
    /// # Panics
    /// If nothing was compared, or more than one program in `parts` was left out.
    #[expect(clippy::print_stdout, reason = "shown with the output of a test")]
    pub fn leaves_out_at_most_one_in(&self, parts: usize) {
        let (left, all) = (self.left_out.len(), self.compared + self.left_out.len());
        println!("{left} of {all} programs were left out");
        for why in &self.left_out {
            println!("  {why}");
        }
        assert!(
            0 < self.compared && parts * left <= all,
            "{left} of {all} programs were left out: {:#?}",
            self.left_out
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_programs_must_be_compared() {
        let fails = |compared: usize, left_out: usize| {
            let mut tally = Tally::default();
            (0..compared).for_each(|_| tally.compared());
            (0..left_out).for_each(|n| tally.leave_out(n));
            std::panic::catch_unwind(|| tally.leaves_out_at_most_one_in(10)).is_err()
        };
        assert!(fails(0, 0) && fails(0, 5) && fails(8, 1));
        assert!(!fails(1, 0) && !fails(9, 1));
    }
}
