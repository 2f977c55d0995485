//! Tuples: an HLO tuple is several values in the IR.

use super::shape::shape_text;
use optc_ir::{Attr, Diagnostic, Func, Type};

/// The tuple structure of a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    Leaf,
    Tuple(Vec<Tree>),
}

impl Tree {
    /// One leaf, or a flat tuple of several.
    pub(super) fn flat(count: usize) -> Tree {
        match count {
            1 => Tree::Leaf,
            n => Tree::Tuple(vec![Tree::Leaf; n]),
        }
    }

    /// Parses the tuple structure from the text of a shape; `None` if it nests too deep.
    pub(super) fn parse(text: &str) -> Option<Tree> {
        let mut rest = text.trim();
        let tree = Self::read(&mut rest, 0)?;
        rest.trim().is_empty().then_some(tree)
    }

    fn read(rest: &mut &str, depth: usize) -> Option<Tree> {
        const MAX_DEPTH: usize = 128;
        skip(rest);
        if MAX_DEPTH < depth {
            return None;
        }
        if let Some(inner) = rest.strip_prefix('(') {
            *rest = inner;
            let mut parts = Vec::new();
            skip(rest);
            if let Some(after) = rest.strip_prefix(')') {
                *rest = after;
                return Some(Tree::Tuple(parts));
            }
            loop {
                parts.push(Self::read(rest, depth + 1)?);
                skip(rest);
                if let Some(after) = rest.strip_prefix(')') {
                    *rest = after;
                    return Some(Tree::Tuple(parts));
                }
                *rest = rest.strip_prefix(',')?;
            }
        }
        let mut open = 0usize;
        let end = rest.char_indices().find(|(_, c)| {
            match c {
                '(' | '[' | '{' => open += 1,
                ')' | ']' | '}' if 0 < open => open -= 1,
                ')' | ',' if open == 0 => return true,
                _ => {}
            }
            false
        });
        let end = end.map_or(rest.len(), |(i, _)| i);
        (0 < end).then(|| *rest = &rest[end..])?;
        Some(Tree::Leaf)
    }

    /// The number of leaves.
    pub(super) fn leaves(&self) -> usize {
        match self {
            Tree::Leaf => 1,
            Tree::Tuple(parts) => parts.iter().map(Tree::leaves).sum(),
        }
    }

    /// The shape with this structure and these leaf shapes.
    pub(super) fn shape(&self, leaves: &mut impl Iterator<Item = String>) -> String {
        match self {
            Tree::Leaf => leaves.next().unwrap_or_else(|| "opaque[]".to_owned()),
            Tree::Tuple(parts) => {
                let mut texts = Vec::with_capacity(parts.len());
                for part in parts {
                    texts.push(part.shape(leaves));
                }
                format!("({})", texts.join(", "))
            }
        }
    }
}

fn skip(rest: &mut &str) {
    loop {
        *rest = rest.trim_start();
        match rest.strip_prefix("/*").and_then(|r| r.split_once("*/")) {
            Some((_, after)) => *rest = after,
            None => return,
        }
    }
}

/// The tuple structure of each parameter of a function; flat if nothing is stated, or if the stated structure does not
/// fit.
pub(super) fn parameters(func: &Func) -> Vec<Tree> {
    let stated = func
        .attrs
        .get("hlo.operand_shapes")
        .and_then(Attr::as_array);
    let trees: Option<Vec<Tree>> = stated.and_then(|list| {
        list.iter()
            .map(|text| text.as_str().and_then(Tree::parse))
            .collect()
    });
    trees
        .filter(|trees| trees.iter().map(Tree::leaves).sum::<usize>() == func.args.len())
        .unwrap_or_else(|| vec![Tree::Leaf; func.args.len()])
}

/// The tuple structure of the result of a function.
pub(super) fn result(func: &Func) -> Tree {
    let stated = func.attrs.str("hlo.result_shape").and_then(Tree::parse);
    let fits = |tree: &Tree| tree.leaves() == func.results.len();
    stated
        .filter(fits)
        .unwrap_or_else(|| Tree::flat(func.results.len()))
}

/// The shapes of a function's parameters and its result.
pub(super) fn boundary(func: &Func) -> Result<(Vec<String>, String), Box<Diagnostic>> {
    let texts = |types: Vec<&Type>| -> Result<Vec<String>, Box<Diagnostic>> {
        types.into_iter().map(shape_text).collect()
    };
    let args = texts(func.args.iter().map(|&v| func.ty(v)).collect())?;
    let results = texts(func.results.iter().map(|&v| func.ty(v)).collect())?;
    let mut args = args.into_iter();
    let params = parameters(func)
        .iter()
        .map(|tree| tree.shape(&mut args))
        .collect();
    Ok((params, result(func).shape(&mut results.into_iter())))
}
