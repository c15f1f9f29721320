//! How programs end, and who hears of it.

use std::future::{Future, poll_fn};
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use wo_runtime::error::{IoResult, errno};
use wo_runtime::fiber;
use wo_runtime::os::process::{Child, Command, Stdio};
use wo_runtime::plane::backend::Selection;
use wo_runtime::shard::{self, Builder};

use crate::{is_there, on_both, shell};

const ESRCH: i32 = 3;
const SIGTERM: i32 = 15;

/// Polls `future` once and lets go of it.
async fn begin(future: impl Future) {
    let mut future = pin!(future);
    poll_fn(|cx| {
        assert!(future.as_mut().poll(cx).is_pending(), "it takes longer than that");
        Poll::Ready(())
    })
    .await;
}

/// Parks until a process is not even a zombie.
async fn gone(pid: u32) -> IoResult<()> {
    while is_there(pid) {
        fiber::sleep(Duration::from_millis(1)).await?;
    }
    Ok(())
}

#[test]
fn r27_children_100() {
    on_both(|| async {
        // One that is waited for elsewhere, and by std.
        let foreign =
            std::thread::spawn(|| std::process::Command::new("sh").args(["-c", "sleep 0.2; exit 9"]).status());
        let mut children = Vec::new();
        for number in 0..100 {
            // They end together, when the pipe does that they all read.
            let command = shell(&format!("read line; exit {number}"));
            children.push(command.stdin(Stdio::Piped).spawn().await?);
        }
        let pids: Vec<u32> = children.iter().map(|child| child.id().unwrap()).collect();
        for child in &mut children {
            drop(child.stdin.take());
        }
        // Some have ended before anybody waits, the others are waited for by two at once.
        gone_or_zombie(&children[..50]).await?;
        let children: Vec<Rc<Child>> = children.into_iter().map(Rc::new).collect();
        let waiting: Vec<_> = children
            .iter()
            .flat_map(|child| [Rc::clone(child), Rc::clone(child)])
            .map(|child| fiber::spawn(|| async move { child.wait().await }))
            .collect();
        for (place, fiber) in waiting.into_iter().enumerate() {
            let status = fiber.join().await.unwrap()?;
            assert_eq!((status.code(), status.signal()), (Some(place as i32 / 2), None));
        }
        assert_eq!(pids.iter().filter(|pid| is_there(**pid)).count(), 0, "zombies are left");
        assert!(children.iter().all(|child| child.id().is_none()));
        assert_eq!(foreign.join().unwrap().unwrap().code(), Some(9), "somebody else's child is left alone");
        Ok(())
    });
}

/// Parks until each is a zombie: its end has come, and nobody has asked.
async fn gone_or_zombie(children: &[Child]) -> IoResult<()> {
    for child in children {
        let stat = format!("/proc/{}/stat", child.id().unwrap());
        while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
            fiber::sleep(Duration::from_millis(1)).await?;
        }
    }
    Ok(())
}

#[test]
fn r27_many_children_need_no_thread_each_and_a_killed_one_says_so() {
    on_both(|| async {
        let mut children = Vec::new();
        for _ in 0..300 {
            children.push(Command::new("sleep").arg("1000").stdin(Stdio::Null).spawn().await?);
        }
        let children: Vec<Rc<Child>> = children.into_iter().map(Rc::new).collect();
        let waiting: Vec<_> = children
            .iter()
            .map(|child| {
                let child = Rc::clone(child);
                fiber::spawn(|| async move { child.wait().await })
            })
            .collect();
        fiber::yield_now().await?;
        let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
        assert!(threads < 150, "{threads} threads");
        for child in &children {
            assert_eq!(child.try_wait()?, None);
            child.kill()?;
        }
        for fiber in waiting {
            let status = fiber.join().await.unwrap()?;
            assert_eq!((status.code(), status.signal()), (None, Some(9)));
        }
        Ok(())
    });
}

