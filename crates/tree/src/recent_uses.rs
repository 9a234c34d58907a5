//! The blocks that a thread has used last. One look-up often uses a block several times: for an estimate, for a position,
//! for the row. The cache counts these uses as one. Otherwise it would retain each block that one look-up has needed for
//! as long as the blocks that many look-ups need.

use std::cell::RefCell;
use teak_base::FileId;

/// A block's file, and its offset there.
pub(crate) type Key = (FileId, u64);

/// More than the blocks of a look-up by a secondary key in two runs.
const RECENT: usize = 8;

/// One of so many uses of a block that stays among the last ones is counted, so that the cache also retains a block that is
/// used all the time.
const REPEATED_MAX: u32 = 64;

struct Recent {
    /// Blocks, and how often each was used again.
    blocks: [(Option<Key>, u32); RECENT],
    /// The place that the next block takes.
    next: usize,
}

thread_local! {
    static RECENT_USES: RefCell<Recent> = const { RefCell::new(Recent { blocks: [(None, 0); RECENT], next: 0 }) };
}

impl Recent {
    fn repeats(&mut self, key: Key) -> bool {
        let mut blocks = self.blocks.iter_mut();
        if let Some((_, repeated)) = blocks.find(|(recent, _)| *recent == Some(key)) {
            *repeated = (*repeated + 1) % REPEATED_MAX;
            return *repeated != 0;
        }
        if let Some(place) = self.blocks.get_mut(self.next) {
            *place = (Some(key), 0);
        }
        self.next = (self.next + 1) % RECENT;
        false
    }
}

/// Notes that the calling thread uses a block. Returns whether this repeats one of its last uses.
#[inline]
pub(crate) fn repeats_use(file: FileId, offset: u64) -> bool {
    RECENT_USES.with_borrow_mut(|recent| recent.repeats((file, offset)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs on a thread whose last uses are empty.
    fn on_new_thread(test: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            scope.spawn(test);
        });
    }

    #[test]
    fn a_use_is_repeated_until_enough_other_blocks_were_used() {
        on_new_thread(|| {
            let file = FileId(7);
            assert!(!repeats_use(file, 0));
            assert!(repeats_use(file, 0));
            assert!(!repeats_use(FileId(8), 0));
            for offset in 1..RECENT as u64 - 1 {
                assert!(!repeats_use(file, offset));
                assert!(repeats_use(file, 0));
            }
            assert!(!repeats_use(file, 100));
            assert!(!repeats_use(file, 0));
        });
    }

    #[test]
    fn a_block_that_is_always_used_is_counted_now_and_then() {
        on_new_thread(|| {
            let uses = (0..REPEATED_MAX * 10).filter(|_| !repeats_use(FileId(1), 5));
            assert_eq!(uses.count(), 10);
        });
    }
}
