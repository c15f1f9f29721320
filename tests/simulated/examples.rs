//! Examples under `WO_IO=sim`: the same output for the same seed, and a report when nobody will ever come.

use crate::example;

/// A server alone in its world waits for ever: it says so, what waits where, and how to see it again.
#[test]
fn a_server_alone_reports_its_deadlock_the_same_each_time() {
    for name in ["echo", "chat"] {
        for shards in ["1", "3"] {
            let environment = [("WO_IO", "sim"), ("WO_SEED", "7"), ("WO_SHARDS", shards)];
            let run = || example::run(name, &environment, &["--listen", "127.0.0.1:0"]);
            let (first, again) = (run(), run());
            assert_eq!(first, again, "{name}");
            assert_eq!(first.status.code(), Some(1), "{name}: {first:?}");
            let said = String::from_utf8_lossy(&first.stderr);
            for expected in ["quiescent", "fiber 0 (main) waits in accept", "replay: WO_IO=sim WO_SEED=7 "] {
                assert!(said.contains(expected), "{name}: {expected:?} is missing in {said}");
            }
        }
    }
}
