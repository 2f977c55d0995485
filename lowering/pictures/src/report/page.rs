//! The page of a report: its form, tables, remarks and pictures.

use crate::report::html::Html;
use crate::report::scene::Scene;
use crate::report::{Annex, Cost, Report};
use crate::svg;
use crate::words;
use indexmap::IndexMap;
use optc_ir::Func;
use optc_ir::text::value_names;
use optc_tile::Plan;

/// The largest number of rows of a table.
const MOST_ROWS: usize = 200;

/// The sections below the graphs: anchor and title.
const SECTIONS: [(&str, &str); 6] = [
    ("conversions", "Conversions"),
    ("copies", "Copies"),
    ("padding", "Padding"),
    ("memory", "Memory"),
    ("tiles", "Tiles"),
    ("remarks", "Remarks"),
];

/// The kind of operation that the table of conversions has; that of copies has all others.
const CONVERSION: &str = "conversion";

pub(crate) fn write(report: &Report<'_>, scene: &Scene) -> String {
    let mut page = Html::default();
    page.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.raw("<title>")
        .text(&report.picture.title)
        .raw("</title>\n");
    page.raw("<style>\n").raw(include_str!("page.css"));
    page.raw("</style>\n</head>\n<body>\n");
    header(&mut page, report);
    page.raw(include_str!("page.html"));
    page.raw("<section id=\"drawer\">\n<nav role=\"tablist\">");
    let mut rest = Html::default();
    for (anchor, title) in SECTIONS {
        let mut body = Html::default();
        let count = section(&mut body, anchor, report, scene);
        page.raw("<button role=\"tab\" data-tab=\"").text(anchor);
        page.raw("\">").text(title);
        if let Some(count) = count {
            page.element("small", "", &count.to_string());
        }
        page.raw("</button>");
        rest.raw("<article id=\"").text(anchor).raw("\">\n");
        rest.element("h2", "", title).raw("\n");
        rest.raw(&body.finish()).raw("</article>\n");
    }
    page.raw("</nav>\n<div id=\"sections\">\n")
        .raw(&rest.finish());
    page.raw("</div>\n</section>\n");
    page.data("data", &scene.data);
    page.raw("<script>\n").raw(include_str!("stage.js"));
    page.raw(include_str!("page.js"));
    page.raw("</script>\n</body>\n</html>\n");
    page.finish()
}

fn header(page: &mut Html, report: &Report<'_>) {
    page.raw("<header>\n<div class=\"name\">");
    page.element("h1", "", &report.picture.title);
    page.element("p", "", &report.run).raw("</div>\n<dl>");
    for figure in &report.figures {
        page.raw("<div>")
            .element("dt", "", &figure.name)
            .raw("<dd>");
        if !figure.before.is_empty() {
            page.element("span", "was", &figure.before);
            page.raw("<span class=\"to\">→</span>");
        }
        page.element("b", "", &figure.after).raw("</dd>");
        page.element("dd", "note", &figure.note).raw("</div>");
    }
    page.raw("</dl>\n</header>\n");
}

/// Writes a section; returns the number of its entries if it is a list.
fn section(page: &mut Html, anchor: &str, report: &Report<'_>, scene: &Scene) -> Option<usize> {
    let converts = |cost: &&Cost| cost.kind.ends_with(CONVERSION);
    match anchor {
        "conversions" => {
            let all = report.costs.iter().filter(converts).collect();
            Some(costs(page, report, all, scene))
        }
        "copies" => {
            let all = report.costs.iter().filter(|cost| !converts(cost)).collect();
            Some(costs(page, report, all, scene))
        }
        "padding" => Some(padding(page, report, scene)),
        "memory" => {
            memory(page, &report.memory);
            None
        }
        "tiles" => {
            tiles(page, &report.tiles);
            None
        }
        _ => {
            remarks(page, report, scene);
            Some(report.remarks.len())
        }
    }
}

