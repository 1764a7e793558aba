/* optim.c - an optimizer's step on a device: as many parameters a launch as a kernel's structure holds. */
#include "cuda/cuda.h"
#include <stdio.h>

static const char *const names[RUSH_STEPS] = {
    [RUSH_STEP_ADAM] = "adam", [RUSH_STEP_SGD] = "sgd", [RUSH_STEP_ADAGRAD] = "adagrad", [RUSH_STEP_RMSPROP] = "rmsprop", [RUSH_STEP_ADADELTA] = "adadelta",
    [RUSH_STEP_ADAMAX] = "adamax", [RUSH_STEP_NADAM] = "nadam", [RUSH_STEP_RADAM] = "radam", [RUSH_STEP_RPROP] = "rprop", [RUSH_STEP_ASGD] = "asgd"};

int cuda_steps_run(const rush_step_work *w, rush_device device)
{
    for (int i = 0, n; i < w->n; i += n) {
        const rush_step_job *first = w->jobs + i;
        cuda_steps p = {.parts = w->parts, .dtype = first->dtype, .size = rush_dtypes[first->dtype].size, .written = w->written};
        for (n = 0; n < CUDA_STEP_JOBS && i + n < w->n && first[n].dtype == first->dtype; n++) {
            p.job[n] = first[n];
            p.job[n].begin -= first->begin;
        }
        p.n = n;
        p.elements = first[n].begin - first->begin;
        char kernel[32];
        snprintf(kernel, sizeof kernel, "step_%s_%s", names[w->kind], first->dtype == RUSH_F64 ? "f64" : "f32");
        if (p.elements && cuda_launch(device, kernel, &p, p.elements)) return -1;
    }
    return 0;
}
