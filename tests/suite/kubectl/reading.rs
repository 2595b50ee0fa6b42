//! Verbs that read, once or for as long as it takes: get, describe, explain, events, rollout status, wait.

use serde_json::json;

use super::cluster::{Cluster, rows};
use super::{NODE, WIDGET, WIDGETS, node_status};

#[test]
fn version_and_api_resources_say_what_the_server_is_and_has() {
    let cluster = Cluster::start();
    assert!(cluster.kubectl("version").contains("Server Version: v1.35.4"));
    cluster.apply(WIDGETS);
    let resources = rows(&cluster.kubectl("api-resources"));
    for row in [
        "pods po v1 true Pod",
        "deployments deploy apps/v1 true Deployment",
        "widgets wd example.com/v1 true Widget",
    ] {
        assert!(resources.iter().any(|line| line == row), "{row}");
    }
    assert_eq!(cluster.kubectl("get --raw /readyz"), "ok");
}

#[test]
fn get_prints_the_columns_of_the_kind() {
    let cluster = Cluster::start();
    cluster.apply(NODE);
    cluster.set_status("node node-a", &node_status());
    assert_eq!(
        rows(&cluster.kubectl("get nodes"))[0..2]
            .iter()
            .map(|row| row.split(' ').take(3).collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>(),
        ["NAME STATUS ROLES", "node-a Ready worker"]
    );
    let wide = rows(&cluster.kubectl("get nodes -o wide"));
    assert!(wide[0].ends_with("VERSION INTERNAL-IP EXTERNAL-IP OS-IMAGE KERNEL-VERSION CONTAINER-RUNTIME"));
    assert!(
        wide[1].ends_with("v1.35.4 10.0.0.4 <none> Ubuntu 24.04 6.8.0 containerd://2.1"),
        "{}",
        wide[1]
    );
    let pods = rows(&cluster.kubectl("get pods -o wide"));
    assert!(
        pods[0].ends_with("IP NODE NOMINATED NODE READINESS GATES"),
        "{}",
        pods[0]
    );
    assert!(pods[1].starts_with("p 0/1 Pending 0 "), "{}", pods[1]);
}

#[test]
fn get_selects_by_label_field_category_and_namespace_and_writes_other_forms() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    cluster.apply(WIDGET);
    cluster.apply(NODE);
    assert_eq!(cluster.kubectl("get pods -l app=web -o name"), "pod/p\n");
    assert_eq!(cluster.kubectl("get pods -l app!=web -o name"), "");
    assert_eq!(
        cluster.kubectl("get pods -A --field-selector spec.nodeName=node-a -o name"),
        "pod/p\n"
    );
    assert_eq!(cluster.kubectl("get toys -o name"), "widget.example.com/a\n");
    assert_eq!(cluster.kubectl("get wd a -o jsonpath={.spec.size}"), "small");
    assert_eq!(
        cluster.kubectl("get wd -o custom-columns=S:.spec.size --no-headers"),
        "small\n"
    );
    assert!(cluster.kubectl("get wd a -o yaml").contains("size: small"));
    assert_eq!(
        rows(&cluster.kubectl("get widgets -o wide")),
        ["NAME SIZE READY REPLICAS", "a small 1"]
    );
    assert!(
        cluster
            .refused("get wd b")
            .contains("widgets.example.com \"b\" not found")
    );
    let sorted = cluster.kubectl("get ns --sort-by=.metadata.name -o name");
    assert_eq!(sorted.lines().next(), Some("namespace/default"));
}

#[test]
fn get_w_follows_what_happens() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    cluster.apply(WIDGET);
    let mut watch = cluster.begin("get wd -w");
    assert_eq!(watch.line(), "NAME SIZE READY");
    assert_eq!(watch.line(), "a small");
    cluster.apply(&WIDGET.replace("small", "large"));
    assert_eq!(watch.line(), "a large");
    cluster.apply(&WIDGET.replace("name: a", "name: b"));
    assert_eq!(watch.line(), "b small");
    cluster.set_status(
        "wd b",
        &json!({"conditions": [{"type": "Ready", "status": "True"}]}),
    );
    assert_eq!(watch.line(), "b small True");
    cluster.kubectl("delete wd b");
    assert_eq!(watch.line(), "b small True");
}

#[test]
fn describe_gathers_what_belongs_to_an_object() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    cluster.apply(WIDGET);
    cluster.apply(NODE);
    cluster.set_status("node node-a", &node_status());
    cluster.apply(
        "
apiVersion: v1
kind: Event
metadata: {name: e, namespace: default}
involvedObject: {kind: Node, name: node-a, uid: node-a}
reason: SpotPreemption
message: the machine is being taken away
type: Warning
source: {component: karpenter-ibm}
firstTimestamp: '2026-01-01T00:00:00Z'
lastTimestamp: '2026-01-01T00:00:00Z'
count: 1
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: node-a, namespace: kube-node-lease}
spec: {holderIdentity: node-a, leaseDurationSeconds: 40}
",
    );
    let node = rows(&cluster.kubectl("describe node node-a"));
    for line in [
        "Name: node-a",
        "Roles: worker",
        "HolderIdentity: node-a",
        "InternalIP: 10.0.0.4",
    ] {
        assert!(node.iter().any(|row| row == line), "{line}\n{}", node.join("\n"));
    }
    assert!(
        node.iter().any(|row| row.starts_with("default p 250m (6%)")),
        "{}",
        node.join("\n")
    );
    assert!(
        node.iter().any(|row| row.contains("SpotPreemption")),
        "{}",
        node.join("\n")
    );
    let pod = cluster.kubectl("describe pod p");
    assert!(rows(&pod).contains(&"Node: node-a/".to_owned()), "{pod}");
    assert!(rows(&cluster.kubectl("describe wd a")).contains(&"Size: small".to_owned()));
    assert!(rows(&cluster.kubectl("describe ns default")).contains(&"Status: Active".to_owned()));
}

