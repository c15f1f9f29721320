//! The doubles do what the live ones do, and what a test says.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use wo_runtime::error::{IoResult, errno};
use wo_runtime::fiber::{self, Scope, advance_and_settle};
use wo_runtime::os::fs::LiveFs;
use wo_runtime::os::process::LiveProc;
use wo_runtime::plane::backend::Selection;
use wo_runtime::scope::capability::{
    ByteStream, Clock, Command, Env, ExitStatus, Fs, HasClock, HasNet, Listener, MemFs, Net, Proc, Process, Script,
    SimNet, SimProc, TestClock,
};
use wo_runtime::scope::schedule::{exponential, recurs};
use wo_runtime::scope::{Interrupt, Outcome};
use wo_runtime::shard::Builder;
use wo_runtime::sim::World;

fn run<T: 'static, F: Future<Output = T> + 'static>(body: impl FnOnce() -> F) -> T {
    Builder::new().io(Selection::Sim).run(body).unwrap()
}

fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn addr(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

#[test]
fn a_test_clock_wakes_in_order_of_deadline_and_everything_settles_in_between() {
    run(|| async {
        let clock = TestClock::new();
        let log = Rc::new(RefCell::new(Vec::new()));
        for (name, span) in [("late", 30), ("early", 10), ("middle", 20), ("again", 20)] {
            let (clock, log) = (clock.clone(), Rc::clone(&log));
            drop(fiber::spawn(move || async move {
                clock.sleep(secs(span)).await.unwrap();
                log.borrow_mut().push((name, clock.now()));
                // What it starts then sleeps from then on.
                clock.sleep(secs(5)).await.unwrap();
                log.borrow_mut().push((name, clock.now()));
            }));
        }
        advance_and_settle(&clock, secs(25)).await.unwrap();
        let expected = [
            ("early", secs(10)),
            ("early", secs(15)),
            ("middle", secs(20)),
            ("again", secs(20)),
            ("middle", secs(25)),
            ("again", secs(25)),
        ];
        assert_eq!(*log.borrow(), expected);
        assert_eq!((clock.now(), clock.sleepers(), clock.next_due()), (secs(25), 1, Some(secs(30))));
        advance_and_settle(&clock, Duration::ZERO).await.unwrap();
        assert_eq!(log.borrow().len(), 6);
        clock.advance_to(secs(1));
        assert_eq!(clock.now(), secs(25), "time never goes back");
        advance_and_settle(&clock, Duration::MAX).await.unwrap();
        assert_eq!((log.borrow().len(), clock.sleepers()), (8, 0));
    });
}

#[test]
fn a_sleep_on_a_test_clock_is_cancelled_like_any_other() {
    run(|| async {
        let clock = TestClock::new();
        let asleep = clock.clone();
        let outcome: Outcome<()> = fiber::scope(async |s: Scope| {
            s.spawn(move || async move {
                let error = asleep.sleep(Duration::MAX).await.unwrap_err();
                assert_eq!(error.errno(), errno::ECANCELED);
                assert!(error.to_string().contains("cancelled"), "{error}");
            });
            fiber::yield_now().await?;
            s.cancel();
            Ok(())
        })
        .await;
        outcome.unwrap();
        assert_eq!(clock.sleepers(), 0);
        clock.sleep(Duration::ZERO).await.unwrap();
    });
}

#[test]
fn fibers_that_never_rest_are_an_error_and_no_hang() {
    run(|| async {
        let clock = TestClock::new();
        let outcome: Outcome<()> = fiber::scope(async |s: Scope| {
            s.spawn_daemon(|| async { while fiber::yield_now().await.is_ok() {} });
            let busy = advance_and_settle(&clock, secs(1)).await.unwrap_err();
            assert_eq!(busy.errno(), errno::EBUSY);
            Ok(())
        })
        .await;
        outcome.unwrap();
    });
}

async fn echo<L: Listener<Stream: ByteStream + 'static>>(listener: L) -> IoResult<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        drop(fiber::spawn(move || async move {
            let mut buf = [0; 64];
            loop {
                match stream.read(&mut buf).await {
                    Ok(0) | Err(_) => return,
                    Ok(n) => drop(stream.write_all(&buf[..n]).await),
                }
            }
        }));
    }
}

