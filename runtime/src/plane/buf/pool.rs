//! A pool of same-size buffers over one slab, which the kernel can be told about once.
//!
//! The pool belongs to the thread that made it; its buffers may travel. How they come home is the slab's protocol.
//! Registered, every buffer carries the slab's index, and the ops that can use it do so by themselves; refused, the
//! pool works the same, only without. The kernel keeps its view of the memory until the backend is closed, so a
//! registration is a share of the slab which the loop keeps until then.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Once};

use crate::error::{IoError, IoResult, OpKind, Stage, errno, say};
use crate::plane::backend::{Backend, Feature};
use crate::plane::buf::buffer::Buf;
use crate::plane::buf::slab::Slab;
use crate::plane::current::with_loop;
use crate::plane::op::RawSlice;

/// The most the kernel takes as one registered buffer.
const REGISTERED_BYTES_MAX: usize = 1 << 30;

/// A pool of same-size buffers.
///
/// It stays on the thread that made it. Its buffers go anywhere; one that is dropped elsewhere comes home by itself
/// and is there for a later [`take`](BufPool::take). Buffers outlive the pool: the memory is freed with the last of
/// them.
///
/// # Examples
///
/// ```
/// use wo::plane::buf::{BufPool, Origin};
///
/// let pool = BufPool::new(2, 4096)?;
/// let mut buf = pool.take().expect("two are free");
/// buf.extend_from_slice(b"hello");
/// assert_eq!((&buf[..], buf.capacity(), buf.origin()), (&b"hello"[..], 4096, Origin::Pool));
///
/// let second = pool.take();
/// assert!(second.is_some());
/// assert!(pool.take().is_none(), "the pool does not grow");
///
/// std::thread::spawn(move || drop(buf)).join().expect("the thread only drops it");
/// assert_eq!(pool.available(), 1);
/// # Ok::<(), wo::IoError>(())
/// ```
pub struct BufPool {
    slab: Arc<Slab>,
    refusal: Option<IoError>,
    /// The free list is its home thread's.
    _not_send: PhantomData<*mut ()>,
}

impl BufPool {
    /// A pool of `count` buffers of `size` bytes each, all in one piece of memory.
    ///
    /// # Errors
    ///
    /// `EINVAL` when either is 0 or the whole has no place in the address space, `ENOMEM` when there is no memory.
    pub fn new(count: usize, size: usize) -> IoResult<BufPool> {
        Ok(BufPool { slab: Arc::new(Slab::new(count, size)?), refusal: None, _not_send: PhantomData })
    }

