//! Roles, bindings, and what cannot be given.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{BINDINGS, Cluster, PODS, ROLES, binding, role, somebody};
use crate::sim::kube::identity::attempt::{Attempt, Resource};
use crate::sim::kube::identity::rbac::{Rule, beyond};
use crate::sim::kube::identity::{User, service_account};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn read_pods() -> Value {
    json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]})
}

#[tokio::test(start_paused = true)]
async fn a_role_counts_from_its_binding_to_its_end() {
    let cluster = Cluster::new();
    let may = async || cluster.ask(&somebody(), "GET", PODS, Value::Null).await.0;
    assert_eq!(may().await, 403);
    cluster.allow("jane", "readers", read_pods()).await;
    assert_eq!(may().await, 200);
    cluster
        .admin("PUT", &format!("{ROLES}/readers"), role("readers", &json!([])))
        .await;
    assert_eq!(may().await, 403);
    cluster
        .admin(
            "PUT",
            &format!("{ROLES}/readers"),
            role("readers", &json!([read_pods()])),
        )
        .await;
    assert_eq!(may().await, 200);
    cluster
        .admin("DELETE", &format!("{BINDINGS}/readers"), Value::Null)
        .await;
    assert_eq!(may().await, 403);
}

#[tokio::test(start_paused = true)]
async fn a_binding_in_a_namespace_counts_there_only() {
    let cluster = Cluster::new();
    cluster
        .admin("POST", ROLES, role("readers", &json!([read_pods()])))
        .await;
    let bound = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "readers"},
                       "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "readers"},
                       "subjects": [{"kind": "ServiceAccount", "name": "app"}]});
    cluster
        .admin("POST", &format!("{RBAC}/namespaces/default/rolebindings"), bound)
        .await;
    // A subject without a namespace is of the binding's own.
    let (app, other) = (
        service_account("default", "app"),
        service_account("kube-system", "app"),
    );
    let get = async |user: &User, path: &str| cluster.ask(user, "GET", path, Value::Null).await.0;
    assert_eq!(get(&app, PODS).await, 200);
    assert_eq!(get(&other, PODS).await, 403);
    assert_eq!(get(&app, "/api/v1/namespaces/kube-system/pods").await, 403);
    assert_eq!(get(&app, "/api/v1/pods").await, 403);
}

