//! What holds of every document, whatever the values are.

use proptest::prelude::*;

use super::*;

/// Texts full of what means something to shells, units and YAML.
fn hostile() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "$(reboot)",
        "`id`",
        "${HOME}",
        "'",
        "\"",
        "\\",
        "\n",
        "\r\n",
        "EOF\n",
        "#",
        ": ",
        "- ",
        "%n",
        "{{",
        "\0",
        "\t",
        "\u{7f}",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "é",
        "\u{1f600}",
        "on",
        "0600",
        "12:30",
        "a b",
        "&&",
        ";",
    ]);
    prop::collection::vec(pieces, 0..20).prop_map(|pieces| pieces.concat())
}

fn label() -> impl Strategy<Value = (String, String)> {
    (
        "([a-z]{1,5}\\.[a-z]{2,3}/)?[A-Za-z0-9._-]{1,10}",
        "[A-Za-z0-9._-]{0,10}",
    )
}

fn taint() -> impl Strategy<Value = Taint> {
    let effects = prop::sample::select(vec!["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    (hostile(), prop::option::of(hostile()), effects).prop_map(|(key, value, effect)| Taint {
        key,
        value,
        effect: effect.to_owned(),
        time_added: None,
    })
}

fn family() -> impl Strategy<Value = Family> {
    prop::sample::select(vec![Family::Debian, Family::Rhel])
}

/// The image's, or those of a repository whose key is elsewhere or written out.
fn packages() -> impl Strategy<Value = Packages> {
    let url = || "https://[a-z0-9._~:+%/-]{1,30}";
    let armored = hostile().prop_map(|text| format!("-----BEGIN PGP PUBLIC KEY BLOCK-----\n{text}"));
    let key = prop_oneof![url().prop_map(String::from), armored];
    prop::option::of((url(), key)).prop_map(|repository| match repository {
        None => Packages::Image,
        Some((address, key)) => Packages::Repository { address, key },
    })
}

/// The only place of each value of a repository, and the text that stands there.
fn places(family: Family, packages: &Packages) -> Vec<(&'static str, String)> {
    let Packages::Repository { address, key } = packages else {
        return Vec::new();
    };
    let is_armored = key.starts_with("-----BEGIN");
    let mut places = Vec::new();
    if is_armored {
        places.push(("/var/lib/karpenter-ibm/packages.asc", key.clone()));
    }
    match family {
        Family::Debian => {
            let signed = "Signed-By: /etc/apt/keyrings/karpenter-ibm.asc";
            places.push((
                "/var/lib/karpenter-ibm/packages.sources",
                format!("Types: deb\nURIs: {address}\nSuites: /\n{signed}\n"),
            ));
            if !is_armored {
                places.push(("/var/lib/karpenter-ibm/key-address", key.clone()));
            }
        }
        Family::Rhel => {
            let key = if is_armored {
                "file:///var/lib/karpenter-ibm/packages.asc"
            } else {
                key
            };
            places.push((
                "/var/lib/karpenter-ibm/packages.repo",
                format!("[karpenter-ibm]\nname=Kubernetes\nbaseurl={address}\nenabled=1\ngpgcheck=1\ngpgkey={key}\n"),
            ));
        }
    }
    places
}

proptest! {
    #[test]
    fn every_value_comes_back_from_the_document_as_it_was(
        labels in prop::collection::btree_map(label().prop_map(|(key, _)| key), "[A-Za-z0-9._-]{0,10}", 0..6),
        taints in prop::collection::vec(taint(), 0..4),
        token in hostile(),
        authority in hostile(),
        append in hostile(),
        dns in hostile(),
        family in family(),
        packages in packages(),
    ) {
        let script = format!("#!{append}");
        let join = Join {
            labels: labels.clone(),
            taints: taints.clone(),
            token: Secret::new(token.clone()),
            authority: authority.clone(),
            user_data_append: Some(script.clone()),
            dns: vec![dns.clone()],
            family,
            packages: packages.clone(),
            ..join()
        };
        let rendered = render(&join).unwrap();
        let config = read(rendered.expose());
        // Another reader, as YAML.
        let as_yaml: Value = serde_saphyr::from_str(rendered.expose()).unwrap();
        prop_assert_eq!(&as_yaml, &config);

        let configuration = kubelet(&config);
        prop_assert_eq!(&configuration["clusterDNS"], &json!([dns]));
        let mut registered: Vec<Taint> = serde_json::from_value(configuration["registerWithTaints"].clone()).unwrap();
        prop_assert_eq!(registered.pop().unwrap().key, "karpenter.sh/unregistered");
        prop_assert_eq!(registered, taints);
        let kubeconfig: Value =
            serde_json::from_str(&content(&config, "/etc/kubernetes/bootstrap-kubeconfig")).unwrap();
        prop_assert_eq!(&kubeconfig["users"][0]["user"]["token"], &json!(token));
        prop_assert_eq!(content(&config, "/etc/kubernetes/pki/ca.crt"), authority);
        prop_assert_eq!(content(&config, "/var/lib/karpenter-ibm/append"), script);
        for (path, text) in places(family, &packages) {
            prop_assert_eq!(content(&config, path), text, "{}", path);
        }
        let told: BTreeMap<String, String> = content(&config, DROP_IN)
            .split_once("--node-labels=")
            .map(|(_, rest)| rest.trim_end().split(',').filter_map(|pair| pair.split_once('=')))
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let settable: BTreeMap<String, String> =
            labels.into_iter().filter(|(key, _)| may_be_set_by_kubelet(key)).collect();
        prop_assert_eq!(told, settable);
    }

    /// What runs is the same for every machine of a family with or without a repository, whatever the values are.
    #[test]
    fn no_value_reaches_a_shell(
        taints in prop::collection::vec(taint(), 0..4),
        token in hostile(),
        authority in hostile(),
        dns in hostile(),
        node_name in "[a-z0-9-]{1,20}",
        family in family(),
        packages in packages(),
    ) {
        let usual = Join {
            family,
            packages: match packages {
                Packages::Image => Packages::Image,
                Packages::Repository { .. } => Packages::of(None, family, Version { major: 1, minor: 35 }),
            },
            ..join()
        };
        let other = Join {
            taints,
            token: Secret::new(token),
            authority,
            dns: vec![dns],
            node_name,
            packages,
            ..usual.clone()
        };
        let programs = |join: &Join| {
            let config = config(join);
            let files = config["write_files"].as_array().unwrap().clone();
            let programs: Vec<Value> = files.into_iter().filter(|file| file["permissions"] == "0700").collect();
            (config["runcmd"].clone(), programs)
        };
        prop_assert_eq!(programs(&other), programs(&usual));
    }

    #[test]
    fn no_document_holds_a_character_that_yaml_forbids(
        append in hostile(),
        authority in hostile(),
        family in family(),
        packages in packages(),
    ) {
        let user_data_append = Some(format!("#!{append}"));
        let join = Join { authority, family, packages, user_data_append, ..join() };
        let rendered = render(&join).unwrap();
        let is_plain = |c: char| matches!(c, ' '..='~' | '\n' | '\u{10000}'..);
        prop_assert!(rendered.expose().chars().all(is_plain));
    }
}
