//! Reading rows: exact look-ups and scans, with and without locks.
//!
//! A plain read sees the transaction's snapshot. A locking read sees the newest
//! committed rows:
//! 1. The tree's cursor runs with a view that notes undecided foreign writes.
//! 2. When a step met one, the reader waits until it is decided and repeats the
//!    step from where it stood; so no uncommitted row is passed over.
//! 3. On the primary index the row found is locked under its latch, and read
//!    again, because it may have changed before the lock was held. A row that
//!    is gone then is skipped and its lock given up.
//!
//! A cursor may be told to keep what it sees as it is until the transaction
//! ends ([`Cursor::set_keeps_rows`]). Scans of the primary index do it by the
//! ranges that they mark, so a long one needs no lock for each row.
//!
//! With SKIP LOCKED nothing is waited for: an entry whose writer is undecided
//! is read in its last committed version, and a row that another transaction
//! writes or has locked is passed over.
//!
//! A semi-consistent scan of the primary index does not wait either: it returns
//! the last committed version of such a row, without its lock. Who wants the
//! row seeks it again, waiting ([`Cursor::set_semi_consistent`]).

mod locking;
mod marks;

use self::locking::Look;
use self::marks::Marks;
use crate::error::{EngineError, EngineResult};
use crate::table::Index;
use crate::tables::TableHandle;
use crate::transaction::{EngineTransaction, Isolation};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::bytes::prefix_successor;
use teak_transactions::ViewKind;
use teak_transactions::{LockId, LockMode, RangeLockKind, ReadView};
use teak_tree::{TreeCursor, key_order};

/// How a cursor reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// The transaction's snapshot.
    Snapshot,
    /// Newest committed rows, locked against writers.
    Shared,
    /// Newest committed rows, locked against everybody who locks or writes.
    Exclusive,
}

impl ReadMode {
    fn lock_mode(self) -> Option<LockMode> {
        match self {
            Self::Snapshot => None,
            Self::Shared => Some(LockMode::Shared),
            Self::Exclusive => Some(LockMode::Exclusive),
        }
    }
}

/// Where a seek goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The first key at or after the given one.
    AtOrAfter,
    /// The first key after all that start with the given bytes.
    AfterPrefix,
    /// The last key before the given one.
    Before,
    /// The last key that starts with the given bytes or is before them.
    AtOrBeforePrefix,
}

/// A row found; borrowed until the cursor is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// Where the row that is returned lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    /// In the tree's cursor.
    Cursor,
    /// In the cursor's own buffers.
    Buffer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Motion {
    Forward,
    Backward,
}

/// A cursor over one index of a table.
pub struct Cursor {
    index: Arc<Index>,
    table: Arc<crate::table::Table>,
    place: u32,
    mode: ReadMode,
    view: Option<Arc<ReadView>>,
    view_serial: u64,
    tree: Option<TreeCursor<Arc<ReadView>>>,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
    /// The last key that the tree's cursor stood on, for locking reads and
    /// after a change of view.
    position: Vec<u8>,
    value: Vec<u8>,
    found: Found,
    /// The key of the last get, which leaves the position of a scan alone.
    got: Vec<u8>,
    /// The lock of the row returned last.
    locked: Option<LockId>,
    /// Rows that others have locked or are writing are passed over.
    skip_locked: bool,
    /// Rows that others have locked or are writing are returned as they were
    /// committed last.
    semi_consistent: bool,
    /// The row returned last is such a one.
    unlocked: bool,
    /// What was seen stays as it is, also where it is unlocked.
    keeps_rows: bool,
    /// The row returned last was met by a scan, not looked for.
    scanned: bool,
    /// For locking reads that no row may slip into: what they looked at.
    marks: Option<Marks>,
}

