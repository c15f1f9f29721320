//! A chat over TCP, one line at a time: rooms and sessions are actors, spread over every shard.
//!
//! `cargo run --release --example chat`, then `nc 127.0.0.1 7001` in as many terminals as you like.
//!
//! - `/nick NAME` names you, `/join ROOM` moves you, `/who` lists who is in your room, `/quit` ends.
//! - Any other line is said in your room, and everyone there, you included, receives `ROOM NAME: TEXT`, all in one same
//!   order.
//! - Lines that begin with `*` answer a command; those that begin with `!` say what was wrong, or what you missed.
//!
//! SIGTERM or Ctrl-C ends it: what was said is still delivered.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use wo::actor::{Addr, Options};
use wo::net::{TcpListener, TcpStream, Written};

/// The longest line, its end not counted.
const LINE_BYTES_MAX: usize = 512;
/// The longest name of a member or a room.
const NAME_BYTES_MAX: usize = 32;
/// Lines that wait for a slow reader before it misses some.
const LINES_WAITING_MAX: usize = 256;
/// Requests that wait for a room before those who make them wait too.
const REQUESTS_WAITING_MAX: usize = 1024;
/// A room exists from its first visitor on.
const ROOMS_MAX: usize = 10_000;
/// A reader that takes nothing for so long is given up.
const STALL: Duration = Duration::from_secs(10);
/// How long a stop waits for slow readers: less than the program's grace.
const DRAIN: Duration = Duration::from_secs(3);
/// Where everybody begins.
const LOBBY: &str = "lobby";

#[wo::main]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = pico_args::Arguments::from_env();
    let address = arguments.opt_value_from_str("--listen")?.unwrap_or(String::from("127.0.0.1:7001"));
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr());
    let hall = Options::new().bound(REQUESTS_WAITING_MAX).spawn(Hall::default());
    let mut arrived = 0;
    loop {
        match listener.accept() {
            Ok((stream, _peer)) => {
                arrived += 1;
                let session = Options::new().bound(LINES_WAITING_MAX).spawn(Session::new(arrived, stream));
                let _ = session.begin(session, hall);
            }
            Err(stop) if stop.is_cancelled() => break,
            // Out of descriptors, say: told once, and accepting goes on by itself when some are free.
            Err(trouble) => eprintln!("{trouble}"),
        }
    }
    // The program stops: nobody says anything new, and what was said reaches everyone who reads.
    let _ = wo::protect(|| hall.close_by(DRAIN));
    Ok(())
}

/// Knows every room, and makes those that are asked for.
#[derive(Default)]
struct Hall {
    rooms: BTreeMap<String, Addr<RoomMessage>>,
}

#[wo::actor]
impl Hall {
    /// The room of that name; none when there are too many to make another.
    #[message]
    fn room(&mut self, name: String) -> Option<Addr<RoomMessage>> {
        if let Some(room) = self.rooms.get(&name) {
            return Some(*room);
        }
        if self.rooms.len() >= ROOMS_MAX {
            return None;
        }
        let room = Options::new().bound(REQUESTS_WAITING_MAX).spawn(Room { name: name.clone(), members: Vec::new() });
        self.rooms.insert(name, room);
        Some(room)
    }

    /// Ends every room, and with it every session in it, once what was said there is delivered.
    #[message]
    fn close(&mut self) {
        let rooms: Vec<Addr<RoomMessage>> = self.rooms.values().copied().collect();
        for room in rooms {
            let _ = wo::protect(|| room.close());
        }
    }
}

/// A room: who is in it. It alone decides the order of what is said.
struct Room {
    name: String,
    members: Vec<Member>,
}

struct Member {
    session: u64,
    name: String,
    address: Addr<SessionMessage>,
    /// Lines there was no room for since the last that was delivered.
    missed: usize,
}

#[wo::actor]
impl Room {
    #[message]
    fn enter(&mut self, session: u64, name: String, address: Addr<SessionMessage>) {
        self.members.push(Member { session, name, address, missed: 0 });
    }

    #[message]
    fn leave(&mut self, session: u64) {
        self.members.retain(|member| member.session != session);
    }

    #[message]
    fn rename(&mut self, session: u64, name: String) {
        if let Some(member) = self.members.iter_mut().find(|member| member.session == session) {
            member.name = name;
        }
    }

    #[message]
    fn who(&mut self) -> Vec<String> {
        self.members.iter().map(|member| member.name.clone()).collect()
    }

    /// Delivers a line to everyone, without waiting for anyone.
    #[message(send)]
    fn say(&mut self, session: u64, text: String) {
        let Some(speaker) = self.members.iter().find(|member| member.session == session) else { return };
        let line: Arc<str> = format!("{} {}: {text}\n", self.name, speaker.name).into();
        for member in &mut self.members {
            member.deliver(&line);
        }
    }

    #[message]
    fn close(&mut self) {
        for member in &self.members {
            member.address.stop();
        }
        for member in std::mem::take(&mut self.members) {
            let _ = wo::protect(|| member.address.ended());
        }
    }
}

impl Member {
    /// A slow reader misses lines, and is told how many as soon as there is room again.
    fn deliver(&mut self, line: &Arc<str>) {
        if self.missed > 0 {
            let notice = format!("! {} lines were missed: read faster\n", self.missed);
            if self.address.try_send(SessionMessage::tell(notice.into())).is_err() {
                self.missed += 1;
                return;
            }
            self.missed = 0;
        }
        if self.address.try_send(SessionMessage::tell(Arc::clone(line))).is_err() {
            self.missed += 1;
        }
    }
}

/// One connection: it alone writes to it.
struct Session {
    number: u64,
    stream: TcpStream,
}

