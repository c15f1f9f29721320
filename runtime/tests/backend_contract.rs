//! The contract of [`Backend`](wo_runtime::plane::backend::Backend), the same tests for every kernel.
//!
//! A backend joins by one line at the end: `contract!` for what every kernel does, `real!` in addition for kernels of
//! the operating system, with how to configure it.

#![cfg(target_os = "linux")]

mod contract {
    pub mod file;
    pub mod net;
    pub mod odd;
    pub mod ops;
    pub mod queues;
    pub mod real;
    pub mod rig;
    pub mod uring;
    pub mod wait;

    use wo_runtime::plane::backend::operand::OpenHow;

    pub const READ_ONLY: OpenHow = OpenHow {
        read: true,
        write: false,
        append: false,
        create: false,
        create_new: false,
        truncate: false,
        directory: false,
        no_follow: false,
        direct: false,
        mode: 0,
    };

    /// Whether the running kernel lets a write say that it wants no SIGPIPE.
    pub fn pipes_raise_no_signal() -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|word| word.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 18)
    }
}

use wo_runtime::plane::backend::poll::PollBackend;
use wo_runtime::plane::backend::sim::SimBackend;
use wo_runtime::plane::backend::uring::UringBackend;
use wo_runtime::plane::backend::{BackendConfig, Feature, KernelVersion, Mode, OpSet, Shim};

macro_rules! tests {
    ($backend:ty, $config:expr, $($module:ident: $($test:ident)+;)+) => {
        $($(
            #[test]
            fn $test() {
                $crate::contract::$module::$test(&$crate::contract::rig::Subject::<$backend>::new($config));
            }
        )+)+
    };
}

/// What every kernel does.
macro_rules! contract {
    ($name:ident, $backend:ty, $config:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            tests! { $backend, $config,
                ops: nop_completes_once full_flush_retry ten_thousand_nops flush_then_reap
                    cancel_of_nothing_is_ignored tokens_come_back_as_they_are close_closes jobs_answer;
                net: bytes_travel a_megabyte_travels ends_are_told cancelled_recv_ends_once cancel_that_races
                    connections_are_made accept_goes_on refused_connection_completes cancelled_accept_ends_once
                    refusals_are_completions datagrams_know_their_sender pipes_are_streams
                    cancelled_read_of_a_pipe_ends_once polls_tell_readiness shutdown_ends_a_pending_recv;
                file: bytes_stay lengths_and_metadata names_change opening_keeps_to_how direct_files
                    a_hundred_files_at_once;
                wait: a_wait_takes_its_time a_wait_of_nothing_is_none a_completion_ends_the_wait
                    a_ready_completion_ends_the_wait rings_before_the_wait_end_it rings_coalesce
                    rings_after_the_end_are_nothing;
            }
        }
    };
}

/// What kernels of the operating system do in addition.
macro_rules! real {
    ($name:ident, $backend:ty, $config:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            tests! { $backend, $config,
                real: cancel_of_jobs rings_from_another_thread signals_are_no_errors foreign_descriptors_wait
                    writes_wait_for_room crowded_accepts_go_on an_open_that_waits_can_be_cancelled
                    no_write_raises_sigpipe;
                odd: r20_eintr_storm r52_odd_fds shared_pipes_block_nobody an_opened_fifo_is_a_stream
                    a_terminal_is_read_and_written a_shared_listener_blocks_nobody a_reused_number_meets_no_old_op
                    a_borrowed_number_may_be_anything_next_time
                    descriptors_are_closed_on_exec many_sockets_are_served ends_come_with_the_last_bytes;
            }
        }
    };
}

/// What a backend does in addition that queues ops itself.
macro_rules! queues {
    ($name:ident, $backend:ty, $config:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            tests! { $backend, $config,
                queues: receives_end_in_order sends_end_in_order a_cancelled_send_tells_what_went_out
                    a_shutdown_comes_after_what_was_sent writes_of_a_stream_file_keep_order
                    a_connect_waits_for_a_full_listener a_datagram_waits_for_a_full_peer
                    unreaped_descriptors_are_closed;
            }
        }
    };
}

/// What a ring does of the former; the order of several ops on one descriptor is the kernel's there.
macro_rules! rings {
    ($name:ident, $config:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            tests! { UringBackend, $config,
                queues: a_cancelled_send_tells_what_went_out a_connect_waits_for_a_full_listener
                    unreaped_descriptors_are_closed;
                uring: datagrams_wait_for_a_full_peer a_cancel_always_arrives;
            }
        }
    };
}

rings!(uring_rings, BackendConfig::default());
rings!(uring_cooperative_rings, cooperative());
rings!(uring_poor_rings, poor());
contract!(uring, UringBackend, BackendConfig::default());
real!(uring_real, UringBackend, BackendConfig::default());
contract!(uring_cooperative, UringBackend, cooperative());
real!(uring_cooperative_real, UringBackend, cooperative());
contract!(uring_poor, UringBackend, poor());
real!(uring_poor_real, UringBackend, poor());
contract!(sim, SimBackend, BackendConfig::default());
contract!(sim_other_seed, SimBackend, BackendConfig { seed: 0x5eed, ..BackendConfig::default() });
mod sim_queues {
    use super::*;
    // The others look at the operating system's files and sockets.
    tests! { SimBackend, BackendConfig::default(),
        queues: receives_end_in_order sends_end_in_order a_cancelled_send_tells_what_went_out
            a_shutdown_comes_after_what_was_sent a_connect_waits_for_a_full_listener a_datagram_waits_for_a_full_peer;
    }
}
contract!(epoll, PollBackend, BackendConfig::default());
real!(epoll_real, PollBackend, BackendConfig::default());
queues!(epoll_queues, PollBackend, BackendConfig::default());
contract!(epoll_older, PollBackend, older());
real!(epoll_older_real, PollBackend, older());
queues!(epoll_older_queues, PollBackend, older());

fn cooperative() -> BackendConfig {
    BackendConfig { mode: Mode::Cooperative, ..BackendConfig::default() }
}

/// The oldest kernel that matters, without the calls and flags that came later.
fn older() -> BackendConfig {
    let kernel = Some(KernelVersion { major: 4, minor: 18 });
    BackendConfig { shim: Shim { kernel, ..Shim::default() }, ..BackendConfig::default() }
}

/// A kernel without anything that can be missing.
fn poor() -> BackendConfig {
    use wo_runtime::error::OpKind;
    let files = [
        OpKind::Open,
        OpKind::Stat,
        OpKind::Sync,
        OpKind::Allocate,
        OpKind::Truncate,
        OpKind::Rename,
        OpKind::Unlink,
        OpKind::Mkdir,
    ];
    let shim = Shim {
        hidden_ops: files.into_iter().fold(OpSet::EMPTY, OpSet::with),
        hidden_features: Feature::ALL.into_iter().filter(|feature| *feature != Feature::NoDrop).collect(),
        ..Shim::default()
    };
    BackendConfig { shim, ..BackendConfig::default() }
}
