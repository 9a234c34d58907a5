//! What a locking scan knows of the ranges that it has marked.

/// Rows that a scan marks ahead at most.
const REACH_MAX: usize = 64;

/// The stretch of one index that a cursor has marked last.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    low: Vec<u8>,
    /// `None`: to the end of the index.
    high: Option<Vec<u8>>,
    /// How many rows the last extension reached ahead.
    reach: Option<usize>,
}

impl Marks {
    /// Whether the stretch holds `low <= key < high`.
    pub(crate) fn cover(&self, low: &[u8], high: Option<&[u8]>) -> bool {
        self.reach.is_some()
            && *self.low <= *low
            && match (&self.high, high) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(marked), Some(high)) => **marked >= *high,
            }
    }

    /// How many rows to mark ahead of the next: none at first, for a scan that
    /// stops early must not have locked what it never saw.
    pub(crate) fn next_reach(&self) -> usize {
        self.reach.map_or(0, |reach| (reach * 2 + 1).min(REACH_MAX))
    }

    /// Notes that `low <= key < high` is marked: the stretch grows, or another
    /// begins.
    pub(crate) fn add(&mut self, low: &[u8], high: Option<&[u8]>) {
        let touches = self.reach.is_some()
            && high.is_none_or(|high| *self.low <= *high)
            && self.high.as_deref().is_none_or(|end| low <= end);
        if !touches {
            self.low = low.to_vec();
            self.high = high.map(<[u8]>::to_vec);
            self.reach = Some(0);
            return;
        }
        if *low < *self.low {
            self.low = low.to_vec();
        }
        self.high = match (self.high.take(), high) {
            (Some(end), Some(high)) => Some(if *end < *high { high.to_vec() } else { end }),
            _ => None,
        };
        self.reach = Some(self.next_reach());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretch_grows_where_it_is_touched_and_moves_elsewhere() {
        let mut marks = Marks::default();
        assert!(!marks.cover(b"a", Some(b"b")));
        marks.add(b"c", Some(b"e"));
        assert!(marks.cover(b"c", Some(b"e")));
        assert!(!marks.cover(b"b", Some(b"e")));
        assert!(!marks.cover(b"c", None));
        marks.add(b"e", Some(b"g"));
        marks.add(b"b", Some(b"c"));
        assert!(marks.cover(b"b", Some(b"g")));
        marks.add(b"x", None);
        assert!(marks.cover(b"y", None));
        assert!(!marks.cover(b"b", Some(b"c")));
    }

    #[test]
    fn reach_doubles_while_a_scan_goes_on() {
        let mut marks = Marks::default();
        let mut reaches = Vec::new();
        for n in 0u8..9 {
            reaches.push(marks.next_reach());
            marks.add(&[n], Some(&[n + 1]));
        }
        assert_eq!(reaches, [0, 1, 3, 7, 15, 31, 63, 64, 64]);
    }
}
