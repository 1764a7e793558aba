/* emulator.h - what the parts of the emulator tell one another. */
#ifndef RUSH_CUDA_EMULATOR_H
#define RUSH_CUDA_EMULATOR_H

#include <cstddef>
#include <cstdint>

namespace emulated {

/* ---- emulator_trace.cc: records of what ran, as CUPTI gives them; with the emulator's lock held ---- */
extern bool tracing;
uint64_t trace_clock();
uint32_t trace_call(unsigned function, uint64_t start); /* the number of a call of the driver that ends now */
struct place { int device, stream; };
void trace_kernel(uint32_t call, place, const char *name, const unsigned size[3], uint64_t start); /* blocks, threads, shared bytes; it ends now */
void trace_copy(uint32_t call, place, int kind, const unsigned char how[3], size_t bytes, uint64_t start); /* how, from, to */

}

#endif
