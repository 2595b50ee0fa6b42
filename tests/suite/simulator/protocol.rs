//! What holds for every request: tokens, versions, pages, errors, revisions.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use serde_json::{Value, json};

use super::{Api, api, options};

#[tokio::test(start_paused = true)]
async fn version_and_generation_are_required_and_checked() {
    let api = api().await;
    for (query, code) in [
        ("", "missing_version"),
        ("?generation=2", "missing_version"),
        ("?version=yesterday&generation=2", "invalid_version"),
        ("?version=2026-11-17&generation=2", "invalid_version_range"),
        ("?version=2018-12-31&generation=2", "invalid_version_range"),
        ("?version=2026-10-06", "missing_generation_parameter"),
        ("?version=2026-10-06&generation=1", "invalid_generation_parameter"),
    ] {
        let request = Request::get(format!("http://x/v1/instances{query}"))
            .header("authorization", format!("Bearer {}", api.token))
            .body(Bytes::new());
        let said = api.send(request.unwrap()).await.unwrap();
        assert_eq!(
            (said.status, said.code()),
            (StatusCode::BAD_REQUEST, code),
            "{query}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_has_ibms_shape_and_the_callers_request_id() {
    let api = api().await;
    let mut request = api.request("GET", "/v1/instances/0717_none", None);
    request
        .headers_mut()
        .insert("x-request-id", "trace-me".parse().unwrap());
    let said = api.send(request).await.unwrap();
    assert_eq!(said.status, StatusCode::NOT_FOUND);
    assert_eq!(said.code(), "not_found");
    assert_eq!(said.body["trace"], "trace-me");
    assert_eq!(said.headers["x-request-id"], "trace-me");
    assert!(
        said.body["errors"][0]["more_info"]
            .as_str()
            .unwrap()
            .starts_with("https://cloud.ibm.com/")
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_needs_a_living_token() {
    let mut api = api().await;
    api.token = "made.up.token".into();
    let said = api.get("/v1/instances").await;
    assert_eq!(
        (said.status, said.code()),
        (StatusCode::UNAUTHORIZED, "token_invalid")
    );
    api.log_in().await;
    assert_eq!(api.get("/v1/instances").await.status, StatusCode::OK);
    api.pass(3599).await;
    assert_eq!(api.get("/v1/instances").await.status, StatusCode::OK);
    api.pass(1).await;
    assert_eq!(api.get("/v1/instances").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_a_readable_jwt_of_an_hour() {
    use base64::Engine;
    let api = api().await;
    let said = api
        .token("grant_type=urn:ibm:params:oauth:grant-type:apikey&apikey=demo-api-key")
        .await;
    let token = said.body["access_token"].as_str().unwrap();
    let claims = token.split('.').nth(1).unwrap();
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(claims)
        .unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    assert_eq!(
        claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(),
        3600
    );
    assert_eq!(claims["exp"], said.body["expiration"]);
    assert_eq!(claims["iat"], api.clock.now().as_second());
}

#[tokio::test(start_paused = true)]
async fn iam_refuses_in_its_own_shape() {
    let api = api().await;
    let apikey = "grant_type=urn:ibm:params:oauth:grant-type:apikey";
    let cr_token = "grant_type=urn:ibm:params:oauth:grant-type:cr-token";
    for (form, code) in [
        (format!("{apikey}&apikey=wrong"), "BXNIM0415E"),
        (apikey.to_owned(), "BXNIM0109E"),
        (String::new(), "BXNIM0109E"),
        (format!("{cr_token}&profile_id=Profile-x"), "BXNIM0109E"),
        (
            format!("{cr_token}&cr_token=a.b.c&profile_name=nobody"),
            "BXNIM0513E",
        ),
    ] {
        let said = api.token(&form).await;
        assert_eq!(said.status, StatusCode::BAD_REQUEST);
        assert_eq!(said.body["errorCode"], code, "{form}");
        assert!(said.body["context"]["requestId"].is_string());
    }
    let said = api
        .token(&format!("{cr_token}&cr_token=a.b.c&profile_name=demo-profile"))
        .await;
    assert_eq!(said.body["token_type"], "Bearer");
}

#[tokio::test(start_paused = true)]
async fn an_instance_gets_a_token_through_its_metadata_service() {
    let mut api = api().await;
    for (first, second) in [
        ("/instance_identity/v1/token", "/instance_identity/v1/iam_token"),
        ("/identity/v1/token", "/identity/v1/iam_tokens"),
    ] {
        let put = |flavor: &str| {
            Request::put(format!("http://169.254.169.254{first}?version=2022-03-01"))
                .header("metadata-flavor", flavor.to_owned())
                .body(Bytes::from(r#"{"expires_in":300}"#))
                .unwrap()
        };
        assert_eq!(
            api.send(put("other")).await.unwrap().status,
            StatusCode::BAD_REQUEST
        );
        let said = api.send(put("ibm")).await.unwrap();
        api.token = said.body["access_token"].as_str().unwrap().to_owned();
        let profile = api.cloud.account().trusted_profile;
        let said = api
            .post(second, json!({ "trusted_profile": { "id": profile } }))
            .await;
        api.token = said.body["access_token"].as_str().unwrap().to_owned();
        assert_eq!(api.get("/v1/instances").await.status, StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn pages_hold_every_item_once_even_when_the_list_changes_between_them() {
    let api = api().await;
    for number in 0..7 {
        api.create(api.prototype(&format!("a{number}"))).await;
    }
    let (mut seen, mut start) = (Vec::new(), String::new());
    for page in 0.. {
        let said = api.get(&format!("/v1/instances?limit=3{start}")).await;
        seen.extend(
            said.body["instances"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["name"].clone()),
        );
        assert_eq!(said.body["limit"], 3);
        if page == 0 {
            let gone = said.body["instances"][2]["id"].as_str().unwrap().to_owned();
            api.delete(&format!("/v1/instances/{gone}")).await;
            api.wait_until_gone(&gone).await;
        }
        let Some(next) = said.body["next"]["href"].as_str() else {
            break;
        };
        assert!(
            !next.contains("version"),
            "the address of the next page holds no filters: {next}"
        );
        start = format!("&start={}", next.split("start=").nth(1).unwrap());
    }
    assert_eq!(seen, ["a0", "a1", "a2", "a3", "a4", "a5", "a6"]);
}

#[tokio::test(start_paused = true)]
async fn a_page_has_fifty_items_by_default_and_a_hundred_at_most() {
    let api = api().await;
    assert_eq!(
        api.get("/v1/instance/profiles").await.body["profiles"]
            .as_array()
            .unwrap()
            .len(),
        50
    );
    let hundred = api.get("/v1/instance/profiles?limit=100").await;
    assert_eq!(hundred.body["profiles"].as_array().unwrap().len(), 100);
    for (limit, code) in [
        ("0", "validation_min_value"),
        ("101", "validation_max_value"),
        ("x", "validation_invalid_field_type"),
    ] {
        assert_eq!(
            api.get(&format!("/v1/instance/profiles?limit={limit}"))
                .await
                .code(),
            code
        );
    }
    assert_eq!(
        api.get("/v1/instance/profiles?start=forged").await.code(),
        "bad_field"
    );
}

#[tokio::test(start_paused = true)]
async fn profiles_follow_the_version_of_the_request() {
    let api = api().await;
    let old = api
        .get("/v1/instance/profiles?version=2026-04-06&generation=2")
        .await
        .body;
    let paged = api
        .get("/v1/instance/profiles?version=2026-04-07&generation=2")
        .await
        .body;
    assert!(old.get("limit").is_none() && old.get("next").is_none());
    assert_eq!(
        old["profiles"].as_array().unwrap().len() as u64,
        paged["total_count"].as_u64().unwrap()
    );
    let shape = async |version: &str| {
        let said = api
            .get(&format!(
                "/v1/instance/profiles/bx4-4x16?version={version}&generation=2"
            ))
            .await;
        (
            said.body["vcpu_count"].clone(),
            said.body.get("supported_vcpu_count").is_some(),
        )
    };
    assert_eq!(
        shape("2026-08-31").await,
        (json!({ "type": "fixed", "value": 4 }), true)
    );
    assert_eq!(
        shape("2026-09-01").await,
        (json!({ "type": "enum", "default": 4, "values": [2, 4] }), false)
    );
}

#[tokio::test(start_paused = true)]
async fn a_profile_says_where_it_is_and_how_it_is_sold() {
    let api = api().await;
    let profile = async |name: &str| api.get(&format!("/v1/instance/profiles/{name}")).await.body;
    let flex = profile("bxf-4x16").await;
    assert_eq!(
        flex["availability_class"],
        json!({ "type": "enum", "default": "standard", "values": ["standard", "spot"] })
    );
    assert_eq!(flex["bandwidth"], json!({ "type": "fixed", "value": 8000 }));
    assert_eq!(
        flex["network_attachment_count"],
        json!({ "type": "range", "min": 1, "max": 1 })
    );
    assert_eq!(flex["vcpu_manufacturer"], json!({ "type": "dependent" }));
    assert_eq!(
        flex["zones"][0]["href"],
        "https://us-south.iaas.cloud.ibm.com/v1/regions/us-south/us-south-1"
    );
    assert_eq!(
        profile("bx2-4x16").await["availability_class"],
        json!({ "type": "fixed", "value": "standard" })
    );
    let gpu = profile("gx3d-160x1792x8h100").await;
    assert_eq!(gpu["gpu_count"]["value"], 8);
    assert_eq!(gpu["zones"].as_array().unwrap().len(), 1);
    assert_eq!(gpu["disks"][0]["size"]["value"], 7680);
    assert_eq!(
        api.get("/v1/instance/profiles/bx2a-2x8").await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_for_another_revision_is_refused() {
    let api = api().await;
    let said = api.post("/v1/instances", api.prototype("a")).await;
    let (id, etag) = (
        said.body["id"].as_str().unwrap().to_owned(),
        said.headers["etag"].clone(),
    );
    api.wait_for(&id, "running").await;
    let mut request = api.request("DELETE", &format!("/v1/instances/{id}"), None);
    request.headers_mut().insert("if-match", etag);
    assert_eq!(
        api.send(request).await.unwrap().status,
        StatusCode::PRECONDITION_FAILED
    );
    let current = api.get(&format!("/v1/instances/{id}")).await.headers["etag"].clone();
    let mut request = api.request("DELETE", &format!("/v1/instances/{id}"), None);
    request.headers_mut().insert("if-match", current);
    assert_eq!(api.send(request).await.unwrap().status, StatusCode::NO_CONTENT);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_path_and_a_wrong_method_are_refused_in_ibms_shape() {
    let api = api().await;
    for (method, path) in [
        ("GET", "/v1/nothing"),
        ("PUT", "/v1/instances"),
        ("GET", "/elsewhere"),
    ] {
        let said = api.try_call(method, path, None).await.unwrap();
        assert_eq!(
            (said.status, said.code()),
            (StatusCode::NOT_FOUND, "invalid_route"),
            "{method} {path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_leaves_a_whole_write_behind() {
    let mut options = options(1);
    options.answers = karpenter_ibm::sim::ibm::Answers::Realistic;
    let api = Api::to(options).await;
    let call = api.try_call("POST", "/v1/instances", Some(api.prototype("a")));
    assert!(
        tokio::time::timeout(Duration::from_millis(100), call)
            .await
            .is_err(),
        "answers take a second at least"
    );
    assert!(
        api.cloud.instance("a").is_none(),
        "the request is still on its way"
    );
    api.pass(5).await;
    assert!(api.cloud.instance("a").is_some());
}

#[tokio::test(start_paused = true)]
async fn requests_are_remembered_with_their_time() {
    let api = api().await;
    api.pass(60).await;
    api.get("/v1/instances?availability.class=spot").await;
    let requests = api.cloud.requests();
    assert_eq!(requests.count(), 2);
    let last = requests.iter().last().unwrap();
    assert_eq!(
        (last.method.as_str(), last.path.as_str()),
        ("GET", "/v1/instances")
    );
    assert!(last.query.contains("availability.class=spot"));
    assert_eq!(last.at.to_string(), "2026-11-16T00:01:00Z");
}

#[tokio::test(start_paused = true)]
async fn the_account_can_be_found_by_looking_around() {
    let api = api().await;
    let account = api.cloud.account();
    let ids = async |path: &str, field: &str| -> BTreeSet<String> {
        let said = api.get(path).await;
        assert_eq!(said.status, StatusCode::OK, "{path}: {}", said.body);
        said.body[field]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(ids("/v1/vpcs", "vpcs").await.contains(&account.vpc));
    assert_eq!(
        ids("/v1/subnets?zone.name=us-south-2", "subnets").await,
        BTreeSet::from([account.subnets[1].clone()])
    );
    assert!(ids("/v1/subnets?vpc.name=other", "subnets").await.is_empty());
    assert!(
        ids("/v1/security_groups", "security_groups")
            .await
            .contains(&account.security_group)
    );
    assert!(ids("/v1/keys", "keys").await.contains(&account.key));
    assert!(
        ids("/v1/placement_groups", "placement_groups")
            .await
            .contains(&account.placement_group)
    );
    assert!(
        ids("/v1/images?status=available%2Cdeprecated", "images")
            .await
            .contains(&account.image)
    );
    let obsolete = ids("/v1/images?status=obsolete", "images").await;
    assert_eq!((obsolete.len(), obsolete.contains(&account.image)), (1, false));
    assert_eq!(
        ids("/v2/resource_groups?default=true", "resources").await,
        BTreeSet::from([account.resource_group])
    );
    let subnet = api.get(&format!("/v1/subnets/{}", account.subnets[0])).await.body;
    assert_eq!(
        (
            &subnet["total_ipv4_address_count"],
            &subnet["available_ipv4_address_count"]
        ),
        (&json!(256), &json!(251))
    );
    let zones = api.get("/v1/regions/us-south/zones").await.body;
    assert_eq!(zones["zones"][0]["universal_name"], "us-south-dal10-a");
    assert_eq!(
        api.get("/v1/regions").await.body["regions"]
            .as_array()
            .unwrap()
            .len(),
        13
    );
    let volume_profiles = api.get("/v1/volume/profiles").await.body;
    assert!(
        volume_profiles["profiles"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["name"] == "sdp")
    );
}

#[tokio::test(start_paused = true)]
async fn instances_are_filtered_by_the_documented_names_only() {
    let api = api().await;
    let account = api.cloud.account();
    api.create(api.prototype("plain")).await;
    api.create(api.spot("cheap")).await;
    let mut grouped = api.prototype("grouped");
    grouped["placement_target"] = json!({ "id": account.placement_group });
    api.create(grouped).await;
    let names = async |query: &str| -> Vec<String> {
        let said = api.get(&format!("/v1/instances?{query}")).await;
        said.body["instances"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names("availability.class=spot").await, ["cheap"]);
    assert_eq!(names("name=plain").await, ["plain"]);
    assert_eq!(names("placement_group.name=demo-spread").await, ["grouped"]);
    assert_eq!(names("reservation_affinity.policy=automatic").await, ["plain"]);
    assert_eq!(names("vpc.id=r006-other").await, [""; 0]);
    assert_eq!(
        names(&format!("resource_group.id={}", account.resource_group))
            .await
            .len(),
        3
    );
    assert_eq!(names("dedicated_host.id=x").await, [""; 0]);
    assert_eq!(
        names("availability_class=spot&zone.name=us-south-3").await.len(),
        3,
        "these are no filters"
    );
    assert_eq!(
        api.get("/v1/instances?availability.class=gold").await.code(),
        "validation_enum"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_no_answer() {
    let api = api().await;
    api.cloud
        .faults()
        .start(Fault::new(FaultKind::LostCreate).times(1));
    let lost = api
        .try_call("POST", "/v1/instances", Some(api.prototype("a")))
        .await;
    assert!(matches!(
        lost,
        Err(karpenter_ibm::ibm::http::ExchangeError::Lost(_))
    ));
    assert!(api.cloud.instance("a").is_some());
}
