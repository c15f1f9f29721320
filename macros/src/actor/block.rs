//! Reads an actor's `impl`: which of its methods handle what, and which stay as they are.
//!
//! `receive`, `started`, `stopping` and those marked `#[message]` become bodies of fibers, as under `#[wo::fiber]`.
//! Every other item is left alone. A handler that is refused stays in the `impl`, so that whoever calls it is not
//! blamed, too.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, GenericParam, Ident, ImplItem, ImplItemFn, ItemImpl, Meta, Result, ReturnType, Signature, Type,
    Visibility,
};

use super::message::{self, Message};
use super::shape::{self, Role};
use super::{generate, is_called, types};
use crate::args::ActorArgs;
use crate::fiber;
use crate::function::{Refusals, refused};

/// What `receive` takes.
pub struct Receive {
    pub vis: Visibility,
    pub message: Type,
    pub gives: Gives,
}

/// `started`, `stopping` or `on_cancel`.
pub struct Hook {
    /// On which condition it is there.
    pub cfgs: Vec<Attribute>,
    pub name: Ident,
    pub gives: Gives,
}

/// What a handler gives its actor's loop.
#[derive(Clone, Copy)]
pub struct Gives {
    /// Whether its signature says that it gives anything.
    pub something: bool,
    /// Where it says so, or would.
    pub place: Span,
}

impl Gives {
    pub fn of(sig: &Signature) -> Gives {
        match &sig.output {
            ReturnType::Default => Gives { something: false, place: sig.paren_token.span.close() },
            ReturnType::Type(_, output) => Gives { something: true, place: output.span() },
        }
    }
}

/// An actor, read.
pub struct Actor {
    pub generics: syn::Generics,
    pub state: Type,
    /// The last name in the state's type, and what the type of its messages is called.
    pub name: Ident,
    pub message_name: Ident,
    pub receive: Option<Receive>,
    pub hooks: Vec<Hook>,
    pub messages: Vec<Message>,
}

