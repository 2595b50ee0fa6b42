//! The configuration file: settings that may change while the process runs, as YAML.
//!
//! ```yaml
//! # The share of the on-demand price that is paid for spot: one for all, or for a series. A list gives several.
//! spotDiscountFactor: [0.3, bxf=0.25]
//! ```

use std::path::Path;

use serde_json::Value;

use crate::model::DiscountFactors;

/// More is no configuration file of ours; a wrong path must not fill the memory.
const BYTES_MAX: u64 = 65_536;

const SPOT_DISCOUNT_FACTOR: &str = "spotDiscountFactor";

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFile {
    /// The discount factors that it sets.
    pub spot_discount_factors: DiscountFactors,
}

impl ConfigFile {
    /// Reads a file's text; the error says what is wrong with it. An empty file says nothing, which is fine.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let document: Value =
            serde_saphyr::from_str(text).map_err(|error| format!("is not YAML: {error}"))?;
        let settings = match document {
            Value::Null => return Ok(Self::default()),
            Value::Object(settings) => settings,
            _ => return Err("is not a list of settings with their values".to_owned()),
        };
        let mut file = Self::default();
        for (setting, value) in &settings {
            match setting.as_str() {
                SPOT_DISCOUNT_FACTOR => file.spot_discount_factors = factors(value)?,
                _ => return Err(format!("there is no setting {setting:?}")),
            }
        }
        Ok(file)
    }
}

/// The text of the file; the error says why it cannot be read.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > BYTES_MAX {
        return Err(format!("is longer than {BYTES_MAX} bytes"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// One factor, or several in a list.
fn factors(value: &Value) -> Result<DiscountFactors, String> {
    let values = match value {
        Value::Null => &[],
        Value::Array(values) => values.as_slice(),
        one => std::slice::from_ref(one),
    };
    let texts: Vec<String> = values.iter().map(text).collect();
    DiscountFactors::parse(&texts).map_err(|error| format!("{SPOT_DISCOUNT_FACTOR}: {error}"))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(text: &str) -> DiscountFactors {
        ConfigFile::parse(text).unwrap().spot_discount_factors
    }

    #[test]
    fn one_factor_or_several() {
        let both = DiscountFactors::parse(["0.3", "bxf=0.25"]).unwrap();
        assert_eq!(factors("spotDiscountFactor: [0.3, bxf=0.25]"), both);
        assert_eq!(factors("spotDiscountFactor:\n- 0.3\n- bxf=0.25\n"), both);
        assert_eq!(factors("spotDiscountFactor: 0.3").of("cxf"), both.all);
        assert_eq!(factors("spotDiscountFactor: '0.3'").of("cxf"), both.all);
        for nothing in [
            "",
            "# nothing\n",
            "spotDiscountFactor:",
            "spotDiscountFactor: []",
            "{}",
        ] {
            assert_eq!(factors(nothing), DiscountFactors::default(), "{nothing:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, words) in [
            ("spotDiscountFactor: 1.1", "1.1"),
            ("spotDiscountFactor: true", "true"),
            ("spotDiscountFactor: {bxf: 0.3}", "bxf"),
            ("spotDiscountFactors: 0.3", "no setting \"spotDiscountFactors\""),
            ("- 0.3", "not a list of settings"),
            ("{", "not YAML"),
        ] {
            let problem = ConfigFile::parse(text).unwrap_err();
            assert!(problem.contains(words), "{text}: {problem}");
        }
    }
}
