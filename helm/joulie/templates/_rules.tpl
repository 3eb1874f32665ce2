{{/* Written by `just rbac` from the table in joulie_api.permissions: do not edit.
     Where a rule is limited to named objects, the template takes the list of their names. */}}
{{- define "joulie.rules.operator.cluster" -}}
# The patch sets labels that pods are placed by.
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch, patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
# What pods request by dynamic resource allocation.
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims, resourceclaimtemplates, deviceclasses]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
- apiGroups: [joulie.io]
  resources: [nodepowerprofiles, nodetwins]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [joulie.io]
  resources: [nodepowerprofiles/status, nodetwins/status]
  verbs: [patch]
# What the agents write.
- apiGroups: [joulie.io]
  resources: [nodehardwares, telemetryprofiles]
  verbs: [list, watch]
# Power of whole servers.
- apiGroups: [joulie.io]
  resources: [nodebmcs]
  verbs: [list, watch]
# Limits of nodes that are limited no more.
- apiGroups: [joulie.io]
  resources: [nodepowerbudgets]
  verbs: [list, delete]
{{- end -}}
{{- define "joulie.writes.operator.cluster" -}}
- apiGroups: [""]
  apiVersions: ['*']
  resources: [nodes]
  operations: [CREATE, UPDATE, DELETE]
- apiGroups: [""]
  apiVersions: ['*']
  resources: [events]
  operations: [CREATE, UPDATE, DELETE]
- apiGroups: [joulie.io]
  apiVersions: ['*']
  resources: [nodepowerprofiles, nodetwins]
  operations: [CREATE, UPDATE, DELETE]
- apiGroups: [joulie.io]
  apiVersions: ['*']
  resources: [nodepowerprofiles/status, nodetwins/status]
  operations: [CREATE, UPDATE, DELETE]
- apiGroups: [joulie.io]
  apiVersions: ['*']
  resources: [nodepowerbudgets]
  operations: [CREATE, UPDATE, DELETE]
{{- end -}}
{{- define "joulie.rules.operator.namespace" -}}
# Leader election.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, update]
{{- end -}}
{{- define "joulie.writes.operator.namespace" -}}
- apiGroups: [coordination.k8s.io]
  apiVersions: ['*']
  resources: [leases]
  operations: [CREATE, UPDATE, DELETE]
{{- end -}}
{{- define "joulie.rules.operator.sleep" -}}
- apiGroups: [joulie.io]
  resources: [nodesleeppolicies]
  verbs: [list, watch]
- apiGroups: [joulie.io]
  resources: [nodesleeppolicies/status]
  verbs: [patch]
# The patch powers servers off and on.
- apiGroups: [joulie.io]
  resources: [nodebmcs]
  verbs: [patch]
# The condition of servers left off.
- apiGroups: [joulie.io]
  resources: [nodebmcs/status]
  verbs: [patch]
# The condition of nodes that sleep.
- apiGroups: [""]
  resources: [nodes/status]
  verbs: [patch]
# Within PodDisruptionBudgets.
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
# Whether a roll-out waits for a node.
- apiGroups: [apps]
  resources: [daemonsets]
  verbs: [list, watch]
# On which nodes a pod finds its data.
- apiGroups: [""]
  resources: [persistentvolumeclaims, persistentvolumes]
  verbs: [list, watch]
{{- end -}}
{{- define "joulie.writes.operator.sleep" -}}
- apiGroups: [joulie.io]
  apiVersions: ['*']
  resources: [nodesleeppolicies/status]
  operations: [CREATE, UPDATE, DELETE]
- apiGroups: [joulie.io]
  apiVersions: ['*']
  resources: [nodebmcs]
  operations: [CREATE, UPDATE, DELETE]
- apiGroups: [joulie.io]
  apiVersions: ['*']
  resources: [nodebmcs/status]
  operations: [CREATE, UPDATE, DELETE]
- apiGroups: [""]
  apiVersions: ['*']
  resources: [nodes/status]
  operations: [CREATE, UPDATE, DELETE]
- apiGroups: [""]
  apiVersions: ['*']
  resources: [pods/eviction]
  operations: [CREATE, UPDATE, DELETE]
{{- end -}}
{{- define "joulie.rules.operator.savings" -}}
# The ledger of savings.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: {{ toJson . }}
  verbs: [get, patch]
