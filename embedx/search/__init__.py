"""An index for maximum inner products that follows the rows as they are trained."""
