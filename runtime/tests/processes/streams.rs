//! What programs read and write.

use wo_runtime::error::errno;
use wo_runtime::fiber;
use wo_runtime::os::fs::File;
use wo_runtime::os::process::{Command, Stdio};

use crate::{on_both, shell};

#[test]
fn a_program_that_writes_as_much_as_it_reads_is_captured_whole() {
    on_both(|| async {
        let input: Vec<u8> = (0..3_000_000_u32).map(|place| (place % 251) as u8).collect();
        let copied = Command::new("cat").capture(input.clone()).await?;
        assert!(copied.status.success() && copied.stdout == input && copied.stderr.is_empty());
        // Both outputs at once, each more than a pipe holds, before anything is read.
        let script = "head -c 500000 /dev/zero >&2; head -c 500000 /dev/zero; cat";
        let captured = shell(script).capture(input.clone()).await?;
        assert_eq!((captured.stdout.len(), captured.stderr.len()), (500_000 + input.len(), 500_000));
        // One that reads nothing of it.
        let deaf = shell("exec <&-; echo enough; exit 2").capture(input).await?;
        assert_eq!((deaf.status.code(), &deaf.stdout[..]), (Some(2), &b"enough\n"[..]));
        Ok(())
    });
}

#[test]
fn output_gives_nothing_to_read_and_leaves_what_is_led_elsewhere() {
    on_both(|| async {
        let output = shell("cat; echo out; echo err >&2").output().await?;
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
        let output = shell("echo a; echo b >&2; echo c; echo d >&2").stderr(Stdio::Stdout).output().await?;
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"a\nb\nc\nd\n"[..], &b""[..]));
        let output = shell("echo out; echo err >&2").stdout(Stdio::Null).stderr(Stdio::Stdout).output().await?;
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b""[..], &b""[..]));
        Ok(())
    });
}

#[test]
fn a_stream_leads_to_a_file_or_a_pipe_of_ones_own() {
    on_both(|| async {
        let (reader, writer) = wo_runtime::os::io::pipe()?;
        // More than the pipe holds: the program waits in its write, as programs expect to.
        let child = shell("head -c 300000 /dev/zero").stdout(writer).spawn().await?;
        assert_eq!(reader.read_to_end().await?.len(), 300_000);
        assert!(child.wait().await?.success());

        let path = std::env::temp_dir().join(format!("wo-process-{}", std::process::id()));
        let file = File::create(&path).await?;
        assert!(shell("echo first").stdout(file.clone()).status().await?.success());
        assert!(shell("echo second >&2").stdout(file).stderr(Stdio::Stdout).status().await?.success());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\nsecond\n");
        let sum = Command::new("wc").arg("-l").stdin(File::open(&path).await?).output().await?;
        assert_eq!(String::from_utf8_lossy(&sum.stdout).trim(), "2");
        std::fs::remove_file(&path).unwrap();
        Ok(())
    });
}

#[test]
fn a_program_that_does_not_read_any_more_breaks_the_pipe() {
    on_both(|| async {
        let child = shell("exec <&-; echo deaf; sleep 1000").stdin(Stdio::Piped).stdout(Stdio::Piped);
        let child = child.process_group().spawn().await?;
        let (count, _) = child.stdout.as_ref().unwrap().read(Vec::with_capacity(5)).await;
        assert_eq!(count?, 5);
        // A child that another test starts just now has all descriptors of this process until it runs its program, the
        // reading end of this pipe included: what is written meanwhile fits into the pipe.
        let error = loop {
            if let Err(error) = child.stdin.as_ref().unwrap().write_all(b"?").await {
                break error;
            }
            fiber::yield_now().await?;
        };
        assert!(error.errno() == errno::EPIPE && error.to_string().contains("standard input of sh"), "{error}");
        child.signal_group(9)?;
        child.wait().await
    });
}
