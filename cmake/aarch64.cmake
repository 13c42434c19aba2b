# For aarch64 on another machine (make aarch64): the distribution's cross compiler; libraries from HILO_SYSROOT, which
# tools/sysroot.sh fills; qemu-user runs what is built. What is opened at run time (LAPACK) is found there, too.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(HILO_SYSROOT "" CACHE PATH "Where the other machine's packages are unpacked")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HILO_SYSROOT)

set(libraries ${HILO_SYSROOT}/usr/lib/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} ${libraries}/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${HILO_SYSROOT})
set(CMAKE_FIND_ROOT_PATH ${HILO_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR
  "qemu-aarch64;-L;/usr/aarch64-linux-gnu;-E;LD_LIBRARY_PATH=${libraries}:${libraries}/lapack:${libraries}/blas"
  CACHE STRING "What runs its programs here")
