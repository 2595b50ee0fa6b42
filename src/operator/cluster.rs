//! How machines reach the cluster that this process works for.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::Service;
use kube::Api;

use super::settings::Settings;
use crate::controllers::context::ClusterAccess;
use crate::controllers::{self, Context};

/// The width of PEM.
const LINE: usize = 64;

/// What is set, else what this process itself uses; `None` if that is good inside of the cluster only, or if nothing
/// says by which certificates the API server is known.
pub(super) fn access(settings: &Settings, config: &kube::Config) -> Option<ClusterAccess> {
    let own = config.cluster_url.to_string();
    let own = Some(own.trim_end_matches('/').to_owned()).filter(|url| is_reachable(url));
    let authority: String = config.root_cert.iter().flatten().map(|der| pem(der)).collect();
    Some(ClusterAccess {
        endpoint: settings.cluster_endpoint.clone().or(own)?,
        authority: Some(authority).filter(|pem| !pem.is_empty())?,
        dns: settings.cluster_dns.clone(),
    })
}

/// The Service that every cluster has for its name server, whatever runs behind it.
const NAME_SERVER: (&str, &str) = ("kube-system", "kube-dns");

/// With the cluster's own name server, where nobody has said which pods are to ask.
pub(super) async fn with_name_server(mut context: Context) -> Result<Context, kube::Error> {
    let Some(access) = context.settings.cluster.as_ref().filter(|it| it.dns.is_empty()) else {
        return Ok(context);
    };
    let (namespace, name) = NAME_SERVER;
    let services: Api<Service> = Api::namespaced(context.client.clone(), namespace);
    let service = services.get_opt(name).await?;
    let addresses = service.and_then(|it| it.spec?.cluster_ips).unwrap_or_default();
    let dns: Vec<String> = addresses
        .into_iter()
        .filter(|it| it.parse::<IpAddr>().is_ok())
        .collect();
    if dns.is_empty() {
        tracing::warn!("pods on new nodes are not told of a name server: set --cluster-dns");
        return Ok(context);
    }
    let cluster = ClusterAccess {
        dns,
        ..access.clone()
    };
    let settings = context.settings.as_ref().clone();
    context.settings = Arc::new(controllers::Settings {
        cluster: Some(cluster),
        ..settings
    });
    Ok(context)
}

/// Whether a machine that is no node yet reaches an address: names of services, and the loopback, mean nothing to it.
fn is_reachable(url: &str) -> bool {
    let Some(host) = url.strip_prefix("https://") else {
        return false;
    };
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let inside = ["localhost", "127.0.0.1", "[::1]"].contains(&name);
    !inside && !name.split('.').any(|label| label == "svc")
}

fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem + "-----END CERTIFICATE-----\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_machines_reach_are_told_to_them() {
        assert!(is_reachable("https://10.240.0.5:6443"));
        assert!(is_reachable(
            "https://c1.private.us-south.containers.cloud.ibm.com:32000"
        ));
        for inside in [
            "https://kubernetes.default.svc",
            "https://kubernetes.default.svc.cluster.local:443",
            "https://127.0.0.1:6443",
            "http://10.240.0.5:8080",
        ] {
            assert!(!is_reachable(inside), "{inside}");
        }
    }

    #[test]
    fn a_certificate_is_written_in_lines_of_64_characters() {
        let written = pem(&[0; 60]);
        let lines: Vec<&str> = written.lines().collect();
        assert_eq!(lines.first(), Some(&"-----BEGIN CERTIFICATE-----"));
        assert_eq!((lines[1].len(), lines[2].len()), (64, 16));
        assert_eq!(lines.last(), Some(&"-----END CERTIFICATE-----"));
    }
}