async fn ask(env: &(impl HasClock + HasNet), to: SocketAddr) -> IoResult<(Vec<u8>, Duration)> {
    let start = env.clock().now();
    let stream = env.net().connect(to).await?;
    stream.write_all(b"ping").await?;
    stream.finish().await?;
    let mut answer = Vec::new();
    let mut buf = [0; 3];
    loop {
        match stream.read(&mut buf).await? {
            0 => return Ok((answer, env.clock().now() - start)),
            n => answer.extend_from_slice(&buf[..n]),
        }
    }
}

#[test]
fn a_network_in_memory_takes_the_time_it_is_told() {
    run(|| async {
        let clock = TestClock::new();
        let net = SimNet::new(clock.clone()).latency(Duration::from_millis(10));
        let listener = net.listen(addr(0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        assert_ne!(at.port(), 0);
        assert_eq!(net.listen(at).await.unwrap_err().errno(), errno::EADDRINUSE);
        drop(fiber::spawn(move || echo(listener)));
        let env = Env::empty().with_clock(clock.clone()).with_net(net.clone());
        let asked = fiber::spawn(move || async move { ask(&env, at).await });
        advance_and_settle(&clock, secs(1)).await.unwrap();
        let (answer, took) = asked.join().await.unwrap().unwrap();
        assert_eq!(answer, b"ping");
        // There and back to connect, there and back for the word.
        assert_eq!(took, Duration::from_millis(40));
    });
}

#[test]
fn a_partition_a_refusal_and_a_reset_reach_whoever_is_there() {
    run(|| async {
        let clock = TestClock::new();
        let net = SimNet::new(clock.clone()).latency(Duration::from_millis(1));
        let listener = net.listen(addr(80)).await.unwrap();
        drop(fiber::spawn(move || echo(listener)));
        let env = Env::empty().with_clock(clock.clone()).with_net(net.clone());
        let request = |policy_tries: u64| {
            let env = env.clone();
            fiber::spawn(move || async move {
                let policy = exponential(Duration::from_millis(100)) & recurs(policy_tries);
                let mut delays = wo_runtime::scope::schedule::Schedule::delays(&policy);
                loop {
                    match ask(&env, addr(80)).await {
                        Ok((answer, _)) => return Ok((answer, env.clock().now())),
                        Err(error) => match delays.next() {
                            Some(delay) => env.clock().sleep(delay).await?,
                            None => return Err(error),
                        },
                    }
                }
            })
        };
        // Refused twice at 0 and 100 ms, then let in.
        net.refuse(addr(80));
        let patient = request(5);
        let hasty = request(0);
        advance_and_settle(&clock, Duration::from_millis(150)).await.unwrap();
        net.heal(addr(80));
        advance_and_settle(&clock, secs(1)).await.unwrap();
        assert_eq!(hasty.join().await.unwrap().unwrap_err().errno(), errno::ECONNREFUSED);
        let (answer, at) = patient.join().await.unwrap().unwrap();
        assert_eq!((answer.as_slice(), at > Duration::from_millis(300)), (b"ping".as_slice(), true));

        // Cut off in the middle: bytes wait, and arrive when it is healed.
        let through = net.clone();
        let stream = fiber::spawn(move || async move { through.connect(addr(80)).await });
        advance_and_settle(&clock, secs(1)).await.unwrap();
        let stream = Rc::new(stream.join().await.unwrap().unwrap());
        net.cut(addr(80));
        stream.write_all(b"waits").await.unwrap();
        let reader = Rc::clone(&stream);
        let read = fiber::spawn(move || async move {
            let mut buf = [0; 8];
            let n = reader.read(&mut buf).await?;
            Ok::<_, wo_runtime::error::IoError>(buf[..n].to_vec())
        });
        advance_and_settle(&clock, secs(60)).await.unwrap();
        assert!(!read.is_finished());
        net.heal(addr(80));
        advance_and_settle(&clock, secs(1)).await.unwrap();
        assert_eq!(read.join().await.unwrap().unwrap(), b"waits");

        // Reset: both sides hear of it, and nothing more goes out.
        let reader = Rc::clone(&stream);
        let read = fiber::spawn(move || async move { reader.read(&mut [0; 8]).await });
        advance_and_settle(&clock, secs(1)).await.unwrap();
        net.reset(addr(80));
        advance_and_settle(&clock, secs(1)).await.unwrap();
        assert_eq!(read.join().await.unwrap().unwrap_err().errno(), errno::ECONNRESET);
        assert_eq!(stream.write_all(b"x").await.unwrap_err().errno(), errno::ECONNRESET);
    });
}

#[test]
fn a_line_is_bounded_and_an_end_is_read_after_what_was_written() {
    run(|| async {
        let clock = TestClock::new();
        let net = SimNet::new(clock.clone());
        let listener = net.listen(addr(80)).await.unwrap();
        let client = net.connect(addr(80)).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let big = vec![7; 200_000];
        let writer = fiber::spawn(move || async move {
            server.write_all(&big).await.unwrap();
            server
        });
        fiber::settle().await.unwrap();
        assert!(!writer.is_finished(), "there is no room for all of it");
        let mut total = 0;
        let mut buf = [0; 4096];
        while total < 200_000 {
            total += client.read(&mut buf).await.unwrap();
        }
        drop(writer.join().await.unwrap());
        assert_eq!(client.read(&mut buf).await.unwrap(), 0);
        assert_eq!(client.write_all(b"x").await.unwrap_err().errno(), errno::EPIPE);
    });
}

#[test]
fn m8_a_scripted_program_ends_as_its_script_says() {
    run(|| async {
        let proc = SimProc::new()
            .on("three", Script::new().stdout("x").exit(3))
            .on("killed", Script::new().stderr("oh").signal(9))
            .on("daemon", Script::new().until_killed());
        let three = proc.capture(&Command::new("three"), b"input").await.unwrap();
        assert_eq!((three.status, three.stdout.as_slice()), (ExitStatus::Code(3), b"x".as_slice()));
        assert!(!three.status.ok());
        let killed = proc.capture(&Command::new("killed"), b"").await.unwrap();
        assert_eq!((killed.status, killed.stderr.as_slice()), (ExitStatus::Signal(9), b"oh".as_slice()));
        let missing = proc.spawn(&Command::new("missing")).await.unwrap_err();
        assert_eq!(missing.errno(), errno::ENOENT);
        assert!(missing.to_string().contains("missing"), "{missing}");
        let mut daemon = proc.spawn(&Command::new("daemon")).await.unwrap();
        let late: Outcome<ExitStatus> = fiber::timeout(secs(1), async || daemon.wait().await).await;
        assert!(late.unwrap_err().is_timeout());
        daemon.kill(15).unwrap();
        assert_eq!(daemon.wait().await.unwrap(), ExitStatus::Signal(15));
        assert_eq!(daemon.kill(15).unwrap_err().errno(), errno::ESRCH);
        assert_eq!(daemon.id(), None);
        let cut: Outcome<()> =
            fiber::timeout(secs(1), async || proc.capture(&Command::new("daemon"), b"").await.map(drop)).await;
        assert_eq!(cut.unwrap_err().interrupt(), Some(Interrupt::Deadline));
        let ran: Vec<String> = proc.ran().iter().map(|(command, _)| command.line()).collect();
        assert_eq!(ran, ["three", "killed", "daemon", "daemon"]);
        assert_eq!(proc.ran()[0].1, b"input");
    });
}

/// The same calls on files in memory, in the simulated world and on the real system give the same answers.
#[test]
fn files_in_memory_answer_as_files_do() {
    async fn script(fs: impl Fs, dir: &Path) -> Vec<Result<String, i32>> {
        let name = |name: &str| dir.join(name);
        let mut log = Vec::new();
        let mut note = |result: IoResult<String>| log.push(result.map_err(|error| error.errno()));
        let done = |()| String::new();
        note(fs.create_dir_all(&name("a/b")).await.map(done));
        note(fs.create_dir_all(&name("a/b")).await.map(done));
        note(fs.write(&name("a/b/file"), b"one").await.map(done));
        note(fs.write(&name("a/b/file"), b"two").await.map(done));
        note(fs.read(&name("a/b/file")).await.map(|bytes| String::from_utf8(bytes).unwrap()));
        note(fs.read(&name("a/none")).await.map(|_| String::new()));
        note(fs.write(&name("none/file"), b"").await.map(done));
        note(fs.rename(&name("a/b/file"), &name("a/moved")).await.map(done));
        note(fs.rename(&name("a/b/file"), &name("a/again")).await.map(done));
        note(fs.names(&name("a")).await.map(|names| names.join(" ")));
        note(fs.names(&name("none")).await.map(|names| names.join(" ")));
        note(fs.create_dir_all(&name("a/moved/below")).await.map(done));
        note(fs.remove_file(&name("a/moved")).await.map(done));
        note(fs.remove_file(&name("a/moved")).await.map(done));
        note(fs.names(&name("a")).await.map(|names| names.join(" ")));
        log
    }
    let dir = std::env::temp_dir().join(format!("wo-capability-{}", std::process::id()));
    let expected = run(move || async move { script(MemFs::new(), Path::new("/work")).await });
    assert_eq!(expected[4], Ok("two".to_owned()));
    let simulated = run(|| async { script(LiveFs, Path::new("/work")).await });
    assert_eq!(simulated, expected);
    for io in [Selection::Uring, Selection::Epoll] {
        let place = dir.clone();
        let real = Builder::new().io(io).run(move || async move { script(LiveFs, &place).await }).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(real, expected, "on {io}");
    }
}

/// The same calls on scripted programs and on the system's give the same answers.
#[test]
fn scripted_programs_answer_as_programs_do() {
    async fn script(proc: impl Proc) -> Vec<String> {
        let sh = |line: &str| Command::new("sh").arg("-c").arg(line);
        let mut log = Vec::new();
        for line in ["printf x; exit 3", "printf oh >&2; kill -9 $$", "exit 0"] {
            let captured = proc.capture(&sh(line), b"").await.unwrap();
            log.push(format!("{:?} {:?} {:?}", captured.status, captured.stdout, captured.stderr));
        }
        let missing = proc.spawn(&Command::new("no-such-program-anywhere")).await.map(drop).unwrap_err();
        log.push(missing.errno().to_string());
        let mut sleeps = proc.spawn(&sh("exec sleep 1000")).await.unwrap();
        assert!(sleeps.id().is_some());
        let late: Outcome<ExitStatus> = fiber::timeout(Duration::from_millis(5), async || sleeps.wait().await).await;
        log.push(late.unwrap_err().to_string());
        sleeps.kill(9).unwrap();
        log.push(format!("{:?}", sleeps.wait().await.unwrap()));
        log.push(format!("{:?}", sleeps.wait().await.unwrap()));
        log.push(format!("{:?} {}", sleeps.id(), sleeps.kill(9).unwrap_err().errno()));
        log
    }
    let expected = run(|| async {
        script(
            SimProc::new()
                .on("sh -c printf x; exit 3", Script::new().stdout("x").exit(3))
                .on("sh -c printf oh >&2; kill -9 $$", Script::new().stderr("oh").signal(9))
                .on("sh -c exit 0", Script::new())
                .on("sh -c exec sleep 1000", Script::new().until_killed()),
        )
        .await
    });
    for io in [Selection::Uring, Selection::Epoll] {
        let real = Builder::new().io(io).run(|| async { script(LiveProc).await }).unwrap();
        assert_eq!(real, expected, "on {io}");
    }
    let mut world = World::new(1);
    let host = world.host("sh");
    host.program("sh", |started| {
        use wo_runtime::sim::Script;
        match started.args[1].to_str().unwrap() {
            "printf x; exit 3" => Script::new().stdout("x").exit(3),
            "printf oh >&2; kill -9 $$" => Script::new().stderr("oh").signal(9),
            "exit 0" => Script::new(),
            "exec sleep 1000" => Script::new().sleep(Duration::from_secs(1000)),
            other => panic!("{other}"),
        }
    });
    let simulated = world.start(&host, || async { script(LiveProc).await });
    assert_eq!(world.finish(simulated).unwrap(), expected, "in a simulated world");
    let nowhere = run(|| async { LiveProc.spawn(&Command::new("true")).await.map(drop).unwrap_err() });
    assert_eq!(nowhere.errno(), errno::ENOENT, "a simulated host has the programs it was given");
}
