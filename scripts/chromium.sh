#!/bin/sh
# Prints the path of a Chromium for the browser tests: EVENFLOW_CHROMIUM, then those on PATH.
# Where there is none: with --install, installs Debian's if this is root on a system with apt; else says how to get one.
set -eu

say() {
    printf '%s\n' "chromium.sh: $*" >&2
}

find_chromium() {
    for name in "${EVENFLOW_CHROMIUM:-}" chromium chromium-browser google-chrome; do
        if [ -n "$name" ] && command -v "$name" 2>/dev/null; then
            return
        fi
    done
    return 1
}

if find_chromium; then
    exit
fi
if [ "${1:-}" = --install ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing Chromium with apt-get"
    export DEBIAN_FRONTEND=noninteractive
    if apt-get update >&2 && apt-get install -y --no-install-recommends chromium >&2 && find_chromium; then
        exit
    fi
    say "apt-get could not install Chromium"
fi
say "no Chromium found, the browser tests are skipped: install it (apt: sudo apt-get install chromium) or set" \
    "EVENFLOW_CHROMIUM to its path"
exit 1
