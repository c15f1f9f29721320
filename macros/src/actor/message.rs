//! A method marked `#[message]`: what its call on the address takes and gives.

use quote::format_ident;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Ident, Meta, Pat, PatIdent, Result, ReturnType, Signature, Type, Visibility, parse_quote};

use super::block::Gives;
use super::{is_called, shape, types};
use crate::function::Refusals;
use crate::spans::generated_at;

/// What an address can do by itself, and what every value can: a call of such a name would never reach the actor. A
/// test holds the list against the runtime's source.
const TAKEN: &[&str] = &[
    "ask",
    "ask_by",
    "clone",
    "clone_from",
    "clone_into",
    "deref",
    "ended",
    "eq",
    "fmt",
    "hash",
    "into",
    "is_open",
    "kill",
    "ne",
    "notify_end",
    "send",
    "send_after",
    "send_every",
    "stop",
    "stop_by",
    "to_owned",
    "try_into",
    "try_send",
];

/// What the type of the messages has besides their constructors.
const TAKEN_BY_MESSAGES: &[&str] = &["from", "try_from"];

/// What becomes of a message once it is handled.
pub enum Form {
    /// The method's value is the answer.
    Answered(Type),
    /// The method answers, or keeps for later, a `Reply` for this answer, which is the parameter of this number.
    Replied(usize, Type),
    /// Nobody waits for it.
    Sent,
}

/// One parameter: the name it goes by in the call, and its type.
pub struct Argument {
    pub name: Ident,
    pub ty: Type,
}

/// A method marked `#[message]`.
pub struct Message {
    /// Its docs, and what else callers shall see of its attributes.
    pub shown: Vec<Attribute>,
    /// On which condition it is there.
    pub cfgs: Vec<Attribute>,
    pub vis: Visibility,
    pub name: Ident,
    pub arguments: Vec<Argument>,
    pub form: Form,
    pub gives: Gives,
}

/// Takes the mark off `attrs`; answers whether it was there, and whether it says `send`.
pub fn take_mark(attrs: &mut Vec<Attribute>, refusals: &mut Refusals) -> Option<bool> {
    let mut sent = None;
    attrs.retain(|attribute| {
        if !is_called(attribute, "message") {
            return true;
        }
        if sent.is_some() {
            refusals.add(attribute, "`#[message]` is here already");
        }
        match is_sent(attribute) {
            Ok(is_sent) => sent = Some(is_sent),
            Err(error) => {
                refusals.combine(error);
                sent = Some(false);
            }
        }
        false
    });
    sent
}

fn is_sent(attribute: &Attribute) -> Result<bool> {
    match &attribute.meta {
        Meta::Path(_) => Ok(false),
        meta => match attribute.parse_args::<Ident>() {
            Ok(argument) if argument == "send" => Ok(true),
            _ => Err(Error::new_spanned(
                meta,
                "`#[message]` is called and answered; `#[message(send)]` is sent, and nobody waits; there is no other",
            )),
        },
    }
}

/// Reads a method that [`shape::check`] found well.
pub fn read(attrs: &[Attribute], vis: &Visibility, sig: &Signature, sent: bool) -> Message {
    let arguments: Vec<Argument> = shape::parameters(sig)
        .enumerate()
        .map(|(index, parameter)| Argument { name: name_of(&parameter.pat, index), ty: (*parameter.ty).clone() })
        .collect();
    let reply = arguments.iter().enumerate().find_map(|(index, a)| Some((index, types::of_reply(&a.ty)?.clone())));
    let form = match (sent, reply) {
        (true, _) => Form::Sent,
        (false, Some((index, answer))) => Form::Replied(index, answer),
        (false, None) => Form::Answered(match &sig.output {
            ReturnType::Default => parse_quote! { () },
            ReturnType::Type(_, output) => (**output).clone(),
        }),
    };
    let named = |names: &'static [&str]| {
        let wanted = |attribute: &&Attribute| names.iter().any(|name| attribute.path().is_ident(name));
        attrs.iter().filter(wanted).cloned().collect()
    };
    Message {
        shown: named(&["doc", "deprecated"]),
        cfgs: named(&["cfg"]),
        vis: vis.clone(),
        name: sig.ident.clone(),
        arguments,
        form,
        gives: Gives::of(sig),
    }
}

