//! What a caller does while entries are written.

/// What a caller does during the last step of a build.
pub trait LoadObserver {
    /// The error of its functions; it ends the build.
    type Error;

    /// Called before each entry.
    ///
    /// # Errors
    /// Any.
    fn check(&mut self) -> Result<(), Self::Error>;

    /// So many entries were written: one, or all that were written while they were added.
    fn written(&mut self, entries: u64);

    /// An entry has the same key as one that was written. If the result is `Ok`, it is left out.
    ///
    /// # Errors
    /// Any.
    fn duplicate(&mut self, key: &[u8], value: &[u8]) -> Result<(), Self::Error>;
}
