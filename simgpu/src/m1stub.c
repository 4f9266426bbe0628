#include "capture.h"
CUresult sg_submit(CUstream stream, const struct sg_work *work) {
    if (work->type == SG_NODE_KERNEL) return sg_run_kernel(stream, &work->kernel);
    if (work->type == SG_NODE_EVENT_RECORD) return sg_record_event(work->event, stream);
    return sg_wait_event(stream, work->event);
}
CUresult sg_capture_event(CUstream stream, CUevent event) { (void)stream; (void)event; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult sg_capture_wait(CUstream stream, CUevent event) { (void)stream; (void)event; return CUDA_ERROR_NOT_SUPPORTED; }
void sg_forget_captured(CUevent event) { (void)event; }
CUresult sg_may_ask_event(CUevent event) { (void)event; return CUDA_SUCCESS; }
CUresult sg_synchronize_context(CUcontext c) { return sg_wait_context(c); }
CUresult sg_may_wait_for(CUstream s) { (void)s; return CUDA_SUCCESS; }
CUresult sg_check_unsafe_call(void) { return CUDA_SUCCESS; }
void sg_leave_capture(CUstream s) { (void)s; }
CUfunction sg_function_of_kernel(void *k, CUcontext c) { (void)k; (void)c; return NULL; }
