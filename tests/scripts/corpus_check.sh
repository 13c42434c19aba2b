#!/bin/bash
# Every module of the corpus of real programs reads and verifies.
corpus=${HILO_CORPUS:-../shared/corpus}
[ -d "$corpus/models" ] || { echo "skipped: no corpus at HILO_CORPUS"; exit 77; }
failed=0 n=0
while IFS= read -r -d '' file; do
  n=$((n + 1))
  if ! message=$("$HILO" check "$file" 2>&1); then
    echo "FAIL ${file#"$corpus"/}"
    head -n 3 <<<"$message"
    failed=$((failed + 1))
  fi
done < <(find "$corpus/models" "$corpus/jax" "$corpus/roberta" "$corpus/hloenv" "$corpus/paragraph" "$corpus/dumps" \
  \( -name '*.hlo' -o -name '*.hlo.pb' -o -name '*before_optimizations*.txt' -o -name '*after_optimizations*.txt' \) \
  ! -name '*-buffer-assignment*' ! -name '*-memory-usage-report*' ! -name '*-live-range*' -print0)
echo "$n files, $failed failed"
[ $failed = 0 ] && [ $n -ge 240 ]
