//! Compares the allocation state with a model of the units in use.

use super::*;
use crate::extents::coalesce;
use std::collections::BTreeSet;
use teak_testing::Random;

const UNIT: u64 = crate::layout::BLOCK_UNIT_BYTES;

type Units = BTreeSet<u64>;

fn units(extents: &[Extent]) -> Units {
    extents
        .iter()
        .flat_map(|extent| (extent.offset / UNIT)..(extent.end() / UNIT))
        .collect()
}

fn in_units(bytes: u64) -> Extent {
    Extent {
        offset: 0,
        bytes: bytes * UNIT,
    }
}

/// A checkpoint that may be on disk: the units that it needs, and its map.
struct Captured {
    needs: Units,
    map: Vec<Extent>,
    version: u64,
}

struct Model {
    space: Space,
    live: Vec<Extent>,
    reserved: Vec<Extent>,
    pins: Vec<(u64, Units)>,
    durable: Captured,
    /// For each checkpoint that was captured after `durable`, and was cancelled or is in doubt: the
    /// units that it needs.
    doubtful: Vec<Units>,
    /// Units that `durable` or a later capture contained.
    captured: Units,
}

impl Model {
    fn new() -> Self {
        Self {
            space: Space::opened(BLOCKS_START, &ExtentSet::default(), &[]),
            live: Vec::new(),
            reserved: Vec::new(),
            pins: Vec::new(),
            durable: Captured {
                needs: Units::new(),
                map: Vec::new(),
                version: 0,
            },
            doubtful: Vec::new(),
            captured: Units::new(),
        }
    }

    fn needed(&self) -> Units {
        let mut needed = units(&self.live);
        needed.extend(units(&self.reserved));
        needed.extend(&self.durable.needs);
        let pinned = self.pins.iter().map(|(_, units)| units);
        for units in pinned.chain(&self.doubtful) {
            needed.extend(units);
        }
        needed
    }

    fn reserve(&mut self, taken: Extent) {
        let needed = self.needed();
        assert!(units(&[taken]).is_disjoint(&needed), "space is used twice");
        self.reserved.push(taken);
    }

    fn allocate(&mut self, random: &mut Random) {
        let min = in_units(1 + random.below(20)).bytes;
        let wanted = in_units(random.below(60)).bytes;
        let at = self.reserved.last().map(|last| last.end());
        let limit = match random.one_in(3) {
            true => BLOCKS_START + in_units(random.below(200)).bytes,
            false => u64::MAX,
        };
        let taken = match at.filter(|_| random.one_in(2)) {
            Some(at) => self.space.extend(at, min, wanted, limit),
            None if limit < u64::MAX => self.space.allocate_below(limit, min, wanted),
            None => Some(self.space.allocate(min, wanted)),
        };
        assert!(taken.is_none_or(|taken| taken.end() <= limit));
        if let Some(taken) = taken {
            assert!(taken.bytes >= min);
            assert!(taken.bytes <= wanted.max(min));
            self.reserve(taken);
        }
    }

    fn publish(&mut self, random: &mut Random) {
        let keep = |random: &mut Random| random.one_in(3);
        let (written, reserved): (Vec<_>, Vec<_>) =
            self.reserved.drain(..).partition(|_| !keep(random));
        self.reserved = reserved;
        let (freed, live): (Vec<_>, Vec<_>) = self.live.drain(..).partition(|_| keep(random));
        self.live = live;
        self.live.extend(&written);
        let freed = coalesce(freed).unwrap();
        assert_eq!(self.space.publish(&written, &freed), Ok(()));
    }

