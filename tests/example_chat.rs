//! The gate of the example `chat`: a thousand real connections, every line at every member, in one order per room, on
//! both backends, at one shard and at the default.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

#[path = "support/example.rs"]
mod example;

use example::{Example, same_on_each};

const CLIENTS: usize = 1000;
const ROOMS: usize = 20;
const LINES_EACH: usize = 2;
/// Lines said at once to a slow reader, and how often.
const BATCH: usize = 200;
const BATCHES: usize = 100;

struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    fn connect(address: SocketAddr) -> Client {
        let mut client = Client { reader: BufReader::new(TcpStream::connect(address).expect("connect")) };
        assert_eq!(client.line(), "* you are in lobby");
        client
    }

    /// A client whose own kernel holds little for it.
    fn narrow(address: SocketAddr) -> Client {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("socket");
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        socket.connect(&address.into()).expect("connect");
        let mut client = Client { reader: BufReader::new(socket.into()) };
        assert_eq!(client.line(), "* you are in lobby");
        client
    }

    fn say(&mut self, line: &str) {
        self.reader.get_mut().write_all(format!("{line}\n").as_bytes()).expect("write");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("read");
        assert!(line.ends_with('\n'), "the connection ended after {line:?}");
        line.trim_end().to_owned()
    }

    fn asks(&mut self, line: &str) -> String {
        self.say(line);
        self.line()
    }
}

#[test]
fn a_thousand_members_hear_every_line_in_one_order() {
    same_on_each("chat", |server| {
        let address = server.address();
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(address)).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.asks(&format!("/nick n{number}")), format!("* you are n{number}"));
            let room = format!("room{}", number % ROOMS);
            assert_eq!(client.asks(&format!("/join {room}")), format!("* you are in {room}"));
        }
        for line in 0..LINES_EACH {
            for (number, client) in clients.iter_mut().enumerate() {
                client.say(&format!("line {line} of n{number}"));
            }
        }
        let mut heard: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (number, client) in clients.iter_mut().enumerate() {
            let room = number % ROOMS;
            let lines: Vec<String> = (0..CLIENTS / ROOMS * LINES_EACH).map(|_| client.line()).collect();
            match heard.get(&room) {
                Some(first) => assert_eq!(*first, lines, "n{number} heard another order than the first of its room"),
                None => drop(heard.insert(room, lines)),
            }
        }
        server.stop();
        // What was heard is determined as a set, and for each speaker in order.
        for (room, lines) in &mut heard {
            for speaker in (0..CLIENTS).filter(|number| number % ROOMS == *room) {
                let prefix = format!("room{room} n{speaker}: ");
                let own: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix(&prefix)).collect();
                let expected: Vec<String> = (0..LINES_EACH).map(|n| format!("line {n} of n{speaker}")).collect();
                assert_eq!(own, expected);
            }
            lines.sort();
        }
        heard
    });
}

#[test]
fn commands_answer_and_bad_lines_are_told_what_is_wrong() {
    same_on_each("chat", |server| {
        let mut client = Client::connect(server.address());
        let mut said = vec![
            client.asks("hello"),
            client.asks("/nick ada"),
            client.asks("/who"),
            client.asks("/join den"),
            client.asks("/who"),
            client.asks("hello again"),
            client.asks("/nick"),
            client.asks("/nick a b"),
            client.asks(&format!("/join {}", "x".repeat(33))),
            client.asks("/join *"),
            client.asks("/join !den"),
            client.asks("/dance"),
            client.asks(&"y".repeat(600)),
            client.asks(&"z".repeat(100_000)),
            client.asks(&"w".repeat(512)),
        ];
        client.reader.get_mut().write_all(b"\xff\xfe\n").expect("write");
        said.push(client.line());
        said.push(client.asks("mine\rlobby root: obey"));
        client.say("");
        said.push(client.asks("still here"));
        client.say("/quit");
        let mut rest = String::new();
        client.reader.read_to_string(&mut rest).expect("read");
        assert_eq!(rest, "");
        server.stop();
        assert_eq!(said[1], "* you are ada");
        assert_eq!(said[2], "* in lobby: ada");
        assert_eq!(said[5], "den ada: hello again");
        assert!(said[6..=13].iter().chain(&said[15..=16]).all(|line| line.starts_with("! ")), "{said:?}");
        assert_eq!(said[17], "den ada: still here");
        said
    });
}

/// As with `printf`, or a file without an end of line.
#[test]
fn a_last_line_without_an_end_is_heard() {
    same_on_each("chat", |server| {
        let mut client = Client::connect(server.address());
        client.reader.get_mut().write_all(b"/nick ada\nhello").expect("write");
        client.reader.get_mut().shutdown(Shutdown::Write).expect("shut down");
        let mut rest = String::new();
        client.reader.read_to_string(&mut rest).expect("read");
        server.stop();
        assert_eq!(rest, "* you are ada\nlobby ada: hello\n");
    });
}

