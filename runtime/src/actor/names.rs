//! Names by which a program's actors find each other.
//!
//! A name belongs to one life from its registering to that life's end, which frees it before anybody else is told of
//! the end. A name given at the spawn is reserved at once, and found only once the actor's `started` has returned.

use std::any::Any;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::actor::address::Addr;
use crate::actor::life::Exit;
use crate::actor::monitor::Monitor;
use crate::fiber;
use crate::shard::asks;
use crate::shard::program::here;

/// Why a name was not given.
///
/// # Examples
///
/// ```
/// use wo::actor::{self, NameError};
///
/// struct Log;
///
/// #[wo::actor]
/// impl Log {
///     fn receive(&mut self, _line: String) {}
/// }
///
/// #[wo::main]
/// fn main() {
///     let log = wo::spawn(Log);
///     actor::register("log", log).expect("nobody has that name");
///     let refused = actor::register("log", log).unwrap_err();
///     assert!(matches!(refused, NameError::Taken { name } if name == "log"));
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// Another actor has it.
    Taken {
        /// The name.
        name: String,
    },
    /// The actor that was to have it has ended.
    Ended {
        /// The name.
        name: String,
    },
    /// No program runs on this thread.
    NoProgram {
        /// The name.
        name: String,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Taken { name } => {
                write!(f, "the name {name:?} is taken; take another, or wait for the end of the actor that has it")
            }
            NameError::Ended { name } => write!(f, "the actor that was to be named {name:?} has ended"),
            NameError::NoProgram { name } => {
                write!(f, "no program runs here that could name an actor {name:?}; call it under #[wo::main]")
            }
        }
    }
}

impl std::error::Error for NameError {}

/// Gives an actor a name, until its end.
///
/// # Errors
///
/// The name is taken, the actor has ended, or no program runs on this thread.
///
/// # Examples
///
/// ```
/// use wo::actor;
///
/// struct Log;
/// #[wo::actor]
/// impl Log {
///     fn receive(&mut self, line: String) {
///         println!("{line}");
///     }
/// }
///
/// #[wo::main]
/// fn main() {
///     let log = wo::spawn(Log);
///     actor::register("log", log).unwrap();
///     let found = actor::lookup::<String>("log").unwrap();
///     found.send("found it".to_owned()).unwrap();
///     assert!(actor::register("log", log).is_err());
///     log.stop();
///     log.ended().unwrap();
///     assert_eq!(actor::lookup::<String>("log"), None);
/// }
/// ```
pub fn register<M: Send + 'static>(name: &str, addr: Addr<M>) -> Result<(), NameError> {
    let reservation = Reservation::of(name)?;
    let names = Arc::clone(&reservation.names);
    let name = Arc::clone(&reservation.name);
    if !reservation.give_to(addr) {
        return Err(NameError::Ended { name: name.as_ref().to_owned() });
    }
    names.show(&name, addr.parts().1);
    Ok(())
}

/// The actor of that name, if it takes messages of type `M`, and takes any at all.
///
/// # Examples
///
/// ```
/// use wo::actor;
///
/// struct Log;
///
/// #[wo::actor]
/// impl Log {
///     fn receive(&mut self, _line: String) {}
/// }
///
/// #[wo::main]
/// fn main() {
///     let log = wo::spawn(Log);
///     actor::register("log", log).expect("nobody has that name");
///     assert_eq!(actor::lookup::<String>("log"), Some(log));
///     assert_eq!(actor::lookup::<u64>("log"), None, "it takes no numbers");
/// }
/// ```
pub fn lookup<M: Send + 'static>(name: &str) -> Option<Addr<M>> {
    let names = names()?;
    let map = names.lock();
    let entry = map.get(name).filter(|entry| entry.shown)?;
    let addr = *entry.addr.as_ref()?.downcast_ref::<Addr<M>>()?;
    drop(map);
    addr.is_open().then_some(addr)
}