/// The name of a parameter; of a pattern, one of our own.
fn name_of(pattern: &Pat, index: usize) -> Ident {
    match pattern {
        Pat::Ident(PatIdent { by_ref: None, subpat: None, ident, .. }) => ident.clone(),
        other => Ident::new(&format!("argument_{index}"), generated_at(other.span())),
    }
}

impl Message {
    /// The name of the call with a deadline; none where nobody waits for an answer.
    pub fn name_by(&self) -> Option<Ident> {
        match self.form {
            Form::Sent => None,
            Form::Answered(_) | Form::Replied(..) => Some(format_ident!("{}_by", self.name)),
        }
    }

    /// What its answer is; nothing where nobody waits for one.
    pub fn answer(&self) -> Option<&Type> {
        match &self.form {
            Form::Answered(answer) | Form::Replied(_, answer) => Some(answer),
            Form::Sent => None,
        }
    }

    /// The parameters of the call: all of the method's but the reply, which the call makes.
    pub fn called_with(&self) -> impl Iterator<Item = &Argument> {
        let reply = match self.form {
            Form::Replied(reply, _) => Some(reply),
            Form::Answered(_) | Form::Sent => None,
        };
        self.arguments.iter().enumerate().filter(move |(index, _)| Some(*index) != reply).map(|(_, argument)| argument)
    }
}

/// Refuses names under which a call would not reach the actor.
pub fn check_name(name: &Ident, refusals: &mut Refusals) {
    let is_in = |list: &[&str]| list.iter().any(|taken| name == taken);
    if is_in(TAKEN) {
        refusals
            .add(name, format!("`{name}` is something every address does by itself; give this message another name"));
    } else if is_in(TAKEN_BY_MESSAGES) {
        refusals.add(name, format!("`{name}` makes a message of what `receive` takes; give this one another name"));
    }
}

/// Refuses, and takes out, messages that are called as another is with a deadline.
pub fn check_deadlines(messages: &mut Vec<Message>, refusals: &mut Refusals) {
    let with_deadline: Vec<_> =
        messages.iter().filter_map(|other| Some((other.name_by()?, other.name.clone()))).collect();
    messages.retain(|Message { name, .. }| {
        let clash = with_deadline.iter().find(|(name_by, _)| name_by == name);
        if let Some((_, other)) = clash {
            let words = format!("`{name}` is how an address calls `{other}` with a deadline; give this another name");
            refusals.add(name, words);
        }
        clash.is_none()
    });
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use syn::{ImplItem, Item, Type, Visibility};

    use super::TAKEN;

    /// The names of all public methods of `Addr`, read from the runtime's source.
    fn methods_of_addresses() -> Vec<String> {
        let actors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/src/actor");
        let mut names = Vec::new();
        for file in fs::read_dir(actors).expect("the runtime's source stands beside the macros'") {
            let path = file.expect("its entries can be read").path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("its files can be read");
            for item in syn::parse_file(&text).expect("it is Rust").items {
                let Item::Impl(block) = item else { continue };
                let Type::Path(of) = &*block.self_ty else { continue };
                if block.trait_.is_some() || of.path.segments.last().is_none_or(|last| last.ident != "Addr") {
                    continue;
                }
                names.extend(block.items.iter().filter_map(|item| match item {
                    ImplItem::Fn(method) if matches!(method.vis, Visibility::Public(_)) => {
                        method.sig.receiver().map(|_| method.sig.ident.to_string())
                    }
                    _ => None,
                }));
            }
        }
        names
    }

    #[test]
    fn no_message_can_be_hidden_by_what_addresses_do() {
        let methods = methods_of_addresses();
        assert!(methods.iter().any(|name| name == "send"), "found no methods of addresses: {methods:?}");
        for name in methods {
            assert!(TAKEN.contains(&name.as_str()), "an address has a method `{name}`: a message cannot be called so");
        }
    }
}
