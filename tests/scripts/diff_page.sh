#!/bin/bash
# The page of a comparison opens in a browser, without network: its rows are there, long runs of what is the same are folded away, and
# its script has run without an error.
hilo=${HILO:-build/hilo}
command -v chromium > /dev/null || { echo "skipped: chromium is not installed"; exit 77; }
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
fail() { echo "$1" >&2; exit 1; }
before=tests/fixtures/mlp_train/before.hlo
sed 's/ tanh(/ logistic(/; s/ exponential(/ cosine(/' "$before" > "$tmp/b.hlo"
"$hilo" diff "$before" "$tmp/b.hlo" -o "$tmp/diff.html"
[ $? = 1 ] || fail "they differ"
grep -qE 'https?://|<link|src=' "$tmp/diff.html" && fail "the page asks for more than itself"
# What the script does is written down by one more, which presses j twice, opens a fold and hides what changed.
cat >> "$tmp/diff.html" << 'JS'
<script>
window.onerror=m=>{document.title='error '+m};
const press=k=>document.dispatchEvent(new KeyboardEvent('keydown',{key:k,bubbles:true}));
const key=k=>document.onkeydown({key:k,target:document.body});
key('j');key('j');
const hit=document.querySelectorAll('tr.hit').length,folds=document.querySelectorAll('tr.fold').length;
const hidden=document.querySelectorAll('tr.hide').length;document.querySelector('tr.fold')?.onclick();
const after=document.querySelectorAll('tr.hide').length;
const box=document.querySelector('input[value=changed]');box.checked=false;box.onchange();
const off=document.querySelectorAll('tr.off').length,changed=document.querySelectorAll('tr.changed').length;
document.title=`rows ${document.querySelectorAll('tr.r').length} hit ${hit} folds ${folds} opened ${hidden-after} off ${off} changed ${changed}`;
</script>
JS
timeout 120 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$tmp/profile" --dump-dom "file://$tmp/diff.html" \
  > "$tmp/dom" 2> "$tmp/err" || fail "chromium: $(tail -n 2 "$tmp/err")"
title=$(grep -o '<title>[^<]*' "$tmp/dom" | sed 's/<title>//')
echo "$title"
read -r _ rows _ hit _ folds _ opened _ off _ changed <<< "$title"
counted=$("$hilo" diff --json --all "$before" "$tmp/b.hlo" | grep -o '"verdict"' | wc -l)
[ "$rows" = "$counted" ] || fail "$rows rows on the page, $counted in the report"
[ "$hit" = 1 ] && [ "$folds" -gt 0 ] && [ "$opened" -gt 0 ] && [ "$off" = "$changed" ] && [ "$changed" -gt 0 ] || fail "the page does not do what it says"
