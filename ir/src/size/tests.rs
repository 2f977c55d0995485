use super::*;

#[track_caller]
fn read(text: &str) -> Size {
    Size::parse(text).unwrap_or_else(|| panic!("`{text}` is a size"))
}

#[track_caller]
fn prints(text: &str, wanted: &str) {
    let size = read(text);
    assert_eq!(size.to_string(), wanted);
    assert_eq!(read(wanted), size, "{wanted} reads back");
}

#[test]
fn equal_sizes_print_alike() {
    prints("S*B", "B*S");
    prints("1+S", "S+1");
    prints("S + S", "2*S");
    prints("(S+1)*(S-1)", "S*S-1");
    prints("S-S", "0");
    prints("B*S*768/768", "B*S");
    prints("(B*S+B)/(S+1)", "B");
    prints("(S+1)//2", "(S+1)//2");
    prints("(4*S+3)//8", "S//2");
    prints("(5*S+130)/128", "((5*S+2)//128)+1");
    prints("ceil(S/128)*128", "128*((S+127)//128)");
    prints("min(S,1024)", "min(1024,S)");
    prints("max(S,1)", "S");
    prints("min(S, S+1)", "S");
    prints("max(max(P,S),S)", "max(S,P)");
    prints("min(P,min(P,S))", "min(S,P)");
    prints("S%7", "S-7*(S//7)");
    prints("`a b`*2", "2*`a b`");
    prints("2 - 3*S", "-3*S+2");
}

#[test]
fn text_that_is_no_expression_is_one_name() {
    for name in [
        "unk 0", "3", "", "B*", "é", "a`b", "floor", "1x", "B**2", "0/0",
    ] {
        let size = Size::of_text(name);
        assert!(size.as_name().is_some(), "{name}");
        assert_eq!(Size::of_text(&size.to_text()), size, "{name}");
        assert_eq!(read(&size.to_string()), size, "{name}");
    }
    assert_eq!(Size::of_text("S*B").to_text(), "B*S");
    let deep = format!("{}S{}", "(".repeat(99), ")".repeat(99));
    assert!(Size::of_text(&deep).as_name().is_some());
}

/// Arithmetic on expressions of two names agrees with the same arithmetic on numbers.
#[test]
fn arithmetic_agrees_with_numbers() {
    let (s, b) = (Size::name("S"), Size::name("B"));
    let mut pool = vec![s, b, Size::constant(3), Size::constant(-2)];
    for round in 0..2 {
        let parts = pool.clone();
        for (i, x) in parts.iter().enumerate() {
            for y in parts.iter().skip(i % 3).step_by(1 + round * 20) {
                let made = [
                    x.plus(y),
                    x.minus(y),
                    x.times(y),
                    x.quotient(y),
                    x.minimum(y),
                ];
                pool.extend(made.into_iter().flatten());
            }
        }
        pool.sort();
        pool.dedup();
        assert!(pool.len() < 4000, "round {round}: {}", pool.len());
    }
    let sizes = |s: u64, b: u64| move |n: &str| Some(if n == "S" { s } else { b });
    for (s, b) in [(1, 1), (2, 3), (7, 5), (128, 1)] {
        for (i, x) in pool.iter().enumerate() {
            let y = &pool[(i * 31 + 7) % pool.len()];
            let (p, q) = (x.eval(&sizes(s, b)).unwrap(), y.eval(&sizes(s, b)).unwrap());
            let agree = |made: Option<Size>, wanted: Option<i128>| {
                if let Some(made) = made {
                    assert_eq!(
                        made.eval(&sizes(s, b)),
                        wanted,
                        "{x} and {y} at S={s}, B={b}"
                    );
                }
            };
            agree(x.plus(y), Some(p + q));
            agree(x.times(y), Some(p * q));
            agree(x.quotient(y), divide::floor(p, q));
            agree(x.quotient_up(y), Some(-divide::floor(-p, q).unwrap_or(0)));
            agree(x.minimum(y), Some(p.min(q)));
            agree(x.maximum(y), Some(p.max(q)));
            if x.is_at_least(1) {
                assert!(1 <= p, "{x} at S={s}, B={b}");
            }
            assert_eq!(Size::parse(&x.to_string()).as_ref(), Some(x));
            let (number, factors) = x.factors();
            let product = Size::product(&factors).and_then(|f| f.times(&Size::constant(number)));
            assert_eq!(product.as_ref(), Some(x));
        }
    }
}

#[test]
fn division_by_what_may_be_zero_is_refused() {
    assert_eq!(read("S").quotient(&Size::constant(0)), None);
    assert_eq!(read("S").quotient(&read("S-1")), None);
    assert_eq!(Size::parse("S/(B-1)"), None);
}

