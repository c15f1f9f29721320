//! A panic ends its fiber alone, is told to whoever joins it, and is never swallowed.

use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use wo::BlockingError;
use wo::net::UnixStream;
use wo::plane::buf::{IoBuf, IoBufMut};

use crate::backends::{EVERY, on_every_backend, run, those_of};
use crate::child::{self, test_path};

#[wo::fiber]
fn one_of_three_panics() {
    let dropped = Rc::new(());
    let held = dropped.clone();
    let before = wo::spawn(|| {
        wo::sleep(Duration::from_millis(2)).expect("sleep");
        1
    });
    let panicking = wo::spawn(|| {
        let _held = held;
        wo::sleep(Duration::from_millis(1)).expect("sleep");
        if true {
            panic!("on purpose: {}", 40 + 2);
        }
        2
    });
    let after = wo::spawn(|| {
        wo::sleep(Duration::from_millis(3)).expect("sleep");
        3
    });
    let error = panicking.join().expect_err("it panicked");
    assert!(error.is_panic());
    let payload = error.into_panic().expect("it panicked");
    assert_eq!(payload.downcast_ref::<String>().map(String::as_str), Some("on purpose: 42"));
    assert_eq!(Rc::strong_count(&dropped), 1, "what the fiber held is dropped");
    assert_eq!((before.join().expect("a sibling"), after.join().expect("a sibling")), (1, 3));
}

#[test]
fn r36_panic_task() {
    on_every_backend(one_of_three_panics);
}

#[wo::fiber]
fn panics_under_a_name() {
    let handle = wo::spawn_named("the unlucky one", || {
        if true {
            panic!("reported with its name");
        }
    });
    let id = handle.id();
    assert!(handle.join().is_err());
    println!("fiber {id:?}");
}

#[test]
fn r36_panic_is_reported() {
    let wrote = child::run(test_path!(), || on_every_backend(panics_under_a_name));
    if let Some(wrote) = wrote {
        let reports = wrote.matches("the unlucky one").count();
        assert!(reports >= those_of(EVERY).len(), "the report names the fiber: {wrote}");
        assert!(wrote.contains("reported with its name"), "{wrote}");
    }
}

#[wo::fiber]
fn panics_unjoined() {
    drop(wo::spawn_named("left alone", || {
        if true {
            panic!("nobody joins it");
        }
    }));
    wo::sleep(std::time::Duration::from_millis(1)).expect("sleep");
    // The handle of this one goes when the panic has ended it.
    let unread = wo::spawn_named("never asked", || {
        if true {
            panic!("nobody asks it");
        }
    });
    while !unread.is_finished() {
        wo::yield_now().expect("nothing cancels it");
    }
}

/// A panic is nobody's secret: of a fiber whose handle has gone it is said on stderr like any other.
#[test]
fn r36_a_panic_that_nobody_joins_is_reported() {
    if let Some(wrote) = child::run(test_path!(), || on_every_backend(panics_unjoined)) {
        for words in ["(left alone) panicked", "nobody joins it", "(never asked) panicked", "nobody asks it"] {
            assert_eq!(wrote.matches(words).count(), those_of(EVERY).len(), "{words:?} on every kernel: {wrote}");
        }
    }
}

/// Calls that panic on the only thread there is for them, then one that answers.
#[wo::fiber]
fn panics_on_the_pool() {
    for number in 0..8 {
        let ended = wo::blocking(move || {
            if true {
                panic!("call {number} fails");
            }
            number
        });
        match ended {
            Err(BlockingError::Panicked(payload)) => {
                assert_eq!(payload.downcast_ref::<String>(), Some(&format!("call {number} fails")));
            }
            other => panic!("it panicked: {other:?}"),
        }
    }
    assert_eq!(wo::blocking(|| 42).expect("the thread is good for more"), 42);
}

#[test]
fn r36_panic_blocking() {
    for backend in those_of(EVERY) {
        run(backend, |builder| builder.blocking_threads(1), panics_on_the_pool);
    }
}

/// Panics when it is dropped, unless the thread panics already.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a destructor's panic");
        }
    }
}

