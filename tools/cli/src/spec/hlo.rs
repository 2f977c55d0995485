//! `optc spec` on vectors of HLO text: the contents of a module, instruction by instruction.

use super::Outcome;
use super::error::{VectorError, expected};
use optc::Severity;
use optc::hlo::{PrintedComputation, PrintedInstruction, Strictness, parse, print, printed};
use serde_json::{Map, Value as Json, json};

/// The summary of `text`, or its refusal. The printed module must have the same summary when it is read again.
pub(crate) fn hlo_modules(vector: &Json) -> Outcome {
    let known = |key| {
        let text = vector.get(key).and_then(Json::as_str);
        text.ok_or(VectorError::NoKey(key))
    };
    let (text, wanted) = (known("text")?, known("expected")?);
    let (module, diags) = parse(text, Strictness::Exact);
    let error = diags.iter().find(|d| d.severity == Severity::Error);
    if wanted != "ok" {
        let found = if error.is_some() { "error" } else { "ok" };
        return Ok((json!(wanted), json!(found)));
    }
    if let Some(error) = error {
        let found = format!("{}: {}", error.code, error.message);
        return Err(expected("ok", found));
    }
    let found = summary(&printed(&module));
    let text = print(&module);
    let again = parse(&text, Strictness::Exact);
    if let Some(error) = again.1.first() {
        return Err(VectorError::PrintedRefused(error.message.clone()));
    }
    if summary(&printed(&again.0)) != found {
        return Err(VectorError::PrintedOther);
    }
    let expected = vector.get("summary").map_or(Json::Null, keyed);
    Ok(differences(&expected, &found))
}

/// A list of named items as a map by name, since their order is free.
fn keyed(summary: &Json) -> Json {
    let name = |item: &Json| item.get("name").and_then(Json::as_str).map(str::to_owned);
    let mut computations = Map::new();
    for computation in summary.as_array().into_iter().flatten() {
        let mut instructions = Map::new();
        let list = computation.get("instructions").and_then(Json::as_array);
        for instruction in list.into_iter().flatten() {
            instructions.insert(name(instruction).unwrap_or_default(), instruction.clone());
        }
        let mut entry = computation.clone();
        entry["instructions"] = Json::Object(instructions);
        computations.insert(name(computation).unwrap_or_default(), entry);
    }
    Json::Object(computations)
}

fn summary(computations: &[PrintedComputation]) -> Json {
    let list = computations.iter().map(|computation| {
        let instructions = computation.instructions.iter().map(instruction);
        json!({
            "name": computation.name,
            "entry": computation.entry,
            "instructions": instructions.collect::<Vec<Json>>(),
        })
    });
    keyed(&Json::Array(list.collect()))
}

fn instruction(instruction: &PrintedInstruction) -> Json {
    let keys = instruction.attrs.iter().map(|(key, _)| key.clone());
    json!({
        "name": instruction.name,
        "root": instruction.root,
        "shape": instruction.shape,
        "opcode": instruction.opcode,
        "operands": instruction.operands,
        "attribute_keys": keys.collect::<Vec<String>>(),
    })
}

/// The parts in which two maps of computations differ; two empty maps if they are equal.
fn differences(expected: &Json, found: &Json) -> (Json, Json) {
    let part = |of: &Json, other: &Json| {
        let mut out = Map::new();
        for (name, computation) in of.as_object().into_iter().flatten() {
            let there = other.get(name);
            if there == Some(computation) {
                continue;
            }
            let (mut short, list) = (computation.clone(), computation.get("instructions"));
            let differs = |(key, value): &(&String, &Json)| {
                let same = there.and_then(|t| t.get("instructions")?.get(key.as_str()));
                same != Some(value)
            };
            let list = list.and_then(Json::as_object).into_iter().flatten();
            let list = list.filter(differs).map(|(k, v)| (k.clone(), v.clone()));
            short["instructions"] = Json::Object(list.collect());
            out.insert(name.clone(), short);
        }
        Json::Object(out)
    };
    (part(expected, found), part(found, expected))
}
