//! `#[parameters]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{DeriveInput, Expr, ExprPath, Lit, Path, Token};

use crate::admission_check::ungrouped;
use crate::errors::Errors;
use crate::parameters;

/// The derives that the macro adds.
const DERIVES: [&str; 7] = [
    "Clone",
    "CustomResource",
    "Debug",
    "Deserialize",
    "JsonSchema",
    "Parameters",
    "Serialize",
];

/// An argument, such as `kind = "Window"` or `scale(...)`.
struct Argument {
    name: Ident,
    value: Option<Expr>,
    tokens: TokenStream,
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        // `struct` is one too.
        let name = Ident::parse_any(input)?;
        if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            let value: Expr = input.parse()?;
            let tokens = quote!(#name = #value);
            let value = Some(value);
            return Ok(Self {
                name,
                value,
                tokens,
            });
        }
        let mut tokens = quote!(#name);
        if input.peek(syn::token::Paren) {
            let content;
            syn::parenthesized!(content in input);
            let content: TokenStream = content.parse()?;
            tokens = quote!(#name(#content));
        }
        Ok(Self {
            name,
            value: None,
            tokens,
        })
    }
}

impl Argument {
    fn text(&self) -> Option<String> {
        match self.value.as_ref().map(ungrouped) {
            Some(Expr::Lit(literal)) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The options that the macro itself needs.
struct Options {
    /// The arguments of `#[kube(...)]`.
    kube: Vec<TokenStream>,
    /// The struct of the whole object.
    object: Option<Ident>,
    validate: Option<ExprPath>,
}

pub(crate) fn expand(arguments: TokenStream, spec: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let options = options(arguments, &mut errors);
    let Ok(input) = syn::parse2::<DeriveInput>(spec.clone()) else {
        errors.at(spec, "parameters are a struct with named fields");
        return errors.into_tokens().unwrap_or_default();
    };
    check_item(&input, options.object.as_ref(), &mut errors);
    let policy = parameters::policy_field(&input, &mut errors);
    let object = match (errors.into_tokens(), options.object) {
        (Some(errors), _) => return errors,
        (None, None) => return TokenStream::new(),
        (None, Some(object)) => object,
    };
    let parameters = parameters::generate(&object, options.validate.as_ref(), policy.as_ref());
    let kube = options.kube;
    quote! {
        #[derive(
            ::kueue_check::kube::CustomResource,
            ::kueue_check::serde::Serialize,
            ::kueue_check::serde::Deserialize,
            ::kueue_check::schemars::JsonSchema,
            ::core::clone::Clone,
            ::core::fmt::Debug,
        )]
        #[kube(
            #(#kube,)*
            crates(
                kube_core = "::kueue_check::kube::core",
                k8s_openapi = "::kueue_check::k8s_openapi",
                schemars = "::kueue_check::schemars",
                serde = "::kueue_check::serde",
                serde_json = "::kueue_check::serde_json",
            )
        )]
        #[serde(crate = "::kueue_check::serde")]
        #[schemars(crate = "::kueue_check::schemars")]
        #input

        #parameters
    }
}

fn options(arguments: TokenStream, errors: &mut Errors) -> Options {
    let parser = Punctuated::<Argument, Token![,]>::parse_terminated;
    let arguments = errors.take(parser.parse2(arguments));
    let complete = arguments.is_some();
    let (mut kube, mut validate) = (Vec::new(), None);
    let mut named: Vec<(String, Ident, Option<String>)> = Vec::new();
    for argument in arguments.into_iter().flatten() {
        if argument.name == "validate" {
            match argument.value {
                Some(Expr::Path(function)) => validate = Some(function),
                _ => errors.at(
                    argument.tokens,
                    "`validate` names a function: `validate = WindowSpec::validate`",
                ),
            }
            continue;
        }
        if argument.name == "namespaced" {
            errors.at(&argument.name, parameters::NAMESPACED);
        }
        let text = argument.text();
        named.push((argument.name.to_string(), argument.name, text));
        kube.push(argument.tokens);
    }
    let given = |name: &str| named.iter().find(|(given, _, _)| given == name);
    let missing: Vec<String> = ["group", "version", "kind"]
        .into_iter()
        .filter(|name| given(name).is_none())
        .map(|name| format!("`{name}`"))
        .collect();
    if complete && !missing.is_empty() {
        let missing = missing.join(", ");
        let example = r#"group = "example.com", version = "v1alpha1", kind = "Window""#;
        errors.add(syn::Error::new(
            Span::call_site(),
            format!("`#[parameters]` needs {missing}: `#[parameters({example})]`"),
        ));
    }
    let object = given("struct").or_else(|| given("kind"));
    let object = object.and_then(|(_, place, text)| {
        let name = syn::parse_str::<Ident>(text.as_deref()?).ok()?;
        Some(Ident::new(&name.to_string(), place.span()))
    });
    if complete && object.is_none() && given("kind").is_some() {
        let place = given("kind").map(|(_, place, _)| place);
        errors.at(place, parameters::NO_TYPE);
    }
    Options {
        kube,
        object,
        validate,
    }
}

/// Reports likely mistakes, for which the derives have less precise errors.
fn check_item(input: &DeriveInput, object: Option<&Ident>, errors: &mut Errors) {
    if object.is_some_and(|object| *object == input.ident) {
        let name = &input.ident;
        errors.at(
            name,
            format!("`{name}` is made by the macro, with `metadata` and this struct as its `spec`: call this struct `{name}Spec`"),
        );
    }
    if !input.generics.params.is_empty() {
        errors.at(&input.generics, "parameters have no type parameters");
    }
    for attribute in &input.attrs {
        if attribute.path().is_ident("kube") {
            errors.at(
                attribute,
                "write it as an argument of `#[parameters]`, which passes it on",
            );
        }
        if !attribute.path().is_ident("derive") {
            continue;
        }
        let derives = attribute.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated);
        for derive in derives.into_iter().flatten() {
            let known = derive
                .segments
                .last()
                .filter(|last| DERIVES.contains(&last.ident.to_string().as_str()));
            if let Some(last) = known {
                let name = last.ident.to_string();
                errors.at(
                    derive,
                    format!("`#[parameters]` derives `{name}`: remove it here"),
                );
            }
        }
    }
}
