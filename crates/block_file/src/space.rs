//! The allocation state of every byte of the file, guarded by the mutex of the
//! file. Does no I/O.
//!
//! Every byte from [`BLOCKS_START`] to `end` is exactly one of
//! - live: the current root refers to it;
//! - reserved: allocated by a writer, written but unpublished, or a space map;
//! - pending: freed, but a pin or a checkpoint may still refer to it;
//! - free.
//!
//! All except the live bytes are `not_live`; a checkpoint records these as
//! free, because a crash ends all reservations and pins.
//!
//! Every publication and every capture increments the version. Space freed at
//! version `t` is needed by pins older than `t` and by checkpoints captured
//! before `t`.

use crate::extents::{Extent, ExtentSet};
use crate::free_space::FreeSpace;
use crate::layout::BLOCKS_START;
use std::collections::{BTreeMap, VecDeque};

/// Minimum hole for a large request. Smaller holes would fragment sequential writes, so a large
/// request uses them only if they waste too much space in total.
const LARGE_HOLE_BYTES: u64 = 256 * 1024;
/// Small holes may always waste this much space.
const SMALL_HOLES_BYTES: u64 = 4 * 1024 * 1024;
/// Space that small holes may waste, as a fraction of the file.
const SMALL_HOLES_FRACTION: u64 = 8;

#[derive(Debug)]
struct PendingFree {
    version: u64,
    extents: Vec<Extent>,
}

/// A freed range was not live: the tree refers to a block twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NotLive {
    pub offset: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Space {
    free: FreeSpace,
    not_live: ExtentSet,
    /// Space published since the last capture: no checkpoint refers to it.
    fresh: ExtentSet,
    /// One past the last byte in use.
    end: u64,
    version: u64,
    /// Version at which the last durable checkpoint was captured.
    durable_version: u64,
    pins: BTreeMap<u64, usize>,
    after_pins: VecDeque<PendingFree>,
    after_checkpoint: VecDeque<PendingFree>,
    pending_bytes: u64,
}

/// The state that a checkpoint records.
#[derive(Debug)]
pub(crate) struct Capture {
    pub version: u64,
    /// One past the last live byte.
    pub end: u64,
    /// Everything below `end` that is not live, by offset.
    pub free: Vec<Extent>,
}

impl Space {
    /// The state of a file after opening. Its last checkpoint records `free` as not live, and its
    /// space map is in `reserved`. All these extents end at or before `end`.
    pub fn opened(end: u64, free: &ExtentSet, reserved: &[Extent]) -> Self {
        let mut space = Self {
            not_live: free.clone(),
            end,
            ..Self::default()
        };
        for &extent in reserved {
            // The decoder has checked that the map does not list its own space as free.
            let added = space.not_live.insert(extent);
            debug_assert!(added.is_ok());
        }
        for extent in free.iter() {
            space.release(extent);
        }
        space
    }

    /// One past the last byte in use.
    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn free_bytes(&self) -> u64 {
        self.free.bytes()
    }

    pub fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    pub fn live_bytes(&self) -> u64 {
        self.end - BLOCKS_START - self.not_live.bytes()
    }

    /// Reserves at least `min` contiguous bytes, and up to `wanted` if a hole is large enough.
    /// Grows the file if no hole is suitable.
    pub fn allocate(&mut self, min: u64, wanted: u64) -> Extent {
        let wanted = wanted.max(min);
        let holes_max = SMALL_HOLES_BYTES.max(self.end / SMALL_HOLES_FRACTION);
        let hole = self.free.best_fit(wanted).or_else(|| {
            self.free.largest().filter(|hole| {
                hole.bytes >= min
                    && (hole.bytes >= LARGE_HOLE_BYTES || self.free.bytes() > holes_max)
            })
        });
        match hole {
            Some(hole) => {
                let taken = Extent {
                    offset: hole.offset,
                    bytes: hole.bytes.min(wanted),
                };
                let removed = self.free.remove(taken);
                assert!(removed, "a hole that was found is free");
                taken
            }
            None => self.grow(wanted),
        }
    }

    /// Reserves up to `wanted` bytes directly after `at`, if at least `min` are
    /// free there.
    pub fn extend(&mut self, at: u64, min: u64, wanted: u64) -> Option<Extent> {
        let wanted = wanted.max(min);
        if at == self.end {
            return Some(self.grow(wanted));
        }
        let hole = self.free.starting_at(at)?;
        let taken = Extent {
            offset: at,
            bytes: hole.bytes.min(wanted),
        };
        (taken.bytes >= min && self.free.remove(taken)).then_some(taken)
    }

    fn grow(&mut self, bytes: u64) -> Extent {
        let taken = Extent {
            offset: self.end,
            bytes,
        };
        let added = self.not_live.insert(taken);
        assert!(added.is_ok(), "no space is in use after the end");
        self.end = taken.end();
        taken
    }

    /// Frees reserved space that no checkpoint or pin refers to.
    pub fn release(&mut self, extent: Extent) {
        if extent.bytes == 0 {
            return;
        }
        let whole = self.free.insert(extent);
        assert!(whole.is_ok(), "space is released once");
        if let Ok(whole) = whole
            && whole.end() == self.end
        {
            let removed = self.free.remove(whole) && self.not_live.remove(whole).is_some();
            assert!(removed, "free space is not live");
            self.end = whole.offset;
        }
    }

