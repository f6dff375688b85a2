//! `#[admission_check]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Expr, ExprArray, ExprLit, FnArg, ItemFn, Lit, LitStr, MetaNameValue, ReturnType,
    Token, Type,
};

use crate::errors::Errors;

const KNOWN: &str = "`controller`, `timeout`, `annotations`, `policy`, `on_activate`, `on_release`, `state` and `previewable`";
/// The number of arguments that `Handler` is implemented for.
const MOST_ARGUMENTS: usize = 8;

/// The arguments of the attribute.
#[derive(Default)]
struct Options {
    controller: Option<LitStr>,
    timeout: Option<(LitStr, u64)>,
    annotations: Vec<LitStr>,
    policy: Option<Expr>,
    on_activate: Option<Expr>,
    on_release: Option<Expr>,
    state: Option<Type>,
    previewable: Option<bool>,
}

pub(crate) fn expand(arguments: TokenStream, function: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let options = options(arguments, &mut errors);
    let Some(function) = errors.take(syn::parse2::<ItemFn>(function.clone())) else {
        return errors.into_tokens().unwrap_or(function);
    };
    check_signature(&function, &mut errors);
    let state = state_type(&function, &options, &mut errors);
    if let Some(errors) = errors.into_tokens() {
        return quote!(#errors #function);
    }
    generate(&function, &options, state.as_ref())
}

/// An argument. Its name decides whether it is a type or an expression.
enum Argument {
    Value(MetaNameValue),
    State(Type),
    Previewable(Ident),
}

impl Argument {
    fn name(&self) -> String {
        match self {
            Self::Value(pair) => pair.path.to_token_stream().to_string(),
            Self::State(_) => "state".to_owned(),
            Self::Previewable(_) => "previewable".to_owned(),
        }
    }
}

impl ToTokens for Argument {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Value(pair) => pair.to_tokens(tokens),
            Self::State(state) => state.to_tokens(tokens),
            Self::Previewable(name) => name.to_tokens(tokens),
        }
    }
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let ahead = input.fork();
        if ahead.parse::<Ident>().is_ok_and(|name| name == "state") && ahead.peek(Token![=]) {
            input.parse::<Ident>()?;
            input.parse::<Token![=]>()?;
            return input.parse().map(Self::State);
        }
        let ahead = input.fork();
        if ahead
            .parse::<Ident>()
            .is_ok_and(|name| name == "previewable")
            && !ahead.peek(Token![=])
        {
            return input.parse().map(Self::Previewable);
        }
        input.parse().map(Self::Value)
    }
}

fn options(arguments: TokenStream, errors: &mut Errors) -> Options {
    let mut options = Options::default();
    let parsed = Punctuated::<Argument, Token![,]>::parse_terminated.parse2(arguments);
    let mut given = std::collections::BTreeSet::new();
    for argument in errors.take(parsed).unwrap_or_default() {
        if !given.insert(argument.name()) {
            let name = argument.name();
            errors.at(&argument, format!("`{name}` is given twice"));
        }
        let pair = match argument {
            Argument::State(state) => {
                options.state = Some(state);
                continue;
            }
            Argument::Previewable(_) => {
                options.previewable = Some(true);
                continue;
            }
            Argument::Value(pair) => pair,
        };
        match pair.path.to_token_stream().to_string().as_str() {
            "controller" => options.controller = text(&pair.value, errors),
            "timeout" => {
                options.timeout = text(&pair.value, errors).and_then(|text| duration(text, errors));
            }
            "annotations" => options.annotations = texts(&pair.value, errors),
            "policy" => options.policy = Some(pair.value),
            "on_activate" => options.on_activate = Some(pair.value),
            "on_release" => options.on_release = Some(pair.value),
            "previewable" => options.previewable = flag(&pair.value, errors),
            other => errors.at(
                &pair.path,
                format!("unknown argument `{other}`: the arguments are {KNOWN}"),
            ),
        }
    }
    match &options.controller {
        Some(name) => check_name(name, errors),
        None => errors.add(syn::Error::new(
            Span::call_site(),
            "the controller's name is missing: write `#[admission_check(controller = \"example.com/name\")]`; AdmissionChecks choose it with `spec.controllerName`",
        )),
    }
    options
}

