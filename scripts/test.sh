#!/usr/bin/env bash
# All tests, in parts, three at a time: those on Spark wait a good part of their time. Arguments go to each part.
# `quick` as the first argument: unit and property tests only, two parts at a time, without those marked slow. `lab`: the
# tests of the lab instead, which look after the evidence.
# A test that fails is run once more, with nothing beside it; if it passes then, it is named as flaky at the end.
set -uo pipefail
python="${PYTHON:-.venv/bin/python}"
work="$(mktemp -d)"
MOST_AGAIN=20 # when more than these fail, something else is wrong
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT

# The longest parts come first and short ones last, so that all end together, however fast the machine is. The very
# first one needs no Spark: while it runs, the archive of Spark's classes is made. A part on Spark has a JVM of its own,
# so there are three of tests/spark: those of stores and lost workers, which wait most, and the others in two halves.
stores=(tests/spark/test_{checkpoint,checkpoint_odd,postgres,stores,supervision}.py)
others() { compgen -G "$1" | grep -vxF -f <(printf '%s\n' "${stores[@]}") | sort | tr '\n' ' '; }
declare -A folders=(
    [quick-1]="tests/unit/test_[a-or]*.py"
    [quick-2]="tests/unit/test_[pqs-z]*.py tests/property"
    [spark-1]="$(others 'tests/spark/test_[a-i]*.py')"
    [spark-2]="$(others 'tests/spark/test_[j-z]*.py')"
    [torture]="lab/tests/drivers"
    [lab]="lab/tests/unit lab/tests/golden"
    [lab-property]="lab/tests/property"
    [lab-spark]="lab/tests/spark"
    [stores]="${stores[*]}"
    [drivers]="tests/drivers"
    [property]="tests/property"
    [unit-1]="tests/unit/test_[a-o]*.py"
    [unit-2]="tests/unit/test_[p-z]*.py tests/wire"
    [browser]="tests/browser"
)
parts=(property spark-1 spark-2 drivers stores unit-1 unit-2 browser)
first_on_spark=spark-1
at_once=3
selected=()
if [ "${1:-}" = quick ]; then
    shift
    parts=(quick-1 quick-2)
    at_once=2
    selected=(-m "not slow")
elif [ "${1:-}" = lab ]; then
    shift
    parts=(lab torture lab-property lab-spark)
    first_on_spark=torture
fi

# Sessions of tests are short: Java's second compiler would take more time than it saves.
export JAVA_TOOL_OPTIONS="${JAVA_TOOL_OPTIONS:-} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# Reading and checking Spark's classes takes each JVM some eight seconds of CPU time, and there are twenty. So they come
# from an archive, which is made once for a version of Java and of Spark; a JVM that cannot use it goes on without it.
use_class_archive() {
    local versions archive quiet="-Xlog:cds=off -Xlog:cds+dynamic=off"
    versions="$("$JAVA_HOME/bin/java" -version 2>&1; "$python" -c 'import pyspark; print(pyspark.__version__)')"
    archive="$(realpath "$(dirname "$python")/..")/spark-classes-$(cksum <<<"$versions" | cut -d ' ' -f 1).jsa"
    if [ ! -f "$archive" ]; then
        echo "test.sh: making an archive of Spark's classes, this takes half a minute"
        JAVA_TOOL_OPTIONS+=" -XX:ArchiveClassesAtExit=\"$archive.$$\" $quiet" \
            "$python" -m tests.support.spark_classes >"$work/classes.log" 2>&1 && mv -f "$archive.$$" "$archive"
    fi
    JAVA_TOOL_OPTIONS+=" -XX:SharedArchiveFile=\"$archive\" $quiet" # quoted: a path may have spaces
}

run() { # part, then pytest's arguments
    local part="$1"
    shift
    # shellcheck disable=SC2086
    "$python" -m pytest -o cache_dir="$work/$part" --durations=25 ${folders[$part]} "${selected[@]}" "$@" \
        >"$work/$part.log" 2>&1
    echo $? >"$work/$part.code"
    flock "$work" cat "$work/$part.log"
}

for part in "${parts[@]}"; do
    [ "$part" != "$first_on_spark" ] || use_class_archive
    while [ "$(jobs -pr | wc -l)" -ge "$at_once" ]; do wait -n; done
    run "$part" "$@" &
done
wait

failed=0
flaky=()
broken=()
for part in "${parts[@]}"; do
    code="$(cat "$work/$part.code" 2>/dev/null || echo 3)" # 3: it was killed
    [ "$code" -ne 0 ] || continue
    mapfile -d '' names < <("$python" -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\0", end="\0")' \
        "$work/$part/v/cache/lastfailed" 2>/dev/null)
    # 1: some tests failed; any other code means that they could not be run, and arguments may have left some out
    if [ "$code" -ne 1 ] || [ $# -ne 0 ] || [ "${#names[@]}" -eq 0 ] || [ "${#names[@]}" -gt "$MOST_AGAIN" ]; then
        echo "test.sh: part $part ended with code $code"
        failed="$code"
        continue
    fi
    for name in "${names[@]}"; do
        echo "== once more by itself: $name"
        if "$python" -m pytest -p no:cacheprovider "$name"; then flaky+=("$name"); else broken+=("$name"); fi
    done
done
for name in "${flaky[@]}"; do
    echo "FLAKY: $name failed and then passed by itself: find out why before anything else is begun"
done
for name in "${broken[@]}"; do
    echo "FAILED twice: $name"
    failed=1
done
exit "$failed"
