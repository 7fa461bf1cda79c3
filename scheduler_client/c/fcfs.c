/* First come, first served, in C, over the hpcosim protocol (../../protocol/README.md, "spec").
 *
 *     ./fcfs tcp://127.0.0.1:28080 [SCENARIO [TIMEOUT_S [KEYS [IDLE_S]]]]
 *
 * KEYS is the folder of this client's keys, for a server with keys; "" without keys.
 * Nodes that have been idle for IDLE_S simulated seconds are switched off; without it none is.
 * Sections of this file: the cluster and its jobs, msgpack, the connection, the policy, the power
 * manager, the main loop. Exit status 0: the simulation ended; 1: an error, with a line on standard error.
 */
#include <math.h>
#include <msgpack.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { RESEND_S = 5, MAX_NAME = 801 }; /* a name: 200 characters of UTF-8 */

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static void *zeroed(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) die("out of memory");
    return memory;
}

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

static size_t node_count;
static int64_t *capacity, *free_cores;  /* by node */
static bool *is_on, *going_off;         /* by node: its power state is on, is switching_off */
static job *queue, *running;            /* queue: in order of submission; running: any order */
static job *last; /* of the queue, NULL: unknown; valid while the queue is not empty */

/* Inserts a job into the queue, in the order of submission. */
static void enqueue(job *added) {
    job **place = &queue;
    if (queue && last && last->order < added->order) place = &last->next;
    while (*place && (*place)->order < added->order) place = &(*place)->next;
    added->next = *place;
    *place = added;
    if (!added->next) last = added;
}

/* Removes a running job and frees its cores. Returns the job; NULL: it does not run. */
static job *release(int64_t id) {
    job **place = &running;
    while (*place && (*place)->id != id) place = &(*place)->next;
    job *released = *place;
    if (!released) return NULL;
    *place = released->next;
    for (size_t i = 0; i < released->places; i++)
        free_cores[released->nodes[i]] += released->held[i];
    free(released->nodes);
    free(released->held);
    return released;
}

/* Removes a job from the queue: it ended although it waits, as its user cancelled it. */
static void withdraw(int64_t id) {
    for (job **place = &queue; *place; place = &(*place)->next) {
        job *ended = *place;
        if (ended->id != id) continue;
        *place = ended->next;
        if (ended == last) last = NULL;
        free(ended);
        return;
    }
}

/* ---- msgpack ---- */

/* Returns a field of a map; NULL: it is absent and has its default (spec, section 1). */
static const msgpack_object *field(const msgpack_object *map, const char *name) {
    if (map->type != MSGPACK_OBJECT_MAP) die("invalid message from the server: expected a map");
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object *key = &map->via.map.ptr[i].key;
        if (key->type == MSGPACK_OBJECT_STR && key->via.str.size == strlen(name) &&
            !memcmp(key->via.str.ptr, name, key->via.str.size))
            return &map->via.map.ptr[i].val;
    }
    return NULL;
}

static const msgpack_object *required(const msgpack_object *map, const char *name,
                                      msgpack_object_type type) {
    const msgpack_object *found = field(map, name);
    if (!found || found->type != type)
        die("invalid message from the server: field \"%s\" is missing or of a wrong type", name);
    return found;
}

static int64_t integer(const msgpack_object *map, const char *name) {
    const msgpack_object *found = required(map, name, MSGPACK_OBJECT_POSITIVE_INTEGER);
    if (found->via.u64 > INT64_MAX)
        die("invalid message from the server: field \"%s\" is above 2^63 - 1", name);
    return (int64_t)found->via.u64;
}

static double number(const msgpack_object *map, const char *name) {
    const msgpack_object *found = field(map, name);
    if (found && found->type == MSGPACK_OBJECT_POSITIVE_INTEGER) return (double)found->via.u64;
    return required(map, name, MSGPACK_OBJECT_FLOAT64)->via.f64;
}

