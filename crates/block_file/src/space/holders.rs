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

/// Freed space, with the versions at which it was published and freed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreedSpace {
    pub extent: Extent,
    pub published: u64,
    pub freed: u64,
}

#[derive(Debug)]
struct Holder {
    version: u64,
    count: usize,
    held: Vec<FreedSpace>,
    /// The bytes in `held`.
    held_bytes: u64,
}

/// Holders by version. Most files have one or two, and only one for each running statement.
#[derive(Debug, Default)]
struct ByVersion(Vec<Holder>);

impl ByVersion {
    /// The position of the first holder of at least this version.
    fn position(&self, version: u64) -> usize {
        self.0.partition_point(|holder| holder.version < version)
    }

    fn oldest(&self) -> Option<u64> {
        self.0.first().map(|holder| holder.version)
    }

    fn add(&mut self, version: u64) {
        let position = self.position(version);
        match self.0.get_mut(position) {
            Some(holder) if holder.version == version => holder.count += 1,
            _ => {
                let held = Vec::new();
                let count = 1;
                let holder = Holder {
                    version,
                    count,
                    held,
                    held_bytes: 0,
                };
                self.0.insert(position, holder);
            }
        }
    }

    /// Ends one holder of a version. Returns its list if it was the last one.
    fn end_one(&mut self, version: u64) -> Vec<FreedSpace> {
        let position = self.position(version);
        let holder = self.0.get_mut(position);
        let holder = holder.filter(|holder| holder.version == version);
        assert!(holder.is_some(), "a holder ends once");
        let Some(holder) = holder else {
            return Vec::new();
        };
        holder.count -= 1;
        if holder.count > 0 {
            return Vec::new();
        }
        self.0.remove(position).held
    }

    /// The oldest holder that needs the space. Old pins are those of long reads, which often end
    /// after newer pins, so the space is rarely moved to another list.
    fn oldest_for(&mut self, space: FreedSpace) -> Option<&mut Holder> {
        let position = self.position(space.published);
        let holder = self.0.get_mut(position)?;
        (holder.version < space.freed).then_some(holder)
    }
}

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
        let oldest = [self.pins.oldest(), self.checkpoints.oldest()];
        oldest.into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    pub fn pin(&mut self, version: u64) {
        self.pins.add(version);
    }

    /// The bytes in the list of the pins of a version.
    pub fn held_bytes(&self, version: u64) -> u64 {
        let holder = self.pins.0.get(self.pins.position(version));
        let holder = holder.filter(|holder| holder.version == version);
        holder.map_or(0, |holder| holder.held_bytes)
    }

    /// Ends a pin. The time does not depend on the freed space that it needed.
    pub fn unpin(&mut self, version: u64) {
        let ended = self.pins.end_one(version);
        if !ended.is_empty() {
            self.ended_pins.push(ended);
        }
    }

    pub fn add_checkpoint(&mut self, version: u64) {
        self.checkpoints.add(version);
    }

    /// Ends all checkpoints older than `version`.
    pub fn end_checkpoints_before(&mut self, version: u64) {
        let older = ..self.checkpoints.position(version);
        let lists = self.checkpoints.0.drain(older).map(|holder| holder.held);
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
        let (holder, bytes) = match self.pins.oldest_for(space) {
            Some(pin) => (Some(pin), &mut self.pinned_bytes),
            None => (
                self.checkpoints.oldest_for(space),
                &mut self.checkpoint_bytes,
            ),
        };
        let Some(holder) = holder else {
            return false;
        };
        holder.held.push(space);
        holder.held_bytes += space.extent.bytes;
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
