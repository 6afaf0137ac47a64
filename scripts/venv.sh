#!/usr/bin/env bash
# venv.sh [LIST]: prints the Python of a virtual environment with what LIST names (default scripts/python-slow.txt) from pip's own
# index. Made once, outside the tree, in ${XDG_CACHE_HOME:-~/.cache}/plumb/; another list makes another one.
# Exit codes: 0 its Python is on standard output, 1 it could not be made (why is on standard error).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

list=${1:-scripts/python-slow.txt}
python=/usr/bin/python3
[[ -x "$python" ]] || python=python3
key=$({ "$python" --version; grep -vE '^[[:space:]]*(#|$)' "$list"; } | sha256sum | cut -c1-12)
folder="${XDG_CACHE_HOME:-$HOME/.cache}/plumb/venv-$key"

if [[ ! -e "$folder/complete" ]]; then
  echo "plumb: making $folder with $(grep -vE '^[[:space:]]*(#|$)' "$list" | paste -sd' '): several GB, some minutes" >&2
  scripts/setup.sh scripts/packages-slow.txt >&2 || exit 1
  rm -rf "$folder"
  mkdir -p "$(dirname "$folder")"
  if ! "$python" -m venv "$folder" >&2 || ! "$folder/bin/python" -m pip install --quiet -r "$list" >&2; then
    echo "plumb: the virtual environment could not be made; it needs Python's venv module, a package index that pip can reach and" \
      "about 8 GB in $(dirname "$folder")" >&2
    exit 1
  fi
  touch "$folder/complete"
fi
echo "$folder/bin/python"
