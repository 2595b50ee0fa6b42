//! What is refused, and which field is blamed.

use serde_json::{Value, json};

use super::Lab;
use super::objects::{With, budget, config, deployment, lease, node, pod};
use super::widgets::widget;

#[tokio::test]
async fn labels_and_annotations_must_be_well_formed() {
    let mut lab = Lab::open("validating").await;
    for labels in [
        json!({"a": "b"}),
        json!({"example.com/a": "b"}),
        json!({"": "b"}),
        json!({"a b": "c"}),
        json!({"a": "b c"}),
        json!({"-a": "b"}),
        json!({"a": "-b"}),
        json!({"a/b/c": "d"}),
        json!({"/a": "b"}),
        json!({"A.com/x": "b"}),
        json!({"a": "x".repeat(63)}),
        json!({"a": "x".repeat(64)}),
        json!({"x".repeat(64): "a"}),
        json!({"a": ""}),
        json!({"a": 1}),
        json!([]),
        json!({"a": null}),
    ] {
        lab.post(
            "configmaps?dryRun=All",
            &config("a").with("metadata/labels", labels),
        )
        .compare()
        .await;
    }
    for annotations in [
        json!({"a": "b c/ö"}),
        json!({"A_b": ""}),
        json!({"a b": "c"}),
        json!({"Example.COM/a": "b"}),
        json!({"a": "x".repeat(262_145)}),
    ] {
        lab.post(
            "configmaps?dryRun=All",
            &config("a").with("metadata/annotations", annotations),
        )
        .compare()
        .await;
    }
}

#[tokio::test]
async fn unknown_fields_are_refused_told_or_ignored_as_asked() {
    let mut lab = Lab::with_widgets("validating").await;
    lab.compare_warnings();
    for (plural, object) in [
        ("configmaps", config("a").with("typo", json!(1))),
        ("configmaps", config("a").with("metadata/typo", json!(1))),
        (
            "pods",
            pod("a")
                .with("spec/containers/0/typo", json!(1))
                .with("spec/typo", json!({"a": 1})),
        ),
        ("widgets", widget("a").with("spec/typo", json!(1))),
        ("widgets", widget("a").with("metadata/typo", json!(1))),
        ("widgets", widget("a").with("typo", json!(1))),
        (
            "widgets",
            widget("a").with("spec/anything", json!({"goes": {"deep": [1]}})),
        ),
    ] {
        for validation in ["", "Strict", "Warn", "Ignore", "Sometimes"] {
            lab.post(
                &format!("{plural}?dryRun=All&fieldValidation={validation}"),
                &object,
            )
            .compare()
            .await;
        }
        lab.post(&format!("{plural}?dryRun=All"), &object).compare().await;
    }
    let twice = br#"{"metadata": {"name": "a", "name": "b"}, "data": {"k": "1", "k": "2"}}"#;
    for validation in ["Strict", "Warn", "Ignore"] {
        lab.step(
            http::Method::POST,
            &format!("configmaps?dryRun=All&fieldValidation={validation}"),
            twice.to_vec(),
        )
        .compare()
        .await;
    }
    lab.post("widgets", &widget("a")).is("201").await;
    for validation in ["Strict", "Warn", "Ignore"] {
        let query = format!("fieldValidation={validation}");
        lab.merge_patch(&format!("widgets/a?{query}"), &json!({"spec": {"typo": 1}}))
            .compare()
            .await;
        lab.json_patch(
            &format!("widgets/a?{query}"),
            &json!([{"op": "add", "path": "/spec/typo", "value": 1}]),
        )
        .compare()
        .await;
        lab.apply(
            "me",
            &format!("widgets/a?force=true&{query}"),
            &widget("a").with("spec/typo", json!(1)),
        )
        .compare()
        .await;
    }
}

