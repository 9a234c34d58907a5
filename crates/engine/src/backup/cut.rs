//! The cut: the moment of which a backup is a copy.
//!
//! 1. Retain the log, of which there can be one hold, and lock table changes.
//! 2. Capture the catalogue.
//! 3. Pin the last durable checkpoint of each open file. Files that are closed are pinned when they
//!    are opened, removed or copied ([`crate::core::backup_files`]).
//! 4. Read the end of the log: the copy contains the log up to this position.
//!
//! This order makes the copy a state that a crash at step 4 could have left: recovery accepts index
//! files that are newer than the catalogue, no checkpoint contains an effect of a record after the
//! end of the log, and the log is synced before it is copied.
//!
//! One kind of write is not in the log: the rows of a load. They are in the checkpoints that the load
//! makes before it is committed. If a load ends between steps 3 and 4, its commit could be in the
//! log, although its rows are in checkpoints after those that are pinned. Then steps 2 to 4 are
//! repeated.

use super::{Backup, Cut};
use crate::catalogue::{Catalogue, TableEntry};
use crate::core::EngineCore;
use crate::core::backup_files::BackupLimits;
use crate::core::backup_history::BackupId;
use crate::core::backup_job::CopyCounts;
use crate::core::opening::slot_of;
use crate::error::{EngineError, EngineResult};
use crate::maintenance::catalogue_writer::CatalogueContext;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use teak_base::Lsn;

/// How many times steps 2 to 4 are tried.
const ATTEMPTS: usize = 20;

impl Backup {
    /// See [`crate::Engine::begin_backup`]. The copy will change `counts`.
    pub(super) fn cut(
        core: &Arc<EngineCore>,
        limits: BackupLimits,
        counts: Arc<CopyCounts>,
    ) -> EngineResult<Self> {
        let began = Instant::now();
        let refused = || EngineError::BackupFailed("another backup is in progress".into());
        let hold = core.log.begin_hold().ok_or_else(refused)?;
        let full_disks = core.counts.full_disks.load(Ordering::Relaxed);
        if !core.files.backup.begin(limits, hold, full_disks) {
            core.log.end_hold(hold)?;
            return Err(refused());
        }
        // Before any file is pinned: what is published from now on may be missing in the copy.
        let number = core.files.backup.history.epochs().advance();
        match cut(core) {
            Ok((catalogue, until)) => {
                core.log.limit_hold(until);
                let cut = Cut {
                    hold,
                    number,
                    id: BackupId::new(&[core.instance, number, until.0]),
                    until,
                    duration: began.elapsed(),
                };
                Ok(Self::new(core, catalogue, cut, counts))
            }
            Err(error) => {
                core.files.backup.end();
                let released = core.log.end_hold(hold);
                released?;
                Err(error)
            }
        }
    }
}

fn cut(core: &EngineCore) -> EngineResult<(Catalogue, Lsn)> {
    // Logged under no lock of the cut.
    core.log_counters()?;
    let _changes = core.table_changes.lock();
    for _ in 0..ATTEMPTS {
        let loads = core.counts.bulk_loads.load(Ordering::SeqCst);
        let catalogue = CatalogueContext::from(core).capture_for_backup();
        let tables = || catalogue.tables.values();
        let files = tables().flat_map(|table| &table.indexes);
        // Before any file is pinned: a file that is opened from now on is pinned when it is opened.
        core.files.backup.want(files.map(|index| index.file));
        for table in tables() {
            pin_table(core, table)?;
        }
        let until = core.log.end();
        if core.counts.bulk_loads.load(Ordering::SeqCst) == loads {
            return Ok((catalogue, until));
        }
    }
    let text = "bulk loads have ended during all attempts to begin";
    Err(EngineError::BackupFailed(text.into()))
}

/// Pins the files of a table if they are open.
fn pin_table(core: &EngineCore, table: &TableEntry) -> EngineResult<()> {
    let name = &table.name;
    let refuse = |what: &str| Err(EngineError::BackupFailed(format!("table {name} {what}")));
    if table.retained.is_some() {
        return refuse("is unavailable or read-only: repair or drop it first");
    }
    let Some(slot) = slot_of(&core.tables, table.id) else {
        return Ok(());
    };
    let slot = slot.lock();
    let Some(open) = slot.as_ref().filter(|open| open.is_open()) else {
        return Ok(());
    };
    let Some(indexes) = open.readable_indexes() else {
        return refuse("is damaged: repair or drop it first");
    };
    for entry in &table.indexes {
        if let Some(index) = indexes.iter().find(|index| index.entry.file == entry.file) {
            let pin = index.tree.pin_checkpoint()?;
            core.files.backup.pin(entry.file, pin);
        }
    }
    Ok(())
}