# Its first write; a name cannot limit it.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
{{- end -}}
{{- define "joulie.writes.operator.savings" -}}
- apiGroups: [""]
  apiVersions: ['*']
  resources: [configmaps]
  operations: [CREATE, UPDATE, DELETE]
- apiGroups: [""]
  apiVersions: ['*']
  resources: [configmaps]
  operations: [CREATE, UPDATE, DELETE]
{{- end -}}
{{- define "joulie.rules.operator.power-domains" -}}
- apiGroups: [joulie.io]
  resources: [powerdomains, powerevents]
  verbs: [list, watch]
# What is observed.
- apiGroups: [joulie.io]
  resources: [powerdomains/status, powerevents/status]
  verbs: [patch]
# What is in force on nodes.
- apiGroups: [joulie.io]
  resources: [nodepowerbudgets]
  verbs: [watch]
{{- end -}}
{{- define "joulie.writes.operator.power-domains" -}}
- apiGroups: [joulie.io]
  apiVersions: ['*']
  resources: [powerdomains/status, powerevents/status]
  operations: [CREATE, UPDATE, DELETE]
{{- end -}}
{{- define "joulie.rules.operator.power-budgets" -}}
# Limits of nodes.
- apiGroups: [joulie.io]
  resources: [nodepowerbudgets]
  verbs: [create, patch]
{{- end -}}
{{- define "joulie.writes.operator.power-budgets" -}}
- apiGroups: [joulie.io]
  apiVersions: ['*']
  resources: [nodepowerbudgets]
  operations: [CREATE, UPDATE, DELETE]
{{- end -}}
{{- define "joulie.rules.agent.cluster" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
- apiGroups: [joulie.io]
  resources: [nodepowerprofiles]
  verbs: [list, watch]
- apiGroups: [joulie.io]
  resources: [nodehardwares, telemetryprofiles]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [joulie.io]
  resources: [nodehardwares/status, telemetryprofiles/status]
  verbs: [patch]
# The limit of the agent's own node.
- apiGroups: [joulie.io]
  resources: [nodepowerbudgets]
  verbs: [list, watch]
# What is in force of it.
- apiGroups: [joulie.io]
  resources: [nodepowerbudgets/status]
  verbs: [patch]
{{- end -}}
{{- define "joulie.writes.agent.cluster" -}}
- apiGroups: [joulie.io]
  apiVersions: ['*']
  resources: [nodehardwares, telemetryprofiles]
  operations: [CREATE, UPDATE, DELETE]
- apiGroups: [joulie.io]
  apiVersions: ['*']
  resources: [nodehardwares/status, telemetryprofiles/status]
  operations: [CREATE, UPDATE, DELETE]
- apiGroups: [joulie.io]
  apiVersions: ['*']
  resources: [nodepowerbudgets/status]
  operations: [CREATE, UPDATE, DELETE]
{{- end -}}
{{- define "joulie.rules.agent.namespace" -}}
# Headers for HTTP backends. The author of a TelemetryProfile also sets their destination.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: {{ toJson . }}
  verbs: [get]
{{- end -}}
{{- define "joulie.rules.agent.resource-manager" -}}
- apiGroups: [joulie.io]
  resources: [balloonspolicies, topologyawarepolicies, templatepolicies, adjustments]
  verbs: [list, watch]
- apiGroups: [joulie.io]
  resources: [balloonspolicies/status, topologyawarepolicies/status, templatepolicies/status, adjustments/status]
  verbs: [patch]
# Labels, annotations and taints that a container policy sets.
- apiGroups: [""]
  resources: [nodes]
  verbs: [patch]
# Capacity of extended resources.
- apiGroups: [""]
  resources: [nodes/status]
  verbs: [patch]
- apiGroups: [topology.node.k8s.io]
  resources: [noderesourcetopologies]
  verbs: [get, create, patch, delete]
{{- end -}}
{{- define "joulie.writes.agent.resource-manager" -}}
- apiGroups: [joulie.io]
  apiVersions: ['*']
  resources: [balloonspolicies/status, topologyawarepolicies/status, templatepolicies/status, adjustments/status]
  operations: [CREATE, UPDATE, DELETE]
- apiGroups: [""]
  apiVersions: ['*']
  resources: [nodes]
  operations: [CREATE, UPDATE, DELETE]
- apiGroups: [""]
  apiVersions: ['*']
  resources: [nodes/status]
  operations: [CREATE, UPDATE, DELETE]
- apiGroups: [topology.node.k8s.io]
  apiVersions: ['*']
  resources: [noderesourcetopologies]
  operations: [CREATE, UPDATE, DELETE]
{{- end -}}
{{- define "joulie.rules.agent.holders" -}}
# Which GPU a device of a claim is.
- apiGroups: [resource.k8s.io]
  resources: [resourceslices]
  verbs: [list, watch]
{{- end -}}
{{- define "joulie.rules.agent.node-pods" -}}
# Class and workload of the pods on the agent's node.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
{{- end -}}
{{- define "joulie.rules.agent.class-limits" -}}
# How much longer their pods may run.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
{{- end -}}
{{- define "joulie.rules.agent.pod-events" -}}
# Warnings about pods, and receipts of their energy.
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end -}}
{{- define "joulie.writes.agent.pod-events" -}}
- apiGroups: [""]
  apiVersions: ['*']
  resources: [events]
  operations: [CREATE, UPDATE, DELETE]
{{- end -}}
{{- define "joulie.rules.extender.cluster" -}}
- apiGroups: [""]
  resources: [nodes, pods]
  verbs: [list, watch]
