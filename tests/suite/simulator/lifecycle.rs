//! What becomes of an instance, under a clock that stands still unless it is moved.

use http::StatusCode;
use karpenter_ibm::sim::ibm::{Class, HostFailure};
use serde_json::json;

use super::{api, options};

#[tokio::test(start_paused = true)]
async fn a_new_instance_is_pending_without_address_and_without_volume() {
    let api = api().await;
    let said = api.post("/v1/instances", api.prototype("a")).await;
    assert_eq!(said.status, StatusCode::CREATED);
    assert_eq!(said.body["status"], "pending");
    assert_eq!(said.body["lifecycle_state"], "pending");
    assert_eq!(
        said.body["primary_network_attachment"]["primary_ip"]["address"],
        "0.0.0.0"
    );
    assert_eq!(said.body["boot_volume_attachment"].get("volume"), None);
    assert_eq!(said.body["vcpu"]["manufacturer"], "unassigned");
}
