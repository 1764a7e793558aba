/* Files: what is written comes back, damage is an error, and a process that dies leaves the old file. */
#include "suite/suite.h"
#include "io/checkpoint.h"
#include "io/crc32.h"
#include "io/zip.h"
#include <rushlight/gguf.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static const char *file(const char *name)
{
    static char path[2][128];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[0], "%s/%s", folder, name);
    return path[turn];
}

static rush_tensor *counted(rush_dtype d, int64_t n)
{
    int64_t numbers[64];
    for (int64_t i = 0; i < n; i++) numbers[i] = i;
    rush_tensor *t = rush_from_data(numbers, RUSH_I64, 1, &n);
    return d == RUSH_I64 ? t : T("to.dtype", V(t), rush_v_dtype(d));
}

static bool same(const rush_tensor *a, const rush_tensor *b)
{
    if (!a || !b || a->dtype != b->dtype || !rush_same_sizes(a, b)) return false;
    const rush_tensor *x = rush_contiguous_copy(a), *y = rush_contiguous_copy(b);
    return x && y && !memcmp(rush_ptr(x), rush_ptr(y), (size_t)x->numel * rush_dtypes[x->dtype].size);
}

/* ---- what is written comes back ---- */

static void crc_is_zlibs(void **state)
{
    assert_int_equal(rush_crc32(0, "123456789", 9), 0xcbf43926);
    char *p = suite_alloc(100000), *q = suite_alloc(100000);
    for (int i = 0; i < 100000; i++) p[i] = (char)(i * 7 ^ i >> 8);
    for (size_t n = 0; n < 100000; n = n * 3 / 2 + 1) {
        uint32_t slow = 0;
        for (size_t i = 0; i < n; i++) slow = rush_crc32(slow, p + i, 1);
        assert_int_equal(rush_crc32(0, p, n), slow);
        assert_int_equal(rush_crc32_copy(0, q, p, n), slow);
        assert_memory_equal(p, q, n);
        assert_int_equal(rush_crc32_join(rush_crc32(0, p, n / 3), rush_crc32(0, p + n / 3, n - n / 3), n - n / 3), slow);
    }
}

static void every_dtype_comes_back(void **state)
{
    for (int mapped = 0; mapped < 2; mapped++)
        for (int d = 0; d < RUSH_QINT8; d += suite_failing() ? 7 : 1)
            rush_scope() {
                if (d == RUSH_C32) continue;
                rush_content *dict = rush_content_dict();
                rush_tensor *t = counted((rush_dtype)d, 6);
                assert_int_equal(rush_content_set(dict, "t", rush_content_tensor(t)), 0);
                assert_int_equal(rush_save(file("dtype.pt"), dict), 0);
                const rush_content *back = rush_load(file("dtype.pt"), .mmap = mapped);
                assert_non_null(back);
                assert_true(same(rush_content_get(back, "t")->t, t));
            }
}

static void views_share_and_little_is_written(void **state)
{
    rush_scope() {
        int64_t size[] = {1000, 1000};
        rush_tensor *big = rush_tensor_new(RUSH_F32, (rush_device){RUSH_CPU, -1}, 2, size);
        assert_non_null(big);
        memset(rush_ptr(big), 0, 4000000);
        rush_tensor *row = T("select.int", V(big), V(0), V(500)), *part = T("narrow", V(row), V(0), V(10), V(5));
        rush_content *list = rush_content_list();
        rush_content_append(list, rush_content_tensor(row));
        rush_content_append(list, rush_content_tensor(part));
        assert_int_equal(rush_save(file("view.pt"), list), 0);
        struct stat st;
        assert_int_equal(stat(file("view.pt"), &st), 0);
        assert_true(st.st_size < 8000);
        const rush_content *back = rush_load(file("view.pt"));
        assert_non_null(back);
        assert_ptr_equal(rush_content_at(back, 1)->t->storage, rush_content_at(back, 0)->t->storage);
        assert_true(same(rush_content_at(back, 1)->t, part));
    }
}

