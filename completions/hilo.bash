# bash completion for hilo: the program itself says which commands and options it has.
_hilo() {
  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="$(hilo --list-commands 2>/dev/null | cut -d' ' -f1) --help --version"
  elif [[ $word == -* ]]; then
    words="$(hilo "$command" --list-options 2>/dev/null | cut -d' ' -f1) --help"
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  [ ${#COMPREPLY[@]} -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "$word")
}
complete -o filenames -F _hilo hilo
