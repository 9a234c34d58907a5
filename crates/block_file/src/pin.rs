//! Pins on versions of the file.

use crate::shared::SharedFile;
use std::sync::Arc;

/// Prevents the reuse of the space that was live when the pin was taken. Space
/// that is published later is not affected.
#[derive(Debug)]
pub struct Pin {
    shared: Arc<SharedFile>,
    version: u64,
}

impl Pin {
    pub(crate) fn new(shared: Arc<SharedFile>) -> Self {
        let version = shared.state().space.pin();
        Self { shared, version }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.shared.state().space.unpin(self.version);
    }
}
