{{/* The release's name if it contains "joulie", else both: short names without conflicts. */}}
{{- define "joulie.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 33 | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{/* Names of objects. Scheduler configurations refer to the extender's name. */}}
{{- define "joulie.operator.name" -}}{{ include "joulie.fullname" . }}-operator{{- end -}}
{{- define "joulie.agent.name" -}}{{ include "joulie.fullname" . }}-agent{{- end -}}
{{- define "joulie.extender.name" -}}{{ include "joulie.fullname" . }}-scheduler-extender{{- end -}}
{{- define "joulie.outofband.name" -}}{{ include "joulie.fullname" . }}-outofband{{- end -}}
{{- define "joulie.ven.name" -}}{{ include "joulie.fullname" . }}-ven{{- end -}}
{{- define "joulie.restore.name" -}}{{ include "joulie.fullname" . }}-restore{{- end -}}

{{/* Selector labels; they never change within a release. Takes (list . component). */}}
{{- define "joulie.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of pods. Without versions, since a changed label restarts every pod. Takes (list . component). */}}
{{- define "joulie.podLabels" -}}
{{- $root := index . 0 -}}
{{ include "joulie.selectorLabels" . }}
app.kubernetes.io/part-of: joulie
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of every other object. Takes (list . component). */}}
{{- define "joulie.labels" -}}
{{- $root := index . 0 -}}
{{ include "joulie.selectorLabels" . }}
app.kubernetes.io/part-of: joulie
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Image reference; a digest takes precedence over the tag. Takes an image stanza. */}}
{{- define "joulie.image" -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag }}
{{- end -}}
{{- end -}}

{{/*
The image that the node's pods share with hooks and watchdog: the agent's, or that of container resources where these are alone.
Both have the actuator and its commands; see joulie.node.program.
*/}}
{{- define "joulie.node.image" -}}
{{- if .Values.agent.power.enabled -}}
{{- toYaml .Values.agent.image -}}
{{- else if and .Values.agent.resourceManager.enabled (eq .Values.agent.mode "daemonset") -}}
{{- toYaml .Values.containers.image -}}
{{- else -}}
{{- fail "agent.power.enabled: false leaves nothing to run: set agent.resourceManager.enabled, with agent.mode: daemonset" -}}
{{- end -}}
{{- end -}}

{{/* The program of that image. */}}
{{- define "joulie.node.program" -}}{{ ternary "joulie-agent" "joulie-containers" .Values.agent.power.enabled }}{{- end -}}

{{/*
The preset of the values, as JSON. Values of an older chart, which `helm upgrade --reuse-values` takes as they are, have none: nothing
changes for them.
*/}}
{{- define "joulie.preset" -}}
{{- index (include "joulie.presets" . | fromJson) (.Values.preset | default "documents") | toJson -}}
{{- end -}}

{{/*
A container's env: the variables of the preset, and those of the values (env, extraEnv), which outrank them. Takes
(list . component).
*/}}
{{- define "joulie.presetEnv" -}}
{{- $root := index . 0 -}}
{{- $stanza := index $root.Values (index . 1) -}}
{{- $preset := index (include "joulie.preset" $root | fromJson) (index . 1) -}}
{{- range $stanza.extraEnv -}}
{{- $_ := unset $preset .name -}}
{{- end -}}
{{- include "joulie.env" (list (merge (deepCopy $stanza.env) $preset) $stanza.extraEnv) -}}
{{- end -}}

{{/* Not empty where nodes may sleep. */}}
{{- define "joulie.sleep.enabled" -}}
{{- if or .Values.operator.sleep.enabled (include "joulie.preset" . | fromJson).sleeps }}true{{ end -}}
{{- end -}}

{{/* Fails where the release stops to let nodes sleep while some do: nothing would wake them. */}}
{{- define "joulie.sleep.left" -}}
{{- if and .Release.IsUpgrade (.Capabilities.APIVersions.Has "joulie.io/v1alpha1/NodeSleepPolicy") -}}
{{- range (lookup "joulie.io/v1alpha1" "NodeSleepPolicy" "" "").items -}}
{{- $nodes := (.status | default dict).nodes | default dict -}}
{{- $off := add ($nodes.poweringOff | default 0) ($nodes.asleep | default 0) ($nodes.waking | default 0) ($nodes.quarantined | default 0) -}}
{{- if gt $off 0 -}}
{{- fail (printf "preset and operator.sleep.enabled let no node sleep any more, and %d of the NodeSleepPolicy %s are off: nothing would wake them. Wake them first (docs/presets.md, Leaving sleep)" $off .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Not empty where the release has the out-of-band service. */}}
{{- define "joulie.outofband.enabled" -}}
{{- $sleeps := (include "joulie.preset" . | fromJson).sleeps -}}
{{- if and $sleeps (not .Values.operator.enabled) -}}
{{- fail "preset: sleep needs the operator, which decides what sleeps: set operator.enabled, or another preset" -}}
{{- end -}}
{{- if and $sleeps (not .Values.outofband.secrets) -}}
{{- fail "preset: sleep needs BMCs, and outofband.secrets is empty: name the Secrets with their credentials there (docs/install.md, BMCs of the servers), or set preset: score, which needs none" -}}
{{- end -}}
{{- if or .Values.outofband.enabled $sleeps }}true{{ end -}}
{{- end -}}

{{/* A container's env, from a map of variables and a list of entries. Takes (list env extraEnv). */}}
{{- define "joulie.env" -}}
{{- range $name, $value := index . 0 }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- with index . 1 }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Placement and image pull secrets; keys of a pod's spec. Takes (list . stanza). */}}
{{- define "joulie.placement" -}}
{{- $root := index . 0 -}}
{{- $stanza := index . 1 -}}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $stanza.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $stanza.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $stanza.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $stanza.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* Spreads replicas over nodes, where there are enough. Takes (list . component). */}}
{{- define "joulie.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "joulie.selectorLabels" . | nindent 8 }}
{{- end -}}

{{/* No privileges and a read-only root file system. For every container but the actuator. */}}
{{- define "joulie.unprivileged" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Health endpoints on the port `metrics`. Takes the host to probe, empty for the pod's address. */}}
{{- define "joulie.probes" -}}
livenessProbe:
  httpGet:
    path: /healthz
    port: metrics
    {{- with . }}
    host: {{ . | quote }}
    {{- end }}
  initialDelaySeconds: 10
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: metrics
    {{- with . }}
    host: {{ . | quote }}
    {{- end }}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{/* The pod's name and namespace, as environment variables. */}}
{{- define "joulie.identityEnv" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end -}}

{{/* ServiceAccount and the bindings of the roles that carry its name. Takes (list . component name namespaced-role). */}}
{{- define "joulie.account" -}}
{{- $root := index . 0 -}}
{{- $name := index . 2 -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "joulie.labels" (list $root (index . 1)) | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels:
    {{- include "joulie.labels" (list $root (index . 1)) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ $root.Release.Namespace }}
{{- if index . 3 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "joulie.labels" (list $root (index . 1)) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ $root.Release.Namespace }}
{{- end }}
{{- end -}}
