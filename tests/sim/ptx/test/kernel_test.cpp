// What nvcc makes of kernels.cu gives what the host computes, optimised, with -G and with fast arithmetic.
#include <bit>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <random>

#include "grid.h"

namespace gpufence::sim::ptx {
namespace {

struct Build {
  const char* name;
  const char* file;
  bool fast;
};

std::shared_ptr<const Module> module_of(const Build& build) {
  static std::map<std::string, std::shared_ptr<const Module>> modules;
  auto& module = modules[build.name];
  if (module == nullptr) {
    std::ifstream file(build.file);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    auto parsed = parse(text);
    if (!parsed) {
      ADD_FAILURE() << parsed.error().what();
      return nullptr;
    }
    module = *parsed;
  }
  return module;
}

class Kernels : public testing::TestWithParam<Build> {
 protected:
  Kernels() : grid(module_of(GetParam())) {}
  Grid grid;
  std::mt19937 random{12345};

  std::vector<int> ints(size_t n, int low, int high) {
    std::vector<int> values(n);
    for (int& value : values) value = std::uniform_int_distribution(low, high)(random);
    return values;
  }
};

INSTANTIATE_TEST_SUITE_P(Of, Kernels,
                         testing::Values(Build{"optimised", KERNELS_O3, false},
                                         Build{"debug", KERNELS_DEBUG, false},
                                         Build{"fast", KERNELS_FAST, true}),
                         [](const auto& build) { return build.param.name; });

TEST_P(Kernels, NothingIsUnsupported) {
  for (const Function& function : grid.module->functions)
    EXPECT_EQ(function.unsupported, "") << function.name;
}

TEST_P(Kernels, SaxpyWithARaggedEnd) {
  std::vector<float> x(1000), y(1000), want(1000);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i) * 0.25F;
    y[i] = 1.0F;
    want[i] = 2.0F * x[i] + 1.0F;
  }
  grid.arg(2.0F).array(x).array(y).arg(1000).ok("saxpy", 8, 128);
  EXPECT_EQ(y, want);
}

TEST_P(Kernels, GridStrideInDoubles) {
  std::vector<double> in(777), out(777), want(777);
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = static_cast<double>(i) / 3;
    want[i] = in[i] * 0.5 + static_cast<double>(i);
  }
  grid.array(in).array(out).arg(777).ok("strided_double", 3, 50);
  EXPECT_EQ(out, want);
}

TEST_P(Kernels, VectorLoadsAndStores) {
  struct alignas(16) Four {
    float x, y, z, w;
  };
  std::vector<Four> in(70), out(70);
  std::vector<uint32_t> bytes(70);
  std::vector<int> pairs(140);
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = {float(i), float(i) + 0.25F, float(i) + 0.5F, float(i) + 0.75F};
    bytes[i] = static_cast<uint32_t>(i * 0x01020304U);
  }
  grid.array(in).array(out).array(bytes).array(pairs).arg(70).ok("vectors", 3, 32);
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(out[i].x, in[i].w);
    EXPECT_EQ(out[i].w, in[i].x);
    const auto byte = [&](int k) { return static_cast<int>(bytes[i] >> 8 * k & 255); };
    EXPECT_EQ(pairs[2 * i], byte(0) + 256 * byte(1));
    EXPECT_EQ(pairs[2 * i + 1], byte(2) - byte(3));
  }
}

TEST_P(Kernels, TransposeThroughSharedMemory) {
  const int width = 50, height = 37;
  std::vector<int> in(width * height), out(width * height);
  std::iota(in.begin(), in.end(), 0);
  grid.array(in).array(out).arg(width).arg(height);
  EXPECT_FALSE(grid.run("transpose", {4, 3, 1}, {16, 16, 1}));
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) ASSERT_EQ(out[static_cast<size_t>(x * height + y)], y * width + x);
  }
}

