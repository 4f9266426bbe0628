/* Parameters of graph nodes: they turn the structures of CUDA into work. */
#ifndef SIMGPU_GRAPH_PARAMS_H
#define SIMGPU_GRAPH_PARAMS_H

#include "driver/graphs/node.h"

/* `second_form`: the structure is CUDA_KERNEL_NODE_PARAMS_v2, else _v1. */
CUresult sg_read_kernel(const void *params, bool second_form, struct sg_work *work);
CUresult sg_read_params(const CUgraphNodeParams *params, struct sg_work *work);

#endif
