//! Configuration, validated once: what was written becomes [`Settings`] or an error that says which setting is wrong
//! and what it may be. Nothing is touched before that.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::discounts::DiscountSettings;
use super::planning::RawPlanning;
use super::push::PushSettings;
use super::times;
use crate::allocation::{Breakers, Purchases};
use crate::controllers;
use crate::controllers::context::Collecting;
use crate::controllers::node_class::AllowLists;
use crate::ibm;
use crate::ibm::builtin;
use crate::ibm::endpoints::{Endpoints, Overrides};
use crate::ibm::iam::{Credentials, KeySource, TrustedProfile};
use crate::ibm::secret::Secret;

/// The settings as they were written, empty ones being the same as absent.
#[derive(Clone, Debug, Default)]
pub struct RawSettings {
    /// `IBMCLOUD_API_KEY`
    pub api_key: Option<Secret>,
    /// `IBMCLOUD_API_KEY_FILE`
    pub api_key_file: Option<PathBuf>,
    /// `IBMCLOUD_TRUSTED_PROFILE`
    pub trusted_profile: Option<String>,
    /// `IBMCLOUD_CR_TOKEN_FILE`
    pub service_account_token_file: Option<PathBuf>,
    /// `IBMCLOUD_REGION`
    pub region: Option<String>,
    /// The `*_ENDPOINT` settings.
    pub endpoints: Overrides,
    /// `--ibm-requests-per-second`
    pub requests_per_second: Option<u32>,
    /// `--ibm-burst`
    pub burst: Option<u32>,
    /// `--ibm-deadline-seconds`
    pub deadline_seconds: Option<u64>,
    /// `--listen`
    pub listen: Option<SocketAddr>,
    /// `POD_NAMESPACE`
    pub namespace: Option<String>,
    /// `POD_NAME`
    pub pod: Option<String>,
    /// `--joiner-service-account`
    pub joiner: Option<String>,
    /// `--cluster-endpoint`
    pub cluster_endpoint: Option<String>,
    /// `--cluster-dns`, each address
    pub cluster_dns: Vec<String>,
    /// `--max-machines`
    pub machines_max: Option<u64>,
    /// `--max-launches-per-hour`
    pub launches_per_hour_max: Option<u64>,
    /// `--stop-purchases`
    pub purchases: Purchases,
    /// `--initialization-minutes`
    pub initialization_minutes: Option<u64>,
    /// `--late-create-seconds`
    pub late_create_seconds: Option<u64>,
    /// `--spot-discount-factor`, each time
    pub spot_discount_factors: Vec<String>,
    /// `KARPENTER_SPOT_DISCOUNT_PERCENT`
    pub spot_discount_percent: Option<String>,
    /// `--config-file`
    pub config_file: Option<PathBuf>,
    /// The `--allowed-*` settings.
    pub allowed: AllowLists,
    /// `--nodeclass-resolve-seconds`
    pub resolve_seconds: Option<u64>,
    /// `--preemption-hold-seconds`
    pub preemption_hold_seconds: Option<u64>,
    /// How pods are planned for.
    pub planning: RawPlanning,
    /// `--interruption-poll`
    pub interruption_poll_seconds: Option<u64>,
    /// `--gc`
    pub collecting: Collecting,
    /// `--push-listen`
    pub push_listen: Option<SocketAddr>,
    /// `--push-secret-file`
    pub push_secret_file: Option<PathBuf>,
}

/// Settings that can be relied upon.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The region everything happens in.
    pub region: String,
    /// How IBM Cloud is spoken to.
    pub ibm: ibm::Config,
    /// Where health and metrics are served.
    pub listen: SocketAddr,
    /// Where prices come from.
    pub prices: PriceSource,
    /// What spot costs where the user says so.
    pub discounts: DiscountSettings,
    /// Where the cloud may tell of preemptions, if anywhere.
    pub push: Option<PushSettings>,
    /// What the controllers are told.
    pub controllers: controllers::Settings,
    /// Where machines reach the API server, if that was set.
    pub cluster_endpoint: Option<String>,
    /// The name servers of the cluster.
    pub cluster_dns: Vec<String>,
}

