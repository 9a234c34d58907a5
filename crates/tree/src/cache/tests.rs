//! Tests of the page cache: its bounds, its counts, and which blocks it retains.

use super::*;
use crate::block_memory::BlockCharge;

const BLOCK: usize = 16 * 1024;
const CAPACITY: u64 = 64 << 20;
const FILE: FileId = FileId(1);

fn block(cache: &PageCache, bytes: usize) -> Cached {
    let charge = BlockCharge::of_block(&cache.blocks_in_memory().of_file(FILE), bytes);
    Cached::Value(Arc::new(SeparateValue::new(vec![0; bytes], charge)))
}

/// Uses a block as a look-up does.
fn look_up(cache: &PageCache, offset: u64) {
    look_up_block(cache, offset, BLOCK);
}

fn look_up_block(cache: &PageCache, offset: u64, bytes: usize) {
    let load = || Ok(block(cache, bytes));
    cache
        .get_or_load(FILE, offset, Priority::Normal, load)
        .unwrap();
}

/// How many of the frequent blocks are found, after each was looked up several times among blocks that are looked up once.
fn hits_of_frequent(cache: &PageCache, frequent: u64, rounds: u64) -> u64 {
    let mut once = 1 << 40;
    let mut hits = 0;
    for round in 0..rounds {
        hits = 0;
        for offset in 0..frequent {
            hits += u64::from(cache.peek(FILE, offset).is_some());
            look_up(cache, offset);
            look_up(cache, once);
            once += 1;
        }
        assert!(cache.held_bytes() <= cache.capacity_bytes(), "{round}");
    }
    hits
}

#[test]
fn the_cache_holds_its_capacity_and_no_more() {
    let cache = PageCache::new(CAPACITY / 4);
    for capacity in [
        CAPACITY / 4,
        CAPACITY,
        CAPACITY / 8,
        2 * CAPACITY,
        CAPACITY / 2,
    ] {
        cache.set_capacity(capacity);
        assert_eq!(cache.capacity_bytes(), capacity);
        assert!(cache.held_bytes() <= capacity, "{capacity}");
        for offset in 0..3 * CAPACITY / BLOCK as u64 {
            look_up(&cache, offset);
        }
        // The parts of the cache get different numbers of blocks.
        let held = cache.held_bytes();
        assert!(
            held <= capacity && held >= capacity / 10 * 9,
            "{capacity} {held}"
        );
        let statistics = cache.statistics();
        assert_eq!(statistics.bytes, held);
        assert!(statistics.blocks * BLOCK as u64 <= held);
    }
}

#[test]
fn the_cache_learns_which_blocks_are_used_again_after_many_changes_of_the_capacity() {
    let frequent = CAPACITY / BLOCK as u64 / 8;
    let cache = PageCache::new(CAPACITY / 2);
    for change in 0..10_000 {
        cache.set_capacity(CAPACITY / 2 + change * 0x9E37_79B9 % (CAPACITY / 4));
    }
    cache.set_capacity(CAPACITY);
    // Blocks that are not used again fill the cache.
    for offset in 0..16 * frequent {
        look_up(&cache, (1 << 50) + offset);
    }
    let hits = hits_of_frequent(&cache, frequent, 8);
    assert!(hits > frequent / 10 * 9, "{hits} of {frequent}");
}

#[test]
fn the_uses_of_one_look_up_count_as_one() {
    let cache = PageCache::new(CAPACITY);
    let frequent = CAPACITY / BLOCK as u64 / 2;
    let before = hits_of_frequent(&cache, frequent, 8);
    // Each of many other blocks is used five times by one look-up.
    for offset in 0..4 * frequent {
        for _ in 0..5 {
            look_up(&cache, (1 << 50) + offset);
        }
    }
    let held = (0..frequent).filter(|offset| cache.peek(FILE, *offset).is_some());
    let held = held.count() as u64;
    assert!(held > before / 10 * 9, "{held} of {before}");
}

#[test]
fn a_block_larger_than_the_part_for_new_blocks_is_cached() {
    let cache = PageCache::new(CAPACITY);
    for offset in 0..2 * CAPACITY / BLOCK as u64 {
        look_up(&cache, offset);
    }
    let large = 1 << 20;
    for round in 0..4 {
        for offset in 0..8 {
            look_up_block(&cache, (1 << 40) + offset, large);
            assert!(
                cache.peek(FILE, (1 << 40) + offset).is_some(),
                "{round} {offset}"
            );
            assert!(cache.held_bytes() <= cache.capacity_bytes());
        }
    }
    let held = (0..8).filter(|offset| cache.peek(FILE, (1 << 40) + offset).is_some());
    assert!(held.count() >= 6);
    // Larger than a part of the cache.
    look_up_block(&cache, 1 << 41, 16 * large);
    assert!(cache.held_bytes() <= cache.capacity_bytes());
}

#[test]
fn a_cache_without_capacity_holds_nothing() {
    let cache = PageCache::new(0);
    for offset in 0..100 {
        look_up(&cache, offset % 3);
        assert_eq!(cache.held_bytes(), 0);
    }
}

#[test]
fn every_hit_is_counted() {
    let cache = PageCache::new(CAPACITY);
    for _ in 0..100 {
        look_up(&cache, 0);
        look_up(&cache, 1);
    }
    let statistics = cache.statistics();
    assert_eq!((statistics.hits, statistics.misses), (198, 2));
}
