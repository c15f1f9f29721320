//! What does not belong in a world, and what a world does not have: each is an error that names it.

use std::cell::RefCell;
use std::rc::Rc;

use wo::fs::File;
use wo::net::{TcpListener, TcpStream, UdpSocket};
use wo::plane::backend::sim::SimHost;
use wo::plane::backend::{BackendConfig, OpSet, Shim};
use wo::sim::World;
use wo::{Builder, IoError, IoResult, OpKind, RunError, Selection};

use crate::{child, echo_server};

/// Where a program leaves a handle for another to find.
type Left<T> = Rc<RefCell<Option<T>>>;

/// Runs in another place what tries a handle that was left.
type Elsewhere = fn(Left<(TcpStream, File)>) -> Vec<IoError>;

#[wo::fiber]
fn open_and_leave(server: std::net::Ipv4Addr, left: Left<(TcpStream, File)>) -> IoResult<()> {
    let stream = TcpStream::connect((server, 7000))?;
    let file = File::create("/tmp/left")?;
    file.write_all(b"mine")?;
    *left.borrow_mut() = Some((stream, file));
    wo::sleep(std::time::Duration::from_secs(3600))
}

/// Tries what there is to do with a handle; answers how each was refused.
#[wo::fiber]
fn try_all(left: Left<(TcpStream, File)>) -> Vec<IoError> {
    // Open descriptors of this place have the same numbers.
    let mut own = Vec::new();
    for _ in 0..8 {
        let socket = UdpSocket::bind("127.0.0.1:0");
        own.push(socket.expect("it is free"));
    }
    let (stream, file) = left.borrow_mut().take().expect("it was left");
    let mut refusals = Vec::new();
    refusals.extend(stream.write_all(b"stray").err());
    refusals.extend(stream.read(&mut [0; 8]).err());
    refusals.extend(stream.shutdown(std::net::Shutdown::Write).err());
    refusals.extend(stream.set_nodelay(true).err());
    let (written, _) = file.write_all_at(vec![1; 8], 0);
    refusals.extend(written.err());
    refusals.extend(file.sync_all().err());
    refusals.extend(file.metadata().map(drop).err());
    refusals.extend(file.close().err());
    refusals
}

fn assert_refused(refusals: &[IoError], owner: &str) {
    let ops: Vec<&str> = refusals.iter().map(|refusal| refusal.op().name()).collect();
    assert_eq!(ops, ["send", "recv", "shutdown", "socket option", "write", "sync", "stat", "close"], "{refusals:?}");
    for refusal in refusals {
        assert_eq!(refusal.errno(), libc::EXDEV, "{refusal}");
        assert!(refusal.to_string().contains(owner), "{refusal}");
    }
}

/// A handle of one host in the hands of another, of the same world or of one beside it, or of a program on a real
/// kernel: its number means another thing there, and nothing is done with it.
#[test]
fn a_handle_stays_on_its_host() {
    let elsewhere: [Elsewhere; 4] = [
        |left| {
            let mut other = World::new(6);
            let host = other.host("client");
            let tried = other.start(&host, try_all(left));
            other.finish(tried).unwrap()
        },
        |left| Builder::new().io(Selection::Uring).run(try_all(left)).unwrap(),
        |left| Builder::new().io(Selection::Epoll).run(try_all(left)).unwrap(),
        |left| Builder::new().io(Selection::Sim).seed(5).run(try_all(left)).unwrap(),
    ];
    for place in 0..=elsewhere.len() {
        let mut world = World::new(5);
        let (server, client, third) = (world.host("server"), world.host("client"), world.host("third"));
        let _served = world.start(&server, echo_server());
        let left = Left::default();
        let _opened = world.start(&client, open_and_leave(server.ip(), Rc::clone(&left)));
        world.run_for(std::time::Duration::from_secs(1));
        assert!(left.borrow().is_some());
        let refusals = match elsewhere.get(place) {
            Some(elsewhere) => elsewhere(left),
            None => {
                let tried = world.start(&third, try_all(left));
                world.finish(tried).unwrap()
            }
        };
        assert_refused(&refusals, "the simulated host \"client\", of the world with seed 5");
        assert_eq!(client.disk().read("/tmp/left").unwrap(), b"mine");
    }
}

