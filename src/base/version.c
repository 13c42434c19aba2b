// version.c: the version that the library was built with.

#include "hilo/version.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

const char *hl_version(void) {
  return TEXT(HL_VERSION_MAJOR) "." TEXT(HL_VERSION_MINOR) "." TEXT(HL_VERSION_PATCH);
}

int hl_version_number(void) {
  return HL_VERSION_NUMBER;
}
