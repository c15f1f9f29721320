//! Networks that delay, lose, double, reorder, part and reset.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Duration;

use wo::net::{TcpListener, TcpStream, UdpSocket};
use wo::schedule::{exponential, recurs};
use wo::sim::{Link, World};

use crate::{ask, echo_server};

const EXACT: fn(u64) -> Link =
    |millis| Link { latency: Duration::from_millis(millis)..Duration::from_millis(millis), ..Link::default() };

#[test]
fn latency_is_as_told() {
    let mut world = World::new(1);
    let (server, client) = (world.host("server"), world.host("client"));
    world.set_link(&server, &client, EXACT(20));
    let _served = world.start(&server, echo_server());
    let asked = world.start(&client, ask(server.ip(), "hello".into()));
    world.finish(asked).unwrap().unwrap();
    // There and back for the connection, there and back for the words, and what the hosts themselves took.
    let taken = world.elapsed();
    assert!((Duration::from_millis(80)..Duration::from_millis(81)).contains(&taken), "{taken:?}");
}

/// Asks again after 0.5, 1, 2 … seconds, until it is answered: when each try began, and when it was.
#[wo::fiber]
fn ask_until_answered(server: Ipv4Addr) -> (Vec<Duration>, Duration) {
    wo::sleep(Duration::from_millis(1500)).expect("it is not cancelled");
    let mut tries = Vec::new();
    let answered: wo::Outcome<(), &str> = wo::retry(exponential(Duration::from_millis(500)) & recurs(5), || {
        tries.push(wo::now() - wo::Instant::ORIGIN);
        let answered = ask_once(server, Duration::from_millis(100));
        if answered { Ok(()) } else { Err("no answer") }
    });
    answered.expect("it is answered before it has no patience left");
    (tries, wo::now() - wo::Instant::ORIGIN)
}

#[wo::fiber]
fn ask_once(server: Ipv4Addr, patience: Duration) -> bool {
    let Ok(Some(stream)) = TcpStream::connect_by((server, 7000), patience) else { return false };
    if stream.write_all(b"?").is_err() {
        return false;
    }
    matches!(stream.read_by(&mut [0; 1], patience), Ok(Some(1)))
}

/// The wires are cut from second 1 to second 3. Asked at 1.5, 2.1 and 3.2 seconds, the third time it is answered.
#[test]
fn m3_a_retry_outlives_a_partition() {
    let mut world = World::new(3);
    let (server, client) = (world.host("server"), world.host("client"));
    world.set_links(EXACT(5));
    let _served = world.start(&server, echo_server());
    let asked = world.start(&client, ask_until_answered(server.ip()));
    let (a, b) = (server.clone(), client.clone());
    world.at(Duration::from_secs(1), move |world| world.partition(&a, &b));
    world.at(Duration::from_secs(3), move |world| world.heal(&server, &client));
    let (tries, at) = world.finish(asked).unwrap();
    let tries: Vec<u128> = tries.iter().map(Duration::as_millis).collect();
    assert_eq!(tries, [1500, 2100, 3200]);
    assert!((Duration::from_millis(3220)..Duration::from_millis(3222)).contains(&at), "{at:?}");
}

/// What a server was asked, and when it had seen to it.
type Handled = Rc<RefCell<Vec<(u8, Duration)>>>;

/// Adds what it has not seen before, and answers the sum.
#[wo::fiber]
fn sum_server(handled: Handled) -> wo::IoResult<()> {
    let listener = TcpListener::bind("0.0.0.0:7000")?;
    let (mut seen, mut sum) = (std::collections::BTreeSet::new(), 0);
    loop {
        let (stream, _peer) = listener.accept()?;
        let mut request = [0; 2];
        while stream.read_exact(&mut request).is_ok() {
            let [key, amount] = request;
            if seen.insert(key) {
                sum += amount;
            }
            handled.borrow_mut().push((key, wo::now() - wo::Instant::ORIGIN));
            if stream.write_all(&[sum, seen.len() as u8]).is_err() {
                break;
            }
        }
    }
}

