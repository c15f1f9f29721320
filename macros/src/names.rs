//! Every name the macros know by heart: lists, each with its reason, and the questions asked of them.
//!
//! A call is told apart by its type, not by its name. These lists exist only where types cannot help, because the
//! type of the call is still open where the macro would ask for it. A name that is passed by is never awaited, so
//! `#[wo::fiber]` refuses to define a function of such a name, and nothing that parks can hide behind one.

use syn::{Ident, Path};

/// Calls whose type is often decided by what happens to their value later (`let n: u32 = it.sum()`), so that
/// asking for it right behind the call is an error. Those in the second half give a pointer or a reference to such
/// a type.
const DECIDED_LATER: &[&str] = &[
    "assume_init",
    "collect",
    "default",
    "expect",
    "expect_err",
    "from_iter",
    "into",
    "product",
    "sum",
    "transmute",
    "unwrap",
    "unwrap_err",
    "unwrap_or",
    "unwrap_or_default",
    "unwrap_or_else",
    "unwrap_unchecked",
    "zeroed",
    //
    "as_mut",
    "as_ref",
    "cast",
    "null",
    "null_mut",
];

/// Calls whose arguments look at the type that is expected of the call, as a function given to an adaptor does when
/// a field wants a `Map<I, fn(A) -> B>`; an expectation does not reach them through another call.
const EXPECTED: &[&str] =
    &["filter", "filter_map", "flat_map", "from_mut", "from_ref", "map", "map_while", "skip_while", "take_while"];

/// Types of `std` whose constructors hand on what is expected of them (`let f: Box<dyn Fn(&str)> = Box::new(|s| ..)`)
/// or make a pointer to what is decided later; by the names they go by in every program.
const WRAPPERS: &[&str] = &[
    "Arc",
    "Box",
    "Cell",
    "ManuallyDrop",
    "MaybeUninit",
    "Mutex",
    "NonNull",
    "OnceCell",
    "OnceLock",
    "Pin",
    "Rc",
    "RefCell",
    "RwLock",
];

/// Those constructors.
const WRAPPING: &[&str] = &["dangling", "from", "from_raw", "new", "new_cyclic", "new_unchecked", "pin", "uninit"];

/// Functions of `std::mem` that take a reference to what is expected of them.
const MEM: &[&str] = &["replace", "take"];

/// Functions of wo's that are known without `wo::`, too, since hardly anybody else's are called so. The others are
/// known by a `use` in the body they stand in.
const WITHOUT_PREFIX: &[&str] = &[
    "collecting_scope",
    "protect",
    "scope",
    "scope_with",
    "spawn",
    "spawn_named",
    "spawn_anywhere",
    "spawn_pinned",
    "spawn_stealable",
    "with_deadline",
    "with_deadline_at",
];

/// Functions of wo's that start their closure as a fiber of its own.
const STARTS: &[&str] = &["spawn", "spawn_named", "spawn_anywhere", "spawn_pinned", "spawn_stealable"];

/// Functions of wo's that run their closures in the fiber that calls.
const RUNS: &[&str] = &[
    "effect",
    "effect_in",
    "join",
    "join_all",
    "protect",
    "race",
    "race_all",
    "repeat",
    "retry",
    "timeout",
    "with_deadline",
    "with_deadline_at",
];

/// The same, and hand the closure a scope.
const OPENS: &[&str] = &["collecting_scope", "scope", "scope_with"];

/// Methods of a scope that start their closure as a fiber of its own.
const SCOPE_STARTS: &[&str] =
    &["fork", "fork_away", "fork_on", "on_exit", "spawn", "spawn_away", "spawn_daemon", "spawn_on"];

/// What becomes of the closures that are given to a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Fibers of their own, which own what they capture.
    Fiber,
    /// The same, in a scope.
    Child,
    /// A part of this fiber: they borrow what they capture, as a plain closure does.
    Part,
    /// The same, with a scope for their parameter.
    Scope,
}