/// Expands the attribute with `args` over `block`.
pub fn expand(args: TokenStream, mut block: ItemImpl) -> TokenStream {
    let mut refusals = Refusals::default();
    let args = syn::parse2(args).unwrap_or_else(|error| {
        refusals.combine(error);
        ActorArgs::default()
    });
    let name = match check(&block) {
        Ok(name) => name,
        Err(error) => {
            refusals.combine(error);
            for item in &mut block.items {
                if let ImplItem::Fn(method) = item {
                    message::take_mark(&mut method.attrs, &mut refusals);
                }
            }
            return with_refusals(refusals, block.into_token_stream());
        }
    };
    let mut actor = Actor {
        generics: block.generics.clone(),
        state: (*block.self_ty).clone(),
        message_name: args.message.clone().unwrap_or_else(|| format_ident!("{}Message", name)),
        name,
        receive: None,
        hooks: Vec::new(),
        messages: Vec::new(),
    };
    let is_whole = actor.read(&mut block, &mut refusals);
    message::check_deadlines(&mut actor.messages, &mut refusals);
    actor.check_message_name(args.message.as_ref(), &mut refusals);
    if !is_whole {
        return with_refusals(refusals, block.into_token_stream());
    }
    let generated = generate::all(&actor);
    with_refusals(refusals, quote! { #block #generated })
}

fn with_refusals(refusals: Refusals, item: TokenStream) -> TokenStream {
    match refusals.into_result() {
        Ok(()) => item,
        Err(error) => refused(&error, item),
    }
}

/// Whether `block` is an actor's at all; answers the name of its state.
fn check(block: &ItemImpl) -> Result<Ident> {
    if let Some((_, of, _)) = &block.trait_ {
        return Err(Error::new_spanned(of, "`#[wo::actor]` goes on the actor's own `impl`, the one without a trait"));
    }
    if let Some(lifetime) = block.generics.params.iter().find(|param| matches!(param, GenericParam::Lifetime(_))) {
        let words = "an actor lives as long as it likes, on a shard of its own: its state owns what it holds";
        return Err(Error::new_spanned(lifetime, words));
    }
    match &*block.self_ty {
        Type::Path(path) if path.qself.is_none() => {
            if let Some(borrow) = types::borrow(&block.self_ty) {
                let words = "an actor lives as long as it likes, on a shard of its own: its state owns what it holds";
                return Err(Error::new_spanned(borrow, words));
            }
            Ok(path.path.segments.last().map(|last| last.ident.clone()).expect("a path has a segment"))
        }
        other => Err(Error::new_spanned(other, "an actor is a struct or an enum")),
    }
}

impl Actor {
    /// Sorts the methods of `block` and makes bodies of fibers of those that handle; answers whether there is an actor
    /// to generate.
    fn read(&mut self, block: &mut ItemImpl, refusals: &mut Refusals) -> bool {
        let mut is_whole = true;
        let mut seen: Vec<Ident> = Vec::new();
        let mut items = Vec::with_capacity(block.items.len());
        for item in std::mem::take(&mut block.items) {
            let ImplItem::Fn(mut method) = item else {
                items.push(item);
                continue;
            };
            let mark = message::take_mark(&mut method.attrs, refusals);
            let Some(role) = role_of(&method.sig.ident, mark, refusals) else {
                items.push(ImplItem::Fn(method));
                continue;
            };
            let name = &method.sig.ident;
            if seen.contains(name) && !is_conditional(&method.attrs) {
                refusals.add(name, twice(name));
                continue;
            }
            seen.push(name.clone());
            let mut wrong = Refusals::default();
            shape::check(role, &method.sig, &mut wrong);
            match role {
                Role::Receive if is_conditional(&method.attrs) => {
                    wrong.add(name, "put `cfg` on the whole `impl`: what the actor receives hangs on this");
                }
                Role::Message => message::check_name(name, &mut wrong),
                Role::Receive | Role::Hook => {}
            }
            match wrong.into_result() {
                Ok(()) => self.take(role, mark == Some(true), &method),
                Err(error) => {
                    refusals.combine(error);
                    is_whole &= !matches!(role, Role::Receive);
                }
            }
            items.push(if method.sig.ident == "on_cancel" { ImplItem::Fn(method) } else { into_fiber(method) });
        }
        block.items = items;
        if is_whole && self.receive.is_none() && self.messages.is_empty() {
            // With all its messages refused it is an actor all the same, so that whoever spawns it is not blamed, too.
            let is_actor = seen.len() > self.hooks.len();
            if !is_actor {
                let state = &self.name;
                let words = format!(
                    "WO-E221: `{state}` has no `receive`, so it is no actor: write `fn receive(&mut self, message: \
                     Message)`, or mark methods as `#[message]`"
                );
                refusals.add(&self.state, words);
            }
            return is_actor;
        }
        is_whole
    }

    fn take(&mut self, role: Role, sent: bool, method: &ImplItemFn) {
        let ImplItemFn { attrs, vis, sig, .. } = method;
        match role {
            Role::Receive => {
                self.receive = shape::parameters(sig).next().map(|message| Receive {
                    vis: vis.clone(),
                    message: (*message.ty).clone(),
                    gives: Gives::of(sig),
                });
            }
            Role::Hook => {
                let cfgs = attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).cloned().collect();
                self.hooks.push(Hook { cfgs, name: sig.ident.clone(), gives: Gives::of(sig) });
            }
            Role::Message => self.messages.push(message::read(attrs, vis, sig, sent)),
        }
    }

    /// The generated type must not have the name of the one `receive` takes.
    fn check_message_name(&mut self, wanted: Option<&Ident>, refusals: &mut Refusals) {
        if self.messages.is_empty() {
            if let Some(wanted) = wanted {
                refusals.add(wanted, "without methods marked `#[message]` there is no type to name");
            }
            return;
        }
        let Some(receive) = &self.receive else { return };
        if matches!(&receive.message, Type::Path(path) if path.path.is_ident(&self.message_name)) {
            let name = &self.message_name;
            let words = format!(
                "the messages together need a type, and `{name}` is taken by this one: name it with \
                 `#[wo::actor(message = ...)]`"
            );
            refusals.add(&receive.message, words);
            self.message_name = format_ident!("{}Messages", self.name);
        }
    }
}

/// What `name` is in an actor; nothing if it is none of the loop's business.
fn role_of(name: &Ident, mark: Option<bool>, refusals: &mut Refusals) -> Option<Role> {
    let role = match name.to_string().as_str() {
        "receive" => Role::Receive,
        "started" | "stopping" | "on_cancel" => Role::Hook,
        _ => return mark.map(|_| Role::Message),
    };
    if mark.is_some() {
        let words = match role {
            Role::Receive => {
                "`receive` takes what is sent to the address; a `#[message]` has a name of its own".to_owned()
            }
            _ => format!("`{name}` is called by the actor's loop; a `#[message]` has a name of its own"),
        };
        refusals.add(name, words);
    }
    Some(role)
}

fn twice(name: &Ident) -> String {
    match name.to_string().as_str() {
        "receive" => {
            "`receive` is here twice: one takes every message, which may be an enum of several kinds".to_owned()
        }
        _ => format!("there are two handlers called `{name}`: an address could not tell them apart"),
    }
}

fn is_conditional(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attribute| attribute.path().is_ident("cfg"))
}

/// The method as `#[wo::fiber]` makes it; that attribute need not be there, and may.
fn into_fiber(mut method: ImplItemFn) -> ImplItem {
    let mut args = TokenStream::new();
    method.attrs.retain(|attribute| {
        let is_fiber = is_called(attribute, "fiber");
        if let (true, Meta::List(list)) = (is_fiber, &attribute.meta) {
            args = list.tokens.clone();
        }
        !is_fiber
    });
    ImplItem::Verbatim(fiber::expand(args, method.into_token_stream()))
}
