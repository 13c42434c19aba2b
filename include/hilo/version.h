// hilo/version.h: which Hilo this is. CMakeLists.txt reads the numbers here.
#ifndef HILO_VERSION_H
#define HILO_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

#define HL_VERSION_MAJOR 0
#define HL_VERSION_MINOR 1
#define HL_VERSION_PATCH 0
#define HL_VERSION_NUMBER (HL_VERSION_MAJOR * 1000000 + HL_VERSION_MINOR * 1000 + HL_VERSION_PATCH)

// Of the library that runs, which may be another than the header's: "0.1.0", and as HL_VERSION_NUMBER.
const char *hl_version(void);
int hl_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
