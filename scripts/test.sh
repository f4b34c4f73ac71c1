#!/usr/bin/env bash
# All tests, in two processes side by side: those on Spark wait a good part of their time. Arguments go to both.
set -uo pipefail
python="${PYTHON:-.venv/bin/python}"
log="$(mktemp)"
"$python" -m pytest --durations=15 tests/unit tests/property tests/wire "$@" >"$log" 2>&1 &
rest=$!
trap 'kill "$rest" 2>/dev/null; rm -f "$log"' EXIT
"$python" -m pytest --durations=25 tests/spark "$@"
spark=$?
wait "$rest"
status=$?
trap 'rm -f "$log"' EXIT
cat "$log"
exit $((spark > status ? spark : status))
