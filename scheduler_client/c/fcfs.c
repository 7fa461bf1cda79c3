/* First come, first served, in C, by the messages of the hpcosim protocol (../../protocol/README.md,
 * "spec"). With process.c it is a program, alone a shared library (hpcosim_scheduler.h):
 *
 *     ./fcfs tcp://127.0.0.1:28080 [SCENARIO [TIMEOUT_S [KEYS [IDLE_S]]]]
 *     hpcosim run demo --scheduler ./libfcfs.so[:IDLE_S]
 *
 * Nodes that have been idle for IDLE_S simulated seconds are switched off; without it none is. */
#include "hpcosim_scheduler.h"

#include <math.h>
#include <msgpack.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 801, MAX_ERROR = 512 }; /* a name: 200 characters of UTF-8 */

/* ---- The cluster and its jobs ---- */

typedef enum { CORES, ONE_NODE, WHOLE_NODES } placement;

typedef struct job {
    int64_t id, cores;
    uint64_t order;         /* position in the order of submission */
    placement placement;
    size_t places;          /* number of its nodes */
    size_t *nodes;          /* node numbers */
    int64_t *held;          /* cores held on each of them */
    struct job *next;
} job;

struct hpcosim_scheduler {
    size_t node_count;
    int64_t *capacity, *free_cores;         /* by node */
    bool *is_on, *going_off;                /* by node: its power state is on, is switching_off */
    bool *can_sleep;                        /* by node */
    double *idle_since_s;                   /* by node; NAN: it is not idle */
    double idle_limit_s;                    /* INFINITY: no node is switched off */
    job *queue, *running;   /* queue: in order of submission; running: any order */
    job *last;              /* of the queue, NULL: unknown; valid while the queue is not empty */
    uint64_t submitted;     /* number of jobs so far */
    char session[MAX_NAME];
    int64_t seq;            /* of the last request */
    size_t count;           /* number of decisions of the next request */
    msgpack_sbuffer request, decisions;
    msgpack_packer packer, decisions_packer;
    msgpack_unpacked message; /* the last one; its texts point into the bytes of the caller */
    char error[MAX_ERROR];
    jmp_buf failed;         /* where `fail` goes on: the function of the interface */
};
typedef struct hpcosim_scheduler scheduler;

static void fail(scheduler *self, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(self->error, sizeof self->error, format, arguments);
    va_end(arguments);
    longjmp(self->failed, 1);
}

static void *zeroed(scheduler *self, size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) fail(self, "out of memory");
    return memory;
}

static void free_job(job *gone) { free(gone->nodes), free(gone->held), free(gone); }

/* Inserts a job into the queue, in the order of submission. */
static void enqueue(scheduler *self, job *added) {
    job **place = &self->queue, *last = self->last;
    if (self->queue && last && last->order < added->order) place = &last->next;
    while (*place && (*place)->order < added->order) place = &(*place)->next;
    added->next = *place;
    *place = added;
    if (!added->next) self->last = added;
}

/* Removes a running job and frees its cores. Returns the job; NULL: it does not run. */
static job *release(scheduler *self, int64_t id) {
    job **place = &self->running;
    while (*place && (*place)->id != id) place = &(*place)->next;
    job *released = *place;
    if (!released) return NULL;
    *place = released->next;
    for (size_t i = 0; i < released->places; i++)
        self->free_cores[released->nodes[i]] += released->held[i];
    free(released->nodes), free(released->held);
    released->nodes = NULL, released->held = NULL;
    return released;
}

/* Removes a job from the queue: it ended although it waits, as its user cancelled it. */
static void withdraw(scheduler *self, int64_t id) {
    for (job **place = &self->queue; *place; place = &(*place)->next) {
        job *ended = *place;
        if (ended->id != id) continue;
        *place = ended->next;
        if (ended == self->last) self->last = NULL;
        free_job(ended);
        return;
    }
}

/* ---- msgpack ---- */

/* Returns a field of a map; NULL: it is absent and has its default (spec, section 1). */
static const msgpack_object *field(scheduler *self, const msgpack_object *map, const char *name) {
    if (map->type != MSGPACK_OBJECT_MAP) fail(self, "invalid message: expected a map");
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object *key = &map->via.map.ptr[i].key;
        if (key->type == MSGPACK_OBJECT_STR && key->via.str.size == strlen(name) &&
            !memcmp(key->via.str.ptr, name, key->via.str.size))
            return &map->via.map.ptr[i].val;
    }
    return NULL;
}

