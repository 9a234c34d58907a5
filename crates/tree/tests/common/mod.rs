//! A model of one index with its transactions, and a tree that receives the
//! same operations.
//!
//! The model retains every version of every key in a list. Like the locks of the engine, it rejects
//! a write of a key (or of a range that contains it) if another active write has written the key.

pub mod amplification;
pub mod committed;
pub mod loads;
pub mod settled;
pub mod text_rows;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use teak_base::{CommitSequence, FileId, Lsn, Operation, TransactionId, WriteId};
use teak_disk::Disk;
use teak_tree::{
    Horizon, PageCache, SpaceAction, SpaceGoal, StoredValue, Tree, TreeOptions, Visibility, Visit,
    WriteStatus,
};

/// A small generator of random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// The statuses of all writes, shared with views and horizons.
#[derive(Debug, Default)]
pub struct Statuses {
    by_id: Mutex<Vec<WriteStatus>>,
}

impl Statuses {
    pub fn get(&self, id: WriteId) -> WriteStatus {
        self.by_id.lock().unwrap()[id.0 as usize - 1]
    }
    pub fn is_known(&self, id: WriteId) -> bool {
        id.0 <= self.by_id.lock().unwrap().len() as u64
    }
    /// The first active id, or the next unused one.
    pub fn decided_below(&self) -> WriteId {
        let statuses = self.by_id.lock().unwrap();
        let is_active = |status: &WriteStatus| matches!(status, WriteStatus::Active(_));
        let active = statuses.iter().position(is_active);
        WriteId(active.unwrap_or(statuses.len()) as u64 + 1)
    }
    pub fn begin(&self) -> WriteId {
        let mut statuses = self.by_id.lock().unwrap();
        statuses.push(WriteStatus::Active(TransactionId(1)));
        WriteId(statuses.len() as u64)
    }
    pub fn set(&self, id: WriteId, status: WriteStatus) {
        self.by_id.lock().unwrap()[id.0 as usize - 1] = status;
    }
}

/// The visibility of a reader at a snapshot, optionally with its own write.
#[derive(Clone, Debug)]
pub struct View {
    pub snapshot: CommitSequence,
    pub own: Option<WriteId>,
    pub statuses: Arc<Statuses>,
}

impl Visibility for View {
    fn is_visible(&self, id: WriteId) -> bool {
        match self.statuses.get(id) {
            WriteStatus::Committed(at) => at <= self.snapshot,
            WriteStatus::Active(_) => self.own == Some(id),
            WriteStatus::Aborted => false,
        }
    }
    fn hides_all(&self, min: WriteId, max: WriteId) -> bool {
        max.0 - min.0 < 8
            && (min.0..=max.0).all(|id| match self.statuses.get(WriteId(id)) {
                WriteStatus::Committed(at) => at > self.snapshot,
                WriteStatus::Active(_) => self.own != Some(WriteId(id)),
                WriteStatus::Aborted => true,
            })
    }
}

pub struct HorizonNow {
    pub snapshots: Vec<CommitSequence>,
    pub statuses: Arc<Statuses>,
}

impl Horizon for HorizonNow {
    fn status(&self, id: WriteId) -> WriteStatus {
        self.statuses.get(id)
    }
    fn snapshots(&self) -> &[CommitSequence] {
        &self.snapshots
    }
    fn decided_below(&self) -> WriteId {
        self.statuses.decided_below()
    }
    fn may_have_aborted(&self, min: WriteId, max: WriteId) -> bool {
        let mut ids = (min.0..=max.0).map(WriteId);
        ids.any(|id| self.statuses.get(id) == WriteStatus::Aborted)
    }
}

/// One logged operation.
#[derive(Clone, Debug)]
pub enum Logged {
    Write(WriteId, Operation, Vec<u8>, Vec<u8>),
    DeleteRange(WriteId, Vec<u8>, Vec<u8>),
}

/// Options of trees whose leaves have some thousand entries.
pub fn options_of_large_leaves() -> TreeOptions {
    TreeOptions {
        page_bytes: 4096,
        leaf_bytes: 256 << 10,
        child_buffer_bytes: 1 << 20,
        run_bytes_max: 1 << 20,
        leaf_runs_max: 6,
        child_runs_max: 8,
        ..TreeOptions::tiny()
    }
}

pub fn key(number: usize) -> Vec<u8> {
    // Keys of different lengths; some have a common prefix.
    let mut key = if number.is_multiple_of(3) {
        b"common-".to_vec()
    } else {
        Vec::new()
    };
    key.extend_from_slice(format!("{number:05}").as_bytes());
    if number.is_multiple_of(5) {
        key.extend_from_slice(b"-longer");
    }
    key
}

