/* parallel.hpp - at::parallel_for: parts of a range on the library's threads. */
#ifndef RUSHLIGHT_AT_PARALLEL_HPP
#define RUSHLIGHT_AT_PARALLEL_HPP

#include "base.hpp"
#include <mutex>

namespace at {

namespace internal {
constexpr int64_t GRAIN_SIZE = 32768;
}
inline int64_t divup(int64_t x, int64_t y) { return (x + y - 1) / y; }
inline int get_num_threads() { return rush_num_threads(); }
inline void set_num_threads(int n) { rush_num_threads_set(n); }
inline bool in_parallel_region() { return rush_in_parallel(); }
inline int get_thread_num() { return rush_thread_number(); }
inline void init_num_threads() {}

/* f(begin, end) for parts of [begin, end) of grain_size or more; the first exception is thrown again when all have ended. */
template <class F> void parallel_for(int64_t begin, int64_t end, int64_t grain_size, const F &f)
{
    TORCH_CHECK(grain_size >= 0, "parallel_for: grain_size must not be negative, got ", grain_size);
    if (begin >= end) return;
    struct Work {
        const F *f;
        int64_t begin;
        std::exception_ptr thrown;
        std::mutex lock;
    } work{&f, begin, nullptr, {}};
    rush_parallel_for(end - begin, grain_size ? grain_size : 1, [](void *arg, int64_t from, int64_t to) {
        auto *w = static_cast<Work *>(arg);
        try {
            (*w->f)(w->begin + from, w->begin + to);
        } catch (...) {
            std::lock_guard<std::mutex> guard(w->lock);
            if (!w->thrown) w->thrown = std::current_exception();
        }
    }, &work);
    if (work.thrown) std::rethrow_exception(work.thrown);
}

/* sf(f(part, identity), ...) over the parts, in their order. */
template <class T, class F, class SF> T parallel_reduce(int64_t begin, int64_t end, int64_t grain_size, T identity, const F &f, const SF &sf)
{
    if (begin >= end) return identity;
    int64_t grain = std::max<int64_t>(grain_size, divup(end - begin, rush_num_threads())), parts = divup(end - begin, grain);
    std::vector<T> part(static_cast<size_t>(parts), identity);
    parallel_for(0, parts, 1, [&](int64_t from, int64_t to) {
        for (int64_t i = from; i < to; ++i) part[static_cast<size_t>(i)] = f(begin + i * grain, std::min(end, begin + (i + 1) * grain), identity);
    });
    T result = identity;
    for (const T &x : part) result = sf(result, x);
    return result;
}

} // namespace at
namespace torch {
using at::get_num_threads;
using at::set_num_threads;
} // namespace torch
#endif