/// A table of operations, those that move the most bytes first.
fn costs(page: &mut Html, report: &Report<'_>, mut all: Vec<&Cost>, scene: &Scene) -> usize {
    if all.is_empty() {
        page.element("p", "none", "None: nothing of this kind is left.");
        return 0;
    }
    all.sort_by_key(|cost| std::cmp::Reverse(cost.bytes));
    let layouts = all.iter().any(|cost| cost.layouts.is_some());
    page.raw("<table><thead><tr><th class=\"n\">Bytes</th><th>Operation</th>");
    if layouts {
        page.raw("<th>From</th><th>To</th>");
    }
    page.raw("<th>Why it stays</th>");
    let removed = all.iter().any(|cost| !cost.removed_by.is_empty());
    page.raw(if removed { "<th>Removed by</th>" } else { "" });
    page.raw("</tr></thead>\n<tbody>");
    let module = report.picture.panels.last().map(|panel| panel.module);
    for cost in all.iter().take(MOST_ROWS) {
        let func = module.and_then(|module| module.funcs.get(cost.func));
        row(
            page,
            scene.box_of((cost.func, cost.op)).map(|b| format!("n{b}")),
        );
        bytes(page, cost.bytes);
        page.raw("<td class=\"what\">").text(cost.kind);
        if let Some(func) = func {
            let title = words::last_name(&func.ops[cost.op].loc);
            let title = title.unwrap_or_else(|| words::op_name(&func.ops[cost.op].name).to_owned());
            page.raw("<br><code>").name(&title).raw("</code>");
        }
        page.raw("</td>");
        if layouts {
            let [from, to] = cost.layouts.clone().unwrap_or_default();
            for layout in [from, to] {
                page.raw("<td class=\"layout\">");
                page.element("code", "", &layout).raw("</td>");
            }
        }
        page.raw("<td>");
        for (i, (heading, text)) in cost.reasons.iter().enumerate() {
            page.raw(if i == 0 { "" } else { "<br>" });
            page.element("i", "", heading).raw("<i>:</i> ").text(text);
        }
        page.raw("</td>");
        if removed {
            page.raw("<td>");
            for (i, option) in cost.removed_by.iter().enumerate() {
                page.raw(if i == 0 { "" } else { "<br>" });
                page.element("code", "", option);
            }
            page.raw("</td>");
        }
        page.raw("</tr>\n");
    }
    page.raw("</tbody></table>\n");
    rest(page, all.len());
    all.len()
}

fn row(page: &mut Html, goal: Option<String>) {
    match goal {
        Some(goal) => page
            .raw("<tr tabindex=\"0\" data-go=\"")
            .text(&goal)
            .raw("\">"),
        None => page.raw("<tr>"),
    };
}

fn bytes(page: &mut Html, bytes: u64) {
    page.raw("<td class=\"n\">")
        .text(&words::bytes(bytes))
        .raw("</td>");
}

fn rest(page: &mut Html, count: usize) {
    if MOST_ROWS < count {
        let text = format!("{} more, with fewer bytes.", count - MOST_ROWS);
        page.element("p", "none", &text);
    }
}

fn padding(page: &mut Html, report: &Report<'_>, scene: &Scene) -> usize {
    let mut all: Vec<_> = report.padding.iter().collect();
    if all.is_empty() {
        page.element(
            "p",
            "none",
            "None: every position of every value holds an element.",
        );
        return 0;
    }
    all.sort_by_key(|padding| std::cmp::Reverse(padding.bytes));
    page.raw("<table><thead><tr><th class=\"n\">Padding</th><th>Value</th><th>Type</th></tr></thead>\n<tbody>");
    let module = report.picture.panels.last().map(|panel| panel.module);
    let funcs = module.into_iter().flat_map(|module| &module.funcs);
    let names: Vec<_> = funcs.map(value_names).collect();
    for padding in all.iter().take(MOST_ROWS) {
        let Some(func) = module.and_then(|module| module.funcs.get(padding.func)) else {
            continue;
        };
        row(
            page,
            scene
                .wire_of((padding.func, padding.value))
                .map(|w| format!("w{w}")),
        );
        bytes(page, padding.bytes);
        let name = names[padding.func].get(&padding.value).map_or("", |n| n);
        page.raw("<td>").element("code", "", &format!("%{name}"));
        let ty = optc_ir::text::print_type(func.ty(padding.value));
        page.raw("</td><td>")
            .element("code", "", &ty)
            .raw("</td></tr>\n");
    }
    page.raw("</tbody></table>\n");
    rest(page, all.len());
    all.len()
}

