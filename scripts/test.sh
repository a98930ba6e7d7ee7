#!/usr/bin/env bash
# Installs what the tests need and the machine lacks, then runs them all.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v cc >/dev/null; then
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends build-essential
fi

# A device named here must be there: its tests fail instead of being reported as skipped.
export TWINLOCK_REQUIRE="${TWINLOCK_REQUIRE:-cpu,sim}"

cargo test --release --workspace --locked "$@"
