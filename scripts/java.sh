#!/bin/sh
# Prints the home of a Java that Spark can use: JAVA_HOME, then the java on PATH, then /usr/lib/jvm, lowest version first.
# Where there is none: with --install, installs one if this is root on a system with apt; else says how to get one.
set -eu

LEAST=17
JVMS=${EVENFLOW_JVMS:-/usr/lib/jvm}

say() {
    printf '%s\n' "java.sh: $*" >&2
}

# The version and home a java reports of itself, "17 /usr/lib/jvm/..."; nothing if it does not run.
describe() {
    "$1" -XshowSettings:properties -version 2>&1 | awk -F ' = ' '
        $1 ~ /^ *java.specification.version$/ { version = $2; sub(/^1\./, "", version) }
        $1 ~ /^ *java.home$/ { home = $2 }
        END { if (version != "" && home != "") print version, home }' || true
}

# Print the home of the given java if its version is high enough.
accept() {
    command -v "$1" >/dev/null 2>&1 || return 1
    described=$(describe "$1")
    version=${described%% *}
    case $version in
        '' | *[!0-9]*) return 1 ;;
    esac
    [ "$version" -ge "$LEAST" ] || return 1
    printf '%s\n' "${described#* }"
}

# Print the home of the lowest version under /usr/lib/jvm that will do: what Spark has been tested with longest.
search() {
    for java in "$JVMS"/*/bin/java; do
        if [ -x "$java" ]; then
            describe "$java"
        fi
    done | awk -v least="$LEAST" '$1 >= least' | sort -n | sed -n '1s/^[0-9]* //p'
}

find_java() {
    if [ -n "${JAVA_HOME:-}" ]; then
        accept "$JAVA_HOME/bin/java" && return
        say "JAVA_HOME=$JAVA_HOME holds no Java $LEAST or newer; looking elsewhere"
    fi
    accept java && return
    home=$(search)
    [ -n "$home" ] && printf '%s\n' "$home"
}

# Debian and Ubuntu releases carry different versions: the first of these that there is. What apt-get says is shown if
# it fails.
install_java() {
    say "installing a Java runtime with apt-get, this takes a minute"
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    if apt-get update >"$log" 2>&1; then
        for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
            if apt-get install -y --no-install-recommends "$package" >>"$log" 2>&1; then
                rm -f "$log"
                return
            fi
        done
    fi
    cat "$log" >&2
    rm -f "$log"
    return 1
}

if find_java; then
    exit
fi
if [ "${1:-}" = --install ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    if install_java && find_java; then
        exit
    fi
    say "apt-get could not install a Java runtime: install Java $LEAST or newer by hand, then set JAVA_HOME to its home"
    exit 1
fi
say "no Java $LEAST or newer found: install one (apt: sudo apt-get install openjdk-17-jre-headless; dnf: sudo dnf install" \
    "java-17-openjdk-headless; brew: brew install openjdk@17) or set JAVA_HOME to the home of one"
exit 1
