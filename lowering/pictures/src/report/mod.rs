//! A report: one HTML page that shows a program before and after its passes, and why bytes still move.
//!
//! The page has all that it needs in itself and opens from a file. `scene.rs` places every layer once, with the layers in
//! it closed, and writes the places as JSON. `page.js` draws them, opens and closes layers, and shows details of the box
//! or value that is clicked. The tables, the remarks and the pictures of memory and tiles are plain HTML (`page.rs`), which
//! `html.rs` escapes.
//!
//! A layer that opens takes more space than its closed box. `page.js` stretches the layer around it: coordinates to the
//! right of the box and below it move away by the difference, and no others come nearer to one another, so that boxes
//! which did not overlap still do not.

mod html;
mod page;
mod scene;

use crate::picture::Picture;
use crate::words;
use optc_ir::{Op, Value};

/// The contents of a report.
#[derive(Debug)]
pub struct Report<'a> {
    /// The program before and after the passes. The title is the name of the input.
    pub picture: Picture<'a>,
    /// The target and the passes, in one line.
    pub run: String,
    /// The figures at the top of the page.
    pub figures: Vec<Figure>,
    /// The operations of the last panel that move bytes, with the reasons.
    pub costs: Vec<Cost>,
    /// The padding of values of the last panel.
    pub padding: Vec<Padding>,
    /// The messages of the run.
    pub remarks: Vec<Remark>,
    /// The program with planned memory.
    pub memory: Annex<'a>,
    /// The program with a plan of tiles.
    pub tiles: Annex<'a>,
}

/// A figure of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The quantity.
    pub name: String,
    /// The figure before the passes; empty if there is none.
    pub before: String,
    /// The figure after them.
    pub after: String,
    /// A remark in few words; may be empty.
    pub note: String,
}

/// An operation that moves bytes.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The number of its function.
    pub func: usize,
    /// The operation.
    pub op: Op,
    /// The kind in one or two words, such as `conversion`.
    pub kind: &'static str,
    /// Bytes read plus written.
    pub bytes: u64,
    /// The layouts before and after, for a conversion.
    pub layouts: Option<[String; 2]>,
    /// The reasons: a heading and a text each.
    pub reasons: Vec<(&'static str, String)>,
    /// Options of the command that were tried and remove it.
    pub removed_by: Vec<String>,
}

/// The padding of one value.
#[derive(Clone, Copy, Debug)]
pub struct Padding {
    /// The number of its function.
    pub func: usize,
    /// The value.
    pub value: Value,
    /// Bytes that hold no element.
    pub bytes: u64,
}

/// A message of the run.
#[derive(Clone, Debug)]
pub struct Remark {
    /// `remark` or `warning`.
    pub severity: &'static str,
    /// The code.
    pub code: String,
    /// The place in the source; empty if there is none.
    pub place: String,
    /// The message.
    pub message: String,
    /// The excerpt of the source and the notes, as the command prints them.
    pub rest: String,
    /// The operation of the last panel that the message is about.
    pub of: Option<(usize, Op)>,
}

/// A further state of the program that one section of the report draws.
#[derive(Debug)]
pub enum Annex<'a> {
    /// The state.
    Drawn(Picture<'a>),
    /// The reason why there is none.
    Absent(String),
}

/// Bytes in decimal units, with one digit after the point.
#[must_use]
pub fn bytes(n: u64) -> String {
    words::bytes(n)
}

/// The report as a page, ending with a line break. Equal programs give equal bytes.
#[must_use]
pub fn write(report: &Report<'_>) -> String {
    let scene = scene::Scene::of(report);
    page::write(report, &scene)
}