- apiGroups: [joulie.io]
  resources: [nodehardwares, nodetwins]
  verbs: [list, watch]
# What pods request by dynamic resource allocation.
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims, resourceclaimtemplates, deviceclasses]
  verbs: [list, watch]
{{- end -}}
{{- define "joulie.rules.outofband.cluster" -}}
- apiGroups: [joulie.io]
  resources: [nodebmcs]
  verbs: [list, watch]
# Whether a power-off is still requested.
- apiGroups: [joulie.io]
  resources: [nodebmcs]
  verbs: [get]
- apiGroups: [joulie.io]
  resources: [nodebmcs/status]
  verbs: [patch]
# Whether a node is tainted, and ready after it was powered on.
- apiGroups: [""]
  resources: [nodes]
  verbs: [get]
# Whether a node has pods that would be lost with its power.
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
{{- end -}}
{{- define "joulie.writes.outofband.cluster" -}}
- apiGroups: [joulie.io]
  apiVersions: ['*']
  resources: [nodebmcs/status]
  operations: [CREATE, UPDATE, DELETE]
{{- end -}}
{{- define "joulie.rules.outofband.namespace" -}}
# Leader election.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, update]
# Credentials of BMCs, and what verifies them.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: {{ toJson . }}
  verbs: [get]
{{- end -}}
{{- define "joulie.writes.outofband.namespace" -}}
- apiGroups: [coordination.k8s.io]
  apiVersions: ['*']
  resources: [leases]
  operations: [CREATE, UPDATE, DELETE]
{{- end -}}
{{- define "joulie.rules.ven.cluster" -}}
- apiGroups: [joulie.io]
  resources: [powerevents]
  verbs: [list, create, patch, delete]
{{- end -}}
{{- define "joulie.writes.ven.cluster" -}}
- apiGroups: [joulie.io]
  apiVersions: ['*']
  resources: [powerevents]
  operations: [CREATE, UPDATE, DELETE]
{{- end -}}
{{- define "joulie.rules.viewer.cluster" -}}
- apiGroups: [joulie.io]
  resources: [nodepowerprofiles, nodetwins, telemetryprofiles]
  verbs: [get, list, watch]
- apiGroups: [joulie.io]
  resources: [nodehardwares, nodebmcs, nodesleeppolicies, powerdomains, powerevents, nodepowerbudgets]
  verbs: [list]
- apiGroups: [""]
  resources: [nodes, pods]
  verbs: [get, list]
- apiGroups: [""]
  resources: [events]
  verbs: [list, watch]
# To find the extender.
- apiGroups: [""]
  resources: [services]
  verbs: [list]
# doctor compares those of the services with what they need.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles]
  verbs: [list]
{{- end -}}
{{- define "joulie.rules.viewer.namespace" -}}
# What the extender knows: the create is a POST of a pod to /debug/explain, which changes nothing.
- apiGroups: [""]
  resources: [services/proxy]
  resourceNames: {{ toJson . }}
  verbs: [get, create]
{{- end -}}
{{- define "joulie.rules.viewer.savings" -}}
# The ledger of savings.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: {{ toJson . }}
  verbs: [get]
{{- end -}}
{{- define "joulie.rules.viewer.energy-factors" -}}
# What a kWh costs and emits.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: {{ toJson . }}
  verbs: [get]
{{- end -}}
