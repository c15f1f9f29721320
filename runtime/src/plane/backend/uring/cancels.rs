//! Cancels that must arrive.
//!
//! The kernel looks for the op to cancel among those that wait and those its workers run. One that is on its way from
//! the one to the other, or is just being tried again, is in neither place: then the kernel answers `ENOENT`, and the
//! op goes on as if nobody had asked. So a cancel is remembered from the asking to the op's last word, and asked
//! again whenever it was missed. A token whose op had ended before cannot be told from one that is under way; it is
//! given up after [`TRIES_MAX`].

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::plane::backend::uring::retained::WordHasher;
use crate::plane::token::Token;

/// Tries of one cancel. Each takes an entry of the kernel, in which an op under way gets somewhere.
const TRIES_MAX: u8 = 64;

/// The cancels of ops in flight.
#[derive(Debug, Default)]
pub(super) struct Cancels {
    /// Tries so far of each.
    asked: HashMap<u64, u8, BuildHasherDefault<WordHasher>>,
    missed: Vec<Token>,
}

impl Cancels {
    /// A cancel of the op is about to be submitted.
    pub(super) fn ask(&mut self, token: Token) {
        self.asked.entry(token.raw()).or_default();
    }

    /// Whether a cancel of the op was asked for.
    pub(super) fn has(&self, token: Token) -> bool {
        self.asked.contains_key(&token.raw())
    }

    /// The op has ended.
    #[inline]
    pub(super) fn ended(&mut self, token: Token) {
        if !self.asked.is_empty() {
            self.asked.remove(&token.raw());
        }
    }

    /// The kernel did not find the op.
    pub(super) fn missed(&mut self, token: Token) {
        let Some(tries) = self.asked.get_mut(&token.raw()) else { return };
        *tries += 1;
        if *tries < TRIES_MAX {
            self.missed.push(token);
        } else {
            self.asked.remove(&token.raw());
        }
    }

    /// How many [`next_missed`](Cancels::next_missed) has at most.
    pub(super) fn missed_ones(&self) -> usize {
        self.missed.len()
    }

    /// An op whose cancel is to be submitted again.
    pub(super) fn next_missed(&mut self) -> Option<Token> {
        while let Some(token) = self.missed.pop() {
            if self.asked.contains_key(&token.raw()) {
                return Some(token);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::token::Class;

    const TOKEN: Token = Token::new(Class::User, 1, 2);

    #[test]
    fn a_missed_cancel_is_asked_again_until_the_op_ends() {
        let mut cancels = Cancels::default();
        cancels.ask(TOKEN);
        assert_eq!(cancels.next_missed(), None);
        for _ in 0..3 {
            cancels.missed(TOKEN);
            assert_eq!(cancels.next_missed(), Some(TOKEN));
        }
        cancels.missed(TOKEN);
        cancels.ended(TOKEN);
        assert_eq!(cancels.next_missed(), None);
        cancels.missed(TOKEN);
        assert!(cancels.missed.is_empty() && cancels.asked.is_empty());
    }

    #[test]
    fn an_op_that_never_was_is_given_up() {
        let mut cancels = Cancels::default();
        cancels.ask(TOKEN);
        let tries = (0..).take_while(|_| {
            cancels.missed(TOKEN);
            cancels.next_missed().is_some()
        });
        assert_eq!(tries.count(), usize::from(TRIES_MAX) - 1);
        assert!(cancels.asked.is_empty());
    }
}
