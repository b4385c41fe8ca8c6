//! People and programs that an OpenID provider vouches for: what its claims say, and what that lets them do.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use fettle_model::{
    document::{self, DocumentError},
    name::Label,
};
use fettle_openid::{Identity, Issuer, IssuerError, Refusal, Verifier};
use fettle_store::token::Access;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::role::RoleName;

/// Why the document about issuers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenIdError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// It has another form.
    #[error("{} is no list of issuers", path.display())]
    Document {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: DocumentError,
    },
    /// An issuer cannot be believed.
    #[error(transparent)]
    Issuer(#[from] IssuerError),
    /// A rule makes no sense.
    #[error("rule {number} of the issuer `{issuer}`: {problem}")]
    Rule {
        /// Whose.
        issuer: String,
        /// 1 for the first.
        number: usize,
        /// What is wrong, and the fix.
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    issuers: Vec<Entry>,
}

/// An issuer, and who of its people may do what.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    issuer: String,
    #[serde(deserialize_with = "one_or_several")]
    audience: BTreeSet<String>,
    #[serde(default)]
    name_claim: Option<String>,
    /// Relative to the document.
    #[serde(default)]
    authority_file: Option<PathBuf>,
    rules: Vec<Grant>,
}

/// Whoever has all of these claims has this role.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Grant {
    claims: BTreeMap<String, String>,
    role: RoleName,
    #[serde(default)]
    org: Option<Label>,
    #[serde(default)]
    project: Option<Label>,
}

fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        One(String),
        Several(BTreeSet<String>),
    }
    Ok(match Either::deserialize(deserializer)? {
        Either::One(one) => BTreeSet::from([one]),
        Either::Several(several) => several,
    })
}

impl Grant {
    fn access(&self) -> Result<Access, String> {
        if self.claims.is_empty() {
            let problem =
                "it names no claim, so it would let in everybody whom the issuer knows; name one, like `groups`";
            return Err(problem.to_owned());
        }
        self.role.access(self.project.clone(), self.org.clone()).map_err(|error| error.to_string())
    }
}

/// What lets somebody in: these claims, and then as this.
struct Rule {
    claims: BTreeMap<String, String>,
    access: Access,
}

impl Rule {
    fn is_met_by(&self, claims: &Map<String, Value>) -> bool {
        self.claims.iter().all(|(name, wanted)| match claims.get(name) {
            Some(Value::String(said)) => said == wanted,
            Some(Value::Array(said)) => said.iter().any(|one| one.as_str() == Some(wanted)),
            Some(Value::Bool(said)) => said.to_string() == *wanted,
            _ => false,
        })
    }
}

/// Whose word counts, and what follows from it.
pub(crate) struct OpenId {
    verifier: Verifier,
    rules: BTreeMap<String, Vec<Rule>>,
}

/// Why somebody is not let in.
pub(crate) enum NotLetIn {
    /// The token says nothing.
    Refused(Refusal),
    /// It says who it is, and no rule says what that one may do.
    NoRole(Box<Identity>),
}

impl NotLetIn {
    /// Whether whoever shows the token could have known.
    pub(crate) const fn is_the_tokens_fault(&self) -> bool {
        matches!(self, Self::Refused(refusal) if !matches!(refusal, Refusal::Unavailable { .. }))
    }
}

