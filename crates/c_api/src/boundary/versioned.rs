//! Structs that later versions of the library extend. The caller passes the size of each struct as
//! it was compiled. So old programs run with a newer library, and new programs run with an older
//! library unless they use fields that it lacks.

use crate::boundary::failure::Failure;
use crate::boundary::pointers::{array, is_null};
use std::mem::MaybeUninit;

/// A struct to which later versions add fields at its end.
///
/// # Safety
/// `repr(C)`, and all zeros are a valid value.
pub(crate) unsafe trait Extensible: Copy {
    /// Size of the struct in the first version of the library, by
    /// [`first_version_bytes`].
    const FIRST_VERSION_BYTES: usize;
}

/// An extensible struct that begins with its size.
///
/// # Safety
/// The first field is `struct_size: usize`.
pub(crate) unsafe trait Versioned: Extensible {}

/// `first_version_bytes!(STRUCT, FIELD, BYTES)`: the size of the first version of a struct, whose
/// last field was FIELD. Does not compile if FIELD does not end at BYTES, because an earlier field
/// was added, removed or changed in size.
macro_rules! first_version_bytes {
    ($struct:ty, $last:ident, $bytes:literal) => {{
        let end = std::mem::offset_of!($struct, $last)
            + $crate::boundary::size_of_field(|extended: &$struct| &extended.$last);
        assert!(end == $bytes && size_of::<$struct>() >= $bytes);
        $bytes
    }};
}
pub(crate) use first_version_bytes;

pub(crate) const fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

unsafe fn size_of_callers<T: Versioned>(pointer: *const T, name: &str) -> Result<usize, Failure> {
    if pointer.is_null() {
        return Err(is_null(name));
    }
    // SAFETY: the first field, by the contracts of `boundary` and `Versioned`.
    let bytes = unsafe { pointer.cast::<usize>().read() };
    check_size::<T>(bytes, name)?;
    Ok(bytes)
}

fn check_size<T: Extensible>(bytes: usize, name: &str) -> Result<(), Failure> {
    if bytes < T::FIRST_VERSION_BYTES {
        return Err(Failure::invalid(format!(
            "{name}: the size of the struct is not set"
        )));
    }
    Ok(())
}

