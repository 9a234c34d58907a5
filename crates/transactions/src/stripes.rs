//! State in parts, of which each thread has one, so that threads that go their
//! own ways do not pass cache lines to each other.

use crate::sync::thread_number;

/// Parts of striped state.
const STRIPES: usize = 16;

/// A value on cache lines of its own; processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Alone<T>(pub(crate) T);

/// Names a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stripe(usize);

impl Stripe {
    /// The calling thread's.
    pub(crate) fn own() -> Self {
        Self(thread_number() % STRIPES)
    }
}

/// State in parts.
#[derive(Debug, Default)]
pub(crate) struct Striped<T>([Alone<T>; STRIPES]);

impl<T> Striped<T> {
    #[allow(
        clippy::indexing_slicing,
        reason = "a stripe's number is less than their count"
    )]
    pub(crate) fn get(&self, stripe: Stripe) -> &T {
        &self.0[stripe.0].0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|part| &part.0)
    }
}