    /// As [`new`](BufPool::new), and this thread's loop is told about the memory, so that file ops on the buffers need
    /// not map it each time. Where that is refused the pool works all the same: [`refusal`](BufPool::refusal) says why,
    /// and the first refusal in a process is said on standard error.
    ///
    /// # Errors
    ///
    /// As [`new`](BufPool::new).
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::plane::buf::BufPool;
    ///
    /// wo::Builder::new().run(|| async {
    ///     let pool = BufPool::registered(16, 4096)?;
    ///     assert_eq!(pool.is_registered(), pool.refusal().is_none());
    ///     Ok::<_, wo::IoError>(())
    /// })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn registered(count: usize, size: usize) -> IoResult<BufPool> {
        static SAID: Once = Once::new();
        let mut pool = BufPool::new(count, size)?;
        if let Err(refusal) = with_loop(OpKind::Setup, |event_loop| event_loop.register_pool(&mut pool)) {
            SAID.call_once(|| say(format_args!("{refusal}")));
            pool.refusal = Some(refusal);
        }
        Ok(pool)
    }

    /// Takes an empty buffer; none when all are out. Its memory holds whatever its last user left, and none of that
    /// can be seen.
    pub fn take(&self) -> Option<Buf> {
        self.slab.take().map(|place| Buf::of_slab(Arc::clone(&self.slab), place))
    }

    /// The number of buffers that can be taken now; those on their way home from other threads count once they were
    /// dropped.
    pub fn available(&self) -> usize {
        self.slab.available()
    }

    /// The number of buffers, taken or not.
    pub fn count(&self) -> usize {
        self.slab.count()
    }

    /// The capacity of each buffer, in bytes.
    pub fn buffer_size(&self) -> usize {
        self.slab.size()
    }

    /// Whether the kernel was told about the memory.
    pub fn is_registered(&self) -> bool {
        self.slab.is_registered()
    }

    /// Why the last registration was refused; the pool works the same without.
    pub fn refusal(&self) -> Option<&IoError> {
        self.refusal.as_ref()
    }

    /// Tells the kernel about the whole slab, so that ops on its buffers need not map it each time; buffers that are
    /// out already profit too. Users call their loop's `register_pool`, which keeps the answer for as long as it
    /// must.
    ///
    /// # Errors
    ///
    /// A refusal changes nothing but [`refusal`](BufPool::refusal): `EOPNOTSUPP` when the backend has no registered
    /// buffers, `ENOMEM` when it has no room or the process may lock no more memory, `EINVAL` above 1 GiB, `EBUSY`
    /// when a loop has it registered already.
    ///
    /// # Safety
    ///
    /// The answer is kept until the backend was closed.
    pub unsafe fn register<B: Backend>(&mut self, backend: &mut B) -> IoResult<Registration> {
        let refuse = |errno, why: &str| {
            IoError::new(errno, OpKind::Setup, Stage::Registration).with_context(format!(
                "registering {} buffers of {} bytes: {why}; they work unregistered",
                self.slab.count(),
                self.slab.size()
            ))
        };
        let asked = if self.slab.is_registered() {
            // The registration stands, so there is nothing to degrade to.
            return Err(IoError::new(errno::EBUSY, OpKind::Setup, Stage::Registration)
                .with_context("the pool is registered already; a pool belongs to one loop"));
        } else if !backend.caps().has(Feature::RegisteredBuffers) {
            Err(refuse(errno::EOPNOTSUPP, "this backend has no registered buffers"))
        } else if self.slab.bytes() > REGISTERED_BYTES_MAX {
            Err(refuse(errno::EINVAL, "more than 1 GiB at once; make several pools"))
        } else {
            let memory = RawSlice {
                ptr: self.slab.memory().as_ptr(),
                len: u32::try_from(self.slab.bytes()).unwrap_or(u32::MAX),
                fixed: RawSlice::NOT_FIXED,
            };
            // SAFETY: the registration below holds a share of the slab, and the caller keeps it until the backend
            // was closed.
            unsafe { backend.register_buffer(memory) }.ok_or_else(|| {
                refuse(errno::ENOMEM, "the kernel refused; raise `ulimit -l`, or register fewer or smaller pools")
            })
        };
        match asked {
            Ok(index) => {
                self.slab.set_registered(index);
                self.refusal = None;
                Ok(Registration { slab: Arc::clone(&self.slab), _not_send: PhantomData })
            }
            Err(refusal) => {
                self.refusal = Some(refusal.clone());
                Err(refusal)
            }
        }
    }
}

impl fmt::Debug for BufPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufPool")
            .field("available", &self.available())
            .field("count", &self.count())
            .field("buffer_size", &self.buffer_size())
            .field("registered", &self.is_registered())
            .finish()
    }
}

/// A pool's memory as a backend knows it. It goes after the backend was closed; then the pool's buffers are ordinary
/// ones again, and the pool may be registered anew.
#[must_use = "the memory must stay until the backend was closed"]
#[derive(Debug)]
pub struct Registration {
    slab: Arc<Slab>,
    /// It ends where the loop lives, which is the pool's home.
    _not_send: PhantomData<*mut ()>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.slab.set_registered(RawSlice::NOT_FIXED);
    }
}
