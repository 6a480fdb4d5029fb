//! The entry of What's New is short: a table, and the answer to each question in each language.

use crate::common::{feb08, run, text};

#[test]
fn a_day_of_three_experiments_is_an_entry_of_twenty_five_lines() {
    let entry = text(&run("report", feb08::with(), &feb08::with_gpus()).expect("a report"), "entry.md");
    assert!(entry.lines().count() <= 25, "{} lines", entry.lines().count());
    assert!(!entry.contains("![") && !entry.contains("Computed"), "{entry}");
    insta::assert_snapshot!(entry, @r"
    # 2026-02-08: mobilenet_v2: batch size, and dataset v7 against v11

    **mobilenet_v2：批大小，以及数据集 v7 与 v11 的对比**

    2026-02-08 · mobilenet_v2 · 224×224 · 4 × NVIDIA TITAN Xp · 16 CPUs · 23 results, 69.0 h of GPU time

    |                                                |                 all |
    |------------------------------------------------|--------------------:|
    | Epoch time alone, batch size 32 / 64 / 128 (s) |  19.6 / 12.8 / 11.3 |
    | Epoch time, 3 together (s)                     |  51.0 / 28.0 / 22.5 |
    | Worst slowdown                                 |               2.60× |
    | Throughput relative to one after another       |        1.34× ± 0.21 |
    | **Verdict**                                    | **only concurrent** |

    - **`four` by batch size**: all, only concurrent: run the 3 together; they do 1.34 ± 0.21 times the work of one after another, and each takes up to 2.60 times as long.
    - **`solo` by batch size**: From v7 to v11, epoch time falls by 9% to 23% at every batch size. v11, parallel: run the 3 together; the worst slowdown is 1%. v7, only concurrent: run the 3 together; they do 1.51 ± 0.24 times the work of one after another, and each takes up to 2.52 times as long.

    - **`four`：不同批大小下的结果**：all，仅并发：建议 3 个任务同时运行，吞吐量是串行执行的 1.34 ± 0.21 倍；单个任务用时最多为单独运行的 2.60 倍。
    - **`solo`：不同批大小下的结果**：从 v7 到 v11，每轮用时在各批大小下均下降 9% 至 23%。v11，可并行：建议 3 个任务同时运行，最大减速为 1%。v7，仅并发：建议 3 个任务同时运行，吞吐量是串行执行的 1.51 ± 0.24 倍；单个任务用时最多为单独运行的 2.52 倍。
    ");
}

#[test]
fn an_entry_without_gpus() {
    let entry = text(&run("report", feb08::with(), &feb08::without_gpus()).expect("a report"), "entry.md");
    insta::assert_snapshot!(entry, @r"
    # 2026-11-21, CPU: mobilenet_v2: batch size, and dataset v7 against v11

    **mobilenet_v2：批大小，以及数据集 v7 与 v11 的对比**

    2026-11-21 · mobilenet_v2 · 224×224 · 2 CPUs (AMD EPYC 7571) · 12 results, 720 s

    |                                              |                    v7 |                  v11 |
    |----------------------------------------------|----------------------:|---------------------:|
    | Epoch time alone, batch size 8 / 16 / 32 (s) |    9.82 / 7.41 / 6.53 |   6.01 / 4.02 / 3.15 |
    | Epoch time, 3 together (s)                   | 27.50 / 20.75 / 18.28 | 16.83 / 11.26 / 8.82 |
    | Worst slowdown                               |                 2.80× |                2.80× |
    | Throughput relative to one after another     |          1.07× ± 0.17 |         1.07× ± 0.17 |
    | CPU demand / used                            |            288% / 96% |           285% / 95% |
    | **Verdict**                                  |         **undecided** |        **undecided** |

    - From v7 to v11, epoch time falls by 39% to 52% at every batch size. v7: undecided after 1 run of each: the 3 together do 1.07 ± 0.17 times the work of one after another. About 1 more run of each would decide. v11: undecided after 1 run of each: the 3 together do 1.07 ± 0.17 times the work of one after another. About 1 more run of each would decide.

    - 从 v7 到 v11，每轮用时在各批大小下均下降 39% 至 52%。v7：各运行 1 次后尚无法判断：3 个任务同时运行，吞吐量是串行执行的 1.07 ± 0.17 倍。各再运行约 1 次即可判断。v11：各运行 1 次后尚无法判断：3 个任务同时运行，吞吐量是串行执行的 1.07 ± 0.17 倍。各再运行约 1 次即可判断。
    ");
}
