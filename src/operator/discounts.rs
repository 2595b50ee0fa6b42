//! Where discount factors come from, from strongest to weakest: `--spot-discount-factor`, the configuration file,
//! `KARPENTER_SPOT_DISCOUNT_PERCENT`. What a stronger one does not say, a weaker one may.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::config_file::{self, ConfigFile};
use super::settings::{RawSettings, SettingError};
use crate::clock::Clock;
use crate::controllers::Discounts;
use crate::model::{DiscountFactors, Factor};

/// How often the file is looked at, usually. A mounted ConfigMap takes about a minute to change, so sooner helps nobody.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The discount factors as they were set, and the file that may set others.
#[derive(Clone, Debug)]
pub struct DiscountSettings {
    /// How often the file is looked at.
    pub look_every: Duration,
    flags: DiscountFactors,
    percent: DiscountFactors,
    file: Option<PathBuf>,
    /// The file's content when it was first read.
    first: Option<String>,
}

impl DiscountSettings {
    pub(super) fn validate(raw: &RawSettings) -> Result<Self, SettingError> {
        let flags = DiscountFactors::parse(&raw.spot_discount_factors).map_err(|error| SettingError {
            setting: "--spot-discount-factor",
            problem: error.to_string(),
            may_be: "the share of the on-demand price that is paid for spot, like 0.3, or of one series, like bxf=0.3"
                .to_owned(),
        })?;
        let percent = DiscountFactors {
            all: raw.spot_discount_percent.as_deref().map(percent).transpose()?,
            ..DiscountFactors::default()
        };
        let first = raw.config_file.as_deref().map(readable).transpose()?;
        Ok(Self {
            look_every: LOOK_EVERY,
            flags,
            percent,
            file: raw.config_file.clone(),
            first,
        })
    }

    /// The factors that hold at the start.
    pub fn at_start(&self) -> DiscountFactors {
        // Judged when the settings were; a file that has become bad since then is reported by whoever follows it.
        let file = self
            .first
            .as_deref()
            .and_then(|text| ConfigFile::parse(text).ok());
        self.with(&file.unwrap_or_default())
    }

    fn with(&self, file: &ConfigFile) -> DiscountFactors {
        self.flags.over(&file.spot_discount_factors).over(&self.percent)
    }

    /// Keeps `discounts` at what the file says, for as long as this is polled. A file that is bad or gone changes
    /// nothing, and is spoken of once.
    pub async fn follow(&self, discounts: &Discounts, clock: &Clock) {
        let Some(path) = &self.file else {
            return std::future::pending().await;
        };
        let mut last = self.first.clone().ok_or_else(String::new);
        loop {
            clock.sleep(self.look_every).await;
            let now = config_file::read(path);
            if now != last {
                self.take(discounts, path, now.as_deref());
                last = now;
            }
        }
    }

    fn take(&self, discounts: &Discounts, path: &Path, text: Result<&str, &String>) {
        let file = text.map_err(Clone::clone).and_then(ConfigFile::parse);
        match file {
            Ok(file) => {
                let factors = self.with(&file);
                tracing::info!(path = %path.display(), ?factors, "the configuration file has changed");
                discounts.set(factors);
            }
            Err(problem) => {
                tracing::warn!(path = %path.display(), problem, "the configuration file is bad; what it said before holds");
            }
        }
    }
}

/// The Go provider's setting: its name says discount, its value is the share that is paid.
fn percent(text: &str) -> Result<Factor, SettingError> {
    let percent = text.trim().parse().ok().and_then(Factor::from_percent);
    percent.ok_or_else(|| SettingError {
        setting: "KARPENTER_SPOT_DISCOUNT_PERCENT",
        problem: format!("{text:?} is not a percentage"),
        may_be: "the share of the on-demand price that is paid for spot, 1 to 100".to_owned(),
    })
}

