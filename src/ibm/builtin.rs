//! What was known about profiles, regions and prices when this was built (`data/profiles.csv`).
//!
//! The fallback price table when the catalogue cannot be read, and what the simulator's cloud is made of. Each price
//! carries how certain it is; a figure from here is always shown as built in, never as the catalogue's.

use std::sync::OnceLock;

use crate::money::Price;

/// A region and how its prices relate to us-south's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// `us-south`
    pub name: &'static str,
    /// Price in this region divided by the price in us-south.
    pub price_factor: f64,
    /// How the factor is known.
    pub factor_certainty: Certainty,
}

/// How a figure is known, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// Seen in a raw catalogue body, or in two independent sources.
    Measured,
    /// One capture of the catalogue by somebody else.
    Captured,
    /// The same capture, but not in proportion to its neighbours.
    CapturedOdd,
    /// Computed by a formula fitted on a measured figure.
    Derived,
    /// Extrapolated from neighbours.
    Estimate,
    /// The order of magnitude only.
    Low,
}

impl Certainty {
    /// The word used in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Captured => "captured",
            Self::CapturedOdd => "captured-odd",
            Self::Derived => "derived",
            Self::Estimate => "estimate",
            Self::Low => "low",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [
            Self::Measured,
            Self::Captured,
            Self::CapturedOdd,
            Self::Derived,
            Self::Estimate,
            Self::Low,
        ]
        .into_iter()
        .find(|certainty| certainty.as_str() == word)
    }
}

/// Every region of IBM Cloud VPC. Factors: eu-de, au-syd and br-sao are quotients of catalogue figures, us-east is
/// reported equal to us-south, the others are taken as equal for want of a figure.
pub const REGIONS: [Region; 13] = [
    region("au-syd", 1.22, Certainty::Measured),
    region("br-sao", 1.38, Certainty::Measured),
    region("ca-mon", 1.0, Certainty::Low),
    region("ca-tor", 1.0, Certainty::Low),
    region("eu-de", 1.154, Certainty::Measured),
    region("eu-es", 1.0, Certainty::Low),
    region("eu-gb", 1.0, Certainty::Low),
    region("in-che", 1.0, Certainty::Low),
    region("in-mum", 1.0, Certainty::Low),
    region("jp-osa", 1.0, Certainty::Low),
    region("jp-tok", 1.0, Certainty::Low),
    region("us-east", 1.0, Certainty::Captured),
    region("us-south", 1.0, Certainty::Measured),
];

const fn region(name: &'static str, price_factor: f64, factor_certainty: Certainty) -> Region {
    Region {
        name,
        price_factor,
        factor_certainty,
    }
}

/// The region called `name`.
pub fn find_region(name: &str) -> Option<&'static Region> {
    REGIONS.iter().find(|region| region.name == name)
}

/// One machine profile as documented, with its us-south price.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// `bxf-4x16`
    pub name: &'static str,
    /// `bxf`
    pub series: &'static str,
    /// `balanced`
    pub family: &'static str,
    pub vcpu: u32,
    pub memory_gib: u32,
    pub bandwidth_mbps: u32,
    pub volume_bandwidth_mbps: u32,
    pub network_attachments_max: u32,
    pub numa: Option<u32>,
    /// Instance storage: how many disks, and the size of each in GB.
    pub disks: Option<(u32, u32)>,
    pub gpu: Option<Gpu>,
    /// Permitted shares of a vCPU, in percent.
    pub vcpu_percentages: Vec<u32>,
    /// Whether it may be bought as spot.
    pub spot: bool,
    /// `current` or `previous` generation.
    pub status: &'static str,
    /// us-south, Linux, multi-tenant.
    pub on_demand: Price,
    pub certainty: Certainty,
}

/// The cards of a GPU profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    pub count: u32,
    pub model: &'static str,
    pub manufacturer: &'static str,
    /// Of all cards together.
    pub memory_gib: u32,
}

/// All profiles, in the order of the file.
pub fn profiles() -> &'static [Profile] {
    static PROFILES: OnceLock<Vec<Profile>> = OnceLock::new();
    PROFILES.get_or_init(|| {
        include_str!("data/profiles.csv")
            .lines()
            .skip(1)
            .filter_map(parse)
            .collect()
    })
}

/// The profile called `name`.
pub fn find_profile(name: &str) -> Option<&'static Profile> {
    profiles().iter().find(|profile| profile.name == name)
}

/// One line of the file; a test shows that every line parses.
fn parse(line: &'static str) -> Option<Profile> {
    let cells: Vec<&'static str> = line.split(',').collect();
    let [
        name,
        series,
        family,
        vcpu,
        memory,
        bandwidth,
        volume_bandwidth,
        attachments,
        numa,
        disks,
        gpu_count,
        gpu_model,
        gpu_manufacturer,
        gpu_memory,
        percentages,
        spot,
        status,
        usd,
        certainty,
        _spot_usd,
    ] = cells.as_slice().try_into().ok()?;
    Some(Profile {
        name,
        series,
        family,
        vcpu: vcpu.parse().ok()?,
        memory_gib: memory.parse().ok()?,
        bandwidth_mbps: bandwidth.parse().ok()?,
        volume_bandwidth_mbps: volume_bandwidth.parse().ok()?,
        network_attachments_max: attachments.parse().ok()?,
        numa: numa.parse().ok(),
        disks: disks
            .split_once('x')
            .and_then(|(n, size)| Some((n.parse().ok()?, size.parse().ok()?))),
        gpu: gpu_count.parse().ok().and_then(|count| {
            let memory_gib = gpu_memory.parse().ok()?;
            Some(Gpu {
                count,
                model: gpu_model,
                manufacturer: gpu_manufacturer,
                memory_gib,
            })
        }),
        vcpu_percentages: percentages
            .split_whitespace()
            .filter_map(|share| share.parse().ok())
            .collect(),
        spot: spot == "yes",
        status,
        on_demand: Price::from_usd(usd.parse().ok()?)?,
        certainty: Certainty::parse(certainty)?,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_line_of_the_file_is_a_profile() {
        let lines = include_str!("data/profiles.csv").lines().count() - 1;
        let names: BTreeSet<_> = profiles().iter().map(|profile| profile.name).collect();
        assert_eq!((profiles().len(), names.len()), (lines, lines));
        assert!(lines > 200);
    }

    #[test]
    fn names_say_what_the_columns_say() {
        for profile in profiles() {
            let size = format!("{}-{}x{}", profile.series, profile.vcpu, profile.memory_gib);
            assert!(profile.name.starts_with(&size), "{} is not {size}", profile.name);
            assert_eq!(profile.gpu.is_some(), profile.family == "gpu", "{}", profile.name);
        }
    }

    #[test]
    fn spot_is_for_flex_and_gpu_profiles_only() {
        for profile in profiles() {
            let flex = ["nxf", "bxf", "cxf", "mxf"].contains(&profile.series);
            assert_eq!(profile.spot, flex || profile.gpu.is_some(), "{}", profile.name);
        }
    }
}
