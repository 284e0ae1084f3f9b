#!/bin/sh
# A cluster of four small machines on this one, two teams, three jobs: one borrows, one takes its room back, one is a gang.
# Everything is in a temporary directory, and nothing is left behind. `make demo` runs it.
set -eu
cd "$(dirname "$0")"
shoal=${SHOAL:-shoal}
SHOAL_HOME=$(mktemp -d "${TMPDIR:-/tmp}/shoal-demo.XXXXXX")/home
export SHOAL_HOME
unset KUBECONFIG

later=
clean_up() {
	trap - EXIT INT TERM
	[ -z "$later" ] || kill "$later" 2>/dev/null || true
	"$shoal" down >/dev/null || true
	rm -rf "$(dirname "$SHOAL_HOME")"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m$ shoal %s\033[0m\n' "$*"; "$shoal" "$@"; }

note() { printf '\n\033[2m# %s\033[0m' "$*"; }

note 'Four small machines, played by this one. Two teams own two of them each.'
say up -d --nodes 4 --node-cpu 2 --node-memory 1Gi
say label nodes node-0 node-1 team=vision
say label nodes node-2 node-3 team=speech
note 'The vision team has more to do than fits its own machines: the rest borrows from the speech team.'
say apply -f pools.yaml -f sweep.yaml

# What comes while the picture is shown.
{
	sleep 3; "$shoal" apply -f gang.yaml
	sleep 3; "$shoal" apply -f decode.yaml
} >/dev/null &
later=$!

note 'Soon a gang comes, which starts whole or not at all; then the speech team, which takes its machines back.'
say watch --until-idle
later=
say get jobs
say logs job/allreduce --tail 1
