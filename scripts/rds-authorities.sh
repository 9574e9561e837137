#!/usr/bin/env bash
# Renews the authorities of Amazon RDS that every function trusts when it connects to the database.
# Takes AWS's bundle of all regions (or a PEM file given as the first argument), leaves out expired
# certificates and those that are not for production, and writes the rest in a stable order, so that
# the diff is readable.
set -euo pipefail
cd "$(dirname "$0")/.."

bundle=https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem
target=shared/ingest/catalog/certificates/rds.pem
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if (($#)); then
  cp "$1" "$work/bundle.pem"
else
  curl --fail --silent --show-error --location --max-time 60 --output "$work/bundle.pem" "$bundle"
fi
tr -d '\r' <"$work/bundle.pem" |
  awk -v dir="$work" '/-----BEGIN CERTIFICATE-----/ { n++ } n { print > sprintf("%s/%04d.crt", dir, n) }'

kept=0
for certificate in "$work"/*.crt; do
  subject=$(openssl x509 -in "$certificate" -noout -subject -nameopt multiline | sed -n 's/^ *commonName *= //p')
  case $subject in
  "Amazon RDS Beta "* | "Amazon RDS Preview "*) continue ;;
  "Amazon RDS "*) ;;
  *)
    echo "Not an authority of Amazon RDS: ${subject:-a certificate without a name}. The list is unchanged." >&2
    exit 1
    ;;
  esac
  openssl x509 -in "$certificate" -noout -checkend 0 >/dev/null || continue
  { echo "# $subject" && openssl x509 -in "$certificate"; } >"$work/$subject.kept"
  kept=$((kept + 1))
done
((kept > 0)) || { echo "All certificates have expired. The list is unchanged." >&2 && exit 1; }

find "$work" -name '*.kept' -print0 | LC_ALL=C sort -z | xargs -0 cat >"$target"
echo "$target has $kept authorities."
