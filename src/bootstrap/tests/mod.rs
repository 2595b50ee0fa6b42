mod install;
mod laws;
mod schema;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::*;
use crate::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, Resources};

fn join() -> Join {
    Join {
        node_name: "default-x7k2p".to_owned(),
        region: "us-south".to_owned(),
        capacity_type: CapacityType::Spot,
        endpoint: "https://10.0.0.1:6443".to_owned(),
        authority: "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n".to_owned(),
        token: Secret::new("canary-token".to_owned()),
        kubelet: KubeletSettings::default(),
        reservation: Reservation {
            kube: Resources::new().with(CPU, 80).with(MEMORY, 1 << 30),
            system: Resources::new().with(CPU, 100),
            eviction: Resources::new()
                .with(MEMORY, 100 << 20)
                .with(EPHEMERAL_STORAGE, 10 << 30),
        },
        labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
        taints: Vec::new(),
        dns: vec!["172.21.0.10".to_owned()],
        family: Family::Debian,
        packages: Packages::Image,
        user_data: None,
        user_data_append: None,
    }
}

/// A document that is one `#cloud-config`, read as JSON: a stricter reader than any of YAML.
fn config(join: &Join) -> Value {
    read(render(join).unwrap().expose())
}

fn read(text: &str) -> Value {
    serde_json::from_str(text.strip_prefix("#cloud-config\n").unwrap()).unwrap()
}

fn file<'a>(config: &'a Value, path: &str) -> &'a Value {
    let files = config["write_files"].as_array().unwrap();
    let found: Vec<&Value> = files.iter().filter(|file| file["path"] == path).collect();
    assert_eq!(found.len(), 1, "{path}");
    found[0]
}

