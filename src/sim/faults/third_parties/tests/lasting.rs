use k8s_openapi::api::core::v1::{PersistentVolume, Taint};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{EvictParams, ObjectMeta};

use super::*;
use crate::api::names::{NODE_CLASS_FINALIZER, NODE_CLASS_HASH};
use crate::api::{IBMNodeClass, NodePool};
use crate::sim::actors::volumes::DETACHES;

/// A pool that anybody may use, with such limits.
async fn pool(town: &Town, limits: &Value) -> NodePool {
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"},
        "spec": {"limits": limits, "template": {"spec": {
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            "requirements": [],
        }}},
    });
    let pools: Api<NodePool> = Api::all(town.server.admin());
    let pool = serde_json::from_value(pool).unwrap();
    pools.create(&PostParams::default(), &pool).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_newest_node_is_tainted_until_that_is_taken_back() {
    let town = Town::new().await;
    town.node("old").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    town.node("new").await;
    let nodes: Api<Node> = Api::all(town.server.admin());
    let taints = |node: Node| node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let told = town.meddle(MeddlingKind::TaintNewNode).await;
    assert_eq!(told, ["n5-no-execute-taint nodes/new"]);
    town.meddle(MeddlingKind::AddTaint).await;
    let effects = |taints: &[Taint]| taints.iter().filter(|it| it.effect == "NoExecute").count();
    assert_eq!(effects(&taints(nodes.get("new").await.unwrap())), 1);
    assert_eq!(
        town.meddle(MeddlingKind::TaintNewNode).await,
        [""; 0],
        "it is there already"
    );
    town.desk.clear().await;
    for name in ["old", "new"] {
        assert_eq!(effects(&taints(nodes.get(name).await.unwrap())), 0, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_cannot_be_evicted_until_the_budget_goes() {
    let town = Town::new().await;
    assert_eq!(town.meddle(MeddlingKind::BudgetOfNone).await, [""; 0]);
    pod(&town, "a", "goes").await;
    let pods: Api<Pod> = Api::namespaced(town.server.admin(), "default");
    // Nobody guards a pod that does not run yet.
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let runs = Patch::Merge(json!({"status": ready}));
    pods.patch_status("a", &PatchParams::default(), &runs)
        .await
        .unwrap();
    let evict = || async { pods.evict("a", &EvictParams::default()).await };
    let code = |refused: kube::Error| match refused {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    };
    assert_eq!(
        town.meddle(MeddlingKind::SecondBudget).await,
        [""; 0],
        "there is no first"
    );
    let told = town.meddle(MeddlingKind::BudgetOfNone).await;
    assert!(told[0].starts_with("w2-budget-of-none poddisruptionbudgets/default/nobody-"));
    let first = told[0].rsplit('/').next().unwrap().to_owned();
    assert_eq!(code(evict().await.unwrap_err()), 429);
    let told = town.meddle(MeddlingKind::SecondBudget).await;
    assert!(told[0].contains(&format!("w2-second-budget poddisruptionbudgets/default/{first}-")));
    assert_eq!(code(evict().await.unwrap_err()), 500);
    town.desk.clear().await;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(town.server.admin(), "default");
    assert_eq!(budgets.list(&ListParams::default()).await.unwrap().items, []);
    evict().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_limits_of_a_pool_are_lowered_and_come_back() {
    for limits in [
        Value::Null,
        json!({"nodes": "3"}),
        json!({"cpu": "8", "nodes": "3"}),
    ] {
        let town = Town::new().await;
        assert_eq!(town.meddle(MeddlingKind::LimitsLowered).await, [""; 0]);
        let before = pool(&town, &limits).await;
        let pools: Api<NodePool> = Api::all(town.server.admin());
        let told = town.meddle(MeddlingKind::LimitsLowered).await;
        assert_eq!(told, ["m3-limits-lowered nodepools/general"]);
        let lowered = json!(pools.get("general").await.unwrap().spec);
        assert_eq!(lowered["limits"]["cpu"], "1");
        assert_eq!(
            town.meddle(MeddlingKind::LimitsLowered).await,
            [""; 0],
            "they are low"
        );
        town.desk.clear().await;
        let after = pools.get("general").await.unwrap();
        assert_eq!(json!(after.spec), json!(before.spec), "{limits}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_in_use_is_deleted_and_comes_back_as_another_with_the_same_wishes() {
    let town = Town::new().await;
    let classes: Api<IBMNodeClass> = Api::all(town.server.admin());
    let class = json!({
        "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass",
        "metadata": {"name": "default", "finalizers": [NODE_CLASS_FINALIZER], "annotations": {NODE_CLASS_HASH: "1"}},
        "spec": {"region": "us-south", "vpc": "r006-b28a5d3c-6d1c-4a1e-9d7c-0a1b2c3d4e5f", "image": "ibm-ubuntu-24-04"},
    });
    let class = serde_json::from_value(class).unwrap();
    let before = classes.create(&PostParams::default(), &class).await.unwrap();
    let told = town.meddle(MeddlingKind::ClassDeleted).await;
    assert_eq!(told, [""; 0], "nobody uses it");
    town.claim("a").await;
    let told = town.meddle(MeddlingKind::ClassDeleted).await;
    assert_eq!(told, ["m2-class-deleted ibmnodeclasses/default"]);
    let leaving = classes.get("default").await.unwrap();
    assert!(leaving.metadata.deletion_timestamp.is_some());
    let told = town.meddle(MeddlingKind::ClassDeleted).await;
    assert_eq!(told, [""; 0], "it goes already");
    town.desk.clear().await;
    let after = classes.get("default").await.unwrap();
    assert_ne!(after.metadata.uid, before.metadata.uid);
    assert_eq!(after.spec, before.spec);
    assert_eq!((after.finalizers().len(), after.annotations().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_class_that_has_gone_by_itself_is_made_anew_as_well() {
    let town = Town::new().await;
    let classes: Api<IBMNodeClass> = Api::all(town.server.admin());
    let class = json!({
        "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "default"},
        "spec": {"region": "us-south", "vpc": "r006-b28a5d3c-6d1c-4a1e-9d7c-0a1b2c3d4e5f", "image": "ibm-ubuntu-24-04"},
    });
    let class = serde_json::from_value(class).unwrap();
    classes.create(&PostParams::default(), &class).await.unwrap();
    town.claim("a").await;
    town.meddle(MeddlingKind::ClassDeleted).await;
    assert!(classes.get_opt("default").await.unwrap().is_none());
    town.desk.clear().await;
    assert!(classes.get_opt("default").await.unwrap().is_some());
}

/// A Node with a taint; ready if it is to be.
async fn tainted(town: &Town, name: &str, taint: &Value, ready: &str) {
    let nodes: Api<Node> = Api::all(town.server.admin());
    let node = json!({"metadata": {"name": name}, "spec": {"taints": [taint]}});
    let node: Node = serde_json::from_value(node).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let conditions = json!({"conditions": [{"type": "Ready", "status": ready}]});
    let patch = Patch::Merge(json!({"status": conditions}));
    nodes
        .patch_status(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_startup_taint_stays_until_the_agent_is_back_which_then_sees_to_later_nodes_too() {
    let town = Town::new().await;
    let told = || std::mem::take(&mut *town.told.lock().unwrap());
    let look = || tokio::time::sleep(Duration::from_secs(6));
    assert_eq!(
        town.meddle(MeddlingKind::StartupTaintStays).await,
        [""; 0],
        "no pool"
    );
    let before = pool(&town, &Value::Null).await;
    assert_eq!(
        town.meddle(MeddlingKind::StartupTaintStays).await,
        [""; 0],
        "nobody has met it yet"
    );
    let pools: Api<NodePool> = Api::all(town.server.admin());
    let template = json!(pools.get("general").await.unwrap().spec.template);
    let taint = template["spec"]["startupTaints"][0].clone();
    tainted(&town, "boots", &taint, "False").await;
    tainted(
        &town,
        "free",
        &json!({"key": "other", "effect": "NoSchedule"}),
        "True",
    )
    .await;
    look().await;
    assert_eq!(told(), [""; 0]);
    tainted(&town, "waits", &taint, "True").await;
    look().await;
    look().await;
    assert_eq!(told(), ["n5-startup-taint-stays nodes/waits"], "told once");
    let mut claim = town.claim("later").await;
    claim.metadata = ObjectMeta {
        name: Some("last".to_owned()),
        ..ObjectMeta::default()
    };
    claim.spec.startup_taints = Some(vec![serde_json::from_value(taint.clone()).unwrap()]);
    town.claims()
        .create(&PostParams::default(), &claim)
        .await
        .unwrap();
    town.desk.clear().await;
    assert_eq!(
        json!(pools.get("general").await.unwrap().spec),
        json!(before.spec)
    );
    tainted(&town, "last", &taint, "True").await;
    look().await;
    let nodes: Api<Node> = Api::all(town.server.admin());
    for (name, stays) in [("waits", false), ("last", false), ("boots", true)] {
        let taints = json!(nodes.get(name).await.unwrap().spec.unwrap().taints);
        let mut taints = taints.as_array().into_iter().flatten();
        assert_eq!(taints.any(|it| it["key"] == taint["key"]), stays, "{name}");
    }
    assert_eq!(told(), [""; 0], "an agent at work keeps nobody waiting");
}

#[tokio::test(start_paused = true)]
async fn a_node_is_made_with_the_provider_id_of_another_claim_and_goes_again() {
    let town = Town::new().await;
    let stranger = || town.meddle(MeddlingKind::StolenProviderId);
    for (name, node, stolen) in [("a", json!("a"), false), ("b", Value::Null, true)] {
        town.claim(name).await;
        let id = format!("ibm:///us-south/{name}");
        let status = Patch::Merge(json!({"status": {"providerID": id, "nodeName": node}}));
        let (claims, params) = (town.claims(), PatchParams::default());
        claims.patch_status(name, &params, &status).await.unwrap();
        let told: &[&str] = if stolen {
            &["n4-stolen-provider-id nodes/b"]
        } else {
            &[]
        };
        assert_eq!(stranger().await, told, "{name}");
    }
    let nodes: Api<Node> = Api::all(town.server.admin());
    let spec = nodes.get("b").await.unwrap().spec.unwrap();
    assert_eq!(spec.provider_id.unwrap(), "ibm:///us-south/a");
    assert!(
        spec.taints
            .unwrap()
            .iter()
            .any(|taint| taint.effect == "NoExecute")
    );
    town.desk.clear().await;
    assert!(nodes.get_opt("b").await.unwrap().is_none());
    stranger().await;
    nodes.delete("b", &DeleteParams::default()).await.unwrap();
    town.node("b").await;
    town.desk.clear().await;
    assert!(
        nodes.get_opt("b").await.unwrap().is_some(),
        "that is somebody else's"
    );
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_attached_is_held_where_it_is_until_it_may_go() {
    let town = Town::new().await;
    let volumes: Api<PersistentVolume> = Api::all(town.server.admin());
    for name in ["attached", "free"] {
        let volume = json!({
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "vpc.block.csi.ibm.io", "volumeHandle": name},
            },
        });
        let volume = serde_json::from_value(volume).unwrap();
        volumes.create(&PostParams::default(), &volume).await.unwrap();
    }
    assert_eq!(town.meddle(MeddlingKind::DetachStuck).await, [""; 0]);
    let attachments: Api<VolumeAttachment> = Api::all(town.server.admin());
    let attachment = json!({
        "metadata": {"name": "csi-1"},
        "spec": {
            "attacher": "vpc.block.csi.ibm.io", "nodeName": "n",
            "source": {"persistentVolumeName": "attached"},
        },
    });
    let attachment = serde_json::from_value(attachment).unwrap();
    attachments
        .create(&PostParams::default(), &attachment)
        .await
        .unwrap();
    let told = town.meddle(MeddlingKind::DetachStuck).await;
    assert_eq!(told, ["w6-detach-stuck persistentvolumes/attached"]);
    assert_eq!(
        volumes.get("attached").await.unwrap().annotations()[DETACHES],
        "never"
    );
    assert_eq!(
        town.meddle(MeddlingKind::DetachStuck).await,
        [""; 0],
        "it is held already"
    );
    town.desk.clear().await;
    let held = volumes.get("attached").await.unwrap().annotations().clone();
    assert!(!held.contains_key(DETACHES), "{held:?}");
}
