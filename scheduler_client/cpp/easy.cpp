// EASY backfilling (Mu'alem, Feitelson 2001) in C++, as a shared library for hpcosim
// (../c/hpcosim_scheduler.h); with ../c/process.c it is a program:
//
//     hpcosim run demo --scheduler ./libeasy.so
//     ./easy tcp://127.0.0.1:28080 [SCENARIO [TIMEOUT_S [KEYS]]]
//
// Jobs start in the order of submission until one, the head, does not fit. Its shadow time is its
// earliest start by requested times. A later job starts if it ends by then, or takes extra cores:
// those that are free at the shadow time beside the head. Jobs of a placement other than `cores` are
// rejected. Sections: msgpack, the cluster, the policy, the messages, the interface.
#include "../c/hpcosim_scheduler.h"

#include <msgpack.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <list>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

// ---- msgpack ----

struct Invalid : std::runtime_error {
    explicit Invalid(const std::string &what) : runtime_error("invalid message: " + what) {}
};

// A map of a message; absent fields have their defaults (specification, section 1).
class Map {
public:
    explicit Map(const msgpack_object &object) : object_(object) {
        if (object.type != MSGPACK_OBJECT_MAP) throw Invalid("expected a map");
    }

    const msgpack_object *field(const char *name) const {
        const size_t size = std::strlen(name);
        for (uint32_t i = 0; i < object_.via.map.size; i++) {
            const msgpack_object &key = object_.via.map.ptr[i].key;
            if (key.type == MSGPACK_OBJECT_STR && key.via.str.size == size &&
                !std::memcmp(key.via.str.ptr, name, size))
                return &object_.via.map.ptr[i].val;
        }
        return nullptr;
    }

    const msgpack_object &required(const char *name, msgpack_object_type type) const {
        const msgpack_object *found = field(name);
        if (!found || found->type != type) throw Invalid(std::string("field ") + name);
        return *found;
    }

    int64_t integer(const char *name) const {
        const uint64_t value = required(name, MSGPACK_OBJECT_POSITIVE_INTEGER).via.u64;
        if (value > INT64_MAX) throw Invalid(std::string("field ") + name + " is too large");
        return static_cast<int64_t>(value);
    }

    double number(const char *name) const {
        const msgpack_object *found = field(name);
        if (found && found->type == MSGPACK_OBJECT_POSITIVE_INTEGER)
            return static_cast<double>(found->via.u64);
        if (found && found->type == MSGPACK_OBJECT_FLOAT32) return found->via.f64;
        return required(name, MSGPACK_OBJECT_FLOAT64).via.f64;
    }

    std::string text(const char *name) const {
        const msgpack_object_str &found = required(name, MSGPACK_OBJECT_STR).via.str;
        return {found.ptr, found.size};
    }

    bool is(const char *name, const char *value) const {
        const msgpack_object_str &found = required(name, MSGPACK_OBJECT_STR).via.str;
        return found.size == std::strlen(value) && !std::memcmp(found.ptr, value, found.size);
    }

    template <typename Function> void each(const char *name, Function function) const {
        const msgpack_object_array &found = required(name, MSGPACK_OBJECT_ARRAY).via.array;
        for (uint32_t i = 0; i < found.size; i++) function(Map(found.ptr[i]));
    }

private:
    const msgpack_object &object_;
};

// A buffer of msgpack.
class Packer {
public:
    Packer() {
        msgpack_sbuffer_init(&buffer);
        msgpack_packer_init(&packer_, &buffer, msgpack_sbuffer_write);
    }
    ~Packer() { msgpack_sbuffer_destroy(&buffer); }
    Packer(const Packer &) = delete;
    Packer &operator=(const Packer &) = delete;

    Packer &map(size_t size) { return msgpack_pack_map(&packer_, size), *this; }
    Packer &array(size_t size) { return msgpack_pack_array(&packer_, size), *this; }
    Packer &operator<<(int64_t value) { return msgpack_pack_int64(&packer_, value), *this; }
    Packer &operator<<(const std::string &value) {
        msgpack_pack_str(&packer_, value.size());
        msgpack_pack_str_body(&packer_, value.data(), value.size());
        return *this;
    }
    Packer &operator<<(const char *value) { return *this << std::string(value); }

