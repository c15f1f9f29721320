//! The arguments of the attributes, checked while the program is compiled: each at most once, of the right kind and
//! range, and none that is unknown. Whatever is wrong is reported where it stands, all of it at once.

use std::fmt::Display;
use std::str::FromStr;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, Ident, Lit, Result, Token};

use crate::function::Refusals;

/// The arguments of `#[wo::fiber]`.
#[derive(Debug, Default)]
pub struct FiberArgs {
    /// `boxed`: the future of every call of the function is boxed.
    pub boxed: bool,
}

impl Parse for FiberArgs {
    fn parse(input: ParseStream) -> Result<FiberArgs> {
        let mut args = FiberArgs::default();
        each(input, |argument| {
            if argument.name != "boxed" {
                return Err(argument.unknown("#[wo::fiber]", "`boxed`"));
            }
            if let Some(value) = &argument.value {
                return Err(Error::new_spanned(value, "`boxed` takes no value"));
            }
            args.boxed = true;
            Ok(())
        })?;
        Ok(args)
    }
}

/// The arguments of `#[wo::actor]` on an `impl`.
#[derive(Debug, Default)]
pub struct ActorArgs {
    /// `message = Name`: what the type of its messages is called.
    pub message: Option<Ident>,
}

impl Parse for ActorArgs {
    fn parse(input: ParseStream) -> Result<ActorArgs> {
        let mut args = ActorArgs::default();
        each(input, |argument| {
            if argument.name != "message" {
                return Err(argument.unknown("#[wo::actor]", "`message`"));
            }
            args.message = Some(argument.identifier("the name its messages' type shall have")?);
            Ok(())
        })?;
        Ok(args)
    }
}

/// The arguments of `#[wo::main]`, each as the expression its value becomes.
#[derive(Debug, Default)]
pub struct MainArgs {
    shards: Option<TokenStream>,
    reductions: Option<TokenStream>,
    io: Option<TokenStream>,
    seed: Option<TokenStream>,
    topology: Option<TokenStream>,
}

impl Parse for MainArgs {
    fn parse(input: ParseStream) -> Result<MainArgs> {
        let mut args = MainArgs::default();
        each(input, |argument| {
            match argument.name.to_string().as_str() {
                "shards" => args.shards = Some(argument.number::<usize>(1)?),
                "reductions" => args.reductions = Some(argument.number::<u32>(1)?),
                "io" => args.io = Some(argument.selection()?),
                "seed" => args.seed = Some(argument.number::<u64>(0)?),
                "topology" => args.topology = Some(argument.topology()?),
                _ => {
                    let known = "`shards`, `reductions`, `io`, `seed` and `topology`";
                    return Err(argument.unknown("#[wo::main]", known));
                }
            }
            Ok(())
        })?;
        Ok(args)
    }
}

/// The runtime's options that they set; the others are left open.
impl ToTokens for MainArgs {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let option = |value: &Option<TokenStream>| match value {
            Some(value) => quote! { ::core::option::Option::Some(#value) },
            None => quote! { ::core::option::Option::None },
        };
        let (shards, reductions) = (option(&self.shards), option(&self.reductions));
        let (io, seed, topology) = (option(&self.io), option(&self.seed), option(&self.topology));
        tokens.extend(quote! {
            ::wo::__rt::MainOptions {
                shards: #shards, reductions: #reductions, io: #io, seed: #seed, topology: #topology
            }
        });
    }
}

/// `name` or `name = value`.
struct Argument {
    name: Ident,
    value: Option<Expr>,
}

impl Parse for Argument {
    fn parse(input: ParseStream) -> Result<Argument> {
        let name = input.parse()?;
        let value = match input.parse::<Option<Token![=]>>()? {
            Some(_) => Some(input.parse()?),
            None => None,
        };
        Ok(Argument { name, value })
    }
}

/// Hands every argument to `take`, unless its name came before.
fn each(input: ParseStream, mut take: impl FnMut(&Argument) -> Result<()>) -> Result<()> {
    let arguments = Punctuated::<Argument, Token![,]>::parse_terminated(input)?;
    let mut refusals = Refusals::default();
    for (index, argument) in arguments.iter().enumerate() {
        let name = &argument.name;
        let taken = if arguments.iter().take(index).any(|earlier| earlier.name == *name) {
            Err(Error::new_spanned(name, format!("`{name}` is given twice")))
        } else {
            take(argument)
        };
        if let Err(error) = taken {
            refusals.combine(error);
        }
    }
    refusals.into_result()
}

impl Argument {
    fn unknown(&self, attribute: &str, known: &str) -> Error {
        let name = &self.name;
        Error::new_spanned(name, format!("unknown argument `{name}`; `{attribute}` takes {known}"))
    }

