//! `fettle login`, `fettle logout`

use clap::Args;
use serde::Serialize;

use super::Session;
use crate::{
    context::Context,
    error::CommandError,
    login::{LoggedIn, Provider},
    output,
    plane::PlaneClient,
};

/// Log in as a person, by the word of an OpenID provider.
///
/// Shows an address and a code; open it in any browser, on any machine, and type the code there. The token goes into the
/// context file, which its owner alone may read, and is renewed by itself for as long as the provider lets it.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Example:
  fettle login --plane https://plane.example --issuer https://login.example --client-id fettle
  fettle login                                    as the last time")]
pub struct Login {
    /// Address of the plane.
    #[arg(long, env = "FETTLE_PLANE", value_name = "URL")]
    plane: Option<String>,
    /// The provider, as the plane's `--openid` document names it.
    #[arg(long, env = "FETTLE_ISSUER", value_name = "URL")]
    issuer: Option<String>,
    /// This program, as the provider knows it: a public client that may use the device flow.
    #[arg(long, env = "FETTLE_CLIENT_ID", value_name = "ID")]
    client_id: Option<String>,
    /// What to ask for beside `openid`: `offline_access` where a token is not renewed without. Repeatable.
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
}

/// Forget the token that `fettle login` has left.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "\
Example:
  fettle logout")]
pub struct Logout {}

/// What came of it.
#[derive(Serialize)]
struct Done {
    plane: String,
    issuer: String,
    /// When the token ends; it is renewed before, where the provider lets it.
    expires_at: Option<jiff::Timestamp>,
    renews: bool,
}

impl Login {
    /// Runs the command.
    ///
    /// # Errors
    /// When the provider or the plane lets nobody in.
    pub async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let last = session.context.login.as_ref();
        let missing = |what: &str, option: &str| CommandError::Missing {
            problem: format!("it is not said {what}"),
            fix: format!("pass {option}; it is remembered"),
        };
        let plane = self.plane.as_ref().or(session.context.plane.as_ref());
        let plane = plane.ok_or_else(|| missing("which plane to log in to", "--plane URL"))?;
        let issuer = self.issuer.as_ref().or(last.map(|last| &last.issuer));
        let issuer = issuer.ok_or_else(|| missing("who is to vouch for you", "--issuer URL"))?;
        let client_id = self.client_id.as_ref().or(last.map(|last| &last.client_id));
        let client_id =
            client_id.ok_or_else(|| missing("as which program the provider knows this", "--client-id ID"))?;
        let scopes: Vec<String> = ["openid".to_owned()].into_iter().chain(self.scope.iter().cloned()).collect();
        let provider = Provider::discover(issuer, client_id).await?;
        let LoggedIn { token, login } = provider
            .log_in(&scopes, |place, code| {
                output::remark(&format!(
                    "Open {place}\nand see that it shows the code {code}. Waiting until you are let in."
                ));
            })
            .await?;
        // Whoever the provider vouches for may still be nobody here.
        PlaneClient::new(plane, &token, "default")?.nodes().await?;
        let (expires_at, renews) = (login.expires_at, login.refresh_token.is_some());
        let issuer = login.issuer.clone();
        let context = Context {
            written_by: None,
            plane: Some(plane.clone()),
            token: Some(token),
            login: Some(login),
            ..session.context.clone()
        };
        context.write(&path()?)?;
        let done = Done { plane: plane.clone(), issuer, expires_at, renews };
        session.show(&done, |done| {
            let end = done.expires_at.map_or_else(|| "it does not say when".to_owned(), |at| at.to_string());
            let renews = if done.renews { "renewed by itself before" } else { "log in again then" };
            format!("logged in at {} (until {end}; {renews})", done.plane)
        })
    }
}

impl Logout {
    /// Runs the command.
    ///
    /// # Errors
    /// When the context file cannot be written.
    pub fn run(&self, session: &Session) -> Result<(), CommandError> {
        let was = session.context.login.is_some();
        if was {
            let context = Context { token: None, login: None, ..session.context.clone() };
            context.write(&path()?)?;
        }
        session.show(&serde_json::json!({ "was_logged_in": was }), |_| {
            if was { "logged out; the provider is not told".to_owned() } else { "nobody was logged in".to_owned() }
        })
    }
}

fn path() -> Result<std::path::PathBuf, CommandError> {
    Context::path().ok_or_else(|| CommandError::Missing {
        problem: "there is no place for the context file".to_owned(),
        fix: "set FETTLE_CONTEXT or HOME".to_owned(),
    })
}
