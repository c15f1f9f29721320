//! Whoever uses a world against its grain: moments, numbers and hosts that nobody should choose, each with its answer.

use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wo::fs::{self, File};
use wo::net::{TcpListener, TcpStream, UdpSocket};
use wo::sim::{DiskFaults, Link, Survival, World};
use wo::{Builder, IoError, IoResult, OpKind, RunError, Selection};

use crate::{ask, echo_server};

const MS: Duration = Duration::from_millis(1);

/// Dials with patience, says a word and hears it again; how it ended in words.
#[wo::fiber]
fn dial(server: Ipv4Addr, patience: Duration) -> String {
    let stream = match TcpStream::connect_by((server, 7000), patience) {
        Ok(Some(stream)) => stream,
        Ok(None) => return "no connection".to_owned(),
        Err(error) => return format!("connect {}", error.errno()),
    };
    if let Err(error) = stream.write_all(b"word") {
        return format!("write {}", error.errno());
    }
    match stream.read_exact_by(&mut [0; 4], patience) {
        Ok(Some(())) => "answered".to_owned(),
        Ok(None) => "no answer".to_owned(),
        Err(error) => format!("read {}", error.errno()),
    }
}

/// One way or both are cut at every moment of a connection's making: the dial ends, in time, and once the wires are
/// whole again the next one is answered.
#[test]
fn a_partition_meets_every_moment_of_a_connect() {
    let link = Link { latency: 10 * MS..10 * MS, ..Link::default() };
    for way in ["there", "back", "both"] {
        for at in 0..45 {
            let mut world = World::new(at);
            let (server, client) = (world.host("server"), world.host("client"));
            world.set_links(link.clone());
            let _served = world.start(&server, echo_server());
            let dialled = world.start(&client, dial(server.ip(), Duration::from_secs(2)));
            let (a, b) = (client.clone(), server.clone());
            world.at(at as u32 * MS, move |world| match way {
                "there" => world.cut(&a, &b),
                "back" => world.cut(&b, &a),
                _ => world.partition(&a, &b),
            });
            let said = world.finish(dialled).unwrap();
            world.run_for(100 * MS);
            // Cut after the answer has left its server, nothing is lost any more.
            let expected = match at {
                0..=20 => ["no connection", "no answer"].as_slice(),
                21..=30 => ["no answer", "answered"].as_slice(),
                _ => ["answered", "no answer"].as_slice(),
            };
            assert!(expected.contains(&said.as_str()), "{way} cut at {at} ms: {said}");
            assert!(world.elapsed() <= Duration::from_secs(5), "{way} cut at {at} ms: {:?}", world.elapsed());
            world.heal(&server, &client);
            let again = world.start(&client, ask(server.ip(), "again".into()));
            assert_eq!(world.finish(again).unwrap().unwrap(), "again", "{way} cut at {at} ms");
        }
    }
}

#[wo::fiber]
fn accept_and_hold() -> IoResult<()> {
    let listener = TcpListener::bind("0.0.0.0:7000")?;
    let (_held, _peer) = listener.accept()?;
    wo::sleep(Duration::MAX)
}

/// Writes more than all buffers hold; how the write ended, and the one after it.
#[wo::fiber]
fn overfill(server: Ipv4Addr) -> IoResult<(i32, i32, i32)> {
    let stream = TcpStream::connect((server, 7000))?;
    let full = stream.write_all(&vec![7; 16 << 20]).expect_err("nobody reads").errno();
    let again = stream.write_all(b"more").expect_err("it is reset").errno();
    let read = match stream.read(&mut [0; 8]) {
        Ok(count) => count as i32,
        Err(error) => -error.errno(),
    };
    Ok((full, again, read))
}

