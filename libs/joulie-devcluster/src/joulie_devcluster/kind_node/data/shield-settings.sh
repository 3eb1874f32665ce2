#!/bin/bash
# The kubelet changes settings of the kernel, which the node shares with the machine: give it copies.
set -o errexit -o nounset
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
  kernel/keys/root_maxbytes; do
  copy=/run/settings/$setting
  mkdir -p "${copy%/*}"
  cat "/proc/sys/$setting" >"$copy"
  mount --bind "$copy" "/proc/sys/$setting"
done
