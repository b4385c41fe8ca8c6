//! A capability call that was refused while a step ran.

use serde::{Deserialize, Serialize};

use crate::{
    access::{Document, Fix},
    name::StepId,
};

/// Most characters of a rule, of one thing it allows, and of a subject.
pub const TEXT_LIMIT: usize = 200;

/// Most things a rule is told to allow.
pub const ALLOWS_LIMIT: usize = 16;

/// One refused call: which rule refused what. Never holds a secret: subjects are paths, hosts, names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// 1 for the first of an attempt.
    pub number: u32,
    /// Milliseconds since the Unix epoch, by the host's clock.
    pub at: i64,
    /// The capability that was called.
    pub capability: String,
    /// The function of it.
    pub function: String,
    /// The rule that refused: `files.write`, `artifact_constraints.allowed_repositories`.
    pub rule: String,
    /// What the rule allows; cut to the first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allows: Vec<String>,
    /// What was wanted, and the rule does not allow; shortened.
    pub subject: String,
    /// Calls of the attempt that were denied before this one and not recorded. Only the last record of an
    /// attempt that was denied too often has any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Denial {
    /// The same within its limits, and without line breaks: it came from a step, or from a node.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        for text in [&mut self.capability, &mut self.function, &mut self.rule, &mut self.subject] {
            *text = shorten(text);
        }
        self.allows.truncate(ALLOWS_LIMIT);
        self.allows.iter_mut().for_each(|text| *text = shorten(text));
        self
    }

    /// One sentence for a log.
    #[must_use]
    pub fn sentence(&self, step: &StepId) -> String {
        let Self { capability, function, rule, subject, .. } = self;
        let wanted = if subject.is_empty() { String::new() } else { format!(" on `{subject}`") };
        let allows = match self.allows.as_slice() {
            [] => "nothing".to_owned(),
            some => some.join(", "),
        };
        let fix = self.fix(step).map_or_else(String::new, |fix| format!("; to allow it, {fix}"));
        let dropped = match self.dropped {
            0 => String::new(),
            more => format!(" ({more} more denied calls were not recorded)"),
        };
        format!("denied: `{capability}.{function}`{wanted}, because `{rule}` allows {allows}{fix}{dropped}")
    }

    /// The line that would allow it; none when no single line would, or too little is known.
    #[must_use]
    pub fn fix(&self, step: &StepId) -> Option<Fix> {
        let known = self.allows.iter().chain([&self.subject]);
        if self.subject.is_empty() || self.allows.len() == ALLOWS_LIMIT || known.clone().any(|text| text.ends_with('…'))
        {
            return None;
        }
        let at = match self.rule.as_str() {
            "artifact_constraints.allowed_repositories" => "artifact_constraints".to_owned(),
            "exec.profiles" | "files.read" | "files.write" | "transfer.hosts" | "facts.read" | "http.requests" => {
                format!("steps[{step}].grants.{}", self.rule.split('.').next()?)
            }
            "egress.private" => {
                let (document, at) = (Document::PolicyBundle, "egress.private".to_owned());
                return Some(Fix { document, at, line: self.subject.clone() });
            }
            _ => return None,
        };
        let field = self.rule.rsplit('.').next()?;
        Some(Fix::list(Document::Definition, at, field, known.map(String::as_str)))
    }
}

fn shorten(text: &str) -> String {
    let line = |c: char| if c.is_control() { ' ' } else { c };
    match text.char_indices().nth(TEXT_LIMIT) {
        Some((end, _)) => text.get(..end).unwrap_or_default().chars().map(line).chain(['…']).collect(),
        None => text.chars().map(line).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(rule: &str, allows: &[&str], subject: &str) -> Denial {
        Denial {
            number: 1,
            at: 0,
            capability: "files".to_owned(),
            function: "write".to_owned(),
            rule: rule.to_owned(),
            allows: allows.iter().map(|text| (*text).to_owned()).collect(),
            subject: subject.to_owned(),
            dropped: 0,
        }
    }

    #[test]
    fn a_denial_says_the_rule_and_the_line_that_would_allow_it() {
        let step: StepId = "render".parse().unwrap();
        assert_eq!(
            denial("files.write", &["models"], "config/x").sentence(&step),
            "denied: `files.write` on `config/x`, because `files.write` allows models; to allow it, write \
             `write: [models, config/x]` under `steps[render].grants.files` of the definition"
        );
        assert_eq!(
            denial("artifact_constraints.allowed_repositories", &["models/*"], "evil/x")
                .fix(&step)
                .unwrap()
                .to_string(),
            "write `allowed_repositories: ['models/*', evil/x]` under `artifact_constraints` of the definition"
        );
        assert_eq!(
            denial("http.requests", &["GET https://a.example/v1/"], "POST https://a.example/v1/")
                .fix(&step)
                .unwrap()
                .line,
            "requests: [{ url: 'https://a.example/v1/', methods: [GET] }, { url: 'https://a.example/v1/', methods: [POST] }]"
        );
        assert_eq!(
            denial("egress.private", &[], "registry.internal: [10.0.0.1/32]").fix(&step).unwrap().to_string(),
            "write `registry.internal: [10.0.0.1/32]` under `egress.private` of the policy bundle"
        );
        let dropped = Denial { dropped: 7, ..denial("gpu.read", &[], "") };
        assert_eq!(
            dropped.sentence(&step),
            "denied: `files.write`, because `gpu.read` allows nothing (7 more denied calls were not recorded)"
        );
    }

    #[test]
    fn whatever_a_step_asks_for_its_record_is_small_and_one_line() {
        let long = denial(&"r".repeat(10_000), &["ä\n"; 1000], &"päth/\u{1b}[2J\n".repeat(10_000)).shortened();
        assert!(serde_json::to_string(&long).unwrap().len() < 2_000);
        assert!(!long.sentence(&"a".parse().unwrap()).contains(char::is_control));
        assert_eq!(long.fix(&"a".parse().unwrap()), None, "what was cut is no line to write");
    }
}