#[test]
fn overflow_is_no_number() {
    let huge = Size::constant(i128::MAX);
    assert_eq!(huge.plus(&Size::constant(1)), None);
    assert_eq!(huge.times(&read("2*S")), None);
    assert_eq!(
        huge.times(&read("S")).and_then(|p| p.eval(&|_| Some(2))),
        None
    );
    assert_eq!(SizeTable::default().value(&huge), u64::MAX);
    assert_eq!(SizeTable::default().value(&read("S-500")), 0);
    let many: String = (0..300).map(|i| format!("+s{i}")).collect();
    assert_eq!(Size::parse(&many[1..]), None);
}

#[test]
fn a_name_can_be_given_its_number() {
    let with = |text: &str| read(text).with("B", 2).unwrap().to_string();
    assert_eq!(with("3*B*B*S+S"), "13*S");
    assert_eq!(with("(B*S+1)//2"), "S");
    assert_eq!(with("min(B,S)+max(B,1)"), "min(2,S)+2");
}

#[test]
fn names_can_mean_other_sizes() {
    let meant = |n: &str| (n == "B").then(|| read("4*H"));
    let with = |text: &str| read(text).substituted(&meant).unwrap().to_string();
    assert_eq!(with("B*S+1"), "4*H*S+1");
    assert_eq!(with("B//4"), "H");
    assert_eq!(with("min(B,4)"), "4");
    assert_eq!(with("S"), "S");
}

#[test]
fn a_size_is_linear_in_one_name_or_not() {
    let linear = |text: &str| {
        let size = read(text);
        size.as_linear().map(|(n, c, d)| (n.to_string(), c, d))
    };
    assert_eq!(linear("S"), Some(("S".to_owned(), 1, 0)));
    assert_eq!(linear("2*S-3"), Some(("S".to_owned(), 2, -3)));
    for text in ["4", "S*S", "S+B", "S//2", "2*S+S*B"] {
        assert_eq!(linear(text), None, "{text}");
    }
}

#[test]
fn terms_multiply_and_add_up_to_their_size() {
    for text in ["3*B*B*S+S-7", "(B*S+1)//2+4", "2*min(B,S)*max(B,S)", "0"] {
        let size = read(text);
        let sum = size
            .terms()
            .fold(Size::default(), |sum, (number, factors)| {
                let factors: Vec<Size> = factors
                    .into_iter()
                    .map(|factor| match factor {
                        Factor::Name(name) => Size::name(name),
                        Factor::Quotient(a, b) => a.quotient(b).unwrap(),
                        Factor::Min(a, b) => a.minimum(b).unwrap(),
                        Factor::Max(a, b) => a.maximum(b).unwrap(),
                    })
                    .collect();
                let product = Size::product(&factors).unwrap();
                sum.plus(&product.times(&Size::constant(number)).unwrap())
                    .unwrap()
            });
        assert_eq!(sum, size, "{text}");
    }
}

#[test]
fn a_size_gives_its_only_open_name() {
    let none = |_: &str| None;
    assert_eq!(read("2*S+1").solve(7, &none), Some(("S".into(), 3)));
    assert_eq!(read("2*S+1").solve(8, &none), None);
    assert_eq!(read("S*S").solve(9, &none), None);
    assert_eq!(read("B*S").solve(6, &none), None);
    let b = |n: &str| (n == "B").then_some(2);
    assert_eq!(read("B*S").solve(6, &b), Some(("S".into(), 3)));
}

#[test]
fn bounds_stand_in_for_atoms() {
    let at_least = |text: &str, least: i128| read(text).is_at_least(least);
    for (text, least) in [
        ("(S+1)//2", 1),
        ("(S+7)//4", 2),
        ("S-(S//2)", 1),
        ("S-min(4,S)", 0),
        ("max(S,4)-4", 0),
        ("8*((S+7)//8)-S", 0),
        ("((((S+1)//2)+1)//2+1)//2", 1),
    ] {
        assert!(at_least(text, least), "{text} is at least {least}");
        // The proven lower bound of a size is never larger than its value for some names.
        let size = read(text);
        let smallest = (1..20).flat_map(|s| (1..20).map(move |t| (s, t)));
        let smallest = smallest.map(|(s, t)| size.eval(&|n| Some(if n == "S" { s } else { t })));
        let smallest = smallest.map(Option::unwrap).min().unwrap();
        assert!(
            !at_least(text, smallest + 1),
            "{text} is {smallest} somewhere"
        );
    }
    assert!(!at_least("S-2", 0) && !at_least("S//2", 1) && !at_least("S-T", 0));
    assert!(read("2*(S//2)-1").is_nonzero() && read("4*S-6*T+3").is_nonzero());
    assert!(!read("2*(S//2)-4").is_nonzero() && !read("S-1").is_nonzero());
}
