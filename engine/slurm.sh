#!/usr/bin/env bash
# A throw-away Slurm on this machine: real daemons, nodes and GPUs that are not there. For tests, and to try flow on Slurm.
#
#     eval "$(engine/slurm.sh up DIR [NODES] [GPUS])"    # 2 nodes of 8 CPUs, 4000 MiB and 2 GPUs each, unless told otherwise
#     sbatch --gres=gpu:1 --wrap 'echo $CUDA_VISIBLE_DEVICES'
#     engine/slurm.sh down DIR                           # ends it and its jobs, and nothing else
#     engine/slurm.sh start DIR controller|node1         # starts again what was killed
#
# Runs as any user, keeps everything in DIR, and listens to nobody who has not the key that lies there. Slurm's own ticks are
# as short as they can be. More lines of slurm.conf can be given in SLURM_EXTRA, other CPUs of a node in SLURM_CPUS, and in
# SLURM_GPU_TYPES='h100 a100' types of GPUs, which nodes have in turn; with SLURM_OWNER=PID it ends with that process.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

# `false` on standard output makes `eval "$(engine/slurm.sh up …)"` fail.
die() { echo "slurm.sh: $*" >&2; echo false; exit 1; }
usage() { sed -n '4,7p' "$0" >&2; exit 2; }

alive() { [ -d "/proc/$1" ] && ! grep -qs '^State:[[:space:]]*Z' "/proc/$1/status"; }

