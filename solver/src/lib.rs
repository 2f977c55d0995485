//! Minimises a sum of cost tables over variables with finite domains.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! For example, let `a`, `b` and `c` be three values that each lie row-major (state 0) or column-major (state 1). `a` is
//! given row-major and `c` is wanted column-major; a conversion of `a` to `b` moves 10 bytes, one of `b` to `c` 4.
//!
//! ```
//! use optc_solver::{Aim, Asked, Columns, Draft, Starts, cost, movement};
//! use std::rc::Rc;
//!
//! let (free, dear) = (cost(0, 0), cost(100, 0));
//! let change = |bytes| vec![free, cost(bytes, 0), cost(bytes, 0), free];
//! let pair = |bytes| Rc::new(Columns::of(change(bytes), 2, vec![0, 1]));
//! let mut draft = Draft::over(vec![2, 2, 2]);
//! draft.add(&[0], Rc::new(Columns::single([free, dear].into_iter())));
//! draft.add(&[0, 1], pair(10));
//! draft.add(&[1, 2], pair(4));
//! draft.add(&[2], Rc::new(Columns::single([dear, free].into_iter())));
//! let solution = draft.written().solve(Starts {
//!     near: None,
//!     safe: &mut || None,
//!     asked: Asked::surely(),
//!     aim: Aim::Both,
//! });
//! assert_eq!(solution.states, [0, 0, 1]);
//! assert_eq!(movement(solution.cost), 4);
//! assert!(solution.proven);
//! ```
//!
//! The crate knows variables and tables alone, no program and no layout. Its limits are counts, and its result depends
//! on nothing but the problem.
//!
//! # Files
//! - `problem.rs` defines costs, tables and limits, and `draft.rs` problems whose tables are not yet expanded.
//! - `solve.rs` is the order of the search, `eliminate.rs` eliminates one variable, `near.rs` counts which variables
//!   share tables, and `integer.rs` writes what elimination leaves as an integer programme.
//! - `asked.rs` ends a search whose result is not needed.

mod asked;
mod draft;
mod eliminate;
mod integer;
mod maps;
mod near;
mod problem;
mod solve;

pub use asked::{Asked, Ending};
pub use draft::{Columns, Draft, Written};
pub use problem::{
    Aim, Cost, Factor, INFEASIBLE, Packing, Problem, Table, Vars, Word, cost, movement,
};
pub use solve::{Later, Solution, Starts, relax};
