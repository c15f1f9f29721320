//! What no fiber function can be.

#[wo::fiber]
async fn asynchronous() {}

#[wo::fiber]
const fn constant() {}

#[wo::fiber]
extern "C" fn foreign() {}

#[wo::fiber]
fn collect() {}

#[wo::fiber]
#[allow(non_snake_case)]
fn Point() {}

#[wo::fiber]
struct Structure;

struct Owner;

#[wo::fiber]
impl Owner {
    fn method(&self) {}
}

#[wo::fiber]
mod module {}

fn main() {}
