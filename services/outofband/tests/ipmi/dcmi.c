/* DCMI for Debian's ipmi_sim, which has none: power reading and power limit, with state in files of a directory.
 * Files: watts, action (exception action of the limit), limit_min, limit_max, fault (a completion code for every
 * request of DCMI). Source: DCMI 1.5, section 6.6. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <OpenIPMI/serv.h>
#include <OpenIPMI/mcserv.h>

static const char *directory = ".";
static unsigned limit, correction_ms = 1000, sampling_s = 1;
static int action = -1, active;

static long value(const char *name, long otherwise)
{
    char path[512];
    long found = otherwise;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%ld", &found) != 1)
            found = otherwise;
        fclose(file);
    }
    return found;
}

static void put(unsigned char *at, unsigned long number, int bytes)
{
    for (; bytes > 0; bytes--, number >>= 8)
        *at++ = number & 0xff;
}

static unsigned long get(const unsigned char *at, int bytes)
{
    unsigned long number = 0;
    while (bytes > 0)
        number = number << 8 | at[--bytes];
    return number;
}

static void answer(lmc_data_t *mc, msg_t *msg, unsigned char *reply, unsigned int *length, void *data)
{
    long fault = value("fault", 0), now;
    (void) mc, (void) data;
    reply[0] = fault;
    reply[1] = 0xdc;
    *length = fault ? 1 : 2;
    if (fault)
        return;
    switch (msg->cmd) {
    case 0x01:
        memcpy(reply + 2, "\x01\x05\x02\x00\x01\x07", 6);
        *length = 8;
        return;
    case 0x02:
        now = value("watts", 0);
        if (active && now > (long) limit)
            now = limit;
        for (int each = 0; each < 4; each++)
            put(reply + 2 + 2 * each, now, 2);
        put(reply + 10, time(NULL), 4);
        put(reply + 14, 1000, 4);
        reply[18] = now ? 0x40 : 0;
        *length = 19;
        return;
    case 0x03:
        reply[0] = active ? 0 : 0x80;
        memset(reply + 2, 0, 13);
        reply[4] = action >= 0 ? action : value("action", 0);
        put(reply + 5, limit, 2);
        put(reply + 7, correction_ms, 4);
        put(reply + 13, sampling_s, 2);
        *length = 15;
        return;
    case 0x04:
        if (msg->len < 15) {
            reply[0] = 0xc7;
            *length = 1;
        } else if ((long) get(msg->data + 5, 2) < value("limit_min", 0) ||
                   (long) get(msg->data + 5, 2) > value("limit_max", 65535)) {
            reply[0] = 0x84;
            *length = 1;
        } else {
            action = msg->data[4];
            limit = get(msg->data + 5, 2);
            correction_ms = get(msg->data + 7, 4);
            sampling_s = get(msg->data + 13, 2);
        }
        return;
    case 0x05:
        active = msg->data[1] & 1;
        return;
    }
    reply[0] = 0xc1;
    *length = 1;
}

int ipmi_sim_module_print_version(sys_data_t *system, char *options)
{
    (void) system, (void) options;
    puts("dcmi for tests");
    return 0;
}

int ipmi_sim_module_init(sys_data_t *system, const char *options)
{
    (void) system;
    if (options && *options)
        directory = strdup(options);
    ipmi_emu_register_group_extension_handler(0xdc, answer, NULL);
    return 0;
}
