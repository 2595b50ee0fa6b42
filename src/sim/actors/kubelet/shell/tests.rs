use super::*;

fn metadata() -> Metadata {
    Metadata {
        service: true,
        id: "0717_abc".to_owned(),
        name: "kib-1".to_owned(),
        zone: "us-south-1".to_owned(),
        profile: "bxf-2x8".to_owned(),
    }
}

fn run_with(metadata: &Metadata, disk: &Disk, script: &str) -> (Option<Started>, Vec<String>, String) {
    let mut shell = Shell::new(disk, metadata, "vm");
    shell.run(script);
    (shell.started, shell.said, shell.hostname)
}

#[test]
fn here_documents_become_files_and_only_unquoted_ones_are_expanded() {
    let disk = Disk::default();
    let script = r#"#!/bin/bash
set -euo pipefail
ID=7
cat > /a <<'EOF'
id $ID "q" \
if [ x ]; then
EOF
cat >> /a <<EOF
id ${ID} $(hostname) \$ID "q"
EOF
cat <<-"END" > /b
	tabs
	END
"#;
    run_with(&metadata(), &disk, script);
    assert_eq!(
        disk.text("/a").unwrap(),
        "id $ID \"q\" \\\nif [ x ]; then\nid 7 vm $ID \"q\"\n"
    );
    assert_eq!(disk.text("/b").unwrap(), "tabs\n");
}

#[test]
fn the_metadata_service_tells_the_machine_who_it_is() {
    let script = r#"
TOKEN=$(curl -sf -X PUT "http://169.254.169.254/instance_identity/v1/token?version=2022-03-29" -d '{"a": 1}' | jq -r .access_token)
until ID=$(curl -sf -H "Authorization: Bearer $TOKEN" "https://api.metadata.cloud.ibm.com/metadata/v1/instance?version=2022-03-29" | jq -r '.id'); do sleep 1; done
ZONE=$(curl http://169.254.169.254/metadata/v1/instance | jq -r .zone.name)
sed -i "s|INSTANCE_ID|${ID}|g" /etc/conf; echo "$TOKEN $ZONE" > /zone
"#;
    let disk = Disk::default();
    disk.write("/etc/conf", "--provider-id=ibm:///us-south/INSTANCE_ID");
    run_with(&metadata(), &disk, script);
    assert_eq!(
        disk.text("/etc/conf").unwrap(),
        "--provider-id=ibm:///us-south/0717_abc"
    );
    assert_eq!(disk.text("/zone").unwrap(), "metadata-token us-south-1\n");

    let off = Metadata {
        service: false,
        ..metadata()
    };
    disk.write("/etc/conf", "INSTANCE_ID");
    let (_, said, _) = run_with(&off, &disk, script);
    assert_eq!(disk.text("/etc/conf").unwrap(), "");
    assert!(said[0].contains("the metadata service is off"), "{said:?}");
}

#[test]
fn it_is_noticed_when_a_kubelet_is_started() {
    let service = Some(Started::Service);
    let words = |words: &[&str]| {
        Some(Started::Command(
            words.iter().map(|&word| word.to_owned()).collect(),
        ))
    };
    let table = [
        ("systemctl enable --now kubelet", service.clone()),
        (
            "apt-get update && systemctl restart kubelet.service",
            service.clone(),
        ),
        (
            "systemctl daemon-reload; systemctl start --no-block kubelet",
            service.clone(),
        ),
        ("'systemctl' 'start' 'kubelet'", service),
        ("systemctl enable kubelet", None),
        ("systemctl restart containerd", None),
        ("# systemctl start kubelet", None),
        ("echo systemctl start kubelet", None),
        ("if true; then systemctl start kubelet; fi", None),
        (
            "nohup /usr/bin/kubelet --config=/c --node-labels \"a=b,c=d\" > /log 2>&1 &",
            words(&["--config=/c", "--node-labels", "a=b,c=d"]),
        ),
        (
            "kubelet \\\n  --v=2 \\\n  --config /c",
            words(&["--v=2", "--config", "/c"]),
        ),
    ];
    for (script, expected) in table {
        let (started, ..) = run_with(&metadata(), &Disk::default(), script);
        assert_eq!(started, expected, "{script}");
    }
}

#[test]
fn scripts_on_the_disk_run_and_call_each_other_only_so_deep() {
    let disk = Disk::default();
    disk.write(
        "/join.sh",
        "#!/bin/sh\nA=1\nhostnamectl set-hostname node-$A\n/join.sh\n",
    );
    let (_, _, hostname) = run_with(&metadata(), &disk, "A=2\nbash -x /join.sh\necho $A > /a\n");
    assert_eq!(hostname, "node-1");
    assert_eq!(disk.text("/a").unwrap(), "2\n");
}

#[test]
fn conditionals_are_passed_over_and_said_so() {
    let disk = Disk::default();
    let (_, said, _) = run_with(
        &metadata(),
        &disk,
        "if [ -f /x ]; then\n  echo 1 > /a\nelse\n  echo 2 > /a\nfi\necho 3 >> /b",
    );
    assert_eq!(disk.text("/a"), None);
    assert_eq!(disk.text("/b").as_deref(), Some("3\n"));
    assert_eq!(said, ["passed over: if [ -f /x ]"]);
}

proptest::proptest! {
    #[test]
    fn no_script_makes_it_panic(script in "[a-z$(){}'\"\\\\;&|<> \n=/#-]{0,120}") {
        run_with(&metadata(), &Disk::default(), &script);
    }
}