static void containers_come_back(void **state)
{
    rush_scope() {
        rush_content *dict = rush_content_dict(), *list = rush_content_list();
        rush_content_append(list, rush_content_none());
        rush_content_append(list, rush_content_bool(true));
        rush_content_append(list, rush_content_int(-5000000000));
        rush_content_append(list, rush_content_float(0.1));
        rush_content_set(dict, "list", list);
        rush_content_set(dict, "text", rush_content_text("h\xc3\xa9"));
        rush_content_set(dict, "model", rush_content_state((rush_state){1, (const char *[]){"w"}, (rush_tensor *[]){counted(RUSH_F32, 3)}}));
        assert_int_equal(rush_save(file("c.pt"), dict), 0);
        const rush_content *back = rush_load(file("c.pt"));
        assert_non_null(back);
        list = rush_content_get(back, "list");
        assert_int_equal(rush_content_at(list, 0)->kind, RUSH_CONTENT_NONE);
        assert_int_equal(rush_content_at(list, 2)->i, -5000000000);
        assert_true(rush_content_at(list, 3)->f == 0.1);
        assert_string_equal(rush_content_get(back, "text")->s, "h\xc3\xa9");
        rush_state s = rush_content_tensors(back);
        assert_int_equal(s.n, 1);
        assert_string_equal(s.name[0], "model.w");
        rush_content_append(list, list); /* a circle is an error, not an endless walk */
        assert_int_equal(rush_save(file("c.pt"), list), -1);
        rush_error_clear();
        const char *const wrong[] = {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80"}; /* Python could not read the file */
        for (size_t i = 0; i < RUSH_COUNT(wrong); i++) {
            if (i % 2) assert_null(rush_content_text(wrong[i]));
            else assert_int_equal(rush_content_set(dict, wrong[i], rush_content_none()), -1);
            assert_int_equal(rush_error_kind_now(), RUSH_VALUE_ERROR);
            rush_error_clear();
        }
    }
}

static void arrays_come_back(void **state)
{
    rush_scope() {
        rush_state s = {2, (const char *[]){"a", "b"}, (rush_tensor *[]){counted(RUSH_I32, 6), counted(RUSH_BOOL, 3)}};
        assert_int_equal(rush_npz_save(file("a.npz"), s), 0);
        rush_state back = rush_npz_load(file("a.npz"));
        assert_int_equal(back.n, 2);
        assert_true(same(rush_state_find(back, "a"), s.tensor[0]) && same(rush_state_find(back, "b"), s.tensor[1]));
        assert_int_equal(rush_safetensors_save(file("a.safetensors"), s), 0);
        back = rush_safetensors_load(file("a.safetensors"));
        assert_true(same(rush_state_find(back, "a"), s.tensor[0]) && same(rush_state_find(back, "b"), s.tensor[1]));
        assert_int_equal(rush_npy_save(file("a.npy"), s.tensor[0]), 0);
        assert_true(same(rush_npy_load(file("a.npy")), s.tensor[0]));
    }
}

static void names_of_safetensors_are_any_text(void **state)
{
    rush_scope() {
        rush_state s = {3, (const char *[]){"a\"\\b\n", "gew\xc3\xb6hnlich \xf0\x9f\x98\x80", "/"}, (rush_tensor *[]){counted(RUSH_I32, 6), counted(RUSH_BOOL, 3), counted(RUSH_F64, 1)}};
        assert_int_equal(rush_safetensors_save(file("n.safetensors"), s), 0);
        rush_state back = rush_safetensors_load(file("n.safetensors"));
        assert_int_equal(back.n, 3);
        for (int i = 0; i < 3; i++) assert_true(same(rush_state_find(back, s.name[i]), s.tensor[i]));
        s.name = (const char *[]){"a", "latin \xf6", "b"};
        assert_int_equal(rush_safetensors_save(file("n.safetensors"), s), -1);
        assert_int_equal(rush_error_kind_now(), RUSH_VALUE_ERROR);
        rush_error_clear();
        assert_int_equal(rush_safetensors_load(file("n.safetensors")).n, 3); /* the old one */
    }
}

/* ---- damage ---- */

/* A new file: one that is cut to nothing and written again is brought to the disk when it is closed, on ext4. */
static void write_file(const char *path, const char *p, size_t n)
{
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    ssize_t written = write(fd, p, n);
    close(fd);
    assert_int_equal(written, n);
}

static char *read_file(const char *path, size_t *n)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    char *p = suite_alloc((size_t)st.st_size + 1);
    *n = (size_t)st.st_size;
    int fd = open(path, O_RDONLY);
    ssize_t got = read(fd, p, *n);
    close(fd);
    assert_int_equal(got, *n);
    return p;
}

static rush_state load_pt(const char *path) { return rush_load_state(path); }

static rush_state load_npy(const char *path)
{
    static rush_tensor *t;
    static const char *name = "a";
    t = rush_npy_load(path);
    return (rush_state){t ? 1 : -1, &name, &t};
}

