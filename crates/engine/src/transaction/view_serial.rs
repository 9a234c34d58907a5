//! A number that changes when the tree cursors of a transaction must be opened again.

/// The serial is even at first. It increases to the next even number whenever the
/// transaction sees another state, for example through a new snapshot. The first
/// write after that makes it odd, because tree cursors of plain reads that were
/// opened before the write do not search for new entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ViewSerial(u64);

impl ViewSerial {
    /// Called when the transaction sees another state from now on.
    pub(super) fn change_view(&mut self) {
        self.0 = (self.0 | 1) + 1;
    }

    /// Called before each write of the transaction.
    #[inline]
    pub(crate) fn note_write(&mut self) {
        self.0 |= 1;
    }

    /// The value that cursors of locking reads compare: they search for new entries
    /// at every step, so a write does not matter to them.
    #[inline]
    pub(crate) fn without_writes(self) -> Self {
        Self(self.0 & !1)
    }
}