/// Where prices come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriceSource {
    /// The catalogue, twice a day.
    Catalog,
    /// The table built in: for worlds and tests that are about something else, as a reading takes hundreds of requests.
    BuiltIn,
}

/// A setting that is wrong, and what it may be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct SettingError {
    /// The setting by the name the user knows.
    pub setting: &'static str,
    /// What is wrong with it.
    pub problem: String,
    /// What it may be.
    pub may_be: String,
}

const LISTEN_DEFAULT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 8080);

/// Above this a budget protects nobody: the old backend took 50 requests a second from everybody together.
const REQUESTS_PER_SECOND_MAX: u32 = 100;
const BURST_MAX: u32 = 1000;
const DEADLINE_SECONDS_MAX: u64 = 300;
/// Above this a breaker protects nobody.
const BREAKER_MAX: u64 = 100_000;
/// Where the chart is installed when nothing else is said.
const NAMESPACE_DEFAULT: &str = "karpenter-ibm";

impl Settings {
    /// Validates everything; the first wrong setting is the error.
    pub fn validate(raw: &RawSettings) -> Result<Self, SettingError> {
        let region = region(raw.region.as_deref())?;
        let credentials = credentials(raw)?;
        let endpoints = Endpoints::resolve(&region, &raw.endpoints).map_err(|error| SettingError {
            setting: "IBMCLOUD_*_ENDPOINT",
            problem: error.to_string(),
            may_be: "leave it unset for IBM's public services".to_owned(),
        })?;
        let mut ibm = ibm::Config::new(endpoints, credentials);
        ibm.requests_per_second = within(
            "--ibm-requests-per-second",
            raw.requests_per_second,
            REQUESTS_PER_SECOND_MAX,
            ibm.requests_per_second,
        )?;
        ibm.burst = within("--ibm-burst", raw.burst, BURST_MAX, ibm.burst)?;
        if let Some(seconds) = raw.deadline_seconds {
            if seconds == 0 || seconds > DEADLINE_SECONDS_MAX {
                let may_be = format!("1 to {DEADLINE_SECONDS_MAX} seconds");
                return Err(out_of_range("--ibm-deadline-seconds", seconds, may_be));
            }
            ibm.deadline = Duration::from_secs(seconds);
        }
        let controllers = controllers(raw, &region)?;
        Ok(Self {
            region,
            ibm,
            prices: PriceSource::Catalog,
            discounts: DiscountSettings::validate(raw)?,
            push: PushSettings::validate(raw)?,
            controllers,
            listen: raw.listen.unwrap_or(LISTEN_DEFAULT),
            cluster_endpoint: cluster_endpoint(raw.cluster_endpoint.as_deref())?,
            cluster_dns: cluster_dns(&raw.cluster_dns)?,
        })
    }
}

/// What the controllers are told. Leases live in the release namespace, and each replica holds them by its own name.
fn controllers(raw: &RawSettings, region: &str) -> Result<controllers::Settings, SettingError> {
    let namespace = raw.namespace.as_deref().unwrap_or(NAMESPACE_DEFAULT);
    let pod = raw.pod.as_deref().unwrap_or(NAMESPACE_DEFAULT);
    let mut settings = controllers::Settings::new(region, namespace, &format!("{namespace}/{pod}"));
    let joiner = raw.joiner.clone().unwrap_or(settings.joiner);
    let names = [
        ("POD_NAMESPACE", namespace),
        ("POD_NAME", pod),
        ("--joiner-service-account", joiner.as_str()),
    ];
    for (setting, value) in names {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        if value.is_empty() || value.len() > 253 || !value.chars().all(legal) {
            return Err(SettingError {
                setting,
                problem: format!("{value:?} is not the name of a Kubernetes object"),
                may_be: "what the downward API says".to_owned(),
            });
        }
    }
    settings.joiner = joiner;
    times::set(raw, &mut settings)?;
    settings.collecting = raw.collecting;
    settings.allowed = raw.allowed.clone();
    settings.planning = raw.planning.options;
    settings.batch = raw.planning.batch()?;
    settings.planning_max = raw.planning.longest(settings.planning_max)?;
    settings.breakers = breakers(raw)?;
    Ok(settings)
}

