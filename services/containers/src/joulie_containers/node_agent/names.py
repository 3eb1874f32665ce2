"""Names under which the node agent writes to the API server."""

from typing import Final

#: That of the agent, whose service account the pod has: a NodeResourceTopology that was applied under it keeps, under
#: another name, the zones that are gone.
FIELD_MANAGER: Final = "joulie-agent"
