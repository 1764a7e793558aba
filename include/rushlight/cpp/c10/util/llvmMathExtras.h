/* llvmMathExtras.h - bits of integers, counted: c10::llvm. */
#pragma once
#include <cstdint>
#include <limits>
#include <type_traits>

namespace c10::llvm {

template <class T> unsigned countTrailingZeros(T x)
{
    static_assert(std::is_unsigned_v<T>, "unsigned numbers only");
    return x ? static_cast<unsigned>(__builtin_ctzll(x)) : std::numeric_limits<T>::digits;
}
template <class T> unsigned countLeadingZeros(T x)
{
    static_assert(std::is_unsigned_v<T>, "unsigned numbers only");
    return x ? static_cast<unsigned>(__builtin_clzll(x)) - (64 - std::numeric_limits<T>::digits) : std::numeric_limits<T>::digits;
}
template <class T> unsigned countPopulation(T x) { return static_cast<unsigned>(__builtin_popcountll(x)); }
/* The place of the first or last bit that is set; of none the largest T. */
template <class T> T findFirstSet(T x) { return x ? static_cast<T>(countTrailingZeros(x)) : std::numeric_limits<T>::max(); }
template <class T> T findLastSet(T x) { return x ? static_cast<T>(std::numeric_limits<T>::digits - 1 - countLeadingZeros(x)) : std::numeric_limits<T>::max(); }
constexpr bool isPowerOf2_32(uint32_t x) { return x && !(x & (x - 1)); }
constexpr bool isPowerOf2_64(uint64_t x) { return x && !(x & (x - 1)); }
inline unsigned Log2_32(uint32_t x) { return 31 - countLeadingZeros(x); }
inline unsigned Log2_64(uint64_t x) { return 63 - countLeadingZeros(x); }
inline unsigned Log2_32_Ceil(uint32_t x) { return 32 - countLeadingZeros(x - 1); }
inline unsigned Log2_64_Ceil(uint64_t x) { return 64 - countLeadingZeros(x - 1); }
/* The next power of two above x, and the one that is x or above it. */
inline uint64_t NextPowerOf2(uint64_t x) { return x ? countLeadingZeros(x) ? uint64_t(1) << (64 - countLeadingZeros(x)) : 0 : 1; }
inline uint64_t PowerOf2Ceil(uint64_t x) { return x ? NextPowerOf2(x - 1) : 0; }
inline uint64_t PowerOf2Floor(uint64_t x) { return x ? uint64_t(1) << Log2_64(x) : 0; }

} // namespace c10::llvm
