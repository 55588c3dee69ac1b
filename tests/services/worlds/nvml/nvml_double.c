/* A stand-in for NVIDIA's management library, whose GPUs are the lines of a file (FAKE_NVML):
 *
 *     driver 550.54
 *     gpu UUID MINOR BYTES BUS MODULE NAME        MODULE -1: the driver does not say
 *     use UUID BYTES PERCENT                      memory and SMs in use
 *     mig UUID MIGUUID GPUINSTANCE COMPUTEINSTANCE NAME
 *     mode UUID NUMBER                            its MIG mode, without a line of that is whether it has instances; below 0:
 *                                                 the error that the question ends with
 *     link UUID NUMBER BUS                        an active NVLink: to a GPU at BUS, to a switch (-), to what cannot be asked (?);
 *                                                 one that is down (x). Those up to the highest exist
 *     lost UUID                                   every question about it fails
 *     mute UUID                                   it tells no events
 *     down                                        the driver is not loaded
 *     xid UUID NUMBER                             an event, told once; UUID "-": of no GPU
 *
 * Events are told to event sets that exist, from the moment that a set registers for the GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, LOST = 15 };
enum { GPUS = 64, XID_EVENT = 8, LINKS = 18, TO_GPU = 0, TO_SWITCH = 2, INVALID = 2, UNKNOWN = 999 };

typedef struct {
    char uuid[96], bus[32], name[96];
    unsigned minor;
    int module, lost, mute, mode, has_mode;
    unsigned long long bytes, used;
    unsigned percent, place, gi, ci; /* of a MIG instance: its place within its GPU, and its ids */
    char of[96], links[LINKS][32];
    unsigned link_count;
} Gpu;

typedef struct {
    Gpu *device;
    unsigned long long type, data;
    unsigned gi, ci;
} Event;

static Gpu gpus[GPUS], migs[GPUS];
static int mig_count, count, down, open_count, told; /* told: events that were taken, by their number in the file */
static char driver[80];

static Gpu *find(const char *uuid) {
    for (int i = 0; i < count; i++)
        if (!strcmp(gpus[i].uuid, uuid)) return &gpus[i];
    return NULL;
}

/* Reads the file; the event after `skip` others goes to `event`, if there is one. */
static int load(int skip, Event *event) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512], uuid[96], bus[32];
    unsigned at;
    unsigned long long number;
    int found = 0, seen = 0, mode;
    count = mig_count = down = 0;
    if (!file) { down = 1; return 0; }
    while (fgets(line, sizeof line, file)) {
        Gpu g = {0};
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "gpu %95s %u %llu %31s %d %95[^\n]", g.uuid, &g.minor, &g.bytes, g.bus, &g.module, g.name) == 6) {
            if (count < GPUS) gpus[count++] = g;
        } else if (sscanf(line, "lost %95s", uuid) == 1) {
            if (find(uuid)) find(uuid)->lost = 1;
        } else if (sscanf(line, "mode %95s %d", uuid, &mode) == 2) {
            if (find(uuid)) { find(uuid)->mode = mode; find(uuid)->has_mode = 1; }
        } else if (sscanf(line, "use %95s %llu %u", uuid, &g.used, &g.percent) == 3) {
            if (find(uuid)) { find(uuid)->used = g.used; find(uuid)->percent = g.percent; }
        } else if (sscanf(line, "mig %95s %95s %u %u %95[^\n]", g.of, g.uuid, &g.gi, &g.ci, g.name) == 5) {
            for (int i = 0; i < mig_count; i++) g.place += !strcmp(migs[i].of, g.of);
            if (mig_count < GPUS) migs[mig_count++] = g;
        } else if (sscanf(line, "link %95s %u %31s", uuid, &at, bus) == 3) {
            Gpu *gpu = find(uuid);
            if (gpu && at < LINKS) {
                strcpy(gpu->links[at], bus);
                if (gpu->link_count <= at) gpu->link_count = at + 1;
            }
        } else if (sscanf(line, "mute %95s", uuid) == 1) {
            if (find(uuid)) find(uuid)->mute = 1;
        } else if (sscanf(line, "driver %79s", driver) == 1) {
        } else if (!strcmp(line, "down")) {
            down = 1;
        } else if (sscanf(line, "xid %95s %llu", uuid, &number) == 2 && seen++ == skip && event) {
            Event e = {find(uuid), XID_EVENT, number, 0, 0};
            *event = e;
            found = 1;
        }
    }
    fclose(file);
    return found;
}

static int asked(void) {
    if (!open_count) return UNINITIALIZED;
    load(0, NULL);
    return down ? DRIVER_NOT_LOADED : OK;
}

