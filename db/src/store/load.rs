//! Taking stored rows in, before anything is served.
//!
//! Steps are noted in the order they come; of those for one key the last one counts. Sorting them once and building the
//! tree from the outcome is faster than inserting one by one. When there are many more notes than there were rows at
//! the last sorting, they are sorted in between, so a log of endless updates takes no endless memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::record::Record;
use crate::row::{Held, Stored};
use crate::schema::catalogue::Step;
use crate::schema::evolve::Plan;
use crate::store::history::History;

/// Notes that are never worth sorting in between.
const NOTES_MIN: usize = 1 << 16;

/// A table's rows by their keys.
pub(crate) type Rows<R> = BTreeMap<<R as Record>::Key, Stored<R>>;

enum Note<R> {
    Row(Stored<R>),
    Gone,
    /// An upgrade refused it: an error, unless a later step replaces it.
    Refused(Error),
}

pub(crate) struct Loading<R: Record> {
    plan: Option<Plan<R>>,
    notes: Vec<(R::Key, Note<R>)>,
    sort_at: usize,
    last_key: Option<R::Key>,
    /// Rows by their stored keys, while an upgrade gives them others: what happens to them later names the stored one.
    rekeyed: BTreeMap<Vec<u8>, Result<Stored<R>>>,
}

/// Every row that was loaded is certain.
fn loaded<R>(record: R) -> Stored<R> {
    Arc::new(Held { sequence: 0, record })
}

impl<R: Record> Default for Loading<R> {
    fn default() -> Loading<R> {
        Loading { plan: None, notes: Vec::new(), sort_at: NOTES_MIN, last_key: None, rekeyed: BTreeMap::new() }
    }
}

impl<R: Record> Loading<R> {
    pub(crate) fn read_as(&mut self, plan: Plan<R>) -> Result<()> {
        if let Some(former) = self.plan.take()
            && former.is_rekeyed
            && !self.rekeyed.is_empty()
        {
            if !plan.is_rekeyed {
                self.settle_keys()?;
            } else if !plan.has_keys_of(&former) {
                return Err(Error::new(
                    ErrorKind::Schema,
                    format!(
                        "rows of version {} have other keys than those of version {}, and both have to be upgraded",
                        former.version(),
                        plan.version()
                    ),
                )
                .in_table(R::TABLE)
                .remedy("open it once with a program of the version in between"));
            }
        }
        self.plan = Some(plan);
        Ok(())
    }

    /// From here on rows are known by their new keys.
    fn settle_keys(&mut self) -> Result<()> {
        for row in std::mem::take(&mut self.rekeyed).into_values() {
            let row = row?;
            self.note(row.record.key(), Note::Row(row));
        }
        self.notes.sort_by(|one, other| one.0.cmp(&other.0));
        match self.notes.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            None => Ok(()),
            Some(pair) => Err(Error::new(
                ErrorKind::UniqueConflict,
                format!("the upgrade gives two stored rows the same key {:?}", pair[0].0),
            )
            .in_table(R::TABLE)
            .remedy("make the keys of its outcome differ, or delete one of the rows with the former program")),
        }
    }

    /// Notes a step.
    pub(crate) fn step(&mut self, sequence: u64, step: Step<'_>, history: &mut History<R>) -> Result<()> {
        let Some(plan) = &self.plan else { return Ok(()) };
        if plan.is_rekeyed {
            // Changes of rows under other keys mean nothing to who watches the new ones.
            history.begin_at(sequence);
            match step {
                Step::Put(bytes) => drop(self.rekeyed.insert(plan.stored_key(bytes)?, plan.row(bytes).map(loaded))),
                Step::Delete(key) => drop(self.rekeyed.remove(key)),
                Step::Clear => self.rekeyed.clear(),
            }
            return Ok(());
        }
        match step {
            Step::Put(bytes) => {
                let row = match plan.row(bytes) {
                    Ok(row) => loaded(row),
                    Err(error) if plan.is_same() => return Err(error),
                    Err(error) => {
                        let key = plan.key(&plan.stored_key(bytes)?)?;
                        self.note(key, Note::Refused(error));
                        return Ok(());
                    }
                };
                let key = row.record.key();
                history.push(sequence, key.clone(), Some(Arc::clone(&row)), bytes.len());
                if self.last_key.as_ref().is_none_or(|last| *last < key) {
                    self.last_key = Some(key.clone());
                }
                self.note(key, Note::Row(row));
            }
            Step::Delete(bytes) => {
                let key = plan.key(bytes)?;
                history.push(sequence, key.clone(), None, 0);
                self.note(key, Note::Gone);
            }
            Step::Clear => {
                self.sort();
                for (key, _) in self.notes.drain(..) {
                    history.push(sequence, key, None, 0);
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, key: R::Key, note: Note<R>) {
        self.notes.push((key, note));
        if self.notes.len() >= self.sort_at {
            self.sort();
            self.sort_at = (2 * self.notes.len()).max(NOTES_MIN);
        }
    }

    /// Keeps the last note of each key, in the keys' order, and none of rows that have gone.
    fn sort(&mut self) {
        // It is stable, so the last of equals is the latest; and quick where they come in order.
        self.notes.sort_by(|one, other| one.0.cmp(&other.0));
        self.notes.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                std::mem::swap(next, kept);
            }
            same
        });
        self.notes.retain(|(_, note)| !matches!(note, Note::Gone));
    }

    /// The rows, and the greatest key there ever was.
    pub(crate) fn finish(mut self) -> Result<(Rows<R>, Option<R::Key>)> {
        if !self.rekeyed.is_empty() {
            self.settle_keys()?;
        }
        self.sort();
        let row = |(key, note)| match note {
            Note::Row(row) => Some(Ok((key, row))),
            Note::Refused(error) => Some(Err(error)),
            Note::Gone => None,
        };
        let rows = self.notes.into_iter().filter_map(row).collect::<Result<BTreeMap<_, _>>>()?;
        Ok((rows, self.last_key))
    }
}
