//! `unsafe` says why.

use syn::{
    Attribute,
    spanned::Spanned as _,
    visit::{self, Visit},
};

use crate::{
    report::holds,
    source::{attribute_text, everything},
};

/// Finds `unsafe` that stands in nothing with a reason.
#[derive(Default)]
struct Finder {
    reasons: usize,
    found: Vec<usize>,
    total: usize,
}

fn has_reason(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .map(attribute_text)
        .any(|text| text.starts_with("expect(") && text.contains("unsafe_code") && text.contains("reason=\""))
}

impl Finder {
    fn within(&mut self, attributes: &[Attribute], inside: impl FnOnce(&mut Self)) {
        let reason = usize::from(has_reason(attributes));
        self.reasons += reason;
        inside(self);
        self.reasons -= reason;
    }

    fn note(&mut self, line: usize) {
        self.total += 1;
        if self.reasons == 0 {
            self.found.push(line);
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_file(&mut self, file: &'ast syn::File) {
        self.within(&file.attrs, |finder| visit::visit_file(finder, file));
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.within(&item.attrs, |finder| visit::visit_item_mod(finder, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.within(&item.attrs, |finder| {
            if let Some(token) = &item.sig.unsafety {
                finder.note(token.span().start().line);
            }
            visit::visit_item_fn(finder, item);
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.within(&item.attrs, |finder| {
            if let Some(token) = &item.sig.unsafety {
                finder.note(token.span().start().line);
            }
            visit::visit_impl_item_fn(finder, item);
        });
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.within(&item.attrs, |finder| {
            if let Some(token) = &item.unsafety {
                finder.note(token.span().start().line);
            }
            visit::visit_item_impl(finder, item);
        });
    }

    fn visit_item_foreign_mod(&mut self, item: &'ast syn::ItemForeignMod) {
        self.within(&item.attrs, |finder| {
            if let Some(token) = &item.unsafety {
                finder.note(token.span().start().line);
            }
            visit::visit_item_foreign_mod(finder, item);
        });
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.note(block.unsafe_token.span().start().line);
        visit::visit_expr_unsafe(self, block);
    }
}

#[test]
fn unsafe_code_says_why() {
    let mut findings = Vec::new();
    let mut total = 0;
    for source in everything(&["model", "wire", "supply", "crash", "steps", "host", "plane", "cli", "tests", "xtask"]) {
        let mut finder = Finder::default();
        finder.visit_file(&source.syntax);
        total += finder.total;
        findings.extend(finder.found.iter().map(|line| format!("{}:{line}: unsafe", source.path)));
    }
    assert!(total > 0, "no unsafe was found at all; correct the test");
    holds(
        "`unsafe` stands in an item with #[expect(unsafe_code, reason = \"..\")]",
        "put the attribute on the item, with the reason why safe code cannot do it; or use a safe wrapper",
        &findings,
    );
}

#[test]
fn an_unsafe_block_without_a_reason_is_found() {
    let lines = |text: &str| {
        let mut finder = Finder::default();
        finder.visit_file(&syn::parse_file(text).unwrap());
        finder.found
    };
    assert_eq!(lines("fn f() {\n unsafe { g() }\n}"), [2]);
    assert_eq!(lines("#[expect(unsafe_code)] fn f() { unsafe { g() } }"), [1]);
    assert!(lines("#[expect(unsafe_code, reason = \"r\")] fn f() { unsafe { g() } }").is_empty());
}
