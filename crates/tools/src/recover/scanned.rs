//! Rows of pages below nodes that cannot be read.

use crate::keys;
use crate::progress::{Progress, Unit};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use teak_base::{Encryption, Operation, StorageError};
use teak_bulk_load::{
    BulkLoadError, MemoryReservation, NoWorkers, SortedEntries, Sorter, SorterOptions,
    SpillDirectory,
};
use teak_disk::RealDisk;
use teak_tree::{FoundVersion, LostPart, Tree, Visibility};

/// Memory of the sort.
const SORT_BYTES: usize = 64 << 20;

/// Bytes before the value in a sorted entry. Of the versions of a key, the one with the largest rank and number is used.
const PREFIX_BYTES: usize = 8 + 1 + 8 + 1;

#[derive(Debug)]
struct SortMemory;

impl MemoryReservation for SortMemory {
    fn bytes(&self) -> usize {
        SORT_BYTES
    }
}

/// A version of a row: its key, and its prefix with the value.
struct Version {
    key: Vec<u8>,
    stored: Vec<u8>,
}

/// Receives the key and the value of a row.
pub(super) type OnRow<'a> = dyn FnMut(&[u8], &[u8]) -> io::Result<()> + 'a;

/// The rows in the order of their keys.
pub(super) struct ScannedRows {
    entries: SortedEntries,
    next: Option<Version>,
}

fn failed(error: BulkLoadError) -> io::Error {
    io::Error::other(error)
}

/// The prefix of a version: a later write first, then the form of the run, then the place; and the operation.
fn put_prefix(version: &FoundVersion<'_>, number: u64, out: &mut Vec<u8>) {
    let id = match version.write_id.is_settled() {
        true => 0,
        false => version.write_id.0,
    };
    out.extend_from_slice(&id.to_be_bytes());
    out.push(u8::from(version.is_upper));
    // On a page, the newest version of a key comes first.
    out.extend_from_slice(&(u64::MAX - number).to_be_bytes());
    out.push(version.operation.number());
}

impl ScannedRows {
    /// Reads and sorts the entries in the lost ranges. `scratch`: the directory of spill files.
    ///
    /// # Errors
    /// Errors of reading, and of spill files.
    pub(super) fn read(
        tree: &Tree,
        ranges: &[LostPart],
        writes: &dyn Visibility,
        scratch: PathBuf,
    ) -> io::Result<Self> {
        let mut sorter = Sorter::new(SorterOptions {
            directory: SpillDirectory {
                disk: Arc::new(RealDisk),
                path: scratch,
                file_prefix: "teak.recover.",
                without_names: true,
                encryption: Encryption::default(),
                next: Arc::new(AtomicU64::new(u64::from(std::process::id()) << 32)),
            },
            memory: Box::new(SortMemory),
            workers: Arc::new(NoWorkers),
        });
        let name = format!("pages of {}", tree.path().display());
        let mut progress = Progress::new(name, Unit::Bytes, tree.file_bytes());
        let mut stored = Vec::new();
        let mut number = 0;
        let mut fault = None;
        let visited = tree.visit_pages(ranges, &mut |at| progress.at(at), &mut |version| {
            if !version.write_id.is_settled() && !writes.is_visible(version.write_id) {
                return Ok(());
            }
            stored.clear();
            put_prefix(version, number, &mut stored);
            stored.extend_from_slice(version.value);
            number += 1;
            sorter
                .add(version.key, &stored, &|| false)
                .map_err(|error| {
                    fault = Some(error);
                    StorageError::Interrupted
                })
        });
        if let Some(error) = fault {
            return Err(failed(error));
        }
        if let Some(error) = visited.map_err(io::Error::other)? {
            if keys::encryption().cipher.is_none() {
                return Err(io::Error::other(format!("{error} (--keys)")));
            }
            eprintln!("teak: intact pages that may be older ones are left out: {error}");
        }
        let mut rows = Self {
            entries: sorter.finish(&|| false).map_err(failed)?,
            next: None,
        };
        rows.advance()?;
        Ok(rows)
    }

    /// Passes the rows before `key` to `on_row`, and passes over a row with this key; without a key, all other rows.
    pub(super) fn pass(&mut self, key: Option<&[u8]>, on_row: &mut OnRow<'_>) -> io::Result<()> {
        while let Some(version) = &self.next {
            if key.is_some_and(|key| version.key.as_slice() > key) {
                return Ok(());
            }
            let is_same = key == Some(version.key.as_slice());
            if let Some((prefix, value)) = version.stored.split_at_checked(PREFIX_BYTES)
                && prefix.last() == Some(&Operation::Put.number())
                && !is_same
            {
                on_row(&version.key, value)?;
            }
            self.advance()?;
        }
        Ok(())
    }

    /// Moves to the best version of the next key.
    fn advance(&mut self) -> io::Result<()> {
        let mut best: Option<Version> = None;
        while let Some((key, stored)) = self.entries.entry() {
            match &mut best {
                Some(found) if found.key == key => {
                    if found.stored.get(..PREFIX_BYTES) < stored.get(..PREFIX_BYTES) {
                        found.stored.clear();
                        found.stored.extend_from_slice(stored);
                    }
                }
                Some(_) => break,
                None => {
                    best = Some(Version {
                        key: key.to_vec(),
                        stored: stored.to_vec(),
                    });
                }
            }
            self.entries.advance(&|| false).map_err(failed)?;
        }
        self.next = best;
        Ok(())
    }
}
