//! Lists: pages, selectors, versions, forms.

use serde_json::json;

use super::Lab;
use super::objects::{With, config, node, pod};
use super::widgets::widget;

/// Five ConfigMaps with labels to select by.
async fn five(lab: &mut Lab) {
    // Each namespace has the cluster's root certificate in one; a real cluster takes a moment to put it there.
    lab.get("configmaps/kube-root-ca.crt")
        .eventually()
        .is("200")
        .await;
    for (name, labels) in [
        ("a", json!({"app": "x", "tier": "front"})),
        ("b", json!({"app": "x"})),
        ("c", json!({"app": "y", "tier": "back"})),
        ("d", json!({})),
        ("e", json!({"app": ""})),
    ] {
        lab.post("configmaps", &config(name).with("metadata/labels", labels))
            .keep(name)
            .is("201")
            .await;
    }
}

#[tokio::test]
async fn labels_select() {
    let mut lab = Lab::open("listing").await;
    five(&mut lab).await;
    for selector in [
        "app=x",
        "app==x",
        "app!=x",
        "app",
        "!app",
        "app in (x,y)",
        "app notin (x)",
        "app in (x),tier",
        "app=",
        "app in ()",
        "app in (x, )",
        "tier notin (back),app",
        "app=x,app=y",
        " app = x ",
        "app in (x",
    ] {
        let encoded: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        lab.get(&format!("configmaps?labelSelector={encoded}"))
            .compare()
            .await;
    }
    for wrong in [
        "app=x=y", "a b", "=x", "app=x,", "app in x", "-a=b", "app>1", "app>x", "a/b/c=d", "app=%21", "(",
        ",",
    ] {
        let encoded: String = form_urlencoded::byte_serialize(wrong.as_bytes()).collect();
        lab.get(&format!("configmaps?labelSelector={encoded}"))
            .compare()
            .await;
    }
}

#[tokio::test]
async fn fields_select_where_the_kind_allows_it() {
    let mut lab = Lab::with_widgets("listing").await;
    five(&mut lab).await;
    lab.get("configmaps?fieldSelector=metadata.name%3Da")
        .is("200")
        .await;
    lab.get("configmaps?fieldSelector=metadata.name!%3Da,metadata.namespace%3D$ns")
        .is("200")
        .await;
    lab.get("configmaps?fieldSelector=metadata.namespace%3Dother")
        .is("200")
        .await;
    lab.get("configmaps?fieldSelector=data.k%3D1")
        .is("400 BadRequest")
        .await;
    lab.get("configmaps?fieldSelector=metadata.name")
        .is("400 BadRequest")
        .await;
    lab.get("configmaps?fieldSelector=metadata.name%3D%3Da")
        .is("200")
        .await;
    lab.post("pods", &pod("a")).is("201").await;
    lab.post("pods", &pod("b").with("spec/nodeName", json!("n1")))
        .is("201")
        .await;
    for selector in [
        "spec.nodeName%3Dn1",
        "spec.nodeName%3D",
        "spec.nodeName!%3D",
        "status.phase%3DPending",
        "status.phase!%3DPending",
        "spec.schedulerName%3Dnobody",
        "spec.restartPolicy%3DAlways",
        "spec.serviceAccountName%3Ddefault",
        "status.podIP%3D",
        "status.nominatedNodeName%3D",
        "spec.hostNetwork%3Dfalse",
        "spec.image%3Dx",
    ] {
        lab.get(&format!("pods?fieldSelector={selector}")).compare().await;
    }
}

#[tokio::test]
async fn some_kinds_have_fields_of_their_own_to_select_by() {
    let mut lab = Lab::with_widgets("listing").await;
    lab.post("widgets", &widget("a").with("spec/color", json!("red")))
        .is("201")
        .await;
    lab.post("widgets", &widget("b")).is("201").await;
    for selector in [
        "spec.color%3Dred",
        "spec.color!%3Dred",
        "spec.color%3D",
        "spec.size%3D1",
        "metadata.name%3Db",
    ] {
        lab.get(&format!("widgets?fieldSelector={selector}"))
            .compare()
            .await;
    }
    lab.post("nodes", &node("a").with("spec/unschedulable", json!(true)))
        .is("201")
        .await;
    for value in ["true", "false"] {
        lab.get(&format!(
            "nodes?fieldSelector=spec.unschedulable%3D{value},metadata.name%3D$ns-a"
        ))
        .is("200")
        .await;
    }
    lab.get("secrets?fieldSelector=type%3DOpaque").is("200").await;
    lab.get("events?fieldSelector=involvedObject.name%3Da")
        .is("200")
        .await;
    lab.get("namespaces?fieldSelector=metadata.name%3D$ns,status.phase%3DActive")
        .is("200")
        .await;
}

