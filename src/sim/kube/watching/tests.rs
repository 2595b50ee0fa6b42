//! What a watcher may be shown on purpose, each through kube's own client under a paused clock.

use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::{Metadata, NamespaceResourceScope};
use kube::api::{Api, DeleteParams, GetParams, ListParams, ObjectMeta, PostParams, WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::*;
use crate::clock::Clock;
use crate::sim::kube::Options as ServerOptions;

fn server() -> ApiServer {
    let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
    ApiServer::new(ServerOptions {
        clock,
        seed: 1,
        keys: crate::sim::kube::identity::Keys::Fixed,
    })
}

fn configs(server: &ApiServer) -> Api<ConfigMap> {
    Api::default_namespaced(server.admin())
}

/// A user of whom nobody has made a rule yet.
fn other(server: &ApiServer) -> kube::Client {
    server.client_as(User {
        name: "other".to_owned(),
        ..User::admin()
    })
}

fn config(name: &str, value: &str) -> ConfigMap {
    let object = json!({"metadata": {"name": name}, "data": {"value": value}});
    serde_json::from_value(object).unwrap()
}

async fn create(server: &ApiServer, name: &str, value: &str) {
    let (api, config) = (configs(server), config(name, value));
    api.create(&PostParams::default(), &config).await.unwrap();
}

async fn replace(server: &ApiServer, name: &str, value: &str) {
    let (api, config) = (configs(server), config(name, value));
    api.replace(name, &PostParams::default(), &config).await.unwrap();
}

async fn delete(server: &ApiServer, name: &str) {
    let api = configs(server);
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

fn now(server: &ApiServer) -> u64 {
    server.state().store.revision()
}

fn here(server: &ApiServer, reads: Reads) -> Hold {
    Hold {
        revision: now(server),
        reads,
    }
}

/// A watch, read as words.
struct Seen(BoxStream<'static, kube::Result<WatchEvent<serde_json::Value>>>);

impl Seen {
    async fn from<K>(api: &Api<K>, version: &str) -> Self
    where
        K: Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize + Send + 'static,
    {
        let stream = api.watch(&WatchParams::default(), version).await.unwrap();
        let as_json = |event: WatchEvent<K>| {
            let json = |object: K| serde_json::to_value(object).unwrap();
            match event {
                WatchEvent::Added(object) => WatchEvent::Added(json(object)),
                WatchEvent::Modified(object) => WatchEvent::Modified(json(object)),
                WatchEvent::Deleted(object) => WatchEvent::Deleted(json(object)),
                WatchEvent::Bookmark(bookmark) => WatchEvent::Bookmark(bookmark),
                WatchEvent::Error(status) => WatchEvent::Error(status),
            }
        };
        Self(stream.map_ok(as_json).boxed())
    }

    /// The next thing that is told, if anything is soon: much sooner than a bookmark comes.
    async fn next(&mut self) -> Option<String> {
        let words = |kind: &str, object: &serde_json::Value| {
            let (name, value) = (&object["metadata"]["name"], &object["data"]["value"]);
            let value = value.as_str().unwrap_or_default();
            format!("{kind} {}={value}", name.as_str().unwrap_or_default())
        };
        let next = tokio::time::timeout(Duration::from_secs(5), self.0.next());
        Some(match next.await.ok()? {
            None => "closed".to_owned(),
            Some(Ok(WatchEvent::Added(object))) => words("added", &object),
            Some(Ok(WatchEvent::Modified(object))) => words("modified", &object),
            Some(Ok(WatchEvent::Deleted(object))) => words("deleted", &object),
            Some(Ok(WatchEvent::Bookmark(bookmark))) => {
                format!("bookmark {}", bookmark.metadata.resource_version)
            }
            Some(Ok(WatchEvent::Error(status))) => format!("error {} {}", status.code, status.reason),
            Some(Err(error)) => format!("failed {error}"),
        })
    }

    /// Everything that is told until it is quiet.
    async fn all(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while let Some(words) = self.next().await {
            let closed = words == "closed";
            if words != "added kube-root-ca.crt=" {
                told.push(words);
            }
            if closed {
                break;
            }
        }
        told
    }
}

async fn names<K>(api: &Api<K>, params: ListParams) -> Vec<String>
where
    K: Clone + std::fmt::Debug + DeserializeOwned + Metadata<Ty = ObjectMeta, Scope = NamespaceResourceScope>,
{
    let list = api.list(&params).await.unwrap();
    let name = |object: &K| object.metadata().name.clone().unwrap();
    // Every namespace begins with the certificate of the cluster.
    let made = |name: &String| name != "kube-root-ca.crt";
    list.items.iter().map(name).filter(made).collect()
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_is_held_back_sees_nothing_until_the_hold_is_lifted() {
    let server = server();
    let mut seen = Seen::from(&configs(&server), &now(&server).to_string()).await;
    create(&server, "a", "1").await;
    let rule = server
        .watching()
        .hold_back(Who::everyone(), here(&server, Reads::Live));
    create(&server, "b", "1").await;
    assert_eq!(seen.all().await, ["added a=1"]);
    server.watching().lift(rule);
    assert_eq!(seen.all().await, ["added b=1"]);
}

#[tokio::test(start_paused = true)]
async fn a_rule_concerns_its_user_and_its_kind_and_nobody_else() {
    let server = server();
    let (version, control) = (now(&server).to_string(), server.watching());
    control.hold_back(Who::user("kubernetes-admin"), here(&server, Reads::Live));
    control.hold_back(Who::kind("", "secrets"), here(&server, Reads::Live));
    let mut held = Seen::from(&configs(&server), &version).await;
    let mut free = Seen::from(&Api::<ConfigMap>::default_namespaced(other(&server)), &version).await;
    let mut held_kind = Seen::from(&Api::<Secret>::default_namespaced(other(&server)), &version).await;
    create(&server, "a", "1").await;
    let secrets: Api<Secret> = Api::default_namespaced(server.admin());
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "s"}})).unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    assert_eq!(held.next().await, None);
    assert_eq!(held_kind.next().await, None);
    assert_eq!(free.next().await.as_deref(), Some("added a=1"));
}

