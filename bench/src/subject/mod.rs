//! What is measured: `wo`, its peers, and bare loops that show what the machine itself allows.
//!
//! A subject lives in one file. It says which benchmarks it takes part in; the workloads it shares with the others are
//! generic over [`crate::executor::Executor`] or [`crate::actors::Library`], so all it adds is how its runtime is
//! started and called.

use std::time::Duration;

use crate::bench::Bench;
use crate::echo::Serve;
use crate::failure::Failure;
use crate::shards;
use crate::stats::Sample;

mod bare;
mod epoll;
mod log;
mod plain;
mod uring;
pub mod wo;
mod wo_db;
mod wo_loop;

#[cfg(feature = "stores")]
mod fjall;
#[cfg(feature = "stores")]
mod redb;
#[cfg(feature = "stores")]
mod sqlite;

#[cfg(feature = "peers")]
pub mod actix;
#[cfg(feature = "peers")]
mod compio;
#[cfg(feature = "peers")]
mod glommio;
#[cfg(feature = "peers")]
pub mod kameo;
#[cfg(feature = "peers")]
mod monoio;
#[cfg(feature = "peers")]
pub mod ractor;
#[cfg(feature = "peers")]
mod rayon;
#[cfg(feature = "peers")]
mod smol;
#[cfg(feature = "peers")]
pub mod tokio;

/// One round of a benchmark: a case, and the time to take for it.
pub type Round = fn(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure>;

/// Something to measure.
pub trait Subject: Sync {
    /// Its name on the command line and in the tables.
    fn name(&self) -> &'static str;

    /// What it is and how it is set up, in a few words.
    fn about(&self) -> &'static str;

    /// Its echo server, if it has one.
    fn echo(&self) -> Option<Serve> {
        None
    }

    /// Its server with as many shards as it is told, if it has one.
    fn shards(&self) -> Option<shards::Serve> {
        None
    }

    /// Its round of any other benchmark, if it takes part in it.
    fn round(&self, bench: Bench) -> Option<Round>;
}

/// All subjects of this build, in the order of the tables.
pub fn all() -> Vec<&'static dyn Subject> {
    vec![
        &wo::Wo,
        &wo_loop::WoLoop,
        #[cfg(feature = "peers")]
        &tokio::Tokio,
        #[cfg(feature = "peers")]
        &monoio::Monoio,
        #[cfg(feature = "peers")]
        &glommio::Glommio,
        #[cfg(feature = "peers")]
        &compio::Compio,
        #[cfg(feature = "peers")]
        &smol::Smol,
        #[cfg(feature = "peers")]
        &rayon::Rayon,
        #[cfg(feature = "peers")]
        &kameo::Kameo,
        #[cfg(feature = "peers")]
        &ractor::Ractor,
        #[cfg(feature = "peers")]
        &actix::Actix,
        #[cfg(feature = "stores")]
        &sqlite::Sqlite,
        #[cfg(feature = "stores")]
        &redb::Redb,
        #[cfg(feature = "stores")]
        &fjall::Fjall,
        &log::Log,
        &uring::Uring,
        &epoll::Epoll,
        &bare::Bare,
        &plain::Plain,
    ]
}

/// The subject called `name`.
pub fn named(name: &str) -> Result<&'static dyn Subject, Failure> {
    let all = all();
    if let Some(subject) = all.iter().find(|subject| subject.name() == name) {
        return Ok(*subject);
    }
    let names: Vec<_> = all.iter().map(|subject| subject.name()).collect();
    let failure = Failure::new(format!("subject `{name}`"), format!("this build has {}", names.join(", ")));
    Err(if cfg!(feature = "peers") {
        failure
    } else {
        failure.remedy("the other runtimes need a build with `--features peers`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_again() {
        let all = all();
        for subject in &all {
            assert_eq!(named(subject.name()).unwrap().name(), subject.name());
            assert_eq!(all.iter().filter(|other| other.name() == subject.name()).count(), 1);
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let Err(error) = named("toki") else { panic!("there is no such subject") };
        assert!(error.to_string().contains("uring, epoll, bare, plain"), "{error}");
    }
}
