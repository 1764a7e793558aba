/* laid_out.c - weights that change no more, as those of a frozen program, in the form in which a kernel reads them. */
#include "ops/product/product.h"
#include "tensor/tensor.h"

typedef struct laid_out {
    rush_kept base;
    rush_weight of;
    size_t got;
    char at[] __attribute__((aligned(64)));
} laid_out;

static void end(rush_kept *base) { rush_block_free(base, ((laid_out *)base)->got); }

static bool fits(const rush_kept *base, const void *arg)
{
    const rush_weight *a = &((const laid_out *)base)->of, *b = arg;
    return base->end == end && a->at == b->at && a->k == b->k && a->n == b->n && a->k_step == b->k_step && a->n_step == b->n_step &&
           a->tap_step == b->tap_step && a->lay_out == b->lay_out;
}

static rush_kept *make(const void *arg)
{
    const rush_weight *w = arg;
    size_t got;
    laid_out *made = rush_block_alloc(sizeof *made + w->nbytes, &got);
    if (!made) return NULL;
    made->base.end = end;
    made->of = *w;
    made->got = got;
    w->lay_out(w, made->at);
    return &made->base;
}

const void *rush_laid_out(const rush_tensor *t, const rush_weight *w)
{
    const laid_out *found = t->storage ? (const laid_out *)rush_storage_form(t->storage, w->nbytes, fits, make, w) : NULL;
    return found ? found->at : NULL;
}

const void *rush_laid_out_now(const rush_tensor *t, const rush_weight *w)
{
    const void *kept = rush_laid_out(t, w);
    if (kept) return kept;
    rush_tensor *room = rush_tensor_new(RUSH_U8, t->device, 1, (int64_t[]){(int64_t)w->nbytes});
    if (!room) return NULL;
    w->lay_out(w, rush_ptr(room));
    return rush_ptr(room);
}
