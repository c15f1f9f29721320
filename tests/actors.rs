//! Actors as programs write them, under the attribute: on every kernel, on one shard and on several.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wo::actor::{Addr, AskError, Exit, Options, Reply};
use wo::{Builder, Call, Selection};

/// Long enough that only a mistake makes it pass.
const NEVER: Duration = Duration::from_secs(60);

/// Runs `program` everywhere.
#[track_caller]
fn everywhere<F: Future<Output = ()> + 'static>(program: impl Fn() -> Call<F>) {
    let kernels = [Selection::Uring, Selection::Epoll, Selection::Sim];
    for (io, shards) in kernels.into_iter().flat_map(|io| [(io, 1), (io, 3)]) {
        eprintln!("on {io} with {shards} shards");
        let ran = Builder::new().io(io).shards(shards).run(program());
        ran.unwrap_or_else(|error| panic!("on {io} with {shards} shards: {error}"));
    }
}

/// What happened, in order, told from any shard.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    fn add(&self, event: impl Into<String>) {
        self.0.lock().expect("nobody panics here").push(event.into());
    }

    fn events(&self) -> Vec<String> {
        self.0.lock().expect("nobody panics here").clone()
    }
}

mod words {
    use std::collections::BTreeMap;

    /// Counts words; its calls are used from other modules without an import.
    #[derive(Default)]
    pub struct Words {
        counts: BTreeMap<String, u64>,
        cleared: u64,
    }

    #[wo::actor]
    impl Words {
        /// Counts one.
        #[message(send)]
        pub fn count(&mut self, word: String) {
            self.add(word, 1);
        }

        #[message]
        pub fn count_of(&mut self, word: String) -> Option<u64> {
            self.counts.get(&word).copied()
        }

        #[message]
        pub fn add_all(&mut self, (first, second): (String, String), mut times: u64) -> u64 {
            times *= 2;
            self.add(first, times);
            self.add(second, times);
            self.counts.values().sum()
        }

        #[message]
        fn clear(&mut self) {
            wo::yield_now().expect("nothing cancels this");
            self.counts.clear();
            self.cleared += 1;
        }

        #[message]
        pub(super) fn cleared(&self) -> u64 {
            self.cleared
        }

        #[cfg(any())]
        #[message]
        pub fn never(&mut self, nothing: ThereIsNoSuchType) {}

        fn add(&mut self, word: String, times: u64) {
            *self.counts.entry(word).or_default() += times;
        }
    }

    #[wo::fiber]
    pub fn emptied(words: wo::actor::Addr<WordsMessage>) -> Result<(), wo::actor::AskError> {
        words.clear()
    }
}

#[test]
fn a_message_marked_so_is_called_on_the_address() {
    #[wo::fiber]
    fn program() {
        let words = wo::spawn(words::Words::default());
        for word in ["to", "be", "or", "not", "to", "be"] {
            words.count(word.to_owned()).unwrap();
        }
        assert_eq!(words.count_of("be".to_owned()), Ok(Some(2)));
        assert_eq!(words.count_of_by("nor".to_owned(), NEVER), Ok(None));
        assert_eq!(words.add_all(("be".to_owned(), "me".to_owned()), 2).unwrap(), 14);
        words::emptied(words).unwrap();
        assert_eq!(words.count_of("be".to_owned()).unwrap(), None);
        assert_eq!(words.cleared(), Ok(1));
        words.send(words::WordsMessage::count("later".to_owned())).unwrap();
        assert_eq!(words.count_of("later".to_owned()), Ok(Some(1)));
        assert!(words.stop());
        words.ended().unwrap();
        assert_eq!(words.count_of("be".to_owned()), Err(AskError::Closed));
        words.count("lost".to_owned()).unwrap();
    }
    everywhere(program);
}

/// Handles what it is sent in order, whatever each message takes.
#[wo::actor]
struct Log {
    lines: Vec<u32>,
    trace: Trace,
}

#[wo::actor]
impl Log {
    fn receive(&mut self, line: u32) {
        if line.is_multiple_of(3) {
            pause(line).unwrap();
        }
        self.lines.push(line);
    }

    fn started(&mut self) {
        wo::sleep(Duration::from_millis(1)).unwrap();
        self.trace.add("started");
    }

    fn stopping(&mut self) {
        wo::yield_now().unwrap();
        self.trace.add(format!("stopping after {:?}", self.lines));
    }
}

#[wo::fiber]
fn pause(turns: u32) -> wo::IoResult<()> {
    for _ in 0..turns {
        wo::yield_now()?;
    }
    wo::sleep(Duration::from_micros(50))
}

