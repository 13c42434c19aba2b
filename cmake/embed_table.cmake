# Writes files as one table of C: cmake -DDIR=FOLDER -DFILES="a.system;b.system" -DHEADER=sim/net/net.h
#   "-DTABLE=const NetSystemFile net_system_files" -DOUT=FILE -P embed_table.cmake
# Their bytes stand there as numbers, line by line, with a NUL behind them.

set(texts "")
set(rows "")
set(n 0)
foreach(file ${FILES})
  get_filename_component(name ${file} NAME_WLE)
  file(READ ${DIR}/${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(0x0a,)" "\\1\n" bytes "${bytes}")
  string(APPEND texts "\nstatic const char text${n}[] = {\n${bytes}0};\n")
  string(APPEND rows "  {\"${name}\", text${n}},\n")
  math(EXPR n "${n} + 1")
endforeach()
file(WRITE ${OUT} "// Generated from ${DIR}.\n#include \"${HEADER}\"\n${texts}
${TABLE}[] = {\n${rows}  {0, 0},\n};\n")