# Daemons by what they wrote into DIR/run, and whatever has this SLURM_CONF and a job's number in its environment.
daemon() { # daemon NAME: its process, if it lives and is ours
  local pid
  pid=$(cat "$dir/run/$1.pid" 2>/dev/null) || return 0
  if [ -n "$pid" ] && alive "$pid" && grep -qzsF "$dir/" "/proc/$pid/cmdline"; then echo "$pid"; fi
}
of_jobs() {
  local file pid
  grep -lzsxF "SLURM_CONF=$SLURM_CONF" /proc/[0-9]*/environ 2>/dev/null | while read -r file; do
    pid=${file#/proc/} pid=${pid%/environ}
    if grep -qsx slurmstepd "/proc/$pid/comm" || grep -qzs '^SLURM_JOB_ID=' "$file"; then alive "$pid" && echo "$pid"; fi
  done || true
}
end() { # end PID…: asks, and after a second kills
  local pid i left
  [ $# -gt 0 ] || return 0
  kill -TERM "$@" 2>/dev/null || true
  for ((i = 0; i < 25; i++)); do
    left=()
    for pid in "$@"; do if alive "$pid"; then left+=("$pid"); fi; done
    [ ${#left[@]} -gt 0 ] || return 0
    sleep 0.02
  done
  kill -KILL "${left[@]}" 2>/dev/null || true
}
down() {
  local file names=()
  [ -f "$SLURM_CONF" ] || return 0
  if [ -n "$(daemon controller)" ]; then
    timeout 5 scancel --quiet --user="$(id -un)" 2>/dev/null || true
    for ((i = 0; i < 15; i++)); do
      [ -n "$(timeout 5 squeue --noheader --states=R,CG,CF,S --format=%i 2>/dev/null)" ] || break
      sleep 0.05
    done
  fi
  for file in "$dir"/run/node*.pid; do file=${file##*/}; names+=("${file%.pid}"); done
  # shellcheck disable=SC2046
  end $(for name in "${names[@]}"; do daemon "$name"; done)
  end $(daemon controller)
  end $(of_jobs)
  end $(daemon munged)
  rm -f "$dir"/run/*.pid
}

start() { # start controller|NODE
  local clean=(env -i "PATH=$PATH" "HOME=${HOME:-/}" "SLURM_CONF=$SLURM_CONF")
  case $1 in
    controller) "${clean[@]}" slurmctld -f "$SLURM_CONF" ;;
    node*) "${clean[@]}" slurmd -N "$1" -f "$SLURM_CONF" ;;
    *) usage ;;
  esac </dev/null >"$dir/log/$1.out" 2>&1
}

is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
ports() { # the first of $1 + 1 in a row that nobody listens to
  local try base i
  for ((try = 0; try < 50; try++)); do
    base=$((20000 + RANDOM % 10000))
    for ((i = 0; i <= $1; i++)); do is_free $((base + i)) || continue 2; done
    echo "$base" && return
  done
  return 1
}

configure() {
  local listen=NoInAddrAny names files types type gpu i
  read -ra types <<<"${SLURM_GPU_TYPES:-fake}"
  base=$(ports "$nodes") || die "no free ports between 20000 and 30000"
  rm -rf "$dir"/{state,log,run,dev,spool}
  mkdir -p "$dir"/{state,log,run,dev,spool}
  # Slurm wants a device for each GPU; links to one that is always there need no root.
  for ((i = 0; i < gpus; i++)); do ln -s /dev/null "$dir/dev/nvidia$i"; done
  files=$([ "$gpus" = 1 ] && echo 0 || echo "[0-$((gpus - 1))]")
  : >"$dir/gres.conf"
  names=""
  for ((i = 1; i <= nodes; i++)); do
    mkdir "$dir/spool/node$i"
    type=${types[(i - 1) % ${#types[@]}]} gpu=""
    if [ "$gpus" -gt 0 ]; then
      gpu=Gres=gpu:$type:$gpus
      echo "NodeName=node$i Name=gpu Type=$type File=$dir/dev/nvidia$files" >>"$dir/gres.conf"
    fi
    names+="NodeName=node$i NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((base + i)) $gpu"$'\n'
  done
  # From 23.11 on it has to be said that there are no control groups; before, the word is not known.
  case $(slurmd -V) in *" "2[0-2].* | *" "23.0*) ;; *) echo CgroupPlugin=disabled >"$dir/cgroup.conf" ;; esac
  # The controller listens where the machine's name leads: to loopback only if that is it.
  case $(getent ahostsv4 "$(uname -n)" | head -1) in 127.*) listen=NoInAddrAny,NoCtldInAddrAny ;; esac
  cat >"$SLURM_CONF" <<CONF
ClusterName=flowtest
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$base
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.sock
CredType=cred/munge
CommunicationParameters=$listen
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/controller.pid
SlurmdPidFile=$dir/run/%n.pid
SlurmctldLogFile=$dir/log/controller.log
SlurmdLogFile=$dir/log/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
# With an epilog the controller looks for what can start as soon as a job has ended, and not once a second.
Epilog=$(type -P true)
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_max_job_start=0
DefMemPerCPU=100
GresTypes=gpu
KillWait=2
MinJobAge=300
SlurmdTimeout=10
SlurmctldTimeout=30
MessageTimeout=10
InactiveLimit=0
ReturnToService=2
SlurmdParameters=config_overrides
${SLURM_EXTRA:-}
NodeName=DEFAULT CPUs=${SLURM_CPUS:-8} RealMemory=4000 State=UNKNOWN
${names}PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
}

start_all() {
  local i up
  (umask 077; head -c 1024 /dev/urandom >"$dir/run/munge.key")
  munged --force --num-threads=2 --key-file="$dir/run/munge.key" --socket="$dir/run/munge.sock" \
    --pid-file="$dir/run/munged.pid" --seed-file="$dir/run/munge.seed" --log-file="$dir/log/munged.log" </dev/null >/dev/null 2>&1 ||
    { tail -n 5 "$dir/log/munged.log" >&2; return 1; }
  start controller || { cat "$dir/log/controller.out" >&2; return 1; }
  # A node that finds nobody there tries again after a second.
  for ((i = 0; i < 100; i++)); do is_free "$base" || break; sleep 0.02; done
  for ((i = 1; i <= nodes; i++)); do
    start "node$i" || { cat "$dir/log/node$i.out" >&2; return 1; }
  done
  for ((i = 0; i < 300; i++)); do
    # A node of several partitions is told as often.
    up=$(timeout 5 sinfo --noheader --Node --format='%N %T' 2>/dev/null | sort -u | grep -cE ' (idle|mixed|allocated)$' || true)
    [ "$up" != "$nodes" ] || return 0
    if grep -qs 'fatal:' "$dir"/log/*.log; then break; fi
    sleep 0.1
  done
  echo "slurm.sh: $up of $nodes nodes came up" >&2
  grep -hs 'fatal:' "$dir"/log/*.log >&2 || tail -n 5 "$dir/log/controller.log" >&2
  return 1
}

what=${1-} dir=${2-}
[ -n "$what" ] && [ -n "$dir" ] || usage
mkdir -p -m 700 "$dir"
dir=$(cd "$dir" && pwd -P)
export SLURM_CONF=$dir/slurm.conf
case $what in
  up)
    nodes=${3:-2} gpus=${4:-2}
    [[ $nodes =~ ^[1-9][0-9]{0,2}$ && $gpus =~ ^[0-9]{1,2}$ ]] || usage
    [ ${#dir} -lt 80 ] || die "the path is too long for the sockets in it: $dir"
    for program in munged slurmctld slurmd sinfo; do
      command -v "$program" >/dev/null || die "$program is not installed. On Debian and Ubuntu:
    apt-get install -y --no-install-recommends slurmctld slurmd slurm-client"
    done
    down
    # In a session of its own: what ends the owner may end all that it has started.
    if [ -n "${SLURM_OWNER:-}" ]; then setsid bash "$0" guard "$dir" $$ </dev/null >/dev/null 2>&1 & fi
    for try in 1 2 3; do # Somebody else may take a port in between.
      configure
      if start_all; then break; fi
      down
      [ "$try" != 3 ] || die "the Slurm in $dir did not start: see $dir/log"
    done
    printf 'export SLURM_CONF=%q\n' "$SLURM_CONF"
    ;;
  guard) # as long as the owner lives, and whoever starts it for them
    while alive "$SLURM_OWNER" || alive "${3-}"; do [ -d "$dir" ] || exit 0; sleep 1; done
    down
    ;;
  start)
    # A daemon that is ending still has its port, and one that finds no port ends.
    for ((i = 0; i < 100; i++)); do [ -n "$(daemon "${3-}")" ] || break; sleep 0.1; done
    for try in 1 2 3; do
      start "${3-}"
      for ((i = 0; i < 5; i++)); do sleep 0.1; [ -n "$(daemon "${3-}")" ] || continue 2; done
      break
    done
    ;;
  down) down ;;
  *) usage ;;
esac
