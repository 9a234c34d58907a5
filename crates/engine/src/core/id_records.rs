//! Log records with the write ids of a transaction, which may be too many for one
//! record.

use teak_base::{Lsn, StorageResult, WriteIdRanges};
use teak_write_ahead_log::{IdParts, Record, WriteIds};

/// Appends a record that contains `ids`. `append` appends one record and returns
/// its position. `record` makes the last record, without which the others have no
/// effect. At most `ranges_max` ranges of ids are in each record.
pub(crate) fn append_with_ids<'a>(
    ids: &'a WriteIdRanges,
    ranges_max: usize,
    append: impl Fn(&Record<'_>) -> StorageResult<Lsn>,
    record: impl FnOnce(IdParts, WriteIds<'a>) -> Record<'a>,
) -> StorageResult<Lsn> {
    let ranges = ids.ranges();
    let (own, more) = ranges.split_at(ranges.len().min(ranges_max));
    let mut parts = IdParts::default();
    for part in more.chunks(ranges_max.max(1)) {
        let at = append(&Record::MoreWriteIds {
            owner: ids.first().unwrap_or_default(),
            write_ids: part.into(),
        })?;
        if parts.count == 0 {
            parts.first = at;
        }
        parts.count += 1;
    }
    append(&record(parts, own.into()))
}
