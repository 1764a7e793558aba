/* pointwise.h - the kernels of src/kernels/pointwise.def for one type, as pointwise_loops.inc has the loops. Who includes it has
 * defined T, REAL_T, SUFFIX, IN (how an operand is read: T or truth), HAS_B, HAS_I, HAS_F, HAS_C, ARG(k), CAST(v) and the type's words.
 */
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define WHEN_0(...)
#define WHEN_1(...) __VA_ARGS__
#define WHEN(c, ...) CAT(WHEN_, c)(__VA_ARGS__)
#define OR_00 0
#define OR_01 1
#define OR_10 1
#define OR_11 1
#define OR(a, b) CAT(OR_, CAT(a, b))
#define SET_BIFC 1
#define SET_BIF OR(OR(HAS_B, HAS_I), HAS_F)
#define SET_IFC OR(OR(HAS_I, HAS_F), HAS_C)
#define SET_IF OR(HAS_I, HAS_F)
#define SET_BI OR(HAS_B, HAS_I)
#define SET_I HAS_I
#define SET_F HAS_F
#define SET_FC OR(HAS_F, HAS_C)
#define SET_UF HAS_F
#define SET_UFC OR(HAS_F, HAS_C)
#define SET_LOGIC HAS_B

#define RESULT_SAME T
#define RESULT_REAL REAL_T
#define RESULT_BOOL uint8_t
#define STORE_SAME(v) CAST(v)
#define STORE_REAL(v) CAST_REAL(v)
#define STORE_BOOL(v) (uint8_t)((v) != 0)

#define NAMED(id) CAT(CAT(pw_, id), CAT(_, SUFFIX))

#define ONE(id, operands, result, value)                                                                    \
    KERNEL_WIDE(NAMED(id), cuda_rows)                                                                       \
    {                                                                                                       \
        const cuda_rows *const args = &p;                                                                   \
        [[maybe_unused]] const T a = ARG(0), b = ARG(1), c = ARG(2), d = ARG(3);                            \
        rows<operands, IN, T, RESULT_##result, TRUTH_##result>(p, [=](T x, T y, T z) -> RESULT_##result { return STORE_##result(value); }); \
    }
#define TRUTH_SAME HAS_B
#define TRUTH_REAL false
#define TRUTH_BOOL true
#define ROW(id, operands, set, result, schema, value, gx, gy, gz, is) WHEN(SET_##set, ONE(id, operands, result, value))
#include "kernels/pointwise.def"
