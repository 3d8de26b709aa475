// Call stacks: against what the compiler's own builtins and the C++ runtime's unwinder say of the same
// frames, and with rules that were damaged.
#include "observe/backtrace.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "journal/stack.h"
#include "observe/call.h"
#include "observe/demangle.h"
#include "observe/memory.h"
#include "observe/objects.h"
#include "observe/python.h"
#include "observe/unwind.h"

namespace gpufence::observe {
namespace {

#define KEPT [[gnu::noinline, gnu::noclone, gnu::optimize("no-optimize-sibling-calls")]]

std::uintptr_t number(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

using Places = std::vector<std::uintptr_t>;

bool collect(std::uintptr_t at, bool, void* data) {
  static_cast<Places*>(data)->push_back(at);
  return true;
}

KEPT Places walked() {
  Places places;
  walk(registers_here(), collect, &places);
  places.erase(places.begin());  // this function itself
  return places;
}

// ---- Reading with care

TEST(Memory, IsReadWhereItIsThere) {
  Memory memory;
  std::vector<unsigned char> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 7);
  std::vector<unsigned char> read(bytes.size());
  ASSERT_TRUE(memory.read(number(bytes.data()) + 3, read.data(), 990));
  EXPECT_EQ(std::memcmp(read.data(), bytes.data() + 3, 990), 0);
  errno = ENOENT;
  EXPECT_EQ(memory.get<std::uint16_t>(number(bytes.data()) + 255), 0xf9 | 0x00 << 8);
  EXPECT_EQ(errno, ENOENT);
}

TEST(Memory, IsNotReadWhereItIsNot) {
  const auto page = static_cast<std::size_t>(getpagesize());
  auto* pages =
      static_cast<char*>(mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  mprotect(pages + page, page, PROT_NONE);
  munmap(pages + 2 * page, page);
  Memory memory;
  EXPECT_TRUE(memory.get<std::uint64_t>(number(pages + page) - 8));
  EXPECT_FALSE(memory.get<std::uint64_t>(number(pages + page) - 4));
  EXPECT_FALSE(memory.get<char>(number(pages + page)));
  EXPECT_FALSE(memory.get<char>(number(pages + 2 * page)));
  for (const std::uintptr_t nowhere :
       {std::uintptr_t{0}, std::uintptr_t{0x4141414141414141}, ~std::uintptr_t{0}, ~std::uintptr_t{0} - 3,
        std::uintptr_t{0xffff800000000000}})
    EXPECT_FALSE(memory.get<std::uint64_t>(nowhere)) << nowhere;
  munmap(pages, 2 * page);
}

// ---- Objects

TEST(Objects, AreFoundWithTheirSymbols) {
  const auto at = number(reinterpret_cast<const void*>(&::getppid));
  const std::optional<Object> libc = object_at(at);
  ASSERT_TRUE(libc);
  EXPECT_TRUE(std::string(libc->file()).starts_with("libc.so")) << libc->path;
  EXPECT_EQ(find_symbol(*libc, "getppid"), at);
  EXPECT_EQ(find_symbol(*libc, "no_such_symbol_in_it"), 0u);
  const char* name = symbol_at(*libc, at + 1);
  ASSERT_NE(name, nullptr);
  EXPECT_EQ(find_symbol(*libc, name), at);
  Dl_info known{};
  ASSERT_NE(dladdr(reinterpret_cast<const void*>(at), &known), 0);
  EXPECT_EQ(number(known.dli_fbase), libc->begin);
  EXPECT_EQ(symbol_at(*libc, libc->begin + 1), nullptr);
  EXPECT_FALSE(object_at(0x1000));
  EXPECT_FALSE(object_at(number(&known)));
  EXPECT_FALSE(object_at(~std::uintptr_t{0}));
}

TEST(Objects, AreEachShownOnce) {
  std::vector<std::string> files;
  each_object(
      [](const Object& object, void* data) {
        static_cast<std::vector<std::string>*>(data)->push_back(object.file());
        return false;
      },
      &files);
  EXPECT_EQ(std::count(files.begin(), files.end(), "interpose_test"), 1);
  EXPECT_EQ(
      std::count_if(files.begin(), files.end(), [](const auto& file) { return file.starts_with("libc.so"); }),
      1);
}

// ---- Walking

struct Returns {
  Places expected, walked;
};

KEPT void innermost(Returns& returns) {
  returns.expected.push_back(number(__builtin_return_address(0)));
  returns.walked = walked();
}
KEPT void with_frame_pointer(Returns& returns, std::size_t bytes) {
  auto* room = static_cast<volatile char*>(__builtin_alloca(bytes));
  room[0] = 0;
  innermost(returns);
  room[bytes - 1] = 0;
  returns.expected.push_back(number(__builtin_return_address(0)));
}
KEPT void with_aligned_frame(Returns& returns) {
  alignas(256) char room[300] = "";
  asm volatile("" : : "r"(room) : "memory");
  with_frame_pointer(returns, 1000);
  returns.expected.push_back(number(__builtin_return_address(0)));
}
thread_local Returns* in_sort = nullptr;
KEPT int compare(const void*, const void*) {
  if (in_sort->walked.empty()) with_aligned_frame(*in_sort);
  return 0;
}
KEPT void through_the_c_library(Returns& returns) {
  int numbers[] = {1, 2};
  in_sort = &returns;
  std::qsort(numbers, 2, sizeof numbers[0], compare);
  returns.expected.push_back(number(__builtin_return_address(0)));
}

TEST(Walk, FindsEveryFrameByTheCompilersRules) {
  Returns returns;
  through_the_c_library(returns);
  ASSERT_EQ(returns.expected.size(), 4u);
  // All in this order; between them what the C library calls by itself.
  auto from = returns.walked.begin();
  for (const std::uintptr_t place : returns.expected) {
    from = std::find(from, returns.walked.end(), place);
    ASSERT_NE(from, returns.walked.end()) << std::hex << place;
  }
}

_Unwind_Reason_Code note(_Unwind_Context* frame, void* data) {
  static_cast<Places*>(data)->push_back(_Unwind_GetIP(frame));
  return _URC_NO_REASON;
}

TEST(Walk, SeesWhatTheRuntimesUnwinderSees) {
  Places theirs;
  _Unwind_Backtrace(note, &theirs);
  const Places ours = walked();
  ASSERT_GT(ours.size(), 3u);
  while (theirs.size() > ours.size() && theirs.back() == 0) theirs.pop_back();
  ASSERT_EQ(theirs.size(), ours.size());
  // The first is this function, at two calls.
  EXPECT_TRUE(std::equal(ours.begin() + 1, ours.end(), theirs.begin() + 1));
}

KEPT int recurse(int depth, Places& places) {
  if (depth == 0) places = walked();
  return depth == 0 ? 0 : recurse(depth - 1, places) + 1;
}

TEST(Walk, IsBounded) {
  Places places;
  recurse(2000, places);
  EXPECT_EQ(places.size(), kMostWalked - 1);
}

TEST(Walk, EndsWithRegistersThatMeanNothing) {
  int somewhere = 0;
  const Places meaningless{0, 1, ~std::uintptr_t{0}, number(&somewhere)};
  for (const std::uintptr_t any : meaningless) {
    Registers registers;
    registers.value.fill(any);
    Places places;
    walk(registers, collect, &places);
    EXPECT_EQ(places.size(), 1u);
    registers.value[16] = number(reinterpret_cast<const void*>(&recurse)) + 8;
    places.clear();
    walk(registers, collect, &places);
    EXPECT_GE(places.size(), 1u);
  }
}

// Where the rules of the function at `address` stand, and those of its kind.
std::pair<unsigned char*, unsigned char*> rules_of(std::uintptr_t address) {
  const std::uintptr_t header = object_at(address)->unwinding;
  const auto* word = reinterpret_cast<const std::int32_t*>(header);
  std::uintptr_t found = 0;
  for (std::int32_t i = 0; i < word[2]; ++i) {
    const auto first = header + static_cast<std::uintptr_t>(std::intptr_t{word[3 + 2 * i]});
    if (first <= address) found = header + static_cast<std::uintptr_t>(std::intptr_t{word[4 + 2 * i]});
  }
  const auto back = *reinterpret_cast<const std::uint32_t*>(found + 4);
  return {reinterpret_cast<unsigned char*>(found), reinterpret_cast<unsigned char*>(found + 4 - back)};
}

TEST(Walk, EndsWhateverStandsInTheRules) {
  const std::uintptr_t here = number(reinterpret_cast<const void*>(&with_aligned_frame)) + 4;
  const auto [own, kind] = rules_of(here);
  const auto page = static_cast<std::uintptr_t>(getpagesize());
  std::size_t shorter = 0, tried = 0;
  Returns whole;
  with_aligned_frame(whole);
  for (unsigned char* rules : {own, kind}) {
    const auto size = 4 + *reinterpret_cast<const std::uint32_t*>(rules);
    ASSERT_LT(size, 200u);
    const std::uintptr_t begin = number(rules) / page * page;
    const std::size_t length = number(rules) + size - begin;
    ASSERT_EQ(mprotect(reinterpret_cast<void*>(begin), length, PROT_READ | PROT_WRITE), 0);
    for (std::size_t at = 0; at < size; ++at) {
      const unsigned char kept = rules[at];
      for (unsigned value = 0; value < 256; ++value) {
        Returns returns;
        rules[at] = static_cast<unsigned char>(value);
        with_aligned_frame(returns);
        rules[at] = kept;
        ++tried;
        if (returns.walked.size() < whole.walked.size()) ++shorter;
        ASSERT_LT(returns.walked.size(), kMostWalked + 1);
      }
    }
    ASSERT_EQ(mprotect(reinterpret_cast<void*>(begin), length, PROT_READ), 0);
  }
  EXPECT_GT(tried, 5000u);
  EXPECT_GT(shorter, 500u);
}

TEST(Backtrace, IsWhatFindingsSay) {
  const std::vector<journal::Site> stack = native_stack(3);
  ASSERT_EQ(stack.size(), 3u);
  EXPECT_EQ(stack[0].object, "interpose_test");
  EXPECT_EQ(native_stack(1).size(), 1u);
  EXPECT_EQ(native_stack(1000).back().object, "interpose_test") << "ends at main";
}

TEST(Backtrace, HasNoPythonWhereThereIsNone) {
  EXPECT_TRUE(python_stack(16).empty());
}

// ---- Words

TEST(StackText, FoldsWhatIsBetweenTheProgramAndTheDriver) {
  using journal::Site;
  EXPECT_EQ(journal::stack_text({}, {}), "");
  EXPECT_EQ(
      journal::stack_text(
          {Site{.object = "app", .symbol = "step", .offset = 0x4c10},
           Site{.object = "libcudart.so.13", .offset = 1}, Site{.object = "libcudart.so.13", .offset = 2},
           Site{.object = "libcudart.so.13", .offset = 3}, Site{.object = "app", .offset = 0x5000},
           Site{.object = "libcuda.so.1", .symbol = "cuLaunchHostFunc", .offset = 4}},
          {}),
      "; stack: app+0x4c10 (step) < … 3 frames in libcudart.so.13 < app+0x5000 < libcuda.so.1+0x4 "
      "(cuLaunchHostFunc)");
}

TEST(StackText, IsShortenedWhereNamesAreLong) {
  std::vector<journal::Site> stack;
  for (int i = 0; i < 64; ++i)
    stack.push_back({.object = "app", .symbol = std::string(5000, 'x'), .offset = 1});
  const std::vector<journal::PythonFrame> python(64, {"/a/" + std::string(3000, 'y') + ".py", "é", 1});
  const std::string text = journal::stack_text(stack, python);
  EXPECT_LT(text.size(), 3000u);
  EXPECT_NE(text.find("…) < app+0x1 (xxx"), std::string::npos);
  EXPECT_TRUE(text.ends_with(" more")) << text;
}

TEST(Demangled, IsWhatTheAuthorWrote) {
  EXPECT_EQ(demangled("_Z5scaleIfEvPT_"), "void scale<float>(float*)");
  EXPECT_EQ(demangled("step"), "step");
  EXPECT_EQ(demangled("f"), "f") << "a C function, not float";
  EXPECT_EQ(demangled("_Zno"), "_Zno");
}

}  // namespace
}  // namespace gpufence::observe
