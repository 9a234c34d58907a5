//! Bytes on disk, bytes written, and the end of background writes.

use crate::stores::Failure;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const QUIET_SECONDS: u32 = 3;
const SETTLE_SECONDS_MAX: u32 = 3600;

const SECTOR_BYTES: u64 = 512;
/// The position of the number of sectors written in `/sys/dev/block/*/stat`.
const SECTORS_WRITTEN: usize = 6;

/// Bytes that the disk of a directory has written so far, all files' contents included. The kernel's count for a
/// process would be that of the memory that became dirty, which may be a hundred times as much.
pub fn bytes_written(directory: &Path) -> Result<u64, Failure> {
    let status = Command::new("sync").status()?;
    if !status.success() {
        return Err(format!("sync: {status}").into());
    }
    let device = fs::metadata(directory)?.dev();
    let major = (device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000);
    let minor = (device & 0xff) | (device >> 12 & 0xffff_ff00);
    let path = format!("/sys/dev/block/{major}:{minor}/stat");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let sectors = text.split_whitespace().nth(SECTORS_WRITTEN);
    let sectors: u64 = sectors.ok_or("no number of sectors written")?.parse()?;
    Ok(sectors * SECTOR_BYTES)
}

/// A count that remains the same while this process writes nothing.
fn bytes_dirtied() -> Result<u64, Failure> {
    let text = fs::read_to_string("/proc/self/io")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.ok_or("no write_bytes in /proc/self/io")?.parse()?)
}

/// Bytes that the files of a directory allocate.
pub fn bytes_on_disk(directory: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(about) if about.is_dir() => bytes += bytes_on_disk(&entry.path())?,
            Ok(about) => bytes += about.blocks() * 512,
            // A background thread has removed the file.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// Waits until the process has written nothing for some seconds.
pub fn wait_until_quiet() -> Result<(), Failure> {
    let (mut last, mut quiet, mut waited) = (bytes_dirtied()?, 0, 0);
    while quiet < QUIET_SECONDS {
        if waited == SETTLE_SECONDS_MAX {
            return Err(format!("background writes have not ended after {waited} s").into());
        }
        sleep(Duration::from_secs(1));
        waited += 1;
        let now = bytes_dirtied()?;
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_all_files_below_a_directory_are_added() {
        let directory = std::env::temp_dir().join(format!("teak-rivals-{}", std::process::id()));
        fs::create_dir_all(directory.join("inner")).unwrap();
        fs::write(directory.join("one"), vec![1; 10_000]).unwrap();
        fs::write(directory.join("inner/two"), vec![1; 10_000]).unwrap();
        let bytes = bytes_on_disk(&directory).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        assert!((20_000..200_000).contains(&bytes), "{bytes}");
    }
}