#[wo::fiber]
fn add_until_answered(server: Ipv4Addr) -> (u32, [u8; 2]) {
    let mut tries = 0;
    loop {
        tries += 1;
        let Ok(stream) = TcpStream::connect((server, 7000)) else { continue };
        if stream.write_all(&[7, 5]).is_err() {
            continue;
        }
        let mut answer = [0; 2];
        if let Ok(Some(())) = stream.read_exact_by(&mut answer, Duration::from_secs(1)) {
            return (tries, answer);
        }
    }
}

/// Requests arrive and answers do not: what was asked twice was done once.
#[test]
fn m4_a_lost_answer_is_asked_for_again_and_done_once() {
    let mut world = World::new(4);
    let (server, client) = (world.host("server"), world.host("client"));
    world.set_links(EXACT(5));
    let handled = Handled::default();
    let _served = world.start(&server, sum_server(Rc::clone(&handled)));
    let asked = world.start(&client, add_until_answered(server.ip()));
    // After the connection was made, before the answer leaves.
    let (a, b) = (server.clone(), client.clone());
    world.at(Duration::from_millis(12), move |world| world.cut(&a, &b));
    world.at(Duration::from_secs(3), move |world| world.heal(&server, &client));
    let (tries, answer) = world.finish(asked).unwrap();
    assert!(tries > 1, "{tries}");
    assert_eq!(answer, [5, 1], "added once");
    let handled = handled.take();
    assert!(handled.len() > 1 && handled.iter().all(|(key, _)| *key == 7), "one key, several times: {handled:?}");
    // The first request arrived in its time, while its answer could not leave.
    assert!((15..17).contains(&handled[0].1.as_millis()), "{handled:?}");
    assert!(handled[1].1 > Duration::from_secs(1), "{handled:?}");
}

#[wo::fiber]
fn count_datagrams() -> wo::IoResult<Vec<u16>> {
    let socket = UdpSocket::bind("0.0.0.0:9000")?;
    let mut came = Vec::new();
    let mut buf = [0; 2];
    loop {
        match socket.read_from_by(&mut buf, Duration::from_secs(30))? {
            Some(_) => came.push(u16::from_be_bytes(buf)),
            None => return Ok(came),
        }
    }
}

#[wo::fiber]
fn send_datagrams(to: Ipv4Addr, count: u16) -> wo::IoResult<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    for number in 0..count {
        socket.write_to(&number.to_be_bytes(), (to, 9000))?;
        wo::sleep(Duration::from_millis(1))?;
    }
    Ok(())
}

#[test]
fn m5_lost_doubled_and_reordered_datagrams_are_counted() {
    let mut world = World::new(5);
    let (receiver, sender) = (world.host("receiver"), world.host("sender"));
    let bad = Link { loss: 0.3, duplicate: 0.1, reorder: 0.2, ..EXACT(3) };
    world.set_links(bad);
    let received = world.start(&receiver, count_datagrams());
    let _sent = world.start(&sender, send_datagrams(receiver.ip(), 1000));
    let came = world.finish(received).unwrap().unwrap();
    let counters = world.counters();
    assert_eq!(counters.sent, 1000);
    assert_eq!(came.len() as u64, 1000 - counters.lost + counters.duplicated);
    let distinct: std::collections::BTreeSet<u16> = came.iter().copied().collect();
    assert_eq!(distinct.len() as u64, 1000 - counters.lost);
    let overtaken = came.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
    assert!(overtaken > 0 && overtaken <= counters.reordered + counters.duplicated, "{overtaken} {counters:?}");
    assert!((200..400).contains(&counters.lost) && (30..130).contains(&counters.duplicated), "{counters:?}");
}

#[wo::fiber]
fn read_to_the_reset() -> wo::IoResult<(Vec<u8>, i32)> {
    let listener = TcpListener::bind("0.0.0.0:7000")?;
    let (stream, _peer) = listener.accept()?;
    let mut all = Vec::new();
    let mut buf = [0; 4];
    loop {
        match stream.read(&mut buf) {
            Ok(count) => all.extend_from_slice(&buf[..count]),
            Err(error) => return Ok((all, error.errno())),
        }
        if all.len() == 10 {
            wo::sleep(Duration::from_secs(2))?;
        }
    }
}