#[test]
fn a_child_that_was_waited_for_takes_no_signal() {
    on_both(|| async {
        let child = shell("exit 3").process_group().spawn().await?;
        assert_eq!(child.wait().await?.code(), Some(3));
        assert_eq!(child.wait().await?.code(), Some(3), "it says the same again");
        assert_eq!(child.id(), None);
        assert_eq!(child.kill().unwrap_err().errno(), ESRCH);
        assert_eq!(child.signal_group(SIGTERM).unwrap_err().errno(), ESRCH);
        Ok(())
    });
}

#[test]
fn a_signal_is_sent_by_number_and_a_wrong_one_refused() {
    on_both(|| async {
        let script = "trap 'exit 5' USR1; echo ready; while :; do sleep 0.01; done";
        let child = shell(script).stdout(Stdio::Piped).spawn().await?;
        let (count, _) = child.stdout.as_ref().unwrap().read(Vec::with_capacity(6)).await;
        assert_eq!(count?, 6);
        assert_eq!(child.signal(12_345).unwrap_err().errno(), errno::EINVAL);
        let error = child.signal_group(SIGTERM).unwrap_err();
        assert!(error.errno() == errno::EINVAL && error.to_string().contains("process_group"), "{error}");
        child.signal(10)?;
        assert_eq!(child.wait().await?.code(), Some(5));
        Ok(())
    });
}

#[test]
fn a_group_is_signalled_whole() {
    on_both(|| async {
        let mut child = shell("sleep 1000 & echo started; wait").process_group().stdout(Stdio::Piped).spawn().await?;
        let output = child.stdout.take().unwrap();
        let (count, _) = output.read(Vec::with_capacity(8)).await;
        assert_eq!(count?, 8);
        child.signal_group(SIGTERM)?;
        assert_eq!(child.wait().await?.signal(), Some(SIGTERM));
        // The pipe ends with the last who can write to it, which is the one in the background.
        assert_eq!(output.read_to_end().await?, b"");
        Ok(())
    });
}

#[test]
fn a_wait_that_is_given_up_loses_nothing() {
    on_both(|| async {
        let child = shell("read line; exit 4").stdin(Stdio::Piped).spawn().await?;
        for _ in 0..10 {
            begin(child.wait()).await;
        }
        child.stdin.as_ref().unwrap().write_all(b"go\n").await?;
        assert_eq!(child.wait().await?.code(), Some(4));
        Ok(())
    });
}

#[test]
fn a_child_may_be_waited_for_on_another_shard() {
    on_both(|| async {
        let mut child = shell("cat; exit 6").stdin(Stdio::Piped).stdout(Stdio::Piped).spawn().await?;
        let input = child.stdin.take().unwrap();
        let elsewhere = shard::spawn_anywhere(|| async { shard::shard_index() }).join().await.unwrap();
        let waiting = shard::spawn_anywhere(move || async move {
            let output = child.stdout.take().unwrap().read_to_end().await?;
            Ok::<_, wo_runtime::error::IoError>((child.wait().await?, output, shard::shard_index()))
        });
        input.write_all(b"across").await?;
        input.close().await?;
        let (status, output, place) = waiting.join().await.unwrap()?;
        assert_eq!((status.code(), &output[..]), (Some(6), &b"across"[..]));
        assert_ne!(place, elsewhere);
        Ok(())
    });
}

#[test]
fn a_dropped_child_runs_on_unless_it_is_to_be_killed_and_leaves_no_zombie() {
    on_both(|| async {
        let mut left = shell("read line; echo $line").stdin(Stdio::Piped).stdout(Stdio::Piped).spawn().await?;
        let (pid, input, output) = (left.id().unwrap(), left.stdin.take().unwrap(), left.stdout.take().unwrap());
        drop(left);
        input.write_all(b"still here\n").await?;
        assert_eq!(output.read_to_end().await?, b"still here\n");
        gone(pid).await?;

        let killed = shell("read line; echo $line").stdin(Stdio::Piped).stdout(Stdio::Piped).kill_on_drop();
        let mut killed = killed.spawn().await?;
        let (pid, input, output) = (killed.id().unwrap(), killed.stdin.take().unwrap(), killed.stdout.take().unwrap());
        drop(killed);
        assert_eq!(output.read_to_end().await?, b"");
        gone(pid).await?;
        // A program that another test starts just now holds the other end as well, until it is executed.
        let refused = loop {
            if let Err(refused) = input.write_all(b"gone\n").await {
                break refused;
            }
        };
        assert_eq!(refused.errno(), errno::EPIPE);
        Ok(())
    });
}

