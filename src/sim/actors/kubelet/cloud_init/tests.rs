use std::io::Write;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn file(path: &str, content: &str) -> File {
    File {
        path: path.to_owned(),
        content: content.as_bytes().to_vec(),
        placement: Placement::Replace,
    }
}

fn packed(content: &[u8]) -> String {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    BASE64_STANDARD.encode(encoder.finish().unwrap())
}

#[test]
fn a_cloud_config_says_what_to_write_and_what_to_run() {
    let read = parse(
        "#cloud-config
hostname: node-a
packages: [curl]
users:
- name: core
write_files:
- path: /etc/a
  permissions: '0600'
  owner: root:root
  content: |
    one
    two
- path: /etc/b
  content: b25l
  encoding: b64
- {path: /etc/c, content: more, append: true}
bootcmd:
- swapoff -a
runcmd:
- systemctl enable --now kubelet
- [sed, -i, \"s/a/it's/\", 1]
",
    )
    .unwrap();
    assert_eq!(read.hostname.as_deref(), Some("node-a"));
    assert_eq!(
        read.files[..2],
        [file("/etc/a", "one\ntwo\n"), file("/etc/b", "one")]
    );
    assert_eq!(read.files[2].placement, Placement::Append);
    assert_eq!(read.early_scripts, ["#!/bin/sh\nswapoff -a\n"]);
    assert_eq!(
        read.scripts,
        ["#!/bin/sh\nsystemctl enable --now kubelet\n'sed' '-i' 's/a/it'\\''s/' '1'\n"]
    );
}

#[test]
fn a_shell_script_is_run_as_it_is() {
    let text = "#!/bin/bash\nset -e\n";
    assert_eq!(parse(text).unwrap().scripts, [text]);
}

#[test]
fn a_mime_document_holds_several_parts_and_scripts_run_before_runcmd() {
    let script = BASE64_STANDARD.encode("#!/bin/sh\necho 1\n");
    let text = format!(
        "MIME-Version: 1.0\r\nContent-Type: multipart/mixed;\r\n boundary=\"==B==\"\r\n\r\npreamble\r\n--==B==\r\n\
         Content-Type: text/cloud-config; charset=\"us-ascii\"\r\n\r\n#cloud-config\r\nwrite_files:\r\n\
         - path: /a\r\n  content: x\r\nruncmd: [second]\r\n--==B==\r\nContent-Type: text/x-shellscript\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{script}\r\n--==B==\r\nContent-Type: image/png\r\n\r\nxx\r\n\
         --==B==--\r\n"
    );
    let read = parse(&text).unwrap();
    assert_eq!(read.files, [file("/a", "x")]);
    assert_eq!(read.scripts, ["#!/bin/sh\necho 1\n", "#!/bin/sh\nsecond\n"]);
}

#[test]
fn what_cannot_be_read_is_told_and_not_guessed_at() {
    let config = |rest: &str| format!("#cloud-config\n{rest}\n");
    let mime = |rest: &str| format!("Content-Type: multipart/mixed; boundary=B\n\n{rest}");
    let part = "--B\nContent-Type: text/cloud-config\n\nruncmd: [a]\n";
    let table = [
        (String::new(), "there is no user data"),
        ("hello".to_owned(), "unhandled user data"),
        (
            "## template: jinja\n#cloud-config".to_owned(),
            "unhandled user data",
        ),
        (config("write_files: {"), "failed loading yaml blob"),
        (config("write_files:\n- content: x"), "path"),
        (
            config("write_files: [{path: /a, content: '%', encoding: b64}]"),
            "write_files: /a: not base64",
        ),
        (
            config("write_files: [{path: /a, content: b25l, encoding: gz+b64}]"),
            "write_files: /a: not gzip",
        ),
        (config("write_files: [{path: a}]"), "the path is not absolute"),
        (config("runcmd: [{a: b}]"), "runcmd[0] is neither"),
        (mime("--B\n\nx"), "ends before its last boundary"),
        (mime(&format!("{part}{part}--B--\n")), "runcmd is in two"),
    ];
    for (text, expected) in table {
        let said = parse(&text).unwrap_err().to_string();
        assert!(said.contains(expected), "{text:?}: {said}");
    }
}

#[test]
fn parts_are_joined_where_the_document_says_how() {
    let text = "Content-Type: multipart/mixed; boundary=B\n\n--B\n\n#cloud-config\nruncmd: [a]\n--B\n\n\
                #cloud-config\nmerge_how: 'list(append)+dict()+str()'\nruncmd: [b]\n--B--\n";
    assert_eq!(parse(text).unwrap().scripts, ["#!/bin/sh\na\nb\n"]);
    let by_header = text
        .replace("merge_how: 'list(append)+dict()+str()'\n", "")
        .replacen(
            "--B\n\n#cloud-config\nruncmd: [b]",
            "--B\nContent-Type: text/cloud-config\nMerge-Type: list(append)+dict()+str()\n\n#cloud-config\nruncmd: [b]",
            1,
        );
    assert_ne!(by_header, text);
    assert_eq!(parse(&by_header).unwrap().scripts, ["#!/bin/sh\na\nb\n"]);
}

#[test]
fn a_small_file_that_unpacks_to_a_huge_one_is_refused() {
    let bomb = packed(&vec![0; 2 << 20]);
    let text = format!("#cloud-config\nwrite_files: [{{path: /a, content: {bomb}, encoding: gz+b64}}]\n");
    assert!(parse(&text).unwrap_err().to_string().contains("1 MiB"));
}

proptest! {
    #[test]
    fn what_write_files_says_is_what_is_written(
        content in "[ -~\n\t\u{e9}\u{4e16}]{0,200}",
        encoding in prop::sample::select(vec!["", "b64", "base64", "gz+b64", "gzip+base64"]),
    ) {
        let written = match encoding {
            "" => content.clone(),
            "b64" | "base64" => BASE64_STANDARD.encode(&content),
            _ => packed(content.as_bytes()),
        };
        // JSON is YAML.
        let config = json!({"write_files": [{"path": "/a", "encoding": encoding, "content": written}]});
        let read = parse(&format!("#cloud-config\n{config}\n")).unwrap();
        prop_assert_eq!(&read.files[0].content, content.as_bytes());
    }

    #[test]
    fn no_user_data_makes_it_panic(text in "(#cloud-config\n|#!|Content-Type: multipart/mixed; boundary=B\n\n)?[ -~\n]{0,200}") {
        let _ = parse(&text);
    }
}
