//! Programs as graphs for graphviz: `dot -Tsvg`.
//!
//! Every operation is one node, every use of a value one edge; layers, functions and the panels of a picture are
//! clusters. The text depends only on the programs.

use crate::graph::{Graph, Node, Tone};
use crate::mesh::RED;
use crate::picture::Picture;
use crate::spelling::Spelling;
use std::fmt::Write as _;

/// The picture as one `digraph`, ending with a line break.
#[must_use]
pub fn write(picture: &Picture<'_>) -> String {
    let mut out = Dot::default();
    out.line(&format!("digraph {} {{", quoted(&picture.title)));
    out.depth += 1;
    out.line(
        "graph [rankdir=TB, fontname=\"sans-serif\", fontsize=11, compound=true, newrank=true];",
    );
    out.line("node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fontsize=10, margin=\"0.12,0.05\", height=0.3];");
    out.line("edge [fontname=\"sans-serif\", fontsize=9, color=\"#757575\", fontcolor=\"#424242\", arrowsize=0.7];");
    let several = picture.panels.len() > 1;
    let spelling = Spelling::of(picture);
    for (i, panel) in picture.panels.iter().enumerate() {
        let prefix = format!("p{i}");
        if several {
            out.open(&prefix, &panel.title, "#9e9e9e");
        }
        for (k, (func, graph)) in panel.graphs(spelling).enumerate() {
            let prefix = format!("{prefix}_f{k}");
            let title = format!("@{}: {}", func.name, graph.totals().line());
            out.open(&prefix, &title, "#bdbdbd");
            out.graph(&prefix, &graph);
            out.close();
        }
        if several {
            out.close();
        }
    }
    out.depth -= 1;
    out.line("}");
    out.text
}

#[derive(Default)]
struct Dot {
    text: String,
    depth: usize,
}

impl Dot {
    fn line(&mut self, text: &str) {
        let indent = 2 * self.depth;
        let _ = writeln!(self.text, "{:indent$}{text}", "");
    }

    fn open(&mut self, name: &str, label: &str, color: &str) {
        self.line(&format!(
            "subgraph {} {{",
            quoted(&format!("cluster_{name}"))
        ));
        self.depth += 1;
        self.line(&format!(
            "label={}; labeljust=l; color=\"{color}\"; style=rounded;",
            quoted(label)
        ));
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    fn graph(&mut self, prefix: &str, graph: &Graph) {
        let mut inside: Vec<Vec<usize>> = vec![Vec::new(); graph.scopes.len()];
        for (i, node) in graph.nodes.iter().enumerate() {
            inside[node.scope].push(i);
        }
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); graph.scopes.len()];
        for scope in 1..graph.scopes.len() {
            children[graph.scopes.get(scope).parent].push(scope);
        }
        self.scope(prefix, graph, 0, &inside, &children);
        self.edges(prefix, graph);
    }

    /// Writes the nodes of a layer and, as clusters, the non-empty layers inside of it.
    fn scope(
        &mut self,
        prefix: &str,
        graph: &Graph,
        scope: usize,
        inside: &[Vec<usize>],
        children: &[Vec<usize>],
    ) {
        for &i in &inside[scope] {
            self.node(&format!("{prefix}_n{i}"), &graph.nodes[i]);
        }
        for &child in children[scope]
            .iter()
            .filter(|&&c| holds(c, inside, children))
        {
            let name = &graph.scopes.get(child).name;
            self.open(&format!("{prefix}_s{child}"), name, "#90a4ae");
            self.scope(prefix, graph, child, inside, children);
            self.close();
        }
    }

    fn node(&mut self, id: &str, node: &Node) {
        let mut label = node.title.clone();
        for line in &node.lines {
            label.push('\n');
            label.push_str(line);
        }
        let (fill, stroke, text) = node.tone.colours();
        let shape = match node.tone {
            Tone::Port => ", shape=oval, style=filled",
            Tone::Constant => ", style=\"rounded,filled,dashed\"",
            Tone::Collective => ", shape=oval",
            _ => "",
        };
        self.line(&format!(
            "{id} [label={}, tooltip={}, fillcolor=\"{fill}\", color=\"{stroke}\", fontcolor=\"{text}\"{shape}];",
            quoted(&label),
            quoted(&node.tip)
        ));
    }

    fn edges(&mut self, prefix: &str, graph: &Graph) {
        for wire in &graph.wires {
            let from = format!("{prefix}_n{}", wire.from);
            let ink = wire.ink.as_ref();
            let ink = ink.map_or_else(String::new, |ink| format!(", color=\"{}\"", ink.colour));
            let attrs = format!(
                "[label={}, tooltip={}, labeltooltip={}{ink}]",
                quoted(&wire.tag.join("\n")),
                quoted(&wire.tip),
                quoted(&wire.tip)
            );
            for to in &wire.to {
                self.line(&format!("{from} -> {prefix}_n{to} {attrs};"));
            }
        }
    }
}

/// Returns whether a layer or a layer inside of it has a node. The recursion is bounded by `scope::DEEPEST`.
fn holds(scope: usize, inside: &[Vec<usize>], children: &[Vec<usize>]) -> bool {
    !inside[scope].is_empty() || children[scope].iter().any(|&c| holds(c, inside, children))
}

/// A string in DOT's syntax; line breaks are `\n`, other control characters are dropped.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

impl Tone {
    /// The colours of fill, outline and text; the text is dark on a light fill.
    pub(crate) fn colours(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Tone::Port => ("#ffffff", "#546e7a", "#263238"),
            Tone::Compute => ("#e3eefb", "#5b87b8", "#13294b"),
            Tone::View => ("#f0f0f0", "#9e9e9e", "#4a4a4a"),
            Tone::Movement => ("#fcdcd9", "#c62828", "#7f1010"),
            Tone::Copy => ("#ffe8c7", "#e07b00", "#6b3a00"),
            Tone::Expand => ("#fff6bf", "#b39a00", "#5a4d00"),
            Tone::Constant => ("#f3ecfa", "#8e6bb0", "#43295c"),
            Tone::Collective => ("#ffffff", RED, RED),
        }
    }
}
