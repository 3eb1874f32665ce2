"""The OData documents of a simulated BMC: the service document and the metadata.

Source: DMTF DSP0266 (Redfish Specification), sections "OData $metadata" and "OData service document".
"""

from collections.abc import Iterable
from typing import Any, Final
from xml.sax.saxutils import quoteattr

_SCHEMAS: Final = "http://redfish.dmtf.org/schemas/v1"


def schema_url(kind: str) -> str:
    """Return the address of the JSON schema of a resource with `@odata.type` of `kind`."""
    return f"{_SCHEMAS}/{kind.removeprefix('#').rpartition('.')[0]}.json"


def service_document(root: dict[str, Any], metadata: str) -> dict[str, Any]:
    """Return the document that lists what the service root links to.

    Args:
        root: the service root.
        metadata: path of the metadata.
    """
    links = {name: value for name, value in root.items() if isinstance(value, dict) and "@odata.id" in value}
    value = [
        {"name": name, "kind": "Singleton", "url": to["@odata.id"]} for name, to in {"Service": root, **links}.items()
    ]
    return {"@odata.context": metadata, "value": value}


def metadata_document(kinds: Iterable[str]) -> str:
    """Return the metadata as XML, for resources with these values of `@odata.type`."""
    spaces = sorted({kind.removeprefix("#").rpartition(".")[0] for kind in kinds})
    root = next(each for each in spaces if each.startswith("ServiceRoot."))
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            '<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">',
            *(_reference(space) for space in spaces),
            "  <edmx:DataServices>",
            '    <Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service">',
            f'      <EntityContainer Name="Service" Extends="{root}.ServiceContainer"/>',
            "    </Schema>",
            "  </edmx:DataServices>",
            "</edmx:Edmx>",
        ]
    )


def _reference(space: str) -> str:
    name = space.partition(".")[0]
    included = "".join(f"<edmx:Include Namespace={quoteattr(each)}/>" for each in dict.fromkeys((name, space)))
    return f"  <edmx:Reference Uri={quoteattr(f'{_SCHEMAS}/{name}_v1.xml')}>{included}</edmx:Reference>"
