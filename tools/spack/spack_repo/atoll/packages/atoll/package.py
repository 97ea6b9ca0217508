from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Atoll(CMakePackage):
    """Trains one language model across a federation of supercomputers.

    Every site runs its own batch job; the jobs exchange pseudo-gradients through MPI windows over slow, unreliable
    links, and none of them ever waits for a dead one.
    """

    tags = ["ai", "mpi"]

    license("BSD-3-Clause", checked_by="atoll")

    version("main", branch="main")

    variant("tests", default=False, description="Build the tests")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")

    # ULFM is built into Open MPI 5; other MPI libraries have no MPIX_Comm_get_failed.
    depends_on("openmpi@5:")
    depends_on("hdf5@1.14: +hl ~mpi")
    depends_on("boost@1.74: +program_options")
    depends_on("nlohmann-json@3.11:")
    depends_on("libsodium")
    depends_on("xxhash@0.8:")
    depends_on("sentencepiece")
    depends_on("py-torch@2.6: +openmp")
    depends_on("kokkos@5: +openmp cxxstd=20")
    depends_on("googletest +gmock", when="+tests", type=("build", "test"))

    # Tools and tests written in Python.
    depends_on("python@3.11:", type=("run", "test"))
    depends_on("py-h5py", type=("run", "test"))
    depends_on("py-matplotlib", type=("run", "test"))
    depends_on("py-pyyaml", type="test")

    conflicts("%gcc@:12", msg="Atoll is written in C++20 with std::format")

    generator("ninja")

    def cmake_args(self):
        torch = join_path(self.spec["py-torch"].package.cmake_prefix_paths[0], "Torch")
        return [
            self.define_from_variant("ATOLL_TESTS", "tests"),
            self.define("ATOLL_WARNINGS_AS_ERRORS", False),
            self.define("Torch_DIR", torch),
        ]

    def check(self):
        if self.spec.satisfies("+tests"):
            with working_dir(self.build_directory):
                ctest("-L", "unit", "--output-on-failure", "--no-tests=error")

    def test_help(self):
        """the installed program starts and explains itself"""
        atoll = which(self.prefix.bin.atoll)
        out = atoll("--help", output=str.split, error=str.split)
        for word in ("tokenize", "island", "links"):
            check_outputs(word, out)