fn flag(value: &Expr, errors: &mut Errors) -> Option<bool> {
    if let Expr::Lit(ExprLit {
        lit: Lit::Bool(flag),
        ..
    }) = ungrouped(value)
    {
        return Some(flag.value);
    }
    errors.at(value, "expected `true` or `false`");
    None
}

fn text(value: &Expr, errors: &mut Errors) -> Option<LitStr> {
    if let Expr::Lit(ExprLit {
        lit: Lit::Str(text),
        ..
    }) = ungrouped(value)
    {
        return Some(text.clone());
    }
    errors.at(value, "expected a string");
    None
}

/// Returns the expression in the invisible group of one that `macro_rules!` inserts.
pub(crate) fn ungrouped(value: &Expr) -> &Expr {
    match value {
        Expr::Group(group) => ungrouped(&group.expr),
        _ => value,
    }
}

fn texts(value: &Expr, errors: &mut Errors) -> Vec<LitStr> {
    if let Expr::Array(ExprArray { elems, .. }) = ungrouped(value) {
        elems
            .iter()
            .filter_map(|element| text(element, errors))
            .collect()
    } else {
        errors.at(
            value,
            "expected a list of strings: `annotations = [\"example.com/team\"]`",
        );
        Vec::new()
    }
}

fn check_name(name: &LitStr, errors: &mut Errors) {
    let value = name.value();
    if value.is_empty() || value.len() > 253 || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        errors.at(
            name,
            "a controller name has 1 to 253 printable characters, by convention `domain/name`",
        );
    }
}

/// Parses a duration such as `10s` to milliseconds.
fn duration(text: LitStr, errors: &mut Errors) -> Option<(LitStr, u64)> {
    let value = text.value();
    let number_end = value
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(value.len());
    let (number, unit) = value.split_at(number_end);
    let factor = match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let millis = number
        .parse::<u64>()
        .ok()
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor));
    if let Some(millis) = millis.filter(|millis| *millis > 0) {
        Some((text, millis))
    } else {
        errors.at(
            &text,
            "expected a duration such as \"500ms\", \"10s\" or \"2m\"",
        );
        None
    }
}

fn check_signature(function: &ItemFn, errors: &mut Errors) {
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        errors.at(
            signature.fn_token,
            "a check is an async function: write `async fn`",
        );
    }
    if !signature.generics.params.is_empty() || signature.generics.where_clause.is_some() {
        errors.at(
            &signature.generics,
            "a check has no generic parameters: it is one type, which is registered once",
        );
    }
    if let syn::Safety::Unsafe(unsafety) = &signature.safety {
        errors.at(unsafety, "a check is a safe function");
    }
    if let ReturnType::Default = signature.output {
        errors.at(
            &signature.ident,
            "a check returns a `Verdict`, or a `Result` of one: add `-> Verdict`",
        );
    }
    if signature.inputs.len() > MOST_ARGUMENTS {
        errors.at(&signature.inputs, format!("a check takes at most {MOST_ARGUMENTS} arguments: take `Request` for everything at once"));
    }
    for argument in &signature.inputs {
        match argument {
            FnArg::Receiver(receiver) => {
                errors.at(receiver, "a check is a free function: keep state in a `State<T>` argument, or implement `AdmissionCheckController`");
            }
            FnArg::Typed(typed) => match &*typed.ty {
                Type::Reference(reference) => {
                    errors.at(
                        reference,
                        "arguments are taken by value: the extractors are cheap to clone",
                    );
                }
                Type::ImplTrait(opaque) => errors.at(
                    opaque,
                    "an argument's type must be named: it selects what to take from the request",
                ),
                _ => {}
            },
        }
    }
}

