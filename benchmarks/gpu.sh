#!/usr/bin/env bash
# Everything in these benchmarks that only a GPU can tell, in order, in as many visits as it takes.
#
#     bash benchmarks/gpu.sh FOLDER MINUTES [STEP...]
#
# Results, logs and what is needed to go on stay in FOLDER. What is done is left as it is. Exit code
# 75: time was up; the same command goes on. `benchmarks/README.md` says more.
set -uo pipefail

if [ $# -lt 2 ]; then
  echo "usage: bash benchmarks/gpu.sh FOLDER MINUTES [STEP...]" >&2
  exit 2
fi
folder=$(realpath -m "$1")
end=$(($(date +%s) + $2 * 60))
shift 2
chosen=" $* "
device=${DEVICE:-cuda}
frames=${FRAMES:-3_000_000}
seconds=${SECONDS_EACH:-20}
idqn=${IDQN:-idqn}
python=${PYTHON:-python3}
# torch's threads would take the cores from the emulators
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE PYTHONUNBUFFERED=1
mkdir -p "$folder/done"
cd "$(dirname "$0")/.."

left() { echo $((end - $(date +%s))); }

# step NAME SECONDS COMMAND...: once, if so many seconds are left; a failure is noted, and the rest goes on
step() {
  local name=$1 needs=$2 began code
  shift 2
  if [ -e "$folder/done/$name" ]; then return; fi
  if [ "$chosen" != "  " ] && [[ "$chosen" != *" $name "* ]]; then return; fi
  if [ "$(left)" -lt "$needs" ]; then
    echo "$name: needs $needs s, $(left) are left; the same command goes on"
    exit 75
  fi
  began=$(date +%s)
  timeout "$(left)" "$@" >> "$folder/$name.log" 2>&1
  code=$?
  echo "$name: exit code $code after $(($(date +%s) - began)) s; $(tail -n 1 "$folder/$name.log")"
  case $code in
    75 | 124 | 143) exit 75 ;; # time was up in the middle of it
    *) echo "$code" > "$folder/done/$name" ;;
  esac
}

# minutes that a step which stops by itself may take, with one to spare for its last checkpoint
minutes() { echo $((($(left) - 60) / 60)); }

bench() { # NAME SECONDS CACHE RUNS [OPTIONS]; an empty CACHE is a first start, compiling included
  local name=$1 needs=$2 cache=$folder/cache/$3 runs=$4
  shift 4
  export TRITON_CACHE_DIR=$cache/triton TORCHINDUCTOR_CACHE_DIR=$cache/inductor
  step "$name" "$needs" $idqn bench train --runs "$runs" --device "$device" --seconds "$seconds" \
    --json "$folder/$name.json" --quiet "$@"
}

step tests 120 "$python" -m pytest -q -p no:cacheprovider tests/kernels tests/torso tests/test_capture.py \
  tests/test_replay_state.py tests/test_learner.py
bench speed-1 80 one 1
bench speed-24 120 many 24
bench speed-1-again 60 one 1
bench speed-24-again 80 many 24
bench speed-1-envs-32 80 one 1 --train.envs 32
bench speed-ddqn-1 80 ddqn 1 --agent ddqn
bench speed-ddqn-24 120 ddqn 24 --agent ddqn
step explain 60 $idqn bench explain --device "$device" --json "$folder/explain.json" --quiet
bench speed-3-8 160 many 3,8
step agents 120 "$python" benchmarks/agents.py --frames "$frames" --set agent.epsilon_steps=250_000 \
  --minutes "$(minutes)" --device "$device" --runs-dir "$folder/agents-runs" --out "$folder/agents"
for seeds in 0 "1 2"; do
  # shellcheck disable=SC2086
  step "table1-${seeds// /-}" 120 $idqn reproduce table1 --train --agents idqn --seeds $seeds \
    --minutes "$(minutes)" --device "$device" --runs "$folder/table1-runs" --out "$folder/table1" --quiet
done
