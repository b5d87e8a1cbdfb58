// Each rank opens one port for each other rank, publishes their addresses under its number, and connects. Gloo's own
// connectFullMesh does the same, but cannot be stopped and does not say who is missing.
#include "tandem/distributed/groups/gloo_mesh.h"

#include <fmt/format.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tandem/distributed/error.h"

namespace tandem::distributed {

namespace {

// How often a wait looks whether it was closed meanwhile.
constexpr Milliseconds kLook{200};

Milliseconds until(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, Milliseconds(0));
}

}  // namespace

std::string gloo_reason(const std::exception& error) {
  std::string reason = error.what();
  if (const auto end = reason.find("] "); !reason.empty() && reason.front() == '[' && end != std::string::npos)
    reason.erase(0, end + 2);
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  return reason;
}

GlooMesh::GlooMesh(std::string group, GlooEndpoint endpoint)
    : group_(std::move(group)), endpoint_(std::move(endpoint)) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = endpoint_.address;
  try {
    device_ = gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& error) {
    core::fail("group {}: rank {} cannot listen on its address {}: {}", group_, endpoint_.rank, endpoint_.address,
               gloo_reason(error));
  }
  for (auto& context : contexts_) context = device_->createContext(endpoint_.rank, endpoint_.size);
}

void GlooMesh::connect(Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  {
    const std::lock_guard lock(mutex_);
    throw_if_closed();
    for (auto& context : contexts_) {
      context->setTimeout(std::max(timeout / 5, Milliseconds(1)));  // a pair waits five times this to be connected
      for (int peer = 0; peer < endpoint_.size; ++peer)
        if (peer != endpoint_.rank) context->createPair(peer);
    }
  }
  publish_addresses();
  for (int peer = 0; peer < endpoint_.size; ++peer) {
    if (peer == endpoint_.rank) continue;
    const std::string addresses = wait_for_addresses(peer, deadline);
    if (addresses.empty()) throw_missing(timeout);
    const std::size_t length = address_length(), expected = length * static_cast<std::size_t>(endpoint_.size) * 2;
    if (addresses.size() != expected)
      core::fail("group {}: rank {} published {} bytes of addresses, expected {}", group_, peer, addresses.size(),
                 expected);
    const auto* own = addresses.data() + length * static_cast<std::size_t>(endpoint_.rank) * 2;
    try {
      for (auto& context : contexts_) {
        context->getPair(peer)->connect(std::vector<char>(own, own + length));
        own += length;
      }
    } catch (const std::exception& error) {
      throw_if_closed();
      throw PeerError(fmt::format("group {}: rank {} could not connect to rank {}: {}", group_, endpoint_.rank, peer,
                                  gloo_reason(error)));
    }
    throw_if_closed();
  }
}

std::size_t GlooMesh::address_length() {
  return contexts_[0]->getPair(endpoint_.rank == 0 ? 1 : 0)->address().bytes().size();
}

// Two addresses of equal length for each rank, in the order of contexts.
void GlooMesh::publish_addresses() {
  std::string addresses;
  for (int peer = 0; peer < endpoint_.size; ++peer) {
    for (auto& context : contexts_) {
      if (peer == endpoint_.rank) {
        addresses.append(address_length(), '\0');
      } else {
        const std::vector<char> bytes = context->getPair(peer)->address().bytes();
        addresses.append(bytes.begin(), bytes.end());
      }
    }
  }
  endpoint_.store->set(key(endpoint_.rank), addresses);
}

std::string GlooMesh::wait_for_addresses(int peer, Clock::time_point deadline) {
  while (true) {
    const Milliseconds left = until(deadline);
    if (auto value = endpoint_.store->get(key(peer), std::min(left, kLook))) return *value;
    throw_if_closed();
    if (left == Milliseconds(0)) return "";
  }
}

void GlooMesh::throw_missing(Milliseconds timeout) {
  std::string missing;
  for (int peer = 0; peer < endpoint_.size; ++peer) {
    if (peer == endpoint_.rank || endpoint_.store->get(key(peer), Milliseconds(0))) continue;
    missing += (missing.empty() ? "" : ", ") + std::to_string(peer);
  }
  throw TimeoutError(fmt::format("group {}: after {} s rank {} still waits for rank {} to come", group_,
                                 static_cast<double>(timeout.count()) / 1000, endpoint_.rank, missing));
}

void GlooMesh::throw_if_closed() {
  if (is_closed_) throw PeerError(fmt::format("group {}: {}", group_, cause_));
}

void GlooMesh::close(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
  cause_ = cause;
  is_closed_ = true;
  for (int peer = 0; peer < endpoint_.size; ++peer) {
    if (peer == endpoint_.rank) continue;
    for (auto& context : contexts_)
      if (const auto& pair = context->getPair(peer)) pair->close();
  }
}

std::string GlooMesh::key(int rank) const { return fmt::format("groups/{}/{}", group_, rank); }

}  // namespace tandem::distributed
