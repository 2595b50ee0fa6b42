//! A secret cannot be printed, logged or serialized; it can only be exposed on purpose.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

/// An API key, a token, or a text that holds one. Wiped from memory when dropped.
///
/// ```compile_fail
/// let secret = karpenter_ibm::secret::Secret::new("key".to_owned());
/// serde_json::to_string(&secret); // Secret is not Serialize
/// ```
///
/// ```compile_fail
/// let secret = karpenter_ibm::secret::Secret::new("key".to_owned());
/// format!("{secret}"); // Secret is not Display
/// ```
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes ownership of the text.
    pub fn new(text: String) -> Self {
        Self(SecretString::from(text))
    }

    /// The text itself. Each caller answers for where it goes.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl PartialEq for Secret {
    /// Only for our own bookkeeping (is it still the token I used?), never to check a caller's secret.
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_does_not_hold_the_text() {
        let text = format!("{:?}", Some(Secret::new("canary".to_owned())));
        assert_eq!(text, "Some(Secret(…))");
    }
}
