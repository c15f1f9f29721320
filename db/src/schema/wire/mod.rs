//! Bytes of rows: what they are written to, and what they are read from.
//!
//! Integers of more than a byte are variable in length, seven bits a byte, the low ones first, and a set high bit says
//! that there is more; signed ones are folded first, so that small numbers of either sign are short. Lengths and counts
//! are such integers. Nothing that is read is trusted: a count never leads to more memory than there are bytes left.

mod input;
mod output;
mod undecodable;

pub use input::Input;
pub use output::Output;
pub use undecodable::Undecodable;

/// Values within values, at most: a reader that recurses must come to an end before its stack does.
pub(crate) const DEPTH_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_overlong_ones_are_refused() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut output = Output::default();
            output.unsigned(number);
            output.wide(u128::from(number) << 60);
            let bytes = output.finish().unwrap();
            let mut input = Input::new(&bytes);
            assert_eq!(input.unsigned(), Ok(number));
            assert_eq!(input.wide(), Ok(u128::from(number) << 60));
            assert!(input.is_empty());
        }
        assert!(Input::new(&[0xff; 11]).unsigned().is_err());
        assert!(Input::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).unsigned().is_err());
        assert!(Input::new(&[0xff; 20]).wide().is_err());
        assert!(Input::new(&[0x80]).unsigned().is_err());
    }

    #[test]
    fn a_count_is_not_trusted() {
        let mut output = Output::default();
        output.unsigned(u64::MAX);
        let bytes = output.finish().unwrap();
        assert!(Input::new(&bytes).count().is_err());
        assert!(Input::new(&bytes).sized().is_err());
    }
}