TEST_P(Kernels, MatrixProductByTiles) {
  const int n = 64;
  std::vector<float> a(n * n), b(n * n), c(n * n);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i % 13);
    b[i] = static_cast<float>(i % 7) - 3;
  }
  grid.array(a).array(b).array(c).arg(n);
  EXPECT_FALSE(grid.run("matrix_mul", {4, 4, 1}, {16, 16, 1}));
  for (size_t y = 0; y < n; ++y) {
    for (size_t x = 0; x < n; ++x) {
      float sum = 0;
      for (size_t k = 0; k < n; ++k) sum += a[y * n + k] * b[k * n + x];
      ASSERT_EQ(c[y * n + x], sum);
    }
  }
}

TEST_P(Kernels, BlockSumByShuffles) {
  std::vector<int> in = ints(10000, -100, 100), out(1);
  grid.array(in).array(out).arg(10000).ok("block_sum", 5, 256);
  EXPECT_EQ(out[0], std::accumulate(in.begin(), in.end(), 0));
}

TEST_P(Kernels, ScanInDynamicSharedMemory) {
  std::vector<int> in = ints(200, 0, 9), out(200), want(200);
  std::partial_sum(in.begin(), in.end(), want.begin());
  grid.launch.dynamic_shared_bytes = 2 * 200 * sizeof(int);
  grid.array(in).array(out).ok("scan_block", 1, 200);
  EXPECT_EQ(out, want);
}

TEST_P(Kernels, TheLastBlockAddsUp) {
  std::vector<int> in = ints(5000, 0, 50), parts(12);
  grid.array(in).array(parts).arg(5000).ok("last_block", 12, 64);
  EXPECT_EQ(*grid.global<int>("last_total"), std::accumulate(in.begin(), in.end(), 0));
}

TEST_P(Kernels, BlocksWaitForTheOneBefore) {
  std::vector<int> in = ints(40 * 32, 0, 9), out(40 * 32), sums(40), flags(40);
  grid.array(in).array(out).array(sums).array(flags).ok("look_back", 40, 32);
  int before = 0;
  for (size_t b = 0; b < 40; ++b) {
    for (size_t i = 0; i < 32; ++i) ASSERT_EQ(out[b * 32 + i], before + in[b * 32 + i]);
    before += std::accumulate(in.begin() + static_cast<std::ptrdiff_t>(b * 32),
                              in.begin() + static_cast<std::ptrdiff_t>(b * 32 + 32), 0);
  }
}

TEST_P(Kernels, BlocksWaitForALaterOneThatADeviceWouldHold) {
  std::vector<int> flag(1), out(1);
  grid.array(flag).array(out).ok("wait_for_last", 24, 32);
  EXPECT_EQ(out[0], 24 * 7);
}

TEST_P(Kernels, LoopsOfDifferentLength) {
  std::vector<int> in = ints(300, 1, 3000), steps(300);
  grid.array(in).array(steps).arg(300).ok("collatz", 3, 100);
  for (size_t i = 0; i < in.size(); ++i) {
    long long value = in[i];
    int count = 0;
    for (; value != 1; ++count) value = value % 2 == 0 ? value / 2 : 3 * value + 1;
    ASSERT_EQ(steps[i], count) << in[i];
  }
}

TEST_P(Kernels, SwitchesAndNestedLoops) {
  std::vector<int> what = ints(256, 0, 12), out(256, 3), want(256, 3);
  for (int i = 0; i < 256; ++i) {
    int v = i;
    switch (what[static_cast<size_t>(i)]) {
      case 0:
        v = v * 3;
        break;
      case 1:
        v = v + 100;
        break;
      case 2:
        v = 3 - v;
        break;
      case 4:
        v = ~v;
        break;
      case 5:
        v = 1;
        break;
      case 6:
        v = (v ^ 0x55) << 2;
        break;
      case 7:
        v <<= 2;
        break;
      case 11:
        v = -v;
        break;
      default:
        v = -1;
    }
    // Case 3 reads what others write; it is left out.
    if (what[static_cast<size_t>(i)] == 3) what[static_cast<size_t>(i)] = 12;
    want[static_cast<size_t>(i)] = v;
  }
  grid.array(what).array(out).arg(256).ok("choose", 2, 128);
  EXPECT_EQ(out, want);

  std::vector<int> sums(200);
  grid.clear_args().array(sums).arg(200).ok("nested", 4, 50);
  for (int i = 0; i < 200; ++i) {
    int sum = 0;
    bool early = false;
    for (int a = 0; a < i % 7 && !early; ++a) {
      for (int b = 0; b < a; ++b) {
        if ((a + b + i) % 3 == 0) continue;
        if (a * b > 12) break;
        sum += a * 10 + b;
      }
      early = sum > 90;
    }
    ASSERT_EQ(sums[static_cast<size_t>(i)], early ? sum : sum + 1000) << i;
  }
}

