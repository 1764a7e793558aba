/* check.c - are the values of a call of the kinds that the schema asks for?
 *
 * Each argument has a bit for every kind that it takes, set when its schema is read, so that the road's look is a few
 * instructions; what lists, texts and constants hold is looked at here. Rules and kernels may then trust the kinds.
 */
#include "op/nested.h"

#define BIT(kind) (1u << (kind))
#define NUMBERS (BIT(RUSH_V_INT) | BIT(RUSH_V_FLOAT) | BIT(RUSH_V_BOOL) | BIT(RUSH_V_COMPLEX))

uint32_t rush_arg_kinds(const rush_op *op, const rush_arg *a)
{
    static const uint32_t one[] = {
        [RUSH_A_TENSOR] = BIT(RUSH_V_TENSOR), [RUSH_A_INT] = BIT(RUSH_V_INT) | BIT(RUSH_V_BOOL), [RUSH_A_FLOAT] = BIT(RUSH_V_FLOAT),
        [RUSH_A_BOOL] = BIT(RUSH_V_BOOL) | BIT(RUSH_V_INT), [RUSH_A_SCALAR] = NUMBERS, [RUSH_A_STRING] = BIT(RUSH_V_STRING), [RUSH_A_DTYPE] = BIT(RUSH_V_DTYPE) | BIT(RUSH_V_INT),
        [RUSH_A_DEVICE] = BIT(RUSH_V_DEVICE), [RUSH_A_LAYOUT] = BIT(RUSH_V_LAYOUT), [RUSH_A_MEMORY_FORMAT] = BIT(RUSH_V_MEMORY_FORMAT),
        [RUSH_A_GENERATOR] = BIT(RUSH_V_GENERATOR), [RUSH_A_NESTED] = BIT(RUSH_V_VALUES) | BIT(RUSH_V_OBJECT)};
    static const uint32_t list[] = {
        [RUSH_A_TENSOR] = BIT(RUSH_V_TENSORS), [RUSH_A_INT] = BIT(RUSH_V_INTS), [RUSH_A_BOOL] = BIT(RUSH_V_INTS), [RUSH_A_FLOAT] = BIT(RUSH_V_FLOATS),
        [RUSH_A_SCALAR] = BIT(RUSH_V_VALUES), [RUSH_A_NESTED] = 0};
    uint32_t kinds = a->list ? list[a->type] : one[a->type];
    const bool pointwise = op->row && !op->run && op->flags & RUSH_STRIDED_OUT;
    if (a->type == RUSH_A_TENSOR && !a->list && (pointwise || op->flags & RUSH_NUMBERS)) kinds |= NUMBERS;
    if (a->optional) kinds |= BIT(RUSH_V_NONE);
    return kinds;
}

static const char *kind_word(int kind)
{
    static const char *const words[] = {"None", "Tensor", "int", "float", "bool", "complex", "list of ints", "list of floats", "list of Tensors", "list of numbers",
                                        "str", "dtype", "device", "layout", "memory format", "Generator", "object"};
    return kind >= 0 && kind < (int)RUSH_COUNT(words) ? words[kind] : "value of an unknown kind";
}

static bool is_number(const rush_value *v) { return v->kind <= RUSH_V_GENERATOR && NUMBERS >> v->kind & 1; }

int rush_arg_wrong(const rush_op *op, int i, const rush_value *v)
{
    static const char *const words[] = {"Tensor", "int", "float", "bool", "Number", "str", "dtype", "device", "layout", "memory format", "Generator", "what the schema says"};
    const rush_arg *a = &op->args[i];
    /* What rush_call_fitted() makes of it. */
    if (a->type == RUSH_A_FLOAT && !a->list && (v->kind == RUSH_V_INT || v->kind == RUSH_V_BOOL)) return 1;
    if (a->type == RUSH_A_TENSOR && !a->list && !op->shape && is_number(v)) return 1;
    return rush_fail(RUSH_TYPE_ERROR, "%s(): argument '%s' (position %d) must be %s%s, not %s", op->base, a->name, i + 1, a->list ? "a list of " : "", words[a->type],
                     kind_word(v->kind));
}

bool rush_numbers_only(const rush_op *op, const rush_value *in)
{
    if (!op->nargs || op->args[0].type != RUSH_A_TENSOR || op->args[0].list || !is_number(&in[0])) return false;
    for (int i = 1; i < op->nargs; ++i)
        if (in[i].kind == RUSH_V_TENSOR || in[i].kind == RUSH_V_TENSORS) return false;
    return true;
}

