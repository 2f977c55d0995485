//! The grammar: from text to [`HloModule`].

use crate::agree::agrees;
use crate::codes;
use crate::cursor::{Cursor, MAX_DEPTH, Parsed};
use crate::error::{HloError, span};
use crate::infer::infer;
use crate::literal::literal;
use crate::module::{Attrs, Computation, HloModule, Instruction};
use crate::opcode::{COMMON, COMPUTATIONS, Opcode, names};
use crate::shape::{Shapes, is_type, shape};
use crate::strictness::Strictness;
use crate::values;
use indexmap::{IndexMap, IndexSet};
use optc_ir::diag::nearest;
use optc_ir::{Diagnostic, Span};
use optc_layout::XlaShape;
use rustc_hash::FxBuildHasher;
use std::borrow::Cow;
use std::sync::Arc;

/// Words that are names only with a `%`.
const RESERVED: &[&str] = &[
    "true",
    "false",
    "inf",
    "nan",
    "HloModule",
    "ENTRY",
    "ROOT",
    "FileNames",
    "FunctionNames",
    "FileLocations",
    "StackFrames",
    "maximal",
    "replicated",
    "manual",
    "last_tile_dim_replicate",
    "shard_as",
    "shard_like",
    "unknown",
    "unreduced",
];

/// Reads a module; returns the part that could be read, and the errors of the rest.
///
/// Reading stops at the first error. Time is linear in the text, and nesting is limited.
#[must_use]
pub fn parse(text: &str, strictness: Strictness) -> (HloModule<'_>, Vec<Diagnostic>) {
    let mut parser = Parser {
        cursor: Cursor::new(text),
        strictness,
        module: HloModule::default(),
        shapes: Shapes::default(),
        known: Places::default(),
        open: "",
        entry: None,
        diags: Vec::new(),
    };
    if let Err(error) = parser.module() {
        parser.diags.push(error.diagnostic());
    }
    (parser.module, parser.diags)
}

/// Indices into a list by name.
type Places<'a> = IndexMap<&'a str, usize, FxBuildHasher>;

struct Parser<'a> {
    cursor: Cursor<'a>,
    strictness: Strictness,
    module: HloModule<'a>,
    shapes: Shapes<'a>,
    /// Computations by name.
    known: Places<'a>,
    /// The name of the computation that is being read.
    open: &'a str,
    entry: Option<usize>,
    diags: Vec<Diagnostic>,
}

/// The computation that is being read.
#[derive(Default)]
struct Body<'a> {
    instructions: Vec<Instruction<'a>>,
    known: Places<'a>,
    root: Option<usize>,
}

/// Attributes while they are read.
#[derive(Default)]
struct Given<'a> {
    list: Vec<(&'a str, Cow<'a, str>)>,
    /// The names, filled when there are many.
    names: IndexSet<&'a str, FxBuildHasher>,
}

impl<'a> Given<'a> {
    /// The number of names up to which they are compared one by one.
    const FEW: usize = 16;

    /// Adds an attribute; false if it is there already.
    fn insert(&mut self, key: &'a str, value: &'a str) -> bool {
        let new = if self.list.len() < Self::FEW {
            self.list.iter().all(|(name, _)| *name != key)
        } else {
            if self.names.is_empty() {
                self.names.extend(self.list.iter().map(|(name, _)| *name));
            }
            self.names.insert(key)
        };
        if new {
            self.list.push((key, Cow::Borrowed(value)));
        }
        new
    }
}

impl<'a> Parser<'a> {
    fn module(&mut self) -> Parsed<()> {
        let header = self.cursor.eat_word("HloModule")?;
        if header {
            self.module.name = Cow::Borrowed(self.declared_name("the module's name")?);
            self.module.attrs = self.attributes(Some(values::HEADER))?;
            self.check_header()?;
            self.tables()?;
        }
        while !self.cursor.at_end()? {
            let entry = self.cursor.eat_word("ENTRY")?;
            self.computation(entry)?;
        }
        let count = self.module.computations.len();
        if count == 0 {
            return Err(self.cursor.wanted("a computation"));
        }
        self.module.entry = self.entry.unwrap_or(count - 1);
        if !header {
            let entry = &self.module.computations[self.module.entry].name;
            self.module.name = Cow::Owned(format!("module_{entry}"));
        }
        Ok(())
    }

