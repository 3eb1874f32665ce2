{{/*
What the admission policies of all accounts have in common. Every expression reads the name in the object: that of the
request is the one in the path, which the object's own need not equal where it is created.
*/}}

{{/* Whether admission policies can be installed: Kubernetes serves them from 1.30 on. */}}
{{- define "joulie.admission.served" -}}
{{- if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" -}}
true
{{- end -}}
{{- end -}}

{{/* The end of every message: where the reason is written, and the way out. Takes the stanza of the values. */}}
{{- define "joulie.admission.hint" -}}
(docs/security.md; turned off by the value {{ . }}.admissionPolicy.enabled of the chart)
{{- end -}}

{{/* Limits a policy to one account of this release. Takes (list . name). */}}
{{- define "joulie.admission.account" -}}
- name: account
  expression: request.userInfo.username == 'system:serviceaccount:{{ (index . 0).Release.Namespace }}:{{ index . 1 }}'
{{- end -}}

{{/* The binding of a policy of the same name. Takes (list . component name). */}}
{{- define "joulie.admission.binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ index . 2 }}
  labels:
    {{- include "joulie.labels" (list (index . 0) (index . 1)) | nindent 4 }}
spec:
  policyName: {{ index . 2 }}
  validationActions: [Deny]
{{- end -}}

{{/* The object of a request, its metadata before and after it, and how large its labels and annotations are. */}}
{{- define "joulie.admission.object" -}}
- name: name
  expression: >-
    object != null ? object.metadata.?name.orValue('') :
    oldObject != null ? oldObject.metadata.?name.orValue('') : request.name
- name: subresource
  expression: request.?subResource.orValue('')
- name: metadata
  expression: "object == null ? dyn({}) : dyn(object.metadata)"
- name: before
  expression: "oldObject == null ? dyn({}) : dyn(oldObject.metadata)"
{{- range $name, $metadata := dict "characters" "variables.metadata" "charactersBefore" "variables.before" }}
- name: {{ $name }}
  expression: >-
    {{ $metadata }}.?annotations.orValue({}).map(key, size(key) + size({{ $metadata }}.annotations[key])).sum() +
    {{ $metadata }}.?labels.orValue({}).map(key, size(key) + size({{ $metadata }}.labels[key])).sum()
{{- end }}
{{- end -}}

{{/* Who asks for what, the beginning of messages. Takes the subject as an expression. */}}
{{- define "joulie.admission.what" -}}
- name: what
  expression: >-
    {{ . }} + ' may not ' + request.operation.lowerAscii() + ' ' + request.resource.resource +
    (variables.subresource == '' ? '' : '/' + variables.subresource) + ' ' + variables.name
{{- end -}}

{{/*
The fields that an update changes and may not, as a list of texts `path=value`. Takes (list path permitted): the path of
a map, and an expression over `key` that is true for entries that may change. A field that only a later release of
Kubernetes has is among the others.
*/}}
{{- define "joulie.admission.changed" -}}
{{- $path := index . 0 -}}
{{- $permitted := index . 1 -}}
(object.?{{ $path }}.orValue({}).map(key, !({{ $permitted }}) && object.?{{ $path }}[key] != oldObject.?{{ $path }}[key],
  '{{ $path }}.' + key + (type(object.?{{ $path }}[key].orValue('')) == string ? '=' + string(object.?{{ $path }}[key].orValue('')) : '')) +
oldObject.?{{ $path }}.orValue({}).map(key, !({{ $permitted }}) && !object.?{{ $path }}[key].hasValue(),
  '{{ $path }}.' + key + ' (removed)'))
{{- end -}}

{{/* Metadata that the API server itself changes with every update, as a list. */}}
{{- define "joulie.admission.bookkeeping" -}}
'managedFields', 'resourceVersion', 'generation'
{{- end -}}

{{/*
What no account may store, whatever the object. Takes (list stanza kinds): kinds whose objects may have the Node of
their own name as the owner. An owner that does not exist makes the garbage collector delete the object.
*/}}
{{- define "joulie.admission.metadata" -}}
{{- $hint := include "joulie.admission.hint" (index . 0) -}}
{{- $foreign := printf "variables.metadata.?ownerReferences.orValue([]).filter(owner, !(owner in variables.before.?ownerReferences.orValue([])) && !(request.resource.resource in %s && owner.apiVersion == 'v1' && owner.kind == 'Node' && owner.name == variables.name))" (index . 1) }}
- expression: >-
    object == null ||
    variables.metadata.?finalizers.orValue([]) == variables.before.?finalizers.orValue([])
  reason: Forbidden
  messageExpression: >-
    variables.what + ' with metadata.finalizers=[' + variables.metadata.?finalizers.orValue([]).join(', ') +
    ']: leave them as they are {{ $hint }}'
- expression: >-
    {{ $foreign }} == []
  reason: Forbidden
  messageExpression: >-
    variables.what + ' with metadata.ownerReferences=[' +
    {{ $foreign }}.map(owner, string(owner.kind) + ' ' + string(owner.name)).join(', ') +
    ']: leave them out, or name the Node of this name where the object is about it {{ $hint }}'
- expression: variables.characters <= 65536 || variables.characters <= variables.charactersBefore
  reason: Forbidden
  messageExpression: >-
    variables.what + ' with ' + string(variables.characters) +
    ' characters in metadata.labels and metadata.annotations: 65536 are permitted {{ $hint }}'
{{- end -}}
