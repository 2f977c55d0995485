// A pass plugin for mlir-opt: `optc-view-fold` makes the reshapes and transposes of functions on tensors free.
//
// A function goes to optc as text in generic form, and the result is parsed back. The location of each operation is
// replaced by a number for that time. A function that optc cannot read, or that does not get better, is left as it was.

#include "optc.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace mlir;

namespace {

template <typename T, void (*Free)(T *)>
struct Deleter {
  void operator()(T *handle) const { Free(handle); }
};
template <typename T, void (*Free)(T *)>
using Handle = std::unique_ptr<T, Deleter<T, Free>>;

using Error = Handle<OptcError, optc_error_free>;
using Program = Handle<OptcProgram, optc_program_free>;
using Target = Handle<OptcTarget, optc_target_free>;
using Options = Handle<OptcOptions, optc_options_free>;
using Answer = Handle<OptcAnswer, optc_answer_free>;

std::string said(const OptcError *error) {
  return std::string(optc_error_message(error)) + " [" + optc_error_code(error) + "]";
}

// A function as text, with the locations of its operations.
struct Text {
  std::string text;
  std::vector<Location> locations;
};

Text textOf(func::FuncOp func) {
  Text made;
  MLIRContext *context = func.getContext();
  OwningOpRef<ModuleOp> module = ModuleOp::create(func.getLoc());
  func::FuncOp copy = func.clone();
  // Attributes of the signature stay on the function, and may have text that optc does not read.
  copy->setDiscardableAttrs(DictionaryAttr::get(context));
  copy.removeArgAttrsAttr();
  copy.removeResAttrsAttr();
  module->push_back(copy);
  copy.walk([&](Operation *op) {
    std::string number = std::to_string(made.locations.size());
    made.locations.push_back(op->getLoc());
    op->setLoc(NameLoc::get(StringAttr::get(context, number)));
  });
  llvm::raw_string_ostream stream(made.text);
  OpPrintingFlags flags;
  flags.printGenericOpForm().enableDebugInfo(/*enable=*/true, /*prettyForm=*/false);
  module->print(stream, flags);
  return made;
}

// The location that stands in the text behind a place: of the operation there, or of one inside of it.
Location placeOf(const Text &source, const OptcError *error, Location otherwise) {
  StringRef rest = source.text;
  size_t line = optc_error_line(error);
  if (line == 0)
    return otherwise;
  for (size_t i = 1; i < line; ++i)
    rest = rest.split('\n').second;
  rest = rest.drop_front(std::min(rest.size(), rest.find("loc(#")));
  if (!rest.consume_front("loc("))
    return otherwise;
  std::string definition = "\n" + rest.split(')').first.str() + " = loc(\"";
  StringRef number = StringRef(source.text).split(definition).second.split('"').first;
  size_t index;
  if (number.getAsInteger(10, index) || index >= source.locations.size())
    return otherwise;
  return source.locations[index];
}

// The location of a number, or of several.
Location original(Location location, const Text &source, Location otherwise) {
  SmallVector<Location> found;
  location->walk([&](Location inner) {
    size_t number;
    if (auto name = dyn_cast<NameLoc>(inner))
      if (!name.getName().getValue().getAsInteger(10, number) && number < source.locations.size())
        found.push_back(source.locations[number]);
    return WalkResult::advance();
  });
  if (found.empty())
    return otherwise;
  return FusedLoc::get(otherwise.getContext(), found);
}

// The bytes that a program moves.
Error bytesOf(const OptcAnswer *answer, uint64_t &bytes) {
  bytes = 0;
  for (const char *name : {"movement_bytes", "copy_bytes", "expand_bytes"}) {
    uint64_t own = 0;
    if (Error error{optc_answer_stat(answer, name, &own)})
      return error;
    bytes += own;
  }
  return nullptr;
}

Error fold(const OptcProgram *program, const OptcTarget *target, const char *pipeline, Answer &answer) {
  Options options(optc_options_new());
  if (Error error{optc_options_target(options.get(), target)})
    return error;
  if (Error error{optc_options_pipeline(options.get(), pipeline)})
    return error;
  OptcAnswer *made = nullptr;
  Error error{optc_fold(program, options.get(), &made)};
  answer.reset(made);
  return error;
}

struct ViewFold : PassWrapper<ViewFold, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ViewFold)

  ViewFold() = default;
  ViewFold(const ViewFold &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "optc-view-fold"; }
  StringRef getDescription() const override {
    return "Make the reshapes and transposes of functions on tensors free, by optc";
  }

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect, math::MathDialect, scf::SCFDialect,
                    tensor::TensorDialect>();
  }

  void runOnOperation() override {
    OptcTarget *found = nullptr;
    Error error{optc_target_find(target.c_str(), &found)};
    Target machine(found);
    if (error) {
      getOperation()->emitError() << said(error.get());
      return signalPassFailure();
    }
    for (func::FuncOp func : getOperation().getOps<func::FuncOp>())
      if (!func.isExternal() && failed(folded(func, machine.get())))
        return signalPassFailure();
  }

