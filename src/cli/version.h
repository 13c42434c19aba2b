// cli/version.h: the version of the program, given by the build.
#ifndef CLI_VERSION_H
#define CLI_VERSION_H

#ifndef HILO_VERSION
#define HILO_VERSION "0.1.0"
#endif

#endif
