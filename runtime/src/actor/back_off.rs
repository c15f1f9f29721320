//! How long to wait before a restart.

use std::time::Duration;

/// Always the same span.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::actor::back_off::constant;
///
/// let back_off = constant(Duration::from_secs(1));
/// assert_eq!((back_off(0), back_off(9)), (Duration::from_secs(1), Duration::from_secs(1)));
/// ```
pub fn constant(span: Duration) -> impl Fn(u32) -> Duration + Clone + Send + 'static {
    move |_| span
}

/// `base` before the first restart, and twice as long before each further one, up to `most`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::actor::back_off::exponential;
///
/// let back_off = exponential(Duration::from_millis(100), Duration::from_secs(1));
/// let millis: Vec<u128> = (0..6).map(|restart| back_off(restart).as_millis()).collect();
/// assert_eq!(millis, [100, 200, 400, 800, 1000, 1000]);
/// ```
pub fn exponential(base: Duration, most: Duration) -> impl Fn(u32) -> Duration + Clone + Send + 'static {
    move |restart| {
        let factor = 1_u32.checked_shl(restart).unwrap_or(u32::MAX);
        base.saturating_mul(factor).min(most)
    }
}
