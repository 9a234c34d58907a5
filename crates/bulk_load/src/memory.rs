//! The memory of a sort.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use teak_base::bytes::Take;

/// Memory that the caller has taken from its budget for one sort. Dropping it returns the memory.
pub trait MemoryReservation: Send + Sync + Debug {
    /// Its size in bytes. Does not change.
    fn bytes(&self) -> usize;
}

/// Sum of the memory of sorted entries.
pub(crate) type HeldBytes = Arc<AtomicUsize>;

/// Sorted entries in memory. Dropping it subtracts its memory from the sum.
#[derive(Debug)]
pub(crate) struct Piece {
    bytes: Vec<u8>,
    counted: usize,
    held: HeldBytes,
}

impl Piece {
    pub(crate) fn new(bytes: Vec<u8>, held: &HeldBytes) -> Self {
        let counted = bytes.capacity();
        held.fetch_add(counted, Ordering::Relaxed);
        Self {
            bytes,
            counted,
            held: Arc::clone(held),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The key of the first entry.
    pub(crate) fn first_key(&self) -> &[u8] {
        Take::new(&self.bytes).bytes().unwrap_or_default()
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.held.fetch_sub(self.counted, Ordering::Relaxed);
    }
}
