/* mpi.h - the engine "mpi". */
#ifndef RUSH_DIST_MPI_H
#define RUSH_DIST_MPI_H

#include "dist/group.h"

extern const rush_engine rush_engine_mpi;
RUSH_PY bool rush_mpi_available(void); /* false with an error that says what is missing */
/* The processes that mpiexec started: a store that rank 0 serves. NULL and an error without MPI. */
RUSH_PY rush_store *rush_mpi_meet(int *rank, int *size, double seconds);

#endif
