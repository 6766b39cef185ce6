"""Two tiers of tests: `python -m pytest` runs the quick ones, `python -m pytest --all` all.

A test has the marks of what it uses: what its own code, its fixtures and the functions of tests/
that these call refer to. Only `slow` is written beside a test.
"""

import functools
import inspect
from types import CodeType, FunctionType, ModuleType

MARKS = {
    "processes": "starts the command line or Python in processes of their own",
    "browser": "opens pages in chromium",
    "ray": "starts a Ray cluster",
    "sklearn": "runs scikit-learn's checks of estimators",
    "docs": "runs what the README and docs/ show",
    "measurements": "runs the measurements of eval/",
    "slow": "takes two seconds and more",
}
MARK_OF_MODULE = {
    "subprocess": "processes",
    "multiprocessing": "processes",
    "tests.support.forked": "processes",
    "embedx.engine.self_test": "processes",
    "tests.support.eval_setup": "measurements",
    "eval": "measurements",
    "tests.support.browser": "browser",
    "tests.support.ray_cluster": "ray",
    "eval.cluster": "ray",
    "sklearn.utils.estimator_checks": "sklearn",
}
MARK_OF_TEST_MODULE = {"test_docs": "docs", "test_docs_run": "docs", "test_readme": "docs"}


def marks_of(item):
    """The marks of a collected test, without `slow`."""
    marks = set(_marks_of_function(item.function))
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        for definition in definitions:
            marks |= _marks_of_function(definition.func)
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    for value in parameters:
        marks |= marks_of_value(value)
    if item.module.__name__ in MARK_OF_TEST_MODULE:
        marks.add(MARK_OF_TEST_MODULE[item.module.__name__])
    return sorted(marks)


@functools.cache
def _marks_of_function(function):
    return frozenset(marks_of_value(function))


def marks_of_value(value):
    """The marks of a function, a class or a collection of them."""
    modules = set(named(value))
    for function in functions_in(value):
        modules |= _modules_used(function)
    return {MARK_OF_MODULE[name] for name in modules}


@functools.cache
def _modules_used(function):
    """The modules of MARK_OF_MODULE that a function uses, itself or by other functions of tests."""
    used = set()
    waiting = [function]
    seen = set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        for name in names_in(current.__code__):
            if (
                name in MARK_OF_MODULE and name not in current.__globals__
            ):  # imported in the function
                used.add(name)
            value = current.__globals__.get(name)
            used |= named(value)
            waiting += functions_in(value)
        for cell in current.__closure__ or ():
            if cell.cell_contents is not current:
                waiting += functions_in(cell.cell_contents)
    return frozenset(used)


def names_in(code):
    """All names that a function's code refers to, those of the functions within it too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def named(value):
    """The module of MARK_OF_MODULE that a module, function or class is, or is from."""
    if isinstance(value, ModuleType):
        home = value.__name__
    elif isinstance(value, FunctionType | type):
        home = value.__module__
    else:
        return set()
    return {name for name in MARK_OF_MODULE if home == name or home.startswith(f"{name}.")}


def functions_in(value):
    """The functions of tests that a value is, or has as its methods or items."""
    if isinstance(value, FunctionType):
        wrapped = inspect.unwrap(value)
        is_ours = isinstance(wrapped, FunctionType) and is_of_tests(wrapped.__module__)
        return [wrapped] if is_ours else []
    if isinstance(value, type) and is_of_tests(value.__module__):
        return [method for method in vars(value).values() if isinstance(method, FunctionType)]
    if isinstance(value, dict):
        return functions_in(list(value.values()))
    if isinstance(value, list | tuple):
        return [function for item in value for function in functions_in(item)]
    return []


def is_of_tests(module):
    """Whether a module is one of tests/."""
    return module is not None and (module.startswith(("tests.", "test_")) or module == "conftest")
