//! The list of all indexes, with their sizes.

use crate::core::index::Index;
use crate::core::opening::{entry_of, slot_of};
use crate::engine::Engine;
use std::path::PathBuf;
use teak_base::{Codec, EncryptionState, KeyId};

/// An index of a table. The sizes of an index whose file is closed are those of the time when it was
/// closed, or those in the catalogue that was read when the engine was opened; the counters that begin
/// when it is opened are 0.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IndexReport {
    /// The name of the table.
    pub table: String,
    /// The number of the index; 0 contains the rows.
    pub number: u32,
    /// The label.
    pub label: String,
    /// The file, relative to the data directory.
    pub path: PathBuf,
    /// Whether the file is open.
    pub is_open: bool,
    /// The codec of bottom runs.
    pub codec: Codec,
    /// The key with which new blocks are encrypted; `None`: they are not.
    pub encryption_key: Option<KeyId>,
    /// How all blocks are encrypted. While they are being written again with another key, this is the old state.
    pub encryption: EncryptionState,
    /// Estimated number of live entries.
    pub entries: u64,
    /// Deletes and range tombstones on disk.
    pub tombstones: u64,
    /// Uncompressed bytes of the entries on disk, with old versions.
    pub raw_bytes: u64,
    /// Bytes of the file that contain data, old versions included.
    pub live_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes in memtables.
    pub memtable_bytes: u64,
    /// Bytes of its decoded blocks in memory.
    pub cached_bytes: u64,
    /// Levels of nodes.
    pub height: u64,
    /// Runs.
    pub runs: u64,
    /// Pages of runs; 0 while the file is closed.
    pub pages: u64,
    /// Blocks read since the file was opened, and their bytes.
    pub blocks_read: u64,
    /// See `blocks_read`.
    pub bytes_read: u64,
    /// Bytes of the filters in memory.
    pub filter_bytes_in_memory: u64,
    /// Entries of the index blocks with these filters.
    pub filter_entries_in_memory: u64,
    /// Checks of filters since the file was opened.
    pub filter_checks: u64,
    /// Those that ruled out the key.
    pub filter_negatives: u64,
    /// Uncompressed bytes that flushes of memtables have written since the file was opened.
    pub raw_bytes_flushed: u64,
    /// Uncompressed bytes that all jobs have written since the file was opened, except loads and
    /// relocations.
    pub raw_bytes_written: u64,
    /// Bytes that all writers have written to the file since it was opened.
    pub bytes_written: u64,
}

impl IndexReport {
    fn set_open(&mut self, index: &Index) {
        let (tree, file) = (index.tree.statistics(), index.tree.file_statistics());
        self.is_open = true;
        self.codec = index.tree.options().codec;
        self.encryption = index.tree.encryption_state();
        self.entries = tree.rows;
        self.tombstones = tree.deletes + tree.range_tombstones;
        self.raw_bytes = tree.raw_bytes;
        self.live_bytes = file.live_bytes;
        self.file_bytes = file.file_bytes;
        self.memtable_bytes = tree.memtable_bytes + tree.frozen_bytes;
        self.cached_bytes = index.tree.cached_bytes();
        self.height = tree.height;
        self.runs = tree.runs;
        self.pages = tree.pages;
        self.blocks_read = file.blocks_read;
        self.bytes_read = file.bytes_read;
        let filters = index.tree.filter_statistics();
        self.filter_bytes_in_memory = filters.bytes;
        self.filter_entries_in_memory = filters.entries;
        self.filter_checks = filters.checks.checks;
        self.filter_negatives = filters.checks.negatives;
        self.raw_bytes_flushed = tree.raw_bytes_flushed;
        self.raw_bytes_written = tree.raw_bytes_written;
        self.bytes_written = file.bytes_written;
    }
}

impl Engine {
    /// Calls `visit` for each index of each table except temporary ones, in the order of the names of
    /// the tables. Opens no files. A table that is created, altered or dropped during the call may be
    /// left out.
    pub fn list_indexes(&self, visit: &mut dyn FnMut(&IndexReport)) {
        let tables = &self.core.tables;
        let mut found: Vec<(String, u64)> = {
            let tables = tables.lock();
            let states = tables.durable();
            states
                .map(|(id, state)| (state.entry.name.clone(), *id))
                .collect()
        };
        found.sort_unstable();
        for (_, id) in found {
            for report in self.reports_of(id) {
                visit(&report);
            }
        }
    }

    /// The indexes of a table; none if it was dropped.
    fn reports_of(&self, id: u64) -> Vec<IndexReport> {
        let tables = &self.core.tables;
        let Some(slot) = slot_of(tables, id) else {
            return Vec::new();
        };
        // Closing the files updates the entry.
        let slot = slot.lock();
        let open = slot.as_ref().and_then(|table| table.open_indexes());
        let Some(entry) = entry_of(tables, id) else {
            return Vec::new();
        };
        drop(slot);
        let reports = (0u32..).zip(&entry.indexes).map(|(number, index)| {
            let sizes = &index.sizes;
            let mut report = IndexReport {
                table: entry.name.clone(),
                number,
                label: index.label.clone(),
                path: index.path.clone(),
                is_open: false,
                codec: index.codec,
                encryption_key: index.encryption_key,
                encryption: index.encryption,
                entries: sizes.entries,
                tombstones: sizes.tombstones,
                raw_bytes: sizes.raw_bytes,
                live_bytes: sizes.file_bytes.saturating_sub(sizes.unused_bytes),
                file_bytes: sizes.file_bytes,
                memtable_bytes: 0,
                cached_bytes: 0,
                height: sizes.height,
                runs: sizes.runs,
                pages: 0,
                blocks_read: 0,
                bytes_read: 0,
                filter_bytes_in_memory: 0,
                filter_entries_in_memory: 0,
                filter_checks: 0,
                filter_negatives: 0,
                raw_bytes_flushed: 0,
                raw_bytes_written: 0,
                bytes_written: 0,
            };
            let open = open.iter().flat_map(|indexes| indexes.iter());
            let mut same_file = open.filter(|open| open.entry.file == index.file);
            if let Some(open) = same_file.next() {
                report.set_open(open);
            }
            report
        });
        reports.collect()
    }
}
