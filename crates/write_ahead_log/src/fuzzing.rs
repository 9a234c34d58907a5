//! The decoders of on-disk bytes, for fuzz targets. Not part of the interface.

use crate::format::{BatchHeader, SegmentHeader};
use crate::record::Record;
use teak_base::bytes::Take;

/// Decodes bytes as a stream of records and encodes them again.
///
/// # Panics
/// When a decoded record does not decode to itself after encoding.
pub fn records(bytes: &[u8]) {
    let mut take = Take::new(bytes);
    while let Ok(record) = Record::decode(&mut take) {
        let mut encoded = Vec::new();
        record.encode(&mut encoded);
        let again = Record::decode(&mut Take::new(&encoded));
        assert_eq!(again, Ok(record));
        assert!(!record.to_string().is_empty());
    }
}

/// Decodes bytes as headers.
pub fn headers(bytes: &[u8]) {
    let _ = SegmentHeader::decode(bytes);
    let _ = BatchHeader::decode(bytes);
}
