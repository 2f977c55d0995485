//! Words in pictures: short forms of types, layouts, attributes and sizes.

use crate::spelling::Spelling;
use optc_ir::text::{print_attr, print_loc, print_type};
use optc_ir::{Attr, AttrDict, Func, Loc, Op, TensorType, Type, Value};
use optc_layout::{Field, Notation};

/// The largest length in characters of an attribute or layout in a box; longer ones are in the tooltip only.
const LONGEST_WORD: usize = 30;
/// The largest length in characters of an attribute in a tooltip.
const LONGEST_TIP: usize = 400;

/// `4×50×96 f32`: the extents and the element type, without the layout.
pub(crate) fn shape(ty: &Type) -> String {
    match ty {
        Type::Tensor(tensor) => tensor_shape(tensor),
        Type::Scalar(dtype) => dtype.to_string(),
        Type::Other(text) => cut(text, LONGEST_WORD),
    }
}

fn tensor_shape(tensor: &TensorType) -> String {
    let dims: Vec<String> = tensor.dims.iter().map(ToString::to_string).collect();
    let dims = cut(&dims.join("×"), LONGEST_WORD);
    let gap = if dims.is_empty() { "" } else { " " };
    format!("{dims}{gap}{}", tensor.dtype)
}

/// The layout in short form, in the notation of the picture; `None` for row-major without an encoding.
pub(crate) fn layout(ty: &Type, spelling: Spelling) -> Option<String> {
    let notation = spelling.notation(ty)?;
    if notation == Notation::RowMajor {
        return None;
    }
    let fields = notation.fields();
    let blocked = fields.iter().any(|(key, _)| key == "block");
    let words: Vec<String> = fields
        .iter()
        .filter_map(|(key, field)| word(key, field, blocked))
        .collect();
    Some(cut(&words.join(", "), LONGEST_WORD))
}

/// One field of a layout. Blocks and tiles are written without their keys. The natural order beside a block is left
/// out.
fn word(key: &str, field: &Field, blocked: bool) -> Option<String> {
    match field {
        Field::Str(text) if matches!(key, "block" | "xla" | "digits") => Some(text.clone()),
        Field::Str(text) => Some(format!("{key} {text}")),
        Field::Int(n) => Some(format!("{key} {n}")),
        Field::Ints(list) if key == "order" && blocked && counts_up(list) => None,
        Field::Ints(list) => Some(format!("{key} {}", numbers(list))),
        Field::IntLists(lists) => {
            let lists: Vec<String> = lists.iter().map(|l| numbers(l)).collect();
            Some(format!("{key} {}", lists.join(" | ")))
        }
    }
}

fn counts_up(list: &[i64]) -> bool {
    list.iter().zip(0..).all(|(&n, i)| n == i)
}

fn numbers(list: &[i64]) -> String {
    let list: Vec<String> = list.iter().map(ToString::to_string).collect();
    list.join(" ")
}

/// The name of an operation, without the dialect if that is optc's own.
pub(crate) fn op_name(name: &str) -> &str {
    name.strip_prefix("hbir.").unwrap_or(name)
}

/// The inherent attributes in short form, without those that are data.
pub(crate) fn attributes(props: &AttrDict) -> Vec<String> {
    let small = props.iter().filter(|(_, attr)| !is_data(attr));
    small
        .map(|(name, attr)| cut(&format!("{name} {}", plain(attr)), LONGEST_WORD))
        .collect()
}

fn plain(attr: &Attr) -> String {
    match (attr.as_ints(), attr) {
        (Some(list), _) => numbers(&list),
        (None, Attr::Str(text)) => text.to_string(),
        (None, attr) => print_attr(attr),
    }
}

fn is_data(attr: &Attr) -> bool {
    matches!(attr, Attr::Dense(_) | Attr::External { .. })
}

/// A constant that is drawn inside of its reader: its number, or its name and shape.
pub(crate) fn constant(func: &Func, op: Op, spelling: Spelling) -> String {
    let data = &func.ops[op];
    let Some(ty) = data.results.first().map(|&v| func.ty(v)) else {
        return op_name(&data.name).to_owned();
    };
    if let Some(text) = data.props.iter().find_map(|(_, attr)| number(attr)) {
        return format!("constant {text}");
    }
    let name = match last_name(&data.loc) {
        Some(name) => name,
        None => op_name(&data.name).to_owned(),
    };
    let layout = layout(ty, spelling).map_or_else(String::new, |l| format!(" {l}"));
    format!("{} {}{layout}", cut_front(&name, 22), shape(ty))
}