/// Copies a struct of the caller's version. Fields that the caller's version lacks become zero.
/// Fields that this library lacks must be zero.
unsafe fn copy_known<T: Extensible>(given: &[u8], name: &str) -> Result<T, Failure> {
    let (known, unknown) = given.split_at(given.len().min(size_of::<T>()));
    if unknown.iter().any(|byte| *byte != 0) {
        return Err(Failure::invalid(format!(
            "{name}: a field is set that this version of the library does not know"
        )));
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the known bytes fit into the value and are a valid beginning of it by the contract of
    // `boundary`; the remaining zeros are valid by the contract of `Extensible`.
    unsafe {
        known
            .as_ptr()
            .copy_to_nonoverlapping(value.as_mut_ptr().cast(), known.len());
        Ok(value.assume_init())
    }
}

/// Reads a struct of options, as [`copy_known`] does.
pub(crate) unsafe fn read_versioned<T: Versioned>(
    pointer: *const T,
    name: &str,
) -> Result<T, Failure> {
    // SAFETY: `struct_size` bytes are readable, by the contract of `boundary`.
    unsafe {
        let given = size_of_callers(pointer, name)?;
        copy_known(array(pointer.cast::<u8>(), given, name)?, name)
    }
}

/// Reads an array of structs of `element_bytes` each, as [`copy_known`] does.
pub(crate) unsafe fn read_elements<T: Extensible>(
    pointer: *const T,
    count: usize,
    element_bytes: usize,
    name: &str,
) -> Result<Vec<T>, Failure> {
    check_size::<T>(element_bytes, name)?;
    let bytes = count.saturating_mul(element_bytes);
    // SAFETY: `bytes` bytes are readable, by the contract of `boundary`.
    let elements = unsafe { array(pointer.cast::<u8>(), bytes, name) }?.chunks_exact(element_bytes);
    elements
        // SAFETY: an element, by the same contract.
        .map(|element| unsafe { copy_known(element, name) })
        .collect()
}

/// Writes a struct of results, as far as the caller's version has its fields. Fields that only the
/// caller's version has become zero.
pub(crate) unsafe fn write_versioned<T: Versioned>(
    pointer: *mut T,
    value: &T,
    name: &str,
) -> Result<(), Failure> {
    // SAFETY: the caller guarantees the contract of `boundary`.
    let given = unsafe { size_of_callers(pointer, name) }?;
    let known = given.min(size_of::<T>());
    let header = size_of::<usize>();
    let target = pointer.cast::<u8>();
    // SAFETY: the caller's struct has `given` bytes, by the contract of `boundary`; its first field
    // is not changed.
    unsafe {
        std::ptr::from_ref(value)
            .cast::<u8>()
            .add(header)
            .copy_to_nonoverlapping(target.add(header), known.saturating_sub(header));
        target
            .add(known)
            .write_bytes(0, given.saturating_sub(known));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Options {
        struct_size: usize,
        first: u64,
        later: u64,
    }

    // SAFETY: `repr(C)`, numbers.
    unsafe impl Extensible for Options {
        const FIRST_VERSION_BYTES: usize = first_version_bytes!(Self, first, 16);
    }

    // SAFETY: the first field is `struct_size`.
    unsafe impl Versioned for Options {}

    #[repr(C)]
    struct Newer {
        known: Options,
        newest: u64,
    }

    fn newer(newest: u64) -> Newer {
        let known = Options {
            struct_size: size_of::<Newer>(),
            first: 1,
            later: 2,
        };
        Newer { known, newest }
    }

    fn read<T>(options: &T) -> Result<Options, Failure> {
        // SAFETY: every test passes a struct of its `struct_size`.
        unsafe { read_versioned(std::ptr::from_ref(options).cast(), "options") }
    }

    #[test]
    fn an_older_caller_gets_defaults_for_what_it_does_not_know() {
        let older = [16u64, 7];
        let Ok(found) = read(&older) else {
            panic!("refused")
        };
        assert_eq!((found.first, found.later), (7, 0));
    }

    #[test]
    fn a_newer_caller_is_refused_only_when_it_uses_what_is_unknown() {
        let found = read(&newer(0));
        assert!(found.is_ok_and(|found| found.later == 2));
        assert!(read(&newer(3)).is_err());
        assert!(read(&[8u64, 0]).is_err());
    }

    #[test]
    fn elements_have_the_size_of_the_callers_version() {
        let read = |words: &[u64], element_words: usize| {
            let count = words.len() / element_words;
            // SAFETY: as many elements of that size.
            unsafe { read_elements(words.as_ptr().cast(), count, element_words * 8, "o") }
        };
        let found = |words, element_words| {
            let Ok(found) = read(words, element_words) else {
                panic!("refused")
            };
            let numbers = found
                .iter()
                .map(|found: &Options| (found.first, found.later));
            numbers.collect::<Vec<_>>()
        };
        assert_eq!(found(&[0, 1, 0, 2], 2), [(1, 0), (2, 0)]);
        assert_eq!(found(&[0, 1, 2, 0, 3, 4], 3), [(1, 2), (3, 4)]);
        assert_eq!(found(&[0, 1, 2, 0, 0, 3, 4, 0], 4), [(1, 2), (3, 4)]);
        assert!(read(&[0, 1, 2, 0, 0, 3, 4, 9], 4).is_err());
        assert!(read(&[0, 0], 1).is_err());
        assert_eq!(found(&[], 2), []);
    }

    #[test]
    fn results_are_written_as_far_as_the_caller_knows_them() {
        let value = newer(0).known;
        let mut older = [16u64, 0, 99];
        // SAFETY: the first two words are the older struct.
        let written = unsafe { write_versioned(older.as_mut_ptr().cast(), &value, "o") };
        assert!(written.is_ok());
        assert_eq!(older, [16, 1, 99]);
        let mut later = newer(99);
        let pointer = (&raw mut later).cast::<Options>();
        // SAFETY: `later` begins with the known struct.
        assert!(unsafe { write_versioned(pointer, &value, "o") }.is_ok());
        assert_eq!((later.known.later, later.newest), (2, 0));
    }
}
