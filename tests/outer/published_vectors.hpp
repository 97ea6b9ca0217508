#pragma once

#include <array>

// Numbers of other projects' tests (facts, typed in): PCP, forgather, Flower and RobustDiLoCo as in vectors.json,
// torchft's trajectories by the index of their alpha. tests/outer/published.test.cpp compares them with the files they
// come from where those lie beside the repository.
namespace Atoll::outer::published {

inline constexpr const char* vectors = R"({
 "pcp": {
  "token_step_weight": {"cases": [[10, 2, 50.0], [10, 0, 100.0], [0, 5, 0.0]]},
  "direct_merge": {"tol": 1e-06, "cases": [
   {"global": [10, 20, 30], "learners": [[9, 18, 33], [7, 24, 27]], "weights": [1, 1], "out": [2.0, -1.0, 0.0]},
   {"global": [10, 20], "learners": [[5, 10], [-100, -100]], "weights": [2, 0], "out": [5.0, 10.0]},
   {"global": [5], "learners": [[3], [1]], "weights": [100, 50], "out": [2.6666667]}]},
  "rda_merge": {"tol": 1e-06, "cases": [
   {"global": [2, 3], "learners": [[1, 1], [1, 1]], "weights": [1, 1], "out": [1.0, 2.0]},
   {"global": [0, 0], "learners": [[-1, 0], [0, -1]], "weights": [1, 1], "out": [0.70710677, 0.70710677]},
   {"global": [0, 0], "learners": [[-2, 0], [0, -2]], "weights": [3, 1], "out": [1.8973666, 0.6324555]},
   {"global": [1, 1], "learners": [[1, 1], [1, 1]], "weights": [1, 2], "out": [0.0, 0.0]},
   {"global": [1, 1], "learners": [[1, 1], [0, 1]], "weights": [1, 1], "out": [0.5, 0.0]},
   {"global": [0, 0], "learners": [[-2, 0], [0, -2]], "weights": [100, 50], "out": [1.78885436, 0.89442718]},
   {"global": [0, 0], "learners": [[-1, -1], [-1, 1]], "weights": [1, 1], "out": [1.41421356, 0.0]},
   {"global": [0, 0], "learners": [[-1, 0], [1, 0]], "weights": [1, 1], "out": [0.0, 0.0]}]},
  "fragments": {"cases": [
   {"strategy": "strided", "sizes": [2, 3, 4, 5, 6], "n": 3, "owner": [0, 1, 2, 0, 1], "bytes0": 28,
    "offset_of_tensor3_in_0": 8},
   {"strategy": "balanced_tensor", "sizes": [25, 22, 3, 3], "n": 2, "owner": [0, 1, 1, 0], "bytes": [112, 100]},
   {"strategy": "balanced_tensor", "sizes": [8, 6, 4, 5], "n": 4, "owner": [0, 1, 3, 2]}]},
  "blend": {"cases": [
   {"local": [1, 3], "global": [5, 7], "alpha": 0.0, "out": [5, 7]},
   {"local": [5, 7], "global": [1, 3], "alpha": 0.5, "out": [3, 5]}]}
 },
 "forgather": {
  "sync_average": {"lr": 1.0, "mu": 0.0, "p0": 0.0, "pg": [1.0, 3.0], "p": -2.0},
  "dylu": {"cases": [
   {"H": 500, "v": [10, 5, 2], "out": [500, 250, 100]},
   {"H": 10, "v": [100, 0.01], "out": [10, 1]},
   {"H": 100, "v": [10, 2], "out": [100, 20]}]}
 },
 "flower": {
  "krum": {"f": 1, "scalars_x4": [0.2, 0.7, 1.0], "out": 0.7},
  "trimmed_mean": {"beta": 0.25, "scalars": [0.5, 1.0, 2.0, 100.0], "out": 1.5},
  "fedadagrad": {"eta": 0.1, "tau": 0.5, "from": 0.1, "scalars": [0.2, 1.0], "out": 0.15}
 },
 "robustdiloco": {
  "n8": {"grads": [1, 2, 3, 4, 5, 6, 7, 8], "mean": 4.5, "trimmed_f1": 4.5, "trimmed_f2": 4.5, "lower_median": 4.0}
 }
})";

/// Parameters of both layers before each local step, and the outer step's copy when it is first seen.
struct Trajectory {
  float alpha;
  std::array<std::array<float, 16>, 2> parameters;
  std::array<std::array<float, 5>, 2> anchors;  ///< at steps 0, 3, 6, 9, 12
};

inline constexpr std::array<Trajectory, 3> trajectories{{
    {0.0F,
     {{{1, -1, -3, -11, -13, -15, -17, -19, -21, -35, -37, -39, -41, -43, -45, -59},
       {1, -1, -3, -5, -7, -9, -23, -25, -27, -29, -31, -33, -47, -49, -51, -53}}},
     {{{1, -11, -11, -35, -35}, {1, 1, -23, -23, -47}}}},
    {0.5F,
     {{{1, -1, -3, -8, -10, -12, -14, -16, -18, -24.5, -26.5, -28.5, -30.5, -32.5, -34.5, -40.25},
       {1, -1, -3, -5, -7, -9, -17, -19, -21, -23, -25, -27, -32, -34, -36, -38}}},
     {{{1, -11, -11, -29, -29}, {1, 1, -23, -23, -35}}}},
    {1.0F,
     {{{1, -1, -3, -5, -7, -9, -11, -13, -15, -17, -19, -21, -23, -25, -27, -29},
       {1, -1, -3, -5, -7, -9, -11, -13, -15, -17, -19, -21, -23, -25, -27, -29}}},
     {{{1, -11, -11, -23, -23}, {1, 1, -23, -23, -23}}}},
}};

}  // namespace Atoll::outer::published
