//! When an issuer is asked for its keys, and what happens while it does not answer.

use fettle_openid::{Refusal, Unavailable};

use crate::support::{ISSUER, Key, NOW, Recorded, at, claims, now, set};

fn forever(key: &Key) -> String {
    let mut claims = claims();
    claims["exp"] = (NOW + 1_000_000).into();
    key.token(&claims)
}

fn away() -> Unavailable {
    Unavailable::new("it answered 503")
}

#[tokio::test]
async fn a_key_that_is_not_known_is_looked_for_once_in_ten_seconds() {
    let (old, new, stranger) = (Key::new("old"), Key::new("new"), Key::new("stranger"));
    let issuer = Recorded::new([Ok(set(&[&old])), Ok(set(&[&old, &new]))]);
    let verifier = issuer.verifier();
    assert!(verifier.verify(&forever(&old), now()).await.is_ok());
    assert!(verifier.verify(&forever(&old), now()).await.is_ok());
    assert_eq!(issuer.asked(), 1, "what is known is not asked for again");
    let unknown = Err(Refusal::UnknownKey { issuer: ISSUER.to_owned() });
    assert_eq!(verifier.verify(&forever(&new), at(9)).await, unknown, "it was asked a moment ago");
    assert!(verifier.verify(&forever(&new), at(10)).await.is_ok(), "the issuer has another key now");
    assert_eq!(issuer.asked(), 2);
    for second in 11..20 {
        assert_eq!(verifier.verify(&forever(&stranger), at(second)).await, unknown);
    }
    assert_eq!(issuer.asked(), 2, "whoever makes up keys does not make the plane ask for each");
}

#[tokio::test]
async fn many_at_once_make_one_request() {
    let key = Key::new("a");
    let issuer = Recorded::new([Ok(set(&[&key]))]);
    let (verifier, token) = (issuer.verifier(), forever(&key));
    let one = || verifier.verify(&token, now());
    let all = tokio::join!(one(), one(), one(), one(), one());
    assert!(all.0.is_ok() && all.1.is_ok() && all.2.is_ok() && all.3.is_ok() && all.4.is_ok());
    assert_eq!(issuer.asked(), 1);
}

#[tokio::test]
async fn a_key_that_the_issuer_took_away_counts_no_longer_within_the_hour() {
    let (leaked, new) = (Key::new("leaked"), Key::new("new"));
    let issuer = Recorded::new([Ok(set(&[&leaked])), Ok(set(&[&new]))]);
    let verifier = issuer.verifier();
    assert!(verifier.verify(&forever(&leaked), now()).await.is_ok());
    let token = forever(&leaked);
    // After an hour the keys are read again beside the token that made it so.
    assert!(verifier.verify(&token, at(3_601)).await.is_ok());
    while issuer.asked() < 2 {
        tokio::task::yield_now().await;
    }
    while verifier.verify(&token, at(3_602)).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let refused = verifier.verify(&token, at(3_602)).await;
    assert_eq!(refused, Err(Refusal::UnknownKey { issuer: ISSUER.to_owned() }));
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_is_told_from_one_that_does_not_know_the_key() {
    let key = Key::new("a");
    let issuer = Recorded::new([Err(away()), Ok(set(&[&key]))]);
    let verifier = issuer.verifier();
    let refused = verifier.verify(&forever(&key), now()).await.unwrap_err();
    let expected = Refusal::Unavailable { issuer: ISSUER.to_owned(), reason: "it answered 503".to_owned() };
    assert_eq!((&refused, refused.code()), (&expected, "openid.issuer_unavailable"));
    assert!(verifier.verify(&forever(&key), at(10)).await.is_ok());
}

#[tokio::test]
async fn keys_are_used_for_a_day_while_the_issuer_is_away_and_not_longer() {
    let key = Key::new("a");
    let issuer = Recorded::new([Ok(set(&[&key])), Err(away())]);
    let verifier = issuer.verifier();
    let token = forever(&key);
    for hours in [0, 2, 23] {
        assert!(verifier.verify(&token, at(hours * 3_600)).await.is_ok(), "{hours} hours");
        tokio::task::yield_now().await;
    }
    let refused = verifier.verify(&token, at(25 * 3_600)).await.unwrap_err();
    assert_eq!(refused.code(), "openid.issuer_unavailable", "the key may have been taken away in the meantime");
}
