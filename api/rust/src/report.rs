//! The report of an answer: one page that shows what the passes made of a program, and why bytes still move.

use crate::answer::Answer;
use crate::compiler::Compiler;
use crate::picture::charges;
use crate::program::Program;
use indexmap::IndexMap;
use optc_check::stats::{CostClass, Stats};
use optc_check::{Item, Source, items};
use optc_ir::diag::Lines;
use optc_ir::{Diagnostic, Module, Op, Structure, memory};
use optc_passes::name_of;
use optc_passes::view_fold::{Conversion, Proof, Reason};
use optc_pictures::picture::{Panel, Picture};
use optc_pictures::report::{self, Annex, Cost, Figure, Padding, Remark, Report};
use optc_tile::GROUPS;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

impl Answer {
    /// The answer as one HTML page that opens from a file: the program before and after as graphs, the conversions, copies
    /// and padding that stay with their reasons, the layouts of values, the remarks of the run, memory over time and
    /// tiles. `docs/report.md` describes it.
    ///
    /// `run` names the passes in the heading. If the program has no planned memory, or no plan of tiles, the passes
    /// `bufferize,plan-memory` and `tile-propagate` of this compiler run on a copy. A pass that refuses it says why on
    /// the page.
    ///
    /// ```
    /// let compiler = optc::Compiler::new();
    /// let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>";
    /// let answer = compiler.fold(&compiler.parse("example.ir", text)?)?;
    /// let page = answer.to_html(&compiler, "default");
    /// assert!(page.starts_with("<!DOCTYPE html>") && page.contains("example.ir"));
    /// # Ok::<(), optc::Error>(())
    /// ```
    #[must_use]
    pub fn to_html(&self, compiler: &Compiler, run: &str) -> String {
        let program = self.program();
        let before = self.before();
        let picture = Picture {
            title: file_name(program),
            panels: vec![
                self.panel("before", before),
                self.panel("after", &program.module),
            ],
        };
        let moved = self.moved(compiler);
        let copies = self.copies(&moved);
        let memory = self.with(compiler, "bufferize,plan-memory", is_planned);
        let tiles = self.with(compiler, "tile-propagate", is_tiled);
        let title = picture.title.clone();
        report::write(&Report {
            run: format!("{} · {run}", self.target(compiler)),
            figures: self.figures(compiler),
            costs: self.costs(&moved, &copies),
            padding: self.padding(&moved),
            remarks: self.remarks(&copies),
            memory: self.annex(&title, &memory),
            tiles: self.annex(&title, &tiles),
            picture,
        })
    }

    fn panel<'a>(&'a self, title: &str, module: &'a Module) -> Panel<'a> {
        Panel {
            title: title.to_owned(),
            module,
            registry: self.registry(),
            charges: charges(module, self.registry()),
            mesh: None,
        }
    }

    fn annex<'a>(&'a self, title: &str, state: &'a Result<Program, String>) -> Annex<'a> {
        match state {
            Ok(program) => Annex::Drawn(Picture {
                title: title.to_owned(),
                panels: vec![self.panel("after", &program.module)],
            }),
            Err(why) => Annex::Absent(why.clone()),
        }
    }

    /// The result after further passes, or the result itself if they ran before.
    fn with(
        &self,
        compiler: &Compiler,
        passes: &str,
        done: fn(&Module) -> bool,
    ) -> Result<Program, String> {
        let mut program = self.program().clone();
        if !done(&program.module) {
            let ran = compiler.compile(&mut program, passes);
            ran.map_err(|error| format!("{passes} refuses the program: {error}"))?;
        }
        match done(&program.module) {
            true => Ok(program),
            false => Err(format!("{passes} found nothing to decide.")),
        }
    }

    fn target(&self, compiler: &Compiler) -> String {
        let target = compiler.target_of(&self.program().module);
        target.map_or_else(
            || "no target".to_owned(),
            |target| format!("target {}", target.name),
        )
    }

    /// The operations and arguments of the result that cost bytes.
    fn moved(&self, compiler: &Compiler) -> Vec<Item> {
        let module = &self.program().module;
        let target = compiler.target_of(module);
        items(module, self.registry(), self.sizes(), target.as_deref())
    }

