#!/usr/bin/env bash
# Everything in these benchmarks that only a GPU can tell, in order, in as many visits as it takes.
#
#     HOME_TO=DIR bash benchmarks/gpu.sh FOLDER MINUTES [STEP...]
#
# Results, logs and what is needed to go on stay in FOLDER. What is done is left as it is. Exit code
# 75: time was up; the same command goes on. `benchmarks/README.md` says more.
set -uo pipefail

if [ $# -lt 2 ]; then
  echo "usage: [HOME_TO=DIR] bash benchmarks/gpu.sh FOLDER MINUTES [STEP...]" >&2
  exit 2
fi
folder=$(realpath -m "$1")
end=$(($(date +%s) + $(awk "BEGIN { print int(60 * $2) }")))
shift 2
chosen=" $* "
device=${DEVICE:-cuda}
frames=${FRAMES:-3_000_000}
episodes=${EPISODES:-100}
table_frames=${TABLE_FRAMES:-10_000_000}
precision_frames=${PRECISION_FRAMES:-500_000}
seconds=${SECONDS_EACH:-20}
idqn=${IDQN:-idqn}
python=${PYTHON:-python3}
home=${HOME_TO:+$(realpath -m "$HOME_TO")}
packing=${PACKING_SECONDS:-30} # kept for the last packing
grace=${GRACE_SECONDS:-15}     # seconds after SIGTERM until a step is killed
patient=45                     # seconds that a training which stops by itself has for checkpoints
child=
# torch's threads would take the cores from the emulators
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE PYTHONUNBUFFERED=1
mkdir -p "$folder/done"
cd "$(dirname "$0")/.."

left() { echo $((end - $(date +%s) - (${#home} ? packing : 0))); }

# bring home what there is: OPTIONS as for home.py; it must never cost more than its time
pack() {
  if [ -n "$home" ]; then
    timeout -k 5 "$((packing + 30))" "$python" benchmarks/home.py "$folder" "$home" "$@" \
      >> "$folder/home.log" 2>&1 || echo "not all was brought home: $(tail -n 1 "$folder/home.log")"
  fi
}

finish() {
  pack
  exit 75
}

interrupted() {
  trap '' INT TERM
  if [ -n "$child" ]; then
    kill -TERM "$child" 2> /dev/null
    wait "$child"
  fi
  echo "interrupted; the same command goes on"
  finish
}
trap interrupted INT TERM

# step NAME NEEDS MOST COMMAND...: once, if NEEDS seconds are left, and for at most MOST. What fails
# or hangs is noted, and the rest goes on.
step() {
  local name=$1 needs=$2 most=$3 began took code granted
  shift 3
  if [ -e "$folder/done/$name" ]; then return; fi
  if [ "$chosen" != "  " ] && [[ "$chosen" != *" $name "* ]]; then return; fi
  granted=$(($(left) - grace))
  if [ "$granted" -lt "$needs" ]; then
    echo "$name: needs $needs s, $granted are left; the same command goes on"
    finish
  fi
  granted=$((granted < most ? granted : most))
  began=$(date +%s)
  timeout -k "$grace" "$granted" "$@" >> "$folder/$name.log" 2>&1 &
  child=$!
  while ! waited 120; do pack --results; done # a step of many minutes: what is known so far
  wait "$child"
  code=$?
  child=
  took=$(($(date +%s) - began))
  echo "$name: exit code $code after $took s; $(tail -n 1 "$folder/$name.log")"
  case $code in
    75) finish ;;
    124 | 137 | 143) # stopped from here, or killed
      if [ "$granted" -lt "$most" ] && [ "$took" -ge "$granted" ]; then finish; fi ;;
  esac
  echo "$code" > "$folder/done/$name"
  pack
}

# whether the step under way ends within so many seconds
waited() {
  local until=$(($(date +%s) + $1))
  while kill -0 "$child" 2> /dev/null; do
    if [ "$(date +%s)" -ge "$until" ]; then return 1; fi
    sleep 0.5
  done
}

# minutes for what stops by itself, with time to spare for its last checkpoint
minutes() {
  local s=$(($(left) - grace - patient))
  s=$((s > 0 ? s : 0))
  printf '%d.%02d' $((s / 60)) $((s % 60 * 100 / 60))
}

bench() { # NAME NEEDS CACHE RUNS [OPTIONS]; an empty CACHE is a first start, compiling included
  local name=$1 needs=$2 cache=$folder/cache/$3 runs=$4
  shift 4
  export TRITON_CACHE_DIR=$cache/triton TORCHINDUCTOR_CACHE_DIR=$cache/inductor
  step "$name" "$needs" $((5 * needs / 2)) $idqn bench train --runs "$runs" --device "$device" \
    --seconds "$seconds" --json "$folder/$name.json" "$@"
}

# versions are not the pinned ones here, and what they warn of is nothing that the GPU could tell
step tests 60 150 "$python" -m pytest -v -p no:cacheprovider -W default --maxfail 8 \
  tests/test_capture.py tests/kernels tests/torso tests/test_replay_state.py tests/test_learner.py
bench speed-24 120 many 24
bench speed-1 80 one 1
bench speed-ddqn-24 100 ddqn 24 --agent ddqn
bench speed-ddqn-1 70 ddqn 1 --agent ddqn
# beside it, for it is compared with speed-1
step peer-sb3 30 90 "$python" benchmarks/peers.py sb3 --device "$device" --envs 16 \
  --seconds "$seconds" --json "$folder/peer-sb3.json"
# with all cores, as a user has them
step explain 60 180 env -u OMP_NUM_THREADS $idqn bench explain --device "$device" \
  --json "$folder/explain.json"
export TRITON_CACHE_DIR=$folder/cache/many/triton TORCHINDUCTOR_CACHE_DIR=$folder/cache/many/inductor
table1() { # SEEDS...
  local seeds="$*"
  step "table1-${seeds// /-}" $((patient + 90)) 1000000 $idqn reproduce table1 --train \
    --agents idqn --seeds "$@" --frames "$table_frames" --episodes "$episodes" \
    --minutes "$(minutes)" --device "$device" --runs "$folder/table1-runs" --out "$folder/table1"
}
table1 0
step agents $((patient + 90)) 1000000 "$python" benchmarks/agents.py --frames "$frames" \
  --set agent.epsilon_steps=250_000 --minutes "$(minutes)" --device "$device" \
  --runs-dir "$folder/agents-runs" --out "$folder/agents"
# the same games, seeds and frames in bfloat16 and in float32
for precision in medium highest; do
  step "precision-$precision" 100 240 $idqn train ALE/MsPacman-v5 ALE/Qbert-v5 --seeds 0 1 2 \
    --frames "$precision_frames" --system.matmul-precision "$precision" --device "$device" \
    --runs-dir "$folder/precision-$precision-runs" --quiet
done
bench speed-24-again 80 many 24
bench speed-1-again 60 one 1
bench speed-1-envs-32 80 one 1 --train.envs 32
bench speed-3-8 160 many 3,8
table1 1 2
pack
