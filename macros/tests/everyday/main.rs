//! Ordinary Rust of many kinds does in a fiber body what it does outside.
//!
//! Every function of the modules below is compiled twice from the same text, as it is and under `#[wo::fiber]`, and
//! both must give the same. None of them parks: that nothing changes is the point.

// The functions show what Rust can say, not how to say it best.
#![allow(
    clippy::clone_on_copy,
    clippy::let_and_return,
    clippy::manual_clamp,
    clippy::manual_is_multiple_of,
    clippy::needless_late_init,
    clippy::needless_lifetimes,
    clippy::question_mark,
    clippy::toplevel_ref_arg,
    clippy::transmute_int_to_bool,
    clippy::type_complexity,
    clippy::unnecessary_lazy_evaluations,
    clippy::unnecessary_literal_unwrap,
    clippy::unnecessary_map_on_constructor,
    clippy::unnecessary_min_or_max,
    clippy::useless_vec
)]

/// Compiles every function as it is and as a fiber function, and makes `compare`, which runs both and tells how many
/// there were.
macro_rules! everyday {
    ($(fn $name:ident() -> $output:ty $body:block)*) => {
        mod plain {
            use super::*;
            $(pub fn $name() -> $output $body)*
        }

        mod fibers {
            use super::*;
            $(#[wo::fiber] pub fn $name() -> $output $body)*
        }

        pub async fn compare() -> usize {
            let mut compared = 0;
            $(
                let expected = format!("{:?}", plain::$name());
                assert_eq!(format!("{:?}", fibers::$name().await), expected, "{}", stringify!($name));
                compared += 1;
            )*
            compared
        }
    };
}

mod collections;
mod iterators;
mod memory;
mod patterns;
mod text;
mod things;
mod types;
mod values;

/// Compares in a program of its own.
fn compared<F: Future<Output = usize> + 'static>(compare: fn() -> F) -> usize {
    wo::Builder::new().run(compare).expect("the program runs")
}

#[test]
fn iterators() {
    assert_eq!(compared(iterators::compare), 12);
}

#[test]
fn patterns() {
    assert_eq!(compared(patterns::compare), 14);
}

#[test]
fn text() {
    assert_eq!(compared(text::compare), 10);
}

#[test]
fn values() {
    assert_eq!(compared(values::compare), 14);
}

#[test]
fn types() {
    assert_eq!(compared(types::compare), 9);
}

#[test]
fn collections() {
    assert_eq!(compared(collections::compare), 5);
}

#[test]
fn memory() {
    assert_eq!(compared(memory::compare), 12);
}
