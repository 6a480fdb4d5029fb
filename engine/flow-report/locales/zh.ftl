# 表格与报告的中文用语。键与变量须与其他语言的目录一致，由测试比对。

## 列举与单位
mark-comma = ，
mark-semicolon = ；
mark-colon = ：
mark-stop = 。
mark-between-sentences = {""}
mark-percent = %
list-comma = 、
list-and = 和
list-more = 另外 { $n } 个
unit-times = { $n } 倍
unit-points = 个百分点

## 列名
column-batch = 批大小
column-model = 模型
column-version = 版本
column-dataset = 数据集
column-data = 数据集
column-input_size = 输入尺寸
column-seed = 随机种子
column-lr = 学习率
column-epochs = 训练轮数
column-freeze_epochs = 在此之前仅训练最后一层的轮数
column-classes = 类别数
column-optimizer = 优化器
column-optimiser = 优化器
column-precision = 精度
column-device = 设备
column-torch = PyTorch
column-cuda = CUDA
column-workers = 加载线程数
column-mode = 运行方式
column-outcome = 结果
column-epoch_time = 每轮用时
column-iteration_time = 每次迭代用时
column-images_per_s = 每秒图像数
column-train_loss = 训练损失
column-valid_loss = 验证损失
column-error_rate = 错误率
column-accuracy = 准确率
column-top1 = Top-1 准确率
column-top5 = Top-5 准确率
column-gmac = 计算量（GMACs）
column-gmac_norm_act = 计算量，含归一化与激活（GMACs）
column-parameters = 参数量
column-auxiliary_parameters = 辅助分类器的参数量
column-layers = 层数
column-data_wait = 等待数据的时间
column-wait_time = 等待数据的时间
column-wall = 总用时
column-cpu_time = CPU 时间
column-cpu_util = CPU 利用率
column-cpu_util_peak = CPU 利用率峰值
column-cpu_cores = 占用 CPU 核数
column-memory = 内存
column-disk_read = 磁盘读取量
column-disk_written = 磁盘写入量
column-gpu_memory = 显存
column-gpu_memory_mean = 平均显存
column-gpu_memory_share = 显存占用率
column-memory_share = 内存占用率
column-gpu_memory_limit = 显存上限
column-gpu_load = GPU 利用率
column-gpu_load_peak = GPU 利用率峰值
column-gpu_load_above_90 = GPU 利用率高于 90% 的时间占比
column-gpu_memory_load = 显存控制器利用率
column-gpu_memory_load_peak = 显存控制器利用率峰值
column-gpu_memory_load_above_90 = 显存控制器利用率高于 90% 的时间占比
column-epoch = 轮次
column-step = 步数
column-part = 训练段
column-gpu_power = GPU 功率
column-energy = 能耗
column-foreign_cpu = 其他进程的 CPU 利用率
column-gpu_shared = 其他进程占用的 GPU
column-sampler_cpu = 测量开销（占单核）
column-cpu_saturated = CPU 饱和的时间占比
column-gpus = GPU 数
column-cpus = CPU 数
column-host_cpus = 主机 CPU 数
column-allowed_cpus = flow 可用的 CPU 数
column-gpu_model = GPU 型号
column-cpu_model = CPU 型号
column-pcie = PCIe 链路
growth-short = 增长率{ $column }
growth-of = { $column }增长率
ratio-of = { $column }之比
speedup-of = { $column }加速比

## 单元格
outcome-ok = 成功
outcome-out_of_memory = { $gpu ->
    [yes] 显存不足
   *[no] 内存不足
}
outcome-timed_out = 超时
outcome-does_not_fit = 资源不足，无法运行
outcome-failed = 失败
outcome-cancelled = 已取消
outcome-skipped = 已跳过
cell-disturbed = 受干扰
cell-unlike = 不可比
cell-gpus-change = { $from }→{ $to } 块 GPU

## 表下注释
table-absent = 无表格：步骤 { $step } 没有实例（{ $why }）。
note-mean = 带 ± 的格：均值 ± 标准差，每格{ $all ->
    [yes] {" "}{ $of }
   *[no] 至少 { $of }
} 个结果。
note-mean-over = 带 ± 的格：对{ $over }取均值 ± 标准差，每格{ $all ->
    [yes] {" "}{ $of }
   *[no] 至少 { $of }
} 个结果。
note-median = { $all ->
    [yes] { $of }
   *[no] 至少 { $of }
} 次重复的中位数，括号内为最小值与最大值。
note-axis-values = { $axis }（{ $values }）
note-simulated = ± 为 { $of } 次模拟均值的 95% 置信区间半宽。同一行各列使用相同的作业，因此列间差异比这些区间更可靠。差异按随机种子逐对检验，并对所有列对作 Bonferroni 校正；判断次序是否改变时，对所有行的列对校正。
note-unlike = 测量条件不同，既不取平均也不作比较（{ $what }：{ $one } 与 { $other }）。
note-caveats = { $label }：{ $why }。
note-of-the-whole = { $name } 没有按{ $axis ->
    [step] 步数
   *[epoch] 轮次
}输出，因此不在任何一行中。
note-steps-only = 各值只有步数（step），没有轮数（epoch）：用 `rows: step` 可按步列出。
note-start-up = 第一个 epoch 打印之前的时间包含启动时间，因此不计为 `epoch_time`。若程序自行打印用时，可在模式中用 `{"{"}epoch_time:s{"}"}` 读取。
note-disturbed = { $label } 的测量受到干扰，结果不可靠：{ $why }。
note-no-metrics = { $label } 缺少指标：{ $why }
note-no-metrics-several = { $label } 及另外 { $more } 个结果缺少指标：{ $why }
note-partial = { $of } 个结果中有 { $used } 个计入，{ $others }。
partial-ended = { $n } 个{ $outcome }
partial-rest = 其余没有可信的数值
note-hidden = { $name } 由 flow 自行测量；程序给出的同名指标未显示，请改名。
note-company = { $of } 个结果中有 { $alone } 个单独运行，其余与 flow 的其他步骤同时运行；加上 `exclusive: true` 则各自单独运行。
note-baseline = 比值与加速比以 { $of } 为基准。
note-baseline-first = 比值与加速比以第一行为基准。
note-no-column = 没有任何结果含有 { $name }。
note-no-column-near = 没有任何结果含有 { $name }；是否想写 { $nearest }？
note-accepted = { $label } 沿用了以前的结果，尽管其依赖已有变化：{ $reason }
note-resumed = { $label } 的时间缺少一段：它从检查点继续，而留下检查点的尝试随 flow 一起被强制终止，其用时未知
note-resumed-several = { $label } 及另外 { $more } 个实例的时间缺少一段：它们从检查点继续，而留下检查点的尝试随 flow 一起被强制终止，其用时未知
note-wall-of-attempts = { $label } 的总用时由多次尝试相加而得，每次尝试都包含启动：它从检查点继续
note-wall-of-attempts-several = { $label } 及另外 { $more } 个实例的总用时由多次尝试相加而得，每次尝试都包含启动：它们从检查点继续
note-accepted-several = { $label } 及另外 { $more } 个实例沿用了以前的结果，尽管其依赖已有变化：{ $reason }
note-not-a-number = 程序输出了 NaN 或无穷大。损失出现这种值，即训练已发散。
note-other-parameter = 在 { $machine } 上 { $name } 为 { $theirs }，在此处为 { $own }。差异可能由此而来，而非来自机器。
note-other-input = { $machine } 使用了另一版本的 { $file }。差异可能来自该文件，而非机器。
note-other-program = { $machine } 上的命令、环境变量或数据不同。差异可能由此而来，而非来自机器。
note-environments = 这些结果来自不同的软件环境：{ $list }。
note-environments-more = 这些结果来自不同的软件环境：{ $list }，另有 { $more } 处不同。
note-no-machines = 没有其他机器的结果：请在另一台机器上运行 `flow export`，再在此处运行 `flow import`。
note-unverified = 驱动不提供各进程的显存，此处为整卡显存减去启动前已占用的部分。

