//! A fixed user-data document with which a machine joins, until one is rendered for each.
//!
//! `NODE_NAME` in it stands for the name of the node. The instance id, which nobody knows before the machine is made,
//! is what the machine learns from the metadata service at its first boot: the script asks for it and puts it in the
//! place of `INSTANCE_ID` in the kubelet's drop-in.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// What a document is written for.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// `https://…`
    pub server: &'a str,
    /// The certificate of its authority, PEM.
    pub authority: &'a str,
    /// The bootstrap token.
    pub token: &'a str,
    /// The region of the machines.
    pub region: &'a str,
}

/// The document, with `NODE_NAME` for the name of the node.
pub fn user_data(cluster: Cluster<'_>) -> String {
    TEMPLATE
        .replace("SERVER", cluster.server)
        .replace("AUTHORITY", &BASE64_STANDARD.encode(cluster.authority))
        .replace("TOKEN", cluster.token)
        .replace("REGION", cluster.region)
}

const TEMPLATE: &str = r#"#cloud-config
hostname: NODE_NAME
write_files:
- path: /etc/kubernetes/bootstrap-kubelet.conf
  permissions: '0600'
  content: |
    apiVersion: v1
    kind: Config
    current-context: bootstrap
    contexts:
    - name: bootstrap
      context: {cluster: cluster, user: bootstrap}
    clusters:
    - name: cluster
      cluster:
        server: SERVER
        certificate-authority-data: AUTHORITY
    users:
    - name: bootstrap
      user:
        token: TOKEN
- path: /var/lib/kubelet/config.yaml
  content: |
    apiVersion: kubelet.config.k8s.io/v1beta1
    kind: KubeletConfiguration
    clusterDNS: [10.96.0.10]
    clusterDomain: cluster.local
    kubeReserved: {cpu: 100m, memory: 512Mi}
    systemReserved: {cpu: 100m, memory: 256Mi}
    evictionHard: {memory.available: 100Mi, nodefs.available: 10%}
    rotateCertificates: true
    shutdownGracePeriod: 25s
    shutdownGracePeriodCriticalPods: 10s
- path: /etc/systemd/system/kubelet.service.d/20-node.conf
  content: |
    [Service]
    Environment="KUBELET_EXTRA_ARGS=--hostname-override=NODE_NAME --provider-id=ibm:///REGION/INSTANCE_ID"
runcmd:
- |
  IDENTITY=$(curl -sSf -X PUT -H 'Metadata-Flavor: ibm' -d '{}' "https://api.metadata.cloud.ibm.com/instance_identity/v1/token?version=2022-03-29" | jq -r .access_token)
  ID=$(curl -sSf -H "Authorization: Bearer $IDENTITY" "https://api.metadata.cloud.ibm.com/metadata/v1/instance?version=2022-03-29" | jq -r .id)
  sed -i "s|INSTANCE_ID|$ID|" /etc/systemd/system/kubelet.service.d/20-node.conf
- systemctl daemon-reload
- systemctl enable --now kubelet
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::actors::kubelet::cloud_init::parse;

    #[test]
    fn the_document_is_one_that_cloud_init_takes_and_that_names_the_node_twice() {
        let text = user_data(Cluster {
            server: "https://10.0.0.1:6443",
            authority: "pem",
            token: "secret",
            region: "us-south",
        });
        assert_eq!(text.matches("NODE_NAME").count(), 2);
        let read = parse(&text.replace("NODE_NAME", "node-a")).unwrap();
        assert_eq!(read.hostname.as_deref(), Some("node-a"));
        assert_eq!(read.files.len(), 3);
        let kubeconfig = String::from_utf8(read.files[0].content.clone()).unwrap();
        assert!(kubeconfig.contains("token: secret") && kubeconfig.contains("cGVt"));
    }
}
