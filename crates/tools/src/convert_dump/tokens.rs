//! The tokens of SQL statements.

use std::ops::Range;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A keyword, a name or a number.
    Word,
    /// A name in backquotes.
    Name,
    /// A string.
    Text,
    /// Any other byte.
    Symbol(u8),
}

/// A token and its place in the statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) place: Range<usize>,
}

/// What a lexer is inside of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Code,
    /// A string or name with this quote.
    Quoted(u8),
    LineComment,
    BlockComment,
}

/// One step of a lexer at the start of `rest`, which is not empty: the new state, and the number of bytes
/// to pass, at least one.
pub(super) fn step(state: State, rest: &[u8]) -> (State, usize) {
    match (state, rest) {
        (State::Code, [quote @ (b'\'' | b'"' | b'`'), ..]) => (State::Quoted(*quote), 1),
        (State::Code, [b'#', ..] | [b'-', b'-', b' ' | b'\t' | b'\n' | b'\r', ..]) => {
            (State::LineComment, 1)
        }
        (State::Code, [b'-', b'-']) => (State::LineComment, 2),
        // The server executes what is in such a comment.
        (State::Code, [b'/', b'*', b'!', ..]) => (State::Code, 3),
        (State::Code, [b'/', b'*', b'M', b'!', ..]) => (State::Code, 4),
        (State::Code, [b'/', b'*', ..]) => (State::BlockComment, 2),
        (State::Quoted(quote), [b'\\', _, ..]) if quote != b'`' => (state, 2),
        (State::Quoted(quote), [first, second, ..]) if *first == quote && *second == quote => {
            (state, 2)
        }
        (State::Quoted(quote), [first, ..]) if *first == quote => (State::Code, 1),
        (State::LineComment, [b'\n', ..]) | (State::BlockComment, [b'*', b'/', ..]) => (
            State::Code,
            if state == State::BlockComment { 2 } else { 1 },
        ),
        _ => (state, 1),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

/// The tokens of a statement, without spaces and comments. The content of a comment that the server
/// executes counts as code.
pub(super) fn tokens(statement: &[u8]) -> Lexer<'_> {
    Lexer { statement, at: 0 }
}

/// Iterates over the tokens of a statement.
pub(super) struct Lexer<'a> {
    statement: &'a [u8],
    at: usize,
}

impl Lexer<'_> {
    /// Passes the bytes that match.
    fn pass(&mut self, matches: impl Fn(u8) -> bool) {
        let rest = self.statement.get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| matches(**byte)).count();
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        loop {
            let rest = self.statement.get(self.at..)?;
            let first = *rest.first()?;
            let start = self.at;
            let (state, passed) = step(State::Code, rest);
            self.at += passed;
            let kind = match (state, rest) {
                // The start of a comment that the server executes, with its version.
                (State::Code, [b'/', b'*', ..]) => {
                    self.pass(|byte| byte.is_ascii_digit());
                    continue;
                }
                (State::Code, [b'*', b'/', ..]) => {
                    self.at += 1;
                    continue;
                }
                (State::Code, _) if first.is_ascii_whitespace() => continue,
                (State::Code, _) if is_word(first) => {
                    self.pass(is_word);
                    Kind::Word
                }
                (State::Code, _) => Kind::Symbol(first),
                (State::Quoted(b'`'), _) => Kind::Name,
                (State::Quoted(_), _) => Kind::Text,
                (State::LineComment | State::BlockComment, _) => {
                    self.at = end_of(self.statement, state, self.at);
                    continue;
                }
            };
            self.at = end_of(self.statement, state, self.at);
            let place = start..self.at;
            return Some(Token { kind, place });
        }
    }
}

/// Where a string, name or comment ends.
fn end_of(statement: &[u8], mut state: State, mut at: usize) -> usize {
    while state != State::Code
        && let Some(rest) = statement.get(at..).filter(|rest| !rest.is_empty())
    {
        let (next, passed) = step(state, rest);
        state = next;
        at += passed;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(statement: &str) -> Vec<&str> {
        let found = tokens(statement.as_bytes());
        found.map(|token| &statement[token.place]).collect()
    }

    #[test]
    fn strings_names_and_comments_are_recognised() {
        assert_eq!(
            texts("a='it''s \\' ;' /* b */ `c``d` -- e\n#f\nx\"y\"\"z\""),
            ["a", "=", "'it''s \\' ;'", "`c``d`", "x", "\"y\"\"z\""]
        );
        assert_eq!(texts("/*!50100 a */ b /*M!100100 c*/"), ["a", "b", "c"]);
        assert_eq!(texts("1-1--1"), ["1", "-", "1", "-", "-", "1"]);
        assert_eq!(texts("'open \\"), ["'open \\"]);
    }
}
