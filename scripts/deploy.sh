#!/usr/bin/env bash
# Puts Frazil into your cloud, or into one on this laptop, and takes it out again.
#
# Usage: scripts/deploy.sh create|delete|plan|check|outputs|rotate --profile=PROFILE [options]
#
#   create    make everything, or go on where the last run stopped; ends with what to look at and what it costs
#   delete    show what will go, ask, take it away, and list what is gone, what is scheduled, and what is left
#   plan      show what create would change; nothing is done
#   check     is everything here that create needs, and in the right version?
#   outputs   the addresses and names that create ended with
#   rotate    make new keys now, without waiting for the calendar; ends when they are in use
#
#   --profile=PROFILE                   your AWS SSO profile; `local` is a cloud on this laptop, without any account
#   --environment=NAME                  the settings, infra/environments/NAME.yaml (default: `local` or `dev`)
#   --confluent-api-key=KEY             your Cloud API key; better in CONFLUENT_CLOUD_API_KEY
#   --confluent-api-secret=SECRET       its secret; better in CONFLUENT_CLOUD_API_SECRET, or typed when asked
#   --snowflake-warehouse=NAME          an existing warehouse, for the users who read the tables in Snowflake
#   --snowflake-organization=NAME       its organization, where the settings name no account; or
#                                       SNOWFLAKE_ORGANIZATION_NAME, or typed when asked
#   --snowflake-account=NAME            its account; or SNOWFLAKE_ACCOUNT_NAME, or typed when asked
#   --snowflake-private-key-file=FILE   the key of Terraform's user; or its text in SNOWFLAKE_PRIVATE_KEY, or pasted
#   --day-count=DAYS                    how many days a key lives before it is rotated (default: 30)
#   --number-of-api-keys-to-retain=N    how many keys of an account stay valid (default: 2)
#   --keep-data                         delete: the bucket, its key and the tables stay
#   --secret=WORD                       rotate: this key alone, such as `producer` or `snowflake/loader`
#   --leaked                            rotate: take the old keys out of use at once, rather than with a later rotation
#   --policy                            check: print an IAM policy for the profile that deploys, and check nothing
#   --yes                               ask nothing
#   --debug                             show every command, and have Terraform log what it and its providers do:
#                                       .frazil/deploy/NAME/terraform-debug.log, which may hold secrets
#
# Example: scripts/deploy.sh create --profile=local
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$0"; }

misuse() {
  printf '%s\n\nhint: %s\n' "$1" "${2:-run scripts/deploy.sh --help}" >&2
  exit 2
}

step() {
  [ -z "$debug" ] || echo "+ python -m infra.deploy $* ${common[*]}" >&2
  .venv/bin/python -m infra.deploy "$@" "${common[@]}"
}

from_a_flag() {
  echo "warning: $1 on a command line stays in the shell's history and is seen by other users: use $2, or the prompt" >&2
}

# the lock belongs to the open file: it ends with this process, however that ends, and macOS has no `flock`
be_alone() {
  local lock=".frazil/deploy/$environment.running"
  mkdir -p .frazil/deploy
  exec 9>> "$lock"
  if ! .venv/bin/python -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2> /dev/null; then
    printf 'Another run is at work on the environment %s: process %s.\n\nhint: wait for its end\n' \
      "$environment" "$(cat "$lock")" >&2
    exit 1
  fi
  echo $$ > "$lock"
}

ask_for_secrets() {
  local needed
  if [ "$profile" = local ]; then return 0; fi
  needed=$(step needs-confluent) # a failure ends the script here, and is no answer
  if [ "$needed" = yes ]; then ask_for_cloud_key; fi
  step recall
  needed=$(step needs-snowflake-account)
  if [ "$needed" = yes ]; then ask_for_snowflake_account; fi
  if [ -n "${SNOWFLAKE_PRIVATE_KEY:-}" ]; then return 0; fi
  needed=$(step needs-snowflake)
  if [ "$needed" = yes ]; then ask_for_snowflake_key; fi
}

# the variable NAME, unless the environment has it
ask() {
  local name=$1 prompt=$2
  if [ -z "${!name:-}" ]; then read -rp "$prompt" "${@:3}" "${name?}" || true; fi
  export "${name?}"
}

