/* autocast.c - the first step of rush_call under torch.autocast: arguments in the type that suits the operation.
 *
 * A record's flags say which: products in the low precision type, sums and losses in float32, the rest in the
 * widest type among the arguments. Casts of leaf weights are kept until autocast ends, as in PyTorch.
 */
#include "api/api.h"
#include "op/formula.h"

static _Thread_local struct {
    bool on[RUSH_DEVICES], cache;
    uint8_t dtype[RUSH_DEVICES];
    bool set;
} now;

static void defaults(void)
{
    if (now.set) return;
    now.set = now.cache = true;
    static const char *const wide[] = {"cpu", "hpu", "xla", "maia"};
    for (int d = 0; d < RUSH_DEVICES; ++d) {
        now.dtype[d] = RUSH_F16;
        for (size_t i = 0; i < RUSH_COUNT(wide); ++i)
            if (!strcmp(rush_device_name(d), wide[i])) now.dtype[d] = RUSH_BF16;
    }
}

/* Of a type of device that there can be; else an error and the CPU's. */
static int checked(int device)
{
    if (device >= 0 && device < RUSH_DEVICES) return device;
    rush_fail(RUSH_VALUE_ERROR, "autocast: there is no type of device %d", device);
    return RUSH_CPU;
}

bool rush_autocast_on(int device) { return now.on[checked(device)]; }

void rush_autocast_set(int device, bool on)
{
    device = checked(device);
    if (rush_failed() && on) return;
    now.on[device] = on;
    bool any = false;
    for (int d = 0; d < RUSH_DEVICES; ++d) any |= now.on[d];
    if (any) rush_now.mode |= RUSH_MODE_AUTOCAST;
    else rush_now.mode &= ~RUSH_MODE_AUTOCAST;
}

rush_dtype rush_autocast_dtype(int device)
{
    defaults();
    return now.dtype[checked(device)];
}

void rush_autocast_dtype_set(int device, rush_dtype dtype)
{
    defaults();
    device = checked(device);
    if ((unsigned)dtype >= RUSH_DTYPES) return (void)rush_fail(RUSH_TYPE_ERROR, "autocast: there is no such dtype"); /* which, PyTorch does not ask */
    now.dtype[device] = dtype;
}

bool rush_autocast_cache(bool set, bool on)
{
    defaults();
    if (set) now.cache = on;
    return now.cache;
}

static bool eligible(const rush_tensor *t)
{
    return t && rush_dtype_is_float(t->dtype) && t->dtype != RUSH_F64 && now.on[t->device.type];
}

static int widest(const rush_op *op, const rush_value *in)
{
    int dtype = -1;
    for (int i = 0; i < op->nargs; ++i) {
        uint32_t n = in[i].kind == RUSH_V_TENSORS ? in[i].n : in[i].kind == RUSH_V_TENSOR;
        for (uint32_t k = 0; k < n; ++k) {
            rush_tensor *t = in[i].kind == RUSH_V_TENSOR ? in[i].t : in[i].tensors[k];
            if (eligible(t)) dtype = dtype < 0 ? t->dtype : (int)rush_promote(dtype, t->dtype);
        }
    }
    return dtype;
}

const rush_value *rush_autocast_args(const rush_op *op, const rush_value *in, rush_value *room)
{
    if (!(op->flags & (RUSH_AUTOCAST_LOW | RUSH_AUTOCAST_F32 | RUSH_AUTOCAST_WIDEST))) return in;
    int want = op->flags & RUSH_AUTOCAST_F32 ? RUSH_F32 : op->flags & RUSH_AUTOCAST_WIDEST ? widest(op, in) : -1;
    memcpy(room, in, sizeof *in * op->nargs);
    uint32_t mode = rush_now.mode;
    rush_now.mode &= ~RUSH_MODE_AUTOCAST; /* the casts themselves are not cast */
    for (int i = 0; i < op->nargs; ++i) {
        uint32_t n = in[i].kind == RUSH_V_TENSORS ? in[i].n : in[i].kind == RUSH_V_TENSOR;
        rush_tensor **list = NULL;
        if (in[i].kind == RUSH_V_TENSORS) {
            if (!(list = rush_scope_alloc(sizeof *list * n))) break;
            memcpy(list, in[i].tensors, sizeof *list * n);
            room[i].tensors = list;
        }
        for (uint32_t k = 0; k < n; ++k) {
            rush_tensor **t = list ? &list[k] : &room[i].t;
            if (!eligible(*t)) continue;
            int to = want >= 0 ? want : now.dtype[(*t)->device.type];
            if ((*t)->dtype != to) *t = to_dtype(*t, to);
        }
    }
    rush_now.mode = mode;
    return rush_failed() ? NULL : room;
}
