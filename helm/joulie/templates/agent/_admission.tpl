{{/* Whether the admission policies are installed: Kubernetes serves them from 1.30 on. */}}
{{- define "joulie.admission.enabled" -}}
{{- if and .Values.agent.enabled .Values.agent.admissionPolicy.enabled (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy") -}}
true
{{- end -}}
{{- end -}}

{{/* The end of every message: where the reason is written, and the way out. */}}
{{- define "joulie.admission.hint" -}}
(docs/security.md; turned off by the value agent.admissionPolicy.enabled of the chart)
{{- end -}}

{{/* Limits a policy to the agents of this release. */}}
{{- define "joulie.admission.account" -}}
- name: agent
  expression: request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:{{ include "joulie.agent.name" . }}'
{{- end -}}

{{/* Everything that the agent's role lets it write. */}}
{{- define "joulie.admission.resources" -}}
{{- include "joulie.writes.agent.cluster" . -}}
{{- if and .Values.agent.resourceManager.enabled (eq .Values.agent.mode "daemonset") }}
{{- include "joulie.writes.agent.resource-manager" . | nindent 0 }}
{{- end }}
{{- end -}}

{{/* Kinds whose objects do not have the name of a node. */}}
{{- define "joulie.admission.shared" -}}
['events', 'balloonspolicies', 'topologyawarepolicies', 'templatepolicies', 'adjustments']
{{- end -}}

{{/* What both policies use: the subresource, and whether the agent manages a profile before and after the write. */}}
{{- define "joulie.admission.variables" -}}
- name: subresource
  expression: request.?subResource.orValue('')
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
      : request.operation == 'UPDATE' && object.spec == oldObject.spec && !variables.isManaged)
  reason: Forbidden
  messageExpression: >-
    "Joulie's agent may write TelemetryProfile " + request.name +
    ' only while the agent manages it, and only for its node {{ include "joulie.admission.hint" . }}'
{{- end -}}

{{/* What the resource manager's writes may contain. */}}
{{- define "joulie.admission.resourceManager" -}}
# Each node has an entry in a status that all agents write.
- expression: >-
    request.resource.group != 'joulie.io' || !(request.resource.resource in {{ include "joulie.admission.shared" . }}) || (
      object.?status.nodes.orValue({}).all(key, key == variables.node ||
        oldObject.?status.nodes[key] == object.?status.nodes[key]) &&
      oldObject.?status.nodes.orValue({}).all(key, key == variables.node ||
        object.?status.nodes[key].hasValue()))
  reason: Forbidden
  messageExpression: >-
    variables.what + ' but for the entry of its own node {{ include "joulie.admission.hint" . }}'
- expression: >-
    request.resource.resource != 'events' || (
      object.involvedObject.kind == 'Pod' && object.?source.host.orValue('') == variables.node)
  reason: Forbidden
  messageExpression: >-
    variables.what + ': it may report about pods, with its own node as the source {{ include "joulie.admission.hint" . }}'
# As for the kubelet's own token, labels that administrators reserve are not for the node to set.
- expression: >-
    request.resource.resource != 'nodes' || variables.subresource != '' || (
      object.spec.?unschedulable.orValue(false) == oldObject.spec.?unschedulable.orValue(false) &&
      object.metadata.?labels.orValue({}).all(key, !key.contains('node-restriction.kubernetes.io/') ||
        oldObject.metadata.?labels[key] == object.metadata.?labels[key]) &&
      oldObject.metadata.?labels.orValue({}).all(key, !key.contains('node-restriction.kubernetes.io/') ||
        object.metadata.?labels[key].hasValue()))
  reason: Forbidden
  messageExpression: >-
    variables.what + ': neither whether it is schedulable, nor labels with node-restriction.kubernetes.io/ {{ include "joulie.admission.hint" . }}'
# The API server connects to the addresses.
- expression: >-
    request.resource.resource != 'nodes' || variables.subresource != 'status' || (
      object.status.?addresses == oldObject.status.?addresses &&
      object.status.?conditions == oldObject.status.?conditions &&
      object.status.?daemonEndpoints == oldObject.status.?daemonEndpoints &&
      object.status.?nodeInfo == oldObject.status.?nodeInfo)
  reason: Forbidden
  messageExpression: >-
    variables.what + ': it may set capacities of extended resources only {{ include "joulie.admission.hint" . }}'
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
