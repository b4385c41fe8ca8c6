//! What holds when platform, tenant and project say something of one operation type.

use fettle_model::{
    document,
    overlay::{
        Key, Level, Overlay, Source,
        chain::{Chain, Resolved, Why, resolve},
    },
};
use proptest::{collection::btree_set, option, prelude::*};
use serde_json::{Value, json};

fn overlay(text: &str) -> Overlay {
    document::read(text).unwrap()
}

fn resolved(global: &str, tenant: &str, project: &str) -> Resolved {
    resolve(&Chain { global: overlay(global), tenant: overlay(tenant), project: overlay(project) })
}

#[test]
fn the_most_specific_scope_decides_within_what_the_platform_says() {
    use Level::{Global, Project, Tenant};
    for (key, [global, tenant, project], value, decided_by) in [
        (Key::Enabled, ["{}", "{}", "{}"], json!(true), vec![]),
        (Key::Enabled, ["{}", "{enabled: false}", "{}"], json!(false), vec![Tenant]),
        (Key::Enabled, ["{}", "{enabled: false}", "{enabled: true}"], json!(true), vec![Project]),
        (Key::Enabled, ["{enabled: true}", "{}", "{enabled: false}"], json!(false), vec![Project]),
        (Key::Enabled, ["{enabled: false}", "{enabled: true}", "{enabled: true}"], json!(false), vec![Global]),
        (Key::TimeoutSeconds, ["{timeout_seconds: 60}", "{}", "{}"], json!(60), vec![Global]),
        (Key::TimeoutSeconds, ["{}", "{}", "{}"], Value::Null, vec![]),
        (
            Key::AllowedArtifactSources,
            ["{allowed_artifact_sources: [r/models/*, r/tools/*]}", "{allowed_artifact_sources: [r/*]}", "{}"],
            json!(["r/models/*", "r/tools/*"]),
            vec![Global],
        ),
        (
            Key::AllowedArtifactSources,
            ["{allowed_artifact_sources: [r/models/*]}", "{}", "{allowed_artifact_sources: [r/models/a, q/*]}"],
            json!(["r/models/a"]),
            vec![Global, Project],
        ),
        (
            Key::AllowedTargetKinds,
            ["{allowed_target_kinds: [node, label]}", "{allowed_target_kinds: [group]}", "{}"],
            json!([]),
            vec![Global, Tenant],
        ),
        (
            Key::RequireSignatureVerification,
            ["{require_signature_verification: true}", "{}", "{require_signature_verification: false}"],
            json!(true),
            vec![Global],
        ),
        (
            Key::MaxArtifactSizeBytes,
            ["{max_artifact_size_bytes: 10}", "{}", "{max_artifact_size_bytes: 5}"],
            json!(5),
            vec![Project],
        ),
    ] {
        let resolved = resolved(global, tenant, project);
        let explained = resolved.of(key).unwrap();
        assert_eq!((&explained.value, &explained.decided_by), (&value, &decided_by), "{global} {tenant} {project}");
    }
}

#[test]
fn each_scope_counts_its_own_operations_and_all_numbers_hold() {
    use Level::{Global, Project, Tenant};
    let (two, four, nine) = ("{max_concurrency: 2}", "{max_concurrency: 4}", "{max_concurrency: 9}");
    for ([global, tenant, project], value, decided_by) in [
        (["{}", "{}", "{}"], Value::Null, vec![]),
        (["{}", two, nine], json!({ "tenant": 2, "project": 9 }), vec![Tenant, Project]),
        ([four, "{}", nine], json!({ "global": 4, "project": 9 }), vec![Global, Project]),
        ([four, two, nine], json!({ "global": 4, "tenant": 2, "project": 9 }), vec![Global, Tenant, Project]),
    ] {
        let resolved = resolved(global, tenant, project);
        let explained = resolved.of(Key::MaxConcurrency).unwrap();
        assert_eq!((&explained.value, &explained.decided_by), (&value, &decided_by), "{global} {tenant} {project}");
        assert_eq!(explained.lost, []);
        let effective = serde_json::to_value(resolved.effective.max_concurrency).unwrap();
        assert_eq!(effective, if value.is_null() { json!({}) } else { value });
    }
}

#[test]
fn what_was_said_and_does_not_hold_is_told_with_the_reason() {
    let resolved =
        resolved("{enabled: false, timeout_seconds: 60}", "{enabled: true, timeout_seconds: 90}", "{enabled: true}");
    let lost = |key| {
        let explained = resolved.of(key).unwrap();
        explained.lost.iter().map(|lost| (lost.level, lost.value.clone(), lost.why)).collect::<Vec<_>>()
    };
    assert_eq!(
        lost(Key::Enabled),
        [(Level::Tenant, json!(true), Why::LessSpecific), (Level::Project, json!(true), Why::HardDenied)]
    );
    assert_eq!(lost(Key::TimeoutSeconds), [(Level::Tenant, json!(90), Why::BeyondGlobal)]);
    assert_eq!(lost(Key::MaxConcurrency), []);
    assert_eq!(resolved.keys.iter().map(|explained| explained.key).collect::<Vec<_>>(), Key::ALL);
}

