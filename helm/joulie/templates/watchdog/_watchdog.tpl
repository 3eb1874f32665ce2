{{/* The host watchdog: docs/decisions/0009-host-watchdog.md. */}}
{{- define "joulie.watchdog.name" -}}{{ include "joulie.fullname" . }}-watchdog{{- end -}}

{{- define "joulie.watchdog.enabled" -}}
{{- if and .Values.agent.enabled (eq .Values.agent.mode "daemonset") .Values.agent.watchdog.enabled }}true{{ end -}}
{{- end -}}

{{/* The service: the actuator's program on the same directories, without further rights. */}}
{{- define "joulie.watchdog.service" -}}
{{- $actuator := .Values.agent.actuator -}}
{{- $sys := trimSuffix "/" $actuator.hostSysPath -}}
# Written by the init container "watchdog" of the agent's pods; changes are overwritten when the next pod starts.
[Unit]
Description=Restore power limits that no Joulie actuator holds
# The timer starts it again and again: no limit on starts.
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=/opt/joulie/bin/{{ include "joulie.node.program" . }} restore --if-unowned
TimeoutStartSec=180
RootDirectory=@ROOT@
MountAPIVFS=yes
Environment=HOST_SYS_ROOT=/host-sys STATE_DIR=/var/lib/joulie ACTUATOR_SOCKET=/run/joulie/actuator.sock
Environment=PYTHONDONTWRITEBYTECODE=1
{{- if $actuator.hostProcPath }}
Environment=HOST_PROC_ROOT=/host-proc
BindReadOnlyPaths={{ $actuator.hostProcPath }}:/host-proc
{{- end }}
{{- if $actuator.interrupts.enabled }}
Environment=HOST_IRQ_ROOT=/host-irq
BindPaths={{ $actuator.hostProcPath | default "/proc" | trimSuffix "/" }}/irq:/host-irq
BindReadOnlyPaths={{ $sys }}/kernel/irq:/host-sys/kernel/irq
{{- end }}
BindPaths={{ $actuator.hostStatePath }}:/var/lib/joulie
BindPaths={{ $sys }}/class:/host-sys/class {{ $sys }}/bus:/host-sys/bus {{ $sys }}/devices:/host-sys/devices
ReadOnlyPaths=+/
# Narrower than in a pod: each run makes those writable that exist.
ReadWritePaths=+/var/lib/joulie -+/host-sys/devices/virtual/powercap -+/host-sys/devices/system/cpu
{{- if $actuator.hsmp.enabled }}
ReadWritePaths=-+/host-sys/devices/platform
{{- end }}
{{- if $actuator.interrupts.enabled }}
ReadWritePaths=-+/host-irq
{{- end }}
{{- if or $actuator.nvidia.enabled $actuator.idleStates.enabled }}
# Without it NVIDIA's driver refuses power limits, and the kernel to enable idle states.
CapabilityBoundingSet=CAP_SYS_ADMIN
{{- else }}
CapabilityBoundingSet=
{{- end }}
{{- if $actuator.nvidia.enabled }}
# The driver's library on the node; one directory per candidate, in this order.
{{- range $index, $path := .Values.agent.watchdog.nvidiaLibraries }}
BindReadOnlyPaths=-{{ $path }}:/opt/driver/{{ $index }}/libnvidia-ml.so.1
{{- end }}
{{- end }}
{{- $libraries := list }}
{{- if $actuator.nvidia.enabled }}
{{- range $index, $path := .Values.agent.watchdog.nvidiaLibraries }}{{ $libraries = append $libraries (printf "/opt/driver/%d" $index) }}{{ end }}
{{- end }}
{{- if $actuator.amd.enabled }}
{{- $libraries = append $libraries "/opt/rocm/lib" }}
BindReadOnlyPaths=-{{ $actuator.amd.rocmPath }}:/opt/rocm
# AMD's library writes below /sys itself.
ReadWritePaths=+/sys
{{- end }}
{{- with $libraries }}
Environment=LD_LIBRARY_PATH={{ join ":" . }}
{{- end }}
NoNewPrivileges=yes
PrivateNetwork=yes
RestrictAddressFamilies=AF_UNIX AF_NETLINK
MemoryMax=256M
TasksMax=64
{{- end -}}

{{- define "joulie.watchdog.timer" -}}
# Written by the init container "watchdog" of the agent's pods; changes are overwritten when the next pod starts.
[Unit]
Description=Check every {{ .Values.agent.watchdog.interval }} for power limits that no Joulie actuator holds

[Timer]
OnActiveSec=1s
OnUnitInactiveSec={{ .Values.agent.watchdog.interval }}
# The default is a minute.
AccuracySec=1s

[Install]
WantedBy=timers.target
{{- end -}}

{{/* The init container that installs it, or removes it. Takes (list . command). */}}
{{- define "joulie.watchdog.container" -}}
{{- $root := index . 0 -}}
{{- $agent := $root.Values.agent -}}
- name: watchdog
  image: {{ include "joulie.image" (include "joulie.node.image" $root | fromYaml) }}
  imagePullPolicy: {{ (include "joulie.node.image" $root | fromYaml).pullPolicy }}
  command: [python3, /chart/watchdog.py, {{ index . 1 }}]
  env:
    - name: WATCHDOG_NAME
      value: {{ include "joulie.watchdog.name" $root }}
    - name: WATCHDOG_HOST_DIRECTORY
      value: {{ $agent.watchdog.hostPath | quote }}
  terminationMessagePolicy: FallbackToLogsOnError
  securityContext:
    runAsUser: 0
    runAsGroup: 0
    runAsNonRoot: false
    readOnlyRootFilesystem: true
    allowPrivilegeEscalation: false
    capabilities:
      drop: [ALL]
    {{- with $agent.actuator.seLinuxOptions }}
    seLinuxOptions:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  resources:
    requests:
      cpu: 10m
      memory: 32Mi
      ephemeral-storage: 16Mi
    limits:
      # The page cache of copied files counts, and can be reclaimed.
      memory: 192Mi
      ephemeral-storage: 256Mi
  volumeMounts:
    - name: watchdog-program
      mountPath: /chart
      readOnly: true
    - name: watchdog-directory
      mountPath: /host/watchdog
    - name: watchdog-units
      mountPath: /host/units
    - name: watchdog-systemd
      mountPath: /host/systemd-private
{{- end -}}

{{/* Its volumes. */}}
{{- define "joulie.watchdog.volumes" -}}
- name: watchdog-program
  configMap:
    name: {{ include "joulie.watchdog.name" . }}
- name: watchdog-directory
  hostPath:
    path: {{ .Values.agent.watchdog.hostPath | quote }}
    type: DirectoryOrCreate
- name: watchdog-units
  hostPath:
    path: {{ .Values.agent.watchdog.hostUnitsPath | quote }}
    type: Directory
- name: watchdog-systemd
  hostPath:
    path: {{ .Values.agent.watchdog.hostSystemdSocket | quote }}
    type: Socket
{{- end -}}
