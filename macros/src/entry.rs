//! `#[wo::main]`: the program's `main`, run as the first fiber.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, FnArg, Result, ReturnType, Type, Visibility};

use crate::args::MainArgs;
use crate::body::{allowed, async_block};
use crate::function::{Function, Refusals, refused};
use crate::rewrite;
use crate::spans::generated_at;

/// Expands the attribute with `args` over `item`. A `main` that is refused is replaced by an empty one: one complaint
/// is enough.
pub fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let function = match Function::under("main", item.clone()) {
        Ok(function) => function,
        Err(error) => return refused(&error, item),
    };
    let is_main = function.sig.ident == "main" && function.sig.receiver().is_none();
    let main = check(&function).and_then(|()| main(&syn::parse2(args)?, function));
    main.unwrap_or_else(|error| {
        refused(
            &error,
            if is_main {
                quote! { fn main() {} }
            } else {
                item
            },
        )
    })
}

fn check(function: &Function) -> Result<()> {
    function.check()?;
    let sig = &function.sig;
    let mut refusals = Refusals::default();
    if sig.ident != "main" {
        refusals.add(&sig.ident, "`#[wo::main]` goes on the function `main`; others that park take `#[wo::fiber]`");
    }
    if sig.inputs.len() > 1 || sig.inputs.iter().any(|parameter| !is_env(parameter)) {
        refusals.add(&sig.inputs, "`main` takes nothing but a `wo::Env`; `std::env::args` has the command line");
    }
    if !sig.generics.params.is_empty() {
        refusals.add(&sig.generics, "`main` cannot be generic");
    }
    if let Some(keyword) = &sig.unsafety {
        refusals.add(keyword, "`main` cannot be unsafe");
    }
    refusals.into_result()
}

/// Whether a parameter is a row of capabilities, by the name of its type.
fn is_env(parameter: &FnArg) -> bool {
    match parameter {
        FnArg::Typed(typed) => match &*typed.ty {
            Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == "Env"),
            _ => false,
        },
        FnArg::Receiver(_) => false,
    }
}

fn main(args: &MainArgs, function: Function) -> Result<TokenStream> {
    let Function { attrs, vis, mut sig, body } = function;
    let Some(mut body) = body else {
        return Err(Error::new_spanned(sig, "`main` needs a body"));
    };
    rewrite::body(&mut body, &sig);
    // What it asks for it is given, as its first statement.
    let opening: TokenStream = sig
        .inputs
        .iter()
        .map(|parameter| {
            let place = generated_at(parameter.span());
            quote_spanned! {place=> let #parameter = ::wo::__rt::env(); }
        })
        .collect();
    sig.inputs.clear();
    let future = async_block(&sig.output, &opening, body);
    // Where the value cannot be a program's, the compiler complains about its type.
    let place = match &sig.output {
        ReturnType::Default => sig.paren_token.span.close(),
        ReturnType::Type(_, output) => output.span(),
    };
    let run = quote_spanned! {generated_at(place)=>
        ::wo::__rt::run_main(#args, || ::wo::__rt::Call::new(#future))
    };
    sig.output = ReturnType::Default;
    let allowed = allowed();
    // A test beside it may start the program in a simulated world.
    let vis = match vis {
        Visibility::Inherited => quote! { pub(crate) },
        vis => vis.to_token_stream(),
    };
    Ok(quote! {
        #(#attrs)*
        #allowed
        #vis #sig -> ::std::process::ExitCode {
            #run
        }
    })
}
