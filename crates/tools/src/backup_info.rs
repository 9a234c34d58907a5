//! The text about a backup in its directory, and its files of mariadb-backup.

use crate::paths::named;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What `teak backup` has written about Teak's files.
pub(crate) const INFO: &str = "teak_backup_info";

/// Files in which mariadb-backup says what it has copied; which one depends on its version.
pub(crate) const CHECKPOINTS: [&str; 2] = ["xtrabackup_checkpoints", "mariadb_backup_checkpoints"];

/// The first of these files that exists.
pub(crate) fn first_of(directory: &Path, names: &[&str]) -> Option<String> {
    let read = |name: &&str| fs::read_to_string(directory.join(name)).ok();
    names.iter().find_map(read)
}

/// The value of a line `name = value`.
pub(crate) fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once('='));
    let found = pairs.find(|(left, _)| left.trim() == name);
    found.map(|(_, right)| right.trim())
}

/// What the text says.
pub(crate) struct BackupInfo {
    /// The position in Teak's log.
    pub(crate) position: u64,
    /// The number of Teak's files, of which the log is one.
    pub(crate) files: u64,
    /// Where the base of an increment was when the backup was made.
    pub(crate) base_directory: Option<PathBuf>,
}

impl BackupInfo {
    pub(crate) fn read(directory: &Path) -> io::Result<Self> {
        let path = directory.join(INFO);
        let text = fs::read_to_string(&path).map_err(|error| named(&path, &error))?;
        let number = |name: &str| value_of(&text, name).and_then(|value| value.parse().ok());
        match (number("position"), number("files")) {
            (Some(position), Some(files)) => Ok(Self {
                position,
                files,
                base_directory: value_of(&text, "base-directory").map(PathBuf::from),
            }),
            _ => Err(io::Error::other(format!("{} is damaged", path.display()))),
        }
    }
}
