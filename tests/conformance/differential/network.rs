//! Scripts of network verbs: a few connections of two kinds, a few datagram sockets, and every way to use them up.

use std::net::Shutdown;
use std::time::Duration;

use fastrand::Rng;
use wo::net::{Family, Stream, TcpListener, TcpStream, UdpSocket, UnixStream};
use wo_runtime::error::IoResult;

use super::{refusal, shown, some_bytes, told};

const PAIRS: usize = 3;
const DATAGRAM_SOCKETS: usize = 3;
/// Nothing is on its way any more after this long.
const SETTLED: Duration = Duration::from_millis(1);
/// A wait for what will not come.
const IN_VAIN: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug)]
enum Step {
    ConnectTcp(usize),
    ConnectUnix(usize),
    ConnectNowhere,
    Send(usize, u8, usize),
    Write(usize, u8, usize),
    Receive(usize, usize),
    Read(usize, usize),
    ReadExact(usize, usize),
    Shutdown(usize, Shutdown),
    Drop(usize),
    Connected(usize),
    BindUdp(usize),
    SendTo(usize, usize, u8, usize),
    ReceiveFrom(usize, usize),
    DropUdp(usize),
    AcceptInVain,
    BindTaken,
}

fn next_step(random: &mut Rng) -> Step {
    // Either end of each pair, by one number.
    let end = random.usize(..2 * PAIRS);
    let count = random.usize(1..1200);
    let socket = random.usize(..DATAGRAM_SOCKETS);
    match random.u32(..32) {
        0..=2 => Step::ConnectTcp(end / 2),
        3 | 4 => Step::ConnectUnix(end / 2),
        5 => Step::ConnectNowhere,
        6..=8 => Step::Send(end, random.u8(..), count),
        9..=11 => Step::Write(end, random.u8(..), count),
        12..=14 => Step::Receive(end, count),
        15..=17 => Step::Read(end, count),
        18 => Step::ReadExact(end, count / 4 + 1),
        19 => Step::Shutdown(end, [Shutdown::Read, Shutdown::Write, Shutdown::Both][random.usize(..3)]),
        20 => Step::Drop(end),
        21 => Step::Connected(end),
        22..=24 => Step::BindUdp(socket),
        25 | 26 => Step::SendTo(socket, random.usize(..DATAGRAM_SOCKETS), random.u8(..), count),
        27..=29 => Step::ReceiveFrom(socket, count),
        30 => Step::DropUdp(socket),
        _ if random.bool() => Step::AcceptInVain,
        _ => Step::BindTaken,
    }
}

/// One end of a connection.
enum End {
    Tcp(TcpStream),
    Unix(UnixStream),
}

struct World {
    listener: TcpListener,
    ends: Vec<Option<End>>,
    sockets: Vec<Option<UdpSocket>>,
}

/// What a script did and what each step answered.
#[wo::fiber]
pub fn account(seed: u64, steps: usize) -> Vec<String> {
    let mut random = Rng::with_seed(seed);
    let mut world = World {
        listener: TcpListener::bind("127.0.0.1:0").expect("bind"),
        ends: (0..2 * PAIRS).map(|_| None).collect(),
        sockets: (0..DATAGRAM_SOCKETS).map(|_| None).collect(),
    };
    let mut lines = Vec::new();
    for _ in 0..steps {
        let step = next_step(&mut random);
        let answer = perform(&mut world, step);
        wo::sleep(SETTLED).expect("sleep");
        lines.push(format!("{step:?} -> {answer}"));
    }
    lines
}