private:
  // Folds of one function, at most.
  static constexpr int mostRounds = 3;

  // Leaves a function as it was, and says why.
  LogicalResult left(func::FuncOp func, Location place, const Twine &why) {
    InFlightDiagnostic remark = emitRemark(place);
    remark << "optc leaves @" << func.getName() << " as it is: " << why;
    return success();
  }

  LogicalResult folded(func::FuncOp func, const OptcTarget *machine) {
    Text source = textOf(func);
    OptcProgram *read = nullptr;
    Error error{optc_program_read(reinterpret_cast<const uint8_t *>(source.text.data()), source.text.size(), "<mlir>",
                                  "linalg", &read)};
    Program program(read);
    if (error)
      return left(func, placeOf(source, error.get(), func.getLoc()), said(error.get()));
    Answer before, after;
    uint64_t bytesBefore = 0, bytesAfter = 0;
    if (!(error = fold(program.get(), machine, "", before)) && !(error = bytesOf(before.get(), bytesBefore)) &&
        !(error = fold(program.get(), machine, pipeline.c_str(), after)))
      error = bytesOf(after.get(), bytesAfter);
    if (error) {
      // A pipeline that does not exist is a mistake of the user; anything else is about this function alone.
      if (StringRef(optc_error_code(error.get())).starts_with("unknown-"))
        return emitError(func.getLoc()) << said(error.get());
      return left(func, placeOf(source, error.get(), func.getLoc()), said(error.get()));
    }
    if (bytesBefore <= bytesAfter) {
      if (bytesBefore == 0)
        return success();
      return left(func, func.getLoc(), "it moves " + Twine(bytesBefore) + " bytes, and " + Twine(bytesAfter) + " folded");
    }
    std::string text;
    if ((error = written(after.get(), text)))
      return left(func, placeOf(source, error.get(), func.getLoc()), said(error.get()));
    again(text, machine, after, bytesAfter);
    if (std::optional<std::string> why = replaced(func, text, source))
      return left(func, func.getLoc(), "its result is refused: " + *why);
    if (remarks)
      emitRemark(func.getLoc()) << "optc folds @" << func.getName() << " from " << bytesBefore << " bytes moved to "
                                << bytesAfter;
    return remarks ? conversions(func, after.get()) : success();
  }

  // Folds a result again while that moves less: reshapes that are free now are gone from its text.
  void again(std::string &text, const OptcTarget *machine, Answer &answer, uint64_t &bytes) {
    for (int round = 0; bytes != 0 && round < mostRounds; ++round) {
      OptcProgram *read = nullptr;
      Error error{optc_program_read(reinterpret_cast<const uint8_t *>(text.data()), text.size(), "<mlir>", "linalg", &read)};
      Program program(read);
      Answer next;
      uint64_t less = 0;
      std::string made;
      if (error || fold(program.get(), machine, pipeline.c_str(), next) || bytesOf(next.get(), less) || bytes <= less ||
          written(next.get(), made))
        return;
      text = std::move(made);
      answer = std::move(next);
      bytes = less;
    }
  }

  // The result of a fold as linalg.
  static Error written(const OptcAnswer *answer, std::string &text) {
    OptcBytes bytes = {nullptr, 0};
    Error error{optc_answer_write(answer, "linalg", &bytes)};
    if (!error)
      text.assign(reinterpret_cast<const char *>(bytes.data), bytes.len);
    optc_bytes_free(&bytes);
    return error;
  }

  // Replaces the body of a function by that in a text; returns a reason if the text is refused.
  std::optional<std::string> replaced(func::FuncOp func, const std::string &text, const Text &source) {
    std::string why;
    ScopedDiagnosticHandler handler(&getContext(), [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error && why.empty())
        why = diagnostic.str();
      return success();
    });
    // Functions that are called are beside the function, not in the text.
    ParserConfig config(&getContext(), /*verifyAfterParse=*/false);
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, config);
    if (!module)
      return why.empty() ? "it does not parse" : why;
    func::FuncOp result = module->lookupSymbol<func::FuncOp>(func.getName());
    if (!result || result.getFunctionType() != func.getFunctionType())
      return "the types of its arguments and results are others";
    result.walk([&](Operation *op) { op->setLoc(original(op->getLoc(), source, func.getLoc())); });
    for (BlockArgument argument : result.getArguments())
      argument.setLoc(func.getArgument(argument.getArgNumber()).getLoc());
    Region old;
    old.takeBody(func.getBody());
    func.getBody().takeBody(result.getBody());
    if (succeeded(verify(func)))
      return std::nullopt;
    func.getBody().takeBody(old);
    return why.empty() ? "it does not verify" : why;
  }

  // Remarks on the conversions that stay.
  LogicalResult conversions(func::FuncOp func, const OptcAnswer *answer) {
    size_t count = 0;
    if (Error error{optc_answer_conversion_count(answer, &count)})
      return success();
    for (size_t i = 0; i < count; ++i) {
      OptcConversion kept;
      if (Error error{optc_answer_conversion(answer, i, &kept)})
        continue;
      if (kept.is_constant || !kept.reason)
        continue;
      emitRemark(func.getLoc()) << "optc keeps a conversion of " << kept.bytes << " bytes: " << kept.reason;
    }
    return success();
  }

  Option<std::string> target{*this, "target", llvm::cl::desc("A target of optc, or the path of a target's file"),
                             llvm::cl::init("cpu")};
  Option<std::string> pipeline{*this, "pipeline", llvm::cl::desc("The passes of optc"), llvm::cl::init("default")};
  Option<bool> remarks{*this, "remarks", llvm::cl::desc("Say what was folded, and which conversions stay"),
                       llvm::cl::init(false)};
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "Optc", LLVM_VERSION_STRING, [] { PassRegistration<ViewFold>(); }};
}
