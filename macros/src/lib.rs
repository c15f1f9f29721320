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
//!   `const` blocks. But a closure given to [`wo::spawn`], within a plain one too, is the body of a fiber, and owns
//!   what it captures, as if `move` stood there; so is one given to `spawn`, `fork`, `spawn_daemon` or `on_exit` of a
//!   `wo::Scope` that goes by a plain name.
//! - A closure given to `wo::scope`, `wo::with_deadline`, `wo::timeout`, `wo::protect`, `wo::retry`, `wo::repeat`,
//!   `wo::race`, `wo::join` and their like is a part of the fiber that calls: it parks as the rest does, and captures
//!   as a plain closure would, so what it changes outside is changed.
//! - These functions are known by their `wo::`, or by a `use wo::..` within the body. Imported outside of it,
//!   `spawn` and its kin, `scope` and its kin, `with_deadline` and `protect` are known by their names alone, unless a
//!   variable, a nested function or another `use` in the body has that name; the rest are not, since others use these
//!   names, too.
//! - Each turn of a loop counts against the fiber's budget (`WO_REDUCTIONS`); when it is spent, the other fibers run
//!   before the next turn does.
//! - A call whose very type is open until later (`collect`, `into`, `sum`, `parse().unwrap()`, ...) is passed by; no
//!   fiber function can have such a name. A generic function of your own whose whole result is open
//!   (`let n: u64 = decode(bytes)`) wants the type at the call: `decode::<u64>(bytes)`.
//!
//! # From ordinary async Rust
//!
//! A fiber function gives a future there, and `.await` runs it. In a fiber body, `wo::wait(future)` waits for a future
//! of another library, and `wo::wait_unless_cancelled(future)` does until a deadline, a race or a cancel ends it.
//!
//! [`wo::spawn`]: https://docs.rs/wo/latest/wo/fn.spawn.html

mod actor;
mod args;
mod body;
mod derive_message;
mod entry;
mod fiber;
mod function;
mod names;
mod record;
mod rewrite;
mod spans;

use proc_macro::TokenStream;

/// Runs the program's `main` as its first fiber.
///
/// `main` may return whatever a plain one may: nothing, a `Result` whose error is printed, a `wo::Outcome` among them,
/// an `ExitCode`. It may ask for what the program can do to the world: `fn main(env: wo::Env)`. Its value is the
/// process's exit status; every other fiber is unwound when it returns. When the runtime cannot be set up, the reason
/// goes to stderr and the status is 1; after a panic it is 101; after a signal that stopped the program, past the
/// grace, 128 and the signal's number.
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
/// | `topology` | `"single"`, `"thread-per-core"` or `"work-stealing"`, where fibers start | `"thread-per-core"` |
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
///
/// The functions' variables lie on the heap, but who goes on runs through all of its callers, on the thread's stack.
/// Of small functions like these some 20,000 calls within each other fit a stack of 8 MiB in a debug build, some
/// 120,000 in a release build; one that is exhausted ends the process, as in plain Rust.
///
/// # As a test
///
/// Under `#[test]`, in either order, the function runs as the main fiber of a program of its own: on one shard, and on
/// the kernel that `WO_IO` names. What a test may return it may, too.
///
/// ```
/// # /*
/// #[test]
/// # */
/// #[wo::fiber]
/// fn sleeping_takes_time() -> wo::IoResult<()> {
///     let start = wo::now();
///     wo::sleep(std::time::Duration::from_millis(1))?;
///     assert!(wo::now() > start);
///     Ok(())
/// }
/// # fn main() -> impl std::process::Termination { sleeping_takes_time() }
/// ```
#[proc_macro_attribute]
pub fn fiber(args: TokenStream, item: TokenStream) -> TokenStream {
    fiber::expand(args.into(), item.into()).into()
}

