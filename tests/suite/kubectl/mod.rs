//! The real kubectl against the embedded API server, verb by verb. Each test has a server of its own.

mod cluster;

use cluster::{Cluster, rows};
use serde_json::json;

const WIDGETS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList, shortNames: [wd], categories: [toys]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    additionalPrinterColumns:
    - {name: Size, type: string, jsonPath: .spec.size}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: A thing to play with.
        properties:
          spec:
            type: object
            description: What is wanted.
            properties:
              size: {type: string, enum: [small, large], description: How big it is.}
              replicas: {type: integer, minimum: 0}
          status:
            type: object
            properties:
              replicas: {type: integer}
              conditions: {type: array, items: {type: object, properties: {type: {type: string}, status: {type: string}}}}
"#;

const WIDGET: &str = "
apiVersion: example.com/v1
kind: Widget
metadata: {name: a}
spec: {size: small, replicas: 1}
";

const NODE: &str = "
apiVersion: v1
kind: Node
metadata: {name: node-a, labels: {node-role.kubernetes.io/worker: ''}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: web}}
spec:
  nodeName: node-a
  containers: [{name: c, image: nginx:1, resources: {requests: {cpu: 250m, memory: 64Mi}}}]
";

fn node_status() -> serde_json::Value {
    json!({
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}],
        "nodeInfo": {"kubeletVersion": "v1.35.4", "osImage": "Ubuntu 24.04", "kernelVersion": "6.8.0",
                     "containerRuntimeVersion": "containerd://2.1", "machineID": "", "systemUUID": "", "bootID": "",
                     "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64"},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.4"}],
        "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
        "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
    })
}

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
fn apply_creates_then_changes_then_leaves_alone() {
    let cluster = Cluster::start();
    assert_eq!(
        cluster.apply(WIDGETS),
        "customresourcedefinition.apiextensions.k8s.io/widgets.example.com created\n"
    );
    assert_eq!(cluster.apply(WIDGET), "widget.example.com/a created\n");
    assert_eq!(cluster.apply(WIDGET), "widget.example.com/a unchanged\n");
    assert_eq!(
        cluster.apply(&WIDGET.replace("small", "large")),
        "widget.example.com/a configured\n"
    );
    assert_eq!(cluster.json("get wd a")["spec"]["size"], "large");
    let deployment = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: a, image: 'x:1'}, {name: b, image: 'y:1'}]}
";
    assert_eq!(cluster.apply(deployment), "deployment.apps/web created\n");
    assert_eq!(cluster.apply(deployment), "deployment.apps/web unchanged\n");
    let changed = deployment
        .replace("y:1", "y:2")
        .replace("{name: a, image: 'x:1'}, ", "");
    assert_eq!(cluster.apply(&changed), "deployment.apps/web configured\n");
    let containers = &cluster.json("get deploy web")["spec"]["template"]["spec"]["containers"];
    assert_eq!(
        (containers.as_array().unwrap().len(), &containers[0]["image"]),
        (1, &json!("y:2"))
    );
}

#[test]
fn apply_on_the_server_refuses_to_take_fields_of_others_unless_forced() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    let (small, large) = (
        cluster.manifest(WIDGET),
        cluster.manifest(&WIDGET.replace("small", "large")),
    );
    assert_eq!(
        cluster.kubectl(&format!("apply --server-side --field-manager=one -f {small}")),
        "widget.example.com/a serverside-applied\n"
    );
    let complaint = cluster.refused(&format!("apply --server-side --field-manager=two -f {large}"));
    assert!(
        complaint.contains("conflict with \"one\": .spec.size"),
        "{complaint}"
    );
    cluster.kubectl(&format!(
        "apply --server-side --force-conflicts --field-manager=two -f {large}"
    ));
    assert_eq!(cluster.json("get wd a")["spec"]["size"], "large");
}

#[test]
fn apply_of_what_is_not_valid_says_what_is_wrong_with_it() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    let unknown = cluster.manifest(&WIDGET.replace("size: small", "sizes: small"));
    let complaint = cluster.refused(&format!("apply -f {unknown}"));
    assert!(complaint.contains("unknown field \"spec.sizes\""), "{complaint}");
    let invalid = cluster.manifest(&WIDGET.replace("small", "huge"));
    let complaint = cluster.refused(&format!("apply -f {invalid}"));
    assert!(
        complaint.contains("spec.size: Unsupported value: \"huge\""),
        "{complaint}"
    );
}