    fn checkpoint(&mut self, random: &mut Random) {
        // Blocks that the captured root does not refer to, freed afterwards.
        let replaced: Vec<Extent> = self.live.pop().into_iter().collect();
        let mut capture = self.space.capture();
        let version = capture.version;
        let mut needs = units(&self.live);
        self.doubtful.push(needs.clone());
        // Other operations happen between capture and superblock.
        for _ in 0..random.below(6) {
            match random.below(3) {
                0 => self.allocate(random),
                1 => self.publish(random),
                _ => self.unpin(random),
            }
        }
        let written = vec![self.space.allocate(UNIT, 2 * UNIT)];
        self.reserve(written[0]);
        self.reserved.pop();
        capture.publish(&written, &replaced);
        let outcome = self.space.publish_captured(version, &written, &replaced);
        assert_eq!(outcome, Ok(()));
        self.live.extend(&written);
        needs.extend(units(&written));
        let map = vec![self.space.allocate(UNIT, UNIT)];
        self.reserve(map[0]);
        self.reserved.pop();
        let (holes, end) = capture.holes(&map);
        let mut recorded = needs.clone();
        recorded.extend(units(&map));
        let all: Units = (BLOCKS_START / UNIT..end / UNIT).collect();
        assert_eq!(
            &all - &units(&holes),
            recorded,
            "a capture is what was live"
        );
        let new = units(&capture.new_extents(&map));
        assert!(new.is_subset(&recorded));
        let known: Units = &recorded - &new;
        assert!(
            known.is_subset(&self.captured),
            "a block is not listed as new"
        );
        self.captured.extend(&recorded);
        let last = self.doubtful.last_mut().unwrap();
        last.clone_from(&recorded);
        let captured = Captured {
            needs: recorded,
            map,
            version,
        };
        match random.below(4) {
            0 => {
                // A cancelled checkpoint: its map is freed. Its other blocks are retained until a
                // later checkpoint is durable.
                let last = self.doubtful.last_mut().unwrap();
                *last = &*last - &units(&captured.map);
                for extent in captured.map {
                    self.space.release(extent);
                }
            }
            1 => self.space.retain_in_doubt(captured.map),
            _ => {
                self.captured = captured.needs.clone();
                let old = std::mem::replace(&mut self.durable, captured);
                self.doubtful.clear();
                self.space.made_durable(self.durable.version, old.map);
            }
        }
    }

    fn pin(&mut self) {
        let version = self.space.pin();
        self.pins.push((version, units(&self.live)));
    }

    fn unpin(&mut self, random: &mut Random) {
        let index = usize::try_from(random.below(self.pins.len() as u64)).unwrap();
        if !self.pins.is_empty() {
            self.space.unpin(self.pins.swap_remove(index).0);
        }
    }

    /// Checks that exactly the units that nothing needs are free.
    fn check(&mut self) {
        assert!(!self.space.reclaim());
        let space = &self.space;
        let needed = self.needed();
        let free: Vec<Extent> = space.free.iter().collect();
        let end = space.end / UNIT;
        assert!(needed.iter().all(|&unit| unit < end));
        let all: Units = (BLOCKS_START / UNIT..end).collect();
        assert_eq!(units(&free), &all - &needed, "free is what nothing needs");
        assert!(free.iter().all(|extent| extent.end() < space.end));
        assert_eq!(space.live_bytes(), units(&self.live).len() as u64 * UNIT);

        let mut in_use = units(&self.live);
        in_use.extend(units(&self.reserved));
        in_use.extend(units(&self.durable.map));
        let pending = (&needed - &in_use).len() as u64 * UNIT;
        assert_eq!(space.pending_bytes(), pending);
        let mut pinned = Units::new();
        for (_, units) in &self.pins {
            pinned.extend(units);
        }
        let pinned = (&pinned - &in_use).len() as u64 * UNIT;
        assert_eq!(space.pinned_bytes(), pinned);
    }

    /// Ends all pins and reservations and makes a checkpoint durable. Then all space
    /// that is not live is free, except the space map.
    fn settle(&mut self) {
        while let Some((version, _)) = self.pins.pop() {
            self.space.unpin(version);
        }
        while let Some(extent) = self.reserved.pop() {
            self.space.release(extent);
        }
        let _map = self.space.allocate(UNIT, UNIT);
        let capture = self.space.capture();
        let old = std::mem::take(&mut self.durable.map);
        self.space.made_durable(capture.version, old);
        self.space.reclaim();
        let space = &self.space;
        assert_eq!(space.pending_bytes(), 0);
        assert_eq!(
            space.live_bytes() + space.free_bytes() + UNIT,
            space.end - BLOCKS_START,
            "space is lost"
        );
    }
}