fn cluster_endpoint(written: Option<&str>) -> Result<Option<String>, SettingError> {
    let Some(text) = written else { return Ok(None) };
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '[' | ']');
    let host = text
        .strip_prefix("https://")
        .map(|host| host.trim_end_matches('/'));
    match host.filter(|host| !host.is_empty() && host.chars().all(legal)) {
        Some(host) => Ok(Some(format!("https://{host}"))),
        None => Err(SettingError {
            setting: "--cluster-endpoint",
            problem: format!("{text:?} is not the address of an API server"),
            may_be: "https://host:port, as machines reach it".to_owned(),
        }),
    }
}

fn cluster_dns(written: &[String]) -> Result<Vec<String>, SettingError> {
    let wrong = written
        .iter()
        .find(|text| text.parse::<std::net::IpAddr>().is_err());
    match wrong {
        None => Ok(written.to_vec()),
        Some(text) => Err(SettingError {
            setting: "--cluster-dns",
            problem: format!("{text:?} is not an address"),
            may_be: "the addresses of the cluster's name servers, separated by commas".to_owned(),
        }),
    }
}

fn breakers(raw: &RawSettings) -> Result<Breakers, SettingError> {
    let usual = Breakers::default();
    let bound = |setting, value: Option<u64>, usual| match value {
        None => Ok(usual),
        Some(value) if (1..=BREAKER_MAX).contains(&value) => Ok(value),
        Some(value) => Err(out_of_range(setting, value, format!("1 to {BREAKER_MAX}"))),
    };
    Ok(Breakers {
        machines_max: bound("--max-machines", raw.machines_max, usual.machines_max)?,
        launches_per_hour_max: bound(
            "--max-launches-per-hour",
            raw.launches_per_hour_max,
            usual.launches_per_hour_max,
        )?,
        purchases: raw.purchases,
    })
}

fn region(name: Option<&str>) -> Result<String, SettingError> {
    let known = || builtin::REGIONS.map(|region| region.name).join(", ");
    let wrong = |problem| SettingError {
        setting: "IBMCLOUD_REGION",
        problem,
        may_be: format!("one of {}", known()),
    };
    match name {
        None => Err(wrong("is not set".to_owned())),
        Some(name) if builtin::find_region(name).is_some() => Ok(name.to_owned()),
        Some(name) => Err(wrong(format!("`{name}` is not a region of IBM Cloud VPC"))),
    }
}

fn credentials(raw: &RawSettings) -> Result<Credentials, SettingError> {
    const ONE_OF: &str =
        "set exactly one of IBMCLOUD_API_KEY, IBMCLOUD_API_KEY_FILE or IBMCLOUD_TRUSTED_PROFILE";
    let wrong = |setting, problem: &str| SettingError {
        setting,
        problem: problem.to_owned(),
        may_be: ONE_OF.to_owned(),
    };
    match (&raw.api_key, &raw.api_key_file, &raw.trusted_profile) {
        (None, None, None) => Err(wrong("IBMCLOUD_API_KEY", "there are no credentials")),
        (Some(key), None, None) => given_key(key),
        (None, Some(path), None) => key_file(path),
        (None, None, Some(profile)) => trusted_profile(profile, raw.service_account_token_file.as_ref()),
        _ => Err(wrong(
            "IBMCLOUD_API_KEY",
            "there is more than one kind of credentials",
        )),
    }
}

