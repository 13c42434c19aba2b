# bash completion for hilo: the program itself says which commands, options and values it has.
_hilo() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
  local option= words= head= is_value=
  if [ "$COMP_CWORD" -gt 1 ]; then
    # bash takes --option, = and the value for three words.
    [ "$word" != = ] || { option=$before word=; }
    [ "$before" != = ] || option=${COMP_WORDS[COMP_CWORD-2]}
    [[ $before != -* || $word == -* ]] || option=${option:-$before}
  fi
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="$(hilo --list-commands 2>/dev/null) --help --version"
  elif [ -n "$option" ]; then
    words=$(hilo "$command" --list-values="$option" 2>/dev/null) is_value=1
    [[ $word != *,* ]] || head=${word%,*},
  elif [[ $word == -* ]]; then
    words=$(hilo "$command" --list-options 2>/dev/null)
  else
    words=$(hilo "$command" --list-values 2>/dev/null)
  fi
  mapfile -t COMPREPLY < <(compgen -P "$head" -W "$words" -- "${word#"$head"}")
  if [ ${#COMPREPLY[@]} -eq 0 ]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  elif [[ ${#COMPREPLY[@]} -eq 1 && -z $is_value && ${COMPREPLY[0]} == *= ]]; then
    compopt -o nospace 2>/dev/null
  fi
}
complete -F _hilo hilo
