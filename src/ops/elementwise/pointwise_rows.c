/* pointwise_rows.c - src/kernels/pointwise.def as data. No words are defined here, so the texts are as written. */
#include "ops/elementwise/pointwise.h"

enum {
    SET_BIFC = RUSH_PW_B | RUSH_PW_I | RUSH_PW_F | RUSH_PW_C,
    SET_BIF = RUSH_PW_B | RUSH_PW_I | RUSH_PW_F,
    SET_IFC = RUSH_PW_I | RUSH_PW_F | RUSH_PW_C,
    SET_IF = RUSH_PW_I | RUSH_PW_F,
    SET_BI = RUSH_PW_B | RUSH_PW_I,
    SET_I = RUSH_PW_I,
    SET_F = RUSH_PW_F,
    SET_FC = RUSH_PW_F | RUSH_PW_C,
    SET_UF = RUSH_PW_UP | RUSH_PW_F,
    SET_UFC = RUSH_PW_UP | RUSH_PW_F | RUSH_PW_C,
    SET_LOGIC = RUSH_PW_LOGIC | RUSH_PW_B
};

enum { /* the words of the last column */
    FUNCTION = 0, METHOD = RUSH_METHOD, METHODS = RUSH_METHODS, ALL_FORMS = RUSH_ALL_FORMS, INPLACE = RUSH_FUNCTION_, NN = RUSH_NN,
    OLD_ORDER = RUSH_OLD_ORDER, EXACT = 0, ROUNDS = RUSH_PW_ROUNDS, KEEPS = RUSH_PW_KEEPS, DIVIDES = RUSH_PW_DIVIDES, WIDE_X = RUSH_PW_WIDE_X, WIDE_Y = RUSH_PW_WIDE_Y,
    WIDE_Z = RUSH_PW_WIDE_Z, SWAPPED = RUSH_PW_SWAPPED, PLAIN = RUSH_PW_PLAIN
};

#define ROW(id_, nx_, set_, result_, schema_, value_, gx, gy, gz, is_)                                      \
    [RUSH_PW_##id_] = {.id = RUSH_PW_##id_, .nx = nx_, .set = SET_##set_, .result = RUSH_PW_##result_,       \
                       .schema = schema_, .value = #value_, .grad = {#gx, #gy, #gz}, .is = is_},
rush_pw_row rush_pw_rows[RUSH_PW_COUNT] = {
#include "kernels/pointwise.def"
};
#undef ROW

#define ROW(...)
#define REFUSAL(id, of, error, text) {RUSH_PW_##id, OF_##of, RUSH_##error, text},
enum { OF_BOOL = 0, OF_COMPLEX = 3 }; /* rush_dtype_info.category */
const rush_pw_refusal rush_pw_refusals[] = {
#include "kernels/pointwise.def"
};
const int rush_pw_refusals_count = RUSH_COUNT(rush_pw_refusals);