/// Counts itself when it is dropped.
struct Counted(Rc<std::cell::Cell<u32>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[wo::fiber]
fn leave_bombs(dropped: Rc<std::cell::Cell<u32>>) {
    for number in 0..9 {
        let counted = Counted(dropped.clone());
        wo::spawn(|| {
            let _counted = counted;
            let _bomb = (number % 3 == 1).then_some(Bomb);
            wo::sleep(Duration::MAX).expect("sleep");
        });
    }
    wo::sleep(Duration::from_millis(1)).expect("sleep");
}

#[test]
fn r36_panic_drop() {
    let wrote = child::run(test_path!(), || {
        for backend in those_of(EVERY) {
            let dropped = Rc::new(std::cell::Cell::new(0));
            let counter = dropped.clone();
            run(backend, |builder| builder, move || leave_bombs(counter));
            assert_eq!(dropped.get(), 9, "on {backend}: a panicking destructor stops no other");
        }
    });
    if let Some(wrote) = wrote {
        let reports = wrote.matches("a destructor's panic").count();
        assert!(reports >= 3 * those_of(EVERY).len(), "{reports} reports: {wrote}");
    }
}

struct Thrown;

impl Drop for Thrown {
    fn drop(&mut self) {
        panic!("what was thrown panics in turn");
    }
}

#[wo::fiber]
fn throws_what_panics_when_dropped() {
    let alone = wo::spawn(|| {
        if true {
            std::panic::panic_any(Thrown);
        }
    });
    drop(alone);
    wo::yield_now().expect("yield");
    let ended = wo::spawn(|| {
        if true {
            std::panic::panic_any(Thrown);
        }
    });
    wo::yield_now().expect("yield");
    assert!(ended.is_finished());
    drop(ended);
    let joined = wo::spawn(|| {
        if true {
            std::panic::panic_any(Thrown);
        }
    });
    std::mem::forget(joined.join());
}

#[test]
fn r36_what_a_panic_carried_panics_in_turn() {
    if let Some(wrote) = child::run(test_path!(), || on_every_backend(throws_what_panics_when_dropped)) {
        assert!(wrote.contains("wo: the destructor of"), "{wrote}");
    }
}

#[test]
fn r36_a_panic_is_survived_when_nobody_reads_stderr() {
    if child::is_child(test_path!()) {
        return on_every_backend(one_of_three_panics);
    }
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = child::command(test_path!()).stderr(writer).output().expect("the test binary starts");
    child::expect_success(output);
}

/// A buffer of the program's own, whose destructor panics.
struct Touchy(Vec<u8>);

// SAFETY: the bytes of a vector, which stay where they are when it is moved.
unsafe impl IoBuf for Touchy {
    fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

// SAFETY: as above.
unsafe impl IoBufMut for Touchy {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    fn capacity(&self) -> usize {
        self.0.capacity()
    }

    unsafe fn set_len(&mut self, len: usize) {
        // SAFETY: the caller's promise is the vector's own.
        unsafe { self.0.set_len(len) };
    }
}

impl Drop for Touchy {
    fn drop(&mut self) {
        panic!("a buffer panics");
    }
}

fn receive_and_give_up(stream: &UnixStream) {
    let mut receiving = Box::pin(stream.recv(Touchy(Vec::with_capacity(8))));
    assert!(receiving.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[wo::fiber]
fn gives_up_a_buffer_that_panics() {
    let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().expect("a pair")).collect();
    for (here, _there) in &pairs {
        receive_and_give_up(here);
    }
    wo::sleep(Duration::from_millis(1)).expect("sleep");
    for (here, there) in &pairs {
        there.write_all(b"after").expect("write");
        let mut after = [0; 5];
        here.read_exact(&mut after).expect("read");
        assert_eq!(&after, b"after");
        receive_and_give_up(here);
    }
}

#[test]
fn r36_a_buffer_that_was_given_up_panics() {
    if let Some(wrote) = child::run(test_path!(), || on_every_backend(gives_up_a_buffer_that_panics)) {
        assert!(wrote.contains("what an op held panicked: a buffer panics"), "{wrote}");
    }
}
