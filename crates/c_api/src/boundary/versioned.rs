//! Structs that later versions extend. The first field of each is its size in the caller's version.
//! So old programs run with a newer library, and new programs run with an older library unless they
//! use fields that it lacks.

use crate::boundary::failure::Failure;
use crate::boundary::pointers::is_null;
use std::mem::MaybeUninit;

/// A struct with a `struct_size: usize` as its first field.
///
/// # Safety
/// `repr(C)`, the first field is the size, and all zeros are a valid value.
pub(crate) unsafe trait Versioned: Copy {
    /// Size of the struct in the first version of the library.
    const FIRST_VERSION_BYTES: usize;
}

unsafe fn size_of_callers<T: Versioned>(pointer: *const T, name: &str) -> Result<usize, Failure> {
    if pointer.is_null() {
        return Err(is_null(name));
    }
    // SAFETY: the first field, by the contracts of `boundary` and `Versioned`.
    let bytes = unsafe { pointer.cast::<usize>().read() };
    if bytes < T::FIRST_VERSION_BYTES {
        return Err(Failure::invalid(format!("{name}: struct_size is not set")));
    }
    Ok(bytes)
}

/// Reads a struct of options. Fields missing in the caller's version become zero. Fields missing in
/// this library's version must be zero.
pub(crate) unsafe fn read_versioned<T: Versioned>(
    pointer: *const T,
    name: &str,
) -> Result<T, Failure> {
    // SAFETY: passed on.
    let given = unsafe { size_of_callers(pointer, name) }?;
    let known = given.min(size_of::<T>());
    // SAFETY: `struct_size` bytes are readable, by the contract of `boundary`.
    let unknown = unsafe {
        std::slice::from_raw_parts(pointer.cast::<u8>().add(known), given.saturating_sub(known))
    };
    if unknown.iter().any(|byte| *byte != 0) {
        return Err(Failure::invalid(format!(
            "{name}: a field is set that this version of the library does not know"
        )));
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: both hold `known` bytes; all zeros, and so the remaining zeros, are valid by the
    // contract of `Versioned`.
    unsafe {
        pointer
            .cast::<u8>()
            .copy_to_nonoverlapping(value.as_mut_ptr().cast(), known);
        Ok(value.assume_init())
    }
}

/// Writes the fields of a struct of results that the caller's version has. Fields missing in this
/// library's version become zero.
pub(crate) unsafe fn write_versioned<T: Versioned>(
    pointer: *mut T,
    value: &T,
    name: &str,
) -> Result<(), Failure> {
    // SAFETY: passed on.
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

    // SAFETY: numbers, the size first.
    unsafe impl Versioned for Options {
        const FIRST_VERSION_BYTES: usize = 16;
    }

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