/* Every beginning of a file is an error; every changed byte is one, or changes nothing that `checked` can see. */
static void damage(const char *name, rush_state (*load)(const char *), bool checked)
{
    size_t n;
    char *good = read_file(file(name), &n), *bad = suite_alloc(n);
    size_t step = suite_failing() ? 499 : 1;
    char path[128];
    snprintf(path, sizeof path, "%s", file("damaged"));
    for (size_t cut = 0; cut < n; cut += step)
        rush_scope() {
            write_file(path, good, cut);
            assert_int_equal(load(path).n, -1);
            assert_non_null(rush_error());
            rush_error_clear();
        }
    rush_scope() {
        rush_state want = load(file(name));
        assert_true(want.n > 0);
        for (size_t at = 0; at < n; at += step)
            rush_scope() {
                memcpy(bad, good, n);
                bad[at] ^= (char)(1 << at % 8);
                write_file(path, bad, n);
                rush_state got = load(path);
                if (got.n < 0) assert_non_null(rush_error());
                rush_error_clear();
                if (!checked || got.n < 0) continue;
                assert_int_equal(got.n, want.n);
                for (int i = 0; i < want.n; i++) assert_true(same(got.tensor[i], want.tensor[i]));
            }
    }
}

static void save_small(void)
{
    rush_state s = {2, (const char *[]){"a", "b"}, (rush_tensor *[]){counted(RUSH_F32, 40), counted(RUSH_I64, 60)}};
    assert_int_equal(rush_save_state(file("s.pt"), s), 0);
    assert_int_equal(rush_npz_save(file("s.npz"), s), 0);
    assert_int_equal(rush_safetensors_save(file("s.safetensors"), s), 0);
    assert_int_equal(rush_npy_save(file("s.npy"), s.tensor[0]), 0);
    rush_content *about = rush_content_dict(), *words = rush_content_list();
    rush_content_append(words, rush_content_text("a"));
    rush_content_set(about, "words", words);
    rush_content_set(about, "numbers", rush_content_tensor(s.tensor[1]));
    s.tensor[0] = T("arange", V(64.0), rush_v_dtype(RUSH_F32));
    assert_int_equal(rush_gguf_block("Q4_K"), 256);
    assert_int_equal(rush_gguf_block("Q8_0"), 32);
    assert_int_equal(rush_gguf_block("F16"), 1);
    assert_int_equal(rush_gguf_block("Q9_0"), -1);
    rush_error_clear();
    assert_int_equal(rush_gguf_save(file("s.gguf"), s, about, (const char *const[]){"Q4_0", NULL}), 0);
}

static void damaged_files_are_errors(void **state)
{
    rush_scope() save_small();
    damage("s.pt", load_pt, true);
    damage("s.npz", rush_npz_load, true);
    damage("s.safetensors", rush_safetensors_load, false); /* has no checksums */
    damage("s.npy", load_npy, false);
    damage("s.gguf", rush_gguf_load, false);
    rush_scope() assert_non_null(rush_gguf_text(file("s.gguf")));
}

/* ---- hostile files ---- */

static int refuses(const char *pickle, size_t n)
{
    rush_reader r = {.path = "pickle", .folder = "data", .left = 1 << 20};
    size_t used;
    int refused = !rush_reader_pickle(&r, pickle, n, &used);
    rush_error_clear();
    return refused;
}
#define REFUSES(text) assert_true(refuses(text, sizeof text - 1))

