// Holds 64 MiB on CUDA 0, asks for 8 GiB more, says what came of it, and ends as it is told:
// ends exit|_exit|abort|kill|term|wait [STATUS]. `wait` ends when its standard input does; it says on its way
// when it was stopped and went on.
#include <csignal>
#include <cstring>

#include <unistd.h>

#include "check.h"

namespace {

void went_on(int) {
  constexpr char kText[] = "went on\n";
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, kText, sizeof kText - 1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto told = [&](const char* how) { return std::strcmp(argv[1], how) == 0; };
  const int status = argc > 2 ? std::atoi(argv[2]) : 0;
  CHECK(cuInit(0));
  CUdevice device;
  CHECK(cuDeviceGet(&device, 0));
  CUcontext context;
  CHECK(cuCtxCreate(&context, nullptr, 0, device));
  CUdeviceptr memory = 0;
  CHECK(cuMemAlloc(&memory, 64 * kMiB));
  CUdeviceptr more = 0;
  const CUresult got = cuMemAlloc(&more, 8192 * kMiB);
  std::signal(SIGCONT, went_on);
  std::printf("%s\n", name_of(got));
  std::fflush(stdout);
  if (told("_exit")) _exit(status);
  if (told("abort")) std::abort();
  if (told("kill")) kill(getpid(), SIGKILL);
  if (told("term")) kill(getpid(), SIGTERM);
  if (told("wait")) {
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
  }
  return status;
}
