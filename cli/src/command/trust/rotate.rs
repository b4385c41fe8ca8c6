//! `fettle trust rotate`

use std::path::PathBuf;

use clap::Args;
use fettle_supply::{Replaced, TrustPolicy};
use serde_json::json;

use super::{Session, check, file};
use crate::{error::CommandError, supply::read};

/// Writes the trust policy that takes another's place when a key is replaced or taken away: the key is exchanged
/// wherever it is named, the revision is one higher, and everything else stays but comments. It takes effect where it is
/// published, signed by the roots of the policy in force, and activated; this command says how.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle trust rotate trust.yaml --replace build.pub --with build-2.pub --output trust-2.yaml
  fettle trust rotate trust.yaml --remove leaked.pub --output trust-2.yaml")]
pub struct Rotate {
    /// The trust policy in force, in YAML or JSON (`fettle trust show`).
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The public key that goes, when another one comes in its place.
    #[arg(long, value_name = "FILE", requires = "with", required_unless_present = "remove")]
    replace: Option<PathBuf>,
    /// The public key that comes.
    #[arg(long, value_name = "FILE", requires = "replace")]
    with: Option<PathBuf>,
    /// The public key that goes without another in its place.
    #[arg(long, value_name = "FILE", conflicts_with = "replace")]
    remove: Option<PathBuf>,
    /// The trust policy to write; nothing is overwritten.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

impl Rotate {
    pub(super) fn run(&self, session: &Session) -> Result<(), CommandError> {
        let unusable = |source| CommandError::Trust { path: self.file.clone(), source };
        let policy = TrustPolicy::read(&read(&self.file)?).map_err(unusable)?;
        let gone = self.replace.iter().chain(&self.remove).next().cloned().unwrap_or_default();
        let (_, old) = file::key(&gone)?;
        let new = self.with.as_deref().map(file::key).transpose()?;
        let Replaced { policy: next, kinds } = policy.with_key_replaced(&old, new.as_ref()).map_err(unusable)?;
        if kinds.is_empty() {
            return Err(CommandError::NotThere {
                problem: format!("{} does not name the key {} of {}", self.file.display(), old.id(), gone.display()),
                fix: "`fettle trust check FILE` lists the keys that it names".to_owned(),
            });
        }
        file::write_new(&self.output, &next)?;
        let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
        let mut value = check::value(&next);
        if let Some(members) = value.as_object_mut() {
            members.insert("changed".to_owned(), json!(names));
        }
        session.show(&value, |_| {
            let mut text = check::text(&next);
            text.push_str(&format!("changed   {}\nwritten   {}\n", names.join(", "), self.output.display()));
            text + &self.what_follows(&policy)
        })
    }

    fn what_follows(&self, policy: &TrustPolicy) -> String {
        let output = self.output.display();
        match policy.in_words().get("trust_policy") {
            Some(roots) => format!(
                "\nIt counts once it is signed by {roots}:\n  fettle trust publish {output} --key ROOT.key    # once with \
                 each root\nand activated on each machine:\n  fettle trust activate --trust {} --directory DATA \
                 REFERENCE\n",
                self.file.display()
            ),
            None => format!(
                "\n{} names no root, so nothing replaces it but a file: put {output} in its place on each machine\n",
                self.file.display()
            ),
        }
    }
}
