#!/bin/sh
# A TrainingJob that trains while its trainers come and go: a failed parameter server, a deleted trainer, growth.
# All state is in a temporary directory, which is removed at the end.
set -eu
cd "$(dirname "$0")"
shoal=${SHOAL:-shoal}
directory=$(mktemp -d "${TMPDIR:-/tmp}/shoal-trainingjob.XXXXXX")
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
sed "s|DIRECTORY|$directory|" job.yaml >"$directory/regression.yaml"

note 'Two nodes of four CPUs; other work holds three of them.'
say up -d --nodes 2 --node-cpu 4 --config scheduler.yaml
say apply -f other-work.yaml
say wait job/other-work --for='jsonpath={.status.active}=3'
note 'Master, then parameter servers, then trainers: as many as there is room for.'
say apply -f "$directory/regression.yaml"
say wait tj/regression --for='jsonpath={.status.phase}=Running' --timeout=60s
say get trainingjobs,pods
note 'A parameter server fails once: it comes back under its name and goes on, while the trainers wait for it.'
say wait tj/regression --for='jsonpath={.status.replicas.pserver.failed}=1' --timeout=60s
note 'A trainer is deleted: another one gets its chunk, and it comes back.'
say delete pod/regression-trainer-1
note 'The other work ends: the job grows.'
say delete job/other-work
say wait tj/regression --for='jsonpath={.status.replicas.trainer.ready}=6' --timeout=60s
say wait tj/regression --for=condition=Succeeded --timeout=120s
say get trainingjobs,pods
say describe trainingjob regression
say logs regression-trainer-1
note 'The master wrote a line for each pass: the loss fell all the time, however many trainers there were.'
printf '\n'
cat "$directory/passes.txt"
