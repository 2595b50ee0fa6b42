//! Tables as kubectl would print them.

use serde_json::{Value, json};

use super::{Headers, of_objects};
use crate::clock::Clock;
use crate::sim::kube::registry::Registry;
use crate::sim::kube::request::{Ask, Form, IncludeObject, Options, Target, Verb};

fn ask(include_object: IncludeObject) -> Ask {
    Ask {
        target: Target::default(),
        verb: Verb::List,
        options: Options {
            include_object,
            ..Options::default()
        },
        form: Form::Table,
        content_type: String::new(),
        user_agent: String::new(),
    }
}

fn table(group: &str, plural: &str, objects: &[Value]) -> Value {
    let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
    let registry = Registry::default();
    let kind = registry.by_plural(group, plural).unwrap();
    of_objects(
        &kind,
        &ask(IncludeObject::Metadata),
        objects,
        Headers::Shown,
        &clock,
    )
}

/// A table as lines of `|`-separated cells, wide columns marked by a star.
fn printed(group: &str, plural: &str, objects: &[Value]) -> String {
    let table = table(group, plural, objects);
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let head = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| {
            let wide = if column["priority"] == 1 { "*" } else { "" };
            format!("{}{wide}", text(&column["name"]))
        });
    let mut lines = vec![head.collect::<Vec<_>>().join(" | ")];
    for row in table["rows"].as_array().unwrap() {
        let cells: Vec<String> = row["cells"].as_array().unwrap().iter().map(text).collect();
        lines.push(cells.join(" | "));
    }
    lines.join("\n")
}

fn made(name: &str, rest: Value) -> Value {
    let mut object = rest;
    object["metadata"]["name"] = name.into();
    object["metadata"]["creationTimestamp"] = "2026-11-16T09:55:00Z".into();
    object
}

/// A pod with containers in these states.
fn pod(name: &str, phase: &str, states: &[Value]) -> Value {
    let specs: Vec<Value> = (0..states.len())
        .map(|index| json!({"name": index.to_string()}))
        .collect();
    let statuses: Vec<Value> = states
        .iter()
        .enumerate()
        .map(|(index, state)| {
            let running = state.get("running").is_some();
            json!({"name": index.to_string(), "state": state, "ready": running, "restartCount": 0})
        })
        .collect();
    made(
        name,
        json!({"spec": {"containers": specs}, "status": {"phase": phase, "containerStatuses": statuses}}),
    )
}

