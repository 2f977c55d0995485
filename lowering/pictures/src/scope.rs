//! The layer of a model that each operation belongs to, as far as names tell.

use indexmap::IndexMap;
use optc_ir::{Func, Loc, Op, Value, entity::SideTable};

/// The largest nesting depth of layers that are distinguished.
const DEEPEST: usize = 8;

/// A layer: operations whose names have a common prefix.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// The layer that contains it; the root is its own parent.
    pub(crate) parent: usize,
    /// The last component of its name.
    pub(crate) name: String,
}

/// The layers of one function: a tree, the root first.
#[derive(Clone, Debug)]
pub(crate) struct Scopes {
    scopes: Vec<Scope>,
    children: IndexMap<(usize, String), usize>,
}

impl Scopes {
    /// Only the root, which is the whole function.
    pub(crate) fn new() -> Scopes {
        Scopes {
            scopes: vec![Scope {
                parent: 0,
                name: String::new(),
            }],
            children: IndexMap::new(),
        }
    }

    /// The layer with this number.
    pub(crate) fn get(&self, scope: usize) -> &Scope {
        &self.scopes[scope]
    }

    /// The number of layers, including the root.
    pub(crate) fn len(&self) -> usize {
        self.scopes.len()
    }

    /// The layer with this path, created if it is new.
    pub(crate) fn enter<'a>(&mut self, path: impl IntoIterator<Item = &'a str>) -> usize {
        let path = path.into_iter().take(DEEPEST);
        path.fold(0, |at, part| self.child(at, part))
    }

    /// The layer with this name inside of a layer, created if it is new.
    pub(crate) fn child(&mut self, parent: usize, name: &str) -> usize {
        let next = self.scopes.len();
        let entry = self.children.entry((parent, name.to_owned()));
        *entry.or_insert_with(|| {
            self.scopes.push(Scope {
                parent,
                name: name.to_owned(),
            });
            next
        })
    }

    /// The layers from the root's child down to this one.
    pub(crate) fn path(&self, scope: usize) -> Vec<usize> {
        let mut path = Vec::new();
        let mut at = scope;
        while at != 0 {
            path.push(at);
            at = self.scopes[at].parent;
        }
        path.reverse();
        path
    }

    /// The innermost layer that contains both.
    pub(crate) fn common(&self, a: usize, b: usize) -> usize {
        let (a, b) = (self.path(a), self.path(b));
        let both = a.iter().zip(&b).take_while(|(x, y)| x == y).last();
        both.map_or(0, |(&x, _)| x)
    }
}

/// The layer of each operation of a function.
pub(crate) fn scopes_of(func: &Func) -> (Scopes, SideTable<Op, usize>) {
    let mut scopes = Scopes::new();
    let mut found: SideTable<Op, Option<usize>> = SideTable::new(None);
    for &op in &func.body {
        found[op] = named(&mut scopes, &func.ops[op].loc);
    }
    let around = inherited(func, &scopes, &found);
    let mut of: SideTable<Op, usize> = SideTable::new(0);
    for &op in &func.body {
        of[op] = found[op].or(around[op]).unwrap_or(0);
    }
    (scopes, of)
}

/// The layer from a location's name, or the common layer of several names; `None` without any name.
fn named(scopes: &mut Scopes, loc: &Loc) -> Option<usize> {
    match loc {
        Loc::Unknown | Loc::File(..) => None,
        Loc::Name(name) => Some(scopes.enter(path_of(name))),
        Loc::Fused(parts) => {
            let mut all = None;
            for part in parts.iter() {
                if let Some(scope) = named(scopes, part) {
                    all = Some(all.map_or(scope, |a| scopes.common(a, scope)));
                }
            }
            all
        }
    }
}

/// The layers of a name: `/encoder/layer.3/attention/MatMul` gives `encoder`, `layer.3`, `attention`.
fn path_of(name: &str) -> impl Iterator<Item = &str> {
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder.split('/').filter(|part| !part.is_empty())
}

/// Assigns operations without a name, such as conversions that a pass added, to the layer of their operands and users.
fn inherited(
    func: &Func,
    scopes: &Scopes,
    found: &SideTable<Op, Option<usize>>,
) -> SideTable<Op, Option<usize>> {
    let mut around: SideTable<Op, Option<usize>> = SideTable::new(None);
    let mut read_in: SideTable<Value, Option<usize>> = SideTable::new(None);
    for &op in func.body.iter().rev() {
        let data = &func.ops[op];
        let mut scope = found[op];
        if scope.is_none() {
            let neighbours = data.results.iter().map(|&v| read_in[v]);
            let makers = data
                .operands
                .iter()
                .map(|&v| func.def_op(v).and_then(|o| found[o]));
            let all = neighbours.chain(makers).flatten();
            scope = all.reduce(|a, b| scopes.common(a, b));
            around[op] = scope;
        }
        let Some(scope) = scope else { continue };
        for &operand in &data.operands {
            read_in[operand] = Some(read_in[operand].map_or(scope, |s| scopes.common(s, scope)));
        }
    }
    around
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths() {
        let of = |name| path_of(name).collect::<Vec<_>>();
        assert_eq!(of("/a/layer.3/attn/MatMul"), ["a", "layer.3", "attn"]);
        assert_eq!(of("jit(f)/dot"), ["jit(f)"]);
        assert!(of("node_view_29").is_empty());
        assert!(of("/MatMul").is_empty());
    }

    #[test]
    fn an_operation_without_a_name_stands_with_its_neighbours() {
        let text = "%0 = \"hbir.relu\"(%x) : (tensor<2xf32>) -> tensor<2xf32> loc(\"/a/b/r\")\n\
                    %1 = \"hbir.neg\"(%0) : (tensor<2xf32>) -> tensor<2xf32>\n\
                    %2 = \"hbir.relu\"(%1) : (tensor<2xf32>) -> tensor<2xf32> loc(\"/a/c/r\")\n";
        let module = optc_ir::text::parse(text).unwrap();
        let func = &module.funcs[0];
        let (scopes, of) = scopes_of(func);
        let names: Vec<&str> = func
            .body
            .iter()
            .map(|&o| &*scopes.get(of[o]).name)
            .collect();
        assert_eq!(names, ["b", "a", "c"]);
    }

    #[test]
    fn a_deep_name_is_cut() {
        let mut scopes = Scopes::new();
        let name = "a/".repeat(100_000);
        let scope = scopes.enter(path_of(&name));
        assert_eq!(scopes.path(scope).len(), DEEPEST);
    }
}
