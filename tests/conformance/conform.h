// A check: one sentence of NVIDIA's documentation, held against whatever driver the process finds. The same
// body runs on the simulated machine and on a GPU, so that a failure there means that the simulator, or the
// check, is wrong. Nothing here knows of a simulator.
//
//   CONFORMS(Pools, CannotBeDestroyedIfDefault, "cuda.h, cuMemPoolDestroy: a device's default memory pool …")
//   {
//     Primary here;
//     …
//   }
//
// All checks of a program run in one process, so each cleans up behind itself. One that leaves a fault, or
// must see a process without CUDA, is CONFORMS_ALONE: its body runs in a process of its own, the same program
// again.
#pragma once
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>

// `source`: header or manual, function or chapter, and the sentence.
#define CONFORMS(group, name, source)                                                                 \
  [[maybe_unused]] static const bool stated_##group##_##name = conform::state(#group, #name, source); \
  TEST(group, name)

#define CONFORMS_ALONE(group, name, source) \
  static void alone_##group##_##name();     \
  CONFORMS(group, name, source) {           \
    conform::alone(alone_##group##_##name); \
  }                                         \
  static void alone_##group##_##name()

// What a check does in another process; it gets a socket to talk to it by. The check starts it with Partner.
#define PARTNER(name)                                                                              \
  static void partner_##name(int socket);                                                          \
  [[maybe_unused]] static const bool has_partner_##name = conform::partner(#name, partner_##name); \
  static void partner_##name(int socket)

// Leaves the check if the machine lacks something, and says what. Only in the check itself, not in functions.
#define NEEDS(condition, what) \
  if (!(condition)) GTEST_SKIP() << "needs " << (what)

namespace conform {

bool state(const char* group, const char* name, const char* source);
bool partner(const char* name, void (*body)(int socket));
void alone(void (*body)());

// Another process of this program, at the work of PARTNER(name).
class Partner {
 public:
  explicit Partner(const char* name);
  Partner(const Partner&) = delete;
  ~Partner();  // waits for it; its failures are the check's

  int socket() const { return socket_; }

 private:
  int pid_ = -1, socket_ = -1;
};

// Whole messages over such a socket.
void send_bytes(int socket, const void* bytes, size_t count);
void receive_bytes(int socket, void* bytes, size_t count);
template <class T>
void send(int socket, const T& value) {
  send_bytes(socket, &value, sizeof value);
}
template <class T>
T receive(int socket) {
  T value{};
  receive_bytes(socket, &value, sizeof value);
  return value;
}

// The program: arguments of GoogleTest; --list prints group, name and source of each check, a line each.
// `ready` says why there is nothing to run on, or gives an empty string; then the program ends with 77.
int main(int argc, char** argv, const std::function<std::string()>& ready);

}  // namespace conform
