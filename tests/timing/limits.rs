//! A process that runs out of descriptors, and one that may use one processor.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream as StdStream};
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use wo::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use wo_runtime::error::errno::EMFILE;
use wo_runtime::plane::Instant;

use crate::alone;
use crate::backends::{REAL, on_real_backends, run, those_of};
use crate::child::{self, test_path};
use crate::process::processor_time;

const DESCRIPTORS: u64 = 64;
const CLIENTS: usize = 200;

fn limit_descriptors() {
    let limit = libc::rlimit { rlim_cur: DESCRIPTORS, rlim_max: DESCRIPTORS };
    // SAFETY: the limit is live.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

/// What the accepting fiber has seen.
#[derive(Default)]
struct Seen {
    kept: RefCell<Vec<TcpStream>>,
    errors: Cell<u32>,
    last_accept: Cell<Option<Instant>>,
}

#[wo::fiber]
fn accept_and_keep(listener: TcpListener, seen: Rc<Seen>) {
    loop {
        match listener.accept() {
            Ok((stream, _peer)) => {
                seen.kept.borrow_mut().push(stream);
                seen.last_accept.set(Some(wo::now()));
            }
            Err(error) => {
                assert_eq!(error.errno(), EMFILE, "{error}");
                assert!(error.to_string().contains("ulimit -n"), "the error names the remedy: {error}");
                seen.errors.set(seen.errors.get() + 1);
            }
        }
    }
}

#[wo::fiber]
fn run_out_of_descriptors() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    println!("listening on {}", listener.local_addr());
    let seen = Rc::new(Seen::default());
    let accepting = seen.clone();
    wo::spawn(|| accept_and_keep(listener, accepting));
    while seen.errors.get() == 0 {
        wo::sleep(Duration::from_millis(1)).expect("sleep");
    }
    let kept = seen.kept.borrow().len();
    assert!(kept >= 40, "{kept} clients served before the descriptors ran out");

    // Whatever else wants one is told as well, on what and what to do.
    let refusals = [
        (TcpListener::bind("127.0.0.1:0").map(drop), "127.0.0.1:0"),
        (TcpStream::connect("127.0.0.1:1").map(drop), "127.0.0.1:1"),
        (UdpSocket::bind("127.0.0.1:0").map(drop), "127.0.0.1:0"),
        (UnixStream::pair().map(drop), "socket pair"),
        (wo::io::pipe().map(drop), "pipe"),
        (wo::fs::File::open("/dev/null").map(drop), "/dev/null"),
    ];
    for (refusal, what) in refusals {
        let error = refusal.expect_err("there is no descriptor");
        assert_eq!(error.errno(), EMFILE, "{error}");
        assert!(error.to_string().contains("ulimit -n") && error.to_string().contains(what), "{error}");
    }

    // Out of descriptors for a second: it costs next to nothing, and the error is not told again and again.
    let (before, errors) = (processor_time(), seen.errors.get());
    wo::sleep(Duration::from_secs(1)).expect("sleep");
    let spent = processor_time() - before;
    assert!(spent < Duration::from_millis(100), "{spent:?} of processor time in a second without descriptors");
    assert!(seen.errors.get() - errors <= 1, "told {} times more", seen.errors.get() - errors);

    // Ten are given back, and ten who waited are served.
    let freed = wo::now();
    let closing: Vec<TcpStream> = seen.kept.borrow_mut().drain(..10).collect();
    drop(closing);
    while seen.kept.borrow().len() < kept {
        assert!(wo::now().since(freed) < Duration::from_secs(60), "no client was served any more");
        wo::sleep(Duration::from_millis(1)).expect("sleep");
    }
    let resumed = seen.last_accept.get().expect("one was accepted").since(freed);
    assert!(resumed < Duration::from_millis(200), "served again after {resumed:?}");
}