## 发现
range = { $from } 至 { $to }
range-sure = { $from } 至 { $to }
ratio = 原来的 { $range } 倍
ratio-of-time = 原来的 { $range } 倍
scoped = { $scope }：{ $text }
scoped-words = { $scope }：{ $text }
finding-flattens = { $axis }超过 { $at }（{ $value }）后，{ $time }基本不再下降。
finding-flattens-stops = { $axis }达到 { $at } 后，{ $time }不再下降（{ $value }）。
finding-flattens-rises = { $axis }达到 { $at } 后，{ $time }不再下降（{ $value }），到 { $later } 时回升至 { $to }。
finding-no-fall = { $axis }超过 { $at }（{ $value }）后，{ $time }不再下降。
finding-no-fall-rises = { $axis }超过 { $at }（{ $value }）后，{ $time }不再下降，到 { $later } 时升至 { $to }。
finding-still-falling = { $axis }增至 { $at } 时，{ $time }仍在下降（{ $value }）。
finding-time-same = { $time }不随{ $axis }变化，均为 { $range }。
finding-time-flat = { $time }几乎不随{ $axis }变化：{ $range }。
finding-no-trend = { $time }随{ $axis }时升时降，没有趋势：{ $range }。
finding-uneven = { $time }随{ $axis }时升时降：{ $low } 时最短（{ $min }），{ $high } 时最长（{ $max }）。
finding-memory-faster = 若显存紧张（按显存 × 用时衡量），{ $axis }超过 { $from } 后不再划算：到 { $to } 时，{ $memory }增加 { $grows }，{ $time }只减少 { $falls }。
finding-memory-not-flat = { $axis }较小时，{ $memory }并非不变：{ $from } 时为 { $min }，{ $to } 时为 { $max }。
finding-memory-flat = { $axis }不超过 { $at } 时，{ $memory }几乎不变：{ $range }。
finding-load-trend = { $load }随{ $axis }{ $rises ->
    [yes] 上升
   *[no] 下降
}：{ $from } 时为 { $first }，{ $to } 时为 { $last }。
finding-frontier-none = { $axis }为 { $at } 时就已{ $memory ->
    [gpu] 显存不足
    [host] 内存不足
   *[machine] 超出本机资源
}。
finding-frontier = { $axis }为 { $at } 时{ $memory ->
    [gpu] 显存不足
    [host] 内存不足
   *[machine] 超出本机资源
}；{ $fits } 仍可运行。
finding-frontier-used = { $axis }为 { $at } 时{ $memory ->
    [gpu] 显存不足
    [host] 内存不足
   *[machine] 超出本机资源
}；{ $fits } 仍可运行，占用 { $used }。
finding-linear = { $column }与{ $axis }成线性关系：{ $intercept } { $sign } { $slope } × { $axis }，R² = { $r2 }。
finding-bound-gpu = 瓶颈在 GPU：GPU 利用率为 { $range }。
finding-bound-cpu = 瓶颈在 CPU：所分配 CPU 的利用率为 { $range }。
finding-bound-cpu-of = 瓶颈在 CPU：所分配 CPU 的利用率为 { $range }（分得 { $own } 个，主机共 { $host } 个；“CPU 利用率”按全部 { $host } 个计）。
finding-bound-data = 瓶颈在数据加载：等待数据占每轮用时的 { $range }。
finding-bursts = { $which ->
    [every] 所有结果中，各轮末尾的 CPU 利用率均高于轮中段（中间一半），差值最大的是 { $label }：{ $ends } vs. { $middle }
    [some] 部分结果中，各轮末尾的 CPU 利用率高于轮中段（中间一半），差值最大的是 { $label }：{ $ends } vs. { $middle }
   *[one] { $label } 各轮末尾的 CPU 利用率高于轮中段（中间一半）：{ $ends } vs. { $middle }
}。末尾指一轮的最后十分之一以及到下一轮开始为止的间隔。
finding-no-bursts = 各轮末尾（最后十分之一以及到下一轮开始为止的间隔）没有 CPU 突发负载：与轮中段（中间一半）相比，差值最大时也只是 { $ends } vs. { $middle }（{ $label }）。
finding-estimate = { $column }相对{ $of }的误差为 { $range }（绝对误差的中位数为 { $typical }）。
finding-estimate-one = { $column }相对{ $of }的误差为 { $most }。
finding-agrees = { $column }与先前数值相差不超过 { $most }；{ $of } 个中有 { $same } 个在给出的位数内完全一致。
finding-unchanged = 从 { $a } 到 { $b }，{ $column }没有变化（差异小于 { $most }）。
finding-hardly-changed = 从 { $a } 到 { $b }，{ $column }{ $how ->
    [rises] 上升不到 { $most }，且各行均未下降
    [falls] 下降不到 { $most }，且各行均未上升
   *[both] 的变化小于 { $most }
}。
finding-mixed = 从 { $a } 到 { $b }，{ $column }在部分行上升、部分行下降：{ $range }。
finding-undecided = 从 { $a } 到 { $b }，尚无法判断{ $column }是否变化：平均 { $mean }，95% 置信区间为 { $interval }。
finding-undecided-more = 若差异不变，每个配置再运行约 { $more } 次即可判断。
finding-undecided-most = 差异过小，每个配置运行 { $most } 次以上才可能判断。
finding-same-learned = 从 { $a } 到 { $b }，{ $column }{ $told ->
    [yes] 变化很小
   *[no] 的差异在重复训练的波动范围之内
}：变化的 95% 置信区间为 { $interval }。
finding-learned-change = 从 { $a } 到 { $b }，{ $column }平均{ $how ->
    [times] 变为{ $mean }
   *[change] 变化 { $mean }
}（按重复训练的波动估计，95% 置信区间为 { $interval }）{ $told ->
    [yes] {""}
   *[no] ，无法与随机波动区分
}。
finding-changed = 从 { $a } 到 { $b }，{ $column }{ $how ->
    [times] 变为{ $range }
    [rises] 上升 { $range }
   *[falls] 下降 { $range }
}。
finding-changed-pair = 从 { $a } 到 { $b }，{ $column }{ $how ->
    [times] 变为{ $range }
    [rises] 上升 { $range }
   *[falls] 下降 { $range }
}（{ $speed ->
    [none] {""}
   *[other] 速度是原来的 { $speed } 倍；
}95% 置信区间 { $interval }；{ $paired ->
    [yes] 配对 t 检验
   *[no] t 检验
}，p { $p }）。
where-axis = { $rows ->
    [one] 在唯一的{ $axis }下
    [two] 在两个{ $axis }下均
   *[every] 在各{ $axis }下均
}
where-rows = { $rows ->
    [one] 在唯一的一行中
    [two] 在两行中均
   *[every] 在各行均
}
where-some = 在 { $rows } 行中的 { $some } 行
finding-changed-few = 从 { $a } 到 { $b }，{ $column }{ $where }{ $how ->
    [times] 变为{ $range }
    [rises] 上升 { $range }
   *[falls] 下降 { $range }
}。
finding-changed-tested = 从 { $a } 到 { $b }，{ $column }{ $where }{ $how ->
    [times] 变为{ $range }
    [rises] 上升 { $range }
   *[falls] 下降 { $range }
}（符号检验，{ $pairs } 对，p { $p }）。
finding-changed-once = 从 { $a } 到 { $b }，{ $column }{ $where }{ $how ->
    [times] 变为{ $range }
    [rises] 上升 { $range }
   *[falls] 下降 { $range }
}{ $all ->
    [yes] {""}
   *[no] ；中位数为 { $median }
}。双方各只有一次运行，因此未做检验。
finding-changed-most = 从 { $a } 到 { $b }，{ $column }{ $where }{ $how ->
    [times] 变为{ $range }
    [rises] 上升 { $range }
   *[falls] 下降 { $range }
}（符号检验，p { $p }）；中位数为 { $median }。
finding-changed-at = 从 { $a } 到 { $b }，{ $axis }为 { $places }时{ $column }{ $rises ->
    [yes] 上升
   *[no] 下降
}；其余各处未见显著变化。
finding-one-training = 从 { $a } 到 { $b }，无法判断{ $columns }有无差异：各配置仅训练一次，重复训练之间的波动未知。
finding-identical = 未比较 { $a } 与 { $b } 的{ $columns }。
finding-packed = { $pays ->
    [yes] 建议同卡混部
   *[no] 同卡混部没有收益
}：全部任务用时 { $packed }，串行执行需 { $alone }（吞吐量是串行执行的 { $gain } 倍）。各任务的总用时是单独运行的 { $range } 倍。
finding-packed-in-runs = 同卡混部的任务分在多次运行中完成，而非同一次，因此全部完成的总用时未知。各任务的总用时是单独运行的 { $range } 倍。
finding-packed-in-part = 同卡混部使全部 { $of } 个任务提前多少完成，目前未知：{ $without } 不能与{ $n ->
    [1] 单独运行
   *[other] 各自的单独运行
}比较，因为两次运行之一缺失、失败、受到干扰、曾从检查点继续或条件不同。其余 { $compared } 个任务的总用时是单独运行的 { $range } 倍。
finding-foreign = { $several ->
    [yes] 部分相关结果在测量时，其他程序最多占用了 { $used } 的 CPU（{ $label } 运行时最多）
   *[no] { $label } 运行时，其他程序占用了 { $used } 的 CPU
}，这一结论可能受其影响。
finding-foreign-few = { $all } 个结果中有 { $disturbed } 个受其他程序干扰：{ $several ->
    [yes] 其他程序最多占用了 { $used } 的 CPU（{ $label } 运行时最多）
   *[no] { $label } 运行时，其他程序占用了 { $used } 的 CPU
}。
finding-foreign-table = { $several ->
    [yes] 本表部分结果在测量时，其他程序最多占用了 { $used } 的 CPU（{ $label } 运行时最多）
   *[no] { $label } 运行时，其他程序占用了 { $used } 的 CPU
}，与这些用时有关的结论可能受其影响。
finding-packed-foreign = 期间其他程序最多占用了 { $used } 的 CPU，因此无法得知其中有多少来自同卡混部。
finding-repeated-differs = { $column }随{ $axis }的差异超出重复运行的波动：均值为 { $range }（{ $paired ->
    [yes] 配对 F 检验
   *[no] F 检验
}，p { $p }）。
finding-repeated-alike = { $column }随{ $axis }的差异未超出重复运行的波动：均值为 { $range }（{ $paired ->
    [yes] 配对 F 检验
   *[no] F 检验
}，p { $p }）。
finding-cost-free = 无代价的改进：与 { $a } 相比，{ $better ->
    [yes] { $b } 降低了{ $cheaper }，且{ $accuracy }略优
   *[no] { $b } 在{ $accuracy }不变的情况下降低了{ $cheaper }
}。

## 为发现计算的数值
computed-heading = 上述结论所依据的计算值
computed-figure = 指标
computed-value = 数值
computed-growth = { $column }增长率，{ $axis } { $from } 至 { $to }
computed-intercept = { $column }对{ $axis }的截距
computed-slope = { $column }对{ $axis }的斜率
computed-r2 = { $column }对{ $axis }的 R²
computed-min = { $column }最小值
computed-max = { $column }最大值
computed-of = { $label } 的{ $column }
computed-mean-change = { $column }的平均变化
computed-low-change = { $column }变化的 95% 置信区间下限
computed-high-change = { $column }变化的 95% 置信区间上限
computed-pairs = { $column }符号检验的配对数
computed-median-change = { $column }变化的中位数
computed-rows-changed = { $column }如此变化的行数
computed-rows = 两者都有{ $column }的行数
computed-sign-test = { $column }符号检验的 p 值
computed-f-test = { $column }对{ $axis }的 F 检验 p 值，对本节全部 F 检验作 Holm 校正
computed-pair-test = { $column } t 检验的 p 值
computed-speed = 由{ $column }的变化算出的速度倍数
computed-t-test = 最佳{ $column }与 { $at } 相比的 p（按全部其他点做 Bonferroni 校正）
computed-lead = 最佳{ $column }与 { $at } 的差距
computed-value-at = { $at } 时的{ $column }
computed-axis-mean = { $at } 时{ $column }的均值
computed-axis-way = { $column }对{ $axis }各取值均值的最大差
computed-compared = 同卡混部与单独运行可比较的任务数
computed-packed = 同卡混部的任务总数
computed-foreign-during = { $label } 运行时其他程序的 CPU 利用率
computed-foreign = 测量期间其他程序的最大 CPU 利用率
computed-at-once = 同卡混部的总完成时间
computed-one-by-one = 串行执行的总完成时间
computed-gain = 同卡混部相对串行执行的吞吐量
computed-min-slowdown = 同卡混部相对单独运行的最小减速倍数
computed-max-slowdown = 同卡混部相对单独运行的最大减速倍数
computed-off = { $column }与先前数值的最大差异
computed-as-given = { $column }在给出的位数内与先前数值相同的个数
computed-given = { $column }先前数值的个数
computed-min-off = { $column }相对{ $of }的误差，最小值
computed-max-off = { $column }相对{ $of }的误差，最大值
computed-typical-off = { $column }相对{ $of }的绝对误差，中位数
computed-apart = { $axis }为 { $at } 时{ $column }的最高值与最低值之比减 1
computed-interval = { $value }（{ $range }）
computed-behind = { $axis }为 { $at } 时 { $part } 与 { $than } 的{ $column }之差及其 95% 联合置信区间
computed-middle = { $label } 轮中段的 CPU 利用率
computed-ends = { $label } 轮末尾的 CPU 利用率
column-waiting_share = 等待数据的时间占比
column-own_cpu_util = 所分配 CPU 的利用率

