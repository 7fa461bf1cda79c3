/* The main of a scheduler process: it passes the messages of a library's functions
 * (hpcosim_scheduler.h) to a server of hpcosim, over ZeroMQ.
 *
 *     ./fcfs tcp://127.0.0.1:28080 [SCENARIO [TIMEOUT_S [KEYS [OPTIONS]]]]
 *
 * KEYS is the folder of this client's keys, for a server with keys; "" without keys. OPTIONS are
 * those of the scheduler. A request is sent again after 5 s without a reply (spec, section 6). Exit
 * status 0: the simulation ended; 1: an error, with a line on standard error.
 */
#include "hpcosim_scheduler.h"

#include <msgpack.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { RESEND_S = 5 };

static void *dealer;        /* a DEALER can resend a request, a REQ cannot */
static const char *address; /* of the server */
static int timeout_s = 60;
static zmq_msg_t frame;     /* body of the last reply */

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

/* Prints a text in an error, without control characters: it can be any text of the server. */
static void die_with(const char *format, const void *text, size_t size) {
    char shown[1024];
    const unsigned char *from = text;
    if (size >= sizeof shown) size = sizeof shown - 1;
    for (size_t i = 0; i < size; i++) shown[i] = from[i] < ' ' || from[i] == 127 ? '?' : (char)from[i];
    shown[size] = 0;
    die(format, shown);
}

/* Returns a field of a message; NULL: it is absent. */
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

static bool is(const msgpack_object *map, const char *text) {
    const msgpack_object *type = field(map, "type");
    return type && type->type == MSGPACK_OBJECT_STR && type->via.str.size == strlen(text) &&
           !memcmp(type->via.str.ptr, text, type->via.str.size);
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

/* Sends a request and receives its reply into `frame`: `welcome` to request 0, `events` to others,
 * or `simulation_ended`. Resends it while there is no reply; drops duplicate replies. Returns whether
 * the simulation goes on. */
static bool exchange(const void *request, size_t size, uint64_t seq) {
    msgpack_unpacked reply;
    msgpack_unpacked_init(&reply);
    for (int sends = 0; sends * RESEND_S < timeout_s; sends++) {
        if (zmq_send(dealer, request, size, 0) < 0 && zmq_errno() != EAGAIN)
            die("%s", zmq_strerror(zmq_errno()));
        while (receive(&reply)) {
            const msgpack_object *message = &reply.data, *of = field(message, "seq");
            if (is(message, "error")) {
                const msgpack_object *why = field(message, "message");
                if (!why || why->type != MSGPACK_OBJECT_STR) die("the server rejected the request");
                die_with("the server rejected the request: %s", why->via.str.ptr, why->via.str.size);
            }
            bool ended = is(message, "simulation_ended"), welcome = is(message, "welcome");
            if (!ended && !welcome && !is(message, "events"))
                die("invalid reply from the server: wrong message type");
            if (welcome != (seq == 0)) continue;
            if (!welcome && (!of || of->type != MSGPACK_OBJECT_POSITIVE_INTEGER || of->via.u64 != seq))
                continue;
            const msgpack_object *lost = ended ? field(message, "results_error") : NULL;
            if (lost && lost->type == MSGPACK_OBJECT_STR && lost->via.str.size)
                die_with("%s", lost->via.str.ptr, lost->via.str.size);
            msgpack_unpacked_destroy(&reply);
            return !ended;
        }
    }
    die("no reply from %s within %d s: no server, or a paused session", address, timeout_s);
    return false;
}

static void pack_text(msgpack_packer *packer, const char *text) {
    msgpack_pack_str(packer, strlen(text));
    msgpack_pack_str_body(packer, text, strlen(text));
}

/* Opens a session: the hello of a process also has a scenario, and a nonce that identifies it. */
static void say_hello(const char *name, const char *scenario) {
    unsigned char chance[8];
    char nonce[2 * sizeof chance + 1];
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
    pack_text(&packer, "client"), pack_text(&packer, name);
    pack_text(&packer, "nonce"), pack_text(&packer, nonce);
    pack_text(&packer, "scenario"), pack_text(&packer, scenario);
    exchange(request.data, request.size, 0);
    msgpack_sbuffer_destroy(&request);
}

static void schedule(const char *name, const char *scenario, const char *options) {
    hpcosim_scheduler *scheduler;
    hpcosim_bytes bytes;
    if (hpcosim_scheduler_begin((const uint8_t *)options, strlen(options), &scheduler, &bytes))
        die_with("%s", bytes.data, bytes.size);
    say_hello(name, scenario);
    for (uint64_t seq = 1;; seq++) {
        int status =
            hpcosim_scheduler_decide(scheduler, zmq_msg_data(&frame), zmq_msg_size(&frame), &bytes);
        if (status) die_with("%s", bytes.data, bytes.size);
        if (!exchange(bytes.data, bytes.size, seq)) break;
    }
    hpcosim_scheduler_end(scheduler);
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
    if (argc < 2 || argc > 6 || timeout_s < 1) {
        fprintf(stderr, "usage: %s ADDRESS [SCENARIO [TIMEOUT_S [KEYS [OPTIONS]]]]\n", argv[0]);
        return 2;
    }
    const char *slash = strrchr(argv[0], '/');
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
    schedule(slash ? slash + 1 : argv[0], argc > 2 ? argv[2] : "", argc > 5 ? argv[5] : "");
    zmq_msg_close(&frame);
    zmq_close(dealer);
    zmq_ctx_term(context);
    return 0;
}
