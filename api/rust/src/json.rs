//! Programs as JSON, for tools that do not parse optc's text.

use optc_check::stats::{CostClass, OpCost, Stats, op_costs};
use optc_ir::effects::Effects;
use optc_ir::entity::SideTable;
use optc_ir::text::print_type;
use optc_ir::{Attr, AttrDict, Func, Loc, Module, Op, Port, Registry, Type, Value, unbound_sizes};
use serde_json::{Map, Value as Json, json};

/// The version of the JSON. It grows if a key changes its meaning; new keys do not change it.
const SCHEMA: u64 = 1;

/// A module as JSON text, indented, ending with a line break.
///
/// `docs/json.md` describes it; `schema` grows if a key changes its meaning. Values are numbered from 0 in each
/// function: arguments first, then the results of the operations in order.
///
/// ```
/// let compiler = optc::Compiler::new();
/// let text = "%0 = \"hbir.relu\"(%x) : (tensor<2xf32>) -> tensor<2xf32>";
/// let program = compiler.parse("example.ir", text)?;
/// assert!(optc::to_json(&program.module, compiler.registry()).contains("hbir.relu"));
/// # Ok::<(), optc::Error>(())
/// ```
#[must_use]
pub fn to_json(module: &Module, registry: &Registry) -> String {
    let stats = Stats::of(module, registry).fields();
    // Prices belong to the target, and a program alone has none.
    let stats = stats
        .into_iter()
        .filter(|(name, _)| !["priced_bytes", "slower_bytes"].contains(name))
        .map(|(name, n)| (name.to_owned(), json!(n)));
    let effects = Effects::of_module(module, registry);
    let sizes = unbound_sizes(module, registry);
    let costs = |f: &Func| op_costs(f, registry, &effects, &sizes);
    let root = json!({
        "schema": SCHEMA,
        "name": module.name.as_deref(),
        "attributes": dict(&module.attrs),
        "functions": module.funcs.iter().map(|f| func(f, &costs(f))).collect::<Vec<_>>(),
        "stats": Json::Object(stats.collect()),
    });
    let mut text = format!("{root:#}");
    text.push('\n');
    text
}

fn func(func: &Func, costs: &SideTable<Op, Option<OpCost>>) -> Json {
    let mut numbers: SideTable<Value, Option<usize>> = SideTable::new(None);
    let defined = func.body.iter().flat_map(|&op| func.ops[op].results.iter());
    for (number, &value) in func.args.iter().chain(defined).enumerate() {
        numbers[value] = Some(number);
    }
    let define = |&value: &Value| json!({ "value": numbers[value], "type": ty(func.ty(value)) });
    let ops = func.body.iter().map(|&op| {
        let data = &func.ops[op];
        json!({
            "name": &*data.name,
            "operands": data.operands.iter().map(|&v| numbers[v]).collect::<Vec<_>>(),
            "results": data.results.iter().map(define).collect::<Vec<_>>(),
            "properties": dict(&data.props),
            "attributes": dict(&data.attrs),
            "location": loc(&data.loc),
            "cost": costs[op].map(cost),
        })
    });
    let ops: Vec<Json> = ops.collect();
    json!({
        "name": &*func.name,
        "arguments": ports(&func.arg_ports, &func.args, &define),
        "operations": ops,
        "results": ports(&func.result_ports, &func.results, &define),
        "attributes": dict(&func.attrs),
    })
}

/// The bytes that a live operation moves; dead operations have no entry.
fn cost(cost: OpCost) -> Json {
    let class = match cost.class {
        CostClass::Free => "free",
        CostClass::Movement => "movement",
        CostClass::Copy => "copy",
        CostClass::Expand => "expand",
        CostClass::Constant => "constant",
    };
    json!({ "class": class, "bytes": cost.bytes })
}

fn ports(ports: &[Port], values: &[Value], define: &dyn Fn(&Value) -> Json) -> Json {
    let port = |(port, value): (&Port, &Value)| {
        let mut json = define(value);
        json["name"] = json!(port.name.as_deref());
        json["attributes"] = dict(&port.attrs);
        json
    };
    ports.iter().zip(values).map(port).collect()
}

fn ty(ty: &Type) -> Json {
    let text = print_type(ty);
    match ty {
        Type::Tensor(tensor) => {
            let dims = tensor
                .dims
                .iter()
                .map(|d| d.fixed().map_or(json!(d.to_string()), Json::from));
            json!({
                "text": text,
                "shape": dims.collect::<Vec<_>>(),
                "element": tensor.dtype.to_string(),
                "layout": tensor.notation.to_string(),
            })
        }
        Type::Scalar(_) | Type::Other(_) => json!({ "text": text }),
    }
}

fn dict(attrs: &AttrDict) -> Json {
    Json::Object(
        attrs
            .iter()
            .map(|(name, a)| (name.to_owned(), attr(a)))
            .collect::<Map<_, _>>(),
    )
}

fn attr(attr: &Attr) -> Json {
    match attr {
        Attr::Unit => json!({ "unit": true }),
        Attr::Bool(b) => json!(b),
        Attr::Int(n, None) => json!(n),
        Attr::Int(n, Some(dtype)) => json!({ "integer": n, "type": dtype.to_string() }),
        Attr::Float(x, dtype) => float(*x, dtype.map(|d| d.to_string())),
        Attr::Str(s) => json!(&**s),
        Attr::Array(items) => Json::Array(items.iter().map(self::attr).collect()),
        Attr::Dict(items) => dict(items),
        Attr::Type(t) => json!({ "type": print_type(t) }),
        Attr::Symbol(name) => json!({ "symbol": &**name }),
        Attr::Dense(dense) => {
            let hex: String = dense.bytes.iter().map(|b| format!("{b:02x}")).collect();
            json!({ "dense": hex, "splat": dense.splat, "type": print_type(&dense.ty) })
        }
        Attr::External {
            file,
            offset,
            length,
        } => {
            json!({ "external": &**file, "offset": offset, "length": length })
        }
        Attr::Raw(text) => json!({ "raw": &**text }),
    }
}

/// JSON has no infinities and no NaN; these are written as text.
fn float(x: f64, dtype: Option<String>) -> Json {
    let number = serde_json::Number::from_f64(x).map_or_else(|| json!(x.to_string()), Json::Number);
    match dtype {
        None => number,
        Some(dtype) => json!({ "float": number, "type": dtype }),
    }
}

fn loc(loc: &Loc) -> Json {
    match loc {
        Loc::Unknown => Json::Null,
        Loc::File(file, line, column) => json!({ "file": &**file, "line": line, "column": column }),
        Loc::Name(name) => json!(&**name),
        Loc::Fused(parts) => Json::Array(parts.iter().map(self::loc).collect()),
    }
}
