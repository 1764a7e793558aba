/* folder.c - train on a folder of pictures: one folder in it for each class.
 *
 *     folder [FOLDER [RUNS]]
 *
 * Without arguments it draws discs and squares into ./shapes first. A loader reads the pictures ahead in two threads;
 * what happens is written to RUNS (default: runs) for TensorBoard.
 */
#include <rushlight.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIDE = 24, EACH = 40 };

/* A disc or a square of random size and place. */
static void draw(const char *path, bool disc)
{
    unsigned char p[SIDE * SIDE];
    int r = 4 + rand() % 5, x = r + rand() % (SIDE - 2 * r), y = r + rand() % (SIDE - 2 * r);
    for (int i = 0; i < SIDE * SIDE; i++) {
        int dx = i % SIDE - x, dy = i / SIDE - y;
        bool inside = disc ? dx * dx + dy * dy <= r * r : abs(dx) <= r * 7 / 8 && abs(dy) <= r * 7 / 8;
        p[i] = (unsigned char)(inside ? 200 + rand() % 56 : rand() % 56);
    }
    rush_scope() rush_picture_save(path, rush_from_data(p, RUSH_U8, 3, (int64_t[]){1, SIDE, SIDE}));
}

static const char *draw_all(void)
{
    char path[64];
    mkdir("shapes", 0777);
    mkdir("shapes/disc", 0777);
    mkdir("shapes/square", 0777);
    for (int i = 0; i < EACH; i++) {
        snprintf(path, sizeof path, "shapes/disc/%02d.png", i);
        draw(path, true);
        snprintf(path, sizeof path, "shapes/square/%02d.jpg", i);
        draw(path, false);
    }
    return "shapes";
}

int main(int argc, char **argv)
{
    rush_scope() {
        rush_manual_seed(1);
        rush_dataset *data = rush_dataset_images(argc > 1 ? argv[1] : draw_all(), .mode = RUSH_PICTURE_GRAY, .height = SIDE, .width = SIDE);
        rush_loader *loader = rush_loader_new(data, .batch = 16, .shuffle = true, .threads = 2);
        rush_summary *log = rush_summary_open(argc > 2 ? argv[2] : "runs", NULL);
        if (rush_error()) break;
        int classes = rush_dataset_classes(data);
        rush_module *net = rush_nn_sequential(rush_nn_conv2d(1, 8, 5, .stride = RUSH_INTS(2)), rush_nn_relu(), rush_nn_conv2d(8, 16, 5, .stride = RUSH_INTS(2)), rush_nn_relu(),
                                              rush_nn_flatten(), rush_nn_linear(16 * 3 * 3, classes));
        rush_optim *opt = rush_adamw(rush_parameters(net), .lr = 1e-2);
        printf("%lld pictures of %d classes\n", (long long)rush_dataset_size(data), classes);
        rush_summary_module(log, net);
        int64_t step = 0;
        for (int epoch = 0; epoch < 16 && !rush_error(); epoch++) {
            double loss_sum = 0, right = 0;
            int64_t batch = 0;
            int more = 1;
            while (more > 0)
                rush_scope() {
                    rush_tensor *xy[2];
                    if ((more = rush_loader_next(loader, xy)) <= 0) break;
                    rush_tensor *out = rush_forward(net, xy[0]), *loss = rush_cross_entropy(out, xy[1]);
                    rush_optim_zero_grad(opt);
                    rush_backward(loss);
                    rush_optim_step(opt);
                    loss_sum += rush_item(loss);
                    right += rush_item(rush_sum(rush_eq(rush_argmax(out, .dim = RUSH_V(1)), xy[1])));
                    rush_summary_scalar(log, "loss", rush_item(loss), step++);
                    if (!batch++ && !epoch) rush_summary_image(log, "pictures", xy[0], 0);
                    if (isatty(2)) fprintf(stderr, "\repoch %d, batch %lld of %lld ", epoch, (long long)batch, (long long)rush_loader_batches(loader));
                }
            if (isatty(2)) fprintf(stderr, "\r\x1b[K");
            printf("epoch %2d  loss %.4f  right %.1f %%\n", epoch, loss_sum / (double)rush_loader_batches(loader), 100 * right / (double)rush_dataset_size(data));
            rush_summary_histogram(log, "first layer", rush_module_tensor(net, "0.weight"), epoch);
        }
        rush_summary_close(log);
        rush_loader_free(loader);
        rush_dataset_drop(data);
    }
    if (rush_error()) return fprintf(stderr, "folder: %s\n", rush_error()), 1;
    return 0;
}
