//! What a create is refused for, and that a refused one changes nothing.

use http::StatusCode;
use karpenter_ibm::sim::ibm::{Class, ImageStatus, Options};
use serde_json::{Value, json};

use super::{Api, api, options};

/// Asserts that a legal prototype, changed by each of these merge patches, is refused with that code for that field,
/// and that nothing is left behind.
async fn assert_refused(refusals: &[(&str, &str, Value)]) {
    let api = api().await;
    for (code, target, change) in refusals {
        let mut prototype = api.prototype("refused");
        json_patch::merge(&mut prototype, change);
        let said = api.post("/v1/instances", prototype).await;
        assert!(said.status.is_client_error(), "{code}: {}", said.body);
        assert_eq!((said.code(), said.target()), (*code, *target), "{}", said.body);
    }
    assert!(api.cloud.instances().is_empty() && api.cloud.orphans().is_empty());
    assert_eq!(
        api.cloud.free_addresses(&api.cloud.account().subnets[0]),
        Some(251)
    );
}

#[tokio::test(start_paused = true)]
async fn a_malformed_prototype_is_refused_for_the_field_that_is_wrong() {
    let two_networks = json!({ "primary_network_interface": { "subnet": { "id": "x" } } });
    assert_refused(&[
        ("validation_required_field", "image", json!({ "image": null })),
        ("validation_required_field", "zone", json!({ "zone": null })),
        (
            "validation_only_one",
            "primary_network_attachment",
            json!({ "primary_network_attachment": null }),
        ),
        ("validation_only_one", "primary_network_attachment", two_networks),
        (
            "validation_only_one",
            "image",
            json!({ "image": { "crn": "a:b" } }),
        ),
        (
            "invalid_request_field",
            "user_tags",
            json!({ "user_tags": ["a:b"] }),
        ),
        (
            "invalid_request_field",
            "vcpu.cores",
            json!({ "vcpu": { "cores": 4 } }),
        ),
        (
            "validation_invalid_field_type",
            "profile",
            json!({ "profile": "bxf-2x8" }),
        ),
        ("validation_invalid_name", "name", json!({ "name": "Upper" })),
        (
            "validation_enum",
            "availability.class",
            json!({ "availability": { "class": "gold" } }),
        ),
        (
            "validation_enum",
            "availability_policy.preemption",
            json!({ "availability_policy": { "preemption": "x" } }),
        ),
        (
            "bad_field",
            "user_data",
            json!({ "user_data": "x".repeat(65 * 1024) }),
        ),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_exist_or_does_not_fit_is_refused() {
    let another = json!([{ "virtual_network_interface": { "subnet": { "id": "x" } } }]);
    assert_refused(&[
        (
            "not_found",
            "profile",
            json!({ "profile": { "name": "bxf-3x7" } }),
        ),
        (
            "bad_field",
            "profile",
            json!({ "profile": { "name": "gx3d-160x1792x8gaudi3" } }),
        ),
        ("invalid_zone", "zone", json!({ "zone": { "name": "eu-de-1" } })),
        (
            "zone_inconsistency",
            "zone",
            json!({ "zone": { "name": "us-south-2" } }),
        ),
        ("not_found", "image", json!({ "image": { "id": "r006-none" } })),
        ("not_found", "vpc", json!({ "vpc": { "id": "r006-none" } })),
        ("not_found", "keys", json!({ "keys": [{ "id": "r006-none" }] })),
        (
            "not_found",
            "resource_group",
            json!({ "resource_group": { "id": "none" } }),
        ),
        (
            "bad_field",
            "network_attachments",
            json!({ "network_attachments": another }),
        ),
        (
            "bad_field",
            "vcpu.percentage",
            json!({ "vcpu": { "percentage": 33 } }),
        ),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn spot_excludes_other_profiles_reservations_and_bursts() {
    let spot = |more: Value| {
        let mut change = json!({ "availability": { "class": "spot" } });
        json_patch::merge(&mut change, &more);
        change
    };
    let automatic = json!({ "reservation_affinity": { "policy": "automatic" } });
    assert_refused(&[
        (
            "bad_field",
            "availability.class",
            spot(json!({ "profile": { "name": "bx2-2x8" } })),
        ),
        ("bad_field", "reservation_affinity.policy", spot(automatic)),
        (
            "bad_field",
            "vcpu.percentage",
            spot(json!({ "vcpu": { "percentage": 50 } })),
        ),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn volumes_must_fit_their_profile_and_their_image() {
    let boot = |volume: Value| json!({ "boot_volume_attachment": { "volume": volume } });
    let tier = json!({ "name": "5iops-tier" });
    let floppy = json!([{ "volume": { "capacity": 10, "profile": { "name": "floppy" } } }]);
    let capacity = "boot_volume_attachment.volume.capacity";
    assert_refused(&[
        (
            "volume_capacity_too_large",
            capacity,
            boot(json!({ "capacity": 251, "profile": tier })),
        ),
        (
            "volume_capacity_too_small",
            capacity,
            boot(json!({ "capacity": 9, "profile": { "name": "sdp" } })),
        ),
        (
            "validation_required_field",
            "boot_volume_attachment.volume.profile",
            boot(json!({ "capacity": 100 })),
        ),
        (
            "bad_field",
            "boot_volume_attachment.volume.iops",
            boot(json!({ "iops": 3000, "profile": tier })),
        ),
        (
            "volume_profile_not_found",
            "volume_attachments[0].volume.profile",
            json!({ "volume_attachments": floppy }),
        ),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_full_prototype_of_the_official_sdk_is_accepted() {
    let api = api().await;
    let account = api.cloud.account();
    let said = api
        .post(
            "/v1/instances",
            json!({
                "name": "karp-a1", "profile": { "name": "bxf-4x16" }, "image": { "id": account.image },
                "zone": { "name": "us-south-1" }, "vpc": { "id": account.vpc },
                "resource_group": { "id": account.resource_group }, "keys": [{ "id": account.key }],
                "user_data": "#cloud-config\n", "availability": { "class": "spot" },
                "availability_policy": { "host_failure": "restart", "preemption": "stop" },
                "reservation_affinity": { "policy": "disabled", "pool": [] },
                "metadata_service": { "enabled": true, "protocol": "https", "response_hop_limit": 2 },
                "default_trusted_profile": { "auto_link": true, "target": { "id": "Profile-9fd8" } },
                "boot_volume_attachment": {
                    "delete_volume_on_instance_delete": true, "name": "boot",
                    "volume": { "capacity": 100, "name": "karp-a1-boot", "profile": { "name": "general-purpose" },
                                "user_tags": ["karpenter"] } },
                "volume_attachments": [{ "delete_volume_on_instance_delete": true,
                    "volume": { "capacity": 200, "profile": { "name": "sdp" }, "iops": 3000 } }],
                "primary_network_attachment": { "name": "eth0", "virtual_network_interface": {
                    "auto_delete": true, "allow_ip_spoofing": false, "enable_infrastructure_nat": true,
                    "protocol_state_filtering_mode": "auto", "subnet": { "id": account.subnets[0] },
                    "security_groups": [{ "id": account.security_group }] } },
            }),
        )
        .await;
    assert_eq!(said.status, StatusCode::CREATED, "{}", said.body);
    assert_eq!(said.body["metadata_service"]["protocol"], "https");
    assert_eq!(said.body.get("user_data"), None);
    let id = said.body["id"].as_str().unwrap();
    let initialization = api.get(&format!("/v1/instances/{id}/initialization")).await.body;
    assert_eq!(initialization["keys"][0]["id"], account.key.as_str());
    assert_eq!(
        initialization["default_trusted_profile"]["target"]["id"],
        "Profile-9fd8"
    );
    assert_eq!(
        api.cloud.instance("karp-a1").unwrap().user_data.as_deref(),
        Some("#cloud-config\n")
    );
    let tagged = api.get("/v1/volumes?tag=karpenter").await.body;
    assert_eq!(tagged["volumes"][0]["name"], "karp-a1-boot");
}

#[tokio::test(start_paused = true)]
async fn the_older_network_interfaces_are_accepted_too() {
    let api = api().await;
    for name in ["a", "b"] {
        let mut prototype = api.prototype(name);
        let subnet = prototype["primary_network_attachment"]["virtual_network_interface"]["subnet"].clone();
        prototype
            .as_object_mut()
            .unwrap()
            .remove("primary_network_attachment");
        prototype["primary_network_interface"] = json!({ "name": "eth0", "subnet": subnet });
        let id = api.create_running(prototype).await;
        let body = api.get(&format!("/v1/instances/{id}")).await.body;
        assert_eq!(body.get("primary_network_attachment"), None);
        assert_ne!(
            body["primary_network_interface"]["primary_ip"]["address"],
            "0.0.0.0"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_spot_instance_must_not_sit_on_a_dedicated_host() {
    let api = api().await;
    let account = api.cloud.account();
    let mut prototype = api.spot("a");
    prototype["placement_target"] = json!({ "id": account.dedicated_host });
    assert_eq!(
        api.post("/v1/instances", prototype.clone()).await.target(),
        "placement_target"
    );
    prototype["placement_target"] = json!({ "id": account.placement_group });
    assert_eq!(
        api.post("/v1/instances", prototype).await.status,
        StatusCode::CREATED
    );
}

#[tokio::test(start_paused = true)]
async fn images_boot_while_deprecated_and_not_when_obsolete_or_gone() {
    let api = api().await;
    for (status, answer) in [
        (ImageStatus::Deprecated, StatusCode::CREATED),
        (ImageStatus::Obsolete, StatusCode::BAD_REQUEST),
    ] {
        let mut prototype = api.prototype(if status == ImageStatus::Obsolete { "a" } else { "b" });
        prototype["image"] = json!({ "id": api.cloud.add_image("own", status) });
        assert_eq!(api.post("/v1/instances", prototype).await.status, answer);
    }
    api.cloud.remove_image(&api.cloud.account().image).unwrap();
    assert_eq!(
        api.post("/v1/instances", api.prototype("c")).await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_is_taken_until_its_instance_is_gone() {
    let api = api().await;
    let id = api.create_running(api.prototype("twin")).await;
    let taken = api.post("/v1/instances", api.prototype("twin")).await;
    assert_eq!(
        (taken.status, taken.code()),
        (StatusCode::BAD_REQUEST, "validation_unique_failed")
    );
    assert_eq!(taken.body["errors"][0]["target"]["value"], "twin");
    api.delete(&format!("/v1/instances/{id}")).await;
    assert_eq!(
        api.post("/v1/instances", api.prototype("twin")).await.code(),
        "validation_unique_failed"
    );
    api.wait_until_gone(&id).await;
    assert_eq!(
        api.post("/v1/instances", api.prototype("twin")).await.status,
        StatusCode::CREATED
    );
}

#[tokio::test(start_paused = true)]
async fn names_of_volumes_and_interfaces_are_unique_too() {
    let api = api().await;
    let named = |name: &str, volume: &str, interface: &str| {
        let mut prototype = api.prototype(name);
        prototype["boot_volume_attachment"] =
            json!({ "volume": { "name": volume, "profile": { "name": "sdp" } } });
        prototype["primary_network_attachment"]["virtual_network_interface"]["name"] = json!(interface);
        prototype
    };
    api.create(named("a", "v1", "n1")).await;
    for twin in [named("b", "v1", "n2"), named("b", "v2", "n1")] {
        assert_eq!(
            api.post("/v1/instances", twin).await.code(),
            "validation_unique_failed"
        );
    }
    let reserved = api.post("/v1/instances", named("b", "v2", "ibm-n2")).await;
    assert_eq!(reserved.code(), "validation_invalid_name");
}

async fn fill(api: &Api, prototype: impl Fn(&str) -> Value, count: u32) {
    for number in 0..count {
        api.create(prototype(&format!("i{number}"))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_vcpu_quota_counts_standard_instances_and_also_stopped_ones() {
    let api = Api::to(Options {
        subnet_prefix: 20,
        ..options(1)
    })
    .await;
    fill(&api, |name| api.prototype(name), 100).await;
    let refused = api.post("/v1/instances", api.prototype("more")).await;
    assert_eq!(
        (refused.status, refused.code()),
        (StatusCode::BAD_REQUEST, "over_quota")
    );
    assert_eq!(
        api.post("/v1/instances", api.spot("spot")).await.status,
        StatusCode::CREATED
    );
    api.wait_for(&api.cloud.instance("i0").unwrap().id, "running")
        .await;
    let first = format!("/v1/instances/{}", api.cloud.instance("i0").unwrap().id);
    api.post(&format!("{first}/actions"), json!({ "type": "stop" }))
        .await;
    api.pass(120).await;
    assert_eq!(api.cloud.instance("i0").unwrap().status, "stopped");
    assert_eq!(
        api.post("/v1/instances", api.prototype("more")).await.code(),
        "over_quota"
    );
    api.delete(&first).await;
    api.pass(120).await;
    assert_eq!(
        api.post("/v1/instances", api.prototype("more")).await.status,
        StatusCode::CREATED
    );
}

#[tokio::test(start_paused = true)]
async fn the_spot_quota_counts_spot_instances_alone() {
    let api = Api::to(Options {
        subnet_prefix: 20,
        ..options(1)
    })
    .await;
    fill(&api, |name| api.spot(name), 100).await;
    assert_eq!(
        api.post("/v1/instances", api.spot("more")).await.code(),
        "over_quota"
    );
    assert_eq!(
        api.post("/v1/instances", api.prototype("standard")).await.status,
        StatusCode::CREATED
    );
}

#[tokio::test(start_paused = true)]
async fn gpus_and_volumes_have_quotas_of_their_own() {
    let mut options = options(1);
    options.quotas.volumes = 3;
    (options.quotas.vcpu, options.quotas.gpu) = (10_000, 3);
    let api = Api::to(options).await;
    let mut gpu = api.prototype("gpu");
    gpu["profile"] = json!({ "name": "gx3-64x320x4l4" });
    assert_eq!(api.post("/v1/instances", gpu).await.code(), "over_quota");
    let mut volumes = api.prototype("volumes");
    let volume = json!({ "volume": { "capacity": 10, "profile": { "name": "sdp" } } });
    volumes["volume_attachments"] = json!([volume, volume, volume]);
    assert_eq!(
        api.post("/v1/instances", volumes).await.code(),
        "volume_quota_reached"
    );
}

#[tokio::test(start_paused = true)]
async fn a_subnet_runs_out_and_gets_addresses_back_only_when_the_interface_is_gone() {
    let api = Api::to(Options {
        subnet_prefix: 29,
        ..options(1)
    })
    .await;
    let subnet = api.cloud.account().subnets[0].clone();
    let free =
        async || api.get(&format!("/v1/subnets/{subnet}")).await.body["available_ipv4_address_count"].clone();
    let mut keeps = api.prototype("keeps");
    keeps["primary_network_attachment"]["virtual_network_interface"]["auto_delete"] = json!(false);
    let first = api.create(keeps).await;
    api.create(api.prototype("b")).await;
    let third = api.create(api.prototype("c")).await;
    assert_eq!(free().await, 0);
    let refused = api.post("/v1/instances", api.prototype("d")).await;
    assert_eq!(
        (refused.status, refused.code()),
        (StatusCode::BAD_REQUEST, "subnet_out_of_ip_addresses")
    );

    api.delete(&format!("/v1/instances/{third}")).await;
    assert_eq!(
        free().await,
        0,
        "an instance that is being deleted holds its address"
    );
    api.wait_until_gone(&third).await;
    assert_eq!(free().await, 1);

    api.delete(&format!("/v1/instances/{first}")).await;
    api.wait_until_gone(&first).await;
    assert_eq!(free().await, 1, "the interface stays, and its address with it");
    let orphan = api.cloud.orphans();
    let said = api
        .delete(&format!("/v1/virtual_network_interfaces/{}", orphan[0]))
        .await;
    assert_eq!(
        (said.status, said.body["lifecycle_state"].as_str()),
        (StatusCode::ACCEPTED, Some("deleting"))
    );
    assert_eq!(free().await, 1);
    api.pass(5).await;
    assert_eq!(free().await, 2);
}

#[tokio::test(start_paused = true)]
async fn an_interface_can_be_made_first_and_used_once() {
    let api = api().await;
    let account = api.cloud.account();
    let made = api
        .post(
            "/v1/virtual_network_interfaces",
            json!({ "name": "nic", "subnet": { "id": account.subnets[0] } }),
        )
        .await;
    assert_eq!(made.status, StatusCode::CREATED);
    assert_eq!(made.body.get("target"), None);
    let with = |name: &str| {
        let mut prototype = api.prototype(name);
        prototype["primary_network_attachment"]["virtual_network_interface"] =
            json!({ "id": made.body["id"] });
        prototype
    };
    let id = api.create_running(with("a")).await;
    let body = api.get(&format!("/v1/instances/{id}")).await.body;
    assert_eq!(
        body["primary_network_attachment"]["primary_ip"]["address"],
        made.body["primary_ip"]["address"]
    );
    assert_eq!(
        body["primary_network_interface"]["id"],
        body["primary_network_attachment"]["id"]
    );
    assert_eq!(
        api.post("/v1/instances", with("b")).await.status,
        StatusCode::CONFLICT
    );
    let interface = made.body["id"].as_str().unwrap();
    assert_eq!(
        api.delete(&format!("/v1/virtual_network_interfaces/{interface}"))
            .await
            .code(),
        "target_in_use"
    );
}

#[tokio::test(start_paused = true)]
async fn stock_is_finite_per_profile_zone_and_class() {
    let api = api().await;
    api.cloud
        .set_stock("bxf-2x8", "us-south-1", Class::Standard, 1)
        .unwrap();
    let first = api.create_running(api.prototype("a")).await;
    let second = api.create(api.prototype("b")).await;
    let third = api.create_running(api.spot("c")).await;
    api.pass(60).await;
    let short = api.cloud.instance("b").unwrap();
    assert_eq!(short.reason.as_deref(), Some("cannot_start_capacity"));
    assert_ne!(first, third);
    api.delete(&format!("/v1/instances/{first}")).await;
    api.wait_until_gone(&first).await;
    if short.status == "stopped" {
        api.post(
            &format!("/v1/instances/{second}/actions"),
            json!({ "type": "start" }),
        )
        .await;
        api.wait_for(&second, "running").await;
    }
}
