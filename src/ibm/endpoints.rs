//! Where the services are: from configuration only, never from an answer.
//!
//! https to hosts of IBM Cloud, nothing else; plain http to loopback alone, for the simulator. A link in a response
//! (`next.href`, `more_info`) is never followed, so a lying server cannot make us send a token elsewhere.

use std::fmt;

use url::{Host, Url};

/// Hosts that may be sent a token: IBM Cloud's own domain and those below it.
const ALLOWED_DOMAIN: &str = "cloud.ibm.com";

/// A validated base address without a trailing slash.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint(String);

/// Why an address may not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It is not an absolute URL.
    #[error("`{0}` is not a URL such as https://us-south.iaas.cloud.ibm.com")]
    NotAUrl(String),
    /// A token would travel in the clear.
    #[error("`{0}` must use https (plain http is for a simulator on 127.0.0.1 or [::1] only)")]
    Insecure(String),
    /// A token would go to a stranger.
    #[error("`{0}` is not a host of IBM Cloud (*.{ALLOWED_DOMAIN})")]
    ForeignHost(String),
    /// It holds a user name, a query or a fragment, none of which belongs there.
    #[error("`{0}` must be a plain base address without user, query or fragment")]
    NotPlain(String),
}

impl Endpoint {
    /// Accepts `text` as a base address if it is one of IBM Cloud's or a simulator's on this machine.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let url = Url::parse(text).map_err(|_| EndpointError::NotAUrl(text.to_owned()))?;
        let host = url
            .host()
            .ok_or_else(|| EndpointError::NotAUrl(text.to_owned()))?;
        if !url.username().is_empty()
            || url.password().is_some()
            || url.query().is_some()
            || url.fragment().is_some()
        {
            return Err(EndpointError::NotPlain(text.to_owned()));
        }
        match (url.scheme(), is_loopback(&host)) {
            ("http" | "https", true) => {}
            ("https", false) if is_ibm(&host) => {}
            ("https", false) => return Err(EndpointError::ForeignHost(text.to_owned())),
            _ => return Err(EndpointError::Insecure(text.to_owned())),
        }
        Ok(Self(url.as_str().trim_end_matches('/').to_owned()))
    }

    /// The address, without a trailing slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The metadata service of the machine this runs on: fixed in code, the one exception to https. The address is
    /// link-local, so the request never leaves the machine's own link.
    pub fn instance_metadata() -> Self {
        Self("http://169.254.169.254".to_owned())
    }

    fn below(&self, path: &str) -> Self {
        Self(format!("{}{path}", self.0))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
        // A name is resolved by whoever runs the resolver; only addresses are loopback for certain.
        Host::Domain(_) => false,
    }
}

fn is_ibm(host: &Host<&str>) -> bool {
    let Host::Domain(name) = host else { return false };
    *name == ALLOWED_DOMAIN
        || name
            .strip_suffix(ALLOWED_DOMAIN)
            .is_some_and(|rest| rest.ends_with('.'))
}

/// The base address of every service, each ending where its resource paths begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// `…/v1`
    pub vpc: Endpoint,
    /// `…` (paths begin with `/identity`)
    pub iam: Endpoint,
    /// `…/api/v1`
    pub catalog: Endpoint,
    /// `…/v3`
    pub tagging: Endpoint,
    /// `…/v3`
    pub search: Endpoint,
    /// `…/v2`
    pub resource_manager: Endpoint,
}

/// Base addresses that replace IBM's own, service by service.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// All services at one address: a simulator.
    pub all: Option<String>,
    /// VPC infrastructure, e.g. the private endpoint of the region.
    pub vpc: Option<String>,
    /// Identity.
    pub iam: Option<String>,
    /// Global Catalog.
    pub catalog: Option<String>,
    /// Global Tagging.
    pub tagging: Option<String>,
    /// Global Search.
    pub search: Option<String>,
    /// Resource Manager.
    pub resource_manager: Option<String>,
}

impl Endpoints {
    /// The public services of `region`, where `overrides` does not say otherwise.
    pub fn resolve(region: &str, overrides: &Overrides) -> Result<Self, EndpointError> {
        let pick = |own: &Option<String>, default: &str| {
            Endpoint::parse(own.as_deref().or(overrides.all.as_deref()).unwrap_or(default))
        };
        let vpc = format!("https://{region}.iaas.cloud.ibm.com");
        Ok(Self {
            vpc: pick(&overrides.vpc, &vpc)?.below("/v1"),
            iam: pick(&overrides.iam, "https://iam.cloud.ibm.com")?,
            catalog: pick(&overrides.catalog, "https://globalcatalog.cloud.ibm.com")?.below("/api/v1"),
            tagging: pick(
                &overrides.tagging,
                "https://tags.global-search-tagging.cloud.ibm.com",
            )?
            .below("/v3"),
            search: pick(
                &overrides.search,
                "https://api.global-search-tagging.cloud.ibm.com",
            )?
            .below("/v3"),
            resource_manager: pick(
                &overrides.resource_manager,
                "https://resource-controller.cloud.ibm.com",
            )?
            .below("/v2"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_ibm_cloud_and_of_loopback_are_accepted() {
        for good in [
            "https://us-south.iaas.cloud.ibm.com",
            "https://us-south.private.iaas.cloud.ibm.com/",
            "http://127.0.0.1:8080",
            "http://[::1]:8080",
            "https://127.0.0.1:8443",
        ] {
            let endpoint = Endpoint::parse(good).unwrap();
            assert_eq!(endpoint.as_str(), good.trim_end_matches('/'));
        }
    }

    #[test]
    fn a_token_goes_to_no_other_host_and_over_no_clear_line() {
        for (bad, kind) in [
            ("http://us-south.iaas.cloud.ibm.com", "Insecure"),
            ("http://localhost:8080", "Insecure"),
            ("ftp://us-south.iaas.cloud.ibm.com", "Insecure"),
            ("https://us-south.iaas.cloud.ibm.com.evil.example", "ForeignHost"),
            ("https://evilcloud.ibm.com", "ForeignHost"),
            ("https://169.254.169.254", "ForeignHost"),
            ("https://10.0.0.1", "ForeignHost"),
            ("https://user:pw@iam.cloud.ibm.com", "NotPlain"),
            ("https://iam.cloud.ibm.com?x=1", "NotPlain"),
            ("iam.cloud.ibm.com", "NotAUrl"),
            ("", "NotAUrl"),
        ] {
            let error = format!("{:?}", Endpoint::parse(bad).unwrap_err());
            assert!(error.starts_with(kind), "{bad}: {error}");
        }
    }

    #[test]
    fn each_service_has_its_place() {
        let real = Endpoints::resolve("eu-de", &Overrides::default()).unwrap();
        assert_eq!(real.vpc.as_str(), "https://eu-de.iaas.cloud.ibm.com/v1");
        let all = Some("http://127.0.0.1:9".to_owned());
        let simulated = Endpoints::resolve(
            "eu-de",
            &Overrides {
                all,
                ..Overrides::default()
            },
        )
        .unwrap();
        assert_eq!(simulated.catalog.as_str(), "http://127.0.0.1:9/api/v1");
        assert_eq!(simulated.iam.as_str(), "http://127.0.0.1:9");
    }
}
