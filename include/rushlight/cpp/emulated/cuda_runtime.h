/* cuda_runtime.h - CUDA's runtime for extensions on emulated devices (RUSHLIGHT_CUDA=emulated), where a C++ compiler of the CPU compiles them.
 *
 * The language is that of cuda/emulate.h, which the library's own kernels are emulated with; here is who runs it: a thread is a fibre, blocks
 * run one after the other in the order that RUSHLIGHT_CUDA_ORDER says. A launch is waited for. What is here is what kernels commonly use.
 */
#ifndef RUSH_EMULATED_RUNTIME_H
#define RUSH_EMULATED_RUNTIME_H

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>
#include <memory>
#include <random>
#include <string>
#include <ucontext.h>
#include <vector>

#include "cuda/emulate.h"
#undef __noinline__
#define __noinline__ noinline /* as attributes of the standard library's headers have it */
#define __constant__
#define __align__(n) alignas(n)

struct uint3 { unsigned x, y, z; };
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
typedef struct CUstream_st *cudaStream_t;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9, cudaErrorNoDevice = 100, cudaErrorLaunchFailure = 719 };
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
static const int warpSize = 32;

namespace emulated {

/* emulate.h's, one of each for all files of an extension */
#define RUSH_ONE __attribute__((weak))
RUSH_ONE dim grid, block, block_index, thread_index;
RUSH_ONE uint64_t lanes[1024][2];
RUSH_ONE alignas(128) unsigned char shared_memory[MOST_SHARED];
RUSH_ONE cudaError_t last_error;
#undef RUSH_ONE

enum { MOST_THREADS = 1024, STACK = 64 << 10, READY = 0, AT_WARP, AT_BLOCK, ENDED };
struct fibre {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    dim at;
    int state;
};
struct machine {
    std::vector<fibre> fibres;
    ucontext_t scheduler;
    fibre *now;
    void (*body)(void *);
    void *given;
    std::mt19937 shuffler;
};
inline machine &the_machine()
{
    static machine m;
    return m;
}

inline void meet(int where)
{
    machine &m = the_machine();
    m.now->state = where;
    swapcontext(&m.now->context, &m.scheduler);
}
inline void meet_block() { meet(AT_BLOCK); }
inline void meet_warp() { meet(AT_WARP); }

inline void fibre_main()
{
    machine &m = the_machine();
    m.body(m.given);
    meet(ENDED);
}

/* The threads [begin, end), if all that have not ended are at the barrier, go on. */
inline bool release(unsigned begin, unsigned end, int where)
{
    machine &m = the_machine();
    bool any = false;
    for (unsigned i = begin; i < end; i++) {
        if (m.fibres[i].state != where && m.fibres[i].state != ENDED) return false;
        any |= m.fibres[i].state == where;
    }
    for (unsigned i = begin; i < end && any; i++)
        if (m.fibres[i].state == where) m.fibres[i].state = READY;
    return any;
}

inline void put_in_order(std::vector<unsigned> &order, size_t n)
{
    const char *how = getenv("RUSHLIGHT_CUDA_ORDER");
    order.resize(n);
    for (size_t i = 0; i < n; i++) order[i] = (unsigned)(how && !strcmp(how, "reverse") ? n - 1 - i : i);
    if (how && !strncmp(how, "random", 6)) std::shuffle(order.begin(), order.end(), the_machine().shuffler);
}

inline cudaError_t run_block()
{
    machine &m = the_machine();
    const unsigned n = block.x * block.y * block.z;
    std::vector<unsigned> order;
    put_in_order(order, n);
    if (m.fibres.size() < n) m.fibres.resize(n);
    for (unsigned i = 0; i < n; i++) {
        fibre &f = m.fibres[i];
        f.at = {i % block.x, i / block.x % block.y, i / block.x / block.y};
        f.state = READY;
        if (!f.stack) f.stack.reset(new char[STACK]);
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.get(), f.context.uc_stack.ss_size = STACK, f.context.uc_link = nullptr;
        makecontext(&f.context, fibre_main, 0);
    }
    for (unsigned ended = 0; ended < n;) {
        bool went = false;
        for (unsigned i : order) {
            if (m.fibres[i].state != READY) continue;
            m.now = &m.fibres[i], thread_index = m.now->at;
            swapcontext(&m.scheduler, &m.now->context);
            ended += m.now->state == ENDED, went = true;
        }
        for (unsigned w = 0; w < n; w += 32) went |= release(w, std::min(w + 32, n), AT_WARP);
        went |= release(0, n, AT_BLOCK);
        if (went || ended == n) continue;
        fprintf(stderr, "cuda (emulated): threads of a block wait at different barriers\n");
        return cudaErrorLaunchFailure;
    }
    return cudaSuccess;
}

struct shape {
    dim3 grid, block;
    size_t shared;
    shape(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t = nullptr) : grid(grid), block(block), shared(shared) {}
};

/* f() by the host with the memory of all devices open, after all that was queued. */
template <class F> cudaError_t on_device(F f)
{
    static int (*host)(int (*)(void *), void *);
    if (!host)
        dl_iterate_phdr(
            [](struct dl_phdr_info *one, size_t, void *to) {
                void *part = strstr(one->dlpi_name, "librushlight_cuda.so") ? dlopen(one->dlpi_name, RTLD_NOW | RTLD_NOLOAD) : nullptr;
                return part && (*(void **)to = dlsym(part, "rush_emulator_host")) ? 1 : 0;
            },
            &host);
    if (!host) return last_error = cudaErrorNoDevice;
    struct call {
        F &f;
        cudaError_t error;
    } c = {f, cudaSuccess};
    if (host([](void *arg) { return ((call *)arg)->error = ((call *)arg)->f(), 0; }, &c)) c.error = cudaErrorLaunchFailure;
    return c.error ? last_error = c.error : cudaSuccess;
}

/* kernel<<<shape>>>(args...) */
template <class F, class... A> void start(const shape &s, F kernel, A... args)
{
    const uint64_t threads = (uint64_t)s.block.x * s.block.y * s.block.z, blocks = (uint64_t)s.grid.x * s.grid.y * s.grid.z;
    if (!threads || threads > MOST_THREADS || !blocks || s.grid.y > 65535 || s.grid.z > 65535 || s.shared > MOST_SHARED) {
        last_error = cudaErrorInvalidConfiguration;
        return;
    }
    auto body = [&] { kernel(args...); };
    on_device([&] {
        machine &m = the_machine();
        std::vector<unsigned> order;
        cudaError_t error = cudaSuccess;
        m.body = [](void *given) { (*(decltype(body) *)given)(); }, m.given = &body;
        put_in_order(order, (size_t)blocks);
        grid = {s.grid.x, s.grid.y, s.grid.z}, block = {s.block.x, s.block.y, s.block.z};
        for (size_t i = 0; i < order.size() && !error; i++) {
            block_index = {order[i] % grid.x, order[i] / grid.x % grid.y, order[i] / grid.x / grid.y};
            memset(shared_memory, 0xff, s.shared); /* as new memory of a device */
            error = run_block();
        }
        return error;
    });
}

} // namespace emulated

