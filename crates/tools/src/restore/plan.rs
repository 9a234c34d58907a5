//! Which part of the binary log leads from a backup to a target.
//!
//! The files are read from the one in which the backup was made. A transaction is complete when the next one begins, or
//! at the end of a file. What is read must belong to the server of the backup: the state of GTIDs at the backup's
//! position must be the one that the backup has recorded, and each file must begin with the state at the end of the file
//! before it.

use super::events::{Event, Events, Kind};
use super::target::{Gtid, LogName, LogPosition, Target};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The position in the binary log that a backup has recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recorded {
    pub position: LogPosition,
    pub gtids: Vec<Gtid>,
}

/// The transactions to apply.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// None if there is nothing to apply.
    pub files: Vec<PathBuf>,
    /// In the first file.
    pub start: u64,
    /// In the last file.
    pub stop: u64,
    pub transactions: u64,
    /// Where the restored server will stand.
    pub reached: LogPosition,
    /// The newest transaction of each domain.
    pub gtids: Vec<Gtid>,
    /// The log ends before the time of the target.
    pub ends_early: bool,
}

/// A transaction while its events are read.
struct Group {
    gtid: Gtid,
    start: u64,
    end: u64,
    time: u64,
    is_standalone: bool,
    is_complete: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Continue,
    Reached,
}

fn refused<T>(text: impl Into<String>) -> io::Result<T> {
    Err(io::Error::other(text.into()))
}

fn listed(gtids: &[Gtid]) -> String {
    let texts: Vec<String> = gtids.iter().map(Gtid::to_string).collect();
    match texts.is_empty() {
        true => "no GTID".to_owned(),
        false => texts.join(","),
    }
}

/// Finds the transactions between a backup and a target.
///
/// # Errors
/// If a file is missing, damaged or of another server, or if the target is not in the files, or before the backup.
pub(super) fn plan(directory: &Path, recorded: &Recorded, target: &Target) -> io::Result<Plan> {
    let first = &recorded.position.file;
    if let Target::Position(position) = target {
        if position.file.base != first.base {
            return refused(format!(
                "the target {target} is not in the backup's binary log, whose files are {}.*",
                first.base
            ));
        }
        if (position.file.number, position.offset) < (first.number, recorded.position.offset) {
            return refused(before_backup(target, recorded));
        }
    }
    let mut walk = Walk::new(directory, recorded, target);
    walk.run()?;
    Ok(walk.finish())
}

fn before_backup(target: &Target, recorded: &Recorded) -> String {
    format!(
        "the target {target} is before the position of the backup, {} ({}): restore an older backup",
        recorded.position,
        listed(&recorded.gtids)
    )
}

struct Walk<'a> {
    directory: &'a Path,
    recorded: &'a Recorded,
    target: &'a Target,
    /// The file that is read.
    name: LogName,
    path: PathBuf,
    /// The newest transaction of each domain and server, and of each domain.
    state: BTreeMap<(u32, u32), u64>,
    newest: BTreeMap<u32, Gtid>,
    /// The last transaction before the position of the backup, and the highest time of an event before it.
    last_before: Option<Gtid>,
    time_before: u64,
    is_past_backup: bool,
    group: Option<Group>,
    /// The end of the last event between transactions.
    boundary: u64,
    files: Vec<PathBuf>,
    start: u64,
    stop: u64,
    transactions: u64,
    reached: LogPosition,
    reached_gtids: BTreeMap<u32, Gtid>,
    ends_early: bool,
}

impl<'a> Walk<'a> {
    fn new(directory: &'a Path, recorded: &'a Recorded, target: &'a Target) -> Self {
        let position = &recorded.position;
        let by_domain = recorded.gtids.iter().map(|gtid| (gtid.domain, *gtid));
        Self {
            directory,
            recorded,
            target,
            name: position.file.clone(),
            path: PathBuf::new(),
            state: BTreeMap::new(),
            newest: BTreeMap::new(),
            last_before: None,
            time_before: 0,
            is_past_backup: false,
            group: None,
            boundary: 0,
            files: Vec::new(),
            start: position.offset,
            stop: position.offset,
            transactions: 0,
            reached: position.clone(),
            reached_gtids: by_domain.collect(),
            ends_early: false,
        }
    }