impl EngineTransaction {
    /// Opens a cursor. What it sees is decided at its first use.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no such index.
    pub fn cursor(
        &mut self,
        table: &TableHandle,
        index: u32,
        mode: ReadMode,
    ) -> EngineResult<Cursor> {
        Ok(Cursor {
            index: table.index(index)?,
            table: Arc::clone(&table.table),
            place: index,
            mode,
            view: None,
            view_serial: 0,
            tree: None,
            lower: None,
            upper: None,
            position: Vec::new(),
            value: Vec::new(),
            found: Found::Nothing,
            got: Vec::new(),
            locked: None,
            skip_locked: false,
            semi_consistent: false,
            unlocked: false,
            keeps_rows: false,
            scanned: false,
            marks: (mode != ReadMode::Snapshot && self.isolation >= Isolation::RepeatableRead)
                .then(Marks::default),
        })
    }
}

impl Cursor {
    /// Every row returned from now on has `lower <= key < upper`; `None` is
    /// unbounded. In the middle of a scan the position stays: the next step goes
    /// from there to the nearest key within the bounds, or finds nothing.
    pub fn set_bounds(&mut self, lower: Option<&[u8]>, upper: Option<&[u8]>) {
        if self.found != Found::Nothing {
            // Steps from a saved position look at both bounds.
            self.save_position();
            self.found = Found::Buffer;
        }
        copy_bound(&mut self.lower, lower);
        copy_bound(&mut self.upper, upper);
        self.limit_tree();
    }

    /// Whether a locking read passes over rows that others have locked or are
    /// writing, instead of waiting for them (SKIP LOCKED). At first it waits.
    pub fn set_skip_locked(&mut self, skip: bool) {
        self.skip_locked = skip;
    }

    /// Whether a scan of the primary index returns rows that others have locked
    /// or are writing as they were committed last, and unlocked, instead of
    /// waiting for them. Not where reads mark ranges: there nothing may change
    /// that was looked at.
    pub fn set_semi_consistent(&mut self, semi_consistent: bool) {
        self.semi_consistent = semi_consistent && self.place == 0 && self.marks.is_none();
    }

    /// Whether the row returned last is a last committed version, and not
    /// locked. Whoever wants it seeks it again, not semi-consistently.
    #[must_use]
    pub fn is_unlocked(&self) -> bool {
        self.unlocked
    }

    /// Lets a locking read mark what it looked at under any isolation. Without
    /// this it does from REPEATABLE READ on. To be called before the first read.
    pub fn mark_ranges(&mut self) {
        if self.mode != ReadMode::Snapshot && self.marks.is_none() {
            self.marks = Some(Marks::default());
        }
    }

    /// Whether nobody may change what a locking read looked at until the
    /// transaction ends, also what it gave up by [`Cursor::unlock`]. Only
    /// where reads mark ranges; to be set before the first row is read.
    pub fn set_keeps_rows(&mut self, keeps: bool) {
        self.keeps_rows = keeps && self.marks.is_some();
    }