#[tokio::test(start_paused = true)]
async fn a_role_for_one_object_allows_a_list_of_that_object_alone() {
    let cluster = Cluster::new();
    let one = json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["kube-root-ca.crt"],
                     "verbs": ["get", "list", "watch"]});
    cluster.allow("jane", "one", one).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for (path, expected) in [
        (format!("{maps}/kube-root-ca.crt"), 200),
        (format!("{maps}/other"), 403),
        (maps.to_owned(), 403),
        (
            format!("{maps}?fieldSelector=metadata.name%3Dkube-root-ca.crt"),
            200,
        ),
    ] {
        let (status, answer) = cluster.ask(&somebody(), "GET", &path, Value::Null).await;
        assert_eq!(status, expected, "{path}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_in_a_namespace_may_allow_to_read_the_namespace() {
    let cluster = Cluster::new();
    let view = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "view"},
                      "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                      "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
    cluster
        .admin("POST", &format!("{RBAC}/namespaces/default/rolebindings"), view)
        .await;
    let get = async |path: &str| cluster.ask(&somebody(), "GET", path, Value::Null).await.0;
    assert_eq!(get("/api/v1/namespaces/default").await, 200);
    assert_eq!(get("/api/v1/namespaces/kube-system").await, 403);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_tells_of_a_role_that_is_missing() {
    let cluster = Cluster::new();
    cluster
        .admin("POST", BINDINGS, binding("b", "gone", "jane"))
        .await;
    let (_, answer) = cluster.ask(&somebody(), "GET", PODS, Value::Null).await;
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.ends_with(": RBAC: clusterrole.rbac.authorization.k8s.io \"gone\" not found"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_gathering_role_follows_the_roles_it_gathers() {
    let cluster = Cluster::new();
    let label = "rbac.authorization.k8s.io/aggregate-to-view";
    let mut more = role(
        "more",
        &json!([{"apiGroups": ["karpenter.sh"], "resources": ["*"], "verbs": ["get"]}]),
    );
    more["metadata"]["labels"] = json!({label: "true"});
    let has = async |name: &str| {
        let role = cluster
            .admin("GET", &format!("{ROLES}/{name}"), Value::Null)
            .await;
        let rules = role["rules"].as_array().unwrap().clone();
        rules
            .iter()
            .any(|rule| rule["apiGroups"] == json!(["karpenter.sh"]))
    };
    assert!(!has("view").await);
    cluster.admin("POST", ROLES, more.clone()).await;
    for name in ["view", "edit", "admin"] {
        assert!(has(name).await, "{name}");
    }
    more["metadata"]["labels"] = json!({});
    cluster.admin("PUT", &format!("{ROLES}/more"), more).await;
    assert!(!has("view").await && !has("admin").await);
}

#[tokio::test(start_paused = true)]
async fn nobody_gives_what_they_do_not_have() {
    let cluster = Cluster::new();
    let manage = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "clusterrolebindings"],
                        "verbs": ["create", "update"]});
    cluster.allow("jane", "managers", manage).await;
    cluster.allow("jane", "readers", read_pods()).await;
    let try_role = async |name: &str, rule: Value| {
        cluster
            .ask(&somebody(), "POST", ROLES, role(name, &json!([rule])))
            .await
    };
    assert_eq!(try_role("same", read_pods()).await.0, 201);
    let write = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "delete"]});
    let (status, answer) = try_role("more", write).await;
    assert_eq!(status, 403);
    assert_eq!(
        answer["message"],
        "clusterroles.rbac.authorization.k8s.io \"more\" is forbidden: user \"jane\" (groups=[\"system:authenticated\"]) \
         is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], \
         Verbs:[\"delete\"]}"
    );
    let bind = async |role: &str| {
        let name = format!("bind-{role}");
        cluster
            .ask(&somebody(), "POST", BINDINGS, binding(&name, role, "bob"))
            .await
            .0
    };
    assert_eq!(bind("readers").await, 201);
    assert_eq!(bind("cluster-admin").await, 403);
    assert_eq!(bind("nonexistent").await, 404);
    let permit = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
                        "resourceNames": ["cluster-admin"], "verbs": ["bind"]});
    cluster.allow("jane", "binders", permit).await;
    assert_eq!(bind("cluster-admin").await, 201);
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let some = |words: &'static [&'static str]| {
        prop::sample::subsequence(words, 1..=words.len())
            .prop_map(|words| words.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    let names = prop::sample::subsequence(&["x", "y"], 0..=2)
        .prop_map(|words| words.into_iter().map(str::to_owned).collect::<Vec<_>>());
    let rule = (
        some(&["", "apps", "*"]),
        some(&["pods", "pods/status", "*/status", "*"]),
        some(&["get", "list", "*"]),
        names,
    )
        .prop_map(|(api_groups, resources, verbs, resource_names)| Rule {
            api_groups,
            resources,
            verbs,
            resource_names,
            non_resource_urls: Vec::new(),
        });
    prop::collection::vec(rule, 0..3)
}

proptest! {
    /// If nothing of `wanted` is beyond `held`, then whatever `wanted` allows, `held` does.
    #[test]
    fn what_is_not_beyond_is_held(held in rules(), wanted in rules()) {
        prop_assume!(beyond(&held, &wanted).is_empty());
        for group in ["", "apps", "batch"] {
            for (plural, subresource) in [("pods", ""), ("pods", "status"), ("jobs", "status"), ("jobs", "")] {
                for (verb, name) in [("get", "x"), ("get", "z"), ("list", ""), ("delete", "y")] {
                    let resource = Resource { group, plural, subresource, name, ..Resource::default() };
                    let attempt = Attempt::on_resource(verb, resource);
                    let allowed = |rules: &[Rule]| rules.iter().any(|rule| rule.allows(&attempt));
                    prop_assert!(!allowed(&wanted) || allowed(&held), "{attempt:?}");
                }
            }
        }
    }

    /// Nobody lacks what they have.
    #[test]
    fn nothing_is_beyond_itself(rules in rules()) {
        prop_assert_eq!(beyond(&rules, &rules), Vec::<String>::new());
    }
}
