// Read by AddressSanitizer where the tests are built with it; without it nothing calls these.

// HDF5 asks for as much memory as a damaged file claims, and bears being refused.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

// When a file cannot be closed because the disk is full, HDF5 forgets the memory of its metadata cache.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5\n"; }
