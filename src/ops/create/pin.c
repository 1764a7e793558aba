/* pin.c - page-locked memory, of the device that is asked for or of the first there is. */
#include "op/op.h"
#include "ops/create/pin.h"
#include "tensor/backend.h"

static int first_accelerator(void)
{
    for (int k = RUSH_META + 1; k < RUSH_DEVICES; ++k)
        if (rush_device_count(k)) return k;
    return rush_fail(RUSH_RUNTIME_ERROR, "Cannot access accelerator device when none is available.");
}

int rush_pin_check(rush_value pin, rush_device at) { return HAS(pin) && pin.i && at.type == RUSH_CPU && first_accelerator() < 0 ? -1 : 0; }

static int pin_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int type = HAS(in[1]) && in[1].device.type != RUSH_CPU ? in[1].device.type : first_accelerator();
    return type < 0 ? -1 : rush_result(out, rush_pin(in[0].t, type));
}

static rush_op op__pin_memory = {
    .schema = "_pin_memory(Tensor self, Device? device=None) -> Tensor",
    .doc = "A copy in page-locked memory; an error without an accelerator.", .run = pin_run, .flags = RUSH_HIDDEN,
};

RUSH_FAMILY(pin, &op__pin_memory)
