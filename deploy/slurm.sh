#!/bin/bash
#SBATCH --job-name=fleet
#SBATCH --cpus-per-task=1 --mem=4G --time=1:00:00
#SBATCH --no-requeue
# One task of an array for each case of a fleet that waits. The fleet's folder must be shared, or HARNESS_FLEET_STORE set.
#   harness fleet plan PLAN.toml --trust --name FLEET
#   harness fleet status FLEET --json > status.json
#   jq -r '.cases[] | select(.state == "waiting") | .case' status.json > cases.txt
#   sbatch --array="1-$(wc -l < cases.txt)%8" deploy/slurm.sh FLEET cases.txt
# Afterwards `harness fleet resume FLEET` attempts again what was lost, and writes all of it into the fleet's log.
set -euo pipefail
fleet=${1:?the fleet} cases=${2:?a file with one case a line}
case_id=$(sed -n "${SLURM_ARRAY_TASK_ID:?start this with sbatch --array}p" "$cases")
code=0
harness fleet work "$fleet" "${case_id:?the file has no such line}" || code=$?
# 75: another worker has the case; 76: the attempt had no result, which the fleet knows. Neither is an error of the job.
if [ "$code" -eq 75 ] || [ "$code" -eq 76 ]; then code=0; fi
exit "$code"