static const msgpack_object *required(scheduler *self, const msgpack_object *map, const char *name,
                                      msgpack_object_type type) {
    const msgpack_object *found = field(self, map, name);
    if (!found || found->type != type)
        fail(self, "invalid message: field \"%s\" is missing or of a wrong type", name);
    return found;
}

static int64_t integer(scheduler *self, const msgpack_object *map, const char *name) {
    const msgpack_object *found = required(self, map, name, MSGPACK_OBJECT_POSITIVE_INTEGER);
    if (found->via.u64 > INT64_MAX)
        fail(self, "invalid message: field \"%s\" is above 2^63 - 1", name);
    return (int64_t)found->via.u64;
}

static double number(scheduler *self, const msgpack_object *map, const char *name) {
    const msgpack_object *found = field(self, map, name);
    if (found && found->type == MSGPACK_OBJECT_POSITIVE_INTEGER) return (double)found->via.u64;
    if (found && found->type == MSGPACK_OBJECT_FLOAT32) return found->via.f64;
    return required(self, map, name, MSGPACK_OBJECT_FLOAT64)->via.f64;
}

static bool is(scheduler *self, const msgpack_object *map, const char *name, const char *text) {
    const msgpack_object *found = required(self, map, name, MSGPACK_OBJECT_STR);
    return found->via.str.size == strlen(text) &&
           !memcmp(found->via.str.ptr, text, found->via.str.size);
}

static void pack_text(msgpack_packer *packer, const char *text) {
    msgpack_pack_str(packer, strlen(text)), msgpack_pack_str_body(packer, text, strlen(text));
}

/* ---- The policy ---- */

/* Returns the cores of a node that a job can use now (spec, section 5.1). An allocation switches
 * sleeping nodes on; only a node that is being switched off cannot be allocated (section 11.1). */
static int64_t available(const scheduler *self, const job *wanted, size_t node) {
    int64_t cores = self->free_cores[node];
    if (self->going_off[node]) return 0;
    switch (wanted->placement) {
        case ONE_NODE: return cores >= wanted->cores ? cores : 0;
        case WHOLE_NODES: return cores == self->capacity[node] ? cores : 0;
        default: return cores;
    }
}

/* Allocates the lowest-numbered suitable nodes to a job; false: it does not fit. */
static bool start(scheduler *self, job *wanted) {
    int64_t missing = wanted->cores;
    size_t places = 0;
    for (size_t node = 0; node < self->node_count && missing > 0; node++) {
        missing -= available(self, wanted, node);
        places += available(self, wanted, node) > 0;
    }
    if (missing > 0) return false;
    wanted->nodes = zeroed(self, places, sizeof *wanted->nodes);
    wanted->held = zeroed(self, places, sizeof *wanted->held);
    wanted->places = 0;
    missing = wanted->cores;
    for (size_t node = 0; wanted->places < places; node++) {
        int64_t cores = available(self, wanted, node);
        if (!cores) continue;
        if (wanted->placement != WHOLE_NODES && cores > missing) cores = missing;
        missing -= cores;
        self->free_cores[node] -= cores;
        wanted->nodes[wanted->places] = node;
        wanted->held[wanted->places++] = cores;
    }
    return true;
}

/* Starts jobs in the order of submission until one does not fit; encodes the decisions. */
static void decide(scheduler *self) {
    msgpack_packer *packer = &self->decisions_packer;
    while (self->queue && start(self, self->queue)) {
        job *started = self->queue;
        self->queue = started->next;
        started->next = self->running;
        self->running = started;
        msgpack_pack_map(packer, 3);
        pack_text(packer, "type"), pack_text(packer, "allocate_job");
        pack_text(packer, "job_id"), msgpack_pack_int64(packer, started->id);
        pack_text(packer, "nodes"), msgpack_pack_array(packer, started->places);
        for (size_t i = 0; i < started->places; i++)
            msgpack_pack_uint64(packer, started->nodes[i]);
        self->count++;
    }
}

/* ---- The power manager ---- */

/* Switches off the nodes that have been idle for idle_limit_s, and sets an alarm for the next one;
 * encodes the decisions. A node is idle while it is on and no job holds a core of it. */
