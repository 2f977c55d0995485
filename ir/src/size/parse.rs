//! The grammar of sizes: `2*B*(S+1)`, `(S+1)//2`, `ceil(S/128)`, `min(S,1024)`, `S%7`.

use super::{MAX_DEPTH, Remembered, Size, is_plain};
use std::cell::RefCell;

thread_local! {
    /// The sizes of texts read before; most texts recur many times.
    static KNOWN: RefCell<Remembered<Box<str>, Size>> = RefCell::default();
}

impl Size {
    /// The size that an expression denotes; `None` if the text is no expression.
    ///
    /// `/` and `//` round down, `ceil(a/b)` rounds up, `%` is the remainder. A name is a letter or `_`, then letters,
    /// digits, `_`, `.` and `$`; any other text is a name between backquotes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Size> {
        let mut reader = Reader {
            text,
            at: 0,
            depth: 0,
        };
        let size = reader.sum()?;
        reader.skip();
        (reader.at == text.len()).then_some(size)
    }

    /// The size that the text of a dimension denotes. The text is read as an expression, if it is one and not a
    /// constant; else the whole text is one name.
    #[must_use]
    pub fn of_text(text: &str) -> Size {
        let known = KNOWN.with_borrow(|known| known.get(text).cloned());
        known.unwrap_or_else(|| {
            let size = Size::read(text);
            KNOWN.with_borrow_mut(|known| known.insert(text.into(), size.clone()));
            size
        })
    }

    fn read(text: &str) -> Size {
        let expression = Size::parse(text).filter(|size| size.as_constant().is_none());
        expression.unwrap_or_else(|| Size::name(&text.replace('`', "'")))
    }

    /// The text that [`Size::of_text`] reads as this size: the bare name if the size is one name.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self.as_name() {
            Some(name) if Size::of_text(name) == *self => name.to_owned(),
            _ => self.to_string(),
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip(&mut self) {
        let blank = self.rest().len() - self.rest().trim_start().len();
        self.at += blank;
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn sum(&mut self) -> Option<Size> {
        let negative = self.eat("-");
        let first = self.product()?;
        let mut sum = if negative {
            Size::default().minus(&first)?
        } else {
            first
        };
        loop {
            if self.eat("+") {
                sum = sum.plus(&self.product()?)?;
            } else if self.eat("-") {
                sum = sum.minus(&self.product()?)?;
            } else {
                return Some(sum);
            }
        }
    }

    fn product(&mut self) -> Option<Size> {
        let mut product = self.factor()?;
        loop {
            if self.eat("*") {
                product = product.times(&self.factor()?)?;
            } else if self.eat("//") || self.eat("/") {
                product = product.quotient(&self.factor()?)?;
            } else if self.eat("%") {
                product = product.remainder(&self.factor()?)?;
            } else {
                return Some(product);
            }
        }
    }

    fn factor(&mut self) -> Option<Size> {
        self.skip();
        let next = self.rest().chars().next()?;
        match next {
            '(' => self.inside(Self::sum),
            '0'..='9' => {
                let word = self.word();
                word.parse::<i64>().ok().map(|n| Size::constant(n.into()))
            }
            '`' => {
                self.at += 1;
                let end = self.rest().find('`')?;
                let name = self.rest().get(..end)?.to_owned();
                self.at += end + 1;
                Some(Size::name(&name))
            }
            _ => self.named(),
        }
    }

    fn word(&mut self) -> String {
        let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
        let rest = self.rest();
        let word = rest[..rest.find(|c| !part(c)).unwrap_or(rest.len())].to_owned();
        self.at += word.len();
        word
    }

    /// `( what )`, one nesting level deeper.
    fn inside<T>(&mut self, what: fn(&mut Self) -> Option<T>) -> Option<T> {
        if !self.eat("(") || MAX_DEPTH <= self.depth {
            return None;
        }
        self.depth += 1;
        let found = what(self)?;
        self.depth -= 1;
        self.eat(")").then_some(found)
    }

    fn named(&mut self) -> Option<Size> {
        let word = self.word();
        match word.as_str() {
            "min" => self.inside(|r| r.listed(Size::minimum)),
            "max" => self.inside(|r| r.listed(Size::maximum)),
            "floor" => self.inside(Self::sum),
            "ceil" => self.inside(|r| {
                let up = r.factor()?;
                if r.eat("//") || r.eat("/") {
                    return up.quotient_up(&r.factor()?);
                }
                Some(up)
            }),
            name if is_plain(name) => Some(Size::name(name)),
            _ => None,
        }
    }

    /// `a, b, …`, combined by `join`.
    fn listed(&mut self, join: fn(&Size, &Size) -> Option<Size>) -> Option<Size> {
        let mut all = self.sum()?;
        while self.eat(",") {
            all = join(&all, &self.sum()?)?;
        }
        Some(all)
    }
}
