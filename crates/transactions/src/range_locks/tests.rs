//! Tests of the range locks and row ranges of one index.

use super::intervals::{INTERVAL_BYTES, interval_bytes};
use super::*;
use proptest::prelude::*;

const ME: TransactionId = TransactionId(1);
const OTHER: TransactionId = TransactionId(2);

fn blockers_of(
    locks: &RangeLocks,
    transaction: TransactionId,
) -> Vec<(TransactionId, BlockerKind)> {
    let blockers = locks.blockers(transaction);
    blockers.iter().map(|b| (b.transaction, b.kind)).collect()
}

#[test]
fn range_locks_block_others_and_not_their_owner() {
    let locks = RangeLocks::new(FileId(1));
    assert!(!locks.blocks(b"b", true, OTHER));
    assert!(locks.add(ME, RangeLockKind::Gap, b"b", Some(b"d")).0);
    assert!(!locks.add(ME, RangeLockKind::Gap, b"x", None).0);
    for (key, blocked) in [
        (&b"a"[..], false),
        (b"b", true),
        (b"c", true),
        (b"d", false),
    ] {
        assert_eq!(locks.blocks(key, true, OTHER), blocked, "{key:?}");
        assert!(!locks.blocks(key, true, ME));
    }
    assert!(locks.blocks(b"zzz", true, OTHER));
    locks.release(ME);
    assert!(!locks.has_range_locks());
    assert!(!locks.blocks(b"c", true, OTHER));
    assert_eq!(locks.memory_bytes(), 0);
}

#[test]
fn a_growing_scan_stays_one_range() {
    let locks = RangeLocks::new(FileId(1));
    for n in 0u32..1000 {
        let (low, high) = (n.to_be_bytes(), (n + 1).to_be_bytes());
        locks.add(ME, RangeLockKind::Gap, &low, Some(&high));
    }
    assert!(locks.memory_bytes() < 2 * INTERVAL_BYTES);
    assert!(locks.blocks(&999u32.to_be_bytes(), true, OTHER));
    assert!(!locks.blocks(&1000u32.to_be_bytes(), true, OTHER));
}

#[test]
fn blocked_writes_are_woken_when_their_range_lock_is_released() {
    let locks = RangeLocks::new(FileId(1));
    let waiter = Arc::new(TransactionHandle::new(OTHER));
    assert!(!locks.enqueue_write(b"c", true, &waiter));
    locks.add(ME, RangeLockKind::Gap, b"a", Some(b"m"));
    locks.add(TransactionId(3), RangeLockKind::Gap, b"x", None);
    assert!(locks.enqueue_write(b"c", true, &waiter));
    assert_eq!(blockers_of(&locks, OTHER), [(ME, BlockerKind::Gap)]);
    locks.release(TransactionId(3));
    assert!(!waiter.waker().is_notified());
    locks.release(ME);
    assert!(waiter.waker().is_notified());
    locks.dequeue_writes(OTHER);
    assert!(blockers_of(&locks, OTHER).is_empty());
}

fn rows(low: &[u8], high: &[u8], mode: LockMode) -> RowRange {
    RowRange {
        low: low.into(),
        high: high.into(),
        mode,
    }
}

#[test]
fn row_ranges_block_later_locks_of_others_by_their_mode() {
    let locks = RangeLocks::new(FileId(1));
    assert!(!locks.blocks_row(b"c", OTHER, LockMode::Exclusive));
    assert!(
        locks
            .widen_rows(ME, rows(b"b", b"f", LockMode::Shared))
            .is_some()
    );
    assert!(!locks.blocks_row(b"c", OTHER, LockMode::Shared));
    assert!(locks.blocks_row(b"c", OTHER, LockMode::Exclusive));
    assert!(!locks.blocks_row(b"f", OTHER, LockMode::Exclusive));
    assert!(!locks.blocks_row(b"c", ME, LockMode::Exclusive));
    // Shared row ranges may overlap. Then neither can become exclusive.
    assert!(
        locks
            .widen_rows(OTHER, rows(b"a", b"c", LockMode::Shared))
            .is_some()
    );
    assert!(
        locks
            .widen_rows(ME, rows(b"d", b"h", LockMode::Exclusive))
            .is_none()
    );
    let (_, blocked_locks) = locks.release_rows(OTHER);
    assert!(blocked_locks.is_empty());
    let (union, resized) = locks
        .widen_rows(ME, rows(b"d", b"h", LockMode::Exclusive))
        .unwrap();
    assert_eq!((&*union.low, &*union.high), (&b"b"[..], &b"h"[..]));
    assert_eq!(resized.after, locks.memory_bytes() as u64);
    let waiting = LockId::new(FileId(1), b"g");
    assert!(locks.blocks_queued(b"g", OTHER, LockMode::Shared, waiting));
    assert!(locks.blocks_queued(b"g", OTHER, LockMode::Shared, waiting));
    assert_eq!(locks.release_rows(ME).1, [waiting]);
    assert_eq!(locks.memory_bytes(), 0);
}

