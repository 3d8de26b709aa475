/* A program to start: says what it was given, and ends as told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--exit") == 0 && i + 1 < argc) return atoi(argv[i + 1]);
    if (strcmp(argv[i], "--pid") == 0) printf("%d\n", (int)getpid());
    else if (strncmp(argv[i], "--get=", 6) == 0) printf("%s\n", getenv(argv[i] + 6) ? getenv(argv[i] + 6) : "(unset)");
    else printf("%s\n", argv[i]);
  }
  return 0;
}
