//! Several capabilities as one value: the row a program hands to its functions.
//!
//! A function says what it needs by bounds, `E: HasClock + HasNet`, and takes any row that has them; so a row is handed
//! on as it is, and a smaller one is made only where its type is to be written down. Overriding one capability makes
//! another row: the nearest override counts, for as long as that row is passed on.

use crate::scope::capability::{Clock, Fs, Net, Proc};

/// A place in a row where nothing is.
///
/// # Examples
///
/// ```
/// use wo::capability::{Env, NotThere, TestClock};
///
/// let env: Env<TestClock, NotThere, NotThere, NotThere> = Env::empty().with_clock(TestClock::new());
/// assert_eq!(env.net, NotThere);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotThere;

/// A row of capabilities. Each is a field; one that is [`NotThere`] can do nothing.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::capability::{Clock, Env, HasClock, TestClock};
///
/// fn uptime(env: &impl HasClock) -> Duration {
///     env.clock().now()
/// }
///
/// let clock = TestClock::new();
/// let env = Env::empty().with_clock(clock.clone());
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(uptime(&env), Duration::from_secs(5));
/// // Overridden, where this row goes.
/// assert_eq!(uptime(&env.with_clock(TestClock::new())), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Env<C = NotThere, N = NotThere, F = NotThere, P = NotThere> {
    /// Tells the time.
    pub clock: C,
    /// Connects.
    pub net: N,
    /// Keeps files.
    pub fs: F,
    /// Runs programs.
    pub proc: P,
}

impl Env {
    /// A row without anything.
    pub const fn empty() -> Env {
        Env { clock: NotThere, net: NotThere, fs: NotThere, proc: NotThere }
    }
}

impl<C, N, F, P> Env<C, N, F, P> {
    /// The same row with another clock.
    pub fn with_clock<C2: Clock>(self, clock: C2) -> Env<C2, N, F, P> {
        Env { clock, net: self.net, fs: self.fs, proc: self.proc }
    }

    /// The same row with another network.
    pub fn with_net<N2: Net>(self, net: N2) -> Env<C, N2, F, P> {
        Env { clock: self.clock, net, fs: self.fs, proc: self.proc }
    }

    /// The same row with other files.
    pub fn with_fs<F2: Fs>(self, fs: F2) -> Env<C, N, F2, P> {
        Env { clock: self.clock, net: self.net, fs, proc: self.proc }
    }

    /// The same row with other programs.
    pub fn with_proc<P2: Proc>(self, proc: P2) -> Env<C, N, F, P2> {
        Env { clock: self.clock, net: self.net, fs: self.fs, proc }
    }

    /// A row of references to these, to lend.
    pub const fn by_ref(&self) -> Env<&C, &N, &F, &P> {
        Env { clock: &self.clock, net: &self.net, fs: &self.fs, proc: &self.proc }
    }

    /// The clock alone.
    pub fn only_clock(self) -> Env<C, NotThere, NotThere, NotThere> {
        Env { clock: self.clock, net: NotThere, fs: NotThere, proc: NotThere }
    }

    /// The network alone.
    pub fn only_net(self) -> Env<NotThere, N, NotThere, NotThere> {
        Env { clock: NotThere, net: self.net, fs: NotThere, proc: NotThere }
    }

    /// The files alone.
    pub fn only_fs(self) -> Env<NotThere, NotThere, F, NotThere> {
        Env { clock: NotThere, net: NotThere, fs: self.fs, proc: NotThere }
    }

    /// The programs alone.
    pub fn only_proc(self) -> Env<NotThere, NotThere, NotThere, P> {
        Env { clock: NotThere, net: NotThere, fs: NotThere, proc: self.proc }
    }
}

/// What has something that tells the time.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::capability::{Clock, Env, HasClock, TestClock};
///
/// fn uptime(env: &impl HasClock) -> Duration {
///     env.clock().now()
/// }
/// assert_eq!(uptime(&Env::empty().with_clock(TestClock::new())), Duration::ZERO);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has nothing that tells the time",
    label = "this needs a `Clock`",
    note = "give the row one: `env.with_clock(..)`"
)]
pub trait HasClock {
    /// What tells the time.
    type Clock: Clock;

