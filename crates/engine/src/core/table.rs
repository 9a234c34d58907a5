//! An open table: its indexes, its durable counters, and whether damage was
//! found.

use super::counters::TableCounters;
use super::files::IndexFiles;
use super::index::{Index, adopt_options};
use crate::catalogue::{TEMPORARY_ID_MIN, TableEntry};
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use arc_swap::ArcSwap;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use teak_base::{FileId, StorageResult};
use teak_transactions::RangeLocks;
use teak_tree::Tree;

/// The index with a number.
///
/// # Errors
/// `NoSuchIndex`.
pub(crate) fn index_at(indexes: &[Arc<Index>], number: IndexNumber) -> EngineResult<&Arc<Index>> {
    number
        .of(indexes)
        .ok_or(EngineError::NoSuchIndex { index: number })
}

/// One open table.
#[derive(Debug)]
pub(crate) struct Table {
    pub id: u64,
    pub name: RwLock<Arc<str>>,
    pub metadata: RwLock<Arc<[u8]>>,
    /// The table's indexes, followed by those that an alteration is building.
    pub indexes: ArcSwap<Vec<Arc<Index>>>,
    /// Number of indexes that are being built.
    pub building: AtomicUsize,
    /// One alteration at a time.
    pub altering: AtomicBool,
    pub counters: Arc<TableCounters>,
    /// Namespace for the locks of the table's counters. Its file id belongs to no index file.
    pub counter_locks: Arc<RangeLocks>,
    pub damaged: Arc<AtomicBool>,
    pub handles: AtomicUsize,
}

impl Table {
    /// Opens the trees of a table, except those in `kept`, which are already open.
    pub(crate) fn open(
        files: &IndexFiles,
        entry: &TableEntry,
        counters: &Arc<TableCounters>,
        kept: &[Arc<Index>],
    ) -> StorageResult<Self> {
        let damaged = match kept.first() {
            Some(index) => Arc::clone(&index.damaged),
            None => Arc::new(AtomicBool::new(false)),
        };
        let mut indexes = Vec::with_capacity(entry.indexes.len());
        for index in &entry.indexes {
            if let Some(open) = kept.iter().find(|open| open.entry.file == index.file) {
                adopt_options(&open.tree, index);
                indexes.push(Arc::clone(open));
                continue;
            }
            let tree = files.open_tree(index)?;
            adopt_options(&tree, index);
            indexes.push(Arc::new(Index::new(index.clone(), tree, &damaged)));
        }
        Ok(Self::new(entry, counters, indexes, damaged))
    }

    /// A table that was created just now, with its empty trees.
    pub(crate) fn created(
        entry: &TableEntry,
        counters: &Arc<TableCounters>,
        trees: Vec<Arc<Tree>>,
    ) -> Self {
        let damaged = Arc::new(AtomicBool::new(false));
        let indexes = entry.indexes.iter().zip(trees);
        let indexes =
            indexes.map(|(index, tree)| Arc::new(Index::new(index.clone(), tree, &damaged)));
        Self::new(entry, counters, indexes.collect(), Arc::clone(&damaged))
    }

    fn new(
        entry: &TableEntry,
        counters: &Arc<TableCounters>,
        indexes: Vec<Arc<Index>>,
        damaged: Arc<AtomicBool>,
    ) -> Self {
        Self {
            id: entry.id,
            name: RwLock::new(entry.name.as_str().into()),
            metadata: RwLock::new(entry.metadata.as_slice().into()),
            indexes: ArcSwap::from_pointee(indexes),
            building: AtomicUsize::new(0),
            altering: AtomicBool::new(false),
            counters: Arc::clone(counters),
            counter_locks: Arc::new(RangeLocks::new(FileId(!entry.id))),
            damaged,
            handles: AtomicUsize::new(0),
        }
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.id >= TEMPORARY_ID_MIN
    }

    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name.read())
    }
}
