//! The definition of NodeClaims, upgraded and downgraded under a running operator.
//!
//! An older definition prunes `status.allocation` from every write; a newer one fills in a field that nobody here knows.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::KubeKind;

const NAME: &str = "nodeclaims.karpenter.sh";

/// The definition as it was before anybody changed it, and how it is now.
pub async fn current(client: &kube::Client) -> Option<Value> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = definitions.get(NAME).await.ok()?;
    serde_json::to_value(definition).ok()
}

/// What a fault makes of the definition.
pub fn changed(kind: KubeKind, original: &Value) -> Option<Value> {
    let mut definition = original.clone();
    let versions = definition.pointer_mut("/spec/versions")?.as_array_mut()?;
    for version in versions {
        let status = version.pointer_mut("/schema/openAPIV3Schema/properties/status/properties")?;
        let status = status.as_object_mut()?;
        match kind {
            KubeKind::OldDefinition => {
                status.remove("allocation");
            }
            KubeKind::NewDefinition => {
                let field = json!({"type": "string", "default": "unknown to this release"});
                status.insert("futureVerdict".to_owned(), field);
            }
            _ => return None,
        }
    }
    Some(definition)
}

/// Puts a definition in place of the one that is there, whatever its version is by now.
pub async fn put(client: &kube::Client, mut definition: Value) -> Result<(), kube::Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let now = definitions.get(NAME).await?;
    definition["metadata"]["resourceVersion"] = json!(now.metadata.resource_version);
    let definition = serde_json::from_value(definition).map_err(kube::Error::SerdeError)?;
    definitions
        .replace(NAME, &PostParams::default(), &definition)
        .await
        .map(drop)
}
