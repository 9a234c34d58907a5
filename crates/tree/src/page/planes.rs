//! Byte planes: strings of equal length stored column by column. Sorted
//! big-endian keys then have long runs of equal bytes, which compress well.
//!
//! The lengths asserted on entry are multiples of the width, so every index is within bounds.
#![allow(clippy::indexing_slicing)]

/// Appends the planes of `rows`, strings of `width` bytes each.
pub(super) fn split(rows: &[u8], width: usize, out: &mut Vec<u8>) {
    assert!(
        width > 0 && rows.len().is_multiple_of(width),
        "rows are whole"
    );
    for column in 0..width {
        out.extend(rows[column..].iter().step_by(width));
    }
}

/// Appends the rows from which `split` has created `planes`.
pub(super) fn join(planes: &[u8], width: usize, out: &mut Vec<u8>) {
    assert!(
        width > 0 && planes.len().is_multiple_of(width),
        "planes are whole"
    );
    let count = planes.len() / width;
    let start = out.len();
    out.resize(start + planes.len(), 0);
    let rows = &mut out[start..];
    if count == 0 {
        return;
    }
    for (column, plane) in planes.chunks_exact(count).enumerate() {
        for (row, byte) in plane.iter().enumerate() {
            rows[row * width + column] = *byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_join_to_the_same_rows() {
        let rows = b"abc1abd2abe3";
        let mut planes = Vec::new();
        split(rows, 4, &mut planes);
        assert_eq!(planes, b"aaabbbcde123");
        let mut joined = vec![9];
        join(&planes, 4, &mut joined);
        assert_eq!(&joined[1..], rows);
    }
}
