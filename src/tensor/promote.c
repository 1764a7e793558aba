/* promote.c - the dtype that several tensors and numbers have in common.
 *
 * Tensors with dimensions outrank 0-d tensors, which outrank numbers: a lower rank decides only when its
 * category (bool < integer < float < complex) is the higher one.
 */
#include "tensor/tensor.h"

enum { NONE = -1 };

static int join(int a, int b)
{
    return a == NONE ? b : b == NONE ? a : a == b ? a : (int)rush_promote(a, b);
}

static int outrank(int high, int low)
{
    if (high == NONE) return low;
    if (low == NONE) return high;
    int ch = rush_dtypes[high].category, cl = rush_dtypes[low].category;
    if (ch == 3 || cl <= ch) return ch == 0 ? join(high, low) : high;
    if (ch < 2 && cl >= 2) return low;
    if (ch == 2 && high < RUSH_F8E4M3FN) return (int)rush_dtype_complex(high); /* complex number, float tensor: keeps the precision */
    return join(high, low);
}

static rush_dtype number_dtype(uint8_t kind)
{
    switch (kind) {
    case RUSH_V_BOOL:
        return RUSH_BOOL;
    case RUSH_V_FLOAT:
        return rush_default_dtype();
    case RUSH_V_COMPLEX:
        return rush_dtype_complex(rush_default_dtype());
    default:
        return RUSH_I64;
    }
}

rush_dtype rush_result_type(int n, const rush_value *values)
{
    int rank[3] = {NONE, NONE, NONE}; /* with dimensions, 0-d, numbers */
    for (int i = 0; i < n; i++) {
        if (values[i].kind == RUSH_V_NONE) continue;
        if (values[i].kind != RUSH_V_TENSOR) {
            rank[2] = join(rank[2], (int)number_dtype(values[i].kind));
            continue;
        }
        const rush_tensor *t = values[i].t;
        int d = t->dtype, at = t->ndim ? 0 : t->flags & RUSH_T_WRAPPED ? 2 : 1;
        if (at == 2 && rush_dtypes[d].category >= 2) {
            d = (int)rush_default_dtype();
            if (rush_dtypes[t->dtype].category == 3) d = (int)rush_dtype_complex(d);
        }
        rank[at] = join(rank[at], d);
    }
    int d = outrank(rank[0], outrank(rank[1], rank[2]));
    return d == NONE ? rush_default_dtype() : (rush_dtype)d;
}
