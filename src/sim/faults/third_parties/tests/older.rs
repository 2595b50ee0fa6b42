use super::*;
use crate::api::names::{NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION};

#[tokio::test(start_paused = true)]
async fn a_claim_with_an_allocation_is_stored_as_it_was_once() {
    let town = Town::new().await;
    town.claim("a").await;
    assert_eq!(
        town.meddle(MeddlingKind::OldVersion).await,
        [""; 0],
        "nothing was bought for it"
    );
    let stamps = json!({"metadata": {"annotations": {NODE_CLASS_HASH: "7", NODE_CLASS_HASH_VERSION: "v1"}}});
    let allocation = json!({"status": {"allocation": {
        "profile": "bxf-2x8", "zone": "us-south-1", "capacityType": "spot", "attempt": 1, "price": "0.1",
        "subnet": "0717-b28a5d3c-6d1c-4a1e-9d7c-0a1b2c3d4e5f", "instanceName": "kib-1", "since": "2026-11-16T10:00:00Z",
    }}});
    let (claims, params) = (town.claims(), PatchParams::default());
    claims.patch("a", &params, &Patch::Merge(stamps)).await.unwrap();
    let before = claims
        .patch_status("a", &params, &Patch::Merge(allocation))
        .await
        .unwrap();
    let told = town.meddle(MeddlingKind::OldVersion).await;
    assert_eq!(told, ["k16-old-version the stored form of a"]);
    let after = claims.get("a").await.unwrap();
    assert_ne!(after.metadata.resource_version, before.metadata.resource_version);
    assert_eq!(after.annotations()[NODE_CLASS_HASH_VERSION], "v0");
    assert_eq!(after.metadata.managed_fields, None);
    let bought = |claim: &NodeClaim| claim.status.clone().unwrap().allocation.unwrap();
    assert_eq!(bought(&after).price, None);
    assert_eq!(bought(&after).instance_name, bought(&before).instance_name);
    assert_eq!(after.spec, before.spec);
}
