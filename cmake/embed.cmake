# Writes files as strings of C: cmake -DDIR=FOLDER -DPREFIX=view_web_ -DFILES="a.css;b.js" -DOUT=FILE -P embed.cmake
# a.css becomes `const char view_web_a[]`, with a NUL behind it; its bytes stand there as numbers, line by line.

set(out "// Generated from ${DIR}.\n#include \"view/web.h\"\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${DIR}/${file} hex HEX)
  # As numbers: no compiler has a limit on the length of a list of them.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(0x0a,)" "\\1\n" bytes "${bytes}")
  string(APPEND out "\nconst char ${PREFIX}${name}[] = {\n${bytes}0};\n")
endforeach()
file(WRITE ${OUT} "${out}")