static void switch_off(scheduler *self, double now_s) {
    msgpack_packer *packer = &self->decisions_packer;
    double next_s = INFINITY, *since_s = self->idle_since_s;
    for (size_t node = 0; node < self->node_count; node++) {
        bool is_idle = self->is_on[node] && self->free_cores[node] == self->capacity[node];
        if (!self->can_sleep[node] || !is_idle) {
            since_s[node] = NAN;
            continue;
        }
        if (isnan(since_s[node])) since_s[node] = now_s;
        if (since_s[node] + self->idle_limit_s > now_s) {
            next_s = fmin(next_s, since_s[node] + self->idle_limit_s);
            continue;
        }
        since_s[node] = NAN; /* if the server rejects the decision, its idle time is new */
        msgpack_pack_map(packer, 3);
        pack_text(packer, "type"), pack_text(packer, "set_node_power");
        pack_text(packer, "node"), msgpack_pack_uint64(packer, node);
        pack_text(packer, "state"), pack_text(packer, "sleeping");
        self->count++;
    }
    if (isinf(next_s)) return;
    msgpack_pack_map(packer, 2); /* it replaces the alarm before */
    pack_text(packer, "type"), pack_text(packer, "set_alarm");
    pack_text(packer, "at_s"), msgpack_pack_double(packer, next_s);
    self->count++;
}

/* ---- The messages ---- */

static void submitted(scheduler *self, const msgpack_object *event) {
    int64_t id = integer(self, event, "job_id"), cores = integer(self, event, "cores");
    placement where = CORES;
    if (field(self, event, "placement")) {
        if (is(self, event, "placement", "one_node")) where = ONE_NODE;
        else if (is(self, event, "placement", "whole_nodes")) where = WHOLE_NODES;
        else if (!is(self, event, "placement", "cores"))
            fail(self, "invalid message: unknown placement");
    }
    job *added = zeroed(self, 1, sizeof *added);
    *added = (job){.id = id, .cores = cores, .order = self->submitted++, .placement = where};
    enqueue(self, added);
}

/* This policy ignores all other kinds of events, known or unknown (spec, section 8). */
static void apply(scheduler *self, const msgpack_object *event) {
    if (is(self, event, "type", "job_submitted")) {
        submitted(self, event);
    } else if (is(self, event, "type", "job_completed")) {
        job *ended = release(self, integer(self, event, "job_id"));
        if (ended) free_job(ended);
        else withdraw(self, integer(self, event, "job_id"));
    } else if (is(self, event, "type", "node_power_changed")) {
        int64_t node = integer(self, event, "node");
        if ((uint64_t)node >= self->node_count) fail(self, "invalid message: unknown node");
        self->is_on[node] = is(self, event, "state", "on");
        self->going_off[node] = is(self, event, "state", "switching_off");
    } else if (is(self, event, "type", "decision_rejected") &&
               is(self, event, "decision", "allocate_job")) {
        job *back = release(self, integer(self, event, "job_id")); /* it waits again */
        if (back) enqueue(self, back);
    }
}

static void welcome(scheduler *self, const msgpack_object *message) {
    if (integer(self, message, "version") != 1)
        fail(self, "the server chose a protocol version that was not offered; expected 1");
    const msgpack_object_str *name =
        &required(self, message, "session", MSGPACK_OBJECT_STR)->via.str;
    if (name->size >= sizeof self->session)
        fail(self, "invalid message: the session name is longer than 200 characters");
    memcpy(self->session, name->ptr, name->size);
    const msgpack_object *platform = required(self, message, "platform", MSGPACK_OBJECT_MAP);
    const msgpack_object_array *groups =
        &required(self, platform, "nodes", MSGPACK_OBJECT_ARRAY)->via.array;
    size_t nodes = 0, node = 0;
    for (uint32_t g = 0; g < groups->size; g++)
        nodes += (size_t)integer(self, &groups->ptr[g], "count");
    self->capacity = zeroed(self, nodes, sizeof *self->capacity);
    self->free_cores = zeroed(self, nodes, sizeof *self->free_cores);
    self->is_on = zeroed(self, nodes, sizeof *self->is_on);
    self->going_off = zeroed(self, nodes, sizeof *self->going_off);
    self->can_sleep = zeroed(self, nodes, sizeof *self->can_sleep);
    self->idle_since_s = zeroed(self, nodes, sizeof *self->idle_since_s);
    self->node_count = nodes;
    for (uint32_t g = 0; g < groups->size; g++) {
        const msgpack_object *group = &groups->ptr[g], *states = field(self, group, "power_states");
        const msgpack_object_array *processors =
            &required(self, group, "processors", MSGPACK_OBJECT_ARRAY)->via.array;
        int64_t cores = 0;
        for (uint32_t p = 0; p < processors->size; p++)
            cores += integer(self, &processors->ptr[p], "cores");
        for (int64_t left = integer(self, group, "count"); left > 0; left--, node++) {
            self->capacity[node] = self->free_cores[node] = cores;
            self->is_on[node] = true;
            self->can_sleep[node] = states && states->type == MSGPACK_OBJECT_MAP;
            self->idle_since_s[node] = NAN;
        }
    }
}

