// A program without CUDA, linked statically: no library can be preloaded into it.
#include <stdio.h>

int main(void) {
  puts("ran");
  return 0;
}