static bool is(const msgpack_object *map, const char *name, const char *text) {
    const msgpack_object *found = required(map, name, MSGPACK_OBJECT_STR);
    return found->via.str.size == strlen(text) &&
           !memcmp(found->via.str.ptr, text, found->via.str.size);
}

static void pack_text(msgpack_packer *packer, const char *text) {
    msgpack_pack_str(packer, strlen(text));
    msgpack_pack_str_body(packer, text, strlen(text));
}

/* ---- The connection ---- */

static void *dealer;        /* a DEALER can resend a request, a REQ cannot */
static const char *address; /* of the server */
static int timeout_s = 60;
static zmq_msg_t frame;     /* body of the last reply; unpacked texts point into it */

/* Prints a text of the server in an error, without control characters: it can contain any text. */
static void die_with(const char *format, const msgpack_object_str *said) {
    char *shown = zeroed(said->size + 1, 1);
    for (uint32_t i = 0; i < said->size; i++)
        shown[i] = (unsigned char)said->ptr[i] < ' ' || said->ptr[i] == 127 ? '?' : said->ptr[i];
    die(format, shown);
}

/* Receives one reply; false: the timeout expired. A body is one map and no byte after it. */
static bool receive(msgpack_unpacked *reply) {
    do { /* the body is the last frame */
        if (zmq_msg_recv(&frame, dealer, 0) < 0) {
            if (zmq_errno() != EAGAIN) die("%s", zmq_strerror(zmq_errno()));
            return false;
        }
    } while (zmq_msg_more(&frame));
    size_t end = 0, size = zmq_msg_size(&frame);
    msgpack_unpack_return done = msgpack_unpack_next(reply, zmq_msg_data(&frame), size, &end);
    if (done != MSGPACK_UNPACK_SUCCESS || end != size)
        die("invalid message from the server: the body is not one msgpack value");
    return true;
}

/* Sends a request and returns its reply: a message of this kind, or simulation_ended, with this
 * seq. Resends the request while there is no reply; drops duplicate replies (spec, section 6). */
static void exchange(const msgpack_sbuffer *request, const char *kind, int64_t seq,
                     msgpack_unpacked *reply) {
    for (int sends = 0; sends * RESEND_S < timeout_s; sends++) {
        if (zmq_send(dealer, request->data, request->size, 0) < 0 && zmq_errno() != EAGAIN)
            die("%s", zmq_strerror(zmq_errno()));
        while (receive(reply)) {
            const msgpack_object *message = &reply->data;
            if (is(message, "type", "error")) {
                die_with("the server rejected the request: %s",
                         &required(message, "message", MSGPACK_OBJECT_STR)->via.str);
            }
            bool ended = is(message, "type", "simulation_ended");
            if (ended || is(message, "type", "events")) {
                if (integer(message, "seq") != seq) continue;
                if (ended || !strcmp(kind, "events")) return;
            } else if (is(message, "type", "welcome")) {
                if (!strcmp(kind, "welcome")) return;
                continue;
            }
            die("invalid reply from the server: wrong message type");
        }
    }
    die("no reply from %s within %d s: no server, or a paused session", address, timeout_s);
}

static void say_hello(const char *scenario, msgpack_unpacked *welcome) {
    unsigned char chance[8];
    char nonce[2 * sizeof chance + 1]; /* identifies a resent hello */
    FILE *source = fopen("/dev/urandom", "rb");
    if (!source || fread(chance, sizeof chance, 1, source) != 1) die("/dev/urandom cannot be read");
    fclose(source);
    for (size_t i = 0; i < sizeof chance; i++) sprintf(nonce + 2 * i, "%02x", chance[i]);

    msgpack_sbuffer request;
    msgpack_packer packer;
    msgpack_sbuffer_init(&request);
    msgpack_packer_init(&packer, &request, msgpack_sbuffer_write);
    msgpack_pack_map(&packer, 5);
    pack_text(&packer, "type"), pack_text(&packer, "hello");
    pack_text(&packer, "versions"), msgpack_pack_array(&packer, 1), msgpack_pack_int(&packer, 1);
    pack_text(&packer, "client"), pack_text(&packer, "fcfs");
    pack_text(&packer, "nonce"), pack_text(&packer, nonce);
    pack_text(&packer, "scenario"), pack_text(&packer, scenario);
    exchange(&request, "welcome", 0, welcome);
    msgpack_sbuffer_destroy(&request);
    if (integer(&welcome->data, "version") != 1)
        die("the server chose a protocol version that was not offered; expected 1");
}

