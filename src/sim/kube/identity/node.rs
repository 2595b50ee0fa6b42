//! The Node authorizer: a kubelet may read what the pods on its node need, and write about itself and them.
//!
//! A real server keeps a graph from objects to nodes; here the relation is looked up when somebody asks. What a node
//! may create or change is allowed broadly and narrowed by [`super::node_restriction`], which sees the objects.

use serde_json::Value;

use super::attempt::{Attempt, Decision, On, Resource};
use super::bootstrap::node_rules;
use super::{User, mentions};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::server::State;
use crate::sim::kube::store::ObjectKey;

/// The namespace of the Leases by which nodes show that they live.
pub const LEASE_NAMESPACE: &str = "kube-node-lease";

/// What a kubelet may do. Users who are no kubelets are none of its business.
pub fn decide(state: &State, user: &User, attempt: &Attempt<'_>) -> Decision {
    let Some(node) = user.node_name() else {
        return Decision::no_opinion("");
    };
    if node.is_empty() {
        return Decision::no_opinion(format!("unknown node for user \"{}\"", user.name));
    }
    let On::Resource(resource) = &attempt.on else {
        return by_role(attempt);
    };
    let asked = Asked {
        state,
        node,
        verb: attempt.verb,
        resource,
    };
    match (resource.group, resource.plural) {
        ("", "secrets" | "configmaps") => asked.read_needed(),
        ("", "persistentvolumeclaims") if resource.subresource == "status" => match attempt.verb {
            "update" | "patch" => asked.needed(),
            _ => Decision::no_opinion("can only get/update/patch this type"),
        },
        ("", "persistentvolumeclaims" | "persistentvolumes") | ("storage.k8s.io", "volumeattachments") => {
            asked.get_needed()
        }
        ("", "serviceaccounts") => asked.account(),
        ("coordination.k8s.io", "leases") => asked.lease(),
        ("storage.k8s.io", "csinodes") => asked.csi_node(),
        ("", "nodes") => asked.itself(),
        ("", "pods") => asked.pod(),
        _ => by_role(attempt),
    }
}

/// What all nodes may do alike.
fn by_role(attempt: &Attempt<'_>) -> Decision {
    if node_rules().iter().any(|rule| rule.allows(attempt)) {
        Decision::allowed()
    } else {
        Decision::no_opinion("")
    }
}

/// A question of a kubelet about a resource.
struct Asked<'a> {
    state: &'a State,
    node: &'a str,
    verb: &'a str,
    resource: &'a Resource<'a>,
}

