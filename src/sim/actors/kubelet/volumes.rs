//! Whether the volumes of a pod are at hand: bound, and attached to this node where that is needed.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};
use kube::api::Api;

use crate::sim::kube::identity::keys::sha256_hex;

/// The claims that a pod mounts, by name.
pub fn claims(pod: &Pod) -> Vec<String> {
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| claim(pod_name, volume)).collect()
}

fn claim(pod: &str, volume: &Volume) -> Option<String> {
    if let Some(source) = &volume.persistent_volume_claim {
        return Some(source.claim_name.clone());
    }
    // The claim of an ephemeral volume is called after its pod.
    volume
        .ephemeral
        .as_ref()
        .map(|_| format!("{pod}-{}", volume.name))
}

/// The names under which a node reports the attached volumes of a pod; `None` while one is missing.
pub async fn attached(
    client: &kube::Client,
    node: &str,
    pod: &Pod,
) -> Result<Option<Vec<String>>, kube::Error> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mounted: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let mut names = Vec::new();
    for claim in claims(pod) {
        let claim = mounted.get_opt(&claim).await?;
        let Some(volume) = claim.and_then(|claim| claim.spec?.volume_name) else {
            return Ok(None);
        };
        let Some(source) = volumes.get_opt(&volume).await?.and_then(|volume| volume.spec) else {
            return Ok(None);
        };
        let Some(csi) = source.csi else {
            continue;
        };
        let attachment = attachment_name(&csi.volume_handle, &csi.driver, node);
        if !is_attached(client, &attachment, &csi.driver).await? {
            return Ok(None);
        }
        names.push(format!("kubernetes.io/csi/{}^{}", csi.driver, csi.volume_handle));
    }
    Ok(Some(names))
}

async fn is_attached(client: &kube::Client, attachment: &str, driver: &str) -> Result<bool, kube::Error> {
    let attachments: Api<VolumeAttachment> = Api::all(client.clone());
    // A kubelet may not learn whether an attachment exists that has nothing to do with its node.
    let attachment = match attachments.get_opt(attachment).await {
        Err(kube::Error::Api(status)) if status.code == 403 => None,
        answer => answer?,
    };
    if let Some(attachment) = attachment {
        return Ok(attachment.status.is_some_and(|status| status.attached));
    }
    let drivers: Api<CSIDriver> = Api::all(client.clone());
    let driver = drivers.get_opt(driver).await?;
    Ok(driver.is_some_and(|driver| driver.spec.attach_required == Some(false)))
}

/// The name that the controller manager and the kubelet agree on for the attachment of a volume to a node.
pub fn attachment_name(handle: &str, driver: &str, node: &str) -> String {
    format!("csi-{}", sha256_hex(format!("{handle}{driver}{node}").as_bytes()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_are_named_by_the_pod_or_after_it() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web-0"},
            "spec": {"containers": [], "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "config", "configMap": {"name": "c"}},
            ]},
        }))
        .unwrap();
        assert_eq!(claims(&pod), ["data-web-0", "web-0-scratch"]);
    }

    #[test]
    fn an_attachment_is_called_as_the_controller_manager_calls_it() {
        let name = attachment_name("vol", "drv", "node");
        assert_eq!(name.len(), 4 + 64);
        assert_eq!(name, format!("csi-{}", sha256_hex(b"voldrvnode")));
    }
}