TEST_P(Kernels, LocksBetweenThreadsOfOneWarpAndOfOthers) {
  std::vector<int> counter(1);
  grid.array(counter).ok("lock_by_thread", 3, 64);
  EXPECT_EQ(counter[0], 192);
  counter[0] = 0;
  grid.ok("spin_by_thread", 2, 64);
  EXPECT_EQ(counter[0], 128);
}

TEST_P(Kernels, AWarpWaitsForAnotherOfItsBlock) {
  std::vector<int> out(1);
  grid.array(out).ok("producer_consumer", 1, 96);
  EXPECT_EQ(out[0], 42);
}

TEST_P(Kernels, RecursionAndPointersToFunctions) {
  std::vector<int> out(64);
  grid.array(out).ok("recursion", 1, 64);
  const int fibonacci[13] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144};
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(out[i], fibonacci[i % 13]);

  std::vector<float> values(100, 5.0F);
  grid.clear_args().array(values).arg(100).ok("pointers", 4, 32);
  for (size_t i = 0; i < 100; ++i) ASSERT_EQ(values[i], i % 3 == 0 ? 10.0F : i % 3 == 1 ? 6.0F : -5.0F);
}

TEST_P(Kernels, VirtualFunctionsOfObjectsOnTheHeap) {
  std::vector<float> out(60);
  grid.array(out).arg(60).ok("virtuals", 2, 32);
  for (size_t i = 0; i < 60; ++i) ASSERT_EQ(out[i], static_cast<float>(i * i * (i % 2 == 0 ? 1 : 3)));
  EXPECT_TRUE(grid.sinks.live.empty());
}

struct Big {
  int values[20];
  double scale;
  char name[5];
  short last;
};
Big big() {
  Big made{};
  for (int i = 0; i < 20; ++i) made.values[i] = i * i;
  made.scale = 0.75;
  std::memcpy(made.name, "abcd", 5);
  made.last = -7;
  return made;
}

TEST_P(Kernels, StructuresByValue) {
  std::vector<int> out(40);
  std::vector<double> scaled(40);
  const Big b = big();
  grid.arg(b).array(out).array(scaled).ok("by_value", 1, 40);
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(out[static_cast<size_t>(i)], b.values[i % 20] + b.name[i % 5] + b.last);
    ASSERT_EQ(scaled[static_cast<size_t>(i)], b.values[(i + 1) % 20] * b.scale);
  }
  grid.ok("structs", 1, 40);
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(out[static_cast<size_t>(i)], b.values[i % 20] + i * (i % 20) + i);
    ASSERT_EQ(scaled[static_cast<size_t>(i)], b.scale / 2);
  }
}

TEST_P(Kernels, LocalArraysWithMovingIndices) {
  std::vector<int> in = ints(50, 0, 60), out(64);
  grid.array(in).array(out).arg(50).ok("local_arrays", 1, 64);
  for (int t = 0; t < 64; ++t) {
    int counts[8] = {};
    for (int i = 0; i < 50; ++i) counts[(in[static_cast<size_t>(i)] + t) % 8] += i;
    unsigned sum = 0;
    for (int i = 0; i < 8; ++i) sum = sum * 31 + static_cast<unsigned>(counts[(i * 3 + t) % 8]);
    const int text = static_cast<signed char>(in[static_cast<size_t>(t % 16)] + t % 16);
    ASSERT_EQ(out[static_cast<size_t>(t)], static_cast<int>(sum) + text);
  }
}