/// A reset, a kill of the reader and a crash of its host each end a write that waits for room.
#[test]
fn a_write_against_full_buffers_ends_with_its_connection() {
    for how in ["reset", "killed", "restarted", "dark", "parted", "deaf"] {
        let mut world = World::new(2);
        let (server, client) = (world.host("server"), world.host("client"));
        let held = world.start(&server, accept_and_hold());
        let wrote = world.start(&client, overfill(server.ip()));
        world.run_for(Duration::from_secs(1));
        assert!(!wrote.has_ended(), "it waits for room");
        match how {
            "reset" => assert_eq!(server.reset_connections(), 1),
            "killed" => assert!(world.kill(&held)),
            "parted" => world.partition(&server, &client),
            "deaf" => world.cut(&server, &client),
            _ => {
                world.crash(&server);
                if how == "restarted" {
                    world.run_for(Duration::from_secs(20));
                    world.restart(&server).unwrap();
                }
            }
        }
        let (full, again, read) = world.finish(wrote).unwrap().unwrap();
        // Nobody there to ask: it is given up in the end, after a quarter of an hour.
        let told = if ["dark", "parted", "deaf"].contains(&how) { libc::ETIMEDOUT } else { libc::ECONNRESET };
        assert_eq!((full, again), (told, libc::EPIPE), "{how}");
        assert!(world.elapsed() < Duration::from_secs(if told == libc::ETIMEDOUT { 1100 } else { 200 }), "{how}");
        assert_eq!(read, 0, "{how}: the error was told once, as Linux does");
    }
}

#[wo::fiber]
fn wait_for_room(server: Ipv4Addr) -> IoResult<usize> {
    let stream = TcpStream::connect((server, 7000))?;
    stream.write_all(&vec![7; 4 << 20])?;
    Ok(4 << 20)
}

#[wo::fiber]
fn read_late() -> IoResult<usize> {
    let listener = TcpListener::bind("0.0.0.0:7000")?;
    let (stream, _peer) = listener.accept()?;
    wo::sleep(Duration::from_secs(3600))?;
    let mut buf = vec![0; 1 << 16];
    let mut total = 0;
    loop {
        match stream.read(&mut buf)? {
            0 => return Ok(total),
            count => total += count,
        }
    }
}

/// A reader who takes an hour is waited for; one who never reads is a deadlock, and named as one.
#[test]
fn a_write_against_full_buffers_waits_for_who_is_there() {
    let mut world = World::new(3);
    let (server, client) = (world.host("server"), world.host("client"));
    let read = world.start(&server, read_late());
    let wrote = world.start(&client, wait_for_room(server.ip()));
    // A while without a wire is no end.
    let (a, b) = (server.clone(), client.clone());
    world.at(Duration::from_secs(60), move |world| world.partition(&a, &b));
    let (a, b) = (server.clone(), client.clone());
    world.at(Duration::from_secs(120), move |world| world.heal(&a, &b));
    assert_eq!(world.finish(wrote).unwrap().unwrap(), 4 << 20);
    assert_eq!(world.finish(read).unwrap().unwrap(), 4 << 20);
    let mut world = World::new(3);
    let (server, client) = (world.host("server"), world.host("client"));
    let _held = world.start(&server, accept_and_hold());
    let wrote = world.start(&client, wait_for_room(server.ip()));
    let words = world.finish(wrote).unwrap_err().to_string();
    assert!(words.contains("client: fiber 0 (main) waits in send"), "{words}");
}

#[wo::fiber]
fn flood(to: Ipv4Addr) -> IoResult<u32> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    for number in 0..2000_u32 {
        let mut words = [0; 1000];
        words[..4].copy_from_slice(&number.to_be_bytes());
        socket.write_to(&words, (to, 9000))?;
    }
    Ok(2000)
}

/// Sleeps while the datagrams come, then counts what its buffer kept.
#[wo::fiber]
fn wake_up_late() -> IoResult<Vec<u32>> {
    let socket = UdpSocket::bind("0.0.0.0:9000")?;
    wo::sleep(Duration::from_secs(5))?;
    let mut came = Vec::new();
    let mut buf = [0; 1000];
    while let Some((count, _)) = socket.read_from_by(&mut buf, Duration::from_secs(1))? {
        assert_eq!(count, 1000);
        came.push(u32::from_be_bytes(buf[..4].try_into().expect("four bytes")));
    }
    Ok(came)
}

