//! Incremental backups: finding their bases, and verifying a full backup with its increments.

use crate::backup_info::{BackupInfo, INFO};
use crate::progress::{Progress, Unit};
use crate::sizes::grouped;
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{ByteSize, Encryption, StorageError};
use teak_disk::{Disk, ReadOnlyDisk};
use teak_engine::{BACKUP_LIST_FILE, BackupChain, BackupList, INCREMENT_CATALOGUE_FILE};
use teak_write_ahead_log::{LogPart, survey_log};

/// Maximum number of increments after a full backup.
const INCREMENTS_MAX: usize = 1000;

fn refused(text: String) -> io::Error {
    io::Error::other(text)
}

/// Whether a directory contains an increment.
pub(crate) fn is_increment(directory: &Path) -> bool {
    directory.join(INCREMENT_CATALOGUE_FILE).exists()
}

/// The directories of increments among the paths and below.
pub(crate) fn find_increments(paths: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left: Vec<PathBuf> = paths.to_vec();
    while let Some(path) = left.pop() {
        if !path.is_dir() {
            continue;
        }
        if is_increment(&path) {
            found.push(path.clone());
        }
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                left.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Opens the list of a backup.
pub(crate) fn open_list(directory: &Path) -> io::Result<BackupList> {
    let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk);
    let path = directory.join(BACKUP_LIST_FILE);
    if !path.exists() {
        return Err(refused(format!(
            "{} is not a complete backup that can have increments: there is no {BACKUP_LIST_FILE}",
            directory.display()
        )));
    }
    BackupList::open(&disk, &path).map_err(io::Error::other)
}

/// A full backup and increments, of which the newest is verified or restored.
pub(crate) struct Increments {
    pub(crate) chain: BackupChain,
    directory: PathBuf,
}

impl Increments {
    /// `directories`: the full backup first.
    pub(crate) fn open(directories: &[PathBuf]) -> io::Result<Self> {
        for directory in directories {
            open_list(directory)?;
        }
        let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk);
        let chain = BackupChain::open(&disk, directories).map_err(io::Error::other)?;
        Ok(Self {
            chain,
            directory: directories.last().cloned().unwrap_or_default(),
        })
    }

    /// The chain that ends with an increment. `bases`: its base, the base of that one and so on; the others are
    /// searched where they were when the increments were made.
    pub(crate) fn before(directory: &Path, bases: &[PathBuf]) -> io::Result<Self> {
        let mut bases: VecDeque<PathBuf> = bases.iter().cloned().collect();
        let mut directories = vec![directory.to_path_buf()];
        let mut current = directory.to_path_buf();
        while let Some((base, _)) = open_list(&current)?.identity().base {
            if directories.len() > INCREMENTS_MAX {
                return Err(refused(format!(
                    "there are more than {INCREMENTS_MAX} increments"
                )));
            }
            let next = match bases.pop_front() {
                Some(next) => next,
                None => BackupInfo::read(&current)?.base_directory.ok_or_else(|| {
                    let shown = current.display();
                    refused(format!(
                        "{shown}/{INFO} does not name the directory of the base"
                    ))
                })?,
            };
            if !next.is_dir() {
                return Err(refused(format!(
                    "{}, the base of {}, is missing: it is backup {base}; give it with --incremental-base",
                    next.display(),
                    current.display()
                )));
            }
            directories.push(next.clone());
            current = next;
        }
        if !bases.is_empty() {
            let shown = current.display();
            return Err(refused(format!("{shown} is a full backup and has no base")));
        }
        directories.reverse();
        Self::open(&directories)
    }

    /// Verifies all that the newest backup needs. Calls `report` for each index file. Returns the number of files, of which the
    /// log is one.
    pub(crate) fn verify(
        &self,
        report: &mut dyn FnMut(&Path, Result<String, StorageError>),
    ) -> io::Result<u64> {
        let files = self.chain.files();
        let total = files.iter().map(|listed| listed.block_bytes).sum();
        let name = self.directory.display().to_string();
        let mut progress = Progress::new(name, Unit::Bytes, total);
        let mut done = 0;
        let mut damaged = 0;
        for listed in files {
            let merged = self.chain.merge(listed, None, &mut |bytes| {
                done += bytes;
                progress.at(done);
                Ok(())
            });
            damaged += u64::from(merged.is_err());
            report(
                &self.directory.join(&listed.path),
                merged.map(|()| {
                    let (all, own) = (listed.block_bytes, listed.changed_bytes);
                    format!(
                        "{} blocks of {}, of which {} are in the increment",
                        grouped(listed.blocks),
                        ByteSize(all),
                        ByteSize(own)
                    )
                }),
            );
        }
        if damaged > 0 {
            return Err(refused(format!(
                "the backup is damaged: {damaged} of {} index files",
                files.len()
            )));
        }
        self.chain.catalogue().map_err(io::Error::other)?;
        let info = BackupInfo::read(&self.directory)?;
        let found = files.len() as u64 + 1;
        if info.files != found {
            return Err(refused(format!(
                "the backup is incomplete: it has {found} files of Teak, and {} were copied",
                info.files
            )));
        }
        verify_log(&self.directory, info.position)?;
        Ok(found)
    }
}

/// Verifies that the log of a backup reaches a position. A damaged end of the log would not be noticed by recovery, because a
/// crash can leave one.
pub(crate) fn verify_log(directory: &Path, position: u64) -> io::Result<()> {
    let mut end = None;
    let mut damage = None;
    let surveyed = survey_log::<StorageError>(
        &ReadOnlyDisk,
        directory,
        &Encryption::default(),
        &mut |part| {
            match part {
                LogPart::Damage(error) => damage = damage.take().or(Some(error)),
                LogPart::End { lsn, .. } => end = Some(lsn.0),
                _ => {}
            }
            Ok(())
        },
    );
    let damage = surveyed.err().or(damage);
    if let Some(damage) = damage {
        return Err(refused(format!("the backup is damaged: {damage}")));
    }
    match end {
        Some(end) if end >= position => Ok(()),
        _ => Err(refused(format!(
            "the backup is damaged: its log ends at position {}, and must end at {position}",
            end.unwrap_or(0)
        ))),
    }
}

/// Whether a file of a backup belongs to Teak, by its name.
pub(crate) fn is_teaks(name: &str) -> bool {
    // A table of another engine may be called `teak`, too.
    let prefixes = ["teak.log.", "teak.catalogue", "teak.backups"];
    name.ends_with(".teak")
        || name.ends_with(".teak-increment")
        || prefixes.iter().any(|prefix| name.starts_with(prefix))
        || [INFO, BACKUP_LIST_FILE].contains(&name)
}