#[test]
fn write_range_locks_block_updates_too() {
    let locks = RangeLocks::new(FileId(1));
    locks.add(ME, RangeLockKind::Gap, b"a", Some(b"c"));
    locks.add(ME, RangeLockKind::Write, b"c", Some(b"e"));
    for (key, changes, inserts) in [
        (&b"b"[..], false, true),
        (b"c", true, true),
        (b"e", false, false),
    ] {
        assert_eq!(locks.blocks(key, false, OTHER), changes, "{key:?}");
        assert_eq!(locks.blocks(key, true, OTHER), inserts, "{key:?}");
        assert!(!locks.blocks(key, false, ME));
    }
    let waiter = Arc::new(TransactionHandle::new(OTHER));
    assert!(!locks.enqueue_write(b"b", false, &waiter));
    assert!(locks.enqueue_write(b"d", false, &waiter));
    assert_eq!(blockers_of(&locks, OTHER), [(ME, BlockerKind::WriteRange)]);
    // The owner of an exclusive row range writes in it without checking range locks.
    let exclusive = |low: &[u8], high: &[u8]| rows(low, high, LockMode::Exclusive);
    assert!(locks.widen_rows(OTHER, exclusive(b"b", b"d")).is_none());
    assert!(locks.widen_rows(OTHER, exclusive(b"d", b"x")).is_none());
    assert!(
        locks
            .widen_rows(OTHER, rows(b"b", b"d", LockMode::Shared))
            .is_some()
    );
    locks.release_rows(OTHER);
    assert!(locks.widen_rows(OTHER, exclusive(b"a", b"c")).is_some());
    locks.release_rows(OTHER);
    locks.release(ME);
    assert!(waiter.waker().is_notified());
    assert!(!locks.blocks(b"d", false, OTHER));
    assert_eq!(locks.memory_bytes(), 0);
}

#[test]
fn merged_range_locks_are_one_interval_over_all() {
    let locks = RangeLocks::new(FileId(1));
    locks.add(ME, RangeLockKind::Gap, b"b", Some(b"c"));
    assert_eq!(locks.merge(ME), None);
    locks.add(ME, RangeLockKind::Gap, b"m", Some(b"o"));
    let resized = locks.merge(ME).unwrap();
    assert!(resized.after < resized.before);
    assert!(locks.blocks(b"f", true, OTHER) && locks.blocks(b"n", true, OTHER));
    assert!(!locks.blocks(b"o", true, OTHER) && !locks.blocks(b"a", true, OTHER));
    assert_eq!(locks.release(ME), resized.after);
}

proptest! {
    #[test]
    fn range_locks_are_the_union_of_the_intervals_added(
        added in prop::collection::vec((0u8..60, prop::option::of(0u8..60)), 1..30),
    ) {
        let locks = RangeLocks::new(FileId(1));
        let mut covered = [false; 64];
        for (low, high) in added {
            if high.is_some_and(|high| high <= low) {
                continue;
            }
            locks.add(ME, RangeLockKind::Gap, &[low], high.as_ref().map(std::slice::from_ref));
            for key in low..high.unwrap_or(64) {
                covered[usize::from(key)] = true;
            }
        }
        let bytes: usize = locks
            .list()
            .iter()
            .map(|lock| match &lock.extent {
                LockExtent::Range { low, high, .. } => interval_bytes(low, high.as_deref()),
                _ => 0,
            })
            .sum();
        prop_assert_eq!(locks.memory_bytes(), bytes);
        for (key, covered) in covered.iter().enumerate() {
            prop_assert_eq!(locks.blocks(&[u8::try_from(key).unwrap()], true, OTHER), *covered);
        }
    }
}
