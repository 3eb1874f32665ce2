{{/* The containers of container resources, in the agent's DaemonSet. */}}
{{- define "joulie.containerResources" -}}
{{ include "joulie.nodeAgent" . }}
{{ include "joulie.resourceManager" . }}
{{- end -}}

{{/* The node agent's container: API token and network, no devices, nothing writable but the sockets of the pod. */}}
{{- define "joulie.nodeAgent" -}}
{{- $manager := .Values.agent.resourceManager -}}
{{- $agent := $manager.nodeAgent -}}
- name: node-agent
  image: {{ include "joulie.image" .Values.containers.image }}
  imagePullPolicy: {{ .Values.containers.image.pullPolicy }}
  args: [node-agent]
  env:
    - name: NODE_NAME
      valueFrom:
        fieldRef:
          fieldPath: spec.nodeName
    - name: RESOURCE_MANAGER_SOCKET
      value: /run/joulie/resources.sock
    - name: METRICS_ADDR
      value: {{ printf "%s:%d" .Values.agent.metricsHost (int $agent.metricsPort) | quote }}
    {{- if include "joulie.classLimits.shown" . }}
    - name: POD_CONSENTS
      value: "true"
    - name: DEFAULT_MAX_SLOWDOWN
      value: {{ .Values.agent.classLimits.defaultMaxSlowdown | quote }}
    - name: DEFAULT_SLOWDOWN_IS_CONSENT
      value: {{ .Values.agent.classLimits.defaultIsConsent | quote }}
    {{- end }}
    {{- if .Values.agent.actuator.nvidia.enabled }}
    # Where the NVIDIA runtime is the default one, it must not mount anything here.
    - name: NVIDIA_VISIBLE_DEVICES
      value: void
    {{- end }}
    {{- include "joulie.env" (list $agent.env $agent.extraEnv) | nindent 4 }}
  ports:
    - name: node-agent
      containerPort: {{ $agent.metricsPort }}
  {{- include "joulie.probes" .Values.agent.metricsHost | replace "port: metrics" "port: node-agent" | nindent 2 }}
  securityContext:
    {{- include "joulie.unprivileged" . | nindent 4 }}
  {{- with $agent.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    {{- include "joulie.controllerMounts" . | nindent 4 }}
{{- end -}}

{{/*
The resource manager's container, in the agent's DaemonSet: root for the socket of the container runtime, without capabilities, network
use or API token; nothing of the host is writable but its state directory.
*/}}
{{- define "joulie.resourceManager" -}}
{{- $manager := .Values.agent.resourceManager -}}
- name: resource-manager
  image: {{ include "joulie.image" .Values.containers.image }}
  imagePullPolicy: {{ .Values.containers.image.pullPolicy }}
  args: [manager]
  env:
    - name: NODE_NAME
      valueFrom:
        fieldRef:
          fieldPath: spec.nodeName
    - name: POLICY
      value: {{ $manager.policy }}
    - name: HOST_ROOT
      value: /host
    - name: STATE_DIR
      value: /var/lib/joulie-resources
    {{- if $manager.exportedResources.enabled }}
    - name: EXPORT_HOST_DIR
      value: {{ $manager.hostStatePath | quote }}
    {{- end }}
    - name: NRI_SOCKET
      value: /var/run/nri/nri.sock
    - name: ACTUATOR_SOCKET
      value: /run/joulie/actuator.sock
    {{- if eq (include "joulie.classLimits.mode" .) "Enforce" }}
    - name: CLASS_LIMITS
      value: Enforce
    {{- end }}
    - name: API_SOCKET
      value: /run/joulie/resources.sock
    # The node agent's group.
    - name: API_SOCKET_GID
      value: "65532"
    - name: NODE_AGENT_SOCKET
      value: /run/joulie/node-agent.sock
    - name: METRICS_ADDR
      value: {{ printf "%s:%d" .Values.agent.metricsHost (int $manager.metricsPort) | quote }}
    {{- if .Values.agent.actuator.nvidia.enabled }}
    # Where the NVIDIA runtime is the default one, it must not mount anything here.
    - name: NVIDIA_VISIBLE_DEVICES
      value: void
    {{- end }}
    {{- include "joulie.env" (list $manager.env $manager.extraEnv) | nindent 4 }}
  ports:
    - name: resources
      containerPort: {{ $manager.metricsPort }}
  {{- include "joulie.probes" .Values.agent.metricsHost | replace "port: metrics" "port: resources" | nindent 2 }}
  securityContext:
    runAsUser: 0
    runAsGroup: 0
    runAsNonRoot: false
    readOnlyRootFilesystem: true
    allowPrivilegeEscalation: false
    capabilities:
      drop: [ALL]
    {{- with .Values.agent.actuator.seLinuxOptions }}
    seLinuxOptions:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  {{- with $manager.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    - name: socket
      mountPath: /run/joulie
    - name: nri
      mountPath: /var/run/nri
      readOnly: true
    - name: resources-state
      mountPath: /var/lib/joulie-resources
    {{- range include "joulie.resourceManagerSys" . | fromYamlArray }}
    - name: {{ include "joulie.resourceManagerVolume" . }}
      mountPath: /host/sys/{{ . }}
      readOnly: true
    {{- end }}
    - name: resources-proc
      mountPath: /host/proc
      readOnly: true
{{- end -}}

{{/*
The directories of the node's /sys that it reads: topology, devices and CPU usage of containers. Not /sys as a whole: a read-only mount
leaves file systems mounted below it writable.
*/}}
{{- define "joulie.resourceManagerSys" -}}
- class
- dev
- devices
- fs/cgroup
{{- if .Values.agent.resourceManager.rdt.enabled }}
- fs/resctrl
{{- end }}
{{- end -}}

{{/* Name of the volume of such a directory. */}}
{{- define "joulie.resourceManagerVolume" -}}
resources-sys-{{ replace "/" "-" . }}
{{- end -}}

{{/* Its volumes; that of the sockets is the actuator's. */}}
{{- define "joulie.resourceManagerVolumes" -}}
{{- $manager := .Values.agent.resourceManager -}}
- name: nri
  hostPath:
    path: {{ $manager.hostNriPath | quote }}
    type: Directory
- name: resources-state
  hostPath:
    path: {{ $manager.hostStatePath | quote }}
    type: DirectoryOrCreate
{{- range include "joulie.resourceManagerSys" . | fromYamlArray }}
- name: {{ include "joulie.resourceManagerVolume" . }}
  hostPath:
    path: {{ printf "%s/%s" (trimSuffix "/" $.Values.agent.actuator.hostSysPath) . | quote }}
    type: Directory
{{- end }}
- name: resources-proc
  hostPath:
    path: {{ .Values.agent.actuator.hostProcPath | default "/proc" | quote }}
    type: Directory
{{- end -}}
