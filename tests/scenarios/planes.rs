//! Several planes over one database: what is special about them. The other scenarios run on several planes too,
//! where `FETTLE_TEST_PLANES` says so.

use fettle_postgres_cluster::Cluster;
use fettle_tests::{
    Fleet, Supply, eventually,
    fleet::{On, PATIENCE, step},
};
use serde_json::json;

use crate::{POLICY, PROGRAMS, RENDER, SLEEP, interruptions::children};

const PLANES: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn a_host_goes_on_at_another_plane_whichever_is_killed() {
    let Some(cluster) = Cluster::start() else { return };
    let supply = Supply::with(&["command-exec-allowlisted", "file-render", "noop"]).await;
    let mut fleet = Fleet::prepare_on(PROGRAMS, &supply.trust, On::Postgres { cluster, planes: PLANES }).await;
    fleet.planes.start().await;
    fleet.start_host();
    fleet.node_online().await;
    for definition in [SLEEP, RENDER] {
        fleet.register(&supply.publish(definition, POLICY).await).await;
    }
    let long = fleet.submit("test.sleep", &json!({"seconds": 4})).await;
    eventually("the command to run", PATIENCE, async || (children(&fleet) > 0).then_some(())).await;
    for survivor in 0..PLANES {
        (0..PLANES).filter(|plane| *plane != survivor).for_each(|plane| fleet.planes.kill_one(plane));
        // Whichever plane the host was attached to, this one wakes it.
        let ended = fleet.run("test.render", &json!({"text": format!("by way of {survivor}")})).await;
        assert_eq!(ended["status"], "succeeded", "{ended:#}\n{}", fleet.logs());
        fleet.planes.start().await;
    }
    let ended = fleet.ended(&long).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}\n{}", fleet.logs());
    assert_eq!(step(&ended, "sleep")["attempt_number"], 1, "the host never stopped: {ended:#}");
}