#[test]
fn a_handler_parks_and_the_next_message_waits() {
    #[wo::fiber]
    fn program() {
        let trace = Trace::default();
        let log: Addr<u32> = wo::spawn(Log { lines: Vec::new(), trace: trace.clone() });
        for line in 0..8 {
            log.send(line).unwrap();
        }
        log.stop();
        assert!(matches!(log.ended(), Ok(Exit::Stopped)));
        assert_eq!(trace.events(), ["started", "stopping after [0, 1, 2, 3, 4, 5, 6, 7]"]);
    }
    everywhere(program);
}

/// Sleeps when asked to, and says what became of that.
struct Sleeper {
    trace: Trace,
}

#[wo::actor]
impl Sleeper {
    #[message]
    fn sleep(&mut self, span: Duration) -> bool {
        let slept = wo::sleep(span).is_ok();
        self.trace.add(if slept { "slept" } else { "woken" });
        slept
    }

    #[message]
    fn panic(&mut self) {
        panic!("as asked");
    }

    fn on_cancel(&mut self) {
        self.trace.add("told");
    }
}

#[test]
fn a_call_whose_time_is_up_cancels_its_handler() {
    #[wo::fiber]
    fn program() {
        let trace = Trace::default();
        let sleeper = wo::spawn(Sleeper { trace: trace.clone() });
        assert_eq!(sleeper.sleep_by(NEVER, Duration::from_millis(5)), Err(AskError::Deadline));
        assert_eq!(sleeper.sleep(Duration::ZERO), Ok(true));
        assert_eq!(trace.events(), ["woken", "told", "slept"]);
    }
    everywhere(program);
}

#[test]
fn a_panic_in_a_handler_fails_its_caller_and_ends_the_actor() {
    #[wo::fiber]
    fn program() {
        let sleeper = wo::spawn(Sleeper { trace: Trace::default() });
        assert_eq!(sleeper.panic(), Err(AskError::Panicked));
        sleeper.ended().unwrap();
        assert_eq!(sleeper.sleep(Duration::ZERO), Err(AskError::Closed));
    }
    everywhere(program);
}

/// Answers when it is told to, not when it is asked.
#[derive(Default)]
struct Gate {
    waiting: Vec<(u32, Reply<String>)>,
}

#[wo::actor]
impl Gate {
    /// Waits until the gate opens; the reply is none of the caller's business.
    #[message]
    fn pass(&mut self, reply: Reply<String>, number: u32) {
        self.waiting.push((number, reply));
    }

    #[message]
    fn open(&mut self) -> usize {
        let passed = self.waiting.len();
        for (number, reply) in self.waiting.drain(..) {
            let _ = reply.send(format!("number {number}"));
        }
        passed
    }

    /// Sent along, a reply is an argument like any other.
    #[message(send)]
    fn hand_on(&mut self, reply: Reply<String>) {
        let _child = wo::spawn(move || {
            wo::yield_now().unwrap();
            let _ = reply.send("by a child".to_owned());
        });
    }

    #[message(send)]
    fn forget(&mut self) {
        self.waiting.clear();
    }
}

#[test]
fn a_reply_may_be_kept_and_given_later() {
    #[wo::fiber]
    fn program() {
        let gate = wo::spawn(Gate::default());
        let waiting = [1, 2].map(|number| wo::spawn(async move || gate.pass(number).await));
        let mut passed = 0;
        while passed < 2 {
            wo::yield_now().unwrap();
            passed += gate.open().unwrap();
        }
        for (number, waiting) in (1..).zip(waiting) {
            assert_eq!(waiting.join().unwrap(), Ok(format!("number {number}")));
        }
        assert_eq!(gate.ask(GateMessage::hand_on).unwrap(), "by a child");
        let forgotten = wo::spawn(|| gate.pass(3));
        wo::yield_now().unwrap();
        gate.forget().unwrap();
        assert_eq!(forgotten.join().unwrap(), Err(AskError::NoReply));
        assert_eq!(gate.pass_by(4, Duration::from_millis(1)), Err(AskError::Deadline));
    }
    everywhere(program);
}

/// Has a handler for what it is sent, and calls.
#[derive(Default)]
struct Account(i64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Deposit(u32),
    Withdraw(u32),
}

#[wo::actor(message = AccountCall)]
impl Account {
    fn receive(&mut self, change: Change) {
        match change {
            Change::Deposit(amount) => self.0 += i64::from(amount),
            Change::Withdraw(amount) => self.0 -= i64::from(amount),
        }
    }

    #[message]
    fn balance(&mut self) -> i64 {
        self.0
    }

    #[message]
    fn withdraw(&mut self, amount: u32) -> Result<i64, String> {
        if self.0 < i64::from(amount) {
            return Err(format!("{} is less than {amount}", self.0));
        }
        self.receive(Change::Withdraw(amount));
        Ok(self.balance())
    }

