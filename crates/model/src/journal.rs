//! The journal of events: its acknowledged prefix, and the state of the store
//! after a crash.

use crate::contents::Contents;
use crate::events::Event;
use crate::store::Model;

impl Model {
    /// The number of events.
    #[must_use]
    pub fn events(&self) -> usize {
        self.journal.len()
    }

    /// The events from the given number on.
    #[must_use]
    pub fn events_from(&self, first: usize) -> &[Event] {
        self.journal.get(first..).unwrap_or_default()
    }

    /// The number of events that must survive a crash.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.acknowledged
    }

    /// Records that all events so far must survive a crash.
    pub fn acknowledge(&mut self) {
        self.acknowledged = self.journal.len();
    }

    /// The committed contents after the first `events` events.
    #[must_use]
    pub fn contents_after(&self, events: usize) -> Contents {
        let mut contents = Contents::default();
        for event in self.journal.iter().take(events) {
            contents.apply(event);
        }
        contents
    }

    /// The committed contents now.
    #[must_use]
    pub fn contents(&self) -> Contents {
        self.contents_after(self.journal.len())
    }

    /// Removes the events from the given number on, because they did not happen in the engine. Open
    /// transactions remain open.
    ///
    /// # Panics
    /// When there are fewer events.
    pub fn revoke_events(&mut self, events: usize) {
        assert!(events <= self.journal.len(), "there are fewer events");
        let acknowledged = self.acknowledged.min(events);
        let open = std::mem::take(&mut self.transactions);
        let prepared = std::mem::take(&mut self.prepared);
        let clock = self.clock;
        self.rebuild(events);
        self.clock = clock;
        self.acknowledged = acknowledged;
        self.transactions = open;
        self.prepared = prepared;
    }

    /// Simulates a crash that left the first `events` events: the other events
    /// never happened, and every open transaction ends unless it is prepared.
    ///
    /// # Panics
    /// When an acknowledged event would be lost.
    pub fn recover(&mut self, events: usize) {
        assert!(
            (self.acknowledged..=self.journal.len()).contains(&events),
            "a crash cannot leave {events} events of {}, {} of them acknowledged",
            self.journal.len(),
            self.acknowledged
        );
        self.rebuild(events);
        self.acknowledge();
    }

    /// Rebuilds the store from the first events of the journal. They happen at the same times as
    /// before, because snapshots are compared with the times at which indexes were created.
    fn rebuild(&mut self, events: usize) {
        let clocks = std::mem::take(&mut self.clocks);
        let kept: Vec<Event> = self.journal.drain(..).take(events).collect();
        let mut model = Model::new();
        // Ids must not be used twice.
        model.next_table = self.next_table;
        model.next_transaction = self.next_transaction;
        for (event, clock) in kept.into_iter().zip(clocks) {
            model.record_at(event, clock);
        }
        model.restore_prepared();
        *self = model;
    }
}
