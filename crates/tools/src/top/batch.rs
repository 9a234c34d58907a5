//! Lines for scripts: a kind, and pairs of `name=value`.

use super::rates::{CAUSES, Rates};
use super::sample::{Job, Sample};
use std::fmt::Write;

/// Counters that are shown per second: the name in the line, and the status variable.
const COUNTERS: [(&str, &str); 16] = [
    ("inserted", "rows_inserted"),
    ("updated", "rows_updated"),
    ("deleted", "rows_deleted"),
    ("loaded", "bulk_load_rows"),
    ("commits", "transactions_committed"),
    ("rollbacks", "transactions_rolled_back"),
    ("statements", "statement_microseconds_count"),
    ("lock_waits", "lock_waits"),
    ("bytes_read", "bytes_read"),
    ("bytes_written", "bytes_written"),
    ("log_bytes", "log_bytes_written"),
    ("log_fsyncs", "log_fsyncs"),
    ("flushes", "flushes"),
    ("cache_hits", "cache_hits"),
    ("cache_misses", "cache_misses"),
    ("delays", "writer_stalls"),
];

/// Current values: the name in the line, and the status variable.
const GAUGES: [(&str, &str); 10] = [
    ("memory_bytes", "memory_bytes"),
    ("memory_limit", "cache_bytes_limit"),
    ("memtable_bytes", "memtable_bytes"),
    ("page_cache_bytes", "page_cache_bytes"),
    ("log_used", "log_bytes_used"),
    ("log_limit", "log_bytes_limit"),
    ("pending_bytes", "pending_flush_bytes"),
    ("active", "transactions_active"),
    ("waiting", "transactions_waiting"),
    ("writers_stopped", "writers_stopped"),
];

/// A text without spaces and line ends, which separate pairs and lines.
fn word(text: &str) -> String {
    let is_plain = |char: char| !char.is_whitespace() && !char.is_control() && char != '\\';
    let escaped = |char: char| match is_plain(char) {
        true => char.to_string(),
        false => char.escape_unicode().to_string(),
    };
    text.chars().map(escaped).collect()
}

fn job_line(job: &Job) -> String {
    format!(
        "job state={} kind={} detail={} table={} index={} elapsed_ms={} done={} total={}\n",
        if job.is_running { "running" } else { "waiting" },
        word(&job.kind.to_lowercase().replace(' ', "_")),
        word(&job.detail.replace(' ', "_")),
        word(&job.table),
        word(&job.index),
        job.elapsed_milliseconds,
        job.done,
        job.total
    )
}

pub(super) fn lines(rates: &Rates<'_>, now: &Sample, tables: usize) -> String {
    let mut text = format!("engine time={} seconds={:.3}", now.time, rates.seconds);
    // Writing to a string cannot fail.
    for (name, counter) in COUNTERS {
        let _ = write!(text, " {name}={:.1}", rates.of(counter));
    }
    for cause in CAUSES {
        let _ = write!(
            text,
            " delayed_ms_{cause}={:.1}",
            rates.delayed_milliseconds(cause)
        );
    }
    for (name, gauge) in GAUGES {
        let _ = write!(text, " {name}={}", now.status(gauge));
    }
    text.push('\n');
    for table in rates.tables.iter().take(tables) {
        let _ = writeln!(
            text,
            "table name={} bytes_read={:.1} bytes_written={:.1} entries={:.1} memtable_bytes={} file_bytes={}",
            word(&table.name),
            table.read,
            table.written,
            table.entries,
            table.now.memtable_bytes,
            table.now.file_bytes
        );
    }
    text.extend(now.jobs.iter().map(job_line));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_single_words() {
        assert_eq!(word("a.b"), "a.b");
        assert_eq!(word("a b\n=\\"), "a\\u{20}b\\u{a}=\\u{5c}");
        let job = Job {
            is_running: true,
            kind: "CHECKPOINT ROUND".to_owned(),
            ..Job::default()
        };
        let line = "job state=running kind=checkpoint_round detail= table= index= elapsed_ms=0 done=0 total=0\n";
        assert_eq!(job_line(&job), line);
    }
}
