//! Writes what makes an actor of a type.
//!
//! With `receive` alone that is the trait `Actor`, and its parameter the messages' type. With methods marked
//! `#[message]` there is a type of messages to make, opaque, with one kind for each method and one for `receive`; and
//! there are the calls, methods of a trait object that the address dereferences to, so that nobody has to import them.
//!
//! Both stand in an anonymous constant, public, since the public trait names them, and out of sight, since their names
//! are nobody's business; the messages' type has an alias outside, with the widest visibility of what it is made of.
//! The calls, and the constructors of messages, each have the visibility of their method.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{GenericParam, Generics, Ident, Type, Visibility};

use super::block::{Actor, Gives, Hook, Receive};
use super::message::{Form, Message};
use super::types::Spelled;
use crate::spans::generated_at;

/// All that stands behind the actor's `impl`.
pub fn all(actor: &Actor) -> TokenStream {
    let checks = checks(actor);
    if actor.messages.is_empty() {
        let Some(receive) = &actor.receive else {
            // All its messages were refused.
            let never = quote! { ::core::convert::Infallible };
            return hidden(&implementation(actor, &never, &quote! { async move { match message {} } }));
        };
        let message = &receive.message;
        let place = generated_at(receive.gives.place);
        let handler = settle(&quote_spanned! {place=> Self::receive(self, message) }, receive.gives);
        let implementation = implementation(actor, &quote! { #message }, &handler);
        return hidden(&quote! { #implementation #checks });
    }
    let names = Names::of(actor);
    let message = names.applied();
    let dispatch = dispatch(actor, &names);
    let implementation = implementation(actor, &message, &dispatch);
    let (messages, calls) = (messages(actor, &names), calls(actor, &names));
    let hidden = hidden(&quote! { #implementation #messages #calls #checks });
    let alias = alias(actor);
    quote! { #hidden #alias }
}

/// In an anonymous constant, where the names of what is generated disturb nobody.
fn hidden(items: &TokenStream) -> TokenStream {
    quote! {
        #[allow(
            dead_code,
            deprecated,
            non_camel_case_types,
            non_local_definitions,
            unreachable_pub,
            clippy::all,
            clippy::pedantic
        )]
        const _: () = { #items };
    }
}

/// What is generated, by name.
struct Names<'a> {
    message: &'a Ident,
    kind: Ident,
    calls: Ident,
    generics: Generics,
}

impl<'a> Names<'a> {
    fn of(actor: &'a Actor) -> Names<'a> {
        let mut generics = actor.generics.clone();
        Spelled(&actor.state).visit_generics_mut(&mut generics);
        Names {
            message: &actor.message_name,
            kind: format_ident!("__{}Kind", actor.name),
            calls: format_ident!("{}Calls", actor.name),
            generics,
        }
    }

    /// The messages' type with its parameters.
    fn applied(&self) -> TokenStream {
        let (message, (_, parameters, _)) = (self.message, self.generics.split_for_impl());
        quote! { #message #parameters }
    }
}

impl Names<'_> {
    /// The parameters that what a call gives may mention, each with a comma behind.
    fn captured(&self) -> TokenStream {
        let parameters = self.generics.params.iter().map(|parameter| match parameter {
            GenericParam::Type(parameter) => parameter.ident.to_token_stream(),
            GenericParam::Const(parameter) => parameter.ident.to_token_stream(),
            GenericParam::Lifetime(parameter) => parameter.lifetime.to_token_stream(),
        });
        quote! { #(#parameters,)* }
    }
}

/// A type as it reads outside the `impl`.
fn spelled(actor: &Actor, ty: &Type) -> Type {
    let mut ty = ty.clone();
    Spelled(&actor.state).visit_type_mut(&mut ty);
    ty
}

/// A name that no name of the user's can be mixed up with.
fn private(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

fn implementation(actor: &Actor, message: &TokenStream, handler: &TokenStream) -> TokenStream {
    let (parameters, _, conditions) = actor.generics.split_for_impl();
    let state = &actor.state;
    let hooks = actor.hooks.iter().map(hook);
    quote! {
        impl #parameters ::wo::actor::Actor for #state #conditions {
            type Message = #message;
            fn receive(&mut self, message: #message) -> impl ::core::future::Future<Output = ()> {
                #handler
            }
            #(#hooks)*
        }
    }
}

fn hook(hook: &Hook) -> TokenStream {
    let Hook { cfgs, name, gives } = hook;
    if name == "on_cancel" {
        return quote! { #(#cfgs)* fn on_cancel(&mut self) { Self::on_cancel(self) } };
    }
    let handler = settle(&quote_spanned! {generated_at(gives.place)=> Self::#name(self) }, *gives);
    quote! {
        #(#cfgs)*
        fn #name(&mut self) -> impl ::core::future::Future<Output = ()> {
            #handler
        }
    }
}

/// The future of a handler's `call`, as the loop wants it.
fn settle(call: &TokenStream, gives: Gives) -> TokenStream {
    if gives.something {
        let handled = handled(call, gives);
        quote! { async move { #handled } }
    } else {
        quote! { #call.into_future() }
    }
}

/// What the loop makes of what a handler's `call` gives.
fn handled(call: &TokenStream, gives: Gives) -> TokenStream {
    quote_spanned! {generated_at(gives.place)=> ::wo::__rt::handled(#call.await) }
}

fn alias(actor: &Actor) -> TokenStream {
    let (name, state, generics) = (&actor.message_name, &actor.state, &actor.generics);
    let declared = generics.params.iter().map(|parameter| match parameter {
        GenericParam::Type(parameter) => parameter.ident.to_token_stream(),
        GenericParam::Const(parameter) => {
            let (name, ty) = (&parameter.ident, &parameter.ty);
            quote! { const #name: #ty }
        }
        GenericParam::Lifetime(parameter) => parameter.to_token_stream(),
    });
    let visibility = widest(
        actor.messages.iter().map(|message| &message.vis).chain(actor.receive.iter().map(|receive| &receive.vis)),
    );
    let docs = format!("What a [`{}`] receives.", actor.name);
    quote! {
        #[doc = #docs]
        #[allow(dead_code)]
        #visibility type #name<#(#declared),*> = <#state as ::wo::actor::Actor>::Message;
    }
}

/// The widest of `all`; of two that no order is known of, the first.
fn widest<'a>(all: impl Iterator<Item = &'a Visibility>) -> Visibility {
    let width = |visibility: &Visibility| match visibility {
        Visibility::Public(_) => 3,
        Visibility::Restricted(restricted) if restricted.path.is_ident("crate") => 2,
        Visibility::Restricted(restricted) if restricted.path.is_ident("self") => 0,
        Visibility::Restricted(_) => 1,
        Visibility::Inherited => 0,
    };
    let wider = |one: &'a Visibility, other| if width(other) > width(one) { other } else { one };
    all.reduce(wider).cloned().unwrap_or(Visibility::Inherited)
}

/// The type of the messages, its kinds and its constructors.
fn messages(actor: &Actor, names: &Names<'_>) -> TokenStream {
    let Names { message, kind, generics, .. } = names;
    let (parameters, applied, conditions) = generics.split_for_impl();
    let received = actor.receive.as_ref().map(|receive| {
        let received = spelled(actor, &receive.message);
        quote! { receive(#received), }
    });
    let kinds = actor.messages.iter().map(|message| kind_of(actor, message));
    let held = held(generics);
    let makers = actor.messages.iter().map(|message| maker(actor, names, message));
    let from = actor.receive.as_ref().map(|receive| {
        let received = spelled(actor, &receive.message);
        quote! {
            impl #parameters ::core::convert::From<#received> for #message #applied #conditions {
                fn from(message: #received) -> Self {
                    #message(#kind::receive(message))
                }
            }
        }
    });
    let docs = format!("What a [`{}`] receives.", actor.name);
    let shown = message.to_string();
    quote! {
        #[doc = #docs]
        pub struct #message #parameters (#kind #applied) #conditions;

        enum #kind #parameters #conditions {
            #received
            #(#kinds)*
            #held
        }

        impl #parameters ::core::fmt::Debug for #message #applied #conditions {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.debug_struct(#shown).finish_non_exhaustive()
            }
        }

        impl #parameters #message #applied #conditions {
            #(#makers)*
        }

        #from
    }
}

/// A kind that is never there, for the parameters that no other kind mentions.
fn held(generics: &Generics) -> Option<TokenStream> {
    let types = generics.type_params().map(|parameter| &parameter.ident);
    generics.type_params().next()?;
    Some(quote! { __Never(::core::convert::Infallible, ::core::marker::PhantomData<fn() -> (#(#types,)*)>), })
}

fn kind_of(actor: &Actor, message: &Message) -> TokenStream {
    let Message { cfgs, name, .. } = message;
    let types = message.arguments.iter().map(|argument| spelled(actor, &argument.ty));
    let reply = match &message.form {
        Form::Answered(answer) => Some(reply_of(&spelled(actor, answer))),
        Form::Replied(..) | Form::Sent => None,
    };
    let types = types.map(ToTokens::into_token_stream).chain(reply);
    quote! { #(#cfgs)* #name(#(#types),*), }
}

fn reply_of(answer: &Type) -> TokenStream {
    quote! { ::wo::actor::Reply<#answer> }
}

/// What makes a message by hand, to send it later or elsewhere.
fn maker(actor: &Actor, names: &Names<'_>, message: &Message) -> TokenStream {
    let Message { cfgs, shown, vis, name, .. } = message;
    let (parameters, arguments) = taken(actor, message.arguments.iter());
    let reply = private("reply");
    let reply_type = match &message.form {
        Form::Answered(answer) => Some(reply_of(&spelled(actor, answer))),
        Form::Replied(..) | Form::Sent => None,
    };
    let (parameters, arguments) = match reply_type {
        Some(ty) => (quote! { #parameters #reply: #ty }, quote! { #arguments #reply }),
        None => (parameters, arguments),
    };
    let (own, kind) = (names.message, &names.kind);
    quote! {
        #(#cfgs)*
        #(#shown)*
        ///
        /// The message itself, to be sent later or by others.
        #vis fn #name(#parameters) -> Self {
            #own(#kind::#name(#arguments))
        }
    }
}

/// Arguments as parameters, and as they are passed on; each with a comma behind.
fn taken<'a>(
    actor: &Actor,
    arguments: impl Iterator<Item = &'a super::message::Argument>,
) -> (TokenStream, TokenStream) {
    let (mut parameters, mut passed) = (TokenStream::new(), TokenStream::new());
    for argument in arguments {
        let (name, ty) = (&argument.name, spelled(actor, &argument.ty));
        parameters.extend(quote! { #name: #ty, });
        passed.extend(quote! { #name, });
    }
    (parameters, passed)
}

/// The calls: what the address of the actor dereferences to.
fn calls(actor: &Actor, names: &Names<'_>) -> TokenStream {
    let Names { message, calls, generics, .. } = names;
    let (parameters, applied, conditions) = generics.split_for_impl();
    let each = actor.messages.iter().map(|message| call(actor, names, message));
    let docs = format!("The calls of a [`{}`], on its address.", actor.name);
    quote! {
        #[doc = #docs]
        pub trait #calls #parameters #conditions {
            #[doc(hidden)]
            fn __wo_address(&self) -> ::wo::actor::Addr<#message #applied>;
        }

        impl #parameters #calls #applied for ::wo::actor::Addr<#message #applied> #conditions {
            fn __wo_address(&self) -> ::wo::actor::Addr<#message #applied> {
                *self
            }
        }

        impl #parameters ::wo::__rt::Calls for #message #applied #conditions {
            type Calls = dyn #calls #applied;
            fn calls(address: &::wo::actor::Addr<Self>) -> &Self::Calls {
                address
            }
        }

        impl #parameters dyn #calls #applied #conditions {
            #(#each)*
        }
    }
}

fn call(actor: &Actor, names: &Names<'_>, message: &Message) -> TokenStream {
    let Message { cfgs, shown, vis, name, .. } = message;
    let (state, own, constructor) = (&actor.state, names.applied(), names.message);
    let (parameters, _) = taken(actor, message.called_with());
    let (_, mut passed) = taken(actor, message.arguments.iter());
    // Not the borrow of the address, of which nothing is kept.
    let captured = names.captured();
    let Some(answer) = message.answer() else {
        return quote! {
            #(#cfgs)*
            #(#shown)*
            ///
            /// Sends it; parks while the actor's mailbox is full.
            ///
            /// # Errors
            ///
            /// As [`wo::actor::Addr::send`].
            #vis fn #name(&self, #parameters) -> ::wo::__rt::Call<
                impl ::core::future::Future<
                    Output = ::core::result::Result<(), ::wo::actor::SendError<#own>>
                > + use<#captured>
            > {
                ::wo::__rt::call::send::<#state>(self.__wo_address(), #constructor::#name(#passed))
            }
        };
    };
    let answer = spelled(actor, answer);
    let reply = match &message.form {
        Form::Replied(index, _) => message.arguments[*index].name.clone(),
        Form::Answered(_) | Form::Sent => {
            let reply = private("reply");
            passed.extend(quote! { #reply });
            reply
        }
    };
    let (name_by, deadline) = (message.name_by(), private("deadline"));
    let shown_name = name.to_string();
    let shown_name = shown_name.strip_prefix("r#").unwrap_or(&shown_name);
    let give = |captured: TokenStream| {
        quote! {
            ::wo::__rt::Call<
                impl ::core::future::Future<
                    Output = ::core::result::Result<#answer, ::wo::actor::AskError>
                > + use<#captured>
            >
        }
    };
    let (gives, gives_by) = (give(captured.clone()), give(quote! { #captured __WoDeadline }));
    quote! {
        #(#cfgs)*
        #(#shown)*
        ///
        /// Asks the actor, and parks for the answer.
        ///
        /// # Errors
        ///
        /// Why there is no answer; see [`wo::actor::AskError`].
        #vis fn #name(&self, #parameters) -> #gives {
            ::wo::__rt::call::ask::<#state, #answer, _, _>(
                self.__wo_address(),
                move |#reply| #constructor::#name(#passed),
                ::core::option::Option::None,
                || #shown_name,
            )
        }

        #(#cfgs)*
        #(#shown)*
        ///
        /// Asks the actor, and parks for the answer until the deadline, which cancels the handler, too.
        ///
        /// # Errors
        ///
        /// Why there is no answer; see [`wo::actor::AskError`].
        #vis fn #name_by<__WoDeadline: ::core::convert::Into<::wo::Deadline>>(
            &self,
            #parameters
            #deadline: __WoDeadline,
        ) -> #gives_by {
            ::wo::__rt::call::ask::<#state, #answer, _, _>(
                self.__wo_address(),
                move |#reply| #constructor::#name(#passed),
                ::core::option::Option::Some(#deadline.into()),
                || #shown_name,
            )
        }
    }
}

/// The body of the trait's `receive`, which hands each kind to its method.
fn dispatch(actor: &Actor, names: &Names<'_>) -> TokenStream {
    let kind = &names.kind;
    let received = actor.receive.as_ref().map(|Receive { gives, .. }| {
        let place = generated_at(gives.place);
        let handled = handled(&quote_spanned! {place=> Self::receive(self, message) }, *gives);
        quote! { #kind::receive(message) => #handled, }
    });
    let arms = actor.messages.iter().map(|message| {
        let Message { cfgs, name, gives, .. } = message;
        let passed: Vec<Ident> = (0..message.arguments.len()).map(|index| format_ident!("argument_{index}")).collect();
        match message.form {
            Form::Answered(_) => quote! {
                #(#cfgs)*
                #kind::#name(#(#passed,)* reply) => {
                    let answer = Self::#name(self, #(#passed),*).await;
                    ::core::mem::drop(reply.send(answer));
                }
            },
            Form::Replied(..) | Form::Sent => {
                let place = generated_at(gives.place);
                let handled = handled(&quote_spanned! {place=> Self::#name(self, #(#passed),*) }, *gives);
                quote! { #(#cfgs)* #kind::#name(#(#passed),*) => #handled, }
            }
        }
    });
    let never = held(&names.generics).map(|_| quote! { #kind::__Never(never, _) => match never {}, });
    quote! {
        async move {
            match message.0 {
                #received
                #(#arms)*
                #never
            }
        }
    }
}

/// Demands that all that moves between shards may, each where the user wrote it.
fn checks(actor: &Actor) -> TokenStream {
    let mut checks = TokenStream::new();
    let mut demand = |cfgs: &[syn::Attribute], ty: &Type, of: &str| {
        let (place, of) = (generated_at(ty.span()), format_ident!("{of}"));
        let ty = spelled(actor, ty);
        checks.extend(quote_spanned! {place=> #(#cfgs)* ::wo::__rt::crosses::#of::<#ty, _>(); });
    };
    if let Some(receive) = &actor.receive {
        demand(&[], &receive.message, "sent");
    }
    for message in &actor.messages {
        for argument in message.called_with() {
            demand(&message.cfgs, &argument.ty, "argument");
        }
        if let Some(answer) = message.answer() {
            demand(&message.cfgs, answer, "answer");
        }
    }
    let mut generics = actor.generics.clone();
    Spelled(&actor.state).visit_generics_mut(&mut generics);
    let (parameters, _, conditions) = generics.split_for_impl();
    quote! {
        fn crosses #parameters () #conditions { #checks }
    }
}
