#!/usr/bin/env bash
# All tests, in three processes side by side: those on Spark wait a good part of their time. Arguments go to each.
set -uo pipefail
python="${PYTHON:-.venv/bin/python}"
logs="$(mktemp -d)"
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$logs"' EXIT
"$python" -m pytest --durations=15 tests/unit tests/property tests/wire "$@" >"$logs/rest" 2>&1 &
rest=$!
"$python" -m pytest --durations=15 tests/drivers "$@" >"$logs/drivers" 2>&1 &
drivers=$!
"$python" -m pytest --durations=25 tests/spark "$@"
failed=$?
for part in drivers rest; do
    wait "${!part}" || failed=$?
    cat "$logs/$part"
done
exit "$failed"