static void request_decisions(scheduler *self) {
    msgpack_packer *packer = &self->packer;
    msgpack_sbuffer_clear(&self->request);
    msgpack_pack_map(packer, 4);
    pack_text(packer, "type"), pack_text(packer, "decisions");
    pack_text(packer, "session"), pack_text(packer, self->session);
    pack_text(packer, "seq"), msgpack_pack_int64(packer, ++self->seq);
    pack_text(packer, "decisions"), msgpack_pack_array(packer, self->count);
    if (self->count) msgpack_sbuffer_write(&self->request, self->decisions.data, self->decisions.size);
}

/* ---- The interface ---- */

static int answer(hpcosim_bytes *bytes, const void *data, size_t size, int status) {
    *bytes = (hpcosim_bytes){data, size};
    return status;
}

int hpcosim_scheduler_begin(const uint8_t *options, size_t size, scheduler **made,
                            hpcosim_bytes *hello) {
    char text[64] = "", *end = text;
    scheduler *self = *made = calloc(1, sizeof *self);
    if (!self) return answer(hello, "out of memory", 13, HPCOSIM_ERROR);
    msgpack_sbuffer_init(&self->request), msgpack_sbuffer_init(&self->decisions);
    msgpack_packer_init(&self->packer, &self->request, msgpack_sbuffer_write);
    msgpack_packer_init(&self->decisions_packer, &self->decisions, msgpack_sbuffer_write);
    msgpack_unpacked_init(&self->message);
    self->idle_limit_s = INFINITY;
    if (size) {
        memcpy(text, options, size < sizeof text ? size : sizeof text - 1);
        self->idle_limit_s = strtod(text, &end);
        if (size >= sizeof text || *end || !(self->idle_limit_s > 0)) {
            static const char wrong[] = "options: expected IDLE_S, a number of seconds > 0";
            hpcosim_scheduler_end(self);
            *made = NULL;
            return answer(hello, wrong, sizeof wrong - 1, HPCOSIM_ERROR);
        }
    }
    msgpack_packer *packer = &self->packer;
    msgpack_pack_map(packer, 3);
    pack_text(packer, "type"), pack_text(packer, "hello");
    pack_text(packer, "versions"), msgpack_pack_array(packer, 1), msgpack_pack_int(packer, 1);
    pack_text(packer, "client"), pack_text(packer, "fcfs");
    return answer(hello, self->request.data, self->request.size, HPCOSIM_OK);
}

int hpcosim_scheduler_decide(scheduler *self, const uint8_t *message, size_t size,
                             hpcosim_bytes *request) {
    size_t end = 0;
    if (setjmp(self->failed))
        return answer(request, self->error, strlen(self->error), HPCOSIM_ERROR);
    if (msgpack_unpack_next(&self->message, (const char *)message, size, &end) !=
            MSGPACK_UNPACK_SUCCESS || end != size)
        fail(self, "invalid message: not one msgpack value");
    const msgpack_object *map = &self->message.data;
    if (is(self, map, "type", "simulation_ended")) return answer(request, NULL, 0, HPCOSIM_OK);
    msgpack_sbuffer_clear(&self->decisions);
    self->count = 0; /* the first request has no decisions */
    if (is(self, map, "type", "welcome")) {
        welcome(self, map);
    } else {
        const msgpack_object_array *events =
            &required(self, map, "events", MSGPACK_OBJECT_ARRAY)->via.array;
        for (uint32_t i = 0; i < events->size; i++) apply(self, &events->ptr[i]);
        decide(self);
        if (!isinf(self->idle_limit_s)) switch_off(self, number(self, map, "now_s"));
    }
    request_decisions(self);
    return answer(request, self->request.data, self->request.size, HPCOSIM_OK);
}

void hpcosim_scheduler_end(scheduler *self) {
    if (!self) return;
    for (job *next; self->queue; self->queue = next) next = self->queue->next, free_job(self->queue);
    for (job *next; self->running; self->running = next)
        next = self->running->next, free_job(self->running);
    free(self->capacity), free(self->free_cores), free(self->is_on), free(self->going_off);
    free(self->can_sleep), free(self->idle_since_s);
    msgpack_sbuffer_destroy(&self->request), msgpack_sbuffer_destroy(&self->decisions);
    msgpack_unpacked_destroy(&self->message);
    free(self);
}
