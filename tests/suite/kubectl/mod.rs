//! The real kubectl against the embedded API server, verb by verb. Each test has a server of its own.

mod access;
mod cluster;
mod nodes;
mod reading;
mod writing;

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
