#!/usr/bin/env bash
# What the action does (see ../action.yml): run a fleet, report it, compare two variants. Works outside of GitHub too:
#   FLEET_PLAN=examples/fleet/plan.toml FLEET_COMPARE="plan:careful plan:hasty" deploy/action.sh
# Ends with the code of `harness fleet run` unless that is 0, else with that of `harness fleet compare`.
set -uo pipefail

: "${FLEET_PLAN:?the plan}"
output=${FLEET_OUTPUT:-${RUNNER_TEMP:-.}/fleet}
name=${FLEET_NAME:-$(basename "$FLEET_PLAN" .toml)}
mkdir -p "$output" || exit 1

# Whoever wrote the workflow has decided that the plan runs.
run=(harness fleet run "$FLEET_PLAN" --name "$name" --trust)
if [ -n "${FLEET_BUDGET_USD:-}" ]; then run+=(--budget-usd "$FLEET_BUDGET_USD"); fi
if [ -n "${FLEET_JOBS:-}" ]; then run+=(--jobs "$FLEET_JOBS"); fi
"${run[@]}" > "$output/events.ndjson"
run_code=$?
case $run_code in
  0 | 3) ;;          # everything is done, or the budget is reached: there is something to report
  *) exit "$run_code" ;;
esac

harness fleet report "$name" > "$output/report.txt"
harness fleet export "$name" -f html -o "$output/report.html"
compare_code=0
: > "$output/compare.txt"
if [ -n "${FLEET_COMPARE:-}" ]; then
  read -ra sides <<< "$FLEET_COMPARE"
  compare=(harness fleet compare "${sides[@]}")
  if [ -n "${FLEET_MAX_DROP:-}" ]; then compare+=(--max-drop "$FLEET_MAX_DROP"); fi
  "${compare[@]}" > "$output/compare.txt"
  compare_code=$?
fi

{
  printf '## Fleet %s\n\n```\n' "$name"
  cat "$output/report.txt"
  if [ -s "$output/compare.txt" ]; then printf '\n'; cat "$output/compare.txt"; fi
  printf '```\n'
} > "$output/summary.md"
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then cat "$output/summary.md" >> "$GITHUB_STEP_SUMMARY"; fi
if [ -n "${GITHUB_OUTPUT:-}" ]; then printf 'folder=%s\nsummary=%s\n' "$output" "$output/summary.md" >> "$GITHUB_OUTPUT"; fi

if [ "$run_code" -ne 0 ]; then exit "$run_code"; fi
exit "$compare_code"
