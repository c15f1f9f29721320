//! Worker threads for calls that have no completion form.