    fn finish(self) -> Plan {
        Plan {
            files: self.files,
            start: self.start,
            stop: self.stop,
            transactions: self.transactions,
            reached: self.reached,
            gtids: self.reached_gtids.into_values().collect(),
            ends_early: self.ends_early,
        }
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            self.path = self.directory.join(self.name.to_string());
            if !self.path.exists() {
                return refused(format!(
                    "the file {} of the binary log is missing in {}",
                    self.name,
                    self.directory.display()
                ));
            }
            let mut events = Events::open(&self.path)?;
            let mut following = None;
            while let Some(event) = events.next()? {
                if let Kind::Rotate(name) = &event.kind {
                    following = Some(name.clone());
                }
                if self.event(&event)? == Step::Reached {
                    return Ok(());
                }
            }
            if self.end_of_file(events.offset())? == Step::Reached {
                return Ok(());
            }
            let next = self.name.next();
            let is_last = !self.directory.join(next.to_string()).exists();
            if is_last && following.is_none() && !self.has_later_files()? {
                return self.end_of_log();
            }
            if following.is_some_and(|following| following != next) {
                return refused(format!("{} is not followed by {next}", self.path.display()));
            }
            self.name = next;
        }
    }

    /// Whether there are files of the log after a gap.
    fn has_later_files(&self) -> io::Result<bool> {
        for entry in std::fs::read_dir(self.directory)? {
            let name = entry?.file_name();
            let name: Option<LogName> = name.to_str().and_then(|name| name.parse().ok());
            if name
                .is_some_and(|name| name.base == self.name.base && name.number > self.name.number)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn event(&mut self, event: &Event) -> io::Result<Step> {
        match &event.kind {
            Kind::Statement | Kind::End | Kind::Part => {
                let Some(group) = &mut self.group else {
                    return refused(format!(
                        "{} has an event without a GTID at byte {}: it is not the binary log of a MariaDB server",
                        self.path.display(),
                        event.start
                    ));
                };
                group.end = event.end;
                group.time = group.time.max(event.time);
                group.is_complete |= match event.kind {
                    Kind::End => true,
                    Kind::Statement => group.is_standalone,
                    _ => false,
                };
                return Ok(Step::Continue);
            }
            _ => {}
        }
        if self.between(event.start)? == Step::Reached {
            return Ok(Step::Reached);
        }
        match &event.kind {
            Kind::GtidList(list) => self.check_list(list)?,
            Kind::Begin {
                gtid,
                is_standalone,
            } => {
                self.group = Some(Group {
                    gtid: Gtid {
                        server: event.server,
                        ..*gtid
                    },
                    start: event.start,
                    end: event.end,
                    time: event.time,
                    is_standalone: *is_standalone,
                    is_complete: false,
                });
            }
            _ => {}
        }
        if !self.is_past_backup && self.group.is_none() {
            self.time_before = self.time_before.max(event.time);
        }
        Ok(Step::Continue)
    }

    fn end_of_file(&mut self, offset: u64) -> io::Result<Step> {
        let step = self.between(offset)?;
        if !self.is_past_backup {
            return refused(format!(
                "{} ends before the position of the backup, {}: it is incomplete, or of another server",
                self.path.display(),
                self.recorded.position
            ));
        }
        Ok(step)
    }

    /// The place between two transactions, or between other events.
    fn between(&mut self, offset: u64) -> io::Result<Step> {
        let incomplete = self.group.as_ref().filter(|group| !group.is_complete);
        let offset = incomplete.map_or(offset, |group| group.start);
        if self.end_group()? == Step::Reached {
            return Ok(Step::Reached);
        }
        let position = &self.recorded.position;
        if !self.is_past_backup && offset >= position.offset {
            if offset > position.offset {
                return refused(format!(
                    "{} has no transaction's end at the position of the backup, {position}: it is of another server",
                    self.path.display(),
                ));
            }
            self.check_recorded()?;
            self.is_past_backup = true;
            if self.check_target()? == Step::Reached {
                return Ok(Step::Reached);
            }
        }
        if let Target::Position(target) = self.target
            && target.file == self.name
            && offset >= target.offset
        {
            if offset > target.offset {
                return refused(format!(
                    "no transaction ends at {target}; the nearest positions are {} and {offset}",
                    self.boundary
                ));
            }
            self.reached = target.clone();
            return Ok(Step::Reached);
        }
        self.boundary = offset;
        Ok(Step::Continue)
    }

    /// Ends the transaction that is read, if it is complete.
    fn end_group(&mut self) -> io::Result<Step> {
        let Some(group) = self.group.take() else {
            return Ok(Step::Continue);
        };
        if !group.is_complete {
            // The server has crashed while it wrote it, or writes it now: it is not committed.
            return Ok(Step::Continue);
        }
        let Group { gtid, time, .. } = group;
        let is_applied = self.is_past_backup;
        if let Target::Time { seconds, .. } = self.target
            && is_applied
            && time >= *seconds
        {
            return Ok(Step::Reached);
        }
        self.state.insert((gtid.domain, gtid.server), gtid.sequence);
        self.newest.insert(gtid.domain, gtid);
        if !is_applied {
            self.last_before = Some(gtid);
            self.time_before = self.time_before.max(time);
            return Ok(Step::Continue);
        }
        if self.transactions == 0 {
            self.start = group.start;
        }
        if self.files.last() != Some(&self.path) {
            // Files without transactions are not needed.
            self.files.push(self.path.clone());
        }
        self.stop = group.end;
        self.transactions += 1;
        self.reached = LogPosition {
            file: self.name.clone(),
            offset: group.end,
        };
        self.reached_gtids.insert(gtid.domain, gtid);
        match self.target {
            Target::Gtid(target) if *target == gtid => Ok(Step::Reached),
            _ => Ok(Step::Continue),
        }
    }

    /// The state of the binary log at the position of the backup must be the one that the backup has recorded.
    fn check_recorded(&self) -> io::Result<()> {
        let recorded = &self.recorded.gtids;
        // A replica's backup also records domains of its primary, which its own log may not have.
        let is_recorded = |gtid: &Gtid| recorded.contains(gtid);
        let has_all = self.newest.values().all(is_recorded);
        if has_all && (recorded.is_empty() || !self.newest.is_empty()) {
            return Ok(());
        }
        let found: Vec<Gtid> = self.newest.values().copied().collect();
        refused(format!(
            "{} is of another server: at the position of the backup, {}, it has {}, and the backup has {}",
            self.path.display(),
            self.recorded.position,
            listed(&found),
            listed(recorded)
        ))
    }

    /// Whether the backup is at the target already, or after it.
    fn check_target(&self) -> io::Result<Step> {
        match self.target {
            Target::Position(_) => Ok(Step::Continue),
            Target::Time { seconds, .. } => match *seconds <= self.time_before {
                true => refused(before_backup(self.target, self.recorded)),
                false => Ok(Step::Continue),
            },
            Target::Gtid(target) => {
                let only = || self.newest.len() == 1 && self.newest.values().any(|of| of == target);
                let last = self.last_before;
                if last == Some(*target) || last.is_none() && only() {
                    return Ok(Step::Reached);
                }
                let newest = self.newest.get(&target.domain);
                match newest.is_some_and(|newest| target.sequence <= newest.sequence) {
                    true => refused(before_backup(self.target, self.recorded)),
                    false => Ok(Step::Continue),
                }
            }
        }
    }

    /// The list at the beginning of a file must be the state at the end of the file before it.
    fn check_list(&mut self, list: &[Gtid]) -> io::Result<()> {
        let state: BTreeMap<(u32, u32), u64> = list
            .iter()
            .map(|gtid| ((gtid.domain, gtid.server), gtid.sequence))
            .collect();
        let newest = list.iter().map(|gtid| (gtid.domain, *gtid)).collect();
        if self.name == self.recorded.position.file {
            (self.state, self.newest) = (state, newest);
            return Ok(());
        }
        // FLUSH BINARY LOGS DELETE_DOMAIN_ID removes whole domains.
        let is_deleted = |domain: u32| !list.is_empty() && !newest.contains_key(&domain);
        let kept = self
            .state
            .iter()
            .filter(|((domain, _), _)| !is_deleted(*domain));
        let kept: BTreeMap<(u32, u32), u64> = kept.map(|(at, sequence)| (*at, *sequence)).collect();
        if kept != state {
            let before: Vec<Gtid> = self.newest.values().copied().collect();
            return refused(format!(
                "{} does not continue the file before it: it begins after {}, and that file ends at {}",
                self.path.display(),
                listed(list),
                listed(&before)
            ));
        }
        (self.state, self.newest) = (state, newest);
        Ok(())
    }

    /// There are no more files.
    fn end_of_log(&mut self) -> io::Result<()> {
        let end = LogPosition {
            file: self.name.clone(),
            offset: self.boundary,
        };
        match self.target {
            Target::Time { .. } => {
                self.ends_early = true;
                Ok(())
            }
            Target::Position(target) if target.file == self.name => {
                refused(format!("the binary log ends at {end}, before {target}"))
            }
            Target::Position(target) => refused(format!(
                "the file {} of the binary log is missing in {}: the last one is {}",
                target.file,
                self.directory.display(),
                self.name
            )),
            Target::Gtid(target) => {
                let newest: Vec<Gtid> = self.newest.values().copied().collect();
                refused(format!(
                    "there is no transaction {target} in the binary log after the backup; it ends at {end} with {}",
                    listed(&newest)
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests;
