//! What a file of Rust names: its code as the compiler reads it, tests aside, with every `use` followed. Does not know what may
//! be named where.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::Visit;
use syn::visit_mut::{self, VisitMut};

/// A path as written, `["super", "state", "State"]`.
pub(crate) type Path = Vec<String>;

/// One name that a `use` brings in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// The name here; absent for `*`.
    pub(crate) alias: Option<String>,
    /// What it stands for; of `a::*`, `a`.
    pub(crate) path: Path,
    /// It is handed on: `pub use`.
    pub(crate) public: bool,
}

/// The code of one file.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) imports: Vec<Import>,
    /// Every path in expressions, types, patterns and the arguments of macros; single names too.
    pub(crate) paths: BTreeSet<Path>,
    /// `elapsed()` of `.elapsed()`: methods that are called with nothing.
    pub(crate) methods: BTreeSet<String>,
    /// `println` of `std::println!`.
    pub(crate) macros: BTreeSet<String>,
    /// What the file itself defines, at its outermost level.
    pub(crate) items: BTreeSet<String>,
    /// Modules that are there for tests alone.
    pub(crate) test_modules: BTreeSet<String>,
}

impl Code {
    pub(crate) fn of(text: &str) -> syn::Result<Code> {
        let mut file = syn::parse_file(text)?;
        let mut code = Code::default();
        for item in &file.items {
            match item {
                syn::Item::Mod(module) if is_test(&module.attrs) => {
                    code.test_modules.insert(module.ident.to_string());
                }
                item => code.items.extend(name_of(item)),
            }
        }
        WithoutTests.visit_file_mut(&mut file);
        let mut uses = Uses::default();
        uses.visit_file(&file);
        code.imports = uses.0;
        WithoutUses.visit_file_mut(&mut file);
        code.read(file.into_token_stream());
        Ok(code)
    }

    /// Every path in full that the file names, as far as its own `use` tells: `fs::read` after `use std::fs` is
    /// `std::fs::read`. Methods are `.name()`, macros `name!`.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for import in &self.imports {
            names.insert(import.path.join("::") + if import.alias.is_some() { "" } else { "::*" });
        }
        for path in &self.paths {
            if path.len() > 1 {
                names.insert(path.join("::"));
            }
            for import in &self.imports {
                let rest = match &import.alias {
                    Some(alias) if *alias == path[0] => &path[1..],
                    Some(_) => continue,
                    None => &path[..],
                };
                names.insert([&import.path[..], rest].concat().join("::"));
            }
        }
        names.extend(self.methods.iter().map(|method| format!(".{method}")));
        names.extend(self.macros.iter().map(|name| format!("{name}!")));
        names
    }

    fn read(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is = |at: usize, what: char| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == what);
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.read(group.stream()),
                TokenTree::Ident(first) => {
                    let after_dot = at > 0 && is(at - 1, '.') && !(at > 1 && is(at - 2, '.'));
                    let mut path = vec![first.to_string()];
                    while let (true, true, Some(TokenTree::Ident(next))) =
                        (is(at + 1, ':'), is(at + 2, ':'), tokens.get(at + 3))
                    {
                        path.push(next.to_string());
                        at += 3;
                    }
                    if is(at + 1, '!') && matches!(tokens.get(at + 2), Some(TokenTree::Group(_))) {
                        self.macros.extend(path.last().cloned());
                    }
                    let name = path.last().cloned().unwrap_or_default();
                    match tokens.get(at + 1) {
                        _ if !after_dot => {
                            self.paths.insert(path);
                        }
                        Some(TokenTree::Group(none)) if none.stream().is_empty() => {
                            self.methods.insert(format!("{name}()"));
                        }
                        _ => {}
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            at += 1;
        }
    }
}

fn is_test(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| match &attr.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) => list.path.is_ident("cfg") && asks_for_tests(list.tokens.clone()),
        syn::Meta::NameValue(_) => false,
    })
}

/// `test`, or `all(test, …)`; not `not(test)` or `any(test, …)`, which are there without tests too.
fn asks_for_tests(condition: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = condition.into_iter().collect();
    tokens.split(|token| matches!(token, TokenTree::Punct(p) if p.as_char() == ',')).any(|one| match one {
        [TokenTree::Ident(name)] => name == "test",
        [TokenTree::Ident(name), TokenTree::Group(group)] => {
            name == "all" && group.delimiter() == Delimiter::Parenthesis && asks_for_tests(group.stream())
        }
        _ => false,
    })
}

