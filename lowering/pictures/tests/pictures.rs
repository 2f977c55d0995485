//! Pictures of programs: their contents, well-formedness and size.

use optc_pictures::picture::{OnMesh, Panel, Picture, Place, Transfer};
use optc_pictures::{dot, svg};
use roxmltree::Document;
use std::collections::BTreeSet;
use std::fmt::Write as _;

const ATTENTION: &str = r#"
%0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32> loc("/layer.0/attn/t")
%1 = "hbir.relu"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32> loc("/layer.0/attn/r")
%2 = "hbir.add"(%1, %1) : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32> loc("/layer.0/a")
"#;

/// The picture of a text in the format `write`; every operation is free.
fn draw(text: &str, write: fn(&Picture<'_>) -> String) -> String {
    let module = optc_ir::text::parse(text).unwrap();
    let registry = optc_ops::registry();
    let panel = Panel {
        title: "as it is".to_owned(),
        module: &module,
        registry: &registry,
        charges: Vec::new(),
        mesh: None,
    };
    let picture = Picture {
        title: "a \"b\" <c> & \u{1}d".to_owned(),
        panels: vec![panel],
    };
    let text = write(&picture);
    assert_eq!(text, write(&picture));
    text
}

/// All lines of text in an SVG document.
fn words(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let texts = document.descendants().filter(|n| n.has_tag_name("text"));
    texts
        .map(|n| n.text().unwrap_or("").trim().to_owned())
        .collect()
}

#[track_caller]
fn says(svg: &str, wanted: &str) {
    let words = words(svg);
    assert!(
        words.iter().any(|w| w == wanted),
        "no `{wanted}` in {words:#?}"
    );
}

#[test]
fn a_graph_has_a_node_an_operation_and_an_edge_a_use() {
    let text = draw(ATTENTION, dot::write);
    assert!(
        text.starts_with("digraph \"a \\\"b\\\" <c> & d\" {\n"),
        "{text}"
    );
    assert_eq!(text.matches(" -> ").count(), 5, "{text}");
    assert!(
        text.contains("p0_f0_n1 [label=\"transpose\\nperm 1 0\""),
        "{text}"
    );
    assert!(
        text.contains("p0_f0_n0 -> p0_f0_n1 [label=\"2×3 f32\""),
        "{text}"
    );
    assert!(text.contains("label=\"layer.0\""), "{text}");
    assert!(text.contains("label=\"attn\""), "{text}");
    let (open, closed) = (text.matches('{').count(), text.matches('}').count());
    assert_eq!(open, closed);
}

#[test]
fn a_picture_shows_operations_types_and_layers() {
    let text = draw(ATTENTION, svg::write);
    for wanted in [
        "a \"b\" <c> & d",
        "transpose",
        "perm 1 0",
        "3×2 f32",
        "attn",
        "layer.0",
        "3 operations, nothing moves",
    ] {
        says(&text, wanted);
    }
    let document = Document::parse(&text).unwrap();
    let tips = document.descendants().filter(|n| n.has_tag_name("title"));
    let full = tips
        .filter_map(|n| n.text())
        .any(|t| t.contains("%0 = hbir.transpose") && t.contains("loc(\"/layer.0/attn/t\")"));
    assert!(full, "no tooltip holds the operation");
}

#[test]
fn layouts_are_told_unless_they_are_row_major() {
    let text = "%0 = \"hbir.view\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> \
                tensor<3x2xf32, {order = [1, 0]}>\n";
    for write in [dot::write as fn(&Picture<'_>) -> String, svg::write] {
        let text = draw(text, write);
        assert_eq!(text.matches("order 1 0").count(), 1, "{text}");
    }
}

#[test]
fn constants_stand_in_their_readers_or_are_drawn_as_results() {
    let text = "func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>) {\n\
        %0 = \"hbir.constant\"() <{value = dense<0.5> : tensor<f32>}> : () -> tensor<f32>\n\
        %1 = \"hbir.mul\"(%x, %0) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>\n\
        %2 = \"hbir.constant\"() <{value = dense<0.25> : tensor<f32>}> : () -> tensor<f32>\n\
        return %1, %2 : tensor<2xf32>, tensor<f32>\n}\n";
    let text = draw(text, svg::write);
    says(&text, "constant 0.5");
    assert_eq!(words(&text).iter().filter(|w| *w == "constant").count(), 1);
}

/// `count` equal layers in sequence, each with several operations.
fn layers(count: usize) -> String {
    let ty = "(tensor<2x3xf32>) -> tensor<2x3xf32>";
    let mut text = String::new();
    let mut next = 0;
    let mut value = "x".to_owned();
    for layer in 0..count {
        for (i, op) in ["relu", "neg", "exp", "abs", "tanh", "erf", "sqrt", "neg"]
            .iter()
            .enumerate()
        {
            let _ = writeln!(
                text,
                "%{next} = \"hbir.{op}\"(%{value}) : {ty} loc(\"/enc/layer.{layer}/n{i}\")"
            );
            value = next.to_string();
            next += 1;
        }
    }
    text
}

#[test]
fn repeated_layers_are_one_box() {
    let text = draw(&layers(12), svg::write);
    says(&text, "layer.1 … layer.11");
    says(&text, "11 × identical to layer.0");
    says(&text, "11 layers that repeat another are drawn closed");
    assert_eq!(words(&text).iter().filter(|w| *w == "tanh").count(), 1);
    let whole = draw(&layers(4), svg::write);
    assert_eq!(words(&whole).iter().filter(|w| *w == "tanh").count(), 4);
}

#[test]
fn layers_without_names_are_found_by_repetition() {
    let ty = "(tensor<2x3xf32>) -> tensor<2x3xf32>";
    let (mut text, mut next, mut value) = (String::new(), 0, "x".to_owned());
    for layer in 0..12 {
        for op in ["relu", "neg", "exp", "abs", "tanh", "erf", "sqrt"] {
            let _ = writeln!(text, "%{next} = \"hbir.{op}\"(%{value}) : {ty}");
            value = next.to_string();
            next += 1;
        }
        let _ = writeln!(
            text,
            "%c{layer} = \"hbir.constant\"() <{{value = dense<0.5> : tensor<2x3xf32>}}> : () -> \
             tensor<2x3xf32> loc(\"blocks.{layer}.weight\")\n\
             %{next} = \"hbir.mul\"(%{value}, %c{layer}) : (tensor<2x3xf32>, tensor<2x3xf32>) -> \
             tensor<2x3xf32>"
        );
        value = next.to_string();
        next += 1;
    }
    let text = draw(&text, svg::write);
    says(&text, "blocks.0");
    says(&text, "blocks.1 … blocks.11");
    says(&text, "11 × identical to blocks.0");
}

#[test]
fn a_layer_that_is_left_and_entered_again_is_drawn_in_pieces() {
    let ty = "(tensor<2xf32>) -> tensor<2xf32>";
    let names = ["/a/p", "/a/q", "/b/p", "/b/q", "/a/r", "/a/s"];
    let mut text = String::new();
    for (i, name) in names.iter().enumerate() {
        let from = i.checked_sub(1).map_or("x".to_owned(), |i| i.to_string());
        let _ = writeln!(text, "%{i} = \"hbir.relu\"(%{from}) : {ty} loc(\"{name}\")");
    }
    let words = words(&draw(&text, svg::write));
    let of = |name: &str| words.iter().filter(|w| *w == name).count();
    assert_eq!((of("a"), of("b"), of("relu")), (2, 1, 6));
}

fn noise(i: usize) -> usize {
    let mixed = u32::try_from(i).unwrap().wrapping_mul(2_654_435_761);
    usize::try_from((mixed ^ (mixed >> 15)).wrapping_mul(2_246_822_519) >> 20).unwrap() % 7
}

/// A chain of many operations without repetition.
fn chain(count: usize, named: bool) -> String {
    let mut text = String::new();
    for i in 0..count {
        let from = i.checked_sub(1).map_or("x".to_owned(), |i| i.to_string());
        let op = ["relu", "neg", "exp", "abs", "tanh", "erf", "sqrt"][noise(i)];
        let loc = if named {
            format!(" loc(\"/part.{}/step.{}/op\")", i / 500, i / 20 + i % 3)
        } else {
            String::new()
        };
        let ty = "(tensor<2xf32>) -> tensor<2xf32>";
        let _ = writeln!(text, "%{i} = \"hbir.{op}\"(%{from}) : {ty}{loc}");
    }
    text
}

#[test]
fn a_large_program_is_shortened_and_says_so() {
    for named in [false, true] {
        let text = draw(&chain(5000, named), svg::write);
        let document = Document::parse(&text).unwrap();
        let boxes = document.descendants().filter(|n| n.has_tag_name("rect"));
        assert!(boxes.count() < 1200);
        assert!(text.len() < 400_000, "{} bytes", text.len());
        says(&text, "5000 operations, nothing moves");
        let words = words(&text);
        assert!(
            words
                .iter()
                .any(|w| w.contains("to keep the picture small")),
            "{words:?}"
        );
    }
}

#[test]
fn a_program_without_operations_is_drawn() {
    let text =
        "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}\n";
    says(&draw(text, svg::write), "@f");
    assert_eq!(draw(text, dot::write).matches(" -> ").count(), 1);
    let empty = Picture {
        title: String::new(),
        panels: Vec::new(),
    };
    assert!(Document::parse(&svg::write(&empty)).is_ok());
    assert!(dot::write(&empty).ends_with("}\n"));
}

/// Boxes and lines of text are inside of the picture, and lines do not overlap.
#[test]
fn text_stays_apart_and_inside() {
    for source in [
        ATTENTION.to_owned(),
        layers(12),
        layers(3),
        chain(300, true),
    ] {
        let text = draw(&source, svg::write);
        let document = Document::parse(&text).unwrap();
        let number = |node: &roxmltree::Node<'_, '_>, name: &str| {
            let text = node.attribute(name).unwrap_or("0");
            text.parse::<f64>().unwrap()
        };
        let root = document.root_element();
        let (width, height) = (number(&root, "width"), number(&root, "height"));
        let texts = document.descendants().filter(|n| n.has_tag_name("text"));
        let mut lines: Vec<(f64, f64, f64, f64)> = Vec::new();
        for node in texts {
            let (x, y, size) = (
                number(&node, "x"),
                number(&node, "y"),
                number(&node, "font-size"),
            );
            // Half the font size is less than the width of a character: lines that overlap by this estimate do overlap.
            let words = node.text().unwrap_or("").trim().chars().count();
            let wide = f64::from(u32::try_from(words).unwrap()) * size * 0.5;
            let left = if node.attribute("text-anchor").is_some() {
                x - wide / 2.0
            } else {
                x
            };
            assert!(left >= 0.0 && left + wide <= width, "{:?}", node.text());
            assert!(y - size >= 0.0 && y <= height);
            lines.push((left, y - size * 0.7, left + wide, y));
        }
        for (i, a) in lines.iter().enumerate() {
            for b in &lines[..i] {
                let apart = a.2 <= b.0 || b.2 <= a.0 || a.3 <= b.1 || b.3 <= a.1;
                assert!(apart, "{a:?} overlaps {b:?}");
            }
        }
    }
}

/// A part whose operand is outside has no axis arrows there.
#[test]
fn tiles_outside_of_a_value_are_drawn() {
    let text = r#"func.func @main(%x: tensor<2x3x1x1xf32>, %y: tensor<2x3x1x1xf32>) -> tensor<2x6x1x1xf32> attributes {hbir.groups = [{grid = [1, 2]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["2", "3 @ g1 * 3", "1", "1"]}} : (tensor<2x3x1x1xf32>) -> tensor<2x3x1x1xf32>
  %1 = "hbir.relu"(%y) {tile = {group = 0, result = ["2", "3 @ g1 * 3 - 3", "1", "1"]}} : (tensor<2x3x1x1xf32>) -> tensor<2x3x1x1xf32>
  %2 = "hbir.neg"(%0) {tile = {group = 0, result = ["2", "3 @ g1 * 3 + 3", "1", "1"]}} : (tensor<2x3x1x1xf32>) -> tensor<2x3x1x1xf32>
  %3 = "hbir.concat"(%0, %1) <{axis = 1}> {tile = {group = 0, result = ["2", "3 @ g1 * 3", "1", "1"]}} : (tensor<2x3x1x1xf32>, tensor<2x3x1x1xf32>) -> tensor<2x6x1x1xf32>
  return %3 : tensor<2x6x1x1xf32>
}"#;
    let module = optc_ir::text::parse(text).unwrap();
    let drawn = svg::tiles::write("plan", &module, &optc_ops::registry()).unwrap();
    says(&drawn, "[2, 3 @ g1 * 3 + 3, 1, 1]");
    assert!(Document::parse(&drawn).is_ok());
}

/// The fill colours of the cells of a plan, by the program index in the cell.
fn cells(svg: &str) -> Vec<(String, String)> {
    let document = Document::parse(svg).unwrap();
    let all: Vec<_> = document.descendants().filter(|n| n.is_element()).collect();
    let mut cells = Vec::new();
    for pair in all.windows(2) {
        let index = pair[1].text().unwrap_or("").trim();
        let fill = pair[0].attribute("fill").unwrap_or("");
        let is_cell = pair[0].attribute("stroke-width") == Some("0.8");
        if is_cell && pair[1].attribute("text-anchor").is_some() {
            cells.push((index.to_owned(), fill.to_owned()));
        }
    }
    cells
}

/// Rows that two strips read belong to neither: they have their own colour, which is also in the legend.
#[test]
fn cells_of_several_programs_have_their_own_colour() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/plans/");
    let draw = |name: &str| {
        let text = std::fs::read_to_string(format!("{root}{name}.ir")).unwrap();
        let module = optc_ir::text::parse(&text).unwrap();
        svg::tiles::write(name, &module, &optc_ops::registry()).unwrap()
    };
    const OVERLAP: &str = "overlap: several steps";
    let halo = draw("convolutions");
    says(&halo, OVERLAP);
    let cells_of = cells(&halo);
    let of = |shared: bool| -> BTreeSet<&str> {
        let of = cells_of
            .iter()
            .filter(|(index, _)| index.contains('-') == shared);
        of.filter(|(index, _)| index != "*")
            .map(|(_, fill)| &**fill)
            .collect()
    };
    assert_eq!(of(true).len(), 1, "{cells_of:?}");
    assert_eq!(of(false).len(), 3, "{cells_of:?}");
    assert!(of(true).is_disjoint(&of(false)), "{cells_of:?}");
    let fill = of(true).into_iter().next().unwrap();
    let patch = halo.split(OVERLAP).next().unwrap();
    let patch = patch.rsplit("<rect").next().unwrap();
    assert!(patch.contains(&format!("fill=\"{fill}\"")), "{patch}");
    let apart = draw("heads");
    assert!(!words(&apart).iter().any(|w| w == OVERLAP));
    assert!(!apart.contains(fill), "{apart}");
}