TEST_P(Kernels, TemplatesWithFunctionObjects) {
  struct Scale {
    float by;
    int add;
  };
  std::vector<float> values(10, 3.0F);
  grid.arg(Scale{2.5F, 4}).array(values).arg(10);
  for (const Function& function : grid.module->functions) {
    if (function.is_entry && function.name.find("apply") != std::string::npos) grid.ok(function.name, 1, 32);
  }
  EXPECT_EQ(values, std::vector<float>(10, 11.5F));
}

TEST_P(Kernels, ConstantsVariablesAndPointersInThem) {
  std::vector<float> out(8);
  std::vector<int> length(8);
  grid.array(out).array(length).ok("variables", 1, 8);
  EXPECT_EQ(out, (std::vector<float>{1, 0.5F, 0.25F, 0.125F, 1, 0.5F, 0.25F, 0.125F}));
  EXPECT_EQ(length, (std::vector<int>{3, 3, 5, 3, 3, 5, 3, 3}));
  EXPECT_EQ(*grid.global<int>("counter"), 15);
}

TEST_P(Kernels, WarpFunctions) {
  std::vector<int> in = ints(64, 0, 30), out(64 * 12);
  grid.array(in).array(out).ok("warp_functions", 1, 64);
  int fives = 0;
  for (const int v : in) fives += v % 5 == 0;
  for (int t = 0; t < 64; ++t) {
    const int lane = t % 32, warp = t - lane;
    const auto at = [&](int l) { return in[static_cast<size_t>(warp + l)]; };
    const int* o = out.data() + t * 12;
    unsigned ballot = 0, match = 0, odd = 0;
    bool any = false;
    for (int l = 0; l < 32; ++l) {
      ballot |= static_cast<unsigned>(at(l) % 3 == 0) << l;
      match |= static_cast<unsigned>(at(l) % 4 == at(lane) % 4) << l;
      if (l >= 20) odd += static_cast<unsigned>(at(l) % 2);
      any = any || at(l) == in[7];
    }
    EXPECT_EQ(o[0], at((lane + 5) % 32));
    EXPECT_EQ(o[1], at(lane < 3 ? lane : lane - 3));
    EXPECT_EQ(o[2], at(lane % 8 < 4 ? lane + 4 : lane));
    EXPECT_EQ(o[3], at(lane ^ 1));
    EXPECT_EQ(static_cast<unsigned>(o[4]), ballot);
    EXPECT_EQ(o[5], any);
    EXPECT_EQ(o[6], 1);
    EXPECT_EQ(static_cast<unsigned>(o[7]), match);
    EXPECT_EQ(static_cast<unsigned>(o[8]), 0xffffffffU);
    EXPECT_EQ(o[9], lane < 20 ? at(19 - lane) : static_cast<int>(odd));
    EXPECT_EQ(o[10], fives);
    EXPECT_EQ(o[11], 3);
  }
}

TEST_P(Kernels, CooperativeGroupsOfABlock) {
  std::vector<int> in = ints(64, 0, 30), out(128);
  grid.array(in).array(out).ok("groups", 1, 64);
  for (int t = 0; t < 64; ++t) {
    int sum = 0, rank = 0, size = 0;
    for (int k = 0; k < 8; ++k) sum += in[static_cast<size_t>(t / 8 * 8 + k)];
    for (int l = t / 32 * 32; l < t / 32 * 32 + 32; ++l) {
      const bool even = in[static_cast<size_t>(l)] % 2 == 0;
      size += even;
      rank += even && l < t;
    }
    EXPECT_EQ(out[static_cast<size_t>(2 * t)], sum);
    EXPECT_EQ(out[static_cast<size_t>(2 * t + 1)],
              in[static_cast<size_t>(t)] % 2 == 0 ? rank + 100 * size : -1);
  }
}

