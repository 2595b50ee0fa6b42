//! The words of the API: names, labels, ports, keys. Each judge returns every objection that it has.

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

fn objections(list: &[(bool, &'static str)]) -> Vec<&'static str> {
    let applying = list.iter().filter(|(applies, _)| *applies);
    applying.map(|(_, objection)| *objection).collect()
}

/// Lower case letters, digits and inner dashes.
fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Letters, digits and inner dashes, underscores and dots.
fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.bytes().all(inner) && edge(text.bytes().next()) && edge(text.bytes().last())
}

/// An RFC 1123 label: names of containers, namespaces, volumes.
pub fn label(text: &str) -> Vec<&'static str> {
    objections(&[
        (text.len() > 63, "must be no more than 63 bytes"),
        (!is_label(text), LABEL),
    ])
}

/// An RFC 1035 label, which does not start with a digit.
pub fn label_1035(text: &str) -> Vec<&'static str> {
    let starts = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    objections(&[
        (text.len() > 63, "must be no more than 63 bytes"),
        (!is_label(text) || !starts, LABEL_1035),
    ])
}

/// An RFC 1123 subdomain: the names of most objects.
pub fn subdomain(text: &str) -> Vec<&'static str> {
    objections(&[
        (text.len() > 253, "must be no more than 253 bytes"),
        (!text.split('.').all(is_label), SUBDOMAIN),
    ])
}

/// A subdomain that leaves room for what a cron job's jobs append to it.
pub fn cron_job_name(text: &str) -> Vec<&'static str> {
    let mut found = subdomain(text);
    found.extend(objections(&[(
        text.len() > 52,
        "must be no more than 52 characters",
    )]));
    found
}

/// A name that only has to be one part of a path: the names of roles.
pub fn path_segment(text: &str) -> Vec<&'static str> {
    objections(&[
        (text == "." || text == "..", "may not be '.' or '..'"),
        (text.contains('/'), "may not contain '/'"),
        (text.contains('%'), "may not contain '%'"),
    ])
}

/// A name with an optional domain before a slash: label keys, resources, conditions.
pub fn qualified_name(text: &str) -> Vec<&'static str> {
    let parts: Vec<&str> = text.split('/').collect();
    let (prefix, name) = match parts.as_slice() {
        [name] => (None, *name),
        [prefix, name] => (Some(*prefix), *name),
        _ => {
            return vec![
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
            ];
        }
    };
    let prefix_wrong = |prefix: &str| !prefix.is_empty() && !subdomain(prefix).is_empty();
    objections(&[
        (prefix == Some(""), "prefix part must be non-empty"),
        (
            prefix.is_some_and(prefix_wrong),
            "prefix part must be a lowercase RFC 1123 subdomain",
        ),
        (name.is_empty(), "name part must be non-empty"),
        (name.len() > 63, "name part must be no more than 63 bytes"),
        (!is_name(name), NAME_PART),
    ])
}

/// The value of a label.
pub fn label_value(text: &str) -> Vec<&'static str> {
    objections(&[
        (text.len() > 63, "must be no more than 63 bytes"),
        (!text.is_empty() && !is_name(text), LABEL_VALUE),
    ])
}

/// The name of a container's or service's port.
pub fn port_name(text: &str) -> Vec<&'static str> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    objections(&[
        (text.len() > 15, "must be no more than 15 bytes"),
        (
            !text.bytes().all(allowed),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (
            !text.bytes().any(|byte| byte.is_ascii_lowercase()),
            "must contain at least one letter (a-z)",
        ),
        (text.contains("--"), "must not contain consecutive hyphens"),
        (
            text.starts_with('-') || text.ends_with('-'),
            "must not begin or end with a hyphen",
        ),
    ])
}

/// The name of an environment variable.
pub fn variable_name(text: &str) -> Vec<&'static str> {
    let printable = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    objections(&[(
        !text.bytes().all(printable),
        "a valid environment variable name must consist only of printable ASCII characters other than '='",
    )])
}

/// A key of a ConfigMap or Secret.
pub fn config_key(text: &str) -> Vec<&'static str> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    objections(&[
        (text.len() > 253, "must be no more than 253 bytes"),
        (text.is_empty() || !text.bytes().all(allowed), CONFIG_KEY),
        (text == ".", "must not be '.'"),
        (text == "..", "must not be '..'"),
        (
            text.starts_with("..") && text.len() > 2,
            "must not start with '..'",
        ),
    ])
}

/// An IP address of either family.
pub fn address(text: &str) -> Vec<&'static str> {
    objections(&[(
        text.parse::<std::net::IpAddr>().is_err(),
        "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    )])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_judged_by_their_kind() {
        type Judge = fn(&str) -> Vec<&'static str>;
        let table: [(Judge, &[&str], &[&str]); 8] = [
            (label, &["a", "a-b", "1"], &["", "A", "a.b", "-a", "a-", "a_b"]),
            (label_1035, &["a", "a1"], &["1a", "a.b", ""]),
            (subdomain, &["a", "a.b", "a-1.b"], &["", "a..b", "A", "a_b", ".a"]),
            (
                qualified_name,
                &["a", "a/b", "a.b/C_d", "A"],
                &["", "/a", "a/", "a b", "a/b/c", "A.b/c", "-a"],
            ),
            (label_value, &["", "a", "A.b_c-d"], &["-a", "a b", "a/"]),
            (port_name, &["a", "http-1"], &["", "1", "A", "a--b", "-a"]),
            (
                config_key,
                &["a", ".a", "A_b-c.d"],
                &["", ".", "..", "..a", "a/b"],
            ),
            (path_segment, &["a", "system:x:Y", ""], &[".", "..", "a/b", "a%b"]),
        ];
        for (judge, right, wrong) in table {
            for text in right {
                assert_eq!(judge(text), Vec::<&str>::new(), "{text}");
            }
            for text in wrong {
                assert!(!judge(text).is_empty(), "{text}");
            }
        }
    }
}