/* An integer where a float is asked for is one; a number that a composite gets for a tensor is a tensor of no dimensions, since what the
 * composite does with it is written for tensors. */
int rush_call_fitted(rush_form form, const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_value values[64];
    const bool only = rush_numbers_only(op, in);
    for (int i = 0; i < op->nargs; ++i) {
        const rush_arg *a = &op->args[i];
        const bool integer = in[i].kind == RUSH_V_INT || in[i].kind == RUSH_V_BOOL;
        values[i] = integer && a->type == RUSH_A_FLOAT && !a->list ? rush_v_float((double)in[i].i) : in[i];
        if (!is_number(&in[i]) || a->list || a->type != RUSH_A_TENSOR || (a->kinds >> in[i].kind & 1 && !(only && i == 0))) continue;
        rush_tensor *t = rush_tensor_of_number(in[i], true);
        if (!t) return -1;
        values[i] = rush_v_tensor(t);
    }
    return form == RUSH_FORM_CALL ? rush_call(op, values, out) : form == RUSH_FORM_OUT ? rush_call_out(op, values, out) : rush_call_inplace(op, values, out);
}

static int after_scope(const rush_op *op, int i)
{
    return rush_fail(RUSH_TYPE_ERROR, "%s(): argument '%s' (position %d) is a tensor that is used after its scope was closed", op->base, op->args[i].name, i + 1);
}

static int nested_holds(const rush_op *op, int i, const rush_value *v)
{
    rush_type_text type = rush_type_of_arg(op, i);
    RUSH_CHECK(rush_type_fits(type, v), RUSH_TYPE_ERROR, "%s(): argument '%s' (position %d) must be %.*s", op->base, op->args[i].name, i + 1, (int)type.n, type.at);
    return 0;
}

static int tensor_holds(const rush_tensor *t, bool optional) { return t ? t->ndim > RUSH_MAXDIM ? -1 : 1 : optional; }

int rush_value_holds(const rush_value *v, bool optional_items)
{
    int ok = 1;
    switch (v->kind) {
    case RUSH_V_TENSOR: return tensor_holds(v->t, false);
    case RUSH_V_TENSORS:
        ok = v->tensors || !v->n;
        for (uint32_t k = 0; ok > 0 && k < v->n; ++k) ok = tensor_holds(v->tensors[k], optional_items);
        return ok;
    case RUSH_V_VALUES: case RUSH_V_TUPLE: case RUSH_V_DICT: return v->values || !v->n;
    case RUSH_V_INTS: return v->ints || !v->n;
    case RUSH_V_FLOATS: return v->floats || !v->n;
    case RUSH_V_STRING: case RUSH_V_GENERATOR: return v->s != NULL;
    case RUSH_V_DTYPE: return v->i >= 0 && v->i < RUSH_DTYPES;
    case RUSH_V_DEVICE: return v->device.type < RUSH_DEVICES;
    case RUSH_V_LAYOUT: return v->i >= 0 && v->i < RUSH_LAYOUTS;
    case RUSH_V_MEMORY_FORMAT: return v->i >= 0 && v->i <= RUSH_CHANNELS_LAST_3D;
    default: return v->kind <= RUSH_V_DICT;
    }
}

int rush_arg_holds(const rush_op *op, int i, const rush_value *v)
{
    const rush_arg *a = &op->args[i];
    int ok = rush_value_holds(v, a->optional_items);
    if (ok < 0) return after_scope(op, i);
    if (ok && (v->kind == RUSH_V_OBJECT || (v->kind == RUSH_V_VALUES && a->type == RUSH_A_NESTED))) return nested_holds(op, i, v);
    if (v->kind == RUSH_V_VALUES)
        for (uint32_t k = 0; ok && k < v->n; ++k) ok = rush_is_number(v->values[k]);
    RUSH_CHECK(v->kind != RUSH_V_INTS || a->type != RUSH_A_BOOL || !a->fixed || v->n == (uint32_t)a->fixed, RUSH_TYPE_ERROR, "%s(): argument '%s' (position %d) must be %d bools, not %u",
               op->base, a->name, i + 1, a->fixed, (unsigned)v->n);
    return ok ? 0 : rush_fail(RUSH_TYPE_ERROR, "%s(): argument '%s' (position %d) is NULL, holds a NULL, or names what there is not", op->base, a->name, i + 1);
}
