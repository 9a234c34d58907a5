//! Statements for a running server, through the command-line client, which knows all ways to connect.

mod row;
mod session;

pub(crate) use row::Row;
pub(crate) use session::Session;

use crate::server_options::{is_defaults, is_defaults_with_value, name_of};
use row::row_of;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Other options that say how to connect; `ssl` includes those that begin with it.
const CONNECTION: [&str; 6] = ["socket", "host", "port", "user", "password", "protocol"];

pub(crate) struct SqlClient {
    program: PathBuf,
    options: Vec<String>,
}

fn is_connection(option: &str) -> bool {
    let name = name_of(option);
    let name = name.strip_prefix("skip-").unwrap_or(name);
    CONNECTION.contains(&name) || name.starts_with("ssl")
}

/// Whether an option of the connection is followed by a value.
pub(crate) fn needs_value(name: &str) -> bool {
    CONNECTION.contains(&name) || is_defaults_with_value(name)
}

/// Refuses options that do not say how to connect.
pub(crate) fn check_connection_options(options: &[String]) -> io::Result<()> {
    for option in options {
        let name = name_of(option);
        let reason = if !option.starts_with("--") || (needs_value(name) && !option.contains('=')) {
            "write options as --name=value"
        } else if is_connection(option) || is_defaults(option) {
            continue;
        } else {
            "it does not say how to connect"
        };
        return Err(io::Error::other(format!(
            "{option} is not permitted: {reason}"
        )));
    }
    Ok(())
}

/// A string of SQL, with backslashes as escapes.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

impl SqlClient {
    pub(crate) fn new(program: &Path, options: &[String]) -> Self {
        Self {
            program: program.to_path_buf(),
            options: options.to_vec(),
        }
    }

    /// The options that must be first, and the others.
    pub(crate) fn split_defaults(&self) -> (Vec<&String>, Vec<&String>) {
        self.options.iter().partition(|option| is_defaults(option))
    }

    /// The client with the options of the connection.
    fn command(&self) -> Command {
        let (first, rest) = self.split_defaults();
        let mut command = Command::new(&self.program);
        command
            .args(first)
            .args(rest.into_iter().filter(|option| is_connection(option)))
            .args(["--batch", "--skip-column-names"]);
        command
    }

    fn cannot_start(&self, error: &io::Error) -> io::Error {
        io::Error::other(format!(
            "{} cannot be started: {error}",
            self.program.display()
        ))
    }

    /// Executes statements in a connection of their own; returns the rows.
    pub(crate) fn execute(&self, statements: &str) -> io::Result<Vec<Row>> {
        let output = self
            .command()
            .args(["--execute", statements])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| self.cannot_start(&error))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!(
                "the server refused: {}",
                text.trim()
            )));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().map(row_of).collect())
    }

    /// A connection for many statements.
    pub(crate) fn session(&self) -> io::Result<Session> {
        let mut command = self.command();
        // A new connection would not have the locks of the first one. Names may contain what the client takes for commands.
        command.args([
            "--unbuffered",
            "--skip-reconnect",
            "--binary-mode",
            "--default-character-set=utf8mb4",
        ]);
        Session::start(command).map_err(|error| self.cannot_start(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_connection_are_recognised() {
        for option in ["--socket=/s", "--user=u", "--ssl-ca=x", "--password=p"] {
            assert!(is_connection(option), "{option}");
        }
        assert!(!is_connection("--parallel=4"));
        assert!(is_defaults("--defaults-file=/etc/my.cnf"));
    }

    #[test]
    fn other_options_are_refused() {
        let check = |option: &str| check_connection_options(&[option.to_owned()]).is_ok();
        for option in ["--socket=/s", "--skip-ssl", "--no-defaults", "--ssl"] {
            assert!(check(option), "{option}");
        }
        for option in ["-uroot", "--user", "root", "--force", "--execute=DO 1"] {
            assert!(!check(option), "{option}");
        }
    }

    #[test]
    fn strings_are_quoted() {
        assert_eq!(quoted(r"/a'b\c"), r"'/a''b\\c'");
    }
}