    /// The literal behind the equals sign.
    fn literal(&self, wanted: &str) -> Result<&Lit> {
        match &self.value {
            Some(Expr::Lit(ExprLit { lit, .. })) => Ok(lit),
            Some(other) => Err(Error::new_spanned(other, format!("expected {wanted}"))),
            None => {
                let name = &self.name;
                Err(Error::new_spanned(name, format!("`{name}` needs a value: {wanted}")))
            }
        }
    }

    /// The value as a plain name.
    fn identifier(&self, wanted: &str) -> Result<Ident> {
        match &self.value {
            Some(Expr::Path(path)) if path.path.get_ident().is_some() => path.path.require_ident().cloned(),
            Some(other) => Err(Error::new_spanned(other, format!("expected {wanted}"))),
            None => {
                let name = &self.name;
                Err(Error::new_spanned(name, format!("`{name}` needs a value: {wanted}")))
            }
        }
    }

    /// The value as a whole number from `least` up to what an `N` holds.
    fn number<N: FromStr + ToTokens + Display + PartialOrd>(&self, least: N) -> Result<TokenStream>
    where
        N::Err: Display,
    {
        let wanted = format!("a whole number, {least} or more");
        let Lit::Int(number) = self.literal(&wanted)? else {
            return Err(Error::new_spanned(&self.value, format!("expected {wanted}")));
        };
        if !number.suffix().is_empty() {
            return Err(Error::new_spanned(number, format!("expected {wanted}, without a suffix")));
        }
        match number.base10_parse::<N>() {
            Ok(value) if value >= least => Ok(value.into_token_stream()),
            Ok(value) => {
                Err(Error::new_spanned(number, format!("`{}` cannot be {value}: expected {wanted}", self.name)))
            }
            Err(error) => Err(Error::new_spanned(number, format!("{error}: expected {wanted}"))),
        }
    }

    /// The value as the name of a backend.
    fn selection(&self) -> Result<TokenStream> {
        let name = self.one_of(
            "backend",
            r#""auto", "uring", "epoll" or "sim""#,
            &[("auto", "Auto"), ("uring", "Uring"), ("epoll", "Epoll"), ("sim", "Sim")],
        )?;
        Ok(quote! { ::wo::__rt::Selection::#name })
    }

    /// The value as the name of a topology.
    fn topology(&self) -> Result<TokenStream> {
        let name = self.one_of(
            "topology",
            r#""single", "thread-per-core" or "work-stealing""#,
            &[("single", "Single"), ("thread-per-core", "ThreadPerCore"), ("work-stealing", "WorkStealing")],
        )?;
        Ok(quote! { ::wo::__rt::Topology::#name })
    }

    /// The variant that the value names.
    fn one_of(&self, what: &str, wanted: &str, known: &[(&str, &str)]) -> Result<Ident> {
        let Lit::Str(name) = self.literal(wanted)? else {
            return Err(Error::new_spanned(&self.value, format!("expected {wanted}")));
        };
        let value = name.value();
        match known.iter().find(|(known, _)| *known == value) {
            Some((_, variant)) => Ok(Ident::new(variant, name.span())),
            None => Err(Error::new_spanned(name, format!("there is no {what} `{value}`: expected {wanted}"))),
        }
    }
}
