//! An issuer that is believed.

use std::collections::BTreeSet;

use fettle_egress::is_confidential;
use url::Url;

/// Whose word counts, and for whom it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// As its tokens name it in `iss`, letter by letter.
    pub issuer: String,
    /// One of these must be in `aud`: tokens for others say nothing to us.
    pub audiences: BTreeSet<String>,
    /// The claim that people are called by; `sub` when absent.
    pub name_claim: Option<String>,
    /// Certificates in PEM that are trusted beside the system's, to reach it.
    pub authorities: Vec<Vec<u8>>,
}

/// Why an issuer cannot be believed.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    /// Its name is no address.
    #[error("the issuer `{0}` is no URL; write it as the tokens do, like `https://login.example`")]
    Malformed(String),
    /// Anybody between could answer for it.
    #[error("the issuer `{0}` is not reached by https, so anybody in between could speak for it; only loopback may be")]
    Insecure(String),
    /// It would speak for everybody's applications.
    #[error("the issuer `{0}` has no audience, so that tokens for any application would count; name yours")]
    NoAudience(String),
    /// It is there twice.
    #[error("the issuer `{0}` is named twice")]
    Twice(String),
    /// It cannot be reached with these certificates.
    #[error("the issuer `{issuer}` cannot be reached")]
    Client {
        /// Which.
        issuer: String,
        /// Why.
        #[source]
        source: fettle_egress::ClientError,
    },
}

impl Issuer {
    /// Whether it can be believed at all.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), IssuerError> {
        let url: Url = self.issuer.parse().map_err(|_| IssuerError::Malformed(self.issuer.clone()))?;
        if url.query().is_some() || url.fragment().is_some() || url.cannot_be_a_base() {
            return Err(IssuerError::Malformed(self.issuer.clone()));
        }
        if !is_confidential(&url) {
            return Err(IssuerError::Insecure(self.issuer.clone()));
        }
        if self.audiences.iter().all(String::is_empty) {
            return Err(IssuerError::NoAudience(self.issuer.clone()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_an_address_that_nobody_else_can_answer_for() {
        let issuer = |name: &str, audiences: &[&str]| Issuer {
            issuer: name.to_owned(),
            audiences: audiences.iter().map(|&one| one.to_owned()).collect(),
            name_claim: None,
            authorities: Vec::new(),
        };
        for good in
            ["https://login.example", "https://login.example/realms/a/", "http://127.0.0.1:8080", "http://[::1]"]
        {
            assert!(issuer(good, &["fettle"]).check().is_ok(), "{good}");
        }
        for (bad, sentence) in [
            ("login.example", "is no URL"),
            ("https://login.example?x=1", "is no URL"),
            ("mailto:a@example", "is no URL"),
            ("http://login.example", "not reached by https"),
            ("http://127.0.0.1.example", "not reached by https"),
        ] {
            let refused = issuer(bad, &["fettle"]).check().unwrap_err().to_string();
            assert!(refused.contains(sentence), "{bad}: {refused}");
        }
        for nobody in [&[][..], &[""]] {
            assert!(issuer("https://login.example", nobody).check().is_err());
        }
    }
}