#[test]
fn create_sends_what_typed_clients_send_and_the_server_reads_it() {
    let cluster = Cluster::start();
    cluster.kubectl("create namespace n");
    cluster.kubectl("create deployment web --image=nginx:1 --replicas=0 -n n");
    cluster.kubectl("create configmap c --from-literal=k=v -n n");
    cluster.kubectl("create secret generic s --from-literal=k=v -n n");
    cluster.kubectl("create serviceaccount sa -n n");
    cluster.kubectl("create clusterrole r --verb=get --resource=pods");
    cluster.kubectl("create poddisruptionbudget p --selector=app=web --min-available=50% -n n");
    assert_eq!(cluster.json("get deploy web -n n")["spec"]["replicas"], 0);
    assert_eq!(cluster.json("get secret s -n n")["data"]["k"], "dg==");
    assert_eq!(cluster.json("get pdb p -n n")["spec"]["minAvailable"], "50%");
    assert!(cluster.kubectl("create token sa -n n").starts_with("ey"));
    assert!(cluster.refused("create namespace n").contains("AlreadyExists"));
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
fn delete_waits_until_the_object_is_gone() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    cluster.apply(&WIDGET.replace("name: a", "name: a, finalizers: [example.com/hold]"));
    cluster.apply(&WIDGET.replace("name: a", "name: b, labels: {x: z}"));
    assert_eq!(
        cluster.kubectl("delete wd -l x=z"),
        "widget.example.com \"b\" deleted\n"
    );
    let deletion = cluster.begin("delete wd a");
    cluster.kubectl("wait --for=jsonpath={.metadata.deletionTimestamp} wd a --timeout=10s");
    cluster.kubectl("patch wd a --type=json -p '[{\"op\": \"remove\", \"path\": \"/metadata/finalizers\"}]'");
    assert!(deletion.succeeds());
    assert_eq!(cluster.kubectl("get wd -o name"), "");
    cluster.kubectl("create ns n");
    cluster.kubectl("create cm c -n n");
    cluster.kubectl("delete ns n");
    assert!(cluster.refused("get ns n").contains("not found"));
    assert!(cluster.refused("delete wd a").contains("NotFound"));
    assert_eq!(cluster.kubectl("delete wd a --ignore-not-found"), "");
}

#[test]
fn scale_changes_the_replicas_of_built_in_and_custom_kinds() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    cluster.apply(WIDGET);
    cluster.kubectl("create deployment web --image=nginx:1");
    assert_eq!(
        cluster.kubectl("scale deploy web --replicas=3"),
        "deployment.apps/web scaled\n"
    );
    assert_eq!(cluster.json("get deploy web")["spec"]["replicas"], 3);
    cluster.kubectl("scale wd a --replicas=5 --current-replicas=1");
    assert_eq!(cluster.json("get wd a")["spec"]["replicas"], 5);
    assert!(
        cluster
            .refused("scale wd a --replicas=6 --current-replicas=1")
            .contains("Expected replicas to be 1")
    );
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
fn cordon_and_uncordon_mark_a_node_and_taint_paints_it() {
    let cluster = Cluster::start();
    cluster.apply(NODE);
    assert_eq!(cluster.kubectl("cordon node-a"), "node/node-a cordoned\n");
    assert_eq!(cluster.kubectl("cordon node-a"), "node/node-a already cordoned\n");
    assert!(rows(&cluster.kubectl("get node node-a"))[1].contains("SchedulingDisabled"));
    assert_eq!(cluster.kubectl("uncordon node-a"), "node/node-a uncordoned\n");
    cluster.kubectl("taint node node-a dedicated=gpu:NoExecute");
    let taints = cluster.json("get node node-a")["spec"]["taints"].to_string();
    assert!(taints.contains("dedicated"), "{taints}");
}

#[test]
fn drain_evicts_the_pods_of_a_node_and_honors_budgets() {
    let cluster = Cluster::start();
    cluster.apply(NODE);
    cluster.apply(
        "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
",
    );
    cluster.set_status(
        "pod p",
        &json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
    );
    let budget = |allowed: u32| {
        json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1,
               "expectedPods": 1})
    };
    cluster.set_status("pdb web", &budget(0));
    let complaint = cluster.refused("drain node-a --force --grace-period=0 --timeout=2s");
    assert!(
        complaint.contains("Cannot evict pod as it would violate the pod's disruption budget"),
        "{complaint}"
    );
    cluster.set_status("pdb web", &budget(1));
    let printed = cluster.kubectl("drain node-a --force --grace-period=0 --timeout=30s");
    assert!(printed.ends_with("node/node-a drained\n"), "{printed}");
    assert_eq!(cluster.kubectl("get pods -o name"), "");
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
fn label_and_annotate_add_change_and_remove() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    cluster.apply(WIDGET);
    cluster.apply(NODE);
    for (object, name) in [("wd a", "widget.example.com/a"), ("node node-a", "node/node-a")] {
        assert_eq!(
            cluster.kubectl(&format!("label {object} x=1")),
            format!("{name} labeled\n")
        );
        assert!(
            cluster
                .refused(&format!("label {object} x=2"))
                .contains("already has a value (1)")
        );
        cluster.kubectl(&format!("label {object} x=2 --overwrite"));
        assert_eq!(
            cluster.kubectl(&format!("annotate {object} note=seen")),
            format!("{name} annotated\n")
        );
        let metadata = &cluster.json(&format!("get {object}"))["metadata"];
        assert_eq!(
            (&metadata["labels"]["x"], &metadata["annotations"]["note"]),
            (&json!("2"), &json!("seen"))
        );
        cluster.kubectl(&format!("label {object} x-"));
        assert_eq!(
            cluster.json(&format!("get {object}"))["metadata"]["labels"]["x"],
            json!(null)
        );
    }
    assert!(
        cluster
            .refused("label node node-a x=no/slash")
            .contains("a valid label must be")
    );
}

