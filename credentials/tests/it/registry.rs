use fettle_model::credential::CredentialType;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};

use crate::support::{DIGEST, Place, mint};

#[tokio::test]
async fn a_token_opens_one_repository_for_pulling_for_a_while() {
    let place = Place::new();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let certificate = rcgen::CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
    std::fs::write(place.directory.path().join("registry.pem"), certificate.pem()).unwrap();
    let provider = format!(
        "{{ type: oci_pull, scope: 'r:1/*', from: {{ registry_key: {{ issuer: fettle, service: registry, \
         certificate_file: registry.pem, key: {} }} }} }}",
        place.seal(&key.serialize_pem())
    );
    let desk = place.desk(&provider).unwrap();
    let scope = format!("r:1/models/a@{DIGEST}");
    let minted = mint(&desk, CredentialType::OciPull, &scope).await.unwrap();
    let token = minted.material["token"].as_str();
    let header = jsonwebtoken::decode_header(token).unwrap();
    assert_eq!((header.alg, header.x5c.unwrap().len()), (Algorithm::ES256, 1));
    let mut validation = Validation::new(Algorithm::ES256);
    validation.set_audience(&["registry"]);
    validation.set_issuer(&["fettle"]);
    validation.validate_exp = false;
    let public = DecodingKey::from_ec_der(key.public_key_raw());
    let claims = jsonwebtoken::decode::<Value>(token, &public, &validation).unwrap().claims;
    assert_eq!(claims["access"], json!([{"type": "repository", "name": "models/a", "actions": ["pull"]}]));
    assert_eq!((&claims["sub"], &claims["jti"]), (&json!("nodes/node-1"), &json!("mint-1")));
    let seconds = |name: &str| claims[name].as_i64().unwrap();
    assert_eq!((seconds("exp") - seconds("iat"), seconds("iat") - seconds("nbf")), (300, 30));
}
