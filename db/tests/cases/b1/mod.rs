//! B1: the cases of databases that others found broken, as one matrix.
//!
//! A row is a case, and a test of its own; a column is a kernel with a number of shards. What a disk has to be told to
//! do wrong is done on simulated machines alone, with one shard and with several; everything else on all. The database
//! is called as programs call it, from whatever shard.

pub mod bytes;
pub mod faults;
pub mod lives;

use super::rig::{Machine, on_every_machine, on_simulated_machines};
use super::{copies, crashes, evolution, feeds, model, queries};

type Row = (&'static str, fn(fn(&Machine)), fn(&Machine));

macro_rules! matrix {
    ($($name:ident: $body:path, $columns:path;)*) => {
        /// Every row: its name, its columns, and what is done.
        const ROWS: &[Row] = &[$((stringify!($name), |body| $columns(body), $body)),*];

        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )*
    };
}

matrix! {
    db1_a_torn_tail_is_cut_at_every_byte: bytes::torn_tail, on_every_machine;
    db2_a_sync_that_failed_is_never_believed_again: faults::failed_sync, on_simulated_machines;
    db3_a_full_disk_undoes_and_room_mends: faults::full_disk, on_simulated_machines;
    db5_a_flipped_bit_is_refused_and_salvaged_around: bytes::flipped_bit, on_every_machine;
    db6_no_length_is_believed: bytes::lengths, on_every_machine;
    db7_rows_of_every_size_come_back: lives::sizes, on_every_machine;
    db8_names_are_on_the_disk_before_anybody_hears: faults::unsynced_names, on_simulated_machines;
    db10_any_blocks_of_what_was_not_acknowledged_may_be_missing: faults::torn_blocks, on_simulated_machines;
    db11_a_short_write_is_continued_before_anybody_hears: faults::short_write, on_simulated_machines;
    db13_a_caller_that_is_gone_takes_no_bytes_along: faults::cancelled_caller, on_simulated_machines;
    db14_a_directory_has_one_owner: lives::one_owner, on_every_machine;
    db15_replaying_twice_is_replaying_once: lives::replayed_twice, on_every_machine;
    db15_a_replay_that_ends_anywhere_is_begun_anew: faults::broken_off_replay, on_simulated_machines;
    db17_fields_come_go_and_change_their_names: evolution::fields, on_every_machine;
    db17_defaults_are_those_of_the_record: evolution::defaults, on_every_machine;
    db17_functions_make_rows_of_earlier_ones: evolution::functions, on_every_machine;
    db17_what_does_not_fit_is_refused_with_the_bytes_untouched: evolution::refusals, on_every_machine;
    db18_every_step_of_a_snapshot_may_be_the_last: faults::snapshot_steps, on_simulated_machines;
    db19_a_snapshot_that_is_not_whole_counts_for_nothing: bytes::half_snapshots, on_every_machine;
    db22_every_life_adds_to_the_one_before: lives::five_lives, on_every_machine;
    db23_nothing_is_lost_where_segments_meet: lives::many_segments, on_every_machine;
    db25_a_cursor_that_failed_goes_on_failing: queries::failing_cursor, on_every_machine;
    db27_indexes_say_what_the_rows_say: model::indexes, on_every_machine;
    db27_indexes_say_what_the_rows_say_after_crashes: model::indexes_after_crashes, on_simulated_machines;
    db28_no_clock_decides_anything: faults::clocks, on_simulated_machines;
    db29_no_answer_is_ahead_of_the_disk: crashes::answers, on_simulated_machines;
    db31_a_watcher_that_stands_still_is_bounded_and_shows: feeds::still_watcher, on_every_machine;
    db32_files_that_shrink_are_an_error_and_no_signal: bytes::shrunk_file, on_every_machine;
    db33_a_backup_under_load_is_a_state_that_was: copies::backup_under_load, on_every_machine;
    r57_no_fault_of_the_disk_makes_an_answer_a_lie: faults::every_fault, on_simulated_machines;
}

fn run(name: &str) {
    let (_, columns, body) = ROWS.iter().find(|(row, ..)| *row == name).expect("it is a row");
    columns(*body);
}

#[test]
fn b1_every_case_of_databases_is_a_row() {
    let cases = [1, 2, 3, 5, 6, 7, 8, 10, 11, 13, 14, 15, 17, 18, 19, 22, 23, 25, 27, 28, 29, 31, 32, 33];
    let missing: Vec<_> =
        cases.iter().filter(|case| !ROWS.iter().any(|(row, ..)| row.starts_with(&format!("db{case}_")))).collect();
    assert!(missing.is_empty(), "DB{missing:?}");
}