ask_for_cloud_key() {
  ask CONFLUENT_CLOUD_API_KEY 'Confluent Cloud API key: '
  ask CONFLUENT_CLOUD_API_SECRET 'Confluent Cloud API secret (not shown): ' -s
  echo >&2
  [ -n "$CONFLUENT_CLOUD_API_KEY" ] && [ -n "$CONFLUENT_CLOUD_API_SECRET" ] \
    || misuse 'The settings ask for Confluent Cloud: expected a Cloud API key and its secret, and nobody typed them.' \
      'export CONFLUENT_CLOUD_API_KEY and CONFLUENT_CLOUD_API_SECRET where nobody can be asked'
}

ask_for_snowflake_account() {
  ask SNOWFLAKE_ORGANIZATION_NAME 'Snowflake organization (SELECT CURRENT_ORGANIZATION_NAME()): '
  ask SNOWFLAKE_ACCOUNT_NAME 'Snowflake account (SELECT CURRENT_ACCOUNT_NAME()): '
  [ -n "$SNOWFLAKE_ORGANIZATION_NAME" ] && [ -n "$SNOWFLAKE_ACCOUNT_NAME" ] \
    || misuse 'The flag --snowflake-warehouse needs the organization and the name of its account: none was given.' \
      'add --snowflake-organization= and --snowflake-account=, or export SNOWFLAKE_ORGANIZATION_NAME and SNOWFLAKE_ACCOUNT_NAME'
}

ask_for_snowflake_key() {
  echo 'Private key for Snowflake: paste the whole PEM (not shown), then Enter and Ctrl-D' >&2
  IFS= read -rsd '' SNOWFLAKE_PRIVATE_KEY || true # it ends with the input
  export SNOWFLAKE_PRIVATE_KEY
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

outputs() { step outputs; }

plan() {
  ask_for_secrets
  step check
  step services-up
  step artefacts
  step plan network confluent lake secrets connectors jobs snowflake
}

rotate() { step rotate; }

main() {
  local verb=${1:-} profile='' environment='' debug='' keep='' policy='' of_rotate='' argument='' common=()
  case $verb in
    create | delete | plan | check | outputs | rotate) shift ;;
    -h | --help | help) usage; return 0 ;;
    '') usage >&2; return 2 ;;
    *) misuse "There is no \`$verb\`: expected create, delete, plan, check, outputs or rotate." ;;
  esac
  for argument in "$@"; do
    case $argument in
      --profile=?*) profile=${argument#*=} ;;
      --environment=?*) environment=${argument#*=} ;;
      --confluent-api-key=?*)
        export CONFLUENT_CLOUD_API_KEY=${argument#*=}
        from_a_flag --confluent-api-key CONFLUENT_CLOUD_API_KEY
        ;;
      --confluent-api-secret=?*)
        export CONFLUENT_CLOUD_API_SECRET=${argument#*=}
        from_a_flag --confluent-api-secret CONFLUENT_CLOUD_API_SECRET
        ;;
      --snowflake-private-key-file=?*)
        SNOWFLAKE_PRIVATE_KEY=$(cat "${argument#*=}") || misuse 'The private key for Snowflake cannot be read.'
        export SNOWFLAKE_PRIVATE_KEY
        ;;
      --snowflake-warehouse=?* | --snowflake-organization=?* | --snowflake-account=?*)
        # what is made already says which account it is in
        case $verb in create | plan | check) common+=("$argument") ;; esac
        ;;
      --day-count=?* | --number-of-api-keys-to-retain=?* | --yes) common+=("$argument") ;;
      --keep-data) keep=$argument ;;
      --policy) policy=$argument ;;
      --secret=?* | --leaked) of_rotate=${argument%%=*} common+=("$argument") ;;
      --debug) debug=$argument && export TF_LOG="${TF_LOG:-DEBUG}" ;;
      -h | --help) usage; return 0 ;;
      *) misuse "There is no option \`${argument%%=*}\`, or it has no value." ;;
    esac
  done
  [ -n "$profile" ] || misuse 'Whose account? Expected --profile=PROFILE, or --profile=local.'
  [ "$verb" = delete ] || [ -z "$keep" ] || misuse "--keep-data belongs to delete, not to $verb."
  [ "$verb" = check ] || [ -z "$policy" ] || misuse "--policy belongs to check, not to $verb."
  [ "$verb" = rotate ] || [ -z "$of_rotate" ] || misuse "$of_rotate belongs to rotate, not to $verb."
  [ -n "$environment" ] || { [ "$profile" = local ] && environment=local || environment=dev; }
  common+=(${debug:+"$debug"} "--profile=$profile" "--environment=$environment")
  make --silent setup
  case $verb in
    check) if [ -n "$policy" ]; then step policy; else step check; fi ;;
    *) be_alone && "$verb" ;;
  esac
}

main "$@"
