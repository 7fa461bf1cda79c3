/* A scheduler as a shared library, for `--scheduler ./libmine.so` of hpcosim.
 *
 * The messages are those of the protocol (../../protocol/README.md), in msgpack or in JSON, so that a
 * scheduler process and a library share all but their main: a process sends the hello and each
 * request, and receives the welcome and each reply; a library returns the former and is called with
 * the latter.
 *
 *     hello = begin(options)
 *     request = decide(welcome), then request = decide(events), ..., decide(simulation_ended)
 *     end()
 *
 * A library exports the three functions below. Several schedulers may live at once in a process,
 * each used by one thread at a time. Their output on stdout and stderr goes to stderr of hpcosim.
 */
#ifndef HPCOSIM_SCHEDULER_H
#define HPCOSIM_SCHEDULER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define HPCOSIM_EXPORT __declspec(dllexport)
#else
#define HPCOSIM_EXPORT __attribute__((visibility("default")))
#endif

/* Bytes that the library owns: they are valid until the next call for the same scheduler. */
typedef struct {
    const uint8_t *data;
    size_t size;
} hpcosim_bytes;

/* A scheduler; its content is the library's own. */
typedef struct hpcosim_scheduler hpcosim_scheduler;

/* Returned by begin and decide: 0, or another number, with a text in UTF-8 that says why. */
enum { HPCOSIM_OK = 0, HPCOSIM_ERROR = 1 };

/* Makes a scheduler.
 *
 * options: what follows the first colon after the path of the library, in UTF-8, not terminated.
 * scheduler: set to the new scheduler, or to NULL with an error.
 * hello: set to a message `hello`; of its fields, `client` and `workload_manager` are read. Its
 *     encoding, msgpack or JSON, is that of all messages. */
HPCOSIM_EXPORT int hpcosim_scheduler_begin(const uint8_t *options, size_t size,
                                           hpcosim_scheduler **scheduler, hpcosim_bytes *hello);

/* Takes the message `welcome` first, then each `events`, and at last `simulation_ended`.
 *
 * request: set to a message `decisions`, of which `session` may be any; after `simulation_ended` it
 *     is not read. */
HPCOSIM_EXPORT int hpcosim_scheduler_decide(hpcosim_scheduler *scheduler, const uint8_t *message,
                                            size_t size, hpcosim_bytes *request);

/* Frees a scheduler; NULL is permitted. */
HPCOSIM_EXPORT void hpcosim_scheduler_end(hpcosim_scheduler *scheduler);

#ifdef __cplusplus
}
#endif
#endif