    fn figures(&self, compiler: &Compiler) -> Vec<Figure> {
        let (before, after) = (compiler.stats_of(self.before(), self.sizes()), self.stats());
        let figure = |name: &str, of: fn(&Stats) -> u64, note: String| Figure {
            name: name.to_owned(),
            before: report::bytes(of(&before)),
            after: report::bytes(of(after)),
            note,
        };
        let ops = |n: u64| format!("{n} operation{}", if n == 1 { "" } else { "s" });
        let mut figures = vec![
            figure("Moved", |s| s.movement_bytes, ops(after.movement_ops)),
            figure("Copied", |s| s.copy_bytes, ops(after.copy_ops)),
        ];
        if 0 < before.expand_bytes + after.expand_bytes {
            figures.push(figure(
                "Repeated",
                |s| s.expand_bytes,
                ops(after.expand_ops),
            ));
        }
        if let Some(fold) = self.folded() {
            let bound = report::bytes(fold.lower_bound_bytes);
            figures.push(Figure {
                name: "With padding".to_owned(),
                before: report::bytes(fold.bytes_before),
                after: report::bytes(fold.bytes_after),
                note: match fold.proof {
                    Proof::Optimal => "proved optimal".to_owned(),
                    Proof::OptimalInCandidates => {
                        format!("at least {bound}, best of the candidates")
                    }
                    Proof::Bound => format!("at least {bound}"),
                },
            });
        }
        figures.push(Figure {
            name: "Operations".to_owned(),
            before: before.ops.to_string(),
            after: after.ops.to_string(),
            note: format!("{} views", after.view),
        });
        if let Ok(peak) = self.peak_bytes() {
            figures.push(Figure {
                name: "Live at most".to_owned(),
                before: String::new(),
                after: report::bytes(peak),
                note: "at once".to_owned(),
            });
        }
        figures
    }

    /// The operations that move, copy or repeat, and conversions of constants, each with its reasons.
    fn costs(&self, moved: &[Item], copies: &IndexMap<(usize, Op), usize>) -> Vec<Cost> {
        let folded = self.folded().into_iter().flat_map(|fold| &fold.conversions);
        let folded: BTreeMap<(usize, Op), &Conversion> =
            folded.map(|(func, c)| ((*func, c.op), c)).collect();
        let mut costs = Vec::new();
        for item in moved {
            let (Source::Op(op), Some(kind)) = (item.of, self.kind(item)) else {
                continue;
            };
            let mut cost = Cost {
                func: item.func,
                op,
                kind,
                bytes: item.bytes,
                layouts: None,
                reasons: Vec::new(),
                removed_by: Vec::new(),
            };
            match folded.get(&(item.func, op)) {
                Some(conversion) => explain(conversion, &mut cost),
                None => {
                    let remark = copies.get(&(item.func, op));
                    let remark = remark.map(|&number| &self.report().remarks[number]);
                    let notes = remark.into_iter().flat_map(|diag| &diag.notes);
                    cost.reasons = notes.map(|note| ("Why it stays", note.clone())).collect();
                }
            }
            costs.push(cost);
        }
        costs
    }

    /// The number of the remark that says why an operation copies, repeats or rearranges. Remarks are in the order of
    /// the operations, so that those of two functions are told apart.
    fn copies(&self, moved: &[Item]) -> IndexMap<(usize, Op), usize> {
        let mut said: IndexMap<&str, VecDeque<usize>> = IndexMap::new();
        for (number, diag) in self.report().remarks.iter().enumerate() {
            if let Some((about, _)) = diag.message.rsplit_once(" stays: ") {
                said.entry(about).or_default().push_back(number);
            }
        }
        let number = |item: &Item| {
            let (Source::Op(op), Some(kind)) = (item.of, self.kind(item)) else {
                return None;
            };
            let func = &self.program().module.funcs[item.func];
            let about = format!(
                "{kind} by {}",
                name_of(func, *func.ops[op].results.first()?)
            );
            Some(((item.func, op), said.get_mut(&*about)?.pop_front()?))
        };
        moved.iter().filter_map(number).collect()
    }

