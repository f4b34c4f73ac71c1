#!/usr/bin/env bash
# Takes uPlot of the given version from npm into the files of the live page: scripts/vendor.sh [version]
set -euo pipefail
version="${1:-1.6.32}"
target="$(cd "$(dirname "$0")/.." && pwd)/src/evenflow/dashboard/static/vendor"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent "uplot@$version" >/dev/null && tar xzf "uplot-$version.tgz")
mkdir -p "$target"
cp "$work/package/dist/uPlot.iife.min.js" "$work/package/dist/uPlot.min.css" "$target/"
cp "$work/package/LICENSE" "$target/uPlot.LICENSE"
echo "uPlot $version: $(cd "$target" && sha256sum uPlot.iife.min.js | cut -c 1-16)"