#[test]
#[expect(clippy::too_many_lines, reason = "one row per state of a pod")]
fn pods_say_in_a_word_how_they_are() {
    let running = json!({"running": {}});
    let done = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
    let mut restarted = pod("restarted", "Running", std::slice::from_ref(&running));
    restarted["status"]["containerStatuses"][0]["restartCount"] = 3.into();
    restarted["status"]["containerStatuses"][0]["lastState"] =
        json!({"terminated": {"finishedAt": "2026-11-16T09:58:00Z", "exitCode": 1}});
    let mut going = pod("going", "Running", std::slice::from_ref(&running));
    going["metadata"]["deletionTimestamp"] = "2026-11-16T10:00:30Z".into();
    let mut gated = pod("gated", "Pending", &[]);
    gated["status"]["conditions"] =
        json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
    let mut initializing = pod(
        "initializing",
        "Pending",
        &[json!({"waiting": {"reason": "PodInitializing"}})],
    );
    initializing["spec"]["initContainers"] = json!([{"name": "i0"}, {"name": "i1"}]);
    initializing["status"]["initContainerStatuses"] = json!([
        {"name": "i0", "state": {"terminated": {"exitCode": 0}}, "restartCount": 1},
        {"name": "i1", "state": {"running": {}}, "restartCount": 0}]);
    let mut sidecar = pod("sidecar", "Running", std::slice::from_ref(&running));
    sidecar["spec"]["initContainers"] = json!([{"name": "s", "restartPolicy": "Always"}]);
    sidecar["status"]["initContainerStatuses"] =
        json!([{"name": "s", "state": {"running": {}}, "ready": true, "started": true, "restartCount": 2}]);
    let mut placed = pod("placed", "Running", std::slice::from_ref(&running));
    placed["spec"]["nodeName"] = "node-a".into();
    placed["spec"]["readinessGates"] = json!([{"conditionType": "a/ready"}, {"conditionType": "b/ready"}]);
    placed["status"]["conditions"] = json!([{"type": "b/ready", "status": "True"}]);
    placed["status"]["podIPs"] = json!([{"ip": "10.0.0.7"}]);
    let pods = [
        pod("pending", "Pending", &[]),
        pod(
            "crashing",
            "Running",
            &[
                running.clone(),
                json!({"waiting": {"reason": "CrashLoopBackOff"}}),
            ],
        ),
        pod("half", "Running", &[done.clone(), running]),
        pod(
            "two",
            "Pending",
            &[
                json!({"waiting": {"reason": "ImagePullBackOff"}}),
                json!({"waiting": {"reason": "CreateContainerConfigError"}}),
            ],
        ),
        pod("done", "Succeeded", &[done]),
        pod(
            "killed",
            "Failed",
            &[json!({"terminated": {"exitCode": 137, "signal": 9}})],
        ),
        restarted,
        going,
        gated,
        initializing,
        sidecar,
        placed,
    ];
    insta::assert_snapshot!(printed("", "pods", &pods), @"
    Name | Ready | Status | Restarts | Age | IP* | Node* | Nominated Node* | Readiness Gates*
    pending | 0/0 | Pending | 0 | 5m | <none> | <none> | <none> | <none>
    crashing | 1/2 | CrashLoopBackOff | 0 | 5m | <none> | <none> | <none> | <none>
    half | 1/2 | NotReady | 0 | 5m | <none> | <none> | <none> | <none>
    two | 0/2 | ImagePullBackOff | 0 | 5m | <none> | <none> | <none> | <none>
    done | 0/1 | Completed | 0 | 5m | <none> | <none> | <none> | <none>
    killed | 0/1 | Signal:9 | 0 | 5m | <none> | <none> | <none> | <none>
    restarted | 1/1 | Running | 3 (2m ago) | 5m | <none> | <none> | <none> | <none>
    going | 1/1 | Terminating | 0 | 5m | <none> | <none> | <none> | <none>
    gated | 0/0 | SchedulingGated | 0 | 5m | <none> | <none> | <none> | <none>
    initializing | 0/1 | Init:1/2 | 1 | 5m | <none> | <none> | <none> | <none>
    sidecar | 2/2 | Running | 2 | 5m | <none> | <none> | <none> | <none>
    placed | 1/1 | Running | 0 | 5m | 10.0.0.7 | node-a | <none> | 1/2
    ");
}

#[test]
fn nodes_show_readiness_cordons_and_roles() {
    let info = json!({"kubeletVersion": "v1.35.4", "osImage": "Ubuntu 24.04", "kernelVersion": "6.8.0",
                      "containerRuntimeVersion": "containerd://2.1"});
    let nodes = [
        made(
            "ready",
            json!({
            "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "spot"}},
            "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": info,
                       "addresses": [{"type": "InternalIP", "address": "10.0.0.4"}]}}),
        ),
        made(
            "lost",
            json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
        ),
        made("new", json!({})),
    ];
    insta::assert_snapshot!(printed("", "nodes", &nodes), @"
    Name | Status | Roles | Age | Version | Internal-IP* | External-IP* | OS-Image* | Kernel-Version* | Container-Runtime*
    ready | Ready,SchedulingDisabled | spot,worker | 5m | v1.35.4 | 10.0.0.4 | <none> | Ubuntu 24.04 | 6.8.0 | containerd://2.1
    lost | NotReady | <none> | 5m |  | <none> | <none> | <unknown> | <unknown> | <unknown>
    new | Unknown | <none> | 5m |  | <none> | <none> | <unknown> | <unknown> | <unknown>
    ");
}

#[test]
fn workloads_count_their_pods() {
    let template = json!({"spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:2"}],
                                   "nodeSelector": {"disk": "ssd"}}});
    let selector = json!({"matchLabels": {"app": "web"}});
    let deployment = made(
        "web",
        json!({"spec": {"replicas": 3, "template": template, "selector": selector},
        "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2, "replicas": 3}}),
    );
    let daemons = made(
        "log",
        json!({"spec": {"template": template, "selector": selector},
        "status": {"desiredNumberScheduled": 5, "numberReady": 4}}),
    );
    let job = made(
        "once",
        json!({"spec": {"completions": 2, "template": template},
        "status": {"succeeded": 1, "startTime": "2026-11-16T09:57:00Z"}}),
    );
    let budget = made(
        "web",
        json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}}),
    );
    let text = [
        printed("apps", "deployments", std::slice::from_ref(&deployment)),
        printed("apps", "replicasets", std::slice::from_ref(&deployment)),
        printed("apps", "statefulsets", &[deployment]),
        printed("apps", "daemonsets", &[daemons]),
        printed("batch", "jobs", &[job]),
        printed("policy", "poddisruptionbudgets", &[budget]),
    ];
    insta::assert_snapshot!(text.join("\n"), @"
    Name | Ready | Up-to-date | Available | Age | Containers* | Images* | Selector*
    web | 2/3 | 3 | 2 | 5m | a,b | x:1,y:2 | app=web
    Name | Desired | Current | Ready | Age | Containers* | Images* | Selector*
    web | 3 | 3 | 2 | 5m | a,b | x:1,y:2 | app=web
    Name | Ready | Age | Containers* | Images*
    web | 2/3 | 5m | a,b | x:1,y:2
    Name | Desired | Current | Ready | Up-to-date | Available | Node Selector | Age | Containers* | Images* | Selector*
    log | 5 | 0 | 4 | 0 | 0 | disk=ssd | 5m | a,b | x:1,y:2 | app=web
    Name | Status | Completions | Duration | Age | Containers* | Images* | Selector*
    once | Running | 1/2 | 3m | 5m | a,b | x:1,y:2 | <none>
    Name | Min Available | Max Unavailable | Allowed Disruptions | Age
    web | 50% | N/A | 1 | 5m
    ");
}

