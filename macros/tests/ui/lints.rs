//! The compiler's lints see the user's code as they always do.
#![deny(unused)]

#[wo::fiber]
pub fn caller(unused: u32, mut constant: u32) -> u32 {
    let mut never_changed = 1;
    let also_unused = constant;
    let mut overwritten = 5;
    overwritten = 6;
    never_changed == 1;
    never_changed + constant + overwritten
}

fn main() {}
