//! A scope the macro cannot know by its name: there the closure stays a plain one.

struct Server {
    children: wo::Scope,
}

#[wo::fiber]
fn in_a_field(server: Server) {
    server.children.spawn(|| println!("a child"));
}

fn in_a_plain_function(s: wo::Scope) {
    s.spawn(|| println!("a child"));
}

fn main() {}