/// Makes an actor of the type whose `impl` this is: state that handles one message at a time, and is reached through an
/// address.
///
/// ```
/// use std::collections::HashMap;
///
/// struct Words {
///     counts: HashMap<String, u64>,
/// }
///
/// #[wo::actor]
/// impl Words {
///     /// Counts a word.
///     fn receive(&mut self, word: String) {
///         *self.counts.entry(word).or_default() += 1;
///     }
/// }
///
/// #[wo::main]
/// fn main() {
///     let words = wo::spawn(Words { counts: HashMap::new() });
///     for word in "to be or not to be".split(' ') {
///         words.send(word.to_owned()).expect("nothing cancels this");
///     }
/// }
/// ```
///
/// [`wo::spawn`] moves the state to the shard whose turn it is and gives an `Addr<M>`, a word to copy and to send
/// about, where `M` is what `receive` takes. State that may not move is made over there: `wo::spawn_with(|| ..)`.
///
/// `receive` is the body of a fiber, as under [`macro@fiber`]: it may park, and the next message waits until it is
/// done. So are the hooks and the messages below. Every other function of the `impl` stays as it is; one that parks has
/// [`macro@fiber`] itself.
///
/// # Hooks
///
/// Known by their names, each with `&mut self` alone, and each may be missing:
///
/// | function | runs |
/// |---|---|
/// | `started` | before the first message |
/// | `stopping` | after the last one, when the actor was stopped or killed; not after a panic |
/// | `on_cancel` | when a request was cancelled while it was handled, after its handler has returned; it cannot park |
///
/// # Messages that are calls
///
/// A method marked `#[message]` is called on the address as it would be on the state, and its value comes back:
///
/// ```
/// # use std::collections::HashMap;
/// use std::time::Duration;
/// use wo::actor::{Addr, AskError, Reply};
///
/// #[derive(Default)]
/// struct Words {
///     counts: HashMap<String, u64>,
///     waiting: Vec<Reply<u64>>,
/// }
///
/// #[wo::actor]
/// impl Words {
///     /// Sent, and nobody waits for it.
///     #[message(send)]
///     pub fn count(&mut self, word: String) {
///         *self.counts.entry(word).or_default() += 1;
///     }
///
///     /// Asked, and the call gives the answer.
///     #[message]
///     pub fn count_of(&mut self, word: String) -> u64 {
///         self.counts.get(&word).copied().unwrap_or(0)
///     }
///
///     /// Answered when the time has come: the reply is kept. Callers do not see that parameter.
///     #[message]
///     pub fn total(&mut self, reply: Reply<u64>) {
///         self.waiting.push(reply);
///     }
///
///     #[message(send)]
///     pub fn close(&mut self) {
///         for reply in self.waiting.drain(..) {
///             let _ = reply.send(self.counts.values().sum());
///         }
///     }
/// }
///
/// #[wo::main]
/// fn main() -> Result<(), AskError> {
///     let words: Addr<WordsMessage> = wo::spawn(Words::default());
///     words.count("be".to_owned()).expect("nothing cancels this");
///     assert_eq!(words.count_of("be".to_owned())?, 1);
///     assert_eq!(words.count_of_by("or".to_owned(), Duration::from_secs(1))?, 0);
///     let total = wo::spawn(|| words.total());
///     wo::yield_now().expect("nothing cancels this");
///     words.close().expect("nothing cancels this");
///     assert_eq!(total.join().expect("it does not panic")?, 1);
///     Ok(())
/// }
/// ```
///
/// A call of `#[message] fn get(&mut self, key: K) -> V` gives a `Result<V, AskError>`; `get_by(key, deadline)` is the
/// same with a deadline, which also cancels the handler. A call of `#[message(send)] fn add(&mut self, n: N)` gives
/// what `Addr::send` gives.
///
/// Arguments and answers move between shards: they are `Send` and own what they hold. The calls have the methods'
/// visibility and docs, and need no import.
///
/// The address is then that of a type called `WordsMessage`, or what `#[wo::actor(message = Name)]` says. It has a
/// constructor for each method, for a message to be sent later or by others: `WordsMessage::count(word)`. If there is a
/// `receive`, too, what that takes is turned into one with `from`: `words.send(plain.into())`.
///
/// # On a type
///
/// On the struct or enum itself the attribute changes nothing; it is an error there when the type is no actor.
///
/// # Errors
///
/// WO-E221 is a type without `receive` where an actor is needed, WO-E222 a message, an argument, an answer or a state
/// that may not cross shards:
///
/// ```compile_fail
/// struct Words;
///
/// #[wo::actor]
/// impl Words {
///     fn receive(&mut self, _word: std::rc::Rc<str>) {}
/// }
/// ```
///
/// [`wo::spawn`]: https://docs.rs/wo/latest/wo/fn.spawn.html
#[proc_macro_attribute]
pub fn actor(args: TokenStream, item: TokenStream) -> TokenStream {
    actor::expand(args.into(), item.into()).into()
}

/// Has the compiler point at the field that keeps a type from being a message.
///
/// Any type is a message that is `Send` and owns what it holds; this derive implements nothing. Without it the compiler
/// tells that a message cannot cross shards and names the part that cannot; with it, also the field that part is in.
///
/// ```
/// #[derive(wo::Message)]
/// enum Edit {
///     Insert { at: usize, text: String },
///     Clear,
/// }
/// ```
#[proc_macro_derive(Message)]
pub fn message(item: TokenStream) -> TokenStream {
    derive_message::expand(item.into()).into()
}

