use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// Gives tokens that are numbered, each for so long.
struct Numbered {
    given: AtomicU32,
    lifetime: Duration,
}

impl Numbered {
    fn lasting(lifetime: Duration) -> Arc<Self> {
        Arc::new(Self { given: AtomicU32::new(0), lifetime })
    }
}

impl Issuer for Numbered {
    fn issue<'a>(&'a self, step_id: &'a StepId, _: &'a Intent) -> BoxFuture<'a, Result<Issued, IssueError>> {
        Box::pin(async move {
            let number = self.given.fetch_add(1, Ordering::Relaxed) + 1;
            let token = Secret::new(&format!("{step_id}-{number}"))?;
            Ok(Issued { lifetime: self.lifetime, parts: BTreeMap::from([("token".to_owned(), token)]) })
        })
    }
}

fn step(name: &str) -> StepId {
    name.parse().unwrap()
}

fn intent() -> Intent {
    Intent::new(CredentialType::HfToken, "meta/llama").unwrap()
}

/// The purse of a task in which one step may have tokens for `meta/*`.
fn purse(task: &str, issuer: Arc<dyn Issuer>) -> Purse {
    let purse = Purse::new(HandleKey::from([7; 32]), task.to_owned(), issuer);
    let rule = "hf_token meta/*".parse().unwrap();
    purse.allow(&step("token"), &CredentialsGrant { mint: [rule].into() });
    purse
}

async fn token(purse: &Purse, handle: &str) -> Result<String, IssueError> {
    let credential = purse.open(handle, CredentialType::HfToken).await?;
    Ok(credential.part("token").unwrap().expose().to_owned())
}

#[tokio::test]
async fn a_credential_is_minted_once_and_used_often() {
    let issuer = Numbered::lasting(Duration::from_mins(5));
    let purse = purse("task", issuer.clone());
    let handle = purse.mint(&step("token"), intent()).await.unwrap();
    assert!(!handle.contains("token-1"), "{handle}");
    for _ in 0..3 {
        assert_eq!(token(&purse, &handle).await.unwrap(), "token-1");
    }
    assert_eq!(issuer.given.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn what_has_run_out_is_minted_again_before_it_is_used() {
    // As good as over when it comes.
    let purse = purse("task", Numbered::lasting(MARGIN));
    let handle = purse.mint(&step("token"), intent()).await.unwrap();
    assert_eq!(token(&purse, &handle).await.unwrap(), "token-2");
    let credential = purse.open(&handle, CredentialType::HfToken).await.unwrap();
    assert!(credential.is_good() && !credential.lasts());
}

#[tokio::test]
async fn a_task_that_goes_on_after_a_restart_knows_its_handles() {
    let before = purse("task", Numbered::lasting(Duration::from_mins(5)));
    let handle = before.mint(&step("token"), intent()).await.unwrap();
    drop(before);
    let after = purse("task", Numbered::lasting(Duration::from_mins(5)));
    assert_eq!(token(&after, &handle).await.unwrap(), "token-1");
}

#[tokio::test]
async fn a_handle_is_of_its_task_its_type_and_a_step_that_may() {
    let issuer = Numbered::lasting(Duration::from_mins(5));
    let purse = purse("task", issuer.clone());
    let handle = purse.mint(&step("token"), intent()).await.unwrap();
    let other = self::purse("other", issuer.clone());
    assert!(matches!(token(&other, &handle).await, Err(IssueError::NoHandle(_))));
    assert!(matches!(purse.open(&handle, CredentialType::OciPull).await, Err(IssueError::NoHandle(_))));
    // The step may no longer: its definition is the same, and the node's policy allows less.
    purse.allow(&step("token"), &CredentialsGrant::default());
    assert!(matches!(token(&purse, &handle).await, Err(IssueError::NoHandle(_))));
    assert_eq!(issuer.given.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_task_has_only_so_many() {
    let purse = purse("task", Numbered::lasting(MARGIN));
    for _ in 0..MOST {
        purse.mint(&step("token"), intent()).await.unwrap();
    }
    assert!(matches!(purse.mint(&step("token"), intent()).await, Err(IssueError::TooMany)));
}

#[tokio::test]
async fn without_a_plane_there_is_none() {
    let purse = purse("task", Arc::new(NoIssuer));
    let error = purse.mint(&step("token"), intent()).await.unwrap_err();
    assert!(error.to_string().contains("[credential.no_plane]"), "{error}");
}