type Versions = Vec<(WriteId, Operation, Vec<u8>)>;

/// The model.
pub struct Model {
    pub statuses: Arc<Statuses>,
    /// Versions of each possible key, oldest first.
    pub versions: BTreeMap<Vec<u8>, Versions>,
    pub active: Vec<WriteId>,
    pub published: u64,
    pub snapshots: Vec<CommitSequence>,
    /// Keys that active writes have written, also by range deletions.
    locked: BTreeMap<Vec<u8>, WriteId>,
    /// The writes that have deleted ranges. A merge drops an active range tombstone from keys
    /// without entries.
    range_deletes: BTreeSet<WriteId>,
    pub log: Vec<Logged>,
}

impl Model {
    pub fn new(keys: usize) -> Self {
        Self {
            statuses: Arc::default(),
            versions: (0..keys).map(|k| (key(k), Vec::new())).collect(),
            active: Vec::new(),
            published: 1,
            snapshots: Vec::new(),
            locked: BTreeMap::new(),
            range_deletes: BTreeSet::new(),
            log: Vec::new(),
        }
    }

    /// The first id that is active, or committed but not visible to some snapshot; the next unused
    /// id if there is none.
    pub fn settled_below(&self) -> WriteId {
        let horizon = self.horizon();
        let oldest = horizon.snapshots()[0];
        let mut id = WriteId(1);
        while self.statuses.is_known(id)
            && match horizon.status(id) {
                WriteStatus::Active(_) => false,
                WriteStatus::Committed(at) => at <= oldest,
                WriteStatus::Aborted => true,
            }
        {
            id.0 += 1;
        }
        id
    }

    pub fn horizon(&self) -> HorizonNow {
        let mut snapshots = self.snapshots.clone();
        snapshots.push(CommitSequence(self.published));
        snapshots.sort();
        HorizonNow {
            snapshots,
            statuses: Arc::clone(&self.statuses),
        }
    }

    fn may_write(&self, id: WriteId, key: &[u8]) -> bool {
        self.locked.get(key).is_none_or(|owner| *owner == id)
    }

    /// Adds a version, unless another active write has written the key. Returns whether it was
    /// added.
    pub fn write(&mut self, id: WriteId, operation: Operation, key: &[u8], value: &[u8]) -> bool {
        if !self.may_write(id, key) {
            return false;
        }
        self.locked.insert(key.to_vec(), id);
        let versions = self.versions.get_mut(key).unwrap();
        versions.push((id, operation, value.to_vec()));
        let logged = Logged::Write(id, operation, key.to_vec(), value.to_vec());
        self.log.push(logged);
        true
    }

    pub fn delete_range(&mut self, id: WriteId, start: &[u8], end: &[u8]) -> bool {
        let within: Vec<Vec<u8>> = self
            .versions
            .keys()
            .filter(|key| start <= key.as_slice() && (end.is_empty() || key.as_slice() < end))
            .cloned()
            .collect();
        if !within.iter().all(|key| self.may_write(id, key)) {
            return false;
        }
        for key in within {
            self.locked.insert(key.clone(), id);
            let versions = self.versions.get_mut(&key).unwrap();
            versions.push((id, Operation::Delete, Vec::new()));
        }
        self.range_deletes.insert(id);
        let logged = Logged::DeleteRange(id, start.to_vec(), end.to_vec());
        self.log.push(logged);
        true
    }

    pub fn begin(&mut self) -> WriteId {
        let id = self.statuses.begin();
        self.active.push(id);
        id
    }

    pub fn decide(&mut self, id: WriteId, commit: bool) {
        self.active.retain(|active| *active != id);
        self.locked.retain(|_, owner| *owner != id);
        if commit {
            self.published += 1;
            let at = CommitSequence(self.published);
            self.statuses.set(id, WriteStatus::Committed(at));
        } else {
            self.statuses.set(id, WriteStatus::Aborted);
        }
    }

    pub fn view(&self, random: &mut Random) -> View {
        let mut snapshots = self.snapshots.clone();
        snapshots.push(CommitSequence(self.published));
        let snapshot = snapshots[random.below(snapshots.len())];
        let own = match self.active.len() {
            0 => None,
            len => Some(self.active[random.below(len)]).filter(|_| random.one_in(2)),
        };
        View {
            snapshot,
            own,
            statuses: Arc::clone(&self.statuses),
        }
    }