/// A chain of operations, each with its own type.
fn typed(types: &[&str]) -> String {
    let mut text = String::new();
    for (i, pair) in types.windows(2).enumerate() {
        let from = i.checked_sub(1).map_or("x".to_owned(), |i| i.to_string());
        let (a, b) = (pair[0], pair[1]);
        let _ = writeln!(
            text,
            "%{i} = \"hbir.relu\"(%{from}) : (tensor<{a}>) -> tensor<{b}>"
        );
    }
    text
}

const ORDER: &str = "4x6xf32, {order = [1, 0]}";
const STRIDES: &str = "4x6xf32, {strides = [1, 4]}";
const XLA: &str = "4x6xf32, {xla = \"0,1\"}";
const DIGITS: &str = "4x6xf32, {digits = \"4:d0 2:d1 3:d1/2\"}";
/// Checks the number of occurrences of each wanted text, and that there is no other notation.
#[track_caller]
fn spelled(text: &str, wanted: &[(&str, usize)]) {
    let picture = words(&draw(text, svg::write));
    let layouts = [
        "order 1 0",
        "strides 1 4",
        "0,1",
        "6:d1 4:d0",
        "4:d0 2:d1 3:d1/2",
    ];
    for layout in layouts {
        let count = wanted.iter().find(|(w, _)| *w == layout).map_or(0, |w| w.1);
        let found = picture.iter().filter(|w| *w == layout).count();
        assert_eq!(found, count, "{layout} in {picture:?}");
    }
}

