/* isa.h - every .c file of this folder is compiled once per instruction set; the best that the processor has is used.
 *
 * A kernel file fills one table of functions, declared in its header of the same name:
 *
 *     struct rush_scan_kernels { void (*cumsum)(...); ... };      scan.h, which ends with
 *     RUSH_KERNEL_TABLE(scan);
 *
 *     RUSH_KERNELS(scan) = { .cumsum = cumsum, ... };             the end of scan.c
 *
 * and who calls says rush_k_scan->cumsum(...). Functions in kernel files are static, so the copies don't clash.
 */
#ifndef RUSH_ISA_H
#define RUSH_ISA_H

#include "base/base.h"

#ifndef RUSH_ISA
#define RUSH_ISA 1 /* 1 baseline, 2 x86-64-v2, 3 x86-64-v3 (AVX2), 4 x86-64-v4 (AVX-512) */
#endif

/* Around loops over integers, whose sums and products wrap around. */
#if defined(__clang__)
#define RUSH_WRAPPING
#define RUSH_WRAPPING_END
#else
#define RUSH_WRAPPING _Pragma("GCC push_options") _Pragma("GCC optimize(\"wrapv\")")
#define RUSH_WRAPPING_END _Pragma("GCC pop_options")
#endif

int rush_cpu_level(void); /* of this processor, lowered by RUSHLIGHT_ISA=1..4 */

#define RUSH_KERNEL_TABLE(family) extern const struct rush_##family##_kernels *rush_k_##family

#define RUSH_KERNELS(family)                                                                                \
    const struct rush_##family##_kernels *rush_k_##family __attribute__((weak));                            \
    extern int rush_k_##family##_level;                                                                     \
    int rush_k_##family##_level __attribute__((weak));                                                      \
    static const struct rush_##family##_kernels kernels_;                                                   \
    __attribute__((constructor)) static void offer_kernels(void)                                            \
    {                                                                                                       \
        if (RUSH_ISA > rush_cpu_level() || RUSH_ISA <= rush_k_##family##_level) return;                     \
        rush_k_##family = &kernels_;                                                                        \
        rush_k_##family##_level = RUSH_ISA;                                                                 \
    }                                                                                                       \
    static const struct rush_##family##_kernels kernels_

#endif