/* ---- The policy ---- */

/* Returns the cores of a node that a job can use now (spec, section 5.1). An allocation switches
 * sleeping nodes on; only a node that is being switched off cannot be allocated (section 11.1). */
static int64_t available(const job *wanted, size_t node) {
    if (going_off[node]) return 0;
    switch (wanted->placement) {
        case ONE_NODE: return free_cores[node] >= wanted->cores ? free_cores[node] : 0;
        case WHOLE_NODES: return free_cores[node] == capacity[node] ? capacity[node] : 0;
        default: return free_cores[node];
    }
}

/* Allocates the lowest-numbered suitable nodes to a job; false: it does not fit. */
static bool start(job *wanted) {
    int64_t missing = wanted->cores;
    size_t places = 0;
    for (size_t node = 0; node < node_count && missing > 0; node++) {
        missing -= available(wanted, node);
        places += available(wanted, node) > 0;
    }
    if (missing > 0) return false;
    wanted->nodes = zeroed(places, sizeof *wanted->nodes);
    wanted->held = zeroed(places, sizeof *wanted->held);
    wanted->places = 0;
    missing = wanted->cores;
    for (size_t node = 0; wanted->places < places; node++) {
        int64_t cores = available(wanted, node);
        if (!cores) continue;
        if (wanted->placement != WHOLE_NODES && cores > missing) cores = missing;
        missing -= cores;
        free_cores[node] -= cores;
        wanted->nodes[wanted->places] = node;
        wanted->held[wanted->places++] = cores;
    }
    return true;
}

/* Starts jobs in the order of submission until one does not fit; encodes the decisions. */
static void decide(msgpack_packer *packer, msgpack_sbuffer *decisions, size_t *count) {
    msgpack_sbuffer_clear(decisions);
    for (*count = 0; queue && start(queue); ++*count) {
        job *started = queue;
        queue = started->next;
        started->next = running;
        running = started;
        msgpack_pack_map(packer, 3);
        pack_text(packer, "type"), pack_text(packer, "allocate_job");
        pack_text(packer, "job_id"), msgpack_pack_int64(packer, started->id);
        pack_text(packer, "nodes"), msgpack_pack_array(packer, started->places);
        for (size_t i = 0; i < started->places; i++)
            msgpack_pack_uint64(packer, started->nodes[i]);
    }
}

/* ---- The power manager ---- */

static double idle_limit_s = INFINITY;
static bool *can_sleep;         /* by node */
static double *idle_since_s;    /* by node; NAN: it is not idle */

/* Switches off the nodes that have been idle for idle_limit_s, and sets an alarm for the next one;
 * encodes the decisions. A node is idle while it is on and no job holds a core of it. */
static void switch_off(msgpack_packer *packer, size_t *count, double now_s) {
    double next_s = INFINITY;
    for (size_t node = 0; node < node_count; node++) {
        if (!can_sleep[node] || !is_on[node] || free_cores[node] != capacity[node]) {
            idle_since_s[node] = NAN;
            continue;
        }
        if (isnan(idle_since_s[node])) idle_since_s[node] = now_s;
        if (idle_since_s[node] + idle_limit_s > now_s) {
            next_s = fmin(next_s, idle_since_s[node] + idle_limit_s);
            continue;
        }
        idle_since_s[node] = NAN; /* if the server rejects the decision, its idle time is new */
        msgpack_pack_map(packer, 3);
        pack_text(packer, "type"), pack_text(packer, "set_node_power");
        pack_text(packer, "node"), msgpack_pack_uint64(packer, node);
        pack_text(packer, "state"), pack_text(packer, "sleeping");
        ++*count;
    }
    if (isinf(next_s)) return;
    msgpack_pack_map(packer, 2); /* it replaces the alarm before */
    pack_text(packer, "type"), pack_text(packer, "set_alarm");
    pack_text(packer, "at_s"), msgpack_pack_double(packer, next_s);
    ++*count;
}

