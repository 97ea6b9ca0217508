#pragma once

/// Marks a plain loop that the compiler builds twice, for processors with and without fused multiply-add; the loader
/// picks one. Both give the same bits: std::fma rounds once either way, and the build allows no other contraction.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__)
#define ATOLL_KERNEL __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define ATOLL_KERNEL
#endif

/// Before a loop of a kernel: no iteration reads what another one writes.
#if defined(__GNUC__) && !defined(__clang__)
#define ATOLL_INDEPENDENT _Pragma("GCC ivdep")
#else
#define ATOLL_INDEPENDENT
#endif