fn name_of(item: &syn::Item) -> Option<String> {
    use syn::Item;
    let name = match item {
        Item::Const(x) => &x.ident,
        Item::Enum(x) => &x.ident,
        Item::Fn(x) => &x.sig.ident,
        Item::Macro(x) => x.ident.as_ref()?,
        Item::Mod(x) => x.content.as_ref().map(|_| &x.ident)?,
        Item::Static(x) => &x.ident,
        Item::Struct(x) => &x.ident,
        Item::Trait(x) => &x.ident,
        Item::Type(x) => &x.ident,
        Item::Union(x) => &x.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item;
    match item {
        Item::Const(x) => &x.attrs,
        Item::Enum(x) => &x.attrs,
        Item::ExternCrate(x) => &x.attrs,
        Item::Fn(x) => &x.attrs,
        Item::ForeignMod(x) => &x.attrs,
        Item::Impl(x) => &x.attrs,
        Item::Macro(x) => &x.attrs,
        Item::Mod(x) => &x.attrs,
        Item::Static(x) => &x.attrs,
        Item::Struct(x) => &x.attrs,
        Item::Trait(x) => &x.attrs,
        Item::Type(x) => &x.attrs,
        Item::Union(x) => &x.attrs,
        Item::Use(x) => &x.attrs,
        _ => &[],
    }
}

/// Takes out what is compiled for tests alone, wherever it stands.
struct WithoutTests;

impl VisitMut for WithoutTests {
    fn visit_file_mut(&mut self, file: &mut syn::File) {
        file.items.retain(|item| !is_test(attributes(item)));
        visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain(|item| !is_test(attributes(item)));
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, block: &mut syn::ItemImpl) {
        block.items.retain(|item| match item {
            syn::ImplItem::Fn(x) => !is_test(&x.attrs),
            syn::ImplItem::Const(x) => !is_test(&x.attrs),
            _ => true,
        });
        visit_mut::visit_item_impl_mut(self, block);
    }

    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain(|statement| match statement {
            syn::Stmt::Item(item) => !is_test(attributes(item)),
            syn::Stmt::Local(local) => !is_test(&local.attrs),
            syn::Stmt::Macro(call) => !is_test(&call.attrs),
            syn::Stmt::Expr(..) => true,
        });
        visit_mut::visit_block_mut(self, block);
    }
}

/// Takes out the declarations that are read apart, and the visibilities, whose `pub(super)` names nothing.
struct WithoutUses;

impl VisitMut for WithoutUses {
    fn visit_file_mut(&mut self, file: &mut syn::File) {
        file.items.retain(|item| !matches!(item, syn::Item::Use(_)));
        visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain(|item| !matches!(item, syn::Item::Use(_)));
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain(|statement| !matches!(statement, syn::Stmt::Item(syn::Item::Use(_))));
        visit_mut::visit_block_mut(self, block);
    }

    fn visit_visibility_mut(&mut self, visibility: &mut syn::Visibility) {
        *visibility = syn::Visibility::Inherited;
    }
}

#[derive(Default)]
struct Uses(Vec<Import>);

impl Uses {
    fn tree(&mut self, tree: &syn::UseTree, before: &Path, public: bool) {
        let with = |name: &syn::Ident| match name.to_string().as_str() {
            "self" if !before.is_empty() => before.clone(),
            name => [&before[..], &[name.to_owned()]].concat(),
        };
        match tree {
            syn::UseTree::Path(path) => self.tree(&path.tree, &with(&path.ident), public),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(tree, before, public)),
            syn::UseTree::Glob(_) => self.0.push(Import { alias: None, path: before.clone(), public }),
            syn::UseTree::Name(name) => {
                let path = with(&name.ident);
                self.0.push(Import { alias: path.last().cloned(), path, public });
            }
            syn::UseTree::Rename(name) => {
                self.0.push(Import { alias: Some(name.rename.to_string()), path: with(&name.ident), public });
            }
        }
    }
}

impl<'a> Visit<'a> for Uses {
    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.tree(&item.tree, &Vec::new(), !matches!(item.vis, syn::Visibility::Inherited));
    }

    fn visit_item_extern_crate(&mut self, item: &'a syn::ItemExternCrate) {
        let alias = item.rename.as_ref().map_or(&item.ident, |(_, name)| name);
        let path = vec![item.ident.to_string()];
        self.0.push(Import { alias: Some(alias.to_string()), path, public: false });
    }
}
