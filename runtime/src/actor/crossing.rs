//! What moves between shards, and the words of the compiler when something may not.
//!
//! All that moves is `Send` and owns what it holds. The bound `Send` itself has the compiler name the part that is not;
//! what it cannot say is what a program does about it. So what moves meets two bounds: one of the traits here, whose
//! words are ours, and `Send`, whose words are the compiler's.
//!
//! A bound that fails because of another is reported as that other. For the traits here to be reported themselves, each
//! can be met in two ways, of which the second never is: with two ways the compiler blames neither, but the trait. The
//! way is a parameter it finds by itself.

/// Met by no type; see the module's text.
pub trait Unmet {}

/// The way that is met.
#[derive(Debug)]
pub enum Met {}

macro_rules! crosses {
    ($($(#[$meta:meta])* $name:ident $(<$of:ident>)?),+ $(,)?) => {$(
        $(#[$meta])*
        pub trait $name<$($of: ?Sized,)? Way> {}

        #[diagnostic::do_not_recommend]
        impl<T: Send + 'static, $($of: ?Sized)?> $name<$($of,)? Met> for T {}

        #[diagnostic::do_not_recommend]
        impl<T: Unmet, $($of: ?Sized)?> $name<$($of,)? ()> for T {}
    )+};
}

crosses! {
    /// The state of an actor that is spawned by value.
    #[diagnostic::on_unimplemented(
        message = "WO-E222: the state of `{Self}` may not move to another shard",
        label = "part of it is not `Send`",
        note = "have the actor's own shard make it, then nothing of it moves: `wo::spawn_with(|| ...)`"
    )]
    State,
    /// A message.
    #[diagnostic::on_unimplemented(
        message = "WO-E222: messages of type `{Self}` may not cross shards",
        label = "part of it is not `Send`",
        note = "a message moves to its actor's shard; `#[derive(wo::Message)]` on its type tells the field that cannot"
    )]
    Sent,
    /// An argument of a message that is written as a method.
    #[diagnostic::on_unimplemented(
        message = "WO-E222: arguments of type `{Self}` may not cross shards",
        label = "part of it is not `Send`",
        note = "the arguments move to the shard of the actor"
    )]
    Argument,
    /// The answer to a message.
    #[diagnostic::on_unimplemented(
        message = "WO-E222: answers of type `{Self}` may not cross shards",
        label = "part of it is not `Send`",
        note = "an answer moves to the shard of whoever asked"
    )]
    Answer,
    /// A field of a message of type `Of`.
    #[diagnostic::on_unimplemented(
        message = "WO-E222: messages of type `{Of}` may not cross shards, because of a field of type `{Self}`",
        label = "this field's type is not `Send`",
        note = "a message moves to the shard of its actor, and all it holds with it"
    )]
    Field<Of>,
}

/// Demands for the macros to write down, where what moves is named. Only a field meets `Send` here, too; the rest does
/// where it is used.
#[doc(hidden)]
pub mod crosses {
    use super::{Answer, Argument, Field, Sent};

    /// A message's type.
    pub const fn sent<T: Sent<Way>, Way>() {}

    /// An argument's type.
    pub const fn argument<T: Argument<Way>, Way>() {}

    /// An answer's type.
    pub const fn answer<T: Answer<Way>, Way>() {}

    /// The type of a field of an `Of`.
    pub const fn field<T: Field<Of, Way> + Send, Of: ?Sized, Way>() {}
}
