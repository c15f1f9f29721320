//! The binary as people and programs use it: what it prints, what it refuses, what it leaves behind.

use std::process::{Command, Output};

use serde_json::Value;

fn wo_bench(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wo-bench"))
        .args(line.split_whitespace())
        .output()
        .expect("the binary was built for this test")
}

/// The figures of a run, which must have gone well.
fn figures(line: &str) -> Vec<Value> {
    let output = wo_bench(&format!("{line} --json --rounds 2 --seconds 0.02"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn complaint(line: &str) -> String {
    let output = wo_bench(line);
    assert!(!output.status.success(), "{line} was taken");
    assert!(output.stdout.is_empty(), "{line} printed figures");
    String::from_utf8(output.stderr).expect("complaints are UTF-8")
}

fn metrics<'a>(figures: &'a [Value], subject: &str) -> Vec<&'a str> {
    figures
        .iter()
        .filter(|figure| figure["subject"] == subject)
        .filter_map(|figure| figure["metric"].as_str())
        .collect()
}

fn io_uring_is_refused() -> bool {
    match io_uring::IoUring::new(8) {
        Ok(_) => false,
        Err(error) => {
            eprintln!("skipped: this machine refuses io_uring, {error}");
            true
        }
    }
}

#[test]
fn echo_measures_both_bare_loops_and_quotes_their_ratio() {
    if io_uring_is_refused() {
        return;
    }
    let figures = figures("echo --subjects uring,epoll --cases 3x64,2x40000 --against epoll");
    let per_case = ["requests", "server_cpu_per_request", "p50", "p99", "server_cpu", "load_cpu"];
    let mut all = per_case.repeat(2);
    all.extend(&per_case[..4]);
    assert_eq!(metrics(&figures, "epoll"), all, "both cases, and the mean of what has a better and a worse");
    assert_eq!(metrics(&figures, "uring").iter().filter(|metric| metric.ends_with("/epoll")).count(), 3 * 4);
    for figure in &figures {
        let number = |key: &str| figure[key].as_f64().unwrap_or_else(|| panic!("{key} of {figure}"));
        assert!(0.0 < number("min") && number("min") <= number("value") && number("value") <= number("max"));
        assert_eq!(figure["bench"], "echo");
        assert!(["3x64", "2x40000", "geometric mean"].iter().any(|case| figure["case"] == *case));
        assert!(figure["unit"].is_string());
        assert_eq!(figure.as_object().map(serde_json::Map::len), Some(8));
    }
}

#[test]
fn the_bare_executor_takes_part_in_spawn_switch_and_memory() {
    assert_eq!(metrics(&figures("spawn --subjects bare"), "bare"), ["spawn_join"; 2]);
    assert_eq!(metrics(&figures("switch --subjects bare"), "bare"), ["switch"; 2]);
    let memory = figures("memory --subjects bare --cases 2000-parked");
    assert_eq!(metrics(&memory, "bare"), ["create", "wake", "bytes", "resident"]);
}

#[test]
fn a_tree_is_grown_and_walked() {
    let figures = figures("walk --subjects wo,plain --cases deep");
    for subject in ["wo", "plain"] {
        assert_eq!(metrics(&figures, subject), ["entry"]);
    }
}

#[test]
fn a_server_is_measured_at_one_shard_and_at_all() {
    if !io_uring_is_refused() {
        let metric = ["one", "all", "speedup", "loop_one", "loop_all", "loop_speedup", "load_cpu"];
        assert_eq!(metrics(&figures("shards --subjects wo --cases 4x64x5"), "wo"), metric);
        assert!(complaint("shards --cases 64x64").contains("microseconds of work"));
    }
}

#[test]
fn a_bare_ring_answers_nops() {
    if !io_uring_is_refused() {
        assert_eq!(metrics(&figures("nop --subjects uring"), "uring"), ["nop", "nops", "nop", "nops"]);
    }
}

#[test]
fn what_cannot_be_done_is_said_before_anything_runs() {
    assert!(complaint("spawn --subjects nobody").contains("this build has"));
    assert!(complaint("echo --cases 50by64").contains("connections x bytes"));
    assert!(complaint("walk --cases round").contains("wide, deep, balanced, dense"));
    assert!(complaint("timers --subjects bare").contains("bare does not offer it"));
    assert!(complaint("spawn --subjects bare --against uring").contains("not among the subjects"));
}

#[test]
fn a_subject_that_fails_is_named_and_the_run_does_not_count_as_good() {
    let output = wo_bench("nop --subjects uring --cases 100000 --rounds 1");
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("uring in nop 100000"), "{errors}");
}

#[test]
fn help_tells_how_to_read_the_figures() {
    for line in ["--help", "echo --help"] {
        let output = wo_bench(line);
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("How to read the figures"), "{line}");
    }
}