    /// The word for an operation that costs bytes; `None` for one that costs none at run time.
    fn kind(&self, item: &Item) -> Option<&'static str> {
        let Source::Op(op) = item.of else { return None };
        let data = &self.program().module.funcs[item.func].ops[op];
        let converts = self.registry().structure(&data.name) == Structure::Convert;
        match (item.class, converts) {
            (CostClass::Movement, true) => Some("conversion"),
            (CostClass::Constant, true) => Some("constant conversion"),
            (CostClass::Copy, _) => Some("copy"),
            (CostClass::Expand, _) => Some("repetition"),
            (CostClass::Movement, false) => Some("rearrangement"),
            (CostClass::Free | CostClass::Constant, _) => None,
        }
    }

    fn padding(&self, moved: &[Item]) -> Vec<Padding> {
        let module = &self.program().module;
        let padded = moved.iter().filter(|item| 0 < item.padding);
        let padded = padded.filter_map(|item| {
            let value = match item.of {
                Source::Arg(value) => Some(value),
                Source::Op(op) => module.funcs[item.func].ops[op].results.first().copied(),
            };
            Some(Padding {
                func: item.func,
                value: value?,
                bytes: item.padding,
            })
        });
        padded.collect()
    }

    /// The messages of the front end and of the passes, as the command prints them.
    fn remarks(&self, copies: &IndexMap<(usize, Op), usize>) -> Vec<Remark> {
        let program = self.program();
        let conversions = self.folded().into_iter().flat_map(|fold| &fold.conversions);
        // `view-fold` has a remark for each conversion, in this order.
        let mut conversions = conversions.map(|(func, conversion)| (*func, conversion.op));
        let copies: BTreeMap<usize, (usize, Op)> = copies.iter().map(|(&at, &n)| (n, at)).collect();
        let lines = Lines::new(program.source());
        let read = program.diagnostics.iter().map(|diag| (None, diag));
        let ran = self.report().remarks.iter().enumerate();
        let remark = |(copy, diag): (Option<(usize, Op)>, &Diagnostic)| {
            let of = match diag.code.as_str() {
                "conversion-stays" | "constant-conversion" => conversions.next(),
                _ => copy,
            };
            said(program, &lines, diag, of)
        };
        read.chain(ran.map(|(n, diag)| (copies.get(&n).copied(), diag)))
            .map(remark)
            .collect()
    }
}

fn file_name(program: &Program) -> String {
    let file = Path::new(&program.name).file_name();
    file.map_or(program.name.clone(), |name| {
        name.to_string_lossy().into_owned()
    })
}

fn is_planned(module: &Module) -> bool {
    memory::State::of(module) == Some(memory::State::Planned)
}

fn is_tiled(module: &Module) -> bool {
    module
        .funcs
        .iter()
        .any(|func| func.attrs.get(GROUPS).is_some())
}

fn explain(conversion: &Conversion, cost: &mut Cost) {
    cost.layouts = Some(conversion.words_of_layouts.clone());
    let mut say = |heading, text: &Option<String>| {
        if let Some(text) = text {
            cost.reasons.push((heading, text.clone()));
        }
    };
    say("Present order fixed by", &conversion.forced_by);
    say("Order of the readers fixed by", &conversion.wanted_by);
    say(
        "Why it stays",
        &conversion.reason.as_ref().map(ToString::to_string),
    );
    for line in &conversion.left_out {
        say("Forms left out", &Some(line.clone()));
    }
    cost.removed_by = match &conversion.reason {
        Some(Reason::Pinned { options, .. }) => options
            .iter()
            .map(|option| option.to_string().replace('`', ""))
            .collect(),
        Some(Reason::Boundary) => vec!["--free-boundary".to_owned()],
        Some(Reason::Cap { max_layouts }) => vec![format!("max-layouts={max_layouts}")],
        _ => Vec::new(),
    };
}

fn said(
    program: &Program,
    lines: &Lines<'_>,
    diag: &Diagnostic,
    of: Option<(usize, Op)>,
) -> Remark {
    let placed = program.placed(vec![diag.clone()]).remove(0);
    let place = placed.labels.first().map_or_else(String::new, |(span, _)| {
        let at = lines.position(span.start);
        format!("{}:{}", at.line, at.column)
    });
    let text = optc_ir::render_in(&placed, &program.name, lines);
    let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
    Remark {
        severity: diag.severity.word(),
        code: diag.code.as_str().to_owned(),
        place,
        message: diag.message.clone(),
        rest: rest.trim_end().to_owned(),
        of,
    }
}
