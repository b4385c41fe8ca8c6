//! Rust sources, read as syntax: which paths they name, outside tests.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute,
    spanned::Spanned as _,
    visit::{self, Visit},
};
use walkdir::WalkDir;

/// The repository: where the test is run, which may be a copy of where it was built.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&here).join("../..").canonicalize().unwrap()
}

/// One source file.
pub(crate) struct Source {
    /// From the repository's root.
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) syntax: syn::File,
}

/// All Rust files below these directories.
pub(crate) fn everything(below: &[impl AsRef<str>]) -> Vec<Source> {
    let paths = below.iter().flat_map(|directory| files(directory.as_ref(), "rs"));
    let mut found: Vec<Source> = paths.map(|path| read(&path)).collect();
    assert!(!found.is_empty(), "there are no sources there; correct the test");
    found.sort_by(|left, right| left.path.cmp(&right.path));
    found
}

/// The Rust files below these directories that are not for tests alone.
pub(crate) fn product(below: &[impl AsRef<str>]) -> Vec<Source> {
    let all = everything(below);
    let tests: BTreeSet<String> = all.iter().flat_map(test_modules).collect();
    all.into_iter().filter(|source| !tests.contains(&source.path)).collect()
}

/// The sources of all that is shipped.
pub(crate) fn shipped() -> Vec<Source> {
    let mut directories: Vec<String> = [
        "model",
        "wire",
        "egress",
        "telemetry",
        "supply",
        "crash",
        "host",
        "plane",
        "plane/store",
        "plane/store/sqlite",
        "cli",
    ]
    .map(|room| format!("{room}/src"))
    .to_vec();
    directories.extend(steps().into_iter().map(|step| format!("steps/{step}/src")));
    product(&directories)
}

/// The directories below `steps`, the SDK included.
pub(crate) fn steps() -> Vec<String> {
    let mut steps: Vec<String> = folders("steps");
    steps.retain(|step| root().join("steps").join(step).join("Cargo.toml").is_file());
    steps
}

/// Names of the directories in a directory, sorted.
pub(crate) fn folders(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(directory)).unwrap().map(|entry| entry.unwrap());
    let mut found: Vec<String> =
        entries.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name().into_string().unwrap()).collect();
    found.sort();
    found
}

/// Files with this ending below a directory, from the repository's root. Build outputs are left out.
pub(crate) fn files(directory: &str, ending: &str) -> Vec<String> {
    let root = root();
    let skipped = |name: &str| name == "target" || (name.starts_with('.') && name.len() > 1);
    WalkDir::new(root.join(directory))
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| entry.depth() == 0 || !skipped(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().extension().is_some_and(|found| found == ending))
        .map(|entry| entry.path().strip_prefix(&root).unwrap().to_str().unwrap().to_owned())
        .collect()
}

/// A file's text.
pub(crate) fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// One Rust file.
pub(crate) fn read(path: &str) -> Source {
    let text = text(path);
    let syntax = syn::parse_file(&text).unwrap_or_else(|error| panic!("{path} is not Rust: {error}"));
    Source { path: path.to_owned(), text, syntax }
}

/// Files that a file declares as `#[cfg(test)] mod name;`.
fn test_modules(source: &Source) -> Vec<String> {
    let path = Path::new(&source.path);
    let stem = path.file_stem().unwrap().to_string_lossy();
    let mut directory = path.parent().unwrap().to_owned();
    if !["lib", "main", "mod"].contains(&&*stem) {
        directory.push(&*stem);
    }
    let declared = source.syntax.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if module.content.is_none() && is_test(&module.attrs) => Some(module.ident.to_string()),
        _ => None,
    });
    declared
        .flat_map(|name| [directory.join(format!("{name}.rs")), directory.join(&name).join("mod.rs")])
        .map(|path| path.to_str().unwrap().to_owned())
        .collect()
}

/// Whether an item is for tests alone.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = attribute_text(attribute);
        text == "cfg(test)" || text == "test" || text == "tokio::test" || text.starts_with("tokio::test(")
    })
}

/// An attribute without white space: `cfg(test)`.
pub(crate) fn attribute_text(attribute: &Attribute) -> String {
    let meta = &attribute.meta;
    quoted(meta).split_whitespace().collect()
}

fn quoted(meta: &syn::Meta) -> String {
    match meta {
        syn::Meta::Path(path) => path_text(path),
        syn::Meta::List(list) => format!("{}({})", path_text(&list.path), list.tokens),
        syn::Meta::NameValue(pair) => format!("{}=", path_text(&pair.path)),
    }
}

fn path_text(path: &syn::Path) -> String {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>().join("::")
}

/// Something that a source names: a path, or a text.
pub(crate) struct Named {
    /// `std::fs::read`, as it is written; imports are written out.
    pub(crate) what: String,
    pub(crate) line: usize,
}

/// What a source names outside tests.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) paths: Vec<Named>,
    pub(crate) texts: Vec<Named>,
    with_tests: bool,
}

impl Source {
    /// What it names, outside tests.
    pub(crate) fn names(&self) -> Names {
        let mut names = Names::default();
        names.visit_file(&self.syntax);
        names
    }