/// Takes a name from the actor that has it; false when nobody had it.
///
/// # Examples
///
/// ```
/// use wo::actor;
///
/// struct Log;
///
/// #[wo::actor]
/// impl Log {
///     fn receive(&mut self, _line: String) {}
/// }
///
/// #[wo::main]
/// fn main() {
///     let log = wo::spawn(Log);
///     actor::register("log", log).expect("nobody has that name");
///     assert!(actor::unregister("log") && !actor::unregister("log"));
///     assert!(log.is_open(), "it goes on without a name");
/// }
/// ```
pub fn unregister(name: &str) -> bool {
    names().is_some_and(|names| {
        let mut map = names.lock();
        // A name that is given at this moment cannot be taken away yet.
        let is_given = map.get(name).is_some_and(|entry| entry.addr.is_some());
        is_given && map.remove(name).is_some()
    })
}

/// The names of one program.
#[derive(Default)]
pub(crate) struct Names(Mutex<BTreeMap<Arc<str>, Named>>);

struct Named {
    /// The life that has the name; 0 while it is reserved.
    life: u64,
    addr: Option<Box<dyn Any + Send>>,
    shown: bool,
}

fn names() -> Option<Arc<Names>> {
    here(|here| here.program.attached::<Names>())
}

impl Names {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Named>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, name: &str, life: u64) {
        if let Some(named) = self.lock().get_mut(name).filter(|named| named.life == life) {
            named.shown = true;
        }
    }

    fn free(&self, name: &str, life: u64) {
        let mut map = self.lock();
        if map.get(name).is_some_and(|named| named.life == life) {
            map.remove(name);
        }
    }
}

/// A name nobody else gets any more. Dropped, it is free again.
pub(crate) struct Reservation {
    names: Arc<Names>,
    name: Arc<str>,
    given: bool,
}

impl Reservation {
    pub(crate) fn of(name: &str) -> Result<Reservation, NameError> {
        let Some(names) = names() else { return Err(NameError::NoProgram { name: name.to_owned() }) };
        let name: Arc<str> = Arc::from(name);
        match names.lock().entry(Arc::clone(&name)) {
            Entry::Occupied(_) => return Err(NameError::Taken { name: name.as_ref().to_owned() }),
            Entry::Vacant(place) => drop(place.insert(Named { life: 0, addr: None, shown: false })),
        }
        Ok(Reservation { names, name, given: false })
    }

    /// The name is this actor's from now on, though not found yet; false, and it is free again, when the actor has
    /// ended.
    pub(crate) fn give_to<M: Send + 'static>(mut self, addr: Addr<M>) -> bool {
        let (mailbox, life) = addr.parts();
        if fiber::notes_waits() {
            asks::note_name(life, &self.name);
        }
        if let Some(named) = self.names.lock().get_mut(&*self.name) {
            named.life = life;
            named.addr = Some(Box::new(addr));
        }
        self.given = true;
        let holder = Holder { names: Arc::clone(&self.names), name: Arc::clone(&self.name), life };
        let lives = mailbox.monitor(life, Box::new(holder)).is_ok();
        if !lives {
            self.names.free(&self.name, life);
        }
        lives
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.given {
            self.names.free(&self.name, 0);
        }
    }
}

/// Frees the name at its actor's end.
struct Holder {
    names: Arc<Names>,
    name: Arc<str>,
    life: u64,
}

impl Monitor for Holder {
    /// Each reservation has a key of its own, so a name that was taken away, and perhaps given again, is told apart.
    fn is_void(&self) -> bool {
        !self.names.lock().get_key_value(&self.name).is_some_and(|(name, _)| Arc::ptr_eq(name, &self.name))
    }

    fn is_first(&self) -> bool {
        true
    }

    fn begun(&mut self) {
        self.names.show(&self.name, self.life);
    }

    fn tell(self: Box<Self>, _exit: &Exit) {
        self.names.free(&self.name, self.life);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_taken_away_is_watched_no_longer() {
        let names = Arc::new(Names::default());
        let give = || {
            let name: Arc<str> = Arc::from("leader");
            names.lock().insert(Arc::clone(&name), Named { life: 1, addr: None, shown: true });
            Holder { names: Arc::clone(&names), name, life: 1 }
        };
        let first = give();
        assert!(!first.is_void());
        names.free("leader", 1);
        assert!(first.is_void());
        let second = give();
        assert!(first.is_void() && !second.is_void(), "the same name of the same life, given again");
    }
}