/// What a full buffer cannot hold is lost, from the end, doubled or not; what it kept is whole.
#[test]
fn a_flood_overflows_the_buffer_and_nothing_else() {
    let mut world = World::new(3);
    let (receiver, sender) = (world.host("receiver"), world.host("sender"));
    world.set_links(Link { duplicate: 1.0, latency: MS..MS, ..Link::default() });
    let received = world.start(&receiver, wake_up_late());
    let sent = world.start(&sender, flood(receiver.ip()));
    let came = world.finish(received).unwrap().unwrap();
    assert_eq!(world.finish(sent).unwrap().unwrap(), 2000);
    let counters = world.counters();
    assert_eq!((counters.sent, counters.duplicated, counters.lost), (2000, 2000, 0));
    assert!(came.len() > 50 && came.len() < 4000, "{}", came.len());
    assert!(came.is_sorted());
    let distinct: std::collections::BTreeSet<u32> = came.iter().copied().collect();
    assert!(came.len() <= 2 * distinct.len(), "none came three times");
}

/// Replaces a note as one should, and says when it holds.
#[wo::fiber]
fn replace(words: &str) -> IoResult<()> {
    let file = File::create("/note.new")?;
    file.write_all(words.as_bytes())?;
    file.sync_all()?;
    fs::rename("/note.new", "/note")?;
    fs::sync_dir("/")
}

#[wo::fiber]
fn replace_twice(done: Rc<std::cell::Cell<usize>>) -> IoResult<()> {
    for words in ["first words", "other"] {
        replace(words)?;
        done.set(done.get() + 1);
    }
    Ok(())
}

/// The power goes at every step of a program that replaces a file; the host starts again with the same directory, and
/// so does the program. What it was told is done is there, and never a part of anything.
#[test]
fn a_crash_at_any_step_and_a_start_in_the_same_directory() {
    let run = |seed: u64, step: Option<u64>| {
        let mut world = World::new(seed);
        let host = world.host("keeper");
        if let Some(step) = step {
            host.cut_power_at(step);
        }
        let done = Rc::new(std::cell::Cell::new(0));
        let replaced = world.start(&host, replace_twice(Rc::clone(&done)));
        let ended = world.finish(replaced);
        let steps = host.steps();
        if step.is_some_and(|step| step <= steps) {
            let crashed = matches!(&ended, Err(RunError::Kernel(error)) if error.errno() == libc::EHOSTDOWN);
            assert!(crashed || ended.is_ok(), "step {step:?}: {ended:?}");
            world.crash(&host);
            world.restart(&host).unwrap();
            let left = host.disk().read("/note").ok();
            let words: [Option<&[u8]>; 3] = [None, Some(b"first words"), Some(b"other")];
            let at = words.iter().position(|words| *words == left.as_deref());
            assert!(at.is_some_and(|at| at >= done.get()), "seed {seed}, step {step:?}: {left:?} after {}", done.get());
            let again = world.start(&host, replace_twice(Rc::default()));
            world.finish(again).unwrap().unwrap();
            assert_eq!(host.disk().read("/note").unwrap(), b"other");
        } else {
            ended.unwrap().unwrap();
        }
        steps
    };
    for seed in 0..5 {
        let steps = run(seed, None);
        assert!(steps > 10, "{steps}");
        for step in 1..=steps {
            run(seed, Some(step));
        }
    }
}

/// Fills the disk, hears of it, makes room, and goes on where it was.
#[wo::fiber]
fn fill_and_go_on() -> IoResult<(i32, u64, i32)> {
    fs::write("/ballast", vec![0; 30_000])?;
    let file = File::create("/log")?;
    let mut at = 0;
    let refused = loop {
        let (written, _) = file.write_all_at(vec![1; 5000], at);
        match written {
            Ok(()) => at += 5000,
            Err(error) => break error,
        }
    };
    assert!(refused.to_string().contains("/log"), "{refused}");
    let elsewhere = fs::write("/other", vec![2; 9000]).expect_err("nowhere is any room").errno();
    fs::remove_file("/ballast")?;
    let (written, _) = file.write_all_at(vec![1; 5000], at);
    written?;
    file.sync_all()?;
    Ok((refused.errno(), file.metadata()?.len() - at, elsewhere))
}

