"""A compiler of functions that only compiled code calls.

By default Numba optimises each function with all that it calls and makes machine code of it, and
does so again with each function that calls it. Python calls entry points only. So the code of the
others is linked into entry points as it is, and optimised and made machine code there, once.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, LoweringPass, register_pass
from numba.core.typed_passes import NativeLowering, NoPythonSupportedFeatureValidation


class InnerLibrary(JITCodeLibrary):
    """The code of a function that is only linked into others."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=False, analysis_only=False)
class LibraryPass(FunctionPass):
    """Makes `NativeLowering` write into an `InnerLibrary`."""

    _name = "inner_library"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Do so."""
        state.library = InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.flags.no_compile = True
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class LinkingPass(LoweringPass):
    """Lets other functions link what `NativeLowering` has written."""

    _name = "inner_linking"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Do so."""
        lowered, library = state["cr"], state.library
        # Numba finds the code by a built-in function. This one raises KeyError if Python calls it.
        function = f"{{{state.func_id.func_name}, which only compiled code calls}}".format
        state.targetctx.insert_user_function(function, lowered.fndesc, [library])
        state["cr"] = lowered._replace(cfunc=function)
        return True


class InnerCompiler(CompilerBase):
    """Numba's compiler without machine code."""

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(LibraryPass, NoPythonSupportedFeatureValidation)
        passes.add_pass_after(LinkingPass, NativeLowering)
        passes.finalize()
        return [passes]
