/* script.h - programs in TorchScript's language, as data: parsed, bound to operations, and run without Python.
 *
 * The language is the part of Python that torch.jit.save writes and torch.jit.script takes. Reading order: value.c (what values
 * are), parse.c (text to nodes), bind.c (names to what they stand for, once), run.c (nodes to values), call.c (operations of the
 * registry by their schemas), builtin.c and text.c (what the language has beside them), archive.c (files).
 */
#ifndef RUSH_SCRIPT_H
#define RUSH_SCRIPT_H

#include "base/arena.h"
#include "op/missing.h"
#include "op/object.h"

/* ---- values ---- */

typedef enum script_kind {
    SCRIPT_UNSET, SCRIPT_NONE, SCRIPT_BOOL, SCRIPT_INT, SCRIPT_FLOAT, SCRIPT_COMPLEX, SCRIPT_TENSOR, SCRIPT_DEVICE, SCRIPT_GENERATOR,
    SCRIPT_ELLIPSIS, SCRIPT_FUNCTION, SCRIPT_FOREIGN, /* all below are in a box, which is counted */
    SCRIPT_TEXT, SCRIPT_LIST, SCRIPT_TUPLE, SCRIPT_DICT, SCRIPT_OBJECT, SCRIPT_SLICE, SCRIPT_RANGE
} script_kind;

typedef struct script_box script_box;
typedef struct script_class script_class;
typedef struct script_function script_function;
typedef struct script_unit script_unit;

typedef struct script_value {
    uint8_t kind; /* a script_kind */
    union {
        int64_t i; /* also bool; dtypes, layouts and memory formats are the numbers that files have for them */
        double f;
        double c[2];
        rush_tensor *t; /* held */
        rush_device device;
        rush_generator *gen;
        const script_function *call;
        rush_object *object; /* FOREIGN, of a class that C or C++ registered; held */
        script_box *box; /* held */
    };
} script_value;

struct script_box {
    atomic_int refs;
    uint8_t kind;
    size_t n, room;             /* items, or bytes of text, which a zero follows                            */
    script_value *item;         /* of lists and tuples; of dicts keys and values in turn; of slices 3; of ranges 3 */
    char *text;
    const script_class *type;   /* of objects, whose items are its attributes in order; of named tuples     */
    const rush_op *of;          /* of a tuple that an operation gave: its items have the names of the results */
    struct rush_module *module; /* of an object that is part of a program of C: it has the tensors; not held */
};

#define SCRIPT_NOTHING ((script_value){.kind = SCRIPT_NONE})
static inline bool script_is_boxed(script_value v) { return v.kind >= SCRIPT_TEXT; }
static inline script_value script_of_int(int64_t i) { return (script_value){.kind = SCRIPT_INT, .i = i}; }
static inline script_value script_of_bool(bool b) { return (script_value){.kind = SCRIPT_BOOL, .i = b}; }
static inline script_value script_of_float(double f) { return (script_value){.kind = SCRIPT_FLOAT, .f = f}; }
static inline bool script_is_number(script_value v) { return v.kind >= SCRIPT_BOOL && v.kind <= SCRIPT_COMPLEX; }

RUSH_PY script_value rush_script_keep(script_value);
RUSH_PY void rush_script_drop(script_value);
RUSH_PY script_value rush_script_of_tensor(rush_tensor *); /* held; NULL: none */
/* Each makes a box with one reference, the caller's; kind SCRIPT_UNSET and an error. */
RUSH_PY script_value rush_script_text(const char *, size_t n);
RUSH_PY script_value rush_script_list(int kind, size_t n, const script_value *); /* a list, tuple, slice or range; the items are kept */
RUSH_PY script_value rush_script_dict(void);
RUSH_PY script_value rush_script_object(const script_class *);
RUSH_PY int rush_script_append(script_box *list, script_value); /* kept */
RUSH_PY int rush_script_dict_set(script_box *dict, script_value key, script_value); /* both kept */
script_value *rush_script_dict_at(const script_box *dict, script_value key); /* NULL: not there */
void rush_script_remove(script_box *list, size_t from, size_t n);
int rush_script_same(script_value a, script_value b); /* 1, 0, or -1 and an error */
int rush_script_same_items(script_value a, script_value b); /* of lists and tuples, whichever they are */
int rush_script_order(script_value a, script_value b, int *less);
double rush_script_double(script_value); /* of a number */
int rush_script_truth(script_value); /* 1, 0, or -1 and an error */
const char *rush_script_kind_name(script_value);
RUSH_PY script_value rush_script_of_object(rush_object *); /* held; NULL: none */
script_value rush_script_print(script_value, bool quoted); /* as text, one reference */
script_value rush_script_from_rush(const rush_op *, int result, rush_value);

/* dtypes, layouts as files number them; -1 */
RUSH_PY int rush_script_dtype_code(int dtype);
int rush_script_dtype_of(int64_t code);
RUSH_PY int rush_script_layout_code(int layout);
int rush_script_layout_of(int64_t code);

/* ---- programs ---- */

