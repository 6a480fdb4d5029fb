//! `flow/report`: full reports in both languages, and what must hold of every one.

mod common;

use common::{feb08, run, text};

#[test]
fn feb08_with_gpus() {
    let out = run("report", feb08::with(), &feb08::with_gpus()).expect("a report");
    insta::assert_snapshot!(text(&out, "report.md"), @r"
        # mobilenet_v2: batch size, and dataset v7 against v11
        **mobilenet_v2：批大小，以及数据集 v7 与 v11 的对比**
        2026-02-08
        - Model / 模型: mobilenet_v2
        - Epochs / 训练轮数: 4
        - Input / 输入: 224×224
        - GPU: 4 × NVIDIA TITAN Xp, 12196 MiB
        - CPU: 16 × Intel Xeon E5-2620 v4
        - Versions / 软件版本: PyTorch 1.5.1
        - Runs / 运行编号: `20260208-153012-3f2a`
        
        ## four by batch size / four，按批大小
        
        | Batch size / 批大小 |      GPU memory / 显存 (MiB) | Growth / 增长率 |    Epoch time / 每轮用时 (s) | Growth / 增长率 |
        |--------------------:|-----------------------------:|----------------:|-----------------------------:|----------------:|
        |                  16 |                         1113 |               — |                         37.4 |               — |
        |                  32 |                         1525 |           +37 % |                         19.6 |           −48 % |
        |                  64 |                         2435 |           +60 % |                         12.8 |           −35 % |
        |                 128 |                         4271 |           +75 % |                         11.3 |           −12 % |
        |                 256 |                         7873 |           +84 % |                         11.3 |             0 % |
        |                 512 | out of GPU memory / 显存不足 |               — | out of GPU memory / 显存不足 |               — |
        
        Alone and together / 单独运行与同时运行
        
        | Version / 版本 | Batch size / 批大小 | GPUs / GPU 数 | Epoch time alone / 单独运行的每轮用时 (s) | Epoch time together / 同时运行的每轮用时 (s) | Slower by / 变慢 | CPU use alone / 单独运行的 CPU 使用率 |
        |----------------|--------------------:|--------------:|------------------------------------------:|---------------------------------------------:|-----------------:|--------------------------------------:|
        | v7             |                  32 |             4 |                                      19.6 |                                         51.0 |           +160 % |                                     — |
        | v7             |                  64 |             4 |                                      12.8 |                                         28.0 |           +119 % |                                     — |
        | v7             |                 128 |             4 |                                      11.3 |                                         22.5 |            +99 % |                                     — |
        
        Verdicts / 结论
        
        | Group / 组 | GPUs / GPU           | Verdict / 结论           | Work against one after another / 相对依次运行的工作量 | GPU memory asked for / 显存需求合计 |
        |------------|----------------------|--------------------------|------------------------------------------------------:|------------------------------------:|
        | all        | shared by all / 共用 | only concurrent / 仅并发 |                                                 1.34× |                                67 % |
        
        Computed for the findings / 为上述发现计算的数值
        
        | Figure / 数值名称                                            | Value / 数值 |
        |--------------------------------------------------------------|-------------:|
        | Intercept of GPU memory over batch size / 显存对批大小的截距 |      640 MiB |
        | Slope of GPU memory over batch size / 显存对批大小的斜率     |    28.27 MiB |
        | R² of GPU memory over batch size / 显存对批大小的 R²         |        1.000 |
        
        ![Epoch time over batch size / 每轮用时随批大小的变化](charts/four_table-epoch_time.svg)
        
        ![GPU memory over batch size / 显存随批大小的变化](charts/four_table-gpu_memory.svg)
        
        ![Alone against together / 单独运行与同时运行的对比](charts/four_table-together.svg)
        
        - Epoch time stops falling at batch size 128 (11.3 s).
        - From batch size 32 to 64, GPU memory grows by 60 % while epoch time falls by 35 %: from here on memory grows faster than time falls.
        - Batch size 512 runs out of GPU memory; 256 still fits, with 7873 MiB.
        - GPU memory is linear in batch size: 640 MiB + 28.27 MiB × batch size, R² = 1.000.
        - all together: **only concurrent**. Each member takes 99 % to 160 % longer than alone, yet together they do 1.34× the work of one after another. Ruled out: GPU memory (67 % asked for). No figures for CPU, GPU, GPU memory traffic and waiting for data.
        - To do: Different models on different GPUs: faster?
        
        * 批大小达到 128 后，每轮用时不再下降（11.3 s）。
        * 批大小从 32 增至 64 时，显存增加 60 %，而每轮用时只减少 35 %：自此显存的增长快于用时的下降。
        * 批大小为 512 时显存不足；256 仍可运行，占用 7873 MiB。
        * 显存与批大小成线性关系：640 MiB + 28.27 MiB × 批大小，R² = 1.000。
        * all 同时运行：**仅并发**。各自比单独运行慢 99 % 至 160 %，但合计完成的工作量是依次运行的 1.34×。可以排除：显存容量（需求合计 67 %）。没有数据：CPU、GPU、显存带宽和等待数据。
        * 待办：不同模型放在不同 GPU 上，会更快吗？
        
        ## solo by batch size / solo，按批大小
        
        | Batch size / 批大小 | GPUs / GPU 数 | GPU memory / 显存, v7 (MiB) | GPU memory / 显存, v11 (MiB) | CPU use / CPU 使用率, v7 | CPU use / CPU 使用率, v11 | Epoch time / 每轮用时, v7 (s) | Epoch time / 每轮用时, v11 (s) | Top-1 / Top-1 准确率, v7 | Top-1 / Top-1 准确率, v11 |
        |--------------------:|--------------:|----------------------------:|-----------------------------:|-------------------------:|--------------------------:|------------------------------:|-------------------------------:|-------------------------:|--------------------------:|
        |                  16 |             1 |                        2361 |                         2361 |                   58.0 % |                    19.5 % |                         18.10 |                          16.50 |                   95.2 % |                    94.9 % |
        |                  32 |             1 |                        4175 |                         4175 |                   59.0 % |                    20.5 % |                         16.20 |                          14.40 |                   94.8 % |                    95.1 % |
        |                  64 |             1 |                        7627 |                         7627 |                   61.0 % |                    20.5 % |                         15.40 |                          13.60 |                   94.1 % |                    94.4 % |
        |                 128 |             2 |                        7737 |                         7737 |                   76.6 % |                    25.0 % |                         11.30 |                           8.70 |                   93.0 % |                    92.8 % |
        
        Change from v7 to v11 / 从 v7 到 v11 的变化
        
        | Batch size / 批大小 | GPU memory / 显存 | CPU use / CPU 使用率 (points / 个百分点) | Epoch time / 每轮用时 | Top-1 / Top-1 准确率 (points / 个百分点) |
        |--------------------:|------------------:|-----------------------------------------:|----------------------:|-----------------------------------------:|
        |                  16 |               0 % |                                    −38.5 |                  −9 % |                                     −0.3 |
        |                  32 |               0 % |                                    −38.5 |                 −11 % |                                     +0.3 |
        |                  64 |               0 % |                                    −40.5 |                 −12 % |                                     +0.3 |
        |                 128 |               0 % |                                    −51.6 |                 −23 % |                                     −0.2 |
        
        Alone and together / 单独运行与同时运行
        
        | Version / 版本 | Batch size / 批大小 | GPUs / GPU 数 | Epoch time alone / 单独运行的每轮用时 (s) | Epoch time together / 同时运行的每轮用时 (s) | Slower by / 变慢 | CPU use alone / 单独运行的 CPU 使用率 |
        |----------------|--------------------:|--------------:|------------------------------------------:|---------------------------------------------:|-----------------:|--------------------------------------:|
        | v7             |                  32 |             1 |                                     16.20 |                                        28.50 |            +76 % |                                59.0 % |
        | v7             |                  64 |             1 |                                     15.40 |                                        28.50 |            +85 % |                                61.0 % |
        | v7             |                 128 |             2 |                                     11.30 |                                        28.50 |           +152 % |                                76.6 % |
        | v11            |                  32 |             1 |                                     14.40 |                                        14.54 |             +1 % |                                20.5 % |
        | v11            |                  64 |             1 |                                     13.60 |                                        13.74 |             +1 % |                                20.5 % |
        | v11            |                 128 |             2 |                                      8.70 |                                         8.79 |             +1 % |                                25.0 % |
        
        Verdicts / 结论
        
        | Group / 组 | GPUs / GPU              | Verdict / 结论           | Work against one after another / 相对依次运行的工作量 | CPU asked for / CPU 需求合计 | Waiting for data, alone → together / 等待数据，单独 → 同时 |
        |------------|-------------------------|--------------------------|------------------------------------------------------:|-----------------------------:|-----------------------------------------------------------:|
        | v7         | its own each / 各用各的 | only concurrent / 仅并发 |                                                 1.51× |                        197 % |                                                31 % → 62 % |
        | v11        | its own each / 各用各的 | parallel / 并行          |                                                 2.97× |                         66 % |                                                  4 % → 5 % |
        
        Computed for the findings / 为上述发现计算的数值
        
        | Figure / 数值名称                                                                     | Value / 数值 |
        |---------------------------------------------------------------------------------------|-------------:|
        | v7: Growth of GPU memory, batch size 16 to 32 / v7：显存增长率，批大小 16 至 32       |        +77 % |
        | v7: Growth of epoch time, batch size 16 to 32 / v7：每轮用时增长率，批大小 16 至 32   |        −10 % |
        | v11: Growth of GPU memory, batch size 16 to 32 / v11：显存增长率，批大小 16 至 32     |        +77 % |
        | v11: Growth of epoch time, batch size 16 to 32 / v11：每轮用时增长率，批大小 16 至 32 |        −13 % |
        | v7: Least share of an epoch spent waiting for data / v7：等待数据的时间占比最小值     |       31.0 % |
        | v7: Largest share of an epoch spent waiting for data / v7：等待数据的时间占比最大值   |       31.0 % |
        
        ![Epoch time over batch size / 每轮用时随批大小的变化](charts/solo_table-epoch_time.svg)
        
        ![GPU memory over batch size / 显存随批大小的变化](charts/solo_table-gpu_memory.svg)
        
        ![Alone against together / 单独运行与同时运行的对比](charts/solo_table-together.svg)
        
        - Question: Do GPUs of their own help?
        - v7: Epoch time stops falling at batch size 32 (16.20 s).
        - v7: From batch size 16 to 32, GPU memory grows by 77 % while epoch time falls by 10 %: from here on memory grows faster than time falls.
        - v11: Epoch time still falls at the last batch size, 64 (13.60 s).
        - v11: From batch size 16 to 32, GPU memory grows by 77 % while epoch time falls by 13 %: from here on memory grows faster than time falls.
        - v7: Waiting for data limits the speed: 31.0 % of an epoch.
        - From v7 to v11, GPU memory is unchanged (the largest difference is 0 %).
        - From v7 to v11, CPU use falls by 38.5 points to 51.6 points.
        - From v7 to v11, epoch time falls by 9 % to 23 %.
        - From v7 to v11, top-1 is unchanged (the largest difference is 0.3 points).
        - Cost-free: v11 lowers CPU use and epoch time against v7 at the same top-1.
        - v7 together: **only concurrent**. Each member takes 76 % to 152 % longer than alone, yet together they do 1.51× the work of one after another. What limits them: CPU (197 % asked for) and waiting for data (62 % of an epoch, 31 % alone). Ruled out: GPU (each has its own), GPU memory (each has its own) and GPU memory traffic (each has its own).
        - v11 together: **parallel**. The member that suffers most takes 1 % longer than alone. Enough for all: CPU (66 % asked for), GPU (each has its own), GPU memory (each has its own), GPU memory traffic (each has its own) and waiting for data (5 % of an epoch, 4 % alone).
        - Guess: augmentation fills the CPU **Confirmed**: CPU is what limits v7, and v11, where it suffices, runs in parallel.
        - See <https://github.com/keras-team/keras/issues/9204#issuecomment-370805961>
        
        * 问题：各用各的 GPU 有帮助吗？
        * v7：批大小达到 32 后，每轮用时不再下降（16.20 s）。
        * v7：批大小从 16 增至 32 时，显存增加 77 %，而每轮用时只减少 10 %：自此显存的增长快于用时的下降。
        * v11：直到最后一个批大小 64，每轮用时仍在下降（13.60 s）。
        * v11：批大小从 16 增至 32 时，显存增加 77 %，而每轮用时只减少 13 %：自此显存的增长快于用时的下降。
        * v7：瓶颈在等待数据：占每轮用时的 31.0 %。
        * 从 v7 到 v11，显存没有变化（最大差异为 0 %）。
        * 从 v7 到 v11，CPU 使用率下降 38.5 个百分点 至 51.6 个百分点。
        * 从 v7 到 v11，每轮用时下降 9 % 至 23 %。
        * 从 v7 到 v11，top-1 准确率没有变化（最大差异为 0.3 个百分点）。
        * 无代价的改进：与 v7 相比，v11 在 top-1 准确率不变的情况下降低了 CPU 使用率和每轮用时。
        * v7 同时运行：**仅并发**。各自比单独运行慢 76 % 至 152 %，但合计完成的工作量是依次运行的 1.51×。限制因素：CPU（需求合计 197 %）和等待数据（占每轮的 62 %，单独运行时为 31 %）。可以排除：GPU（各用各的）、显存容量（各用各的）和显存带宽（各用各的）。
        * v11 同时运行：**并行**。受影响最大的一个比单独运行慢 1 %。足够全体使用：CPU（需求合计 66 %）、GPU（各用各的）、显存容量（各用各的）、显存带宽（各用各的）和等待数据（占每轮的 5 %，单独运行时为 4 %）。
        * 猜测：数据增强占满了 CPU**已证实**：限制 v7 的正是 CPU；而在 CPU 充足的 v11 中可以并行。
        * 参见 <https://github.com/keras-team/keras/issues/9204#issuecomment-370805961>
        ");
}

#[test]
fn feb08_without_gpus() {
    let out = run("report", feb08::with(), &feb08::without_gpus()).expect("a report");
    insta::assert_snapshot!(text(&out, "report.md"), @r"
        # mobilenet_v2: batch size, and dataset v7 against v11
        **mobilenet_v2：批大小，以及数据集 v7 与 v11 的对比**
        2026-11-21
        - Model / 模型: mobilenet_v2
        - Input size / 输入尺寸: 64×64
        - Epochs / 训练轮数: 4
        - Input / 输入: 224×224
        - GPU: none / 无
        - CPU: 2 × AMD EPYC 7571
        - Versions / 软件版本: PyTorch 2.11.0
        - Profile / 配置: `no_gpu` (machine.gpus == 0) / `no_gpu`（machine.gpus == 0）
        - Runs / 运行编号: `20261121-101500-77aa`
        
        ## solo by batch size / solo，按批大小
        
        | Batch size / 批大小 | GPUs / GPU 数 | GPU memory / 显存 | CPU use / CPU 使用率, v7 | CPU use / CPU 使用率, v11 | Epoch time / 每轮用时, v7 (s) | Epoch time / 每轮用时, v11 (s) | Top-1 / Top-1 准确率, v7 | Top-1 / Top-1 准确率, v11 |
        |--------------------:|--------------:|------------------:|-------------------------:|--------------------------:|------------------------------:|-------------------------------:|-------------------------:|--------------------------:|
        |                   8 |             — |                 — |                   97.0 % |                    96.0 % |                          9.82 |                           6.01 |                   52.8 % |                    52.8 % |
        |                  16 |             — |                 — |                   96.0 % |                    95.0 % |                          7.41 |                           4.02 |                   53.6 % |                    53.6 % |
        |                  32 |             — |                 — |                   95.0 % |                    94.0 % |                          6.53 |                           3.15 |                   55.2 % |                    55.2 % |
        
        Change from v7 to v11 / 从 v7 到 v11 的变化
        
        | Batch size / 批大小 | CPU use / CPU 使用率 (points / 个百分点) | Epoch time / 每轮用时 | Top-1 / Top-1 准确率 (points / 个百分点) |
        |--------------------:|-----------------------------------------:|----------------------:|-----------------------------------------:|
        |                   8 |                                     −1.0 |                 −39 % |                                      0.0 |
        |                  16 |                                     −1.0 |                 −46 % |                                      0.0 |
        |                  32 |                                     −1.0 |                 −52 % |                                      0.0 |
        
        Alone and together / 单独运行与同时运行
        
        | Version / 版本 | Batch size / 批大小 | Epoch time alone / 单独运行的每轮用时 (s) | Epoch time together / 同时运行的每轮用时 (s) | Slower by / 变慢 | CPU use alone / 单独运行的 CPU 使用率 |
        |----------------|--------------------:|------------------------------------------:|---------------------------------------------:|-----------------:|--------------------------------------:|
        | v7             |                   8 |                                      9.82 |                                        27.50 |           +180 % |                                97.0 % |
        | v7             |                  16 |                                      7.41 |                                        20.75 |           +180 % |                                96.0 % |
        | v7             |                  32 |                                      6.53 |                                        18.28 |           +180 % |                                95.0 % |
        | v11            |                   8 |                                      6.01 |                                        16.83 |           +180 % |                                96.0 % |
        | v11            |                  16 |                                      4.02 |                                        11.26 |           +180 % |                                95.0 % |
        | v11            |                  32 |                                      3.15 |                                         8.82 |           +180 % |                                94.0 % |
        
        Verdicts / 结论
        
        | Group / 组 | Verdict / 结论           | Work against one after another / 相对依次运行的工作量 | CPU asked for / CPU 需求合计 | Waiting for data, alone → together / 等待数据，单独 → 同时 |
        |------------|--------------------------|------------------------------------------------------:|-----------------------------:|-----------------------------------------------------------:|
        | v7         | only concurrent / 仅并发 |                                                 1.07× |                        288 % |                                                38 % → 38 % |
        | v11        | only concurrent / 仅并发 |                                                 1.07× |                        285 % |                                                  3 % → 3 % |
        
        Computed for the findings / 为上述发现计算的数值
        
        | Figure / 数值名称                                                                   | Value / 数值 |
        |-------------------------------------------------------------------------------------|-------------:|
        | v7: Least share of an epoch spent waiting for data / v7：等待数据的时间占比最小值   |       38.0 % |
        | v7: Largest share of an epoch spent waiting for data / v7：等待数据的时间占比最大值 |       38.0 % |
        | v11: Least use of the CPUs given / v11：所分配 CPU 的使用率最小值                   |       94.0 % |
        | v11: Largest use of the CPUs given / v11：所分配 CPU 的使用率最大值                 |       96.0 % |
        
        ![Epoch time over batch size / 每轮用时随批大小的变化](charts/solo_table-epoch_time.svg)
        
        ![Alone against together / 单独运行与同时运行的对比](charts/solo_table-together.svg)
        
        ![Load over time of solo[version=v11,batch=32], epochs shaded / solo[version=v11,batch=32] 的负载随时间的变化，阴影为各轮](charts/solo_table-load.svg)
        
        - Question: Do GPUs of their own help?
        - v7: Epoch time still falls at the last batch size, 32 (6.53 s).
        - v11: Epoch time still falls at the last batch size, 32 (3.15 s).
        - v7: Waiting for data limits the speed: 38.0 % of an epoch.
        - v11: CPU-bound: 94.0 % to 96.0 % of the CPUs that the runs were given are in use.
        - From v7 to v11, CPU use falls by 1.0 points.
        - From v7 to v11, epoch time falls by 39 % to 52 %.
        - From v7 to v11, top-1 is unchanged (the largest difference is 0.0 points).
        - Cost-free: v11 lowers CPU use and epoch time against v7 at the same top-1.
        - v7 together: **only concurrent**. Each member takes 180 % longer than alone, yet together they do 1.07× the work of one after another. What limits them: CPU (288 % asked for). Neither ruled in nor out: waiting for data (38 % of an epoch, 38 % alone).
        - v11 together: **only concurrent**. Each member takes 180 % longer than alone, yet together they do 1.07× the work of one after another. What limits them: CPU (285 % asked for). Ruled out: waiting for data (3 % of an epoch, 3 % alone).
        - Guess: augmentation fills the CPU **Confirmed**: CPU is what limits v7 and v11.
        - See <https://github.com/keras-team/keras/issues/9204#issuecomment-370805961>
        
        * 问题：各用各的 GPU 有帮助吗？
        * v7：直到最后一个批大小 32，每轮用时仍在下降（6.53 s）。
        * v11：直到最后一个批大小 32，每轮用时仍在下降（3.15 s）。
        * v7：瓶颈在等待数据：占每轮用时的 38.0 %。
        * v11：瓶颈在 CPU：所分配 CPU 的使用率为 94.0 % 至 96.0 %。
        * 从 v7 到 v11，CPU 使用率下降 1.0 个百分点。
        * 从 v7 到 v11，每轮用时下降 39 % 至 52 %。
        * 从 v7 到 v11，top-1 准确率没有变化（最大差异为 0.0 个百分点）。
        * 无代价的改进：与 v7 相比，v11 在 top-1 准确率不变的情况下降低了 CPU 使用率和每轮用时。
        * v7 同时运行：**仅并发**。各自比单独运行慢 180 %，但合计完成的工作量是依次运行的 1.07×。限制因素：CPU（需求合计 288 %）。既不能认定也不能排除：等待数据（占每轮的 38 %，单独运行时为 38 %）。
        * v11 同时运行：**仅并发**。各自比单独运行慢 180 %，但合计完成的工作量是依次运行的 1.07×。限制因素：CPU（需求合计 285 %）。可以排除：等待数据（占每轮的 3 %，单独运行时为 3 %）。
        * 猜测：数据增强占满了 CPU**已证实**：限制 v7 和 v11 的正是 CPU。
        * 参见 <https://github.com/keras-team/keras/issues/9204#issuecomment-370805961>
        
        ---
        
        Left out: `four_table` (when: machine.gpus >= 4).  
        略去：`four_table`（when: machine.gpus >= 4）。
        ");
}
