#!/bin/sh
# A cluster of four simulated nodes, two teams, four jobs of four kinds: one grows, one borrows nodes, one reclaims them
# as a gang, one gives way to it and grows back.
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
say up -d --nodes 4 --node-cpu 4 --node-gpu 2 --node-memory 1Gi --config scheduler.yaml
say label nodes node-0 node-1 team=vision
say label nodes node-2 node-3 team=speech
note 'A DIJob of the vision team and a TrainingJob of the speech team grow into the GPUs of their nodes.'
say apply -f pools.yaml -f cartpole.yaml -f recognise.yaml

# Submitted while `shoal watch` runs.
{
	sleep 4; "$shoal" apply -f sweep.yaml
	sleep 5; "$shoal" apply -f align.yaml
} >/dev/null &
later=$!

note 'Soon the vision team submits a sweep, which borrows CPUs of the speech team. Then the speech team submits a gang: it'
note 'reclaims the CPUs, and the TrainingJob gives it two GPUs until it has ended.'
say watch --until-idle
later=
say get dijobs,tyjobs,trainingjobs,jobs
say describe trainingjob recognise