typedef struct script_node script_node;
struct script_node {
    uint8_t op, what;     /* SCRIPT_N..., and an operator's or target's kind */
    uint32_t line, n, slot; /* n: of kid; slot: a local's                     */
    script_node **kid;
    const char *name;     /* of attributes, methods, whole dotted names       */
    const char **names;   /* of a call's arguments: NULL where by position    */
    script_value constant;
    const void *target;   /* rush_op, script_builtin, script_function, script_class: by `what` */
    const rush_op *op_of; /* the operation of a method or operator, beside its builtin in target */
};

enum script_node_op {
    SCRIPT_N_CONSTANT, SCRIPT_N_LOCAL, SCRIPT_N_NAME /* dotted, not of a local */, SCRIPT_N_LIST, SCRIPT_N_TUPLE, SCRIPT_N_DICT, SCRIPT_N_OPERATOR,
    SCRIPT_N_AND, SCRIPT_N_OR, SCRIPT_N_NOT, SCRIPT_N_CHOICE, SCRIPT_N_ATTRIBUTE, SCRIPT_N_INDEX, SCRIPT_N_SLICE, SCRIPT_N_CALL, SCRIPT_N_METHOD,
    SCRIPT_N_EACH /* comprehension: element, target, what of, condition */, SCRIPT_N_EACH_PAIR /* key, value, ... */, SCRIPT_N_STAR,
    SCRIPT_N_ASSIGN, SCRIPT_N_CHANGE /* x += y */, SCRIPT_N_DO, SCRIPT_N_IF, SCRIPT_N_WHILE, SCRIPT_N_FOR, SCRIPT_N_RETURN, SCRIPT_N_BREAK,
    SCRIPT_N_CONTINUE, SCRIPT_N_PASS, SCRIPT_N_ASSERT, SCRIPT_N_RAISE, SCRIPT_N_DELETE, SCRIPT_N_WITH, SCRIPT_N_BLOCK
};
/* What a call's name stands for. */
enum script_target { SCRIPT_T_UNKNOWN, SCRIPT_T_OP, SCRIPT_T_BUILTIN, SCRIPT_T_FUNCTION, SCRIPT_T_CLASS, SCRIPT_T_NEW, SCRIPT_T_FOREIGN /* the same, of a rush_class */, SCRIPT_T_FORM /* reads its arguments itself */ };

typedef struct script_param {
    const char *name;
    script_node *type, *standard; /* either may be NULL */
    bool keyword_only;
} script_param;

/* A function in a function, without arguments, which one fork() calls: it has the names of the outer one. */
typedef struct script_closure {
    const char *name;
    script_node *body;
    struct script_closure *next;
} script_closure;

struct script_function {
    const char *name, *path; /* "forward"; "__torch__.Net.forward" */
    script_class *of;
    uint32_t nparams, nlocals, line;
    script_param *param;
    const char **local;
    bool *stored;
    const char *text; /* from its "def" on: the last line ends a little later */
    size_t ntext;
    script_node *body, *result_type;
    script_closure *closure;  /* while its text is read: those that no fork() was seen of */
    script_function *next;
};

typedef struct script_field {
    const char *name;
    script_node *type, *value; /* of constants, the value */
    script_value constant;     /* of constants, once bound */
    bool fixed;                /* a constant: no attribute of objects */
    uint32_t slot;             /* of an attribute, in objects */
} script_field;

struct script_class {
    const char *path; /* "__torch__.a.b.Net" */
    bool is_module, is_tuple, is_enum, is_interface, grows /* its methods may ask for what it does not have */;
    uint32_t nfields, nslots;
    script_field *field;
    script_node *parameters, *buffers; /* lists of names */
    script_function *method;
    script_unit *unit;
    struct script_text *text; /* that it was read from, with what has been added to it since */
    struct script_piece *added;
    size_t end;               /* its own there */
    int indent;               /* the column of its lines */
    script_class *next;
};

/* Lines that were added to a class. */
typedef struct script_piece {
    const char *text;
    size_t n;
    struct script_piece *next;
} script_piece;

typedef struct script_text {
    const char *path, *text; /* "__torch__.a.b" */
    size_t n;
    struct script_text *next;
} script_text;

struct script_unit {
    atomic_int refs;
    script_text *first_text; /* what its classes and functions were read from */
    rush_arena arena;
    script_class *first_class;
    script_function *first_function;
    script_value constants; /* a tuple: CONSTANTS.c0, ... */
    script_value root;      /* the object of an archive */
    script_unit **used;     /* those whose objects its objects hold; __used__3 in its added lines is where the classes of used[3] are */
    uint32_t nused;
    rush_missing missing;   /* operations and functions that are not there */
};

