/* A container that tries to read each of the files that READ names, separated by colons, says what came of it on its
 * standard output, and waits for its end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    char buffer[4], *files = getenv("READ");
    for (char *file = strtok(files ? files : "", ":"); file; file = strtok(NULL, ":")) {
        int descriptor = open(file, O_RDONLY);
        long got = descriptor < 0 ? -1 : read(descriptor, buffer, sizeof buffer);
        if (got < 0) printf("%s: %s\n", file, strerror(errno));
        else printf("%s: %ld bytes\n", file, got);
        fflush(stdout);
    }
    for (;;) pause();
}