    /// It.
    fn clock(&self) -> &Self::Clock;
}

impl<C, N, F, P> HasClock for Env<C, N, F, P>
where
    C: Clock,
{
    type Clock = C;

    fn clock(&self) -> &C {
        &self.clock
    }
}

impl<E: HasClock> HasClock for &E {
    type Clock = E::Clock;

    fn clock(&self) -> &E::Clock {
        E::clock(self)
    }
}

/// What has something that connects.
///
/// # Examples
///
/// ```
/// use std::net::SocketAddr;
/// use wo::capability::{Env, HasNet, Net, SimNet, TestClock};
///
/// #[wo::fiber]
/// fn is_up(env: &impl HasNet, at: SocketAddr) -> bool {
///     env.net().connect(at).is_ok()
/// }
///
/// #[wo::main]
/// fn main() {
///     let env = Env::empty().with_net(SimNet::new(TestClock::new()));
///     assert!(!is_up(&env, "10.0.0.1:80".parse().expect("an address")), "nobody listens there");
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has nothing that connects",
    label = "this needs a `Net`",
    note = "give the row one: `env.with_net(..)`"
)]
pub trait HasNet {
    /// What connects.
    type Net: Net;

    /// It.
    fn net(&self) -> &Self::Net;
}

impl<C, N, F, P> HasNet for Env<C, N, F, P>
where
    N: Net,
{
    type Net = N;

    fn net(&self) -> &N {
        &self.net
    }
}

impl<E: HasNet> HasNet for &E {
    type Net = E::Net;

    fn net(&self) -> &E::Net {
        E::net(self)
    }
}

/// What has something that keeps files.
///
/// # Examples
///
/// ```
/// use std::path::Path;
/// use wo::capability::{Env, Fs, HasFs, MemFs};
///
/// #[wo::fiber]
/// fn remember(env: &impl HasFs, name: &str) -> wo::IoResult<()> {
///     env.fs().write(Path::new("/name"), name.as_bytes())
/// }
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let env = Env::empty().with_fs(MemFs::new());
///     remember(&env, "Ada")?;
///     assert_eq!(env.fs().read(Path::new("/name"))?, b"Ada");
///     Ok(())
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has nothing that keeps files",
    label = "this needs a `Fs`",
    note = "give the row one: `env.with_fs(..)`"
)]
pub trait HasFs {
    /// What keeps files.
    type Fs: Fs;

    /// It.
    fn fs(&self) -> &Self::Fs;
}

impl<C, N, F, P> HasFs for Env<C, N, F, P>
where
    F: Fs,
{
    type Fs = F;

    fn fs(&self) -> &F {
        &self.fs
    }
}

impl<E: HasFs> HasFs for &E {
    type Fs = E::Fs;

    fn fs(&self) -> &E::Fs {
        E::fs(self)
    }
}

/// What has something that runs programs.
///
/// # Examples
///
/// ```
/// use wo::capability::{Command, Env, HasProc, Proc, Script, SimProc};
///
/// #[wo::fiber]
/// fn today(env: &impl HasProc) -> wo::IoResult<Vec<u8>> {
///     Ok(env.proc().capture(&Command::new("date"), b"")?.stdout)
/// }
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let env = Env::empty().with_proc(SimProc::new().on("date", Script::new().stdout("Monday")));
///     assert_eq!(today(&env)?, b"Monday");
///     Ok(())
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has nothing that runs programs",
    label = "this needs a `Proc`",
    note = "give the row one: `env.with_proc(..)`"
)]
pub trait HasProc {
    /// What runs programs.
    type Proc: Proc;

    /// It.
    fn proc(&self) -> &Self::Proc;
}

impl<C, N, F, P> HasProc for Env<C, N, F, P>
where
    P: Proc,
{
    type Proc = P;

    fn proc(&self) -> &P {
        &self.proc
    }
}

impl<E: HasProc> HasProc for &E {
    type Proc = E::Proc;

    fn proc(&self) -> &E::Proc {
        E::proc(self)
    }
}
