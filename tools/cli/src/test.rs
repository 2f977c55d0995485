//! `optc test`: runs file tests.

use crate::args::TestArgs;
use crate::codes;
use crate::failure::{Failure, Status};
use crate::filetest;
use crate::streams::Streams;
use optc::{Diagnostic, Error};

pub(crate) fn command(args: &TestArgs, streams: &mut Streams<'_>) -> Result<Status, Failure> {
    let mut cases = Vec::new();
    for path in &args.paths {
        cases.extend(filetest::discover(path).map_err(|e| Error::io("read", path, &e))?);
    }
    if cases.is_empty() {
        let paths: Vec<String> = args.paths.iter().map(|p| p.display().to_string()).collect();
        let message = "found no file with a `// RUN:` header";
        return Err(Failure::about(
            &paths.join(" "),
            Diagnostic::error(codes::NO_TESTS, message),
        ));
    }
    let (mut passed, mut failed) = (0usize, 0usize);
    for case in &cases {
        let outcome = filetest::run(case);
        if args.show {
            streams.print(&format!("{}:\n{}\n", case.display(), outcome.snapshot()));
        }
        if outcome.failures.is_empty() {
            passed += 1;
        } else {
            failed += 1;
            streams.line(&format!("FAILED {}", case.display()));
            for failure in &outcome.failures {
                let indented = failure.replace('\n', "\n    ");
                streams.line(&format!("    {indented}"));
            }
        }
    }
    streams.line(&format!("{passed} passed, {failed} failed"));
    Ok(if failed == 0 {
        Status::Done
    } else {
        Status::Refused
    })
}
