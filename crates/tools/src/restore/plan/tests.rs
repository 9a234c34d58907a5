//! Binary logs that the tests write, and what leads from a backup to a target in them.

use super::*;
use std::fs;

/// Writes a file of a binary log with checksums, in the formats of the server.
struct Log {
    bytes: Vec<u8>,
    server: u32,
    time: u32,
}

impl Log {
    fn new(server: u32, before: &[&str]) -> Self {
        let mut log = Self {
            bytes: b"\xfebin".to_vec(),
            server,
            time: 1000,
        };
        let mut format = vec![4, 0];
        format.extend([0; 50]);
        format.extend([0; 4]);
        format.push(19);
        format.extend([0; 165]);
        format.push(1);
        log.event(15, &format);
        let mut list = u32::try_from(before.len()).unwrap().to_le_bytes().to_vec();
        for gtid in before {
            let gtid: Gtid = gtid.parse().unwrap();
            list.extend(gtid.domain.to_le_bytes());
            list.extend(gtid.server.to_le_bytes());
            list.extend(gtid.sequence.to_le_bytes());
        }
        log.event(163, &list);
        log
    }

    fn event(&mut self, kind: u8, body: &[u8]) {
        let length = u32::try_from(19 + body.len() + 4).unwrap();
        self.bytes.extend(self.time.to_le_bytes());
        self.bytes.push(kind);
        self.bytes.extend(self.server.to_le_bytes());
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend([0; 6]);
        self.bytes.extend(body);
        self.bytes.extend([0; 4]);
    }

    fn begin(&mut self, domain: u32, sequence: u64, flags: u8) {
        let mut body = sequence.to_le_bytes().to_vec();
        body.extend(domain.to_le_bytes());
        body.extend([flags, 0, 0, 0, 0, 0, 0]);
        self.event(162, &body);
    }

    fn query(&mut self, text: &str) {
        let mut body = vec![0; 8];
        body.extend([2, 0, 0, 3, 0]);
        body.extend(b"var");
        body.extend(b"db\0");
        body.extend(text.as_bytes());
        self.event(2, &body);
    }

    /// A transaction of rows; returns the position of its end.
    fn transaction(&mut self, domain: u32, sequence: u64) -> u64 {
        self.begin(domain, sequence, 4);
        self.event(19, &[0; 40]);
        self.query("ROLLBACK TO `s`");
        self.event(23, &[0; 5000]);
        self.event(16, &[0; 8]);
        self.time += 10;
        self.end()
    }

    fn rotate(&mut self, name: &str) {
        let mut body = 4u64.to_le_bytes().to_vec();
        body.extend(name.as_bytes());
        self.event(4, &body);
    }