## 同时运行
together-members = 单独运行与同时运行
together-used = 同时运行期间的资源占用
together-sum = { $group } 合计
note-gpu-load = GPU 利用率指有核函数运行的时间占比，不反映核函数占用了多少计算单元。
note-gpu-memory-load = 显存控制器利用率指有读写发生的时间占比，不反映占用了多少带宽。
note-short-load = 驱动程序给出的 GPU 负载是至多一秒内的平均值；各轮合计不足一秒时，不列出负载。
note-gain = ± 为 95% 区间的半宽。{ $once ->
    [yes] 仅运行一次的组：吞吐量的 ± 按运行间标准差 { $assumed } 假设；减速比的 ± 只含轮间波动（未知时按 { $usual } 计），不是 95% 置信区间。
   *[no] {""}
}
note-windows = 各项数值只统计该任务在全体同时运行期间的各轮；各任务的统计时段略有不同，合计可能略高于总量。
note-all-runs = 单独与同时运行的用时均为各自所有有效运行的几何平均（若均无效，则为所有运行的）；上表不含仅为得出结论而追加的运行。
together-more-cpus = 单独运行的任务用不满同时运行时所用的全部 CPU，这{ $more ->
    [yes] 解释了一部分提升
   *[no] 足以解释这一提升
}。
together-possible = 这些 CPU 最多只能提供 { $most } 倍的吞吐量，实测提升中超出的部分是噪声。
together-groups = 结论
packed-members = 单独运行与同卡混部
packed-packed = 同卡混部的{ $column }
packed-slowdown = 减速倍数
together-alone = 单独运行的{ $column }
together-together = 同时运行的{ $column }
together-predicted = 同时运行的{ $column }（由单独运行预测）
together-off = 预测误差
together-of-group = { $value }（{ $group }）
together-interference = 共享 GPU 的各成员，其减速量按干扰系数乘以 GPU 总需求超出 100% 的部分预测。{ $known ->
    [none] 此前未测得在该型号 GPU 上共享的代价：系数取 1。
    [all] 按此前在该型号 GPU 上的测量，系数为 { $each }。
   *[some] 按此前在该型号 GPU 上的测量，系数为 { $each }；其余此前未测得者取 1。
}
together-slower = 相对单独运行的用时增幅
together-cpu-alone = 单独运行的 CPU 利用率
together-foreign-alone = 单独运行时其他程序的 CPU 利用率
together-foreign-together = 同时运行时其他程序的 CPU 利用率
together-group = 组
together-placement = GPU
together-verdict = 结论
together-gain = 相对串行执行的吞吐量
placement-own = 各自独占
placement-shared = 共享
demand-cpu = CPU 总需求
demand-memory = 主机内存总需求
demand-gpu = GPU 总需求
demand-gpu_memory = 显存总需求
demand-gpu_memory_traffic = 显存控制器总需求
demand-used = { $demand } → 实际占用
demand-data = 等待数据，单独 → 同时
verdict-parallel = 并行
verdict-parallel-within = 并行（容差 { $tolerance }）
verdict-only-concurrent = 仅并发
verdict-no-gain = 没有收益
verdict-slower = 不如串行执行
verdict-too-noisy = 尚无法判断
verdict-overlap = 重叠不足
verdict-out-of-memory = 显存或内存不足
verdict-refused = 不作比较
longer = 各任务用时比单独运行增加 { $range }
longer-in-times = 各任务用时是单独运行的 { $range } 倍
longer-or-less = 与单独运行相比，各任务用时变化为 −{ $less } 至 +{ $longer }
together-parallel = 同时运行（{ $group }）：**{ $verdict }**。减速最大的任务{ $times ->
    [yes] 用时是单独运行的 { $most } 倍
   *[no] 用时比单独运行增加 { $most }
}，在 { $tolerance } 的容差之内。
together-no-slower = 同时运行（{ $group }）：**{ $verdict }**。各任务均未明显慢于单独运行。
together-only-concurrent = 同时运行（{ $group }）：**{ $verdict }**。{ $longer }，但合计吞吐量是串行执行的 { $gain } 倍。
together-slower-than = 同时运行（{ $group }）：**{ $verdict }**。{ $longer }，合计吞吐量只有串行执行的 { $gain } 倍。
together-no-gain = 同时运行（{ $group }）：**{ $verdict }**。{ $longer }，合计吞吐量是串行执行的 { $gain } 倍：同时运行没有带来收益。
together-noisy-gain = 同时运行（{ $group }）：**{ $verdict }**。{ $longer }；合计吞吐量（串行执行的 { $gain } 倍）{ $why ->
    [impossible] 超出了 CPU 所能达到的上限
   *[noise] 与串行执行的差异未超出测量噪声
}。
together-noisy = 同时运行（{ $group }）：**{ $verdict }**。与单独运行的差异（{ $times ->
    [yes] 用时是其 { $range } 倍
   *[no] { $range }
}）未超出测量噪声。
together-runs = 重复次数（+ 仍需次数）
together-counted = { $looks } 次中 { $counted } 次有效
together-foreign-left-out = 无效运行时其他程序的 CPU 利用率
together-left-out = 单独与同时运行各测量 { $looks } 次，{ $counted ->
    [0] 均无效
   *[other] 其中 { $counted } 次有效，各项数值仅取自有效运行
}。
left-out-foreign = 无效运行期间，其他程序最多占用了 { $used } 的 CPU（{ $label } 运行时最多）。
left-out-incomplete = 无效运行缺少成员。
left-out-overlap = 无效运行 { $label } 没有一轮完全落在全体同时运行的时段之内。
left-out-out-of-memory = 无效运行 { $label } 与其他成员同时运行时显存或内存不足。
together-looks = 单独与同时运行各测量 { $looks } 次。
together-more = 各运行 { $looks } 次尚不足以判断；若用时保持不变，约需再运行 { $more } 次：`repeat: {"{"}until: decided, at_most: { $most }{"}"}`。
together-undecidable = 各运行 { $looks } 次尚不足以判断，再运行 100 次也不够：各次运行之间的差异太大，或离判断的界限太近。
together-foreign = 同时运行（{ $group }）：**{ $verdict }**。{ $label } 运行时，其他程序占用了 { $used } 的 CPU。
together-overlap = 同时运行（{ $group }）：**{ $verdict }**。{ $label } 没有一轮完全落在全体同时运行的时段之内：可增加 epoch 数。
together-out-of-memory = 同时运行（{ $group }）：**{ $verdict }**。{ $label } 与其他成员同时运行时显存或内存不足。
together-refused = 同时运行（{ $group }）：**{ $verdict }**。{ $why }
refused-one-member = 该组只有一个成员，没有其他任务与其同时运行。
refused-not-alone = 本应单独运行的 { $label } 与 { $others } 同时运行；`exclusive: true` 可使其独占机器。
refused-no-solo = { $label } 没有可供比较的单独运行结果。
refused-no-time = { $label } 没有可供比较的用时。
refused-resumed = { $label } 没有可供比较的轮次，且曾从检查点继续，其总用时包含多次启动，不能用于比较。
refused-unlike = { $label } 与其单独运行的条件不同（{ $what }：{ $other } vs. { $one }）。
refused-ended = { $label } 没有结果（{ $how }）。
refused-disturbed = { $label } 的测量受到干扰，结果不可靠：{ $why }。
rulings-in = 瓶颈资源：{ $list }。
rulings-out = 非瓶颈：{ $list }。
rulings-unclear = 尚无法判断：{ $list }。
rulings-unmeasured = 未测得：{ $list }。
rulings-free = 资源尚有余量：{ $list }。
ruling-demand = { $what }（总需求 { $demand }）
ruling-used = { $what }（总需求 { $demand }，实际占用 { $used }）
ruling-change = { $what }（至多占每轮的 { $together }，单独运行时至多为 { $alone }）
ruling-own = { $what }（各自独占）
resource-cpu = CPU
resource-memory = 主机内存
resource-gpu = GPU
resource-gpu_memory = 显存容量
resource-gpu_memory_traffic = 显存控制器
resource-data = 等待数据

## 作者的备注
note-question = 问题：{ $text }
note-guess = 猜测：{ $text }
note-todo = 待办：{ $text }
note-see = 参见 { $text }
guess-confirmed = **已证实**：{ $groups } 的瓶颈正是{ $resource }。
guess-confirmed-relieved = **已证实**：{ $groups } 的瓶颈正是{ $resource }；而{ $kind ->
    [data] 几乎无需等待的
   *[other] 该资源充足的
} { $relieved } 可以并行。
guess-confirmed-alone = **已证实**：瓶颈正是{ $resource }。
guess-refuted = **数据不支持**：按其数值，{ $groups } 的瓶颈不是{ $resource }。
guess-open = **未定**：现有数据既不能证实也不能否定原因是{ $resource }。

## 页面
language = 中文
setup-no-gpu = 无
setup-gpus-there = 本机共 { $there } 块
setup-slurm = { $jobs } 个作业，{ $nodes } 个节点
setup-versions = 软件版本
setup-profile = 配置
setup-profile-value = { $profile }（{ $why }）
setup-set = 命令行覆盖的参数
setup-others = 其他参数
setup-runs = 运行编号
setup-commit = Git 提交
setup-commit-clean = { $commit }
setup-commit-dirty = { $commit }，含未提交的修改
setup-commit-outside = ，部分输入不在 Git 中
setup-method = 用语含义
method-same = “相同”“持平”：相差不超过 { $same }，占比类指标不足 { $share } 个百分点。
method-course = “上升”“下降”：变化超过 { $same }（占比类指标为 { $share } 个百分点），且回调不超过全程的 { $back }。
method-linear = “线性”：R² 不低于 { $linear }，且各点偏离不超过 { $off }。
method-fit = 拟合曲线：R² 不低于 { $fit }，且各点偏离不超过 { $off }。
method-jumps = “跳变”：相邻点之差超出其波动的 { $jump } 倍。
method-parallel = “并行”：各任务比单独运行慢不超过 { $parallel }（可用 `tolerance:` 修改）。
method-bound = “瓶颈”：负载不低于 { $full }，或每轮有 { $waiting } 以上的时间在等待数据。
method-reproduced = “复现”：方向相同，且两者的幅度相差不超过 { $times } 倍。
method-tests = 检验：p 不大于 { $p }。
section-title = { $step }：不同{ $rows }下的结果
section-title-one = { $step }
section-title-where = { $title }（{ $where }）
changes-title = 从 { $a } 到 { $b } 的变化
changes-differences = { $columns } 的变化以差值给出：起始值为 0 或含负值时，比值没有意义。
remark-fake-gpus = 本报告中的 GPU 是声明的，并非真实设备。
remark-left-out = 未包含：{ $step }（{ $why }）。
remark-foreign-cpu = { $label } 运行时，其他程序占用了 { $used } 的 CPU。
remark-foreign-cpu-several = 有 { $count } 个结果在测量时受到其他程序占用 CPU 的影响，最多达 { $used }（{ $label }）。
remark-measure-again = 机器空闲时，可用 { $command } 重新测量。
remark-unwatched = { $count ->
    [1] { $label } 运行时，flow 无法得知该机器上的其他运行是否同时执行了步骤。
   *[other] 有 { $count } 个结果（其中有 { $label }）在测量时，flow 无法得知该机器上的其他运行是否同时执行了步骤。
}
remark-foreign-processes = { $label } 运行时，其所用的 GPU 上还有其他程序：{ $names }。
remark-foreign-processes-unnamed = { $label } 运行时，其所用的 GPU 上还有其他程序。
remark-gpu-shared = { $count ->
    [1] { $label } 运行时与其他进程共用 GPU：其他进程占用了 { $used } 的 GPU 时间
   *[other] 有 { $count } 个结果运行时与其他进程共用 GPU：其他进程最多占用了 { $used } 的 GPU 时间（{ $label }）
}。
remark-gpu-shared-own = { $count ->
    [1] { $label } 按计划与 flow 的其他步骤共用 GPU：后者占用了 { $used } 的 GPU 时间
   *[other] 有 { $count } 个结果按计划与 flow 的其他步骤共用 GPU：后者最多占用了 { $used } 的 GPU 时间（{ $label }）
}。
remark-limit = 显存曾被限制为 { $limit }（`memory_limit`）：超出该上限的运行，显卡的显存也许仍放得下。
remark-short-epochs = { $count ->
    [1] { $label } 的每轮平均用时只有 { $min }，不足 { $bound }
   *[other] 至少 { $count } 个结果的每轮平均用时不足 { $bound }，最短为 { $min }（{ $label }）
}：时间过短，一轮首尾的开销和随机波动影响较大。
remark-few-epochs = { $count ->
    [1] { $label } 的用时只由 { $min ->
        [1] 1 轮
       *[other] { $min } 轮
    }得出
   *[other] 有 { $count } 个结果的用时由不足 { $bound } 轮得出，最少 { $min } 轮（{ $label }）
}：各轮之间的波动难以估计。
remark-chance = { $count ->
    [1] { $label } 与随机猜测无异
   *[other] 有 { $count } 个结果与随机猜测无异，其中有 { $label }
}：{ $column } { $value } 不高于或仅略高于在 { $classes } 类中随机猜测的水平。
chart-over = { $column }随{ $axis }的变化
chart-gpus = { $gpus ->
    [0] 无 GPU
   *[other] { $gpus } 块 GPU
}
chart-bars = 误差线：{ $kinds }。
chart-bands = 阴影带：{ $kinds }。
chart-merged = 相差不到 y 轴 { $share } 的几条线画为一条。
chart-bars-sd = 标准差
chart-bars-interval = 均值的 95% 置信区间
chart-bars-range = 最小值至最大值
chart-bars-runs = 重复运行中的最短至最长用时
chart-alone = 单独运行
chart-predicted = 同时运行（由单独运行预测）
chart-together = 同时运行
chart-together-alt = 单独运行与同时运行的对比
chart-packed = 同卡混部
chart-packed-alt = 单独运行与同卡混部的总用时
chart-time = 时间
chart-time-epochs = 自第一轮开始的时间
chart-load-gpu = GPU
chart-load-host = 主机
chart-now = 本次
chart-no-result = 无结果
chart-odd-epochs = 奇数轮
chart-load-alt = { $label } 的负载与内存占用随时间的变化{ $shaded ->
    [yes] ，阴影为奇数轮
   *[no] {""}
}