TEST_P(Kernels, TheWholeGridMeets) {
  const int n = 999, rounds = 7;
  std::vector<int> data(2 * n), want(n);
  for (int i = 0; i < n; ++i) data[static_cast<size_t>(i)] = want[static_cast<size_t>(i)] = i * 3;
  for (int round = 0; round < rounds; ++round) {
    std::vector<int> next(n);
    for (size_t i = 0; i < n; ++i) next[i] = want[(i + 1) % n] + 1;
    want = next;
  }
  grid.launch.cooperative = true;
  grid.array(data).arg(n).arg(rounds).ok("whole_grid", 9, 64);
  EXPECT_EQ(std::vector<int>(data.begin() + n, data.end()), want);
  grid.launch.cooperative = false;
  EXPECT_EQ(grid.run("whole_grid", 9, 64).kind, Fault::Kind::trap)
      << "without a workspace the kernel itself traps";
}

TEST_P(Kernels, AtomicsOfEveryKind) {
  const int threads = 5 * 48;
  std::vector<int> i{0, 0, 100, -100, 0, 0};
  std::vector<unsigned> u{~0U, 0, 0, 0, 0, 5000};
  std::vector<unsigned long long> l{0, 0, 0, 0};
  std::vector<float> f{1.0F};
  std::vector<double> d{1.0};
  grid.array(i).array(u).array(l).array(f).array(d).ok("atomics", 5, 48);
  EXPECT_EQ(i, (std::vector<int>{threads * (threads - 1) / 2, -threads, -(threads - 1), threads - 1, 9, 77}));
  unsigned flips = 0;
  for (int t = 0; t < threads; ++t) flips ^= 1U << t % 7;
  EXPECT_EQ(u, (std::vector<unsigned>{0, ~0U, flips, threads % 7, 0, 1000U - (threads - 1)}));
  EXPECT_EQ(l[0], 0x100000000ULL * threads + threads * (threads - 1) / 2);
  EXPECT_EQ(l[1], 1ULL << 49);
  EXPECT_EQ(l[2], 0x123456789abcULL);
  EXPECT_EQ(std::bit_cast<double>(l[3]), threads);
  EXPECT_EQ(f[0], 1.0F + threads * 0.5F);
  EXPECT_EQ(d[0], 1.0 + threads * 0.25);
}

TEST_P(Kernels, HistogramInSharedMemory) {
  std::vector<unsigned char> in(20000);
  for (auto& byte : in) byte = static_cast<unsigned char>(random() % 256 * random() % 256);
  std::vector<unsigned> out(256), want(256);
  for (const auto byte : in) ++want[byte];
  grid.array(in).array(out).arg(20000).ok("histogram", 6, 256);
  EXPECT_EQ(out, want);
}