/// What stands between the parentheses of a macro of `std`.
#[derive(Clone, Copy)]
pub enum Arguments {
    /// Expressions, some of them named, as in `format!` and `assert_eq!`.
    Expressions,
    /// Expressions, or one and a length: `vec!`.
    Vector,
    /// An expression whose text is quoted when it fails, and maybe a format: `assert!`.
    Assertion,
    /// An expression, a pattern, and maybe a guard: `matches!`.
    Pattern,
    /// Expressions whose text is shown: `dbg!`.
    Shown,
}

/// The macros of `std` that evaluate their arguments where they stand.
const STD_MACROS: &[(&str, Arguments)] = &[
    ("assert", Arguments::Assertion),
    ("assert_eq", Arguments::Expressions),
    ("assert_ne", Arguments::Expressions),
    ("dbg", Arguments::Shown),
    ("debug_assert", Arguments::Assertion),
    ("debug_assert_eq", Arguments::Expressions),
    ("debug_assert_ne", Arguments::Expressions),
    ("eprint", Arguments::Expressions),
    ("eprintln", Arguments::Expressions),
    ("format", Arguments::Expressions),
    ("format_args", Arguments::Expressions),
    ("matches", Arguments::Pattern),
    ("panic", Arguments::Expressions),
    ("print", Arguments::Expressions),
    ("println", Arguments::Expressions),
    ("todo", Arguments::Expressions),
    ("unimplemented", Arguments::Expressions),
    ("unreachable", Arguments::Expressions),
    ("vec", Arguments::Vector),
    ("write", Arguments::Expressions),
    ("writeln", Arguments::Expressions),
];

/// Whether calls of this name stay as they are.
pub fn passes_by(name: &Ident) -> bool {
    is_one_of(name, DECIDED_LATER) || is_one_of(name, EXPECTED)
}

/// Whether calls of this function stay as they are: by its name, by its owner and its name, because it is written as
/// `std`'s, or because it is a constructor, which a capital letter tells (`Some(..)`, `Point(..)`) and whose arguments
/// may live as long as the value.
pub fn passes_by_function(function: &Path) -> bool {
    let mut segments = function.segments.iter().map(|segment| &segment.ident);
    let Some(name) = segments.next_back() else {
        return false;
    };
    let owner = segments.next_back();
    let first = function.segments.first().map(|segment| &segment.ident);
    passes_by(name)
        || is_constructor(name)
        || owner.is_some_and(|owner| is_one_of(owner, WRAPPERS) && is_one_of(name, WRAPPING))
        || owner.is_some_and(|owner| owner == "mem" && is_one_of(name, MEM))
        || owner.is_some() && first.is_some_and(|krate| krate == "std")
}

/// Whether this is the name of a type or variant rather than of a function.
pub fn is_constructor(name: &Ident) -> bool {
    name.to_string().starts_with(char::is_uppercase)
}

fn is_one_of(name: &Ident, list: &[&str]) -> bool {
    list.iter().any(|listed| name == listed)
}

/// What becomes of closures given to wo's function of this name; nothing where there is none such.
pub fn takes(name: &Ident) -> Option<Takes> {
    [(STARTS, Takes::Fiber), (RUNS, Takes::Part), (OPENS, Takes::Scope)]
        .into_iter()
        .find_map(|(list, takes)| is_one_of(name, list).then_some(takes))
}

/// The same of a function that goes by its name alone, and of which nothing tells whose it is.
pub fn takes_unprefixed(name: &Ident) -> Option<Takes> {
    if is_one_of(name, WITHOUT_PREFIX) { takes(name) } else { None }
}

/// Whether a closure given to this method of a scope becomes a fiber.
pub fn scope_starts(method: &Ident) -> bool {
    is_one_of(method, SCOPE_STARTS)
}

/// What the macro called `name` takes, if it is one of `std`'s that evaluate their arguments.
pub fn std_macro(name: &Path) -> Option<Arguments> {
    let mut segments = name.segments.iter().map(|segment| &segment.ident);
    let name = match (segments.next(), segments.next(), segments.next()) {
        (Some(name), None, None) => name,
        (Some(krate), Some(name), None) if krate == "std" || krate == "core" || krate == "alloc" => name,
        _ => return None,
    };
    let (_, arguments) = STD_MACROS.iter().find(|(known, _)| name == known)?;
    Some(*arguments)
}
