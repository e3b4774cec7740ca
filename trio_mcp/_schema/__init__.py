"""From Python signatures to JSON Schema and back. No I/O, no Trio, nothing of the protocol's methods.

Hints are read once into shapes (`_shapes`); schemas and both conversions are made from those. Schemas that were
not generated here are in `_validator`, which is not imported: few servers need it.
"""

from __future__ import annotations

from ._encode import items_of as items_of
from ._encode import result_to_json as result_to_json
from ._encode import to_json as to_json
from ._members import Field as Field
from ._members import is_field_of_pydantic as is_field_of_pydantic
from ._members import misplaced_field as misplaced_field
from ._members import refuse_uncalled as refuse_uncalled
from ._shapes import InvalidValue as InvalidValue
from ._signature import CallSpec as CallSpec
from ._signature import JsonType as JsonType
from ._signature import StringArgument as StringArgument
from ._signature import inspect_callable as inspect_callable
from ._signature import is_unstructured as is_unstructured