#[test]
fn events_show_when_and_about_what() {
    let events = [
        made(
            "core",
            json!({"type": "Warning", "reason": "SpotPreemption", "message": " gone \n", "count": 4,
            "involvedObject": {"kind": "Node", "name": "a"}, "source": {"component": "karpenter", "host": "h"},
            "firstTimestamp": "2026-11-16T08:00:00Z", "lastTimestamp": "2026-11-16T09:59:00Z"}),
        ),
        made(
            "new",
            json!({"type": "Normal", "reason": "Launched", "message": "m", "eventTime": "2026-11-16T09:59:30.5Z",
            "involvedObject": {"kind": "NodeClaim", "name": "b"}, "reportingComponent": "karpenter"}),
        ),
        made(
            "series",
            json!({"type": "Normal", "reason": "R", "eventTime": "2026-11-16T09:00:00.0Z",
            "series": {"count": 9, "lastObservedTime": "2026-11-16T09:59:55.0Z"}, "involvedObject": {"kind": "Pod"}}),
        ),
    ];
    insta::assert_snapshot!(printed("", "events", &events), @"
    Last Seen | Type | Reason | Object | Subobject* | Source* | Message | First Seen* | Count* | Name*
    60s | Warning | SpotPreemption | node/a |  | karpenter, h | gone | 120m | 4 | core
    29s | Normal | Launched | nodeclaim/b |  | karpenter | m | 29s | 1 | new
    5s | Normal | R | pod |  |  |  | 60m | 9 | series
    ");
}

#[test]
fn services_volumes_and_requests_are_shown_as_a_real_server_shows_them() {
    let service = |name: &str, spec: Value| made(name, json!({ "spec": spec }));
    let services = [
        service(
            "plain",
            json!({"type": "ClusterIP", "clusterIPs": ["10.96.0.1"], "selector": {"app": "web"},
            "ports": [{"port": 443, "protocol": "TCP"}, {"port": 80, "nodePort": 30080, "protocol": "TCP"}]}),
        ),
        service(
            "outside",
            json!({"type": "LoadBalancer", "clusterIPs": ["10.96.0.2"]}),
        ),
        service(
            "alias",
            json!({"type": "ExternalName", "externalName": "example.com"}),
        ),
    ];
    let volume = made(
        "pv",
        json!({"spec": {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete", "claimRef": {"namespace": "ns", "name": "c"},
        "storageClassName": "fast"}, "status": {"phase": "Bound"}}),
    );
    let claim = made(
        "c",
        json!({"spec": {"volumeName": "pv", "storageClassName": "fast"},
        "status": {"phase": "Bound", "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]}}),
    );
    let class = made(
        "fast",
        json!({"provisioner": "vpc.block.csi.ibm.io", "volumeBindingMode": "WaitForFirstConsumer",
        "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}),
    );
    let request = made(
        "csr",
        json!({"spec": {"signerName": "kubernetes.io/kubelet-serving", "username": "system:node:a",
        "expirationSeconds": 3600}, "status": {"conditions": [{"type": "Approved"}], "certificate": "YQ=="}}),
    );
    let text = [
        printed("", "services", &services),
        printed("", "persistentvolumes", &[volume]),
        printed("", "persistentvolumeclaims", &[claim]),
        printed("storage.k8s.io", "storageclasses", &[class]),
        printed("certificates.k8s.io", "certificatesigningrequests", &[request]),
        printed(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            &[made("nodepools.karpenter.sh", json!({}))],
        ),
    ];
    insta::assert_snapshot!(text.join("\n"), @"
    Name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector*
    plain | ClusterIP | 10.96.0.1 | <none> | 443/TCP,80:30080/TCP | 5m | app=web
    outside | LoadBalancer | 10.96.0.2 | <pending> | <none> | 5m | <none>
    alias | ExternalName | <none> | example.com | <none> | 5m | <none>
    Name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass | VolumeAttributesClass | Reason | Age | VolumeMode*
    pv | 10Gi | RWO | Delete | Bound | ns/c | fast | <unset> |  | 5m | <unset>
    Name | Status | Volume | Capacity | Access Modes | StorageClass | VolumeAttributesClass | Age | VolumeMode*
    c | Bound | pv | 10Gi | RWO,RWX | fast | <unset> | 5m | <unset>
    Name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age
    fast (default) | vpc.block.csi.ibm.io | Delete | WaitForFirstConsumer | false | 5m
    Name | Age | SignerName | Requestor | RequestedDuration | Condition
    csr | 5m | kubernetes.io/kubelet-serving | system:node:a | 60m | Approved,Issued
    Name | Created At
    nodepools.karpenter.sh | 2026-11-16T09:55:00Z
    ");
}

#[test]
fn every_kind_has_a_cell_for_every_column() {
    for kind in Registry::default().all() {
        let table = table(&kind.group, &kind.plural, &[made("x", json!({}))]);
        let columns = table["columnDefinitions"].as_array().unwrap().len();
        assert_eq!(
            table["rows"][0]["cells"].as_array().unwrap().len(),
            columns,
            "{}",
            kind.plural
        );
    }
}

#[test]
fn a_custom_kind_shows_the_columns_of_its_definition_or_its_age() {
    let mut registry = Registry::default();
    let define = |columns: Value| {
        json!({"spec": {"group": "example.com", "scope": "Cluster", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema": {"type": "object"}},
                          "additionalPrinterColumns": columns}]}})
    };
    let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
    let mut shown = |columns: Value| {
        registry.define(&define(columns)).unwrap();
        let kind = registry.by_plural("example.com", "widgets").unwrap();
        let objects = [made("a", json!({"spec": {"size": "large"}}))];
        of_objects(&kind, &ask(IncludeObject::None), &objects, Headers::Shown, &clock)
    };
    let aged = shown(Value::Null);
    assert_eq!(aged["columnDefinitions"][1]["name"], "Age");
    assert_eq!(aged["rows"], json!([{"cells": ["a", "5m"], "object": null}]));
    let sized = shown(json!([{"name": "Size", "type": "string", "jsonPath": ".spec.size", "priority": 1}]));
    assert_eq!(sized["columnDefinitions"][1]["priority"], 1);
    assert_eq!(sized["rows"][0]["cells"], json!(["a", "large"]));
}

#[test]
fn a_row_carries_as_much_of_its_object_as_is_asked_for() {
    let registry = Registry::default();
    let kind = registry.by_plural("", "configmaps").unwrap();
    let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
    let object = made("a", json!({"kind": "ConfigMap", "data": {"k": "v"}}));
    let row = |include| {
        let table = of_objects(
            &kind,
            &ask(include),
            std::slice::from_ref(&object),
            Headers::Omitted,
            &clock,
        );
        assert_eq!(table["columnDefinitions"], Value::Null);
        table["rows"][0]["object"].clone()
    };
    assert_eq!(row(IncludeObject::None), Value::Null);
    assert_eq!(row(IncludeObject::Metadata)["kind"], "PartialObjectMetadata");
    assert_eq!(row(IncludeObject::Object), object);
}
