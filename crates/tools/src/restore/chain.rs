//! The backups of a restore: a full one, and increments of it.

use super::copy::{Copy, Pace};
use super::source::Source;
use crate::increments::Increments;
use crate::paths::named;
use crate::progress::{Progress, Unit};
use crate::verify;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_disk::{Disk, RealDisk};

pub(super) struct Chain {
    full: Source,
    increments: Vec<Source>,
    /// With increments: the lists of all backups.
    lists: Option<Increments>,
}

fn refused<T>(text: String) -> io::Result<T> {
    Err(io::Error::other(text))
}

impl Chain {
    pub(super) fn open(full: &Path, increments: &[PathBuf]) -> io::Result<Self> {
        let full = Source::open(full)?;
        let shown = full.directory.display();
        if full.is_increment {
            return refused(format!(
                "{shown} is an incremental backup: give the full backup, and {shown} with --incremental"
            ));
        }
        let increments: io::Result<Vec<Source>> =
            increments.iter().map(|path| Source::open(path)).collect();
        let increments = increments?;
        for increment in &increments {
            let other = increment.directory.display();
            if !increment.is_increment {
                return refused(format!("{other} is a full backup and has no base"));
            }
            if increment.is_whole != full.is_whole {
                return refused(format!(
                    "of {shown} and {other} only one has the tables of all engines"
                ));
            }
        }
        let mut chain = Self {
            full,
            increments,
            lists: None,
        };
        if !chain.increments.is_empty() {
            chain.lists = Some(Increments::open(&chain.directories())?);
        }
        Ok(chain)
    }

    pub(super) fn full(&self) -> &Source {
        &self.full
    }

    pub(super) fn increments(&self) -> &[Source] {
        &self.increments
    }

    /// The backup whose state is restored.
    pub(super) fn newest(&self) -> &Source {
        self.increments.last().unwrap_or(&self.full)
    }

    pub(super) fn directories(&self) -> Vec<PathBuf> {
        let all = std::iter::once(&self.full).chain(&self.increments);
        all.map(|source| source.directory.clone()).collect()
    }

    /// Reads all of Teak's files that the restore needs; returns their number.
    pub(super) fn verify(&self) -> io::Result<u64> {
        match &self.lists {
            None => self.full.verify(),
            Some(lists) => lists.verify(&mut |path, outcome| {
                if let Err(error) = outcome {
                    eprintln!("damaged  {}: {error}", path.display());
                }
            }),
        }
    }

    /// Merges Teak's files into a directory, and verifies the result; returns the bytes that were written.
    pub(super) fn merge(&self, directory: &Path, throttle: u32) -> io::Result<u64> {
        let Some(lists) = &self.lists else {
            return Ok(0);
        };
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let files = lists.chain.files();
        let total = files.iter().map(|listed| listed.block_bytes).sum();
        let mut progress = Progress::new("merging", Unit::Bytes, total);
        let pace = Pace::new(throttle);
        let mut bytes = 0;
        let merged = lists.chain.merge_all(&disk, directory, &mut |more| {
            bytes += more;
            progress.at(bytes);
            pace.wait(bytes);
            Ok(())
        });
        merged.map_err(io::Error::other)?;
        for listed in files {
            verify::check(&directory.join(&listed.path)).map_err(io::Error::other)?;
        }
        let newest = &self.newest().directory;
        for entry in fs::read_dir(newest).map_err(|error| named(newest, &error))? {
            let entry = entry?;
            let name = entry.file_name();
            let is_needed = |name: &str| name.starts_with("teak.log.") || name == "teak.backups";
            if name.to_str().is_some_and(is_needed) {
                let to = directory.join(&name);
                bytes += Copy::one(&entry.path(), &to).map_err(|error| named(&to, &error))?;
            }
        }
        Ok(bytes)
    }
}
