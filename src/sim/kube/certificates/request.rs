//! Requests for certificates (PKCS#10): read as a signer sees them, and written as a kubelet does.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer;

use crate::sim::kube::identity::der::{self, Criticality, oid};
use crate::sim::kube::identity::keys::{Key, algorithm, pem};

/// A request, with its signature checked: whoever wrote it has the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pkcs10 {
    /// Who wants to be certified.
    pub common_name: String,
    /// In which groups.
    pub organizations: Vec<String>,
    /// For which other names, by their kind.
    pub names: Names,
    /// The subject as DER.
    pub subject: Vec<u8>,
    /// The public key as DER.
    pub public_key: Vec<u8>,
    /// The alternative names as DER.
    pub alternative_names: Option<Vec<u8>>,
}

/// How many alternative names of each kind a request has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Host names.
    pub dns: usize,
    /// Addresses.
    pub ip: usize,
    /// Mail addresses.
    pub email: usize,
    /// Anything with a scheme.
    pub uri: usize,
}

/// Why a request cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    NotPem,
    #[error("the request cannot be read: {0}")]
    Unreadable(String),
    #[error("the signature of the request does not match its key")]
    Signature,
}

impl Pkcs10 {
    /// The request inside a CertificateSigningRequest.
    pub fn of(csr: &Value) -> Result<Self, RequestError> {
        let encoded = csr["spec"]["request"].as_str().unwrap_or_default();
        let text = BASE64_STANDARD
            .decode(encoded)
            .map_err(|_| RequestError::NotPem)?;
        Self::read(&text)
    }

    /// Reads a request from PEM.
    pub fn read(text: &[u8]) -> Result<Self, RequestError> {
        let (_, block) = parse_x509_pem(text).map_err(|_| RequestError::NotPem)?;
        if block.label != "CERTIFICATE REQUEST" {
            return Err(RequestError::NotPem);
        }
        let (_, request) = X509CertificationRequest::from_der(&block.contents)
            .map_err(|error| RequestError::Unreadable(error.to_string()))?;
        request.verify_signature().map_err(|_| RequestError::Signature)?;
        let info = &request.certification_request_info;
        let organizations = info.subject.iter_organization();
        let common_names = info.subject.iter_common_name();
        let mut read = Self {
            common_name: common_names
                .filter_map(|part| part.as_str().ok())
                .last()
                .unwrap_or_default()
                .to_owned(),
            organizations: organizations
                .filter_map(|part| part.as_str().ok())
                .map(str::to_owned)
                .collect(),
            subject: info.subject.as_raw().to_vec(),
            public_key: info.subject_pki.raw.to_vec(),
            ..Self::default()
        };
        for attribute in info.attributes() {
            let ParsedCriAttribute::ExtensionRequest(wanted) = attribute.parsed_attribute() else {
                continue;
            };
            for extension in &wanted.extensions {
                if let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() {
                    read.names = Names::count(&names.general_names);
                    read.alternative_names = Some(extension.value.to_vec());
                }
            }
        }
        Ok(read)
    }
}