#[test]
fn rollout_status_waits_for_the_deployment() {
    let cluster = Cluster::start();
    cluster.kubectl("create deployment web --image=nginx:1 --replicas=2");
    let status = |ready: u32| json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": ready, "availableReplicas": ready});
    cluster.set_status("deploy web", &status(1));
    let mut rollout = cluster.begin("rollout status deploy web --timeout=30s");
    assert_eq!(
        rollout.line(),
        "Waiting for deployment \"web\" rollout to finish: 1 of 2 updated replicas are available..."
    );
    cluster.set_status("deploy web", &status(2));
    assert_eq!(rollout.line(), "deployment \"web\" successfully rolled out");
    assert!(rollout.succeeds());
    assert_eq!(
        cluster.kubectl("rollout restart deploy web"),
        "deployment.apps/web restarted\n"
    );
    assert_eq!(cluster.json("get deploy web")["metadata"]["generation"], 2);
}

#[test]
fn get_events_shows_what_was_said_in_either_group() {
    let cluster = Cluster::start();
    cluster.apply(
        "
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: new, namespace: default}
regarding: {apiVersion: v1, kind: Pod, name: p, namespace: default}
reason: Nominated
note: a machine is on its way
type: Normal
action: Schedule
reportingController: karpenter-ibm
reportingInstance: karpenter-ibm-0
eventTime: '2026-01-01T00:00:00.000000Z'
",
    );
    for command in ["get events", "get events.events.k8s.io"] {
        let table = rows(&cluster.kubectl(command));
        assert_eq!(table[0], "LAST SEEN TYPE REASON OBJECT MESSAGE");
        assert!(
            table[1].ends_with("Normal Nominated pod/p a machine is on its way"),
            "{}",
            table[1]
        );
    }
    assert!(cluster.kubectl("events --for pod/p").contains("Nominated"));
    assert_eq!(
        cluster.kubectl("get ev --field-selector reason=Other -o name"),
        ""
    );
}

#[test]
fn wait_ends_when_the_condition_holds_and_fails_when_it_does_not() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    cluster.kubectl("wait --for=condition=Established crd/widgets.example.com --timeout=5s");
    cluster.apply(WIDGET);
    let waiting = cluster.begin("wait --for=condition=Ready wd/a --timeout=30s");
    cluster.set_status(
        "wd a",
        &json!({"conditions": [{"type": "Ready", "status": "True"}]}),
    );
    assert!(waiting.succeeds());
    cluster.kubectl("wait --for=jsonpath={.spec.size}=small wd/a --timeout=5s");
    let gone = cluster.begin("wait --for=delete wd/a --timeout=30s");
    cluster.kubectl("delete wd a");
    assert!(gone.succeeds());
    cluster.apply(WIDGET);
    assert!(
        cluster
            .refused("wait --for=condition=Ready wd/a --timeout=1s")
            .contains("timed out")
    );
}

#[test]
fn explain_shows_the_fields_of_built_in_and_custom_kinds() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    // kubectl explain takes what it remembers of the server's kinds; only a kind that it misses makes it ask again.
    cluster.apply(WIDGET);
    let widget = cluster.kubectl("explain wd.spec.size");
    for line in [
        "KIND:       Widget",
        "FIELD: size <string>",
        "How big it is.",
        "small",
    ] {
        assert!(widget.contains(line), "{line}\n{widget}");
    }
    let widgets = cluster.kubectl("explain wd");
    assert!(widgets.contains("A thing to play with."), "{widgets}");
    let spec = cluster.kubectl("explain pod.spec");
    for line in [
        "Specification of the desired behavior of the pod.",
        "NodeName indicates",
    ] {
        assert!(spec.contains(line), "{line}\n{spec}");
    }
    let pod = cluster.kubectl("explain pod.spec.containers");
    assert!(
        pod.contains("FIELD: containers <[]") && pod.contains("imagePullPolicy"),
        "{pod}"
    );
    assert!(
        cluster
            .kubectl("explain node --recursive")
            .contains("unschedulable")
    );
    let swagger = cluster.kubectl("get --raw /openapi/v2");
    assert!(swagger.starts_with('{') && swagger.contains("\"swagger\":\"2.0\""));
    assert!(
        cluster
            .refused("explain wd.spec.color")
            .contains("field \"color\" does not exist")
    );
}
