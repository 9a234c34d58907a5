//! The directory of a backup: what it contains, and whether it is intact. It is only read.

use super::plan::Recorded;
use super::target::LogPosition;
use crate::backup_info::{BackupInfo, CHECKPOINTS, INFO, first_of, value_of};
use crate::increments::{is_increment, verify_log};
use crate::index_files::find;
use crate::verify;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_disk::{Disk, ReadOnlyDisk};
use teak_engine::{INCREMENT_CATALOGUE_FILE, StoredTables};

/// Without it, the backup was not completed.
pub(super) const CATALOGUE: &str = "teak.catalogue";

// Files of mariadb-backup; their names depend on its version.
const BINLOG: [&str; 2] = ["xtrabackup_binlog_info", "mariadb_backup_binlog_info"];
const SERVER: [&str; 2] = ["xtrabackup_info", "mariadb_backup_info"];
/// The position as InnoDB knows it; written by `--prepare`.
pub(super) const INNODB_POSITION: [&str; 2] = [
    "xtrabackup_binlog_pos_innodb",
    "mariadb_backup_binlog_pos_innodb",
];
const SETTINGS: &str = "backup-my.cnf";

pub(super) struct Source {
    pub directory: PathBuf,
    /// The backup was made with mariadb-backup, and has the tables of all engines.
    pub is_whole: bool,
    /// The backup has only what its base lacks.
    pub is_increment: bool,
    /// The version of the server, for example `10.11.18-MariaDB`.
    pub server_version: Option<String>,
    /// The settings of the server that its files depend on, as lines of an option file.
    pub settings: Vec<String>,
    recorded: Option<Recorded>,
}

fn refused(text: String) -> io::Error {
    io::Error::other(text)
}

/// Parses `file<tab>position<tab>GTIDs`.
fn recorded(text: &str) -> Option<Recorded> {
    let mut fields = text.trim_end_matches('\n').split('\t');
    let file = fields.next()?.parse().ok()?;
    let offset = fields.next()?.parse().ok()?;
    let gtids = fields.next().unwrap_or_default().trim();
    let gtids: Result<Vec<_>, ()> = match gtids.is_empty() {
        true => Ok(Vec::new()),
        false => gtids.split(',').map(|gtid| gtid.trim().parse()).collect(),
    };
    Some(Recorded {
        position: LogPosition { file, offset },
        gtids: gtids.ok()?,
    })
}

/// The settings that the restored server needs. Directories are left out: all files are restored to one directory.
fn settings(text: &str) -> Vec<String> {
    let is_setting = |line: &&str| {
        let name = line.split('=').next().unwrap_or_default().trim();
        let is_place = ["innodb_undo_directory", "innodb_buffer_pool_filename"].contains(&name);
        !name.is_empty() && !name.starts_with(['#', '[']) && !is_place
    };
    text.lines().filter(is_setting).map(str::to_owned).collect()
}

impl Source {
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let named = |error| refused(format!("{}: {error}", directory.display()));
        let directory = directory.canonicalize().map_err(named)?;
        let is_increment = is_increment(&directory);
        let catalogue = match is_increment {
            true => INCREMENT_CATALOGUE_FILE,
            false => CATALOGUE,
        };
        if !directory.join(catalogue).exists() || !directory.join(INFO).exists() {
            return Err(refused(format!(
                "{} is not a complete backup: there is no {INFO} with {CATALOGUE}",
                directory.display()
            )));
        }
        let checkpoints = first_of(&directory, &CHECKPOINTS);
        let binlog = first_of(&directory, &BINLOG);
        let recorded = binlog.map(|text| {
            let unknown = || refused(format!("the position {} is not known", text.trim()));
            recorded(&text).ok_or_else(unknown)
        });
        let server = first_of(&directory, &SERVER).unwrap_or_default();
        let text = fs::read_to_string(directory.join(SETTINGS)).unwrap_or_default();
        Ok(Self {
            is_whole: checkpoints.is_some(),
            is_increment,
            server_version: value_of(&server, "server_version").map(str::to_owned),
            settings: settings(&text),
            recorded: recorded.transpose()?,
            directory,
        })
    }

    /// The position in the binary log; none if the server had no binary log, or only Teak was copied.
    pub(super) fn recorded(&self) -> Option<&Recorded> {
        self.recorded.as_ref()
    }

    /// Reads all of Teak's files; returns their number.
    ///
    /// # Errors
    /// If a file is missing or damaged, or the log ends before the moment of the backup.
    pub(super) fn verify(&self) -> io::Result<u64> {
        let directory = &self.directory;
        let info = BackupInfo::read(directory)?;
        let files = info.files;
        let paths = find(std::slice::from_ref(directory)).map_err(io::Error::other)?;
        let mut damaged = 0;
        for path in &paths {
            if let Err(error) = verify::check(path) {
                damaged += 1;
                eprintln!("damaged  {}: {error}", path.display());
            }
        }
        if damaged > 0 {
            return Err(refused(format!(
                "the backup is damaged: {damaged} of {} index files",
                paths.len()
            )));
        }
        // The log counts as one file.
        let found = paths.len() as u64 + 1;
        if found != files {
            return Err(refused(format!(
                "the backup is incomplete: it has {found} files of Teak, and {files} were copied"
            )));
        }
        let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk);
        let catalogue = StoredTables::read(&disk, directory);
        catalogue.map_err(|error| refused(format!("the backup is damaged: {error}")))?;
        verify_log(directory, info.position)?;
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_position_is_read() {
        let found = recorded("binlog.000003\t4711\t0-1-100,1-2-7\n").unwrap();
        assert_eq!(found.position.to_string(), "binlog.000003:4711");
        assert_eq!(found.gtids.len(), 2);
        assert!(
            recorded("binlog.000003\t4711\t\n")
                .unwrap()
                .gtids
                .is_empty()
        );
        assert!(recorded("binlog.000003\t4711\n").is_some());
        assert!(recorded("binlog.000003\n").is_none());
        assert!(recorded("binlog\t4\t0-1-1\n").is_none());
        assert!(recorded("binlog.000003\t4711\tx\n").is_none());
    }

    #[test]
    fn settings_without_directories_are_taken() {
        let text = "# The server\n[mysqld]\ninnodb_page_size=16384\ninnodb_undo_directory=/undo\n\nplugin_load=a.so\n";
        assert_eq!(
            settings(text),
            ["innodb_page_size=16384", "plugin_load=a.so"]
        );
    }
}
