//! How a command reaches IBM Cloud (credentials, region, addresses and limits) and what it takes spot to cost: the same
//! for all that do.
//!
//! Credentials: IBMCLOUD_API_KEY (environment only), IBMCLOUD_API_KEY_FILE, or IBMCLOUD_TRUSTED_PROFILE.

use std::path::PathBuf;

use super::BadInput;
use crate::ibm::endpoints::Overrides;
use crate::ibm::secret::Secret;
use crate::operator::{RawSettings, SettingError};

/// The arguments by which IBM Cloud is reached.
#[derive(Debug, clap::Args)]
pub(super) struct Access {
    /// Region to work in, e.g. us-south
    #[arg(long, env = "IBMCLOUD_REGION")]
    region: Option<String>,
    /// File that holds the API key; it is read again for every token, so the key can be rotated
    #[arg(long, env = "IBMCLOUD_API_KEY_FILE")]
    api_key_file: Option<PathBuf>,
    /// Trusted profile to assume, by id (`Profile-…`) or name
    #[arg(long, env = "IBMCLOUD_TRUSTED_PROFILE")]
    trusted_profile: Option<String>,
    /// Projected ServiceAccount token that may assume the profile; without it the machine's own identity is used
    #[arg(long, env = "IBMCLOUD_CR_TOKEN_FILE")]
    service_account_token_file: Option<PathBuf>,
    /// One address for all IBM services: a simulator (`karpenter-ibm cloud serve`)
    #[arg(long, env = "IBMCLOUD_ENDPOINT")]
    endpoint: Option<String>,
    /// VPC infrastructure service, e.g. the region's private endpoint
    #[arg(long, env = "IBMCLOUD_IS_NG_API_ENDPOINT")]
    vpc_endpoint: Option<String>,
    /// Identity service
    #[arg(long, env = "IBMCLOUD_IAM_API_ENDPOINT")]
    iam_endpoint: Option<String>,
    /// Global Catalog
    #[arg(long, env = "IBMCLOUD_RESOURCE_CATALOG_API_ENDPOINT")]
    catalog_endpoint: Option<String>,
    /// Global Tagging
    #[arg(long, env = "IBMCLOUD_GT_API_ENDPOINT")]
    tagging_endpoint: Option<String>,
    /// Global Search
    #[arg(long, env = "IBMCLOUD_GS_API_ENDPOINT")]
    search_endpoint: Option<String>,
    /// Resource Manager
    #[arg(long, env = "IBMCLOUD_RESOURCE_MANAGEMENT_API_ENDPOINT")]
    resource_manager_endpoint: Option<String>,
    /// Requests to IBM Cloud per second, on average, of the whole process [default: 10]
    #[arg(long)]
    ibm_requests_per_second: Option<u32>,
    /// Requests to IBM Cloud at once [default: 50]
    #[arg(long)]
    ibm_burst: Option<u32>,
    /// How long one request to IBM Cloud may take [default: 30]
    #[arg(long)]
    ibm_deadline_seconds: Option<u64>,
}

/// The arguments that say what spot costs.
#[derive(Debug, clap::Args)]
pub(super) struct Discounts {
    /// Share of the on-demand price that is paid for spot, above 0 and up to 1, or of one series: bxf=0.3. Wins over
    /// the catalogue's prices; may be given several times
    #[arg(long, value_name = "[SERIES=]FACTOR")]
    spot_discount_factor: Vec<String>,
    /// The same in percent, as the Go provider has it
    #[arg(long, env = "KARPENTER_SPOT_DISCOUNT_PERCENT", hide = true)]
    spot_discount_percent: Option<String>,
    /// File with settings that may change while this runs: spotDiscountFactor
    #[arg(long, value_name = "PATH", env = "KARPENTER_CONFIG_FILE")]
    config_file: Option<PathBuf>,
}

impl Discounts {
    /// These settings, with what spot costs.
    pub(super) fn over(self, settings: RawSettings) -> RawSettings {
        RawSettings {
            spot_discount_factors: self.spot_discount_factor,
            spot_discount_percent: self.spot_discount_percent.filter(|percent| !percent.is_empty()),
            config_file: self.config_file.filter(|path| !path.as_os_str().is_empty()),
            ..settings
        }
    }
}

impl Access {
    /// The settings that these are.
    pub(super) fn raw(self) -> RawSettings {
        RawSettings {
            // Never a flag: arguments can be read by every process of the machine.
            api_key: std::env::var("IBMCLOUD_API_KEY")
                .ok()
                .filter(|key| !key.is_empty())
                .map(Secret::new),
            api_key_file: self.api_key_file.filter(|path| !path.as_os_str().is_empty()),
            trusted_profile: self.trusted_profile.filter(|profile| !profile.is_empty()),
            service_account_token_file: self
                .service_account_token_file
                .filter(|path| !path.as_os_str().is_empty()),
            region: self.region.filter(|region| !region.is_empty()),
            endpoints: Overrides {
                all: self.endpoint,
                vpc: self.vpc_endpoint,
                iam: self.iam_endpoint,
                catalog: self.catalog_endpoint,
                tagging: self.tagging_endpoint,
                search: self.search_endpoint,
                resource_manager: self.resource_manager_endpoint,
            },
            requests_per_second: self.ibm_requests_per_second,
            burst: self.ibm_burst,
            deadline_seconds: self.ibm_deadline_seconds,
            ..RawSettings::default()
        }
    }
}

/// A wrong setting as bad input, with what it may be.
pub(super) fn bad_setting(error: &SettingError) -> anyhow::Error {
    BadInput::new(error.to_string()).hint(error.may_be.clone()).into()
}