#[wo::fiber]
fn write_ten_and_wait(server: Ipv4Addr) -> wo::IoResult<i32> {
    let stream = TcpStream::connect((server, 7000))?;
    stream.write_all(b"0123456789")?;
    match stream.read(&mut [0; 1]) {
        Ok(_) => Ok(0),
        Err(error) => Ok(error.errno()),
    }
}

#[test]
fn m6_a_reset_comes_after_the_bytes_before_it() {
    let mut world = World::new(6);
    let (server, client) = (world.host("server"), world.host("client"));
    let read = world.start(&server, read_to_the_reset());
    let wrote = world.start(&client, write_ten_and_wait(server.ip()));
    world.at(Duration::from_secs(1), move |_| assert_eq!(client.reset_connections(), 1));
    assert_eq!(world.finish(read).unwrap().unwrap(), (b"0123456789".to_vec(), libc::ECONNRESET));
    assert_eq!(world.finish(wrote).unwrap().unwrap(), libc::ECONNRESET);
}

#[wo::fiber]
fn answer_after_the_end() -> wo::IoResult<Vec<u8>> {
    let listener = TcpListener::bind("0.0.0.0:7000")?;
    let (stream, _peer) = listener.accept()?;
    let mut all = Vec::new();
    let mut buf = [0; 4];
    loop {
        let count = stream.read(&mut buf)?;
        if count == 0 {
            break;
        }
        all.extend_from_slice(&buf[..count]);
    }
    stream.write_all(b"still here")?;
    Ok(all)
}

#[wo::fiber]
fn finish_and_read(server: Ipv4Addr) -> wo::IoResult<Vec<u8>> {
    let stream = TcpStream::connect((server, 7000))?;
    stream.write_all(b"all of it")?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = vec![0; 10];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

#[test]
fn m6_a_half_closed_connection_still_writes() {
    let mut world = World::new(6);
    let (server, client) = (world.host("server"), world.host("client"));
    let read = world.start(&server, answer_after_the_end());
    let wrote = world.start(&client, finish_and_read(server.ip()));
    assert_eq!(world.finish(wrote).unwrap().unwrap(), b"still here");
    assert_eq!(world.finish(read).unwrap().unwrap(), b"all of it");
}

#[wo::fiber]
fn send_and_hear(server: Ipv4Addr, rounds: u32) -> wo::IoResult<u32> {
    let stream = TcpStream::connect((server, 7000))?;
    for round in 0..rounds {
        stream.write_all(&round.to_be_bytes())?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer)?;
        assert_eq!(u32::from_be_bytes(answer), round, "a connection keeps its bytes in order");
    }
    Ok(rounds)
}

/// A connection loses nothing and mixes nothing up, on whatever wire, across a partition.
#[test]
fn a_connection_outlives_loss_and_a_partition() {
    World::sweep(0..20, |world| {
        let (server, client) = (world.host("server"), world.host("client"));
        world.set_links(Link { loss: 0.1, slow: 0.1, ..Link::default() });
        let _served = world.start(&server, echo_server());
        let heard = world.start(&client, send_and_hear(server.ip(), 200));
        let (a, b) = (server.clone(), client.clone());
        world.at(Duration::from_millis(300), move |world| world.partition(&a, &b));
        world.at(Duration::from_secs(20), move |world| world.heal(&server, &client));
        assert_eq!(world.finish(heard).unwrap().unwrap(), 200);
        assert!(world.counters().resent > 0);
    });
}

/// A peer that is never heard of again: the connection is given up in the end, and says so.
#[test]
fn a_connection_across_a_lasting_partition_times_out() {
    let mut world = World::new(8);
    let (server, client) = (world.host("server"), world.host("client"));
    let _served = world.start(&server, echo_server());
    let heard = world.start(&client, send_and_hear(server.ip(), u32::MAX));
    let (a, b) = (server.clone(), client.clone());
    world.at(Duration::from_millis(20), move |world| world.partition(&a, &b));
    assert_eq!(world.finish(heard).unwrap().unwrap_err().errno(), libc::ETIMEDOUT);
    let minutes = world.elapsed().as_secs() / 60;
    assert!((5..30).contains(&minutes), "{minutes} minutes");
}
