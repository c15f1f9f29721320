//! Programs that a simulated host was given, started by the programs that run there.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use wo::process::{Command, Stdio};
use wo::sim::{Host, Script, World};
use wo::{Builder, IoResult, Selection};

/// What a program did, in words that are the same wherever it ran.
#[wo::fiber]
fn account() -> IoResult<Vec<String>> {
    let mut told = Vec::new();
    for line in ["printf x; exit 3", "kill -9 $$", "echo oh >&2", "cat", "cat >/dev/null; echo end"] {
        let ran = shell(line).capture("one\ntwo\n")?;
        told.push(format!("{:?} {:?} {:?} {:?}", ran.status.code(), ran.status.signal(), ran.stdout, ran.stderr));
    }
    // Line by line, there and back.
    let mut child = shell("read a; echo $a; read b; echo $b").stdin(Stdio::Piped).stdout(Stdio::Piped).spawn()?;
    let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    for line in ["first\n", "second\n"] {
        input.write_all(line.as_bytes())?;
        let (read, answer) = output.read_exact(vec![0; line.len()]);
        read?;
        told.push(format!("{answer:?}"));
    }
    told.push(format!("{:?} {}", output.read_to_end()?, child.wait()?));
    // More than a pipe holds, both ways at once.
    let much: Vec<u8> = (0..300_000_u32).map(|place| (place % 251) as u8).collect();
    let copied = shell("cat").capture(much.clone())?;
    told.push(format!("{}", copied.stdout == much));
    // Nobody reads what it writes.
    let mut child = Command::new("yes").stdout(Stdio::Piped).spawn()?;
    drop(child.stdout.take());
    told.push(format!("{:?}", child.wait()?.signal()));
    // A signal it ignores, one it does not, and none that comes too late.
    let child = shell("trap '' TERM; echo ready; exec sleep 1000").stdout(Stdio::Piped).spawn()?;
    let ready = child.stdout.as_ref().expect("piped");
    let (read, _) = ready.read_exact(vec![0; 6]);
    read?;
    child.signal(libc::SIGTERM)?;
    told.push(format!("{:?}", child.try_wait()?));
    child.kill()?;
    told.push(format!("{:?} {:?}", child.wait()?.signal(), child.wait()?.signal()));
    told.push(format!("{} {:?}", child.kill().expect_err("it has ended").errno(), child.id()));
    // Both streams into one file, behind what is there.
    let file = wo::fs::File::create("/tmp/wo-account")?;
    file.write_all(b"begin\n")?;
    let written = shell("echo out; echo err >&2").stdout(file).stderr(Stdio::Stdout).status()?;
    told.push(format!("{written} {:?}", wo::fs::read_to_string("/tmp/wo-account")?));
    wo::fs::remove_file("/tmp/wo-account")?;
    let missing = Command::new("no-such-program-anywhere").status();
    told.push(format!("{}", missing.expect_err("there is none").errno()));
    let misplaced = shell("true").stdin(Stdio::Stdout).status();
    told.push(format!("{}", misplaced.expect_err("it cannot read there").errno()));
    Ok(told)
}

fn shell(line: &str) -> Command {
    Command::new("sh").arg("-c").arg(line)
}

/// The shell as far as this file needs it.
fn give_shell(host: &Host) {
    host.program("sh", |started| match started.args[1].to_str().expect("it is text") {
        "printf x; exit 3" => Script::new().stdout("x").exit(3),
        "kill -9 $$" => Script::new().signal(9),
        "echo oh >&2" => Script::new().stderr("oh\n"),
        "cat" => Script::new().copy(),
        "cat >/dev/null; echo end" => Script::new().read_to_end().stdout("end\n"),
        "read a; echo $a; read b; echo $b" => Script::new().copy_lines(1).copy_lines(1),
        "trap '' TERM; echo ready; exec sleep 1000" => {
            Script::new().ignoring(libc::SIGTERM).stdout("ready\n").sleep(Duration::from_secs(1000))
        }
        "echo out; echo err >&2" => Script::new().stdout("out\n").stderr("err\n"),
        other => panic!("the shell was not told of {other:?}"),
    });
    host.program("yes", |_| Script::new().stdout(vec![b'y'; 1_000_000]).until_killed());
}

/// The same body on scripts and on the system's programs gives the same account.
#[test]
fn m7_scripted_programs_and_the_systems_give_one_account() {
    let mut world = World::new(7);
    let host = world.host("sh");
    give_shell(&host);
    let told = world.start(&host, account());
    let simulated = world.finish(told).unwrap().unwrap();
    for io in [Selection::Uring, Selection::Epoll] {
        let real = Builder::new().io(io).run(account()).unwrap().unwrap();
        assert_eq!(real, simulated, "on {io}");
    }
}

