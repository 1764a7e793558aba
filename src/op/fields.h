/* fields.h - the members of rush_op that rush_op_register() fills for the library itself; rushlight.h has their room. */
    uint64_t tensor_args;  /* bit i: argument i is a Tensor or Tensor[]                   */
    const void *row;       /* of a table's row: what its family needs to know             */
    uint64_t saves_in;     /* bit i: grad reads argument i                                */
    uint64_t *saves_when;  /* per argument, then per result: kept only if one of these arguments wants a gradient; 0: always */
    const rush_op *sparse; /* what runs with tensors of sparse layouts; NULL: an error    */
    rush_op *next;         /* the next overload of the same base name                     */
    const char *out_names[RUSH_MAXOUT]; /* "values", "indices"; NULL where the schema names none */
    uint8_t out_types[RUSH_MAXOUT]; /* rush_arg_type of each result                       */
    uint32_t saves_out;
    uint32_t index;        /* in order of registration                                    */
    uint8_t out_list;      /* bit i: result i is a Tensor[]                               */
    bool given;            /* programs have given it kernels: op/watch.h                  */
