//! What was sent is gone: the compiler's own words.

struct Log(Vec<String>);

#[wo::actor]
impl Log {
    fn receive(&mut self, line: String) {
        self.0.push(line);
    }

    #[message]
    fn has(&mut self, line: String) -> bool {
        self.0.contains(&line)
    }
}

#[wo::fiber]
fn sent(log: wo::actor::Addr<LogMessage>) {
    let line = String::from("a line");
    let _ = log.send(line.into());
    println!("{line}");
}

#[wo::fiber]
fn asked(log: wo::actor::Addr<LogMessage>) {
    let line = String::from("a line");
    let _ = log.has(line);
    println!("{line}");
}

#[wo::fiber]
fn spawned() {
    let log = Log(Vec::new());
    let _address = wo::spawn(log);
    println!("{}", log.0.len());
}

fn main() {}
