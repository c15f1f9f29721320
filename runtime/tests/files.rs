//! Files, directories and streams as a fiber sees them, on every kernel.

#![cfg(target_os = "linux")]

mod files {
    pub mod cursor;
    pub mod deadlines;
    pub mod faults;
    pub mod names;
    pub mod offsets;
    pub mod plane;
    pub mod rig;
    pub mod streams;
    pub mod whole;
}
