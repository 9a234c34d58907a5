//! Directions, seeks, and the bounds within which a cursor returns rows.

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
}

impl Bounds {
    pub(super) fn set(&mut self, lower: Option<&[u8]>, upper: Option<&[u8]>) {
        copy_bound(&mut self.lower, lower);
        copy_bound(&mut self.upper, upper);
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

fn copy_bound(bound: &mut Option<Vec<u8>>, new: Option<&[u8]>) {
    match (bound.as_mut(), new) {
        (Some(bound), Some(new)) => {
            bound.clear();
            bound.extend_from_slice(new);
        }
        (_, new) => *bound = new.map(<[u8]>::to_vec),
    }
}
