//! What programs get of this one, and what they do not.

use wo_runtime::error::IoResult;
use wo_runtime::os::process::Command;

use crate::{on_both, shell};

async fn status_line(name: &str) -> IoResult<String> {
    let status = Command::new("cat").arg("/proc/self/status").output().await?;
    Ok(line(&String::from_utf8_lossy(&status.stdout), name))
}

fn line(status: &str, name: &str) -> String {
    let found = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel says so");
    found.trim_start_matches(':').trim().to_owned()
}

#[test]
fn r23_a_child_has_no_signal_blocked_and_the_systems_sigpipe() {
    // SAFETY: the sets are filled before they are read. The mask is this thread's, and its shards inherit it.
    unsafe {
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut());
    }
    on_both(|| async {
        assert_eq!(u64::from_str_radix(&status_line("SigBlk").await?, 16).unwrap(), 0, "signals are blocked");
        let ignored = u64::from_str_radix(&status_line("SigIgn").await?, 16).unwrap();
        assert_eq!(ignored & (1 << (libc::SIGPIPE - 1)), 0, "SIGPIPE is ignored");
        // As every pipeline relies on: the writer ends by the signal, quietly.
        let quiet = shell("(yes; echo $? >&2) | head -n 1").output().await?;
        assert_eq!((&quiet.stdout[..], &quiet.stderr[..]), (&b"y\n"[..], &b"141\n"[..]));
        Ok(())
    });
}

#[test]
fn a_child_of_a_pinned_shard_may_run_on_every_cpu() {
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    on_both(move || {
        let own = line(&own, "Cpus_allowed_list");
        async move {
            assert_eq!(status_line("Cpus_allowed_list").await?, own);
            Ok(())
        }
    });
}

#[test]
fn a_child_gets_no_descriptor_but_its_streams() {
    // What was left open to this process is for its children, too; the last number is the one that `ls` lists with.
    let given = std::process::Command::new("ls").arg("/proc/self/fd").output().unwrap().stdout;
    on_both(move || {
        let given = given.clone();
        async move {
            let listed = Command::new("ls").arg("/proc/self/fd").output().await?;
            assert_eq!(String::from_utf8_lossy(&listed.stdout), String::from_utf8_lossy(&given));
            Ok(())
        }
    });
}

#[test]
fn arguments_variables_and_directory_are_its_own() {
    on_both(|| async {
        let command = shell("printf '%s|' \"$@\" \"$WO_ONE\" \"${HOME-none}\" \"$PWD\"");
        let command = command.args(["zero", "with space", "", "ünïcode"]).env("WO_ONE", "1").env_remove("HOME");
        let said = command.current_dir("/").output().await?;
        assert_eq!(String::from_utf8_lossy(&said.stdout), "with space||ünïcode|1|none|/|");
        let alone = Command::new("/usr/bin/env").env_clear().env("ONLY", "this").output().await?;
        assert_eq!(alone.stdout, b"ONLY=this\n");
        Ok(())
    });
}
