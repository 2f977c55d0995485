//! Splits the commands of `RUN:` lines into words.

use thiserror::Error;

/// The reason why a command cannot be cut into words.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WordsError {
    /// A command that ends within an escape.
    #[error("the command ends with `\\`")]
    Escape,
    /// A character that only a shell knows.
    #[error("found `{0}`: commands are run without a shell, and know `|` and `2>&1` alone")]
    Shell(char),
    /// A quote that is not closed.
    #[error("a quote is not closed")]
    Quote,
}

/// A part of a command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    Word(String),
    /// `|`
    Pipe,
    /// `2>&1`
    Both,
}

/// Splits a command into words as a shell does: quotes keep blanks, `\` escapes the next character.
///
/// # Errors
/// An unclosed quote, a pipe, another character that only a shell knows.
pub fn words(text: &str) -> Result<Vec<String>, WordsError> {
    let word = |token| match token {
        Token::Word(word) => Ok(word),
        Token::Pipe => Err(WordsError::Shell('|')),
        Token::Both => Err(WordsError::Shell('>')),
    };
    tokens(text)?.into_iter().map(word).collect()
}

/// Splits a command into words, pipes and redirections of the error stream to the output.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, WordsError> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let (None, None, Some(after)) = (&word, quote, rest.strip_prefix("2>&1")) {
            tokens.push(Token::Both);
            rest = after;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            ('\\', None | Some('"')) => {
                let next = rest.chars().next().ok_or(WordsError::Escape)?;
                word.get_or_insert_default().push(next);
                rest = &rest[next.len_utf8()..];
            }
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => tokens.extend(word.take().map(Token::Word)),
            ('|', None) => {
                tokens.extend(word.take().map(Token::Word));
                tokens.push(Token::Pipe);
            }
            ('>' | '<' | ';' | '&', None) => return Err(WordsError::Shell(c)),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(WordsError::Quote);
    }
    tokens.extend(word.map(Token::Word));
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_cut_as_a_shell_does() {
        let found = words("optc --pin x='{order = [1, 0]}'  \"a b\" c\\ d ''").unwrap();
        assert_eq!(
            found,
            ["optc", "--pin", "x={order = [1, 0]}", "a b", "c d", ""]
        );
        for text in [
            "optc 'a",
            "optc a | b",
            "optc a 2>&1",
            "optc > b",
            "optc \\",
        ] {
            assert!(words(text).is_err(), "{text}");
        }
        let word = |text: &str| Token::Word(text.to_owned());
        assert_eq!(
            tokens("a 2>&1|b '|'").unwrap(),
            [word("a"), Token::Both, Token::Pipe, word("b"), word("|")]
        );
    }
}
