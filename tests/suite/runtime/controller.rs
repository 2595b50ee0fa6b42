//! Two of kube's controllers with finalizers, one over a custom kind and one over ConfigMaps that the first makes: they
//! keep reconciling through everything, and everything is as it should be in the end.
//!
//! A Widget has a ConfigMap with its value, and that has a Secret with the same. Each is owned by what it was made for,
//! so that what a controller with an old view makes for somebody long gone does not stay.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_ibm::sim::kube::ApiServer;
use karpenter_ibm::sim::kube::identity::User;
use karpenter_ibm::sim::kube::watching::Who;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::{Controller, watcher};
use kube::{Client, CustomResource, CustomResourceExt, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::JoinSet;

use super::disturbance::Disturbance;
use super::{server, strategies};

/// Something to be mirrored.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Widget",
    namespaced,
    status = "WidgetStatus"
)]
struct WidgetSpec {
    value: String,
}

/// What the controller says about it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct WidgetStatus {
    mirrored: Option<String>,
}

type Error = Box<finalizer::Error<kube::Error>>;

const DERIVED: &str = "example.com/derived";

/// Makes what belongs to an object, or changes it.
async fn derive<From, To>(client: &Client, from: &From, value: &str) -> kube::Result<()>
where
    From: Resource<DynamicType = ()>,
    To: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let to: Api<To> = Api::default_namespaced(client.clone());
    let name = from.name_any();
    let object = json!({
        "apiVersion": To::api_version(&()), "kind": To::kind(&()),
        "metadata": {
            "name": name, "labels": {DERIVED: "yes"}, "annotations": {"value": value},
            "ownerReferences": [from.controller_owner_ref(&())],
        },
    });
    let params = PatchParams::apply("mirror").force();
    to.patch(&name, &params, &Patch::Apply(&object)).await?;
    Ok(())
}

/// Deletes what belongs to an object.
async fn undo<To>(client: &Client, name: &str) -> kube::Result<()>
where
    To: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let to: Api<To> = Api::default_namespaced(client.clone());
    match to.delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other.map(|_| ()),
    }
}

async fn mirror_widget(widget: Arc<Widget>, client: Arc<Client>) -> Result<Action, Error> {
    let widgets: Api<Widget> = Api::default_namespaced((*client).clone());
    let reconciled = finalizer(&widgets, "example.com/widget", widget, async |event| {
        match event {
            finalizer::Event::Apply(widget) => {
                derive::<_, ConfigMap>(&client, &*widget, &widget.spec.value).await?;
                let status = Patch::Merge(json!({"status": {"mirrored": widget.spec.value}}));
                let params = PatchParams::default();
                widgets.patch_status(&widget.name_any(), &params, &status).await?;
            }
            finalizer::Event::Cleanup(widget) => undo::<ConfigMap>(&client, &widget.name_any()).await?,
        }
        Ok(Action::await_change())
    });
    reconciled.await.map_err(Box::new)
}

async fn mirror_config(config: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, Error> {
    let configs: Api<ConfigMap> = Api::default_namespaced((*client).clone());
    let reconciled = finalizer(&configs, "example.com/config", config, async |event| {
        match event {
            finalizer::Event::Apply(config) => {
                let value = config.annotations().get("value").cloned().unwrap_or_default();
                derive::<_, Secret>(&client, &*config, &value).await?;
            }
            finalizer::Event::Cleanup(config) => undo::<Secret>(&client, &config.name_any()).await?,
        }
        Ok(Action::await_change())
    });
    reconciled.await.map_err(Box::new)
}

fn again_soon<K>(_: Arc<K>, _: &Error, _: Arc<Client>) -> Action {
    Action::requeue(Duration::from_secs(1))
}

/// Runs both controllers until the tasks are dropped.
fn start(server: &ApiServer, config: &watcher::Config) -> JoinSet<()> {
    let client = server.retrying_client_as(User {
        name: "controllers".to_owned(),
        ..User::admin()
    });
    let derived = config.clone().labels(&format!("{DERIVED}=yes"));
    let context = Arc::new(client.clone());
    let widgets = Controller::new(Api::<Widget>::default_namespaced(client.clone()), config.clone())
        .owns(
            Api::<ConfigMap>::default_namespaced(client.clone()),
            derived.clone(),
        )
        .run(mirror_widget, again_soon, Arc::clone(&context));
    let configs = Controller::new(
        Api::<ConfigMap>::default_namespaced(client.clone()),
        derived.clone(),
    )
    .owns(Api::<Secret>::default_namespaced(client), derived)
    .run(mirror_config, again_soon, context);
    let mut tasks = JoinSet::new();
    tasks.spawn(widgets.for_each(|_| std::future::ready(())));
    tasks.spawn(configs.for_each(|_| std::future::ready(())));
    tasks
}

async fn define(server: &ApiServer) -> Api<Widget> {
    let definitions: Api<CustomResourceDefinition> = Api::all(server.admin());
    definitions
        .create(&PostParams::default(), &Widget::crd())
        .await
        .unwrap();
    Api::default_namespaced(server.admin())
}

async fn values<K>(server: &ApiServer, value: impl Fn(&K) -> String) -> BTreeMap<String, String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::default_namespaced(server.admin());
    let list = api.list(&ListParams::default()).await.unwrap();
    let entry = |object: &K| {
        let going = if object.meta().deletion_timestamp.is_some() {
            "going "
        } else {
            ""
        };
        (object.name_any(), format!("{going}{}", value(object)))
    };
    list.items.iter().map(entry).collect()
}

