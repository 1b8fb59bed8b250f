#!/usr/bin/env bash
# Deploys Frazil to your cloud account, or to a local cloud on this machine, and deletes it again.
#
# Usage: scripts/deploy.sh create|delete|plan|check|outputs|rotate --profile=PROFILE [options]
#
#   create    create or update everything, or resume an interrupted run; prints where to look and what it costs
#   delete    list what will be deleted, ask, delete it, and report what was deleted, scheduled for deletion or left
#   plan      show what create would change, without changing it
#   check     check the tools and credentials that create needs
#   outputs   print the names and addresses of the deployed resources
#   rotate    rotate keys now instead of on schedule, and wait until the new keys are in use
#
#   --profile=PROFILE                   an AWS SSO profile, or `local` for a cloud on this machine without any account
#   --environment=NAME                  the settings file infra/environments/NAME.yaml (default: `local` or `dev`)
#   --confluent-api-key=KEY             a Cloud API key; prefer CONFLUENT_CLOUD_API_KEY or the prompt
#   --confluent-api-secret=SECRET       its secret; prefer CONFLUENT_CLOUD_API_SECRET or the prompt
#   --snowflake-warehouse=NAME          an existing warehouse for users who read the tables in Snowflake
#   --snowflake-organization=NAME       its organization, if the settings name no account (or use
#                                       SNOWFLAKE_ORGANIZATION_NAME or the prompt)
#   --snowflake-account=NAME            its account (or use SNOWFLAKE_ACCOUNT_NAME or the prompt)
#   --snowflake-private-key-file=FILE   the private key of Terraform's user (or use SNOWFLAKE_PRIVATE_KEY or the prompt)
#   --day-count=DAYS                    days until a key is rotated (default: 30)
#   --number-of-api-keys-to-retain=N    API keys per account that stay valid (default: 2)
#   --keep-data                         delete: keep the bucket, its encryption key and the tables
#   --secret=WORD                       rotate: only this key, such as `producer` or `snowflake/loader`
#   --leaked                            rotate: revoke the old keys at once, not with a later rotation
#   --policy                            check: print an IAM policy for the deploying profile instead of checking
#   --yes                               do not ask for confirmation
#   --debug                             print every command and write Terraform's debug log to
#                                       .frazil/deploy/NAME/terraform-debug.log, which may contain secrets
#
# Example: scripts/deploy.sh create --profile=local
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$0"; }

misuse() {
  printf '%s\n\nhint: %s\n' "$1" "${2:-run scripts/deploy.sh --help}" >&2
  exit 2
}

from_a_flag() {
  echo "warning: $1 on the command line is stored in the shell history and visible to other users: use $2 or the prompt" >&2
}

main() {
  local verb=${1:-} profile='' environment='' policy='' keep='' of_rotate='' argument='' common=()
  case $verb in
    create | delete | plan | check | outputs | rotate) shift ;;
    -h | --help | help) usage; return 0 ;;
    '') usage >&2; return 2 ;;
    *) misuse "Unknown command \`$verb\`: expected create, delete, plan, check, outputs or rotate." ;;
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
        SNOWFLAKE_PRIVATE_KEY=$(cat "${argument#*=}") || misuse 'Cannot read the private key file for Snowflake.'
        export SNOWFLAKE_PRIVATE_KEY
        ;;
      --snowflake-warehouse=?* | --snowflake-organization=?* | --snowflake-account=?*)
        # the other commands use the recorded account
        case $verb in create | plan | check) common+=("$argument") ;; esac
        ;;
      --day-count=?* | --number-of-api-keys-to-retain=?* | --yes) common+=("$argument") ;;
      --keep-data) keep=$argument common+=("$argument") ;;
      --policy) policy=policy ;;
      --secret=?* | --leaked) of_rotate=${argument%%=*} common+=("$argument") ;;
      --debug) common+=("$argument") && export TF_LOG="${TF_LOG:-DEBUG}" ;;
      -h | --help) usage; return 0 ;;
      *) misuse "Unknown option \`${argument%%=*}\`, or its value is missing." ;;
    esac
  done
  [ -n "$profile" ] || misuse 'Missing option: expected --profile=PROFILE or --profile=local.'
  [ "$verb" = delete ] || [ -z "$keep" ] || misuse "--keep-data is an option of delete, not of $verb."
  [ "$verb" = check ] || [ -z "$policy" ] || misuse "--policy is an option of check, not of $verb."
  [ "$verb" = rotate ] || [ -z "$of_rotate" ] || misuse "$of_rotate is an option of rotate, not of $verb."
  [ -n "$environment" ] || { [ "$profile" = local ] && environment=local || environment=dev; }
  common+=("--profile=$profile" "--environment=$environment")
  make --silent setup
  exec .venv/bin/python -m infra.deploy "${policy:-$verb}" "${common[@]}"
}

main "$@"
