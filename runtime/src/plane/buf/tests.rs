//! Origins, ways home, foreign owners. Also run under Miri: `cargo +nightly miri test -p wo-runtime buf::`.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use crate::error::errno;
use crate::plane::buf::{Buf, BufPool, IoBuf, IoBufMut, Origin, Slice};

/// Foreign memory that counts how often it was freed.
struct Counted {
    bytes: [u8; 24],
    freed: Arc<AtomicUsize>,
}

impl AsMut<[u8]> for Counted {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.freed.fetch_add(1, Ordering::SeqCst);
    }
}

fn counted() -> (Buf, Arc<AtomicUsize>) {
    let freed = Arc::new(AtomicUsize::new(0));
    (Buf::from_owner(Counted { bytes: [9; 24], freed: Arc::clone(&freed) }), freed)
}

#[test]
fn origins_are_told_apart() {
    let pool = BufPool::new(1, 16).expect("a small pool");
    assert_eq!(Buf::new().origin(), Origin::None);
    assert_eq!(Buf::from_vec(Vec::new()).origin(), Origin::None);
    assert_eq!(Buf::with_capacity(1).origin(), Origin::Heap);
    assert_eq!(pool.take().expect("free").origin(), Origin::Pool);
    assert_eq!(counted().0.origin(), Origin::Foreign);
}

#[test]
fn bytes_stay_in_place_when_the_buffer_moves() {
    let pool = BufPool::new(1, 16).expect("a small pool");
    for mut buf in [Buf::with_capacity(16), pool.take().expect("free"), counted().0] {
        buf.clear();
        buf.extend_from_slice(b"pinned");
        let address = IoBuf::as_ptr(&buf) as usize;
        let moved = std::thread::spawn(move || (IoBuf::as_ptr(&buf) as usize, buf)).join();
        let (there, buf) = moved.expect("the thread only looks");
        assert_eq!((there, IoBuf::as_ptr(&buf) as usize), (address, address));
        assert_eq!(&buf[..], b"pinned");
    }
}

#[test]
fn inline_foreign_bytes_survive_a_move_while_the_kernel_writes() {
    let (mut buf, freed) = counted();
    let kernel = IoBufMut::as_mut_ptr(&mut buf);
    let mut moved = Box::new(buf);
    // SAFETY: as the kernel would, inside the capacity, while nobody else uses the bytes.
    unsafe {
        kernel.write(1);
        IoBufMut::set_len(&mut *moved, 1);
    }
    assert_eq!(&moved[..], [1]);
    assert_eq!(freed.load(Ordering::SeqCst), 0);
    drop(moved);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
}

#[test]
fn foreign_owner_is_dropped_once_on_any_thread_and_after_any_use() {
    let (buf, freed) = counted();
    std::thread::spawn(move || drop(buf)).join().expect("the thread only drops it");
    assert_eq!(freed.load(Ordering::SeqCst), 1);

    let (buf, freed) = counted();
    assert_eq!(buf.into_vec(), [9; 24]);
    assert_eq!(freed.load(Ordering::SeqCst), 1);

    let (buf, freed) = counted();
    drop(Slice::new(buf, 2..7).into_inner());
    assert_eq!(freed.load(Ordering::SeqCst), 1);
}

#[test]
fn foreign_owner_that_panics_is_dropped() {
    struct Refuses(Arc<AtomicUsize>);
    impl AsMut<[u8]> for Refuses {
        fn as_mut(&mut self) -> &mut [u8] {
            panic!("no bytes");
        }
    }
    impl Drop for Refuses {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let freed = Arc::new(AtomicUsize::new(0));
    let owner = Refuses(Arc::clone(&freed));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Buf::from_owner(owner))).is_err());
    assert_eq!(freed.load(Ordering::SeqCst), 1);
}

#[test]
fn heap_memory_comes_back_uncopied() {
    let mut vec = Vec::with_capacity(100);
    vec.extend_from_slice(b"abc");
    let address = vec.as_ptr();
    let mut buf = Buf::from(vec);
    buf.extend_from_slice(b"def");
    let vec = buf.into_vec();
    assert_eq!((vec.as_ptr(), vec.capacity(), &vec[..]), (address, 100, &b"abcdef"[..]));
}

