{{/*
The container with the hands, as the agent's pods and the give-back pods have it. It gets no token: their pods mount none.
What needs more than root's own files is told in docs/decisions/0005-chart.md.
*/}}
{{- define "joulie.actuator" -}}
{{- $actuator := .Values.agent.actuator -}}
{{- $grace := get $actuator.env "ACTUATOR_STOP_GRACE" | default "20" | float64 -}}
{{- if lt (int .Values.agent.terminationGracePeriodSeconds) (add (int $grace) 5 | int) -}}
{{- fail (printf "agent.terminationGracePeriodSeconds (%d) must be 5 s or more above ACTUATOR_STOP_GRACE (%g s): limits are given back in between" (int .Values.agent.terminationGracePeriodSeconds) $grace) -}}
{{- end -}}
- name: actuator
  image: {{ include "joulie.image" .Values.agent.image }}
  imagePullPolicy: {{ .Values.agent.image.pullPolicy }}
  args: [actuator]
  env:
    - name: HOST_SYS_ROOT
      value: /host-sys
    {{- if $actuator.hostProcPath }}
    - name: HOST_PROC_ROOT
      value: /host-proc
    {{- end }}
    {{- if $actuator.nvidia.enabled }}
    # The NVIDIA runtime brings the driver's management library into containers that ask for it so.
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
  # Asks over the socket. A device that hangs does not fail it, since no restart cures that; a lease that is not kept does.
  # A start of Python costs about 0.05 s of a core: a minute makes that less than a thousandth. Restoring what a
  # predecessor left comes before the socket, and takes as long as the drivers of GPUs take to open.
  livenessProbe:
    exec:
      command: [joulie-agent, probe]
    initialDelaySeconds: 60
    periodSeconds: 60
    timeoutSeconds: 15
    failureThreshold: 3
  # The uninstall tells why an actuator cannot start.
  terminationMessagePolicy: FallbackToLogsOnError
  securityContext:
    runAsUser: 0
    runAsGroup: 0
    runAsNonRoot: false
    readOnlyRootFilesystem: true
    {{- if $actuator.amd.enabled }}
    # AMD's library opens /dev/dri, which the device cgroup closes to every other container, and writes below /sys itself.
    privileged: true
    {{- else }}
    allowPrivilegeEscalation: false
    capabilities:
      drop: [ALL]
      {{- if $actuator.nvidia.enabled }}
      # NVIDIA's driver takes a power limit from nobody else.
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
    {{- if $actuator.amd.enabled }}
    - name: rocm
      mountPath: /opt/rocm
      readOnly: true
    {{- end }}
{{- end -}}

{{/*
What the actuator sees of the node's /sys, parents first. It reads `class` (links), `bus` (links) and `devices`; it writes below
the directories that say so. Those are the narrowest ones that exist on every node: the kernel creates devices/system/cpu/cpufreq
and devices/virtual/powercap with the first driver, in sysfs nobody else can create a mount point, and a pod whose hostPath is
missing does not start. Not /sys as a whole, although read-only: a read-only mount of it leaves the file systems mounted below it
writable (fs/cgroup, fs/bpf, kernel/debug).
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
{{- end -}}

{{/* Name of the volume of such a directory. */}}
{{- define "joulie.sysVolume" -}}
sys-{{ replace "/" "-" . }}
{{- end -}}

{{/* Its volumes. */}}
{{- define "joulie.actuatorVolumes" -}}
{{- $actuator := .Values.agent.actuator -}}
# The pod's own: no other pod's controller finds this socket.
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
{{- if $actuator.amd.enabled }}
- name: rocm
  hostPath:
    path: {{ $actuator.amd.rocmPath | quote }}
{{- end }}
{{- end -}}

{{/* What a pod with an actuator has in common with every other; keys of a pod's spec. */}}
{{- define "joulie.actuatorPod" -}}
# Two containers of a pod share its network, and the actuator has no use for a name or a token.
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
  # Root without capabilities can give the socket to a group that it is in, and to no other.
  supplementalGroups: [65532]
  seccompProfile:
    type: RuntimeDefault
{{- include "joulie.placement" (list . (dict "nodeSelector" .Values.agent.daemonset.nodeSelector "tolerations" .Values.agent.tolerations "affinity" .Values.agent.affinity "priorityClassName" .Values.agent.priorityClassName)) | nindent 0 }}
{{- end -}}
