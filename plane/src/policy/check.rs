//! What of a request the overlays do not let through.

use fettle_model::{
    definition::ArtifactConstraints,
    expression,
    overlay::{Key, TargetKind, chain::Resolved},
    reference::Reference,
};
use serde_json::Value;

use super::{decision::Broken, whose};

/// What the overlays look at.
pub(super) struct Subject<'a> {
    /// What the operation is for.
    pub(super) target_kind: TargetKind,
    /// What its definition demands of artifacts.
    pub(super) constraints: Option<&'a ArtifactConstraints>,
    /// Its inputs.
    pub(super) inputs: &'a Value,
}

/// All rules that deny, in the order of the keys.
pub(super) fn broken(resolved: &Resolved, subject: &Subject<'_>) -> Vec<Broken> {
    let mut found = Vec::new();
    let mut deny = |key: Key, pointer: String, message: String| {
        let decided_by = resolved.of(key).map(|explained| explained.decided_by.clone()).unwrap_or_default();
        found.push(Broken {
            rule: key.name().to_owned(),
            decided_by: decided_by.iter().map(|level| level.name().to_owned()).collect(),
            pointer,
            message,
        });
    };
    let effective = &resolved.effective;
    if !effective.enabled {
        let levels = resolved.of(Key::Enabled).map(|explained| explained.decided_by.as_slice()).unwrap_or_default();
        let who = levels.first().map_or("the policy", |level| whose(*level));
        deny(Key::Enabled, "/operation_type".to_owned(), format!("{who} has disabled the type; ask its administrator"));
    }
    if let Some(sources) = &effective.allowed_artifact_sources {
        let allowed = sources.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let allowed = if allowed.is_empty() { "nowhere".to_owned() } else { format!("{allowed} only") };
        for (pointer, text, place) in places(subject.inputs) {
            if !sources.iter().any(|source| source.covers(&place)) {
                let message = format!("`{text}` is not allowed: artifacts come from {allowed}");
                deny(Key::AllowedArtifactSources, format!("/inputs{pointer}"), message);
            }
        }
    }
    if let Some(kinds) = &effective.allowed_target_kinds
        && !kinds.contains(&subject.target_kind)
    {
        let allowed = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
        let name = subject.target_kind.name();
        let message = format!("a target of kind {name} is not allowed; allowed are: {}", or_nothing(&allowed));
        deny(Key::AllowedTargetKinds, format!("/target_selector/{name}"), message);
    }
    let requires = subject.constraints.is_some_and(|constraints| constraints.require_signature);
    if effective.require_signature_verification && !requires {
        let message = "only definitions with `artifact_constraints: {require_signature: true}` are allowed; publish a \
                       version that has it";
        deny(Key::RequireSignatureVerification, "/version".to_owned(), message.to_owned());
    }
    if let Some(most) = effective.max_artifact_size_bytes {
        let size = subject.constraints.and_then(|constraints| constraints.max_size_bytes);
        if size.is_none_or(|size| size > most) {
            let size = size.map_or_else(|| "any size".to_owned(), |size| format!("{size} bytes"));
            let message = format!(
                "the definition takes artifacts of {size}, and {most} bytes are allowed; publish a version whose \
                 `artifact_constraints.max_size_bytes` is no larger"
            );
            deny(Key::MaxArtifactSizeBytes, "/version".to_owned(), message);
        }
    }
    found
}

fn or_nothing(list: &str) -> &str {
    if list.is_empty() { "none" } else { list }
}

/// The inputs that name a place where something comes from: artifact references, and URLs of any scheme.
/// Each with its pointer and its text.
fn places(inputs: &Value) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    expression::visit(inputs, "", &mut |pointer, text| {
        let place = match text.parse::<Reference>() {
            Ok(reference) => Some(reference.repository.to_string()),
            Err(_) => is_url(text).then(|| text.split(['?', '#']).next().unwrap_or_default().to_owned()),
        };
        found.extend(place.map(|place| (pointer.to_owned(), text.to_owned(), place)));
    });
    found
}

/// `scheme://…`
fn is_url(text: &str) -> bool {
    text.trim_start().split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use fettle_model::{
        document,
        overlay::chain::{Chain, resolve},
    };
    use serde_json::json;

    use super::*;

    fn rules(overlay: &str, constraints: Option<&ArtifactConstraints>, inputs: &Value) -> Vec<(String, String)> {
        let chain = Chain { global: document::read(overlay).unwrap(), ..Chain::default() };
        let subject = Subject { target_kind: TargetKind::Node, constraints, inputs };
        broken(&resolve(&chain), &subject).into_iter().map(|one| (one.rule, one.pointer)).collect()
    }

    fn told(rule: &str, pointer: &str) -> Vec<(String, String)> {
        vec![(rule.to_owned(), pointer.to_owned())]
    }

    #[test]
    fn each_key_denies_at_its_place() {
        let none = json!({});
        assert_eq!(rules("{}", None, &none), []);
        assert_eq!(rules("{enabled: false}", None, &none), told("enabled", "/operation_type"));
        assert_eq!(rules("{allowed_target_kinds: [node]}", None, &none), []);
        let label = "{allowed_target_kinds: [label]}";
        assert_eq!(rules(label, None, &none), told("allowed_target_kinds", "/target_selector/node"));
    }

    #[test]
    fn places_outside_of_the_sources_are_denied_wherever_they_are_in_the_inputs() {
        let model = format!("r.internal:5000/models/llama@sha256:{}", "0".repeat(64));
        let inputs = json!({ "model": model, "more": { "from": ["https://evil.example/x?y=1", "plain"] } });
        let overlay = "{allowed_artifact_sources: ['r.internal:5000/models/*']}";
        assert_eq!(rules(overlay, None, &inputs), told("allowed_artifact_sources", "/inputs/more/from/0"));
        let both = "{allowed_artifact_sources: ['r.internal:5000/models/*', 'https://evil.example/*']}";
        assert_eq!(rules(both, None, &inputs), []);
        assert_eq!(rules("{allowed_artifact_sources: []}", None, &inputs).len(), 2);
        let disguised = json!([" https://evil.example/x", "https://r.internal:5000/models/../x"]);
        assert_eq!(
            rules("{allowed_artifact_sources: ['https://r.internal:5000/models/*']}", None, &disguised).len(),
            2
        );
    }

    #[test]
    fn a_definition_must_demand_what_the_overlays_demand() {
        let constraints = |require_signature, max_size_bytes| ArtifactConstraints {
            allowed_repositories: vec!["models/*".to_owned()],
            require_signature,
            max_size_bytes,
        };
        let signed = "{require_signature_verification: true}";
        let rule = "require_signature_verification";
        assert_eq!(rules(signed, None, &json!({})), told(rule, "/version"));
        assert_eq!(rules(signed, Some(&constraints(false, None)), &json!({})), told(rule, "/version"));
        assert_eq!(rules(signed, Some(&constraints(true, None)), &json!({})), []);
        let small = "{max_artifact_size_bytes: 10}";
        for (size, denied) in [(None, true), (Some(11), true), (Some(10), false), (Some(1), false)] {
            let found = rules(small, Some(&constraints(false, size)), &json!({}));
            assert_eq!(found == told("max_artifact_size_bytes", "/version"), denied, "{size:?}");
        }
        assert_eq!(rules(small, None, &json!({})).len(), 1);
    }
}
