//! The codes of pipelines, passes and certificates.

use optc_ir::codes;

codes! {
    /// Every code of this crate, sorted.
    pub const CODES;

    ALIAS_REFUSED = command(
        "a result cannot be written in the memory of an argument as requested",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<5x6xf32>) -> tensor<5x6xf32> {
  %0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>
  return %0 : tensor<5x6xf32>
}"#,
        )],
        "optc --pass=view-fold --alias x=result0 in.ir",
        "the note says what reads or writes the memory otherwise; a result is written in place by `hbir.concat` that begins with the argument, `hbir.dynamic_update_slice`, `hbir.scatter_nd` or `hbir.scatter_elements`",
    );
    BOUNDARY_SHARED = command(
        "remark: an argument and a result share memory (`hbir.alias`), so that both keep the layouts that they declare where the rest of the boundary is free",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<5x6xf32> {hbir.alias = [0]}) -> tensor<5x6xf32> {
  %0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>
  return %0 : tensor<5x6xf32>
}"#,
        )],
        "optc --pass=view-fold --free-boundary --remarks in.ir",
        "nothing; `--pin` both to another layout, or let them not share memory",
    );
    CALL_KEPT = command(
        "remark: `inline` leaves the calls of a function, because the module would grow beyond the limit or because the function means something else elsewhere",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {
  %0 = "hbir.call"(%x) <{callee = @f}> : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "hbir.call"(%0) <{callee = @f}> : (tensor<5xf32>) -> tensor<5xf32>
  return %1 : tensor<5xf32>
}
func.func private @f(%x: tensor<5xf32>) -> tensor<5xf32> {
  %0 = "hbir.tanh"(%x) : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "hbir.tanh"(%0) : (tensor<5xf32>) -> tensor<5xf32>
  %2 = "hbir.tanh"(%1) : (tensor<5xf32>) -> tensor<5xf32>
  return %2 : tensor<5xf32>
}"#,
        )],
        "optc --pass=inline{limit=5} --remarks in.ir",
        "give a higher limit, `inline{limit=100000}`, or leave the call: it reads and writes the layouts that the function declares",
    );
    CALLED_BOUNDARY_KEPT = command(
        "remark: a called function keeps the layouts that its arguments and results declare, and this moves bytes; the proof does not cover other layouts there",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<5x6xf32>) -> tensor<5x6xf32> {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<5x6xf32>) -> tensor<6x5xf32>
  %1 = "hbir.call"(%0) <{callee = @f}> : (tensor<6x5xf32>) -> tensor<5x6xf32>
  return %1 : tensor<5x6xf32>
}
func.func private @f(%x: tensor<6x5xf32>) -> tensor<5x6xf32> {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<6x5xf32>) -> tensor<5x6xf32>
  return %0 : tensor<5x6xf32>
}"#,
        )],
        "optc --pass=view-fold --remarks in.ir",
        "put the function in place of its calls before `view-fold`, with the pass `inline`",
    );
    COMPUTED_TWICE = command(
        "remark: a cheap value that is read in several orders is computed once for each of them, which moves fewer bytes than converting it",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<5x6xbf16>) -> (tensor<5x6xf32>, tensor<6x5xf32>) {
  %0 = "hbir.cast"(%x) <{to = f32}> : (tensor<5x6xbf16>) -> tensor<5x6xf32>
  %1 = "hbir.transpose"(%0) <{perm = [1, 0]}> : (tensor<5x6xf32>) -> tensor<6x5xf32>
  return %0, %1 : tensor<5x6xf32>, tensor<6x5xf32>
}"#,
        )],
        "optc --pass=view-fold --remarks in.ir",
        "nothing; the rule `compute-twice` off (`--pass=view-fold{rules=…}`, a list without it) computes it once",
    );
    CONSTANT_CONVERSION = command(
        "remark: a constant is wanted in another layout than it is stored in; it is written out once, at compile time",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %0 = "hbir.constant"() <{value = dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
  %1 = "hbir.transpose"(%0) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %2 = "hbir.add"(%x, %1) : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  return %2 : tensor<3x2xf32>
}"#,
        )],
        "optc --pass=view-fold --remarks in.ir",
        "nothing; the bytes are counted apart, as compile-time bytes",
    );
    CONVERSION_STAYS = command(
        "remark: a layout conversion stays at run time; the notes say what forces it, its bytes, and what would remove it",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<5x6xf32>, %y: tensor<6x5xf32>) -> tensor<6x5xf32> {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<5x6xf32>) -> tensor<6x5xf32>
  %1 = "hbir.add"(%0, %y) : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
  return %1 : tensor<6x5xf32>
}"#,
        )],
        "optc --pass=view-fold --remarks in.ir",
        "give the option that a note names; where none is named, none removes it: pin another layout (`--pin`), put a called function in place of its calls, or choose a target that accepts the other order",
    );
    COPIED_FOR_MEMORY = command(
        "remark: a part is copied although it could be in place, because more bytes than `--max-live` would be live at once",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<4x64xf32>) -> tensor<4x2xf32> {
  %0 = "hbir.softmax"(%x) <{axis = 1}> : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = "hbir.slice"(%0) <{limits = [4, 2], starts = [0, 0]}> : (tensor<4x64xf32>) -> tensor<4x2xf32>
  %2 = "hbir.neg"(%1) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %3 = "hbir.softmax"(%2) <{axis = 0}> : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %4 = "hbir.add"(%3, %1) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %4 : tensor<4x2xf32>
}"#,
        )],
        "optc --pass=view-fold --max-live=1040 --remarks in.ir",
        "nothing; let more bytes be alive, or give no limit, and the part is read where it lies",
    );
    COPY_STAYS = command(
        "remark: an operation other than a layout conversion copies, repeats or rearranges elements at run time; the note says why its result is not a part of another value",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<4x6xf32>) -> tensor<4x3xf32> {
  %0 = "hbir.slice"(%x) <{limits = [4, 3], starts = [0, 0]}> : (tensor<4x6xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}"#,
        )],
        "optc --pass=view-fold --remarks in.ir",
        "nothing; where the note names a layout or a reader, another one may let the copy go",
    );
    LAYOUTS_DROPPED = command(
        "remark: candidate layouts exceed max-layouts and were not considered, so a cheaper choice may have been missed",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<5x6xf32>, %y: tensor<6x5xf32>) -> tensor<6x5xf32> {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<5x6xf32>) -> tensor<6x5xf32>
  %1 = "hbir.add"(%0, %y) : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
  return %1 : tensor<6x5xf32>
}"#,
        )],
        "optc --pass=view-fold{max-layouts=1} --remarks in.ir",
        "raise `max-layouts` to the number that the remark gives; where it gives none, nothing that was tried saves bytes",
    );
    MAX_LIVE = command(
        "more bytes are live at once than `--max-live` allows, and the search found no copies of parts that change this",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = "hbir.softmax"(%x) <{axis = 0}> : (tensor<64xf32>) -> tensor<64xf32>
  %1 = "hbir.softmax"(%0) <{axis = 0}> : (tensor<64xf32>) -> tensor<64xf32>
  return %1 : tensor<64xf32>
}"#,
        )],
        "optc --pass=view-fold --max-live=100 in.ir",
        "let more be alive: the message says how many are; `optc stats --pass=view-fold,bufferize,plan-memory` prints `live_bytes`",
    );
    MEMORY_UNPLANNED = command(
        "remark: sizes are unknown, so values have no offset in the arena and each has memory of its own",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = "hbir.softmax"(%x) <{axis = 0}> : (tensor<?xf32>) -> tensor<?xf32>
  %1 = "hbir.softmax"(%0) <{axis = 0}> : (tensor<?xf32>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}"#,
        )],
        "optc --pass=bufferize,plan-memory --remarks in.ir",
        "write the sizes as numbers to have one arena",
    );
    NO_LOWERING = input(
        "no choice of layouts exists for a function on the target",
        "no program that causes it is known",
        "this is a defect of optc or of a target file: report it",
    );
    NO_PART = command(
        "remark: `per-device` makes no program of one device",
        &[(
            "in.ir",
            r#"module attributes {hbir.mesh = ["model:2"]} {
  func.func @main(%x: tensor<5xf32> {hbir.shard = []}) -> tensor<5xf32> {
    %0 = "hbir.relu"(%x) : (tensor<5xf32>) -> tensor<5xf32>
    return %0 : tensor<5xf32>
  }
}"#,
        )],
        "optc --pass=per-device --remarks --target=xla in.ir",
        "the remark has the reason; `--pass=shard,per-device` states the sharding of every value first",
    );
    NORMALIZE_LAYOUT = command(
        "`normalize-layouts` finds a layout that is no order of digits: tiles with padding, or overlapping strides",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<5x6xf32, {block = "4W", order = [0, 1]}>) -> tensor<5x6xf32> {
  %0 = "hbir.layout_convert"(%x) : (tensor<5x6xf32, {block = "4W", order = [0, 1]}>) -> tensor<5x6xf32>
  return %0 : tensor<5x6xf32>
}"#,
        )],
        "optc --pass=normalize-layouts in.ir",
        "lay the program out for a target whose layouts are orders of digits, such as cpu",
    );
    NOT_SATURATED = input(
        "remark: the alternatives of some operations reached the limit of the search, so a cheaper form may have been missed",
        "no program that causes it is known with the built-in rules",
        "make added search rules end: a rule may not enlarge its own result without bound",
    );
    OPTION_VALUE = command(
        "an option of a pass has a value that it does not take",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
        )],
        "optc --pass=view-fold{max-layouts=0} in.ir",
        "give a value of the kind that `--list-passes` says",
    );
    PADDING_STAYS = command(
        "remark: values of a type hold positions without elements, which are written and read; the notes say which places of a tile are not full, and which operations want these places",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<49x32xf32>, %w: tensor<32x49xf32>) -> tensor<49x49xf32> {
  %0 = "hbir.matmul"(%x, %w) : (tensor<49x32xf32>, tensor<32x49xf32>) -> tensor<49x49xf32>
  return %0 : tensor<49x49xf32>
}"#,
        )],
        "optc --pass=view-fold --target=tpu --remarks in.ir",
        "nothing; a size that is a multiple of the number in the note leaves no padding there",
    );
    PASS_CHANGED = input(
        "a pass says that it changed nothing and the printed program differs (checked in debug builds)",
        "a pass of the library's user that returns `Changed::No` after a change",
        "return `Changed::Yes`; in a built-in pass it is a defect of optc",
    );
    PASS_PHASE = input(
        "a pass was asked to run on a program in a phase that it does not take",
        "a pass of the library's user that takes canonical programs, run after `view-fold`",
        "run the passes in the order of the default pipeline; a pass names its phases in `PassInfo`",
    );
    PIN_LAYOUT = input(
        "a layout pinned at the boundary does not fit the shape of the argument or result",
        "a `Boundary` built by code whose `pins` give a tensor of rank 2 the order [0, 2, 1]; `--pin` refuses such a text with `layout-invalid`",
        "pin a layout of the rank and size of the tensor",
    );
    PIPELINE_SYNTAX = command(
        "the text of a pipeline is malformed",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
        )],
        "optc --pass=view-fold{max-layouts=1 in.ir",
        "write `--pass=canonicalize,view-fold{max-layouts=8}`, in quotation marks where the shell reads braces",
    );
    REARRANGE_UNKNOWN_SIZE = command(
        "the unknown sizes of a value are too many to be told apart, or a layout has no notation without them",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<?x?x?x?x?x?x?x?x?x?x?x?xf32>) -> tensor<?x?x?x?x?x?x?x?x?x?x?x?xf32>"#,
        )],
        "optc --pass=view-fold in.ir",
        "name the sizes with `dims`, or write those that are known",
    );
    ROW_ABSENT = input(
        "remark: a target has no row for the family of an operation, so that the operation takes row-major order at every port",
        "an operation of a library user whose family no row of the target names",
        "add a row for the family to the target's file, with the layouts that the machine takes",
    );
    RULE_BROKEN = input(
        "a rule of a library user replaces nothing, has results of another number or type, or rewrites an operation again and again",
        "a rule whose patch never calls `Patch::replace`",
        "mend the rule; `Canonicalize::refusals` says where a rule does not apply",
    );
    SHARD_COLLECTIVE = command(
        "remark: devices of a mesh exchange a value, because it is stored in another sharding than it is made or read in",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = "hbir.relu"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}"#,
        )],
        "optc --pass=shard --mesh=data:2 --shard x=[data,_] --shard result0=[_,data] --remarks in.ir",
        "the note says what would remove it: another pin, another axis, or none",
    );
    SHARD_MEMORY = command(
        "the values of a program do not fit the memory of a device in any sharding that was found",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>"#,
        )],
        "optc --pass=shard{memory=1000} --mesh=data:2 in.ir",
        "give the mesh more devices, or free the shardings of weights that are on all devices",
    );
    SHARD_NO_MESH = command(
        "`shard` runs on a program without a mesh",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>"#,
        )],
        "optc --pass=shard in.ir",
        "give `--mesh=data:4,model:2`, or state `hbir.mesh` on the module",
    );
    SHARD_PIN = command(
        "a wish of `--shard` is malformed, names no value, or contradicts another one",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>"#,
        )],
        "optc --pass=shard --mesh=data:2 --shard y=[data,_] in.ir",
        "write NAME=[…] with one entry a dimension: an axis, `_` for no split, `?` for any",
    );
    TARGET_WANTS_SIZES = command(
        "a size is unknown and the target pads blocks, for which it must be known",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<6x?xf32, {dims = [6, "B"]}>) -> tensor<6x?xf32, {dims = [6, "B"]}>"#,
        )],
        "optc --pass=view-fold --target=journey6 in.ir",
        "write the size as a number, or choose a target without blocks",
    );
    TILE_CONFLICT = command(
        "a plan that a program brings cannot be completed: an operation cannot make what another one asks of it, or the group breaks a rule of the target",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [2]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["64", "16 @ g0 * 16"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = "hbir.softmax"(%0) <{axis = 1}> {tile = {group = 0}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %1 : tensor<64x32xf32>
}"#,
        )],
        "optc --pass=tile-propagate in.ir",
        "give the named operation another tile or none, or take it out of the group",
    );
    TILE_CONVERSION = command(
        "a remark: a group converts layouts on the tiles that it keeps on chip, with the bytes that this moves and those of conversions through memory",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %0 = "hbir.layout_convert"(%x) : (tensor<64x32xf32>) -> tensor<64x32xf32, {order = [1, 0]}>
  %1 = "hbir.relu"(%0) : (tensor<64x32xf32, {order = [1, 0]}>) -> tensor<64x32xf32, {order = [1, 0]}>
  %2 = "hbir.layout_convert"(%1) : (tensor<64x32xf32, {order = [1, 0]}>) -> tensor<64x32xf32>
  return %2 : tensor<64x32xf32>
}"#,
        )],
        "optc --pass=tile-propagate --remarks in.ir",
        "nothing is wrong; layouts that the operations share need no conversion",
    );
    TILE_GROUP_PLAN = command(
        "a remark: what a group of operations that is kept on chip moves and holds",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<64x32xf32>) -> tensor<64x32xf32>"#,
        )],
        "optc --pass=tile-propagate --remarks in.ir",
        "nothing is wrong; a target with more memory on chip, or other blocks in the program's own plan, change it",
    );
    TILE_WORK = command(
        "a remark: a plan that a program brings computes values more often than the target's file allows, so that its group does more than `max_work` times the work of its operations apart",
        &[(
            "in.ir",
            r#"func.func @main(%a: tensor<64x32xf32>, %b: tensor<32x32xf32>, %c: tensor<32x64xf32>) -> tensor<64x64xf32> attributes {hbir.groups = [{grid = [2]}]} {
  %0 = "hbir.matmul"(%a, %b) {tile = {group = 0, result = ["64", "32"]}} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %1 = "hbir.matmul"(%0, %c) {tile = {group = 0, result = ["64", "32 @ g0 * 32"]}} : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}"#,
        )],
        "optc --pass=tile-propagate --remarks in.ir",
        "cut a dimension that all operations of the group have, or cut the group in two",
    );
    UNKNOWN_OPTION = command(
        "a pass has no option of this name",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
        )],
        "optc --pass=view-fold{layouts=8} in.ir",
        "`optc --list-passes` shows the options",
    );
    UNKNOWN_PASS = command(
        "no pass has this name",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
        )],
        "optc --pass=fold-views in.ir",
        "`optc --list-passes` shows the passes",
    );
    UNKNOWN_PORT = command(
        "an option or a boundary names an argument or result that the function does not have, or that is no tensor",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
        )],
        "optc --pass=view-fold --free-boundary=z in.ir",
        "the message lists the names there are",
    );
    UNKNOWN_RULE = command(
        "no search rule has this name",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
        )],
        "optc --pass=view-fold --rules=fastest in.ir",
        "give `all`, `none`, or names that `docs/passes.md` lists",
    );
    VALUE_TOO_LARGE = command(
        "a target wants blocks or runs of some elements, and a value padded to them has 2^63 bits or more",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<1x8x10x7xf32>) -> tensor<458753x8589934601x10x7xf32> {
  %0 = "hbir.pad"(%x) <{high = [458752, 8589934592, 0, 0], low = [0, 1, 0, 0], mode = "constant", value = 0.0}> : (tensor<1x8x10x7xf32>) -> tensor<458753x8589934601x10x7xf32>
  return %0 : tensor<458753x8589934601x10x7xf32>
}"#,
        )],
        "optc --pass=view-fold --target=journey6 in.ir",
        "nothing runs a program of such a size: make the value smaller",
    );
    WORSE_THAN_NAIVE = input(
        "a folded program would move more bytes than the naive lowering of the same program",
        "no program that causes it is known",
        "this is a defect of optc: report it with the program",
    );
}

/// The codes of passes that programs around them report, too.
pub mod shared {
    use optc_ir::Code;

    /// An option names an argument or result that does not exist.
    pub const UNKNOWN_PORT: Code = super::UNKNOWN_PORT;
}