    fn end(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn write(&self, directory: &Path, number: u64) {
        fs::write(directory.join(format!("log.{number:06}")), &self.bytes).unwrap();
    }
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("teak-plan-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn at(number: u64, offset: u64) -> LogPosition {
    LogPosition {
        file: format!("log.{number:06}").parse().unwrap(),
        offset,
    }
}

fn recorded(number: u64, offset: u64, gtids: &[&str]) -> Recorded {
    Recorded {
        position: at(number, offset),
        gtids: gtids.iter().map(|gtid| gtid.parse().unwrap()).collect(),
    }
}

fn time(seconds: u64) -> Target {
    Target::Time {
        seconds,
        text: seconds.to_string(),
    }
}

fn gtid(text: &str) -> Target {
    Target::Gtid(text.parse().unwrap())
}

/// Two files: 0-1-5, a backup, a statement 0-1-6, 0-1-7; and 0-1-8, 0-1-9. Returns the positions of their ends.
fn two_files(name: &str) -> (PathBuf, Vec<u64>) {
    let path = directory(name);
    let mut first = Log::new(1, &["0-1-4"]);
    let mut ends = vec![first.transaction(0, 5)];
    first.begin(0, 6, 1);
    first.query("CREATE TABLE t (a INT)");
    ends.push(first.end());
    ends.push(first.transaction(0, 7));
    first.rotate("log.000008");
    first.write(&path, 7);
    let mut second = Log::new(1, &["0-1-7"]);
    second.time = 1020;
    ends.push(second.transaction(0, 8));
    ends.push(second.transaction(0, 9));
    second.write(&path, 8);
    (path, ends)
}

fn error(directory: &Path, recorded: &Recorded, target: &Target) -> String {
    plan(directory, recorded, target).unwrap_err().to_string()
}

#[test]
fn a_target_in_the_file_of_the_backup() {
    let (path, ends) = two_files("one");
    let backup = recorded(7, ends[0], &["0-1-5"]);
    let expected = Plan {
        files: vec![path.join("log.000007")],
        start: ends[0],
        stop: ends[1],
        transactions: 1,
        reached: at(7, ends[1]),
        gtids: vec!["0-1-6".parse().unwrap()],
        ends_early: false,
    };
    assert_eq!(plan(&path, &backup, &gtid("0-1-6")).unwrap(), expected);
    let position = Target::Position(at(7, ends[1]));
    assert_eq!(plan(&path, &backup, &position).unwrap(), expected);
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_target_in_a_later_file() {
    let (path, ends) = two_files("two");
    let backup = recorded(7, ends[0], &["0-1-5"]);
    let both = vec![path.join("log.000007"), path.join("log.000008")];
    // The transaction 9 begins at second 1030.
    for target in [gtid("0-1-8"), Target::Position(at(8, ends[3])), time(1030)] {
        let found = plan(&path, &backup, &target).unwrap();
        assert_eq!((&found.files, found.stop), (&both, ends[3]), "{target}");
        assert_eq!((found.transactions, found.ends_early), (3, false));
        assert_eq!(found.reached, at(8, ends[3]));
    }
    let found = plan(&path, &backup, &time(9999)).unwrap();
    assert_eq!((found.transactions, found.ends_early), (4, true));
    // The position before the first transaction of a file: nothing of this file is applied.
    let start = Log::new(1, &["0-1-7"]).end();
    let found = plan(&path, &backup, &Target::Position(at(8, start))).unwrap();
    assert_eq!((found.files.len(), found.stop), (1, ends[2]));
    assert_eq!(found.reached, at(8, start));
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn the_backup_may_be_at_the_target() {
    let (path, ends) = two_files("at");
    let backup = recorded(7, ends[1], &["0-1-6"]);
    for target in [gtid("0-1-6"), Target::Position(at(7, ends[1])), time(1010)] {
        let found = plan(&path, &backup, &target);
        if let Target::Time { .. } = target {
            // The transaction 6 has this second.
            assert!(found.is_err());
            continue;
        }
        let found = found.unwrap();
        assert_eq!((found.files.len(), found.transactions), (0, 0));
        assert_eq!(found.reached, at(7, ends[1]));
    }
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_target_before_the_backup_is_refused() {
    let (path, ends) = two_files("before");
    let backup = recorded(7, ends[1], &["0-1-6"]);
    for target in [
        gtid("0-1-5"),
        gtid("0-1-1"),
        Target::Position(at(7, ends[0])),
        Target::Position(at(6, 400)),
        time(1000),
        time(5),
    ] {
        let text = error(&path, &backup, &target);
        assert!(
            text.contains("is before the position of the backup"),
            "{text}"
        );
    }
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_target_that_is_not_in_the_log_is_refused() {
    let (path, ends) = two_files("absent");
    let backup = recorded(7, ends[0], &["0-1-5"]);
    for (target, expected) in [
        (gtid("0-1-10"), "there is no transaction 0-1-10"),
        (gtid("3-1-1"), "there is no transaction 3-1-1"),
        (
            Target::Position(at(7, ends[1] + 1)),
            "no transaction ends at log.000007",
        ),
        (Target::Position(at(8, 99999)), "the binary log ends at"),
        (
            Target::Position(at(9, 4)),
            "the file log.000009 of the binary log is missing",
        ),
    ] {
        let text = error(&path, &backup, &target);
        assert!(text.contains(expected), "{text}");
    }
    let other = LogPosition {
        file: "other.000007".parse().unwrap(),
        offset: 4,
    };
    let text = error(&path, &backup, &Target::Position(other));
    assert!(text.contains("whose files are log.*"), "{text}");
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn missing_files_are_refused() {
    let (path, ends) = two_files("missing");
    let backup = recorded(7, ends[0], &["0-1-5"]);
    fs::remove_file(path.join("log.000008")).unwrap();
    // Nothing after the file is needed for a target in it.
    assert!(plan(&path, &backup, &gtid("0-1-7")).is_ok());
    // The last event names the next file, so the time may be in it.
    for target in [gtid("0-1-8"), time(9999)] {
        let text = error(&path, &backup, &target);
        assert!(text.contains("log.000008"), "{text}");
    }
    fs::rename(path.join("log.000007"), path.join("log.000006")).unwrap();
    let text = error(&path, &backup, &gtid("0-1-7"));
    assert!(text.contains("the file log.000007"), "{text}");
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn logs_of_another_server_are_refused() {
    let (path, ends) = two_files("other");
    let text = error(&path, &recorded(7, ends[0], &["0-2-5"]), &gtid("0-1-7"));
    assert!(text.contains("is of another server"), "{text}");
    let text = error(&path, &recorded(7, ends[0] + 1, &["0-1-5"]), &gtid("0-1-7"));
    assert!(text.contains("no transaction's end"), "{text}");
    let text = error(&path, &recorded(7, 999_999, &["0-1-5"]), &gtid("0-1-7"));
    assert!(text.contains("ends before the position"), "{text}");
    // A file of the same name that begins after other transactions.
    let mut second = Log::new(1, &["0-1-6"]);
    second.transaction(0, 8);
    second.write(&path, 8);
    let text = error(&path, &recorded(7, ends[0], &["0-1-5"]), &gtid("0-1-8"));
    assert!(text.contains("does not continue"), "{text}");
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn domains_of_a_primary_need_not_be_in_the_log() {
    let (path, ends) = two_files("domains");
    let backup = recorded(7, ends[0], &["0-1-5", "4-2-77"]);
    let found = plan(&path, &backup, &gtid("0-1-6")).unwrap();
    assert_eq!(listed(&found.gtids), "0-1-6,4-2-77");
    // But one of them must be.
    let empty = directory("domains-empty");
    let log = Log::new(9, &[]);
    log.write(&empty, 7);
    let text = error(&empty, &recorded(7, log.end(), &["0-1-5"]), &time(2000));
    assert!(text.contains("is of another server"), "{text}");
    fs::remove_dir_all(path).unwrap();
    fs::remove_dir_all(empty).unwrap();
}

#[test]
fn an_incomplete_transaction_at_the_end_is_left_out() {
    let path = directory("incomplete");
    let mut log = Log::new(1, &["0-1-4"]);
    let backup = recorded(7, log.end(), &["0-1-4"]);
    let end = log.transaction(0, 5);
    log.begin(0, 6, 4);
    log.event(19, &[0; 40]);
    let part = log.end();
    log.write(&path, 7);
    let found = plan(&path, &backup, &time(9999)).unwrap();
    assert_eq!((found.stop, found.transactions), (end, 1));
    let text = error(&path, &backup, &Target::Position(at(7, part)));
    assert!(text.contains("the binary log ends at"), "{text}");
    // Also if the file ends within an event.
    log.event(16, &[0; 8]);
    log.bytes.pop();
    log.write(&path, 7);
    assert_eq!(plan(&path, &backup, &time(9999)).unwrap().stop, end);
    assert!(plan(&path, &backup, &gtid("0-1-6")).is_err());
    // After a crash the server continues in a new file.
    let mut next = Log::new(1, &["0-1-5"]);
    next.transaction(0, 6);
    next.write(&path, 8);
    let found = plan(&path, &backup, &gtid("0-1-6")).unwrap();
    assert_eq!((found.files.len(), found.transactions), (2, 2));
    // The file was not copied to its end.
    let mut next = Log::new(1, &["0-1-6"]);
    next.transaction(0, 7);
    next.write(&path, 8);
    let text = error(&path, &backup, &gtid("0-1-7"));
    assert!(text.contains("does not continue"), "{text}");
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn damaged_and_encrypted_files_are_refused() {
    let path = directory("damaged");
    let mut log = Log::new(1, &["0-1-4"]);
    let backup = recorded(7, log.end(), &["0-1-4"]);
    log.event(164, &[0; 20]);
    log.write(&path, 7);
    let text = error(&path, &backup, &time(9999));
    assert!(text.contains("is encrypted"), "{text}");
    let mut log = Log::new(1, &["0-1-4"]);
    log.bytes.extend([0; 30]);
    log.write(&path, 7);
    let text = error(&path, &backup, &time(9999));
    assert!(text.contains("is damaged at byte"), "{text}");
    fs::write(path.join("log.000007"), "text").unwrap();
    let text = error(&path, &backup, &time(9999));
    assert!(text.contains("is not a file of a binary log"), "{text}");
    fs::remove_dir_all(path).unwrap();
}
