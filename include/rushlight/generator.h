/* generator.h - for functions that draw their own numbers: what a generator is, and its bits one by one. Those of rushlight.h make, seed and keep it. */
#ifndef RUSHLIGHT_GENERATOR_H
#define RUSHLIGHT_GENERATOR_H

#include <rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

RUSH_API uint64_t rush_generator_seeded(const rush_generator *); /* the seed that was set last */
RUSH_API rush_device rush_generator_device(const rush_generator *);
/* The next 32 or 64 bits of a generator of the CPU, as operations draw them; 0 and an error. */
RUSH_API uint32_t rush_generator_next32(rush_generator *);
RUSH_API uint64_t rush_generator_next64(rush_generator *);

#ifdef __cplusplus
}
#endif
#endif
