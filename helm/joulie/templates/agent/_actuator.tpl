{{/*
The actuator's container, in the agent's pods and in those of the restore DaemonSet. It has no API token.
What needs more privileges than root's own files: docs/decisions/0005-chart.md.
*/}}
{{- define "joulie.actuator" -}}
{{- $actuator := .Values.agent.actuator -}}
{{- $grace := get $actuator.env "ACTUATOR_STOP_GRACE" | default "20" | float64 -}}
{{- if lt (int .Values.agent.terminationGracePeriodSeconds) (add (int $grace) 5 | int) -}}
{{- fail (printf "agent.terminationGracePeriodSeconds (%d) must be 5 s or more above ACTUATOR_STOP_GRACE (%g s): limits are restored in between" (int .Values.agent.terminationGracePeriodSeconds) $grace) -}}
{{- end -}}
- name: actuator
  image: {{ include "joulie.image" (include "joulie.node.image" . | fromYaml) }}
  imagePullPolicy: {{ (include "joulie.node.image" . | fromYaml).pullPolicy }}
  args: [actuator]
  env:
    - name: HOST_SYS_ROOT
      value: /host-sys
    {{- if $actuator.hostProcPath }}
    - name: HOST_PROC_ROOT
      value: /host-proc
    {{- end }}
    {{- if $actuator.interrupts.enabled }}
    - name: HOST_IRQ_ROOT
      value: /host-irq
    {{- end }}
    {{- if $actuator.nvidia.enabled }}
    # These make the NVIDIA runtime mount the driver's management library.
    - name: NVIDIA_VISIBLE_DEVICES
      value: all
    - name: NVIDIA_DRIVER_CAPABILITIES
      value: utility
    {{- end }}
    {{- if $actuator.amd.enabled }}
    - name: LD_LIBRARY_PATH
      value: /opt/rocm/lib
    {{- end }}
    {{- include "joulie.env" (list $actuator.env $actuator.extraEnv) | nindent 4 }}
  # Queries the actuator over the socket. A device that hangs does not fail it, since a restart does not help; a lease that
  # is not kept does. Each run costs about 0.05 s of a core. Before it opens the socket, the actuator restores what a
  # predecessor left, which takes as long as the GPU drivers take to open.
  livenessProbe:
    exec:
      command: [{{ include "joulie.node.program" . }}, probe]
    initialDelaySeconds: 60
    periodSeconds: 60
    timeoutSeconds: 15
    failureThreshold: 3
  # The verify hook of the uninstall reports why an actuator cannot start.
  terminationMessagePolicy: FallbackToLogsOnError
  securityContext:
    runAsUser: 0
    runAsGroup: 0
    runAsNonRoot: false
    readOnlyRootFilesystem: true
    {{- if $actuator.amd.enabled }}
    # AMD's library opens /dev/dri, which the device cgroup denies to unprivileged containers, and writes below /sys itself.
    privileged: true
    {{- else }}
    allowPrivilegeEscalation: false
    capabilities:
      drop: [ALL]
      {{- if or $actuator.nvidia.enabled $actuator.idleStates.enabled }}
      # Without it NVIDIA's driver refuses power limits, and the kernel to disable idle states.
      add: [SYS_ADMIN]
      {{- end }}
    {{- end }}
    {{- with $actuator.seLinuxOptions }}
    seLinuxOptions:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  {{- with $actuator.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    - name: socket
      mountPath: /run/joulie
    - name: state
      mountPath: /var/lib/joulie
    {{- range include "joulie.sysDirectories" . | fromYamlArray }}
    - name: {{ include "joulie.sysVolume" .path }}
      mountPath: /host-sys/{{ .path }}
      readOnly: {{ not .writable }}
    {{- end }}
    {{- if $actuator.hostProcPath }}
    - name: proc
      mountPath: /host-proc
      readOnly: true
    {{- end }}
    {{- if $actuator.interrupts.enabled }}
    # Runtimes make the container's own read-only.
    - name: irq
      mountPath: /host-irq
    {{- end }}
    {{- if $actuator.amd.enabled }}
    - name: rocm
      mountPath: /opt/rocm
      readOnly: true
    {{- end }}
{{- end -}}

{{/*
The directories of the node's /sys in the actuator's container, parents first. Writable ones are the narrowest that exist on
every node: the kernel creates devices/system/cpu/cpufreq and devices/virtual/powercap with the first driver, mount points cannot be
created in sysfs, and a pod with a missing hostPath does not start. Not /sys as a whole: a read-only mount leaves file systems mounted
below it writable (fs/cgroup, fs/bpf, kernel/debug).
*/}}
{{- define "joulie.sysDirectories" -}}
- {path: class, writable: false}
- {path: bus, writable: false}
- {path: devices, writable: false}
- {path: devices/system/cpu, writable: true}
- {path: devices/virtual, writable: true}
{{- if .Values.agent.actuator.hsmp.enabled }}
- {path: devices/platform, writable: true}
{{- end }}
{{- if .Values.agent.actuator.interrupts.enabled }}
- {path: kernel/irq, writable: false}
{{- end }}
{{- end -}}

{{/* Name of the volume of such a directory. */}}
{{- define "joulie.sysVolume" -}}
sys-{{ replace "/" "-" . }}
{{- end -}}

{{/* Its volumes. */}}
{{- define "joulie.actuatorVolumes" -}}
{{- $actuator := .Values.agent.actuator -}}
# Private to the pod: controllers of other pods cannot reach this socket.
- name: socket
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
- name: state
  hostPath:
    path: {{ $actuator.hostStatePath | quote }}
    type: DirectoryOrCreate
{{- range include "joulie.sysDirectories" . | fromYamlArray }}
- name: {{ include "joulie.sysVolume" .path }}
  hostPath:
    path: {{ printf "%s/%s" (trimSuffix "/" $actuator.hostSysPath) .path | quote }}
    type: Directory
{{- end }}
{{- with $actuator.hostProcPath }}
- name: proc
  hostPath:
    path: {{ . | quote }}
    type: Directory
{{- end }}
{{- if $actuator.interrupts.enabled }}
- name: irq
  hostPath:
    path: {{ printf "%s/irq" ($actuator.hostProcPath | default "/proc" | trimSuffix "/") | quote }}
    type: Directory
{{- end }}
{{- if $actuator.amd.enabled }}
- name: rocm
  hostPath:
    path: {{ $actuator.amd.rocmPath | quote }}
{{- end }}
{{- end -}}

{{/* Common to all pods with an actuator; keys of a pod's spec. */}}
{{- define "joulie.actuatorPod" -}}
# The actuator needs no API token; the controller's is mounted into its container only.
automountServiceAccountToken: false
hostNetwork: {{ .Values.agent.hostNetwork }}
{{- if .Values.agent.hostNetwork }}
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
terminationGracePeriodSeconds: {{ .Values.agent.terminationGracePeriodSeconds }}
{{- with .Values.agent.actuator.nvidia.runtimeClassName }}
{{- if $.Values.agent.actuator.nvidia.enabled }}
runtimeClassName: {{ . }}
{{- end }}
{{- end }}
securityContext:
  # Without capabilities, root can change a file's group only to one of its own groups.
  supplementalGroups: [65532]
  seccompProfile:
    type: RuntimeDefault
{{- include "joulie.placement" (list . (dict "nodeSelector" .Values.agent.daemonset.nodeSelector "tolerations" .Values.agent.tolerations "affinity" .Values.agent.affinity "priorityClassName" .Values.agent.priorityClassName)) | nindent 0 }}
{{- end -}}
