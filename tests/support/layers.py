"""The layers of embedx: which folder imports which."""

# Lowest first. A layer is a folder or a module at the top of the package; those of one set do not
# know of each other.
LAYERS = (
    {"errors"},
    {"checks"},
    {"registry"},
    {"settings"},
    {"spelling"},
    {"pages"},
    {"runtime"},
    {"storage"},
    {"kernels"},
    {"training"},
    {"text"},
    {"labeled"},
    {"search"},
    {"samplers"},
    {"objectives"},
    {"parameters"},
    {"optimizers"},
    {"engine"},
    {"vectors"},
    {"evaluation", "graphs"},
    {"skipgram", "classification"},
    {"models"},
    {"report", "distributed"},
    {"tasks"},
    {"comparison"},
    {"api"},
    {"testing"},
    {"cli"},
)


def height_of(name):
    """The layer in which a module lies; the whole package is above all."""
    top = name.split(".")[0]
    return next((i for i, layer in enumerate(LAYERS) if top in layer), len(LAYERS))