#[test]
fn length_is_kept_within_the_capacity() {
    let mut buf = Buf::with_capacity(4);
    let capacity = buf.capacity();
    buf.resize(4, b'x');
    buf.truncate(9);
    assert_eq!(&buf[..], b"xxxx");
    buf.truncate(1);
    buf.resize(3, b'y');
    assert_eq!(&buf[..], b"xyy");
    let mut full = Buf::from_owner([0u8; 3]);
    assert_eq!(full.write(b"more").expect("writing to memory"), 0);
    full.truncate(1);
    assert_eq!(full.write(b"more").expect("writing to memory"), 2);
    assert_eq!(&full[..], [0, b'm', b'o']);
    let beyond = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| buf.extend_from_slice(&vec![0; capacity])));
    assert!(beyond.is_err());
    assert_eq!(&buf[..], b"xyy", "a refused extension changes nothing");
}

#[test]
fn exhausted_pool_gives_nothing_until_one_comes_home() {
    let pool = BufPool::new(3, 10).expect("a small pool");
    let mut out: Vec<Buf> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!((out.len(), pool.available()), (3, 0));
    let mut addresses: Vec<usize> = out.iter().map(|buf| IoBuf::as_ptr(buf) as usize).collect();
    addresses.sort_unstable();
    assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] >= 10), "buffers do not overlap");
    for (index, buf) in out.iter_mut().enumerate() {
        buf.resize(10, index as u8);
    }
    for (index, buf) in out.iter().enumerate() {
        assert_eq!(&buf[..], [index as u8; 10]);
    }
    out.pop();
    assert_eq!(pool.available(), 1);
    let again = pool.take().expect("one came home");
    assert!(again.is_empty(), "nothing of the last user's is seen");
    assert_eq!(again.capacity(), 10);
}

#[test]
fn buffers_dropped_elsewhere_come_home_through_the_ring() {
    let pool = BufPool::new(4, 32).expect("a small pool");
    for _ in 0..3 {
        let out: Vec<Buf> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(out.len(), 4);
        // Two threads at once, one buffer of each batch dropped at home: both ways run side by side.
        std::thread::scope(|scope| {
            let mut out = out.into_iter();
            let here = out.next();
            scope.spawn({
                let there = [out.next(), out.next()];
                move || drop(there)
            });
            scope.spawn({
                let there = out.next();
                move || drop(there)
            });
            drop(here);
        });
        assert_eq!(pool.available(), 4);
    }
}

#[test]
fn buffers_outlive_their_pool() {
    let pool = BufPool::new(2, 8).expect("a small pool");
    let (mut near, mut far) = (pool.take().expect("free"), pool.take().expect("free"));
    drop(pool);
    near.extend_from_slice(b"near");
    far.extend_from_slice(b"far");
    std::thread::spawn(move || drop(far)).join().expect("the thread only drops it");
    assert_eq!(&near[..], b"near");
}

#[test]
fn a_later_thread_is_never_taken_for_home() {
    // The pool's thread ends; its buffers are dropped on threads that may have its stack and its storage.
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let pool = BufPool::new(2, 8).expect("a small pool");
        send.send((pool.take(), pool.take())).expect("the test listens");
    })
    .join()
    .expect("the pool's thread ends well");
    let (first, second) = receive.recv().expect("the buffers were sent");
    std::thread::spawn(move || drop(first)).join().expect("the thread only drops it");
    std::thread::spawn(move || drop(second)).join().expect("the thread only drops it");
}

#[test]
fn impossible_pools_are_refused_by_name() {
    for (count, size, expected) in [
        (0, 8, errno::EINVAL),
        (8, 0, errno::EINVAL),
        (2, usize::MAX, errno::EINVAL),
        (1 << 20, 1 << 44, errno::EINVAL),
    ] {
        let refused = BufPool::new(count, size).expect_err("no such pool");
        assert_eq!(refused.errno(), expected);
        assert!(refused.context().contains(&format!("{count} buffers of {size} bytes")), "{refused}");
    }
}

#[test]
fn slab_begins_at_a_page() {
    let pool = BufPool::new(2, 4096).expect("a small pool");
    let (first, second) = (pool.take().expect("free"), pool.take().expect("free"));
    assert_eq!(IoBuf::as_ptr(&first) as usize % 4096, 0);
    assert_eq!(IoBuf::as_ptr(&second) as usize - IoBuf::as_ptr(&first) as usize, 4096);
}