    /// Makes `written` space live and `freed` space pending. `freed` must be coalesced.
    ///
    /// # Errors
    /// The first freed range that was not live; the others are freed.
    pub fn publish(&mut self, written: &[Extent], freed: &[Extent]) -> Result<(), NotLive> {
        self.version += 1;
        for &extent in written {
            let live = self.not_live.remove(extent).is_some();
            let new = self.fresh.insert(extent).is_ok();
            assert!(live && new, "written space was reserved");
        }
        let mut outcome = Ok(());
        let mut fresh = Vec::new();
        let mut captured = Vec::new();
        for &extent in freed {
            if extent.end() > self.end || self.not_live.insert(extent).is_err() {
                outcome = outcome.and(Err(NotLive {
                    offset: extent.offset,
                }));
                continue;
            }
            self.pending_bytes += extent.bytes;
            let mut rest = extent;
            for piece in self.fresh.take_overlaps(extent) {
                // The last piece is first, so the space after each piece was captured.
                captured.push(Extent::between(piece.end(), rest.end()));
                rest = Extent::between(rest.offset, piece.offset);
                fresh.push(piece);
            }
            captured.push(rest);
        }
        captured.retain(|extent| extent.bytes > 0);
        let version = self.version;
        for (queue, extents) in [
            (&mut self.after_pins, fresh),
            (&mut self.after_checkpoint, captured),
        ] {
            if !extents.is_empty() {
                queue.push_back(PendingFree { version, extents });
            }
        }
        self.reclaim();
        outcome
    }

    /// Retains all space that is freed later. Returns the version of the pin.
    pub fn pin(&mut self) -> u64 {
        *self.pins.entry(self.version).or_insert(0) += 1;
        self.version
    }

    /// Ends a pin.
    pub fn unpin(&mut self, version: u64) {
        let count = self.pins.get_mut(&version);
        assert!(count.is_some(), "a pin is released once");
        if let Some(count) = count {
            *count -= 1;
            if *count == 0 {
                self.pins.remove(&version);
                self.reclaim();
            }
        }
    }

    /// The extents that are not live, to size the space map before
    /// [`Space::capture`].
    pub fn not_live(&self) -> impl Iterator<Item = Extent> + '_ {
        self.not_live.iter()
    }

    /// Captures the state that a checkpoint records. `map` is the reserved space
    /// of the checkpoint's own space map.
    pub fn capture(&mut self, map: &[Extent]) -> Capture {
        self.version += 1;
        // From here on, a checkpoint may refer to all published space.
        self.fresh = ExtentSet::default();
        let mut map: Vec<Extent> = map.to_vec();
        map.sort_unstable();
        let mut free = Vec::new();
        let mut map = map.into_iter().peekable();
        for extent in self.not_live.iter() {
            let mut start = extent.offset;
            while let Some(hole) = map.next_if(|hole| hole.offset < extent.end()) {
                free.push(Extent::between(start, hole.offset));
                start = hole.end();
            }
            free.push(Extent::between(start, extent.end()));
        }
        free.retain(|extent| extent.bytes > 0);
        let mut end = self.end;
        if let Some(last) = free.pop_if(|last| last.end() == end) {
            end = last.offset;
        }
        Capture {
            version: self.version,
            end,
            free,
        }
    }

    /// Records that the checkpoint captured at `version` is durable. `old_map` is the space of the
    /// previous space map.
    pub fn made_durable(&mut self, version: u64, old_map: Vec<Extent>) {
        self.durable_version = self.durable_version.max(version);
        for extent in old_map {
            self.release(extent);
        }
        self.reclaim();
    }

    /// Retains the reserved `map` until the next durable checkpoint: a
    /// superblock that refers to it may be on disk.
    pub fn retain_in_doubt(&mut self, map: Vec<Extent>) {
        // Captures increment the version, so it is later than any durable one.
        self.pending_bytes += map.iter().map(|extent| extent.bytes).sum::<u64>();
        self.after_checkpoint.push_back(PendingFree {
            version: self.version,
            extents: map,
        });
    }

    fn reclaim(&mut self) {
        let pinned = self.pins.keys().next().copied().unwrap_or(u64::MAX);
        let durable = pinned.min(self.durable_version);
        let mut unneeded = pop_until(&mut self.after_pins, pinned);
        unneeded.append(&mut pop_until(&mut self.after_checkpoint, durable));
        for extent in unneeded {
            self.pending_bytes -= extent.bytes;
            self.release(extent);
        }
    }
}

/// Removes the batches up to `version` from the front of the queue.
fn pop_until(queue: &mut VecDeque<PendingFree>, version: u64) -> Vec<Extent> {
    let mut extents = Vec::new();
    while queue.front().is_some_and(|batch| batch.version <= version) {
        extents.extend(queue.pop_front().into_iter().flat_map(|b| b.extents));
    }
    extents
}

#[cfg(test)]
mod tests;