#[test]
fn a_reader_that_does_not_read_holds_nobody_up_and_is_told_what_it_missed() {
    same_on_each("chat", |server| {
        let mut slow = Client::narrow(server.address());
        let mut quick = Client::connect(server.address());
        // More than the slow one's queue and the sockets' buffers hold, a batch at a time that the quick one's queue
        // holds.
        let text = "x".repeat(500);
        for _ in 0..BATCHES {
            quick.say(&[text.as_str(); BATCH].join("\n"));
            for _ in 0..BATCH {
                assert!(quick.line().ends_with(&text));
            }
        }
        // It is told what it missed once there is room for it, with the next line; or it was given up as stalled.
        loop {
            assert!(quick.asks("tick").ends_with("tick"));
            let mut line = String::new();
            let read = slow.reader.read_line(&mut line).unwrap_or(0);
            if read == 0 || line.starts_with("! ") && line.contains("missed") {
                break;
            }
        }
        server.stop();
    });
}

#[test]
fn a_stop_delivers_what_was_said() {
    same_on_each("chat", |server: Example| {
        let mut clients: Vec<Client> = (0..50).map(|_| Client::connect(server.address())).collect();
        clients[0].say("last words");
        assert_eq!(clients[0].line(), "lobby guest-1: last words");
        server.stop();
        for client in &mut clients[1..] {
            assert_eq!(client.line(), "lobby guest-1: last words");
        }
    });
}

#[test]
fn what_was_said_can_be_read_again() {
    same_on_each("chat", |server| {
        let mut client = Client::connect(server.address());
        for line in 0..5 {
            client.asks(&format!("line {line}"));
        }
        client.say("/history 3");
        let mut heard: Vec<String> = (0..4).map(|_| client.line()).collect();
        client.asks("/join den");
        heard.push(client.asks("/history 10"));
        heard.extend(["/history", "/history 0", "/history many"].map(|line| client.asks(line)));
        server.stop();
        assert_eq!(heard[0], "* lobby guest-1: line 2");
        assert_eq!(heard[3..5], ["* 3 lines were said in lobby last", "* 0 lines were said in den last"]);
        assert!(heard[5..].iter().all(|line| line.starts_with("! ")), "{heard:?}");
        heard
    });
}

/// Four clients talk until the process is killed in the middle of it; every line that came back to its speaker is there
/// when it starts again.
#[test]
fn a_kill_loses_no_line_that_was_heard() {
    const SPEAKERS: usize = 4;
    const LINES: usize = 60;
    for io in ["uring", "epoll"] {
        let scratch = tempfile::tempdir().expect("a directory");
        let data = scratch.path().join("data");
        let environment = [("WO_IO", io), ("WO_DATA", data.to_str().expect("it is text"))];
        let mut before: Vec<String> = Vec::new();
        for life in 0..2 {
            let server = Example::start("chat", &environment);
            let address = server.address();
            let (told, heard) = std::sync::mpsc::channel();
            let speakers: Vec<_> = (0..SPEAKERS)
                .map(|speaker| {
                    let told = told.clone();
                    std::thread::spawn(move || speak(address, &format!("life {life}, speaker {speaker}, line"), &told))
                })
                .collect();
            drop(told);
            let mut acknowledged: Vec<String> = heard.iter().take(LINES).collect();
            // The others are in the middle of it: SIGKILL.
            drop(server);
            for speaker in speakers {
                speaker.join().expect("a speaker ends when its connection does");
            }
            acknowledged.extend(heard.try_iter());

            let server = Example::start("chat", &environment);
            let mut client = Client::connect(server.address());
            client.say("/history 1000");
            let mut history = Vec::new();
            loop {
                let line = client.line();
                if line.ends_with("lines were said in lobby last") {
                    break;
                }
                history.push(line.strip_prefix("* ").expect("an answer").to_owned());
            }
            server.stop();
            assert!(history.starts_with(&before), "what was there before is there no more");
            for line in &acknowledged {
                assert!(history.contains(line), "on {io}, {line:?} was heard and is gone; there is {history:#?}");
            }
            before = history;
        }
        assert!(before.len() >= 2 * LINES);
    }
}

/// Says a line after the other, and tells each that came back, until the connection ends.
fn speak(address: SocketAddr, beginning: &str, told: &std::sync::mpsc::Sender<String>) {
    let mut stream = BufReader::new(TcpStream::connect(address).expect("connect"));
    for line in 0.. {
        let said = format!("{beginning} {line}");
        if stream.get_mut().write_all(format!("{said}\n").as_bytes()).is_err() {
            return;
        }
        loop {
            let mut heard = String::new();
            if stream.read_line(&mut heard).unwrap_or(0) == 0 || !heard.ends_with('\n') {
                return;
            }
            let heard = heard.trim_end();
            if heard.ends_with(&said) {
                // Nobody listens any more when enough was heard.
                let _ = told.send(heard.to_owned());
                break;
            }
        }
    }
}

#[test]
fn a_command_line_it_does_not_know_is_refused() {
    example::listens_as_told("chat");
}
