//! The home ring of a buffer pool: buffers dropped elsewhere come home, once, with all that was done to them.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::plane::buf::slab::Slab;
use crate::weakened::{accepted, rejected};

const COUNT: usize = 2;

/// A slab, and what stands for its bytes: loom sees two uses of a buffer that nothing orders.
struct Pool {
    slab: Slab,
    bytes: [UnsafeCell<()>; COUNT],
}

// SAFETY: a buffer's cell is touched by whoever has taken its place, which is what loom checks here.
unsafe impl Sync for Pool {}

impl Pool {
    fn new() -> Arc<Pool> {
        let slab = Slab::new(COUNT, 64).expect("there is memory for it");
        Arc::new(Pool { slab, bytes: [(); COUNT].map(UnsafeCell::new) })
    }

    fn take(&self) -> Option<u32> {
        let place = self.slab.take();
        place.inspect(|place| self.write(*place))
    }

    fn write(&self, place: u32) {
        self.bytes[place as usize].with_mut(|_| ());
    }

    fn give_back(&self, place: u32) {
        self.write(place);
        self.slab.give_back(place);
    }
}

/// Each buffer is dropped on a thread of its own, while home takes them again.
fn both_elsewhere() {
    let pool = Pool::new();
    let droppers = [(); COUNT].map(|()| {
        let place = pool.take().expect("none is out");
        let pool = Arc::clone(&pool);
        thread::spawn(move || pool.give_back(place))
    });
    let early = pool.take();
    droppers.into_iter().for_each(|dropper| dropper.join().expect("it only drops"));
    let mut all = [early.or_else(|| pool.take()), pool.take()].map(|place| place.expect("both came home"));
    all.sort_unstable();
    assert_eq!((all, pool.take()), ([0, 1], None));
}

/// One is dropped at home, the other elsewhere, and both are wanted again at once.
fn one_elsewhere() {
    let pool = Pool::new();
    let (here, there) = (pool.take().expect("none is out"), pool.take().expect("one is out"));
    let elsewhere = Arc::clone(&pool);
    let dropper = thread::spawn(move || elsewhere.give_back(there));
    pool.give_back(here);
    let first = pool.take().expect("one was dropped at home");
    let second = pool.take();
    assert!(second.is_none_or(|second| second != first), "a buffer is out twice");
    dropper.join().expect("it only drops");
    assert!(second.or_else(|| pool.take()).is_some(), "a buffer never came home");
}

/// The pool goes while a buffer is out; the buffer keeps the memory.
fn to_a_pool_that_is_gone() {
    let pool = Pool::new();
    let place = pool.take().expect("none is out");
    let elsewhere = Arc::clone(&pool);
    let dropper = thread::spawn(move || elsewhere.give_back(place));
    drop(pool);
    dropper.join().expect("it only drops");
}

accepted!(buffers_come_home, both_elsewhere);

accepted!(a_buffer_is_out_once, one_elsewhere);

accepted!(a_buffer_outlives_its_pool, to_a_pool_that_is_gone);

rejected!(a_buffer_elsewhere_must_take_the_ring, "a buffer is put on the free list from anywhere", both_elsewhere);

rejected!(home_must_look_into_the_ring, "home does not look into the ring", both_elsewhere);
