//! Checks that the digits of ports end in the runs that a row of the target lists.

use crate::amount::{Amount, bytes_of};
use crate::digits::digits;
use crate::ports::{Run, all_row_major, joined, layout_of, ports, some_layout};
use optc_ir::size::SizeTable;
use optc_ir::{Freedom, Func, Op, Role, Value};
use optc_layout::Layout;
use optc_target::{Alternative, PortRole, Row};

/// The digits of a port by label; `None` for a port without elements or with unknown sizes.
type Order = Option<Vec<Run>>;

fn orders(
    func: &Func,
    op: Op,
    freedom: &Freedom,
    layout_of: fn(&Func, Value) -> Option<Layout>,
) -> Result<Vec<Order>, String> {
    let labels: Vec<&Vec<Option<usize>>> =
        freedom.operands.iter().chain(&freedom.results).collect();
    let mut all = Vec::new();
    for (port, value) in ports(func, op).into_iter().enumerate() {
        let Some(layout) = layout_of(func, value) else {
            all.push(None);
            continue;
        };
        let mut order = Vec::new();
        for mode in digits(&layout)? {
            if mode.extent != mode.count {
                return Err(format!("port {port} is padded"));
            }
            let label = labels
                .get(port)
                .and_then(|l| l.get(mode.dim).copied().flatten());
            if let Some(label) = label.filter(|_| 1 < mode.count) {
                let (div, count) = (mode.div, mode.count);
                order.push(Run { label, div, count });
            }
        }
        all.push(Some(order));
    }
    Ok(all)
}

/// Checks that the ports of one common order end in the runs that an alternative lists, or that all are row-major.
pub(crate) fn common(
    func: &Func,
    op: Op,
    freedom: &Freedom,
    rule: &Alternative,
) -> Result<(), String> {
    if rule.ends.is_empty() || all_row_major(func, op).is_ok() {
        return Ok(());
    }
    for (port, order) in orders(func, op, freedom, layout_of)?.iter().enumerate() {
        let Some(order) = order else { continue };
        if !ends_so(rule, freedom, order) {
            return Err(format!(
                "port {port} does not end in the dimensions that are worked along, in their order"
            ));
        }
    }
    Ok(())
}

/// Returns whether an order ends as an alternative with one order at all ports lists it.
fn ends_so(rule: &Alternative, freedom: &Freedom, order: &[Run]) -> bool {
    let is_axis = |label: usize| freedom.labels.get(label).map(|l| l.role) == Some(Role::Axis);
    rule.ends.iter().any(|end| {
        // In a common order only axes and other dimensions are distinguished.
        let end: Vec<bool> = end.iter().map(|role| *role == PortRole::Axis).collect();
        let first = order.iter().position(|d| is_axis(d.label));
        let run = &order[first.unwrap_or(order.len())..];
        let together = run.iter().all(|d| is_axis(d.label));
        let natural = |d: &Run| (d.label, std::cmp::Reverse(d.div));
        end == [true] && together && run.is_sorted_by_key(natural)
    })
}

/// The cost of an operation with one order at all ports, at these sizes: the least price of an alternative that takes
/// its orders.
pub(crate) fn price(
    func: &Func,
    op: Op,
    freedom: &Freedom,
    row: &Row,
    sizes: &SizeTable,
) -> Amount {
    let Ok(orders) = orders(func, op, freedom, some_layout) else {
        return Amount::default();
    };
    let (n_operands, n_results) = (freedom.operands.len(), freedom.results.len());
    let takes = |rule: &&Alternative| {
        let ends = |order: &Order| order.as_ref().is_none_or(|o| ends_so(rule, freedom, o));
        rule.is_for(n_operands, n_results) && (rule.ends.is_empty() || orders.iter().all(ends))
    };
    let values = ports(func, op);
    let price = |rule: &Alternative| {
        let price = rule.price?;
        let ty = func.ty(*values.get(price.port.index(n_operands))?);
        Some(bytes_of(ty.as_tensor()?, sizes).priced(price, sizes))
    };
    let all = row.taken().filter(takes);
    let priced = all.map(|rule| price(rule).unwrap_or_default());
    priced
        .min_by_key(|amount| amount.at(sizes))
        .unwrap_or_default()
}

