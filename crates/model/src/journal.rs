//! The journal of commits and table changes, its acknowledged prefix, and what
//! a crash may leave of it.

use crate::Value;
use crate::contents::Contents;
use crate::model::{IndexSource, Model, Place, TableId};
use std::collections::BTreeMap;

/// One thing that happened for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A table came to be.
    Created {
        /// The table.
        table: TableId,
        /// Its name.
        name: String,
        /// How many indexes it has.
        indexes: usize,
    },
    /// A table went.
    Dropped {
        /// The table.
        table: TableId,
    },
    /// A table has another name.
    Renamed {
        /// The table.
        table: TableId,
        /// The new name.
        name: String,
    },
    /// A table was emptied.
    Truncated {
        /// The table.
        table: TableId,
    },
    /// A table has other indexes.
    Altered {
        /// The table.
        table: TableId,
        /// Its indexes from now on.
        indexes: Vec<IndexSource>,
    },
    /// A transaction committed; `None` is a deletion.
    Committed {
        /// What it left of each key that it wrote.
        writes: Writes,
    },
    /// A transaction promised to outlive a crash until it is ended.
    Prepared {
        /// Its name.
        name: String,
        /// What it left of each key that it wrote.
        writes: Writes,
    },
    /// A prepared transaction ended.
    Ended {
        /// Its name.
        name: String,
        /// Whether it committed.
        committed: bool,
    },
}

/// What a transaction left of each key; `None` is a deletion.
pub type Writes = BTreeMap<Place, Option<Value>>;

impl Model {
    /// How many events there are.
    #[must_use]
    pub fn events(&self) -> usize {
        self.journal.len()
    }

    /// The events from the given number on.
    #[must_use]
    pub fn events_from(&self, first: usize) -> &[Event] {
        self.journal.get(first..).unwrap_or_default()
    }

    /// How many events must survive a crash.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.acknowledged
    }

    /// Everything that happened so far must survive a crash.
    pub fn acknowledge(&mut self) {
        self.acknowledged = self.journal.len();
    }

    /// What is committed after the first `events` events.
    #[must_use]
    pub fn contents_after(&self, events: usize) -> Contents {
        let mut contents = Contents::default();
        for event in self.journal.iter().take(events) {
            contents.apply(event);
        }
        contents
    }

    /// What is committed now.
    #[must_use]
    pub fn contents(&self) -> Contents {
        self.contents_after(self.journal.len())
    }

    /// Takes the events from the given number on back, because they turned out
    /// not to have happened. Open transactions stay.
    ///
    /// # Panics
    /// When there are fewer events.
    pub fn take_back(&mut self, events: usize) {
        assert!(events <= self.journal.len(), "there are fewer events");
        let acknowledged = self.acknowledged.min(events);
        let open = std::mem::take(&mut self.transactions);
        let prepared = std::mem::take(&mut self.prepared);
        let tables = std::mem::take(&mut self.tables);
        let clock = self.clock;
        self.rebuild(events);
        // To the open transactions the indexes are as old as they were.
        self.clock = clock;
        for (id, table) in &mut self.tables {
            if let Some(before) = tables.get(id)
                && before.born.len() == table.born.len()
            {
                table.born.clone_from(&before.born);
            }
        }
        self.acknowledged = acknowledged;
        self.transactions = open;
        self.prepared = prepared;
    }

    /// The store after a crash that left the first `events` events: the other
    /// events never happened, and every open transaction is gone that was not
    /// prepared.
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

    /// Lets the first events happen anew.
    fn rebuild(&mut self, events: usize) {
        let kept: Vec<Event> = self.journal.drain(..).take(events).collect();
        let mut model = Model::new();
        // Ids that were given out are not given out again.
        model.next_table = self.next_table;
        model.next_transaction = self.next_transaction;
        for event in kept {
            model.happen(event);
        }
        model.restore_prepared();
        *self = model;
    }
}
