//! Write ids in log records: the ids in a record, and a reference to earlier records with more of
//! its ids.
//!
//! A Commit, Abort or Prepare record may have too many ids for one record. Then it contains the
//! first of them, and `MoreWriteIds` records before it contain the others. `MoreWriteIds` records
//! have no effect without that record.

use crate::field::{Field, VARINT_BYTES_MAX};
use std::fmt;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::write_id_ranges::{EncodedRanges, put_write_id_ranges};
use teak_base::{Lsn, WriteIdRange, WriteIdRanges};

/// Ascending write ids. Ids to be written borrow a slice of the caller; ids that
/// were read refer to their encoded bytes, which were checked once. So neither
/// direction allocates memory.
#[derive(Clone, Copy)]
pub struct WriteIds<'a>(Source<'a>);

#[derive(Clone, Copy)]
enum Source<'a> {
    Borrowed(&'a [WriteIdRange]),
    Encoded(EncodedRanges<'a>),
}

/// The ranges of a list in order.
#[derive(Clone)]
pub struct WriteIdsIter<'a>(Source<'a>);

impl<'a> WriteIds<'a> {
    /// The ranges in order. They ascend and are not adjacent.
    #[must_use]
    pub fn ranges(&self) -> WriteIdsIter<'a> {
        WriteIdsIter(self.0)
    }
}

impl<'a> From<&'a WriteIdRanges> for WriteIds<'a> {
    fn from(ids: &'a WriteIdRanges) -> Self {
        Self(Source::Borrowed(ids.ranges()))
    }
}

impl<'a> From<&'a [WriteIdRange]> for WriteIds<'a> {
    /// The ranges must ascend and not be adjacent.
    fn from(ranges: &'a [WriteIdRange]) -> Self {
        Self(Source::Borrowed(ranges))
    }
}

impl Iterator for WriteIdsIter<'_> {
    type Item = WriteIdRange;

    fn next(&mut self) -> Option<WriteIdRange> {
        match &mut self.0 {
            Source::Borrowed(ranges) => {
                let (first, rest) = ranges.split_first()?;
                *ranges = rest;
                Some(*first)
            }
            Source::Encoded(ranges) => ranges.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Source::Borrowed(ranges) => (ranges.len(), Some(ranges.len())),
            Source::Encoded(ranges) => ranges.size_hint(),
        }
    }
}

impl ExactSizeIterator for WriteIdsIter<'_> {}

impl PartialEq for WriteIds<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.ranges().eq(other.ranges())
    }
}

impl Eq for WriteIds<'_> {}

impl fmt::Debug for WriteIds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranges()).finish()
    }
}

impl<'a> Field<'a> for WriteIds<'a> {
    fn put(&self, out: &mut Vec<u8>) {
        match self.0 {
            Source::Borrowed(ranges) => put_write_id_ranges(out, ranges),
            Source::Encoded(ranges) => {
                let ranges: Vec<WriteIdRange> = ranges.collect();
                put_write_id_ranges(out, &ranges);
            }
        }
    }
    fn take(take: &mut Take<'a>) -> Result<Self, Malformed> {
        EncodedRanges::take(take).map(|ranges| Self(Source::Encoded(ranges)))
    }
    fn bytes_max(&self) -> usize {
        VARINT_BYTES_MAX + 2 * VARINT_BYTES_MAX * self.ranges().len()
    }
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[")?;
        let mut separator = "";
        for range in self.ranges() {
            write!(f, "{separator}{range}")?;
            separator = ", ";
        }
        write!(f, "]")
    }
}

/// The `MoreWriteIds` records that belong to a record. Their `owner` is the first id of that
/// record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdParts {
    /// Their number.
    pub count: u64,
    /// The position of the first; zero if there is none.
    pub first: Lsn,
}

impl<'a> Field<'a> for IdParts {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_varint(self.count);
        if self.count > 0 {
            out.put_varint(self.first.0);
        }
    }
    fn take(take: &mut Take<'a>) -> Result<Self, Malformed> {
        let count = take.varint()?;
        let first = if count > 0 { take.varint()? } else { 0 };
        Ok(Self {
            count,
            first: Lsn(first),
        })
    }
    fn bytes_max(&self) -> usize {
        2 * VARINT_BYTES_MAX
    }
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            0 => write!(f, "0"),
            count => write!(f, "{count} from {}", self.first),
        }
    }
}