static void pickles_run_nothing(void **state)
{
    rush_scope() {
        REFUSES("\x80\x02" "cposix\nsystem\nX\2\0\0\0ls\x85R.");
        REFUSES("\x80\x02" "cbuiltins\neval\nX\1\0\0\0" "1\x85R.");
        REFUSES("\x80\x02" "ctorch._utils\n_rebuild_tensor_v2\n)R.");     /* too few arguments */
        REFUSES("\x80\x02" "K\1)R.");                                     /* a number is called */
        REFUSES("\x80\x02" "K\1" "a.");                                   /* an empty stack */
        REFUSES("\x80\x02" "h\7.");                                       /* nothing in the memo */
        REFUSES("\x80\x02" "X\xff\xff\xff\x7f" "a.");                     /* a text longer than the file */
        REFUSES("\x80\x02" "\x8e\xff\xff\xff\xff\xff\xff\xff\x7f" "a.");
        REFUSES("\x80\x02" "K\1K\2.");                                    /* two values */
        REFUSES("\x80\x02" "(K\1.");                                      /* a mark is left */
        REFUSES("\x80\x09N.");
        REFUSES("");
        char *deep = suite_alloc(5003);
        memcpy(deep, "\x80\x02N", 3);
        memset(deep + 3, '\x85', 4999);
        deep[5002] = '.';
        assert_true(refuses(deep, 5003));
        /* each tuple is two of the last, 64 times: 2^64 leaves to hash when it becomes a key */
        char laughs[1024] = "\x80\x02}N", *p = laughs + 4;
        for (int i = 0; i < 64; i++) {
            memcpy(p, (char[]){'q', (char)i, 'h', (char)i, '\x86'}, 5);
            p += 5;
        }
        memcpy(p, "Ns.", 3), p += 3;
        assert_true(refuses(laughs, (size_t)(p - laughs)));
        /* short calls that copy a long list again and again */
        char *copies = suite_alloc(60000);
        p = copies;
        memcpy(p, "\x80\x02]q\1(", 6), p += 6;
        memset(p, 'N', 20000), p += 20000;
        *p++ = 'e';
        memcpy(p, "c__builtin__\nset\nq\2", 19), p += 19;
        for (int i = 0; i < 5000; i++) memcpy(p, "h\2h\1\x85R", 6), p += 6;
        *p++ = '.';
        assert_true(refuses(copies, (size_t)(p - copies)));
    }
}

/* ---- dying, and full disks ---- */

static int drafts(void)
{
    char command[160];
    snprintf(command, sizeof command, "ls -a %s | grep -c draft", folder);
    FILE *f = popen(command, "r");
    int n = -1, read = fscanf(f, "%d", &n);
    pclose(f);
    assert_int_equal(read, 1);
    return n;
}

static void killed_while_saving(void **state)
{
    const char *asked = getenv("RUSHLIGHT_KILLS"); /* 200 for the full test */
    int kills = asked ? atoi(asked) : suite_failing() ? 1 : 20, left = 0;
    char path[128];
    snprintf(path, sizeof path, "%s", file("k.pt"));
    rush_scope() {
        int64_t n = 1 << 19;
        rush_tensor *t = rush_tensor_new(RUSH_F32, (rush_device){RUSH_CPU, -1}, 1, &n);
        assert_non_null(t);
        float *p = rush_ptr(t);
        for (int64_t i = 0; i < n; i++) p[i] = 0;
        rush_state s = {1, (const char *[]){"t"}, &t};
        assert_int_equal(rush_save_state(path, s), 0);
        for (int k = 0; k < kills; k++) {
            int before = drafts();
            pid_t child = fork();
            if (!child) {
                rush_num_threads_set(1);
                rush_memory_fail_at(0, false); /* it only ends by being killed */
                for (int round = 1;; round++) {
                    for (int64_t i = 0; i < n; i++) p[i] = (float)(k * 1000 + round);
                    if (rush_save_state(path, s)) _exit(1);
                }
            }
            usleep((useconds_t)(rand() % 60000));
            kill(child, SIGKILL);
            int status;
            waitpid(child, &status, 0);
            assert_true(WIFSIGNALED(status));
            left += drafts() > before;
            rush_scope() {
                rush_state got = rush_load_state(path);
                assert_int_equal(got.n, 1);
                const float *q = rush_ptr(got.tensor[0]);
                for (int64_t i = 0; i < n; i++) assert_true(q[i] == q[0]);
            }
        }
    }
    assert_true(left <= (kills + 9) / 10); /* only between a draft's naming and its renaming */
}

static void full_disk_keeps_the_old_file(void **state)
{
    rush_scope() {
        rush_state s = {1, (const char *[]){"t"}, (rush_tensor *[]){counted(RUSH_F32, 60)}};
        assert_int_equal(rush_save_state(file("f.pt"), s), 0);
        int64_t n = 1 << 21;
        rush_tensor *big = rush_tensor_new(RUSH_F32, (rush_device){RUSH_CPU, -1}, 1, &n);
        assert_non_null(big);
        memset(rush_ptr(big), 0, (size_t)n * 4);
        int before = drafts();
        struct rlimit was, less;
        getrlimit(RLIMIT_FSIZE, &was);
        less = (struct rlimit){1 << 20, was.rlim_max};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &less);
        int failed = rush_save_state(file("f.pt"), (rush_state){1, s.name, &big});
        setrlimit(RLIMIT_FSIZE, &was);
        assert_int_equal(failed, -1);
        assert_non_null(strstr(rush_error(), "f.pt"));
        assert_non_null(strstr(rush_error(), "the old file is as it was"));
        rush_error_clear();
        rush_state got = rush_load_state(file("f.pt"));
        assert_int_equal(got.n, 1);
        assert_true(same(got.tensor[0], s.tensor[0]));
        assert_int_equal(drafts(), before);
        assert_int_equal(rush_save_state(file("f.pt"), (rush_state){1, s.name, &big}), 0); /* and again with room */
        assert_int_equal(rush_save_state("/dev/full", s), -1);
        rush_error_clear();
        assert_int_equal(rush_save_state("/no/such/folder/f.pt", s), -1);
        rush_error_clear();
    }
}

