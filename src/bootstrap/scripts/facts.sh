#!/bin/sh
# Writes down what only the machine itself knows: the id of its instance, which is part of the provider id, and where
# its own name servers are written, which with systemd-resolved is not the usual place.
set -eu
form='[0-9a-z]{4}_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'
id=$(grep -Exs "$form" /var/lib/cloud/data/instance-id || true)
until [ -n "$id" ]; do
    token=$(curl -sS -m 5 -X PUT -H 'Metadata-Flavor: ibm' -d '{"expires_in": 300}' 'https://api.metadata.cloud.ibm.com/instance_identity/v1/token?version=2022-03-29' | sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p')
    # Ids of other kinds have no underscore, so the first of this form is that of the instance.
    id=$(curl -sS -m 5 -H "Authorization: Bearer $token" 'https://api.metadata.cloud.ibm.com/metadata/v1/instance?version=2022-03-29' | grep -Eo "$form" | head -n 1)
    [ -n "$id" ] || sleep 2
done
names=/etc/resolv.conf
if [ -e /run/systemd/resolve/resolv.conf ]; then
    names=/run/systemd/resolve/resolv.conf
fi
mkdir -p /etc/karpenter-ibm
printf 'INSTANCE_ID=%s\nRESOLV_CONF=%s\n' "$id" "$names" > /etc/karpenter-ibm/facts.env