    /// Takes the whole of another account, and the recursion of a handler is boxed.
    #[message]
    fn take_over(&mut self, mut other: Self) -> i64 {
        if other.0 == 0 {
            return self.0;
        }
        self.0 += 1;
        other.0 -= 1;
        self.take_over(other)
    }
}

#[test]
fn an_actor_may_have_both_a_receive_and_calls() {
    #[wo::fiber]
    fn program() -> Result<(), AskError> {
        let account: Addr<AccountCall> = wo::spawn(Account(0));
        account.send(Change::Deposit(7).into()).unwrap();
        account.send(AccountCall::from(Change::Withdraw(2))).unwrap();
        assert_eq!(account.balance()?, 5);
        assert_eq!(account.withdraw(9)?, Err("5 is less than 9".to_owned()));
        assert_eq!(account.withdraw(4)?, Ok(1));
        assert_eq!(account.take_over(Account(9))?, 10);
        Ok(())
    }
    everywhere(|| Call::new(async { program().await.unwrap() }));
}

/// Its messages are of a type that is open; `N` is in no message.
struct Stack<T, const N: usize> {
    items: Vec<T>,
}

#[wo::actor]
impl<T, const N: usize> Stack<T, N>
where
    T: Clone + Send + 'static,
{
    #[message]
    fn push(&mut self, item: T) -> Result<(), T> {
        if self.items.len() == N {
            return Err(item);
        }
        self.items.push(item);
        Ok(())
    }

    #[message]
    fn pop(&mut self) -> Option<T> {
        self.items.pop()
    }

    #[message]
    fn room(&mut self) -> [(); N] {
        [(); N]
    }
}

/// Neither parameter is in any message.
struct Tally<A, B>(u64, PhantomData<fn() -> (A, B)>);

#[wo::actor]
impl<A: 'static, B: 'static> Tally<A, B> {
    #[message]
    fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// What it receives is the parameter itself.
struct Last<T>(Option<T>);

#[wo::actor]
impl<T: Copy + Send + 'static> Last<T> {
    fn receive(&mut self, item: T) {
        self.0 = Some(item);
    }

    #[message]
    fn last(&mut self) -> Option<T> {
        self.0
    }
}

#[test]
fn actors_may_be_generic() {
    #[wo::fiber]
    fn full_at_two<T: Clone + Send + 'static>(stack: Addr<StackMessage<T, 2>>, item: T) -> Result<bool, AskError> {
        Ok(stack.push(item.clone())?.is_ok() && stack.push(item.clone())?.is_ok() && stack.push(item)?.is_err())
    }

    #[wo::fiber]
    fn program() {
        let words = wo::spawn(Stack::<_, 2> { items: Vec::new() });
        assert!(full_at_two(words, "word".to_owned()).unwrap());
        assert_eq!(words.pop(), Ok(Some("word".to_owned())));
        assert_eq!(words.room().unwrap().len(), 2);
        let units = wo::spawn(Stack::<(), 2> { items: Vec::new() });
        assert_eq!(full_at_two(units, ()), Ok(true));
        let tally = wo::spawn(Tally::<Rc<u8>, String>(0, PhantomData));
        assert_eq!([tally.next().unwrap(), tally.next().unwrap()], [1, 2]);
        let last: Addr<LastMessage<char>> = wo::spawn(Last(None));
        last.send('x'.into()).unwrap();
        assert_eq!(last.last(), Ok(Some('x')));
    }
    everywhere(program);
}

/// What cannot move is made where it lives.
struct Shared {
    lines: Rc<Vec<String>>,
    made_on: Option<usize>,
}

#[wo::actor]
impl Shared {
    #[message]
    fn push(&mut self, line: String) -> usize {
        let before = self.lines.clone();
        Rc::make_mut(&mut self.lines).push(line);
        wo::yield_now().unwrap();
        before.len()
    }

    /// The shard it was made on, and the one it lives on.
    #[message]
    fn shards(&mut self) -> [Option<usize>; 2] {
        [self.made_on, wo::shard_index()]
    }
}

#[test]
fn a12_state_that_cannot_move_is_made_on_its_shard() {
    #[wo::fiber]
    fn program() {
        let lines = vec!["first".to_owned()];
        let everywhere = [0, 1, 2].map(|shard| {
            let lines = lines.clone();
            Options::new().shard(shard).spawn_with(move || Shared { lines: Rc::new(lines), made_on: wo::shard_index() })
        });
        for (shard, shared) in everywhere.iter().enumerate() {
            assert_eq!(shared.shards(), Ok([Some(shard % wo::shards()); 2]));
        }
        let anywhere = wo::spawn_with(move || Shared { lines: Rc::new(lines), made_on: wo::shard_index() });
        for shared in everywhere.into_iter().chain([anywhere]) {
            assert_eq!(shared.push("second".to_owned()), Ok(1));
            assert_eq!(shared.push("third".to_owned()), Ok(2));
        }
    }
    everywhere(program);
}

