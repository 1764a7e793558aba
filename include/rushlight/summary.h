/* summary.h - what TensorBoard shows: numbers over time, histograms, pictures, sound, text, graphs.
 *
 *     rush_summary *log = rush_summary_open("runs/first", NULL);
 *     rush_summary_scalar(log, "loss", loss, step);
 *     rush_summary_close(log);
 *
 * Neither TensorFlow nor the tensorboard package is needed to write. All functions return 0, or -1 and an error.
 */
#ifndef RUSHLIGHT_SUMMARY_H
#define RUSHLIGHT_SUMMARY_H

#include <rushlight.h>
#include <rushlight/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rush_summary rush_summary;

/* An event file of its own in the folder, which is made if need be; suffix is put behind its name, or NULL. */
RUSH_API rush_summary *rush_summary_open(const char *folder, const char *suffix);
RUSH_API int rush_summary_flush(rush_summary *);
RUSH_API int rush_summary_close(rush_summary *);
RUSH_API const char *rush_summary_path(const rush_summary *);
RUSH_API void rush_summary_time(rush_summary *, double wall);      /* of the events to come; 0: the clock's */
RUSH_API void rush_summary_flush_every(rush_summary *, double seconds); /* 120 at first */

RUSH_API int rush_summary_scalar(rush_summary *, const char *tag, double value, int64_t step);
RUSH_API int rush_summary_histogram(rush_summary *, const char *tag, const rush_tensor *, int64_t step);
/* (channels, height, width), or (n, channels, height, width) as a grid: uint8, or floats from 0 to 1. */
RUSH_API int rush_summary_image(rush_summary *, const char *tag, const rush_tensor *, int64_t step);
/* One channel from -1 to 1. */
RUSH_API int rush_summary_audio(rush_summary *, const char *tag, const rush_tensor *, int rate, int64_t step);
RUSH_API int rush_summary_text(rush_summary *, const char *tag, const char *markdown, int64_t step);
RUSH_API int rush_summary_tensor(rush_summary *, const char *tag, const rush_tensor *, int64_t step);
/* Precision over recall of labels (0, 1) and predicted probabilities; weights may be NULL; thresholds 0: 127. */
RUSH_API int rush_summary_pr_curve(rush_summary *, const char *tag, const rush_tensor *labels, const rush_tensor *predictions,
                                   const rush_tensor *weights, int thresholds, int64_t step);
/* The modules of a network: what contains what, with the sizes of parameters. */
RUSH_API int rush_summary_module(rush_summary *, rush_module *);
/* The graph behind a result: the operations that made it, down to the leaves. */
RUSH_API int rush_summary_graph(rush_summary *, const rush_tensor *result);
/* Points (n, features) for the projector. labels: n texts or NULL; pictures: (n, channels, height, width) or NULL. */
RUSH_API int rush_summary_embedding(rush_summary *, const char *tag, const rush_tensor *points, const char *const *labels,
                                    const rush_tensor *pictures, int64_t step);

/* One hyperparameter: a number, or a text where text is not NULL. */
typedef struct rush_hparam {
    const char *name, *text;
    double number;
    bool is_bool;
} rush_hparam;
/* Hyperparameters of a run and what it reached: metrics are numbers, also written as scalars. */
RUSH_API int rush_summary_hparams(rush_summary *, int n, const rush_hparam *, int n_metrics, const rush_hparam *metrics, int64_t step);

/* The same graph as rush_summary_graph() shows, in the language of Graphviz's dot; at most size bytes with a zero at
 * the end go into buf; returns the whole length, -1 on error. */
RUSH_API int64_t rush_graph_dot(const rush_tensor *result, char *buf, size_t size);

#ifdef __cplusplus
}
#endif
#endif