#[tokio::test]
async fn a_schema_is_enforced() {
    let mut lab = Lab::with_widgets("validating").await;
    for (path, value) in [
        ("spec/size", json!(-1)),
        ("spec/size", json!(101)),
        ("spec/size", json!("1")),
        ("spec/size", json!(1.5)),
        ("spec/size", json!(1.0)),
        ("spec/size", json!(null)),
        ("spec/color", json!("pink")),
        ("spec/color", json!(1)),
        ("spec/note", json!("UPPER")),
        ("spec/note", json!("abcdefghijk")),
        ("spec/note", json!("UPPER AND LONG")),
        ("spec/since", json!("yesterday")),
        ("spec/since", json!("2026-11-16T10:00:00Z")),
        ("spec/ratio", json!(0)),
        ("spec/ratio", json!(0.5)),
        ("spec/ratio", json!(1)),
        ("spec/limits", json!({"a": 1, "b": "2"})),
        ("spec/limits", json!({"a": 1, "b": 2, "c": 3})),
        ("spec/limits", json!({"a": true})),
        ("spec/limits", json!({"a": 1.5})),
        ("spec/parts", json!([{"name": "x"}, {"name": "x"}])),
        ("spec/parts", json!([{}])),
        (
            "spec/parts",
            json!([{"name": "1"}, {"name": "2"}, {"name": "3"}, {"name": "4"}, {"name": "5"}]),
        ),
        ("spec/parts", json!({})),
        ("spec/tags", json!(["a", "a"])),
        ("spec/tags", json!(["a", 1])),
        ("spec/tags", json!([null])),
        ("spec/steps", json!(["a", "a"])),
        ("spec/nested", json!({"level": null})),
        ("spec/nested", json!(null)),
        ("spec/nested", json!({"level": 5})),
        ("spec/maybe", json!(null)),
        ("spec/shape", json!(null)),
        ("spec/anything", json!({"x": null})),
        ("spec/anything", json!([])),
        ("spec", json!({})),
        ("spec", json!(null)),
        ("spec", json!([])),
        ("spec", json!({"size": 60, "color": "red"})),
        ("spec", json!({"size": 60, "color": "pink"})),
        ("status", json!({"phase": "Ancient"})),
        ("metadata/labels", json!({"a": 1})),
        ("metadata/name", json!("A")),
        ("metadata/name", json!(5)),
        ("metadata", json!([])),
        ("apiVersion", json!("conformance.example.com/v2")),
        ("kind", json!("Gadget")),
        ("kind", json!("")),
    ] {
        lab.post("widgets?dryRun=All", &widget("a").with(path, value))
            .compare()
            .await;
    }
    lab.post(
        "widgets?dryRun=All",
        &json!({"metadata": {"name": "a"}, "spec": {"size": 1}}),
    )
    .compare()
    .await;
}

#[tokio::test]
async fn rules_compare_with_what_was_before() {
    let mut lab = Lab::with_widgets("validating").await;
    lab.post("widgets", &widget("a").with("spec/origin", json!("here")))
        .is("201")
        .await;
    lab.merge_patch("widgets/a", &json!({"spec": {"origin": "there"}}))
        .is("422 Invalid spec.origin")
        .await;
    lab.merge_patch("widgets/a", &json!({"spec": {"origin": null}}))
        .is("422 Invalid")
        .await;
    lab.merge_patch("widgets/a", &json!({"spec": {"size": 99}}))
        .is("200")
        .await;
    lab.merge_patch("widgets/a", &json!({"spec": {"color": "red"}}))
        .is("422 Invalid")
        .await;
    lab.merge_patch("widgets/a", &json!({"spec": {"size": 400, "origin": "there"}}))
        .is("422 Invalid")
        .await;
    lab.apply("me", "widgets/a", &widget("a").with("spec/size", json!(400)))
        .compare()
        .await;
}

