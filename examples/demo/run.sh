#!/bin/sh
# A cluster of four simulated nodes, two teams, three jobs: one borrows nodes, one reclaims them, one is a gang.
# All state is in a temporary directory, which is removed at the end. `make demo` runs it.
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

note 'Four small nodes, simulated on this machine. Two teams own two of them each.'
say up -d --nodes 4 --node-cpu 2 --node-memory 1Gi
say label nodes node-0 node-1 team=vision
say label nodes node-2 node-3 team=speech
note 'The jobs of the vision team do not fit its own nodes: the rest borrows nodes of the speech team.'
say apply -f pools.yaml -f sweep.yaml

# Submitted while `shoal watch` runs.
{
	sleep 3; "$shoal" apply -f gang.yaml
	sleep 3; "$shoal" apply -f decode.yaml
} >/dev/null &
later=$!

note 'Soon a gang is submitted, which starts as a whole or not at all; then a job of the speech team, which reclaims its nodes.'
say watch --until-idle
later=
say get jobs
say logs job/allreduce --tail 1