## 结束、未运行或不可采信的原因
cause-condition-false = 条件 { $expression } 不满足
cause-empty-axis = 轴 { $axis } 为空
cause-no-instances = 没有实例
cause-no-instances-of = { $step } 没有实例
cause-no-instances-because = { $step } 没有实例：{ $why }
cause-all-skipped = 全部被跳过
cause-request-too-large = 所需资源超过现有资源
cause-unresolved = 表达式无法求值：{ $error }
cause-no-input = 输入无法读取：{ $error }
cause-no-environment = 环境 { $name } 无法使用：{ $error }
cause-result-unseen = 无法确认已有结果是否完整：{ $error }；结果予以保留，请重新运行
cause-not-provided = 此处没有安装 { $uses }
cause-member-cannot-run = 同组的 { $label } 无法运行：{ $why }
cause-need-cannot-run = { $label } 无法运行
cause-need-failed = { $label } 未成功
cause-other-failed = { $label } 失败，且未指定 -k
cause-member-failed = 同组的 { $label } 未成功
cause-run-cancelled = 运行被取消
cause-decided = { $group } 的结论已知，无需再运行：各运行 { $looks } 次，{ $verdict }
cause-decided-not = { $group } 无法比较，再运行也不会改变
cause-not-run = 未运行
cause-gpu-gone = 所需的 GPU 已掉卡
cause-not-started = 无法启动
cause-not-started-because = 无法启动：{ $error }
cause-builtin = 内置步骤报错：{ $error }
cause-nothing-to-show = 没有任何章节有内容可显示
cause-no-schedule = 没有调度记录
cause-reported-failure = 程序报告失败，未说明原因
cause-reported-success = 程序报告 `ok`，之后{ $end }
cause-no-report = 程序{ $end }，未报告结果
cause-exited = { $end }
cause-exited-line = { $end }：{ $line }
cause-out-of-memory = { $gpu ->
    [yes] 显存不足
   *[no] 内存不足
}
cause-killed-for-memory = 主机内存不足，被内核终止
cause-timed-out = 运行时间超过 { $limit } 秒的时限
cause-failed = 失败
batch-job = 作业 { $id }
batch-its-job = 其作业
batch-node-lost = Slurm { $job }所在的节点 { $node } 失联
batch-some-node-lost = Slurm { $job }所在的节点失联
batch-time-limit = { $job } 达到 Slurm 的时限
batch-time-limit-why = { $end }：{ $why }
batch-no-checkpoint = 它没有在 `FLOW_CHECKPOINT` 中留下可供另一个作业继续的内容；请为该步骤设置 `slurm: {"{"}time: …{"}"}`，或改用时限更长的分区，或让它写检查点
batch-no-progress = 它没有写下新的检查点，换一个作业也不会有进展；请为该步骤设置 `slurm: {"{"}time: …{"}"}`，或改用时限更长的分区，或让它更频繁地写检查点
batch-not-resumed = 该步骤设有 `resume: false`，不在另一个作业中继续；请为其设置 `slurm: {"{"}time: …{"}"}`，或改用时限更长的分区
batch-group = 同时运行组的成员一同测量，不在另一个作业中继续；请为该步骤设置 `slurm: {"{"}time: …{"}"}`，或改用时限更长的分区
batch-memory = { $job } 占用的内存超出 Slurm 分配的内存：请为该步骤设置更大的 `memory`
batch-cancelled = { $job } 在 Slurm 中被取消，并非由 flow 取消
batch-preempted = { $job } 在 Slurm 中被其他作业抢占
batch-not-launched = Slurm 未能在节点上启动{ $job }
batch-failed-code = { $job } 在节点上的 flow 开始之前即以退出码 { $code } 结束
batch-failed = { $job } 在 flow 记下结果之前即告结束
batch-begun = { $job } 在 Slurm 中结束；flow 已在其节点上启动，但没有记下结果
batch-last-line = { $end }：{ $line }
batch-silent = { $end }，其日志为空
batch-unread = { $end }：该次执行文件夹中的 `slurm.log` 可能有更多信息
batch-held = Slurm 挂起了{ $job }（{ $reason }）
batch-unsatisfiable = { $job } 在 Slurm 中将永远等待（{ $reason }）
batch-refused = Slurm 拒绝其作业：{ $error }
batch-vanished = Slurm 中已查不到{ $job }，且它没有留下结果
cause-not-listed = { $how }；项目中有 { $path }，但步骤的工作目录中没有：请将其列入 `inputs:`
cause-no-repository = { $how }；步骤的工作目录不在 Git 仓库中：提交见环境变量 `FLOW_COMMIT`，项目目录见 `FLOW_ROOT`
cause-no-output = 结束时未将输出 { $output } 写入 { $path }
cause-no-output-nothing = 其工作目录 { $work } 中没有新文件
cause-no-output-new = 其工作目录 { $work } 中的新文件：{ $files }
cause-no-output-new-more = 其工作目录 { $work } 中的新文件：{ $files }，另有 { $more } 个
cause-output-unseen = flow 无法查看其输出 { $output }（{ $path }）：{ $error }
cause-not-stored = 产物无法保存：{ $error }
cause-gpu-lost = 运行期间 GPU { $gpu }（{ $model }）掉卡
cause-gpu-lost-how = 运行期间 GPU { $gpu }（{ $model }）掉卡（{ $how }）
cause-set-up-again = { $how }；下次运行将重新安装 { $plugin }
end-code = 以退出码 { $code } 结束
hint-killed = 并非 flow 所杀；可能是容器或 cgroup 的 OOM killer：可用 `dmesg` 查看
hint-broken-pipe = 管道的读取方（如 `head`）先行结束，写入方因此收到 SIGPIPE；可用 `|| true` 忽略
hint-module = 此 shell 中没有 `module`；请在脚本开头 `source /etc/profile.d/modules.sh`，或本机定义它的文件
hint-conda = 此 shell 无法激活环境；请在脚本开头 `source PREFIX/etc/profile.d/conda.sh`（PREFIX 为 conda 的安装目录），或使用 `PREFIX/bin/conda run -n ENV …`
end-signal = 被信号 { $name } 终止
end-unknown = 以未知方式结束
lack-gpu-count = { $n ->
    [0] 0 块 GPU
    [1] 1 块 GPU
   *[other] { $n } 块 GPU
}
cpu-count = { $n ->
    [1] 1 个 CPU
   *[other] { $n } 个 CPU
}
cpu-count-of = { $of } 个 CPU 中的 { $n } 个
lack-gpus = 需要 { $needs }，本机有 { $has }
lack-gpus-trouble = 需要 { $needs }，本机有 { $has }（{ $trouble }）
lack-gpu-memory = 需要 { $needs }，每块显存 { $memory }，本机符合的有 { $has } 块（最大为 { $largest }）
lack-cpus = 需要 { $needs }，本机有 { $has } 个
lack-memory = 需要 { $needs } 内存，本机有 { $has }
lack-group-gpus = 所在的组有 { $members } 个成员，共需各自独占的 { $needs }，本机有 { $has }
lack-group-gpu-memory = 所在的组有 { $members } 个成员，共需在 { $needs }上各占 { $memory } 显存，本机符合的有 { $has } 块
lack-group-memory = 所在的组有 { $members } 个成员，共需 { $needs } 内存，本机有 { $has }
lack-member = 与 { $label } 同组，后者{ $why }
filling-own = { $path } 无法创建：{ $error }
filling-input = 输入 { $path } 无法复制到工作目录：{ $error }
filling-input-in-input = 输入 { $path } 会写入另一输入 { $folder } 之中：请将其中之一改名
filling-input-changed = 运行期间 { $path } 发生了变化；请重新运行
filling-environment-changed = 运行期间环境 { $name } 的软件包发生了变化；请重新运行
environment-changes = { $name }（{ $list }）
filling-artifact = 其他步骤的产物无法取用：{ $error }
filling-no-plugin = 插件 { $plugin } 已不存在
metrics-unread = 指标应在 { $file } 中，但无法读取：{ $error }
metrics-no-json = 指标文件 { $file } 不是合法的 JSON：{ $error }
metrics-no-numbers = 指标文件 { $file } 既不是数值对象，也不是此类对象的列表
metrics-bad-line = 指标文件 { $file } 第 { $line } 行不是 JSON 对象：{ $text }
metrics-no-header = 指标文件 { $file } 的第一行是数值；该行应为列名
metrics-none-in-file = 指标文件 { $file } 中没有数值
metrics-none-in-table = 指标文件 { $file } 的表头下没有数值
metrics-no-event-file = 指标目录 { $file } 中没有 TensorBoard 事件文件
metrics-bad-event = 指标所在的事件文件 { $file } 从第 { $at } 字节起损坏，其后内容未读取
metrics-unmatched-nearest = { $pattern }（最接近的一行：{ $line }）
metrics-none-matches = 程序输出中没有一行符合{ $several ->
    [yes] 下列指标模式
   *[no] 指标的模式
}：{ $patterns }；可用 `flow logs` 查看输出
refusal-other-protocol = 插件 { $plugin } 使用协议 { $theirs }，本版 flow 使用协议 { $ours }：{ $newer ->
    [yes] 请使用更新的 flow
   *[no] 请按现行协议重新构建插件
}
refusal-no-hello = 程序在 `hello` 之前写了消息；第一行须为协议 { $protocol } 的 `hello`
refusal-messages-unread = 消息无法读取：{ $error }
refusal-log-unread = 日志无法读取：{ $error }
refusal-log-too-long = 输出超过 { $most } MiB，而文件系统无法截去日志的中段（{ $error }）
refusal-not-reached = 无法在 { $folder } 中通知其继续或结束：{ $error }
disturbed-foreign-process = 运行期间，外部进程 { $pid }（{ $name }）在 GPU { $gpu } 上运算
disturbed-gpu-silent = 运行期间，GPU { $gpu } 有 { $seconds } 秒没有响应，其间的情况未知
disturbed-other-runs = 该步骤需要独占整台机器，但其他运行同时在此执行步骤，最多 { $attempts } 个
disturbed-input-changed = 运行期间 { $path } 发生了变化
disturbed-input-rewritten = 运行期间 { $path } 发生了变化：开始后 { $seconds } 秒被写入，之后又恢复了原来的内容
disturbed-input-written = 有步骤写入了 { $path } 的只读副本；你自己的文件没有改动
disturbed-input-written-itself = 该步骤写入了 { $path } 的只读副本；你自己的文件没有改动
disturbed-artifact-gone = { $path } 为只读，却在其运行期间被改动或删除
disturbed-artifact-changed = { $path } 为只读，却{ $damage }
disturbed-artifact-unseen = 无法确认 { $path } 是否未被改动：{ $error }
caveat-first-values = 序列只保留前 { $kept } 个值（共 { $printed } 个）；末值、最小值和最大值按全部计
caveat-output-unread = 有 { $size } 的输出未读取，其中的数值不计入指标
caveat-other-environment = 它从另一软件环境留下的检查点继续：{ $list }
caveat-other-environment-more = 它从另一软件环境留下的检查点继续：{ $list }，另有 { $more } 处不同
disturbed-other-hardware = 声明的是 { $declared }，实际在 { $found } 上运行
damage-missing = 已不存在
damage-changed = 被改动
damage-changed-in = 被改动：{ $path }
damage-content = 内容与名称不符
profile-requested = 由 --profile 指定
profile-holds = { $expression } 成立

