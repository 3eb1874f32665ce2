{{/* Whether the agent's account creates Events about pods; empty where it does not. */}}
{{- define "joulie.podEvents.enabled" -}}
{{- if or (and .Values.agent.resourceManager.enabled (eq .Values.agent.mode "daemonset")) (include "joulie.startHook.enabled" .) (and .Values.agent.energyByPod.receipts.enabled (include "joulie.energyByPod.enabled" .)) -}}
true
{{- end -}}
{{- end -}}

{{/*
The container that the container runtime asks before it creates one: root for the runtime's socket, without capabilities, network use or
API token; nothing of the host is writable.
*/}}
{{- define "joulie.startHook" -}}
{{- $hook := .Values.agent.classLimits.startHook -}}
- name: start-hook
  image: {{ include "joulie.image" .Values.containers.image }}
  imagePullPolicy: {{ .Values.containers.image.pullPolicy }}
  args: [start-hook]
  env:
    - name: NRI_SOCKET
      value: /var/run/nri/nri.sock
    - name: START_HOOK_SOCKET
      value: /run/joulie/start-hook.sock
    - name: METRICS_ADDR
      value: {{ printf "%s:%d" .Values.agent.metricsHost (int $hook.metricsPort) | quote }}
    {{- if .Values.agent.actuator.nvidia.enabled }}
    # Where the NVIDIA runtime is the default one, it must not mount anything here.
    - name: NVIDIA_VISIBLE_DEVICES
      value: void
    {{- end }}
    {{- include "joulie.env" (list $hook.env $hook.extraEnv) | nindent 4 }}
  ports:
    - name: start-hook
      containerPort: {{ $hook.metricsPort }}
  {{- include "joulie.probes" .Values.agent.metricsHost | replace "port: metrics" "port: start-hook" | nindent 2 }}
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
  {{- with $hook.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    - name: socket
      mountPath: /run/joulie
    - name: start-hook-nri
      mountPath: /var/run/nri
      readOnly: true
{{- end -}}

{{/* Its volume; that of the socket is the actuator's. Without NRI the directory is not there, and limits are lifted by polling. */}}
{{- define "joulie.startHookVolumes" -}}
- name: start-hook-nri
  hostPath:
    path: {{ .Values.agent.classLimits.startHook.hostNriPath | quote }}
    type: DirectoryOrCreate
{{- end -}}