/// The text of a file that is good.
fn readable(path: &Path) -> Result<String, SettingError> {
    let text = config_file::read(path).and_then(|text| ConfigFile::parse(&text).map(|_| text));
    text.map_err(|problem| SettingError {
        setting: "--config-file",
        problem: format!("{}: {problem}", path.display()),
        may_be: "the path of a YAML file like `spotDiscountFactor: [0.3, bxf=0.25]`".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of its own that goes with this.
    struct File(PathBuf);

    impl File {
        fn new(name: &str, text: &str) -> Self {
            let path = std::env::temp_dir().join(format!("karpenter-ibm-{name}-{}", std::process::id()));
            std::fs::write(&path, text).unwrap();
            Self(path)
        }

        fn write(&self, text: &str) {
            std::fs::write(&self.0, text).unwrap();
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn raw(flags: &[&str], percent: Option<&str>, file: Option<&File>) -> RawSettings {
        RawSettings {
            spot_discount_factors: flags.iter().map(|&flag| flag.to_owned()).collect(),
            spot_discount_percent: percent.map(str::to_owned),
            config_file: file.map(|file| file.0.clone()),
            ..RawSettings::default()
        }
    }

    fn factors(texts: &[&str]) -> DiscountFactors {
        DiscountFactors::parse(texts).unwrap()
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_the_percentage() {
        let file = File::new("order", "spotDiscountFactor: [0.5, bxf=0.4, cxf=0.4]");
        let settings = DiscountSettings::validate(&raw(&["bxf=0.3"], Some("60"), Some(&file))).unwrap();
        assert_eq!(settings.at_start(), factors(&["0.5", "bxf=0.3", "cxf=0.4"]));
        let settings = DiscountSettings::validate(&raw(&["bxf=0.3"], Some("60"), None)).unwrap();
        assert_eq!(settings.at_start(), factors(&["0.6", "bxf=0.3"]));
        let nothing = DiscountSettings::validate(&RawSettings::default()).unwrap();
        assert_eq!(nothing.at_start(), DiscountFactors::default());
    }

    #[test]
    fn a_wrong_factor_is_named_with_what_it_may_be() {
        let wrong = |raw: &RawSettings| DiscountSettings::validate(raw).unwrap_err().setting;
        assert_eq!(wrong(&raw(&["1.5"], None, None)), "--spot-discount-factor");
        assert_eq!(
            wrong(&raw(&[], Some("0"), None)),
            "KARPENTER_SPOT_DISCOUNT_PERCENT"
        );
        assert_eq!(
            wrong(&raw(&[], Some("0.6"), None)),
            "KARPENTER_SPOT_DISCOUNT_PERCENT"
        );
        let file = File::new("wrong", "spotDiscountFactor: 2");
        assert_eq!(wrong(&raw(&[], None, Some(&file))), "--config-file");
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_takes_effect_and_a_bad_one_changes_nothing() {
        let file = File::new("follow", "spotDiscountFactor: 0.5");
        let settings = DiscountSettings::validate(&raw(&[], None, Some(&file))).unwrap();
        let clock = Clock::simulated("2026-11-16T00:00:00Z".parse().unwrap());
        let discounts = Discounts::new(settings.at_start());
        let story = async {
            for (text, expected) in [
                ("spotDiscountFactor: 0.4", "0.4"),
                ("spotDiscountFactor: lots", "0.4"),
                ("spotDiscountFactor: 0", "0.4"),
                ("{", "0.4"),
                ("spotDiscountFactor: 0.2", "0.2"),
            ] {
                file.write(text);
                clock.sleep(LOOK_EVERY * 2).await;
                assert_eq!(discounts.current(), factors(&[expected]), "{text}");
            }
            std::fs::remove_file(&file.0).unwrap();
            clock.sleep(LOOK_EVERY * 2).await;
            assert_eq!(
                discounts.current(),
                factors(&["0.2"]),
                "an error is not an absence"
            );
            file.write("");
            clock.sleep(LOOK_EVERY * 2).await;
            assert_eq!(discounts.current(), DiscountFactors::default());
        };
        tokio::select! {
            biased;
            () = settings.follow(&discounts, &clock) => panic!("nobody follows the file any more"),
            () = story => {}
        }
    }
}