static int about(Gpu *gpu) {
    int result = asked();
    int known = gpu && ((gpu >= gpus && gpu < gpus + count) || (gpu >= migs && gpu < migs + mig_count));
    return result ? result : !known ? NOT_FOUND : gpu->lost ? LOST : OK;
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    load(0, NULL);
    if (down) return DRIVER_NOT_LOADED;
    open_count++;
    return OK;
}
int nvmlShutdown(void) { if (!open_count) return UNINITIALIZED; open_count--; return OK; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { int r = asked(); if (!r) snprintf(out, size, "%s", driver); return r; }
int nvmlDeviceGetCount_v2(unsigned *out) { int r = asked(); if (!r) *out = (unsigned)count; return r; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu **out) {
    int r = asked();
    if (!r && index >= (unsigned)count) r = NOT_FOUND;
    if (!r && gpus[index].lost) r = LOST;
    if (!r) *out = &gpus[index];
    return r;
}
int nvmlDeviceGetUUID(Gpu *gpu, char *out, unsigned size) { int r = about(gpu); if (!r) snprintf(out, size, "%s", gpu->uuid); return r; }
int nvmlDeviceGetName(Gpu *gpu, char *out, unsigned size) { int r = about(gpu); if (!r) snprintf(out, size, "%s", gpu->name); return r; }
int nvmlDeviceGetMinorNumber(Gpu *gpu, unsigned *out) { int r = about(gpu); if (!r) *out = gpu->minor; return r; }
int nvmlDeviceGetModuleId(Gpu *gpu, unsigned *out) {
    int r = about(gpu);
    if (!r && gpu->module < 0) r = NOT_SUPPORTED;
    if (!r) *out = (unsigned)gpu->module;
    return r;
}
int nvmlDeviceGetMemoryInfo(Gpu *gpu, unsigned long long *out) { int r = about(gpu); if (!r) { out[0] = gpu->bytes; out[1] = gpu->bytes - gpu->used; out[2] = gpu->used; } return r; }
int nvmlDeviceGetUtilizationRates(Gpu *gpu, unsigned *out) { int r = about(gpu); if (!r) { out[0] = gpu->percent; out[1] = 0; } return r; }
int nvmlDeviceGetMigMode(Gpu *gpu, unsigned *now, unsigned *next) {
    int r = about(gpu), has = 0;
    for (int i = 0; !r && i < mig_count; i++) has |= !strcmp(migs[i].of, gpu->uuid);
    if (!r && gpu->has_mode) has = gpu->mode;
    if (!r && has < 0) r = -has;
    if (!r) *now = *next = (unsigned)has;
    return r;
}
int nvmlDeviceGetMaxMigDeviceCount(Gpu *gpu, unsigned *out) { int r = about(gpu); if (!r) *out = 7; return r; }
int nvmlDeviceGetMigDeviceHandleByIndex(Gpu *gpu, unsigned index, Gpu **out) {
    int r = about(gpu);
    for (int i = 0; !r && i < mig_count; i++)
        if (!strcmp(migs[i].of, gpu->uuid) && migs[i].place == index) { *out = &migs[i]; return OK; }
    return r ? r : NOT_FOUND;
}
int nvmlDeviceGetGpuInstanceId(Gpu *gpu, unsigned *out) { int r = about(gpu); if (!r) *out = gpu->gi; return r; }
int nvmlDeviceGetComputeInstanceId(Gpu *gpu, unsigned *out) { int r = about(gpu); if (!r) *out = gpu->ci; return r; }
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
int nvmlDeviceGetPciInfo_v3(Gpu *gpu, struct pci *out) {
    int r = about(gpu);
    if (!r) { memset(out, 0, sizeof *out); snprintf(out->bus_id, sizeof out->bus_id, "%s", gpu->bus); }
    return r;
}
static int of_link(Gpu *gpu, unsigned link) {
    int r = about(gpu);
    return r ? r : !gpu->link_count ? NOT_SUPPORTED : link >= gpu->link_count ? INVALID : OK;
}
int nvmlDeviceGetNvLinkState(Gpu *gpu, unsigned link, unsigned *out) {
    int r = of_link(gpu, link);
    if (!r) *out = gpu->links[link][0] && strcmp(gpu->links[link], "x");
    return r;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(Gpu *gpu, unsigned link, unsigned *out) {
    int r = of_link(gpu, link);
    if (!r && !strcmp(gpu->links[link], "?")) r = UNKNOWN;
    if (!r) *out = strcmp(gpu->links[link], "-") ? TO_GPU : TO_SWITCH;
    return r;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Gpu *gpu, unsigned link, struct pci *out) {
    int r = of_link(gpu, link);
    if (!r) { memset(out, 0, sizeof *out); snprintf(out->bus_id, sizeof out->bus_id, "%s", gpu->links[link]); }
    return r;
}
int nvmlEventSetCreate(void **out) { int r = asked(); if (!r) *out = &told; return r; }
int nvmlEventSetFree(void *set) { (void)set; return OK; }
int nvmlDeviceRegisterEvents(Gpu *gpu, unsigned long long types, void *set) {
    (void)types; (void)set;
    int r = about(gpu);
    return r ? r : gpu->mute ? NOT_SUPPORTED : OK;
}
int nvmlEventSetWait_v2(void *set, Event *out, unsigned wait_ms) {
    (void)set; (void)wait_ms;
    if (!open_count) return UNINITIALIZED;
    if (!load(told, out)) return TIMEOUT;
    told++;
    return OK;
}