#[wo::fiber]
fn leave_a_listener(left: Left<TcpListener>) -> IoResult<()> {
    *left.borrow_mut() = Some(TcpListener::bind("127.0.0.1:0")?);
    Ok(())
}

#[wo::fiber]
fn accept_there(left: Left<TcpListener>) -> IoResult<()> {
    let listener = left.borrow_mut().take().expect("it was left");
    listener.accept().map(drop)
}

/// And the other way: a descriptor of the system's inside a world.
#[test]
fn a_real_handle_is_none_of_a_worlds() {
    for io in [Selection::Uring, Selection::Epoll] {
        let left = Left::default();
        Builder::new().io(io).run(leave_a_listener(Rc::clone(&left))).unwrap().unwrap();
        let mut world = World::new(1);
        let host = world.host("alone");
        let accepted = world.start(&host, accept_there(left));
        let refusal = world.finish(accepted).unwrap().unwrap_err();
        assert_eq!((refusal.errno(), refusal.op()), (libc::EXDEV, OpKind::Accept), "{refusal}");
        assert!(refusal.to_string().contains("the operating system's"), "{refusal}");
    }
}

#[wo::fiber]
fn watch_a_real_descriptor() -> IoResult<()> {
    let (reader, _writer) = std::io::pipe().expect("the system has one");
    wo::io::readable(reader).map(drop)
}

#[wo::fiber]
fn read_the_real_input() -> IoResult<Vec<u8>> {
    wo::io::stdin()?.read_to_end()
}

#[test]
fn real_descriptors_are_refused_by_number() {
    let mut world = World::new(1);
    let host = world.host("alone");
    let watched = world.start(&host, watch_a_real_descriptor());
    let read = world.start(&host, read_the_real_input());
    for refusal in [world.finish(watched).unwrap().unwrap_err(), world.finish(read).unwrap().unwrap_err()] {
        assert_eq!(refusal.errno(), libc::EBADF);
        assert!(refusal.to_string().contains("does not exist in a simulated world"), "{refusal}");
    }
}

#[wo::fiber]
fn sync_a_file() -> IoResult<()> {
    let file = File::create("/tmp/file")?;
    file.sync_all()
}

/// A verb that the simulated kernel lacks says which, and of what op.
#[test]
fn a_verb_that_is_missing_is_named() {
    let shim = Shim { hidden_ops: OpSet::EMPTY.with(OpKind::Sync), ..Shim::default() };
    let config = BackendConfig { shim, host: Some(SimHost::new(1)), ..BackendConfig::default() };
    let ran = Builder::new().io(Selection::Sim).backend_config(config).run(sync_a_file());
    let refusal = ran.unwrap().unwrap_err();
    assert_eq!((refusal.errno(), refusal.op()), (libc::ENOSYS, OpKind::Sync));
    let words = refusal.to_string();
    assert!(words.contains("sync /tmp/file: Function not implemented"), "{words}");
}

#[test]
fn a_world_bounds_its_shards() {
    let mut world = World::new(1);
    let host = world.host("wide");
    for shards in [1025, usize::MAX] {
        let refused = world.start_with(&host, Builder::new().shards(shards), echo_server());
        let Some(Err(RunError::Setup(error))) = refused.take() else { panic!("{refused:?}") };
        assert_eq!((error.errno(), error.op()), (libc::EINVAL, OpKind::Setup));
        assert!(error.to_string().contains("1024 at most"), "{error}");
    }
    // As many as there may be, and nothing is left of the refused ones.
    let program = world.start_with(&host, Builder::new().shards(1024), count_shards());
    assert_eq!(world.finish(program).unwrap(), 1024);
}

#[wo::fiber]
fn count_shards() -> usize {
    wo::shards()
}

#[wo::fiber]
fn wait_for_blocking_calls() -> IoResult<u32> {
    let (sender, receiver) = wo::oneshot();
    let count = wo::blocking(move || {
        // Real threads, were it not for the world: here one does it all, in order.
        let order = std::sync::Mutex::new(Vec::new());
        wo::pool::Pool::new(4).run(|worker| {
            for number in 0..20 {
                let order = &order;
                worker.spawn(move |worker| order.lock().unwrap().push((number, worker.index())));
            }
        });
        let order = order.into_inner().unwrap();
        assert!(order.iter().all(|(_, index)| *index == 0), "{order:?}");
        sender.send(order.len() as u32).expect("somebody waits");
        order[0].0
    });
    assert_eq!(count.expect("it does not panic"), 19, "the youngest first");
    receiver.recv()
}

