//! Request, grant and ceiling: what a step is given, and the line that would give it more.

use std::collections::BTreeSet;

use fettle_model::{
    access::{self, Document, Fix, Question, Severity, StepAccess, Verdict},
    descriptor::Descriptor,
    document,
    grant::{Capability, Grants},
    name::StepId,
    policy::PolicyBundle,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The two documents, as text would say them, and what the component is.
#[derive(Clone, Debug)]
struct World {
    requests: BTreeSet<Capability>,
    imports: Option<BTreeSet<Capability>>,
    step: Value,
    policy: Value,
}

impl World {
    fn new(requests: &str, grants: Value, policy: Value) -> Self {
        let requests = document::read::<BTreeSet<Capability>>(requests).unwrap();
        Self { imports: None, requests, step: json!({ "grants": grants }), policy }
    }

    fn access(&self) -> StepAccess {
        let requests: Map<String, Value> =
            self.requests.iter().map(|one| (one.to_string(), json!(format!("why {one}")))).collect();
        let descriptor: Descriptor = serde_json::from_value(json!({
            "kind": "test.step@v1", "summary": "", "effect": "converge", "input_schema": {}, "output_schema": {},
            "requests": requests, "probes": true,
        }))
        .unwrap();
        let step: StepId = "it".parse().unwrap();
        let grants: Grants = self.step.get("grants").map_or_else(Grants::default, parse);
        let policy: PolicyBundle = parse(&self.policy);
        access::of_step(&Question {
            step: Some(&step),
            descriptor: &descriptor,
            imports: self.imports.as_ref(),
            grants: Some(&grants),
            policy: Some(&policy),
        })
    }

    /// Does what a person would do who reads the fix.
    fn follow(&mut self, fix: &Fix) {
        let (root, path) = match fix.document {
            Document::Definition => (&mut self.step, fix.at.strip_prefix("steps[it]").unwrap()),
            Document::PolicyBundle => (&mut self.policy, fix.at.as_str()),
            Document::Component => {
                let (name, _) = fix.line.split_once(':').unwrap();
                self.requests.insert(parse(&json!(name)));
                return;
            }
        };
        let place = path
            .split('.')
            .filter(|name| !name.is_empty())
            .fold(root, |place, name| place.get_mut(name).unwrap_or_else(|| panic!("{fix}: there is no `{name}`")));
        // What only a person can say.
        let names = [
            ("<host>:<port>", "r:5000"),
            ("<host>", "a.example"),
            ("<path>", "v1"),
            ("<root>", "models"),
            ("<profile>", "list"),
            ("<program>", "ls"),
        ];
        let line = names.iter().fold(fix.line.clone(), |line, (name, value)| line.replace(name, value));
        match (place, document::read::<Value>(&line).unwrap()) {
            (Value::Object(fields), Value::Object(line)) => fields.extend(line),
            (Value::Array(items), Value::Array(line)) => items.extend(line),
            (place, line) => panic!("{fix}: {line} does not go into {place}"),
        }
    }
}

fn parse<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    document::read(&value.to_string()).unwrap()
}

fn policy() -> Value {
    json!({
        "revision": 1, "roots": {"models": "models"}, "profiles": [{"id": "list", "command": "/usr/bin/ls"}],
        "ceiling": {"files": {"read": [], "write": ["models", "gone"]}, "exec": {"profiles": ["*"]}},
    })
}

#[test]
fn a_step_is_given_what_it_asks_for_and_is_granted_and_the_node_allows() {
    let world = World::new("[files]", json!({"files": {"write": ["models/llama"]}}), policy());
    let access = world.access();
    assert_eq!(access.check(), Ok(()));
    let files = &access.capabilities[0];
    assert_eq!((files.verdict, files.request.as_deref()), (Verdict::Allowed, Some("why files")));
    let text = |entries: &[access::Entry]| entries.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(text(&files.effective), ["files.write: models/llama"]);
    assert_eq!(text(files.ceiling.as_ref().unwrap()), ["files.write: gone", "files.write: models"]);
}