    fn check_header(&mut self) -> Parsed<()> {
        if let Some(text) = self.module.attrs.get("entry_computation_layout")
            && entry_layout(text).is_none()
        {
            let message = format!("found the layout `{text}`, wanted `{{(shapes)->shape}}`");
            let at = span(0, self.cursor.position());
            return Err(HloError::new(codes::HLO_ATTRIBUTE_VALUE, message, at));
        }
        Ok(())
    }

    /// `FileNames` and similar tables: a word on a line of its own, then lines that start with a number.
    fn tables(&mut self) -> Parsed<()> {
        loop {
            self.cursor.skip()?;
            let start = self.cursor.position();
            let heading = self.cursor.line().trim();
            let is_word = !heading.is_empty() && heading.bytes().all(|c| c.is_ascii_alphanumeric());
            let known = values::TABLES.iter().find(|(name, _)| *name == heading);
            if !is_word
                || matches!(heading, "ENTRY" | "ROOT")
                || (known.is_none() && !self.at_digit()?)
            {
                self.cursor.rewind(start);
                return Ok(());
            }
            if let Some((_, parts)) = known {
                values::table(&mut self.cursor, parts)?;
                let table = self.cursor.since(start).trim_end();
                let table = table.lines().map(str::trim_end);
                self.module
                    .tables
                    .push(table.collect::<Vec<_>>().join("\n"));
                continue;
            }
            let mut table = heading.to_owned();
            while self.at_digit()? {
                table.push('\n');
                table.push_str(self.cursor.line().trim_end());
            }
            self.module.tables.push(table);
        }
    }

    fn at_digit(&mut self) -> Parsed<bool> {
        Ok(self.cursor.peek()?.is_some_and(|c| c.is_ascii_digit()))
    }

