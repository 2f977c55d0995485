//! Seeded failures of large programs become small programs.

use optc_compare::SplitMix64;
use optc_ir::{Func, Module, Op};
use optc_reduce::reduce;
use optc_tests::check::round_trip;
use optc_tests::{Profile, program_of};

/// The operations of a function that produce the operands of an operation, in order.
fn producers(func: &Func, op: Op) -> Vec<&str> {
    let operands = func.ops[op].operands.iter();
    let ops = operands.filter_map(|&v| func.def_op(v));
    ops.map(|op| &*func.ops[op].name).collect()
}

/// A failure: an operation that reads the result of another one, somewhere behind a third one.
struct Failure {
    reader: String,
    producer: String,
    before: String,
}

impl Failure {
    fn seeded(module: &Module, rng: &mut SplitMix64) -> Option<Failure> {
        let func = &module.funcs[0];
        let at = rng.below(func.body.len() as u64) as usize;
        let op = func.body[at];
        let before = func.body[rng.below(at.max(1) as u64) as usize];
        Some(Failure {
            reader: func.ops[op].name.to_string(),
            producer: (*producers(func, op).first()?).to_owned(),
            before: func.ops[before].name.to_string(),
        })
    }

    fn shows(&self, module: &Module) -> bool {
        let func = &module.funcs[0];
        let mut names = func.body.iter().map(|&op| &*func.ops[op].name);
        let reads = |&op: &Op| {
            *func.ops[op].name == *self.reader && producers(func, op).contains(&&*self.producer)
        };
        names.any(|name| name == self.before) && func.body.iter().any(reads)
    }
}

#[test]
fn twenty_seeded_failures_become_programs_of_a_few_operations() {
    let registry = optc_ops::registry();
    let mut rng = SplitMix64::new(7);
    let (mut cases, mut tests) = (0, 0);
    for seed in 0.. {
        if cases == 20 {
            break;
        }
        let count = [60, 250, 700, 2000][cases % 4];
        let module = program_of(seed, Profile::Mixed, count, &registry);
        let Some(failure) = Failure::seeded(&module, &mut rng) else {
            continue;
        };
        cases += 1;
        let mut shows = |m: &Module| failure.shows(m);
        let found = reduce(&module, &registry, &mut shows).expect("it fails");
        tests += found.tests;
        let left = found.module.funcs[0].body.len();
        let text = optc_ir::text::print(&found.module);
        assert!(
            left < 12,
            "seed {seed}: {left} operations of {count}\n{text}"
        );
        round_trip(&found.module, &registry).expect("it is well formed");
        let again = reduce(&module, &registry, &mut shows).expect("it fails");
        assert_eq!(optc_ir::text::print(&again.module), text, "seed {seed}");
    }
    assert!(tests < 20_000, "{tests} programs tried");
}