/// Returns the type that `with_state` takes, if the function has a state.
fn state_type(function: &ItemFn, options: &Options, errors: &mut Errors) -> Option<Type> {
    if options.state.is_some() {
        return options.state.clone();
    }
    let states: Vec<Type> = argument_types(function)
        .filter_map(|argument| inside_state(&argument))
        .collect();
    let distinct = states
        .iter()
        .map(|state| state.to_token_stream().to_string())
        .collect::<std::collections::BTreeSet<_>>();
    if distinct.len() > 1 {
        errors.at(&function.sig.inputs, "the states are parts of one type: name it with `state = Type`, and implement `FromRef<Type>` for each part");
    }
    states.into_iter().next()
}

/// Returns `T` of `State<T>`.
fn inside_state(argument: &Type) -> Option<Type> {
    let Type::Path(path) = argument else {
        return None;
    };
    let last = path.path.segments.last()?;
    if last.ident != "State" {
        return None;
    }
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        syn::GenericArgument::Type(inner) => Some(inner.clone()),
        _ => None,
    })
}

fn argument_types(function: &ItemFn) -> impl Iterator<Item = Type> {
    function
        .sig
        .inputs
        .iter()
        .filter_map(|argument| match argument {
            FnArg::Typed(typed) => Some((*typed.ty).clone()),
            FnArg::Receiver(_) => None,
        })
}

fn generate(function: &ItemFn, options: &Options, state: Option<&Type>) -> TokenStream {
    let name = &function.sig.ident;
    let visibility = &function.vis;
    let (docs, others): (Vec<&Attribute>, Vec<&Attribute>) = function
        .attrs
        .iter()
        .partition(|attribute| attribute.path().is_ident("doc"));
    let mut decide = function.clone();
    decide.attrs = others.into_iter().cloned().collect();
    decide.vis = syn::parse_quote!(pub);
    decide.sig.ident = format_ident!("decide", span = name.span());
    let assertions = assertions(function, state);
    let no_docs = docs.is_empty().then(|| {
        let text = format!(
            "The admission check of `{}`.",
            options
                .controller
                .as_ref()
                .map(LitStr::value)
                .unwrap_or_default()
        );
        quote!(#[doc = #text])
    });
    let check = match state {
        None => without_state(function, options),
        Some(state) => with_state(function, options, state),
    };
    quote! {
        #(#docs)*
        #no_docs
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, Default)]
        #visibility struct #name;

        const _: () = {
            // A unit struct's name cannot be bound in a pattern, but a function's can: an argument
            // may have the check's own name.
            #[allow(dead_code)]
            fn #name() {}

            impl #name {
                /// The function itself, to call it in a test.
                #[allow(clippy::unused_async, clippy::missing_errors_doc)]
                #decide
            }

            #assertions
            #check
        };
    }
}