    /// What it names, tests included.
    pub(crate) fn all_names(&self) -> Names {
        let mut names = Names { with_tests: true, ..Names::default() };
        names.visit_file(&self.syntax);
        names
    }
}

impl Names {
    fn skips(&self, attributes: &[Attribute]) -> bool {
        !self.with_tests && is_test(attributes)
    }

    fn import(&mut self, prefix: &str, tree: &syn::UseTree) {
        let below = |name: &str| if prefix.is_empty() { name.to_owned() } else { format!("{prefix}::{name}") };
        match tree {
            syn::UseTree::Path(path) => self.import(&below(&path.ident.to_string()), &path.tree),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(prefix, tree)),
            syn::UseTree::Name(name) if name.ident == "self" => self.path(prefix.to_owned(), name.ident.span()),
            syn::UseTree::Name(name) => self.path(below(&name.ident.to_string()), name.ident.span()),
            // What is used through another name cannot be told from here: it counts as everything below.
            syn::UseTree::Rename(rename) => {
                let path = below(&rename.ident.to_string());
                self.path(path.clone(), rename.ident.span());
                self.path(format!("{path}::*"), rename.ident.span());
            }
            syn::UseTree::Glob(glob) => self.path(below("*"), glob.span()),
        }
    }

    fn path(&mut self, what: String, span: proc_macro2::Span) {
        self.paths.push(Named { what, line: span.start().line });
    }

    /// Macros are not expanded; what their arguments name counts as it stands there.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        let mut start = None;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if colons == 2 && !path.is_empty() => path.push(ident.to_string()),
                TokenTree::Ident(ident) => {
                    self.flush(&mut path, start);
                    start = Some(ident.span());
                    path.push(ident.to_string());
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => {
                    self.flush(&mut path, start);
                    self.tokens(group.stream());
                }
                TokenTree::Literal(literal) => {
                    self.flush(&mut path, start);
                    if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                        self.texts.push(Named { what: text.value(), line: literal.span().start().line });
                    }
                }
                TokenTree::Punct(_) => self.flush(&mut path, start),
            }
            colons = 0;
        }
        self.flush(&mut path, start);
    }

    fn flush(&mut self, path: &mut Vec<String>, start: Option<proc_macro2::Span>) {
        if let (false, Some(start)) = (path.is_empty(), start) {
            self.path(path.join("::"), start);
        }
        path.clear();
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes: &[Attribute] = match item {
            syn::Item::Const(item) => &item.attrs,
            syn::Item::Enum(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Macro(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Static(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            syn::Item::Trait(item) => &item.attrs,
            syn::Item::Type(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => &[],
        };
        if !self.skips(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !self.skips(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import("", &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.path(path_text(path), path.span());
        visit::visit_path(self, path);
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.path(format!("{}!", path_text(&call.path)), call.path.span());
        self.tokens(call.tokens.clone());
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.texts.push(Named { what: text.value(), line: text.span().start().line });
    }
}

/// Whether `path` is `pattern`, or something in it: `std::fs::read` is within `std::fs`. A pattern
/// that starts with `::` is looked for at any depth: `::Command::new`.
pub(crate) fn is_within(path: &str, pattern: &str) -> bool {
    let (path, pattern) = match pattern.strip_prefix("::") {
        Some(tail) => return format!("::{path}::").contains(&format!("::{tail}::")),
        None => (path.strip_prefix("core::").map_or_else(|| path.to_owned(), |rest| format!("std::{rest}")), pattern),
    };
    path.strip_prefix(pattern).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[test]
fn paths_are_found_in_imports_code_and_macros_but_not_in_tests() {
    let text = r#"
        use std::{fs, io::{self, Read as _}};
        fn f() { let _ = std::env::var("A"); println!("{:?}", std::net::lookup("b")); }
        #[cfg(test)] mod tests { use std::process; }
        #[test] fn g() { std::thread::yield_now(); }
    "#;
    let source = Source { path: String::new(), text: text.to_owned(), syntax: syn::parse_file(text).unwrap() };
    let names = source.names();
    let paths: Vec<&str> = names.paths.iter().map(|path| path.what.as_str()).collect();
    for expected in ["std::fs", "std::io", "std::io::Read", "std::env::var", "println!", "std::net::lookup"] {
        assert!(paths.contains(&expected), "{expected} in {paths:?}");
    }
    assert!(!paths.iter().any(|path| path.contains("process") || path.contains("thread")), "{paths:?}");
    assert!(names.texts.iter().any(|text| text.what == "b" && text.line == 3));
    assert!(source.all_names().paths.iter().any(|path| path.what == "std::process"));
}

#[test]
fn a_pattern_ends_at_a_whole_name() {
    assert!(is_within("std::fs::read", "std::fs") && is_within("std::fs", "std::fs"));
    assert!(!is_within("std::fsx", "std::fs"));
    assert!(
        is_within("process::Command::new", "::process::Command") && !is_within("clap::Command", "::process::Command")
    );
}