impl Asked<'_> {
    fn get_needed(&self) -> Decision {
        if self.verb != "get" {
            return Decision::no_opinion("can only get individual resources of this type");
        }
        if !self.resource.subresource.is_empty() {
            return Decision::no_opinion("cannot get subresource");
        }
        self.needed()
    }

    fn read_needed(&self) -> Decision {
        if !matches!(self.verb, "get" | "list" | "watch") {
            return Decision::no_opinion("can only read resources of this type");
        }
        if !self.resource.subresource.is_empty() {
            return Decision::no_opinion("cannot read subresource");
        }
        if self.resource.namespace.is_empty() {
            return Decision::no_opinion("can only read namespaced object of this type");
        }
        self.needed()
    }

    fn account(&self) -> Decision {
        if self.verb == "get" && self.resource.subresource.is_empty() {
            return self.read_needed();
        }
        if self.verb != "create" || self.resource.name.is_empty() {
            return Decision::no_opinion("can only create tokens for individual service accounts");
        }
        if self.resource.subresource != "token" {
            return Decision::no_opinion("can only create token subresource of serviceaccount");
        }
        self.needed()
    }

    fn lease(&self) -> Decision {
        if !self.is_verb_on_own_object() {
            return Decision::no_opinion("can only get, create, update, patch, or delete a node lease");
        }
        if self.resource.namespace != LEASE_NAMESPACE {
            let why = format!("can only access leases in the \"{LEASE_NAMESPACE}\" system namespace");
            return Decision::no_opinion(why);
        }
        self.of_same_name("can only access node lease with the same name as the requesting node")
    }

    fn csi_node(&self) -> Decision {
        if !self.is_verb_on_own_object() {
            return Decision::no_opinion("can only get, create, update, patch, or delete a CSINode");
        }
        if !self.resource.subresource.is_empty() {
            return Decision::no_opinion("cannot authorize CSINode subresources");
        }
        self.of_same_name("can only access CSINode with the same name as the requesting node")
    }

    fn is_verb_on_own_object(&self) -> bool {
        matches!(self.verb, "get" | "create" | "update" | "patch" | "delete")
    }

    /// The name of a new object is not known yet; admission looks at it.
    fn of_same_name(&self, otherwise: &str) -> Decision {
        if self.verb == "create" || self.resource.name == self.node {
            Decision::allowed()
        } else {
            Decision::no_opinion(otherwise)
        }
    }

    fn itself(&self) -> Decision {
        let (node, name) = (self.node, self.resource.name);
        match (self.resource.subresource, self.verb) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Decision::allowed(),
            ("", "get" | "list" | "watch") if name == node => Decision::allowed(),
            ("", "get" | "list" | "watch") if name.is_empty() => Decision::no_opinion(format!(
                "node '{node}' cannot read all nodes, only its own Node object"
            )),
            ("", "get" | "list" | "watch") => Decision::no_opinion(format!(
                "node '{node}' cannot read '{name}', only its own Node object"
            )),
            _ => Decision::no_opinion(""),
        }
    }

    fn pod(&self) -> Decision {
        match (self.resource.subresource, self.verb) {
            ("", "get") => self.needed(),
            ("", "list" | "watch") => {
                let on_node = self
                    .resource
                    .fields
                    .and_then(|fields| fields.demanded("spec.nodeName"));
                if on_node == Some(self.node) {
                    Decision::allowed()
                } else if self.resource.name.is_empty() {
                    Decision::no_opinion("can only list/watch pods with spec.nodeName field selector")
                } else {
                    self.needed()
                }
            }
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Decision::allowed()
            }
            _ => Decision::no_opinion(""),
        }
    }

    /// Whether the object has to do with a pod on this node.
    fn needed(&self) -> Decision {
        if self.resource.name.is_empty() {
            return Decision::no_opinion("No Object name found");
        }
        let (namespace, name) = (self.resource.namespace, self.resource.name);
        let is_needed = match self.resource.plural {
            "pods" => self
                .object("pods", namespace, name)
                .is_some_and(|pod| pod["spec"]["nodeName"] == self.node),
            "volumeattachments" => self
                .object("volumeattachments", "", name)
                .is_some_and(|attachment| attachment["spec"]["nodeName"] == self.node),
            "persistentvolumes" => self
                .object("persistentvolumes", "", name)
                .is_some_and(|volume| self.mounts(&volume)),
            "persistentvolumeclaims" => self.claims(namespace, name),
            "serviceaccounts" => self.any_pod(namespace, |pod| pod["spec"]["serviceAccountName"] == name),
            "configmaps" => self.any_pod(namespace, |pod| mentions::config_maps(pod).contains(&name)),
            "secrets" => {
                self.any_pod(namespace, |pod| mentions::secrets(pod).contains(&name))
                    || self.any_volume_needs(namespace, name)
            }
            _ => false,
        };
        if is_needed {
            return Decision::allowed();
        }
        let node = self.node;
        Decision::no_opinion(format!(
            "no relationship found between node '{node}' and this object"
        ))
    }

    fn object(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let group = match plural {
            "volumeattachments" => "storage.k8s.io",
            _ => "",
        };
        let stored = self
            .state
            .store
            .get(&TableKey::of(group, plural), &ObjectKey::new(namespace, name));
        stored.map(|stored| stored.value())
    }

    /// Whether any pod on this node is so; mirror pods give access to nothing.
    fn any_pod(&self, namespace: &str, test: impl Fn(&Value) -> bool) -> bool {
        let pods = self.state.store.list(&TableKey::of("", "pods"), Some(namespace));
        pods.filter(|pod| pod.field("spec.nodeName") == self.node)
            .map(|pod| pod.value())
            .any(|pod| !mentions::is_mirror(&pod) && test(&pod))
    }

    fn claims(&self, namespace: &str, claim: &str) -> bool {
        self.any_pod(namespace, |pod| {
            mentions::claims(pod).iter().any(|mentioned| mentioned == claim)
        })
    }

    fn mounts(&self, volume: &Value) -> bool {
        let claim = &volume["spec"]["claimRef"];
        let (namespace, name) = (claim["namespace"].as_str(), claim["name"].as_str());
        namespace
            .zip(name)
            .is_some_and(|(namespace, name)| self.claims(namespace, name))
    }

    fn any_volume_needs(&self, namespace: &str, secret: &str) -> bool {
        let volumes = self
            .state
            .store
            .list(&TableKey::of("", "persistentvolumes"), None);
        volumes.map(|volume| volume.value()).any(|volume| {
            mentions::volume_secrets(&volume).contains(&(namespace, secret)) && self.mounts(&volume)
        })
    }
}

/// Whether a pod stands on a node.
pub fn is_on(pod: &Value, node: &str) -> bool {
    object::at(pod, "spec.nodeName") == node
}
