// Gloo as its users call it.
#include "tools/bench/gloo_peer.h"

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <vector>

#include "tandem/core/error.h"

namespace tandem::bench {

namespace {

constexpr distributed::Milliseconds kTimeout{60000};

class StoreAdapter final : public gloo::rendezvous::Store {
 public:
  explicit StoreAdapter(distributed::Store& store) : store_(store) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.set(prefixed(key), std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const auto value = store_.get(prefixed(key), kTimeout);
    if (!value) core::fail("allreduce: Gloo's rendezvous: no {} after {} ms", key, kTimeout.count());
    return {value->begin(), value->end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }

 private:
  static std::string prefixed(const std::string& key) { return "bench/gloo/" + key; }

  distributed::Store& store_;
};

template <class T>
void reduce(const std::shared_ptr<gloo::Context>& context, T* data, std::size_t numel) {
  gloo::AllreduceOptions options(context);
  options.setOutput(data, numel);
  options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<T>));
  gloo::allreduce(options);
}

}  // namespace

struct GlooPeer::Implementation {
  std::shared_ptr<gloo::rendezvous::Context> context;
};

GlooPeer::GlooPeer(distributed::World& world, const std::string& address)
    : implementation_(std::make_unique<Implementation>()) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = address;
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  implementation_->context = std::make_shared<gloo::rendezvous::Context>(world.rank(), world.size());
  implementation_->context->setTimeout(kTimeout);
  StoreAdapter store(world.store());
  implementation_->context->connectFullMesh(store, device);
}

GlooPeer::~GlooPeer() = default;

void GlooPeer::all_reduce(float* data, std::size_t numel) { reduce(implementation_->context, data, numel); }
void GlooPeer::all_reduce(double* data, std::size_t numel) { reduce(implementation_->context, data, numel); }

}  // namespace tandem::bench