fn annotated<K: Resource>(object: &K) -> String {
    object.annotations().get("value").cloned().unwrap_or_default()
}

async fn settles(server: &ApiServer, wanted: &BTreeMap<String, String>, story: &str) {
    let mut seen = [(); 4].map(|()| BTreeMap::new());
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mirrored = |widget: &Widget| {
            widget
                .status
                .clone()
                .unwrap_or_default()
                .mirrored
                .unwrap_or_default()
        };
        seen = [
            values(server, |widget: &Widget| widget.spec.value.clone()).await,
            values(server, mirrored).await,
            values(server, annotated::<ConfigMap>).await,
            values(server, annotated::<Secret>).await,
        ];
        if seen.iter().all(|seen| seen == wanted) {
            return;
        }
    }
    panic!("{story}: wanted {wanted:?}, there are {seen:?}");
}

/// Makes, changes or deletes one of a few widgets; keeps the book of what there should be.
async fn write_something(api: &Api<Widget>, wanted: &mut BTreeMap<String, String>, rng: &mut fastrand::Rng) {
    let (name, value) = (format!("w-{}", rng.u8(0..5)), rng.u32(..).to_string());
    if rng.u8(0..3) == 0 {
        if api.delete(&name, &DeleteParams::default()).await.is_ok() {
            wanted.remove(&name);
        }
        return;
    }
    let widget = Widget::new(&name, WidgetSpec { value: value.clone() });
    if api.create(&PostParams::default(), &widget).await.is_ok() {
        wanted.insert(name, value);
    } else if let Some(wanted) = wanted.get_mut(&name) {
        let patch = Patch::Merge(json!({"spec": {"value": value}}));
        api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
        *wanted = value;
    }
}

/// Widgets come and go at random while the controllers are disturbed now and then.
async fn lives_through(config: &watcher::Config, disturbances: &[Disturbance], seed: u64, story: &str) {
    let (server, mut rng) = (server(), fastrand::Rng::with_seed(seed));
    let api = define(&server).await;
    let mut tasks = start(&server, config);
    let (mut wanted, mut rules) = (BTreeMap::new(), Vec::new());
    for _ in 0..30 {
        write_something(&api, &mut wanted, &mut rng).await;
        tokio::time::sleep(Duration::from_millis(rng.u64(..3_000))).await;
        match rng.u8(0..4) {
            0 => {
                let disturbance = disturbances[rng.usize(..disturbances.len())];
                let past = rng.u64(2..=server.state().store.revision());
                rules.extend(disturbance.begin(&server, Who::kind("", "configmaps"), past));
            }
            1 => rules.drain(..).for_each(|rule| server.watching().lift(rule)),
            2 if rng.u8(0..4) == 0 => tasks = start(&server, config),
            _ => {}
        }
    }
    rules.drain(..).for_each(|rule| server.watching().lift(rule));
    settles(&server, &wanted, story).await;
    tasks.abort_all();
}

#[tokio::test(start_paused = true)]
async fn controllers_keep_reconciling_through_each_disturbance() {
    for disturbance in Disturbance::ALL {
        for (strategy, config) in strategies() {
            let story = format!("{disturbance:?}, {strategy}");
            lives_through(&config, &[disturbance], 7, &story).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_keep_reconciling_through_all_of_them_at_once() {
    for seed in 0..3 {
        for (strategy, config) in strategies() {
            let story = format!("seed {seed}, {strategy}");
            lives_through(&config, &Disturbance::ALL, seed, &story).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_starts_late_finishes_what_was_begun() {
    let server = server();
    let api = define(&server).await;
    let widget = |name: &str| {
        Widget::new(
            name,
            WidgetSpec {
                value: "1".to_owned(),
            },
        )
    };
    for name in ["a", "b"] {
        api.create(&PostParams::default(), &widget(name)).await.unwrap();
    }
    let config = watcher::Config::default();
    let tasks = start(&server, &config);
    let both = BTreeMap::from(["a", "b"].map(|name| (name.to_owned(), "1".to_owned())));
    settles(&server, &both, "while it runs").await;
    drop(tasks);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(api.get("a").await.unwrap().metadata.deletion_timestamp.is_some());
    let mut tasks = start(&server, &config);
    let one = BTreeMap::from([("b".to_owned(), "1".to_owned())]);
    settles(&server, &one, "after it came back").await;
    tasks.abort_all();
}
