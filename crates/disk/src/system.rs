//! The system calls that the standard library does not wrap: reserving space,
//! reading ahead, and locking a file against other processes.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Reserves space for the first `bytes` of a file without changing its length. Does nothing if the
/// file system cannot reserve space; then a later write may fail.
pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    let Ok(length) = libc::off_t::try_from(bytes) else {
        return Err(io::ErrorKind::StorageFull.into());
    };
    if length == 0 {
        return Ok(());
    }
    loop {
        // SAFETY: the descriptor is open as long as `file` is borrowed.
        let outcome =
            unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, length) };
        if outcome == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => return Ok(()),
            _ => return Err(error),
        }
    }
}

/// Makes the operating system read a range of a file into its cache, without waiting. Does nothing
/// if it cannot.
pub(crate) fn prefetch(file: &File, offset: u64, bytes: u64) {
    let range = (libc::off_t::try_from(offset), libc::off_t::try_from(bytes));
    if let (Ok(offset), Ok(bytes)) = range {
        // SAFETY: the descriptor is open as long as `file` is borrowed. The call has no effect that
        // the program can observe, so its result does not matter.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, bytes, libc::POSIX_FADV_WILLNEED) };
    }
}

/// Whether reads of a directory's files bypass the cache of the operating system if they are aligned to the
/// sectors of the device. Other file systems may read by that cache if they are not aligned to its pages.
pub(crate) fn reads_sectors_directly(directory: &File) -> bool {
    const EXT4: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    let mut found = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open as long as `directory` is borrowed, and the memory is that of the type.
    let outcome = unsafe { libc::fstatfs(directory.as_raw_fd(), found.as_mut_ptr()) };
    // SAFETY: the call has set the value if it returns 0.
    outcome == 0
        && matches!(
            unsafe { found.assume_init() }.f_type.cast_unsigned(),
            EXT4 | XFS
        )
}

/// Locks a whole file; false when another handle of the file has the lock. The lock is released
/// when the file is closed, or the process is killed.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    loop {
        // SAFETY: the descriptor is open as long as `file` is borrowed.
        let outcome = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        if outcome == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock => return Ok(false),
            io::ErrorKind::Interrupted => {}
            _ => return Err(error),
        }
    }
}