/* ---- The main loop ---- */

static void submitted(const msgpack_object *event) {
    static uint64_t so_far;
    job *added = zeroed(1, sizeof *added);
    added->id = integer(event, "job_id");
    added->cores = integer(event, "cores");
    added->order = so_far++;
    if (field(event, "placement")) {
        if (is(event, "placement", "one_node")) added->placement = ONE_NODE;
        else if (is(event, "placement", "whole_nodes")) added->placement = WHOLE_NODES;
        else if (!is(event, "placement", "cores"))
            die("invalid message from the server: unknown placement");
    }
    enqueue(added);
}

/* This policy ignores all other kinds of events, known or unknown (spec, section 8). */
static void apply(const msgpack_object *event) {
    if (is(event, "type", "job_submitted")) {
        submitted(event);
    } else if (is(event, "type", "job_completed")) {
        job *ended = release(integer(event, "job_id"));
        if (ended) free(ended);
        else withdraw(integer(event, "job_id"));
    } else if (is(event, "type", "node_power_changed")) {
        int64_t node = integer(event, "node");
        if ((uint64_t)node >= node_count) die("invalid message from the server: unknown node");
        is_on[node] = is(event, "state", "on");
        going_off[node] = is(event, "state", "switching_off");
    } else if (is(event, "type", "decision_rejected") && is(event, "decision", "allocate_job")) {
        job *back = release(integer(event, "job_id")); /* it waits again */
        if (back) enqueue(back);
    }
}

static void read_platform(const msgpack_object *platform) {
    const msgpack_object_array *groups =
        &required(platform, "nodes", MSGPACK_OBJECT_ARRAY)->via.array;
    for (uint32_t g = 0; g < groups->size; g++)
        node_count += (size_t)integer(&groups->ptr[g], "count");
    capacity = zeroed(node_count, sizeof *capacity);
    free_cores = zeroed(node_count, sizeof *free_cores);
    is_on = zeroed(node_count, sizeof *is_on);
    going_off = zeroed(node_count, sizeof *going_off);
    can_sleep = zeroed(node_count, sizeof *can_sleep);
    idle_since_s = zeroed(node_count, sizeof *idle_since_s);
    size_t node = 0;
    for (uint32_t g = 0; g < groups->size; g++) {
        const msgpack_object_array *processors =
            &required(&groups->ptr[g], "processors", MSGPACK_OBJECT_ARRAY)->via.array;
        const msgpack_object *states = field(&groups->ptr[g], "power_states");
        int64_t cores = 0;
        for (uint32_t p = 0; p < processors->size; p++)
            cores += integer(&processors->ptr[p], "cores");
        for (int64_t count = integer(&groups->ptr[g], "count"); count > 0; count--, node++) {
            capacity[node] = free_cores[node] = cores;
            is_on[node] = true;
            can_sleep[node] = states && states->type == MSGPACK_OBJECT_MAP;
            idle_since_s[node] = NAN;
        }
    }
}

