//! The command line.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::bench::Bench;

const HOW_TO_READ: &str = "\
How to read the figures:
  Every subject is measured in many short rounds, the subjects taking turns. A figure is the median of its rounds with
  the smallest and the largest in brackets; * marks the best. The machine drifts by a third within seconds, so compare
  subjects of one run only, and take a difference within each other's brackets for noise. --against NAME adds the median
  of the round-by-round ratios to subject NAME, which is the steadiest comparison there is.

  echo    requests per second of one server core, and the server's processor time per request. As soon as the load's
          core is full (load_cpu near 100%, said below the table) requests per second contain the load's cost, and only
          server_cpu_per_request compares the servers. Latency is from handing a request in to seeing its answer. The
          geometric mean of all cases comes last.
  spawn   nanoseconds to start and join a task: one by one (1), or n started and then joined (n).
  switch  nanoseconds from one task to the next among n that take turns; the order is checked.
  nop     an operation that does nothing, through the ring: n at once, or one at a time (1).
  timers  n sleeping tasks: nanoseconds each to create and to cancel, bytes each by what the allocator was asked for.
  memory  bytes per waiting task by what the allocator was asked for, and by what the process grew (resident).
  actors  nanoseconds per operation of the Savina workloads, on one thread (/1) and on all (/all), and of a request's
          round trip (ask). An operation is a message in ping-pong, counting, throughput and ring, an actor's life in
          create, and a meeting, a ping with its pong, a request with its result, a transaction, a meal in chameneos,
          big, dictionary, bank, philosophers. Each workload checks its result. cpu is the processor time of all threads
          per operation: on a busy machine it compares better than the time. tokio is tasks with channels.

  walk    nanoseconds per entry of a directory tree, wide, deep, balanced or dense, read by two threads. The trees are
          grown where TMPDIR says. plain is one thread's recursion.
  shards  connections x bytes x microseconds of work per request, at one shard and at one per core, measured in turn.
          one, all and speedup are taken while the load sleeps: the requests lie in the server's sockets before it may
          begin. loop_one, loop_all and loop_speedup are a closed loop's, whose load takes its share (load_cpu).
  db      durable commits per second of 1 and of 64 callers, each waiting for a row of its own (the other stores with a
          batching writer in front), in remote-1 and remote-64 from another shard; rows per second of one caller who
          commits 64 at once (batch-64); time of a reading call on the owner's shard and from another one, beside a
          bare question (call, remote-call); what a
          caller waits alone, and while a snapshot is made; rows per second of commits of 1,000 rows, with what a row
          takes on the disk (of wo: in a snapshot); nanoseconds to get one of a million rows (of wo: also by a
          BTreeMap's), and per row of a scan; microseconds to open a million rows, bytes of memory each has then,
          and the peak meanwhile by what is held then (of what is allocated from Rust on the calling thread). log is a
          file and a map, the floor of insert and recover. Other stores are in builds with `--features stores`.

  sim     virtual seconds that pass in one in a simulated world of an echo server and 100 clients who ask ten times a
          second each (echo); microseconds for a world in which one sleeps for thirty days (month).

  scope   what structure costs beside the same work without it: a scope with one child beside a bare spawn and join
          (child), a look for a cancel (checkpoint), an effect with three maps beside the direct code (maps).

  uring and epoll are bare loops without a runtime, bare is an executor without anything else: floors, not rivals.
  Other runtimes are in builds with `--features peers`. Use a release build and an idle machine.";

/// Measures `wo` beside its peers.
#[derive(Debug, Parser)]
#[command(name = "wo-bench", version, about, after_help = HOW_TO_READ, max_term_width = 120)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// TCP echo servers under a closed loop of requests
    Echo(Options),
    /// Start and join tasks
    Spawn(Options),
    /// Switch between tasks that take turns
    Switch(Options),
    /// Operations that do nothing, through the ring
    Nop(Options),
    /// Create and cancel many sleeping tasks
    Timers(Options),
    /// Bytes and time per waiting task, and per idle actor
    Memory(Options),
    /// Count what is under a directory, on two threads
    Walk(Options),
    /// A TCP server with one shard and with one per core
    Shards(Options),
    /// Actors that send each other messages, on one thread and on all
    Actors(Options),
    /// A scope, a checkpoint and an effect beside the same work without them
    Scope(Options),
    /// How fast virtual time passes in a simulated world
    Sim(Options),
    /// Durable rows: commits, bulk, reads and recovery
    Db(Options),
    /// List the subjects of this build and what they take part in
    Subjects,
    /// One subject in a process of its own; started by the other subcommands
    #[command(hide = true)]
    Worker(Worker),
}

/// How a benchmark is run.
#[derive(Clone, Debug, Args)]
#[command(after_help = HOW_TO_READ)]
pub struct Options {
    /// Measure only these subjects [default: all that take part]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub subjects: Vec<String>,

    /// Measure only these cases; others than the usual ones may be named
    #[arg(long, value_delimiter = ',', value_name = "CASE,...")]
    pub cases: Vec<String>,

    /// Rounds per subject that count; one more warms up [default: 15, of timers, memory and actors 7]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: Option<u32>,

    /// Length of a round [default: 0.25 of echo and walk, 0.6 of shards, else 0.1; timers, memory and actors take what
    /// they need]
    #[arg(long, value_parser = seconds)]
    pub seconds: Option<Duration>,

    /// Also quote every figure as a ratio to this subject's
    #[arg(long, value_name = "NAME")]
    pub against: Option<String>,

    /// Write a line of JSON per figure instead of tables
    #[arg(long)]
    pub json: bool,

    /// Processor for the subjects [default: the first]
    #[arg(long, value_name = "N")]
    pub server_core: Option<usize>,

    /// Processor for the load of echo [default: the second]
    #[arg(long, value_name = "N")]
    pub load_core: Option<usize>,
}

/// What a worker is told.
#[derive(Debug, Args)]
pub struct Worker {
    /// The benchmark
    pub bench: Bench,
    /// The subject
    pub subject: String,
    /// The case
    pub case: String,
    /// The processor
    pub core: usize,
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .filter(|seconds| (0.001..=3600.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected seconds, 0.001 to 3600".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_worker_is_started_with_a_subcommand_there_is() {
        let line = ["wo-bench", crate::worker::SUBCOMMAND, "echo", "uring", "1x64", "0"];
        let Command::Worker(worker) = Cli::try_parse_from(line).unwrap().command else {
            panic!("not taken for a worker");
        };
        assert_eq!((worker.bench, worker.core), (Bench::Echo, 0));
    }

    #[test]
    fn lists_and_seconds_are_read_and_nonsense_is_refused() {
        let line = ["wo-bench", "echo", "--subjects", "a,b", "--seconds", "0.5"];
        let Command::Echo(options) = Cli::try_parse_from(line).unwrap().command else {
            panic!("not taken for echo");
        };
        assert_eq!(options.subjects, ["a", "b"]);
        assert_eq!(options.seconds, Some(Duration::from_millis(500)));
        for wrong in ["0", "-1", "nan", "1h", "1e9"] {
            assert!(Cli::try_parse_from(["wo-bench", "nop", "--seconds", wrong]).is_err());
        }
        assert!(Cli::try_parse_from(["wo-bench", "nop", "--rounds", "0"]).is_err());
    }
}
