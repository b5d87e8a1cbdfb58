// From endpoint to group.
#include "tandem/distributed/groups/gloo_group.h"

#include <utility>

#include "tandem/distributed/groups/gloo_mesh.h"
#include "tandem/distributed/groups/gloo_transport.h"
#include "tandem/distributed/groups/queued_group.h"

namespace tandem::distributed {

namespace {

std::unique_ptr<Transport> connect(const std::string& name, const GlooEndpoint& endpoint, const GroupOptions& options) {
  auto mesh = std::make_shared<GlooMesh>(name, endpoint);
  std::shared_ptr<void> watching;
  if (options.watch)
    watching = options.watch->on_failure([&mesh](const Failure& failure) { mesh->close(failure.cause); });
  auto transport = make_gloo_transport(mesh, options.timeout);
  mesh->connect(options.timeout);
  watching.reset();
  return transport;
}

}  // namespace

std::shared_ptr<ProcessGroup> make_gloo_group(const std::string& name, const GlooEndpoint& endpoint,
                                              const GroupOptions& options) {
  if (endpoint.size < 1 || endpoint.rank < 0 || endpoint.rank >= endpoint.size)
    core::fail("group {}: no rank {} in a group of {}", name, endpoint.rank, endpoint.size);
  auto duplicate = [endpoint, options](const std::string& other) { return make_gloo_group(other, endpoint, options); };
  std::unique_ptr<Transport> transport;
  if (endpoint.size > 1) transport = connect(name, endpoint, options);
  return std::make_shared<QueuedGroup>(name, endpoint.rank, endpoint.size, options, std::move(transport),
                                       std::move(duplicate));
}

}  // namespace tandem::distributed