    /// The row of exactly this key, if that lies within the bounds. Positions
    /// nothing.
    ///
    /// # Errors
    /// `Wait`, `Storage`.
    pub fn get(
        &mut self,
        transaction: &mut EngineTransaction,
        key: &[u8],
    ) -> EngineResult<Option<Row<'_>>> {
        transaction.check_interrupt()?;
        self.refresh(transaction)?;
        self.locked = None;
        self.unlocked = false;
        self.scanned = false;
        let bounds = (self.lower.as_deref(), self.upper.as_deref());
        if bounds.0.is_some_and(|lower| key < lower) || bounds.1.is_some_and(|upper| key >= upper) {
            return Ok(None);
        }
        let live = match self.mode.lock_mode() {
            None => {
                self.ensure_view(transaction)?;
                let Some(view) = &self.view else {
                    return Err(no_tree());
                };
                let got = self.index.tree.get_into(key, &**view, &mut self.value);
                transaction.inner.checked(&self.index, got)?
            }
            Some(mode) => {
                let waits = !self.skip_locked;
                let mut look = self.read_locked(transaction, key, mode, waits)?;
                if look != Look::Live && self.mark_absent(transaction, key)? {
                    look = self.read_locked(transaction, key, mode, waits)?;
                }
                look == Look::Live
            }
        };
        if !live {
            return Ok(None);
        }
        self.got.clear();
        self.got.extend_from_slice(key);
        Ok(Some(Row {
            key: &self.got,
            value: &self.value,
        }))
    }

    /// Moves to the first or last key of the bounds.
    ///
    /// # Errors
    /// `Wait`, `Storage`.
    pub fn first(&mut self, transaction: &mut EngineTransaction) -> EngineResult<Option<Row<'_>>> {
        self.position(transaction, Motion::Forward, None)
    }

    /// Moves to the last key of the bounds.
    ///
    /// # Errors
    /// `Wait`, `Storage`.
    pub fn last(&mut self, transaction: &mut EngineTransaction) -> EngineResult<Option<Row<'_>>> {
        self.position(transaction, Motion::Backward, None)
    }

    /// Moves to a key near the given one.
    ///
    /// # Errors
    /// `Wait`, `Storage`.
    pub fn seek(
        &mut self,
        transaction: &mut EngineTransaction,
        key: &[u8],
        seek: Seek,
    ) -> EngineResult<Option<Row<'_>>> {
        match seek {
            Seek::AtOrAfter => self.position(transaction, Motion::Forward, Some(key)),
            Seek::Before => self.position(transaction, Motion::Backward, Some(key)),
            Seek::AfterPrefix => match prefix_successor(key) {
                Some(next) => self.position(transaction, Motion::Forward, Some(&next)),
                None => {
                    self.found = Found::Nothing;
                    Ok(None)
                }
            },
            Seek::AtOrBeforePrefix => {
                let next = prefix_successor(key);
                self.position(transaction, Motion::Backward, next.as_deref())
            }
        }
    }

    /// Moves to the next key.
    ///
    /// # Errors
    /// `Wait`, `Storage`.
    #[inline]
    pub fn next(&mut self, transaction: &mut EngineTransaction) -> EngineResult<Option<Row<'_>>> {
        self.step(transaction, Motion::Forward)
    }

    /// Moves to the previous key.
    ///
    /// # Errors
    /// `Wait`, `Storage`.
    pub fn previous(
        &mut self,
        transaction: &mut EngineTransaction,
    ) -> EngineResult<Option<Row<'_>>> {
        self.step(transaction, Motion::Backward)
    }

    /// Gives up the lock of the row returned last.
    ///
    /// # Errors
    /// `Internal` after the end of the transaction.
    pub fn unlock(&mut self, transaction: &mut EngineTransaction) -> EngineResult<()> {
        if let Some(lock) = self.locked.take() {
            if self.keeps_rows && !(self.scanned && self.keeps() == RangeLockKind::Write) {
                return Ok(());
            }
            let parts = transaction.parts()?;
            parts.inner.transactions.unlock(parts.core, lock);
        }
        Ok(())
    }

    /// Takes up a new view or, after a truncation, a new tree.
    fn refresh(&mut self, transaction: &mut EngineTransaction) -> EngineResult<()> {
        if self.index.is_gone() {
            let indexes = self.table.indexes.load();
            let place = usize::try_from(self.place).unwrap_or(usize::MAX);
            if let Some(index) = indexes.get(place)
                && !Arc::ptr_eq(index, &self.index)
            {
                self.index = Arc::clone(index);
                self.tree = None;
            }
        }
        if self.view.is_some() && self.view_serial != transaction.view_serial {
            self.view = None;
            self.tree = None;
        }
        Ok(())
    }

    fn ensure_view(&mut self, transaction: &mut EngineTransaction) -> EngineResult<()> {
        if self.view.is_none() {
            self.view = Some(match self.mode {
                ReadMode::Snapshot => transaction.view()?,
                _ => transaction.newest_view()?,
            });
            self.view_serial = transaction.view_serial;
        }
        if let Some(view) = &self.view
            && let ViewKind::Snapshot(snapshot) = view.kind()
            && snapshot.0 < self.index.born.load(Ordering::Relaxed)
        {
            return Err(EngineError::TableChanged);
        }
        Ok(())
    }

    /// A locking read waits for undecided writes within its bounds only.
    fn limit_tree(&mut self) {
        if self.mode == ReadMode::Snapshot {
            return;
        }
        if let Some(tree) = &mut self.tree {
            tree.set_limits(self.lower.as_deref(), self.upper.as_deref());
        }
    }

    fn ensure_tree(&mut self, transaction: &mut EngineTransaction) -> EngineResult<()> {
        self.ensure_view(transaction)?;
        if let (None, Some(view)) = (&self.tree, &self.view) {
            let mut tree = self.index.tree.cursor(Arc::clone(view));
            // A plain reader that has written nothing sees a fixed state.
            tree.follow_inserts(self.mode != ReadMode::Snapshot || transaction.has_writes());
            self.tree = Some(tree);
            self.limit_tree();
        }
        Ok(())
    }

    fn position(
        &mut self,
        transaction: &mut EngineTransaction,
        motion: Motion,
        key: Option<&[u8]>,
    ) -> EngineResult<Option<Row<'_>>> {
        transaction.check_interrupt()?;
        self.refresh(transaction)?;
        self.ensure_tree(transaction)?;
        self.found = Found::Nothing;
        self.locked = None;
        self.unlocked = false;
        loop {
            let Some(tree) = &mut self.tree else {
                return Err(no_tree());
            };
            let moved = match motion {
                Motion::Forward => match later(key, self.lower.as_deref()) {
                    Some(from) => tree.seek(from),
                    None => tree.seek_first(),
                },
                Motion::Backward => match earlier(key, self.upper.as_deref()) {
                    Some(before) => tree.seek_before(before),
                    None => tree.seek_last(),
                },
            };
            let moved = transaction.inner.checked(&self.index, moved)?;
            if self.index.tree.slows_readers() {
                transaction.inner.background.wake_flushers();
            }
            if !self.wait_for_met(transaction)?
                && self.is_marked(transaction, motion, key, moved)?
            {
                return self.settle(transaction, motion, moved);
            }
        }
    }

    fn step(
        &mut self,
        transaction: &mut EngineTransaction,
        motion: Motion,
    ) -> EngineResult<Option<Row<'_>>> {
        transaction.check_interrupt()?;
        if self.found == Found::Nothing {
            return Ok(None);
        }
        if self.mode == ReadMode::Snapshot
            && self.found == Found::Cursor
            && self.view_serial == transaction.view_serial
        {
            let Some(tree) = &mut self.tree else {
                return Err(no_tree());
            };
            let moved = match motion {
                Motion::Forward => tree.next(),
                Motion::Backward => tree.previous(),
            };
            let moved = transaction.inner.checked(&self.index, moved)?;
            return self.settle(transaction, motion, moved);
        }
        self.step_from_position(transaction, motion)
    }

    /// A step that starts at the saved position: of a locking read, after a
    /// get, or after the view changed.
    fn step_from_position(
        &mut self,
        transaction: &mut EngineTransaction,
        motion: Motion,
    ) -> EngineResult<Option<Row<'_>>> {
        self.save_position();
        self.refresh(transaction)?;
        self.ensure_tree(transaction)?;
        self.locked = None;
        self.unlocked = false;
        self.advance(transaction, motion)
    }

    /// Moves past the saved position until a row is found.
    fn advance(
        &mut self,
        transaction: &mut EngineTransaction,
        motion: Motion,
    ) -> EngineResult<Option<Row<'_>>> {
        loop {
            let Some(tree) = &mut self.tree else {
                return Err(no_tree());
            };
            let there = tree.valid() && tree.key() == self.position;
            // New bounds may have left the position behind.
            let lower = self
                .lower
                .as_deref()
                .filter(|lower| *lower > &*self.position);
            let upper = self
                .upper
                .as_deref()
                .filter(|upper| *upper <= &*self.position);
            let moved = match (motion, there, lower, upper) {
                (Motion::Forward, _, Some(lower), _) => tree.seek(lower),
                (Motion::Backward, _, _, Some(upper)) => tree.seek_before(upper),
                (Motion::Forward, true, ..) => tree.next(),
                (Motion::Backward, true, ..) => tree.previous(),
                (Motion::Backward, false, ..) => tree.seek_before(&self.position),
                (Motion::Forward, false, ..) => {
                    // The first key after the position has a zero byte more.
                    self.position.push(0);
                    let moved = tree.seek(&self.position);
                    self.position.pop();
                    moved
                }
            };
            let moved = transaction.inner.checked(&self.index, moved)?;
            if self.wait_for_met(transaction)? {
                continue;
            }
            let from = std::mem::take(&mut self.position);
            let marked = self.is_marked(transaction, motion, Some(&from), moved);
            self.position = from;
            if !marked? {
                continue;
            }
            if !moved || !self.within(motion) {
                self.found = Found::Nothing;
                return Ok(None);
            }
            self.found = Found::Cursor;
            if self.lock_found(transaction)? {
                return Ok(self.row());
            }
            transaction.check_interrupt()?;
        }
    }

    /// After a seek or a plain step: bounds, then the lock.
    #[inline]
    fn settle(
        &mut self,
        transaction: &mut EngineTransaction,
        motion: Motion,
        moved: bool,
    ) -> EngineResult<Option<Row<'_>>> {
        if !moved || !self.within(motion) {
            self.found = Found::Nothing;
            return Ok(None);
        }
        self.found = Found::Cursor;
        if self.mode == ReadMode::Snapshot || self.lock_found(transaction)? {
            return Ok(self.row());
        }
        self.advance(transaction, motion)
    }

    fn row(&self) -> Option<Row<'_>> {
        match self.found {
            Found::Nothing => None,
            Found::Buffer => Some(Row {
                key: &self.position,
                value: &self.value,
            }),
            Found::Cursor => self.tree.as_ref().map(|tree| Row {
                key: tree.key(),
                value: tree.value(),
            }),
        }
    }

    fn save_position(&mut self) {
        if self.found == Found::Cursor
            && let Some(tree) = &self.tree
            && tree.valid()
        {
            self.position.clear();
            self.position.extend_from_slice(tree.key());
        }
    }

    /// Whether the key found lies within the bound that the motion nears.
    #[inline]
    fn within(&self, motion: Motion) -> bool {
        let Some(tree) = &self.tree else {
            return false;
        };
        match motion {
            Motion::Forward => self
                .upper
                .as_deref()
                .is_none_or(|upper| key_order(tree.key(), upper).is_lt()),
            Motion::Backward => self
                .lower
                .as_deref()
                .is_none_or(|lower| key_order(tree.key(), lower).is_ge()),
        }
    }
}

fn copy_bound(bound: &mut Option<Vec<u8>>, new: Option<&[u8]>) {
    match (bound.as_mut(), new) {
        (Some(bound), Some(new)) => {
            bound.clear();
            bound.extend_from_slice(new);
        }
        (_, new) => *bound = new.map(<[u8]>::to_vec),
    }
}

fn later<'a>(a: Option<&'a [u8]>, b: Option<&'a [u8]>) -> Option<&'a [u8]> {
    a.max(b)
}

fn earlier<'a>(a: Option<&'a [u8]>, b: Option<&'a [u8]>) -> Option<&'a [u8]> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn no_tree() -> EngineError {
    EngineError::Internal("the cursor has no tree".into())
}