    msgpack_sbuffer buffer;

private:
    msgpack_packer packer_;
};

// ---- The cluster ----

struct Job {
    int64_t id, cores;
    double requested_s;
    uint64_t order;                               // position in the order of submission
    std::vector<std::pair<size_t, int64_t>> held; // its nodes and the cores on each
    std::multimap<double, Job *>::iterator end;   // its expected end, while it runs
};

class Cluster {
public:
    std::list<Job *> queue;              // in the order of submission
    std::multimap<double, Job *> ending; // running jobs by their expected ends
    int64_t free_cores = 0;

    void add_nodes(int64_t count, int64_t cores) {
        free_.insert(free_.end(), static_cast<size_t>(count), cores);
        free_cores += count * cores;
    }

    void submit(int64_t id, int64_t cores, double requested_s) {
        Job &job = jobs_[id];
        job = {id, cores, requested_s, submitted_++, {}, ending.end()};
        queue.push_back(&job);
    }

    // Takes free cores on the nodes of the lowest numbers.
    void start(Job &job, double now_s) {
        int64_t missing = job.cores;
        for (size_t node = first_free_; missing > 0; node++) {
            const int64_t taken = std::min(free_[node], missing);
            if (!taken) continue;
            free_[node] -= taken, missing -= taken;
            job.held.emplace_back(node, taken);
        }
        while (first_free_ < free_.size() && !free_[first_free_]) first_free_++;
        free_cores -= job.cores;
        job.end = ending.emplace(now_s + job.requested_s, &job);
    }

    void complete(int64_t id) { // also a job that waits: its user has cancelled it
        const auto found = jobs_.find(id);
        if (found == jobs_.end()) return;
        if (found->second.held.empty()) queue.remove(&found->second);
        release(found->second);
        jobs_.erase(found);
    }

    void take_back(int64_t id) { // its allocation was rejected: it waits again
        const auto found = jobs_.find(id);
        if (found == jobs_.end() || found->second.held.empty()) return;
        Job &job = found->second;
        release(job);
        const auto later = [&job](const Job *other) { return other->order > job.order; };
        queue.insert(std::find_if(queue.begin(), queue.end(), later), &job);
    }

private:
    std::vector<int64_t> free_; // free cores by node
    size_t first_free_ = 0;     // no node before it has free cores
    std::unordered_map<int64_t, Job> jobs_;
    uint64_t submitted_ = 0;

    void release(Job &job) {
        if (job.held.empty()) return;
        for (const auto &[node, cores] : job.held) {
            free_[node] += cores;
            first_free_ = std::min(first_free_, node);
        }
        free_cores += job.cores;
        ending.erase(job.end);
        job.held.clear();
    }
};

// ---- The policy ----

// Starts jobs, and adds them to `started`.
void easy(Cluster &cluster, double now_s, std::vector<Job *> &started) {
    auto &queue = cluster.queue;
    const auto start = [&](std::list<Job *>::iterator place) {
        cluster.start(**place, now_s);
        started.push_back(*place);
        return queue.erase(place);
    };
    while (!queue.empty() && queue.front()->cores <= cluster.free_cores) start(queue.begin());
    if (queue.size() < 2 || !cluster.free_cores) return;
    double shadow_s = std::numeric_limits<double>::infinity(); // it never fits
    int64_t extra = cluster.free_cores - queue.front()->cores;
    for (const auto &[end_s, job] : cluster.ending) { // a job that overruns is expected to end now
        const double at_s = std::max(end_s, now_s);
        if (extra >= 0 && at_s > shadow_s) break;
        extra += job->cores;
        if (extra >= 0) shadow_s = at_s;
    }
    for (auto place = std::next(queue.begin()); place != queue.end() && cluster.free_cores;) {
        const Job &job = **place;
        const bool ends_before = now_s + job.requested_s <= shadow_s;
        if (job.cores > cluster.free_cores || (!ends_before && job.cores > extra)) {
            ++place;
            continue;
        }
        if (!ends_before) extra -= job.cores;
        place = start(place);
    }
}

} // namespace

// ---- The messages ----

struct hpcosim_scheduler {
    Cluster cluster;
    std::string session, error;
    int64_t seq = 0;
    Packer hello, request;
    std::vector<Job *> started;
    std::vector<int64_t> rejected; // jobs of a placement that is not supported
    msgpack_unpacked message;

