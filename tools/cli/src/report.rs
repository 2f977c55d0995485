//! `optc report`: a page that shows what passes make of a program, and why bytes still move.

use crate::args::ReportArgs;
use crate::driver::Main;
use crate::failure::{Failure, Status};
use crate::inputs::{self, Input};
use crate::streams::Streams;
use crate::terminal;
use optc::passes::pipeline;
use optc::write_aside;
use std::path::Path;

pub(crate) fn command(
    driver: &Main,
    args: &ReportArgs,
    streams: &mut Streams<'_>,
) -> Result<Status, Failure> {
    let mut compiler = inputs::compiler(driver, &args.compile)?;
    let own = pipeline::DEFAULT.join(",");
    let stages = inputs::stages(&compiler, &args.compile, &own)?;
    let input = Input::read(&args.input, streams)?;
    let mut program = input.program(&compiler, args.compile.from.as_deref())?;
    inputs::set_data(&mut program, args.compile.data.as_deref())?;
    inputs::check_bindings(&args.compile.bind, &[&program])?;
    let mut cx = inputs::context(&compiler, &program, &args.compile)?;
    cx.explain_remarks = true;
    compiler.boundary = cx.boundary.clone();
    terminal::doing(|| format!("{}: passes", program.name));
    let answer = compiler.answer_in(&program, &stages, &mut cx, &mut args.compile.hooks())?;
    terminal::doing(|| format!("{}: writing", program.name));
    let page = answer.to_html(&compiler, args.compile.pass.as_deref().unwrap_or(&own));
    match args
        .output
        .as_deref()
        .filter(|path| *path != Path::new("-"))
    {
        Some(path) => write_aside(path, page.as_bytes())?,
        None => streams.print(&page),
    }
    Ok(Status::Done)
}
