//! A chat over TCP, one line at a time: rooms and sessions are actors, spread over every shard.
//!
//! `cargo run --release --example chat`, then `nc 127.0.0.1 7001` in as many terminals as you like.
//!
//! - `/nick NAME` names you, `/join ROOM` moves you, `/who` lists who is in your room, `/history N` the last that was
//!   said there, `/quit` ends.
//! - Any other line is said in your room, and everyone there, you included, receives `ROOM NAME: TEXT`, all in one same
//!   order.
//! - Lines that begin with `*` answer a command; those that begin with `!` say what was wrong, or what you missed.
//!
//! What is said is in a database before anyone hears it: with `WO_DATA=some/dir` it is there the next time, whatever
//! happens in between. SIGTERM or Ctrl-C ends it: what was said is still delivered.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use wo::actor::{Addr, Options};
use wo::db::{Db, Table};
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
/// Lines of a room that are kept.
const LINES_KEPT: u64 = 1000;
/// A reader that takes nothing for so long is given up.
const STALL: Duration = Duration::from_secs(10);
/// How long a stop waits for slow readers: less than the program's grace.
const DRAIN: Duration = Duration::from_secs(3);
/// Where everybody begins.
const LOBBY: &str = "lobby";

mod command_line;

#[wo::main]
fn main() -> Result<(), Box<dyn Error>> {
    let address = command_line::listen("chat", "127.0.0.1:7001");
    let db = Db::builder().table::<Said>().open_env()?;
    let said = db.table::<Said>()?;
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr());
    let hall = Options::new().bound(REQUESTS_WAITING_MAX).spawn(Hall { db, rooms: BTreeMap::new() });
    let mut arrived = 0;
    loop {
        match listener.accept() {
            Ok((stream, _peer)) => {
                arrived += 1;
                let session = Options::new().bound(LINES_WAITING_MAX).spawn(Session { number: arrived, stream, said });
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

/// A line that was said, as its room numbered it.
#[derive(wo::Record, Clone)]
#[record(table = "said")]
struct Said {
    #[key]
    room: String,
    #[key]
    number: u64,
    line: String,
}

/// Knows every room, and makes those that are asked for.
struct Hall {
    db: Db,
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
        let room = Options::new().bound(REQUESTS_WAITING_MAX).spawn(Room {
            name: name.clone(),
            db: self.db,
            members: Vec::new(),
        });
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
    db: Db,
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

    /// Keeps a line, then delivers it to everyone, without waiting for anyone.
    #[message(send)]
    fn say(&mut self, session: u64, text: String) {
        let Some(speaker) = self.members.iter().find(|member| member.session == session) else { return };
        let line = format!("{} {}: {text}", self.name, speaker.name);
        let (db, room, kept) = (self.db, self.name.clone(), line.clone());
        if let Err(trouble) = wo::protect(|| keep(db, room, kept)) {
            let _ = speaker.address.try_send(SessionMessage::tell(format!("! nobody heard that: {trouble}\n").into()));
            return;
        }
        let line: Arc<str> = format!("{line}\n").into();
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

/// Keeps a line as the room's last, and no more lines than there shall be.
#[wo::fiber]
fn keep(db: Db, room: String, line: String) -> wo::db::Result<()> {
    db.transaction(move |tx| {
        let said = tx.table::<Said>()?;
        let number = said.prefix(&room).reverse().first()?.map_or(0, |last| last.number + 1);
        if let Some(old) = number.checked_sub(LINES_KEPT) {
            said.delete(&(room.clone(), old))?;
        }
        said.insert(Said { room, number, line })?;
        Ok(())
    })
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
    said: Table<Said>,
}

#[wo::actor]
impl Session {
    /// Begins to listen to the client, on the shard this lives on.
    #[message(send)]
    fn begin(&mut self, me: Addr<SessionMessage>, hall: Addr<HallMessage>) {
        let (number, stream, said) = (self.number, self.stream.clone(), self.said);
        wo::spawn(|| {
            let visitor = Visitor { number, name: format!("guest-{number}"), me, hall, said, room: None };
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
    said: Table<Said>,
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
            Heard::NotText => visitor.tell("! a line is UTF-8 text, without control characters".to_owned()),
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
            "/join" => match room_named(argument.trim()) {
                Ok(room) => self.join(room),
                Err(trouble) => self.tell(trouble),
            },
            "/who" => self.who(),
            "/history" => self.history(argument.trim()),
            "" if argument.is_empty() => {}
            _ if command.starts_with('/') => {
                self.tell(format!("! {command} is no command: /nick NAME, /join ROOM, /who, /history N, /quit"));
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

    /// Tells the last that was said in the room, the oldest first.
    #[wo::fiber]
    fn history(&mut self, count: &str) {
        let Some((name, _)) = &self.room else { return };
        let Ok(count @ 1..=1000) = count.parse::<usize>() else {
            return self.tell(format!("! /history takes a number of lines, 1 to {LINES_KEPT}"));
        };
        match self.said.prefix(name).reverse().limit(count).all() {
            Ok(said) => {
                for said in said.iter().rev() {
                    self.tell(format!("* {}", said.line));
                }
                self.tell(format!("* {} lines were said in {name} last", said.len()));
            }
            Err(trouble) => self.tell(format!("! {trouble}")),
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

/// What a line may not hold: in others' terminals it would write over what they were told.
fn is_command_of_terminals(c: char) -> bool {
    c.is_control() && c != '\t'
}

/// A name as it may be taken, or what is wrong with it.
fn named(name: &str) -> Result<&str, String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(format!("! a name has 1 to {NAME_BYTES_MAX} bytes and no spaces"));
    }
    Ok(name)
}

/// A room's name begins what is said in it, and must not look like an answer or a complaint.
fn room_named(name: &str) -> Result<&str, String> {
    if name.starts_with(['*', '!']) {
        return Err("! a room's name does not begin with * or !".to_owned());
    }
    named(name)
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
                    Ok(line) if !line.contains(is_command_of_terminals) => Heard::Line(line),
                    _ => Heard::NotText,
                };
            }
            if self.held.len() > LINE_BYTES_MAX + 1 {
                self.held.clear();
                if !std::mem::replace(&mut self.skipping, true) {
                    return Heard::TooLong;
                }
            }
            match self.stream.read(&mut chunk) {
                // The last line may be without an end.
                Ok(0) if !self.held.is_empty() => self.held.push(b'\n'),
                Ok(0) | Err(_) => return Heard::End,
                Ok(count) => self.held.extend_from_slice(&chunk[..count]),
            }
        }
    }
}
