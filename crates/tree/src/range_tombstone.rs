//! A deletion of all keys in a range, as stored in memtables and runs. In a run it is not an entry,
//! and it is older than every entry of the run.

use teak_base::WriteId;

/// Deletes the keys from `start` (inclusive) to `end` (exclusive).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// The first key deleted.
    pub start: Vec<u8>,
    /// The first key that is not deleted; empty: there is no end.
    pub end: Vec<u8>,
    /// The write that deleted the range.
    pub write_id: WriteId,
}

impl RangeTombstone {
    /// Whether the range contains the key.
    #[must_use]
    pub fn covers(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && (self.end.is_empty() || key < self.end.as_slice())
    }

    /// The part from `lower` (inclusive) to `upper` (exclusive); `None`: no bound. Returns `None`
    /// if the part is empty.
    #[must_use]
    pub fn clip(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Option<RangeTombstone> {
        let start = match lower {
            Some(lower) if lower > self.start.as_slice() => lower,
            _ => &self.start,
        };
        let end = match upper {
            Some(upper) if self.end.is_empty() || upper < self.end.as_slice() => Some(upper),
            _ if self.end.is_empty() => None,
            _ => Some(self.end.as_slice()),
        };
        if end.is_some_and(|end| start >= end) {
            return None;
        }
        Some(RangeTombstone {
            start: start.to_vec(),
            end: end.unwrap_or_default().to_vec(),
            write_id: self.write_id,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tombstone(start: &str, end: &str) -> RangeTombstone {
        RangeTombstone {
            start: start.into(),
            end: end.into(),
            write_id: WriteId(7),
        }
    }

    #[test]
    fn an_empty_end_reaches_beyond_every_key() {
        assert!(tombstone("b", "").covers(b"\xff\xff"));
        assert!(!tombstone("b", "").covers(b"a"));
        assert!(!tombstone("b", "d").covers(b"d"));
        assert!(tombstone("b", "d").covers(b"b"));
    }

    #[test]
    fn clipping_keeps_the_common_part() {
        let whole = tombstone("b", "");
        assert_eq!(whole.clip(None, None), Some(whole.clone()));
        assert_eq!(
            whole.clip(Some(b"c"), Some(b"d")),
            Some(tombstone("c", "d"))
        );
        assert_eq!(
            tombstone("b", "d").clip(Some(b"a"), Some(b"z")),
            Some(tombstone("b", "d"))
        );
        assert_eq!(tombstone("b", "d").clip(Some(b"d"), None), None);
        assert_eq!(tombstone("b", "d").clip(None, Some(b"b")), None);
    }
}
