//! Which CPUs threads may run on.
//!
//! A thread passes its CPUs on to the threads it starts, and the kernel to those it starts for the thread's ring. So
//! while any thread is pinned here, the CPUs the first of them gave up are remembered: they are what the process may
//! use, and a pinned thread's helpers are spread over them again.

use std::cell::Cell;
use std::ffi::c_ulong;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{IoResult, OpKind, Stage, errno};
use crate::plane::backend::os;

/// CPUs the first mask has room for; it doubles until the kernel's fits.
const MASK_CPUS_MIN: usize = 1024;
/// A mask the kernel still refuses at this size is refused for another reason.
const MASK_CPUS_MAX: usize = 1 << 20;

const WORD_CPUS: usize = c_ulong::BITS as usize;

static PINS: Mutex<Pins> = Mutex::new(Pins { live: 0, allowed: Vec::new() });

struct Pins {
    live: usize,
    /// What the first of them gave up.
    allowed: Vec<usize>,
}

thread_local! {
    static PINNED_TO: Cell<Option<usize>> = const { Cell::new(None) };
}

fn pins() -> MutexGuard<'static, Pins> {
    PINS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The numbers of the CPUs the process may use, ascending: this thread's own, unless a thread is pinned.
pub(crate) fn allowed() -> IoResult<Vec<usize>> {
    let pins = pins();
    if pins.live > 0 { Ok(pins.allowed.clone()) } else { this_threads() }
}

/// Gives a helper thread that inherited its starter's pin all of the process's CPUs again.
pub(crate) fn spread() {
    let pins = pins();
    if pins.live > 0 {
        // A helper on the wrong CPU still helps.
        let _ = restrict(&pins.allowed);
    }
}

/// The CPUs the process may use beside the one this thread is pinned to; none when it is not pinned.
pub(crate) fn others() -> Vec<usize> {
    match PINNED_TO.get() {
        Some(pinned) => pins().allowed.iter().copied().filter(|cpu| *cpu != pinned).collect(),
        None => Vec::new(),
    }
}

/// A thread on one CPU, until it is dropped; the thread then has the CPUs it had before.
#[derive(Debug)]
pub(crate) struct Pin {
    before: Vec<usize>,
    /// It is this thread's.
    thread: PhantomData<*const ()>,
}

impl Pin {
    /// Pins this thread, which is not pinned yet, to a CPU.
    pub(crate) fn to(cpu: usize) -> IoResult<Pin> {
        let mut pins = pins();
        let before = this_threads()?;
        restrict(&[cpu])?;
        if pins.live == 0 {
            pins.allowed.clone_from(&before);
        }
        pins.live += 1;
        PINNED_TO.set(Some(cpu));
        Ok(Pin { before, thread: PhantomData })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = pins();
        pins.live -= 1;
        PINNED_TO.set(None);
        // These CPUs may be gone by now; the thread then stays where it is.
        let _ = restrict(&self.before);
    }
}

/// This thread's CPUs, ascending.
fn this_threads() -> IoResult<Vec<usize>> {
    let mut room = MASK_CPUS_MIN;
    loop {
        let mut mask: Vec<c_ulong> = vec![0; room / WORD_CPUS];
        // SAFETY: the kernel writes at most as many bytes as it is told, and the mask has as many.
        let answer = unsafe { libc::sched_getaffinity(0, size_of_val(mask.as_slice()), mask.as_mut_ptr().cast()) };
        if answer == 0 {
            return Ok((0..room).filter(|cpu| mask[cpu / WORD_CPUS] >> (cpu % WORD_CPUS) & 1 == 1).collect());
        }
        let error = os::last(OpKind::Setup, Stage::Setup).with_context("reading the CPUs of this thread");
        if error.errno() != errno::EINVAL || room >= MASK_CPUS_MAX {
            return Err(error);
        }
        room *= 2;
    }
}

/// Lets this thread run on these CPUs alone.
fn restrict(cpus: &[usize]) -> IoResult<()> {
    let words = cpus.iter().max().map_or(0, |last| last / WORD_CPUS + 1);
    let mut mask: Vec<c_ulong> = vec![0; words];
    for cpu in cpus {
        mask[cpu / WORD_CPUS] |= 1 << (cpu % WORD_CPUS);
    }
    // SAFETY: the kernel reads as many bytes as it is told, and the mask has as many.
    let answer = unsafe { libc::sched_setaffinity(0, size_of_val(mask.as_slice()), mask.as_ptr().cast()) };
    if answer == 0 {
        return Ok(());
    }
    Err(os::last(OpKind::Setup, Stage::Setup).with_context(format!("restricting this thread to the CPUs {cpus:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_threads_helpers_are_spread_and_its_end_restores_it() {
        let before = this_threads().unwrap();
        let last = *before.last().unwrap();
        assert!(others().is_empty());
        let pin = Pin::to(last).unwrap();
        assert_eq!(this_threads().unwrap(), [last]);
        assert_eq!(allowed().unwrap(), before);
        assert_eq!(others(), before[..before.len() - 1]);
        std::thread::spawn(move || {
            assert_eq!(this_threads().unwrap(), [last], "inherited");
            spread();
            assert_eq!(this_threads().unwrap(), allowed().unwrap());
        })
        .join()
        .unwrap();
        drop(pin);
        assert_eq!(this_threads().unwrap(), before);
        assert!(others().is_empty());
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused_and_leaves_the_thread_as_it_was() {
        let before = this_threads().unwrap();
        for absent in [MASK_CPUS_MIN - 1, MASK_CPUS_MAX] {
            let error = Pin::to(absent).unwrap_err();
            assert_eq!(error.errno(), errno::EINVAL);
            assert!(error.to_string().contains(&absent.to_string()), "{error}");
        }
        assert!(restrict(&[]).is_err());
        assert_eq!(this_threads().unwrap(), before);
    }
}
