//! One body on the simulated kernel and on the real ones: the same list of results.

use std::time::Duration;

use wo::net::{TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream};
use wo::{Builder, IoResult, Selection};

/// What each step came to, in words that are the same wherever it ran.
#[derive(Default)]
struct Account(Vec<String>);

impl Account {
    fn note<T: std::fmt::Debug>(&mut self, what: &str, came: IoResult<T>) {
        let came = came.map_err(|error| (error.op(), error.errno()));
        self.0.push(format!("{what}: {came:?}"));
    }
}

#[wo::fiber]
fn serve_twice(listener: TcpListener) -> IoResult<Vec<u8>> {
    let mut heard = Vec::new();
    for _ in 0..2 {
        let (stream, _) = listener.accept()?;
        let mut buf = [0; 64];
        loop {
            let count = stream.read(&mut buf)?;
            if count == 0 {
                break;
            }
            heard.extend_from_slice(&buf[..count]);
        }
        stream.write_all(&heard)?;
    }
    Ok(heard)
}

#[wo::fiber]
fn streams(account: &mut Account) -> IoResult<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr();
    let served = wo::spawn(move || serve_twice(listener));
    for words in ["first", "second"] {
        let stream = TcpStream::connect(address)?;
        account.note("write", stream.write_all(words.as_bytes()));
        account.note("shut", stream.shutdown(std::net::Shutdown::Write));
        account.note("write after that", stream.write_all(b"too late"));
        let mut answer = [0; 16];
        let mut count = 0;
        loop {
            let more = stream.read(&mut answer[count..])?;
            if more == 0 {
                break;
            }
            count += more;
        }
        account.0.push(String::from_utf8_lossy(&answer[..count]).into_owned());
    }
    let heard = served.join();
    account.note("served", heard.expect("it does not panic"));
    account.note("refused", TcpStream::connect(address).map(drop));
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let waits = TcpStream::connect(silent.local_addr())?;
    account.note("by a deadline", waits.read_by(&mut [0; 1], Duration::from_millis(5)));
    account.note("taken", TcpListener::bind(silent.local_addr()).map(drop));
    Ok(())
}

#[wo::fiber]
fn datagrams(account: &mut Account) -> IoResult<()> {
    let (one, other) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    let to = other.local_addr()?;
    for size in [0, 1, 1000, 9000] {
        let sent = one.write_to(&vec![7; size], to);
        account.note("sent", sent);
        let mut buf = [0; 4000];
        let came = other.read_from(&mut buf);
        account.note("came", came.map(|(count, _)| count));
    }
    account.note("too large", one.write_to(&vec![7; 70_000], to));
    Ok(())
}

#[wo::fiber]
fn files(account: &mut Account, dir: &str) -> IoResult<()> {
    let name = |name: &str| format!("{dir}/{name}");
    wo::fs::create_dir(&*name("deep"))?;
    account.note("again", wo::fs::create_dir(&*name("deep")));
    account.note("write", wo::fs::write(&*name("deep/file"), "hello"));
    let file = wo::fs::OpenOptions::new().read(true).write(true).open(&*name("deep/file"))?;
    let (written, _) = file.write_all_at(b"J".to_vec(), 0);
    account.note("write at", written);
    let (read, bytes) = file.read_at(vec![0; 16], 1);
    account.note("read at", read.map(|count| bytes[..count].to_vec()));
    account.note("length", file.set_len(3));
    account.note("sync", file.sync_all());
    account.note("read", wo::fs::read_to_string(&*name("deep/file")));
    account.note("rename", wo::fs::rename(&*name("deep/file"), &*name("moved")));
    account.note("gone", wo::fs::read(&*name("deep/file")));
    account.note("a file is no directory", wo::fs::read(&*name("moved/below")));
    account.note("a directory is no file", wo::fs::read(dir));
    account.note("not empty", wo::fs::remove_dir(dir));
    account.note("unix", UnixListener::bind(&*name("socket")).map(drop));
    account.note("nobody listens", UnixStream::connect(&*name("socket")).map(drop));
    for file in ["moved", "socket"] {
        account.note("remove", wo::fs::remove_file(&*name(file)));
    }
    account.note("remove", wo::fs::remove_dir(&*name("deep")));
    Ok(())
}

#[wo::fiber]
fn waits(account: &mut Account) -> IoResult<()> {
    let order = wo::Channel::new(8);
    for (number, millis) in [(1, 9), (2, 3), (3, 6)] {
        let order = order.clone();
        wo::spawn(move || {
            let _ = wo::sleep(Duration::from_millis(millis));
            let _ = order.put(number);
        });
    }
    for _ in 0..3 {
        account.note("woke", order.take());
    }
    let outcome: wo::Outcome<()> = wo::timeout(Duration::from_millis(2), || wo::sleep(Duration::MAX));
    account.0.push(format!("{}", outcome.expect_err("it is endless")));
    Ok(())
}

#[wo::fiber]
fn everything(dir: String) -> IoResult<Vec<String>> {
    let mut account = Account::default();
    wo::fs::create_dir(&*dir)?;
    streams(&mut account)?;
    datagrams(&mut account)?;
    files(&mut account, &dir)?;
    waits(&mut account)?;
    wo::fs::remove_dir(&*dir)?;
    Ok(account.0)
}

#[test]
fn m7_one_body_has_one_list_of_results_on_every_kernel() {
    let place = |arm: &str| {
        std::env::temp_dir().join(format!("wo-arms-{arm}-{}", std::process::id())).to_string_lossy().into_owned()
    };
    for shards in [1, 2] {
        let simulated =
            Builder::new().io(Selection::Sim).shards(shards).run(everything("/tmp/arms".to_owned())).unwrap().unwrap();
        assert!(simulated.len() > 40, "{simulated:#?}");
        for io in [Selection::Uring, Selection::Epoll] {
            let real = Builder::new().io(io).shards(shards).run(everything(place(&io.to_string()))).unwrap().unwrap();
            assert_eq!(real, simulated, "on {io}");
        }
    }
}