## 原因中所含的错误：英文由程序自身给出
fault-system = { $code ->
    [1] 不允许该操作
    [2] 没有这样的文件或目录
    [4] 操作被中断
    [5] 输入/输出错误
    [7] 参数过长
    [8] 不是可执行的格式
    [11] 资源暂时不可用
    [12] 内存不足
    [13] 没有权限
    [16] 设备或资源正忙
    [17] 文件已存在
    [18] 跨文件系统的链接
    [20] 不是目录
    [21] 是目录
    [22] 参数无效
    [23] 系统打开的文件过多
    [24] 打开的文件过多
    [26] 程序文件正在被写入
    [27] 文件过大
    [28] 磁盘空间已满
    [30] 文件系统只读
    [31] 链接过多
    [32] 管道已断开
    [36] 文件名过长
    [39] 目录不为空
    [40] 符号链接层数过多
    [95] 不支持该操作
    [110] 超时
    [116] 文件句柄已失效
    [122] 超出磁盘配额
   *[other] 系统报告“{ $message }”
}
fault-not-regular = 不是普通文件，而是{ $found }
fault-in-the-way = 不是普通文件，而是{ $found }：请将其移走
fault-link-in-place = 该处是一个符号链接，不予跟随
fault-not-text = 第 { $line } 行不是 UTF-8 文本
fault-too-long = 大小为 { $size }，此类文件最多读取 { $most }
fault-no-text = 不是 UTF-8 文本
fault-sheet-empty = 文件为空；第一行应为列名
fault-sheet-line = 第 { $line } 行有 { $found } 个单元格，而第一行有 { $expected } 个列名
fault-bad-pattern = 第 { $line } 行：{ $message }
fault-folder = 目录
fault-link = 链接
fault-pipe = 管道
fault-socket = 套接字
fault-device = 设备
fault-store-cannot = { $which ->
    [copy] 无法复制
    [copy-to] 无法复制到
    [create] 无法创建
    [find] 找不到
    [follow-the-link] 无法跟随链接
    [give-away] 无法更改所属的组
    [link-to] 无法链接到
    [lock] 无法锁定
    [look-at] 无法查看
    [look-at-the-disk-of] 无法查看所在磁盘
    [look-at-the-file-system-of] 无法查看所在文件系统
    [look-for-the-group-of] 无法查找所属的组
    [make-a-store-in] 无法在此建立存储
    [make-writable] 无法设为可写
    [move-aside] 无法移开
    [move-into-place] 无法移动到位
    [move-into-the-store] 无法移入存储
    [open] 无法打开
    [open-to-its-group] 无法向所属的组开放
    [reach-the-database-of-this-machine-by] 无法经此访问本机数据库
    [read] 无法读取
    [read-the-link] 无法读取链接
    [remove] 无法删除
    [settle] 无法设置权限和时间
    [sync] 无法同步
    [store] 无法存入存储
    [use] 无法使用
    [use-the-database] 无法使用数据库
    [write] 无法写入
   *[other] 无法处理
} { $path }：{ $error }
fault-store-refused = { fault-store-cannot }
fault-no-inodes = { fault-store-cannot }；该文件系统的 inode 已用尽：请删除一些文件（大小不限），再重新运行：已记录的内容不会丢失
fault-store-full = { fault-store-cannot }；请先手动腾出几 MiB 空间（`flow gc` 删除旧运行留下的内容时也需要），再重新运行：已记录的内容不会丢失
fault-malformed = { $path } 与预期不符：{ $error }
fault-leads-back = { $path } 无法保存：它指回其上层目录
fault-leads-out = { $path } 无法保存：它是指向 { $to } 的符号链接，超出了输出的范围；只能保存不超出范围的相对链接，请复制该文件
fault-leads-outside = { $path } 无法保存：其中的符号链接指向步骤目录之外的 { $to }，请复制该文件
fault-no-artifact = { $path } 无法保存：它是{ $found }；只能保存文件、目录和链接
fault-artifact-gone = 存储中的产物 { $digest } 已丢失或损坏（不存在）：`flow doctor` 会列出其他受损内容，下次运行将重新生成
fault-artifact-lacks = 存储中的产物 { $digest } 已丢失或损坏（没有 { $path }）：`flow doctor` 会列出其他受损内容，下次运行将重新生成
fault-artifact-changed = 存储中的产物 { $digest } 已丢失或损坏（{ $path } 与文件列表均已改变）：`flow doctor` 会列出其他受损内容，下次运行将重新生成
fault-cannot-be-computed = 无法计算：{ $message }
fault-no-such-axis = 列表中没有轴 { $axis }；现有 { $axes }
fault-nothing-to-compare = 列表中没有可供比较的 { $attribute }
fault-zero-in-command = 命令中不能有 NUL 字符
fault-ended-without-output = { $label } 以“{ $outcome }”结束，没有输出
fault-ended-without-this-output = { $label } 以“{ $outcome }”结束，没有输出 { $output }
fault-ended-without-metrics = { $label } 以“{ $outcome }”结束，没有指标
fault-declares-no-outputs = { $label } 未声明输出
fault-several-outputs = { $label } 有多个输出；请写 `.outputs.NAME`，可选 { $outputs }
fault-no-such-output = { $label } 没有输出 { $output }
fault-no-such-metric = { $label } 没有指标 { $metric }；现有 { $metrics }
fault-metric-misspelt = { $label } 没有指标 { $metric }；是否指 { $near }？
fault-none-is-left = { $step } 没有剩下可取 { $key } 的实例
fault-wants-one = { $key } 需要 { $step } 的一个实例，而现有 { $count } 个：请缩小范围，例如 { $example }
fault-undefined = { $expression } 未定义
fault-undefined-result = 结果未定义
fault-not-finite = 结果为 { $value }，不是有限的数
fault-number-too-large = 数值 { $value } 过大
fault-no-value = 类型 { $type_name } 不能作为值保存
fault-not-made = 无法得到该值
fault-null-in-text = 值为 null，不能写入文本；可用 `| default('…', true)` 给出默认值
fault-reads-under = { $label } 读取 { $expression }（{ $key }，{ $place }）：{ $error }
fault-reads = { $label } 读取 { $expression }（{ $place }）：{ $error }
fault-no-command = { $label }（{ $place }）：{ $error }
fault-no-with = { $label }（{ $place }）：`with` 中{ $error }
fault-bad-with = { $label }（{ $place }）：{ $mistakes }
fault-bad-env = { $label }（{ $place }）：`env` 中{ $mistakes }
fault-no-program = 没有可启动的程序
fault-zero-byte = 参数、变量或路径中有零字节
fault-no-process = 无法创建新进程：{ $error }
fault-no-session = 无法创建新会话：{ $error }
fault-no-entry = 无法进入 { $path }：{ $error }
fault-not-on-path = PATH 中没有程序 { $program }；请安装，或写出其路径
fault-no-bash = PATH 中没有 `bash`，而此命令需要 shell；请安装，或在步骤中写明 `shell: sh`
fault-no-interpreter = { $program } 存在，但其第一行所写的解释器不存在
fault-not-there = { $program } 不存在（从步骤的工作目录查找）；其中只有 `inputs:` 列出的内容
fault-not-executable = { $program } 不可执行；请对其 `chmod +x`，或写出其解释器
fault-not-a-program = { $program } 既不是程序，也不是第一行以 `#!` 开头的脚本
fault-arguments-too-long = { $program }：参数与变量合计过长；`run: |` 下的多行脚本可将其写入文件
fault-cannot-start = { $program } 无法启动：{ $error }
fault-unredacted = 无法在 { $path } 中检查其输出是否含有密钥：{ $error }
fault-runs-already = 第 { $attempt } 次执行已在运行
fault-too-many-attempts = 一次运行最多 { $most } 次执行；请重新运行以继续
fault-no-log = 无法写入 { $path }：{ $error }
fault-keeper-killed = 其监护进程被终止，步骤随之终止
fault-ended-by-request = 本次运行之外的操作要求它提前结束
fault-job-not-written = 其作业所需的内容无法写入：{ $error }
fault-not-written-down = 没有它的记录
fault-driver-silent = NVIDIA 驱动在 { $seconds } 秒内没有响应，flow 将不使用 GPU；可能有显卡故障，请查看 `nvidia-smi` 是否响应
fault-no-query-thread = 无法启动用于查询 NVIDIA 库的线程：{ $error }
fault-no-gpu = 有 NVIDIA 驱动，但本进程看不到任何显卡
fault-gpus-not-counted = NVIDIA 驱动未给出显卡数量：{ $message }
fault-gpus-hidden = { $variable } 为 { $value }，隐藏了本机的所有 GPU
fault-divided = GPU { $gpu }（{ $model }）已用 MIG 切分，而 flow 只分配整块显卡；可用 `nvidia-smi -mig 0` 恢复
fault-gpu-lost = GPU { $gpu } 已掉卡；flow 将不使用它
fault-gpu-off-the-bus = GPU { $gpu } 已从总线脱落；重启机器之前 flow 不使用它
fault-gpu-forbidden = 当前用户无权使用 GPU { $gpu }；请查看 /dev/nvidia* 的权限
fault-gpu-unknown = 无法查询 GPU { $gpu } 的信息（{ $message }）；flow 将不使用它
fault-library-not-loaded = { $variable } 所指的 { $path } 无法加载：{ $message }
fault-driver-not-loaded = 有 NVIDIA 的库，但驱动未加载；主机上 `nvidia-smi` 会给出原因，容器需要 `--gpus all`
fault-driver-of-other-version = NVIDIA 的库与已加载的驱动版本不同（常见于更新之后）；请重启机器或重新加载驱动
fault-driver-forbidden = 当前用户无权访问 NVIDIA 驱动；请查看 /dev/nvidia* 的权限
fault-library-not-started = NVIDIA 的库无法启动：{ $message }
fault-parameter-unknown = { $uses } 没有参数 { $name }
fault-parameter-missing = { $uses } 缺少参数 { $name }
fault-parameter-wrong = { $uses } 的参数 { $name } 不能是{ $value }
fault-parameter-refused = { $uses } 的参数 { $name } 不符合要求
fault-parameter-too-large = { $uses } 的参数 { $name } 为 { $value }，大于 { $of } 的 { $metric }（{ $most }）：请改小
fault-parameter-too-large-for-part = { $uses } 的参数 { $name } 为 { $value }，大于 { $of } 的 { $metric }（{ $most }），而 { $part } 取 { $share } 后约剩 { $rest }：请改为不超过该数
fault-variable-wrong = 应为文本或数值，而不是{ $value }
fault-variable-refused = 变量无效：“{ $message }”
fault-null = 空值 null
fault-truth = 真值 { $text }
fault-number = 数值 { $text }
fault-text = 文本 { $text }
fault-list = 列表 { $text }
fault-mapping = 映射 { $text }
fault-other = 类型 { $type_name } 的值
fault-no-such-builtin = 没有步骤 { $name }；现有 { $known }
fault-parameters-unread = `with` 无法读取：{ $message }
fault-not-written = 结果无法写出：{ $message }
fault-input-unread = { $path } 无法读取：{ $error }
fault-input-too-large = { $path } 大于 { $most } MiB
fault-output-not-written = { $path } 无法写入：{ $error }
fault-series-unread = { $label } 的逐轮数据无法读取：{ $message }
fault-trace-unread = 作业 trace { $path } 无法读取：{ $error }
fault-no-such-step = 没有步骤 { $step }
fault-no-source = `from` 所指的步骤 { $step } 不存在
fault-not-a-table = `table` 所指的步骤 { $step } 不是 flow/table
fault-no-table = 步骤 { $step } 没有表格
fault-table-unread = { $step } 的表格无法读取（{ $message }）；请重新运行该步骤
fault-analysis-unread = { $step } 的分析无法读取（{ $message }）；请重新运行该步骤
fault-schedule-unread = { $label } 的调度记录无法读取（{ $message }）；请重新运行该步骤
fault-analysis-of-other = `analyses` 中的 { $step } 针对的是表格 { $table }，而非 { $other }
fault-link-empty = 链接为空
fault-link-with-blanks = 链接 { $link } 中有空白或控制字符；空格应写作 `%20`
fault-link-of-other-scheme = 链接不能以 { $scheme } 开头
fault-link-nowhere = { $link } 既不是网址也不是路径
fault-bad-link = `see` 有误：{ $error }
fault-bad-date = `date` 为 { $date }：日期应写作 `2026-02-08`
fault-template-fails = 报告模板出错：{ $message }
fault-picture-of-none = `pictures`：步骤 { $step } 没有取这些轴值的实例
fault-picture-of-several = `pictures`：步骤 { $step } 有多个实例，请用 `where: {"{"}AXIS: VALUE{"}"}` 指明
fault-several-pictures = `pictures`：步骤 { $step } 有多张图片 { $outputs }，请用 `output: NAME` 指明
fault-no-picture = `pictures`：步骤 { $step } 没有不超过 4 MiB 的 PNG、JPEG 或 WebP 输出；可用 `outputs: [plot.png]` 保存
fault-broken-picture = `pictures`：步骤 { $step } 的图片文件头已损坏，无法显示
fault-picture-too-large = `pictures`：步骤 { $step } 的图片为 { $width } × { $height } 像素，而报告最多显示 { $most } 百万像素；请缩小
fault-other-picture = `pictures`：无论文件名如何，步骤 { $step } 写出的不是 PNG、JPEG 或 WebP；请存为其中一种
fault-schedule-of-none = `schedules`：步骤 { $step } 在 { $point } 处没有实例
fault-schedule-of-several = `schedules`：{ $point } 同时指 { $one } 和 { $other }，请选其一
fault-chart-over-nothing = 图表 { $column }：表格没有可作横轴的行
fault-chart-of-no-column = 图表 { $column }：{ $error }
fault-chart-over-names = 图表 { $column }：行的最后一个轴 { $axis } 的值 { $text } 不是数值，而图表的横轴须为数值
fault-chart-of-no-instance = 负载图 { $point }：步骤 { $step } 没有这样的实例
fault-chart-not-by-series = 图表 { $column }：没有实例按 { $axis } 记录它；现有 { $known }
fault-compare-without-split = `compare` 为 { $axis }：{ $step } 的表格没有拆分；请设置 `split`
fault-compare-other-split = `compare` 为 { $axis }：{ $step } 的表格按 { $split } 拆分
fault-corun-like-nothing = `corun` 中的步骤 { $step } 没有用 `like` 指明另一步骤，因此没有可比较的单独运行
fault-no-such-column = { $table } 的表格没有列 { $column }；{ $hint }
fault-no-such-function = 列 { $column }：没有函数 { $function }；可用 growth、ratio、speedup 和 difference
fault-column-not-closed = 列 { $column }：缺少 `)`
fault-function-of-one = 列 { $column }：{ $function } 需要一个列名，例如 { $example }
fault-no-difference = 列 { $column } 的 `difference` 是 `split` 的第二个值减去第一个值；此处的拆分有 { $values } 个值
fault-no-difference-of-one = 列 { $column } 的 `difference` 是 `split` 的第二个值减去第一个值；此处的拆分只有 1 个值
fault-no-difference-without = 列 { $column } 的 `difference` 是 `split` 的第二个值减去第一个值；此处没有拆分
fault-baseline-value = `baseline`：轴 { $axis } 在步骤 { $step } 中没有值 { $value }
fault-baseline-axis = `baseline`：{ $axis } 既不在 `rows` 中，也不是 `split`
fault-no-such-axis-of = { $key } 中的 { $name }：步骤 { $step } 没有这个轴；{ $hint }
fault-neither-axis-nor-repeat = { $key } 中的 { $name }：步骤 { $step } 既没有这个轴，也没有 `repeat`；{ $hint }
fault-axis-twice = 轴 { $axis } 同时出现在 { $one } 和 { $other } 中；只能在其中之一
fault-axis-left-out = 步骤 { $step } 还随 { $axis } 变化，多个结果会落入同一单元格；请将其加入 `rows`，用作 `split`，或用 `over` 取平均
fault-machines-over-epochs = 设有 `machines: true` 时行不能是 `epoch`：其他机器没有逐轮数据
fault-mean-over-machines = `over` 不能是 `machine`：多台机器的数值没有平均意义；请将其放入 `rows`，或用作 `split`
fault-goal-unknown = 无法得知 { $column } 以最小值还是最大值为最佳：请写明 `goal: min` 或 `goal: max`
fault-fit-over-nothing = 表格 { $table } 的行不按轴排列：请用 `x` 指明一列
fault-jumps-over-nothing = 表格 { $table } 的行不按轴排列，无从判断跳变
fault-reference-absent = `reference`：未读取 { $file }
fault-reference-unread = `reference`：{ $file } 有误：{ $error }
fault-reference-without-column = `reference`：{ $file } 没有列 { $column }；{ $hint }
fault-reference-without-axis = `reference`：{ $file } 没有用于对应行的列 { $axis }；现有 { $heads }，可用 { $example } 指明
fault-reference-unit = `reference`：{ $file } 中的 { $column } 在此处的单位是 { $unit }：请写明该列的单位，例如 { $example }
fault-reference-other-unit = `reference`：{ $file } 中 { $column } 的单位是 { $given }，此处是 { $unit }，两者之间不作换算：请换算该文件中的数值，或在 `columns` 中将 { $column } 设为 null 以略去该列
fault-reference-no-unit = `reference`：{ $file } 中 { $column } 的单位是 { $given }，此处没有单位：请在测量处写明单位，或在 `columns` 中将 { $column } 设为 null 以略去该列
fault-reference-names = `reference`：`columns` 中的 { $name } 与本表无关；{ $hint }
fault-reference-without-head = `reference`：{ $file } 没有 `where` 所指的列 { $head }；现有 { $heads }
fault-reference-no-outcome = `reference`：{ $place } 处的 { $text } 不是结果；可用 `ok`、`out_of_memory`、`failed`
fault-reference-no-number = `reference`：{ $place } 处的 { $head } 为 { $text }，不是数值
fault-reference-of-nothing = `reference`：{ $file } 没有 { $own } 中的任何一列；现有 { $heads }，可用 `columns: {"{"}NAME: THEIRS{"}"}` 说明对应关系
fault-not-a-cluster = { $text } 不是集群；应写作 NODESxGPUS，例如 8x8，最多 { $most } 块 GPU
fault-too-many-jobs = 作业数应为 1 至 1,000,000，种子数应为 1 至 1,000
fault-slurm-shares = Slurm 的作业既不共享 GPU，也不共享一台机器的 CPU：请去掉 `share` 和 `cpus`
fault-slurm-not-a-number = { $part } 不是 NAME=NUMBER 的形式
fault-slurm-no-number = { $part } 中的 { $value } 不是数值
fault-slurm-unknown = 此处的 Slurm 没有 { $name }；现有 { $known }
fault-slurm-zero = Slurm 的 { $name } 为 0，应不小于 1
fault-slurm-outside = Slurm 的 { $name } 为 { $value }，应在 { $min } 至 10000000 之间
fault-kind-outside = 作业类型 { $kind_name } 的 { $name } 为 { $value }，应为{ $expected }
fault-no-such-policy = 没有策略 { $policy }；{ $hint }
fault-v-negative = `v` 为 { $value }，应不小于 0
fault-v-of-other = `v` 是 `lyapunov` 的参数，{ $policy } 没有该参数
fault-no-density = 没有 `density`：请给出所需 GPU 时间与可用 GPU 时间之比，例如 0.9
fault-density-outside = `density` 为 { $value }，应为 GPU 时间之比，例如 0.9
fault-empty-mix = 没有权重大于 0 的作业类型；请给出一种，或指定 `trace`
fault-one-priority = 所有作业优先级相同时，`priority` 即为 `easy`；请增大 `priorities`，或使用 `easy`
fault-one-priority-in-trace = 所有作业优先级相同时，`priority` 即为 `easy`；该作业 trace 中的优先级没有差别
fault-kind-too-wide = 作业类型 { $kind_name } 需要 { $gpus } 块 GPU，而现有 { $has } 块
fault-trace-with-mix = `trace` 已说明作业何时到达：请去掉 `mix` 和 `density`
fault-trace-shares = `trace` 未说明作业的占用情况，因此不能使用 `share` 共享 GPU
fault-bad-trace = 作业 trace 第 { $line } 行：{ $mistake }
fault-trace-without-mistake = 作业 trace 无法读取
fault-simulation-fails = 模拟失败：“{ $message }”
fault-did-you-mean = 是否指 { $near }？
fault-it-has = 现有 { $names }
fault-there-are = 现有 { $names }
fault-there-is = 现有 { $names }
fault-no-matrix = 它没有矩阵
fault-its-axes = 它的轴有 { $axes }
fault-zero-or-more = 不小于 0 的数
fault-between = { $min } 与 { $max } 之间的数
fault-count-of = 以{ $unit }计的数
fault-seconds = 秒
fault-cores = 核
fault-gibibytes = GiB
fault-trace-without-column = 没有列 { $name }
fault-trace-column-twice = 列 { $name } 出现两次
fault-trace-job-twice = 作业 { $job } 已出现在第 { $first } 行
fault-trace-swf-fields = 有 { $fields } 个字段；标准作业格式（SWF）中每个作业有 18 个
fault-trace-without-jobs = 作业 trace 中没有作业
fault-trace-cell-empty = { $column } 为空，缺少它的作业无法模拟；请填写，或去掉该作业
fault-trace-no-seconds = { $column } 为 { $text }，不是秒数；应写作 90 或 90.5
fault-trace-too-early = { $column } 为 { $text }，早于作业 trace 的开始；请平移所有时刻，使最早的为 0
fault-trace-too-long = { $column } 为 { $text }，超出可模拟的范围；应写作 90 或 90.5
fault-trace-no-count = { $column } 为 { $text }，不是 GPU 数；应写作 0、1、2 等
fault-trace-no-priority = `priority` 为 { $text }，不是整数
fault-trace-too-wide = 作业 { $job } 需要 { $gpus } 块 GPU，而现有 { $has } 块
fault-trace-one-gpu-only = 作业 { $job } 需要 { $gpus } 块 GPU，而策略 { $policy } 给每个作业一块 GPU
fault-trace-line = 有 { $cells } 个单元格，而第一行有 { $columns } 个列名
fault-trace-broken = 无法读取：{ $message }

