//! A number that changes when the cursors of a transaction must be opened again.

/// An even number, incremented by two whenever what the transaction sees
/// changes; plus one after a write of the transaction, because the cursors of
/// plain reads that were opened before it do not look for new entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ViewSerial(u64);

impl ViewSerial {
    /// Other writes are visible from now on.
    pub(super) fn change_view(&mut self) {
        self.0 = (self.0 | 1) + 1;
    }

    /// The transaction writes.
    #[inline]
    pub(crate) fn note_write(&mut self) {
        self.0 |= 1;
    }

    /// What the cursors of locking reads compare: they look for new entries at
    /// every step.
    #[inline]
    pub(crate) fn without_writes(self) -> Self {
        Self(self.0 & !1)
    }
}
