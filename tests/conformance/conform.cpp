// How checks are listed, run in processes of their own, and told with their sources. It makes no CUDA call.
#include "conform.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

namespace conform {
namespace {

struct Statement {
  std::string group, name, source;
};

// Filled by constructors of other files, so made at its first use.
std::vector<Statement>& statements() {
  static std::vector<Statement> all;
  return all;
}

std::map<std::string, void (*)(int)>& partners() {
  static std::map<std::string, void (*)(int)> all;
  return all;
}

constexpr int kSkipped = 77;
bool is_alone = false;

const std::string* source_of(const testing::TestInfo& test) {
  for (const Statement& s : statements())
    if (s.group == test.test_suite_name() && s.name == test.name()) return &s.source;
  return nullptr;
}

// Sources into the report, and beside each failure; reasons of skips, which GoogleTest's report leaves out.
class Sources : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    if (const std::string* source = source_of(test)) testing::Test::RecordProperty("source", *source);
  }
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (part.skipped()) testing::Test::RecordProperty("skipped", part.message());
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    const std::string* source = source_of(test);
    if (test.result()->Failed() && source != nullptr) printf("  source: %s\n", source->c_str());
    fflush(stdout);
  }
};

// The program again, with these arguments; `socket` stays open in it if it is one, `out` takes what it
// prints.
pid_t again(std::vector<std::string> arguments, int socket, int out) {
  static const char kProgram[] = "/proc/self/exe";
  arguments.insert(arguments.begin(), kProgram);
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  fflush(nullptr);
  const pid_t pid = fork();  // nothing between here and exec but the descriptors: CUDA may be live
  if (pid != 0) return pid;
  if (socket >= 0) fcntl(socket, F_SETFD, 0);
  if (out >= 0) {
    dup2(out, 1);
    dup2(out, 2);
  }
  execv(kProgram, argv.data());
  _exit(127);
}

int status_of(pid_t pid) {
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_alone(const std::string& check) {
  is_alone = true;
  testing::GTEST_FLAG(filter) = check;
  const int status = RUN_ALL_TESTS();
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  if (all.test_to_run_count() != 1) return 127;
  return status == 0 && all.skipped_test_count() == 1 ? kSkipped : status;
}

int run_partner(const std::string& name, int socket) {
  const auto found = partners().find(name);
  if (found == partners().end()) return 127;
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  found->second(socket);
  fflush(nullptr);
  return testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 1 : 0;
}

void list() {
  for (const Statement& s : statements())
    printf("%s\t%s\t%s\n", s.group.c_str(), s.name.c_str(), s.source.c_str());
}

}  // namespace

bool state(const char* group, const char* name, const char* source) {
  statements().push_back({group, name, source});
  return true;
}

bool partner(const char* name, void (*body)(int)) {
  return partners().emplace(name, body).second;
}

void alone(void (*body)()) {
  if (is_alone) return body();
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t pid = again({"--alone", std::string(test.test_suite_name()) + "." + test.name()}, -1, ends[1]);
  close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  const int status = status_of(pid);
  if (status == kSkipped) {
    const size_t at = said.find("needs ");
    GTEST_SKIP() << (at == std::string::npos ? said : said.substr(at, said.find('\n', at) - at));
  }
  EXPECT_EQ(status, 0) << said;
}

Partner::Partner(const char* name) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) abort();
  pid_ = again({"--partner", name, std::to_string(ends[1])}, ends[1], -1);
  close(ends[1]);
  socket_ = ends[0];
}

Partner::~Partner() {
  close(socket_);
  EXPECT_EQ(status_of(pid_), 0) << "the other process failed";
}

void send_bytes(int socket, const void* bytes, size_t count) {
  ASSERT_EQ(::send(socket, bytes, count, MSG_NOSIGNAL), static_cast<ssize_t>(count));
}

void receive_bytes(int socket, void* bytes, size_t count) {
  ASSERT_EQ(recv(socket, bytes, count, MSG_WAITALL), static_cast<ssize_t>(count))
      << "the other process is gone";
}

int main(int argc, char** argv, const std::function<std::string()>& ready) {
  testing::InitGoogleTest(&argc, argv);
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "--list") {
    list();
    return 0;
  }
  if (what == "--partner" && argc == 4) return run_partner(argv[2], atoi(argv[3]));
  testing::UnitTest::GetInstance()->listeners().Append(new Sources);  // GoogleTest owns it
  if (what == "--alone" && argc == 3) return run_alone(argv[2]);
  if (const std::string why = ready(); !why.empty()) {
    printf("nothing to check on: %s\n", why.c_str());
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}

}  // namespace conform
