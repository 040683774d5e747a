#!/usr/bin/env bash
# Creates, migrates or removes the copy of a database for a pull request. Its variables are set in action.yml.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
branch=$DATABASE-pr-$NUMBER
organization=(${ORGANIZATION:+--organization "$ORGANIZATION"})

baton() {
  node --conditions=@batonsql/source --no-warnings "$root/packages/cli/src/cli.ts" "$@"
}

# a failing list must not look like a missing database
databases=$(baton databases list --json "${organization[@]}")
if [[ $databases == *"\"name\":\"$branch\","* ]]; then
  baton databases destroy "$branch" --yes "${organization[@]}"
fi
if [[ $EVENT == closed ]]; then exit; fi

# from the latest state each time, so that the migrations of an earlier commit are not there
url=$(baton fork "$DATABASE" "$branch" "${organization[@]}")
reader=$(baton database-tokens create "$branch" --read-only --expiration 1h "${organization[@]}")
echo "::add-mask::$reader"

report=${RUNNER_TEMP:-/tmp}/$branch.md
echo "report=$report" >> "$GITHUB_OUTPUT"
status=0
BATON_AUTH_TOKEN=$reader baton rehearse "$url" --markdown -- bash -c "$COMMAND" > "$report" || status=$?
[[ -s $report ]] || echo "The rehearsal of \`$COMMAND\` did not finish; the log of the run has the reason." > "$report"
cat "$report" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
if ((status != 0)); then exit "$status"; fi

token=$(baton database-tokens create "$branch" --expiration "$TOKEN_EXPIRATION" "${organization[@]}")
echo "::add-mask::$token"
DATABASE_URL=$url DATABASE_TOKEN=$token bash -c "$COMMAND"
{
  echo "url=$url"
  echo "token=$token"
} >> "$GITHUB_OUTPUT"
