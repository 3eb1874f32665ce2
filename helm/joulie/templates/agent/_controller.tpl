{{/* What a container with the API token mounts in daemonset mode. */}}
{{- define "joulie.controllerMounts" -}}
- name: token
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
- name: socket
  mountPath: /run/joulie
{{- end -}}

{{/* Whether the agent adds up energy by pod; empty where it does not. */}}
{{- define "joulie.energyByPod.enabled" -}}
{{- if and .Values.agent.energyByPod.receipts.enabled (not .Values.agent.energyByPod.enabled) -}}
{{- fail "agent.energyByPod.receipts.enabled needs agent.energyByPod.enabled: there is no energy to write receipts of" -}}
{{- end -}}
{{- if and .Values.agent.energyByPod.enabled .Values.agent.power.enabled (eq .Values.agent.mode "daemonset") -}}
true
{{- end -}}
{{- end -}}

{{/* The controller's container: API token and network, no devices, nothing writable. */}}
{{- define "joulie.controller" -}}
{{- $agent := .Values.agent -}}
- name: controller
  image: {{ include "joulie.image" $agent.image }}
  imagePullPolicy: {{ $agent.image.pullPolicy }}
  env:
    {{- include "joulie.identityEnv" . | nindent 4 }}
    - name: AGENT_MODE
      value: {{ $agent.mode }}
    {{- if eq $agent.mode "pool" }}
    - name: POOL_SHARDS
      value: {{ $agent.pool.shards | quote }}
    - name: POOL_NODE_SELECTOR
      value: {{ $agent.pool.nodeSelector | quote }}
    {{- else }}
    - name: NODE_NAME
      valueFrom:
        fieldRef:
          fieldPath: spec.nodeName
    {{- if include "joulie.holders.enabled" . }}
    - name: HOLDERS_SOCKET
      value: /run/joulie/holders.sock
    - name: DEVICE_PROCESSES
      value: {{ $agent.holders.processes.enabled | quote }}
    - name: CLASS_LIMITS
      value: {{ include "joulie.classLimits.mode" . | quote }}
    - name: DEFAULT_MAX_SLOWDOWN
      value: {{ $agent.classLimits.defaultMaxSlowdown | quote }}
    - name: DEFAULT_SLOWDOWN_IS_CONSENT
      value: {{ $agent.classLimits.defaultIsConsent | quote }}
    {{- if include "joulie.startHook.enabled" . }}
    - name: START_HOOK_SOCKET
      value: /run/joulie/start-hook.sock
    {{- end }}
    {{- end }}
    {{- if include "joulie.energyByPod.enabled" . }}
    - name: ENERGY_BY_POD
      value: "true"
    - name: ENERGY_RECEIPTS
      value: {{ $agent.energyByPod.receipts.enabled | quote }}
    {{- end }}
    {{- if $agent.actuator.nvidia.enabled }}
    # Where the NVIDIA runtime is the default one, it must not mount anything here.
    - name: NVIDIA_VISIBLE_DEVICES
      value: void
    {{- end }}
    {{- end }}
    {{- if and .Values.operator.powerDomains.enabled .Values.operator.powerDomains.enforce }}
    - name: POWER_BUDGETS
      value: "On"
    {{- end }}
    - name: METRICS_ADDR
      value: {{ printf "%s:%d" $agent.metricsHost (int $agent.metricsPort) | quote }}
    {{- include "joulie.env" (list $agent.env $agent.extraEnv) | nindent 4 }}
  ports:
    - name: metrics
      containerPort: {{ $agent.metricsPort }}
  {{- include "joulie.probes" $agent.metricsHost | nindent 2 }}
  securityContext:
    {{- include "joulie.unprivileged" . | nindent 4 }}
  {{- with $agent.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