TEST_P(Kernels, BitsAndWideArithmetic) {
  std::vector<unsigned> in(64), out(640);
  for (auto& v : in) v = static_cast<unsigned>(random()) >> random() % 32;
  in[5] = 0;
  grid.array(in).array(out).ok("bits", 1, 64);
  for (size_t t = 0; t < 64; ++t) {
    const unsigned v = in[t], w = in[(t + 1) % 64];
    const unsigned* o = out.data() + t * 10;
    EXPECT_EQ(o[0], static_cast<unsigned>(std::popcount(v)));
    EXPECT_EQ(o[1], static_cast<unsigned>(std::countl_zero(v)));
    EXPECT_EQ(o[2], v == 0 ? 0U : static_cast<unsigned>(std::countr_zero(v)) + 1);
    unsigned reversed = 0;
    for (int b = 0; b < 32; ++b) reversed |= (v >> b & 1) << (31 - b);
    EXPECT_EQ(o[3], reversed);
    EXPECT_EQ(o[4], (v & 0xff) | (w & 0xff) << 8 | (v >> 8 & 0xff) << 16 | (w >> 8 & 0xff) << 24);
    EXPECT_EQ(o[5], static_cast<unsigned>((uint64_t{w} << 32 | v) << v % 32 >> 32));
    EXPECT_EQ(o[6], static_cast<unsigned>(uint64_t{v} * w >> 32));
    EXPECT_EQ(o[7], static_cast<unsigned>(std::popcount(v) + std::popcount(w)));
    EXPECT_EQ(o[8], v / (w % 1000 + 1) + v % (w % 777 + 3));
    unsigned dot = 5;
    for (int k = 0; k < 4; ++k) dot += (v >> 8 * k & 0xff) * (w >> 8 * k & 0xff);
    EXPECT_EQ(o[9], static_cast<unsigned>(int64_t{static_cast<int>(v)} * static_cast<int>(w) >> 32) + dot);
  }
  std::vector<long long> wide(64), results(64 * 6);
  for (auto& v : wide)
    v = static_cast<long long>((uint64_t{random()} << 32 | random()) >> random() % 63) *
        (random() % 2 == 0 ? 1 : -1);
  grid.clear_args().array(wide).array(results).ok("wide", 1, 64);
  for (size_t t = 0; t < 64; ++t) {
    const long long v = wide[t], w = wide[(t + 1) % 64];
    const long long* o = results.data() + t * 6;
    EXPECT_EQ(static_cast<uint64_t>(o[0]), static_cast<uint64_t>(v) * static_cast<uint64_t>(w));
    EXPECT_EQ(o[1], w != 0 ? v / w : 0);
    EXPECT_EQ(o[2], w != 0 ? v % w : 0);
    EXPECT_EQ(static_cast<uint64_t>(o[3]), static_cast<uint64_t>(v) / 10);
    EXPECT_EQ(o[4], static_cast<long long>(static_cast<__int128>(v) * w >> 64));
    EXPECT_EQ(o[5], (v >> 7) ^ static_cast<long long>(static_cast<uint64_t>(w) << 3) ^
                        (v == 0 ? 0 : std::countr_zero(static_cast<uint64_t>(v)) + 1));
  }
}

TEST_P(Kernels, MathematicsNearTheHosts) {
  std::vector<float> in(200), out(200 * 12);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) * 0.173F - 17.3F;
  grid.array(in).array(out).arg(200).ok("functions", 2, 100);
  const double slack = GetParam().fast ? 2e-5 : 1e-6;
  for (size_t i = 0; i < in.size(); ++i) {
    const double x = in[i];
    const double want[12] = {std::sin(x),
                             std::cos(x),
                             std::exp(x / 8),
                             std::log(std::fabs(x) + 0.5),
                             std::pow(std::fabs(x) + 0.1, 1.3),
                             std::sqrt(std::fabs(x)),
                             1 / (x + 100),
                             std::atan2(x, 2.0),
                             std::tanh(x / 4),
                             std::fmod(x, 3.0),
                             std::floor(x) + std::ceil(x / 2) + std::rint(x / 3) + std::trunc(x / 5),
                             std::erf(x / 4) + std::cbrt(x)};
    for (size_t k = 0; k < 12; ++k) {
      if (k == 9 && GetParam().fast) continue;  // near multiples of the divisor fast division is off by one
      EXPECT_NEAR(out[i * 12 + k], want[k], slack * std::max(1.0, std::fabs(want[k])))
          << "function " << k << " of " << x;
    }
  }
  std::vector<double> wide(100), results(100 * 8);
  for (size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<double>(i) * 0.37 - 18;
  grid.clear_args().array(wide).array(results).arg(100).ok("double_functions", 4, 32);
  for (size_t i = 0; i < wide.size(); ++i) {
    const double x = wide[i];
    const double want[8] = {std::sin(x),
                            std::exp(x / 8),
                            std::log(std::fabs(x) + 0.5),
                            std::pow(std::fabs(x) + 0.1, 1.3),
                            std::sqrt(std::fabs(x)) / (x + 1000),
                            std::atan2(x, 2.0),
                            std::lgamma(std::fabs(x) + 0.7),
                            std::fmod(x, 0.3)};
    for (size_t k = 0; k < 8; ++k)
      EXPECT_NEAR(results[i * 8 + k], want[k], 1e-14 * std::max(1.0, std::fabs(want[k])))
          << "function " << k << " of " << x;
  }
}

