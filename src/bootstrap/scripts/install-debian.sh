#!/bin/sh
# Installs kubelet and containerd, unless the image has both.
set -eu
command -v kubelet >/dev/null && command -v containerd >/dev/null && exit 0

cd /var/lib/karpenter-ibm
if [ -f key-address ]; then
    # Minimal images have no curl, but whoever installs packages can also read a file.
    if command -v curl >/dev/null; then
        curl -fsSL --proto =https --retry 10 --retry-connrefused -o packages.asc "$(cat key-address)"
    else
        /usr/lib/apt/apt-helper -o Acquire::Retries=10 download-file "$(cat key-address)" packages.asc
    fi
fi
install -D -m 0644 packages.asc /etc/apt/keyrings/karpenter-ibm.asc
install -D -m 0644 packages.sources /etc/apt/sources.list.d/karpenter-ibm.sources
export DEBIAN_FRONTEND=noninteractive
# Other programs of a first boot hold the lock of apt for minutes.
until apt-get -q -o DPkg::Lock::Timeout=300 update; do sleep 5; done
until apt-get -qy -o DPkg::Lock::Timeout=300 install kubelet containerd; do sleep 5; done
# A kubelet is replaced with its node and never under it.
apt-mark hold kubelet
install -D -m 0644 containerd.toml /etc/containerd/config.toml
systemctl restart containerd
