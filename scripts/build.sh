# Sourced by ./run and ./test: build_preset PRESET [TARGET…]
# Configures and builds quietly. Compiler output goes to build/PRESET/build.log and is shown only when the build fails;
# one line of progress every ten seconds (or in place, on a terminal) goes to standard error.

build_preset() {
  local preset=$1
  shift
  local folder="build/$preset" started=$SECONDS target arguments=()
  local log="$folder/build.log"
  for target in "$@"; do arguments+=(--target "$target"); done
  mkdir -p "$folder"

  (
    # Configured again only where there is no build yet or the presets changed: ninja sees to the rest.
    if [[ ! -f "$folder/build.ninja" || CMakePresets.json -nt "$folder/build.ninja" ]]; then
      cmake --preset "$preset" && touch -c "$folder/build.ninja"
    fi && cmake --build --preset "$preset" "${arguments[@]}"
  ) >"$log" 2>&1 &
  local job=$! code=0 shown=0
  while kill -0 "$job" 2>/dev/null; do
    sleep 0.2
    if [[ -t 2 ]]; then
      printf '\r\033[Kbuilding %s %s' "$preset" "$(build_progress "$log")" >&2
    elif ((SECONDS - started >= shown + 10)); then
      shown=$((SECONDS - started))
      echo "building $preset $(build_progress "$log") ${shown}s" >&2
    fi
  done
  wait "$job" || code=$?
  [[ -t 2 ]] && printf '\r\033[K' >&2

  if ((code != 0)); then
    grep -E -A 12 ': (fatal )?error:|^CMake Error|undefined reference|^ninja: error' "$log" | head -n 80 >&2 ||
      tail -n 40 "$log" >&2
    echo "plumb: the build '$preset' failed; all of its output is in $log" >&2
    return "$code"
  fi
  ((SECONDS - started < 2)) || echo "built $preset in $((SECONDS - started)) s" >&2
}

build_progress() { grep -oE '^\[[0-9]+/[0-9]+\]' "$1" 2>/dev/null | tail -n 1 || true; }
