// The shared books of a scope: never over, right after any death, and one clear line about whatever file is
// there. Every property that design §4 lists has a test here; the processes are children of the test.
#include "ledger/scope_book.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <concepts>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "ledger/scope_file.h"
#include "ledger/scope_path.h"

namespace gpufence::ledger {
namespace {

using Answer = ScopeBook::Answer;
using std::chrono::milliseconds;
constexpr std::uint64_t kNone = UINT64_MAX;

class Books : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/dev/shm/gpufence-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    path_ = directory_ + "/run";
  }
  void TearDown() override { std::system(("rm -rf " + directory_).c_str()); }

  std::unique_ptr<ScopeBook> opened(const std::vector<std::string>& uuids = {"GPU-a", "GPU-b"}) {
    auto book = ScopeBook::open(path_, uuids, {.patience = milliseconds(200)});
    if (!book) throw std::runtime_error(book.error());
    return *std::move(book);
  }
  std::string why_not() {
    auto book = ScopeBook::open(path_, {"GPU-a"}, {.patience = milliseconds(200)});
    return book ? "opened" : book.error();
  }

  std::string directory_, path_;
};

// A child process that does something and ends with its answer; or goes on until it is killed.
class Child {
 public:
  template <class Body>
  requires std::invocable<Body>
  explicit Child(const Body& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // whatever becomes of the test
    if constexpr (std::is_void_v<std::invoke_result_t<Body>>)
      body();
    else
      ::_exit(body());
    ::_exit(0);
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&& other) noexcept {
    if (pid_ > 0) kill();
    pid_ = std::exchange(other.pid_, -1);
    return *this;
  }
  ~Child() {
    if (pid_ > 0) kill();
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill() {
    ::kill(pid_, SIGKILL);
    end();
  }
  int end() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

// Memory that parent and children share, zero at first.
template <class T>
T* shared() {
  return static_cast<T*>(
      ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}
void wait_until(const std::function<bool()>& there) {
  while (!there()) std::this_thread::sleep_for(milliseconds(1));
}

// A process of its own with so many bytes booked on row 0, until it is ended.
Child holding(const std::string& path, std::uint64_t bytes) {
  auto* ready = shared<std::atomic<bool>>();
  Child child([=] {
    auto book = ScopeBook::open(path, {"GPU-a"});
    if (!book || (*book)->reserve(0, bytes, kNone, kNone) != Answer::booked) return 1;
    ready->store(true);
    for (;;) ::pause();
  });
  wait_until([&] { return ready->load(); });
  return child;
}

// The file as it lies there.
class File {
 public:
  explicit File(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    header_ = static_cast<Header*>(
        ::mmap(nullptr, file_bytes(kBookSlots), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    ::close(fd);
  }
  ~File() { ::munmap(header_, file_bytes(kBookSlots)); }
  Header& header() { return *header_; }
  Slot& slot(std::uint32_t at) {
    return reinterpret_cast<Slot*>(reinterpret_cast<char*>(header_) + kSlotsAt)[at];
  }
  std::uint64_t sum_of_slots(std::uint32_t row) {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < header_->highest; ++i)
      if (slot(i).used != 0) sum += slot(i).bytes[row];
    return sum;
  }

 private:
  Header* header_;
};

// ---- One process ----

TEST_F(Books, RefuseTheFirstByteThatIsTooMuch) {
  const auto book = opened();
  EXPECT_EQ(book->reserve(0, 600, 1000, kNone), Answer::booked);
  EXPECT_EQ(book->reserve(0, 401, 1000, kNone), Answer::over);
  EXPECT_EQ(book->reserve(0, 400, 1000, kNone), Answer::booked);
  EXPECT_EQ(book->reserve(0, 1, 1000, kNone), Answer::over);
  EXPECT_EQ(book->held(0), 1000u);
  EXPECT_EQ(book->held(1), 0u);
  book->release(0, 600);
  EXPECT_EQ(book->held(0), 400u);
  EXPECT_EQ(book->mine(0), 400u);
}

TEST_F(Books, LimitAllGpusTogetherToo) {
  const auto book = opened();
  EXPECT_EQ(book->reserve(0, 600, 1000, 1500), Answer::booked);
  EXPECT_EQ(book->reserve(1, 900, 1000, 1500), Answer::booked);
  EXPECT_EQ(book->reserve(1, 1, 1000, 1500), Answer::over);
  EXPECT_EQ(book->held_in_total(), 1500u);
  book->release(0, 600);
  EXPECT_EQ(book->held_in_total(), 900u);
  EXPECT_EQ(book->reserve(1, 100, 1000, 1500), Answer::booked);
}

TEST_F(Books, NoSumRunsOverTheEndOfNumbers) {
  const auto book = opened();
  EXPECT_EQ(book->reserve(0, kNone, 1000, kNone), Answer::over);
  EXPECT_EQ(book->reserve(0, 1, kNone, kNone), Answer::booked);
  EXPECT_EQ(book->reserve(0, kNone, kNone, kNone), Answer::over);
  EXPECT_EQ(book->held(0), 1u);
}

TEST_F(Books, NeverFallBelowZero) {
  const auto book = opened();
  ASSERT_EQ(book->reserve(0, 10, kNone, kNone), Answer::booked);
  book->release(0, 11);
  EXPECT_EQ(book->held(0), 0u);
  EXPECT_EQ(book->held_in_total(), 0u);
  EXPECT_EQ(book->underflows(), 1u);
}

// An ordinal means another card in another view.
TEST_F(Books, KnowGpusByUuidWhateverTheirOrder) {
  const auto one = opened({"GPU-a", "GPU-b"});
  const auto other = opened({"GPU-b", "GPU-c", "GPU-a"});
  ASSERT_EQ(one->reserve(0, 100, kNone, kNone), Answer::booked);
  ASSERT_EQ(other->reserve(0, 30, kNone, kNone), Answer::booked);
  EXPECT_EQ(other->held(2), 100u);
  EXPECT_EQ(one->held(1), 30u);
  EXPECT_EQ(one->held_in_total(), 130u);
  EXPECT_EQ(other->reserve(2, 1, 100, kNone), Answer::over);
}

TEST_F(Books, AreRightUnderThreads) {
  const auto book = opened();
  std::atomic<std::uint64_t> most{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<std::uint64_t> mine;
      for (int i = 0; i < 20000; ++i) {
        if (mine.empty() || random() % 2 == 0) {
          const std::uint64_t bytes = random() % 300;
          if (book->reserve(0, bytes, 1000, kNone) == Answer::booked) mine.push_back(bytes);
        } else {
          book->release(0, mine.back());
          mine.pop_back();
        }
        if (book->held(0) > 1000) most = book->held(0);
      }
      for (const std::uint64_t bytes : mine) book->release(0, bytes);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most.load(), 0u);
  EXPECT_EQ(book->held(0), 0u);
  EXPECT_EQ(book->underflows(), 0u);
}

// ---- Several processes ----

TEST_F(Books, AreOneForAllProcesses) {
  const auto book = opened();
  Child other = holding(path_, 700);
  EXPECT_EQ(book->held(0), 700u);
  EXPECT_EQ(book->mine(0), 0u);
  EXPECT_EQ(book->reserve(0, 301, 1000, kNone), Answer::over);
  EXPECT_EQ(book->reserve(0, 300, 1000, kNone), Answer::booked);
  const auto holders = book->holders(0);
  ASSERT_EQ(holders.size(), 2u);
  EXPECT_EQ(holders[0].pid, other.pid());
  EXPECT_EQ(holders[0].bytes, 700u);
  EXPECT_EQ(holders[1].pid, ::getpid());
  EXPECT_EQ(holders[1].bytes, 300u);
  EXPECT_NE(holders[1].name.find("test"), std::string::npos) << holders[1].name;
}

TEST_F(Books, GetADeadProcesssBytesBack) {
  const auto book = opened();
  Child other = holding(path_, 700);
  other.kill();
  EXPECT_EQ(book->held(0), 700u);  // until somebody looks
  EXPECT_EQ(book->reap(), 1u);
  EXPECT_EQ(book->held(0), 0u);
  EXPECT_EQ(book->held_in_total(), 0u);
  EXPECT_TRUE(book->holders(0).empty());
}

TEST_F(Books, LookForTheDeadWhenTheyAreOpened) {
  { Child other = holding(path_, 700); }
  EXPECT_EQ(opened()->held(0), 0u);
}

TEST_F(Books, LookForTheDeadByTheirAge) {
  const auto book = opened();
  holding(path_, 700).kill();
  book->reap_if_older(std::chrono::hours(1));
  EXPECT_EQ(book->held(0), 700u);
  book->reap_if_older(milliseconds(0));
  EXPECT_EQ(book->held(0), 0u);
}

// A process number comes back to another process; the lock of the slot does not.
TEST_F(Books, DoNotTakeAProcessNumberForAProcess) {
  const auto book = opened();
  holding(path_, 700).kill();
  File(path_).slot(1).pid = ::getpid();
  EXPECT_EQ(book->reap(), 1u);
  EXPECT_EQ(book->held(0), 0u);
}

TEST_F(Books, KeepWhatAStoppedProcessHolds) {
  const auto book = opened();
  Child other = holding(path_, 700);
  ::kill(other.pid(), SIGSTOP);
  EXPECT_EQ(book->reap(), 0u);
  EXPECT_EQ(book->held(0), 700u);
}

TEST_F(Books, KeepASlotAliveThoughEveryDescriptorIsClosed) {
  const auto book = opened();
  auto* ready = shared<std::atomic<int>>();
  Child other([&] {
    auto its = ScopeBook::open(path_, {"GPU-a"});
    if (!its) return 1;
    for (int fd = 0; fd < 1024; ++fd) ::close(fd);
    ready->store((*its)->reserve(0, 700, 1000, kNone) == Answer::booked ? 1 : 2);
    for (;;) ::pause();
  });
  wait_until([&] { return ready->load() != 0; });
  EXPECT_EQ(ready->load(), 1);
  EXPECT_EQ(book->reap(), 0u);
  EXPECT_EQ(book->held(0), 700u);
}

TEST_F(Books, EndASlotWhenItsProcessRunsAnotherProgram) {
  const auto book = opened();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Child other([&] {
    auto its = ScopeBook::open(path_, {"GPU-a"});
    if (!its || (*its)->reserve(0, 700, kNone, kNone) != Answer::booked) return 1;
    ::dup2(ends[1], STDOUT_FILENO);
    ::execl("/bin/sh", "sh", "-c", "echo here; exec sleep 1000", nullptr);
    return 1;
  });
  char here[5] = "";
  ASSERT_EQ(::read(ends[0], here, 5), 5);
  EXPECT_EQ(book->reap(), 1u);
  EXPECT_EQ(book->held(0), 0u);
  ::close(ends[0]);
  ::close(ends[1]);
}

// Children made while a process lives must not keep it alive when it is gone.
TEST_F(Books, AreNotKeptAliveByAForkedChild) {
  const auto book = opened();
  auto* grandchild = shared<std::atomic<pid_t>>();
  Child other([&] {
    auto its = ScopeBook::open(path_, {"GPU-a"});
    if (!its || (*its)->reserve(0, 700, kNone, kNone) != Answer::booked) return 1;
    const pid_t made = ::fork();
    if (made == 0)
      for (;;) ::pause();
    grandchild->store(made);
    for (;;) ::pause();
  });
  wait_until([&] { return grandchild->load() != 0; });
  EXPECT_EQ(book->reap(), 0u);
  other.kill();
  EXPECT_EQ(book->reap(), 1u);
  EXPECT_EQ(book->held(0), 0u);
  ::kill(grandchild->load(), SIGKILL);
}

// A child without fork's handlers (a raw clone) has neither the mapping nor the slot, and takes one of its
// own.
TEST_F(Books, GiveAClonedChildASlotOfItsOwn) {
  const auto book = opened();
  ASSERT_EQ(book->reserve(0, 300, 1000, kNone), Answer::booked);
  auto* seen = shared<std::array<std::atomic<std::uint64_t>, 3>>();
  Child other([&] {
    // fork here has no handlers of ours, as a raw clone has none.
    (*seen)[0] = book->held(0);
    if (book->reserve(0, 701, 1000, kNone) != Answer::over) return 1;
    if (book->reserve(0, 700, 1000, kNone) != Answer::booked) return 2;
    (*seen)[1] = book->mine(0);
    (*seen)[2] = book->held(0);
    return 0;
  });
  EXPECT_EQ(other.end(), 0);
  EXPECT_EQ((*seen)[0], 300u);
  EXPECT_EQ((*seen)[1], 700u);
  EXPECT_EQ((*seen)[2], 1000u);
  EXPECT_EQ(book->mine(0), 300u);
  EXPECT_EQ(book->reap(), 1u);
  EXPECT_EQ(book->held(0), 300u);
}

// vfork's children, and clone's with the parent's memory, are the parent.
TEST_F(Books, TakeAChildThatSharesTheMemoryForItsParent) {
  const auto book = opened();
  static ScopeBook* its;
  its = book.get();
  std::vector<char> stack(1 << 16);
  const pid_t child =
      ::clone([](void*) { return its->reserve(0, 300, 1000, kNone) == Answer::booked ? 0 : 1; },
              stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr);
  ASSERT_GT(child, 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(book->reap(), 0u);
  EXPECT_EQ(book->mine(0), 300u);
}

// ---- Death within a change ----

TEST_F(Books, ArePutRightWhenTheMutexsHolderDied) {
  const auto book = opened();
  ASSERT_EQ(book->reserve(0, 100, kNone, kNone), Answer::booked);
  Child other([&] {
    auto its = ScopeBook::open(path_, {"GPU-a"});
    File file(path_);
    pthread_mutex_lock(&file.header().mutex);
    file.slot(1).bytes[0] = 500;  // a change that did not come to its end: no total has it
    file.header().row[0].bytes = 77;
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(other.end(), 128 + SIGKILL);
  // The first who comes upon it counts anew: what the dead one holds counts until it is known to be dead.
  EXPECT_EQ(book->reserve(0, 401, 1000, kNone), Answer::over);
  EXPECT_EQ(book->held(0), 600u);
  EXPECT_EQ(book->held_in_total(), 600u);
  EXPECT_EQ(book->reap(), 1u);
  EXPECT_EQ(book->held(0), 100u);
  EXPECT_EQ(book->held_in_total(), 100u);
}

// Processes that book and give back are killed at random instants; after each death the living add up to the
// total, which is never over the cap.
TEST_F(Books, AreRightAfterThousandsOfKills) {
  constexpr std::uint64_t kCap = 1000, kFailed = kNone / 2;
  const auto book = opened();
  ASSERT_EQ(book->reserve(0, 100, kCap, kNone), Answer::booked);
  File file(path_);
  const auto work = [&](unsigned seed, std::atomic<std::uint64_t>* steps) {
    auto its = ScopeBook::open(path_, {"GPU-a", "GPU-b"});
    if (!its) {
      std::fprintf(stderr, "%s\n", its.error().c_str());
      steps->store(kFailed);
      return 1;
    }
    std::mt19937 random(seed);
    std::vector<std::uint64_t> mine;
    for (;;) {
      steps->fetch_add(1, std::memory_order_relaxed);
      if (mine.empty() || random() % 2 == 0) {
        const std::uint64_t bytes = 1 + random() % 300;
        if ((*its)->reserve(0, bytes, kCap, kNone) == Answer::booked) mine.push_back(bytes);
      } else {
        (*its)->release(0, mine.back());
        mine.pop_back();
      }
    }
  };
  auto* steps = shared<std::array<std::atomic<std::uint64_t>, 3>>();
  std::vector<Child> children;
  unsigned seed = 0;
  for (std::size_t i = 0; i < 3; ++i)
    children.emplace_back([&, i] { return work(++seed * 7 + static_cast<unsigned>(i), &(*steps)[i]); });
  std::mt19937 random(1);
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr int kKills = 300;
#else
  constexpr int kUsually = 300;
  const char* asked = std::getenv("GPUFENCE_TEST_KILLS");  // for a long look
  const int kKills = asked != nullptr ? std::atoi(asked) : kUsually;
#endif
  for (int kill = 0; kill < kKills; ++kill) {
    const std::size_t victim = random() % 3;
    const std::uint64_t from = (*steps)[victim].load();
    wait_until([&] { return (*steps)[victim].load() > from; });
    const std::uint64_t until = (*steps)[victim].load() + random() % 50;
    while ((*steps)[victim].load() < until) ::sched_yield();
    ASSERT_LT((*steps)[victim].load(), kFailed);
    children[victim].kill();
    book->reap();
    // Under the mutex nobody is within a change.
    int taken = pthread_mutex_lock(&file.header().mutex);
    if (taken == EOWNERDEAD) {
      pthread_mutex_unlock(
          &file.header().mutex);  // left to the books themselves: inconsistent is unlocked for good
      FAIL() << "reap() left a dead owner";
    }
    ASSERT_EQ(taken, 0);
    const std::uint64_t total = file.header().row[0].bytes, slots = file.sum_of_slots(0),
                        all = file.header().total;
    pthread_mutex_unlock(&file.header().mutex);
    ASSERT_EQ(total, slots) << "after kill " << kill;
    ASSERT_EQ(total, all);
    ASSERT_LE(total, kCap);
    (*steps)[victim] = 0;
    children[victim] = Child([&] { return work(static_cast<unsigned>(kill) + 100, &(*steps)[victim]); });
  }
  children.clear();
  book->reap();
  EXPECT_EQ(book->held(0), 100u);
  EXPECT_EQ(book->held_in_total(), 100u);
}

TEST_F(Books, AreNeverGoneOnWithUnlocked) {
  const auto book = opened();
  ASSERT_EQ(book->reserve(0, 100, kNone, kNone), Answer::booked);
  auto* ready = shared<std::atomic<bool>>();
  Child other([&] {
    auto its = ScopeBook::open(path_, {"GPU-a"});
    (*its)->release(0, 0);  // who had the mutex last
    File file(path_);
    pthread_mutex_lock(&file.header().mutex);
    ready->store(true);
    ::raise(SIGSTOP);
    pthread_mutex_unlock(&file.header().mutex);
    for (;;) ::pause();
  });
  wait_until([&] { return ready->load(); });
  EXPECT_EQ(book->reserve(0, 1, kNone, kNone), Answer::no_answer);
  EXPECT_EQ(book->holder().pid, other.pid());
  book->release(0, 40);  // the program's memory is gone, whatever the books say now
  EXPECT_EQ(book->held(0), 100u);
  EXPECT_NE(why_not().find(": is held by pid " + std::to_string(other.pid()) + ", which does not go on"),
            std::string::npos);
  ::kill(other.pid(), SIGCONT);
  wait_until([&] { return book->reserve(0, 0, kNone, kNone) == Answer::booked; });
  EXPECT_EQ(book->held(0), 60u);
  EXPECT_EQ(book->underflows(), 0u);
}

// ---- Crowds ----

TEST_F(Books, HaveRoomForAThousandProcesses) {
  const auto book = opened();
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr int kProcesses = 100;
#else
  constexpr int kProcesses = 1000;
#endif
  auto* there = shared<std::atomic<int>>();
  auto* failed = shared<std::atomic<int>>();
  std::vector<Child> children;
  for (int i = 0; i < kProcesses; ++i)
    children.emplace_back([&] {
      auto its = ScopeBook::open(path_, {"GPU-a"});
      if (!its) {
        std::fprintf(stderr, "%s\n", its.error().c_str());
        failed->store(1);
        return 1;
      }
      if ((*its)->reserve(0, 1, 10000, kNone) != Answer::booked) failed->store(2);
      there->fetch_add(1);
      for (;;) ::pause();
    });
  wait_until([&] { return there->load() == kProcesses || failed->load() != 0; });
  ASSERT_EQ(failed->load(), 0);
  EXPECT_EQ(book->held(0), static_cast<std::uint64_t>(kProcesses));
  EXPECT_EQ(book->reap(), 0u);
  children.clear();
  EXPECT_EQ(book->reap(), static_cast<std::size_t>(kProcesses));
  EXPECT_EQ(book->held(0), 0u);
}

TEST_F(Books, SayWhenAllSlotsAreTakenAndTakeThoseOfTheDead) {
  const auto book = opened();
  std::vector<std::unique_ptr<ScopeBook>> all;
  for (std::size_t i = 1; i < kBookSlots; ++i) {
    auto one = ScopeBook::open(path_, {"GPU-a"});
    if (!one) GTEST_SKIP() << one.error();  // a limit of memory or of mappings
    all.push_back(*std::move(one));
  }
  EXPECT_EQ(why_not(),
            path_ + ": all of its 4096 slots are taken; end processes of this scope, or make room there");
  all.pop_back();
  EXPECT_EQ(why_not(), "opened");
}

// ---- What may lie at the path ----

TEST_F(Books, WereMadeForTheirOwnerAlone) {
  const auto book = opened();
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  ::chmod(path_.c_str(), 0666);
  EXPECT_EQ(why_not(), path_ + ": can be opened by others; remove it, or chmod it to what gpufence makes");
}

TEST_F(Books, SayWhatIsWrongWithAForeignFile) {
  std::ofstream(path_) << "not ours";
  ::chmod(path_.c_str(), 0600);
  EXPECT_EQ(why_not(),
            path_ + ": is no ledger of gpufence, or cut off; remove it when nothing runs that uses it");
  std::ofstream(path_) << std::string(1 << 20, 'x');
  EXPECT_EQ(why_not(), path_ + ": is no ledger of gpufence; remove it");
  ::unlink(path_.c_str());
  ASSERT_EQ(::symlink("/etc/passwd", path_.c_str()), 0);
  EXPECT_EQ(why_not(), path_ + ": is a symbolic link; remove it");
  ::unlink(path_.c_str());
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(why_not(), path_ + ": is no ordinary file; remove it");
}

TEST_F(Books, SayWhenTheyAreCutOffOrOfAnotherVersion) {
  opened();
  File(path_).header().version = 2;
  EXPECT_EQ(why_not(),
            path_ + ": was made by another version of gpufence; remove it when nothing runs that uses it");
  File(path_).header().version = 1;
  EXPECT_EQ(why_not(), "opened");
  File(path_).header().slots = 64;
  EXPECT_EQ(why_not(), path_ + ": is cut off or damaged; remove it when nothing runs that uses it");
}

TEST_F(Books, SayWhereNoneCanBeMade) {
  path_ = directory_ + "/missing/run";
  EXPECT_EQ(why_not(),
            path_ +
                ": can't be made (No such file or directory); set GPUFENCE_LEDGER_DIR to a directory "
                "that can be written to");
}

// A full tmpfs lets a file grow, and kills at the first touch.
TEST_F(Books, SayThatADirectoryIsFullInsteadOfDying) {
  Child other([&] {
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 77;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
    if (::mount("tmpfs", directory_.c_str(), "tmpfs", 0, "size=16k") != 0) return 77;
    const std::string full = why_not();
    if (full != path_ + ": can't be made (No space left on device); make room there") return 1;
    if (::access(path_.c_str(), F_OK) == 0) return 2;
    // Room for the first slots and not for more.
    if (::mount("tmpfs", directory_.c_str(), "tmpfs", MS_REMOUNT,
                ("size=" + std::to_string(file_bytes(kFirstSlots))).c_str()) != 0)
      return 77;
    std::vector<std::unique_ptr<ScopeBook>> all;
    for (std::uint32_t i = 0; i < kFirstSlots; ++i) {
      auto one = ScopeBook::open(path_, {"GPU-a"});
      if (!one) return 3;
      all.push_back(*std::move(one));
    }
    if (why_not().find(": can't grow (No space left on device)") == std::string::npos) return 4;
    return all.front()->reserve(0, 1, 1, 1) == Answer::booked ? 0 : 5;
  });
  const int end = other.end();
  if (end == 77) GTEST_SKIP() << "no mounts here";
  EXPECT_EQ(end, 0);
}

// A logout removes what a user has in /dev/shm. Two files under one cap would be two sums.
TEST_F(Books, MoveToTheNewFileWhenTheirsWasRemoved) {
  const auto book = opened();
  ASSERT_EQ(book->reserve(0, 600, 1000, kNone), Answer::booked);
  ::unlink(path_.c_str());
  const auto next = opened();
  ASSERT_EQ(next->reserve(0, 100, 1000, kNone), Answer::booked);
  EXPECT_EQ(next->held(0), 100u);
  book->reap();
  EXPECT_EQ(next->held(0), 700u);
  EXPECT_EQ(book->held(0), 700u);
  EXPECT_EQ(next->reserve(0, 301, 1000, kNone), Answer::over);
  book->release(0, 600);
  EXPECT_EQ(next->held(0), 100u);
  EXPECT_EQ(next->underflows() + book->underflows(), 0u);
}

TEST_F(Books, FindThatOutByThemselves) {
  const auto book = opened();
  ASSERT_EQ(book->reserve(0, 600, 1000, kNone), Answer::booked);
  ::unlink(path_.c_str());
  const auto next = opened();
  wait_until([&] { return book->reserve(0, 0, 1000, kNone) == Answer::booked && next->held(0) == 600; });
  EXPECT_EQ(next->reserve(0, 401, 1000, kNone), Answer::over);
}

// Whoever held the mutex of a file from before the machine's start will never give it back.
TEST_F(Books, AreMadeAnewAfterAStartOfTheMachine) {
  {
    const auto old = opened();
    ASSERT_EQ(old->reserve(0, 600, 1000, kNone), Answer::booked);
    File file(path_);
    std::memset(file.header().boot, 'x', 8);
    pthread_mutex_lock(&file.header().mutex);
    EXPECT_EQ(opened()->held(0), 0u);
    pthread_mutex_unlock(&file.header().mutex);
  }
  EXPECT_EQ(opened()->held(0), 0u);
}

// Two processes that meet at a path without a file make one file.
TEST_F(Books, AreMadeOnce) {
  for (int round = 0; round < 50; ++round) {
    ::unlink(path_.c_str());
    auto* start = shared<std::atomic<bool>>();
    std::vector<Child> children;
    for (int i = 0; i < 4; ++i)
      children.emplace_back([&] {
        while (!start->load()) {
        }
        auto its = ScopeBook::open(path_, {"GPU-a"});
        if (!its || (*its)->reserve(0, 1, kNone, kNone) != Answer::booked) ::_exit(1);
        its->release();  // held until death
        start->store(true);
        for (;;) ::pause();
      });
    start->store(true);
    const auto book = opened();
    wait_until([&] { return book->held(0) == 4; });
  }
}

// ---- Namespaces ----

// Thread ids are equal there; a lock that compared them would take one process for another.
TEST_F(Books, HoldBetweenPidNamespaces) {
  const auto book = opened();
  auto* state = shared<std::atomic<int>>();
  Child outer([&] {
    if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) {
      state->store(77);
      return 0;
    }
    Child inner([&] {
      auto its = ScopeBook::open(path_, {"GPU-a"});
      if (!its) return 1;
      if ((*its)->reserve(0, 700, 1000, kNone) != Answer::booked) return 2;
      state->store(1);
      wait_until([&] { return state->load() == 2; });
      (*its)->release(0, 100);
      state->store(3);
      for (;;) ::pause();
    });
    wait_until([&] { return state->load() == 4; });
    inner.kill();
    state->store(5);
    for (;;) ::pause();
  });
  wait_until([&] { return state->load() != 0; });
  if (state->load() == 77) GTEST_SKIP() << "no namespaces here";
  EXPECT_EQ(book->held(0), 700u);
  EXPECT_EQ(book->reap(), 0u);  // alive, though its number here is another
  EXPECT_EQ(book->reserve(0, 301, 1000, kNone), Answer::over);
  state->store(2);
  wait_until([&] { return state->load() == 3; });
  EXPECT_EQ(book->held(0), 600u);
  state->store(4);
  wait_until([&] { return state->load() == 5; });
  EXPECT_EQ(book->reap(), 1u);
  EXPECT_EQ(book->held(0), 0u);
}

// ---- Readers, and what is left behind ----

TEST_F(Books, CanBeReadWithoutTakingPart) {
  EXPECT_TRUE(ScopeBook::read(path_)->rows.empty());
  const auto book = opened({"GPU-b"});
  ASSERT_EQ(book->reserve(0, 5, kNone, kNone), Answer::booked);
  Child other = holding(path_, 700);
  { Child dead = holding(path_, 90); }
  const auto reading = ScopeBook::read(path_);
  ASSERT_TRUE(reading);
  ASSERT_EQ(reading->rows.size(), 2u);
  EXPECT_EQ(reading->rows[0].uuid, "GPU-b");
  EXPECT_EQ(reading->rows[0].bytes, 5u);
  EXPECT_EQ(reading->rows[1].uuid, "GPU-a");
  EXPECT_EQ(reading->rows[1].bytes, 700u);
  ASSERT_EQ(reading->rows[1].holders.size(), 1u);
  EXPECT_EQ(reading->rows[1].holders[0].pid, other.pid());
  std::ofstream(path_ + "2") << "x";
  EXPECT_EQ(ScopeBook::read(path_ + "2").error(),
            path_ + "2: is no ledger of gpufence, or cut off; remove it when nothing runs that uses it");
}

TEST_F(Books, OfRunsAreRemovedWhenNobodyLivesInThem) {
  const auto name = [&](const char* run) { return scope_path(directory_, kRunKind, 1000, run); };
  path_ = name("dead");
  { Child child = holding(path_, 1); }
  Child alive = holding(name("alive"), 1);
  Child another = holding(scope_path(directory_, kRunKind, 1001, "dead"), 1);
  another.kill();
  sweep_runs(directory_, 1000, 16);
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
  EXPECT_EQ(::access(name("alive").c_str(), F_OK), 0);
  EXPECT_EQ(::access(scope_path(directory_, kRunKind, 1001, "dead").c_str(), F_OK), 0);
  EXPECT_EQ(ScopeBook::read(name("alive"))->rows[0].bytes, 1u);
}

// Whoever comes while another removes what he takes for dead must not be left in a file that is no more.
TEST_F(Books, AreNotLostToWhoeverSweepsThem) {
  auto* stop = shared<std::atomic<bool>>();
  Child sweeper([&] {
    while (!stop->load()) ScopeBook::remove_if_dead(path_);
  });
  for (int round = 0; round < 300; ++round) {
    const auto book = opened();
    ASSERT_EQ(book->reserve(0, 7, kNone, kNone), Answer::booked);
    ASSERT_EQ(ScopeBook::read(path_)->rows.at(0).bytes, 7u) << round;
  }
  stop->store(true);
  sweeper.end();
}

TEST(ScopePath, IsOneForEachUserKindAndName) {
  EXPECT_EQ(scope_path("/dev/shm", "run", 1000, "20301130-184501-12"),
            "/dev/shm/gpufence-1000-run-20301130-184501-12");
  EXPECT_EQ(scope_path("/dev/shm", "run", 1000, "a/b"), "/dev/shm/gpufence-1000-run-a+b");
  EXPECT_EQ(scope_path("/d", "group", 1000, "students"), "/d/gpufence-group-students");
  const std::string odd = scope_path("/d", "job", 1, "a b"), other = scope_path("/d", "job", 1, "a_b");
  EXPECT_EQ(odd.find("/d/gpufence-1-job-a_b-"), 0u);
  EXPECT_EQ(other, "/d/gpufence-1-job-a_b");
  EXPECT_NE(scope_path("/d", "job", 1, std::string(300, 'x')),
            scope_path("/d", "job", 1, std::string(301, 'x')));
  EXPECT_LT(scope_path("/d", "job", 1, std::string(300, 'x')).size(), 255u);
}

TEST(ScopePath, KnowsAUserByTheHostsNumber) {
  constexpr const char* kHost = "         0          0 4294967295\n";
  EXPECT_EQ(host_user(kHost, 1000), 1000u);
  constexpr const char* kContainer = "         0     100000      65536\n";
  EXPECT_EQ(host_user(kContainer, 0), 100000u);
  EXPECT_EQ(host_user(kContainer, 1000), 101000u);
  EXPECT_EQ(host_user("0 1000 1\n1 100000 65536\n", 0), 1000u);
  EXPECT_EQ(host_user("0 1000 1\n1 100000 65536\n", 5), 100004u);
  EXPECT_EQ(host_user("", 7), 7u);
}

TEST(ScopePath, TakesTheDirectoryThatIsAskedFor) {
  EXPECT_EQ(ledger_directory("/some/where"), "/some/where");
  const std::string otherwise = ::access("/run/gpufence", W_OK | X_OK) == 0 ? "/run/gpufence" : "/dev/shm";
  EXPECT_EQ(ledger_directory("relative"), otherwise);
  EXPECT_EQ(ledger_directory(std::nullopt), otherwise);
}

}  // namespace
}  // namespace gpufence::ledger