fn given_key(key: &Secret) -> Result<Credentials, SettingError> {
    if key.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(Credentials::ApiKey(KeySource::Given(key.clone())));
    }
    Err(SettingError {
        setting: "IBMCLOUD_API_KEY",
        problem: "it has spaces or characters that no key has".to_owned(),
        may_be: "the key alone, as IBM Cloud shows it once".to_owned(),
    })
}

fn key_file(path: &Path) -> Result<Credentials, SettingError> {
    let source = KeySource::File(path.to_owned());
    source.read().map_err(|error| SettingError {
        setting: "IBMCLOUD_API_KEY_FILE",
        problem: error.to_string(),
        may_be: "the path of a readable file that holds the API key and nothing else".to_owned(),
    })?;
    Ok(Credentials::ApiKey(source))
}

/// With a ServiceAccount token the pod proves itself, without one the machine does.
fn trusted_profile(profile: &str, token_file: Option<&PathBuf>) -> Result<Credentials, SettingError> {
    let profile = TrustedProfile::parse(profile);
    let Some(token_file) = token_file else {
        return Ok(Credentials::InstanceIdentity {
            profile: Some(profile),
        });
    };
    ibm::iam::credentials::read_secret(token_file).map_err(|error| SettingError {
        setting: "IBMCLOUD_CR_TOKEN_FILE",
        problem: error.to_string(),
        may_be: "the path of a projected ServiceAccount token, or unset to use the machine's own identity"
            .to_owned(),
    })?;
    Ok(Credentials::ServiceAccount {
        token_file: token_file.clone(),
        profile,
    })
}

fn within(
    setting: &'static str,
    value: Option<u32>,
    max: u32,
    default: NonZeroU32,
) -> Result<NonZeroU32, SettingError> {
    let Some(value) = value else { return Ok(default) };
    NonZeroU32::new(value)
        .filter(|value| value.get() <= max)
        .ok_or_else(|| out_of_range(setting, u64::from(value), format!("1 to {max}")))
}