/// Makes a struct the record of a table of the database: its rows.
///
/// ```
/// #[derive(wo::Record, Clone, Debug)]
/// struct Account {
///     #[key]
///     id: u64,
///     #[unique]
///     email: String,
///     #[index]
///     city: String,
///     balance: i64,
/// }
///
/// #[wo::main]
/// fn main() -> Result<(), wo::db::Error> {
///     let db = wo::db::Db::builder().table::<Account>().in_memory()?;
///     let accounts = db.table::<Account>()?;
///     let (email, city) = ("ada@example.org".to_owned(), "London".to_owned());
///     accounts.insert(Account { id: 1, email, city, balance: 10 })?;
///     assert!(accounts.find(Account::EMAIL, "ada@example.org")?.is_some());
///     assert_eq!(accounts.by(Account::CITY, "London").count()?, 1);
///     Ok(())
/// }
/// ```
///
/// # On a field
///
/// | attribute | means |
/// |---|---|
/// | `#[key]` | rows are told apart by it, and sorted; on several fields, by all of them, in the order they stand in |
/// | `#[key(auto)]` | a row with key 0 is given the number behind the last one |
/// | `#[unique]` | no two rows have the same value, `None` aside; a constant of its name in capitals finds rows by it |
/// | `#[index]` | rows are found by it, with a constant likewise |
/// | `#[default]`, `#[default(value)]` | what it is in rows that were stored without it |
/// | `#[record(default)]`, `#[record(default = value)]` | the same, in a record that derives `Default` |
/// | `#[renamed("former")]` | what it was called in rows that were stored earlier |
///
/// What a field may hold: see the trait `wo::db::Field`; a type of your own with `#[derive(wo::Field)]`.
///
/// # On the struct
///
/// | `#[record(..)]` | means |
/// |---|---|
/// | `table = "name"` | the table's name; without it the struct's, in small letters |
/// | `version = 2` | counts up whenever the fields change; 1 without it |
/// | `upgrade(1 = function)` | `fn(&OldRow<'_>) -> wo::db::Result<Self>` makes rows of version 1 into such ones |
///
/// Within a version fields may change their order, and their indexes. In a later one they may also go, come with a
/// default, and be renamed. Everything else is an upgrade function's, and opening is refused without one.
///
/// ```
/// use wo::db::{Db, OldRow};
///
/// mod first {
///     #[derive(wo::Record)]
///     #[record(table = "people")]
///     pub struct Person {
///         #[key]
///         pub id: u64,
///         pub name: String,
///     }
/// }
///
/// mod second {
///     #[derive(wo::Record)]
///     #[record(table = "people", version = 2)]
///     pub struct Person {
///         #[key]
///         pub id: u64,
///         #[renamed("name")]
///         pub full_name: String,
///         #[default("nowhere".to_owned())]
///         pub city: String,
///     }
/// }
///
/// #[derive(wo::Record)]
/// #[record(table = "people", version = 3, upgrade(1 = from_1, 2 = from_2))]
/// struct Person {
///     #[key]
///     id: u64,
///     letters: usize,
/// }
///
/// fn from_1(old: &OldRow<'_>) -> wo::db::Result<Person> {
///     Ok(Person { id: old.get("id")?, letters: old.get::<String>("name")?.len() })
/// }
///
/// fn from_2(old: &OldRow<'_>) -> wo::db::Result<Person> {
///     Ok(Person { id: old.get("id")?, letters: old.get::<String>("full_name")?.len() })
/// }
///
/// #[wo::main]
/// fn main() -> wo::db::Result<()> {
/// #   let dir = std::env::temp_dir().join(format!("wo-record-{}", std::process::id()));
/// #   let dir = dir.as_path();
///     let db = Db::builder().table::<first::Person>().open(dir)?;
///     db.table::<first::Person>()?.insert(first::Person { id: 1, name: "Ada".to_owned() })?;
///     db.close()?;
///
///     let db = Db::builder().table::<second::Person>().open(dir)?;
///     let ada = db.table::<second::Person>()?.get(&1)?.expect("she was there");
///     assert_eq!((ada.full_name.as_str(), ada.city.as_str()), ("Ada", "nowhere"));
///     db.close()?;
///
///     let db = Db::builder().table::<Person>().open(dir)?;
///     assert_eq!(db.table::<Person>()?.get(&1)?.map(|ada| ada.letters), Some(3));
///     db.close()?;
/// #   std::fs::remove_dir_all(dir).unwrap();
///     Ok(())
/// }
/// ```
#[proc_macro_derive(Record, attributes(record, key, unique, index, default, renamed))]
pub fn record(item: TokenStream) -> TokenStream {
    record::expand(item.into()).into()
}

/// Lets a struct or an enum stand in a record's field.
///
/// ```
/// #[derive(wo::Field, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
/// enum State {
///     Open,
///     Closed { by: u64 },
/// }
///
/// #[derive(wo::Record)]
/// struct Ticket {
///     #[key(auto)]
///     id: u64,
///     #[index]
///     state: State,
/// }
/// ```
///
/// Its fields and variants are part of what is stored: a change of them is a change of every record it stands in, for
/// which that takes an upgrade function.
#[proc_macro_derive(Field)]
pub fn field(item: TokenStream) -> TokenStream {
    record::expand_field(item.into()).into()
}
