//! The grammar of locations.

use super::parser::{Fail, PResult, Parser};
use crate::codes;
use crate::module::Loc;
use std::sync::Arc;

impl Parser<'_> {
    /// `loc(…)` if it follows, else an unknown location.
    pub(super) fn trailing_loc(&mut self) -> PResult<Loc> {
        if self.at_word("loc") {
            self.loc()
        } else {
            Ok(Loc::Unknown)
        }
    }

    pub(super) fn loc(&mut self) -> PResult<Loc> {
        self.expect("loc", "")?;
        self.expect("(", "after `loc`")?;
        let loc = self.loc_inside()?;
        self.expect(")", "to close `loc(`")?;
        Ok(loc)
    }

    pub(super) fn loc_inside(&mut self) -> PResult<Loc> {
        self.deeper(|p| {
            p.nodes += 1;
            match p.peek() {
                Some(b'"') => p.loc_string(),
                Some(b'#') => p.loc_alias(),
                _ => p.loc_word(),
            }
        })
    }

    pub(super) fn loc_alias(&mut self) -> PResult<Loc> {
        let start = self.pos;
        self.pos += 1;
        self.word_here()
            .ok_or_else(|| self.wanted("the name of a location alias", ""))?;
        let name = self.src.get(start..self.pos).unwrap_or_default();
        let loc = self.alias_loc(name)?;
        loc.ok_or_else(|| {
            let span = self.span(start, self.pos);
            let message = format!("the location alias `{name}` is not defined");
            Fail::at(codes::ALIAS_UNDEFINED, message, span, "used here")
        })
    }

    /// `"file":1:2`, `"name"` or `"name"(child)`.
    pub(super) fn loc_string(&mut self) -> PResult<Loc> {
        let text = self.string("as a location")?;
        if self.eat(":") {
            let line = self.loc_number("a line")?;
            self.expect(":", "between line and column")?;
            let col = self.loc_number("a column")?;
            return Ok(Loc::File(Arc::from(&*text), line, col));
        }
        let name = Loc::name(&text);
        if !self.eat("(") {
            return Ok(name);
        }
        let child = self.loc_inside()?;
        self.expect(")", "to close the location")?;
        Ok(fused(vec![name, child]))
    }

    pub(super) fn loc_number(&mut self, what: &str) -> PResult<u32> {
        self.skip();
        let start = self.pos;
        let number = self.unsigned(what)?;
        u32::try_from(number).map_err(|_| {
            let span = self.span(start, self.pos);
            Fail::at(
                codes::NUMBER_OUT_OF_RANGE,
                format!("{what} is not below 2^32"),
                span,
                "too large",
            )
        })
    }

    pub(super) fn loc_word(&mut self) -> PResult<Loc> {
        if self.eat_word("unknown") {
            return Ok(Loc::Unknown);
        }
        if self.eat_word("fused") {
            return self.loc_fused();
        }
        if self.eat_word("callsite") {
            self.expect("(", "after `callsite`")?;
            let callee = self.loc_inside()?;
            self.expect("at", "between callee and caller")?;
            let caller = self.loc_inside()?;
            self.expect(")", "to close `callsite(`")?;
            return Ok(fused(vec![callee, caller]));
        }
        Err(self.wanted("a location", "inside `loc(…)`"))
    }

    pub(super) fn loc_fused(&mut self) -> PResult<Loc> {
        if self.byte() == Some(b'<') {
            self.pos += 1;
            self.attr()?;
            self.expect(">", "after the metadata of a fused location")?;
        }
        self.expect("[", "after `fused`")?;
        let mut parts = Vec::new();
        if self.eat("]") {
            return Ok(Loc::Unknown);
        }
        loop {
            parts.push(self.loc_inside()?);
            if self.eat("]") {
                return Ok(fused(parts));
            }
            if !self.eat(",") {
                return Err(self.wanted("`,` or `]`", "in a fused location"));
            }
        }
    }
}

/// A fused location of the parts that are not unknown.
pub(super) fn fused(mut parts: Vec<Loc>) -> Loc {
    parts.retain(|l| *l != Loc::Unknown);
    match parts.len() {
        0 => Loc::Unknown,
        1 => parts.remove(0),
        _ => Loc::Fused(parts.into()),
    }
}