static void schedule(const char *scenario) {
    msgpack_unpacked reply;
    msgpack_unpacked_init(&reply);
    say_hello(scenario, &reply);
    read_platform(required(&reply.data, "platform", MSGPACK_OBJECT_MAP));
    const msgpack_object_str *name = &required(&reply.data, "session", MSGPACK_OBJECT_STR)->via.str;
    char session[MAX_NAME] = "";
    if (name->size >= sizeof session)
        die("invalid message from the server: the session name is longer than 200 characters");
    memcpy(session, name->ptr, name->size);

    msgpack_sbuffer request, decisions;
    msgpack_packer packer, decisions_packer;
    msgpack_sbuffer_init(&request), msgpack_sbuffer_init(&decisions);
    msgpack_packer_init(&packer, &request, msgpack_sbuffer_write);
    msgpack_packer_init(&decisions_packer, &decisions, msgpack_sbuffer_write);
    size_t count = 0; /* number of decisions; the first request has none */
    for (int64_t seq = 1;; seq++) {
        msgpack_sbuffer_clear(&request);
        msgpack_pack_map(&packer, 4);
        pack_text(&packer, "type"), pack_text(&packer, "decisions");
        pack_text(&packer, "session"), pack_text(&packer, session);
        pack_text(&packer, "seq"), msgpack_pack_int64(&packer, seq);
        pack_text(&packer, "decisions"), msgpack_pack_array(&packer, count);
        if (count) msgpack_sbuffer_write(&request, decisions.data, decisions.size);
        exchange(&request, "events", seq, &reply);
        if (is(&reply.data, "type", "simulation_ended")) {
            const msgpack_object *lost = field(&reply.data, "results_error");
            if (lost && lost->type == MSGPACK_OBJECT_STR && lost->via.str.size)
                die_with("%s", &lost->via.str);
            break;
        }
        const msgpack_object_array *events =
            &required(&reply.data, "events", MSGPACK_OBJECT_ARRAY)->via.array;
        for (uint32_t i = 0; i < events->size; i++) apply(&events->ptr[i]);
        decide(&decisions_packer, &decisions, &count);
        if (!isinf(idle_limit_s))
            switch_off(&decisions_packer, &count, number(&reply.data, "now_s"));
    }
    msgpack_sbuffer_destroy(&request), msgpack_sbuffer_destroy(&decisions);
    msgpack_unpacked_destroy(&reply);
}

/* Sets an option of the socket to a key: the 40 characters after `line` in a file of a folder. */
static void use_key(int option, const char *folder, const char *file, const char *line) {
    char path[4096], text[4096], key[41];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *stream = fopen(path, "r");
    if (!stream) die("cannot read the key %s", path);
    text[fread(text, 1, sizeof text - 1, stream)] = 0;
    fclose(stream);
    const char *at = strstr(text, line);
    if (!at || strlen(at + strlen(line)) < 40) die("%s: expected a line with %s", path, line);
    memcpy(key, at + strlen(line), 40), key[40] = 0;
    if (zmq_setsockopt(dealer, option, key, sizeof key))
        die("%s: the key is invalid, or libzmq has no CURVE", path);
}

int main(int argc, char **argv) {
    if (argc > 3) timeout_s = atoi(argv[3]);
    if (argc > 5) idle_limit_s = atof(argv[5]);
    if (argc < 2 || argc > 6 || timeout_s < 1 || !(idle_limit_s > 0)) {
        fprintf(stderr, "usage: %s ADDRESS [SCENARIO [TIMEOUT_S [KEYS [IDLE_S]]]]\n", argv[0]);
        return 2;
    }
    void *context = zmq_ctx_new();
    int wait_ms = 1000 * RESEND_S, linger_ms = 0;
    dealer = zmq_socket(context, ZMQ_DEALER);
    zmq_msg_init(&frame);
    zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    zmq_setsockopt(dealer, ZMQ_SNDTIMEO, &wait_ms, sizeof wait_ms);
    zmq_setsockopt(dealer, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    if (argc > 4 && *argv[4]) {
        use_key(ZMQ_CURVE_PUBLICKEY, argv[4], "client.key_secret", "public-key = \"");
        use_key(ZMQ_CURVE_SECRETKEY, argv[4], "client.key_secret", "secret-key = \"");
        use_key(ZMQ_CURVE_SERVERKEY, argv[4], "server.key", "public-key = \"");
    }
    address = argv[1];
    if (zmq_connect(dealer, address))
        die("invalid address %s: %s; expected, for example, tcp://127.0.0.1:28080", address,
            zmq_strerror(zmq_errno()));
    schedule(argc > 2 ? argv[2] : "");
    zmq_msg_close(&frame);
    zmq_close(dealer);
    zmq_ctx_term(context);
    return 0;
}