## 调度
gantt-time = 时间（{ $unit ->
    [seconds] 秒
    [minutes] 分钟
    [hours] 小时
   *[days] 天
}）
gantt-part = 前 { $shown } { $unit ->
    [seconds] 秒（共 { $all } 秒）
    [minutes] 分钟（共 { $all } 分钟）
    [hours] 小时（共 { $all } 小时）
   *[days] 天（共 { $all } 天）
}
gantt-part-gpus = { $all } 块 GPU 中的 { $shown } 块
gantt-cpu = 主机 CPU（核）
gantt-waiting = 排队作业数
gantt-no-gpu = 无 GPU
gantt-others = 其他
chart-schedule-alt = { $label } 的调度过程
chart-schedule-caption = { $label } { $of ->
    [1] {""}
   *[other] 在 { $of } 次模拟中第一次
}的调度过程{ $whole ->
    [yes] {""}
   *[no] ：{ $part }
}。
chart-schedule-how = 每个色条是一个作业，占用几块 GPU 就画在几行中；共享同一块 GPU 的作业上下叠放。
column-policy = 策略
column-density = 到达密度
column-time_in_system = 平均作业完成时间（JCT）
column-time_in_system_p99 = 作业完成时间 P99
column-waiting = 平均等待时间
column-makespan = makespan（完工时间）
column-gpu_use = GPU 利用率
column-gpu_held = GPU 分配率
column-cpu_use = CPU 利用率
side = { $name }（{ $value }）
rival = { $name }（{ $by }，{ $range }）
rival-alike = { $name }（按所示精度无差异）
peers = 按差值及其 95% 联合置信区间，与 { $name } 无法区分的有：{ $peers }。
finding-best = { $axis }为 { $at } 时，{ $column }最低的是 { $best }；最高的是 { $worst }。
finding-none-distinguished = { $axis }为 { $at } 时，{ $column }无法区分各{ $split }：{ $best }至{ $worst }，相差 { $by }（95% 区间为 { $range }）。
finding-order = { $column }由低到高依次为：{ $order }。
order-place = { $axis }为 { $value }
order-pair = { $first } 低于 { $second }
finding-order-holds = 按{ $column }，{ $names } 的次序与 { $table } 中{ $place } 时一致（只比较在其中可区分者）。
finding-order-holds-in-part = 按{ $column }，{ $names } 的次序与 { $table } 中{ $place } 时仅部分一致：此处 { $turned }，彼处相反；其余可区分者次序相同。
finding-order-turned = 按{ $column }，次序与 { $table } 中{ $place } 时不一致：此处 { $turned }，彼处相反。
finding-order-open = 按{ $column }，{ $names } 在 { $table } 中{ $place } 时彼此无法区分，无法比较次序。
finding-alike = { $axis }为 { $at } 时，各{ $split }的{ $column }相差至多 { $apart }：{ $range }。
turn = { $first } 在 { $from } 时低于 { $second }（{ $a } vs. { $b }），在 { $to } 时高于后者（{ $c } vs. { $d }）
finding-turns = { $column }的高低次序随{ $axis }而变：{ $turns }。
finding-at-most = { $column }最高为 { $most }，出现在{ $axis }为 { $at } 的 { $parts }。

