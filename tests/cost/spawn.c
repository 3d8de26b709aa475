/* What starting a program costs: spawns PROGRAM many times, in turns with each of the LD_PRELOAD values given ("-" is
 * none), and prints the median wall time of each in microseconds, in the order of the arguments.
 * Usage: spawn ROUNDS PRELOAD… -- PROGRAM [ARG…] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 0, ways = 0;
  while (2 + ways < argc && strcmp(argv[2 + ways], "--")) ways++;
  if (rounds < 1 || ways < 1 || 3 + ways >= argc) return fprintf(stderr, "usage: spawn ROUNDS PRELOAD... -- PROGRAM\n"), 2;
  char **program = argv + 3 + ways;
  posix_spawn_file_actions_t silent;
  if (posix_spawn_file_actions_init(&silent) || posix_spawn_file_actions_addopen(&silent, 1, "/dev/null", O_WRONLY, 0)) return 1;
  double *took = malloc(sizeof *took * (size_t)rounds * (size_t)ways);
  for (int round = 0; round < rounds; round++)
    for (int way = 0; way < ways; way++) {
      const char *preload = argv[2 + (way + round) % ways];
      if (!strcmp(preload, "-")) unsetenv("LD_PRELOAD");
      else setenv("LD_PRELOAD", preload, 1);
      struct timespec start, end;
      int status;
      pid_t child;
      clock_gettime(CLOCK_MONOTONIC, &start);
      if (posix_spawnp(&child, program[0], &silent, 0, program, environ) || waitpid(child, &status, 0) != child || status)
        return fprintf(stderr, "%s failed with LD_PRELOAD=%s\n", program[0], preload), 1;
      clock_gettime(CLOCK_MONOTONIC, &end);
      took[((way + round) % ways) * rounds + round] = (end.tv_sec - start.tv_sec) * 1e6 + (end.tv_nsec - start.tv_nsec) / 1e3;
    }
  for (int way = 0; way < ways; way++) {
    qsort(took + way * rounds, (size_t)rounds, sizeof *took, ascending);
    printf("%.1f\n", took[way * rounds + rounds / 2]);
  }
  free(took);
}
