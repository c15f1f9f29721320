//! Who waits for whom, and the circles that would never end.
//!
//! An actor whose function waits for another actor, for the answer to an ask without a deadline or for room in a full
//! mailbox, draws that wait in its mailbox's head, then walks from the one it waits for along the waits of the others.
//! Coming back to itself it has found a circle: every actor in it waits for the next, and none can go on. Each draws
//! before it walks, so of several that close a circle at once at least one sees it whole.
//!
//! A wait is taken back by whoever ends it, before that one waits itself: who answers, who makes room, who closes the
//! mailbox. A walk that found a circle walks it again, and believes it only when every wait is still the same one;
//! then all of them were drawn at one time between the two walks.
//!
//! What a walk cannot know makes it silent or wrong in two ways, both by design: an actor has one wait drawn at a time,
//! and one that could also go on by something else, racing an ask against a sleep, is taken to be waiting. An ask with
//! a deadline ends by itself, so it draws nothing and is never reported.

use std::fmt;
use std::ptr;

use crate::actor::mailbox::Head;

/// A wait that was drawn; whoever ends it says so.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    waiter: &'static Head,
    number: u32,
}

impl Wait {
    /// The actor `waiter`, whose function runs on this thread now, waits for `target`. None while another of its waits
    /// is drawn.
    pub(crate) fn draw(waiter: &'static Head, target: &'static Head) -> Option<Wait> {
        waiter.draw_wait(target).map(|number| Wait { waiter, number })
    }

    /// It has ended. To say so again does nothing.
    pub(crate) fn end(self) {
        self.waiter.end_wait(self.number);
    }

    /// Whether `waiter`, waiting for `target`, would wait for ever.
    pub(crate) fn closes_circle(waiter: &'static Head, target: &'static Head) -> bool {
        if ptr::eq(waiter, target) {
            return true;
        }
        let Some(length) = way_back(waiter, target) else { return false };
        let walk = || -> Vec<(*const Head, u32)> {
            let mut at = target;
            let mut seen = Vec::with_capacity(length);
            while seen.len() < length
                && let Some((next, number)) = at.waits_for()
            {
                seen.push((ptr::from_ref(next), number));
                at = next;
            }
            seen
        };
        let (first, second) = (walk(), walk());
        first.len() == length && first == second && first.last().is_some_and(|(end, _)| ptr::eq(*end, waiter))
    }
}

/// The number of waits that lead from `target` to `waiter`; none when they lead elsewhere.
fn way_back(waiter: &'static Head, target: &'static Head) -> Option<usize> {
    let mut at = target;
    let mut length = 0;
    // A circle of others would lead the walk around for ever: it is met again where it was at a power of two.
    let mut milestone = target;
    loop {
        let (next, _) = at.waits_for()?;
        length += 1;
        if ptr::eq(next, waiter) {
            return Some(length);
        }
        if ptr::eq(next, milestone) {
            return None;
        }
        if usize::is_power_of_two(length) {
            milestone = next;
        }
        at = next;
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heads that live for ever, as those of mailboxes do, and that a search for leaks can still reach.
    fn heads(count: usize) -> Vec<&'static Head> {
        static MADE: std::sync::Mutex<Vec<&'static Head>> = std::sync::Mutex::new(Vec::new());
        let heads: Vec<_> = (0..count).map(|_| &*Box::leak(Box::new(Head::new()))).collect();
        MADE.lock().unwrap().extend(&heads);
        heads
    }

    #[test]
    fn a_circle_of_any_length_is_seen_by_the_one_that_closes_it() {
        for length in 1..20 {
            let heads = heads(length);
            for at in 0..length - 1 {
                assert!(!Wait::closes_circle(heads[at], heads[at + 1]));
                Wait::draw(heads[at], heads[at + 1]).unwrap();
            }
            assert!(Wait::closes_circle(heads[length - 1], heads[0]));
        }
    }

    #[test]
    fn a_wait_that_ended_closes_nothing() {
        let heads = heads(3);
        let first = Wait::draw(heads[0], heads[1]).unwrap();
        assert!(Wait::draw(heads[0], heads[2]).is_none(), "one wait at a time");
        first.end();
        let second = Wait::draw(heads[0], heads[2]).unwrap();
        first.end();
        assert!(!Wait::closes_circle(heads[1], heads[0]));
        assert!(Wait::closes_circle(heads[2], heads[0]));
        second.end();
        assert!(!Wait::closes_circle(heads[2], heads[0]));
    }

    #[test]
    fn a_walk_into_a_circle_of_others_ends() {
        for (before, around) in [(0, 2), (1, 1), (3, 5), (5, 3), (8, 9)] {
            let heads = heads(1 + before + around);
            let (own, others) = heads.split_first().unwrap();
            for at in 0..others.len() {
                Wait::draw(others[at], others.get(at + 1).copied().unwrap_or(others[before])).unwrap();
            }
            assert!(!Wait::closes_circle(own, others[0]));
        }
    }
}
