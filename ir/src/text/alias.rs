//! Aliases: their definitions, and their values at each use.
//!
//! A definition may follow its uses. So the positions of all definitions are found first, and a value is read at its
//! first use.

use super::lexer::line_end;
use super::parser::{Alias, Fail, PResult, Parser};
use crate::attr::Attr;
use crate::codes;
use crate::module::Loc;
use crate::types::Type;
use std::sync::Arc;

/// The number of bytes of an alias's text that count as one attribute or location.
const BYTES_A_NODE: u64 = 8;

impl<'s> Parser<'s> {
    /// Finds `#a = …` and `!t = …` at the start of lines; a definition may follow its uses.
    pub(super) fn find_aliases(&mut self) {
        let bytes = self.src.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            self.pos = at;
            if matches!(bytes.get(at), Some(b'#' | b'!')) {
                self.pos += 1;
                if self.word_here().is_some() {
                    let name = self.src.get(at..self.pos).unwrap_or_default();
                    if self.eat("=") {
                        let at = self.pos;
                        let alias = Alias {
                            at,
                            attr: None,
                            ty: None,
                            loc: None,
                            text: None,
                        };
                        self.aliases.entry(name).or_insert(alias);
                    }
                }
            }
            at = line_end(bytes, at) + 1;
        }
        self.pos = 0;
    }

    /// Reads the value of an alias at its definition, then returns the cursor to the use.
    pub(super) fn visit<T>(
        &mut self,
        at: usize,
        f: impl FnOnce(&mut Self) -> PResult<T>,
    ) -> PResult<T> {
        let back = self.pos;
        self.pos = at;
        let out = self.deeper(f);
        self.pos = back;
        out
    }

    /// The attribute that `#name` stands for.
    pub(super) fn alias_attr(&mut self, name: &str) -> PResult<Option<Attr>> {
        let Some((index, _, alias)) = self.aliases.get_full(name) else {
            return Ok(None);
        };
        if let Some((_, nodes)) = alias.attr {
            self.nodes = self.nodes.saturating_add(nodes);
            self.spend(nodes)?;
            return Ok(self.aliases[index]
                .attr
                .as_ref()
                .map(|(attr, _)| attr.clone()));
        }
        let before = self.nodes;
        let attr = self.visit(alias.at, Self::attr_counted)?;
        self.aliases[index].attr = Some((attr.clone(), self.nodes - before));
        Ok(Some(attr))
    }

    /// Reads an attribute and also counts its text, since every use of the alias repeats it.
    pub(super) fn attr_counted(&mut self) -> PResult<Attr> {
        let start = self.pos;
        let attr = self.attr()?;
        self.nodes += (self.pos - start) as u64 / BYTES_A_NODE;
        Ok(attr)
    }

    /// The type that `!name` stands for.
    pub(super) fn alias_type(&mut self, name: &str) -> PResult<Option<Type>> {
        let Some((index, _, alias)) = self.aliases.get_full(name) else {
            return Ok(None);
        };
        if let Some((ty, nodes)) = &alias.ty {
            let (ty, nodes) = (ty.clone(), *nodes);
            self.spend(nodes)?;
            return Ok(Some(ty));
        }
        let (ty, nodes) = self.visit(alias.at, |p| {
            let start = p.pos;
            let ty = p.ty()?;
            Ok((ty, (p.pos - start) as u64 / BYTES_A_NODE))
        })?;
        self.aliases[index].ty = Some((ty.clone(), nodes));
        Ok(Some(ty))
    }

    /// The location that `#name` stands for.
    pub(super) fn alias_loc(&mut self, name: &str) -> PResult<Option<Loc>> {
        let Some((index, _, alias)) = self.aliases.get_full(name) else {
            return Ok(None);
        };
        if let Some((_, nodes)) = alias.loc {
            self.nodes = self.nodes.saturating_add(nodes);
            self.spend(nodes)?;
            return Ok(self.aliases[index].loc.as_ref().map(|(loc, _)| loc.clone()));
        }
        let before = self.nodes;
        let loc = self.visit(alias.at, |p| {
            if p.at("#") {
                return p.loc_inside();
            }
            let start = p.pos;
            let loc = p.loc()?;
            p.nodes += (p.pos - start) as u64 / BYTES_A_NODE;
            Ok(loc)
        })?;
        self.aliases[index].loc = Some((loc.clone(), self.nodes - before));
        Ok(Some(loc))
    }

    /// The text of an alias's value, with other aliases in it replaced.
    pub(super) fn alias_text(&mut self, name: &str) -> PResult<Option<Arc<str>>> {
        let Some((index, _, alias)) = self.aliases.get_full(name) else {
            return Ok(None);
        };
        if let Some(text) = &alias.text {
            return Ok(Some(text.clone()));
        }
        let text = self.visit(alias.at, |p| {
            p.skip();
            let start = p.pos;
            p.alias_value(name)?;
            p.raw_since(start)
        })?;
        let text: Arc<str> = Arc::from(text);
        self.aliases[index].text = Some(text.clone());
        Ok(Some(text))
    }

    pub(super) fn alias_value(&mut self, name: &str) -> PResult<()> {
        if name.starts_with('!') {
            return self.ty().map(drop);
        }
        if self.at("loc(") {
            return self.loc().map(drop);
        }
        let start = self.pos;
        let fail = match self.attr() {
            Ok(_) => return Ok(()),
            Err(fail) => fail,
        };
        // A layout in the short form is not an attribute.
        self.pos = start;
        if self.byte() == Some(b'{') && self.encoding_entries().is_ok() {
            return Ok(());
        }
        Err(fail)
    }

    /// `#name = …` or `!name = …` at the top of the file.
    pub(super) fn alias_definition(&mut self) -> PResult<()> {
        let start = self.pos;
        self.pos += 1;
        self.word_here()
            .ok_or_else(|| self.wanted("the name of an alias", ""))?;
        let name = self.src.get(start..self.pos).unwrap_or_default();
        let span = self.span(start, self.pos);
        self.expect("=", "after the name of an alias")?;
        if self.aliases.get(name).is_some_and(|a| a.at != self.pos) {
            let message = format!("the alias `{name}` is defined twice");
            return Err(Fail::at(
                codes::ALIAS_REDEFINED,
                message,
                span,
                "the second one",
            ));
        }
        self.alias_value(name)
    }
}