/// All layouts are in the first notation of the program, if it can express them.
#[test]
fn one_picture_has_one_notation() {
    spelled(&typed(&[ORDER, STRIDES, XLA]), &[("order 1 0", 3)]);
    spelled(&typed(&[XLA, STRIDES, ORDER]), &[("0,1", 3)]);
    spelled(&typed(&[STRIDES, ORDER, "4x6xf32"]), &[("strides 1 4", 2)]);
    spelled(&typed(&[XLA, XLA]), &[("0,1", 2)]);
    // Blocks cannot express the second layout; digits can express both.
    let digits = [("6:d1 4:d0", 1), ("4:d0 2:d1 3:d1/2", 1)];
    spelled(&typed(&[ORDER, DIGITS]), &digits);
    // A layout of unknown sizes cannot be rewritten. If the other layouts cannot use its notation, each layout keeps
    // its own.
    let unknown = "?x6xf32, {order = [1, 0]}";
    spelled(&typed(&[unknown, STRIDES]), &[("order 1 0", 2)]);
    let stay = [("order 1 0", 1), ("4:d0 2:d1 3:d1/2", 1)];
    spelled(&typed(&[unknown, DIGITS]), &stay);
}

#[test]
fn the_panels_of_a_picture_share_a_notation() {
    let registry = optc_ops::registry();
    let modules = [STRIDES, ORDER].map(|ty| optc_ir::text::parse(&typed(&[ty, ty])).unwrap());
    let panels = modules.iter().map(|module| Panel {
        title: "a state".to_owned(),
        module,
        registry: &registry,
        charges: Vec::new(),
        mesh: None,
    });
    let picture = Picture {
        title: "two".to_owned(),
        panels: panels.collect(),
    };
    for write in [dot::write as fn(&Picture<'_>) -> String, svg::write] {
        let text = write(&picture);
        assert_eq!(text.matches("strides 1 4").count(), 4, "{text}");
        assert_eq!(text.matches("order 1 0").count(), 0, "{text}");
    }
}

/// A plan with unknown sizes has no cells: the program is drawn instead, and the picture says so.
#[test]
fn a_plan_of_unknown_sizes_is_drawn_as_the_program() {
    let program = |size: &str| {
        let ty = format!("tensor<{size}x8xf32>");
        let tile = "{tile = {group = 0, result = [\"1\", \"1\"]}}";
        format!(
            "func.func @main(%x: {ty}) -> {ty} attributes {{hbir.groups = [{{grid = [2]}}]}} {{\n  \
             %0 = \"hbir.relu\"(%x) {tile} : ({ty}) -> {ty}\n  return %0 : {ty}\n}}\n"
        )
    };
    let registry = optc_ops::registry();
    let tiles = |text: &str| {
        let module = optc_ir::text::parse(text).unwrap();
        svg::tiles::write("plan", &module, &registry)
    };
    let known = program("4").replace("[\"1\", \"1\"]", "[\"4\", \"8\"]");
    assert!(tiles(&known).is_some());
    let symbolic = program("?");
    assert_eq!(tiles(&symbolic), None);
    const NOTE: &str = "the plan of tiles is not drawn: it wants sizes that are known";
    let picture = draw(&symbolic, svg::write);
    for text in ["relu", "?×8 f32", NOTE] {
        says(&picture, text);
    }
    assert!(!words(&draw(&known, svg::write)).iter().any(|w| w == NOTE));
}

/// The product leaves a sum in parts over the columns, which is gathered before it is returned.
#[test]
fn a_mesh_colours_wires_and_draws_collectives() {
    let text = r#"
module attributes {hbir.mesh = ["data:4", "model:2"]} {
  func.func @main(%x: tensor<8x128xf32> {hbir.shard = ["data@d0/2"]}, %w: tensor<128x64xf32> {hbir.shard = ["model@d1/32"]}) -> (tensor<8x64xf32> {hbir.shard = ["data@d0/2"]}) {
    %0 = "hbir.matmul"(%x, %w) {shard = ["data@d0/2", "model@d1/32"]} : (tensor<8x128xf32>, tensor<128x64xf32>) -> tensor<8x64xf32>
    return %0 : tensor<8x64xf32>
  }
}
"#;
    let module = optc_ir::text::parse(text).unwrap();
    let registry = optc_ops::registry();
    let mesh = optc_ir::shard::mesh(&module).unwrap().unwrap();
    let func = &module.funcs[0];
    let value = func.results[0];
    let stored = optc_ir::shard::stored(func, value, &mesh).unwrap().unwrap();
    let transfer = Transfer {
        value,
        place: Place::Returned(0),
        to: stored.clone().without(1),
        from: stored,
        collectives: vec![("all-gather", 1, 256)],
    };
    let picture = Picture {
        title: "on a mesh".to_owned(),
        panels: vec![Panel {
            title: "after".to_owned(),
            module: &module,
            registry: &registry,
            charges: Vec::new(),
            mesh: Some(OnMesh {
                mesh,
                transfers: vec![vec![transfer]],
            }),
        }],
    };
    let svg = svg::write(&picture);
    for wanted in [
        "all-gather",
        "256 B over model",
        "data@d0/2",
        "data@d0/2 model@d1/32",
        "split over data and model",
        "made by a collective",
        "data: 4 devices, each sends nothing",
        "model: 2 devices, each sends 256 B in one collective",
    ] {
        says(&svg, wanted);
    }
    // Three wires and the gathered one, each in a colour of its own.
    let document = Document::parse(&svg).unwrap();
    let inks = document.descendants().filter(|n| n.has_tag_name("path"));
    let inks: BTreeSet<&str> = inks.filter_map(|n| n.attribute("stroke")).collect();
    assert_eq!(
        inks.iter().filter(|ink| **ink != "#78909c").count(),
        4,
        "{inks:?}"
    );
    let dot = dot::write(&picture);
    assert_eq!(dot.matches(" -> ").count(), 4, "{dot}");
    assert_eq!(dot.matches("color=\"#d50000\"]").count(), 1, "{dot}");
}
