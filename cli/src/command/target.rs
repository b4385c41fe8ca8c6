//! Which plane and which project a command speaks to.

use std::path::PathBuf;

use clap::Args;

use super::Session;
use crate::{
    context::Context,
    error::CommandError,
    login::{LoggedIn, MARGIN, Provider},
    output,
    plane::PlaneClient,
    supply, watch,
};

/// The variable with a bearer token.
const TOKEN_VARIABLE: &str = "FETTLE_TOKEN";

/// Which plane, and as whom.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Plane")]
pub(crate) struct PlaneArguments {
    /// Address of the plane.
    #[arg(long, env = "FETTLE_PLANE", value_name = "URL")]
    plane: Option<String>,
    /// File with the bearer token; `FETTLE_TOKEN` holds the token itself.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The project.
    #[arg(long, env = "FETTLE_PROJECT", value_name = "NAME")]
    project: Option<String>,
}

impl PlaneArguments {
    /// A client for the plane that is meant.
    ///
    /// # Errors
    /// When it is not said which plane, or there is no token for it.
    pub(crate) async fn client(&self, session: &Session) -> Result<PlaneClient, CommandError> {
        let variable = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
        if self.token_file.is_some() || variable.is_some() {
            return self.client_with(session, variable);
        }
        let context = renewed(&session.context).await;
        self.client_with(&Session { context, ..session.clone() }, None)
    }

    fn client_with(&self, session: &Session, variable: Option<String>) -> Result<PlaneClient, CommandError> {
        let context = &session.context;
        let address = self.plane.as_ref().or(context.plane.as_ref()).ok_or_else(|| CommandError::Missing {
            problem: "it is not said which plane to speak to".to_owned(),
            fix: "start one with `fettle dev`, or pass --plane URL or set FETTLE_PLANE".to_owned(),
        })?;
        let token = match &self.token_file {
            Some(path) => Some(supply::read(path)?.trim().to_owned()),
            // A token goes to the plane it is of, never to another one.
            None => variable.or_else(|| context.token.clone().filter(|_| context.plane.as_ref() == Some(address))),
        };
        let token = token.ok_or_else(|| CommandError::Missing {
            problem: format!("there is no token for the plane at {address}"),
            fix: format!("log in with `fettle login`, or set {TOKEN_VARIABLE} or pass --token-file; `fettle-plane token create` makes a token"),
        })?;
        let project = self.project.as_ref().or(context.project.as_ref()).map_or("default", String::as_str);
        Ok(PlaneClient::new(address, &token, project)?)
    }
}

/// The context with a token that lasts, where `fettle login` has left one that is about to end. What cannot be renewed
/// is used as it is: the plane says what is wrong with it.
async fn renewed(context: &Context) -> Context {
    let Some(login) = &context.login else { return context.clone() };
    let ends = login.expires_at.is_some_and(|end| end.duration_since(watch::now()) < MARGIN);
    let Some(refresh_token) = login.refresh_token.as_ref().filter(|_| ends) else { return context.clone() };
    let renewed = async {
        let provider = Provider::discover(&login.issuer, &login.client_id).await?;
        let LoggedIn { token, login } = provider.renew(refresh_token).await?;
        let context = Context { token: Some(token), login: Some(login), ..context.clone() };
        if let Some(path) = Context::path() {
            // The last one may be worth nothing any more.
            context.write(&path)?;
        }
        Ok::<_, CommandError>(context)
    };
    renewed.await.unwrap_or_else(|error| {
        output::remark(&format!("the login could not be renewed ({error}); log in again with `fettle login`"));
        context.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_the_context_goes_to_its_own_plane_only() {
        let context = Context {
            plane: Some("http://127.0.0.1:1".to_owned()),
            token: Some("secret".to_owned()),
            ..Context::default()
        };
        let session = Session { context, ..Session::default() };
        let own = PlaneArguments::default().client_with(&session, None).unwrap();
        assert_eq!(own.address(), "http://127.0.0.1:1");
        let other = PlaneArguments { plane: Some("http://127.0.0.1:2".to_owned()), ..PlaneArguments::default() };
        let error = other.client_with(&session, None).unwrap_err().to_string();
        assert!(error.contains("no token for the plane at http://127.0.0.1:2"), "{error}");
        assert!(other.client_with(&session, Some("its own".to_owned())).is_ok());
    }

    #[test]
    fn without_a_plane_the_error_says_how_to_get_one() {
        let error = PlaneArguments::default().client_with(&Session::default(), None).unwrap_err();
        assert!(error.help().unwrap().contains("fettle dev"), "{error}");
        let wrong = PlaneArguments { plane: Some("localhost".to_owned()), ..PlaneArguments::default() };
        let error = wrong.client_with(&Session::default(), Some("t".to_owned())).unwrap_err();
        assert_eq!(error.exit(), crate::exit::Exit::Usage);
    }
}