## 模拟所作的假设
assumed-heading = 以下为假设，并非实测
assumed-heading-other = 此处的不同假设，其余同上
assumed-kind = 作业类型
assumed-share = 占全部作业
assumed-gpus = GPU 数
assumed-duration = 独占时的用时中位数 (min)
assumed-spread = 用时的离散程度（对数标准差）
assumed-cores = 占用 CPU 核数
assumed-busy = GPU 忙碌时间占比
assumed-memory = 每块 GPU 的显存 (GiB)
assumed-cluster = 集群：{ $cluster }（节点数 × 每节点 GPU 数）{ $counts ->
    [yes] ，所有作业共用 { $cores } 个 CPU 核
   *[no] ；不计 CPU
}。
assumed-arrivals = { $jobs } 个作业相互独立地到达（泊松过程），类型按所占比例随机抽取，用时服从对数正态分布。到达密度为作业所需 GPU 时间与可用 GPU 时间之比。
assumed-trace = 作业 trace { $file } 中的 { $jobs } 个作业：到达时刻、占用 GPU 数与用时均按记录。
assumed-seeds = 模拟 { $seeds } 次，随机种子为 0 至 { $last }：同一种子下各策略面对相同的作业，到达密度越高，作业到达得越快。差异按种子逐对计算。
assumed-once = 没有随机因素，因此只模拟一次；换一批作业差异会如何，目前未知。
assumed-known = 各策略准确知道每个作业独占时的用时。
assumed-errors = 各策略得知的用时带有对数正态误差，其对数标准差为 { $errors }（0 表示准确）。
assumed-one-gpu = fifo-single 与 sjf-single 给每个作业一块 GPU；需要多块 GPU 的作业改用一块，用时按倍数延长。
assumed-priorities = 作业的优先级在 { $levels } 级中等概率抽取，与类型无关；在 priority 策略下，一级相当于等待一小时。
assumed-v = Lyapunov：作业预计所需的每 GPU·秒相当于等待 V 秒，V = { $v }。
assumed-slurm = Slurm：由 flow 决定提交哪些作业，Slurm 依优先级和先后顺序启动；排在前面的作业放不下时，放得下的后续作业可以先启动。每个作业只用一个节点，只计 GPU。flow 在队列中最多有 { $queue } 个作业；一个作业数组最多 { $array } 个任务；控制器最多记录 { $jobs } 个作业，其中包括最近 { $remembered_s } s 内结束的；每个作业因他人的作业等待 { $delay_s } s；每 { $tick_s } s 启动一次作业，每秒最多 { $rate } 个；一次 sbatch 调用耗时 { $submit_s } s，作业结束 { $notice_s } s 后 flow 得知。
assumed-sharing = 共享：显存足够、预测没有作业用时超过独占时的 2 倍，且同时完成的工作至少增加四分之一个作业时，才与其他作业共用 GPU。一块 GPU 的负载超过 100% 时，其上作业同等变慢；这些都未经实测。
column-estimate_error = 用时估计误差
column-v = V

## 分析
analysis-of = 对象
analysis-points = 点数
fit-title = { $column }随{ $axis }变化的曲线类型
fit-curve = 曲线
fit-coefficients = 系数（± 95% 置信区间）
fit-r2 = R²
fit-adjusted-r2 = 调整后 R²
fit-off = 最大偏差
fit-aicc = AICc 与最小值之差
fit-p = p（F 检验）
fit-chosen = 选用
fit-curve-proportional = 过原点直线：b x
fit-curve-affine = 直线：a + b x
fit-curve-inverse = 双曲线：a + b / x
fit-curve-saturating = 饱和曲线：a + b x / (x + k)
fit-curve-broken = 折线：a + b min(x, k) + c max(0, x − k)
fit-curve-quadratic = 二次：a + b x + c x²
fit-curve-cubic = 三次：a + b x + c x² + d x³
fit-curve-without-jumps = 去除跳变后，{ $curve }
fit-note = 在 AICc 与最小值相差不超过 2 的曲线中，选用参数最少的一条。过原点直线若 R² 低于 0，或 F 检验表明常数项不为 0（p < 0.05），则不参与选用，也不列出 AICc。F 检验：过原点直线对直线，直线对参数更多的曲线；若 k 由数据拟合，其 p 值偏小。
fit-none-chosen = 若斜率均与 0 无显著差异，则不选用任何曲线：此时最接近的曲线也没有意义。
fit-relative = { $all ->
    [yes] 误差
   *[no] { $curves } 的误差
}按与实测值之比计：这样比等幅误差更能描述各点，或用更简单的曲线即可同样好地描述。R² 仍按绝对误差计算，因此参数更多的曲线 R² 可能更低。
fit-constant = { $column }在全部 { $points } 个点上都相同。
fit-few = 只有 { $points } 个点，不足以判断{ $column }随{ $axis }变化的曲线类型。
fit-none = { $course ->
    [up] { $column }随{ $axis }逐点上升，但所比较的曲线都不合其形状：选出的曲线 R² 仅为 { $r2 }，共 { $points } 个点。
    [down] { $column }随{ $axis }逐点下降，但所比较的曲线都不合其形状：选出的曲线 R² 仅为 { $r2 }，共 { $points } 个点。
   *[both] { $column }不能仅由{ $axis }说明：选出的曲线 R² 仅为 { $r2 }，共 { $points } 个点，可见还有噪声或其他因素在起作用。
}
fit-far = { $column }与{ $axis }的关系不符合所比较的任何曲线：最好的一条（{ $curve }）最多相差 { $off }。
fit-proportional = { $column }与{ $axis }成正比：每单位 { $slope }。
fit-proportional-so-far = 就 { $points } 个点而言，{ $column }与{ $axis }成正比（直线的截距 { $intercept } 与 0 无显著差异）：每单位 { $slope }。
fit-affine = { $axis }每增加一个单位，{ $column }{ $rises ->
    [yes] 增加
   *[no] 减少
} { $slope }；截距为 { $intercept }。
fit-no-slope = 就这些点而言，{ $column }没有随{ $axis }升降的趋势：{ $axis }每增加一个单位，变化 { $slope }。
fit-inverse = { $column } = { $fixed } { $sign } { $shared } / { $axis }：{ $constant ->
    [yes] 一部分固定，另一部分与{ $axis }成反比
   *[no] 与{ $axis }成反比，固定部分与 0 无显著差异
}。
fit-saturating = { $column }随{ $axis }{ $rises ->
    [yes] 上升
   *[no] 下降
}并趋于饱和：从 { $from } 起总共{ $rises ->
    [yes] 增加
   *[no] 减少
} { $by }，{ $axis }为 { $knot } 时达到一半。
fit-broken = { $column }在{ $axis }为 { $knot } 处转折：{ $axis }每增加一个单位，此前变化 { $before }，此后变化 { $after }。
fit-without-jumps = { $column }随{ $axis }有跳变，而所比较的曲线均不含跳变；去除跳变后，{ $curve ->
    [proportional] 过原点直线
    [affine] 直线
    [inverse] 双曲线
    [saturating] 饱和曲线
    [broken] 折线
    [quadratic] 二次曲线
   *[cubic] 三次曲线
}即已足够。
fit-quadratic = 所比较的曲线中，二次曲线最能描述{ $column }随{ $axis }的变化。
fit-cubic = 所比较的曲线中，三次曲线最能描述{ $column }随{ $axis }的变化。
fit-explains = R² 为 { $r2 }，共 { $points } 个点，最大偏差为 { $off }。
fit-furthest = { $points } 个点的最大偏差为 { $off }。
fit-explains-of-zero = R² 为 { $r2 }，共 { $points } 个点。
fit-parabola-adds-nothing = 直线已足够：二次项没有贡献（F 检验，p { $p }）。
fit-line-is-not-enough = 线性拟合不足：其 AICc 比最优模型高 { $more }。
jumps-title = { $column }随{ $axis }的跳变
jumps-each = { $column }在{ $axis }的何处跳变
jumps-falls-at = 下降处
jumps-rises-at = 上升处
jumps-height-share = 相对幅度
jumps-both = { $column }的下降位于{ $axis } { $falls }，上升位于 { $rises }。
jumps-falls = { $column }的下降位于{ $axis } { $falls }。
jumps-rises = { $column }的上升位于{ $axis } { $rises }。
jumps-of-multiple = 均位于 { $multiple } 的倍数处。
jumps-places = { $places }（幅度 { $by }）
jumps-fluctuation = 波动
jumps-fluctuation-share = 相对波动
jumps-between = 位置
jumps-height = 差值
jumps-note = 跳变指明显偏离曲线的相邻两点之差；前提是该扫描存在均值水平的突变或偏离曲线的点，且曲线、折点、逐渐增大或自相关的噪声都不能同样好地解释。对 16 至 70 个点且没有跳变的扫描（直线、曲线、波形，以及相邻点噪声相关系数不超过 0.5 者），每 100 次误报至多 1 次。波动为各点对曲线的标准差。
jumps-at-multiples = { $what ->
    [falls] 下降恰好落在 { $multiple } 的倍数上的次数
   *[rises] 上升紧接在 { $multiple } 的倍数之后的次数
}{ $more ->
    [yes] 多于随机预期
   *[no] 并不多于随机预期
}：{ $of } 处中有 { $there } 处，随机期望为 { $chance } 处（若各处独立，p { $p }）。
jumps-expected = { $column }随{ $axis }的跳变：位于倍数处的个数与随机期望
jumps-what = 对象
jumps-what-falls = 下降
jumps-what-rises = 上升
jumps-multiple = 倍数
jumps-there = 位于倍数处
jumps-of = 总数
jumps-by-chance = 随机期望
jumps-p-chance = p（仅凭随机达到该个数）
jumps-few = 只有 { $points } 个点，不足以判断{ $column }随{ $axis }是否跳变。
jumps-none = { $column }随{ $axis }没有超出噪声的跳变；相对波动为 { $fluctuation }，小于其约 { $times } 倍的单个跳变可能无法识别。
jumps-difference = { $column }在 { $a } 与 { $b } 之间的差值随{ $axis }{ $jumps ->
    [0] 没有跳变：{ $b } 未带来额外跳变。
   *[other] 有 { $jumps } 处跳变。
}
jumps-fluctuate = { $column }的相对波动存在显著差异（Brown–Forsythe 检验，p { $p }）：从 { $low }（{ $min }）到 { $high }（{ $max }）。
jumps-fluctuate-alike = { $column }的相对波动没有显著差异（Brown–Forsythe 检验，p { $p }）：{ $low }（{ $min }）至 { $high }（{ $max }）。
jumps-alike = { $column }的相对波动是否有差异
jumps-lowest = 最小
jumps-highest = 最大
jumps-p = p（Brown–Forsythe 检验）
jumps-level = p 低于 0.05 时视为存在显著差异。
best-title = 最优的{ $column }
best-place = 取值
best-difference = 差值
best-p = p
best-distinguished = 更差？
best-distinguished-yes = 是
best-distinguished-no = 无法判断
best-distinguished-unknown = 未知
best-nothing = 没有任何点有{ $column }。
best-point = { $column }{ $center ->
    [mean] （均值）
    [median] （中位数）
   *[single] {""}
}{ $goal ->
    [min] 最小
   *[max] 最大
}为 { $value }，取值为 { $point }{ $order ->
    [below] ，比其次的 { $second }（{ $next }）低 { $by }
    [above] ，比其次的 { $second }（{ $next }）高 { $by }
    [rounded] 。其次为 { $next }，按所示精度相同
    [same] ，{ $next } 也相同
   *[none] {""}
}。
best-same = 数值相同的还有 { $points }。
best-tied = 重复运行尚无法将其与{ $tied_with }（{ $paired ->
    [yes] 配对 t 检验
   *[no] t 检验
}{ $p ->
    [none] {""}
   *[other] ；与其次者：p { $p }
}）。
best-few = 只重复 { $runs } 次，再大的差异也可能出于偶然。
tied-all = { $tied ->
    [1] 另一个点区分
   *[other] 其余 { $tied } 个点区分
}
tied-some = { $tied } 个点区分；其余 { $worse } 个点更差，且差距超出噪声
tied-named = { $points } 区分；其余 { $worse } 个点更差，且差距超出噪声
tied-but = { $tied } 个点区分；只有 { $points } { $worse ->
   *[other] 更差
}，且差距超出噪声
tied-or = 、
tied-and = 、
best-clear = 其余各点都更差，且差距超出噪声（{ $paired ->
    [yes] 配对 t 检验
   *[no] t 检验
}）。
spread-identical = 重复运行得到完全相同的数值，因此运行间波动未知：命令是否读取了 `${"{{"} seed {"}}"}`？
best-unknown = 各点只测量了一次，噪声未知。
best-note = { $paired ->
    [yes] 配对 t 检验
   *[no] t 检验
}{ $comparisons ->
    [1] {""}
   *[other] ，按 { $comparisons } 次比较做 Bonferroni 校正
}；p 不超过 0.05 时视为更差。“无法判断”：差异可能很大，但重复运行之间的波动也同样大。
best-note-medians = 表中所示为中位数及其差，p 比较的是均值。
best-more = 未列出：{ $points }。
best-more-yes = { $n } 个更差的点
best-more-no = { $n } 个尚无法与最优点区分的点
best-more-unknown = { $n } 个噪声未知的点

