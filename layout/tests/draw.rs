//! The figures of `docs/layouts.md`, and the texts in drawings.
//!
//! `OPTC_BLESS=1 cargo test -p optc-layout --test draw` rewrites the figures.

use std::path::{Path, PathBuf};

use optc_layout::notation::parse_tensor;
use optc_layout::{Axes, DrawError, Drawing};

fn drawing(tensor: &str, axes: &Axes) -> Drawing {
    let tensor = parse_tensor(tensor).unwrap_or_else(|error| panic!("{tensor}: {error}"));
    Drawing::new(&tensor.layout, axes).expect("there are elements")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The tensor, the axes and the file of each `optc layout draw` command in the page.
fn figures() -> Vec<(String, Axes, PathBuf)> {
    let page = std::fs::read_to_string(root().join("docs/layouts.md")).expect("the page");
    let draws = page
        .lines()
        .filter_map(|line| line.strip_prefix("optc layout draw '"));
    let figure = |line: &str| {
        let (tensor, rest) = line.split_once('\'').expect("a quoted tensor");
        let axes = match rest.contains("--axes=xla") {
            true => Axes::Xla,
            false => Axes::Own,
        };
        let file = rest
            .split_once("-o ")
            .map(|(_, file)| root().join(file.trim()))?;
        Some((tensor.to_owned(), axes, file))
    };
    draws.filter_map(figure).collect()
}

#[test]
fn the_figures_are_what_the_commands_draw() {
    let figures = figures();
    assert!(3 <= figures.len());
    for (tensor, axes, file) in figures {
        let svg = drawing(&tensor, &axes).svg();
        if std::env::var_os("OPTC_BLESS").is_some() {
            std::fs::write(&file, &svg).expect("the folder is there");
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(kept == svg, "{} is not what {tensor} draws", file.display());
    }
}

/// The numbers in the cells of the SVG of one class of text, in reading order.
fn labels(svg: &str, class: &str) -> Vec<String> {
    let mark = format!("class=\"{class}\">");
    let texts = svg.split("<text ").filter(|text| text.contains(&mark));
    let label = |text: &str| {
        let start = text.find(&mark).expect("filtered") + mark.len();
        text[start..text.find("</text>").expect("closed")].to_owned()
    };
    texts.map(label).collect()
}

#[test]
fn cells_carry_their_linear_index() {
    let svg = drawing("f32[3,5]{1,0:T(2,2)}", &Axes::Xla).svg();
    let (page, memory) = svg.split_once("memory:").expect("two parts");
    let rows = [
        ["0", "1", "4", "5", "8"],
        ["2", "3", "6", "7", "10"],
        ["12", "13", "16", "17", "20"],
    ];
    assert_eq!(labels(page, "cell"), rows.concat());
    let unused = ["9", "11", "21", "14", "15", "18", "19", "22", "23"];
    assert_eq!(labels(page, "unused"), unused);
    assert_eq!(page.matches("url(#pad)").count(), 9);
    assert_eq!(labels(memory, "cell").len(), 15);
    assert_eq!(memory.matches("url(#pad)").count(), 9);
    assert_eq!(labels(page, "axis"), ["x", "y"]);
}

#[test]
fn text_for_terminals() {
    let text = drawing("f32[2,3]{1,0:T(2,2)}", &Axes::Own).terminal(false);
    let wanted = "     W=0    1    2    3\n\
        H=0    0    1 ┃   4   [5]\n\
        \u{20}  1    2    3 ┃   6   [7]\n";
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(squeeze(&text), squeeze(wanted), "{text}");
    let coloured = drawing("f32[2,3]{1,0:T(2,2)}", &Axes::Own).terminal(true);
    assert!(
        coloured.contains("\u{1b}[30;48;5;153m") && coloured.ends_with("\u{1b}[0m\n"),
        "{coloured:?}"
    );
}

#[test]
fn higher_ranks_have_pages() {
    let text = drawing("tensor<2x3x2x2xsi8>", &Axes::Own).terminal(false);
    assert_eq!(text.matches("N = ").count(), 6, "{text}");
    let text = drawing("f32[3,2,2]{0,1,2}", &Axes::Xla).terminal(false);
    assert!(
        text.contains("x = 1") && text.contains("y=0") && text.contains("z=0"),
        "{text}"
    );
    let text = drawing("tensor<100x2x2xsi8>", &Axes::Own).terminal(false);
    assert!(text.contains("drawn: pages 1 to 12 of 100"), "{text}");
    let text = drawing("tensor<100xsi8>", &Axes::Own).svg();
    assert!(text.contains("drawn: columns 0 to 63 of 100"), "{text}");
    let text = drawing("f32[]{:T(128)}", &Axes::Own).terminal(false);
    assert!(text.contains(" 0 "), "{text}");
}

#[test]
fn levels_of_tiles_have_their_own_lines() {
    let two = drawing("f32[4,8]{1,0:T(2,4)(2,1)}", &Axes::Xla).svg();
    assert!(two.contains("#0f172a") && two.contains("#c2410c") && !two.contains("#15803d"));
    let block = drawing("tensor<4x8xsi8, {block = \"2H4W|2H1W\"}>", &Axes::Own).svg();
    let cells = |svg: &str| labels(svg, "cell");
    assert_eq!(cells(&two), cells(&block));
    let letters = drawing("tensor<4x8xsi8, {block = \"4W2H\"}>", &Axes::Own).svg();
    assert_eq!(cells(&two), cells(&letters));
}

#[test]
fn refusals() {
    let empty = parse_tensor("tensor<0x3xf32>").expect("a tensor").layout;
    assert_eq!(
        Drawing::new(&empty, &Axes::Own).err(),
        Some(DrawError::Empty)
    );
    let plane = parse_tensor("tensor<2x3xf32>").expect("a tensor").layout;
    let names = Axes::Named(vec!["a".to_owned()]);
    let wanted = Some(DrawError::Names { found: 1, rank: 2 });
    assert_eq!(Drawing::new(&plane, &names).err(), wanted);
}
