# 表格与报告的中文用语。键与变量须与其他语言的目录一致，由测试比对。

## 列举与单位
list-comma = 、
list-and = 和
unit-points = 个百分点

## 列名
column-batch = 批大小
column-model = 模型
column-version = 版本
column-dataset = 数据集
column-data = 数据集
column-size = 输入尺寸
column-input_size = 输入尺寸
column-seed = 随机种子
column-lr = 学习率
column-epochs = 训练轮数
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
column-data_wait = 等待数据的时间
column-wait_time = 等待数据的时间
column-wall = 总用时
column-cpu_time = CPU 时间
column-cpu_util = CPU 使用率
column-cpu_util_peak = CPU 使用率峰值
column-cpu_cores = 占用 CPU 核数
column-memory = 内存
column-disk_read = 磁盘读取量
column-disk_written = 磁盘写入量
column-gpu_memory = 显存
column-gpu_memory_mean = 平均显存
column-gpu_memory_limit = 显存上限
column-gpu_load = GPU 负载
column-gpu_load_peak = GPU 负载峰值
column-gpu_load_above_90 = GPU 负载高于 90 % 的时间占比
column-gpu_memory_load = 显存控制器负载
column-gpu_memory_load_peak = 显存控制器负载峰值
column-gpu_memory_load_above_90 = 显存控制器负载高于 90 % 的时间占比
column-energy = 能耗
column-foreign_cpu = 其他进程的 CPU 使用率
column-cpu_saturated = CPU 饱和的时间占比
column-gpus = GPU 数
column-cpus = CPU 数
column-host_cpus = 主机 CPU 数
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
cell-spoiled = 受干扰
cell-unlike = 不可比
cell-gpus-change = { $from }→{ $to } 块 GPU

## 表下注释
table-absent = 无表格：步骤 `{ $step }` 没有实例（{ $why }）。
note-mean = 均值 ± 标准差，每格至少 { $of } 个结果。
note-mean-over = 对{ $over }取均值 ± 标准差，每格至少 { $of } 个结果。
note-median = 至少 { $of } 次重复的中位数，括号内为最小值与最大值。
note-unlike = 测量条件不同，既不取平均也不作比较（{ $what }：{ $one } 与 { $other }）。
note-spoiled = `{ $label }` 的测量受到干扰，不可采信：{ $why }。
note-partial = { $of } 个结果中有 { $used } 个计入，其余没有可信的数值。
note-baseline = 比值与加速比以 { $of } 为基准。
note-baseline-first = 比值与加速比以第一行为基准。
note-no-column = 没有任何结果含有 `{ $name }`。
note-no-column-near = 没有任何结果含有 `{ $name }`；是否想写 `{ $nearest }`？
note-accepted = `{ $label }` 沿用了以前的结果，尽管其依赖已有变化：{ $reason }
note-unverified = 驱动不提供各进程的显存，此处为整卡显存减去启动前已占用的部分。
