// Whose a handle is: through destruction, reuse and many threads.
#include "observe/owners.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

using gpufence::observe::Call;
using gpufence::observe::Kind;
using gpufence::observe::Owner;
using gpufence::observe::Owners;

namespace {

const void* handle(std::uintptr_t n) {
  return reinterpret_cast<const void*>(0x7000'0000 + 64 * n);
}

Owner of(int device, const void* context = nullptr, const void* parent = nullptr) {
  Owner owner;
  owner.device = device;
  owner.context = context;
  owner.parent = parent;
  return owner;
}

}  // namespace

TEST(Owners, AHandleIsOfTheGpuItWasMadeOn) {
  Owners owners;
  EXPECT_FALSE(owners.find(Kind::stream, handle(1)));
  owners.remember(Kind::stream, handle(1), of(2));
  ASSERT_TRUE(owners.find(Kind::stream, handle(1)));
  EXPECT_EQ(owners.find(Kind::stream, handle(1))->device, 2);
  EXPECT_FALSE(owners.find(Kind::event, handle(1)));  // the same number as an event is another thing
}

TEST(Owners, ADestroyedHandleIsUnknownAndAReusedOneIsOfItsLastGpu) {
  Owners owners;
  owners.remember(Kind::event, handle(1), of(0));
  ASSERT_TRUE(owners.forget(Kind::event, handle(1)));
  EXPECT_FALSE(owners.find(Kind::event, handle(1)));
  EXPECT_FALSE(owners.forget(Kind::event, handle(1)));
  owners.remember(Kind::event, handle(1), of(3));
  EXPECT_EQ(owners.find(Kind::event, handle(1))->device, 3);
  owners.remember(Kind::event, handle(1), of(1));  // destroyed by a way that nobody saw
  EXPECT_EQ(owners.find(Kind::event, handle(1))->device, 1);
  EXPECT_EQ(owners.size(), 1u);
}

TEST(Owners, AContextTakesItsHandlesWithItButNotThoseOfItsSuccessor) {
  Owners owners;
  owners.remember(Kind::context, handle(9), of(1));
  owners.remember(Kind::stream, handle(1), of(1, handle(9)));
  owners.remember(Kind::event, handle(2), of(1, handle(9)));
  owners.remember(Kind::stream, handle(3), of(0, handle(8)));
  const std::uint64_t mark = owners.mark();
  // Between the driver's destruction and our forgetting, another thread gets the same handles.
  owners.remember(Kind::context, handle(9), of(2));
  owners.remember(Kind::event, handle(2), of(2, handle(9)));
  owners.forget_context(handle(9), mark);
  EXPECT_FALSE(owners.find(Kind::stream, handle(1)));
  EXPECT_EQ(owners.find(Kind::event, handle(2))->device, 2);
  EXPECT_EQ(owners.find(Kind::context, handle(9))->device, 2);
  EXPECT_EQ(owners.find(Kind::stream, handle(3))->device, 0);
}

TEST(Owners, AModuleTakesItsFunctionsWithIt) {
  Owners owners;
  owners.remember(Kind::module, handle(5), of(1));
  owners.remember(Kind::function, handle(6), of(1, nullptr, handle(5)));
  owners.remember(Kind::function, handle(7), of(1, nullptr, handle(4)));
  owners.forget_module(handle(5), owners.mark());
  EXPECT_FALSE(owners.find(Kind::module, handle(5)));
  EXPECT_FALSE(owners.find(Kind::function, handle(6)));
  EXPECT_TRUE(owners.find(Kind::function, handle(7)));
}

TEST(Owners, ANameIsKeptOnce) {
  Owners owners;
  const std::string name = "saxpy";
  const char* first = owners.interned(name);
  for (int i = 0; i < 1000; ++i) (void)owners.interned("k" + std::to_string(i));
  EXPECT_EQ(owners.interned("saxpy"), first);
  EXPECT_STREQ(first, "saxpy");
}

TEST(Owners, ThreadsThatMakeAndDestroyAtOnceNeverSeeEachOthersGpu) {
  Owners owners;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uintptr_t i = 0; i < 2000; ++i) {
        const void* mine = handle(8 * (i % 50) + static_cast<std::uintptr_t>(thread));
        owners.remember(Kind::stream, mine, of(thread, handle(1000 + static_cast<std::uintptr_t>(thread))));
        const auto found = owners.find(Kind::stream, mine);
        if (!found || found->device != thread) ++wrong;
        if (i % 3 == 0) owners.forget(Kind::stream, mine);
      }
      owners.forget_context(handle(1000 + static_cast<std::uintptr_t>(thread)), owners.mark());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(owners.size(), 0u);
}

TEST(Owners, ThousandsOfRoundsLeaveNothingBehind) {
  Owners owners;
  for (std::uintptr_t i = 0; i < 100'000; ++i) {
    owners.remember(Kind::event, handle(i), of(0));
    owners.forget(Kind::event, handle(i));
  }
  EXPECT_EQ(owners.size(), 0u);
}
