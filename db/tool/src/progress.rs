//! A bar for what takes long, where somebody is looking.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Draws on stderr when that is a terminal; anywhere else, and when it is to be quiet, it does nothing.
#[derive(Debug)]
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar that says what goes on.
    pub fn new(what: &'static str, quiet: bool) -> Bar {
        if quiet {
            return Bar(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(0).with_message(what);
        let style =
            ProgressStyle::with_template("{msg} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Bar::begin(bar)
    }

    /// One for what nobody knows the length of.
    pub fn endless(what: &'static str, quiet: bool) -> Bar {
        if quiet {
            return Bar(ProgressBar::hidden());
        }
        Bar::begin(ProgressBar::new_spinner().with_message(what))
    }

    /// Draws it, and again and again from then on: the first time here, for that is the work of another thread else,
    /// which may come to it when all is done.
    fn begin(bar: ProgressBar) -> Bar {
        bar.tick();
        bar.enable_steady_tick(Duration::from_millis(200));
        Bar(bar)
    }

    /// So much is done, of so much.
    pub fn tell(&self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
