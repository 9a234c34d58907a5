//! The versions of the file that are still needed, and the freed space that
//! they need.
//!
//! A *holder* is a pin of a reader, or a checkpoint that may be on disk. It
//! needs the space that was live in its version: published at or before it and
//! freed after it. Space that was published after a pin was taken is never
//! retained for that pin, however old it is.
//!
//! Freed space is in the list of one holder that needs it. When that holder ends, the space goes to
//! the list of another holder that needs it; if there is none, the space is free. Readers end pins,
//! so ending a pin must be cheap: its list is only set aside, and the next operation of a writer
//! distributes the space.

use crate::extents::Extent;
use std::collections::BTreeMap;

/// Space that was live from version `born` until before version `freed`.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreedSpace {
    pub extent: Extent,
    pub born: u64,
    pub freed: u64,
}

#[derive(Debug, Default)]
struct Holder {
    count: usize,
    held: Vec<FreedSpace>,
}

type ByVersion = BTreeMap<u64, Holder>;

#[derive(Debug, Default)]
pub(super) struct Holders {
    pins: ByVersion,
    checkpoints: ByVersion,
    /// The lists of pins that have ended.
    ended: Vec<Vec<FreedSpace>>,
    /// Bytes in the lists of pins, including those in `ended`.
    pinned_bytes: u64,
    /// Bytes that only checkpoints need.
    checkpoint_bytes: u64,
}

impl Holders {
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes
    }

    pub fn checkpoint_bytes(&self) -> u64 {
        self.checkpoint_bytes
    }

    /// The oldest version that is needed.
    pub fn oldest(&self) -> u64 {
        let first = |holders: &ByVersion| holders.keys().next().copied();
        let oldest = [first(&self.pins), first(&self.checkpoints)];
        oldest.into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    pub fn pin(&mut self, version: u64) {
        self.pins.entry(version).or_default().count += 1;
    }

    /// Ends a pin, in constant time except for finding it.
    pub fn unpin(&mut self, version: u64) {
        let ended = end_one(&mut self.pins, version);
        if !ended.is_empty() {
            self.ended.push(ended);
        }
    }

    pub fn add_checkpoint(&mut self, version: u64) {
        self.checkpoints.entry(version).or_default().count += 1;
    }

    /// Ends all checkpoints older than `version`, and returns the space that
    /// nothing else needs.
    pub fn end_checkpoints_before(&mut self, version: u64) -> Vec<Extent> {
        let newer = self.checkpoints.split_off(&version);
        let older = std::mem::replace(&mut self.checkpoints, newer);
        let mut unneeded = Vec::new();
        for holder in older.into_values() {
            self.checkpoint_bytes -= bytes_of(&holder.held);
            unneeded.append(&mut self.distribute(holder.held));
        }
        unneeded
    }

    /// The space of ended pins that nothing else needs.
    pub fn take_unneeded(&mut self) -> Vec<Extent> {
        let mut unneeded = Vec::new();
        for held in std::mem::take(&mut self.ended) {
            self.pinned_bytes -= bytes_of(&held);
            unneeded.append(&mut self.distribute(held));
        }
        unneeded
    }

    /// Adds freed space. Returns whether a holder needs it.
    pub fn add(&mut self, space: FreedSpace) -> bool {
        // Prefers a pin, so that the lists of checkpoints have only space that no pin needs. The
        // next checkpoint frees this space.
        let pin = first_in(&mut self.pins, space);
        let (holder, bytes) = match pin {
            Some(pin) => (Some(pin), &mut self.pinned_bytes),
            None => (
                first_in(&mut self.checkpoints, space),
                &mut self.checkpoint_bytes,
            ),
        };
        let Some(holder) = holder else {
            return false;
        };
        holder.held.push(space);
        *bytes += space.extent.bytes;
        true
    }

    fn distribute(&mut self, held: Vec<FreedSpace>) -> Vec<Extent> {
        held.into_iter()
            .filter(|space| !self.add(*space))
            .map(|space| space.extent)
            .collect()
    }
}

fn bytes_of(held: &[FreedSpace]) -> u64 {
    held.iter().map(|space| space.extent.bytes).sum()
}

/// The oldest holder that needs the space. Old pins are those of long reads, which often end after
/// newer pins, so the space rarely goes to another list.
fn first_in(holders: &mut ByVersion, space: FreedSpace) -> Option<&mut Holder> {
    if space.born >= space.freed {
        return None;
    }
    let (_, holder) = holders.range_mut(space.born..space.freed).next()?;
    Some(holder)
}

/// Ends one holder of a version. Returns its list if it was the last one.
fn end_one(holders: &mut ByVersion, version: u64) -> Vec<FreedSpace> {
    let holder = holders.get_mut(&version);
    assert!(holder.is_some(), "a holder ends once");
    let Some(holder) = holder else {
        return Vec::new();
    };
    holder.count -= 1;
    if holder.count > 0 {
        return Vec::new();
    }
    let ended = holders.remove(&version);
    ended.map(|holder| holder.held).unwrap_or_default()
}
