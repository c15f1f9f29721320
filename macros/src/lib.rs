//! The attributes of `wo`. Programs use them as [`wo::main`](macro@main) and [`wo::fiber`](macro@fiber); what they
//! expand to lives in `wo`, too.
//!
//! ```
//! # use std::time::Duration;
//! #[wo::fiber]
//! fn count_down(name: &str, from: u32) -> wo::IoResult<()> {
//!     for n in (1..=from).rev() {
//!         println!("{name}: {n}");
//!         wo::sleep(Duration::from_millis(1))?;
//!     }
//!     Ok(())
//! }
//!
//! #[wo::main]
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let other = wo::spawn(|| count_down("other", 3));
//!     count_down("main", 3)?;
//!     other.join()??;
//!     Ok(())
//! }
//! ```
//!
//! # How a body is read
//!
//! Every call in the body of a fiber function is told apart by its type. A call that parks has the type `wo::Call`, as
//! every verb of `wo` and every fiber function gives one: it is awaited where it stands, and the fiber parks until it
//! is done. Any other call is what it was. So there is one kind of function in the source, and ordinary Rust compiles
//! unchanged: iterators, closures, `?`, patterns, guards, generics, traits, `std`.
//!
//! - Arguments of the macros of `std` (`println!`, `format!`, `assert!`, `vec!`, `matches!`, ...) are read too. The
//!   tokens of other macros are not: call what parks before, and hand its value in.
//! - A closure is a plain function, in which nothing parks; so are nested functions without the attribute, `async` and
//!   `const` blocks. But a closure given to [`wo::spawn`], or to a `spawn` in scope, is the body of a fiber, and owns
//!   what it captures, as if `move` stood there.
//! - Each turn of a loop counts against the fiber's budget (`WO_REDUCTIONS`); when it is spent, the other fibers run
//!   before the next turn does.
//! - A call whose very type is open until later (`collect`, `into`, `sum`, `parse().unwrap()`, ...) is passed by; no
//!   fiber function can have such a name. A generic function of your own whose whole result is open
//!   (`let n: u64 = decode(bytes)`) wants the type at the call: `decode::<u64>(bytes)`.
//!
//! # From ordinary async Rust
//!
//! A fiber function gives a future there, and `.await` runs it. In a fiber body, `wo::wait(future)` waits for a future
//! of another library.
//!
//! [`wo::spawn`]: https://docs.rs/wo/latest/wo/fn.spawn.html

mod args;
mod body;
mod entry;
mod fiber;
mod function;
mod names;
mod rewrite;
mod spans;

use proc_macro::TokenStream;

/// Runs the program's `main` as its first fiber.
///
/// `main` may return whatever a plain one may: nothing, a `Result` whose error is printed, an `ExitCode`. Its value is
/// the process's exit status; every other fiber is unwound when it returns. When the runtime cannot be set up, the
/// reason goes to stderr and the status is 1; after a panic it is 101; after a signal that stopped the program, past
/// the grace, 128 and the signal's number.
///
/// # Arguments
///
/// Each at most once; the environment (`WO_SHARDS` and so on) beats them.
///
/// | argument | value | without it |
/// |---|---|---|
/// | `shards` | how many threads, each a shard of its own, 1 or more | one per core the process may use |
/// | `reductions` | a fiber's budget, in loop turns and verbs, 1 or more | 4000 |
/// | `io` | `"auto"`, `"uring"`, `"epoll"` or `"sim"` | `"auto"` |
/// | `seed` | where the simulated kernel's dice start | 0 |
///
/// ```
/// #[wo::main(shards = 1, io = "auto")]
/// fn main() {
///     let answer = wo::spawn(|| 6 * 7).join();
///     assert_eq!(answer.ok(), Some(42));
/// }
/// ```
///
/// A value out of range, or a name that is unknown, is an error where it stands:
///
/// ```compile_fail
/// #[wo::main(shards = 0)]
/// fn main() {}
/// ```
#[proc_macro_attribute]
pub fn main(args: TokenStream, item: TokenStream) -> TokenStream {
    entry::expand(args.into(), item.into()).into()
}

/// Makes a plain function one that may park: in its body the verbs of `wo` and other fiber functions are called like
/// any function, and the fiber waits for them.
///
/// It goes on free functions and on methods, whatever their receiver, in an `impl` or in a `trait`, with a body or
/// without, generic or not. `fn f(..) -> R` becomes `fn f(..) -> wo::Call<impl Future<Output = R>>`; from another fiber
/// body it is called as if it gave an `R`, and from ordinary async Rust it is awaited. Its parameters belong to the
/// call, and are dropped when a plain function would drop them.
///
/// ```
/// trait Source {
///     #[wo::fiber]
///     fn next_line(&mut self) -> wo::IoResult<Option<String>>;
///
///     #[wo::fiber]
///     fn count(&mut self) -> wo::IoResult<usize> {
///         let mut lines = 0;
///         while self.next_line()?.is_some() {
///             lines += 1;
///         }
///         Ok(lines)
///     }
/// }
///
/// struct Countdown(u8);
///
/// impl Source for Countdown {
///     #[wo::fiber]
///     fn next_line(&mut self) -> wo::IoResult<Option<String>> {
///         wo::yield_now()?;
///         let Some(left) = self.0.checked_sub(1) else { return Ok(None) };
///         self.0 = left;
///         Ok(Some(format!("{left} left")))
///     }
/// }
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     assert_eq!(Countdown(3).count()?, 3);
///     Ok(())
/// }
/// ```
///
/// A trait with such a method cannot be a `dyn` object, as with every method that returns an `impl Trait`.
///
/// # Recursion
///
/// A call of the function's own name boxes its future, so that recursion just works:
///
/// ```
/// #[wo::fiber]
/// fn ackermann(m: u64, n: u64) -> u64 {
///     match (m, n) {
///         (0, n) => n + 1,
///         (m, 0) => ackermann(m - 1, 1),
///         (m, n) => ackermann(m - 1, ackermann(m, n - 1)),
///     }
/// }
/// # #[wo::main]
/// # fn main() { assert_eq!(ackermann(2, 3), 9); }
/// ```
///
/// Where functions call each other in a ring, one of them has to say that its calls are boxed:
///
/// ```
/// #[wo::fiber(boxed)]
/// fn is_even(n: u32) -> bool {
///     n == 0 || is_odd(n - 1)
/// }
///
/// #[wo::fiber]
/// fn is_odd(n: u32) -> bool {
///     n != 0 && is_even(n - 1)
/// }
/// # #[wo::main]
/// # fn main() { assert!(is_even(10)); }
/// ```
#[proc_macro_attribute]
pub fn fiber(args: TokenStream, item: TokenStream) -> TokenStream {
    fiber::expand(args.into(), item.into()).into()
}
