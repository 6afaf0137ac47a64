#!/usr/bin/env bash
# setup.sh [LIST…]: installs what the package lists (default scripts/packages.txt) name and this machine lacks. With
# everything in place it does nothing.
# Exit codes: 0 all there, 1 the installation failed, 2 somebody has to install first (the command is printed).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[[ "${PLUMB_SKIP_SETUP:-}" == 1 ]] && exit 0

(($# > 0)) || set -- scripts/packages.txt
mapfile -t packages < <(grep -hvE '^[[:space:]]*(#|$)' "$@")

if ! command -v dpkg-query >/dev/null; then
  {
    echo "plumb: this system has no dpkg, so nothing can be installed by itself. Install what these Debian packages hold"
    echo "plumb: (${packages[*]}), then run again with PLUMB_SKIP_SETUP=1."
  } >&2
  exit 2
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ "$status" == installed ]] || missing+=("$package")
done
((${#missing[@]} == 0)) && exit 0

if ((EUID != 0)); then
  {
    echo "plumb: ${#missing[@]} package(s) are missing and only root can install them. Run this, then try again:"
    echo "sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
  } >&2
  exit 2
fi

echo "plumb: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
updated=yes
apt-get update -qq >"$log" 2>&1 || updated=no
if ! apt-get install -y -qq --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
  tail -n 15 "$log" >&2
  if [[ "$updated" == no ]]; then
    echo "plumb: the package lists could not be fetched and the packages are not on this machine:" \
      "it seems to be offline. Connect it, or install by hand: ${missing[*]}" >&2
  else
    echo "plumb: apt-get could not install ${missing[*]}: its last words are above." >&2
  fi
  exit 1
fi