impl Names {
    fn count(names: &[GeneralName<'_>]) -> Self {
        let mut counted = Self::default();
        for name in names {
            match name {
                GeneralName::DNSName(_) => counted.dns += 1,
                GeneralName::IPAddress(_) => counted.ip += 1,
                GeneralName::RFC822Name(_) => counted.email += 1,
                GeneralName::URI(_) => counted.uri += 1,
                _ => {}
            }
        }
        counted
    }
}

/// Writes a request as PEM; `names` are host names and addresses.
pub fn write(key: &Key, common_name: &str, organizations: &[&str], names: &[&str]) -> String {
    let attributes = if names.is_empty() {
        Vec::new()
    } else {
        let extension = der::extension(
            oid::SUBJECT_ALTERNATIVE_NAME,
            Criticality::Optional,
            &der::alternative_names(names),
        );
        let extensions = der::set(&[&der::sequence(&[&extension])]);
        der::sequence(&[&der::object_identifier(oid::EXTENSION_REQUEST), &extensions])
    };
    let info = der::sequence(&[
        &der::integer(&[0]),
        &der::subject(common_name, organizations),
        &key.public_info(),
        &der::explicit(0, &attributes),
    ]);
    let signature = der::bits(&key.sign(&info));
    pem(
        "CERTIFICATE REQUEST",
        &der::sequence(&[&info, &algorithm(), &signature]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::kube::identity::Keys;

    /// Made with OpenSSL: P-256, `O=system:nodes, CN=system:node:a`, `DNS:a.example, IP:10.0.0.1`.
    const ECDSA: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIIBFzCBvgIBADAvMRUwEwYDVQQKDAxzeXN0ZW06bm9kZXMxFjAUBgNVBAMMDXN5
c3RlbTpub2RlOmEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQGSqZvb/9WCSZd
t1BXAIekCF5sG1PJiWZ+avlydL4RQlz5T9QPKb/TvGy0Jygs8504lyoOs2boEQZl
arFsezDPoC0wKwYJKoZIhvcNAQkOMR4wHDAaBgNVHREEEzARgglhLmV4YW1wbGWH
BAoAAAEwCgYIKoZIzj0EAwIDSAAwRQIgayI1ir+Bt6X3atDSXQZ1rq4zWEt6ZfUx
9EhPqe5Lx18CIQCea/nHZhQHFF3Hpyiy8M7WOL4sbDpeaUf4I+OFHt6vGw==
-----END CERTIFICATE REQUEST-----
";

    /// Made with OpenSSL: RSA, `O=team-a, O=team-b, CN=jane`.
    const RSA: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIICdjCCAV4CAQAwMTEPMA0GA1UECgwGdGVhbS1hMQ8wDQYDVQQKDAZ0ZWFtLWIx
DTALBgNVBAMMBGphbmUwggEiMA0GCSqGSIb3DQEBAQUAA4IBDwAwggEKAoIBAQCS
Ddt/Bk/enRnvFqbnV2afzUj5sdASQzuhoOM6N1VRFWNXbutWHUO/PUQrv7lKueB9
aJcLI/xqhOMoMSw4IG8GfXe0sf6AL2tzsNF/spNoiot8MseHatphboVYIk4R/1zA
4ejZUdHrxPLwW27fe+db/e26ubsxG0239dUVxBnlQAVAOoR0+at1ZS2sS2xk7W+a
r+nOq/x7IJdVX7ItpHucEF8ogxo6JuzACF+cmQ6ABhSguKhFBg8o31F5Z21X5n19
UZtbQUZp+0DDnjtfsuRi4uyD/JAxEdoOMGEVg1K2dGe7MY+gWpUT0zwjujYetuy6
JRdZb641q6Uc417oC5vHAgMBAAGgADANBgkqhkiG9w0BAQsFAAOCAQEAUcVEatnL
ahwN9+H4Mw/QXWOVG31xmTS3pd5/17umsG0NInFOX58zZYUAYBEnQN5FSk/60mQH
eg9d53P1wmF9MsHAvIKb1cIanDUWL91eIIQfVT8sNJ2lS/sR/QT0r1b+A1QQTj56
waS4f8kJ8G6OqMk7+IemYrd51xhEH0GWt9/c46OcXlBRc0AA3XX95OHY+K2F1RUG
Eeeo/wY+56nkdAuzJBCnV0K5XtRYJYILTH5aiRUz7uzNe/wEkUChFNc72olviAoN
d2+/EWhGPQxHIx363u0E6rgVD26XSMOMLIMD9mlQwFQ4q2y58E/QEWX7twFz2zuZ
g6lSNzJqVY4T/Q==
-----END CERTIFICATE REQUEST-----
";

    #[test]
    fn requests_of_other_tools_are_understood() {
        let request = Pkcs10::read(ECDSA.as_bytes()).unwrap();
        assert_eq!(request.common_name, "system:node:a");
        assert_eq!(request.organizations, ["system:nodes"]);
        let names = Names {
            dns: 1,
            ip: 1,
            ..Names::default()
        };
        assert_eq!(request.names, names);
        assert_eq!(
            request.alternative_names,
            Some(der::alternative_names(&["a.example", "10.0.0.1"]))
        );
        let request = Pkcs10::read(RSA.as_bytes()).unwrap();
        assert_eq!(request.organizations, ["team-a", "team-b"]);
        assert_eq!(request.alternative_names, None);
    }

    #[test]
    fn what_is_written_can_be_read() {
        let key = Key::new(Keys::Fixed, "kubelet");
        let text = write(&key, "system:node:b", &["system:nodes"], &["b.example", "::1"]);
        let request = Pkcs10::read(text.as_bytes()).unwrap();
        assert_eq!(request.common_name, "system:node:b");
        assert_eq!((request.names.dns, request.names.ip), (1, 1));
        assert_eq!(request.public_key, key.public_info());
    }

    #[test]
    fn a_request_of_another_kind_or_with_a_broken_signature_is_refused() {
        assert_eq!(Pkcs10::read(b"nonsense"), Err(RequestError::NotPem));
        let certificate = ECDSA.replace("CERTIFICATE REQUEST", "CERTIFICATE");
        assert_eq!(Pkcs10::read(certificate.as_bytes()), Err(RequestError::NotPem));
        let stolen = ECDSA.replace("vGw==", "vGg==");
        assert!(Pkcs10::read(stolen.as_bytes()).is_err());
        let (block, _) = RSA.split_once("T/Q==").unwrap();
        let altered = format!("{block}T/A==\n-----END CERTIFICATE REQUEST-----\n");
        assert_eq!(Pkcs10::read(altered.as_bytes()), Err(RequestError::Signature));
    }
}
