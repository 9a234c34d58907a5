//! The workloads: for each of both orders of keys, a new store is filled; the other workloads use the store with random
//! keys. Writes are durable after each 1000.

use crate::data::{Order, Random, VALUE_BYTES, key, value};
use crate::measure::{bytes_on_disk, bytes_written, wait_until_quiet};
use crate::stores::{Change, Failure, Store, open};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

const ROWS_PER_SYNC: u64 = 1000;
const READS_MAX: u64 = 200_000;
const SHORT_SCAN_ROWS: usize = 100;

/// Rows that the workloads have deleted: those of every tenth number.
fn is_deleted(number: u64) -> bool {
    number % 10 == 9
}

pub struct Bench<'a> {
    pub engine: &'a str,
    pub directory: &'a Path,
    pub rows: u64,
    pub cache_bytes: u64,
    pub seed: u64,
    /// The workloads to report; empty for all.
    pub chosen: &'a [String],
}

impl Bench<'_> {
    pub fn run(&self) -> Result<(), Failure> {
        if self.wants(&["ordered"]) {
            let (store, directory) = self.open("ordered")?;
            self.write("ordered", store.as_ref(), &directory, self.rows, |number| {
                (
                    number,
                    Change::Put(key(Order::Ascending, number), value(number, 0)),
                )
            })?;
            drop(store);
            fs::remove_dir_all(directory)?;
        }
        if !self.wants(&[
            "random", "present", "absent", "short", "scan", "updates", "deletes",
        ]) {
            return Ok(());
        }
        let (store, directory) = self.open("random")?;
        let store = store.as_ref();
        self.write("random", store, &directory, self.rows, |number| {
            (
                number,
                Change::Put(key(Order::Random, number), value(number, 0)),
            )
        })?;
        self.reads(store)?;
        let mut random = Random(self.seed);
        self.write(
            "updates",
            store,
            &directory,
            self.rows.div_ceil(5),
            |count| {
                let number = random.below(self.rows);
                (
                    number,
                    Change::Put(key(Order::Random, number), value(number, count + 1)),
                )
            },
        )?;
        let deleted = (0..self.rows).filter(|&number| is_deleted(number)).count() as u64;
        self.write("deletes", store, &directory, deleted, |count| {
            let number = count * 10 + 9;
            (number, Change::Delete(key(Order::Random, number)))
        })?;
        self.check(store, deleted)
    }

    fn wants(&self, names: &[&str]) -> bool {
        self.chosen.is_empty()
            || self
                .chosen
                .iter()
                .any(|chosen| names.contains(&chosen.as_str()))
    }

    fn open(&self, name: &str) -> Result<(Box<dyn Store>, PathBuf), Failure> {
        let directory = self.directory.join(name);
        fs::create_dir_all(&directory)?;
        Ok((
            open(self.engine, &directory, self.cache_bytes, self.rows)?,
            directory,
        ))
    }

    /// Writes `count` changes, given with the numbers of their rows by `change`.
    fn write(
        &self,
        name: &str,
        store: &dyn Store,
        directory: &Path,
        count: u64,
        mut change: impl FnMut(u64) -> (u64, Change),
    ) -> Result<(), Failure> {
        let (written, began) = (bytes_written(directory)?, Instant::now());
        let (mut longest, mut first) = (0.0_f64, 0);
        let mut tenth_rates = Vec::new();
        let (mut tenth_began, mut tenth_first) = (began, 0);
        while first < count {
            let last = count.min(first + ROWS_PER_SYNC);
            let changes: Vec<Change> = (first..last).map(|number| change(number).1).collect();
            let sent = Instant::now();
            store.commit(&changes)?;
            longest = longest.max(sent.elapsed().as_secs_f64());
            first = last;
            if first * 10 >= count * (tenth_rates.len() as u64 + 1) {
                tenth_rates
                    .push((first - tenth_first) as f64 / tenth_began.elapsed().as_secs_f64());
                (tenth_began, tenth_first) = (Instant::now(), first);
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        let (written_at_end, disk_at_end) = (
            bytes_written(directory)? - written,
            bytes_on_disk(directory)?,
        );
        store.flush()?;
        wait_until_quiet()?;
        if self.wants(&[name]) {
            let settled = (
                bytes_written(directory)? - written,
                bytes_on_disk(directory)?,
            );
            print!(
                "{{\"workload\": \"{name}\", \"operations\": {count}, \"seconds\": {seconds}, \"longest\": {longest}"
            );
            if tenth_rates.len() == 10 {
                let last = tenth_rates.last().copied().unwrap_or_default();
                print!(
                    ", \"first_tenth\": {}, \"second_tenth\": {}, \"last_tenth\": {last}",
                    tenth_rates[0], tenth_rates[1]
                );
            }
            println!(
                ", \"written_at_end\": {written_at_end}, \"written\": {}, \"disk_at_end\": {disk_at_end}, \"disk\": {}}}",
                settled.0, settled.1
            );
        }
        Ok(())
    }

    fn reads(&self, store: &dyn Store) -> Result<(), Failure> {
        let count = self.rows.min(READS_MAX);
        for (name, first) in [("present", 0), ("absent", self.rows)] {
            let mut random = Random(self.seed ^ first);
            self.time(name, count, || {
                for _ in 0..count {
                    let number = random.below(self.rows);
                    let found = store.get(&key(Order::Random, first + number))?;
                    let wanted = (first == 0).then_some(VALUE_BYTES);
                    if found != wanted {
                        return Err(format!(
                            "{name}: read a value of {found:?} bytes, not {wanted:?}"
                        )
                        .into());
                    }
                }
                Ok(count)
            })?;
        }
        let mut random = Random(self.seed ^ 1);
        self.time("short", count / 20, || {
            let mut rows = 0;
            for _ in 0..count / 20 {
                let from = key(Order::Random, random.below(self.rows));
                rows += store.scan(&from, SHORT_SCAN_ROWS)? as u64;
            }
            Ok(rows)
        })?;
        self.time("scan", 1, || {
            let rows = store.scan(&[], usize::MAX)? as u64;
            if rows != self.rows {
                return Err(format!("scan: {rows} rows, not {}", self.rows).into());
            }
            Ok(rows)
        })
    }

    /// Times `work`, which returns the number of rows that it read, if the workload is chosen.
    fn time(
        &self,
        name: &str,
        calls: u64,
        work: impl FnOnce() -> Result<u64, Failure>,
    ) -> Result<(), Failure> {
        if self.wants(&[name]) && calls > 0 {
            let began = Instant::now();
            let rows = work()?;
            let seconds = began.elapsed().as_secs_f64();
            println!(
                "{{\"workload\": \"{name}\", \"operations\": {rows}, \"calls\": {calls}, \"seconds\": {seconds}}}"
            );
        }
        Ok(())
    }

    /// Fails unless exactly the deleted rows are absent.
    fn check(&self, store: &dyn Store, deleted: u64) -> Result<(), Failure> {
        let rows = store.scan(&[], usize::MAX)? as u64;
        if rows != self.rows - deleted {
            return Err(format!("{rows} rows at the end, not {}", self.rows - deleted).into());
        }
        let mut random = Random(self.seed ^ 2);
        for _ in 0..1000 {
            let number = random.below(self.rows);
            if store.get(&key(Order::Random, number))?.is_some() == is_deleted(number) {
                return Err(format!("the row of {number} is wrong at the end").into());
            }
        }
        Ok(())
    }
}