#[test]
fn a_full_disk_says_so_and_takes_more_once_there_is_room() {
    let mut world = World::new(4);
    let host = world.host("small");
    host.control().resize_disk(64 << 10);
    let filled = world.start(&host, fill_and_go_on());
    assert_eq!(world.finish(filled).unwrap().unwrap(), (libc::ENOSPC, 5000, libc::ENOSPC));
    assert!(host.disk().read("/log").unwrap().iter().all(|byte| *byte == 1));
}

#[wo::fiber]
fn sync_in_vain() -> IoResult<(IoError, Vec<u8>)> {
    let file = File::create("/kept")?;
    let (written, _) = file.write_all_at(b"old words".to_vec(), 0);
    written?;
    file.sync_all()?;
    wo::sleep(Duration::from_secs(1))?;
    let (written, _) = file.write_all_at(b"new words".to_vec(), 0);
    written?;
    let refused = file.sync_all().expect_err("it was told to fail");
    file.sync_all()?;
    Ok((refused, fs::read("/kept")?))
}

/// A sync that fails has dropped what it was to store, and the next one has nothing to say about it.
#[test]
fn a_failed_sync_is_final() {
    let mut world = World::new(4);
    let host = world.host("ill");
    let control = host.control();
    world.at(500 * MS, move |_| control.fail_sync(libc::EIO, Survival::Nothing));
    let program = world.start(&host, sync_in_vain());
    let (refused, left) = world.finish(program).unwrap().unwrap();
    assert_eq!((refused.errno(), refused.op()), (libc::EIO, OpKind::Sync), "{refused}");
    assert!(refused.to_string().contains("/kept"), "{refused}");
    assert_eq!(left, b"old words", "programs read what the disk holds");
}

#[wo::fiber]
fn exchange(server: Ipv4Addr) -> bool {
    let said = dial(server, Duration::from_secs(1));
    said == "answered"
}

/// Links, faults and limits that make no sense neither panic nor hang, and a world goes on with them.
#[test]
fn numbers_that_make_no_sense_do_no_harm() {
    let never = Duration::MAX;
    let strange: [Link; 8] = [
        Link { latency: 5 * MS..MS, ..Link::default() },
        Link { latency: never..never, ..Link::default() },
        Link { latency: Duration::ZERO..never, reorder: 1.0, duplicate: 1.0, ..Link::default() },
        Link { loss: f64::NAN, slow: f64::NAN, reorder: f64::NAN, duplicate: f64::NAN, ..Link::default() },
        Link { loss: -1.0, slow: f64::NEG_INFINITY, ..Link::default() },
        Link { loss: f64::INFINITY, ..Link::default() },
        Link { slow: 2.0, tail: 0, ..Link::default() },
        Link { slow: 1.0, tail: u32::MAX, ..Link::default() },
    ];
    for (at, link) in strange.into_iter().enumerate() {
        let mut world = World::new(5);
        let (server, client) = (world.host("server"), world.host("client"));
        world.set_links(link);
        let faults = DiskFaults { short_read: f64::NAN, short_write: 7.0, bit_flip: -3.0, ..DiskFaults::default() };
        server.control().disk_faults(faults);
        let _served = world.start(&server, echo_server());
        let flooded = world.start(&client, flood(server.ip()));
        let asked = world.start(&client, exchange(server.ip()));
        let answered = world.finish(asked).unwrap();
        assert_eq!(answered, [0, 3, 4, 6].contains(&at), "link {at}");
        assert_eq!(world.finish(flooded).unwrap().unwrap(), 2000);
    }
    let mut world = World::new(6);
    let host = world.host("odd");
    let control = host.control();
    assert!(control.release_one(99).is_none());
    assert_eq!((control.held().len(), control.terminate_multishot(5)), (0, 0));
    assert!(control.flip_bit("/none", u64::MAX).is_err());
    assert!(control.damage("/none", 9..u64::MAX).is_err());
    host.cut_power_at(u64::MAX);
    for time in [UNIX_EPOCH - Duration::from_secs(1 << 40), UNIX_EPOCH + Duration::from_secs(1 << 40)] {
        host.set_wall_clock(time);
        let wrote = world.start(&host, write_and_stat());
        let stamp = world.finish(wrote).unwrap().unwrap();
        assert!(stamp.duration_since(time).is_ok_and(|off| off < Duration::from_secs(1)), "{stamp:?} of {time:?}");
    }
    control.resize_disk(0);
    let wrote = world.start(&host, write_and_stat());
    assert_eq!(world.finish(wrote).unwrap().unwrap_err().errno(), libc::ENOSPC);
    control.limit_descriptors(0);
    let wrote = world.start(&host, write_and_stat());
    assert_eq!(world.finish(wrote).unwrap().unwrap_err().errno(), libc::EMFILE);
    assert_eq!((world.draw(0), world.draw(1)), (0, 0));
    world.run_for(Duration::ZERO);
    world.run_for(Duration::MAX);
    world.at(Duration::MAX, |_| {});
    world.run_for(Duration::MAX);
}

