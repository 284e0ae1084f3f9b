#!/bin/sh
# A TYJob whose learner trains from workers over sockets: partial start, late workers, failures, a deleted pod.
# All state is in a temporary directory, which is removed at the end.
set -eu
cd "$(dirname "$0")"
shoal=${SHOAL:-shoal}
directory=$(mktemp -d "${TMPDIR:-/tmp}/shoal-tyjob.XXXXXX")
SHOAL_HOME=$directory/home
export SHOAL_HOME
unset KUBECONFIG

clean_up() {
	trap - EXIT INT TERM
	"$shoal" down >/dev/null || true
	rm -rf "$directory"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m$ shoal %s\033[0m\n' "$*"; "$shoal" "$@"; }

note() { printf '\n\033[2m# %s\033[0m' "$*"; }

cp ./*.py "$directory"
sed "s|DIRECTORY|$directory|" job.yaml >"$directory/cliff.yaml"

note 'Two small nodes; other work holds a part of them.'
say up -d --nodes 2 --node-cpu 2
say apply -f other-work.yaml
say wait job/other-work --for='jsonpath={.status.active}=3'
say apply -f "$directory/cliff.yaml"
note 'The leader and the minimum of workers have nodes: the job starts, the other workers wait for room.'
say wait tyjob/cliff --for='jsonpath={.status.stage}=Running'
say get tyjobs,pods
note 'A worker is deleted: it comes back, and costs no restart.'
say delete pod/cliff-actor-0
note 'The learner fails once: it is started again and goes on from its checkpoint, while the workers run on.'
say wait tyjob/cliff --for='jsonpath={.status.restarts.learner}=1' --timeout=120s
note 'The other work ends: the workers that waited join. One of them always fails, and is given up.'
say delete job/other-work
say wait tyjob/cliff --for=condition=Succeeded --timeout=120s
say get tyjobs,pods
say get tyjob/cliff -o 'jsonpath=restarts: {.status.restarts}, given up: {.status.failed}'
echo
say logs cliff-learner
