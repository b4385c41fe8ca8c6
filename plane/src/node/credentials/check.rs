//! Whether a credential follows from what was signed: the operation's definition grants its step that it has it minted, and
//! the operation may use such artifacts.

use fettle_model::{credential::Intent, definition::Definition, plan::Sources};
use fettle_store::{operation::Operation, task::HeldTask};

use super::NodeProblem;
use crate::state::State;

/// A credential that is asked for, for a step of an operation.
pub(super) struct Question<'a> {
    pub(super) operation_id: &'a str,
    pub(super) step_id: &'a str,
    pub(super) intent: &'a Intent,
}

impl Question<'_> {
    /// Refuses what does not follow from what was signed.
    pub(super) async fn check(&self, state: &State, held: &HeldTask) -> Result<(), NodeProblem> {
        if held.operation_id.to_string() != self.operation_id {
            let told: String = self.operation_id.chars().take(64).collect();
            let detail = format!("the task belongs to operation `{}`, not to `{told}`", held.operation_id);
            return Err(NodeProblem::denied("credential.other_operation", detail));
        }
        let unknown = || NodeProblem::denied("credential.unknown_operation", "the operation is not there".to_owned());
        let operation =
            state.store.operation(&held.project.project_id, held.operation_id).await?.ok_or_else(unknown)?;
        let Operation { operation_type, version, sources, .. } = &operation;
        let registered = state.definitions.get(state, operation_type, version).await?.ok_or_else(unknown)?;
        self.follows_from(&registered.definition, &registered.sources, sources)
    }

    fn follows_from(
        &self,
        definition: &Definition,
        registered: &Sources,
        planned: &Sources,
    ) -> Result<(), NodeProblem> {
        let denied = |code, detail: String| Err(NodeProblem::denied(code, detail));
        let Definition { operation_type, version, .. } = definition;
        // A draft may have been amended since the operation was planned.
        if registered.definition.digest != planned.definition.digest {
            let detail =
                format!("{operation_type}@{version} is another definition now than the operation was planned with");
            return denied("credential.other_definition", detail);
        }
        let Some(step) = definition.steps.iter().find(|step| step.id.as_str() == self.step_id) else {
            let told: String = self.step_id.chars().take(64).collect();
            return denied("credential.unknown_step", format!("{operation_type}@{version} has no step `{told}`"));
        };
        if !step.grants.credentials.as_ref().is_some_and(|grant| grant.allows(self.intent)) {
            let detail = format!(
                "step `{}` of {operation_type}@{version} does not grant it; add it to `grants.credentials.mint` of the step",
                step.id
            );
            return denied("credential.not_granted", detail);
        }
        let artifact = self.intent.artifact();
        let allowed = definition.artifact_constraints.as_ref();
        match artifact.zip(allowed).filter(|(artifact, allowed)| !allowed.allows(artifact.repository.path())) {
            Some((artifact, allowed)) => {
                let detail = format!(
                    "{operation_type}@{version} allows artifacts of {} only, and this is of `{}`",
                    allowed.allowed_repositories.join(", "),
                    artifact.repository.path()
                );
                denied("credential.outside_constraints", detail)
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use fettle_model::{credential::CredentialType, document};

    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const OTHER: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    const DEFINITION: &str = "
operation_type: model.stage
version: v1
backend_type: node_agent
input_schema: { type: object }
artifact_constraints: { allowed_repositories: ['models/*'] }
steps:
  - id: token
    uses: credential.mint@v1
    reusable: false
    grants: { credentials: { mint: [{ type: oci_pull, scope: 'r:1/*' }, { type: s3_read, scope: 'bucket/*' }] } }
  - { id: other, uses: noop@v1 }
";

    fn sources(digest: &str) -> Sources {
        let reference = |name: &str| format!("r:1/{name}@{digest}").parse().unwrap();
        Sources { definition: reference("definition"), catalog: reference("catalog"), policy: reference("policy") }
    }

    fn code(step_id: &str, credential_type: CredentialType, scope: &str, planned: &str) -> Option<&'static str> {
        let definition: Definition = document::read(DEFINITION).unwrap();
        let intent = Intent::new(credential_type, scope).unwrap();
        let question = Question { operation_id: "", step_id, intent: &intent };
        question.follows_from(&definition, &sources(DIGEST), &sources(planned)).err().map(|problem| problem.code())
    }

    #[test]
    fn only_what_was_signed_for_this_step_is_given() {
        let (oci, s3) = (CredentialType::OciPull, CredentialType::S3Read);
        let model = format!("r:1/models/a@{DIGEST}");
        for (step, credential_type, scope, planned, expected) in [
            ("token", oci, model.as_str(), DIGEST, None),
            ("token", s3, "bucket/a", DIGEST, None),
            ("token", s3, "other/a", DIGEST, Some("credential.not_granted")),
            ("token", CredentialType::GcsRead, "bucket/a", DIGEST, Some("credential.not_granted")),
            ("other", oci, &model, DIGEST, Some("credential.not_granted")),
            ("nobody", oci, &model, DIGEST, Some("credential.unknown_step")),
            ("token", oci, &model.replace("models", "secrets"), DIGEST, Some("credential.outside_constraints")),
            ("token", oci, &model.replace("r:1", "r:2"), DIGEST, Some("credential.not_granted")),
            ("token", oci, &model, OTHER, Some("credential.other_definition")),
        ] {
            assert_eq!(code(step, credential_type, scope, planned), expected, "{step} {credential_type} {scope}");
        }
    }
}
