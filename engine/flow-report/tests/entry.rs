//! The entry of What's New is as short as notes are: a table a question, what was found, each language in one piece.

mod common;

use common::{With, add_table, feb08, input, result, run, text, view};
use serde_json::json;

#[test]
fn a_day_of_three_experiments_is_an_entry_of_sixty_lines() {
    let entry = text(&run("report", feb08::with(), &feb08::with_gpus()).expect("a report"), "entry.md");
    // Two marks, a blank line each, and the link are put around it.
    assert!(entry.lines().count() + 6 < 60, "{} lines", entry.lines().count());
    let signs: Vec<char> = entry
        .lines()
        .filter(|line| line.starts_with("- ") || line.starts_with("* "))
        .filter_map(|line| line.chars().next())
        .collect();
    assert!(signs.is_sorted_by_key(|sign| *sign == '*'), "each language in one piece:\n{entry}");
    assert!(!entry.contains("![") && !entry.contains("Computed"), "{entry}");
    insta::assert_snapshot!(entry, @"
    # 2026-02-08: mobilenet_v2: batch size, and dataset v7 against v11

    **mobilenet_v2：批大小，以及数据集 v7 与 v11 的对比**

    - Model / 模型: mobilenet_v2; Epochs / 训练轮数: 4
    - Input / 输入: 224×224
    - GPU: 4 × NVIDIA TITAN Xp, 12196 MiB; CPU: Intel Xeon E5-2620 v4 (16 CPUs)

    ## `four` by batch size / `four`：不同批大小下的结果

    | Batch size / 批大小 |      GPU memory / 显存 (MiB) | Growth / 增长率 |    Epoch time / 每轮用时 (s) | Growth / 增长率 |
    |--------------------:|-----------------------------:|----------------:|-----------------------------:|----------------:|
    |                  16 |                         1113 |               — |                         37.4 |               — |
    |                  32 |                         1525 |           +37 % |                         19.6 |           −48 % |
    |                  64 |                         2435 |           +60 % |                         12.8 |           −35 % |
    |                 128 |                         4271 |           +75 % |                         11.3 |           −12 % |
    |                 256 |                         7873 |           +84 % |                         11.3 |             0 % |
    |                 512 | out of GPU memory / 显存不足 |               — | out of GPU memory / 显存不足 |               — |

    ## `solo` by batch size / `solo`：不同批大小下的结果

    | Batch size / 批大小 | GPUs / GPU 数 | GPU memory / 显存, v7 (MiB) | GPU memory / 显存, v11 (MiB) | CPU use / CPU 利用率, v7 | CPU use / CPU 利用率, v11 | Epoch time / 每轮用时, v7 (s) | Epoch time / 每轮用时, v11 (s) | Top-1 / Top-1 准确率, v7 | Top-1 / Top-1 准确率, v11 |
    |--------------------:|--------------:|----------------------------:|-----------------------------:|-------------------------:|--------------------------:|------------------------------:|-------------------------------:|-------------------------:|--------------------------:|
    |                  16 |             1 |                        2361 |                         2361 |                   58.0 % |                    19.5 % |                          18.1 |                           16.5 |                   95.2 % |                    94.9 % |
    |                  32 |             1 |                        4175 |                         4175 |                   59.0 % |                    20.5 % |                          16.2 |                           14.4 |                   94.8 % |                    95.1 % |
    |                  64 |             1 |                        7627 |                         7627 |                   61.0 % |                    20.5 % |                          15.4 |                           13.6 |                   94.1 % |                    94.4 % |
    |                 128 |             2 |                        7737 |                         7737 |                   76.6 % |                    25.0 % |                          11.3 |                            8.7 |                   93.0 % |                    92.8 % |

    - **`four` by batch size**: Epoch time stops falling at batch size 128 (11.3 s). From batch size 32 to 64, GPU memory grows by 60 % while epoch time falls by 35 %: from here on memory grows faster than time falls. Batch size 512 runs out of GPU memory; 256 still fits, with 7873 MiB.
    - Together (all): **only concurrent**. The members take 1.99 to 2.60 times as long as alone, yet together they do 1.34 ± 0.21 times the work of one after another.
    - To do: Different models on different GPUs: faster?
    - **`solo` by batch size**: v7: Waiting for data limits the speed: 31.0 % of an epoch.
    - From v7 to v11, GPU memory is unchanged (the largest difference is 0 %). From v7 to v11, CPU use falls in every row, by 38.5 to 51.6 points (mean −42.3 points, 95 % confidence interval −52.3 to −32.3 points; too few rows for a sign test). From v7 to v11, epoch time falls in every row, by 9 % to 23 % (mean −14 %, 95 % confidence interval −23 % to −3 %; too few rows for a sign test). From v7 to v11, no judgement of top-1: a row rests on one training, and how much repeated trainings differ is not known.
    - Together (v7): **only concurrent**. The members take 1.76 to 2.52 times as long as alone, yet together they do 1.51 ± 0.24 times the work of one after another. Alone each was given only a part of the CPUs: the gain is no more than that of more CPUs. Limiting: CPU (demand 197 %, used 99 %) and waiting for data (up to 62 % of an epoch, up to 31 % alone).
    - Together (v11): **parallel**. The member that suffers most takes 1.01 ± 0.03 times as long as alone, within the tolerance of 10 %.
    - Guess: augmentation fills the CPU. **Confirmed**: CPU is what limits v7, and v11, where it suffices, runs in parallel.
    - See <https://github.com/keras-team/keras/issues/9204#issuecomment-370805961>
    - ± is half the width of a 95 % interval; where a group ran once, how much runs differ is assumed in that of the throughput, and left out of that of a slowdown.

    * **`four`：不同批大小下的结果**：批大小达到 128 后，每轮用时不再下降（11.3 s）。批大小从 32 增至 64 时，显存增加 60%，而每轮用时只减少 35%：此后显存增幅超过用时降幅。批大小为 512 时显存不足；256 仍可运行，占用 7873 MiB。
    * 同时运行（all）：**仅并发**。各任务用时是单独运行的 1.99 至 2.60 倍，但合计吞吐量是串行执行的 1.34 ± 0.21 倍。
    * 待办：不同模型放在不同 GPU 上，会更快吗？
    * **`solo`：不同批大小下的结果**：v7：瓶颈为数据加载：等待数据占每轮用时的 31.0%。
    * 从 v7 到 v11，显存没有变化（最大差异为 0%）。从 v7 到 v11，CPU 利用率在各行均下降，幅度为 38.5 至 51.6 个百分点（平均 −42.3 个百分点，95% 置信区间为 −52.3 至 −32.3 个百分点；行数过少，不足以做符号检验）。从 v7 到 v11，每轮用时在各行均下降，幅度为 9% 至 23%（平均 −14%，95% 置信区间为 −23% 至 −3%；行数过少，不足以做符号检验）。从 v7 到 v11，无法判断 Top-1 准确率有无差异：各配置仅训练一次，重复训练之间的波动未知。
    * 同时运行（v7）：**仅并发**。各任务用时是单独运行的 1.76 至 2.52 倍，但合计吞吐量是串行执行的 1.51 ± 0.24 倍。单独运行时各只分得部分 CPU：吞吐量的提升不超过 CPU 数的增加。瓶颈资源：CPU（总需求 197%，实际占用 99%）和等待数据（至多占每轮的 62%，单独运行时至多为 31%）。
    * 同时运行（v11）：**并行**。减速最大的任务用时是单独运行的 1.01 ± 0.03 倍，在 10% 的容差之内。
    * 猜测：数据增强占满了 CPU。**已证实**：v7 的瓶颈正是 CPU；而该资源充足的 v11 可以并行。
    * 参见 <https://github.com/keras-team/keras/issues/9204#issuecomment-370805961>
    * ± 为 95% 区间的半宽；只运行一次的组，各次运行之间的波动在吞吐量的 ± 中为假设值，在减速的 ± 中未计入。
    ");
}

#[test]
fn an_entry_without_gpus() {
    let entry = text(&run("report", feb08::with(), &feb08::without_gpus()).expect("a report"), "entry.md");
    insta::assert_snapshot!(entry, @"
    # 2026-11-21: mobilenet_v2: batch size, and dataset v7 against v11

    **mobilenet_v2：批大小，以及数据集 v7 与 v11 的对比**

    - Model / 模型: mobilenet_v2; Input size / 输入尺寸: 64×64; Epochs / 训练轮数: 4
    - Input / 输入: 224×224
    - GPU: none / 无; CPU: AMD EPYC 7571 (2 CPUs)

    ## `solo` by batch size / `solo`：不同批大小下的结果

    | Batch size / 批大小 | GPUs / GPU 数 | GPU memory / 显存 | CPU use / CPU 利用率, v7 | CPU use / CPU 利用率, v11 | Epoch time / 每轮用时, v7 (s) | Epoch time / 每轮用时, v11 (s) | Top-1 / Top-1 准确率, v7 | Top-1 / Top-1 准确率, v11 |
    |--------------------:|--------------:|------------------:|-------------------------:|--------------------------:|------------------------------:|-------------------------------:|-------------------------:|--------------------------:|
    |                   8 |             — |                 — |                   97.0 % |                    96.0 % |                          9.82 |                           6.01 |                   52.8 % |                    52.8 % |
    |                  16 |             — |                 — |                   96.0 % |                    95.0 % |                          7.41 |                           4.02 |                   53.6 % |                    53.6 % |
    |                  32 |             — |                 — |                   95.0 % |                    94.0 % |                          6.53 |                           3.15 |                   55.2 % |                    55.2 % |

    - v7: Waiting for data limits the speed: 38.0 % of an epoch. v7: CPU-bound: 95.0 % to 97.0 % of the CPUs that the runs were given are in use. v11: CPU-bound: 94.0 % to 96.0 % of the CPUs that the runs were given are in use.
    - From v7 to v11, CPU use falls in every row, by 1.0 points (mean −1.0 points, 95 % confidence interval −1.0 points; too few rows for a sign test). From v7 to v11, epoch time falls in every row, by 39 % to 52 % (mean −45 %, 95 % confidence interval −59 % to −27 %; too few rows for a sign test). From v7 to v11, no judgement of top-1: a row rests on one training, and how much repeated trainings differ is not known.
    - Together (v7): **undecided**. The members take 2.80 times as long as alone; whether that is more or less work than one after another (1.07 ± 0.17 times) cannot be told from the noise. Limiting: CPU (demand 288 %, used 96 %).
    - Together (v11): **undecided**. The members take 2.80 times as long as alone; whether that is more or less work than one after another (1.07 ± 0.17 times) cannot be told from the noise. Limiting: CPU (demand 285 %, used 95 %).
    - Guess: augmentation fills the CPU. **Confirmed**: CPU is what limits v7 and v11.
    - See <https://github.com/keras-team/keras/issues/9204#issuecomment-370805961>
    - ± is half the width of a 95 % interval; where a group ran once, how much runs differ is assumed in that of the throughput, and left out of that of a slowdown. In 2 results the epochs that count take less than 5 s on average, the shortest 3.15 s (`solo[version=v11,batch=32]`): overhead and chance weigh much in so short a time. The times of 12 results rest on fewer than 3 epochs, the fewest on 2 (`solo[version=v11,batch=16]`): how much epochs differ is hardly known.

    * v7：瓶颈为数据加载：等待数据占每轮用时的 38.0%。v7：瓶颈在 CPU：所分配 CPU 的利用率为 95.0% 至 97.0%。v11：瓶颈在 CPU：所分配 CPU 的利用率为 94.0% 至 96.0%。
    * 从 v7 到 v11，CPU 利用率在各行均下降，幅度为 1.0 个百分点（平均 −1.0 个百分点，95% 置信区间为 −1.0 个百分点；行数过少，不足以做符号检验）。从 v7 到 v11，每轮用时在各行均下降，幅度为 39% 至 52%（平均 −45%，95% 置信区间为 −59% 至 −27%；行数过少，不足以做符号检验）。从 v7 到 v11，无法判断 Top-1 准确率有无差异：各配置仅训练一次，重复训练之间的波动未知。
    * 同时运行（v7）：**尚无法判断**。各任务用时是单独运行的 2.80 倍；合计吞吐量（串行执行的 1.07 ± 0.17 倍）与串行执行的差异未超出测量噪声。瓶颈资源：CPU（总需求 288%，实际占用 96%）。
    * 同时运行（v11）：**尚无法判断**。各任务用时是单独运行的 2.80 倍；合计吞吐量（串行执行的 1.07 ± 0.17 倍）与串行执行的差异未超出测量噪声。瓶颈资源：CPU（总需求 285%，实际占用 95%）。
    * 猜测：数据增强占满了 CPU。**已证实**：v7 和 v11 的瓶颈正是 CPU。
    * 参见 <https://github.com/keras-team/keras/issues/9204#issuecomment-370805961>
    * ± 为 95% 区间的半宽；只运行一次的组，各次运行之间的波动在吞吐量的 ± 中为假设值，在减速的 ± 中未计入。有 2 个结果计入的各轮平均用时不足 5 s，最短为 3.15 s（`solo[version=v11,batch=32]`）：时间过短，一轮首尾的开销和随机波动影响较大。有 12 个结果的用时由不足 3 轮得出，最少 2 轮（`solo[version=v11,batch=16]`）：各轮之间的波动难以估计。
    ");
}

#[test]
fn a_table_that_is_shown_column_by_column_has_one_in_an_entry() {
    let at = |policy: &str, density: f64| {
        let values = [1.0, 1.1, 0.9].map(|by| by * density * (3_600.0 + 100.0 * policy.len() as f64));
        let result = result("s", &[("policy", json!(policy)), ("density", json!(density))], 0);
        result.seeds("time_in_system", &values, "s").seeds("makespan", &values.map(|time| 20.0 * time), "s")
    };
    let results = ["fifo", "easy", "priority"].map(|policy| [0.5, 0.9].map(|density| at(policy, density)));
    let mut input = input(vec![("s", view("flow/simulate", None, results.concat()))]);
    let with = json!({"from": "s", "rows": "density", "split": "policy", "columns": ["time_in_system", "makespan"]});
    for name in ["t", "u"] {
        add_table(&mut input, name, with.clone());
    }
    let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t"}, {"table": "u"}]});
    let out = run("report", with, &input).expect("a report");
    let (entry, report) = (text(&out, "entry.md"), text(&out, "report.md"));
    let count = |text: &str, of: &str| text.matches(of).count();
    let tables = |text: &str| count(text, "| fifo |") + count(text, "|  fifo |") + count(text, "|   fifo |");
    assert_eq!(
        (count(&report, "Total time / 总时间 (h)"), count(&entry, "Total time / 总时间 (h)")),
        (2, 0),
        "{entry}"
    );
    assert_eq!((count(&report, "± is half the width"), count(&entry, "± is half the width")), (2, 1), "{entry}");
    assert!(tables(&entry) <= 2, "{entry}");
}

#[test]
fn an_entry_of_many_questions_tells_what_was_found_and_leaves_tables_to_the_report() {
    let mut with = feb08::with();
    let sections = with["sections"].as_array_mut().expect("a list");
    *sections = std::iter::repeat_n(sections.last().expect("a section").clone(), 4).collect();
    let entry = text(&run("report", with, &feb08::without_gpus()).expect("a report"), "entry.md");
    assert!(!entry.contains("\n|") && !entry.contains("\n##"), "{entry}");
    assert_eq!(entry.matches("- **`solo` by batch size**: ").count(), 4, "{entry}");
}