    pub fn get(&self, key: &[u8], view: &View) -> Option<Vec<u8>> {
        let versions = self.versions.get(key)?.iter().rev();
        let mut seen = versions.filter(|(id, ..)| view.is_visible(*id));
        let (_, operation, value) = seen.next()?;
        (*operation == Operation::Put).then(|| value.clone())
    }

    pub fn scan(&self, view: &View) -> Vec<(Vec<u8>, Vec<u8>)> {
        let keys = self.versions.keys();
        keys.filter_map(|key| Some((key.clone(), self.get(key, view)?)))
            .collect()
    }
}

/// A tree, and the state needed to open it again.
pub struct Subject {
    pub disk: Arc<dyn Disk>,
    pub path: PathBuf,
    pub cache: Arc<PageCache>,
    pub tree: Arc<Tree>,
    pub durable: Lsn,
    node_bytes_max: u64,
}

impl Subject {
    pub fn create(disk: Arc<dyn Disk>, options: TreeOptions) -> Self {
        let path = Path::new("/t/index.teak").to_path_buf();
        disk.create_directories(Path::new("/t")).unwrap();
        let cache = Arc::new(PageCache::new(64 * 1024));
        let tree = Tree::create(&disk, &path, FileId(7), options, &cache).unwrap();
        disk.sync_directory(Path::new("/t")).unwrap();
        Self {
            disk,
            path,
            cache,
            tree,
            durable: Lsn(0),
            node_bytes_max: u64::MAX,
        }
    }

    /// Evicts nodes above this number of bytes, also after the file is opened again.
    pub fn limit_nodes(&mut self, bytes: u64) {
        self.node_bytes_max = bytes;
        self.cache.nodes().set_bytes_max(bytes);
    }

    pub fn apply(&self, lsn: Lsn, logged: &Logged) {
        let guard = self.tree.write_guard();
        guard.set_lsn(lsn);
        match logged {
            Logged::Write(id, operation, key, value) => guard.insert(*id, *operation, key, value),
            Logged::DeleteRange(id, start, end) => guard.delete_range(*id, start, end),
        }
    }

    /// Applies the newest operation of the log.
    pub fn apply_last(&self, model: &Model) {
        let last = model.log.len() - 1;
        self.apply(Lsn(last as u64), &model.log[last]);
    }

    pub fn checkpoint(&mut self) -> teak_base::StorageResult<()> {
        self.durable = self.tree.checkpoint(&|_| Ok(()))?;
        Ok(())
    }

    /// Opens the file again, as after a crash, and replays the log.
    pub fn reopen(&mut self, model: &Model) {
        self.open_again();
        assert_eq!(self.tree.flushed_lsn(), self.durable);
        self.repeat_log(model);
    }

    pub fn open_again(&mut self) {
        self.cache = Arc::new(PageCache::new(64 * 1024));
        self.cache.nodes().set_bytes_max(self.node_bytes_max);
        let opened = Tree::open(&self.disk, &self.path, Some(FileId(7)), &self.cache);
        self.tree = opened.unwrap();
    }

    /// Applies the operations of the log that the file does not contain.
    pub fn repeat_log(&mut self, model: &Model) {
        self.durable = self.tree.flushed_lsn();
        for (lsn, logged) in model.log.iter().enumerate() {
            if lsn as u64 >= self.durable.0 {
                self.apply(Lsn(lsn as u64), logged);
            }
        }
    }

    pub fn freeze(&self, model: &Model) {
        self.tree.freeze(|| Lsn(model.log.len() as u64));
    }
}

/// Applies a random write of an active id to the model and to the tree.
pub fn random_write(random: &mut Random, model: &mut Model, subject: &Subject, keys: usize) {
    let id = match model.active.len() {
        0 => model.begin(),
        len => model.active[random.below(len)],
    };
    let number = model.log.len();
    let target = key(random.below(keys));
    let allowed = match random.below(100) {
        0..3 => {
            let mut start = key(random.below(keys));
            let mut end = key(random.below(keys));
            if start > end {
                std::mem::swap(&mut start, &mut end);
            }
            if random.one_in(10) {
                end.clear();
            }
            (end.is_empty() || start < end) && model.delete_range(id, &start, &end)
        }
        3..20 => model.write(id, Operation::Delete, &target, &[]),
        _ => {
            let mut value = number.to_string().into_bytes();
            let more = match random.below(100) {
                0 => 3000,
                1..10 => 300,
                _ => random.below(20),
            };
            value.extend(std::iter::repeat_n(b'.', more));
            model.write(id, Operation::Put, &target, &value)
        }
    };
    if allowed {
        subject.apply_last(model);
    }
}