#[test]
fn every_denial_names_its_reason_and_the_line_that_would_allow_it() {
    let no_roots = json!({"revision": 1, "ceiling": {"files": {"write": ["models"]}, "exec": {"profiles": ["*"]}}});
    for (world, code, message, fix) in [
        (
            World::new("[files]", json!({"files": {"write": ["etc"]}}), policy()),
            "grant.beyond-ceiling",
            "the policy bundle does not allow `files.write: etc`",
            "write `write: [gone, models, etc]` under `ceiling.files` of the policy bundle",
        ),
        (
            World::new("[transfer]", json!({"transfer": {"hosts": ["r:5000"]}}), policy()),
            "grant.beyond-ceiling",
            "the policy bundle does not allow `transfer.hosts: r:5000`",
            "write `transfer: { hosts: ['r:5000'] }` under `ceiling` of the policy bundle",
        ),
        (
            World::new("[gpu]", json!({"gpu": {"read": true}}), json!({"revision": 1})),
            "grant.beyond-ceiling",
            "the policy bundle does not allow `gpu.read: true`",
            "write `ceiling: { gpu: { read: true } }` at the top of the policy bundle",
        ),
        (
            World::new("[files]", json!({"files": {"write": ["gone/a"]}}), policy()),
            "files.unknown-root",
            "has no root `gone`; it has models",
            "write `gone: gone` under `roots` of the policy bundle",
        ),
        (
            World::new("[files]", json!({"files": {"write": ["models"]}}), no_roots.clone()),
            "files.unknown-root",
            "has no root `models`; it has none",
            "write `roots: { models: models }` at the top of the policy bundle",
        ),
        (
            World::new("[exec]", json!({"exec": {"profiles": ["copy"]}}), policy()),
            "exec.unknown-profile",
            "has no such profile; it has list",
            "write `- { id: copy, command: /usr/bin/<program> }` under `profiles` of the policy bundle",
        ),
        (
            World::new("[exec]", json!({"exec": {"profiles": ["copy"]}}), no_roots),
            "exec.unknown-profile",
            "it has none",
            "write `profiles: [{ id: copy, command: /usr/bin/<program> }]` at the top of the policy bundle",
        ),
        (
            World::new("[facts]", json!({}), policy()),
            "grant.missing",
            "uses capability `facts` (why facts), and this step does not grant it",
            "write `grants: { facts: { read: [system] } }` under `steps[it]` of the definition",
        ),
        (
            World::new("[facts, files]", json!({"files": {"write": ["models"]}}), policy()),
            "grant.missing",
            "uses capability `facts`",
            "write `facts: { read: [system] }` under `steps[it].grants` of the definition",
        ),
        (
            World {
                imports: Some([Capability::Gpu].into()),
                ..World::new(
                    "[]",
                    json!({"gpu": {"read": true}}),
                    json!({"revision": 1, "ceiling": {"gpu": {"read": true}}}),
                )
            },
            "step.unrequested-import",
            "imports `fettle:gpu/gpu` and does not ask for it",
            "write `gpu: \"<why>\"` under `requests` of the component's own description",
        ),
    ] {
        let access = world.access();
        let finding = access.check().unwrap_err();
        assert_eq!(finding.code, code);
        assert!(finding.message.contains(message), "{finding}");
        assert_eq!(finding.fix.as_ref().unwrap().to_string(), fix);
    }
}

#[test]
fn a_grant_that_nobody_asked_for_is_not_given_and_said() {
    let policy = json!({"revision": 1, "ceiling": {"gpu": {"read": true}}});
    let access = World::new("[]", json!({"gpu": {"read": true}}), policy).access();
    assert_eq!(access.check(), Ok(()));
    assert_eq!(access.effective, Grants::default());
    let gpu = &access.capabilities[0];
    assert_eq!((gpu.verdict, gpu.findings[0].severity), (Verdict::Unused, Severity::Warning));
    assert_eq!(gpu.findings[0].code, "grant.unused");
}

