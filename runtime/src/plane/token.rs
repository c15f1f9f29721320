//! The word that travels with an op through the kernel and back: `class:8 | generation:24 | index:32`.
//!
//! A token names a slot, never an address. The generation tells a recycled slot from its former life, so a token
//! that has outlived its op resolves to nothing.

use std::fmt;

/// What kind of thing a token names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// An op of the user's.
    User = 1,
    /// A timer in user space.
    Timer = 2,
    /// The wake channel.
    Wake = 3,
    /// The plane's own housekeeping, whose completions nobody waits for.
    Internal = 4,
}

/// A packed reference to an op or a timer in flight. Copyable; a stale one resolves to nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(u64);

impl Token {
    /// The number of bits of a generation.
    pub const GENERATION_BITS: u32 = 24;

    /// Packs the three parts; the generation is taken modulo 2^24.
    pub const fn new(class: Class, generation: u32, index: u32) -> Token {
        let generation = (generation & ((1 << Token::GENERATION_BITS) - 1)) as u64;
        Token(((class as u64) << 56) | (generation << 32) | index as u64)
    }

    /// The token as the kernel carries it.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// A token from the kernel's word. Any word is accepted: resolving it is what checks it.
    pub const fn from_raw(raw: u64) -> Token {
        Token(raw)
    }

    /// What it names, unless the word is nothing of ours.
    pub const fn class(self) -> Option<Class> {
        match self.0 >> 56 {
            1 => Some(Class::User),
            2 => Some(Class::Timer),
            3 => Some(Class::Wake),
            4 => Some(Class::Internal),
            _ => None,
        }
    }

    /// The life of the slot it was made for.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32 & ((1 << Token::GENERATION_BITS) - 1)
    }

    /// The slot's place in its slab.
    pub const fn index(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:?} {}.{})", self.class(), self.index(), self.generation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_survive_packing() {
        for class in [Class::User, Class::Timer, Class::Wake, Class::Internal] {
            for generation in [0, 1, 0x00ff_ffff] {
                for index in [0, 1, u32::MAX] {
                    let token = Token::from_raw(Token::new(class, generation, index).raw());
                    assert_eq!((token.class(), token.generation(), token.index()), (Some(class), generation, index));
                }
            }
        }
    }

    #[test]
    fn foreign_words_have_no_class() {
        assert_eq!(Token::from_raw(0).class(), None);
        assert_eq!(Token::from_raw(u64::MAX).class(), None);
    }
}