/// Compares all rows that a view sees, by lookups and by scans in both directions.
pub fn compare_all(model: &Model, subject: &Subject, view: &View) {
    let expected = model.scan(view);
    let mut cursor = subject.tree.cursor(view.clone());
    let mut found = Vec::new();
    let mut more = cursor.seek_first().unwrap();
    while more {
        found.push((cursor.key().to_vec(), cursor.value().unwrap().to_vec()));
        more = cursor.next().unwrap();
    }
    assert_same(&found, &expected, view, "forward");
    found.clear();
    let mut more = cursor.seek_last().unwrap();
    while more {
        found.push((cursor.key().to_vec(), cursor.value().unwrap().to_vec()));
        more = cursor.previous().unwrap();
    }
    found.reverse();
    assert_same(&found, &expected, view, "backward");
    for key in model.versions.keys() {
        let found = subject.tree.get(key, view).unwrap();
        assert_eq!(found, model.get(key, view), "get {}", shown(key));
    }
}

pub fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn assert_same(
    found: &[(Vec<u8>, Vec<u8>)],
    expected: &[(Vec<u8>, Vec<u8>)],
    view: &View,
    what: &str,
) {
    if found == expected {
        return;
    }
    let at = found
        .iter()
        .zip(expected)
        .take_while(|(a, b)| a == b)
        .count();
    let show = |row: Option<&(Vec<u8>, Vec<u8>)>| row.map(|r| (shown(&r.0), shown(&r.1)));
    panic!(
        "{what} scan of {view:?} differs at row {at}: found {:?}, expected {:?}",
        show(found.get(at)),
        show(expected.get(at))
    );
}

/// Compares the newest version of each key that was not rolled back: a writer of the key looks it
/// up, to find a conflict. A delete may be absent if it is committed, or a range tombstone, and no
/// snapshot sees a value of the key.
pub fn compare_newest(model: &Model, subject: &Subject) {
    let statuses = &model.statuses;
    let is_live = |id: WriteId| id.is_settled() || statuses.get(id) != WriteStatus::Aborted;
    for (key, versions) in &model.versions {
        let mut found = None;
        let visitor = &mut |id: WriteId, operation, _: StoredValue<'_>| {
            if !is_live(id) {
                return Visit::Continue;
            }
            found = Some((id, operation));
            Visit::Stop
        };
        subject.tree.visit(key, visitor).unwrap();
        let newest = versions.iter().rev().find(|(id, ..)| is_live(*id));
        let newest = newest.map(|(id, operation, _)| (*id, *operation));
        let horizon = model.horizon();
        let snapshots = horizon.snapshots.iter();
        let views = snapshots.map(|&snapshot| View {
            snapshot,
            own: None,
            statuses: Arc::clone(statuses),
        });
        match (found, newest) {
            (Some(found), Some(newest)) if found == newest => {}
            (Some((id, operation)), Some((newest, expected)))
                if id.is_settled() && operation == expected =>
            {
                let oldest = horizon.snapshots()[0];
                let status = statuses.get(newest);
                assert!(matches!(status, WriteStatus::Committed(at) if at <= oldest));
            }
            (None, None) => {}
            (None, Some((id, Operation::Delete))) => {
                let is_committed = matches!(statuses.get(id), WriteStatus::Committed(_));
                assert!(is_committed || model.range_deletes.contains(&id));
                for view in views {
                    assert_eq!(model.get(key, &view), None, "{} {view:?}", shown(key));
                }
            }
            other => panic!("{}: {other:?}", shown(key)),
        }
    }
}

/// Takes all steps towards a goal, as the engine does. Returns the bytes moved.
pub fn reclaim(subject: &mut Subject, goal: SpaceGoal, horizon: &dyn Horizon) -> u64 {
    let mut moved = 0;
    loop {
        let before = subject.tree.file_bytes();
        let mut progress = false;
        match subject.tree.space_action(goal) {
            SpaceAction::Nothing => return moved,
            SpaceAction::Checkpoint => {}
            SpaceAction::Move { mut limit } => {
                while !progress && before > limit + 64 * 1024 {
                    while let Some(job) = subject.tree.next_relocation(limit).unwrap() {
                        let report = job.run(horizon).unwrap();
                        if report.runs_moved + report.runs_written == 0 {
                            break;
                        }
                        progress = true;
                        moved += report.bytes_relocated;
                    }
                    progress |= subject.tree.relocate_nodes(limit).unwrap();
                    // The holes may be too small.
                    limit += (before - limit) / 2;
                }
            }
        }
        subject.checkpoint().unwrap();
        let after = subject.tree.file_bytes();
        if !progress && after >= before {
            return moved;
        }
    }
}