/// The text of a constant with one element.
fn number(attr: &Attr) -> Option<String> {
    let Attr::Dense(dense) = attr else {
        return None;
    };
    let one = dense.ty.as_tensor()?.elements() == Some(1);
    if !one && !dense.splat {
        return None;
    }
    let text = print_attr(attr);
    let inner = text.strip_prefix("dense<")?.split('>').next()?;
    let inner = inner.trim_matches(['[', ']']);
    let short = inner.len() <= 12 && !inner.is_empty();
    let count = if one {
        String::new()
    } else {
        format!(" ({})", shape(&dense.ty))
    };
    short.then(|| format!("{inner}{count}"))
}

/// The name in a location; the last one of several.
pub(crate) fn last_name(loc: &Loc) -> Option<String> {
    match loc {
        Loc::Name(name) => Some(name.to_string()),
        Loc::Fused(parts) => parts.iter().rev().find_map(last_name),
        Loc::Unknown | Loc::File(..) => None,
    }
}

/// Bytes in decimal units, with one digit after the point.
pub(crate) fn bytes(n: u64) -> String {
    let units = [
        (1_000_000_000_000, "TB"),
        (1_000_000_000, "GB"),
        (1_000_000, "MB"),
        (1_000, "kB"),
    ];
    match units.into_iter().find(|(size, _)| n >= *size) {
        None => format!("{n} B"),
        Some((size, unit)) => {
            let tenths = n / (size / 10);
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
    }
}

/// The tooltip of an operation.
pub(crate) fn op_tip(func: &Func, op: Op) -> String {
    let data = &func.ops[op];
    let types = |values: &[Value]| {
        let texts: Vec<String> = values.iter().map(|&v| print_type(func.ty(v))).collect();
        cut(&texts.join(", "), LONGEST_TIP)
    };
    let attr =
        |(name, attr): (&str, &Attr)| format!("\n{name} = {}", cut(&print_attr(attr), LONGEST_TIP));
    let attrs: String = data.props.iter().map(attr).collect();
    let loc = cut(&print_loc(&data.loc), LONGEST_TIP);
    let loc = if loc.is_empty() {
        loc
    } else {
        format!("\n{loc}")
    };
    let (from, to) = (types(&data.operands), types(&data.results));
    format!("{}{attrs}\n({from})\n→ {to}{loc}", data.name)
}

/// The text, or its beginning followed by an ellipsis.
pub(crate) fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some(_) => {
            let head = text.chars().take(longest.saturating_sub(1));
            head.chain(['…']).collect()
        }
    }
}

/// The text, or its end preceded by an ellipsis.
pub(crate) fn cut_front(text: &str, longest: usize) -> String {
    let count = text.chars().count();
    if count <= longest {
        return text.to_owned();
    }
    let tail = text
        .chars()
        .skip(count - longest.saturating_sub(1).min(count));
    ['…'].into_iter().chain(tail).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_down_to_a_tenth() {
        let of = [0, 999, 1000, 153_600, 999_999, 1_000_000, u64::MAX].map(bytes);
        let wanted = ["0 B", "999 B", "1.0 kB", "153.6 kB", "999.9 kB", "1.0 MB"];
        assert_eq!(of[..6], wanted);
        assert_eq!(of[6], "18446744.0 TB");
    }

    #[test]
    fn long_words_are_cut_at_characters() {
        assert_eq!(cut("2×3×5", 5), "2×3×5");
        assert_eq!(cut("2×3×55", 5), "2×3×…");
        assert_eq!(cut_front("a.b.weight", 7), "…weight");
        assert_eq!(cut_front("weight", 6), "weight");
        assert_eq!(cut("", 0), "");
    }

    #[track_caller]
    fn check(ty: &str, wanted: (&str, Option<&str>)) {
        let text = format!("%0 = \"hbir.relu\"(%x) : ({ty}) -> {ty}");
        let module = optc_ir::text::parse(&text).unwrap();
        let func = &module.funcs[0];
        let ty = func.ty(func.args[0]);
        let layout = layout(ty, Spelling::default());
        assert_eq!((&*shape(ty), layout.as_deref()), wanted);
    }

    #[test]
    fn types_in_few_words() {
        check("tensor<2x3xf32>", ("2×3 f32", None));
        check("tensor<f32>", ("f32", None));
        check(
            "tensor<4x8xsi8, {block = \"2W2H\", order = [1, 0]}>",
            ("4×8 si8", Some("2W2H, order 1 0")),
        );
        check(
            "tensor<4x8xsi8, {block = \"8W\", order = [0, 1]}>",
            ("4×8 si8", Some("8W")),
        );
        check(
            "tensor<4x8xbf16, {xla = \"0,1:T(8,128)\"}>",
            ("4×8 bf16", Some("0,1:T(8,128)")),
        );
    }
}
