#!/bin/bash
# Fails on an include that looks sideways or up. The numbers of the folders are in src/LAYERS; a public
# header include/hilo/NAME.h belongs to the folder NAME, or to the one that a "header" row gives. Large folders
# have rooms, which are numbered ("room" rows) and have few exceptions ("allow" rows). A folder holds MOST files at most.
cd "$(dirname "$0")/.." || exit 2
MOST=60
declare -A number home room allowed
while read -r a b c reason; do
  case $a in
    '' | '#'*) ;;
    header) home[$b]=$c ;;
    room) room[$b]=$c ;;
    allow) allowed["$b $c"]=${reason:?"$b: an allow row gives its reason"} ;;
    *) number[$a]=$b ;;
  esac
done < src/LAYERS

bad=0 n_includes=0
complain() {
  echo "$1: $2" >&2
  bad=1
}

# Compares the folder of a file ($2) with the folder of what it includes ($4).
look() {
  local file=$1 from=$2 line=$3 to=$4
  if [ -z "${number[$from]}" ]; then
    complain "$file" "folder $from is not in src/LAYERS"
  elif [ -n "${number[$to]}" ] && [ "$from" != "$to" ] && [ "${number[$to]}" -ge "${number[$from]}" ]; then
    complain "$file:$line" "layer $from (${number[$from]}) includes $to (${number[$to]})"
  fi
}

# Compares the rooms of a file and of what it includes, both by their paths under src.
look_inside() {
  local file=$1 line=$2 target=$3 from=${1%/*} to=${3%/*}
  [ "$from" != "$to" ] && [ -n "${room[$to]}" ] && [ "${from%%/*}" = "${to%%/*}" ] || return
  [ -n "${allowed["$file $target"]}" ] && return
  [ "${room[$to]}" -lt "${room[$from]:-0}" ] ||
    complain "src/$file:$line" "room $from (${room[$from]:-0}) includes $to (${room[$to]})"
}

while IFS=: read -r file line target; do
  n_includes=$((n_includes + 1))
  case $file in
    src/*) from=${file#src/} from=${from%%/*} ;;
    include/hilo/*) name=${file#include/hilo/} from=${home[$name]:-${name%%.*}} ;;
  esac
  case $target in
    hilo/*) name=${target#hilo/} to=${home[$name]:-${name%%.*}}
      [ -e "include/hilo/$name" ] || complain "$file:$line" "no such public header: $target"
      [ -n "${number[$to]}" ] || complain "$file:$line" "$target belongs to no folder (add a header row to src/LAYERS)" ;;
    */*) to=${target%%/*}
      case $file in include/*) [ -z "${number[$to]}" ] || complain "$file:$line" "a public header includes a private one" ;; esac ;;
    *) continue ;;
  esac
  look "$file" "$from" "$line" "$to"
  case $file in src/*) look_inside "${file#src/}" "$line" "$target" ;; esac
done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]' src include --include='*.[ch]' --include='*.def' |
  sed -E 's/^([^:]*:[^:]*:)[^"<]*["<]([^">]*)[">].*/\1\2/')

for folder in $(find src -mindepth 1 -type d); do
  name=${folder#src/} n=$(find "$folder" -maxdepth 1 -type f | wc -l)
  case $name in
    */*) [ -n "${room[$name]}" ] || complain "$folder" "the room is not in src/LAYERS" ;;
  esac
  [ "$n" -le $MOST ] || complain "$folder" "$n files in one folder, at most $MOST: it needs rooms"
done
[ $n_includes -ge 1000 ] || complain src "only $n_includes includes found"
[ $bad = 0 ] && echo "layers: each of $n_includes includes looks down"
exit $bad
