//! The allocation state of every byte of the file, guarded by the mutex of the
//! file. Does no I/O.
//!
//! Every byte from [`BLOCKS_START`] to `end` is exactly one of
//! - live: the current root refers to it;
//! - reserved: allocated by a writer, written but unpublished, or a space map;
//! - pending: freed, but a pin or a checkpoint may still refer to it;
//! - free.
//!
//! All except the live bytes are `not_live`; a checkpoint records these, except
//! its own space map, as free, because a crash ends all reservations and pins.
//!
//! Every publication and every capture increments the version. (A publication into a captured state
//! has the version of the capture.) Space that was published at version `b` and freed at version
//! `f` is needed by the pins and checkpoints of the versions from `b` to `f - 1`, and by no others.
//!
//! Allocation uses the lowest hole of a useful size, so that the end of the file
//! becomes free and can be truncated.

mod holders;
mod publications;

use crate::capture::Capture;
use crate::extents::{Extent, ExtentSet};
use crate::free_space::FreeSpace;
use crate::layout::BLOCKS_START;
use holders::{FreedSpace, Holders};
use publications::PublicationVersions;

/// Sizes of holes that a request tries, in this order, so that a long sequence of blocks is stored
/// in few pieces. Each is limited to the range from the request's minimum to its wanted bytes.
const PIECE_BYTES: [u64; 3] = [1024 * 1024, 512 * 1024, 128 * 1024];
/// Sizes that are tried next, if the free space exceeds both limits below.
const SMALL_PIECE_BYTES: [u64; 2] = [32 * 1024, 8 * 1024];
/// Free bytes up to which small holes are left unused in a file of any size.
const SMALL_HOLES_BYTES: u64 = 2 * 1024 * 1024;
/// Small holes are also left unused up to this fraction of the file: its length divided by this
/// number.
const SMALL_HOLES_FRACTION: u64 = 32;
/// Freed extents after which reclaiming pauses, so that the lock is held briefly.
const RECLAIM_BATCH: usize = 1000;

