//! NumPy archives: written archives read back, and broken ones are errors.

use indexmap::IndexMap;
use optc_compare::npz::{Kind, NpzArray, NpzError, Packing, read, read_array, read_inputs, write};
use optc_compare::{Fill, SplitMix64, random_tensor};
use optc_ir::{Bindings, DType, Dim, Func, MiniFloat, Sign, Tensor, TensorType, Type};
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;

const SI4: DType = DType::Int {
    bits: 4,
    sign: Sign::Signed,
};
const UI4: DType = DType::Int {
    bits: 4,
    sign: Sign::Unsigned,
};
const UI64: DType = DType::Int {
    bits: 64,
    sign: Sign::Unsigned,
};

fn samples() -> IndexMap<String, Tensor> {
    let dtypes = [
        DType::F64,
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::BOOL,
        DType::SI8,
        DType::UI8,
        DType::SI32,
        DType::SI64,
        SI4,
        UI4,
        UI64,
        DType::Mini(MiniFloat::E4M3FN),
        DType::Mini(MiniFloat::E2M1FN),
        DType::Complex64,
        DType::Complex128,
    ];
    let mut rng = SplitMix64::new(7);
    let mut out = IndexMap::new();
    for (i, dtype) in dtypes.into_iter().enumerate() {
        let shape = [vec![2, 3, 5], vec![7], vec![], vec![3, 0]][i % 4].clone();
        let tensor = random_tensor(dtype, shape, Fill::Edge, &mut rng);
        out.insert(format!("x{i}/{dtype}"), tensor);
    }
    out
}

fn archive(tensors: &IndexMap<String, Tensor>, packing: Packing) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    write(&mut bytes, tensors, packing).unwrap();
    bytes.into_inner()
}

#[test]
fn what_is_written_reads_back() {
    let tensors = samples();
    for packing in [Packing::Stored, Packing::Deflated] {
        let bytes = archive(&tensors, packing);
        assert_eq!(
            bytes,
            archive(&tensors, packing),
            "the same bytes every time"
        );
        let arrays = read(Cursor::new(bytes)).unwrap();
        assert!(arrays.keys().eq(tensors.keys()));
        for (name, array) in &arrays {
            let tensor = &tensors[name];
            assert_eq!(array.to_tensor(tensor.dtype).as_ref(), Ok(tensor), "{name}");
        }
    }
}

#[test]
fn inputs_take_their_types_from_the_function() {
    let tensors = samples();
    let bytes = archive(&tensors, Packing::Deflated);
    let mut func = Func::new("main");
    for (name, tensor) in &tensors {
        let shape: Vec<u64> = tensor.shape.iter().map(|&n| n as u64).collect();
        func.add_arg(Type::tensor(&shape, tensor.dtype), Some(name));
    }
    assert_eq!(
        read_inputs(Cursor::new(&bytes), &func, &Bindings::default()).unwrap(),
        tensors
    );
    let other = Func::new("main");
    let error = read_inputs(Cursor::new(&bytes), &other, &Bindings::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("no argument has this name"), "{error}");
}

#[test]
fn elements_of_another_type_are_refused() {
    let array = NpzArray {
        kind: Kind::Float(4),
        shape: vec![1],
        bytes: vec![0; 4],
    };
    let error = array.to_tensor(DType::BF16).unwrap_err();
    assert_eq!(
        error.to_string(),
        "its elements are float32, wanted uint16 (the bits of bf16)"
    );
    assert!(array.to_tensor(DType::SI32).is_err());
    let nibbles = |kind, byte| NpzArray {
        kind,
        shape: vec![1],
        bytes: vec![byte],
    };
    assert_eq!(
        nibbles(Kind::Int(1), 0xF8)
            .to_tensor(SI4)
            .unwrap()
            .i64_at(0),
        -8
    );
    assert!(nibbles(Kind::Int(1), 8).to_tensor(SI4).is_err());
    assert!(nibbles(Kind::Int(1), 0xFF).to_tensor(UI4).is_err());
    assert_eq!(
        nibbles(Kind::Uint(1), 15).to_tensor(UI4).unwrap().i64_at(0),
        15
    );
}

/// A `.npy` file with this header text.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    out.extend(header.bytes());
    out.extend(data);
    out
}

#[test]
fn fortran_order_is_brought_into_c_order() {
    let bytes = npy(
        "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }",
        &[0, 3, 1, 4, 2, 5],
    );
    let array = read_array(&mut &bytes[..]).unwrap();
    assert_eq!(array.bytes, [0, 1, 2, 3, 4, 5]);
    let bytes = npy(
        "{\"descr\":\"<i2\",\"shape\":(2,1,2),\"fortran_order\":True}\n",
        &[0, 0, 2, 0, 1, 0, 3, 0],
    );
    let array = read_array(&mut &bytes[..]).unwrap();
    assert_eq!(
        (array.shape, array.bytes),
        (vec![2, 1, 2], vec![0, 0, 1, 0, 2, 0, 3, 0])
    );
}

