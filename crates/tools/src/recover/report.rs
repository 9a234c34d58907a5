//! What a recovery has read and lost.

use crate::cell::hex;
use crate::sizes::grouped;
use serde::Serialize;
use std::path::Path;
use teak_tree::{LostKind, LostPart};

/// Lost parts and rows that are listed one by one on standard error.
const LISTED_MAX: usize = 50;

#[derive(Serialize)]
pub(super) struct Report {
    file: String,
    /// Rows written.
    pub(super) rows: u64,
    /// Of these, rows of which a newer version or the delete may be lost.
    pub(super) doubtful_rows: u64,
    /// Of these, rows of pages whose nodes are lost.
    pub(super) rows_of_lost_nodes: u64,
    /// Rows that do not match the definition of the table.
    undecodable_rows: u64,
    /// Entries of the lost parts, as far as their number is known.
    lost_entries: u64,
    lost: Vec<Lost>,
    #[serde(skip)]
    undecodable_shown: Vec<String>,
}

/// A part of the file that cannot be read.
#[derive(Serialize)]
struct Lost {
    kind: &'static str,
    /// The first key of the range, in hexadecimal digits; empty: before the first key.
    from_key: String,
    /// The end of the range; `None`: after the last key.
    to_key: Option<String>,
    /// The keys as values of columns, if they can be decoded.
    from: String,
    to: Option<String>,
    entries: Option<u64>,
    /// Whether older versions of the rows may have been written instead.
    hides_older: bool,
    cause: String,
}

fn name(kind: LostKind) -> &'static str {
    match kind {
        LostKind::Value => "a large value",
        LostKind::Page => "a page",
        LostKind::Pages => "the pages of an index block",
        LostKind::Subtree => "a node and everything below it",
        LostKind::Checkpoint => "a newer superblock",
    }
}

impl Report {
    pub(super) fn new(file: &Path) -> Self {
        Self {
            file: file.display().to_string(),
            rows: 0,
            doubtful_rows: 0,
            rows_of_lost_nodes: 0,
            undecodable_rows: 0,
            lost_entries: 0,
            lost: Vec::new(),
            undecodable_shown: Vec::new(),
        }
    }

    pub(super) fn undecodable(&mut self, key: &[u8], reason: &str) {
        self.undecodable_rows += 1;
        if self.undecodable_shown.len() < LISTED_MAX {
            let line = format!("the row with the key 0x{} is left out: {reason}", hex(key));
            self.undecodable_shown.push(line);
        }
    }

    pub(super) fn lost(&mut self, part: &LostPart, text: &dyn Fn(&[u8]) -> String) {
        self.lost_entries += part.entries.unwrap_or(0);
        self.lost.push(Lost {
            kind: name(part.kind),
            from_key: hex(&part.lower),
            to_key: part.upper.as_deref().map(hex),
            from: match part.lower.is_empty() {
                true => String::new(),
                false => text(&part.lower),
            },
            to: part.upper.as_deref().map(text),
            entries: part.entries,
            hides_older: part.hides_older,
            cause: part.cause.to_string(),
        });
    }

    pub(super) fn has_losses(&self) -> bool {
        !self.lost.is_empty() || self.undecodable_rows > 0
    }

    pub(super) fn print(&self) {
        for line in &self.undecodable_shown {
            eprintln!("teak: {line}");
        }
        for part in self.lost.iter().take(LISTED_MAX) {
            eprintln!("teak: lost: {}", part.text());
        }
        if let Some(more) = self
            .lost
            .len()
            .checked_sub(LISTED_MAX)
            .filter(|more| *more > 0)
        {
            eprintln!("teak: lost: {} more parts", grouped(more as u64));
        }
        let parts = match self.lost.len() {
            0 => "nothing lost".to_owned(),
            1 => "1 part lost".to_owned(),
            parts => format!("{} parts lost", grouped(parts as u64)),
        };
        let entries = match self.lost_entries {
            0 => String::new(),
            entries => format!(", with at least {} entries", grouped(entries)),
        };
        if self.rows_of_lost_nodes > 0 {
            let rows = grouped(self.rows_of_lost_nodes);
            eprintln!(
                "teak: {rows} rows are of pages whose nodes are lost; some may be older, or were deleted"
            );
        }
        eprintln!(
            "teak: {} rows read, {} of them doubtful, {} left out; {parts}{entries}",
            grouped(self.rows),
            grouped(self.doubtful_rows),
            grouped(self.undecodable_rows),
        );
    }
}

impl Lost {
    fn text(&self) -> String {
        let entries = match self.entries {
            Some(1) => " with 1 entry".to_owned(),
            Some(entries) => format!(" with {} entries", grouped(entries)),
            None => String::new(),
        };
        let keys = match (self.from.is_empty(), &self.to) {
            (true, None) => "of any value".to_owned(),
            (true, Some(to)) => format!("before {to}"),
            (false, None) => format!("from {}", self.from),
            (false, Some(to)) => format!("from {} to {to}", self.from),
        };
        format!("{}{entries}, keys {keys}: {}", self.kind, self.cause)
    }
}