TEST_P(Kernels, HalfPrecision) {
  std::vector<float> in(32), out(32 * 6);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<float>(i) * 0.25F - 2;  // exact in f16, and so are the results
  grid.array(in).array(out).ok("halves", 1, 32);
  for (size_t i = 0; i < in.size(); ++i) {
    const float a = in[i], b = in[(i + 1) % 32];
    EXPECT_EQ(out[i * 6], a + b);
    EXPECT_EQ(out[i * 6 + 1], a * b);
    EXPECT_EQ(out[i * 6 + 2], a * b + a);
    EXPECT_EQ(out[i * 6 + 3], a < b ? 1.0F : 0.0F);
    EXPECT_EQ(out[i * 6 + 4], a + b + b + b);
    EXPECT_EQ(out[i * 6 + 5], static_cast<float>(i) * 100 > a ? std::trunc(a) : -1.0F);
  }
}

TEST_P(Kernels, PhiloxGivesItsKnownNumbers) {
  std::vector<unsigned> out(4 * 64);
  grid.arg(7U).array(out).ok("philox", 2, 32);
  unsigned c[4] = {33, 0, 0, 0};
  unsigned k0 = 7, k1 = 0xdeadbeef;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53U} * c[0], p1 = uint64_t{0xCD9E8D57U} * c[2];
    const unsigned next[4] = {static_cast<unsigned>(p1 >> 32) ^ c[1] ^ k0, static_cast<unsigned>(p1),
                              static_cast<unsigned>(p0 >> 32) ^ c[3] ^ k1, static_cast<unsigned>(p0)};
    std::copy(next, next + 4, c);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  EXPECT_EQ(std::vector<unsigned>(out.begin() + 33 * 4, out.begin() + 34 * 4),
            std::vector<unsigned>(c, c + 4));
}

TEST_P(Kernels, PrintfFormatsAsTheHostsDoes) {
  grid.arg(2).ok("prints", 1, 32);
  EXPECT_EQ(grid.sinks.text,
            "thread 0 of 2:  0.00 word a -1234567890123 0xff %\n"
            "thread 1 of 2:  1.50 word b -1234567890123 0xff %\n");
}

TEST_P(Kernels, MallocAndFree) {
  std::vector<int> out(20);
  grid.array(out).arg(10).ok("lists", 1, 20);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], 45 * i);
  EXPECT_TRUE(grid.sinks.live.empty());
}

TEST_P(Kernels, AssertionsAndTraps) {
  EXPECT_FALSE(grid.arg(32).run("asserts", 1, 32));
  grid.clear_args().arg(30);
  const Fault fault = grid.run("asserts", 2, 32);
  EXPECT_EQ(fault.kind, Fault::Kind::assertion);
  EXPECT_NE(grid.sinks.text.find("thread: [30,0,0] Assertion `threadIdx.x < n` failed.\n"), std::string::npos)
      << grid.sinks.text;
  EXPECT_NE(grid.sinks.text.find("thread: [31,0,0] Assertion"), std::string::npos) << grid.sinks.text;
  EXPECT_NE(grid.sinks.text.find("kernels.cu:"), std::string::npos);

  grid.clear_args().arg(40);
  const Fault trap = grid.run("traps", {1, 1, 1}, {8, 8, 1});
  EXPECT_FALSE(trap) << "no thread has an x of 40";
  grid.clear_args().arg(5);
  const Fault trapped = grid.run("traps", {1, 1, 1}, {8, 8, 1});
  EXPECT_EQ(trapped.kind, Fault::Kind::trap);
  EXPECT_EQ(trapped.thread, (std::array<uint32_t, 3>{5, 0, 0}));
}

TEST_P(Kernels, ClocksGoOn) {
  std::vector<long long> out(32, -1);
  grid.array(out).ok("clocks", 1, 32);
  for (const long long ticks : out) EXPECT_GE(ticks, 0);
}

}  // namespace
}  // namespace gpufence::sim::ptx
