/* Memory that other processes can open.
 *
 * The rule: it is an unnamed memory file of the process that exports it.  A handle says which process and descriptor, and
 * the file's name carries a random token.  So nothing is left behind by a kill, and a descriptor that means another file by
 * now is refused. */
#ifndef SIMGPU_EXPORTS_H
#define SIMGPU_EXPORTS_H

#include "blocks.h"

enum sg_export_kind { SG_EXPORT_MEMORY = 1, SG_EXPORT_EVENT, SG_EXPORT_POOL, SG_EXPORT_PHYSICAL };

/* What stands in a handle of 64 bytes. */
struct sg_export {
    uint64_t machine; /* when the shared file was made: a handle of another machine is refused */
    uint64_t token, pool, bytes;
    uint32_t kind, card;
    int32_t process, descriptor;
};

/* Makes a memory file of this size; false with no descriptor left. */
bool sg_make_export(enum sg_export_kind kind, uint32_t card, uint64_t bytes, struct sg_export *made);
/* Opens the file of a handle: a descriptor, or -1 if it does not exist any more. */
int sg_open_export(const struct sg_export *handle, enum sg_export_kind kind);
/* Says of a descriptor that somebody passed on what it is; false if it is no export of this kind. */
bool sg_describe_export(int descriptor, enum sg_export_kind kind, struct sg_export *found);
bool sg_is_own_export(const struct sg_export *handle);

/* Puts the block's bytes into a memory file, once; NULL if there is no descriptor left. */
const struct sg_export *sg_export_block(struct sg_block *block);
/* Maps the exported block of another process into this one. Nothing is charged: its owner is. */
struct sg_block *sg_import_block(const struct sg_export *handle, CUcontext context);

#endif
