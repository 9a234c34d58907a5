//! A cursor over the entries of a run.

use crate::VersionCursor;
use teak_base::{Operation, StorageResult, WriteId};

/// How a cursor uses the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Pages read are kept for others.
    Cached,
    /// Pages read once, in order, as by a flush: found in the cache or not,
    /// they displace nothing.
    Sequential,
}

/// A cursor over the entries of a run.
#[derive(Debug)]
pub struct RunCursor {}

#[allow(unused_variables)]
impl VersionCursor for RunCursor {
    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        todo!()
    }
    fn seek_first(&mut self) -> StorageResult<()> {
        todo!()
    }
    fn seek_last(&mut self) -> StorageResult<()> {
        todo!()
    }
    fn seek_before(&mut self, key: &[u8]) -> StorageResult<()> {
        todo!()
    }
    fn valid(&self) -> bool {
        todo!()
    }
    fn key(&self) -> &[u8] {
        todo!()
    }
    fn write_id(&self) -> WriteId {
        todo!()
    }
    fn operation(&self) -> Operation {
        todo!()
    }
    fn value(&self) -> &[u8] {
        todo!()
    }
    fn next_version(&mut self) -> StorageResult<()> {
        todo!()
    }
    fn previous_key(&mut self) -> StorageResult<()> {
        todo!()
    }
}