#[wo::fiber]
fn perform(world: &mut World, step: Step) -> String {
    match step {
        Step::ConnectTcp(pair) => {
            world.ends[2 * pair] = None;
            world.ends[2 * pair + 1] = None;
            match connect_tcp(&world.listener) {
                Ok((left, right)) => {
                    world.ends[2 * pair] = Some(End::Tcp(left));
                    world.ends[2 * pair + 1] = Some(End::Tcp(right));
                    String::from("connected")
                }
                Err(error) => refusal(&error),
            }
        }
        Step::ConnectUnix(pair) => match UnixStream::pair() {
            Ok((left, right)) => {
                world.ends[2 * pair] = Some(End::Unix(left));
                world.ends[2 * pair + 1] = Some(End::Unix(right));
                String::from("connected")
            }
            Err(error) => refusal(&error),
        },
        Step::ConnectNowhere => told(connect_nowhere()),
        Step::Drop(end) => format!("{}", world.ends[end].take().is_some()),
        Step::BindUdp(socket) => match UdpSocket::bind("127.0.0.1:0") {
            Ok(bound) => {
                world.sockets[socket] = Some(bound);
                String::from("bound")
            }
            Err(error) => refusal(&error),
        },
        Step::DropUdp(socket) => format!("{}", world.sockets[socket].take().is_some()),
        Step::SendTo(from, to, byte, count) => match (&world.sockets[from], &world.sockets[to]) {
            (Some(from), Some(to)) => {
                let address = to.local_addr().expect("a bound socket has an address");
                let (sent, _buf) = from.send_to(some_bytes(byte, count), address);
                told(sent)
            }
            _ => String::from("not bound"),
        },
        Step::ReceiveFrom(socket, count) => match &world.sockets[socket] {
            Some(receiver) => receive_from(receiver, count, &world.sockets),
            None => String::from("not bound"),
        },
        Step::AcceptInVain => match world.listener.accept_by(IN_VAIN) {
            Ok(accepted) => format!("accepted: {}", accepted.is_some()),
            Err(error) => refusal(&error),
        },
        Step::BindTaken => match TcpListener::bind(world.listener.local_addr()) {
            Ok(_) => String::from("bound twice"),
            Err(error) => refusal(&error),
        },
        step => match &world.ends[end_of(step)] {
            Some(End::Tcp(stream)) => perform_on(stream, step),
            Some(End::Unix(stream)) => perform_on(stream, step),
            None => String::from("not connected"),
        },
    }
}

#[wo::fiber]
fn connect_tcp(listener: &TcpListener) -> IoResult<(TcpStream, TcpStream)> {
    let left = TcpStream::connect(listener.local_addr())?;
    let (right, peer) = listener.accept()?;
    assert_eq!(peer, left.local_addr()?);
    Ok((left, right))
}

/// Connects to a port that was free a moment ago.
#[wo::fiber]
fn connect_nowhere() -> IoResult<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr();
    listener.close()?;
    TcpStream::connect(address).map(drop)
}

/// Receives a datagram; ports differ from run to run, so the sender is told by its place among the sockets.
#[wo::fiber]
fn receive_from(receiver: &UdpSocket, count: usize, sockets: &[Option<UdpSocket>]) -> String {
    let (received, bytes) = receiver.recv_from_by(Vec::with_capacity(count), IN_VAIN);
    match received {
        Ok(Some((count, sender))) => {
            let is_sender = |socket: &UdpSocket| socket.local_addr().is_ok_and(|address| address == sender);
            let place = sockets.iter().position(|socket| socket.as_ref().is_some_and(is_sender));
            format!("{count} {} from {place:?}", shown(&bytes))
        }
        Ok(None) => String::from("nothing"),
        Err(error) => refusal(&error),
    }
}

fn end_of(step: Step) -> usize {
    match step {
        Step::Send(end, ..)
        | Step::Write(end, ..)
        | Step::Receive(end, ..)
        | Step::Read(end, ..)
        | Step::ReadExact(end, ..)
        | Step::Shutdown(end, ..)
        | Step::Connected(end) => end,
        step => unreachable!("{step:?} is for no end of a connection"),
    }
}

#[wo::fiber]
fn perform_on<F: Family>(stream: &Stream<F>, step: Step) -> String {
    match step {
        Step::Send(_, byte, count) => {
            let (sent, _buf) = stream.send(some_bytes(byte, count));
            told(sent)
        }
        Step::Write(_, byte, count) => told(stream.write_all(&some_bytes(byte, count))),
        Step::Receive(_, count) => {
            let (received, bytes) = stream.recv_by(Vec::with_capacity(count), IN_VAIN);
            format!("{} {}", told(received), shown(&bytes))
        }
        Step::Read(_, count) => {
            let mut bytes = vec![0; count];
            match stream.read_by(&mut bytes, IN_VAIN) {
                Ok(Some(read)) => shown(&bytes[..read]),
                Ok(None) => String::from("nothing"),
                Err(error) => refusal(&error),
            }
        }
        Step::ReadExact(_, count) => {
            let mut bytes = vec![0; count];
            let read = stream.read_exact_by(&mut bytes, IN_VAIN);
            match read {
                Ok(Some(())) => shown(&bytes),
                Ok(None) => String::from("not all"),
                Err(error) => refusal(&error),
            }
        }
        Step::Shutdown(_, how) => told(stream.shutdown(how)),
        Step::Connected(_) => format!("peer {}", !stream.peer().is_empty()),
        step => unreachable!("{step:?} is for no connection"),
    }
}