#[test]
fn space_is_never_used_twice_nor_lost() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let mut model = Model::new();
        for _ in 0..random.below(60) {
            match random.below(10) {
                0..=2 => model.allocate(&mut random),
                3..=4 => model.publish(&mut random),
                5 => model.pin(),
                6 => model.unpin(&mut random),
                7 => {
                    if let Some(extent) = model.reserved.pop() {
                        model.space.release(extent);
                    }
                }
                _ => model.checkpoint(&mut random),
            }
            model.check();
        }
        model.settle();
    }
}

fn extent(offset: u64, units: u64) -> Extent {
    Extent {
        offset: BLOCKS_START + offset * UNIT,
        bytes: units * UNIT,
    }
}

#[test]
fn a_block_no_checkpoint_captured_returns_without_one() {
    let mut space = Space::opened(BLOCKS_START, &ExtentSet::default(), &[]);
    let one = space.allocate(UNIT, UNIT);
    space.publish(&[one], &[]).unwrap();
    let pin = space.pin();
    space.publish(&[], &[one]).unwrap();
    assert_eq!(space.pending_bytes(), UNIT);
    space.unpin(pin);
    space.reclaim();
    assert_eq!(space.pending_bytes(), 0);
    assert_eq!(space.end(), BLOCKS_START);
}

#[test]
fn a_pin_retains_nothing_that_was_published_after_it() {
    let mut space = Space::opened(BLOCKS_START, &ExtentSet::default(), &[]);
    let old = space.allocate(4 * UNIT, 0);
    space.publish(&[old], &[]).unwrap();
    let _pin = space.pin();
    let mut previous = old;
    for _ in 0..1000 {
        let next = space.allocate(4 * UNIT, 0);
        space.publish(&[next], &[previous]).unwrap();
        previous = next;
    }
    assert_eq!(space.pinned_bytes(), 4 * UNIT);
    assert!(space.end() <= BLOCKS_START + 16 * UNIT);
}

#[test]
fn a_pin_after_checkpoints_retains_nothing_that_was_published_after_it() {
    let mut space = Space::opened(BLOCKS_START, &ExtentSet::default(), &[]);
    let old = space.allocate(4 * UNIT, 0);
    space.publish(&[old], &[]).unwrap();
    let _pin = space.pin();
    let mut previous = old;
    for _ in 0..100 {
        let next = space.allocate(4 * UNIT, 0);
        space.publish(&[next], &[previous]).unwrap();
        let capture = space.capture();
        space.made_durable(capture.version, Vec::new());
        previous = next;
    }
    space.reclaim();
    assert_eq!(space.pending_bytes(), 4 * UNIT);
    assert!(space.end() <= BLOCKS_START + 16 * UNIT);
}

#[test]
fn a_captured_block_waits_for_the_next_checkpoint() {
    let mut space = Space::opened(BLOCKS_START, &ExtentSet::default(), &[]);
    let one = space.allocate(UNIT, UNIT);
    space.publish(&[one], &[]).unwrap();
    let first = space.capture();
    space.publish(&[], &[one]).unwrap();
    space.made_durable(first.version, Vec::new());
    assert_eq!(space.pending_bytes(), UNIT);
    let second = space.capture();
    assert_eq!(space.pending_bytes(), UNIT);
    space.made_durable(second.version, Vec::new());
    space.reclaim();
    assert_eq!(space.pending_bytes(), 0);
}

#[test]
fn freeing_space_that_is_not_live_is_reported() {
    let mut space = Space::opened(BLOCKS_START, &ExtentSet::default(), &[]);
    let one = space.allocate(4 * UNIT, 4 * UNIT);
    space.publish(&[one], &[]).unwrap();
    space.publish(&[], &[extent(1, 1)]).unwrap();
    let twice = space.publish(&[], &[extent(0, 2)]).unwrap_err();
    assert_eq!(twice.offset, BLOCKS_START);
    let beyond = space.publish(&[], &[extent(3, 2)]).unwrap_err();
    assert_eq!(beyond.offset, BLOCKS_START + 3 * UNIT);
    assert_eq!(space.live_bytes(), 3 * UNIT);
}

/// A file of `count` holes of `hole` bytes, each followed by a live range of the same length.
fn with_holes(count: u64, hole: u64) -> Space {
    let mut space = Space::opened(BLOCKS_START, &ExtentSet::default(), &[]);
    let all = space.allocate(2 * count * hole, 0);
    space.publish(&[all], &[]).unwrap();
    let freed: Vec<Extent> = (0..count)
        .map(|number| Extent {
            offset: BLOCKS_START + 2 * number * hole,
            bytes: hole,
        })
        .collect();
    space.publish(&[], &freed).unwrap();
    space
}