/// Nobody names a shard, and each gets as many.
#[test]
fn h4_actors_go_round_the_shards() {
    #[wo::fiber]
    fn program() {
        let shards = wo::shards();
        let mut places = Vec::new();
        for _ in 0..3 * shards {
            let shared = wo::spawn_with(|| Shared { lines: Rc::default(), made_on: wo::shard_index() });
            let [made_on, lives_on] = shared.shards().expect("answer");
            assert_eq!(made_on, lives_on);
            places.push(lives_on.expect("on a shard"));
        }
        let (first, later) = places.split_at(shards);
        assert_eq!(first.iter().collect::<HashSet<_>>().len(), shards, "{places:?}");
        assert!(later.chunks(shards).all(|round| round == first), "{places:?}");
    }
    everywhere(program);
}

/// Spawns its rooms, and keeps their addresses.
#[derive(Default)]
struct Hall {
    rooms: BTreeMap<String, Addr<RoomMessage>>,
    newest: Option<Addr<RoomMessage>>,
}

#[derive(Default)]
struct Room {
    said: Vec<String>,
}

#[wo::actor]
impl Room {
    #[message]
    fn say(&mut self, line: String) -> usize {
        self.said.push(line);
        self.said.len()
    }

    #[message]
    fn said(&mut self) -> Vec<String> {
        self.said.clone()
    }
}

#[wo::actor]
impl Hall {
    #[message]
    fn room(&mut self, name: String) -> Addr<RoomMessage> {
        match self.rooms.get(&name) {
            Some(room) => *room,
            None => {
                let room = wo::spawn(Room::default());
                self.rooms.insert(name, room);
                self.newest = Some(room);
                room
            }
        }
    }

    #[message]
    fn say_everywhere(&mut self, line: String) -> Result<usize, AskError> {
        let mut said = 0;
        for room in self.rooms.values() {
            said += room.say(line.clone())?;
        }
        Ok(said)
    }

    #[message]
    fn is_newest(&mut self, room: Addr<RoomMessage>) -> bool {
        self.newest == Some(room)
    }
}

#[test]
fn actors_spawn_actors_and_keep_their_addresses() {
    #[wo::fiber]
    fn program() -> Result<(), AskError> {
        let hall = wo::spawn(Hall::default());
        let mut names = HashMap::new();
        for name in ["red", "green", "blue", "red"] {
            let room = hall.room(name.to_owned())?;
            room.say(format!("in {name}"))?;
            names.insert(room, name);
        }
        assert_eq!(names.len(), 3);
        assert_eq!(hall.say_everywhere("all".to_owned())?, Ok(2 + 3 + 2));
        let red = hall.room("red".to_owned())?;
        assert_eq!(red.said()?, ["in red", "in red", "all"]);
        assert_eq!(names[&red], "red");
        let unique: HashSet<_> = names.keys().copied().chain([red, red]).collect();
        assert_eq!(unique.len(), 3);
        let blue = hall.room("blue".to_owned())?;
        assert!(hall.is_newest(blue)? && !hall.is_newest(red)?);
        Ok(())
    }
    everywhere(|| Call::new(async { program().await.unwrap() }));
}

#[test]
fn one_spawn_takes_actors_and_the_bodies_of_fibers() {
    #[wo::fiber]
    fn double(n: u64) -> u64 {
        wo::yield_now().unwrap();
        2 * n
    }

    fn generic<B: wo::IntoFiber>(body: B) -> wo::JoinHandle<B::Output> {
        wo::spawn(body)
    }

    fn generic_actor<A: wo::actor::Actor + Send>(actor: A) -> Addr<A::Message> {
        wo::spawn(actor)
    }

    #[wo::fiber]
    fn program() {
        assert_eq!(wo::spawn(|| double(2)).join().unwrap(), 4);
        assert_eq!(generic(async || double(3).await).join().unwrap(), 6);
        let room = generic_actor(Room::default());
        let length = wo::spawn(|| room.say("hello".to_owned()).map(|length| length + 1));
        assert_eq!(length.join().unwrap(), Ok(2));
        let bounded = Options::new().bound(1).spawn(Room::default());
        assert_eq!(bounded.say("hello".to_owned()), Ok(1));
    }

    // Where nothing is rewritten, a call that parks is a body as it stands.
    everywhere(|| {
        Call::new(async {
            program().await;
            assert_eq!(wo::spawn(double(4)).join().await.unwrap(), 8);
            let room = wo::spawn(Room::default());
            assert_eq!(room.say("in plain async Rust".to_owned()).await, Ok(1));
        })
    });
}