#[wo::fiber]
fn run(line: &str) -> IoResult<std::process::Output> {
    shell(line).output()
}

#[test]
fn m8_a_scripted_program_exits_with_its_code_or_its_signal() {
    let mut world = World::new(8);
    let host = world.host("sh");
    give_shell(&host);
    let exits = world.start(&host, run("printf x; exit 3"));
    let output = world.finish(exits).unwrap().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), b"x".as_slice()));
    let dies = world.start(&host, run("kill -9 $$"));
    let output = world.finish(dies).unwrap().unwrap();
    assert_eq!((output.status.signal(), output.status.code()), (Some(9), None));
}

#[wo::fiber]
fn wait_long() -> IoResult<Duration> {
    let begun = wo::now();
    let status = Command::new("nightly").env("LEVEL", "3").current_dir("/srv").status()?;
    assert_eq!(status.code(), Some(3));
    Ok(wo::now() - begun)
}

/// Its time is the world's, its arguments and environment are what it was started with, and what it inherits is the
/// host's console.
#[test]
fn m8_a_scripted_program_lives_in_virtual_time() {
    let mut world = World::new(8);
    let host = world.host("builder");
    host.program("nightly", |started| {
        let level: i32 = started.variable("LEVEL").unwrap().to_str().unwrap().parse().unwrap();
        assert_eq!(started.directory.as_deref(), Some("/srv".as_ref()));
        Script::new().stderr("working\n").sleep(Duration::from_secs(8 * 3600)).stdout("done\n").exit(level)
    });
    let waited = world.start(&host, wait_long());
    let taken = world.finish(waited).unwrap().unwrap();
    let night = Duration::from_secs(8 * 3600);
    assert!(taken > night && taken < night + Duration::from_millis(5), "{taken:?}");
    assert_eq!(host.console(), b"working\ndone\n");
}

#[wo::fiber]
fn leave_it_running() -> IoResult<()> {
    drop(Command::new("daemon").spawn()?);
    drop(Command::new("helper").kill_on_drop().spawn()?);
    Ok(())
}

/// A child goes on when its handle is dropped, unless that was to kill it; and goes with the host's power.
#[test]
fn m8_a_dropped_program_goes_on_until_the_power_does() {
    let mut world = World::new(8);
    let host = world.host("server");
    for name in ["daemon", "helper"] {
        host.program(name, move |_| {
            (0..10).fold(Script::new(), |script, _| script.sleep(Duration::from_secs(1)).stdout(&name[..1]))
        });
    }
    let left = world.start(&host, leave_it_running());
    world.finish(left).unwrap().unwrap();
    world.run_for(Duration::from_secs(4));
    assert_eq!(host.console(), b"ddd");
    world.crash(&host);
    world.restart(&host).unwrap();
    world.run_for(Duration::from_secs(10));
    assert_eq!(host.console(), b"ddd");
}

#[wo::fiber]
fn wait_for_a_reader() -> IoResult<()> {
    // Its input stays open, so it waits for more.
    let child = Command::new("cat").stdin(Stdio::Piped).stdout(Stdio::Null).spawn()?;
    child.wait().map(drop)
}

#[test]
fn m9_a_deadlock_names_the_processes_too() {
    let mut world = World::new(9);
    let host = world.host("sh");
    host.program("cat", |_| Script::new().copy());
    let waits = world.start(&host, wait_for_a_reader());
    let words = world.finish(waits).unwrap_err().to_string();
    for expected in ["sh: process 101 (cat) waits for input", "in flight: wait for process 101 (cat)"] {
        assert!(words.contains(expected), "{expected:?} is missing in {words}");
    }
}

#[wo::fiber]
fn start_many(count: usize) -> IoResult<Vec<u8>> {
    let mut all = Vec::new();
    let started: Vec<_> =
        (0..count).map(|number| wo::spawn(move || Command::new("sleepy").arg(number.to_string()).output())).collect();
    for one in started {
        let output = one.join().expect("it does not panic")?;
        all.write_all(&output.stdout).expect("into memory");
    }
    Ok(all)
}

/// A run with processes is a function of its seed.
#[test]
fn m1_processes_run_the_same_for_the_same_seed() {
    let run = |seed| {
        let mut world = World::new(seed);
        world.keep_trace();
        let host = world.host("many");
        host.program("sleepy", |started| {
            let number: u64 = started.args[0].to_str().unwrap().parse().unwrap();
            Script::new().sleep(Duration::from_millis(number % 7)).stdout(format!("{number} "))
        });
        let started = world.start_with(&host, Builder::new().shards(3), start_many(20));
        (world.finish(started).unwrap().unwrap(), world.trace())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).1, run(2).1);
    assert_eq!(run(1).0, run(2).0);
}
