use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::*;
use crate::ibm::endpoints::Endpoint;
use crate::ibm::http::scripted::{Scripted, json as answer, text};
use crate::ibm::http::{Api, Exchange, ExchangeError};
use crate::ibm::iam::{Authorized, KeySource, TrustedProfile};

const CANARY: &str = "canary-api-key-8c1f";

fn key() -> Credentials {
    Credentials::ApiKey(KeySource::Given(Secret::new(CANARY.to_owned())))
}

fn tokens(transport: &Scripted, credentials: Credentials) -> Tokens {
    let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
    let api = |endpoint| Api::new(endpoint, Arc::new(transport.clone()), clock.clone());
    let grantors = Grantors {
        iam: api(Endpoint::parse("https://iam.cloud.ibm.com").unwrap()),
        metadata: api(Endpoint::instance_metadata()),
    };
    Tokens::new(grantors, credentials, clock.clone())
}

/// Grants `token-0`, `token-1`, … for an hour each.
fn granting() -> Scripted {
    Scripted::new(|n, _| {
        answer(
            200,
            &json!({"access_token": format!("token-{n}"), "expires_in": 3600}),
        )
    })
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_callers_share_one_request() {
    let transport = granting();
    let tokens = tokens(&transport, key());
    let all = futures::future::join_all((0..50).map(|_| tokens.token())).await;
    assert!(
        all.iter()
            .all(|token| token.as_ref().unwrap().expose() == "token-0")
    );
    assert_eq!(transport.sent().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_refreshed_when_four_fifths_of_its_life_have_passed() {
    let transport = granting();
    let tokens = tokens(&transport, key());
    tokens.token().await.unwrap();
    pass(2879).await;
    assert_eq!(tokens.token().await.unwrap().expose(), "token-0");
    pass(1).await;
    assert_eq!(tokens.token().await.unwrap().expose(), "token-1");
}

#[tokio::test(start_paused = true)]
async fn while_one_caller_refreshes_the_others_use_the_old_token() {
    let transport = granting();
    let tokens = tokens(&transport, key());
    tokens.token().await.unwrap();
    pass(3000).await;
    let all = futures::future::join_all((0..20).map(|_| tokens.token())).await;
    let old = all
        .iter()
        .filter(|token| token.as_ref().unwrap().expose() == "token-0")
        .count();
    assert_eq!((transport.sent().len(), old), (2, 19));
}

#[tokio::test(start_paused = true)]
async fn a_failed_refresh_keeps_the_old_token_while_it_is_valid_and_no_longer() {
    let transport = Scripted::new(|n, _| match n {
        0 => answer(200, &json!({"access_token": "old", "expires_in": 3600})),
        _ => text(503, ""),
    });
    let tokens = tokens(&transport, key());
    tokens.token().await.unwrap();
    pass(2900).await;
    for _ in 0..100 {
        assert_eq!(tokens.token().await.unwrap().expose(), "old");
    }
    assert_eq!(transport.sent().len(), 2, "a lame IAM is not hammered");
    pass(690).await;
    assert_eq!(tokens.token().await.unwrap_err().kind(), "transient");
}

#[tokio::test(start_paused = true)]
async fn a_rejected_token_is_replaced_once_by_whoever_comes_first() {
    let transport = granting();
    let tokens = tokens(&transport, key());
    let first = tokens.token().await.unwrap();
    tokens.reject(&first).await;
    let second = tokens.token().await.unwrap();
    tokens.reject(&first).await;
    assert_eq!(tokens.token().await.unwrap().expose(), second.expose());
    assert_eq!(transport.sent().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_refused_with_401_is_sent_once_more_with_a_new_token() {
    let transport = granting();
    let api = Scripted::new(|_, request| {
        let fresh = request.headers()["authorization"] == "Bearer token-1";
        text(if fresh { 201 } else { 401 }, "{}")
    });
    let authorized = Authorized::new(Arc::new(api.clone()), tokens(&transport, key()));
    let outcome = authorized
        .exchange(http::Request::new(bytes::Bytes::new()))
        .await
        .unwrap();
    assert_eq!((outcome.status().as_u16(), api.sent().len()), (201, 2));

    let stubborn = Scripted::new(|_, _| text(401, "{}"));
    let authorized = Authorized::new(Arc::new(stubborn.clone()), tokens(&transport, key()));
    let outcome = authorized
        .exchange(http::Request::new(bytes::Bytes::new()))
        .await
        .unwrap();
    assert_eq!((outcome.status().as_u16(), stubborn.sent().len()), (401, 2));
}

#[tokio::test(start_paused = true)]
async fn without_a_token_nothing_is_sent_and_the_reason_is_kept() {
    let transport =
        Scripted::new(|_, _| answer(400, &json!({"errorCode": "BXNIM0415E", "errorMessage": "no"})));
    let api = granting();
    let authorized = Authorized::new(Arc::new(api.clone()), tokens(&transport, key()));
    let error = authorized
        .exchange(http::Request::new(bytes::Bytes::new()))
        .await
        .unwrap_err();
    let ExchangeError::NoToken(reason) = error else {
        panic!("{error}")
    };
    assert_eq!((reason.kind(), api.sent().len()), ("unauthorized", 0));
}

#[tokio::test(start_paused = true)]
async fn a_rotated_key_file_is_picked_up_without_a_restart() {
    let path: PathBuf = std::env::temp_dir().join(format!("karpenter-ibm-rotated-{}", std::process::id()));
    std::fs::write(&path, "old-key\n").unwrap();
    let transport = granting();
    let tokens = tokens(&transport, Credentials::ApiKey(KeySource::File(path.clone())));
    tokens.token().await.unwrap();
    std::fs::write(&path, "new-key\n").unwrap();
    pass(3000).await;
    tokens.token().await.unwrap();
    std::fs::remove_file(&path).unwrap();
    let keys: Vec<bool> = transport
        .sent()
        .iter()
        .map(|(_, request)| String::from_utf8_lossy(request.body()).contains("apikey=new-key"))
        .collect();
    assert_eq!(keys, [false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_service_account_token_is_exchanged_for_a_trusted_profile() {
    let path = std::env::temp_dir().join(format!("karpenter-ibm-cr-{}", std::process::id()));
    std::fs::write(&path, "projected.jwt").unwrap();
    let transport = granting();
    let profile = TrustedProfile::parse("karpenter");
    let tokens = tokens(
        &transport,
        Credentials::ServiceAccount {
            token_file: path.clone(),
            profile,
        },
    );
    tokens.token().await.unwrap();
    std::fs::remove_file(path).unwrap();
    let (_, request) = &transport.sent()[0];
    assert_eq!(
        String::from_utf8_lossy(request.body()),
        "grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Acr-token&cr_token=projected.jwt&profile_name=karpenter"
    );
}

#[tokio::test(start_paused = true)]
async fn the_machines_own_identity_goes_to_the_link_local_address_only() {
    let transport = Scripted::new(|n, _| match n {
        0 => answer(200, &json!({"access_token": "identity", "expires_in": 300})),
        _ => answer(
            200,
            &json!({"access_token": "iam", "expires_at": "2026-11-16T11:00:00Z"}),
        ),
    });
    let profile = Some(TrustedProfile::parse("Profile-1"));
    let tokens = tokens(&transport, Credentials::InstanceIdentity { profile });
    assert_eq!(tokens.token().await.unwrap().expose(), "iam");
    let sent = transport.sent();
    assert!(
        sent.iter()
            .all(|(_, request)| request.uri().to_string().starts_with("http://169.254.169.254/"))
    );
    assert_eq!(sent[0].1.headers()["metadata-flavor"], "ibm");
    assert_eq!(sent[1].1.headers()["authorization"], "Bearer identity");
    assert_eq!(
        String::from_utf8_lossy(sent[1].1.body()),
        r#"{"trusted_profile":{"id":"Profile-1"}}"#
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_and_a_token_never_show_in_an_error() {
    let echo = AtomicBool::new(true);
    let transport = Scripted::new(move |_, request| {
        // A server that echoes the form in a body that is almost a token's.
        let body = String::from_utf8_lossy(request.body()).into_owned();
        let shown = if echo.load(Ordering::Relaxed) {
            body
        } else {
            String::new()
        };
        answer(
            200,
            &json!({"access_token": 7, "secret": shown, "expires_in": CANARY}),
        )
    });
    let error = tokens(&transport, key()).token().await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains(CANARY), "{error:?}");
}