RUSH_PY script_unit *rush_script_unit_new(void);
RUSH_PY void rush_script_unit_drop(script_unit *);
void *rush_script_alloc(script_unit *, size_t bytes); /* zeroed */
const char *rush_script_copy(script_unit *, const char *, size_t n);
/* Functions and classes of a text, which gets the path "__torch__.a.b"; file: for messages. */
RUSH_PY int rush_script_parse(script_unit *, const char *text, size_t n, const char *path, const char *file);
/* Lines of such a text that are more of a class which is there, and are told of as lines of `file` from 1 on. */
int rush_script_parse_more(script_unit *, const char *text, size_t n, script_class *, bool methods, const char *file);
/* When all texts are there: what do names stand for? */
RUSH_PY int rush_script_bind(script_unit *);
RUSH_PY script_class *rush_script_class_find(const script_unit *, const char *path);
RUSH_PY script_function *rush_script_function_find(const script_unit *, const char *path);
RUSH_PY script_function *rush_script_method_find(const script_class *, const char *name);
script_field *rush_script_field_find(const script_class *, const char *name);
/* More of a class: attributes, or methods, indented anyhow. All of it or, with an error, nothing. */
int rush_script_class_add(script_class *, const char *lines, bool methods, const char *file);
/* A unit holds objects of another from now on; its number in used, -1 and an error: the other one holds this unit's. */
int rush_script_unit_use(script_unit *, script_unit *other);
RUSH_PY int rush_script_attribute(script_value object, const char *name, script_value *out); /* one reference */
RUSH_PY int rush_script_attribute_set(script_value object, const char *name, script_value); /* kept */

/* ---- running ---- */

typedef struct script_call {
    script_unit *unit;
    const char *name;     /* of what is called                    */
    int n, depth;
    script_value *in;
    const char **names;   /* NULL: all by position                */
} script_call;

enum { SCRIPT_NOT_MINE = 1 };
/* One reference in *out. 0; -1 and an error; SCRIPT_NOT_MINE: arguments of other kinds than it takes. */
typedef int (*script_builtin)(script_call *, script_value *out);

script_builtin rush_script_builtin_find(const char *name); /* NULL: no such */
script_builtin rush_script_text_method(const char *name);  /* those of texts alone */
script_builtin rush_script_ragged(const char *name);       /* those of rows with lengths of their own */
const script_value *rush_script_argument(const script_call *, int k, const char *name); /* the one of this name, or the k-th; NULL: not given, or None */
int rush_script_run_op(const rush_op *, script_call *, script_value *out);
/* self is UNSET for functions. One reference in *out. */
RUSH_PY int rush_script_run(script_unit *, const script_function *, script_value self, int n, const script_value *in, const char **names, int depth, script_value *out);
int rush_script_call_function(script_call *, const script_function *, script_value self, script_value *out);
bool rush_script_is_type(script_value, const script_node *type, const script_unit *);
bool rush_script_may_be(script_value, const script_node *type, const script_unit *); /* the same, and yes for types that values do not tell of */
/* The argument that a caller gave for the parameter `at` becomes of its type, as PyTorch's do; -1 and an error: it cannot. */
int rush_script_fit(const script_unit *, const script_function *, uint32_t at, script_value *);
/* A method of an object by its own name, "__len__"; SCRIPT_NOT_MINE: there is none. */
int rush_script_special(script_value, const char *name, int n, const script_value *in, script_value *out);
int rush_script_foreign(script_call *, const char *name, const char *suffix, script_value *out); /* the same, of a FOREIGN one, which is the first argument */
int rush_script_index(script_value of, script_value at, script_value *out);
int rush_script_no_key(script_value key);                 /* the error */
int rush_script_raise(const char *before, const char *text); /* the error that a program raises itself */
RUSH_PY bool rush_script_raised(void);                    /* is the pending error, of the run just ended, such a one? */
int rush_script_index_set(script_value of, script_value at, script_value to);
int rush_script_items(script_value of, script_value *out); /* what a loop walks: a list, tuple or range with one reference */
int rush_script_arithmetic(const char *op, script_value a, script_value b, script_value *out); /* numbers, texts, lists; SCRIPT_NOT_MINE */

/* ---- archives ---- */

/* A unit with root and constants; NULL and an error. */
RUSH_PY script_unit *rush_script_load(const char *path);
/* The same as an archive, with more files: to a sink, 0 or -1 and an error. */
struct rush_archive_file;
RUSH_PY int rush_script_write(const script_unit *, script_value root, int (*sink)(void *to, const void *, size_t), void *to, size_t n, const struct rush_archive_file *);
int rush_script_program_add(struct rush_module *, const char *name, const char *type, script_value, int role);
script_value rush_script_program_value(const struct rush_module *); /* borrowed */
struct rush_module *rush_script_program(const char *path); /* as a module of C; parked */
bool rush_script_is_archive(const char *path); /* a zip of torch.jit.save; what cannot be read is none, and no error */
bool rush_script_is_program(const struct rush_module *);
int rush_script_program_run(struct rush_module *, int n, rush_tensor *const *in, int room, rush_tensor **out);
int rush_script_program_inputs(const struct rush_module *);
struct rush_program_value;
int rush_script_program_input_at(const struct rush_module *, int i, struct rush_program_value *);
int rush_script_program_results(const struct rush_module *);
const char *rush_script_program_text(const struct rush_module *);

#endif
