//! Timers by the million, in user space: only the nearest deadline ever reaches the kernel.
//!
//! A four-ary heap of `(deadline, order, slot)` over a slab of values; each slot knows its place in the heap, so a
//! timer is cancelled where it stands, in logarithmic time and without leaving a tombstone. Equal deadlines fire in
//! the order they were made. A timer costs sixteen bytes in the heap, and eight beside its value in the slab.

use crate::plane::time::Instant;
use crate::plane::token::Token;

const ARITY: usize = 4;

/// A set of timers, each with a value. A slot without a timer holds the default value.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    heap: Vec<Entry>,
    slots: Vec<Slot<T>>,
    /// The free slot that is taken next.
    free: u32,
    made: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    deadline: Instant,
    /// Counts up and around.
    order: u32,
    slot: u32,
}

#[derive(Debug)]
struct Slot<T> {
    /// With [`FREE`] while no timer is in it, so that no key names it.
    generation: u32,
    /// Its place in the heap; in a free slot, the next free one.
    place: u32,
    value: T,
}

/// No slot.
const NONE: u32 = u32::MAX;

/// Beyond the bits of a generation.
const FREE: u32 = 1 << 31;

/// Names one timer; a stale key names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl<T: Default> Timers<T> {
    pub(crate) fn new() -> Timers<T> {
        Timers { heap: Vec::new(), slots: Vec::new(), free: NONE, made: 0 }
    }

    /// The number of timers that have not fired.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// The nearest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.first().map(|entry| entry.deadline)
    }

    pub(crate) fn insert(&mut self, deadline: Instant, value: T) -> Key {
        if self.free == NONE {
            self.free = u32::try_from(self.slots.len()).ok().filter(|index| *index != NONE).expect("room for a timer");
            make_room(&mut self.slots);
            self.slots.push(Slot { generation: 1 | FREE, place: NONE, value: T::default() });
        }
        let index = self.free;
        let slot = &mut self.slots[index as usize];
        self.free = slot.place;
        slot.generation &= !FREE;
        slot.value = value;
        let generation = slot.generation;
        self.made = self.made.wrapping_add(1);
        let entry = Entry { deadline, order: self.made, slot: index };
        make_room(&mut self.heap);
        self.heap.push(entry);
        self.rise(self.heap.len() - 1, entry);
        Key { index, generation }
    }

    /// The value of a timer that has not fired.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        (slot.generation == key.generation).then_some(&mut slot.value)
    }

    /// Takes a timer out before it fires.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let place = slot.place as usize;
        Some(self.take(place))
    }

    /// Takes out the first timer that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<T> {
        if self.heap.first()?.deadline > now {
            return None;
        }
        Some(self.take(0))
    }

    fn take(&mut self, place: usize) -> T {
        let index = self.heap[place].slot;
        let last = self.heap.pop().expect("the heap holds the entry that is taken");
        if place < self.heap.len() {
            if place > 0 && before(&last, &self.heap[(place - 1) / ARITY]) {
                self.rise(place, last);
            } else {
                self.sink(place, last);
            }
        }
        let slot = &mut self.slots[index as usize];
        slot.generation = (slot.generation + 1) & ((1 << Token::GENERATION_BITS) - 1) | FREE;
        slot.place = self.free;
        self.free = index;
        std::mem::take(&mut slot.value)
    }

    /// Puts `entry` where it belongs between `place` and the top.
    fn rise(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if !before(&entry, &self.heap[parent]) {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    /// Puts `entry` where it belongs between `place` and the bottom.
    fn sink(&mut self, mut place: usize, entry: Entry) {
        loop {
            let first = place * ARITY + 1;
            let children = first..(first + ARITY).min(self.heap.len());
            let Some(least) = children.reduce(|a, b| if before(&self.heap[b], &self.heap[a]) { b } else { a }) else {
                break;
            };
            if !before(&self.heap[least], &entry) {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.slots[entry.slot as usize].place = place as u32;
    }
}

/// Room for one more. A large memory grows by an eighth, which the system moves without copying, and wastes less than
/// doubling.
fn make_room<T>(vec: &mut Vec<T>) {
    if vec.len() == vec.capacity() {
        vec.reserve_exact(if vec.len() < 4096 { vec.len().max(16) } else { vec.len() / 8 });
    }
}

/// Equal deadlines made two thousand million timers apart may change places, and nothing else.
fn before(a: &Entry, b: &Entry) -> bool {
    a.deadline < b.deadline || a.deadline == b.deadline && (a.order.wrapping_sub(b.order) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn equal_deadlines_fire_in_the_order_they_were_made() {
        let mut timers = Timers::new();
        for value in 0..100 {
            timers.insert(at(7), value);
        }
        let fired: Vec<i32> = std::iter::from_fn(|| timers.pop_due(at(7))).collect();
        assert_eq!(fired, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn the_order_survives_the_end_of_its_count() {
        let mut timers = Timers::new();
        timers.made = u32::MAX - 50;
        for value in 0..100 {
            timers.insert(at(7), value);
        }
        let fired: Vec<i32> = std::iter::from_fn(|| timers.pop_due(at(7))).collect();
        assert_eq!(fired, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_fired_or_removed_timer_has_no_key() {
        let mut timers = Timers::new();
        let first = timers.insert(at(1), 'a');
        let second = timers.insert(at(2), 'b');
        assert_eq!(timers.remove(second), Some('b'));
        assert_eq!(timers.remove(second), None);
        assert_eq!(timers.pop_due(at(1)), Some('a'));
        let reused = timers.insert(at(3), 'c');
        assert_eq!(reused.index, first.index);
        assert_eq!(timers.remove(first), None);
        assert_eq!(timers.get_mut(first), None);
        assert_eq!(timers.len(), 1);
    }

    /// Random inserts, cancels and pops against an ordered map.
    #[test]
    fn agrees_with_an_ordered_map() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut timers = Timers::new();
        let mut model = BTreeMap::new();
        let mut keys = Vec::new();
        for order in 0..20_000_u64 {
            match random(4) {
                0 | 1 => {
                    let deadline = random(500);
                    keys.push((timers.insert(at(deadline), order), deadline, order));
                    model.insert((deadline, order), order);
                }
                2 if !keys.is_empty() => {
                    let (key, deadline, order) = keys.swap_remove(random(keys.len() as u64) as usize);
                    assert_eq!(timers.remove(key), model.remove(&(deadline, order)));
                }
                _ => {
                    let now = random(100);
                    let expected = model.first_key_value().filter(|((deadline, _), _)| *deadline <= now);
                    let expected = expected.map(|(key, value)| (*key, *value));
                    assert_eq!(timers.pop_due(at(now)), expected.map(|(_, value)| value));
                    if let Some((key, _)) = expected {
                        model.remove(&key);
                    }
                }
            }
            assert_eq!(timers.len(), model.len());
            assert_eq!(timers.next(), model.keys().next().map(|(deadline, _)| at(*deadline)));
        }
    }
}
