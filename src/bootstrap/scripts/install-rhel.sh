#!/bin/sh
# Installs kubelet and containerd, unless the image has both.
set -eu
command -v kubelet >/dev/null && command -v containerd >/dev/null && exit 0

cd /var/lib/karpenter-ibm
install -D -m 0644 packages.repo /etc/yum.repos.d/karpenter-ibm.repo
# Some repositories call it containerd.io.
until dnf -y install kubelet containerd || dnf -y install kubelet containerd.io; do sleep 5; done
install -D -m 0644 containerd.toml /etc/containerd/config.toml
systemctl restart containerd
