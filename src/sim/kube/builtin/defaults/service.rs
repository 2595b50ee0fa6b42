//! Services and the slices of their endpoints. Addresses and node ports are given out by admission.

use serde_json::{Value, json};

use super::{each_mut, fill, inside, is_set, text};

/// Three hours, as kube-proxy remembers clients by default.
const AFFINITY_SECONDS: i64 = 10_800;

pub(super) fn service(object: &mut Value) {
    let Some(spec) = inside(object, &["spec"]) else {
        return;
    };
    fill(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "ClientIP" {
        if !is_set(&spec["sessionAffinityConfig"]["clientIP"], "timeoutSeconds") {
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
        }
    } else if spec["sessionAffinity"] == "None"
        && let Some(fields) = spec.as_object_mut()
    {
        fields.remove("sessionAffinityConfig");
    }
    fill(spec, "type", "ClusterIP");
    for port in each_mut(spec, "ports") {
        fill(port, "protocol", "TCP");
        if port["targetPort"] == 0 || !is_set(port, "targetPort") {
            port["targetPort"] = port["port"].clone();
        }
    }
    let outside = matches!(text(spec, "type"), "NodePort" | "LoadBalancer");
    let has_external = spec["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty());
    if outside || (has_external && spec["type"] == "ClusterIP") {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    if outside || spec["type"] == "ClusterIP" {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if spec["type"] == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
        if let Some(balancer) = inside(object, &["status", "loadBalancer"]) {
            for ingress in each_mut(balancer, "ingress").filter(|ingress| is_set(ingress, "ip")) {
                fill(ingress, "ipMode", "VIP");
            }
        }
    }
}

pub(super) fn endpoints(object: &mut Value) {
    for port in each_mut(object, "subsets").flat_map(|subset| each_mut(subset, "ports")) {
        fill(port, "protocol", "TCP");
    }
}

pub(super) fn endpoint_slice(object: &mut Value) {
    for port in each_mut(object, "ports") {
        if port.get("name").is_none_or(Value::is_null) {
            port["name"] = "".into();
        }
        fill(port, "protocol", "TCP");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_port_is_the_port_unless_it_is_named() {
        let mut object =
            json!({"spec": {"ports": [{"port": 80, "targetPort": 0}, {"port": 81, "targetPort": "web"}]}});
        service(&mut object);
        assert_eq!(object["spec"]["ports"][0]["targetPort"], 80);
        assert_eq!(object["spec"]["ports"][1]["targetPort"], "web");
        assert_eq!(object["spec"]["internalTrafficPolicy"], "Cluster");
        assert!(object["spec"].get("externalTrafficPolicy").is_none());
    }
}
