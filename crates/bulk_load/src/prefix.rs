//! Prefixes of keys, which decide most comparisons without a look at the keys.

/// The first 16 bytes of a key, with zeros after a shorter key. Keys with different prefixes are in
/// the order of their prefixes. Entries of secondary keys on integers mostly have shorter keys.
pub(crate) type Prefix = [u64; 2];

#[inline]
pub(crate) fn prefix_of(key: &[u8]) -> Prefix {
    if let Some(first) = key.first_chunk::<16>() {
        let whole = u128::from_be_bytes(*first);
        #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
        return [(whole >> 64) as u64, whole as u64];
    }
    let part = |from: usize| {
        let bytes = key.get(from..).unwrap_or_default();
        if let Some(first) = bytes.first_chunk() {
            return u64::from_be_bytes(*first);
        }
        let mut padded = [0; 8];
        for (to, from) in padded.iter_mut().zip(bytes) {
            *to = *from;
        }
        u64::from_be_bytes(padded)
    };
    [part(0), part(8)]
}