    hpcosim_scheduler() {
        msgpack_unpacked_init(&message);
        hello.map(3) << "type" << "hello" << "client" << "easy" << "versions";
        hello.array(1) << int64_t{1};
    }
    ~hpcosim_scheduler() { msgpack_unpacked_destroy(&message); }

    void welcome(const Map &map) {
        if (map.integer("version") != 1) throw Invalid("a version that was not offered");
        session = map.text("session");
        Map(map.required("platform", MSGPACK_OBJECT_MAP)).each("nodes", [this](const Map &group) {
            int64_t cores = 0;
            group.each("processors", [&](const Map &each) { cores += each.integer("cores"); });
            cluster.add_nodes(group.integer("count"), cores);
        });
    }

    void apply(const Map &event) { // other events do not matter to this policy
        if (event.is("type", "job_submitted")) {
            const int64_t id = event.integer("job_id");
            if (event.field("placement") && !event.is("placement", "cores")) rejected.push_back(id);
            else cluster.submit(id, event.integer("cores"), event.number("requested_s"));
        } else if (event.is("type", "job_completed")) {
            cluster.complete(event.integer("job_id"));
        } else if (event.is("type", "decision_rejected") && event.is("decision", "allocate_job")) {
            cluster.take_back(event.integer("job_id"));
        }
    }

    void decide(const Map &map) {
        started.clear(), rejected.clear();
        if (map.is("type", "welcome")) {
            welcome(map);
        } else {
            map.each("events", [this](const Map &event) { apply(event); });
            easy(cluster, map.number("now_s"), started);
        }
        // Nothing can start before the next event of this kind.
        const char *wakes = cluster.queue.empty() ? "job_submitted" : "job_completed";
        const bool sleeps = cluster.queue.empty() || !cluster.free_cores;
        msgpack_sbuffer_clear(&request.buffer);
        request.map(sleeps ? 5 : 4) << "type" << "decisions" << "session" << session;
        request << "seq" << ++seq;
        if (sleeps) (request << "wake_on").array(1) << wakes;
        (request << "decisions").array(started.size() + rejected.size());
        for (const int64_t id : rejected)
            request.map(2) << "type" << "reject_job" << "job_id" << id;
        for (const Job *job : started) {
            request.map(3) << "type" << "allocate_job" << "job_id" << job->id << "nodes";
            request.array(job->held.size());
            for (const auto &[node, cores] : job->held) request << static_cast<int64_t>(node);
        }
    }
};

// ---- The interface: no exception leaves it ----

namespace {

int failed(hpcosim_bytes *bytes, const char *why) {
    *bytes = {reinterpret_cast<const uint8_t *>(why), std::strlen(why)};
    return HPCOSIM_ERROR;
}

int packed(hpcosim_bytes *bytes, const Packer &packer) {
    *bytes = {reinterpret_cast<const uint8_t *>(packer.buffer.data), packer.buffer.size};
    return HPCOSIM_OK;
}

} // namespace

int hpcosim_scheduler_begin(const uint8_t *, size_t size, hpcosim_scheduler **scheduler,
                            hpcosim_bytes *hello) {
    *scheduler = nullptr;
    if (size) return failed(hello, "options: this scheduler has none");
    *scheduler = new (std::nothrow) hpcosim_scheduler;
    return *scheduler ? packed(hello, (*scheduler)->hello) : failed(hello, "out of memory");
}

int hpcosim_scheduler_decide(hpcosim_scheduler *self, const uint8_t *message, size_t size,
                             hpcosim_bytes *request) {
    try {
        size_t end = 0;
        if (msgpack_unpack_next(&self->message, reinterpret_cast<const char *>(message), size,
                                &end) != MSGPACK_UNPACK_SUCCESS || end != size)
            throw Invalid("not one msgpack value");
        const Map map(self->message.data);
        msgpack_sbuffer_clear(&self->request.buffer);
        if (!map.is("type", "simulation_ended")) self->decide(map);
        return packed(request, self->request);
    } catch (const std::exception &error) {
        self->error = error.what();
        return failed(request, self->error.c_str());
    }
}

void hpcosim_scheduler_end(hpcosim_scheduler *self) { delete self; }
