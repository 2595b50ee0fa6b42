//! MIME documents: several pieces of user data in one.

use super::{CloudInitError, Part, unbase64};

/// Whether a text is a MIME document.
pub(super) fn is_mime(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default().to_ascii_lowercase();
    first.starts_with("content-type: multipart/") || first.starts_with("mime-version:")
}

/// The parts that a machine has to do with; others are passed over, as cloud-init does.
pub(super) fn parts(text: &str) -> Result<Vec<Part>, CloudInitError> {
    let malformed = |problem: &str| CloudInitError::Mime(problem.to_owned());
    let text = text.replace("\r\n", "\n");
    let (head, body) = text.split_once("\n\n").ok_or_else(|| malformed("has no body"))?;
    let kind = header(head, "content-type").unwrap_or_default();
    let boundary = parameter(&kind, "boundary").ok_or_else(|| malformed("names no boundary"))?;
    let (open, close) = (format!("--{boundary}"), format!("--{boundary}--"));
    let mut found: Vec<Part> = Vec::new();
    let mut current: Option<Vec<&str>> = None;
    for line in body.lines() {
        let mark = line.trim_end();
        if mark == open || mark == close {
            let lines = current.take().unwrap_or_default();
            found.extend(part(&lines)?);
            if mark == close {
                return Ok(found);
            }
            current = Some(Vec::new());
        } else if let Some(lines) = &mut current {
            lines.push(line);
        }
    }
    Err(malformed("ends before its last boundary"))
}

fn part(lines: &[&str]) -> Result<Option<Part>, CloudInitError> {
    if lines.is_empty() {
        return Ok(None);
    }
    let blank = lines
        .iter()
        .position(|line| line.trim().is_empty())
        .unwrap_or(lines.len());
    let head = lines[..blank].join("\n");
    let mut body = lines.get(blank + 1..).unwrap_or_default().join("\n");
    body.push('\n');
    let encoding = header(&head, "content-transfer-encoding").unwrap_or_default();
    let body = match encoding.to_ascii_lowercase().as_str() {
        "" | "7bit" | "8bit" | "binary" => body,
        "base64" => unbase64(&body)
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .ok_or_else(|| CloudInitError::Mime("has a part that is not base64 of text".to_owned()))?,
        other => {
            let problem = format!("has a part in {other}, which is not read here");
            return Err(CloudInitError::Mime(problem));
        }
    };
    let kind = header(&head, "content-type").unwrap_or_default();
    let kind = kind
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let merge = header(&head, "merge-type").or_else(|| header(&head, "x-merge-type"));
    Ok(match kind.as_str() {
        "text/cloud-config" => Some(match merge {
            Some(how) => Part::Merged(body, how),
            None => Part::Config(body),
        }),
        "text/x-shellscript" => Some(Part::Script(body)),
        "text/cloud-boothook" => Some(Part::Boothook(body)),
        _ => Part::guess(&body),
    })
}

/// The value of a header, its continuation lines included.
fn header(head: &str, name: &str) -> Option<String> {
    let unfolded = head.replace("\n ", " ").replace("\n\t", " ");
    unfolded.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim()
            .eq_ignore_ascii_case(name)
            .then(|| value.trim().to_owned())
    })
}

/// A parameter of a header, with or without quotes.
fn parameter(value: &str, name: &str) -> Option<String> {
    value.split(';').skip(1).find_map(|parameter| {
        let (key, value) = parameter.split_once('=')?;
        key.trim()
            .eq_ignore_ascii_case(name)
            .then(|| value.trim().trim_matches('"').to_owned())
    })
}
