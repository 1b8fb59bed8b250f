#!/usr/bin/env bash
# Puts Frazil into your cloud, or into one on this laptop, and takes it out again.
#
# Usage: scripts/deploy.sh create|delete|plan|check|outputs --profile=PROFILE [options]
#
#   create    make everything, or go on where the last run stopped; ends with what to look at and what it costs
#   delete    show what will go, ask, take it away, and list what is gone, what is scheduled, and what is left
#   plan      show what create would change; nothing is done
#   check     is everything here that create needs, and in the right version?
#   outputs   the addresses and names that create ended with
#
#   --profile=PROFILE                   your AWS SSO profile; `local` is a cloud on this laptop, without any account
#   --environment=NAME                  the settings, infra/environments/NAME.yaml (default: `local` or `dev`)
#   --confluent-api-key=KEY             your Cloud API key; better in CONFLUENT_CLOUD_API_KEY
#   --confluent-api-secret=SECRET       its secret; better in CONFLUENT_CLOUD_API_SECRET, or typed when asked
#   --snowflake-warehouse=NAME          a warehouse that is there, for the users who read the tables in Snowflake
#   --day-count=DAYS                    how many days a key lives before it is rotated (default: 30)
#   --number-of-api-keys-to-retain=N    how many keys of an account stay valid (default: 2)
#   --keep-data                         delete: the bucket, its key and the tables stay
#   --yes                               ask nothing
#   --debug                             show every command; no command has a secret among its arguments
#
# Example: scripts/deploy.sh create --profile=local
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$0"; }

misuse() {
  printf '%s\n\nhint: run scripts/deploy.sh --help\n' "$1" >&2
  exit 2
}

step() {
  [ -z "$debug" ] || echo "+ python -m infra.deploy $* ${common[*]}" >&2
  .venv/bin/python -m infra.deploy "$@" "${common[@]}"
}

from_a_flag() {
  echo "warning: $1 on a command line stays in the shell's history and is seen by other users: use $2, or the prompt" >&2
}

be_alone() {
  local lock=".frazil/deploy/$environment.lock" holder=''
  mkdir -p .frazil/deploy
  if ! mkdir "$lock" 2> /dev/null; then
    holder=$(cat "$lock/pid" 2> /dev/null || true)
    if [ -n "$holder" ] && kill -0 "$holder" 2> /dev/null; then
      printf 'Another run is at work on the environment %s: process %s.\n\nhint: wait for its end\n' "$environment" "$holder" >&2
      exit 1
    fi
  fi
  echo $$ > "$lock/pid"
  # shellcheck disable=SC2064  # the lock of now, whatever the variable is then
  trap "rm -rf '$lock'" EXIT
}

ask_for_secrets() {
  if [ "$profile" = local ]; then return 0; fi
  ask_for_cloud_key
  ask_for_snowflake_key
}

ask_for_snowflake_key() {
  if [ -n "${SNOWFLAKE_PRIVATE_KEY:-}" ] || ! step needs-snowflake; then return 0; fi
  echo 'Private key for Snowflake: paste the whole PEM (not shown), then Enter and Ctrl-D' >&2
  IFS= read -rsd '' SNOWFLAKE_PRIVATE_KEY || true # it ends with the input
  export SNOWFLAKE_PRIVATE_KEY
}

ask_for_cloud_key() {
  if ! step needs-confluent; then return 0; fi
  if [ -z "${CONFLUENT_CLOUD_API_KEY:-}" ]; then read -rp 'Confluent Cloud API key: ' CONFLUENT_CLOUD_API_KEY; fi
  if [ -z "${CONFLUENT_CLOUD_API_SECRET:-}" ]; then
    read -rsp 'Confluent Cloud API secret (not shown): ' CONFLUENT_CLOUD_API_SECRET
    echo >&2
  fi
  export CONFLUENT_CLOUD_API_KEY CONFLUENT_CLOUD_API_SECRET
}

create() {
  ask_for_secrets
  step check
  step services-up
  step artefacts
  step free-names
  step apply network confluent lake secrets
  step keys
  step topics
  step apply connectors
  step upload
  step apply jobs
  step tables
  step apply snowflake
  step summary
}

delete() {
  ask_for_secrets
  step services-up
  step confirm-delete ${keep:+"$keep"}
  step destroy snowflake jobs connectors
  step delete-keys
  step empty ${keep:+"$keep"}
  step destroy secrets lake confluent network ${keep:+"$keep"}
  step inventory ${keep:+"$keep"}
  step services-down ${keep:+"$keep"}
}

plan() {
  ask_for_secrets
  step check
  step services-up
  step artefacts
  step plan network confluent lake secrets connectors jobs snowflake
}

main() {
  local verb=${1:-} profile='' environment='' debug='' keep='' common=()
  case $verb in
    create | delete | plan | check | outputs) shift ;;
    -h | --help | help) usage; return 0 ;;
    '') usage >&2; return 2 ;;
    *) misuse "There is no \`$verb\`: expected create, delete, plan, check or outputs." ;;
  esac
  local argument
  for argument in "$@"; do
    case $argument in
      --profile=?*) profile=${argument#*=} ;;
      --environment=?*) environment=${argument#*=} ;;
      --confluent-api-key=?*) export CONFLUENT_CLOUD_API_KEY=${argument#*=} ;;
      --confluent-api-secret=?*)
        export CONFLUENT_CLOUD_API_SECRET=${argument#*=}
        from_a_flag --confluent-api-secret CONFLUENT_CLOUD_API_SECRET
        ;;
      --snowflake-warehouse=?* | --day-count=?* | --number-of-api-keys-to-retain=?*) common+=("$argument") ;;
      --keep-data) keep=$argument ;;
      --yes) common+=("$argument") ;;
      --debug) debug=$argument ;;
      -h | --help) usage; return 0 ;;
      *) misuse "There is no option \`${argument%%=*}\`, or it has no value." ;;
    esac
  done
  [ -n "$profile" ] || misuse 'Whose account? Expected --profile=PROFILE, or --profile=local.'
  [ "$verb" = delete ] || [ -z "$keep" ] || misuse "--keep-data belongs to delete, not to $verb."
  [ -n "$environment" ] || { [ "$profile" = local ] && environment=local || environment=dev; }
  common+=(${debug:+"$debug"} "--profile=$profile" "--environment=$environment")
  make --silent setup
  case $verb in
    check | outputs) step "$verb" ;;
    *) be_alone && "$verb" ;;
  esac
}

main "$@"
