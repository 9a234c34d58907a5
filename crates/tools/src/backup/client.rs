//! Statements for the server, through the command-line client.

use crate::server_options::{is_defaults, is_defaults_with_value, name_of};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Other options that say how to connect; `ssl` includes those that begin with it.
const CONNECTION: [&str; 6] = ["socket", "host", "port", "user", "password", "protocol"];

/// The columns of INFORMATION_SCHEMA.TEAK_BACKUPS, in the order of [`State`].
const COLUMNS: &str = "STATE, STAGES, IFNULL(LSN, 0), IFNULL(CUT_MICROSECONDS, 0), FILES, BYTES_COPIED, IFNULL(ERROR, '')";

/// The state of the server's backup.
#[derive(Debug)]
pub(super) struct State {
    pub word: String,
    pub stages: u64,
    pub position: u64,
    pub cut_microseconds: u64,
    pub files: u64,
    pub bytes_copied: u64,
    pub error: String,
}

pub(super) struct Client {
    program: PathBuf,
    options: Vec<String>,
}

fn is_connection(option: &str) -> bool {
    let name = name_of(option);
    let name = name.strip_prefix("skip-").unwrap_or(name);
    CONNECTION.contains(&name) || name.starts_with("ssl")
}

/// Whether an option of the connection is followed by a value.
pub(super) fn needs_value(name: &str) -> bool {
    CONNECTION.contains(&name) || is_defaults_with_value(name)
}

/// A string of SQL. The client reads the statement from the command line, with backslashes as escapes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

impl Client {
    pub(super) fn new(program: &Path, options: &[String]) -> Self {
        Self {
            program: program.to_path_buf(),
            options: options.to_vec(),
        }
    }

    /// The options that must be first, and the others.
    pub(super) fn split_defaults(&self) -> (Vec<&String>, Vec<&String>) {
        self.options.iter().partition(|option| is_defaults(option))
    }

    /// Executes statements; returns the rows.
    fn execute(&self, statements: &str) -> io::Result<Vec<Vec<String>>> {
        let (first, rest) = self.split_defaults();
        let output = Command::new(&self.program)
            .args(first)
            .args(rest.into_iter().filter(|option| is_connection(option)))
            .args(["--batch", "--skip-column-names", "--execute", statements])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| {
                io::Error::other(format!(
                    "{} cannot be started: {error}",
                    self.program.display()
                ))
            })?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!(
                "the server refused: {}",
                text.trim()
            )));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let rows = text.lines().map(|line| line.split('\t').map(str::to_owned));
        Ok(rows.map(Iterator::collect).collect())
    }

    /// The server's data directory.
    ///
    /// # Errors
    /// Also if the server has no Teak with hot backups.
    pub(super) fn data_directory(&self) -> io::Result<PathBuf> {
        let rows = self.execute(
            "SELECT @@datadir FROM INFORMATION_SCHEMA.PLUGINS WHERE PLUGIN_NAME = 'TEAK_BACKUPS'",
        )?;
        let value = rows.first().and_then(|row| row.first());
        let value =
            value.ok_or_else(|| io::Error::other("the server has no Teak with hot backups"))?;
        Ok(PathBuf::from(value))
    }

    /// Arms the backup, or extends the time for which it is armed.
    pub(super) fn arm(&self, directory: &Path, throttle: u32) -> io::Result<()> {
        let directory = directory
            .to_str()
            .ok_or_else(|| io::Error::other("the target is not valid UTF-8"))?;
        let directory = quoted(directory);
        self.execute(&format!(
            "SET GLOBAL teak_backup_throttle = {throttle}; SET GLOBAL teak_backup_target = {directory}"
        ))?;
        Ok(())
    }

    pub(super) fn cancel(&self) -> io::Result<()> {
        self.execute("SET GLOBAL teak_backup_target = ''")?;
        Ok(())
    }

    /// Blocks commits for a moment, as mariadb-backup does.
    pub(super) fn block_commits(&self) -> io::Result<()> {
        self.execute("BACKUP STAGE START; BACKUP STAGE BLOCK_COMMIT; BACKUP STAGE END")?;
        Ok(())
    }

    pub(super) fn state(&self) -> io::Result<State> {
        let rows = self.execute(&format!(
            "SELECT {COLUMNS} FROM INFORMATION_SCHEMA.TEAK_BACKUPS"
        ))?;
        let row = rows
            .first()
            .ok_or_else(|| io::Error::other("the server was restarted: it has no backup"))?;
        let text = |at: usize| row.get(at).cloned().unwrap_or_default();
        let number = |at: usize| text(at).parse().unwrap_or(0);
        Ok(State {
            word: text(0),
            stages: number(1),
            position: number(2),
            cut_microseconds: number(3),
            files: number(4),
            bytes_copied: number(5),
            error: text(6),
        })
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
    fn paths_are_quoted() {
        assert_eq!(quoted(r"/a'b\c"), r"'/a''b\\c'");
    }
}
