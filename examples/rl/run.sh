#!/bin/sh
# CartPole with one learner and up to three collectors, on one node: grown, shrunk, preempted and resumed while it
# learns. All state is in a temporary directory, which is removed at the end. `make rl` runs it (a minute).
set -eu
cd "$(dirname "$0")"
shoal=${SHOAL:-shoal} python=${PYTHON:-python3} steps=${STEPS:-500000}
DATA=$(mktemp -d "${TMPDIR:-/tmp}/shoal-rl.XXXXXX")
SHOAL_HOME=$DATA/home
export SHOAL_HOME
unset KUBECONFIG

clean_up() {
	trap - EXIT INT TERM
	"$shoal" down >/dev/null || true
	rm -rf "$DATA"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m$ shoal %s\033[0m\n' "$*"; "$shoal" "$@"; }

note() { printf '\n\033[2m# %s\033[0m' "$*"; }

# Prints the last line of the learner's log after some seconds: the rewards so far, as bars.
learned() {
	sleep "$1"; echo
	"$shoal" logs dijob/cartpole --tail 20 2>/dev/null | grep reward | tail -1 || true
}

note 'One node with 2 CPUs: room for four workers.'
say up -d --nodes 1 --node-cpu 2 --node-memory 1Gi --config scheduler.yaml
sed -e "s|@PYTHON@|$python|; s|@HERE@|$PWD|; s|@DATA@|$DATA|; s|@STEPS@|$steps|" job.yaml > "$DATA/job.yaml"
note 'A learner, and as many collectors as there is room for.'
say apply -f "$DATA/job.yaml"
learned 3
learned 5
note 'Fewer collectors: the highest ranks leave, the others go on.'
say scale dijob/cartpole --replicas=2
learned 4
note 'More collectors: nothing that runs is restarted or reconnected.'
say scale dijob/cartpole --replicas=4
learned 5
note 'An urgent job takes the whole node. The learner writes its checkpoint first.'
say apply -f urgent.yaml
say wait job/urgent --for=condition=Complete
note 'Then it continues from there.'
learned 6
say get dijob/cartpole
say wait dijob/cartpole --for=condition=Succeeded --timeout=300s
note 'The rewards of the whole training.'
learned 0