const SMALL_HOLE: u64 = 16 * 1024;

#[test]
fn a_long_request_does_not_use_small_holes() {
    let mut space = with_holes(4, SMALL_HOLE);
    let end = space.end();
    let long = space.allocate(4 * UNIT, 1024 * UNIT);
    assert_eq!((long.offset, long.bytes), (end, 1024 * UNIT));
    let short = space.allocate(4 * UNIT, 0);
    assert_eq!(short, extent(0, 4));
}

#[test]
fn many_small_holes_are_used_by_long_requests() {
    let mut space = with_holes(SMALL_HOLES_BYTES / SMALL_HOLE + 2, SMALL_HOLE);
    let end = space.end();
    let taken = space.allocate(UNIT, 1024 * 1024);
    assert_eq!((taken.offset, taken.bytes), (BLOCKS_START, SMALL_HOLE));
    assert_eq!(space.end(), end);
}

#[test]
fn the_lowest_hole_that_is_large_enough_is_used() {
    let mut space = with_holes(4, 256 * 1024);
    let first = space.allocate(UNIT, 128 * 1024);
    assert_eq!(first.offset, BLOCKS_START);
    let next = space.allocate(UNIT, 200 * 1024);
    assert_eq!(next.offset, BLOCKS_START + 512 * 1024);
    let rest = space.allocate(UNIT, 100 * 1024);
    assert_eq!(rest.offset, BLOCKS_START + 128 * 1024);
}

#[test]
fn a_writer_at_the_end_returns_to_the_holes() {
    let mut space = with_holes(4, 256 * 1024);
    let end = space.end();
    let grown = space.allocate(1 << 20, 0);
    assert_eq!(grown.offset, end);
    assert_eq!(space.extend(space.end(), UNIT, 1 << 20, u64::MAX), None);
    assert_eq!(space.allocate(UNIT, 1 << 20).offset, BLOCKS_START);
}

#[test]
fn nothing_is_allocated_after_a_limit() {
    let mut space = with_holes(4, 256 * 1024);
    let limit = BLOCKS_START + 100 * 1024;
    let taken = space.allocate_below(limit, 64 * 1024, 1 << 20).unwrap();
    assert_eq!((taken.offset, taken.end()), (BLOCKS_START, limit));
    assert_eq!(space.allocate_below(limit, UNIT, UNIT), None);
    assert_eq!(space.extend(limit, UNIT, UNIT, limit), None);
}

#[test]
fn a_checkpoint_forgets_many_publications_in_steps() {
    let mut space = Space::opened(BLOCKS_START, &ExtentSet::default(), &[]);
    for _ in 0..3 * RECLAIM_BATCH {
        let written = space.allocate(UNIT, 0);
        space.publish(&[written], &[]).unwrap();
    }
    let capture = space.capture();
    space.made_durable(capture.version, Vec::new());
    assert!(space.reclaim());
    assert!(space.reclaim());
    while space.reclaim() {}
    let freed = Extent::between(BLOCKS_START, space.end());
    let mut parts = Vec::new();
    space.published.take(freed, &mut parts);
    assert_eq!(parts, [(freed, 0)]);
}

#[test]
fn reclaiming_pauses_and_continues() {
    let mut space = Space::opened(BLOCKS_START, &ExtentSet::default(), &[]);
    let count = 3 * RECLAIM_BATCH as u64;
    let all = space.allocate(2 * count * UNIT, 0);
    space.publish(&[all], &[]).unwrap();
    let capture = space.capture();
    space.made_durable(capture.version, Vec::new());
    for number in 0..count {
        space.publish(&[], &[extent(2 * number, 1)]).unwrap();
    }
    let capture = space.capture();
    space.made_durable(capture.version, Vec::new());
    assert_eq!(space.pending_bytes(), count * UNIT);
    assert!(space.reclaim());
    assert!(space.pending_bytes() > UNIT * count / 2);
    while space.reclaim() {}
    assert_eq!(space.pending_bytes(), 0);
    assert_eq!(space.free_bytes(), count * UNIT);
}
