/* beside.c - kernels that run while elementwise work waits (op/later.h).
 *
 * An address that a kernel asks for may be one that it writes, so steps that wait and read that memory are done first.
 * Most kernels write fresh results only: those need nothing but what they read, and what waits goes on waiting.
 */
#include "api/api.h"
#include "op/later.h"

int rush_run_beside_later(const rush_op *op, const rush_tensor *t, const rush_value *in, rush_value *out, bool given)
{
    bool fresh = !given && !(rush_op_effects(op) & ~RUSH_EFFECT_RANDOM);
    if (fresh) rush_now.pending = 0;
    int failed = t && t->device.type != RUSH_CPU ? rush_run_on(t->device, op, in, out) : rush_kernel_run(op->cpu, op, in, out);
    rush_now.pending = rush_later_waiting();
    return failed;
}

void rush_later_settle_written(const rush_op *op, rush_form form, const rush_value *in, const rush_value *out)
{
    if (form != RUSH_FORM_OUT) {
        if (in[0].t->storage) rush_later_settle_others(in[0].t);
        return;
    }
    for (int i = 0; i < op->nout; ++i)
        if (out[i].kind == RUSH_V_TENSOR && out[i].t && out[i].t->storage) rush_later_settle_others(out[i].t);
}
