//! The separate values that an installation frees.
//!
//! Invariants:
//! 1. Every entry of a version is in exactly one run, inside the range of exactly one reference to
//!    that run. Parts of a run outside all references are dead: no later version exposes them.
//! 2. A separate value belongs to exactly one entry: the writer of the value wrote one reference,
//!    and a merge that consumes the entry copies the reference at most once.
//!
//! So an installation knows, without counting references, which values lose their entry: those of
//! the entries that its job consumed and did not copy. That includes entries that the merge did not
//! read, because their run was dropped as a whole. These values are freed together with the
//! consumed runs. Like the blocks of the runs, they are retained while a pin or a checkpoint needs
//! them. If the job fails, or its result is discarded, nothing is freed.

use crate::node::RunRef;
use std::collections::HashSet;
use teak_base::{StorageError, StorageResult};
use teak_block_file::{BlockAddress, BlockFile};

/// The blocks of the values whose entries a job has consumed and not copied. `released` are the
/// consumed references to runs, and `copied` the offsets of the copied values.
///
/// # Errors
/// Errors of reading blocks of the consumed runs; `Corrupt` when the job has copied a reference that
/// it did not consume.
pub(super) fn unreferenced_values<'a>(
    file: &BlockFile,
    released: impl Iterator<Item = &'a RunRef>,
    copied: &HashSet<u64>,
) -> StorageResult<Vec<BlockAddress>> {
    let mut consumed = Vec::new();
    for run in released {
        let clip = run.clip.as_deref();
        let lower = clip.map_or(&[][..], |clip| &clip.lower);
        let upper = clip.and_then(|clip| clip.upper.as_deref());
        run.handle
            .run
            .separate_values(lower, upper, &mut consumed)?;
    }
    let mut values = Vec::new();
    let mut found = 0;
    for reference in consumed {
        if copied.contains(&reference.address.offset) {
            found += 1;
        } else {
            values.push(reference.address);
        }
    }
    if found < copied.len() {
        let reason = "a merge has copied a value that none of its entries refers to";
        return Err(StorageError::corrupt(file.path(), 0, reason));
    }
    Ok(values)
}
