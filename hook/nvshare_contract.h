/* The constants of contract/ that the hook needs.
 *
 * The rule: the macro NVSHARE_<MODULE>_<NAME> here has the value of NAME in that module of contract/; WIRE is
 * contract/wire/numbers.py.
 * tests/contract/test_header.py compares the two. */
#ifndef NVSHARE_CONTRACT_H
#define NVSHARE_CONTRACT_H

#define NVSHARE_NAMES_ENV_PRELOAD "LD_PRELOAD"
#define NVSHARE_NAMES_ENV_MODE "NVSHARE_MODE"
#define NVSHARE_NAMES_ENV_LOG "NVSHARE_LOG"
#define NVSHARE_NAMES_ENV_ON_LOSS "NVSHARE_ON_LOSS"
#define NVSHARE_NAMES_ENV_SOCKETS "NVSHARE_SOCKETS"
#define NVSHARE_NAMES_ALLOCATION "nvshare.com/allocation"

#define NVSHARE_GRAMMAR_LOG_QUIET "quiet"
#define NVSHARE_GRAMMAR_LOG_SUMMARY "summary"
#define NVSHARE_GRAMMAR_LOG_DEBUG "debug"

#define NVSHARE_PATHS_CONTAINER_SOCKETS "/var/run/nvshare"
#define NVSHARE_PATHS_OWN_FOLDER "mine"
#define NVSHARE_PATHS_SOCKET_NAME "scheduler.sock"

#define NVSHARE_LINE_LONGEST 4096

#define NVSHARE_WIRE_VERSION 1
#define NVSHARE_WIRE_ANNOUNCE_MS 2000
#define NVSHARE_WIRE_FLIGHT_MS 20
#define NVSHARE_WIRE_RETRY_MS 50

#define NVSHARE_SHARED_MEMORY_GATE_MAGIC "NVSGATE1"
#define NVSHARE_SHARED_MEMORY_LEDGER_MAGIC "NVSLEDG1"
#define NVSHARE_SHARED_MEMORY_MOST_GPUS 63
#define NVSHARE_SHARED_MEMORY_LEDGER_SLOTS 256
#define NVSHARE_SHARED_MEMORY_LINE 64

#endif
