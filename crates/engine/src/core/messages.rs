//! Messages to the operator, for example in the server's error log.

use super::index::Index;
use crate::options::{Level, MessageSink};
use std::sync::atomic::Ordering;
use teak_base::StorageError;

/// Passes messages to the sink of the engine's options, if there is one.
#[derive(Clone)]
pub(crate) struct Messages(Option<MessageSink>);

impl Messages {
    pub(crate) fn new(sink: Option<MessageSink>) -> Self {
        Self(sink)
    }

    pub(crate) fn send(&self, level: Level, text: &str) {
        if let Some(sink) = &self.0 {
            sink(level, text);
        }
    }

    pub(crate) fn note(&self, text: &str) {
        self.send(Level::Note, text);
    }

    pub(crate) fn warning(&self, text: &str) {
        self.send(Level::Warning, text);
    }

    pub(crate) fn error(&self, text: &str) {
        self.send(Level::Error, text);
    }

    /// If the error reports damage, marks the index's table as damaged. Sends a
    /// message unless the table was marked before.
    pub(crate) fn report_damage(&self, index: &Index, error: &StorageError) {
        if error.is_corrupt() && !index.damaged.swap(true, Ordering::AcqRel) {
            self.error(&format!(
                "index {} of file {} is damaged: {error}",
                index.entry.label,
                index.entry.path.display()
            ));
        }
    }
}
