// A kernel, its memory and its arguments, in a line or two: what every test here is made of.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "isa.h"
#include "ptx/module.h"
#include "ptx/run.h"

namespace gpufence::sim::ptx {

// Collects what kernels print, and gives them a heap.
class Collected : public Sinks {
 public:
  void print(std::string_view line) override {
    const std::scoped_lock lock(lock_);
    text += line;
  }
  uint64_t heap_allocate(uint64_t bytes) override {
    const std::scoped_lock lock(lock_);
    top_ = (top_ + 15) / 16 * 16;
    if (bytes > heap.size() - top_) return 0;
    const uint64_t at = reinterpret_cast<uint64_t>(heap.data()) + top_;
    top_ += bytes;
    live.push_back(at);
    return at;
  }
  bool heap_free(uint64_t address) override {
    const std::scoped_lock lock(lock_);
    const auto found = std::find(live.begin(), live.end(), address);
    if (found == live.end()) return false;
    live.erase(found);
    return true;
  }

  std::string text;
  std::vector<uint64_t> heap_words = std::vector<uint64_t>(1 << 17);
  struct Heap {
    std::byte* data_;
    size_t size_;
    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] size_t size() const { return size_; }
  } heap{reinterpret_cast<std::byte*>(heap_words.data()), heap_words.size() * 8};
  std::vector<uint64_t> live;

 private:
  std::mutex lock_;
  size_t top_ = 0;
};

class Grid {
 public:
  // PTX without its head: .version, .target and .address_size are put before it unless it has them.
  explicit Grid(std::string text) {
    if (text.find(".version") == std::string::npos)
      text = ".version 8.5\n.target sm_90\n.address_size 64\n" + text;
    auto parsed = parse(text);
    if (!parsed) {
      ADD_FAILURE() << parsed.error().what() << "\n" << text;
      return;
    }
    take(*parsed);
  }
  explicit Grid(std::shared_ptr<const Module> made) { take(std::move(made)); }

  template <class T>
  Grid& with(std::vector<T>& memory, bool writable = true) {
    const auto begin = reinterpret_cast<uint64_t>(memory.data());
    regions_.push_back({begin, begin + memory.size() * sizeof(T), writable});
    return *this;
  }
  template <class T>
  Grid& arg(const std::vector<T>& memory) {
    return arg(memory.data());
  }
  template <class T>
  Grid& arg(T value) {
    params_.resize((params_.size() + alignof(T) - 1) / alignof(T) * alignof(T));
    const auto* at = reinterpret_cast<const std::byte*>(&value);
    params_.insert(params_.end(), at, at + sizeof value);
    return *this;
  }
  // Memory that the kernel may use, and its next argument.
  template <class T>
  Grid& array(std::vector<T>& memory) {
    with(memory);
    return arg(memory.data());
  }
  Grid& clear_args() {
    params_.clear();
    return *this;
  }

  Fault run(const std::string& kernel, std::array<uint32_t, 3> grid, std::array<uint32_t, 3> block) {
    if (module == nullptr) return {};
    std::vector<Region> regions = regions_;
    for (auto& bytes : globals_) {
      if (!bytes.empty())
        regions.push_back({reinterpret_cast<uint64_t>(bytes.data()),
                           reinterpret_cast<uint64_t>(bytes.data()) + bytes.size() * 8, true});
    }
    regions.push_back({reinterpret_cast<uint64_t>(sinks.heap.data()),
                       reinterpret_cast<uint64_t>(sinks.heap.data()) + sinks.heap.size(), true});
    const AccessMap memory(std::move(regions));
    launch.module = module.get();
    launch.function = module->function(kernel);
    if (launch.function == nullptr) {
      ADD_FAILURE() << "no kernel " << kernel;
      return {};
    }
    params_.resize(std::max<size_t>(params_.size(), launch.function->param_bytes));
    launch.grid = grid;
    launch.block = block;
    launch.params = params_.data();
    launch.memory = &memory;
    launch.sinks = &sinks;
    launch.global_addresses = addresses;
    return ptx::run(launch);
  }
  Fault run(const std::string& kernel, uint32_t grid, uint32_t block) {
    return run(kernel, {grid, 1, 1}, {block, 1, 1});
  }
  // The same, and it must end well.
  void ok(const std::string& kernel, uint32_t grid, uint32_t block) {
    const Fault fault = run(kernel, grid, block);
    EXPECT_EQ(fault.kind, Fault::Kind::none) << fault.text;
  }

  template <class T>
  T* global(std::string_view name) {
    for (size_t i = 0; i < module->globals.size(); ++i) {
      if (module->globals[i].name == name) return reinterpret_cast<T*>(globals_[i].data());
    }
    ADD_FAILURE() << "no variable " << name;
    return nullptr;
  }

  std::shared_ptr<const Module> module;
  Launch launch;
  Collected sinks;
  std::vector<uint64_t> addresses;

 private:
  void take(std::shared_ptr<const Module> made) {
    module = std::move(made);
    launch.device.multiprocessors = 4;
    for (const Global& global : module->globals) {
      globals_.emplace_back(global.space == Space::shared ? 0 : (global.size + 7) / 8 + 2);
      addresses.push_back(reinterpret_cast<uint64_t>(globals_.back().data()));
    }
    for (size_t i = 0; i < module->globals.size(); ++i) {
      if (module->globals[i].space == Space::shared) continue;
      const std::vector<uint8_t> image = module->image(i, addresses);
      if (!image.empty()) std::memcpy(globals_[i].data(), image.data(), image.size());
    }
  }