#[test]
fn auth_can_i_answers_by_the_roles_that_there_are() {
    let cluster = Cluster::start();
    assert_eq!(cluster.kubectl("auth can-i delete nodes"), "yes\n");
    assert!(cluster.kubectl("auth whoami").contains("kubernetes-admin"));
    cluster.kubectl("create serviceaccount reader");
    cluster.kubectl("create role read --verb=get,list --resource=pods");
    cluster.kubectl("create rolebinding read --role=read --serviceaccount=default:reader");
    let somebody = "--as=system:serviceaccount:default:reader";
    assert_eq!(
        cluster.kubectl(&format!("auth can-i list pods {somebody}")),
        "yes\n"
    );
    let (answer, _, success) = cluster.run(&format!("auth can-i delete pods {somebody}"));
    assert_eq!((answer.as_str(), success), ("no\n", false));
    let complaint = cluster.refused(&format!("delete pod p {somebody}"));
    assert!(
        complaint.contains("cannot delete resource \"pods\" in API group \"\" in the namespace \"default\""),
        "{complaint}"
    );
    assert!(
        cluster
            .kubectl(&format!("auth can-i --list {somebody}"))
            .contains("[get list]")
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
    assert!(
        cluster
            .refused("explain wd.spec.color")
            .contains("field \"color\" does not exist")
    );
}

#[test]
fn replace_set_edit_and_diff_work_on_what_get_gives() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    cluster.apply(WIDGET);
    let shown = cluster.kubectl("get wd a -o yaml");
    let changed = cluster.manifest(&shown.replace("size: small", "size: large"));
    let (difference, _, same) = cluster.run(&format!("diff -f {changed}"));
    assert!(!same && difference.contains("+  size: large"), "{difference}");
    assert_eq!(cluster.json("get wd a")["spec"]["size"], "small");
    assert_eq!(
        cluster.kubectl(&format!("replace -f {changed}")),
        "widget.example.com/a replaced\n"
    );
    assert!(
        cluster
            .refused(&format!("replace -f {changed}"))
            .contains("the object has been modified")
    );
    cluster.kubectl("create deployment web --image=nginx:1");
    assert_eq!(
        cluster.kubectl("set image deploy web nginx=nginx:2"),
        "deployment.apps/web image updated\n"
    );
    assert_eq!(cluster.kubectl("get deploy web -o jsonpath={..image}"), "nginx:2");
    assert_eq!(
        cluster.kubectl("create cm c --dry-run=server -o name"),
        "configmap/c\n"
    );
    assert!(cluster.refused("get cm c").contains("not found"));
}

#[test]
fn what_a_webhook_says_reaches_the_terminal() {
    use axum::Json;
    use axum::routing::post;
    use serde_json::Value;
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    let answer = |Json(review): Json<Value>| async move {
        let large = review["request"]["object"]["spec"]["size"] == "large";
        let response = json!({"uid": review["request"]["uid"], "allowed": !large, "warnings": ["small is out of fashion"],
                              "status": {"code": 403, "message": "too large"}});
        Json(json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}))
    };
    cluster
        .server
        .webhooks()
        .serve_service("default", "judge", axum::Router::new().route("/", post(answer)));
    cluster.apply(
        "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: judge}
webhooks:
- name: judge.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {namespace: default, name: judge}}
  rules: [{apiGroups: [example.com], apiVersions: ['*'], resources: [widgets], operations: [CREATE]}]
",
    );
    let (small, large) = (
        cluster.manifest(WIDGET),
        cluster.manifest(&WIDGET.replace("small", "large")),
    );
    let complaint = cluster.refused(&format!("create -f {large}"));
    assert!(
        complaint.contains("admission webhook \"judge.example.com\" denied the request: too large"),
        "{complaint}"
    );
    let (_, said, success) = cluster.run(&format!("create -f {small}"));
    assert!(
        success && said.contains("Warning: small is out of fashion"),
        "{said}"
    );
}