/// Checks that the ports of a contraction end as an alternative lists, and that the digits before these ends are in one
/// sequence.
pub(crate) fn matrices(
    func: &Func,
    op: Op,
    freedom: &Freedom,
    rule: &Alternative,
) -> Result<(), String> {
    let n_operands = freedom.operands.len();
    if n_operands < 2 || freedom.results.is_empty() {
        return all_row_major(func, op);
    }
    let all = orders(func, op, freedom, layout_of)?;
    let labels = [
        &freedom.operands[0],
        &freedom.operands[1],
        &freedom.results[0],
    ];
    let three = [&all[0], &all[1], &all[n_operands]];
    let [Some(left), Some(right), Some(result)] = three else {
        return Ok(());
    };
    let contraction = Contraction { labels };
    let of = [left.as_slice(), right, result];
    let ends = [0, 1, n_operands].map(|port| rule.port(port, n_operands).ends);
    let taken = ends[0].iter().any(|l| {
        ends[1].iter().any(|r| {
            let mut written = ends[2].iter();
            written.any(|w| contraction.fits(of, [l, r, w], rule))
        })
    });
    // A program that stays as it came is row-major: its format has the operation.
    if taken || all_row_major(func, op).is_ok() {
        return Ok(());
    }
    Err("the ports are no matrices with one batch before them".to_owned())
}

/// The labels of the ports of a contraction.
struct Contraction<'a> {
    labels: [&'a Vec<Option<usize>>; 3],
}

impl Contraction<'_> {
    fn has(&self, port: usize, label: usize) -> bool {
        self.labels[port].contains(&Some(label))
    }

    fn role(&self, label: usize) -> PortRole {
        match [0, 1, 2].map(|port| self.has(port, label)) {
            [true, true, true] => PortRole::Batch,
            [true, true, false] => PortRole::K,
            [true, false, _] => PortRole::M,
            _ => PortRole::N,
        }
    }

    fn fits(&self, of: [&[Run]; 3], ends: [&Vec<PortRole>; 3], rule: &Alternative) -> bool {
        let (mut outer, mut k) = (Vec::new(), Vec::new());
        for (order, end) in of.into_iter().zip(ends) {
            let Some((before, runs)) = self.split(order, end, rule) else {
                return false;
            };
            let inside = end.contains(&PortRole::Batch);
            if (rule.alone || inside) && !before.is_empty() {
                return false;
            }
            let run = |wanted: PortRole| {
                let mut all = runs.iter();
                let found = all.find(|(role, _)| *role == wanted);
                found.map_or(Vec::new(), |(_, digits)| digits.clone())
            };
            k.push(sequence(&run(PortRole::K)));
            outer.push(
                [
                    before,
                    run(PortRole::Batch),
                    run(PortRole::M),
                    run(PortRole::N),
                ]
                .concat(),
            );
        }
        if k[0] != k[1] {
            return false;
        }
        (0..2).all(|port| {
            // The matrix of an operand has one of the two runs; in the result each of the two follows the batch.
            let here = |role: PortRole| {
                let own = |d: &&Run| {
                    let of = self.role(d.label);
                    self.has(port, d.label) && (of == PortRole::Batch || of == role)
                };
                let own_order: Vec<Run> = outer[port].iter().filter(own).copied().collect();
                let in_result: Vec<Run> = outer[2].iter().filter(own).copied().collect();
                sequence(&own_order) == sequence(&in_result)
            };
            here(if port == 0 { PortRole::M } else { PortRole::N })
        })
    }

    /// The digits before the runs of an end, and these runs; `None` if the order ends otherwise.
    #[expect(clippy::type_complexity, reason = "a pair that two lines take apart")]
    fn split(
        &self,
        order: &[Run],
        end: &[PortRole],
        rule: &Alternative,
    ) -> Option<(Vec<Run>, Vec<(PortRole, Vec<Run>)>)> {
        let mut rest = order.to_vec();
        let mut runs = Vec::new();
        for &role in end.iter().rev() {
            let from = rest.iter().rposition(|d| self.role(d.label) != role);
            let run = rest.split_off(from.map_or(0, |at| at + 1));
            let left_over = rest.iter().any(|d| self.role(d.label) == role);
            let enough =
                run.iter().fold(1u64, |n, d| n.saturating_mul(d.count)) >= rule.least.unwrap_or(1);
            let cut = matches!(role, PortRole::M | PortRole::N) && !rule.whole.contains(&role);
            let part = cut && !run.is_empty() && enough;
            if left_over && !part {
                return None;
            }
            runs.push((role, run));
        }
        let sums = rest.iter().any(|d| self.role(d.label) == PortRole::K);
        (!sums).then_some((rest, runs))
    }
}

/// Label and divisor of digits; digits that follow one another in one label count as one.
fn sequence(digits: &[Run]) -> Vec<(usize, u64)> {
    let runs = joined(digits.iter().copied());
    runs.iter().map(|d| (d.label, d.div)).collect()
}