fn content(config: &Value, path: &str) -> String {
    let file = file(config, path);
    let text = file["content"].as_str().unwrap();
    match file["encoding"].as_str() {
        None => text.to_owned(),
        Some("b64") => String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn kubelet(config: &Value) -> Value {
    serde_json::from_str(&content(config, "/etc/kubernetes/kubelet.yaml")).unwrap()
}

const DROP_IN: &str = "/etc/systemd/system/kubelet.service.d/99-karpenter-ibm.conf";

#[test]
fn the_credential_is_in_one_file_that_only_root_reads() {
    let config = config(&join());
    let files = config["write_files"].as_array().unwrap();
    let holders: Vec<&Value> = files
        .iter()
        .filter(|file| file["content"].as_str().unwrap().contains("canary-token"))
        .collect();
    assert_eq!(holders.len(), 1);
    assert_eq!(holders[0]["path"], "/etc/kubernetes/bootstrap-kubeconfig");
    assert_eq!(holders[0]["permissions"], "0600");
    assert!(!config["runcmd"].to_string().contains("canary-token"));
}

#[test]
fn neither_a_join_nor_its_document_shows_the_credential_when_printed() {
    let document = render(&join()).unwrap();
    for printed in [format!("{:?}", join()), format!("{document:?}")] {
        assert!(!printed.contains("canary"), "{printed}");
    }
}

#[test]
fn what_is_kept_from_pods_is_exactly_the_reservation() {
    let written = kubelet(&config(&join()));
    assert_eq!(
        written["kubeReserved"],
        json!({"cpu": "80m", "memory": "1073741824"})
    );
    assert_eq!(written["systemReserved"], json!({"cpu": "100m"}));
    assert_eq!(
        written["evictionHard"],
        json!({
            "memory.available": "104857600", "nodefs.available": "10737418240",
            "imagefs.available": "15%", "nodefs.inodesFree": "5%",
        })
    );
}

#[test]
fn a_class_configures_its_kubelets() {
    let mut join = join();
    join.kubelet = serde_json::from_value(json!({
        "clusterDNS": ["10.0.0.2"], "maxPods": 60, "podsPerCore": 10, "cpuCFSQuota": false,
        "evictionHard": {"memory.available": "5%", "pid.available": "10%"},
        "evictionSoft": {"memory.available": "10%"}, "evictionSoftGracePeriod": {"memory.available": "1m"},
        "evictionMaxPodGracePeriod": 30, "imageGCHighThresholdPercent": 70, "imageGCLowThresholdPercent": 60,
    }))
    .unwrap();
    let written = kubelet(&config(&join));
    for (field, value) in [
        ("clusterDNS", json!(["10.0.0.2"])),
        ("maxPods", json!(60)),
        ("podsPerCore", json!(10)),
        ("cpuCFSQuota", json!(false)),
        ("evictionSoft", json!({"memory.available": "10%"})),
        ("evictionSoftGracePeriod", json!({"memory.available": "1m"})),
        ("evictionMaxPodGracePeriod", json!(30)),
        ("imageGCHighThresholdPercent", json!(70)),
        ("imageGCLowThresholdPercent", json!(60)),
    ] {
        assert_eq!(written[field], value, "{field}");
    }
    assert_eq!(
        written["evictionHard"],
        json!({"memory.available": "104857600", "nodefs.available": "10737418240", "pid.available": "10%"})
    );
}

#[test]
fn a_spot_machine_shuts_down_within_its_notice_and_others_as_they_are() {
    let spot = kubelet(&config(&join()));
    assert_eq!(spot["shutdownGracePeriod"], "30s");
    assert_eq!(spot["shutdownGracePeriodCriticalPods"], "10s");
    let on_demand = Join {
        capacity_type: CapacityType::OnDemand,
        ..join()
    };
    assert!(kubelet(&config(&on_demand)).get("shutdownGracePeriod").is_none());
}

#[test]
fn a_node_begins_with_the_taint_of_the_unregistered_once() {
    let unregistered = json!({"key": "karpenter.sh/unregistered", "effect": "NoExecute"});
    assert_eq!(
        kubelet(&config(&join()))["registerWithTaints"],
        json!([unregistered])
    );
    let taints: Vec<Taint> = serde_json::from_value(json!([
        unregistered,
        {"key": "a", "value": "b", "effect": "NoSchedule", "timeAdded": "2026-11-16T00:00:00Z"},
    ]))
    .unwrap();
    let tainted = Join { taints, ..join() };
    assert_eq!(
        kubelet(&config(&tainted))["registerWithTaints"],
        json!([{"key": "a", "value": "b", "effect": "NoSchedule"}, unregistered])
    );
}

#[test]
fn an_image_that_brings_both_is_asked_to_install_nothing() {
    let repository = |family| Join {
        family,
        packages: Packages::of(None, family, Version { major: 1, minor: 35 }),
        ..join()
    };
    let installs = |join: &Join| config(join)["runcmd"].to_string().contains("install");
    assert!(!installs(&join()));
    assert!(installs(&repository(Family::Debian)) && installs(&repository(Family::Rhel)));
    let debian = config(&repository(Family::Debian));
    let sources = content(&debian, "/var/lib/karpenter-ibm/packages.sources");
    assert!(
        sources.contains("URIs: https://pkgs.k8s.io/core:/stable:/v1.35/deb/\n"),
        "{sources}"
    );
    let rhel = config(&repository(Family::Rhel));
    let listed = content(&rhel, "/var/lib/karpenter-ibm/packages.repo");
    assert!(listed.contains("\ngpgcheck=1\n"), "{listed}");
}

#[test]
fn a_document_that_is_too_large_says_by_how_much() {
    let fits = |length: usize| {
        let append = Some(format!("#!/bin/sh\n{}", "#".repeat(length)));
        render(&Join {
            user_data_append: append,
            ..join()
        })
    };
    let length = USER_DATA_BYTES_MAX - fits(0).unwrap().expose().len();
    assert_eq!(fits(length).unwrap().expose().len(), USER_DATA_BYTES_MAX);
    let refused = fits(length + 3).unwrap_err();
    assert_eq!(
        refused,
        RenderError::TooLarge {
            bytes: USER_DATA_BYTES_MAX + 3,
            over: 3
        }
    );
    assert!(refused.to_string().contains("3 more than"), "{refused}");
}

#[test]
fn user_data_of_a_class_replaces_ours_verbatim() {
    let own = "#!/bin/sh\r\necho \"$(hostname)\" <<EOF\nEOF\n\0";
    let replaced = Join {
        user_data: Some(own.to_owned()),
        ..join()
    };
    assert_eq!(render(&replaced).unwrap().expose(), own);
}

#[test]
fn a_script_that_is_appended_runs_last() {
    let script = "#!/bin/sh\r\necho \u{85}\u{2028}é\u{1f600} '$(x)' `y` ${Z}\nEOF\n\u{7f}";
    let appended = Join {
        user_data_append: Some(script.to_owned()),
        ..join()
    };
    let config = config(&appended);
    let commands = config["runcmd"].as_array().unwrap();
    assert_eq!(
        commands.last().unwrap(),
        &json!(["/var/lib/karpenter-ibm/append"])
    );
    assert_eq!(content(&config, "/var/lib/karpenter-ibm/append"), script);
    assert_eq!(
        file(&config, "/var/lib/karpenter-ibm/append")["permissions"],
        "0700"
    );
}

#[test]
fn what_cannot_be_appended_is_refused_with_the_reason() {
    let refused = |user_data: Option<&str>, append: &str| {
        let join = Join {
            user_data: user_data.map(str::to_owned),
            user_data_append: Some(append.to_owned()),
            ..join()
        };
        render(&join).unwrap_err().to_string()
    };
    let table = [
        (None, "hello", "neither"),
        (
            None,
            "Content-Type: multipart/mixed; boundary=B\n\n--B--\n",
            "neither",
        ),
        (None, "#cloud-config\nruncmd: [", "is not a cloud-config"),
        (None, "#cloud-config\n- a\n", "is not a cloud-config"),
        (
            None,
            "#cloud-config\nwrite_files:\n- path: /etc/kubernetes/kubelet.yaml\n",
            "writes /etc/kubernetes/kubelet.yaml",
        ),
        (Some("#include\n"), "#!/bin/sh\n", "can follow a userData"),
        (Some("#!/bin/sh\n"), "hello", "neither"),
    ];
    for (user_data, append, expected) in table {
        let said = refused(user_data, append);
        assert!(said.contains(expected), "{append:?}: {said}");
    }
}

#[test]
fn values_that_would_be_more_than_data_are_refused() {
    type Put = fn(&mut Join, String);
    let broken: [(&str, Put); 5] = [
        ("node name", |join, text| join.node_name = text),
        ("region", |join, text| join.region = text),
        ("endpoint", |join, text| join.endpoint = format!("https://{text}")),
        ("key", |join, text| {
            join.labels = BTreeMap::from([(text, String::new())]);
        }),
        ("value", |join, text| {
            join.labels = BTreeMap::from([("a".to_owned(), text)]);
        }),
    ];
    for text in [
        "a b",
        "a\nExecStart=/bin/sh",
        "$(id)",
        "${X}",
        "%n",
        "a\"",
        "a'b",
        "a\\",
        "a,b=c",
    ] {
        for (what, put) in &broken {
            let mut join = join();
            put(&mut join, text.to_owned());
            let refused = render(&join).unwrap_err();
            assert!(matches!(refused, RenderError::Illegal { .. }), "{what}: {text}");
        }
    }
    let clear = Join {
        endpoint: "http://10.0.0.1".to_owned(),
        ..join()
    };
    assert!(render(&clear).is_err());
}