## 先前的数值
reference-earlier = 先前
note-again = { $lines ->
    [1] { $file } 中有 1 行与前面某一行属于同一位置，已合并计算：{ $first }。
   *[other] { $file } 中有 { $lines } 行与前面的行属于同一位置，已合并计算，第一行为 { $first }。
}
note-unmatched = { $lines ->
    [1] { $file } 中有 1 行与此表任何一行都不对应，未列出：{ $first }。
   *[other] { $file } 中有 { $lines } 行与此表任何一行都不对应，未列出，第一行为 { $first }。
}
held-title = 与 { $file } 的结论对比
held-then = { $file } 中的结论
held-now = 现在的结论
held-holds = 是否复现
held-yes = 是
held-differs = 否，不同
held-gone = 否，未出现
held-new = 先前没有
held-open = 无法判断
held-note = 双方采用相同的规则，只看共有的行与列；GPU 数已知时，只比较 GPU 数相同的结果。先前数值的波动情况未知。
note-no-reference = 未与 { $file } 对比：本机不满足 `reference.when`。

## 首屏
answer-none = 没有明显的差异。
answer-one-row = 只有一个结果，没有可比较的对象。
answer-no-number = 没有可比较的数值。
answer-parallel = { $group }，可并行：建议 { $members } 个任务同时运行，最大减速为 { $worst }。
answer-none-slower = { $group }，可并行：建议 { $members } 个任务同时运行，没有任务明显变慢。
answer-only-concurrent = { $group }，仅并发：建议 { $members } 个任务同时运行，吞吐量是串行执行的 { $gain } 倍；单个任务用时最多为单独运行的 { $longest } 倍。
answer-no-gain = { $group }，没有收益：{ $members } 个任务同时运行，吞吐量是串行执行的 { $gain } 倍，单个任务用时最多为单独运行的 { $longest } 倍。
answer-slower = { $group }，不如串行：建议 { $members } 个任务串行执行；同时运行的吞吐量只有串行的 { $gain } 倍，单个任务用时最多为单独运行的 { $longest } 倍。
answer-undecided = { $group }：尚无法判断。{ $looks ->
   *[other] 各运行 { $looks } 次还不够
}：{ $members } 个任务同时运行，吞吐量是串行执行的 { $gain } 倍。
answer-undecided-more = { $group }：{ $looks ->
   *[other] 各运行 { $looks } 次
}后尚无法判断：{ $members } 个任务同时运行，吞吐量是串行执行的 { $gain } 倍。{ $more ->
   *[other] 各再运行约 { $more } 次
}即可判断。
answer-more-groups = { $more ->
   *[other] 报告中另有 { $more } 组的结论。
}
answer-limit = 瓶颈：{ $limit }。
front-worst = 最大减速
front-together = { $n } 个任务同时运行的{ $column }
front-group = { $group }（{ $n } 个任务）
front-limit = 瓶颈
front-demand-cpu = CPU 需求 / 实际占用
front-demand-gpu = GPU 需求 / 实际占用
front-finding = 结论
front-then = 先前
front-now = 现在
front-compared = 与 { $file } 对比
front-details = 全部测量、图表、结论与方法
front-setup = 环境、版本与说明
front-data = 数据
front-remarks = { $more ->
   *[other] 另有 { $more } 条说明，见下。
}
news-report = 报告
news-all = 全部条目
news-more = { $more ->
   *[other] 报告中另有 { $more } 节。
}
front-cost = { $results ->
   *[other] { $results } 个结果
}，{ $time }
front-cost-gpu = { $results ->
   *[other] { $results } 个结果
}，GPU 时间 { $time }
finding-trend-up = { $column }随{ $axis }上升：{ $from } 时为 { $first }，{ $to } 时为 { $last }。
finding-trend-down = { $column }随{ $axis }下降：{ $from } 时为 { $first }，{ $to } 时为 { $last }。
finding-varies = { $column }随{ $axis }变化：{ $from } 时最低（{ $first }），{ $to } 时最高（{ $last }）。
finding-constant = { $column }几乎不随{ $axis }变化：{ $first } 至 { $last }。
finding-winner = { $column }{ $center ->
    [mean] （均值）
    [median] （中位数）
   *[single] {""}
}最佳为 { $value }（{ $point }）{ $order ->
    [same] ；{ $next } 与之相同
    [rounded] ；其次为 { $next }，按所示精度相同
    [below] ，比其次的 { $second }（{ $next }）低 { $by }
   *[above] ，比其次的 { $second }（{ $next }）高 { $by }
}。
finding-winner-worst = { $column }{ $center ->
    [mean] （均值）
    [median] （中位数）
   *[single] {""}
}最佳为 { $value }（{ $point }）{ $order ->
    [same] ；{ $next } 与之相同
    [rounded] ；其次为 { $next }，按所示精度相同
    [below] ，比其次的 { $second }（{ $next }）低 { $by }
   *[above] ，比其次的 { $second }（{ $next }）高 { $by }
}；最差为 { $last }（{ $worst }）。
finding-depends = { $column }受{ $axis }影响最大：平均而言，{ $best } 时为 { $value }，{ $worst } 时为 { $other }；{ $second }的影响为 { $by }。
finding-winner-once = 各点仅运行一次，运行间波动未知：可用 `repeat: 3` 测出{ $command ->
    [yes] （命令中须用到 `${"{{"} seed {"}}"}`）
   *[no] {""}
}。
finding-winner-same = { $tied ->
    [one] { $next } 的数值相同。
   *[other] 另有 { $tied } 个点数值相同。
}
finding-winner-clear = 领先幅度超出运行间波动（{ $paired ->
    [yes] 配对 t 检验
   *[no] t 检验
}，p { $p }）。
finding-winner-tied = 各运行 { $runs } 次，尚无法与{ $tied_with }（{ $paired ->
    [yes] 配对 t 检验
   *[no] t 检验
}；与其次者：p { $p }）。
finding-winner-more = 如果差异确实存在，每个点约需再运行 { $more } 次才能与 { $next } 区分。
finding-winner-most = 每个点需再运行 { $most } 次以上才能与 { $next } 区分。
brief-about = { $column }
brief-about-time = { $column }不再下降处
brief-about-pays = 显存 × 用时仍下降的最大值
brief-about-frontier = 显存不足
brief-about-line = { $column }是否为直线
brief-about-cost = { $column }相同而代价更低
brief-about-turns = { $column }排序改变处
brief-flattens = { $at }
brief-falls = 到 { $at } 仍未停止
brief-flat = 持平，{ $range }
brief-flat-to = 到 { $at } 持平，{ $range }
brief-min = { $at } 时最短
brief-pays = { $at }
brief-line = 是，R² = { $r2 }
brief-same = 相同
brief-undecided = 尚无法判断
held-opposite = 否，相反