#[test]
fn a_document_with_a_mistake_is_refused_at_its_place() {
    for (text, place) in [
        ("{enable: true}", "/enable: unknown field"),
        ("{max_concurrency: 0}", "/max_concurrency: "),
        ("{timeout_seconds: 1.5}", "/timeout_seconds: "),
        ("{allowed_target_kinds: [nodes]}", "/allowed_target_kinds/0: unknown variant `nodes`"),
        ("{allowed_artifact_sources: ['*']}", "/allowed_artifact_sources/0: `*` is no artifact source"),
        ("{max_artifact_size_bytes: -1}", "/max_artifact_size_bytes: "),
    ] {
        let error = document::read::<Overlay>(text).unwrap_err().to_string();
        assert!(error.starts_with(place), "{error}");
    }
}

fn sources() -> impl Strategy<Value = Option<std::collections::BTreeSet<Source>>> {
    let places =
        ["r/*", "r/models/*", "r/models/a", "r/models/a/*", "q/*", "q/tools"].map(|text| text.parse().unwrap());
    option::of(btree_set(prop::sample::select(places.to_vec()), 0..4))
}

fn any_overlay() -> impl Strategy<Value = Overlay> {
    let kinds = ["node", "label", "allocation", "group"].map(|kind| serde_json::from_value(json!(kind)).unwrap());
    (
        any::<Option<bool>>(),
        option::of((1_u32..5).prop_map(|number| number.try_into().unwrap())),
        option::of((1_u32..5).prop_map(|number| number.try_into().unwrap())),
        sources(),
        option::of(btree_set(prop::sample::select(kinds.to_vec()), 0..4)),
        any::<Option<bool>>(),
        option::of((1_u64..5).prop_map(|number| number.try_into().unwrap())),
    )
        .prop_map(|(enabled, max_concurrency, timeout_seconds, sources, kinds, required, size)| Overlay {
            enabled,
            max_concurrency,
            timeout_seconds,
            allowed_artifact_sources: sources,
            allowed_target_kinds: kinds,
            require_signature_verification: required,
            max_artifact_size_bytes: size,
        })
}

/// Whether a bound is kept: the effective one is there and no larger.
fn keeps<T: PartialOrd>(bound: Option<T>, effective: Option<T>) -> bool {
    bound.is_none_or(|bound| effective.is_some_and(|effective| effective <= bound))
}

proptest! {
    #[test]
    fn no_overlay_lifts_what_the_platform_says(global in any_overlay(), tenant in any_overlay(), project in any_overlay()) {
        let chain = Chain { global: global.clone(), tenant, project };
        let effective = resolve(&chain).effective;
        prop_assert!(global.enabled != Some(false) || !effective.enabled);
        prop_assert!(global.require_signature_verification != Some(true) || effective.require_signature_verification);
        prop_assert_eq!(global.max_concurrency.map(u32::from), effective.max_concurrency.global);
        prop_assert!(keeps(global.timeout_seconds.map(u32::from), effective.timeout_seconds));
        prop_assert!(keeps(global.max_artifact_size_bytes.map(u64::from), effective.max_artifact_size_bytes));
        if let Some(kinds) = global.allowed_target_kinds {
            prop_assert!(effective.allowed_target_kinds.is_some_and(|effective| effective.is_subset(&kinds)));
        }
        for place in ["r/models/a", "r/models/a/b", "r/models/c", "r/x", "q/tools", "q/x", "z/x"] {
            let allowed = |sources: &Option<std::collections::BTreeSet<Source>>| {
                sources.as_ref().is_none_or(|sources| sources.iter().any(|source| source.covers(place)))
            };
            let specific = chain.project.allowed_artifact_sources.as_ref().or(chain.tenant.allowed_artifact_sources.as_ref());
            let expected = allowed(&global.allowed_artifact_sources) && allowed(&specific.cloned());
            prop_assert_eq!(allowed(&effective.allowed_artifact_sources), expected, "{}", place);
        }
    }

    #[test]
    fn every_value_that_was_said_decides_or_is_told_as_lost(global in any_overlay(), tenant in any_overlay(), project in any_overlay()) {
        let chain = Chain { global, tenant, project };
        let resolved = resolve(&chain);
        for (level, said) in [(Level::Global, &chain.global), (Level::Tenant, &chain.tenant), (Level::Project, &chain.project)] {
            for (name, value) in serde_json::to_value(said).unwrap().as_object().unwrap() {
                let explained = resolved.keys.iter().find(|one| one.key.name() == name).unwrap();
                let told = explained.decided_by.contains(&level)
                    || explained.lost.iter().any(|lost| lost.level == level)
                    || explained.value == *value;
                prop_assert!(told, "{} of {}", name, level);
            }
        }
    }
}
