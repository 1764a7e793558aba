/* random.h - a distribution, ready to draw from: what the files of random operations share. */
#ifndef RUSH_OPS_RANDOM_H
#define RUSH_OPS_RANDOM_H

#include "op/op.h"

typedef enum distribution { UNIFORM, NORMAL, LOG_NORMAL, EXPONENTIAL, GEOMETRIC, CAUCHY, BERNOULLI, INTEGER, DISTRIBUTIONS } distribution;

typedef struct sampler {
    distribution of;
    rush_dtype block; /* dtype that is drawn: a wide one, converted into the tensor's */
    rush_dtype dtype; /* of the tensor                                               */
    double a, b;      /* the distribution's parameters                                */
    int64_t base;     /* integers: base + word % range (range 0: the word as it is)   */
    uint64_t range;
    bool wide;        /* integers: 64 bits a number                                   */
} sampler;

/* Fills a tensor in the order in which PyTorch's iterator walks it: that of memory. g NULL: the default generator. */
void rush_sample_into(rush_tensor *, const sampler *, rush_generator *g);
/* Uniform and normal doubles in [0, 1) and N(0, 1), one by one; the caller holds the generator. */
double rush_uniform_one(rush_generator *);
double rush_normal_one(rush_generator *);

/* The generator that value v names; NULL and an error when it is not the CPU's. */
rush_generator *rush_generator_of(rush_value v);
/* For shape rules: -1 and an error when a generator of another device was given. */
int rush_generator_check(rush_value v, rush_device);
/* Derivatives of zero: where the result does not depend on the arguments. */
void rush_zero_grad(rush_grads *);
int rush_sampler_exponential(sampler *, rush_dtype, double lambda);
int rush_sampler_bernoulli(sampler *, rush_dtype, double p);

#endif
