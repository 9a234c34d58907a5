//! The base of an incremental backup.

use crate::backup_info::{BackupInfo, CHECKPOINTS, first_of, value_of};
use crate::increments::open_list;
use crate::paths::named;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use teak_engine::{BackupIdentity, BackupList, INCREMENT_CATALOGUE_FILE, increment_path};
use teak_tree::SUPERBLOCK_SIZE;

const CATALOGUE: &str = "teak.catalogue";

pub(super) struct Base {
    pub directory: PathBuf,
    pub list: BackupList,
}

fn refused<T>(text: String) -> io::Result<T> {
    Err(io::Error::other(text))
}

impl Base {
    /// Checks that all of the backup's files are there with the right sizes. `teak_only`: without other engines.
    pub(super) fn open(directory: &Path, teak_only: bool) -> io::Result<Self> {
        let directory = directory
            .canonicalize()
            .map_err(|error| named(directory, &error))?;
        let shown = directory.display();
        let list = open_list(&directory)?;
        BackupInfo::read(&directory)?;
        let is_increment = list.identity().base.is_some();
        let catalogue = match is_increment {
            true => INCREMENT_CATALOGUE_FILE,
            false => CATALOGUE,
        };
        if !directory.join(catalogue).exists() {
            return refused(format!(
                "{shown} is not a complete backup: there is no {catalogue}"
            ));
        }
        check_engines(&directory, teak_only)?;
        for listed in list.files() {
            let path = directory.join(&listed.path);
            let (path, expected) = match is_increment {
                true => (
                    increment_path(&path),
                    Some(listed.changed_bytes.saturating_add(SUPERBLOCK_SIZE as u64)),
                ),
                false => (path, None),
            };
            let found = fs::metadata(&path)
                .map_err(|error| named(&path, &error))?
                .len();
            let is_complete = match expected {
                Some(expected) => found == expected,
                None => {
                    found
                        >= listed
                            .block_bytes
                            .saturating_add(2 * SUPERBLOCK_SIZE as u64)
                }
            };
            if !is_complete {
                return refused(format!(
                    "{} has {found} bytes, which are not those of the backup",
                    path.display()
                ));
            }
        }
        Ok(Self { directory, list })
    }

    /// Checks the list of an increment that was made.
    pub(super) fn check(&self, made: &BackupIdentity) -> io::Result<()> {
        let expected = (self.list.identity().id, self.list.checksum());
        match made.base == Some(expected) {
            true => Ok(()),
            false => refused(format!(
                "the server has made a backup with another base than {}",
                self.directory.display()
            )),
        }
    }
}

/// Checks what the base has of other engines.
fn check_engines(directory: &Path, teak_only: bool) -> io::Result<()> {
    let shown = directory.display();
    let Some(summary) = first_of(directory, &CHECKPOINTS) else {
        return match teak_only {
            true => Ok(()),
            false => refused(format!("{shown} has only Teak's tables: use --teak-only")),
        };
    };
    if teak_only {
        return refused(format!(
            "{shown} has the tables of all engines, so --teak-only is not permitted"
        ));
    }
    match value_of(&summary, "backup_type") {
        Some("full-backuped" | "incremental") => Ok(()),
        _ => refused(format!(
            "{shown} was changed by mariadb-backup --prepare and cannot be a base any more"
        )),
    }
}
