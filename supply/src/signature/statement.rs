//! In-toto statements: what a DSSE envelope says about which artifact.

use std::collections::BTreeMap;

use fettle_model::{canonical, digest::Digest};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::mutation::{Protection, off};

/// Media type of a statement inside an envelope.
pub(crate) const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// The predicate of a statement that only says "signed".
pub(crate) const SIGN_PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";

const STATEMENT_TYPES: [&str; 2] = ["https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1"];

/// What a statement says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    /// Which artifact it is about.
    pub(crate) subject: Digest,
    /// What is said along with that.
    pub(crate) annotations: BTreeMap<String, String>,
    /// Which kind of statement.
    pub(crate) predicate_type: String,
    /// What it states.
    pub(crate) predicate: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    #[serde(rename = "_type")]
    form: String,
    subject: Vec<Subject>,
    predicate_type: String,
    #[serde(default)]
    predicate: Value,
}

#[derive(Deserialize)]
struct Subject {
    digest: SubjectDigest,
    annotations: Option<BTreeMap<String, Value>>,
}

#[derive(Deserialize)]
struct SubjectDigest {
    sha256: Option<String>,
}

impl Statement {
    /// Reads the payload of an envelope.
    ///
    /// # Errors
    /// What of its form is wrong. A statement about several artifacts is one about none.
    pub(crate) fn read(payload: &[u8]) -> Result<Self, String> {
        let text: Text =
            serde_json::from_slice(payload).map_err(|error| format!("its payload is no in-toto statement: {error}"))?;
        if !STATEMENT_TYPES.contains(&text.form.as_str()) {
            return Err(format!("its statement is a `{}`, not a `{}`", text.form, STATEMENT_TYPES[0]));
        }
        let count = text.subject.len();
        let mut subjects = text.subject.into_iter();
        let (Some(subject), true) = (subjects.next(), count == 1 || off(Protection::OneSubject)) else {
            return Err(format!("its statement is about {count} subjects, and a statement is about exactly one"));
        };
        let hex = subject.digest.sha256.ok_or("its statement names no `sha256` of its subject")?;
        let digest = format!("sha256:{hex}").parse().map_err(|_| format!("`{hex}` is no SHA-256 of its subject"))?;
        Ok(Self {
            subject: digest,
            annotations: texts(subject.annotations.unwrap_or_default()),
            predicate_type: text.predicate_type,
            predicate: text.predicate,
        })
    }

    /// The payload's bytes.
    ///
    /// # Errors
    /// When the predicate has no canonical form.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, canonical::NotCanonical> {
        let mut subject = json!({ "digest": { "sha256": self.subject.hex() } });
        if !self.annotations.is_empty() {
            subject["annotations"] = json!(self.annotations);
        }
        canonical::to_bytes(&json!({
            "_type": STATEMENT_TYPES[0],
            "subject": [subject],
            "predicateType": self.predicate_type,
            "predicate": self.predicate,
        }))
    }
}

/// Annotations as text. Other tools put numbers there, too (skopeo the time of day).
pub(super) fn texts(annotations: BTreeMap<String, Value>) -> BTreeMap<String, String> {
    let text = |(name, value)| match value {
        Value::String(text) => (name, text),
        other => (name, other.to_string()),
    };
    annotations.into_iter().map(text).collect()
}

/// The bytes that a DSSE signature is over.
pub(super) fn signed_bytes(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    sigstore_verify::types::pae(payload_type, payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_about_exactly_one_artifact() {
        let statement = Statement {
            subject: Digest::of(b"this"),
            annotations: BTreeMap::from([("version".to_owned(), "7".to_owned())]),
            predicate_type: SIGN_PREDICATE.to_owned(),
            predicate: json!({}),
        };
        let bytes = statement.to_bytes().unwrap();
        assert_eq!(Statement::read(&bytes).unwrap(), statement);
        let good: Value = serde_json::from_slice(&bytes).unwrap();
        let spoil = |pointer: &str, value: Value| {
            let mut bad = good.clone();
            *bad.pointer_mut(pointer).unwrap() = value;
            bad.to_string()
        };
        let one = good["subject"][0].clone();
        let twice = String::from_utf8(bytes).unwrap().replace("\"digest\":{", "\"digest\":{\"sha256\":\"00\",");
        for (text, expected) in [
            (spoil("/subject", json!([one, one])), "about 2 subjects"),
            (spoil("/subject", json!([])), "about 0 subjects"),
            (spoil("/subject/0/digest", json!({ "sha512": "00" })), "no `sha256`"),
            (spoil("/subject/0/digest/sha256", json!("00")), "no SHA-256"),
            (spoil("/_type", json!("https://in-toto.io/Statement/v9")), "is a `https://in-toto.io/Statement/v9`"),
            (twice, "duplicate field"),
            ("[]".to_owned(), "no in-toto statement"),
        ] {
            let error = Statement::read(text.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
