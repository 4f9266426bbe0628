/* Doing work: its effect happens at once, and its time is taken on the stream. */
#ifndef SIMGPU_WORK_H
#define SIMGPU_WORK_H

#include "driver/graphs/graph.h"

/* Does the work on the stream, or adds it to the capture that the stream is in. */
CUresult sg_submit(CUstream stream, const struct sg_work *work);
CUresult sg_launch_graph(CUgraphExec exec, CUstream stream);
/* Takes the device for this long. */
CUresult sg_occupy(CUstream stream, uint64_t length_ns);

/* The kinds of work. They are done even if the stream captures. */
CUresult sg_run_kernel(CUstream stream, const struct sg_kernel_work *kernel);
uint64_t sg_kernel_length(const struct sg_kernel_work *kernel);
CUresult sg_run_host(CUstream stream, const struct sg_host_work *host);
CUresult sg_run_batch(CUstream stream, const struct sg_batch_work *batch);
CUresult sg_record_event(CUevent event, CUstream stream);
CUresult sg_wait_event(CUstream stream, CUevent event);
/* Whether the moment that the event marks has passed; of an event that was never recorded it has. */
CUresult sg_query_event(CUevent event);
CUresult sg_synchronize_event(CUevent event);

#endif
