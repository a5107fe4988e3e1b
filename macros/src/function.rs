//! `#[tracepoint]` on a function with a body: entry and return.
//!
//! ```text
//! fn charge(order_id: u64) -> R {
//!     __point!(enter) __point!(leave) __gate_key!(gate)
//!     let entry = if gate(enter, leave) { enter(order_id) } else { OFF };      one NOP; cold
//!     call1(entry, |order_id| -> R { body }, order_id, |start, end, result| leave(…))
//! }
//! ```
//! `call1` runs the body: inline where it is off, through an outlined function that keeps the entry's
//! stamp where it is on. So the stamp lives only there, and an exit is emitted exactly where the entry
//! was. The body takes the arguments as its own parameters: where the compiler keeps it out of line,
//! both sides pass on the registers as they came. `self`, which a closure cannot have as a parameter,
//! is captured.
//!
//! What cannot move into a closure keeps its body in place, under a guard whose drop is the exit:
//! `#[track_caller]`, and `impl Trait` results, whose inference hints a closure would lose. In an
//! `async fn` the guard stands inside, around an async block with the body.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Error, ReturnType, Signature, Token, Type, TypeInfer};

use crate::arguments::{self, Binding};
use crate::attribute::Options;
use crate::field::{Field, generated};
use crate::item::Item;
use crate::outcome::Outcome;
use crate::point::{FLAG_RETURN, Point};
use crate::print;
use crate::site;

/// Bodies with more parameters capture them.
const MAX_PARAMETERS: usize = 8;

/// How a body is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// In a closure.
    Closure,
    /// Where it stands, under a guard.
    InPlace,
    /// In an async block, under a guard.
    Async,
}

