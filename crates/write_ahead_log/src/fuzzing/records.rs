//! Single records and headers.

use crate::WriteOperation;
use crate::field::Rest;
use crate::format::{
    BATCH_HEADER_BYTES, BatchHeader, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind,
};
use crate::id_list::IdParts;
use crate::record::Record;
use teak_base::bytes::{Put, Take};
use teak_base::checksum::checksum;
use teak_base::limits::BLOCK_RAW_BYTES_MAX;
use teak_base::{Codec, FileId, Lsn, Operation, WriteId, WriteIdRanges};

/// Decodes a sequence of records. Encoding and decoding a record again must give the same record.
pub fn records(bytes: &[u8]) {
    let mut take = Take::new(bytes);
    while let Ok(record) = Record::decode(&mut take) {
        let mut encoded = Vec::new();
        record.encode(&mut encoded);
        assert!(encoded.len() <= record.bytes_max());
        let again = Record::decode(&mut Take::new(&encoded));
        assert_eq!(again, Ok(record));
        assert!(record.to_string().starts_with(record.name()));
    }
}

/// Calls `visit` with a record of every kind.
pub fn example_records(visit: &mut dyn FnMut(&Record<'_>)) {
    let operation = |file, operation, key, value| WriteOperation {
        file: FileId(file),
        operation,
        key,
        value,
    };
    let operations = [
        operation(1, Operation::Put, b"key", b"a value"),
        operation(2, Operation::Delete, b"old", b""),
        operation(2, Operation::Put, b"new", b"value"),
    ];
    let ids: WriteIdRanges = [5, 7, 8].into_iter().map(WriteId).collect();
    let parts = IdParts {
        count: 1,
        first: Lsn(700),
    };
    let records = [
        Record::Write {
            write_id: WriteId(5),
            operations: (&operations).into(),
        },
        Record::DeleteRange {
            file: FileId(1),
            write_id: WriteId(7),
            start: b"a",
            end: b"z",
        },
        Record::Commit {
            transaction: 9,
            parts,
            write_ids: (&ids).into(),
        },
        Record::Abort {
            parts: IdParts::default(),
            write_ids: (&ids).into(),
        },
        Record::Prepare {
            transaction: 9,
            xid: b"xid",
            parts,
            write_ids: (&ids).into(),
        },
        Record::TableCreated { table: b"table" },
        Record::TableDropped { table_id: 3 },
        Record::TableRenamed {
            table_id: 3,
            name: b"name",
            paths: b"paths",
        },
        Record::Counter {
            table_id: 3,
            counter: 1,
            value: 300,
        },
        Record::IndexesChanged { bytes: b"indexes" },
        Record::MoreWriteIds {
            owner: WriteId(5),
            write_ids: (&ids).into(),
        },
        Record::TablesAltered { bytes: b"tables" },
        Record::Load {
            file: FileId(1),
            write_id: WriteId(5),
        },
        Record::Void {
            bytes: Rest(b"revoked"),
        },
    ];
    for record in &records {
        visit(record);
    }
}

pub(super) fn record_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut all = Vec::new();
    example_records(&mut |record| {
        let mut seed = Vec::new();
        record.encode(&mut seed);
        all.extend_from_slice(&seed);
        seeds.push(seed);
    });
    seeds.push(all);
    seeds
}

/// Decodes a segment header, and a batch header with the remaining input as payload.
pub fn headers(bytes: &[u8]) {
    let _ = SegmentHeader::decode(bytes);
    let mut sealed = bytes.to_vec();
    sealed.resize(SEGMENT_HEADER_BYTES - 8, 0);
    let sum = checksum(&sealed);
    sealed.put_u64(sum);
    if let Ok((header, found)) = SegmentHeader::decode(&sealed) {
        assert_eq!(found, sum);
        let (again, sum) = header.encode();
        assert_eq!(SegmentHeader::decode(&again), Ok((header, sum)));
    }
    let Ok(header) = BatchHeader::decode(bytes) else {
        return;
    };
    let envelope = u32::from(header.is_encrypted) * 48;
    assert!(header.stored_bytes <= header.raw_bytes + envelope && header.raw_bytes > 0);
    assert!(header.raw_bytes as usize <= BLOCK_RAW_BYTES_MAX);
    assert!(header.end_lsn() > header.first_lsn);
    let mut batch = bytes.to_vec();
    let checksum = header.seal(7, &mut batch);
    let (front, payload) = batch.split_at(BATCH_HEADER_BYTES);
    assert!(BatchHeader::checks(7, front, payload));
    assert!(!BatchHeader::checks(8, front, payload));
    assert_eq!(
        BatchHeader::decode(front),
        Ok(BatchHeader { checksum, ..header })
    );
}

pub(super) fn header_seeds() -> Vec<Vec<u8>> {
    let segment = SegmentHeader {
        kind: SegmentKind::Begun,
        instance: 7,
        number: 2,
        first_lsn: 1000,
        previous: 77,
    };
    let header = BatchHeader {
        codec: Codec::Lz4,
        is_encrypted: false,
        first_lsn: 1000,
        durable: 900,
        previous: 77,
        raw_bytes: 20,
        stored_bytes: 4,
        checksum: 0,
    };
    let mut batch = vec![0; BATCH_HEADER_BYTES + 4];
    header.seal(7, &mut batch);
    vec![segment.encode().0, batch]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_example_of_every_kind() {
        let mut numbers = Vec::new();
        example_records(&mut |record| numbers.push(record.number()));
        for number in Record::NUMBERS {
            assert!(numbers.contains(number), "kind {number}");
        }
    }
}
