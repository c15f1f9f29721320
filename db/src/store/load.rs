//! Taking stored rows in, before anything is served.
//!
//! Steps are noted in the order they come; of those for one key the last one counts. Sorting them once and building the
//! tree from the outcome is faster than inserting one by one. When there are many more notes than there were rows at
//! the last sorting, they are sorted in between, so a log of endless updates takes no endless memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::record::Record;
use crate::schema::catalogue::Step;
use crate::schema::evolve::Plan;
use crate::store::history::History;
use crate::store::table::Stored;

/// Notes that are never worth sorting in between.
const NOTES_MIN: usize = 1 << 16;

/// A table's rows by their keys.
pub(crate) type Rows<R> = BTreeMap<<R as Record>::Key, Stored<R>>;

enum Note<R> {
    Row(Arc<R>),
    Gone,
    /// An upgrade refused it: an error, unless a later step replaces it.
    Refused(Error),
}

pub(crate) struct Loading<R: Record> {
    plan: Option<Plan<R>>,
    notes: Vec<(R::Key, Note<R>)>,
    sort_at: usize,
    last_key: Option<R::Key>,
    /// Of rows whose upgrade gave them other keys: the stored key, and the one they have now.
    renamed: BTreeMap<Vec<u8>, R::Key>,
    /// Rows by their stored keys whose upgrade refused them, so that they have no key.
    keyless: BTreeMap<Vec<u8>, Error>,
}

impl<R: Record> Default for Loading<R> {
    fn default() -> Loading<R> {
        Loading {
            plan: None,
            notes: Vec::new(),
            sort_at: NOTES_MIN,
            last_key: None,
            renamed: BTreeMap::new(),
            keyless: BTreeMap::new(),
        }
    }
}

impl<R: Record> Loading<R> {
    pub(crate) fn read_as(&mut self, plan: Plan<R>) {
        self.plan = Some(plan);
    }

    /// Notes a step.
    pub(crate) fn step(&mut self, sequence: u64, step: Step<'_>, history: &mut History<R>) -> Result<()> {
        let Some(plan) = &self.plan else { return Ok(()) };
        match step {
            Step::Put(bytes) => {
                let stored_key = if plan.is_same() { None } else { Some(plan.stored_key(bytes)?) };
                match (plan.row(bytes), stored_key) {
                    (Ok(row), stored_key) => {
                        let key = row.key();
                        let row = Arc::new(row);
                        if let Some(stored_key) = stored_key {
                            self.keyless.remove(&stored_key);
                            if plan.is_rekeyed
                                && let Some(former) = self.renamed.insert(stored_key, key.clone())
                                && former != key
                            {
                                history.push(sequence, former.clone(), None, 0);
                                self.note(former, Note::Gone);
                            }
                        }
                        history.push(sequence, key.clone(), Some(Arc::clone(&row)), bytes.len());
                        if self.last_key.as_ref().is_none_or(|last| *last < key) {
                            self.last_key = Some(key.clone());
                        }
                        self.note(key, Note::Row(row));
                    }
                    (Err(error), None) => return Err(error),
                    (Err(error), Some(stored_key)) => {
                        if plan.is_rekeyed {
                            if let Some(former) = self.renamed.remove(&stored_key) {
                                self.note(former, Note::Gone);
                            }
                            self.keyless.insert(stored_key, error);
                        } else {
                            let key = plan.key(&stored_key)?;
                            self.note(key, Note::Refused(error));
                        }
                    }
                }
            }
            Step::Delete(bytes) => {
                let key = if plan.is_rekeyed {
                    self.keyless.remove(bytes);
                    self.renamed.remove(bytes)
                } else {
                    Some(plan.key(bytes)?)
                };
                if let Some(key) = key {
                    history.push(sequence, key.clone(), None, 0);
                    self.note(key, Note::Gone);
                }
            }
            Step::Clear => {
                self.sort();
                for (key, _) in self.notes.drain(..) {
                    history.push(sequence, key, None, 0);
                }
                self.renamed.clear();
                self.keyless.clear();
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
        self.sort();
        if let Some(refused) = self.keyless.into_values().next() {
            return Err(refused);
        }
        let row = |(key, note)| match note {
            Note::Row(row) => Some(Ok((key, Stored { row, sequence: 0 }))),
            Note::Refused(error) => Some(Err(error)),
            Note::Gone => None,
        };
        let rows = self.notes.into_iter().filter_map(row).collect::<Result<BTreeMap<_, _>>>()?;
        Ok((rows, self.last_key))
    }
}
