//! A connection for many statements: a client that reads them from a pipe.
//!
//! The client ends at the first error, and with it the connection, its locks and its statement. So it does if this
//! process ends.

use super::row::{Row, row_of};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

pub(crate) struct Session {
    child: Child,
    /// `None` after the end of the client.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    errors: Option<JoinHandle<String>>,
    statements: u64,
}

/// The server's message in the output of the client, which may print the statement before it:
/// `ERROR 1146 (42S02) at line 1: Table 'a.b' doesn't exist`.
fn message(text: &str) -> String {
    let text = text.trim();
    let begin = text.rfind("\nERROR ").map_or(0, |end| end + 1);
    let text = text.get(begin..).unwrap_or(text);
    let parts = text.strip_prefix("ERROR ").and_then(|rest| {
        let (number, rest) = rest.split_once(' ')?;
        let (_, message) = rest.split_once(": ")?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| format!("{message} (error {number})"))
    });
    parts.unwrap_or_else(|| text.to_owned())
}

impl Session {
    pub(super) fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let missing = || io::Error::other("its pipes are missing");
        let mut stderr = child.stderr.take().ok_or_else(missing)?;
        Ok(Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().ok_or_else(missing)?),
            // Read on, or the client would stop at a full pipe.
            errors: Some(std::thread::spawn(move || {
                let mut text = Vec::new();
                // What was read before an error is shown.
                let _ = stderr.read_to_end(&mut text);
                String::from_utf8_lossy(&text).into_owned()
            })),
            child,
            statements: 0,
        })
    }

    /// Executes a statement; returns its rows.
    ///
    /// # Errors
    /// The server's message. Then the connection has ended.
    pub(crate) fn execute(&mut self, statement: &str) -> io::Result<Vec<Row>> {
        self.statements += 1;
        let mark = format!("end-of-statement-{}-{}", self.child.id(), self.statements);
        let text = format!("{statement};\nSELECT '{mark}';\n");
        if let Some(input) = &mut self.input
            && let Err(error) = input.write_all(text.as_bytes())
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            return Err(error);
        }
        let mut rows = Vec::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            if self.output.read_until(b'\n', &mut line)? == 0 {
                return Err(self.failure());
            }
            let text = std::str::from_utf8(&line)
                .map_err(|_| io::Error::other("the server's answer is not valid UTF-8"))?;
            let text = text.strip_suffix('\n').unwrap_or(text);
            if text == mark {
                return Ok(rows);
            }
            rows.push(row_of(text));
        }
    }

    /// The first column of the first row.
    pub(crate) fn value(&mut self, statement: &str) -> io::Result<String> {
        let rows = self.execute(statement)?;
        let value = rows
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().next());
        value.ok_or_else(|| io::Error::other(format!("no answer to {statement}")))
    }

    /// Why the client has ended.
    fn failure(&mut self) -> io::Error {
        self.input = None;
        let text = self.errors.take().and_then(|reader| reader.join().ok());
        match text.as_deref().map(str::trim) {
            Some("") | None => io::Error::other("the connection to the server has ended"),
            Some(text) => io::Error::other(message(text)),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.input = None;
        // The client ends at the end of its input; how does not matter any more.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::message;

    #[test]
    fn messages_of_the_server_are_shown_without_the_line_of_the_statement() {
        let text = "ERROR 1146 (42S02) at line 3: Table 'a.b: c' doesn't exist\n";
        assert_eq!(message(text), "Table 'a.b: c' doesn't exist (error 1146)");
        let text = format!("--------------\nSELECT 1\n--------------\n\n{text}");
        assert_eq!(message(&text), "Table 'a.b: c' doesn't exist (error 1146)");
        assert_eq!(message("ERROR: no such option\n"), "ERROR: no such option");
        assert_eq!(
            message("mariadb: unknown variable"),
            "mariadb: unknown variable"
        );
    }
}
