//! The flags of a kubelet: `--name=value` and `--name value`, each a real kubelet's.

use std::collections::BTreeMap;

use super::settings::SettingsError;

/// Flags that a kubelet of Kubernetes 1.35 takes and that scripts are seen to use. Those that are not in
/// [`super::settings`] change nothing here.
const KNOWN: [&str; 56] = [
    "address",
    "anonymous-auth",
    "authentication-token-webhook",
    "authorization-mode",
    "bootstrap-kubeconfig",
    "cert-dir",
    "cgroup-driver",
    "cgroup-root",
    "client-ca-file",
    "cloud-config",
    "cloud-provider",
    "cluster-dns",
    "cluster-domain",
    "config",
    "config-dir",
    "container-runtime-endpoint",
    "cpu-manager-policy",
    "enable-controller-attach-detach",
    "event-qps",
    "eviction-hard",
    "eviction-soft",
    "fail-swap-on",
    "feature-gates",
    "hostname-override",
    "image-credential-provider-bin-dir",
    "image-credential-provider-config",
    "image-gc-high-threshold",
    "image-gc-low-threshold",
    "kube-reserved",
    "kubeconfig",
    "log-file-max-size",
    "logging-format",
    "max-pods",
    "node-ip",
    "node-labels",
    "node-status-update-frequency",
    "pod-cidr",
    "pod-infra-container-image",
    "pod-manifest-path",
    "pods-per-core",
    "port",
    "protect-kernel-defaults",
    "provider-id",
    "read-only-port",
    "register-node",
    "register-with-taints",
    "resolv-conf",
    "root-dir",
    "rotate-certificates",
    "rotate-server-certificates",
    "runtime-cgroups",
    "serialize-image-pulls",
    "system-reserved",
    "tls-cert-file",
    "v",
    "volume-plugin-dir",
];

/// The values of flags by name. A flag that is given twice has its last value.
pub fn parse(arguments: &[String]) -> Result<BTreeMap<String, String>, SettingsError> {
    let mut flags = BTreeMap::new();
    let mut arguments = arguments.iter().peekable();
    while let Some(argument) = arguments.next() {
        let Some(flag) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
            return Err(SettingsError::UnknownCommand(argument.clone()));
        };
        let (name, value) = if let Some((name, value)) = flag.split_once('=') {
            (name, value.to_owned())
        } else {
            let next = arguments.next_if(|next| !next.starts_with('-'));
            (flag, next.cloned().unwrap_or_else(|| "true".to_owned()))
        };
        if !KNOWN.contains(&name) {
            return Err(SettingsError::UnknownFlag(name.to_owned()));
        }
        flags.insert(name.to_owned(), value);
    }
    Ok(flags)
}

/// `a=b,c=d`
pub fn pairs(flag: &'static str, text: &str) -> Result<BTreeMap<String, String>, SettingsError> {
    text.split(',')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            // Thresholds of eviction are written with `<`.
            let (key, value) = pair
                .split_once(['=', '<'])
                .ok_or_else(|| SettingsError::Flag(flag, text.to_owned()))?;
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<BTreeMap<String, String>, SettingsError> {
        parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn both_forms_are_read_and_a_bare_flag_is_true() {
        let flags =
            parsed("--config=/c --node-labels a=b,c=d --rotate-certificates --v=2 --config /d").unwrap();
        assert_eq!(flags["config"], "/d");
        assert_eq!(flags["node-labels"], "a=b,c=d");
        assert_eq!(flags["rotate-certificates"], "true");
        assert_eq!(
            pairs("node-labels", "a=b,c=").unwrap(),
            [("a".to_owned(), "b".to_owned()), ("c".to_owned(), String::new())].into()
        );
    }

    #[test]
    fn what_a_real_kubelet_exits_on_is_refused() {
        let said = parsed("--provider=x").unwrap_err().to_string();
        assert_eq!(said, "failed to parse kubelet flag: unknown flag: --provider");
        assert_eq!(parsed("run").unwrap_err().to_string(), "unknown command \"run\"");
        assert!(pairs("node-labels", "a").is_err());
    }

    #[test]
    fn the_list_of_flags_is_in_order() {
        assert!(KNOWN.is_sorted());
    }
}
