//! Numbers and lists of strings in .frm files.

use teak_base::bytes::{Malformed, Take};

pub(super) fn take_at(image: &[u8], offset: usize) -> Result<Take<'_>, Malformed> {
    image.get(offset..).map(Take::new).ok_or(Malformed)
}

pub(super) fn u16_at(image: &[u8], offset: usize) -> Result<u16, Malformed> {
    take_at(image, offset)?.u16()
}

pub(super) fn u32_at(image: &[u8], offset: usize) -> Result<usize, Malformed> {
    let value = take_at(image, offset)?.u32()?;
    usize::try_from(value).map_err(|_| Malformed)
}

pub(super) fn usize_at(image: &[u8], offset: usize) -> Result<usize, Malformed> {
    u16_at(image, offset).map(usize::from)
}

/// Splits lists of strings: each begins with a separator, has the separator after each string, and ends with a zero.
pub(super) fn take_lists(bytes: &[u8], count: usize) -> Result<Vec<Vec<Vec<u8>>>, Malformed> {
    let mut lists = Vec::new();
    let mut rest = bytes;
    for number in 0..count {
        let mut list = Vec::new();
        let (separator, mut strings) = rest.split_first().ok_or(Malformed)?;
        let is_last = number + 1 == count;
        // An empty list has no separator.
        let mut has_more = *separator != 0;
        while has_more {
            let is_end = !is_last || strings.len() == 1 || list.is_empty();
            if strings.first() == Some(&0) && is_end {
                strings = strings.get(1..).unwrap_or_default();
                has_more = false;
                continue;
            }
            let end = strings.iter().position(|byte| byte == separator);
            let (string, after) = strings
                .split_at_checked(end.ok_or(Malformed)?)
                .ok_or(Malformed)?;
            list.push(string.to_vec());
            strings = after.get(1..).ok_or(Malformed)?;
        }
        lists.push(list);
        rest = strings;
    }
    Ok(lists)
}