#[test]
fn broken_headers_are_errors() {
    let bad = [
        (
            "{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }",
            "big-endian",
        ),
        (
            "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
            "not read",
        ),
        (
            "{'descr': '<c32', 'fortran_order': False, 'shape': (1,), }",
            "not read",
        ),
        (
            "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }",
            "needs 8",
        ),
        (
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
            "records",
        ),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
            "needs 8",
        ),
        (
            "{'descr': '<f2', 'fortran_order': False, 'shape': (1,), }",
            "more data",
        ),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
            "cannot read",
        ),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1 }",
            "cannot read",
        ),
        (
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }",
            "cannot read",
        ),
        ("{'descr': '<f4', 'shape': (1,), }", "cannot read"),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
            "more than",
        ),
        ("", "cannot read"),
    ];
    for (header, wanted) in bad {
        let bytes = npy(header, &[0; 4]);
        let error = read_array(&mut &bytes[..]).unwrap_err();
        assert!(error.to_string().contains(wanted), "{header}: {error}");
    }
}

/// Flips and removes bytes of valid archives: the outcome is an error or a result, never a panic or a huge allocation.
#[test]
fn damaged_archives_never_panic() {
    let good = [
        archive(&samples(), Packing::Stored),
        archive(&samples(), Packing::Deflated),
    ];
    let mut rng = SplitMix64::new(11);
    let mut refused = 0;
    for round in 0..4000 {
        let mut bytes = good[round % 2].clone();
        for _ in 0..=rng.below(4) {
            let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
            bytes[at] = u8::try_from(rng.below(256)).unwrap();
        }
        if rng.below(4) == 0 {
            bytes.truncate(usize::try_from(rng.below(bytes.len() as u64)).unwrap());
        }
        refused += usize::from(read(Cursor::new(bytes)).is_err());
    }
    assert!(
        refused > 1000,
        "only {refused} damaged archives were refused"
    );
}

/// A reader of an archive that counts the bytes read.
struct Counted {
    archive: Cursor<Vec<u8>>,
    read: u64,
}

impl Read for &mut Counted {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let count = self.archive.read(out)?;
        self.read += count as u64;
        Ok(count)
    }
}

impl Seek for &mut Counted {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.archive.seek(to)
    }
}

#[test]
fn an_array_that_does_not_fit_is_refused_before_it_is_read() {
    let large = Tensor::from_i64(DType::SI8, vec![1 << 20], (0..1 << 20).map(|_| 0));
    let tensors = IndexMap::from([("x".to_owned(), large)]);
    let archive = archive(&tensors, Packing::Stored);
    let symbol = |name: &str| Type::from(TensorType::new(vec![Dim::named(name)], DType::SI8));
    let bound = Bindings(IndexMap::from([(Arc::from("N"), 4)]));
    let none = Bindings::default();
    let types = [
        (Type::tensor(&[4], DType::SI8), &none, "input-shape"),
        (
            Type::tensor(&[1 << 20, 1], DType::SI8),
            &none,
            "input-shape",
        ),
        (Type::tensor(&[1 << 20], DType::F32), &none, "npz-input"),
        (symbol("N"), &bound, "input-symbol"),
    ];
    for (ty, bindings, code) in types {
        let mut func = Func::new("main");
        func.add_arg(ty, Some("x"));
        let mut source = Counted {
            archive: Cursor::new(archive.clone()),
            read: 0,
        };
        let error = read_inputs(&mut source, &func, bindings).unwrap_err();
        let found = match &error {
            NpzError::Input(e) => e.code().as_str(),
            _ => "npz-input",
        };
        assert_eq!(found, code, "{error}");
        assert!(source.read < 1 << 17, "{} bytes for {error}", source.read);
    }
    let mut func = Func::new("main");
    func.add_arg(symbol("N"), Some("x"));
    assert_eq!(
        read_inputs(Cursor::new(archive), &func, &none).unwrap(),
        tensors
    );
}

#[test]
fn a_header_that_lies_about_the_size_is_refused() {
    let small = Tensor::from_i64(DType::SI8, vec![4], [1, 2, 3, 4]);
    let tensors = IndexMap::from([("x".to_owned(), small)]);
    let mut bytes = archive(&tensors, Packing::Stored);
    let shape = bytes.windows(4).position(|w| w == b"(4,)").unwrap();
    bytes[shape + 1] = b'9';
    let error = read(Cursor::new(bytes)).unwrap_err().to_string();
    assert!(
        error.contains("it has 4 bytes of data, shape 9 needs 9"),
        "{error}"
    );
}