impl OpenId {
    /// As a document in YAML or JSON says. Issuers are asked when somebody comes with a token of theirs.
    pub(crate) fn load(path: &Path) -> Result<Self, OpenIdError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| OpenIdError::File { path, source }
        };
        let text = std::fs::read_to_string(path).map_err(failed(path))?;
        let document: Document =
            document::read(&text).map_err(|source| OpenIdError::Document { path: path.to_owned(), source })?;
        let (mut issuers, mut rules) = (Vec::new(), BTreeMap::new());
        for entry in document.issuers {
            let file = entry.authority_file.map(|file| path.parent().unwrap_or(Path::new("")).join(file));
            let authorities = file.map(|file| std::fs::read(&file).map_err(failed(&file))).transpose()?;
            rules.insert(entry.issuer.clone(), read_rules(&entry.issuer, entry.rules)?);
            issuers.push(Issuer {
                issuer: entry.issuer,
                audiences: entry.audience,
                name_claim: entry.name_claim,
                authorities: authorities.into_iter().collect(),
            });
        }
        Ok(Self { verifier: Verifier::of(issuers)?, rules })
    }

    /// Who comes with this token, and as what: the first rule that is met says so.
    pub(crate) async fn admit(&self, token: &str, now: Timestamp) -> Result<(Identity, Access), NotLetIn> {
        let identity = self.verifier.verify(token, now).await.map_err(NotLetIn::Refused)?;
        let mut rules = self.rules.get(&identity.issuer).into_iter().flatten();
        match rules.find(|rule| rule.is_met_by(&identity.claims)) {
            Some(rule) => Ok((identity, rule.access.clone())),
            None => Err(NotLetIn::NoRole(Box::new(identity))),
        }
    }
}

fn read_rules(issuer: &str, grants: Vec<Grant>) -> Result<Vec<Rule>, OpenIdError> {
    let read = |(number, grant): (usize, Grant)| {
        let access = grant.access();
        let access = access.map_err(|problem| OpenIdError::Rule { issuer: issuer.to_owned(), number, problem })?;
        Ok(Rule { claims: grant.claims, access })
    };
    (1..).zip(grants).map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn load(text: &str) -> Result<OpenId, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("openid.yaml");
        std::fs::write(&path, text).unwrap();
        OpenId::load(&path).map_err(|error| {
            std::error::Error::source(&error).map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
        })
    }

    #[test]
    fn what_would_let_in_more_than_was_meant_is_refused_with_the_fix() {
        let issuer = "issuers:\n  - issuer: https://login.example\n    audience: fettle\n    rules:\n";
        assert!(load(&format!("{issuer}      - {{ claims: {{ groups: ops }}, role: platform_admin }}")).is_ok());
        for (rule, sentence) in [
            ("{ claims: {}, role: platform_admin }", "rule 1 of the issuer `https://login.example`: it names no claim"),
            ("{ claims: { groups: a }, role: platform_admin, org: b }", "leave `org` and `project` out"),
            ("{ claims: { groups: a }, role: tenant_admin }", "needs `org`"),
            ("{ claims: { groups: a }, role: project_member }", "needs `project`"),
            ("{ claims: { groups: a }, role: root }", "unknown variant"),
            ("{ groups: a, role: platform_admin }", "unknown field"),
        ] {
            let refused = load(&format!("{issuer}      - {rule}")).err().unwrap();
            assert!(refused.contains(sentence), "{rule}: {refused}");
        }
        let nobody = load("issuers:\n  - { issuer: https://login.example, audience: [], rules: [] }").err().unwrap();
        assert!(nobody.contains("has no audience"), "{nobody}");
        let twice = "  - { issuer: https://login.example, audience: a, rules: [] }\n".repeat(2);
        assert!(load(&format!("issuers:\n{twice}")).err().unwrap().contains("named twice"));
        assert!(OpenId::load(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn a_rule_is_met_by_all_of_its_claims() {
        let claims = json!({ "groups": ["ml", "ops"], "sub": "repo:a", "verified": true, "level": 3 });
        let claims = claims.as_object().unwrap();
        for (wanted, met) in [
            (vec![("groups", "ml")], true),
            (vec![("groups", "ml"), ("sub", "repo:a")], true),
            (vec![("groups", "ml"), ("sub", "repo:b")], false),
            (vec![("groups", "m")], false),
            (vec![("groups", "ml,ops")], false),
            (vec![("verified", "true")], true),
            (vec![("level", "3")], false),
            (vec![("missing", "")], false),
        ] {
            let names = wanted.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let rule = Rule { claims: names.collect(), access: Access::PlatformAdmin };
            assert_eq!(rule.is_met_by(claims), met, "{wanted:?}");
        }
    }
}
