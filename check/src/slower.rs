//! The cost of an operation by the innermost dimensions of its ports, on a machine without tiles.

use crate::amount::{Amount, bytes_of};
use crate::digits::digits;
use crate::labels::{is_of, labels_of, role};
use crate::ports::{ports, some_layout};
use optc_ir::size::SizeTable;
use optc_ir::{Freedom, FreedomClass, Func, Op};
use optc_ops::Dequantized;
use optc_target::Row;

/// The sum of the prices that the row states for the ports, at these sizes.
pub(crate) fn price(
    (func, dequantized): (&Func, &Dequantized),
    op: Op,
    freedom: &Freedom,
    row: &Row,
    sizes: &SizeTable,
) -> Amount {
    let mut sum = Amount::default();
    if matches!(freedom.class, FreedomClass::Barrier | FreedomClass::Source) {
        return sum;
    }
    let values = ports(func, op);
    let n_operands = freedom.operands.len();
    for slower in &row.slower {
        let taken = is_of((func, dequantized), op, freedom, slower.when);
        let price = slower.price();
        let port = price.port.index(n_operands);
        let Some(&value) = values.get(port).filter(|_| taken) else {
            continue;
        };
        let modes = some_layout(func, value).and_then(|layout| digits(&layout).ok());
        let last = modes
            .as_ref()
            .and_then(|all| all.iter().rfind(|m| 1 < m.count));
        let label = last.and_then(|m| labels_of(freedom, port).get(m.dim).copied().flatten());
        let is_of = label.is_some_and(|label| slower.is_of(role(freedom, label, n_operands)));
        let digits = modes.iter().flatten().filter(|m| 1 < m.count);
        let torn: Vec<bool> = digits
            .map(|m| {
                let label = labels_of(freedom, port).get(m.dim).copied().flatten();
                label.is_some_and(|label| slower.is_of_runs(role(freedom, label, n_operands)))
            })
            .collect();
        let begins = torn.iter().zip([false].iter().chain(&torn));
        let is_of = is_of || 1 < begins.filter(|(is, was)| **is && !**was).count();
        if let Some(ty) = func.ty(value).as_tensor().filter(|_| is_of) {
            sum.add(&bytes_of(ty, sizes).priced(price, sizes), sizes);
        }
    }
    sum
}
