//! HTML text. Every text that is not part of the page's own form is escaped here.

use serde_json::Value as Json;

/// A page that is being written.
#[derive(Default)]
pub(crate) struct Html(String);

impl Html {
    /// Markup of the page itself.
    pub(crate) fn raw(&mut self, markup: &str) -> &mut Html {
        self.0.push_str(markup);
        self
    }

    /// Text, escaped. Characters that HTML forbids are left out.
    pub(crate) fn text(&mut self, text: &str) -> &mut Html {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                c if c.is_control() && c != '\n' && c != '\t' => {}
                c => self.0.push(c),
            }
        }
        self
    }

    /// The name of an operation, which may break into lines after a slash.
    pub(crate) fn name(&mut self, name: &str) -> &mut Html {
        for part in name.split_inclusive('/') {
            self.text(part).raw("<wbr>");
        }
        self
    }

    /// An element with a class and a text.
    pub(crate) fn element(&mut self, tag: &str, class: &str, text: &str) -> &mut Html {
        self.raw("<").raw(tag);
        if !class.is_empty() {
            self.raw(" class=\"").text(class).raw("\"");
        }
        self.raw(">").text(text).raw("</").raw(tag).raw(">")
    }

    /// Data for the script of the page. JSON has `<` in strings only, where it is written as an escape.
    pub(crate) fn data(&mut self, id: &str, data: &Json) -> &mut Html {
        let text = data.to_string().replace('<', "\\u003c");
        self.raw("<script type=\"application/json\" id=\"").text(id);
        self.raw("\">").raw(&text).raw("</script>\n")
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }
}
