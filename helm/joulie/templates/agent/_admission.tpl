{{/* Whether the admission policies of agents are installed. */}}
{{- define "joulie.agent.admission.enabled" -}}
{{- if and .Values.agent.enabled .Values.agent.admissionPolicy.enabled (include "joulie.admission.served" .) -}}
true
{{- end -}}
{{- end -}}

{{/* Everything that the agent's role lets it write. */}}
{{- define "joulie.admission.resources" -}}
{{- include "joulie.writes.agent.cluster" . -}}
{{- if and .Values.agent.resourceManager.enabled (eq .Values.agent.mode "daemonset") }}
{{- include "joulie.writes.agent.resource-manager" . | nindent 0 }}
{{- end }}
{{- if include "joulie.podEvents.enabled" . }}
{{- include "joulie.writes.agent.pod-events" . | nindent 0 }}
{{- end }}
{{- end -}}

{{/* Kinds whose objects do not have the name of a node. */}}
{{- define "joulie.admission.shared" -}}
['events', 'balloonspolicies', 'topologyawarepolicies', 'templatepolicies', 'adjustments']
{{- end -}}

{{/* Kinds that the agent's Node is the owner of. */}}
{{- define "joulie.admission.owned" -}}
['nodehardwares', 'telemetryprofiles', 'noderesourcetopologies']
{{- end -}}

{{/* Whether the agent manages a profile before and after the write. */}}
{{- define "joulie.admission.variables" -}}
{{- include "joulie.admission.object" . }}
- name: wasManaged
  expression: >-
    oldObject == null || oldObject.metadata.?labels['app.kubernetes.io/managed-by'].orValue('') == 'joulie-agent'
- name: isManaged
  expression: >-
    object == null || object.metadata.?labels['app.kubernetes.io/managed-by'].orValue('') == 'joulie-agent'
{{- end -}}

{{/* What a TelemetryProfile may contain; that a NodeHardware is about the node of its name is a rule of its CRD. */}}
{{- define "joulie.admission.contents" -}}
# A profile without the label is a user's: agents write its status only.
- expression: >-
    request.resource.resource != 'telemetryprofiles' || variables.subresource != '' || (
      variables.wasManaged
      ? request.operation == 'DELETE' || (request.operation == 'UPDATE' && object.spec == oldObject.spec) || (
          object.spec.target.scope == 'node' && object.spec.target.nodeName == variables.node)
      : request.operation == 'UPDATE' && object.spec == oldObject.spec && !variables.isManaged &&
        object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences)
  reason: Forbidden
  messageExpression: >-
    "Joulie's agent may write TelemetryProfile " + variables.name +
    ' only while the agent manages it, and only for its node {{ include "joulie.admission.hint" "agent" }}'
{{- include "joulie.admission.metadata" (list "agent" (include "joulie.admission.owned" .)) }}
{{- end -}}

{{/* The fields of its Node that the agent changes and may not: labels that administrators reserve, for example. */}}
{{- define "joulie.admission.ownNode" -}}
- name: changed
  expression: >-
    request.resource.resource != 'nodes' || request.operation != 'UPDATE' ? [] :
    {{ include "joulie.admission.changed" (list "metadata" (printf "key in ['labels', 'annotations', %s]" (include "joulie.admission.bookkeeping" .))) | nindent 4 }} +
    {{ include "joulie.admission.changed" (list "metadata.labels" "!key.contains('node-restriction.kubernetes.io/')") | nindent 4 }} + (
    variables.subresource == ''
    ? {{ include "joulie.admission.changed" (list "spec" "key == 'taints'") | nindent 6 }}
    : {{ include "joulie.admission.changed" (list "status" "key in ['capacity', 'allocatable']") | nindent 6 }} +
    {{- range $kind := list "capacity" "allocatable" }}
      {{ include "joulie.admission.changed" (list (printf "status.%s" $kind) "key.contains('/') && !key.contains('kubernetes.io/')") | nindent 6 }}{{ if eq $kind "capacity" }} +{{ end }}
    {{- end }})
{{- end -}}

{{/* What an Event may be about. */}}
{{- define "joulie.admission.events" -}}
- expression: >-
    request.resource.resource != 'events' || (
      object.involvedObject.kind == 'Pod' && object.?source.host.orValue('') == variables.node)
  reason: Forbidden
  messageExpression: >-
    variables.what + ': it may report about pods, with its own node as the source {{ include "joulie.admission.hint" "agent" }}'
{{- end -}}

{{/* What the resource manager's writes may contain. */}}
{{- define "joulie.admission.resourceManager" -}}
{{- $hint := include "joulie.admission.hint" "agent" -}}
# Each node has an entry in a status that all agents write.
- expression: >-
    request.resource.group != 'joulie.io' || !(request.resource.resource in {{ include "joulie.admission.shared" . }}) || (
      object.?status.nodes.orValue({}).all(key, key == variables.node ||
        oldObject.?status.nodes[key] == object.?status.nodes[key]) &&
      oldObject.?status.nodes.orValue({}).all(key, key == variables.node ||
        object.?status.nodes[key].hasValue()))
  reason: Forbidden
  messageExpression: >-
    variables.what + ' but for the entry of its own node {{ $hint }}'
- expression: variables.changed == []
  reason: Forbidden
  messageExpression: >-
    variables.what + ' with ' + variables.changed.join(', ') + ': it may set labels without
    node-restriction.kubernetes.io/, annotations, taints and extended resources (DOMAIN/NAME) only {{ $hint }}'
{{- end -}}

{{/*
The nodes that agent.pool.nodeSelector does not match, as a list of expressions: a node is outside if one of them matches. Each is the
opposite of one requirement of the selector.
*/}}
{{- define "joulie.admission.outside" -}}
{{- $key := "[-A-Za-z0-9_./]+" -}}
{{- $opposite := dict "in" "NotIn" "notin" "In" "=" "NotIn" "==" "NotIn" "!=" "In" -}}
{{- $outside := list -}}
{{- range regexFindAll "[^,()]+(\\([^()]*\\))?" .Values.agent.pool.nodeSelector -1 -}}
{{- $requirement := trim . -}}
{{- if regexMatch (printf "^%s +(in|notin) *\\(.*\\)$" $key) $requirement -}}
{{- $operator := regexReplaceAll (printf "^%s +(in|notin) *\\(.*$" $key) $requirement "${1}" -}}
{{- $values := regexReplaceAll "^[^(]*\\(|\\)$" $requirement "" | nospace | splitList "," -}}
{{- $outside = append $outside (dict "key" (regexFind $key $requirement) "operator" (get $opposite $operator) "values" $values) -}}
{{- else if regexMatch (printf "^%s *(=|==|!=) *[-A-Za-z0-9_.]*$" $key) $requirement -}}
{{- $operator := regexFind "!?=+" $requirement -}}
{{- $value := regexReplaceAll "^.*= *" $requirement "" -}}
{{- $outside = append $outside (dict "key" (regexFind $key $requirement) "operator" (get $opposite $operator) "values" (list $value)) -}}
{{- else if regexMatch (printf "^!? *%s$" $key) $requirement -}}
{{- $outside = append $outside (dict "key" (regexFind $key $requirement) "operator" (ternary "Exists" "DoesNotExist" (hasPrefix "!" $requirement))) -}}
{{- else -}}
{{- fail (printf "agent.pool.nodeSelector: the admission policy cannot use %q: write =, !=, in, notin, a key or !key, or set agent.admissionPolicy.enabled to false" $requirement) -}}
{{- end -}}
{{- end -}}
{{- toYaml $outside -}}
{{- end -}}