/// Changes to a pod that is otherwise fine.
fn pod_faults() -> Vec<(&'static str, Value)> {
    vec![
        ("spec/containers", json!([])),
        ("spec/containers", json!(null)),
        ("spec/containers/0/name", json!("")),
        ("spec/containers/0/name", json!("A_b")),
        ("spec/containers/0/image", json!("")),
        ("spec/containers/0/image", json!(" x ")),
        (
            "spec/containers",
            json!([{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]),
        ),
        (
            "spec/containers/0/resources",
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        ),
        ("spec/containers/0/resources", json!({"requests": {"cpu": "-1"}})),
        (
            "spec/containers/0/resources",
            json!({"requests": {"cpu": "much"}}),
        ),
        ("spec/containers/0/resources", json!({"requests": {"a b": "1"}})),
        (
            "spec/containers/0/resources",
            json!({"requests": {"example.com/gpu": "1"}}),
        ),
        (
            "spec/containers/0/resources",
            json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "2"}}),
        ),
        ("spec/containers/0/ports", json!([{"containerPort": 0}])),
        ("spec/containers/0/ports", json!([{"containerPort": 70000}])),
        (
            "spec/containers/0/ports",
            json!([{"containerPort": 80, "protocol": "ICMP"}]),
        ),
        (
            "spec/containers/0/ports",
            json!([{"containerPort": 80, "name": "UPPER"}]),
        ),
        ("spec/containers/0/env", json!([{"name": ""}])),
        (
            "spec/containers/0/env",
            json!([{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        ),
        (
            "spec/containers/0/volumeMounts",
            json!([{"name": "missing", "mountPath": "/x"}]),
        ),
        ("spec/containers/0/imagePullPolicy", json!("Sometimes")),
        ("spec/containers/0/livenessProbe", json!({})),
        ("spec/containers/0/terminationMessagePolicy", json!("X")),
        ("spec/restartPolicy", json!("Sometimes")),
        ("spec/dnsPolicy", json!("Sometimes")),
        ("spec/terminationGracePeriodSeconds", json!(-1)),
        ("spec/activeDeadlineSeconds", json!(0)),
        ("spec/nodeName", json!("UPPER")),
        ("spec/nodeSelector", json!({"a b": "c"})),
        ("spec/nodeSelector", json!({"a": "b c"})),
        ("spec/serviceAccountName", json!("missing")),
        ("spec/serviceAccountName", json!("A_b")),
        ("spec/priorityClassName", json!("missing")),
        ("spec/tolerations", json!([{"operator": "Exists", "value": "x"}])),
        ("spec/tolerations", json!([{"key": "a", "operator": "Sometimes"}])),
        (
            "spec/tolerations",
            json!([{"key": "", "operator": "Equal", "value": "x"}]),
        ),
        ("spec/tolerations", json!([{"key": "a", "effect": "Maybe"}])),
        (
            "spec/tolerations",
            json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]),
        ),
        (
            "spec/affinity",
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}),
        ),
        (
            "spec/affinity",
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}}}),
        ),
        (
            "spec/affinity",
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}]}}}),
        ),
        (
            "spec/affinity",
            json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}]}}),
        ),
        (
            "spec/affinity",
            json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}}),
        ),
        (
            "spec/topologySpreadConstraints",
            json!([{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]),
        ),
        (
            "spec/topologySpreadConstraints",
            json!([{"maxSkew": 1, "topologyKey": "", "whenUnsatisfiable": "Maybe"}]),
        ),
        (
            "spec/topologySpreadConstraints",
            json!([{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}]),
        ),
        (
            "spec/volumes",
            json!([{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]),
        ),
        ("spec/volumes", json!([{"name": "A_b", "emptyDir": {}}])),
        (
            "spec/volumes",
            json!([{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
        ),
        ("spec/schedulingGates", json!([{"name": "a b"}])),
        ("spec/hostname", json!("A_b")),
        (
            "metadata/annotations",
            json!({"controller.kubernetes.io/pod-deletion-cost": "x"}),
        ),
    ]
}

#[tokio::test]
async fn faults_of_a_pod_are_blamed_on_their_fields() {
    let mut lab = Lab::open("validating").await;
    for (path, value) in pod_faults() {
        lab.post("pods?dryRun=All", &pod("a").with(path, value))
            .compare()
            .await;
    }
}

/// A definition of a kind that nobody has.
fn gadgets() -> Value {
    json!({"metadata": {"name": "gadgets.conformance.example.com"}, "spec": {
        "group": "conformance.example.com", "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
}

#[tokio::test]
async fn faults_of_other_kinds_are_blamed_on_their_fields() {
    let mut lab = Lab::open("validating").await;
    let schema = "spec/versions/0/schema/openAPIV3Schema";
    let faults: Vec<(&str, Value, Vec<(&str, Value)>)> = vec![
        (
            "deployments",
            deployment("a"),
            vec![
                ("spec/replicas", json!(-1)),
                ("spec/selector", json!({})),
                ("spec/selector", json!(null)),
                ("spec/template/metadata/labels", json!({"app": "b"})),
                ("spec/strategy", json!({"type": "Sometimes"})),
                ("spec/strategy", json!({"type": "Recreate", "rollingUpdate": {}})),
                (
                    "spec/strategy",
                    json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
                ),
                ("spec/strategy", json!({"rollingUpdate": {"maxSurge": "x%"}})),
                ("spec/minReadySeconds", json!(-1)),
                ("spec/progressDeadlineSeconds", json!(0)),
                ("spec/revisionHistoryLimit", json!(-1)),
                ("spec/template/spec/restartPolicy", json!("Never")),
                ("spec/template/spec/containers", json!([])),
                (
                    "spec/selector",
                    json!({"matchExpressions": [{"key": "app", "operator": "In"}]}),
                ),
                ("spec/template", json!({})),
            ],
        ),
        (
            "leases",
            lease("a"),
            vec![
                ("spec/leaseDurationSeconds", json!(0)),
                ("spec/leaseTransitions", json!(-1)),
                ("spec/renewTime", json!("yesterday")),
                ("spec/renewTime", json!("2026-11-16T10:00:00Z")),
                ("spec/renewTime", json!("2026-11-16T10:00:00.123456Z")),
                ("spec/holderIdentity", json!("")),
            ],
        ),
        (
            "nodes",
            node("a"),
            vec![
                ("spec/taints", json!([{"key": "a"}])),
                ("spec/taints", json!([{"key": "a", "effect": "Maybe"}])),
                ("spec/taints", json!([{"key": "a b", "effect": "NoSchedule"}])),
                (
                    "spec/taints",
                    json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule", "value": "x"}]),
                ),
                ("spec/podCIDR", json!("x")),
                ("status/capacity", json!({"cpu": "x"})),
                ("status/capacity", json!({"cpu": "-1"})),
            ],
        ),
        (
            "poddisruptionbudgets",
            budget("a", "x"),
            vec![
                ("spec/maxUnavailable", json!(1)),
                ("spec/minAvailable", json!(-1)),
                ("spec/minAvailable", json!("x")),
                ("spec/minAvailable", json!("50%")),
                ("spec/minAvailable", json!("150%")),
                ("spec/selector", json!({"matchLabels": {"a": "b c"}})),
                ("spec/selector", json!(null)),
                ("spec/unhealthyPodEvictionPolicy", json!("Sometimes")),
            ],
        ),
        (
            "configmaps",
            config("a"),
            vec![
                ("data", json!({"a b": "c"})),
                ("data", json!({"": "c"})),
                ("binaryData", json!({"k": "eA=="})),
                ("binaryData", json!({"x": "eA=="})),
            ],
        ),
        (
            "services",
            json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}),
            vec![
                ("spec/ports", json!([])),
                ("spec/ports", json!([{"port": 0}])),
                ("spec/ports", json!([{"port": 80}, {"port": 81}])),
                ("spec/type", json!("Sometimes")),
                ("metadata/name", json!("1a")),
                ("spec/clusterIP", json!("x")),
                ("spec/sessionAffinity", json!("Maybe")),
                ("spec/selector", json!({"a b": "c"})),
            ],
        ),
        (
            "priorityclasses",
            json!({"metadata": {"name": "$ns-p"}, "value": 5}),
            vec![
                ("value", json!(1_000_000_001)),
                ("metadata/name", json!("system-x")),
                ("preemptionPolicy", json!("Maybe")),
            ],
        ),
        (
            "namespaces",
            json!({"metadata": {"name": "$ns-x"}}),
            vec![("metadata/name", json!("a.b")), ("metadata/name", json!("A"))],
        ),
        (
            "jobs",
            json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}}}),
            vec![
                ("spec/template/spec/restartPolicy", json!("Always")),
                ("spec/parallelism", json!(-1)),
                ("spec/completions", json!(-1)),
                ("spec/backoffLimit", json!(-1)),
                ("spec/selector", json!({"matchLabels": {"a": "b"}})),
            ],
        ),
        (
            "storageclasses",
            json!({"metadata": {"name": "$ns-s"}, "provisioner": "p"}),
            vec![
                ("provisioner", json!("")),
                ("reclaimPolicy", json!("Maybe")),
                ("volumeBindingMode", json!("Maybe")),
            ],
        ),
        (
            "persistentvolumeclaims",
            json!({"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
            vec![
                ("spec/accessModes", json!([])),
                ("spec/accessModes", json!(["Maybe"])),
                ("spec/resources", json!({})),
                ("spec/resources", json!({"requests": {"storage": "0"}})),
                ("spec/volumeMode", json!("Maybe")),
            ],
        ),
        (
            "rolebindings",
            json!({"metadata": {"name": "a"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}}),
            vec![
                ("roleRef", json!({})),
                ("roleRef/kind", json!("User")),
                ("subjects", json!([{"kind": "Robot", "name": "x"}])),
                ("subjects", json!([{"kind": "ServiceAccount", "name": "x"}])),
                ("subjects", json!([{"kind": "User"}])),
            ],
        ),
        (
            "roles",
            json!({"metadata": {"name": "a"}, "rules": []}),
            vec![
                ("rules", json!([{}])),
                ("rules", json!([{"verbs": ["get"]}])),
                ("rules", json!([{"verbs": ["get"], "resources": ["pods"]}])),
                ("rules", json!([{"verbs": ["get"], "nonResourceURLs": ["/x"]}])),
            ],
        ),
        (
            "events",
            json!({"metadata": {"name": "a"}, "involvedObject": {"kind": "Pod", "namespace": "$ns", "name": "a"}}),
            vec![
                ("involvedObject/namespace", json!("other")),
                ("type", json!("Odd")),
                ("involvedObject", json!({})),
            ],
        ),
        (
            "customresourcedefinitions",
            gadgets(),
            vec![
                ("metadata/name", json!("other.example.com")),
                ("spec/scope", json!("Galaxy")),
                ("spec/versions", json!([])),
                ("spec/versions/0/storage", json!(false)),
                ("spec/versions/0/name", json!("V")),
                ("spec/versions/0/schema", json!(null)),
                (schema, json!({"type": "object", "properties": {"a": {}}})),
                (
                    schema,
                    json!({"type": "object", "properties": {"spec": {"type": "array"}}}),
                ),
                (
                    schema,
                    json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": [{"rule": "self."}]}}}),
                ),
                (schema, json!({"type": "string"})),
                (
                    schema,
                    json!({"type": "object", "properties": {"spec": {"type": "string", "default": 1}}}),
                ),
                ("spec/group", json!("other.com")),
                ("spec/names/kind", json!("")),
            ],
        ),
    ];
    for (plural, object, changes) in faults {
        for (path, value) in changes {
            lab.post(&format!("{plural}?dryRun=All"), &object.clone().with(path, value))
                .compare()
                .await;
        }
    }
}
