# bash completion for hilo: the program itself says which commands and options it has.
_hilo() {
  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words=
  [ "$word" != = ] || word=  # after --option=, which bash takes for words of their own
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="$(hilo --list-commands 2>/dev/null | cut -d' ' -f1) --help --version"
  elif [[ $word == -* ]]; then
    words=$(hilo "$command" --list-options 2>/dev/null | cut -d' ' -f1)
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  if [ ${#COMPREPLY[@]} -eq 0 ]; then
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  elif [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
    compopt -o nospace
  fi
}
complete -F _hilo hilo
