use super::*;
use crate::effects::Effects;
use crate::module::{Func, Module, Op, Value};
use crate::op::Registry;
use crate::text::parse;

/// `%0` has two uses in `%1`, `%2` has no use, `%3` is returned.
const TEXT: &str = r#"
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "x.relu"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "x.add"(%0, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  "x.print"(%1) : (tensor<2xf32>) -> ()
  %2 = "x.neg"(%1) : (tensor<2xf32>) -> tensor<2xf32>
  %3 = "x.add"(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}
"#;

fn module() -> Module {
    parse(TEXT).expect("the text is read")
}

/// The operations of the body that compute `%0` to `%3`, and the one without results.
fn ops(func: &Func) -> ([Op; 4], Op) {
    let b = &func.body;
    ([b[0], b[1], b[3], b[4]], b[2])
}

fn result(func: &Func, op: Op) -> Value {
    func.ops[op].results[0]
}

#[test]
fn an_operand_that_is_read_twice_is_two_uses() {
    let module = module();
    let func = &module.funcs[0];
    let ([a, b, c, d], print) = ops(func);
    let uses = Uses::of(func);
    assert_eq!(uses.readers(func.args[0]), [a]);
    assert_eq!(uses.readers(result(func, a)), [b, b, d]);
    assert_eq!(uses.readers(result(func, b)), [print, c, d]);
    assert!(!uses.is_used(result(func, c)));
    assert!(uses.is_returned(result(func, d)) && uses.is_used(result(func, d)));
    assert!(!uses.is_returned(result(func, a)));
}

#[test]
fn operations_without_results_have_a_place_and_no_number() {
    let mut module = module();
    let func = &mut module.funcs[0];
    let ([a, _, c, _], print) = ops(func);
    let order = Order::of(func);
    assert_eq!((order.place(a), order.number(a)), (Some(0), Some(0)));
    assert_eq!((order.place(print), order.number(print)), (Some(2), None));
    assert_eq!((order.place(c), order.number(c)), (Some(3), Some(2)));
    assert_eq!(order.definition(func, result(func, c)), Some((3, 0)));
    assert_eq!(order.definition(func, func.args[0]), None);
    func.body.remove(0);
    let order = Order::of(func);
    assert_eq!(order.place(a), None);
    assert_eq!(order.definition(func, result(func, a)), None);
}

#[test]
fn what_nobody_declared_stays_live() {
    let module = module();
    let func = &module.funcs[0];
    let registry = Registry::empty();
    let live = live_ops(func, &Effects::of_module(&module, &registry));
    assert!(func.body.iter().all(|&op| live[op]));
}

#[test]
fn values_die_at_the_last_step_that_touches_them() {
    let module = module();
    let func = &module.funcs[0];
    let ([a, b, c, d], print) = ops(func);
    let steps: [&[Op]; 3] = [&[a, b], &[print, c], &[d]];
    let value = |op| result(func, op);
    let wanted = [vec![func.args[0]], vec![value(c)], vec![value(a), value(b)]];
    assert_eq!(last_uses(func, steps), wanted);
    assert_eq!(last_uses(func, []), Vec::<Vec<Value>>::new());
}

#[test]
fn values_leave_their_part_where_another_part_or_the_return_uses_them() {
    let module = module();
    let func = &module.funcs[0];
    let ([a, b, c, d], _) = ops(func);
    let value = |op| result(func, op);
    let one = live_outs(func, |op| (op == a || op == b).then_some(0));
    assert!(one[value(a)] && one[value(b)] && one[value(d)]);
    assert!(one[func.args[0]], "an argument is in no part");
    assert!(!one[value(c)], "nothing uses it");
    let all = live_outs(func, |_| Some(0));
    assert!(!all[value(a)] && !all[value(b)] && all[value(d)]);
}
