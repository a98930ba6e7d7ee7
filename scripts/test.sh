#!/usr/bin/env bash
# Installs what the tests need and the machine lacks, then runs them all.
set -euo pipefail
cd "$(dirname "$0")/.."

# A Vulkan loader and a driver, lavapipe where there is no other: the WGSL tests run on it.
has_vulkan() {
    PATH="$PATH:/usr/sbin:/sbin" ldconfig -p | grep 'libvulkan\.so\.1' >/dev/null || return 1
    [ -n "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ] ||
        compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' >/dev/null ||
        compgen -G '/etc/vulkan/icd.d/*.json' >/dev/null
}

# A mirror may be busy, and so may the machine's own updates.
apt=(-o Acquire::Retries=3 -o DPkg::Lock::Timeout=300)
packages=()
{ command -v cc && command -v c++; } >/dev/null || packages+=(build-essential)
has_vulkan || packages+=(libvulkan1 mesa-vulkan-drivers)
if [ "${#packages[@]}" -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get "${apt[@]}" update -qq
        apt-get "${apt[@]}" install -y -qq --no-install-recommends "${packages[@]}"
    else
        echo "not installed, for this is not root's Debian: ${packages[*]}" >&2
        echo "(without a Vulkan device the WGSL tests are reported as ignored)" >&2
    fi
fi

# A device named here must be there: its tests fail instead of being reported as ignored.
export TWINLOCK_REQUIRE="${TWINLOCK_REQUIRE:-cpu,sim}"

cargo test --release --workspace --locked "$@"
