//! Iterators, slices and sorting.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, HashSet};
use std::mem;

use crate::things::*;

everyday! {
    fn sums_and_products() -> (u32, f64, i64, Point) {
        let total: u32 = (1..=10).sum();
        let mean = [1.5, 2.5, 3.5].iter().sum::<f64>() / 3.0;
        let factorial: i64 = (1..=12).product();
        let way = vec![Point::new(1.0, 2.0), Point::new(0.5, 0.5)].into_iter().sum();
        (total, mean, factorial, way)
    }

    fn adaptors_with_inferred_types() -> (Vec<String>, BTreeSet<usize>, String) {
        let words = "the quick brown fox jumps over the lazy dog";
        let long = words.split(' ').filter(|word| word.len() > 4).map(str::to_uppercase).collect();
        let lengths = words.split_whitespace().map(|word| word.len()).collect();
        let distinct: HashSet<_> = words.chars().collect();
        assert_eq!(distinct.len(), 27);
        let initials = words.split(' ').filter_map(|word| word.chars().next()).rev().collect();
        (long, lengths, initials)
    }

    fn collecting_results() -> (Result<Vec<i32>, String>, Result<Vec<i32>, String>, Option<Vec<u32>>) {
        let parse = |text: &str| text.parse::<i32>().map_err(|error| format!("{text}: {error}"));
        let good = "1 2 3".split(' ').map(parse).collect();
        let bad: Result<_, _> = "1 x 3".split(' ').map(parse).collect();
        let digits = "8a5".chars().map(|c| c.to_digit(16)).collect();
        (good, bad, digits)
    }

    fn partitions_and_zips() -> (Vec<i32>, Vec<i32>, Vec<(i32, char)>, Vec<i32>, Vec<char>) {
        let (even, odd): (Vec<_>, Vec<_>) = (1..8).partition(|n| n % 2 == 0);
        let pairs: Vec<_> = even.iter().copied().zip("abc".chars()).collect();
        let (numbers, letters) = pairs.iter().cloned().unzip();
        (even, odd, pairs, numbers, letters)
    }

    fn windows_and_chunks() -> (Vec<i32>, Vec<i32>, Vec<Vec<u8>>, bool) {
        let heights = [3, 8, 5, 9, 1];
        let steps = heights.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let sums = heights.chunks(2).map(|chunk| chunk.iter().sum()).collect();
        let runs = b"aabccc".chunk_by(|a, b| a == b).map(<[u8]>::to_vec).collect();
        (steps, sums, runs, heights.is_sorted())
    }

    fn folds_and_scans() -> (i32, Vec<i32>, Option<i32>, Option<&'static str>) {
        let sum = [1, 2, 3].iter().fold(0, |sum, n| sum * 10 + n);
        let running = (1..5)
            .scan(0, |state, n| {
                *state += n;
                Some(*state)
            })
            .collect();
        let checked = [100_i32, 200].iter().try_fold(0_i32, |sum, n| sum.checked_add(*n));
        let longest = ["a", "ccc", "bb"].into_iter().reduce(|a, b| if a.len() >= b.len() { a } else { b });
        (sum, running, checked, longest)
    }

    fn iterators_by_hand() -> (Vec<u64>, Vec<u32>, Vec<i32>) {
        let mut state = (0, 1);
        let fibonacci = std::iter::from_fn(|| {
            let next = state.0;
            state = (state.1, state.0 + state.1);
            Some(next)
        });
        let halves = std::iter::successors(Some(100_u32), |n| (*n > 1).then(|| n / 2));
        let mut left = vec![5, 4, 3].into_iter();
        let mut taken = Vec::new();
        while let Some(n) = left.next() {
            taken.push(n);
            if let Some(skipped) = left.next() {
                taken.push(-skipped);
            }
        }
        (fibonacci.take(10).collect(), halves.collect(), taken)
    }

    fn peeking() -> Vec<String> {
        let mut characters = "12+34*5".chars().peekable();
        let mut tokens = Vec::new();
        while let Some(&next) = characters.peek() {
            if next.is_ascii_digit() {
                let mut number = String::new();
                while let Some(digit) = characters.next_if(char::is_ascii_digit) {
                    number.push(digit);
                }
                tokens.push(number);
            } else {
                tokens.push(next.to_string());
                characters.next();
            }
        }
        tokens
    }

    fn searches() -> (Option<usize>, Option<&'static str>, bool, bool, Option<(usize, char)>, Option<u8>) {
        let words = ["pear", "fig", "apple"];
        (
            words.iter().position(|word| word.starts_with('f')),
            words.iter().copied().find(|word| word.contains("pp")),
            words.iter().any(|word| word.len() == 3),
            words.iter().all(|word| word.is_ascii()),
            "abc".char_indices().last(),
            [3, 1, 2].iter().min().copied(),
        )
    }

    fn extremes() -> (Option<&'static str>, Option<f64>, i32, Ordering) {
        let longest = ["no", "maybe", "yes"].into_iter().max_by_key(|word| word.len());
        let least = [2.5, -1.0, 7.0].into_iter().min_by(|a: &f64, b| a.total_cmp(b));
        (longest, least, 7.clamp(0, 5).max(3).min(4), "a".cmp("b").then_with(|| 2.cmp(&1)).reverse())
    }

    fn sorting() -> (Vec<&'static str>, Vec<i32>, Vec<(u8, char)>, Result<usize, usize>, Result<usize, usize>) {
        let mut words = vec!["pear", "fig", "apple", "kiwi"];
        words.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
        let mut numbers = vec![3, -1, 2, 3, 2];
        numbers.sort_unstable_by_key(|n| Reverse(*n));
        numbers.dedup();
        let mut pairs = vec![(2, 'b'), (1, 'z'), (2, 'a')];
        pairs.sort();
        let sorted = [1, 3, 5, 7];
        (words, numbers, pairs, sorted.binary_search(&5), sorted.binary_search_by(|n| n.cmp(&4)))
    }

    fn slices() -> (Vec<i32>, Vec<i32>, Option<i32>, usize, Vec<i32>, Vec<&'static str>) {
        let mut values = [1, 2, 3, 4, 5, 6];
        values.rotate_left(2);
        values[1..5].reverse();
        let (left, right) = values.split_at_mut(3);
        left[0] += right[0];
        mem::swap(&mut left[1], &mut right[1]);
        let joined = [&values[..2], &values[4..]].concat();
        let parts = vec!["a,b", "c"].join(",").split(',').map(|part| if part == "b" { "B" } else { "-" }).collect();
        (values.to_vec(), joined, values.first().copied(), values.partition_point(|n| *n > 2), values.repeat(2), parts)
    }
}