#[wo::fiber]
fn write_and_stat() -> IoResult<SystemTime> {
    fs::write("/tmp/odd", "words")?;
    Ok(fs::metadata("/tmp/odd")?.modified())
}

#[wo::fiber]
fn nap(span: Duration) -> IoResult<()> {
    wo::sleep(span)
}

/// A host of another world: refused by name, not run against a clock that stands still.
#[test]
fn a_host_of_another_world_is_refused() {
    let mut world = World::new(7);
    let mut other = World::new(8);
    let foreign = other.host("foreign");
    let program = world.start(&foreign, nap(Duration::from_secs(1)));
    let error = world.finish(program).unwrap_err();
    let RunError::Setup(refusal) = &error else { panic!("{error}") };
    assert_eq!(refusal.errno(), libc::EXDEV, "{refusal}");
    assert!(refusal.to_string().contains("\"foreign\""), "{refusal}");
    assert_eq!(world.restart(&foreign).unwrap_err().errno(), libc::EXDEV);
    let own = world.host("own");
    let cut = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.partition(&own, &foreign)));
    let words = *cut.unwrap_err().downcast::<String>().unwrap();
    assert!(words.contains("is of the world with seed 8"), "{words}");
    // It still belongs where it was made, and so does its program.
    let program = other.start(&foreign, nap(Duration::from_secs(1)));
    let napped = world.start(&own, nap(Duration::from_secs(1)));
    assert!(!world.kill(&program) && !world.stop(&program));
    world.finish(napped).unwrap().unwrap();
    other.finish(program).unwrap().unwrap();
}

/// Starting, ending and asking from within what a world has planned, and worlds inside of worlds.
#[test]
fn a_world_may_be_used_from_within() {
    let mut world = World::new(9);
    let host = world.host("outer");
    let (tell, told) = std::sync::mpsc::channel();
    let inside = host.clone();
    world.at(Duration::from_secs(1), move |world| {
        let napped = world.start(&inside, nap(Duration::from_secs(5)));
        world.finish(napped).unwrap().unwrap();
        tell.send(world.elapsed()).unwrap();
    });
    let napped = world.start(&host, nap(Duration::from_secs(3)));
    world.run().unwrap();
    assert!(napped.has_ended());
    assert_eq!(told.recv().unwrap(), Duration::from_secs(6));
    // A world that a fiber makes is its own; and the one around it goes on.
    let outer = world.start(&host, make_a_world());
    assert_eq!(world.finish(outer).unwrap().unwrap(), Duration::from_secs(60));
    assert_eq!(Builder::new().io(Selection::Epoll).run(make_a_world()).unwrap().unwrap(), Duration::from_secs(60));
    // What was never run is dropped with its world.
    let held = Rc::new(());
    let kept = Rc::clone(&held);
    let never = world.start(&host, hold(kept));
    drop(world);
    assert_eq!(Rc::strong_count(&held), 1);
    assert!(never.has_ended());
}

