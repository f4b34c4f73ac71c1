#!/usr/bin/env bash
# All tests, in three processes side by side: those on Spark wait a good part of their time. Arguments go to each.
# A test that fails is run once more, with nothing beside it; if it passes then, it is named as flaky at the end.
set -uo pipefail
python="${PYTHON:-.venv/bin/python}"
work="$(mktemp -d)"
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
# Sessions of tests are short: Java's second compiler would take more time than it saves.
export JAVA_TOOL_OPTIONS="${JAVA_TOOL_OPTIONS:-} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

declare -A folders=(
    [rest]="tests/unit tests/property tests/wire"
    [drivers]="tests/drivers"
    [spark]="tests/spark"
)

run() { # part, then pytest's arguments
    local part="$1"
    shift
    # shellcheck disable=SC2086
    "$python" -m pytest -o cache_dir="$work/$part" --durations=25 ${folders[$part]} "$@"
}

run rest "$@" >"$work/rest.log" 2>&1 &
rest=$!
run drivers "$@" >"$work/drivers.log" 2>&1 &
drivers=$!
run spark "$@"
codes="spark:$?"
for part in drivers rest; do
    wait "${!part}"
    codes+=" $part:$?"
    cat "$work/$part.log"
done

failed=0
flaky=()
for each in $codes; do
    part="${each%:*}" code="${each#*:}"
    # 1: some tests failed; any other code means that they could not be run, and arguments may have left some out
    if [ "$code" -eq 1 ] && [ $# -eq 0 ]; then
        mapfile -t names < <("$python" -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' \
            "$work/$part/v/cache/lastfailed")
        echo "== ${#names[@]} of $part failed, once more by themselves: ${names[*]}"
        if run "$part" --last-failed --last-failed-no-failures=none; then
            flaky+=("${names[@]}")
            continue
        fi
    fi
    [ "$code" -eq 0 ] || failed="$code"
done
for name in "${flaky[@]}"; do
    echo "FLAKY: $name failed and then passed by itself: find out why before anything else is begun"
done
exit "$failed"