/// Error: a freed range was not live, so the tree is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NotLive {
    pub offset: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Space {
    free: FreeSpace,
    not_live: ExtentSet,
    /// The versions at which live space was published.
    published: PublicationVersions,
    /// Live space that no capture contains.
    fresh: ExtentSet,
    /// One past the last byte in use.
    end: u64,
    version: u64,
    /// Pins and checkpoints, with the freed space that they need.
    holders: Holders,
    /// Space maps of checkpoints that may be on disk, except that of the last durable checkpoint.
    maps_in_doubt: Vec<Extent>,
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
        space.holders.add_checkpoint(space.version);
        space
    }

    /// One past the last byte in use.
    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn free_bytes(&self) -> u64 {
        self.free.bytes()
    }

    /// Freed bytes that a pin needs.
    pub fn pinned_bytes(&self) -> u64 {
        self.holders.pinned_bytes()
    }

    /// Freed bytes that a pin or a checkpoint needs, and space maps of checkpoints that may be on
    /// disk, except that of the last durable one.
    pub fn pending_bytes(&self) -> u64 {
        let maps = self.maps_in_doubt.iter().map(|extent| extent.bytes);
        self.holders.pinned_bytes() + self.holders.checkpoint_bytes() + maps.sum::<u64>()
    }

    /// Bytes that are not live and not free: reserved or pending.
    pub fn unavailable_bytes(&self) -> u64 {
        self.not_live.bytes() - self.free.bytes()
    }

    /// The space that is free, and the space that is not live.
    pub fn extents(&self) -> (ExtentSet, ExtentSet) {
        (self.free.extents().clone(), self.not_live.clone())
    }

    pub fn live_bytes(&self) -> u64 {
        self.end - BLOCKS_START - self.not_live.bytes()
    }

    /// The extents that are not live, by offset.
    pub fn not_live(&self) -> impl Iterator<Item = Extent> + '_ {
        self.not_live.iter()
    }

    /// Reserves at least `min` contiguous bytes, and up to `wanted` if a hole is large enough.
    /// Grows the file if no hole is suitable.
    pub fn allocate(&mut self, min: u64, wanted: u64) -> Extent {
        self.reclaim();
        let wanted = wanted.max(min);
        match self.find_hole(min, wanted) {
            Some(hole) => self.take(hole, wanted),
            None => self.grow(wanted),
        }
    }

    /// Like [`Space::allocate`], but only before `limit`, in holes of any size; `None` if there is
    /// no such hole.
    pub fn allocate_below(&mut self, limit: u64, min: u64, wanted: u64) -> Option<Extent> {
        self.reclaim();
        let wanted = wanted.max(min);
        let sizes = [wanted].into_iter().chain(PIECE_BYTES);
        let sizes = sizes.chain(SMALL_PIECE_BYTES).chain([min]);
        let hole = sizes
            .filter(|bytes| (min..=wanted).contains(bytes))
            .find_map(|bytes| {
                let hole = self.free.lowest(bytes)?;
                (hole.offset + bytes <= limit).then_some(hole)
            })?;
        let wanted = wanted.min(limit - hole.offset);
        Some(self.take(hole, wanted))
    }

    /// Reserves up to `wanted` bytes directly after `at` and before `limit`, if at least `min` are
    /// free there. At the end of the file, grows the file unless there is a suitable hole.
    pub fn extend(&mut self, at: u64, min: u64, wanted: u64, limit: u64) -> Option<Extent> {
        self.reclaim();
        let wanted = wanted.max(min).min(limit.saturating_sub(at));
        if wanted < min {
            return None;
        }
        if at == self.end {
            let grows = self.find_hole(min, wanted).is_none();
            return grows.then(|| self.grow(wanted));
        }
        let hole = self.free.starting_at(at)?;
        (hole.bytes >= min).then(|| self.take(hole, wanted))
    }

    /// A hole for a request, of the first suitable size.
    fn find_hole(&self, min: u64, wanted: u64) -> Option<Extent> {
        let fitting = |sizes: &[u64]| {
            let mut sizes = sizes.iter().map(|bytes| (*bytes).min(wanted).max(min));
            sizes.find_map(|bytes| self.free.lowest(bytes))
        };
        fitting(&PIECE_BYTES).or_else(|| {
            let holes_max = SMALL_HOLES_BYTES.max(self.end / SMALL_HOLES_FRACTION);
            let wasted = self.free.bytes() > holes_max;
            wasted.then(|| fitting(&SMALL_PIECE_BYTES))?
        })
    }

    fn take(&mut self, hole: Extent, wanted: u64) -> Extent {
        let taken = Extent {
            offset: hole.offset,
            bytes: hole.bytes.min(wanted),
        };
        let removed = self.free.remove(taken);
        assert!(removed, "a hole that was found is free");
        taken
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

    /// Makes space free that is not live and that no checkpoint or pin refers to. Free space at the
    /// end is cut off.
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

    /// Makes `written` space live, and `freed` space pending, or free if no pin or checkpoint needs
    /// it. `freed` must be coalesced.
    ///
    /// # Errors
    /// The first freed range that was not live. The ranges that were live are freed.
    pub fn publish(&mut self, written: &[Extent], freed: &[Extent]) -> Result<(), NotLive> {
        self.version += 1;
        let oldest = self.holders.oldest();
        for &extent in written {
            let live = self.not_live.remove(extent).is_some();
            assert!(live, "written space was reserved");
            self.published.insert(extent, self.version, oldest);
        }
        for &extent in written {
            let new = self.fresh.insert(extent).is_ok();
            assert!(new, "written space was not live");
        }
        self.free(freed, self.version)
    }

    /// As [`Space::publish`], for blocks that belong to the state captured at
    /// `version`, and for freed ones that it does not refer to.
    ///
    /// # Errors
    /// As [`Space::publish`].
    pub fn publish_captured(
        &mut self,
        version: u64,
        written: &[Extent],
        freed: &[Extent],
    ) -> Result<(), NotLive> {
        let oldest = self.holders.oldest();
        for &extent in written {
            let live = self.not_live.remove(extent).is_some();
            assert!(live, "written space was reserved");
            self.published.insert(extent, version, oldest);
        }
        self.free(freed, version)
    }

    /// Makes live space, to which no version from `version` on refers, pending or free.
    fn free(&mut self, freed: &[Extent], version: u64) -> Result<(), NotLive> {
        let mut outcome = Ok(());
        let mut parts = Vec::new();
        for &extent in freed {
            if extent.end() > self.end || self.not_live.insert(extent).is_err() {
                outcome = outcome.and(Err(NotLive {
                    offset: extent.offset,
                }));
                continue;
            }
            self.fresh.remove_overlaps(extent);
            self.published.take(extent, &mut parts);
        }
        for (extent, published) in parts {
            let space = FreedSpace {
                extent,
                published,
                freed: version,
            };
            if !self.holders.add(space) {
                self.release(extent);
            }
        }
        self.reclaim();
        outcome
    }

    /// Retains all space that is live now. Returns the version of the pin.
    pub fn pin(&mut self) -> u64 {
        self.holders.pin(self.version);
        self.version
    }

    /// Retains the space of an older version, which a checkpoint that may be on disk retains now.
    pub fn pin_version(&mut self, version: u64) {
        self.holders.pin(version);
    }

    /// The number of the current version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The freed bytes that are retained for the pins of a version. Other pins and checkpoints may
    /// need them, too.
    pub fn held_bytes(&self, version: u64) -> u64 {
        self.holders.held_bytes(version)
    }

    /// Ends a pin. Later calls of [`Space::reclaim`] free the space that only this pin needed.
    pub fn unpin(&mut self, version: u64) {
        self.holders.unpin(version);
    }

    /// Captures the state that a checkpoint records. Shares the extents and copies
    /// only a pointer for each chunk of them.
    pub fn capture(&mut self) -> Capture {
        self.version += 1;
        // From here on, until a later checkpoint is durable, a superblock may
        // refer to this version.
        self.holders.add_checkpoint(self.version);
        let fresh = std::mem::take(&mut self.fresh);
        Capture::new(self.version, self.end, self.not_live.clone(), fresh)
    }

    /// Records that the checkpoint captured at `version` is durable. `old_map` is the space of the
    /// previous space map. What older checkpoints have retained is reclaimed by later calls.
    pub fn made_durable(&mut self, version: u64, old_map: Vec<Extent>) {
        self.holders.end_checkpoints_before(version);
        let maps = std::mem::take(&mut self.maps_in_doubt);
        for extent in maps.into_iter().chain(old_map) {
            self.release(extent);
        }
        self.published.begin_pass(self.holders.oldest());
    }

    /// Retains the `map` of a checkpoint whose superblock may be on disk, until a later checkpoint
    /// is durable. The captured blocks are retained too, because the checkpoint remains a holder.
    pub fn retain_in_doubt(&mut self, mut map: Vec<Extent>) {
        self.maps_in_doubt.append(&mut map);
    }

    /// Frees what ended pins and checkpoints have retained, and forgets versions of publications
    /// that are no longer needed: at most [`RECLAIM_BATCH`] extents of each. Returns whether
    /// there may be more, which later publications and allocations continue with.
    pub fn reclaim(&mut self) -> bool {
        let oldest = self.holders.oldest();
        let passes = self.published.continue_pass(oldest, RECLAIM_BATCH);
        let (unneeded, has_more) = self.holders.take_unneeded(RECLAIM_BATCH);
        for extent in unneeded {
            self.release(extent);
        }
        has_more || passes
    }
}

#[cfg(test)]
mod tests;
