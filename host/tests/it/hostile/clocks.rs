//! Clocks: a step cannot tell the time, nor how long anything took.

use fettle_host::{
    mutation::{Protection, without},
    sandbox::Limits,
};
use serde_json::json;

use super::attacks::{Attack, Field};

#[tokio::test(flavor = "multi_thread")]
async fn clocks_stand_still_and_tell_the_time_without_that_protection() {
    let field = Field::new(Limits::default()).await;
    let attack = Attack::of("clocks", json!({"attack": "clocks"}));
    let first = field.launch(&attack).await.unwrap();
    assert_eq!(field.launch(&attack).await.unwrap(), first, "a step told one moment from another");
    let _without = without(Protection::ClocksStandStill);
    let told = field.launch(&attack).await.unwrap();
    assert!(told != first && field.launch(&attack).await.unwrap() != told, "{told}");
}