/// Makes one hidden function for each argument and one for the result, so that an error points at
/// its cause.
fn assertions(function: &ItemFn, state: Option<&Type>) -> TokenStream {
    let state = state.map_or_else(|| quote!(()), ToTokens::to_token_stream);
    let arguments = argument_types(function).map(|argument| {
        quote_spanned! {argument.span()=>
            const _: () = {
                fn is_an_extractor<T: ::kueue_check::handler::FromCheckRequest<#state>>() {}
                fn assert() { is_an_extractor::<#argument>(); }
            };
        }
    });
    let output = match &function.sig.output {
        ReturnType::Default => None,
        ReturnType::Type(_, output) => Some(quote_spanned! {output.span()=>
            const _: () = {
                fn is_a_verdict<T: ::kueue_check::handler::IntoVerdict>() {}
                fn assert() { is_a_verdict::<#output>(); }
            };
        }),
    };
    quote!(#(#[allow(dead_code)] #arguments)* #[allow(dead_code)] #output)
}

/// Returns the type of the parameters, from the arguments.
fn parameters_type(function: &ItemFn, state: &TokenStream) -> TokenStream {
    let types: Vec<Type> = argument_types(function).collect();
    let nested = types
        .iter()
        .rev()
        .fold(quote!(()), |rest, argument| quote!((#argument, #rest)));
    quote!(<<#nested as ::kueue_check::handler::CollectRequirements<#state>>::Requirements as ::kueue_check::handler::ResolveRequirements>::Parameters)
}

/// Returns the builder methods of the attribute's arguments, each at its argument.
fn settings(options: &Options, has_state: bool) -> TokenStream {
    let timeout = options
        .timeout
        .as_ref()
        .map(|(_, millis)| quote!(.timeout(::core::time::Duration::from_millis(#millis))));
    let names = &options.annotations;
    let annotations = (!names.is_empty()).then(|| quote!(.annotations([#(#names),*])));
    let policy = options
        .policy
        .as_ref()
        .map(|policy| quote_spanned!(policy.span()=> .policy(#policy)));
    let hook = |method: &str, hook: &Option<Expr>| {
        hook.as_ref().map(|function| {
            let method = format_ident!("{method}", span = function.span());
            if has_state {
                quote_spanned! {function.span()=>
                    .#method({
                        let __kueue_check_state = ::std::sync::Arc::clone(&__kueue_check_state);
                        move |__kueue_check_a, __kueue_check_b| (#function)(
                            ::std::sync::Arc::clone(&__kueue_check_state),
                            __kueue_check_a,
                            __kueue_check_b,
                        )
                    })
                }
            } else {
                quote_spanned!(function.span()=> .#method(#function))
            }
        })
    };
    let on_activate = hook("on_activate", &options.on_activate);
    let on_release = hook("on_release", &options.on_release);
    let previewable = options.previewable.unwrap_or(!has_state);
    quote!(#timeout #annotations #policy #on_activate #on_release .previewable(#previewable))
}

/// Makes the unit type the controller. Generated locals have names that no item of the module has: a
/// unit struct, such as another check, cannot be shadowed by a binding.
fn without_state(function: &ItemFn, options: &Options) -> TokenStream {
    let name = &function.sig.ident;
    let parameters = parameters_type(function, &quote!(()));
    let controller = &options.controller;
    let types: Vec<Type> = argument_types(function).collect();
    let settings = settings(options, false);
    quote! {
        impl ::kueue_check::AdmissionCheckController for #name {
            type Parameters = #parameters;

            fn controller_name(&self) -> ::kueue_check::ControllerName {
                const { ::kueue_check::ControllerName::from_static(#controller) }
            }

            async fn evaluate(
                &self,
                __kueue_check_request: ::kueue_check::CheckRequest<Self::Parameters>,
            ) -> ::core::result::Result<::kueue_check::Verdict, ::kueue_check::CheckError> {
                ::kueue_check::handler::Handler::<(#(#types,)*), ()>::call(
                    #name::decide,
                    ::core::clone::Clone::clone(__kueue_check_request.request()),
                    ::std::sync::Arc::new(()),
                ).await
            }

            fn configure(
                self: &::std::sync::Arc<Self>,
                __kueue_check_check: ::kueue_check::Check<Self::Parameters>,
            ) -> ::kueue_check::Check<Self::Parameters> {
                __kueue_check_check #settings
            }
        }
    }
}

/// Makes the unit type a constructor of the check, from a state.
fn with_state(function: &ItemFn, options: &Options, state: &Type) -> TokenStream {
    let name = &function.sig.ident;
    let visibility = &function.vis;
    let parameters = parameters_type(function, &state.to_token_stream());
    let types: Vec<Type> = argument_types(function).collect();
    let controller = &options.controller;
    let settings = settings(options, true);
    quote! {
        impl #name {
            /// The check with its state, ready to run.
            #visibility fn with_state(
                self,
                __kueue_check_state: #state,
            ) -> ::kueue_check::Check<#parameters> {
                let __kueue_check_state = ::std::sync::Arc::new(__kueue_check_state);
                ::kueue_check::Check::from_shared_state::<_, (#(#types,)*), #state>(
                    const { ::kueue_check::ControllerName::from_static(#controller) },
                    ::std::sync::Arc::clone(&__kueue_check_state),
                    #name::decide,
                ) #settings
            }
        }
    }
}