#[test]
fn a_start_or_a_run_that_is_given_up_leaves_nothing_running() {
    on_both(|| async {
        for _ in 0..20 {
            let (reader, writer) = wo_runtime::os::io::pipe()?;
            begin(Command::new("sleep").arg("1000").stdout(writer.clone()).spawn()).await;
            begin(Command::new("sleep").arg("1000").stdout(writer.clone()).status()).await;
            begin(Command::new("sleep").arg("1000").stderr(writer).capture("")).await;
            // It ends when nobody can write to it any more.
            assert_eq!(reader.read_to_end().await?, b"");
        }
        no_children_left().await
    });
}

/// Parks until this program has no children but those that still run: nobody is a zombie of ours.
async fn no_children_left() -> IoResult<()> {
    let own = format!(" {} ", std::process::id());
    let is_zombie = |stat: &str| {
        // `pid (name) state parent ...`; the name may hold anything.
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z") && rest[2..].starts_with(&own))
    };
    loop {
        let stats = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("stat"));
        if !stats.filter_map(|stat| std::fs::read_to_string(stat).ok()).any(|stat| is_zombie(&stat)) {
            return Ok(());
        }
        fiber::sleep(Duration::from_millis(5)).await?;
    }
}

#[test]
fn a_child_that_is_dropped_where_no_shard_is_leaves_no_zombie() {
    on_both(|| async {
        let mut pids = Vec::new();
        for _ in 0..20 {
            let child = Command::new("sleep").arg("1000").kill_on_drop().spawn().await?;
            pids.push(child.id().unwrap());
            std::thread::spawn(move || drop(child)).join().unwrap();
        }
        for pid in pids {
            gone(pid).await?;
        }
        Ok(())
    });
}

#[test]
fn what_cannot_be_started_is_explained() {
    let refused = |command: Command| async move {
        let error = command.spawn().await.unwrap_err();
        (error.errno(), error.to_string())
    };
    on_both(move || async move {
        let (code, text) = refused(Command::new("no-such-program-anywhere")).await;
        assert!(
            code == errno::ENOENT && text.contains("\"no-such-program-anywhere\"") && text.contains("PATH"),
            "{text}"
        );
        let (code, text) = refused(Command::new("/no/such/program")).await;
        assert!(code == errno::ENOENT && text.contains("no such file"), "{text}");
        let (code, text) = refused(Command::new("true").current_dir("/no/such/directory")).await;
        assert!(code == errno::ENOENT && text.contains("\"/no/such/directory\""), "{text}");
        let (code, text) = refused(Command::new("/etc/passwd")).await;
        assert!(code == errno::EACCES && text.contains("permissions"), "{text}");
        let (code, text) = refused(Command::new("true").arg("a\0b")).await;
        assert!(code == errno::EINVAL && text.contains("true"), "{text}");
        for name in ["", "A=B", "=", "=C"] {
            let (code, text) = refused(Command::new("true").env(name, "value")).await;
            assert!(code == errno::EINVAL && text.contains(&format!("{name:?}")), "{text}");
            // Such a variable is not there to be removed.
            assert!(Command::new("true").env_remove(name).status().await?.success());
        }
        let (code, text) = refused(Command::new("true").arg("x".repeat(8 << 20))).await;
        assert!(code == 7 && text.contains("too long"), "{text}");
        let (code, text) = refused(Command::new("true").stdout(Stdio::Stdout)).await;
        assert!(code == errno::EINVAL && text.contains("standard error"), "{text}");
        Ok(())
    });
}

#[test]
fn a_simulated_host_finds_no_program_that_it_was_not_given() {
    let error = Builder::new().io(Selection::Sim).run(|| async { Command::new("true").spawn().await.unwrap_err() });
    let error = error.unwrap();
    assert!(error.errno() == errno::ENOENT && error.to_string().contains("Host::program"), "{error}");
}
