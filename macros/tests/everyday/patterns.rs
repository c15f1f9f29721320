//! Patterns, loops and the ways through and out of a body.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::things::*;

everyday! {
    fn slice_patterns() -> Vec<String> {
        let describe = |values: &[i32]| match values {
            [] => "nothing".to_string(),
            [one] => format!("only {one}"),
            [first, .., last] if first == last => format!("{first} at both ends"),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        };
        let mut found = vec![describe(&[]), describe(&[4]), describe(&[1, 2, 1]), describe(&[1, 2, 3])];
        if let [.., before, _] = found.as_slice() {
            let copy = before.clone();
            found.push(copy);
        }
        found
    }

    fn matching_shapes() -> (Vec<&'static str>, u32) {
        let shapes = [Shape::Circle(2), Shape::Rectangle { width: 2, height: 3 }, Shape::Nothing, Shape::Circle(10)];
        let names = shapes.iter().map(|shape| match shape {
            Shape::Circle(radius @ 5..) if *radius > 0 => "big circle",
            Shape::Circle(_) => "circle",
            Shape::Rectangle { width, .. } if width.is_power_of_two() => "rectangle",
            Shape::Rectangle { .. } | Shape::Nothing => "other",
        });
        let names = names.collect();
        let mut size = 0;
        for shape in &shapes {
            size += match shape {
                shape if shape.size() > 100 => 1,
                Shape::Nothing => continue,
                shape => shape.size(),
            };
        }
        (names, size)
    }

    fn guards_and_bindings() -> Vec<&'static str> {
        let classify = |n: i64| match n {
            i64::MIN..=-1 => "negative",
            0 => "zero",
            n if n.count_ones() == 1 => "power of two",
            1..10 => "small",
            _ => "large",
        };
        let mut kinds = vec![classify(-3), classify(0), classify(64), classify(7), classify(1000)];
        match kinds.len().checked_sub(2) {
            Some(index @ 1..) if kinds[index].starts_with("sm") => kinds.truncate(index.saturating_add(1)),
            Some(_) | None => kinds.clear(),
        }
        kinds
    }

    fn let_else() -> (Option<String>, Option<String>) {
        fn host(url: &str) -> Option<String> {
            let Some((scheme, rest)) = url.split_once("://") else { return None };
            let ("http" | "https", Some(host)) = (scheme, rest.split('/').next()) else {
                return None;
            };
            Some(host.to_owned())
        }
        let Some(first) = host("https://example.org/a/b") else {
            return (None, None);
        };
        let Ok(number) = "12".parse::<u32>() else { fail("12 is a number") };
        (Some(first.repeat(number.count_ones().try_into().unwrap())), host("ftp://example.org"))
    }

    fn if_let_chains() -> Vec<u32> {
        let mut found = Vec::new();
        for text in ["5", "x", "50", ""] {
            if let Some(first) = text.chars().next()
                && first.is_numeric()
                && let Ok(n) = text.parse::<u32>()
                && n < 10
            {
                found.push(n);
            } else if text.is_empty() || text.eq_ignore_ascii_case("X") {
                found.push(0);
            }
        }
        found
    }

    fn labelled_loops() -> (Vec<u32>, u32, &'static str) {
        let mut primes = Vec::new();
        'candidates: for n in 2.. {
            for prime in primes.iter().take_while(|prime| *prime * *prime <= n) {
                if n % prime == 0 {
                    continue 'candidates;
                }
            }
            primes.push(n);
            if primes.len() == 8 {
                break 'candidates;
            }
        }
        let mut rounds = 0;
        let found = 'outer: loop {
            loop {
                rounds += 1;
                if rounds > 10 {
                    break 'outer u32::pow(rounds, 2);
                }
                if rounds % 3 == 0 {
                    break;
                }
            }
        };
        let label = 'block: {
            if found.is_power_of_two() {
                break 'block "power";
            }
            if found.to_string().ends_with('1') { "one" } else { "other" }
        };
        (primes, found, label)
    }

    fn loops_and_ranges() -> (Vec<(i32, i32)>, i32, Vec<u8>, String) {
        let mut cells = Vec::new();
        for row in 0..3 {
            for column in (row..3).rev().step_by(2) {
                cells.push((row, column));
            }
        }
        let mut n = 27;
        let mut steps = 0;
        while n != 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        let mut countdown = 3_u8;
        let mut seen = vec![];
        while let Some(next) = countdown.checked_sub(1) {
            seen.push(next);
            countdown = next;
        }
        (cells, steps, seen, ('a'..='e').skip(1).collect())
    }

    fn shadowing_and_blocks() -> (String, i32, i32) {
        let value = "5";
        let value: i32 = value.parse().unwrap();
        let value = {
            let value = value * 2;
            value + 1
        };
        let late;
        if value > 10 {
            late = value.pow(2);
        } else {
            late = 0;
        }
        let text = {
            let value = value.to_string();
            value + "!"
        };
        (text, value, late)
    }

    fn tuples_and_destructuring() -> (i32, String, Vec<i32>, bool) {
        let ((a, b), [c, .., d]) = ((1, "x".to_string()), [3, 4, 5, 6]);
        let Point { x, y: height } = Point::from((2.0, 3.0));
        let mut pair = (a, c);
        (pair.0, pair.1) = (pair.1, pair.0);
        [pair.0, _] = [pair.0 + d, 0];
        let ref borrowed = b;
        let mut list = Vec::new();
        for (index, (left, right)) in [(1, 2), (3, 4)].into_iter().enumerate() {
            list.push(left * right + index as i32);
        }
        (pair.0 + pair.1, borrowed.clone() + &b, list, (x, height) == (2.0, 3.0))
    }

    fn control_flow() -> (ControlFlow<i32, ()>, Option<i32>, i32) {
        let stopped =
            (1..10).try_for_each(|n| if n * n > 20 { ControlFlow::Break(n) } else { ControlFlow::Continue(()) });
        let value = match stopped.is_break() {
            true if stopped.is_continue() => unreachable!("not both: {:?}", stopped),
            true => 1,
            false => unreachable!(),
        };
        (stopped, stopped.break_value(), value)
    }

    fn state_machine() -> Result<Vec<(String, String)>, String> {
        enum State {
            Key(String),
            Value { key: String, value: String, quoted: bool },
        }
        let mut pairs = Vec::new();
        let mut state = State::Key(String::new());
        for c in "a=1;b=\"x;y\";".chars() {
            state = match (state, c) {
                (State::Key(key), '=') if key.is_empty() => return Err("no key".to_string()),
                (State::Key(key), '=') => State::Value { key, value: String::new(), quoted: false },
                (State::Key(mut key), c) => {
                    key.push(c);
                    State::Key(key)
                }
                (State::Value { key, value, quoted: false }, ';') => {
                    pairs.push((key, value));
                    State::Key(String::default())
                }
                (State::Value { key, value, quoted }, '"') => State::Value { key, value, quoted: !quoted },
                (State::Value { key, mut value, quoted }, c) => {
                    value.extend(std::iter::once(c));
                    State::Value { key, value, quoted }
                }
            };
        }
        Ok(pairs)
    }

    fn assertions() -> usize {
        let names = ["a", "b"];
        assert!(names.contains(&"a"));
        assert!(names.iter().all(|name| name.len() == 1), "odd: {:?}", names.concat());
        assert_eq!(names.len(), names.iter().count());
        assert_eq!(names.concat(), "ab", "of {}", names.join("+"));
        assert_ne!(names.first(), names.last());
        debug_assert!(matches!(names.get(1), Some(name) if name.is_ascii()));
        debug_assert_eq!(names.len().pow(2), 4, "{names:?}");
        vec![names.len(); names.len()].iter().sum()
    }

    fn macros_within_macros() -> (Vec<String>, bool, usize) {
        macro_rules! twice {
            ($text:expr) => {
                $text.repeat(2)
            };
        }
        let list = vec![format!("{}", vec!["a"; 2].concat()), twice!("b"), format!("{:?}", Some(twice!("c")))];
        let found = matches!(list.iter().map(|text| text.len()).max(), Some(n @ 3..) if n.is_power_of_two() || n > 5);
        (list, found, concat!("a", 1, true).len() + stringify!(a + b).len() + line!().min(1) as usize)
    }

    fn panics() -> Vec<String> {
        let told = |body: &dyn Fn()| {
            let payload = catch_unwind(AssertUnwindSafe(body)).expect_err("it panics");
            match payload.downcast::<String>() {
                Ok(text) => *text,
                Err(payload) => payload.downcast_ref::<&str>().copied().unwrap_or("something").to_string(),
            }
        };
        let values: Vec<i32> = Vec::new();
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let told = vec![
            told(&|| panic!("with {}", 5)),
            told(&|| assert!(!values.is_empty())),
            told(&|| {
                Err::<(), _>("bad").unwrap();
            }),
            told(&|| {
                None::<u8>.expect("a value");
            }),
            told(&|| {
                let _ = values[values.len()];
            }),
            told(&|| fail("plainly")),
        ];
        std::panic::set_hook(hook);
        told
    }
}
