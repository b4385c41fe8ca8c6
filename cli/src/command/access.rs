//! Request, grant and ceiling of a step's capabilities, for people: 80 columns.

use std::fmt::Write as _;

use fettle_model::access::{CapabilityAccess, Entry, Finding, Severity, StepAccess, Verdict};

use crate::{output::wrap, watch::clean};

/// One paragraph per capability, each line indented this far.
pub(super) fn text(access: &StepAccess, indent: usize) -> String {
    if access.capabilities.is_empty() {
        return format!("{:indent$}reaches    nothing but its own log\n", "");
    }
    access.capabilities.iter().map(|one| capability(one, indent)).collect()
}

fn capability(access: &CapabilityAccess, indent: usize) -> String {
    let mut text = format!("{:indent$}{:<10} {}\n", "", access.capability.name(), verdict(access));
    let mut line = |name: &str, words: &str| {
        let first = format!("{:indent$}  {name:<8} ", "");
        text.push_str(&wrap(&first, &clean(words)));
    };
    match &access.request {
        Some(why) => line("asked", why),
        None => line("asked", "never"),
    }
    match access.imported {
        Some(true) => line("imports", access.capability.interface()),
        Some(false) if access.request.is_some() => line("imports", "no; it asks and never uses it"),
        Some(false) => line("imports", "no"),
        None => {}
    }
    if let Some(granted) = &access.granted {
        line("granted", &entries(granted));
    }
    if let Some(ceiling) = &access.ceiling {
        line("node", &entries(ceiling));
    }
    for finding in &access.findings {
        line(if finding.severity == Severity::Denied { "problem" } else { "warning" }, &finding.message);
        fix(finding, &mut line);
    }
    text
}

fn fix(finding: &Finding, line: &mut impl FnMut(&str, &str)) {
    let Some(fix) = &finding.fix else { return };
    let place = if fix.at.is_empty() { "at the top".to_owned() } else { format!("under {}", fix.at) };
    line("to allow", &fix.line);
    line("", &format!("{place} of the {}", fix.document));
}

fn verdict(access: &CapabilityAccess) -> &'static str {
    match access.verdict {
        Verdict::Allowed => "allowed",
        Verdict::Denied => "DENIED",
        Verdict::Unused => "granted for nothing: the component never asks, so it is not given",
        Verdict::Undecided if access.request.is_some() => "asked for",
        Verdict::Undecided => "granted",
    }
}

/// `write config, models; read data`
fn entries(entries: &[Entry]) -> String {
    let mut fields: Vec<(&str, Vec<&str>)> = Vec::new();
    for entry in entries {
        match fields.iter_mut().find(|(field, _)| *field == entry.field) {
            Some((_, values)) => values.push(&entry.value),
            None => fields.push((&entry.field, vec![&entry.value])),
        }
    }
    if fields.is_empty() {
        return "nothing".to_owned();
    }
    let field = |(field, values): &(&str, Vec<&str>)| match values.as_slice() {
        ["*"] => format!("{field} any"),
        values => format!("{field} {}", values.join(", ")),
    };
    fields.iter().map(field).collect::<Vec<_>>().join("; ")
}

/// Names of imports by package: `wasi:io error, poll, streams`; versions are in `--json`.
pub(super) fn imports<'a>(names: impl Iterator<Item = &'a str>, indent: usize) -> String {
    let mut packages: Vec<(&str, Vec<&str>)> = Vec::new();
    for name in names {
        let name = name.split_once('@').map_or(name, |(name, _)| name);
        let (package, interface) = name.split_once('/').unwrap_or((name, ""));
        match packages.iter_mut().find(|(known, _)| *known == package) {
            Some((_, interfaces)) => interfaces.push(interface),
            None => packages.push((package, vec![interface])),
        }
    }
    let mut text = String::new();
    for (package, interfaces) in packages {
        let _ = write!(text, "{}", wrap(&format!("{:indent$}{package:<16} ", ""), &interfaces.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use fettle_model::{
        access::{Question, of_step},
        descriptor::Descriptor,
        document,
        grant::{Capability, Grants},
        policy::PolicyBundle,
    };
    use serde_json::json;

    use super::*;

    fn access(policy: &str) -> StepAccess {
        let descriptor: Descriptor = serde_json::from_value(json!({
            "kind": "file.render@v1", "summary": "", "effect": "converge", "input_schema": {}, "output_schema": {},
            "requests": {"files": "reads the template and what is there, and replaces the file when it differs from \
                                   what it should be\u{1b}[31m"},
            "probes": true,
        }))
        .unwrap();
        let grants: Grants = document::read("{files: {write: [config]}, gpu: {read: true}}").unwrap();
        let policy: PolicyBundle = document::read(policy).unwrap();
        let imports = [Capability::Files].into();
        let question = Question {
            step: None,
            descriptor: &descriptor,
            imports: Some(&imports),
            grants: Some(&grants),
            policy: Some(&policy),
        };
        of_step(&question)
    }

    #[test]
    fn each_capability_is_explained_within_80_columns() {
        let policy = "{revision: 1, roots: {config: c}, ceiling: {files: {write: [models]}, gpu: {read: true}}}";
        let text = text(&access(policy), 3);
        assert_eq!(
            text,
            "   files      DENIED
     asked    reads the template and what is there, and replaces the file when
              it differs from what it should be
     imports  fettle:files/files
     granted  write config
     node     write models
     problem  the policy bundle does not allow `files.write: config`
     to allow write: [models, config]
              under ceiling.files of the policy bundle
   gpu        granted for nothing: the component never asks, so it is not given
     asked    never
     imports  no
     granted  read true
     node     read true
     warning  `file.render@v1` never asks for capability `gpu`; remove this
              grant
"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn imports_are_listed_by_package() {
        let names = ["wasi:cli/exit@0.2.3", "wasi:cli/stdin@0.2.3", "wasi:io/error@0.2.3"];
        assert_eq!(imports(names.into_iter(), 4), "    wasi:cli         exit, stdin\n    wasi:io          error\n");
    }
}