pub(super) fn out_of_range(setting: &'static str, value: u64, may_be: String) -> SettingError {
    SettingError {
        setting,
        problem: format!("{value} is out of range"),
        may_be,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> RawSettings {
        RawSettings {
            api_key: Some(Secret::new("demo-api-key".to_owned())),
            region: Some("us-south".to_owned()),
            ..RawSettings::default()
        }
    }

    fn wrong(raw: &RawSettings) -> SettingError {
        Settings::validate(raw).unwrap_err()
    }

    #[test]
    fn good_settings_need_only_a_key_and_a_region() {
        let settings = Settings::validate(&good()).unwrap();
        assert_eq!(settings.region, "us-south");
        assert_eq!(
            settings.ibm.endpoints.vpc.as_str(),
            "https://us-south.iaas.cloud.ibm.com/v1"
        );
    }

    #[test]
    fn a_wrong_setting_is_named_with_what_it_may_be() {
        let region = wrong(&RawSettings {
            region: Some("us-mars".to_owned()),
            ..good()
        });
        assert_eq!(region.setting, "IBMCLOUD_REGION");
        assert!(region.may_be.contains("us-south"), "{}", region.may_be);
        assert_eq!(
            wrong(&RawSettings {
                region: None,
                ..good()
            })
            .problem,
            "is not set"
        );
        assert_eq!(
            wrong(&RawSettings {
                api_key: None,
                ..good()
            })
            .setting,
            "IBMCLOUD_API_KEY"
        );
        let both = RawSettings {
            trusted_profile: Some("p".to_owned()),
            ..good()
        };
        assert!(wrong(&both).problem.contains("more than one"));
        let missing = RawSettings {
            api_key: None,
            api_key_file: Some("/nonexistent".into()),
            ..good()
        };
        assert_eq!(wrong(&missing).setting, "IBMCLOUD_API_KEY_FILE");
        let clear = Overrides {
            all: Some("http://example.com".to_owned()),
            ..Overrides::default()
        };
        assert_eq!(
            wrong(&RawSettings {
                endpoints: clear,
                ..good()
            })
            .setting,
            "IBMCLOUD_*_ENDPOINT"
        );
    }

    #[test]
    fn a_number_out_of_range_is_refused() {
        let setting = |change: fn(&mut RawSettings)| {
            let mut raw = good();
            change(&mut raw);
            wrong(&raw).setting
        };
        assert_eq!(setting(|raw| raw.burst = Some(0)), "--ibm-burst");
        assert_eq!(
            setting(|raw| raw.deadline_seconds = Some(301)),
            "--ibm-deadline-seconds"
        );
        assert_eq!(
            setting(|raw| raw.resolve_seconds = Some(29)),
            "--nodeclass-resolve-seconds"
        );
        assert_eq!(
            setting(|raw| raw.preemption_hold_seconds = Some(0)),
            "--preemption-hold-seconds"
        );
        assert_eq!(setting(|raw| raw.machines_max = Some(0)), "--max-machines");
        assert_eq!(
            setting(|raw| raw.launches_per_hour_max = Some(100_001)),
            "--max-launches-per-hour"
        );
        assert_eq!(
            setting(|raw| raw.initialization_minutes = Some(4)),
            "--initialization-minutes"
        );
        for seconds in [9, 601] {
            let raw = RawSettings {
                late_create_seconds: Some(seconds),
                ..good()
            };
            assert_eq!(wrong(&raw).setting, "--late-create-seconds");
        }
    }

    #[test]
    fn how_late_an_order_may_be_carried_out_is_a_setting() {
        let late = |late_create_seconds| {
            let raw = RawSettings {
                late_create_seconds,
                ..good()
            };
            Settings::validate(&raw).unwrap().controllers.limits.late_create
        };
        assert_eq!(late(None), Duration::from_mins(1));
        assert_eq!(late(Some(10)), Duration::from_secs(10));
        assert_eq!(late(Some(600)), Duration::from_mins(10));
    }

    #[test]
    fn machines_are_told_an_address_of_the_cluster_and_nothing_else() {
        let endpoint = |text: &str| {
            let raw = RawSettings {
                cluster_endpoint: Some(text.to_owned()),
                ..good()
            };
            Settings::validate(&raw).map(|settings| settings.cluster_endpoint)
        };
        assert_eq!(
            endpoint("https://10.0.0.1:6443/"),
            Ok(Some("https://10.0.0.1:6443".to_owned()))
        );
        for text in ["http://10.0.0.1", "https://a b", "https://user@host", "https://"] {
            assert_eq!(
                endpoint(text).unwrap_err().setting,
                "--cluster-endpoint",
                "{text}"
            );
        }
        let raw = RawSettings {
            cluster_dns: vec!["kube-dns".to_owned()],
            ..good()
        };
        assert_eq!(wrong(&raw).setting, "--cluster-dns");
    }

    #[test]
    fn a_key_with_a_space_is_refused_without_being_shown() {
        let error = wrong(&RawSettings {
            api_key: Some(Secret::new("canary key".to_owned())),
            ..good()
        });
        assert_eq!(error.setting, "IBMCLOUD_API_KEY");
        assert!(!format!("{error:?}").contains("canary key"));
    }

    #[test]
    fn a_trusted_profile_is_assumed_by_the_pod_or_else_by_the_machine() {
        let raw = RawSettings {
            api_key: None,
            trusted_profile: Some("Profile-1".to_owned()),
            ..good()
        };
        let settings = Settings::validate(&raw).unwrap();
        assert!(matches!(
            settings.ibm.credentials,
            Credentials::InstanceIdentity { .. }
        ));
        let raw = RawSettings {
            service_account_token_file: Some("/nonexistent".into()),
            ..raw
        };
        assert_eq!(wrong(&raw).setting, "IBMCLOUD_CR_TOKEN_FILE");
    }
}
