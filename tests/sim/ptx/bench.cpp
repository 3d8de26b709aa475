// Prints what the interpreter's usual loads take on this machine: sim_ptx_bench [repetitions]. The best of
// them counts.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ptx/module.h"
#include "ptx/run.h"

namespace ptx = gpufence::sim::ptx;

namespace {

int repetitions = 5;
std::shared_ptr<const ptx::Module> module;

template <class T>
ptx::Region region(std::vector<T>& vector) {
  const auto begin = reinterpret_cast<uint64_t>(vector.data());
  return {begin, begin + vector.size() * sizeof(T), true};
}

// Kernel parameters, each at its natural alignment.
class Params {
 public:
  template <class T>
  Params& add(T value) {
    bytes_.resize((bytes_.size() + alignof(T) - 1) / alignof(T) * alignof(T));
    const auto* at = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), at, at + sizeof value);
    return *this;
  }
  [[nodiscard]] const void* data() const { return bytes_.data(); }

 private:
  std::vector<std::byte> bytes_;
};

double measure(const char* kernel, std::array<uint32_t, 3> grid, std::array<uint32_t, 3> block,
               const Params& params, std::vector<ptx::Region> regions) {
  const ptx::AccessMap memory(std::move(regions));
  ptx::Launch launch;
  launch.module = module.get();
  launch.function = module->function(kernel);
  launch.grid = grid;
  launch.block = block;
  launch.params = params.data();
  launch.memory = &memory;
  launch.device.multiprocessors = 108;
  double best = 1e9;
  for (int i = 0; i < repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const ptx::Fault fault = ptx::run(launch);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (fault) {
      std::fprintf(stderr, "%s: %s\n", kernel, fault.text.c_str());
      std::exit(1);
    }
    best = std::min(best, took.count());
  }
  return best;
}

void say(const char* what, double seconds) {
  if (seconds < 1e-3)
    std::printf("%-44s %9.2f us\n", what, seconds * 1e6);
  else
    std::printf("%-44s %9.3f s\n", what, seconds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) repetitions = std::max(1, std::atoi(argv[1]));
  std::ifstream file(BENCH_PTX);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto start = std::chrono::steady_clock::now();
  auto parsed = ptx::parse(text);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (!parsed) {
    std::fprintf(stderr, "%s\n", parsed.error().what().c_str());
    return 1;
  }
  module = *parsed;
  say("parse and decode this file's kernels", took.count());

  say("launch of an empty kernel", measure("empty", {1, 1, 1}, {1, 1, 1}, {}, {}));
  {
    const int n = 1 << 24;
    std::vector<float> a(n, 1.5F), b(n, 2.25F), c(n);
    say("vector_add, 2^24 floats", measure("vector_add", {n / 256, 1, 1}, {256, 1, 1},
                                           Params().add(a.data()).add(b.data()).add(c.data()).add(n),
                                           {region(a), region(b), region(c)}));
    if (c.front() != 3.75F || c.back() != 3.75F) return 1;
    std::vector<float> sum(1);
    say("reduce, 2^24 floats",
        measure("reduce", {216, 1, 1}, {256, 1, 1}, Params().add(a.data()).add(sum.data()).add(n),
                {region(a), region(sum)}));
  }
  {
    const int n = 1024;
    std::vector<float> a(n * n, 0.5F), b(n * n, 2.0F), c(n * n);
    say("matrix_mul, 1024 x 1024, tiles of 16",
        measure("matrix_mul", {n / 16, n / 16, 1}, {16, 16, 1},
                Params().add(a.data()).add(b.data()).add(c.data()).add(n),
                {region(a), region(b), region(c)}));
    if (c.front() != 1024.0F || c.back() != 1024.0F) return 1;
  }
  {
    const int n = 1 << 24;
    std::vector<unsigned char> in(n);
    for (int i = 0; i < n; ++i)
      in[static_cast<size_t>(i)] = static_cast<unsigned char>(i * 2654435761U >> 24);
    std::vector<unsigned> out(256);
    say("histogram, 2^24 bytes, 256 bins",
        measure("histogram", {216, 1, 1}, {256, 1, 1}, Params().add(in.data()).add(out.data()).add(n),
                {region(in), region(out)}));
  }
  {
    const int width = 1024, height = 768;
    std::vector<int> out(width * height);
    say("mandelbrot, 1024 x 768, 256 steps",
        measure("mandelbrot", {width / 16, height / 16, 1}, {16, 16, 1},
                Params().add(out.data()).add(width).add(height).add(256), {region(out)}));
  }
  return 0;
}
