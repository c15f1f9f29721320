//! Numbered slots that are used again: the place of who sits at a node, or lies below it.
//!
//! Taking a slot and giving it back is constant in time, and a slot keeps its number meanwhile. What was given back
//! first is used again last.

/// Slots kept when none is taken.
const KEPT_MAX: usize = 16;

pub(super) struct Slots<T> {
    slots: Vec<Slot<T>>,
    /// The first free one; as many as there are for none.
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
        Slots { slots: Vec::new(), free: 0, taken: 0 }
    }

    #[inline]
    pub(super) fn put(&mut self, value: T) -> u32 {
        let slot = self.free;
        match self.slots.get_mut(slot as usize) {
            Some(free) => {
                let Slot::Free(next) = std::mem::replace(free, Slot::Taken(value)) else {
                    unreachable!("the list of free slots holds free ones")
                };
                self.free = next;
            }
            None => {
                self.slots.push(Slot::Taken(value));
                self.free = slot + 1;
            }
        }
        self.taken += 1;
        slot
    }

    /// Gives a slot back, and what was in it.
    #[inline]
    pub(super) fn take(&mut self, slot: u32) -> Option<T> {
        let place = self.slots.get_mut(slot as usize).filter(|place| matches!(place, Slot::Taken(_)))?;
        let taken = std::mem::replace(place, Slot::Free(self.free));
        self.free = slot;
        self.taken -= 1;
        match taken {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    #[inline]
    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        match self.slots.get(slot as usize) {
            Some(Slot::Taken(value)) => Some(value),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        match self.slots.get_mut(slot as usize) {
            Some(Slot::Taken(value)) => Some(value),
            _ => None,
        }
    }

    /// What is in them, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        })
    }

    /// Gives back those that are said to be of no use any more, before more are made.
    pub(super) fn sweep(&mut self, useless: impl Fn(&T) -> bool) {
        for slot in 0..self.slots.len() as u32 {
            if self.get(slot).is_some_and(&useless) {
                self.take(slot);
            }
        }
    }

    /// Whether one more would need a slot that is not there yet.
    pub(super) fn is_full(&self) -> bool {
        self.taken as usize == self.slots.len()
    }

    /// How many are taken.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.taken as usize
    }

    /// Whether none is taken, and their memory is worth keeping.
    #[inline]
    pub(super) fn is_as_new(&self) -> bool {
        self.taken == 0 && self.slots.capacity() <= KEPT_MAX
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
        assert_eq!((slots.slots.len(), slots.len(), slots.get(kept)), (3, 1, Some(&'k')));
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
        assert_eq!((slots.slots.len(), slots.is_full()), (8, true));
    }
}
