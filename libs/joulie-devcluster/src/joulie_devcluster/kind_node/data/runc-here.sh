#!/bin/sh
# runc for `docker run --privileged` on a machine whose root lacks CAP_SYS_RESOURCE: docker asks for all capabilities, and
# runc refuses to start what it cannot give them to. RUNC is the path of runc.
bundle=. process='' verb='' previous=''
for argument in "$@"; do
  case $previous in
    --bundle | -b) bundle=$argument ;;
    --process | -p) process=$argument ;;
  esac
  case $argument in
    create | run | exec) [ -n "$verb" ] || verb=$argument ;;
  esac
  previous=$argument
done
case $verb in
  create | run) sed -i 's/"CAP_SYS_RESOURCE",//g' "$bundle/config.json" ;;
  exec) [ -z "$process" ] || sed -i 's/"CAP_SYS_RESOURCE",//g' "$process" ;;
esac
exec RUNC "$@"
