//! What the functions of an actor look like: what is wrong with one is said at the user's own tokens, each in words of
//! its own.

use syn::{FnArg, GenericParam, Receiver, ReturnType, Signature, Type};

use super::types;
use crate::function::Refusals;

/// How a function of an actor speaks of itself when it is refused.
#[derive(Clone, Copy)]
pub enum Role {
    /// `receive`.
    Receive,
    /// `started`, `stopping`, `on_cancel`.
    Hook,
    /// A method marked `#[message]`.
    Message,
}

/// The parameters but `self`.
pub fn parameters(sig: &Signature) -> impl Iterator<Item = &syn::PatType> {
    sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    })
}

/// Refuses in `sig` what no function of an actor is.
pub fn check(role: Role, sig: &Signature, refusals: &mut Refusals) {
    check_self(sig, refusals);
    check_generics(role, sig, refusals);
    if let Some(keyword) = &sig.unsafety {
        refusals.add(keyword, "the actor's loop calls this, and can promise nothing to an `unsafe fn`");
    }
    match role {
        Role::Receive => check_receive(sig, refusals),
        Role::Hook => check_hook(sig, refusals),
        Role::Message => check_message(sig, refusals),
    }
}

fn check_self(sig: &Signature, refusals: &mut Refusals) {
    let name = &sig.ident;
    match sig.receiver() {
        None => refusals.add(name, format!("`{name}` works on the actor's state: it takes `&mut self`")),
        Some(receiver) if !is_borrowed(receiver) => {
            refusals.add(receiver, format!("`{name}` leaves the actor its state: it takes `&mut self`"));
        }
        Some(_) => {}
    }
}

fn is_borrowed(receiver: &Receiver) -> bool {
    receiver.reference.is_some() || matches!(*receiver.ty, Type::Reference(_))
}

fn check_generics(role: Role, sig: &Signature, refusals: &mut Refusals) {
    let name = &sig.ident;
    let reason = match role {
        Role::Receive => "an actor receives messages of one type",
        Role::Hook => "the actor's loop calls it, and would not know with what",
        Role::Message => "its message has one type; the `impl` can be generic",
    };
    let params = sig.generics.params.iter();
    if let Some(param) = params.clone().find(|param| !matches!(param, GenericParam::Lifetime(_))) {
        refusals.add(param, format!("`{name}` cannot be generic: {reason}"));
    } else if !matches!(role, Role::Hook)
        && let Some(param) = params.clone().next()
    {
        refusals.add(param, format!("`{name}` cannot be generic: what moves to the actor borrows nothing"));
    }
}

fn check_receive(sig: &Signature, refusals: &mut Refusals) {
    let mut parameters = parameters(sig);
    let Some(message) = parameters.next() else {
        refusals.add(&sig.ident, "`receive` has no message: `fn receive(&mut self, message: Message)`");
        return;
    };
    if let Some(second) = parameters.next() {
        let words = "`receive` takes one message: put what belongs together into a struct or an enum, or write methods \
                     marked `#[message]`";
        refusals.add(second, words);
    }
    if let Some(borrow) = types::borrow(&message.ty) {
        refusals.add(borrow, "a message moves to its actor and owns what it holds: nothing can be lent to `receive`");
    }
    if let Some(open) = types::impl_trait(&message.ty) {
        refusals.add(open, "an actor receives messages of one type: name it, since `impl Trait` is many");
    }
}

fn check_hook(sig: &Signature, refusals: &mut Refusals) {
    let name = &sig.ident;
    if let Some(parameter) = parameters(sig).next() {
        let words =
            format!("the actor's loop calls `{name}`, with nothing but `&mut self`; another name is a helper's");
        refusals.add(parameter, words);
    }
    if let ReturnType::Type(_, output) = &sig.output
        && name == "on_cancel"
    {
        refusals.add(output, "`on_cancel` answers nothing: there is nobody left to tell");
    }
}

fn check_message(sig: &Signature, refusals: &mut Refusals) {
    for parameter in parameters(sig) {
        if let Some(borrow) = types::borrow(&parameter.ty) {
            let lent = if is_exclusive(&borrow) { "`&mut`" } else { "a borrow" };
            let words = format!(
                "{lent} does not reach another shard: the arguments of a message move there, so take an owned value"
            );
            refusals.add(borrow, words);
        }
        if let Some(open) = types::impl_trait(&parameter.ty) {
            refusals.add(open, "an argument of a message has one type: name it, since `impl Trait` is many");
        }
        for attribute in &parameter.attrs {
            if attribute.path().is_ident("cfg") || attribute.path().is_ident("cfg_attr") {
                refusals.add(attribute, "put `cfg` on the whole method: a message has all of its arguments");
            }
        }
    }
    let ReturnType::Type(_, output) = &sig.output else { return };
    if matches!(**output, Type::Never(_)) {
        refusals.add(output, "the answer to a message is what this returns: it has to return");
    }
    if let Some(borrow) = types::borrow(output) {
        refusals.add(borrow, "the answer moves to whoever asked and borrows nothing from the actor: own it");
    }
    if let Some(open) = types::impl_trait(output) {
        refusals.add(open, "the answer has a type whoever asks can name: write it, instead of `impl Trait`");
    }
}

fn is_exclusive(ty: &Type) -> bool {
    matches!(ty, Type::Reference(reference) if reference.mutability.is_some())
}