inline cudaError_t cudaPeekAtLastError() { return emulated::last_error; }
inline cudaError_t cudaGetLastError()
{
    const cudaError_t was = emulated::last_error;
    emulated::last_error = cudaSuccess;
    return was;
}
inline const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaSuccess ? "no error" : e == cudaErrorInvalidValue ? "invalid argument" : e == cudaErrorInvalidConfiguration ? "invalid configuration argument" :
           e == cudaErrorNoDevice ? "no CUDA-capable device is detected" : "unspecified launch failure";
}
inline cudaError_t cudaDeviceSynchronize() { return emulated::on_device([] { return cudaSuccess; }); }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaDeviceSynchronize(); }
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t = nullptr)
{
    return emulated::on_device([&] { return memmove(to, from, bytes), cudaSuccess; });
}
inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) { return cudaMemcpyAsync(to, from, bytes, kind); }
inline cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t = nullptr)
{
    return emulated::on_device([&] { return memset(to, byte, bytes), cudaSuccess; });
}

/* ---- words of kernels beyond those of emulate.h ---- */

inline void __syncwarp(unsigned) { emulated::meet_warp(); }
inline int __any_sync(unsigned mask, int v) { return __ballot_sync(mask, v) != 0; }
inline int __all_sync(unsigned mask, int v) { return !__any_sync(mask, !v); }
template <class T> T __ldg(const T *p) { return *p; }
template <class T> T atomicMax(T *p, T v) { T old = *p; return *p = old < v ? v : old, old; }
template <class T> T atomicMin(T *p, T v) { T old = *p; return *p = v < old ? v : old, old; }
template <class T> T atomicSub(T *p, T v) { T old = *p; return *p = old - v, old; }
#define RUSH_ATOMIC(T) inline T atomicAdd(T *p, T v) { return atomicAdd<T>(p, v); }
RUSH_ATOMIC(int) RUSH_ATOMIC(unsigned) RUSH_ATOMIC(unsigned long long) RUSH_ATOMIC(float) RUSH_ATOMIC(double)
#undef RUSH_ATOMIC
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1 : 0; }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
template <class A, class B> auto min(A a, B b) -> decltype(a + b) { return b < a ? b : a; }
template <class A, class B> auto max(A a, B b) -> decltype(a + b) { return a < b ? b : a; }

#endif
