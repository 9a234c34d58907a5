//! The versions of the file that are still needed, and the freed space that
//! they need.
//!
//! A *holder* is a pin of a reader, or a checkpoint that may be on disk. It needs the space that
//! was live in its version: published at or before that version and freed after it. Space that was
//! published after a pin was taken is never retained for that pin, however old the pin is.
//!
//! Freed space is in the list of one holder that needs it. When that holder
//! ends, the space moves to the list of another holder that needs it; if there is
//! none, the space is free. Ending a holder only sets its list aside, because
//! readers end pins and should not wait, and because the lists of checkpoints are
//! long. Later operations of writers distribute the lists, a limited number of
//! extents at a time.

use crate::extents::Extent;
use std::collections::BTreeMap;

/// Freed space, with the versions at which it was published and freed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreedSpace {
    pub extent: Extent,
    pub published: u64,
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
    ended_pins: Vec<Vec<FreedSpace>>,
    /// The lists of checkpoints that have ended.
    ended_checkpoints: Vec<Vec<FreedSpace>>,
    /// Bytes in the lists of pins, including those that have ended.
    pinned_bytes: u64,
    /// Bytes in the lists of checkpoints, including those that have ended. No pin needs them.
    checkpoint_bytes: u64,
}

impl Holders {
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes
    }

    pub fn checkpoint_bytes(&self) -> u64 {
        self.checkpoint_bytes
    }

    /// The version of the oldest holder; `u64::MAX` if there is none.
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
            self.ended_pins.push(ended);
        }
    }

    pub fn add_checkpoint(&mut self, version: u64) {
        self.checkpoints.entry(version).or_default().count += 1;
    }

    /// Ends all checkpoints older than `version`.
    pub fn end_checkpoints_before(&mut self, version: u64) {
        let newer = self.checkpoints.split_off(&version);
        let older = std::mem::replace(&mut self.checkpoints, newer);
        let lists = older.into_values().map(|holder| holder.held);
        self.ended_checkpoints
            .extend(lists.filter(|held| !held.is_empty()));
    }

    /// Takes up to `max` extents from the lists of ended holders. Moves each to a
    /// holder that needs it, and returns those that no holder needs. Also returns
    /// whether there may be more.
    pub fn take_unneeded(&mut self, max: usize) -> (Vec<Extent>, bool) {
        let mut unneeded = Vec::new();
        for _ in 0..max {
            let space = if let Some(space) = pop_last(&mut self.ended_pins) {
                self.pinned_bytes -= space.extent.bytes;
                space
            } else if let Some(space) = pop_last(&mut self.ended_checkpoints) {
                self.checkpoint_bytes -= space.extent.bytes;
                space
            } else {
                return (unneeded, false);
            };
            if !self.add(space) {
                unneeded.push(space.extent);
            }
        }
        (unneeded, true)
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
}

/// Removes an element of the last list. No list is empty, neither before nor after.
fn pop_last(lists: &mut Vec<Vec<FreedSpace>>) -> Option<FreedSpace> {
    let last = lists.last_mut()?;
    let space = last.pop();
    if last.is_empty() {
        lists.pop();
    }
    space
}

/// The oldest holder that needs the space. Old pins are those of long reads, which often end after
/// newer pins, so the space is rarely moved to another list.
fn first_in(holders: &mut ByVersion, space: FreedSpace) -> Option<&mut Holder> {
    if space.published >= space.freed {
        return None;
    }
    let (_, holder) = holders.range_mut(space.published..space.freed).next()?;
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
