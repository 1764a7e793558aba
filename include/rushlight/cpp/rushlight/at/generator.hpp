/* generator.hpp - at::CPUGeneratorImpl: random bits one by one, for functions that draw their own numbers. */
#ifndef RUSHLIGHT_AT_GENERATOR_HPP
#define RUSHLIGHT_AT_GENERATOR_HPP

#include "aten.hpp"
#include "autograd.hpp"

namespace at {

/* Lives as long as the program, so it may be kept; the generator must be there when it draws. Who draws several numbers that belong together
 * holds mutex_, which the program's own functions share; operations of the library may draw between. */
class CPUGeneratorImpl {
    rush_generator *its;

    explicit CPUGeneratorImpl(rush_generator *g) : its(g) {}
    template <class T> T drawn(T bits) const
    {
        detail::check(rush_error() != nullptr);
        return bits;
    }

public:
    std::mutex mutex_;

    static constexpr DeviceType device_type() { return kCPU; }
    /* One object for a generator: of another one that comes to lie in the same place it is the same. */
    static CPUGeneratorImpl *of(const Generator &g)
    {
        static std::mutex one_at_a_time;
        static std::unordered_map<rush_generator *, std::unique_ptr<CPUGeneratorImpl>> all;
        std::lock_guard<std::mutex> hold(one_at_a_time);
        auto &found = all[g.get()];
        if (!found) found.reset(new CPUGeneratorImpl(g.get()));
        return found.get();
    }
    uint32_t random() { return drawn(rush_generator_next32(its)); }
    uint64_t random64() { return drawn(rush_generator_next64(its)); }
    void set_current_seed(uint64_t seed) { rush_generator_seed(its, seed); }
    uint64_t current_seed() const { return rush_generator_seeded(its); }
    Device device() const { return kCPU; }
};

namespace detail {
inline Generator getDefaultCPUGenerator() { return Generator::of(rush_default_generator()); }
inline Generator createCPUGenerator(uint64_t seed = 67280421310721u) { return make_generator(seed); }
} // namespace detail

template <class T> T *check_generator(const std::optional<Generator> &g)
{
    TORCH_CHECK(g, "Expected Generator but received nullopt");
    TORCH_CHECK(g->defined(), "Generator with undefined implementation is not allowed");
    Device has(rush_generator_device(g->get()));
    TORCH_CHECK(has.type() == T::device_type(), "Expected a '", T::device_type(), "' device type for generator but found '", has.type(), "'");
    return T::of(*g);
}
template <class T> T *get_generator_or_default(const std::optional<Generator> &g, const Generator &otherwise)
{
    return check_generator<T>(g && g->defined() ? *g : otherwise);
}

/* In [from, to): of the bits that fit into a number of the type. */
template <class T> class uniform_real_distribution {
    T from, to;

public:
    uniform_real_distribution(T begin, T end) : from(begin), to(end) { TORCH_CHECK(begin <= end, "uniform_real_distribution: from ", begin, " is behind to ", end); }
    template <class G> T operator()(G *g) const
    {
        if constexpr (std::is_same_v<T, double>) return static_cast<T>(g->random64() & ((uint64_t(1) << 53) - 1)) * (T(1) / (uint64_t(1) << 53)) * (to - from) + from;
        else return static_cast<T>(g->random() & ((uint32_t(1) << 24) - 1)) * (T(1) / (uint32_t(1) << 24)) * (to - from) + from;
    }
};
/* base + [0, range). */
template <class T> class uniform_int_from_to_distribution {
    uint64_t range;
    int64_t base;

public:
    uniform_int_from_to_distribution(uint64_t count, int64_t first) : range(count), base(first) { TORCH_CHECK(count, "uniform_int_from_to_distribution: the range is empty"); }
    template <class G> T operator()(G *g) const
    {
        uint64_t bits = range >> 32 ? g->random64() : g->random();
        return static_cast<T>(static_cast<int64_t>(bits % range + static_cast<uint64_t>(base)));
    }
};

} // namespace at
#endif