#[tokio::test(start_paused = true)]
async fn a_stale_server_answers_reads_that_may_be_old_and_no_others() {
    let server = server();
    create(&server, "a", "1").await;
    let hold = here(&server, Reads::Stale);
    let (past, later) = (hold.revision.to_string(), (hold.revision + 1).to_string());
    server.watching().hold_back(Who::everyone(), hold);
    create(&server, "b", "1").await;
    let api = configs(&server);
    let old = |version: &str| ListParams::default().at(version);
    assert_eq!(names(&api, ListParams::default()).await, ["a", "b"]);
    assert_eq!(names(&api, old("0")).await, ["a"]);
    assert_eq!(names(&api, old(&past)).await, ["a"]);
    let refused = api.list(&old(&later)).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 504));
    assert!(api.get("b").await.is_ok());
    let missing = api.get_with("b", &GetParams::any()).await.unwrap_err();
    assert!(matches!(missing, kube::Error::Api(status) if status.is_not_found()));
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_anything_is_sent_back_in_time_on_a_stale_server() {
    let server = server();
    create(&server, "a", "1").await;
    let rule = server
        .watching()
        .hold_back(Who::everyone(), here(&server, Reads::Stale));
    replace(&server, "a", "2").await;
    create(&server, "b", "1").await;
    let mut seen = Seen::from(&configs(&server), "0").await;
    assert_eq!(seen.all().await, ["added a=1"]);
    server.watching().lift(rule);
    assert_eq!(seen.all().await, ["modified a=2", "added b=1"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_it_was_even_if_the_server_is_behind() {
    let server = server();
    create(&server, "a", "1").await;
    let hold = here(&server, Reads::Stale);
    create(&server, "b", "1").await;
    let version = now(&server).to_string();
    let rule = server.watching().hold_back(Who::everyone(), hold);
    let mut seen = Seen::from(&configs(&server), &version).await;
    create(&server, "c", "1").await;
    assert_eq!(seen.next().await, None);
    server.watching().lift(rule);
    assert_eq!(seen.all().await, ["added c=1"]);
}

#[tokio::test(start_paused = true)]
async fn coalesced_changes_show_only_what_came_of_them() {
    let server = server();
    create(&server, "replaced", "1").await;
    create(&server, "changed", "1").await;
    create(&server, "gone", "1").await;
    let delivery = Delivery::Coalesced(Duration::from_secs(3));
    server.watching().deliver(Who::everyone(), delivery);
    let mut seen = Seen::from(&configs(&server), &now(&server).to_string()).await;
    let first = configs(&server).get("replaced").await.unwrap();
    create(&server, "never", "1").await;
    delete(&server, "never").await;
    delete(&server, "replaced").await;
    create(&server, "replaced", "2").await;
    replace(&server, "changed", "2").await;
    replace(&server, "changed", "3").await;
    replace(&server, "gone", "2").await;
    delete(&server, "gone").await;
    let told = seen.all().await;
    assert_eq!(
        told,
        ["modified replaced=2", "modified changed=3", "deleted gone=2"]
    );
    let second = configs(&server).get("replaced").await.unwrap();
    assert_ne!(first.metadata.uid, second.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn late_changes_keep_their_order_and_may_be_overtaken_by_other_kinds() {
    let server = server();
    let version = now(&server).to_string();
    let delivery = Delivery::Late(Duration::from_secs(20));
    server.watching().deliver(Who::kind("", "configmaps"), delivery);
    let mut late = Seen::from(&configs(&server), &version).await;
    let secrets: Api<Secret> = Api::default_namespaced(server.admin());
    let mut prompt = Seen::from(&secrets, &version).await;
    create(&server, "a", "1").await;
    replace(&server, "a", "2").await;
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "s"}})).unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    assert_eq!(prompt.all().await, ["added s="]);
    assert_eq!(late.next().await, None);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(late.all().await, ["added a=1", "modified a=2"]);
}

#[tokio::test(start_paused = true)]
async fn lifting_a_delay_tells_at_once_what_it_kept_back() {
    let server = server();
    let delivery = Delivery::Late(Duration::from_hours(1));
    let rule = server.watching().deliver(Who::everyone(), delivery);
    let mut seen = Seen::from(&configs(&server), &now(&server).to_string()).await;
    create(&server, "a", "1").await;
    assert_eq!(seen.next().await, None);
    server.watching().lift(rule);
    create(&server, "b", "1").await;
    assert_eq!(seen.all().await, ["added a=1", "added b=1"]);
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_never_promises_more_than_was_told() {
    let server = server();
    let delivery = Delivery::Late(Duration::from_secs(70));
    server.watching().deliver(Who::everyone(), delivery);
    let version = now(&server);
    let mut seen = Seen::from(&configs(&server), &version.to_string()).await;
    create(&server, "a", "1").await;
    let mut told = Vec::new();
    while told.len() < 3 {
        told.extend(seen.next().await);
    }
    let bookmark = |revision: u64| format!("bookmark {revision}");
    assert_eq!(
        told,
        [bookmark(version), "added a=1".to_owned(), bookmark(version + 1)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_keeps_up_with_writes_to_other_kinds_by_bookmarks() {
    let server = server();
    let secrets: Api<Secret> = Api::default_namespaced(server.admin());
    let mut seen = Seen::from(&secrets, &now(&server).to_string()).await;
    create(&server, "a", "1").await;
    let latest = now(&server);
    tokio::time::sleep(Duration::from_secs(57)).await;
    assert_eq!(seen.next().await, Some(format!("bookmark {latest}")));
}

#[tokio::test(start_paused = true)]
async fn changes_are_told_twice_when_so_ordered() {
    let server = server();
    server.watching().deliver(Who::everyone(), Delivery::Twice);
    let mut seen = Seen::from(&configs(&server), &now(&server).to_string()).await;
    create(&server, "a", "1").await;
    delete(&server, "a").await;
    assert_eq!(
        seen.all().await,
        ["added a=1", "added a=1", "deleted a=1", "deleted a=1"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_cut_closes_the_streams_that_are_open_and_no_later_ones() {
    let server = server();
    let version = now(&server).to_string();
    let mut cut = Seen::from(&configs(&server), &version).await;
    let mut spared = Seen::from(&Api::<ConfigMap>::default_namespaced(other(&server)), &version).await;
    create(&server, "a", "1").await;
    server
        .watching()
        .end(Who::user("kubernetes-admin"), Ending::Closed);
    assert_eq!(cut.all().await, ["closed"], "what was on its way is lost");
    assert_eq!(spared.all().await, ["added a=1"]);
    let mut again = Seen::from(&configs(&server), &version).await;
    assert_eq!(again.all().await, ["added a=1"]);
    server.watching().cut();
    assert_eq!(again.all().await, ["closed"]);
    assert_eq!(spared.all().await, ["closed"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_stream_says_so_and_closes() {
    let server = server();
    let mut seen = Seen::from(&configs(&server), &now(&server).to_string()).await;
    server.watching().end(Who::everyone(), Ending::Expired);
    assert_eq!(seen.all().await, ["error 410 Expired", "closed"]);
}

#[tokio::test(start_paused = true)]
async fn compaction_expires_who_is_behind_and_spares_who_is_not() {
    let server = server();
    let version = now(&server).to_string();
    let mut follower = Seen::from(&configs(&server), &version).await;
    create(&server, "a", "1").await;
    assert_eq!(follower.all().await, ["added a=1"]);
    let latest = now(&server);
    server.state().store.compact(latest);
    create(&server, "b", "1").await;
    assert_eq!(follower.all().await, ["added b=1"]);
    let mut resumed = Seen::from(&configs(&server), &version).await;
    assert_eq!(resumed.all().await, ["error 410 Expired", "closed"]);
    let untouched: Api<Secret> = Api::default_namespaced(server.admin());
    let mut elsewhere = Seen::from(&untouched, &version).await;
    assert_eq!(elsewhere.all().await, ["error 410 Expired", "closed"]);
    let mut recent = Seen::from(&configs(&server), &latest.to_string()).await;
    assert_eq!(recent.all().await, ["added b=1"]);
}

#[tokio::test(start_paused = true)]
async fn compaction_expires_a_stream_that_is_held_back() {
    let server = server();
    let mut seen = Seen::from(&configs(&server), &now(&server).to_string()).await;
    let rule = server
        .watching()
        .hold_back(Who::everyone(), here(&server, Reads::Live));
    create(&server, "a", "1").await;
    let latest = now(&server);
    server.state().store.compact(latest);
    server.watching().lift(rule);
    assert_eq!(seen.all().await, ["error 410 Expired", "closed"]);
}

fn forgetting(percent: u8, items_max: usize) -> Forgetting {
    Forgetting {
        items_max,
        percent,
        times: Some(1),
        rng: fastrand::Rng::with_seed(1),
    }
}

#[tokio::test(start_paused = true)]
async fn lists_are_cut_short_and_broken_off_for_whoever_asks_for_pages() {
    let server = server();
    for name in ["a", "b", "c"] {
        create(&server, name, "1").await;
    }
    let (api, control) = (configs(&server), server.watching());
    let rule = control.forget_pages(Who::everyone(), forgetting(100, 1));
    let paged = ListParams::default().limit(500);
    let page = api.list(&paged).await.unwrap();
    assert_eq!(
        (page.items.len(), page.metadata.remaining_item_count),
        (1, Some(2))
    );
    assert_eq!(names(&api, ListParams::default()).await, ["a", "b", "c"]);
    assert!(control.take_met().is_empty(), "nobody has gone on yet");
    let rest = paged.clone().continue_token(&page.metadata.continue_.unwrap());
    let refused = api.list(&rest).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 410));
    assert_eq!(control.take_met(), [rule]);
    // Once, as it was told.
    assert_eq!(names(&api, paged).await, ["a", "b", "c"]);
    assert_eq!(names(&api, rest).await, ["b", "c"]);
    control.forget_pages(Who::everyone(), forgetting(0, 2));
    let page = api.list(&ListParams::default().limit(500)).await.unwrap();
    let rest = ListParams::default()
        .limit(500)
        .continue_token(&page.metadata.continue_.unwrap());
    assert_eq!(names(&api, rest).await, ["c"]);
    assert!(control.take_met().is_empty());
}

#[tokio::test(start_paused = true)]
async fn later_pages_show_the_list_as_it_was_or_expire() {
    let server = server();
    for name in ["a", "b", "c", "d"] {
        create(&server, name, "1").await;
    }
    let api = configs(&server);
    let first = api.list(&ListParams::default().limit(2)).await.unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    delete(&server, "c").await;
    create(&server, "bb", "1").await;
    let rest = ListParams::default().limit(2).continue_token(&token);
    assert_eq!(names(&api, rest.clone()).await, ["c", "d"]);
    let rule = server
        .watching()
        .forget_pages(Who::everyone(), forgetting(100, 2));
    let refused = api.list(&rest).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 410));
    server.watching().lift(rule);
    assert_eq!(names(&api, rest.clone()).await, ["c", "d"]);
    let latest = now(&server);
    server.state().store.compact(latest);
    let refused = api.list(&rest).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 410));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_a_selection_is_deleted_for_those_who_watch_it() {
    let server = server();
    let labeled = |value: Option<&str>| -> ConfigMap {
        let labels = value.map(|value| json!({"team": value}));
        serde_json::from_value(json!({"metadata": {"name": "a", "labels": labels}})).unwrap()
    };
    let api = configs(&server);
    let params = WatchParams::default().labels("team=x").timeout(5);
    let stream = api.watch(&params, &now(&server).to_string()).await.unwrap();
    api.create(&PostParams::default(), &labeled(None)).await.unwrap();
    for value in [Some("x"), Some("y"), Some("x")] {
        api.replace("a", &PostParams::default(), &labeled(value))
            .await
            .unwrap();
    }
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let words = |event| match event {
        WatchEvent::Added(_) => "added",
        WatchEvent::Deleted(_) => "deleted",
        _ => "other",
    };
    let told: Vec<_> = stream.map_ok(words).try_collect().await.unwrap();
    assert_eq!(told, ["added", "deleted", "added", "deleted"]);
}
