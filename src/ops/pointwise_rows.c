/* pointwise_rows.c - src/kernels/pointwise.def as data. No words are defined here, so the texts are as written. */
#include "ops/pointwise.h"

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

#define ROW(id_, nx_, set_, result_, schema_, value_, gx, gy, gz)                                           \
    [RUSH_PW_##id_] = {.id = RUSH_PW_##id_, .nx = nx_, .set = SET_##set_, .result = RUSH_PW_##result_,       \
                       .schema = schema_, .value = #value_, .grad = {#gx, #gy, #gz}},
rush_pw_row rush_pw_rows[RUSH_PW_COUNT] = {
#include "kernels/pointwise.def"
};
