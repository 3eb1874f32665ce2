{{/* Whether the agent follows which pods hold the GPUs of its node; empty where it does not. */}}
{{- define "joulie.holders.enabled" -}}
{{- if and .Values.agent.holders.enabled .Values.agent.power.enabled (eq .Values.agent.mode "daemonset") -}}
true
{{- end -}}
{{- end -}}

{{/*
The mode of limits of GPUs by the class of their holders: Off, Shadow or Enforce; empty where holders are not followed. Fails
on a mode that cannot be.
*/}}
{{- define "joulie.classLimits.mode" -}}
{{- /* YAML reads Off without quotes as false. */ -}}
{{- $mode := toString .Values.agent.classLimits.mode | replace "false" "Off" -}}
{{- if and (has $mode (list "Shadow" "Enforce")) (not (include "joulie.holders.enabled" .)) -}}
{{- fail (printf "agent.classLimits.mode is %s, which needs the holders of GPUs: set agent.holders.enabled, with agent.mode: daemonset and agent.power.enabled, or agent.classLimits.mode: Off" $mode) -}}
{{- end -}}
{{- if include "joulie.holders.enabled" . -}}
{{ default "Shadow" $mode }}
{{- end -}}
{{- end -}}

{{/* Whether the agent computes and shows these limits; empty where it does not. */}}
{{- define "joulie.classLimits.shown" -}}
{{- if has (include "joulie.classLimits.mode" .) (list "Shadow" "Enforce") -}}
true
{{- end -}}
{{- end -}}

{{/*
Whether limits by class are lifted before a container starts; empty where they are not. Fails where there is no limit to lift.
*/}}
{{- define "joulie.startHook.enabled" -}}
{{- if .Values.agent.classLimits.startHook.enabled -}}
{{- if ne (include "joulie.classLimits.mode" .) "Enforce" -}}
{{- fail "agent.classLimits.startHook.enabled needs limits that are set: set agent.classLimits.mode: Enforce" -}}
{{- end -}}
true
{{- end -}}
{{- end -}}

{{/*
The container that asks the kubelet: root for the kubelet's directory, without capabilities, network use or API token; nothing of the
host is writable.
*/}}
{{- define "joulie.holders" -}}
{{- $holders := .Values.agent.holders -}}
- name: holders
  image: {{ include "joulie.image" .Values.agent.image }}
  imagePullPolicy: {{ .Values.agent.image.pullPolicy }}
  args: [holders]
  env:
    - name: KUBELET_SOCKET
      value: /var/lib/kubelet/pod-resources/kubelet.sock
    - name: HOLDERS_SOCKET
      value: /run/joulie/holders.sock
    - name: METRICS_ADDR
      value: {{ printf "%s:%d" .Values.agent.metricsHost (int $holders.metricsPort) | quote }}
    {{- if .Values.agent.actuator.nvidia.enabled }}
    # Where the NVIDIA runtime is the default one, it must not mount anything here.
    - name: NVIDIA_VISIBLE_DEVICES
      value: void
    {{- end }}
    {{- include "joulie.env" (list $holders.env $holders.extraEnv) | nindent 4 }}
  ports:
    - name: holders
      containerPort: {{ $holders.metricsPort }}
  {{- include "joulie.probes" .Values.agent.metricsHost | replace "port: metrics" "port: holders" | nindent 2 }}
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
  {{- with $holders.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    - name: socket
      mountPath: /run/joulie
    - name: pod-resources
      mountPath: /var/lib/kubelet/pod-resources
      readOnly: true
{{- end -}}

{{/* Its volume; that of the socket is the actuator's. */}}
{{- define "joulie.holdersVolumes" -}}
- name: pod-resources
  hostPath:
    path: {{ .Values.agent.holders.hostPodResourcesPath | quote }}
    type: Directory
{{- end -}}
