//! Shared parts of the benchmarks: clocks, memory and tables.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// The least time of a few runs, and the result of the last one.
pub fn best<T>(runs: usize, mut work: impl FnMut() -> T) -> (Duration, T) {
    let (mut least, mut result) = once(&mut work);
    for _ in 1..runs {
        let (time, next) = once(&mut work);
        least = least.min(time);
        result = next;
    }
    (least, result)
}

/// The time of one run, and its result.
pub fn once<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = black_box(work());
    (start.elapsed(), result)
}

/// The nanoseconds of one call, measured over enough calls to take about a fifth of a second.
#[must_use]
pub fn nanoseconds<T>(mut call: impl FnMut() -> T) -> f64 {
    let mut calls = 1u32;
    loop {
        let (time, ()) = once(|| {
            for _ in 0..calls {
                black_box(call());
            }
        });
        if Duration::from_millis(200) <= time || (1 << 30) <= calls {
            return time.as_secs_f64() * 1e9 / f64::from(calls);
        }
        calls = calls.saturating_mul(2);
    }
}

/// The peak resident memory of this process, in bytes; `None` without `/proc`.
#[must_use]
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// The processor time of all threads of this process.
#[must_use]
pub fn processor_time() -> Duration {
    cpu_time::ProcessTime::now().as_duration()
}

/// HLO text in the style of a compiler for TPUs. Each layer has a projection, a window of attention, a residual sum and
/// its norm, with fusions, tiles, memory spaces, metadata and backend configs.
#[must_use]
pub fn hlo_transformer(layers: usize) -> String {
    let mut text = String::from(concat!(
        "HloModule transformer, is_scheduled=true\n\n",
        "%add_f32 (x: f32[], y: f32[]) -> f32[] {\n",
        "  %x = f32[]{:T(128)} parameter(0)\n",
        "  %y = f32[]{:T(128)} parameter(1)\n",
        "  ROOT %sum = f32[]{:T(128)} add(%x, %y), metadata={op_name=\"jit(step)/reduce_sum\"}\n}\n",
    ));
    for layer in 0..layers {
        text.push_str(&LAYER_FUSION.replace('@', &layer.to_string()));
    }
    text.push_str("\nENTRY %main (p: f32[256,768], w: bf16[768,768]) -> f32[256,768] {\n");
    text.push_str("  %out.0 = f32[256,768]{1,0:T(8,128)} parameter(0)\n");
    text.push_str("  %w = bf16[768,768]{1,0:T(8,128)(2,1)} parameter(1)\n");
    for layer in 0..layers {
        let body = LAYER_BODY.replace("@+", &(layer + 1).to_string());
        text.push_str(&body.replace('@', &layer.to_string()));
    }
    let last = format!("  ROOT %result = f32[256,768]{{1,0:T(8,128)}} copy(%out.{layers})\n}}\n");
    text + &last
}

const LAYER_FUSION: &str = r#"
%fused_scores.@ (a.@: f32[256,768], b.@: bf16[768,768]) -> f32[256,768] {
  %a.@ = f32[256,768]{1,0:T(8,128)S(1)} parameter(0)
  %b.@ = bf16[768,768]{1,0:T(8,128)(2,1)} parameter(1)
  %narrow.@ = bf16[256,768]{1,0:T(8,128)(2,1)} convert(%a.@), metadata={op_name="jit(step)/layer_@/attention/convert_element_type" source_file="model.py" source_line=41}
  ROOT %scores.@ = f32[256,768]{1,0:T(8,128)} convolution(%narrow.@, %b.@), dim_labels=bf_io->bf, operand_precision={default,default}, metadata={op_name="jit(step)/layer_@/attention/dot_general" source_file="model.py" source_line=42}
}
"#;

const LAYER_BODY: &str = r#"  %fast.@ = f32[256,768]{1,0:T(8,128)S(1)} copy(%out.@), backend_config={"flag_configs":[],"window_config":{"kernel_window_bounds":[],"output_window_bounds":["32","6"]},"used_scoped_memory_configs":[]}
  %scores_fusion.@ = f32[256,768]{1,0:T(8,128)} fusion(%fast.@, %w), kind=kOutput, calls=%fused_scores.@, metadata={op_name="jit(step)/layer_@/attention/dot_general" source_file="model.py" source_line=42}, backend_config={"flag_configs":[],"window_config":{"kernel_window_bounds":["6","6"],"output_window_bounds":["32","6"],"input_window_bounds":[],"estimated_cycles":"5312"},"scoped_memory_configs":[],"used_scoped_memory_configs":[]}
  %heads.@ = f32[256,12,64]{2,0,1:T(8,128)} bitcast(%scores_fusion.@), metadata={op_name="jit(step)/layer_@/attention/reshape"}
  %swapped.@ = f32[12,256,64]{2,1,0:T(8,128)} transpose(%heads.@), dimensions={1,0,2}, metadata={op_name="jit(step)/layer_@/attention/transpose" source_file="model.py" source_line=44}
  %merged.@ = f32[256,768]{1,0:T(8,128)} reshape(%swapped.@), metadata={op_name="jit(step)/layer_@/attention/merge"}
  %sum.@ = f32[256,768]{1,0:T(8,128)} add(%merged.@, %out.@), metadata={op_name="jit(step)/layer_@/add" source_file="model.py" source_line=47}
  %zero.@ = f32[]{:T(128)} constant(0)
  %mean.@ = f32[256]{0:T(256)} reduce(%sum.@, %zero.@), dimensions={1}, to_apply=%add_f32, metadata={op_name="jit(step)/layer_@/norm/reduce_sum"}
  %spread.@ = f32[256,768]{1,0:T(8,128)} broadcast(%mean.@), dimensions={0}, metadata={op_name="jit(step)/layer_@/norm/broadcast_in_dim"}
  %out.@+ = f32[256,768]{1,0:T(8,128)} subtract(%sum.@, %spread.@), metadata={op_name="jit(step)/layer_@/norm/sub" source_file="model.py" source_line=48}
"#;