pub(crate) fn expand(item: Item, body: &Group, mut options: Options) -> syn::Result<TokenStream> {
    let Item {
        attributes,
        visibility,
        mut signature,
        ..
    } = item;
    check(&signature)?;
    let (inner, body) = split_inner_attributes(body);
    let result = Result::of(&signature);
    let outcome = Outcome::new(&options, &signature)?;
    let style = style(&attributes, &signature, &result, &outcome)?;
    let bindings = arguments::bindings(&mut signature, style != Style::InPlace);
    let fields = arguments::fields(&signature, &bindings, &mut options)?;
    if let Some(print) = &options.print {
        print::check(
            print,
            &fields
                .iter()
                .map(|field| field.name.as_str())
                .collect::<Vec<_>>(),
        )?;
    }

    let (provider, name) = options.names(&signature.ident)?;
    let entry = Point::new(
        provider.clone(),
        name.clone(),
        options.print.as_ref(),
        &fields,
    );
    let exit = Point {
        provider,
        name: format!("{name}__return"),
        print: String::new(),
        flags: FLAG_RETURN,
        fields: ["ns", "end"]
            .into_iter()
            .chain(outcome.names())
            .map(str::to_owned)
            .collect(),
        is_plain_return: !outcome.is_asked(),
    };

    let (enter, leave, gate) = (site::name("enter"), site::name("leave"), site::name("gate"));
    let (entered, left) = (site::name("entered"), site::name("left"));
    let define_entry = entry.define(&enter);
    // Without a result, emitting a return takes its address only.
    let (define_exit, on_exit) = match outcome.is_asked() {
        true => (exit.define(&leave), outcome.closure(&leave, &left)),
        false => (exit.define_address(&leave), quote!(#leave)),
    };
    let define_gate = options.gate.define(
        &gate,
        signature.ident.span(),
        &[("e", &entry), ("r", &exit)],
    );
    let emission = site::emission(&enter, &entered, &fields);
    let allow = arguments::allow_for(&bindings, &fields);
    let run = Body {
        block: &body,
        bindings: &bindings,
        used: used(&bindings, &fields, &options.skip),
        result: &result.hint,
        on_exit,
        reads: outcome.is_asked(),
    }
    .run(style);
    let statements = quote_spanned! {Span::mixed_site()=>
        #define_entry
        #define_exit
        #define_gate
        let (#entered, #left) = (::tracebraid::__private::kinds(), ::tracebraid::__private::kinds());
        #allow
        let entry = if #gate(#entered, #left) {
            #emission
        } else {
            ::tracebraid::__private::Entry::OFF
        };
        #run
    };
    let statements = braced(statements, &body);
    Ok(quote!(#(#attributes)* #inner #visibility #signature #statements))
}

/// A block with the span of the user's body: tools that look for code by place, such as coverage, find
/// what is in it.
fn braced(statements: TokenStream, body: &Group) -> Group {
    let mut block = Group::new(Delimiter::Brace, statements);
    block.set_span(body.span());
    block
}

/// Chooses the style, and refuses what it cannot do.
fn style(
    attributes: &[Attribute],
    signature: &Signature,
    result: &Result,
    outcome: &Outcome,
) -> syn::Result<Style> {
    if signature.asyncness.is_some() {
        return match outcome.needs_type() {
            Some(ret) if result.unnamed => Err(Error::new(
                ret,
                "`ret` of a type without a name: write `ret = ?` for Debug or `ret = %` for Display",
            )),
            _ => Ok(Style::Async),
        };
    }
    let tracks_caller = attributes
        .iter()
        .any(|attribute| attribute.path().is_ident("track_caller"));
    match outcome.span() {
        Some(asked) if tracks_caller => Err(Error::new(
            asked,
            "`ret` and `err` cannot be had of a function with `#[track_caller]`: remove one of the two",
        )),
        None if tracks_caller || result.unnamed => Ok(Style::InPlace),
        _ => Ok(Style::Closure),
    }
}

/// Refuses functions that cannot have a tracepoint.
fn check(signature: &Signature) -> syn::Result<()> {
    if let Some(token) = &signature.constness {
        return Err(Error::new(
            token.span,
            "a `const fn` cannot have a tracepoint, since the compiler may run it: \
             remove `const`, or put `event!` where it is called",
        ));
    }
    if let Some(variadic) = &signature.variadic {
        return Err(Error::new(
            variadic.dots.spans[0],
            "a function with variadic arguments cannot have a tracepoint: put `event!` into its body",
        ));
    }
    Ok(())
}

/// A block of generated statements and then the user's body. That is a block of its own, so that it
/// may begin with items.
fn after(statements: TokenStream, body: &Group) -> Group {
    if statements.is_empty() {
        return body.clone();
    }
    let inner = within(body);
    braced(quote!(#statements #inner), body)
}

/// The user's body as a block inside of one.
fn within(body: &Group) -> Group {
    let mut inner = Group::new(Delimiter::Brace, body.stream());
    inner.set_span(generated(body.span()));
    inner
}

/// Takes inner attributes off a body; they stand before the function instead.
fn split_inner_attributes(body: &Group) -> (TokenStream, Group) {
    let mut attributes = TokenStream::new();
    let mut rest = body.stream().into_iter().peekable();
    let mut left = TokenStream::new();
    while let Some(token) = rest.next() {
        let is_hash = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#');
        let is_bang =
            matches!(rest.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == '!');
        if !(is_hash && is_bang) {
            left.extend([token]);
            break;
        }
        rest.next();
        attributes.extend([token]);
        attributes.extend(rest.next());
    }
    left.extend(rest);
    (attributes, braced(left, body))
}

/// The variables that the tracepoint reads: the body need not.
fn used(bindings: &[Binding], fields: &[Field], skipped: &[syn::Ident]) -> TokenStream {
    let used = bindings.iter().filter(|binding| {
        let name = &binding.name;
        !arguments::looks_unused(name)
            && !skipped.contains(name)
            && fields
                .iter()
                .any(|field| arguments::mentions(&field.value, name))
    });
    let used: Vec<_> = used.map(|binding| &binding.name).collect();
    if used.is_empty() {
        return TokenStream::new();
    }
    quote_spanned!(Span::mixed_site()=> let _ = (#(&#used,)*);)
}

/// A body, and what goes into it.
struct Body<'a> {
    block: &'a Group,
    bindings: &'a [Binding],
    /// Statement that uses what the tracepoint reads.
    used: TokenStream,
    /// The type of its value.
    result: &'a TokenStream,
    /// What emits the return: a closure that reads the result, or a function that knows the point.
    on_exit: TokenStream,
    /// Whether it is the closure.
    reads: bool,
}

impl Body<'_> {
    /// The statements that run the body and end the function.
    fn run(&self, style: Style) -> TokenStream {
        match style {
            Style::InPlace => self.in_place(),
            Style::Async => self.in_async_block(),
            Style::Closure if self.bindings.len() > MAX_PARAMETERS => self.in_capturing_closure(),
            Style::Closure => self.in_closure(),
        }
    }

    fn in_place(&self) -> TokenStream {
        let Body { block, on_exit, .. } = self;
        let inner = within(block);
        quote_spanned! {Span::mixed_site()=>
            let _guard = ::tracebraid::__private::Frame::new(entry, #on_exit);
            #inner
        }
    }

    fn in_async_block(&self) -> TokenStream {
        let Body {
            block,
            used,
            result,
            on_exit,
            ..
        } = self;
        let span = Span::mixed_site();
        let rebind = self.rebind();
        let new = Ident::new(if self.reads { "read" } else { "plain" }, span);
        // The first `return` tells the compiler the type of the block, as a signature would.
        let mut of = (*result).clone().into_iter();
        let at = of.next().map_or(span, |token| generated(token.span()));
        let hint =
            quote_spanned!(at=> if false { return ::tracebraid::__private::never::<#result>(); });
        let block = after(quote!(#hint #used #rebind), block);
        quote_spanned! {span=>
            let guard = ::tracebraid::__private::Task::<#result, _>::#new(entry, #on_exit);
            let result = async move #block.await;
            guard.finish(&result);
            result
        }
    }

    fn in_capturing_closure(&self) -> TokenStream {
        let Body {
            block,
            used,
            result,
            on_exit,
            ..
        } = self;
        let (rebind, call) = (self.rebind(), self.call(0));
        let block = after(quote!(#used #rebind), block);
        quote_spanned! {Span::mixed_site()=>
            ::tracebraid::__private::#call(entry, move || -> #result #block, #on_exit)
        }
    }

    fn in_closure(&self) -> TokenStream {
        let Body {
            block,
            bindings,
            used,
            result,
            on_exit,
            ..
        } = self;
        let span = Span::mixed_site();
        let call = self.call(bindings.len());
        let block = after(used.clone(), block);
        let mut lets = TokenStream::new();
        let mut parameters = TokenStream::new();
        let mut arguments = TokenStream::new();
        for (index, Binding { name, mutable }) in bindings.iter().enumerate() {
            parameters.extend(match mutable {
                true => quote_spanned!(span=> mut #name,),
                false => quote_spanned!(span=> #name,),
            });
            if arguments::looks_unused(name) {
                let allow = arguments::allow_underscores();
                let moved = format_ident!("argument{index}", span = span);
                lets.extend(quote_spanned!(span=> #allow let #moved = #name;));
                arguments.extend(quote_spanned!(span=> #moved,));
            } else {
                arguments.extend(quote_spanned!(span=> #name,));
            }
        }
        quote_spanned! {span=>
            #lets
            ::tracebraid::__private::#call(entry, move |#parameters| -> #result #block, #arguments #on_exit)
        }
    }

    /// The function of the SDK that runs a body with so many parameters.
    fn call(&self, parameters: usize) -> Ident {
        let name = if self.reads { "read" } else { "call" };
        format_ident!("{name}{parameters}", span = Span::mixed_site())
    }

    /// Makes variables mutable again, inside a body that captured them.
    fn rebind(&self) -> TokenStream {
        let muts = self
            .bindings
            .iter()
            .filter(|binding| binding.mutable)
            .map(|binding| {
                let name = &binding.name;
                let allow = if arguments::looks_unused(name) {
                    arguments::allow_underscores()
                } else {
                    TokenStream::new()
                };
                quote_spanned!(Span::mixed_site()=> #allow let mut #name = #name;)
            });
        muts.collect()
    }
}

/// What a function returns.
struct Result {
    /// Its type as an expression may state it: unnamed parts are left to inference.
    hint: TokenStream,
    /// Whether it has such parts: `impl Trait`.
    unnamed: bool,
}

impl Result {
    fn of(signature: &Signature) -> Result {
        let ReturnType::Type(_, of) = &signature.output else {
            return Result {
                hint: quote_spanned!(Span::mixed_site()=> ()),
                unnamed: false,
            };
        };
        let mut of = of.clone();
        let mut unnamed = Unnamed(false);
        unnamed.visit_type_mut(&mut of);
        Result {
            hint: quote!(#of),
            unnamed: unnamed.0,
        }
    }
}

/// Replaces `impl Trait` by `_`.
struct Unnamed(bool);

impl VisitMut for Unnamed {
    fn visit_type_mut(&mut self, of: &mut Type) {
        if matches!(of, Type::ImplTrait(_)) {
            self.0 = true;
            *of = Type::Infer(TypeInfer {
                underscore_token: Token![_](Span::mixed_site()),
            });
        } else {
            visit_mut::visit_type_mut(self, of);
        }
    }
}