/* One file taken for another: the message says what it is. */
static void what_a_file_is_is_said(void **state)
{
    rush_scope() {
        rush_state s = {1, (const char *[]){"a"}, (rush_tensor *[]){rush_from_data((float[8]){1}, RUSH_F32, 1, (int64_t[]){8})}};
        assert_int_equal(rush_safetensors_save(file("a.safetensors"), s), 0);
        assert_int_equal(rush_load_state(file("a.safetensors")).n, -1);
        assert_non_null(strstr(rush_error(), "is a safetensors file, not a checkpoint"));
        rush_error_clear();
        assert_int_equal(rush_npy_save(file("a.npy"), s.tensor[0]), 0);
        assert_int_equal(rush_load_state(file("a.npy")).n, -1);
        assert_non_null(strstr(rush_error(), "is an array of NumPy's (.npy), not a checkpoint"));
        rush_error_clear();
    }
}

/* Open files of this process that have no name any more. */
static int nameless(void)
{
    int n = 0;
    for (int fd = 3; fd < 256; fd++) {
        struct stat st;
        n += !fstat(fd, &st) && S_ISREG(st.st_mode) && !st.st_nlink;
    }
    return n;
}

static void replaced_files_are_let_go(void **state)
{
    rush_scope() {
        int64_t n = 5 << 20;
        rush_tensor *t = rush_tensor_new(RUSH_F32, (rush_device){RUSH_CPU, -1}, 1, &n);
        assert_non_null(t);
        memset(rush_ptr(t), 0, (size_t)n * 4);
        int before = nameless();
        for (int i = 0; i < 4; i++) assert_int_equal(rush_save_state(file("r.pt"), (rush_state){1, (const char *[]){"t"}, &t}), 0);
        pid_t child = fork();
        if (!child) _exit(nameless() > before);
        int status;
        waitpid(child, &status, 0);
        assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
        rush_close_now();
        assert_int_equal(nameless(), before);
        assert_int_equal(rush_save_state(file("r.pt"), (rush_state){1, (const char *[]){"t"}, &t}), 0);
        for (int i = 0; i < 500 && nameless() > before; i++) usleep(20000); /* by itself, soon */
        assert_int_equal(nameless(), before);
    }
}

/* Somebody cuts the file while it is read: an error, not a signal. */
static void cut_off_while_reading(void **state)
{
    char path[128];
    snprintf(path, sizeof path, "%s", file("cut"));
    size_t n = 8 << 20;
    char *p = suite_alloc(n);
    memset(p, 0, n);
    write_file(path, p, n);
    rush_source s;
    assert_int_equal(rush_source_open(&s, path), 0);
    uint32_t crc;
    int cut = truncate(path, 4096), failed = rush_source_read_much(&s, 0, p, n, &crc);
    rush_source_close(&s);
    assert_int_equal(cut, 0);
    assert_int_equal(failed, -1);
    assert_non_null(strstr(rush_error(), "cut off"));
    rush_error_clear();
}

int main(int argc, char **argv)
{
    snprintf(folder, sizeof folder, "%s/rush_io_XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : P_tmpdir);
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc_is_zlibs), cmocka_unit_test(every_dtype_comes_back), cmocka_unit_test(views_share_and_little_is_written),
        cmocka_unit_test(containers_come_back), cmocka_unit_test(arrays_come_back), cmocka_unit_test(names_of_safetensors_are_any_text), cmocka_unit_test(damaged_files_are_errors), cmocka_unit_test(what_a_file_is_is_said),
        cmocka_unit_test(pickles_run_nothing), cmocka_unit_test(killed_while_saving), cmocka_unit_test(full_disk_keeps_the_old_file),
        cmocka_unit_test(replaced_files_are_let_go), cmocka_unit_test(cut_off_while_reading),
    };
    int failed = SUITE(tests);
    char command[160];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) || failed;
}