  std::vector<Region> regions_;
  std::vector<std::byte> params_;
  std::vector<std::vector<uint64_t>> globals_;
};

// --- one instruction
// ---------------------------------------------------------------------------------------------------

struct Case {
  std::vector<uint64_t> in;  // up to four sources
  uint64_t out = 0;
};

inline uint64_t bits(float value) {
  return __builtin_bit_cast(uint32_t, value);
}
inline uint64_t bits(double value) {
  return __builtin_bit_cast(uint64_t, value);
}

// Runs PTX code for each case, one a lane: sources are %r1…%r4 (32 bits), %rd1… (64), %h1… (16), %p1… (not
// zero); the result is whichever of %r0, %rd0, %h0, %p0 the text begins to write. With whole warps and with a
// few lanes; as on a host with AVX2 and as on one without.
inline std::vector<uint64_t> evaluate(const std::string& code, const std::vector<Case>& cases) {
  const bool is64 = code.find("%rd0") != std::string::npos, is16 = code.find("%h0") != std::string::npos,
             is_pred = code.find("%p0") != std::string::npos;
  std::string text =
      ".visible .entry k(.param .u64 in, .param .u64 out) {\n"
      ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<20>; .reg .b64 %rd<20>;\n"
      "ld.param.u64 %rd10, [in]; ld.param.u64 %rd11, [out]; mov.u32 %r10, %tid.x; mov.u32 %r11, %ctaid.x; "
      "mov.u32 %r12, %ntid.x;\n"
      "mad.lo.u32 %r10, %r11, %r12, %r10; mul.wide.u32 %rd12, %r10, 32; add.u64 %rd10, %rd10, %rd12; "
      "mul.wide.u32 %rd12, %r10, 8;\n"
      "add.u64 %rd11, %rd11, %rd12; mov.u64 %rd0, 0; mov.u32 %r0, 0; mov.u16 %h0, 0; setp.ne.u32 %p0, %r0, "
      "0;\n";
  for (int i = 1; i <= 4; ++i) {
    const std::string n = std::to_string(i);
    text += "ld.global.u64 %rd" + n + ", [%rd10+" + std::to_string(8 * (i - 1)) + "]; cvt.u32.u64 %r" + n +
            ", %rd" + n + "; cvt.u16.u64 %h" + n + ", %rd" + n + "; setp.ne.u64 %p" + n + ", %rd" + n +
            ", 0;\n";
  }
  text += code + "\n";
  if (is_pred)
    text += "selp.u64 %rd0, 1, 0, %p0;\n";
  else if (is16)
    text += "cvt.u64.u16 %rd0, %h0;\n";
  else if (!is64)
    text += "cvt.u64.u32 %rd0, %r0;\n";
  text += "st.global.u64 [%rd11], %rd0;\nret;\n}\n";

  std::vector<uint64_t> result(cases.size());
  for (const bool base : {false, true}) {
    use_only_base(base);
    for (const bool whole : {true, false}) {
      // Whole warps: the cases again and again. A few lanes: one block a case or so, of odd size.
      const size_t lanes = whole ? (cases.size() + 31) / 32 * 32 : cases.size();
      std::vector<uint64_t> in(lanes * 4), out(lanes, 0xdeadbeef);
      for (size_t i = 0; i < lanes; ++i) {
        const Case& one = cases[i % cases.size()];
        std::copy(one.in.begin(), one.in.end(), in.begin() + static_cast<std::ptrdiff_t>(4 * i));
      }
      Grid grid(text);
      grid.array(in).array(out);
      const Fault fault = whole ? grid.run("k", static_cast<uint32_t>(lanes / 32), 32)
                                : grid.run("k", static_cast<uint32_t>(lanes), 1);
      EXPECT_EQ(fault.kind, Fault::Kind::none) << fault.text << "\n" << code;
      if (base || !whole) {
        for (size_t i = 0; i < lanes; ++i)
          EXPECT_EQ(out[i], result[i % cases.size()])
              << code << ", case " << i % cases.size() << ": lanes or hosts differ";
      } else {
        result.assign(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(cases.size()));
      }
    }
  }
  use_only_base(false);
  return result;
}

inline void expect(const std::string& code, const std::vector<Case>& cases) {
  const std::vector<uint64_t> result = evaluate(code, cases);
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(result[i], cases[i].out)
        << std::hex << code << ", case " << i << ": 0x" << result[i] << " for 0x" << cases[i].out;
  }
}

// f32 results within so many units in the last place of what doubles give.
inline void expect_near(const std::string& code,
                        const std::vector<std::pair<std::vector<float>, double>>& cases, double relative) {
  std::vector<Case> list;
  for (const auto& [in, out] : cases) {
    Case one;
    for (const float value : in) one.in.push_back(bits(value));
    list.push_back(one);
  }
  const std::vector<uint64_t> result = evaluate(code, list);
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto got = __builtin_bit_cast(float, static_cast<uint32_t>(result[i]));
    EXPECT_NEAR(got, cases[i].second, std::abs(cases[i].second) * relative) << code << ", case " << i;
  }
}

}  // namespace gpufence::sim::ptx
