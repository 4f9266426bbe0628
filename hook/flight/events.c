/* Spare events: to make one costs more than to record it, and a piece of work wants one. */
#include "flight/events.h"

#include <stdlib.h>

#include "flight/streams.h"

struct spare {
    CUevent event;
    CUcontext context;
    bool is_timed; /* it keeps the moment at which it was reached */
    struct spare *next;
};

static struct spare *spares;

CUevent spare_event(CUcontext context, bool is_timed) {
    for (struct spare **at = &spares; *at; at = &(*at)->next) {
        struct spare *spare = *at;
        if (spare->context != context || spare->is_timed != is_timed)
            continue;
        CUevent event = spare->event;
        *at = spare->next;
        free(spare);
        return event;
    }
    CUevent event = NULL;
    return driver.cuEventCreate(&event, is_timed ? 0 : CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS ? event : NULL;
}

void event_give_back(CUevent event, CUcontext context, bool is_timed) {
    struct spare *spare = malloc(sizeof *spare);
    if (!spare)
        return;
    *spare = (struct spare){event, context, is_timed, spares};
    spares = spare;
}

void events_forget_ended(void) {
    for (struct spare **at = &spares; *at;) {
        struct spare *spare = *at;
        if (outlives_endings(spare->context)) {
            at = &spare->next;
            continue;
        }
        *at = spare->next;
        free(spare);
    }
}

void events_forget_all(void) { spares = NULL; }