#[test]
fn what_is_not_known_is_never_taken_for_allowed() {
    let descriptor: Descriptor = serde_json::from_value(json!({
        "kind": "test.step@v1", "summary": "", "effect": "observe", "input_schema": {}, "output_schema": {},
        "requests": {"gpu": "to look"}, "probes": false,
    }))
    .unwrap();
    let grants: Grants = document::read("{gpu: {read: true}}").unwrap();
    for (grants, ceiling) in [(None, None), (Some(&grants), None)] {
        let question = Question { step: None, descriptor: &descriptor, imports: None, grants, policy: ceiling };
        let access = access::of_step(&question);
        assert_eq!(access.capabilities[0].verdict, Verdict::Undecided);
        assert_eq!(access.capabilities[0].ceiling, None);
    }
}

fn capabilities() -> impl Strategy<Value = BTreeSet<Capability>> {
    proptest::sample::subsequence(Capability::ALL.to_vec(), 0..=Capability::ALL.len())
        .prop_map(|some| some.into_iter().collect())
}

/// Grants of a few names, some of them odd.
fn grants(any: bool) -> impl Strategy<Value = Value> {
    let some = move |mut names: Vec<&'static str>| {
        names.extend(any.then_some("*"));
        proptest::sample::subsequence(names, 0..=2)
    };
    let paths = || some(vec!["models", "models/a", "etc", "true"]);
    let (hosts, profiles) = (some(vec!["r:5000", "it's", "[::1]:1"]), some(vec!["list", "copy", "no"]));
    let facts = proptest::sample::subsequence(vec!["system", "memory", "kernel-log"], 0..=3);
    (capabilities(), (paths(), paths()), hosts, profiles, facts, proptest::bool::ANY).prop_map(
        |(named, (read, write), hosts, profiles, facts, gpu)| {
            let all = json!({
                "files": {"read": read, "write": write}, "transfer": {"hosts": hosts}, "exec": {"profiles": profiles},
                "facts": {"read": facts}, "gpu": {"read": gpu},
            });
            named.iter().filter_map(|one| Some((one.to_string(), all.get(one.name())?.clone()))).collect()
        },
    )
}

fn worlds() -> impl Strategy<Value = World> {
    let imports = proptest::option::of(capabilities());
    (capabilities(), imports, grants(false), grants(true)).prop_map(|(requests, imports, grants, ceiling)| {
        let policy = json!({"revision": 1, "roots": {"models": "m"}, "ceiling": ceiling});
        World { requests, imports, step: json!({ "grants": grants }), policy }
    })
}

#[test]
fn nothing_is_given_beyond_request_grant_and_ceiling() {
    proptest!(|(world in worlds())| {
        let access = world.access();
        let grants: Grants = parse(&world.step["grants"]);
        let policy: PolicyBundle = parse(&world.policy);
        for entry in access.effective.entries() {
            prop_assert!(world.requests.contains(&entry.capability), "{entry} was not asked for");
            prop_assert!(grants.entries().contains(&entry), "{entry} was not granted");
            prop_assert!(policy.ceiling.allows(&entry), "{entry} is not allowed");
        }
        prop_assert!(access.effective.capabilities().is_subset(&world.requests));
        if access.check().is_ok() {
            let imports = world.imports.unwrap_or_default();
            prop_assert!(imports.is_subset(&access.effective.capabilities()), "an import without a grant passed");
            prop_assert!(grants.beyond(&policy.ceiling).is_empty(), "a grant over the ceiling passed");
        }
    });
}

#[test]
fn whoever_follows_every_fix_is_allowed_in_the_end() {
    proptest!(|(mut world in worlds())| {
        for _ in 0..100 {
            let Err(finding) = world.access().check().map_err(Clone::clone) else { return Ok(()) };
            world.follow(finding.fix.as_ref().unwrap());
        }
        let access = world.access();
        prop_assert!(false, "never allowed: {:?}", access.check());
    });
}
