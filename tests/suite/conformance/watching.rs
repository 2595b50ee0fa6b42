//! Watches: where they begin, what they select, how they end. Each ends by itself after a second.

use serde_json::json;

use super::Lab;
use super::objects::{With, config};
use super::widgets::widget;

/// Makes, changes and deletes, so that there is something to see.
async fn history(lab: &mut Lab) {
    lab.post(
        "leases",
        &json!({"metadata": {"name": "a", "labels": {"app": "x"}}}),
    )
    .keep("a")
    .is("201")
    .await;
    lab.post("leases", &json!({"metadata": {"name": "b"}}))
        .is("201")
        .await;
    lab.merge_patch("leases/a", &json!({"spec": {"holderIdentity": "me"}}))
        .is("200")
        .await;
    lab.merge_patch("leases/a", &json!({"metadata": {"labels": {"app": "y"}}}))
        .is("200")
        .await;
    lab.merge_patch("leases/b", &json!({"metadata": {"labels": {"app": "x"}}}))
        .is("200")
        .await;
    lab.delete("leases/b").is("200").await;
}

#[tokio::test]
async fn a_watch_begins_after_its_version() {
    let mut lab = Lab::open("watching").await;
    history(&mut lab).await;
    lab.get("leases?watch=true&timeoutSeconds=1&resourceVersion=$a.metadata.resourceVersion")
        .is("200")
        .await;
    lab.get("leases?watch=1&timeoutSeconds=1&resourceVersion=0")
        .is("200")
        .await;
    lab.get("leases?watch&timeoutSeconds=1").is("200").await;
    lab.get("leases/a?watch=true&timeoutSeconds=1&resourceVersion=$a.metadata.resourceVersion")
        .compare()
        .await;
    lab.get("leases?watch=true&timeoutSeconds=1&resourceVersion=x")
        .compare()
        .await;
}

#[tokio::test]
async fn what_enters_a_selection_is_added_and_what_leaves_it_is_deleted() {
    let mut lab = Lab::open("watching").await;
    history(&mut lab).await;
    let since = "timeoutSeconds=1&resourceVersion=$a.metadata.resourceVersion";
    lab.get(&format!("leases?watch=true&{since}&labelSelector=app%3Dx"))
        .is("200")
        .await;
    lab.get(&format!(
        "leases?watch=true&{since}&fieldSelector=metadata.name%3Db"
    ))
    .is("200")
    .await;
    lab.get(&format!("leases?watch=true&{since}&labelSelector=a%20b"))
        .is("400 BadRequest")
        .await;
    lab.get(&format!("leases?watch=true&{since}&fieldSelector=spec.x%3Db"))
        .compare()
        .await;
}

#[tokio::test]
async fn initial_events_come_first_and_a_bookmark_ends_them() {
    let mut lab = Lab::open("watching").await;
    history(&mut lab).await;
    let initial = "watch=true&timeoutSeconds=1&sendInitialEvents=true";
    lab.get(&format!(
        "leases?{initial}&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    ))
    .is("200")
    .await;
    lab.get(&format!(
        "leases?{initial}&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion=0"
    ))
    .is("200")
    .await;
    lab.get(&format!("leases?{initial}&resourceVersionMatch=NotOlderThan"))
        .compare()
        .await;
    lab.get(&format!("leases?{initial}&allowWatchBookmarks=true"))
        .compare()
        .await;
    lab.get("leases?watch=true&timeoutSeconds=1&resourceVersionMatch=NotOlderThan")
        .compare()
        .await;
    lab.get("leases?watch=true&timeoutSeconds=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
        .compare()
        .await;
    lab.get(&format!("leases?{initial}&allowWatchBookmarks=true&resourceVersionMatch=Exact&resourceVersion=$a.metadata.resourceVersion"))
        .compare()
        .await;
    lab.get("leases?watch=true&limit=1&timeoutSeconds=1")
        .compare()
        .await;
}

#[tokio::test]
async fn events_have_the_form_that_is_asked_for() {
    let mut lab = Lab::with_widgets("watching").await;
    lab.post("widgets", &widget("a")).keep("a").is("201").await;
    lab.merge_patch("widgets/a", &json!({"spec": {"size": 5}}))
        .is("200")
        .await;
    lab.delete("widgets/a").is("200").await;
    let since = "timeoutSeconds=1&resourceVersion=$a.metadata.resourceVersion";
    lab.get(&format!("widgets?watch=true&{since}")).is("200").await;
    lab.get(&format!("widgets?watch=true&{since}"))
        .for_table()
        .is("200")
        .await;
    lab.get(&format!("widgets?watch=true&{since}"))
        .for_metadata()
        .is("200")
        .await;
}

#[tokio::test]
async fn a_version_that_is_gone_or_still_to_come() {
    let mut lab = Lab::open("watching").await;
    lab.post(
        "configmaps",
        &config("a").with("metadata/labels", json!({"a": "b"})),
    )
    .is("201")
    .await;
    lab.get("configmaps?resourceVersion=99999999999&resourceVersionMatch=Exact")
        .compare()
        .await;
}