fn memory(page: &mut Html, annex: &Annex<'_>) {
    match annex {
        Annex::Drawn(picture) => {
            page.element("p", "none", "Operations to the right, bytes upwards: each value from the operation that writes it to its last reader. Red: bytes that are live at once.");
            drawing(page, &svg::arena::write(picture));
        }
        Annex::Absent(why) => {
            page.element("p", "none", why);
        }
    }
}

fn tiles(page: &mut Html, annex: &Annex<'_>) {
    let picture = match annex {
        Annex::Drawn(picture) => picture,
        Annex::Absent(why) => {
            page.element("p", "none", why);
            return;
        }
    };
    let Some(panel) = picture.panels.last() else {
        return;
    };
    page.element("p", "none", "Loops of programs around the operations of each group, with the part of its result that each computes; the picture shows the same.");
    let mut pictures: IndexMap<_, _> = svg::tiles::groups(panel.module, panel.registry)
        .into_iter()
        .collect();
    let mut is_first = true;
    for (at, func) in panel.module.funcs.iter().enumerate() {
        let Ok(Some(plan)) = Plan::read(func) else {
            continue;
        };
        for (number, group) in plan.groups.iter().enumerate() {
            if group.ops.is_empty() {
                continue;
            }
            let grid = group
                .grid()
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>();
            let grid = match grid.is_empty() {
                true => "one program".to_owned(),
                false => format!("{} programs", grid.join(" × ")),
            };
            let count = group.ops.len();
            let heading = format!("@{} group {number}: {count} operations, {grid}", func.name);
            page.raw(if is_first {
                "<details open>"
            } else {
                "<details>"
            });
            page.element("summary", "", &heading)
                .raw("<div class=\"group\">");
            is_first = false;
            loops(page, func, &plan, number);
            match pictures.swap_remove(&(at, number)) {
                Some(drawn) => drawing(page, &drawn),
                None => {
                    page.element(
                        "p",
                        "none",
                        "Not drawn: sizes are unknown, or there are very many values.",
                    );
                }
            }
            page.raw("</div></details>\n");
        }
    }
}

/// A group as nested loops around its operations with their tiles.
fn loops(page: &mut Html, func: &Func, plan: &Plan, number: usize) {
    let (names, group) = (value_names(func), &plan.groups[number]);
    page.raw("<pre>");
    let mut depth = String::new();
    for (axis, steps) in group.axes.iter().enumerate() {
        let (extent, order) = (steps.extent, steps.order.word());
        page.text(&format!("{depth}for g{axis} in 0..{extent} ({order})\n"));
        depth.push_str("  ");
    }
    for &op in &group.ops {
        let data = &func.ops[op];
        let results = data.results.iter().map(|v| names.get(v).map_or("", |n| n));
        let results: Vec<String> = results.map(|name| format!("%{name}")).collect();
        let name = words::op_name(&data.name);
        page.text(&format!("{depth}{} = {name}", results.join(", ")));
        if let Some(tile) = plan.tiles.get(&op) {
            for tile in &tile.results {
                page.text(&format!("  {tile}"));
            }
            let cut: Vec<String> = tile.reduce.iter().map(ToString::to_string).collect();
            if !cut.is_empty() {
                page.text(&format!("  sum over {}", cut.join(", ")));
            }
        }
        page.raw("\n");
    }
    page.raw("</pre>");
}

/// A picture that is complete in itself.
fn drawing(page: &mut Html, svg: &str) {
    page.raw("<div class=\"paper\">").raw(svg).raw("</div>\n");
}

fn remarks(page: &mut Html, report: &Report<'_>, scene: &Scene) {
    if report.remarks.is_empty() {
        page.element("p", "none", "None: the passes had nothing to say.");
    }
    for remark in &report.remarks {
        let goal = remark.of.and_then(|op| scene.box_of(op));
        page.raw("<div class=\"remark\"");
        if let Some(goal) = goal {
            page.raw(" tabindex=\"0\" data-go=\"n")
                .text(&goal.to_string())
                .raw("\"");
        }
        page.raw("><p>")
            .element("span", remark.severity, &remark.code);
        page.raw(" ").text(&remark.message);
        if !remark.place.is_empty() {
            page.raw(" ").element("code", "place", &remark.place);
        }
        page.raw("</p>");
        if !remark.rest.is_empty() {
            page.element("pre", "", &remark.rest);
        }
        page.raw("</div>\n");
    }
}
