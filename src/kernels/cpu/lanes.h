/* lanes.h - the lanes of a sum or a largest element joined in pairs: the upper half into the lower, until one is left.
 *
 * Written out for constant counts, so that each step is a vector operation and none a loop.
 */
#ifndef RUSH_LANES_H
#define RUSH_LANES_H

#define LANES_STEP(s, n, half, JOIN)                                                                        \
    if ((n) > (half))                                                                                       \
        _Pragma("omp simd") for (int lane_ = 0; lane_ < (half); ++lane_) (s)[lane_] = JOIN((s)[lane_], (s)[lane_ + (half)]);

/* The n (a constant power of two, at most 512) lanes of s into s[0]. */
#define LANES_JOIN(s, n, JOIN)                                                                              \
    do {                                                                                                    \
        LANES_STEP(s, n, 256, JOIN)                                                                         \
        LANES_STEP(s, n, 128, JOIN)                                                                         \
        LANES_STEP(s, n, 64, JOIN)                                                                          \
        LANES_STEP(s, n, 32, JOIN)                                                                          \
        LANES_STEP(s, n, 16, JOIN)                                                                          \
        LANES_STEP(s, n, 8, JOIN)                                                                           \
        LANES_STEP(s, n, 4, JOIN)                                                                           \
        LANES_STEP(s, n, 2, JOIN)                                                                           \
        LANES_STEP(s, n, 1, JOIN)                                                                           \
    } while (0)

#define LANES_ADD(a, b) ((a) + (b))
#define LANES_TOP(a, b) ((b) > (a) ? (b) : (a))

#endif