#[wo::fiber]
fn make_a_world() -> IoResult<Duration> {
    let mut world = World::new(1);
    let host = world.host("inner");
    let napped = world.start(&host, || nap(Duration::from_secs(60)));
    let ended = world.finish(napped);
    ended.expect("it has a value")?;
    wo::sleep(MS)?;
    Ok(world.elapsed())
}

#[wo::fiber]
fn hold(_held: Rc<()>) -> IoResult<()> {
    wo::sleep(Duration::MAX)
}

/// Power that goes twice, comes without having gone, and comes while a program runs.
#[test]
fn power_goes_and_comes_in_any_order() {
    let mut world = World::new(10);
    let host = world.host("fuse");
    let program = world.start(&host, nap(Duration::from_secs(1)));
    let refusal = world.restart(&host).unwrap_err();
    assert_eq!(refusal.errno(), libc::EBUSY, "{refusal}");
    world.finish(program).unwrap().unwrap();
    world.restart(&host).unwrap();
    world.crash(&host);
    world.crash(&host);
    assert!(host.is_cut());
    let dark = world.start(&host, nap(MS));
    assert!(matches!(dark.take(), Some(Err(RunError::Setup(error))) if error.to_string().contains("power")));
    world.restart(&host).unwrap();
    world.restart(&host).unwrap();
    let program = world.start(&host, nap(MS));
    world.finish(program).unwrap().unwrap();
}

#[wo::fiber]
fn fall() -> IoResult<()> {
    wo::sleep(MS)?;
    assert_eq!(wo::shards(), 0, "as planned");
    Ok(())
}

/// A panic of one program is its own end, and nobody else's.
#[test]
fn a_panic_stays_with_its_program() {
    let mut world = World::new(11);
    let host = world.host("shared");
    let falls = world.start(&host, fall());
    let naps = world.start(&host, nap(Duration::from_secs(1)));
    assert!(matches!(world.finish(falls), Err(RunError::Panicked(_))));
    world.finish(naps).unwrap().unwrap();
}

#[wo::fiber]
fn many_waits(count: usize) -> IoResult<()> {
    let (sender, receiver) = wo::oneshot::<()>();
    for _ in 0..count {
        wo::spawn(|| nap(Duration::MAX));
    }
    let got = receiver.recv();
    drop(sender);
    got
}

/// The report of a deadlock of very many fibers has a line for each.
#[test]
fn a_deadlock_of_very_many_names_them_all() {
    let mut world = World::new(12);
    let host = world.host("crowd");
    let waits = world.start(&host, many_waits(20_000));
    let words = world.finish(waits).unwrap_err().to_string();
    assert!(words.contains("crowd: fiber 0 (main) waits in receive"), "{}", &words[..500]);
    assert!(words.contains("crowd: fiber 20000 waits in timer"), "{}", &words[words.len() - 500..]);
    assert!(words.lines().count() < 20_100);
}

#[wo::fiber]
fn write_and_run() -> IoResult<()> {
    write_and_stat()?;
    wo::process::Command::new("tool").status()?;
    Ok(())
}

/// What is asked while the world stands still must not move it: that is said, and no wait for oneself.
#[test]
fn a_watcher_that_uses_its_host_is_told() {
    for program in [false, true] {
        let (tell, told) = std::sync::mpsc::channel();
        // A hang would be of this thread alone.
        let tried = std::thread::spawn(move || {
            let mut world = World::new(13);
            let host = world.host("watched");
            let own = host.clone();
            if program {
                host.program("tool", move |_| {
                    own.console();
                    wo::sim::Script::new()
                });
            } else {
                host.before_disk_changes(move |_| drop(own.disk()));
            }
            let tried = world.start(&host, write_and_run());
            // A panic in a fiber is its program's end; one on the way to the disk is the test's.
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.finish(tried)));
            let words = match ended {
                Ok(ended) => format!("{ended:?}"),
                Err(payload) => payload.downcast::<&str>().map_or_else(|_| String::new(), |words| words.to_string()),
            };
            tell.send(words).expect("the test waits");
        });
        let words = told.recv_timeout(Duration::from_secs(60)).expect("it does not hang");
        assert!(words.contains("must not use a host of its world"), "{words}");
        tried.join().expect("the world is dropped in peace");
    }
}
