//! Numbered slots that are used again: the place of who sits at a node, or lies below it.
//!
//! Taking a slot and giving it back is constant in time, and a slot keeps its number meanwhile. Slot 0 is used whenever
//! it is free; of the others, what was given back first is used again last.

/// Slots kept when none is taken.
const KEPT_MAX: usize = 16;

pub(super) struct Slots<T> {
    /// Slot 0, which is all that most need.
    first: Option<T>,
    /// The others, from 1 on.
    others: Vec<Slot<T>>,
    /// The first free one of those; the one behind the last for none.
    free: u32,
    taken: u32,
}

enum Slot<T> {
    Taken(T),
    /// Free, and the next that is.
    Free(u32),
}

impl<T> Slots<T> {
    pub(super) const fn new() -> Slots<T> {
        Slots { first: None, others: Vec::new(), free: 1, taken: 0 }
    }

    #[inline]
    pub(super) fn put(&mut self, value: T) -> u32 {
        self.taken += 1;
        if self.first.is_none() {
            self.first = Some(value);
            return 0;
        }
        self.put_behind(value)
    }

    #[inline(never)]
    fn put_behind(&mut self, value: T) -> u32 {
        let slot = self.free;
        match self.others.get_mut(slot as usize - 1) {
            Some(free) => {
                let Slot::Free(next) = std::mem::replace(free, Slot::Taken(value)) else {
                    unreachable!("the list of free slots holds free ones")
                };
                self.free = next;
            }
            None => {
                self.others.push(Slot::Taken(value));
                self.free = slot + 1;
            }
        }
        slot
    }

    /// Gives a slot back, and what was in it.
    #[inline]
    pub(super) fn take(&mut self, slot: u32) -> Option<T> {
        let taken = if slot == 0 { self.first.take() } else { self.take_behind(slot) };
        self.taken -= u32::from(taken.is_some());
        taken
    }

    #[inline(never)]
    fn take_behind(&mut self, slot: u32) -> Option<T> {
        let place = self.others.get_mut(slot as usize - 1).filter(|place| matches!(place, Slot::Taken(_)))?;
        let taken = std::mem::replace(place, Slot::Free(self.free));
        self.free = slot;
        match taken {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    #[inline]
    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        if slot == 0 {
            return self.first.as_ref();
        }
        match self.others.get(slot as usize - 1) {
            Some(Slot::Taken(value)) => Some(value),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        if slot == 0 {
            return self.first.as_mut();
        }
        match self.others.get_mut(slot as usize - 1) {
            Some(Slot::Taken(value)) => Some(value),
            _ => None,
        }
    }

    /// What is in them, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let others = self.others.iter().filter_map(|slot| match slot {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        });
        self.first.iter().chain(others)
    }

    /// Gives back those that are said to be of no use any more, before more are made.
    pub(super) fn sweep(&mut self, useless: impl Fn(&T) -> bool) {
        for slot in 0..=self.others.len() as u32 {
            if self.get(slot).is_some_and(&useless) {
                self.take(slot);
            }
        }
    }

    /// Whether one more would need a slot that is not there yet.
    pub(super) fn is_full(&self) -> bool {
        self.taken as usize == self.others.len() + 1
    }

    /// How many are taken.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.taken as usize
    }

    /// Whether none is taken, and their memory is worth keeping.
    #[inline]
    pub(super) fn is_as_new(&self) -> bool {
        self.taken == 0 && self.others.capacity() <= KEPT_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again() {
        let mut slots = Slots::new();
        let kept = slots.put('k');
        for _ in 0..100 {
            let (one, other) = (slots.put('a'), slots.put('b'));
            assert_eq!((slots.take(one), slots.take(other)), (Some('a'), Some('b')));
            assert_eq!((slots.take(one), slots.get(other)), (None, None));
        }
        assert_eq!((slots.others.len(), slots.len(), slots.get(kept)), (2, 1, Some(&'k')));
        assert_eq!(slots.iter().collect::<String>(), "k");
    }

    #[test]
    fn a_sweep_gives_back_what_is_useless() {
        let mut slots = Slots::new();
        for number in 0..8 {
            slots.put(number);
        }
        assert!(slots.is_full());
        slots.sweep(|number| number % 2 == 0);
        assert_eq!(slots.iter().copied().collect::<Vec<_>>(), [1, 3, 5, 7]);
        for _ in 0..4 {
            slots.put(9);
        }
        assert_eq!((slots.others.len(), slots.is_full()), (7, true));
    }
}