impl Session {
    fn new(number: u64, stream: TcpStream) -> Session {
        Session { number, stream }
    }
}

#[wo::actor]
impl Session {
    /// Begins to listen to the client, on the shard this lives on.
    #[message(send)]
    fn begin(&mut self, me: Addr<SessionMessage>, hall: Addr<HallMessage>) {
        let (number, stream) = (self.number, self.stream.clone());
        wo::spawn(|| {
            let visitor = Visitor { number, name: format!("guest-{number}"), me, hall, room: None };
            listen(visitor, stream);
        });
    }

    /// Writes a line; a client that takes nothing for long is given up.
    #[message(send)]
    fn tell(&mut self, line: Arc<str>) {
        let stream = &self.stream;
        let written = wo::protect(|| stream.write_all_by(line.as_bytes(), STALL));
        if !matches!(written, Ok(Written::All)) {
            // Whoever listens to it hears the end.
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
        }
    }

    fn stopping(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// A client as its session knows it.
struct Visitor {
    number: u64,
    name: String,
    me: Addr<SessionMessage>,
    hall: Addr<HallMessage>,
    room: Option<(String, Addr<RoomMessage>)>,
}

/// Does what a client says, line by line, until it ends or goes away.
#[wo::fiber]
fn listen(mut visitor: Visitor, stream: TcpStream) {
    visitor.join(LOBBY);
    let mut lines = Lines { stream, held: Vec::new(), skipping: false };
    loop {
        match lines.next() {
            Heard::Line(line) => {
                if !visitor.heard(&line) {
                    break;
                }
            }
            Heard::TooLong => visitor.tell(format!("! a line has at most {LINE_BYTES_MAX} bytes")),
            Heard::NotText => visitor.tell("! a line is UTF-8 text".to_owned()),
            Heard::End => break,
        }
    }
    visitor.leave();
    visitor.me.stop();
}

impl Visitor {
    /// Answers whether the client stays.
    #[wo::fiber]
    fn heard(&mut self, line: &str) -> bool {
        let (command, argument) = line.split_once(' ').unwrap_or((line, ""));
        match command {
            "/quit" => return false,
            "/nick" => self.nick(argument.trim()),
            "/join" => match named(argument.trim()) {
                Ok(room) => self.join(room),
                Err(trouble) => self.tell(trouble),
            },
            "/who" => self.who(),
            "" if argument.is_empty() => {}
            _ if command.starts_with('/') => {
                self.tell(format!("! {command} is no command: /nick NAME, /join ROOM, /who, /quit"));
            }
            _ => self.say(line),
        }
        true
    }

    #[wo::fiber]
    fn nick(&mut self, name: &str) {
        match named(name) {
            Ok(name) => {
                self.name = name.to_owned();
                if let Some((_, room)) = &self.room {
                    let _ = room.rename(self.number, name.to_owned());
                }
                self.tell(format!("* you are {name}"));
            }
            Err(trouble) => self.tell(trouble),
        }
    }

    #[wo::fiber]
    fn join(&mut self, name: &str) {
        match self.hall.room(name.to_owned()) {
            Ok(Some(room)) => {
                self.leave();
                if room.enter(self.number, self.name.clone(), self.me).is_ok() {
                    self.room = Some((name.to_owned(), room));
                    self.tell(format!("* you are in {name}"));
                }
            }
            Ok(None) => self.tell(format!("! there are {ROOMS_MAX} rooms already; join one of them")),
            // The program is stopping.
            Err(_) => {}
        }
    }

    #[wo::fiber]
    fn leave(&mut self) {
        if let Some((_, room)) = self.room.take() {
            let _ = wo::protect(|| room.leave(self.number));
        }
    }

    #[wo::fiber]
    fn who(&mut self) {
        if let Some((name, room)) = &self.room
            && let Ok(names) = room.who()
        {
            self.tell(format!("* in {name}: {}", names.join(" ")));
        }
    }

    #[wo::fiber]
    fn say(&mut self, text: &str) {
        if let Some((_, room)) = &self.room {
            let _ = room.say(self.number, text.to_owned());
        }
    }

    /// Queues a line for this client alone, behind those that wait.
    #[wo::fiber]
    fn tell(&self, line: String) {
        let _ = self.me.send(SessionMessage::tell(format!("{line}\n").into()));
    }
}

/// A name as it may be taken, or what is wrong with it.
fn named(name: &str) -> Result<&str, String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(format!("! a name has 1 to {NAME_BYTES_MAX} bytes and no spaces"));
    }
    Ok(name)
}

/// The lines of a connection.
struct Lines {
    stream: TcpStream,
    held: Vec<u8>,
    /// The rest of a line that was too long is thrown away.
    skipping: bool,
}

enum Heard {
    Line(String),
    TooLong,
    NotText,
    End,
}

impl Lines {
    #[wo::fiber]
    fn next(&mut self) -> Heard {
        let mut chunk = [0; 1024];
        loop {
            if let Some(end) = self.held.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.held.drain(..=end).collect();
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                if std::mem::take(&mut self.skipping) {
                    continue;
                }
                if line.len() > LINE_BYTES_MAX {
                    return Heard::TooLong;
                }
                return match String::from_utf8(line) {
                    Ok(line) => Heard::Line(line),
                    Err(_) => Heard::NotText,
                };
            }
            if self.held.len() > LINE_BYTES_MAX + 1 {
                self.held.clear();
                if !std::mem::replace(&mut self.skipping, true) {
                    return Heard::TooLong;
                }
            }
            match self.stream.read(&mut chunk) {
                Ok(0) | Err(_) => return Heard::End,
                Ok(count) => self.held.extend_from_slice(&chunk[..count]),
            }
        }
    }
}
