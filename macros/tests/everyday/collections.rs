//! Maps, sets, queues and heaps.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::ops::Bound;

everyday! {
    fn entries() -> (BTreeMap<char, usize>, HashMap<usize, Vec<&'static str>>, Option<u32>) {
        let mut letters = BTreeMap::new();
        for letter in "hello world".chars().filter(|c| c.is_alphabetic()) {
            *letters.entry(letter).or_insert(0) += 1;
        }
        let mut by_length: HashMap<_, Vec<_>> = HashMap::new();
        for word in ["a", "bb", "c"] {
            by_length.entry(word.len()).or_default().push(word);
        }
        let mut cache = HashMap::new();
        cache.entry("x").and_modify(|n| *n += 1).or_insert_with(|| 10_u32);
        cache.entry("x").and_modify(|n| *n += 1).or_insert(0);
        (letters, by_length.into_iter().filter(|(length, _)| *length == 1).collect(), cache.remove("x"))
    }

    fn ordered_maps() -> (Vec<(u32, &'static str)>, Option<u32>, Option<(u32, &'static str)>, Vec<u32>, usize) {
        let mut map: BTreeMap<_, _> = (1..).zip(["a", "b", "c", "d"]).collect();
        let middle = map.range(2..4).map(|(key, value)| (*key, *value)).collect();
        let below = map.range((Bound::Unbounded, Bound::Excluded(3))).next_back().map(|(key, _)| *key);
        let first = map.pop_first();
        let upper = map.split_off(&3);
        map.retain(|key, value| *key > 1 && value.len() == 1);
        (middle, below, first, upper.into_keys().collect(), map.len())
    }

    fn sets() -> (Vec<i32>, Vec<i32>, Vec<i32>, bool, bool) {
        let small = BTreeSet::from([1, 2, 3]);
        let odd: BTreeSet<i32> = (1..8).step_by(2).collect();
        let mut both = &small & &odd;
        let fresh = both.insert(9) && !both.insert(1);
        (
            small.union(&odd).copied().collect(),
            odd.difference(&small).copied().collect(),
            both.into_iter().collect(),
            fresh,
            small.is_subset(&odd),
        )
    }

    fn queues_and_heaps() -> (Vec<i32>, Option<i32>, Vec<u32>, Vec<(u32, &'static str)>) {
        let mut queue: VecDeque<_> = (1..=3).collect();
        queue.push_front(0);
        queue.rotate_left(1);
        let back = queue.pop_back();
        queue.extend([7, 8]);
        let mut heap = BinaryHeap::from(vec![4_u32, 9, 1]);
        if let Some(mut top) = heap.peek_mut() {
            *top -= 6;
        }
        let mut tasks = BinaryHeap::new();
        for (cost, name) in [(5, "five"), (2, "two"), (9, "nine")] {
            tasks.push(Reverse((cost, name)));
        }
        let ordered = std::iter::from_fn(|| tasks.pop().map(|Reverse(task)| task)).collect();
        (queue.into(), back, heap.into_sorted_vec(), ordered)
    }

    fn shortest_way() -> Option<u32> {
        let ways = HashMap::from([
            ('a', vec![('b', 7), ('c', 3)]),
            ('b', vec![('d', 2)]),
            ('c', vec![('b', 1), ('d', 8)]),
            ('d', vec![]),
        ]);
        let mut best: HashMap<char, u32> = HashMap::new();
        let mut waiting = BinaryHeap::from([(Reverse(0), 'a')]);
        while let Some((Reverse(cost), place)) = waiting.pop() {
            if place == 'd' {
                return Some(cost);
            }
            if best.get(&place).is_some_and(|known| *known <= cost) {
                continue;
            }
            best.insert(place, cost);
            for (next, more) in &ways[&place] {
                waiting.push((Reverse(cost + more), *next));
            }
        }
        None
    }
}
