//! A message on its way, which moves whole.
//!
//! An enum around a message would tell its variants apart by the message's own spare bits. Then whoever looks at the
//! variant reads a part of the message, and the compiler moves that part by itself and the rest in odd pieces, each of
//! which waits for the processor until the wider ones written just before have come through. In a parcel those bits
//! are out of sight: the enum has a tag of its own, and the message is copied as it was written.

use std::cell::UnsafeCell;
use std::fmt;
use std::panic::RefUnwindSafe;

/// A message nobody looks into before it is handled; see the module's text.
// A cell hides the spare bits of what is in it. Nobody borrows from this one.
pub(crate) struct Parcel<M>(UnsafeCell<M>);

// SAFETY: a shared parcel gives no access to its message at all.
unsafe impl<M: Sync> Sync for Parcel<M> {}

// Nobody changes a message in its parcel, so no panic leaves one half changed.
impl<M: RefUnwindSafe> RefUnwindSafe for Parcel<M> {}

impl<M> Parcel<M> {
    #[inline(always)]
    pub(crate) const fn new(message: M) -> Parcel<M> {
        Parcel(UnsafeCell::new(message))
    }

    #[inline(always)]
    pub(crate) fn open(self) -> M {
        self.0.into_inner()
    }
}

impl<M> fmt::Debug for Parcel<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parcel")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Sending;

    #[test]
    fn a_parcel_is_as_large_as_its_message_and_lends_its_spare_bits_to_nobody() {
        assert_eq!(size_of::<Parcel<&u64>>(), size_of::<&u64>());
        assert_eq!(size_of::<Option<Parcel<&u64>>>(), 2 * size_of::<&u64>());
    }

    #[test]
    fn what_carries_a_parcel_is_shared_and_outlives_a_panic_as_its_message_does() {
        fn as_the_message<T: Send + Sync + RefUnwindSafe>() {}
        as_the_message::<Sending<u64>>();
    }
}
