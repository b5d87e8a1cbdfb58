// A build without MPI says so. Built only there.
#include <gtest/gtest.h>

#include "tandem/distributed/groups/mpi_group.h"
#include "tests/errors.h"

TEST(MpiGroupMissing, SaysWhatToInstall) {
  TANDEM_EXPECT_ERROR(tandem::distributed::make_mpi_group("gradients", {}, {}),
                      "group gradients: this build has no MPI; install libopenmpi-dev");
}
