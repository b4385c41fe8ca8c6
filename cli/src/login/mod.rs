//! Logging in as a person: an OpenID provider lets a program in that has no browser of its own (RFC 8628, the device
//! flow), and gives it a token that a plane believes.

mod token;
mod web;

use jiff::SignedDuration;
use oauth2::{
    Client, ClientId, DeviceAuthorizationUrl, EndpointNotSet, EndpointSet, ExtraTokenFields, RefreshToken,
    RequestTokenError, Scope, StandardDeviceAuthorizationResponse, StandardRevocableToken, StandardTokenResponse,
    TokenResponse as _, TokenUrl,
    basic::{BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse, BasicTokenType},
};
use serde::{Deserialize, Serialize};

use self::web::{Web, WebError};
use crate::{context::Login, watch};

/// A token that ends sooner than that is renewed before it is used.
pub(crate) const MARGIN: SignedDuration = SignedDuration::from_secs(60);

type Tokens = StandardTokenResponse<IdToken, BasicTokenType>;
type OAuth = Client<
    BasicErrorResponse,
    Tokens,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointNotSet,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;

/// What OpenID adds to the answer of OAuth 2.0.
#[derive(Debug, Serialize, Deserialize)]
struct IdToken {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id_token: Option<String>,
}

impl ExtraTokenFields for IdToken {}

/// Why nobody is logged in.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The issuer is none.
    #[error("`{0}` is no issuer; write it as the plane's `--openid` document does, like `https://login.example`")]
    Issuer(String),
    /// It is not reached, or answers something else.
    #[error("the issuer `{issuer}` cannot be asked")]
    Unavailable {
        /// Which.
        issuer: String,
        /// Why.
        #[source]
        source: WebError,
    },
    /// It does not do this.
    #[error(
        "the issuer `{0}` lets no program in that has no browser of its own; it has no `device_authorization_endpoint`"
    )]
    NoDevices(String),
    /// It says no.
    #[error("the issuer `{issuer}` refuses: {reason}")]
    Refused {
        /// Which.
        issuer: String,
        /// What it says.
        reason: String,
    },
}

/// What an issuer says of itself (OpenID Connect Discovery 1.0).
#[derive(Deserialize)]
struct Discovered {
    issuer: String,
    token_endpoint: TokenUrl,
    device_authorization_endpoint: Option<DeviceAuthorizationUrl>,
}

/// An issuer, and the program as it knows it.
pub(crate) struct Provider {
    issuer: String,
    client_id: String,
    oauth: OAuth,
    web: Web,
}

/// A token for a plane, and how to have the next one.
pub(crate) struct LoggedIn {
    pub(crate) token: String,
    pub(crate) login: Login,
}

impl Provider {
    /// Asks an issuer where it lets programs in.
    pub(crate) async fn discover(issuer: &str, client_id: &str) -> Result<Self, LoginError> {
        let unavailable = |source| LoginError::Unavailable { issuer: issuer.to_owned(), source };
        let web = Web::for_issuer(issuer).ok_or_else(|| LoginError::Issuer(issuer.to_owned()))?;
        let place = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let found: Discovered = web.document(&place).await.map_err(unavailable)?;
        // Somebody else's word would be a way to have a person log in for somebody else.
        if found.issuer != issuer {
            return Err(unavailable(WebError::OtherIssuer(found.issuer)));
        }
        let devices = found.device_authorization_endpoint.ok_or_else(|| LoginError::NoDevices(issuer.to_owned()))?;
        for endpoint in [devices.as_str(), found.token_endpoint.as_str()] {
            if !web::is_safe(endpoint) {
                return Err(unavailable(WebError::Insecure(endpoint.to_owned())));
            }
        }
        let oauth = Client::new(ClientId::new(client_id.to_owned()))
            .set_token_uri(found.token_endpoint)
            .set_device_authorization_url(devices);
        Ok(Self { issuer: issuer.to_owned(), client_id: client_id.to_owned(), oauth, web })
    }

    /// Waits until a person has let the program in; `tell` shows them where, and which code to type there.
    pub(crate) async fn log_in(
        &self,
        scopes: &[String],
        tell: impl FnOnce(&str, &str),
    ) -> Result<LoggedIn, LoginError> {
        let http = |request| self.web.send(request);
        let scopes = scopes.iter().cloned().map(Scope::new);
        let asked = self.oauth.exchange_device_code().add_scopes(scopes).request_async(&http).await;
        let asked: StandardDeviceAuthorizationResponse = asked.map_err(|error| self.refused(error))?;
        let place = asked.verification_uri_complete().map_or(asked.verification_uri().as_str(), |place| place.secret());
        tell(place, asked.user_code().secret());
        let given =
            self.oauth.exchange_device_access_token(&asked).request_async(&http, tokio::time::sleep, None).await;
        Ok(self.logged_in(&given.map_err(|error| self.refused(error))?, None))
    }

    /// The next token, for what was given with the last one.
    pub(crate) async fn renew(&self, refresh_token: &str) -> Result<LoggedIn, LoginError> {
        let http = |request| self.web.send(request);
        let last = RefreshToken::new(refresh_token.to_owned());
        let given = self.oauth.exchange_refresh_token(&last).request_async(&http).await;
        Ok(self.logged_in(&given.map_err(|error| self.refused(error))?, Some(refresh_token)))
    }

    fn logged_in(&self, given: &Tokens, last: Option<&str>) -> LoggedIn {
        let token = given.extra_fields().id_token.clone().unwrap_or_else(|| given.access_token().secret().clone());
        let lasts = given.expires_in().and_then(|lasts| SignedDuration::try_from(lasts).ok());
        let expires_at = token::expires_at(&token).or_else(|| watch::now().checked_add(lasts?).ok());
        let refresh_token = given.refresh_token().map(|token| token.secret().as_str()).or(last).map(str::to_owned);
        let (issuer, client_id) = (self.issuer.clone(), self.client_id.clone());
        LoggedIn { token, login: Login { issuer, client_id, refresh_token, expires_at } }
    }

    fn refused(&self, error: RequestTokenError<WebError, impl oauth2::ErrorResponse>) -> LoginError {
        let issuer = self.issuer.clone();
        match error {
            RequestTokenError::Request(source) => LoginError::Unavailable { issuer, source },
            RequestTokenError::ServerResponse(said) => LoginError::Refused { issuer, reason: said.to_string() },
            // What serde says may quote a token.
            RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
                LoginError::Unavailable { issuer, source: WebError::Form }
            }
        }
    }
}