/// A thread from outside that wakes a fiber is reported; what the runtime itself does for a program is the world's.
#[test]
fn a_thread_from_outside_is_reported() {
    let mut world = World::new(1);
    let host = world.host("threaded");
    let inside = world.start_with(&host, Builder::new().shards(2), wait_for_blocking_calls());
    assert_eq!(world.finish(inside).unwrap().unwrap(), 20);
    assert_eq!(world.strange_wakes(), 0);
    let left = Left::default();
    let waits = world.start(&host, leave_a_waker(Rc::clone(&left)));
    world.run_for(std::time::Duration::from_secs(1));
    let waker = left.borrow_mut().take().expect("it was left");
    waker.wake();
    assert_eq!(world.strange_wakes(), 0, "the test's own thread is the world's");
    std::thread::spawn(move || waker.wake()).join().unwrap();
    assert_eq!(world.strange_wakes(), 1);
    assert!(world.kill(&waits));
    assert_eq!(world.strange_wakes(), 1);
}

#[wo::fiber]
fn leave_a_waker(left: Left<wo::plane::backend::Waker>) -> IoResult<()> {
    let waker = wo::plane::current::with_loop(OpKind::None, |event_loop| Ok(event_loop.waker()))?;
    *left.borrow_mut() = Some(waker);
    wo::sleep(std::time::Duration::MAX)
}

#[wo::fiber]
fn wait_for_real(how: fn()) -> IoResult<std::time::Duration> {
    let begun = wo::now();
    how();
    wo::yield_now()?;
    Ok(wo::now() - begun)
}

/// Real time in a world: sleeps and sockets of the system's are seen and said, what only computes is not, and a
/// blocking call is the world's own. None of it moves the clock.
#[test]
#[cfg(target_os = "linux")]
fn a_wait_for_something_real_is_reported() {
    use std::time::{Duration, Instant};
    const SPAN: Duration = Duration::from_millis(150);
    let test = child::test_path!();
    let cases: [(&str, fn(), u64); 4] = [
        ("std::thread::sleep", || std::thread::sleep(SPAN), 1),
        (
            "std::net",
            || {
                let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                socket.set_read_timeout(Some(SPAN)).unwrap();
                socket.recv(&mut [0; 1]).unwrap_err();
            },
            1,
        ),
        (
            "a computation",
            || {
                let begun = Instant::now();
                while begun.elapsed() < SPAN {
                    std::hint::spin_loop();
                }
            },
            0,
        ),
        ("nothing", || {}, 0),
    ];
    if !child::is_child(test) {
        let output = child::command(test).output().expect("the test binary starts");
        let said = child::written(&output);
        assert!(output.status.success(), "{said}");
        let reports = said.matches("a fiber on the simulated host \"real\" waited ").count();
        assert_eq!(reports, 2, "once in each world that saw one: {said}");
        assert!(said.contains("wo::sleep, wo::net and wo::blocking instead of std::thread::sleep"), "{said}");
        return;
    }
    for (what, how, waits) in cases {
        let mut world = World::new(1);
        let host = world.host("real");
        let digest = |world: &World| world.digest();
        let waited = world.start(&host, wait_for_real(how));
        let taken = world.finish(waited).unwrap().unwrap();
        assert!(taken < Duration::from_millis(1), "{what}: {taken:?}");
        assert_eq!(world.real_waits(), waits, "{what}");
        let mut again = World::new(1);
        let host = again.host("real");
        let waited = again.start(&host, wait_for_real(|| {}));
        again.finish(waited).unwrap().unwrap();
        assert_eq!(digest(&world), digest(&again), "{what} has no effect");
    }
    let mut world = World::new(1);
    let host = world.host("real");
    let called = world.start(&host, call_blocking(SPAN));
    world.finish(called).unwrap();
    // What the test itself does between two calls is none of the world's.
    std::thread::sleep(SPAN);
    world.at(Duration::from_secs(1), |_| std::thread::sleep(SPAN));
    world.run().unwrap();
    assert_eq!(world.real_waits(), 0);
}

#[wo::fiber]
fn call_blocking(span: std::time::Duration) {
    let slept = wo::blocking(move || std::thread::sleep(span));
    slept.expect("it does not panic");
}
