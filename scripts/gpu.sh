#!/usr/bin/env bash
# Tests and measures on a machine that has a GPU and its driver, but no Rust.
#
#   scripts/gpu.sh gather            build here, put stripped programs into .carry/
#   scripts/gpu.sh run BACKEND...    there, from the copied folder: tests, then benchmarks, then a table
#
# BACKEND is wgsl or cuda. Logs and results go to $OUT (default .carry/out).
set -euo pipefail
cd "$(dirname "$0")/.."
carry=.carry

gather() {
    rm -rf "$carry" && mkdir -p "$carry"
    cargo build --release --locked -p twinlock --bin twinlock "$@"
    cp target/release/twinlock "$carry/"
    # Each backend's own tests; the path of a test program is told in JSON only.
    cargo test --release --locked --no-run --message-format=json \
        -p twinlock-conformance -p twinlock-wgsl 2>/dev/null |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | sort -u |
        while read -r program; do
            name=$(basename "$program")
            cp "$program" "$carry/${name%-*}"
        done
    strip --strip-all "$carry"/* 2>/dev/null || true
    du -sh "$carry"
}

# One line a step: what, how it ended, how long it took.
step() {
    local name=$1 start end status=ok
    shift
    start=$(date +%s)
    "$@" >"$out/$name.log" 2>&1 || status="FAILED ($?)"
    end=$(date +%s)
    printf '%-40s %-12s %5d s\n' "$name" "$status" $((end - start)) | tee -a "$out/summary.txt"
}

run() {
    out=${OUT:-$carry/out}
    mkdir -p "$out"
    : >"$out/summary.txt"
    "$carry/twinlock" devices | tee "$out/devices.txt"
    for backend in "$@"; do
        local device=$backend:0
        export TWINLOCK_REQUIRE=$backend
        step "conformance-$backend" env TWINLOCK_MAX_LG="${CONFORMANCE_LG:-14}" \
            "$carry/conformance" "$device" --skip narrow --skip chunks
        for what in "ntt 16..24" "msm-g1 16..22" "msm-g2 14..18"; do
            read -r name sizes <<<"$what"
            step "bench-$backend-$name" "$carry/twinlock" bench "$name" --device "$device" --lg "$sizes"
        done
        step "bench-$backend-msm-g1-bits" \
            "$carry/twinlock" bench msm-g1 --device "$device" --lg 20..22 --scalars bits
        step "prove-$backend" "$carry/twinlock" prove mix --lg 18 --partitions 4 \
            --device "$device" --timeline "$out/timeline-$backend.json"
    done
    for log in "$out"/bench-*.log "$out"/prove-*.log; do
        echo "== $(basename "$log" .log)"
        tail -25 "$log" | cut -c1-160
    done
    cat "$out/summary.txt"
}

command=${1:-}
shift || true
case "$command" in
gather) gather "$@" ;;
run) run "$@" ;;
*)
    sed -n '2,7s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