#[tokio::test]
async fn a_list_comes_in_pages() {
    let mut lab = Lab::open("listing").await;
    five(&mut lab).await;
    lab.get("configmaps?limit=2").keep("one").is("200").await;
    lab.post("configmaps", &config("bb")).is("201").await;
    lab.get("configmaps?limit=2&continue=$one.metadata.continue")
        .keep("two")
        .is("200")
        .await;
    lab.get("configmaps?limit=2&continue=$two.metadata.continue")
        .keep("three")
        .is("200")
        .await;
    lab.get("configmaps?limit=2&labelSelector=app")
        .keep("selected")
        .is("200")
        .await;
    lab.get("configmaps?limit=2&labelSelector=app&continue=$selected.metadata.continue")
        .is("200")
        .await;
    lab.get("configmaps?limit=6").is("200").await;
    lab.get("configmaps?limit=7").is("200").await;
    lab.get("configmaps?limit=0").is("200").await;
    lab.get("configmaps?limit=-1").compare().await;
    lab.get("configmaps?limit=x").compare().await;
    lab.get("configmaps?limit=2&continue=nonsense")
        .is("400 BadRequest")
        .await;
    lab.get("configmaps?limit=2&resourceVersion=1&continue=$one.metadata.continue")
        .compare()
        .await;
    lab.get("configmaps?limit=1&fieldSelector=metadata.name%3Da")
        .is("200")
        .await;
}

#[tokio::test]
async fn a_list_is_of_a_version() {
    let mut lab = Lab::open("listing").await;
    five(&mut lab).await;
    let version = "$b.metadata.resourceVersion";
    lab.get("configmaps?resourceVersion=0")
        .eventually()
        .is("200")
        .await;
    lab.get(&format!(
        "configmaps?resourceVersion={version}&resourceVersionMatch=Exact"
    ))
    .is("200")
    .await;
    lab.get(&format!(
        "configmaps?resourceVersion={version}&resourceVersionMatch=NotOlderThan"
    ))
    .is("200")
    .await;
    lab.get(&format!("configmaps?resourceVersion={version}"))
        .is("200")
        .await;
    lab.get(&format!("configmaps?resourceVersion={version}&limit=1"))
        .compare()
        .await;
    lab.get("configmaps?resourceVersionMatch=Exact")
        .is("422 Invalid")
        .await;
    lab.get("configmaps?resourceVersionMatch=NotOlderThan")
        .is("422 Invalid")
        .await;
    lab.get("configmaps?resourceVersion=0&resourceVersionMatch=Exact")
        .is("422 Invalid")
        .await;
    lab.get("configmaps?resourceVersion=0&resourceVersionMatch=NotOlderThan")
        .is("200")
        .await;
    lab.get("configmaps?resourceVersion=1&resourceVersionMatch=Sometimes")
        .is("422 Invalid")
        .await;
    lab.get("configmaps?resourceVersion=x").compare().await;
    lab.get("configmaps?resourceVersion=-1").compare().await;
    lab.get("configmaps?sendInitialEvents=true").compare().await;
    lab.get("configmaps/a?resourceVersion=0")
        .eventually()
        .is("200")
        .await;
    lab.get("configmaps/a?resourceVersion=x").compare().await;
}

#[tokio::test]
async fn an_answer_has_the_form_that_is_asked_for() {
    let mut lab = Lab::with_widgets("listing").await;
    five(&mut lab).await;
    lab.get("configmaps").for_table().is("200").await;
    lab.get("configmaps/a").for_table().is("200").await;
    lab.get("configmaps?includeObject=None")
        .for_table()
        .is("200")
        .await;
    lab.get("configmaps?includeObject=Object")
        .for_table()
        .is("200")
        .await;
    lab.get("configmaps?includeObject=Nothing")
        .for_table()
        .compare()
        .await;
    lab.get("configmaps").for_metadata_list().is("200").await;
    lab.get("configmaps/a").for_metadata().is("200").await;
    lab.get("configmaps/a").for_metadata_list().compare().await;
    lab.get("configmaps").for_metadata().compare().await;
    lab.post("widgets", &widget("a")).for_metadata().is("201").await;
    lab.get("widgets").for_table().is("200").await;
    lab.get("widgets").for_metadata_list().is("200").await;
    lab.get("widgets/a").for_metadata().is("200").await;
    lab.merge_patch("widgets/a", &json!({"spec": {"size": 4}}))
        .for_metadata()
        .is("200")
        .await;
    lab.post("pods", &pod("a")).for_table().is("201").await;
    lab.get("pods").for_table().is("200").await;
    lab.delete("configmaps/a").for_table().compare().await;
    lab.get("configmaps")
        .header("accept", "text/plain")
        .compare()
        .await;
    lab.get("configmaps")
        .header("accept", "application/json;as=Thing;v=v1;g=meta.k8s.io")
        .compare()
        .await;
    lab.get("configmaps/b").header("accept", "*/*").is("200").await;
    lab.get("configmaps/b")
        .header("accept", "text/html,application/json;q=0.5")
        .compare()
        .await;
}

#[tokio::test]
async fn every_namespace_is_listed_on_the_path_without_one() {
    let mut lab = Lab::open("listing").await;
    lab.post("leases", &json!({"metadata": {"name": "$ns-only"}}))
        .is("201")
        .await;
    lab.get("/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3D$ns-only")
        .is("200")
        .await;
    lab.get("/api/v1/namespaces/missing/configmaps").is("200").await;
}