/// Runs `test` again in a process of its own for each real backend, and connects clients to where it listens.
fn with_clients(test: &str) {
    for backend in those_of(REAL) {
        let mut command = child::command(test);
        command.env("WO_IO", backend.to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = command.spawn().expect("the test binary starts");
        let mut stdout = BufReader::new(server.stdout.take().expect("piped"));
        let mut said = String::new();
        let address: SocketAddr = loop {
            let mut line = String::new();
            let count = stdout.read_line(&mut line).expect("read a line");
            said.push_str(&line);
            if let Some((_, address)) = line.split_once("listening on ") {
                break address.trim_end().parse().expect("an address");
            }
            assert!(count > 0, "the server ended before it listened: {said}");
        };
        let clients: Vec<StdStream> =
            (0..CLIENTS).map(|_| StdStream::connect(address).expect("the queue has room for all")).collect();
        // The first is told that all are there.
        (&clients[0]).write_all(b".").expect("the first is open");
        std::io::copy(&mut stdout, &mut std::io::sink()).expect("read to the end");
        let output = server.wait_with_output().expect("wait for the server");
        assert!(output.status.success(), "on {backend}: {}", child::written(&output));
        drop(clients);
    }
}

#[test]
fn r43_accept_emfile() {
    let _alone = alone();
    let test = test_path!();
    if child::is_child(test) {
        limit_descriptors();
        return on_real_backends(run_out_of_descriptors);
    }
    with_clients(test);
}

/// One descriptor is left when the clients come: it is the first one's, and for the next there is none while nobody
/// accepts. Who accepts when there are some again is not told of the past.
#[wo::fiber]
fn run_out_while_nobody_accepts() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let mut others = Vec::new();
    while let Ok(file) = wo::fs::File::open("/dev/null") {
        others.push(file);
    }
    others.pop().expect("there were some").close().expect("close");
    println!("listening on {}", listener.local_addr());
    let (first, _) = listener.accept().expect("there is a descriptor");
    // Says that all clients have come.
    first.read_exact(&mut [0]).expect("read");
    for file in others {
        file.close().expect("close");
    }
    listener.accept().expect("there are descriptors again");
}

#[test]
fn r43_what_ran_out_while_nobody_accepted_is_not_told_later() {
    let _alone = alone();
    let test = test_path!();
    if child::is_child(test) {
        limit_descriptors();
        return on_real_backends(run_out_while_nobody_accepts);
    }
    with_clients(test);
}

/// Leaves this process one processor: the last it may use.
fn keep_one_processor() -> usize {
    // SAFETY: a set of zeros is an empty set; both calls are given a live one and its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        assert_eq!(libc::sched_getaffinity(0, size, &raw mut set), 0);
        let last = (0..libc::CPU_SETSIZE as usize).rev().find(|&cpu| libc::CPU_ISSET(cpu, &set)).expect("a processor");
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(last, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size, &raw const one), 0);
        last
    }
}

/// The processors each thread of this process may use, by the thread's name.
fn allowed() -> Vec<(String, String)> {
    let mut allowed = Vec::new();
    for thread in std::fs::read_dir("/proc/self/task").expect("/proc") {
        let status = std::fs::read_to_string(thread.expect("/proc").path().join("status")).expect("a thread's status");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field of the status");
            line.trim().to_owned()
        };
        allowed.push((field("Name:"), field("Cpus_allowed_list:")));
    }
    allowed
}

#[wo::fiber]
fn runs_on(cpu: usize, shards: usize) {
    wo::sleep(Duration::from_millis(1)).expect("sleep");
    // SAFETY: the call takes nothing.
    let here = unsafe { libc::sched_getcpu() };
    assert_eq!(usize::try_from(here), Ok(cpu));
    let allowed = allowed();
    let others: Vec<_> = allowed.iter().filter(|(name, _)| name.starts_with("wo-shard-")).collect();
    assert_eq!(others.len(), shards - 1, "{allowed:?}");
    for (name, cpus) in others {
        assert_eq!(*cpus, cpu.to_string(), "{name}");
    }
}

#[test]
fn r37_affinity_one_cpu() {
    let _alone = alone();
    let wrote = child::run(test_path!(), || {
        let cpu = keep_one_processor();
        assert_eq!(wo::cores(), 1);
        for backend in those_of(REAL) {
            run(backend, |builder| builder, || runs_on(cpu, 1));
            run(backend, |builder| builder.shards(4), || runs_on(cpu, 4));
        }
    });
    if let Some(wrote) = wrote {
        assert_eq!(wrote.matches("4 shards share 1 core").count(), 1, "one warning: {wrote}");
    }
}
