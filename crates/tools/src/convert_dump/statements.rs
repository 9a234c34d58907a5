//! Splits a dump into statements.

use super::tokens::{Kind, State, step, tokens};
use std::io::{self, BufRead, Write};

/// Maximum bytes of a statement that is held in memory. Others are passed through line by line.
const STATEMENT_BYTES_MAX: usize = 64 << 20;

/// The first line of dumps of MariaDB.
const SANDBOX: &[u8] = b"/*M!999999\\-";

/// A statement that the caller converts or passes through.
pub(super) enum Statement {
    /// `USE`: the database, and the bytes.
    Use(String, Vec<u8>),
    /// `CREATE` or `ALTER`.
    Definition(Vec<u8>),
}

/// Reads the statements of a dump.
pub(super) struct Statements<'a> {
    input: &'a mut dyn BufRead,
    /// The line that is being read, and how far.
    line: Vec<u8>,
    at: usize,
    delimiter: Vec<u8>,
}

/// The first word of a statement, in upper case.
fn first_word(start: &[u8]) -> Vec<u8> {
    let first = tokens(start).next();
    let first = first.filter(|token| token.kind == Kind::Word);
    let word = first.and_then(|token| start.get(token.place));
    word.unwrap_or_default().to_ascii_uppercase()
}

impl<'a> Statements<'a> {
    pub(super) fn new(input: &'a mut dyn BufRead) -> Self {
        Self {
            input,
            line: Vec::new(),
            at: 0,
            delimiter: b";".to_vec(),
        }
    }

    /// What remains of the line; of the next one if nothing remains. Empty at the end.
    fn rest(&mut self) -> io::Result<&[u8]> {
        if self.at == self.line.len() {
            self.line.clear();
            self.at = 0;
            self.input.read_until(b'\n', &mut self.line)?;
        }
        Ok(self.line.get(self.at..).unwrap_or_default())
    }

    /// The next statement to convert. Writes everything before it to `output`.
    pub(super) fn next(&mut self, output: &mut dyn Write) -> io::Result<Option<Statement>> {
        loop {
            let rest = self.rest()?;
            if rest.is_empty() {
                return Ok(None);
            }
            // A command of MariaDB's client, without a delimiter.
            if rest.starts_with(SANDBOX) {
                output.write_all(rest)?;
                self.at = self.line.len();
                continue;
            }
            let word = first_word(rest);
            if word == b"DELIMITER" {
                let words = rest.split(u8::is_ascii_whitespace);
                let mut words = words.filter(|word| !word.is_empty());
                if let Some(delimiter) = words.nth(1) {
                    let delimiter = delimiter.to_vec();
                    output.write_all(rest)?;
                    self.at = self.line.len();
                    self.delimiter = delimiter;
                    continue;
                }
            }
            if matches!(word.as_slice(), b"CREATE" | b"ALTER" | b"USE") {
                let mut bytes = Vec::new();
                self.pass(&mut |part| {
                    bytes.extend_from_slice(part);
                    match bytes.len() > STATEMENT_BYTES_MAX {
                        true => Err(io::Error::other("a definition has more than 64 MiB")),
                        false => Ok(()),
                    }
                })?;
                let statement = match word.as_slice() {
                    b"USE" => Statement::Use(database_of(&bytes), bytes),
                    _ => Statement::Definition(bytes),
                };
                return Ok(Some(statement));
            }
            self.pass(&mut |part| output.write_all(part))?;
        }
    }

    /// Passes a statement with its delimiter, or the rest of a line without any statement, to `sink`.
    fn pass(&mut self, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut state = State::default();
        let mut has_begun = false;
        loop {
            let delimiter = std::mem::take(&mut self.delimiter);
            let rest = self.rest()?;
            has_begun |= state == State::Code && tokens(rest).next().is_some();
            let mut at = 0;
            let mut is_end = rest.is_empty();
            while let Some(bytes) = rest.get(at..).filter(|bytes| !bytes.is_empty()) {
                if state == State::Code && bytes.starts_with(&delimiter) {
                    at += delimiter.len();
                    is_end = true;
                    break;
                }
                let (next, passed) = step(state, bytes);
                state = next;
                at += passed;
            }
            sink(rest.get(..at).unwrap_or_default())?;
            self.at += at;
            self.delimiter = delimiter;
            // Lines with spaces or comments only belong to no statement.
            if is_end || !has_begun && state == State::Code {
                return Ok(());
            }
        }
    }
}

/// The database of a `USE`.
fn database_of(statement: &[u8]) -> String {
    let name = tokens(statement).nth(1);
    let name = name.and_then(|token| statement.get(token.place));
    let name = String::from_utf8_lossy(name.unwrap_or_default());
    name.trim_matches('`').to_owned()
}
