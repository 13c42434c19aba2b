# Writes the linker's version script of libhilo.so: what it exports is what the public headers declare.
#   cmake -DHEADERS=DIR -DOUT=FILE -P exports.cmake
# Every word hl_... of the headers counts that is not in a comment. (Functions that are inline are among them, and do no harm.)

file(GLOB headers ${HEADERS}/*.h)
set(names)
foreach(header ${headers})
  file(READ ${header} text)
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX MATCHALL "[A-Za-z0-9_]+" words "${text}")
  list(FILTER words INCLUDE REGEX "^hl_[a-z0-9_]+$")
  list(APPEND names ${words})
endforeach()
list(REMOVE_DUPLICATES names)
list(SORT names)
list(JOIN names ";\n    " names)
file(WRITE ${OUT} "{\n  global:\n    ${names};\n  local: *;\n};\n")
