/* The _ptsz and _ptds entry points: the same function, with stream 0 meaning the thread's own. Generated from api.def. */
#include "driver/base/thread.h"

#define COUNT_OF(...) COUNT_OF_(__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
#define COUNT_OF_(a, b, c, d, e, f, g, h, i, j, k, l, n, ...) n
#define JOIN(a, b) JOIN_(a, b)
#define JOIN_(a, b) a##b
#define TAKES(...) JOIN(TAKES_, COUNT_OF(__VA_ARGS__))(__VA_ARGS__)
#define TAKES_1(a) a p1
#define TAKES_2(a, b) TAKES_1(a), b p2
#define TAKES_3(a, b, c) TAKES_2(a, b), c p3
#define TAKES_4(a, b, c, d) TAKES_3(a, b, c), d p4
#define TAKES_5(a, b, c, d, e) TAKES_4(a, b, c, d), e p5
#define TAKES_6(a, b, c, d, e, f) TAKES_5(a, b, c, d, e), f p6
#define TAKES_7(a, b, c, d, e, f, g) TAKES_6(a, b, c, d, e, f), g p7
#define TAKES_8(a, b, c, d, e, f, g, h) TAKES_7(a, b, c, d, e, f, g), h p8
#define TAKES_9(a, b, c, d, e, f, g, h, i) TAKES_8(a, b, c, d, e, f, g, h), i p9
#define TAKES_10(a, b, c, d, e, f, g, h, i, j) TAKES_9(a, b, c, d, e, f, g, h, i), j p10
#define TAKES_11(a, b, c, d, e, f, g, h, i, j, k) TAKES_10(a, b, c, d, e, f, g, h, i, j), k p11
#define GIVES(...) JOIN(GIVES_, COUNT_OF(__VA_ARGS__))
#define GIVES_1 p1
#define GIVES_2 GIVES_1, p2
#define GIVES_3 GIVES_2, p3
#define GIVES_4 GIVES_3, p4
#define GIVES_5 GIVES_4, p5
#define GIVES_6 GIVES_5, p6
#define GIVES_7 GIVES_6, p7
#define GIVES_8 GIVES_7, p8
#define GIVES_9 GIVES_8, p9
#define GIVES_10 GIVES_9, p10
#define GIVES_11 GIVES_10, p11

#define PER_THREAD(symbol, suffix, ...)                                                                                \
    CUresult symbol##suffix(TAKES(__VA_ARGS__)) {                                                                      \
        bool before = sg_thread.per_thread_default;                                                                    \
        sg_thread.per_thread_default = true;                                                                           \
        CUresult result = symbol(GIVES(__VA_ARGS__));                                                                  \
        sg_thread.per_thread_default = before;                                                                         \
        return result;                                                                                                 \
    }

#define API(symbol, base, version, ...)
#define PTSZ(symbol, base, version, per_thread_version, ...) PER_THREAD(symbol, _ptsz, __VA_ARGS__)
#define PTDS(symbol, base, version, per_thread_version, ...) PER_THREAD(symbol, _ptds, __VA_ARGS__)
#define NONE(symbol, base, version)
#include "driver/abi/api.def"
