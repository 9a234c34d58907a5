//! Directions, seeks, and the bounds within which a cursor returns rows.

use teak_base::bytes::{set_bytes, set_prefix_successor};
use teak_tree::key_order;

/// The target of a seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The first key at or after the given one.
    AtOrAfter,
    /// The first key after all keys that start with the given bytes.
    AfterPrefix,
    /// The last key before the given one.
    Before,
    /// The last key that starts with the given bytes or is less than them.
    AtOrBeforePrefix,
}

/// The direction of a move.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Motion {
    Forward,
    Backward,
}

/// `lower <= key < upper`; `None` is unbounded.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
    /// Whether these are the keys that start with `lower`, and filters have `lower`.
    is_prefix: bool,
}

impl Bounds {
    pub(super) fn set(&mut self, lower: Option<&[u8]>, upper: Option<&[u8]>) {
        set_bytes(&mut self.lower, lower);
        set_bytes(&mut self.upper, upper);
        self.is_prefix = false;
    }

    /// Sets the bounds of the keys that start with a prefix that filters have.
    pub(super) fn set_prefix(&mut self, prefix: &[u8]) {
        set_bytes(&mut self.lower, Some(prefix));
        set_prefix_successor(&mut self.upper, prefix);
        self.is_prefix = true;
    }

    pub(super) fn is_unbounded(&self) -> bool {
        self.lower.is_none() && self.upper.is_none()
    }

    /// The prefix, if filters have it.
    pub(super) fn prefix(&self) -> Option<&[u8]> {
        self.lower().filter(|_| self.is_prefix)
    }

    pub(super) fn lower(&self) -> Option<&[u8]> {
        self.lower.as_deref()
    }

    pub(super) fn upper(&self) -> Option<&[u8]> {
        self.upper.as_deref()
    }

    pub(super) fn contain(&self, key: &[u8]) -> bool {
        self.lower().is_none_or(|lower| key >= lower)
            && self.upper().is_none_or(|upper| key < upper)
    }

    /// Whether a key found by a move in this direction is within the bounds. Compares only the
    /// bound in the direction of the move.
    #[inline]
    pub(super) fn contain_ahead(&self, key: &[u8], motion: Motion) -> bool {
        match motion {
            Motion::Forward => self
                .upper()
                .is_none_or(|upper| key_order(key, upper).is_lt()),
            Motion::Backward => self
                .lower()
                .is_none_or(|lower| key_order(key, lower).is_ge()),
        }
    }

    /// The start of a forward move from `key`: the higher of `key` and the lower bound.
    pub(super) fn start_forward<'a>(&'a self, key: Option<&'a [u8]>) -> Option<&'a [u8]> {
        key.max(self.lower())
    }

    /// The start of a backward move from `key`: the lower of `key` and the upper bound.
    pub(super) fn start_backward<'a>(&'a self, key: Option<&'a [u8]>) -> Option<&'a [u8]> {
        match (key, self.upper()) {
            (Some(key), Some(upper)) => Some(key.min(upper)),
            (key, upper) => key.or(upper),
        }
    }
}
