/* lists.c - tensors of numbers that stand in a program. */
#include "api/api.h"

rush_tensor *rush_from_ints(rush_ints list)
{
    return rush_from_data(list.data, RUSH_I64, 1, (const int64_t[]){(int64_t)list.n});
}

rush_tensor *rush_from_floats(rush_floats list)
{
    rush_tensor *t = rush_from_data(list.data, RUSH_F64, 1, (const int64_t[]){(int64_t)list.n});
    return T("_to_dtype", V(t), rush_v_dtype((int)rush_default_dtype()));
}
