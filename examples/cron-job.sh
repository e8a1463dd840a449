#!/usr/bin/env bash
# Runs a command and tells Annals when it starts and how it ends. In a crontab:
#   ANNALS_URL=https://annals.example.org
#   ANNALS_TOKEN=...
#   0 3 * * *  cron-job.sh backup pg_dump --file /backup/orders.sql orders
# The command runs whether or not Annals can be reached, and its exit code is kept.
set -u
name=$1
shift
run=$(hostname)-$$-$(date +%s)

# Who repeats an event with its key publishes it once, so trying twice is safe.
tell() {
    local state=$1 data=$2
    for _ in 1 2; do
        annals publish "cron/$state/$name" --key "/cron/$name" --data "$data" --idempotency-key "$run-$state" \
            --deadline 10 > /dev/null && return
    done
}

tell started "{\"run\": \"$run\"}"
began=$SECONDS
"$@"
code=$?
state=finished
[ $code -eq 0 ] || state=failed
tell $state "{\"run\": \"$run\", \"code\": $code, \"seconds\": $((SECONDS - began))}"
exit $code