    /// `, key=value` as long as commas follow.
    fn attributes(&mut self, known: Option<&[&str]>) -> Parsed<Attrs<'a>> {
        let mut attrs = Given::default();
        while self.cursor.eat(",")? {
            let (key, start) = self.key()?;
            if known.is_some_and(|known| !known.contains(&key)) {
                self.unknown(key, "the module", start)?;
            }
            self.cursor.skip()?;
            let from = self.cursor.position();
            values::value(&mut self.cursor, key, self.strictness)?;
            let value = self.cursor.since(from);
            self.insert(&mut attrs, key, value, start)?;
        }
        Ok(Attrs(attrs.list))
    }

    fn key(&mut self) -> Parsed<(&'a str, usize)> {
        self.cursor.skip()?;
        let start = self.cursor.position();
        let Some(key) = self.cursor.word() else {
            return Err(self.cursor.wanted("an attribute's name"));
        };
        self.cursor.expect("=")?;
        Ok((key, start))
    }

    fn insert(
        &self,
        attrs: &mut Given<'a>,
        key: &'a str,
        value: &'a str,
        start: usize,
    ) -> Parsed<()> {
        if !attrs.insert(key, value) {
            let message = format!("the attribute `{key}` is given twice");
            let at = self.cursor.span_from(start);
            return Err(HloError::new(codes::HLO_ATTRIBUTE_DUPLICATE, message, at));
        }
        Ok(())
    }

    fn computation(&mut self, entry: bool) -> Parsed<()> {
        self.cursor.skip()?;
        let start = self.cursor.position();
        let name = self.declared_name("a computation's name")?;
        let declared = if self.cursor.peek()? == Some(b'(') {
            Some(self.signature()?)
        } else {
            None
        };
        self.open = name;
        let mut computation = self.body(name, start, 0)?;
        if let Some((wanted, at)) = declared
            && !wanted.compatible(&computation.root().shape)
        {
            let found = &computation.root().shape;
            let message = format!("`{name}` gives {found}, and its signature says {wanted}");
            return Err(HloError::new(codes::HLO_SIGNATURE, message, at));
        }
        computation.attrs = self.attributes(None)?;
        let at = computation.span;
        if self.known.contains_key(name) {
            let message = format!("the computation `{name}` is defined twice");
            return Err(HloError::new(codes::HLO_COMPUTATION_DUPLICATE, message, at));
        }
        if entry && self.entry.is_some() {
            let message = "found a second ENTRY, wanted one";
            return Err(HloError::new(codes::HLO_ENTRY_DUPLICATE, message, at));
        }
        let index = self.module.computations.len();
        self.known.insert(name, index);
        self.module.computations.push(computation);
        if entry {
            self.entry = Some(index);
        }
        Ok(())
    }

    /// A name that is defined here; it must not be a reserved word.
    fn declared_name(&mut self, what: &str) -> Parsed<&'a str> {
        self.cursor.skip()?;
        let start = self.cursor.position();
        let Some((name, percent)) = self.cursor.name()? else {
            return Err(self.cursor.wanted(what));
        };
        let reserved = is_type(name) || (!percent && RESERVED.contains(&name));
        if reserved {
            let message = format!("found the name `{name}`, which is a word of the language");
            let at = self.cursor.span_from(start);
            let error = HloError::new(codes::HLO_NAME, message, at);
            return Err(error.hint(format!("`{name}_` is a name")));
        }
        Ok(name)
    }

    /// `(p: f32[4], q: (f32[], s32[])) -> f32[4]`: the shape of the result and its place.
    ///
    /// Nothing depends on the parameters in it.
    fn signature(&mut self) -> Parsed<(Arc<XlaShape>, Span)> {
        self.cursor.expect("(")?;
        if !self.cursor.eat(")")? {
            loop {
                if self.cursor.name()?.is_none() {
                    return Err(self.cursor.wanted("a parameter's name"));
                }
                self.cursor.eat(":")?;
                self.shapes.read(&mut self.cursor)?;
                if self.cursor.eat(")")? {
                    break;
                }
                self.cursor.expect(",")?;
            }
        }
        self.cursor.expect("->")?;
        self.cursor.skip()?;
        let start = self.cursor.position();
        let result = self.shapes.read(&mut self.cursor)?;
        Ok((result, self.cursor.span_from(start)))
    }

    fn body(&mut self, name: &'a str, start: usize, depth: usize) -> Parsed<Computation<'a>> {
        self.cursor.expect("{")?;
        let header = self.cursor.span_from(start);
        let mut body = Body::default();
        while !self.cursor.eat("}")? {
            self.instruction(&mut body, depth)?;
        }
        let Some(last) = body.instructions.len().checked_sub(1) else {
            let message = format!("the computation `{name}` has no instructions");
            return Err(HloError::new(codes::HLO_COMPUTATION_EMPTY, message, header));
        };
        let computation = Computation {
            name,
            root: body.root.unwrap_or(last),
            instructions: body.instructions,
            attrs: Attrs::default(),
            span: header,
        };
        let numbers = computation.parameters();
        let number = |&i: &usize| computation.instructions[i].parameter();
        for (wanted, found) in (0..).zip(numbers.iter().map(number)) {
            if found != Some(wanted) {
                let message = format!(
                    "the parameters of `{name}` are not numbered from 0 up: {wanted} is missing"
                );
                return Err(HloError::new(codes::HLO_PARAMETER_NUMBER, message, header));
            }
        }
        Ok(computation)
    }

    fn instruction(&mut self, body: &mut Body<'a>, depth: usize) -> Parsed<()> {
        self.cursor.skip()?;
        let start = self.cursor.position();
        let root = self.cursor.eat_word("ROOT")?;
        let name = self.declared_name("an instruction or `}`")?;
        let named = self.cursor.span_from(start);
        self.cursor.expect("=")?;
        let index = self.right_side(body, name, true, depth)?;
        body.instructions[index].span = named;
        if body.known.insert(name, index).is_some() {
            let message = format!("the instruction `{name}` is defined twice");
            return Err(HloError::new(
                codes::HLO_INSTRUCTION_DUPLICATE,
                message,
                named,
            ));
        }
        if root && body.root.replace(index).is_some() {
            let message = "found a second ROOT, wanted one a computation";
            return Err(HloError::new(codes::HLO_ROOT_DUPLICATE, message, named));
        }
        Ok(())
    }

    /// `[shape] opcode(operands), attributes`; an operand has no attributes.
    fn right_side(
        &mut self,
        body: &mut Body<'a>,
        name: &'a str,
        with_attrs: bool,
        depth: usize,
    ) -> Parsed<usize> {
        if MAX_DEPTH < depth {
            let mut error = self.cursor.wanted("operands that nest less deeply");
            error.code = codes::HLO_TOO_DEEP.into();
            return Err(error);
        }
        let declared = self.shapes.read_if_there(&mut self.cursor)?;
        self.cursor.skip()?;
        let start = self.cursor.position();
        let (opcode, word) = self.opcode()?;
        let place = self.cursor.span_from(start);
        self.cursor.expect("(")?;
        let mut made = Instruction {
            name: Cow::Borrowed(name),
            shape: self.shapes.token(),
            opcode: word,
            operands: Vec::new(),
            payload: None,
            dense: None,
            attrs: Attrs::default(),
            called: Vec::new(),
            span: place,
        };
        let missing = || {
            let message = format!("the shape of `{word}` does not follow from its operands");
            HloError::new(codes::HLO_SHAPE_MISSING, message, place)
        };
        match word {
            "parameter" => made.payload = Some(self.parameter_number()?),
            "constant" => {
                let shape = declared.as_ref().ok_or_else(missing)?;
                made.payload = Some(Cow::Borrowed(self.constant(shape)?));
            }
            _ => {
                made.operands = self.operands(body, depth)?;
                self.check_count(&made, opcode)?;
            }
        }
        if with_attrs {
            self.instruction_attributes(&mut made, opcode, body, depth)?;
            agrees(&made, declared.as_deref(), &body.instructions)?;
        }
        // XLA's reader does not infer these shapes, although it could.
        let strict = self.strictness == Strictness::Exact
            && matches!(
                word,
                "slice" | "dynamic-slice" | "dynamic-update-slice" | "fusion" | "opt-barrier"
            );
        let infer = || {
            if strict {
                return None;
            }
            let mut inferred = infer(&made, &body.instructions, &self.module.computations)?;
            inferred.complete();
            Some(Arc::new(inferred))
        };
        made.shape = declared.or_else(infer).ok_or_else(missing)?;
        if !with_attrs {
            made.name = Cow::Owned(format!("{word}.anon"));
        }
        body.instructions.push(made);
        Ok(body.instructions.len() - 1)
    }

    fn opcode(&mut self) -> Parsed<(Opcode, &'a str)> {
        let start = self.cursor.position();
        let Some(word) = self.cursor.word() else {
            return Err(self.cursor.wanted("an opcode"));
        };
        if let Some(opcode) = Opcode::find(word) {
            return Ok((opcode, word));
        }
        let message = format!("found the opcode `{word}`, which HLO does not have");
        let error = HloError::new(
            codes::HLO_OPCODE_UNKNOWN,
            message,
            self.cursor.span_from(start),
        );
        Err(match nearest(word, names()) {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error,
        })
    }

    fn parameter_number(&mut self) -> Parsed<Cow<'a, str>> {
        self.cursor.skip()?;
        let start = self.cursor.position();
        let number = self.cursor.integer()?;
        let text = self.cursor.since(start);
        if number < 0 {
            let message = format!("found the parameter number {number}, wanted 0 or more");
            let at = self.cursor.span_from(start);
            return Err(HloError::new(codes::HLO_PARAMETER_NUMBER, message, at));
        }
        self.cursor.expect(")")?;
        let plain = text.len() == 1 || !text.starts_with(['0', '-']);
        Ok(if plain {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(number.to_string())
        })
    }

    fn constant(&mut self, shape: &XlaShape) -> Parsed<&'a str> {
        self.cursor.skip()?;
        let start = self.cursor.position();
        literal(&mut self.cursor, shape, 0)?;
        let text = self.cursor.since(start).trim();
        self.cursor.expect(")")?;
        Ok(text)
    }

    fn operands(&mut self, body: &mut Body<'a>, depth: usize) -> Parsed<Vec<usize>> {
        let mut operands = Vec::new();
        if self.cursor.eat(")")? {
            return Ok(operands);
        }
        loop {
            operands.push(self.operand(body, depth)?);
            if self.cursor.eat(")")? {
                return Ok(operands);
            }
            self.cursor.expect(",")?;
        }
    }

    fn operand(&mut self, body: &mut Body<'a>, depth: usize) -> Parsed<usize> {
        self.cursor.skip()?;
        let start = self.cursor.position();
        let declared = self.shapes.read_if_there(&mut self.cursor)?;
        self.cursor.skip()?;
        let at_name = self.cursor.position();
        let Some((name, percent)) = self.cursor.name()? else {
            return Err(self.cursor.wanted("an operand"));
        };
        let Some(&index) = body.known.get(name) else {
            let nested = !percent && Opcode::find(name).is_some();
            if nested && self.cursor.peek()? == Some(b'(') {
                self.cursor.rewind(start);
                return self.right_side(body, "", false, depth + 1);
            }
            let message = format!("the operand `{name}` is not defined before it is used");
            let place = self.cursor.span_from(at_name);
            let error = HloError::new(codes::HLO_OPERAND_UNKNOWN, message, place);
            return Err(match nearest(name, body.known.keys().copied()) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error,
            });
        };
        let place = self.cursor.span_from(start);
        let found = &body.instructions[index].shape;
        let differs =
            |wanted: &Arc<XlaShape>| !Arc::ptr_eq(wanted, found) && !wanted.compatible(found);
        if let Some(wanted) = declared.filter(differs) {
            let message = format!("the operand `{name}` is of shape {found}, not {wanted}");
            return Err(HloError::new(codes::HLO_OPERAND_SHAPE, message, place));
        }
        self.elements(body, index)
    }

    /// `#1#0`: elements of a tuple, each of which becomes a get-tuple-element.
    fn elements(&mut self, body: &mut Body<'a>, mut index: usize) -> Parsed<usize> {
        while self.cursor.eat("#")? {
            let start = self.cursor.position();
            let element = self.cursor.integer()?;
            let made = Instruction {
                name: Cow::Borrowed("get-tuple-element.anon"),
                shape: self.shapes.token(),
                opcode: "get-tuple-element",
                operands: vec![index],
                payload: None,
                dense: None,
                attrs: Attrs(vec![("index", Cow::Owned(element.to_string()))]),
                called: Vec::new(),
                span: self.cursor.span_from(start),
            };
            let Some(shape) = infer(&made, &body.instructions, &[]) else {
                let message = format!("the operand has no element {element}");
                return Err(HloError::new(codes::HLO_OPERAND_SHAPE, message, made.span));
            };
            let shape = Arc::new(shape);
            body.instructions.push(Instruction { shape, ..made });
            index = body.instructions.len() - 1;
        }
        Ok(index)
    }

    fn check_count(&self, made: &Instruction, opcode: Opcode) -> Parsed<()> {
        let (least, most) = opcode.operands;
        let found = made.operands.len();
        if least <= found && found <= most {
            return Ok(());
        }
        let wanted = match (least, most) {
            (a, b) if a == b => a.to_string(),
            (a, usize::MAX) => format!("at least {a}"),
            (a, b) => format!("{a} to {b}"),
        };
        let message = format!("`{}` has {found} operands, wanted {wanted}", made.opcode);
        Err(HloError::new(codes::HLO_OPERAND_COUNT, message, made.span))
    }

    fn instruction_attributes(
        &mut self,
        made: &mut Instruction<'a>,
        opcode: Opcode,
        body: &Body<'a>,
        depth: usize,
    ) -> Parsed<()> {
        let mut attrs = Given::default();
        while self.cursor.eat(",")? {
            let (key, start) = self.key()?;
            self.known_attribute(key, made, opcode, start)?;
            let value = match key {
                "control-predecessors" => self.predecessors(body)?,
                _ => self.value(key, made, depth)?,
            };
            self.insert(&mut attrs, key, value, start)?;
        }
        // A scalar has no dimensions to which the attribute could refer.
        let scalar = |&operand: &usize| {
            let array = body.instructions[operand].shape.as_array();
            array.is_some_and(|array| array.dims.is_empty())
        };
        if made.opcode == "broadcast" && made.operands.iter().all(scalar) {
            attrs.insert("dimensions", "{}");
        }
        made.attrs = Attrs(attrs.list);
        if opcode.part.is_some_and(|part| part != "-start") {
            return Ok(());
        }
        let given = |name: &str| {
            made.attrs.get(name).is_some() || made.called.iter().any(|(n, _)| *n == name)
        };
        if let Some((missing, _)) = opcode.own().find(|(name, must)| *must && !given(name)) {
            let message = format!("`{}` needs the attribute `{missing}`", made.opcode);
            return Err(HloError::new(
                codes::HLO_ATTRIBUTE_MISSING,
                message,
                made.span,
            ));
        }
        Ok(())
    }

    fn known_attribute(
        &mut self,
        key: &str,
        made: &Instruction,
        opcode: Opcode,
        start: usize,
    ) -> Parsed<()> {
        let own = || opcode.own().any(|(name, _)| name == key);
        let asynchronous = || matches!(key, "async_execution_thread" | "async_group_id");
        let of_part = || opcode.part.is_some() && asynchronous();
        if COMMON.contains(&key) || own() || of_part() {
            return Ok(());
        }
        self.unknown(key, &format!("`{}`", made.opcode), start)
    }

    fn unknown(&mut self, key: &str, owner: &str, start: usize) -> Parsed<()> {
        let message = format!("{owner} has no attribute `{key}`");
        let at = span(start, start + key.len());
        let error = HloError::new(codes::HLO_ATTRIBUTE_UNKNOWN, message, at);
        match self.strictness {
            Strictness::Exact => Err(error),
            Strictness::KeepUnknown => {
                let mut diag = error.diagnostic();
                diag.severity = optc_ir::Severity::Warning;
                self.diags.push(diag.note("it is kept as it is"));
                Ok(())
            }
        }
    }

    /// The text of a value; names of computations are resolved.
    fn value(&mut self, key: &'a str, made: &mut Instruction<'a>, depth: usize) -> Parsed<&'a str> {
        if !COMPUTATIONS.contains(&key) {
            self.cursor.skip()?;
            let start = self.cursor.position();
            values::value(&mut self.cursor, key, self.strictness)?;
            return Ok(self.cursor.since(start));
        }
        self.cursor.skip()?;
        let start = self.cursor.position();
        let mut list = Vec::new();
        if self.cursor.peek()? != Some(b'{') {
            list.push(self.computation_name()?);
        } else if self.is_inline_body()? {
            list.push(self.inline_body(depth)?);
        } else {
            self.cursor.expect("{")?;
            while !self.cursor.eat("}")? {
                if !list.is_empty() {
                    self.cursor.expect(",")?;
                }
                list.push(self.computation_name()?);
            }
        }
        made.called.push((key, list));
        Ok(self.cursor.since(start))
    }

    /// `{%a, %b}`: earlier instructions, at least one.
    fn predecessors(&mut self, body: &Body<'a>) -> Parsed<&'a str> {
        self.cursor.skip()?;
        let start = self.cursor.position();
        self.cursor.expect("{")?;
        loop {
            self.cursor.skip()?;
            let at = self.cursor.position();
            let Some((name, _)) = self.cursor.name()? else {
                return Err(self.cursor.wanted("an instruction's name"));
            };
            if !body.known.contains_key(name) {
                let message = format!("the instruction `{name}` is not defined before it is used");
                let place = self.cursor.span_from(at);
                return Err(HloError::new(codes::HLO_OPERAND_UNKNOWN, message, place));
            }
            if self.cursor.eat("}")? {
                return Ok(self.cursor.since(start));
            }
            self.cursor.expect(",")?;
        }
    }

    fn is_inline_body(&mut self) -> Parsed<bool> {
        let mut look = self.cursor.clone();
        look.expect("{")?;
        let root = look.eat_word("ROOT")?;
        let named = look.name()?.is_some();
        Ok(root || (named && look.peek()? == Some(b'=')))
    }

    fn inline_body(&mut self, depth: usize) -> Parsed<usize> {
        let start = self.cursor.position();
        if MAX_DEPTH < depth {
            let mut error = self.cursor.wanted("computations that nest less deeply");
            error.code = codes::HLO_TOO_DEEP.into();
            return Err(error);
        }
        let computation = self.body("_", start, depth + 1)?;
        self.module.computations.push(computation);
        Ok(self.module.computations.len() - 1)
    }

    fn computation_name(&mut self) -> Parsed<usize> {
        self.cursor.skip()?;
        let start = self.cursor.position();
        let Some((name, _)) = self.cursor.name()? else {
            return Err(self.cursor.wanted("a computation's name"));
        };
        if let Some(&known) = self.known.get(name) {
            return Ok(known);
        }
        let at = self.cursor.span_from(start);
        let (message, hint) = if name == self.open {
            let hint = "HLO has no recursion: a loop is a `while`";
            (format!("the computation `{name}` calls itself"), Some(hint))
        } else if self.is_defined_below(name) {
            let hint =
                "move it above what uses it; computations that call each other are none in HLO";
            let message = format!("the computation `{name}` is defined below its use");
            (message, Some(hint))
        } else {
            let message = format!("the computation `{name}` is not defined before it is used");
            (message, None)
        };
        let error = HloError::new(codes::HLO_COMPUTATION_UNKNOWN, message, at);
        Err(match (hint, nearest(name, self.known.keys().copied())) {
            (Some(hint), _) => error.hint(hint.to_owned()),
            (None, Some(near)) => error.hint(format!("did you mean {near}?")),
            (None, None) => error,
        })
    }

    /// Returns whether a computation of this name starts on a later line.
    fn is_defined_below(&self, name: &str) -> bool {
        let rest = self.cursor.text().get(self.cursor.position()..);
        rest.unwrap_or_default().lines().any(|line| {
            let line = line.trim_start().trim_start_matches("ENTRY ").trim_start();
            let after = line.trim_start_matches('%').strip_prefix(name);
            after.is_some_and(|rest| rest.trim_start().starts_with(['{', '(']))
        })
    }
}

/// Reads `{(shapes)->shape}`.
pub(crate) fn entry_layout(text: &str) -> Option<(Vec<XlaShape>, XlaShape)> {
    let mut cursor = Cursor::new(text);
    cursor.expect("{").ok()?;
    let Ok(XlaShape::Tuple(mut params)) = shape(&mut cursor) else {
        return None;
    };
    cursor.expect("->").ok()?;
    let mut result = shape(&mut cursor).ok()?;
    cursor.expect("}").ok()?;
    params.iter_mut().for_each(XlaShape::complete);
    result.complete();
    Some((params, result))
}
