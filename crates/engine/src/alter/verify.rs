//! The last part of step 3 of an alteration: the uniqueness of what concurrent writers have added.

use super::Alteration;
use crate::core::EngineCore;
use crate::core::index::Index;
use crate::core::sorts::checked;
use crate::core::unique_build::noted_id;
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use crate::transaction::{Duplicate, EngineTransaction};
use teak_base::{Operation, WriteStatus};
use teak_bulk_load::{BulkLoadError, Interrupted, Sorter};
use teak_disk::pay_for_io;
use teak_transactions::{ReadView, ViewKind, WaitError};
use teak_tree::Visit;

/// Keys between two checks for an interrupt.
const CHECK_KEYS: u64 = 256;

impl Alteration {
    /// Looks the keys that writers have added to unique indexes up among the entries of existing rows.
    /// `reader`: the transaction that has read these rows from its snapshot, which it still has, and which
    /// it took before others wrote. Called after [`Alteration::build`], if rows were written since the
    /// alteration began. Without a reader, only finds duplicates that writers have found; it is called so
    /// before the commit, when no transaction writes the table.
    ///
    /// # Errors
    /// `DuplicateKey`, after which [`Alteration::duplicate`] returns the entry. A writer that has added
    /// the key of an existing row and removed it again counts as a duplicate, too. `InvalidArgument`
    /// if the reader has no snapshot; `Wait(Interrupted)`, `Storage`.
    pub fn verify(&mut self, reader: Option<&mut EngineTransaction>) -> EngineResult<()> {
        self.require_building()?;
        let Some(reader) = reader else {
            return Ok(());
        };
        let (core, interrupted) = (&self.handle.core, &*self.interrupted);
        for (number, added) in (0u32..).zip(&mut self.added) {
            if let Some(noted) = added.noted.take()
                && let Some((key, value)) =
                    find_duplicate(core, &added.index, *noted, reader, interrupted)?
            {
                self.duplicate = Duplicate::found(IndexNumber(number), &key, &value);
                return Err(EngineError::DuplicateKey);
            }
        }
        self.require_building()
    }
}

/// The first live entry of an existing row with a noted key.
fn find_duplicate(
    core: &EngineCore,
    index: &Index,
    noted: Sorter,
    reader: &mut EngineTransaction,
    interrupted: &Interrupted,
) -> EngineResult<Option<(Vec<u8>, Vec<u8>)>> {
    if noted.entries() == 0 {
        return Ok(None);
    }
    let Some(snapshot) = reader.snapshot() else {
        let reason = "the reader of an alteration has no snapshot";
        return Err(EngineError::InvalidArgument(reason.into()));
    };
    let context = reader.context()?;
    let transactions = &core.transactions;
    let view = transactions.view(context.transaction, ViewKind::Snapshot(snapshot));
    let mut noted = checked(core, index, noted.finish(interrupted))?;
    let mut checks = 0u64;
    while let Some((key, bytes)) = noted.entry() {
        if checks.is_multiple_of(CHECK_KEYS) && interrupted() {
            return Err(WaitError::Interrupted.into());
        }
        checks += 1;
        pay_for_io();
        let id = noted_id(bytes).map_err(BulkLoadError::from);
        let id = checked(core, index, id)?;
        // The snapshot is older than all of these writes. It sees those that were rolled back and forgotten
        // since, because nothing had entries of them.
        let is_aborted = matches!(transactions.ids().status(id), WriteStatus::Aborted);
        if !is_aborted
            && !view.sees(id)
            && let Some(existing) = seen_entry(core, index, key, &view)?
        {
            return Ok(Some((key.to_vec(), existing)));
        }
        checked(core, index, noted.advance(interrupted))?;
    }
    Ok(None)
}

/// The value of the live entry that a view sees.
fn seen_entry(
    core: &EngineCore,
    index: &Index,
    key: &[u8],
    view: &ReadView,
) -> EngineResult<Option<Vec<u8>>> {
    let mut found = Ok(None);
    let visited = index.tree.visit(key, &mut |id, operation, stored| {
        if !view.sees(id) {
            return Visit::Continue;
        }
        if operation == Operation::Put {
            found = stored.to_vec().map(Some);
        }
        Visit::Stop
    });
    core.checked(index, visited.and(found))
}
