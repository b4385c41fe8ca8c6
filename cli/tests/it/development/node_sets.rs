//! Node groups and allocations on the command line.

use super::workbench::Workbench;

#[tokio::test(flavor = "multi_thread")]
async fn sets_of_nodes_are_made_shown_used_and_removed() {
    let bench = Workbench::start().await;
    bench.register().await;
    let node = bench.json(&["node", "list"]).await[0].clone();
    let (name, id) = (node["name"].as_str().unwrap(), &node["id"]);
    for (command, words, option) in
        [("node-group", "node group", "--group"), ("allocation", "allocation", "--allocation")]
    {
        let none = bench.say(&[command, "list"]).await;
        assert_eq!(none, format!("there is no {words}; `fettle {command} set` makes one"));
        let made = bench.say(&[command, "set", "canary", name]).await;
        assert!(made.starts_with(&format!("{words} canary of ")) && made.ends_with(&format!("\n  {name}")), "{made}");
        assert_eq!(bench.json(&[command, "show", "canary"]).await["nodes"][0], *id);
        let listed = bench.say(&[command, "list"]).await;
        assert!(listed.lines().all(|line| line.len() <= 80) && listed.contains("canary"), "{listed}");
        assert_eq!(bench.json(&[command, "list"]).await[0]["name"], "canary");
        bench.say(&["operation", "submit", "try.it@v1", option, "canary", "-i", "mode=log"]).await;
        let (code, _, error) = bench.fail(&[command, "set", "canary", "nobody"]).await;
        assert!(code == 3 && error.contains("/nodes/0") && error.contains("nobody"), "{code}: {error}");
        assert_eq!(bench.say(&[command, "delete", "canary"]).await, format!("{words} canary is gone"));
        let (code, _, error) = bench.fail(&[command, "show", "canary"]).await;
        assert!(code != 0 && error.contains(&format!("there is no {words} `canary`")), "{code}: {error}");
    }
    bench.running.stop().await.unwrap();
}
