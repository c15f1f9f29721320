//! Values by the tokens of ops in flight, found without a search.
//!
//! A token's index counts the loop's slots, so it leads through one list to the place of the value. That list holds
//! four bytes for each slot up to the highest that has had a value; the values lie close together, no more of them than
//! there were at once.

use crate::plane::token::Token;

/// No place.
const NOWHERE: u32 = u32::MAX;

/// At most one value for each token in flight.
#[derive(Debug)]
pub(super) struct Table<T> {
    /// By the index of a token.
    places: Vec<u32>,
    values: Vec<(Token, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { places: Vec::new(), values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
    /// Keeps a value; false when another token of this index has one, which is then lost.
    pub(super) fn insert(&mut self, token: Token, value: T) -> bool {
        let index = token.index() as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, NOWHERE);
        }
        let before = self.places[index];
        let place = if before == NOWHERE { self.free.pop() } else { Some(before) };
        let place = place.unwrap_or_else(|| {
            self.values.push((token, None));
            self.values.len() as u32 - 1
        });
        self.values[place as usize] = (token, Some(value));
        self.places[index] = place;
        before == NOWHERE
    }

    fn place(&self, token: Token) -> Option<usize> {
        let place = *self.places.get(token.index() as usize)? as usize;
        (self.values.get(place)?.0 == token).then_some(place)
    }

    pub(super) fn get(&self, token: Token) -> Option<&T> {
        self.values[self.place(token)?].1.as_ref()
    }

    pub(super) fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        let place = self.place(token)?;
        self.values[place].1.as_mut()
    }

    pub(super) fn remove(&mut self, token: Token) -> Option<T> {
        let place = self.place(token)?;
        self.places[token.index() as usize] = NOWHERE;
        self.free.push(place as u32);
        self.values[place].1.take()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.len() == self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::plane::token::Class;

    fn token(generation: u32, index: u32) -> Token {
        Token::new(Class::User, generation, index)
    }

    #[test]
    fn a_token_of_another_life_finds_nothing() {
        let mut table = Table::default();
        assert!(table.is_empty() && table.get(token(1, 5)).is_none());
        assert!(table.insert(token(1, 5), "first"));
        assert_eq!(
            (table.get(token(1, 5)), table.get(token(2, 5)), table.get(token(1, 4))),
            (Some(&"first"), None, None)
        );
        assert_eq!((table.remove(token(2, 5)), table.remove(token(1, 5))), (None, Some("first")));
        assert!(table.is_empty() && table.get(token(1, 5)).is_none() && table.remove(token(1, 5)).is_none());
        // Another index has the same place now.
        assert!(table.insert(token(7, 0), "second"));
        assert_eq!((table.get(token(1, 5)), table.get(token(7, 0)), table.values.len()), (None, Some(&"second"), 1));
    }

    #[test]
    fn it_agrees_with_a_map() {
        let (mut table, mut model) = (Table::default(), BTreeMap::new());
        let mut dice = 7_u64;
        for step in 0..20_000_u32 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (index, generation) = ((dice >> 33) as u32 % 50, (dice >> 60) as u32 % 3);
            let held = model.get(&index).copied();
            match held {
                None => {
                    assert!(table.insert(token(generation, index), step));
                    model.insert(index, (generation, step));
                }
                Some((holder, value)) if generation == holder => {
                    assert_eq!(table.remove(token(generation, index)), Some(value));
                    model.remove(&index);
                }
                Some((holder, value)) => {
                    assert_eq!(table.get_mut(token(holder, index)), Some(&mut { value }));
                    assert_eq!(table.get(token(generation, index)), None);
                }
            }
            assert_eq!(table.is_empty(), model.is_empty());
        }
        assert!(table.values.len() <= 50);
    }
}
