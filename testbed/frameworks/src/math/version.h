/* The version functions that cuFFT, cuSPARSE, cuSOLVER and cuRAND all have. */
#ifndef STANDIN_VERSION_H
#define STANDIN_VERSION_H

#define VERSION_FUNCTIONS(library, major, minor, patch, number)                                                        \
    int library##GetProperty(int which, int *value);                                                                   \
    int library##GetProperty(int which, int *value) {                                                                  \
        static const int PARTS[] = {major, minor, patch};                                                              \
        if (which < 0 || which > 2)                                                                                    \
            return 1;                                                                                                  \
        *value = PARTS[which];                                                                                         \
        return 0;                                                                                                      \
    }                                                                                                                  \
    int library##GetVersion(int *value);                                                                               \
    int library##GetVersion(int *value) {                                                                              \
        *value = number;                                                                                               \
        return 0;                                                                                                      \
    }

#endif
